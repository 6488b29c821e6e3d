// Edges of the attention's arguments that seeded cases do not reach, for both devices: strides of every kind, more parts than
// keys, devices of less shared memory, more heads to a key head than a tile has rows. `use` and `guard`: attention_published.cuh.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/kernels/attention_cases.cuh"

namespace grout::test {

// A call on operands stored anyhow; O's storage is `o`.
template <class Use>
void expect_stored_anyhow_is_right(const AttentionProblem& p, const StoredHeads& q, const StoredHeads& k,
                                   const StoredHeads& v, const StoredHeads& o, int splits, int schedule, const Use& use,
                                   size_t guard) {
  AttentionCase x;
  x.schedule = schedule % 10;
  use(x);
  AttentionFixture f(p, q, k, v, o, {}, splits != 2, 0, guard);
  AttentionArguments a = f.arguments<AttentionArguments>();
  a.splits = splits;
  const Status status = run_attention(a, nullptr);
  ASSERT_TRUE(status) << f.describe() << ": " << status.message;
  const AttentionComparison result = f.verify("splits " + std::to_string(splits));
  ASSERT_TRUE(result.pass()) << result.message;
}

// Each stride of Q, K and V by itself: backwards, 0, less than a row and far; aligned and not; many rows and few. K and V lie
// in different orders, and O with its heads outside and gaps.
template <class Use>
void expect_any_stride_is_right(const Use& use, size_t guard) {
  int turn = 0;
  for (const int64_t dim : {64, 33, 136})
    for (const int64_t queries : {3, 70})
      for (int operand = 0; operand < 3; ++operand)
        for (int64_t StoredHeads::*stride :
             {&StoredHeads::batch_stride, &StoredHeads::row_stride, &StoredHeads::head_stride})
          for (const int64_t factor : {-1, 0, 8, 3}) {
            AttentionProblem p;
            p.type = turn % 2 ? ElementType::f16 : ElementType::bf16, p.batch = 2, p.heads = 4, p.kv_heads = 2;
            p.q_length = queries, p.kv_length = 75, p.dim = dim, p.scale = 0.125f, p.causal = turn % 3 == 0;
            StoredHeads q = stored_heads(p.type, 2, queries, 4, dim), k = stored_heads(p.type, 2, 75, 2, dim),
                        v = stored_heads(p.type, 2, 75, 2, dim, HeadOrder::bhsd, {8, 16, 24}),
                        o = stored_heads(p.type, 2, queries, 4, dim, HeadOrder::bhsd, {turn % 9, 5, 7}, turn % 8);
            int64_t& changed = (operand == 0 ? q : operand == 1 ? k : v).*stride;
            changed = factor <= 0 ? changed * factor : factor == 8 ? 8 : changed * factor;
            expect_stored_anyhow_is_right(p, q, k, v, o, turn % 4, turn, use, guard);
            if (::testing::Test::HasFatalFailure()) return;
            ++turn;
          }
  EXPECT_EQ(turn, 3 * 2 * 3 * 3 * 4);
}

// Every number of parts, most of them without a key.
template <class Use>
void expect_more_parts_than_keys_are_right(const Use& use, size_t guard) {
  for (int splits = 1; splits <= 128; ++splits) {
    AttentionCase x;
    x.q_length = splits % 2 ? 5 : 66, x.kv_length = splits % 5 * 40, x.dim = splits % 3 ? 64 : 20, x.splits = splits;
    x.causal = splits % 7 == 0, x.lse = splits % 4 != 0, x.own_workspace = splits % 3 == 0, x.schedule = splits % 10;
    use(x);
    AttentionChoice choice;
    ASSERT_TRUE(AttentionData(x, guard).right(&choice));
    EXPECT_EQ(choice.splits, splits);
  }
}

// Blocks of 99 and of 163 KiB, those of the smallest devices and of sm_80.
template <class Use>
void expect_smaller_devices_are_right(const Use& use, size_t guard) {
  int turn = 0;
  for (const size_t kib : {99, 163})
    for (const int64_t dim : {64, 128, 121, 129, 200, 256})
      for (const int64_t queries : {1, 17, 150})
        for (const int64_t keys : {15, 64, 100}) {
          AttentionCase x;
          x.heads = 4, x.kv_heads = 2, x.q_length = queries, x.kv_length = keys, x.dim = dim, x.causal = turn % 2;
          x.type = turn % 3 ? ElementType::bf16 : ElementType::f16, x.splits = turn % 4, x.schedule = turn % 10;
          if (turn % 5 == 0) x.k.offset = 3;
          ++turn;
          use(x);
          AttentionData data(x, guard);
          AttentionChoice choice;
          const Status status = run_attention_within(kib << 10, data.call(), nullptr, choice);
          ASSERT_TRUE(status) << data.describe() << ": " << status.message;
          EXPECT_LE(choice.shared_bytes, kib << 10);
          const AttentionComparison result = data.verify();
          ASSERT_TRUE(result.pass()) << result.message;
        }
}

// All query heads on one key head, around and above the rows that share a tile.
template <class Use>
void expect_many_heads_on_one_are_right(const Use& use, size_t guard) {
  int turn = 0;
  for (const int64_t heads : {15, 16, 17, 63, 64, 65, 71, 128})
    for (const int64_t queries : {1, 4, 5})
      for (const bool causal : {false, true}) {
        AttentionCase x;
        x.heads = heads, x.q_length = queries, x.kv_length = 90, x.dim = 40, x.causal = causal, x.splits = turn % 3;
        x.q.order = turn % 2 ? HeadOrder::bhsd : HeadOrder::bshd,
        x.o.order = turn % 4 < 2 ? HeadOrder::bhsd : HeadOrder::bshd;
        x.schedule = turn++ % 10;
        use(x);
        ASSERT_TRUE(AttentionData(x, guard).right());
      }
}

}  // namespace grout::test
