// mbarriers, bulk copies, bulk groups and proxy fences of the simulated device: what they give under every schedule, late
// and early. Races: in the build of ThreadSanitizer. Tensor copies: async_tensor.cpp. Reports: async_reports_test.cpp.
#include <algorithm>
#include <array>

#include "tests/sim/async_fixture.cuh"

namespace grout {
namespace {

// ---- A ring: one producer thread, 32 consumers, that add 1 to each byte and give the tile to a store ----

constexpr int kStages = 3, kTiles = 8, kTileBytes = 512;
enum class Ring { right, freed_before_read, no_free, weak_store_wait, no_fence };

struct RingStorage {
  alignas(128) unsigned char stage[kStages][kTileBytes];
  unsigned char out[2][kTileBytes];
  uint64_t full[kStages], empty[kStages];
};

template <Ring kind>
__global__ void ring(const unsigned char* in, unsigned char* out) {
  auto& s = dynamic_shared<RingStorage>();
  in += blockIdx.x * kTiles * kTileBytes, out += blockIdx.x * kTiles * kTileBytes;
  const auto full = [&](int i) { return ptx::shared_address(&s.full[i % kStages]); };
  const auto empty = [&](int i) { return ptx::shared_address(&s.empty[i % kStages]); };
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      ptx::mbarrier_init(full(i), 1);
      ptx::mbarrier_init(empty(i), 32);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kTiles; ++i) {
      if (kind != Ring::no_free && i >= kStages) wait(empty(i), uint32_t(i / kStages - 1) & 1);
      ptx::mbarrier_arrive_expect_tx(full(i), kTileBytes);
      ptx::cp_async_bulk_load(ptx::shared_address(s.stage[i % kStages]), in + i * kTileBytes, kTileBytes, full(i));
    }
  } else if (threadIdx.x >= 32) {
    const int lane = int(threadIdx.x) % 32;
    for (int i = 0; i < kTiles; ++i) {
      wait(full(i), uint32_t(i / kStages) & 1);
      if (kind == Ring::freed_before_read) ptx::mbarrier_arrive(empty(i));
      if (lane == 0) {
        if (kind == Ring::weak_store_wait)
          ptx::cp_async_bulk_wait_group_read<2>();
        else
          ptx::cp_async_bulk_wait_group_read<1>();
      }
      __syncwarp();
      for (int b = lane; b < kTileBytes; b += 32) s.out[i % 2][b] = static_cast<unsigned char>(s.stage[i % kStages][b] + 1);
      if (kind != Ring::freed_before_read && kind != Ring::no_free) ptx::mbarrier_arrive(empty(i));
      if (kind != Ring::no_fence) ptx::fence_proxy_async_shared();
      __syncwarp();
      if (lane == 0) {
        ptx::cp_async_bulk_store(out + i * kTileBytes, ptx::shared_address(s.out[i % 2]), kTileBytes);
        ptx::cp_async_bulk_commit_group();
      }
    }
    if (lane == 0) ptx::cp_async_bulk_wait_group_read<0>();
  }
}

struct RingRun {
  Status status;
  bool right;
};

template <Ring kind>
RingRun run_ring(unsigned blocks = 1) {
  const auto in = numbered(blocks * kTiles * kTileBytes);
  DeviceBuffer source(in.size()), destination(in.size());
  source.upload(in.data());
  Status status = launch(ring<kind>, dim3(blocks), dim3(64), sizeof(RingStorage), nullptr, source.as<const unsigned char>(),
                         destination.as<unsigned char>());
  auto expected = in;
  for (unsigned char& byte : expected) ++byte;
  const Status guards = destination.check_guards("destination");
  EXPECT_TRUE(guards) << guards.message;
  return {std::move(status), contents(destination) == expected};
}

TEST_F(AsyncTest, RingIsRightInEveryMode) {
  in_every_mode([&] {
    const RingRun run = run_ring<Ring::right>();
    EXPECT_TRUE(run.status) << run.status.message;
    EXPECT_TRUE(run.right);
    EXPECT_EQ(sim::statistics().bulk_loads, uint64_t(kTiles));
    EXPECT_EQ(sim::statistics().bulk_stores, uint64_t(kTiles));
    EXPECT_EQ(sim::statistics().mbarrier_phases, uint64_t(2 * kTiles));
  });
}

