// Published bug reports of attention kernels as cases, on the simulated device, and what is like them: misalignment, stale rows,
// very low logits, packed sequences, 32-bit offsets.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

#include "tests/sim/attention_fixture.h"

namespace grout::test {
namespace {

// 16-byte accesses chosen by strides and head dimension alone: bases 1 to 7 elements past alignment, each operand by itself.
TEST_F(AttentionSlow, MisalignedBases) {
  for (int operand = 0; operand < 5; ++operand)
    for (int64_t offset = 1; offset <= 7; ++offset) {
      AttentionCase x;
      x.batch = 6, x.heads = x.kv_heads = 4, x.q_length = x.kv_length = x.dim = 64;
      int64_t* const offsets[] = {&x.q.offset, &x.k.offset, &x.v.offset, &x.o.offset, &x.lse_offset};
      *offsets[operand] = offset;
      x.schedule = static_cast<int>(offset), x.seed = static_cast<uint64_t>(offset), x.causal = offset % 2;
      right(x);
    }
}

// Rows of a cache past a sequence's end: one query, 8 heads, a cache of 128 rows of which 32, 64, 96 and 48 are used. Whatever lies
// there, NaN, infinities or zeros, O and LSE are the same bits.
TEST_F(AttentionSlow, RowsPastTheEndDoNotMatter) {
  for (const int64_t used : {32, 64, 96, 48, 1, 31, 127})
    for (const int splits : {0, 1, 2}) {
      std::vector<unsigned char> first;
      for (const uint16_t behind : {0x7fc0, 0x7f80, 0xff80, 0x0000}) {
        AttentionCase x;
        x.heads = x.kv_heads = 8, x.q_length = 1, x.kv_length = used, x.splits = splits, x.k.rows_behind = x.v.rows_behind = 128 - used;
        use(x);
        AttentionData data(x, guard(), behind);
        ASSERT_TRUE(data.right());
        if (first.empty()) first = data.bits();
        EXPECT_EQ(first, data.bits()) << data.describe() << " with " << behind;
      }
    }
}

// The same of packed sequences: their neighbours' rows lie before and behind theirs. All others are NaN, or numbers.
TEST_F(AttentionSlow, NeighbouringSequencesDoNotMatter) {
  AttentionCase x;
  x.heads = x.kv_heads = 2, x.q_lengths = {1, 1, 1, 1}, x.kv_lengths = {32, 64, 96, 48};
  use(x);
  AttentionData all(x, guard());
  ASSERT_TRUE(all.right());
  const HostHeads expected = all.f.output();
  const std::vector<float> expected_lse = all.f.lse_output();
  for (int64_t b = 0; b < 4; ++b) {
    AttentionData data(x, guard());
    for (int64_t other = 0; other < 4; ++other) {
      const SequenceRows s = sequence_rows(data.f.problem, other);
      for (int64_t j = s.kv_first; j < s.kv_first + s.kv_length && other != b; ++j)
        for (int64_t h = 0; h < 2; ++h) data.f.k.set_row(0, j, h, NAN), data.f.v.set_row(0, j, h, NAN);
    }
    data.f.upload();
    ASSERT_TRUE(run_attention(data.call(), nullptr));
    const HostHeads got = data.f.output();
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t d = 0; d < x.dim; ++d) ASSERT_EQ(got.get(0, b, h, d), expected.get(0, b, h, d)) << "sequence " << b;
      EXPECT_EQ(data.f.lse_output()[static_cast<size_t>(h * 4 + b)], expected_lse[static_cast<size_t>(h * 4 + b)]);
    }
  }
}

// A finite number in place of minus infinity: rows whose logits are all lower came out as zeros. 16 query heads on one key head, D = 128,
// 64 keys with logits L, key 0 at L + `raised`; logits are exact products of one element each.
TEST_F(AttentionSlow, VeryLowLogits) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const float low : {0.f, -1000.f, -40000.f, -50000.f, -55000.f, -60000.f, -100000.f})
      for (const float raised : {5000.f, 0.f})
        for (const int splits : {0, 1, 2}) {
          AttentionCase x;
          x.heads = 16, x.kv_heads = 1, x.q_length = 2, x.kv_length = 64, x.dim = 128, x.type = type, x.scale = 1, x.splits = splits;
          x.schedule = splits, x.causal = splits == 2;
          use(x);
          AttentionData data(x, guard());
          for (int64_t i = 0; i < 2; ++i)
            for (int64_t h = 0; h < 16; ++h) data.f.q.set_row(0, i, h, 0), data.f.q.set(0, i, h, 77, 125);
          for (int64_t j = 0; j < 64; ++j) data.f.k.set(0, j, 0, 77, (low + (j == 0 ? raised : 0)) / 125);
          data.f.upload();
          ASSERT_TRUE(data.right());
        }
}

