// TEST_TARGET: sm_80
// Fragments on the GPU: reductions, broadcasts, redistribution and packing against loops over the tile, exact; sums that round
// repeat bit for bit.
#include "tests/gpu/support.cuh"
#include "tests/kernels/fragment_cases.h"

namespace grout::test {
namespace {

class Fragments : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string reason = no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  }
};
using FragmentRepeats = GpuTest;

TEST_P(Fragments, MatchLoops) {
  Words out;
  const Status status = run(GetParam(), out);
  ASSERT_TRUE(status) << status.message;
  EXPECT_EQ(compare_with_reference(GetParam(), out), "");
}
INSTANTIATE_TEST_SUITE_P(All, Fragments, testing::ValuesIn(fragment_cases()), [](const auto& info) { return info.param.name; });

TEST_F(FragmentRepeats, RoundedSumsBitForBit) {
  const Case c = rounded_case();
  Words first;
  ASSERT_TRUE(run(c, first));
  for (int i = 0; i < cases(200, 5); ++i) {
    Words again;
    ASSERT_TRUE(run(c, again));
    ASSERT_EQ(again, first) << "repeat " << i;
  }
}
TEST_F(FragmentRepeats, AWrongLaneBitIsSeen) {
  const Case c = wrong_lane_bit_case();
  Words out;
  ASSERT_TRUE(run(c, out));
  EXPECT_NE(compare_with_reference(c, out), "");
}

}  // namespace
}  // namespace grout::test
