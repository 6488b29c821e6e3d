// Mutants of mbarriers. As in mutants.cuh: one small kernel a bug, `Bug` puts it in, and nothing else differs from the
// correct twin; mutants_test.cpp says what must find it. Of copies: mutants_bulk.cuh; of clusters: mutants_cluster.cuh.
//
// in[i] = 1000 + i, one word a thread; out has one word a thread. Tensor kernels have a map beside: of `in` or of
// `out` as rows of 32 words, a box being kBoxRows rows. Clusters have two blocks.
#pragma once

#include "common/ptx_sm90.cuh"
#include "tests/sim/mutants.cuh"

namespace grout::mutants {

// Shared memory: words, from kBarriers on mbarriers.
constexpr unsigned kBarriers = 2048;  // bytes
constexpr unsigned kAsyncWords = kBarriers / 4 + 8;
constexpr int kBoxRows = 4;
constexpr uint32_t kBoxBytes = kBoxRows * 128;

__device__ __forceinline__ uint32_t word_address(unsigned word) { return ptx::shared_address(words()) + 4 * word; }
__device__ __forceinline__ uint32_t barrier(unsigned number) {
  return ptx::shared_address(words()) + kBarriers + 8 * number;
}

// Asks until the phase is complete.
__device__ __forceinline__ void wait(uint32_t barrier, uint32_t parity GROUT_AT) {
  while (!ptx::mbarrier_try_wait_parity(barrier, parity GROUT_HERE)) {
  }
}
__device__ __forceinline__ void wait_cluster(uint32_t barrier, uint32_t parity GROUT_AT) {
  while (!ptx::mbarrier_try_wait_parity_cluster(barrier, parity GROUT_HERE)) {
  }
}

// One thread makes a barrier that the block, or the cluster, uses behind.
__device__ __forceinline__ void make_barrier(unsigned number, uint32_t count GROUT_AT) {
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier(number), count GROUT_HERE);
    ptx::fence_mbarrier_init(GROUT_HERE_ONLY);
  }
  __syncthreads();
}
__device__ __forceinline__ void make_cluster_barrier(unsigned number, uint32_t count GROUT_AT) {
  make_barrier(number, count GROUT_HERE);
  ptx::cluster_sync(GROUT_HERE_ONLY);
}

// Thread 0 has barrier 0, made here, expect some bytes, and loads `bytes` bytes to word `to`.
__device__ __forceinline__ void load_by_thread_0(unsigned to, const uint32_t* from, uint32_t bytes,
                                                 uint32_t expected GROUT_AT) {
  make_barrier(0, 1 GROUT_HERE);
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(barrier(0), expected GROUT_HERE);
    ptx::cp_async_bulk_load(word_address(to), from, bytes, barrier(0) GROUT_HERE);
  }
}
// The same of a box that begins at this column and row.
__device__ __forceinline__ void load_box_by_thread_0(unsigned to, const TensorMap& map, int32_t column, int32_t row,
                                                     uint32_t expected GROUT_AT) {
  make_barrier(0, 1 GROUT_HERE);
  if (threadIdx.x == 0) {
    const int32_t start[2] = {column, row};
    ptx::mbarrier_arrive_expect_tx(barrier(0), expected GROUT_HERE);
    ptx::cp_async_bulk_tensor_load(word_address(to), map, start, barrier(0) GROUT_HERE);
  }
}
// Thread 0 stores a word a thread, and waits until all are written.
__device__ __forceinline__ void store_by_thread_0(uint32_t* out GROUT_AT) {
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_store(out, word_address(0), blockDim.x * 4 GROUT_HERE);
    ptx::cp_async_bulk_commit_group(GROUT_HERE_ONLY);
    ptx::cp_async_bulk_wait_group<0>(GROUT_HERE_ONLY);
  }
}

// ---- Full and empty ----

// Reads a stage without waiting for its copy.
template <bool Bug> __global__ void missing_full_wait(const uint32_t* in, uint32_t* out) {
  load_by_thread_0(0, in, blockDim.x * 4, blockDim.x * 4);
  if constexpr (!Bug) wait(barrier(0), 0);
  out[threadIdx.x] = words()[threadIdx.x];
  if constexpr (Bug) wait(barrier(0), 0);
}

