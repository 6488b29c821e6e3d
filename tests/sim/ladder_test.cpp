// The ladder of copy/ on the simulated device: seeded crops under every schedule, rings of every length, every refusal, and
// the portable kernel where there is no copy engine.
#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/ladder.cuh"
#include "tests/kernels/ring_kernels.cuh"

namespace grout::test {
namespace {

bool thread_sanitizer() { return sim::sanitizer() == sim::Sanitizer::thread; }
size_t guard() { return sim::sanitizer() == sim::Sanitizer::address ? 0 : 256; }

class Ladder : public ::testing::Test {
 protected:
  void SetUp() override {
    saved_ = sim::options();
    sim::options().compute_capability = 90;
  }
  void TearDown() override { sim::options() = saved_; }

 private:
  sim::Options saved_;
};

void use(int schedule, uint64_t seed) {
  // ThreadSanitizer: warp-greedy and random late, round-robin early.
  if (thread_sanitizer()) schedule = schedule % 3 == 0 ? 3 : schedule % 3 == 1 ? 2 : 9;
  sim::options().schedule = sim::kSchedules[schedule % 5];
  sim::options().asynchrony = sim::kAsynchronies[schedule / 5];
  sim::options().seed = seed;
}

std::string mode() {
  return std::string(sim::name(sim::options().schedule)) + " " + sim::name(sim::options().asynchrony);
}

TEST_F(Ladder, SeededCrops) {
  const int cases = thread_sanitizer() ? 30 : 140;
  FactorCounts factors;
  int ran = 0;
  uint64_t seed = 5;
  for (const CropKernel& kernel : ladder()) {
    factors.expect("kernel", std::vector<std::string>{kernel.name});
    int by_tensor = 0, number = 0;
    for (const CropCase& x : tensor_crop_cases(kernel, cases, seed++, thread_sanitizer() ? 65 : INT64_MAX)) {
      use(number % 10, static_cast<uint64_t>(number));
      sim::options().sms = 1 + number % 3;
      CropPath path;
      ASSERT_EQ(run_crop(x, guard(), kernel, &path), "") << mode();
      const CropArguments& g = x.g;
      const bool writes = g.rows > 0 && g.cols > 0, reads = g.source_rows > 0 && g.source_cols > 0;
      EXPECT_EQ(path == CropPath::tensor, writes && reads) << kernel.name << " " << describe(x);
      by_tensor += path == CropPath::tensor;
      if (path == CropPath::tensor) {
        factors.count("kernel", kernel.name);
        factors.count("type", element_name(g.type));
        factors.count("rows", g.origin.row < 0 && g.origin.row + g.rows > g.source_rows     ? "past both ends"
                              : g.origin.row + g.rows <= 0 || g.origin.row >= g.source_rows ? "outside"
                              : g.origin.row < 0                                            ? "before"
                              : g.origin.row + g.rows > g.source_rows                       ? "past the end"
                                                                                            : "inside");
        factors.count("columns", g.origin.col < 0 && g.origin.col + g.cols > g.source_cols     ? "past both ends"
                                 : g.origin.col + g.cols <= 0 || g.origin.col >= g.source_cols ? "outside"
                                 : g.origin.col < 0                                            ? "before"
                                 : g.origin.col + g.cols > g.source_cols                       ? "past the end"
                                                                                               : "inside");
        factors.count("mode", mode());
      }
      ++number, ++ran;
    }
    if (!thread_sanitizer()) {
      EXPECT_GE(by_tensor, 60) << kernel.name;
    }
  }
  std::printf("%d crops\n", ran);
  factors.print();
  if (thread_sanitizer()) return;
  for (const char* axis : {"rows", "columns"})
    factors.expect(axis, std::vector<std::string>{"past both ends", "outside", "before", "past the end", "inside"});
  for (const sim::Schedule schedule : sim::kSchedules)
    for (const sim::Asynchrony asynchrony : sim::kAsynchronies)
      factors.expect("mode", std::vector<std::string>{std::string(sim::name(schedule)) + " " + sim::name(asynchrony)});
  factors.expect("type", std::vector<std::string>{"bf16", "f16", "f32"});
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  const auto expect_launched = [&]<class T>(T) {
    const void* kernels[] = {
        reinterpret_cast<const void*>(&copy_load_kernel<T, true>),
        reinterpret_cast<const void*>(&copy_load_kernel<T, false>),
        reinterpret_cast<const void*>(&copy_ring_kernel<T, 4, true>),
        reinterpret_cast<const void*>(&copy_ring_kernel<T, 4, false>),
        reinterpret_cast<const void*>(&copy_store_kernel<T>),
        reinterpret_cast<const void*>(&copy_swizzle_kernel<T>),
        reinterpret_cast<const void*>(&copy_cluster_kernel<T, 2, true>),
        reinterpret_cast<const void*>(&copy_cluster_kernel<T, 2, false>),
        reinterpret_cast<const void*>(&copy_cluster_kernel<T, 4, true>),
        reinterpret_cast<const void*>(&copy_cluster_kernel<T, 4, false>),
    };
    for (const void* kernel : kernels) EXPECT_TRUE(sim::launched_kernels().count(kernel)) << element_name(element_type<T>);
  };
  expect_launched(bf16{}), expect_launched(f16{}), expect_launched(float{});
}

// Every phase of every ring: 1 to 6 stages, 1 to 2 stages + 1 tiles a block, one block and two that share the tiles.
TEST_F(Ladder, RingsOfEveryLength) {
  int ran = 0;
  for (int stages = 1; stages <= 6; ++stages)
    for (int tiles = 1; tiles <= 2 * stages + 1; ++tiles)
      for (const int blocks : {1, 2}) {
        use(ran % 10, static_cast<uint64_t>(ran));
        static int stages_now, blocks_now;
        stages_now = stages, blocks_now = blocks;
        const CropKernel ring = {"copy_ring of " + std::to_string(stages), [](const CropArguments& g, CropPath& path) {
                                   return crop_ring_of(stages_now, g, &path, blocks_now);
                                 }};
        ASSERT_EQ(run_crop(ring_case(tiles, blocks, ran % 2), guard(), ring), "")
            << mode() << ", " << tiles << " tiles, " << blocks << " blocks";
        ++ran;
      }
  std::printf("%d crops\n", ran);
}

// Rings that are filled by stores, and by multicasts of a cluster.
TEST_F(Ladder, RingsOfStoresAndOfMulticasts) {
  for (int schedule = 0; schedule < (thread_sanitizer() ? 3 : 10); ++schedule) {
    use(schedule, static_cast<uint64_t>(schedule));
    int ran = 0;
    ASSERT_EQ(run_rings([&] { ++ran; }, [](const std::string&) {}), "") << mode();
    EXPECT_EQ(ran, 3 * (3 + 5 + 7 + 13));
  }
}

// One multiprocessor and many tiles: outgoing buffers and stages are used again.
TEST_F(Ladder, StoresOfSeveralTilesABlock) {
  for (int schedule = 0; schedule < (thread_sanitizer() ? 3 : 10); ++schedule) {
    use(schedule, static_cast<uint64_t>(schedule));
    sim::options().sms = 1;
    CropCase x;
    // 18 tiles for three blocks: each fills four stages and two outgoing buffers, and begins again.
    x.g.source_rows = 1100, x.g.source_cols = 73, x.g.row_stride = 80, x.g.origin = {-3, 8};
    x.g.rows = 1090, x.g.cols = 61, x.g.ld = 64;
    ASSERT_EQ(run_crop(x, guard(), ladder()[2]), "") << mode();
  }
}

TEST_F(Ladder, Refusals) {
  for (const int capability : {80, 90})  // alike on every device
    for (const CropKernel& kernel : ladder())
      for (const TensorRefusal& refusal : tensor_refusals()) {
        if (refusal.tensor_store && !kernel.tensor_store) continue;
        sim::options().compute_capability = capability;
        EXPECT_EQ(run_refusal(kernel, refusal), "");
      }
}

TEST_F(Ladder, Limits) {
  for (const CropKernel& kernel : ladder())
    for (const CropCase& x : limit_cases()) {
      use(3, 1);
      CropPath path;
      ASSERT_EQ(run_crop(x, guard(), kernel, &path), "");
      EXPECT_EQ(path, CropPath::tensor);
    }
}

TEST_F(Ladder, BoundedKernelBefore90) {
  sim::options().compute_capability = 80;
  for (const CropKernel& kernel : ladder())
    for (const CropCase& x :
         tensor_crop_cases(kernel, thread_sanitizer() ? 2 : 40, 6, thread_sanitizer() ? 65 : INT64_MAX)) {
      use(3, 1);
      CropPath path = CropPath::tensor;
      ASSERT_EQ(run_crop(x, guard(), kernel, &path), "");
      EXPECT_EQ(path, CropPath::bounded);
    }
}

}  // namespace
}  // namespace grout::test
