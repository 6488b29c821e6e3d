// The GEMM's host side: what gemm refuses and with which words, what it accepts, and the arithmetic of tiles and batches.
// Nothing here launches a kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "gemm/gemm.cuh"

namespace grout {
namespace {

// A valid 5 x 7 x 3 problem of bf16, one batch, in separate memory of 4096 elements each.
struct Problem {
  std::vector<uint16_t> memory = std::vector<uint16_t>(5 * 4096 + 64);
  GemmArguments g;
  uint16_t* at(int part) {
    const auto start = (reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t{63};
    return reinterpret_cast<uint16_t*>(start) + part * 4096;
  }
  Problem() {
    g = {.m = 5,
         .n = 7,
         .k = 3,
         .a = at(0),
         .b = at(1),
         .c = at(2),
         .d = at(3),
         .lda = 3,
         .ldb = 7,
         .ldc = 7,
         .beta = 1};
  }
};

void expect_accepted(const std::function<void(Problem&)>& change) {
  Problem p;
  change(p);
  const Status status = gemm_check(p.g);
  EXPECT_EQ(status.code, Code::ok) << status.message;
}
// Refused with code 2 and one sentence that contains every part.
void expect_refused(const std::function<void(Problem&)>& change, std::initializer_list<const char*> parts) {
  Problem p;
  change(p);
  const Status status = gemm_check(p.g);
  EXPECT_EQ(status.code, Code::invalid);
  EXPECT_EQ(exit_code(status), 2);
  for (const char* part : parts)
    EXPECT_NE(status.message.find(part), std::string::npos) << "no '" << part << "' in: " << status.message;
  EXPECT_EQ(status.message.find('\n'), std::string::npos);
  // gemm itself says the same, and writes nothing.
  const std::vector<uint16_t> before = p.memory;
  GemmChoice choice;
  const Status again = gemm(p.g, nullptr, &choice);
  EXPECT_EQ(again.code, status.code);
  EXPECT_EQ(again.message, status.message);
  EXPECT_EQ(before, p.memory);
  EXPECT_STREQ(choice.kernel, "none");
}

TEST(GemmCheck, AcceptsTheBase) {
  expect_accepted([](Problem&) {});
}

TEST(GemmCheck, Extents) {
  expect_refused([](Problem& p) { p.g.m = -1; }, {"M=-1", "N=7", "K=3", "at least 0"});
  expect_refused([](Problem& p) { p.g.n = -5; }, {"M=5", "N=-5", "K=3"});
  expect_refused([](Problem& p) { p.g.k = INT64_MIN; }, {"K=-9223372036854775808"});
  expect_refused([](Problem& p) { p.g.batch = -2; }, {"batch=-2", "at least 0"});
}

TEST(GemmCheck, Types) {
  expect_refused([](Problem& p) { p.g.type = ElementType::f32, p.g.kernel = GemmKernel::mma; }, {"mma", "f32", "simt"});
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    expect_refused([=](Problem& p) { p.g.type = type, p.g.kernel = GemmKernel::simt; }, {"simt", element_name(type), "mma"});
  for (const ElementType out : {ElementType::bf16, ElementType::f16, ElementType::f32}) {
    expect_accepted([=](Problem& p) { p.g.out = out; });
    expect_accepted([=](Problem& p) { p.g.out = out, p.g.type = ElementType::f16; });
    expect_accepted([=](Problem& p) { p.g.out = out, p.g.type = ElementType::f32; });
  }
}

TEST(GemmCheck, Pitches) {
  expect_refused([](Problem& p) { p.g.lda = 2; }, {"lda=2", "A", "3 elements"});
  expect_refused([](Problem& p) { p.g.ldb = 6; }, {"ldb=6", "B", "7 elements"});
  expect_refused([](Problem& p) { p.g.ldc = 6; }, {"ldc=6", "7 elements"});
  expect_refused([](Problem& p) { p.g.lda = -3; }, {"lda=-3"});
  // Transposed operands have other rows: A is K x M, B is N x K.
  expect_refused([](Problem& p) { p.g.trans_a = true, p.g.lda = 4; }, {"lda=4", "5 elements"});
  expect_refused([](Problem& p) { p.g.trans_b = true, p.g.ldb = 2; }, {"ldb=2", "3 elements"});
  expect_accepted([](Problem& p) { p.g.trans_a = true, p.g.lda = 5; });
  expect_accepted([](Problem& p) { p.g.trans_b = true, p.g.ldb = 3; });
  for (int more = 0; more < 8; ++more)
    expect_accepted([=](Problem& p) { p.g.lda += more, p.g.ldb += 2 * more, p.g.ldc += 3 * more; });
}

TEST(GemmCheck, Nulls) {
  expect_refused([](Problem& p) { p.g.a = nullptr; }, {"A is null"});
  expect_refused([](Problem& p) { p.g.b = nullptr; }, {"B is null"});
  expect_refused([](Problem& p) { p.g.c = nullptr; }, {"C is null"});
  expect_refused([](Problem& p) { p.g.d = nullptr; }, {"D is null"});
}

TEST(GemmCheck, NullsThatNothingTouches) {
  expect_accepted([](Problem& p) { p.g.beta = 0, p.g.c = nullptr; });
  expect_accepted([](Problem& p) { p.g.beta = -0.f, p.g.c = nullptr; });
  expect_accepted([](Problem& p) { p.g.alpha = 0, p.g.a = p.g.b = nullptr; });
  expect_accepted([](Problem& p) { p.g.k = 0, p.g.lda = 0, p.g.a = p.g.b = nullptr; });
  expect_accepted([](Problem& p) { p.g.k = 0, p.g.lda = 0, p.g.a = p.g.b = p.g.c = nullptr, p.g.beta = 0; });
  for (int64_t GemmArguments::*extent : {&GemmArguments::m, &GemmArguments::n, &GemmArguments::batch})
    expect_accepted([=](Problem& p) { p.g.*extent = 0, p.g.a = p.g.b = p.g.c = nullptr, p.g.d = nullptr; });
  // NaN is a beta that reads C.
  expect_refused([](Problem& p) { p.g.beta = __builtin_nanf(""), p.g.c = nullptr; }, {"C is null"});
  expect_refused([](Problem& p) { p.g.alpha = __builtin_nanf(""), p.g.a = nullptr; }, {"A is null"});
}

TEST(GemmCheck, Alignment) {
  const auto moved = [](const void* pointer, int bytes) { return static_cast<const unsigned char*>(pointer) + bytes; };
  expect_refused([=](Problem& p) { p.g.a = moved(p.g.a, 1); }, {"A is not aligned", "bf16", "2 bytes"});
  expect_refused([=](Problem& p) { p.g.b = moved(p.g.b, 3), p.g.type = ElementType::f16; },
                 {"B is not aligned", "f16", "2 bytes"});
  expect_refused([=](Problem& p) { p.g.c = moved(p.g.c, 1); }, {"C is not aligned"});
  expect_refused([=](Problem& p) { p.g.d = const_cast<unsigned char*>(moved(p.g.d, 2)), p.g.out = ElementType::f32; },
                 {"D is not aligned", "f32", "4 bytes"});
  for (int elements = 1; elements < 8; ++elements)  // any element address is fine
    expect_accepted([=](Problem& p) {
      p.g.a = moved(p.g.a, 2 * elements), p.g.b = moved(p.g.b, 2 * elements), p.g.c = moved(p.g.c, 2 * elements);
    });
}

TEST(GemmCheck, Overflow) {
  expect_refused([](Problem& p) { p.g.lda = int64_t{1} << 61; }, {"A", "lda=2305843009213693952", "63-bit"});
  expect_refused([](Problem& p) { p.g.m = p.g.k = int64_t{1} << 35, p.g.lda = int64_t{1} << 35; }, {"63-bit"});
  expect_refused([](Problem& p) { p.g.m = int64_t{1} << 36; }, {"2^35", "M=68719476736", "N=7", "K=3"});
  expect_refused([](Problem& p) { p.g.batch = int64_t{1} << 40, p.g.batch_a = int64_t{1} << 40; },
                 {"A", "1099511627776 matrices", "63-bit"});
  expect_refused([](Problem& p) { p.g.batch = 2, p.g.batch_a = INT64_MAX; }, {"A", "63-bit"});
  expect_refused([](Problem& p) { p.g.batch = 2, p.g.batch_a = INT64_MIN; }, {"A", "63-bit"});
  // The smallest number has no magnitude: beside a long matrix it must not cancel it.
  expect_refused([](Problem& p) { p.g.m = 2, p.g.lda = int64_t{1} << 62, p.g.batch = 2, p.g.batch_a = INT64_MIN; },
                 {"A", "63-bit"});
  // Large, but addressable (3 rows of 2^55 elements); no memory is touched.
  expect_accepted([](Problem& p) {
    p.g.k = 3, p.g.ldb = int64_t{1} << 33;
    p.g.d = reinterpret_cast<void*>(uintptr_t{1} << 60);
  });
}

TEST(GemmCheck, OutputOverOperands) {
  expect_refused([](Problem& p) { p.g.d = const_cast<void*>(p.g.a); }, {"D overlaps A"});
  expect_refused([](Problem& p) { p.g.d = const_cast<void*>(p.g.b); }, {"D overlaps B"});
  // By a single element at either end: A is 5 x 3 (15 elements), D 5 x 7 (35).
  expect_refused([](Problem& p) { p.g.d = p.at(0) + 14; }, {"D overlaps A"});
  expect_accepted([](Problem& p) { p.g.d = p.at(0) + 15; });
  expect_refused([](Problem& p) { p.g.d = p.at(1) - 34; }, {"D overlaps B"});
  expect_accepted([](Problem& p) { p.g.d = p.at(1) - 35; });
  // The padding behind the last row belongs to nobody.
  expect_accepted([](Problem& p) { p.g.lda = 100, p.g.d = p.at(0) + 4 * 100 + 3; });
  // A and B may overlap each other, and C; what is not read may lie anywhere.
  expect_accepted([](Problem& p) { p.g.a = p.g.b = p.g.c; });
  expect_accepted([](Problem& p) { p.g.alpha = 0, p.g.d = const_cast<void*>(p.g.a); });
  expect_accepted([](Problem& p) { p.g.k = 0, p.g.d = const_cast<void*>(p.g.b); });
}

TEST(GemmCheck, OutputOverC) {
  expect_accepted([](Problem& p) { p.g.d = const_cast<void*>(p.g.c); });
  expect_refused([](Problem& p) { p.g.d = p.at(2) + 1; }, {"D overlaps C"});
  expect_refused([](Problem& p) { p.g.d = p.at(2) - 34; }, {"D overlaps C"});
  expect_accepted([](Problem& p) { p.g.d = p.at(2) + 35; });
  expect_accepted([](Problem& p) { p.g.beta = 0, p.g.d = p.at(2) + 1; });  // C is not read
  // In place in a batch: the same stride, else a later matrix would read what an earlier one wrote.
  const auto in_place = [](int64_t batch_c, int64_t batch_d) {
    return [=](Problem& p) {
      p.g.d = const_cast<void*>(p.g.c), p.g.batch = 3, p.g.batch_c = batch_c, p.g.batch_d = batch_d;
    };
  };
  expect_accepted(in_place(40, 40));
  expect_refused(in_place(0, 40), {"D overlaps C"});
  expect_refused(in_place(80, 40), {"D overlaps C"});
}

TEST(GemmCheck, Batches) {
  const auto batched = [](int64_t batch, int64_t stride, int64_t ldc) {
    return [=](Problem& p) { p.g.batch = batch, p.g.batch_d = stride, p.g.ldc = ldc, p.g.beta = 0; };
  };
  expect_accepted(batched(3, 35, 7));
  expect_refused(batched(3, 34, 7), {"matrices of D may overlap", "batch stride 34", "M=5", "N=7", "ldc=7"});
  expect_refused(batched(3, 0, 7), {"matrices of D may overlap", "batch stride 0"});
  expect_accepted(batched(1, 0, 7));
  expect_accepted([&](Problem& p) { batched(3, -35, 7)(p), p.g.d = p.at(3) + 100; });  // backwards
  expect_refused(batched(3, -34, 7), {"batch stride -34"});
  // Side by side in rows of a wide matrix: matrix i in columns 7 i to 7 i + 6.
  expect_accepted(batched(3, 7, 21));
  expect_accepted(batched(3, 8, 23));
  expect_refused(batched(3, 6, 21), {"matrices of D may overlap"});
  expect_refused(batched(3, 8, 22), {"matrices of D may overlap"});
  // A and B of a batch may repeat or overlap as they like.
  expect_accepted([&](Problem& p) { batched(3, 35, 7)(p), p.g.batch_a = 0, p.g.batch_b = 1; });
  // A batch of D runs into A, forwards and backwards.
  expect_refused(
      [&](Problem& p) {
        batched(3, 4096, 7)(p), p.g.d = p.at(-2);
        p.g.a = p.at(0) + 34;
      },
      {"D overlaps A"});
  expect_refused(
      [&](Problem& p) {
        batched(3, -4096, 7)(p), p.g.d = p.at(2);
        p.g.a = p.at(0), p.g.lda = 7;
      },
      {"D overlaps"});
}

// Columns of one wide matrix lie between one another's rows.
TEST(GemmCheck, NeighbouringColumnsDoNotOverlap) {
  const auto beside = [](int64_t elements) {  // A is 5 x 3 in rows of 40; D, 5 x 7, starts so many elements from A
    return [=](Problem& p) {
      p.g.lda = 40, p.g.ldc = 40, p.g.beta = 0, p.g.c = nullptr;
      p.g.b = p.at(3);
      p.g.a = p.at(1), p.g.d = p.at(1) + elements;
    };
  };
  for (const int64_t apart : {3, 10, 33, 43, 73, -7, -37, -47, -77}) expect_accepted(beside(apart));
  for (const int64_t apart : {0, 1, 2, 34, 39, 40, 42, 74, -6, -1, -40, -38, -46, -78})
    expect_refused(beside(apart), {"D overlaps A"});
}

TEST(GemmCheck, ManyMatrices) {  // more than a grid's y or z could count
  for (const int64_t batch : {int64_t{65535}, int64_t{65536}, int64_t{1} << 33})
    expect_accepted([=](Problem& p) {
      p.g.batch = batch, p.g.batch_d = 35, p.g.beta = 0;
      p.g.d = reinterpret_cast<void*>(uintptr_t{1} << 61);
    });
}

// ---- bounds=false, refused before anything is launched ----

void expect_unbounded_refused(const std::function<void(GemmArguments&)>& change,
                              std::initializer_list<const char*> parts) {
  GemmArguments g{.m = 64,
                  .n = 64,
                  .k = 32,
                  .a = reinterpret_cast<void*>(uintptr_t{1} << 40),
                  .b = reinterpret_cast<void*>(uintptr_t{2} << 40),
                  .d = reinterpret_cast<void*>(uintptr_t{3} << 40),
                  .lda = 32,
                  .ldb = 64,
                  .ldc = 64,
                  .bounds = GemmBounds::none};
  change(g);
  const Status status = gemm(g, nullptr);  // the pointers lead nowhere: a launch would crash
  EXPECT_EQ(status.code, Code::invalid) << status.message;
  for (const char* part : parts)
    EXPECT_NE(status.message.find(part), std::string::npos) << "no '" << part << "' in: " << status.message;
}
TEST(GemmUnbounded, RefusesWithTheValues) {
  expect_unbounded_refused([](GemmArguments& g) { g.m = 65; }, {"bounds=false", "M=65", "N=64", "K=32", "full tiles"});
  expect_unbounded_refused([](GemmArguments& g) { g.n = 63; }, {"N=63"});
  expect_unbounded_refused([](GemmArguments& g) { g.k = 31; }, {"K=31"});
  expect_unbounded_refused([](GemmArguments& g) { g.lda = 33; }, {"bounds=false", "lda=33", "16"});
  expect_unbounded_refused([](GemmArguments& g) { g.ldb = 68; }, {"ldb=68"});
  expect_unbounded_refused([](GemmArguments& g) { g.ldc = 65; }, {"ldc=65"});
  expect_unbounded_refused([](GemmArguments& g) { g.a = static_cast<const uint16_t*>(g.a) + 4; }, {"base address"});
  expect_unbounded_refused([](GemmArguments& g) { g.d = static_cast<uint16_t*>(g.d) + 1; }, {"base address"});
}
TEST(GemmUnbounded, EmptiesSucceedWithoutALaunch) {
  for (int64_t GemmArguments::*extent : {&GemmArguments::m, &GemmArguments::n, &GemmArguments::batch}) {
    GemmArguments g{.m = 64, .n = 64, .k = 32, .lda = 32, .ldb = 64, .ldc = 64};
    g.*extent = 0;
    GemmChoice choice;
    const Status status = gemm(g, nullptr, &choice);
    EXPECT_EQ(status.code, Code::ok) << status.message;
    EXPECT_STREQ(choice.kernel, "none");
    EXPECT_EQ(choice.tiles, 0);
  }
}

// ---- tiles ----

TEST(GemmTileIndex, VisitsEachTileOnce) {
  for (const int64_t m : {1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 50}) {
    for (const int64_t n : {1, 2, 5, 16, 17, 40}) {
      for (const int64_t batch : {1, 3}) {
        std::vector<int> visits(static_cast<size_t>(m * n * batch));
        for (int64_t i = 0; i < m * n * batch; ++i) {
          const GemmTileIndex t = gemm_tile_index(i, m, n);
          ASSERT_TRUE(0 <= t.m && t.m < m && 0 <= t.n && t.n < n && 0 <= t.batch && t.batch < batch)
              << m << "x" << n << " tile " << i;
          ++visits[static_cast<size_t>((t.batch * m + t.m) * n + t.n)];
        }
        ASSERT_TRUE(std::all_of(visits.begin(), visits.end(), [](int v) { return v == 1; })) << m << "x" << n;
      }
    }
  }
}
TEST(GemmTileIndex, CountsBeyond32Bits) {
  // 65536 matrices of one tile: the batch is no grid dimension of its own.
  EXPECT_EQ(gemm_tile_index(65535, 1, 1).batch, 65535);
  EXPECT_EQ(gemm_tile_index(65536, 1, 1).batch, 65536);
  // 2^20 x 2^20 tiles; the last one, and the last of the first matrix.
  constexpr int64_t kSide = int64_t{1} << 20;
  const GemmTileIndex last = gemm_tile_index(kSide * kSide * 5 - 1, kSide, kSide);
  EXPECT_TRUE(last.batch == 4 && last.m == kSide - 1 && last.n == kSide - 1);
  const GemmTileIndex first = gemm_tile_index(kSide * kSide, kSide, kSide);
  EXPECT_TRUE(first.batch == 1 && first.m == 0 && first.n == 0);
}

// ---- kernels ----

TEST(GemmVariants, CoverEveryLayoutAndPath) {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      int paths[4] = {};
      for (const auto& v : detail::gemm_mma_variants<bf16>(trans_a, trans_b)) {
        EXPECT_TRUE(v.trans_a == trans_a && v.trans_b == trans_b && v.kernel != nullptr);
        EXPECT_EQ(v.tile_k % 16, 0);  // no k would be dropped
        EXPECT_EQ(v.threads % 32, 0);
        EXPECT_LE(v.threads, 1024);
        EXPECT_LE(v.shared_bytes, size_t{227} * 1024);
        ++paths[static_cast<int>(v.path)];
      }
      EXPECT_TRUE(paths[0] > 0 && paths[1] > 0 && paths[2] > 0);
    }
  }
  // The smallest tile of each path fits the 99 KiB of a consumer card's block.
  for (const GemmPath path : {GemmPath::aligned, GemmPath::bounded, GemmPath::realign}) {
    size_t smallest = SIZE_MAX;
    for (const auto& v : detail::gemm_mma_variants<f16>(false, true))
      if (v.path == path) smallest = std::min(smallest, v.shared_bytes);
    EXPECT_LE(smallest, size_t{99} * 1024) << gemm_path_name(path);
  }
}
TEST(GemmVariants, PathsHaveNames) {
  EXPECT_STREQ(gemm_path_name(GemmPath::aligned), "aligned");
  EXPECT_STREQ(gemm_path_name(GemmPath::bounded), "bounded");
  EXPECT_STREQ(gemm_path_name(GemmPath::realign), "realign");
}

// Matrices of B one element apart: B itself is small, the copies of all its matrices would not fit 64 bits of bytes.
TEST(GemmWorkspace, OverlappingMatricesAreNotCopiedBeyondAnyMemory) {
  GemmArguments g;
  g.m = g.n = g.ldb = g.ldc = g.batch_b = g.batch_d = 1, g.k = g.lda = int64_t{1} << 35, g.batch = (int64_t{1} << 26) + 1;
  EXPECT_TRUE(gemm_check_extents(g));
  EXPECT_EQ(gemm_workspace_bytes(g), 0u);
}

// Where nothing is multiplied, nothing is copied.
TEST(GemmWorkspace, NoneForNothing) {
  alignas(16) static uint16_t memory[8];
  GemmArguments g;
  g.m = 64, g.n = 100, g.k = 512, g.lda = 512, g.ldb = 101, g.ldc = 100, g.a = g.b = memory;
  EXPECT_EQ(gemm_workspace_bytes(g), 512u * 104 * 2);
  for (int64_t GemmArguments::*extent : {&GemmArguments::m, &GemmArguments::n, &GemmArguments::k, &GemmArguments::batch}) {
    GemmArguments nothing = g;
    nothing.*extent = 0;
    EXPECT_EQ(gemm_workspace_bytes(nothing), 0u);
  }
}

// Which k-tiles a walk may copy without tests: 4 or fewer of 32. Rows of A past M are repeated; only where vectors run along m
// and stick out of their rows must a row follow.
TEST(Walk, TilesThatNeedNoTest) {
  const auto tiles = []<bool KMajor>(std::bool_constant<KMajor>, int64_t m, int64_t k) {
    using Layout = typename GemmOperandTile<bf16, 64, 32, KMajor>::Layout;
    using Walk = TileWalk<CopyPlan<bf16, Layout, 128, CopyOptions{.partial = Partial::zero_fill}>, 1>;
    static bf16 memory[136 * 136];
    const auto walk = [&](const auto& source) {
      const Walk second(source, 1, 0);  // rows 64 .. 127
      EXPECT_EQ(second.side_is_inside(source), m >= 128);
      return second.tiles_inside(source);
    };
    if constexpr (KMajor) return walk(view(memory, layout(shape(m, k), stride(int64_t{136}, 1_c))));
    else return walk(view(memory, layout(shape(m, k), stride(1_c, int64_t{136}))));
  };
  constexpr std::true_type k_major;
  constexpr std::false_type m_major;
  EXPECT_EQ(tiles(k_major, 128, 128), 4);
  EXPECT_EQ(tiles(k_major, 128, 127), 3);
  EXPECT_EQ(tiles(k_major, 100, 128), 4);
  EXPECT_EQ(tiles(m_major, 128, 128), 4);
  EXPECT_EQ(tiles(m_major, 100, 128), 3);
  EXPECT_EQ(tiles(m_major, 100, 129), 4);
  EXPECT_EQ(tiles(m_major, 128, 31), 0);
  EXPECT_EQ(tiles(k_major, 100, 0), 0);
}

// A kernel counts k-tiles in 32 bits: of 2^35, those of 16 are too many.
TEST(GemmSimt, LongestSumsTakeTilesWhoseCountFits) {
  DeviceInfo device;
  device.major = 9, device.sms = 132, device.shared_per_block = 227 * 1024;
  GemmArguments g;
  g.m = g.n = g.ldc = 1, g.k = g.lda = g.ldb = int64_t{1} << 35, g.type = g.out = ElementType::f32, g.trans_b = true;
  for (const GemmSimtVariant& v : detail::gemm_simt_variants(false, true)) {
    GemmChoice forced;
    forced.kernel = "simt", forced.path = GemmPath::bounded;
    forced.tile_m = v.tile_m, forced.tile_n = v.tile_n, forced.tile_k = v.tile_k;
    const GemmSimtVariant* chosen = nullptr;
    EXPECT_EQ(bool(detail::gemm_simt_choose(g, g.k, device, &forced, chosen)), v.tile_k != 16) << v.tile_m << "x" << v.tile_n;
  }
}

// What the fp32 kernel's model chooses on a device with 132 multiprocessors, for shapes whose times are known
// (gemm/NOTES.md).
TEST(GemmSimt, ChoicesForMeasuredShapes) {
  struct Expected {
    int64_t m, n, k;
    const char* repacked;  // the layouts whose operands are copied first
    int tile_m, tile_n;
  };
  DeviceInfo device;
  device.major = 9, device.sms = 132, device.shared_per_block = 227 * 1024;
  for (const Expected& x : {Expected{32, 32, 32, "", 16, 32},
                            {127, 193, 61, "", 16, 32},
                            {128, 128, 128, "", 16, 32},
                            {513, 257, 129, "", 48, 32},
                            {1024, 1024, 1024, "", 64, 128},
                            {1023, 1023, 1023, "nn nt tn tt", 64, 128},
                            {1536, 1536, 1536, "nn nt tt", 64, 64},
                            {2048, 2048, 2048, "nn nt tt", 128, 128},
                            {4096, 4096, 4096, "nn nt tt", 128, 128},
                            {4095, 4095, 4095, "nn nt tn tt", 128, 128}})
    for (const char* layout : {"nn", "nt", "tn", "tt"}) {
      GemmArguments g;
      g.m = x.m, g.n = x.n, g.k = x.k, g.type = g.out = ElementType::f32, g.trans_a = layout[0] == 't',
      g.trans_b = layout[1] == 't';
      g.lda = g.trans_a ? x.m : x.k, g.ldb = g.trans_b ? x.k : x.n, g.ldc = x.n;
      g.a = reinterpret_cast<const void*>(uintptr_t{1} << 32), g.b = reinterpret_cast<const void*>(uintptr_t{2} << 32);
      g.d = reinterpret_cast<void*>(uintptr_t{3} << 32);
      const bool repacked = detail::gemm_repack_pays(g);
      EXPECT_EQ(repacked, std::strstr(x.repacked, layout) != nullptr) << x.m << " " << layout;
      if (repacked) {
        RepackOperand operands[2];
        size_t count = 0;
        g = detail::gemm_packed(g, detail::gemm_repack_plan(g), reinterpret_cast<void*>(uintptr_t{4} << 32), operands,
                                count);
      }
      const GemmSimtVariant* chosen = nullptr;
      ASSERT_TRUE(detail::gemm_simt_choose(g, g.k, device, nullptr, chosen));
      EXPECT_EQ(chosen->tile_m, x.tile_m) << x.m << " " << layout;
      EXPECT_EQ(chosen->tile_n, x.tile_n) << x.m << " " << layout;
    }
}

}  // namespace
}  // namespace grout
