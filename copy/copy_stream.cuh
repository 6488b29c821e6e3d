// A bounded crop at memory speed, of any pitch, origin and alignment: the copy engine fetches bytes, threads put them in place.
//
// The lesson: tensor copies need a pitch and a start that are multiples of 16 bytes, and a matrix with an odd pitch has neither.
// But memory is bytes. A row's stretch of any start lies within whole 16-byte words, and those the engine copies too
// (cp.async.bulk: no tensor map, no rule but 16). The producer warp says where stretches lie and has them fetched; consumer warps
// shift each destination vector out of the two words that hold it. What a crop needs at its edges costs only the vectors that an
// edge cuts. What changes from copy_ring.cuh: a stage holds bytes of one row, not a box; their place is computed, not taken from
// a tensor map; blocks end, so that no stage is filled twice and nobody need say that it is empty.
// The rung before: copy_cluster.cuh. After: gemm/, where copies feed the tensor cores.
// Run it:  ./run copy 1003 1003 --tile 1000,1000 --origin 1,1 --kernel stream
//
// One row in the middle of the matrix, f32; the rectangle begins one column before it; | are multiples of 16 bytes:
//
//   source       |  .   .   .   s0 | s1  s2  s3  s4 | s5  s6   ...      misaligned by three elements
//   fetched      |  .   .   .   s0 | s1  s2  s3  s4 | s5  s6   ...      whole lines, as they lie
//   destination  |  .   0   s0  s1 | s2  s3  s4  s5 | s6  s7   ...      misaligned by one: its first vector is cut, the others not
//
// The vector s2 .. s5 is shifted out of the words s1 .. s4 and s5 .. s8.
//
// CONTRACT
// shapes        crop.cuh's, for a source with column stride 1; any row stride, pitch, origin, base, of source and destination.
// participants  warp 0: the producer, a lane for each stretch; warps 1 to 4: consumers, one vector a thread and stretch.
//               A block does CropStream::stretches neighbouring stretches and ends (why: README.md, "Blocks that end").
// memory        a stage of 2048 + 128 bytes for each stretch: the lines of 128 bytes that hold a stretch, which is 128 destination vectors
//               of a row. Lines, because bulk copies that begin inside a 32-byte sector are slow. Global memory: bulk copies touch
//               only whole 16-byte words between the source's first and last valid byte (of what lies between its rows too); a
//               vector that needs an element outside of such words loads its elements one by one.
// barriers      full[stretch]: one arrival, the producer's, with the bytes it asked for, which may be none; one phase, parity 0.
//               The block's barrier publishes them and the stretches' places.
// completion    of the stores: as of any stores of these threads; after the kernel, everything.
// rejects       see crop_check.
// verified      simulated device, assembled for sm_80 to sm_121a (before sm_90 it traps), run on sm_90.
#pragma once
#include "common/ptx_sm90.cuh"
#include "copy/copy_bounded.cuh"

