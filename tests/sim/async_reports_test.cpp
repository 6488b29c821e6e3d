// What the simulated device reports of mbarriers, bulk and tensor copies, under every schedule, late and early. Of maps, boxes
// and devices: async_reports_maps.cpp.
#include "tests/sim/async_fixture.cuh"

namespace grout {
namespace {

// ---- Reports of one thread ----

enum class Wrong {
  nothing,
  fence_of_other_kind,
  no_init,
  after_inval,
  init_twice,
  count_0,
  count_large,
  expect_large,
  expect_sum,
  expect_negative,
  misaligned,
  outside,
  parity,
  no_fence,
  arrivals,
  overwritten,
  inval_in_flight,
  size_0,
  size_24,
  global_8,
  shared_8,
  shared_outside,
  mask,
  missing_expect,
  small_expect,
  large_expect,
  no_arrival,
  wrong_parity,
  lags,
  not_committed,
  not_waited,
  not_waited_load,
  wait_negative,
  store_size,
  to_cluster_size,
  to_cluster_alone,
  start_column,
  rank,
  box_64,
  box_outside,
  store_start_column,
  store_before,
};

struct WrongStorage {
  alignas(1024) unsigned char data[2048];
  uint64_t barrier, other;
};
constexpr unsigned kWrongBytes = 2048 + 16;  // of it that blocks have
constexpr unsigned kHugeBytes = 128 << 10;

__global__ void misuse(Wrong wrong, const __grid_constant__ TensorMap map, const unsigned char* in, unsigned char* out) {
  auto& s = dynamic_shared<WrongStorage>();
  const uint32_t barrier = ptx::shared_address(&s.barrier), data = ptx::shared_address(s.data);
  const auto is = [&](Wrong w) { return w == wrong; };
  const auto load = [&](uint32_t to, const unsigned char* from, uint32_t bytes GROUT_AT) {
    ptx::mbarrier_arrive_expect_tx(barrier, bytes GROUT_HERE);
    ptx::cp_async_bulk_load(to, from, bytes, barrier GROUT_HERE);
    wait(barrier, 0 GROUT_HERE);
  };
  if (is(Wrong::misaligned)) ptx::mbarrier_init(barrier + 4, 1);
  if (is(Wrong::outside)) ptx::mbarrier_init(barrier + 16, 1);
  if (!is(Wrong::no_init)) ptx::mbarrier_init(barrier, is(Wrong::count_0) ? 0 : is(Wrong::count_large) ? 1u << 20 : 1);
  if (is(Wrong::no_init)) ptx::mbarrier_arrive(barrier);
  if (is(Wrong::init_twice)) ptx::mbarrier_init(barrier, 1);
  if (is(Wrong::no_fence)) load(data, in, 16);
  if (is(Wrong::fence_of_other_kind))
    ptx::fence_proxy_async_shared();
  else
    ptx::fence_mbarrier_init();
  switch (wrong) {
    case Wrong::after_inval:
      ptx::mbarrier_inval(barrier), ptx::mbarrier_arrive(barrier);
      break;
    case Wrong::expect_large:
      ptx::mbarrier_expect_tx(barrier, 1u << 20);
      break;
    case Wrong::expect_sum:
      ptx::mbarrier_expect_tx(barrier, (1u << 20) - 1), ptx::mbarrier_expect_tx(barrier, 16);
      break;
    case Wrong::expect_negative:
      for (int i = 0; i < 9; ++i) ptx::cp_async_bulk_load(data + kWrongBytes, in, kHugeBytes, barrier);
      wait(barrier, 0);
      break;
    case Wrong::parity:
      wait(barrier, 2);
      break;
    case Wrong::arrivals:
      ptx::mbarrier_arrive_expect_tx(barrier, 16);
      ptx::mbarrier_arrive(barrier);
      break;
    case Wrong::overwritten:
      s.barrier = 7, ptx::mbarrier_arrive(barrier);
      break;
    case Wrong::inval_in_flight:
      ptx::mbarrier_arrive_expect_tx(barrier, 16);
      ptx::cp_async_bulk_load(data, in, 16, barrier);
      ptx::mbarrier_inval(barrier);
      break;
    case Wrong::size_0:
      load(data, in, 0);
      break;
    case Wrong::size_24:
      load(data, in, 24);
      break;
    case Wrong::global_8:
      load(data, in + 8, 16);
      break;
    case Wrong::shared_8:
      load(data + 8, in, 16);
      break;
    case Wrong::shared_outside:
      load(data + 2048 + 16, in, 16);
      break;
    case Wrong::mask:
      ptx::cp_async_bulk_load_multicast(data, in, 16, barrier, 2);
      break;
    case Wrong::missing_expect:
      ptx::cp_async_bulk_load(data, in, 16, barrier);
      ptx::mbarrier_arrive(barrier);
      wait(barrier, 0);
      break;
    case Wrong::small_expect:
    case Wrong::large_expect:
      ptx::mbarrier_arrive_expect_tx(barrier, is(Wrong::small_expect) ? 16 : 48);
      ptx::cp_async_bulk_load(data, in, 32, barrier);
      wait(barrier, 0);
      break;
    case Wrong::no_arrival:
      ptx::mbarrier_expect_tx(barrier, 16);
      ptx::cp_async_bulk_load(data, in, 16, barrier);
      wait(barrier, 0);
      break;
    case Wrong::wrong_parity:
      load(data, in, 16), wait(barrier, 1);
      break;
    case Wrong::lags:
      ptx::mbarrier_arrive(barrier), ptx::mbarrier_arrive(barrier), wait(barrier, 0);
      break;
    case Wrong::not_committed:
      ptx::cp_async_bulk_store(out, data, 16), ptx::cp_async_bulk_wait_group<0>();
      break;
    case Wrong::not_waited:
      ptx::cp_async_bulk_store(out, data, 16);
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read<1>();
      break;
    case Wrong::not_waited_load:
      load(data, in, 16);
      ptx::mbarrier_arrive_expect_tx(barrier, 16);
      ptx::cp_async_bulk_load(data, in, 16, barrier);
      break;
    case Wrong::wait_negative:
      sim::bulk_wait_group(-1, true);
      break;
    case Wrong::store_size:
      ptx::cp_async_bulk_store(out, data, 8);
      break;
    case Wrong::to_cluster_size:
      ptx::cp_async_bulk_to_cluster(data, data + 16, 8, barrier);
      break;
    case Wrong::to_cluster_alone:
      ptx::cp_async_bulk_to_cluster(data, data + 16, 16, barrier);
      break;
    case Wrong::start_column:
      ptx::cp_async_bulk_tensor_load(data, map, {3, 0}, barrier);
      break;
    case Wrong::rank:
      ptx::cp_async_bulk_tensor_load(data, map, {0}, barrier);
      break;
    case Wrong::box_64:
      ptx::cp_async_bulk_tensor_load(data + 64, map, {0, 0}, barrier);
      break;
    case Wrong::box_outside:
      ptx::cp_async_bulk_tensor_load(data + 1024, map, {0, 0}, barrier);
      break;
    case Wrong::store_start_column:
      ptx::cp_async_bulk_tensor_store(map, {-4, 0}, data);
      break;
    case Wrong::store_before:
      ptx::cp_async_bulk_tensor_store(map, {0, -2}, data);
      break;
    default:
      load(data, in, 16), ptx::mbarrier_inval(barrier), ptx::mbarrier_init(barrier, 1);
      break;
  }
}


Status run_misuse(Wrong wrong) {
  DeviceBuffer in(kHugeBytes), matrix(4096);
  const unsigned shared = wrong == Wrong::expect_negative ? kWrongBytes + kHugeBytes : kWrongBytes;
  return launch(misuse, dim3(1), dim3(1), shared, nullptr, wrong, map_of(kBox, matrix.data()), in.as<const unsigned char>(),
                matrix.as<unsigned char>());
}

TEST_F(AsyncTest, MisuseIsReported) {
  const std::string bulk = "cp.async.bulk.shared::cluster.global", tensor = "cp.async.bulk.tensor.shared::cluster.global";
  const std::pair<Wrong, std::string> cases[] = {
      {Wrong::no_init,
       "mbarrier.arrive at shared offset 2048, where no mbarrier is initialised. Rule: mbarrier.init comes before"},
      {Wrong::after_inval, "mbarrier.arrive at shared offset 2048, where no mbarrier is initialised"},
      {Wrong::init_twice, "mbarrier.init at shared offset 2048, where the mbarrier initialised at "},
      {Wrong::count_0, "mbarrier.init at shared offset 2048 with a count of 0. Rule: an mbarrier counts 1 to 1048575"},
      {Wrong::count_large, "with a count of 1048576"},
      {Wrong::expect_large, "mbarrier.expect_tx of 1048576 bytes at shared offset 2048, where 0 are outstanding"},
      {Wrong::expect_sum, "mbarrier.expect_tx of 16 bytes at shared offset 2048, where 1048575 are outstanding"},
      {Wrong::expect_negative,
       bulk + " brings 131072 bytes to the mbarrier at shared offset 2048, where -917504 are outstanding"},
      {Wrong::misaligned, "mbarrier.init at shared offset 2052. Rule: the shared address is a multiple of the size"},
      {Wrong::outside, "mbarrier.init at shared offset 2064, 8 bytes, of the block's 2064"},
      {Wrong::parity, "mbarrier.try_wait with parity 2 at shared offset 2048"},
      {Wrong::no_fence, bulk + " on the mbarrier at shared offset 2048, initialised without a fence at "},
      {Wrong::arrivals, "mbarrier.arrive at shared offset 2048: the 1 arrivals of phase 0 have all come, and 16 bytes are"},
      {Wrong::overwritten, "mbarrier.arrive on the mbarrier at shared offset 2048, initialised at "},
      {Wrong::inval_in_flight, "mbarrier.inval at shared offset 2048, where nobody waited for a copy issued at "},
      {Wrong::size_0, bulk + " of 0 bytes"},
      {Wrong::size_24, bulk + " of 24 bytes. Rule: the size of a bulk copy is a multiple of 16 bytes"},
      {Wrong::global_8, bulk + " with global address 0x"},
      {Wrong::shared_8, bulk + " at shared offset 8. Rule: the shared address is a multiple of 16 bytes"},
      {Wrong::shared_outside, bulk + " at shared offset 2064, 16 bytes, of the block's 2064"},
      {Wrong::mask, bulk + " to the blocks of mask 0x2 in a cluster of 1"},
      {Wrong::not_committed,
       "bulk stores that may still read its shared memory; the first was issued here and never committed"},
      {Wrong::not_waited,
       "bulk stores that may still read its shared memory; the first was issued here and never waited for"},
      {Wrong::not_waited_load,
       "block (0,0,0) ends, and none of its threads waited for this copy, on its mbarrier at shared offset 2048, phase 1"},
      {Wrong::wait_negative, "cp.async.bulk.wait_group.read -1"},
      {Wrong::store_size, "cp.async.bulk.global.shared::cta of 8 bytes"},
      {Wrong::to_cluster_size, "cp.async.bulk.shared::cluster.shared::cta of 8 bytes"},
      {Wrong::to_cluster_alone, "cp.async.bulk.shared::cluster.shared::cta in a launch without clusters"},
      {Wrong::start_column, tensor + " of a box that starts at element 3 of the fastest dimension, at byte 6"},
      {Wrong::store_start_column, "cp.async.bulk.tensor.global.shared::cta of a box that starts at element -4"},
      {Wrong::store_before, "cp.async.bulk.tensor.global.shared::cta of a box that starts at -2 in dimension 1"},
      {Wrong::rank, tensor + " of 1 dimensions with a tensor map of 2"},
      {Wrong::box_64, tensor + " of a box at shared offset 64, which is not a multiple of 128"},
      {Wrong::box_outside, tensor + " at shared offset 1024, 1280 bytes, of the block's 2064"},
  };
  in_every_mode([&] {
    for (const auto& [wrong, part] : cases) {
      const Status status = run_misuse(wrong);
      expect_part(status, part);
      const bool outside = wrong == Wrong::outside || wrong == Wrong::shared_outside || wrong == Wrong::box_outside;
      EXPECT_EQ(status.message.find(outside ? "out of bounds in block (0,0,0)" : "misuse in block (0,0,0)"), 0u)
          << status.message;
      expect_part(status, "async_reports_test.cpp:");
    }
    for (const Wrong none : {Wrong::nothing, Wrong::fence_of_other_kind}) {
      const Status status = run_misuse(none);
      EXPECT_TRUE(status) << status.message;
    }
  });
}

TEST_F(AsyncTest, APhaseThatCompletesBeforeItsBytesIsReported) {
  in_every_mode([&] {
    const Status status = run_misuse(Wrong::missing_expect);
    expect_part(status,
                late() ? "issued in phase 0 of the mbarrier at shared offset 2048 of block (0,0,0), brings its 16 bytes in "
                         "phase 1. Rule: a phase expects all bytes"
                       : ": phase 0, 1 of 1 arrivals, -16 bytes outstanding");
  });
}

TEST_F(AsyncTest, PhasesThatNeverCompleteAreDeadlocks) {
  const std::pair<Wrong, std::string> cases[] = {
      {Wrong::small_expect, "parity 0 at ? phase 0, 1 of 1 arrivals, -16 bytes outstanding"},
      {Wrong::large_expect, "parity 0 at ? phase 0, 1 of 1 arrivals, 16 bytes outstanding"},
      {Wrong::no_arrival, "parity 0 at ? phase 0, 0 of 1 arrivals, 0 bytes outstanding"},
      {Wrong::wrong_parity, "parity 1 at ? phase 1, 0 of 1 arrivals, 0 bytes outstanding"},
      {Wrong::lags, "parity 0 at ? phase 2, 0 of 1 arrivals, 0 bytes outstanding"},
  };
  in_every_mode([&] {
    for (const auto& [wrong, part] : cases) {
      const Status status = run_misuse(wrong);
      const size_t gap = part.find('?');
      expect_part(status, "deadlock in block");
      expect_part(status,
                  "1 of 1 threads wait and none can run: threads 0 wait in mbarrier.try_wait " + part.substr(0, gap));
      expect_part(status, ", barrier at shared offset 2048:" + part.substr(gap + 1));
      expect_part(status, "A phase of an mbarrier also needs exactly the bytes that it expects");
    }
  });
}

constexpr unsigned kGroupsLine = __LINE__ + 9;
__global__ void deadlocked() {
  auto& s = dynamic_shared<WrongStorage>();
  const uint32_t barrier = ptx::shared_address(&s.barrier), other = ptx::shared_address(&s.other);
  if (threadIdx.x == 0) ptx::mbarrier_init(barrier, 40), ptx::mbarrier_init(other, 1);
  __syncthreads();
  if (threadIdx.x < 20) ptx::mbarrier_arrive(barrier);
  if (threadIdx.x == 0) ptx::mbarrier_expect_tx(barrier, 128);
  if (threadIdx.x < 20)
    wait(barrier, 0);
  else if (threadIdx.x < 40)
    wait(other, 0);
}

TEST_F(AsyncTest, DeadlocksNameGroupsOfThreads) {
  in_every_mode([&] {
    const Status status = launch(deadlocked, dim3(1), dim3(64), sizeof(WrongStorage), nullptr);
    const std::string file = std::source_location::current().file_name();
    expect_part(status,
                "0-19 wait in mbarrier.try_wait parity 0 at " + file + ":" + std::to_string(kGroupsLine) +
                    " (deadlocked), barrier at shared offset 2048: phase 0, 20 of 40 arrivals, 128 bytes outstanding");
    expect_part(status, "20-39 wait in mbarrier.try_wait parity 0 at " + file + ":" + std::to_string(kGroupsLine + 2) +
                            " (deadlocked), barrier at shared offset 2056: phase 0, 0 of 1 arrivals, 0 bytes outstanding");
    expect_part(status, "; threads 40-63 have exited");
  });
}

// ---- Reports that need several threads ----

enum class Together {
  fence_by_another,
  inval_under_a_wait,
  no_fence_remote,
  no_fence_multicast,
  barrier_elsewhere,
  ended,
  source_ended
};

__global__ void misuse_together(Together wrong, const unsigned char* in) {
  auto& s = dynamic_shared<WrongStorage>();
  const uint32_t barrier = ptx::shared_address(&s.barrier), data = ptx::shared_address(s.data);
  const bool first = threadIdx.x == 0, leader = first && ptx::cluster_rank() == 0;
  if (first) ptx::mbarrier_init(barrier, 1);
  const bool never = wrong == Together::no_fence_remote || wrong == Together::no_fence_multicast;
  if (threadIdx.x == (wrong == Together::fence_by_another) && !(never && ptx::cluster_rank() == 1))
    ptx::fence_mbarrier_init();
  __syncthreads();
  if (ptx::cluster_size() > 1) ptx::cluster_sync();
  if (wrong == Together::fence_by_another && first) ptx::cp_async_bulk_load(data, in, 16, barrier);
  if (wrong == Together::inval_under_a_wait) {
    if (first) wait(barrier, 0);
    __syncwarp();  // with the other lanes of the warp of the thread that waits
    if (threadIdx.x == 32) ptx::mbarrier_inval(barrier);
  }
  if (wrong == Together::no_fence_remote && leader) ptx::mbarrier_arrive_cluster(ptx::mapa(barrier, 1));
  if (wrong == Together::no_fence_multicast && leader) ptx::cp_async_bulk_load_multicast(data, in, 16, barrier, 3);
  if (wrong == Together::barrier_elsewhere && leader) ptx::cp_async_bulk_to_cluster(ptx::mapa(data, 1), data, 16, barrier);
  if (wrong == Together::ended && leader) {
    wait(barrier, 0);
    ptx::cp_async_bulk_load_multicast(data, in, 16, barrier, 2);
  } else if (wrong == Together::ended && first) {
    ptx::mbarrier_arrive_cluster(ptx::mapa(barrier, 0));
  }
  if (wrong == Together::source_ended) {
    if (leader) ptx::cp_async_bulk_to_cluster(ptx::mapa(data, 1), data, 16, ptx::mapa(barrier, 1));
    if (first && !leader) {
      ptx::mbarrier_arrive_expect_tx(barrier, 16);
      wait(barrier, 0);
    }
  }
  if (wrong == Together::ended || wrong == Together::source_ended || ptx::cluster_size() == 1) return;
  __syncwarp();
  ptx::cluster_sync();
}

TEST_F(AsyncTest, MisuseOfSeveralThreadsIsReported) {
  const std::pair<Together, std::string> cases[] = {
      {Together::fence_by_another, "initialised without a fence at "},
      {Together::no_fence_remote,
       "mbarrier.arrive.shared::cluster on the mbarrier at shared offset 2048, initialised without a fence"},
      {Together::no_fence_multicast,
       "cp.async.bulk.shared::cluster.global on the mbarrier at shared offset 2048, initialised without"},
      {Together::barrier_elsewhere,
       "cp.async.bulk.shared::cluster.shared::cta to block (1,0,0) with a barrier of another block"},
  };
  DeviceBuffer in(64);
  const auto run = [&](Together wrong) {
    const bool cluster = wrong != Together::fence_by_another && wrong != Together::inval_under_a_wait;
    return launch(misuse_together, LaunchShape{dim3(2), dim3(64), sizeof(WrongStorage), cluster ? 2u : 1u}, nullptr, wrong,
                  in.as<const unsigned char>());
  };
  (void)races_of([&] {  // a wait and an inval that nothing orders are a race too
    in_every_mode([&] {
      for (const auto& [wrong, part] : cases) expect_part(run(wrong), part);
    });
    sim::options() = {.compute_capability = 90};
    expect_part(run(Together::inval_under_a_wait), "mbarrier.inval at shared offset 2048, where a thread waits at ");
    sim::options().schedule = sim::Schedule::descending;
    expect_part(run(Together::ended), "which has ended");
    sim::options() = {.compute_capability = 90};
    expect_part(run(Together::source_ended),
                "block (0,0,0) ended before cp.async.bulk.shared::cluster.shared::cta had read its");
  });
}

}  // namespace
}  // namespace grout
