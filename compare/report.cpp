#include "compare/report.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>

#include "compare/json.h"

namespace grout::compare {
namespace {

using Row = std::vector<std::string>;

std::string number(double value, int digits) {
  return value > 0 ? fmt::format("{:.{}f}", value, digits) : "";
}
// "faster", "faster (rates)", "no figure".
std::string verdict_text(const Verdict& v) {
  return verdict_names[static_cast<int>(v.kind)] + std::string(v.rates ? " (rates)" : "");
}
std::string ratio_text(const Ratio& r) {
  return fmt::format("{:.3f}x [{:.3f}, {:.3f}]", r.median, r.low, r.high);
}
const char* cache_mode(const Protocol& p) {
  return p.cold ? "cold L2" : "warm L2";
}

std::string joined(const Settings& settings, const char* between = "=") {
  std::string all;
  for (const auto& [name, value] : settings)
    all += fmt::format("{}{}{}{}", all.empty() ? "" : " ", name, between, value);
  return all;
}

// The cases of one suite, cache mode and protocol, in their order: figures of different protocols share no table.
struct Group {
  std::string suite;
  Protocol protocol;
  std::vector<const Results::Entry*> entries;
};
std::vector<Group> groups(const Results& results) {
  std::vector<Group> all;
  for (const Results::Entry& entry : results.cases) {
    const Case& c = entry.value;
    auto found = std::find_if(all.begin(), all.end(), [&](const Group& group) {
      return group.suite == c.suite && group.protocol == c.protocol;
    });
    if (found == all.end()) found = all.insert(all.end(), {c.suite, c.protocol, {}});
    found->entries.push_back(&entry);
  }
  return all;
}

// "8191x8191x8191 nn (sweep)", "8192x8192x8192 nn (settled)"; with the number of its run where there are several.
std::string case_label(const Results& results, const Results::Entry& entry) {
  std::string label = entry.value.name;
  if (entry.value.protocol.name == "sweep") label += " (sweep)";
  for (const Sample& s : entry.value.samples)
    if (s.settle_ms > 0) {
      label += " (settled)";
      break;
    }
  if (results.runs.size() > 1) label += fmt::format(" (run {})", entry.run + 1);
  return label;
}

std::string sample_label(const Sample& s) {
  switch (s.role) {
    case Role::policy:
      return s.name;
    case Role::preparation:
      return fmt::format("{} (prepares {})", s.name, s.prepares);
    default:
      return fmt::format("{} ({})", s.name, role_names[static_cast<int>(s.role)]);
  }
}

// The samples as they are shown: each followed by what prepares it and then by their sum (sum_of set, `sample` is it).
struct Line {
  const Sample* sample;
  bool sum = false;
};
std::vector<Line> lines_of(const Case& c) {
  std::vector<Line> lines;
  for (const Sample& s : c.samples) {
    if (s.role == Role::preparation) continue;
    lines.push_back({&s});
    for (const Sample& p : c.samples)
      if (p.role == Role::preparation && p.prepares == s.name) lines.push_back({&p});
    if (with_preparation(c, s).any) lines.push_back({&s, true});
  }
  return lines;
}

std::string share_text(const Figures& f) {
  return f.share > 0 ? fmt::format("{:.3f} {}", f.share, f.bound_by) : "";
}

// ---- Markdown ----

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : c == '\n' ? " " : c == '<' ? "&lt;" : std::string(1, c);
  return out;
}
std::string markdown_row(const Row& cells) {
  std::string line = "|";
  for (const auto& text : cells) line += " " + cell(text) + " |";
  return line + "\n";
}

Row figure_row(const Case& c, const Line& line, const std::string& label) {
  const Sample& s = *line.sample;
  if (line.sum) {
    const WithPreparation sum = with_preparation(c, s);
    if (!sum.has_figure)
      return {label, s.name + " with preparation", "", "", "no figure", "", "", "", "", "", "", "", "", "", ""};
    return {label,
            s.name + " with preparation",
            "",
            "",
            number(sum.us, 2),
            number(sum.wall_us, 2),
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            ""};
  }
  if (!s.has_figure()) return {label, sample_label(s), "", "", "no figure", "", "", "", "", "", "", "", "", "", ""};
  const Figures f = figures(c, s);
  const Waves w = waves(s.tiles, s.resident);
  return {label,
          sample_label(s),
          number(s.flops * 1e-9, 3),
          number(s.bytes * 1e-6, 3),
          number(f.us, 2),
          number(f.wall_us, 2),
          number(f.tflops, 1),
          number(f.gbs, 1),
          share_text(f),
          s.graph > 0 ? fmt::format("{} runs", s.graph) : "no",
          s.tiles > 0 ? std::to_string(s.tiles) : "",
          number(w.waves, 2),
          w.last_fill > 0 ? fmt::format("{:.0f}%", 100 * w.last_fill) : "",
          s.validated > 0 ? std::to_string(s.validated) : "",
          joined(s.realised)};
}

struct Span {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) {
    if (value < 0) return;  // not known
    low = std::min(low, value), high = std::max(high, value);
  }
  std::string text(const char* unit, int digits) const {
    if (low > high) return "not known";
    return low == high ? fmt::format("{:.{}f} {}", low, digits, unit)
                       : fmt::format("{:.{}f} to {:.{}f} {}", low, digits, high, digits, unit);
  }
};
std::string clocks_text(const Results& results, size_t run) {
  Span sm, memory, celsius, watts;
  for (const auto& [index, c] : results.cases) {
    if (index != run) continue;
    for (const Clocks* clocks : {&c.before, &c.after})
      sm.add(clocks->sm_mhz), memory.add(clocks->memory_mhz), celsius.add(clocks->celsius), watts.add(clocks->watts);
  }
  return fmt::format("multiprocessors {}, memory {}; {}, {}; read before and after each case", sm.text("MHz", 0),
                     memory.text("MHz", 0), celsius.text("degrees Celsius", 0), watts.text("W", 0));
}

