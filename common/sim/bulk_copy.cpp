// Bulk copies of contiguous bytes, and the groups that a thread's bulk and tensor stores are waited for in.
#include "common/sim/state.h"

namespace grout::sim {
namespace {

void check_size(Thread& self, const char* what, std::uint32_t bytes, const Loc& where) {
  if (bytes && bytes % 16 == 0) return;
  fail(self, Report::Kind::misuse, where, text(what, " of ", bytes, " bytes"),
       "the size of a bulk copy is a multiple of 16 bytes, and not 0");
}

/// The piece of a copy between shared and global memory.
Piece piece(Thread& self, const char* what, std::uint32_t shared, const void* global, std::uint32_t bytes,
            const Loc& where) {
  check_size(self, what, bytes, where);
  if (reinterpret_cast<std::uintptr_t>(global) % 16) {
    fail(self, Report::Kind::misuse, where,
         text(what, " with global address ", Hex{reinterpret_cast<std::uintptr_t>(global)}),
         "both addresses of a bulk copy are multiples of 16 bytes");
  }
  void* memory = shared_memory(self, shared, bytes, 16, what, where);
  return {std::uint32_t(static_cast<unsigned char*>(memory) - self.block->shared), bytes,
          const_cast<unsigned char*>(static_cast<const unsigned char*>(global))};
}

}  // namespace

void add_targets(Thread& self, Copy& copy, std::uint32_t barrier, std::uint16_t blocks) {
  if (!blocks) return add_target(self, copy, *self.block, barrier);
  const auto size = unsigned(self.block->scheduler->cluster().size());
  if (blocks >> size) {
    fail(self, Report::Kind::misuse, copy.where,
         text(copy.name, " to the blocks of mask ", Hex{blocks}, " in a cluster of ", size),
         "a multicast mask names only blocks of the cluster");
  }
  for_each_lane(blocks, [&](unsigned rank) {
    add_target(self, copy, block_of_cluster_address(self, (rank + 1) << kClusterShift | barrier, copy.name, copy.where),
               barrier);
  });
}

void check_global(Thread& self, const Copy& copy) {
  const bool stores = copy.kind == Copy::Kind::store;
  for (const Piece& piece : copy.pieces) {
    const void* bad = piece.global ? asan::first_poisoned(piece.global, piece.bytes) : nullptr;
    if (!bad) continue;
    fail(self, Report::Kind::out_of_bounds, copy.where,
         text(copy.name, stores ? " writes " : " reads ", piece.bytes, " bytes of global memory, of which byte ",
              static_cast<const unsigned char*>(bad) - piece.global, " is not in any allocation"),
         stores ? "a store's destination lies in allocated memory" : "a load's source lies in allocated memory");
  }
}

void bulk_load(std::uint32_t shared, const void* global, std::uint32_t bytes, std::uint32_t barrier, std::uint16_t blocks,
               Loc loc) {
  constexpr const char* kName = "cp.async.bulk.shared::cluster.global";
  void* caller = __builtin_return_address(0);
  Entry90 entry(kName, caller, loc);
  Thread& self = entry.self;
  Engine& engine = self.block->scheduler->engine;
  const Piece whole = piece(self, kName, shared, global, bytes, loc);
  Copy& copy = engine.prepare(Copy::Kind::load, kName, self, loc, caller);
  copy.pieces.push_back(whole);
  copy.bytes = bytes;
  check_global(self, copy);
  add_targets(self, copy, barrier, blocks);
  ++self.block->scheduler->statistics.bulk_loads;
  engine.issue();
}

void bulk_to_cluster(std::uint32_t cluster_shared, std::uint32_t shared, std::uint32_t bytes, std::uint32_t cluster_barrier,
                     Loc loc) {
  constexpr const char* kName = "cp.async.bulk.shared::cluster.shared::cta";
  void* caller = __builtin_return_address(0);
  Entry90 entry(kName, caller, loc);
  Thread& self = entry.self;
  Engine& engine = self.block->scheduler->engine;
  check_size(self, kName, bytes, loc);
  if (self.block->scheduler->launch().cluster < 2) {
    fail(self, Report::Kind::misuse, loc, text(kName, " in a launch without clusters"),
         "copies between blocks belong in a launch with clusters of more than one block: elsewhere the hardware traps");
  }
  void* source = shared_memory(self, shared, bytes, 16, kName, loc);
  Block& block = block_of_cluster_address(self, cluster_shared, kName, loc);
  if (&block != &block_of_cluster_address(self, cluster_barrier, kName, loc)) {
    fail(self, Report::Kind::misuse, loc, text(kName, " to block ", block, " with a barrier of another block"),
         "the barrier of a copy to another block's shared memory lies there too");
  }
  void* memory = cluster_memory(self, cluster_shared, bytes, 16, kName, loc);
  Copy& copy = engine.prepare(Copy::Kind::to_cluster, kName, self, loc, caller);
  copy.source_offset = std::uint32_t(static_cast<unsigned char*>(source) - self.block->shared);
  copy.pieces.push_back({std::uint32_t(static_cast<unsigned char*>(memory) - block.shared), bytes, nullptr});
  copy.bytes = bytes;
  add_target(self, copy, block, cluster_barrier % (1u << kClusterShift));
  ++self.block->scheduler->statistics.bulk_loads;
  engine.issue();
}

void bulk_store(void* global, std::uint32_t shared, std::uint32_t bytes, Loc loc) {
  constexpr const char* kName = "cp.async.bulk.global.shared::cta";
  void* caller = __builtin_return_address(0);
  Entry90 entry(kName, caller, loc);
  Thread& self = entry.self;
  Engine& engine = self.block->scheduler->engine;
  const Piece whole = piece(self, kName, shared, global, bytes, loc);
  Copy& copy = engine.prepare(Copy::Kind::store, kName, self, loc, caller);
  copy.pieces.push_back(whole);
  check_global(self, copy);
  ++self.block->scheduler->statistics.bulk_stores;
  engine.issue();
}

void bulk_commit_group(Loc loc) {
  Entry90 entry("cp.async.bulk.commit_group", __builtin_return_address(0), loc);
  ++entry.self.store_groups;
}

void bulk_wait_group(int n, bool read, Loc loc) {
  const char* name = read ? "cp.async.bulk.wait_group.read" : "cp.async.bulk.wait_group";
  Entry90 entry(name, __builtin_return_address(0), loc);
  Thread& self = entry.self;
  if (n < 0) {
    fail(self, Report::Kind::misuse, loc, text(name, " ", n), "the number of groups that may stay pending is 0 or more");
  }
  const unsigned groups = self.store_groups > unsigned(n) ? self.store_groups - unsigned(n) : 0;
  const auto waited_for = [&](const auto& copy) { return copy->group < groups; };
  const auto pending = [&](const auto& copy) { return waited_for(copy) && !(read ? copy->read : copy->written); };
  while (std::any_of(self.stores.begin(), self.stores.end(), pending)) {
    self.where = loc;
    self.waits_for_stores = true;
    self.block->scheduler->yield();
  }
  for (const auto& copy : self.stores) {
    if (!waited_for(copy)) continue;
    tsan::acquire(read ? &copy->read_sync : &copy->written_sync);
    copy->waited = true;
  }
  if (!read) std::erase_if(self.stores, waited_for);
}

void check_stores_at_exit(Thread& self) {
  const auto open = [&](const auto& copy) { return !copy->waited; };
  const auto first = std::find_if(self.stores.begin(), self.stores.end(), open);
  if (first == self.stores.end()) return;
  const bool committed = (*first)->group < self.store_groups;
  fail(self, Report::Kind::misuse, (*first)->where,
       text("the thread exits with bulk stores that may still read its shared memory; the first was issued here and ",
            committed ? "never waited for" : "never committed"),
       "a thread commits its bulk stores and waits for them, at least with .read, before it ends");
}

}  // namespace grout::sim
