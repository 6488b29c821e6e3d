// One box of a tensor map, loaded into shared memory and handed out byte by byte as it lies there.
#pragma once
#include "common/ptx_sm90.cuh"

namespace grout::test {

template <int Rank> struct TensorLoadCall {
  uint8_t* out;  // `bytes`
  uint32_t bytes;
  int32_t coordinates[Rank];
};

struct TensorLoadStorage {
  alignas(8) uint64_t full;
  alignas(1024) uint8_t box[8];  // and what follows
};

template <int Rank>
__global__ void __launch_bounds__(32) tensor_load_kernel(const __grid_constant__ TensorMap map, TensorLoadCall<Rank> call) {
  auto& shared = dynamic_shared<TensorLoadStorage>();
  const uint32_t full = ptx::shared_address(&shared.full);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(full, call.bytes);
    ptx::cp_async_bulk_tensor_load(ptx::shared_address(shared.box), map, call.coordinates, full);
  }
  __syncthreads();
  while (!ptx::mbarrier_try_wait_parity(full, 0)) {}
  for (uint32_t i = threadIdx.x; i < call.bytes; i += 32) call.out[i] = shared.box[i];
}

template <int Rank> Status tensor_load(const TensorMap& map, const TensorLoadCall<Rank>& call) {
  return launch(&tensor_load_kernel<Rank>, dim3(1), dim3(32), offsetof(TensorLoadStorage, box) + call.bytes, nullptr, map, call);
}

}  // namespace grout::test
