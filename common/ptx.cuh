// One function per PTX instruction, named after it: inline assembly for the GPU, the simulated device's model otherwise.
//
// Every function states its participants. "Warp" means: all 32 lanes, converged, at the same call (".aligned").
// Shared addresses are 32-bit offsets into the shared window, from shared_address().
// Sections name the PTX ISA, version 9.0.
#pragma once
#include <cmath>
#include <concepts>
#include <cstdint>

#include "common/launch.cuh"
#include "common/numeric.cuh"

// GROUT_AT adds the caller's place in the source as a defaulted last parameter on the simulated device, so that its
// reports name the kernel's own line; GROUT_HERE hands it on.
#ifdef __CUDACC__
#define GROUT_DEVICE __device__ __forceinline__
#define GROUT_AT
#define GROUT_AT_ONLY
#define GROUT_HERE
#define GROUT_HERE_ONLY
#define GROUT_INSTRUCTION(simulated, ...) __VA_ARGS__
#else
#include <source_location>
#define GROUT_DEVICE inline
#define GROUT_AT , std::source_location at = std::source_location::current()
#define GROUT_AT_ONLY std::source_location at = std::source_location::current()
#define GROUT_HERE , at
#define GROUT_HERE_ONLY at
#define GROUT_INSTRUCTION(simulated, ...) simulated
#endif

namespace grout::ptx {

// ---- addresses --------------------------------------------------------------------------------------------------

// Generic pointer into the block's shared memory -> shared-window address (cvta.to.shared). Any thread.
GROUT_DEVICE uint32_t shared_address(const void* pointer GROUT_AT) {
  GROUT_INSTRUCTION(return sim::shared_address(pointer, at),
                    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)));
}

// ---- barriers ---------------------------------------------------------------------------------------------------

// bar.sync id, threads (9.7.13.1): waits until `threads` threads (a multiple of 32) of the block arrived at barrier `id`
// (1..15; 0 is __syncthreads), and orders their earlier accesses before later ones. Whole warps.
GROUT_DEVICE void bar_sync(unsigned id, unsigned threads GROUT_AT) {
  GROUT_INSTRUCTION(sim::bar_sync(id, threads, at), asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"));
}

// bar.arrive id, threads (9.7.13.1): arrives without waiting. Whole warps.
GROUT_DEVICE void bar_arrive(unsigned id, unsigned threads GROUT_AT) {
  GROUT_INSTRUCTION(sim::bar_arrive(id, threads, at),
                    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"));
}

// ---- cp.async ---------------------------------------------------------------------------------------------------

// cp.async.{cg,ca}.shared.global (9.7.9.25.3.1): starts copying Bytes (4, 8 or 16) bytes from global to shared memory, both
// aligned to Bytes. Any thread. Complete only after that thread's commit and wait_group (or wait_all); then still
// invisible to other threads until a barrier. 16-byte copies bypass L1 (.cg).
template <int Bytes> GROUT_DEVICE void cp_async(uint32_t shared, const void* global GROUT_AT) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  if constexpr (Bytes == 16) {
    GROUT_INSTRUCTION(sim::cp_async(shared, global, 16, 16, at),
                      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory"));
  } else {
    GROUT_INSTRUCTION(
        sim::cp_async(shared, global, Bytes, Bytes, at),
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(global), "n"(Bytes) : "memory"));
  }
}

// The same, reading only the first `source_bytes` (0..Bytes) and writing zeros for the rest.
template <int Bytes> GROUT_DEVICE void cp_async(uint32_t shared, const void* global, uint32_t source_bytes GROUT_AT) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  if constexpr (Bytes == 16) {
    GROUT_INSTRUCTION(sim::cp_async(shared, global, 16, source_bytes, at),
                      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
                                   "r"(source_bytes)
                                   : "memory"));
  } else {
    GROUT_INSTRUCTION(sim::cp_async(shared, global, Bytes, source_bytes, at),
                      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global),
                                   "n"(Bytes), "r"(source_bytes)
                                   : "memory"));
  }
}

// cp.async with ignore-src: `ignore` true reads nothing and writes 16 zeros.
GROUT_DEVICE void cp_async_or_zeros(uint32_t shared, const void* global, bool ignore GROUT_AT) {
  GROUT_INSTRUCTION(sim::cp_async(shared, global, 16, ignore ? 0 : 16, at),
                    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, p; }" ::"r"(
                                     shared),
                                 "l"(global), "r"(static_cast<uint32_t>(ignore))
                                 : "memory"));
}

