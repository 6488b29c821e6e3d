// The arithmetic of paired timing on synthetic times, and one real comparison on the simulated device's host clock.
#include "common/bench.cuh"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace grout {
namespace {

TEST(Statistics, Median) {
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 100, 2}), 3);
}

TEST(Statistics, PairedRatio) {
  const Ratio ratio = paired_ratio({10, 20, 40}, {5, 5, 20});
  EXPECT_EQ(ratio.median, 2);
  EXPECT_EQ(ratio.low, 2);
  EXPECT_EQ(ratio.high, 4);
  EXPECT_THROW((void)paired_ratio({1}, {1, 2}), std::invalid_argument);
  EXPECT_THROW((void)paired_ratio({}, {}), std::invalid_argument);
}

TEST(Statistics, RoundsGoForthAndBack) {
  std::vector<size_t> order;
  const auto times = abba_rounds(3, 2, [&](size_t i) {
    order.push_back(i);
    return static_cast<double>(i);
  });
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(times, (std::vector<std::vector<double>>{{0, 0}, {1, 1}, {2, 2}}));
}

// Every visit is slower than the one before it by the same step; equal entries still come out equal.
TEST(Statistics, LinearDriftCancels) {
  double drift = 100;
  const auto times = abba_rounds(2, 5, [&](size_t i) { return (drift += 3) / (i == 1 ? 2 : 1); });
  EXPECT_NE(times[0][0], times[0][4]);
  const Ratio ratio = paired_ratio(times[0], times[1]);
  EXPECT_NEAR(ratio.median, 2, 1e-12);
  EXPECT_NEAR(ratio.low, 2, 1e-12);
  EXPECT_NEAR(ratio.high, 2, 1e-12);
}

TEST(Statistics, Waves) {
  EXPECT_EQ(describe_waves(561, 132), "561 tiles in 4.25 waves of 132, the last one 25% full");
  EXPECT_EQ(describe_waves(132, 132), "132 tiles in 1.00 waves of 132, the last one 100% full");
  EXPECT_EQ(describe_waves(0, 132), "0 tiles in 0.00 waves of 132, the last one 0% full");
}

// Case 6.4: a rate says of which shape, how many FLOPs and which cache state it is.
TEST(Line, NamesShapeFlopsAndMode) {
  Timing t{"ours", std::vector<double>(10, 736.3), 736.3, {1.25, 1.2, 1.3}, true, 54};
  EXPECT_EQ(
      timing_line(t, "5120x5120x4096 nn bf16", 2.0 * 5120 * 5120 * 4096),
      "ours                 5120x5120x4096 nn bf16  214.7 GFLOP  736.30 us  291.7 TFLOP/s  1.250x [1.200, 1.300]  "
      "L2 cold, 10 ABBA rounds of 2 x 54 runs");
  t.cold = false;
  EXPECT_NE(timing_line(t, "", 1).find("L2 warm"), std::string::npos);
}

TEST(Bench, ComparesEntriesThatSleep) {
  const auto sleeper = [](int us) {
    return [us](cudaStream_t) { std::this_thread::sleep_for(std::chrono::microseconds(us)); };
  };
  for (const bool cold : {true, false}) {
    BenchOptions options = BenchOptions::quick();
    options.cold = cold;
    Bench bench(options);
    const auto timings = bench.compare({{"slow", sleeper(2000)}, {"fast", sleeper(500)}});
    ASSERT_EQ(timings.size(), 2u);
    EXPECT_EQ(timings[0].round_us.size(), 3u);
    EXPECT_EQ(timings[0].speed_up.median, 1);
    EXPECT_GE(timings[0].us, 1990);
    EXPECT_GE(timings[1].us, 490);
    EXPECT_GT(timings[1].speed_up.median, 1);
    EXPECT_GE(timings[1].runs_per_visit, 1);
  }
}

TEST(Bench, SeveralRunsACallNeedAWarmCache) {
  int calls = 0;
  const BenchEntry graph{"graph", [&](cudaStream_t) { ++calls; }, 20};
  EXPECT_THROW((void)Bench(BenchOptions::quick()).compare({graph}), std::invalid_argument);
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace grout
