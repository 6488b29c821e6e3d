// Blocks of a cluster share what they load: multicast, and reading a neighbour's shared memory.
//
// The lesson: blocks of one cluster run at the same time, and can reach one another's shared memory. A multicast load writes
// the same bytes, at the same offsets, into several blocks, and counts them at each one's mbarrier: what all need is read
// from global memory once. And a thread can read a neighbour's shared memory by its address in the cluster's window (mapa).
// A crop needs neither; this one uses both so that nothing else happens: see the drawing. What changes from copy_load.cuh:
// one tile is the work of a cluster, and the barriers span it.
// The rung before: copy_swizzle.cuh. After: copy_stream.cuh, the crop at memory speed.
// Run it:  ./run copy 650 720 --origin -3,64 --kernel cluster
//
//   a tile, two blocks                     block 0                        block 1
//   band 0, multicast by block 0           in `common`     stores the     in `common`     stores the
//   band 1, multicast by block 1           in `common`     left half      in `common`     right half
//   band 2, loaded by block 0              in `own`        <------------ reads, stores
//   band 3, loaded by block 1               reads, stores ------------>  in `own`
//
// CONTRACT
// shapes        crop.cuh's, with a source that the engine can read: crop_check_tensor lists the rules. Any destination.
// participants  clusters of 2 or 4 blocks of 128 threads: thread 0 of each initialises its block's barrier and issues two
//               loads; all wait, and all meet at three cluster barriers.
// memory        bands of 32 rows x 128 bytes, row-major, not swizzled: in each block all multicast bands, and one of its
//               own.
// barriers      full, one in each block: one arrival (thread 0's, with the bytes of all that comes: every block's multicast,
//               and the own band), one phase, parity 0. Cluster barriers: (1) every block's mbarrier is initialised, before
//               any load counts at it; (2) every block's own band has landed: each thread waited for it before it arrived;
//               (3) nobody reads a neighbour any more: only then may a block end, because its shared memory ends with it.
// completion    as in copy_load.cuh; for the neighbour's band, behind cluster barrier 2.
// rejects       see crop_check and crop_check_tensor.
// verified      simulated device, assembled for sm_80 (where it traps), sm_90a and sm_100a, run on sm_90.
#pragma once
#include "common/ptx_sm90.cuh"
#include "copy/crop_tensor.cuh"

namespace grout {

template <class T, int Blocks> struct CopyCluster {
  static_assert(Blocks == 2 || Blocks == 4, "copy_cluster: clusters of 2 or 4 blocks");
  static constexpr int rows = 32, cols = 128 / sizeof(T), threads = 128, box = rows * cols;  // of a band
  static constexpr int slice = cols / Blocks;  // columns of the common bands that one block stores
  using Tiles = CropTiles<2 * Blocks * rows, cols>;
  using Slice = decltype(layout(shape(Int<Blocks * rows>{}, Int<slice>{}), stride(Int<cols>{}, 1_c)));
  using Vectors = VectorTiled<rows, cols, 1, 16 / sizeof(T), threads>;
  struct Storage {
    alignas(128) T common[Blocks * box];
    alignas(128) T own[box];
    alignas(8) uint64_t full;
  };
};

template <class T, int Blocks, bool Wide>
__global__ void __launch_bounds__(CopyCluster<T, Blocks>::threads)
    copy_cluster_kernel(const __grid_constant__ TensorMap source, const CropParameters<T> p) {
  using Config = CopyCluster<T, Blocks>;
  auto& shared = dynamic_shared<typename Config::Storage>();
  const int thread = static_cast<int>(threadIdx.x), rank = static_cast<int>(ptx::cluster_rank());
  const int neighbour = (rank + 1) % Blocks;
  const uint32_t full = ptx::shared_address(&shared.full);
  const Origin at = typename Config::Tiles(p.rows, p.cols).origin(blockIdx.x / Blocks);
  const auto destination = destination_of(p);

  if (thread == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_sync();  // 1
  if (thread == 0) {
    ptx::mbarrier_arrive_expect_tx(full, sizeof shared.common + sizeof shared.own);
    const auto col = static_cast<int32_t>(p.origin.col + at.col);
    const auto row = static_cast<int32_t>(p.origin.row + at.row) + rank * Config::rows;
    constexpr uint16_t kAll = (1 << Blocks) - 1;
    ptx::cp_async_bulk_tensor_load_multicast(ptx::shared_address(shared.common + rank * Config::box), source, {col, row},
                                             full, kAll);
    ptx::cp_async_bulk_tensor_load(ptx::shared_address(shared.own), source, {col, row + Blocks * Config::rows}, full);
  }
  while (!ptx::mbarrier_try_wait_parity(full, 0)) {}
  ptx::cluster_arrive();  // 2

  store_tile<typename Config::Slice, Wide, Config::threads>(shared.common + rank * Config::slice, destination,
                                                            {at.row, at.col + rank * Config::slice}, thread);

  ptx::cluster_wait();  // 2
  Fragment<T, typename Config::Vectors> mine;
  const uint32_t theirs = ptx::mapa(ptx::shared_address(shared.own), static_cast<uint32_t>(neighbour));
#pragma unroll
  for (int turn = 0; turn < Config::Vectors::turns; ++turn) {
    const auto c = Config::Vectors::vector_at(thread, turn);
    uint32_t words[4];
    ptx::load_shared_cluster(words, theirs + static_cast<uint32_t>((c[0] * Config::cols + c[1]) * sizeof(T)));
    detail::unpack_vector(mine, turn * Config::Vectors::vector, words);
  }
  ptx::cluster_arrive();  // 3
  store(StorePlan<T, typename Config::Vectors, 1>{}, destination, mine,
        {at.row + (Blocks + neighbour) * Config::rows, at.col}, thread);
  ptx::cluster_wait();  // 3
}

// Crops as crop() does, by clusters of `Blocks` blocks. Errors: those of crop, and what crop_check_tensor refuses.
template <int Blocks = 2> Status crop_cluster(const CropArguments& g, cudaStream_t stream, CropPath* path = nullptr) {
  return crop_by_tensor({.name = "copy_cluster"}, g, stream, path, [&]<class T>(T, int) {
    using Config = CopyCluster<T, Blocks>;
    TensorMap source;
    if (Status status = detail::crop_source_map(source, g, Config::rows); !status) return status;
    const auto blocks = static_cast<unsigned>(typename Config::Tiles(g.rows, g.cols).count() * Blocks);
    return launch(detail::crop_is_wide(g) ? &copy_cluster_kernel<T, Blocks, true> : &copy_cluster_kernel<T, Blocks, false>,
                  LaunchShape{dim3(blocks), dim3(Config::threads), sizeof(typename Config::Storage), Blocks}, stream, source,
                  detail::crop_parameters<T>(g));
  });
}

}  // namespace grout
