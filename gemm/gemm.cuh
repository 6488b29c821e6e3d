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
#include <string_view>

#include "common/repack.cuh"
#include "gemm/gemm_arguments.cuh"
#include "gemm/gemm_mma.cuh"
#include "gemm/gemm_simt.cuh"

namespace grout {

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

template <class T> std::span<const GemmMmaVariant<T>> gemm_mma_variants(bool trans_a, bool trans_b) {
  return trans_a ? (trans_b ? std::span(GemmVariants<T, true, true>::list) : std::span(GemmVariants<T, true, false>::list))
                 : (trans_b ? std::span(GemmVariants<T, false, true>::list)
                            : std::span(GemmVariants<T, false, false>::list));
}

// Which operands are copied before the kernel reads them, and how: their copies lie one behind the other. Operands of type
// f32 are copied unless they are aligned and contiguous along m or n, and their copies are; others if they are misaligned.
struct GemmRepack {
  bool a = false, b = false;
  RepackOperand operand_a = {}, operand_b = {};  // but for the copies' addresses
  size_t bytes_a = 0, bytes_b = 0;
  size_t bytes() const { return bytes_a + bytes_b; }
};
// Copies of f32 end with a whole tile, if that is not far: no copy in the kernel then needs a test.
inline constexpr int64_t kGemmSimtPadding = 128;

inline GemmRepack gemm_repack_plan(const GemmArguments& g) {
  const bool is_f32 = g.type == ElementType::f32;
  const auto element = static_cast<int64_t>(element_bytes(g.type));
  const auto round_up = [](int64_t value, int64_t to) { return (value + to - 1) / to * to; };
  // `turn`: a copy is stored in the other order. `extent`: m or n.
  const auto plan = [&](RepackOperand& o, size_t& bytes, const void* data, int64_t extent, bool by_extent, int64_t ld,
                        int64_t stride) {
    const bool turn = is_f32 && !by_extent;
    if (turn == false && vectors_aligned(data, ld, g.batch, stride, g.type)) return false;
    o.source = data;
    o.rows = by_extent || turn ? g.k : extent, o.cols = by_extent || turn ? extent : g.k;
    o.row_stride = turn ? 1 : ld, o.col_stride = turn ? ld : 1;
    o.ld = round_up(o.cols, 16 / element);
    const int64_t padded = round_up(o.cols, kGemmSimtPadding);
    if (is_f32 && padded - o.cols <= o.cols / 8) o.ld = padded;
    o.batch = stride == 0 ? 1 : g.batch;
    o.source_batch_stride = stride, o.copy_batch_stride = o.rows * o.ld;
    bytes = static_cast<size_t>(o.copy_batch_stride * o.batch * element);
    return true;
  };
  GemmRepack r;
  r.a = plan(r.operand_a, r.bytes_a, g.a, g.m, g.trans_a, g.lda, g.batch_a);
  r.b = plan(r.operand_b, r.bytes_b, g.b, g.n, !g.trans_b, g.ldb, g.batch_b);
  return r;
}
// Matrices that overlap one another may have copies longer than any memory, and than 64 bits count.
inline bool gemm_repack_fits(const GemmArguments& g) {
  return (static_cast<double>(g.m) + static_cast<double>(g.n) + 16) * (static_cast<double>(g.k) + 8) *
             static_cast<double>(g.batch) <
         0x1p50;
}
// Copies of 16-bit operands pay once the products, or the k-tiles that a block realigns one after the other, outweigh two
// more passes over the operands and a launch each. Those of f32 operands, which the kernel reads in any case, pay once they
// cost fewer products than the copies in the kernel, that get in the way of its loads (gemm/NOTES.md).
inline bool gemm_repack_pays(const GemmArguments& g) {
  const auto m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k),
             batch = static_cast<double>(g.batch);
  if (!gemm_repack_fits(g)) return false;
  const double products = m * n * k * batch;
  if (g.type != ElementType::f32) return products >= 0x1p25 || k >= 512;
  const GemmRepack r = gemm_repack_plan(g);
  const auto gain = [&](bool copied, bool by_extent, const void* data, int64_t ld, int64_t stride) {
    if (!copied) return 0.0;
    const bool aligned = vectors_aligned(data, ld, g.batch, stride, g.type);
    return by_extent ? 0.12 : aligned ? 0.07 : 0.14;
  };
  const double both = gain(r.a, g.trans_a, g.a, g.lda, g.batch_a) + gain(r.b, !g.trans_b, g.b, g.ldb, g.batch_b);
  return products * both > static_cast<double>(r.bytes() / sizeof(float)) * 80 + 0x1p25;
}

