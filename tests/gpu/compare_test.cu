// TEST_TARGET: sm_80
// The engine of the comparison on a GPU: what is wrong, at once or only later, has no figure.
#include <gtest/gtest.h>

#include "common/check_gpu.cuh"
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

}  // namespace
}  // namespace grout
