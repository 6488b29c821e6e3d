// TEST_TARGET: sm_80
// The attention sweep: every pair of 39 lengths of queries and of keys (1 to 33, and around 64 and 128), head dimensions 1,
// 8, 33, 64, 72, 128 and 256, causal and not, bf16 and f16, compact and at odd pitches and bases: 1521 sequences. Each set
// runs twice: as packed sequences in one launch, and one launch a sequence, in one part and in several. Reference and
// comparison stay on the device.
#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <vector>

#include "common/check_attention_gpu.cuh"
#include "tests/gpu/support.cuh"
#include "tests/kernels/attention_call.cuh"

namespace grout::test {
namespace {

class AttentionSweep : public GpuTest {};

std::vector<int32_t> swept_lengths() {
  if (short_run()) return {1, 2, 15, 17, 33, 63, 65};
  std::vector<int32_t> lengths(33);
  std::iota(lengths.begin(), lengths.end(), 1);
  for (const int32_t more : {63, 64, 65, 127, 128, 129}) lengths.push_back(more);
  return lengths;
}

// One sequence for every pair of lengths.
AttentionProblem swept_problem(ElementType type, int64_t dim, int64_t heads, int64_t kv_heads) {
  AttentionProblem p;
  p.type = type, p.heads = heads, p.kv_heads = kv_heads, p.dim = dim, p.scale = 1 / std::sqrt(static_cast<float>(dim));
  p.q_offsets = p.kv_offsets = {0};
  for (const int32_t queries : swept_lengths())
    for (const int32_t keys : swept_lengths()) {
      p.q_offsets.push_back(p.q_offsets.back() + queries), p.kv_offsets.push_back(p.kv_offsets.back() + keys);
      p.q_length = std::max<int64_t>(p.q_length, queries), p.kv_length = std::max<int64_t>(p.kv_length, keys);
    }
  p.batch = static_cast<int64_t>(p.q_offsets.size()) - 1;
  return p;
}

// Launches sequence b of f by itself: its rows of the packed operands are operands of their own.
Status run_alone(const AttentionFixture& f, const AttentionArguments& packed, int64_t b, int splits) {
  const SequenceRows s = sequence_rows(f.problem, b);
  AttentionArguments a = packed;
  a.q_offsets = a.kv_offsets = nullptr;
  a.batch = 1, a.q_length = s.q_length, a.kv_length = s.kv_length, a.splits = splits;
  const auto row = [](const void* base, int64_t first, const AttentionStrides& stride) {
    return static_cast<uint16_t*>(const_cast<void*>(base)) + first * stride.row;
  };
  a.q = row(packed.q, s.q_first, a.q_stride), a.o = row(packed.o, s.q_first, a.o_stride);
  a.k = row(packed.k, s.kv_first, a.k_stride), a.v = row(packed.v, s.kv_first, a.v_stride);
  a.lse = packed.lse + s.q_first;  // of one head
  return run_attention(a, nullptr);
}

struct Totals {
  int64_t packed = 0, alone = 0;
  double worst = 0, worst_lse = 0;
};

void sweep(ElementType type, int64_t dim, bool odd, int64_t heads, int64_t kv_heads, Totals& totals) {
  AttentionProblem p = swept_problem(type, dim, heads, kv_heads);
  const auto place = [&](int64_t rows, int64_t of_heads, int64_t offset) {
    return stored_heads(type, 1, rows, of_heads, dim, HeadOrder::bshd, odd ? HeadPads{1, 2, 0} : HeadPads{},
                        odd ? offset : 0);
  };
  AttentionFixture f(p, place(p.q_offsets.back(), heads, 3), place(p.kv_offsets.back(), kv_heads, 1),
                     place(p.kv_offsets.back(), kv_heads, 6), place(p.q_offsets.back(), heads, 5),
                     {false, static_cast<uint64_t>(dim), 8});
  for (const bool causal : {false, true}) {
    f.problem.causal = causal;
    const AttentionJudge judge(f, odd ? "odd pitches" : "compact");
    const auto expect_right = [&](const std::string& what) {
      const AttentionComparison result = verify_attention_on_gpu(f, judge);
      EXPECT_TRUE(result.pass()) << what << ": " << result.message;
      totals.worst = std::max(totals.worst, result.max_ratio),
      totals.worst_lse = std::max(totals.worst_lse, result.lse_ratio);
    };
    for (const int splits : {0, 2}) {
      f.reset();
      AttentionArguments a = f.arguments<AttentionArguments>();
      a.splits = splits;
      const Status status = run_attention(a, nullptr);
      ASSERT_TRUE(status) << f.describe() << ": " << status.message;
      expect_right("packed");
      totals.packed += p.batch;
    }
    if (heads > 1) continue;
    for (const int splits : {0, 3}) {
      f.reset();
      const AttentionArguments a = f.arguments<AttentionArguments>();
      for (int64_t b = 0; b < p.batch; ++b) {
        const Status status = run_alone(f, a, b, splits);
        ASSERT_TRUE(status) << "sequence " << b << " of " << f.describe() << ": " << status.message;
      }
      expect_right("one by one");
      totals.alone += p.batch;
    }
  }
}

TEST_F(AttentionSweep, LengthsAndDimensions) {
  const std::vector<int64_t> dims =
      short_run() ? std::vector<int64_t>{33, 64} : std::vector<int64_t>{1, 8, 33, 64, 72, 128, 256};
  const int64_t sequences = static_cast<int64_t>(swept_lengths().size() * swept_lengths().size());
  Totals totals;
  int64_t sets = 0;
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const int64_t dim : dims)
      for (const bool odd : {false, true}) {
        sweep(type, dim, odd, 1, 1, totals), sweep(type, dim, odd, 4, 2, totals);
        if (HasFatalFailure()) return;
        ++sets;
      }
  std::printf("%lld packed sequences and %lld by themselves; the worst ratio of error to bound is %.3f, of LSE %.3f\n",
              static_cast<long long>(totals.packed), static_cast<long long>(totals.alone), totals.worst, totals.worst_lse);
  EXPECT_EQ(totals.alone, sets * 4 * sequences);
  EXPECT_EQ(totals.packed, sets * 8 * sequences);
}

}  // namespace
}  // namespace grout::test
