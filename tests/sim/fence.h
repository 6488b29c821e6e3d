// Memory that AddressSanitizer watches for a while, beside what it watches anyway; nothing without it.
#pragma once
#include <cstddef>

#include "common/sim/sim.h"

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* address, size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* address, size_t bytes);
}

namespace grout::test {

// `bytes` bytes from `begin` (a multiple of 8) may not be accessed while it lives: as many of them as are whole pieces of 8. Early
// only, since for late asynchrony the simulated device keeps a copy of all memory.
class Fence {
 public:
  Fence(const void* begin, size_t bytes)
      : begin_(begin), bytes_(sim::options().asynchrony == sim::Asynchrony::late ? 0 : bytes / 8 * 8) {
    if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(begin_, bytes_);
  }
  ~Fence() {
    if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(begin_, bytes_);
  }
  Fence(const Fence&) = delete;

 private:
  const void* begin_;
  size_t bytes_;
};

}  // namespace grout::test
