// Ownership tables against the formulas of the PTX ISA, written out again here in its own words, and against their own
// promise: every coordinate of a tile is owned.
#include "common/ownership.cuh"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

namespace grout {
namespace {

// How often each coordinate of the ownership's shape is held. Coordinates outside fail at once.
template <class Ownership>
std::map<std::vector<int>, int> owners() {
  std::map<std::vector<int>, int> count;
  for (int thread = 0; thread < Ownership::threads; ++thread) {
    for (int slot = 0; slot < Ownership::slots; ++slot) {
      const auto c = Ownership::at(thread, slot);
      std::vector<int> key;
      for (int axis = 0; axis < Ownership::axes; ++axis) {
        EXPECT_GE(c[axis], 0);
        EXPECT_LT(c[axis], Ownership::shape[axis]);
        key.push_back(c[axis]);
      }
      ++count[key];
    }
  }
  return count;
}
template <class Ownership>
void expect_each_once() {
  size_t size = 1;
  for (int axis = 0; axis < Ownership::axes; ++axis) size *= static_cast<size_t>(Ownership::shape[axis]);
  const auto count = owners<Ownership>();
  EXPECT_EQ(count.size(), size);
  for (const auto& [key, times] : count) ASSERT_EQ(times, 1);
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type":
//   groupID = %laneid >> 2, threadID_in_group = %laneid % 4
TEST(MmaM16N8K16,
     A) {  // row = groupID for a0 a1 a4 a5, else groupID + 8; col = 2 threadID_in_group + (i & 1) (+ 8, i >= 4)
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const int group = lane >> 2, in_group = lane % 4;
      const int row = (0 <= i && i < 2) || (4 <= i && i < 6) ? group : group + 8;
      const int col = i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
      EXPECT_EQ(MmaM16N8K16A::at(lane, i), (Coordinate<2>{row, col})) << "lane " << lane << " a" << i;
    }
  }
  static_assert(MmaM16N8K16A::shape == Coordinate<2>{16, 16});
  expect_each_once<MmaM16N8K16A>();
}
TEST(MmaM16N8K16, B) {  // row = 2 threadID_in_group + (i & 1) (+ 8, i >= 2); col = groupID
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = (lane % 4) * 2 + (i & 1) + (i >= 2 ? 8 : 0), col = lane >> 2;
      EXPECT_EQ(MmaM16N8K16B::at(lane, i), (Coordinate<2>{row, col})) << "lane " << lane << " b" << i;
    }
  }
  static_assert(MmaM16N8K16B::shape == Coordinate<2>{16, 8});
  expect_each_once<MmaM16N8K16B>();
}
TEST(MmaM16N8K16, C) {  // row = groupID (+ 8, i >= 2); col = 2 threadID_in_group + (i & 1)
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, col = (lane % 4) * 2 + (i & 1);
      EXPECT_EQ(MmaM16N8K16C::at(lane, i), (Coordinate<2>{row, col})) << "lane " << lane << " c" << i;
    }
  }
  static_assert(MmaM16N8K16C::shape == Coordinate<2>{16, 8});
  expect_each_once<MmaM16N8K16C>();
}

// A few entries read off the ISA's figures, so that formula and figure are both held.
TEST(MmaM16N8K16, EntriesOfTheFigures) {
  EXPECT_EQ(MmaM16N8K16A::at(0, 0), (Coordinate<2>{0, 0}));
  EXPECT_EQ(MmaM16N8K16A::at(31, 7), (Coordinate<2>{15, 15}));
  EXPECT_EQ(MmaM16N8K16A::at(5, 2), (Coordinate<2>{9, 2}));
  EXPECT_EQ(MmaM16N8K16A::at(5, 4), (Coordinate<2>{1, 10}));
  EXPECT_EQ(MmaM16N8K16B::at(6, 3), (Coordinate<2>{13, 1}));
  EXPECT_EQ(MmaM16N8K16C::at(6, 3), (Coordinate<2>{9, 5}));
}

// PTX ISA, ldmatrix: the figure's row R is held by lanes 4R..4R+3, two neighbouring elements each; register i holds
// matrix i. With .trans the same registers hold the transposed matrix. Walked here as the figure is drawn: by element.
template <int Count, bool Transposed>
void expect_ldmatrix() {
  using Table = Ldmatrix<Count, Transposed>;
  for (int matrix = 0; matrix < Count; ++matrix) {
    for (int figure_row = 0; figure_row < 8; ++figure_row) {
      for (int figure_col = 0; figure_col < 8; ++figure_col) {
        const int lane = figure_row * 4 + figure_col / 2, half = figure_col & 1;
        const Coordinate<3> stored =
            Transposed ? Coordinate<3>{matrix, figure_col, figure_row} : Coordinate<3>{matrix, figure_row, figure_col};
        EXPECT_EQ(Table::at(lane, matrix * 2 + half), stored) << "lane " << lane << " register " << matrix;
      }
    }
  }
  expect_each_once<Table>();
}
TEST(LdmatrixTable, Plain) {
  expect_ldmatrix<1, false>();
  expect_ldmatrix<2, false>();
  expect_ldmatrix<4, false>();
}
TEST(LdmatrixTable, Transposed) {
  expect_ldmatrix<1, true>();
  expect_ldmatrix<2, true>();
  expect_ldmatrix<4, true>();
}

