// Bounded copy: crop a rectangle, with any origin, out of one matrix into another.
//
// The lesson: a tile has a fixed capacity, a matrix has an extent, and the two need not agree. The copy fills the whole
// tile, with zeros where the source ends; the store skips what the destination does not have. Between them stands an
// ordinary tile in shared memory. Run it:  ./run copy 65 73 --tile 64,32 --origin 64,64
//
// CONTRACT
// shapes        destination[r, c] = source[r + origin.row, c + origin.col] where that exists, else 0, for all rows x
//               columns of the destination. Origins may be negative or past the end; source strides are arbitrary.
// participants  256 threads: each copies its vectors, all meet at one barrier, each stores its share.
// memory        one tile of 64 rows x 128 bytes in shared memory, swizzled, so that neither rows nor columns conflict.
// completion    commit, wait (own copies), __syncthreads (everybody's), then the tile may be read.
// rejects       see crop_check.
// verified      simulated device, assembled for sm_80 to sm_121a, run on sm_90.
#pragma once
#include "copy/crop.cuh"

namespace grout {

template <class T> struct CropTile {
  static constexpr int rows = 64, cols = 128 / sizeof(T), threads = 256;
  using Layout = decltype(compose(Swizzle128B<T>{}, row_major(shape(Int<rows>{}, Int<cols>{}))));
  struct Storage {
    alignas(1024) T tile[rows * cols];
  };
};

// UnitStride: neighbours along a source row are adjacent, and the types know it. Wide: see store_tile.
template <class T, bool UnitStride, bool Wide>
__global__ void __launch_bounds__(CropTile<T>::threads) copy_bounded_kernel(const CropParameters<T> p) {
  using Tile = CropTile<T>;
  using Layout = typename Tile::Layout;
  using Plan = CopyPlan<T, Layout, Tile::threads,
                        CopyOptions{.misaligned = Misaligned::realign, .partial = Partial::zero_fill}>;
  auto& shared = dynamic_shared<typename Tile::Storage>();
  const int thread = static_cast<int>(threadIdx.x);
  const auto source = [&] {
    if constexpr (UnitStride) return view(p.source, layout(shape(p.source_rows, p.source_cols), stride(p.row_stride, 1_c)));
    else return view(p.source, layout(shape(p.source_rows, p.source_cols), stride(p.row_stride, p.col_stride)));
  }();
  const auto destination = destination_of(p);

  const CropTiles<Tile::rows, Tile::cols> tiles(p.rows, p.cols);
  for (int64_t index = blockIdx.x; index < tiles.count(); index += gridDim.x) {
    const Origin at = tiles.origin(index);
    copy_async(Plan{}, shared.tile, source, {p.origin.row + at.row, p.origin.col + at.col}, thread);
    commit_copies();
    wait_copies<0>();
    __syncthreads();  // other threads' vectors are complete and visible
    store_tile<Layout, Wide, Tile::threads>(shared.tile, destination, at, thread);
    __syncthreads();  // all have read the tile: the next one may overwrite it
  }
}

namespace detail {
template <class T> Status crop_launch(const CropArguments& g, int sms, cudaStream_t stream) {
  using Tile = CropTile<T>;
  const bool unit = g.col_stride == 1;
  const bool wide = crop_is_wide(g);
  void (*kernel)(CropParameters<T>) =
      unit ? (wide ? &copy_bounded_kernel<T, true, true> : &copy_bounded_kernel<T, true, false>)
           : (wide ? &copy_bounded_kernel<T, false, true> : &copy_bounded_kernel<T, false, false>);
  const int64_t tiles = CropTiles<Tile::rows, Tile::cols>(g.rows, g.cols).count();
  const int64_t resident = int64_t{sms} * 8;  // blocks that run at once; each walks tiles until none is left
  return launch(kernel, dim3(static_cast<unsigned>(tiles < resident ? tiles : resident)), dim3(Tile::threads),
                sizeof(typename Tile::Storage), stream, crop_parameters<T>(g));
}
}  // namespace detail

// Crops on `stream`: destination = the rectangle at origin, zeros where the source ends. Complete when the stream is.
// A source may overlap itself (any strides, also 0); source and destination may not overlap.
// Errors: invalid (one sentence with the values), unsupported (device before 8.0), device_error (launch).
inline Status crop(const CropArguments& g, cudaStream_t stream) {
  if (Status status = crop_check(g); !status) return status;
  DeviceInfo device;
  if (Status status = device_info(device); !status) return status;
  if (device.major < 8)
    return unsupported("copy_bounded needs compute capability 8.0 or later; this device has " +
                       std::to_string(device.major) + "." + std::to_string(device.minor));
  if (g.rows == 0 || g.cols == 0) return {};
  switch (g.type) {
    case ElementType::bf16: return detail::crop_launch<bf16>(g, device.sms, stream);
    case ElementType::f16: return detail::crop_launch<f16>(g, device.sms, stream);
    default: return detail::crop_launch<float>(g, device.sms, stream);
  }
}

}  // namespace grout
