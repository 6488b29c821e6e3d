// kernel: repack_kernel
// registers: 255
// expect: LDG.E.128
#include "common/repack.cuh"
namespace grout {
template __global__ void repack_kernel<bf16>(RepackParameters<bf16>);
}
