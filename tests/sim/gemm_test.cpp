// The GEMM on the simulated device: seeded cases over every factor of its contract. Published bug reports as cases,
// refusals, and proof that every kernel was run: gemm_*.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "tests/kernels/gemm_call.cu"
#include "tests/sim/gemm_fixture.h"

namespace grout::test {
namespace {

int64_t small_tiles(const GemmCase& x) { return (x.m + 63) / 64 * ((x.n + 63) / 64) * x.batch; }

// Tiles that stick out of M or N, with many k-tiles before the end of K and a ragged or full last one: in every layout and
// tile, vectors that leave their row must neither read past the operand nor bring its padding, NaN, into a result.
TEST_F(Gemm, RaggedSidesBeforeTheEndOfK) {
  struct Shape {
    int64_t m, n;
    int processors;
  };
  int cases = 0;
  std::set<std::string> tiles;
  for (const Shape& shape : {Shape{127, 255, 1}, {121, 250, 1}, {130, 259, 1}, {67, 61, 4}, {1, 3, 1}}) {
    for (const int64_t k : {256, 300, 449, 512}) {
      for (int layout = 0; layout < 4; ++layout) {
        if (thread_sanitizer() && (cases++ % 5 != 0 || shape.n > 200)) continue;
        GemmCase x;
        x.m = shape.m, x.n = shape.n, x.k = k;
        x.trans_a = layout & 2, x.trans_b = layout & 1;
        const auto pad = [](int64_t row) { return (8 - row % 8) % 8; };
        x.pad_a = pad(x.trans_a ? x.m : x.k), x.pad_b = pad(x.trans_b ? x.k : x.n), x.pad_c = pad(x.n);
        x.processors = shape.processors, x.schedule = cases % 10, x.seed = static_cast<uint64_t>(100 + cases);
        GemmChosen chosen;
        ASSERT_TRUE(right(x, &chosen));
        EXPECT_EQ(chosen.path, "bounded") << describe(x);
        tiles.insert(std::to_string(chosen.tile_m) + "x" + std::to_string(chosen.tile_n));
        ++cases;
      }
    }
  }
  if (!thread_sanitizer()) {
    EXPECT_EQ(tiles, (std::set<std::string>{"128x256", "128x128", "64x64"}));
  }
}

TEST_F(Gemm, SeededCases) {
  constexpr int kCases = 480, kLeast = 400, kThreadSanitizerCases = 48, kThreadSanitizerLeast = 20;
  FactorCounts factors;
  std::set<std::string> schedules;
  int ran = 0, launched = 0, failed = 0;
  for (GemmCase x : gemm_cases(kCases, 1)) {
    if (thread_sanitizer()) {
      // At most four blocks, and two schedules, of which the greedy one is best at meeting in the wrong order.
      if (launched == kThreadSanitizerCases) break;
      if (small_tiles(x) < 1 || small_tiles(x) > 4 || x.k < 8 || x.k > 130 || x.alpha == 0) continue;
      x.schedule = launched % 3 == 2 ? 7 : launched % 3 == 1 ? 2 : 3;
      x.processors = launched % 2 ? 1 : 4;  // 1: a block walks several tiles
    } else if (std::max({x.m, x.n, x.k}) >= 257 && ran % 4 != 0) {
      // The largest extent in a quarter of its cases: it is slow, and reaches nothing that 130 does not.
      for (int64_t* extent : {&x.m, &x.n, &x.k})
        if (*extent >= 257) *extent = x.bounds == CallBounds::none || *extent % 32 == 0 ? 128 : 130;
    }
    GemmChosen chosen;
    if (!right(x, &chosen) && ++failed > 10) FAIL() << "more than 10 cases failed";
    ++ran;
    launched += chosen.kernel != "none";
    if (chosen.kernel != "none" && x.bounds != CallBounds::automatic) {
      EXPECT_EQ(chosen.path == "aligned", x.bounds == CallBounds::none) << describe(x);
    }
    count_gemm_factors(factors, x, chosen);
    schedules.insert(std::string(sim::name(sim::options().schedule)) + " " + sim::name(sim::options().asynchrony));
  }
  std::printf("%d cases, %d of them launched a kernel, %zu schedules\n", ran, launched, schedules.size());
  if (thread_sanitizer()) {
    EXPECT_GE(launched, kThreadSanitizerLeast);
    EXPECT_EQ(schedules, (std::set<std::string>{"warp_greedy late", "random late", "random early"}));
    return;
  }
  factors.print();
  expect_gemm_factors(factors, kGemmSizes);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  EXPECT_GE(ran, kLeast);
  EXPECT_EQ(schedules.size(), 10u);
}

// The bytes of the output do not depend on what lies outside the logical operands.
TEST_F(GemmSlow, PaddingChangesNoBit) {
  int compared = 0;
  for (const GemmCase& x : gemm_cases(60, 2, {1, 7, 17, 33, 64, 65, 97})) {
    use(x);
    std::vector<unsigned char> first;
    for (const unsigned char padding : {kPoison, static_cast<unsigned char>(0), static_cast<unsigned char>(0x7f)}) {
      GemmData data(x, guard(), padding);
      ASSERT_TRUE(run_gemm(data.call(), nullptr));
      if (first.empty()) first = data.output();
      else EXPECT_EQ(first, data.output()) << describe(x) << " with padding " << int{padding};
      ++compared;
    }
  }
  std::printf("%d outputs compared\n", compared);
}

TEST_F(GemmSlow, RepeatsAreBitIdentical) {
  GemmCase x;
  x.m = 65, x.n = 97, x.k = 73, x.alpha = 0.5f, x.beta = -1, x.integers = false, x.in_place = false, x.out = ElementType::f32;
  expect_repeats_are_identical(x);
}

}  // namespace
}  // namespace grout::test