// cp.async.commit_group (9.7.9.25.3.2): this thread's copies since its last commit become one group, perhaps empty.
GROUT_DEVICE void cp_async_commit_group(GROUT_AT_ONLY) {
  GROUT_INSTRUCTION(sim::cp_async_commit(at), asm volatile("cp.async.commit_group;" ::: "memory"));
}

// cp.async.wait_group N (9.7.9.25.3.3): waits until at most the N newest groups of this thread are unfinished.
template <int N> GROUT_DEVICE void cp_async_wait_group(GROUT_AT_ONLY) {
  static_assert(N >= 0, "cp.async.wait_group takes 0 or more");
  GROUT_INSTRUCTION(sim::cp_async_wait_group(N, at), asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"));
}

// cp.async.wait_all (9.7.9.25.3.3): waits for all of this thread's copies, committed or not.
GROUT_DEVICE void cp_async_wait_all(GROUT_AT_ONLY) {
  GROUT_INSTRUCTION(sim::cp_async_wait_all(at), asm volatile("cp.async.wait_all;" ::: "memory"));
}

// ---- vector accesses --------------------------------------------------------------------------------------------
// N 32-bit registers as one access, its address aligned to 4 N bytes. Any thread.

// ld.global.{b32,v2.b32,v4.b32} (9.7.9.8). Not .nc: what a kernel ahead wrote may be read behind griddepcontrol_wait.
template <int N> GROUT_DEVICE void load_global(uint32_t (&r)[N], const void* global GROUT_AT) {
  static_assert(N == 1 || N == 2 || N == 4, "a vector access moves 1, 2 or 4 registers");
  if constexpr (N == 1) {
    GROUT_INSTRUCTION(sim::load(r, global, 4, at), asm volatile("ld.global.b32 %0, [%1];" : "=r"(r[0]) : "l"(global) : "memory"));
  } else if constexpr (N == 2) {
    GROUT_INSTRUCTION(sim::load(r, global, 8, at),
                      asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "l"(global) : "memory"));
  } else {
    GROUT_INSTRUCTION(sim::load(r, global, 16, at),
                      asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                                   : "l"(global)
                                   : "memory"));
  }
}

// st.global.{b32,v2.b32,v4.b32} (9.7.9.12).
template <int N> GROUT_DEVICE void store_global(void* global, const uint32_t (&r)[N] GROUT_AT) {
  static_assert(N == 1 || N == 2 || N == 4, "a vector access moves 1, 2 or 4 registers");
  if constexpr (N == 1) {
    GROUT_INSTRUCTION(sim::store(global, r, 4, at),
                      asm volatile("st.global.b32 [%0], %1;" ::"l"(global), "r"(r[0]) : "memory"));
  } else if constexpr (N == 2) {
    GROUT_INSTRUCTION(sim::store(global, r, 8, at),
                      asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(global), "r"(r[0]), "r"(r[1]) : "memory"));
  } else {
    GROUT_INSTRUCTION(sim::store(global, r, 16, at),
                      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(r[0]), "r"(r[1]),
                                   "r"(r[2]), "r"(r[3])
                                   : "memory"));
  }
}

