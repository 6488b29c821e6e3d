// Published bug reports of GEMMs as cases, on the simulated device, and what is like them: misalignment, odd extents,
// operands that must not be read, copies of operands, 32-bit offsets.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "tests/sim/gemm_fixture.h"

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* address, std::size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* address, std::size_t bytes);
}

namespace grout::test {
namespace {

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
  for (const GemmCase& x : other_rows_cases(ElementType::bf16)) use(x), expect_other_rows_stay_out(x, guard());
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

}  // namespace
}  // namespace grout::test
