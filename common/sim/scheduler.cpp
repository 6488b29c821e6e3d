// Launches, blocks and threads: who runs when.
#include <sys/mman.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "common/sim/state.h"

namespace grout::sim {

constinit thread_local Thread* current = nullptr;

namespace {

constexpr std::size_t kPage = 4096, kGuard = 1024, kSharedAlignment = 1024;
// The system allows a process some 65,000 mappings, of which a fiber needs two; ThreadSanitizer has room for about 8,000
// threads: those that run, and those that are kept until the launch ends.
constexpr unsigned kMaxFibers = 16384, kMaxSanitizedWorkers = 4;
constexpr std::size_t kMaxRetired = 2048;

unsigned worker_count(const LaunchContext& launch, std::uint64_t clusters, unsigned threads) {
  const int asked = launch.options.workers;
  unsigned workers = asked > 0 ? unsigned(asked) : std::max(1u, std::thread::hardware_concurrency());
  workers = std::min(workers, std::max(1u, kMaxFibers / threads));
  if (tsan::on()) workers = std::min(workers, kMaxSanitizedWorkers);
  return unsigned(std::min<std::uint64_t>(workers, clusters));
}

std::mutex pool_mutex;
std::vector<Fiber*>& pool() {
  static auto* fibers = new std::vector<Fiber*>;  // never destroyed: host threads may outlive main
  return *fibers;
}

std::mutex kernels_mutex;
std::set<const void*>& kernels() {
  static auto* set = new std::set<const void*>;
  return *set;
}

thread_local Statistics last_statistics;

}  // namespace

Statistics& Statistics::operator+=(const Statistics& other) {
  blocks += other.blocks;
  threads += other.threads;
  switches += other.switches;
  collectives += other.collectives;
  barriers += other.barriers;
  cp_async_4 += other.cp_async_4;
  cp_async_8 += other.cp_async_8;
  cp_async_16 += other.cp_async_16;
  cp_async_filled += other.cp_async_filled;
  vector_stores += other.vector_stores;
  ldmatrix += other.ldmatrix;
  mma += other.mma;
  bulk_loads += other.bulk_loads;
  bulk_stores += other.bulk_stores;
  tensor_loads += other.tensor_loads;
  tensor_stores += other.tensor_stores;
  mbarrier_phases += other.mbarrier_phases;
  cluster_barriers += other.cluster_barriers;
  cluster_loads += other.cluster_loads;
  cluster_stores += other.cluster_stores;
  cluster_launches += other.cluster_launches;
  programmatic_launches += other.programmatic_launches;
  return *this;
}

const Statistics& statistics() {
  return last_statistics;
}
const std::set<const void*>& launched_kernels() {
  return kernels();
}

// ---- Fibers ----

Fiber* FiberPool::take(std::size_t stack_bytes) {
  stack_bytes = (stack_bytes + kPage - 1) / kPage * kPage;
  for (std::lock_guard lock(pool_mutex); !pool().empty();) {
    Fiber* fiber = pool().back();
    pool().pop_back();
    if (fiber->stack_bytes == stack_bytes) return fiber;
    destroy(fiber);
  }
  void* memory = mmap(nullptr, kPage + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, kPage, PROT_NONE);  // an overflow faults instead of reaching another thread's stack
  auto* fiber = new Fiber;
  fiber->stack = static_cast<char*>(memory) + kPage;
  fiber->stack_bytes = stack_bytes;
  if (tsan::on()) fiber->tsan = __tsan_create_fiber(0);
  return fiber;
}

void FiberPool::give(Fiber* fiber) {
  std::lock_guard lock(pool_mutex);
  pool().push_back(fiber);
}

void FiberPool::abandon(Fiber* fiber, void* finished) {
  if (!tsan::on()) return;
  void* self = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber->tsan, 1);
  __tsan_release(finished);
  for (; fiber->scopes; --fiber->scopes) __tsan_ignore_thread_end();  // else it cannot be destroyed
  __tsan_switch_to_fiber(self, 1);
}

