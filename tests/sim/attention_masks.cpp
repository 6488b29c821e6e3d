// Which keys a query sees, and results that are known exactly.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sim/attention_fixture.h"

namespace grout::test {
namespace {

// The keys that query i sees, by a result that only they could have: Q = 0, so that all visible keys weigh the same, and V is 1
// in element j of row j, so that O[i, j] is 1 / (number of keys seen) or 0.
std::vector<std::string> seen(int64_t queries, int64_t keys, bool causal, int splits) {
  AttentionCase x;
  x.q_length = queries, x.kv_length = keys, x.dim = keys, x.causal = causal, x.splits = splits;
  use(x);
  AttentionData data(x, guard());
  for (int64_t i = 0; i < queries; ++i) data.f.q.set_row(0, i, 0, 0);
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t d = 0; d < keys; ++d) data.f.v.set(0, j, 0, d, d == j ? 1.f : 0.f);
  data.f.upload();
  EXPECT_TRUE(data.right());
  const HostHeads o = data.f.output();
  std::vector<std::string> rows;
  for (int64_t i = 0; i < queries; ++i) {
    std::string row;
    for (int64_t j = 0; j < keys; ++j) row += o.get(0, i, 0, j) > 0 ? '1' : o.get(0, i, 0, j) == 0 ? '.' : '?';
    rows.push_back(row);
  }
  return rows;
}

TEST_F(Attention, LiteralMasks) {
  for (const int splits : {0, 1, 2}) {
    EXPECT_EQ(seen(2, 5, true, splits), (std::vector<std::string>{"1111.", "11111"}));
    EXPECT_EQ(seen(5, 2, true, splits), (std::vector<std::string>{"..", "..", "..", "1.", "11"}));
    EXPECT_EQ(seen(3, 3, true, splits), (std::vector<std::string>{"1..", "11.", "111"}));
    EXPECT_EQ(seen(2, 5, false, splits), (std::vector<std::string>{"11111", "11111"}));
  }
}

// Causal, with lengths that differ in both directions by less and more than a tile. 3 queries against 128 keys: a published report.
TEST_F(AttentionSlow, CausalWithDifferentLengths) {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{3, 128}, {1, 128}, {64, 65}, {65, 64}, {128, 3}, {200, 64}, {64, 200}, {129, 127}})
    for (const int splits : {0, 1, 2, 5}) {
      AttentionCase x;
      x.q_length = queries, x.kv_length = keys, x.dim = 128, x.causal = true, x.splits = splits, x.heads = 2, x.kv_heads = 1;
      x.schedule = static_cast<int>(queries + splits) % 10;
      right(x);
    }
}

// Queries that see no key: exactly 0 and -inf, beside queries that see some, for whole tiles and parts of the keys.
TEST_F(AttentionSlow, QueriesThatSeeNoKey) {
  for (const int64_t queries : {2, 17, 65, 130, 200})
    for (const int64_t keys : {0, 1, 16, 33, 64})
      for (const int splits : {0, 1, 3}) {
        AttentionCase x;
        x.q_length = queries, x.kv_length = keys, x.causal = true, x.splits = splits, x.dim = splits == 3 ? 33 : 64;
        x.schedule = static_cast<int>(keys) % 10;
        use(x);
        AttentionData data(x, guard());
        if (!data.right()) return;
        const HostHeads o = data.f.output();
        const std::vector<float> lse = data.f.lse_output();
        for (int64_t i = 0; i < queries - keys; ++i) {
          EXPECT_EQ(lse[static_cast<size_t>(i)], -INFINITY) << data.describe();
          for (int64_t d = 0; d < x.dim; ++d) ASSERT_EQ(o.get(0, i, 0, d), 0.f) << data.describe();
        }
      }
}

