// What the attention's host entry refuses, on the simulated device: with a sentence, and nothing is written.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/sim/attention_fixture.h"

namespace grout::test {
namespace {

TEST_F(Attention, RefusalsTouchNothing) {
  struct Refusal {
    const char* what;
    void (*change)(AttentionArguments&);
    std::vector<std::string> in_message;
  };
  const std::vector<Refusal> refusals = {
      {"f32", [](AttentionArguments& a) { a.type = ElementType::f32; }, {"bf16", "f16", "f32"}},
      {"negative batch", [](AttentionArguments& a) { a.batch = -1; }, {"batch=-1"}},
      {"negative queries", [](AttentionArguments& a) { a.q_length = -4; }, {"-4 queries"}},
      {"negative keys", [](AttentionArguments& a) { a.kv_length = -4; }, {"-4 keys"}},
      {"too many keys", [](AttentionArguments& a) { a.kv_length = int64_t{1} << 31; }, {"2147483648 keys", "2^31"}},
      {"no heads", [](AttentionArguments& a) { a.heads = 0; }, {"heads=0"}},
      {"heads that do not divide", [](AttentionArguments& a) { a.kv_heads = 3; }, {"heads=4", "kv_heads=3"}},
      {"dim 0", [](AttentionArguments& a) { a.dim = 0; }, {"dim=0", "256"}},
      {"dim 257", [](AttentionArguments& a) { a.dim = 257; }, {"dim=257", "256"}},
      {"infinite scale",
       [](AttentionArguments& a) { a.scale = std::numeric_limits<float>::infinity(); },
       {"scale", "finite"}},
      {"one list of offsets",
       [](AttentionArguments& a) { a.q_offsets = reinterpret_cast<const int32_t*>(a.q); },
       {"offsets"}},
      {"more blocks than a grid has",
       [](AttentionArguments& a) {
         a.batch = 32768, a.heads = 65536, a.kv_heads = 1, a.q_length = 1, a.lse = nullptr;
         a.q_stride = a.k_stride = a.v_stride = {}, a.o_stride = {65536 * 128, 0, 128};
         a.o = reinterpret_cast<void*>(uintptr_t{1} << 60);
       },
       {"batch=32768", "heads=65536", "1 queries", "2147483648 blocks", "2^31 - 1"}},
      // Inside one other buffer, here and below: what lies behind it, an allocator decides.
      {"K in the workspace", [](AttentionArguments& a) { a.splits = 3, a.k = a.workspace; }, {"workspace overlaps K"}},
      {"129 parts", [](AttentionArguments& a) { a.splits = 129; }, {"splits=129", "128"}},
      {"-1 parts", [](AttentionArguments& a) { a.splits = -1; }, {"splits=-1", "128"}},
      {"strides beyond addresses", [](AttentionArguments& a) { a.k_stride.row = INT64_MAX / 4; }, {"62-bit"}},
      {"overlapping rows", [](AttentionArguments& a) { a.o_stride.row = 1; }, {"rows of O", "1"}},
      {"null Q", [](AttentionArguments& a) { a.q = nullptr; }, {"Q is null"}},
      {"null K", [](AttentionArguments& a) { a.k = nullptr; }, {"K is null"}},
      {"null V", [](AttentionArguments& a) { a.v = nullptr; }, {"V is null"}},
      {"null O", [](AttentionArguments& a) { a.o = nullptr; }, {"O is null"}},
      {"half an element", [](AttentionArguments& a) { a.v = static_cast<const char*>(a.v) + 1; }, {"V", "aligned"}},
      {"half an LSE",
       [](AttentionArguments& a) { a.lse = reinterpret_cast<float*>(reinterpret_cast<char*>(a.lse) + 2); },
       {"LSE", "aligned"}},
      {"O is Q", [](AttentionArguments& a) { a.q = a.o; }, {"O overlaps Q"}},
      {"O is K", [](AttentionArguments& a) { a.k = a.o; }, {"O overlaps K"}},
      {"V in LSE", [](AttentionArguments& a) { a.v = a.lse, a.v_stride = {}; }, {"LSE overlaps V"}},
      {"LSE in O", [](AttentionArguments& a) { a.lse = static_cast<float*>(a.o); }, {"LSE overlaps O"}},
      {"a workspace of 1 byte", [](AttentionArguments& a) { a.splits = 3, a.workspace_bytes = 1; }, {"1"}},
      {"a workspace of half a vector",
       [](AttentionArguments& a) {
         a.splits = 3, a.workspace = static_cast<char*>(a.workspace) + 8, a.workspace_bytes = 1 << 20;
       },
       {"16"}},
  };
  AttentionCase x;
  x.heads = 4, x.kv_heads = 2, x.q_length = 40, x.kv_length = 300, x.batch = 2;
  AttentionData data(x, guard());
  const DeviceBuffer workspace((1 << 20) + 16, 0, kPoison, guard());
  const std::vector<unsigned char> before = data.bits();
  for (const Refusal& refusal : refusals) {
    AttentionArguments a = data.call();
    a.workspace = workspace.data(), a.workspace_bytes = 1 << 20;
    refusal.change(a);
    AttentionChoice choice;
    const Status status = run_attention(a, nullptr, &choice);
    EXPECT_EQ(status.code, Code::invalid) << refusal.what << ": " << status.message;
    for (const std::string& part : refusal.in_message)
      EXPECT_NE(status.message.find(part), std::string::npos)
          << refusal.what << ": no '" << part << "' in: " << status.message;
    EXPECT_EQ(status.message.find('\n'), std::string::npos) << refusal.what;
    EXPECT_STREQ(choice.kernel, "none") << refusal.what;
    EXPECT_EQ(before, data.bits()) << refusal.what;
    std::vector<unsigned char> scratch(workspace.size());
    workspace.download(scratch.data());
    EXPECT_EQ(scratch, std::vector<unsigned char>(scratch.size(), kPoison)) << refusal.what;
  }
  std::printf("%zu refusals\n", refusals.size());
}

}  // namespace
}  // namespace grout::test
