// GEMM host entry: D = alpha * A * B + beta * C on the current device, any shape, pitch and alignment.
//
//   GemmArguments arguments{.m = 65, .n = 97, .k = 73, .a = a, .b = b, .d = d, .lda = 73, .ldb = 97, .ldc = 97};
//   if (Status status = gemm(arguments, stream); !status) puts(status.message.c_str());
//
// Chooses kernel, path and tile by problem and device. Asynchronous: never synchronises, capturable in a graph,
// thread-safe, the same bits every time. Whatever it cannot do is refused before anything is launched or written.
#pragma once
#include <array>
#include <span>
#include <string>

#include "common/repack.cuh"
#include "gemm/gemm_mma.cuh"

namespace grout {

enum class GemmBounds {
  automatic,  // by the dimensions
  checked,    // takes everything
  none,       // the aligned path, refused unless tiles are full and pitches aligned
};

struct GemmArguments {
  int64_t m = 0, n = 0, k = 0;
  ElementType type = ElementType::bf16;  // of A and B: bf16 or f16
  ElementType out = ElementType::bf16;   // of C and D
  bool trans_a = false;                  // A is stored row-major as M x K; true: as K x M
  bool trans_b = false;                  // B is stored row-major as K x N; true: as N x K
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void* d = nullptr;                      // may be c; no other overlap with an operand
  int64_t lda = 0, ldb = 0, ldc = 0;      // elements from one stored row to the next; C and D share ldc
  float alpha = 1, beta = 0;              // beta = 0 never reads C; alpha = 0 or k = 0 never reads A or B
  int64_t batch = 1;                      // matrices
  int64_t batch_a = 0, batch_b = 0, batch_c = 0, batch_d = 0;  // elements between matrices; 0 repeats one
  GemmBounds bounds = GemmBounds::automatic;
  // Memory for copies of misaligned operands: at least gemm_workspace_bytes, 16-byte aligned, apart from all operands, free
  // until the stream is done. Null: allocated and freed in stream order, or done without (path realign) where there is none.
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

// What the entry chose.
struct GemmChoice {
  const char* kernel = "none";
  GemmPath path = GemmPath::bounded;
  int tile_m = 0, tile_n = 0, tile_k = 0, threads = 0;
  size_t shared_bytes = 0;
  int64_t tiles = 0;
  const char* reason = "";
};

constexpr const char* gemm_path_name(GemmPath path) {
  constexpr const char* kNames[] = {"aligned", "bounded", "realign", "repack"};
  return kNames[static_cast<int>(path)];
}

// One compiled kernel.
template <class T> struct GemmMmaVariant {
  bool trans_a, trans_b;
  GemmPath path;
  int tile_m, tile_n, tile_k, threads;
  size_t shared_bytes;
  double rate;  // products a multiprocessor does in a given time, relative to the fastest tile of the path (gemm/NOTES.md)
  int blocks_per_sm;
  void (*kernel)(GemmMmaParameters<T>);
};

namespace detail {
// 128 x 256 keeps 64 x 64 accumulators in each of 8 warps, the most that fits in registers, and so reads shared memory
// least; it needs 144 KiB of it. The smaller tiles are for small problems, and for devices with 99 KiB. Realigning needs
// registers for vectors in flight, so that its warps hold 64 x 32.
using GemmTileLarge = GemmMmaTile<128, 256, 64, 2, 4, 3>;
using GemmTileMedium = GemmMmaTile<128, 128, 64, 2, 2, 3>;
using GemmTileMediumRealign = GemmMmaTile<128, 128, 32, 2, 4, 4>;
using GemmTileSmall = GemmMmaTile<64, 64, 32, 2, 2, 4>;

template <class T, bool TransA, bool TransB, GemmPath Path, class Tile>
GemmMmaVariant<T> gemm_variant(double rate, int blocks_per_sm) {
  return {TransA, TransB, Path, Tile::m, Tile::n, Tile::k, Tile::threads, sizeof(GemmMmaStorage<T, Tile>), rate,
          blocks_per_sm, &gemm_mma_kernel<T, TransA, TransB, Path, Tile>};
}
template <class T, bool TransA, bool TransB> struct GemmVariants {
  static inline const std::array<GemmMmaVariant<T>, 8> list = {{
      gemm_variant<T, TransA, TransB, GemmPath::aligned, GemmTileLarge>(1.0, 1),
      gemm_variant<T, TransA, TransB, GemmPath::aligned, GemmTileMedium>(0.93, 2),
      gemm_variant<T, TransA, TransB, GemmPath::aligned, GemmTileSmall>(0.55, 4),
      gemm_variant<T, TransA, TransB, GemmPath::bounded, GemmTileLarge>(1.0, 1),
      gemm_variant<T, TransA, TransB, GemmPath::bounded, GemmTileMedium>(0.93, 2),
      gemm_variant<T, TransA, TransB, GemmPath::bounded, GemmTileSmall>(0.55, 4),
      gemm_variant<T, TransA, TransB, GemmPath::realign, GemmTileMediumRealign>(1.0, 1),
      gemm_variant<T, TransA, TransB, GemmPath::realign, GemmTileSmall>(0.55, 3),
  }};
};

inline constexpr int64_t kMaxExtent = int64_t{1} << 35;
inline std::string text(int64_t value) { return std::to_string(value); }

// Bytes between the first and the last that a batched row-major matrix touches, and how they lie if it is only one matrix.
struct ByteRange {
  uintptr_t begin = 0, end = 0;
  uint64_t pitch = 0, row = 0;  // of one matrix; 0: several
  // Neighbouring columns of one wide matrix do not overlap, though their ranges do.
  bool overlaps(const ByteRange& other) const {
    if (begin >= other.end || other.begin >= end) return false;
    if (pitch == 0 || pitch != other.pitch) return true;
    const uint64_t on =
        begin <= other.begin ? (other.begin - begin) % pitch : (pitch - (begin - other.begin) % pitch) % pitch;
    return on < row || on + other.row > pitch;
  }
};
// False where an address would not fit 63 bits.
inline bool byte_range(const void* base, int64_t rows, int64_t cols, int64_t ld, int64_t batch, int64_t batch_stride,
                       size_t bytes, ByteRange& range) {
  int64_t last_row, last_batch, last, size;
  if (__builtin_mul_overflow(rows - 1, ld, &last_row) || __builtin_mul_overflow(batch - 1, batch_stride, &last_batch) ||
      __builtin_add_overflow(last_row, cols, &last) ||
      __builtin_add_overflow(last, last_batch < 0 ? -last_batch : last_batch, &size) ||
      __builtin_mul_overflow(size, static_cast<int64_t>(bytes), &size))
    return false;
  const auto start = reinterpret_cast<uintptr_t>(base);
  const int64_t before = last_batch < 0 ? -last_batch : 0, after = last_batch < 0 ? last : last + last_batch;
  range = {start - static_cast<uintptr_t>(before) * bytes, start + static_cast<uintptr_t>(after) * bytes};
  if (batch == 1) range.pitch = static_cast<uint64_t>(ld) * bytes, range.row = static_cast<uint64_t>(cols) * bytes;
  return true;
}

// Refuses a pitch smaller than the stored row (`row` elements) and addresses beyond 63 bits.
inline Status check_pitch(const char* name, const char* ld_name, int64_t rows, int64_t row, int64_t ld, int64_t batch,
                          int64_t batch_stride, ElementType type) {
  if (ld < row)
    return invalid(std::string(ld_name) + "=" + text(ld) + " is smaller than the stored row of " + name + " (" + text(row) +
                   " elements)");
  ByteRange range;
  if (rows > 0 && row > 0 && batch > 0 &&
      !byte_range(nullptr, rows, row, ld, batch, batch_stride, element_bytes(type), range))
    return invalid(std::string(name) + " with " + text(rows) + " rows, " + ld_name + "=" + text(ld) + " and " + text(batch) +
                   " matrices exceeds 63-bit addresses");
  return {};
}
// Refuses a pointer that cannot be accessed.
inline Status check_pointer(const char* name, const void* pointer, ElementType type) {
  if (pointer == nullptr) return invalid(std::string(name) + " is null but would be accessed");
  if (reinterpret_cast<uintptr_t>(pointer) % element_bytes(type) != 0)
    return invalid(std::string(name) + " is not aligned to its " + element_name(type) + " elements of " +
                   text(static_cast<int64_t>(element_bytes(type))) + " bytes");
  return {};
}

inline bool vectors_aligned(const void* pointer, int64_t ld, int64_t batch, int64_t batch_stride) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0 && ld % 8 == 0 && (batch == 1 || batch_stride % 8 == 0);
}

template <class T> std::span<const GemmMmaVariant<T>> gemm_mma_variants(bool trans_a, bool trans_b) {
  return trans_a ? (trans_b ? std::span(GemmVariants<T, true, true>::list) : std::span(GemmVariants<T, true, false>::list))
                 : (trans_b ? std::span(GemmVariants<T, false, true>::list)
                            : std::span(GemmVariants<T, false, false>::list));
}

// Which operands have to be copied before vectors can be read, and how: their copies lie one behind the other.
struct GemmRepack {
  bool a = false, b = false;
  int64_t rows_a = 0, row_a = 0, rows_b = 0, row_b = 0;  // stored
  int64_t batch_a = 0, batch_b = 0;                      // matrices to copy
  size_t bytes_a = 0, bytes_b = 0;
  size_t bytes() const { return bytes_a + bytes_b; }
};
inline GemmRepack gemm_repack_plan(const GemmArguments& g) {
  GemmRepack r;
  r.a = !vectors_aligned(g.a, g.lda, g.batch, g.batch_a), r.b = !vectors_aligned(g.b, g.ldb, g.batch, g.batch_b);
  r.rows_a = g.trans_a ? g.k : g.m, r.row_a = g.trans_a ? g.m : g.k;
  r.rows_b = g.trans_b ? g.n : g.k, r.row_b = g.trans_b ? g.k : g.n;
  r.batch_a = g.batch_a == 0 ? 1 : g.batch, r.batch_b = g.batch_b == 0 ? 1 : g.batch;
  const auto bytes = [](int64_t rows, int64_t row, int64_t batch) {
    return static_cast<size_t>(rows * repack_ld<bf16>(row) * batch) * sizeof(bf16);
  };
  r.bytes_a = r.a ? bytes(r.rows_a, r.row_a, r.batch_a) : 0;
  r.bytes_b = r.b ? bytes(r.rows_b, r.row_b, r.batch_b) : 0;
  return r;
}
// Copies pay once the products, or the k-tiles that a block realigns one after the other, outweigh two more passes over the
// operands and a launch each (gemm/NOTES.md).
inline bool gemm_repack_pays(const GemmArguments& g) {
  const auto m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k),
             batch = static_cast<double>(g.batch);
  // Matrices that overlap one another may have copies longer than any memory, and than 64 bits count.
  return (m * n * k * batch >= 0x1p25 || k >= 512) && (m + n + 16) * (k + 8) * batch < 0x1p50;
}

template <class T>
Status gemm_mma_launch(const GemmArguments& g, int64_t k, const DeviceInfo& device, cudaStream_t stream,
                       GemmChoice& choice);

// Copies misaligned operands to `workspace` and runs the kernel on the copies.
template <class T>
Status gemm_repacked(const GemmArguments& g, void* workspace, const DeviceInfo& device, cudaStream_t stream,
                     GemmChoice& choice) {
  const GemmRepack r = gemm_repack_plan(g);
  GemmArguments packed = g;
  auto* to = static_cast<T*>(workspace);
  RepackOperand operands[2];
  size_t count = 0;
  const auto copy = [&](const void*& data, int64_t& ld, int64_t& stride, int64_t rows, int64_t row, int64_t batch) {
    const int64_t pitch = repack_ld<T>(row), matrix = rows * pitch;
    operands[count++] = RepackOperand{.source = data,
                                      .rows = rows,
                                      .cols = row,
                                      .row_stride = ld,
                                      .copy = to,
                                      .ld = pitch,
                                      .batch = batch,
                                      .source_batch_stride = stride,
                                      .copy_batch_stride = matrix};
    data = to, ld = pitch, stride = stride == 0 ? 0 : matrix;
    to += matrix * batch;
  };
  if (r.a) copy(packed.a, packed.lda, packed.batch_a, r.rows_a, r.row_a, r.batch_a);
  if (r.b) copy(packed.b, packed.ldb, packed.batch_b, r.rows_b, r.row_b, r.batch_b);
  if (Status s = repack({operands, count}, element_type<T>, stream); !s) return s;
  if (Status s = gemm_mma_launch<T>(packed, g.k, device, stream, choice); !s) return s;
  choice.path = GemmPath::repack;
  choice.reason = "A or B has a base or pitch that is not a multiple of 16 bytes, and is copied first";
  return {};
}

template <class T>
Status gemm_mma_launch(const GemmArguments& g, int64_t k, const DeviceInfo& device, cudaStream_t stream,
                       GemmChoice& choice) {
  const auto ceil_div = [](int64_t x, int64_t y) { return (x + y - 1) / y; };
  const bool aligned_operands = k == 0 || (vectors_aligned(g.a, g.lda, g.batch, g.batch_a) &&
                                           vectors_aligned(g.b, g.ldb, g.batch, g.batch_b));
  const auto d_bytes = static_cast<int64_t>(element_bytes(g.out));
  const bool aligned_out = reinterpret_cast<uintptr_t>(g.d) % 16 == 0 && g.ldc * d_bytes % 16 == 0 &&
                           (g.batch == 1 || g.batch_d * d_bytes % 16 == 0);

  if (!aligned_operands && g.bounds != GemmBounds::none && gemm_repack_pays(g)) {
    if (g.workspace != nullptr) return gemm_repacked<T>(g, g.workspace, device, stream, choice);
    void* workspace = nullptr;
    if (cudaMallocAsync(&workspace, gemm_repack_plan(g).bytes(), stream) == cudaSuccess) {
      const Status done = gemm_repacked<T>(g, workspace, device, stream, choice);
      const Status freed = runtime_status(cudaFreeAsync(workspace, stream), "cudaFreeAsync");
      return done ? freed : done;
    }
    (void)cudaGetLastError();  // no memory: realign in the kernel
  }

  const GemmMmaVariant<T>* best = nullptr;
  double best_time = 0;
  for (const GemmMmaVariant<T>& v : gemm_mma_variants<T>(g.trans_a, g.trans_b)) {
    const bool full_tiles = g.m % v.tile_m == 0 && g.n % v.tile_n == 0 && k % v.tile_k == 0;
    const bool aligned = full_tiles && aligned_operands && aligned_out && g.bounds != GemmBounds::checked;
    const GemmPath wanted = !aligned_operands ? GemmPath::realign : aligned ? GemmPath::aligned : GemmPath::bounded;
    if (v.path != wanted || v.shared_bytes > device.shared_per_block) continue;
    if (g.bounds == GemmBounds::none && v.path != GemmPath::aligned) continue;
    const int64_t tiles = ceil_div(g.m, v.tile_m) * ceil_div(g.n, v.tile_n) * g.batch;
    const int64_t most = ceil_div(tiles, device.sms);  // tiles of the busiest multiprocessor
    const double time = static_cast<double>(most) * v.tile_m * v.tile_n / v.rate;
    if (best == nullptr || time < best_time) best = &v, best_time = time;
  }
  if (best == nullptr) {
    if (g.bounds != GemmBounds::none)
      return unsupported("no GEMM tile fits the " + text(static_cast<int64_t>(device.shared_per_block)) +
                         " bytes of shared memory that a block of this device may use");
    if (!aligned_operands || !aligned_out)
      return invalid("bounds=false needs 16-byte aligned operands and pitches: lda=" + text(g.lda) + " ldb=" + text(g.ldb) +
                     " ldc=" + text(g.ldc) + " or a base address is not a multiple of 16 bytes; bounds=auto takes them");
    return invalid("bounds=false needs full tiles: M=" + text(g.m) + " N=" + text(g.n) + " K=" + text(k) +
                   " are not multiples of 64, 64 and 32, the smallest tile; bounds=auto takes them");
  }

  const int64_t tiles = ceil_div(g.m, best->tile_m) * ceil_div(g.n, best->tile_n) * g.batch;
  choice = {"mma", best->path, best->tile_m, best->tile_n, best->tile_k, best->threads, best->shared_bytes, tiles,
            best->path == GemmPath::aligned   ? "full tiles, 16-byte aligned pitches"
            : best->path == GemmPath::bounded ? "ragged extents or bounds=true, 16-byte aligned A and B"
                                              : "A or B has a base or pitch that is not a multiple of 16 bytes"};
  const GemmMmaParameters<T> parameters = {
      static_cast<const T*>(g.a), static_cast<const T*>(g.b), g.c, g.d, g.m, g.n, k, g.lda, g.ldb, g.ldc,
      g.batch, g.batch_a, g.batch_b, g.batch_c, g.batch_d,
      k == 0 ? 0.f : g.alpha,  // no product: 0, even of infinity
      g.beta, g.out};
  const int64_t resident = int64_t{device.sms} * best->blocks_per_sm;  // each block walks tiles until none is left
  return launch(best->kernel, dim3(static_cast<unsigned>(tiles < resident ? tiles : resident)),
                dim3(static_cast<unsigned>(best->threads)), best->shared_bytes, stream, parameters);
}
}  // namespace detail

