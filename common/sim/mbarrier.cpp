// mbarriers: phases that complete when their arrivals and their bytes have come. Each lies in its block's table, by its
// place in shared memory.
#include "common/sim/state.h"

namespace grout::sim {
namespace {

constexpr std::uint32_t kMaxCount = (1u << 20) - 1;  // of arrivals and of bytes
constexpr std::uint64_t kPattern = 0x7265697272616274;
constexpr unsigned kBytes = 8;
constexpr unsigned kMaxRefusals = 16;  // of a thread, for one phase; more is a deadlock

char* sync_address(Block& block, const MBarrier& barrier, unsigned phase, bool remote) {
  return reinterpret_cast<char*>(block.shared + barrier.offset + (phase & 1) + (remote ? 2 : 0));
}

bool in_flight(const MBarrier& barrier) {
  return barrier.copied > barrier.seen;
}

/// Completes the phase if all has come.
void settle(Block& block, MBarrier& barrier) {
  if (barrier.pending || barrier.tx) return;
  ++barrier.phase;
  barrier.pending = barrier.count;
  ++block.scheduler->statistics.mbarrier_phases;
  for (Thread* thread : barrier.waiters) block.scheduler->wake(*thread->warp, 1u << thread->lane);
  barrier.waiters.clear();
}

void expect(Thread& self, MBarrier& barrier, std::uint32_t bytes, const char* what, const Loc& where) {
  if (bytes > kMaxCount || barrier.tx + bytes > kMaxCount) {
    fail(self, Report::Kind::misuse, where,
         text(what, " of ", bytes, " bytes at shared offset ", barrier.offset, ", where ", barrier.tx, " are outstanding"),
         "a phase of an mbarrier has at most 1048575 bytes outstanding");
  }
  barrier.tx += bytes;
}

void arrive(Thread& self, Block& block, MBarrier& barrier, const char* what, const Loc& where) {
  if (!barrier.pending) {
    fail(self, Report::Kind::misuse, where,
         text(what, " at shared offset ", barrier.offset, ": the ", barrier.count, " arrivals of phase ", barrier.phase,
              " have all come, and ", barrier.tx, " bytes are outstanding"),
         "a phase takes as many arrivals as mbarrier.init gave, and a thread arrives again only when it is complete");
  }
  tsan::release(sync_address(block, barrier, barrier.phase, self.block != &block));
  --barrier.pending;
  settle(block, barrier);
}

void publish_inits(Thread& self) {
  for (auto& [offset, barrier] : self.block->mbarriers) barrier.fenced |= barrier.initialiser == &self;
}

[[noreturn]] void not_fenced(Thread& self, const MBarrier& barrier, const char* what, const Loc& where) {
  fail(self, Report::Kind::misuse, where,
       text(what, " on the mbarrier at shared offset ", barrier.offset, ", initialised without a fence at ", barrier.where),
       "the thread that initialises an mbarrier executes fence.mbarrier_init before copies or other blocks use it");
}

}  // namespace

MBarrier& mbarrier_at(Thread& self, Block& block, std::uint32_t address, const char* what, const Loc& where) {
  void* memory = shared_memory(self, block, address, kBytes, kBytes, what, where);
  const auto offset = std::uint32_t(static_cast<unsigned char*>(memory) - block.shared);
  const auto found = block.mbarriers.find(offset);
  if (found == block.mbarriers.end()) {
    fail(self, Report::Kind::misuse, where, text(what, " at shared offset ", offset, ", where no mbarrier is initialised"),
         "mbarrier.init comes before every other use of a barrier, and mbarrier.inval after the last");
  }
  std::uint64_t pattern;
  std::memcpy(&pattern, memory, kBytes);
  if (pattern != kPattern) {
    fail(self, Report::Kind::misuse, where,
         text(what, " on the mbarrier at shared offset ", offset, ", initialised at ", found->second.where,
              ", which something has overwritten"),
         "between mbarrier.init and mbarrier.inval only mbarrier instructions touch the 8 bytes of a barrier");
  }
  tsan::reads(memory, kBytes);
  return found->second;
}

void add_target(Thread& self, Copy& copy, Block& block, std::uint32_t address) {
  MBarrier& barrier = mbarrier_at(self, block, address, copy.name, copy.where);
  if (!barrier.fenced) not_fenced(self, barrier, copy.name, copy.where);
  copy.targets.push_back({&block, barrier.offset, barrier.serial, barrier.phase});
  barrier.copied = barrier.phase + 1;
  barrier.copier = &self;
  barrier.copied_at = copy.where;
}

std::optional<Report> complete_copy(const Copy& copy, const Copy::Target& target) {
  Block& block = *target.block;
  const auto found = block.mbarriers.find(target.offset);
  if (found == block.mbarriers.end() || found->second.serial != target.serial) {
    return paragraph(*copy.issuer, Report::Kind::misuse, copy.where,
                     text(copy.name, " completes on the mbarrier at shared offset ", target.offset, " of block ", block,
                          ", which is not there any more"),
                     "mbarrier.inval comes after all copies on the barrier are complete");
  }
  MBarrier& barrier = found->second;
  if (barrier.phase != target.phase) {
    return paragraph(*copy.issuer, Report::Kind::misuse, copy.where,
                     text(copy.name, ", issued in phase ", target.phase, " of the mbarrier at shared offset ", target.offset,
                          " of block ", block, ", brings its ", copy.bytes, " bytes in phase ", barrier.phase),
                     "a phase expects all bytes of the copies that are issued in it (mbarrier.expect_tx); else it completes "
                     "before they come");
  }
  if (barrier.tx - std::int64_t(copy.bytes) < -std::int64_t(kMaxCount)) {
    return paragraph(*copy.issuer, Report::Kind::misuse, copy.where,
                     text(copy.name, " brings ", copy.bytes, " bytes to the mbarrier at shared offset ", target.offset,
                          ", where ", barrier.tx, " are outstanding"),
                     "a phase of an mbarrier gets at most 1048575 bytes more than it expects so far");
  }
  tsan::reads(block.shared + barrier.offset, kBytes);
  tsan::release(sync_address(block, barrier, barrier.phase, false));
  barrier.tx -= copy.bytes;
  settle(block, barrier);
  return {};
}

void check_mbarriers_at_exit(Thread& self) {
  const Block& block = *self.block;
  if (block.alive > 1) return;
  for (const auto& [offset, barrier] : block.mbarriers) {
    if (!in_flight(barrier)) continue;
    fail(*barrier.copier, Report::Kind::misuse, barrier.copied_at,
         text("block ", block, " ends, and none of its threads waited for this copy, on its mbarrier at shared offset ",
              offset, ", phase ", barrier.copied - 1),
         "a block waits for all copies into its shared memory before it ends: they may still write there");
  }
}

// ---- Instructions ----

void mbarrier_init(std::uint32_t shared, std::uint32_t count, Loc loc) {
  Entry90 entry("mbarrier.init", __builtin_return_address(0), loc);
  Thread& self = entry.self;
  void* memory = shared_memory(self, shared, kBytes, kBytes, "mbarrier.init", loc);
  Block& block = *self.block;
  const auto offset = std::uint32_t(static_cast<unsigned char*>(memory) - block.shared);
  if (count < 1 || count > kMaxCount) {
    fail(self, Report::Kind::misuse, loc, text("mbarrier.init at shared offset ", offset, " with a count of ", count),
         "an mbarrier counts 1 to 1048575 arrivals");
  }
  if (const auto found = block.mbarriers.find(offset); found != block.mbarriers.end()) {
    fail(self, Report::Kind::misuse, loc,
         text("mbarrier.init at shared offset ", offset, ", where the mbarrier initialised at ", found->second.where,
              " still is"),
         "mbarrier.inval comes before another mbarrier.init at the same place");
  }
  tsan::writes(memory, kBytes);
  std::memcpy(memory, &kPattern, kBytes);
  MBarrier& barrier = block.mbarriers[offset];
  barrier.offset = offset;
  barrier.count = barrier.pending = count;
  barrier.serial = block.mbarrier_inits++;
  barrier.initialiser = &self;
  barrier.where = loc;
}

void mbarrier_inval(std::uint32_t shared, Loc loc) {
  Entry90 entry("mbarrier.inval", __builtin_return_address(0), loc);
  Block& block = *entry.self.block;
  const MBarrier& barrier = mbarrier_at(entry.self, block, shared, "mbarrier.inval", loc);
  if (in_flight(barrier) || !barrier.waiters.empty()) {
    fail(entry.self, Report::Kind::misuse, loc,
         text("mbarrier.inval at shared offset ", barrier.offset,
              in_flight(barrier) ? ", where nobody waited for a copy issued at " : ", where a thread waits at ",
              in_flight(barrier) ? barrier.copied_at : barrier.waiters.front()->where),
         "mbarrier.inval comes after every other use of the barrier");
  }
  tsan::writes(block.shared + barrier.offset, kBytes);
  block.mbarriers.erase(barrier.offset);
}

void fence_mbarrier_init(Loc loc) {
  Entry90 entry("fence.mbarrier_init", __builtin_return_address(0), loc);
  publish_inits(entry.self);
}

void mbarrier_arrive(std::uint32_t shared, Loc loc) {
  Entry90 entry("mbarrier.arrive", __builtin_return_address(0), loc);
  Block& block = *entry.self.block;
  arrive(entry.self, block, mbarrier_at(entry.self, block, shared, "mbarrier.arrive", loc), "mbarrier.arrive", loc);
}

void mbarrier_arrive_cluster(std::uint32_t cluster_shared, Loc loc) {
  constexpr const char* kName = "mbarrier.arrive.shared::cluster";
  Entry90 entry(kName, __builtin_return_address(0), loc);
  Thread& self = entry.self;
  Block& block = block_of_cluster_address(self, cluster_shared, kName, loc);
  MBarrier& barrier = mbarrier_at(self, block, cluster_shared % (1u << kClusterShift), kName, loc);
  if (&block != self.block && !barrier.fenced) not_fenced(self, barrier, kName, loc);
  arrive(self, block, barrier, kName, loc);
}

void mbarrier_expect_tx(std::uint32_t shared, std::uint32_t bytes, Loc loc) {
  constexpr const char* kName = "mbarrier.expect_tx";
  Entry90 entry(kName, __builtin_return_address(0), loc);
  Block& block = *entry.self.block;
  MBarrier& barrier = mbarrier_at(entry.self, block, shared, kName, loc);
  expect(entry.self, barrier, bytes, kName, loc);
  settle(block, barrier);
}

void mbarrier_arrive_expect_tx(std::uint32_t shared, std::uint32_t bytes, Loc loc) {
  constexpr const char* kName = "mbarrier.arrive.expect_tx";
  Entry90 entry(kName, __builtin_return_address(0), loc);
  Block& block = *entry.self.block;
  MBarrier& barrier = mbarrier_at(entry.self, block, shared, kName, loc);
  expect(entry.self, barrier, bytes, kName, loc);
  arrive(entry.self, block, barrier, kName, loc);
}

bool time_out(Block& block) {
  bool any = false;
  for (auto& [offset, barrier] : block.mbarriers) {
    any |= std::erase_if(barrier.waiters, [&](Thread* thread) {
      if (barrier.refusals[thread->number].count >= kMaxRefusals) return false;
      block.scheduler->wake(*thread->warp, 1u << thread->lane);
      return true;
    }) > 0;
  }
  return any;
}

// The first question about a phase that is not complete is answered at once: callers must ask again. The next ones wait until
// it is, or, while no thread can run, for a time-out. So one that lags two phases behind ends in a deadlock.
bool mbarrier_try_wait_parity(std::uint32_t shared, std::uint32_t parity, bool cluster, Loc loc) {
  constexpr const char* kName = "mbarrier.try_wait";
  Entry90 entry(kName, __builtin_return_address(0), loc);
  Thread& self = entry.self;
  Block& block = *self.block;
  MBarrier& barrier = mbarrier_at(self, block, shared, kName, loc);
  if (parity > 1) {
    fail(self, Report::Kind::misuse, loc, text(kName, " with parity ", parity, " at shared offset ", barrier.offset),
         "the parity of a phase is 0 or 1");
  }
  if ((barrier.phase & 1) == parity) {
    if (barrier.refusals.empty()) barrier.refusals.resize(block.size);
    Refusals& refusals = barrier.refusals[self.number];
    if (refusals.phase != barrier.phase) refusals = {barrier.phase};
    if (!refusals.count++) return false;
    barrier.waiters.push_back(&self);
    self.where = loc;
    self.mbarrier = &barrier;
    block.scheduler->yield();
    self.mbarrier = nullptr;
    if ((barrier.phase & 1) == parity) return false;
  }
  barrier.seen = barrier.phase;
  tsan::acquire(sync_address(block, barrier, parity, false));
  if (cluster) tsan::acquire(sync_address(block, barrier, parity, true));
  return true;
}

void fence_proxy_async(Loc loc) {
  Entry90 entry("fence.proxy.async", __builtin_return_address(0), loc);
  Block& block = *entry.self.block;
  std::memcpy(async_image(block), block.shared, block.shared_bytes);
  publish_inits(entry.self);
}

void fence_proxy_async_global(Loc loc) {
  Entry90 entry("fence.proxy.async.global", __builtin_return_address(0), loc);
  tsan::release(&entry.self.block->scheduler->launch().global_fence);
}

}  // namespace grout::sim
