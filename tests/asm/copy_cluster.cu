// kernel: copy_cluster_kernel
// registers: 64
// targets: sm_80, sm_90a, sm_100a
// since: sm_90
// expect: UTMALDG.2D, UTMALDG.2D.MULTICAST, UCGABAR_ARV, UCGABAR_WAIT, LD.128
#include "copy/copy_cluster.cuh"
namespace grout {
template __global__ void copy_cluster_kernel<bf16, 2, true>(const __grid_constant__ TensorMap, CropParameters<bf16>);
template __global__ void copy_cluster_kernel<float, 4, false>(const __grid_constant__ TensorMap, CropParameters<float>);
}  // namespace grout
