// kernel: repack_kernel
// registers: 128
// expect: LDG.E.128, STG.E.128, BAR
// forbid: LDG.CONSTANT
#include "common/repack.cuh"
namespace grout {
template __global__ void repack_kernel<2>(const __grid_constant__ RepackWork);
template __global__ void repack_kernel<4>(const __grid_constant__ RepackWork);
}
