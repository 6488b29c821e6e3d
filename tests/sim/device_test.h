// What the tests of the simulated device itself share: launches of any kernel in every mode, and what is reported of them.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/sim/modes.h"

namespace grout::test {

// One worker, unless a test asks for more.
class SimTest : public SimulatedTest {
 protected:
  void SetUp() override {
    SimulatedTest::SetUp();
    sim::options().workers = 1;
  }
};
// On a device with mbarriers, the copy engine and clusters.
class SimTest90 : public SimTest {
 protected:
  void SetUp() override {
    SimTest::SetUp();
    sim::options().compute_capability = 90;
  }
};

template <class... Parameters, class... Arguments>
void run(void (*kernel)(Parameters...), const sim::Launch& shape, Arguments... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> values;
  } call{kernel, {Parameters(arguments)...}};
  const auto body = [](void* context) {
    const Call& c = *static_cast<Call*>(context);
    std::apply(c.kernel, c.values);
  };
  sim::launch(shape, body, &call, reinterpret_cast<const void*>(kernel), "test_kernel");
}
template <class... Parameters, class... Arguments>
void run(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, Arguments... arguments) {
  run(kernel, sim::Launch{grid, block, shared_bytes}, arguments...);
}
__global__ inline void nothing() {}

// The report that f ends with.
template <class F> sim::Report report_of(F f) {
  try {
    f();
  } catch (const sim::Report& report) {
    return report;
  }
  ADD_FAILURE() << "no report, " << mode();
  return sim::Report(sim::Report::Kind::misuse, "");
}

// How reports name a line of the file from which this is called.
inline std::string here(unsigned line, const char* kernel, sim::Loc file = sim::Loc::current()) {
  return std::string(file.file_name()) + ":" + std::to_string(line) + " (" + kernel + ")";
}

inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

// Does `call` throw, because no kernel runs, and name the operation?
template <class F> void expect_outside_of_a_kernel(const std::string& operation, F call) {
  try {
    call();
    ADD_FAILURE() << operation;
  } catch (const std::logic_error& error) {
    EXPECT_EQ(std::string(error.what()).find(operation + " was called outside of a kernel"), 0u) << error.what();
  }
}

}  // namespace grout::test
