// Bounded GEMM of fp32 operands on ordinary multiply-adds, without TF32: sm_80 and later.
//
// The lesson: what feeds the multiply-adds is shared memory, and what fills shared memory needs no alignment. A thread
// holds some rows times some columns of sums, and in every k step reads as many operands as it has rows and columns;
// 16 x 8 sums are as many as fit in the registers, and need three quarters of the bandwidth of shared memory. Operands come
// element by element, 4 bytes each, to which every fp32 element is aligned: odd pitches, odd bases and both orders of the
// operands run at nearly the same speed. Run it:  ./run gemm 65 97 73 --type f32 --kernel simt
//
// CONTRACT
// shapes        D[M, N] = alpha * A[M, K] * B[K, N] + beta * C[M, N], any extents, batched; checked by gemm_arguments.cuh.
// participants  WarpsM x WarpsN warps share a tile of D, and Slices such groups share its k steps: group s takes
//               every Slices-th step of each k-tile, from step s on. All copy, all multiply. Sums of the groups are added
//               in the order of the groups, so that results repeat bit for bit.
// memory        a ring of Stages stages, each one tile of A, [TileK][TileM + 4], and one of B, [TileK][TileN + 4]. A
//               warp's lanes form a grid of 4 x 8; one 16-byte load gives a lane 4 neighbours of its rows or columns,
//               and all lanes of a warp 16 neighbouring rows or 32 neighbouring columns: no conflicts.
//               The sums leave through the same memory, when the ring is empty.
// completion    as in gemm_mma.cuh: copies of k-tile t + Stages - 1 go to the stage that k-tile t - 1 left.
//
//     k-tile t:   multiply .................. multiply | wait, barrier | first operands of t + 1
//                 copies of t + Stages - 1 ->            ^ k-tile t + 1 is complete and visible;
//                 (stage of t - 1)                         all warps have left the stage of k-tile t
//
// rejects       nothing: what it cannot do is refused by the host entry, gemm.cuh.
// verified      simulated device, assembled for sm_80 to sm_121a, run on sm_90.
#pragma once
#include <array>
#include <span>
#include <string>

#include "common/element_walk.cuh"
#include "common/ptx_sm90.cuh"
#include "gemm/gemm_arguments.cuh"
#include "gemm/gemm_store.cuh"
#include "gemm/gemm_tiles.cuh"

