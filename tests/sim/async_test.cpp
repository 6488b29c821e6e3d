// mbarriers, bulk and tensor copies, bulk groups and proxy fences of the simulated device: what they give, late and early under
// every schedule, and what is reported. Races and addresses outside of allocations: in the builds of the sanitizers.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "common/check.cuh"
#include "common/ptx_sm90.cuh"

// ThreadSanitizer's hooks: its reports are counted here, and fail a test, not the process.
static std::atomic<int> race_reports{0};
extern "C" const char* __tsan_default_options() {
  return "exitcode=0:suppress_equal_addresses=0";
}
extern "C" void __tsan_on_report(void*) {
  ++race_reports;
}

namespace grout {
namespace {

class AsyncTest : public testing::Test {
 protected:
  void SetUp() override {
    sim::options().workers = 1;
    races_ = race_reports;
  }
  void TearDown() override {
    sim::options() = saved_;
    EXPECT_EQ(race_reports - races_, expected_races_) << "races";
  }
  /// Calls f under every schedule, late and early.
  template <class F>
  void in_every_mode(F f) {
    for (const sim::Asynchrony asynchrony : sim::kAsynchronies) {
      for (const sim::Schedule schedule : sim::kSchedules) {
        SCOPED_TRACE(std::string(sim::name(asynchrony)) + " " + sim::name(schedule));
        sim::options().schedule = schedule;
        sim::options().asynchrony = asynchrony;
        f();
      }
    }
  }
  /// Runs f, in which races are expected, and returns how many there were.
  template <class F>
  int races_of(F f) {
    const int before = race_reports;
    testing::internal::CaptureStderr();
    f();
    (void)testing::internal::GetCapturedStderr();
    expected_races_ += race_reports - before;
    return race_reports - before;
  }

 private:
  sim::Options saved_ = sim::options();
  int races_ = 0, expected_races_ = 0;
};

bool late() {
  return sim::options().asynchrony == sim::Asynchrony::late;
}

std::vector<unsigned char> numbered(size_t bytes) {
  std::vector<unsigned char> v(bytes);
  for (size_t i = 0; i < bytes; ++i) v[i] = static_cast<unsigned char>(i * 7 + i / 251 * 13 + 1);
  return v;
}

std::vector<unsigned char> contents(const DeviceBuffer& buffer) {
  std::vector<unsigned char> v(buffer.size());
  buffer.download(v.data());
  return v;
}

GROUT_DEVICE void wait(uint32_t barrier, uint32_t parity GROUT_AT) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity GROUT_HERE)) {
  }
}
GROUT_DEVICE void wait_cluster(uint32_t barrier, uint32_t parity GROUT_AT) {
  while (!ptx::mbarrier_try_wait_parity_cluster(barrier, parity GROUT_HERE)) {
  }
}

void expect_part(const Status& status, const std::string& part) {
  EXPECT_NE(status.message.find(part), std::string::npos) << "\"" << part << "\" is not in\n\"" << status.message << "\"";
}

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

// ---- Tensor boxes ----

struct TensorCase {
  int rank, element_bytes;
  sim::TensorMap::Swizzle swizzle;
  int extent[3], box[3], padding;  // of each pitch, in units of 16 bytes
  int32_t start[3];
};

sim::TensorMap map_of(const TensorCase& c, void* base) {
  sim::TensorMap map;
  map.rank = static_cast<uint8_t>(c.rank);
  map.element_bytes = static_cast<uint8_t>(c.element_bytes);
  map.swizzle = c.swizzle;
  map.base = static_cast<unsigned char*>(base);
  map.pitch_bytes[0] = static_cast<uint64_t>(c.element_bytes);
  for (int d = 0; d < c.rank; ++d) {
    map.extent[d] = static_cast<uint64_t>(c.extent[d]);
    map.box[d] = static_cast<uint32_t>(c.box[d]);
    if (d)
      map.pitch_bytes[d] =
          (map.pitch_bytes[d - 1] * map.extent[d - 1] + 15) / 16 * 16 + static_cast<uint64_t>(16 * c.padding);
  }
  return map;
}

size_t span_of(const sim::TensorMap& map) {
  size_t span = map.element_bytes;
  for (int d = 0; d < map.rank; ++d) span += (map.extent[d] - 1) * map.pitch_bytes[d];
  return span;
}

