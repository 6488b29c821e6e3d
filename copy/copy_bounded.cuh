// Bounded copy: crop a rectangle, with any origin, out of one matrix into another.
//
// The lesson: a tile has a fixed capacity, a matrix has an extent, and the two need not agree. The copy fills the whole
// tile, with zeros where the source ends; the store skips what the destination does not have. Between them stands an
// ordinary tile in shared memory. Run it:  ./run copy 65 73 --tile 64,32 --origin 64,64
//
// CONTRACT
// shapes        destination[r, c] = source[r + origin.row, c + origin.col] where that exists, else 0, for all rows x
//               columns of the destination. Origins may be negative or past the end; source strides are arbitrary.
// participants  256 threads: each copies its vectors, all meet at one barrier, each stores its share.
// memory        one tile of 64 rows x 128 bytes in shared memory, swizzled, so that neither rows nor columns conflict.
// completion    commit, wait (own copies), __syncthreads (everybody's), then the tile may be read.
// rejects       see crop_check.
// verified      simulated device, assembled for sm_80 to sm_121a, run on sm_90.
#pragma once
#include <string>

#include "common/store.cuh"

namespace grout {

struct CropArguments {
  ElementType type = ElementType::bf16;  // elements of 2 bytes (bf16, f16) or 4 (f32); bits are copied as they are
  const void* source = nullptr;
  int64_t source_rows = 0, source_cols = 0;
  int64_t row_stride = 0, col_stride = 1;  // of the source, in elements; any sign
  Origin origin{0, 0};                     // of the rectangle in the source
  void* destination = nullptr;             // row-major
  int64_t rows = 0, cols = 0, ld = 0;      // of the destination, which is the rectangle
};

template <class T> struct CropParameters {
  const T* source;
  int64_t source_rows, source_cols, row_stride, col_stride;
  Origin origin;
  T* destination;
  int64_t rows, cols, ld;
};

template <class T> struct CropTile {
  static constexpr int rows = 64, cols = 128 / sizeof(T), threads = 256;
  using Layout = decltype(compose(Swizzle128B<T>{}, row_major(shape(Int<rows>{}, Int<cols>{}))));
  struct Storage {
    alignas(1024) T tile[rows * cols];
  };
};

// UnitStride: neighbours along a source row are adjacent, and the types know it. Wide: the destination's rows start at
// multiples of 16 bytes, so a thread stores 16 bytes; otherwise it stores single elements, neighbours to neighbours.
template <class T, bool UnitStride, bool Wide>
__global__ void __launch_bounds__(CropTile<T>::threads) copy_bounded_kernel(const CropParameters<T> p) {
  using Tile = CropTile<T>;
  using Layout = typename Tile::Layout;
  using Plan = CopyPlan<T, Layout, Tile::threads,
                        CopyOptions{.misaligned = Misaligned::realign, .partial = Partial::zero_fill}>;
  using Ownership = VectorTiled<Tile::rows, Tile::cols, 1, Wide ? Plan::vector : 1, Tile::threads>;
  auto& shared = dynamic_shared<typename Tile::Storage>();
  const int thread = static_cast<int>(threadIdx.x);
  const auto source = [&] {
    if constexpr (UnitStride) return view(p.source, layout(shape(p.source_rows, p.source_cols), stride(p.row_stride, 1_c)));
    else return view(p.source, layout(shape(p.source_rows, p.source_cols), stride(p.row_stride, p.col_stride)));
  }();
  const auto destination = view(p.destination, layout(shape(p.rows, p.cols), stride(p.ld, 1_c)));

  const int64_t tiles_across = (p.cols + Tile::cols - 1) / Tile::cols;
  const int64_t tiles = (p.rows + Tile::rows - 1) / Tile::rows * tiles_across;
  for (int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const Origin at = {index / tiles_across * Tile::rows, index % tiles_across * Tile::cols};
    copy_async(Plan{}, shared.tile, source, {p.origin.row + at.row, p.origin.col + at.col}, thread);
    commit_copies();
    wait_copies<0>();
    __syncthreads();  // other threads' vectors are complete and visible

    Fragment<T, Ownership> mine;
#pragma unroll
    for (int slot = 0; slot < Ownership::slots; slot += Ownership::vector) {
      const auto c = Ownership::at(thread, slot);
      const T* from = shared.tile + Layout{}(c[0], c[1]);
      if constexpr (Wide) {
        uint32_t words[4];
        ptx::load_shared(words, ptx::shared_address(from));
#pragma unroll
        for (int i = 0; i < Plan::vector; ++i) {
          if constexpr (sizeof(T) == 2) mine[slot + i].bits = static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2)));
          else mine[slot + i] = std::bit_cast<T>(words[i]);
        }
      } else {
        mine[slot] = *from;
      }
    }
    store(StorePlan<T, Ownership, 1>{}, destination, mine, at, thread);
    __syncthreads();  // all have read the tile: the next one may overwrite it
  }
}

