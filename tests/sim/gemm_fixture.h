// What the parts of gemm_test share: the fixtures, and running a case.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
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

// A has ones in row 0 and NaN in all others, its padding included: what reads on past the end of K shows in row 0.
inline void expect_other_rows_stay_out(GemmCase x) {
  use(x);
  GemmData data(x, guard());
  std::fill(data.a.bytes.begin(), data.a.bytes.end(), kPoison);
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t i = 0; i < x.k; ++i) data.a.set(b, 0, i, 1.f);
  data.device_a.upload(data.a.bytes.data());
  ASSERT_TRUE(run_gemm(data.call(), nullptr));
  HostMatrix got = data.d;
  got.bytes = data.output();
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t j = 0; j < x.n; ++j) {
      float sum = 0;
      for (int64_t i = 0; i < x.k; ++i) sum += data.b.get(b, i, j);
      EXPECT_EQ(got.get(b, 0, j), sum) << "batch " << b << " column " << j << ": " << describe(x);
    }
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