// The problem with its copied operands in `workspace`, and what copies them there.
inline GemmArguments gemm_packed(const GemmArguments& g, const GemmRepack& r, void* workspace, RepackOperand (&operands)[2],
                                 size_t& count) {
  GemmArguments packed = g;
  auto* to = static_cast<unsigned char*>(workspace);
  count = 0;
  const auto copy = [&](const RepackOperand& o, size_t bytes, const void*& data, int64_t& ld, int64_t& stride) {
    operands[count] = o, operands[count].copy = to, ++count;
    data = to, ld = o.ld, stride = stride == 0 ? 0 : o.copy_batch_stride;
    to += bytes;
  };
  if (r.a) copy(r.operand_a, r.bytes_a, packed.a, packed.lda, packed.batch_a);
  if (r.b) copy(r.operand_b, r.bytes_b, packed.b, packed.ldb, packed.batch_b);
  if (g.type == ElementType::f32) packed.trans_a = packed.trans_a || r.a, packed.trans_b = packed.trans_b && !r.b;
  return packed;
}
// run(workspace) with the caller's memory for `bytes`, or with memory of its own; `none`: there was none, and nothing was
// run.
template <class Run>
Status gemm_with_workspace(const GemmArguments& g, size_t bytes, cudaStream_t stream, bool& none, Run run) {
  none = false;
  if (g.workspace != nullptr) return run(g.workspace);
  void* workspace = nullptr;
  if (cudaMallocAsync(&workspace, bytes, stream) != cudaSuccess) {
    (void)cudaGetLastError();
    none = true;
    return {};
  }
  const Status done = run(workspace);
  const Status freed = runtime_status(cudaFreeAsync(workspace, stream), "cudaFreeAsync");
  return done ? freed : done;
}

inline bool gemm_operands_aligned(const GemmArguments& g, int64_t k) {
  return k == 0 ||
         (vectors_aligned(g.a, g.lda, g.batch, g.batch_a, g.type) &&
          vectors_aligned(g.b, g.ldb, g.batch, g.batch_b, g.type));
}

// The variant that takes least time by a simple model, or the forced one; else a refusal.
template <class T>
Status gemm_mma_choose(const GemmArguments& g, int64_t k, const DeviceInfo& device, const GemmChoice* forced,
                       const GemmMmaVariant<T>*& best) {
  const bool aligned_operands = gemm_operands_aligned(g, k);
  const bool aligned_out = vectors_aligned(g.d, g.ldc, g.batch, g.batch_d, g.out);
  best = nullptr;
  double best_time = 0;
  for (const GemmMmaVariant<T>& v : gemm_mma_variants<T>(g.trans_a, g.trans_b)) {
    const bool full_tiles = g.m % v.tile_m == 0 && g.n % v.tile_n == 0 && k % v.tile_k == 0;
    const bool aligned = full_tiles && aligned_operands && aligned_out && g.bounds != GemmBounds::checked;
    const GemmPath wanted = !aligned_operands ? GemmPath::realign : aligned ? GemmPath::aligned : GemmPath::bounded;
    if (forced != nullptr) {
      // Operands that were copied first are aligned. Full tiles may be forced to the bounded path.
      const bool same_path = forced->path == GemmPath::repack || forced->path == v.path;
      const bool possible = v.path == wanted || (forced->path == GemmPath::bounded && wanted == GemmPath::aligned);
      if (!same_tile(*forced, v.tile_m, v.tile_n, v.tile_k) || !same_path || !possible) continue;
    } else if (v.path != wanted) {
      continue;
    }
    if (v.shared_bytes > device.shared_per_block) continue;
    if (g.bounds == GemmBounds::none && v.path != GemmPath::aligned) continue;
    const int64_t tiles = gemm_tiles(g, v.tile_m, v.tile_n);
    const int64_t most = (tiles + device.sms - 1) / device.sms;  // tiles of the busiest multiprocessor
    const double time = static_cast<double>(most) * v.tile_m * v.tile_n / v.rate;
    if (best == nullptr || time < best_time) best = &v, best_time = time;
  }
  if (best != nullptr) return {};
  if (forced != nullptr)
    return cannot_force(*forced, "alignment, extents, bounds or the device need another path, or there is no such tile");
  if (g.bounds != GemmBounds::none)
    return unsupported("no GEMM tile fits the " + text(static_cast<int64_t>(device.shared_per_block)) +
                       " bytes of shared memory that a block of this device may use");
  if (!aligned_operands || !aligned_out)
    return invalid("bounds=false needs 16-byte aligned operands and pitches: lda=" + text(g.lda) + " ldb=" + text(g.ldb) +
                   " ldc=" + text(g.ldc) + " or a base address is not a multiple of 16 bytes; bounds=auto takes them");
  return invalid("bounds=false needs full tiles: M=" + text(g.m) + " N=" + text(g.n) + " K=" + text(k) +
                 " are not multiples of 64, 64 and 32, the smallest tile; bounds=auto takes them");
}

