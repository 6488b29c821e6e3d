// Edges of the attention's arguments on the simulated device.
#include <gtest/gtest.h>

#include "tests/kernels/attention_edges.cuh"
#include "tests/sim/attention_fixture.h"

namespace grout::test {
namespace {

const auto schedule = [](const AttentionCase& x) { use(x); };

TEST_F(AttentionSlow, AnyStride) {
  expect_any_stride_is_right(schedule, guard());
}
TEST_F(AttentionSlow, MorePartsThanKeys) {
  expect_more_parts_than_keys_are_right(schedule, guard());
}
TEST_F(AttentionSlow, SmallerDevices) {
  expect_smaller_devices_are_right(schedule, guard());
}
TEST_F(AttentionSlow, ManyHeadsOnOne) {
  expect_many_heads_on_one_are_right(schedule, guard());
}

}  // namespace
}  // namespace grout::test
