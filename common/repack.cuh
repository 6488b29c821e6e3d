// Repack: bring a matrix of any pitch, base, element stride and majorness to a copy that the copy engine and every 16-byte
// access can use: rows that start at multiples of 16 bytes, one element after the other, padded with zeros.
//
// Kernels that move 16-byte vectors need aligned rows. A matrix whose pitch is odd has hardly any; copying it once costs one
// read and one write of it, and gives every later access its vectors. Bits are moved as they are, so that only the size of an
// element counts: 2 or 4 bytes.
//
// What is read how, by the strides of the source (one tile is 1024 vectors of 16 bytes in each):
//   rows               column stride 1. A misaligned vector is shifted out of the two aligned 16-byte words around it. Only words
//                      that lie wholly between the source's first and last valid byte are read; other vectors go by elements.
//   transposed         row stride 1: the same along columns, then through shared memory. The tile is swizzled such that it is
//                      written by rows and read by columns (ldmatrix.trans, or 4-byte loads) without bank conflicts.
//   elements           any other column stride: neighbouring lanes load neighbouring elements.
//   elements_transposed any other row stride, smaller than the column stride: elements, through the same tile.
//
// CONTRACT
// shapes        copy[b, r, c] = source[b, r, c] for r < rows, c < cols; zeros for cols <= c < ld.
// participants  all Threads threads of the group that calls repack_tile; every group takes whole tiles.
// memory        shared: kRepackSharedBytes, 128-byte aligned; used by transposed tiles only.
// barriers      transposed tiles: two bar_sync of the group's threads, after the shared tile is written and after it is read.
// completion    of the tile's stores: as of any stores of these threads; after the kernel, everything. The group's shared memory
//               may be reused at once.
#pragma once
#include <span>
#include <string>

#include "common/copy.cuh"
#include "common/ptx_sm90.cuh"
#include "common/span.cuh"