std::string run_facts(const Results& results, size_t index) {
  const Run& run = results.runs[index];
  std::string text = results.runs.size() > 1 ? fmt::format("## Run {}\n\n", index + 1) : "## The run\n\n";
  text += fmt::format("- command: `{}`\n- date: {}\n- commit: {}{}\n", run.command, run.date, run.commit,
                      run.dirty ? ", and the source differed from it" : "");
  text +=
      fmt::format("- device: {}, compute capability {}, {} multiprocessors, {} bytes of L2; driver {}, toolkit {}\n",
                  run.device, run.capability, run.sms, run.l2_bytes, run.driver, run.toolkit);
  text += fmt::format("- clocks seen: {}\n", clocks_text(results, index));
  text += fmt::format("- peers: {}\n", run.versions.empty() ? "none" : joined(run.versions, " "));
  text += fmt::format("- beside it: {}\n", run.beside);
  for (const auto& [name, hash] : run.executables) text += fmt::format("- SHA-256 of {}: `{}`\n", name, hash);
  return text + "\n";
}

constexpr const char* kNotes = R"(## How to read this

- **device us**: GPU time of one run: the median over the rounds of the median of a round's batches.
- **wall us**: host time of one run, dispatch included. Warm: a batch over its runs; cold: one call from its start to
  its completion. Medians as above.
- **warm L2**: runs back to back, so that L2 holds what of the data it can. **cold L2**: L2 is flushed before each
  run, untimed.
- **headline** and **sweep** are protocols: a sweep has fewer and shorter rounds, and its figures are marked so.
- **settled**: times drifted during the warm-up, as they do at the device's power limit: its clocks follow the power drawn, with a
  delay. Each batch is timed behind as much settling as the protocol says.
- **ratio**: base time / candidate time, so above 1 the candidate is faster. It is the median of *paired* ratios: both
  were timed in each round of one process, batch by batch in turn and in counterbalanced order. The range beside it is the least and greatest of
  these ratios: what was seen, **not a confidence interval**. Verdict: faster or slower where the whole range is, even
  where the range holds 1. **(rates)**: the two do different numbers of FLOPs, so the ratio is that of their rates,
  candidate / base.
- Times of different cases, runs or files are not paired, and no ratio of such is given here.
- **validated**: how often the output was compared with a reference and was right: before anything was timed and after
  each round. **validated pairs**: rounds after which both outputs were right. What failed, or was not validated, has
  no figure; only a ceiling, whose output nobody reads, is not validated and is part of no ratio.
