// The copy engine: bulk and tensor copies that are under way, and their delivery.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/sim/schedule.h"
#include "common/sim/sim.h"

namespace grout::sim {

struct Thread;
struct Block;

/// How often a thread asked in vain whether a phase is complete.
struct Refusals {
  unsigned phase = 0, count = 0;
};

/// A barrier in shared memory that counts arrivals and bytes. The 8 bytes there hold a pattern, to notice stray stores; they
/// also are what ThreadSanitizer synchronises on, one byte for each parity of the phase, of the own and of other blocks.
struct MBarrier {
  std::uint32_t offset = 0;  // in the block's shared memory
  std::uint32_t count = 0, pending = 0;
  std::int64_t tx = 0;  // bytes expected, less those that have come
  unsigned phase = 0;   // completed phases
  unsigned serial = 0;  // tells apart the barriers that were at this place one after the other
  bool fenced = false;  // may the engine and other blocks use it?
  const Thread* initialiser = nullptr;
  Loc where;                      // its mbarrier.init
  std::vector<Thread*> waiters;   // for the current phase
  std::vector<Refusals> refusals;  // of each thread of the block, as far as it asked
  unsigned copied = 0, seen = 0;  // phases, up to the last that had a copy, and to the last that a thread saw complete
  Thread* copier = nullptr;       // who issued that copy, and where
  Loc copied_at;
};

/// Bytes that lie together in shared memory and in global memory.
struct Piece {
  std::uint32_t offset, bytes;
  unsigned char* global;  // null: outside of the matrix, zeros
};

struct Copy {
  enum class Kind : std::uint8_t { load, to_cluster, store };
  struct Target {
    Block* block;
    std::uint32_t offset;    // of its barrier
    unsigned serial, phase;  // of that at issue
  };

  Kind kind;
  const char* name;
  Thread* issuer;
  Loc where;
  void* caller;                     // for ThreadSanitizer's reports
  std::vector<Piece> pieces;        // `offset` is that of the destination, or a store's source
  std::uint32_t source_offset = 0;  // to_cluster
  std::uint32_t bytes = 0;          // that a barrier counts
  std::vector<Target> targets;      // of loads
  std::vector<unsigned char> data;  // of a store: what was read
  unsigned group = 0;               // of a store
  bool read = false, written = false, waited = false;
  char issued = 0, read_sync = 0, written_sync = 0, global_read = 0;  // sanitizer
};

class Engine {
 public:
  void reset(const Options& options, std::uint64_t seed);
  /// A copy to be filled in and issued. The engine owns it, so that nothing is lost if a report ends the launch before.
  Copy& prepare(Copy::Kind kind, const char* name, Thread& self, const Loc& where, void* caller);
  /// From the issuing thread: the copy that was prepared is under way. Early: and made.
  void issue();
  /// Makes one step of one copy, or the report why not; false if none is under way. Only when no thread can run.
  bool deliver(std::optional<Report>& report);
  void clear();

 private:
  std::optional<Report> step(Copy& copy);
  std::shared_ptr<Copy> prepared_;
  std::vector<std::shared_ptr<Copy>> queue_;  // oldest first
  Schedule schedule_ = Schedule::ascending;
  bool early_ = false;
  Random random_{1};
};

/// Until it ends, ThreadSanitizer takes this OS thread for the engine as it works for that thread: so the engine knows only
/// what the issuers of a copy knew. Or for a fiber of its own. In kernels and outside; no switch of fibers meanwhile.
class OnEngine {
 public:
  OnEngine(Thread& issuer, void* caller);
  OnEngine(void* fiber, void* caller);
  ~OnEngine();
  OnEngine(const OnEngine&) = delete;
  OnEngine& operator=(const OnEngine&) = delete;

 private:
  void enter(void* fiber, void* caller);
  void* self_ = nullptr;
};

// ---- engine.cpp ----
/// The block's shared memory as the asynchronous proxy sees it.
unsigned char* async_image(Block& block);

// ---- mbarrier.cpp ----
/// The barrier at that address of the block, or a report.
MBarrier& mbarrier_at(Thread& self, Block& block, std::uint32_t address, const char* what, const Loc& where);
/// The copy will complete on the barrier at that address of that block.
void add_target(Thread& self, Copy& copy, Block& block, std::uint32_t address);
/// Its bytes have come there.
std::optional<Report> complete_copy(const Copy& copy, const Copy::Target& target);
/// Lets the threads of the block that wait at mbarriers ask again, though no phase is complete; false if none may.
bool time_out(Block& block);
/// In the last thread of a block: a report if nobody waited for a copy into it.
void check_mbarriers_at_exit(Thread& self);

// ---- bulk_copy.cpp ----
/// The own block, or the blocks of a multicast mask, are to get the copy, on their barriers at that address.
void add_targets(Thread& self, Copy& copy, std::uint32_t barrier, std::uint16_t blocks);
/// A report if AddressSanitizer knows that the copy leaves its allocations.
void check_global(Thread& self, const Copy& copy);
void check_stores_at_exit(Thread& self);

}  // namespace grout::sim
