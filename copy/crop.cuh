// Crop: the contract that every kernel of this directory implements, and what their entries and kernels share.
//
// destination[r, c] = source[r + origin.row, c + origin.col] where that exists, else 0, for all rows x columns of the
// destination. Origins may be negative or past the end. Which strides, pitches and alignments it takes is each kernel's own.
#pragma once
#include <string>
#include <utility>

#include "common/span.cuh"
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

// The same crop of the transposed source: row-major again.
inline CropArguments crop_transposed(CropArguments g) {
  std::swap(g.source_rows, g.source_cols);
  std::swap(g.row_stride, g.col_stride);
  std::swap(g.origin.row, g.origin.col);
  std::swap(g.rows, g.cols);
  return g;
}

// What the checks of that crop say, for whoever gave the other.
inline Status crop_of_transposed(Status status) {
  if (!status) status.message += " (said of the transposed source and its rectangle)";
  return status;
}

// How the source is read: in vectors by all threads, in boxes by the copy engine, or in plain bytes by it.
enum class CropPath { bounded, tensor, stream };
constexpr const char* crop_path_name(CropPath path) {
  return path == CropPath::tensor ? "tensor" : path == CropPath::stream ? "stream" : "bounded";
}

template <class T> struct CropParameters {
  const T* source;
  int64_t source_rows, source_cols, row_stride, col_stride;
  Origin origin;
  T* destination;
  int64_t rows, cols, ld;
};

// The tiles of Rows x Cols elements that cover a rectangle, numbered row by row.
template <int Rows, int Cols> struct CropTiles {
  int64_t down, across;
  GROUT_HD CropTiles(int64_t rows, int64_t cols) : down((rows + Rows - 1) / Rows), across((cols + Cols - 1) / Cols) {}
  GROUT_HD int64_t count() const { return down * across; }
  // Where a tile starts in the rectangle.
  GROUT_HD Origin origin(int64_t index) const { return {index / across * Rows, index % across * Cols}; }
};

// ---- shared memory -> destination -------------------------------------------------------------------------------

namespace detail {
// Four words of shared memory to the slots from `slot` on.
template <class T, class Ownership>
GROUT_DEVICE void unpack_vector(Fragment<T, Ownership>& mine, int slot, const uint32_t (&words)[4]) {
#pragma unroll
  for (int i = 0; i < int(16 / sizeof(T)); ++i) {
    if constexpr (sizeof(T) == 2) mine[slot + i].bits = static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2)));
    else mine[slot + i] = std::bit_cast<T>(words[i]);
  }
}
}  // namespace detail

// Reads a thread's share of a tile in shared memory, `Vector` neighbouring slots at a time: 16 bytes, or one element.
template <class Layout, int Vector, class T, class Ownership>
GROUT_DEVICE void read_tile(Fragment<T, Ownership>& mine, const T* tile, int thread GROUT_AT) {
  static_assert(Vector == 1 || Vector * sizeof(T) == 16, "read_tile: single elements or 16 bytes");
#pragma unroll
  for (int slot = 0; slot < Ownership::slots; slot += Vector) {
    const auto c = Ownership::at(thread, slot);
    const T* from = tile + Layout{}(c[0], c[1]);
    if constexpr (Vector == 1) {
      mine[slot] = *from;
    } else {
      uint32_t words[4];
      ptx::load_shared(words, ptx::shared_address(from GROUT_HERE) GROUT_HERE);
      detail::unpack_vector(mine, slot, words);
    }
  }
}

// Stores a tile in shared memory to `origin` of the destination. Wide: the destination's rows start at multiples of 16
// bytes, so a thread stores 16 bytes; otherwise it stores single elements, neighbours to neighbours.
// Participants: Threads threads.
template <class Layout, bool Wide, int Threads, class T, class L>
GROUT_DEVICE void store_tile(const T* tile, const View<T, L>& destination, Origin origin, int thread GROUT_AT) {
  constexpr int kVector = Wide ? 16 / sizeof(T) : 1;
  using Ownership = VectorTiled<static_cast<int>(Layout{}.template extent<0>()),
                                static_cast<int>(Layout{}.template extent<1>()), 1, kVector, Threads>;
  Fragment<T, Ownership> mine;
  read_tile<Layout, kVector>(mine, tile, thread GROUT_HERE);
  store(StorePlan<T, Ownership, 1>{}, destination, mine, origin, thread GROUT_HERE);
}

template <class T> GROUT_DEVICE auto destination_of(const CropParameters<T>& p) {
  return view(p.destination, layout(shape(p.rows, p.cols), stride(p.ld, 1_c)));
}

// ---- host -------------------------------------------------------------------------------------------------------

namespace detail {
template <class T> CropParameters<T> crop_parameters(const CropArguments& g) {
  return {static_cast<const T*>(g.source), g.source_rows, g.source_cols, g.row_stride, g.col_stride, g.origin,
          static_cast<T*>(g.destination), g.rows, g.cols, g.ld};
}
// May the destination be stored in vectors of 16 bytes?
inline bool crop_is_wide(const CropArguments& g) {
  return reinterpret_cast<uintptr_t>(g.destination) % 16 == 0 && g.ld % int64_t(16 / element_bytes(g.type)) == 0;
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
  AddressSpan span;
  if (!address_span(0, {{g.source_rows, g.row_stride}, {g.source_cols, g.col_stride}}, element_bytes(g.type), span))
    return invalid("the source of " + text(g.source_rows) + "x" + text(g.source_cols) + " with strides " +
                   text(g.row_stride) + "," + text(g.col_stride) + " exceeds 62-bit addresses");
  if (!address_span(0, {{g.rows, g.ld}, {g.cols, 1}}, element_bytes(g.type), span))
    return invalid("the destination of " + text(g.rows) + " rows with pitch " + text(g.ld) + " exceeds 62-bit addresses");
  int64_t last_row, last_col;
  constexpr int64_t kMost = INT64_MAX - 4096;  // a tile may begin before the rectangle, and end behind it
  if (__builtin_add_overflow(g.origin.row, g.rows, &last_row) || __builtin_add_overflow(g.origin.col, g.cols, &last_col) ||
      last_row > kMost || last_col > kMost)
    return invalid("origin " + text(g.origin.row) + "," + text(g.origin.col) + " plus the rectangle of " + text(g.rows) +
                   "x" + text(g.cols) + " exceeds " + text(kMost));
  if (g.origin.row < g.source_rows - kMost || g.origin.col < g.source_cols - kMost)
    return invalid("origin " + text(g.origin.row) + "," + text(g.origin.col) + " is more than " + text(kMost) +
                   " before the end of the source of " + text(g.source_rows) + "x" + text(g.source_cols));
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
  AddressSpan source, destination;
  (void)address_span(from, {{g.source_rows, g.row_stride}, {g.source_cols, g.col_stride}}, bytes, source);
  (void)address_span(to, {{g.rows, g.ld}, {g.cols, 1}}, bytes, destination);
  if (source.overlaps(destination))
    return invalid("source and destination overlap: crop reads and writes in no stated order");
  return {};
}

}  // namespace grout
