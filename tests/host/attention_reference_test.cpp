// The attention's reference and its checks themselves: the causal rule, known values, that a right result passes and each
// kind of wrong one fails.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/check_attention.cuh"

namespace grout {
namespace {

std::vector<std::string> table(int64_t queries, int64_t keys, bool causal) {
  std::vector<std::string> rows;
  for (int64_t i = 0; i < queries; ++i) {
    std::string row;
    for (int64_t j = 0; j < keys; ++j) row += sees(causal, queries, keys, i, j) ? '1' : '.';
    rows.push_back(row);
  }
  return rows;
}
TEST(AttentionReference, CausalTables) {
  EXPECT_EQ(table(2, 5, true), (std::vector<std::string>{"1111.", "11111"}));
  EXPECT_EQ(table(5, 2, true), (std::vector<std::string>{"..", "..", "..", "1.", "11"}));
  EXPECT_EQ(table(3, 3, true), (std::vector<std::string>{"1..", "11.", "111"}));
  EXPECT_EQ(table(2, 3, false), (std::vector<std::string>{"111", "111"}));
}
// The rows that both references go by, against the rule itself.
TEST(AttentionReference, RowsSeeWhatTheRuleSays) {
  for (const bool causal : {false, true})
    for (int64_t queries = 0; queries < 7; ++queries)
      for (int64_t keys = 0; keys < 7; ++keys) {
        AttentionProblem p;
        p.q_length = queries, p.kv_length = keys, p.batch = 2, p.causal = causal;
        const std::vector<AttentionRow> rows = attention_rows(p);
        ASSERT_EQ(rows.size(), static_cast<size_t>(2 * queries));
        for (int64_t i = 0; i < queries; ++i)
          for (int64_t j = 0; j < keys; ++j) {
            const AttentionRow& row = rows[static_cast<size_t>(queries + i)];
            EXPECT_EQ(j < row.visible, sees(causal, queries, keys, i, j));
            EXPECT_EQ(row.batch, 1);
            EXPECT_EQ(row.row, i);
          }
      }
}

AttentionProblem problem(int64_t queries, int64_t keys, int64_t dim, ElementType type = ElementType::bf16) {
  AttentionProblem p;
  p.type = type, p.batch = 2, p.heads = 4, p.kv_heads = 2, p.q_length = queries, p.kv_length = keys, p.dim = dim,
  p.scale = 0.5f;
  return p;
}
AttentionFixture fixture(const AttentionProblem& p, const AttentionFill& fill = {}) {
  const int64_t q_rows = p.packed() ? p.q_offsets.back() + 1 : p.q_length,
                kv_rows = p.packed() ? p.kv_offsets.back() + 1 : p.kv_length;
  const int64_t batch = p.packed() ? 1 : p.batch;
  return AttentionFixture(p, stored_heads(p.type, batch, q_rows, p.heads, p.dim, HeadOrder::bshd, {1, 2, 3}, 3),
                          reversed(stored_heads(p.type, batch, kv_rows, p.kv_heads, p.dim, HeadOrder::bhsd, {0, 5, 0}, 1)),
                          stored_heads(p.type, batch, kv_rows + 2, p.kv_heads, p.dim, HeadOrder::bshd, {3, 0, 1}, 7),
                          reversed(stored_heads(p.type, batch, q_rows, p.heads, p.dim, HeadOrder::bhsd, {2, 0, 9}, 5)), fill,
                          true, 3);
}
// What a perfect kernel would have written: the reference, rounded.
void write_right(AttentionFixture& f) {
  const AttentionReference ref = f.reference();
  HostHeads o = f.o;
  std::vector<float> lse = f.lse;
  for (size_t r = 0; r < ref.rows.size(); ++r)
    for (int64_t h = 0; h < ref.heads; ++h) {
      const AttentionRow& row = ref.rows[r];
      const size_t i = r * static_cast<size_t>(ref.heads) + static_cast<size_t>(h);
      for (int64_t d = 0; d < ref.dim; ++d)
        o.set(row.batch, row.row, h, d,
              static_cast<float>(ref.value[i * static_cast<size_t>(ref.dim) + static_cast<size_t>(d)]));
      lse[static_cast<size_t>(lse_index(ref.heads, o.layout.rows, row.batch, row.row, h))] = static_cast<float>(ref.lse[i]);
    }
  f.device_o.upload(o.memory.data()), f.device_lse.upload(lse.data());
}

// By hand: two keys with logits 0 and log 3 weigh 1/4 and 3/4.
TEST(AttentionReference, KnownValues) {
  AttentionProblem p;
  p.q_length = 1, p.kv_length = 2, p.dim = 2, p.scale = static_cast<float>(std::log(3.0));
  const StoredHeads s = stored_heads(p.type, 1, 2, 1, 2);
  HostHeads q(stored_heads(p.type, 1, 1, 1, 2)), k(s), v(s);
  q.set(0, 0, 0, 0, 1), q.set(0, 0, 0, 1, -1);
  k.set_row(0, 0, 0, 5), k.set(0, 1, 0, 0, 1), k.set(0, 1, 0, 1, 0);
  v.set(0, 0, 0, 0, 8), v.set(0, 0, 0, 1, 0), v.set(0, 1, 0, 0, -4), v.set(0, 1, 0, 1, 1);
  AttentionReference ref = reference_attention(p, q, k, v);
  EXPECT_NEAR(ref.value[0], -1, 1e-7);  // the scale is rounded to fp32
  EXPECT_NEAR(ref.value[1], 0.75, 1e-7);
  EXPECT_NEAR(ref.lse[0], std::log(4.0), 1e-7);
  p.kv_length = 0;
  ref = reference_attention(p, q, k, v);
  EXPECT_EQ(ref.value, (std::vector<double>{0, 0}));
  EXPECT_EQ(ref.lse[0], -INFINITY);
  EXPECT_EQ(ref.slack[0], 0);
}

TEST(CheckAttention, TheRoundedReferencePasses) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const bool causal : {false, true})
      for (const float spread : {1.f, 64.f}) {
        AttentionProblem p = problem(9, 5, 33, type);
        p.causal = causal;
        AttentionFixture f = fixture(p, {false, 3, spread});
        write_right(f);
        const AttentionComparison result = f.verify("right", true);
        EXPECT_TRUE(result.pass()) << result.message;
        EXPECT_EQ(result.elements, 2 * 9 * 4 * 33);
        EXPECT_LE(result.max_ratio, 1);
        p.q_offsets = {1, 1, 8}, p.kv_offsets = {0, 4, 9};
        AttentionFixture packed = fixture(p);
        write_right(packed);
        const AttentionComparison of_packed = packed.verify("packed", true);
        EXPECT_TRUE(of_packed.pass()) << of_packed.message;
      }
}

