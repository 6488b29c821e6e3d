// Ownerships: which thread's which register slot holds which coordinate. Pure C++20, tables only.
//
// An ownership is a type with
//   Coordinate            a fixed array of int: one entry for each axis of the tile
//   shape                 the extents of the tile
//   threads, slots        participants, and values each of them holds
//   at(thread, slot)      the coordinate held there; every coordinate of the tile at least once
// Tables follow the PTX ISA's figures (sections named below); tests compare each with the simulated device, and that
// with the hardware. What follows from a table - who reduces what with whom - is ownership_algebra.cuh.
#pragma once

namespace grout {

// A coordinate in N axes.
template <int N> struct Coordinate {
  int value[N];
  constexpr int operator[](int axis) const { return value[axis]; }
  friend constexpr bool operator==(const Coordinate&, const Coordinate&) = default;
};

// Operand A of mma.m16n8k16, 16-bit elements (PTX ISA 9.7.14.5.8, "A fragment"): lane -> 8 elements, coordinates (m, k).
// Elements 2r and 2r + 1 share register r.
struct MmaM16N8K16A {
  static constexpr int threads = 32, slots = 8, axes = 2;
  static constexpr Coordinate<2> shape{16, 16};
  static constexpr Coordinate<2> at(int lane, int slot) {
    return {lane / 4 + 8 * (slot / 2 % 2), 2 * (lane % 4) + slot % 2 + 8 * (slot / 4)};
  }
};

// Operand B of mma.m16n8k16: lane -> 4 elements, coordinates (k, n).
struct MmaM16N8K16B {
  static constexpr int threads = 32, slots = 4, axes = 2;
  static constexpr Coordinate<2> shape{16, 8};
  static constexpr Coordinate<2> at(int lane, int slot) {
    return {2 * (lane % 4) + slot % 2 + 8 * (slot / 2), lane / 4};
  }
};

// Accumulator C and D of mma.m16n8k16, fp32: lane -> 4 elements, coordinates (m, n).
struct MmaM16N8K16C {
  static constexpr int threads = 32, slots = 4, axes = 2;
  static constexpr Coordinate<2> shape{16, 8};
  static constexpr Coordinate<2> at(int lane, int slot) {
    return {lane / 4 + 8 * (slot / 2), 2 * (lane % 4) + slot % 2};
  }
};

// ldmatrix (PTX ISA 9.7.14.5.15): lane -> 2 * Count halves (slot 2r + h: half h of register r), coordinates
// (matrix, row, column), rows as addressed by the lanes.
template <int Count, bool Transposed> struct Ldmatrix {
  static_assert(Count == 1 || Count == 2 || Count == 4, "ldmatrix loads 1, 2 or 4 matrices");
  static constexpr int threads = 32, slots = 2 * Count, axes = 3;
  static constexpr Coordinate<3> shape{Count, 8, 8};
  static constexpr Coordinate<3> at(int lane, int slot) {
    const int outer = lane / 4, inner = 2 * (lane % 4) + slot % 2;
    return Transposed ? Coordinate<3>{slot / 2, inner, outer} : Coordinate<3>{slot / 2, outer, inner};
  }
};

// A two-dimensional atom repeated over a block's tile: warps in a WarpsM x WarpsN grid (row-major by warp number), each
// owning a contiguous patch of RepeatM x RepeatN atoms. Slots run over atoms row by row, then within the atom.
template <class Atom, int WarpsM, int WarpsN, int RepeatM, int RepeatN> struct WarpTiled {
  static_assert(Atom::threads == 32 && Atom::axes == 2, "WarpTiled repeats a two-dimensional atom of one warp");
  static_assert(WarpsM >= 1 && WarpsN >= 1 && RepeatM >= 1 && RepeatN >= 1, "WarpTiled needs at least one atom a warp");
  static constexpr int threads = 32 * WarpsM * WarpsN, slots = Atom::slots * RepeatM * RepeatN, axes = 2;
  static constexpr int patch_m = Atom::shape[0] * RepeatM, patch_n = Atom::shape[1] * RepeatN;  // of one warp
  static constexpr Coordinate<2> shape{patch_m * WarpsM, patch_n * WarpsN};
  static constexpr Coordinate<2> at(int thread, int slot) {
    const int warp = thread / 32, atom = slot / Atom::slots;
    const Coordinate<2> inner = Atom::at(thread % 32, slot % Atom::slots);
    return {warp / WarpsN * patch_m + atom / RepeatN * Atom::shape[0] + inner[0],
            warp % WarpsN * patch_n + atom % RepeatN * Atom::shape[1] + inner[1]};
  }
};

// Vectors of `Vector` neighbours along `Axis` of a Rows x Columns tile, dealt to `Threads` threads in turn, along Axis
// first: neighbouring threads hold neighbouring vectors. Slots run over a thread's vectors, then within the vector. Where
// the last turn is short, the surplus threads' coordinates lie outside the tile: is_inside() says so.
template <int Rows, int Columns, int Axis, int Vector, int Threads> struct VectorTiled {
  static_assert(Axis == 0 || Axis == 1, "VectorTiled: the vectors run along axis 0 (rows) or 1 (columns)");
  static_assert((Axis == 0 ? Rows : Columns) % Vector == 0,
                "VectorTiled: the tile's extent along the vectors must be a multiple of the vector");
  static constexpr int axes = 2, threads = Threads, vector = Vector, axis = Axis;
  static constexpr int vectors_along = (Axis == 0 ? Rows : Columns) / Vector;
  static constexpr int vectors = vectors_along * (Axis == 0 ? Columns : Rows);
  static constexpr int turns = (vectors + Threads - 1) / Threads;  // vectors a thread holds
  static constexpr int slots = turns * Vector;
  static constexpr Coordinate<2> shape{Rows, Columns};
  static constexpr bool is_inside(int thread, int turn) {
    return vectors % Threads == 0 || turn * Threads + thread < vectors;
  }
  // First coordinate of a thread's vector.
  static constexpr Coordinate<2> vector_at(int thread, int turn) {
    const int v = turn * Threads + thread, along = v % vectors_along * Vector, across = v / vectors_along;
    return Axis == 0 ? Coordinate<2>{along, across} : Coordinate<2>{across, along};
  }
  static constexpr Coordinate<2> at(int thread, int slot) {
    const Coordinate<2> first = vector_at(thread, slot / Vector);
    return Axis == 0 ? Coordinate<2>{first[0] + slot % Vector, first[1]}
                     : Coordinate<2>{first[0], first[1] + slot % Vector};
  }
};

// Number of consecutive slots that every thread holds at neighbouring coordinates along `axis`, slots and coordinates
// aligned to that number: how wide a store of this ownership may be. At most `limit`, a power of two.
template <class Ownership> constexpr int contiguous_slots(int axis, int limit) {
  int width = limit;
  while (width > 1) {
    bool contiguous = Ownership::slots % width == 0;
    for (int thread = 0; thread < Ownership::threads && contiguous; ++thread) {
      for (int slot = 0; slot < Ownership::slots && contiguous; ++slot) {
        const auto first = Ownership::at(thread, slot / width * width), here = Ownership::at(thread, slot);
        for (int a = 0; a < Ownership::axes; ++a) contiguous &= here[a] == first[a] + (a == axis ? slot % width : 0);
        contiguous &= first[axis] % width == 0;
      }
    }
    if (contiguous) break;
    width /= 2;
  }
  return width;
}

// Accumulator and register operand A of wgmma.m64nNk16 (PTX ISA 9.7.15.5.1): warp w of the warpgroup holds rows 16w to 16w + 15,
// each as mma.m16n8k16 does.
namespace detail {
template <int N> constexpr int wgmma_atoms() {
  static_assert(N >= 8 && N <= 256 && N % 8 == 0, "wgmma.m64nN: N is a multiple of 8 from 8 to 256");
  return N / 8;
}
}  // namespace detail
template <int N> using WgmmaM64C = WarpTiled<MmaM16N8K16C, 4, 1, 1, detail::wgmma_atoms<N>()>;
using WgmmaM64K16A = WarpTiled<MmaM16N8K16A, 4, 1, 1, 1>;

}  // namespace grout
