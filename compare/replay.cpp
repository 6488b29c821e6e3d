#include "compare/replay.h"

#include <fmt/format.h>

#include <algorithm>

namespace grout::compare {
namespace {

// Whether its settings are known: what has a figure was realised, even where there is nothing to set.
bool was_realised(const Sample& s) {
  return !s.realised.empty() || s.has_figure();
}

// The sample to be run again: what was realised is what is requested.
Sample to_run(const Sample& recorded) {
  Sample s;
  s.name = recorded.name;
  s.role = recorded.role;
  s.prepares = recorded.prepares;
  s.requested = recorded.realised;
  s.flops = recorded.flops, s.bytes = recorded.bytes;
  return s;
}
Case without_samples(const Case& c, std::optional<int> rounds) {
  Case out = c;
  out.samples.clear();
  out.pairs.clear();
  out.before = out.after = {};
  if (rounds) out.protocol.rounds = *rounds;
  return out;
}
std::string not_realised(const Case& c, const Sample& s) {
  return fmt::format("{}, {}: not repeated, as no settings of it were realised{}", title(c), s.name,
                     s.failure.empty() ? "" : " (" + s.failure + ")");
}
void require_rounds(std::optional<int> rounds) {
  if (rounds && *rounds < 1) throw Refusal(fmt::format("--rounds {}: at least 1 is needed", *rounds));
}

const Sample* chosen(const Case& c, const std::string& name) {
  if (!name.empty()) return c.find(name);
  const auto found =
      std::find_if(c.samples.begin(), c.samples.end(), [](const Sample& s) { return s.role == Role::policy; });
  return found == c.samples.end() ? nullptr : &*found;
}

std::string time_text(const Sample& s) {
  const auto [low, high] = std::minmax_element(s.round_us.begin(), s.round_us.end());
  return fmt::format("{:.2f} us [{:.2f}, {:.2f}]", s.us(), *low, *high);
}
bool ranges_apart(const Sample& a, const Sample& b) {
  const auto [a_low, a_high] = std::minmax_element(a.round_us.begin(), a.round_us.end());
  const auto [b_low, b_high] = std::minmax_element(b.round_us.begin(), b.round_us.end());
  return *a_high < *b_low || *b_high < *a_low;
}
std::string verdict_text(const Verdict& v) {
  const char* name = verdict_names[static_cast<int>(v.kind)];
  if (v.kind == Verdict::Kind::none) return name;
  return fmt::format("{}, {:.3f} [{:.3f}, {:.3f}]", name, v.ratio.median, v.ratio.low, v.ratio.high);
}

const std::string* setting(const Settings& settings, const std::string& name) {
  for (const auto& [key, value] : settings)
    if (key == name) return &value;
  return nullptr;
}
std::vector<std::string> setting_differences(const Settings& recorded, const Settings& now) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : recorded) {
    const std::string* other = setting(now, name);
    if (other == nullptr) lines.push_back(fmt::format("{} was {}, now it is not said", name, value));
    if (other != nullptr && *other != value) lines.push_back(fmt::format("{} was {}, now {}", name, value, *other));
  }
  for (const auto& [name, value] : now)
    if (setting(recorded, name) == nullptr) lines.push_back(fmt::format("{} was not said, now {}", name, value));
  return lines;
}

std::vector<std::string> run_differences(const Run& recorded, const Run& now) {
  std::vector<std::string> lines;
  for (const auto& [name, then, today] : {std::tuple{"commit", &recorded.commit, &now.commit},
                                          {"device", &recorded.device, &now.device},
                                          {"driver", &recorded.driver, &now.driver},
                                          {"toolkit", &recorded.toolkit, &now.toolkit}})
    if (*then != *today) lines.push_back(fmt::format("{} was {}, now {}", name, *then, *today));
  for (const bool dirty : {true, false})
    if (recorded.dirty == dirty && now.dirty != dirty)
      lines.push_back(fmt::format("the source {} from its commit, now it does{}", dirty ? "differed" : "did not differ",
                                  dirty ? " not" : ""));
  for (const auto& line : setting_differences(recorded.versions, now.versions)) lines.push_back("version of " + line);
  for (const auto& line : setting_differences(recorded.executables, now.executables))
    lines.push_back("SHA-256 of " + line);
  return lines;
}

bool is_noise(const Verdict& v) {
  return std::abs(v.ratio.median - 1) < kNoise;
}

}  // namespace

ReplaySource replay_source(const std::string& argument) {
  const size_t colon = argument.rfind(':');
  if (std::filesystem::exists(argument) || colon == std::string::npos) return {argument, ""};
  const std::string file = argument.substr(0, colon), sample = argument.substr(colon + 1);
  if (sample.empty()) throw Refusal(fmt::format("{}: the colon is followed by no sample's name", argument));
  return {file, sample};
}

