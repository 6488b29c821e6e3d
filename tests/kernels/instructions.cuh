// One small kernel per instruction of common/ptx.cuh and per language operation that the kernels use, for either
// device.
//
// Every kernel takes 32-bit words in and gives 32-bit words out, and has no other state. What it must give is in
// instruction_references.h, instruction_references_arithmetic.h and instruction_references_threads.h. Blocks are
// independent unless a kernel says otherwise; word counts are per block.
#pragma once
#include <cstdint>
#include <type_traits>

#include "common/numeric.cuh"
#include "common/ptx.cuh"

namespace grout::instructions {

// ---- ldmatrix, mma ----------------------------------------------------------------------------------------------

// In: 64 rows of 16 bytes, then each lane's row number (~0: an address outside shared memory). Out: Count words a lane.
template <int Count, bool Trans>
__global__ void ldmatrix(const uint32_t* in, uint32_t* out) {
  auto& image = dynamic_shared<uint32_t[256]>();
  const unsigned lane = threadIdx.x;
  in += blockIdx.x * (256 + 32);
  for (unsigned i = lane; i < 256; i += 32) image[i] = in[i];
  __syncthreads();
  const uint32_t row = in[256 + lane];
  const uint32_t address = row == ~0u ? 0xfffffff0u : ptx::shared_address(image) + 16 * row;
  uint32_t r[Count];
  if constexpr (Count == 1 && !Trans) ptx::ldmatrix_x1(r, address);
  if constexpr (Count == 2 && !Trans) ptx::ldmatrix_x2(r, address);
  if constexpr (Count == 4 && !Trans) ptx::ldmatrix_x4(r, address);
  if constexpr (Count == 1 && Trans) ptx::ldmatrix_x1_trans(r, address);
  if constexpr (Count == 2 && Trans) ptx::ldmatrix_x2_trans(r, address);
  if constexpr (Count == 4 && Trans) ptx::ldmatrix_x4_trans(r, address);
  for (int i = 0; i < Count; ++i) out[(blockIdx.x * 32 + lane) * Count + i] = r[i];
}

// In: a[4], b[2], c[4] of each lane. Out: d[4] of each lane.
template <class T, bool Aliased>
__global__ void mma(const uint32_t* in, uint32_t* out) {
  const unsigned thread = blockIdx.x * 32 + threadIdx.x;
  in += thread * 10;
  const uint32_t a[4] = {in[0], in[1], in[2], in[3]}, b[2] = {in[4], in[5]};
  float c[4], d[4];
  for (int i = 0; i < 4; ++i) c[i] = __uint_as_float(in[6 + i]);
  if constexpr (Aliased) {
    ptx::mma_m16n8k16<T>(c, a, b, c);
    for (int i = 0; i < 4; ++i) d[i] = c[i];
  } else {
    ptx::mma_m16n8k16<T>(d, a, b, c);
  }
  for (int i = 0; i < 4; ++i) out[thread * 4 + i] = __float_as_uint(d[i]);
}

// ---- copies and vector accesses ---------------------------------------------------------------------------------

// 64 threads, 128 chunks of shared memory, filled with 0xa5a5a5a5. In: the word where the sources begin, three unused;
// then of each thread: destination chunk, source chunk, source bytes; then the sources. Out: all of shared memory.
template <int Bytes, bool Sized>
__global__ void cp_async(const uint32_t* in, uint32_t* out) {
  constexpr unsigned Words = Bytes / 4;
  auto& chunks = dynamic_shared<uint32_t[128 * Words]>();
  for (unsigned i = threadIdx.x; i < 128 * Words; i += 64) chunks[i] = 0xa5a5a5a5u;
  __syncthreads();
  const uint32_t* mine = in + 4 + threadIdx.x * 3;
  const uint32_t* source = in + in[0] + mine[1] * Words;
  const uint32_t destination = ptx::shared_address(chunks) + mine[0] * Bytes;
  if constexpr (Sized) {
    ptx::cp_async<Bytes>(destination, source, mine[2]);
  } else {
    ptx::cp_async<Bytes>(destination, source);
  }
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 128 * Words; i += 64) out[i] = chunks[i];
}

// 32 threads. In: 5 words a thread. Out: the same words; word i was copied in group i, group 2 is empty, and the last
// is never committed. Each thread reads only what it copied, right after the widest wait that completes it.
static __global__ void cp_async_groups(const uint32_t* in, uint32_t* out) {
  auto& slots = dynamic_shared<uint32_t[5 * 32]>();
  const unsigned thread = threadIdx.x;
  const auto copy = [&](int i) { ptx::cp_async<4>(ptx::shared_address(&slots[i * 32 + thread]), in + thread * 5 + i); };
  const auto keep = [&](int i) { out[thread * 5 + i] = slots[i * 32 + thread]; };
  copy(0);
  ptx::cp_async_commit_group();
  copy(1);
  ptx::cp_async_commit_group();
  ptx::cp_async_commit_group();
  copy(2);
  copy(3);
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<3>();
  keep(0);
  ptx::cp_async_wait_group<2>();
  keep(1);
  copy(4);
  ptx::cp_async_wait_group<0>();
  keep(2);
  keep(3);
  ptx::cp_async_wait_all();
  keep(4);
}

