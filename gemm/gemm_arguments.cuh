// The GEMM's problem, what the host entry chose for it, and what no kernel takes.
#pragma once
#include <string>

#include "common/launch.cuh"
#include "common/numeric.cuh"
#include "gemm/gemm_tiles.cuh"

namespace grout {

enum class GemmBounds {
  automatic,  // by the dimensions
  checked,    // takes everything
  none,       // the aligned path, refused unless tiles are full and pitches aligned
};

enum class GemmKernel {
  automatic,  // by type and device
  mma,        // warp-level tensor cores; A and B bf16 or f16
  simt,       // fp32 multiply-adds; A and B f32
};

struct GemmArguments {
  int64_t m = 0, n = 0, k = 0;
  ElementType type = ElementType::bf16;  // of A and B; all accumulate in fp32
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
  GemmKernel kernel = GemmKernel::automatic;
  // Memory for copies of operands that are misaligned, or of type f32 and contiguous along k: at least gemm_workspace_bytes, 16-byte aligned, apart from all operands, free
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
  int64_t resident = 0;  // blocks that run at once; each walks tiles until none is left
  const char* reason = "";
};

constexpr const char* gemm_path_name(GemmPath path) {
  constexpr const char* kNames[] = {"aligned", "bounded", "realign", "repack"};
  return kNames[static_cast<int>(path)];
}

namespace detail {
inline int64_t gemm_tiles(const GemmArguments& g, int64_t tile_m, int64_t tile_n) {
  return (g.m + tile_m - 1) / tile_m * ((g.n + tile_n - 1) / tile_n) * g.batch;
}

// Refuses a choice that was forced and cannot be.
inline Status cannot_force(const GemmChoice& forced, const std::string& because) {
  return invalid(std::string("kernel ") + forced.kernel + ", path " + gemm_path_name(forced.path) + ", tile " +
                 std::to_string(forced.tile_m) + "x" + std::to_string(forced.tile_n) + "x" + std::to_string(forced.tile_k) +
                 " cannot be used as an earlier choice asks: " + because);
}
inline bool same_tile(const GemmChoice& choice, int tile_m, int tile_n, int tile_k) {
  return choice.tile_m == tile_m && choice.tile_n == tile_n && choice.tile_k == tile_k;
}

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
      last_batch == INT64_MIN ||  // it has no magnitude
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

inline bool vectors_aligned(const void* pointer, int64_t ld, int64_t batch, int64_t batch_stride, ElementType type) {
  const auto vector = static_cast<int64_t>(16 / element_bytes(type));
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0 && ld % vector == 0 && (batch == 1 || batch_stride % vector == 0);
}

}  // namespace detail

// Refuses extents, pitches and batches that `gemm` cannot do, whatever the addresses.
inline Status gemm_check_extents(const GemmArguments& g) {
  using detail::text;
  if (g.m < 0 || g.n < 0 || g.k < 0)
    return invalid("extents must be at least 0: M=" + text(g.m) + " N=" + text(g.n) + " K=" + text(g.k));
  if (g.batch < 0) return invalid("batch=" + text(g.batch) + " must be at least 0");
  if (g.kernel == GemmKernel::mma && g.type == ElementType::f32)
    return invalid("kernel mma multiplies bf16 and f16: A and B of type f32 need kernel simt");
  if (g.kernel == GemmKernel::simt && g.type != ElementType::f32)
    return invalid(std::string("kernel simt multiplies f32: A and B of type ") + element_name(g.type) + " need kernel mma");
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

}  // namespace grout
