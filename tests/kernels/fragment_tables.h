// Small ownerships of the tests of fragments.
#pragma once
#include "common/ownership.cuh"

namespace grout::test {

// Operand A's slots, and the same from the last to the first.
struct Forward : MmaM16N8K16A {};
struct Backward : MmaM16N8K16A {
  static constexpr Coordinate<2> at(int lane, int slot) { return MmaM16N8K16A::at(lane, 7 - slot); }
};
// Slots 2 and 3 are copies of 0 and 1.
struct CopiedSlots {
  static constexpr int threads = 32, slots = 4, axes = 2;
  static constexpr Coordinate<2> shape{8, 8};
  static constexpr Coordinate<2> at(int lane, int slot) { return {lane / 4, 2 * (lane % 4) + slot % 2}; }
};
// Lanes 16 to 31 are copies of the others.
struct CopiedLanes {
  static constexpr int threads = 32, slots = 2, axes = 2;
  static constexpr Coordinate<2> shape{4, 8};
  static constexpr Coordinate<2> at(int lane, int slot) { return {lane % 16 / 4, 2 * (lane % 4) + slot}; }
};
// tcgen05.ld.32x32b: a lane's row, a register a column.
struct TmemRows {
  static constexpr int threads = 32, slots = 8, axes = 2;
  static constexpr Coordinate<2> shape{32, 8};
  static constexpr Coordinate<2> at(int lane, int slot) { return {lane, slot}; }
};
struct OneThread {
  static constexpr int threads = 1, slots = 6, axes = 2;
  static constexpr Coordinate<2> shape{2, 3};
  static constexpr Coordinate<2> at(int, int slot) { return {slot / 3, slot % 3}; }
};

}  // namespace grout::test
