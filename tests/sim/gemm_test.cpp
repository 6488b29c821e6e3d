// The GEMM on the simulated device: seeded cases over every factor of its contract, published bug reports as cases,
// refusals, and proof that every kernel which the host entry can reach was run.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <limits>
#include <set>

#include "tests/kernels/gemm_call.cu"
#include "tests/kernels/gemm_cases.cuh"
#include "tests/sim/modes.h"

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* address, std::size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* address, std::size_t bytes);
}

namespace grout::test {
namespace {

class Gemm : public SimulatedTest {};
class GemmSlow : public Gemm {
 protected:
  void SetUp() override {
    Gemm::SetUp();
    if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only (1 ms a simulated thread)";
  }
};

void use(const GemmCase& x) {
  sim::options().schedule = sim::kSchedules[x.schedule % 5];
  sim::options().asynchrony = sim::kAsynchronies[x.schedule / 5];
  sim::options().seed = x.seed;
  sim::options().sms = x.processors;
}

// Runs the case; false where anything about it is wrong.
bool right(const GemmCase& x, GemmChosen* chosen = nullptr) {
  use(x);
  GemmData data(x, guard());
  if (const Status status = run_gemm(data.call(), nullptr, chosen); !status) {
    ADD_FAILURE() << describe(x) << ": " << status.message;
    return false;
  }
  const Comparison result = data.verify();
  EXPECT_TRUE(result.pass()) << result.message;
  return result.pass();
}

int64_t small_tiles(const GemmCase& x) { return (x.m + 63) / 64 * ((x.n + 63) / 64) * x.batch; }

// Tiles that stick out of M or N, with many k-tiles before the end of K and a ragged or full last one: in every layout and
// tile, vectors that leave their row must neither read past the operand nor bring its padding, NaN, into a result.
TEST_F(Gemm, RaggedSidesBeforeTheEndOfK) {
  struct Shape {
    int64_t m, n;
    int processors;
  };
  int cases = 0;
  std::set<std::string> tiles;
  for (const Shape& shape : {Shape{127, 255, 1}, {121, 250, 1}, {130, 259, 1}, {67, 61, 4}, {1, 3, 1}}) {
    for (const int64_t k : {256, 300, 449, 512}) {
      for (int layout = 0; layout < 4; ++layout) {
        if (thread_sanitizer() && (cases++ % 5 != 0 || shape.n > 200)) continue;
        GemmCase x;
        x.m = shape.m, x.n = shape.n, x.k = k;
        x.trans_a = layout & 2, x.trans_b = layout & 1;
        const auto pad = [](int64_t row) { return (8 - row % 8) % 8; };
        x.pad_a = pad(x.trans_a ? x.m : x.k), x.pad_b = pad(x.trans_b ? x.k : x.n), x.pad_c = pad(x.n);
        x.processors = shape.processors, x.schedule = cases % 10, x.seed = static_cast<uint64_t>(100 + cases);
        GemmChosen chosen;
        ASSERT_TRUE(right(x, &chosen));
        EXPECT_EQ(chosen.path, "bounded") << describe(x);
        tiles.insert(std::to_string(chosen.tile_m) + "x" + std::to_string(chosen.tile_n));
        ++cases;
      }
    }
  }
  if (!thread_sanitizer()) {
    EXPECT_EQ(tiles, (std::set<std::string>{"128x256", "128x128", "64x64"}));
  }
}

TEST_F(Gemm, SeededCases) {
  constexpr int kCases = 480, kLeast = 400, kThreadSanitizerCases = 48, kThreadSanitizerLeast = 20;
  FactorCounts factors;
  std::set<std::string> schedules;
  int ran = 0, launched = 0, failed = 0;
  for (GemmCase x : gemm_cases(kCases, 1)) {
    if (thread_sanitizer()) {
      // At most four blocks, and two schedules, of which the greedy one is best at meeting in the wrong order.
      if (launched == kThreadSanitizerCases) break;
      if (small_tiles(x) < 1 || small_tiles(x) > 4 || x.k < 8 || x.k > 130 || x.alpha == 0) continue;
      x.schedule = launched % 3 == 2 ? 7 : launched % 3 == 1 ? 2 : 3;
      x.processors = launched % 2 ? 1 : 4;  // 1: a block walks several tiles
    } else if (std::max({x.m, x.n, x.k}) >= 257 && ran % 4 != 0) {
      // The largest extent in a quarter of its cases: it is slow, and reaches nothing that 130 does not.
      for (int64_t* extent : {&x.m, &x.n, &x.k})
        if (*extent >= 257) *extent = x.bounds == CallBounds::none || *extent % 32 == 0 ? 128 : 130;
    }
    GemmChosen chosen;
    if (!right(x, &chosen) && ++failed > 10) FAIL() << "more than 10 cases failed";
    ++ran;
    launched += chosen.kernel != "none";
    if (chosen.kernel != "none" && x.bounds != CallBounds::automatic) {
      EXPECT_EQ(chosen.path == "aligned", x.bounds == CallBounds::none) << describe(x);
    }
    count_gemm_factors(factors, x, chosen);
    schedules.insert(std::string(sim::name(sim::options().schedule)) + " " + sim::name(sim::options().asynchrony));
  }
  std::printf("%d cases, %d of them launched a kernel, %zu schedules\n", ran, launched, schedules.size());
  if (thread_sanitizer()) {
    EXPECT_GE(launched, kThreadSanitizerLeast);
    EXPECT_EQ(schedules, (std::set<std::string>{"warp_greedy late", "random late", "random early"}));
    return;
  }
  factors.print();
  expect_gemm_factors(factors, kGemmSizes);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  EXPECT_GE(ran, kLeast);
  EXPECT_EQ(schedules.size(), 10u);
}

// The bytes of the output do not depend on what lies outside the logical operands.
TEST_F(GemmSlow, PaddingChangesNoBit) {
  int compared = 0;
  for (const GemmCase& x : gemm_cases(60, 2, {1, 7, 17, 33, 64, 65, 97})) {
    use(x);
    std::vector<unsigned char> first;
    for (const unsigned char padding : {kPoison, static_cast<unsigned char>(0), static_cast<unsigned char>(0x7f)}) {
      GemmData data(x, guard(), padding);
      ASSERT_TRUE(run_gemm(data.call(), nullptr));
      if (first.empty()) first = data.output();
      else EXPECT_EQ(first, data.output()) << describe(x) << " with padding " << int{padding};
      ++compared;
    }
  }
  std::printf("%d outputs compared\n", compared);
}

TEST_F(GemmSlow, RepeatsAreBitIdentical) {
  GemmCase x;
  x.m = 65, x.n = 97, x.k = 73, x.alpha = 0.5f, x.beta = -1, x.integers = false, x.in_place = false, x.out = ElementType::f32;
  std::vector<unsigned char> first;
  for (int i = 0; i < 200; ++i) {
    x.schedule = i % 10;
    use(x);
    sim::options().seed = static_cast<uint64_t>(i);
    GemmData data(x, guard());
    ASSERT_TRUE(run_gemm(data.call(), nullptr));
    if (i == 0) first = data.output();
    ASSERT_EQ(first, data.output()) << "repeat " << i;
  }
}

// ---- published reports ------------------------------------------------------------------------------------------

// 16-byte accesses chosen by shape alone: bases 1 to 7 elements past alignment, each operand by itself.
TEST_F(GemmSlow, MisalignedBases) {
  for (int operand = 0; operand < 3; ++operand)
    for (int64_t offset = 1; offset <= 7; ++offset)
      for (int layout = 0; layout < 4; ++layout) {
        GemmCase x;
        x.m = x.n = x.k = 64, x.trans_a = layout & 1, x.trans_b = layout & 2;
        (operand == 0 ? x.offset_a : operand == 1 ? x.offset_b : x.offset_c) = offset;
        x.schedule = static_cast<int>(offset), x.seed = static_cast<uint64_t>(offset);
        right(x);
      }
}

// Odd extents: 2x3x4, 1x105x107 and 4x4x4, every layout and type, compact and padded.
TEST_F(GemmSlow, OddExtents) {
  const int64_t shapes[][3] = {{2, 3, 4}, {1, 105, 107}, {4, 4, 4}, {105, 1, 107}, {107, 105, 1}};
  for (const auto& s : shapes)
    for (int layout = 0; layout < 4; ++layout)
      for (int64_t pad = 0; pad < 8; ++pad) {
        GemmCase x;
        x.m = s[0], x.n = s[1], x.k = s[2], x.trans_a = layout & 1, x.trans_b = layout & 2;
        x.type = x.out = pad % 2 ? ElementType::bf16 : ElementType::f16;
        x.pad_a = x.pad_b = x.pad_c = pad;
        right(x);
      }
}

// Last rows and columns never written: C starts as NaN, every element must be written.
TEST_F(GemmSlow, ThousandSquareIsWrittenInFull) {
  GemmCase x;
  x.m = x.n = 1000, x.k = 8;
  right(x);
}

// A tile larger than the problem, rows packed: a store past a row would land in the next one, inside the allocation.
TEST_F(GemmSlow, TileLargerThanTheProblem) {
  for (const int64_t m : {1, 3, 16, 31, 63})
    for (const int64_t n : {1, 5, 16, 33, 63}) {
      GemmCase x;
      x.m = m, x.n = n, x.k = 8, x.out = n % 2 ? ElementType::f32 : ElementType::bf16;
      x.schedule = static_cast<int>(n % 10);
      right(x);
    }
}

// The end of K reads into the next row, and NaN * 0 leaks: A has ones in row 0 and NaN in all others.
TEST_F(GemmSlow, NaNInOtherRows) {
  for (const int64_t pad : {0, 3, 7}) {
    GemmCase x;
    x.m = 32, x.k = 33, x.n = 64, x.batch = 16, x.pad_a = x.pad_b = x.pad_c = pad, x.out = ElementType::f32;
    GemmData data(x, guard());
    std::fill(data.a.bytes.begin(), data.a.bytes.end(), kPoison);
    for (int64_t b = 0; b < x.batch; ++b)
      for (int64_t i = 0; i < x.k; ++i) data.a.set(b, 0, i, 1.f);
    data.device_a.upload(data.a.bytes.data());
    ASSERT_TRUE(run_gemm(data.call(), nullptr));
    HostMatrix got = data.d;
    got.bytes = data.output();
    for (int64_t b = 0; b < x.batch; ++b)
      for (int64_t j = 0; j < x.n; ++j) {
        float sum = 0;
        for (int64_t i = 0; i < x.k; ++i) sum += data.b.get(b, i, j);
        EXPECT_EQ(got.get(b, 0, j), sum) << "batch " << b << " column " << j << " pitch +" << pad;
      }
  }
}

// Realigning reads the aligned words around its vectors, but none that begins before an operand does: eight bytes of that
// word are forbidden here. (Behind the operands the allocation ends.)
TEST_F(Gemm, ReadsNothingBeforeTheOperands) {
  if (!address_sanitizer()) GTEST_SKIP() << "AddressSanitizer is what notices";
  for (int64_t offset = 4; offset <= 7; ++offset)
    for (int layout = 0; layout < 4; ++layout) {
      GemmCase x;
      x.m = 65, x.n = 97, x.k = 73, x.trans_a = layout & 1, x.trans_b = layout & 2, x.offset_a = x.offset_b = offset;
      use(x);
      GemmData data(x, 0);
      const auto* a = data.device_a.as<bf16>() - offset;
      const auto* b = data.device_b.as<bf16>() - offset;
      __asan_poison_memory_region(a, 8), __asan_poison_memory_region(b, 8);
      GemmChosen chosen;
      const Status status = run_gemm(data.call(), nullptr, &chosen);
      __asan_unpoison_memory_region(a, 8), __asan_unpoison_memory_region(b, 8);
      ASSERT_TRUE(status) << describe(x) << ": " << status.message;
      EXPECT_EQ(chosen.path, "realign");
      const Comparison result = data.verify();
      EXPECT_TRUE(result.pass()) << result.message;
    }
}

// Short K ignored: the product of ones is exactly K. 24 is no multiple of the instruction's 16.
TEST_F(GemmSlow, OnesGiveK) {
  for (int64_t k = 1; k <= 65; ++k) {
    GemmCase x;
    x.m = x.n = 128, x.k = k, x.out = ElementType::f32, x.trans_b = k % 2, x.schedule = static_cast<int>(k % 10);
    use(x);
    GemmData data(x, guard());
    for (HostMatrix* matrix : {&data.a, &data.b})
      for (int64_t r = 0; r < matrix->layout.rows; ++r)
        for (int64_t c = 0; c < matrix->layout.cols; ++c) matrix->set(0, r, c, 1.f);
    data.device_a.upload(data.a.bytes.data()), data.device_b.upload(data.b.bytes.data());
    ASSERT_TRUE(run_gemm(data.call(), nullptr));
    HostMatrix got = data.d;
    got.bytes = data.output();
    for (int64_t r = 0; r < x.m; ++r)
      for (int64_t c = 0; c < x.n; ++c) ASSERT_EQ(got.get(0, r, c), static_cast<float>(k)) << r << "," << c;
  }
}

// K = 0 leaves the accumulator unwritten: groups of K 0, 8, 8, 0, 16; exactly 0 without products.
TEST_F(GemmSlow, NoProducts) {
  for (const int64_t k : {0, 8, 8, 0, 16})
    for (const float beta : {0.f, -1.f})
      for (const ElementType out : {ElementType::bf16, ElementType::f16, ElementType::f32}) {
        GemmCase x;
        x.m = x.n = 16, x.k = k, x.beta = beta, x.out = out, x.null_unread = true;
        right(x);
      }
}

// Without products alpha does not matter either: zeros, all bits, where it is negative, infinite or no number.
TEST_F(GemmSlow, NoProductsWhateverAlpha) {
  for (const float alpha : {-2.f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    GemmCase x;
    x.m = x.n = 17, x.k = 0, x.out = ElementType::f32;
    use(x);
    GemmData data(x, guard());
    GemmCall g = data.call();
    g.alpha = alpha;
    const Status status = run_gemm(g, nullptr);
    ASSERT_TRUE(status) << status.message;
    EXPECT_EQ(data.output(), std::vector<unsigned char>(17 * 17 * 4, 0)) << alpha;
  }
}

// alpha = 0 reads neither A nor B (both hold NaN); beta = 0 does not read C (NaN, or null). Whole and ragged tiles.
TEST_F(GemmSlow, UnreadOperands) {
  for (const int64_t extent : {64, 65})
    for (const float alpha : {0.f, 1.f})
      for (const float beta : {0.f, 1.f})
        for (const bool null_unread : {false, true})
          for (const bool in_place : {false, true}) {
            GemmCase x;
            x.m = x.n = extent, x.k = 64, x.alpha = alpha, x.beta = beta, x.null_unread = null_unread, x.in_place = in_place;
            right(x);
          }
}

// Nothing to compute: success without a launch, whatever the pointers.
TEST_F(GemmSlow, EmptyOutputsLaunchNothing) {
  for (const auto& [m, n, batch] : {std::tuple{0, 5, 1}, std::tuple{5, 0, 1}, std::tuple{5, 5, 0}, std::tuple{0, 0, 0}}) {
    GemmCall g;
    g.m = m, g.n = n, g.k = 4, g.batch = batch, g.lda = 4, g.ldb = g.ldc = 5;
    GemmChosen chosen;
    const Status status = run_gemm(g, nullptr, &chosen);
    EXPECT_TRUE(status) << status.message;
    EXPECT_EQ(chosen.kernel, "none");
    EXPECT_EQ(chosen.tiles, 0);
  }
}

// Misaligned operands of large products, or of long K, are copied first: one of them or both, in every layout, and in a batch.
TEST_F(Gemm, RepackedOperands) {
  const int count = thread_sanitizer() ? 1 : 16;
  int repacked = 0;
  for (int i = 0; i < count; ++i) {
    GemmCase x;
    x.m = 322, x.n = 323, x.k = 325;
    if (i >= 8) x.m = 225, x.n = 224, x.k = 223, x.batch = 3, x.gap_a = 1, x.repeat_a = i == 9, x.repeat_b = i == 10;
    if (i >= 12) x.m = 17, x.n = 70, x.k = 512 + i - 12, x.batch = 1, x.gap_a = 0;
    x.trans_a = i & 1, x.trans_b = i & 2, x.type = i % 3 ? ElementType::bf16 : ElementType::f16;
    x.schedule = thread_sanitizer() ? 3 : i % 10, x.seed = static_cast<uint64_t>(i), x.integers = i % 4 != 1;
    if (thread_sanitizer()) x.processors = 1;
    const auto to_eight = [](int64_t row) { return (row + 7) / 8 * 8 - row; };
    x.pad_a = i % 3 == 1 ? to_eight(x.trans_a ? x.m : x.k) : i;
    x.pad_b = i % 3 == 2 ? to_eight(x.trans_b ? x.k : x.n) : i;
    x.offset_a = i % 3 == 1 ? 0 : i % 8, x.offset_b = i % 3 == 2 ? 0 : (i + 3) % 8;
    GemmChosen chosen;
    right(x, &chosen);
    repacked += chosen.path == "repack";
  }
  EXPECT_EQ(repacked, count);
  GemmCase x;  // one short of both rules
  x.m = 17, x.n = 70, x.k = 511, x.offset_a = 1;
  GemmChosen chosen;
  right(x, &chosen);
  EXPECT_EQ(chosen.path, "realign");
}

// The caller's workspace: as large as asked for, and nothing beyond it is touched; smaller or misaligned, it is refused.
TEST_F(GemmSlow, Workspace) {
  GemmCase x;
  x.m = x.n = x.k = 325, x.pad_a = x.pad_b = 1;
  GemmData data(x, guard());
  GemmCall g = data.call();
  const size_t bytes = workspace_bytes(g);
  ASSERT_EQ(bytes, 2u * 325 * 328 * 2);
  const DeviceBuffer workspace(bytes, 0, kPoison, guard());
  g.workspace = workspace.data(), g.workspace_bytes = bytes - 1;
  Status status = run_gemm(g, nullptr);
  EXPECT_EQ(status.code, Code::invalid) << status.message;
  EXPECT_NE(status.message.find(std::to_string(bytes)), std::string::npos) << status.message;
  g.workspace = workspace.as<char>() + 2, g.workspace_bytes = bytes;
  EXPECT_EQ(run_gemm(g, nullptr).code, Code::invalid);
  EXPECT_EQ(data.output(), data.d.bytes);
  g.workspace = workspace.data();
  GemmChosen chosen;
  status = run_gemm(g, nullptr, &chosen);
  ASSERT_TRUE(status) << status.message;
  EXPECT_EQ(chosen.path, "repack");
  const Comparison result = data.verify();
  EXPECT_TRUE(result.pass()) << result.message;
  EXPECT_TRUE(workspace.check_guards("workspace"));
  g.batch = 3, g.batch_a = 0, g.batch_b = 325 * 326;  // A is repeated, and copied once
  EXPECT_EQ(workspace_bytes(g), 4u * 325 * 328 * 2);
  g.m = g.n = g.k = 8;
  EXPECT_EQ(workspace_bytes(g), 0u);
}

TEST_F(GemmSlow, ManyTinyMatrices) {
  GemmCase x;
  x.m = 3, x.n = 2, x.k = 5, x.batch = 70, x.gap_a = 1, x.gap_c = 3, x.beta = 1, x.in_place = false;
  right(x);
}

// 32-bit offsets: three rows of each operand, 2^30 + 7 elements apart. Only the pages that are touched exist.
TEST_F(GemmSlow, RowsBeyondTwoToThe31Elements) {
  constexpr int64_t kPitch = (int64_t{1} << 30) + 7;
  constexpr size_t kBytes = static_cast<size_t>(2 * kPitch + 64) * 2;
  bf16* memory[3];
  for (bf16*& p : memory) {
    void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) GTEST_SKIP() << "this machine does not map " << kBytes << " bytes";
    p = static_cast<bf16*>(mapped);
  }
  const auto [a, b, d] = memory;
  const auto value = [](int64_t r, int64_t c) { return static_cast<float>((r * 5 + c * 3) % 7 - 3); };
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t c = 0; c < 3; ++c) a[r * kPitch + c] = bf16(value(r, c)), b[r * kPitch + c] = bf16(value(c, r));
  for (int layout = 0; layout < 4; ++layout) {
    GemmCall g;
    g.m = g.n = g.k = 3, g.a = a, g.b = b, g.d = d, g.lda = g.ldb = g.ldc = kPitch;
    g.trans_a = layout & 1, g.trans_b = layout & 2;
    const Status status = run_gemm(g, nullptr);
    ASSERT_TRUE(status) << status.message;
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t c = 0; c < 3; ++c) {
        float sum = 0;
        for (int64_t k = 0; k < 3; ++k)
          sum += (g.trans_a ? value(k, r) : value(r, k)) * (g.trans_b ? value(k, c) : value(c, k));
        EXPECT_EQ(to_float(d[r * kPitch + c]), sum) << "layout " << layout << " at " << r << "," << c;
      }
  }
  for (bf16* p : memory) munmap(p, kBytes);
}

