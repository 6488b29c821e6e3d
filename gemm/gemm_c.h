/* The GEMM for C, and for what calls C: D = alpha * A * B + beta * C, see gemm/gemm.cuh. Library: build/gemm/libgrout_gemm.so.
 *
 *   grout_gemm_arguments g = grout_gemm_defaults();
 *   g.m = 65, g.n = 97, g.k = 73, g.a = a, g.b = b, g.d = d, g.lda = 73, g.ldb = 97, g.ldc = 97;
 *   if (grout_gemm(&g, stream, NULL, message, sizeof message) != GROUT_OK) puts(message);                                   */
#pragma once
#include <string.h>

#include "common/c_abi.h"

enum {
  GROUT_BOUNDS_AUTO = 0,     /* by the dimensions */
  GROUT_BOUNDS_CHECKED = 1,  /* takes everything */
  GROUT_BOUNDS_NONE = 2      /* the aligned path, refused unless tiles are full and pitches aligned */
};

typedef struct grout_gemm_arguments {
  uint32_t size;             /* sizeof(grout_gemm_arguments) */
  int32_t type, out;         /* GROUT_BF16 ...: of A and B, of C and D */
  int32_t bounds;            /* GROUT_BOUNDS_AUTO ... */
  int32_t trans_a, trans_b;  /* 0: stored row-major as M x K, K x N; 1: as K x M, N x K */
  float alpha, beta;         /* beta = 0 never reads C; alpha = 0 or k = 0 never reads A or B */
  int64_t m, n, k;
  const void *a, *b, *c;
  void* d;                                      /* may be c; no other overlap with an operand */
  int64_t lda, ldb, ldc;                        /* elements from one stored row to the next; C and D share ldc */
  int64_t batch;                                /* matrices */
  int64_t batch_a, batch_b, batch_c, batch_d;   /* elements between matrices; 0 repeats one */
  void* workspace;                              /* null, or memory for copies of misaligned operands, 16-byte aligned, */
  uint64_t workspace_bytes;                     /* of at least grout_gemm_workspace_bytes, free until the stream is done */
} grout_gemm_arguments;

/* What was launched; "none" where there was nothing to compute. */
typedef struct grout_gemm_choice {
  uint32_t size; /* sizeof(grout_gemm_choice), set by the caller */
  int32_t tile_m, tile_n, tile_k;
  int32_t threads;
  uint32_t shared_bytes;
  int64_t tiles;
  char kernel[16]; /* "mma" */
  char path[16];   /* "aligned", "bounded", "realign", "repack" */
  char reason[128];
} grout_gemm_choice;

/* One product: alpha 1, beta 0, batch 1, bf16; all else zero, null or automatic. */
static inline grout_gemm_arguments grout_gemm_defaults(void) {
  grout_gemm_arguments g;
  memset(&g, 0, sizeof g);
  g.size = (uint32_t)sizeof g;
  g.alpha = 1;
  g.batch = 1;
  return g;
}

/* Computes D on the stream. `choice` may be null; it is written on GROUT_OK only. */
GROUT_C int32_t grout_gemm(const grout_gemm_arguments* arguments, void* stream, grout_gemm_choice* choice, char* message,
                           size_t message_bytes);

/* Bytes of workspace with which grout_gemm need not allocate: 0 unless misaligned operands are worth copying, which depends on
 * their addresses. */
GROUT_C int32_t grout_gemm_workspace_bytes(const grout_gemm_arguments* arguments, uint64_t* bytes, char* message,
                                           size_t message_bytes);
