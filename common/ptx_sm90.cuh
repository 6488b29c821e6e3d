// Instructions that came with compute capability 9.0: mbarriers, bulk and tensor copies (TMA), proxy fences, clusters and
// distributed shared memory, programmatic dependent launch. As in ptx.cuh: one function per PTX instruction, named after it.
//
// Code for an earlier architecture compiles, so that one host entry can hold a kernel and its portable fallback, and traps
// where it is reached: host entries look at the device first.
//
// Addresses. `shared` is an address in the block's own shared window (ptx::shared_address). `cluster_shared` is an address
// in the cluster's window: one from mapa, or a block's own `shared` address, which means that block's memory there too.
// Sections name the PTX ISA, version 9.0.
#pragma once
#include "common/ptx.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define GROUT_SM90(simulated, ...) __trap()
#define GROUT_SM90_OR_NOTHING(simulated, ...)
#else
#define GROUT_SM90(simulated, ...) GROUT_INSTRUCTION(simulated, __VA_ARGS__)
#define GROUT_SM90_OR_NOTHING(simulated, ...) GROUT_INSTRUCTION(simulated, __VA_ARGS__)
#endif

namespace grout::ptx {

// ---- mbarrier (9.7.13.15) ---------------------------------------------------------------------------------------
// A 64-bit object in shared memory, aligned to 8 bytes, that counts arrivals and bytes. A phase is complete when its
// `count` arrivals have come and as many bytes as were expected; the next one begins at once. Phases are told apart by
// their parity: the first has 0.

// mbarrier.init.shared::cta.b64: `count` arrivals a phase, 1 to 2^20 - 1. One thread, before any other use; others may use it
// after fence_mbarrier_init (or fence_proxy_async) by that thread and a barrier of block or cluster.
GROUT_DEVICE void mbarrier_init(uint32_t shared, uint32_t count GROUT_AT) {
  GROUT_SM90(sim::mbarrier_init(shared, count, at),
             asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared), "r"(count) : "memory"));
}

// mbarrier.inval.shared::cta.b64: the memory may be used for something else. One thread, after the last other use.
GROUT_DEVICE void mbarrier_inval(uint32_t shared GROUT_AT) {
  GROUT_SM90(sim::mbarrier_inval(shared, at), asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared) : "memory"));
}

// fence.mbarrier_init.release.cluster (9.7.13.4): makes this thread's earlier mbarrier_inits visible to the asynchronous
// proxy and to the cluster. One thread, after its inits, before the barrier that publishes them.
GROUT_DEVICE void fence_mbarrier_init(GROUT_AT_ONLY) {
  GROUT_SM90(sim::fence_mbarrier_init(at), asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"));
}

// mbarrier.arrive.release.cta: one arrival; orders this thread's earlier accesses before the phase is complete. Any thread.
GROUT_DEVICE void mbarrier_arrive(uint32_t shared GROUT_AT) {
  GROUT_SM90(sim::mbarrier_arrive(shared, at),
             asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared) : "memory"));
}

// mbarrier.arrive.release.cluster: the same at a barrier of any block of the cluster.
GROUT_DEVICE void mbarrier_arrive_cluster(uint32_t cluster_shared GROUT_AT) {
  GROUT_SM90(sim::mbarrier_arrive_cluster(cluster_shared, at),
             asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_shared) : "memory"));
}

// mbarrier.expect_tx.relaxed.cta: the current phase waits for `bytes` more; no arrival. Any thread.
GROUT_DEVICE void mbarrier_expect_tx(uint32_t shared, uint32_t bytes GROUT_AT) {
  GROUT_SM90(sim::mbarrier_expect_tx(shared, bytes, at),
             asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared), "r"(bytes) : "memory"));
}

// mbarrier.arrive.expect_tx.release.cta: both in one, the bytes first. Any thread.
GROUT_DEVICE void mbarrier_arrive_expect_tx(uint32_t shared, uint32_t bytes GROUT_AT) {
  GROUT_SM90(sim::mbarrier_arrive_expect_tx(shared, bytes, at),
             asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared), "r"(bytes)
                          : "memory"));
}

