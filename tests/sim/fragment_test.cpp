// Fragments on the simulated device: reductions, broadcasts, redistribution and packing against loops over the tile, under every
// schedule; and what is wrong is seen.
#include "tests/kernels/fragment_cases.h"
#include "tests/sim/device_test.h"

namespace grout::test {
namespace {

class Fragments : public SimulatedTest, public testing::WithParamInterface<Case> {};
using FragmentMutants = SimTest;

TEST_P(Fragments, MatchLoopsInEveryMode) {
  sim::options().seed = 11;
  const int modes = thread_sanitizer() ? 3 : 5;  // nothing here is asynchronous
  for (int i = 0; i < modes; ++i) {
    use(i, 11);
    SCOPED_TRACE(mode());
    Words out;
    const Status status = run(GetParam(), out);
    ASSERT_TRUE(status) << status.message;
    ASSERT_EQ(compare_with_reference(GetParam(), out), "");
  }
}
INSTANTIATE_TEST_SUITE_P(All, Fragments, testing::ValuesIn(fragment_cases()), [](const auto& info) { return info.param.name; });

TEST_F(FragmentMutants, RoundedSumsRepeatBitForBit) {
  const Case c = rounded_case();
  Words first;
  ASSERT_TRUE(run(c, first));
  EXPECT_NE(compare_with_reference(c, first), "");  // the sums are not those of the exact case
  for (int i = 0; i < (thread_sanitizer() ? 3 : 20); ++i) {
    use(i, static_cast<uint64_t>(i));
    Words again;
    ASSERT_TRUE(run(c, again));
    EXPECT_EQ(again, first) << mode();
  }
}
TEST_F(FragmentMutants, AWrongLaneBitIsSeen) {
  const Case c = wrong_lane_bit_case();
  Words out;
  ASSERT_TRUE(run(c, out));
  EXPECT_NE(compare_with_reference(c, out).find("words are wrong"), std::string::npos);
}

void without_a_lane() {
  Fragment<float, MmaM16N8K16C> f;
  f.fill(1.f);
  if (threadIdx.x == 13) return;
  (void)max<1>(f);
}
TEST_F(FragmentMutants, AMissingLaneIsReported) {
  for (int i = 0; i < 5; ++i) {
    use(i, 5);
    const sim::Report report = report_of([] { run(without_a_lane, dim3(1), dim3(32), 0); });
    expect_parts(report.what(), {"shfl.sync.bfly", "reads lane 13, which has exited"});
  }
}
void of_half_a_warp() {
  Fragment<float, MmaM16N8K16C> f;
  f.fill(1.f);
  if (threadIdx.x < 16) {
    (void)sum<1>(f);
  } else {
    __syncwarp();
  }
}
TEST_F(FragmentMutants, HalfAWarpIsReported) {
  for (int i = 0; i < 5; ++i) {
    use(i, 5);
    const sim::Report report = report_of([] { run(of_half_a_warp, dim3(1), dim3(32), 0); });
    expect_parts(report.what(), {"shfl.sync.bfly"});
  }
}
// The line that is named is the kernel's own.
constexpr unsigned kReductionLine = __LINE__ + 5;
void of_a_wrong_lane() {
  Fragment<float, MmaM16N8K16C> f;
  f.fill(1.f);
  if (threadIdx.x == 3) return;
  (void)sum<0>(f);
}
TEST_F(FragmentMutants, NameTheLineOfTheReduction) {
  const sim::Report report = report_of([] { run(of_a_wrong_lane, dim3(1), dim3(32), 0); });
  expect_parts(report.what(), {here(kReductionLine, "of_a_wrong_lane")});
}

}  // namespace
}  // namespace grout::test