size_t box_bytes(const TensorCase& c) {
  size_t bytes = static_cast<size_t>(c.element_bytes);
  for (int d = 0; d < c.rank; ++d) bytes *= static_cast<size_t>(c.box[d]);
  return bytes;
}

// Where byte `b` of the dense box lies behind its begin: written from the picture of the patterns, chunk by chunk of 16 bytes.
// 128B: in row r of 128 bytes, chunk c lies at c ^ (r mod 8). 64B: rows of 64 bytes, chunk c at c ^ (r / 2 mod 4). 32B: rows of
// 32 bytes, chunk c at c ^ (r / 4 mod 2).
size_t place_of(sim::TensorMap::Swizzle swizzle, size_t b) {
  using Swizzle = sim::TensorMap::Swizzle;
  if (swizzle == Swizzle::none) return b;
  const size_t span = swizzle == Swizzle::b128 ? 128 : swizzle == Swizzle::b64 ? 64 : 32;
  const size_t row = b / span, chunk = b % span / 16;
  const size_t key = swizzle == Swizzle::b128 ? row % 8 : swizzle == Swizzle::b64 ? row / 2 % 4 : row / 4 % 2;
  return row * span + (chunk ^ key) * 16 + b % 16;
}

// Byte in the matrix's memory of byte b of the box, or -1 if that lies outside of the matrix.
int64_t source_of(const TensorCase& c, const sim::TensorMap& map, size_t b) {
  int64_t element = static_cast<int64_t>(b) / c.element_bytes, at = static_cast<int64_t>(b) % c.element_bytes;
  for (int d = 0; d < c.rank; ++d) {
    const int64_t coordinate = c.start[d] + element % c.box[d];
    element /= c.box[d];
    if (coordinate < 0 || coordinate >= c.extent[d]) return -1;
    at += coordinate * static_cast<int64_t>(map.pitch_bytes[d]);
  }
  return at;
}

std::vector<TensorCase> tensor_cases() {
  using Swizzle = sim::TensorMap::Swizzle;
  std::vector<TensorCase> cases;
  for (const Swizzle swizzle : {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128}) {
    const int span = swizzle == Swizzle::none ? 96 : 16 << static_cast<int>(swizzle);
    for (const int bytes : {2, 4}) {
      const int row = span / bytes, step = 16 / bytes;
      for (const int x : {0, step, -step, -2 * row, 3 * step, 10 * row}) {
        cases.push_back({1, bytes, swizzle, {row + 5, 1, 1}, {row, 1, 1}, 0, {x, 0, 0}});
        for (const int y : {0, 3, -2, 8, -40, 100}) {
          cases.push_back({2, bytes, swizzle, {row + 5, 11, 1}, {row, 19, 1}, 1, {x, y, 0}});
          cases.push_back({3, bytes, swizzle, {row + 5, 7, 4}, {row, 3, 5}, 2, {x, y, y == 3 ? -1 : y / 2}});
        }
      }
      cases.push_back({2, bytes, swizzle, {2 * row + 1, 40, 1}, {step, 37, 1}, 0, {step, 2, 0}});  // rows of one chunk
    }
  }
  return cases;
}

constexpr size_t kBoxRoom = 16 << 10;
struct BoxStorage {
  alignas(1024) unsigned char box[kBoxRoom];
  uint64_t barrier;
};

__global__ void load_box(const __grid_constant__ TensorMap map, int rank, int x, int y, int z, uint32_t bytes,
                         unsigned char* out) {
  auto& s = dynamic_shared<BoxStorage>();
  const uint32_t barrier = ptx::shared_address(&s.barrier), box = ptx::shared_address(s.box);
  ptx::mbarrier_init(barrier, 1);
  ptx::fence_mbarrier_init();
  ptx::prefetch_tensormap(map);
  ptx::mbarrier_arrive_expect_tx(barrier, bytes);
  if (rank == 1) ptx::cp_async_bulk_tensor_load(box, map, {x}, barrier);
  if (rank == 2) ptx::cp_async_bulk_tensor_load(box, map, {x, y}, barrier);
  if (rank == 3) ptx::cp_async_bulk_tensor_load(box, map, {x, y, z}, barrier);
  wait(barrier, 0);
  std::memcpy(out, s.box, kBoxRoom);
}

