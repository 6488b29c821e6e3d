// Batched copies on the simulated device: seeded cases over every factor of the contract, operations of which a batch is
// refused, and the crop's host entry.
#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/batch_cases.cuh"
#include "tests/sim/modes.h"

namespace grout::test {
namespace {

class Batch : public SimulatedTest {};

TEST_F(Batch, SeededCopies) {
  const int cases = thread_sanitizer() ? 60 : 2660;
  FactorCounts factors;
  std::set<std::string> modes;
  int ran = 0;
  for (const BatchCase& x : batch_cases(cases, 1)) {
    use(x.schedule, x.seed);
    ASSERT_EQ(run_batch(x, guard()), "") << mode();
    EXPECT_EQ(sim::statistics().cp_async_4 + sim::statistics().cp_async_8 + sim::statistics().cp_async_16, 0u);
    count_batch_factors(factors, x);
    modes.insert(mode());
    ++ran;
  }
  std::printf("%d copies of %zu kernels, %zu schedules\n", ran, batch_variants().size(), modes.size());
  EXPECT_EQ(ran, cases);
  if (thread_sanitizer()) {
    EXPECT_EQ(modes, (std::set<std::string>{"warp_greedy late", "random late", "round_robin early"}));
    return;
  }
  factors.print();
  expect_batch_factors(factors);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  EXPECT_EQ(modes.size(), 10u);
  for (const BatchVariant& v : batch_variants()) EXPECT_TRUE(sim::launched_kernels().count(v.address)) << v.tile.name;
}

// Every origin of a copy, in both axes at once, through strides of either sign.
TEST_F(Batch, EveryPairOfOrigins) {
  if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only";
  int ran = 0;
  for (size_t variant = 0; variant < batch_variants().size(); ++variant) {
    const BatchVariant& v = batch_variants()[variant];
    if (v.tile.rows * v.tile.cols > 330 || v.batch == 16) continue;
    for (const int64_t row : {-v.tile.rows - 1, -v.tile.rows, -v.tile.rows + 1, -1, 0, 1, 16, 17, 18})
      for (const int64_t col : {-v.tile.cols - 1, -v.tile.cols, -v.tile.cols + 1, -1, 0, 1, 16, 17, 18}) {
        BatchCase x;
        x.variant = variant, x.rows = x.cols = 17, x.origin = {row, col};
        x.row_stride = ran % 2 ? 19 : -19, x.col_stride = ran % 3 ? 1 : -1;
        x.schedule = ran % 10, x.seed = static_cast<uint64_t>(ran);
        use(x.schedule, x.seed);
        ASSERT_EQ(run_batch(x, guard()), "") << mode();
        ++ran;
      }
  }
  std::printf("%d copies\n", ran);
  EXPECT_GT(ran, 3000);
}

TEST_F(Batch, FunctionsAndRefusals) {
  for (const BatchOperationCase& x : batch_operations())
    for (int schedule = 0; schedule < (thread_sanitizer() ? 3 : 10); ++schedule) {
      use(schedule, static_cast<uint64_t>(schedule));
      ASSERT_EQ(run_batch_operation(x, guard()), "") << mode();
    }
}

TEST_F(Batch, SeededCrops) {
  const int cases = thread_sanitizer() ? 24 : 660;
  const std::vector<CropKernel> kernels = batched_kernels();
  size_t ran = 0;
  for (const CropCase& x : crop_cases(cases, 3, thread_sanitizer() ? 65 : INT64_MAX)) {
    use(static_cast<int>(ran % 10), ran);
    ASSERT_EQ(run_crop(x, guard(), kernels[ran % kernels.size()]), "") << mode();
    ++ran;
  }
  std::printf("%zu crops\n", ran);
  EXPECT_EQ(ran, static_cast<size_t>(cases));
}

template <int Workers, int Batch> void add_kernels_of(std::vector<const void*>& all) {
  const auto add = [&](auto kernel) { all.push_back(reinterpret_cast<const void*>(kernel)); };
  add(&copy_batched_kernel<bf16, Workers, Batch, 0>), add(&copy_batched_kernel<bf16, Workers, Batch, 1>);
  add(&copy_batched_kernel<float, Workers, Batch, 0>), add(&copy_batched_kernel<float, Workers, Batch, 1>);
}
template <int Workers> void add_kernels(std::vector<const void*>& all) {
  add_kernels_of<Workers, 1>(all), add_kernels_of<Workers, 2>(all), add_kernels_of<Workers, 4>(all);
  add_kernels_of<Workers, 8>(all), add_kernels_of<Workers, 16>(all);
}

// Rows and columns that lie closest together, of both element sizes, for every batch and block: every kernel that there is.
TEST_F(Batch, EveryKernelCrops) {
  if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only";
  for (const ElementType type : {ElementType::bf16, ElementType::f32})
    for (const int workers : {32, 48, 256})
      for (const int batch : {1, 2, 4, 8, 16})
        for (const bool by_rows : {true, false}) {
          use(batch % 10, static_cast<uint64_t>(workers));
          sim::options().sms = 1;
          CropCase x;
          x.g.type = type, x.g.source_rows = 90, x.g.source_cols = 75;
          x.g.row_stride = by_rows ? 77 : 1, x.g.col_stride = by_rows ? 1 : -91;
          x.g.origin = {-3, 8}, x.g.rows = 130, x.g.cols = 67, x.g.ld = 70;
          static int current_batch, current_workers;
          static BatchReport report;
          current_batch = batch, current_workers = workers;
          const CropKernel kernel{"copy_batched", [](const CropArguments& g, CropPath&) {
                                    return crop_batched(g, current_batch, current_workers, nullptr, &report);
                                  }};
          ASSERT_EQ(run_crop(x, guard(), kernel), "") << batch << " by " << workers;
          const int64_t chunks = (type == ElementType::f32 ? 2048 : 4096) / workers;
          EXPECT_EQ(report.complete_chunks, chunks);
          EXPECT_EQ(report.realised, std::min<int64_t>(batch, chunks));
          EXPECT_EQ(report.transformed, batch > 1);
        }
  std::vector<const void*> kernels;
  add_kernels<32>(kernels), add_kernels<48>(kernels), add_kernels<256>(kernels);
  EXPECT_EQ(std::set<const void*>(kernels.begin(), kernels.end()).size(), 60u);
  for (const void* kernel : kernels) EXPECT_TRUE(sim::launched_kernels().count(kernel));
}

TEST_F(Batch, RefusalsTouchNothing) {
  const auto expect = [](int batch, int workers, const std::string& message) {
    SquareCrop square;
    const Status status = crop_batched(square.arguments, batch, workers, nullptr);
    EXPECT_EQ(status.code, Code::invalid);
    EXPECT_EQ(status.message, message);
    EXPECT_TRUE(square.untouched());
  };
  expect(0, 32, "max_copy_batch is 0: 1 to 16 is accepted");
  expect(17, 32, "max_copy_batch is 17: 1 to 16 is accepted");
  expect(-1, 256, "max_copy_batch is -1: 1 to 16 is accepted");
  expect(4, 64, "workers is 64: 32, 48 or 256 threads of a block are accepted");
  SquareCrop square;
  square.arguments.ld = 15;
  EXPECT_EQ(crop_batched(square.arguments, 4, 32, nullptr).message,
            "destination pitch 15 is smaller than its row of 16 elements: rows would overlap");
  EXPECT_TRUE(square.untouched());
}

// A request between two kernels takes the smaller, and says so; one beyond the chunks of a tile too.
TEST_F(Batch, ReportsWhatWasRealised) {
  SquareCrop square;
  const auto report = [&](int batch, int workers, ElementType type) {
    CropArguments g = square.arguments;
    g.type = type;
    if (type == ElementType::f32) g.rows = g.source_rows = 8;
    if (type == ElementType::f32) g.cols = g.source_cols = 16;
    BatchReport r;
    const Status status = crop_batched(g, batch, workers, nullptr, &r);
    EXPECT_TRUE(status) << status.message;
    return r;
  };
  EXPECT_EQ(batch_text({report(1, 256, ElementType::bf16)}),
            "max_copy_batch: requested 1, realised 1; operations transformed: 0 of 1");
  EXPECT_EQ(batch_text({report(8, 48, ElementType::bf16)}),
            "max_copy_batch: requested 8, realised 8; operations transformed: 1 of 1");
  EXPECT_EQ(batch_text({report(15, 48, ElementType::f16)}),
            "max_copy_batch: requested 15, realised 8 (the next smaller batch for which there is a kernel); operations "
            "transformed: 1 of 1");
  EXPECT_EQ(batch_text({report(16, 256, ElementType::f32)}),
            "max_copy_batch: requested 16, realised 8 (no more chunks are complete); operations transformed: 1 of 1");
  EXPECT_EQ(batch_text({report(3, 32, ElementType::f32)}),
            "max_copy_batch: requested 3, realised 2 (the next smaller batch for which there is a kernel); operations "
            "transformed: 1 of 1");
}

}  // namespace
}  // namespace grout::test
