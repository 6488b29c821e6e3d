// Mutants of clusters and dependent launches, as in mutants.cuh and mutants_async.cuh.
#pragma once

#include "tests/sim/mutants_async.cuh"

namespace grout::mutants {

// ---- Clusters ----

// The word that this thread's place has in block `rank` of the cluster.
__device__ __forceinline__ void read_block(uint32_t* out, uint32_t rank GROUT_AT) {
  uint32_t r[1];
  ptx::load_shared_cluster(r, ptx::mapa(word_address(threadIdx.x), rank GROUT_HERE) GROUT_HERE);
  out[global_thread()] = r[0];
}

template <bool Bug> __global__ void missing_cluster_barrier_before_read(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  if constexpr (Bug) {
    __syncthreads();
  } else {
    ptx::cluster_sync();
  }
  read_block(out, ptx::cluster_rank() ^ 1);
  ptx::cluster_sync();
}

// The blocks meet, but .relaxed orders no memory.
template <bool Bug> __global__ void relaxed_cluster_arrive(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  if constexpr (Bug) {
    ptx::cluster_arrive_relaxed();
  } else {
    ptx::cluster_arrive();
  }
  ptx::cluster_wait();
  read_block(out, ptx::cluster_rank() ^ 1);
  ptx::cluster_sync();
}

template <bool Bug> __global__ void exit_before_a_neighbour_reads(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  ptx::cluster_sync();
  read_block(out, ptx::cluster_rank() ^ 1);
  if constexpr (!Bug) ptx::cluster_sync();
}

template <bool Bug> __global__ void missing_cluster_wait(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  ptx::cluster_arrive();
  if constexpr (!Bug) ptx::cluster_wait();
  read_block(out, ptx::cluster_rank() ^ 1);
  if constexpr (Bug) ptx::cluster_wait();
  ptx::cluster_sync();
}

template <bool Bug> __global__ void cluster_rank_outside(const uint32_t* in, uint32_t* out) {
  words()[threadIdx.x] = in[global_thread()];
  ptx::cluster_sync();
  const uint32_t rank = ptx::cluster_rank();
  read_block(out, Bug ? rank + 1 : rank ^ 1);
  ptx::cluster_sync();
}

// Rank 0 loads for both blocks of its cluster, or for the blocks that `blocks` names.
__device__ __forceinline__ void multicast_by_rank_0(const uint32_t* in, uint32_t* out, uint16_t blocks GROUT_AT) {
  make_cluster_barrier(0, 1);
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(barrier(0), blockDim.x * 4);
    if (ptx::cluster_rank() == 0)
      ptx::cp_async_bulk_load_multicast(word_address(0), in, blockDim.x * 4, barrier(0), blocks GROUT_HERE);
  }
  wait(barrier(0), 0 GROUT_HERE);
  out[global_thread()] = words()[threadIdx.x];
  ptx::cluster_sync();
}
template <bool Bug> __global__ void multicast_outside_the_cluster(const uint32_t* in, uint32_t* out) {
  multicast_by_rank_0(in, out, Bug ? 7 : 3);
}
template <bool Bug> __global__ void multicast_misses_a_block(const uint32_t* in, uint32_t* out) {
  multicast_by_rank_0(in, out, Bug ? 1 : 3);
}

// The sender fills the neighbour's stage without knowing whether it has been read there.
template <bool Bug> __global__ void multicast_into_a_stage_in_use(const uint32_t* in, uint32_t* out) {
  make_cluster_barrier(0, 1);
  uint32_t sum = 0;
  for (uint32_t round = 0; round < 3; ++round) {
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect_tx(barrier(0), blockDim.x * 4);
    if (threadIdx.x == 0 && ptx::cluster_rank() == 0)
      ptx::cp_async_bulk_load_multicast(word_address(0), in, blockDim.x * 4, barrier(0), 3);
    wait(barrier(0), round & 1);
    sum += words()[threadIdx.x];
    if constexpr (Bug) {
      __syncthreads();
    } else {
      ptx::cluster_sync();
    }
  }
  out[global_thread()] = sum / 3;
  ptx::cluster_sync();
}

