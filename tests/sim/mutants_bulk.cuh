// Mutants of what the copy engine is told: its fences, its groups of stores, addresses, sizes and boxes. As in mutants.cuh
// and mutants_async.cuh.
#pragma once

#include "tests/sim/mutants_async.cuh"

namespace grout::mutants {

// ---- Proxy fences ----

// What the threads wrote, the copy engine sees behind their fences only.
template <bool Bug> __global__ void missing_proxy_fence_before_bulk_store(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[threadIdx.x];
  if constexpr (!Bug) ptx::fence_proxy_async_shared();
  __syncthreads();
  store_by_thread_0(out);
}

template <bool Bug>
__global__ void missing_proxy_fence_before_tensor_store(const uint32_t* in, uint32_t*,
                                                        const __grid_constant__ TensorMap map) {
  words()[threadIdx.x] = in[threadIdx.x];
  if constexpr (!Bug) ptx::fence_proxy_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    const int32_t start[2] = {0, 0};
    ptx::cp_async_bulk_tensor_store(map, start, word_address(0));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group<0>();
  }
}

// The issuer fences, but before the barrier: the others wrote after that.
template <bool Bug> __global__ void proxy_fence_of_one_thread_too_early(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[threadIdx.x];
  if (Bug && threadIdx.x == 0) ptx::fence_proxy_async_shared();
  __syncthreads();
  if (!Bug && threadIdx.x == 0) ptx::fence_proxy_async_shared();
  store_by_thread_0(out);
}

// A fence of writes that come after it.
template <bool Bug> __global__ void proxy_fence_before_the_writes(const uint32_t* in, uint32_t* out) {
  if constexpr (Bug) ptx::fence_proxy_async_shared();
  words()[threadIdx.x] = in[threadIdx.x];
  if constexpr (!Bug) ptx::fence_proxy_async_shared();
  __syncthreads();
  store_by_thread_0(out);
}

template <bool Bug> __global__ void missing_proxy_fence_before_copy_to_cluster(const uint32_t* in, uint32_t* out) {
  const uint32_t to = ptx::cluster_rank() ^ 1;
  words()[threadIdx.x] = in[global_thread()];
  if constexpr (!Bug) ptx::fence_proxy_async_shared();
  make_cluster_barrier(0, 1);
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(barrier(0), blockDim.x * 4);
    ptx::cp_async_bulk_to_cluster(ptx::mapa(word_address(256), to), word_address(0), blockDim.x * 4,
                                  ptx::mapa(barrier(0), to));
  }
  wait(barrier(0), 0);
  out[global_thread()] = words()[256 + threadIdx.x];
  ptx::cluster_sync();
}

// Global memory that the block wrote itself, and loads through the engine.
template <bool Bug> __global__ void missing_proxy_fence_of_global_memory(const uint32_t* in, uint32_t* out) {
  out[threadIdx.x] = in[threadIdx.x];
  if constexpr (!Bug) ptx::fence_proxy_async_global();
  load_by_thread_0(0, out, blockDim.x * 4, blockDim.x * 4);
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[mirror(threadIdx.x)];
}

// The barrier orders the writers before the issuer; the fences alone order nobody.
template <bool Bug> __global__ void missing_barrier_before_bulk_store(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[threadIdx.x];
  ptx::fence_proxy_async_shared();
  if constexpr (!Bug) __syncthreads();
  store_by_thread_0(out);
}

// ---- Groups ----

