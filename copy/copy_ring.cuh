// A ring of stages: one warp loads ahead, the others store, and neither waits for more than it must.
//
// The lesson: in copy_load.cuh a block loads, then stores, and while it does one the other rests. Here a block stays and
// walks many tiles. A producer warp fills a ring of stages as fast as they become free; consumer warps drain them as fast as
// they become full. Two mbarriers a stage say when: common/ring.cuh draws the phases.
// The rung before: copy_load.cuh. After: copy_store.cuh, which goes the way back by the engine too.
// Run it:  ./run copy 650 720 --origin -3,64 --kernel ring
//
// CONTRACT
// shapes        crop.cuh's, with a source that the engine can read: crop_check_tensor lists the rules. Any destination.
// participants  warp 0: the producer, one lane of it works; warps 1 to 4: consumers. Each block walks the tiles
//               blockIdx.x, blockIdx.x + gridDim.x, ... and both roles count them alike.
// memory        1 to 6 stages, each a tile of 64 rows x 128 bytes in shared memory, row-major, not swizzled.
// barriers      full[stage]: one arrival, the producer's, with the bytes of the box; consumers wait, first for parity 0.
//               empty[stage]: four arrivals, one of each consumer warp; the producer waits, first for parity 1, which
//               passes.
// completion    a consumer warp releases a stage when all its lanes have read it; the values are in registers then.
// rejects       see crop_check and crop_check_tensor.
// verified      simulated device, assembled for sm_80 (where it traps), sm_90a and sm_100a, run on sm_90.
#pragma once
#include "common/ring.cuh"
#include "copy/crop_tensor.cuh"

namespace grout {

template <class T, int Stages> struct CopyRing {
  static_assert(Stages >= 1 && Stages <= 6, "copy_ring: 1 to 6 stages of 8 KB, so that 3 blocks fit a multiprocessor");
  static constexpr int rows = 64, cols = 128 / sizeof(T), stages = Stages, consumers = 128, threads = 32 + consumers;
  static constexpr int blocks_per_sm = 3;
  using Layout = decltype(row_major(shape(Int<rows>{}, Int<cols>{})));
  using Tiles = CropTiles<rows, cols>;
  struct Storage {
    alignas(128) T tile[Stages][rows * cols];
    typename Ring<Stages>::Storage ring;
  };
};

// One thread. Loads the block's tiles into the ring, each as soon as its stage is free.
template <class Config, class T>
GROUT_DEVICE void copy_ring_produce(const TensorMap& source, const CropParameters<T>& p, typename Config::Storage& shared) {
  const Ring<Config::stages> ring(shared.ring);
  const typename Config::Tiles tiles(p.rows, p.cols);
  typename Ring<Config::stages>::Position stage;
  for (int64_t index = blockIdx.x; index < tiles.count(); index += gridDim.x, stage.next()) {
    const Origin at = tiles.origin(index);
    ring.acquire(stage);
    ring.expect(stage, sizeof shared.tile[0]);
    ptx::cp_async_bulk_tensor_load(
        ptx::shared_address(shared.tile[stage.stage]), source,
        {static_cast<int32_t>(p.origin.col + at.col), static_cast<int32_t>(p.origin.row + at.row)},
        ring.full_barrier(stage));
  }
}

// The consumer warps; `thread` counts from 0 among them. Stores the block's tiles, each as soon as it has come.
template <class Config, bool Wide, class T>
GROUT_DEVICE void copy_ring_consume(const CropParameters<T>& p, typename Config::Storage& shared, int thread) {
  const Ring<Config::stages> ring(shared.ring);
  const typename Config::Tiles tiles(p.rows, p.cols);
  typename Ring<Config::stages>::Position stage;
  for (int64_t index = blockIdx.x; index < tiles.count(); index += gridDim.x, stage.next()) {
    ring.wait(stage);
    store_tile<typename Config::Layout, Wide, Config::consumers>(shared.tile[stage.stage], destination_of(p),
                                                                 tiles.origin(index), thread);
    __syncwarp();  // all lanes have read the stage
    if (thread % 32 == 0) ring.release(stage);
  }
}

template <class T, int Stages, bool Wide>
__global__ void __launch_bounds__(CopyRing<T, Stages>::threads, CopyRing<T, Stages>::blocks_per_sm)
    copy_ring_kernel(const __grid_constant__ TensorMap source, const CropParameters<T> p) {
  using Config = CopyRing<T, Stages>;
  auto& shared = dynamic_shared<typename Config::Storage>();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) Ring<Stages>(shared.ring).init(1, Config::consumers / 32);
  __syncthreads();  // the barriers are there
  if (thread >= 32) copy_ring_consume<Config, Wide>(p, shared, thread - 32);
  else if (thread == 0) copy_ring_produce<Config>(source, p, shared);
}

// Crops as crop() does, by tensor loads through a ring. `blocks`: how many walk the tiles; 0: as many as run at once.
// Errors: those of crop, and what crop_check_tensor refuses.
template <int Stages = 4>
Status crop_ring(const CropArguments& g, cudaStream_t stream, CropPath* path = nullptr, int blocks = 0) {
  return crop_by_tensor({.name = "copy_ring"}, g, stream, path, [&]<class T>(T, int sms) {
    using Config = CopyRing<T, Stages>;
    TensorMap source;
    if (Status status = detail::crop_source_map(source, g, Config::rows); !status) return status;
    const int64_t tiles = typename Config::Tiles(g.rows, g.cols).count(),
                  most = blocks > 0 ? blocks : sms * Config::blocks_per_sm;
    return launch(detail::crop_is_wide(g) ? &copy_ring_kernel<T, Stages, true> : &copy_ring_kernel<T, Stages, false>,
                  dim3(static_cast<unsigned>(tiles < most ? tiles : most)), dim3(Config::threads),
                  sizeof(typename Config::Storage), stream, source, detail::crop_parameters<T>(g));
  });
}

}  // namespace grout