// 64 threads. In: of each thread, source and destination chunk; then 64 chunks of N words. Out: the chunks, moved.
template <int N>
__global__ void move_global(const uint32_t* in, uint32_t* out) {
  uint32_t r[N];
  ptx::load_global(r, in + 128 + in[threadIdx.x * 2] * N);
  ptx::store_global(out + in[threadIdx.x * 2 + 1] * N, r);
}

// The same through shared memory: the chunk lies at the destination's place when another thread loads it.
static __global__ void move_shared(const uint32_t* in, uint32_t* out) {
  auto& chunks = dynamic_shared<uint4[64]>();
  const uint32_t base = ptx::shared_address(chunks);
  uint32_t r[4];
  ptx::load_global(r, in + 128 + in[threadIdx.x * 2] * 4);
  ptx::store_shared(base + in[threadIdx.x * 2 + 1] * 16, r);
  __syncthreads();
  ptx::load_shared(r, base + threadIdx.x * 16);
  ptx::store_global(out + threadIdx.x * 4, r);
}

// 32 threads. In: byte offsets. Out: address(base + offset) - address(base), then address(base) mod 1024 once a thread.
static __global__ void shared_addresses(const uint32_t* in, uint32_t* out) {
  auto& bytes = dynamic_shared<unsigned char[4096]>();
  out[threadIdx.x * 2] = ptx::shared_address(bytes + in[threadIdx.x]) - ptx::shared_address(bytes);
  out[threadIdx.x * 2 + 1] = ptx::shared_address(bytes) % 1024;
}

// ---- barriers ---------------------------------------------------------------------------------------------------

// 192 threads: warps 0 and 1 produce, 2 and 3 consume, 4 and 5 meet one another only. In: 4 rounds of 64 words.
// Out: the rounds, each reversed by the consumers; 64 words of round 0, reversed by the last two warps; the mailbox.
//   barrier 1 "full": producers arrive, consumers wait   2 "empty": consumers arrive, producers wait   15: 4 and 5 wait
// The mailbox lies in global memory because racecheck of compute-sanitizer does not see that an arrival orders reads.
static __global__ void named_barriers(const uint32_t* in, uint32_t* out) {
  auto& shared = dynamic_shared<uint32_t[64]>();
  uint32_t* const mailbox = out + 320;
  const unsigned role = threadIdx.x / 64, thread = threadIdx.x % 64;
  if (role == 0) {
    for (int round = 0; round < 4; ++round) {
      if (round > 0) ptx::bar_sync(2, 128);
      mailbox[thread] = in[round * 64 + thread];
      ptx::bar_arrive(1, 128);
    }
  } else if (role == 1) {
    for (int round = 0; round < 4; ++round) {
      ptx::bar_sync(1, 128);
      out[round * 64 + thread] = mailbox[63 - thread];
      if (round < 3) ptx::bar_arrive(2, 128);
    }
  } else {
    shared[thread] = in[thread];
    ptx::bar_sync(15, 64);
    out[256 + thread] = shared[63 - thread];
  }
}

// Any block size. In: 8 predicates a thread. Out: 8 times {and, or, count} a thread, truth as 0 or 1.
static __global__ void block_votes(const uint32_t* in, uint32_t* out) {
  for (int i = 0; i < 8; ++i) {
    const int predicate = static_cast<int>(in[threadIdx.x * 8 + i]);
    uint32_t* const result = out + (threadIdx.x * 8 + i) * 3;
    result[0] = __syncthreads_and(predicate) != 0;
    result[1] = __syncthreads_or(predicate) != 0;
    result[2] = static_cast<uint32_t>(__syncthreads_count(predicate));
  }
}

// Several blocks. In: a word a block, then the counter's first value. Out: the counter, the sum (by the block that
// comes last) of 3 times the words, and each block's 3 times its word.
static __global__ void last_block(const uint32_t* in, uint32_t* out) {
  if (threadIdx.x != 0) return;
  out[2 + blockIdx.x] = in[blockIdx.x] * 3;
  __threadfence();
  if (atomicAdd(&out[0], 1u) != in[gridDim.x] + gridDim.x - 1) return;
  __threadfence();
  uint32_t sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += out[2 + i];
  out[1] = sum;
}

// ---- warps ------------------------------------------------------------------------------------------------------

