// Programmatic dependent launch. Here a grid runs to its end before the next one begins. So that a grid which does not wait
// fails all the same, what the grid before it wrote is taken back at its begin and comes at the first griddepcontrol.wait:
// all of it, since griddepcontrol.launch_dependents says nothing about memory. For ThreadSanitizer, a fiber that only a
// wait orders before a thread writes it again.
//
// What a grid wrote is what differs in cudaMalloc memory between a snapshot and its end. The next grid is the next launch of
// the same host thread, if nothing comes between them that orders the two, or that changes memory: other runtime calls, or
// launches of other host threads.
#include "common/sim/state.h"

namespace grout::sim {
namespace {

constexpr std::size_t kMaxSnapshot = std::size_t(256) << 20;  // bytes
constexpr std::size_t kChunk = 64;                            // bytes that are compared at once
constexpr int kDependentLaunches = 90;                        // compute capability

std::atomic<unsigned> active{0};       // launches
std::atomic<std::uint64_t> events{1};  // launches and runtime calls so far

/// This host thread's last launch, as the one that the next may depend on.
struct Previous {
  std::uint64_t events = 0;  // at its end
  std::string name;
  std::vector<Change> changes;
};
thread_local Previous last_launch;

constexpr const char* kRule =
    "a programmatic launch writes what the previous grid writes only behind griddepcontrol.wait";

/// Calls f(place in the allocation, before, after) for each byte that has changed.
template <class F>
void for_each_byte(const Change& change, F f) {
  for (std::size_t i = 0; i < change.before.size(); ++i) {
    if (change.before[i] != change.after[i]) f(change.offset + i, change.before[i], change.after[i]);
  }
}

}  // namespace

void note_runtime_call() {
  ++events;
}

Dependency::Dependency(const Launch& launch, const Options& options, const char* name, void* caller)
    : late_(options.asynchrony == Asynchrony::late), name_(name ? name : ""), alone_(active++ == 0), events_(events++) {
  Previous previous = std::exchange(last_launch, {});
  if (launch.programmatic && alone_ && previous.events == events_ && !previous.changes.empty()) {
    previous_ = std::move(previous.changes);
    previous_name_ = std::move(previous.name);
    hide();
    if (tsan::on()) replay(caller);
  }
  ++events_;
  // Earlier devices have no dependent launches: there only a kernel that asks for one pays for a snapshot.
  if (options.compute_capability >= kDependentLaunches) take_snapshot();
}

Dependency::~Dependency() {
  restore();
  if (replay_) {
    tsan::acquire(&replay_ends_);
    __tsan_destroy_fiber(replay_);
  }
  --active;
}

void Dependency::hide() {
  std::erase_if(previous_, [](const Change& change) {  // host code wrote there since
    return std::memcmp(change.of.data + change.offset, change.after.data(), change.after.size()) != 0;
  });
  if (!late_) return;
  for (const Change& change : previous_) {
    std::memcpy(change.of.data + change.offset, change.before.data(), change.before.size());
  }
  hidden_ = true;
}

void Dependency::replay(void* caller) {
  const std::string name = text("the grid of ", previous_name_.empty() ? "a kernel" : previous_name_, " before it");
  replay_ = __tsan_create_fiber(0);
  __tsan_set_fiber_name(replay_, name.c_str());
  void* self = __tsan_get_current_fiber();
  tsan::release(&replay_begins_);
  __tsan_switch_to_fiber(replay_, 1);
  tsan::acquire(&replay_begins_);
  __tsan_func_entry(caller);
  for (const Change& change : previous_) {
    std::size_t begin = 0, end = 0;  // of bytes side by side
    const auto write = [&] {
      if (end > begin) __tsan_write_range(change.of.data + begin, end - begin);
    };
    for_each_byte(change, [&](std::size_t i, unsigned char, unsigned char) {
      if (i != end) {
        write();
        begin = i;
      }
      end = i + 1;
    });
    write();
  }
  __tsan_func_exit();
  tsan::release(&replay_ends_);
  __tsan_switch_to_fiber(self, 1);
}

/// Shows what is hidden. Returns what this grid wrote over, or nothing.
std::string Dependency::restore() {
  std::string overwritten;
  if (!std::exchange(hidden_, false)) return overwritten;
  for (const Change& change : previous_) {
    for_each_byte(change, [&](std::size_t i, unsigned char before, unsigned char after) {
      unsigned char& byte = change.of.data[i];
      if (byte == before) {
        byte = after;
      } else if (overwritten.empty()) {
        overwritten = text("the grid writes what the previous grid writes, before griddepcontrol.wait: byte ", i,
                           " of an allocation of ", change.of.bytes);
      }
    });
  }
  return overwritten;
}

void Dependency::wait(Thread& self, const Loc& where) {
  std::string overwritten;
  {
    std::lock_guard lock(mutex_);
    if (!self.block->launched_dependents) waited_first_ = true;
    overwritten = restore();
  }
  if (!overwritten.empty()) fail(self, Report::Kind::misuse, where, std::move(overwritten), kRule);
  if (!replay_) return;
  tsan::acquire(&replay_ends_);
  tsan::release(&self.block->scheduler->launch().global_fence);  // the end of a grid is seen by every proxy
}

void Dependency::launch_dependents(Thread& self) {
  self.block->launched_dependents = true;
  std::lock_guard lock(mutex_);
  if (!std::exchange(launched_, true) && snapshot_.empty()) take_snapshot();
}

void Dependency::take_snapshot() {
  if (!alone_ || (!late_ && !tsan::on())) return;
  std::size_t total = 0;
  for_each_allocation([&](const Allocation& allocation) { total += allocation.bytes; });
  if (total > kMaxSnapshot) return;
  for_each_allocation([&](const Allocation& allocation) {
    snapshot_.push_back({allocation, std::make_unique_for_overwrite<unsigned char[]>(allocation.bytes)});
    std::memcpy(snapshot_.back().bytes.get(), allocation.data, allocation.bytes);
  });
}

void Dependency::finish() {
  const std::string overwritten = restore();
  if (!overwritten.empty()) {
    throw Report(Report::Kind::misuse, text("misuse in kernel ", name_.empty() ? "?" : name_, ": ", overwritten,
                                            ", and no thread waited. Rule: ", kRule, "."));
  }
  remember();
}

/// Makes what has changed since the snapshot the last launch's.
void Dependency::remember() {
  // The next grid begins when all blocks of this one have let it. If one of them had waited by then, the grid before was
  // complete; otherwise it may still be running.
  const auto snapshot_of = [&](const Allocation& allocation) {
    const auto found = std::find_if(snapshot_.begin(), snapshot_.end(),
                                    [&](const Snapshot& snapshot) { return snapshot.of.data == allocation.data; });
    return found == snapshot_.end() ? nullptr : found->bytes.get();
  };
  for (const Change& change : previous_) {
    unsigned char* snapshot = snapshot_of(change.of);
    if (!snapshot) continue;
    for_each_byte(change, [&](std::size_t i, unsigned char before, unsigned char after) {
      snapshot[i] = waited_first_ ? after : before;
    });
  }

  Previous mine{events_, name_, {}};
  for_each_allocation([&](const Allocation& allocation) {
    const unsigned char* snapshot = snapshot_of(allocation);
    if (!snapshot || events != events_) return;  // another one at its address may be smaller
    for (std::size_t offset = 0; offset < allocation.bytes; offset += kChunk) {
      const std::size_t bytes = std::min(kChunk, allocation.bytes - offset);
      const unsigned char *before = snapshot + offset, *after = allocation.data + offset;
      if (std::memcmp(before, after, bytes)) {
        mine.changes.push_back({allocation, offset, {before, before + bytes}, {after, after + bytes}});
      }
    }
  });
  if (events == events_) last_launch = std::move(mine);
}

void griddepcontrol_wait(Loc loc) {
  Entry entry("griddepcontrol.wait", __builtin_return_address(0));
  entry.self.block->scheduler->launch().dependency->wait(entry.self, loc);
}

void griddepcontrol_launch_dependents(Loc) {
  Entry entry("griddepcontrol.launch_dependents", __builtin_return_address(0));
  entry.self.block->scheduler->launch().dependency->launch_dependents(entry.self);
}

}  // namespace grout::sim
