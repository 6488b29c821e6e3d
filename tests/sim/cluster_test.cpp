// Clusters, distributed shared memory and the cluster barrier of the simulated device: right and silent where they are used
// right, and what is reported where not. Dependent launches: cluster_dependent_launches.cpp. Bugs: cluster_bugs.cpp.
#include <algorithm>
#include <functional>

#include "common/ptx_sm90.cuh"
#include "tests/sim/device_test.h"

namespace grout::cluster_test {
namespace {

using namespace grout::ptx;
using namespace grout::test;
using sim::Launch, sim::Report, sim::Sanitizer, sim::Schedule, sim::options, sim::sanitizer, sim::statistics;

using ClusterTest = SimTest90;

GROUT_DEVICE unsigned thread_number() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
GROUT_DEVICE unsigned block_size() {
  return blockDim.x * blockDim.y * blockDim.z;
}
GROUT_DEVICE unsigned block_number() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

// ---- Right use ----

// Each thread gives its N words to the next block of the cluster, which adds its own number and hands them back to where they
// came from, `rounds` times.
template <int N>
__global__ void exchange(uint32_t* out, unsigned rounds) {
  auto* mine = static_cast<uint32_t*>(sim::dynamic_shared());  // N words a thread, twice
  const unsigned t = thread_number(), size = block_size();
  const uint32_t rank = cluster_rank(), blocks = cluster_size();
  const uint32_t next = (rank + 1) % blocks;
  uint32_t* const back = mine + N * size;
  for (int i = 0; i < N; ++i) mine[N * t + i] = block_number() * 100000 + t * 10 + i;
  for (unsigned round = 0; round < rounds; ++round) {
    cluster_sync();
    uint32_t r[N];
    load_shared_cluster(r, mapa(shared_address(mine + N * t), next));
    for (int i = 0; i < N; ++i) r[i] += rank + 1;
    store_shared_cluster(mapa(shared_address(back + N * t), next), r);
    cluster_arrive();
    cluster_wait();
    for (int i = 0; i < N; ++i) mine[N * t + i] = back[N * t + i];
  }
  for (int i = 0; i < N; ++i) out[(block_number() * size + t) * N + i] = mine[N * t + i];
}

template <int N>
void check_exchange(dim3 grid, dim3 block, unsigned cluster, unsigned rounds) {
  const unsigned size = block.x * block.y * block.z, blocks = grid.x * grid.y * grid.z;
  std::vector<uint32_t> out(blocks * size * N, 0xffffffffu);
  run(exchange<N>, {grid, block, 2 * N * size * 4, cluster}, out.data(), rounds);
  for (unsigned b = 0; b < blocks; ++b) {
    const unsigned before = (b % cluster + cluster - 1) % cluster;  // what the previous block added
    for (unsigned i = 0; i < size * N; ++i) {
      ASSERT_EQ(out[b * size * N + i], b * 100000 + i / N * 10 + i % N + rounds * (before + 1)) << b << " " << i;
    }
  }
  EXPECT_EQ(statistics().cluster_launches, cluster > 1 ? 1u : 0u);
  EXPECT_EQ(statistics().cluster_barriers, uint64_t(2 * rounds) * (blocks / cluster));
  EXPECT_EQ(statistics().cluster_loads, uint64_t(rounds) * blocks * size);
  EXPECT_EQ(statistics().cluster_stores, uint64_t(rounds) * blocks * size);
}

TEST_F(ClusterTest, BlocksExchangeSharedMemory) {
  const bool few = sanitizer() == Sanitizer::thread;
  for (unsigned cluster : {1u, 2u, 4u, 8u}) {
    in_every_mode([&] {
      check_exchange<1>(dim3(cluster), dim3(32), cluster, 3);
      check_exchange<2>(dim3(cluster), dim3(40), cluster, 1);  // a partial warp
      if (few) return;
      check_exchange<4>(dim3(2 * cluster, 3), dim3(16, 5), cluster, 2);
      check_exchange<1>(dim3(cluster, 2, 2), dim3(3, 3, 3), cluster, 2);
      check_exchange<4>(dim3(3 * cluster), dim3(160), cluster, 2);
    });
  }
  options().workers = 3;
  in_every_mode([&] { check_exchange<4>(dim3(4, 2), dim3(32), 2, 2); });
}

__global__ void record_ranks(uint32_t* out) {
  const uint32_t values[] = {cluster_rank(), cluster_size(),
                             mapa(shared_address(sim::dynamic_shared()), cluster_rank())};
  std::copy_n(values, 3, out + 3 * block_number());
}

TEST_F(ClusterTest, RanksCountAlongX) {
  for (unsigned cluster : {1u, 2u, 3u, 6u}) {
    in_every_mode([&] {
      std::vector<uint32_t> out(6 * 2 * 2 * 3);
      run(record_ranks, {dim3(6, 2, 2), dim3(1), 0, cluster}, out.data());
      for (unsigned b = 0; b < 24; ++b) {
        EXPECT_EQ(out[3 * b], b % 6 % cluster);
        EXPECT_EQ(out[3 * b + 1], cluster);
        EXPECT_EQ(out[3 * b + 2] >> 24, b % 6 % cluster + 1);
      }
    });
  }
}

// Only warp 0 of odd blocks, and warps 0 and 1 of even ones, come to the barriers; a warp that has arrived may end, too.
__global__ void early_exits(uint32_t* out) {
  auto* mine = static_cast<uint32_t*>(sim::dynamic_shared());
  const uint32_t other = cluster_rank() ^ 1;
  const unsigned warps = 2 - cluster_rank() % 2;
  if (threadIdx.x >= warps * 32) return;
  mine[threadIdx.x] = block_number() * 100 + threadIdx.x;
  cluster_sync();
  uint32_t r[1] = {0};
  if (threadIdx.x < 32) load_shared_cluster(r, mapa(shared_address(mine + threadIdx.x), other));
  cluster_arrive();
  if (threadIdx.x >= 32) return;
  cluster_wait();
  cluster_sync();
  out[block_number() * 32 + threadIdx.x] = r[0];
}

TEST_F(ClusterTest, ExitedThreadsAreNotWaitedFor) {
  in_every_mode([&] {
    std::vector<uint32_t> out(4 * 32);
    run(early_exits, {dim3(4), dim3(96), 256, 2}, out.data());
    for (unsigned i = 0; i < 128; ++i) EXPECT_EQ(out[i], (i / 32 ^ 1) * 100 + i % 32);
    EXPECT_EQ(statistics().cluster_barriers, 6u);
  });
}

// A block may be phases of its own work behind: arrive, work, wait.
__global__ void split_barrier(uint32_t* out, unsigned rounds) {
  auto* mine = static_cast<uint32_t*>(sim::dynamic_shared());
  uint32_t sum = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    mine[round % 2 * 32 + threadIdx.x] = (round + 1) * (cluster_rank() + 1);
    cluster_arrive();
    if (cluster_rank() == round % cluster_size()) __syncthreads();  // others run ahead
    cluster_wait();
    uint32_t r[1];
    load_shared_cluster(
        r, mapa(shared_address(mine + round % 2 * 32 + threadIdx.x), (cluster_rank() + 1) % cluster_size()));
    sum += r[0];
  }
  cluster_arrive_relaxed();
  cluster_wait();
  cluster_sync();
  out[block_number() * 32 + threadIdx.x] = sum;
}

TEST_F(ClusterTest, ArrivalAndWaitMayBeApart) {
  in_every_mode([&] {
    std::vector<uint32_t> out(4 * 32);
    run(split_barrier, {dim3(4), dim3(32), 256, 4}, out.data(), 5u);
    for (unsigned i = 0; i < 128; ++i) EXPECT_EQ(out[i], 15 * ((i / 32 + 1) % 4 + 1));
  });
}

// ---- Reports ----

TEST_F(ClusterTest, ImpossibleClustersAreRefused) {
  const auto refused = [&](dim3 grid, unsigned cluster) {
    const Report report = report_of([&] { run(nothing, {grid, dim3(32), 0, cluster}); });
    EXPECT_EQ(report.kind(), Report::Kind::misuse);
    return std::string(report.what());
  };
  EXPECT_EQ(refused(16, 16),
            "misuse: launch of test_kernel with clusters of 16 blocks. Rule: a cluster has 1 to 8 blocks; 16 are not "
            "portable, and not on this device.");
  EXPECT_NE(refused(1, 0).find("clusters of 0 blocks"), std::string::npos);
  EXPECT_EQ(
      refused(dim3(6, 4), 4),
      "misuse: launch of test_kernel with clusters of 4 blocks in a grid of 6 x 4 x 1. Rule: the blocks of a cluster "
      "are neighbours along x, so its size divides the grid's x.");
  if (sanitizer() == Sanitizer::thread) {
    const Report report = report_of([&] { run(nothing, {dim3(8), dim3(1024), 0, 8}); });
    EXPECT_NE(std::string(report.what()).find("clusters of 8192 threads"), std::string::npos);
  } else {
    run(nothing, {dim3(8), dim3(1024), 0, 8});
    EXPECT_EQ(statistics().threads, 8192u);
  }
}

TEST_F(ClusterTest, OutsideAKernelTheyNameThemselves) {
  uint32_t r[1] = {};
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"%cluster_ctarank", [] { cluster_rank(); }},
      {"%cluster_nctarank", [] { cluster_size(); }},
      {"mapa", [] { mapa(1024, 0); }},
      {"barrier.cluster.arrive", [] { cluster_arrive(); }},
      {"barrier.cluster.wait", [] { cluster_wait(); }},
      {"ld.shared::cluster", [&] { load_shared_cluster(r, 1024); }},
      {"st.shared::cluster", [&] { store_shared_cluster(1024, r); }},
      {"griddepcontrol.wait", [] { griddepcontrol_wait(); }},
      {"griddepcontrol.launch_dependents", [] { griddepcontrol_launch_dependents(); }},
  };
  for (const auto& [operation, call] : calls) expect_outside_of_a_kernel(operation, call);
}