__global__ void store_box(const __grid_constant__ TensorMap map, int rank, int x, int y, int z, const unsigned char* in) {
  auto& s = dynamic_shared<BoxStorage>();
  const uint32_t box = ptx::shared_address(s.box);
  std::memcpy(s.box, in, kBoxRoom);
  ptx::fence_proxy_async_shared();
  if (rank == 1) ptx::cp_async_bulk_tensor_store(map, {x}, box);
  if (rank == 2) ptx::cp_async_bulk_tensor_store(map, {x, y}, box);
  if (rank == 3) ptx::cp_async_bulk_tensor_store(map, {x, y, z}, box);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group_read<0>();
}

std::string describe(const TensorCase& c) {
  std::string text = "rank " + std::to_string(c.rank) + " bytes " + std::to_string(c.element_bytes) + " swizzle " +
                     std::to_string(static_cast<int>(c.swizzle));
  for (int d = 0; d < c.rank; ++d)
    text += " [" + std::to_string(c.start[d]) + "+" + std::to_string(c.box[d]) + " of " + std::to_string(c.extent[d]) + "]";
  return text;
}

TEST_F(AsyncTest, TensorLoadsMatchTheReference) {
  const auto cases = tensor_cases();
  const size_t step = sim::sanitizer() == sim::Sanitizer::thread ? 17 : 1;
  for (const auto asynchrony : sim::kAsynchronies) {
    sim::options().asynchrony = asynchrony;
    for (size_t i = 0; i < cases.size(); i += step) {
      const TensorCase& c = cases[i];
      sim::TensorMap map = map_of(c, nullptr);
      const auto in = numbered(span_of(map));
      DeviceBuffer source(in.size()), out(kBoxRoom);
      source.upload(in.data());
      map.base = source.as<unsigned char>();
      const size_t bytes = box_bytes(c);
      std::vector<unsigned char> expected(kBoxRoom, 0xff);
      for (size_t b = 0; b < bytes; ++b) {
        const int64_t from = source_of(c, map, b);
        expected[place_of(c.swizzle, b)] = from < 0 ? 0 : in[static_cast<size_t>(from)];
      }
      const Status status = launch(load_box, dim3(1), dim3(1), sizeof(BoxStorage), nullptr, map, c.rank, c.start[0],
                                   c.start[1], c.start[2], static_cast<uint32_t>(bytes), out.as<unsigned char>());
      ASSERT_TRUE(status) << status.message << describe(c);
      ASSERT_EQ(sim::statistics().tensor_loads, 1u);
      ASSERT_EQ(contents(out), expected) << describe(c);
    }
  }
}

TEST_F(AsyncTest, TensorStoresWriteTheMatrixAndNothingElse) {
  const auto cases = tensor_cases();
  const size_t step = sim::sanitizer() == sim::Sanitizer::thread ? 17 : 1;
  const auto in = numbered(kBoxRoom);
  DeviceBuffer source(in.size());
  source.upload(in.data());
  for (const auto asynchrony : sim::kAsynchronies) {
    sim::options().asynchrony = asynchrony;
    for (size_t i = 0; i < cases.size(); i += step) {
      const TensorCase& c = cases[i];
      sim::TensorMap map = map_of(c, nullptr);
      DeviceBuffer out(span_of(map));
      map.base = out.as<unsigned char>();
      std::vector<unsigned char> expected(out.size(), kPoison);
      for (size_t b = 0; b < box_bytes(c); ++b) {
        if (const int64_t to = source_of(c, map, b); to >= 0) expected[static_cast<size_t>(to)] = in[place_of(c.swizzle, b)];
      }
      const Status status = launch(store_box, dim3(1), dim3(1), sizeof(BoxStorage), nullptr, map, c.rank, c.start[0],
                                   c.start[1], c.start[2], source.as<const unsigned char>());
      ASSERT_TRUE(status) << status.message << describe(c);
      ASSERT_EQ(sim::statistics().tensor_stores, 1u);
      ASSERT_EQ(contents(out), expected) << describe(c);
      const Status guards = out.check_guards("matrix");
      ASSERT_TRUE(guards) << guards.message << describe(c);
    }
  }
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
  const int races = races_of([&] {
    EXPECT_TRUE(launch(leave_one_group, dim3(1), dim3(1), sizeof(RingStorage), nullptr, &out[0], &seen[0]));
  });
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
    EXPECT_TRUE(
        launch(record_deliveries, dim3(1), dim3(128), sizeof(RingStorage), nullptr, &in[0], result.data(), &count));
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
  start_column,
  rank,
  box_64,
  box_outside,
  store_start_column,
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
    default:
      load(data, in, 16), ptx::mbarrier_inval(barrier), ptx::mbarrier_init(barrier, 1);
      break;
  }
}

