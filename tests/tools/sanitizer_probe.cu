// The program on which tests/tools/sanitizer.sh finds out what compute-sanitizer can do on this machine. Without an argument: a
// kernel that stays within its buffer. `wrong`: it writes one element behind it. `mbarriers`: two warps that hand words over
// through a ring of mbarriers, correctly; exit code 77 where the GPU has none.
#include <cstdio>
#include <cstring>

#include "common/ring.cuh"

namespace {
using namespace grout;

__global__ void write_up_to(int* values, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) { values[i] = i; }
}

struct Handover {
  uint32_t stage[2][32];
  Ring<2>::Storage ring;
};
__global__ void hand_over(int* values, int rounds) {
  auto& shared = dynamic_shared<Handover>();
  const Ring<2> ring(shared.ring);
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x == 0) ring.init(32, 32);
  __syncthreads();
  Ring<2>::Position p;
  for (int round = 0; round < rounds; ++round, p.next()) {
    if (threadIdx.x < 32) {
      ring.acquire(p);
      shared.stage[p.stage][lane] = static_cast<uint32_t>(round) + lane;
      ring.arrive_full(p);
    } else {
      ring.wait(p);
      values[lane] = static_cast<int>(shared.stage[p.stage][31 - lane]);
      ring.release(p);
    }
  }
}
}  // namespace

int main(int argc, char** argv) {
  constexpr int kCount = 256;
  const bool wrong = argc > 1 && std::strcmp(argv[1], "wrong") == 0, mbarriers = argc > 1 && std::strcmp(argv[1], "mbarriers") == 0;
  DeviceInfo device;
  if (mbarriers && device_info(device) && device.major < 9) return 77;
  int* values = nullptr;
  cudaError_t error = cudaMalloc(&values, kCount * sizeof(int));
  if (error == cudaSuccess) {
    if (mbarriers) hand_over<<<1, 64, sizeof(Handover)>>>(values, 8);
    else write_up_to<<<1, 64>>>(values, wrong ? kCount + 1 : kCount);
    error = cudaDeviceSynchronize();
  }
  if (error != cudaSuccess) {
    std::printf("probe: %s\n", cudaGetErrorString(error));
    return 1;
  }
  return 0;
}