// Round r: warp r fills one buffer, thread 0 stores it behind. The twin waits until it has been read.
template <bool Bug> __global__ void missing_group_wait_before_reuse(const uint32_t* in, uint32_t* out) {
  for (unsigned round = 0; round < blockDim.x / 32; ++round) {
    if (threadIdx.x / 32 == round) {
      words()[threadIdx.x % 32] = in[threadIdx.x];
      ptx::fence_proxy_async_shared();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::cp_async_bulk_store(out + round * 32, word_address(0), 128);
      ptx::cp_async_bulk_commit_group();
      if constexpr (!Bug) ptx::cp_async_bulk_wait_group_read<0>();
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group_read<0>();
}

// The wait does not count a store that was not committed.
template <bool Bug> __global__ void missing_group_commit(const uint32_t* in, uint32_t* out) {
  for (unsigned round = 0; round < blockDim.x / 32; ++round) {
    if (threadIdx.x / 32 == round) {
      words()[threadIdx.x % 32] = in[threadIdx.x];
      ptx::fence_proxy_async_shared();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::cp_async_bulk_store(out + round * 32, word_address(0), 128);
      if constexpr (!Bug) ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read<0>();
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read<0>();
  }
}

// One buffer too few for the groups that may be unread: two, where one is filled again at once.
template <bool Bug> __global__ void group_wait_too_weak(const uint32_t* in, uint32_t* out) {
  for (unsigned round = 0; round < blockDim.x / 32; ++round) {
    if (threadIdx.x / 32 == round) {
      words()[round % 2 * 32 + threadIdx.x % 32] = in[threadIdx.x];
      ptx::fence_proxy_async_shared();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::cp_async_bulk_store(out + round * 32, word_address(round % 2 * 32), 128);
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read<Bug ? 2 : 1>();
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group_read<0>();
}

// Reads back what was stored: that the source has been read says nothing of the destination.
template <bool Bug> __global__ void read_wait_where_the_write_is_needed(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[threadIdx.x];
  ptx::fence_proxy_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_store(out, word_address(0), blockDim.x * 4);
    ptx::cp_async_bulk_commit_group();
    if constexpr (Bug) {
      ptx::cp_async_bulk_wait_group_read<0>();
    } else {
      ptx::cp_async_bulk_wait_group<0>();
    }
  }
  __syncthreads();
  const uint32_t word = out[mirror(threadIdx.x)];
  if (Bug && threadIdx.x == 0) ptx::cp_async_bulk_wait_group<0>();
  __syncthreads();
  out[threadIdx.x] = word;
}

// Another thread cannot wait for the issuer's groups.
template <bool Bug> __global__ void group_wait_of_another_thread(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[threadIdx.x];
  ptx::fence_proxy_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_store(out, word_address(0), blockDim.x * 4);
    ptx::cp_async_bulk_commit_group();
  }
  if (threadIdx.x == (Bug ? 32 : 0)) ptx::cp_async_bulk_wait_group<0>();
  __syncthreads();
  words()[threadIdx.x] = 0;
  ptx::fence_proxy_async_shared();
  __syncthreads();
  if (Bug && threadIdx.x == 0) ptx::cp_async_bulk_wait_group<0>();
}

template <bool Bug> __global__ void exit_with_unread_store(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[threadIdx.x];
  ptx::fence_proxy_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_store(out, word_address(0), blockDim.x * 4);
    ptx::cp_async_bulk_commit_group();
    if constexpr (!Bug) ptx::cp_async_bulk_wait_group_read<0>();
  }
}

template <bool Bug> __global__ void exit_with_pending_load(const uint32_t* in, uint32_t* out) {
  make_barrier(0, 1);
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(barrier(0), blockDim.x * 4);
    ptx::cp_async_bulk_load(word_address(0), in, blockDim.x * 4, barrier(0));
    if constexpr (!Bug) wait(barrier(0), 0);
  }
  out[threadIdx.x] = in[threadIdx.x];
}

// ---- Places and sizes ----

template <bool Bug> __global__ void bulk_size_not_of_16_bytes(const uint32_t* in, uint32_t* out) {
  const uint32_t bytes = blockDim.x * 4 - (Bug ? 8 : 16);
  load_by_thread_0(0, in, bytes, bytes);
  wait(barrier(0), 0);
  out[threadIdx.x] = threadIdx.x < bytes / 4 ? words()[threadIdx.x] : in[threadIdx.x];
}

template <bool Bug> __global__ void bulk_load_from_misaligned_address(const uint32_t* in, uint32_t* out) {
  const unsigned skip = Bug ? 2 : 4;
  load_by_thread_0(0, in + skip, blockDim.x * 4 - 16, blockDim.x * 4 - 16);
  wait(barrier(0), 0);
  out[threadIdx.x] = threadIdx.x < skip ? in[threadIdx.x] : words()[threadIdx.x - skip];
}

template <bool Bug> __global__ void bulk_load_into_misaligned_address(const uint32_t* in, uint32_t* out) {
  load_by_thread_0(Bug ? 2 : 4, in, blockDim.x * 4, blockDim.x * 4);
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[threadIdx.x + (Bug ? 2 : 4)];
}

template <bool Bug> __global__ void bulk_load_reads_out_of_bounds(const uint32_t* in, uint32_t* out) {
  const uint32_t bytes = blockDim.x * 4 + (Bug ? 16 : 0);
  load_by_thread_0(0, in, bytes, bytes);
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[threadIdx.x];
}

template <bool Bug> __global__ void bulk_load_beyond_shared_memory(const uint32_t* in, uint32_t* out) {
  load_by_thread_0(Bug ? kAsyncWords - 8 : 0, in, 64, 64);
  wait(barrier(0), 0);
  out[threadIdx.x] = in[threadIdx.x];
}

template <bool Bug>
__global__ void start_column_not_of_16_bytes(const uint32_t* in, uint32_t* out, const __grid_constant__ TensorMap map) {
  const unsigned shift = Bug ? 1 : 4, column = threadIdx.x % 32;
  load_box_by_thread_0(0, map, static_cast<int32_t>(shift), 0, kBoxBytes);
  wait(barrier(0), 0);
  out[threadIdx.x] = column < shift ? in[threadIdx.x] : words()[threadIdx.x - shift];
}

// A box of a map with the 128-byte swizzle, whose period is 1024 bytes.
template <bool Bug> __device__ __forceinline__ unsigned swizzled(unsigned word) {
  return Bug ? word : word ^ (word / 32 % 8 * 4);
}
template <bool Bug>
__global__ void swizzled_box_at_a_wrong_base(const uint32_t*, uint32_t* out, const __grid_constant__ TensorMap map) {
  constexpr unsigned Base = Bug ? 32 : 256;  // words
  load_box_by_thread_0(Base, map, 0, 0, kBoxBytes);
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[Base + swizzled<false>(threadIdx.x)];
}

template <bool Bug>
__global__ void box_read_without_its_swizzle(const uint32_t*, uint32_t* out, const __grid_constant__ TensorMap map) {
  load_box_by_thread_0(0, map, 0, 0, kBoxBytes);
  wait(barrier(0), 0);
  out[threadIdx.x] = words()[swizzled<Bug>(threadIdx.x)];
}

// The barrier counts the whole box, the zeros outside the tensor too.
template <bool Bug>
__global__ void expects_only_what_lies_inside(const uint32_t* in, uint32_t* out, const __grid_constant__ TensorMap map) {
  load_box_by_thread_0(0, map, 0, kBoxRows - 1, Bug ? 128 : kBoxBytes);
  wait(barrier(0), 0);
  out[threadIdx.x] = threadIdx.x < 96 ? in[threadIdx.x] + words()[32 + threadIdx.x] : words()[threadIdx.x - 96];
}

}  // namespace grout::mutants
