// The attention as attention_cases.cpp calls it, with two of its kernels: tests/tools/mutated.py compiles this once for each
// mutant.
#include "attention/attention.cuh"

namespace grout {
template <>
std::span<const AttentionVariant<f16>> detail::attention_variants<f16>() {
  return {};
}
template <>
std::span<const AttentionVariant<bf16>> detail::attention_variants<bf16>() {
  static const auto few = AttentionVariants<bf16>::of<64, AttentionPath::aligned>();
  return few;
}

namespace test {
Status run_attention(const AttentionArguments& arguments, cudaStream_t stream) {
  return attention(arguments, stream);
}
}  // namespace test
}  // namespace grout
