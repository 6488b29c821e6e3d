// Published bug reports of attention kernels, masks and exact results, as cases that both devices run. `use` gets each case
// before it runs, to set a schedule on the simulated device; `guard`: bytes of a guard band.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/attention_cases.cuh"

namespace grout::test {

// The keys that each query sees, by a result that only they could have: Q = 0, so that all visible keys weigh the same, and
// V is 1 in element j of row j, so that O[i, j] is 1 / (number of keys seen) or 0.
template <class Use>
std::vector<std::string> keys_seen(int64_t queries, int64_t keys, bool causal, int splits, const Use& use, size_t guard) {
  AttentionCase x;
  x.q_length = queries, x.kv_length = keys, x.dim = keys, x.causal = causal, x.splits = splits;
  use(x);
  AttentionData data(x, guard);
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
template <class Use>
void expect_literal_masks(const Use& use, size_t guard) {
  for (const int splits : {0, 1, 2}) {
    const auto seen = [&](int64_t queries, int64_t keys, bool causal) {
      return keys_seen(queries, keys, causal, splits, use, guard);
    };
    EXPECT_EQ(seen(2, 5, true), (std::vector<std::string>{"1111.", "11111"}));
    EXPECT_EQ(seen(5, 2, true), (std::vector<std::string>{"..", "..", "..", "1.", "11"}));
    EXPECT_EQ(seen(3, 3, true), (std::vector<std::string>{"1..", "11.", "111"}));
    EXPECT_EQ(seen(2, 5, false), (std::vector<std::string>{"11111", "11111"}));
  }
}

// Causal, with lengths that differ in both directions by less and more than a tile. 3 queries against 128 keys: a published
// report.
template <class Use>
void expect_causal_with_different_lengths(const Use& use, size_t guard) {
  for (const auto& [queries, keys] :
       {std::pair<int64_t, int64_t>{3, 128}, {1, 128}, {64, 65}, {65, 64}, {128, 3}, {200, 64}, {64, 200}, {129, 127}})
    for (const int splits : {0, 1, 2, 5}) {
      AttentionCase x;
      x.q_length = queries, x.kv_length = keys, x.dim = 128, x.causal = true, x.splits = splits, x.heads = 2, x.kv_heads = 1;
      x.schedule = static_cast<int>(queries + splits) % 10;
      use(x);
      AttentionData(x, guard).right();
    }
}

// Queries that see no key: exactly 0 and -inf, beside queries that see some, for whole tiles and parts of the keys.
template <class Use>
void expect_zeros_where_no_key_is_seen(const Use& use, size_t guard) {
  for (const int64_t queries : {2, 17, 65, 130, 200})
    for (const int64_t keys : {0, 1, 16, 33, 64})
      for (const int splits : {0, 1, 3}) {
        AttentionCase x;
        x.q_length = queries, x.kv_length = keys, x.causal = true, x.splits = splits, x.dim = splits == 3 ? 33 : 64;
        x.schedule = static_cast<int>(keys) % 10;
        use(x);
        AttentionData data(x, guard);
        ASSERT_TRUE(data.right());
        const HostHeads o = data.f.output();
        const std::vector<float> lse = data.f.lse_output();
        for (int64_t i = 0; i < queries - keys; ++i) {
          EXPECT_EQ(lse[static_cast<size_t>(i)], -INFINITY) << data.describe();
          for (int64_t d = 0; d < x.dim; ++d) ASSERT_EQ(o.get(0, i, 0, d), 0.f) << data.describe();
        }
      }
}

// No keys at all, causal or not; K, V and Q may be null then.
template <class Use>
void expect_zeros_without_keys(const Use& use, size_t guard) {
  for (const bool causal : {false, true})
    for (const int splits : {0, 1, 3}) {
      AttentionCase x;
      x.q_length = 70, x.kv_length = 0, x.heads = 3, x.kv_heads = 1, x.batch = 2, x.causal = causal, x.splits = splits;
      use(x);
      AttentionData data(x, guard);
      EXPECT_TRUE(data.right(nullptr, true));
      data.f.reset();
      AttentionArguments a = data.call();
      a.q = a.k = a.v = nullptr;
      const Status status = run_attention(a, nullptr);
      ASSERT_TRUE(status) << status.message;
      const AttentionComparison result = data.verify(true);
      EXPECT_TRUE(result.pass()) << result.message;
    }
}

// One visible key: O is V's row, all bits.
template <class Use>
void expect_one_key_gives_its_value(const Use& use, size_t guard) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const int64_t dim : {1, 33, 64, 128, 256})
      for (const int splits : {0, 1, 2}) {
        AttentionCase x;
        x.q_length = 66, x.kv_length = 1, x.heads = 4, x.kv_heads = 2, x.dim = dim, x.type = type, x.splits = splits,
        x.integers = true;
        use(x);
        EXPECT_TRUE(AttentionData(x, guard).right(nullptr, true));
        x.q_length = 1, x.causal = true, x.integers = false;
        EXPECT_TRUE(AttentionData(x, guard).right(nullptr, true));
      }
}

