// The engine of the comparison: what is wrong, at once or only later, has no figure. Its times mean nothing here.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "compare/policies.cuh"
#include "tests/kernels/compare_faults.cuh"
#include "tests/sim/modes.h"

namespace grout {
namespace {

using namespace test;

TEST(Compare, WhatIsWrongHasNoFigure) {
  const compare::Case c = compare::measure(faulty_work(), {});
  ASSERT_EQ(c.samples.size(), 9u);
  for (const compare::Sample& s : c.samples) {
    const bool right = s.name == fault_name(Fault::none);
    EXPECT_EQ(s.has_figure(), right) << s.name;
    EXPECT_EQ(s.failure.empty(), right) << s.name << ": " << s.failure;
    EXPECT_EQ(s.round_us.size(), right ? 3u : 0u) << s.name;
    EXPECT_EQ(s.round_wall_us.size(), right ? 3u : 0u) << s.name;
    EXPECT_EQ(s.validated, right ? 4 : 0) << s.name;
  }
  EXPECT_EQ(c.samples[0].elements, 65 * 97);
  EXPECT_EQ(verdict(c, c.pairs[0]).kind, compare::Verdict::Kind::even);
  for (size_t i = 1; i < c.pairs.size(); ++i) EXPECT_EQ(verdict(c, c.pairs[i]).kind, compare::Verdict::Kind::none) << c.pairs[i].candidate;
  const auto says = [&](Fault fault, const char* words) {
    const compare::Sample* s = c.find(fault_name(fault));
    ASSERT_NE(s, nullptr);
    EXPECT_NE(s->failure.find(words), std::string::npos) << s->failure;
  };
  says(Fault::one_element, "1 of 6305 elements wrong");
  says(Fault::nan, "1 of 6305 elements wrong");
  says(Fault::nothing, "6305 of 6305 elements wrong");
  EXPECT_EQ(c.find(fault_name(Fault::nothing))->failure.find("after it was timed"), std::string::npos);  // seen at once
  says(Fault::once, "wrong after it was timed: ");
  says(Fault::late, "wrong after it was timed: ");
  says(Fault::padding, "1 padding bytes changed");
  says(Fault::status, "lda=72 is smaller than the stored row of A");
  says(Fault::no_judge, "nothing may be timed unseen");
}

// A judge that looks at nothing is none.
TEST(Compare, AJudgeMustLook) {
  compare::Work work = faulty_work();
  work.policies.resize(1);
  work.policies[0].judge = [] { return compare::Judgement{}; };
  const compare::Case c = compare::measure(std::move(work), {});
  EXPECT_EQ(c.samples[0].failure, "nothing was compared");
  EXPECT_FALSE(c.samples[0].has_figure());
}

// One of them cannot be built, and one takes a setting.
compare::Policy small_policy(const std::string& what, const compare::Settings* forced) {
  return compare::named_policy(what, 3, 5, forced, [&](compare::Policy& p) {
    p.sample.requested = {{"tile", "auto"}};
    if (what == "broken") throw std::runtime_error("it cannot be built");
    p.sample.realised = {{"tile", forced != nullptr ? compare::setting(*forced, "tile") : "64"}};
  });
}

TEST(Compare, PoliciesComeByTheirNames) {
  using compare::Settings;
  compare::Work work;
  compare::add_policies(work, {"plain", "broken"}, nullptr, small_policy);
  ASSERT_EQ(work.policies.size(), 2u);
  const compare::Sample &plain = work.policies[0].sample, &broken = work.policies[1].sample;
  EXPECT_EQ(plain.name, "plain");
  EXPECT_EQ(plain.failure, "");
  EXPECT_EQ(plain.flops, 3);
  EXPECT_EQ(plain.bytes, 5);
  EXPECT_EQ(plain.requested, (Settings{{"policy", "plain"}, {"tile", "auto"}}));
  EXPECT_EQ(plain.realised, (Settings{{"policy", "plain"}, {"tile", "64"}}));
  EXPECT_EQ(broken.name, "broken");
  EXPECT_EQ(broken.failure, "it cannot be built");
  EXPECT_EQ(broken.requested, (Settings{{"policy", "broken"}, {"tile", "auto"}}));
}

// With the settings of then, and nothing chosen: not the names of today, and no ceiling of then.
TEST(Compare, RecordedPoliciesAreRepeated) {
  using compare::Settings;
  std::vector<compare::Sample> recorded(3);
  recorded[0].name = "then", recorded[0].requested = {{"policy", "plain"}, {"tile", "32"}};
  recorded[1].name = "a ceiling", recorded[1].role = compare::Role::ceiling;
  recorded[2].name = "now", recorded[2].requested = {{"policy", "plain"}};
  compare::Work work;
  compare::add_policies(work, {"broken"}, &recorded, small_policy);
  ASSERT_EQ(work.policies.size(), 2u);
  const compare::Sample &then = work.policies[0].sample, &now = work.policies[1].sample;
  EXPECT_EQ(then.name, "then");
  EXPECT_EQ(then.requested, recorded[0].requested);
  EXPECT_EQ(then.realised, (Settings{{"policy", "plain"}, {"tile", "32"}}));
  EXPECT_EQ(now.name, "now");
  EXPECT_EQ(now.failure, "the setting 'tile' is missing");
}

class CompareInTime : public SimulatedTest90 {};

__global__ void set_kernel(int* value, int to) {
  if (threadIdx.x == 0) *value = to;
}
__global__ void peek_kernel(const int* value, int* seen) {
  if (threadIdx.x == 0) *seen = *value;
}

// A run is judged once it is complete. This judge looks with a programmatic launch that does not wait for the launch ahead of
// it: if nothing in between did, it sees what was there before the run.
TEST_F(CompareInTime, ARunIsCompleteBeforeItIsJudged) {
  sim::options().asynchrony = sim::Asynchrony::late;
  DeviceBuffer value(sizeof(int)), seen(sizeof(int));
  constexpr int kPoisoned = 1, kRight = 2;
  const auto run = [&](cudaStream_t stream) {
    require(launch(&set_kernel, dim3(1), dim3(32), 0, stream, value.as<int>(), kRight));
  };
  const auto poison = [&] { value.upload(&kPoisoned); };
  const auto look = [&] {
    LaunchShape shape{dim3(1), dim3(32)};
    shape.programmatic = true;
    require(launch(&peek_kernel, shape, nullptr, value.as<int>(), seen.as<int>()));
    int result = 0;
    seen.download(&result);
    return result;
  };
  if (!thread_sanitizer()) {  // which reports it as the race that it is
    poison(), run(nullptr);
    ASSERT_EQ(look(), kPoisoned) << "this judge cannot tell";
  }
  poison(), run(nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(look(), kRight);

  compare::Work work;
  work.header.protocol = {"sweep", 3, 1, 0.1, 0.1, 0, false};
  compare::Policy p;
  p.sample.name = "looks", p.run = run, p.poison = poison;
  int looks = 0;
  p.judge = [&] {
    ++looks;
    const int result = look();
    return compare::Judgement{1, 0, 0, result == kRight ? "" : "it saw " + std::to_string(result)};
  };
  work.policies.push_back(p);
  const compare::Case c = compare::measure(std::move(work), {});
  EXPECT_EQ(c.samples[0].failure, "");
  EXPECT_EQ(c.samples[0].validated, 4);
  EXPECT_EQ(looks, 4);
}

// Of ceilings and preparations there is one batch a round, of policies and peers as many as the protocol says.
TEST(Compare, CeilingsAndPreparationsAreBrief) {
  compare::Work work;
  work.header.protocol = {"sweep", 3, 4, 0.001, 0.001, 0, false};
  std::vector<int> calls(4);
  using compare::Role;
  for (const Role role : {Role::policy, Role::peer, Role::preparation, Role::ceiling}) {
    compare::Policy p;
    const auto i = static_cast<size_t>(role);
    p.sample.name = compare::role_names[i], p.sample.role = role;
    // Longer than a brief batch and its warm-up: one call each.
    p.run = [&calls, i](cudaStream_t) { ++calls[i], std::this_thread::sleep_for(std::chrono::milliseconds(8)); };
    if (role != Role::ceiling) p.judge = [] { return compare::Judgement{1, 0, 0, ""}; };
    work.policies.push_back(p);
  }
  const compare::Case c = compare::measure(std::move(work), {});
  for (const compare::Sample& s : c.samples) {
    const bool brief = s.role == Role::ceiling || s.role == Role::preparation;
    EXPECT_EQ(s.failure, "") << s.name;
    EXPECT_EQ(s.round_us.size(), 3u) << s.name;
    EXPECT_EQ(s.runs_per_batch, 1) << s.name;
    // One is validated, two warm up; a batch is one that settles and one that is timed.
    EXPECT_EQ(calls[static_cast<size_t>(s.role)], 3 + 3 * (brief ? 1 : 4) * 2) << s.name;
  }
}

// The protocol's settling reaches the timing, and what was settled is written down: for all, where one drifts.
TEST(Compare, SettlesAsTheProtocolSays) {
  for (const double settle_ms : {0.0, 20.0}) {
    compare::Work work;
    work.header.protocol = {"headline", 1, 1, 5, 50, settle_ms, false};
    int calls = 0;
    for (const char* name : {"drifts", "steady"}) {
      compare::Policy p;
      p.sample.name = name;
      p.run = [&calls, slow = *name == 'd'](cudaStream_t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(slow && ++calls > 10 ? 3 : 1));
      };
      p.judge = [] { return compare::Judgement{1, 0, 0, ""}; };
      work.policies.push_back(p);
    }
    for (const compare::Sample& s : compare::measure(std::move(work), {}).samples) {
      EXPECT_EQ(s.failure, "") << s.name;
      EXPECT_EQ(s.settle_ms, settle_ms) << s.name;
    }
  }
}

// What a judgement says is of the element nearest to its bound, not of the largest error.
TEST(Compare, AJudgementIsOfOneElement) {
  Comparison c;
  c.elements = 7, c.max_error = 100, c.max_ratio = 0.5, c.bound = 2;
  EXPECT_EQ(compare::judgement(c).error, 1);
  EXPECT_EQ(compare::judgement(c).bound, 2);
  EXPECT_EQ(compare::judgement(c).elements, 7);
}

// In a graph the runs are those of the graph; a policy of which none can be made has no figure.
TEST(Compare, ShortRunsAreMeasuredInGraphs) {
  compare::Work work;
  work.header.protocol = {"sweep", 3, 1, 0.1, 0.1, 0, false};
  int calls = 0;
  for (const char* name : {"a", "b", "no graph"}) {
    compare::Policy p;
    p.sample.name = name;
    p.run = [&calls](cudaStream_t) { ++calls; };
    p.judge = [] { return compare::Judgement{1, 0, 0, ""}; };
    work.policies.push_back(p);
  }
  const compare::Graph graph = [](const BenchEntry& entry, int repeats) {
    if (entry.name == "no graph") throw std::runtime_error("cannot be captured");
    BenchEntry result = entry;
    result.run = [entry, repeats](cudaStream_t s) {
      for (int i = 0; i < repeats; ++i) entry.run(s);
    };
    result.repeats = repeats;
    return result;
  };
  const compare::Case in_graphs = compare::measure(work, graph);
  EXPECT_EQ(in_graphs.samples[0].graph, compare::kGraphRuns);
  EXPECT_TRUE(in_graphs.samples[1].has_figure());
  EXPECT_NE(in_graphs.samples[2].failure.find("cannot be captured"), std::string::npos);
  EXPECT_FALSE(in_graphs.samples[2].has_figure());
  EXPECT_NE(in_graphs.samples[0].round_us, in_graphs.samples[0].round_wall_us) << "device time is not the host's";
  // Neither a ceiling nor a preparation is made a graph of, nor decides about the others.
  compare::Work mixed = work;
  mixed.policies.resize(1);
  mixed.policies[0].run = [](cudaStream_t) { std::this_thread::sleep_for(std::chrono::microseconds(200)); };
  for (const compare::Role role : {compare::Role::ceiling, compare::Role::preparation}) {
    compare::Policy p = work.policies[1];
    p.sample.name = compare::role_names[static_cast<int>(role)], p.sample.role = role;
    mixed.policies.push_back(p);
  }
  for (const compare::Sample& s : compare::measure(mixed, graph).samples) EXPECT_EQ(s.graph, 0) << s.name;
  mixed.policies[0] = work.policies[0];
  const compare::Case with_short = compare::measure(mixed, graph);
  for (const compare::Sample& s : with_short.samples)
    EXPECT_EQ(s.graph, s.role == compare::Role::policy ? compare::kGraphRuns : 0) << s.name;
  work.graphs = false;
  EXPECT_EQ(compare::measure(work, graph).samples[0].graph, 0);
  work.graphs = true, work.header.protocol.cold = true;
  const compare::Case cold = compare::measure(work, graph);
  EXPECT_EQ(cold.samples[0].graph, 0);
  EXPECT_TRUE(cold.samples[2].has_figure());
}

}  // namespace
}  // namespace grout
