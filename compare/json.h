// results.json: Results as text and back, merged, resumed. Plain C++, no CUDA.
//
// What can be computed from the rounds (medians, ratios, verdicts, counts) is written for readers; on reading it is
// computed again, and a file that says otherwise is refused. Doubles are read back as the bits that were written.
#pragma once
#include <filesystem>
#include <string>

#include "compare/record.h"

namespace grout::compare {

inline constexpr int format_version = 1;

// What must hold of a case wherever it is written or read: a figure has all its rounds, was validated and did not
// fail; names are unique and known. Throws Refusal: `file`, the case, the field, what is wrong.
void check(const Case& c, const std::string& file);

// Both throw Refusal in one sentence that names the file (of the text), the case and the field.
std::string to_json(const Results& results, const std::string& file = "results.json");
Results from_json(const std::string& text, const std::string& file = "results.json");

// Throws Refusal where the file cannot be read. A file that does not exist is one of those.
Results read_results(const std::filesystem::path& file);

// The whole text or, on any error, the file as it was: written beside it and renamed. Throws std::runtime_error.
void write_file(const std::filesystem::path& file, const std::string& text);

// Takes the cases of `more` over; those of the same suite, name and cache mode are replaced where they stand. Runs
// that no case refers to any more are dropped.
void merge(Results& into, const Results& more);

// Whether `have` holds `wanted` with a figure for every sample, from a run of the same executables on the same device
// with the same driver and peers, with the same shape and protocol. `wanted` may come without samples; where it has
// some, names, roles and requested settings must be those measured, and the pairs too. What is not complete is
// measured again.
bool is_complete(const Results& have, const Run& now, const Case& wanted);

}  // namespace grout::compare
