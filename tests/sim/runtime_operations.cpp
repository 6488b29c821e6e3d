// What the operations of the simulated device give: of warps, cp.async, matrix instructions, atomics, and shared memory.
#include <algorithm>
#include <cmath>

#include "tests/sim/device_test.h"

namespace grout::sim {
namespace {

using namespace grout::test;

// ---- Warps ----

template <class T>
__global__ void shuffles(T* out, int operand, int width, unsigned mask) {
  const unsigned lane = threadIdx.x;
  if (!(mask >> lane & 1)) return;
  const T mine = T(1000 + lane);
  out[lane] = __shfl_sync(mask, mine, operand, width);
  out[32 + lane] = __shfl_up_sync(mask, mine, unsigned(operand), width);
  out[64 + lane] = __shfl_down_sync(mask, mine, unsigned(operand), width);
  out[96 + lane] = __shfl_xor_sync(mask, mine, operand, width);
}

// The CUDA programming guide: a segment of `width` lanes behaves like a warp of its own; out of range gives the lane's own.
template <class T>
void check_shuffles(int operand, int width) {
  std::vector<T> out(128, T(-1));
  run(shuffles<T>, 1, 32, 0, out.data(), operand, width, ~0u);
  for (int lane = 0; lane < 32; ++lane) {
    const int first = lane / width * width, position = lane - first;
    const int sources[] = {first + operand % width, position >= operand ? lane - operand : lane,
                           position + operand < width ? lane + operand : lane,
                           // up to the end of its own segment: earlier segments may be read
                           (lane ^ operand) < first + width ? lane ^ operand : lane};
    for (int mode = 0; mode < 4; ++mode) {
      EXPECT_EQ(out[mode * 32 + lane], T(1000 + sources[mode]))
          << mode << " " << lane << " " << operand << " " << width;
    }
  }
}

TEST_F(SimTest, Shuffles) {
  for (int width : {1, 2, 4, 8, 16, 32}) {
    for (int operand : {0, 1, 2, 3, 5, 8, 16, 31}) {
      check_shuffles<int>(operand, width);
      check_shuffles<double>(operand, width);
    }
  }
  // Lanes that have exited leave the mask that the others give.
  std::vector<unsigned> out(128, 7);
  in_every_mode([&] {
    run(shuffles<unsigned>, 1, 32, 0, out.data(), 1, 2, 0x0000ffffu);
    EXPECT_EQ(out[14], 1015u);
    EXPECT_EQ(out[16], 7u);
  });
}

__global__ void votes(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x >= 32 && lane >= 20) return;  // exited lanes give nothing, and are not waited for
  unsigned* mine = out + threadIdx.x * 5;
  mine[0] = __ballot_sync(~0u, lane % 3 == 0);
  mine[1] = unsigned(__any_sync(~0u, lane == 19));
  mine[2] = unsigned(__all_sync(~0u, lane < 20));
  const unsigned half = lane < 10 ? 0x3ffu : ~0x3ffu;
  mine[3] = __ballot_sync(half, 1);
  mine[4] = unsigned(__all_sync(half, lane < 10)) + 2 * unsigned(__any_sync(half, lane < 10));
}

TEST_F(SimTest, Votes) {
  in_every_mode([&] {
    std::vector<unsigned> out(64 * 5);
    run(votes, 1, 64, 0, out.data());
    for (unsigned thread = 0; thread < 52; ++thread) {
      const unsigned lane = thread % 32, live = thread < 32 ? ~0u : 0xfffffu;
      EXPECT_EQ(out[thread * 5], 0x49249249u & live);
      EXPECT_EQ(out[thread * 5 + 1], 1u);
      EXPECT_EQ(out[thread * 5 + 2], thread < 32 ? 0u : 1u);
      EXPECT_EQ(out[thread * 5 + 3], (lane < 10 ? 0x3ffu : ~0x3ffu) & live);
      EXPECT_EQ(out[thread * 5 + 4], lane < 10 ? 3u : 0u);
    }
  });
}

// ---- cp.async ----

__global__ void copy_groups(const unsigned* in, unsigned* seen) {
  auto* s = static_cast<unsigned*>(dynamic_shared());
  const auto look = [&](unsigned step) { std::copy_n(s, 12, seen + 12 * step); };
  const auto copy = [&](unsigned word, unsigned bytes, unsigned from) {
    cp_async(shared_address(s + word), in + word, bytes, from);
  };
  look(0);
  copy(0, 16, 16);
  cp_async_commit();
  copy(4, 8, 8);
  cp_async_commit();
  cp_async_commit();  // an empty group
  copy(6, 4, 4);      // never committed
  copy(8, 16, 6);     // zero-filled from byte 6
  look(1);
  cp_async_wait_group(2);
  look(2);
  cp_async_wait_group(0);
  look(3);
  cp_async_wait_all();
  look(4);
}

TEST_F(SimTest, AsynchronousCopies) {
  constexpr unsigned kPoison = ~0u;
  in_every_mode([&] {
    alignas(16) unsigned in[12];
    for (unsigned i = 0; i < 12; ++i) in[i] = (i + 1) * 0x01010101u;
    std::vector<unsigned> seen(60);
    run(copy_groups, 1, 1, 48, in, seen.data());
    const bool early = options().asynchrony == Asynchrony::early;
    for (unsigned step = 0; step < 5; ++step) {
      for (unsigned i = 0; i < 12; ++i) {
        const unsigned done = i < 4 ? 2 : i < 6 ? 3 : 4;  // the first step that must see it
        unsigned value = in[i];
        if (i == 7) value = kPoison;
        if (i == 9) value = in[9] & 0xffff;
        if (i > 9) value = 0;
        EXPECT_EQ(seen[step * 12 + i], step >= (early ? 1 : done) ? value : kPoison) << step << " " << i;
      }
    }
    EXPECT_EQ(statistics().cp_async_4, 1u);
    EXPECT_EQ(statistics().cp_async_8, 1u);
    EXPECT_EQ(statistics().cp_async_16, 2u);
    EXPECT_EQ(statistics().cp_async_filled, 1u);
  });
}

__global__ void bad_copy(unsigned bytes, unsigned src_bytes, unsigned offset, const char* src) {
  cp_async(shared_address(dynamic_shared()) + offset, src, bytes, src_bytes);
  cp_async_wait_all();
}

TEST_F(SimTest, ImpossibleCopiesAreReported) {
  alignas(16) static const char source[32] = {};
  const auto text = [&](unsigned bytes, unsigned src_bytes, unsigned offset, const char* src) {
    return std::string(report_of([&] { run(bad_copy, 1, 1, 64, bytes, src_bytes, offset, src); }).what());
  };
  EXPECT_NE(text(12, 12, 0, source).find("cp.async of 12 bytes. Rule: cp.async copies 4, 8 or 16 bytes"),
            std::string::npos);
  EXPECT_NE(text(8, 9, 0, source).find("cp.async of 8 bytes with a source size of 9"), std::string::npos);
  EXPECT_NE(text(16, 16, 8, source).find("cp.async at shared offset 8"), std::string::npos);
  EXPECT_NE(text(16, 16, 64, source).find("cp.async at shared offset 64, 16 bytes, of the block's 64"),
            std::string::npos);
  EXPECT_NE(text(16, 16, unsigned(-16), source).find("cp.async at shared offset -16"), std::string::npos);
  EXPECT_NE(text(8, 8, 0, source + 4).find("cp.async of 8 bytes from global address 0x"), std::string::npos);
}

// ---- Matrix instructions: exact small cases (their full tests are with common/ptx.cuh) ----

__global__ void load_matrices(uint32_t* out, int count, bool trans) {
  auto* s = static_cast<uint16_t*>(dynamic_shared());
  for (unsigned i = threadIdx.x; i < 256; i += 32) s[i] = uint16_t(i);
  __syncthreads();
  uint32_t r[4] = {};
  // Addresses of lanes that the instruction does not use are not looked at.
  const bool used = threadIdx.x < 8 * unsigned(count);
  ldmatrix(r, count, trans, used ? shared_address(s) + threadIdx.x * 16 : 3);
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = r[i];
}

TEST_F(SimTest, Ldmatrix) {
  for (int count : {1, 2, 4}) {
    for (bool trans : {false, true}) {
      std::vector<uint32_t> out(128);
      run(load_matrices, 1, 32, 512, out.data(), count, trans);
      EXPECT_EQ(statistics().ldmatrix, 1u);
      for (unsigned lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 4; ++i) {
          const unsigned row = lane / 4, column = lane % 4 * 2;
          const auto element = [&](unsigned r, unsigned c) { return i * 64 + (trans ? c * 8 + r : r * 8 + c); };
          const uint32_t expected = i < count ? element(row, column) | element(row, column + 1) << 16 : 0;
          EXPECT_EQ(out[lane * 4 + i], expected) << lane << " " << i;
        }
      }
    }
  }
}

