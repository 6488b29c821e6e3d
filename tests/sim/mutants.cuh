// Mutants: one small kernel for each kind of synchronisation or addressing bug. `Bug` puts it in; nothing else differs
// from the correct twin. mutants_test.cpp says what each computes and what must find it.
//
// All take the same arguments: in (one word a thread, in[i] = 1000 + i) and out (one word a thread).
#pragma once

#include "common/batch.cuh"
#include "common/launch.cuh"
#include "common/ptx.cuh"

namespace grout::mutants {

constexpr unsigned kFull = 0xffffffffu;

__device__ __forceinline__ unsigned global_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ unsigned mirror(unsigned thread) { return blockDim.x - 1 - thread; }
__device__ __forceinline__ uint32_t* words() { return &dynamic_shared<uint32_t>(); }

// ---- Barriers in place of which nothing stands ----

// Reads what another thread wrote, without a barrier between.
template <bool Bug> __global__ void missing_barrier_before_read(const uint32_t* in, uint32_t* out) {
  uint32_t* s = words();
  s[threadIdx.x] = in[global_thread()];
  if constexpr (!Bug) __syncthreads();
  out[global_thread()] = s[mirror(threadIdx.x)];
}

// Fills a buffer again while others may still read it.
template <bool Bug> __global__ void missing_barrier_before_reuse(const uint32_t* in, uint32_t* out) {
  uint32_t* s = words();
  uint32_t sum = 0;
  for (uint32_t round = 0; round < 3; ++round) {
    s[threadIdx.x] = in[global_thread()] + round;
    __syncthreads();
    sum += s[mirror(threadIdx.x)];
    if constexpr (!Bug) __syncthreads();
  }
  out[global_thread()] = sum;
}

// Warp 0 copies, four elements of each lane at a time, and says nothing when it is done.
template <bool Bug> __global__ void missing_barrier_after_batched_copy(const uint32_t* in, uint32_t* out) {
  using Tile = SharedTile<uint32_t, decltype(row_major(shape(4_c, 32_c)))>;
  auto& tile = dynamic_shared<Tile>();
  if (threadIdx.x < 32)
    copy_batched(BatchedCopyPlan<Tile, 32, 4>{}, tile, view(in, layout(shape(4_c, 32_c), stride(32_c, 1_c))), {0, 0},
                 static_cast<int>(threadIdx.x));
  if constexpr (!Bug) __syncthreads();
  out[threadIdx.x] = tile.data[mirror(threadIdx.x)];
}

// The shuffle makes the lanes meet, but orders no memory.
template <bool Bug> __global__ void missing_syncwarp(const uint32_t* in, uint32_t* out) {
  uint32_t* s = words();
  s[threadIdx.x] = in[global_thread()];
  const uint32_t met = __shfl_xor_sync(kFull, threadIdx.x, 1);
  if constexpr (!Bug) __syncwarp();
  out[global_thread()] = s[threadIdx.x ^ 1] + (met - (threadIdx.x ^ 1));
}

// A named barrier that both pairs of warps use where each needs its own.
template <bool Bug> __global__ void shared_barrier_id(const uint32_t* in, uint32_t* out) {
  uint32_t* s = words();
  const unsigned pair = threadIdx.x / 64;
  s[threadIdx.x] = in[global_thread()];
  ptx::bar_sync(Bug ? 1 : 1 + pair, 64);
  out[global_thread()] = s[threadIdx.x ^ 32];
}

__device__ __forceinline__ void count_evens(uint32_t* counter, uint32_t value) {
  if (value % 2 == 0) atomicAdd(counter, 1u);
}
// Reads a counter that other threads may still add to.
template <bool Bug> __global__ void missing_barrier_after_atomics(const uint32_t* in, uint32_t* out) {
  uint32_t* s = words();
  if (threadIdx.x == 0) s[0] = 0;
  __syncthreads();
  count_evens(s, in[global_thread()]);
  if constexpr (!Bug) __syncthreads();
  out[global_thread()] = s[0];
}

// Adds to a shared counter with a plain load and store.
template <bool Bug> __global__ void missing_atomic(const uint32_t* in, uint32_t* out) {
  uint32_t* s = words();
  if (threadIdx.x == 0) s[0] = 0;
  __syncthreads();
  if constexpr (Bug) {
    s[0] += in[global_thread()] % 2;
  } else {
    atomicAdd(s, in[global_thread()] % 2);
  }
  __syncthreads();
  out[global_thread()] = s[0];
}

// ---- Between blocks ----

// Every block writes the same words (with the same values, so that the output is right).
template <bool Bug> __global__ void blocks_write_one_address(const uint32_t* in, uint32_t* out) {
  if (Bug || blockIdx.x == 0) out[threadIdx.x] = in[threadIdx.x];
  if (blockIdx.x > 0) out[global_thread()] = in[global_thread()];
}

// The last block to draw a ticket reads what all others wrote; only the fences order that.
template <bool Bug> __global__ void missing_threadfence(const uint32_t* in, uint32_t* out) {
  uint32_t* s = words();
  uint32_t* ticket = out + gridDim.x * blockDim.x;  // 0 before the launch
  out[global_thread()] = in[global_thread()];
  if constexpr (!Bug) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) s[0] = atomicAdd(ticket, 1u);
  __syncthreads();
  if (s[0] != gridDim.x - 1) return;
  if constexpr (!Bug) __threadfence();
  uint32_t sum = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) sum += out[block * blockDim.x + threadIdx.x];
  if (threadIdx.x == 0) out[gridDim.x * blockDim.x + 1] = sum;
}