namespace grout {

// What the kernel reads; 64-bit strides in elements.
struct GemmSimtParameters {
  const float *a, *b;
  const void* c;
  void* d;
  int64_t m, n, k, lda, ldb, ldc;
  int64_t readable_m, readable_n;              // of A and of B: m, n and the padding that may be read
  int64_t batch_a, batch_b, batch_c, batch_d;  // strides between matrices; 0 repeats one
  float alpha, beta;
  ElementType out;
  bool tested;  // treat tiles that lie inside as if they stuck out
  GemmTileOrder order;
};

// A tile in one layout.
struct GemmSimtVariant {
  bool trans_a, trans_b;
  int tile_m, tile_n, tile_k, threads;
  size_t shared_bytes;
  double rate;  // products a multiprocessor does in a given time, relative to the fastest tile (gemm/NOTES.md)
  int blocks_per_sm;
  void (*kernel)(GemmSimtParameters);          // takes any alignment
  void (*vectors_kernel)(GemmSimtParameters);  // faster where an operand is contiguous along m or n and aligned to 16 bytes
};

// Compile-time shape of a block's work. A warp's patch is 16 VectorsM x 32 VectorsN. Blocks of them run at once on a
// multiprocessor.
template <int WarpsM, int WarpsN, int SlicesT, int VectorsM, int VectorsN, int K, int StagesT, int BlocksT>
struct GemmSimtTile {
  static constexpr int warps_m = WarpsM, warps_n = WarpsN, slices = SlicesT, stages = StagesT, blocks = BlocksT;
  static constexpr int vectors_m = VectorsM, vectors_n = VectorsN;  // of 4 rows, 4 columns; of a thread
  static constexpr int thread_m = 4 * vectors_m, thread_n = 4 * vectors_n;
  static constexpr int patch_m = 16 * vectors_m, patch_n = 32 * vectors_n;
  static constexpr int m = warps_m * patch_m, n = warps_n * patch_n, k = K, steps = k / slices;
  static constexpr int warps = warps_m * warps_n * slices, threads = 32 * warps;
  static_assert(k % slices == 0 && steps % 2 == 0, "SIMT tile: each slice must take an even number of steps of a k-tile");
  static_assert(stages >= 2, "SIMT tile: one stage is read while another one is filled");
};

template <class Tile, bool TransA, bool TransB, bool Vectors> struct GemmSimtStorage {
  using WalkA = ElementWalk<Tile::m, Tile::k, Tile::threads, !TransA, TransA && Vectors ? 4 : 1>;
  using WalkB = ElementWalk<Tile::n, Tile::k, Tile::threads, TransB, !TransB && Vectors ? 4 : 1>;
  struct Stage {
    alignas(16) float a[WalkA::elements];
    alignas(16) float b[WalkB::elements];
  };
  Stage stage[Tile::stages];

  // When the ring is empty, it holds strips of sums: `strip_vectors` times 16 rows of each warp's patch.
  static constexpr int strip_bytes = 16 * Tile::patch_n * Tile::warps * static_cast<int>(sizeof(float));
  static constexpr int strip_vectors = [] {
    int vectors = Tile::slices == 1 ? 1 : Tile::vectors_m;
    while (vectors * strip_bytes > static_cast<int>(sizeof(stage)) || Tile::vectors_m % vectors != 0) --vectors;
    return vectors;
  }();
  static constexpr int strip_rows = 16 * strip_vectors, strip_elements = strip_rows * Tile::patch_n;
  static_assert(strip_rows % Tile::slices == 0, "SIMT tile: the slices must share the rows of a strip");
  GROUT_DEVICE float* strips() { return reinterpret_cast<float*>(stage); }
};

// TransA: A is stored K x M. TransB: B is stored N x K. (Row-major both; "nn" has A contiguous along k, B along n.)
// Vectors: an operand that is contiguous along m or n has a base and pitches that are multiples of 16 bytes.
template <class Tile, bool TransA, bool TransB, bool Vectors>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks) gemm_simt_kernel(const GemmSimtParameters p) {
  using Storage = GemmSimtStorage<Tile, TransA, TransB, Vectors>;
  using WalkA = typename Storage::WalkA;
  using WalkB = typename Storage::WalkB;
  ptx::griddepcontrol_launch_dependents();  // a kernel behind this one may start; it waits for the results itself
  constexpr int kStages = Tile::stages, kSteps = Tile::steps, kThreadM = Tile::thread_m, kThreadN = Tile::thread_n;
  auto& shared = dynamic_shared<Storage>();
  const auto thread = static_cast<int>(threadIdx.x), lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);  // unsigned: shifts and masks
  const int patch = warp % (Tile::warps_m * Tile::warps_n),
            slice = Tile::slices == 1 ? 0 : warp / (Tile::warps_m * Tile::warps_n);
  const int patch_m = patch / Tile::warps_n * Tile::patch_m, patch_n = patch % Tile::warps_n * Tile::patch_n;
  const auto lane_m = static_cast<int>(threadIdx.x % 32 / 8 * 4),
             lane_n = static_cast<int>(threadIdx.x % 8 * 4);  // the lane's place in 16 rows and in 32 columns

  const int tiles_k = static_cast<int>((p.k + Tile::k - 1) / Tile::k);  // fits: gemm_arguments.cuh

  for (int64_t index = blockIdx.x; index < p.order.tiles; index += gridDim.x) {
    const GemmTileIndex tile = p.order.at(index);
    const Origin origin = {int64_t{tile.m} * Tile::m, int64_t{tile.n} * Tile::n};
    WalkA walk_a(p.a + tile.batch * p.batch_a, p.lda, origin.row, p.readable_m, thread);
    WalkB walk_b(p.b + tile.batch * p.batch_b, p.ldb, origin.col, p.readable_n, thread);
    const bool inside = walk_a.is_inside() && walk_b.is_inside() && !p.tested;

    const int whole = inside ? static_cast<int>(p.k / Tile::k) : 0;  // k-tiles whose copies need no test
    // Copies of k-tile t where the tile of D, or the k-tile, may stick out.
    const auto copy_tested = [&](int t, int stage) {
      auto& to = shared.stage[stage];
      const int64_t left = p.k - int64_t{t} * Tile::k;
      if (left >= Tile::k) {
        walk_a.template copy<ElementEdge::sides>(to.a, left), walk_b.template copy<ElementEdge::sides>(to.b, left);
      } else {
        walk_a.template copy<ElementEdge::zeros>(to.a, left), walk_b.template copy<ElementEdge::zeros>(to.b, left);
      }
    };
    ptx::griddepcontrol_wait();  // the operands may come from the kernel ahead; D may be what it reads
#pragma unroll 1
    for (int t = 0; t < kStages - 1; ++t) {
      if (t < whole) {
        walk_a.template copy<ElementEdge::inside>(shared.stage[t].a, Tile::k);
        walk_b.template copy<ElementEdge::inside>(shared.stage[t].b, Tile::k);
      } else if (t < tiles_k) {
        copy_tested(t, t);
      }
      commit_copies(), walk_a.advance(), walk_b.advance();
    }

    const int64_t rows_left = p.m - origin.row - patch_m;
    const int rows =
        rows_left < Tile::patch_m ? static_cast<int>(rows_left) : Tile::patch_m;  // of the patch; 0 or less: none
    float sum[kThreadM][kThreadN];
#pragma unroll
    for (int i = 0; i < kThreadM; ++i) {
#pragma unroll
      for (int j = 0; j < kThreadN; ++j) sum[i][j] = 0;
    }
    uint32_t a[2][Tile::vectors_m][4], b[2][Tile::vectors_n][4];  // operands of this k step and of the next
    const auto load_operands = [&](int buffer, int stage, int step) {
      const int offset_a = slice * WalkA::pitch + patch_m + lane_m, offset_b = slice * WalkB::pitch + patch_n + lane_n;
      const uint32_t from_a = ptx::shared_address(shared.stage[stage].a + offset_a);
      const uint32_t from_b = ptx::shared_address(shared.stage[stage].b + offset_b);
#pragma unroll
      for (int v = 0; v < Tile::vectors_m; ++v)
        ptx::load_shared(a[buffer][v], from_a + static_cast<uint32_t>((step * Tile::slices * WalkA::pitch + v * 16) * 4));
#pragma unroll
      for (int v = 0; v < Tile::vectors_n; ++v)
        ptx::load_shared(b[buffer][v], from_b + static_cast<uint32_t>((step * Tile::slices * WalkB::pitch + v * 32) * 4));
    };
    // Back and forth over the rows: each multiply-add shares an operand with the one before it. Column by column, since a
    // column's operand then stays for more of them than a row's would, and fewer wait for a bank of registers. Where rows
    // may be outside, row by row: groups of them that are, are left out.
    const auto multiply = [&](auto tested, int buffer) {
      const auto add = [&](int i, int j) {
        sum[i][j] += std::bit_cast<float>(a[buffer][i / 4][i % 4]) * std::bit_cast<float>(b[buffer][j / 4][j % 4]);
      };
      if constexpr (decltype(tested)::value) {
#pragma unroll
        for (int i = 0; i < kThreadM; ++i) {
          if (i / 4 * 16 >= rows) break;
#pragma unroll
          for (int j = 0; j < kThreadN; ++j) add(i, i % 2 == 0 ? j : kThreadN - 1 - j);
        }
      } else {
#pragma unroll
        for (int j = 0; j < kThreadN; ++j) {
#pragma unroll
          for (int i = 0; i < kThreadM; ++i) add(j % 2 == 0 ? i : kThreadM - 1 - i, j);
        }
      }
    };

    wait_copies<kStages - 2>();
    __syncthreads();
    load_operands(0, 0, 0);
    int read = 0, write = kStages - 1;
    // k-tiles first .. last - 1: those whose copies need no test, and those whose do, if there are any to start.
    const auto multiply_tiles = [&](auto tested, int first, int last) {
      constexpr bool kTested = decltype(tested)::value;
#pragma unroll 1
      for (int t = first; t < last; ++t) {
        if constexpr (kTested) {
          if (t + kStages - 1 < tiles_k) copy_tested(t + kStages - 1, write);
          commit_copies();
        }
        // The last k-tile may end early.
        int steps = kSteps;
        if constexpr (kTested) {
          const int64_t left = p.k - int64_t{t} * Tile::k;
          if (left < Tile::k) steps = (static_cast<int>(left) + 2 * Tile::slices - 1) / (2 * Tile::slices) * 2;
        }
[[maybe_unused]] constexpr int kPairs = kTested ? 1 : kSteps / 2;  // unrolled: less code where speed matters less
#pragma unroll kPairs
        for (int pair = 0; pair < steps; pair += 2) {
#pragma unroll
          for (int buffer = 0; buffer < 2; ++buffer) {
            const int step = pair + buffer;
            if (step == steps - 1) {
              wait_copies<kStages - 2>();
              __syncthreads();
              read = read + 1 == kStages ? 0 : read + 1;
            }
            load_operands(1 - buffer, read, step + 1 == steps ? 0 : step + 1);
            if constexpr (!kTested) {
              if (step == 0) walk_a.template copy<ElementEdge::inside>(shared.stage[write].a, Tile::k);
              if (step == 1) walk_b.template copy<ElementEdge::inside>(shared.stage[write].b, Tile::k), commit_copies();
            }
            multiply(tested, buffer);
          }
        }
        walk_a.advance(), walk_b.advance();
        write = write + 1 == kStages ? 0 : write + 1;
      }
    };
    const int untested = whole > kStages - 1 ? whole - (kStages - 1) : 0;  // copies run that much ahead
    multiply_tiles(std::false_type{}, 0, untested);
    multiply_tiles(std::true_type{}, untested, tiles_k);

    // The sums leave through the ring: some rows of every warp's patch at a time, added over the slices and stored by them.
    wait_copies<0>();
    __syncthreads();  // all warps have left the ring
    float* strips = shared.strips();
    const bool patch_is_inside = origin.row + patch_m + Tile::patch_m <= p.m && origin.col + patch_n + Tile::patch_n <= p.n;
#pragma unroll 1
    for (int turn = 0; turn < Tile::vectors_m / Storage::strip_vectors; ++turn) {
#pragma unroll
      for (int v = 0; v < Tile::vectors_m; ++v) {
        if (v / Storage::strip_vectors != turn) continue;  // the sums of this turn, their indices known at compile time
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int w = 0; w < Tile::vectors_n; ++w) {
            uint32_t words[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) words[j] = std::bit_cast<uint32_t>(sum[v * 4 + i][w * 4 + j]);
            const int row = v % Storage::strip_vectors * 16 + lane_m + i, column = w * 32 + lane_n;
            float* to = strips + warp * Storage::strip_elements + row * Tile::patch_n + column;
            ptx::store_shared(ptx::shared_address(to), words);
          }
        }
      }
      if constexpr (Tile::slices == 1) __syncwarp();
      else __syncthreads();  // the strips are complete
      constexpr int kRows = Storage::strip_rows / Tile::slices;
      gemm_store_strip<Bounds::checked, kRows, Tile::patch_n, Tile::patch_n, Tile::slices,
                       Tile::warps_m * Tile::warps_n * Storage::strip_elements>(
          strips + patch * Storage::strip_elements + slice * kRows * Tile::patch_n, p, tile.batch,
          {origin.row + patch_m + turn * Storage::strip_rows + slice * kRows, origin.col + patch_n}, patch_is_inside, lane);
      if constexpr (Tile::slices == 1) __syncwarp();
      else __syncthreads();  // the strips have been read
    }
    __syncthreads();  // and the ring is free for the next tile
  }
}

}  // namespace grout
