// kernel: copy_bounded_kernel
// registers: 255
// expect: LDGSTS.E.BYPASS.128
#include "copy/copy_bounded.cuh"
namespace grout {
template __global__ void copy_bounded_kernel<bf16, true, true>(CropParameters<bf16>);
template __global__ void copy_bounded_kernel<float, false, false>(CropParameters<float>);
}
