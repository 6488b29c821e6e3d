// What a comparison records: the data behind results.json, results.md and the plot. Plain C++, no CUDA.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/statistics.h"

namespace grout::compare {

// Names and values in the order in which they were said; names are unique.
using Settings = std::vector<std::pair<std::string, std::string>>;

enum class Role {
  policy,       // of this project
  peer,         // somebody else's
  preparation,  // what a policy needs done first (padding, transfer): timed apart, shown beside it, part of no ratio
  ceiling,      // a limit of the device, measured: a loop of multiply-adds in registers, a plain copy
};

struct Protocol {
  std::string name;  // "headline", or "sweep": fewer and shorter rounds, marked so wherever a figure of it appears
  int rounds = 4;    // every policy once each, forth and back in turn
  int batches = 9;   // of a visit; its figure is their median
  double batch_ms = 40, warm_up_ms = 200;
  bool cold = false;  // L2 flushed before each run; else back to back on a warm one
  bool operator==(const Protocol&) const = default;
};
inline Protocol headline(bool cold) { return {"headline", 4, 9, 40, 200, cold}; }
inline Protocol sweep(bool cold) { return {"sweep", 3, 1, 5, 10, cold}; }

// One policy on one case.
struct Sample {
  std::string name;
  Role role = Role::policy;
  Settings requested, realised;        // replay repeats `realised`
  int64_t tiles = 0, resident = 0;     // resident: blocks that the device holds at once; 0: not known (peers)
  double flops = 0, bytes = 0;         // of one run: multiply and add count as two; each operand read, each result written, once
  int graph = 0;                       // runs of one CUDA graph; 0: launched one by one
  int runs_per_batch = 0;
  int64_t elements = 0;                // compared in each validation
  int validated = 0;                   // validations passed: one before anything was timed, one after each round
  double error = 0, bound = 0;         // of the element nearest to its bound
  std::vector<double> round_us;        // device time of a run: the median of each round's batches
  std::vector<double> round_wall_us;   // host wall time of a run, dispatch included: warm, a batch over its runs; cold, one call
                                       // from its start to its completion
  std::string failure;                 // why there is no figure: then the rounds are empty

  bool has_figure() const { return failure.empty() && !round_us.empty(); }
  double us() const { return median(round_us); }
  double wall_us() const { return median(round_wall_us); }
};

// Two samples of a case, by name; the ratio is base / candidate.
struct Pair {
  std::string base, candidate;
  bool operator==(const Pair&) const = default;
};

// Of the device, as the driver says them; -1: not known.
struct Clocks {
  int sm_mhz = -1, memory_mhz = -1, celsius = -1;
  double watts = -1;
};

struct Case {
  std::string suite, name;  // "gemm", "8191x8191x8191 nn bf16 odd pitch"; with protocol.cold they name the case
  Settings shape;           // what replay builds the case from: m, n, k, layout, type, pitches, seed
  Protocol protocol;
  double flops = 0, bytes = 0;
  std::vector<Sample> samples;
  std::vector<Pair> pairs;  // which ratios are asked for
  Clocks before, after;

  const Sample* find(const std::string& sample) const {
    for (const Sample& s : samples)
      if (s.name == sample) return &s;
    return nullptr;
  }
};

struct Verdict {
  enum class Kind { faster, slower, even, none } kind = Kind::none;  // even: the range holds 1; none: a sample has no figure
  Ratio ratio{};
};
inline Verdict verdict(const Case& c, const Pair& pair) {
  const Sample *base = c.find(pair.base), *candidate = c.find(pair.candidate);
  if (base == nullptr || candidate == nullptr || !base->has_figure() || !candidate->has_figure()) return {};
  const Ratio r = paired_ratio(base->round_us, candidate->round_us);
  return {r.low > 1 ? Verdict::Kind::faster : r.high < 1 ? Verdict::Kind::slower : Verdict::Kind::even, r};
}

// The run that made the cases: who, on what, from which source.
struct Run {
  std::string command, date;                              // date: ISO 8601, UTC
  std::string commit;                                     // "unknown" where there is no repository
  bool dirty = false;                                     // the source differed from the commit
  std::vector<std::pair<std::string, std::string>> executables;  // file name, SHA-256
  std::string device, capability, driver, toolkit;        // as the driver and the toolkit name themselves
  int sms = 0;
  int64_t l2_bytes = 0;
  Settings versions;                                      // of peers: cublas, torch
  std::string beside;                                     // how it was checked that nothing else ran, and what was found
};

struct Results {
  std::vector<Run> runs;    // more than one where results were merged
  struct Entry {
    size_t run = 0;         // index into runs
    Case value;
  };
  std::vector<Entry> cases;
};

}  // namespace grout::compare
