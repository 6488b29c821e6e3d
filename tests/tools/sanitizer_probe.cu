// The program on which tests/tools/sanitizer.sh finds out whether compute-sanitizer works on this machine: one kernel
// that stays within its buffer, or, with the argument `wrong`, writes one element behind it.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

__global__ void write_up_to(int* values, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) { values[i] = i; }
}

int main(int argc, char** argv) {
  constexpr int kCount = 256;
  const bool wrong = argc > 1 && std::strcmp(argv[1], "wrong") == 0;
  int* values = nullptr;
  cudaError_t error = cudaMalloc(&values, kCount * sizeof(int));
  if (error == cudaSuccess) {
    write_up_to<<<1, 64>>>(values, wrong ? kCount + 1 : kCount);
    error = cudaDeviceSynchronize();
  }
  if (error != cudaSuccess) {
    std::printf("probe: %s\n", cudaGetErrorString(error));
    return 1;
  }
  return 0;
}
