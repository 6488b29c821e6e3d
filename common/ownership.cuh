// Ownerships: which thread's which register slot holds which coordinate. Pure C++20, tables only.
//
// An ownership is a type with
//   Coordinate            a fixed array of int: one entry for each axis of the tile
//   shape                 the extents of the tile
//   threads, slots        participants, and values each of them holds
//   at(thread, slot)      the coordinate held there; every coordinate of the tile at least once
// Tables follow the PTX ISA's figures (sections named below); tests compare each with the simulated device, and that
// with the hardware.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

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
template <int N> using WgmmaM64C = WarpTiled<MmaM16N8K16C, 4, 1, 1, N / 8>;
using WgmmaM64K16A = WarpTiled<MmaM16N8K16A, 4, 1, 1, 1>;

// ---- Algebra: read off the tables, never assumed -------------------------------------------------------------------

// For every slot of `To`, the slot in which the same thread of `From` holds the same coordinate. An axis along which From has
// extent 1, as a reduced one, is held for all coordinates of To. `exists` is false where the shapes differ otherwise, or where
// some thread has no such slot, or not the same one as the others.
template <int Slots> struct SlotMap {
  bool exists = false;
  int slot[Slots] = {};
};
template <class To, class From> constexpr SlotMap<To::slots> slot_map() {
  SlotMap<To::slots> map;
  if constexpr (To::axes == From::axes && To::threads == From::threads) {
    for (int axis = 0; axis < To::axes; ++axis)
      if (From::shape[axis] != To::shape[axis] && From::shape[axis] != 1) return map;
    const auto same = [](int thread, int to, int from) {
      const auto wanted = To::at(thread, to), held = From::at(thread, from);
      for (int axis = 0; axis < To::axes; ++axis)
        if (held[axis] != (From::shape[axis] == To::shape[axis] ? wanted[axis] : 0)) return false;
      return true;
    };
    for (int to = 0; to < To::slots; ++to) {
      int found = -1;
      for (int from = 0; from < From::slots && found < 0; ++from) {
        if (!same(0, to, from)) continue;
        found = from;
        for (int thread = 1; thread < To::threads && found >= 0; ++thread)
          if (!same(thread, to, from)) found = -1;
      }
      if (found < 0) return map;
      map.slot[to] = found;
    }
    map.exists = true;
  }
  return map;
}

// The same, enumerated once.
template <class To, class From> inline constexpr SlotMap<To::slots> slot_map_of = slot_map<To, From>();

enum class ReductionProblem {
  none,
  slots_differ,  // threads group their slots differently
  outside,       // slots outside the tile
  spans_warps,   // values to combine lie in several warps
  no_shuffle,    // ... in lanes that exchanges between lanes i and i ^ bit do not bring together
};

// How the values along an axis are combined: first those in the slots of a thread, group by group, then those of the lanes that
// differ in the bits `lane_bit`. Every coordinate is combined exactly once; lanes that hold copies do the same work.
template <int Slots> struct ReductionPlan {
  ReductionProblem problem = ReductionProblem::none;
  int warps[2] = {};           // spans_warps: two warps that hold values of one result
  int results = 0;             // slots of the result
  int first[Slots + 1] = {};   // result r combines slot[first[r]] .. slot[first[r + 1] - 1]
  int slot[Slots] = {};
  int lane_bits = 0;
  int lane_bit[5] = {};
};

namespace detail {
template <class O, int Axis> constexpr bool same_result(int thread, int slot, int other_thread, int other_slot) {
  const auto a = O::at(thread, slot), b = O::at(other_thread, other_slot);
  for (int i = 0; i < O::axes; ++i)
    if (i != Axis && a[i] != b[i]) return false;
  return true;
}
// Groups by thread 0's coordinates; a coordinate that a thread holds twice is taken once. The others must agree.
template <class O, int Axis> constexpr void group_slots(ReductionPlan<O::slots>& plan) {
  bool taken[O::slots] = {};
  int next = 0;
  for (int s = 0; s < O::slots; ++s) {
    if (taken[s]) continue;
    const int begin = next;
    for (int other = s; other < O::slots; ++other) {
      if (!same_result<O, Axis>(0, s, 0, other)) continue;
      taken[other] = true;
      bool copy = false;
      for (int i = begin; i < next; ++i) copy |= O::at(0, plan.slot[i]) == O::at(0, other);
      if (!copy) plan.slot[next++] = other;
    }
    plan.first[++plan.results] = next;
  }
  for (int thread = 0; thread < O::threads; ++thread) {
    for (int r = 0; r < plan.results; ++r)
      for (int i = plan.first[r]; i < plan.first[r + 1]; ++i)
        if (!same_result<O, Axis>(thread, plan.slot[i], thread, plan.slot[plan.first[r]]))
          plan.problem = ReductionProblem::slots_differ;
    for (int s = 0; s < O::slots; ++s)
      for (int i = 0; i < O::axes; ++i)
        if (O::at(thread, s)[i] < 0 || O::at(thread, s)[i] >= O::shape[i]) plan.problem = ReductionProblem::outside;
  }
}
// A lane bit takes part where lanes that differ in it hold other coordinates of the same results.
template <class O, int Axis> constexpr void find_lane_bits(ReductionPlan<O::slots>& plan) {
  for (int bit = 1; bit < 32 && bit < O::threads; bit *= 2) {
    bool shares = O::threads % (2 * bit) == 0, copies = true;
    for (int thread = 0; thread < O::threads && shares; ++thread) {
      for (int r = 0; r < plan.results; ++r)
        shares &= same_result<O, Axis>(thread, plan.slot[plan.first[r]], thread ^ bit, plan.slot[plan.first[r]]);
      for (int s = 0; s < O::slots; ++s) copies &= O::at(thread, s) == O::at(thread ^ bit, s);
    }
    if (shares && !copies) plan.lane_bit[plan.lane_bits++] = bit;
  }
}
// Who, in another warp, holds `coordinate` of a thread's result? -1: nobody.
template <class O, int Axis> constexpr int other_warp(int thread, int slot, int coordinate) {
  for (int owner = 0; owner < O::threads; ++owner)
    for (int s = 0; s < O::slots && owner / 32 != thread / 32; ++s)
      if (O::at(owner, s)[Axis] == coordinate && same_result<O, Axis>(owner, s, thread, slot)) return owner / 32;
  return -1;
}
// Does every result of every thread combine every coordinate along the axis, once?
template <class O, int Axis> constexpr void prove(ReductionPlan<O::slots>& plan) {
  for (int thread = 0; thread < O::threads; ++thread) {
    for (int r = 0; r < plan.results; ++r) {
      int times[O::shape[Axis]] = {};
      for (int lanes = 0; lanes < 1 << plan.lane_bits; ++lanes) {
        int other = thread;
        for (int b = 0; b < plan.lane_bits; ++b) other ^= (lanes >> b & 1) * plan.lane_bit[b];
        for (int i = plan.first[r]; i < plan.first[r + 1]; ++i) ++times[O::at(other, plan.slot[i])[Axis]];
      }
      for (int coordinate = 0; coordinate < O::shape[Axis]; ++coordinate) {
        if (times[coordinate] == 1) continue;
        const int warp = times[coordinate] == 0 ? other_warp<O, Axis>(thread, plan.slot[plan.first[r]], coordinate) : -1;
        plan.problem = warp >= 0 ? ReductionProblem::spans_warps : ReductionProblem::no_shuffle;
        plan.warps[0] = thread / 32, plan.warps[1] = warp;
        return;
      }
    }
  }
}
}  // namespace detail