constexpr TensorCase kBox{2, 2, sim::TensorMap::Swizzle::none, {64, 20, 1}, {64, 10, 1}, 0, {}};  // 1280 bytes

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
      {Wrong::start_column, tensor + " of a box that starts at element 3 of the fastest dimension, at byte 6"},
      {Wrong::store_start_column, "cp.async.bulk.tensor.global.shared::cta of a box that starts at element -4"},
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
      expect_part(status, "async_test.cpp:");
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
    sim::options() = {};
    expect_part(run(Together::inval_under_a_wait), "mbarrier.inval at shared offset 2048, where a thread waits at ");
    sim::options().schedule = sim::Schedule::descending;
    expect_part(run(Together::ended), "which has ended");
    sim::options() = {};
    expect_part(run(Together::source_ended),
                "block (0,0,0) ended before cp.async.bulk.shared::cluster.shared::cta had read its");
  });
}

// ---- Tensor maps and boxes that break a rule ----

__global__ void prefetch(const __grid_constant__ TensorMap map) {
  ptx::prefetch_tensormap(map);
}

TEST_F(AsyncTest, MapsThatCannotBeEncodedAreReported) {
  DeviceBuffer matrix(4096);
  const sim::TensorMap good = map_of(kBox, matrix.data());
  const auto expect = [&](auto change, const std::string& part) {
    sim::TensorMap map = good;
    change(map);
    expect_part(launch(prefetch, dim3(1), dim3(1), 0, nullptr, map), part);
  };
  const Status status = launch(prefetch, dim3(1), dim3(1), 0, nullptr, good);
  EXPECT_TRUE(status) << status.message;
  expect([](auto& m) { m = {}; }, "prefetch.tensormap with a tensor map that was never encoded");
  expect([](auto& m) { m.rank = 4; },
         "prefetch.tensormap with a tensor map that cannot be encoded. Rule: a tensor map has 1 to 3");
  expect([](auto& m) { m.element_bytes = 3; }, "Rule: elements have 1, 2, 4 or 8 bytes");
  expect([](auto& m) { m.base += 8; }, "Rule: the base is a multiple of 16 bytes");
  expect([](auto& m) { m.base = nullptr; }, "Rule: the base is a multiple of 16 bytes, and not null");
  expect([](auto& m) { m.pitch_bytes[0] = 4; }, "Rule: elements of the first dimension are contiguous");
  expect([](auto& m) { m.extent[1] = 0; }, "Rule: an extent is 1 to 2^32 elements");
  expect([](auto& m) { m.extent[1] = (uint64_t(1) << 32) + 1; }, "Rule: an extent is 1 to 2^32 elements");
  expect([](auto& m) { m.box[1] = 257; }, "Rule: a box has 1 to 256 elements in each dimension");
  expect([](auto& m) { m.box[1] = 0; }, "Rule: a box has 1 to 256 elements in each dimension");
  expect([](auto& m) { m.pitch_bytes[1] = 136; }, "Rule: a pitch is a multiple of 16 bytes, less than 2^40");
  expect([](auto& m) { m.pitch_bytes[1] = uint64_t(1) << 40; }, "Rule: a pitch is a multiple of 16 bytes, less than 2^40");
  expect([](auto& m) { m.pitch_bytes[1] = 112; }, "Rule: a pitch is at least a row long");
  expect([](auto& m) { m.box[0] = 20; }, "Rule: a row of a box is a multiple of 16 bytes");
  expect([](auto& m) { m.swizzle = sim::TensorMap::Swizzle::b64; },
         "Rule: a row of a box is at most as long as the swizzle's span");
  expect([](auto& m) { m.swizzle = static_cast<sim::TensorMap::Swizzle>(9); },
         "Rule: the swizzle is none, 32, 64 or 128 bytes");
}

