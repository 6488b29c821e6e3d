// Which keys a query sees, and results that are known exactly.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernels/attention_published.cuh"
#include "tests/sim/attention_fixture.h"

namespace grout::test {
namespace {

const auto schedule = [](const AttentionCase& x) { use(x); };

TEST_F(Attention, LiteralMasks) { expect_literal_masks(schedule, guard()); }
TEST_F(AttentionSlow, CausalWithDifferentLengths) { expect_causal_with_different_lengths(schedule, guard()); }
TEST_F(AttentionSlow, QueriesThatSeeNoKey) { expect_zeros_where_no_key_is_seen(schedule, guard()); }
TEST_F(AttentionSlow, NoKeys) { expect_zeros_without_keys(schedule, guard()); }
TEST_F(AttentionSlow, OneKeyGivesItsValue) { expect_one_key_gives_its_value(schedule, guard()); }
TEST_F(AttentionSlow, EqualLogitsGiveTheMeanExactly) { expect_equal_logits_give_the_mean(schedule, guard()); }

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
