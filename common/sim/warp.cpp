// Operations of a warp's lanes together: gathering, __syncwarp, shuffles, votes. And the fences.
#include "common/sim/state.h"

namespace grout::sim {
namespace {

std::uint32_t bit(unsigned lane) {
  return 1u << lane;
}

bool same_place(const Loc& a, const Loc& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::string_view(a.file_name()) == b.file_name());
}

struct Masked {
  Op op;
  std::uint32_t mask;
};
void append(std::string& text, const Masked& operation) {
  text += name(operation.op);
  if (!aligned(operation.op)) text += sim::text(" with mask ", Hex{operation.mask});
}

// Two operations that wait for each other's lanes never complete.
[[noreturn]] void diverged(Thread& self, Op op, std::uint32_t mask, const Loc& where, const Group& group) {
  fail(self, Report::Kind::divergence, where,
       text("the lane executes ", Masked{op, mask}, " while lanes ", Lanes{group.arrived},
            " of its warp wait for it in ", Masked{group.op, group.asked}, " at ", group.where),
       aligned(op) || aligned(group.op)
           ? "all 32 lanes of a warp execute the same .aligned instruction (barriers, ldmatrix, mma) together"
           : "every lane named in a mask executes the same operation with the same mask");
}

void complete(Warp& warp, std::size_t index) {
  const Group group = warp.groups[index];
  warp.groups[index] = warp.groups.back();
  warp.groups.pop_back();
  ++warp.block->scheduler->statistics.collectives;
  warp.block->scheduler->wake(warp, group.complete(warp, group));
}

}  // namespace

const char* name(Op op) {
  static constexpr const char* kNames[] = {"__syncwarp",
                                           "__shfl_sync",
                                           "__shfl_up_sync",
                                           "__shfl_down_sync",
                                           "__shfl_xor_sync",
                                           "shfl.sync.bfly",
                                           "__ballot_sync",
                                           "__any_sync",
                                           "__all_sync",
                                           "ldmatrix",
                                           "mma.sync",
                                           "bar.sync",
                                           "bar.arrive",
                                           "bar.red",
                                           "barrier.cluster.arrive",
                                           "barrier.cluster.wait"};
  return kNames[int(op)];
}

void collective(Thread& self, Op op, std::uint32_t asked, void* operands, const Loc& where,
                std::uint32_t (*complete_group)(Warp&, const Group&)) {
  Warp& warp = *self.warp;
  self.operands = operands;
  self.where = where;
  if (!(asked & bit(self.lane))) {
    fail(self, Report::Kind::misuse, where, text(Masked{op, asked}, ", which does not name the calling lane"),
         "a lane that calls is in its mask");
  }
  if (aligned(op) && (asked & ~warp.live)) {
    const bool exited = asked & warp.exist & ~warp.live;
    fail(self, Report::Kind::divergence, where,
         text(name(op), " while lanes ", Lanes{asked & ~warp.live}, " of the warp ",
              exited ? "have exited" : "do not exist"),
         "an .aligned instruction (barriers, ldmatrix, mma) is executed by all lanes of the warp");
  }
  std::size_t index = 0;
  for (; index < warp.groups.size(); ++index) {
    const Group& group = warp.groups[index];
    if (!(group.mask & bit(self.lane))) continue;
    if (group.op == op && group.asked == asked && (!aligned(op) || same_place(group.where, where))) break;
    if (group.arrived & asked) diverged(self, op, asked, where, group);
  }
  if (index == warp.groups.size()) warp.groups.push_back({op, asked, asked & warp.live, 0, where, complete_group});
  Group& group = warp.groups[index];
  group.arrived |= bit(self.lane);
  if (group.arrived == group.mask) complete(warp, index);
  warp.block->scheduler->yield();
}

void leave_warp(Thread& self) {
  Warp& warp = *self.warp;
  warp.live &= ~bit(self.lane);
  for (std::size_t index = 0; index < warp.groups.size();) {
    Group& group = warp.groups[index];
    if (!(group.mask & bit(self.lane))) {
      ++index;
    } else if (aligned(group.op)) {
      fail(self, Report::Kind::divergence, group.where,
           text("the thread exits while lanes ", Lanes{group.arrived}, " of its warp wait for it in ", name(group.op)),
           "an .aligned instruction (barriers, ldmatrix, mma) is executed by all lanes of the warp");
    } else if ((group.mask &= ~bit(self.lane)) == group.arrived) {
      complete(warp, index);
    } else {
      ++index;
    }
  }
}

