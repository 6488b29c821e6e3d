// One small kernel per instruction of common/ptx_sm90.cuh, or per few that only make sense together, for either device:
// mbarriers, clusters and dependent launches; the copies are in instructions_sm90_copies.cuh.
//
// As in instructions.cuh: 32-bit words in, 32-bit words out, no other state; what must come out is in
// instruction_references_sm90.h. Blocks of a cluster lie along x.
#pragma once
#include <cstdint>

#include "common/ptx_sm90.cuh"

namespace grout::instructions {

constexpr uint32_t kUntouched = 0xa5a5a5a5u;

// ---- shared pieces ----------------------------------------------------------------------------------------------

// Asks until the phase of that parity is complete, and says whether it is. It gives up at last: a device or a test
// that is wrong then gives wrong words instead of none.
GROUT_DEVICE bool completes(uint32_t barrier, uint32_t parity GROUT_AT) {
  for (int i = 0; i < 1 << 16; ++i)
    if (ptx::mbarrier_try_wait_parity(barrier, parity GROUT_HERE)) return true;
  return false;
}
GROUT_DEVICE bool completes_cluster(uint32_t barrier, uint32_t parity GROUT_AT) {
  for (int i = 0; i < 1 << 16; ++i)
    if (ptx::mbarrier_try_wait_parity_cluster(barrier, parity GROUT_HERE)) return true;
  return false;
}

// What each thread does to its share of `words` words before the block's next barrier: fill for the engine to write
// over.
GROUT_DEVICE void fill_untouched(uint32_t* image, unsigned words GROUT_AT) {
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) image[i] = kUntouched;
  ptx::fence_proxy_async_shared(GROUT_HERE_ONLY);
}
GROUT_DEVICE void copy_words(uint32_t* to, const uint32_t* from, unsigned words) {
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) to[i] = from[i];
}

// One thread; the others may use the barrier after a barrier of block or cluster.
GROUT_DEVICE void make_barrier(uint32_t barrier, uint32_t count GROUT_AT) {
  ptx::mbarrier_init(barrier, count GROUT_HERE);
  ptx::fence_mbarrier_init(GROUT_HERE_ONLY);
}

// ---- mbarriers --------------------------------------------------------------------------------------------------

// 8 threads, each with a barrier of its own. In: of each thread, arrivals a phase (1 to 4). Out of each thread,
// twice: for each of 7 phases, bits 0..4: is it complete before arrival 0..4; bit 8: is the phase before it, at its
// begin; bit 9: is it complete after its last arrival. Then what the thread wrote where its barrier was. The second
// time there is one arrival more.
static __global__ void mbarrier_parities(const uint32_t* in, uint32_t* out) {
  auto& shared = dynamic_shared<uint64_t[8]>();
  const uint32_t barrier = ptx::shared_address(&shared[threadIdx.x]);
  out += threadIdx.x * 16;
  for (uint32_t use = 0; use < 2; ++use) {
    const uint32_t count = in[threadIdx.x] + use;
    ptx::mbarrier_init(barrier, count);
    __syncthreads();
    for (uint32_t phase = 0; phase < 7; ++phase) {
      const uint32_t parity = phase & 1;
      uint32_t seen = completes(barrier, parity ^ 1) ? 0x100u : 0;
      for (uint32_t i = 0; i < count; ++i) {
        if (ptx::mbarrier_try_wait_parity(barrier, parity)) seen |= 1u << i;
        ptx::mbarrier_arrive(barrier);
      }
      if (completes(barrier, parity)) seen |= 0x200u;
      out[use * 8 + phase] = seen;
    }
    ptx::mbarrier_inval(barrier);
    __syncthreads();
    shared[threadIdx.x] = in[threadIdx.x] * 0x100000001ull;
    out[use * 8 + 7] = static_cast<uint32_t>(shared[threadIdx.x] >> 32);
  }
}