__global__ void multiply(const uint32_t* a, const uint32_t* b, float* d, bool is_bf16) {
  uint32_t x[4], y[2];
  float z[4];
  for (int i = 0; i < 4; ++i) x[i] = a[threadIdx.x * 4 + i];
  for (int i = 0; i < 2; ++i) y[i] = b[threadIdx.x * 2 + i];
  for (int i = 0; i < 4; ++i) z[i] = d[threadIdx.x * 4 + i];
  mma_m16n8k16(z, x, y, z, is_bf16);
  for (int i = 0; i < 4; ++i) d[threadIdx.x * 4 + i] = z[i];
}

// Small integers, exact in both types: bits by hand for 0..15.
uint32_t half_bits(unsigned value, bool is_bf16) {
  if (value == 0) return 0;
  const int exponent = 31 - __clz(int(value));
  return is_bf16 ? uint32_t(127 + exponent) << 7 | (value << (7 - exponent) & 0x7f)
                 : uint32_t(15 + exponent) << 10 | (value << (10 - exponent) & 0x3ff);
}

TEST_F(SimTest, MmaIsExactOnIntegers) {
  const auto left = [](unsigned m, unsigned k) { return (m * 5 + k * 3) % 13; };
  const auto right = [](unsigned k, unsigned n) { return (k * 7 + n * 2) % 11; };
  for (bool is_bf16 : {true, false}) {
    std::vector<uint32_t> a(128), b(64);
    std::vector<float> d(128);
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned group = lane / 4, pair = lane % 4 * 2;
      for (unsigned i = 0; i < 4; ++i) {
        for (unsigned half = 0; half < 2; ++half) {
          const unsigned m = group + i % 2 * 8, k = pair + i / 2 * 8 + half;
          a[lane * 4 + i] |= half_bits(left(m, k), is_bf16) << 16 * half;
          if (i < 2) b[lane * 2 + i] |= half_bits(right(pair + i * 8 + half, group), is_bf16) << 16 * half;
        }
        d[lane * 4 + i] = float(100 * lane + i);
      }
    }
    run(multiply, 1, 32, 0, a.data(), b.data(), d.data(), is_bf16);
    EXPECT_EQ(statistics().mma, 1u);
    for (unsigned lane = 0; lane < 32; ++lane) {
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned m = lane / 4 + i / 2 * 8, n = lane % 4 * 2 + i % 2;
        float expected = float(100 * lane + i);
        for (unsigned k = 0; k < 16; ++k) expected += float(left(m, k) * right(k, n));
        EXPECT_EQ(d[lane * 4 + i], expected) << lane << " " << i << " " << is_bf16;
      }
    }
  }
}

