// The attention's C interface: checks what C cannot, then calls attention.cuh.
#include "attention/attention_c.h"
#include "attention/attention.cuh"
#include "common/c_abi.cuh"

namespace grout {
namespace {
Status attention_arguments(const grout_attention_arguments* from, AttentionArguments& a) {
  if (Status status = check_struct("grout_attention_arguments", from); !status) return status;
  if (Status status = check_type("type", from->type); !status) return status;
  if (Status status = check_named("causal", from->causal, {"no", "yes"}); !status) return status;
  if (Status status = check_named("kernel", from->kernel, {"automatic", "mma"}); !status) return status;
  static_assert(GROUT_ATTENTION_AUTO == static_cast<int>(AttentionKernel::automatic) &&
                GROUT_ATTENTION_MMA == static_cast<int>(AttentionKernel::mma));
  a.batch = from->batch, a.heads = from->heads, a.kv_heads = from->kv_heads;
  a.q_length = from->q_length, a.kv_length = from->kv_length, a.dim = from->dim;
  a.type = static_cast<ElementType>(from->type);
  a.q = from->q, a.k = from->k, a.v = from->v, a.o = from->o, a.lse = from->lse;
  a.q_stride = {from->q_batch, from->q_row, from->q_head}, a.k_stride = {from->k_batch, from->k_row, from->k_head};
  a.v_stride = {from->v_batch, from->v_row, from->v_head}, a.o_stride = {from->o_batch, from->o_row, from->o_head};
  a.scale = from->scale, a.causal = from->causal != 0;
  a.q_offsets = from->q_offsets, a.kv_offsets = from->kv_offsets, a.q_rows = from->q_rows;
  a.kernel = static_cast<AttentionKernel>(from->kernel), a.splits = from->splits;
  a.workspace = from->workspace, a.workspace_bytes = static_cast<size_t>(from->workspace_bytes);
  return {};
}

void report_choice(const AttentionChoice& choice, grout_attention_choice& to) {
  to.tile_q = choice.tile_q, to.tile_k = choice.tile_k, to.tile_dim = choice.tile_dim;
  to.threads = choice.threads, to.splits = choice.splits;
  to.shared_bytes = choice.shared_bytes;
  to.blocks = choice.blocks;
  copy_text(choice.kernel, to.kernel, sizeof to.kernel);
  copy_text(choice.blocks > 0 ? choice.path : "none", to.path, sizeof to.path);
  copy_text(choice.reason, to.reason, sizeof to.reason);
}
}  // namespace
}  // namespace grout

int32_t grout_attention(const grout_attention_arguments* arguments, void* stream, grout_attention_choice* choice,
                        char* message, size_t message_bytes) {
  using namespace grout;
  return c_call(message, message_bytes, [&]() -> Status {
    AttentionArguments a;
    if (Status status = attention_arguments(arguments, a); !status) return status;
    if (Status status = choice == nullptr ? Status{} : check_struct("grout_attention_choice", choice); !status)
      return status;
    AttentionChoice chosen;
    if (Status status = attention(a, static_cast<cudaStream_t>(stream), &chosen); !status) return status;
    if (choice != nullptr) report_choice(chosen, *choice);
    return {};
  });
}

int32_t grout_attention_workspace_bytes(const grout_attention_arguments* arguments, uint64_t* bytes, char* message,
                                        size_t message_bytes) {
  using namespace grout;
  return c_call(message, message_bytes, [&]() -> Status {
    AttentionArguments a;
    if (bytes == nullptr) return invalid("bytes is null, and the answer goes there");
    *bytes = 0;
    if (Status status = attention_arguments(arguments, a); !status) return status;
    if (Status status = attention_check_extents(a); !status) return status;
    size_t needed = 0;
    if (Status status = attention_workspace_bytes(a, needed); !status) return status;
    *bytes = needed;
    return {};
  });
}
