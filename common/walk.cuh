// Copies tile after tile of one source: what a main loop does, at a few instructions a vector.
#pragma once
#include "common/copy.cuh"

namespace grout {

// What a walk does about the source's end.
enum class Edge {
  inside,        // the tile lies inside
  sides_unused,  // across the walk it may not, and nobody uses what lies outside: any values from inside the source's rows
  along_zeros,   // vectors may stick out of the source along themselves, and are filled with zeros; they run across the walk
  zeros,         // zeros outside, everywhere
};

// Copies tile after tile along one axis of a source, as the main loop of a GEMM does, from its start on: with Edge::zeros,
// and for plans that realign, the same result as copy_async at every step, at a few instructions a vector. `side`: number of
// the row of tiles walked, across the walk. Needs positive source strides, one along the vectors, and, unless the plan
// realigns, an aligned source (is_aligned_source). The walk keeps what changes from tile to tile, and is given the source
// each time: registers are scarce.
//
//   TileWalk<Plan, 1> walk(source, side, thread);
//   walk.begin(source, flight, shared);  ...  walk.finish(source, flight, shared);  walk.advance(source);   (realigning)
//   walk.copy<Edge::zeros>(source, shared);  walk.advance(source);                                          (all others)
template <class Plan, int WalkAxis> class TileWalk {
  using T = typename Plan::Value;
  using Ownership = typename Plan::Ownership;
  static constexpr int V = Plan::vector, kAxis = Plan::axis, kTurns = Ownership::turns;
  template <int Axis> static constexpr int kTile = Axis == 0 ? Plan::rows : Plan::columns;
  // Turn t of a thread lies kAcross positions across from turn t - 1, at the same place along the vectors ...
  static constexpr int kAcross = Ownership::threads / Ownership::vectors_along;
  static_assert(Ownership::threads % Ownership::vectors_along == 0 && Ownership::vectors % Ownership::threads == 0,
                "TileWalk: the threads must cover whole rows of vectors, and the same number in every turn");
  // ... and a constant number of elements on in shared memory, where the swizzle repeats that often.
  static constexpr int place(Coordinate<2> c) { return static_cast<int>(typename Plan::Destination{}(c[0], c[1])); }
  static constexpr int kStep = [] {
    return place(Ownership::vector_at(0, kTurns > 1 ? 1 : 0)) - place(Ownership::vector_at(0, 0));
  }();
  static constexpr bool kRegular = [] {
    for (int thread = 0; thread < Ownership::threads; ++thread) {
      for (int turn = 1; turn < kTurns; ++turn)
        if (place(Ownership::vector_at(thread, turn)) != place(Ownership::vector_at(thread, 0)) + turn * kStep) return false;
    }
    return true;
  }();
  static_assert(kRegular, "TileWalk: the destination's swizzle must repeat from one turn to the next");

 public:
  // From tile `first` of the walk on.
  template <class Source>
  GROUT_DEVICE TileWalk(const Source& source, int side, int thread, int first = 0) : side_(side), thread_(thread), step_(first) {
    const auto c = Ownership::vector_at(thread, 0);
    to_ = static_cast<uint32_t>(place(c) * sizeof(T));
    // A vector that lies outside across the walk would never be read: let it start where the tile does.
    const bool outside = left<1 - WalkAxis>(source) == 0;
    from_ = source.data + source.layout(here().row + (outside && WalkAxis == 1 ? 0 : c[0]),
                                        here().col + (outside && WalkAxis == 0 ? 0 : c[1]));
  }
  GROUT_DEVICE int side() const { return side_; }

  // Starts copying the current tile to `shared`. Completion: as copy_async. For Edge::inside and Edge::sides_unused the
  // caller knows that the walk has not come to the end (tiles_inside): there is no branch in between.
  template <Edge EdgeT, class Source> GROUT_DEVICE void copy(const Source& source, T* shared GROUT_AT) const {
    static_assert(Plan::options.misaligned != Misaligned::realign, "TileWalk: a plan that realigns has begin and finish");
    const uint32_t to = ptx::shared_address(shared GROUT_HERE) + to_;
    const int64_t stride = turn_stride(source);
    const T* from = from_;
    if constexpr (EdgeT == Edge::inside || (EdgeT == Edge::sides_unused && kAxis != WalkAxis)) {
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn, from = ptx::opaque(from + stride))
        ptx::cp_async<16>(to + turn * kStep * sizeof(T), from GROUT_HERE);
    } else if constexpr (EdgeT == Edge::along_zeros) {
      static_assert(kAxis != WalkAxis, "TileWalk: Edge::along_zeros is for vectors across the walk");
      const int along = valid_along(source);
      if (along == V) {
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn, from = ptx::opaque(from + stride))
          ptx::cp_async<16>(to + turn * kStep * sizeof(T), from GROUT_HERE);
      } else {
#pragma unroll 1
        for (int turn = 0; turn < kTurns; ++turn)
          ptx::cp_async<16>(to + turn * kStep * sizeof(T), from + turn * stride, static_cast<uint32_t>(along * sizeof(T)) GROUT_HERE);
      }
    } else if constexpr (EdgeT == Edge::sides_unused) {
      const int across = ptx::opaque(valid_across(source));
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        ptx::cp_async<16>(to + turn * kStep * sizeof(T), from GROUT_HERE);
        if ((turn + 1) * kAcross < across) from += stride;  // past the end: the same one again
        from = ptx::opaque(from);
      }
    } else {
      const int along = valid_along(source), across = valid_across(source);
      if (across == kTile<1 - kAxis> - Ownership::vector_at(thread_, 0)[1 - kAxis]) {  // cut along the vectors only
        from = along > 0 ? from : source.data;
        const int64_t step = along > 0 ? stride : 0;
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn, from = ptx::opaque(from + step))
          ptx::cp_async<16>(to + turn * kStep * sizeof(T), from, static_cast<uint32_t>(along * sizeof(T)) GROUT_HERE);
      } else if (along == 0 || along == V) {
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn, from = ptx::opaque(from + stride)) {
          const bool outside = along == 0 || turn * kAcross >= across;
          ptx::cp_async_or_zeros(to + turn * kStep * sizeof(T), outside ? source.data : from, outside GROUT_HERE);
        }
      } else {
#pragma unroll 1
        for (int turn = 0; turn < kTurns; ++turn) {
          const bool outside = turn * kAcross >= across;
          ptx::cp_async<16>(to + turn * kStep * sizeof(T), outside ? source.data : from_ + turn * stride,
                            outside ? 0 : static_cast<uint32_t>(along * sizeof(T)) GROUT_HERE);
        }
      }
    }
  }
  // Does the walk lie inside the source across its axis? Uniform.
  template <class Source> GROUT_DEVICE bool side_is_inside(const Source& source) const {
    return (int64_t{side_} + 1) * kTile<1 - WalkAxis> <= extent<1 - WalkAxis>(source);
  }
  // How many tiles of the walk, from its first one on, may be copied with Edge::inside where the side is inside, and with
  // Edge::sides_unused where it is not: then, where vectors stick out of their rows, at least one row of the source follows,
  // so that they end before the source does. Uniform.
  template <class Source> GROUT_DEVICE int64_t tiles_inside(const Source& source) const {
    const int64_t n = extent<WalkAxis>(source) - (kAxis == WalkAxis || side_is_inside(source) ? 0 : 1);
    return n > 0 ? n / kTile<WalkAxis> : 0;
  }

  // The same in two halves for a plan that realigns, as begin_copy and finish_copy; a few instructions a vector where the
  // words around the tile's vectors are all inside the source.
  template <class Source> GROUT_DEVICE void begin(const Source& source, VectorsInFlight<Plan>& flight, T* shared GROUT_AT) {
    words_are_inside_ = are_words_inside(source);
    if (!words_are_inside_) {
      begin_copy(Plan{}, flight, shared, source, here(), thread_ GROUT_HERE);
      return;
    }
    const int along = valid_along(source), across = valid_across(source);
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      // What lies outside is masked later: load the tile's first vector in its place.
      const T* from = along > 0 && turn * kAcross < across ? from_ + turn * turn_stride(source) : first(source);
      const auto* word = reinterpret_cast<const unsigned char*>(reinterpret_cast<uintptr_t>(from) & ~uintptr_t{15});
      ptx::load_global(flight.low[turn], word GROUT_HERE);
      ptx::load_global(flight.high[turn], word + 16 GROUT_HERE);
    }
  }
  template <class Source>
  GROUT_DEVICE void finish(const Source& source, const VectorsInFlight<Plan>& flight, T* shared GROUT_AT) const {
    if (!words_are_inside_) {
      finish_copy(Plan{}, flight, shared, thread_ GROUT_HERE);
      return;
    }
    const uint32_t to = ptx::shared_address(shared GROUT_HERE) + to_;
    const int along = valid_along(source), across = valid_across(source);
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const auto shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from_ + turn * turn_stride(source))) & 15;
      uint32_t words[4];
      detail::shift_words(words, flight.low[turn], flight.high[turn], shift);
      const int valid = turn * kAcross < across ? along : 0;
      if (valid != V) detail::keep_front<V>(words, valid);
      ptx::store_shared(to + turn * kStep * sizeof(T), words GROUT_HERE);
    }
  }

  // Moves on to the next tile.
  template <class Source> GROUT_DEVICE void advance(const Source& source) {
    ++step_;
    from_ += kTile<WalkAxis> * source.layout.template stride<WalkAxis>();
  }

 private:
  template <int Axis, class Source> static GROUT_DEVICE int64_t extent(const Source& source) {
    return source.layout.template extent<Axis>();
  }
  template <class Source> static GROUT_DEVICE int64_t turn_stride(const Source& source) {
    return kAcross * source.layout.template stride<1 - kAxis>();
  }
  GROUT_DEVICE Origin here() const {
    return {int64_t{WalkAxis == 0 ? step_ : side_} * kTile<0>, int64_t{WalkAxis == 1 ? step_ : side_} * kTile<1>};
  }
  template <class Source> GROUT_DEVICE const T* first(const Source& source) const {
    return source.data + source.layout(here().row, here().col);
  }
  // Elements left, from this thread's first vector to the end of the source or of the tile: along the vector, across.
  template <int Axis, class Source> GROUT_DEVICE int left(const Source& source) const {
    const int first = Ownership::vector_at(thread_, 0)[Axis];
    const int64_t n = extent<Axis>(source) - (Axis == 0 ? here().row : here().col);
    return n <= first ? 0 : (n < kTile<Axis> ? static_cast<int>(n) : kTile<Axis>) - first;
  }
  template <class Source> GROUT_DEVICE int valid_along(const Source& source) const {
    return left<kAxis>(source) < V ? left<kAxis>(source) : V;
  }
  template <class Source> GROUT_DEVICE int valid_across(const Source& source) const { return left<1 - kAxis>(source); }

  // Do the words around every valid vector of the tile lie between the source's first and last valid byte? Uniform.
  template <class Source> GROUT_DEVICE bool are_words_inside(const Source& source) const {
    const Origin at = here();
    if (at.row >= extent<0>(source) || at.col >= extent<1>(source)) return false;
    const detail::Span span = detail::span_of(source);
    const int64_t last = source.layout(last_start<0>(source, at.row), last_start<1>(source, at.col));
    const auto low = reinterpret_cast<uintptr_t>(first(source)) & ~uintptr_t{15};
    const auto high = reinterpret_cast<uintptr_t>(source.data + last) & ~uintptr_t{15};
    return low >= reinterpret_cast<uintptr_t>(span.begin) && high + 32 <= reinterpret_cast<uintptr_t>(span.end);
  }
  // Where, along an axis, the tile's last vector that is at least partly inside starts.
  template <int Axis, class Source> static GROUT_DEVICE int64_t last_start(const Source& source, int64_t origin) {
    constexpr int kStride = Axis == kAxis ? V : 1;
    const int64_t n = extent<Axis>(source) - origin;
    return origin + (n < kTile<Axis> ? (static_cast<int>(n) - 1) / kStride * kStride : kTile<Axis> - kStride);
  }

  int side_, thread_;
  int step_;        // the tile that is next
  uint32_t to_;     // bytes from the tile's base in shared memory to this thread's vector of turn 0
  const T* from_;   // where that vector comes from
  bool words_are_inside_ = false;
};

}  // namespace grout
