// Replay: what is planned from one file or two.
#include "compare/replay.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "compare/json.h"
#include "tests/host/compare_cases.h"

namespace grout::compare {
namespace {

// ---- plans ----

TEST(CompareReplayPlan, OneFileRepeatsEveryRealisedSetting) {
  const Results ref = sample_results();
  const ReplayPlan plan = plan_replay(ref, "ref.json");
  ASSERT_EQ(plan.cases.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const Case &c = ref.cases[i].value, &now = plan.cases[i].now;
    EXPECT_TRUE(same_case(now, c));
    EXPECT_EQ(now.shape, c.shape);
    EXPECT_EQ(now.protocol, c.protocol);
    EXPECT_EQ(now.flops, c.flops);
    EXPECT_EQ(now.bytes, c.bytes);
    EXPECT_EQ(now.pairs, c.pairs);
    EXPECT_EQ(now.before, Clocks{});
    EXPECT_EQ(plan.cases[i].recorded.samples, c.samples);
    EXPECT_EQ(plan.cases[i].by, std::vector{ref.runs[0]});
    ASSERT_EQ(now.samples.size(), c.samples.size());
    for (size_t j = 0; j < c.samples.size(); ++j) {
      const Sample &s = now.samples[j], &then = c.samples[j];
      EXPECT_EQ(s.name, then.name);
      EXPECT_EQ(s.role, then.role);
      EXPECT_EQ(s.prepares, then.prepares);
      EXPECT_EQ(s.requested, then.realised);  // not what was requested then, which left the choice open
      EXPECT_TRUE(s.realised.empty());
      EXPECT_TRUE(s.round_us.empty() && s.round_wall_us.empty() && s.failure.empty());
      EXPECT_EQ(s.validated, 0);
    }
  }
  EXPECT_TRUE(plan.notes.empty());
}
TEST(CompareReplayPlan, RoundsMayBeOthers) {
  const ReplayPlan plan = plan_replay(sample_results(), "ref.json", 7);
  for (const Planned& p : plan.cases) {
    Protocol expected = p.recorded.protocol;
    expected.rounds = 7;
    EXPECT_EQ(p.now.protocol, expected);
  }
  EXPECT_EQ(refusal_of([] { (void)plan_replay(sample_results(), "ref.json", 0); }), "--rounds 0: at least 1 is needed");
}
TEST(CompareReplayPlan, WhatWasNeverRealisedIsNotChosenAfresh) {
  Results ref = sample_results();
  ref.cases[3].value.samples[1].realised.clear();
  const ReplayPlan plan = plan_replay(ref, "ref.json");
  ASSERT_EQ(plan.cases.size(), 4u);
  EXPECT_EQ(plan.cases[3].now.find("mma"), nullptr);
  EXPECT_EQ(plan.cases[3].now.find("pad"), nullptr);  // what it would have prepared is not there
  EXPECT_NE(plan.cases[3].now.find("cublas"), nullptr);
  EXPECT_TRUE(plan.cases[3].now.pairs.empty());
  ASSERT_EQ(plan.notes.size(), 2u);
  EXPECT_EQ(plan.notes[0],
            "gemm 65x97x73 nn bf16, L2 warm, mma: not repeated, as no settings of it were realised (wrong at (3, 4): "
            "1.5 where "
            "2.5 | 2.6 was expected)");
  EXPECT_EQ(plan.notes[1], "gemm 65x97x73 nn bf16, L2 warm, pad: not repeated, as mma is not");
  ASSERT_TRUE(ref.cases[0].value.find("multiply-adds")->realised.empty());  // nothing to set, and a figure: repeated
  EXPECT_NE(plan_replay(ref, "ref.json").cases[0].now.find("multiply-adds"), nullptr);
  for (auto& [run, c] : ref.cases)
    for (Sample& s : c.samples) s = failed(s.name, s.role, "no"), s.realised.clear();
  EXPECT_EQ(refusal_of([&] { (void)plan_replay(ref, "ref.json"); }), "ref.json: has no case that could be repeated");
  EXPECT_EQ(refusal_of([&] { (void)plan_replay(Results{}, "ref.json"); }),
            "ref.json: has no case that could be repeated");
}
// A planned case, once measured, can be written.
TEST(CompareReplayPlan, PlansHoldTogether) {
  Results ref = sample_results();
  ref.cases[3].value.samples[1].realised.clear();
  EXPECT_EQ(refusal_of([&] { (void)to_json(run_again(plan_replay(ref, "ref.json"))); }), "taken");
  EXPECT_EQ(
      refusal_of([&] {
        (void)to_json(run_again(plan_replay(sample_results(), {"ref.json", ""}, sample_results(), {"cand.json", ""})));
      }),
      "taken");
}

TEST(CompareReplayPlan, TwoFilesSetTheirPoliciesAgainstEachOther) {
  Results candidate = faster_results();
  candidate.cases.erase(candidate.cases.begin() + 1);
  candidate.cases.push_back({0, sample_case("only here")});
  const ReplayPlan plan = plan_replay(sample_results(), {"ref.json", ""}, candidate, {"cand.json", ""});
  ASSERT_EQ(plan.cases.size(), 3u);  // the cold case is not in both
  const Planned& p = plan.cases[0];
  Lines names;
  for (const Sample& s : p.now.samples) names.push_back(s.name);
  EXPECT_EQ(names,
            (Lines{"reference: mma", "reference: pad", "candidate: wgmma", "candidate: pad", "multiply-adds", "copy"}));
  EXPECT_EQ(p.now.pairs, (std::vector<Pair>{{"reference: mma", "candidate: wgmma"}}));
  EXPECT_TRUE(p.recorded.pairs.empty());  // two experiments
  EXPECT_EQ(p.now.find("reference: mma")->requested, (Settings{{"kernel", "mma"}, {"tile", "128x256x64"}}));
  EXPECT_EQ(p.now.find("candidate: wgmma")->requested, (Settings{{"kernel", "wgmma"}}));
  EXPECT_EQ(p.now.find("candidate: pad")->prepares, "candidate: wgmma");
  EXPECT_EQ(p.now.find("copy")->role, Role::ceiling);
  ASSERT_EQ(p.by.size(), 2u);
  EXPECT_EQ(p.by[1].executables[0].second, std::string(64, 'b'));
}
TEST(CompareReplayPlan, ANamedSampleReplacesThePolicy) {
  const ReplayPlan plan =
      plan_replay(sample_results(), {"ref.json", "cublas"}, faster_results(), {"cand.json", "wgmma"}, 5);
  EXPECT_EQ(plan.cases[0].now.pairs, (std::vector<Pair>{{"reference: cublas", "candidate: wgmma"}}));
  EXPECT_EQ(plan.cases[0].now.find("reference: cublas")->role, Role::peer);
  EXPECT_EQ(plan.cases[0].now.find("reference: pad"), nullptr);
  EXPECT_EQ(plan.cases[0].now.protocol.rounds, 5);
}
TEST(CompareReplayPlan, TwoFilesThatDoNotMatch) {
  const auto refused = [](const Results& ref, const std::string& sample, const Results& candidate) {
    return refusal_of([&] { (void)plan_replay(ref, {"ref.json", sample}, candidate, {"cand.json", ""}); });
  };
  Results other = sample_results();
  for (auto& [run, c] : other.cases) c.suite = "copy";
  EXPECT_EQ(refused(sample_results(), "", other),
            "ref.json and cand.json: have no case in common (suite, name and cache mode)");
  other = sample_results();
  other.cases[0].value.shape[0].second = "1";
  EXPECT_EQ(refused(sample_results(), "", other),
            "ref.json and cand.json: gemm 511x512x513 nn bf16, L2 warm has different shapes under one name");
  EXPECT_EQ(refused(sample_results(), "nobody", sample_results()),
            "nothing to repeat: gemm 511x512x513 nn bf16, L2 warm: not repeated: ref.json has no sample nobody with "
            "realised settings there");
  EXPECT_EQ(refused(sample_results(), "copy", sample_results()),
            "ref.json: copy of gemm 511x512x513 nn bf16, L2 warm is a ceiling, which is part of no ratio");
  Results peers = sample_results();
  for (auto& [run, c] : peers.cases) c.samples.resize(1), c.pairs.clear();
  EXPECT_EQ(refused(peers, "", sample_results()),
            "nothing to repeat: gemm 511x512x513 nn bf16, L2 warm: not repeated: ref.json has no policy with realised "
            "settings there");
  Results longer = sample_results();
  longer.cases[0].value.protocol.batches = 3;
  const ReplayPlan plan = plan_replay(sample_results(), {"ref.json", ""}, longer, {"cand.json", ""});
  EXPECT_EQ(plan.notes, (Lines{"gemm 511x512x513 nn bf16, L2 warm: the protocols differ; the reference's is used"}));
  EXPECT_EQ(plan.cases[0].now.protocol.batches, 9);
}
TEST(CompareReplaySource, FileAndSample) {
  const auto source = [](const std::string& argument) {
    const ReplaySource s = replay_source(argument);
    return std::pair{s.file.string(), s.sample};
  };
  EXPECT_EQ(source("a/ref.json"), (std::pair<std::string, std::string>{"a/ref.json", ""}));
  EXPECT_EQ(source("a/ref.json:mma 128"), (std::pair<std::string, std::string>{"a/ref.json", "mma 128"}));
  const auto file = std::filesystem::temp_directory_path() / ("grout_replay:" + std::to_string(getpid()));
  std::ofstream(file) << "{}";
  EXPECT_EQ(source(file.string()), (std::pair<std::string, std::string>{file.string(), ""}));
  EXPECT_EQ(source(file.string() + ":mma"), (std::pair<std::string, std::string>{file.string(), "mma"}));
  std::filesystem::remove(file);
  EXPECT_EQ(refusal_of([&] { (void)source("ref.json:"); }), "ref.json:: the colon is followed by no sample's name");
}

// A replay replaces no results; a suite's are merged.
TEST(CompareReplaySource, OutputApart) {
  const auto folder = std::filesystem::temp_directory_path() / ("grout_output_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const auto file = folder / "results.json", nowhere = folder / "nowhere";
  for (const bool replay : {false, true}) {
    EXPECT_EQ(refusal_of([&] { require_output(folder / "new", replay); }), "taken");
    EXPECT_EQ(refusal_of([&] { require_output(folder, replay); }), "taken");  // there is none yet
  }
  const std::string words = ": would be replaced by what is measured now; give another OUTDIR";
  std::filesystem::create_symlink(nowhere, file);
  EXPECT_EQ(refusal_of([&] { require_output(folder, true); }), file.string() + words);
  std::filesystem::remove(file);
  std::ofstream(file) << "{}";
  EXPECT_EQ(refusal_of([&] { require_output(folder, false); }), "taken");
  EXPECT_EQ(refusal_of([&] { require_output(folder, true); }), file.string() + words);
  for (const bool replay : {false, true})
    EXPECT_EQ(refusal_of([&] { require_output(file, replay); }), file.string() + ": is a file; OUTDIR is a folder");
  std::filesystem::remove_all(folder);
}

// What a suite brings back under its own names' roles, or not at all, can be written all the same.
TEST(CompareReplayPlan, WhatWasMeasuredIsHeldToIt) {
  const ReplayPlan plan = plan_replay(sample_results(), {"ref.json", ""}, sample_results(), {"cand.json", ""});
  Results now = run_again(plan);
  Case& c = now.cases[0].value;
  const Case as_it_should_be = c;
  for (Sample& s : c.samples) s.prepares = s.role == Role::preparation ? "mma" : "";
  c.samples[3].role = Role::policy, c.samples[3].prepares = "";
  c.pairs = {{"cublas", "mma"}};
  EXPECT_NE(refusal_of([&] { (void)to_json(now); }), "taken");
  hold_to_plan(c, plan.cases[0].now);
  EXPECT_EQ(c, as_it_should_be);
  c.samples.erase(c.samples.begin() + 2);
  c.samples.push_back(failed("extra", Role::ceiling, "no"));
  c.samples.push_back(sample("another", Role::peer, {1, 2, 3, 4}));
  hold_to_plan(c, plan.cases[0].now);
  EXPECT_EQ(c.find("candidate: mma")->failure, "no");
  EXPECT_EQ(c.find("extra"), nullptr);
  EXPECT_NE(c.find("another"), nullptr);
  EXPECT_EQ(refusal_of([&] { (void)to_json(now); }), "taken");
  c.samples = {failed("the case", Role::policy, "out of memory")};
  c.pairs.clear();
  hold_to_plan(c, plan.cases[0].now);
  EXPECT_EQ(c.samples.size(), as_it_should_be.samples.size());
  for (const Sample& s : c.samples) EXPECT_EQ(s.failure, "out of memory") << s.name;
  EXPECT_EQ(c.pairs, as_it_should_be.pairs);
  EXPECT_EQ(refusal_of([&] { (void)to_json(now); }), "taken");
  EXPECT_EQ(compare_replay(plan, now).exit_code(), 1);
}

}  // namespace
}  // namespace grout::compare
