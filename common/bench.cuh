// Paired timing: several implementations in one process, in counterbalanced order, on the same data.
//
// A round gives every entry several batches of runs, in turn: A B, B A, A B, ... (visiting_order). So entries see the same clocks and
// temperature, a linear drift cancels, and so does what one leaves to the next. An entry's figure of a round is the median of its batches.
// A batch is timed once the clocks are the entry's own: behind runs of an eighth of it or, at the device's power limit, whose
// controller takes about a tenth of a second, of settle_ms.
// Speed-ups are ratios within a round; their median is quoted with the range. A line names the shape, the FLOPs and the
// cache mode, without which a rate means nothing.
#pragma once
#include <chrono>
#include <functional>
#include <utility>

#include "common/launch.cuh"
#include "common/statistics.h"

namespace grout {

struct BenchOptions {
  bool cold = true;  // flush L2 before every run, untimed; else back to back on a warm cache
  int rounds = 4, batches = 9;
  double warm_up_ms = 200, batch_ms = 40;
  double settle_ms = 100;  // if an entry's times drift as it warms up; 0: they are not watched
  std::function<void(const std::string& entry, int round)> progress = {};  // at the first batch of each round; round -1: warm-up
  static BenchOptions quick(bool cold) {
    return {.cold = cold, .rounds = 3, .batches = 1, .warm_up_ms = 10, .batch_ms = 5, .settle_ms = 0};
  }
};

struct BenchEntry {
  std::string name;
  std::function<void(cudaStream_t)> run;  // enqueues `repeats` runs; must not synchronise
  int repeats = 1;                        // more than one (a CUDA graph of short runs) only on a warm cache
  bool brief = false;                     // one short batch a round: for what is only to be known beside the others
  // Ahead of the warm-up and of each round's last batch, and behind that batch, untimed: to poison the output, and to judge what the
  // last of the timed runs left there. What they throw is the entry's failure.
  std::function<void()> before = {}, after = {};
};

struct Timing {
  std::string name;
  std::vector<double> round_us = {};  // device time of a run: the median of each round's batches
  // Host wall time of a run, dispatch included. Warm: a batch, until it is complete, over its runs. Cold: one call, until it is
  // complete.
  std::vector<double> round_wall_us = {};
  double us = 0, wall_us = 0;  // their medians
  Ratio speed_up{1, 1, 1};     // over the first entry
  bool cold = true;
  int runs_per_batch = 0;
  double settle_ms = 0;      // ahead of each batch; 0: an eighth of a batch
  std::string failure = {};  // then there is no figure: the rounds are empty
};

// Times the runs of one process. Owns its events and the flush buffer.
class Bench {
 public:
  explicit Bench(const BenchOptions& options, cudaStream_t stream = nullptr) : options_(options), stream_(stream) {
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

  // All entries, paired; the first one is the base of the speed-ups. An entry that fails, in whichever round, has no figure and
  // is visited no more.
  std::vector<Timing> compare(const std::vector<BenchEntry>& entries) {
    std::vector<Timing> timings;
    for (const BenchEntry& entry : entries) {
      timings.push_back({.name = entry.name, .cold = options_.cold});
      if (options_.cold && entry.repeats != 1)
        throw std::invalid_argument(entry.name + " enqueues " + std::to_string(entry.repeats) +
                                    " runs a call: 1 is needed to flush L2 before each");
    }
    bool drifts = false;
    for (size_t i = 0; i < entries.size(); ++i)
      guarded(timings[i], [&] {
        const WarmUp warm = warm_up(entries[i]);
        timings[i].runs_per_batch = warm.calls, drifts |= warm.drifts;
      });
    // All of them then: what one does to the clocks is its neighbour's too.
    for (Timing& t : timings) t.settle_ms = drifts ? options_.settle_ms : 0;
    std::vector<size_t> regular, brief;
    for (size_t i = 0; i < entries.size(); ++i) (entries[i].brief ? brief : regular).push_back(i);
    for (int round = 0; round < options_.rounds; ++round) {
      std::vector<std::vector<double>> us(entries.size()), wall_us(entries.size());
      const auto take = [&](size_t i, bool first, bool last) {
        guarded(timings[i], [&] {
          if (first) say(entries[i], round);
          const Times times = visit(entries[i], timings[i], last);
          us[i].push_back(times.us), wall_us[i].push_back(times.wall_us);
        });
      };
      for (int turn = 0; turn < options_.batches; ++turn)
        for (const size_t place : visiting_order(regular.size(), round * options_.batches + turn))
          take(regular[place], turn == 0, turn + 1 == options_.batches);
      for (const size_t i : brief) take(i, true, true);
      for (size_t i = 0; i < entries.size(); ++i)
        if (timings[i].failure.empty()) timings[i].round_us.push_back(median(us[i])), timings[i].round_wall_us.push_back(median(wall_us[i]));
    }
    for (Timing& t : timings) {
      t.us = median(t.round_us), t.wall_us = median(t.round_wall_us);
      const bool both = t.failure.empty() && timings[0].failure.empty();
      t.speed_up = both ? paired_ratio(timings[0].round_us, t.round_us) : Ratio{NAN, NAN, NAN};
    }
    return timings;
  }

 private:
  struct Times {
    double us, wall_us, spent_us;  // of a run; of the whole batch, flushes included
  };
  static double now_us() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  static void check(cudaError_t error, const std::string& what) {
    if (const Status status = runtime_status(error, what); !status) throw std::runtime_error(status.message);
  }
  template <class Work> static void guarded(Timing& timing, const Work& work) {
    if (!timing.failure.empty()) return;
    try {
      work();
    } catch (const std::exception& error) {
      timing.failure = error.what();
      timing.round_us.clear(), timing.round_wall_us.clear();
    }
  }
  cudaEvent_t event(size_t i) {
    while (events_.size() <= i) check(cudaEventCreate(&events_.emplace_back()), "cudaEventCreate");
    return events_[i];
  }
  void say(const BenchEntry& entry, int round) const {
    if (options_.progress) options_.progress(entry.name, round);
  }

  struct WarmUp {
    int calls;    // that make a batch
    bool drifts;  // do the times of its batches differ?
  };
  // Runs the entry for the warm-up's time.
  WarmUp warm_up(const BenchEntry& entry) {
    say(entry, -1);
    if (entry.before) entry.before();
    const double batch_us = 1e3 * (entry.brief ? kBriefMs : options_.batch_ms);
    const double until = 1e3 * (entry.brief ? kBriefMs : options_.warm_up_ms);
    (void)batch(entry, 1);  // what is set up at the first use
    Times last = batch(entry, 1);
    int count = 1;
    double shortest = INFINITY, longest = 0;
    const auto watch = [&] {
      if (last.spent_us < batch_us / 2 || last.us * entry.repeats < kWatchedUs) return;
      shortest = std::min(shortest, last.us), longest = std::max(longest, last.us);
    };
    watch();
    for (double spent = last.spent_us; spent < until; spent += last.spent_us) {
      count = calls(last.spent_us / count, std::min(batch_us, until));
      last = batch(entry, count);
      watch();
    }
    return {calls(last.spent_us / count, batch_us), options_.settle_ms > 0 && longest > kDrift * shortest};
  }
  static int calls(double us, double batch_us) {
    return static_cast<int>(std::clamp(batch_us / std::max(us, 1e-3), 1.0, kMaxBatch));
  }
  // A batch. The last one of a round starts from poison, and what it leaves is judged.
  Times visit(const BenchEntry& entry, const Timing& timing, bool last) {
    const int count = timing.runs_per_batch;
    if (last && entry.before) entry.before();
    double settled_us = 0;  // until the clocks and the cache are its own again
    do settled_us += batch(entry, std::max(1, count / 8)).spent_us;
    while (settled_us < 1e3 * timing.settle_ms);
    const Times times = batch(entry, count);
    if (last && entry.after) entry.after();
    return times;
  }
  void flush(int value) {
    if (flush_) check(cudaMemsetAsync(flush_, value, flush_bytes_, stream_), "flush of L2");
  }
  // Cold: each run between its own events, so that the flush is outside; then one more call on the host's clock.
  Times batch(const BenchEntry& entry, int count) {
    const int intervals = options_.cold ? count : 1, calls = options_.cold ? 1 : count;
    const double start = now_us();
    for (int i = 0; i < intervals; ++i) {
      if (options_.cold) flush(i);
      check(cudaEventRecord(event(2 * static_cast<size_t>(i)), stream_), entry.name);
      for (int call = 0; call < calls; ++call) entry.run(stream_);
      check(cudaEventRecord(event(2 * static_cast<size_t>(i) + 1), stream_), entry.name);
    }
    check(cudaGetLastError(), entry.name);
    check(cudaStreamSynchronize(stream_), entry.name);
    double wall = (now_us() - start) / count / entry.repeats;
    const double spent = now_us() - start;
    double total_ms = 0;
    for (int i = 0; i < intervals; ++i) {
      float ms = 0;
      check(cudaEventElapsedTime(&ms, event(2 * static_cast<size_t>(i)), event(2 * static_cast<size_t>(i) + 1)), entry.name);
      total_ms += ms;
    }
    if (options_.cold) {
      flush(count);
      check(cudaStreamSynchronize(stream_), entry.name);
      const double call = now_us();
      entry.run(stream_);
      check(cudaStreamSynchronize(stream_), entry.name);
      wall = now_us() - call;
    }
    return {total_ms * 1e3 / count / entry.repeats, wall, spent};
  }

  static constexpr double kMaxBatch = 4096;  // events kept, and launches enqueued, at most
  static constexpr double kBriefMs = 5;
  static constexpr double kDrift = 1.03;    // between batches of the warm-up: more than noise
  static constexpr double kWatchedUs = 20;  // calls that are shorter wait for the host, and draw no power meanwhile
  BenchOptions options_;
  cudaStream_t stream_;
  void* flush_ = nullptr;
  size_t flush_bytes_ = 0;
  std::vector<cudaEvent_t> events_;
};

// Throws the first failure among them.
inline void require_figures(const std::vector<Timing>& timings) {
  for (const Timing& t : timings)
    if (!t.failure.empty()) throw std::runtime_error(t.name + ": " + t.failure);
}

// One line: name, shape, FLOPs, time, rate, ratio with range, mode.
inline std::string timing_line(const Timing& t, const std::string& shape, double flops) {
  char text[400];
  std::snprintf(text, sizeof text,
                "%-20s %s  %.4g GFLOP  %.2f us  %.1f TFLOP/s  %.3fx [%.3f, %.3f]  L2 %s, %zu rounds of %d runs a batch",
                t.name.c_str(), shape.c_str(), flops * 1e-9, t.us, flops / t.us * 1e-6, t.speed_up.median, t.speed_up.low,
                t.speed_up.high, t.cold ? "cold" : "warm", t.round_us.size(), t.runs_per_batch);
  return text;
}

}  // namespace grout
