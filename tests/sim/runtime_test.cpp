// The simulated device itself: who runs when, what its operations give, what its reports say, its runtime functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <tuple>
#include <vector>

#include "common/sim/sim.h"

namespace grout::sim {
namespace {

template <class... Parameters, class... Arguments>
void run(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, Arguments... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> values;
  } call{kernel, {Parameters(arguments)...}};
  const auto body = [](void* context) {
    const Call& c = *static_cast<Call*>(context);
    std::apply(c.kernel, c.values);
  };
  launch(grid, block, shared_bytes, body, &call, reinterpret_cast<const void*>(kernel), "test_kernel");
}

class SimTest : public testing::Test {
 protected:
  void SetUp() override { options().workers = 1; }
  void TearDown() override { options() = saved_; }
  /// Calls f under every schedule, late and early.
  template <class F>
  void in_every_mode(F f) {
    for (Asynchrony asynchrony : kAsynchronies) {
      for (Schedule schedule : kSchedules) {
        SCOPED_TRACE(std::string(name(asynchrony)) + " " + name(schedule));
        options().schedule = schedule;
        options().asynchrony = asynchrony;
        f();
      }
    }
  }
  template <class F>
  Report report_of(F f) {
    try {
      f();
    } catch (const Report& report) {
      return report;
    }
    ADD_FAILURE() << "no report";
    return Report(Report::Kind::misuse, "");
  }

 private:
  Options saved_ = options();
};

// How reports name a line of this file.
std::string here(unsigned line, const char* kernel) {
  return std::string(Loc::current().file_name()) + ":" + std::to_string(line) + " (" + kernel + ")";
}

// ---- Launches and coordinates ----

__global__ void record_coordinates(unsigned* counts, unsigned* wrong) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  if (threadIdx.x >= blockDim.x || threadIdx.y >= blockDim.y || threadIdx.z >= blockDim.z) atomicAdd(wrong, 1u);
  if (blockIdx.x >= gridDim.x || blockIdx.y >= gridDim.y || blockIdx.z >= gridDim.z) atomicAdd(wrong, 1u);
  const uint3 before = threadIdx;
  __syncthreads();
  if (std::memcmp(&before, &threadIdx, sizeof before) != 0) atomicAdd(wrong, 1u);
  atomicAdd(counts + block * blockDim.x * blockDim.y * blockDim.z + thread, 1u);
}

TEST_F(SimTest, EveryThreadOfEveryBlockRunsOnce) {
  const std::pair<dim3, dim3> shapes[] = {
      {{1}, {1}}, {{3, 2, 2}, {5, 3, 2}}, {{2}, {1024}}, {{1, 7}, {4, 1, 9}}, {{1, 1, 3}, {33}}};
  for (const auto& [grid, block] : shapes) {
    in_every_mode([&, grid = grid, block = block] {
      for (int workers : {1, 3}) {
        options().workers = workers;
        const unsigned size = grid.x * grid.y * grid.z * block.x * block.y * block.z;
        if (sanitizer() == Sanitizer::thread && size > 128) continue;
        std::vector<unsigned> counts(size);
        unsigned wrong = 0;
        run(record_coordinates, grid, block, 0, counts.data(), &wrong);
        EXPECT_EQ(wrong, 0u);
        EXPECT_EQ(std::count(counts.begin(), counts.end(), 1u), size);
        EXPECT_EQ(statistics().threads, size);
      }
    });
  }
}

