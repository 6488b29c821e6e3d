// Bounded copies global -> shared. The way back, registers -> global, is store.cuh.
//
// A tile has a static capacity; a source has a logical extent. They are different quantities: the destination of a copy
// is always written in full, zeros where the source ends.
//
//   using Plan = CopyPlan<bf16, decltype(tile), 256>;              which thread copies which 16-byte vector, fixed
//   copy_async(Plan{}, shared, source, {row, col}, thread);        origins may be negative or past the end
//   commit_copies();  wait_copies<0>();                            completes copies of the issuing thread only
//   __syncthreads();                                               before others read, and again before reuse
//
// Per vector, in this order: are all its coordinates inside the source, are they contiguous there, is the address a
// multiple of 16? All yes: one cp.async. Otherwise element by element, zero for what is outside; a coordinate is tested
// before its pointer is formed. Two options of a plan replace the elements where they can:
//   Misaligned::realign   a valid, contiguous, misaligned vector is made from the two aligned 16-byte words around it, if
//                         both lie wholly between the source's first and last valid byte;
//   Partial::zero_fill    a vector of which only the front is inside is still one access: an aligned one is a cp.async
//                         that reads the valid bytes and fills with zeros, a realigned one is masked.
#pragma once
#include "common/fragment.cuh"
#include "common/layout.cuh"
#include "common/ptx.cuh"
#include "common/vectors.cuh"

namespace grout {

// Where a tile lies in its source; signed, 64-bit.
struct Origin {
  int64_t row, col;
};

// Memory seen through a layout. For copies: two modes, dynamic extents, any strides; a stride of Int<1> is known to be one.
template <class T, class LayoutT> struct View {
  using Value = T;
  T* data;
  LayoutT layout;
};
template <class T, class LayoutT> constexpr View<T, LayoutT> view(T* data, LayoutT layout) { return {data, layout}; }

enum class Bounds {
  none,     // the caller promises: the tile lies inside, is contiguous and aligned; nothing is tested
  checked,  // anything goes
};
enum class Misaligned {
  elements,  // element by element
  realign,   // from the aligned words around the vector
};

enum class Partial {
  elements,   // element by element
  zero_fill,  // one access, zeros behind the valid front
};
struct CopyOptions {
  Bounds bounds = Bounds::checked;
  Misaligned misaligned = Misaligned::elements;
  Partial partial = Partial::elements;
};

namespace detail {
// The axis along which a static destination layout is contiguous.
template <class D> constexpr int contiguous_axis() {
  if constexpr (D::fully_static) {
    return D{}.template stride<1>() == 1 ? 1 : 0;
  } else {
    return 1;
  }
}
// Is every vector's destination contiguous and aligned through the swizzle?
template <class D, class Ownership> constexpr bool vectors_are_whole() {
  constexpr D kDestination{};
  for (int v = 0; v < Ownership::vectors; ++v) {
    const auto c = Ownership::vector_at(v % Ownership::threads, v / Ownership::threads);
    const auto first = kDestination(c[0], c[1]);
    if (first % Ownership::vector != 0) return false;
    for (int i = 1; i < Ownership::vector; ++i) {
      const bool rows = Ownership::axis == 0;
      if (kDestination(c[0] + (rows ? i : 0), c[1] + (rows ? 0 : i)) != first + i) return false;
    }
  }
  return true;
}
}  // namespace detail

// Deals a tile's 16-byte vectors to Threads threads. Destination: a static two-dimensional layout of the shared tile
// (swizzled, or a window of one, as you like) whose vectors stay whole; its base must be 16-byte aligned.
template <class T, class DestinationT, int Threads, CopyOptions Options = CopyOptions{}> struct CopyPlan {
  using Value = T;
  using Destination = DestinationT;
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "copy plan: elements of 2 or 4 bytes");
  static_assert(Destination::rank == 2, "copy plan: the destination must be a two-dimensional tile");
  static_assert(Destination::fully_static,
                "copy plan: the destination's extents, strides and window origin must be static (64_c)");
  static constexpr int vector = 16 / sizeof(T);
  static constexpr int axis = detail::contiguous_axis<Destination>();
  static constexpr int rows = static_cast<int>(Destination{}.template extent<0>());
  static constexpr int columns = static_cast<int>(Destination{}.template extent<1>());
  using Ownership = VectorTiled<rows, columns, axis, vector, Threads>;
  static_assert(
      detail::vectors_are_whole<Destination, Ownership>(),
      "copy plan: each 16-byte vector must be contiguous and 16-byte aligned in the destination, swizzle included");
  static constexpr CopyOptions options = Options;
};

// What becomes of one vector.
enum class VectorCase { async, realign, elements, zeros };

