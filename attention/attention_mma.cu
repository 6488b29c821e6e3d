// Runs the streaming attention with warp-level tensor cores on one problem, checks it, times it.
//   attention_mma 65 97 --causal --dim 72
#include "attention/program.cuh"

int main(int argc, char** argv) {
  using grout::AttentionKernel;
  return grout::attention_main({.kernel = "mma",
                                .summary = "Streaming attention: O = softmax(scale * Q * K^T) * V, fp32 accumulation, "
                                           "any lengths, strides and alignment.",
                                .kernels = {{"auto", AttentionKernel::automatic},
                                            {"mma", AttentionKernel::mma},
                                            {"wgmma", AttentionKernel::automatic, false}}},
                               argc, argv);
}