TEST_F(SimTest, ImpossibleLaunchesAreRefused) {
  unsigned* none = nullptr;
  const auto refused = [&](dim3 grid, dim3 block, size_t shared_bytes) {
    const Report report = report_of([&] { run(record_coordinates, grid, block, shared_bytes, none, none); });
    EXPECT_EQ(report.kind(), Report::Kind::misuse);
    return std::string(report.what());
  };
  EXPECT_EQ(refused(1, 1025, 0),
            "misuse: launch of test_kernel with a block of 1025 x 1 x 1 threads. Rule: a block has 1 to "
            "1024 threads, at most 64 of them in z.");
  EXPECT_NE(refused(1, dim3(1, 1, 65), 0).find("1 x 1 x 65"), std::string::npos);
  EXPECT_NE(refused(1, 0, 0).find("0 x 1 x 1 threads"), std::string::npos);
  EXPECT_NE(refused(0, 1, 0).find("0 x 1 x 1 blocks"), std::string::npos);
  EXPECT_NE(refused(dim3(1, 65536), 1, 0).find("1 x 65536 x 1 blocks"), std::string::npos);
  EXPECT_NE(refused(1, 1, (227 << 10) + 1).find("232449 bytes"), std::string::npos);
}

__global__ void nothing() {}
__global__ void nothing_else() {}

TEST_F(SimTest, LaunchedKernelsAreRemembered) {
  run(nothing, 1, 1, 0);
  EXPECT_TRUE(launched_kernels().count(reinterpret_cast<const void*>(nothing)));
  EXPECT_FALSE(launched_kernels().count(reinterpret_cast<const void*>(nothing_else)));
}

TEST_F(SimTest, WarpOperationsOutsideAKernelNameThemselves) {
  uint32_t r[4], a[4] = {}, b[2] = {};
  float d[4] = {};
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"bar.sync", [] { __syncthreads(); }},
      {"bar.red", [] { __syncthreads_count(1); }},
      {"bar.arrive", [] { bar_arrive(1, 32); }},
      {"__syncwarp", [] { __syncwarp(); }},
      {"__shfl_xor_sync", [] { __shfl_xor_sync(~0u, 1, 1); }},
      {"__ballot_sync", [] { __ballot_sync(~0u, 1); }},
      {"dynamic_shared", [] { dynamic_shared(); }},
      {"shared_address", [] { shared_address(nullptr); }},
      {"cp.async", [] { cp_async(0, nullptr, 16, 16); }},
      {"cp.async.commit_group", [] { cp_async_commit(); }},
      {"cp.async.wait_group", [] { cp_async_wait_group(0); }},
      {"cp.async.wait_all", [] { cp_async_wait_all(); }},
      {"ldmatrix", [&] { ldmatrix(r, 4, false, 0); }},
      {"mma.sync", [&] { mma_m16n8k16(d, a, b, d, true); }},
      {"__threadfence", [] { __threadfence(); }},
  };
  for (const auto& [operation, call] : calls) {
    try {
      call();
      ADD_FAILURE() << operation;
    } catch (const std::logic_error& error) {
      EXPECT_EQ(std::string(error.what()).find(std::string(operation) + " was called outside of a kernel"), 0u)
          << error.what();
    }
  }
}

// ---- Schedules ----

__global__ void record_order(unsigned* order, unsigned* count) {
  order[atomicAdd(count, 1u)] = blockIdx.x * blockDim.x + threadIdx.x;
}

std::vector<unsigned> order_of(Schedule schedule, uint64_t seed, unsigned blocks, unsigned threads) {
  options().schedule = schedule;
  options().seed = seed;
  std::vector<unsigned> order(blocks * threads);
  unsigned count = 0;
  run(record_order, blocks, threads, 0, order.data(), &count);
  return order;
}