void require_output(const std::filesystem::path& folder, bool replay) {
  std::error_code none;
  if (std::filesystem::exists(folder, none) && !std::filesystem::is_directory(folder, none))
    throw Refusal(fmt::format("{}: is a file; OUTDIR is a folder", folder.string()));
  if (replay && std::filesystem::exists(std::filesystem::symlink_status(folder / "results.json", none)))
    throw Refusal(fmt::format("{}: would be replaced by what is measured now; give another OUTDIR",
                              (folder / "results.json").string()));
}

ReplayPlan plan_replay(const Results& reference, const std::string& file, std::optional<int> rounds) {
  require_rounds(rounds);
  ReplayPlan plan;
  for (const auto& [run, recorded] : reference.cases) {
    Planned p{without_samples(recorded, rounds), recorded, {reference.runs.at(run)}};
    p.recorded.samples.clear();
    for (const Sample& s : recorded.samples) {
      const Sample* prepared = recorded.find(s.prepares);
      if (!was_realised(s)) {
        plan.notes.push_back(not_realised(recorded, s));
      } else if (prepared != nullptr && !was_realised(*prepared)) {
        plan.notes.push_back(fmt::format("{}, {}: not repeated, as {} is not", title(recorded), s.name, s.prepares));
      } else {
        p.recorded.samples.push_back(s);
        p.now.samples.push_back(to_run(s));
      }
    }
    std::erase_if(p.recorded.pairs, [&](const Pair& pair) {
      return p.recorded.find(pair.base) == nullptr || p.recorded.find(pair.candidate) == nullptr;
    });
    p.now.pairs = p.recorded.pairs;
    if (!p.now.samples.empty()) plan.cases.push_back(std::move(p));
  }
  if (plan.cases.empty()) throw Refusal(fmt::format("{}: has no case that could be repeated", file));
  return plan;
}

ReplayPlan plan_replay(const Results& reference, const ReplaySource& reference_from, const Results& candidate,
                       const ReplaySource& candidate_from, std::optional<int> rounds) {
  require_rounds(rounds);
  ReplayPlan plan;
  bool shared = false;
  for (const auto& [run, recorded] : reference.cases) {
    const auto other =
        std::find_if(candidate.cases.begin(), candidate.cases.end(),
                     [&, &c = recorded](const Results::Entry& entry) { return same_case(entry.value, c); });
    if (other == candidate.cases.end()) continue;
    shared = true;
    if (other->value.shape != recorded.shape)
      throw Refusal(fmt::format("{} and {}: {} has different shapes under one name", reference_from.file.string(),
                                candidate_from.file.string(), title(recorded)));
    if (other->value.protocol != recorded.protocol)
      plan.notes.push_back(fmt::format("{}: the protocols differ; the reference's is used", title(recorded)));
    Planned p{without_samples(recorded, rounds), recorded, {reference.runs.at(run), candidate.runs.at(other->run)}};
    p.recorded.samples.clear();
    p.recorded.pairs.clear();
    const auto add = [&](const Sample& s, const std::string& name, const std::string& prepares) {
      for (const auto& [target, sample] : {std::pair{&p.recorded, s}, {&p.now, to_run(s)}}) {
        target->samples.push_back(sample);
        target->samples.back().name = name;
        target->samples.back().prepares = prepares;
      }
    };
    std::vector<std::string> pair;
    for (const auto& [prefix, c, from] :
         {std::tuple{"reference: ", &recorded, &reference_from}, {"candidate: ", &other->value, &candidate_from}}) {
      const Sample* s = chosen(*c, from->sample);
      if (s != nullptr && s->role != Role::policy && s->role != Role::peer)
        throw Refusal(fmt::format("{}: {} of {} is a {}, which is part of no ratio", from->file.string(), s->name,
                                  title(*c), role_names[static_cast<int>(s->role)]));
      if (s == nullptr || !was_realised(*s)) {
        plan.notes.push_back(fmt::format("{}: not repeated: {} has no {} with realised settings there", title(recorded),
                                         from->file.string(),
                                         from->sample.empty() ? "policy" : "sample " + from->sample));
        break;
      }
      pair.push_back(prefix + s->name);
      add(*s, pair.back(), "");
      for (const Sample& preparation : c->samples) {
        if (preparation.role != Role::preparation || preparation.prepares != s->name) continue;
        if (was_realised(preparation)) {
          add(preparation, prefix + preparation.name, pair.back());
        } else {
          plan.notes.push_back(not_realised(*c, preparation));
        }
      }
    }
    if (pair.size() != 2) continue;
    for (const Sample& s : recorded.samples)
      if (s.role == Role::ceiling && was_realised(s)) add(s, s.name, "");
    p.now.pairs = {{pair[0], pair[1]}};
    plan.cases.push_back(std::move(p));
  }
  if (!shared)
    throw Refusal(fmt::format("{} and {}: have no case in common (suite, name and cache mode)",
                              reference_from.file.string(), candidate_from.file.string()));
  if (plan.cases.empty()) throw Refusal("nothing to repeat: " + plan.notes.front());
  return plan;
}

