// The loads of a GEMM without its arithmetic: a ring of stages of 128 x 64 and 256 x 64 bf16, filled by two tensor loads each in
// the order in which a persistent GEMM walks its tiles. Measures what L2 and the copy engine give; nothing reads the stages.
#pragma once
#include "common/ring.cuh"
#include "common/tensor_map.cuh"

namespace grout {

struct RingWalk {
  static constexpr int stages = 4, m = 128, n = 256, k = 64, consumers = 8, threads = 32 * (1 + consumers);
  static constexpr int group = 16;  // tile rows that are walked together, so that both operands stay in L2
  struct Storage {
    alignas(1024) bf16 a[stages][m * k];
    alignas(1024) bf16 b[stages][n * k];
    Ring<stages>::Storage ring;
  };
};

// Tile `index` of tiles_m x tiles_n: groups of 16 tile rows, within a group column by column.
GROUT_DEVICE void ring_walk_tile(int index, int tiles_m, int tiles_n, int32_t& row, int32_t& col) {
  const int per_group = RingWalk::group * tiles_n, first = index / per_group * RingWalk::group;
  const int rows = tiles_m - first < RingWalk::group ? tiles_m - first : RingWalk::group;
  row = (first + index % per_group % rows) * RingWalk::m;
  col = index % per_group / rows * RingWalk::n;
}

// a: M x K, b: N x K, boxes of m x k and n x k with the 128-byte swizzle. Blocks: any number.
__global__ void __launch_bounds__(RingWalk::threads)
    ring_walk_kernel(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, int tiles_m, int tiles_n, int steps) {
  auto& shared = dynamic_shared<RingWalk::Storage>();
  const Ring<RingWalk::stages> ring(shared.ring);
  if (threadIdx.x == 0) ring.init(1, RingWalk::consumers);
  __syncthreads();
  const bool producer = threadIdx.x < 32;
  if (threadIdx.x % 32 != 0) return;
  Ring<RingWalk::stages>::Position p;
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles_m * tiles_n; tile += static_cast<int>(gridDim.x)) {
    int32_t row, col;
    ring_walk_tile(tile, tiles_m, tiles_n, row, col);
    for (int step = 0; step < steps; ++step, p.next()) {
      if (producer) {
        ring.acquire(p);
        ring.expect(p, sizeof shared.a[0] + sizeof shared.b[0]);
        ptx::cp_async_bulk_tensor_load(ptx::shared_address(shared.a[p.stage]), a, {step * RingWalk::k, row}, ring.full_barrier(p));
        ptx::cp_async_bulk_tensor_load(ptx::shared_address(shared.b[p.stage]), b, {step * RingWalk::k, col}, ring.full_barrier(p));
      } else {
        ring.wait(p);
        ring.release(p);
      }
    }
  }
}

}  // namespace grout
