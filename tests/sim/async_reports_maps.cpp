// What the simulated device reports of tensor maps that cannot be, of boxes in the wrong place, and of instructions and clusters
// that the device is too early for.
#include "tests/sim/async_fixture.cuh"

namespace grout {
namespace {

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
  expect([](auto& m) { m.rank = 3, m.extent[2] = 2, m.box[2] = 1, m.pitch_bytes[2] = m.pitch_bytes[1]; },
         "Rule: the longer of two pitches is at least a slice of the shorter one long");
  expect([](auto& m) { m.box[0] = 20; }, "Rule: a row of a box is a multiple of 16 bytes");
  expect([](auto& m) { m.swizzle = sim::TensorMap::Swizzle::b64; },
         "Rule: a row of a box is as long as the swizzle's span");
  expect([](auto& m) { m.swizzle = static_cast<sim::TensorMap::Swizzle>(9); },
         "Rule: the swizzle is none, 32, 64 or 128 bytes");
}

// ---- Instructions of later devices ----

// One instruction that compute capability 9.0 brought; none at the end of the list, where it says so.
__global__ void instruction_of_90(const __grid_constant__ TensorMap map, int which, bool* none) {
  auto& s = dynamic_shared<BoxStorage>();
  const uint32_t barrier = ptx::shared_address(&s), data = barrier + 1024;
  uint32_t word[1] = {};
  switch (which) {
    case 0: return ptx::mbarrier_init(barrier, 1);
    case 1: return ptx::mbarrier_inval(barrier);
    case 2: return ptx::fence_mbarrier_init();
    case 3: return ptx::mbarrier_arrive(barrier);
    case 4: return ptx::mbarrier_arrive_cluster(barrier);
    case 5: return ptx::mbarrier_expect_tx(barrier, 16);
    case 6: return ptx::mbarrier_arrive_expect_tx(barrier, 16);
    case 7: return (void)ptx::mbarrier_try_wait_parity(barrier, 0);
    case 8: return (void)ptx::mbarrier_try_wait_parity_cluster(barrier, 0);
    case 9: return ptx::fence_proxy_async_shared();
    case 10: return ptx::fence_proxy_async_global();
    case 11: return ptx::cp_async_bulk_load(data, &map, 16, barrier);
    case 12: return ptx::cp_async_bulk_load_multicast(data, &map, 16, barrier, 1);
    case 13: return ptx::cp_async_bulk_to_cluster(data, barrier, 16, barrier);
    case 14: return ptx::cp_async_bulk_store(none, data, 16);
    case 15: return ptx::cp_async_bulk_commit_group();
    case 16: return ptx::cp_async_bulk_wait_group<0>();
    case 17: return ptx::cp_async_bulk_wait_group_read<0>();
    case 18: return ptx::cp_async_bulk_tensor_load(data, map, {0, 0}, barrier);
    case 19: return ptx::cp_async_bulk_tensor_load_multicast(data, map, {0, 0}, barrier, 1);
    case 20: return ptx::cp_async_bulk_tensor_store(map, {0, 0}, data);
    case 21: return ptx::prefetch_tensormap(map);
    case 22: return (void)ptx::cluster_rank();
    case 23: return (void)ptx::cluster_size();
    case 24: return (void)ptx::mapa(barrier, 0);
    case 25: return ptx::cluster_arrive();
    case 26: return ptx::cluster_arrive_relaxed();
    case 27: return ptx::cluster_wait();
    case 28: return ptx::load_shared_cluster(word, barrier);
    case 29: return ptx::store_shared_cluster(barrier, word);
    // Before 9.0 no launch is dependent, and these two do nothing.
    case 30: return ptx::griddepcontrol_wait();
    case 31: return ptx::griddepcontrol_launch_dependents();
    default: *none = true;
  }
}

TEST_F(AsyncTest, InstructionsOfLaterDevicesAreReported) {
  DeviceBuffer matrix(4096);
  const sim::TensorMap map = map_of(kBox, matrix.data());
  for (const auto& [capability, spelt] : {std::pair{80, "8.0"}, {89, "8.9"}}) {
    sim::options().compute_capability = capability;
    bool none = false;
    int which = 0, reported = 0;
    for (; !none; ++which) {
      const Status status = launch(instruction_of_90, dim3(1), dim3(1), 4096, nullptr, map, which, &none);
      if (which >= 30) {
        EXPECT_TRUE(status) << which << ": " << status.message;
        continue;
      }
      expect_part(status, std::string(" on a device of compute capability ") + spelt + ". Rule: it came with 9.0");
      expect_part(status, "async_reports_maps.cpp:");
      ++reported;
    }
    EXPECT_EQ(which, 33);
    EXPECT_EQ(reported, 30);
    const Status status = launch(prefetch, LaunchShape{.grid = dim3(2), .block = dim3(1), .cluster = 2}, nullptr, map);
    expect_part(status, std::string("clusters of 2 blocks on a device of compute capability ") + spelt + ". Rule: clusters came with 9.0");
  }
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
}

}  // namespace
}  // namespace grout
