// What an example binary does after its run, on either device: verify the result, time it, and compare with cuBLAS where
// there is a GPU. For binaries and tests only.
#pragma once
#include <chrono>
#include <cstdio>

#ifdef __CUDACC__
#include "common/check_attention_gpu.cuh"
#else
#include "common/bench.cuh"
#include "common/check_attention.cuh"
#endif

namespace grout {

// Up to how many multiply-adds the CPU's fp64 reference is used; above, the GPU's.
inline constexpr double kMostOnCpu = kSimulatedBuild ? INFINITY : 0x1p28;

#ifdef __CUDACC__

// The GPU's reference is itself sampled against the CPU.
inline Comparison verify_gemm(const GemmFixture& fixture, double multiply_adds, const std::string& context) {
  return multiply_adds <= kMostOnCpu ? fixture.verify(context) : verify_on_gpu(fixture, context);
}
inline AttentionComparison verify_attention(const AttentionFixture& fixture, double multiply_adds,
                                            const std::string& context) {
  return multiply_adds <= kMostOnCpu ? fixture.verify(context)
                                     : verify_attention_on_gpu(fixture, AttentionJudge(fixture, context));
}

namespace detail {
// Prints the paired times, back to back on a warm cache; the last entry's.
inline double time_entries(const std::vector<BenchEntry>& entries, const std::string& shape, double flops) {
  const std::vector<Timing> timings = Bench(BenchOptions::quick(false)).compare(entries);
  require_figures(timings);
  for (const Timing& timing : timings) std::printf("%s\n", timing_line(timing, shape, flops).c_str());
  return timings.back().us;
}
}  // namespace detail

// Microseconds of `run`, back to back on a warm cache, paired with cuBLAS on the same data; prints the comparison.
// The output buffer is overwritten: verify first.
inline double time_gemm(GemmFixture& f, const std::string& kernel, const std::string& shape, double flops,
                        const std::function<Status(cudaStream_t)>& run) {
  std::vector<BenchEntry> entries = {{kernel, [&](cudaStream_t s) { require(run(s)); }}};
  const auto cublas = [&](cudaStream_t s) {
    return cublas_gemm(f.a.layout, f.device_a.data(), f.b.layout, f.device_b.data(), f.c.layout, f.device_c.data(),
                       f.alpha, f.beta, s);
  };
  if (const Status possible = cublas(nullptr); possible)
    entries.insert(entries.begin(), {"cublas", [&](cudaStream_t s) { require(cublas(s)); }});
  else
    std::printf("no comparison with cuBLAS: %s\n", possible.message.c_str());
  return detail::time_entries(entries, shape, flops);
}

// The same for attention: cuBLAS multiplies twice, with a softmax in between, all logits in memory.
inline double time_attention(AttentionFixture& f, const std::string& kernel, const std::string& shape, double flops,
                             const std::function<Status(cudaStream_t)>& run) {
  std::vector<BenchEntry> entries = {{kernel, [&](cudaStream_t s) { require(run(s)); }}};
  std::unique_ptr<UnfusedAttention> unfused;
  const auto three_steps = [&](cudaStream_t s) { return unfused->run(f, f.base(f.device_o, f.o), s); };
  const Status possible = [&]() -> Status {
    const double bytes = unfused_attention_bytes(f.problem);
    if (bytes > 0x1p33) return unsupported("its logits take " + std::to_string(bytes * 1e-9) + " GB");
    unfused = std::make_unique<UnfusedAttention>(f.problem);
    return three_steps(nullptr);
  }();
  if (possible)
    entries.insert(entries.begin(), {"unfused cublas", [&](cudaStream_t s) { require(three_steps(s)); }});
  else
    std::printf("no comparison with attention in three steps: %s\n", possible.message.c_str());
  return detail::time_entries(entries, shape, flops);
}

#else

inline Comparison verify_gemm(const GemmFixture& fixture, double, const std::string& context) {
  return fixture.verify(context);
}
inline AttentionComparison verify_attention(const AttentionFixture& fixture, double, const std::string& context) {
  return fixture.verify(context);
}

namespace detail {
// Microseconds of one run on the host's clock: the cost of simulating, no measure of the kernel.
inline double time_once(const std::function<Status(cudaStream_t)>& run) {
  const auto start = std::chrono::steady_clock::now();
  require(run(nullptr));
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}
}  // namespace detail

inline double time_gemm(GemmFixture&, const std::string&, const std::string&, double,
                        const std::function<Status(cudaStream_t)>& run) {
  return detail::time_once(run);
}
inline double time_attention(AttentionFixture&, const std::string&, const std::string&, double,
                             const std::function<Status(cudaStream_t)>& run) {
  return detail::time_once(run);
}

#endif

}  // namespace grout
