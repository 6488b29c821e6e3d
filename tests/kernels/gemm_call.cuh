// The GEMM host entry for tests, without the kernels' templates: gemm_call.cu holds the only instantiation of them, so that
// a test program compiles in seconds. Field by field grout::GemmArguments, see gemm/gemm.cuh.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/launch.cuh"
#include "common/numeric.cuh"

namespace grout::test {

enum class CallBounds { automatic, checked, none };
enum class CallKernel { automatic, mma, simt };

struct GemmCall {
  int64_t m = 0, n = 0, k = 0;
  ElementType type = ElementType::bf16, out = ElementType::bf16;
  bool trans_a = false, trans_b = false;
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void* d = nullptr;
  int64_t lda = 0, ldb = 0, ldc = 0;
  float alpha = 1, beta = 0;
  int64_t batch = 1, batch_a = 0, batch_b = 0, batch_c = 0, batch_d = 0;
  CallBounds bounds = CallBounds::automatic;
  CallKernel kernel = CallKernel::automatic;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

// What the entry chose; "none" where it launched nothing.
struct GemmChosen {
  std::string kernel = "none", path;
  int tile_m = 0, tile_n = 0, tile_k = 0;
  int64_t tiles = 0, resident = 0;
};

// gemm() itself. `forced`: kernel, path and tile of an earlier choice.
Status run_gemm(const GemmCall& call, cudaStream_t stream, GemmChosen* chosen = nullptr, const GemmChosen* forced = nullptr);

size_t workspace_bytes(const GemmCall& call);

// A kernel that gemm() can launch, and the problems that make it choose this one.
struct ReachableKernel {
  const void* address;
  ElementType type;
  bool trans_a, trans_b;
  // repack: the kernel that copies operands first, in any layout. Of f32: elements or vectors, how operands are
  // loaded that are contiguous along m or n.
  std::string path;
  int tile_m, tile_n, tile_k;
};
std::vector<ReachableKernel> reachable_gemm_kernels();

}  // namespace grout::test