// ldmatrix feeds mma: the A fragment is four matrices (rows 0-7 and 8-15 of k 0-7, then of k 8-15), the B fragment two
// .trans matrices of a tile stored (k, n).
TEST(LdmatrixTable, FeedsMma) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int slot = 0; slot < 8; ++slot) {
      const auto c = Ldmatrix<4, false>::at(lane, slot);
      EXPECT_EQ(MmaM16N8K16A::at(lane, slot), (Coordinate<2>{c[0] % 2 * 8 + c[1], c[0] / 2 * 8 + c[2]}));
    }
    for (int slot = 0; slot < 4; ++slot) {
      const auto c = Ldmatrix<2, true>::at(lane, slot);
      EXPECT_EQ(MmaM16N8K16B::at(lane, slot), (Coordinate<2>{c[0] * 8 + c[1], c[2]}));
    }
  }
}

// Every warp grid and patch covers rows x columns exactly once; a truncated division would lose some.
template <int WarpsM, int WarpsN, int RepeatM, int RepeatN>
void expect_warp_tiled() {
  using C = WarpTiled<MmaM16N8K16C, WarpsM, WarpsN, RepeatM, RepeatN>;
  static_assert(C::threads == 32 * WarpsM * WarpsN && C::slots == 4 * RepeatM * RepeatN);
  static_assert(C::shape == Coordinate<2>{16 * WarpsM * RepeatM, 8 * WarpsN * RepeatN});
  expect_each_once<C>();
  // Warp w owns one patch, its atoms row by row.
  for (int warp = 0; warp < WarpsM * WarpsN; ++warp) {
    for (int row = 0; row < RepeatM; ++row) {
      for (int column = 0; column < RepeatN; ++column) {
        const auto c =
            C::at(32 * warp + 9, 4 * (row * RepeatN + column) + 3);  // lane 9, c3: row 10, column 3 of the atom
        EXPECT_EQ(
            c, (Coordinate<2>{16 * (warp / WarpsN * RepeatM + row) + 10, 8 * (warp % WarpsN * RepeatN + column) + 3}));
      }
    }
  }
}
template <int... I>
void expect_warp_tiled_all(std::integer_sequence<int, I...>) {
  (expect_warp_tiled<1 + I % 3, 1 + I / 3 % 4, 1 + I / 12 % 3, 1 + I / 36 % 3>(), ...);
}
TEST(WarpTiledTable, CoversEveryShape) {
  expect_warp_tiled_all(std::make_integer_sequence<int, 108>{});
}
TEST(WarpTiledTable, TilesOfTheGemm) {
  expect_warp_tiled<2, 4, 4, 8>();  // 128 x 256
  expect_warp_tiled<2, 2, 4, 8>();  // 128 x 128
  expect_warp_tiled<2, 4, 4, 4>();
  expect_warp_tiled<2, 2, 2, 4>();  // 64 x 64
}

// Vectors: inside ones cover the tile exactly once, outside ones exist only in the last turn, neighbours in threads are
// neighbours along the axis.
template <int Rows, int Columns, int Axis, int Vector, int Threads>
void expect_vector_tiled() {
  using V = VectorTiled<Rows, Columns, Axis, Vector, Threads>;
  std::vector<int> count(Rows * Columns);
  int inside = 0;
  for (int thread = 0; thread < Threads; ++thread) {
    for (int turn = 0; turn < V::turns; ++turn) {
      if (!V::is_inside(thread, turn)) {
        EXPECT_EQ(turn, V::turns - 1);
        continue;
      }
      ++inside;
      const auto first = V::vector_at(thread, turn);
      EXPECT_EQ(first[Axis] % Vector, 0);
      for (int i = 0; i < Vector; ++i) {
        const auto c = V::at(thread, turn * Vector + i);
        ASSERT_EQ(c, (Coordinate<2>{first[0] + (Axis == 0 ? i : 0), first[1] + (Axis == 1 ? i : 0)}));
        ASSERT_TRUE(c[0] >= 0 && c[0] < Rows && c[1] >= 0 && c[1] < Columns);
        ++count[c[0] * Columns + c[1]];
      }
      if (thread + 1 < Threads && V::is_inside(thread + 1, turn)) {
        const auto next = V::vector_at(thread + 1, turn);
        const int along = Axis == 0 ? Rows : Columns;
        if (first[Axis] + Vector < along) {
          EXPECT_TRUE(next[Axis] == first[Axis] + Vector && next[1 - Axis] == first[1 - Axis]);
        } else {
          EXPECT_TRUE(next[Axis] == 0 && next[1 - Axis] == first[1 - Axis] + 1);
        }
      }
    }
  }
  EXPECT_EQ(inside, Rows * Columns / Vector);
  EXPECT_EQ(V::slots, V::turns * Vector);
  for (const int times : count) ASSERT_EQ(times, 1);
}
template <int... I>
void expect_vector_tiled_all(std::integer_sequence<int, I...>) {
  (expect_vector_tiled < 8 * (1 + I % 3), 8 * (1 + I / 3 % 5), I % 2, I % 4 < 2 ? 8 : 4, 1 + I * 37 % 130 > (), ...);
}
TEST(VectorTiledTable, CoversEveryShape) {
  expect_vector_tiled_all(std::make_integer_sequence<int, 120>{});
}
TEST(VectorTiledTable, MoreThreadsThanVectors) {
  expect_vector_tiled<16, 104, 1, 8, 384>();  // 208 vectors: columns 96 to 103 belong to someone
  expect_vector_tiled<16, 104, 0, 8, 384>();
  expect_vector_tiled<1, 8, 1, 8, 384>();
}
TEST(VectorTiledTable, TilesOfTheGemm) {
  expect_vector_tiled<128, 32, 1, 8, 256>();
  expect_vector_tiled<256, 32, 1, 8, 256>();
  expect_vector_tiled<256, 32, 0, 8, 256>();
  expect_vector_tiled<128, 32, 0, 8, 128>();
  expect_vector_tiled<64, 32, 1, 8, 128>();
  expect_vector_tiled<64, 32, 0, 8, 128>();
}

