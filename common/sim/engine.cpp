// The copy engine. Late: it does something only when no thread can run, one step of one copy at a time; until then the
// destination of a load is poison, and a store takes a step to read shared memory and another to write global memory. Early:
// all at issue. It reads shared memory through an image of its own, in which ordinary stores are seen from a proxy fence on.
#include "common/sim/state.h"

namespace grout::sim {
namespace {

constexpr int kPoison = 0xff;

/// What a load reads, by a fiber that comes behind what was there before the launch, what the engine itself wrote, and what
/// the launch wrote before a fence.proxy.async.global. It knows nothing else of the issuer.
void mark_global_reads(Copy& copy) {
  if (!tsan::on()) return;
  Scheduler& scheduler = *copy.issuer->block->scheduler;
  {
    OnEngine reader(scheduler.global_reader(), copy.caller);
    tsan::acquire(&scheduler.launch().global_fence);
    for (const Piece& piece : copy.pieces) {
      if (piece.global) tsan::reads(piece.global, piece.bytes);
    }
    tsan::release(&copy.global_read);
  }
  tsan::acquire(&copy.global_read);
}

/// What a copy touches, for ThreadSanitizer: at issue, since it may happen then, and again when it does.
void mark_reads(Copy& copy) {
  if (copy.kind == Copy::Kind::load) return mark_global_reads(copy);
  for (const Piece& piece : copy.pieces) {
    const bool own = copy.kind == Copy::Kind::store;
    tsan::reads(copy.issuer->block->shared + (own ? piece.offset : copy.source_offset), piece.bytes);
  }
}

void mark_writes(const Copy& copy) {
  for (const Piece& piece : copy.pieces) {
    if (copy.kind == Copy::Kind::store) tsan::writes(piece.global, piece.bytes);
    for (const Copy::Target& target : copy.targets) tsan::writes(target.block->shared + piece.offset, piece.bytes);
  }
}

void poison(const Copy& copy) {
  for (const Copy::Target& target : copy.targets) {
    for (const Piece& piece : copy.pieces) {
      std::memset(target.block->shared + piece.offset, kPoison, piece.bytes);
      std::memset(async_image(*target.block) + piece.offset, kPoison, piece.bytes);
    }
  }
}

void fill(unsigned char* to, const Piece& piece, const unsigned char* source) {
  if (source) {
    std::memcpy(to, source, piece.bytes);
  } else {
    std::memset(to, 0, piece.bytes);
  }
}

std::optional<Report> load(Copy& copy) {
  if (copy.kind == Copy::Kind::to_cluster && !copy.issuer->block->alive) {
    return paragraph(*copy.issuer, Report::Kind::misuse, copy.where,
                     text("block ", *copy.issuer->block, " ended before ", copy.name, " had read its shared memory"),
                     "a block that gives a neighbour of its shared memory ends only after a cluster barrier behind the "
                     "neighbour's wait for it");
  }
  OnEngine engine(*copy.issuer, copy.caller);
  mark_reads(copy);
  mark_writes(copy);
  std::vector<unsigned char> own;  // what goes to a neighbour: its place there may overlap the source
  if (copy.kind == Copy::Kind::to_cluster) {
    const unsigned char* source = async_image(*copy.issuer->block) + copy.source_offset;
    own.assign(source, source + copy.bytes);
  }
  for (const Copy::Target& target : copy.targets) {
    for (const Piece& piece : copy.pieces) {
      const unsigned char* source = own.empty() ? piece.global : own.data();
      fill(target.block->shared + piece.offset, piece, source);
      fill(async_image(*target.block) + piece.offset, piece, source);
    }
    if (auto report = complete_copy(copy, target)) return report;
  }
  return {};
}

void read(Copy& copy) {
  OnEngine engine(*copy.issuer, copy.caller);
  mark_reads(copy);
  const unsigned char* image = async_image(*copy.issuer->block);
  for (const Piece& piece : copy.pieces) {
    copy.data.insert(copy.data.end(), image + piece.offset, image + piece.offset + piece.bytes);
  }
  copy.read = true;
  tsan::release(&copy.read_sync);
}

void write(Copy& copy) {
  OnEngine engine(*copy.issuer, copy.caller);
  mark_writes(copy);
  const unsigned char* from = copy.data.data();
  for (const Piece& piece : copy.pieces) {
    std::memcpy(piece.global, from, piece.bytes);
    from += piece.bytes;
  }
  copy.written = true;
  std::vector<unsigned char>().swap(copy.data);
  tsan::release(&copy.written_sync);
  tsan::release(&copy.issuer->block->scheduler->launch().global_fence);
}

}  // namespace

unsigned char* async_image(Block& block) {
  if (!block.async_image) {
    block.async_image = std::make_unique_for_overwrite<unsigned char[]>(block.shared_bytes);
    std::fill_n(block.async_image.get(), block.shared_bytes, kPoison);
  }
  return block.async_image.get();
}

OnEngine::OnEngine(Thread& issuer, void* caller) {
  if (!tsan::on()) return;
  if (!issuer.engine) {
    issuer.engine = __tsan_create_fiber(0);
    const std::string name = text("copy engine for thread ", issuer.number, " of block ", *issuer.block);
    __tsan_set_fiber_name(issuer.engine, name.c_str());
  }
  enter(issuer.engine, caller);
}

OnEngine::OnEngine(void* fiber, void* caller) {
  if (tsan::on()) enter(fiber, caller);
}

void OnEngine::enter(void* fiber, void* caller) {
  self_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber, 1);
  __tsan_func_entry(caller);
  __tsan_ignore_thread_begin();
}

