// The simulated device itself: who runs when, and what its reports say. What its operations give: runtime_operations.cpp.
// The runtime functions: runtime_api.cpp.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/sim/child.h"
#include "tests/sim/device_test.h"

namespace grout::sim {
namespace {

using namespace grout::test;

// ---- Launches and coordinates ----

__global__ void record_coordinates(unsigned* counts, unsigned* wrong) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  if (threadIdx.x >= blockDim.x || threadIdx.y >= blockDim.y || threadIdx.z >= blockDim.z) atomicAdd(wrong, 1u);
  if (blockIdx.x >= gridDim.x || blockIdx.y >= gridDim.y || blockIdx.z >= gridDim.z) atomicAdd(wrong, 1u);
  const uint3 before = threadIdx;
  __syncthreads();
  if (std::memcmp(&before, &threadIdx, sizeof before) != 0) atomicAdd(wrong, 1u);
  atomicAdd(counts + block * blockDim.x * blockDim.y * blockDim.z + thread, 1u);
}

TEST_F(SimTest, EveryThreadOfEveryBlockRunsOnce) {
  const std::pair<dim3, dim3> shapes[] = {
      {{1}, {1}}, {{3, 2, 2}, {5, 3, 2}}, {{2}, {1024}}, {{1, 7}, {4, 1, 9}}, {{1, 1, 3}, {33}}};
  for (const auto& [grid, block] : shapes) {
    in_every_mode([&, grid = grid, block = block] {
      for (int workers : {1, 3}) {
        options().workers = workers;
        const unsigned size = grid.x * grid.y * grid.z * block.x * block.y * block.z;
        if (sanitizer() == Sanitizer::thread && size > 128) continue;
        std::vector<unsigned> counts(size);
        unsigned wrong = 0;
        run(record_coordinates, grid, block, 0, counts.data(), &wrong);
        EXPECT_EQ(wrong, 0u);
        EXPECT_EQ(std::count(counts.begin(), counts.end(), 1u), size);
        EXPECT_EQ(statistics().threads, size);
      }
    });
  }
}

TEST_F(SimTest, ImpossibleLaunchesAreRefused) {
  unsigned* none = nullptr;
  const auto refused = [&](dim3 grid, dim3 block, size_t shared_bytes) {
    const Report report = report_of([&] { run(record_coordinates, grid, block, shared_bytes, none, none); });
    EXPECT_EQ(report.kind(), Report::Kind::misuse);
    return std::string(report.what());
  };
  EXPECT_EQ(refused(1, 1025, 0),
            "misuse: launch of test_kernel with a block of 1025 x 1 x 1 threads. Rule: a block has 1 to "
            "1024 threads, at most 64 of them in z.");
  EXPECT_NE(refused(1, dim3(1, 1, 65), 0).find("1 x 1 x 65"), std::string::npos);
  EXPECT_NE(refused(1, 0, 0).find("0 x 1 x 1 threads"), std::string::npos);
  EXPECT_NE(refused(0, 1, 0).find("0 x 1 x 1 blocks"), std::string::npos);
  EXPECT_NE(refused(dim3(1, 65536), 1, 0).find("1 x 65536 x 1 blocks"), std::string::npos);
  EXPECT_NE(refused(1, 1, (227 << 10) + 1).find("232449 bytes"), std::string::npos);
}

__global__ void nothing_else() {}

TEST_F(SimTest, LaunchedKernelsAreRemembered) {
  run(nothing, 1, 1, 0);
  EXPECT_TRUE(launched_kernels().count(reinterpret_cast<const void*>(nothing)));
  EXPECT_FALSE(launched_kernels().count(reinterpret_cast<const void*>(nothing_else)));
}

TEST_F(SimTest, WarpOperationsOutsideAKernelNameThemselves) {
  uint32_t r[4], a[4] = {}, b[2] = {};
  float d[4] = {};
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"bar.sync", [] { __syncthreads(); }},
      {"bar.red", [] { __syncthreads_count(1); }},
      {"bar.arrive", [] { bar_arrive(1, 32); }},
      {"__syncwarp", [] { __syncwarp(); }},
      {"__shfl_xor_sync", [] { __shfl_xor_sync(~0u, 1, 1); }},
      {"__ballot_sync", [] { __ballot_sync(~0u, 1); }},
      {"dynamic_shared", [] { dynamic_shared(); }},
      {"shared_address", [] { shared_address(nullptr); }},
      {"cp.async", [] { cp_async(0, nullptr, 16, 16); }},
      {"cp.async.commit_group", [] { cp_async_commit(); }},
      {"cp.async.wait_group", [] { cp_async_wait_group(0); }},
      {"cp.async.wait_all", [] { cp_async_wait_all(); }},
      {"ldmatrix", [&] { ldmatrix(r, 4, false, 0); }},
      {"mma.sync", [&] { mma_m16n8k16(d, a, b, d, true); }},
      {"__threadfence", [] { __threadfence(); }},
  };
  for (const auto& [operation, call] : calls) expect_outside_of_a_kernel(operation, call);
}