// out[p] = p * 1 for every 16-bit pattern p: 16 of them in column 0 of A, 1 in element (0, 0) of B.
__global__ void convert_patterns(float* out, uint32_t one, bool is_bf16) {
  const uint32_t row = threadIdx.x / 4, column = threadIdx.x % 4;
  for (uint32_t base = 0; base < 0x10000; base += 16) {
    const uint32_t a[4] = {column ? 0 : base + row, column ? 0 : base + row + 8, 0, 0};
    const uint32_t b[2] = {threadIdx.x ? 0 : one, 0};
    float d[4] = {};
    mma_m16n8k16(d, a, b, d, is_bf16);
    if (column) continue;
    out[base + row] = d[0];
    out[base + row + 8] = d[2];
  }
}

TEST_F(SimTest, MmaConvertsEveryPattern) {
  for (bool is_bf16 : {true, false}) {
    std::vector<float> out(0x10000);
    run(convert_patterns, 1, 32, 0, out.data(), half_bits(1, is_bf16), is_bf16);
    const int digits = is_bf16 ? 7 : 10, bias = is_bf16 ? 127 : 15;
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const int exponent = int(bits & 0x7fff) >> digits;
      const double fraction = std::ldexp(double(bits & ((1u << digits) - 1)), -digits);
      double expected = exponent ? std::ldexp(1 + fraction, exponent - bias) : std::ldexp(fraction, 1 - bias);
      if (exponent == 2 * bias + 1) expected = fraction > 0 ? NAN : INFINITY;
      if (bits & 0x8000) expected = -expected;
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(out[bits])) << bits;
      } else {
        EXPECT_EQ(double(out[bits]), expected) << bits << (is_bf16 ? " bf16" : " f16");
      }
    }
  }
}