// ---- refusals ---------------------------------------------------------------------------------------------------

// What is refused says why, with the values, and leaves the output as it was.
TEST_F(Gemm, RefusalsTouchNothing) {
  struct Refusal {
    const char* what;
    void (*change)(GemmCall&);
    std::vector<std::string> in_message;
  };
  const std::vector<Refusal> refusals = {
      {"negative M", [](GemmCall& g) { g.m = -1; }, {"M=-1"}},
      {"negative N", [](GemmCall& g) { g.n = -7; }, {"N=-7"}},
      {"negative K", [](GemmCall& g) { g.k = -2; }, {"K=-2"}},
      {"negative batch", [](GemmCall& g) { g.batch = -3; }, {"batch=-3"}},
      {"short lda", [](GemmCall& g) { g.lda = 72; }, {"lda=72", "73"}},
      {"short lda, transposed", [](GemmCall& g) { g.trans_a = true, g.lda = 64; }, {"lda=64", "65"}},
      {"short ldb", [](GemmCall& g) { g.ldb = 96; }, {"ldb=96", "97"}},
      {"short ldb, transposed", [](GemmCall& g) { g.trans_b = true, g.ldb = 72; }, {"ldb=72", "73"}},
      {"short ldc", [](GemmCall& g) { g.ldc = 96; }, {"ldc=96", "97"}},
      {"null A", [](GemmCall& g) { g.a = nullptr; }, {"A", "null"}},
      {"null B", [](GemmCall& g) { g.b = nullptr; }, {"B", "null"}},
      {"null C with beta", [](GemmCall& g) { g.beta = 1, g.c = nullptr; }, {"C", "null"}},
      {"null D", [](GemmCall& g) { g.d = nullptr; }, {"D", "null"}},
      {"half an element", [](GemmCall& g) { g.a = static_cast<const char*>(g.a) + 1; }, {"A", "bf16"}},
      {"D is A", [](GemmCall& g) { g.a = g.d; }, {"D", "A"}},
      {"D overlaps B", [](GemmCall& g) { g.b = static_cast<const bf16*>(g.d) + 100; }, {"D", "B"}},
      {"D overlaps C", [](GemmCall& g) { g.beta = 1, g.c = static_cast<const bf16*>(g.d) + 1; }, {"D", "C"}},
      {"matrices of D may overlap", [](GemmCall& g) { g.batch = 2, g.batch_d = 5; }, {"D", "5"}},
      {"D repeated", [](GemmCall& g) { g.batch = 2, g.batch_d = 0; }, {"D", "0"}},
      {"type f32", [](GemmCall& g) { g.type = ElementType::f32; }, {"f32", "bf16"}},
      {"bounds=false, ragged", [](GemmCall& g) { g.bounds = CallBounds::none, g.lda = g.ldb = g.ldc = 128; },
       {"65", "97", "73"}},
      {"bounds=false, pitch", [](GemmCall& g) { g.m = g.n = g.k = 64, g.bounds = CallBounds::none; }, {"73", "97"}},
      {"bounds=false, base",
       [](GemmCall& g) {
         g.m = g.n = g.k = 64, g.lda = g.ldb = g.ldc = 128, g.bounds = CallBounds::none;
         g.a = static_cast<const bf16*>(g.a) + 1;
       },
       {"aligned"}},
      {"bounds=false, pitch of D",
       [](GemmCall& g) { g.m = g.n = g.k = 64, g.lda = g.ldb = 128, g.bounds = CallBounds::none; },
       {"ldc=97", "aligned"}},
      {"bounds=false, base of D",
       [](GemmCall& g) {
         g.m = g.n = g.k = 64, g.lda = g.ldb = g.ldc = 128, g.bounds = CallBounds::none;
         g.d = static_cast<bf16*>(g.d) + 1;
       },
       {"aligned"}},
      {"bounds=false, stride between matrices of D",
       [](GemmCall& g) {
         g.m = g.k = 64, g.n = 32, g.lda = g.ldb = g.ldc = 128, g.bounds = CallBounds::none;
         g.batch = 2, g.batch_a = g.batch_b = 0, g.batch_d = 33;  // side by side, inside D's own memory
       },
       {"aligned"}},
      {"an extent beyond addresses",
       [](GemmCall& g) { g.lda = std::numeric_limits<int64_t>::max() / 4; },
       {"lda="}},
  };
  GemmCase x;
  x.m = 65, x.n = 97, x.k = 73, x.pad_a = 55, x.pad_b = 31, x.pad_c = 31;
  for (const Refusal& refusal : refusals) {
    GemmData data(x);
    GemmCall g = data.call();
    g.c = nullptr, g.lda = 73, g.ldb = g.ldc = 97;
    refusal.change(g);
    GemmChosen chosen;
    const Status status = run_gemm(g, nullptr, &chosen);
    EXPECT_EQ(status.code, Code::invalid) << refusal.what << ": " << status.message;
    EXPECT_EQ(exit_code(status), 2) << refusal.what;
    EXPECT_EQ(chosen.kernel, "none") << refusal.what;
    EXPECT_EQ(status.message.find('\n'), std::string::npos) << refusal.what;
    for (const std::string& text : refusal.in_message)
      EXPECT_NE(status.message.find(text), std::string::npos) << refusal.what << " says: " << status.message;
    EXPECT_EQ(data.output(), data.d.bytes) << refusal.what;
  }
}

