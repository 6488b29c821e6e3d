// kernel: copy_swizzle_kernel
// registers: 64
// targets: sm_80, sm_90a, sm_100a
// since: sm_90
// expect: UTMALDG.2D, SYNCS.PHASECHK.TRANS64.TRYWAIT, LDS.128
#include "copy/copy_swizzle.cuh"
namespace grout {
template __global__ void copy_swizzle_kernel<bf16>(const __grid_constant__ TensorMap, CropParameters<bf16>);
template __global__ void copy_swizzle_kernel<float>(const __grid_constant__ TensorMap, CropParameters<float>);
}  // namespace grout
