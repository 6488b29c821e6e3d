// The streaming attention in each of its tiles, where rows are aligned. The program has every instantiation of the host
// entry, so they stay out here.
// kernel: attention_mma_kernel
// registers: 255
// The tile of 128 columns and 32 rows a warp fills the registers: some of what stands around its loop is spilled, but for sm_90a.
// stack AttentionTileILi128ELi2ELi4E: 24 on sm_80, sm_86, sm_89, sm_100a, sm_120a, sm_121a
// expect: LDSM.16, HMMA.16816.F32, MUFU.EX2, LDGSTS.E.BYPASS.128
#include "attention/attention.cuh"

namespace grout {
namespace detail {
extern template std::span<const AttentionVariant<bf16>> attention_variants<bf16>();
extern template std::span<const AttentionVariant<f16>> attention_variants<f16>();
}  // namespace detail
using detail::AttentionTiles;
template __global__ void attention_mma_kernel<bf16, AttentionTiles<64>::Large, AttentionPath::aligned>(
    AttentionParameters<bf16>);
template __global__ void attention_mma_kernel<f16, AttentionTiles<128>::Large, AttentionPath::aligned>(
    AttentionParameters<f16>);
template __global__ void attention_mma_kernel<bf16, AttentionTiles<256>::Large, AttentionPath::aligned>(
    AttentionParameters<bf16>);
template __global__ void attention_mma_kernel<f16, AttentionTiles<256>::Small, AttentionPath::aligned>(
    AttentionParameters<f16>);
template __global__ void attention_mma_kernel<f16, AttentionTiles<64>::Short, AttentionPath::aligned>(
    AttentionParameters<f16>);
template __global__ void attention_mma_kernel<bf16, AttentionTiles<128>::Short, AttentionPath::aligned>(
    AttentionParameters<bf16>);
template __global__ void attention_mma_kernel<f16, AttentionTiles<256>::Short, AttentionPath::aligned>(
    AttentionParameters<f16>);
}  // namespace grout
