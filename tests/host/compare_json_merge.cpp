// Results that are added to others, and what of them need not be measured again.
#include <gtest/gtest.h>

#include "compare/json.h"
#include "tests/host/compare_cases.h"

namespace grout::compare {
namespace {

Results one(const Run& run, Case c) {
  Results r;
  r.runs = {run};
  r.cases = {{0, std::move(c)}};
  return r;
}
TEST(CompareMerge, ReplacesWhereItStoodAndKeepsTheRest) {
  Results r = sample_results();
  compare::Run later = sample_run();
  later.date = "2026-02-02T00:00:00Z";
  Case again = sample_case("511x512x513 nn bf16", true);
  again.samples[1].round_us = {10, 10, 10, 10};
  merge(r, one(later, again));
  ASSERT_EQ(r.runs.size(), 2u);
  ASSERT_EQ(r.cases.size(), 4u);
  EXPECT_EQ(r.cases[1].value, again);
  EXPECT_EQ(r.runs[r.cases[1].run], later);
  EXPECT_EQ(r.cases[0], sample_results().cases[0]);  // the warm case of that name stays
  merge(r, one(later, sample_case("new")));
  ASSERT_EQ(r.cases.size(), 5u);
  EXPECT_EQ(r.runs.size(), 2u);  // the same run, which goes on
  EXPECT_EQ(r.cases[4].run, r.cases[1].run);
  Case other_suite = sample_case("new");
  other_suite.suite = "copy";
  merge(r, one(later, other_suite));
  EXPECT_EQ(r.cases.size(), 6u);
  EXPECT_EQ(from_json(to_json(r)), r);
}
TEST(CompareMerge, DropsRunsThatNobodyRefersTo) {
  Results r = one(sample_run(), sample_case());
  compare::Run later = sample_run();
  later.commit = "f";
  Results more = one(later, sample_case());
  more.runs.insert(more.runs.begin(), sample_run());
  more.cases[0].run = 1;
  merge(r, more);
  ASSERT_EQ(r.runs.size(), 1u);
  EXPECT_EQ(r.runs[0], later);
  EXPECT_EQ(r.cases[0].run, 0u);
  Results empty;
  merge(empty, r);
  EXPECT_EQ(empty, r);
  merge(empty, Results{});
  EXPECT_EQ(empty, r);
}
TEST(CompareResume, OnlyWhatIsCompleteAndOfThisProgramAndDevice) {
  const Results have = sample_results();
  const compare::Run now = sample_run();
  Case wanted = sample_case();
  EXPECT_TRUE(is_complete(have, now, wanted));
  wanted.samples.clear(), wanted.pairs.clear();
  EXPECT_TRUE(is_complete(have, now, wanted));
  const auto otherwise = [&](auto change) {
    Case c = sample_case();
    compare::Run r = now;
    change(c, r);
    return is_complete(have, r, c);
  };
  EXPECT_TRUE(otherwise(
      [](Case&, compare::Run& r) { r.date = "later", r.command = "other", r.commit = "other", r.dirty = true; }));
  EXPECT_FALSE(otherwise([](Case& c, compare::Run&) { c.name = "new"; }));
  EXPECT_FALSE(otherwise([](Case& c, compare::Run&) { c.suite = "copy"; }));
  EXPECT_FALSE(otherwise([](Case& c, compare::Run&) { c.protocol = sweep(false); }));
  EXPECT_FALSE(otherwise([](Case& c, compare::Run&) { c.protocol.rounds = 5; }));
  EXPECT_FALSE(otherwise([](Case& c, compare::Run&) { c.shape[0].second = "512"; }));
  EXPECT_FALSE(otherwise([](Case& c, compare::Run&) { c.samples.pop_back(); }));
  EXPECT_FALSE(otherwise([](Case& c, compare::Run&) { c.samples[1].requested = {{"kernel", "mma"}}; }));
  EXPECT_FALSE(otherwise([](Case& c, compare::Run&) { c.pairs.clear(); }));
  EXPECT_FALSE(otherwise([](Case&, compare::Run& r) { r.executables[0].second[0] = 'b'; }));
  EXPECT_FALSE(otherwise([](Case&, compare::Run& r) { r.device = "Device Y"; }));
  EXPECT_FALSE(otherwise([](Case&, compare::Run& r) { r.driver = "581"; }));
  EXPECT_FALSE(otherwise([](Case&, compare::Run& r) { r.versions.clear(); }));
  // A case with a failure is measured again.
  EXPECT_FALSE(is_complete(have, now, have.cases[3].value));
  EXPECT_FALSE(is_complete(Results{}, now, sample_case()));
}

}  // namespace
}  // namespace grout::compare
