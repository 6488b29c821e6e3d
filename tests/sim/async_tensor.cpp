// Tensor copies of the simulated device against a reference of the boxes and their patterns, and copies outside of
// allocations (in the build of AddressSanitizer).
#include <algorithm>

#include "tests/sim/async_fixture.cuh"

namespace grout {
namespace {

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
      if (swizzle == Swizzle::none) cases.push_back({2, bytes, swizzle, {2 * row + 1, 40, 1}, {step, 37, 1}, 0, {step, 2, 0}});
    }
  }
  return cases;
}

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

TEST_F(AsyncTest, TensorStoresWriteWholeUnitsOfRowsAndNothingElse) {
  const auto cases = tensor_cases();
  const size_t step = sim::sanitizer() == sim::Sanitizer::thread ? 17 : 1;
  const auto in = numbered(kBoxRoom);
  DeviceBuffer source(in.size());
  source.upload(in.data());
  for (const auto asynchrony : sim::kAsynchronies) {
    sim::options().asynchrony = asynchrony;
    for (size_t i = 0; i < cases.size(); i += step) {
      const TensorCase& c = cases[i];
      if (std::any_of(c.start, c.start + 3, [](int start) { return start < 0; })) continue;  // async_reports_test.cpp
      sim::TensorMap map = map_of(c, nullptr);
      DeviceBuffer out((span_of(map) + 15) / 16 * 16);
      map.base = out.as<unsigned char>();
      std::vector<unsigned char> expected(out.size(), kPoison);
      for (size_t b = 0; b < box_bytes(c); ++b) {  // 16 bytes are written if the first of their elements is inside
        const int64_t unit = source_of(c, map, b / 16 * 16);
        if (unit >= 0) expected[static_cast<size_t>(unit) + b % 16] = in[place_of(c.swizzle, b)];
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