// Equal logits, a power of two of keys, small integers in V: every step is exact, so O is the mean rounded once.
template <class Use>
void expect_equal_logits_give_the_mean(const Use& use, size_t guard) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const int64_t keys : {2, 4, 16, 64, 128, 256})
      for (const float key : {0.f, 1.f, -2.f})
        for (const int splits : {1, 2}) {
          AttentionCase x;
          x.q_length = 20, x.kv_length = keys, x.type = type, x.integers = true, x.splits = splits, x.scale = 0.125f;
          x.dim = keys % 3 == 1 ? 64 : 40;
          x.schedule = static_cast<int>(keys) % 10;
          use(x);
          AttentionData data(x, guard);
          for (int64_t j = 0; j < keys; ++j) data.f.k.set_row(0, j, 0, key);
          data.f.upload();
          EXPECT_TRUE(data.right(nullptr, true));
        }
}

// 16-byte accesses chosen by strides and head dimension alone: bases 1 to 7 elements past alignment, each operand by itself.
template <class Use>
void expect_misaligned_bases_are_right(const Use& use, size_t guard) {
  for (int operand = 0; operand < 5; ++operand)
    for (int64_t offset = 1; offset <= 7; ++offset) {
      AttentionCase x;
      x.batch = 6, x.heads = x.kv_heads = 4, x.q_length = x.kv_length = x.dim = 64;
      int64_t* const offsets[] = {&x.q.offset, &x.k.offset, &x.v.offset, &x.o.offset, &x.lse_offset};
      *offsets[operand] = offset;
      x.schedule = static_cast<int>(offset), x.seed = static_cast<uint64_t>(offset), x.causal = offset % 2;
      use(x);
      AttentionData(x, guard).right();
    }
}

// Rows of a cache past a sequence's end: one query, 8 heads, a cache of 128 rows of which 32, 64, 96 and 48 are used.
// Whatever lies there, NaN, infinities or zeros, O and LSE are the same bits.
template <class Use>
void expect_rows_past_the_end_do_not_matter(const Use& use, size_t guard) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const int64_t used : {32, 64, 96, 48, 1, 31, 127})
      for (const int splits : {0, 1, 2}) {
        std::vector<unsigned char> first;
        const uint16_t infinity = type == ElementType::bf16 ? 0x7f80 : 0x7c00;
        for (const uint16_t behind : {uint16_t{0x7fc0}, infinity, static_cast<uint16_t>(infinity | 0x8000), uint16_t{0}}) {
          AttentionCase x;
          x.heads = x.kv_heads = 8, x.q_length = 1, x.kv_length = used, x.splits = splits, x.type = type;
          x.k.rows_behind = x.v.rows_behind = 128 - used;
          use(x);
          AttentionData data(x, guard, behind);
          ASSERT_TRUE(data.right());
          if (first.empty()) first = data.bits();
          EXPECT_EQ(first, data.bits()) << data.describe() << " with " << behind;
        }
      }
}

