// TEST_TARGET: sm_80
// The sweep of crops and repacks: every width, every base offset and pitch of source and destination against each other,
// extents and origins around the edges of tiles, long rows: 1,097,190 crops with each of two kernels, and 635,544 repacks.
// Cases: tests/kernels/copy_sweep_cases.cuh; reference: copy_sweep.cuh there. Also repack between dependent kernels and in a
// graph, and matrices that 32 bits cannot index.
//
// --fraction=N (or GROUT_SWEEP_FRACTION=N) runs one case in N, spread over all of them.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/gpu/support.cuh"
#include "tests/kernels/copy_sweep.cuh"
#include "tests/kernels/repack_cases.cuh"

namespace grout::test {
namespace {

int64_t fraction = 1;
static_assert(kCropCases == 1'097'190 && kRepackCases == 635'544);

class CopySweep : public GpuTest {};

template <class Run, class Describe>
void run_all(const char* what, int64_t count, int64_t least, Run run, Describe describe_case) {
  const auto start = std::chrono::steady_clock::now();
  const SweepSource source(kSweepSourceBytes);
  const int64_t total = count / fraction;
  const int workers = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 4u));
  const Sweep all = sweep(total, count, workers, source, kSweepBytes, run, describe_case);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%s: %lld of %lld cases ran and were checked, %lld elements wrong, %.1f s, %.2f us a case\n", what,
              static_cast<long long>(all.checked), static_cast<long long>(count), static_cast<long long>(all.wrong), seconds,
              seconds * 1e6 / static_cast<double>(std::max<int64_t>(all.checked, 1)));
  for (size_t i = 0; i < std::min<size_t>(all.messages.size(), 10); ++i) ADD_FAILURE() << all.messages[i];
  EXPECT_EQ(all.enqueued, total);
  EXPECT_EQ(all.checked, total);
  EXPECT_EQ(all.wrong, 0);
  if (fraction == 1) {
    EXPECT_GE(all.checked, least);
  } else {
    std::printf("1 case in %lld; all of them: --fraction=1\n", static_cast<long long>(fraction));
  }
}

TEST_F(CopySweep, FindsWhatIsSpoilt) {
  const SweepSource source(kSweepSourceBytes);
  const SweepVerdict none = sweep_with_two_spoilt(source, kSweepBytes, -1, -1),
                     two = sweep_with_two_spoilt(source, kSweepBytes, 30, 12);
  EXPECT_EQ(none.checked, 40u);
  EXPECT_EQ(none.wrong, 0u);
  EXPECT_EQ(two.checked, 40u);
  EXPECT_EQ(two.wrong, 2u);
  EXPECT_EQ(two.first_case, static_cast<unsigned long long>(kRepackAlignments + 12));
}

TEST_F(CopySweep, CropBounded) {
  run_all(
      "copy_bounded", kCropCases, 1'097'190,
      [](SweepRunner& runner, int64_t index) {
        runner.crop(index, sweep_crop(index), [](const CropArguments& g, cudaStream_t stream) { return crop(g, stream); });
      },
      [](int64_t index) { return describe(sweep_crop(index)); });
}

