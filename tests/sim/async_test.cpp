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
extern "C" void __tsan_on_report(void*) { ++race_reports; }

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

bool late() { return sim::options().asynchrony == sim::Asynchrony::late; }

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
        if (kind == Ring::weak_store_wait) ptx::cp_async_bulk_wait_group_read<2>();
        else ptx::cp_async_bulk_wait_group_read<1>();
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
RingRun run_ring(unsigned threads = 64) {
  const auto in = numbered(kTiles * kTileBytes);
  DeviceBuffer source(in.size()), destination(in.size());
  source.upload(in.data());
  Status status = launch(ring<kind>, dim3(1), dim3(threads), sizeof(RingStorage), nullptr, source.as<const unsigned char>(),
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

TEST_F(AsyncTest, MissingProxyFenceIsWrongInEveryMode) {
  in_every_mode([&] {
    const RingRun run = run_ring<Ring::no_fence>();
    EXPECT_TRUE(run.status) << run.status.message;
    EXPECT_FALSE(run.right);
  });
}

TEST_F(AsyncTest, StoreSourceReusedTooEarlyIsFound) {
  int wrong = 0;
  const int races = races_of([&] {
    in_every_mode([&] { wrong += !run_ring<Ring::weak_store_wait>().right; });
  });
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
    if (d) map.pitch_bytes[d] = (map.pitch_bytes[d - 1] * map.extent[d - 1] + 15) / 16 * 16 + static_cast<uint64_t>(16 * c.padding);
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

__global__ void load_box(const __grid_constant__ TensorMap map, int rank, int x, int y, int z, uint32_t bytes, unsigned char* out) {
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
      const Status status = launch(load_box, dim3(1), dim3(1), sizeof(BoxStorage), nullptr, map, c.rank, c.start[0], c.start[1],
                                   c.start[2], static_cast<uint32_t>(bytes), out.as<unsigned char>());
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
      const Status status = launch(store_box, dim3(1), dim3(1), sizeof(BoxStorage), nullptr, map, c.rank, c.start[0], c.start[1],
                                   c.start[2], source.as<const unsigned char>());
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
  if (sim::sanitizer() == sim::Sanitizer::thread) GTEST_SKIP() << "a race on purpose";
  in_every_mode([&] {
    alignas(16) const unsigned char in[16] = {42};
    unsigned char seen[2] = {};
    const Status status = launch(look_before_waiting, dim3(1), dim3(1), sizeof(RingStorage), nullptr, &in[0], &seen[0]);
    EXPECT_TRUE(status) << status.message;
    EXPECT_EQ(seen[0], late() ? 0xff : 42);
    EXPECT_EQ(seen[1], 42);
  });
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

}  // namespace
}  // namespace grout