namespace grout {

// A matrix and its copy. Strides are in elements and may have any sign, also 0: a source may overlap itself.
struct RepackOperand {
  const void* source = nullptr;
  int64_t rows = 0, cols = 0, row_stride = 0, col_stride = 1;
  void* copy = nullptr;  // 16-byte aligned
  int64_t ld = 0;        // elements between rows of the copy: a multiple of 16 bytes, at least cols
  int64_t batch = 1, source_batch_stride = 0, copy_batch_stride = 0;  // the latter a multiple of 16 bytes
};

// Pitch of a copy with `cols` columns: the next multiple of 16 bytes.
template <class T> constexpr int64_t repack_ld(int64_t cols) {
  constexpr int64_t kVector = 16 / sizeof(T);
  return (cols + kVector - 1) / kVector * kVector;
}

enum class RepackMode { rows, transposed, elements, elements_transposed };

// How an operand is cut into tiles: tile i is rows tile_rows * (i / across) of batch i / per_batch, and so on.
struct RepackPlan {
  RepackMode mode = RepackMode::rows;
  int width_log2 = 7;                      // rows, elements: 2^width_log2 vectors of each row in a tile
  int tile_rows = 8, tile_vectors = 128;   // extents of a tile, the latter in vectors of the copy
  uint32_t across = 0, per_batch = 0;
  int64_t tiles = 0;  // repack takes less than 2^31 of all operands
};

inline constexpr int kRepackVectors = 1024;         // of a tile
inline constexpr int kRepackSharedBytes = 16 * kRepackVectors;
inline constexpr int kRepackLines = 128;  // columns of a transposed tile, each a line of 128 bytes in shared memory

// Cuts an operand of `size`-byte elements into tiles. Host, or device.
GROUT_HD RepackPlan repack_plan(const RepackOperand& o, int size) {
  RepackPlan plan;
  const auto magnitude = [](int64_t stride) {
    return stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
  };
  const bool by_columns = magnitude(o.row_stride) < magnitude(o.col_stride) && o.rows > 1;
  if (o.col_stride == 1 || o.cols == 1) plan.mode = RepackMode::rows;
  else if (o.row_stride == 1) plan.mode = RepackMode::transposed;
  else plan.mode = by_columns ? RepackMode::elements_transposed : RepackMode::elements;
  if (o.rows == 0 || o.ld == 0 || o.batch == 0) return plan;  // the other extents may be anything
  const int64_t vectors = o.ld * size / 16;
  if (plan.mode == RepackMode::transposed || plan.mode == RepackMode::elements_transposed) {
    plan.tile_rows = 128 / size;
    plan.tile_vectors = kRepackLines * size / 16;
  } else {
    // The widest stretch, of 2048, 1024 or 512 bytes, with which a row's padding in its last tile is at most a sixteenth of the row;
    // where none is, 512 bytes. Shorter ones only where the rows are shorter.
    const auto padded = [&](int log2) { return ((vectors + (1 << log2) - 1) >> log2) << log2; };
    while (plan.width_log2 > 0 && padded(plan.width_log2) * 16 > vectors * 17 &&
           (plan.width_log2 > 5 || (1 << (plan.width_log2 - 1)) >= vectors))
      --plan.width_log2;
    plan.tile_vectors = 1 << plan.width_log2;
    plan.tile_rows = kRepackVectors >> plan.width_log2;
  }
  const int64_t across = (vectors + plan.tile_vectors - 1) / plan.tile_vectors,
                down = (o.rows + plan.tile_rows - 1) / plan.tile_rows;
  plan.tiles = across * down * o.batch;
  plan.across = static_cast<uint32_t>(across), plan.per_batch = static_cast<uint32_t>(across * down);
  return plan;
}

// The threads that work on a tile together.
struct RepackGroup {
  int thread;         // 0 .. Threads - 1; whole warps
  unsigned barrier;   // of these threads: 1 .. 15
  uint32_t shared;    // address of kRepackSharedBytes
};

namespace detail {

// One tile, once: all that needs 64 bits, but for its vectors' addresses. Addresses and source strides are unsigned: those of what
// does not exist may wrap, since a stride that is never used may be anything.
struct RepackTile {
  uintptr_t source;              // of its first element
  unsigned char* copy;           // of its first vector
  uintptr_t row_bytes, col_bytes;  // source strides
  int64_t pitch;                   // of the copy, bytes
  uintptr_t begin, end;          // of the matrix: its first valid byte, and behind its last
  int rows, vectors, cols;       // that exist of it: rows, vectors of the copy, columns of the source
  bool inside;                   // the tile is full, and for vectors: all words around them lie in begin .. end
};
template <int Size> GROUT_HD RepackTile repack_tile_at(const RepackOperand& o, const RepackPlan& plan, uint32_t tile) {
  constexpr int kElements = 16 / Size;
  const auto part = [](int64_t left, int extent) {
    return left < extent ? (left < 0 ? 0 : static_cast<int>(left)) : extent;
  };
  const auto bytes = [](int64_t elements) { return static_cast<uintptr_t>(elements) * Size; };
  const uint32_t batch = tile / plan.per_batch, in_batch = tile % plan.per_batch;
  const int64_t row = int64_t{in_batch / plan.across} * plan.tile_rows,
                vector = int64_t{in_batch % plan.across} * plan.tile_vectors;
  const uintptr_t origin = reinterpret_cast<uintptr_t>(o.source) + batch * bytes(o.source_batch_stride);
  RepackTile t;
  t.row_bytes = bytes(o.row_stride), t.col_bytes = bytes(o.col_stride), t.pitch = o.ld * Size;
  t.source = origin + static_cast<uintptr_t>(row) * t.row_bytes + static_cast<uintptr_t>(vector * kElements) * t.col_bytes;
  t.copy = static_cast<unsigned char*>(o.copy) + batch * o.copy_batch_stride * Size + row * t.pitch + vector * 16;
  t.rows = part(o.rows - row, plan.tile_rows);
  t.vectors = part(o.ld / kElements - vector, plan.tile_vectors);
  t.cols = part(o.cols - vector * kElements, plan.tile_vectors * kElements);
  t.begin = t.end = origin;
  (o.row_stride < 0 ? t.begin : t.end) += static_cast<uintptr_t>(o.rows - 1) * t.row_bytes;
  (o.col_stride < 0 ? t.begin : t.end) += static_cast<uintptr_t>(o.cols - 1) * t.col_bytes;
  t.end += Size;
  t.inside = t.rows == plan.tile_rows && t.cols == plan.tile_vectors * kElements;
  // The lines of vectors (rows, or columns where those are contiguous) step by one stride: the outermost reach farthest.
  const bool by_rows = plan.mode == RepackMode::rows;
  const uintptr_t first = t.source, last = t.source + (by_rows ? static_cast<uintptr_t>(plan.tile_rows - 1) * t.row_bytes
                                                               : (kRepackLines - 1) * t.col_bytes);
  const uintptr_t length = by_rows ? static_cast<uintptr_t>(plan.tile_vectors) * 16 : 128;
  const uintptr_t lowest = first < last ? first : last, highest = (first < last ? last : first) + length - 16;
  if (by_rows || plan.mode == RepackMode::transposed)
    t.inside = t.inside && (lowest & ~uintptr_t{15}) >= t.begin && (highest & ~uintptr_t{15}) + 32 <= t.end;
  return t;
}

// A vector on its way: two aligned words, and where in them it begins.
struct RepackVector {
  uint32_t low[4], high[4];
  uint32_t shift;
};

// Loads the vector of contiguous elements at `address`, of which the first `valid` (0 or less: none) exist.
template <int Size>
GROUT_DEVICE void repack_load(RepackVector& v, const RepackTile& t, uintptr_t address, int valid GROUT_AT) {
  const uintptr_t word = address & ~uintptr_t{15};
  v.shift = static_cast<uint32_t>(address & 15);
  if (t.inside || (valid > 0 && word >= t.begin && word + 32 <= t.end)) {
    ptx::load_global(v.low, reinterpret_cast<const void*>(word) GROUT_HERE);
    ptx::load_global(v.high, reinterpret_cast<const void*>(word + 16) GROUT_HERE);
  } else {
    v.shift = 0;
    load_elements<Size>(v.low, address, 0, valid);
#pragma unroll
    for (uint32_t& element : v.high) element = 0;
  }
}

// Where chunk `chunk` (16 bytes) of line `line` of a transposed tile lies. Eight threads that write neighbouring chunks of one
// line, or read one chunk of the eight lines of an ldmatrix matrix (4-byte elements: of every fourth of 32 lines), find eight
// different columns of banks.
template <int Size> GROUT_HD uint32_t repack_chunk(int line, int chunk) {
  const int key = Size == 2 ? ((line >> 3 & 3) << 1 | (line & 1)) : line >> 2 & 7;
  return static_cast<uint32_t>(line * 128 + (chunk ^ key) * 16);
}

constexpr int kRepackInFlight = 4;        // vectors that a thread loads before it uses the first
constexpr int kRepackWordsInFlight = 8;   // words of elements, likewise

template <int Size, int Threads>
GROUT_DEVICE void repack_rows(const RepackTile& t, const RepackPlan& plan, int thread GROUT_AT) {
  constexpr int kElements = 16 / Size;
  for (int base = 0; base < kRepackVectors; base += Threads * kRepackInFlight) {
    RepackVector v[kRepackInFlight];
    // A warp takes neighbouring vectors, and in its next turn those behind them.
    const int first = base + thread / 32 * (32 * kRepackInFlight) + thread % 32;
#pragma unroll
    for (int i = 0; i < kRepackInFlight; ++i) {
      const int row = (first + i * 32) >> plan.width_log2, vector = (first + i * 32) & (plan.tile_vectors - 1);
      repack_load<Size>(v[i], t, t.source + static_cast<uintptr_t>(row) * t.row_bytes + static_cast<uintptr_t>(vector * 16),
                        row < t.rows ? t.cols - vector * kElements : 0 GROUT_HERE);
    }
#pragma unroll
    for (int i = 0; i < kRepackInFlight; ++i) {
      const int row = (first + i * 32) >> plan.width_log2, vector = (first + i * 32) & (plan.tile_vectors - 1);
      if (!t.inside && (row >= t.rows || vector >= t.vectors)) continue;
      uint32_t words[4];
      shift_words(words, v[i].low, v[i].high, v[i].shift);
      if (!t.inside) keep_front<kElements>(words, t.cols - vector * kElements);
      ptx::store_global(t.copy + row * t.pitch + vector * 16, words GROUT_HERE);
    }
  }
}

template <int Size, int Threads>
GROUT_DEVICE void repack_elements(const RepackTile& t, const RepackPlan& plan, int thread GROUT_AT) {
  constexpr int kPerWord = 4 / Size;
  const int words = plan.tile_vectors * 4;  // of a row of the tile; a power of two
  for (int base = 0; base < 4 * kRepackVectors; base += Threads * kRepackWordsInFlight) {
    uint32_t word[kRepackWordsInFlight];
    const int first = base + thread / 32 * (32 * kRepackWordsInFlight) + thread % 32;
#pragma unroll
    for (int i = 0; i < kRepackWordsInFlight; ++i) {
      const int row = (first + i * 32) >> (plan.width_log2 + 2), col = ((first + i * 32) & (words - 1)) * kPerWord;
      const uintptr_t address =
          t.source + static_cast<uintptr_t>(row) * t.row_bytes + static_cast<uintptr_t>(col) * t.col_bytes;
      word[i] = 0;
#pragma unroll
      for (int e = 0; e < kPerWord; ++e)
        if (t.inside || (row < t.rows && col + e < t.cols))
          word[i] |= load_element<Size>(address + static_cast<uintptr_t>(e) * t.col_bytes) << (16 * e);
    }
#pragma unroll
    for (int i = 0; i < kRepackWordsInFlight; ++i) {
      const int row = (first + i * 32) >> (plan.width_log2 + 2), at_word = (first + i * 32) & (words - 1);
      if (!t.inside && (row >= t.rows || at_word >= t.vectors * 4)) continue;
      const uint32_t out[1] = {word[i]};
      ptx::store_global(t.copy + row * t.pitch + at_word * 4, out GROUT_HERE);
    }
  }
}

// Column c of the source becomes line c of the shared tile.
template <int Size, int Threads>
GROUT_DEVICE void repack_vectors_to_lines(const RepackTile& t, const RepackGroup& group GROUT_AT) {
  constexpr int kElements = 16 / Size;
  for (int base = 0; base < kRepackVectors; base += Threads * kRepackInFlight) {
    RepackVector v[kRepackInFlight];
#pragma unroll
    for (int i = 0; i < kRepackInFlight; ++i) {
      const int line = (base + i * Threads + group.thread) / 8, chunk = group.thread % 8;
      repack_load<Size>(v[i], t, t.source + static_cast<uintptr_t>(line) * t.col_bytes + static_cast<uintptr_t>(chunk * 16),
                        line < t.cols ? t.rows - chunk * kElements : 0 GROUT_HERE);
    }
#pragma unroll
    for (int i = 0; i < kRepackInFlight; ++i) {
      const int line = (base + i * Threads + group.thread) / 8, chunk = group.thread % 8;
      uint32_t words[4];  // lines past the last column are zeros; elements past the last row are never stored
      shift_words(words, v[i].low, v[i].high, v[i].shift);
      ptx::store_shared(group.shared + repack_chunk<Size>(line, chunk), words GROUT_HERE);
    }
  }
}
template <int Size, int Threads>
GROUT_DEVICE void repack_elements_to_lines(const RepackTile& t, const RepackGroup& group GROUT_AT) {
  constexpr int kPerWord = 4 / Size;
  for (int base = 0; base < 4 * kRepackVectors; base += Threads * kRepackWordsInFlight) {
    uint32_t word[kRepackWordsInFlight];
#pragma unroll
    for (int i = 0; i < kRepackWordsInFlight; ++i) {
      const int line = (base + i * Threads + group.thread) / 32, row = group.thread % 32 * kPerWord;
      const uintptr_t address =
          t.source + static_cast<uintptr_t>(row) * t.row_bytes + static_cast<uintptr_t>(line) * t.col_bytes;
      word[i] = 0;
#pragma unroll
      for (int e = 0; e < kPerWord; ++e)
        if (t.inside || (line < t.cols && row + e < t.rows))
          word[i] |= load_element<Size>(address + static_cast<uintptr_t>(e) * t.row_bytes) << (16 * e);
    }
#pragma unroll
    for (int i = 0; i < kRepackWordsInFlight; ++i) {
      const int line = (base + i * Threads + group.thread) / 32, at_word = group.thread % 32;
      const uint32_t out[1] = {word[i]};
      ptx::store_shared(group.shared + repack_chunk<Size>(line, at_word / 4) + static_cast<uint32_t>(at_word % 4 * 4),
                        out GROUT_HERE);
    }
  }
}

// 16 bytes of a row of the copy for each lane: one element of each of 8 (4-byte elements: 4) neighbouring lines. Warp. The row of the
// tile is 8 * block + lane / 4 (4 * block + lane / 8), the lines are those from first + 8 * (lane % 4) (first + 4 * (lane % 8)) on.
template <int Size>
GROUT_DEVICE void repack_from_lines(uint32_t (&words)[4], uint32_t shared, int block, int first, int lane GROUT_AT) {
  if constexpr (Size == 2) {
    // ldmatrix.trans hands lane L elements 2 (L % 4) and 2 (L % 4) + 1 of matrix i's column L / 4. Its rows may be any lines: row
    // 2q + h of matrix i is line 8q + 2i + h, so that the four registers of a lane are lines 8 (L % 4) .. + 7.
    const int i = lane / 8, row = lane % 8, line = first + 8 * (row / 2) + 2 * i + row % 2;
    ptx::ldmatrix_x4_trans(words, shared + repack_chunk<2>(line, block) GROUT_HERE);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t word[1];
      ptx::load_shared(
          word, shared + repack_chunk<4>(first + lane % 8 * 4 + i, block) + static_cast<uint32_t>(lane / 8 * 4) GROUT_HERE);
      words[i] = word[0];
    }
  }
}

template <int Size, int Threads>
GROUT_DEVICE void repack_transposed(const RepackTile& t, const RepackPlan& plan, const RepackGroup& group GROUT_AT) {
  constexpr int kRowsAtOnce = 16 / Size, kVectorsAtOnce = 32 / kRowsAtOnce;  // of a warp's access: 8 x 4, or 4 x 8
  constexpr int kSteps = kRepackLines / (kVectorsAtOnce * (16 / Size));
  if (plan.mode == RepackMode::transposed) repack_vectors_to_lines<Size, Threads>(t, group GROUT_HERE);
  else repack_elements_to_lines<Size, Threads>(t, group GROUT_HERE);
  ptx::bar_sync(group.barrier, Threads GROUT_HERE);  // the tile is there
  const int lane = group.thread % 32;
#pragma unroll 4
  for (int i = 0; i < 8 * kSteps * 32 / Threads; ++i) {
    const int job = i * (Threads / 32) + group.thread / 32, block = job / kSteps, step = job % kSteps;
    uint32_t words[4];
    repack_from_lines<Size>(words, group.shared, block, step * kVectorsAtOnce * (16 / Size), lane GROUT_HERE);
    const int row = block * kRowsAtOnce + lane / kVectorsAtOnce, vector = step * kVectorsAtOnce + lane % kVectorsAtOnce;
    if (t.inside || (row < t.rows && vector < t.vectors))
      ptx::store_global(t.copy + row * t.pitch + vector * 16, words GROUT_HERE);
  }
  ptx::bar_sync(group.barrier, Threads GROUT_HERE);  // all have read the tile
}
}  // namespace detail

