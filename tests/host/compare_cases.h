// Results with known figures, for the tests of compare/.
#pragma once
#include "compare/replay.h"

namespace grout::compare {

// What `act` is refused with; "taken" where it is not.
template <class Do>
std::string refusal_of(Do&& act) {
  try {
    act();
  } catch (const Refusal& refused) {
    return refused.what();
  }
  return "taken";
}

inline Run sample_run() {
  Run r;
  r.command = "./run compare gemm out";
  r.date = "2026-01-02T03:04:05Z";
  r.commit = "0123456789012345678901234567890123456789";
  r.executables = {{"compare", std::string(64, 'a')}};
  r.device = "Device X";
  r.capability = "9.0";
  r.driver = "580.1";
  r.toolkit = "13.0";
  r.sms = 132;
  r.l2_bytes = 1 << 20;
  r.versions = {{"cublas", "13.1"}};
  r.beside = "one process on the GPU: this one; no compiler or build tool runs";
  return r;
}

inline Sample sample(const std::string& name, Role role, std::vector<double> us) {
  Sample s;
  s.name = name;
  s.role = role;
  s.requested = {{"kernel", "auto"}};
  s.realised = {{"kernel", name}, {"tile", "128x256x64"}};
  s.tiles = 561, s.resident = 132;
  s.flops = 2e9, s.bytes = 4e6;
  s.runs_per_batch = 10;
  s.elements = 1000000;
  s.validated = static_cast<int>(us.size()) + 1;
  s.error = 0.25, s.bound = 0.5;
  for (const double t : us) s.round_wall_us.push_back(t + 1);
  s.round_us = std::move(us);
  return s;
}
inline Sample failed(const std::string& name, Role role, const std::string& failure) {
  Sample s = sample(name, role, {});
  s.validated = 0;
  s.failure = failure;
  return s;
}

// cublas 40 us, mma 20 us: ratios 2, 1.9, 2.1, 2; at the compute ceiling (2 GFLOP in 10 us) 0.5 of it, of the memory
// ceiling (4 MB in 8 us) 0.4; its padding takes 4 us.
inline Case sample_case(const std::string& name = "511x512x513 nn bf16", bool cold = false) {
  Case c;
  c.suite = "gemm";
  c.name = name;
  c.shape = {{"m", "511"}, {"n", "512"}, {"k", "513"}, {"layout", "nn"}};
  c.protocol = headline(cold);
  c.flops = 2e9, c.bytes = 4e6;
  c.samples = {sample("cublas", Role::peer, {40, 38, 42, 40}), sample("mma", Role::policy, {20, 20, 20, 20}),
               sample("pad", Role::preparation, {4, 4, 4, 4}), sample("multiply-adds", Role::ceiling, {10, 10, 10, 10}),
               sample("copy", Role::ceiling, {16, 16, 16, 16})};
  c.samples[2].prepares = "mma";
  for (const size_t ceiling : {3u, 4u}) {
    Sample& s = c.samples[ceiling];
    s.elements = 0, s.validated = 0, s.error = s.bound = 0;
    s.tiles = s.resident = 0;
    s.requested = s.realised = {};
  }
  c.samples[3].bytes = 0;
  c.samples[4].flops = 0, c.samples[4].bytes = 8e6;
  c.pairs = {{"cublas", "mma"}};
  c.before = {1755, 3201, 40, 300};
  c.after = {1980, 3201, 52, 640.5};
  return c;
}

// A headline case warm and cold, a sweep and a case whose policy failed.
inline Results sample_results() {
  Results r;
  r.runs = {sample_run()};
  r.cases = {{0, sample_case()}, {0, sample_case("511x512x513 nn bf16", true)}};
  Case swept = sample_case("64x64x64 tt bf16");
  swept.protocol = sweep(false);
  for (Sample& s : swept.samples)
    s.round_us.resize(3), s.round_wall_us.resize(3), s.validated -= s.role != Role::ceiling;
  swept.samples[1].round_us = {41, 40, 39};
  r.cases.push_back({0, swept});
  Case broken = sample_case("65x97x73 nn bf16");
  broken.samples[1] = failed("mma", Role::policy, "wrong at (3, 4): 1.5 where 2.5 | 2.6 was expected");
  r.cases.push_back({0, broken});
  return r;
}

using Lines = std::vector<std::string>;

// As if the plan had been run: every sample with its requested settings realised, and the times recorded.
inline Results run_again(const ReplayPlan& plan) {
  Results now;
  now.runs = {sample_run()};
  for (const Planned& p : plan.cases) {
    Case c = p.now;
    for (size_t i = 0; i < c.samples.size(); ++i) {
      Sample& s = c.samples[i];
      const Sample& then = p.recorded.samples[i];
      s.realised = s.requested;
      s.failure = then.failure;
      s.round_us = then.round_us, s.round_wall_us = then.round_wall_us;
      s.validated = then.validated, s.elements = then.elements;
      s.runs_per_batch = then.runs_per_batch, s.settle_ms = then.settle_ms;
    }
    now.cases.push_back({0, c});
  }
  return now;
}

inline Results faster_results() {
  Results r = sample_results();
  r.runs[0].executables[0].second = std::string(64, 'b');
  for (auto& [run, c] : r.cases) {
    c.samples[1].name = "wgmma";
    c.samples[1].realised = {{"kernel", "wgmma"}};
    c.samples[2].prepares = "wgmma";
    c.pairs = {{"cublas", "wgmma"}};
    for (double& t : c.samples[1].round_us) t /= 4;
  }
  return r;
}

}  // namespace grout::compare