TEST_F(AsyncTest, RingsOfManyBlocksOnManyWorkers) {
  sim::options().workers = 3;
  const unsigned blocks = sim::sanitizer() == sim::Sanitizer::thread ? 4 : 40;
  in_every_mode([&] {
    const RingRun run = run_ring<Ring::right>(blocks);
    EXPECT_TRUE(run.status) << run.status.message;
    EXPECT_TRUE(run.right);
    EXPECT_EQ(sim::statistics().bulk_loads, uint64_t(blocks * kTiles));
  });
}

TEST_F(AsyncTest, MissingProxyFenceIsWrongInEveryMode) {
  in_every_mode([&] {
    const RingRun run = run_ring<Ring::no_fence>();
    EXPECT_TRUE(run.status) << run.status.message;
    EXPECT_FALSE(run.right);
  });
}

TEST_F(AsyncTest, StoreSourceReusedTooEarlyIsFound) {
  int wrong = 0;
  const int races = races_of([&] { in_every_mode([&] { wrong += !run_ring<Ring::weak_store_wait>().right; }); });
  if (sim::sanitizer() == sim::Sanitizer::thread) {
    EXPECT_GT(races, 0);
  } else {
    EXPECT_GT(wrong, 0);
  }
}

TEST_F(AsyncTest, StageFreedBeforeItIsReadIsARace) {
  const int races = races_of([&] { in_every_mode([&] { (void)run_ring<Ring::freed_before_read>(); }); });
  if (sim::sanitizer() == sim::Sanitizer::thread) {
    EXPECT_GT(races, 0);
  }
}

TEST_F(AsyncTest, StageNeverFreedIsFound) {
  int found = 0;
  const int races = races_of([&] {
    in_every_mode([&] {
      const RingRun run = run_ring<Ring::no_free>();
      found += !run.status || !run.right;
    });
  });
  EXPECT_GT(found + races, 0);
}

// ---- Late and early ----

__global__ void look_before_waiting(const unsigned char* in, unsigned char* seen) {
  auto& s = dynamic_shared<RingStorage>();
  const uint32_t barrier = ptx::shared_address(s.full);
  std::memset(s.stage, 5, 16);
  ptx::mbarrier_init(barrier, 1);
  ptx::fence_mbarrier_init();
  ptx::mbarrier_arrive_expect_tx(barrier, 16);
  ptx::cp_async_bulk_load(ptx::shared_address(s.stage), in, 16, barrier);
  seen[0] = s.stage[0][0];
  wait(barrier, 0);
  seen[1] = s.stage[0][0];
}

TEST_F(AsyncTest, DestinationIsPoisonUntilTheCopyIsMade) {
  const int races = races_of([&] {
    in_every_mode([&] {
      alignas(16) const unsigned char in[16] = {42};
      unsigned char seen[2] = {};
      const Status status = launch(look_before_waiting, dim3(1), dim3(1), sizeof(RingStorage), nullptr, &in[0], &seen[0]);
      EXPECT_TRUE(status) << status.message;
      EXPECT_EQ(seen[0], late() ? 0xff : 42);
      EXPECT_EQ(seen[1], 42);
    });
  });
  if (sim::sanitizer() == sim::Sanitizer::thread) {
    EXPECT_GT(races, 0) << "the engine is not the thread that issues";
  }
}

// seen: what lies in global memory when a group's source was read, and when it was written.
__global__ void look_before_written(unsigned char* out, unsigned char* seen, bool look_early) {
  auto& s = dynamic_shared<RingStorage>();
  s.out[0][0] = 42;
  ptx::fence_proxy_async_shared();
  ptx::cp_async_bulk_store(out, ptx::shared_address(s.out[0]), 16);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group_read<0>();
  s.out[0][0] = 43;  // not seen by the store any more
  ptx::fence_proxy_async_shared();
  if (look_early) seen[0] = out[0];
  ptx::cp_async_bulk_store(out + 16, ptx::shared_address(s.out[0]), 16);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group<1>();
  seen[1] = out[0];
  ptx::cp_async_bulk_wait_group_read<0>();  // the second is written after the end of the thread
}

