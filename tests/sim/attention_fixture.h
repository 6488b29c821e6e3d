// What the parts of attention_test share: the fixtures, and running a case.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/attention_cases.cuh"
#include "tests/sim/modes.h"

namespace grout::test {

class Attention : public SimulatedTest {};
class AttentionSlow : public Attention {
 protected:
  void SetUp() override {
    Attention::SetUp();
    if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only (1 ms a simulated thread)";
  }
};

inline void use(const AttentionCase& x) {
  sim::options().schedule = sim::kSchedules[x.schedule % 5];
  sim::options().asynchrony = sim::kAsynchronies[x.schedule / 5];
  sim::options().seed = x.seed;
  sim::options().sms = x.processors;
}

// Runs the case; false where anything about it is wrong.
inline bool right(const AttentionCase& x, AttentionChoice* choice = nullptr, bool exact = false) {
  use(x);
  return AttentionData(x, guard()).right(choice, exact);
}

}  // namespace grout::test
