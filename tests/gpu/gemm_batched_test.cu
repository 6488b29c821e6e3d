// TEST_TARGET: sm_80
// The single-stage fp32 GEMM on the GPU: the seeded cases of the simulated device's tests, and more and larger ones.
#include <gtest/gtest.h>

#include "tests/gpu/support.cuh"
#include "tests/kernels/gemm_batched_cases.cuh"

namespace grout::test {
namespace {

class GemmBatchedGpu : public GpuTest {};

TEST_F(GemmBatchedGpu, SeededCases) {
  const std::vector<int64_t> sizes = {0, 1, 7, 8, 17, 31, 33, 64, 97, 128, 200, 255, 257, 384};
  FactorCounts factors;
  int ran = 0;
  const int count = cases(1300, 65);
  for (const BatchedGemmCase& c : batched_gemm_cases(count, 25, sizes)) {
    GemmBatchedReport report;
    ASSERT_EQ(run_batched_gemm(c, 256, &report), "");
    count_gemm_factors(factors, c.x, {report.choice.tiles == 0 ? "none" : "batched", gemm_path_name(report.choice.path)});
    ++ran;
  }
  std::printf("%d cases\n", ran);
  EXPECT_EQ(ran, count);
  if (short_run()) return;
  expect_gemm_factors(factors, sizes, {ElementType::f32});
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
}

// Every small shape in every layout, tiles and batches in turn.
TEST_F(GemmBatchedGpu, EverySmallShape) {
  int ran = 0;
  for (int64_t m = 1; m <= 17; m += short_run() ? 8 : 1)
    for (int64_t n = 1; n <= 17; n += short_run() ? 8 : 1)
      for (int64_t k = 1; k <= 17; k += short_run() ? 8 : 1)
        for (int layout = 0; layout < 4; ++layout, ++ran) {
          BatchedGemmCase c;
          c.policy = {kBatchedTiles[ran % 3], 1 + ran % 16};
          GemmCase& x = c.x;
          x.m = m, x.n = n, x.k = k, x.type = x.out = ElementType::f32, x.trans_a = layout & 1, x.trans_b = layout & 2;
          x.pad_a = ran % 4, x.pad_b = ran / 4 % 4, x.pad_c = ran / 16 % 4, x.offset_a = ran / 5 % 4,
          x.offset_b = ran / 7 % 4;
          x.seed = static_cast<uint64_t>(ran);
          ASSERT_EQ(run_batched_gemm(c), "");
        }
  std::printf("%d cases\n", ran);
}

// Blocks that do many tiles, random operands, every layout and batch.
TEST_F(GemmBatchedGpu, LargeShapes) {
  if (short_run()) GTEST_SKIP() << "too long for an instrumented run";
  int ran = 0;
  for (const int batch : {1, 4, 16})
    for (int layout = 0; layout < 4; ++layout)
      for (const int64_t extent : {1024, 1027}) {
        BatchedGemmCase c;
        c.policy.max_copy_batch = batch;
        c.x.m = extent + 64, c.x.n = extent, c.x.k = 259 - extent % 2 * 3;
        c.x.type = c.x.out = ElementType::f32, c.x.trans_a = layout & 1, c.x.trans_b = layout & 2,
        c.x.integers = ran % 2 == 0;
        c.x.seed = static_cast<uint64_t>(ran++);
        ASSERT_EQ(run_batched_gemm(c), "");
      }
}

TEST_F(GemmBatchedGpu, RepeatsAreBitIdentical) {
  BatchedGemmCase c;
  c.x.m = 500, c.x.n = 333, c.x.k = 217, c.x.type = c.x.out = ElementType::f32, c.x.integers = false;
  std::vector<unsigned char> first;
  for (int i = 0; i < cases(200, 8); ++i) {
    c.policy.max_copy_batch = 1 + i % 16;
    const GemmData data(c.x);
    ASSERT_TRUE(gemm_batched(arguments(data.call()), c.policy, nullptr));
    if (first.empty()) first = data.output();
    ASSERT_EQ(first, data.output()) << i;
  }
}

// Rows of A and D more than 2^31 elements apart; what lies between is not touched.
TEST_F(GemmBatchedGpu, RowsBeyondTwoToThe31Elements) {
  constexpr int64_t kPitch = (int64_t{1} << 31) + 11, kK = 40, kN = 33;
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  const size_t bytes = static_cast<size_t>(kPitch + 64) * 4;
  if (short_run() || free_bytes < 2 * bytes + (1u << 30)) GTEST_SKIP() << "needs " << 2 * bytes << " bytes of GPU memory";
  DeviceBuffer a(bytes), d(bytes), b(kK * kN * 4);
  const std::vector<float> row(kK, 3.0f), ones(kK * kN, 1.0f);
  std::vector<float> got(kN);
  b.upload(ones.data());
  for (int64_t r = 0; r < 2; ++r)
    ASSERT_EQ(cudaMemcpy(a.as<float>() + r * kPitch, row.data(), kK * 4, cudaMemcpyHostToDevice), cudaSuccess);
  const GemmArguments g{.m = 2,
                        .n = kN,
                        .k = kK,
                        .type = ElementType::f32,
                        .out = ElementType::f32,
                        .a = a.data(),
                        .b = b.data(),
                        .d = d.data(),
                        .lda = kPitch,
                        .ldb = kN,
                        .ldc = kPitch};
  const Status status = gemm_batched(g, {.max_copy_batch = 4}, nullptr);
  ASSERT_TRUE(status) << status.message;
  for (int64_t r = 0; r < 2; ++r) {
    ASSERT_EQ(cudaMemcpy(got.data(), d.as<float>() + r * kPitch, kN * 4, cudaMemcpyDeviceToHost), cudaSuccess);
    for (const float value : got) EXPECT_EQ(value, 3.0f * kK);
  }
}

}  // namespace
}  // namespace grout::test
