// Batched copy: the crop of copy_bounded.cuh by single elements, several of them in flight.
//
// The lesson: a load takes hundreds of cycles, and a thread that stores each value before it loads the next pays them every
// time. A thread that first loads several independent values pays them once for all. No vector and no copy engine is needed,
// so this works for every stride and alignment; what must be known is that the elements are independent. What changes from
// copy_bounded.cuh: scalars instead of 16-byte vectors, ordinary loads and stores instead of cp.async, and no wait.
// Run it:  ./run copy 65 73 --tile 64,32 --origin 64,64 --kernel batched --max-copy-batch 4 --workers 48
//
// CONTRACT
// shapes        crop.cuh's; any strides of the source.
// participants  32, 48 or 256 threads: each copies its elements, all meet at one barrier, each stores elements.
// memory        one tile of 64 rows x 128 bytes in shared memory, swizzled by words, so that 32 lanes along a row or a
//               column meet no bank twice.
// completion    copy_batched, __syncthreads (everybody's), then the tile may be read.
// rejects       see crop_check, check_copy_batch; workers other than these.
// verified      simulated device, assembled for sm_80 to sm_121a, run on sm_90.
#pragma once
#include "common/batch.cuh"
#include "copy/crop.cuh"

namespace grout {

template <class T> struct CropBatchedTile {
  static constexpr int rows = 64, cols = 128 / sizeof(T);
  // A row is 32 words, one for each bank; the number of the row is XORed into the number of the word.
  static constexpr int in_word = sizeof(T) == 2 ? 1 : 0;
  using Layout = decltype(compose(Swizzle<5, in_word, 5>{}, row_major(shape(Int<rows>{}, Int<cols>{}))));
  using Shared = SharedTile<T, Layout>;
};
template <class T, int Workers, int Batch, int FastAxis> using CropBatchedPlan =
    BatchedCopyPlan<typename CropBatchedTile<T>::Shared, Workers, Batch, FastAxis>;

// FastAxis: the axis along which the source's elements lie closest together.
template <class T, int Workers, int Batch, int FastAxis> __global__ void __launch_bounds__(Workers)
    copy_batched_kernel(const CropParameters<T> p) {
  using Tile = CropBatchedTile<T>;
  auto& tile = dynamic_shared<typename Tile::Shared>();
  const int thread = static_cast<int>(threadIdx.x);
  const auto source = view(p.source, layout(shape(p.source_rows, p.source_cols), stride(p.row_stride, p.col_stride)));

  const CropTiles<Tile::rows, Tile::cols> tiles(p.rows, p.cols);
  for (int64_t index = blockIdx.x; index < tiles.count(); index += gridDim.x) {
    const Origin at = tiles.origin(index);
    copy_batched(CropBatchedPlan<T, Workers, Batch, FastAxis>{}, tile, source,
                 {p.origin.row + at.row, p.origin.col + at.col}, thread);
    __syncthreads();  // other threads' elements are visible
    for (int i = thread; i < Tile::rows * Tile::cols; i += Workers) {
      const int r = i / Tile::cols, c = i % Tile::cols;
      if (at.row + r < p.rows && at.col + c < p.cols)
        p.destination[(at.row + r) * p.ld + at.col + c] = tile.data[typename Tile::Layout{}(r, c)];
    }
    __syncthreads();  // all have read the tile: the next one may overwrite it
  }
}

namespace detail {
// Bits are moved as they are: 16-bit elements of either type take the kernels of bf16.
template <class T, int Workers, int Batch>
Status crop_batched_launch(const CropArguments& g, int sms, cudaStream_t stream, BatchReport& report) {
  using Tile = CropBatchedTile<T>;
  const auto distance = [](int64_t stride) {
    return stride < 0 ? -static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
  };
  const bool along_rows = distance(g.col_stride) <= distance(g.row_stride);
  using Plan = CropBatchedPlan<T, Workers, Batch, 1>;  // no part of its report depends on the axis
  report = report_compiled(Plan::report, Plan::operation, report.requested);
  if (g.rows == 0 || g.cols == 0) return {};
  const int64_t tiles = CropTiles<Tile::rows, Tile::cols>(g.rows, g.cols).count();
  const int64_t resident =
      int64_t{sms} * (Workers <= 64 ? 24 : 8);  // blocks that run at once; each walks tiles until none is left
  return launch(along_rows ? &copy_batched_kernel<T, Workers, Batch, 1> : &copy_batched_kernel<T, Workers, Batch, 0>,
                dim3(static_cast<unsigned>(tiles < resident ? tiles : resident)), dim3(Workers),
                sizeof(typename Tile::Shared), stream, crop_parameters<T>(g));
}
template <class T, int Workers>
Status crop_batched_launch(const CropArguments& g, int batch, int sms, cudaStream_t stream, BatchReport& report) {
  return batch >= 16  ? crop_batched_launch<T, Workers, 16>(g, sms, stream, report)
         : batch >= 8 ? crop_batched_launch<T, Workers, 8>(g, sms, stream, report)
         : batch >= 4 ? crop_batched_launch<T, Workers, 4>(g, sms, stream, report)
         : batch >= 2 ? crop_batched_launch<T, Workers, 2>(g, sms, stream, report)
                      : crop_batched_launch<T, Workers, 1>(g, sms, stream, report);
}
template <class T> Status crop_batched_launch(const CropArguments& g, int batch, int workers, int sms, cudaStream_t stream,
                                              BatchReport& report) {
  return workers == 32   ? crop_batched_launch<T, 32>(g, batch, sms, stream, report)
         : workers == 48 ? crop_batched_launch<T, 48>(g, batch, sms, stream, report)
                         : crop_batched_launch<T, 256>(g, batch, sms, stream, report);
}
}  // namespace detail

// Crops as crop() does, at most `max_copy_batch` (1 to 16) elements of a thread at a time, by blocks of `workers` threads.
// There are kernels for batches of 1, 2, 4, 8 and 16: a request between two of them realises the smaller, and `report`, if
// given, says so. Errors: those of crop; invalid for another batch, or for workers other than 32, 48 and 256.
inline Status crop_batched(const CropArguments& g, int max_copy_batch, int workers, cudaStream_t stream,
                           BatchReport* report = nullptr) {
  if (Status status = crop_check(g); !status) return status;
  if (Status status = check_copy_batch(max_copy_batch); !status) return status;
  if (workers != 32 && workers != 48 && workers != 256)
    return invalid("workers is " + std::to_string(workers) + ": 32, 48 or 256 threads of a block are accepted");
  DeviceInfo device;
  if (Status status = device_info(device); !status) return status;
  if (device.major < 8)
    return unsupported("copy_batched needs compute capability 8.0 or later; this device has " +
                       std::to_string(device.major) + "." + std::to_string(device.minor));
  BatchReport realised{.requested = max_copy_batch};
  const Status status = element_bytes(g.type) == 2
                            ? detail::crop_batched_launch<bf16>(g, max_copy_batch, workers, device.sms, stream, realised)
                            : detail::crop_batched_launch<float>(g, max_copy_batch, workers, device.sms, stream, realised);
  if (report != nullptr) *report = realised;
  return status;
}

}  // namespace grout
