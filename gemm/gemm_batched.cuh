// The base rung of the fp32 GEMM: one stage, copies by single elements in batches, multiply-adds in plain fp32.
//
// The lesson: what a GEMM is, with nothing in its way, and what it costs to wait. A block brings a tile of A and one of B to
// shared memory, all multiply, all meet, and the next tiles overwrite them: no copy runs beside the products. So the only
// latency that can be hidden is that of the copies among themselves, and that is what max_copy_batch does
// (common/batch.cuh). No alignment, vector or engine is asked for, so one path takes every pitch and base.
// The rungs after: gemm_simt.cuh and, on tensor cores, gemm_mma.cuh keep a ring of stages, so that copies run beside the
// products. Run it:  ./run gemm 65 97 73 --kernel batched --max-copy-batch 4
//
// CONTRACT
// shapes        D[M, N] = alpha * A[M, K] * B[K, N] + beta * C[M, N], A and B f32, any extents, batched; gemm_check.
// participants  256 threads, eight warps as 2 x 4. In the 64 x 64 x 32 tile a warp owns a patch of 32 x 16, and a lane 4 x 4
//               accumulators of it: lanes run over n first, 8 x 4. All copy, all multiply, all store.
// memory        one tile of A, B and C each: 8 + 8 + 16 KiB, exactly 32. A tile keeps the order of its operand in global
//               memory, so that copies read and write along it without bank conflicts: contiguous along m (n), where a lane
//               reads its four rows (columns) of one k in 16 bytes; or contiguous along k, where it reads four k of one row,
//               in chunks of 16 bytes that are swizzled by the lane's row. tests/host counts the conflicts of both: none.
// barriers      of the block: tiles complete -> products; products done -> next copies; C complete -> store; stored ->
//               next tile.
// completion    k-tile t:   copy A, B | barrier | products | barrier      k-tile t + 1:   copy A, B | ...
// rejects       see gemm_check, check_copy_batch; A and B other than f32.
// verified      simulated device, assembled for sm_80 to sm_121a, run on sm_90.
#pragma once
#include "common/batch.cuh"
#include "gemm/gemm_arguments.cuh"

