// kernel: copy_stream_kernel
// registers: 40
// expect: UBLKCP, SYNCS, LDS.128, STG.E.128
// since: sm_90
#include "copy/copy_stream.cuh"
namespace grout {
template __global__ void copy_stream_kernel<2>(const __grid_constant__ CropStreamParameters);
template __global__ void copy_stream_kernel<4>(const __grid_constant__ CropStreamParameters);
}
