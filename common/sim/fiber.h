// Fibers: a stack and a saved context each, switched by Boost.Context in a few nanoseconds, and told to the sanitizers.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#include "common/sim/sanitizers.h"

namespace grout::sim {

struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  const void* stack = nullptr;  // lowest usable byte; of an OS thread's own fiber: what AddressSanitizer says
  std::size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's, for frames that it watches beyond their end; the fiber keeps it, runs share it
  void* tsan = nullptr;        // ThreadSanitizer's fiber
  int scopes = 0;              // tsan::Scopes open on this fiber, left behind if it is abandoned

  /// Prepares a run of `entry`, which must never return.
  void prepare(void (*entry)(boost::context::detail::transfer_t)) {
    asan::unpoison(stack, stack_bytes);  // frames that an abandoned run left
    char* top = const_cast<char*>(static_cast<const char*>(stack)) + stack_bytes;
    context = boost::context::detail::make_fcontext(top, stack_bytes, entry);
  }

  /// After a run that was abandoned, whose frames AddressSanitizer still keeps, and before the fiber's end: enters the fiber,
  /// and leaves it for good.
  void drop_frames() {
    if (!fake_stack) return;
    void* own = nullptr;
    const void* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_start_switch_fiber(&own, stack, stack_bytes);
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    __sanitizer_start_switch_fiber(nullptr, bottom, bytes);
    __sanitizer_finish_switch_fiber(own, nullptr, nullptr);
    fake_stack = nullptr;
  }
};

/// First thing on a fiber after a switch to it: completes the switch.
inline void switched(Fiber& self, boost::context::detail::transfer_t transfer) {
  Fiber& from = *static_cast<Fiber*>(transfer.data);
  from.context = transfer.fctx;
  if (asan::on()) __sanitizer_finish_switch_fiber(self.fake_stack, &from.stack, &from.stack_bytes);
}

/// Leaves `from` for `to`; returns when somebody switches back.
inline void switch_fiber(Fiber& from, Fiber& to) {
  if (asan::on()) __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
  if (tsan::on()) __tsan_switch_to_fiber(to.tsan, 1);  // 1: the switch itself orders nothing
  switched(from, boost::context::detail::jump_fcontext(to.context, &from));
}

/// Fibers to use again, for all OS threads. Under ThreadSanitizer a fiber may be used again only by a later launch:
/// within one it would order its old block before its new one.
class FiberPool {
 public:
  static Fiber* take(std::size_t stack_bytes);
  static void give(Fiber* fiber);
  /// Does for the sanitizer what the end of a run would have done: all that it did comes before `finished`.
  static void abandon(Fiber* fiber, void* finished);
  static void destroy(Fiber* fiber);
};

}  // namespace grout::sim
