// The engine of the comparison: what is wrong, at once or only later, has no figure. Its times mean nothing here.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/kernels/compare_faults.cuh"

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
  work.header.protocol = {"sweep", 3, 1, 0.1, 0.1, false};
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
