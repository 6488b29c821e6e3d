// The aligned bf16 GEMM of an earlier revision (cmake/pinned.cmake says which), compiled beside today's and linked into one
// program, so that both are timed in one process. No type of the project is used here: the revisions' types share their names.
#pragma once
#include <cstdint>
#include <string>

namespace pinned {

// D = A * B in bf16, stored row-major: A as M x K (trans_a: K x M), B as K x N (trans_b: N x K). Pitches in elements.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  const void *a = nullptr, *b = nullptr;
  void* d = nullptr;
  int64_t lda = 0, ldb = 0, ldc = 0;
  void* stream = nullptr;  // a cudaStream_t
};

struct Chosen {
  const char* path = "none";
  int tile_m = 0, tile_n = 0, tile_k = 0;
};

// The revision's full name.
std::string commit();

// Empty, or why this program has no pinned revision: one sentence.
std::string missing();

// Launches the revision's gemm() with GemmBounds::none: full tiles and 16-byte aligned pitches, else it is refused. Empty, or why
// nothing was launched. Never synchronises.
std::string gemm(const Gemm& g, Chosen* chosen = nullptr);

}  // namespace pinned