void FiberPool::destroy(Fiber* fiber) {
  fiber->drop_frames();
  if (tsan::on()) __tsan_destroy_fiber(fiber->tsan);
  munmap(static_cast<char*>(const_cast<void*>(fiber->stack)) - kPage, kPage + fiber->stack_bytes);
  delete fiber;
}

// ---- Scheduler ----

Scheduler::Scheduler(LaunchContext& launch) : launch_(launch) {
  if (!tsan::on()) return;
  global_reader_ = __tsan_create_fiber(0);
  __tsan_set_fiber_name(global_reader_, "copy engine as it reads global memory");
}

Scheduler::~Scheduler() {
  for (Fiber* fiber : retired_) FiberPool::give(fiber);
  for (void* engine : retired_engines_) __tsan_destroy_fiber(engine);
  if (global_reader_) __tsan_destroy_fiber(global_reader_);
}

void Scheduler::run(std::uint64_t first, unsigned count) {
  start(first, count);
  while (alive_ > 0) {
    Thread* thread = next();
    if (!thread) {
      if (engine.deliver(report_)) {
        if (report_) break;
        continue;
      }
      bool any = false;
      for (Block& block : blocks_) any |= time_out(block);
      if (any) continue;
      report_ = deadlock(launch_, blocks_);
      break;
    }
    ++statistics.switches;
    switch_fiber(main_, *thread->fiber);
    if (report_) break;
  }
  while (!report_ && engine.deliver(report_)) {
  }
  finish();
  if (report_) throw Report(*report_);
}

void Scheduler::start(std::uint64_t first, unsigned count) {
  const dim3 shape = launch_.block;
  const unsigned size = shape.x * shape.y * shape.z, warps = (size + kWarp - 1) / kWarp;
  blocks_.resize(count);
  warps_.resize(count * warps);
  threads_.resize(count * size);
  ready_.reset(count * warps, launch_.options.schedule, launch_.options.seed * 0x9e3779b9u + first);
  alive_ = count * size;
  cluster_barrier = {};
  engine.reset(launch_.options, launch_.options.seed * 0x9e3779b9u + first);
  statistics.blocks += count;
  statistics.threads += alive_;
  for (unsigned i = 0; i < count; ++i) {
    blocks_[i].threads = &threads_[i * size];
    blocks_[i].warps = &warps_[i * warps];
    blocks_[i].size = size;
    blocks_[i].warp_count = warps;
    start_block(blocks_[i], first + i);
  }
  if (tsan::on()) main_.tsan = __tsan_get_current_fiber();
  tsan::release(&started_);
  blockDim = launch_.block;
  gridDim = launch_.grid;
}

