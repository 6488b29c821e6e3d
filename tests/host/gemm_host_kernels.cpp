// The arithmetic of the GEMM's tiles, its kernels and what they are chosen by. Nothing here launches a kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "gemm/gemm.cuh"

namespace grout {
namespace {

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