// In: mask, mode (0 index, 1 up, 2 down, 3 xor), width, unused; operand of each lane; value of each lane.
// Out of each lane in the mask: the value received as 32 bits, as 64 bits (value, ~value) and as float.
static __global__ void shuffles(const uint32_t* in, uint32_t* out) {
  in += blockIdx.x * 68;
  const unsigned lane = threadIdx.x, mask = in[0], mode = in[1], operand = in[4 + lane];
  const int width = static_cast<int>(in[2]), signed_operand = static_cast<int>(operand);
  const uint32_t value = in[36 + lane];
  unsigned long long wide = value | static_cast<unsigned long long>(~value) << 32;
  uint32_t narrow = value;
  float real = __uint_as_float(value);
  if (!(mask >> lane & 1)) return;
  if (mode == 0) {
    narrow = __shfl_sync(mask, narrow, signed_operand, width);
    wide = __shfl_sync(mask, wide, signed_operand, width);
    real = __shfl_sync(mask, real, signed_operand, width);
  } else if (mode == 1) {
    narrow = __shfl_up_sync(mask, narrow, operand, width);
    wide = __shfl_up_sync(mask, wide, operand, width);
    real = __shfl_up_sync(mask, real, operand, width);
  } else if (mode == 2) {
    narrow = __shfl_down_sync(mask, narrow, operand, width);
    wide = __shfl_down_sync(mask, wide, operand, width);
    real = __shfl_down_sync(mask, real, operand, width);
  } else {
    narrow = __shfl_xor_sync(mask, narrow, signed_operand, width);
    wide = __shfl_xor_sync(mask, wide, signed_operand, width);
    real = __shfl_xor_sync(mask, real, signed_operand, width);
  }
  out += (blockIdx.x * 32 + lane) * 4;
  out[0] = narrow;
  out[1] = static_cast<uint32_t>(wide);
  out[2] = static_cast<uint32_t>(wide >> 32);
  out[3] = __float_as_uint(real);
}

// In: the bits of each block; value of each lane. Out of each lane: what comes from the other lane, as uint32_t, int and float.
static __global__ void exchanges(const uint32_t* in, uint32_t* out) {
  in += blockIdx.x * 33;
  out += (blockIdx.x * 32 + threadIdx.x) * 3;
  const int bits = static_cast<int>(in[0]);
  const uint32_t value = in[1 + threadIdx.x];
  out[0] = ptx::shfl_bfly(value, bits);
  out[1] = static_cast<uint32_t>(ptx::shfl_bfly(static_cast<int>(value), bits));
  out[2] = __float_as_uint(ptx::shfl_bfly(__uint_as_float(value), bits));
}

// In: mask, lanes that stay; predicate of each lane. The lanes that do not stay leave before a vote with the full
// mask. Out of each lane: ballot, any and all of the mask (its lanes only), ballot of its half of the warp, then, of
// the lanes that stay, their ballot and the neighbour's predicate through shared memory.
static __global__ void votes(const uint32_t* in, uint32_t* out) {
  auto& shared = dynamic_shared<uint32_t[32]>();
  in += blockIdx.x * 34;
  const unsigned lane = threadIdx.x, mask = in[0], stay = in[1];
  const int predicate = static_cast<int>(in[2 + lane]);
  out += (blockIdx.x * 32 + lane) * 6;
  if (mask >> lane & 1) {
    out[0] = __ballot_sync(mask, predicate);
    out[1] = __any_sync(mask, predicate) != 0;
    out[2] = __all_sync(mask, predicate) != 0;
  }
  if (lane < 16) {
    out[3] = __ballot_sync(0x0000ffffu, predicate);
  } else {
    out[3] = __ballot_sync(0xffff0000u, predicate);
  }
  shared[lane] = in[2 + lane];
  __syncwarp();
  if (!(stay >> lane & 1)) return;
  out[4] = __ballot_sync(0xffffffffu, predicate);
  out[5] = shared[lane ^ 1];
}

// ---- atomics ----------------------------------------------------------------------------------------------------

template <class T>
__device__ void update_slots(T* slots, T value) {
  atomicAdd(&slots[0], value);
  if constexpr (std::is_integral_v<T>) {
    atomicMin(&slots[1], value);
    atomicMax(&slots[2], value);
    atomicAnd(&slots[3], value);
    atomicOr(&slots[4], value);
    atomicXor(&slots[5], value);
    T seen = 0;
    for (T old; (old = atomicCAS(&slots[6], seen, static_cast<T>(seen + value))) != seen;) seen = old;
  }
}

