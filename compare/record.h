// What a comparison records: the data behind results.json, results.md and the plot. Plain C++, no CUDA.
#pragma once
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/statistics.h"

namespace grout::compare {

// A file or a request that cannot be taken: one sentence.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Names and values in the order in which they were said; names are unique.
using Settings = std::vector<std::pair<std::string, std::string>>;

enum class Role {
  policy,       // of this project
  peer,         // somebody else's
  preparation,  // what a policy needs done first (padding, transfer): timed apart, shown beside it, part of no ratio
  ceiling,      // a limit of the device, measured: a loop of multiply-adds in registers, a plain copy (then flops is 0)
};
inline constexpr const char* role_names[] = {"policy", "peer", "preparation", "ceiling"};

struct Protocol {
  std::string name;  // "headline", or "sweep": fewer and shorter rounds, marked so wherever a figure of it appears
  int rounds = 4;    // forth and back: the order of the policies
  int batches = 9;   // of each policy in a round, in turn with the others'; their median is its figure of the round
  double batch_ms = 40, warm_up_ms = 200;
  double settle_ms = 100;  // ahead of each batch where the times drift at the device's power limit; 0: they are not watched
  bool cold = false;  // L2 flushed before each run; else back to back on a warm one
  bool operator==(const Protocol&) const = default;
};
inline Protocol headline(bool cold) { return {"headline", 4, 9, 40, 200, 100, cold}; }
inline Protocol sweep(bool cold) { return {"sweep", 3, 1, 5, 10, 0, cold}; }

// One policy on one case.
struct Sample {
  std::string name;
  Role role = Role::policy;
  std::string prepares;                // of a preparation: the sample that needs it; else empty
  Settings requested, realised;        // replay repeats `realised`
  int64_t tiles = 0, resident = 0;     // resident: blocks that the device holds at once; 0: not known (peers)
  double flops = 0, bytes = 0;         // of one run: multiply and add are two; each operand read, each result written, once
  int graph = 0;                       // runs of one CUDA graph; 0: launched one by one
  int runs_per_batch = 0;
  double settle_ms = 0;                // ahead of each batch; 0: an eighth of a batch
  int64_t elements = 0;                // compared in each validation
  int validated = 0;                   // validations passed: one before anything was timed, one after each round; a ceiling,
                                       // whose output nobody reads, has none
  double error = 0, bound = 0;         // of the element nearest to its bound
  std::vector<double> round_us;        // device time of a run: the median of each round's batches
  std::vector<double> round_wall_us;   // host wall time of a run, dispatch included: warm, a batch over its runs; cold, one
                                       // call from its start to its completion
  std::string failure;                 // why there is no figure: then the rounds are empty

  bool operator==(const Sample&) const = default;
  bool has_figure() const { return failure.empty() && !round_us.empty(); }
  double us() const { return median(round_us); }
  double wall_us() const { return median(round_wall_us); }
};

// Two samples of a case, by name; the ratio is base / candidate of their times, or, where their FLOPs differ, candidate / base of
// their rates.
struct Pair {
  std::string base, candidate;
  bool operator==(const Pair&) const = default;
};

// Of the device, as the driver says them; -1: not known.
struct Clocks {
  int sm_mhz = -1, memory_mhz = -1, celsius = -1;
  double watts = -1;
  bool operator==(const Clocks&) const = default;
};

struct Case {
  std::string suite, name;  // "gemm", "8191x8191x8191 nn bf16 odd pitch"; with protocol.cold they name the case
  Settings shape;           // what replay builds the case from: m, n, k, layout, type, pitches, seed
  Protocol protocol;
  double flops = 0, bytes = 0;
  std::vector<Sample> samples;
  std::vector<Pair> pairs;  // which ratios are asked for
  Clocks before, after;
  bool operator==(const Case&) const = default;

  const Sample* find(const std::string& sample) const {
    for (const Sample& s : samples)
      if (s.name == sample) return &s;
    return nullptr;
  }
};

inline bool same_case(const Case& a, const Case& b) {
  return a.suite == b.suite && a.name == b.name && a.protocol.cold == b.protocol.cold;
}
// "gemm 8191x8191x8191 nn bf16 odd pitch, L2 warm"; a sweep says so.
inline std::string title(const Case& c) {
  return c.suite + " " + c.name + (c.protocol.cold ? ", L2 cold" : ", L2 warm") +
         (c.protocol.name == "sweep" ? ", sweep" : "");
}

struct Verdict {
  enum class Kind { faster, slower, even, none } kind = Kind::none;  // even: the range holds 1; none: a sample has no figure
  Ratio ratio{};
  bool rates = false;  // the FLOPs differ: the ratio is that of the rates
};
inline constexpr const char* verdict_names[] = {"faster", "slower", "even", "no figure"};
inline Verdict verdict(const Case& c, const Pair& pair) {
  const Sample *base = c.find(pair.base), *candidate = c.find(pair.candidate);
  if (base == nullptr || candidate == nullptr || !base->has_figure() || !candidate->has_figure()) return {};
  Ratio r = paired_ratio(base->round_us, candidate->round_us);
  const bool rates = base->flops > 0 && candidate->flops > 0 && base->flops != candidate->flops;
  if (rates) {
    const double more = candidate->flops / base->flops;
    r = {r.median * more, r.low * more, r.high * more};
  }
  return {r.low > 1 ? Verdict::Kind::faster : r.high < 1 ? Verdict::Kind::slower : Verdict::Kind::even, r, rates};
}

// The rounds of a pair after which both outputs were right; none where a sample has no figure.
inline int validated_pairs(const Case& c, const Pair& pair) {
  const Sample *base = c.find(pair.base), *candidate = c.find(pair.candidate);
  if (base == nullptr || candidate == nullptr || !base->has_figure() || !candidate->has_figure()) return 0;
  return std::min(base->validated, candidate->validated) - 1;
}

struct Counts {
  int64_t validated_pairs = 0, validations = 0, failures = 0;  // failures: samples without a figure
  Counts& operator+=(const Counts& other) {
    validated_pairs += other.validated_pairs, validations += other.validations, failures += other.failures;
    return *this;
  }
};
inline Counts counts(const Case& c) {
  Counts n;
  for (const Pair& pair : c.pairs) n.validated_pairs += validated_pairs(c, pair);
  for (const Sample& s : c.samples) n.validations += s.validated, n.failures += !s.has_figure();
  return n;
}

// The run that made the cases: who, on what, from which source.
struct Run {
  std::string command, date;                              // date: ISO 8601, UTC
  std::string commit;                                     // "unknown" where there is no repository
  bool dirty = false;                                     // the source differed from the commit
  Settings executables;                                   // file name, SHA-256
  std::string device, capability, driver, toolkit;        // as the driver and the toolkit name themselves
  int sms = 0;
  int64_t l2_bytes = 0;
  Settings versions;                                      // of peers: cublas, torch
  std::string beside;                                     // how it was checked that nothing else ran, and what was found
  bool operator==(const Run&) const = default;
};

struct Results {
  std::vector<Run> runs;    // more than one where results were merged
  struct Entry {
    size_t run = 0;         // index into runs
    Case value;
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> cases;
  bool operator==(const Results&) const = default;
};

}  // namespace grout::compare
