// kernel: copy_ring_kernel
// registers: 128
// targets: sm_80, sm_90a, sm_100a
// since: sm_90
// expect: UTMALDG.2D, SYNCS.EXCH.64, SYNCS.ARRIVE.TRANS64, SYNCS.PHASECHK.TRANS64.TRYWAIT
#include "copy/copy_ring.cuh"
namespace grout {
template __global__ void copy_ring_kernel<bf16, 4, true>(const __grid_constant__ TensorMap, CropParameters<bf16>);
template __global__ void copy_ring_kernel<float, 1, false>(const __grid_constant__ TensorMap, CropParameters<float>);
template __global__ void copy_ring_kernel<f16, 6, false>(const __grid_constant__ TensorMap, CropParameters<f16>);
}  // namespace grout