// Copies tile `tile` (0 .. plan.tiles - 1) of an operand with elements of Size bytes. All Threads threads of the group.
template <int Size, int Threads>
GROUT_DEVICE void repack_tile(const RepackOperand& o, const RepackPlan& plan, uint32_t tile,
                              const RepackGroup& group GROUT_AT) {
  static_assert(Size == 2 || Size == 4, "repack: elements of 2 or 4 bytes");
  static_assert(Threads % 32 == 0 && Threads >= 32 && Threads <= 256 && 256 % Threads == 0,
                "repack: 32, 64, 128 or 256 threads a group");
  const detail::RepackTile t = detail::repack_tile_at<Size>(o, plan, tile);
  switch (plan.mode) {
    case RepackMode::rows: return detail::repack_rows<Size, Threads>(t, plan, group.thread GROUT_HERE);
    case RepackMode::elements: return detail::repack_elements<Size, Threads>(t, plan, group.thread GROUT_HERE);
    default: return detail::repack_transposed<Size, Threads>(t, plan, group GROUT_HERE);
  }
}

// Up to two operands in one launch.
struct RepackWork {
  RepackOperand operands[2];
  RepackPlan plans[2];
};

inline constexpr int kRepackThreads = 256;

// Blocks take neighbouring tiles in the order in which they start, and end after one: at any time the tiles in work lie close
// together in memory. Blocks that stay and stride over the matrix drift apart and lose a few per cent.
template <int Size>
__global__ void __launch_bounds__(kRepackThreads) repack_kernel(const __grid_constant__ RepackWork work) {
  ptx::griddepcontrol_launch_dependents();  // a kernel behind this one may start; it waits for the copies itself
  ptx::griddepcontrol_wait();               // the sources may come from the kernel ahead
  const RepackGroup group = {static_cast<int>(threadIdx.x), 1, ptx::shared_address(&dynamic_shared<uint4>())};
  const uint32_t tile = blockIdx.x, before = static_cast<uint32_t>(work.plans[0].tiles);
  const bool second = tile >= before;
  repack_tile<Size, kRepackThreads>(work.operands[second], work.plans[second], second ? tile - before : tile, group);
}

