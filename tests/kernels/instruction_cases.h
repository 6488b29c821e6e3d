// All cases of the instruction tests: those for every device here and those of compute capability 9.0.
#pragma once
#include "tests/kernels/instruction_references.h"
#include "tests/kernels/instruction_references_sm90.h"

namespace grout::instructions {

inline std::vector<Case> cases(bool brief) {
  std::vector<Case> all = basic_cases(brief);
  for (Case& c : sm90_cases(brief)) all.push_back(std::move(c));
  return all;
}

}  // namespace grout::instructions
