// One box of a tensor map, loaded into shared memory and handed out as it lies there; cases, and what is expected.
#pragma once
#include <cstddef>
#include <random>
#include <vector>

#include "common/ptx_sm90.cuh"
#include "common/tensor_map.cuh"

namespace grout::test {

inline constexpr uint8_t kTensorLoadGuard = 0xcd;

template <int Rank>
struct TensorLoadCall {
  uint8_t* out;           // `shown` bytes: guards where the box has none
  uint32_t bytes, shown;  // of the box; of shared memory from its begin on
  int32_t coordinates[Rank];
};

struct TensorLoadStorage {
  alignas(8) uint64_t full;
  alignas(1024) uint8_t box[8];  // and what follows
};

template <int Rank>
__global__ void __launch_bounds__(32)
    tensor_load_kernel(const __grid_constant__ TensorMap map, TensorLoadCall<Rank> call) {
  auto& shared = dynamic_shared<TensorLoadStorage>();
  const uint32_t full = ptx::shared_address(&shared.full);
  for (uint32_t i = threadIdx.x; i < call.shown; i += 32) shared.box[i] = kTensorLoadGuard;
  ptx::fence_proxy_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(full, call.bytes);
    ptx::cp_async_bulk_tensor_load(ptx::shared_address(shared.box), map, call.coordinates, full);
  }
  __syncthreads();
  while (!ptx::mbarrier_try_wait_parity(full, 0)) {
  }
  for (uint32_t i = threadIdx.x; i < call.shown; i += 32) call.out[i] = shared.box[i];
}

template <int Rank>
Status tensor_load(const TensorMap& map, const TensorLoadCall<Rank>& call) {
  return launch(&tensor_load_kernel<Rank>, dim3(1), dim3(32), offsetof(TensorLoadStorage, box) + call.shown, nullptr,
                map, call);
}
inline Status tensor_load(const TensorMap& map, int rank, const int32_t* c, uint8_t* out, uint32_t bytes,
                          uint32_t shown) {
  return rank == 1   ? tensor_load<1>(map, {out, bytes, shown, {c[0]}})
         : rank == 2 ? tensor_load<2>(map, {out, bytes, shown, {c[0], c[1]}})
                     : tensor_load<3>(map, {out, bytes, shown, {c[0], c[1], c[2]}});
}

inline int64_t box_bytes(const TensorMapArguments& a) {
  auto bytes = static_cast<int64_t>(element_bytes(a.type));
  for (int i = 0; i < a.rank; ++i) bytes *= a.box[i];
  return bytes;
}

// What the whole 128-byte lines of the box hold, from the sums of the pitches: zeros outside, then swizzled.
// `memory` is what lies at the base.
inline std::vector<uint8_t> expected_box(const TensorMapArguments& a, const int32_t* start,
                                         const std::vector<uint8_t>& memory) {
  const auto element = static_cast<int64_t>(element_bytes(a.type));
  const int64_t bytes = box_bytes(a), chunks = a.swizzle == TensorSwizzle::none ? 1 : swizzle_span(a.swizzle) / 16;
  std::vector<uint8_t> expected(static_cast<size_t>((bytes + 127) / 128 * 128), kTensorLoadGuard);
  for (int64_t byte = 0; byte < bytes; ++byte) {
    int64_t rest = byte / element, from = byte % element;
    bool inside = true;
    for (int i = 0; i < a.rank; ++i) {
      const int64_t c = start[i] + rest % a.box[i];
      rest /= a.box[i];
      inside &= c >= 0 && c < a.extents[i];
      from += c * (i == 0 ? element : a.pitches[i]);
    }
    expected[static_cast<size_t>(byte ^ (byte / 128 % chunks) * 16)] = inside ? memory[static_cast<size_t>(from)] : 0;
  }
  return expected;
}

// 65 x 97 (x 5) of bf16 in a box of 64 x 8 (x 3), every number another one. Nothing looks at the memory.
inline TensorMapArguments legal_tensor_map(int rank) {
  TensorMapArguments a;
  a.type = ElementType::bf16;
  a.base = reinterpret_cast<const void*>(uintptr_t{0x7f12345670});
  a.rank = rank;
  const int64_t extents[] = {65, 97, 5}, pitches[] = {0, 144, 144 * 97};
  const int box[] = {64, 8, 3};
  for (int i = 0; i < rank; ++i) {
    a.extents[i] = extents[i];
    a.pitches[i] = pitches[i];
    a.box[i] = box[i];
  }
  a.swizzle = TensorSwizzle::b128;
  return a;
}

struct TensorLoadCase {
  TensorMapArguments map;
  int32_t start[3];
};
inline constexpr size_t kTensorLoadMemory = 1 << 16;  // bytes that the cases reach from their base

// Random maps that check_tensor_map accepts, and where to load a box: also outside, also with slices beside one another.
inline std::vector<TensorLoadCase> tensor_load_cases(int tries, const void* base) {
  std::mt19937 random(5);
  const auto up_to = [&](int last) { return static_cast<int>(random() % static_cast<unsigned>(last)) + 1; };
  std::vector<TensorLoadCase> cases;
  for (int i = 0; i < tries; ++i) {
    TensorLoadCase c = {};
    TensorMapArguments& a = c.map;
    a.type = static_cast<ElementType>(random() % 3);
    a.rank = up_to(3);
    a.base = base;
    a.swizzle = static_cast<TensorSwizzle>(random() % 4);
    const int vector = a.type == ElementType::f32 ? 4 : 8;
    for (int d = 0; d < a.rank; ++d) {
      a.extents[d] = up_to(d == 0 ? 40 : 9);
      a.box[d] = d > 0                              ? up_to(9)
                 : a.swizzle == TensorSwizzle::none ? vector * up_to(random() % 2 ? 8 : 4)
                                                    : vector * swizzle_span(a.swizzle) / 16;
      if (d > 0) a.pitches[d] = 16 * up_to(random() % 2 ? 12 : 100);
      c.start[d] = d == 0 ? vector * (up_to(5) - 3) : up_to(14) - 5;
    }
    if (check_tensor_map(a)) cases.push_back(c);
  }
  return cases;
}

}  // namespace grout::test
