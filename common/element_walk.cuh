// Copies tile after tile of one source of 4-byte elements, element by element: what a main loop does where vectors would
// need an alignment, or an order, that the source need not have. Every such element is aligned to itself, so that one
// asynchronous copy each takes any pitch, any base and both orders at the same speed, and transposes on the way.
#pragma once
#include "common/copy.cuh"

namespace grout {

// What a walk does about the end of the source.
enum class ElementEdge {
  inside,  // the tile lies inside
  sides,   // it ends across the walk: elements outside are not written, or zero, and nobody may use them
  zeros,   // it ends in both directions: zeros along the walk, across it as `sides`
};

// Walks in tiles of Extent x Depth, along Depth, over a source of which one axis is contiguous: the depth (DepthContiguous)
// or the extent. In shared memory tiles lie as [Depth][pitch], contiguous along the extent. Threads are dealt to elements
// so that a warp reads whole sectors and writes 32 different banks (28, where the extent is less than 32):
//
//   contiguous along the extent     up to 32 lanes along it, in vectors of 1 element, or of 4 where all rows of the source
//                                   are aligned to 16 bytes
//   contiguous along the depth      8 lanes along it times 4 along the extent: bank 4 * odd * depth + extent, as a pitch is
//                                   4 more than a multiple of 8
//
//   ElementWalk<128, 16, 256, true> walk(base, ld, first, extent, thread);
//   walk.copy<ElementEdge::zeros>(shared, depth_left);  walk.advance();
//
// Participants: each thread for its own elements. Completion: as copy_async.
template <int Extent, int Depth, int Threads, bool DepthContiguous, int Vector = 1> class ElementWalk {
  static_assert(Vector == 1 || (Vector == 4 && !DepthContiguous), "element walk: vectors of 4 lie along the extent");
  static_assert(Extent % 16 == 0 && Depth % 8 == 0, "element walk: tiles are multiples of 16 x 8");
  static constexpr int kAlongEnd = DepthContiguous ? Depth : Extent, kAcrossEnd = DepthContiguous ? Extent : Depth;
  // Threads along the contiguous axis, and across; vectors of a thread along it, and across: the last ones of some threads
  // may lie beyond the tile.
  static constexpr int kLanes = [] {
    int lanes = DepthContiguous ? 8 : 32;
    while (kAlongEnd % (lanes * Vector) != 0) lanes /= 2;
    return lanes;
  }();
  static constexpr int kAcross = Threads / kLanes;
  static constexpr int kInner = kAlongEnd / (kLanes * Vector), kOuter = (kAcrossEnd + kAcross - 1) / kAcross;
  static_assert(Threads % kLanes == 0, "element walk: the threads must cover whole rows");

 public:
  static constexpr int pitch = Extent + 4;  // of the tile in shared memory; still a multiple of 16 bytes
  static constexpr int elements = Depth * pitch;

  // Of an element in the tile in shared memory. Linear: places of steps add up.
  static GROUT_HD constexpr int place(int along, int across) {
    return DepthContiguous ? along * pitch + across : across * pitch + along;
  }
  // Where a thread's first vector lies.
  static GROUT_HD constexpr int first_along(int thread) {
    return static_cast<int>(static_cast<unsigned>(thread) % kLanes * Vector);
  }
  static GROUT_HD constexpr int first_across(int thread) { return static_cast<int>(static_cast<unsigned>(thread) / kLanes); }

  // `base`: the source's first element; `ld`: from one contiguous row to the next; `first`: of the tile along the extent.
  GROUT_DEVICE ElementWalk(const float* base, int64_t ld, int64_t first, int64_t extent, int thread)
      : ld_(ld),
        along_(first_along(thread)),
        across_(first_across(thread)) {
    const int64_t left = extent - first;
    left_ = left < Extent ? static_cast<int>(left) : Extent;
    from_ = base + (DepthContiguous ? (first + across_) * ld + along_ : first + along_ + across_ * ld);
  }
  // Is the tile inside across the walk? Uniform.
  GROUT_DEVICE bool is_inside() const { return left_ == Extent; }

  // Starts copying the current tile to `shared`; `depth_left` elements of the source follow along the walk, at least one.
  template <ElementEdge Edge> GROUT_DEVICE void copy(float* shared, int64_t depth_left GROUT_AT) const {
    constexpr int kStep = kLanes * Vector;  // along
    const uint32_t to = ptx::shared_address(shared GROUT_HERE) + static_cast<uint32_t>(place(along_, across_) * 4);
    const int depth = depth_left < Depth ? static_cast<int>(depth_left) : Depth;
    const float* from = from_;
#pragma unroll
    for (int i = 0; i < kOuter; ++i, from = ptx::opaque(from + kAcross * ld_)) {
      if ((i + 1) * kAcross > kAcrossEnd && across_ >= kAcrossEnd - i * kAcross) continue;  // beyond the tile
#pragma unroll
      for (int j = 0; j < kInner; ++j) {
        const uint32_t element = to + static_cast<uint32_t>(place(j * kStep, i * kAcross) * 4);
        if constexpr (Edge == ElementEdge::inside) {
          ptx::cp_async<4 * Vector>(element, from + j * kStep GROUT_HERE);
        } else {
          const int along = along_ + j * kStep, across = across_ + i * kAcross;
          const int valid = left_ - (DepthContiguous ? across : along);  // of the vector, or more
          if (valid <= 0) continue;
          const bool outside = Edge == ElementEdge::zeros && (DepthContiguous ? along : across) >= depth;
          const int bytes = outside ? 0 : 4 * (valid < Vector ? valid : Vector);
          const float* source = from + j * kStep;  // not read where there are no bytes
          if constexpr (Edge == ElementEdge::sides && Vector == 1) ptx::cp_async<4>(element, source GROUT_HERE);
          else ptx::cp_async<4 * Vector>(element, source, static_cast<uint32_t>(bytes) GROUT_HERE);
        }
      }
    }
  }
  // Moves on to the next tile.
  GROUT_DEVICE void advance() { from_ += DepthContiguous ? Depth : Depth * ld_; }

 private:
  const float* from_;  // where this thread's first vector comes from
  int64_t ld_;
  int along_, across_, left_;
};

}  // namespace grout
