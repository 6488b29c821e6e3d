// The program on which tests/tools/sanitizer.sh finds out whether compute-sanitizer works on this machine. Without an argument it
// is correct. `overrun`: it writes one element behind its buffer. `race`: a warp reads what another wrote, without a barrier.
#include <cstdio>
#include <cstring>

#include "common/launch.cuh"

namespace {
constexpr int kThreads = 64;

__global__ void reverse(int* values, int count, bool synchronised) {
  int* const shared = &grout::dynamic_shared<int>();
  const int thread = static_cast<int>(threadIdx.x);
  shared[thread] = thread;
  if (synchronised) __syncthreads();
  if (thread < count) values[thread] = shared[kThreads - 1 - thread];
  if (thread == 0 && count > kThreads) values[kThreads] = 0;
}
}  // namespace

int main(int argc, char** argv) {
  const bool overrun = argc > 1 && std::strcmp(argv[1], "overrun") == 0, race = argc > 1 && std::strcmp(argv[1], "race") == 0;
  int* values = nullptr;
  cudaError_t error = cudaMalloc(&values, kThreads * sizeof(int));
  if (error == cudaSuccess) {
    reverse<<<1, kThreads, kThreads * sizeof(int)>>>(values, overrun ? kThreads + 1 : kThreads, !race);
    error = cudaDeviceSynchronize();
  }
  if (error != cudaSuccess) {
    std::printf("probe: %s\n", cudaGetErrorString(error));
    return 1;
  }
  return 0;
}