// Each tells the other that it has written there; told to itself, it reads too early.
template <bool Bug> __global__ void remote_arrival_at_ones_own_barrier(const uint32_t* in, uint32_t* out) {
  make_cluster_barrier(0, blockDim.x);
  const uint32_t to = ptx::cluster_rank() ^ 1, word[1] = {in[global_thread()]};
  ptx::store_shared_cluster(ptx::mapa(word_address(threadIdx.x), to), word);
  ptx::mbarrier_arrive_cluster(Bug ? barrier(0) : ptx::mapa(barrier(0), to));
  wait_cluster(barrier(0), 0);
  out[global_thread()] = words()[mirror(threadIdx.x)];
  ptx::cluster_sync();
}

// What a neighbour wrote before it arrived is seen behind a wait of the cluster's scope only.
template <bool Bug> __global__ void remote_arrival_waited_for_in_the_block(const uint32_t* in, uint32_t* out) {
  make_cluster_barrier(0, blockDim.x);
  const uint32_t to = ptx::cluster_rank() ^ 1, word[1] = {in[global_thread()]};
  ptx::store_shared_cluster(ptx::mapa(word_address(threadIdx.x), to), word);
  ptx::mbarrier_arrive_cluster(ptx::mapa(barrier(0), to));
  if constexpr (Bug) {
    wait(barrier(0), 0);
  } else {
    wait_cluster(barrier(0), 0);
  }
  out[global_thread()] = words()[mirror(threadIdx.x)];
  ptx::cluster_sync();
}

// ---- Dependent launches: the second may begin before the first has ended ----
// The first writes the words of block 0; the second, whose block 1 reads them, is the mutant.

enum class Lets { before_it_writes, when_it_has_written, at_its_end };
template <Lets When> __global__ void first_of_two(const uint32_t* in, uint32_t* out) {
  if constexpr (When == Lets::before_it_writes) ptx::griddepcontrol_launch_dependents();
  if (blockIdx.x == 0) out[threadIdx.x] = in[threadIdx.x];
  if constexpr (When == Lets::when_it_has_written) {
    __threadfence();
    ptx::griddepcontrol_launch_dependents();
  }
}

__device__ __forceinline__ void read_what_the_first_wrote(uint32_t* out) {
  if (blockIdx.x == 1) out[global_thread()] = out[threadIdx.x] + blockDim.x;
}

template <bool Bug> __global__ void missing_dependency_wait(const uint32_t*, uint32_t* out) {
  if constexpr (!Bug) ptx::griddepcontrol_wait();
  read_what_the_first_wrote(out);
}

// That the first launch has written, fenced and let this one begin does not show what it wrote.
template <bool Bug> __global__ void launch_of_dependents_taken_for_an_order(const uint32_t*, uint32_t* out) {
  if constexpr (!Bug) ptx::griddepcontrol_wait();
  read_what_the_first_wrote(out);
}

// A grid that never says so lets the next one begin when its blocks have ended: not when what they wrote is seen.
template <bool Bug> __global__ void end_of_blocks_taken_for_an_order(const uint32_t*, uint32_t* out) {
  if constexpr (!Bug) ptx::griddepcontrol_wait();
  read_what_the_first_wrote(out);
}

// The wait is for the thread that executes it, and those that a barrier orders behind it.
template <bool Bug> __global__ void dependency_wait_of_another_thread(const uint32_t*, uint32_t* out) {
  if (threadIdx.x == 0) ptx::griddepcontrol_wait();
  if constexpr (!Bug) __syncthreads();
  read_what_the_first_wrote(out);
}

// The copy engine waits for no grid either.
template <bool Bug> __global__ void dependent_copy_before_its_wait(const uint32_t*, uint32_t* out) {
  make_barrier(0, 1);
  if (blockIdx.x == 0) return;
  if (threadIdx.x == 0) {
    if constexpr (!Bug) ptx::griddepcontrol_wait();
    ptx::mbarrier_arrive_expect_tx(barrier(0), 128);
    ptx::cp_async_bulk_load(word_address(0), out, 128, barrier(0));
  }
  wait(barrier(0), 0);
  if constexpr (Bug) ptx::griddepcontrol_wait();
  out[global_thread()] = words()[threadIdx.x] + blockDim.x;
}

// Writes over what the first launch may still write.
template <bool Bug> __global__ void dependent_write_before_its_wait(const uint32_t* in, uint32_t* out) {
  if constexpr (Bug) out[global_thread()] = 0;
  ptx::griddepcontrol_wait();
  out[global_thread()] = in[global_thread()];
}

}  // namespace grout::mutants