__global__ void load_at(const __grid_constant__ TensorMap map, uint32_t offset) {
  auto& s = dynamic_shared<BoxStorage>();
  ptx::mbarrier_init(ptx::shared_address(&s), 1);
  ptx::fence_mbarrier_init();
  ptx::cp_async_bulk_tensor_load(ptx::shared_address(&s) + offset, map, {0, 0}, ptx::shared_address(&s));
}

TEST_F(AsyncTest, SwizzledBoxesStartWhereThePatternDoes) {
  using Swizzle = sim::TensorMap::Swizzle;
  DeviceBuffer matrix(4096);
  for (const auto& [swizzle, period] : {std::pair{Swizzle::b32, 256u}, {Swizzle::b64, 512u}, {Swizzle::b128, 1024u}}) {
    const TensorCase c{2, 2, swizzle, {64, 20, 1}, {8 << static_cast<int>(swizzle), 4, 1}, 0, {}};
    const Status status = launch(load_at, dim3(1), dim3(1), 4096, nullptr, map_of(c, matrix.data()), 1024 + period / 2);
    expect_part(status, " at shared offset " + std::to_string(1024 + period / 2) + ", which is not a multiple of " +
                            std::to_string(period) + ". Rule: a swizzled box starts at a multiple of the pattern's period");
  }
  // Rows of half the span: the fifth pair of them lies in the other half of its 128 bytes.
  const TensorCase half{2, 2, Swizzle::b128, {64, 20, 1}, {32, 9, 1}, 0, {}};
  const Status status = launch(load_at, dim3(1), dim3(1), 1024 + 9 * 64, nullptr, map_of(half, matrix.data()), 1024u);
  expect_part(status, "of a box whose swizzle reaches to shared offset 1664 of the block's 1600");
}

// ---- Addresses outside of allocations ----

__global__ void load_bytes(const unsigned char* in, uint32_t bytes) {
  auto& s = dynamic_shared<BoxStorage>();
  const uint32_t barrier = ptx::shared_address(&s.barrier);
  ptx::mbarrier_init(barrier, 1);
  ptx::fence_mbarrier_init();
  ptx::mbarrier_arrive_expect_tx(barrier, bytes);
  ptx::cp_async_bulk_load(ptx::shared_address(s.box), in, bytes, barrier);
  wait(barrier, 0);
}

__global__ void store_bytes(unsigned char* out, uint32_t bytes) {
  auto& s = dynamic_shared<BoxStorage>();
  ptx::cp_async_bulk_store(out, ptx::shared_address(s.box), bytes);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group_read<0>();
}

TEST_F(AsyncTest, CopiesOutsideOfAllocationsAreReported) {
  if (sim::sanitizer() != sim::Sanitizer::address) GTEST_SKIP() << "found by AddressSanitizer";
  unsigned char* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 640), cudaSuccess);
  ASSERT_EQ(cudaMemset(memory, 0, 640), cudaSuccess);
  TensorCase c{2, 2, sim::TensorMap::Swizzle::none, {32, 10, 1}, {32, 8, 1}, 0, {0, 4, 0}};
  const auto load = [&] {
    return launch(load_box, dim3(1), dim3(1), sizeof(BoxStorage), nullptr, map_of(c, memory), 2, c.start[0], c.start[1], 0,
                  512u, DeviceBuffer(kBoxRoom).as<unsigned char>());
  };
  const auto store = [&] {
    DeviceBuffer in(kBoxRoom);
    return launch(store_box, dim3(1), dim3(1), sizeof(BoxStorage), nullptr, map_of(c, memory), 2, c.start[0], c.start[1], 0,
                  in.as<const unsigned char>());
  };
  in_every_mode([&] {
    expect_part(launch(load_bytes, dim3(1), dim3(1), sizeof(BoxStorage), nullptr, memory, 656u),
                "reads 656 bytes of global memory, of which byte 640 is not in any allocation");
    expect_part(launch(store_bytes, dim3(1), dim3(1), sizeof(BoxStorage), nullptr, memory, 656u),
                "writes 656 bytes of global memory, of which byte 640 is not in any allocation");
    EXPECT_TRUE(launch(load_bytes, dim3(1), dim3(1), sizeof(BoxStorage), nullptr, memory, 640u));
    c.extent[1] = 11;  // one row more than there is
    expect_part(load(), "out of bounds");
    expect_part(store(), "out of bounds");
    c.extent[1] = 10;
  });
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

}  // namespace
}  // namespace grout
