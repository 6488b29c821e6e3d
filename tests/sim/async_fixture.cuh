// What the tests of mbarriers and the copy engine share.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/check.cuh"
#include "common/ptx_sm90.cuh"
#include "tests/sim/device_test.h"
#include "tests/sim/races.h"

namespace grout {

using AsyncTest = test::RaceFree<test::SimTest90>;
using test::in_every_mode;

inline bool late() {
  return sim::options().asynchrony == sim::Asynchrony::late;
}

inline std::vector<unsigned char> numbered(size_t bytes) {
  std::vector<unsigned char> v(bytes);
  for (size_t i = 0; i < bytes; ++i) v[i] = static_cast<unsigned char>(i * 7 + i / 251 * 13 + 1);
  return v;
}

inline std::vector<unsigned char> contents(const DeviceBuffer& buffer) {
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

inline void expect_part(const Status& status, const std::string& part) {
  EXPECT_NE(status.message.find(part), std::string::npos) << "\"" << part << "\" is not in\n\"" << status.message << "\"";
}

struct TensorCase {
  int rank, element_bytes;
  sim::TensorMap::Swizzle swizzle;
  int extent[3], box[3], padding;  // of each pitch, in units of 16 bytes
  int32_t start[3];
};

inline sim::TensorMap map_of(const TensorCase& c, void* base) {
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
inline constexpr TensorCase kBox{2, 2, sim::TensorMap::Swizzle::none, {64, 20, 1}, {64, 10, 1}, 0, {}};  // 1280 bytes

inline constexpr size_t kBoxRoom = 16 << 10;
struct BoxStorage {
  alignas(1024) unsigned char box[kBoxRoom];
  uint64_t barrier;
};

}  // namespace grout
