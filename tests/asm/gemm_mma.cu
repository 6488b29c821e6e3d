// One instantiation of the portable GEMM for each of its paths.
// kernel: gemm_mma_kernel
// registers: 255
// expect: LDSM.16, HMMA.16816.F32, LDGSTS.E.BYPASS.128
#include "gemm/gemm_mma.cuh"

namespace grout {
template __global__ void gemm_mma_kernel<bf16, false, true, GemmPath::aligned, GemmMmaTile<128, 256, 64, 2, 4, 3>>(
    GemmMmaParameters<bf16>);
template __global__ void gemm_mma_kernel<bf16, true, false, GemmPath::bounded, GemmMmaTile<128, 128, 64, 2, 2, 3>>(
    GemmMmaParameters<bf16>);
template __global__ void gemm_mma_kernel<f16, false, false, GemmPath::realign, GemmMmaTile<128, 128, 32, 2, 4, 4>>(
    GemmMmaParameters<f16>);
}  // namespace grout
