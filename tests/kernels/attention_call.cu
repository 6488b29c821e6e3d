// The one place in the tests where the attention kernels are instantiated.
#include "tests/kernels/attention_call.cuh"

#include <algorithm>

#include "attention/attention.cuh"

namespace grout::test {

Status run_attention(const AttentionArguments& arguments, cudaStream_t stream, AttentionChoice* choice) {
  return attention(arguments, stream, choice);
}
Status run_attention_within(size_t shared_bytes, const AttentionArguments& arguments, cudaStream_t stream,
                            AttentionChoice& choice) {
  if (Status status = attention_check(arguments); !status) return status;
  return detail::attention_on_device(arguments, [&]<class T>(std::type_identity<T>, DeviceInfo device) {
    device.shared_per_block = std::min(device.shared_per_block, shared_bytes);
    return detail::attention_launch<T>(arguments, device, stream, choice);
  });
}
Status attention_workspace(const AttentionArguments& arguments, size_t& bytes) { return attention_workspace_bytes(arguments, bytes); }

}  // namespace grout::test
