// Clusters, distributed shared memory, the cluster barrier and programmatic dependent launch of the simulated device: right
// and silent where they are used right, and what is reported where not. Cases with a bug run in a process of their own,
// since a sanitizer may end it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <sstream>
#include <thread>
#include <tuple>
#include <vector>

#include "common/ptx_sm90.cuh"

namespace grout::cluster_test {
namespace {

using namespace grout::ptx;
using sim::Asynchrony, sim::Launch, sim::Loc, sim::Report, sim::Sanitizer, sim::Schedule;
using sim::name, sim::options, sim::sanitizer, sim::statistics;

template <class... Parameters, class... Arguments>
void run(void (*kernel)(Parameters...), const Launch& shape, Arguments... arguments) {
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

/// Calls f under every schedule, late and early.
template <class F>
void for_each_mode(F f) {
  for (Asynchrony asynchrony : sim::kAsynchronies) {
    for (Schedule schedule : sim::kSchedules) {
      options().schedule = schedule;
      options().asynchrony = asynchrony;
      f();
    }
  }
}

std::string mode() {
  return std::string(name(options().asynchrony)) + " " + name(options().schedule);
}

class ClusterTest : public testing::Test {
 protected:
  void SetUp() override {
    options().workers = 1;
    options().compute_capability = 90;
  }
  void TearDown() override { options() = saved_; }
  template <class F>
  void in_every_mode(F f) {
    for_each_mode([&] {
      SCOPED_TRACE(mode());
      f();
    });
  }
  template <class F>
  Report report_of(F f) {
    try {
      f();
    } catch (const Report& report) {
      return report;
    }
    ADD_FAILURE() << "no report, " << mode();
    return Report(Report::Kind::misuse, "");
  }

 private:
  sim::Options saved_ = options();
};
using DependentLaunchTest = ClusterTest;

// How reports name a line of this file.
std::string here(unsigned line, const char* kernel) {
  return std::string(Loc::current().file_name()) + ":" + std::to_string(line) + " (" + kernel + ")";
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  }
}

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

__global__ void nothing() {}

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
  for (const auto& [operation, call] : calls) {
    try {
      call();
      ADD_FAILURE() << operation;
    } catch (const std::logic_error& error) {
      EXPECT_EQ(std::string(error.what()).find(std::string(operation) + " was called outside of a kernel"), 0u)
          << error.what();
    }
  }
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

__global__ void early_end(uint32_t* out) {
  auto* mine = static_cast<uint32_t*>(sim::dynamic_shared());
  mine[threadIdx.x] = 1000 + threadIdx.x;
  cluster_sync();
  if (cluster_rank() == 1) return;
  __syncthreads();  // the others end meanwhile
  uint32_t r[1];
  load_shared_cluster(r, mapa(shared_address(mine + threadIdx.x), 1));
  out[threadIdx.x] = r[0];
}

// ---- Dependent launches ----

constexpr unsigned kThreads = 64, kBlocks = 2, kWords = kThreads * kBlocks;

GROUT_DEVICE unsigned place() {
  return blockIdx.x * blockDim.x + threadIdx.x;
}

enum class Launches { before, behind, never };
template <Launches When>
__global__ void produce(uint32_t* out) {
  if (When == Launches::before) griddepcontrol_launch_dependents();
  out[place()] = 1000 + place();
  if (When == Launches::behind) griddepcontrol_launch_dependents();
}

// Lets the next grid begin only when all is written, which still says nothing about memory.
__global__ void produce_then_launch(uint32_t* out) {
  if (blockIdx.x > 0) return;
  for (unsigned i = threadIdx.x; i < kWords; i += kThreads) out[i] = 1000 + i;
  __syncthreads();
  griddepcontrol_launch_dependents();
}

// Adds one. When it waits, when it lets the next begin.
enum class Waits { first, never, one_thread, late };
template <Waits When, Launches Next = Launches::never>
__global__ void consume(const uint32_t* in, uint32_t* out) {
  if (Next == Launches::before) griddepcontrol_launch_dependents();
  if (When == Waits::first || (When == Waits::one_thread && threadIdx.x == 0)) griddepcontrol_wait();
  if (Next == Launches::behind) griddepcontrol_launch_dependents();
  out[place()] = in[place()] + 1;
  if (When == Waits::late) griddepcontrol_wait();
}

// One thread waits for all of its block.
__global__ void consume_behind_barrier(const uint32_t* in, uint32_t* out) {
  if (threadIdx.x == 0) griddepcontrol_wait();
  __syncthreads();
  out[place()] = in[place()] + 1;
}

// Sums what the last two grids wrote; `a` is read before the wait if EarlyA.
template <bool EarlyA>
__global__ void add(const uint32_t* a, const uint32_t* b, uint32_t* out) {
  uint32_t sum = EarlyA ? a[place()] : 0;
  griddepcontrol_wait();
  if (!EarlyA) sum = a[place()];
  out[place()] = sum + b[place()];
}

// Writes what the grid before writes, too.
template <Waits When>
__global__ void overwrite(uint32_t* out) {
  if (When == Waits::first) griddepcontrol_wait();
  out[place()] = 5000 + place();
  if (When == Waits::late) griddepcontrol_wait();
}
constexpr unsigned kLateWaitLine = __LINE__ - 2;

/// Device memory of three arrays of kWords and a guard behind each.
class Arrays {
 public:
  Arrays() {
    for (uint32_t*& pointer : pointers_) {
      if (cudaMalloc(&pointer, (kWords + 1) * 4) != cudaSuccess) std::abort();
    }
    poison();
  }
  ~Arrays() {
    for (uint32_t* pointer : pointers_) (void)cudaFree(pointer);
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;
  void poison() {
    for (uint32_t* pointer : pointers_) (void)cudaMemset(pointer, 0xff, (kWords + 1) * 4);
  }
  uint32_t* operator[](unsigned i) { return pointers_[i]; }
  /// Is array i what expected(place) says, and its guard whole? Read without any call of the runtime.
  template <class F>
  bool is(unsigned i, F expected) const {
    for (unsigned p = 0; p < kWords; ++p) {
      if (pointers_[i][p] != uint32_t(expected(p))) return false;
    }
    return pointers_[i][kWords] == 0xffffffffu;
  }

 private:
  uint32_t* pointers_[3] = {};
};

const Launch kPlain{dim3(kBlocks), dim3(kThreads)};
const Launch kProgrammatic{dim3(kBlocks), dim3(kThreads), 0, 1, true};
const auto kProduced = [](unsigned p) { return 1000 + p; };
const auto kConsumed = [](unsigned p) { return 1001 + p; };

TEST_F(DependentLaunchTest, AGridThatWaitsSeesWhatThePreviousWrote) {
  for (int capability : {80, 90}) {
    options().compute_capability = capability;
    for (int workers : {1, 2}) {
      options().workers = workers;
      in_every_mode([&] {
        for (auto* producer :
             {produce<Launches::before>, produce<Launches::behind>, produce<Launches::never>, produce_then_launch}) {
          for (auto* consumer : {consume<Waits::first>, consume_behind_barrier}) {
            Arrays arrays;
            run(producer, kPlain, arrays[0]);
            EXPECT_EQ(statistics().programmatic_launches, 0u);
            EXPECT_TRUE(arrays.is(0, kProduced)) << "the host's view";
            run(consumer, kProgrammatic, arrays[0], arrays[1]);
            EXPECT_EQ(statistics().programmatic_launches, 1u);
            EXPECT_TRUE(arrays.is(0, kProduced));
            EXPECT_TRUE(arrays.is(1, kConsumed));
          }
        }
        Arrays arrays;
        run(produce<Launches::before>, kPlain, arrays[0]);
        run(overwrite<Waits::first>, kProgrammatic, arrays[0]);
        EXPECT_TRUE(arrays.is(0, [](unsigned p) { return 5000 + p; }));
      });
    }
  }
}

TEST_F(DependentLaunchTest, ChainsOfThree) {
  in_every_mode([&] {
    const auto sum = [](unsigned p) { return 2001 + 2 * p; };
    const auto chain = [&](auto middle, auto last) {
      Arrays arrays;
      run(produce<Launches::before>, kPlain, arrays[0]);
      run(middle, kProgrammatic, arrays[0], arrays[1]);
      run(last, kProgrammatic, arrays[0], arrays[1], arrays[2]);
      EXPECT_TRUE(arrays.is(0, kProduced));
      EXPECT_TRUE(arrays.is(1, kConsumed));
      EXPECT_TRUE(arrays.is(2, sum));
    };
    chain(consume<Waits::first, Launches::before>, add<false>);
    chain(consume<Waits::first, Launches::behind>, add<false>);
    chain(consume<Waits::first, Launches::never>, add<false>);
    // The first grid was complete before the last began: the middle one let it begin only after its wait.
    chain(consume<Waits::first, Launches::behind>, add<true>);
    chain(consume<Waits::first, Launches::never>, add<true>);
  });
}

// Nothing is hidden from a grid that begins after the end of the one before it.
TEST_F(DependentLaunchTest, WhatOrdersTheGridsShowsAll) {
  const std::pair<const char*, std::function<void(Arrays&)>> between[] = {
      {"cudaDeviceSynchronize", [](Arrays&) { (void)cudaDeviceSynchronize(); }},
      {"cudaStreamSynchronize", [](Arrays&) { (void)cudaStreamSynchronize(nullptr); }},
      {"cudaMemcpy", [](Arrays& arrays) { (void)cudaMemcpy(arrays[2], arrays[1], 4, cudaMemcpyDefault); }},
      {"cudaMemset", [](Arrays& arrays) { (void)cudaMemset(arrays[2], 0, 4); }},
      {"cudaMalloc, cudaFree",
       [](Arrays&) {
         void* memory = nullptr;
         (void)cudaMalloc(&memory, 4);
         (void)cudaFree(memory);
       }},
      {"cudaEventRecord",
       [](Arrays&) {
         cudaEvent_t event;
         (void)cudaEventCreate(&event);
         (void)cudaEventRecord(event);
         (void)cudaEventDestroy(event);
       }},
      {"a launch",
        [](Arrays&) {
          run(nothing, {dim3(1), dim3(1)});
        }},
      {"a launch of another host thread",
       [](Arrays&) { std::thread([] {
                       run(nothing, {dim3(1), dim3(1)});
                     }).join(); }},
  };
  in_every_mode([&] {
    const auto consumer = consume<Waits::never>;
    for (const auto& [what, call] : between) {
      SCOPED_TRACE(what);
      Arrays arrays;
      run(produce<Launches::before>, kPlain, arrays[0]);
      call(arrays);
      run(consumer, kProgrammatic, arrays[0], arrays[1]);
      EXPECT_TRUE(arrays.is(1, kConsumed));
    }
    Arrays arrays;
    run(produce<Launches::before>, kPlain, arrays[0]);
    run(consumer, kPlain, arrays[0], arrays[1]);
    EXPECT_TRUE(arrays.is(1, kConsumed)) << "not programmatic";
  });
}

__global__ void read_one(const uint32_t* in, uint32_t* out) {
  if (place() == 0) out[0] = in[3];
  griddepcontrol_wait();
  if (place() == 0) out[1] = in[3], out[2] = in[4];
}

TEST_F(DependentLaunchTest, WhatTheHostWritesBetweenIsKept) {
  in_every_mode([&] {
    Arrays arrays;
    run(produce<Launches::before>, kPlain, arrays[0]);
    arrays[0][3] = 7;
    int device = -1;
    (void)cudaGetDevice(&device);  // a question, which orders nothing
    run(read_one, kProgrammatic, arrays[0], arrays[1]);
    EXPECT_EQ(arrays[1][0], 7u);
    EXPECT_EQ(arrays[1][1], 7u);
    EXPECT_EQ(arrays[1][2], 1004u);
  });
}

__global__ void fails() {
  griddepcontrol_launch_dependents();
  ptx::bar_sync(17, 0);
}

TEST_F(DependentLaunchTest, AReportLeavesNothingHidden) {
  in_every_mode([&] {
    Arrays arrays;
    run(produce<Launches::before>, kPlain, arrays[0]);
    report_of([] { run(fails, kProgrammatic); });
    EXPECT_TRUE(arrays.is(0, kProduced));
    run(consume<Waits::never>, kProgrammatic, arrays[0], arrays[1]);
    EXPECT_TRUE(arrays.is(1, kConsumed));
  });
}

TEST_F(DependentLaunchTest, HostThreadsHaveChainsOfTheirOwn) {
  options().workers = 2;
  std::vector<std::thread> hosts;
  std::atomic<unsigned> wrong = 0;
  for (unsigned host = 0; host < 4; ++host) {
    hosts.emplace_back([&] {
      for (int round = 0; round < 4; ++round) {
        Arrays arrays;
        run(produce<Launches::before>, kPlain, arrays[0]);
        run(consume<Waits::first, Launches::before>, kProgrammatic, arrays[0], arrays[1]);
        run(add<false>, kProgrammatic, arrays[0], arrays[1], arrays[2]);
        wrong += !arrays.is(2, [](unsigned p) { return 2001 + 2 * p; });
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(wrong, 0u);
}

TEST_F(DependentLaunchTest, MoreMemoryThanASnapshotHoldsIsNotHidden) {
  if (sanitizer() != Sanitizer::none) GTEST_SKIP() << "much memory";
  Arrays arrays;
  void* much = nullptr;
  ASSERT_EQ(cudaMalloc(&much, std::size_t(256) << 20), cudaSuccess);
  run(produce<Launches::before>, kPlain, arrays[0]);
  run(consume<Waits::never>, kProgrammatic, arrays[0], arrays[1]);
  EXPECT_TRUE(arrays.is(1, kConsumed));
  EXPECT_EQ(cudaFree(much), cudaSuccess);
}

// ---- Bugs: each in a process of its own, in every mode, a line each ----

enum Means : unsigned {
  kWrongLate = 1,   // wrong output in every late mode, right in every early one
  kReportLate = 2,  // a Report in every late mode, none in any early one
  kSomeReport = 4,  // a Report in some mode
  kThread = 8,      // a race for ThreadSanitizer
};

struct Case {
  const char* name;
  unsigned means;
  const char* kernel;             // that a race is in
  std::vector<std::string> says;  // in each of its Reports
  std::function<bool()> right;    // runs it; is the output right?
};

/// A block of a cluster of two reads what the other wrote.
template <bool Barrier, bool Relaxed, bool End>
__global__ void read_neighbour(uint32_t* out) {
  auto* mine = static_cast<uint32_t*>(sim::dynamic_shared());
  mine[threadIdx.x] = 1000 + place();
  if (Barrier) {
    Relaxed ? cluster_arrive_relaxed() : cluster_arrive();
    cluster_wait();
  }
  uint32_t r[1];
  load_shared_cluster(r, mapa(shared_address(mine + threadIdx.x), cluster_rank() ^ 1));
  out[place() ^ kThreads] = r[0];
  if (End) cluster_sync();
}

/// Only block 0 reads, and only block 1 may end too early.
template <bool End>
__global__ void read_second(uint32_t* out) {
  auto* mine = static_cast<uint32_t*>(sim::dynamic_shared());
  mine[threadIdx.x] = 1000 + threadIdx.x;
  cluster_sync();
  if (cluster_rank() == 0) {
    uint32_t r[1];
    load_shared_cluster(r, mapa(shared_address(mine + threadIdx.x), 1));
    out[threadIdx.x] = out[threadIdx.x + kThreads] = r[0];
  }
  if (End) cluster_sync();
}

/// The blocks arrive at the end, but do not wait.
__global__ void ends_behind_arrival(uint32_t* out) {
  auto* mine = static_cast<uint32_t*>(sim::dynamic_shared());
  mine[threadIdx.x] = 1000 + place();
  cluster_sync();
  uint32_t r[1];
  load_shared_cluster(r, mapa(shared_address(mine + threadIdx.x), cluster_rank() ^ 1));
  out[place() ^ kThreads] = r[0];
  cluster_arrive();
}

bool neighbours(void (*kernel)(uint32_t*)) {
  Arrays arrays;
  run(kernel, {dim3(kBlocks), dim3(kThreads), kThreads * 4, 2}, arrays[0]);
  return arrays.is(0, kProduced);
}

template <class... Kernels>
bool chain(Kernels... kernels) {
  Arrays arrays;
  unsigned done = 0;
  const auto launch_next = [&](auto kernel) {
    const Launch& shape = done++ ? kProgrammatic : kPlain;
    if constexpr (std::is_invocable_v<decltype(kernel), uint32_t*>) {
      run(kernel, shape, arrays[0]);
    } else if constexpr (std::is_invocable_v<decltype(kernel), const uint32_t*, uint32_t*>) {
      run(kernel, shape, arrays[0], arrays[1]);
    } else {
      run(kernel, shape, arrays[0], arrays[1], arrays[2]);
    }
  };
  (launch_next(kernels), ...);
  return (done < 3 || arrays.is(2, [](unsigned p) { return 2001 + 2 * p; })) && arrays.is(1, kConsumed);
}

bool overwritten(void (*kernel)(uint32_t*)) {
  Arrays arrays;
  run(produce<Launches::before>, kPlain, arrays[0]);
  run(kernel, kProgrammatic, arrays[0]);
  return arrays.is(0, [](unsigned p) { return 5000 + p; });
}

const std::string kEnded =
    "has ended: block exit before a neighbour uses its shared memory. Rule: a block whose shared "
    "memory others may still use ends only after a cluster barrier.";

const Case kCases[] = {
    {"neighbour_right", 0, "", {}, [] { return neighbours(read_neighbour<true, false, true>); }},
    {"neighbour_without_barrier",
     kThread,
     "read_neighbour",
     {},
     [] { return neighbours(read_neighbour<false, false, true>), true; }},
    {"neighbour_relaxed", kThread, "read_neighbour", {}, [] { return neighbours(read_neighbour<true, true, true>); }},
    {"neighbour_ends",
     kThread | kSomeReport,
     "read_neighbour",
     {"ld.shared::cluster at shared offset ", "rank ", " of the cluster, which " + kEnded, "(read_neighbour)"},
     [] { return neighbours(read_neighbour<true, false, false>); }},
    {"neighbour_ends_behind_arrival",
     kThread | kSomeReport,
     "ends_behind_arrival",
     {"which " + kEnded, "(ends_behind_arrival)"},
     [] { return neighbours(ends_behind_arrival); }},
    {"second_right", 0, "", {}, [] { return neighbours(read_second<true>), true; }},
    {"second_ends",  // under some schedules behind the access
     kThread | kSomeReport,
     "read_second",
     {"which " + kEnded, "(read_second)"},
     [] { return neighbours(read_second<false>), true; }},
    {"neighbour_ends_early",
     kThread | kSomeReport,
     "early_end",
     {"ld.shared::cluster at shared offset ", " of block (1,0,0), rank 1 of the cluster, which " + kEnded},
     [] {
       Arrays arrays;
       run(early_end, {dim3(2), dim3(32), 128, 2}, arrays[0]);
       return std::equal(arrays[0] + 1, arrays[0] + 32, arrays[0], [](uint32_t a, uint32_t b) { return a == b + 1; });
     }},
    {"wait_missing",
     kWrongLate | kThread,
     "consume",
     {},
     [] { return chain(produce<Launches::before>, consume<Waits::never>); }},
    {"wait_missing_launch_behind_all",
     kWrongLate | kThread,
     "consume",
     {},
     [] { return chain(produce_then_launch, consume<Waits::never>); }},
    {"wait_missing_launch_never",  // when its blocks have ended, what they wrote may not be seen yet
     kWrongLate | kThread,
     "consume",
     {},
     [] { return chain(produce<Launches::never>, consume<Waits::never>); }},
    {"wait_too_late",
     kWrongLate | kThread,
     "consume",
     {},
     [] { return chain(produce<Launches::before>, consume<Waits::late>); }},
    // Found by values only in the schedules in which the others come first.
    {"wait_of_one_thread",
     kThread,
     "consume",
     {},
     [] { return chain(produce<Launches::before>, consume<Waits::one_thread>), true; }},
    {"chain_last_reads_first_early",
     kWrongLate | kThread,
     "add",
     {},
     [] { return chain(produce<Launches::before>, consume<Waits::first, Launches::before>, add<true>); }},
    {"chain_last_without_wait",
     kWrongLate | kThread,
     "consume",
     {},
     [] {
       const auto copy = consume<Waits::never>;
       Arrays arrays;
       run(produce<Launches::never>, kPlain, arrays[0]);
       run(consume<Waits::first, Launches::before>, kProgrammatic, arrays[0], arrays[1]);
       run(copy, kProgrammatic, arrays[1], arrays[2]);
       return arrays.is(2, [](unsigned p) { return 1002 + p; });
     }},
    {"write_before_wait",
     kReportLate | kThread,
     "overwrite",
     {"misuse in kernel test_kernel, block (",
      "at " + here(kLateWaitLine, "overwrite") +
          ": the grid writes what the previous grid writes, before griddepcontrol.wait: byte ",
      " of an allocation of 516. Rule: a programmatic launch writes what the previous grid writes only behind "
      "griddepcontrol.wait."},
     [] { return overwritten(overwrite<Waits::late>); }},
    {"write_without_wait",
     kReportLate | kThread,
     "overwrite",
     {"misuse in kernel test_kernel: the grid writes what the previous grid writes, before griddepcontrol.wait: byte 0 "
      "of an "
      "allocation of 516, and no thread waited. Rule: "},
     [] { return overwritten(overwrite<Waits::never>); }},
};

int run_under(const std::string& schedule, const Case& test) {
  options().workers = 1;
  options().compute_capability = 90;
  for_each_mode([&] {
    if (schedule != name(options().schedule)) return;
    std::string outcome;
    try {
      outcome = test.right() ? "right" : "wrong";
    } catch (const Report& report) {
      outcome = std::string("report ") + report.what();
    }
    std::cout << "mode " << mode() << ": " << outcome << std::endl;
  });
  return 0;
}

std::string program;

class BugTest : public testing::TestWithParam<Case> {};

// Does a line of the text name the kernel and a line of this file?
bool names_place(const std::string& text, const std::string& kernel) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(kernel) != std::string::npos && line.find("cluster_test.cpp:") != std::string::npos) return true;
  }
  return false;
}

TEST_P(BugTest, IsFound) {
  const Case& test = GetParam();
  setenv("TSAN_OPTIONS", "exitcode=66 atexit_sleep_ms=0", 1);
  std::string text;  // of all schedules: a race has to show under each
  for (Schedule schedule : sim::kSchedules) {
    SCOPED_TRACE(name(schedule));
    FILE* pipe = popen(("'" + program + "' --case " + test.name + " " + name(schedule) + " 2>&1").c_str(), "r");
    ASSERT_TRUE(pipe);
    std::string part;
    char buffer[4096];
    while (const size_t bytes = fread(buffer, 1, sizeof buffer, pipe)) part.append(buffer, bytes);
    const int status = pclose(pipe), exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

    const bool race = sanitizer() == Sanitizer::thread && (test.means & kThread) &&
                      !((test.means & kSomeReport) && part.find(": report ") != std::string::npos);
    if (race || part.find("Sanitizer") != std::string::npos) {
      EXPECT_TRUE(sanitizer() == Sanitizer::thread && (test.means & kThread)) << part;
      EXPECT_EQ(exit_code, 66) << part;
      EXPECT_NE(part.find("WARNING: ThreadSanitizer: data race"), std::string::npos) << part;
      EXPECT_TRUE(names_place(part, test.kernel)) << part;
    } else {
      EXPECT_EQ(exit_code, 0) << part;
    }
    text += part;
  }

  unsigned modes = 0, reports = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("mode ", 0)) continue;
    ++modes;
    const bool late = line.rfind("mode late", 0) == 0, report = line.find(": report ") != std::string::npos;
    const bool right = line.find(": right") != std::string::npos;
    if (report) {
      ++reports;
      expect_parts(line, test.says);
      EXPECT_TRUE(test.means & (kSomeReport | kReportLate)) << text;
    } else if (!(test.means & kSomeReport)) {
      EXPECT_EQ(right, !late || !(test.means & kWrongLate)) << text;
    }
    if (test.means & kReportLate) {
      EXPECT_EQ(report, late) << text;
    }
  }
  EXPECT_EQ(modes, 10u) << text;
  if (test.means & kSomeReport) {
    EXPECT_GT(reports, 0u) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, BugTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace grout::cluster_test

int main(int argc, char** argv) {
  using namespace grout::cluster_test;
  if (argc == 4 && std::string(argv[1]) == "--case") {
    for (const Case& test : kCases) {
      if (std::string(argv[2]) == test.name) return run_under(argv[3], test);
    }
    return 2;
  }
  program = argv[0];
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