// No keys at all, causal or not; K, V and Q may be null then.
TEST_F(AttentionSlow, NoKeys) {
  for (const bool causal : {false, true})
    for (const int splits : {0, 1, 3}) {
      AttentionCase x;
      x.q_length = 70, x.kv_length = 0, x.heads = 3, x.kv_heads = 1, x.batch = 2, x.causal = causal, x.splits = splits;
      EXPECT_TRUE(right(x, nullptr, true));
      AttentionData data(x, guard());
      AttentionArguments a = data.call();
      a.q = a.k = a.v = nullptr;
      const Status status = run_attention(a, nullptr);
      ASSERT_TRUE(status) << status.message;
      const AttentionComparison result = data.verify(true);
      EXPECT_TRUE(result.pass()) << result.message;
    }
}

// Nothing to write: success without a launch, whatever the pointers.
TEST_F(AttentionSlow, EmptyOutputsLaunchNothing) {
  for (const auto& [batch, queries] : {std::pair{0, 5}, std::pair{2, 0}, std::pair{0, 0}}) {
    AttentionArguments a;
    a.batch = batch, a.q_length = queries, a.kv_length = 4;
    a.o_stride = {640, 128, 128};
    AttentionChoice choice;
    const Status status = run_attention(a, nullptr, &choice);
    EXPECT_TRUE(status) << status.message;
    EXPECT_STREQ(choice.kernel, "none");
    EXPECT_EQ(choice.blocks, 0);
  }
}

// One visible key: O is V's row, all bits.
TEST_F(AttentionSlow, OneKeyGivesItsValue) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const int64_t dim : {1, 33, 64, 128, 256})
      for (const int splits : {0, 1, 2}) {
        AttentionCase x;
        x.q_length = 66, x.kv_length = 1, x.heads = 4, x.kv_heads = 2, x.dim = dim, x.type = type, x.splits = splits, x.integers = true;
        EXPECT_TRUE(right(x, nullptr, true));
        x.q_length = 1, x.causal = true, x.integers = false;
        EXPECT_TRUE(right(x, nullptr, true));
      }
}

// Equal logits, a power of two of keys, small integers in V: every step is exact, so O is the mean rounded once, and LSE is the
// logit plus log(keys).
TEST_F(AttentionSlow, EqualLogitsGiveTheMeanExactly) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const int64_t keys : {2, 4, 16, 64, 128, 256})
      for (const float key : {0.f, 1.f, -2.f})
        for (const int splits : {1, 2}) {
          AttentionCase x;
          x.q_length = 20, x.kv_length = keys, x.type = type, x.integers = true, x.splits = splits, x.scale = 0.125f;
          x.dim = keys % 3 == 1 ? 64 : 40;
          x.schedule = static_cast<int>(keys) % 10;
          use(x);
          AttentionData data(x, guard());
          for (int64_t j = 0; j < keys; ++j) data.f.k.set_row(0, j, 0, key);
          data.f.upload();
          EXPECT_TRUE(data.right(nullptr, true));
        }
}

// Grouped heads: each query head meets its own key head, and neighbouring ones share one. V holds the key head's number.
TEST_F(AttentionSlow, KeyHeadsOfQueryHeads) {
  for (const auto& [heads, kv_heads] : {std::pair<int64_t, int64_t>{6, 2}, {6, 3}, {8, 1}, {5, 5}, {12, 4}})
    for (const int64_t queries : {1, 3, 70}) {
      AttentionCase x;
      x.heads = heads, x.kv_heads = kv_heads, x.q_length = queries, x.kv_length = 64, x.batch = 2;
      use(x);
      AttentionData data(x, guard());
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t g = 0; g < kv_heads; ++g)
          for (int64_t j = 0; j < 64; ++j)
            data.f.v.set_row(b, j, g, static_cast<float>(10 * b + g)), data.f.k.set_row(b, j, g, 0.5f);
      data.f.upload();
      EXPECT_TRUE(data.right(nullptr, true));
      const HostHeads o = data.f.output();
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < queries; ++i)
            ASSERT_EQ(o.get(b, i, h, 3), static_cast<float>(10 * b + h / (heads / kv_heads))) << data.describe();
    }
}

}  // namespace
}  // namespace grout::test