template <class T>
Status gemm_mma_launch_variant(const GemmMmaVariant<T>& v, const GemmArguments& g, int64_t k, const DeviceInfo& device,
                               cudaStream_t stream, GemmChoice& choice) {
  const int64_t tiles = gemm_tiles(g, v.tile_m, v.tile_n), resident = int64_t{device.sms} * v.blocks_per_sm;
  choice = {"mma", v.path, v.tile_m, v.tile_n, v.tile_k, v.threads, v.shared_bytes, tiles, resident,
            v.path == GemmPath::aligned   ? "full tiles, 16-byte aligned pitches"
            : v.path == GemmPath::bounded ? "ragged extents or bounds=true, 16-byte aligned A and B"
                                          : "A or B has a base or pitch that is not a multiple of 16 bytes"};
  const GemmMmaParameters<T> parameters = {
      static_cast<const T*>(g.a), static_cast<const T*>(g.b), g.c, g.d, g.m, g.n, k, g.lda, g.ldb, g.ldc,
      g.batch, g.batch_a, g.batch_b, g.batch_c, g.batch_d,
      k == 0 ? 0.f : g.alpha,  // no product: 0, even of infinity
      g.beta, g.out};
  return launch(v.kernel, dim3(static_cast<unsigned>(tiles < resident ? tiles : resident)),
                dim3(static_cast<unsigned>(v.threads)), v.shared_bytes, stream, parameters);
}

// Copies misaligned operands to `workspace` and runs the kernel on the copies.
template <class T>
Status gemm_mma_repacked(const GemmArguments& g, const GemmRepack& r, void* workspace, const DeviceInfo& device,
                         cudaStream_t stream, GemmChoice& choice, const GemmChoice* forced) {
  RepackOperand operands[2];
  size_t count;
  const GemmArguments packed = gemm_packed(g, r, workspace, operands, count);
  const GemmMmaVariant<T>* variant = nullptr;
  if (Status s = gemm_mma_choose<T>(packed, g.k, device, forced, variant); !s) return s;
  if (Status s = repack({operands, count}, g.type, stream); !s) return s;
  if (Status s = gemm_mma_launch_variant<T>(*variant, packed, g.k, device, stream, choice); !s) return s;
  choice.path = GemmPath::repack;
  choice.reason = "A or B has a base or pitch that is not a multiple of 16 bytes, and is copied first";
  return {};
}

template <class T>
Status gemm_mma_launch(const GemmArguments& g, int64_t k, const DeviceInfo& device, cudaStream_t stream,
                       GemmChoice& choice, const GemmChoice* forced) {
  const bool can_repack = !gemm_operands_aligned(g, k) && g.bounds != GemmBounds::none && gemm_repack_fits(g);
  const bool force_repack = forced != nullptr && forced->path == GemmPath::repack;
  if (force_repack && !can_repack) return cannot_force(*forced, "A and B are aligned, or too large, or bounds=false");
  if (can_repack && (forced != nullptr ? force_repack : gemm_repack_pays(g))) {
    const GemmRepack r = gemm_repack_plan(g);
    bool none;
    const Status done = gemm_with_workspace(g, r.bytes(), stream, none, [&](void* workspace) {
      return gemm_mma_repacked<T>(g, r, workspace, device, stream, choice, forced);
    });
    if (!none) return done;  // else realign in the kernel
    if (force_repack) return cannot_force(*forced, "there is no device memory for copies of A and B");
  }
  const GemmMmaVariant<T>* variant = nullptr;
  if (Status s = gemm_mma_choose<T>(g, k, device, forced, variant); !s) return s;
  return gemm_mma_launch_variant<T>(*variant, g, k, device, stream, choice);
}

// ---- the simt kernel ----

