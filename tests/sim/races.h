// ThreadSanitizer's hooks: its reports are counted, and fail a test, not the process. Tests use the same memory one after another,
// for which it would report one race only: hence the option. For one source file of a program.
#pragma once
#include <atomic>

static std::atomic<int> race_reports{0};
extern "C" const char* __tsan_default_options() {
  return "exitcode=0:suppress_equal_addresses=0";
}
extern "C" void __tsan_on_report(void*) {
  ++race_reports;
}