TEST_F(SimTest, SchedulesOrderThreads) {
  std::vector<unsigned> ascending(192), descending(192);
  for (unsigned i = 0; i < 192; ++i) {
    ascending[i] = i;
    descending[i] = 191 - i;
  }
  EXPECT_EQ(order_of(Schedule::ascending, 1, 2, 96), ascending);
  EXPECT_EQ(order_of(Schedule::descending, 1, 2, 96), descending);

  const auto random = order_of(Schedule::random, 1, 2, 96);
  EXPECT_EQ(random, order_of(Schedule::random, 1, 2, 96));
  EXPECT_NE(random, order_of(Schedule::random, 2, 2, 96));
  EXPECT_TRUE(std::is_permutation(random.begin(), random.end(), ascending.begin()));

  bool other_first_warp = false;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto greedy = order_of(Schedule::warp_greedy, seed, 1, 96);
    for (unsigned i = 0; i < 96; ++i) EXPECT_EQ(greedy[i] / 32, greedy[i / 32 * 32] / 32) << "a warp is interrupted";
    other_first_warp |= greedy[0] / 32 != 0;
  }
  EXPECT_TRUE(other_first_warp);

  const auto robin = order_of(Schedule::round_robin, 1, 1, 96);
  for (unsigned i = 0; i + 1 < 96; ++i) EXPECT_EQ((robin[i] / 32 + 1) % 3, robin[i + 1] / 32) << i;
}

TEST_F(SimTest, ManyBlocksAreVisitedOnceInEveryOrder) {
  if (sanitizer() == Sanitizer::thread) GTEST_SKIP() << "too many blocks";
  for (Schedule schedule : kSchedules) {
    for (unsigned blocks : {1u, 2u, 7u, 60u, 1000u}) {
      auto order = order_of(schedule, 3, blocks, 1);
      if (schedule == Schedule::random && blocks > 2) {
        EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
      }
      std::sort(order.begin(), order.end());
      for (unsigned i = 0; i < blocks; ++i) EXPECT_EQ(order[i], i);
    }
  }
}

// ---- Barriers ----

__global__ void prefix_sum(const unsigned* in, unsigned* out) {
  auto* s = static_cast<unsigned*>(dynamic_shared());
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (unsigned step = 1; step < blockDim.x; step *= 2) {
    const unsigned left = threadIdx.x >= step ? s[threadIdx.x - step] : 0;
    __syncthreads();
    s[threadIdx.x] += left;
    __syncthreads();
  }
  out[threadIdx.x] = s[threadIdx.x];
}

TEST_F(SimTest, BlockBarriers) {
  for (unsigned threads : {1u, 31u, 64u, 70u}) {  // partial warps too
    in_every_mode([&] {
      std::vector<unsigned> in(threads), out(threads);
      for (unsigned i = 0; i < threads; ++i) in[i] = i * i + 1;
      run(prefix_sum, 1, threads, threads * 4, in.data(), out.data());
      unsigned sum = 0;
      for (unsigned i = 0; i < threads; ++i) EXPECT_EQ(out[i], sum += in[i]);
    });
  }
}

// Warp 0 fills two slots in turn, warps 1 and 2 drain them: full barriers 1 and 2, empty barriers 3 and 4.
__global__ void named_ring(unsigned* out, unsigned rounds) {
  auto* s = static_cast<unsigned*>(dynamic_shared());
  unsigned sum = 0;
  for (unsigned i = 0; i < rounds; ++i) {
    const unsigned slot = i % 2;
    if (threadIdx.x < 32) {
      if (i >= 2) bar_sync(3 + slot, 96);
      s[slot * 32 + threadIdx.x] = i * 100 + threadIdx.x;
      bar_arrive(1 + slot, 96);
    } else {
      bar_sync(1 + slot, 96);
      sum += s[slot * 32 + threadIdx.x % 32];
      if (i + 2 < rounds) bar_arrive(3 + slot, 96);
    }
  }
  out[threadIdx.x] = sum;
}

TEST_F(SimTest, NamedBarriers) {
  in_every_mode([&] {
    std::vector<unsigned> out(96);
    run(named_ring, 1, 96, 64 * 4, out.data(), 9);
    for (unsigned i = 0; i < 96; ++i) EXPECT_EQ(out[i], i < 32 ? 0 : 9 * 8 / 2 * 100 + 9 * (i % 32));
    EXPECT_EQ(statistics().barriers, 9u + 7u);
  });
}

