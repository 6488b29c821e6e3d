// Runs the cases of the instruction tests on the simulated device and writes what came out, a line a case: name, number
// of words, the words in hexadecimal. tests/gpu/instructions_test.cu compares them with a GPU's.
#include <cstdio>

#include "tests/kernels/instruction_cases.h"

int main() {
  for (const grout::instructions::Case& c : grout::instructions::cases(false)) {
    grout::instructions::Words out;
    grout::sim::options().compute_capability = c.capability;
    if (const grout::Status status = run(c, out); !status) {
      std::fprintf(stderr, "%s: %s\n", c.name.c_str(), status.message.c_str());
      return exit_code(status);
    }
    std::printf("%s %zu", c.name.c_str(), out.size());
    for (const uint32_t word : out) std::printf(" %x", word);
    std::printf("\n");
  }
}