// Hand-made ownership: two threads, each one row of four; and the same dealt crosswise.
struct Rows4 {
  static constexpr int threads = 2, slots = 4, axes = 2;
  static constexpr Coordinate<2> at(int thread, int slot) { return {thread, slot}; }
};
struct Crosswise {
  static constexpr int threads = 2, slots = 4, axes = 2;
  static constexpr Coordinate<2> at(int thread, int slot) { return {slot % 2, 2 * thread + slot / 2}; }
};
struct Descending {
  static constexpr int threads = 1, slots = 4, axes = 2;
  static constexpr Coordinate<2> at(int, int slot) { return {0, 3 - slot}; }
};
struct ThreeLong {
  static constexpr int threads = 1, slots = 6, axes = 2;
  static constexpr Coordinate<2> at(int, int slot) { return {0, slot}; }
};
struct OffByTwo {
  static constexpr int threads = 1, slots = 4, axes = 2;
  static constexpr Coordinate<2> at(int, int slot) { return {0, slot + 2}; }
};
struct SecondThreadDescends {
  static constexpr int threads = 2, slots = 2, axes = 2;
  static constexpr Coordinate<2> at(int thread, int slot) { return {thread, thread == 0 ? slot : 1 - slot}; }
};
struct SecondPairDescends {
  static constexpr int threads = 1, slots = 4, axes = 2;
  static constexpr Coordinate<2> at(int, int slot) { return {0, slot < 2 ? slot : 5 - slot}; }
};
struct EverySecond {
  static constexpr int threads = 1, slots = 4, axes = 2;
  static constexpr Coordinate<2> at(int, int slot) { return {0, slot % 2 * 2 + slot / 2}; }
};
TEST(ContiguousSlots, ByHand) {
  static_assert(contiguous_slots<Rows4>(1, 8) == 4);  // no more than there are
  static_assert(contiguous_slots<Rows4>(1, 2) == 2);  // no more than asked for
  static_assert(contiguous_slots<Rows4>(0, 8) == 1);
  static_assert(contiguous_slots<Crosswise>(0, 4) == 2);
  static_assert(contiguous_slots<Crosswise>(1, 4) == 1);
  static_assert(contiguous_slots<Descending>(1, 4) == 1);
  static_assert(contiguous_slots<ThreeLong>(1, 4) == 2);  // 6 slots are not whole groups of 4
  static_assert(contiguous_slots<OffByTwo>(1, 4) == 2);   // coordinates are aligned too
  static_assert(contiguous_slots<SecondThreadDescends>(1, 2) == 1);
  static_assert(contiguous_slots<SecondPairDescends>(1, 2) == 1);
  static_assert(contiguous_slots<EverySecond>(1, 4) == 1);
  static_assert(contiguous_slots<MmaM16N8K16C>(1, 8) == 2);
  static_assert(contiguous_slots<MmaM16N8K16C>(0, 8) == 1);
  static_assert(contiguous_slots<MmaM16N8K16B>(0, 8) == 2);
  static_assert(contiguous_slots<WarpTiled<MmaM16N8K16C, 2, 2, 2, 4>>(1, 8) == 2);
  static_assert(contiguous_slots<VectorTiled<16, 32, 1, 8, 32>>(1, 8) == 8);
  static_assert(contiguous_slots<VectorTiled<16, 32, 1, 8, 32>>(0, 8) == 1);
  static_assert(contiguous_slots<VectorTiled<16, 32, 0, 4, 32>>(0, 8) == 4);
  SUCCEED();
}

}  // namespace
}  // namespace grout