void Scheduler::start_block(Block& block, std::uint64_t index) {
  const dim3 grid = launch_.grid, shape = launch_.block;
  block.scheduler = this;
  block.index = {unsigned(index % grid.x), unsigned(index / grid.x % grid.y), unsigned(index / grid.x / grid.y)};
  block.alive = block.size;
  block.launched_dependents = false;
  std::fill_n(block.barriers, kBarriers, Barrier{});
  block.mbarriers.clear();
  block.async_image.reset();

  // Guard bands around it: 0xFF as well, so that a stray read gives NaN and a stray write shows.
  const std::size_t total = launch_.shared_bytes + 2 * kGuard + kSharedAlignment;
  if (!block.shared_memory) block.shared_memory = std::make_unique_for_overwrite<unsigned char[]>(total);
  unsigned char* begin = block.shared_memory.get();
  const auto data = (reinterpret_cast<std::uintptr_t>(begin) + kGuard + kSharedAlignment - 1) & ~(kSharedAlignment - 1);
  block.shared = reinterpret_cast<unsigned char*>(data);
  block.shared_bytes = launch_.shared_bytes;
  asan::unpoison(begin, total);
  std::fill_n(begin, total, 0xff);
  asan::poison(begin, std::size_t(block.shared - begin));
  asan::poison(block.shared + block.shared_bytes, std::size_t(begin + total - block.shared) - block.shared_bytes);
  if (tsan::on()) block.sync = std::make_unique<SyncAddresses>();

  for (unsigned w = 0; w < block.warp_count; ++w) {
    Warp& warp = block.warps[w];
    const unsigned lanes = std::min(kWarp, block.size - w * kWarp);
    warp.block = &block;
    warp.number = unsigned(&warp - warps_.data());
    warp.threads = block.threads + w * kWarp;
    warp.exist = warp.live = kAllLanes >> (kWarp - lanes);
    warp.groups.clear();
    std::fill_n(warp.generation, kWarp, 0);
    warp.cluster_arrived = warp.cluster_waits = false;
    ready_.add(warp.number, warp.exist);
  }
  for (unsigned t = 0; t < block.size; ++t) {
    Thread& thread = block.threads[t];
    thread.block = &block;
    thread.warp = block.warps + t / kWarp;
    thread.number = t;
    thread.lane = t % kWarp;
    thread.index = {t % shape.x, t / shape.x % shape.y, t / shape.x / shape.y};
    thread.where = Loc();
    thread.barrier = -1;
    thread.copies.clear();
    thread.committed = 0;
    thread.mbarrier = nullptr;
    thread.stores.clear();
    thread.store_groups = 0;
    thread.waits_for_stores = false;
    thread.fiber = FiberPool::take(launch_.options.stack_bytes);
    thread.fiber->prepare(thread_main);
    if (tsan::on()) {
      const std::string name = text("thread ", t, " of block ", block);
      __tsan_set_fiber_name(thread.fiber->tsan, name.c_str());
    }
  }
}

void Scheduler::finish() {
  engine.clear();
  for (Thread& thread : threads_) {
    retire_engine(thread);
    if (thread.fiber->scopes) FiberPool::abandon(thread.fiber, &launch_.finished);
    if (report_) thread.fiber->drop_frames();
    const bool keep = tsan::on() && retired_.size() < kMaxRetired / launch_.workers && !report_;
    if (keep) {
      retired_.push_back(thread.fiber);
    } else if (tsan::on()) {
      FiberPool::destroy(thread.fiber);
    } else {
      FiberPool::give(thread.fiber);
    }
  }
  current = nullptr;
  threadIdx = blockIdx = {};
  for (Block& block : blocks_) {
    if (!asan::on() && !report_) {
      const auto changed = [](unsigned char byte) { return byte != 0xff; };
      const unsigned char* end = block.shared + block.shared_bytes;
      const unsigned char* stray = std::find_if(block.shared - kGuard, block.shared, changed);
      if (stray == block.shared) stray = std::find_if(end, end + kGuard, changed);
      if (stray != end + kGuard) report_ = stray_write(launch_, block, stray - block.shared);
    }
    if (tsan::on()) {
      retired_shared_.push_back(std::move(block.shared_memory));
      retired_sync_.push_back(std::move(block.sync));
    }
  }
}

void Scheduler::retire_engine(Thread& thread) {
  if (!thread.engine) return;
  {
    OnEngine engine(thread, nullptr);
    tsan::release(&launch_.finished);
  }
  if (retired_engines_.size() < kMaxRetired / launch_.workers && !report_) {
    retired_engines_.push_back(thread.engine);
  } else {
    __tsan_destroy_fiber(thread.engine);
  }
  thread.engine = nullptr;
}

/// Makes the next ready thread the current one; null, and nobody is, if no thread is ready.
Thread* Scheduler::next() {
  ReadySet::Place place;
  if (!ready_.take(place)) return current = nullptr;
  current = warps_[place.warp].threads + place.lane;
  threadIdx = current->index;
  blockIdx = current->block->index;
  return current;
}

void Scheduler::leave(Thread& self) {
  Thread* to = report_ ? nullptr : next();
  if (to == &self) return;
  ++statistics.switches;
  switch_fiber(*self.fiber, to ? *to->fiber : main_);
}

void Scheduler::yield() {
  leave(*current);
}

void Scheduler::fail(Report report) {
  report_ = std::move(report);
  leave(*current);
  __builtin_unreachable();  // a thread that made a report never runs again
}