struct VectorDecision {
  VectorCase kind;
  int first, last;  // the valid elements of the vector: first <= i < last
};

namespace detail {
// First valid byte and one past the last valid byte of a source, whatever the signs of its strides.
struct Span {
  const unsigned char *begin, *end;
};
template <class T, class L> constexpr Span span_of(const View<T, L>& source) {
  int64_t low = 0, high = 0;
  const auto extend = [&](int64_t extent, int64_t stride) { (stride < 0 ? low : high) += (extent - 1) * stride; };
  extend(source.layout.template extent<0>(), source.layout.template stride<0>());
  extend(source.layout.template extent<1>(), source.layout.template stride<1>());
  return {reinterpret_cast<const unsigned char*>(source.data + low),
          reinterpret_cast<const unsigned char*>(source.data + high + 1)};
}
template <class T> GROUT_HD bool is_aligned(const T* pointer, size_t bytes) {
  return (reinterpret_cast<uintptr_t>(pointer) & (bytes - 1)) == 0;
}
template <int64_t V> constexpr bool is_one(Int<V>) { return V == 1; }
constexpr bool is_one(int64_t stride) { return stride == 1; }

GROUT_HD int clamp_to_vector(int64_t value, int vector) {
  return value < 0 ? 0 : value > vector ? vector : static_cast<int>(value);
}
// Pointer to a valid coordinate.
template <class T, class L> GROUT_HD T* element(const View<T, L>& source, int64_t row, int64_t col) {
  return source.data + source.layout(row, col);
}
}  // namespace detail

// Decides the case of one vector whose first coordinate is (row, col) in the source: the contract above, in its order.
// `interior`: the caller knows already that all its coordinates are inside.
template <class Plan, class T, class L>
GROUT_HD VectorDecision decide_vector(Plan, const View<T, L>& source, int64_t row, int64_t col, bool interior = false) {
  constexpr int V = Plan::vector;
  int first = 0, last = V;
  if (!interior) {
    const int64_t along = Plan::axis == 0 ? row : col, across = Plan::axis == 0 ? col : row;
    if (across < 0 || across >= source.layout.template extent<1 - Plan::axis>()) return {VectorCase::zeros, 0, 0};
    first = detail::clamp_to_vector(-along, V);
    last = detail::clamp_to_vector(source.layout.template extent<Plan::axis>() - along, V);
    if (first >= last) return {VectorCase::zeros, 0, 0};
  }
  const bool whole = first == 0 && (last == V || Plan::options.partial == Partial::zero_fill);
  if (whole && detail::is_one(source.layout.template stride<Plan::axis>())) {
    const T* pointer = detail::element(source, row, col);
    if (detail::is_aligned(pointer, 16)) return {VectorCase::async, first, last};
    if constexpr (Plan::options.misaligned == Misaligned::realign) {
      const detail::Span span = detail::span_of(source);
      const auto address = reinterpret_cast<uintptr_t>(pointer) & ~uintptr_t{15};
      if (address >= reinterpret_cast<uintptr_t>(span.begin) && address + 32 <= reinterpret_cast<uintptr_t>(span.end))
        return {VectorCase::realign, first, last};
    }
  }
  return {VectorCase::elements, first, last};
}

// Does the whole tile at `origin` lie inside the source? Are all its vectors contiguous and aligned? Uniform over a block.
template <class Plan, class T, class L> GROUT_HD bool is_interior(Plan, const View<T, L>& source, Origin origin) {
  return origin.row >= 0 && origin.col >= 0 && origin.row + Plan::rows <= source.layout.template extent<0>() &&
         origin.col + Plan::columns <= source.layout.template extent<1>();
}
template <class Plan, class T, class L> GROUT_HD bool is_aligned_source(Plan, const View<T, L>& source, Origin origin) {
  const int64_t pitch = source.layout.template stride<1 - Plan::axis>();
  const int64_t along = Plan::axis == 0 ? origin.row : origin.col;
  return detail::is_one(source.layout.template stride<Plan::axis>()) && pitch % Plan::vector == 0 &&
         along % Plan::vector == 0 && detail::is_aligned(source.data, 16);
}

namespace detail {
template <class T> GROUT_HD uint32_t element_bits(T value) {
  if constexpr (sizeof(T) == 2) return uint32_t{value.bits};
  else return std::bit_cast<uint32_t>(value);
}

// Elements first..last - 1 of a vector, one load each, zeros around them.
template <class Plan, class T, class L>
GROUT_DEVICE void load_elements(Plan, uint32_t (&words)[4], const View<T, L>& source, int64_t row, int64_t col,
                                VectorDecision decision) {
  constexpr int kPerWord = 4 / sizeof(T);
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    words[w] = 0;
#pragma unroll
    for (int i = w * kPerWord; i < (w + 1) * kPerWord; ++i) {
      if (i < decision.first || i >= decision.last) continue;
      const T value = *element(source, row + (Plan::axis == 0 ? i : 0), col + (Plan::axis == 0 ? 0 : i));
      words[w] |= element_bits(value) << (i % kPerWord * 8 * sizeof(T));
    }
  }
}

