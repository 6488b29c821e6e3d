// A call of the tests as the GEMM's host entries take it.
#pragma once
#include "gemm/gemm_arguments.cuh"
#include "tests/kernels/gemm_call.cuh"

namespace grout::test {

inline GemmArguments arguments(const GemmCall& x) {
  GemmArguments g;
  g.m = x.m, g.n = x.n, g.k = x.k, g.type = x.type, g.out = x.out, g.trans_a = x.trans_a, g.trans_b = x.trans_b;
  g.a = x.a, g.b = x.b, g.c = x.c, g.d = x.d, g.lda = x.lda, g.ldb = x.ldb, g.ldc = x.ldc;
  g.alpha = x.alpha, g.beta = x.beta, g.batch = x.batch;
  g.batch_a = x.batch_a, g.batch_b = x.batch_b, g.batch_c = x.batch_c, g.batch_d = x.batch_d;
  g.bounds = x.bounds == CallBounds::automatic ? GemmBounds::automatic
             : x.bounds == CallBounds::checked ? GemmBounds::checked
                                               : GemmBounds::none;
  g.kernel = static_cast<GemmKernel>(x.kernel);
  g.workspace = x.workspace, g.workspace_bytes = x.workspace_bytes;
  return g;
}

}  // namespace grout::test
