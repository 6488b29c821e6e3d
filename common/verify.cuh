// What an example binary does after its run, on either device: verify the result, time it, and compare with cuBLAS where
// there is a GPU. For binaries and tests only.
#pragma once
#include <chrono>
#include <cstdio>

#ifdef __CUDACC__
#include "common/check_gpu.cuh"
#else
#include "common/bench.cuh"
#include "common/check.cuh"
#endif

namespace grout {

#ifdef __CUDACC__

// The CPU's fp64 reference up to 2^28 multiply-adds; above, the GPU's, itself sampled against the CPU.
inline Comparison verify_gemm(const GemmFixture& fixture, int64_t multiply_adds, const std::string& context) {
  return multiply_adds <= int64_t{1} << 28 ? fixture.verify(context) : verify_on_gpu(fixture, context);
}

// Microseconds of `run`, back to back on a warm cache, paired with cuBLAS on the same data; prints the comparison.
// The output buffer is overwritten: verify first.
inline double time_gemm(GemmFixture& f, const std::string& kernel, const std::string& shape, double flops,
                        const std::function<Status(cudaStream_t)>& run) {
  const auto require = [](const Status& status) {
    if (!status) throw std::runtime_error(status.message);
  };
  std::vector<BenchEntry> entries = {{kernel, [&](cudaStream_t s) { require(run(s)); }}};
  const auto cublas = [&](cudaStream_t s) {
    return cublas_gemm(f.a.layout, f.device_a.data(), f.b.layout, f.device_b.data(), f.c.layout, f.device_c.data(),
                       f.alpha, f.beta, s);
  };
  if (const Status possible = cublas(nullptr); possible)
    entries.insert(entries.begin(), {"cublas", [&](cudaStream_t s) { require(cublas(s)); }});
  else
    std::printf("no comparison with cuBLAS: %s\n", possible.message.c_str());
  const std::vector<Timing> timings = Bench(BenchOptions::quick(false)).compare(entries);
  require_figures(timings);
  for (const Timing& timing : timings) std::printf("%s\n", timing_line(timing, shape, flops).c_str());
  return timings.back().us;
}

#else

inline Comparison verify_gemm(const GemmFixture& fixture, int64_t, const std::string& context) {
  return fixture.verify(context);
}

// Microseconds of one run on the host's clock: the cost of simulating, no measure of the kernel.
inline double time_gemm(GemmFixture&, const std::string&, const std::string&, double,
                        const std::function<Status(cudaStream_t)>& run) {
  const auto start = std::chrono::steady_clock::now();
  if (const Status status = run(nullptr); !status) throw std::runtime_error(status.message);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

#endif

}  // namespace grout