// Sums fill the registers of the large tiles; the small ones are for small problems, whose k steps are dealt to all warps.
using GemmSimtTile128x128 = GemmSimtTile<2, 2, 1, 4, 2, 16, 4, 2>;
using GemmSimtTile128x64 = GemmSimtTile<2, 1, 4, 4, 2, 32, 3, 1>;
using GemmSimtTile64x128 = GemmSimtTile<1, 2, 4, 4, 2, 32, 3, 1>;
using GemmSimtTile64x64 = GemmSimtTile<1, 1, 4, 4, 2, 32, 3, 2>;
using GemmSimtTile48x32 = GemmSimtTile<1, 1, 8, 3, 1, 144, 3, 1>;  // all of a short K in one k-tile: one wait, one barrier
using GemmSimtTile32x32 = GemmSimtTile<1, 1, 8, 2, 1, 32, 4, 2>;
using GemmSimtTile16x32 = GemmSimtTile<1, 1, 4, 1, 1, 32, 6, 4>;

template <class Tile, bool TransA, bool TransB> GemmSimtVariant gemm_simt_variant(double rate) {
  constexpr bool kVectors = TransA || !TransB;  // else both are contiguous along k
  return {TransA, TransB, Tile::m, Tile::n, Tile::k, Tile::threads,
          sizeof(GemmSimtStorage<Tile, TransA, TransB, false>), rate, Tile::blocks,
          &gemm_simt_kernel<Tile, TransA, TransB, false>, &gemm_simt_kernel<Tile, TransA, TransB, kVectors>};
}
template <bool TransA, bool TransB> struct GemmSimtVariants {
  static inline const std::array<GemmSimtVariant, 7> list = {{
      gemm_simt_variant<GemmSimtTile128x128, TransA, TransB>(1.0),
      gemm_simt_variant<GemmSimtTile128x64, TransA, TransB>(0.94),
      gemm_simt_variant<GemmSimtTile64x128, TransA, TransB>(0.95),
      gemm_simt_variant<GemmSimtTile64x64, TransA, TransB>(0.88),
      gemm_simt_variant<GemmSimtTile48x32, TransA, TransB>(0.65),
      gemm_simt_variant<GemmSimtTile32x32, TransA, TransB>(0.6),
      gemm_simt_variant<GemmSimtTile16x32, TransA, TransB>(0.4),
  }};
};
// A template, so that its kernels can be compiled elsewhere.
template <bool TransA> std::span<const GemmSimtVariant> gemm_simt_variants(bool trans_b) {
  return trans_b ? std::span(GemmSimtVariants<TransA, true>::list) : std::span(GemmSimtVariants<TransA, false>::list);
}
inline std::span<const GemmSimtVariant> gemm_simt_variants(bool trans_a, bool trans_b) {
  return trans_a ? gemm_simt_variants<true>(trans_b) : gemm_simt_variants<false>(trans_b);
}

inline GemmPath gemm_simt_path(const GemmArguments& g, int64_t k, const GemmSimtVariant& v) {
  const bool full_tiles = g.m % v.tile_m == 0 && g.n % v.tile_n == 0 && k % v.tile_k == 0;
  return full_tiles && g.bounds != GemmBounds::checked ? GemmPath::aligned : GemmPath::bounded;
}
// The variant that takes least time by a simple model, or the forced one; else a refusal.
inline Status gemm_simt_choose(const GemmArguments& g, int64_t k, const DeviceInfo& device, const GemmChoice* forced,
                               const GemmSimtVariant*& best) {
  best = nullptr;
  double best_time = 0;
  for (const GemmSimtVariant& v : gemm_simt_variants(g.trans_a, g.trans_b)) {
    if (v.shared_bytes > device.shared_per_block) continue;
    if (k / v.tile_k > int64_t{1} << 30) continue;  // the kernel counts k-tiles in 32 bits
    const GemmPath path = gemm_simt_path(g, k, v);
    if (g.bounds == GemmBounds::none && path != GemmPath::aligned) continue;
    // Full tiles may be forced to the bounded path.
    if (forced != nullptr &&
        (!same_tile(*forced, v.tile_m, v.tile_n, v.tile_k) ||
         (forced->path != GemmPath::repack && forced->path != path &&
          (forced->path != GemmPath::bounded || g.bounds == GemmBounds::none))))
      continue;
    // Of the busiest multiprocessor: the products of its tiles, and what tiles that run at once take beside them, counted
    // in products.
    const int64_t most = (gemm_tiles(g, v.tile_m, v.tile_n) + device.sms - 1) / device.sms;
    const int64_t turns = (most + v.blocks_per_sm - 1) / v.blocks_per_sm;
    const auto steps = static_cast<double>((k + v.tile_k - 1) / v.tile_k * v.tile_k);
    const double products = static_cast<double>(v.tile_m) * v.tile_n * steps;
    const double time = static_cast<double>(most) * products / v.rate + static_cast<double>(turns) * 0x1p18;
    if (best == nullptr || time < best_time) best = &v, best_time = time;
  }
  if (best != nullptr) return {};
  if (forced != nullptr)
    return cannot_force(*forced, "extents, bounds or the device need another path, or there is no such tile");
  if (g.bounds != GemmBounds::none)
    return unsupported("no GEMM tile fits the " + text(static_cast<int64_t>(device.shared_per_block)) +
                       " bytes of shared memory that a block of this device may use");
  return invalid("bounds=false needs full tiles: M=" + text(g.m) + " N=" + text(g.n) + " K=" + text(k) +
                 " are not multiples of 32, 32 and 32, the smallest tile; bounds=auto takes them");
}

