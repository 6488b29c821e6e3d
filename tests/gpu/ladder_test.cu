// TEST_TARGET: sm_90a
// The ladder of copy/ on the GPU: the seeded crops of the simulated device's tests, and more of them, rings of every length,
// and every refusal. A kernel whose barriers never complete hangs: a watchdog ends the program then, with the case's name.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/gpu/support.cuh"
#include "tests/kernels/ladder.cuh"
#include "tests/kernels/ring_kernels.cuh"

namespace grout::test {
namespace {

class LadderGpu : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    DeviceInfo info;
    if (!IsSkipped() && device_info(info) && info.major < 9)
      GTEST_SKIP() << "needs sm_90 or later; this GPU is sm_" << info.major * 10 + info.minor;
  }
};

// Waits for the default stream. After a deadline the program ends as failed: nothing on this GPU can be used by it any more.
void wait_or_end(const std::string& what) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (cudaStreamQuery(nullptr) == cudaErrorNotReady) {
    if (std::chrono::steady_clock::now() > deadline) {
      std::fprintf(stderr, "[  FAILED  ] %s has not ended after 60 seconds: a barrier that never completes\n", what.c_str());
      std::fflush(stderr);
      std::_Exit(1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// Runs the case under the watchdog.
std::string run_watched(const CropCase& x, const CropKernel& kernel, CropPath* path) {
  static const CropKernel* watched;
  static const CropCase* running;
  watched = &kernel, running = &x;
  CropKernel guarded = kernel;
  guarded.crop = [](const CropArguments& g, CropPath& ran) {
    Status status = watched->crop(g, ran);
    if (status) wait_or_end(watched->name + " " + describe(*running));
    return status;
  };
  return run_crop(x, 256, guarded, path);
}

TEST_F(LadderGpu, SeededCrops) {
  int ran = 0, by_tensor = 0;
  for (const uint64_t seed : {5, 15})
    for (const CropKernel& kernel : ladder())
      for (const CropCase& x : tensor_crop_cases(kernel, cases(560, 60), seed)) {
        CropPath path;
        ASSERT_EQ(run_watched(x, kernel, &path), "");
        ++ran, by_tensor += path == CropPath::tensor;
      }
  std::printf("%d crops, %d of them by tensor copies\n", ran, by_tensor);
  EXPECT_EQ(ran, 12 * cases(560, 60));
  EXPECT_GT(by_tensor, ran / 2);
}

// Every phase of every ring: 1 to 6 stages, 1 to 2 stages + 1 tiles a block, one block and two that share the tiles.
TEST_F(LadderGpu, RingsOfEveryLength) {
  static int stages, blocks;
  int ran = 0;
  for (stages = 1; stages <= 6; ++stages)
    for (int tiles = 1; tiles <= 2 * stages + 1; ++tiles)
      for (blocks = 1; blocks <= 2; ++blocks) {
        const CropKernel ring = {"copy_ring of " + std::to_string(stages), [](const CropArguments& g, CropPath& path) {
                                   return crop_ring_of(stages, g, &path, blocks);
                                 }};
        CropPath path;
        ASSERT_EQ(run_watched(ring_case(tiles, blocks, ran % 2), ring, &path), "")
            << tiles << " tiles, " << blocks << " blocks";
        EXPECT_EQ(path, CropPath::tensor);
        ++ran;
      }
  std::printf("%d crops\n", ran);
}

// Rings that are filled by stores, and by multicasts of a cluster.
TEST_F(LadderGpu, RingsOfStoresAndOfMulticasts) {
  int ran = 0;
  EXPECT_EQ(run_rings([&] { ++ran; }, wait_or_end), "");
  EXPECT_EQ(ran, 3 * (3 + 5 + 7 + 13));
}

// More tiles than run at once: stages, outgoing buffers and multiprocessors are used again. The same bits each time.
TEST_F(LadderGpu, ManyTiles) {
  for (const CropKernel& kernel : ladder())
    for (int repeat = 0; repeat < cases(4, 1); ++repeat) {
      CropCase x;
      x.g.source_rows = cases(4099, 520), x.g.source_cols = 1023, x.g.row_stride = 1024, x.g.origin = {-5, 16};
      x.g.rows = cases(4111, 515), x.g.cols = 1019, x.g.ld = kernel.transposes ? x.g.rows + 1 : 1024;
      CropPath path;
      ASSERT_EQ(run_watched(x, kernel, &path), "");
      EXPECT_EQ(path, CropPath::tensor);
    }
}

TEST_F(LadderGpu, Limits) {
  for (const CropKernel& kernel : ladder())
    for (const CropCase& x : limit_cases()) {
      CropPath path;
      ASSERT_EQ(run_watched(x, kernel, &path), "");
      EXPECT_EQ(path, CropPath::tensor);
    }
}

TEST_F(LadderGpu, Refusals) {
  for (const CropKernel& kernel : ladder())
    for (const TensorRefusal& refusal : tensor_refusals())
      if (!refusal.tensor_store || kernel.tensor_store) {
        EXPECT_EQ(run_refusal(kernel, refusal), "");
      }
}

}  // namespace
}  // namespace grout::test
