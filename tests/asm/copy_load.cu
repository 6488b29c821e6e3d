// kernel: copy_load_kernel
// registers: 64
// targets: sm_80, sm_90a, sm_100a
// since: sm_90
// expect: UTMALDG.2D, SYNCS.EXCH.64, SYNCS.ARRIVE.TRANS64, SYNCS.PHASECHK.TRANS64.TRYWAIT
#include "copy/copy_load.cuh"
namespace grout {
template __global__ void copy_load_kernel<bf16, true>(const __grid_constant__ TensorMap, CropParameters<bf16>);
template __global__ void copy_load_kernel<float, false>(const __grid_constant__ TensorMap, CropParameters<float>);
}  // namespace grout
