// The way back by the copy engine: load, let threads touch the data, store.
//
// The lesson: the engine reads shared memory through a proxy of its own, and does not see what threads wrote there with
// ordinary stores until a proxy fence stands between. Each writer fences, a barrier collects the writers, one thread stores.
// What the threads do here is the least that needs it: they move each tile from the stage to an outgoing buffer, as a kernel
// would that converts or scales. What changes from copy_ring.cuh: only what a consumer does with a full stage.
// The rung before: copy_ring.cuh. After: copy_swizzle.cuh, which reads a box in the other direction.
// Run it:  ./run copy 650 720 --origin -3,64 --kernel store
//
// CONTRACT
// shapes        crop.cuh's, with a source and a destination that the engine can reach: crop_check_tensor lists the rules. Rows and
//               columns may end anywhere. The engine leaves out rows that the destination does not have, but of a row it stores
//               whole 16-byte units, padding included: the last columns, where they do not fill one, are stored by threads.
// participants  warp 0: the producer, one lane of it works; warps 1 to 4: consumers, whose thread 0 issues the stores.
// memory        4 stages and 2 outgoing buffers, each a tile of 64 rows x 128 bytes, row-major, not swizzled.
// barriers      the ring's, as in copy_ring.cuh. Named barrier 1, 128 consumers, twice a tile: the outgoing buffer is free;
//               it is written and fenced.
// completion    stage: released when all lanes of a warp have read it. Outgoing buffer: may be written again when the store
//               of two tiles ago has *read* it (wait_group_read). End: the storing thread waits until all is *written*
//               (wait_group): shared memory goes away with the block.
// rejects       see crop_check and crop_check_tensor.
// verified      simulated device, assembled for sm_80 (where it traps), sm_90a and sm_100a, run on sm_90.
#pragma once
#include "copy/copy_ring.cuh"

namespace grout {

template <class T> struct CopyStore {
  static constexpr int rows = 64, cols = 128 / sizeof(T), stages = 4, buffers = 2, consumers = 128, threads = 32 + consumers;
  static constexpr int blocks_per_sm = 3;
  using Tiles = CropTiles<rows, cols>;
  using Vectors = VectorTiled<rows, cols, 1, 16 / sizeof(T), consumers>;
  struct Storage {
    alignas(128) T tile[stages][rows * cols];
    alignas(128) T outgoing[buffers][rows * cols];
    typename Ring<stages>::Storage ring;
  };
};

// The consumer warps; `thread` counts from 0 among them.
template <class T>
GROUT_DEVICE void copy_store_consume(const TensorMap& destination, const CropParameters<T>& p,
                                     typename CopyStore<T>::Storage& shared, int thread) {
  using Config = CopyStore<T>;
  const Ring<Config::stages> ring(shared.ring);
  const typename Config::Tiles tiles(p.rows, p.cols);
  typename Ring<Config::stages>::Position stage;
  constexpr int kVector = 16 / sizeof(T);
  const int64_t whole = p.cols / kVector * kVector;  // columns that the engine stores
  int buffer = 0;
  for (int64_t index = blockIdx.x; index < tiles.count(); index += gridDim.x, stage.next(), buffer ^= 1) {
    const Origin at = tiles.origin(index);
    ring.wait(stage);
    if (thread == 0) ptx::cp_async_bulk_wait_group_read<Config::buffers - 1>();
    ptx::bar_sync(1, Config::consumers);  // the store of two tiles ago has read this buffer, and all know it
    const uint32_t from = ptx::shared_address(shared.tile[stage.stage]), to = ptx::shared_address(shared.outgoing[buffer]);
#pragma unroll
    for (int turn = 0; turn < Config::Vectors::turns; ++turn) {
      const auto c = Config::Vectors::vector_at(thread, turn);
      const uint32_t offset = static_cast<uint32_t>((c[0] * Config::cols + c[1]) * sizeof(T));
      uint32_t words[4];
      ptx::load_shared(words, from + offset);
      ptx::store_shared(to + offset, words);
      if (at.col + c[1] == whole && at.row + c[0] < p.rows)
        detail::store_elements<sizeof(T)>(reinterpret_cast<uintptr_t>(p.destination + (at.row + c[0]) * p.ld + whole), words,
                                          0, p.cols - whole);
    }
    __syncwarp();  // all lanes have read the stage
    if (thread % 32 == 0) ring.release(stage);
    ptx::fence_proxy_async_shared();      // what this thread wrote, the engine will see
    ptx::bar_sync(1, Config::consumers);  // and what all others wrote
    if (thread == 0) {
      if (at.col < whole)
        ptx::cp_async_bulk_tensor_store(destination, {static_cast<int32_t>(at.col), static_cast<int32_t>(at.row)}, to);
      ptx::cp_async_bulk_commit_group();
    }
  }
  if (thread == 0) ptx::cp_async_bulk_wait_group<0>();
}

template <class T>
__global__ void __launch_bounds__(CopyStore<T>::threads, CopyStore<T>::blocks_per_sm)
    copy_store_kernel(const __grid_constant__ TensorMap source, const __grid_constant__ TensorMap destination,
                      const CropParameters<T> p) {
  using Config = CopyStore<T>;
  auto& shared = dynamic_shared<typename Config::Storage>();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) Ring<Config::stages>(shared.ring).init(1, Config::consumers / 32);
  __syncthreads();  // the barriers are there
  if (thread >= 32) copy_store_consume(destination, p, shared, thread - 32);
  else if (thread == 0) copy_ring_produce<Config>(source, p, shared);
}

// Crops as crop() does, by tensor loads and stores. Errors: those of crop, and what crop_check_tensor refuses.
inline Status crop_store(const CropArguments& g, cudaStream_t stream, CropPath* path = nullptr) {
  return crop_by_tensor({.name = "copy_store", .tensor_store = true}, g, stream, path, [&]<class T>(T, int sms) {
    using Config = CopyStore<T>;
    TensorMap source, destination;
    if (Status status = detail::crop_source_map(source, g, Config::rows); !status) return status;
    if (Status status = detail::crop_destination_map(destination, g, Config::rows); !status) return status;
    const int64_t tiles = typename Config::Tiles(g.rows, g.cols).count(), most = sms * Config::blocks_per_sm;
    return launch(&copy_store_kernel<T>, dim3(static_cast<unsigned>(tiles < most ? tiles : most)), dim3(Config::threads),
                  sizeof(typename Config::Storage), stream, source, destination, detail::crop_parameters<T>(g));
  });
}

}  // namespace grout