// ---- Schedules ----

__global__ void record_order(unsigned* order, unsigned* count) {
  order[atomicAdd(count, 1u)] = blockIdx.x * blockDim.x + threadIdx.x;
}

std::vector<unsigned> order_of(Schedule schedule, uint64_t seed, unsigned blocks, unsigned threads) {
  options().schedule = schedule;
  options().seed = seed;
  std::vector<unsigned> order(blocks * threads);
  unsigned count = 0;
  run(record_order, blocks, threads, 0, order.data(), &count);
  return order;
}

TEST_F(SimTest, SchedulesOrderThreads) {
  std::vector<unsigned> ascending(192), descending(192);
  for (unsigned i = 0; i < 192; ++i) {
    ascending[i] = i;
    descending[i] = 191 - i;
  }
  EXPECT_EQ(order_of(Schedule::ascending, 1, 2, 96), ascending);
  EXPECT_EQ(order_of(Schedule::descending, 1, 2, 96), descending);

  const auto random = order_of(Schedule::random, 1, 2, 96);
  EXPECT_EQ(random, order_of(Schedule::random, 1, 2, 96));
  EXPECT_NE(random, order_of(Schedule::random, 2, 2, 96));
  EXPECT_TRUE(std::is_permutation(random.begin(), random.end(), ascending.begin()));

  bool other_first_warp = false;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto greedy = order_of(Schedule::warp_greedy, seed, 1, 96);
    for (unsigned i = 0; i < 96; ++i) EXPECT_EQ(greedy[i] / 32, greedy[i / 32 * 32] / 32) << "a warp is interrupted";
    other_first_warp |= greedy[0] / 32 != 0;
  }
  EXPECT_TRUE(other_first_warp);

  const auto robin = order_of(Schedule::round_robin, 1, 1, 96);
  for (unsigned i = 0; i + 1 < 96; ++i) EXPECT_EQ((robin[i] / 32 + 1) % 3, robin[i + 1] / 32) << i;
}

TEST_F(SimTest, ManyBlocksAreVisitedOnceInEveryOrder) {
  if (sanitizer() == Sanitizer::thread) GTEST_SKIP() << "too many blocks";
  for (Schedule schedule : kSchedules) {
    for (unsigned blocks : {1u, 2u, 7u, 60u, 1000u}) {
      auto order = order_of(schedule, 3, blocks, 1);
      if (schedule == Schedule::random && blocks > 2) {
        EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
      }
      std::sort(order.begin(), order.end());
      for (unsigned i = 0; i < blocks; ++i) EXPECT_EQ(order[i], i);
    }
  }
}

// ---- Barriers ----

__global__ void prefix_sum(const unsigned* in, unsigned* out) {
  auto* s = static_cast<unsigned*>(dynamic_shared());
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (unsigned step = 1; step < blockDim.x; step *= 2) {
    const unsigned left = threadIdx.x >= step ? s[threadIdx.x - step] : 0;
    __syncthreads();
    s[threadIdx.x] += left;
    __syncthreads();
  }
  out[threadIdx.x] = s[threadIdx.x];
}

TEST_F(SimTest, BlockBarriers) {
  for (unsigned threads : {1u, 31u, 64u, 70u}) {  // partial warps too
    in_every_mode([&] {
      std::vector<unsigned> in(threads), out(threads);
      for (unsigned i = 0; i < threads; ++i) in[i] = i * i + 1;
      run(prefix_sum, 1, threads, threads * 4, in.data(), out.data());
      unsigned sum = 0;
      for (unsigned i = 0; i < threads; ++i) EXPECT_EQ(out[i], sum += in[i]);
    });
  }
}