// 96 threads: warp 0 produces, 1 and 2 consume, through two stages. In: number of rounds, three unused, then 32 words
// a round. Out: of each round, the words reversed by warp 1, and by warp 2 with 1 added; the mailbox.
//   full[2]: 32 arrivals, waited for by 1 and 2   empty[2]: 64 arrivals, waited for by 0
// The mailbox lies in global memory for the same reason as in named_barriers.
static __global__ void mbarrier_pipeline(const uint32_t* in, uint32_t* out) {
  struct Shared {
    uint64_t full[2], empty[2];
  };
  auto& shared = dynamic_shared<Shared>();
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, rounds = in[0];
  uint32_t* const mailbox = out + rounds * 64;
  if (threadIdx.x < 4) make_barrier(ptx::shared_address(&shared) + 8 * threadIdx.x, threadIdx.x < 2 ? 32 : 64);
  __syncthreads();
  for (unsigned round = 0; round < rounds; ++round) {
    const unsigned stage = round % 2;
    const uint32_t parity = round / 2 & 1;
    const uint32_t full = ptx::shared_address(&shared.full[stage]), empty = ptx::shared_address(&shared.empty[stage]);
    if (warp == 0) {
      completes(empty, parity ^ 1);
      mailbox[stage * 32 + lane] = in[4 + round * 32 + lane];
      ptx::mbarrier_arrive(full);
    } else {
      completes(full, parity);
      out[round * 64 + (warp - 1) * 32 + lane] = mailbox[stage * 32 + 31 - lane] + (warp - 1);
      ptx::mbarrier_arrive(empty);
    }
  }
}

// Blocks of 32 threads in clusters of at most 4. In: 32 words a block. 6 rounds: each thread puts its word plus the
// round into every block of its cluster and arrives there; each block waits for all. Out of each block, for each
// round and each rank: that rank's words, reversed.
static __global__ void remote_arrivals(const uint32_t* in, uint32_t* out) {
  struct Shared {
    uint32_t slots[6][4][32];
    uint64_t barrier;
  };
  auto& shared = dynamic_shared<Shared>();
  const unsigned lane = threadIdx.x;
  const uint32_t rank = ptx::cluster_rank(), size = ptx::cluster_size(), barrier = ptx::shared_address(&shared.barrier);
  if (lane == 0) make_barrier(barrier, 32 * size);
  ptx::cluster_sync();
  out += blockIdx.x * 6 * size * 32;
  for (uint32_t round = 0; round < 6; ++round) {
    const uint32_t word[1] = {in[blockIdx.x * 32 + lane] + round};
    for (uint32_t to = 0; to < size; ++to) {
      ptx::store_shared_cluster(ptx::mapa(ptx::shared_address(&shared.slots[round][rank][lane]), to), word);
      if (to != rank) {
        ptx::mbarrier_arrive_cluster(ptx::mapa(barrier, to));
      } else if (round % 2) {
        ptx::mbarrier_arrive_cluster(barrier);  // the block's own address is one of the cluster's too
      } else {
        ptx::mbarrier_arrive(barrier);
      }
    }
    completes_cluster(barrier, round & 1);
    for (uint32_t from = 0; from < size; ++from)
      out[(round * size + from) * 32 + lane] = shared.slots[round][from][31 - lane];
  }
  ptx::cluster_sync();
}

// ---- clusters ---------------------------------------------------------------------------------------------------