TEST_F(AsyncTest, ASourceThatWasReadIsNotWrittenYet) {
  for (const bool look_early : {false, true}) {
    const auto run = [&] {
      in_every_mode([&] {
        alignas(16) unsigned char out[32] = {};
        unsigned char seen[2] = {};
        const Status status =
            launch(look_before_written, dim3(1), dim3(1), sizeof(RingStorage), nullptr, &out[0], &seen[0], look_early);
        EXPECT_TRUE(status) << status.message;
        if (look_early) {
          EXPECT_EQ(seen[0], late() ? 0 : 42);
        }
        EXPECT_EQ(seen[1], 42);
        EXPECT_EQ(out[0], 42);
        EXPECT_EQ(out[16], 43);
        for (int i = 1; i < 16; ++i) EXPECT_EQ(out[i] & out[16 + i], 0xff);
      });
    };
    if (!look_early) {
      run();
    } else if (const int races = races_of(run); sim::sanitizer() == sim::Sanitizer::thread) {
      EXPECT_GT(races, 0);
    }
  }
}

__global__ void leave_one_group(unsigned char* out, unsigned char* seen) {
  auto& s = dynamic_shared<RingStorage>();
  std::memset(s.out, 42, 32);
  ptx::fence_proxy_async_shared();
  for (int i = 0; i < 2; ++i) {
    ptx::cp_async_bulk_store(out + 16 * i, ptx::shared_address(&s.out[0][16 * i]), 16);
    ptx::cp_async_bulk_commit_group();
  }
  ptx::cp_async_bulk_wait_group<1>();
  seen[0] = out[0];
  seen[1] = out[16];
  ptx::cp_async_bulk_wait_group<0>();
  seen[2] = out[16];
}

TEST_F(AsyncTest, TheNewestGroupsMayStayUnfinished) {
  sim::options().asynchrony = sim::Asynchrony::late;
  alignas(16) unsigned char out[32] = {}, seen[3] = {};
  const int races = races_of(
      [&] { EXPECT_TRUE(launch(leave_one_group, dim3(1), dim3(1), sizeof(RingStorage), nullptr, &out[0], &seen[0])); });
  EXPECT_EQ(seen[0], 42);
  EXPECT_EQ(seen[1], 0);
  EXPECT_EQ(seen[2], 42);
  if (sim::sanitizer() == sim::Sanitizer::thread) {
    EXPECT_GT(races, 0);
  }
}

// Thread 0 issues three loads, threads 32, 64 and 96 wait for one each and say in which order they came.
__global__ void record_deliveries(const unsigned char* in, unsigned* order, unsigned* count) {
  auto& s = dynamic_shared<RingStorage>();
  const auto full = [&](int i) { return ptx::shared_address(&s.full[i]); };
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) ptx::mbarrier_init(full(i), 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) {
      ptx::mbarrier_arrive_expect_tx(full(i), 16);
      ptx::cp_async_bulk_load(ptx::shared_address(s.stage[i]), in, 16, full(i));
    }
  } else if (threadIdx.x % 32 == 0) {
    const int i = int(threadIdx.x / 32) - 1;
    wait(full(i), 0);
    order[atomicAdd(count, 1u)] = unsigned(i);
  }
}

TEST_F(AsyncTest, TheScheduleDecidesWhichCopyIsMadeFirst) {
  using Order = std::array<unsigned, 3>;
  alignas(16) const unsigned char in[16] = {};
  const auto order = [&](sim::Schedule schedule, uint64_t seed) {
    sim::options().schedule = schedule;
    sim::options().seed = seed;
    Order result{};
    unsigned count = 0;
    EXPECT_TRUE(launch(record_deliveries, dim3(1), dim3(128), sizeof(RingStorage), nullptr, &in[0], result.data(), &count));
    return result;
  };
  EXPECT_EQ(order(sim::Schedule::ascending, 1), (Order{0, 1, 2}));
  EXPECT_EQ(order(sim::Schedule::descending, 1), (Order{2, 1, 0}));
  for (const auto schedule : {sim::Schedule::random, sim::Schedule::warp_greedy, sim::Schedule::round_robin}) {
    std::vector<Order> orders;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      orders.push_back(order(schedule, seed));
      EXPECT_EQ(orders.back(), order(schedule, seed));
    }
    std::sort(orders.begin(), orders.end());
    EXPECT_EQ(std::unique(orders.begin(), orders.end()) - orders.begin(), 6) << sim::name(schedule);
  }
}