void syncwarp(std::uint32_t mask, Loc loc) {
  Entry entry("__syncwarp", __builtin_return_address(0));
  Warp& warp = *entry.self.warp;
  char* address = nullptr;
  if (tsan::on() && mask) {
    const auto leader = unsigned(std::countr_zero(mask));
    address = &warp.block->sync->warp[&warp - warp.block->warps][leader][warp.generation[leader] & 1];
    tsan::release(address);
  }
  collective(entry.self, Op::syncwarp, mask, nullptr, loc, [](Warp& w, const Group& group) {
    ++w.generation[std::countr_zero(group.asked)];
    return group.arrived;
  });
  if (address) tsan::acquire(address);
}

namespace {

struct ShuffleOperands {
  std::uint64_t value, result;
  unsigned operand, width;
};

// PTX ISA, shfl.sync: the lane that `lane` reads, itself if that lies outside of its segment of `width` lanes.
unsigned shuffle_source(Op op, unsigned lane, unsigned operand, unsigned width) {
  const unsigned first = lane & (kWarp - width), last = first + width - 1, b = operand % kWarp;
  if (op == Op::shuffle) return first + b % width;
  if (op == Op::shuffle_up) return lane >= first + b ? lane - b : lane;
  const unsigned source = op == Op::shuffle_down ? lane + b : lane ^ b;
  return source <= last ? source : lane;
}

std::uint32_t complete_shuffle(Warp& warp, const Group& group) {
  for_each_lane(group.arrived, [&](unsigned lane) {
    auto& mine = operands<ShuffleOperands>(warp, lane);
    const unsigned source = shuffle_source(group.op, lane, mine.operand, mine.width);
    if (!(group.arrived >> source & 1)) {
      const bool named = group.asked >> source & 1;
      fail(warp.threads[lane], Report::Kind::misuse, warp.threads[lane].where,
           text(Masked{group.op, group.asked}, " reads lane ", source,
                named ? ", which has exited" : ", which is not in the mask"),
           "a shuffle reads only lanes that take part in it: what others give is undefined");
    }
    mine.result = operands<ShuffleOperands>(warp, source).value;
  });
  return group.arrived;
}

struct VoteOperands {
  bool predicate;
  std::uint32_t result;
};

}  // namespace

std::uint64_t shuffle(Shuffle mode, std::uint32_t mask, std::uint64_t value, int operand, int width, Loc loc) {
  static constexpr Op kOps[] = {Op::shuffle, Op::shuffle_up, Op::shuffle_down, Op::shuffle_xor,
                                 Op::shuffle_bfly};
  const Op op = kOps[int(mode)];
  Entry entry(name(op), __builtin_return_address(0));
  if (width < 1 || width > 32 || (width & (width - 1))) {
    fail(entry.self, Report::Kind::misuse, loc, text(name(op), " with width ", width),
         "the width is a power of two from 1 to 32");
  }
  ShuffleOperands mine{value, value, unsigned(operand), unsigned(width)};
  collective(entry.self, op, mask, &mine, loc, complete_shuffle);
  return mine.result;
}

std::uint32_t vote(Vote which, std::uint32_t mask, bool predicate, Loc loc) {
  static constexpr Op kOps[] = {Op::ballot, Op::any, Op::all};
  const Op op = kOps[int(which)];
  Entry entry(name(op), __builtin_return_address(0));
  VoteOperands mine{predicate, 0};
  collective(entry.self, op, mask, &mine, loc, [](Warp& warp, const Group& group) {
    std::uint32_t result = 0;
    for_each_lane(group.arrived, [&](unsigned l) { result |= operands<VoteOperands>(warp, l).predicate ? bit(l) : 0; });
    for_each_lane(group.arrived, [&](unsigned l) { operands<VoteOperands>(warp, l).result = result; });
    return group.arrived;
  });
  return mine.result;
}

// A fence orders this thread's accesses against those of every other thread that fences: more than the memory model gives,
// so patterns of atomics and fences are silent, and a missing fence on either side is not.
void fence(Scope scope) {
  Entry entry(scope == Scope::block ? "__threadfence_block" : "__threadfence", __builtin_return_address(0));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!tsan::on()) return;
  static char device_fence;
  char* address = scope == Scope::block ? &entry.self.block->sync->fence : &device_fence;
  tsan::acquire(address);
  tsan::release(address);
}

}  // namespace grout::sim