// One thing wrong each: an element off by more than its bound, NaN, never written; LSE; bytes of no row; an operand; a
// guard.
TEST(CheckAttention, OneWrongElementFails) {
  AttentionProblem p = problem(5, 6, 8);
  p.causal = true, p.q_length = 7;  // the first query sees no key
  const auto expect_found = [&](const char* what, const auto& spoil, int64_t wrong, int64_t touched) {
    AttentionFixture f = fixture(p);
    write_right(f);
    spoil(f);
    const AttentionComparison result = f.verify(what);
    EXPECT_FALSE(result.pass()) << what;
    EXPECT_EQ(result.wrong, wrong) << what;
    EXPECT_EQ(result.touched, touched) << what;
    EXPECT_NE(result.message, "") << what;
  };
  const auto element = [](AttentionFixture& f, int64_t row, const auto& change) {
    HostHeads o = f.output();
    o.set(1, row, 2, 3, change(o.get(1, row, 2, 3)));
    f.device_o.upload(o.memory.data());
  };
  expect_found(
      "NaN", [&](AttentionFixture& f) { element(f, 6, [](float) { return NAN; }); }, 1, 0);
  expect_found(
      "infinity", [&](AttentionFixture& f) { element(f, 6, [](float) { return INFINITY; }); }, 1, 0);
  expect_found(
      "off by 4 percent of V", [&](AttentionFixture& f) { element(f, 6, [](float x) { return x + 0.04f; }); }, 1, 0);
  expect_found(
      "not 0 where no key is seen", [&](AttentionFixture& f) { element(f, 0, [](float) { return 1e-30f; }); }, 1, 0);
  const auto lse = [](AttentionFixture& f, int64_t row, const auto& change) {
    std::vector<float> all = f.lse_output();
    float& one = all[static_cast<size_t>(lse_index(4, 7, 1, row, 2))];
    one = change(one);
    f.device_lse.upload(all.data());
  };
  expect_found(
      "LSE off", [&](AttentionFixture& f) { lse(f, 6, [](float x) { return x * 1.0001f; }); }, 1, 0);
  expect_found(
      "LSE in base 2", [&](AttentionFixture& f) { lse(f, 6, [](float x) { return x / 0.69314718f; }); }, 1, 0);
  expect_found(
      "LSE NaN", [&](AttentionFixture& f) { lse(f, 6, [](float) { return NAN; }); }, 1, 0);
  expect_found(
      "LSE finite where no key is seen", [&](AttentionFixture& f) { lse(f, 0, [](float) { return -3e38f; }); }, 1, 0);
  expect_found(
      "LSE NaN where no key is seen", [&](AttentionFixture& f) { lse(f, 0, [](float) { return NAN; }); }, 1, 0);
  expect_found(
      "nothing written", [&](AttentionFixture& f) { f.reset(); }, 2 * 7 * 4 * (8 + 1), 0);
  expect_found(
      "padding of O",
      [&](AttentionFixture& f) {
        HostHeads o = f.output();
        o.memory[o.place(1, 6, 2, 7) + 1] = 0;
        f.device_o.upload(o.memory.data());
      },
      0, 1);
  expect_found(
      "Q written", [&](AttentionFixture& f) { f.device_q.upload(f.k.memory.data()); }, 0, 0);
  expect_found(
      "guard of LSE", [&](AttentionFixture& f) { f.device_lse.as<unsigned char>()[f.device_lse.size()] = 0; }, 0, 0);
}

