// The single-stage fp32 GEMM on the simulated device: seeded cases over every factor of the GEMM's contract, every tile and
// batch, edges of K, and refusals.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "tests/kernels/gemm_batched_cases.cuh"
#include "tests/sim/modes.h"

namespace grout::test {
namespace {

class GemmBatched : public SimulatedTest {
 protected:
  static void use(const GemmCase& x) {
    sim::options().schedule = sim::kSchedules[x.schedule % 5];
    sim::options().asynchrony = sim::kAsynchronies[x.schedule / 5];
    sim::options().seed = x.seed, sim::options().sms = x.processors;
  }
};
class GemmBatchedSlow : public GemmBatched {
 protected:
  void SetUp() override {
    GemmBatched::SetUp();
    if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only (1 ms a simulated thread)";
  }
};

TEST_F(GemmBatched, SeededCases) {
  constexpr int kCases = 600, kThreadSanitizerCases = 36;
  FactorCounts factors;
  std::set<std::string> modes;
  int ran = 0, launched = 0;
  for (BatchedGemmCase c : batched_gemm_cases(kCases, 21)) {
    GemmCase& x = c.x;
    if (thread_sanitizer()) {  // at most four blocks; every second one walks several tiles
      const int64_t tiles = (x.m + 31) / 32 * ((x.n + 63) / 64) * x.batch;
      if (launched == kThreadSanitizerCases) break;
      if (tiles < 1 || tiles > 4 || x.k < 8 || x.k > 130 || x.alpha == 0) continue;
      x.schedule = launched % 3 == 2 ? 7 : launched % 3 == 1 ? 2 : 3;
      x.processors = launched % 2 ? 1 : 4;
    }
    use(x);
    GemmBatchedReport report;
    ASSERT_EQ(run_batched_gemm(c, guard(), &report), "");
    ++ran;
    launched += report.choice.tiles != 0;
    count_gemm_factors(factors, x, {report.choice.tiles == 0 ? "none" : "batched", gemm_path_name(report.choice.path)});
    factors.count("tile", kBatchedTileNames[static_cast<int>(c.policy.tile)]),
        factors.count("max_copy_batch", c.policy.max_copy_batch);
    modes.insert(mode());
  }
  std::printf("%d cases, %d of them launched a kernel, %zu schedules\n", ran, launched, modes.size());
  if (thread_sanitizer()) {
    EXPECT_EQ(launched, kThreadSanitizerCases);
    EXPECT_EQ(modes, (std::set<std::string>{"warp_greedy late", "random late", "random early"}));
    return;
  }
  factors.print();
  expect_gemm_factors(factors, kGemmSizes, {ElementType::f32});
  for (const char* tile : kBatchedTileNames) factors.expect<const char*>("tile", {tile});
  factors.expect<int>("max_copy_batch", {1, 2, 3, 4, 5, 7, 8, 12, 15, 16});
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  EXPECT_EQ(ran, kCases);
  EXPECT_EQ(modes.size(), 10u);
}

// Blocks that do several tiles without a product, so that only the last barrier of a tile stands between one's sums and the
// next one's. They are all zero: only ThreadSanitizer would see that it is missing.
TEST_F(GemmBatched, TilesWithoutProducts) {
  for (int schedule : {3, 2, 7}) {
    BatchedGemmCase c;
    c.x.m = 200, c.x.n = 50, c.x.k = 0, c.x.type = c.x.out = ElementType::f32, c.x.beta = -1, c.x.in_place = false;
    c.x.processors = 1, c.x.schedule = schedule;
    use(c.x);
    ASSERT_EQ(run_batched_gemm(c, guard()), "");
  }
}

// Every tile, layout and batch, with and without full tiles, so that every kernel runs: shapes around the tile, several
// tiles a block.
TEST_F(GemmBatchedSlow, EveryKernel) {
  int ran = 0;
  for (const GemmBatchedTiles tile : kBatchedTiles)
    for (int layout = 0; layout < 4; ++layout)
      for (const int batch : {1, 2, 4, 8, 16})
        for (const bool full : {true, false}) {
          BatchedGemmCase c;
          c.policy = {tile, batch};
          GemmCase& x = c.x;
          x.type = x.out = ElementType::f32, x.trans_a = layout & 1, x.trans_b = layout & 2;
          x.m = full ? 192 : 65, x.n = full ? 64 : 97, x.k = full ? 64 : 73;
          x.pad_a = ran % 5, x.pad_b = ran % 3, x.offset_a = ran % 4, x.offset_b = ran % 7, x.beta = ran % 2 ? -1.f : 0.f;
          x.processors = 1, x.schedule = ran % 10, x.seed = static_cast<uint64_t>(ran);
          use(x);
          ASSERT_EQ(run_batched_gemm(c, guard()), "");
          ++ran;
        }
  const std::vector<const void*> kernels = batched_gemm_kernels();
  EXPECT_EQ(std::set<const void*>(kernels.begin(), kernels.end()).size(), 64u);
  for (const void* kernel : kernels) EXPECT_TRUE(sim::launched_kernels().count(kernel));
}

// Sums of K ones are K: nothing of K is dropped, added twice, or left from the tile before.
TEST_F(GemmBatchedSlow, EveryLengthOfK) {
  for (const GemmBatchedTiles tile : kBatchedTiles)
    for (int64_t k = 0; k <= 67; ++k) {
      const int64_t m = 33, n = 65;
      const std::vector<float> ones(static_cast<size_t>((m + n) * (k + 1)), 1.0f), poison(static_cast<size_t>(m * n), -7.0f);
      DeviceBuffer a(ones.size() * 4), b(ones.size() * 4), d(poison.size() * 4);
      a.upload(ones.data()), b.upload(ones.data()), d.upload(poison.data());
      GemmArguments g{.m = m,
                      .n = n,
                      .k = k,
                      .type = ElementType::f32,
                      .out = ElementType::f32,
                      .trans_b = k % 2 == 1,
                      .a = a.data(),
                      .b = b.data(),
                      .d = d.data(),
                      .lda = k,
                      .ldb = k % 2 == 1 ? k : n,
                      .ldc = n};
      sim::options().schedule = sim::kSchedules[k % 5];
      const Status status = gemm_batched(g, {tile, static_cast<int>(1 + k % 16)}, nullptr);
      ASSERT_TRUE(status) << status.message;
      std::vector<float> got(poison.size());
      d.download(got.data());
      for (const float value : got) ASSERT_EQ(value, static_cast<float>(k)) << "K=" << k;
    }
}

// The bytes of the output do not depend on what lies outside the logical operands, nor on the batch.
TEST_F(GemmBatchedSlow, PaddingAndBatchChangeNoBit) {
  for (BatchedGemmCase c : batched_gemm_cases(40, 22, {1, 7, 17, 33, 64, 65, 97})) {
    use(c.x);
    std::vector<unsigned char> first;
    for (const unsigned char padding : {kPoison, static_cast<unsigned char>(0), static_cast<unsigned char>(0x7f)})
      for (const int batch : {1, 4, 16}) {
        c.policy.max_copy_batch = batch;
        const GemmData data(c.x, guard(), padding);
        ASSERT_TRUE(gemm_batched(arguments(data.call()), c.policy, nullptr));
        if (first.empty()) first = data.output();
        ASSERT_EQ(first, data.output()) << describe(c) << " with padding " << int{padding};
      }
  }
}

TEST_F(GemmBatched, RefusalsTouchNothing) {
  GemmCase x;
  x.m = 5, x.n = 7, x.k = 3, x.type = x.out = ElementType::f32;
  const auto refused = [&](const GemmBatchedPolicy& policy, auto change, const std::string& message) {
    const GemmData data(x, guard());
    GemmArguments g = arguments(data.call());
    change(g);
    GemmBatchedReport report;
    const Status status = gemm_batched(g, policy, nullptr, &report);
    EXPECT_EQ(status.code, Code::invalid);
    EXPECT_EQ(status.message, message);
    EXPECT_STREQ(report.choice.kernel, "none");
    EXPECT_EQ(data.output(), data.d.bytes);
  };
  const auto nothing = [](GemmArguments&) {};
  const auto bounds = [](GemmArguments& g) { g.bounds = GemmBounds::none; };
  refused({.max_copy_batch = 0}, nothing, "max_copy_batch is 0: 1 to 16 is accepted");
  refused({.max_copy_batch = 17}, nothing, "max_copy_batch is 17: 1 to 16 is accepted");
  refused(
      {}, [](GemmArguments& g) { g.type = ElementType::bf16; },
      "gemm_batched multiplies f32: A and B of type bf16 need kernel mma");
  refused(
      {}, [](GemmArguments& g) { g.kernel = GemmKernel::mma; },
      "kernel mma multiplies bf16 and f16: A and B of type f32 need kernel simt");
  refused({}, bounds,
          "bounds=false needs full tiles: M=5 N=7 K=3 are not multiples of 64, 64 and 32; bounds=auto takes them");
  refused({GemmBatchedTiles::m64n64k16, 4}, bounds,
          "bounds=false needs the tile 64x64x32: the pilots have no path without tests");
  refused(
      {}, [](GemmArguments& g) { g.lda = 2; }, "lda=2 is smaller than the stored row of A (3 elements)");
  refused(
      {}, [](GemmArguments& g) { g.a = nullptr; }, "A is null but would be accessed");
  refused(
      {}, [](GemmArguments& g) { g.b = static_cast<const char*>(g.b) + 2; },
      "B is not aligned to its f32 elements of 4 bytes");
  refused(
      {}, [](GemmArguments& g) { g.d = const_cast<void*>(g.a); },
      "D overlaps A: it may overlap no operand but C, and C only as a whole");
}

}  // namespace
}  // namespace grout::test
