// Instantiations of the fp32 GEMM: a large tile, tiles whose warps share k steps; operands by elements and by vectors.
// kernel: gemm_simt_kernel
// registers: 255
// expect: FFMA, LDS.128, STS.128, LDGSTS.E
#include "gemm/gemm_simt.cuh"

namespace grout {
template __global__ void gemm_simt_kernel<GemmSimtTile<2, 2, 1, 4, 2, 16, 4, 2>, false, true, false>(GemmSimtParameters);
template __global__ void gemm_simt_kernel<GemmSimtTile<2, 1, 4, 4, 2, 32, 3, 1>, true, false, true>(GemmSimtParameters);
template __global__ void gemm_simt_kernel<GemmSimtTile<1, 1, 8, 2, 1, 32, 4, 2>, true, true, false>(GemmSimtParameters);
}  // namespace grout
