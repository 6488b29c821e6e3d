// Grids of which one writes what the next reads, and their memory. Unnamed: ThreadSanitizer cannot tell the lines of kernels
// that several files of a program share.
#pragma once
#include <cstdlib>

#include "common/ptx_sm90.cuh"
#include "tests/sim/device_test.h"

namespace grout::cluster_test {
namespace {

using namespace grout::ptx;
using sim::Launch;

constexpr unsigned kThreads = 64, kBlocks = 2, kWords = kThreads * kBlocks;

GROUT_DEVICE unsigned place() {
  return blockIdx.x * blockDim.x + threadIdx.x;
}

enum class Launches { before, behind, never };
template <Launches When>
__global__ void produce(uint32_t* out) {
  if (When == Launches::before) griddepcontrol_launch_dependents();
  out[place()] = 1000 + place();
  if (When == Launches::behind) griddepcontrol_launch_dependents();
}

// Lets the next grid begin only when all is written, which still says nothing about memory.
__global__ void produce_then_launch(uint32_t* out) {
  if (blockIdx.x > 0) return;
  for (unsigned i = threadIdx.x; i < kWords; i += kThreads) out[i] = 1000 + i;
  __syncthreads();
  griddepcontrol_launch_dependents();
}

// Adds one. When it waits, when it lets the next begin.
enum class Waits { first, never, one_thread, late };
template <Waits When, Launches Next = Launches::never>
__global__ void consume(const uint32_t* in, uint32_t* out) {
  if (Next == Launches::before) griddepcontrol_launch_dependents();
  if (When == Waits::first || (When == Waits::one_thread && threadIdx.x == 0)) griddepcontrol_wait();
  if (Next == Launches::behind) griddepcontrol_launch_dependents();
  out[place()] = in[place()] + 1;
  if (When == Waits::late) griddepcontrol_wait();
}

// Sums what the last two grids wrote; `a` is read before the wait if EarlyA.
template <bool EarlyA>
__global__ void add(const uint32_t* a, const uint32_t* b, uint32_t* out) {
  uint32_t sum = EarlyA ? a[place()] : 0;
  griddepcontrol_wait();
  if (!EarlyA) sum = a[place()];
  out[place()] = sum + b[place()];
}

// Writes what the grid before writes, too.
template <Waits When>
__global__ void overwrite(uint32_t* out) {
  if (When == Waits::first) griddepcontrol_wait();
  out[place()] = 5000 + place();
  if (When == Waits::late) griddepcontrol_wait();
}

// How reports name the late wait.
inline std::string late_wait() {
  return test::here(__LINE__ - 5, "overwrite");
}

/// Device memory of three arrays of kWords and a guard behind each.
class Arrays {
 public:
  Arrays() {
    for (uint32_t*& pointer : pointers_) {
      if (cudaMalloc(&pointer, (kWords + 1) * 4) != cudaSuccess) std::abort();
    }
    poison();
  }
  ~Arrays() {
    for (uint32_t* pointer : pointers_) (void)cudaFree(pointer);
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;
  void poison() {
    for (uint32_t* pointer : pointers_) (void)cudaMemset(pointer, 0xff, (kWords + 1) * 4);
  }
  uint32_t* operator[](unsigned i) { return pointers_[i]; }
  /// Is array i what expected(place) says, and its guard whole? Read without any call of the runtime.
  template <class F>
  bool is(unsigned i, F expected) const {
    for (unsigned p = 0; p < kWords; ++p) {
      if (pointers_[i][p] != uint32_t(expected(p))) return false;
    }
    return pointers_[i][kWords] == 0xffffffffu;
  }

 private:
  uint32_t* pointers_[3] = {};
};

const Launch kPlain{dim3(kBlocks), dim3(kThreads)};
const Launch kProgrammatic{dim3(kBlocks), dim3(kThreads), 0, 1, true};
const auto kProduced = [](unsigned p) { return 1000 + p; };
const auto kConsumed = [](unsigned p) { return 1001 + p; };

}  // namespace
}  // namespace grout::cluster_test