// Warp 0 fills two slots in turn, warps 1 and 2 drain them: full barriers 1 and 2, empty barriers 3 and 4.
__global__ void named_ring(unsigned* out, unsigned rounds) {
  auto* s = static_cast<unsigned*>(dynamic_shared());
  unsigned sum = 0;
  for (unsigned i = 0; i < rounds; ++i) {
    const unsigned slot = i % 2;
    if (threadIdx.x < 32) {
      if (i >= 2) bar_sync(3 + slot, 96);
      s[slot * 32 + threadIdx.x] = i * 100 + threadIdx.x;
      bar_arrive(1 + slot, 96);
    } else {
      bar_sync(1 + slot, 96);
      sum += s[slot * 32 + threadIdx.x % 32];
      if (i + 2 < rounds) bar_arrive(3 + slot, 96);
    }
  }
  out[threadIdx.x] = sum;
}

TEST_F(SimTest, NamedBarriers) {
  in_every_mode([&] {
    std::vector<unsigned> out(96);
    run(named_ring, 1, 96, 64 * 4, out.data(), 9);
    for (unsigned i = 0; i < 96; ++i) EXPECT_EQ(out[i], i < 32 ? 0 : 9 * 8 / 2 * 100 + 9 * (i % 32));
    EXPECT_EQ(statistics().barriers, 9u + 7u);
  });
}

__global__ void reductions(int* out) {
  for (int round = 0; round < 3; ++round) {
    const int count = __syncthreads_count(int(threadIdx.x) % 3 == round);
    const int any = __syncthreads_or(int(threadIdx.x) == round);
    const int none = __syncthreads_or(0);
    const int all = __syncthreads_and(1);
    const int not_all = __syncthreads_and(int(threadIdx.x) != round);
    out[threadIdx.x] += count + 1000 * any + 10000 * none + 100000 * all + 1000000 * not_all;
  }
}

TEST_F(SimTest, BarrierReductions) {
  in_every_mode([&] {
    std::vector<int> out(70);
    run(reductions, 1, 70, 0, out.data());
    for (int value : out) EXPECT_EQ(value, 70 + 3 * 1000 + 3 * 100000);
  });
}

// ---- Reports ----

constexpr unsigned kDeadlockLine = __LINE__ + 3;
__global__ void deadlocked() {
  if (threadIdx.x < 64) {
    bar_sync(1, 96);
  } else if (threadIdx.x < 96) {
    bar_sync(2, 128);
  } else if (threadIdx.x == 97) {
    __syncwarp(0x6u);  // lanes 1 and 2: one more than comes
  } else if (threadIdx.x == 98) {
    __syncwarp(0xcu);
  } else if (threadIdx.x == 99) {
    __syncwarp(0xau);
  }
}

TEST_F(SimTest, DeadlockSaysWhoWaitsWhereForWhom) {
  in_every_mode([&] {
    const Report report = report_of([] { run(deadlocked, 1, 128, 0); });
    EXPECT_EQ(report.kind(), Report::Kind::deadlock);
    const std::string text = report.what();
    const std::vector<std::string> parts = {
        "deadlock in kernel test_kernel, block (0,0,0): 99 of 128 threads wait and none can run: threads ",
        "0-63 wait in bar.sync 1 at " + here(kDeadlockLine, "deadlocked") + " where 64 of 96 threads have arrived",
        "64-95 wait in bar.sync 2 at " + here(kDeadlockLine + 2, "deadlocked") +
            " where 32 of 128 threads have arrived",
        "97 wait in __syncwarp at " + here(kDeadlockLine + 4, "deadlocked") + " for lanes 2 of warp 3",
        "threads 96,100-127 have exited. Rule: every thread that a barrier or a collective counts on comes to it"};
    expect_parts(text, parts);
    EXPECT_EQ(text.find('\n'), std::string::npos);
  });
}

constexpr unsigned kMisuseLine = __LINE__ + 2;
__global__ void misused() {
  if (threadIdx.y == 5 && threadIdx.x == 0 && blockIdx.y == 1) bar_sync(17, 0);
}