template <class O, int Axis> constexpr ReductionPlan<O::slots> reduction_plan() {
  static_assert(Axis >= 0 && Axis < O::axes, "reduction: the ownership has no such axis");
  ReductionPlan<O::slots> plan;
  detail::group_slots<O, Axis>(plan);
  if (plan.problem == ReductionProblem::none) detail::find_lane_bits<O, Axis>(plan);
  if (plan.problem == ReductionProblem::none) detail::prove<O, Axis>(plan);
  return plan;
}

// Instantiated where a reduction is refused: the compiler prints the axis and the warps.
template <int Axis, int Warp, int OtherWarp> struct reduction_spans_warps {
  static_assert(Axis < 0, "reduction: the values to combine along this axis lie in several warps; combine those of each warp, "
                          "exchange the results through shared memory: reduction_spans_warps<axis, warp, other warp>");
};
template <int Axis, ReductionProblem Problem> struct reduction_has_no_plan {
  static_assert(Axis < 0, "reduction: slots and xor-shuffles do not bring the values along this axis together, each once: "
                          "reduction_has_no_plan<axis, problem>");
};

namespace detail {
// The plan, which exists.
template <class O, int Axis> struct Reduction {
  static constexpr ReductionPlan<O::slots> plan = reduction_plan<O, Axis>();
  static constexpr bool possible = [] {
    if constexpr (plan.problem == ReductionProblem::spans_warps)
      (void)sizeof(reduction_spans_warps<Axis, plan.warps[0], plan.warps[1]>);
    else if constexpr (plan.problem != ReductionProblem::none) (void)sizeof(reduction_has_no_plan<Axis, plan.problem>);
    return true;
  }();
  static_assert(possible);
};
template <class O, int Axis, bool Lanes> struct ReducedOwnership {
  static constexpr ReductionPlan<O::slots> plan = Reduction<O, Axis>::plan;
  static constexpr int threads = O::threads, slots = plan.results, axes = O::axes;
  static constexpr auto shape = [] {
    auto s = O::shape;
    s.value[Axis] = Lanes ? 1 : 1 << plan.lane_bits;
    return s;
  }();
  // Chains of selects between constants, not an array: indexed at run time, that would lie in memory.
  static constexpr auto at(int thread, int slot) {
    const int first = [&]<int... I>(std::integer_sequence<int, I...>) {
      int found = 0;
      ((found = slot == I ? std::integral_constant<int, plan.slot[plan.first[I]]>::value : found), ...);
      return found;
    }(std::make_integer_sequence<int, slots>{});
    auto c = O::at(thread, first);
    c.value[Axis] = [&]<int... B>(std::integer_sequence<int, B...>) {
      return (0 | ... | ((thread & std::integral_constant<int, plan.lane_bit[B]>::value) != 0 ? 1 << B : 0));
    }(std::make_integer_sequence<int, Lanes ? 0 : plan.lane_bits>{});
    return c;
  }
};
}  // namespace detail

// What is left of an ownership once an axis is reduced: extent 1 there, each result in all lanes that hold its values.
template <class O, int Axis> struct Reduced : detail::ReducedOwnership<O, Axis, true> {};
// What is left once only the slots of each thread are: along the axis, one value for every lane that takes part.
template <class O, int Axis> struct SlotsReduced : detail::ReducedOwnership<O, Axis, false> {};

// Two neighbouring slots of 16-bit values in one register: slot r holds slots 2r and 2r + 1, and is at the place of the first.
template <class O> struct Pairs {
  static_assert(O::slots % 2 == 0, "pairs of slots: an ownership with an odd number of slots has none");
  using Elements = O;
  static constexpr int threads = O::threads, slots = O::slots / 2, axes = O::axes;
  static constexpr auto shape = O::shape;
  static constexpr auto at(int thread, int slot) { return O::at(thread, 2 * slot); }
};

}  // namespace grout
