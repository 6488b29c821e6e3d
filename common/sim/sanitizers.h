// The sanitizers' interfaces as weak symbols: null in a plain program, the real ones in an instrumented one.
// Only for files of the library, which are never compiled with a sanitizer themselves.
#pragma once

#include <cstddef>

extern "C" {
__attribute__((weak)) void* __tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void* fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void* fiber, unsigned flags);
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void __tsan_set_fiber_name(void* fiber, const char* name);
__attribute__((weak)) void __tsan_acquire(void* address);
__attribute__((weak)) void __tsan_release(void* address);
__attribute__((weak)) void __tsan_read_range(void* address, unsigned long bytes);
__attribute__((weak)) void __tsan_write_range(void* address, unsigned long bytes);
__attribute__((weak)) void __tsan_func_entry(void* caller);
__attribute__((weak)) void __tsan_func_exit();
__attribute__((weak)) void __tsan_ignore_thread_begin();
__attribute__((weak)) void __tsan_ignore_thread_end();

__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t bytes);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* bytes);
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* address, std::size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* address, std::size_t bytes);
__attribute__((weak)) void* __asan_region_is_poisoned(void* address, std::size_t bytes);
}

namespace grout::sim {

namespace tsan {
inline bool on() {
  return __tsan_create_fiber != nullptr;
}
inline void acquire(void* address) {
  if (on()) __tsan_acquire(address);
}
inline void release(void* address) {
  if (on()) __tsan_release(address);
}

/// Hides what the runtime does from ThreadSanitizer: its code is not instrumented, but the malloc and memcpy that it calls
/// are intercepted. `caller` goes onto the sanitizer's stack, so that its reports name the kernel's line.
class Scope {
 public:
  explicit Scope(void* caller) {
    if (!on()) return;
    __tsan_func_entry(caller);
    __tsan_ignore_thread_begin();
  }
  ~Scope() {
    if (!on()) return;
    __tsan_ignore_thread_end();
    __tsan_func_exit();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

/// Inside a `Scope`: an access that the current thread makes on the kernel's behalf.
inline void reads(const void* address, std::size_t bytes) {
  if (!on() || !bytes) return;
  __tsan_ignore_thread_end();
  __tsan_read_range(const_cast<void*>(address), bytes);
  __tsan_ignore_thread_begin();
}
inline void writes(void* address, std::size_t bytes) {
  if (!on() || !bytes) return;
  __tsan_ignore_thread_end();
  __tsan_write_range(address, bytes);
  __tsan_ignore_thread_begin();
}
}  // namespace tsan

namespace asan {
inline bool on() {
  return __asan_poison_memory_region != nullptr;
}
inline void poison(const void* address, std::size_t bytes) {
  if (on()) __asan_poison_memory_region(address, bytes);
}
inline void unpoison(const void* address, std::size_t bytes) {
  if (on()) __asan_unpoison_memory_region(address, bytes);
}
/// The first byte of the range that must not be accessed, or null.
inline const void* first_poisoned(const void* address, std::size_t bytes) {
  return on() && bytes ? __asan_region_is_poisoned(const_cast<void*>(address), bytes) : nullptr;
}
}  // namespace asan

}  // namespace grout::sim
