// What the parts of gemm_test share: the fixtures, and running a case.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/gemm_cases.cuh"
#include "tests/sim/modes.h"

namespace grout::test {

class Gemm : public SimulatedTest {};
class GemmSlow : public Gemm {
 protected:
  void SetUp() override {
    Gemm::SetUp();
    if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only (1 ms a simulated thread)";
  }
};

inline void use(const GemmCase& x) {
  sim::options().schedule = sim::kSchedules[x.schedule % 5];
  sim::options().asynchrony = sim::kAsynchronies[x.schedule / 5];
  sim::options().seed = x.seed;
  sim::options().sms = x.processors;
}

// Runs the case; false where anything about it is wrong.
inline bool right(const GemmCase& x, GemmChosen* chosen = nullptr) {
  use(x);
  GemmData data(x, guard());
  if (const Status status = run_gemm(data.call(), nullptr, chosen); !status) {
    ADD_FAILURE() << describe(x) << ": " << status.message;
    return false;
  }
  const Comparison result = data.verify();
  EXPECT_TRUE(result.pass()) << result.message;
  return result.pass();
}

// 200 runs under all schedules give the same bits.
inline void expect_repeats_are_identical(GemmCase x) {
  std::vector<unsigned char> first;
  for (int i = 0; i < 200; ++i) {
    x.schedule = i % 10;
    use(x);
    sim::options().seed = static_cast<uint64_t>(i);
    GemmData data(x, guard());
    ASSERT_TRUE(run_gemm(data.call(), nullptr));
    if (i == 0) first = data.output();
    ASSERT_EQ(first, data.output()) << "repeat " << i;
  }
}

}  // namespace grout::test
