// A sweep over small crops and repacks that stays on the device: each case is a copy, then a kernel that compares the whole
// destination with its padding and guard bands, counts what is wrong and poisons it again. Nothing waits in between. Runs on
// the GPU (all cases), and on the simulated device (a sample).
//
// The reference knows nothing of the kernels: an element of a destination is the source's element at the coordinate that the
// contract names, computed from scratch.
#pragma once
#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/check.cuh"
#include "common/repack.cuh"
#include "copy/copy_stream.cuh"
#include "tests/kernels/copy_sweep_cases.cuh"

namespace grout::test {

// ---- the verdict, on the device -----------------------------------------------------------------------------------

inline constexpr unsigned char kSweepPoison = 0x7f;  // every byte of a destination that was not written
inline constexpr int64_t kSweepGuard = 512;          // bytes in front of a destination and behind it

struct SweepVerdict {
  unsigned long long checked, wrong, first_case, first_element;  // cases; elements; the first case with one, and one of its
};

template <class U>
GROUT_DEVICE void sweep_compare(U& got, U expected, SweepVerdict* verdict, int64_t index, int64_t element) {
  constexpr auto kUntouched = static_cast<U>(0x7f7f7f7fu);
  if (got != expected) {
    atomicAdd(&verdict->wrong, 1ull);
    if (static_cast<unsigned long long>(index) < atomicMin(&verdict->first_case, static_cast<unsigned long long>(index)))
      atomicExch(&verdict->first_element, static_cast<unsigned long long>(element));
  }
  got = kUntouched;
}

// Memory of `elements` elements; the destination begins `at` elements into it.
struct SweepCropCheck {
  SweepCrop x;
  const void* source;  // element (0, 0)
  void* memory;
  int64_t elements, at, index;
  SweepVerdict* verdict;
};
template <class U> __global__ void sweep_check_crop(const SweepCropCheck p) {
  const SweepCrop& x = p.x;
  if (blockIdx.x == 0 && threadIdx.x == 0) atomicAdd(&p.verdict->checked, 1ull);
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < p.elements; i += int64_t{gridDim.x} * blockDim.x) {
    auto expected = static_cast<U>(0x7f7f7f7fu);
    const int64_t place = i - p.at;
    if (place >= 0 && x.ld > 0 && place / x.ld < x.rows && place % x.ld < x.cols) {
      const int64_t row = place / x.ld + x.origin.row, col = place % x.ld + x.origin.col;
      const bool exists = row >= 0 && row < x.source_rows && col >= 0 && col < x.source_cols;
      expected = exists ? static_cast<const U*>(p.source)[row * x.row_stride + col * x.col_stride] : U{0};
    }
    sweep_compare(static_cast<U*>(p.memory)[i], expected, p.verdict, p.index, place);
  }
}

struct SweepRepackCheck {
  SweepRepack x;
  const void* source;  // element (0, 0) of the first matrix
  void* memory;
  int64_t elements, at, index;  // at: of the first matrix of the copies
  SweepVerdict* verdict;
};
template <class U> __global__ void sweep_check_repack(const SweepRepackCheck p) {
  const SweepRepack& x = p.x;
  if (blockIdx.x == 0 && threadIdx.x == 0) atomicAdd(&p.verdict->checked, 1ull);
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < p.elements; i += int64_t{gridDim.x} * blockDim.x) {
    auto expected = static_cast<U>(0x7f7f7f7fu);
    for (int64_t batch = 0; batch < x.batch; ++batch) {
      const int64_t place = i - p.at - batch * x.copy_batch_stride;
      if (place < 0 || place >= x.rows * x.ld) continue;
      const int64_t row = place / x.ld, col = place % x.ld;
      expected =
          col < x.cols
              ? static_cast<const U*>(p.source)[batch * x.source_batch_stride + row * x.row_stride + col * x.col_stride]
              : U{0};
    }
    sweep_compare(static_cast<U*>(p.memory)[i], expected, p.verdict, p.index, i - p.at);
  }
}

// ---- running cases ------------------------------------------------------------------------------------------------

