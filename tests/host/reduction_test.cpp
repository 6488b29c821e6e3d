// Reduction plans and slot maps of the instructions' ownerships; reduction_wgmma.cpp: those of wgmma, reduction_tables.cpp:
// tables made for the purpose. What each must be is stated, and held against brute force (reduction_brute_force.h).
#include "tests/host/reduction_brute_force.h"

namespace grout::test {
namespace {

using Problem = ReductionProblem;
using A = MmaM16N8K16A;
using B = MmaM16N8K16B;
using C = MmaM16N8K16C;
template <int M, int N, int R, int S> using Tiled = WarpTiled<C, M, N, R, S>;
template <int M, int N, int R, int S> using TiledA = WarpTiled<A, M, N, R, S>;

template <class O, int Axis> std::vector<int> lane_bits() {
  constexpr auto plan = reduction_plan<O, Axis>();
  return std::vector<int>(plan.lane_bit, plan.lane_bit + plan.lane_bits);
}

TEST(Reduction, Mma) {
  expect_reduction<A, 0>(Problem::none), expect_reduction<A, 1>(Problem::none);
  expect_reduction<B, 0>(Problem::none), expect_reduction<B, 1>(Problem::none);
  expect_reduction<C, 0>(Problem::none), expect_reduction<C, 1>(Problem::none);
}
TEST(Reduction, LaneBitsOfMma) {  // lane = 4 row + column pair
  EXPECT_EQ((lane_bits<C, 1>()), (std::vector<int>{1, 2}));
  EXPECT_EQ((lane_bits<C, 0>()), (std::vector<int>{4, 8, 16}));
  EXPECT_EQ((lane_bits<A, 1>()), (std::vector<int>{1, 2}));
  EXPECT_EQ((lane_bits<B, 0>()), (std::vector<int>{1, 2}));
  constexpr auto rows = reduction_plan<C, 1>();
  static_assert(rows.results == 2 && rows.first[1] == 2 && rows.first[2] == 4 && rows.slot[0] == 0 && rows.slot[1] == 1 &&
                rows.slot[2] == 2 && rows.slot[3] == 3);
  constexpr auto columns = reduction_plan<C, 0>();
  static_assert(columns.results == 2 && columns.slot[0] == 0 && columns.slot[1] == 2 && columns.slot[2] == 1 && columns.slot[3] == 3);
}
TEST(Reduction, Ldmatrix) {
  const auto all = []<int Count, bool T>() {
    expect_reduction<Ldmatrix<Count, T>, 0>(Problem::none);
    expect_reduction<Ldmatrix<Count, T>, 1>(Problem::none);
    expect_reduction<Ldmatrix<Count, T>, 2>(Problem::none);
  };
  all.operator()<1, false>(), all.operator()<2, false>(), all.operator()<4, false>();
  all.operator()<1, true>(), all.operator()<2, true>(), all.operator()<4, true>();
}
// Along an axis with one warp there is a plan; with several the values span warps.
template <int M, int N, int R, int S> void expect_tiled() {
  expect_reduction<Tiled<M, N, R, S>, 0>(M == 1 ? Problem::none : Problem::spans_warps);
  expect_reduction<Tiled<M, N, R, S>, 1>(N == 1 ? Problem::none : Problem::spans_warps);
}
TEST(Reduction, WarpTiled) {
  expect_tiled<1, 1, 1, 1>(), expect_tiled<1, 1, 2, 8>(), expect_tiled<1, 1, 3, 5>(), expect_tiled<4, 1, 2, 3>();
  expect_tiled<1, 4, 2, 3>(), expect_tiled<2, 2, 1, 2>(), expect_tiled<2, 4, 4, 4>(), expect_tiled<3, 1, 1, 16>();
  expect_reduction<TiledA<1, 1, 2, 4>, 0>(Problem::none), expect_reduction<TiledA<1, 1, 2, 4>, 1>(Problem::none);
  expect_reduction<TiledA<2, 1, 1, 4>, 0>(Problem::spans_warps), expect_reduction<TiledA<2, 1, 1, 4>, 1>(Problem::none);
}
TEST(Reduction, NamesTheWarps) {
  constexpr auto plan = reduction_plan<Tiled<2, 2, 1, 1>, 1>();
  static_assert(plan.problem == Problem::spans_warps && plan.warps[0] == 0 && plan.warps[1] == 1);
  constexpr auto other = reduction_plan<Tiled<2, 2, 1, 1>, 0>();
  static_assert(other.problem == Problem::spans_warps && other.warps[0] == 0 && other.warps[1] == 2);
}
TEST(Reduction, VectorTiled) {
  expect_reduction<VectorTiled<8, 32, 1, 8, 32>, 1>(Problem::none);          // lanes 4r to 4r + 3
  expect_reduction<VectorTiled<8, 32, 1, 8, 32>, 0>(Problem::none);
  expect_reduction<VectorTiled<16, 32, 1, 8, 32>, 0>(Problem::none);         // two turns
  expect_reduction<VectorTiled<32, 8, 0, 8, 32>, 1>(Problem::none);
  expect_reduction<VectorTiled<64, 32, 1, 8, 128>, 1>(Problem::none);
  expect_reduction<VectorTiled<64, 32, 1, 8, 128>, 0>(Problem::spans_warps);
  expect_reduction<VectorTiled<8, 24, 1, 8, 8>, 1>(Problem::no_shuffle);     // rows of three vectors: lanes 0 to 2, 3 to 5
  expect_reduction<VectorTiled<32, 24, 1, 8, 96>, 1>(Problem::spans_warps);  // one of which lies in two warps
  expect_reduction<VectorTiled<16, 104, 1, 8, 384>, 1>(Problem::outside);    // 208 vectors
  expect_reduction<VectorTiled<4, 8, 1, 8, 1>, 0>(Problem::none);            // a single thread
  expect_reduction<VectorTiled<4, 8, 1, 8, 1>, 1>(Problem::none);
}
TEST(Reduction, OfWhatIsReduced) {
  using Rows = Reduced<Tiled<1, 1, 2, 8>, 1>;
  expect_reduction<Rows, 1>(Problem::none);  // once more: each lane's own value
  EXPECT_EQ((lane_bits<Rows, 1>()), std::vector<int>{});
  expect_reduction<Rows, 0>(Problem::none);
  EXPECT_EQ((lane_bits<Rows, 0>()), (std::vector<int>{4, 8, 16}));
  expect_reduction<Reduced<Rows, 0>, 0>(Problem::none);
  expect_reduction<Reduced<Rows, 0>, 1>(Problem::none);
  using Parts = SlotsReduced<Tiled<1, 1, 2, 8>, 1>;
  expect_reduction<Parts, 1>(Problem::none);
  EXPECT_EQ((lane_bits<Parts, 1>()), (std::vector<int>{1, 2}));
  expect_reduction<Parts, 0>(Problem::none);
  expect_reduction<SlotsReduced<Ldmatrix<4, true>, 1>, 2>(Problem::none);
  expect_reduction<Reduced<Tiled<4, 1, 1, 4>, 1>, 0>(Problem::spans_warps);
  expect_reduction<SlotsReduced<Tiled<4, 1, 1, 4>, 1>, 0>(Problem::spans_warps);
}
TEST(Reduction, Pairs) {
  expect_reduction<Pairs<A>, 0>(Problem::none);
  expect_reduction<Pairs<A>, 1>(Problem::not_held);  // a pair is at the place of its first slot
  expect_reduction<Pairs<Tiled<2, 1, 1, 4>>, 1>(Problem::not_held);
  for (int thread = 0; thread < 32; ++thread)
    for (int slot = 0; slot < 4; ++slot) EXPECT_EQ(Pairs<A>::at(thread, slot), A::at(thread, 2 * slot));
  static_assert(Pairs<A>::slots == 4 && Pairs<A>::shape == A::shape && Pairs<A>::threads == 32);
}

// ---- slot maps ----

TEST(SlotMap, BroadcastsWhatIsReduced) {
  using S = Tiled<1, 1, 2, 8>;
  expect_slot_map<S, S>(true);
  expect_slot_map<S, Reduced<S, 1>>(true);
  expect_slot_map<S, Reduced<S, 0>>(true);
  expect_slot_map<S, Reduced<Reduced<S, 0>, 1>>(true);
  expect_slot_map<Reduced<S, 1>, S>(false);
  expect_slot_map<Reduced<S, 1>, Reduced<S, 0>>(false);  // neither has both axes
  expect_slot_map<SlotsReduced<S, 1>, Reduced<S, 1>>(true);
  expect_slot_map<Reduced<S, 1>, SlotsReduced<S, 1>>(false);
  expect_slot_map<Tiled<1, 1, 2, 3>, Reduced<S, 1>>(true);  // the same rows, another number of columns
  expect_slot_map<Tiled<1, 1, 1, 8>, Reduced<S, 1>>(false);
  expect_slot_map<A, Reduced<C, 1>>(true);  // rows lane / 4 and + 8, in both
  expect_slot_map<A, Reduced<C, 0>>(false);
  expect_slot_map<Tiled<4, 1, 2, 4>, Reduced<Tiled<4, 1, 2, 4>, 1>>(true);
  expect_slot_map<Ldmatrix<4, true>, Reduced<Ldmatrix<4, true>, 0>>(true);
  expect_slot_map<Ldmatrix<4, false>, Reduced<Ldmatrix<4, true>, 1>>(false);
  constexpr auto map = slot_map<C, Reduced<C, 1>>();
  static_assert(map.slot[0] == 0 && map.slot[1] == 0 && map.slot[2] == 1 && map.slot[3] == 1);
}
TEST(SlotMap, AccumulatorAsOperand) {
  expect_slot_map<A, Tiled<1, 1, 1, 2>>(true);
  constexpr auto map = slot_map<A, Tiled<1, 1, 1, 2>>();
  for (int slot = 0; slot < 8; ++slot) EXPECT_EQ(map.slot[slot], slot);
  expect_slot_map<TiledA<1, 1, 2, 4>, Tiled<1, 1, 2, 8>>(true);
  expect_slot_map<TiledA<4, 1, 1, 4>, Tiled<4, 1, 1, 8>>(true);
  expect_slot_map<TiledA<2, 1, 1, 4>, Tiled<2, 1, 1, 8>>(true);
  expect_slot_map<TiledA<2, 1, 1, 4>, Tiled<1, 2, 2, 4>>(false);  // the same tile, other warps
  expect_slot_map<TiledA<1, 1, 1, 1>, Tiled<1, 1, 1, 1>>(false);
  expect_slot_map<B, C>(false);
  expect_slot_map<Ldmatrix<1, false>, Ldmatrix<1, true>>(false);
}
TEST(SlotMap, EqualShapesAreNotEnough) {
  expect_slot_map<C, VectorTiled<16, 8, 1, 4, 32>>(false);
  expect_slot_map<VectorTiled<16, 8, 1, 4, 32>, C>(false);
  expect_slot_map<VectorTiled<16, 8, 0, 4, 32>, VectorTiled<16, 8, 1, 4, 32>>(false);
  expect_slot_map<C, Ldmatrix<2, false>>(false);   // two axes, three
  expect_slot_map<C, VectorTiled<16, 8, 1, 2, 64>>(false);
  expect_slot_map<VectorTiled<16, 104, 1, 8, 384>, VectorTiled<16, 104, 1, 8, 384>>(true);
}

}  // namespace
}  // namespace grout::test