// `packed`: operands that were copied first, with the padding of their copies; else null.
inline Status gemm_simt_launch_variant(const GemmSimtVariant& v, const GemmArguments& g, int64_t k, const GemmRepack* packed,
                                       GemmPath path, const DeviceInfo& device, cudaStream_t stream, GemmChoice& choice) {
  const GemmTileOrder order(g.m, g.n, g.batch, v.tile_m, v.tile_n);
  const int64_t resident = int64_t{device.sms} * v.blocks_per_sm;
  choice = {"simt", path, v.tile_m, v.tile_n, v.tile_k, v.threads, v.shared_bytes, order.tiles, resident,
            path == GemmPath::aligned   ? "full tiles; fp32 needs no alignment"
            : path == GemmPath::bounded ? "ragged extents or bounds=true; fp32 needs no alignment"
                                        : "A or B is contiguous along k or misaligned, and is copied first"};
  const bool vectors = k > 0 && (!g.trans_a || vectors_aligned(g.a, g.lda, g.batch, g.batch_a, g.type)) &&
                       (g.trans_b || vectors_aligned(g.b, g.ldb, g.batch, g.batch_b, g.type));
  const bool tested = path == GemmPath::bounded && gemm_simt_path(g, k, v) == GemmPath::aligned;
  const GemmSimtParameters parameters = {
      static_cast<const float*>(g.a), static_cast<const float*>(g.b), g.c, g.d, g.m, g.n, k, g.lda, g.ldb, g.ldc,
      packed != nullptr && packed->a ? g.lda : g.m, packed != nullptr && packed->b ? g.ldb : g.n,
      g.batch_a, g.batch_b, g.batch_c, g.batch_d,
      k == 0 ? 0.f : g.alpha,  // no product: 0, even of infinity
      g.beta, g.out, tested, order};
  // Blocks that start beside those of the kernel ahead take whatever room is left. That must not give some multiprocessors
  // more blocks than others: there is room for all, or for one on each, or all room is taken in any case. Behind its own
  // copies the kernel starts when they are done: its blocks would take their room.
  const bool evenly = 2 * order.tiles <= device.sms || v.blocks_per_sm == 1 || order.tiles >= resident;
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(order.tiles < resident ? order.tiles : resident)),
                             .block = dim3(static_cast<unsigned>(v.threads)),
                             .shared_bytes = v.shared_bytes,
                             .programmatic = (device.major >= 9 || kSimulatedBuild) && packed == nullptr && evenly};
  return launch(vectors ? v.vectors_kernel : v.kernel, shape, stream, parameters);
}

