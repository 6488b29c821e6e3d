// Register fragments: one thread's share of a tile that a group of threads holds together.
//
// Fragment<T, Ownership> is the values of one thread; Ownership (ownership.cuh) says which coordinate each slot holds.
// Indices must be known when the loop is unrolled, or the array leaves the registers.
#pragma once
#include "common/ownership.cuh"

namespace grout {

template <class T, class OwnershipT> struct Fragment {
  using Value = T;
  using Ownership = OwnershipT;
  static constexpr int slots = Ownership::slots;

  T values[slots];

  constexpr T& operator[](int slot) { return values[slot]; }
  constexpr const T& operator[](int slot) const { return values[slot]; }
  // Same value in every slot.
  constexpr void fill(T value) {
#pragma unroll
    for (int slot = 0; slot < slots; ++slot) values[slot] = value;
  }
};

}  // namespace grout