// ---- cp.async: each thread copies 16 bytes ----

__device__ __forceinline__ uint32_t slot(unsigned index) { return ptx::shared_address(words() + 4 * index); }

template <bool Bug> __global__ void missing_copy_wait(const uint32_t* in, uint32_t* out) {
  ptx::cp_async<16>(slot(threadIdx.x), in + global_thread() / 4 * 4);
  ptx::cp_async_commit_group();
  if constexpr (!Bug) ptx::cp_async_wait_group<0>();
  __syncthreads();
  out[global_thread()] = words()[4 * threadIdx.x + threadIdx.x % 4];
  if constexpr (Bug) ptx::cp_async_wait_group<0>();
}

template <bool Bug> __global__ void missing_copy_commit(const uint32_t* in, uint32_t* out) {
  ptx::cp_async<16>(slot(threadIdx.x), in + global_thread() / 4 * 4);
  if constexpr (!Bug) ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
  __syncthreads();
  out[global_thread()] = words()[4 * threadIdx.x + threadIdx.x % 4];
  ptx::cp_async_wait_all();
}

// Waits for all but one group where the last group is needed.
template <bool Bug> __global__ void copy_wait_too_weak(const uint32_t* in, uint32_t* out) {
  for (unsigned stage = 0; stage < 2; ++stage) {
    ptx::cp_async<16>(slot(threadIdx.x + stage * blockDim.x), in + global_thread() / 4 * 4);
    ptx::cp_async_commit_group();
  }
  ptx::cp_async_wait_group<Bug ? 1 : 0>();
  __syncthreads();
  out[global_thread()] = words()[4 * (threadIdx.x + blockDim.x) + threadIdx.x % 4];
  ptx::cp_async_wait_all();
}

// The wait is for the thread's own copies: others see them only after a barrier.
template <bool Bug> __global__ void missing_barrier_after_copy(const uint32_t* in, uint32_t* out) {
  ptx::cp_async<16>(slot(threadIdx.x), in + global_thread() / 4 * 4);
  ptx::cp_async_commit_group();
  ptx::cp_async_wait_group<0>();
  if constexpr (!Bug) __syncthreads();
  const unsigned other = mirror(threadIdx.x);
  out[global_thread()] = words()[4 * other + other % 4];
}

// Issues the copy of the next stage into a buffer that others may still read.
template <bool Bug> __global__ void copy_into_buffer_in_use(const uint32_t* in, uint32_t* out) {
  uint32_t sum = 0;
  const unsigned other = mirror(threadIdx.x);
  for (unsigned stage = 0; stage < 3; ++stage) {
    if (!Bug && stage > 0) __syncthreads();
    ptx::cp_async<16>(slot(threadIdx.x), in + (global_thread() / 4 + stage) * 4 % (gridDim.x * blockDim.x));
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
    __syncthreads();
    sum += words()[4 * other + other % 4];
  }
  out[global_thread()] = sum;
}

