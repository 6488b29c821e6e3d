// The arithmetic of paired timing on synthetic times whose medians and ratios are known.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "common/statistics.h"
#include "tests/host/compare_cases.h"

namespace grout {
namespace {

TEST(Statistics, Median) {
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 100, 2}), 3);  // the mean of 2 and 4
  EXPECT_EQ(median({2, 2}), 2);
}
TEST(Statistics, AnOutlierMovesTheRangeAndNotTheMedian) {
  const Ratio r = paired_ratio({20, 20, 20, 20, 2000}, {10, 10, 10, 10, 10});
  EXPECT_EQ(r.median, 2);
  EXPECT_EQ(r.low, 2);
  EXPECT_EQ(r.high, 200);
}
TEST(Statistics, RatiosArePairedByRound) {
  // The quotient of the medians would be 2; round by round they are 3, 3, 1/3.
  const Ratio r = paired_ratio({30, 60, 10}, {10, 20, 30});
  EXPECT_EQ(r.median, 3);
  EXPECT_EQ(r.low, 10. / 30);
  EXPECT_EQ(r.high, 3);
  EXPECT_EQ(median({30, 60, 10}) / median({10, 20, 30}), 1.5);
}
TEST(Statistics, UnequalCountsHaveNoRatio) {
  EXPECT_THROW((void)paired_ratio({1}, {1, 2}), std::invalid_argument);
  EXPECT_THROW((void)paired_ratio({}, {}), std::invalid_argument);
}

// Each round visits all; over an even number of rounds each entry's mean place is the same, so a drift that is linear
// in time falls on all alike.
// Every turn visits every entry once; over as many turns as there are entries each stands in each place once; over twice as many each
// comes directly behind each other one equally often.
TEST(Statistics, VisitingOrderIsCounterbalanced) {
  EXPECT_TRUE(visiting_order(0, 3).empty());
  EXPECT_EQ(visiting_order(2, 0), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(visiting_order(2, 1), (std::vector<size_t>{1, 0}));
  EXPECT_EQ(visiting_order(2, 2), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(visiting_order(4, 0), (std::vector<size_t>{0, 1, 3, 2}));
  for (size_t entries = 1; entries <= 12; ++entries) {
    std::vector<std::vector<int>> places(entries, std::vector<int>(entries)), behind = places;
    for (int turn = 0; turn < 2 * static_cast<int>(entries); ++turn) {
      const std::vector<size_t> order = visiting_order(entries, turn);
      std::vector<size_t> sorted = order;
      std::sort(sorted.begin(), sorted.end());
      for (size_t i = 0; i < entries; ++i) ASSERT_EQ(sorted[i], i) << entries << " entries, turn " << turn;
      for (size_t i = 0; i < entries; ++i) ++places[order[i]][i];
      for (size_t i = 1; i < entries; ++i) ++behind[order[i]][order[i - 1]];
      if (turn + 1 != static_cast<int>(entries)) continue;
      for (const auto& of : places)
        for (const int count : of) EXPECT_EQ(count, 1) << entries << " entries";
    }
    for (size_t a = 0; a < entries; ++a)
      for (size_t b = 0; b < entries; ++b) EXPECT_EQ(behind[a][b], a == b ? 0 : 2) << entries << " entries, " << a << " behind " << b;
  }
}
TEST(Statistics, NeighboursUnderDriftKeepTheirRatio) {
  // A is twice as fast as B; the clock slows by 1 % a visit. The median over forth-and-back rounds stays within the
  // drift of a visit, while always visiting A first would favour it by exactly one.
  std::vector<double> a, b, always_first_a, always_first_b;
  double slow = 1;
  for (int round = 0; round < 8; ++round)
    for (const size_t i : visiting_order(2, round)) (i == 0 ? a : b).push_back((i == 0 ? 10 : 20) * slow), slow *= 1.01;
  const Ratio r = paired_ratio(b, a);
  EXPECT_NEAR(r.median, 2, 2e-4);
  EXPECT_NEAR(r.low, 2 / 1.01, 1e-12);
  EXPECT_NEAR(r.high, 2 * 1.01, 1e-12);
  slow = 1;
  for (int round = 0; round < 8; ++round) {
    always_first_a.push_back(10 * slow), slow *= 1.01;
    always_first_b.push_back(20 * slow), slow *= 1.01;
  }
  EXPECT_NEAR(paired_ratio(always_first_b, always_first_a).median, 2 * 1.01, 1e-12);
}
TEST(Statistics, NoiseKeepsTheRatioWithinItsRange) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> noise(0.98, 1.02);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<double> a, b;
    for (int round = 0; round < 10; ++round) a.push_back(13 * noise(random)), b.push_back(10 * noise(random));
    const Ratio r = paired_ratio(a, b);
    EXPECT_LE(r.low, r.median);
    EXPECT_LE(r.median, r.high);
    EXPECT_GT(r.low, 1.3 * 0.98 / 1.02);
    EXPECT_LT(r.high, 1.3 * 1.02 / 0.98);
  }
}

