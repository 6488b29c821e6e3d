// The attention host entry for tests, without the kernels' templates: attention_call.cu holds the only instantiation of
// them, so that a test program compiles in seconds.
#pragma once
#include "attention/attention_arguments.cuh"

namespace grout::test {

// attention() and attention_workspace_bytes() themselves.
Status run_attention(const AttentionArguments& arguments, cudaStream_t stream, AttentionChoice* choice = nullptr);
// On a device of no more shared memory a block than that.
Status run_attention_within(size_t shared_bytes, const AttentionArguments& arguments, cudaStream_t stream,
                            AttentionChoice& choice);
Status attention_workspace(const AttentionArguments& arguments, size_t& bytes);

}  // namespace grout::test