namespace grout {

// A block's tile. A lane owns neighbouring rows and columns of its warp's patch. Pilot: kept to be compared with, never
// quoted.
template <int M, int N, int K, bool PilotT> struct GemmBatchedTile {
  static constexpr int m = M, n = N, k = K, warps_m = 2, warps_n = 4, threads = 32 * warps_m * warps_n;
  static constexpr int lanes_m = 8, lanes_n = 4, rows = m / warps_m / lanes_m, cols = n / warps_n / lanes_n;  // of a lane
  static constexpr bool pilot = PilotT;
  static constexpr int blocks_per_sm = 2;  // 128 registers a thread; the 80 that three would leave are a few too few
  static_assert(m == warps_m * lanes_m * rows && n == warps_n * lanes_n * cols, "GEMM tile: lanes must share it evenly");
  static_assert(rows == 2 || rows == 4, "GEMM tile: a lane's rows are read as one vector of 8 or 16 bytes");
  static_assert(cols == 4, "GEMM tile: a lane's columns are read and stored as one vector of 16 bytes");
  static_assert(k == 16 || k == 32, "GEMM tile: a row of K floats must be 64 or 128 bytes for the swizzle");

  static constexpr int row(int thread) { return thread / 32 / warps_n * (m / warps_m) + thread % 32 / lanes_n * rows; }
  static constexpr int col(int thread) { return thread / 32 % warps_n * (n / warps_n) + thread % lanes_n * cols; }
};
using GemmBatched64x64x32 = GemmBatchedTile<64, 64, 32, false>;
using GemmBatched64x64x16 = GemmBatchedTile<64, 64, 16, true>;
using GemmBatched32x64x32 = GemmBatchedTile<32, 64, 32, true>;

// The shared tile of an operand with Extent rows of m (or n), coordinates (m, k), of which a lane owns Rows neighbours, and
// how the lane reads them. KMajor: contiguous along k.
template <int Extent, int K, int Rows, bool KMajor> struct GemmBatchedOperand {
  static constexpr int chunk = 4;  // k that are read together
  // KMajor: chunks of 4 floats are XORed with the number of the group of Rows rows, so that the lanes of a phase, which read
  // the same k of rows that are Rows apart, meet eight different 16-byte columns of the 128-byte bank line.
  static constexpr int kRowBits = detail::log2_exact(K) + detail::log2_exact(Rows);
  using Layout =
      std::conditional_t<KMajor, decltype(compose(Swizzle<3, 2, kRowBits - 2>{}, row_major(shape(Int<Extent>{}, Int<K>{})))),
                         decltype(col_major(shape(Int<Extent>{}, Int<K>{})))>;
  using Tile = SharedTile<float, Layout>;

  // Where element (first + i, k) lies, `first` a lane's first row, from where (first, 0) lies: steps known at compile time.
  static constexpr int place(int lane_place, int i, int k) {
    if constexpr (!KMajor) return lane_place + k * Extent + i;
    else if constexpr (K < 32) return lane_place ^ (i * K + k);  // a chunk's bits reach into the row's
    else return (lane_place ^ k) + i * K;
  }
  static_assert(
      [] {
        for (int first = 0; first < Extent; first += Rows)
          for (int i = 0; i < Rows; ++i)
            for (int k = 0; k < K; k += KMajor ? chunk : 1)
              if (place(Layout{}(first, 0), i, k) != Layout{}(first + i, k)) return false;
        return true;
      }(),
      "GEMM tile: the swizzle must turn steps along k into an XOR");

  // x[i][j] = (first + i, k + j). `tile`: shared address of the tile; lane_place: Layout{}(first, 0).
  static GROUT_DEVICE void read(float (&x)[Rows][chunk], uint32_t tile, int lane_place, int k) {
    if constexpr (KMajor) {
#pragma unroll
      for (int i = 0; i < Rows; ++i) {
        uint32_t words[chunk];
        ptx::load_shared(words, tile + 4u * static_cast<uint32_t>(place(lane_place, i, k)));
#pragma unroll
        for (int j = 0; j < chunk; ++j) x[i][j] = std::bit_cast<float>(words[j]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < chunk; ++j) {
        uint32_t words[Rows];
        ptx::load_shared(words, tile + 4u * static_cast<uint32_t>(place(lane_place, 0, k + j)));
#pragma unroll
        for (int i = 0; i < Rows; ++i) x[i][j] = std::bit_cast<float>(words[i]);
      }
    }
  }
};

// TransA: A is stored K x M. TransB: B is stored N x K.
template <class Tile, bool TransA, bool TransB> struct GemmBatchedStorage {
  using A = GemmBatchedOperand<Tile::m, Tile::k, Tile::rows, !TransA>;
  using B = GemmBatchedOperand<Tile::n, Tile::k, Tile::cols, TransB>;
  // The results on their way out. A lane stores four neighbours; two lanes of a phase lie Tile::rows rows apart, and the
  // swizzle sends them to different halves of the bank line.
  using C = decltype(compose(Swizzle<1, 4, detail::log2_exact(Tile::n) + detail::log2_exact(Tile::rows) - 4>{},
                             row_major(shape(Int<Tile::m>{}, Int<Tile::n>{}))));
  alignas(256) typename A::Tile a;
  alignas(256) typename B::Tile b;
  SharedTile<float, C> c;
};
template <class Tile, bool TransA, bool TransB>
inline constexpr size_t gemm_batched_shared_bytes = sizeof(GemmBatchedStorage<Tile, TransA, TransB>);
static_assert(gemm_batched_shared_bytes<GemmBatched64x64x32, false, false> == 32 * 1024 &&
                  gemm_batched_shared_bytes<GemmBatched64x64x32, true, true> == 32 * 1024,
              "GEMM tile 64x64x32: A, B and C take exactly 32 KiB of shared memory");

// 64-bit strides in elements; those between matrices may be 0.
struct GemmBatchedParameters {
  const float *a, *b;
  const void* c;
  void* d;
  int64_t m, n, k, lda, ldb, ldc;
  int64_t batch, batch_a, batch_b, batch_c, batch_d;
  float alpha, beta;
  ElementType out;
  int64_t tiles_m, tiles_n, tiles;  // known here, they take no registers
};

template <class Tile, bool TransA, bool TransB, int MaxBatch, Bounds BoundsT> struct GemmBatchedPlans {
  using Storage = GemmBatchedStorage<Tile, TransA, TransB>;
  using A =
      BatchedCopyPlan<typename Storage::A::Tile, Tile::threads, MaxBatch, TransA ? 0 : 1, Plain, CopyWrite::assign, BoundsT>;
  using B =
      BatchedCopyPlan<typename Storage::B::Tile, Tile::threads, MaxBatch, TransB ? 1 : 0, Plain, CopyWrite::assign, BoundsT>;
};

// An operand's tiles along k, as (m or n, k). What is left of the operand, from the tile's first element on, fits 32 bits
// where it matters: up to the tile's end.
template <int Extent, int K, bool KMajor> struct GemmBatchedWalk {
  const float* first;
  int extent;
  static GROUT_HD int at_most(int64_t left, int most) { return left < most ? static_cast<int>(left) : most; }
  GROUT_DEVICE GemmBatchedWalk(const float* base, int64_t extent, int64_t from, int64_t ld)
      : first(base + from * (KMajor ? ld : 1)), extent(at_most(extent - from, Extent)) {}
  GROUT_DEVICE auto tile(int64_t k_left, int64_t ld) const {
    const int k = at_most(k_left, K);
    if constexpr (KMajor) return view(first, layout(shape(extent, k), stride(ld, 1_c)));
    else return view(first, layout(shape(extent, k), stride(1_c, ld)));
  }
  GROUT_DEVICE void advance(int64_t ld) { first += K * (KMajor ? 1 : ld); }
};

// D = alpha * sum + beta * C for the tile at (row, col); neighbours store neighbours. All threads of the block.
template <class Tile, Bounds BoundsT, class Layout, class To>
GROUT_DEVICE void gemm_batched_store(const SharedTile<float, Layout>& sums, const GemmBatchedParameters& p, To* d,
                                     const To* c, int64_t row, int64_t col, int thread) {
#pragma unroll 4
  for (int i = thread; i < Tile::m * Tile::n; i += Tile::threads) {
    const int64_t r = row + i / Tile::n, s = col + i % Tile::n;
    if (BoundsT != Bounds::none && (r >= p.m || s >= p.n)) continue;
    float value = p.alpha * sums.data[Layout{}(i / Tile::n, i % Tile::n)];
    if (p.beta != 0) value += p.beta * to_float(c[r * p.ldc + s]);  // else C is not read: it may be null, or hold NaN
    d[r * p.ldc + s] = from_float<To>(value);
  }
}

template <class Tile, bool TransA, bool TransB, int MaxBatch, Bounds BoundsT>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_sm) gemm_batched_kernel(const GemmBatchedParameters p) {
  using Plans = GemmBatchedPlans<Tile, TransA, TransB, MaxBatch, BoundsT>;
  using Storage = typename Plans::Storage;
  using A = typename Storage::A;
  using B = typename Storage::B;
  auto& shared = dynamic_shared<Storage>();
  const int thread = static_cast<int>(threadIdx.x), row = Tile::row(thread), col = Tile::col(thread);
  const int place_a = typename A::Layout{}(row, 0), place_b = typename B::Layout{}(col, 0);
  const uint32_t tile_a = ptx::shared_address(shared.a.data), tile_b = ptx::shared_address(shared.b.data);

#pragma unroll 1
  for (int64_t index = blockIdx.x; index < p.tiles; index += gridDim.x) {
    const GemmTileIndex at = gemm_tile_index(index, p.tiles_m, p.tiles_n);
    const int64_t first_m = int64_t{at.m} * Tile::m, first_n = int64_t{at.n} * Tile::n;
    GemmBatchedWalk<Tile::m, Tile::k, !TransA> walk_a(p.a + at.batch * p.batch_a, p.m, first_m, p.lda);
    GemmBatchedWalk<Tile::n, Tile::k, TransB> walk_b(p.b + at.batch * p.batch_b, p.n, first_n, p.ldb);
    float sum[Tile::rows][Tile::cols] = {};
#pragma unroll 1
    for (int64_t k_left = p.k; k_left > 0; k_left -= Tile::k) {
      // Not known to be the same in every k-tile: what follows from it is computed again, not kept in registers.
      const int worker = ptx::opaque(thread);
      copy_batched(typename Plans::A{}, shared.a, walk_a.tile(k_left, p.lda), {0, 0}, worker);
      copy_batched(typename Plans::B{}, shared.b, walk_b.tile(k_left, p.ldb), {0, 0}, worker);
      walk_a.advance(p.lda), walk_b.advance(p.ldb);
      __syncthreads();  // both tiles are complete and visible
      const int here_a = ptx::opaque(place_a), here_b = ptx::opaque(place_b);
#pragma unroll
      for (int k = 0; k < Tile::k; k += A::chunk) {
        float a[Tile::rows][A::chunk], b[Tile::cols][B::chunk];
        A::read(a, tile_a, here_a, k);
        B::read(b, tile_b, here_b, k);
#pragma unroll
        for (int j = 0; j < A::chunk; ++j)
#pragma unroll
          for (int r = 0; r < Tile::rows; ++r)
#pragma unroll
            for (int c = 0; c < Tile::cols; ++c) sum[r][c] += a[r][j] * b[c][j];
      }
      __syncthreads();  // all have read them: the next ones may overwrite them
    }

    const uint32_t tile_c = ptx::shared_address(shared.c.data);
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      uint32_t words[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) words[c] = std::bit_cast<uint32_t>(sum[r][c]);
      ptx::store_shared(tile_c + 4u * static_cast<uint32_t>(typename Storage::C{}(row + r, col)), words);
    }
    __syncthreads();  // all sums are there
    const auto write_out = [&]<class To>(To* d) {
      const To* c = p.beta == 0 ? nullptr : static_cast<const To*>(p.c) + at.batch * p.batch_c;
      gemm_batched_store<Tile, BoundsT>(shared.c, p, d + at.batch * p.batch_d, c, first_m, first_n, thread);
    };
    if (p.out == ElementType::bf16) write_out(static_cast<bf16*>(p.d));
    else if (p.out == ElementType::f16) write_out(static_cast<f16*>(p.d));
    else write_out(static_cast<float*>(p.d));
    __syncthreads();  // all have read them: the next tile's may overwrite them
  }
}

