// TEST_TARGET: sm_80
// Bounded copies, stores and crops on the GPU: the seeded cases of the simulated device's tests, and more of them.
#include <gtest/gtest.h>

#include "tests/gpu/support.cuh"
#include "tests/kernels/copy_kernels.cuh"
#include "tests/kernels/crop_cases.cuh"
#include "tests/kernels/store_kernels.cuh"

namespace grout::test {
namespace {

class CopyGpu : public GpuTest {};

TEST_F(CopyGpu, SeededCopies) {
  FactorCounts factors;
  int ran = 0;
  for (const uint64_t seed : {1, 11})
    for (const CopyCase& x : copy_cases(cases(4480, 560), seed)) {
      CopyData data(x);
      const Status status = data.variant.launch(data.request(), nullptr);
      ASSERT_TRUE(status) << describe(x) << ": " << status.message;
      ASSERT_EQ(data.verify(), "");
      count_copy_factors(factors, x);
      ++ran;
    }
  std::printf("%d copies of %zu kernels\n", ran, copy_variants().size());
  expect_copy_factors(factors);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  EXPECT_EQ(ran, 2 * cases(4480, 560));
}

TEST_F(CopyGpu, SeededStores) {
  FactorCounts factors;
  int ran = 0;
  for (const uint64_t seed : {2, 12})
    for (const StoreCase& x : store_cases(cases(2640, 440), seed)) {
      StoreData data(x);
      const Status status = data.variant.launch(data.request(), nullptr);
      ASSERT_TRUE(status) << describe(x) << ": " << status.message;
      ASSERT_EQ(data.verify(), "");
      count_store_factors(factors, x);
      ++ran;
    }
  std::printf("%d stores of %zu kernels\n", ran, store_variants().size());
  expect_store_factors(factors);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  EXPECT_EQ(ran, 2 * cases(2640, 440));
}

TEST_F(CopyGpu, SeededCrops) {
  int ran = 0;
  for (const CropCase& x : crop_cases(cases(2400, 400), 3)) {
    ASSERT_EQ(run_crop(x), "");
    ++ran;
  }
  std::printf("%d crops\n", ran);
  EXPECT_EQ(ran, cases(2400, 400));
}

// A source of which one row lies more than 2^31 elements after another; rows between are not memory of ours.
TEST_F(CopyGpu, RowsBeyondTwoToThe31Elements) {
  constexpr int64_t kPitch = (int64_t{1} << 31) + 11;
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  const size_t bytes = static_cast<size_t>(kPitch + 64) * 2;
  if (short_run() || free_bytes < bytes + (1u << 30)) GTEST_SKIP() << "needs " << bytes << " bytes of GPU memory";
  DeviceBuffer source(bytes), out(2 * 64 * 2);
  std::vector<uint16_t> row(64), got(128);
  for (int64_t r = 0; r < 2; ++r) {
    for (int i = 0; i < 64; ++i) row[static_cast<size_t>(i)] = static_cast<uint16_t>(1000 * (r + 1) + i);
    ASSERT_EQ(cudaMemcpy(source.as<uint16_t>() + r * kPitch, row.data(), 128, cudaMemcpyHostToDevice), cudaSuccess);
  }
  CropArguments g;
  g.source = source.data(), g.source_rows = 2, g.source_cols = 64, g.row_stride = kPitch;
  g.destination = out.data(), g.rows = 2, g.cols = g.ld = 64;
  const Status status = crop(g, nullptr);
  ASSERT_TRUE(status) << status.message;
  out.download(got.data());
  for (int i = 0; i < 128; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], 1000 * (i / 64 + 1) + i % 64);
}

}  // namespace
}  // namespace grout::test
