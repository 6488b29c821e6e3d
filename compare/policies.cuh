// A suite's policies by their names, afresh or as they were recorded.
#pragma once
#include "compare/ceilings.cuh"
#include "compare/suite.h"

namespace grout::compare {

// `make` fills a policy that has its name, FLOPs and bytes; what it throws is the policy's failure. `forced`: the
// settings that such a policy realised earlier, to be repeated.
template <class Make>
Policy named_policy(const std::string& what, double flops, double bytes, const Settings* forced, const Make& make) {
  Policy p;
  p.sample.name = what, p.sample.flops = flops, p.sample.bytes = bytes;
  try {
    make(p);
  } catch (const std::exception& error) {
    p.sample.failure = error.what();
  }
  p.sample.requested.insert(p.sample.requested.begin(), {"policy", what});
  p.sample.realised.insert(p.sample.realised.begin(), {"policy", what});
  if (forced != nullptr) p.sample.requested = *forced;
  return p;
}

// One for each name; with `recorded`: one for each of those samples, under its name there. make(name, forced) is the
// policy.
template <class Make> void add_policies(Work& work, const std::vector<std::string>& names,
                                        const std::vector<Sample>* recorded, const Make& make) {
  if (recorded == nullptr) {
    for (const std::string& name : names) work.policies.push_back(make(name, nullptr));
    return;
  }
  for (const Sample& sample : *recorded) {
    if (sample.role == Role::ceiling) continue;
    work.policies.push_back(make(setting(sample.requested, "policy"), &sample.requested));
    work.policies.back().sample.name = sample.name;
  }
}

// A case of a bench, with the policies of those names and the ceilings. A bench has type(), flops(), bytes() and
// policy(name, forced).
template <class Bench> Work work_of(const Case& description, Bench& bench, const std::vector<std::string>& names,
                                    const std::vector<Pair>& pairs, const std::vector<Sample>* recorded) {
  Work work;
  work.header = description;
  work.header.flops = bench.flops(), work.header.bytes = bench.bytes();
  if (recorded == nullptr) work.header.pairs = pairs;
  add_policies(work, names, recorded,
               [&](const std::string& name, const Settings* forced) { return bench.policy(name, forced); });
  work.policies.push_back(compute_ceiling(bench.type()));
  work.policies.push_back(copy_ceiling());
  return work;
}

}  // namespace grout::compare