// Thread 32 fills one stage, warp 0 sums its three fillings. The twin waits until the stage is empty.
template <bool Bug> __global__ void missing_empty_wait(const uint32_t* in, uint32_t* out) {
  make_barrier(0, 1);   // full
  make_barrier(1, 32);  // empty
  uint32_t sum = 0;
  for (uint32_t round = 0; round < 3; ++round) {
    if (threadIdx.x == 32) {
      if constexpr (!Bug) wait(barrier(1), (round & 1) ^ 1);
      ptx::mbarrier_arrive_expect_tx(barrier(0), 128);
      ptx::cp_async_bulk_load(word_address(0), in + 4 * round, 128, barrier(0));
      wait(barrier(0), round & 1);
    } else if (threadIdx.x < 32) {
      wait(barrier(0), round & 1);
      sum += words()[threadIdx.x];
      ptx::mbarrier_arrive(barrier(1));
    }
  }
  out[threadIdx.x] = sum;
}

// The same, complete but for a consumer that says "empty" before it has read.
template <bool Bug> __global__ void stage_freed_before_read(const uint32_t* in, uint32_t* out) {
  make_barrier(0, 1);
  make_barrier(1, 32);
  uint32_t sum = 0;
  for (uint32_t round = 0; round < 3; ++round) {
    if (threadIdx.x == 32) {
      wait(barrier(1), (round & 1) ^ 1);
      ptx::mbarrier_arrive_expect_tx(barrier(0), 128);
      ptx::cp_async_bulk_load(word_address(0), in + 4 * round, 128, barrier(0));
    } else if (threadIdx.x < 32) {
      wait(barrier(0), round & 1);
      if constexpr (Bug) ptx::mbarrier_arrive(barrier(1));
      sum += words()[threadIdx.x];
      if constexpr (!Bug) ptx::mbarrier_arrive(barrier(1));
    }
  }
  out[threadIdx.x] = sum;
}

// ---- Bytes, parities, loops ----

template <bool Bug> __global__ void missing_expect_tx(const uint32_t* in, uint32_t* out) {
  make_barrier(0, 1);
  if (threadIdx.x == 0) {
    if constexpr (!Bug) ptx::mbarrier_expect_tx(barrier(0), blockDim.x * 4);
    ptx::mbarrier_arrive(barrier(0));
    ptx::cp_async_bulk_load(word_address(0), in, blockDim.x * 4, barrier(0));
  }
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[threadIdx.x];
}

// The same with the copy first: its bytes may come before the arrival or behind.
template <bool Bug> __global__ void missing_expect_tx_after_the_copy(const uint32_t* in, uint32_t* out) {
  make_barrier(0, 1);
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_load(word_address(0), in, blockDim.x * 4, barrier(0));
    if constexpr (!Bug) ptx::mbarrier_expect_tx(barrier(0), blockDim.x * 4);
    ptx::mbarrier_arrive(barrier(0));
  }
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[threadIdx.x];
}

template <bool Bug> __global__ void expects_too_many_bytes(const uint32_t* in, uint32_t* out) {
  load_by_thread_0(0, in, blockDim.x * 4, blockDim.x * 4 + (Bug ? 16 : 0));
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[threadIdx.x];
}

// Two copies, of which one is expected.
template <bool Bug> __global__ void expects_too_few_bytes(const uint32_t* in, uint32_t* out) {
  const unsigned half = blockDim.x / 2;
  make_barrier(0, 1);
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(barrier(0), half * (Bug ? 4 : 8));
    ptx::cp_async_bulk_load(word_address(0), in, half * 4, barrier(0));
    ptx::cp_async_bulk_load(word_address(half), in + half, half * 4, barrier(0));
  }
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[threadIdx.x];
}

// One copy, larger than what is expected.
template <bool Bug> __global__ void copy_larger_than_expected(const uint32_t* in, uint32_t* out) {
  load_by_thread_0(0, in, blockDim.x * 4, blockDim.x * (Bug ? 2 : 4));
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[threadIdx.x];
}

// Waits for the phase before the first, which counts as complete.
template <bool Bug> __global__ void wrong_parity(const uint32_t* in, uint32_t* out) {
  load_by_thread_0(0, in, blockDim.x * 4, blockDim.x * 4);
  wait(barrier(0), Bug ? 1 : 0);
  out[threadIdx.x] = words()[threadIdx.x];
  if constexpr (Bug) wait(barrier(0), 0);
}

