// What is said of Results: a table for people (results.md), a plot (results.svg), the terminal. Plain C++, no CUDA.
#pragma once
#include <filesystem>
#include <string>

#include "compare/record.h"

namespace grout::compare {

// What follows from a sample's medians; 0 where it does not apply. Of a sample without a figure there is none.
struct Figures {
  double us = 0, wall_us = 0, tflops = 0, gbs = 0;
  // Bound time / time. The bound time is the larger of two: FLOPs at the rate of the case's compute ceiling, bytes at
  // that of its memory ceiling. Of several ceilings of a kind the fastest counts; where the kind has no figure there
  // is no share.
  double share = 0;
  const char* bound_by = "";  // compute or memory
};
Figures figures(const Case& c, const Sample& sample);

// The sample and what prepares it, round by round.
struct WithPreparation {
  bool any = false;         // something prepares it
  bool has_figure = false;  // it and all that prepares it have one
  double us = 0, wall_us = 0;
};
WithPreparation with_preparation(const Case& c, const Sample& sample);

// "headline: 4 rounds of 9 batches of 40 ms, 200 ms of warm-up, 100 ms of settling"
std::string describe(const Protocol& protocol);

std::string markdown(const Results& results);  // refers to results.svg beside it
std::string svg(const Results& results);

// At most 110 columns, if no name is longer than 40.
std::string terminal_table(const Results& results);
// Before and after a case: "[3/40] gemm 512x512x512 nn bf16, L2 warm ..." and, on one line, its pairs and what failed.
std::string starting_line(const Case& c, size_t number, size_t of);
std::string finished_line(const Case& c, size_t number, size_t of);

// Writes results.json into the folder (created where missing), reads it back, and makes results.md and results.svg
// from what was read.
void publish(const std::filesystem::path& folder, const Results& results);

}  // namespace grout::compare