// mbarrier.try_wait.parity.acquire.cta: has the phase of that parity completed? May suspend the thread for a while; false
// means "not yet, ask again". "The phase of parity p" is the current or the one before it: a thread that lags two phases
// behind cannot tell. Any thread.
GROUT_DEVICE bool mbarrier_try_wait_parity(uint32_t shared, uint32_t parity GROUT_AT) {
  uint32_t done = 0;
  GROUT_SM90(done = sim::mbarrier_try_wait_parity(shared, parity, false, at),
             asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                          : "=r"(done)
                          : "r"(shared), "r"(parity)
                          : "memory"));
  return done != 0;
}

// The same with .acquire.cluster: also after arrivals that other blocks of the cluster made.
GROUT_DEVICE bool mbarrier_try_wait_parity_cluster(uint32_t shared, uint32_t parity GROUT_AT) {
  uint32_t done = 0;
  GROUT_SM90(
      done = sim::mbarrier_try_wait_parity(shared, parity, true, at),
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(shared), "r"(parity)
                   : "memory"));
  return done != 0;
}

// ---- proxy fences (9.7.13.4) ------------------------------------------------------------------------------------
// The copy engine reaches memory through the asynchronous proxy. What ordinary stores (the generic proxy) wrote, it sees only
// after a proxy fence on the way from the store to the copy: by each writer before the barrier, or by the issuer after it.

// fence.proxy.async.shared::cta: this thread's view of the block's shared memory. Any thread.
GROUT_DEVICE void fence_proxy_async_shared(GROUT_AT_ONLY) {
  GROUT_SM90(sim::fence_proxy_async(at), asm volatile("fence.proxy.async.shared::cta;" ::: "memory"));
}
// fence.proxy.async.global: of global memory. Any thread.
GROUT_DEVICE void fence_proxy_async_global(GROUT_AT_ONLY) {
  GROUT_SM90(sim::fence_proxy_async_global(at), asm volatile("fence.proxy.async.global;" ::: "memory"));
}

// ---- bulk copies (9.7.9.25.4) -----------------------------------------------------------------------------------
// Contiguous bytes: addresses and `bytes` are multiples of 16. Any one thread issues.

// cp.async.bulk.shared::cluster.global: global -> the own block's shared memory. Complete, and visible to whoever waits,
// when the phase of `barrier` is: it counts `bytes`.
GROUT_DEVICE void cp_async_bulk_load(uint32_t shared, const void* global, uint32_t bytes, uint32_t barrier GROUT_AT) {
  GROUT_SM90(sim::bulk_load(shared, global, bytes, barrier, 0, at),
             asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
                          "l"(global), "r"(bytes), "r"(barrier)
                          : "memory"));
}

// The same to every block of the cluster whose bit is set in `blocks`, at the same offsets of its shared memory, data and
// barrier alike.
GROUT_DEVICE void cp_async_bulk_load_multicast(uint32_t shared, const void* global, uint32_t bytes, uint32_t barrier,
                                               uint16_t blocks GROUT_AT) {
  GROUT_SM90(sim::bulk_load(shared, global, bytes, barrier, blocks, at),
             asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
                          "[%3], %4;" ::"r"(shared),
                          "l"(global), "r"(bytes), "r"(barrier), "h"(blocks)
                          : "memory"));
}

// cp.async.bulk.shared::cluster.shared::cta: own shared memory -> that of a block of the cluster; `barrier` lies in the
// destination's block. What is copied was fenced (fence_proxy_async_shared). Only in launches with clusters of more than one
// block: elsewhere it traps (illegal instruction, seen on sm_90).
GROUT_DEVICE void cp_async_bulk_to_cluster(uint32_t cluster_shared, uint32_t shared, uint32_t bytes,
                                           uint32_t cluster_barrier GROUT_AT) {
  GROUT_SM90(sim::bulk_to_cluster(cluster_shared, shared, bytes, cluster_barrier, at),
             asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                              cluster_shared),
                          "r"(shared), "r"(bytes), "r"(cluster_barrier)
                          : "memory"));
}

