// Replay: what is said of what came out.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "compare/json.h"
#include "compare/replay.h"
#include "tests/host/compare_cases.h"

namespace grout::compare {
namespace {

TEST(CompareReplayed, TheSameIsNoDifference) {
  const ReplayPlan plan = plan_replay(sample_results(), "ref.json");
  const Replayed r = compare_replay(plan, run_again(plan));
  EXPECT_EQ(r.differences, Lines{});
  EXPECT_EQ(r.verdicts, 4);
  EXPECT_EQ(r.reproduced, 4);  // "no figure" among them
  EXPECT_EQ(r.measured, 3);
  EXPECT_EQ(r.summary(), "4 of 4 verdicts reproduced");
  EXPECT_EQ(r.exit_code(), 0);
}
// Changes what came out of the first case, then compares.
Replayed after(const std::function<void(Case&, compare::Run&)>& change) {
  const ReplayPlan plan = plan_replay(sample_results(), "ref.json");
  Results now = run_again(plan);
  change(now.cases[0].value, now.runs[0]);
  return compare_replay(plan, now);
}
const std::string kFirst = "gemm 511x512x513 nn bf16, L2 warm";

TEST(CompareReplayed, SettingsThatWereNotRealised) {
  Replayed r = after([](Case& c, compare::Run&) { c.samples[1].realised = {{"tile", "64x64x32"}, {"stages", "4"}}; });
  EXPECT_EQ(r.differences,
            (Lines{kFirst + ", mma: kernel was mma, now it is not said",
                   kFirst + ", mma: tile was 128x256x64, now 64x64x32", kFirst + ", mma: stages was not said, now 4"}));
  EXPECT_EQ(r.summary(), "4 of 4 verdicts reproduced");
  EXPECT_EQ(r.exit_code(), 1);
  r = after([](Case& c, compare::Run&) { std::swap(c.samples[1].realised[0], c.samples[1].realised[1]); });
  EXPECT_EQ(r.differences, Lines{});
  EXPECT_EQ(r.exit_code(), 0);
}
TEST(CompareReplayed, AVerdictThatChanged) {
  const Replayed r = after([](Case& c, compare::Run&) { c.samples[0].round_us = {20, 19, 21, 20}; });
  EXPECT_EQ(r.differences,
            (Lines{kFirst + ", cublas: device time was 40.00 us [38.00, 42.00], now 20.00 us [19.00, 21.00] (two "
                            "experiments, not paired)",
                   kFirst + ": mma over cublas was faster, 2.000 [1.900, 2.100]; now even, 1.000 [0.950, 1.050]"}));
  EXPECT_EQ(r.summary(), "3 of 4 verdicts reproduced");
  EXPECT_EQ(r.exit_code(), 1);
}
// Chance decides between even and faster where a ratio is within the noise of 1, then and now.
TEST(CompareReplayed, AVerdictWithinTheNoise) {
  const auto verdicts = [](double then, double today) {
    Results reference = sample_results();
    reference.cases.resize(1);
    Case& c = reference.cases[0].value;
    c.pairs = {{"cublas", "mma"}};
    c.samples[1].round_us = {20, 20, 20, 20};
    const auto set = [](Case& of, double ratio) { of.samples[0].round_us = {20 * ratio, 20 * ratio, 20 * ratio, 20 * ratio}; };
    set(c, then);
    const ReplayPlan plan = plan_replay(reference, "ref.json");
    Results now = run_again(plan);
    set(now.cases[0].value, today);
    return compare_replay(plan, now);
  };
  EXPECT_EQ(verdicts(1.009, 1).exit_code(), 0);
  EXPECT_EQ(verdicts(0.991, 1.009).summary(), "1 of 1 verdicts reproduced");
  const Lines said = verdicts(0.991, 1.009).differences;
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[1], kFirst + ": mma over cublas was slower, 0.991 [0.991, 0.991]; now faster, 1.009 [1.009, 1.009] (both within the noise)");
  EXPECT_EQ(verdicts(0.5, 1).exit_code(), 1);
  EXPECT_EQ(verdicts(1.0104, 1).exit_code(), 1);
  EXPECT_EQ(verdicts(1, 1.011).exit_code(), 1);
  EXPECT_EQ(verdicts(0.989, 1.011).summary(), "0 of 1 verdicts reproduced");
}
// 2 m n k of settings that have them, else 0.
double flops_of(const Settings& settings) {
  double flops = 2;
  for (const char* extent : {"m", "n", "k"}) {
    double value = 0;
    for (const auto& [name, text] : settings)
      if (name == extent) value = std::stod(text);
    flops *= value;
  }
  return flops;
}

// What the READMEs quote can be repeated, all of it, and reproduces its verdicts where the same comes out.
TEST(CompareReplayed, TheCommittedEvidence) {
  const auto folder = std::filesystem::path(__FILE__).parent_path().parent_path() / "evidence";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("compare_")) continue;
    ++files;
    const Results committed = read_results(entry.path());
    const ReplayPlan plan = plan_replay(committed, name);
    EXPECT_EQ(plan.notes, Lines{}) << name;
    EXPECT_EQ(plan.cases.size(), committed.cases.size()) << name;
    // FLOPs are those of the extents, of the aligned neighbour those of its own.
    for (const Results::Entry& c : committed.cases)
      for (const Sample& s : c.value.samples)
        if (s.role == Role::policy || s.role == Role::peer) {
          EXPECT_EQ(s.flops, flops_of(s.requested) > 0 ? flops_of(s.requested) : flops_of(c.value.shape))
              << title(c.value) << ", " << s.name;
        }
    size_t pairs = 0, samples = 0, planned = 0;
    for (const Results::Entry& c : committed.cases) pairs += c.value.pairs.size(), samples += c.value.samples.size();
    for (const Planned& p : plan.cases) planned += p.now.samples.size();
    EXPECT_EQ(planned, samples) << name;
    Results now{committed.runs, {}};
    for (const Planned& p : plan.cases) now.cases.push_back({0, p.recorded});
    const Replayed r = compare_replay(plan, now);
    EXPECT_EQ(r.reproduced, static_cast<int>(pairs)) << name;
    EXPECT_EQ(r.exit_code(), 0) << name << ": " << r.summary();
  }
  EXPECT_EQ(files, 3);
}
// How a case was timed is not chosen by its settings: it is said where it differs.
TEST(CompareReplayed, SettlingAndGraphs) {
  const Replayed r = after([](Case& c, compare::Run&) {
    for (Sample& s : c.samples) s.settle_ms = 100;
    c.samples[1].graph = 20;
  });
  EXPECT_EQ(r.exit_code(), 0);
  ASSERT_EQ(r.differences.size(), 6u);
  EXPECT_EQ(r.differences[0], kFirst + ", cublas: batches settled for 0 ms, now 100: the clocks drift now");
  EXPECT_EQ(r.differences[2], kFirst + ", mma: was timed in graphs of 0 runs, now 20 (0: none)");
}
TEST(CompareReplayed, MediansMoveBeyondTheRangesOnly) {
  EXPECT_EQ(after([](Case& c, compare::Run&) {
              c.samples[0].round_us = {42, 44, 44, 44};
            }).differences,
            Lines{});  // both hold 42
  const Replayed r = after([](Case& c, compare::Run&) { c.samples[0].round_us = {42.5, 44, 44, 44}; });
  EXPECT_EQ(r.differences, (Lines{kFirst + ", cublas: device time was 40.00 us [38.00, 42.00], now 44.00 us [42.50, "
                                           "44.00] (two experiments, not paired)"}));
  EXPECT_EQ(r.exit_code(), 0);  // the verdict is the same
}
TEST(CompareReplayed, SamplesThatFailed) {
  Replayed r = after([](Case& c, compare::Run&) { c.samples[1] = failed("mma", Role::policy, "cannot be launched"); });
  EXPECT_EQ(r.differences, (Lines{kFirst + ", mma: no figure now: cannot be launched",
                                  kFirst + ": mma over cublas was faster, 2.000 [1.900, 2.100]; now no figure"}));
  EXPECT_EQ(r.exit_code(), 1);
  r = after([](Case& c, compare::Run&) {  // one without a verdict
    c.samples[4] = failed("copy", Role::ceiling, "out of memory");
    c.samples[4].realised.clear();
  });
  EXPECT_EQ(r.differences, (Lines{kFirst + ", copy: no figure now: out of memory"}));
  EXPECT_EQ(r.summary(), "4 of 4 verdicts reproduced");
  EXPECT_EQ(r.exit_code(), 1);
  // What failed then as well.
  const ReplayPlan plan = plan_replay(sample_results(), "ref.json");
  Results now = run_again(plan);
  now.cases[3].value.samples[1].realised.clear();
  now.cases[3].value.samples[1].failure = "no such kernel";
  r = compare_replay(plan, now);
  EXPECT_EQ(r.differences,
            (Lines{"gemm 65x97x73 nn bf16, L2 warm, mma: no settings were realised now: no such kernel"}));
  EXPECT_EQ(r.exit_code(), 1);
  now.cases[3].value.samples[1] = sample("mma", Role::policy, {20, 20, 20, 20});
  r = compare_replay(plan, now);
  EXPECT_EQ(r.differences.size(), 2u);
  EXPECT_EQ(r.differences[0],
            "gemm 65x97x73 nn bf16, L2 warm, mma: had no figure (wrong at (3, 4): 1.5 where 2.5 | 2.6 was expected), "
            "has one now");
  EXPECT_EQ(r.reproduced, 3);
}
TEST(CompareReplayed, WhatWasNotMeasured) {
  Replayed r = after([](Case& c, compare::Run&) { c.name = "another"; });
  EXPECT_EQ(r.differences, (Lines{kFirst + ": was not measured"}));
  EXPECT_EQ(r.summary(), "3 of 4 verdicts reproduced");
  EXPECT_EQ(r.exit_code(), 1);
  r = after([](Case& c, compare::Run&) { c.samples.pop_back(); });
  EXPECT_EQ(r.differences, (Lines{kFirst + ", copy: was not measured"}));
  EXPECT_EQ(r.exit_code(), 1);
}
TEST(CompareReplayed, AsText) {
  ReplayPlan plan = plan_replay(sample_results(), "ref.json");
  Results now = run_again(plan);
  EXPECT_EQ(replay_text(plan, compare_replay(plan, now)), "4 of 4 verdicts reproduced\n");
  plan.notes = {"a note"};
  now.runs[0].driver = "600";
  EXPECT_EQ(replay_text(plan, compare_replay(plan, now)),
            "- a note\n- driver was 580.1, now 600\n\n4 of 4 verdicts reproduced\n");
}
TEST(CompareReplayed, OtherPrograms) {
  const Replayed r = after([](Case&, compare::Run& run) {
    run.commit = "f00";
    run.dirty = true;
    run.device = "Device Y";
    run.driver = "600";
    run.versions = {{"cublas", "13.2"}};
    run.executables[0].second = "beef";
    run.date = "later";
  });
  EXPECT_EQ(r.differences,
            (Lines{"commit was 0123456789012345678901234567890123456789, now f00", "device was Device X, now Device Y",
                   "driver was 580.1, now 600", "the source did not differ from its commit, now it does",
                   "version of cublas was 13.1, now 13.2",
                   "SHA-256 of compare was " + std::string(64, 'a') + ", now beef"}));  // once, not for each case
  EXPECT_EQ(r.exit_code(), 0);
}
TEST(CompareReplayed, TwoFilesHaveNoRecordedVerdict) {
  const ReplayPlan plan = plan_replay(sample_results(), {"ref.json", ""}, faster_results(), {"cand.json", ""});
  const Replayed r = compare_replay(plan, run_again(plan));
  EXPECT_EQ(r.verdicts, 0);
  EXPECT_EQ(r.measured, 3);
  EXPECT_EQ(r.summary(),
            "no verdict was recorded for what was repeated (samples of two experiments are no pair); 3 measured now");
  EXPECT_EQ(r.exit_code(), 0);
  ASSERT_EQ(r.differences.size(), 1u);
  EXPECT_EQ(r.differences[0].find("SHA-256 of compare was bbb"), 0u);
}

}  // namespace
}  // namespace grout::compare