// One access by block 1 of 2 to a place that is `offset` bytes from the begin of block 0's 64.
constexpr unsigned kAccessLine = __LINE__ + 5;
template <int N>
__global__ void access(bool stores, int offset) {
  uint32_t r[N] = {};
  const uint32_t address = mapa(shared_address(sim::dynamic_shared()), 0) + uint32_t(offset);
  if (cluster_rank() == 1 && !stores) load_shared_cluster(r, address);
  if (cluster_rank() == 1 && stores) store_shared_cluster(address, r);
  cluster_sync();
}

TEST_F(ClusterTest, ImpossibleAccessesAreReported) {
  const Launch shape{dim3(4), dim3(1), 64, 2};
  in_every_mode([&] {
    for (int offset : {0, 16, 48}) {
      EXPECT_NO_THROW(run(access<4>, shape, true, offset));
      EXPECT_NO_THROW(run(access<4>, shape, false, offset));
    }
    EXPECT_NO_THROW(run(access<1>, shape, true, 60));
    const Report report = report_of([&] { run(access<4>, shape, false, 64); });
    EXPECT_EQ(report.kind(), Report::Kind::out_of_bounds);
    const unsigned first = options().schedule == Schedule::descending ? 3 : 1;
    if (options().schedule != Schedule::random) {
      EXPECT_EQ(report.what(), "out of bounds in kernel test_kernel, block (" + std::to_string(first) +
                                   ",0,0), thread 0 (warp 0, lane 0), at " + here(kAccessLine, "access") +
                                   ": ld.shared::cluster at shared offset 64, 16 bytes, of the block's 64. Rule: a "
                                   "shared address lies inside the block's dynamic shared memory.");
    }
    const auto text = [&](auto kernel, bool stores, int offset) {
      return std::string(report_of([&] { run(kernel, shape, stores, offset); }).what());
    };
    expect_parts(text(access<4>, true, -16),
                 {"st.shared::cluster at shared offset -16, 16 bytes", here(kAccessLine + 1, "access")});
    expect_parts(text(access<2>, true, 60), {"st.shared::cluster at shared offset 60, 8 bytes"});
    expect_parts(text(access<2>, true, 4), {"misuse",
                                            "st.shared::cluster at shared offset 4. Rule: the shared address is a "
                                            "multiple of the size"});
    expect_parts(text(access<4>, false, 8), {"ld.shared::cluster at shared offset 8. Rule"});
    expect_parts(text(access<1>, false, 1), {"ld.shared::cluster at shared offset 1. Rule"});
    expect_parts(text(access<1>, false, 5 << 24),
                 {"out of bounds",
                  "ld.shared::cluster at cluster address 0x6000400, which names block 5 of a cluster of 2. "
                  "Rule: a cluster address comes from mapa, or is a shared address of the own block"});
  });
}