TEST(Statistics, Waves) {
  EXPECT_EQ(waves(561, 132).waves, 4.25);
  EXPECT_EQ(waves(561, 132).last_fill, 33. / 132);
  EXPECT_EQ(waves(132, 132).waves, 1);
  EXPECT_EQ(waves(132, 132).last_fill, 1);
  EXPECT_EQ(waves(1, 264).last_fill, 1. / 264);
  EXPECT_EQ(waves(133, 132).last_fill, 1. / 132);
  for (const auto& [tiles, resident] : {std::pair{0, 132}, {5, 0}, {-1, 132}}) {
    EXPECT_EQ(waves(tiles, resident).waves, 0);
    EXPECT_EQ(waves(tiles, resident).last_fill, 0);
  }
}

namespace c = compare;
using Kind = c::Verdict::Kind;

Kind kind(std::vector<double> base, std::vector<double> candidate) {
  c::Case k = c::sample_case();
  k.samples[0].round_us = std::move(base), k.samples[1].round_us = std::move(candidate);
  return c::verdict(k, k.pairs[0]).kind;
}
TEST(Verdict, TheWholeRangeDecides) {
  EXPECT_EQ(kind({20, 20, 20, 11}, {10, 10, 10, 10}), Kind::faster);
  EXPECT_EQ(kind({20, 20, 20, 10}, {10, 10, 10, 10}), Kind::even);  // one round at 1
  EXPECT_EQ(kind({20, 20, 20, 9}, {10, 10, 10, 10}), Kind::even);
  EXPECT_EQ(kind({5, 5, 5, 9}, {10, 10, 10, 10}), Kind::slower);
}
TEST(Verdict, NoFigureNoVerdict) {
  c::Case k = c::sample_case();
  EXPECT_EQ(c::validated_pairs(k, k.pairs[0]), 4);
  EXPECT_EQ(c::verdict(k, {"cublas", "nobody"}).kind, Kind::none);
  k.samples[0].validated = 4;
  EXPECT_EQ(c::validated_pairs(k, k.pairs[0]), 3);
  EXPECT_EQ(c::counts(k).validated_pairs, 3);
  EXPECT_EQ(c::counts(k).validations, 14);
  EXPECT_EQ(c::counts(k).failures, 0);
  k.samples[1] = c::failed("mma", c::Role::policy, "wrong");
  EXPECT_EQ(c::verdict(k, k.pairs[0]).kind, Kind::none);
  EXPECT_EQ(c::validated_pairs(k, k.pairs[0]), 0);
  EXPECT_EQ(c::counts(k).validations, 9);
  EXPECT_EQ(c::counts(k).failures, 1);
}

// A sample that failed has no figure, whatever its rounds say; one without rounds has none either, and counts as a failure; a pair
// is as valid as the less valid of its two.
TEST(Record, WhatHasAFigure) {
  c::Case x;
  x.samples.resize(3);
  x.samples[0].name = "base", x.samples[0].validated = 5, x.samples[0].round_us = {1, 1, 1, 1};
  x.samples[1].name = "candidate", x.samples[1].validated = 3, x.samples[1].round_us = {1, 1, 1, 1};
  x.samples[2].name = "failed", x.samples[2].validated = 5, x.samples[2].round_us = {1, 1, 1, 1}, x.samples[2].failure = "one wrong";
  EXPECT_EQ(c::validated_pairs(x, {"base", "candidate"}), 2);
  EXPECT_EQ(c::validated_pairs(x, {"candidate", "base"}), 2);
  EXPECT_TRUE(x.samples[0].has_figure());
  EXPECT_FALSE(x.samples[2].has_figure());
  EXPECT_EQ(c::validated_pairs(x, {"base", "failed"}), 0);
  EXPECT_EQ(c::verdict(x, {"base", "failed"}).kind, Kind::none);
  EXPECT_EQ(c::counts(x).failures, 1);
  x.samples[1].round_us.clear();
  EXPECT_FALSE(x.samples[1].has_figure());
  EXPECT_EQ(c::counts(x).failures, 2);
}

}  // namespace
}  // namespace grout