// cp.async.bulk.global.shared::cta: shared -> global, in this thread's current bulk group. What is copied was fenced.
GROUT_DEVICE void cp_async_bulk_store(void* global, uint32_t shared, uint32_t bytes GROUT_AT) {
  GROUT_SM90(sim::bulk_store(global, shared, bytes, at),
             asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared), "r"(bytes)
                          : "memory"));
}

// cp.async.bulk.commit_group: this thread's bulk and tensor stores since its last commit become one group, perhaps empty.
GROUT_DEVICE void cp_async_bulk_commit_group(GROUT_AT_ONLY) {
  GROUT_SM90(sim::bulk_commit_group(at), asm volatile("cp.async.bulk.commit_group;" ::: "memory"));
}

// cp.async.bulk.wait_group N: waits until at most the N newest groups of this thread are unfinished. Then the others' writes
// are made. Only the thread that issued can wait for them.
template <int N> GROUT_DEVICE void cp_async_bulk_wait_group(GROUT_AT_ONLY) {
  static_assert(N >= 0, "cp.async.bulk.wait_group takes 0 or more");
  GROUT_SM90(sim::bulk_wait_group(N, false, at), asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"));
}
// cp.async.bulk.wait_group.read N: until the others' *sources* have been read, so that their shared memory may be reused.
template <int N> GROUT_DEVICE void cp_async_bulk_wait_group_read(GROUT_AT_ONLY) {
  static_assert(N >= 0, "cp.async.bulk.wait_group.read takes 0 or more");
  GROUT_SM90(sim::bulk_wait_group(N, true, at), asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"));
}

// ---- tensor copies (9.7.9.27) -----------------------------------------------------------------------------------
// A box of a tensor map (tensor_map.cuh) whose first element has these coordinates, fastest first; they may lie outside,
// where loads give zeros. Stores write nothing there, except that along the fastest dimension they write whole units of 16
// bytes: a row whose extent is not a multiple of 16 bytes is written up to the next one (seen on sm_90). The box in shared
// memory is dense, fastest dimension first, swizzled as the map says; it starts at a multiple of 128 bytes, swizzled boxes at
// one of the pattern's period (256, 512, 1024). The start in the fastest dimension lies a multiple of 16 bytes from the row's
// begin. The map is a __grid_constant__ parameter. Any one thread.

// cp.async.bulk.tensor.{1,2,3}d.shared::cluster.global.tile: the barrier counts the whole box, zeros included.
template <int Rank>
GROUT_DEVICE void cp_async_bulk_tensor_load(uint32_t shared, const TensorMap& map, const int32_t (&c)[Rank],
                                            uint32_t barrier GROUT_AT) {
  static_assert(Rank >= 1 && Rank <= 3, "tensor copies of 1 to 3 dimensions");
  if constexpr (Rank == 1) {
    GROUT_SM90(sim::tensor_load(shared, map, c, 1, barrier, 0, at),
               asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3}], "
                            "[%2];" ::"r"(shared),
                            "l"(&map), "r"(barrier), "r"(c[0])
                            : "memory"));
  } else if constexpr (Rank == 2) {
    GROUT_SM90(sim::tensor_load(shared, map, c, 2, barrier, 0, at),
               asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
                            "%4}], [%2];" ::"r"(shared),
                            "l"(&map), "r"(barrier), "r"(c[0]), "r"(c[1])
                            : "memory"));
  } else {
    GROUT_SM90(sim::tensor_load(shared, map, c, 3, barrier, 0, at),
               asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
                            "%4, %5}], [%2];" ::"r"(shared),
                            "l"(&map), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2])
                            : "memory"));
  }
}

