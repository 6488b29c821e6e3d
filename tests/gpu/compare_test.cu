// TEST_TARGET: sm_80
// The engine of the comparison on a GPU: what is wrong, at once or only later, has no figure.
#include <gtest/gtest.h>

#include "common/check_gpu.cuh"
#include "compare/attention_bench.cuh"
#include "compare/gemm_bench.cuh"
#include "tests/gpu/support.cuh"
#include "tests/kernels/compare_faults.cuh"

namespace grout {
namespace {

using namespace test;

class CompareGpu : public GpuTest {};

struct Place {
  const char* what;
  const DeviceBuffer* buffer;
  std::ptrdiff_t byte;
};
// Changes one bit at each place, and brings it back.
template <class Wrong>
void each_is_seen(std::span<const Place> places, const Wrong& wrong) {
  for (const auto& [what, buffer, byte] : places) {
    unsigned char* place = buffer->as<unsigned char>() + byte;
    unsigned char old = 0;
    const auto put = [&](unsigned char value) {
      ASSERT_EQ(cudaMemcpy(place, &value, 1, cudaMemcpyHostToDevice), cudaSuccess);
    };
    ASSERT_EQ(cudaMemcpy(&old, place, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    put(static_cast<unsigned char>(old ^ 0x40));
    EXPECT_NE(wrong(), "") << what;
    put(old);
    EXPECT_EQ(wrong(), "") << what;
  }
}

TEST_F(CompareGpu, WhatIsWrongHasNoFigure) {
  const compare::Case c = compare::measure(faulty_work(), as_graph);
  ASSERT_EQ(c.samples.size(), 9u);
  for (const compare::Sample& s : c.samples) {
    const bool right = s.name == fault_name(Fault::none);
    EXPECT_EQ(s.has_figure(), right) << s.name;
    EXPECT_EQ(s.failure.empty(), right) << s.name << ": " << s.failure;
    EXPECT_EQ(s.validated, right ? 4 : 0) << s.name;
  }
}

// One byte anywhere that is no element of D, after a judgement that found none: a policy other than the first may have written it.
TEST_F(CompareGpu, EveryJudgementSeesGuardsPaddingAndOperands) {
  const compare::GemmStorage s(stored(ElementType::bf16, 33, 70, false, 70),
                               stored(ElementType::bf16, 70, 65, false, 67),
                               stored(ElementType::bf16, 33, 65, false, 68), Fill{false, 1, 4});
  const GemmJudge reference(s.fixture, "guards");
  s.poison();
  ASSERT_TRUE(gemm(s.arguments(), nullptr));
  ASSERT_EQ(s.judge(reference).wrong, "");
  const GemmFixture& f = s.fixture;
  const Place places[] = {{"A, first", &f.device_a, 0},
                          {"A, last", &f.device_a, static_cast<std::ptrdiff_t>(f.device_a.size()) - 1},
                          {"B, first", &f.device_b, 0},
                          {"B, last", &f.device_b, static_cast<std::ptrdiff_t>(f.device_b.size()) - 1},
                          {"padding of D", &f.device_c, 130},
                          {"ahead of A", &f.device_a, -1},
                          {"behind B", &f.device_b, static_cast<std::ptrdiff_t>(f.device_b.size())},
                          {"ahead of D", &f.device_c, -1},
                          {"behind D", &f.device_c, static_cast<std::ptrdiff_t>(f.device_c.size())}};
  each_is_seen(places, [&] { return s.judge(reference).wrong; });
}

// The same of attention, whose rows of O lie apart.
TEST_F(CompareGpu, EveryJudgementOfAttentionSeesGuardsGapsLseAndOperands) {
  AttentionProblem p;
  p.heads = 4, p.kv_heads = 2, p.q_length = 33, p.kv_length = 70, p.dim = 72, p.causal = true, p.scale = 0.1f;
  compare::AttentionOperands s(p, 33, 70, {false, 1, 3}, true);
  const AttentionJudge reference(s.fixture, "guards");
  s.poison();
  EXPECT_NE(s.judge(reference, true).wrong, "");
  ASSERT_TRUE(attention(s.fixture.arguments<AttentionArguments>(), nullptr));
  ASSERT_EQ(s.judge(reference, true).wrong, "");
  const AttentionFixture& f = s.fixture;
  const auto end = [](const DeviceBuffer& buffer) { return static_cast<std::ptrdiff_t>(buffer.size()); };
  const Place places[] = {{"Q, first", &f.device_q, 0},
                          {"K, last", &f.device_k, end(f.device_k) - 1},
                          {"V, first", &f.device_v, 0},
                          {"O, exponent of its first element", &f.device_o, 1},
                          {"behind the first row of O", &f.device_o, 144},
                          {"LSE, exponent of the last one", &f.device_lse, end(f.device_lse) - 1},
                          {"ahead of Q", &f.device_q, -1},
                          {"behind K", &f.device_k, end(f.device_k)},
                          {"behind V", &f.device_v, end(f.device_v)},
                          {"ahead of O", &f.device_o, -1},
                          {"behind O", &f.device_o, end(f.device_o)},
                          {"ahead of LSE", &f.device_lse, -1},
                          {"behind LSE", &f.device_lse, end(f.device_lse)}};
  each_is_seen(places, [&] { return s.judge(reference, true).wrong; });
}

TEST_F(CompareGpu, APlainReadIsJudgedByEveryWord) {
  for (const size_t vectors : {size_t{1}, size_t{1000}, size_t{300001}}) {
    std::vector<uint32_t> words(4 * vectors);
    for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(i * 2654435761u);
    DeviceBuffer one(16 * vectors), other(16);
    one.upload(words.data()), other.upload(words.data());
    const uint32_t all = compare::exclusive_or(words.data(), 16 * vectors) ^ compare::exclusive_or(words.data(), 16);
    const auto judged = [&] {
      compare::Policy p = compare::read_peer("read", one, other, all);
      p.poison();
      p.run(nullptr);
      return p.judge().wrong;
    };
    EXPECT_EQ(judged(), "");
    for (const size_t place : {size_t{0}, words.size() / 2, words.size() - 1}) {
      words[place] ^= 0x100;
      one.upload(words.data());
      EXPECT_NE(judged(), "") << vectors << " vectors, word " << place;
      words[place] ^= 0x100;
    }
  }
}

}  // namespace
}  // namespace grout