// Random bits that all cases read, and never change.
class SweepSource {
 public:
  explicit SweepSource(size_t bytes) : host_(bytes / 8), device_(bytes / 8 * 8) {
    for (size_t i = 0; i < host_.size(); ++i) host_[i] = sweep_mix((i + 1) * 0x9e3779b97f4a7c15u);
    device_.upload(host_.data());
  }
  // The element (0, 0) of a matrix whose first valid element lies `offset` elements behind a multiple of 256 bytes.
  const void* place(std::initializer_list<std::pair<int64_t, int64_t>> extents_and_strides, int offset, int size) const {
    int64_t low = 0, high = 0;
    for (const auto& [extent, stride] : extents_and_strides)
      (stride < 0 ? low : high) += std::max<int64_t>(extent - 1, 0) * stride;
    if ((high - low + 1 + offset) * size + 256 > static_cast<int64_t>(device_.size()))
      throw std::runtime_error("the sweep's source is too small");
    return device_.as<unsigned char>() + 256 + (offset - low) * size;
  }
  bool unchanged() const {
    std::vector<uint64_t> now(host_.size());
    device_.download(now.data());
    return now == host_;
  }

 private:
  std::vector<uint64_t> host_;
  DeviceBuffer device_;
};

// Runs cases on a stream of its own, into a destination of its own.
class SweepRunner {
 public:
  SweepRunner(const SweepSource& source, size_t bytes)
      : source_(source), destination_(bytes), verdict_(sizeof(SweepVerdict)) {
    require_success(cudaStreamCreate(&stream_), "cudaStreamCreate");
    require_success(cudaMemset(destination_.data(), kSweepPoison, bytes), "cudaMemset");
    const SweepVerdict none = {0, 0, ~0ull, 0};
    verdict_.upload(&none);
    require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // uploads and the stream are in no order
  }
  ~SweepRunner() { (void)cudaStreamDestroy(stream_); }
  SweepRunner(const SweepRunner&) = delete;

  // One case. `spoil`: changes this byte of the destination's memory before it is compared; negative: none.
  template <class Crop> void crop(int64_t index, const SweepCrop& x, Crop kernel, int64_t spoil = -1) {
    CropArguments g;
    g.type = x.size == 4 ? ElementType::f32 : index % 2 ? ElementType::f16 : ElementType::bf16;
    g.source_rows = x.source_rows, g.source_cols = x.source_cols, g.row_stride = x.row_stride, g.col_stride = x.col_stride;
    g.origin = x.origin, g.rows = x.rows, g.cols = x.cols, g.ld = x.ld;
    g.source = source_.place({{x.source_rows, x.row_stride}, {x.source_cols, x.col_stride}}, x.source_offset, x.size);
    const int64_t at = kSweepGuard / x.size + x.offset, elements = at + x.rows * x.ld + kSweepGuard / x.size;
    g.destination = room(elements, x.size) + at * x.size;
    require(kernel(g, stream_), index, x);
    disturb(spoil);
    const SweepCropCheck check = {x, g.source, destination_.data(), elements, at, index, verdict_.as<SweepVerdict>()};
    require(launch(x.size == 2 ? &sweep_check_crop<uint16_t> : &sweep_check_crop<uint32_t>, blocks(elements), dim3(256), 0,
                   stream_, check),
            index, x);
  }
  void repack(int64_t index, const SweepRepack& x, int64_t spoil = -1) {
    const ElementType type = x.size == 4 ? ElementType::f32 : index % 2 ? ElementType::f16 : ElementType::bf16;
    RepackOperand o;
    o.rows = x.rows, o.cols = x.cols, o.row_stride = x.row_stride, o.col_stride = x.col_stride, o.ld = x.ld;
    o.batch = x.batch, o.source_batch_stride = x.source_batch_stride, o.copy_batch_stride = x.copy_batch_stride;
    o.source = source_.place({{x.rows, x.row_stride}, {x.cols, x.col_stride}, {x.batch, x.source_batch_stride}},
                             x.source_offset, x.size);
    const int64_t reach = (x.batch - 1) * x.copy_batch_stride, at = kSweepGuard / x.size + (reach < 0 ? -reach : 0);
    const int64_t elements = at + (reach > 0 ? reach : 0) + x.rows * x.ld + kSweepGuard / x.size;
    o.copy = room(elements, x.size) + at * x.size;
    require(grout::repack({&o, 1}, type, stream_), index, x);
    disturb(spoil);
    const SweepRepackCheck check = {x, o.source, destination_.data(), elements, at, index, verdict_.as<SweepVerdict>()};
    require(launch(x.size == 2 ? &sweep_check_repack<uint16_t> : &sweep_check_repack<uint32_t>, blocks(elements), dim3(256),
                   0, stream_, check),
            index, x);
  }