// Logits that differ by more than exp holds, rising or falling along the keys: the running maximum changes in every block, or never.
TEST_F(AttentionSlow, RisingAndFallingLogits) {
  for (const float step : {1.f, -1.f, 40.f, -40.f})
    for (const bool causal : {false, true})
      for (const int splits : {1, 3}) {
        AttentionCase x;
        x.q_length = 5, x.kv_length = 250, x.dim = 40, x.scale = 1, x.splits = splits, x.causal = causal;
        use(x);
        AttentionData data(x, guard());
        for (int64_t i = 0; i < 5; ++i) data.f.q.set_row(0, i, 0, 0), data.f.q.set(0, i, 0, 3, step);
        for (int64_t j = 0; j < 250; ++j) data.f.k.set(0, j, 0, 3, static_cast<float>(j - 100));
        data.f.upload();
        ASSERT_TRUE(data.right());
      }
}

// Packed sequences of which none is longer than one query: lengths 0, 1, 0, 1 against 0, 3, 0, 5 keys, 9 query heads on 3.
TEST_F(AttentionSlow, PackedSequencesOfOneQuery) {
  for (const bool causal : {false, true})
    for (const int splits : {0, 1, 2}) {
      AttentionCase x;
      x.heads = 9, x.kv_heads = 3, x.q_lengths = {0, 1, 0, 1}, x.kv_lengths = {0, 3, 0, 5}, x.causal = causal, x.splits = splits;
      right(x);
      x.q_lengths = {0, 1, 0, 1}, x.kv_lengths = {4, 0, 0, 5};
      right(x);
      x.q_lengths = {0, 0}, x.kv_lengths = {0, 0};
      right(x);
    }
}

// Mixes of nothing, one row, and a tile less, exactly, and more than one and two tiles.
TEST_F(AttentionSlow, PackedSequencesAroundTiles) {
  for (int turn = 0; turn < 8; ++turn) {
    AttentionCase x;
    x.heads = 2, x.kv_heads = 1, x.dim = turn % 2 ? 72 : 64, x.causal = turn % 4 < 2, x.splits = turn % 3, x.schedule = turn;
    for (int b = 0; b < 8; ++b) {
      x.q_lengths.push_back(static_cast<int32_t>(kPackedLengths[static_cast<size_t>((b + turn) % 8)]));
      x.kv_lengths.push_back(static_cast<int32_t>(kPackedLengths[static_cast<size_t>((3 * b + 5 * turn) % 8)]));
    }
    right(x);
  }
}

// Offsets that decrease make a sequence empty; where a sequence is longer than the longest length said, the rows behind are left out.
TEST_F(AttentionSlow, UnusualOffsets) {
  AttentionProblem p;
  p.heads = 2, p.kv_heads = 1, p.dim = 64, p.batch = 3, p.q_length = 20, p.kv_length = 40, p.scale = 0.125f;
  for (const auto& [q_offsets, kv_offsets] :
       {std::pair<std::vector<int32_t>, std::vector<int32_t>>{{5, 3, 9, 30}, {10, 4, 44, 130}}, {{0, 25, 25, 26}, {0, 41, 41, 100}},
        {{30, 20, 10, 0}, {130, 60, 10, 0}}, {{2, 2, 2, 2}, {0, 5, 10, 15}}, {{1, 8, 9, 29}, {7, 7, 7, 7}}})
    for (const bool causal : {false, true})
      for (const int splits : {1, 2}) {
        p.q_offsets = q_offsets, p.kv_offsets = kv_offsets, p.causal = causal;
        use(AttentionCase{});
        AttentionFixture f(p, stored_heads(p.type, 1, 30, 2, 64), stored_heads(p.type, 1, 130, 1, 64), stored_heads(p.type, 1, 130, 1, 64),
                           stored_heads(p.type, 1, 30, 2, 64), {}, true, 0, guard());
        AttentionArguments a = f.arguments<AttentionArguments>();
        a.splits = splits;
        const Status status = run_attention(a, nullptr);
        ASSERT_TRUE(status) << f.describe() << ": " << status.message;
        const AttentionComparison result = f.verify("offsets");
        EXPECT_TRUE(result.pass()) << result.message;
      }
}

// More sequences and heads than a grid's y or z extent holds, one query each.
TEST_F(AttentionSlow, ManySequencesAndHeads) {
  if (address_sanitizer()) GTEST_SKIP() << "65537 blocks take minutes";
  for (const auto& [batch, heads] : {std::pair<int64_t, int64_t>{1, 65537}, {65536, 1}}) {
    AttentionCase x;
    x.batch = batch, x.heads = heads, x.kv_heads = 1, x.q_length = 1, x.kv_length = 3, x.dim = 8, x.schedule = 1;
    right(x);
  }
}

// Scratch of a reduction reused before all warps have read it: two blocks of 512 keys, D = 64. ThreadSanitizer is what notices.
TEST_F(Attention, ReductionsOverParts) {
  for (int schedule = 0; schedule < 10; schedule += thread_sanitizer() ? 5 : 1) {
    AttentionCase x;
    x.q_length = 1, x.kv_length = thread_sanitizer() ? 200 : 512, x.splits = 2, x.schedule = schedule;
    right(x);
  }
}

