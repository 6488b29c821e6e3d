// A bounded crop at memory speed, of any pitch, origin and alignment: the copy engine fetches bytes, threads put them in place.
//
// The lesson: tensor copies need a pitch and a start that are multiples of 16 bytes, and a matrix with an odd pitch has neither.
// But memory is bytes. A row's stretch of any start lies within whole 16-byte words, and those the engine copies too
// (cp.async.bulk: no tensor map, no rule but 16). The producer warp fetches words; consumer warps shift each destination vector
// out of the two words that hold it. What a crop needs at its edges costs only the vectors that an edge cuts.
// The rung before: copy_cluster.cuh. After: gemm/, where a ring feeds the tensor cores.
// Run it:  ./run copy 1003 1003 --tile 1000,1000 --origin 1,1 --kernel stream
//
// One row, f32, the rectangle begins two columns before the source; | are multiples of 16 bytes:
//
//   source       |  .   .   .   s0 | s1  s2  s3  s4 | s5  s6   ...      misaligned by three elements
//   fetched      |  .   .   .   s0 | s1  s2  s3  s4 | s5  s6   ...      whole words, as they lie
//   destination  |  .   0   0   s0 | s1  s2  s3  s4 | s5  s6   ...      misaligned by one: its first vector is cut, the others not
//
// CONTRACT
// shapes        crop.cuh's, for a source with column stride 1; any row stride, pitch, origin, base, of source and destination.
// participants  warp 0: the producer, one lane of it works; warps 1 to 4: consumers, one vector a thread and stretch.
//               A block does Config::stretches neighbouring stretches and ends (why: README.md, "Blocks that end").
// memory        Config::stages stages of 2048 + 16 bytes: the words that hold a stretch, which is 128 destination vectors of a row.
//               Global memory: bulk copies and vector loads touch only whole 16-byte words between the source's first and last
//               valid byte; elements outside of such words are loaded one by one.
// barriers      full[stage]: one arrival, the producer's, with the bytes it asked for, which may be none; empty[stage]: four,
//               one of each consumer warp. Parities as in common/ring.cuh.
// completion    a consumer warp releases a stage when all its lanes have the words in registers.
// rejects       see crop_check.
// verified      simulated device; assembled for sm_80 to sm_121a; run on sm_90 (H200).
#pragma once
#include "common/ring.cuh"
#include "copy/copy_bounded.cuh"

