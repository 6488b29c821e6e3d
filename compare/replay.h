// Replay: what was recorded, measured again with the recorded settings, and what came out otherwise. Plain C++, no
// CUDA.
//
// Who runs a planned case builds each sample from its role and `requested` and the case from `shape`, never from
// names, and chooses nothing itself: a setting that cannot be realised as requested is a failure of that sample.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compare/record.h"

namespace grout::compare {

// "FILE" or "FILE:SAMPLE".
struct ReplaySource {
  std::filesystem::path file;
  std::string sample;  // empty: the first policy of each case
};
// A file of the whole text is preferred; else what follows the last colon is the sample.
ReplaySource replay_source(const std::string& argument);

// Refuses an OUTDIR that is no folder or, for a replay, holds results already: they would be replaced.
void require_output(const std::filesystem::path& folder, bool replay);

struct Planned {
  Case now;       // to be measured: `requested` holds what was realised; nothing realised, no figures
  Case recorded;  // the same samples under the same names, as recorded; its pairs are those with a recorded verdict
  std::vector<Run> by;  // who recorded them
};
struct ReplayPlan {
  std::vector<Planned> cases;
  std::vector<std::string> notes;  // what is not repeated, and why
};

// Every case of a file, every sample with its realised settings. Refused (Refusal) where nothing can be repeated.
ReplayPlan plan_replay(const Results& reference, const std::string& file, std::optional<int> rounds = {});

// The cases that both files have: the reference's policy against the candidate's, as samples "reference: NAME" and
// "candidate: NAME", with what prepares them and the reference's ceilings. Recorded in two experiments, they are no
// pair there.
ReplayPlan plan_replay(const Results& reference, const ReplaySource& reference_from, const Results& candidate,
                       const ReplaySource& candidate_from, std::optional<int> rounds = {});

// Gives what was measured for a planned case the plan's pairs, roles and preparations, and its missing samples a
// failure: that of the case, where it could not be measured at all.
void hold_to_plan(Case& measured, const Case& planned);

// A kernel against itself is within this of 1 (the self suite shows it): verdicts about ratios nearer to 1 are chance.
inline constexpr double kNoise = 0.01;

struct Replayed {
  std::vector<std::string> differences;  // a line each
  int verdicts = 0, reproduced = 0;      // recorded verdicts; those that came out again, or whose ratios are within the noise of 1
  int measured = 0;                      // pairs that have a verdict now
  bool realised = true;                  // every sample was measured with the recorded settings
  std::string summary() const;           // "7 of 8 verdicts reproduced"
  int exit_code() const { return realised && verdicts == reproduced ? 0 : 1; }
};
Replayed compare_replay(const ReplayPlan& plan, const Results& now);

// Notes, differences and the summary, a line each; for the terminal and, as a list, for Markdown.
std::string replay_text(const ReplayPlan& plan, const Replayed& replayed);

}  // namespace grout::compare