// A parity that does not turn: the second round waits for the first once more.
template <bool Bug> __global__ void parity_not_turned(const uint32_t* in, uint32_t* out) {
  make_barrier(0, 1);
  uint32_t sum = 0;
  for (uint32_t round = 0; round < 2; ++round) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(barrier(0), blockDim.x * 4);
      ptx::cp_async_bulk_load(word_address(round * blockDim.x), in, blockDim.x * 4, barrier(0));
    }
    wait(barrier(0), Bug ? 0 : round);
    sum += words()[round * blockDim.x + threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum / 2;
  if constexpr (Bug) wait(barrier(0), 1);
}

// try_wait may say "not yet" at any time.
template <bool Bug> __global__ void wait_without_loop(const uint32_t* in, uint32_t* out) {
  load_by_thread_0(0, in, blockDim.x * 4, blockDim.x * 4);
  while (!ptx::mbarrier_try_wait_parity(barrier(0), 0))
    if constexpr (Bug) break;
  out[threadIdx.x] = words()[threadIdx.x];
  if constexpr (Bug) wait(barrier(0), 0);
}

// ---- Arrivals ----

// Two threads bring a half each; the barrier was made for one.
template <bool Bug> __global__ void over_arrival(const uint32_t* in, uint32_t* out) {
  const unsigned half = blockDim.x / 2;
  make_barrier(0, Bug ? 1 : 2);
  if (threadIdx.x % half == 0) {
    ptx::mbarrier_arrive_expect_tx(barrier(0), half * 4);
    ptx::cp_async_bulk_load(word_address(threadIdx.x), in + threadIdx.x, half * 4, barrier(0));
  }
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[threadIdx.x];
}

// All threads arrive, at a barrier that was made for one warp: the phases run ahead of those who wait.
template <bool Bug> __global__ void over_arrival_of_threads(const uint32_t* in, uint32_t* out) {
  make_barrier(0, Bug ? 32 : 64);
  words()[threadIdx.x] = in[threadIdx.x];
  ptx::mbarrier_arrive(barrier(0));
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[mirror(threadIdx.x)];
}

template <bool Bug> __global__ void under_arrival(const uint32_t* in, uint32_t* out) {
  make_barrier(0, Bug ? 65 : 64);
  words()[threadIdx.x] = in[threadIdx.x];
  ptx::mbarrier_arrive(barrier(0));
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[mirror(threadIdx.x)];
}

// ---- Making barriers ----

template <bool Bug> __global__ void missing_fence_after_init(const uint32_t* in, uint32_t* out) {
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier(0), 1);
    if constexpr (!Bug) ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 32) {
    ptx::mbarrier_arrive_expect_tx(barrier(0), blockDim.x * 4);
    ptx::cp_async_bulk_load(word_address(0), in, blockDim.x * 4, barrier(0));
  }
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[threadIdx.x];
}

template <bool Bug> __global__ void missing_barrier_after_init(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier(0), 64);
    ptx::fence_mbarrier_init();
  }
  if constexpr (!Bug) __syncthreads();
  ptx::mbarrier_arrive(barrier(0));
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[mirror(threadIdx.x)];
}

// The neighbour's barrier may not be there yet: its block meets only itself.
template <bool Bug> __global__ void missing_cluster_barrier_after_init(const uint32_t* in, uint32_t* out) {
  make_barrier(0, 32);
  if constexpr (!Bug) ptx::cluster_sync();
  ptx::mbarrier_arrive_cluster(ptx::mapa(barrier(0), ptx::cluster_rank() ^ 1));
  wait_cluster(barrier(0), 0);
  out[global_thread()] = in[global_thread()];
  ptx::cluster_sync();
}

template <bool Bug> __global__ void barrier_memory_used_again(const uint32_t* in, uint32_t* out) {
  make_barrier(0, 64);
  ptx::mbarrier_arrive(barrier(0));
  wait(barrier(0), 0);
  __syncthreads();
  if (threadIdx.x == 0) {
    if constexpr (!Bug) ptx::mbarrier_inval(barrier(0));
    ptx::mbarrier_init(barrier(0), 64);
    ptx::fence_mbarrier_init();
  }
  words()[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  ptx::mbarrier_arrive(barrier(0));
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[mirror(threadIdx.x)];
}

}  // namespace grout::mutants
