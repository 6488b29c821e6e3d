// TEST_TARGET: sm_80
// Batched copies on the GPU: the cases of the simulated device's tests, and more of them.
#include <gtest/gtest.h>

#include "tests/gpu/support.cuh"
#include "tests/kernels/batch_cases.cuh"

namespace grout::test {
namespace {

class BatchGpu : public GpuTest {};

TEST_F(BatchGpu, SeededCopies) {
  FactorCounts factors;
  int ran = 0;
  for (const uint64_t seed : {1, 11})
    for (const BatchCase& x : batch_cases(cases(5320, 532), seed)) {
      ASSERT_EQ(run_batch(x), "");
      count_batch_factors(factors, x);
      ++ran;
    }
  std::printf("%d copies of %zu kernels\n", ran, batch_variants().size());
  expect_batch_factors(factors);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  EXPECT_EQ(ran, 2 * cases(5320, 532));
}

TEST_F(BatchGpu, FunctionsAndRefusals) {
  for (const BatchOperationCase& x : batch_operations()) ASSERT_EQ(run_batch_operation(x), "");
}

TEST_F(BatchGpu, SeededCrops) {
  const std::vector<CropKernel> kernels = batched_kernels();
  size_t ran = 0;
  for (const CropCase& x : crop_cases(cases(2400, 420), 3)) {
    ASSERT_EQ(run_crop(x, 256, kernels[ran % kernels.size()]), "");
    ++ran;
  }
  std::printf("%zu crops\n", ran);
  EXPECT_EQ(ran, static_cast<size_t>(cases(2400, 420)));
}

// Blocks that do many tiles, with no end of the source in sight and with all of them.
TEST_F(BatchGpu, LargeCrops) {
  if (short_run()) GTEST_SKIP() << "too long for an instrumented run";
  for (const CropKernel& kernel : batched_kernels())
    for (const Origin origin : {Origin{0, 0}, Origin{-5, 1003}}) {
      CropCase x;
      x.g.type = ElementType::f32, x.g.source_rows = 2049, x.g.source_cols = 1027, x.g.row_stride = 1027,
      x.g.origin = origin;
      x.g.rows = 2050, x.g.cols = 1025, x.g.ld = 1031;
      ASSERT_EQ(run_crop(x, 256, kernel), "");
    }
}

}  // namespace
}  // namespace grout::test
