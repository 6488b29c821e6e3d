// The program on which tests/tools/sanitizer.sh finds out what compute-sanitizer can do on this machine. Without an argument: a
// kernel that stays within its buffer. `wrong`: it writes one element behind it. `mbarriers`: one thread has the copy engine fill a
// ring of stages, a warp reads them, correctly; exit code 77 where the GPU has no such engine.
#include <cstdio>
#include <cstring>

#include "common/ring.cuh"

namespace {
using namespace grout;

__global__ void write_up_to(int* values, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) { values[i] = i; }
}

struct Stages {
  alignas(128) uint32_t words[2][32];
  Ring<2>::Storage ring;
};
// values: 8 times 32 words, and room for 32 sums behind them.
__global__ void read_stages(uint32_t* values) {
  auto& shared = dynamic_shared<Stages>();
  const Ring<2> ring(shared.ring);
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x == 0) ring.init(1, 1);
  __syncthreads();  // the barriers are there
  Ring<2>::Position p;
  uint32_t sum = 0;
  for (int round = 0; round < 8; ++round, p.next()) {
    if (threadIdx.x == 0) {
      ring.acquire(p);
      ring.expect(p, sizeof shared.words[0]);
      ptx::cp_async_bulk_load(ptx::shared_address(shared.words[p.stage]), values + round * 32, sizeof shared.words[0], ring.full_barrier(p));
    } else if (threadIdx.x >= 32) {
      ring.wait(p);
      sum += shared.words[p.stage][31 - lane];
      __syncwarp();  // all lanes have read the stage
      if (lane == 0) ring.release(p);
    }
  }
  if (threadIdx.x >= 32) values[8 * 32 + lane] = sum;
}
}  // namespace

int main(int argc, char** argv) {
  constexpr int kCount = 8 * 32 + 32;
  const bool wrong = argc > 1 && std::strcmp(argv[1], "wrong") == 0, mbarriers = argc > 1 && std::strcmp(argv[1], "mbarriers") == 0;
  DeviceInfo device;
  if (mbarriers && device_info(device) && device.major < 9) return 77;
  int* values = nullptr;
  cudaError_t error = cudaMalloc(&values, kCount * sizeof(int));
  if (error == cudaSuccess) {
    write_up_to<<<1, 64>>>(values, wrong ? kCount + 1 : kCount);
    if (mbarriers) read_stages<<<1, 64, sizeof(Stages)>>>(reinterpret_cast<uint32_t*>(values));
    error = cudaDeviceSynchronize();
  }
  if (error != cudaSuccess) {
    std::printf("probe: %s\n", cudaGetErrorString(error));
    return 1;
  }
  return 0;
}
