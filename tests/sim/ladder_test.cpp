// The ladder of copy/ on the simulated device: seeded crops under every schedule, rings of every length, every refusal, and
// the portable kernel where there is no copy engine.
#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/ladder.cuh"
#include "tests/kernels/ring_kernels.cuh"
#include "tests/sim/modes.h"

namespace grout::test {
namespace {

class Ladder : public SimulatedTest90 {};

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

// The destination of copy_swizzle is cols x rows: that is what is checked, not rows x cols.
TEST_F(Ladder, ATransposedDestinationIsCheckedAsSuch) {
  DeviceBuffer memory(1024);
  std::vector<uint16_t> before(512), got(512);
  for (size_t i = 0; i < before.size(); ++i) before[i] = static_cast<uint16_t>(i + 1);
  const auto crop = [&](int64_t rows, int64_t cols, int64_t ld, int64_t source) {
    memory.upload(before.data());
    const Status status = crop_swizzle({.source = memory.as<uint16_t>() + source, .source_rows = rows, .source_cols = cols,
                                        .row_stride = 8, .destination = memory.data(), .rows = rows, .cols = cols, .ld = ld},
                                       nullptr);
    memory.download(got.data());
    return status;
  };
  // 4 rows of 8, and the source right behind them, where 8 rows would be.
  ASSERT_TRUE(crop(8, 4, 8, 32));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i < 32 ? before[32 + i % 8 * 8 + i / 8] : before[i]) << i;
  struct Refused {
    int64_t rows, cols, ld, source;
    const char* what;
  };
  for (const Refused& x : {Refused{8, 4, 7, 256, "pitch 7"},      // a row of it has 8
                           Refused{4, 8, 8, 32, "overlap"}}) {    // behind 4 rows, but there are 8
    const Status status = crop(x.rows, x.cols, x.ld, x.source);
    EXPECT_EQ(status.code, Code::invalid);
    for (const char* part : {x.what, "transposed source"})
      EXPECT_NE(status.message.find(part), std::string::npos) << status.message;
    EXPECT_EQ(got, before);
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