namespace detail {
struct RepackSpans {
  AddressSpan source, copy;
};
inline std::string repack_describe(const RepackOperand& o) {
  const auto text = [](int64_t value) { return std::to_string(value); };
  return text(o.rows) + "x" + text(o.cols) + " with strides " + text(o.row_stride) + "," + text(o.col_stride) + ", " +
         text(o.batch) + " in the batch with stride " + text(o.source_batch_stride) + ", copied to pitch " + text(o.ld) +
         " with batch stride " + text(o.copy_batch_stride);
}
inline Status repack_check_one(const RepackOperand& o, size_t bytes, RepackSpans& spans) {
  const int64_t vector = 16 / static_cast<int64_t>(bytes);
  const auto refuse = [&](const std::string& why) { return invalid("repack of " + repack_describe(o) + ": " + why); };
  if (o.rows < 0 || o.cols < 0 || o.batch < 0) return refuse("extents must be at least 0");
  if (o.ld < o.cols || o.ld % vector != 0)
    return refuse("the pitch of the copy must be at least its " + std::to_string(o.cols) + " columns and a multiple of " +
                  std::to_string(vector) + " elements (16 bytes)");
  if (o.rows == 0 || o.ld == 0 || o.batch == 0) return {};
  if (!address_span(reinterpret_cast<uintptr_t>(o.source),
                    {{o.rows, o.row_stride}, {o.cols, o.col_stride}, {o.batch, o.source_batch_stride}}, bytes,
                    spans.source) ||
      !address_span(reinterpret_cast<uintptr_t>(o.copy), {{o.rows, o.ld}, {o.ld, 1}, {o.batch, o.copy_batch_stride}}, bytes,
                    spans.copy))
    return refuse("the source or the copy exceeds 62-bit addresses");
  if (o.batch > 1 && (o.copy_batch_stride % vector != 0 ||
                      (o.copy_batch_stride < 0 ? -o.copy_batch_stride : o.copy_batch_stride) < o.rows * o.ld))
    return refuse("the copies' batch stride must be a multiple of " + std::to_string(vector) +
                  " elements (16 bytes), and at least a copy of " + std::to_string(o.rows * o.ld) + ", or copies collide");
  if (o.copy == nullptr || (o.cols > 0 && o.source == nullptr))
    return refuse(o.copy == nullptr ? "the copy is null but would be written" : "the source is null but would be read");
  if (reinterpret_cast<uintptr_t>(o.copy) % 16 != 0 || reinterpret_cast<uintptr_t>(o.source) % bytes != 0)
    return refuse("the copy must start at a multiple of 16 bytes and the source at one of its " + std::to_string(bytes) +
                  "-byte elements");
  if (static_cast<double>(o.rows) * static_cast<double>(o.ld) * static_cast<double>(o.batch) * static_cast<double>(bytes) >=
      0x1p44)
    return refuse("the copy is longer than 2^44 bytes");
  return {};
}
}  // namespace detail

