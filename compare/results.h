// Results as a whole: what must hold of them, merged, resumed. Plain C++, no CUDA.
#pragma once
#include <string>

#include "compare/record.h"

namespace grout::compare {

// Where in the file something stands, for messages: "results.json: case gemm 1x1x1, L2 warm: samples[1].us".
struct Place {
  std::string prefix, path;
  Place member(const std::string& name) const { return {prefix, path.empty() ? name : path + "." + name}; }
  Place item(size_t i) const { return {prefix, path + "[" + std::to_string(i) + "]"}; }
  [[noreturn]] void refuse(const std::string& what) const { throw Refusal(prefix + ": " + path + " " + what); }
};
// Of a case: the file and its title.
Place place_of(const Case& c, const std::string& file);

// What must hold of a case wherever it is written or read: a figure has all its rounds, was validated and did not
// fail; names are unique and known. Throws Refusal: `file`, the case, the field, what is wrong.
void check(const Case& c, const std::string& file);
void check(const Results& results, const std::string& file);

// Takes the cases of `more` over; those of the same suite, name and cache mode are replaced where they stand. Runs
// that no case refers to any more are dropped.
void merge(Results& into, const Results& more);

// Whether `have` holds `wanted` with a figure for every sample, from a run of the same executables on the same device
// with the same driver and peers, with the same shape and protocol. `wanted` may come without samples; where it has
// some, names, roles and requested settings must be those measured, and the pairs too. What is not complete is
// measured again.
bool is_complete(const Results& have, const Run& now, const Case& wanted);

}  // namespace grout::compare
