// What follows from ownerships: which slots of two tables hold the same coordinates, and which slots and lanes a reduction combines. Read
// off the tables, never assumed; tests compare with brute force. Pure C++20.
#pragma once
#include <type_traits>
#include <utility>

#include "common/ownership.cuh"

namespace grout {

namespace detail {
// A table of keys, made once of each ownership: what follows compares and takes apart numbers. (Compilers bound the function calls
// of one constant expression.) Axis a is 20 bits wide, from bit 20 a on; of a negative coordinate the low 20 bits.
inline constexpr int kKeyBits = 20;
inline constexpr long long kKeyMask = (1 << kKeyBits) - 1;
template <class O> struct Keys {
  long long of[O::threads][O::slots];
};
template <class O> constexpr Keys<O> make_keys() {
  static_assert(O::axes <= 3, "an ownership has at most three axes");
  Keys<O> keys = {};
  for (int thread = 0; thread < O::threads; ++thread) {
    for (int slot = 0; slot < O::slots; ++slot) {
      const auto c = O::at(thread, slot);
      for (int axis = 0; axis < O::axes; ++axis) keys.of[thread][slot] |= (c.value[axis] & kKeyMask) << kKeyBits * axis;
    }
  }
  return keys;
}
template <class O> inline constexpr Keys<O> keys_of = make_keys<O>();
}  // namespace detail

// For every slot of `To`, the slot in which the same thread of `From` holds the same coordinate. An axis along which From has
// extent 1, as a reduced one, is held for all coordinates of To. `exists` is false where the shapes differ otherwise, or where
// some thread has no such slot, or not the same one as the others.
template <int Slots> struct SlotMap {
  bool exists = false;
  int slot[Slots] = {};
};
template <class To, class From> constexpr SlotMap<To::slots> slot_map() {
  SlotMap<To::slots> map;
  if constexpr (std::is_same_v<To, From>) {
    for (int slot = 0; slot < To::slots; ++slot) map.slot[slot] = slot;
    map.exists = true;
  } else if constexpr (To::axes == From::axes && To::threads == From::threads) {
    long long kept = 0;  // the bits of the axes that From does not hold for all coordinates
    for (int axis = 0; axis < To::axes; ++axis) {
      if (From::shape.value[axis] == To::shape.value[axis]) kept |= detail::kKeyMask << detail::kKeyBits * axis;
      else if (From::shape.value[axis] != 1) return map;
    }
    const auto& wanted = detail::keys_of<To>.of;
    const auto& held = detail::keys_of<From>.of;
    for (int to = 0; to < To::slots; ++to) {
      int found = -1;
      for (int from = 0; from < From::slots && found < 0; ++from) {
        if (held[0][from] != (wanted[0][to] & kept)) continue;
        found = from;
        for (int thread = 1; thread < To::threads && found >= 0; ++thread)
          if (held[thread][from] != (wanted[thread][to] & kept)) found = -1;
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
  outside,       // slots outside the tile
  slots_differ,  // threads group their slots differently, or hold copies in different slots
  not_held,      // no thread holds some of the values
  spans_warps,   // values to combine lie in several warps
  no_shuffle,    // ... in lanes of one warp that exchanges between lanes i and i ^ bit do not bring together, each once
};

// How the values along an axis are combined: first those in the slots of a thread, group by group, then those of the lanes that
// differ in the bits `lane_bit`. Every coordinate is combined exactly once; lanes that hold copies do the same work.
template <int Slots> struct ReductionPlan {
  ReductionProblem problem = ReductionProblem::none;
  int warps[2] = {};           // spans_warps: a warp that needs a value, and one that holds it
  int results = 0;             // slots of the result
  int first[Slots + 1] = {};   // result r combines slot[first[r]] .. slot[first[r + 1] - 1]
  int slot[Slots] = {};
  int lane_bits = 0;
  int lane_bit[5] = {};
};

namespace detail {
// Each slot's coordinate along the axis, and the number of the result that it belongs to: that of the others' coordinates.
template <class O, int Axis> struct Values {
  static constexpr int kExtent = O::shape.value[Axis];
  bool outside = false;
  int results = 1;
  int coordinate[O::threads][O::slots] = {}, result[O::threads][O::slots] = {};
};
template <class O, int Axis> constexpr Values<O, Axis> make_values() {
  Values<O, Axis> v;
  for (int axis = 0; axis < O::axes; ++axis)
    if (axis != Axis) v.results *= O::shape.value[axis];
  for (int thread = 0; thread < O::threads; ++thread) {
    for (int slot = 0; slot < O::slots; ++slot) {
      for (int axis = 0; axis < O::axes; ++axis) {
        const int c = static_cast<int>(keys_of<O>.of[thread][slot] >> kKeyBits * axis & kKeyMask), extent = O::shape.value[axis];
        v.outside |= c >= extent;
        if (axis == Axis) v.coordinate[thread][slot] = c;
        else v.result[thread][slot] = v.result[thread][slot] * extent + c;
      }
    }
  }
  return v;
}
template <class O, int Axis> inline constexpr Values<O, Axis> values_of = make_values<O, Axis>();
template <class O, int Axis> inline constexpr int result_count = values_of<O, Axis>.results;

// Groups the slots by thread 0's results; a value that the thread holds twice is taken once. The others must agree.
template <class O, int Axis> constexpr void group_slots(ReductionPlan<O::slots>& plan) {
  constexpr auto& v = values_of<O, Axis>;
  int group[O::slots] = {}, taken_for[O::slots] = {};  // of each slot: the first of its group, the slot that stands for it
  bool grouped[O::slots] = {};
  int next = 0;
  for (int s = 0; s < O::slots; ++s) {
    if (grouped[s]) continue;
    const int begin = next;
    for (int other = s; other < O::slots; ++other) {
      if (v.result[0][other] != v.result[0][s]) continue;
      grouped[other] = true, group[other] = s, taken_for[other] = other;
      for (int i = begin; i < next; ++i)
        if (v.coordinate[0][plan.slot[i]] == v.coordinate[0][other]) taken_for[other] = plan.slot[i];
      if (taken_for[other] == other) plan.slot[next++] = other;
    }
    plan.first[++plan.results] = next;
  }
  // Numbers, plus 1, of the thread that was last seen to hold a result, a value.
  int holds_result[result_count<O, Axis>] = {}, holds[result_count<O, Axis>][v.kExtent] = {};
  for (int thread = 0; thread < O::threads; ++thread) {
    for (int s = 0; s < O::slots; ++s) {
      const int result = v.result[thread][s], coordinate = v.coordinate[thread][s];
      bool agrees = result == v.result[thread][group[s]];
      if (taken_for[s] != s) {
        agrees &= coordinate == v.coordinate[thread][taken_for[s]];
      } else {
        agrees &= holds[result][coordinate] != thread + 1;
        holds[result][coordinate] = thread + 1;
      }
      if (group[s] == s) {
        agrees &= holds_result[result] != thread + 1;
        holds_result[result] = thread + 1;
      }
      if (!agrees) {
        plan.problem = ReductionProblem::slots_differ;
        return;
      }
    }
  }
}
// May lanes that differ in this bit take part? They hold the same results.
template <class O, int Axis> constexpr bool may_exchange(const ReductionPlan<O::slots>& plan, int bit) {
  constexpr auto& v = values_of<O, Axis>;
  if (O::threads % (2 * bit) != 0) return false;
  for (int thread = 0; thread < O::threads; ++thread)
    for (int r = 0; r < plan.results; ++r)
      if (v.result[thread][plan.slot[plan.first[r]]] != v.result[thread ^ bit][plan.slot[plan.first[r]]]) return false;
  return true;
}
// Does every result of every thread combine every coordinate along the axis, once?
template <class O, int Axis> constexpr bool combines_all(const ReductionPlan<O::slots>& plan) {
  constexpr auto& v = values_of<O, Axis>;
  int last[v.kExtent] = {}, combination = 0;  // the number of the thread's result that last combined it
  for (int thread = 0; thread < O::threads; ++thread) {
    for (int r = 0; r < plan.results; ++r) {
      ++combination;
      int combined = 0;
      for (int lanes = 0; lanes < 1 << plan.lane_bits; ++lanes) {
        int other = thread;
        for (int b = 0; b < plan.lane_bits; ++b) other ^= (lanes >> b & 1) * plan.lane_bit[b];
        for (int i = plan.first[r]; i < plan.first[r + 1]; ++i, ++combined) {
          const int coordinate = v.coordinate[other][plan.slot[i]];
          if (last[coordinate] == combination) return false;
          last[coordinate] = combination;
        }
      }
      if (combined != v.kExtent) return false;
    }
  }
  return true;
}
// Takes the lowest lane bits that do it, of those that may take part: lanes that differ in the others hold copies.
template <class O, int Axis> constexpr bool find_lane_bits(ReductionPlan<O::slots>& plan) {
  int candidate[5] = {}, candidates = 0, needed = 0;
  for (int bit = 1; bit < 32 && bit < O::threads; bit *= 2)
    if (may_exchange<O, Axis>(plan, bit)) candidate[candidates++] = bit;
  while (plan.first[1] << needed < O::shape.value[Axis]) ++needed;
  for (int subset = 0; subset < 1 << candidates; ++subset) {
    plan.lane_bits = 0;
    for (int i = 0; i < candidates; ++i)
      if (subset >> i & 1) plan.lane_bit[plan.lane_bits++] = candidate[i];
    if (plan.lane_bits == needed && combines_all<O, Axis>(plan)) return true;
  }
  plan.lane_bits = 0;
  return false;
}
// Why there is no plan: a value that a thread's result needs and its warp does not hold; or none such.
template <class O, int Axis> constexpr void explain(ReductionPlan<O::slots>& plan) {
  constexpr auto& v = values_of<O, Axis>;
  plan.problem = ReductionProblem::no_shuffle;
  int holder[result_count<O, Axis>][v.kExtent] = {};  // a warp, plus 1
  for (int thread = 0; thread < O::threads; ++thread)
    for (int s = 0; s < O::slots; ++s) holder[v.result[thread][s]][v.coordinate[thread][s]] = thread / 32 + 1;
  for (int warp = 0; 32 * warp < O::threads; ++warp) {
    bool mine[result_count<O, Axis>] = {}, held[result_count<O, Axis>][v.kExtent] = {};
    for (int thread = 32 * warp; thread < 32 * warp + 32 && thread < O::threads; ++thread)
      for (int s = 0; s < O::slots; ++s)
        mine[v.result[thread][s]] = true, held[v.result[thread][s]][v.coordinate[thread][s]] = true;
    for (int result = 0; result < v.results; ++result) {
      for (int coordinate = 0; coordinate < v.kExtent; ++coordinate) {
        if (!mine[result] || held[result][coordinate]) continue;
        plan.problem = ReductionProblem::not_held;
        if (holder[result][coordinate] == 0) return;
        plan.problem = ReductionProblem::spans_warps;
        plan.warps[0] = warp, plan.warps[1] = holder[result][coordinate] - 1;
        return;
      }
    }
  }
}
}  // namespace detail

template <class O, int Axis> constexpr ReductionPlan<O::slots> reduction_plan() {
  static_assert(Axis >= 0 && Axis < O::axes, "reduction: the ownership has no such axis");
  ReductionPlan<O::slots> plan;
  if constexpr (Axis >= 0 && Axis < O::axes) {
    if constexpr (detail::values_of<O, Axis>.outside) {
      plan.problem = ReductionProblem::outside;
    } else {
      detail::group_slots<O, Axis>(plan);
      if (plan.problem == ReductionProblem::none && !detail::find_lane_bits<O, Axis>(plan)) detail::explain<O, Axis>(plan);
    }
  }
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
  struct Firsts {  // of each result, the first slot that it combines
    int slot[slots];
  };
  static constexpr Firsts firsts = [] {
    Firsts f = {};
    for (int r = 0; r < slots; ++r) f.slot[r] = plan.slot[plan.first[r]];
    return f;
  }();
  static constexpr auto at(int thread, int slot) {
    // A chain of selects between constants, not an array: indexed at run time, that would lie in memory.
    const int first = [&]<int... I>(std::integer_sequence<int, I...>) {
      int found = 0;
      ((found = slot == I ? std::integral_constant<int, firsts.slot[I]>::value : found), ...);
      return found;
    }(std::make_integer_sequence<int, slots>{});
    auto c = O::at(thread, first);
    c.value[Axis] = Lanes ? 0 : rank(thread, first, c.value[Axis], std::make_integer_sequence<int, 1 << plan.lane_bits>{});
    return c;
  }

 private:
  // How many of the lanes that take part hold less than `mine`?
  template <int... L> static constexpr int rank(int thread, int slot, int mine, std::integer_sequence<int, L...>) {
    return (... + static_cast<int>(O::at(thread ^ kMask<L>, slot).value[Axis] < mine));
  }
  template <int L> static constexpr int kMask = [] {
    int mask = 0;
    for (int b = 0; b < plan.lane_bits; ++b) mask |= (L >> b & 1) * plan.lane_bit[b];
    return mask;
  }();
};
}  // namespace detail

// What is left of an ownership once an axis is reduced: extent 1 there, each result in all lanes that hold its values.
template <class O, int Axis> struct Reduced : detail::ReducedOwnership<O, Axis, true> {};
// What is left once only the slots of each thread are: along the axis, one value for every lane that takes part, in the order of
// what they held.
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