// A finite number in place of minus infinity: rows whose logits are all lower came out as zeros. 16 query heads on one key
// head, D = 128, 64 keys with logits L, key 0 at L + `raised`; logits are exact products of one element each.
template <class Use>
void expect_very_low_logits_are_right(const Use& use, size_t guard) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const float low : {0.f, -1000.f, -40000.f, -50000.f, -55000.f, -60000.f, -100000.f})
      for (const float raised : {5000.f, 0.f})
        for (const int splits : {0, 1, 2}) {
          AttentionCase x;
          x.heads = 16, x.kv_heads = 1, x.q_length = 2, x.kv_length = 64, x.dim = 128, x.type = type, x.scale = 1,
          x.splits = splits;
          x.schedule = splits, x.causal = splits == 2;
          use(x);
          AttentionData data(x, guard);
          for (int64_t i = 0; i < 2; ++i)
            for (int64_t h = 0; h < 16; ++h) data.f.q.set_row(0, i, h, 0), data.f.q.set(0, i, h, 77, 125);
          for (int64_t j = 0; j < 64; ++j) data.f.k.set(0, j, 0, 77, (low + (j == 0 ? raised : 0)) / 125);
          data.f.upload();
          ASSERT_TRUE(data.right());
        }
}

// Logits that differ by more than exp holds, rising or falling along the keys: the running maximum changes in every block,
// or never.
template <class Use>
void expect_rising_and_falling_logits_are_right(const Use& use, size_t guard) {
  for (const float step : {1.f, -1.f, 40.f, -40.f})
    for (const bool causal : {false, true})
      for (const int splits : {1, 3}) {
        AttentionCase x;
        x.q_length = 5, x.kv_length = 250, x.dim = 40, x.scale = 1, x.splits = splits, x.causal = causal;
        use(x);
        AttentionData data(x, guard);
        for (int64_t i = 0; i < 5; ++i) data.f.q.set_row(0, i, 0, 0), data.f.q.set(0, i, 0, 3, step);
        for (int64_t j = 0; j < 250; ++j) data.f.k.set(0, j, 0, 3, static_cast<float>(j - 100));
        data.f.upload();
        ASSERT_TRUE(data.right());
      }
}

// Packed sequences of which none is longer than one query: lengths 0, 1, 0, 1 against 0, 3, 0, 5 keys, 9 query heads on 3.
template <class Use>
void expect_packed_sequences_of_one_query_are_right(const Use& use, size_t guard) {
  for (const bool causal : {false, true})
    for (const int splits : {0, 1, 2})
      for (const auto& [queries, keys] : {std::pair<std::vector<int32_t>, std::vector<int32_t>>{{0, 1, 0, 1}, {0, 3, 0, 5}},
                                          {{0, 1, 0, 1}, {4, 0, 0, 5}},
                                          {{0, 0}, {0, 0}}}) {
        AttentionCase x;
        x.heads = 9, x.kv_heads = 3, x.q_lengths = queries, x.kv_lengths = keys, x.causal = causal, x.splits = splits;
        use(x);
        AttentionData(x, guard).right();
      }
}

// Mixes of nothing, one row, and a tile less, exactly, and more than one and two tiles.
template <class Use>
void expect_packed_sequences_around_tiles_are_right(const Use& use, size_t guard) {
  for (int turn = 0; turn < 8; ++turn) {
    AttentionCase x;
    x.heads = 2, x.kv_heads = 1, x.dim = turn % 2 ? 72 : 64, x.causal = turn % 4 < 2, x.splits = turn % 3, x.schedule = turn;
    for (int b = 0; b < 8; ++b) {
      x.q_lengths.push_back(static_cast<int32_t>(kPackedLengths[static_cast<size_t>((b + turn) % 8)]));
      x.kv_lengths.push_back(static_cast<int32_t>(kPackedLengths[static_cast<size_t>((3 * b + 5 * turn) % 8)]));
    }
    use(x);
    AttentionData(x, guard).right();
  }
}

}  // namespace grout::test