// Refuses extents, pitches and batches that `gemm` cannot do, whatever the addresses.
inline Status gemm_check_extents(const GemmArguments& g) {
  using detail::text;
  if (g.m < 0 || g.n < 0 || g.k < 0)
    return invalid("extents must be at least 0: M=" + text(g.m) + " N=" + text(g.n) + " K=" + text(g.k));
  if (g.batch < 0) return invalid("batch=" + text(g.batch) + " must be at least 0");
  if (g.type == ElementType::f32) return invalid("A and B of type f32 are not built yet: bf16 and f16 exist");
  if (g.m > detail::kMaxExtent || g.n > detail::kMaxExtent || g.k > detail::kMaxExtent)
    return invalid("extents must be at most 2^35, what the kernels' tile counters hold: M=" + text(g.m) + " N=" + text(g.n) +
                   " K=" + text(g.k));
  const int64_t rows_a = g.trans_a ? g.k : g.m, row_a = g.trans_a ? g.m : g.k;
  const int64_t rows_b = g.trans_b ? g.n : g.k, row_b = g.trans_b ? g.k : g.n;
  if (Status s = detail::check_pitch("A", "lda", rows_a, row_a, g.lda, g.batch, g.batch_a, g.type); !s) return s;
  if (Status s = detail::check_pitch("B", "ldb", rows_b, row_b, g.ldb, g.batch, g.batch_b, g.type); !s) return s;
  if (Status s = detail::check_pitch("C", "ldc", g.m, g.n, g.ldc, g.batch, g.batch_c, g.out); !s) return s;
  if (Status s = detail::check_pitch("D", "ldc", g.m, g.n, g.ldc, g.batch, g.batch_d, g.out); !s) return s;
  return {};
}

