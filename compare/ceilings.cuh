// The two limits of a device, measured beside each case: multiply-adds in registers, and a plain copy. And a plain read of
// given memory, for kernels that can be no faster.
#pragma once
#include <memory>
#include <utility>

#include "common/ptx.cuh"
#include "compare/engine.cuh"

namespace grout::compare {

// 16-bit words that no two neighbours share.
static __global__ void fill_kernel(uint32_t* words, int64_t count, uint32_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    uint64_t x = (static_cast<uint64_t>(i) + seed) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    words[i] = static_cast<uint32_t>(x ^ x >> 31);
  }
}
inline void fill_random(const DeviceBuffer& buffer, uint32_t seed) {
  require(launch(&fill_kernel, dim3(4096), dim3(256), 0, nullptr, buffer.as<uint32_t>(),
                 static_cast<int64_t>(buffer.size() / 4), seed));
}

// Register-only mma.sync: every warp multiplies random fragments, 128 accumulators a thread, as the kernel does.
static __global__ void __launch_bounds__(256) mma_ceiling_kernel(uint32_t seed, int iterations, float* out) {
  uint32_t a[4][4], b[4][4], x = seed + blockIdx.x * 7919 + threadIdx.x * 104729;
  const auto random = [&] {  // two bf16 in [0.5, 1) with random signs and mantissas
    x = x * 1664525 + 1013904223;
    return (x & 0x807f807fu) | 0x3f003f00u;
  };
  for (int i = 0; i < 16; ++i) a[i / 4][i % 4] = random(), b[i / 4][i % 4] = random();
  float sum[4][8][4] = {};
#pragma unroll 1
  for (int t = 0; t < iterations; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const uint32_t operand[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
        ptx::mma_m16n8k16<bf16>(sum[i][j], a[i], operand, sum[i][j]);
      }
    }
  }
  float total = 0;
  for (auto& row : sum)
    for (auto& atom : row)
      for (float v : atom) total += v;
  if (total == 1e30f) *out = total;  // keeps the work
}

// Register-only fp32 multiply-adds: 8 x 8 sums a thread of random values.
static __global__ void __launch_bounds__(256) fma_ceiling_kernel(uint32_t seed, int iterations, float* out) {
  float a[8], b[8], sum[8][8] = {};
  uint32_t x = seed + blockIdx.x * 7919 + threadIdx.x * 104729;
  const auto random = [&] {
    x = x * 1664525 + 1013904223;
    return static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f;
  };
  for (int i = 0; i < 8; ++i) a[i] = random(), b[i] = random();
#pragma unroll 1
  for (int t = 0; t < iterations; ++t) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
    }
  }
  float total = 0;
  for (auto& row : sum)
    for (float v : row) total += v;
  if (total == 1e30f) *out = total;
}

// flops: bf16 products through mma.sync, or fp32 ones (f32).
inline Policy compute_ceiling(ElementType type) {
  DeviceInfo device;
  require(device_info(device));
  const auto sink = std::make_shared<DeviceBuffer>(4);
  const bool tensor = type != ElementType::f32;
  const int blocks = device.sms * (tensor ? 1 : 2), iterations = tensor ? 4096 : 8192;
  Policy p;
  p.sample.name = tensor ? "mma.sync ceiling" : "fp32 FMA ceiling";
  p.sample.role = Role::ceiling;
  p.sample.flops = 1.0 * blocks * iterations * (tensor ? 2.0 * 16 * 8 * 16 * 32 * 8 : 2.0 * 64 * 256);
  p.run = [=](cudaStream_t s) {
    require(launch(tensor ? &mma_ceiling_kernel : &fma_ceiling_kernel, dim3(static_cast<unsigned>(blocks)), dim3(256),
                   0, s, 1u, iterations, sink->as<float>()));
  };
  return p;
}

