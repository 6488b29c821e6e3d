// Every instruction on the simulated device against the references, under every schedule, late and early;
// fewer blocks with ThreadSanitizer.
#include <gtest/gtest.h>

#include "tests/kernels/instruction_cases.h"
#include "tests/sim/modes.h"

namespace grout::instructions {
namespace {

const bool kBrief = sim::sanitizer() == sim::Sanitizer::thread;

class Instructions : public test::SimulatedTest, public testing::WithParamInterface<Case> {};
using CpAsync = test::SimulatedTest;

std::vector<Case> all_cases() {
  std::vector<Case> all = cases(kBrief);
  all.insert(all.end(), {cp_async_case<4, true>(true), cp_async_case<8, true>(true), cp_async_case<16, true>(true)});
  return all;
}

TEST_P(Instructions, MatchReferenceInEveryMode) {
  sim::options().seed = 7;
  sim::options().compute_capability = GetParam().capability;
  test::in_every_mode([&] {
    Words out;
    const Status status = run(GetParam(), out);
    ASSERT_TRUE(status) << status.message;
    ASSERT_EQ(compare_with_reference(GetParam(), out), "");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Instructions, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

// Reads its own destination at every stage of a copy: legal for the thread that copies, though what it sees before the
// wait is unspecified. Out: what was there before the commit, after it, after a wait that leaves it pending, after the
// last.
void peek(const uint32_t* in, uint32_t* out) {
  auto& slot = dynamic_shared<uint32_t[2]>();
  slot[0] = slot[1] = 0x12345678u;
  const uint32_t address = ptx::shared_address(&slot[0]);
  ptx::cp_async<4>(address, in);
  out[0] = slot[0];
  ptx::cp_async_commit_group();
  out[1] = slot[0];
  ptx::cp_async_wait_group<1>();
  out[2] = slot[0];
  ptx::cp_async<4>(address + 4, in + 1, 2);
  ptx::cp_async_wait_group<0>();
  out[3] = slot[0];
  out[4] = slot[1];
  ptx::cp_async_wait_all();
  out[5] = slot[1];
}

// The simulated device's own promise: late, the destination is poison until the wait that must complete the copy;
// early, it is there at once.
TEST_F(CpAsync, LateAndEarlyAreTheExtremes) {
  Case c{.name = "peek",
         .kernel = peek,
         .block = 1,
         .shared_bytes = 8,
         .in = {0xabcdef01u, 0x23456789u},
         .expected = Words(6)};
  Words out;
  sim::options().asynchrony = sim::Asynchrony::late;
  ASSERT_TRUE(run(c, out));
  EXPECT_EQ(out, (Words{~0u, ~0u, ~0u, 0xabcdef01u, ~0u, 0x6789u}));
  sim::options().asynchrony = sim::Asynchrony::early;
  ASSERT_TRUE(run(c, out));
  EXPECT_EQ(out, (Words{0xabcdef01u, 0xabcdef01u, 0xabcdef01u, 0xabcdef01u, 0x6789u, 0x6789u}));
}

}  // namespace
}  // namespace grout::instructions
