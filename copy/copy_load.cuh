// One tensor load: the copy engine (TMA) brings a box of the matrix to shared memory, zeros where the matrix ends.
//
// The lesson: one thread asks for a whole tile and says to which mbarrier its bytes count; everybody waits for that barrier.
// The load knows the matrix's extents from a tensor map, so nobody tests a coordinate. What changes from copy_bounded.cuh:
// 256 threads that copy their vectors become one thread that issues one instruction.
// The rung before: copy_bounded.cuh. After: copy_ring.cuh, which keeps several boxes in flight.
// Run it:  ./run copy 65 72 --tile 64,32 --origin -3,64 --kernel load
//
// CONTRACT
// shapes        crop.cuh's, with a source that the engine can read: crop_check_tensor lists the rules. Any destination.
// participants  128 threads: thread 0 initialises the barrier and issues the load; all wait and store their share.
// memory        one tile of 64 rows x 128 bytes in shared memory, as the box lies there: row-major, not swizzled.
// barriers      full: one arrival (thread 0's, with the bytes of the box), one phase, parity 0. The bytes count zeros too.
// completion    the phase is complete: all bytes of the box are in shared memory, and visible to the threads that waited.
// rejects       see crop_check and crop_check_tensor.
// verified      simulated device, assembled for sm_80 (where it traps), sm_90a and sm_100a, run on sm_90.
#pragma once
#include "common/ptx_sm90.cuh"
#include "copy/crop_tensor.cuh"

namespace grout {

template <class T> struct CopyLoad {
  static constexpr int rows = 64, cols = 128 / sizeof(T), threads = 128;
  using Layout = decltype(row_major(shape(Int<rows>{}, Int<cols>{})));
  struct Storage {
    alignas(128) T tile[rows * cols];  // where a box may start
    alignas(8) uint64_t full;
  };
};

template <class T, bool Wide>
__global__ void __launch_bounds__(CopyLoad<T>::threads)
    copy_load_kernel(const __grid_constant__ TensorMap source, const CropParameters<T> p) {
  using Config = CopyLoad<T>;
  auto& shared = dynamic_shared<typename Config::Storage>();
  const int thread = static_cast<int>(threadIdx.x);
  const uint32_t full = ptx::shared_address(&shared.full);
  const Origin at = CropTiles<Config::rows, Config::cols>(p.rows, p.cols).origin(blockIdx.x);

  if (thread == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();  // the engine sees the barrier
  }
  __syncthreads();  // and the other threads: only an initialised barrier may be used
  if (thread == 0) {
    ptx::mbarrier_arrive_expect_tx(full, sizeof shared.tile);
    ptx::cp_async_bulk_tensor_load(
        ptx::shared_address(shared.tile), source,
        {static_cast<int32_t>(p.origin.col + at.col), static_cast<int32_t>(p.origin.row + at.row)}, full);
  }
  while (!ptx::mbarrier_try_wait_parity(full, 0)) {}
  store_tile<typename Config::Layout, Wide, Config::threads>(shared.tile, destination_of(p), at, thread);
}

// Crops as crop() does, by tensor loads. Errors: those of crop, and what crop_check_tensor refuses.
inline Status crop_load(const CropArguments& g, cudaStream_t stream, CropPath* path = nullptr) {
  return crop_by_tensor({.name = "copy_load"}, g, stream, path, [&]<class T>(T, int) {
    using Config = CopyLoad<T>;
    TensorMap source;
    if (Status status = detail::crop_source_map(source, g, Config::rows); !status) return status;
    const auto blocks = static_cast<unsigned>(CropTiles<Config::rows, Config::cols>(g.rows, g.cols).count());
    return launch(detail::crop_is_wide(g) ? &copy_load_kernel<T, true> : &copy_load_kernel<T, false>, dim3(blocks),
                  dim3(Config::threads), sizeof(typename Config::Storage), stream, source, detail::crop_parameters<T>(g));
  });
}

}  // namespace grout
