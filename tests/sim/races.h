// ThreadSanitizer's hooks: its reports are counted, and fail a test, not the process. Tests use the same memory one after another,
// for which it would report one race only: hence the option.
#pragma once
#include <gtest/gtest.h>

#include <atomic>

inline std::atomic<int> race_reports{0};
extern "C" __attribute__((weak)) const char* __tsan_default_options() {
  return "exitcode=0:suppress_equal_addresses=0";
}
extern "C" __attribute__((weak)) void __tsan_on_report(void*) {
  ++race_reports;
}

namespace grout::test {

// A test that fails for each race that it did not expect.
template <class Base> class RaceFree : public Base {
 protected:
  void SetUp() override {
    Base::SetUp();
    races_ = race_reports;
  }
  void TearDown() override {
    Base::TearDown();
    EXPECT_EQ(race_reports - races_, expected_races_) << "data races";
  }
  // Runs f, in which races are expected, and returns how many there were.
  template <class F> int races_of(F f) {
    const int before = race_reports;
    testing::internal::CaptureStderr();  // reports
    f();
    (void)testing::internal::GetCapturedStderr();
    expected_races_ += race_reports - before;
    return race_reports - before;
  }

 private:
  int races_ = 0, expected_races_ = 0;
};

}  // namespace grout::test