// Changes the source while the copy may still have to read it.
template <bool Bug> __global__ void copy_source_changed(const uint32_t* in, uint32_t* out) {
  out[global_thread()] = in[global_thread()];
  ptx::cp_async<4>(ptx::shared_address(words() + threadIdx.x), out + global_thread());
  ptx::cp_async_commit_group();
  if constexpr (!Bug) ptx::cp_async_wait_group<0>();
  out[global_thread()] = 0;
  if constexpr (Bug) ptx::cp_async_wait_group<0>();
  out[global_thread()] = words()[threadIdx.x];
}

// The same across threads: all have issued their copies, but not waited, when their sources change.
template <bool Bug> __global__ void copy_source_changed_by_another(const uint32_t* in, uint32_t* out) {
  out[global_thread()] = in[global_thread()];
  ptx::cp_async<4>(ptx::shared_address(words() + threadIdx.x), out + global_thread());
  ptx::cp_async_commit_group();
  if constexpr (!Bug) ptx::cp_async_wait_group<0>();
  __syncthreads();
  out[blockIdx.x * blockDim.x + mirror(threadIdx.x)] = 0;
  if constexpr (Bug) ptx::cp_async_wait_group<0>();
  __syncthreads();
  out[global_thread()] = words()[threadIdx.x];
}

template <bool Bug> __global__ void exit_with_pending_copy(const uint32_t* in, uint32_t* out) {
  ptx::cp_async<16>(slot(threadIdx.x), in + global_thread() / 4 * 4);
  ptx::cp_async_commit_group();
  out[global_thread()] = in[global_thread()];
  if constexpr (!Bug) ptx::cp_async_wait_all();
}

template <bool Bug> __global__ void copy_to_misaligned_address(const uint32_t* in, uint32_t* out) {
  ptx::cp_async<16>(ptx::shared_address(words() + 4 * threadIdx.x + Bug), in + global_thread() / 4 * 4);
  ptx::cp_async_wait_all();
  out[global_thread()] = words()[4 * threadIdx.x + threadIdx.x % 4 + Bug];
}

template <bool Bug> __global__ void copy_from_misaligned_address(const uint32_t* in, uint32_t* out) {
  ptx::cp_async<8>(ptx::shared_address(words() + 2 * threadIdx.x), in + global_thread() / 2 * 2 + Bug);
  ptx::cp_async_wait_all();
  out[global_thread()] = words()[2 * threadIdx.x + threadIdx.x % 2 - Bug];
}

// ---- Warp collectives ----

// A lane that leaves before a shuffle gives it nothing.
template <bool Bug> __global__ void missing_lane_in_shuffle(const uint32_t* in, uint32_t* out) {
  if (Bug && threadIdx.x == 5) return;
  out[global_thread()] = __shfl_xor_sync(kFull, in[global_thread()], 1);
}

template <bool Bug> __global__ void missing_lane_in_mma(const uint32_t* in, uint32_t* out) {
  float d[4] = {};
  const uint32_t a[4] = {}, b[2] = {};
  if (!Bug || threadIdx.x != 7) ptx::mma_m16n8k16<bf16>(d, a, b, d);
  out[global_thread()] = in[global_thread()] + static_cast<uint32_t>(d[0]);
}

template <bool Bug> __global__ void divergent_collective(const uint32_t* in, uint32_t* out) {
  uint32_t v = in[global_thread()];
  if (Bug && threadIdx.x % 32 < 16) {
    v += __ballot_sync(kFull, 0);
  } else {
    v = __shfl_sync(kFull, v, threadIdx.x % 32);
  }
  out[global_thread()] = v;
}

// The same instruction at two places: .aligned wants all lanes at one.
template <bool Bug> __global__ void divergent_ldmatrix(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  __syncthreads();
  const uint32_t row = ptx::shared_address(words() + threadIdx.x / 32 * 32 + threadIdx.x % 8 * 4);
  uint32_t r[1];
  if (Bug && threadIdx.x % 2 == 0) {
    ptx::ldmatrix_x1(r, row);
  } else {
    ptx::ldmatrix_x1(r, row);
  }
  out[global_thread()] = r[0];
}

