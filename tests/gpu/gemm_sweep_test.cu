// TEST_TARGET: sm_80
// The GEMM sweep: every M, N and K of 1..17 and nine sizes around tile borders (26^3 shapes), in four layouts, with the 64
// rows of an orthogonal array over pitch + 0..7 and base offset 0..7 of A, B and C: 4,499,456 cases in bf16, and every
// 16th with the other types (every 4th in fp32). Exact: operands are small integers. NaN lies around every operand and in all padding.
// Operands, reference and comparison stay on the device.
//
// --fraction=N (or GROUT_SWEEP_FRACTION=N) runs one case in N, spread over all of them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "common/check_gpu.cuh"
#include "tests/gpu/support.cuh"
#include "tests/kernels/gemm_call.cuh"

namespace grout::test {
namespace {

int64_t fraction = 1;

// ---- the orthogonal array ---------------------------------------------------------------------------------------

// Product in GF(8), polynomials over GF(2) modulo x^3 + x + 1.
constexpr int gf8_product(int a, int b) {
  int product = 0;
  for (int bit = 0; bit < 3; ++bit)
    if (b >> bit & 1) product ^= a << bit;
  for (int bit = 4; bit >= 3; --bit)
    if (product >> bit & 1) product ^= 0b1011 << (bit - 3);
  return product;
}
// OA(64, 6, 8, 2): row (u, v) has u + c v in column c. Two columns c != d give every pair of levels once, since u + c v and
// u + d v determine u and v.
constexpr int kRows = 64, kFactors = 6;
constexpr int level(int row, int factor) { return row / 8 ^ gf8_product(factor, row % 8); }

TEST(OrthogonalArray, HasStrengthTwo) {
  for (int x = 0; x < kFactors; ++x)
    for (int y = 0; y < kFactors; ++y) {
      if (x == y) continue;
      std::set<std::pair<int, int>> pairs;
      for (int row = 0; row < kRows; ++row) {
        ASSERT_GE(level(row, x), 0);
        ASSERT_LT(level(row, x), 8);
        pairs.insert({level(row, x), level(row, y)});
      }
      EXPECT_EQ(pairs.size(), 64u) << "columns " << x << " and " << y;
    }
}

// ---- the cases --------------------------------------------------------------------------------------------------

constexpr int kSizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,  11,  12,  13,
                          14, 15, 16, 17, 63, 64, 65, 105, 107, 127, 129, 255, 257};
constexpr int64_t kExtents = 26, kCases = kExtents * kExtents * kExtents * 4 * kRows, kSpacing = 16;
static_assert(std::size(kSizes) == kExtents && kCases == 4'499'456);

struct Types {
  ElementType in, out;
};
constexpr Types kMain = {ElementType::bf16, ElementType::bf16};
constexpr Types kOthers[] = {{ElementType::f16, ElementType::f16},
                             {ElementType::f16, ElementType::f32},
                             {ElementType::bf16, ElementType::f32},
                             {ElementType::bf16, ElementType::f16},
                             {ElementType::f16, ElementType::bf16}};

// Case `index`: the orthogonal array's row, then the layout, then the shape. Memory is laid out by `Arena`.
struct SweepCase {
  int m, n, k, pad_a, pad_b, pad_c, offset_a, offset_b, offset_c;
  bool trans_a, trans_b;
};
SweepCase sweep_case(int64_t index) {
  const int row = static_cast<int>(index % kRows), layout = static_cast<int>(index / kRows % 4);
  const int64_t shape = index / (kRows * 4);
  return {kSizes[shape / (kExtents * kExtents)],
          kSizes[shape / kExtents % kExtents],
          kSizes[shape % kExtents],
          level(row, 0),
          level(row, 1),
          level(row, 2),
          level(row, 3),
          level(row, 4),
          level(row, 5),
          (layout & 1) != 0,
          (layout & 2) != 0};
}
std::string describe(int64_t index, Types types) {
  const SweepCase x = sweep_case(index);
  char text[240];
  std::snprintf(text, sizeof text,
                "sweep case %lld: %s to %s %c%c M=%d N=%d K=%d, pitch A +%d B +%d C +%d, offset A %d B %d C %d",
                static_cast<long long>(index), element_name(types.in), element_name(types.out), x.trans_a ? 't' : 'n',
                x.trans_b ? 't' : 'n', x.m, x.n, x.k, x.pad_a, x.pad_b, x.pad_c, x.offset_a, x.offset_b, x.offset_c);
  return text;
}

// ---- one chunk of them ------------------------------------------------------------------------------------------

constexpr int kChunk = 8192;
constexpr int64_t kGuard = 64, kUnit = 128;  // elements; a base without offset is a multiple of 128 bytes from the arena's

struct Memory {
  void* data = nullptr;
  size_t size = 0;
  ~Memory() { (void)cudaFree(data); }
  void reserve(size_t bytes) {
    if (bytes <= size) return;
    require_success(cudaFree(data), "cudaFree");
    data = nullptr, size = bytes + bytes / 4;
    require_success(cudaMalloc(&data, size), "cudaMalloc");
  }
};

// Runs chunks of cases on a stream of its own.
class Runner {
 public:
  Runner() {
    require_success(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    require_success(cudaMallocHost(&host_, kChunk * sizeof(SmallCase)), "cudaMallocHost");
    cases_.reserve(kChunk * sizeof(SmallCase)), result_.reserve(sizeof(ManyResult));
  }
  ~Runner() { (void)cudaFreeHost(host_), (void)cudaStreamDestroy(stream_); }
  Runner(const Runner&) = delete;

  // `spoil` may change the output before it is compared. Returns the verdict; a refused case throws.
  template <class Spoil> ManyResult run(const std::vector<int64_t>& indices, Types types, Spoil spoil) {
    const int count = static_cast<int>(indices.size());
    int64_t end_a = 0, end_b = 0, end_d = 0;
    const auto place = [](int64_t& end, int64_t rows, int64_t pitch, int64_t cols, int offset) {
      const int64_t base = end + kGuard + offset;
      end = (base + (rows - 1) * pitch + cols + kGuard + kUnit - 1) / kUnit * kUnit;
      return base;
    };
    for (int i = 0; i < count; ++i) {
      const SweepCase x = sweep_case(indices[static_cast<size_t>(i)]);
      SmallCase& s = host_[i];
      const int rows_a = x.trans_a ? x.k : x.m, row_a = x.trans_a ? x.m : x.k;
      const int rows_b = x.trans_b ? x.n : x.k, row_b = x.trans_b ? x.k : x.n;
      s = SmallCase{};
      s.m = x.m, s.n = x.n, s.k = x.k, s.lda = row_a + x.pad_a, s.ldb = row_b + x.pad_b, s.ldc = x.n + x.pad_c;
      s.a_transposed = x.trans_a, s.b_transposed = x.trans_b;
      s.a = place(end_a, rows_a, s.lda, row_a, x.offset_a);
      s.b = place(end_b, rows_b, s.ldb, row_b, x.offset_b);
      s.d_begin = end_d;
      s.d = place(end_d, x.m, s.ldc, x.n, x.offset_c);
      s.d_end = end_d;
    }
    const size_t in = element_bytes(types.in), out = element_bytes(types.out);
    a_.reserve(static_cast<size_t>(end_a) * in), b_.reserve(static_cast<size_t>(end_b) * in);
    d_.reserve(static_cast<size_t>(end_d) * out);
    const auto* cases = static_cast<const SmallCase*>(cases_.data);
    require_success(cudaMemcpyAsync(cases_.data, host_, static_cast<size_t>(count) * sizeof(SmallCase),
                                    cudaMemcpyHostToDevice, stream_), "upload");
    require_success(cudaMemsetAsync(a_.data, kPoison, static_cast<size_t>(end_a) * in, stream_), "cudaMemset");
    require_success(cudaMemsetAsync(b_.data, kPoison, static_cast<size_t>(end_b) * in, stream_), "cudaMemset");
    require_success(cudaMemsetAsync(d_.data, kOutputPadding, static_cast<size_t>(end_d) * out, stream_), "cudaMemset");
    const Fill fill{true, static_cast<uint64_t>(indices.front()) + 1, 4};
    require(fill_many(cases, count, types.in, a_.data, b_.data, fill, stream_));

    GemmCall g;
    g.type = types.in, g.out = types.out;
    for (int i = 0; i < count; ++i) {
      const SmallCase& s = host_[i];
      g.m = s.m, g.n = s.n, g.k = s.k, g.lda = s.lda, g.ldb = s.ldb, g.ldc = s.ldc;
      g.trans_a = s.a_transposed, g.trans_b = s.b_transposed;
      g.a = static_cast<const char*>(a_.data) + static_cast<size_t>(s.a) * in;
      g.b = static_cast<const char*>(b_.data) + static_cast<size_t>(s.b) * in;
      g.d = static_cast<char*>(d_.data) + static_cast<size_t>(s.d) * out;
      if (const Status status = run_gemm(g, stream_); !status)
        throw std::runtime_error(describe(indices[static_cast<size_t>(i)], types) + ": " + status.message);
    }
    spoil(host_, d_.data, stream_);
    ManyResult result;
    require_success(cudaMemcpyAsync(result_.data, &result, sizeof result, cudaMemcpyHostToDevice, stream_), "upload");
    require(compare_many(cases, count, types.in, a_.data, b_.data, types.out, d_.data, nullptr, kOutputPadding,
                         static_cast<ManyResult*>(result_.data), stream_));
    require_success(cudaMemcpyAsync(&result, result_.data, sizeof result, cudaMemcpyDeviceToHost, stream_), "download");
    require_success(cudaStreamSynchronize(stream_), "the sweep");
    return result;
  }

 private:
  cudaStream_t stream_ = nullptr;
  SmallCase* host_ = nullptr;
  Memory cases_, result_, a_, b_, d_;
};

// Permutes the numbers 0..count-1 (1,000,003 is prime and divides none of the counts): consecutive positions have unlike
// shapes, so that every chunk is as much work.
int64_t spread(int64_t position, int64_t count = kCases) { return position * 1'000'003 % count; }

struct Sweep {
  int64_t cases = 0, failed = 0;
  std::vector<std::string> messages;
  double seconds = 0;
};

// Runs `total` cases: `index_of(i)` of `types_of(chunk)`.
template <class IndexOf, class TypesOf> Sweep sweep(int64_t total, IndexOf index_of, TypesOf types_of) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t chunks = (total + kChunk - 1) / kChunk;
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  Sweep all;
  const auto work = [&] {
    try {
      Runner runner;
      for (int64_t chunk; (chunk = next++) < chunks;) {
        std::vector<int64_t> indices;
        for (int64_t i = chunk * kChunk; i < std::min(total, (chunk + 1) * kChunk); ++i) indices.push_back(index_of(i));
        const Types types = types_of(chunk);
        const ManyResult result = runner.run(indices, types, [](auto...) {});
        const std::lock_guard lock(mutex);
        all.cases += static_cast<int64_t>(indices.size()), all.failed += static_cast<int64_t>(result.failed_cases);
        if (result.failed_cases)
          all.messages.push_back(describe(indices[result.first_failed], types) + ": the first of " +
                                 std::to_string(result.failed_cases) + " in its chunk, with " +
                                 std::to_string(result.wrong_elements) + " wrong elements and " +
                                 std::to_string(result.touched_elements) + " touched ones");
      }
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      ++all.failed;
      all.messages.push_back(error.what());
    }
  };
  std::vector<std::thread> workers(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
  for (std::thread& worker : workers) worker = std::thread(work);
  for (std::thread& worker : workers) worker.join();
  all.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return all;
}

void judge(const Sweep& all, int64_t expected, const char* what) {
  std::printf("%s: %lld of %lld cases ran, %lld failed, %.1f s, %.2f us a case\n", what, static_cast<long long>(all.cases),
              static_cast<long long>(expected), static_cast<long long>(all.failed), all.seconds,
              all.seconds * 1e6 / static_cast<double>(std::max<int64_t>(all.cases, 1)));
  EXPECT_EQ(all.failed, 0);
  for (size_t i = 0; i < std::min<size_t>(all.messages.size(), 10); ++i) ADD_FAILURE() << all.messages[i];
  EXPECT_EQ(all.cases, expected);
}

class GemmSweep : public GpuTest {};

// One wrong element, and one touched element of padding, among 600 cases are both found.
TEST_F(GemmSweep, FindsOneWrongElement) {
  Runner runner;
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 600; ++i) indices.push_back(spread(i));
  for (const Types types : {kMain, kOthers[0], kOthers[1]}) {
    EXPECT_EQ(runner.run(indices, types, [](auto...) {}).failed_cases, 0u);
    const ManyResult spoiled = runner.run(indices, types, [&](const SmallCase* cases, void* d, cudaStream_t stream) {
      const size_t size = element_bytes(types.out);
      const auto set = [&](int64_t element, int byte) {
        require_success(cudaMemsetAsync(static_cast<char*>(d) + static_cast<size_t>(element) * size, byte, size, stream), "spoil");
      };
      set(cases[300].d + (cases[300].m - 1) * cases[300].ldc + cases[300].n - 1, 0xff);  // the last element: NaN
      set(cases[400].d_end - 1, 0);                                                      // behind the matrix
    });
    EXPECT_EQ(spoiled.failed_cases, 2u);
    EXPECT_EQ(spoiled.wrong_elements, 1u);
    EXPECT_EQ(spoiled.touched_elements, 1u);
    EXPECT_EQ(spoiled.first_failed, 300u);
  }
}

TEST_F(GemmSweep, Bf16) {
  const int64_t total = kCases / fraction;
  judge(sweep(total, [](int64_t i) { return spread(i); }, [](int64_t) { return kMain; }), total, "bf16");
  if (fraction == 1) {
    EXPECT_EQ(total, 4'499'456);
  } else {
    std::printf("1 case in %lld; all of them: --fraction=1\n", static_cast<long long>(fraction));
  }
}

// One of every `spacing` cases, a power of two.
int64_t spaced(int64_t i, int64_t spacing) {
  const int64_t group = spread(i, kCases / spacing);
  const auto mixed = static_cast<uint64_t>(group) * 0x9e3779b97f4a7c15u;  // no factor follows another
  return group * spacing + static_cast<int64_t>(mixed >> 60) % spacing;
}

// One case of every 16 with the other types, a chunk each in turn.
TEST_F(GemmSweep, OtherTypes) {
  const int64_t total = kCases / kSpacing / fraction;
  judge(sweep(total, [](int64_t i) { return spaced(i, kSpacing); },
              [](int64_t chunk) { return kOthers[chunk % std::size(kOthers)]; }),
        total, "other types");
  if (fraction == 1) {
    EXPECT_EQ(total, 281'216);
  }
}

// One case of every 4 in fp32, every fourth chunk with a 16-bit output.
TEST_F(GemmSweep, F32) {
  const int64_t total = kCases / 4 / fraction;
  judge(sweep(total, [](int64_t i) { return spaced(i, 4); },
              [](int64_t chunk) { return Types{ElementType::f32, chunk % 4 == 0 ? ElementType::bf16 : ElementType::f32}; }),
        total, "f32");
  if (fraction == 1) {
    EXPECT_EQ(total, 1'124'864);
  }
}

}  // namespace
}  // namespace grout::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* text = std::getenv("GROUT_SWEEP_FRACTION");
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--fraction=", 11) == 0) text = argv[i] + 11;
  grout::test::fraction = text ? std::max(1ll, std::atoll(text)) : grout::test::short_run() ? 5000 : 1;
  return RUN_ALL_TESTS();
}