TEST_F(SimTest, MisuseNamesThreadPlaceAndRule) {
  const Report report = report_of([] { run(misused, dim3(1, 2, 1), dim3(8, 8), 0); });
  EXPECT_EQ(report.kind(), Report::Kind::misuse);
  EXPECT_EQ(report.what(), "misuse in kernel test_kernel, block (0,1,0), thread 40 (warp 1, lane 8), at " +
                               here(kMisuseLine, "misused") +
                               ": bar.sync on barrier 17. Rule: a block has the barriers 0 to 15.");
}

constexpr unsigned kDivergenceLine = __LINE__ + 3;
__global__ void diverged() {
  if (threadIdx.x < 16) {
    __shfl_sync(~0u, 1, 0);
  } else {
    __ballot_sync(~0u, 1);
  }
}

TEST_F(SimTest, DivergenceNamesBothSides) {
  const Report report = report_of([] { run(diverged, 1, 32, 0); });
  EXPECT_EQ(report.kind(), Report::Kind::divergence);
  EXPECT_EQ(report.what(),
            "divergence in kernel test_kernel, block (0,0,0), thread 16 (warp 0, lane 16), at " +
                here(kDivergenceLine + 2, "diverged") +
                ": the lane executes __ballot_sync with mask 0xffffffff while lanes 0-15 of its warp wait for it in "
                "__shfl_sync with mask 0xffffffff at " +
                here(kDivergenceLine, "diverged") +
                ". Rule: every lane named in a mask executes the same operation with the same mask.");
}

__global__ void fails_in_block(unsigned first) {
  __syncthreads();
  if (blockIdx.x >= first && threadIdx.x == 3) bar_sync(1, 33);
  __syncthreads();
}

TEST_F(SimTest, TheFirstBlockThatFailsIsReportedWhateverTheWorkers) {
  const unsigned blocks = sanitizer() == Sanitizer::thread ? 6 : 60;
  for (int workers : {1, 2, 5}) {
    options().workers = workers;
    for (unsigned first : {0u, 2u, blocks - 1}) {
      const std::string text = report_of([&] { run(fails_in_block, blocks, 32, 0, first); }).what();
      EXPECT_NE(text.find("block (" + std::to_string(first) + ",0,0)"), std::string::npos) << text;
    }
    EXPECT_NO_THROW(run(fails_in_block, blocks, 32, 0, blocks)) << "a report spoils later launches";
  }
}

