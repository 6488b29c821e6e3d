// Tables made for the purpose: of tensor memory, with copies, permuted, of one thread; and each way of having no plan.
#include "tests/host/reduction_brute_force.h"

namespace grout::test {
namespace {

using Problem = ReductionProblem;

template <int Threads, int Slots, int Rows, int Columns> struct Base {
  static constexpr int threads = Threads, slots = Slots, axes = 2;
  static constexpr Coordinate<2> shape{Rows, Columns};
};
struct TmemRows : Base<32, 16, 32, 16> {  // tcgen05.ld.32x32b: a lane's row, a register a column
  static constexpr Coordinate<2> at(int lane, int slot) { return {lane, slot}; }
};
struct ReplicatedLanes : Base<32, 2, 4, 4> {  // lanes 8 apart, and 16, hold the same
  static constexpr Coordinate<2> at(int lane, int slot) { return {lane / 2 % 4, 2 * (lane % 2) + slot}; }
};
struct ReplicatedSlots : Base<32, 6, 8, 6> {  // slots 3 to 5 repeat 2, 0, 0
  static constexpr Coordinate<2> at(int lane, int slot) {
    constexpr int kColumn[] = {0, 1, 2, 2, 0, 0};
    return {lane / 4, 3 * (lane % 2) + kColumn[slot]};
  }
};
struct ReplicatedBoth : Base<32, 4, 8, 4> {  // slots 2 and 3 repeat 0 and 1, lanes with bit 2 those without
  static constexpr Coordinate<2> at(int lane, int slot) { return {lane / 4, 2 * (lane % 2) + slot % 2}; }
};
struct Permuted : Base<32, 8, 16, 16> {  // bits of rows and columns anywhere
  static constexpr Coordinate<2> at(int lane, int slot) {
    const int r = (lane >> 3 & 1) | (slot & 1) << 1 | (lane & 1) << 2 | (lane >> 4 & 1) << 3;
    const int c = (slot >> 2 & 1) | (lane >> 1 & 1) << 1 | (slot >> 1 & 1) << 2 | (lane >> 2 & 1) << 3;
    return {r, c};
  }
};
struct PermutedDealtOtherwise : Base<32, 8, 16, 16> {  // the same in the same lanes, slots backwards
  static constexpr Coordinate<2> at(int lane, int slot) { return Permuted::at(lane, 7 - slot); }
};
struct OneThread : Base<1, 6, 2, 3> {
  static constexpr Coordinate<2> at(int, int slot) { return {slot % 2, slot / 2}; }
};
struct SixteenThreads : Base<16, 2, 4, 8> {
  static constexpr Coordinate<2> at(int thread, int slot) { return {thread / 4, 2 * (thread % 4) + slot}; }
};
struct FortyEightThreads : Base<48, 1, 12, 4> {  // half a second warp: its lanes exchange with lanes that exist
  static constexpr Coordinate<2> at(int thread, int) { return {thread / 4, thread % 4}; }
};
struct FortyEightAcross : Base<48, 1, 3, 16> {
  static constexpr Coordinate<2> at(int thread, int) { return {thread / 16, thread % 16}; }
};
struct EitherOfTwoBits : Base<32, 1, 8, 2> {  // the column is told by bit 0 or, as well, by bit 1: one is enough
  static constexpr Coordinate<2> at(int lane, int) { return {lane / 4, (lane ^ lane >> 1) & 1}; }
};
struct LowBitCopies : Base<32, 1, 8, 2> {  // lanes that differ in bit 0 hold the same
  static constexpr Coordinate<2> at(int lane, int) { return {lane / 4, lane / 2 % 2}; }
};
struct Overlap : Base<32, 2, 8, 6> {  // four lanes of a row hold its six values, two of them twice
  static constexpr Coordinate<2> at(int lane, int slot) { return {lane / 4, (2 * (lane % 4) + slot) % 6}; }
};
struct Outside : Base<32, 1, 8, 3> {
  static constexpr Coordinate<2> at(int lane, int) { return {lane / 4, lane % 4}; }
};
struct Negative : Base<32, 1, 8, 4> {
  static constexpr Coordinate<2> at(int lane, int) { return {lane / 4 - 1, lane % 4}; }
};
struct GroupsDiffer : Base<2, 4, 2, 4> {  // thread 0: slots 0 and 1 are of one row; thread 1: 0 and 2
  static constexpr Coordinate<2> at(int thread, int slot) {
    return thread == 0 ? Coordinate<2>{slot / 2, slot % 2} : Coordinate<2>{slot % 2, 2 + slot / 2};
  }
};
struct GroupsMerge : Base<2, 2, 3, 2> {  // thread 0 holds two rows, thread 1 one
  static constexpr Coordinate<2> at(int thread, int slot) {
    return thread == 0 ? Coordinate<2>{slot, 0} : Coordinate<2>{2, slot};
  }
};
struct CopiesDiffer : Base<2, 3, 1, 2> {  // thread 0 holds a copy in slot 1, thread 1 in slot 2
  static constexpr Coordinate<2> at(int thread, int slot) {
    constexpr int kColumn[2][3] = {{0, 0, 1}, {0, 1, 0}};
    return {0, kColumn[thread][slot]};
  }
};
struct CopiesOfOneThread : Base<2, 2, 1, 3> {  // only thread 0 holds a value twice
  static constexpr Coordinate<2> at(int thread, int slot) { return {0, thread == 0 ? 0 : 1 + slot}; }
};
struct SecondThreadDescends : Base<2, 2, 2, 2> {  // other slots for the same columns: rows combine, columns do not
  static constexpr Coordinate<2> at(int thread, int slot) { return {thread, thread == 0 ? slot : 1 - slot}; }
};
struct Hole : Base<32, 2, 8, 9> {  // column 8 is nobody's
  static constexpr Coordinate<2> at(int lane, int slot) { return {lane / 4, 2 * (lane % 4) + slot}; }
};
struct DiagonalLanes : Base<4, 1, 2, 2> {  // lanes 0 and 3 are a row: no single bit
  static constexpr Coordinate<2> at(int lane, int) { return {(lane ^ lane >> 1) & 1, lane & 1}; }
};
struct ThirdsOfALane : Base<24, 1, 8, 3> {
  static constexpr Coordinate<2> at(int lane, int) { return {lane / 3, lane % 3}; }
};
struct CopyInAnotherWarp : Base<64, 1, 16, 3> {  // as before, and all of it once more in warp 1: still no shuffle
  static constexpr Coordinate<2> at(int thread, int) { return {thread % 32 < 30 ? thread % 32 / 3 : 0, thread % 32 % 3}; }
};
struct SplitOverWarps : Base<64, 1, 32, 2> {
  static constexpr Coordinate<2> at(int thread, int) { return {thread % 32, thread / 32}; }
};

TEST(ReductionTables, Plans) {
  expect_reduction<TmemRows, 1>(Problem::none);
  static_assert(reduction_plan<TmemRows, 1>().lane_bits == 0 && reduction_plan<TmemRows, 1>().results == 1);
  expect_reduction<TmemRows, 0>(Problem::none);
  static_assert(reduction_plan<TmemRows, 0>().lane_bits == 5 && reduction_plan<TmemRows, 0>().results == 16);
  expect_reduction<ReplicatedLanes, 0>(Problem::none), expect_reduction<ReplicatedLanes, 1>(Problem::none);
  static_assert(reduction_plan<ReplicatedLanes, 0>().lane_bits == 2 && reduction_plan<ReplicatedLanes, 1>().lane_bits == 1);
  expect_reduction<ReplicatedBoth, 0>(Problem::none), expect_reduction<ReplicatedBoth, 1>(Problem::none);
  expect_reduction<ReplicatedSlots, 0>(Problem::none), expect_reduction<ReplicatedSlots, 1>(Problem::none);
  static_assert(reduction_plan<ReplicatedSlots, 1>().first[1] == 3 && reduction_plan<ReplicatedSlots, 1>().lane_bits == 1);
  static_assert(reduction_plan<ReplicatedBoth, 1>().lane_bits == 1 && reduction_plan<ReplicatedBoth, 1>().first[1] == 2);
  expect_reduction<Permuted, 0>(Problem::none), expect_reduction<Permuted, 1>(Problem::none);
  expect_reduction<PermutedDealtOtherwise, 0>(Problem::none), expect_reduction<PermutedDealtOtherwise, 1>(Problem::none);
  expect_reduction<OneThread, 0>(Problem::none), expect_reduction<OneThread, 1>(Problem::none);
  expect_reduction<SixteenThreads, 0>(Problem::none), expect_reduction<SixteenThreads, 1>(Problem::none);
  expect_reduction<FortyEightThreads, 1>(Problem::none), expect_reduction<FortyEightAcross, 1>(Problem::none);
  expect_reduction<LowBitCopies, 1>(Problem::none);
  static_assert(reduction_plan<LowBitCopies, 1>().lane_bits == 1 && reduction_plan<LowBitCopies, 1>().lane_bit[0] == 2);
  expect_reduction<EitherOfTwoBits, 1>(Problem::none);
  static_assert(reduction_plan<EitherOfTwoBits, 1>().lane_bits == 1 && reduction_plan<EitherOfTwoBits, 1>().lane_bit[0] == 1);
}
TEST(ReductionTables, NoPlan) {
  expect_reduction<Outside, 0>(Problem::outside), expect_reduction<Outside, 1>(Problem::outside);
  expect_reduction<Negative, 1>(Problem::outside);
  expect_reduction<GroupsDiffer, 1>(Problem::slots_differ);
  expect_reduction<GroupsMerge, 1>(Problem::slots_differ);
  expect_reduction<CopiesDiffer, 1>(Problem::slots_differ);
  expect_reduction<CopiesOfOneThread, 1>(Problem::slots_differ);
  expect_reduction<SecondThreadDescends, 1>(Problem::none), expect_reduction<SecondThreadDescends, 0>(Problem::no_shuffle);
  expect_reduction<Hole, 1>(Problem::not_held), expect_reduction<Hole, 0>(Problem::none);
  expect_reduction<Overlap, 1>(Problem::no_shuffle);
  expect_reduction<DiagonalLanes, 1>(Problem::no_shuffle);
  expect_reduction<ThirdsOfALane, 1>(Problem::no_shuffle), expect_reduction<ThirdsOfALane, 0>(Problem::no_shuffle);
  expect_reduction<CopyInAnotherWarp, 1>(Problem::no_shuffle);
  expect_reduction<SplitOverWarps, 1>(Problem::spans_warps);
  expect_reduction<FortyEightThreads, 0>(Problem::spans_warps);
}
TEST(ReductionTables, SlotMaps) {
  expect_slot_map<Permuted, PermutedDealtOtherwise>(true);
  constexpr auto map = slot_map<Permuted, PermutedDealtOtherwise>();
  static_assert(map.slot[0] == 7 && map.slot[5] == 2);
  expect_slot_map<Permuted, Reduced<PermutedDealtOtherwise, 1>>(true);
  expect_slot_map<ReplicatedLanes, Reduced<ReplicatedLanes, 0>>(true);
  expect_slot_map<ReplicatedBoth, Reduced<ReplicatedBoth, 1>>(true);
  expect_slot_map<TmemRows, Reduced<TmemRows, 1>>(true), expect_slot_map<TmemRows, Reduced<TmemRows, 0>>(true);
  expect_slot_map<Negative, Negative>(true);
  expect_slot_map<SecondThreadDescends, Reduced<SecondThreadDescends, 1>>(true);
  // Each thread holds it all, but not in the same slots.
  struct Ascends : Base<2, 2, 2, 2> {
    static constexpr Coordinate<2> at(int thread, int slot) { return {thread, slot}; }
  };
  expect_slot_map<Ascends, SecondThreadDescends>(false);
  expect_slot_map<SixteenThreads, Reduced<SixteenThreads, 1>>(true);
}

}  // namespace
}  // namespace grout::test
