// Crops on the simulated device: a sample of the sweep that the GPU runs in full (tests/gpu/copy_sweep_test.cu), the streaming
// kernel under every schedule, and cases of public reports.
#include <gtest/gtest.h>

#include "tests/kernels/copy_sweep.cuh"
#include "tests/kernels/crop_cases.cuh"
#include "tests/sim/fence.h"
#include "tests/sim/modes.h"

namespace grout::test {
namespace {

class CopySweep : public SimulatedTest90 {};

CropKernel stream_kernel() {
  return {"copy_stream", [](const CropArguments& g, CropPath& path) { return crop_stream(g, nullptr, &path); }};
}

// ---- the sweep ----------------------------------------------------------------------------------------------------

// Little memory, since the simulated device keeps a copy of it at each launch of a kernel that lets others start early.
constexpr size_t kSourceBytes = 1 << 20, kBytes = 1 << 19;
bool is_small(const SweepRepack& x) { return x.rows * x.cols <= 20'000; }

TEST_F(CopySweep, FindsWhatIsSpoilt) {
  const SweepSource source(kSourceBytes);
  const SweepVerdict none = sweep_with_two_spoilt(source, kBytes, -1, -1),
                     two = sweep_with_two_spoilt(source, kBytes, 30, 12);
  EXPECT_EQ(none.checked, 40u);
  EXPECT_EQ(none.wrong, 0u);
  EXPECT_EQ(two.checked, 40u);
  EXPECT_EQ(two.wrong, 2u);
  EXPECT_EQ(two.first_case, static_cast<unsigned long long>(kRepackAlignments + 12));
}

// Some hundred cases under each schedule, other ones each time. run(runner, index) enqueues one.
template <class Run, class Describe> void sample(int64_t count, Run run, Describe describe_case) {
  const SweepSource source(kSourceBytes);
  const int schedules = thread_sanitizer() ? 3 : 10;
  const int64_t cases = thread_sanitizer() ? 20 : sim::sanitizer() == sim::Sanitizer::address ? 100 : 300;
  for (int schedule = 0; schedule < schedules; ++schedule) {
    use(schedule, static_cast<uint64_t>(schedule));
    const int64_t first = sweep_spread(schedule * cases, count);
    const Sweep all = sweep(
        cases, count, 1, source, kBytes, [&](SweepRunner& runner, int64_t index) { run(runner, (index + first) % count); },
        describe_case);
    EXPECT_EQ(all.enqueued, cases);
    EXPECT_EQ(all.checked, cases);
    EXPECT_EQ(all.wrong, 0);
    for (const std::string& message : all.messages) ADD_FAILURE() << message << ", " << mode();
  }
}

TEST_F(CopySweep, CropBounded) {
  sample(
      kCropCases,
      [](SweepRunner& runner, int64_t index) {
        runner.crop(index, sweep_crop(index), [](const CropArguments& g, cudaStream_t stream) { return crop(g, stream); });
      },
      [](int64_t index) { return describe(sweep_crop(index)); });
}
TEST_F(CopySweep, CropStream) {
  int64_t streamed = 0, all = 0;
  const auto run = [&](const CropArguments& g, cudaStream_t stream) {
    CropPath path = CropPath::bounded;
    const Status status = crop_stream(g, stream, &path);
    streamed += path == CropPath::stream, ++all;
    return status;
  };
  sample(kCropCases, [&](SweepRunner& runner, int64_t index) { runner.crop(index, sweep_crop(index), run); },
         [](int64_t index) { return describe(sweep_crop(index)); });
  std::printf("%lld of %lld streamed\n", static_cast<long long>(streamed), static_cast<long long>(all));
  EXPECT_GT(streamed * 2, all);
}
TEST_F(CopySweep, Repack) {
  const auto small = [](int64_t index) {
    while (!is_small(sweep_repack(index))) index = (index + 1) % kRepackCases;
    return index;
  };
  sample(kRepackCases, [&](SweepRunner& runner, int64_t index) { runner.repack(small(index), sweep_repack(small(index))); },
         [](int64_t index) { return describe(sweep_repack(index)); });
}

// ---- the streaming kernel -----------------------------------------------------------------------------------------

TEST_F(CopySweep, SeededStreams) {
  const int cases = thread_sanitizer() ? 24 : 700, least = thread_sanitizer() ? 20 : 400;
  int ran = 0, streamed = 0;
  for (const CropCase& x : crop_cases(cases, 7, thread_sanitizer() ? 65 : INT64_MAX)) {
    use(ran % 10, static_cast<uint64_t>(ran));
    CropPath path = CropPath::bounded;
    ASSERT_EQ(run_crop(x, guard(), stream_kernel(), &path), "") << mode();
    ++ran, streamed += path == CropPath::stream;
  }
  std::printf("%d crops, %d of them streamed\n", ran, streamed);
  EXPECT_GE(ran, least);
  EXPECT_GE(streamed * 2, ran);
}

// The column stride of a single column is never used.
TEST_F(CopySweep, ASingleColumnStreamsWithAnyStride) {
  for (const int64_t stride : {int64_t{1}, int64_t{0}, int64_t{-5}, INT64_MAX, INT64_MIN}) {
    CropCase x;
    x.g.source_rows = 33, x.g.source_cols = 1, x.g.row_stride = 7, x.g.col_stride = stride, x.g.origin = {-1, -2};
    x.g.rows = 35, x.g.cols = 5, x.g.ld = 9, x.misalignment = 6, x.misalignment_out = 2;
    CropPath path = CropPath::bounded;
    ASSERT_EQ(run_crop(x, guard(), stream_kernel(), &path), "");
    EXPECT_EQ(path, CropPath::stream);
  }
}

// Which kernel runs, where a mistake would still give the right bytes here.
TEST_F(CopySweep, StreamsWhereItCan) {
  CropCase x;
  x.g.source_rows = 33, x.g.source_cols = 40, x.g.row_stride = 41, x.g.rows = 35, x.g.cols = 50, x.g.ld = 51;
  for (const int capability : {80, 89, 90, 120}) {
    sim::options().compute_capability = capability;
    CropPath path = CropPath::tensor;
    ASSERT_EQ(run_crop(x, guard(), stream_kernel(), &path), "");
    EXPECT_EQ(path, capability < 90 ? CropPath::bounded : CropPath::stream) << capability;
  }
  const auto streams = [](int64_t source_rows, int64_t source_cols, int64_t col_stride, int64_t rows, int64_t cols, int64_t ld) {
    CropArguments g;
    g.source_rows = source_rows, g.source_cols = source_cols, g.row_stride = 1, g.col_stride = col_stride;
    g.rows = rows, g.cols = cols, g.ld = ld;
    return crop_can_stream(g, 9);
  };
  EXPECT_TRUE(streams(4, 4, 1, 4, 4, 4));
  EXPECT_FALSE(streams(4, 4, 2, 4, 4, 4));
  EXPECT_FALSE(streams(4, 4, -1, 4, 4, 4));
  EXPECT_TRUE(streams(0, 4, 2, 4, 4, 4)) << "nothing is read";
  EXPECT_TRUE(streams(4, 0, 2, 4, 4, 4));
  // Fewer than 2^31 stretches of 128 vectors; rows of unaligned pitch may take one vector more.
  constexpr int64_t kHalf = int64_t{1} << 30;
  EXPECT_TRUE(streams(4, 4, 1, 2 * kHalf - 1, 1024, 1024));
  EXPECT_FALSE(streams(4, 4, 1, 2 * kHalf, 1024, 1024));
  EXPECT_TRUE(streams(4, 4, 1, kHalf - 1, 1024, 1025));
  EXPECT_FALSE(streams(4, 4, 1, kHalf, 1024, 1025));
  EXPECT_FALSE(streams(4, 4, 1, kHalf, 1025, 1032));
}

// Whole words are read only where all of their bytes are the source's: not the word that the first element shares with what lies
// before it, nor the one that the last element shares with what lies behind.
TEST_F(CopySweep, ReadsNothingAroundTheSource) {
  if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only";
  constexpr int64_t kRows = 5, kCols = 77, kOutRows = 7, kOutCols = 90;
  int ran = 0;
  for (const CropKernel& kernel : {bounded_kernel(), stream_kernel()})
    for (const ElementType type : {ElementType::bf16, ElementType::f32})
      for (const size_t misalignment : {8, 12})
        for (const int64_t pitch : {77, 79, -77, -80})
          for (const int64_t col : {0, 1, -3, -4, 8}) {
            use(5 + ran % 5, static_cast<uint64_t>(ran));
            const size_t size = element_bytes(type);
            const int64_t low = pitch < 0 ? (kRows - 1) * pitch : 0;
            std::vector<unsigned char> source(static_cast<size_t>((kRows - 1) * std::abs(pitch) + kCols) * size),
                got(kOutRows * kOutCols * size);
            for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(1 + i * 7 % 251);
            DeviceBuffer from(source.size(), misalignment, kPoison, 0), out(got.size(), 0, kOutputPadding, 0);
            from.upload(source.data());
            CropArguments g;
            g.type = type, g.source = from.as<unsigned char>() - low * static_cast<int64_t>(size);
            g.source_rows = kRows, g.source_cols = kCols, g.row_stride = pitch, g.origin = {-1, col};
            g.destination = out.data(), g.rows = kOutRows, g.cols = g.ld = kOutCols;
            {
              const Fence front(from.as<unsigned char>() - misalignment, misalignment);
              CropPath path;
              const Status status = kernel.crop(g, path);
              ASSERT_TRUE(status) << kernel.name << ", pitch " << pitch << ", column " << col << ": " << status.message;
            }
            out.download(got.data());
            for (int64_t r = 0; r < kOutRows; ++r)
              for (int64_t c = 0; c < kOutCols; ++c) {
                const bool exists = r - 1 >= 0 && r - 1 < kRows && c + col >= 0 && c + col < kCols;
                const unsigned char zeros[4] = {};
                const auto* expected = exists ? &source[static_cast<size_t>((r - 1) * pitch + c + col - low) * size] : zeros;
                ASSERT_EQ(std::memcmp(&got[static_cast<size_t>(r * kOutCols + c) * size], expected, size), 0)
                    << kernel.name << ", pitch " << pitch << ", column " << col << ": " << r << "," << c;
              }
            ++ran;
          }
  EXPECT_EQ(ran, 2 * 2 * 2 * 4 * 5);
}

// ---- cases of public reports --------------------------------------------------------------------------------------

// An interpreter that tested only the upper bound read before the base. Origins on each side of a tile before it, in each axis
// and both; the memory before the base is poison.
TEST_F(CopySweep, OriginsBeforeTheSource) {
  if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only";
  int ran = 0;
  for (const CropKernel& kernel : {bounded_kernel(), stream_kernel()})
    for (const ElementType type : {ElementType::bf16, ElementType::f32}) {
      const int64_t tile_rows = 64, tile_cols = 128 / static_cast<int64_t>(element_bytes(type)), stretch = 16 * tile_cols;
      for (const int64_t row :
           {int64_t{0}, int64_t{-1}, -tile_rows + 1, -tile_rows, -tile_rows - 1, INT64_MIN / 2, int64_t{41}})
        for (const int64_t col : {int64_t{0}, int64_t{-1}, -tile_cols + 1, -tile_cols, -tile_cols - 1, -stretch + 1,
                                  -stretch, -stretch - 1, INT64_MIN / 2, int64_t{41}}) {
          CropCase x;
          x.g.type = type, x.g.source_rows = x.g.source_cols = 41, x.g.row_stride = 41 + ran % 3;
          x.g.origin = {row, col}, x.g.rows = 71, x.g.cols = col <= -stretch + 1 ? stretch + 9 : tile_cols + 9,
          x.g.ld = x.g.cols + ran % 4;
          x.misalignment = static_cast<size_t>(ran % 9) * element_bytes(type),
          x.misalignment_out = static_cast<size_t>(ran % 5) * element_bytes(type);
          use(ran % 10, static_cast<uint64_t>(ran));
          ASSERT_EQ(run_crop(x, guard(), kernel), "") << mode();
          ++ran;
        }
    }
  EXPECT_EQ(ran, 2 * 2 * 7 * 10);
}

// A default copy took 16-byte accesses for float rows of 129.
TEST_F(CopySweep, FloatRowsOf129) {
  if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only";
  for (const CropKernel& kernel : {bounded_kernel(), stream_kernel()})
    for (const int64_t pitch : {129, 130, 132})
      for (const int64_t pitch_out : {129, 130, 132})
        for (const size_t misalignment : {0, 4, 8, 12}) {
          CropCase x;
          x.g.type = ElementType::f32, x.g.source_rows = 33, x.g.source_cols = 129, x.g.row_stride = pitch;
          x.g.rows = 33, x.g.cols = 129, x.g.ld = pitch_out, x.misalignment = misalignment,
          x.misalignment_out = (misalignment * 3) % 16;
          ASSERT_EQ(run_crop(x, guard(), kernel), "");
        }
}

// A grid of floor(1000 / 32) blocks left the last rows and columns unwritten.
TEST_F(CopySweep, ThousandByThousand) {
  if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only";
  for (const CropKernel& kernel : {bounded_kernel(), stream_kernel()})
    for (const ElementType type : {ElementType::bf16, ElementType::f32}) {
      CropCase x;
      x.g.type = type, x.g.source_rows = x.g.source_cols = x.g.row_stride = x.g.rows = x.g.cols = x.g.ld = 1000;
      ASSERT_EQ(run_crop(x, guard(), kernel), "");
    }
}

}  // namespace
}  // namespace grout::test