  SweepVerdict finish() {
    require_success(cudaStreamSynchronize(stream_), "the sweep");
    SweepVerdict verdict;
    verdict_.download(&verdict);
    return verdict;
  }
  // Is all of the destination poison again, also what no case has looked at?
  bool untouched() const {
    std::vector<unsigned char> all(destination_.size());
    destination_.download(all.data());
    return std::all_of(all.begin(), all.end(), [](unsigned char byte) { return byte == kSweepPoison; });
  }

 private:
  static dim3 blocks(int64_t elements) { return dim3(static_cast<unsigned>(std::clamp<int64_t>(elements / 2048, 1, 512))); }
  unsigned char* room(int64_t elements, int size) const {
    if (elements * size > static_cast<int64_t>(destination_.size()))
      throw std::runtime_error("the sweep's destination is too small");
    return destination_.as<unsigned char>();
  }
  void disturb(int64_t byte) {
    if (byte >= 0) require_success(cudaMemsetAsync(destination_.as<unsigned char>() + byte, 0xa5, 1, stream_), "cudaMemset");
  }
  template <class Case> static void require(const Status& status, int64_t index, const Case& x) {
    if (!status) throw std::runtime_error("case " + std::to_string(index) + ", " + describe(x) + ": " + status.message);
  }
  const SweepSource& source_;
  DeviceBuffer destination_, verdict_;
  cudaStream_t stream_ = nullptr;
};

// Permutes 0..count-1, so that neighbouring positions are unlike cases. 1,000,003 is prime.
constexpr int64_t sweep_spread(int64_t position, int64_t count) { return position * 1'000'003 % count; }
static_assert(std::gcd(kCropCases, int64_t{1'000'003}) == 1 && std::gcd(kRepackCases, int64_t{1'000'003}) == 1);

struct Sweep {
  int64_t enqueued = 0, checked = 0, wrong = 0;
  std::vector<std::string> messages;
};

// Runs `total` of `count` cases, spread over all, in `workers` host threads and streams. run(runner, index) enqueues one;
// describe_case(index) names it.
template <class Run, class Describe>
Sweep sweep(int64_t total, int64_t count, int workers, const SweepSource& source, size_t bytes, Run run,
            Describe describe_case) {
  constexpr int64_t kChunk = 1024;
  Sweep all;
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  const auto work = [&] {
    int64_t enqueued = 0;
    try {
      SweepRunner runner(source, bytes);
      for (int64_t begin; (begin = kChunk * next++) < total;)
        for (int64_t i = begin; i < std::min(total, begin + kChunk); ++i, ++enqueued) run(runner, sweep_spread(i, count));
      const SweepVerdict verdict = runner.finish();
      const bool untouched = runner.untouched();
      const std::lock_guard lock(mutex);
      all.enqueued += enqueued, all.checked += static_cast<int64_t>(verdict.checked),
          all.wrong += static_cast<int64_t>(verdict.wrong);
      if (verdict.wrong > 0)
        all.messages.push_back("case " + std::to_string(verdict.first_case) + ": " +
                               describe_case(static_cast<int64_t>(verdict.first_case)) + ": element " +
                               std::to_string(static_cast<int64_t>(verdict.first_element)) +
                               " of the destination's memory; " + std::to_string(verdict.wrong) + " wrong elements in all");
      if (!untouched) all.messages.push_back("memory that no case looks at was written");
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      all.messages.push_back(error.what());
    }
  };
  std::vector<std::thread> threads(static_cast<size_t>(workers));
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
  if (!source.unchanged()) all.messages.push_back("the source was written");
  return all;
}

inline constexpr size_t kSweepSourceBytes = size_t{20} << 20, kSweepBytes = size_t{6} << 20;  // for all cases

// The sweep's own test: what it says of some cases, of which one's destination and the guard band behind another's were spoilt.
inline SweepVerdict sweep_with_two_spoilt(const SweepSource& source, size_t bytes, int64_t first_spoilt,
                                          int64_t second_spoilt) {
  SweepRunner runner(source, bytes);
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t index = kRepackAlignments + i;
    const SweepRepack x = sweep_repack(index);
    const int64_t behind = kSweepGuard + (x.rows * x.ld + std::abs((x.batch - 1) * x.copy_batch_stride)) * x.size;
    runner.repack(index, x, i == first_spoilt ? kSweepGuard + 1 : i == second_spoilt ? behind + kSweepGuard - 1 : -1);
  }
  return runner.finish();
}

}  // namespace grout::test