OnEngine::~OnEngine() {
  if (!tsan::on()) return;
  __tsan_ignore_thread_end();
  __tsan_func_exit();
  __tsan_switch_to_fiber(self_, 1);
}

void Engine::reset(const Options& options, std::uint64_t seed) {
  schedule_ = options.schedule;
  early_ = options.asynchrony == Asynchrony::early;
  random_ = Random(seed);
}

void Engine::clear() {
  prepared_.reset();
  queue_.clear();
}

Copy& Engine::prepare(Copy::Kind kind, const char* name, Thread& self, const Loc& where, void* caller) {
  prepared_ = std::make_shared<Copy>();
  Copy& copy = *prepared_;
  copy.kind = kind;
  copy.name = name;
  copy.issuer = &self;
  copy.where = where;
  copy.caller = caller;
  return copy;
}

void Engine::issue() {
  Copy& copy = *prepared_;
  if (copy.kind == Copy::Kind::store) {
    copy.group = copy.issuer->store_groups;
    copy.issuer->stores.push_back(prepared_);
  }
  queue_.push_back(std::move(prepared_));
  tsan::release(&copy.issued);
  {
    OnEngine engine(*copy.issuer, copy.caller);
    tsan::acquire(&copy.issued);
    mark_reads(copy);
    mark_writes(copy);
  }
  if (!early_) return poison(copy);
  std::optional<Report> report = step(copy);
  if (!report && copy.kind == Copy::Kind::store) report = step(copy);
  if (report) copy.issuer->block->scheduler->fail(std::move(*report));
  queue_.pop_back();
}

std::optional<Report> Engine::step(Copy& copy) {
  if (copy.kind != Copy::Kind::store) return load(copy);
  if (copy.read) {
    write(copy);
  } else {
    read(copy);
  }
  Thread& issuer = *copy.issuer;
  if (issuer.waits_for_stores) {
    issuer.waits_for_stores = false;
    issuer.block->scheduler->wake(*issuer.warp, 1u << issuer.lane);
  }
  return {};
}

bool Engine::deliver(std::optional<Report>& report) {
  if (queue_.empty()) return false;
  std::size_t i = 0;
  if (schedule_ == Schedule::descending) i = queue_.size() - 1;
  if (schedule_ == Schedule::random || schedule_ == Schedule::warp_greedy || schedule_ == Schedule::round_robin)
    i = random_.below(unsigned(queue_.size()));
  const std::shared_ptr<Copy> copy = std::move(queue_[i]);
  queue_.erase(queue_.begin() + std::ptrdiff_t(i));
  report = step(*copy);
  if (!report && copy->kind == Copy::Kind::store && !copy->written) queue_.push_back(copy);
  return true;
}

}  // namespace grout::sim
