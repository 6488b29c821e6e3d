// The attention host entry for tests, without the kernels' templates: attention_call.cu holds the only instantiation of
// them, so that a test program compiles in seconds.
#pragma once
#include "attention/attention_arguments.cuh"

namespace grout::test {

// attention() and attention_workspace_bytes() themselves.
Status run_attention(const AttentionArguments& arguments, cudaStream_t stream, AttentionChoice* choice = nullptr);
Status attention_workspace(const AttentionArguments& arguments, size_t& bytes);

}  // namespace grout::test