inline Status gemm_simt_launch(const GemmArguments& g, int64_t k, const DeviceInfo& device, cudaStream_t stream,
                               GemmChoice& choice, const GemmChoice* forced) {
  const bool force_repack = forced != nullptr && forced->path == GemmPath::repack;
  const bool can_repack = k > 0 && g.bounds != GemmBounds::none && gemm_repack_fits(g) && gemm_repack_plan(g).bytes() > 0;
  if (force_repack && !can_repack)
    return cannot_force(*forced, "A and B are aligned and contiguous along M and N, or too large, or bounds=false");
  if (can_repack && (forced != nullptr ? force_repack : gemm_repack_pays(g))) {
    const GemmRepack r = gemm_repack_plan(g);
    bool none;
    const Status done = gemm_with_workspace(g, r.bytes(), stream, none, [&](void* workspace) -> Status {
      RepackOperand operands[2];
      size_t count;
      const GemmArguments packed = gemm_packed(g, r, workspace, operands, count);
      const GemmSimtVariant* variant = nullptr;
      if (Status s = gemm_simt_choose(packed, k, device, forced, variant); !s) return s;
      if (Status s = repack({operands, count}, g.type, stream); !s) return s;
      return gemm_simt_launch_variant(*variant, packed, k, &r, GemmPath::repack, device, stream, choice);
    });
    if (!none) return done;  // else the kernel reads the operands as they are
    if (force_repack) return cannot_force(*forced, "there is no device memory for copies of A and B");
  }
  const GemmSimtVariant* variant = nullptr;
  if (Status s = gemm_simt_choose(g, k, device, forced, variant); !s) return s;
  const GemmPath path = forced != nullptr ? forced->path : gemm_simt_path(g, k, *variant);
  return gemm_simt_launch_variant(*variant, g, k, nullptr, path, device, stream, choice);
}
}  // namespace detail

// Bytes of workspace with which `gemm` need not allocate: 0 unless misaligned operands are worth copying. Which are
// misaligned depends on their addresses: set those first.
inline size_t gemm_workspace_bytes(const GemmArguments& g) {
  const bool nothing = g.m == 0 || g.n == 0 || g.batch == 0 || g.k == 0 || g.alpha == 0;
  if (!gemm_check_extents(g) || nothing || g.bounds == GemmBounds::none || !detail::gemm_repack_pays(g)) return 0;
  return detail::gemm_repack_plan(g).bytes();
}

// Computes D on `stream`. Shapes, strides and their rules: GemmArguments. Complete when the stream is.
// Errors: invalid (bad arguments, one sentence with the values), unsupported (this device), device_error (launch).
// `choice`, if given, receives kernel, path and tile. `forced`, if given, is what an earlier call chose: the same kernel,
// path and tile are used again, not chosen afresh, or refused where they cannot be.
inline Status gemm(const GemmArguments& g, cudaStream_t stream, GemmChoice* choice = nullptr,
                   const GemmChoice* forced = nullptr) {
  const GemmChoice again = forced != nullptr ? *forced : GemmChoice{};  // `choice` may be the same object
  if (forced != nullptr) forced = &again;
  GemmChoice local;
  GemmChoice& chosen = choice != nullptr ? *choice : local;
  chosen = {};
  if (Status status = gemm_check(g); !status) return status;
  const bool force_repack = forced != nullptr && forced->path == GemmPath::repack && detail::gemm_repack_fits(g);
  const size_t workspace = force_repack ? detail::gemm_repack_plan(g).bytes() : forced ? 0 : gemm_workspace_bytes(g);
  if (g.workspace != nullptr && (g.workspace_bytes < workspace || reinterpret_cast<uintptr_t>(g.workspace) % 16 != 0))
    return invalid("the workspace has " + std::to_string(g.workspace_bytes) + " bytes: " + std::to_string(workspace) +
                   ", 16-byte aligned, are needed");
  DeviceInfo device;
  if (Status status = device_info(device); !status) return status;
  if (device.major < 8)
    return unsupported("gemm needs compute capability 8.0 or later; this device has " + std::to_string(device.major) + "." +
                       std::to_string(device.minor));
  const bool nothing = g.m == 0 || g.n == 0 || g.batch == 0;
  const char* kernel = nothing ? "none" : g.type == ElementType::f32 ? "simt" : "mma";
  if (forced != nullptr && std::string_view(forced->kernel) != kernel)
    return detail::cannot_force(*forced, std::string("A and B of type ") + element_name(g.type) +
                                             (nothing ? " have nothing to compute" : std::string(" need kernel ") + kernel));
  if (nothing) return {};  // and nothing to launch
  const int64_t k = g.alpha == 0 ? 0 : g.k;  // no product: A and B are not read
  if (g.type == ElementType::f32) return detail::gemm_simt_launch(g, k, device, stream, chosen, forced);
  return g.type == ElementType::bf16 ? detail::gemm_mma_launch<bf16>(g, k, device, stream, chosen, forced)
                                     : detail::gemm_mma_launch<f16>(g, k, device, stream, chosen, forced);
}

}  // namespace grout