TEST_F(Gemm, RefusesADeviceThatIsTooOld) {
  sim::options().compute_capability = 75;
  GemmCase x;
  GemmData data(x);
  const Status status = run_gemm(data.call(), nullptr);
  EXPECT_EQ(status.code, Code::unsupported);
  EXPECT_EQ(exit_code(status), 77);
  EXPECT_NE(status.message.find("7.5"), std::string::npos) << status.message;
  EXPECT_EQ(data.output(), data.d.bytes);
}

// ---- coverage ---------------------------------------------------------------------------------------------------

// Every kernel that the host entry can launch has been run, and was right. Problems are found that make the entry choose
// each one not yet seen; if there are none, the kernel is unreachable and should not be built.
TEST_F(GemmSlow, EveryReachableKernelRan) {
  const std::vector<ReachableKernel> kernels = reachable_gemm_kernels();
  std::set<const void*> distinct;
  int steered = 0, before = 0;
  for (const ReachableKernel& v : kernels) {
    distinct.insert(v.address);
    if (sim::launched_kernels().count(v.address)) {
      ++before;
      continue;
    }
    const int64_t multiples[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {2, 2, 1}, {3, 1, 1}, {1, 1, 3}, {1, 1, 9}, {1, 1, 5}};
    for (const int processors : {1, 2, 4, 8})
      for (const auto& [times_m, times_n, batch] : multiples) {
        if (sim::launched_kernels().count(v.address)) continue;
        const bool full = v.path == "aligned", realign = v.path == "realign" || v.path == "repack";
        GemmCase x;
        x.m = v.tile_m * times_m - (full ? 0 : 1), x.n = v.tile_n * times_n - (full ? 0 : 3);
        x.k = full ? 64 : v.path == "repack" ? 330 : 40;
        x.trans_a = v.trans_a, x.trans_b = v.trans_b, x.type = x.out = v.type, x.batch = batch;
        const auto to_eight = [](int64_t row) { return (row + 7) / 8 * 8 - row; };
        x.pad_a = realign ? 1 : to_eight(x.trans_a ? x.m : x.k), x.pad_b = realign ? 1 : to_eight(x.trans_b ? x.k : x.n);
        x.processors = processors, x.schedule = steered % 10, x.seed = static_cast<uint64_t>(steered);
        right(x);
        ++steered;
      }
    EXPECT_TRUE(sim::launched_kernels().count(v.address))
        << "no problem makes gemm() choose " << element_name(v.type) << " " << (v.trans_a ? "t" : "n")
        << (v.trans_b ? "t" : "n") << " " << v.path << " " << v.tile_m << "x" << v.tile_n;
  }
  std::printf("%zu kernels can be reached: %d ran in the cases above, %d problems to reach the others\n", kernels.size(),
              before, steered);
  EXPECT_EQ(distinct.size(), kernels.size());
  EXPECT_GE(kernels.size(), 26u);
}

}  // namespace
}  // namespace grout::test
