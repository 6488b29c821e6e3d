// cp.async: per-thread queues of copies. Late: the destination is poison from the issue to the wait that first guarantees
// the copy, when the source is read. Early: the copy is made at its issue. In both, a thread must wait for what it issued.
#include "common/sim/state.h"

namespace grout::sim {
namespace {

constexpr int kPoison = 0xff;

void perform(const AsyncCopy& copy) {
  tsan::reads(copy.src, copy.src_bytes);
  tsan::writes(copy.dst, copy.bytes);
  auto* dst = static_cast<unsigned char*>(copy.dst);
  if (copy.src_bytes) std::memcpy(dst, copy.src, copy.src_bytes);
  std::memset(dst + copy.src_bytes, 0, std::size_t(copy.bytes - copy.src_bytes));
}

/// Completes the copies of the first `groups` groups.
void complete(Thread& self, unsigned groups) {
  auto end = self.copies.begin();
  for (; end != self.copies.end() && end->group < groups; ++end) {
    if (!end->done) perform(*end);
  }
  self.copies.erase(self.copies.begin(), end);
}

}  // namespace

void cp_async(std::uint32_t dst, const void* src, unsigned bytes, unsigned src_bytes, Loc loc) {
  Entry entry("cp.async", __builtin_return_address(0));
  Thread& self = entry.self;
  if (bytes != 4 && bytes != 8 && bytes != 16) {
    fail(self, Report::Kind::misuse, loc, text("cp.async of ", bytes, " bytes"), "cp.async copies 4, 8 or 16 bytes");
  }
  if (src_bytes > bytes) {
    fail(self, Report::Kind::misuse, loc, text("cp.async of ", bytes, " bytes with a source size of ", src_bytes),
         "the source size of cp.async is at most its size");
  }
  if (reinterpret_cast<std::uintptr_t>(src) % bytes) {
    fail(self, Report::Kind::misuse, loc,
         text("cp.async of ", bytes, " bytes from global address ", Hex{reinterpret_cast<std::uintptr_t>(src)}),
         "both addresses of cp.async are aligned to its size");
  }
  void* memory = shared_memory(self, dst, bytes, bytes, "cp.async", loc);
  if (const void* bad = asan::first_poisoned(src, src_bytes)) {
    const auto offset = static_cast<const char*>(bad) - static_cast<const char*>(src);
    fail(self, Report::Kind::out_of_bounds, loc,
         text("cp.async reads ", src_bytes, " bytes of global memory, of which byte ", offset,
              " is not in any allocation"),
         "cp.async reads its source bytes, and only those");
  }
  Statistics& statistics = self.block->scheduler->statistics;
  ++(bytes == 16 ? statistics.cp_async_16 : bytes == 8 ? statistics.cp_async_8 : statistics.cp_async_4);
  statistics.cp_async_filled += src_bytes < bytes;

  const bool early = self.block->scheduler->launch().options.asynchrony == Asynchrony::early;
  self.copies.push_back({memory, src, std::uint8_t(bytes), std::uint8_t(src_bytes), early, self.committed, loc});
  if (early) {
    perform(self.copies.back());
  } else {
    tsan::reads(src, src_bytes);  // it may happen now, and at any moment up to the wait
    tsan::writes(memory, bytes);
    std::memset(memory, kPoison, bytes);
  }
}

void cp_async_commit(Loc) {
  Entry entry("cp.async.commit_group", __builtin_return_address(0));
  ++entry.self.committed;
}

void cp_async_wait_group(int n, Loc loc) {
  Entry entry("cp.async.wait_group", __builtin_return_address(0));
  Thread& self = entry.self;
  if (n < 0) {
    fail(self, Report::Kind::misuse, loc, text("cp.async.wait_group ", n),
         "cp.async.wait_group takes the number of groups that may stay pending");
  }
  if (self.committed > unsigned(n)) complete(self, self.committed - unsigned(n));
}

void cp_async_wait_all(Loc) {
  Entry entry("cp.async.wait_all", __builtin_return_address(0));
  complete(entry.self, ++entry.self.committed);
}

void check_copies_at_exit(Thread& self) {
  if (self.copies.empty()) return;
  const AsyncCopy& first = self.copies.front();
  fail(self, Report::Kind::misuse, first.where,
       text("the thread exits with ", self.copies.size(),
            " cp.async operations that it never waited for; the first was ",
            first.group == self.committed ? "issued here and not committed" : "issued here"),
       "a thread waits for its asynchronous copies before it ends: they may still write its block's shared memory");
}

}  // namespace grout::sim