// Clusters of at most 8 blocks of 32 threads. In: 32 words a block. Out of each thread: rank, size, and how far apart
// its word's address and the first word's are in the next rank's memory; then of each rank the word of this thread's
// number.
static __global__ void cluster_ids(const uint32_t* in, uint32_t* out) {
  auto& shared = dynamic_shared<uint32_t[32]>();
  const uint32_t rank = ptx::cluster_rank(), size = ptx::cluster_size(), thread = blockIdx.x * 32 + threadIdx.x;
  const uint32_t base = ptx::shared_address(shared), mine = ptx::shared_address(&shared[threadIdx.x]);
  shared[threadIdx.x] = in[thread];
  ptx::cluster_sync();
  out += thread * (3 + size);
  out[0] = rank;
  out[1] = size;
  out[2] = ptx::mapa(mine, (rank + 1) % size) - ptx::mapa(base, (rank + 1) % size);
  for (uint32_t from = 0; from < size; ++from) {
    uint32_t word[1];
    ptx::load_shared_cluster(word, ptx::mapa(mine, from));
    out[3 + from] = word[0];
  }
  ptx::cluster_sync();
}

// Clusters of blocks of 32 threads, chunks of N words. In: of each thread the rank and chunk that it stores to, the
// rank and chunk that it loads; a chunk a thread. Out of each thread: the chunk loaded, after all have stored, and
// the same once more through the block's own address where the chunk's rank is its own, else zeros.
template <int N>
__global__ void cluster_moves(const uint32_t* in, uint32_t* out) {
  struct alignas(4 * N) Chunk {
    uint32_t words[N];
  };
  auto& shared = dynamic_shared<Chunk[32]>();
  const uint32_t thread = blockIdx.x * 32 + threadIdx.x, threads = gridDim.x * 32;
  const uint32_t* const plan = in + thread * 4;
  uint32_t chunk[N], own[N] = {};
  ptx::load_global(chunk, in + threads * 4 + thread * N);
  ptx::cluster_arrive_relaxed();  // all blocks have begun before any writes to them
  ptx::cluster_wait();
  ptx::store_shared_cluster(ptx::mapa(ptx::shared_address(&shared[plan[1]]), plan[0]), chunk);
  ptx::cluster_sync();
  const uint32_t from = ptx::shared_address(&shared[plan[3]]);
  ptx::load_shared_cluster(chunk, ptx::mapa(from, plan[2]));
  if (plan[2] == ptx::cluster_rank()) ptx::load_shared_cluster(own, from);
  ptx::store_global(out + thread * 2 * N, chunk);
  ptx::store_global(out + (thread * 2 + 1) * N, own);
  ptx::cluster_sync();
}

// Clusters of blocks of 64 threads, 8 rounds. In: 64 words a block. Out of each block and round: the words of the
// rank behind it, reversed, with the round added; each block does something else between arriving and waiting.
static __global__ void cluster_barriers(const uint32_t* in, uint32_t* out) {
  auto& shared = dynamic_shared<uint32_t[64]>();
  const unsigned thread = threadIdx.x;
  const uint32_t next = (ptx::cluster_rank() + 1) % ptx::cluster_size();
  for (uint32_t round = 0; round < 8; ++round) {
    shared[thread] = in[blockIdx.x * 64 + thread] + round;
    ptx::cluster_arrive();
    uint32_t* const result = out + (blockIdx.x * 8 + round) * 64 + thread;
    *result = 0;
    ptx::cluster_wait();
    uint32_t word[1];
    ptx::load_shared_cluster(word, ptx::mapa(ptx::shared_address(&shared[63 - thread]), next));
    *result += word[0];
    ptx::cluster_sync();
  }
}

// ---- dependent launches -----------------------------------------------------------------------------------------

// In: a word a thread. Out: of each of the launches a word a thread: what it makes of all words in, which takes a
// while, plus 3 times what the launch before it gave, from the other end.
static __global__ void dependent_launch(const uint32_t* in, uint32_t* out, unsigned launch) {
  const unsigned threads = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
  ptx::griddepcontrol_launch_dependents();
  uint32_t own = launch;
  for (unsigned i = 0; i < threads; ++i) own = own * 5 + in[(thread + i) % threads];
  ptx::griddepcontrol_wait();
  const uint32_t before = launch == 0 ? 0 : out[(launch - 1) * threads + threads - 1 - thread];
  out[launch * threads + thread] = own + 3 * before;
}

}  // namespace grout::instructions