__global__ void odd_size(unsigned bytes) {
  uint32_t r[4];
  sim::load_cluster(r, shared_address(sim::dynamic_shared()), bytes);
}
__global__ void map(int offset, uint32_t rank) {
  mapa(shared_address(sim::dynamic_shared()) + uint32_t(offset), rank);
}

TEST_F(ClusterTest, ImpossibleAddressesAreReported) {
  const Launch shape{dim3(4), dim3(1), 64, 4};
  EXPECT_NO_THROW(run(odd_size, shape, 16u));  // the own block's address, without mapa
  for (unsigned bytes : {0u, 1u, 12u, 32u}) {
    expect_parts(
        report_of([&] { run(odd_size, shape, bytes); }).what(),
        {"ld.shared::cluster of " + std::to_string(bytes) + " bytes. Rule: a vector access moves 4, 8 or 16 bytes"});
  }
  const auto text = [&](int offset, uint32_t rank) {
    return std::string(report_of([&] { run(map, shape, offset, rank); }).what());
  };
  EXPECT_NO_THROW(run(map, shape, 64, 3u));
  expect_parts(text(0, 4), {"misuse",
                            "mapa to block 4 in a cluster of 4. Rule: the rank of mapa is less than the number of "
                            "blocks in the cluster"});
  expect_parts(text(65, 0), {"out of bounds",
                             "mapa of 0x441, no shared address of the block's 64 bytes. Rule: mapa takes an "
                             "address in the block's own shared memory"});
  expect_parts(text(-1, 0), {"mapa of 0x3ff, no shared address"});
  expect_parts(text(1 << 24, 0), {"mapa of 0x1000400, a cluster address of the block's 64 bytes"});
}