// ---- host -------------------------------------------------------------------------------------------------------

enum class GemmBatchedTiles { m64n64k32, m64n64k16, m32n64k32 };

struct GemmBatchedPolicy {
  GemmBatchedTiles tile = GemmBatchedTiles::m64n64k32;  // the others are pilots
  int max_copy_batch = 1;                               // 1 to 16; kernels exist for 1, 2, 4 and 8
};

struct GemmBatchedReport {
  GemmChoice choice;
  bool pilot = false;
  BatchReport a, b;  // the copies of A and of B
  int transformed() const { return a.transformed + b.transformed; }
};

namespace detail {
template <class Tile, bool TransA, bool TransB, int Batch>
Status gemm_batched_launch(const GemmArguments& g, const DeviceInfo& device, cudaStream_t stream,
                           const GemmBatchedPolicy& policy, GemmBatchedReport& report) {
  using Plans = GemmBatchedPlans<Tile, TransA, TransB, Batch, Bounds::checked>;
  report.pilot = Tile::pilot;
  report.a = report_compiled(Plans::A::report, Plans::A::operation, policy.max_copy_batch);
  report.b = report_compiled(Plans::B::report, Plans::B::operation, policy.max_copy_batch);
  const int64_t tiles = gemm_tiles(g, Tile::m, Tile::n), resident = int64_t{device.sms} * Tile::blocks_per_sm;
  if (tiles == 0) return {};
  const int64_t k = g.alpha == 0 ? 0 : g.k;  // no product: A and B are not read
  const bool full = !Tile::pilot && g.m % Tile::m == 0 && g.n % Tile::n == 0 && k % Tile::k == 0;
  const bool unchecked = full && g.bounds != GemmBounds::checked;
  if (g.bounds == GemmBounds::none && !unchecked)
    return invalid(Tile::pilot ? "bounds=false needs the tile 64x64x32: the pilots have no path without tests"
                               : "bounds=false needs full tiles: M=" + text(g.m) + " N=" + text(g.n) + " K=" + text(k) +
                                     " are not multiples of 64, 64 and 32; bounds=auto takes them");
  report.choice = {"batched",
                   unchecked ? GemmPath::aligned : GemmPath::bounded,
                   Tile::m,
                   Tile::n,
                   Tile::k,
                   Tile::threads,
                   sizeof(typename Plans::Storage),
                   tiles,
                   resident,
                   Tile::pilot ? "a pilot tile: to be compared with, not to be quoted"
                   : unchecked ? "full tiles; any pitch and base"
                               : "ragged extents or bounds=true; any pitch and base"};
  const GemmBatchedParameters p = {static_cast<const float*>(g.a),
                                   static_cast<const float*>(g.b),
                                   g.c,
                                   g.d,
                                   g.m,
                                   g.n,
                                   k,
                                   g.lda,
                                   g.ldb,
                                   g.ldc,
                                   g.batch,
                                   g.batch_a,
                                   g.batch_b,
                                   g.batch_c,
                                   g.batch_d,
                                   k == 0 ? 0.f : g.alpha,  // no product: 0, even of infinity
                                   g.beta,
                                   g.out,
                                   (g.m + Tile::m - 1) / Tile::m,
                                   (g.n + Tile::n - 1) / Tile::n,
                                   tiles};
  auto kernel = &gemm_batched_kernel<Tile, TransA, TransB, Batch, Bounds::checked>;
  if constexpr (!Tile::pilot)
    if (unchecked) kernel = &gemm_batched_kernel<Tile, TransA, TransB, Batch, Bounds::none>;
  return launch(kernel, dim3(static_cast<unsigned>(tiles < resident ? tiles : resident)), dim3(Tile::threads),
                sizeof(typename Plans::Storage), stream, p);
}

template <class Tile, bool TransA, bool TransB>
Status gemm_batched_launch(const GemmArguments& g, const DeviceInfo& device, cudaStream_t stream,
                           const GemmBatchedPolicy& policy, GemmBatchedReport& report) {
  const auto with = [&]<int Batch>() {
    return gemm_batched_launch<Tile, TransA, TransB, Batch>(g, device, stream, policy, report);
  };
  return policy.max_copy_batch >= 8   ? with.template operator()<8>()
         : policy.max_copy_batch >= 4 ? with.template operator()<4>()
         : policy.max_copy_batch >= 2 ? with.template operator()<2>()
                                      : with.template operator()<1>();
}
template <class Tile> Status gemm_batched_launch(const GemmArguments& g, const DeviceInfo& device, cudaStream_t stream,
                                                 const GemmBatchedPolicy& policy, GemmBatchedReport& report) {
  const auto with = [&]<bool TransA, bool TransB>() {
    return gemm_batched_launch<Tile, TransA, TransB>(g, device, stream, policy, report);
  };
  return g.trans_a ? (g.trans_b ? with.template operator()<true, true>() : with.template operator()<true, false>())
                   : (g.trans_b ? with.template operator()<false, true>() : with.template operator()<false, false>());
}
}  // namespace detail

