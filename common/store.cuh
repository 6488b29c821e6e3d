// Bounded stores registers -> global: the reverse of copy.cuh.
//
// A fragment's ownership says which coordinate each register holds. What lies outside the destination is not touched; aligned
// vectors are stored whole up to the edge.
#pragma once
#include "common/copy.cuh"

namespace grout {

namespace detail {
template <class Ownership> constexpr bool owns_only_the_tile() {
  for (int thread = 0; thread < Ownership::threads; ++thread)
    for (int slot = 0; slot < Ownership::slots; ++slot)
      for (int axis = 0; axis < Ownership::axes; ++axis)
        if (Ownership::at(thread, slot)[axis] >= Ownership::shape[axis]) return false;
  return true;
}
}  // namespace detail

// How a fragment is stored to memory that is contiguous along `Axis`: the widest vectors that its ownership allows.
template <class To, class OwnershipT, int Axis, Bounds BoundsT = Bounds::checked> struct StorePlan {
  static_assert(detail::owns_only_the_tile<OwnershipT>(),
                "store plan: every slot of the ownership must lie inside its tile");
  using Value = To;
  using Ownership = OwnershipT;
  static constexpr int axis = Axis;
  static constexpr int vector = contiguous_slots<Ownership>(Axis, 16 / sizeof(To));  // elements
  static constexpr Bounds bounds = BoundsT;
};

namespace detail {
// May the vectors of a tile at `origin` that lie inside the destination be stored whole: are they contiguous and aligned?
// Uniform over a block.
template <class Plan, class L>
GROUT_HD bool stores_vectors(Plan, const View<typename Plan::Value, L>& destination, Origin origin) {
  return is_one(destination.layout.template stride<Plan::axis>()) &&
         destination.layout.template stride<1 - Plan::axis>() % Plan::vector == 0 &&
         (Plan::axis == 0 ? origin.row : origin.col) % Plan::vector == 0 &&
         is_aligned(destination.data, Plan::vector * sizeof(typename Plan::Value));
}
// How many elements of such a vector, the one from (row, col), lie inside the destination: its first ones, or none.
template <class Plan, class L>
GROUT_HD int stored_front(Plan, const View<typename Plan::Value, L>& destination, int64_t row, int64_t col) {
  const int64_t along = Plan::axis == 0 ? row : col, across = Plan::axis == 0 ? col : row;
  // Unsigned: an origin may lie anywhere, and the difference may wrap.
  const auto left = static_cast<int64_t>(uint64_t(destination.layout.template extent<Plan::axis>()) - uint64_t(along));
  if (along < 0 || left <= 0 || across < 0 || across >= destination.layout.template extent<1 - Plan::axis>()) return 0;
  return left < Plan::vector ? static_cast<int>(left) : Plan::vector;
}
// Stores the first `count` of at most N elements: N of them if there are as many, then N / 2, and so on down to one.
template <int N, class To, int Words> GROUT_DEVICE void store_front(To* to, uint32_t (&words)[Words], int count GROUT_AT) {
  constexpr int kWords = N * static_cast<int>(sizeof(To)) / 4;
  if (count >= N) {
    if constexpr (kWords > 0) {
      uint32_t front[kWords];
#pragma unroll
      for (int w = 0; w < kWords; ++w) front[w] = words[w];
      ptx::store_global(to, front GROUT_HERE);
#pragma unroll
      for (int w = 0; w + kWords < Words; ++w) words[w] = words[w + kWords];
    } else {
      *to = std::bit_cast<To>(static_cast<uint16_t>(words[0]));
    }
    to += N, count -= N;
  }
  if constexpr (N > 1) store_front<N / 2>(to, words, count GROUT_HERE);
}
}  // namespace detail

// Stores a fragment to the tile at `origin` of `destination`, converting to its element type (round to nearest even).
// Coordinates outside the destination are skipped: no byte of them is touched. Distinct coordinates must have distinct
// addresses (the host entry's duty). Aligned vectors are stored whole or, where the destination ends in them, in halves,
// quarters and so on; misaligned ones element by element.
// Participants: the ownership's threads, each for its own slots.
template <class Plan, class From, class L>
GROUT_DEVICE void store(Plan plan, const View<typename Plan::Value, L>& destination,
                        const Fragment<From, typename Plan::Ownership>& fragment, Origin origin, int thread GROUT_AT) {
  using To = typename Plan::Value;
  using Ownership = typename Plan::Ownership;
  constexpr int V = Plan::vector, kPerWord = 4 / sizeof(To), kWords = (V + kPerWord - 1) / kPerWord;
  const auto convert = [](From value) {
    if constexpr (std::is_same_v<From, To>) return value;
    else return from_float<To>(to_float(value));
  };
  const bool vectors =
      V * sizeof(To) >= 4 && (Plan::bounds == Bounds::none || detail::stores_vectors(plan, destination, origin));
#pragma unroll
  for (int first = 0; first < Ownership::slots; first += V) {
    const auto c = Ownership::at(thread, first);
    const int64_t row = origin.row + c[0], col = origin.col + c[1];
    if (vectors) {
      uint32_t words[kWords] = {};
#pragma unroll
      for (int i = 0; i < V; ++i)
        words[i / kPerWord] |= detail::element_bits(convert(fragment[first + i])) << (i % kPerWord * 8 * sizeof(To));
      const int count = Plan::bounds == Bounds::none ? V : detail::stored_front(plan, destination, row, col);
      detail::store_front<V>(detail::element(destination, row, col), words, count GROUT_HERE);
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const int64_t r = row + (Plan::axis == 0 ? i : 0), c = col + (Plan::axis == 1 ? i : 0);
        if (r >= 0 && c >= 0 && r < destination.layout.template extent<0>() && c < destination.layout.template extent<1>())
          *detail::element(destination, r, c) = convert(fragment[first + i]);
      }
    }
  }
}

}  // namespace grout
