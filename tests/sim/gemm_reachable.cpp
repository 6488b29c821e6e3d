// Proof that every kernel which the GEMM's host entry can reach was run, on the simulated device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <vector>

#include "tests/sim/gemm_fixture.h"

namespace grout::test {
namespace {

// Every kernel that the host entry can launch has been run, and was right. Problems are found that make the entry choose
// each one not yet seen; if there are none, the kernel is unreachable and should not be built.
TEST_F(GemmSlow, EveryReachableKernelRan) {
  const std::vector<ReachableKernel> kernels = reachable_gemm_kernels();
  std::set<const void*> distinct;
  int steered = 0, before = 0;
  for (const ReachableKernel& v : kernels) {
    distinct.insert(v.address);
    if (sim::launched_kernels().count(v.address)) {
      ++before;
      continue;
    }
    if (v.path == "repack" && v.type == ElementType::f32) {  // what pays takes minutes here: forced
      const ReachableKernel& tile = *std::find_if(kernels.begin(), kernels.end(), [](const auto& k) { return k.type == ElementType::f32; });
      GemmCase x;
      x.m = 33, x.n = 35, x.k = 37, x.type = x.out = ElementType::f32;
      use(x);
      GemmData data(x, guard());
      const GemmChosen forced{"simt", "repack", tile.tile_m, tile.tile_n, tile.tile_k, 0, 0};
      const Status status = run_gemm(data.call(), nullptr, nullptr, &forced);
      EXPECT_TRUE(status) << status.message;
      EXPECT_TRUE(data.verify().pass()) << data.verify().message;
      ++steered;
    }
    const int64_t multiples[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {2, 2, 1}, {3, 1, 1}, {1, 1, 3}, {1, 1, 9}, {1, 1, 5}};
    for (const int processors : {1, 2, 4, 8})
      for (const auto& [times_m, times_n, batch] : multiples) {
        if (sim::launched_kernels().count(v.address)) continue;
        const bool full = v.path == "aligned", realign = v.path == "realign" || v.path == "repack";
        GemmCase x;
        x.m = v.tile_m * times_m - (full ? 0 : 1), x.n = v.tile_n * times_n - (full ? 0 : 3);
        x.k = full ? std::max(64, v.tile_k) : v.path == "repack" ? 330 : std::max(40, v.tile_k - 4);
        x.trans_a = v.trans_a, x.trans_b = v.trans_b, x.type = x.out = v.type, x.batch = batch;
        const auto to_eight = [](int64_t row) { return (row + 7) / 8 * 8 - row; };
        const int64_t odd = v.path == "elements" ? 2 : realign ? 1 : 0;  // no pitch of M - 1 or N - 3 is a multiple of 4 then
        x.pad_a = odd > 0 ? odd : to_eight(x.trans_a ? x.m : x.k), x.pad_b = odd > 0 ? odd : to_eight(x.trans_b ? x.k : x.n);
        x.processors = processors, x.schedule = steered % 10, x.seed = static_cast<uint64_t>(steered);
        right(x);
        ++steered;
      }
    EXPECT_TRUE(sim::launched_kernels().count(v.address))
        << "no problem makes gemm() choose " << element_name(v.type) << " " << (v.trans_a ? "t" : "n")
        << (v.trans_b ? "t" : "n") << " " << v.path << " " << v.tile_m << "x" << v.tile_n;
  }
  std::printf("%zu kernels can be reached: %d ran in the cases above, %d problems to reach the others\n", kernels.size(),
              before, steered);
  EXPECT_EQ(distinct.size(), kernels.size());
  EXPECT_GE(kernels.size(), 26u);
}

}  // namespace
}  // namespace grout::test