// Refuses what `gemm` cannot do; device-independent.
inline Status gemm_check(const GemmArguments& g) {
  using detail::text;
  if (Status s = gemm_check_extents(g); !s) return s;
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};
  const bool reads_ab = g.k > 0 && g.alpha != 0, reads_c = g.beta != 0;
  if (Status s = reads_ab ? detail::check_pointer("A", g.a, g.type) : Status{}; !s) return s;
  if (Status s = reads_ab ? detail::check_pointer("B", g.b, g.type) : Status{}; !s) return s;
  if (Status s = reads_c ? detail::check_pointer("C", g.c, g.out) : Status{}; !s) return s;
  if (Status s = detail::check_pointer("D", g.d, g.out); !s) return s;
  if (g.batch > 1) {
    const int64_t step = g.batch_d < 0 ? -g.batch_d : g.batch_d;
    const bool apart = step >= (g.m - 1) * g.ldc + g.n, interleaved = step >= g.n && (g.batch - 1) * step + g.n <= g.ldc;
    if (!apart && !interleaved)
      return invalid("matrices of D may overlap: batch stride " + text(g.batch_d) + " with M=" + text(g.m) +
                     " N=" + text(g.n) + " ldc=" + text(g.ldc) + " is neither a whole matrix nor columns of one row");
  }
  const auto range = [&](const void* base, int64_t rows, int64_t row, int64_t ld, int64_t batch_stride, ElementType type) {
    detail::ByteRange bytes;
    (void)detail::byte_range(base, rows, row, ld, g.batch, batch_stride, element_bytes(type), bytes);
    return bytes;
  };
  const detail::ByteRange a = range(g.a, g.trans_a ? g.k : g.m, g.trans_a ? g.m : g.k, g.lda, g.batch_a, g.type);
  const detail::ByteRange b = range(g.b, g.trans_b ? g.n : g.k, g.trans_b ? g.k : g.n, g.ldb, g.batch_b, g.type);
  const detail::ByteRange c = range(g.c, g.m, g.n, g.ldc, g.batch_c, g.out);
  const detail::ByteRange d = range(g.d, g.m, g.n, g.ldc, g.batch_d, g.out);
  if (reads_ab && (d.overlaps(a) || d.overlaps(b)))
    return invalid(std::string("D overlaps ") + (d.overlaps(a) ? "A" : "B") +
                   ": it may overlap no operand but C, and C only as a whole");
  if (reads_c && d.overlaps(c) && !(g.c == g.d && (g.batch == 1 || g.batch_c == g.batch_d)))
    return invalid("D overlaps C without being C: pass the same pointer and batch stride, or separate memory");
  return {};
}