constexpr unsigned kTwiceLine = __LINE__ + 2;
__global__ void arrives_twice() {
  cluster_arrive();
  cluster_arrive_relaxed();
  cluster_wait();
}
__global__ void waits_twice() {
  cluster_sync();
  cluster_wait();
}
__global__ void waits_alone() {
  cluster_wait();
}
__global__ void half_a_warp() {
  if (threadIdx.x >= 16) return;
  cluster_arrive();
}
__global__ void both_branches() {
  if (threadIdx.x < 16) {
    cluster_arrive();
  } else {
    cluster_arrive();
  }
}

TEST_F(ClusterTest, ArrivalsAndWaitsAlternate) {
  for (unsigned cluster : {1u, 2u}) {
    const Launch shape{dim3(2), dim3(64), 0, cluster};
    in_every_mode([&] {
      const Report report = report_of([&] { run(arrives_twice, shape); });
      EXPECT_EQ(report.kind(), Report::Kind::misuse);
      expect_parts(report.what(), {"lane 0), at " + here(kTwiceLine + 1, "arrives_twice") +
                                   ": the warp arrives a second time at the cluster barrier; it arrived first at " +
                                   here(kTwiceLine, "arrives_twice") +
                                   ". Rule: barrier.cluster.arrive and barrier.cluster.wait alternate."});
      const std::string alone =
          "the warp waits at the cluster barrier without having arrived there. Rule: "
          "barrier.cluster.arrive and barrier.cluster.wait alternate.";
      expect_parts(report_of([&] { run(waits_twice, shape); }).what(), {alone, "waits_twice"});
      expect_parts(report_of([&] { run(waits_alone, shape); }).what(), {alone, "waits_alone"});
      expect_parts(report_of([&] { run(half_a_warp, shape); }).what(),
                   {"divergence", "barrier.cluster.arrive", "half_a_warp"});
      expect_parts(report_of([&] { run(both_branches, shape); }).what(),
                   {"divergence", "the lane executes barrier.cluster.arrive while lanes",
                    "wait for it in barrier.cluster.arrive", "same .aligned instruction"});
    });
  }
}

constexpr unsigned kStuckLine = __LINE__ + 3;
__global__ void stuck() {
  if (cluster_rank() == 1 && threadIdx.x < 32) {
    bar_sync(3, 64);
  } else if (cluster_rank() == 1 && threadIdx.x >= 64) {
    return;
  }
  cluster_sync();
}

TEST_F(ClusterTest, DeadlockCountsArrivals) {
  in_every_mode([&] {
    const Report report = report_of([] { run(stuck, {dim3(3), dim3(96), 0, 3}); });
    EXPECT_EQ(report.kind(), Report::Kind::deadlock);
    const std::string waits = " wait in barrier.cluster.wait at " + here(kStuckLine + 4, "stuck") +
                              " where 224 of the 256 threads of the cluster that have not exited have arrived";
    expect_parts(
        report.what(),
        {"deadlock in kernel test_kernel, block (0,0,0): 96 of 96 threads wait and none can run: threads 0-95" + waits,
         "Also in kernel test_kernel, block (1,0,0): 64 of 96 threads wait and none can run:",
         "threads 0-31 wait in bar.sync 3 at " + here(kStuckLine, "stuck") + " where 32 of 64 threads have arrived",
         "threads 32-63" + waits, "threads 64-95 have exited",
         "Also in kernel test_kernel, block (2,0,0): 96 of 96 threads wait"});
  });
}

TEST_F(ClusterTest, LaunchShapesReachTheDevice) {
  std::vector<uint32_t> out(12);
  const Status status = launch(record_ranks, LaunchShape{dim3(4), dim3(1), 16, 2}, nullptr, out.data());
  EXPECT_TRUE(status) << status.message;
  EXPECT_EQ(out[3 * 3], 1u);
  EXPECT_EQ(out[3 * 3 + 1], 2u);
  const Status refused = launch(record_ranks, LaunchShape{dim3(4), dim3(1), 16, 3}, nullptr, out.data());
  EXPECT_EQ(refused.code, Code::device_error);
  EXPECT_NE(refused.message.find("clusters of 3 blocks in a grid of 4 x 1 x 1"), std::string::npos);
}

}  // namespace
}  // namespace grout::cluster_test
