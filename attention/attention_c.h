/* Attention for C, and for what calls C: O = softmax(scale * Q * K^T) * V, see attention/attention_arguments.cuh. Library:
 * build/attention/libgrout_attention.so.
 *
 *   grout_attention_arguments a = grout_attention_defaults();
 *   a.heads = 16, a.kv_heads = 4, a.q_length = 1, a.kv_length = 4097, a.scale = 0.0884f, a.causal = 1;
 *   a.q = q, a.q_row = 16 * 128, a.q_head = 128, a.k = k, ...
 *   if (grout_attention(&a, stream, NULL, message, sizeof message) != GROUT_OK) puts(message);                           */
#pragma once
#include <string.h>

#include "common/c_abi.h"

enum {
  GROUT_ATTENTION_AUTO = 0, /* by problem and device */
  GROUT_ATTENTION_MMA = 1   /* warp-level tensor cores */
};

typedef struct grout_attention_arguments {
  uint32_t size;    /* sizeof(grout_attention_arguments) */
  int32_t type;     /* GROUT_BF16 or GROUT_F16: of Q, K, V and O */
  int32_t causal;   /* 1: query i sees the keys j <= i + kv_length - q_length; 0: all */
  int32_t kernel;   /* GROUT_ATTENTION_AUTO ... */
  int32_t splits;   /* parts that the keys are cut into, one block each; 0 chooses */
  float scale;      /* of Q * K^T, usually 1 / sqrt(dim) */
  int64_t batch, heads, kv_heads; /* kv_heads divides heads */
  int64_t q_length, kv_length;    /* rows of Q and O, of K and V; packed: the longest of any sequence, or more */
  int64_t dim;                    /* 1 to 256 */
  const void *q, *k, *v;
  void* o;                        /* overlaps nothing else */
  float* lse;                     /* null, or [batch, heads, q_length]; packed: [heads, q_rows] */
  /* Elements from one sequence, row and head to the next; those of one row of one head are neighbours. */
  int64_t q_batch, q_row, q_head;
  int64_t k_batch, k_row, k_head;
  int64_t v_batch, v_row, v_head;
  int64_t o_batch, o_row, o_head;
  /* Packed: sequence b has rows offsets[b] to offsets[b + 1] - 1, batch + 1 numbers in device memory; else both null. None of these
     rows lies below 0, nor, of Q, at q_rows or behind. */
  const int32_t *q_offsets, *kv_offsets;
  int64_t q_rows;                 /* packed: rows of Q and O in all */
  void* workspace;                /* null, or memory for the parts' results, 16-byte aligned, of at least */
  uint64_t workspace_bytes;       /* grout_attention_workspace_bytes, free until the stream is done */
} grout_attention_arguments;

/* What was launched; "none" where there was nothing to compute. */
typedef struct grout_attention_choice {
  uint32_t size; /* sizeof(grout_attention_choice), set by the caller */
  int32_t tile_q, tile_k, tile_dim;
  int32_t threads, splits;
  uint64_t shared_bytes;
  int64_t blocks;
  char kernel[16]; /* "mma" */
  char path[16];   /* "aligned", "bounded", "realign" */
  char reason[128];
} grout_attention_choice;

/* One sequence of one head of dim 128, all keys seen: scale 1, bf16; all else zero, null or automatic. */
static inline grout_attention_arguments grout_attention_defaults(void) {
  grout_attention_arguments a;
  memset(&a, 0, sizeof a);
  a.size = (uint32_t)sizeof a;
  a.scale = 1;
  a.batch = a.heads = a.kv_heads = 1;
  a.dim = 128;
  return a;
}

/* Computes O, and LSE where it is wanted, on the stream. `choice` may be null; it is written on GROUT_OK only. */
GROUT_C int32_t grout_attention(const grout_attention_arguments* arguments, void* stream, grout_attention_choice* choice,
                                char* message, size_t message_bytes);

/* Bytes of workspace with which grout_attention need not allocate: 0 unless the keys are cut into parts, which depends on
 * the device. */
GROUT_C int32_t grout_attention_workspace_bytes(const grout_attention_arguments* arguments, uint64_t* bytes, char* message,
                                                size_t message_bytes);