template <bool Bug> __global__ void mismatched_masks(const uint32_t* in, uint32_t* out) {
  const unsigned mask = Bug && threadIdx.x % 32 == 3 ? 0xffffu : kFull;
  out[global_thread()] = __shfl_sync(mask, in[global_thread()], threadIdx.x % 32);
}

template <bool Bug> __global__ void lane_outside_its_mask(const uint32_t* in, uint32_t* out) {
  __syncwarp(Bug ? 0xffffu : kFull);
  out[global_thread()] = in[global_thread()];
}

// Sixteen lanes shuffle among themselves; one asks for a lane of the others.
template <bool Bug> __global__ void shuffle_from_outside_the_mask(const uint32_t* in, uint32_t* out) {
  uint32_t v = in[global_thread()];
  if (threadIdx.x % 32 < 16) v = __shfl_sync(0xffffu, v, (threadIdx.x + (Bug ? 1 : 0)) % 32);
  out[global_thread()] = v;
}

template <bool Bug> __global__ void shuffle_width_not_a_power_of_two(const uint32_t* in, uint32_t* out) {
  out[global_thread()] = __shfl_sync(kFull, in[global_thread()], threadIdx.x % 8, Bug ? 12 : 8);
}

template <bool Bug> __global__ void misaligned_ldmatrix_row(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  __syncthreads();
  uint32_t r[1];
  ptx::ldmatrix_x1(r, ptx::shared_address(words() + threadIdx.x / 32 * 32 + threadIdx.x % 8 * (Bug ? 3 : 4)));
  out[global_thread()] = r[0];
}

// ---- Block barriers ----

template <bool Bug> __global__ void mismatched_barrier_counts(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  ptx::bar_sync(1, Bug && threadIdx.x >= 64 ? 64 : 128);
  out[global_thread()] = words()[mirror(threadIdx.x)];
}

template <bool Bug> __global__ void too_few_arrivals(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  if (!Bug || threadIdx.x < 96) ptx::bar_sync(2, 128);
  out[global_thread()] = words()[mirror(threadIdx.x)];
}

// Warp 0 produces and arrives, the others wait for it.
template <bool Bug> __global__ void missing_arrive(const uint32_t* in, uint32_t* out) {
  if (threadIdx.x < 32) {
    words()[threadIdx.x] = in[global_thread()];
    if constexpr (!Bug) ptx::bar_arrive(3, 128);
    out[global_thread()] = in[global_thread()];
  } else {
    ptx::bar_sync(3, 128);
    out[global_thread()] = words()[threadIdx.x % 32];
  }
}

// A producer that does not wait until the consumers are done arrives for the next phase in this one.
template <bool Bug> __global__ void second_arrival_in_one_phase(const uint32_t* in, uint32_t* out) {
  for (unsigned round = 0; round < 2; ++round) {
    if (threadIdx.x < 32) {
      words()[threadIdx.x] = in[global_thread()] + round;
      ptx::bar_arrive(1, 128);                        // full
      if constexpr (!Bug) ptx::bar_sync(2, 128);      // empty
      out[global_thread()] = in[global_thread()] + round;
    } else {
      ptx::bar_sync(1, 128);
      out[global_thread()] = words()[threadIdx.x % 32];
      if constexpr (!Bug) ptx::bar_arrive(2, 128);
    }
  }
}

template <bool Bug> __global__ void barrier_id_too_large(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  ptx::bar_sync(Bug ? 16 : 15, 128);
  out[global_thread()] = words()[mirror(threadIdx.x)];
}

template <bool Bug> __global__ void barrier_count_not_of_warps(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  ptx::bar_sync(1, Bug ? 100 : 128);
  out[global_thread()] = words()[mirror(threadIdx.x)];
}

template <bool Bug> __global__ void barrier_count_beyond_block(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  ptx::bar_sync(1, Bug ? 160 : 128);
  out[global_thread()] = words()[mirror(threadIdx.x)];
}

