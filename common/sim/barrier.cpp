// Block barriers: bar.sync, bar.arrive, bar.red. The instructions are .aligned: the lanes of a warp gather first, then the
// warp arrives as a whole, as 32 threads.
#include "common/sim/state.h"

namespace grout::sim {
namespace {

struct Call {
  unsigned id, threads;
  bool predicate;
};

std::uint32_t arrive(Warp& warp, const Group& group) {
  Block& block = *warp.block;
  const auto leader = unsigned(std::countr_zero(group.arrived));
  Thread& self = warp.threads[leader];
  const Call call = operands<Call>(warp, leader);
  unsigned predicates = 0;
  for_each_lane(group.arrived, [&](unsigned lane) {
    const Call& other = operands<Call>(warp, lane);
    predicates += other.predicate;
    if (other.id != call.id || other.threads != call.threads) {
      fail(warp.threads[lane], Report::Kind::divergence, group.where,
           text(name(group.op), " on barrier ", other.id, " for ", other.threads, " threads, while lane ", leader,
                " gives barrier ", call.id, " and ", call.threads),
           "all lanes of a warp give the same barrier and the same count");
    }
  });

  Barrier& barrier = block.barriers[call.id];
  const unsigned expected = call.threads ? call.threads : block.warp_count * kWarp;
  if (expected > block.warp_count * kWarp) {
    fail(self, Report::Kind::misuse, group.where,
         text("barrier ", call.id, " for ", expected, " threads in a block of ", block.size),
         "a barrier counts threads of one block");
  }
  if (barrier.arrived && barrier.expected != expected) {
    fail(self, Report::Kind::misuse, group.where,
         text("barrier ", call.id, " for ", expected, " threads, after arrivals that gave ", barrier.expected, " at ",
              barrier.where),
         "all arrivals of one phase of a barrier give the same count");
  }
  if (barrier.arrived && (barrier.op == Op::bar_red) != (group.op == Op::bar_red)) {
    fail(self, Report::Kind::misuse, group.where,
         text(name(group.op), " on barrier ", call.id, " after ", name(barrier.op), " at ", barrier.where),
         "bar.red is not mixed with bar.sync or bar.arrive in one phase of a barrier");
  }
  const auto w = unsigned(&warp - block.warps);
  if (barrier.warps >> w & 1) {
    fail(self, Report::Kind::misuse, group.where,
         text("warp ", w, " arrives a second time at barrier ", call.id, ", of whose ", expected, " threads only ",
              barrier.arrived, " have arrived"),
         "a warp arrives once in each phase of a barrier");
  }

  if (!barrier.arrived) barrier.where = group.where;
  barrier.op = group.op;
  barrier.expected = expected;
  barrier.arrived += kWarp;
  barrier.predicates += predicates;
  barrier.warps |= 1u << w;
  const bool waits = group.op != Op::bar_arrive;
  if (waits) barrier.waiting |= 1u << w;
  if (barrier.arrived < expected) {
    if (waits) for_each_lane(group.arrived, [&](unsigned lane) { warp.threads[lane].barrier = int(call.id); });
    return waits ? 0 : group.arrived;
  }
  ++block.scheduler->statistics.barriers;
  barrier.result[barrier.phase & 1] = barrier.predicates;
  ++barrier.phase;
  for_each_lane(barrier.waiting, [&](unsigned i) { block.scheduler->wake(block.warps[i], block.warps[i].live); });
  barrier.arrived = barrier.predicates = barrier.warps = barrier.waiting = 0;
  return waits ? 0 : group.arrived;
}

/// Returns how many threads gave true in this phase.
unsigned barrier_call(Op op, unsigned id, unsigned threads, bool predicate, const Loc& loc, void* caller) {
  Entry entry(name(op), caller);
  Thread& self = entry.self;
  if (id >= kBarriers) {
    fail(self, Report::Kind::misuse, loc, text(name(op), " on barrier ", id), "a block has the barriers 0 to 15");
  }
  if (threads % kWarp) {
    fail(self, Report::Kind::misuse, loc, text(name(op), " for ", threads, " threads"),
         "the thread count of a barrier is a multiple of 32");
  }
  if (op == Op::bar_arrive && threads == 0) {
    fail(self, Report::Kind::misuse, loc, "bar.arrive without a thread count", "bar.arrive needs a thread count");
  }
  Barrier& barrier = self.block->barriers[id];
  const unsigned phase = barrier.phase & 1;
  char* address = tsan::on() ? &self.block->sync->barrier[id][phase] : nullptr;
  if (address) tsan::release(address);
  Call call{id, threads, predicate};
  collective(self, op, self.warp->exist, &call, loc, arrive);
  self.barrier = -1;
  if (address && op != Op::bar_arrive) tsan::acquire(address);
  return barrier.result[phase];
}

}  // namespace

void bar_sync(unsigned id, unsigned threads, Loc loc) {
  barrier_call(Op::bar_sync, id, threads, false, loc, __builtin_return_address(0));
}
void bar_arrive(unsigned id, unsigned threads, Loc loc) {
  barrier_call(Op::bar_arrive, id, threads, false, loc, __builtin_return_address(0));
}
unsigned bar_count(bool predicate, Loc loc) {
  return barrier_call(Op::bar_red, 0, 0, predicate, loc, __builtin_return_address(0));
}

}  // namespace grout::sim