// Copies a vector by whatever means needs no registers later: everything but realigning.
template <class Plan, class T, class L>
GROUT_DEVICE void copy_now(Plan plan, typename Plan::Value* vector, const View<T, L>& source, int64_t row, int64_t col,
                           VectorDecision decision GROUT_AT) {
  if (decision.kind == VectorCase::async) {
    const uint32_t to = ptx::shared_address(vector GROUT_HERE);
    const auto* from = element(source, row, col);
    if constexpr (Plan::options.partial == Partial::zero_fill) {
      ptx::cp_async<16>(to, from, static_cast<uint32_t>(decision.last * sizeof(T)) GROUT_HERE);
    } else {
      ptx::cp_async<16>(to, from GROUT_HERE);
    }
  } else {
    uint32_t words[4];
    load_elements(plan, words, source, row, col, decision);
    ptx::store_shared(ptx::shared_address(vector GROUT_HERE), words GROUT_HERE);
  }
}
}  // namespace detail

// A thread's realigned vectors on their way through registers, between begin_copy and finish_copy.
template <class Plan> struct VectorsInFlight {
  static constexpr uint32_t kDone = ~0u;
  uint32_t low[Plan::Ownership::turns][4], high[Plan::Ownership::turns][4];
  // Bytes into low:high where the vector starts, and from bit 8 its valid elements; kDone: nothing to store.
  uint32_t place[Plan::Ownership::turns];
};

namespace detail {
// Issues the loads of a thread's vector of turn `turn`: to be realigned, it goes to registers, else straight to `shared`.
template <class Plan, class T, class L>
GROUT_DEVICE void begin_vector(Plan plan, uint32_t (&low)[4], uint32_t (&high)[4], uint32_t& place, typename Plan::Value* shared,
                               const View<T, L>& source, Origin origin, int turn, bool interior, int thread GROUT_AT) {
  using Ownership = typename Plan::Ownership;
  place = VectorsInFlight<Plan>::kDone;
  if (!Ownership::is_inside(thread, turn)) return;
  const auto c = Ownership::vector_at(thread, turn);
  const int64_t row = origin.row + c[0], col = origin.col + c[1];
  const VectorDecision decision = decide_vector(plan, source, row, col, interior);
  if (decision.kind == VectorCase::realign) {
    const auto address = reinterpret_cast<uintptr_t>(element(source, row, col));
    const auto* word = reinterpret_cast<const unsigned char*>(address & ~uintptr_t{15});
    ptx::load_global(low, word GROUT_HERE);
    ptx::load_global(high, word + 16 GROUT_HERE);
    place = static_cast<uint32_t>(address & 15) | static_cast<uint32_t>(decision.last) << 8;
  } else {
    copy_now(plan, shared + typename Plan::Destination{}(c[0], c[1]), source, row, col, decision GROUT_HERE);
  }
}
// Shifts what came through registers into place and stores it.
template <class Plan>
GROUT_DEVICE void finish_vector(Plan, const uint32_t (&low)[4], const uint32_t (&high)[4], uint32_t place,
                                typename Plan::Value* shared, int turn, int thread GROUT_AT) {
  if (place == VectorsInFlight<Plan>::kDone) return;
  uint32_t words[4];
  shift_words(words, low, high, place & 15);
  const int valid = static_cast<int>(place >> 8);
  if (Plan::options.partial == Partial::zero_fill && valid != Plan::vector) keep_front<Plan::vector>(words, valid);
  const auto c = Plan::Ownership::vector_at(thread, turn);
  ptx::store_shared(ptx::shared_address(shared + typename Plan::Destination{}(c[0], c[1]) GROUT_HERE), words GROUT_HERE);
}
}  // namespace detail

// First half of a copy: issues the loads. Vectors to be realigned go to registers, which nothing reads before finish_copy,
// so that computation can stand between the two; all others go straight to `shared`, which must be free already.
// Participants: each thread for its own vectors. Completion: finish_copy, then as copy_async.
template <class Plan, class T, class L>
GROUT_DEVICE void begin_copy(Plan plan, VectorsInFlight<Plan>& flight, typename Plan::Value* shared,
                             const View<T, L>& source, Origin origin, int thread GROUT_AT) {
  const bool interior = is_interior(plan, source, origin);
#pragma unroll
  for (int turn = 0; turn < Plan::Ownership::turns; ++turn)
    detail::begin_vector(plan, flight.low[turn], flight.high[turn], flight.place[turn], shared, source, origin, turn, interior,
                         thread GROUT_HERE);
}

