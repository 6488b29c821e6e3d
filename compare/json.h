// results.json: Results as text and back. Plain C++, no CUDA.
//
// What can be computed from the rounds (medians, ratios, verdicts, counts) is written for readers; on reading it is
// computed again, and a file that says otherwise is refused. Doubles are read back as the bits that were written.
#pragma once
#include <filesystem>
#include <string>

#include "compare/results.h"

namespace grout::compare {

inline constexpr int format_version = 1;

// Both throw Refusal in one sentence that names the file (of the text), the case and the field.
std::string to_json(const Results& results, const std::string& file = "results.json");
Results from_json(const std::string& text, const std::string& file = "results.json");

// Throws Refusal where the file cannot be read. A file that does not exist is one of those.
Results read_results(const std::filesystem::path& file);

// The whole text or, on any error, the file as it was: written beside it and renamed. Throws std::runtime_error.
void write_file(const std::filesystem::path& file, const std::string& text);

}  // namespace grout::compare
