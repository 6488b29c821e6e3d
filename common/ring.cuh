// A ring of stages in shared memory: a producer fills them, consumers drain them, and two mbarriers a stage say when.
//
// full[s]    completed by what fills stage s: `producers` arrivals, and the bytes that were expected. Consumers wait.
// empty[s]   completed by those who have read it: `consumers` arrivals. The producer waits.
//
// Iteration k uses stage k % Stages in round k / Stages; `phase` is the parity of the round. Each barrier completes one
// phase a round. Three stages, P the producer, C the consumer:
//
//   k                                0   1   2   3   4   5   6   7
//   stage                            0   1   2   0   1   2   0   1
//   phase                            0   0   0   1   1   1   0   0
//   P acquire: empty[stage], parity  1   1   1   0   0   0   1   1   phase ^ 1: the phase before this one. Before the first
//                                                                    there is none, and the wait passes
//             waits for C's release  -   -   -   0   1   2   3   4   of iteration k - 3
//   P expect and copy, or store and arrive_full: complete the phase of full[stage]
//   C wait:    full[stage],  parity  0   0   0   1   1   1   0   0   phase
//   C reads the stage, then release: completes the phase of empty[stage]
//
// A parity names a phase only up to the one before. That is enough: P is at most one round ahead of C's releases, and C is
// never ahead of P.
//
// CONTRACT
// participants  each thread that acquires, waits or releases keeps a Position of its own and calls next() once an iteration.
// barriers      `producers`: calls of expect or arrive_full an iteration; `consumers`: calls of release.
// completion    after wait all of the stage may be read; after release this thread reads it no more.
// the end       a producer may end with stages in flight: the consumers wait for them. In a cluster, a block whose barriers
//               or stages others still reach ends behind a cluster barrier.
#pragma once
#include "common/ptx_sm90.cuh"

namespace grout {

template <int Stages> class Ring {
  static_assert(Stages >= 1, "a ring has at least one stage");

 public:
  struct Storage {
    alignas(8) uint64_t full[Stages], empty[Stages];
  };
  // Where a thread is in its walk around the ring.
  struct Position {
    int stage = 0;
    uint32_t phase = 0;
    GROUT_HD void next() {
      if (++stage == Stages) stage = 0, phase ^= 1;
    }
    // What the waits ask for: the stage filled in this round, and released in the round before.
    GROUT_HD uint32_t full_parity() const { return phase; }
    GROUT_HD uint32_t empty_parity() const { return phase ^ 1; }
  };

  GROUT_DEVICE explicit Ring(Storage& storage GROUT_AT)
      : full_(ptx::shared_address(storage.full GROUT_HERE)), empty_(ptx::shared_address(storage.empty GROUT_HERE)) {}

  // One thread, once; then a barrier of the block (of the cluster, where neighbours use the ring) before any other use.
  GROUT_DEVICE void init(uint32_t producers, uint32_t consumers GROUT_AT) const {
    for (int stage = 0; stage < Stages; ++stage) {
      ptx::mbarrier_init(full_ + stage * 8, producers GROUT_HERE);
      ptx::mbarrier_init(empty_ + stage * 8, consumers GROUT_HERE);
    }
    ptx::fence_mbarrier_init(GROUT_HERE_ONLY);
  }

  // Addresses in the block's shared window: the barrier that a copy into the stage counts on, and the one of releases.
  GROUT_DEVICE uint32_t full_barrier(Position p) const { return full_ + p.stage * 8; }
  GROUT_DEVICE uint32_t empty_barrier(Position p) const { return empty_ + p.stage * 8; }

  // Producer: waits until the stage may be written. Any thread.
  GROUT_DEVICE void acquire(Position p GROUT_AT) const {
    while (!ptx::mbarrier_try_wait_parity(empty_barrier(p), p.empty_parity() GROUT_HERE)) {}
  }
  // The same where blocks of the cluster release the stage too (release_in).
  GROUT_DEVICE void acquire_cluster(Position p GROUT_AT) const {
    while (!ptx::mbarrier_try_wait_parity_cluster(empty_barrier(p), p.empty_parity() GROUT_HERE)) {}
  }
  // Producer: one arrival, and the stage is full only when `bytes` have come: all that the block's own copies and its
  // neighbours' multicasts bring. Before the own copies; neighbours' bytes may come earlier.
  GROUT_DEVICE void expect(Position p, uint32_t bytes GROUT_AT) const {
    ptx::mbarrier_arrive_expect_tx(full_barrier(p), bytes GROUT_HERE);
  }
  // Producer that filled the stage with ordinary stores: one arrival.
  GROUT_DEVICE void arrive_full(Position p GROUT_AT) const { ptx::mbarrier_arrive(full_barrier(p) GROUT_HERE); }

  // Consumer: waits until the stage is full; then its bytes may be read. Any thread that reads it.
  GROUT_DEVICE void wait(Position p GROUT_AT) const {
    while (!ptx::mbarrier_try_wait_parity(full_barrier(p), p.full_parity() GROUT_HERE)) {}
  }
  // Consumer: one arrival, after this thread's last read of the stage (or its warp's: __syncwarp, then one lane).
  GROUT_DEVICE void release(Position p GROUT_AT) const { ptx::mbarrier_arrive(empty_barrier(p) GROUT_HERE); }
  // The same at block `rank` of the cluster, whose producer writes this block's stage by multicast. Its own rank is allowed.
  GROUT_DEVICE void release_in(uint32_t rank, Position p GROUT_AT) const {
    ptx::mbarrier_arrive_cluster(ptx::mapa(empty_barrier(p), rank GROUT_HERE) GROUT_HERE);
  }

 private:
  uint32_t full_, empty_;
};

}  // namespace grout