// ---- Memory ----

__global__ void look_at_shared(unsigned* bad, unsigned bytes) {
  auto* s = static_cast<unsigned char*>(dynamic_shared());
  if (reinterpret_cast<std::uintptr_t>(s) % 1024) atomicAdd(bad, 1u);
  for (unsigned i = 0; i < bytes; ++i) {
    if (s[i] != 0xff) atomicAdd(bad, 1u);
    s[i] = 0;
  }
}

TEST_F(SimTest, SharedMemoryIsPoisonInEveryBlock) {
  for (unsigned bytes : {0u, 1u, 1000u, 227u << 10}) {
    unsigned bad = 0;
    run(look_at_shared, sanitizer() == Sanitizer::thread ? 4 : 40, 1, bytes, &bad, bytes);
    EXPECT_EQ(bad, 0u);
  }
}

__global__ void stray_store(int offset) {
  static_cast<unsigned char*>(dynamic_shared())[offset] = 1;
}

TEST_F(SimTest, StrayStoresAreReported) {
  if (sanitizer() == Sanitizer::address) GTEST_SKIP() << "AddressSanitizer ends the program: see the mutants";
  for (const auto& [offset, bytes] : {std::pair{100, 100}, {-1, 100}, {1000, 100}, {0, 0}, {-1024, 0}}) {
    const std::string text = report_of([&, o = offset, b = bytes] { run(stray_store, 1, 1, size_t(b), o); }).what();
    EXPECT_NE(
        text.find("shared offset " + std::to_string(offset) + ", outside of the block's " + std::to_string(bytes)),
        std::string::npos)
        << text;
  }
}

__global__ void count_up(unsigned* sums, float* fsum) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(sums, i);
  atomicMax(sums + 1, i);
  atomicMin(reinterpret_cast<int*>(sums + 2), -int(i));
  atomicOr(sums + 3, 1u << i % 32);
  atomicAnd(sums + 4, ~(1u << i % 32));
  atomicXor(sums + 5, 1u << i % 32);
  for (unsigned old = 0, seen; (seen = atomicCAS(sums + 6, old, old + 2)) != old;) old = seen;
  atomicAdd(fsum, 0.5f);
  atomicExch(sums + 7, i);
}

TEST_F(SimTest, Atomics) {
  options().workers = 4;
  const unsigned blocks = sanitizer() == Sanitizer::thread ? 4 : 64, n = blocks * 64;
  unsigned sums[8] = {0, 0, 0, 0, ~0u, 0, 0, ~0u};
  float fsum = 0;
  run(count_up, blocks, 64, 0, sums, &fsum);
  EXPECT_EQ(sums[0], n * (n - 1) / 2);
  EXPECT_EQ(sums[1], n - 1);
  EXPECT_EQ(int(sums[2]), 1 - int(n));
  EXPECT_EQ(sums[3], ~0u);
  EXPECT_EQ(sums[4], 0u);
  EXPECT_EQ(sums[5], 0u);
  EXPECT_EQ(sums[6], 2 * n);
  EXPECT_EQ(fsum, 0.5f * float(n));
  EXPECT_LT(sums[7], n);
}

TEST(Scalars, FunnelShifts) {
  EXPECT_EQ(__funnelshift_r(0x44332211u, 0x88776655u, 8), 0x55443322u);
  EXPECT_EQ(__funnelshift_r(0x44332211u, 0x88776655u, 32), 0x44332211u);
  EXPECT_EQ(__funnelshift_l(0x44332211u, 0x88776655u, 8), 0x77665544u);
  EXPECT_EQ(__funnelshift_l(0x44332211u, 0x88776655u, 0), 0x88776655u);
}

}  // namespace
}  // namespace grout::sim
