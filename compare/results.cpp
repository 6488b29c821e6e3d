#include "compare/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

namespace grout::compare {
namespace {

void check_names_unique(const Settings& settings, const Place& place) {
  std::set<std::string> seen;
  for (const auto& [name, value] : settings)
    if (!seen.insert(name).second) place.refuse(fmt::format("has {} twice", name));
}

void check_rounds(const std::vector<double>& rounds, const Protocol& protocol, const Place& place) {
  if (rounds.size() != static_cast<size_t>(protocol.rounds))
    place.refuse(fmt::format("has {} rounds, but the protocol has {}", rounds.size(), protocol.rounds));
  for (size_t i = 0; i < rounds.size(); ++i)
    if (!(rounds[i] > 0 && std::isfinite(rounds[i])))
      place.item(i).refuse(fmt::format("is {}, which is no time", rounds[i]));
}

void check_sample(const Sample& s, const Case& c, const Place& place) {
  if (s.name.empty()) place.member("name").refuse("is empty");
  if (std::count_if(c.samples.begin(), c.samples.end(), [&](const Sample& other) { return other.name == s.name; }) != 1)
    place.member("name").refuse(fmt::format("is {}, as another sample's", s.name));
  check_names_unique(s.requested, place.member("requested"));
  check_names_unique(s.realised, place.member("realised"));
  const Sample* prepared = c.find(s.prepares);
  if (s.role != Role::preparation && !s.prepares.empty())
    place.member("prepares").refuse("is set, but this is no preparation");
  if (s.role == Role::preparation &&
      (prepared == nullptr || prepared->role == Role::preparation || prepared->role == Role::ceiling))
    place.member("prepares").refuse(fmt::format("is \"{}\", which is no policy or peer of the case", s.prepares));
  for (const auto& [name, value] : {std::pair{"flops", s.flops}, {"bytes", s.bytes}, {"settle_ms", s.settle_ms}})
    if (!(value >= 0 && std::isfinite(value)))
      place.member(name).refuse(fmt::format("is {}, which is no count", value));
  for (const auto& [name, value] : {std::pair<const char*, int64_t>{"tiles", s.tiles},
                                    {"resident", s.resident},
                                    {"graph", s.graph},
                                    {"runs_per_batch", s.runs_per_batch},
                                    {"elements", s.elements},
                                    {"validated", s.validated}})
    if (value < 0) place.member(name).refuse(fmt::format("is {}, which is no count", value));
  if (!s.failure.empty()) {
    if (!s.round_us.empty() || !s.round_wall_us.empty())
      place.member("failure").refuse(fmt::format("is \"{}\", and yet there are figures", s.failure));
    return;
  }
  if (s.round_us.empty() && s.round_wall_us.empty()) place.refuse("has neither figures nor a failure that says why");
  const int validations = s.role == Role::ceiling ? 0 : c.protocol.rounds + 1;
  if (s.validated != validations)
    place.member("validated")
        .refuse(fmt::format("is {}, and yet there are figures: {} are needed", s.validated, validations));
  if (s.role != Role::ceiling && s.elements == 0) place.member("elements").refuse("is 0, and yet there are figures");
  if (s.runs_per_batch == 0) place.member("runs_per_batch").refuse("is 0, and yet there are figures");
  if (s.settle_ms != 0 && s.settle_ms != c.protocol.settle_ms)
    place.member("settle_ms")
        .refuse(fmt::format("is {}; 0 and the protocol's {} exist", s.settle_ms, c.protocol.settle_ms));
  for (const Sample& other : c.samples)
    if (other.has_figure() && other.settle_ms != s.settle_ms)
      place.member("settle_ms")
          .refuse(fmt::format("is {}, but that of {} is {}", s.settle_ms, other.name, other.settle_ms));
  if (!(s.error <= s.bound) || !std::isfinite(s.bound))
    place.member("error").refuse(fmt::format("is {} of a bound of {}, and yet there are figures", s.error, s.bound));
  check_rounds(s.round_us, c.protocol, place.member("round_us"));
  check_rounds(s.round_wall_us, c.protocol, place.member("round_wall_us"));
}

void check_runs(const Results& results, const std::string& file) {
  for (size_t i = 0; i < results.runs.size(); ++i) {
    const Place place{file, fmt::format("runs[{}]", i)};
    check_names_unique(results.runs[i].executables, place.member("executables"));
    check_names_unique(results.runs[i].versions, place.member("versions"));
  }
}

}  // namespace

Place place_of(const Case& c, const std::string& file) {
  return {fmt::format("{}: case {}", file, title(c)), ""};
}

void check(const Case& c, const std::string& file) {
  const Place place = place_of(c, file);
  if (c.suite.empty()) place.member("suite").refuse("is empty");
  if (c.name.empty()) place.member("name").refuse("is empty");
  check_names_unique(c.shape, place.member("shape"));
  const Protocol& p = c.protocol;
  const Place protocol = place.member("protocol");
  if (p.name != "headline" && p.name != "sweep")
    protocol.member("name").refuse(fmt::format("is \"{}\", neither headline nor sweep", p.name));
  for (const auto& [name, value] : {std::pair{"rounds", p.rounds}, {"batches", p.batches}})
    if (value < 1) protocol.member(name).refuse(fmt::format("is {}; at least 1 is needed", value));
  for (const auto& [name, value] :
       {std::pair{"batch_ms", p.batch_ms}, {"warm_up_ms", p.warm_up_ms}, {"settle_ms", p.settle_ms}})
    if (!(value >= 0 && std::isfinite(value)))
      protocol.member(name).refuse(fmt::format("is {}, which is no time", value));
  for (const auto& [name, value] : {std::pair{"flops", c.flops}, {"bytes", c.bytes}})
    if (!(value >= 0 && std::isfinite(value)))
      place.member(name).refuse(fmt::format("is {}, which is no count", value));
  for (const auto& [name, clocks] : {std::pair{"before", &c.before}, {"after", &c.after}})
    if (!std::isfinite(clocks->watts)) place.member(name).member("watts").refuse("is not finite");
  for (size_t i = 0; i < c.samples.size(); ++i) check_sample(c.samples[i], c, place.member("samples").item(i));
  for (size_t i = 0; i < c.pairs.size(); ++i) {
    const Place pair = place.member("pairs").item(i);
    for (const auto& [name, sample] : {std::pair{"base", &c.pairs[i].base}, {"candidate", &c.pairs[i].candidate}}) {
      const Sample* found = c.find(*sample);
      if (found == nullptr) pair.member(name).refuse(fmt::format("is \"{}\", which is no sample of the case", *sample));
      if (found->role == Role::preparation || found->role == Role::ceiling)
        pair.member(name).refuse(fmt::format("is \"{}\", a {}, which is part of no ratio", *sample,
                                             role_names[static_cast<int>(found->role)]));
    }
    if (c.pairs[i].base == c.pairs[i].candidate) pair.refuse(fmt::format("pairs {} with itself", c.pairs[i].base));
    if (std::count(c.pairs.begin(), c.pairs.end(), c.pairs[i]) != 1) pair.refuse("stands twice");
  }
}

void check(const Results& results, const std::string& file) {
  check_runs(results, file);
  std::set<std::tuple<std::string, std::string, bool>> seen;
  for (const auto& [run, c] : results.cases) {
    check(c, file);
    if (run >= results.runs.size())
      place_of(c, file).member("run").refuse(fmt::format("is {}, but there are {} runs", run, results.runs.size()));
    if (!seen.emplace(c.suite, c.name, c.protocol.cold).second)
      place_of(c, file).member("name").refuse("stands twice among the cases of this suite and cache mode");
  }
}

void merge(Results& into, const Results& more) {
  const size_t offset = into.runs.size();
  into.runs.insert(into.runs.end(), more.runs.begin(), more.runs.end());
  for (const Results::Entry& entry : more.cases) {
    const auto found = std::find_if(into.cases.begin(), into.cases.end(),
                                    [&](const Results::Entry& old) { return same_case(old.value, entry.value); });
    (found == into.cases.end() ? into.cases.emplace_back() : *found) = {entry.run + offset, entry.value};
  }
  std::vector<Run> used;
  std::vector<std::optional<size_t>> place(into.runs.size());
  for (size_t i = 0; i < into.runs.size(); ++i) {
    if (std::none_of(into.cases.begin(), into.cases.end(), [&](const Results::Entry& entry) { return entry.run == i; }))
      continue;
    const auto same =
        std::find(used.begin(), used.end(), into.runs[i]);  // a run that was merged case by case stands once
    place[i] = static_cast<size_t>(same - used.begin());
    if (same == used.end()) used.push_back(into.runs[i]);
  }
  for (Results::Entry& entry : into.cases) entry.run = place.at(entry.run).value();
  into.runs = std::move(used);
}

bool is_complete(const Results& have, const Run& now, const Case& wanted) {
  const auto found = std::find_if(have.cases.begin(), have.cases.end(),
                                  [&](const Results::Entry& entry) { return same_case(entry.value, wanted); });
  if (found == have.cases.end()) return false;
  const Case& c = found->value;
  const Run& run = have.runs.at(found->run);
  if (run.executables != now.executables || run.device != now.device || run.capability != now.capability ||
      run.driver != now.driver || run.versions != now.versions || c.protocol != wanted.protocol ||
      c.shape != wanted.shape)
    return false;
  if (c.samples.empty() || counts(c).failures != 0) return false;
  if (wanted.samples.empty()) return true;
  return c.pairs == wanted.pairs && std::equal(c.samples.begin(), c.samples.end(), wanted.samples.begin(),
                                               wanted.samples.end(), [](const Sample& a, const Sample& b) {
                                                 return a.name == b.name && a.role == b.role &&
                                                        a.prepares == b.prepares && a.requested == b.requested;
                                               });
}

}  // namespace grout::compare