void hold_to_plan(Case& measured, const Case& planned) {
  std::string failure = "was not measured";
  std::erase_if(measured.samples, [&](const Sample& s) {
    const bool drop = planned.find(s.name) == nullptr && !s.has_figure();
    if (drop) failure = s.failure;
    return drop;
  });
  for (const Sample& p : planned.samples) {
    const auto found = std::find_if(measured.samples.begin(), measured.samples.end(),
                                    [&](const Sample& s) { return s.name == p.name; });
    if (found != measured.samples.end()) {
      found->role = p.role, found->prepares = p.prepares;
    } else {
      measured.samples.push_back(p);
      measured.samples.back().failure = failure;
    }
  }
  measured.pairs = planned.pairs;
}

std::string Replayed::summary() const {
  if (verdicts == 0)
    return fmt::format(
        "no verdict was recorded for what was repeated (samples of two experiments are no pair); {} measured now",
        measured);
  return fmt::format("{} of {} verdicts reproduced", reproduced, verdicts);
}

Replayed compare_replay(const ReplayPlan& plan, const Results& now) {
  Replayed out;
  const auto say = [&](const std::string& line) {
    if (std::find(out.differences.begin(), out.differences.end(), line) == out.differences.end())
      out.differences.push_back(line);
  };
  for (const Planned& p : plan.cases) {
    out.verdicts += static_cast<int>(p.recorded.pairs.size());
    const auto found = std::find_if(now.cases.begin(), now.cases.end(),
                                    [&](const Results::Entry& entry) { return same_case(entry.value, p.recorded); });
    if (found == now.cases.end()) {
      say(title(p.recorded) + ": was not measured");
      out.realised = false;
      continue;
    }
    const Case& c = found->value;
    for (const Run& run : p.by)
      for (const auto& line : run_differences(run, now.runs.at(found->run))) say(line);
    for (const Sample& then : p.recorded.samples) {
      const std::string name = title(c) + ", " + then.name;
      const Sample* s = c.find(then.name);
      if (s == nullptr) {
        say(name + ": was not measured");
        out.realised = false;
        continue;
      }
      if (!s->has_figure() && then.has_figure()) {
        say(fmt::format("{}: no figure now: {}", name, s->failure));
        out.realised = false;
      } else if (s->has_figure() && !then.has_figure()) {
        say(fmt::format("{}: had no figure ({}), has one now", name, then.failure));
      }
      if (!was_realised(*s)) {
        out.realised = false;
        if (!then.has_figure()) say(fmt::format("{}: no settings were realised now: {}", name, s->failure));
      } else {
        for (const auto& line : setting_differences(then.realised, s->realised)) {
          say(name + ": " + line);
          out.realised = false;
        }
      }
      if (s->has_figure() && then.has_figure()) {
        if (s->settle_ms != then.settle_ms)
          say(fmt::format("{}: batches settled for {:g} ms, now {:g}: the clocks {}", name, then.settle_ms,
                          s->settle_ms, then.settle_ms > 0 ? "drifted then" : "drift now"));
        if (s->graph != then.graph)
          say(fmt::format("{}: was timed in graphs of {} runs, now {} (0: none)", name, then.graph, s->graph));
      }
      if (s->has_figure() && then.has_figure() && ranges_apart(then, *s))
        say(fmt::format("{}: device time was {}, now {} (two experiments, not paired)", name, time_text(then),
                        time_text(*s)));
    }
    for (const Pair& pair : p.now.pairs) out.measured += verdict(c, pair).kind != Verdict::Kind::none;
    for (const Pair& pair : p.recorded.pairs) {
      const Verdict then = verdict(p.recorded, pair), today = verdict(c, pair);
      const bool noise = is_noise(then) && is_noise(today);
      out.reproduced += then.kind == today.kind || noise;
      if (then.kind != today.kind)
        say(fmt::format("{}: {} over {} was {}; now {}{}", title(c), pair.candidate, pair.base, verdict_text(then),
                        verdict_text(today), noise ? " (both within the noise)" : ""));
    }
  }
  return out;
}

std::string replay_text(const ReplayPlan& plan, const Replayed& replayed) {
  std::string text;
  for (const auto& note : plan.notes) text += "- " + note + "\n";
  for (const auto& line : replayed.differences) text += "- " + line + "\n";
  return text + (text.empty() ? "" : "\n") + replayed.summary() + "\n";
}

}  // namespace grout::compare