TEST_F(SimTest, HostThreadsLaunchAtOnce) {
  std::vector<std::thread> hosts;
  std::atomic<unsigned> wrong = 0;
  for (unsigned host = 0; host < 4; ++host) {
    hosts.emplace_back([&, host] {
      std::vector<unsigned> in(40 + host, host), out(40 + host);
      for (int round = 0; round < 3; ++round) {
        run(prefix_sum, 1, unsigned(in.size()), in.size() * 4, in.data(), out.data());
        for (unsigned i = 0; i < in.size(); ++i) wrong += out[i] != host * (i + 1);
        wrong += statistics().threads != in.size();
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(wrong, 0u);
}

__global__ void throws() {
  throw std::runtime_error("no such thing on a device");
}
__global__ void launches() {
  run(nothing, 1, 1, 0);
}

TEST_F(SimTest, ExceptionsOfAKernelAreReported) {
  EXPECT_NE(std::string(report_of([] { run(throws, 1, 1, 0); }).what()).find("no such thing on a device"),
            std::string::npos);
  EXPECT_NE(std::string(report_of([] { run(launches, 1, 1, 0); }).what()).find("from inside a kernel"),
            std::string::npos);
}

TEST_F(SimTest, StatisticsAreOfTheLastLaunch) {
  run(named_ring, 1, 96, 64 * 4, std::vector<unsigned>(96).data(), 9);
  EXPECT_EQ(statistics().barriers, 16u);
  EXPECT_GT(statistics().switches, 96u);
  run(nothing, 3, 5, 0);
  EXPECT_EQ(statistics().barriers, 0u);
  EXPECT_EQ(statistics().blocks, 3u);
  EXPECT_EQ(statistics().threads, 15u);
}

// ---- What needs a process of its own: what AddressSanitizer ends, and options, which are read once ----

std::string program;

__attribute__((noinline)) int* place_of_a_local() {
  int local = static_cast<int>(threadIdx.x);
  int* volatile place = &local;
  return place;
}
// The right kernel reads its own local behind switches to all other threads, the wrong one a local of a function that returned.
__global__ void reads_a_local(bool wrong, int* out) {
  int own = static_cast<int>(threadIdx.x);
  int* volatile place = wrong ? place_of_a_local() : &own;
  __syncthreads();
  out[threadIdx.x] = *place;
}
// A launch that a report ends leaves threads behind in the middle of a function; the next ones use their stacks.
__global__ void ends_midway() {
  int own = static_cast<int>(threadIdx.x);
  int* volatile place = &own;
  if (threadIdx.x == blockDim.x - 1) throw std::runtime_error("midway");
  __syncthreads();
  if (*place < 0) throw std::logic_error("not reached");
}
int read_locals(bool wrong) {
  std::vector<int> out(64);
  report_of([] { run(ends_midway, 1, 64, 0); });
  for (int times = 0; times < 3; ++times) run(reads_a_local, 1, 64, 0, wrong, out.data());
  for (int i = 0; i < 64; ++i)
    if (out[static_cast<size_t>(i)] != i) return 1;
  std::printf("right");
  return 0;
}

TEST_F(SimTest, AddressSanitizerKnowsTheFramesOfEveryThread) {
  if (sanitizer() != Sanitizer::address) GTEST_SKIP() << "AddressSanitizer is what notices";
  for (const char* option : {"0", "1"}) {
    const std::string with = std::string("ASAN_OPTIONS=exitcode=67:detect_stack_use_after_return=") + option + " '" + program + "' --read-locals ";
    const Child right = run_child(with + "right"), wrong = run_child(with + "wrong");
    EXPECT_EQ(right.text, "right") << with;
    EXPECT_EQ(right.exit_code, 0) << right.text;
    if (*option == '0') continue;  // not looked for
    EXPECT_EQ(wrong.exit_code, 67) << wrong.text;
    EXPECT_TRUE(wrong.has("stack-use-after-return")) << wrong.text;
    EXPECT_TRUE(wrong.has("reads_a_local")) << wrong.text;
  }
}

std::string options_with(const std::string& environment) {
  return run_child("env " + environment + " '" + program + "' --print-options").text;
}

int print_options() {
  try {
    const Options& o = options();
    std::printf("%s %d %s %d", name(o.schedule), int(o.seed), name(o.asynchrony), o.workers);
    return 0;
  } catch (const std::invalid_argument& error) {
    std::printf("%s", error.what());
    return 2;
  }
}

TEST(Options, ComeFromTheEnvironment) {
  EXPECT_EQ(options_with("-u GROUT_SIM_SCHEDULE -u GROUT_SIM_SEED -u GROUT_SIM_ASYNC -u GROUT_SIM_WORKERS"),
            "ascending 1 late 0");
  EXPECT_EQ(options_with("GROUT_SIM_SCHEDULE=warp_greedy GROUT_SIM_SEED=42 GROUT_SIM_ASYNC=early GROUT_SIM_WORKERS=3"),
            "warp_greedy 42 early 3");
  EXPECT_EQ(options_with("GROUT_SIM_SCHEDULE=greedy"),
            "GROUT_SIM_SCHEDULE=greedy is not one of ascending, descending, random, warp_greedy, round_robin");
  EXPECT_EQ(options_with("GROUT_SIM_ASYNC="), "GROUT_SIM_ASYNC= is not one of late, early");
  EXPECT_EQ(options_with("GROUT_SIM_WORKERS=-1"), "GROUT_SIM_WORKERS=-1 is not a number from 0 up");
  EXPECT_EQ(options_with("GROUT_SIM_SEED=7x"), "GROUT_SIM_SEED=7x is not a number from 0 up");
}

}  // namespace
}  // namespace grout::sim

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--print-options") return grout::sim::print_options();
  if (argc == 3 && std::string(argv[1]) == "--read-locals") return grout::sim::read_locals(std::string(argv[2]) == "wrong");
  grout::sim::program = argv[0];
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
