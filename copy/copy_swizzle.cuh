// A swizzled box, read in the other direction: a crop that transposes.
//
// The lesson: threads that read down the columns of an unswizzled box of 128-byte rows all meet in one bank column. The
// engine can swizzle while it loads: the 16-byte chunk c of row r lands at chunk c XOR (r % 8). Whoever reads the box back
// goes through the same map, here the layout Swizzle128B of common/layout.cuh, and eight rows' chunks of one column lie in
// eight bank columns:
//
//   chunk of the row   0 1 2 3 4 5 6 7         chunk 2 of rows 0 to 7, where it lies:
//   row 0              0 1[2]3 4 5 6 7         bank column 2
//   row 1              1 0 3[2]5 4 7 6                     3
//   row 2             [2]3 0 1 6 7 4 5                     0
//   row 3              3[2]1 0 7 6 5 4                     1     ... rows 4 to 7: 6, 7, 4, 5
//
// What changes from copy_load.cuh: the map's swizzle, the layout, and who reads what. `./run show swizzle.128B` draws the
// rest.
// The rung before: copy_store.cuh. After: copy_cluster.cuh, in which blocks share what they load.
// Run it:  ./run copy 65 72 --tile 64,32 --origin -3,64 --kernel swizzle
//
// CONTRACT
// shapes        destination[c, r] = source[r + origin.row, c + origin.col] where that exists, else 0, for the rows x cols of
//               the rectangle. The destination is cols x rows with any pitch of at least `rows`. The source as in
//               copy_load.cuh.
// participants  128 threads: thread 0 initialises the barrier and issues the load; all wait. A warp reads one 16-byte chunk
//               of each of 32 rows, eight lanes at a time without conflict, and stores 32 neighbours of one destination row.
// memory        one tile of 64 rows x 128 bytes, swizzled (128B): it starts at a multiple of 1024 bytes.
// barriers      full: one arrival (thread 0's, with the bytes of the box), one phase, parity 0.
// completion    as in copy_load.cuh.
// rejects       see crop_check (of the transposed source) and crop_check_tensor.
// verified      simulated device, assembled for sm_80 (where it traps), sm_90a and sm_100a, run on sm_90; bank conflicts
//               counted on the host.
#pragma once
#include "common/ptx_sm90.cuh"
#include "copy/crop_tensor.cuh"

namespace grout {

template <class T> struct CopySwizzle {
  static constexpr int rows = 64, cols = 128 / sizeof(T), threads = 128;
  using Layout = decltype(compose(Swizzle128B<T>{}, row_major(shape(Int<rows>{}, Int<cols>{}))));
  struct Storage {
    alignas(tensor_box_alignment(TensorSwizzle::b128)) T tile[rows * cols];
    alignas(8) uint64_t full;
  };
  // Chunks of 16 bytes, dealt down the columns: neighbouring threads hold the same chunk of neighbouring rows.
  struct Ownership {
    static constexpr int threads = CopySwizzle::threads, vector = 16 / sizeof(T), axes = 2;
    static constexpr int slots = rows * cols / threads;
    static constexpr Coordinate<2> shape{rows, cols};
    static constexpr Coordinate<2> at(int thread, int slot) {
      const int chunk = slot / vector * threads + thread;
      return {chunk % rows, chunk / rows * vector + slot % vector};
    }
  };
};

template <class T>
__global__ void __launch_bounds__(CopySwizzle<T>::threads)
    copy_swizzle_kernel(const __grid_constant__ TensorMap source, const CropParameters<T> p) {
  using Config = CopySwizzle<T>;
  using Ownership = typename Config::Ownership;
  auto& shared = dynamic_shared<typename Config::Storage>();
  const int thread = static_cast<int>(threadIdx.x);
  const uint32_t full = ptx::shared_address(&shared.full);
  const Origin at = CropTiles<Config::rows, Config::cols>(p.rows, p.cols).origin(blockIdx.x);

  if (thread == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();  // the barrier is there
  if (thread == 0) {
    ptx::mbarrier_arrive_expect_tx(full, sizeof shared.tile);
    ptx::cp_async_bulk_tensor_load(
        ptx::shared_address(shared.tile), source,
        {static_cast<int32_t>(p.origin.col + at.col), static_cast<int32_t>(p.origin.row + at.row)}, full);
  }
  while (!ptx::mbarrier_try_wait_parity(full, 0)) {}

  Fragment<T, Ownership> mine;
  read_tile<typename Config::Layout, Ownership::vector>(mine, shared.tile, thread);
  // Rows of the rectangle are contiguous in the destination: the same coordinates, seen through the transposed layout.
  const auto destination = view(p.destination, layout(shape(p.rows, p.cols), stride(1_c, p.ld)));
  store(StorePlan<T, Ownership, 0>{}, destination, mine, at, thread);
}

// Crops and transposes, by tensor loads: the destination, cols x rows with pitch g.ld, is the transpose of what crop()
// gives. Errors: those of crop, and what crop_check_tensor refuses.
inline Status crop_swizzle(const CropArguments& g, cudaStream_t stream, CropPath* path = nullptr) {
  return crop_by_tensor({.name = "copy_swizzle", .transposes = true}, g, stream, path, [&]<class T>(T, int) {
    using Config = CopySwizzle<T>;
    TensorMap source;
    if (Status status = detail::crop_source_map(source, g, Config::rows, TensorSwizzle::b128); !status) return status;
    const auto blocks = static_cast<unsigned>(CropTiles<Config::rows, Config::cols>(g.rows, g.cols).count());
    return launch(&copy_swizzle_kernel<T>, dim3(blocks), dim3(Config::threads), sizeof(typename Config::Storage), stream,
                  source, detail::crop_parameters<T>(g));
  });
}

}  // namespace grout
