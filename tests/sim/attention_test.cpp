// Attention on the simulated device: seeded cases over every factor of its contract. Masks and exact results, published bug
// reports as cases, accuracy and refusals: attention_*.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "tests/kernels/attention_call.cu"
#include "tests/sim/attention_fixture.h"

namespace grout::test {
namespace {

constexpr double kMostWork = 16e6;  // multiply-adds of a case, in tiles of 64: about 0.05 s

TEST_F(Attention, SeededCases) {
  constexpr int kCases = 280, kLeast = 200, kThreadSanitizerLeast = 20;
  FactorCounts factors;
  std::set<std::string> schedules;
  int ran = 0, launched = 0, failed = 0;
  for (AttentionCase x : attention_cases(kCases, 1, kMostWork)) {
    if (thread_sanitizer()) {
      if (launched == kThreadSanitizerLeast) break;
      // At most four blocks of a few tiles, and three modes, of which the greedy one is best at meeting in the wrong order.
      x.batch = 1, x.heads /= x.kv_heads, x.kv_heads = 1, x.heads = std::min<int64_t>(x.heads, 2),
      x.splits = std::min(x.splits, 2);
      if (x.q_lengths.size() > 2)
        x.q_lengths = {x.q_lengths[0], x.q_lengths[1]}, x.kv_lengths = {x.kv_lengths[0], x.kv_lengths[1]};
      for (int32_t& length : x.q_lengths) length = std::min(length, 64);
      x.q_length = std::min<int64_t>(x.q_length, 64);
      x.schedule = launched % 3 == 2 ? 7 : launched % 3 == 1 ? 2 : 3;
    }
    AttentionChoice choice;
    if (!right(x, &choice) && ++failed > 10) FAIL() << "more than 10 cases failed";
    ++ran;
    launched += std::string(choice.kernel) != "none";
    count_attention_factors(factors, x, choice);
    schedules.insert(mode());
  }
  std::printf("%d cases, %d of them launched a kernel, %zu schedules\n", ran, launched, schedules.size());
  if (thread_sanitizer()) {
    EXPECT_GE(launched, kThreadSanitizerLeast);
    EXPECT_EQ(schedules, (std::set<std::string>{"warp_greedy late", "random late", "random early"}));
    return;
  }
  factors.print();
  expect_attention_factors(factors);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  EXPECT_GE(ran, kLeast);
  EXPECT_EQ(schedules.size(), 10u);
}

// Every dimension, against queries and keys that fill tiles or not.
TEST_F(AttentionSlow, EveryDimension) {
  int ran = 0;
  std::set<std::string> tiles;
  for (int64_t dim = 1; dim <= 256; ++dim) {
    for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{5, 70}, {65, 33}}) {
      AttentionCase x;
      x.q_length = queries, x.kv_length = keys, x.dim = dim, x.causal = ran % 2,
      x.type = ran % 3 ? ElementType::bf16 : ElementType::f16;
      x.schedule = ran % 10, x.seed = static_cast<uint64_t>(ran), x.splits = ran % 4;
      AttentionChoice choice;
      ASSERT_TRUE(right(x, &choice));
      tiles.insert(std::to_string(choice.tile_q) + "x" + std::to_string(choice.tile_k) + "x" +
                   std::to_string(choice.tile_dim));
      ++ran;
    }
  }
  std::printf("%d cases in tiles", ran);
  for (const std::string& tile : tiles) std::printf(" %s", tile.c_str());
  std::printf("\n");
  EXPECT_EQ(ran, 512);
}

// The bits of O and LSE do not depend on what lies outside the logical operands: NaN, infinities, zeros.
TEST_F(AttentionSlow, PaddingChangesNoBit) {
  int compared = 0;
  for (const AttentionCase& x : attention_cases(40, 2, kMostWork, {1, 7, 17, 33, 64, 65, 97})) {
    use(x);
    std::vector<unsigned char> first;
    const uint16_t infinity = x.type == ElementType::bf16 ? 0x7f80 : 0x7c00;
    for (const uint16_t padding : {uint16_t{0xffff}, uint16_t{0}, infinity, static_cast<uint16_t>(infinity | 0x8000)}) {
      AttentionData data(x, guard(), padding);
      ASSERT_TRUE(run_attention(data.call(), nullptr));
      if (first.empty())
        first = data.bits();
      else
        EXPECT_EQ(first, data.bits()) << data.describe() << " with padding " << padding;
      ++compared;
    }
  }
  std::printf("%d outputs compared\n", compared);
  EXPECT_EQ(compared, 160);
}

// 200 runs under all schedules give the same bits, with one part and with several.
TEST_F(AttentionSlow, RepeatsAreBitIdentical) {
  for (const int splits : {1, 3}) {
    AttentionCase x;
    x.q_length = 33, x.kv_length = 150, x.dim = 33, x.heads = 2, x.causal = true, x.splits = splits, x.spread = 4;
    std::vector<unsigned char> first;
    for (int i = 0; i < 100; ++i) {
      x.schedule = i % 10;
      use(x);
      sim::options().seed = static_cast<uint64_t>(i);
      AttentionData data(x, guard());
      ASSERT_TRUE(run_attention(data.call(), nullptr));
      if (i == 0) first = data.bits();
      ASSERT_EQ(first, data.bits()) << "repeat " << i << " with " << splits << " parts";
    }
  }
}

// The caller's workspace: as large as asked for, and nothing beyond it is touched; smaller or misaligned, it is refused.
TEST_F(AttentionSlow, Workspace) {
  AttentionCase x;
  x.q_length = 40, x.kv_length = 300, x.heads = 2, x.splits = 3, x.own_workspace = true;
  use(x);
  AttentionData data(x, guard());
  AttentionArguments a = data.call();
  ASSERT_GT(a.workspace_bytes, 0u);
  const auto before = data.bits();
  const size_t bytes = a.workspace_bytes;
  a.workspace_bytes = bytes - 1;
  Status status = run_attention(a, nullptr);
  EXPECT_EQ(status.code, Code::invalid) << status.message;
  EXPECT_NE(status.message.find(std::to_string(bytes)), std::string::npos) << status.message;
  a.workspace = static_cast<char*>(a.workspace) + 4, a.workspace_bytes = bytes;
  status = run_attention(a, nullptr);
  EXPECT_EQ(status.code, Code::invalid) << status.message;
  EXPECT_EQ(before, data.bits());
  AttentionChoice choice;
  data.right(&choice);
  EXPECT_EQ(choice.splits, 3);
}

}  // namespace
}  // namespace grout::test