namespace detail {
// Addresses that a strided matrix touches, in 128 bits: strides are the caller's and may be anything.
struct CropSpan {
  __int128 low = 0, high = 0;
};
// False where the span is longer than 2^62 bytes.
inline bool crop_span(uintptr_t base, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, size_t bytes, CropSpan& span) {
  span.low = span.high = static_cast<__int128>(base);
  if (rows == 0 || cols == 0) return true;
  const __int128 reaches[] = {static_cast<__int128>(rows - 1) * row_stride, static_cast<__int128>(cols - 1) * col_stride};
  for (const __int128 reach : reaches) {
    if (reach > INT64_MAX / 16 || reach < -(INT64_MAX / 16)) return false;
    (reach < 0 ? span.low : span.high) += reach * static_cast<__int128>(bytes);
  }
  span.high += static_cast<__int128>(bytes);
  return true;
}

template <class T> Status crop_launch(const CropArguments& g, int sms, cudaStream_t stream) {
  using Tile = CropTile<T>;
  const CropParameters<T> p = {static_cast<const T*>(g.source), g.source_rows, g.source_cols, g.row_stride, g.col_stride,
                               g.origin, static_cast<T*>(g.destination), g.rows, g.cols, g.ld};
  const bool unit = g.col_stride == 1;
  const bool wide = reinterpret_cast<uintptr_t>(g.destination) % 16 == 0 && g.ld * int64_t{sizeof(T)} % 16 == 0;
  void (*kernel)(CropParameters<T>) = unit ? (wide ? &copy_bounded_kernel<T, true, true> : &copy_bounded_kernel<T, true, false>)
                                           : (wide ? &copy_bounded_kernel<T, false, true> : &copy_bounded_kernel<T, false, false>);
  const int64_t tiles = ((g.rows + Tile::rows - 1) / Tile::rows) * ((g.cols + Tile::cols - 1) / Tile::cols);
  const int64_t resident = int64_t{sms} * 8;  // blocks that run at once; each walks tiles until none is left
  return launch(kernel, dim3(static_cast<unsigned>(tiles < resident ? tiles : resident)), dim3(Tile::threads),
                sizeof(typename Tile::Storage), stream, p);
}
}  // namespace detail

// Refuses extents, pitches and origins that `crop` cannot do, whatever the addresses.
inline Status crop_check_extents(const CropArguments& g) {
  const auto text = [](int64_t value) { return std::to_string(value); };
  if (g.source_rows < 0 || g.source_cols < 0 || g.rows < 0 || g.cols < 0)
    return invalid("extents must be at least 0: source " + text(g.source_rows) + "x" + text(g.source_cols) + ", rectangle " +
                   text(g.rows) + "x" + text(g.cols));
  if (g.ld < g.cols)
    return invalid("destination pitch " + text(g.ld) + " is smaller than its row of " + text(g.cols) +
                   " elements: rows would overlap");
  detail::CropSpan span;
  if (!detail::crop_span(0, g.source_rows, g.source_cols, g.row_stride, g.col_stride, element_bytes(g.type), span))
    return invalid("the source of " + text(g.source_rows) + "x" + text(g.source_cols) + " with strides " + text(g.row_stride) +
                   "," + text(g.col_stride) + " exceeds 62-bit addresses");
  if (!detail::crop_span(0, g.rows, g.cols, g.ld, 1, element_bytes(g.type), span))
    return invalid("the destination of " + text(g.rows) + " rows with pitch " + text(g.ld) + " exceeds 62-bit addresses");
  int64_t last_row, last_col;
  if (__builtin_add_overflow(g.origin.row, g.rows, &last_row) || __builtin_add_overflow(g.origin.col, g.cols, &last_col) ||
      last_row > INT64_MAX - 4096 || last_col > INT64_MAX - 4096)
    return invalid("origin " + text(g.origin.row) + "," + text(g.origin.col) + " plus the rectangle exceeds 63 bits");
  if (g.origin.row < g.source_rows - INT64_MAX || g.origin.col < g.source_cols - INT64_MAX)
    return invalid("origin " + text(g.origin.row) + "," + text(g.origin.col) +
                   " is farther before the end of the source than 63 bits");
  return {};
}

// Refuses what `crop` cannot do; device-independent.
inline Status crop_check(const CropArguments& g) {
  if (Status status = crop_check_extents(g); !status) return status;
  if (g.rows == 0 || g.cols == 0) return {};
  const bool reads = g.source_rows > 0 && g.source_cols > 0;
  if (g.destination == nullptr) return invalid("the destination is null but would be written");
  if (reads && g.source == nullptr) return invalid("the source is null but would be read");
  const size_t bytes = element_bytes(g.type);
  const auto from = reinterpret_cast<uintptr_t>(g.source), to = reinterpret_cast<uintptr_t>(g.destination);
  if (to % bytes != 0 || (reads && from % bytes != 0))
    return invalid(std::string("source or destination is not aligned to its ") + element_name(g.type) + " elements");
  if (!reads) return {};
  detail::CropSpan source, destination;
  (void)detail::crop_span(from, g.source_rows, g.source_cols, g.row_stride, g.col_stride, bytes, source);
  (void)detail::crop_span(to, g.rows, g.cols, g.ld, 1, bytes, destination);
  if (destination.low < source.high && source.low < destination.high)
    return invalid("source and destination overlap: crop reads and writes in no stated order");
  return {};
}

// Crops on `stream`: destination = the rectangle at origin, zeros where the source ends. Complete when the stream is.
// A source may overlap itself (any strides, also 0); source and destination may not overlap.
// Errors: invalid (one sentence with the values), unsupported (device before 8.0), device_error (launch).
inline Status crop(const CropArguments& g, cudaStream_t stream) {
  if (Status status = crop_check(g); !status) return status;
  DeviceInfo device;
  if (Status status = device_info(device); !status) return status;
  if (device.major < 8)
    return unsupported("copy_bounded needs compute capability 8.0 or later; this device has " + std::to_string(device.major) +
                       "." + std::to_string(device.minor));
  if (g.rows == 0 || g.cols == 0) return {};
  switch (g.type) {
    case ElementType::bf16: return detail::crop_launch<bf16>(g, device.sms, stream);
    case ElementType::f16: return detail::crop_launch<f16>(g, device.sms, stream);
    default: return detail::crop_launch<float>(g, device.sms, stream);
  }
}

}  // namespace grout