__global__ void reductions(int* out) {
  for (int round = 0; round < 3; ++round) {
    const int count = __syncthreads_count(int(threadIdx.x) % 3 == round);
    const int any = __syncthreads_or(int(threadIdx.x) == round);
    const int none = __syncthreads_or(0);
    const int all = __syncthreads_and(1);
    const int not_all = __syncthreads_and(int(threadIdx.x) != round);
    out[threadIdx.x] += count + 1000 * any + 10000 * none + 100000 * all + 1000000 * not_all;
  }
}

TEST_F(SimTest, BarrierReductions) {
  in_every_mode([&] {
    std::vector<int> out(70);
    run(reductions, 1, 70, 0, out.data());
    for (int value : out) EXPECT_EQ(value, 70 + 3 * 1000 + 3 * 100000);
  });
}

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

// ---- Reports ----

constexpr unsigned kDeadlockLine = __LINE__ + 3;
__global__ void deadlocked() {
  if (threadIdx.x < 64) {
    bar_sync(1, 96);
  } else if (threadIdx.x < 96) {
    bar_sync(2, 128);
  } else if (threadIdx.x == 97) {
    __syncwarp(0x6u);  // lanes 1 and 2: one more than comes
  } else if (threadIdx.x == 98) {
    __syncwarp(0xcu);
  } else if (threadIdx.x == 99) {
    __syncwarp(0xau);
  }
}

TEST_F(SimTest, DeadlockSaysWhoWaitsWhereForWhom) {
  in_every_mode([&] {
    const Report report = report_of([] { run(deadlocked, 1, 128, 0); });
    EXPECT_EQ(report.kind(), Report::Kind::deadlock);
    const std::string text = report.what();
    const std::string parts[] = {
        "deadlock in kernel test_kernel, block (0,0,0): 99 of 128 threads wait and none can run: threads ",
        "0-63 wait in bar.sync 1 at " + here(kDeadlockLine, "deadlocked") + " where 64 of 96 threads have arrived",
        "64-95 wait in bar.sync 2 at " + here(kDeadlockLine + 2, "deadlocked") +
            " where 32 of 128 threads have arrived",
        "97 wait in __syncwarp at " + here(kDeadlockLine + 4, "deadlocked") + " for lanes 2 of warp 3",
        "threads 96,100-127 have exited. Rule: every thread that a barrier or a collective counts on comes to it"};
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
    }
    EXPECT_EQ(text.find('\n'), std::string::npos);
  });
}

constexpr unsigned kMisuseLine = __LINE__ + 2;
__global__ void misused() {
  if (threadIdx.y == 5 && threadIdx.x == 0 && blockIdx.y == 1) bar_sync(17, 0);
}

TEST_F(SimTest, MisuseNamesThreadPlaceAndRule) {
  const Report report = report_of([] { run(misused, dim3(1, 2, 1), dim3(8, 8), 0); });
  EXPECT_EQ(report.kind(), Report::Kind::misuse);
  EXPECT_EQ(report.what(), "misuse in kernel test_kernel, block (0,1,0), thread 40 (warp 1, lane 8), at " +
                               here(kMisuseLine, "misused") +
                               ": bar.sync on barrier 17. Rule: a block has the barriers 0 to 15.");
}

constexpr unsigned kDivergenceLine = __LINE__ + 3;
__global__ void diverged() {
  if (threadIdx.x < 16) {
    __shfl_sync(~0u, 1, 0);
  } else {
    __ballot_sync(~0u, 1);
  }
}

TEST_F(SimTest, DivergenceNamesBothSides) {
  const Report report = report_of([] { run(diverged, 1, 32, 0); });
  EXPECT_EQ(report.kind(), Report::Kind::divergence);
  EXPECT_EQ(report.what(),
            "divergence in kernel test_kernel, block (0,0,0), thread 16 (warp 0, lane 16), at " +
                here(kDivergenceLine + 2, "diverged") +
                ": the lane executes __ballot_sync with mask 0xffffffff while lanes 0-15 of its warp wait for it in "
                "__shfl_sync with mask 0xffffffff at " +
                here(kDivergenceLine, "diverged") +
                ". Rule: every lane named in a mask executes the same operation with the same mask.");
}

