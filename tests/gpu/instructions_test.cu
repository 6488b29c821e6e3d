// TEST_TARGET: sm_80
// Every instruction on the GPU against the references, and against the simulated device: bit for bit, mma within its
// bound. The simulated half is another program, dump_instructions (GROUT_DUMP_INSTRUCTIONS in the environment names
// another one); where the simulated device was not built, the comparison skips.
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/gpu/support.cuh"
#include "tests/kernels/instruction_cases.h"

namespace grout::instructions {
namespace {

std::string dump_program() {
  const char* named = std::getenv("GROUT_DUMP_INSTRUCTIONS");
  return named ? named : GROUT_DUMP_INSTRUCTIONS;
}

// What the simulated device gave for each case; empty if its program did not run to its end.
const std::map<std::string, Words>& simulated() {
  static const std::map<std::string, Words> results = [] {
    std::map<std::string, Words> read;
    std::FILE* const pipe = popen(("'" + dump_program() + "'").c_str(), "r");
    char name[64];
    size_t count = 0;
    while (pipe && std::fscanf(pipe, "%63s %zu", name, &count) == 2) {
      Words& words = read[name];
      words.resize(count);
      for (uint32_t& word : words)
        if (std::fscanf(pipe, "%x", &word) != 1) break;
    }
    if (!pipe || pclose(pipe) != 0) read.clear();
    return read;
  }();
  return results;
}

class Instructions : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string reason = test::no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
    if (const Status status = device_suits(GetParam()); !status) GTEST_SKIP() << status.message;
    const Status status = run(GetParam(), out_);
    ASSERT_TRUE(status) << status.message;
  }
  Words out_;
};

TEST_P(Instructions, MatchReference) {
  EXPECT_EQ(compare_with_reference(GetParam(), out_), "");
}

TEST_P(Instructions, MatchSimulatedDevice) {
  if (dump_program().empty()) GTEST_SKIP() << "no simulated device to compare with: there is no Boost.Context";
  const auto found = simulated().find(GetParam().name);
  ASSERT_NE(found, simulated().end()) << "no result from " << dump_program();
  double worst = 0;
  EXPECT_EQ(compare_devices(GetParam(), out_, found->second, worst), "");
  if (!GetParam().exact.empty()) {
    std::printf("%s: largest difference between the devices: %.3g of the bound\n", GetParam().name.c_str(), worst);
    RecordProperty("largest_difference_in_bounds", std::to_string(worst));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Instructions, testing::ValuesIn(cases(false)),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace grout::instructions