// The same to every block of the cluster whose bit is set in `blocks`, at the same offsets, data and barrier alike.
template <int Rank>
GROUT_DEVICE void cp_async_bulk_tensor_load_multicast(uint32_t shared, const TensorMap& map, const int32_t (&c)[Rank],
                                                      uint32_t barrier, uint16_t blocks GROUT_AT) {
  static_assert(Rank >= 1 && Rank <= 3, "tensor copies of 1 to 3 dimensions");
  if constexpr (Rank == 1) {
    GROUT_SM90(sim::tensor_load(shared, map, c, 1, barrier, blocks, at),
               asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                            "[%0], [%1, {%4}], [%2], %3;" ::"r"(shared),
                            "l"(&map), "r"(barrier), "h"(blocks), "r"(c[0])
                            : "memory"));
  } else if constexpr (Rank == 2) {
    GROUT_SM90(sim::tensor_load(shared, map, c, 2, barrier, blocks, at),
               asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                            "[%0], [%1, {%4, %5}], [%2], %3;" ::"r"(shared),
                            "l"(&map), "r"(barrier), "h"(blocks), "r"(c[0]), "r"(c[1])
                            : "memory"));
  } else {
    GROUT_SM90(sim::tensor_load(shared, map, c, 3, barrier, blocks, at),
               asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                            "[%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared),
                            "l"(&map), "r"(barrier), "h"(blocks), "r"(c[0]), "r"(c[1]), "r"(c[2])
                            : "memory"));
  }
}

// cp.async.bulk.tensor.{1,2,3}d.global.shared::cta.tile: in this thread's current bulk group. What is copied was fenced.
// Coordinates are 0 or more: a store that starts before the tensor traps (illegal instruction, seen on sm_90).
template <int Rank>
GROUT_DEVICE void cp_async_bulk_tensor_store(const TensorMap& map, const int32_t (&c)[Rank], uint32_t shared GROUT_AT) {
  static_assert(Rank >= 1 && Rank <= 3, "tensor copies of 1 to 3 dimensions");
  if constexpr (Rank == 1) {
    GROUT_SM90(sim::tensor_store(map, c, 1, shared, at),
               asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%2}], [%1];" ::"l"(&map), "r"(shared),
                            "r"(c[0])
                            : "memory"));
  } else if constexpr (Rank == 2) {
    GROUT_SM90(sim::tensor_store(map, c, 2, shared, at),
               asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
                            "r"(shared), "r"(c[0]), "r"(c[1])
                            : "memory"));
  } else {
    GROUT_SM90(sim::tensor_store(map, c, 3, shared, at),
               asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
                            "r"(shared), "r"(c[0]), "r"(c[1]), "r"(c[2])
                            : "memory"));
  }
}

// prefetch.tensormap: brings the map closer before its first use. Any one thread.
GROUT_DEVICE void prefetch_tensormap(const TensorMap& map GROUT_AT) {
  GROUT_SM90(sim::prefetch_tensormap(map, at), asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"));
}

// ---- clusters (9.7.13.3, 9.7.9.23, 10) --------------------------------------------------------------------------

// %cluster_ctarank and %cluster_nctarank: this block's number in its cluster, and how many there are.
GROUT_DEVICE uint32_t cluster_rank(GROUT_AT_ONLY) {
  uint32_t rank = 0;
  GROUT_SM90(rank = sim::cluster_rank(at), asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank)));
  return rank;
}
GROUT_DEVICE uint32_t cluster_size(GROUT_AT_ONLY) {
  uint32_t size = 1;
  GROUT_SM90(size = sim::cluster_size(at), asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size)));
  return size;
}

// mapa.shared::cluster.u32: the address, in the cluster's window, of the same place in block `rank`'s shared memory.
GROUT_DEVICE uint32_t mapa(uint32_t shared, uint32_t rank GROUT_AT) {
  uint32_t address = 0;
  GROUT_SM90(address = sim::mapa(shared, rank, at),
             asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank)));
  return address;
}