namespace grout {

struct CropStream {
  static constexpr int stages = 4, stretches = 8;           // stretches of a block
  static constexpr int vectors = 128, bytes = vectors * 16;  // of a stretch
  static constexpr int consumers = vectors, threads = 32 + consumers;
  struct Storage {
    alignas(128) unsigned char words[stages][bytes + 128];  // 16 more are used
    Ring<stages>::Storage ring;
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

// Where a stretch lies. Both roles compute it, and so agree about it.
struct CropStretch {
  uintptr_t source, destination;   // bytes: of its first destination vector
  int64_t col;                     // column of the rectangle where that vector begins; may be before 0
  int64_t begin, end;              // columns of the rectangle that exist in the source
  uintptr_t fetched, fetched_end;  // words that the engine brings; those of the stage begin at source & ~15
};

template <int Size> GROUT_HD CropStretch crop_stretch(const CropStreamParameters& p, uint32_t index) {
  const int64_t row = index / p.across, source_row = p.origin.row + row;
  const uintptr_t to = p.destination + static_cast<uintptr_t>(row * p.ld * Size);
  const int64_t head = static_cast<int64_t>(to & 15), skip = int64_t{index % p.across} * CropStream::bytes - head;
  CropStretch s;
  s.destination = to + static_cast<uintptr_t>(skip);
  s.col = skip / Size;
  s.source = p.source + static_cast<uintptr_t>((source_row * p.row_stride + p.origin.col) * Size + skip);
  const bool exists = source_row >= 0 && source_row < p.source_rows;
  const int64_t left = -p.origin.col, right = p.source_cols - p.origin.col;
  s.begin = left < 0 ? 0 : left;
  s.end = !exists ? s.begin : right > p.cols ? p.cols : right < s.begin ? s.begin : right;
  s.fetched = s.fetched_end = s.source & ~uintptr_t{15};
  const int64_t from = s.begin > s.col ? s.begin : s.col;
  const int64_t upto = s.end < s.col + CropStream::bytes / Size ? s.end : s.col + CropStream::bytes / Size;
  if (from >= upto) return s;
  const uintptr_t low = s.source + static_cast<uintptr_t>((from - s.col) * Size), high = s.source + static_cast<uintptr_t>((upto - s.col) * Size);
  s.fetched = low & ~uintptr_t{15}, s.fetched_end = (high + 15) & ~uintptr_t{15};
  if (s.fetched < p.first) s.fetched = p.first;
  if (s.fetched_end > p.last) s.fetched_end = p.last;
  if (s.fetched_end < s.fetched) s.fetched_end = s.fetched;
  return s;
}

// One thread. Fetches the words of the block's stretches, each as soon as its stage is free.
template <int Size> GROUT_DEVICE void copy_stream_produce(const CropStreamParameters& p, CropStream::Storage& shared) {
  const Ring<CropStream::stages> ring(shared.ring);
  Ring<CropStream::stages>::Position stage;
  const uint32_t first = blockIdx.x * CropStream::stretches;
  for (int i = 0; i < CropStream::stretches && first + i < p.stretches; ++i, stage.next()) {
    const CropStretch s = crop_stretch<Size>(p, first + i);
    const auto bytes = static_cast<uint32_t>(s.fetched_end - s.fetched);
    ring.acquire(stage);
    ring.expect(stage, bytes);
    if (bytes > 0)
      ptx::cp_async_bulk_load(ptx::shared_address(shared.words[stage.stage]) + static_cast<uint32_t>(s.fetched - (s.source & ~uintptr_t{15})),
                              reinterpret_cast<const void*>(s.fetched), bytes, ring.full_barrier(stage));
  }
}

// The consumer warps; `thread` counts from 0 among them. Thread i makes vector i of each stretch.
template <int Size> GROUT_DEVICE void copy_stream_consume(const CropStreamParameters& p, CropStream::Storage& shared, int thread) {
  constexpr int kElements = 16 / Size;
  const Ring<CropStream::stages> ring(shared.ring);
  Ring<CropStream::stages>::Position stage;
  const uint32_t first = blockIdx.x * CropStream::stretches;
  for (int i = 0; i < CropStream::stretches && first + i < p.stretches; ++i, stage.next()) {
    const CropStretch s = crop_stretch<Size>(p, first + i);
    const int64_t col = s.col + thread * kElements;
    const uintptr_t source = s.source + static_cast<uintptr_t>(thread * 16), to = s.destination + static_cast<uintptr_t>(thread * 16);
    // Elements begin .. end - 1 of the vector exist in the source.
    const int begin = detail::clamp_to_vector(s.begin - col, kElements), end = detail::clamp_to_vector(s.end - col, kElements);
    ring.wait(stage);
    uint32_t low[4], high[4], vector[4];
    const uint32_t at = ptx::shared_address(shared.words[stage.stage]) + static_cast<uint32_t>(thread * 16);
    ptx::load_shared(low, at);
    ptx::load_shared(high, at + 16);
    __syncwarp();  // all lanes have read the stage
    if (thread % 32 == 0) ring.release(stage);
    detail::shift_words(vector, low, high, static_cast<uint32_t>(source & 15));
    if (begin > 0 || end < kElements) detail::keep_range<kElements>(vector, begin, end);
    const uintptr_t needed = source + static_cast<uintptr_t>(begin * Size), behind = source + static_cast<uintptr_t>(end * Size);
    if (begin < end && (needed < s.fetched || behind > s.fetched_end))  // the first or last word of the source is not whole
      detail::load_elements<Size>(vector, source, begin, end);
    if (col >= 0 && col + kElements <= p.cols) ptx::store_global(reinterpret_cast<void*>(to), vector);
    else detail::store_elements<Size>(to, vector, detail::clamp_to_vector(-col, kElements), detail::clamp_to_vector(p.cols - col, kElements));
  }
}

template <int Size>
__global__ void __launch_bounds__(CropStream::threads) copy_stream_kernel(const __grid_constant__ CropStreamParameters p) {
  auto& shared = dynamic_shared<CropStream::Storage>();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) Ring<CropStream::stages>(shared.ring).init(1, CropStream::consumers / 32);
  __syncthreads();  // the barriers are there
  if (thread >= 32) copy_stream_consume<Size>(p, shared, thread - 32);
  else if (thread == 0) copy_stream_produce<Size>(p, shared);
}

// Crops as crop() does. Sources with a column stride other than 1, rectangles of more than 2^31 stretches, and devices before 9.0
// take the portable kernel; `path`, if given, receives which ran. Errors: those of crop.
inline Status crop_stream(const CropArguments& g, cudaStream_t stream, CropPath* path = nullptr) {
  if (Status status = crop_check(g); !status) return status;
  if (g.rows == 0 || g.cols == 0) return {};
  DeviceInfo device;
  if (Status status = device_info(device); !status) return status;
  const size_t size = element_bytes(g.type);
  const auto bytes = static_cast<int64_t>(size);
  const bool none = g.source_rows == 0 || g.source_cols == 0;
  // Where rows begin anywhere between two multiples of 16 bytes, a row may touch one vector more.
  const int64_t vectors = (g.cols * bytes + 15 + (detail::crop_is_wide(g) ? 0 : 15)) / 16;
  const int64_t across = (vectors + CropStream::vectors - 1) / CropStream::vectors;
  const bool streams = device.major >= 9 && (none || g.source_cols == 1 || g.col_stride == 1) && g.rows < (int64_t{1} << 31) / across;
  if (path) *path = streams ? CropPath::stream : CropPath::bounded;
  if (!streams) return crop(g, stream);
  AddressSpan span;
  (void)address_span(reinterpret_cast<uintptr_t>(g.source), {{g.source_rows, g.row_stride}, {g.source_cols, 1}}, size, span);
  const auto stretches = static_cast<uint32_t>(g.rows * across);
  const CropStreamParameters p = {.source = reinterpret_cast<uintptr_t>(g.source),
                                  .first = (static_cast<uintptr_t>(span.low) + 15) & ~uintptr_t{15},
                                  .last = static_cast<uintptr_t>(span.high) & ~uintptr_t{15},
                                  .source_rows = none ? 0 : g.source_rows,
                                  .source_cols = none ? 0 : g.source_cols,
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