// Refuses what `repack` cannot do; device-independent.
inline Status repack_check(std::span<const RepackOperand> operands, ElementType type) {
  if (operands.empty() || operands.size() > 2)
    return invalid("repack takes 1 or 2 operands, not " + std::to_string(operands.size()));
  const auto refuse = [&](const std::string& why) {
    return invalid("repack of " + detail::repack_describe(operands[0]) +
                   (operands.size() > 1 ? " and of " + detail::repack_describe(operands[1]) : std::string()) + ": " + why);
  };
  detail::RepackSpans spans[2] = {};
  int64_t tiles = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (Status status = detail::repack_check_one(operands[i], element_bytes(type), spans[i]); !status) return status;
    tiles += repack_plan(operands[i], static_cast<int>(element_bytes(type))).tiles;
  }
  if (tiles > INT32_MAX)
    return refuse(std::to_string(tiles) + " tiles, and one launch takes at most " + std::to_string(INT32_MAX));
  for (const detail::RepackSpans& copy : spans)
    for (const detail::RepackSpans& other : spans)
      if (copy.copy.overlaps(other.source) || (&copy != &other && copy.copy.overlaps(other.copy)))
        return refuse("a copy overlaps a source or the other copy, and they are read and written in no stated order");
  return {};
}

// Copies one or two operands on `stream`, in one launch. Complete when the stream is. `programmatic`: may start before the kernel
// ahead of it has ended, and waits for it before it reads (compute capability 9.0 or later; else as without).
// Errors: invalid (one sentence with the values), unsupported (device before 8.0), device_error (launch).
inline Status repack(std::span<const RepackOperand> operands, ElementType type, cudaStream_t stream,
                     bool programmatic = false) {
  if (Status status = repack_check(operands, type); !status) return status;
  DeviceInfo device;
  if (Status status = device_info(device); !status) return status;
  if (device.major < 8)
    return unsupported("repack needs compute capability 8.0 or later; this device has " + std::to_string(device.major) +
                       "." + std::to_string(device.minor));
  const int size = static_cast<int>(element_bytes(type));
  RepackWork work;
  int64_t tiles = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    work.operands[i] = operands[i], work.plans[i] = repack_plan(operands[i], size);
    tiles += work.plans[i].tiles;
  }
  if (tiles == 0) return {};
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(tiles)),
                             .block = dim3(kRepackThreads),
                             .shared_bytes = kRepackSharedBytes,
                             .programmatic = programmatic && (device.major >= 9 || kSimulatedBuild)};
  return size == 2 ? launch(&repack_kernel<2>, shape, stream, work) : launch(&repack_kernel<4>, shape, stream, work);
}

}  // namespace grout