// What the engine wrote it also sees: no proxy fence between a load and a store of the same bytes.
__global__ void pass_on(const unsigned char* in, unsigned char* out) {
  auto& s = dynamic_shared<RingStorage>();
  const uint32_t full = ptx::shared_address(s.full), stage = ptx::shared_address(s.stage);
  ptx::mbarrier_init(full, 1);
  ptx::fence_mbarrier_init();
  ptx::mbarrier_arrive_expect_tx(full, kTileBytes);
  ptx::cp_async_bulk_load(stage, in, kTileBytes, full);
  wait(full, 0);
  ptx::cp_async_bulk_store(out, stage, kTileBytes);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group_read<0>();
}

TEST_F(AsyncTest, WhatWasLoadedIsStoredWithoutAFence) {
  const auto in = numbered(kTileBytes);
  DeviceBuffer source(in.size());
  source.upload(in.data());
  in_every_mode([&] {
    DeviceBuffer out(in.size());
    EXPECT_TRUE(launch(pass_on, dim3(1), dim3(1), sizeof(RingStorage), nullptr, source.as<const unsigned char>(),
                       out.as<unsigned char>()));
    EXPECT_EQ(contents(out), in);
  });
}

__global__ void use_unpublished_barrier(bool publish) {
  auto& s = dynamic_shared<RingStorage>();
  if (threadIdx.x == 0) ptx::mbarrier_init(ptx::shared_address(s.full), 1);
  if (publish) __syncthreads();
  if (threadIdx.x == 32) ptx::mbarrier_arrive(ptx::shared_address(s.full));
}

TEST_F(AsyncTest, ABarrierUsedBeforeItIsPublishedIsARace) {
  const auto run = [](bool publish) {
    return launch(use_unpublished_barrier, dim3(1), dim3(64), sizeof(RingStorage), nullptr, publish);
  };
  in_every_mode([&] { EXPECT_TRUE(run(true)); });
  sim::options().schedule = sim::Schedule::ascending;
  const int races = races_of([&] { EXPECT_TRUE(run(false)); });
  if (sim::sanitizer() == sim::Sanitizer::thread) {
    EXPECT_GT(races, 0);
  }
  sim::options().schedule = sim::Schedule::descending;
  expect_part(run(false), "where no mbarrier is initialised");
}

__global__ void arrive_later(unsigned* out) {
  auto& s = dynamic_shared<RingStorage>();
  const uint32_t barrier = ptx::shared_address(s.full), go = ptx::shared_address(s.empty);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::mbarrier_init(go, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    out[0] = ptx::mbarrier_try_wait_parity(barrier, 1);  // the phase before the first counts as complete
    ptx::mbarrier_arrive(go);
    out[1] = ptx::mbarrier_try_wait_parity(barrier, 0);
    out[2] = ptx::mbarrier_try_wait_parity(barrier, 0);
  } else if (threadIdx.x == 32) {
    wait(go, 0);
    ptx::mbarrier_arrive(barrier);
  }
}

TEST_F(AsyncTest, AWaitInVainGivesFalseOnce) {
  in_every_mode([&] {
    unsigned out[3] = {9, 9, 9};
    const Status status = launch(arrive_later, dim3(1), dim3(64), sizeof(RingStorage), nullptr, &out[0]);
    EXPECT_TRUE(status) << status.message;
    EXPECT_EQ(out[0], 1u);
    EXPECT_EQ(out[2], 1u);
    if (sim::options().schedule == sim::Schedule::ascending) {
      EXPECT_EQ(out[1], 0u);
    }
  });
}

// ---- Clusters ----

enum class Multicast { right, own_scope_wait };

struct ClusterStorage {
  alignas(128) unsigned char stage[kStages][kTileBytes];
  alignas(16) unsigned char gift[64], received[64];
  uint64_t full[kStages], empty[kStages], given;
};