// bytes: read and written by cudaMemcpy, device to device, of 512 MiB.
inline constexpr size_t kCeilingBytes = size_t{512} << 20;
inline Policy copy_ceiling() {
  static const auto buffers = [] {
    auto made = std::make_shared<std::pair<DeviceBuffer, DeviceBuffer>>(kCeilingBytes, kCeilingBytes);
    fill_random(made->first, 1);
    return made;
  }();
  Policy p;
  p.sample.name = "copy ceiling";
  p.sample.role = Role::ceiling;
  p.sample.bytes = 2.0 * kCeilingBytes;
  p.run = [from = buffers](cudaStream_t s) {
    require_success(
        cudaMemcpyAsync(from->second.data(), from->first.data(), kCeilingBytes, cudaMemcpyDeviceToDevice, s),
        "cudaMemcpyAsync");
  };
  return p;
}

// ---- a plain read ----

struct alignas(16) ReadWords {
  uint32_t w[4];
};
// Each warp writes the exclusive or of the words that it read.
static __global__ void __launch_bounds__(256)
    read_kernel(const ReadWords* words, int64_t count, const ReadWords* more, int64_t count_more, uint32_t* out) {
  constexpr int kAtOnce = 8;
  const int64_t first = blockIdx.x * int64_t{blockDim.x} + threadIdx.x, step = int64_t{gridDim.x} * blockDim.x;
  uint32_t all = 0;
  const auto read = [&](const ReadWords* from, int64_t n) {
    const auto add = [&](const ReadWords& x) { all ^= x.w[0] ^ x.w[1] ^ x.w[2] ^ x.w[3]; };
    int64_t i = first;
    for (; i + (kAtOnce - 1) * step < n; i += kAtOnce * step) {
      ReadWords x[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) x[j] = from[i + j * step];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) add(x[j]);
    }
    for (; i < n; i += step) add(from[i]);
  };
  read(words, count), read(more, count_more);
#pragma unroll
  for (int bits = 16; bits > 0; bits /= 2) all ^= ptx::shfl_bfly(all, bits);
  if (threadIdx.x % 32 == 0) out[first / 32] = all;
}

// Reads two buffers of whole 16-byte vectors once; judged by the exclusive or of their words, `expected`.
inline Policy read_peer(const std::string& name, const DeviceBuffer& buffer, const DeviceBuffer& more,
                        uint32_t expected) {
  DeviceInfo device;
  require(device_info(device));
  const unsigned blocks = static_cast<unsigned>(device.sms) * 8;
  const auto out = std::make_shared<DeviceBuffer>(size_t{blocks} * 8 * sizeof(uint32_t));
  Policy p;
  p.sample.name = name, p.sample.role = Role::peer;
  p.sample.requested = p.sample.realised = {{"reads", "once"}, {"blocks", std::to_string(blocks)}};
  p.sample.bytes = static_cast<double>(buffer.size() + more.size());
  p.run = [=, from = buffer.as<ReadWords>(), count = static_cast<int64_t>(buffer.size() / 16),
           from_more = more.as<ReadWords>(), count_more = static_cast<int64_t>(more.size() / 16)](cudaStream_t s) {
    require(
        launch(&read_kernel, dim3(blocks), dim3(256), 0, s, from, count, from_more, count_more, out->as<uint32_t>()));
  };
  p.poison = [out] { require_success(cudaMemset(out->data(), kPoison, out->size()), "cudaMemset"); };
  p.judge = [out, expected] {
    std::vector<uint32_t> words(out->size() / sizeof(uint32_t));
    out->download(words.data());
    uint32_t all = 0;
    for (const uint32_t word : words) all ^= word;
    return Judgement{static_cast<int64_t>(words.size()), all == expected ? 0.0 : 1.0, 0,
                     all == expected ? "" : "the exclusive or of what was read is wrong"};
  };
  return p;
}
inline uint32_t exclusive_or(const void* data, size_t bytes) {
  uint32_t all = 0;
  for (size_t i = 0; i + sizeof all <= bytes; i += sizeof all) {
    uint32_t word;
    std::memcpy(&word, static_cast<const unsigned char*>(data) + i, sizeof word);
    all ^= word;
  }
  return all;
}

}  // namespace grout::compare
