// kernel: copy_store_kernel
// registers: 64
// targets: sm_80, sm_90a, sm_100a
// since: sm_90
// expect: UTMALDG.2D, UTMASTG.2D, UTMACMDFLUSH, FENCE.VIEW.ASYNC, LDS.128, STS.128
#include "copy/copy_store.cuh"
namespace grout {
template __global__ void copy_store_kernel<bf16>(const __grid_constant__ TensorMap, const __grid_constant__ TensorMap, CropParameters<bf16>);
template __global__ void copy_store_kernel<float>(const __grid_constant__ TensorMap, const __grid_constant__ TensorMap, CropParameters<float>);
}  // namespace grout
