// TEST_TARGET: sm_80
// The engine of the comparison on a GPU: what is wrong, at once or only later, has no figure.
#include <gtest/gtest.h>

#include "common/check_gpu.cuh"
#include "compare/gemm_bench.cuh"
#include "tests/gpu/support.cuh"
#include "tests/kernels/compare_faults.cuh"

namespace grout {
namespace {

using namespace test;

class CompareGpu : public GpuTest {};

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
  const struct {
    const char* what;
    const DeviceBuffer* buffer;
    std::ptrdiff_t byte;
  } places[] = {{"A, first", &f.device_a, 0},
                {"A, last", &f.device_a, static_cast<std::ptrdiff_t>(f.device_a.size()) - 1},
                {"B, first", &f.device_b, 0},
                {"B, last", &f.device_b, static_cast<std::ptrdiff_t>(f.device_b.size()) - 1},
                {"padding of D", &f.device_c, 130},
                {"ahead of A", &f.device_a, -1},
                {"behind B", &f.device_b, static_cast<std::ptrdiff_t>(f.device_b.size())},
                {"ahead of D", &f.device_c, -1},
                {"behind D", &f.device_c, static_cast<std::ptrdiff_t>(f.device_c.size())}};
  for (const auto& [what, buffer, byte] : places) {
    unsigned char* place = buffer->as<unsigned char>() + byte;
    unsigned char old = 0;
    const auto put = [&](unsigned char value) {
      ASSERT_EQ(cudaMemcpy(place, &value, 1, cudaMemcpyHostToDevice), cudaSuccess);
    };
    ASSERT_EQ(cudaMemcpy(&old, place, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    put(static_cast<unsigned char>(old ^ 1));
    EXPECT_NE(s.judge(reference).wrong, "") << what;
    put(old);
    EXPECT_EQ(s.judge(reference).wrong, "") << what;
  }
}

}  // namespace
}  // namespace grout
