// Clusters: addresses in each other's shared memory, loads and stores there, and the barrier of the cluster.
//
// A block ends with its last thread. What it had in shared memory may belong to another block at once, so the end counts as
// a write of all of it: an access by a neighbour that no barrier orders before it is a race, whoever came first, and one
// that comes later is a report.
#include "common/sim/state.h"

namespace grout::sim {

// ---- Addresses ----

unsigned cluster_rank(const Block& block) {
  return unsigned(&block - block.scheduler->cluster().data());
}

Block* block_of_rank(Thread& self, unsigned rank) {
  std::vector<Block>& cluster = self.block->scheduler->cluster();
  return rank < cluster.size() ? &cluster[rank] : nullptr;
}

Block& block_of_cluster_address(Thread& self, std::uint32_t address, const char* what, const Loc& where) {
  const unsigned window = address >> kClusterShift;
  if (!window) return *self.block;
  Block* block = block_of_rank(self, window - 1);
  if (!block) {
    fail(self, Report::Kind::out_of_bounds, where,
         text(what, " at cluster address ", Hex{address}, ", which names block ", window - 1, " of a cluster of ",
              self.block->scheduler->cluster().size()),
         "a cluster address comes from mapa, or is a shared address of the own block");
  }
  if (!block->alive) {
    fail(self, Report::Kind::misuse, where,
         text(what, " at shared offset ", std::int64_t(address % (1u << kClusterShift)) - kSharedBase, " of block ",
              *block, ", rank ", window - 1,
              " of the cluster, which has ended: block exit before a neighbour uses its "
              "shared memory"),
         "a block whose shared memory others may still use ends only after a cluster barrier");
  }
  return *block;
}

void* cluster_memory(Thread& self, std::uint32_t address, unsigned bytes, unsigned alignment, const char* what,
                     const Loc& where) {
  Block& block = block_of_cluster_address(self, address, what, where);
  return shared_memory(self, block, address % (1u << kClusterShift), bytes, alignment, what, where);
}

std::uint32_t cluster_rank(Loc loc) {
  Entry90 entry("%cluster_ctarank", __builtin_return_address(0), loc);
  return cluster_rank(*entry.self.block);
}

std::uint32_t cluster_size(Loc loc) {
  Entry90 entry("%cluster_nctarank", __builtin_return_address(0), loc);
  return std::uint32_t(entry.self.block->scheduler->cluster().size());
}

std::uint32_t mapa(std::uint32_t shared, std::uint32_t rank, Loc loc) {
  Entry90 entry("mapa", __builtin_return_address(0), loc);
  Thread& self = entry.self;
  const std::int64_t offset = std::int64_t(shared) - kSharedBase, size = std::int64_t(self.block->shared_bytes);
  if (offset < 0 || offset > size) {
    fail(self, Report::Kind::out_of_bounds, loc,
         text("mapa of ", Hex{shared}, shared >> kClusterShift ? ", a cluster address" : ", no shared address",
              " of the block's ", size, " bytes"),
         "mapa takes an address in the block's own shared memory");
  }
  if (!block_of_rank(self, rank)) {
    fail(self, Report::Kind::misuse, loc,
         text("mapa to block ", rank, " in a cluster of ", self.block->scheduler->cluster().size()),
         "the rank of mapa is less than the number of blocks in the cluster");
  }
  return (rank + 1) << kClusterShift | shared;
}

// ---- Loads and stores ----
namespace {

void* accessed(Thread& self, std::uint32_t address, unsigned bytes, const char* what, const Loc& where) {
  if (bytes != 4 && bytes != 8 && bytes != 16) {
    fail(self, Report::Kind::misuse, where, text(what, " of ", bytes, " bytes"),
         "a vector access moves 4, 8 or 16 bytes");
  }
  return cluster_memory(self, address, bytes, bytes, what, where);
}

}  // namespace

void load_cluster(void* registers, std::uint32_t cluster_shared, unsigned bytes, Loc loc) {
  Entry90 entry("ld.shared::cluster", __builtin_return_address(0), loc);
  const void* memory = accessed(entry.self, cluster_shared, bytes, "ld.shared::cluster", loc);
  tsan::reads(memory, bytes);
  std::memcpy(registers, memory, bytes);
  ++entry.self.block->scheduler->statistics.cluster_loads;
}

void store_cluster(std::uint32_t cluster_shared, const void* registers, unsigned bytes, Loc loc) {
  Entry90 entry("st.shared::cluster", __builtin_return_address(0), loc);
  void* memory = accessed(entry.self, cluster_shared, bytes, "st.shared::cluster", loc);
  tsan::writes(memory, bytes);
  std::memcpy(memory, registers, bytes);
  ++entry.self.block->scheduler->statistics.cluster_stores;
}

// ---- The barrier ----
// PTX ISA, barrier.cluster: a wait ends when all threads of the cluster that have not exited have arrived.
namespace {

/// Begins the next phase if all have arrived.
void complete_phase(Scheduler& scheduler) {
  ClusterBarrier& barrier = scheduler.cluster_barrier;
  if (!barrier.arrived || barrier.arrived < scheduler.alive()) return;
  ++barrier.phase;
  barrier.arrived = 0;
  ++scheduler.statistics.cluster_barriers;
  for (Block& block : scheduler.cluster()) {
    for (unsigned w = 0; w < block.warp_count; ++w) {
      Warp& warp = block.warps[w];
      if (!warp.cluster_waits) continue;
      warp.cluster_arrived = warp.cluster_waits = false;
      scheduler.wake(warp, warp.live);
    }
  }
}

std::uint32_t arrive(Warp& warp, const Group& group) {
  if (warp.cluster_arrived) {
    fail(warp.threads[std::countr_zero(group.arrived)], Report::Kind::misuse, group.where,
         text("the warp arrives a second time at the cluster barrier; it arrived first at ", warp.cluster_where),
         "barrier.cluster.arrive and barrier.cluster.wait alternate");
  }
  Scheduler& scheduler = *warp.block->scheduler;
  warp.cluster_arrived = true;
  warp.cluster_phase = scheduler.cluster_barrier.phase;
  warp.cluster_where = group.where;
  scheduler.cluster_barrier.arrived += unsigned(std::popcount(group.arrived));
  complete_phase(scheduler);
  return group.arrived;
}

std::uint32_t wait(Warp& warp, const Group& group) {
  if (!warp.cluster_arrived) {
    fail(warp.threads[std::countr_zero(group.arrived)], Report::Kind::misuse, group.where,
         "the warp waits at the cluster barrier without having arrived there",
         "barrier.cluster.arrive and barrier.cluster.wait alternate");
  }
  if (warp.cluster_phase == warp.block->scheduler->cluster_barrier.phase) {
    warp.cluster_waits = true;
    return 0;
  }
  warp.cluster_arrived = false;
  return group.arrived;
}

/// Its two phases take turns: none can arrive in the next but one before all have gone on from this one.
void* sync_address(const Thread& self, unsigned phase) {
  return tsan::on() ? &self.block->scheduler->cluster().front().sync->cluster[phase & 1] : nullptr;
}

}  // namespace

void cluster_arrive(bool relaxed, Loc loc) {
  Entry90 entry("barrier.cluster.arrive", __builtin_return_address(0), loc);
  Thread& self = entry.self;
  if (!relaxed) tsan::release(sync_address(self, self.block->scheduler->cluster_barrier.phase));
  collective(self, Op::cluster_arrive, self.warp->exist, nullptr, loc, arrive);
}

void cluster_wait(Loc loc) {
  Entry90 entry("barrier.cluster.wait", __builtin_return_address(0), loc);
  Thread& self = entry.self;
  collective(self, Op::cluster_wait, self.warp->exist, nullptr, loc, wait);
  tsan::acquire(sync_address(self, self.warp->cluster_phase));
}

void leave_cluster(Thread& self) {
  Block& block = *self.block;
  Scheduler& scheduler = *block.scheduler;
  ClusterBarrier& barrier = scheduler.cluster_barrier;
  if (self.warp->cluster_arrived && self.warp->cluster_phase == barrier.phase) --barrier.arrived;
  complete_phase(scheduler);

  if (tsan::on() && scheduler.cluster().size() > 1) tsan::release(&block.sync->exits);
  if (--block.alive || !tsan::on() || scheduler.cluster().size() == 1) return;
  tsan::acquire(&block.sync->exits);
  tsan::writes(block.shared, block.shared_bytes);
}

}  // namespace grout::sim
