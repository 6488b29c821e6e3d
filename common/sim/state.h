// The state of a launch: Launch > Scheduler (one OS thread, one cluster of blocks at a time) > Block > Warp > Thread.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/sim/engine.h"
#include "common/sim/fiber.h"
#include "common/sim/schedule.h"
#include "common/sim/sim.h"

namespace grout::sim {

struct Thread;
struct Warp;
struct Block;
class Dependency;
class Scheduler;

constexpr unsigned kWarp = 32;
constexpr std::uint32_t kAllLanes = 0xffffffffu;
constexpr unsigned kBarriers = 16;
constexpr std::uint32_t kSharedBase = 1024;  // the block's first shared address; as on the hardware, not 0
constexpr std::size_t kMaxSharedBytes = 227 << 10;
// A cluster address: (rank + 1) << 24 | shared address; below 1 << 24: the own block.
constexpr unsigned kClusterShift = 24;
constexpr unsigned kMaxCluster = 8;

struct LaunchContext {
  dim3 grid, block;
  std::size_t shared_bytes;
  void (*body)(void*);
  void* context;
  const char* name;
  Options options;
  unsigned workers = 1;              // schedulers
  unsigned cluster = 1;              // blocks on one scheduler
  Dependency* dependency = nullptr;  // on the launch before it
  char finished = 0;                 // sanitizer: the launch ends after all that comes before it
  mutable char global_fence = 0;     // sanitizer: the engine reads global memory after all that comes before it
};

/// Operations of a whole warp.
enum class Op : std::uint8_t {
  // of the lanes of a mask
  syncwarp,
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  shuffle_bfly,
  ballot,
  any,
  all,
  // .aligned: of the whole warp
  ldmatrix,
  mma,
  bar_sync,
  bar_arrive,
  bar_red,
  cluster_arrive,
  cluster_wait,
};
const char* name(Op op);
inline bool aligned(Op op) {
  return op >= Op::ldmatrix;
}

/// Lanes of a warp that gather for one operation.
struct Group {
  Op op;
  std::uint32_t asked;  // the mask that they gave
  std::uint32_t mask;   // of those, the lanes that have not exited
  std::uint32_t arrived;
  Loc where;  // the first lane's
  /// Performs the operation for all lanes of the group, in the lane that came last, and returns those that go on.
  std::uint32_t (*complete)(Warp&, const Group&);
};

struct AsyncCopy {
  void* dst;
  const void* src;
  std::uint8_t bytes, src_bytes;
  bool done;  // early mode
  unsigned group;
  Loc where;
};

struct Thread {
  Fiber* fiber;
  Block* block;
  Warp* warp;
  unsigned number, lane;  // in the block, in the warp
  uint3 index;
  void* operands = nullptr;       // of the warp operation that it waits in
  Loc where;                      // of the last operation that could wait
  int barrier = -1;               // >= 0: its warp waits at this block barrier
  std::vector<AsyncCopy> copies;  // issued, not completed, in order
  unsigned committed = 0;         // groups of them
  const MBarrier* mbarrier = nullptr;          // that it waits at
  std::vector<std::shared_ptr<Copy>> stores;   // bulk stores, not known to be written, in order
  unsigned store_groups = 0;                   // committed
  bool waits_for_stores = false;
  void* engine = nullptr;  // ThreadSanitizer's fiber of the engine as it works for this thread
};

struct Warp {
  Block* block;
  unsigned number;  // in the scheduler
  Thread* threads;
  std::uint32_t exist, live;  // lanes that the block has, that have not exited
  std::vector<Group> groups;
  std::uint8_t generation[kWarp];  // of __syncwarp groups led by that lane
  // At the cluster's barrier: has arrived and not gone on from its wait; waits; the phase in which it arrived, and where.
  bool cluster_arrived = false, cluster_waits = false;
  unsigned cluster_phase = 0;
  Loc cluster_where;
};

struct Barrier {
  unsigned expected = 0, arrived = 0;  // threads
  std::uint32_t warps = 0;             // that have arrived in this phase
  std::uint32_t waiting = 0;           // of those, the ones that wait
  unsigned phase = 0, predicates = 0, result[2] = {};
  Op op = Op::bar_sync;
  Loc where;  // the first arrival's
};

struct ClusterBarrier {
  unsigned phase = 0;
  unsigned arrived = 0;  // threads that have not exited
};

/// Addresses that stand for what is synchronised, never reused in a launch.
struct SyncAddresses {
  char barrier[kBarriers][2];
  char warp[kWarp][kWarp][2];
  char fence;
  char cluster[2];  // the barrier of the cluster whose first block this is
  char exits;       // the block ends after what its threads did
};

struct Block {
  Scheduler* scheduler;
  uint3 index;
  Thread* threads;  // `size` of them
  Warp* warps;
  unsigned size, warp_count;
  unsigned alive;  // threads that have not exited; with the last one the block and its shared memory end
  bool launched_dependents;
  unsigned char* shared;
  std::size_t shared_bytes;
  Barrier barriers[kBarriers];
  std::unique_ptr<unsigned char[]> shared_memory;  // guard, data, guard
  std::unique_ptr<unsigned char[]> async_image;    // shared memory as the engine sees it, once that is of interest
  std::map<std::uint32_t, MBarrier> mbarriers;     // by their offset in shared memory
  unsigned mbarrier_inits = 0;
  std::unique_ptr<SyncAddresses> sync;
};

/// The simulated thread that runs on this OS thread now; null in the scheduler and outside of launches.
extern constinit thread_local Thread* current;

/// Runs clusters of blocks, one after the other, on one OS thread.
class Scheduler {
 public:
  explicit Scheduler(LaunchContext& launch);
  ~Scheduler();
  /// Runs the blocks first..first+count-1 of the grid to their end. Throws Report.
  void run(std::uint64_t first, unsigned count);

