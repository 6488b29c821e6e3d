// Paired timing: several implementations in one process, in counterbalanced order, on the same data.
//
// A round is an ABBA block: every entry once in order, then once in reverse order, so that a linear drift of clocks or
// temperature cancels. Speed-ups are ratios within a round; their median is quoted with the range. A line names the
// shape, the FLOPs and the cache mode, without which a rate means nothing.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/launch.cuh"

namespace grout {

// ---- the arithmetic of it (plain C++, tested with synthetic times) ----

// The mean of the two middle values where the count is even. NaN for none.
inline double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

struct Ratio {
  double median, low, high;
};
// How much faster `candidate` is than `base`: median and range of base / candidate, round by round.
inline Ratio paired_ratio(const std::vector<double>& base, const std::vector<double>& candidate) {
  if (base.size() != candidate.size() || base.empty())
    throw std::invalid_argument("paired_ratio: " + std::to_string(base.size()) + " and " +
                                std::to_string(candidate.size()) + " rounds: equal, non-zero counts are needed");
  std::vector<double> ratios;
  for (size_t i = 0; i < base.size(); ++i) ratios.push_back(base[i] / candidate[i]);
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  return {median(ratios), *low, *high};
}

// times[entry][round]: the mean of the entry's two visits in that ABBA block. measure(entry) gives one visit's time.
inline std::vector<std::vector<double>> abba_rounds(size_t entries, int rounds,
                                                    const std::function<double(size_t)>& measure) {
  std::vector<std::vector<double>> times(entries);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < entries; ++i) times[i].push_back(measure(i) / 2);
    for (size_t i = entries; i-- > 0;) times[i].back() += measure(i) / 2;
  }
  return times;
}

// "561 tiles in 4.25 waves of 132, the last one 25% full": why a shape is slow that fills its last wave badly.
inline std::string describe_waves(int64_t tiles, int64_t resident) {
  const int64_t last = tiles == 0 ? 0 : (tiles - 1) % resident + 1;
  char text[120];
  std::snprintf(text, sizeof text, "%lld tiles in %.2f waves of %lld, the last one %.0f%% full",
                static_cast<long long>(tiles), static_cast<double>(tiles) / static_cast<double>(resident),
                static_cast<long long>(resident), 100.0 * static_cast<double>(last) / static_cast<double>(resident));
  return text;
}

// ---- measuring ----

struct BenchOptions {
  bool cold = true;  // flush L2 before every run, untimed; else back to back on a warm cache
  int rounds = 10;
  double warm_up_ms = 200, batch_ms = 40;
  static BenchOptions quick() { return {true, 3, 10, 5}; }
};

struct BenchEntry {
  std::string name;
  std::function<void(cudaStream_t)> run;  // enqueues `repeats` runs; must not synchronise
  int repeats = 1;                        // more than one (a CUDA graph of short runs) only on a warm cache
};

struct Timing {
  std::string name;
  std::vector<double> round_us;  // one value per ABBA round
  double us = 0;                 // their median
  Ratio speed_up{1, 1, 1};       // over the first entry
  bool cold = true;
  int runs_per_visit = 0;
};

// Times the runs of one process. Owns its events and the flush buffer. Errors of a run throw std::runtime_error.
class Bench {
 public:
  explicit Bench(const BenchOptions& options = {}, cudaStream_t stream = nullptr) : options_(options), stream_(stream) {
    DeviceInfo info;
    if (const Status status = device_info(info); !status) throw std::runtime_error(status.message);
    if (!options_.cold) return;
    flush_bytes_ = 2 * info.l2_bytes;  // twice, as L2 keeps what it thinks is hot
    if (flush_bytes_) check(cudaMalloc(&flush_, flush_bytes_), "cudaMalloc of the flush buffer");
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    (void)cudaFree(flush_);
    for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  }

  // All entries, paired; the first one is the base of the speed-ups.
  std::vector<Timing> compare(const std::vector<BenchEntry>& entries) {
    std::vector<int> runs;
    for (const auto& entry : entries) {  // warm-up, which also sizes the batches
      if (options_.cold && entry.repeats != 1)
        throw std::invalid_argument(entry.name + " enqueues " + std::to_string(entry.repeats) +
                                    " runs a call: 1 is needed to flush L2 before each");
      double us = visit(entry, 1), spent_ms = 0;
      while (spent_ms < options_.warm_up_ms) {
        const int count = batch(us * entry.repeats, std::min(options_.batch_ms, options_.warm_up_ms));
        us = visit(entry, count);
        spent_ms += us * entry.repeats * count * 1e-3 + 1e-2;
      }
      runs.push_back(batch(us * entry.repeats, options_.batch_ms));
    }
    const auto times =
        abba_rounds(entries.size(), options_.rounds, [&](size_t i) { return visit(entries[i], runs[i]); });
    std::vector<Timing> timings;
    for (size_t i = 0; i < entries.size(); ++i)
      timings.push_back(
          {entries[i].name, times[i], median(times[i]), paired_ratio(times[0], times[i]), options_.cold, runs[i]});
    return timings;
  }

 private:
  static void check(cudaError_t error, const std::string& what) {
    if (const Status status = runtime_status(error, what); !status) throw std::runtime_error(status.message);
  }
  static int batch(double us, double ms) {
    return static_cast<int>(std::clamp(ms * 1e3 / std::max(us, 1e-3), 1.0, kMaxBatch));
  }
  cudaEvent_t event(size_t i) {
    while (events_.size() <= i) check(cudaEventCreate(&events_.emplace_back()), "cudaEventCreate");
    return events_[i];
  }
  // Mean microseconds of a run over `count` calls. Cold: each run between its own events, so that the flush is outside.
  double visit(const BenchEntry& entry, int count) {
    const int intervals = options_.cold ? count : 1, runs = options_.cold ? 1 : count;
    for (int i = 0; i < intervals; ++i) {
      if (flush_) check(cudaMemsetAsync(flush_, i, flush_bytes_, stream_), "flush of L2");
      check(cudaEventRecord(event(2 * i), stream_), entry.name);
      for (int run = 0; run < runs; ++run) entry.run(stream_);
      check(cudaEventRecord(event(2 * i + 1), stream_), entry.name);
    }
    check(cudaGetLastError(), entry.name);
    check(cudaStreamSynchronize(stream_), entry.name);
    double total_ms = 0;
    for (int i = 0; i < intervals; ++i) {
      float ms = 0;
      check(cudaEventElapsedTime(&ms, event(2 * i), event(2 * i + 1)), entry.name);
      total_ms += ms;
    }
    return total_ms * 1e3 / count / entry.repeats;
  }

  static constexpr double kMaxBatch = 4096;  // events kept, and launches enqueued, at most
  BenchOptions options_;
  cudaStream_t stream_;
  void* flush_ = nullptr;
  size_t flush_bytes_ = 0;
  std::vector<cudaEvent_t> events_;
};

// One line: name, shape, FLOPs, time, rate, ratio with range, mode.
inline std::string timing_line(const Timing& t, const std::string& shape, double flops) {
  char text[400];
  std::snprintf(
      text, sizeof text,
      "%-20s %s  %.4g GFLOP  %.2f us  %.1f TFLOP/s  %.3fx [%.3f, %.3f]  L2 %s, %zu ABBA rounds of 2 x %d runs",
      t.name.c_str(), shape.c_str(), flops * 1e-9, t.us, flops / t.us * 1e-6, t.speed_up.median, t.speed_up.low,
      t.speed_up.high, t.cold ? "cold" : "warm", t.round_us.size(), t.runs_per_visit);
  return text;
}

}  // namespace grout