void Scheduler::thread_main(boost::context::detail::transfer_t transfer) {
  Thread& self = *current;
  switched(*self.fiber, transfer);
  Scheduler& scheduler = *self.block->scheduler;
  tsan::acquire(&scheduler.started_);
  std::string thrown;
  try {
    scheduler.launch_.body(scheduler.launch_.context);
  } catch (const std::exception& e) {
    thrown = text("the kernel threw an exception: ", e.what());
  } catch (...) {
    thrown = "the kernel threw an exception";
  }
  {
    Entry entry("the end of a thread", __builtin_return_address(0));
    if (!thrown.empty())
      sim::fail(self, Report::Kind::misuse, self.where, std::move(thrown), "device code cannot throw");
    check_copies_at_exit(self);
    check_stores_at_exit(self);
    check_mbarriers_at_exit(self);
    leave_warp(self);
    --scheduler.alive_;
    leave_cluster(self);
    tsan::release(&scheduler.launch_.finished);
  }
  scheduler.leave(self);
  __builtin_trap();
}

Thread& Entry::require(const char* name) {
  if (!current) {
    throw std::logic_error(std::string(name) + " was called outside of a kernel: it runs only in threads of a launch");
  }
  return *current;
}

Entry90::Entry90(const char* name, void* caller, const Loc& where) : Entry(name, caller) {
  const int capability = self.block->scheduler->launch().options.compute_capability;
  if (capability >= 90) return;
  sim::fail(self, Report::Kind::misuse, where,
            text(name, " on a device of compute capability ", capability / 10, ".", capability % 10),
            "it came with 9.0, and code for earlier devices traps there: a host entry looks at the device first");
}

// ---- Launch ----

void launch(const Launch& shape, void (*body)(void*), void* context, const void* kernel, const char* name) {
  const auto& [grid, block, shared_bytes, cluster, programmatic] = shape;
  if (current) throw std::logic_error("launch was called from inside a kernel");
  tsan::Scope scope(__builtin_return_address(0));
  check_launch(shape, name);
  {
    std::lock_guard lock(kernels_mutex);
    kernels().insert(kernel);
  }
  LaunchContext launch{grid, block, shared_bytes, body, context, name, options()};
  launch.cluster = cluster;
  Dependency dependency(shape, launch.options, name, __builtin_return_address(0));
  launch.dependency = &dependency;
  const std::uint64_t blocks = std::uint64_t(grid.x) * grid.y * grid.z, clusters = blocks / launch.cluster;
  const BlockOrder order(clusters, launch.options.schedule, launch.options.seed);

  launch.workers = worker_count(launch, clusters, launch.cluster * block.x * block.y * block.z);
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  for (unsigned i = 0; i < launch.workers; ++i) schedulers.push_back(std::make_unique<Scheduler>(launch));

  // Of several reports, the one of the block that comes first in the order: whatever the timing of the workers, since
  // all blocks before it have started and are run to their end.
  std::atomic<std::uint64_t> next = 0;
  std::mutex mutex;
  std::uint64_t failed_at = clusters;
  std::exception_ptr failure;
  const auto work = [&](Scheduler& scheduler) {
    tsan::Scope hidden(__builtin_return_address(0));
    for (std::uint64_t i; (i = next++) < clusters;) {
      try {
        scheduler.run(order[i] * launch.cluster, launch.cluster);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (i < failed_at) failure = std::current_exception();
        failed_at = std::min(failed_at, i);
        next = clusters;
        return;
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < launch.workers; ++i) threads.emplace_back(work, std::ref(*schedulers[i]));
  work(*schedulers[0]);
  for (std::thread& thread : threads) thread.join();
  tsan::acquire(&launch.finished);

  if (failure) std::rethrow_exception(failure);
  dependency.finish();
  last_statistics = {};
  last_statistics.cluster_launches = cluster > 1;
  last_statistics.programmatic_launches = programmatic;
  for (const auto& scheduler : schedulers) last_statistics += scheduler->statistics;
}

}  // namespace grout::sim