// Computes D on `stream`: the contract of gemm(), for A and B of type f32. Tile and batch are the caller's; a batch between
// those for which there are kernels, or beyond the chunks of a tile, realises less. Complete when the stream is.
// Errors: invalid (bad arguments, one sentence with the values), unsupported (this device), device_error (launch).
// `report`, if given, receives what ran, and what became of the batch.
inline Status gemm_batched(const GemmArguments& g, const GemmBatchedPolicy& policy, cudaStream_t stream,
                           GemmBatchedReport* report = nullptr) {
  GemmBatchedReport local;
  GemmBatchedReport& done = report != nullptr ? *report : local;
  done = {};
  if (Status status = gemm_check(g); !status) return status;
  if (g.type != ElementType::f32)
    return invalid(std::string("gemm_batched multiplies f32: A and B of type ") + element_name(g.type) + " need kernel mma");
  if (Status status = check_copy_batch(policy.max_copy_batch); !status) return status;
  DeviceInfo device;
  if (Status status = device_info(device); !status) return status;
  if (device.major < 8)
    return unsupported("gemm_batched needs compute capability 8.0 or later; this device has " +
                       std::to_string(device.major) + "." + std::to_string(device.minor));
  switch (policy.tile) {
    case GemmBatchedTiles::m64n64k16:
      return detail::gemm_batched_launch<GemmBatched64x64x16>(g, device, stream, policy, done);
    case GemmBatchedTiles::m32n64k32:
      return detail::gemm_batched_launch<GemmBatched32x64x32>(g, device, stream, policy, done);
    default: return detail::gemm_batched_launch<GemmBatched64x64x32>(g, device, stream, policy, done);
  }
}

}  // namespace grout