  /// From a simulated thread that is ready or waits: lets the next one run.
  void yield();
  /// From a simulated thread: it makes this report, and the launch ends.
  [[noreturn]] void fail(Report report);
  void wake(const Warp& warp, std::uint32_t lanes) { ready_.add(warp.number, lanes); }

  const LaunchContext& launch() const { return launch_; }
  void* global_reader() const { return global_reader_; }
  std::vector<Block>& cluster() { return blocks_; }
  unsigned alive() const { return alive_; }  // threads of the cluster that have not exited
  Statistics statistics;
  ClusterBarrier cluster_barrier;
  Engine engine;

 private:
  void start(std::uint64_t first, unsigned count);
  void start_block(Block& block, std::uint64_t index);
  void finish();
  void retire_engine(Thread& thread);
  void leave(Thread& self);
  Thread* next();
  static void thread_main(boost::context::detail::transfer_t transfer);

  LaunchContext& launch_;
  std::vector<Block> blocks_;
  std::vector<Warp> warps_;
  std::vector<Thread> threads_;
  ReadySet ready_;
  unsigned alive_ = 0;
  Fiber main_;
  char started_ = 0;  // sanitizer: a thread begins after what its OS thread did, which learns nothing from other blocks
  std::optional<Report> report_;
  std::vector<Fiber*> retired_;  // sanitizer: kept until the launch ends
  std::vector<void*> retired_engines_;
  void* global_reader_ = nullptr;  // sanitizer: the engine's fiber for global memory, of the time before the launch
  std::vector<std::unique_ptr<SyncAddresses>> retired_sync_;
  std::vector<std::unique_ptr<unsigned char[]>> retired_shared_;
};

/// Entry of a library function that a kernel calls: finds the calling thread, hides the library from ThreadSanitizer.
/// Throws std::logic_error outside of a kernel.
class Entry {
 public:
  Entry(const char* name, void* caller) : self(require(name)), scope_(caller) { ++self.fiber->scopes; }
  ~Entry() { --self.fiber->scopes; }
  Thread& self;

