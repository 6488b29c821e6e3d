// The single-stage fp32 GEMM's tiles: bank conflicts of every access to shared memory, counted; who owns which sum; what the
// lanes read; the sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "gemm/gemm_batched.cuh"

namespace grout {
namespace {

// How often the worst part of a warp's access is served. Lanes are served as many at a time as fill 128 bytes; each bank
// gives one word of 4 bytes, to any number of lanes.
int ways(const std::vector<int64_t>& bytes, int size) {
  EXPECT_EQ(bytes.size(), 32u);
  const int together = 128 / size;
  size_t most = 0;
  for (int first = 0; first < 32; first += together) {
    std::map<int64_t, std::set<int64_t>> banks;
    for (int lane = first; lane < first + together; ++lane) {
      EXPECT_EQ(bytes[static_cast<size_t>(lane)] % size, 0);
      for (int64_t word = bytes[static_cast<size_t>(lane)] / 4; word < (bytes[static_cast<size_t>(lane)] + size) / 4; ++word)
        banks[word % 32].insert(word);
    }
    for (const auto& [bank, words] : banks) most = std::max(most, words.size());
  }
  return static_cast<int>(most);
}
template <class F> std::vector<int64_t> of_lanes(F f) {
  std::vector<int64_t> all;
  for (int lane = 0; lane < 32; ++lane) all.push_back(4 * static_cast<int64_t>(f(lane)));
  return all;
}

TEST(Counter, KnowsConflicts) {
  EXPECT_EQ(ways(of_lanes([](int lane) { return lane; }), 4), 1);
  EXPECT_EQ(ways(of_lanes([](int) { return 7; }), 4), 1);
  EXPECT_EQ(ways(of_lanes([](int lane) { return 32 * lane; }), 4), 32);
  EXPECT_EQ(ways(of_lanes([](int lane) { return 2 * lane; }), 4), 2);
  EXPECT_EQ(ways(of_lanes([](int lane) { return 2 * lane; }), 8), 1);
  EXPECT_EQ(ways(of_lanes([](int lane) { return 4 * lane; }), 16), 1);
  EXPECT_EQ(ways(of_lanes([](int lane) { return 32 * lane; }), 16), 8);
  EXPECT_EQ(ways(of_lanes([](int lane) { return 16 * lane; }), 16), 4);
}

// Where a lane's sums lie, by the contract: warps as 2 x 4, lanes as 8 x 4, each an equal part.
template <class Tile> int first_row(int warp, int lane) {
  return warp / 4 * (Tile::m / 2) + lane / 4 * (Tile::m / 16);
}
template <class Tile> int first_col(int warp, int lane) {
  return warp % 4 * (Tile::n / 4) + lane % 4 * (Tile::n / 16);
}

// An operand's reads in the product loop: by vectors along k of one row, or of all rows of one k.
template <class Operand, int Extent, int K, int Rows, bool KMajor> int worst_read(auto first) {
  constexpr auto kLayout = typename Operand::Layout{};
  int worst = 0;
  for (int warp = 0; warp < 8; ++warp)
    for (int k = 0; k < K; k += KMajor ? 4 : 1)
      for (int i = 0; i < (KMajor ? Rows : 1); ++i)
        worst = std::max(
            worst, ways(of_lanes([&](int lane) { return kLayout(first(warp, lane) + i, k); }), KMajor ? 16 : 4 * Rows));
  return worst;
}
// Neighbours of a vector are neighbours in the tile, and every element has a place of its own in it.
template <class Operand, int Extent, int K, int Rows, bool KMajor> void expect_tile() {
  constexpr auto kLayout = typename Operand::Layout{};
  std::set<int64_t> places;
  for (int r = 0; r < Extent; ++r)
    for (int k = 0; k < K; ++k) {
      const int64_t place = kLayout(r, k);
      EXPECT_TRUE(place >= 0 && place < Extent * K);
      places.insert(place);
      const int64_t vector = KMajor ? kLayout(r, k / 4 * 4) + k % 4 : kLayout(r / Rows * Rows, k) + r % Rows;
      EXPECT_EQ(place, vector);
    }
  EXPECT_EQ(places.size(), static_cast<size_t>(Extent * K));
  EXPECT_EQ(sizeof(typename Operand::Tile), static_cast<size_t>(Extent * K * 4));
}
// The scalar stores of the copies, as the plan deals the elements.
template <class Plan> int worst_copy() {
  int worst = 0;
  for (int warp = 0; warp < 8; ++warp)
    for (int chunk = 0; chunk < Plan::chunks; ++chunk)
      worst = std::max(worst, ways(of_lanes([&](int lane) {
                                     const auto c = Plan::at(warp * 32 + lane, chunk);
                                     return typename Plan::Layout{}(c[0], c[1]);
                                   }),
                                   4));
  return worst;
}

template <class Tile, bool TransA, bool TransB> void expect_no_conflicts() {
  using Storage = GemmBatchedStorage<Tile, TransA, TransB>;
  using Plans = GemmBatchedPlans<Tile, TransA, TransB, 4, Bounds::checked>;
  expect_tile<typename Storage::A, Tile::m, Tile::k, Tile::m / 16, !TransA>();
  expect_tile<typename Storage::B, Tile::n, Tile::k, Tile::n / 16, TransB>();
  EXPECT_EQ((worst_read<typename Storage::A, Tile::m, Tile::k, Tile::m / 16, !TransA>(first_row<Tile>)), 1);
  EXPECT_EQ((worst_read<typename Storage::B, Tile::n, Tile::k, Tile::n / 16, TransB>(first_col<Tile>)), 1);
  EXPECT_EQ(worst_copy<typename Plans::A>(), 1);
  EXPECT_EQ(worst_copy<typename Plans::B>(), 1);
  // The sums on their way out: stored 16 bytes a lane, read word by word along the rows.
  constexpr auto kOut = typename Storage::C{};
  for (int warp = 0; warp < 8; ++warp) {
    for (int r = 0; r < Tile::rows; ++r)
      EXPECT_EQ(
          ways(of_lanes([&](int lane) { return kOut(first_row<Tile>(warp, lane) + r, first_col<Tile>(warp, lane)); }), 16),
          1);
    for (int first = warp * 32; first < Tile::m * Tile::n; first += 256)
      EXPECT_EQ(ways(of_lanes([&](int lane) { return kOut((first + lane) / Tile::n, (first + lane) % Tile::n); }), 4), 1);
  }
}
template <class Tile> void expect_layouts() {
  expect_no_conflicts<Tile, false, false>(), expect_no_conflicts<Tile, false, true>();
  expect_no_conflicts<Tile, true, false>(), expect_no_conflicts<Tile, true, true>();
  // Every sum has one owner, as the kernel numbers them.
  std::set<std::pair<int, int>> owned;
  for (int thread = 0; thread < 256; ++thread) {
    EXPECT_EQ(Tile::row(thread), first_row<Tile>(thread / 32, thread % 32));
    EXPECT_EQ(Tile::col(thread), first_col<Tile>(thread / 32, thread % 32));
    for (int r = 0; r < Tile::rows; ++r)
      for (int c = 0; c < Tile::cols; ++c) EXPECT_TRUE(owned.insert({Tile::row(thread) + r, Tile::col(thread) + c}).second);
  }
  EXPECT_EQ(owned.size(), static_cast<size_t>(Tile::m * Tile::n));
}
TEST(BatchedTiles, Base) {
  expect_layouts<GemmBatched64x64x32>();
  static_assert(!GemmBatched64x64x32::pilot && GemmBatched64x64x32::rows == 4 && GemmBatched64x64x32::cols == 4);
  static_assert(sizeof(GemmBatchedStorage<GemmBatched64x64x32, false, true>) == 32768);
}
TEST(BatchedTiles, Pilots) {
  expect_layouts<GemmBatched64x64x16>(), expect_layouts<GemmBatched32x64x32>();
  static_assert(GemmBatched64x64x16::pilot && GemmBatched32x64x32::pilot);
}
// Without the swizzle the reads along k would meet: the counter sees it.
TEST(BatchedTiles, TheSwizzleIsNeeded) {
  const auto plain = row_major(shape(64_c, 32_c));
  EXPECT_EQ(ways(of_lanes([&](int lane) { return plain(first_row<GemmBatched64x64x32>(0, lane), 0); }), 16), 2);
  EXPECT_EQ(ways(of_lanes([&](int lane) { return plain(first_row<GemmBatched64x64x32>(0, 4 * (lane % 8)), 0); }), 16), 8);
}

}  // namespace
}  // namespace grout