namespace grout {

// Where one stretch lies: 128 neighbouring destination vectors of a row. Elements are counted from the stretch's first.
struct CropStretch {
  uintptr_t source, destination;   // of element 0; destination is a multiple of 16
  uintptr_t fetched;               // first word that the engine brings
  uint32_t fetched_bytes, offset;  // how much; where in the stage, which begins with the line of `source`
  int begin, end;                  // elements that exist in the source
  int out_begin, out_end;          // elements that exist in the destination
  int whole_begin, whole_end;      // vectors that lie inside both, and whose words were all fetched
};

struct CropStream {
  static constexpr int stretches = 2;                        // of a block, each with a stage of its own
  static constexpr int vectors = 128, bytes = vectors * 16;  // of a stretch
  static constexpr int line = 128;                           // what the engine fetches, in bytes; less at the source's ends
  static constexpr int consumers = vectors, threads = 32 + consumers;
  static_assert(stretches <= 32, "copy_stream: each stretch has a lane of the producer warp");
  struct Storage {
    alignas(128) unsigned char words[stretches][bytes + line];
    CropStretch stretch[stretches];
    alignas(8) uint64_t full[stretches];
  };
};

// Only the size of an element counts: bits are moved as they are. Strides and extents in elements.
struct CropStreamParameters {
  uintptr_t source, first, last;  // of element (0, 0); whole words of the source lie in first .. last
  int64_t source_rows, source_cols, row_stride;
  Origin origin;
  uintptr_t destination;
  int64_t rows, cols, ld;
  uint32_t across, stretches;  // stretches of a row, of the rectangle
};

// Stretch `index` of the rectangle. One thread, once: all that needs 64 bits is here, and no vector needs it again.
template <int Size> GROUT_HD CropStretch crop_stretch(const CropStreamParameters& p, uint32_t index) {
  constexpr int kElements = CropStream::bytes / Size, kVector = 16 / Size;
  const int64_t row = index / p.across, source_row = p.origin.row + row;
  const uintptr_t to = p.destination + static_cast<uintptr_t>(row * p.ld * Size);
  // Bytes from the row's begin.
  const int64_t skip = int64_t{index % p.across} * CropStream::bytes - static_cast<int64_t>(to & 15);
  const int64_t col = skip / Size;  // of element 0 in the rectangle; before 0 where the row begins inside a vector
  CropStretch s;
  s.destination = to + static_cast<uintptr_t>(skip);
  s.source = p.source + static_cast<uintptr_t>(source_row) * static_cast<uintptr_t>(p.row_stride) * Size +
             static_cast<uintptr_t>(p.origin.col) * Size + static_cast<uintptr_t>(skip);  // may wrap where nothing exists
  s.out_begin = detail::clamp_to_vector(-col, kElements), s.out_end = detail::clamp_to_vector(p.cols - col, kElements);
  const bool exists = source_row >= 0 && source_row < p.source_rows;
  const int begin = detail::clamp_to_vector(-p.origin.col - col, kElements);
  const int end = detail::clamp_to_vector(p.source_cols - p.origin.col - col, kElements);
  s.begin = begin < s.out_begin ? s.out_begin : begin, s.end = !exists ? s.begin : end > s.out_end ? s.out_end : end;
  if (s.end < s.begin) s.end = s.begin;
  // The lines that hold these elements, as far as their words are the source's.
  constexpr uintptr_t kInLine = CropStream::line - 1;
  const uintptr_t stage = s.source & ~kInLine;
  uintptr_t low = (s.source + static_cast<uintptr_t>(s.begin * Size)) & ~kInLine;
  uintptr_t high = (s.source + static_cast<uintptr_t>(s.end * Size) + kInLine) & ~kInLine;
  if (low < p.first) low = p.first;
  if (high > p.last) high = p.last;
  if (s.begin == s.end || high <= low) low = high = stage;
  s.fetched = low, s.fetched_bytes = static_cast<uint32_t>(high - low), s.offset = static_cast<uint32_t>(low - stage);
  // A vector is whole if it needs no element outside of begin .. end, and no byte outside of low .. high.
  const auto fetched_begin = static_cast<int>(static_cast<int64_t>(low - s.source) + (Size - 1)) / Size;
  const auto fetched_end = static_cast<int>(static_cast<int64_t>(high - s.source)) / Size;
  const int from = s.begin > fetched_begin ? s.begin : fetched_begin, upto = s.end < fetched_end ? s.end : fetched_end;
  s.whole_begin = (from + kVector - 1) / kVector, s.whole_end = upto / kVector;
  return s;
}

// Lane i has the lines of the block's stretch i fetched. One warp.
GROUT_DEVICE void copy_stream_produce(const CropStream::Storage& shared, int lane, int count) {
  if (lane >= count) return;
  const CropStretch& s = shared.stretch[lane];
  const uint32_t full = ptx::shared_address(&shared.full[lane]);
  ptx::mbarrier_arrive_expect_tx(full, s.fetched_bytes);
  if (s.fetched_bytes > 0)
    ptx::cp_async_bulk_load(ptx::shared_address(shared.words[lane]) + s.offset, reinterpret_cast<const void*>(s.fetched),
                            s.fetched_bytes, full);
}

// A vector that an edge cuts, or whose words were not all fetched: zeros where the source has none; element by element what was not
// fetched, and what the destination has only a part of.
template <int Size> GROUT_DEVICE void copy_stream_edge(const CropStretch& s, uint32_t (&vector)[4], int index) {
  constexpr int kElements = 16 / Size;
  const int first = index * kElements;
  const int begin = detail::clamp_to_vector(s.begin - first, kElements),
            end = detail::clamp_to_vector(s.end - first, kElements);
  const uintptr_t source = s.source + static_cast<uintptr_t>(index * 16);
  const uintptr_t low = source + static_cast<uintptr_t>(begin * Size), high = source + static_cast<uintptr_t>(end * Size);
  if (begin < end && (low < s.fetched || high > s.fetched + s.fetched_bytes))
    detail::load_elements<Size>(vector, source, begin, end);
  else detail::keep_range<kElements>(vector, begin, end);
  const uintptr_t to = s.destination + static_cast<uintptr_t>(index * 16);
  // Asked of the limits as they are: of `clamped == kElements` ptxas 13.0 made a test that 0 passed too (VIMNMX.RELU, sm_90a).
  if (s.out_begin <= first && first + kElements <= s.out_end) ptx::store_global(reinterpret_cast<void*>(to), vector);
  else detail::store_elements<Size>(to, vector, s.out_begin - first, s.out_end - first);
}

// The consumer warps; `thread` counts from 0 among them. Thread i makes vector i of each stretch.
template <int Size>
GROUT_DEVICE void copy_stream_consume(const CropStream::Storage& shared, int thread, int count) {
  for (int i = 0; i < count; ++i) {
    const CropStretch& s = shared.stretch[i];
    const auto place = static_cast<uint32_t>(s.source % CropStream::line);  // of the stretch in its first line
    const uint32_t at = ptx::shared_address(shared.words[i]) + static_cast<uint32_t>(thread * 16) + (place & ~15u);
    uint32_t low[4], high[4], vector[4];
    while (!ptx::mbarrier_try_wait_parity(ptx::shared_address(&shared.full[i]), 0)) {}
    ptx::load_shared(low, at);  // anything where nothing was fetched; an edge uses none of it
    ptx::load_shared(high, at + 16);
    detail::shift_words(vector, low, high, place & 15);
    if (thread >= s.whole_begin && thread < s.whole_end)
      ptx::store_global(reinterpret_cast<void*>(s.destination + static_cast<uintptr_t>(thread * 16)), vector);
    else
      copy_stream_edge<Size>(s, vector, thread);
  }
}

template <int Size>
__global__ void __launch_bounds__(CropStream::threads) copy_stream_kernel(const __grid_constant__ CropStreamParameters p) {
  auto& shared = dynamic_shared<CropStream::Storage>();
  const int thread = static_cast<int>(threadIdx.x);
  const uint32_t first = blockIdx.x * CropStream::stretches, left = p.stretches - first;
  const int count = left < CropStream::stretches ? static_cast<int>(left) : CropStream::stretches;
  if (thread < count) {
    ptx::mbarrier_init(ptx::shared_address(&shared.full[thread]), 1);
    ptx::fence_mbarrier_init();  // the engine sees the barrier
    shared.stretch[thread] = crop_stretch<Size>(p, first + static_cast<uint32_t>(thread));
  }
  __syncthreads();  // and the other threads see it, and the stretch
  if (thread < 32) copy_stream_produce(shared, thread, count);
  else copy_stream_consume<Size>(shared, thread - 32, count);
}

namespace detail {
inline bool crop_has_elements(const CropArguments& g) { return g.source_rows > 0 && g.source_cols > 0; }
// Stretches of a row. Where rows begin anywhere between two multiples of 16 bytes, a row may touch one vector more.
inline int64_t crop_stretches_across(const CropArguments& g) {
  const int64_t vectors = (g.cols * static_cast<int64_t>(element_bytes(g.type)) + 15 + (crop_is_wide(g) ? 0 : 15)) / 16;
  return (vectors + CropStream::vectors - 1) / CropStream::vectors;
}
}  // namespace detail

// May the streaming kernel do what crop_check accepts, on a device of compute capability `major`?
inline bool crop_can_stream(const CropArguments& g, int major) {
  return major >= 9 && (!detail::crop_has_elements(g) || g.source_cols == 1 || g.col_stride == 1) &&
         g.rows < (int64_t{1} << 31) / detail::crop_stretches_across(g);
}

// Crops as crop() does. What crop_can_stream denies (several columns at a stride other than 1, rectangles of about 2^31 stretches,
// devices before 9.0) takes the portable kernel; `path`, if given, receives which ran. Errors: those of crop.
inline Status crop_stream(const CropArguments& g, cudaStream_t stream, CropPath* path = nullptr) {
  if (Status status = crop_check(g); !status) return status;
  if (g.rows == 0 || g.cols == 0) return {};
  DeviceInfo device;
  if (Status status = device_info(device); !status) return status;
  const size_t size = element_bytes(g.type);
  const bool some = detail::crop_has_elements(g), streams = crop_can_stream(g, device.major);
  if (path) *path = streams ? CropPath::stream : CropPath::bounded;
  if (!streams) return crop(g, stream);
  AddressSpan span;
  (void)address_span(reinterpret_cast<uintptr_t>(g.source), {{g.source_rows, g.row_stride}, {g.source_cols, 1}}, size, span);
  const int64_t across = detail::crop_stretches_across(g);
  const auto stretches = static_cast<uint32_t>(g.rows * across);
  const CropStreamParameters p = {.source = reinterpret_cast<uintptr_t>(g.source),
                                  .first = (static_cast<uintptr_t>(span.low) + 15) & ~uintptr_t{15},
                                  .last = static_cast<uintptr_t>(span.high) & ~uintptr_t{15},
                                  .source_rows = some ? g.source_rows : 0,
                                  .source_cols = some ? g.source_cols : 0,
                                  .row_stride = g.row_stride,
                                  .origin = g.origin,
                                  .destination = reinterpret_cast<uintptr_t>(g.destination),
                                  .rows = g.rows,
                                  .cols = g.cols,
                                  .ld = g.ld,
                                  .across = static_cast<uint32_t>(across),
                                  .stretches = stretches};
  return launch(size == 2 ? &copy_stream_kernel<2> : &copy_stream_kernel<4>,
                dim3((stretches + CropStream::stretches - 1) / CropStream::stretches), dim3(CropStream::threads),
                sizeof(CropStream::Storage), stream, p);
}

}  // namespace grout
