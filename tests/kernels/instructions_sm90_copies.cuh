// As instructions_sm90.cuh, for the bulk and tensor copies; what must come out is in instruction_references_sm90_copies.h.
// Tensor copies have a map beside: of a matrix in `in` for loads, in `out` for stores. Shared memory that no instruction
// is to write holds 0xa5a5a5a5.
#pragma once
#include <cstdint>

#include "common/ptx_sm90.cuh"
#include "common/tensor_map.cuh"
#include "tests/kernels/instructions_sm90.cuh"

namespace grout::instructions {

// ---- bulk copies ------------------------------------------------------------------------------------------------

constexpr unsigned kBulkWords = 4096;  // of the image in shared memory
struct BulkShared {
  uint32_t image[kBulkWords];
  uint64_t barrier;
};

// 64 threads. 4 phases of 3 copies; threads 0 and 32 arrive in each, copies 0 and 1 are of the first, 2 of the
// second. In: the word where the sources begin, three unused; of each block and phase: way, then of each copy
// destination, source (words) and bytes; then the sources. Out: the image after each phase. The ways:
//   0  arrive.expect_tx of one's own bytes, then the copies   1  copies, expect_tx of one's own bytes, arrive
//   2  thread 0 expects all bytes; both arrive                3  thread 0: expect_tx of copy 0, arrive.expect_tx of 1
static __global__ void bulk_loads(const uint32_t* in, uint32_t* out) {
  auto& shared = dynamic_shared<BulkShared>();
  const uint32_t barrier = ptx::shared_address(&shared.barrier);
  fill_untouched(shared.image, kBulkWords);
  if (threadIdx.x == 0) make_barrier(barrier, 2);
  __syncthreads();
  for (uint32_t phase = 0; phase < 4; ++phase) {
    const uint32_t* const plan = in + 4 + (blockIdx.x * 4 + phase) * 10;
    const auto bytes = [&](int i) { return plan[1 + i * 3 + 2]; };
    const auto load = [&](int i) {
      ptx::cp_async_bulk_load(ptx::shared_address(shared.image + plan[1 + i * 3]), in + in[0] + plan[1 + i * 3 + 1],
                              bytes(i), barrier);
    };
    if (threadIdx.x % 32 == 0) {
      const bool first = threadIdx.x == 0;
      const uint32_t own = first ? bytes(0) + bytes(1) : bytes(2);
      if (plan[0] == 0) ptx::mbarrier_arrive_expect_tx(barrier, own);
      if (plan[0] == 2 && first) ptx::mbarrier_expect_tx(barrier, bytes(0) + bytes(1) + bytes(2));
      if (plan[0] == 3 && first) ptx::mbarrier_expect_tx(barrier, bytes(0));
      if (first) {
        load(0);
        load(1);
      } else {
        load(2);
      }
      if (plan[0] == 1) ptx::mbarrier_expect_tx(barrier, own);
      if (plan[0] == 3) {
        ptx::mbarrier_arrive_expect_tx(barrier, first ? bytes(1) : bytes(2));
      } else if (plan[0] != 0) {
        ptx::mbarrier_arrive(barrier);
      }
    }
    completes(barrier, phase & 1);
    copy_words(out + (blockIdx.x * 4 + phase) * kBulkWords, shared.image, kBulkWords);
    __syncthreads();
  }
}

// Clusters of at most 4 blocks of 32 threads. In: bytes of a slice (up to 2048), the word where the slices begin, two
// unused; of each block a mask; then a slice a block, which the block sends to the ranks of its mask, into the slot
// of its own rank. Out of each block: its slots.
static __global__ void bulk_loads_multicast(const uint32_t* in, uint32_t* out) {
  auto& shared = dynamic_shared<BulkShared>();
  const uint32_t rank = ptx::cluster_rank(), size = ptx::cluster_size(), bytes = in[0];
  const uint32_t barrier = ptx::shared_address(&shared.barrier);
  const uint32_t* const masks = in + 4;
  const unsigned words = size * (bytes / 4);
  fill_untouched(shared.image, words);
  if (threadIdx.x == 0) make_barrier(barrier, 1);
  ptx::cluster_sync();
  if (threadIdx.x == 0) {
    uint32_t expected = 0;
    for (uint32_t from = 0; from < size; ++from) expected += masks[blockIdx.x - rank + from] >> rank & 1 ? bytes : 0;
    ptx::mbarrier_arrive_expect_tx(barrier, expected);
    ptx::cp_async_bulk_load_multicast(ptx::shared_address(shared.image) + rank * bytes,
                                      in + in[1] + blockIdx.x * (bytes / 4), bytes, barrier,
                                      static_cast<uint16_t>(masks[blockIdx.x]));
  }
  completes(barrier, 0);
  copy_words(out + blockIdx.x * words, shared.image, words);
  ptx::cluster_sync();
}

// Clusters of blocks of 64 threads, 3 rounds. In: bytes of each round, one word unused; 256 words a block and round.
// Each block sends the first bytes of its words to the rank behind it. Out of each block and round: 256 words, received
// or untouched.
static __global__ void bulk_copies_to_cluster(const uint32_t* in, uint32_t* out) {
  struct Shared {
    uint32_t source[256], image[256];
    uint64_t barrier;
  };
  auto& shared = dynamic_shared<Shared>();
  const uint32_t rank = ptx::cluster_rank(), size = ptx::cluster_size();
  const uint32_t barrier = ptx::shared_address(&shared.barrier), image = ptx::shared_address(shared.image);
  if (threadIdx.x == 0) make_barrier(barrier, 1);
  for (uint32_t round = 0; round < 3; ++round) {
    copy_words(shared.source, in + 4 + (blockIdx.x * 3 + round) * 256, 256);
    fill_untouched(shared.image, 256);
    ptx::cluster_sync();
    if (threadIdx.x == 0) {
      const uint32_t to = (rank + 1) % size;
      ptx::mbarrier_arrive_expect_tx(barrier, in[round]);
      ptx::cp_async_bulk_to_cluster(ptx::mapa(image, to), ptx::shared_address(shared.source), in[round],
                                    ptx::mapa(barrier, to));
    }
    completes(barrier, round & 1);
    copy_words(out + (blockIdx.x * 3 + round) * 256, shared.image, 256);
    ptx::cluster_sync();
  }
}

// 64 threads; 0 and 32 issue 3 stores each. In: of each store source, destination (words) and bytes, two words
// unused; the image. Out: what the stores wrote.
static __global__ void bulk_stores(const uint32_t* in, uint32_t* out) {
  auto& shared = dynamic_shared<BulkShared>();
  copy_words(shared.image, in + 20, kBulkWords);
  ptx::fence_proxy_async_shared();
  __syncthreads();
  if (threadIdx.x % 32 != 0) return;
  const uint32_t* const plan = in + threadIdx.x / 32 * 9;
  for (int i = 0; i < 3; ++i)
    ptx::cp_async_bulk_store(out + plan[i * 3 + 1], ptx::shared_address(shared.image + plan[i * 3]), plan[i * 3 + 2]);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group<0>();
}

// 32 threads. In: 5 chunks of 16 bytes a thread. Out: the same chunks, stored from three slots that are used again as
// soon as their stores have read them; then of each thread, what it reads of its 5 chunks when they must be written,
// inverted.
//   groups: chunk 0 | chunk 1 | none | chunks 2 and 3 | chunk 4, committed after a wait that does not count it
static __global__ void bulk_store_groups(const uint32_t* in, uint32_t* out) {
  auto& slots = dynamic_shared<uint4[3 * 32]>();
  const unsigned lane = threadIdx.x;
  const auto store = [&](int i, int slot) {
    const uint32_t address = ptx::shared_address(&slots[slot * 32 + lane]);
    uint32_t chunk[4];
    ptx::load_global(chunk, in + (lane * 5 + i) * 4);
    ptx::store_shared(address, chunk);
    ptx::fence_proxy_async_shared();
    ptx::cp_async_bulk_store(out + (lane * 5 + i) * 4, address, 16);
  };
  const auto keep = [&](int i) {
    for (int word = 0; word < 4; ++word) out[640 + (lane * 5 + i) * 4 + word] = ~out[(lane * 5 + i) * 4 + word];
  };
  store(0, 0);
  ptx::cp_async_bulk_commit_group();
  store(1, 1);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group_read<2>();
  store(2, 0);
  store(3, 2);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group_read<2>();
  store(4, 1);
  ptx::cp_async_bulk_wait_group<1>();
  keep(0);
  keep(1);
  ptx::cp_async_bulk_wait_group<0>();
  keep(2);
  keep(3);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group<0>();
  keep(4);
}

// 64 threads. In: 64 words. Out: the words reversed, by ordinary stores; then those as the engine loads them from
// there, neighbours exchanged.
static __global__ void bulk_load_of_written(const uint32_t* in, uint32_t* out) {
  auto& shared = dynamic_shared<BulkShared>();
  const uint32_t barrier = ptx::shared_address(&shared.barrier);
  out[threadIdx.x] = in[63 - threadIdx.x];
  ptx::fence_proxy_async_global();
  if (threadIdx.x == 0) make_barrier(barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(barrier, 256);
    ptx::cp_async_bulk_load(ptx::shared_address(shared.image), out, 256, barrier);
  }
  completes(barrier, 0);
  out[64 + threadIdx.x] = shared.image[threadIdx.x ^ 1];
}

// ---- tensor copies ----------------------------------------------------------------------------------------------
// Blocks of 32 threads, a box each. In: words of an image (a multiple of 256, more than a box), bytes of a box, the
// word where the stores' images begin, one unused; of each block its start (3 words) and its mask; then the tensor or
// the images.

template <int Rank>
GROUT_DEVICE void box_start(int32_t (&start)[Rank], const uint32_t* in, unsigned block) {
  for (int i = 0; i < Rank; ++i) start[i] = static_cast<int32_t>(in[4 + block * 4 + i]);
}

// Out of each block: its image, raw.
template <int Rank>
__global__ void tensor_load(const uint32_t* in, uint32_t* out, const __grid_constant__ TensorMap map) {
  uint32_t* const image = &dynamic_shared<uint32_t>();
  const unsigned words = in[0];
  const uint32_t barrier = ptx::shared_address(image + words);
  if (threadIdx.x == 0) ptx::prefetch_tensormap(map);
  fill_untouched(image, words);
  if (threadIdx.x == 0) make_barrier(barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t start[Rank];
    box_start(start, in, blockIdx.x);
    ptx::mbarrier_arrive_expect_tx(barrier, in[1]);
    ptx::cp_async_bulk_tensor_load(ptx::shared_address(image), map, start, barrier);
  }
  completes(barrier, 0);
  copy_words(out + blockIdx.x * words, image, words);
}

// In clusters of at most 4: each block's box goes to the ranks of its mask, into the image of its own rank. Out of
// each block: an image a rank.
template <int Rank>
__global__ void tensor_load_multicast(const uint32_t* in, uint32_t* out, const __grid_constant__ TensorMap map) {
  uint32_t* const images = &dynamic_shared<uint32_t>();
  const uint32_t rank = ptx::cluster_rank(), size = ptx::cluster_size();
  const unsigned words = in[0] * size;
  const uint32_t barrier = ptx::shared_address(images + words);
  fill_untouched(images, words);
  if (threadIdx.x == 0) make_barrier(barrier, 1);
  ptx::cluster_sync();
  if (threadIdx.x == 0) {
    int32_t start[Rank];
    box_start(start, in, blockIdx.x);
    uint32_t expected = 0;
    for (uint32_t from = 0; from < size; ++from)
      expected += in[4 + (blockIdx.x - rank + from) * 4 + 3] >> rank & 1 ? in[1] : 0;
    ptx::mbarrier_arrive_expect_tx(barrier, expected);
    ptx::cp_async_bulk_tensor_load_multicast(ptx::shared_address(images + rank * in[0]), map, start, barrier,
                                             static_cast<uint16_t>(in[4 + blockIdx.x * 4 + 3]));
  }
  completes(barrier, 0);
  copy_words(out + blockIdx.x * words, images, words);
  ptx::cluster_sync();
}

// Out: the memory around and between the rows of the tensor, and the tensor, into which each block stored its image.
template <int Rank>
__global__ void tensor_store(const uint32_t* in, uint32_t*, const __grid_constant__ TensorMap map) {
  uint32_t* const image = &dynamic_shared<uint32_t>();
  const unsigned words = in[0];
  copy_words(image, in + in[2] + blockIdx.x * words, words);
  ptx::fence_proxy_async_shared();
  __syncthreads();
  if (threadIdx.x != 0) return;
  int32_t start[Rank];
  box_start(start, in, blockIdx.x);
  ptx::cp_async_bulk_tensor_store(map, start, ptx::shared_address(image));
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group_read<0>();
}

}  // namespace grout::instructions