 private:
  static Thread& require(const char* name);
  tsan::Scope scope_;
};
/// That of an instruction which came with compute capability 9.0: reported on a device before it.
class Entry90 : public Entry {
 public:
  Entry90(const char* name, void* caller, const Loc& where);
};

// ---- warp.cpp ----
/// Waits until all lanes of `mask` have come to the operation; the last one performs it.
void collective(Thread& self, Op op, std::uint32_t mask, void* operands, const Loc& where,
                std::uint32_t (*complete)(Warp&, const Group&));
/// The thread takes part in nothing any more.
void leave_warp(Thread& self);
template <class T>
T& operands(const Warp& warp, unsigned lane) {
  return *static_cast<T*>(warp.threads[lane].operands);
}
template <class F>
void for_each_lane(std::uint32_t mask, F f) {
  for (; mask; mask &= mask - 1) f(unsigned(std::countr_zero(mask)));
}

// ---- async_copy.cpp ----
void check_copies_at_exit(Thread& self);

// ---- instructions.cpp ----
/// The memory behind a shared address of `block`, or a report.
void* shared_memory(Thread& self, Block& block, std::uint32_t address, unsigned bytes, unsigned alignment,
                    const char* what, const Loc& where);
/// The same of the thread's own block.
inline void* shared_memory(Thread& self, std::uint32_t address, unsigned bytes, unsigned alignment, const char* what,
                           const Loc& where) {
  return shared_memory(self, *self.block, address, bytes, alignment, what, where);
}

// ---- cluster.cpp ----
unsigned cluster_rank(const Block& block);
/// The block of that rank in the cluster of `self`, which may have ended; null if the cluster has none.
Block* block_of_rank(Thread& self, unsigned rank);
/// The block whose shared memory a cluster address means, or a report: no such block, or it has ended.
Block& block_of_cluster_address(Thread& self, std::uint32_t address, const char* what, const Loc& where);
/// The memory behind a cluster address, or a report.
void* cluster_memory(Thread& self, std::uint32_t address, unsigned bytes, unsigned alignment, const char* what,
                     const Loc& where);
/// The thread arrives at no cluster barrier any more; with the last one of a block its shared memory ends.
void leave_cluster(Thread& self);

// ---- dependent_launch.cpp ----
/// Memory from cudaMalloc or cudaMallocHost.
struct Allocation {
  unsigned char* data;
  std::size_t bytes;
};
struct Snapshot {
  Allocation of;
  std::unique_ptr<unsigned char[]> bytes;
};
/// What a grid wrote while the next one may have been running.
struct Change {
  Allocation of;
  std::size_t offset;
  std::vector<unsigned char> before, after;  // bytes from `offset` on; where both are the same, nothing has changed
};

/// A launch between its neighbours in the stream: what the one before it wrote, which a programmatic launch does not see
/// before it waits, and what it writes itself, which the next one may not see.
class Dependency {
 public:
  Dependency(const Launch& launch, const Options& options, const char* name, void* caller);
  ~Dependency();
  /// From a simulated thread: it sees what the grid before wrote.
  void wait(Thread& self, const Loc& where);
  /// From a simulated thread: the next grid may begin.
  void launch_dependents(Thread& self);
  /// After the end of all threads. Throws Report.
  void finish();

 private:
  void hide();
  void replay(void* caller);
  std::string restore();
  void take_snapshot();
  void remember();

  const bool late_;
  const std::string name_;
  bool alone_;            // no other launch was running at its begin
  std::uint64_t events_;  // at its begin, itself included
  std::string previous_name_;
  std::vector<Change> previous_;
  std::mutex mutex_;           // of all below
  bool hidden_ = false;        // `previous_` has its old values
  bool waited_first_ = false;  // a block waited before it let the next grid begin
  bool launched_ = false;      // a block let it
  std::vector<Snapshot> snapshot_;
  void* replay_ = nullptr;  // sanitizer: a fiber that writes what the grid before it wrote
  char replay_begins_ = 0, replay_ends_ = 0;
};
/// The next launch comes after something else than a launch.
void note_runtime_call();

// ---- runtime_api.cpp ----
/// Calls f(allocation) for each; none is freed meanwhile.
void for_each_allocation(const std::function<void(const Allocation&)>& f);

// ---- report.cpp ----
struct Lanes {
  std::uint32_t mask;
};
struct Hex {
  std::uint64_t value;
};
void append(std::string& text, std::string_view part);
void append(std::string& text, std::int64_t number);
void append(std::string& text, const Loc& where);  // file:line (function)
void append(std::string& text, Lanes lanes);       // 0-3,8
void append(std::string& text, Hex number);        // 0xff
void append(std::string& text, const Block& block);
inline void append(std::string& text, const char* part) {
  append(text, std::string_view(part));
}
template <std::integral T>
void append(std::string& text, T number) {
  append(text, std::int64_t(number));
}
/// The parts one after the other. Unlike a chain of operator+ it leaves nothing behind in the frame of its caller, which
/// is never unwound if the text is that of a report.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string result;
  (append(result, parts), ...);
  return result;
}

/// The report that `what` happened in `self` at `where`; `rule` is what it broke.
Report paragraph(Thread& self, Report::Kind kind, const Loc& where, const std::string& what, const char* rule);
/// Ends the launch with that: `what` happened in `self` at `where`; `rule` is what it broke.
[[noreturn]] void fail(Thread& self, Report::Kind kind, const Loc& where, std::string what, const char* rule);
Report deadlock(const LaunchContext& launch, const std::vector<Block>& blocks);
/// A plain store hit the guard band of the shared memory, `offset` bytes from its begin.
Report stray_write(const LaunchContext& launch, const Block& block, std::ptrdiff_t offset);
/// Throws Report for a launch that no device would start.
void check_launch(const Launch& launch, const char* name);

}  // namespace grout::sim