// Second half: shifts what came through registers into place and stores it to the same `shared`.
template <class Plan>
GROUT_DEVICE void finish_copy(Plan plan, const VectorsInFlight<Plan>& flight, typename Plan::Value* shared,
                              int thread GROUT_AT) {
#pragma unroll
  for (int turn = 0; turn < Plan::Ownership::turns; ++turn)
    detail::finish_vector(plan, flight.low[turn], flight.high[turn], flight.place[turn], shared, turn, thread GROUT_HERE);
}

// Both halves with registers for `Turns` of a thread's vectors at a time: for kernels that have few to spare. The same result.
template <int Turns, class Plan, class T, class L>
GROUT_DEVICE void copy_in_parts(Plan plan, typename Plan::Value* shared, const View<T, L>& source, Origin origin,
                                int thread GROUT_AT) {
  static_assert(Plan::Ownership::turns % Turns == 0, "copy_in_parts: the turns must divide into parts of this size");
  const bool interior = is_interior(plan, source, origin);
#pragma unroll 1
  for (int first = 0; first < Plan::Ownership::turns; first += Turns) {
    uint32_t low[Turns][4], high[Turns][4], place[Turns];
#pragma unroll
    for (int i = 0; i < Turns; ++i)
      detail::begin_vector(plan, low[i], high[i], place[i], shared, source, origin, first + i, interior, thread GROUT_HERE);
#pragma unroll
    for (int i = 0; i < Turns; ++i)
      detail::finish_vector(plan, low[i], high[i], place[i], shared, first + i, thread GROUT_HERE);
  }
}

// Copies the tile at `origin` of `source` to `shared`, the base of the plan's destination.
// Participants: threads 0..Threads-1, each for its own vectors; no convergence needed.
// Completion: this thread's commit_copies and wait_copies; then a barrier before other threads read.
// Errors: none; everything outside the source reads as zero. With Bounds::none nothing is tested.
template <class Plan, class T, class L>
GROUT_DEVICE void copy_async(Plan plan, typename Plan::Value* shared, const View<T, L>& source, Origin origin,
                             int thread GROUT_AT) {
  using Ownership = typename Plan::Ownership;
  static_assert(std::is_same_v<std::remove_const_t<T>, typename Plan::Value>,
                "copy_async: source and destination must have the plan's element type");
  const bool vectors_only = Plan::options.bounds == Bounds::none ||
                            (is_interior(plan, source, origin) && is_aligned_source(plan, source, origin));
  if (vectors_only) {
    const uint32_t base = ptx::shared_address(shared GROUT_HERE);
#pragma unroll
    for (int turn = 0; turn < Ownership::turns; ++turn) {
      if (!Ownership::is_inside(thread, turn)) continue;
      const auto c = Ownership::vector_at(thread, turn);
      const auto offset = static_cast<uint32_t>(typename Plan::Destination{}(c[0], c[1]) * sizeof(T));
      ptx::cp_async<16>(base + offset, detail::element(source, origin.row + c[0], origin.col + c[1]) GROUT_HERE);
    }
  } else if constexpr (Plan::options.misaligned == Misaligned::realign) {
    VectorsInFlight<Plan> flight;
    begin_copy(plan, flight, shared, source, origin, thread GROUT_HERE);
    finish_copy(plan, flight, shared, thread GROUT_HERE);
  } else {
#pragma unroll 1
    for (int turn = 0; turn < Ownership::turns; ++turn) {
      if (!Ownership::is_inside(thread, turn)) continue;
      const auto c = Ownership::vector_at(thread, turn);
      const int64_t row = origin.row + c[0], col = origin.col + c[1];
      detail::copy_now(plan, shared + typename Plan::Destination{}(c[0], c[1]), source, row, col,
                       decide_vector(plan, source, row, col) GROUT_HERE);
    }
  }
}

// Closes this thread's copies since its last commit into one group, perhaps empty.
GROUT_DEVICE void commit_copies(GROUT_AT_ONLY) {
  ptx::cp_async_commit_group(GROUT_HERE_ONLY);
}
// Waits until at most the N newest groups of this thread are unfinished. No barrier; publishes nothing.
template <int N> GROUT_DEVICE void wait_copies(GROUT_AT_ONLY) {
  ptx::cp_async_wait_group<N>(GROUT_HERE_ONLY);
}

}  // namespace grout