// One memory for all three, rows of [Q heads, K heads, V heads]; and K as its own V.
TEST_F(AttentionSlow, OperandsInOneTensor) {
  for (const int64_t dim : {64, 40, 33}) {
    AttentionCase x;
    x.batch = 2, x.heads = 4, x.kv_heads = 2, x.q_length = x.kv_length = 70, x.dim = dim, x.causal = true;
    use(x);
    AttentionData data(x, guard());
    const StoredHeads together = stored_heads(x.type, 2, 70, 8, dim);
    HostHeads all(together);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t r = 0; r < 70; ++r)
        for (int64_t h = 0; h < 8; ++h)
          for (int64_t d = 0; d < dim; ++d)
            all.set(b, r, h, d, h < 4 ? data.f.q.get(b, r, h, d) : h < 6 ? data.f.k.get(b, r, h - 4, d) : data.f.v.get(b, r, h - 6, d));
    DeviceBuffer device(all.memory.size() * 2, 0, kPoison, guard());
    device.upload(all.memory.data());
    AttentionArguments a = data.call();
    a.q = device.data(), a.k = device.as<uint16_t>() + 4 * dim, a.v = device.as<uint16_t>() + 6 * dim;
    a.q_stride = a.k_stride = a.v_stride = {together.batch_stride, together.row_stride, together.head_stride};
    Status status = run_attention(a, nullptr);
    ASSERT_TRUE(status) << status.message;
    AttentionComparison result = data.verify();
    EXPECT_TRUE(result.pass()) << result.message;

    data.f.v.memory = data.f.k.memory;
    data.f.upload();
    a = data.call();
    a.v = a.k;
    status = run_attention(a, nullptr);
    ASSERT_TRUE(status) << status.message;
    result = data.verify();
    EXPECT_TRUE(result.pass()) << result.message;
  }
}

// 32-bit offsets: rows, heads or sequences 2^30 + 7 elements apart, forwards and backwards. Only the pages that are touched exist.
TEST_F(AttentionSlow, RowsBeyondTwoToThe31Elements) {
  constexpr int64_t kFar = (int64_t{1} << 30) + 7;
  constexpr size_t kBytes = static_cast<size_t>(2 * kFar + 64) * 2;
  uint16_t* memory[4];
  for (uint16_t*& p : memory) {
    void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) GTEST_SKIP() << "this machine does not map " << kBytes << " bytes";
    p = static_cast<uint16_t*>(mapped);
  }
  for (int axis = 0; axis < 3; ++axis)
    for (const bool backwards : {false, true}) {
      AttentionCase x;
      x.batch = axis == 0 ? 3 : 1, x.q_length = x.kv_length = axis == 1 ? 3 : 2, x.heads = x.kv_heads = axis == 2 ? 3 : 2, x.dim = 8;
      use(x);
      AttentionData data(x, guard());
      AttentionArguments a = data.call();
      const AttentionStrides far = axis == 0   ? AttentionStrides{kFar, 24, 8}
                                   : axis == 1 ? AttentionStrides{0, kFar, 8}
                                               : AttentionStrides{0, 8, kFar};
      const int64_t sign = backwards ? -1 : 1;
      const auto place = [&](int which, int64_t b, int64_t r, int64_t h) {
        return memory[which] + (backwards ? 2 * kFar + 48 : 0) + sign * (b * far.batch + r * far.row + h * far.head);
      };
      const auto each_row = [&](const auto& f) {
        for (int64_t b = 0; b < x.batch; ++b)
          for (int64_t r = 0; r < x.q_length; ++r)
            for (int64_t h = 0; h < x.heads; ++h) f(b, r, h);
      };
      const HostHeads* const operands[] = {&data.f.q, &data.f.k, &data.f.v, &data.f.o};
      for (int which = 0; which < 4; ++which)
        each_row([&](int64_t b, int64_t r, int64_t h) {
          std::memcpy(place(which, b, r, h), &operands[which]->memory[operands[which]->place(b, r, h, 0)], 16);
        });
      a.q_stride = a.k_stride = a.v_stride = a.o_stride = {sign * far.batch, sign * far.row, sign * far.head};
      a.q = place(0, 0, 0, 0), a.k = place(1, 0, 0, 0), a.v = place(2, 0, 0, 0), a.o = place(3, 0, 0, 0);
      const Status status = run_attention(a, nullptr);
      ASSERT_TRUE(status) << status.message;
      HostHeads got = data.f.o;
      each_row([&](int64_t b, int64_t r, int64_t h) { std::memcpy(&got.memory[got.place(b, r, h, 0)], place(3, b, r, h), 16); });
      const AttentionComparison result =
          compare_attention(data.f.reference(), got, data.f.o, data.f.lse_output(), data.f.lse, false, "axis " + std::to_string(axis));
      EXPECT_TRUE(result.pass()) << result.message;
    }
  for (uint16_t* p : memory) munmap(p, kBytes);
}

}  // namespace
}  // namespace grout::test