// ld.shared.{b32,v2.b32,v4.b32} (9.7.9.8) and st.shared.{b32,v2.b32,v4.b32} (9.7.9.12), at a shared address.
template <int N> GROUT_DEVICE void load_shared(uint32_t (&r)[N], uint32_t shared GROUT_AT) {
  static_assert(N == 1 || N == 2 || N == 4, "a vector access moves 1, 2 or 4 registers");
  if constexpr (N == 1) {
    GROUT_INSTRUCTION(sim::load(r, sim::shared_pointer(shared, 4, "ld.shared", at), 4, at),
                      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r[0]) : "r"(shared) : "memory"));
  } else if constexpr (N == 2) {
    GROUT_INSTRUCTION(sim::load(r, sim::shared_pointer(shared, 8, "ld.shared.v2", at), 8, at),
                      asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared) : "memory"));
  } else {
    GROUT_INSTRUCTION(sim::load(r, sim::shared_pointer(shared, 16, "ld.shared.v4", at), 16, at),
                      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                                   : "r"(shared)
                                   : "memory"));
  }
}
template <int N> GROUT_DEVICE void store_shared(uint32_t shared, const uint32_t (&r)[N] GROUT_AT) {
  static_assert(N == 1 || N == 2 || N == 4, "a vector access moves 1, 2 or 4 registers");
  if constexpr (N == 1) {
    GROUT_INSTRUCTION(sim::store(sim::shared_pointer(shared, 4, "st.shared", at), r, 4, at),
                      asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(r[0]) : "memory"));
  } else if constexpr (N == 2) {
    GROUT_INSTRUCTION(sim::store(sim::shared_pointer(shared, 8, "st.shared.v2", at), r, 8, at),
                      asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(r[0]), "r"(r[1]) : "memory"));
  } else {
    GROUT_INSTRUCTION(sim::store(sim::shared_pointer(shared, 16, "st.shared.v4", at), r, 16, at),
                      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(r[0]), "r"(r[1]),
                                   "r"(r[2]), "r"(r[3])
                                   : "memory"));
  }
}

// ---- ldmatrix (9.7.14.5.15) -------------------------------------------------------------------------------------
// Loads 1, 2 or 4 matrices of 8 x 8 16-bit elements. Lane 8i + r gives the 16-byte aligned shared address of row r of
// matrix i (lanes beyond 8 * count: ignored). Register i of lane L receives elements (L/4, 2(L%4)) and (L/4, 2(L%4) + 1)
// of matrix i; with .trans those of its transpose. Warp.

GROUT_DEVICE void ldmatrix_x1(uint32_t (&r)[1], uint32_t row GROUT_AT) {
  GROUT_INSTRUCTION(sim::ldmatrix(r, 1, false, row, at),
                    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(row) : "memory"));
}
GROUT_DEVICE void ldmatrix_x2(uint32_t (&r)[2], uint32_t row GROUT_AT) {
  GROUT_INSTRUCTION(sim::ldmatrix(r, 2, false, row, at),
                    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                                 : "=r"(r[0]), "=r"(r[1])
                                 : "r"(row)
                                 : "memory"));
}
GROUT_DEVICE void ldmatrix_x4(uint32_t (&r)[4], uint32_t row GROUT_AT) {
  GROUT_INSTRUCTION(sim::ldmatrix(r, 4, false, row, at),
                    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                                 : "r"(row)
                                 : "memory"));
}
GROUT_DEVICE void ldmatrix_x1_trans(uint32_t (&r)[1], uint32_t row GROUT_AT) {
  GROUT_INSTRUCTION(sim::ldmatrix(r, 1, true, row, at),
                    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                                 : "=r"(r[0])
                                 : "r"(row)
                                 : "memory"));
}
GROUT_DEVICE void ldmatrix_x2_trans(uint32_t (&r)[2], uint32_t row GROUT_AT) {
  GROUT_INSTRUCTION(sim::ldmatrix(r, 2, true, row, at),
                    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                                 : "=r"(r[0]), "=r"(r[1])
                                 : "r"(row)
                                 : "memory"));
}
GROUT_DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t row GROUT_AT) {
  GROUT_INSTRUCTION(sim::ldmatrix(r, 4, true, row, at),
                    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                                 : "r"(row)
                                 : "memory"));
}

// ---- mma.sync (9.7.14.5.8, 9.7.14.5.14) -------------------------------------------------------------------------

// mma.sync.aligned.m16n8k16.row.col.f32.T.T.f32: d = a * b + c for T = bf16 or f16, fp32 accumulation. Fragments as in
// ownership.cuh (MmaM16N8K16). d and c may be the same array. Warp.
template <class T>
GROUT_DEVICE void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const float (&c)[4] GROUT_AT) {
  static_assert(element_type<T> != ElementType::f32, "mma.m16n8k16: A and B are bf16 or f16");
  if constexpr (element_type<T> == ElementType::bf16) {
    GROUT_INSTRUCTION(
        sim::mma_m16n8k16(d, a, b, c, true, at),
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%10, %11, %12, %13};"
                     : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]),
                       "f"(c[3])));
  } else {
    GROUT_INSTRUCTION(
        sim::mma_m16n8k16(d, a, b, c, false, at),
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%10, %11, %12, %13};"
                     : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]),
                       "f"(c[3])));
  }
}