// Each block of two loads half of each tile for both. A stage is free when both have read it: `empty` counts 2 warps.
// Then each gives its neighbour 64 bytes.
template <Multicast kind>
__global__ void share_tiles(const unsigned char* in, unsigned char* out, unsigned char* gifts) {
  auto& s = dynamic_shared<ClusterStorage>();
  const auto full = [&](int i) { return ptx::shared_address(&s.full[i % kStages]); };
  const auto empty = [&](int i) { return ptx::shared_address(&s.empty[i % kStages]); };
  const uint32_t rank = ptx::cluster_rank(), given = ptx::shared_address(&s.given);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      ptx::mbarrier_init(full(i), 1);
      ptx::mbarrier_init(empty(i), 2);
    }
    ptx::mbarrier_init(given, 1);
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_sync();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kTiles; ++i) {
      if (i >= kStages) {
        const uint32_t parity = uint32_t(i / kStages - 1) & 1;
        if (kind == Multicast::right)
          wait_cluster(empty(i), parity);
        else
          wait(empty(i), parity);
      }
      ptx::mbarrier_arrive_expect_tx(full(i), kTileBytes);
      const uint32_t half = rank * kTileBytes / 2;
      ptx::cp_async_bulk_load_multicast(ptx::shared_address(s.stage[i % kStages] + half), in + i * kTileBytes + half,
                                        kTileBytes / 2, full(i), 3);
    }
  } else if (threadIdx.x >= 32) {
    const int lane = int(threadIdx.x) % 32;
    for (int i = 0; i < kTiles; ++i) {
      wait(full(i), uint32_t(i / kStages) & 1);
      for (int b = lane; b < kTileBytes; b += 32) out[(int(rank) * kTiles + i) * kTileBytes + b] = s.stage[i % kStages][b];
      __syncwarp();
      if (lane < 2) ptx::mbarrier_arrive_cluster(ptx::mapa(empty(i), uint32_t(lane)));
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    std::memset(s.gift, int(rank) + 1, sizeof s.gift);
    ptx::fence_proxy_async_shared();
    ptx::mbarrier_arrive_expect_tx(given, sizeof s.gift);
    ptx::cp_async_bulk_to_cluster(ptx::mapa(ptx::shared_address(s.received), rank ^ 1), ptx::shared_address(s.gift),
                                  sizeof s.gift, ptx::mapa(given, rank ^ 1));
    wait(given, 0);
    std::memcpy(gifts + rank * 64, s.received, 64);
  }
  __syncwarp();
  ptx::cluster_sync();
}

template <Multicast kind>
RingRun run_share_tiles() {
  const auto in = numbered(kTiles * kTileBytes);
  DeviceBuffer source(in.size()), out(2 * in.size()), gifts(128);
  source.upload(in.data());
  Status status = launch(share_tiles<kind>, LaunchShape{dim3(2), dim3(64), sizeof(ClusterStorage), 2}, nullptr,
                         source.as<const unsigned char>(), out.as<unsigned char>(), gifts.as<unsigned char>());
  auto expected = in;
  expected.insert(expected.end(), in.begin(), in.end());
  std::vector<unsigned char> given(64, 2);
  given.resize(128, 1);
  return {std::move(status), contents(out) == expected && contents(gifts) == given};
}

TEST_F(AsyncTest, MulticastAndCopiesToNeighboursAreRightInEveryMode) {
  in_every_mode([&] {
    const RingRun run = run_share_tiles<Multicast::right>();
    EXPECT_TRUE(run.status) << run.status.message;
    EXPECT_TRUE(run.right);
    EXPECT_EQ(sim::statistics().bulk_loads, uint64_t(2 * kTiles + 2));
  });
}

TEST_F(AsyncTest, AWaitOfTheOwnBlocksScopeAfterRemoteArrivalsIsARace) {
  const int races =
      races_of([&] { in_every_mode([&] { EXPECT_TRUE(run_share_tiles<Multicast::own_scope_wait>().right); }); });
  if (sim::sanitizer() == sim::Sanitizer::thread) {
    EXPECT_GT(races, 0);
  }
}

}  // namespace
}  // namespace grout