// Rows of Q and LSE that belong to no packed sequence must stay as they were.
TEST(CheckAttention, RowsOfNoSequenceStay) {
  AttentionProblem p = problem(4, 4, 8);
  p.q_offsets = {1, 3, 7}, p.kv_offsets = {0, 4, 8};
  AttentionFixture f = fixture(p);
  write_right(f);
  std::vector<float> lse = f.lse_output();
  HostHeads o = f.output();
  lse[static_cast<size_t>(lse_index(4, o.layout.rows, 0, 0, 1))] = 1;
  o.set(0, 7, 3, 2, 0);
  f.device_lse.upload(lse.data()), f.device_o.upload(o.memory.data());
  const AttentionComparison result = f.verify("rows of no sequence");
  EXPECT_EQ(result.wrong, 0);
  EXPECT_EQ(result.touched, 2);
  EXPECT_FALSE(result.pass());
}

// Bounds shrink as the type's precision grows, and say that nothing else than the exact value is right where there is one
// key.
TEST(CheckAttention, BoundsAreUseful) {
  double slack[2];
  for (const ElementType type : {ElementType::bf16, ElementType::f16}) {
    const AttentionFixture f = fixture(problem(8, 100, 64, type));
    const AttentionReference ref = f.reference();
    double& worst = slack[type == ElementType::f16];
    worst = 0;
    for (const double s : ref.slack) worst = std::max(worst, s);
    for (const double s : ref.lse_slack) EXPECT_LT(s, 1e-4);
  }
  EXPECT_LT(slack[0], 0x1p-8);  // |V| < 1
  EXPECT_LT(slack[1], 0x1p-8 / 7);
}

// Attention in three steps, each rounded: near the reference, and not equal to it.
TEST(CheckAttention, ThreeStepsErr) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16}) {
    const AttentionFixture f = fixture(problem(20, 100, 64, type));
    const double error = unfused_error(f.problem, f.q, f.k, f.v, f.reference());
    EXPECT_GT(error, type == ElementType::bf16 ? 0x1p-14 : 0x1p-17);
    EXPECT_LT(error, type == ElementType::bf16 ? 0x1p-8 : 0x1p-11);
  }
  EXPECT_TRUE(compare_with_unfused(0.02, 0.01, ElementType::bf16, 1, ""));
  EXPECT_TRUE(compare_with_unfused(0x1p-7, 0, ElementType::bf16, 1, ""));
  EXPECT_FALSE(compare_with_unfused(0.03, 0.01, ElementType::bf16, 1, ""));
  EXPECT_FALSE(compare_with_unfused(NAN, 0.01, ElementType::bf16, 1, ""));
}

}  // namespace
}  // namespace grout