template <bool Bug> __global__ void barrier_in_divergent_branch(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  if (!Bug || threadIdx.x % 32 < 16) __syncthreads();
  out[global_thread()] = words()[mirror(threadIdx.x)];
}

template <bool Bug> __global__ void barrier_in_both_branches(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  if (threadIdx.x % (Bug ? 2 : 64) < (Bug ? 1 : 32)) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[global_thread()] = words()[mirror(threadIdx.x)];
}

// The barrier counts threads that have returned.
template <bool Bug> __global__ void barrier_after_return(const uint32_t* in, uint32_t* out) {
  out[global_thread()] = in[global_thread()];
  if (Bug && threadIdx.x >= 64) return;
  words()[threadIdx.x] = in[global_thread()];
  __syncthreads();
  if (threadIdx.x >= 64) return;
  out[global_thread()] = words()[63 - threadIdx.x];
}

template <bool Bug> __global__ void barrier_and_reduction_mixed(const uint32_t* in, uint32_t* out) {
  int evens = 64;
  if (Bug && threadIdx.x < 32) {
    __syncthreads();
  } else {
    evens = __syncthreads_count(in[global_thread()] % 2 == 0);
  }
  out[global_thread()] = static_cast<uint32_t>(evens);
}

// ---- Addresses ----

template <bool Bug> __global__ void global_read_out_of_bounds(const uint32_t* in, uint32_t* out) {
  const unsigned last = gridDim.x * blockDim.x - 1;
  out[global_thread()] = Bug || global_thread() < last ? in[global_thread() + 1] : 0;
}

template <bool Bug> __global__ void global_read_before_begin(const uint32_t* in, uint32_t* out) {
  const int index = static_cast<int>(global_thread()) - 1;
  out[global_thread()] = Bug || index >= 0 ? in[index] : 0;
}

template <bool Bug> __global__ void global_write_out_of_bounds(const uint32_t* in, uint32_t* out) {
  const unsigned past = gridDim.x * blockDim.x + 2;  // out has two words more
  out[global_thread()] = in[global_thread()];
  if (Bug && global_thread() == 0) out[past] = 1;
}

// Copies the vector after its own; behind the last there is none.
template <bool Bug> __global__ void copy_reads_out_of_bounds(const uint32_t* in, uint32_t* out) {
  const unsigned begin = global_thread() / 4 * 4 + 4;
  const bool valid = Bug || begin < gridDim.x * blockDim.x;
  ptx::cp_async<16>(slot(threadIdx.x), in + (valid ? begin : 0), valid ? 16 : 0);
  ptx::cp_async_wait_all();
  out[global_thread()] = words()[4 * threadIdx.x + threadIdx.x % 4];
}

template <bool Bug> __global__ void shared_write_out_of_bounds(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x + (Bug ? 1 : 0)] = in[global_thread()];
  out[global_thread()] = words()[threadIdx.x + (Bug ? 1 : 0)];
}

template <bool Bug> __global__ void shared_address_out_of_bounds(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  __syncthreads();
  uint32_t r[1];
  ptx::ldmatrix_x1(r, ptx::shared_address(words()) + threadIdx.x / 32 * 128 + threadIdx.x % 8 * (Bug ? 32 : 16));
  out[global_thread()] = r[0];
}

template <bool Bug> __global__ void misaligned_vector_store(const uint32_t* in, uint32_t* out) {
  const uint32_t pair[2] = {in[global_thread() / 2 * 2], in[global_thread() / 2 * 2 + 1]};
  if (global_thread() % 2 == 0) ptx::store_global(out + global_thread() + (Bug ? 1 : 0), pair);
}

// Sums a tile whose tail nobody filled.
template <bool Bug> __global__ void unwritten_shared_memory(const uint32_t* in, uint32_t* out) {
  if (!Bug || threadIdx.x < 120) words()[threadIdx.x] = threadIdx.x < 120 ? in[global_thread()] : 0;
  __syncthreads();
  uint32_t sum = 0;
  for (unsigned i = 0; i < blockDim.x; ++i) sum += words()[i];
  out[global_thread()] = sum;
}

}  // namespace grout::mutants
