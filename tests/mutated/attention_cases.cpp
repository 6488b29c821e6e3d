// Runs the attention of attention_kernels.cpp in every mode of the simulated device, on problems that meet each of its
// barriers, waits and edges: "MODE: right", "wrong" or "report", a line each. What must come out says tests/tools/mutated.py.
#include <cstdio>

#include "attention/attention_arguments.cuh"
#include "common/check_attention.cuh"
#include "common/sim/sim.h"

namespace grout::test {
Status run_attention(const AttentionArguments& arguments, cudaStream_t stream);

namespace {
struct Case {
  int64_t heads, kv_heads, q_length, kv_length, dim;
  bool causal;
  float scale;
  int splits;
};
constexpr Case kCases[] = {
    {1, 1, 70, 290, 64, false, 0.5f, 1},   // tiles of many rows, whole and cut ones
    {1, 1, 140, 200, 56, true, -0.5f, 1},  // the diagonal, a negative scale
    {4, 1, 3, 330, 64, false, 0.5f, 1},    // few rows: warps divide the keys
    {2, 1, 4, 250, 64, true, -0.5f, 2},
};
}  // namespace
}  // namespace grout::test

int main() {
  using namespace grout;
  for (const sim::Asynchrony asynchrony : sim::kAsynchronies)
    for (const sim::Schedule schedule : sim::kSchedules) {
      sim::options().schedule = schedule, sim::options().asynchrony = asynchrony;
      const char* outcome = "right";
      std::string message;
      for (const test::Case& c : test::kCases) {
        const AttentionProblem p{ElementType::bf16, 1,        c.heads, c.kv_heads, c.q_length, c.kv_length, c.dim,
                                 c.scale,           c.causal, {},      {}};
        const StoredHeads rows = stored_heads(p.type, 1, c.q_length, c.heads, c.dim);
        const StoredHeads keys = stored_heads(p.type, 1, c.kv_length + 64, c.kv_heads, c.dim);
        const AttentionFixture f(p, rows, keys, keys, rows, {});
        AttentionArguments a = f.arguments<AttentionArguments>();
        a.splits = c.splits;
        if (const Status status = test::run_attention(a, nullptr); !status)
          outcome = "report", message = status.message;
        else if (const AttentionComparison result = f.verify(""); !result.pass())
          outcome = "wrong", message = result.message;
        else
          continue;
        break;
      }
      std::printf("%s %s: %s %.200s\n", sim::name(schedule), sim::name(asynchrony), outcome,
                  message.substr(0, message.find('\n', 1)).c_str());
    }
}
