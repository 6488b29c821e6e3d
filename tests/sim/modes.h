// What the tests of kernels on the simulated device share: options that end with the test, and the modes that cases run in.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "common/sim/sim.h"

namespace grout::test {

inline bool thread_sanitizer() { return sim::sanitizer() == sim::Sanitizer::thread; }
inline bool address_sanitizer() { return sim::sanitizer() == sim::Sanitizer::address; }
// Bytes of a guard band. AddressSanitizer watches the ends of an allocation better.
inline size_t guard() { return address_sanitizer() ? 0 : 256; }

// The options of the simulated device are those from before the test again when it ends.
class SimulatedTest : public ::testing::Test {
 protected:
  void SetUp() override { saved_ = sim::options(); }
  void TearDown() override { sim::options() = saved_; }

 private:
  sim::Options saved_;
};
// On a device with mbarriers, the copy engine and clusters.
class SimulatedTest90 : public SimulatedTest {
 protected:
  void SetUp() override {
    SimulatedTest::SetUp();
    sim::options().compute_capability = 90;
  }
};

// Modes 0 to 4: the schedules, late; 5 to 9: the same, early. ThreadSanitizer: warp-greedy and random late, round-robin early.
inline void use(int schedule, uint64_t seed) {
  if (thread_sanitizer()) schedule = schedule % 3 == 0 ? 3 : schedule % 3 == 1 ? 2 : 9;
  sim::options().schedule = sim::kSchedules[schedule % 5];
  sim::options().asynchrony = sim::kAsynchronies[schedule / 5];
  sim::options().seed = seed;
}
inline std::string mode() {
  return std::string(sim::name(sim::options().schedule)) + " " + sim::name(sim::options().asynchrony);
}

// Calls f in every mode: under every schedule, late and early.
template <class F> void in_every_mode(F f) {
  for (const sim::Asynchrony asynchrony : sim::kAsynchronies)
    for (const sim::Schedule schedule : sim::kSchedules) {
      sim::options().schedule = schedule, sim::options().asynchrony = asynchrony;
      SCOPED_TRACE(mode());
      f();
    }
}

}  // namespace grout::test
