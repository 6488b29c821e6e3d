// Published bug reports of attention kernels as cases, on the simulated device, and what is like them: misalignment, stale
// rows, very low logits, packed sequences, 32-bit offsets.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kernels/attention_published.cuh"
#include "tests/sim/attention_fixture.h"

namespace grout::test {
namespace {

const auto schedule = [](const AttentionCase& x) { use(x); };

TEST_F(AttentionSlow, MisalignedBases) { expect_misaligned_bases_are_right(schedule, guard()); }
TEST_F(AttentionSlow, RowsPastTheEndDoNotMatter) { expect_rows_past_the_end_do_not_matter(schedule, guard()); }
TEST_F(AttentionSlow, VeryLowLogits) { expect_very_low_logits_are_right(schedule, guard()); }
TEST_F(AttentionSlow, RisingAndFallingLogits) { expect_rising_and_falling_logits_are_right(schedule, guard()); }
TEST_F(AttentionSlow, PackedSequencesOfOneQuery) { expect_packed_sequences_of_one_query_are_right(schedule, guard()); }
TEST_F(AttentionSlow, PackedSequencesAroundTiles) { expect_packed_sequences_around_tiles_are_right(schedule, guard()); }

// Rows past the end of packed sequences: their neighbours' rows lie before and behind theirs. All others are NaN, or
// numbers.
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

// Offsets that decrease make a sequence empty; where a sequence is longer than the longest length said, the rows behind are
// left out.
TEST_F(AttentionSlow, UnusualOffsets) {
  AttentionProblem p;
  p.heads = 2, p.kv_heads = 1, p.dim = 64, p.batch = 3, p.q_length = 20, p.kv_length = 40, p.scale = 0.125f;
  for (const auto& [q_offsets, kv_offsets] :
       {std::pair<std::vector<int32_t>, std::vector<int32_t>>{{5, 3, 9, 30}, {10, 4, 44, 130}},
        {{0, 25, 25, 26}, {0, 41, 41, 100}},
        {{30, 20, 10, 0}, {130, 60, 10, 0}},
        {{2, 2, 2, 2}, {0, 5, 10, 15}},
        {{3, -5, -7, -9}, {8, -1, -100, INT32_MIN}},  // empty, wherever they are
        {{0, INT32_MAX, 21, 29}, {0, INT32_MAX, 7, 60}},
        {{1, 8, 9, 29}, {7, 7, 7, 7}}})
    for (const bool causal : {false, true})
      for (const int splits : {1, 2}) {
        p.q_offsets = q_offsets, p.kv_offsets = kv_offsets, p.causal = causal;
        use(AttentionCase{});
        AttentionFixture f(p, stored_heads(p.type, 1, 30, 2, 64), stored_heads(p.type, 1, 130, 1, 64),
                           stored_heads(p.type, 1, 130, 1, 64), stored_heads(p.type, 1, 30, 2, 64), {}, true, 0, guard());
        AttentionArguments a = f.arguments<AttentionArguments>();
        a.splits = splits;
        const Status status = run_attention(a, nullptr);
        ASSERT_TRUE(status) << f.describe() << ": " << status.message;
        const AttentionComparison result = f.verify("offsets");
        EXPECT_TRUE(result.pass()) << result.message;
      }
}

// Many sequences or heads of one query. (More than a grid's y or z extent holds take minutes here; the GPU runs them.)
TEST_F(AttentionSlow, ManySequencesAndHeads) {
  for (const auto& [batch, heads, kv_heads] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 4097, 1}, {1, 300, 300}, {301, 1, 1}}) {
    AttentionCase x;
    x.batch = batch, x.heads = heads, x.kv_heads = kv_heads, x.q_length = 1, x.kv_length = 3, x.dim = 8, x.schedule = 1;
    right(x);
  }
}

// Scratch of a reduction reused before all warps have read it: two blocks of 512 keys, D = 64. ThreadSanitizer is what
// notices.
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
            all.set(b, r, h, d,
                    h < 4   ? data.f.q.get(b, r, h, d)
                    : h < 6 ? data.f.k.get(b, r, h - 4, d)
                            : data.f.v.get(b, r, h - 6, d));
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

// 32-bit offsets: rows, heads or sequences 2^30 + 7 elements apart, forwards and backwards. Only the pages that are touched
// exist.
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
      x.batch = axis == 0 ? 3 : 1, x.q_length = x.kv_length = axis == 1 ? 3 : 2, x.heads = x.kv_heads = axis == 2 ? 3 : 2,
      x.dim = 8;
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
      each_row(
          [&](int64_t b, int64_t r, int64_t h) { std::memcpy(&got.memory[got.place(b, r, h, 0)], place(3, b, r, h), 16); });
      const AttentionComparison result = compare_attention(data.f.reference(), got, data.f.o, data.f.lse_output(),
                                                           data.f.lse, false, "axis " + std::to_string(axis));
      EXPECT_TRUE(result.pass()) << result.message;
    }
  for (uint16_t* p : memory) munmap(p, kBytes);
}

}  // namespace
}  // namespace grout::test
