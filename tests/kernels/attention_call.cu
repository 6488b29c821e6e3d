// The one place in the tests where the attention kernels are instantiated.
#include "tests/kernels/attention_call.cuh"

#include "attention/attention.cuh"

namespace grout::test {

Status run_attention(const AttentionArguments& arguments, cudaStream_t stream, AttentionChoice* choice) {
  return attention(arguments, stream, choice);
}
Status attention_workspace(const AttentionArguments& arguments, size_t& bytes) { return attention_workspace_bytes(arguments, bytes); }

}  // namespace grout::test
