// Runs the bounded warp-MMA GEMM on one problem, checks it, times it.   gemm_mma 65 97 73 --layout nt --lda 80
#include "gemm/program.cuh"

int main(int argc, char** argv) {
  using grout::GemmKernel;
  return grout::gemm_main(
      {.kernel = "mma",
       .summary = "Bounded GEMM: D = alpha * A * B + beta * C, fp32 accumulation, any shape, pitch and alignment.",
       .kernels = {{"auto", GemmKernel::automatic}, {"mma", GemmKernel::mma}, {"simt", GemmKernel::simt},
                   {"wgmma", GemmKernel::automatic, false}, {"tcgen05", GemmKernel::automatic, false}}},
      argc, argv);
}
