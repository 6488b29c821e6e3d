// The program on which tests/tools/sanitizer.sh finds out whether compute-sanitizer works on this machine: correct, or with the
// mistake that its argument names.
#include <cstdio>
#include <string>

#include "common/launch.cuh"

namespace {
using namespace grout;
constexpr int kThreads = 64;
enum class Mistake { none, overrun, race, uninitialised, misnamed };

__global__ void reverse(int* values, Mistake mistake) {
  int* const shared = &dynamic_shared<int>();
  const int thread = static_cast<int>(threadIdx.x);
  shared[thread] = values[thread];
  if (mistake != Mistake::race) __syncthreads();
  values[thread] = shared[kThreads - 1 - thread];
  if (mistake == Mistake::overrun && thread == 0) values[kThreads] = 0;
  if (mistake == Mistake::misnamed && thread == 1) __syncwarp(1);  // a barrier of thread 0 alone
}
}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const Mistake mistake = name == "overrun"         ? Mistake::overrun
                          : name == "race"          ? Mistake::race
                          : name == "uninitialised" ? Mistake::uninitialised
                          : name == "misnamed"      ? Mistake::misnamed
                                                    : Mistake::none;
  int* values = nullptr;
  cudaError_t error = cudaMalloc(&values, kThreads * sizeof(int));
  if (error == cudaSuccess && mistake != Mistake::uninitialised) error = cudaMemset(values, 0, kThreads * sizeof(int));
  if (error == cudaSuccess) {
    reverse<<<1, kThreads, kThreads * sizeof(int)>>>(values, mistake);
    error = cudaDeviceSynchronize();
  }
  if (error != cudaSuccess) {
    std::printf("probe: %s\n", cudaGetErrorString(error));
    return 1;
  }
  return 0;
}
