// Measures one case: validates every policy, times those that are right, validates what the timing left behind, and writes down
// what happened. On either device; the simulated one's times mean nothing, its verdicts do.
#pragma once
#include <algorithm>
#include <optional>

#include "common/bench.cuh"
#include "common/check.cuh"
#include "compare/record.h"

namespace grout::compare {

// What a run left, judged in full.
struct Judgement {
  int64_t elements = 0;
  double error = 0, bound = 0;  // of the element nearest to its bound
  std::string wrong;            // empty: right
};
inline Judgement judgement(const Comparison& c) {
  // The largest error may lie elsewhere, where the bound is larger too.
  if (c.pass()) return {c.elements, c.max_ratio * c.bound, c.bound, ""};
  return {c.elements, c.max_error, c.bound, c.message.empty() ? "wrong" : c.message};
}

// One policy of a case, ready to run. Closures own their buffers.
struct Policy {
  Sample sample;                          // name, role, requested, realised, tiles, resident, flops, bytes
  std::function<void(cudaStream_t)> run;  // throws its error; never synchronises
  std::function<void()> poison;           // of everything that a run writes
  std::function<Judgement()> judge;       // of everything that a run wrote; none: a ceiling, whose results nobody reads
};
struct Work {
  Case header;
  std::vector<Policy> policies;
  bool graphs = true;  // short runs in CUDA graphs where the cache is warm; else every run is a call of its own
};
// Makes one entry of `repeats` runs of another.
using Graph = std::function<BenchEntry(const BenchEntry&, int repeats)>;

namespace detail {
// Poisons, runs once, judges; false and the failure in the sample where that went wrong.
inline bool validate(Policy& policy) {
  Sample& s = policy.sample;
  try {
    if (policy.poison) policy.poison();
    policy.run(nullptr);
    require_success(cudaDeviceSynchronize(), s.name.c_str());
    if (!policy.judge) return true;
    const Judgement j = policy.judge();
    s.elements = j.elements, s.error = j.error, s.bound = j.bound, s.failure = j.wrong;
    if (s.elements == 0 && s.failure.empty()) s.failure = "nothing was compared";
    s.validated = s.failure.empty() ? 1 : 0;
  } catch (const std::exception& error) {
    s.failure = error.what();
  }
  return s.failure.empty();
}
inline bool needs_judge(const Sample& s) {
  return s.role != Role::ceiling;
}
}  // namespace detail

// Runs shorter than this are measured in graphs of kGraphRuns: a launch costs the host about as much.
inline constexpr double kShortUs = 20;
inline constexpr int kGraphRuns = 20;

inline Case measure(Work work, const Graph& graph, const std::function<void(const std::string&, int)>& progress = {}) {
  Case result = std::move(work.header);
  result.samples.clear();  // of a plan
  const Protocol& protocol = result.protocol;
  BenchOptions options{.cold = protocol.cold,
                       .rounds = protocol.rounds,
                       .batches = protocol.batches,
                       .warm_up_ms = protocol.warm_up_ms,
                       .batch_ms = protocol.batch_ms,
                       .settle_ms = protocol.settle_ms,
                       .progress = progress};
  std::vector<size_t> right;
  for (size_t i = 0; i < work.policies.size(); ++i) {
    Policy& p = work.policies[i];
    if (p.sample.failure.empty() && !p.judge && detail::needs_judge(p.sample))
      p.sample.failure = "it has no judge: nothing may be timed unseen";
    if (p.sample.failure.empty() && detail::validate(p)) right.push_back(i);
  }
  std::vector<BenchEntry> entries;
  for (const size_t i : right) {
    Policy& p = work.policies[i];
    BenchEntry entry{.name = p.sample.name,
                     .run = p.run,
                     .brief = p.sample.role == Role::ceiling || p.sample.role == Role::preparation,
                     .before = p.poison};
    if (p.judge)
      entry.after = [&p] {
        const Judgement j = p.judge();
        if (!j.wrong.empty()) throw std::runtime_error("wrong after it was timed: " + j.wrong);
        ++p.sample.validated;
      };
    entries.push_back(std::move(entry));
  }
  if (graph && work.graphs && !protocol.cold && !entries.empty()) {
    // All in graphs if one is short: they stay comparable.
    const std::vector<Timing> once =
        Bench({.cold = false, .rounds = 1, .batches = 1, .warm_up_ms = 1, .batch_ms = 1, .settle_ms = 0}).compare([&] {
          std::vector<BenchEntry> plain = entries;
          for (BenchEntry& e : plain) e.after = {};
          return plain;
        }());
    double shortest = INFINITY;
    for (size_t e = 0; e < entries.size(); ++e) {
      const Role role = work.policies[right[e]].sample.role;
      if ((role == Role::policy || role == Role::peer) && once[e].failure.empty())
        shortest = std::min(shortest, once[e].us);
    }
    for (size_t e = 0; e < entries.size() && shortest < kShortUs; ++e) {
      Sample& s = work.policies[right[e]].sample;
      if (s.role != Role::policy && s.role != Role::peer) continue;
      try {
        entries[e] = graph(entries[e], kGraphRuns);
        s.graph = kGraphRuns;
      } catch (const std::exception& error) {
        s.failure = std::string("no CUDA graph could be made of it: ") + error.what();
      }
    }
  }
  std::vector<BenchEntry> timed;
  std::vector<Sample*> samples;
  for (size_t e = 0; e < entries.size(); ++e) {
    Sample& s = work.policies[right[e]].sample;
    if (s.failure.empty()) timed.push_back(entries[e]), samples.push_back(&s);
  }
  const std::vector<Timing> timings = timed.empty() ? std::vector<Timing>{} : Bench(options).compare(timed);
  for (size_t e = 0; e < timings.size(); ++e) {
    Sample& s = *samples[e];
    s.failure = timings[e].failure;
    s.round_us = timings[e].round_us, s.round_wall_us = timings[e].round_wall_us,
    s.runs_per_batch = timings[e].runs_per_batch, s.settle_ms = timings[e].settle_ms;
    if (s.failure.empty() && detail::needs_judge(s) && s.validated != protocol.rounds + 1) {
      s.failure =
          "validated " + std::to_string(s.validated) + " times in " + std::to_string(protocol.rounds) + " rounds";
      s.round_us.clear(), s.round_wall_us.clear();
    }
  }
  for (Policy& p : work.policies) {
    if (!p.sample.failure.empty()) p.sample.validated = 0;
    result.samples.push_back(std::move(p.sample));
  }
  return result;
}

}  // namespace grout::compare