// 64 threads a block, all blocks share the first 8 slots. In: a T a thread. Out, in Ts: the 8 slots (add, min, max,
// and, or, xor, add by CAS, unused); of each block: 8 slots after the same in shared memory, from slot + 1, the last
// being what 64 exchanges took out of a slot plus what they left in it; of each thread: the word exchanged with its
// value and what that returned, the same of a CAS that succeeds and of one that fails.
template <class T>
__global__ void atomics(const uint32_t* in, uint32_t* out) {
  auto& shared = dynamic_shared<T[9]>();
  const unsigned thread = threadIdx.x;
  const T value = reinterpret_cast<const T*>(in)[blockIdx.x * 64 + thread];
  T* const slots = reinterpret_cast<T*>(out);
  T* const block = slots + 8 + blockIdx.x * (8 + 64 * 6);
  if (thread < 9) shared[thread] = static_cast<T>(thread + 1);
  __syncthreads();
  update_slots(slots, value);
  update_slots(&shared[0], value);
  atomicAdd(&shared[8], atomicExch(&shared[7], value));
  __syncthreads();
  if (thread < 8) block[thread] = thread < 7 ? shared[thread] : static_cast<T>(shared[7] + shared[8]);
  T* const mine = block + 8 + thread * 6;
  mine[1] = atomicExch(&mine[0], value);
  if constexpr (std::is_integral_v<T>) {
    const T hit = mine[2], miss = static_cast<T>(mine[4] + 1);
    mine[3] = atomicCAS(&mine[2], hit, value);
    mine[5] = atomicCAS(&mine[4], miss, value);
  }
}

// ---- scalars ----------------------------------------------------------------------------------------------------

// In: count, then {low, high, shift}. Out, 8 words each: shf.r.clamp, shf.r.wrap, shf.l.wrap; popc, clz, ffs of low;
// min and max of low and high as signed numbers.
static __global__ void integers(const uint32_t* in, uint32_t* out) {
  for (unsigned i = threadIdx.x; i < in[0]; i += blockDim.x) {
    const uint32_t low = __ldg(in + 1 + i * 3), high = __ldg(in + 2 + i * 3), shift = __ldg(in + 3 + i * 3);
    uint32_t* const result = out + i * 8;
    result[0] = ptx::funnel_shift_right(low, high, shift);
    result[1] = __funnelshift_r(low, high, shift);
    result[2] = __funnelshift_l(low, high, shift);
    result[3] = static_cast<uint32_t>(__popc(low));
    result[4] = static_cast<uint32_t>(__clz(static_cast<int>(low)));
    result[5] = static_cast<uint32_t>(__ffs(static_cast<int>(low)));
    result[6] = static_cast<uint32_t>(min(static_cast<int>(low), static_cast<int>(high)));
    result[7] = static_cast<uint32_t>(max(static_cast<int>(low), static_cast<int>(high)));
  }
}

// In: count, then fp32 numbers. Out: 2 to the power of each.
static __global__ void powers_of_two(const uint32_t* in, uint32_t* out) {
  for (unsigned i = threadIdx.x; i < in[0]; i += blockDim.x) out[i] = __float_as_uint(ptx::ex2(__uint_as_float(in[1 + i])));
}

// In: count, then fp32 numbers. Out: the logarithm to base 2 and the reciprocal of each.
static __global__ void logarithms_and_reciprocals(const uint32_t* in, uint32_t* out) {
  for (unsigned i = threadIdx.x; i < in[0]; i += blockDim.x) {
    const float x = __uint_as_float(in[1 + i]);
    out[2 * i] = __float_as_uint(ptx::lg2(x)), out[2 * i + 1] = __float_as_uint(ptx::rcp(x));
  }
}

// In: count, then pairs of fp32 numbers. Out, 6 words each: {bf16(x), f16(x)} in one word, pack of both numbers from
// fp32 as bf16 and f16, the same from converted values, and bf16(x) back as fp32.
static __global__ void conversions(const uint32_t* in, uint32_t* out) {
  for (unsigned i = threadIdx.x; i < in[0]; i += blockDim.x) {
    const float x = __uint_as_float(in[1 + i * 2]), y = __uint_as_float(in[2 + i * 2]);
    uint32_t* const result = out + i * 6;
    result[0] = from_float<bf16>(x).bits | static_cast<uint32_t>(from_float<f16>(x).bits) << 16;
    result[1] = pack<bf16>(x, y);
    result[2] = pack<f16>(x, y);
    result[3] = pack(bf16(x), bf16(y));
    result[4] = pack(f16(x), f16(y));
    result[5] = __float_as_uint(to_float(bf16(x)));
  }
}

// In: nothing. Out: every 16-bit pattern as fp32, once as bf16 and once as f16.
static __global__ void decodings(const uint32_t*, uint32_t* out) {
  for (unsigned i = threadIdx.x; i < 65536; i += blockDim.x) {
    bf16 b;
    f16 h;
    b.bits = h.bits = static_cast<uint16_t>(i);
    out[i] = __float_as_uint(to_float(b));
    out[65536 + i] = __float_as_uint(to_float(h));
  }
}

}  // namespace grout::instructions