// barrier.cluster.arrive{.relaxed} and .wait (.aligned): all threads of all blocks of the cluster arrive, then wait. arrive
// releases and wait acquires: what was written before, to shared memory of any block too, is seen behind. .relaxed orders
// nothing. A block whose shared memory others may still use ends only after such a barrier. Whole warps.
GROUT_DEVICE void cluster_arrive(GROUT_AT_ONLY) {
  GROUT_SM90(sim::cluster_arrive(false, at), asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"));
}
GROUT_DEVICE void cluster_arrive_relaxed(GROUT_AT_ONLY) {
  GROUT_SM90(sim::cluster_arrive(true, at), asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"));
}
GROUT_DEVICE void cluster_wait(GROUT_AT_ONLY) {
  GROUT_SM90(sim::cluster_wait(at), asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"));
}
GROUT_DEVICE void cluster_sync(GROUT_AT_ONLY) {
  cluster_arrive(GROUT_HERE_ONLY);
  cluster_wait(GROUT_HERE_ONLY);
}

// ld.shared::cluster and st.shared::cluster .{b32,v2.b32,v4.b32}: N registers at an address aligned to 4 N bytes. Any thread.
template <int N> GROUT_DEVICE void load_shared_cluster(uint32_t (&r)[N], uint32_t cluster_shared GROUT_AT) {
  static_assert(N == 1 || N == 2 || N == 4, "a vector access moves 1, 2 or 4 registers");
  if constexpr (N == 1) {
    GROUT_SM90(sim::load_cluster(r, cluster_shared, 4, at),
               asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(r[0]) : "r"(cluster_shared) : "memory"));
  } else if constexpr (N == 2) {
    GROUT_SM90(sim::load_cluster(r, cluster_shared, 8, at),
               asm volatile("ld.shared::cluster.v2.b32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(cluster_shared) : "memory"));
  } else {
    GROUT_SM90(sim::load_cluster(r, cluster_shared, 16, at),
               asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
                            : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                            : "r"(cluster_shared)
                            : "memory"));
  }
}
template <int N> GROUT_DEVICE void store_shared_cluster(uint32_t cluster_shared, const uint32_t (&r)[N] GROUT_AT) {
  static_assert(N == 1 || N == 2 || N == 4, "a vector access moves 1, 2 or 4 registers");
  if constexpr (N == 1) {
    GROUT_SM90(sim::store_cluster(cluster_shared, r, 4, at),
               asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(cluster_shared), "r"(r[0]) : "memory"));
  } else if constexpr (N == 2) {
    GROUT_SM90(sim::store_cluster(cluster_shared, r, 8, at),
               asm volatile("st.shared::cluster.v2.b32 [%0], {%1, %2};" ::"r"(cluster_shared), "r"(r[0]), "r"(r[1]) : "memory"));
  } else {
    GROUT_SM90(sim::store_cluster(cluster_shared, r, 16, at),
               asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(cluster_shared), "r"(r[0]), "r"(r[1]),
                            "r"(r[2]), "r"(r[3])
                            : "memory"));
  }
}

// ---- programmatic dependent launch (9.7.13.13) ------------------------------------------------------------------

// griddepcontrol.wait: waits until the grids that this launch depends on are complete and their writes visible. Nothing where
// the launch was not `programmatic` (and before 9.0, where none is). Any thread, before it reads what they wrote or writes
// what they use.
GROUT_DEVICE void griddepcontrol_wait(GROUT_AT_ONLY) {
  GROUT_SM90_OR_NOTHING(sim::griddepcontrol_wait(at), asm volatile("griddepcontrol.wait;" ::: "memory"));
}

// griddepcontrol.launch_dependents: this block does not mind if the grids that depend on it begin; they do when all blocks
// said so or ended. Says nothing about memory. Any thread.
GROUT_DEVICE void griddepcontrol_launch_dependents(GROUT_AT_ONLY) {
  GROUT_SM90_OR_NOTHING(sim::griddepcontrol_launch_dependents(at), asm volatile("griddepcontrol.launch_dependents;" ::: "memory"));
}

}  // namespace grout::ptx
