// Runs the bounded fp32 GEMM on one problem, checks it, times it.   gemm_simt 65 97 73 --layout nt --lda 80
#include "gemm/program.cuh"

int main(int argc, char** argv) {
  using grout::GemmKernel;
  return grout::gemm_main(
      {.kernel = "simt",
       .summary = "Bounded fp32 GEMM without TF32: D = alpha * A * B + beta * C, any shape, pitch and alignment.",
       .kernels = {{"auto", GemmKernel::simt}, {"simt", GemmKernel::simt}},
       .type = grout::ElementType::f32},
      argc, argv);
}