- **GFLOP**, **MB** (10^6 bytes): the work of one run; multiply and add count as two; each operand is read, each
  result written, once.
- **share of the ceiling**: bound time / device time. The bound time is the larger of GFLOP / the compute ceiling's
  rate and MB / the memory ceiling's rate; the word says which one binds. Both ceilings were measured in the same
  rounds and stand in the table. Where the data stay in L2 a share above 1 of the memory ceiling is possible. Ceilings and
  preparations have one batch of 5 ms a round.
- **graph**: how many runs one CUDA graph holds; no: launched one by one.
- **tiles**, **waves**, **last wave**: tiles of the output, tiles / those that the device holds at once, how full the
  last wave is.

)";

// ---- fixed-width text ----

std::string aligned(const std::vector<Row>& rows, size_t left_columns) {
  std::vector<size_t> width;
  for (const Row& row : rows)
    for (size_t j = 0; j < row.size(); ++j) {
      if (j == width.size()) width.push_back(0);
      width[j] = std::max(width[j], row[j].size());
    }
  std::string text;
  for (const Row& row : rows) {
    std::string line = "  ";
    for (size_t j = 0; j < row.size(); ++j)
      line += j < left_columns ? fmt::format("{:<{}}", row[j], width[j]) : fmt::format("  {:>{}}", row[j], width[j]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string pair_text(const Case& c, const Pair& pair) {
  const Verdict v = verdict(c, pair);
  const std::string ratio = v.kind == Verdict::Kind::none ? "" : ratio_text(v.ratio) + " ";
  return fmt::format("{} over {}: {}{}", pair.candidate, pair.base, ratio, verdict_text(v));
}

}  // namespace

Figures figures(const Case& c, const Sample& sample) {
  Figures f;
  if (!sample.has_figure()) return f;
  f.us = sample.us(), f.wall_us = sample.wall_us();
  f.tflops = sample.flops / f.us * 1e-6, f.gbs = sample.bytes / f.us * 1e-3;
  if (sample.role == Role::ceiling) return f;
  double bound_us = 0;
  for (const bool compute : {true, false}) {
    const double work = compute ? sample.flops : sample.bytes;
    double us = std::numeric_limits<double>::infinity();
    bool exists = false;
    for (const Sample& ceiling : c.samples) {
      if (ceiling.role != Role::ceiling || (ceiling.flops > 0) != compute) continue;
      exists = true;
      const double of_ceiling = compute ? ceiling.flops : ceiling.bytes;
      if (ceiling.has_figure() && of_ceiling > 0) us = std::min(us, ceiling.us() * work / of_ceiling);
    }
    if (!exists || work <= 0) continue;
    if (us > bound_us) bound_us = us, f.bound_by = compute ? "compute" : "memory";
  }
  if (std::isfinite(bound_us)) {
    f.share = bound_us / f.us;
  } else {
    f.bound_by = "";
  }
  return f;
}

WithPreparation with_preparation(const Case& c, const Sample& sample) {
  WithPreparation sum;
  std::vector<double> us = sample.round_us, wall_us = sample.round_wall_us;
  sum.has_figure = sample.has_figure();
  for (const Sample& p : c.samples) {
    if (p.role != Role::preparation || p.prepares != sample.name) continue;
    sum.any = true;
    sum.has_figure = sum.has_figure && p.has_figure();
    if (!sum.has_figure) continue;
    for (size_t i = 0; i < us.size(); ++i) us[i] += p.round_us.at(i), wall_us[i] += p.round_wall_us.at(i);
  }
  if (sum.has_figure) sum.us = median(us), sum.wall_us = median(wall_us);
  return sum;
}

std::string describe(const Protocol& p) {
  return fmt::format("{}: {} round{} of {} batch{} of {:g} ms, {:g} ms of warm-up", p.name, p.rounds,
                     p.rounds == 1 ? "" : "s", p.batches, p.batches == 1 ? "" : "es", p.batch_ms, p.warm_up_ms) +
         (p.settle_ms > 0 ? fmt::format(", {:g} ms of settling", p.settle_ms) : "");
}

std::string markdown(const Results& results) {
  Counts total;
  for (const auto& [run, c] : results.cases) total += counts(c);
  std::string text = fmt::format(
      "# Comparison\n\n{} cases, {} validated pairs, {} validations, {} failures. Made from results.json, which has "
      "every round.\n\n"
      "![Paired ratios](results.svg)\n\n",
      results.cases.size(), total.validated_pairs, total.validations, total.failures);
  for (size_t i = 0; i < results.runs.size(); ++i) text += run_facts(results, i);
  text += kNotes;
  std::string failures;
  for (const Group& group : groups(results)) {
    text += fmt::format("## {}, {}, {}\n\n", group.suite, cache_mode(group.protocol), describe(group.protocol));
    text += markdown_row({"case", "sample", "GFLOP", "MB", "device us", "wall us", "TFLOP/s", "GB/s",
                          "share of the ceiling", "graph", "tiles", "waves", "last wave", "validated", "settings"});
    text += "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n";
    std::string ratios;
    for (const Results::Entry* entry : group.entries) {
      const Case& c = entry->value;
      const std::string label = case_label(results, *entry);
      for (const Line& line : lines_of(c)) text += markdown_row(figure_row(c, line, label));
      for (const Sample& s : c.samples)
        if (!s.has_figure()) failures += fmt::format("- {}, {}: {}\n", title(c), s.name, cell(s.failure));
      for (const Pair& pair : c.pairs) {
        const Verdict v = verdict(c, pair);
        const bool none = v.kind == Verdict::Kind::none;
        ratios += markdown_row({label, pair.base, pair.candidate, none ? "" : ratio_text(v.ratio), verdict_text(v),
                                none ? "" : std::to_string(validated_pairs(c, pair))});
      }
    }
    if (!ratios.empty())
      text += "\n" +
              markdown_row({"case", "base", "candidate", "ratio [range]", "the candidate is", "validated pairs"}) +
              "|---|---|---|---:|---|---:|\n" + ratios;
    text += "\n";
  }
  text += "## Failures\n\n" + (failures.empty() ? "None.\n" : failures);
  return text;
}

std::string terminal_table(const Results& results) {
  std::string text;
  for (const Group& group : groups(results)) {
    text += fmt::format("{}{}, {}, {}\n", text.empty() ? "" : "\n", group.suite, cache_mode(group.protocol),
                        describe(group.protocol));
    for (const Results::Entry* entry : group.entries) {
      const Case& c = entry->value;
      text += fmt::format("{}: {:.3f} GFLOP, {:.3f} MB\n", case_label(results, *entry), c.flops * 1e-9, c.bytes * 1e-6);
      std::vector<Row> rows = {{"", "device us", "wall us", "TFLOP/s", "GB/s", "of ceiling", "waves", "last"}};
      for (const Line& line : lines_of(c)) {
        const Row all = figure_row(c, line, "");
        rows.push_back({all[1], all[4], all[5], all[6], all[7], all[8], all[11], all[12]});
      }
      text += aligned(rows, 1);
      for (const Pair& pair : c.pairs) text += "    " + pair_text(c, pair) + "\n";
      for (const Sample& s : c.samples)
        if (!s.has_figure()) text += fmt::format("    {}: no figure: {}\n", s.name, s.failure);
    }
  }
  return text;
}

std::string starting_line(const Case& c, size_t number, size_t of) {
  return fmt::format("[{}/{}] {} ...", number, of, title(c));
}

std::string finished_line(const Case& c, size_t number, size_t of) {
  std::string line = fmt::format("[{}/{}] {}", number, of, title(c));
  const char* separator = ": ";
  for (const Pair& pair : c.pairs) line += separator + pair_text(c, pair), separator = "; ";
  for (const Sample& s : c.samples)
    if (!s.has_figure()) line += fmt::format("{}{} failed: {}", separator, s.name, s.failure), separator = "; ";
  return line;
}

void publish(const std::filesystem::path& folder, const Results& results) {
  std::filesystem::create_directories(folder);
  const std::filesystem::path file = folder / "results.json";
  write_file(file, to_json(results, file.string()));
  const Results read = read_results(file);
  write_file(folder / "results.md", markdown(read));
  write_file(folder / "results.svg", svg(read));
}

}  // namespace grout::compare