// Bytes of workspace with which `gemm` need not allocate: 0 unless misaligned operands are worth copying. Which are
// misaligned depends on their addresses: set those first.
inline size_t gemm_workspace_bytes(const GemmArguments& g) {
  if (!gemm_check_extents(g) || g.k == 0 || g.alpha == 0 || g.bounds == GemmBounds::none || !detail::gemm_repack_pays(g))
    return 0;
  return detail::gemm_repack_plan(g).bytes();
}

// Computes D on `stream`. Shapes, strides and their rules: GemmArguments. Complete when the stream is.
// Errors: invalid (bad arguments, one sentence with the values), unsupported (this device), device_error (launch).
// `choice`, if given, receives kernel, path and tile.
inline Status gemm(const GemmArguments& g, cudaStream_t stream, GemmChoice* choice = nullptr) {
  GemmChoice local;
  GemmChoice& chosen = choice != nullptr ? *choice : local;
  chosen = {};
  if (Status status = gemm_check(g); !status) return status;
  if (g.workspace != nullptr &&
      (g.workspace_bytes < gemm_workspace_bytes(g) || reinterpret_cast<uintptr_t>(g.workspace) % 16 != 0))
    return invalid("the workspace has " + std::to_string(g.workspace_bytes) +
                   " bytes: " + std::to_string(gemm_workspace_bytes(g)) + ", 16-byte aligned, are needed");
  DeviceInfo device;
  if (Status status = device_info(device); !status) return status;
  if (device.major < 8)
    return unsupported("gemm_mma needs compute capability 8.0 or later; this device has " + std::to_string(device.major) +
                       "." + std::to_string(device.minor));
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};  // nothing to compute, nothing to launch
  const int64_t k = g.alpha == 0 ? 0 : g.k;             // no product: A and B are not read
  return g.type == ElementType::bf16 ? detail::gemm_mma_launch<bf16>(g, k, device, stream, chosen)
                                     : detail::gemm_mma_launch<f16>(g, k, device, stream, chosen);
}

}  // namespace grout
