// Programmatic dependent launch on the simulated device: what a grid sees of the grids before it.
#include <atomic>
#include <functional>
#include <thread>

#include "tests/sim/cluster_grids.cuh"

namespace grout::cluster_test {
namespace {

using namespace grout::test;
using sim::Sanitizer, sim::options, sim::sanitizer, sim::statistics;

using DependentLaunchTest = SimTest90;

// One thread waits for all of its block.
__global__ void consume_behind_barrier(const uint32_t* in, uint32_t* out) {
  if (threadIdx.x == 0) griddepcontrol_wait();
  __syncthreads();
  out[place()] = in[place()] + 1;
}

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

}  // namespace
}  // namespace grout::cluster_test
