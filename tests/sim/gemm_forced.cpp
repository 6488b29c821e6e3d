// The GEMM with the kernel, path and tile of an earlier choice, on the simulated device.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/sim/gemm_fixture.h"

namespace grout::test {
namespace {

std::string words(const GemmChosen& c) {
  return c.kernel + " " + c.path + " " + std::to_string(c.tile_m) + "x" + std::to_string(c.tile_n) + "x" +
         std::to_string(c.tile_k);
}

// Whatever a device chose is used again on one that would choose otherwise, and gives the same bits.
TEST_F(GemmSlow, ForcedChoicesAreUsedAgain) {
  int runs = 0, others = 0;
  for (GemmCase x : gemm_cases(120, 5, {1, 17, 33, 64, 65, 128, 257})) {
    x.processors = 4;
    use(x);
    GemmData data(x, guard());
    GemmChosen first, again, there;
    const Status recorded = run_gemm(data.call(), nullptr, &first);
    ASSERT_TRUE(recorded) << recorded.message;
    const std::vector<unsigned char> bits = data.output();
    sim::options().sms = 1;
    GemmData free(x, guard()), same(x, guard());
    ASSERT_TRUE(run_gemm(free.call(), nullptr, &there));
    others += words(there) != words(first);
    const Status replayed = run_gemm(same.call(), nullptr, &again, &first);
    ASSERT_TRUE(replayed) << replayed.message;
    EXPECT_EQ(words(again), words(first)) << describe(x);
    EXPECT_EQ(again.tiles, first.tiles);
    EXPECT_EQ(same.output(), bits) << describe(x);
    EXPECT_EQ(4 * again.resident, first.resident);
    ++runs;
  }
  std::printf("%d choices used again, %d of them not those of the second device\n", runs, others);
  EXPECT_GT(others, 0);
}

// A path of copies that do not pay is used all the same, and the aligned tiles also by the bounded path.
TEST_F(GemmSlow, ForcedPathsThatAreNotChosen) {
  GemmCase x;
  x.m = x.n = 128, x.k = 64;
  use(x);
  GemmChosen chosen, forced{"mma", "bounded", 64, 64, 32, 0, 0};
  GemmData full(x, guard());
  ASSERT_TRUE(run_gemm(full.call(), nullptr, &chosen, &forced));
  EXPECT_EQ(words(chosen), words(forced));
  EXPECT_TRUE(full.verify().pass()) << full.verify().message;
  x.pad_a = 1;
  forced.path = "repack";
  GemmData odd(x, guard());
  ASSERT_TRUE(run_gemm(odd.call(), nullptr, &chosen, &forced));
  EXPECT_EQ(words(chosen), words(forced));
  EXPECT_TRUE(odd.verify().pass()) << odd.verify().message;
}

TEST_F(Gemm, ForcedChoicesThatCannotBe) {
  struct Refusal {
    const char* what;
    GemmChosen forced;
    void (*change)(GemmCall&);
    std::vector<std::string> in_message;
  };
  const auto as_it_is = [](GemmCall&) {};
  const std::vector<Refusal> refusals = {
      {"no such tile", {"mma", "bounded", 32, 32, 32, 0, 0}, as_it_is, {"32x32x32", "no such tile"}},
      {"another k of the tile", {"mma", "bounded", 64, 64, 64, 0, 0}, as_it_is, {"64x64x64", "no such tile"}},
      {"no such kernel", {"wgmma", "bounded", 64, 64, 32, 0, 0}, as_it_is, {"wgmma", "bf16", "need kernel mma"}},
      {"nothing was chosen", {}, as_it_is, {"kernel none", "need kernel mma"}},
      {"nothing to compute", {"mma", "bounded", 64, 64, 32, 0, 0}, [](GemmCall& g) { g.m = 0; }, {"nothing to compute"}},
      {"ragged tiles", {"mma", "aligned", 64, 64, 32, 0, 0}, as_it_is, {"aligned", "another path"}},
      {"misaligned operands", {"mma", "bounded", 64, 64, 32, 0, 0}, [](GemmCall& g) { g.lda = 73; },
       {"bounded", "another path"}},
      {"aligned operands", {"mma", "realign", 64, 64, 32, 0, 0}, as_it_is, {"realign", "another path"}},
      {"copies of aligned operands", {"mma", "repack", 64, 64, 32, 0, 0}, as_it_is, {"repack", "aligned"}},
      {"copies, no such tile", {"mma", "repack", 32, 64, 32, 0, 0}, [](GemmCall& g) { g.lda = 73; },
       {"32x64x32", "no such tile"}},
      {"bounds=false", {"mma", "bounded", 64, 64, 32, 0, 0}, [](GemmCall& g) { g.bounds = CallBounds::none; }, {"bounds"}},
      {"bounds=true", {"mma", "aligned", 64, 64, 32, 0, 0},
       [](GemmCall& g) { g.m = g.n = g.k = 64, g.bounds = CallBounds::checked; }, {"bounds"}},
      {"a short workspace", {"mma", "repack", 64, 64, 32, 0, 0},
       [](GemmCall& g) { g.lda = 73, g.workspace = g.d, g.workspace_bytes = 16; }, {"16 bytes", "needed"}},
  };
  GemmCase x;
  x.m = 65, x.n = 97, x.k = 73, x.pad_a = 55, x.pad_b = 31, x.pad_c = 31;
  for (const Refusal& refusal : refusals) {
    GemmData data(x);
    GemmCall g = data.call();
    refusal.change(g);
    GemmChosen chosen;
    const Status status = run_gemm(g, nullptr, &chosen, &refusal.forced);
    EXPECT_EQ(status.code, Code::invalid) << refusal.what << ": " << status.message;
    EXPECT_EQ(chosen.kernel, "none") << refusal.what;
    EXPECT_EQ(status.message.find('\n'), std::string::npos) << refusal.what;
    for (const std::string& text : refusal.in_message)
      EXPECT_NE(status.message.find(text), std::string::npos) << refusal.what << " says: " << status.message;
    EXPECT_EQ(data.output(), data.d.bytes) << refusal.what;
  }
}

}  // namespace
}  // namespace grout::test