// ---- lanes, and scalars ---------------------------------------------------------------------------------------------

// shfl.sync.bfly.b32 (9.7.9.6): the value of lane (lane ^ bits) of the warp. Warp.
template <class T> GROUT_DEVICE T shfl_bfly(T value, int bits GROUT_AT) {
  static_assert(sizeof(T) == 4, "shfl.sync moves registers of 32 bits");
  GROUT_INSTRUCTION(return sim::shuffle_value(sim::Shuffle::bfly, 0xffffffffu, value, bits, 32 GROUT_HERE),
                    return __shfl_xor_sync(0xffffffffu, value, bits));
}

// vote.sync.any.pred (9.7.13.6): does the condition hold in any lane? Warp.
GROUT_DEVICE bool vote_any(bool condition GROUT_AT) {
  GROUT_INSTRUCTION(return __any_sync(0xffffffffu, condition GROUT_HERE) != 0, return __any_sync(0xffffffffu, condition) != 0);
}

// ex2.approx.ftz.f32 (9.7.3.22): 2 to the power of x, within 2 ulp; subnormals are zero, -inf gives 0. Any thread.
GROUT_DEVICE float ex2(float x) {
  GROUT_INSTRUCTION(return std::fabs(std::exp2(x)) < 0x1p-126f ? 0.f : std::exp2(x), float y;
                    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y);
}

// lg2.approx.ftz.f32 (9.7.3.21): the logarithm to base 2, within 2^-22, absolute between 0.5 and 2 and relative elsewhere; of 0 and
// subnormals -inf. Any thread.
GROUT_DEVICE float lg2(float x) {
  GROUT_INSTRUCTION(return std::log2(std::fabs(x) < 0x1p-126f ? 0.f : x), float y;
                    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y);
}

// rcp.approx.ftz.f32 (9.7.3.13): 1 / x, within 1 ulp; of 0 and subnormals infinity, subnormal results are zero. Any thread.
GROUT_DEVICE float rcp(float x) {
  GROUT_INSTRUCTION(return std::fabs(1 / x) < 0x1p-126f   ? std::copysign(0.f, x)
                           : std::fabs(x) < 0x1p-126f ? std::copysign(HUGE_VALF, x)
                                                      : 1 / x,
                    float y;
                    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y);
}

// ---- integer ----------------------------------------------------------------------------------------------------

// shf.r.clamp.b32 (9.7.8.7): bits 31..0 of (high:low) >> min(shift, 32). Any thread.
GROUT_DEVICE uint32_t funnel_shift_right(uint32_t low, uint32_t high, uint32_t shift) {
  GROUT_INSTRUCTION(return shift >= 32 ? high : shift == 0 ? low : low >> shift | high << (32 - shift),
                    return __funnelshift_rc(low, high, shift));
}

// No instruction: a pointer or integer that the compiler knows nothing about. Keeps it from turning an unrolled walk of a pointer
// into as many precomputed multiples of the step, all in registers at once.
template <class T> GROUT_DEVICE T* opaque(T* pointer) {
  GROUT_INSTRUCTION(, asm volatile("" : "+l"(pointer));)
  return pointer;
}
template <std::integral T> GROUT_DEVICE T opaque(T value) {
  static_assert(sizeof(T) == 4, "opaque: integers of 32 bits");
  GROUT_INSTRUCTION(, asm volatile("" : "+r"(value));)
  return value;
}

// isspacep.shared (9.7.9.22): may a generic pointer lie in shared memory? The simulated device does not know, and says yes.
GROUT_DEVICE bool may_be_shared(const void* pointer) {
  GROUT_INSTRUCTION(return pointer != nullptr, return __isShared(pointer) != 0);
}

// bar.warp.sync (9.7.13.3) of the lanes that are here together: what a thread loads above is issued before what it stores
// below. Left alone, the assembler moves stores that cannot alias between loads, and each then waits for its own. Any thread;
// costs a vote, synchronises nothing that a caller may rely on, and is nothing on the simulated device, which keeps the order
// of the source.
GROUT_DEVICE void keep_order() { GROUT_INSTRUCTION(, __syncwarp(__activemask());) }

}  // namespace grout::ptx