TEST_F(CopySweep, CropStream) {
  std::atomic<int64_t> streamed{0};
  run_all("copy_stream", kCropCases, 1'097'190,
          [&](SweepRunner& runner, int64_t index) {
            runner.crop(index, sweep_crop(index), [&](const CropArguments& g, cudaStream_t stream) {
              CropPath path = CropPath::bounded;
              const Status status = crop_stream(g, stream, &path);
              streamed += path == CropPath::stream;
              return status;
            });
          },
          [](int64_t index) { return describe(sweep_crop(index)); });
  DeviceInfo info;
  ASSERT_TRUE(device_info(info));
  std::printf("copy_stream: %lld cases by the streaming kernel\n", static_cast<long long>(streamed));
  if (info.major < 9)
    GTEST_SKIP() << "the portable kernel ran: copy_stream needs sm_90, this GPU is sm_" << info.major * 10 + info.minor;
  EXPECT_GE(streamed * fraction, 500'000);
}

TEST_F(CopySweep, Repack) {
  run_all(
      "repack", kRepackCases, 635'544, [](SweepRunner& runner, int64_t index) { runner.repack(index, sweep_repack(index)); },
      [](int64_t index) { return describe(sweep_repack(index)); });
}

// ---- repack among other work --------------------------------------------------------------------------------------

class Stream {
 public:
  Stream() { require_success(cudaStreamCreate(&stream_), "cudaStreamCreate"); }
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

TEST_F(CopySweep, RepackSeeded) {
  int ran = 0;
  for (const RepackCase& x : repack_cases(cases(6000, 200), 11)) {
    ASSERT_EQ(run_repack(x), "");
    ++ran;
  }
  for (const RepackCase& x : repack_cases(cases(400, 40), 12, 129)) {
    for (const int threads : {32, 64, 128, 256}) ASSERT_EQ(run_repack_in_groups(x, threads), "") << threads << " threads";
    ++ran;
  }
  std::printf("%d cases\n", ran);
  EXPECT_EQ(ran, cases(6000, 200) + cases(400, 40));
}

// A kernel writes two sources, a repack copies both, a kernel reads the copies, each of them free to start early.
TEST_F(CopySweep, RepackBetweenDependentKernels) {
  DeviceInfo info;
  ASSERT_TRUE(device_info(info));
  if (info.major < 9) GTEST_SKIP() << "dependent launches need sm_90; this GPU is sm_" << info.major * 10 + info.minor;
  const Stream stream;
  const int64_t extents[][2] = {{1, 1}, {66, 71}, {129, 1026}, {1025, 515}, {2048, 2047}};
  uint64_t seed = 1;
  for (const auto& [rows, cols] : extents)
    for (int repeat = 0; repeat < cases(40, 4); ++repeat) {
      RepackChain chain(rows, cols, seed++);
      require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // its memory is set up on another stream
      const Status status = chain.enqueue(true, 1 + static_cast<unsigned>(repeat) * 33, stream);
      ASSERT_TRUE(status) << status.message;
      ASSERT_TRUE(chain.right()) << rows << "x" << cols << ", repeat " << repeat;
    }
}

// Captured, nothing runs; each launch of the graph copies what the source then holds.
TEST_F(CopySweep, RepackInAGraph) {
  DeviceInfo info;
  ASSERT_TRUE(device_info(info));
  for (const bool dependent : {false, true}) {
    if (dependent && info.major < 9) continue;
    const Stream stream;
    RepackChain chain(300, 517, 4);
    require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const Status before =
        chain.enqueue(dependent, 8, stream);  // kernels are loaded when first used, which a capture may not do
    ASSERT_TRUE(before) << before.message;
    ASSERT_TRUE(chain.right());
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    const Status status = chain.enqueue(dependent, 8, stream);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_TRUE(status) << status.message;
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    for (uint64_t seed : {5, 6, 7}) {
      chain.refill(seed);
      EXPECT_FALSE(chain.right()) << "before launch " << seed;
      ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
      EXPECT_TRUE(chain.right()) << "launch " << seed;
    }
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
}

// ---- beyond 32 bits -----------------------------------------------------------------------------------------------

// Three patches of 2-byte elements, each more than 2^31 elements behind the one before it; all between is poison.
class FarApart : public GpuTest {
 protected:
  static constexpr int64_t kFar = (int64_t{1} << 31) + 11, kFarVectors = kFar + 5;  // the latter a multiple of 16 bytes
  static constexpr int64_t kPatch = 1024, kGuard = 512, kElements = 2 * kFarVectors + kPatch + 2 * kGuard;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    size_t free_bytes = 0, total_bytes = 0;
    ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
    if (short_run()) GTEST_SKIP() << "too much memory for a short run";
    if (free_bytes < kElements * 2 + (size_t{1} << 30))
      GTEST_SKIP() << "needs " << kElements * 2 << " bytes of GPU memory, and 2^30 to spare";
    ASSERT_EQ(cudaMalloc(&memory_, kElements * 2), cudaSuccess);
    ASSERT_EQ(cudaMemset(memory_, kSweepPoison, kElements * 2), cudaSuccess);
  }
  void TearDown() override { (void)cudaFree(memory_); }

  uint16_t* base() const { return memory_ + kGuard; }
  static uint16_t value(int64_t patch, int64_t i) { return static_cast<uint16_t>(1 + patch * 3001 + i * 17 % 9001); }
  void fill() {
    std::vector<uint16_t> patch(kPatch);
    for (int64_t p = 0; p < 3; ++p) {
      for (int64_t i = 0; i < kPatch; ++i) patch[static_cast<size_t>(i)] = value(p, i);
      ASSERT_EQ(cudaMemcpy(base() + p * kFar, patch.data(), kPatch * 2, cudaMemcpyHostToDevice), cudaSuccess);
    }
  }
  // Compares all of the memory with what the case makes of it, and poisons it again.
  template <class Check> void compare(Check check, void (*kernel)(Check)) {
    const SweepVerdict none = {0, 0, ~0ull, 0};
    DeviceBuffer verdict(sizeof none);
    verdict.upload(&none);
    check.memory = memory_, check.elements = kElements, check.verdict = verdict.as<SweepVerdict>();
    const Status status = launch(kernel, dim3(4096), dim3(256), 0, nullptr, check);
    ASSERT_TRUE(status) << status.message;
    SweepVerdict got;
    verdict.download(&got);
    EXPECT_EQ(got.checked, 1u);
    EXPECT_EQ(got.wrong, 0u) << "the first at element " << static_cast<int64_t>(got.first_element);
  }
  uint16_t* memory_ = nullptr;
};

TEST_F(FarApart, RepackedSources) {
  fill();
  struct Row {
    const char* name;
    int64_t rows, cols, row_stride, col_stride, origin, batch, batch_stride;
    int64_t patch[3], step;  // element (i, j) across and along: patch[i], place j * step
    bool by_columns;
  };
  const Row table[] = {
      {"rows", 3, 67, kFar, 1, 0, 1, 0, {0, 1, 2}, 1, false},
      {"rows upwards", 3, 67, -kFar, 1, 2 * kFar, 1, 0, {2, 1, 0}, 1, false},
      {"rows, shifted", 3, 67, kFar, 1, 3, 1, 0, {0, 1, 2}, 1, false},
      {"columns", 67, 3, 1, kFar, 0, 1, 0, {0, 1, 2}, 1, true},
      {"columns leftwards, shifted", 67, 3, 1, -kFar, 2 * kFar + 3, 1, 0, {2, 1, 0}, 1, true},
      {"every second of a row", 3, 67, kFar, 2, 0, 1, 0, {0, 1, 2}, 2, false},
      {"every second of a column", 67, 3, 2, kFar, 0, 1, 0, {0, 1, 2}, 2, true},
      {"a batch", 1, 67, 67, 1, 0, 3, kFar, {0, 1, 2}, 1, false},
      {"a batch backwards", 1, 67, 67, 1, 2 * kFar, 3, -kFar, {2, 1, 0}, 1, false},
  };
  for (const Row& row : table) {
    const int64_t ld = repack_ld<bf16>(row.cols), shift = row.origin % kFar;
    DeviceBuffer copy(static_cast<size_t>(row.batch * row.rows * ld) * 2);
    RepackOperand o = {.source = base() + row.origin,
                       .rows = row.rows,
                       .cols = row.cols,
                       .row_stride = row.row_stride,
                       .col_stride = row.col_stride,
                       .copy = copy.data(),
                       .ld = ld,
                       .batch = row.batch,
                       .source_batch_stride = row.batch_stride,
                       .copy_batch_stride = row.rows * ld};
    const Status status = repack({&o, 1}, ElementType::bf16, nullptr);
    ASSERT_TRUE(status) << row.name << ": " << status.message;
    std::vector<uint16_t> got(copy.size() / 2);
    copy.download(got.data());
    for (int64_t r = 0; r < row.batch * row.rows; ++r)
      for (int64_t c = 0; c < ld; ++c) {
        const int64_t across = row.by_columns ? c : r, along = row.by_columns ? r : c;
        ASSERT_EQ(got[static_cast<size_t>(r * ld + c)],
                  c < row.cols ? value(row.patch[across], shift + along * row.step) : 0)
            << row.name << ": " << r << "," << c;
      }
    EXPECT_TRUE(copy.check_guards(row.name));
  }
}

TEST_F(FarApart, RepackedCopies) {
  const SweepSource source(1 << 20);
  SweepRepack pitch;  // zeros behind the columns: 2^31 of them in each row
  pitch.rows = 2, pitch.cols = 67, pitch.row_stride = 71, pitch.ld = kFarVectors, pitch.source_offset = 3;
  SweepRepack batch;
  batch.rows = 3, batch.cols = 67, batch.row_stride = 71, batch.ld = 72, batch.batch = 3, batch.source_batch_stride = 500,
  batch.copy_batch_stride = kFarVectors;
  SweepRepack backwards = batch;
  backwards.copy_batch_stride = -kFarVectors, backwards.row_stride = 1, backwards.col_stride = 5;
  for (const SweepRepack& x : {pitch, batch, backwards}) {
    SweepRepackCheck check = {};
    check.x = x, check.at = kGuard + (x.copy_batch_stride < 0 ? 2 * kFarVectors : 0);
    check.source =
        source.place({{x.rows, x.row_stride}, {x.cols, x.col_stride}, {x.batch, x.source_batch_stride}}, x.source_offset, 2);
    const RepackOperand o = {.source = check.source,
                             .rows = x.rows,
                             .cols = x.cols,
                             .row_stride = x.row_stride,
                             .col_stride = x.col_stride,
                             .copy = memory_ + check.at,
                             .ld = x.ld,
                             .batch = x.batch,
                             .source_batch_stride = x.source_batch_stride,
                             .copy_batch_stride = x.copy_batch_stride};
    const Status status = repack({&o, 1}, ElementType::bf16, nullptr);
    ASSERT_TRUE(status) << describe(x) << ": " << status.message;
    compare(check, &sweep_check_repack<uint16_t>);
  }
}

TEST_F(FarApart, Crops) {
  const SweepSource small(1 << 20);
  for (const bool streams : {false, true}) {
    const auto run = [&](const CropArguments& g) { return streams ? crop_stream(g, nullptr) : crop(g, nullptr); };
    // Out of far rows, from above and from below.
    fill();
    for (const bool upwards : {false, true}) {
      DeviceBuffer out(3 * 69 * 2);
      CropArguments g;
      g.source = base() + (upwards ? 2 * kFar : 0), g.source_rows = 3, g.source_cols = 70,
      g.row_stride = upwards ? -kFar : kFar;
      g.origin = {0, 3}, g.destination = out.data(), g.rows = 3, g.cols = g.ld = 69;
      const Status status = run(g);
      ASSERT_TRUE(status) << status.message;
      std::vector<uint16_t> got(3 * 69);
      out.download(got.data());
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < 69; ++c)
          ASSERT_EQ(got[static_cast<size_t>(r * 69 + c)], c < 67 ? value(upwards ? 2 - r : r, c + 3) : 0) << r << "," << c;
    }
    // Into far rows.
    ASSERT_EQ(cudaMemset(memory_, kSweepPoison, kElements * 2), cudaSuccess);
    SweepCrop x;
    x.source_rows = 3, x.source_cols = 101, x.row_stride = 103, x.origin = {0, -7}, x.rows = 3, x.cols = 129, x.ld = kFar;
    SweepCropCheck check = {};
    check.x = x, check.at = kGuard, check.source = small.place({{3, 103}, {101, 1}}, 5, 2);
    CropArguments g;
    g.source = check.source, g.source_rows = 3, g.source_cols = 101, g.row_stride = 103, g.origin = x.origin;
    g.destination = base(), g.rows = 3, g.cols = 129, g.ld = kFar;
    const Status status = run(g);
    ASSERT_TRUE(status) << status.message;
    compare(check, &sweep_check_crop<uint16_t>);
  }
}

}  // namespace
}  // namespace grout::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* text = std::getenv("GROUT_SWEEP_FRACTION");
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--fraction=", 11) == 0) text = argv[i] + 11;
  grout::test::fraction = text ? std::max(1ll, std::atoll(text)) : grout::test::short_run() ? 4000 : 1;
  return RUN_ALL_TESTS();
}
