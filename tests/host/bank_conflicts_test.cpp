// Bank conflicts of shared tiles, the GEMMs', attention's and that of the transposing copy, counted. Shared memory has 32 banks of 4
// bytes; an access of 16 bytes a lane is served 8 lanes at a time (a phase), without conflict if the 8 lanes fall into 8
// different 16-byte columns of the 128-byte line, or on the same 16 bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "attention/attention.cuh"
#include "copy/copy_swizzle.cuh"
#include "gemm/gemm.cuh"

namespace grout {
namespace {

using Phase = std::array<int64_t, 8>;  // byte addresses of 8 lanes, multiples of 16

// How often the phase is served: the most different lines in one 16-byte column.
int ways(const Phase& phase) {
  std::map<int64_t, std::set<int64_t>> lines;
  for (const int64_t byte : phase) {
    EXPECT_EQ(byte % 16, 0);
    lines[byte / 16 % 8].insert(byte / 128);
  }
  size_t most = 0;
  for (const auto& [column, in_column] : lines) most = std::max(most, in_column.size());
  return static_cast<int>(most);
}

TEST(Counter, KnowsConflicts) {
  Phase p;
  for (int i = 0; i < 8; ++i) p[i] = 16 * i;
  EXPECT_EQ(ways(p), 1);  // neighbours
  for (int i = 0; i < 8; ++i) p[i] = 128 * i;
  EXPECT_EQ(ways(p), 8);  // one column
  for (int i = 0; i < 8; ++i) p[i] = 64 * i;
  EXPECT_EQ(ways(p), 4);  // rows of 64 bytes
  for (int i = 0; i < 8; ++i) p[i] = 144 * i;
  EXPECT_EQ(ways(p), 1);  // padded rows
  for (int i = 0; i < 8; ++i) p[i] = 256;
  EXPECT_EQ(ways(p), 1);  // a broadcast
}

// Worst phase of ldmatrix over a tile (mn, k) of 16-bit elements: each 8 x 8 matrix is one phase, its rows 16 bytes along
// the contiguous axis.
template <class Layout>
int worst_ldmatrix(Layout tile, int extent, int k, bool k_major) {
  int worst = 0;
  for (int mn = 0; mn < extent; mn += 8) {
    for (int kk = 0; kk < k; kk += 8) {
      Phase phase;
      for (int row = 0; row < 8; ++row) phase[row] = 2 * (k_major ? tile(mn + row, kk) : tile(mn, kk + row));
      worst = std::max(worst, ways(phase));
    }
  }
  return worst;
}

// Worst phase of the copy's 16-byte stores: lanes 8p..8p + 7 of each warp, vectors as the plan deals them.
template <class Plan>
int worst_store() {
  using Ownership = typename Plan::Ownership;
  int worst = 0;
  for (int turn = 0; turn < Ownership::turns; ++turn) {
    for (int first = 0; first < Ownership::threads; first += 8) {
      Phase phase;
      for (int lane = 0; lane < 8; ++lane) {
        EXPECT_TRUE(Ownership::is_inside(first + lane, turn));
        const auto c = Ownership::vector_at(first + lane, turn);
        phase[lane] = 2 * static_cast<int64_t>(typename Plan::Destination{}(c[0], c[1]));
      }
      worst = std::max(worst, ways(phase));
    }
  }
  return worst;
}

template <class T, int Extent, int K, bool KMajor, int Threads>
void expect_tile_without_conflicts() {
  using Layout = typename GemmOperandTile<T, Extent, K, KMajor>::Layout;
  EXPECT_EQ(worst_ldmatrix(Layout{}, Extent, K, KMajor), 1) << Extent << (KMajor ? " k-major" : " mn-major");
  EXPECT_EQ((worst_store<CopyPlan<T, Layout, Threads>>()), 1) << Extent << (KMajor ? " k-major" : " mn-major");
  // A permutation of the tile's own memory.
  std::set<int64_t> seen;
  for (int mn = 0; mn < Extent; ++mn) {
    for (int k = 0; k < K; ++k) {
      const int64_t at = Layout{}(mn, k);
      EXPECT_TRUE(0 <= at && at < Extent * K);
      seen.insert(at);
    }
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(Extent * K));
}

// What a kernel's warps read: lane 8i + r gives the address of row r of matrix i. A wants matrices (m, k), (m + 8, k),
// (m, k + 8), (m + 8, k + 8): registers a0..a3 of mma; B two atoms of n 8: (k, n), (k + 8, n), (k, n + 8), (k + 8, n + 8).
template <class T, class Tile, bool KMajor, bool IsA>
void expect_reader() {
  constexpr int kExtent = IsA ? Tile::m : Tile::n, kWarps = IsA ? Tile::warps_m : Tile::warps_n;
  constexpr int kPatch = kExtent / kWarps, kPieces = kPatch / 16;
  using Layout = typename GemmOperandTile<T, kExtent, Tile::k, KMajor>::Layout;
  using Reader = OperandReader<T, Layout, KMajor, IsA, kPatch>;
  for (int warp = 0; warp < kWarps; ++warp) {
    for (int piece = 0; piece < kPieces; ++piece) {
      for (int step = 0; step < Tile::k / 16; ++step) {
        Phase phase;
        for (int lane = 0; lane < 32; ++lane) {
          const int matrix = lane / 8, row = lane % 8;
          int mn = warp * kPatch + piece * 16, k = step * 16;
          if (IsA)
            mn += matrix & 1 ? 8 : 0, k += matrix & 2 ? 8 : 0;
          else
            k += matrix & 1 ? 8 : 0, mn += matrix & 2 ? 8 : 0;
          (KMajor ? mn : k) += row;
          const int64_t expected = 2 * Layout{}(mn, k);
          const Reader reader(warp * kPatch, lane);
          ASSERT_EQ(reader.row(0, piece, step), expected)
              << "warp " << warp << " lane " << lane << " piece " << piece << " step " << step;
          phase[row] = expected;
          if (row == 7) {
            ASSERT_EQ(ways(phase), 1);
          }
        }
      }
    }
  }
}

template <class T, class Tile>
void expect_tile() {
  expect_tile_without_conflicts<T, Tile::m, Tile::k, true, Tile::threads>();
  expect_tile_without_conflicts<T, Tile::m, Tile::k, false, Tile::threads>();
  expect_tile_without_conflicts<T, Tile::n, Tile::k, true, Tile::threads>();
  expect_tile_without_conflicts<T, Tile::n, Tile::k, false, Tile::threads>();
  expect_reader<T, Tile, true, true>();
  expect_reader<T, Tile, false, true>();
  expect_reader<T, Tile, true, false>();
  expect_reader<T, Tile, false, false>();
}
TEST(GemmTiles, Large) {
  expect_tile<bf16, detail::GemmTileLarge>();
}
TEST(GemmTiles, Medium) {
  expect_tile<bf16, detail::GemmTileMedium>();
}
TEST(GemmTiles, MediumRealign) {
  expect_tile<bf16, detail::GemmTileMediumRealign>();
}
TEST(GemmTiles, Small) {
  expect_tile<f16, detail::GemmTileSmall>();
}
TEST(GemmTiles, AreThoseThatTheEntryUses) {
  for (const auto& v : detail::gemm_mma_variants<bf16>(false, false)) {
    const auto is = [&]<class Tile>(Tile) {
      return v.tile_m == Tile::m && v.tile_n == Tile::n && v.tile_k == Tile::k && v.threads == Tile::threads;
    };
    EXPECT_TRUE(is(detail::GemmTileLarge{}) || is(detail::GemmTileMedium{}) || is(detail::GemmTileMediumRealign{}) ||
                is(detail::GemmTileSmall{}));
  }
}

// Q, K and V: the copies, and what ldmatrix reads of Q and K along a row, of V down the keys.
template <class Tile>
void expect_attention_tile() {
  using T = bf16;
  using Query = typename Tile::template QueryLayout<T>;
  using Key = typename Tile::template KeyLayout<T>;
  using Value = typename Tile::template ValueLayout<T>;
  EXPECT_EQ(worst_ldmatrix(Query{}, Tile::q, Tile::dim, true), 1) << "Q of " << Tile::dim;
  EXPECT_EQ(worst_ldmatrix(Key{}, Tile::keys, Tile::dim, true), 1) << "K of " << Tile::dim;
  EXPECT_EQ(worst_ldmatrix(Value{}, Tile::dim, Tile::keys, false), 1) << "V of " << Tile::dim;
  EXPECT_EQ((worst_store<CopyPlan<T, Query, Tile::threads>>()), 1) << "Q of " << Tile::dim;
  EXPECT_EQ((worst_store<CopyPlan<T, Key, Tile::threads>>()), 1) << "K and V of " << Tile::dim;
  for (int key = 0; key < Tile::keys; ++key)
    for (int column = 0; column < Tile::dim; ++column) ASSERT_EQ(Key{}(key, column), Value{}(column, key));
}
TEST(AttentionTiles, NoConflicts) {
  const auto both = []<int64_t Dim>(Int<Dim>) {
    expect_attention_tile<typename detail::AttentionTiles<Dim>::Large>();
    expect_attention_tile<typename detail::AttentionTiles<Dim>::Short>();
    expect_attention_tile<typename detail::AttentionTiles<Dim>::Realigned>();
  };
  both(64_c), both(128_c), both(256_c);
  expect_attention_tile<detail::AttentionTiles<256>::Small>();
}

TEST(Unswizzled, Conflicts) {
  EXPECT_EQ(worst_ldmatrix(row_major(shape(128_c, 32_c)), 128, 32, true), 4);   // rows of 64 bytes
  EXPECT_EQ(worst_ldmatrix(row_major(shape(128_c, 64_c)), 128, 64, true), 8);   // rows of 128 bytes
  EXPECT_EQ(worst_ldmatrix(col_major(shape(128_c, 32_c)), 128, 32, false), 8);  // columns of 256 bytes
}

// An M-major atom of 128 x 8 16-bit elements, read with ldmatrix.trans: a column is 256 bytes, so the bits of k begin at
// 7, four above the chunk's. Swizzle<3, 3, 4> brings all three of them down; the customary Swizzle<3, 3, 3> brings bit 6,
// which is m's, and only two of k's.
TEST(Unswizzled, MMajorAtoms) {
  constexpr auto atom = col_major(shape(128_c, 8_c));
  EXPECT_EQ(worst_ldmatrix(atom, 128, 8, false), 8);
  EXPECT_EQ(worst_ldmatrix(compose(Swizzle<3, 3, 3>{}, atom), 128, 8, false), 2);
  EXPECT_EQ(worst_ldmatrix(compose(Swizzle<2, 3, 4>{}, atom), 128, 8, false), 2);
  EXPECT_EQ(worst_ldmatrix(compose(Swizzle<3, 3, 4>{}, atom), 128, 8, false), 1);
  EXPECT_EQ(worst_ldmatrix(compose(Swizzle<3, 3, 4>{}, col_major(shape(256_c, 8_c))), 256, 8, false), 2);  // wants 5
  EXPECT_EQ(worst_ldmatrix(compose(Swizzle<3, 3, 5>{}, col_major(shape(256_c, 8_c))), 256, 8, false), 1);
}

// Worst phase of the 16-byte reads of a tile by an ownership: lanes 8p..8p + 7 of each warp.
template <class T, class Ownership, class Layout>
int worst_read(Layout tile) {
  int worst = 0;
  for (int slot = 0; slot < Ownership::slots; slot += Ownership::vector) {
    for (int first = 0; first < Ownership::threads; first += 8) {
      Phase phase;
      for (int lane = 0; lane < 8; ++lane) {
        const auto c = Ownership::at(first + lane, slot);
        phase[lane] = static_cast<int64_t>(sizeof(T)) * tile(c[0], c[1]);
      }
      worst = std::max(worst, ways(phase));
    }
  }
  return worst;
}

// A box of 128-byte rows read down its columns: swizzled without conflict, unswizzled eight times.
TEST(TransposingCopy, ReadsTheSwizzledBoxWithoutConflict) {
  const auto expect = []<class T>(T) {
    using Config = CopySwizzle<T>;
    EXPECT_EQ((worst_read<T, typename Config::Ownership>(typename Config::Layout{})), 1);
    EXPECT_EQ((worst_read<T, typename Config::Ownership>(row_major(shape(Int<Config::rows>{}, Int<Config::cols>{})))), 8);
  };
  expect(bf16{}), expect(f16{}), expect(float{});
}

// The fp32 GEMM's copies: 4 bytes a lane, 32 lanes at once, or 16 bytes a lane. How often the worst warp is served.
template <class Walk, int Vector, int Threads> int worst_walk() {
  int worst = 0;
  for (int first = 0; first < Threads; first += Vector == 4 ? 8 : 32) {
    if (Vector == 4) {
      Phase phase;
      for (int lane = 0; lane < 8; ++lane)
        phase[lane] = 4 * Walk::place(Walk::first_along(first + lane), Walk::first_across(first + lane));
      worst = std::max(worst, ways(phase));
      continue;
    }
    std::map<int, std::set<int>> banks;
    for (int lane = 0; lane < 32; ++lane) {
      const int place = Walk::place(Walk::first_along(first + lane), Walk::first_across(first + lane));
      banks[place % 32].insert(place);
    }
    for (const auto& [bank, places] : banks) worst = std::max(worst, static_cast<int>(places.size()));
  }
  return worst;
}
template <class Tile, bool TransA, bool TransB, bool Vectors> void expect_simt_without_conflicts() {
  using Storage = GemmSimtStorage<Tile, TransA, TransB, Vectors>;
  constexpr int kVectorA = TransA && Vectors ? 4 : 1, kVectorB = !TransB && Vectors ? 4 : 1;
  // Rows that are no multiple of 32 elements: of two rows at once, some elements share banks.
  EXPECT_EQ((worst_walk<typename Storage::WalkA, kVectorA, Tile::threads>()), TransA && Tile::m % 32 != 0 ? 2 : 1)
      << Tile::m << "x" << Tile::n;
  EXPECT_EQ((worst_walk<typename Storage::WalkB, kVectorB, Tile::threads>()), 1) << Tile::m << "x" << Tile::n;
  for (int step = 0; step < Tile::k; ++step)
    for (int first = 0; first < 32; first += 8) {
      Phase a, b;
      for (int i = 0; i < 8; ++i) {
        a[i] = 4 * (step * Storage::WalkA::pitch + (first + i) / 8 * 4);
        b[i] = 4 * (step * Storage::WalkB::pitch + (first + i) % 8 * 4);
      }
      EXPECT_EQ(ways(a), 1) << "A, step " << step;
      EXPECT_EQ(ways(b), 1) << "B, step " << step;
    }
}
template <class Tile> void expect_simt_tile_without_conflicts() {
  expect_simt_without_conflicts<Tile, false, false, false>(), expect_simt_without_conflicts<Tile, false, true, false>();
  expect_simt_without_conflicts<Tile, true, false, false>(), expect_simt_without_conflicts<Tile, true, true, false>();
  expect_simt_without_conflicts<Tile, true, false, true>();
}
TEST(GemmSimtTiles, NoConflicts) {
  expect_simt_tile_without_conflicts<detail::GemmSimtTile128x128>();
  expect_simt_tile_without_conflicts<detail::GemmSimtTile128x64>();
  expect_simt_tile_without_conflicts<detail::GemmSimtTile64x128>();
  expect_simt_tile_without_conflicts<detail::GemmSimtTile64x64>();
  expect_simt_tile_without_conflicts<detail::GemmSimtTile48x32>();
  expect_simt_tile_without_conflicts<detail::GemmSimtTile32x32>();
  expect_simt_tile_without_conflicts<detail::GemmSimtTile16x32>();
}

}  // namespace
}  // namespace grout
