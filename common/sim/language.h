// What CUDA C++ adds to C++, for g++: keywords, vector types, the thread's coordinates, intrinsics and atomics.
//
// Not here on purpose: __shared__ (use grout::dynamic_shared), __noinline__ (a macro of that name breaks libstdc++),
// __activemask (what it returns depends on the schedule).
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) {
  return {x, y, z};
}
constexpr uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
constexpr int2 make_int2(int x, int y) {
  return {x, y};
}
constexpr int4 make_int4(int x, int y, int z, int w) {
  return {x, y, z, w};
}
constexpr float2 make_float2(float x, float y) {
  return {x, y};
}
constexpr float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

// Rewritten by the scheduler at each switch; fibers never move between OS threads.
inline constinit thread_local uint3 threadIdx{}, blockIdx{};
inline constinit thread_local dim3 blockDim{}, gridDim{};
inline constexpr int warpSize = 32;

namespace grout::sim {

using Loc = std::source_location;
enum class Shuffle { index, up, down, xor_, bfly };  // bfly: xor_ under the name of the instruction
enum class Vote { ballot, any, all };
enum class Scope { block, device };

void bar_sync(unsigned id, unsigned threads, Loc loc);
unsigned bar_count(bool predicate, Loc loc);
void syncwarp(std::uint32_t mask, Loc loc);
std::uint64_t shuffle(Shuffle mode, std::uint32_t mask, std::uint64_t value, int operand, int width, Loc loc);
/// The lanes of the mask that gave true.
std::uint32_t vote(Vote which, std::uint32_t mask, bool predicate, Loc loc);
void fence(Scope scope);

template <class T>
T shuffle_value(Shuffle mode, std::uint32_t mask, T value, int operand, int width, Loc loc) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "shuffles move 4 or 8 bytes");
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<T>(Bits(shuffle(mode, mask, std::bit_cast<Bits>(value), operand, width, loc)));
}

template <class T>
concept AtomicInteger = std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long>;
template <class T>
concept AtomicNumber = AtomicInteger<T> || std::same_as<T, float>;

// Relaxed, as CUDA's are: they order nothing around them.
template <class T, class F>
T atomic_update(T* address, F update) {
  std::atomic_ref<T> atom(*address);
  T old = atom.load(std::memory_order_relaxed);
  while (!atom.compare_exchange_weak(old, update(old), std::memory_order_relaxed)) {
  }
  return old;
}

}  // namespace grout::sim

// ---- Barriers, warps ----
inline void __syncthreads(grout::sim::Loc loc = grout::sim::Loc::current()) {
  grout::sim::bar_sync(0, 0, loc);
}
inline int __syncthreads_count(int predicate, grout::sim::Loc loc = grout::sim::Loc::current()) {
  return int(grout::sim::bar_count(predicate != 0, loc));
}
inline int __syncthreads_or(int predicate, grout::sim::Loc loc = grout::sim::Loc::current()) {
  return grout::sim::bar_count(predicate != 0, loc) != 0;
}
inline int __syncthreads_and(int predicate, grout::sim::Loc loc = grout::sim::Loc::current()) {
  return grout::sim::bar_count(predicate == 0, loc) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, grout::sim::Loc loc = grout::sim::Loc::current()) {
  grout::sim::syncwarp(mask, loc);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, grout::sim::Loc loc = grout::sim::Loc::current()) {
  return grout::sim::shuffle_value(grout::sim::Shuffle::index, mask, value, lane, width, loc);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 grout::sim::Loc loc = grout::sim::Loc::current()) {
  return grout::sim::shuffle_value(grout::sim::Shuffle::up, mask, value, int(delta), width, loc);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   grout::sim::Loc loc = grout::sim::Loc::current()) {
  return grout::sim::shuffle_value(grout::sim::Shuffle::down, mask, value, int(delta), width, loc);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, grout::sim::Loc loc = grout::sim::Loc::current()) {
  return grout::sim::shuffle_value(grout::sim::Shuffle::xor_, mask, value, bits, width, loc);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, grout::sim::Loc loc = grout::sim::Loc::current()) {
  return grout::sim::vote(grout::sim::Vote::ballot, mask, predicate != 0, loc);
}
inline int __any_sync(unsigned mask, int predicate, grout::sim::Loc loc = grout::sim::Loc::current()) {
  return grout::sim::vote(grout::sim::Vote::any, mask, predicate != 0, loc) != 0;
}
inline int __all_sync(unsigned mask, int predicate, grout::sim::Loc loc = grout::sim::Loc::current()) {
  return grout::sim::vote(grout::sim::Vote::all, mask, predicate == 0, loc) == 0;
}
inline void __threadfence_block() {
  grout::sim::fence(grout::sim::Scope::block);
}
inline void __threadfence() {
  grout::sim::fence(grout::sim::Scope::device);
}

// ---- Atomics on global and shared memory; each returns the old value ----
template <grout::sim::AtomicNumber T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}
template <grout::sim::AtomicNumber T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).exchange(value, std::memory_order_relaxed);
}
template <grout::sim::AtomicInteger T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(compare, value, std::memory_order_relaxed);
  return compare;
}
template <grout::sim::AtomicInteger T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return grout::sim::atomic_update(address, [value](T old) { return std::min(old, value); });
}
template <grout::sim::AtomicInteger T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return grout::sim::atomic_update(address, [value](T old) { return std::max(old, value); });
}
template <grout::sim::AtomicInteger T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_and(value, std::memory_order_relaxed);
}
template <grout::sim::AtomicInteger T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_or(value, std::memory_order_relaxed);
}
template <grout::sim::AtomicInteger T>
T atomicXor(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_xor(value, std::memory_order_relaxed);
}

// ---- Scalars ----
template <class T>
T __ldg(const T* address) {
  return *address;
}
/// Bits 31+s..s of hi:lo, and bits 63-s..32-s: s = shift mod 32.
constexpr unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
  return unsigned((std::uint64_t(hi) << 32 | lo) >> (shift & 31));
}
constexpr unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
  return unsigned((std::uint64_t(hi) << 32 | lo) << (shift & 31) >> 32);
}
constexpr unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
constexpr int __float_as_int(float value) {
  return std::bit_cast<int>(value);
}
constexpr float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
constexpr float __int_as_float(int bits) {
  return std::bit_cast<float>(bits);
}
constexpr int __popc(unsigned bits) {
  return std::popcount(bits);
}
constexpr int __clz(int bits) {
  return std::countl_zero(unsigned(bits));
}
constexpr int __ffs(int bits) {
  return bits ? std::countr_zero(unsigned(bits)) + 1 : 0;
}
using std::max;
using std::min;