__global__ void fails_in_block(unsigned first) {
  __syncthreads();
  if (blockIdx.x >= first && threadIdx.x == 3) bar_sync(1, 33);
  __syncthreads();
}

TEST_F(SimTest, TheFirstBlockThatFailsIsReportedWhateverTheWorkers) {
  const unsigned blocks = sanitizer() == Sanitizer::thread ? 6 : 60;
  for (int workers : {1, 2, 5}) {
    options().workers = workers;
    for (unsigned first : {0u, 2u, blocks - 1}) {
      const std::string text = report_of([&] { run(fails_in_block, blocks, 32, 0, first); }).what();
      EXPECT_NE(text.find("block (" + std::to_string(first) + ",0,0)"), std::string::npos) << text;
    }
    EXPECT_NO_THROW(run(fails_in_block, blocks, 32, 0, blocks)) << "a report spoils later launches";
  }
}

TEST_F(SimTest, HostThreadsLaunchAtOnce) {
  std::vector<std::thread> hosts;
  std::atomic<unsigned> wrong = 0;
  for (unsigned host = 0; host < 4; ++host) {
    hosts.emplace_back([&, host] {
      std::vector<unsigned> in(40 + host, host), out(40 + host);
      for (int round = 0; round < 3; ++round) {
        run(prefix_sum, 1, unsigned(in.size()), in.size() * 4, in.data(), out.data());
        for (unsigned i = 0; i < in.size(); ++i) wrong += out[i] != host * (i + 1);
        wrong += statistics().threads != in.size();
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(wrong, 0u);
}

__global__ void throws() {
  throw std::runtime_error("no such thing on a device");
}
__global__ void launches() {
  run(nothing, 1, 1, 0);
}

TEST_F(SimTest, ExceptionsOfAKernelAreReported) {
  EXPECT_NE(std::string(report_of([] { run(throws, 1, 1, 0); }).what()).find("no such thing on a device"),
            std::string::npos);
  EXPECT_NE(std::string(report_of([] { run(launches, 1, 1, 0); }).what()).find("from inside a kernel"),
            std::string::npos);
}

TEST_F(SimTest, StatisticsAreOfTheLastLaunch) {
  run(named_ring, 1, 96, 64 * 4, std::vector<unsigned>(96).data(), 9);
  EXPECT_EQ(statistics().barriers, 16u);
  EXPECT_GT(statistics().switches, 96u);
  run(nothing, 3, 5, 0);
  EXPECT_EQ(statistics().barriers, 0u);
  EXPECT_EQ(statistics().blocks, 3u);
  EXPECT_EQ(statistics().threads, 15u);
}

// ---- Options: read once, so by a process of its own ----

std::string program;

std::string options_with(const std::string& environment) {
  FILE* pipe = popen(("env " + environment + " '" + program + "' --print-options").c_str(), "r");
  char text[512] = {};
  const size_t bytes = pipe ? fread(text, 1, sizeof text - 1, pipe) : 0;
  if (pipe) pclose(pipe);
  return std::string(text, bytes);
}

int print_options() {
  try {
    const Options& o = options();
    std::printf("%s %d %s %d", name(o.schedule), int(o.seed), name(o.asynchrony), o.workers);
    return 0;
  } catch (const std::invalid_argument& error) {
    std::printf("%s", error.what());
    return 2;
  }
}

TEST(Options, ComeFromTheEnvironment) {
  EXPECT_EQ(options_with("-u GROUT_SIM_SCHEDULE -u GROUT_SIM_SEED -u GROUT_SIM_ASYNC -u GROUT_SIM_WORKERS"),
            "ascending 1 late 0");
  EXPECT_EQ(options_with("GROUT_SIM_SCHEDULE=warp_greedy GROUT_SIM_SEED=42 GROUT_SIM_ASYNC=early GROUT_SIM_WORKERS=3"),
            "warp_greedy 42 early 3");
  EXPECT_EQ(options_with("GROUT_SIM_SCHEDULE=greedy"),
            "GROUT_SIM_SCHEDULE=greedy is not one of ascending, descending, random, warp_greedy, round_robin");
  EXPECT_EQ(options_with("GROUT_SIM_ASYNC="), "GROUT_SIM_ASYNC= is not one of late, early");
  EXPECT_EQ(options_with("GROUT_SIM_WORKERS=-1"), "GROUT_SIM_WORKERS=-1 is not a number from 0 up");
  EXPECT_EQ(options_with("GROUT_SIM_SEED=7x"), "GROUT_SIM_SEED=7x is not a number from 0 up");
}

// ---- Runtime functions ----

TEST(Runtime, Memory) {
  for (size_t bytes : {size_t(1), size_t(255), size_t(256), size_t(100001)}) {
    unsigned char* device = nullptr;
    ASSERT_EQ(cudaMalloc(&device, bytes), cudaSuccess);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device) % 256, 0u);
    EXPECT_EQ(std::count(device, device + bytes, 0xff), std::ptrdiff_t(bytes)) << "poison";
    std::vector<unsigned char> in(bytes, 5), out(bytes);
    EXPECT_EQ(cudaMemcpy(device, in.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(out.data(), device, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(in, out);
    EXPECT_EQ(cudaMemset(device, 7, bytes), cudaSuccess);
    EXPECT_EQ(std::count(device, device + bytes, 7), std::ptrdiff_t(bytes));
    EXPECT_EQ(cudaFree(device), cudaSuccess);
    EXPECT_EQ(cudaFree(device), cudaErrorInvalidValue) << "freed twice";
  }
  void* none = &none;
  EXPECT_EQ(cudaMalloc(&none, 0), cudaSuccess);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&none, size_t(1) << 50), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(nullptr, &none, 1, cudaMemcpyDefault), cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST(Runtime, CopiesOfRows) {
  const char in[] = "abc.def.ghi";
  char out[16] = "--------------";
  EXPECT_EQ(cudaMemcpy2D(out, 5, in, 4, 3, 3, cudaMemcpyDefault), cudaSuccess);
  EXPECT_STREQ(out, "abc--def--ghi-");
  EXPECT_EQ(cudaMemcpy2D(out, 2, in, 4, 3, 3, cudaMemcpyDefault), cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST(Runtime, ErrorsAreKeptUntilAsked) {
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidDevice), "invalid device ordinal");
}

TEST(Runtime, StreamsAndEvents) {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr, end = nullptr;
  float milliseconds = -1;
  EXPECT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&start), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&end), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(start, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle) << "not recorded";
  EXPECT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventDestroy(start), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  (void)cudaGetLastError();
}

TEST(Runtime, DeviceProperties) {
  const Options saved = options();
  options().sms = 7;
  options().compute_capability = 90;
  int count = 0, device = -1, value = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(device, 0);
  cudaDeviceProp properties;
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "simulated device");
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.multiProcessorCount, 7);
  for (const auto& [attribute, expected] : {std::pair{cudaDevAttrMultiProcessorCount, 7},
                                            {cudaDevAttrComputeCapabilityMajor, 9},
                                            {cudaDevAttrComputeCapabilityMinor, 0},
                                            {cudaDevAttrMaxSharedMemoryPerBlockOptin, 227 << 10},
                                            {cudaDevAttrWarpSize, 32},
                                            {cudaDevAttrMaxThreadsPerBlock, 1024}}) {
    EXPECT_EQ(cudaDeviceGetAttribute(&value, attribute, 0), cudaSuccess);
    EXPECT_EQ(value, expected);
  }
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1), cudaErrorInvalidDevice);
  (void)cudaGetLastError();
  options() = saved;
}

}  // namespace
}  // namespace grout::sim

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--print-options") return grout::sim::print_options();
  grout::sim::program = argv[0];
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
