// results.md and the terminal: essential lines as they are, and the rest computed again from the JSON.
// compare_report_plot.cpp: the plot.
#include "compare/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "compare/json.h"
#include "tests/host/compare_cases.h"

namespace grout::compare {
namespace {

using Lines = std::vector<std::string>;
Lines lines_of(const std::string& text) {
  Lines lines(1);
  for (const char c : text) c == '\n' ? (void)lines.emplace_back() : lines.back().push_back(c);
  return lines;
}
bool has_line(const std::string& text, const std::string& line) {
  const Lines all = lines_of(text);
  return std::find(all.begin(), all.end(), line) != all.end();
}
// The cells of a row of a Markdown table; none for other lines.
Lines cells_of(const std::string& line) {
  Lines cells;
  if (line.size() < 2 || line[0] != '|') return cells;
  std::string cell;
  for (size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '|' && line[i - 1] != '\\') {
      cells.push_back(cell.size() < 2 ? "" : cell.substr(1, cell.size() - 2));
      cell.clear();
    } else {
      cell += line[i];
    }
  }
  return cells;
}
std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
bool has_digit(const std::string& s) {
  return s.find_first_of("0123456789") != std::string::npos;
}

TEST(CompareFigures, FollowFromTheMedians) {
  const Case c = sample_case();
  const Figures mma = figures(c, c.samples[1]);
  EXPECT_EQ(mma.us, 20);
  EXPECT_EQ(mma.wall_us, 21);
  EXPECT_DOUBLE_EQ(mma.tflops, 100);  // 2e9 in 20 us
  EXPECT_DOUBLE_EQ(mma.gbs, 200);     // 4e6 in 20 us
  EXPECT_DOUBLE_EQ(mma.share, 0.5);   // 10 us of multiply-adds, 8 us of copying
  EXPECT_STREQ(mma.bound_by, "compute");
  EXPECT_EQ(figures(c, c.samples[3]).share, 0);  // a ceiling has no share of itself
}
TEST(CompareFigures, TheSlowerBoundBinds) {
  Case c = sample_case();
  c.samples[4].round_us = {22, 22, 22, 22};  // 8 MB in 22 us: 11 us for 4 MB
  EXPECT_DOUBLE_EQ(figures(c, c.samples[1]).share, 0.55);
  EXPECT_STREQ(figures(c, c.samples[1]).bound_by, "memory");
  c.samples[1].flops = 0;  // a copy
  c.samples[3] = failed("multiply-adds", Role::ceiling, "no");
  EXPECT_DOUBLE_EQ(figures(c, c.samples[1]).share, 0.55);
  EXPECT_EQ(figures(c, c.samples[1]).tflops, 0);
}
TEST(CompareFigures, WhereOneKindIsMissingTheOtherBinds) {
  Case c = sample_case();
  c.samples.erase(c.samples.begin() + 3);
  EXPECT_DOUBLE_EQ(figures(c, c.samples[1]).share, 0.4);
  EXPECT_STREQ(figures(c, c.samples[1]).bound_by, "memory");
  c = sample_case();
  c.samples.erase(c.samples.begin() + 4);
  c.samples[3].bytes = 1;  // a loop of multiply-adds is no measure of memory
  EXPECT_DOUBLE_EQ(figures(c, c.samples[1]).share, 0.5);
  EXPECT_STREQ(figures(c, c.samples[1]).bound_by, "compute");
}
TEST(CompareFigures, TheFastestCeilingOfAKindCounts) {
  Case c = sample_case();
  Sample faster = c.samples[3];
  faster.name = "more multiply-adds";
  faster.round_us = {9, 9, 9, 9};
  c.samples.push_back(faster);
  EXPECT_DOUBLE_EQ(figures(c, c.samples[1]).share, 0.45);
}
TEST(CompareFigures, NoShareOfACeilingWithoutFigure) {
  Case c = sample_case();
  for (const size_t ceiling : {3u, 4u}) {
    Case broken = c;
    broken.samples[ceiling] = failed(c.samples[ceiling].name, Role::ceiling, "no");
    broken.samples[ceiling].flops = c.samples[ceiling].flops;
    EXPECT_EQ(figures(broken, broken.samples[1]).share, 0);
    EXPECT_STREQ(figures(broken, broken.samples[1]).bound_by, "");
  }
  c.samples.resize(3);
  EXPECT_EQ(figures(c, c.samples[1]).share, 0);
  EXPECT_EQ(figures(c, failed("mma", Role::policy, "no")).us, 0);
}
TEST(CompareFigures, PreparationIsAddedRoundByRound) {
  Case c = sample_case();
  c.samples[1].round_us = {20, 30, 40, 50};
  c.samples[2].round_us = {40, 30, 20, 10};
  EXPECT_EQ(with_preparation(c, c.samples[1]).us, 60);
  c.samples[2].round_us = {10, 10, 10, 1000};
  c.samples[1].round_us = {1000, 10, 10, 10};
  EXPECT_EQ(with_preparation(c, c.samples[1]).us, (1010. + 20) / 2);  // the sum of the medians would be 20
  EXPECT_TRUE(with_preparation(c, c.samples[1]).has_figure);
  EXPECT_FALSE(with_preparation(c, c.samples[0]).any);
  c.samples[2] = failed("pad", Role::preparation, "no");
  c.samples[2].prepares = "mma";
  EXPECT_TRUE(with_preparation(c, c.samples[1]).any);
  EXPECT_FALSE(with_preparation(c, c.samples[1]).has_figure);
}

TEST(CompareMarkdown, TheLinesThatMatter) {
  const std::string text = markdown(sample_results());
  for (const char* line : {
           "4 cases, 11 validated pairs, 52 validations, 1 failures. Made from results.json, which has every round.",
           "![Paired ratios](results.svg)",
           "- command: `./run compare gemm out`",
           "- date: 2026-01-02T03:04:05Z",
           "- commit: 0123456789012345678901234567890123456789",
           "- device: Device X, compute capability 9.0, 132 multiprocessors, 1048576 bytes of L2; driver 580.1, "
           "toolkit 13.0",
           "- clocks seen: multiprocessors 1755 to 1980 MHz, memory 3201 MHz; 40 to 52 degrees Celsius, 300 to 640 W; "
           "read before and "
           "after each case",
           "- peers: cublas 13.1",
           "- beside it: one process on the GPU: this one; no compiler or build tool runs",
           "- SHA-256 of compare: `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`",
           "## gemm, warm L2, headline: 4 rounds of 9 batches of 40 ms, 200 ms of warm-up, 100 ms of settling",
           "## gemm, cold L2, headline: 4 rounds of 9 batches of 40 ms, 200 ms of warm-up, 100 ms of settling",
           "## gemm, warm L2, sweep: 3 rounds of 1 batch of 5 ms, 10 ms of warm-up",
           "| 511x512x513 nn bf16 | mma | 2.000 | 4.000 | 20.00 | 21.00 | 100.0 | 200.0 | 0.500 compute | no | 561 | "
           "4.25 | 25% | 5 | "
           "kernel=mma tile=128x256x64 |",
           "| 511x512x513 nn bf16 | cublas (peer) | 2.000 | 4.000 | 40.00 | 41.00 | 50.0 | 100.0 | 0.250 compute | no "
           "| 561 | 4.25 | "
           "25% | 5 | kernel=cublas tile=128x256x64 |",
           "| 511x512x513 nn bf16 | pad (prepares mma) | 2.000 | 4.000 | 4.00 | 5.00 | 500.0 | 1000.0 | 2.500 compute "
           "| no | 561 | 4.25 "
           "| 25% | 5 | kernel=pad tile=128x256x64 |",
           "| 511x512x513 nn bf16 | mma with preparation |  |  | 24.00 | 26.00 |  |  |  |  |  |  |  |  |  |",
           "| 511x512x513 nn bf16 | copy (ceiling) |  | 8.000 | 16.00 | 17.00 |  | 500.0 |  | no |  |  |  |  |  |",
           "| 511x512x513 nn bf16 | cublas | mma | 2.000x [1.900, 2.100] | faster | 4 |",
           "| 64x64x64 tt bf16 (sweep) | cublas | mma | 0.976x [0.950, 1.077] | even | 3 |",
           "| 65x97x73 nn bf16 | mma |  |  | no figure |  |  |  |  |  |  |  |  |  |  |",
           "| 65x97x73 nn bf16 | mma with preparation |  |  | no figure |  |  |  |  |  |  |  |  |  |  |",
           "| 65x97x73 nn bf16 | cublas | mma |  | no figure |  |",
           "- gemm 65x97x73 nn bf16, L2 warm, mma: wrong at (3, 4): 1.5 where 2.5 \\| 2.6 was expected",
       })
    EXPECT_TRUE(has_line(text, line)) << line << "\n--- is missing in\n" << text;
  EXPECT_NE(text.find("**not a confidence interval**"), std::string::npos);
}
TEST(CompareMarkdown, NothingAmissIsSaidToo) {
  Results r = sample_results();
  r.cases.resize(1);
  r.runs[0].dirty = true;
  r.runs[0].versions.clear();
  r.cases[0].value.before = r.cases[0].value.after = {};
  const std::string text = markdown(r);
  EXPECT_TRUE(has_line(text, "None."));
  EXPECT_TRUE(has_line(text, "- commit: 0123456789012345678901234567890123456789, and the source differed from it"));
  EXPECT_TRUE(has_line(text, "- peers: none"));
  EXPECT_TRUE(has_line(
      text,
      "- clocks seen: multiprocessors not known, memory not known; not known, not known; read before and after each "
      "case"));
}
TEST(CompareMarkdown, MergedRunsAreToldApart) {
  Results r = sample_results();
  r.runs.push_back(sample_run());
  r.runs[1].date = "2026-03-03T00:00:00Z";
  r.cases[1].run = 1;
  const std::string text = markdown(r);
  EXPECT_TRUE(has_line(text, "## Run 1"));
  EXPECT_TRUE(has_line(text, "## Run 2"));
  EXPECT_NE(text.find("| 511x512x513 nn bf16 (run 2) | mma |"), std::string::npos);
  EXPECT_NE(text.find("| 64x64x64 tt bf16 (sweep) (run 1) | mma |"), std::string::npos);
}
// Every figure of every row, from the JSON alone; and no row of a failed sample, nor of its pairs, has a digit.
TEST(CompareMarkdown, SettledCasesSaySo) {
  Results r = sample_results();
  for (Sample& s : r.cases[1].value.samples) s.settle_ms = 100;
  r.cases[1].value.samples[0].settle_ms = 0;  // it failed before it was timed
  for (const std::string& text : {markdown(r), terminal_table(r)}) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find("511x512x513 nn bf16 (settled)", at)) != std::string::npos; ++at) ++count;
    EXPECT_GE(count, 1u) << text;
    EXPECT_EQ(text.find("65x97x73 nn bf16 (settled)"), std::string::npos);
  }
  EXPECT_NE(markdown(r).find("- **settled**: "), std::string::npos);
}

TEST(CompareMarkdown, EveryFigureFollowsFromTheJson) {
  const Results r = from_json(to_json(sample_results()));
  std::string suite_mode;
  int samples = 0, sums = 0, pairs = 0, failures = 0;
  for (const std::string& line : lines_of(markdown(r))) {
    if (line.rfind("## ", 0) == 0) suite_mode = line;
    const Lines cell = cells_of(line);
    if (cell.empty() || cell[0] == "case" || line[1] == '-') continue;
    const bool cold = suite_mode.find("cold") != std::string::npos,
               swept = suite_mode.find("sweep") != std::string::npos;
    const auto entry = std::find_if(r.cases.begin(), r.cases.end(), [&](const Results::Entry& e) {
      return e.value.protocol.cold == cold && e.value.name + (swept ? " (sweep)" : "") == cell[0];
    });
    ASSERT_NE(entry, r.cases.end()) << line;
    const Case& c = entry->value;
    if (cell.size() == 6) {
      const Verdict v = verdict(c, {cell[1], cell[2]});
      ++pairs;
      if (v.kind == Verdict::Kind::none) {
        EXPECT_FALSE(has_digit(cell[3] + cell[4] + cell[5])) << line;
        continue;
      }
      EXPECT_EQ(cell[3],
                printed("%.3fx", v.ratio.median) + printed(" [%.3f,", v.ratio.low) + printed(" %.3f]", v.ratio.high));
      EXPECT_EQ(cell[4], verdict_names[static_cast<int>(v.kind)]);
      EXPECT_EQ(cell[5], std::to_string(validated_pairs(c, {cell[1], cell[2]})));
      continue;
    }
    ASSERT_EQ(cell.size(), 15u) << line;
    const Sample* s = c.find(cell[1].substr(0, cell[1].find(" (")));
    if (s == nullptr) {
      const Sample* prepared = c.find(cell[1].substr(0, cell[1].find(" with preparation")));
      ASSERT_NE(prepared, nullptr) << line;
      const WithPreparation sum = with_preparation(c, *prepared);
      EXPECT_EQ(cell[4], sum.has_figure ? printed("%.2f", sum.us) : "no figure");
      EXPECT_EQ(cell[5], sum.has_figure ? printed("%.2f", sum.wall_us) : "");
      ++sums;
      continue;
    }
    if (!s->has_figure()) {
      for (size_t i = 2; i < cell.size(); ++i) EXPECT_FALSE(has_digit(cell[i])) << line;
      ++failures;
      continue;
    }
    const auto shown = [](const char* format, double value) { return value > 0 ? printed(format, value) : ""; };
    EXPECT_EQ(cell[2], shown("%.3f", s->flops / 1e9));
    EXPECT_EQ(cell[3], shown("%.3f", s->bytes / 1e6));
    EXPECT_EQ(cell[4], printed("%.2f", median(s->round_us)));
    EXPECT_EQ(cell[5], printed("%.2f", median(s->round_wall_us)));
    EXPECT_EQ(cell[6], shown("%.1f", s->flops / median(s->round_us) / 1e6));
    EXPECT_EQ(cell[7], shown("%.1f", s->bytes / median(s->round_us) / 1e3));
    const double compute = median(c.samples[3].round_us) * s->flops / 2e9,
                 memory = median(c.samples[4].round_us) * s->bytes / 8e6;
    EXPECT_EQ(cell[8], s->role == Role::ceiling ? ""
                                                : printed("%.3f", std::max(compute, memory) / median(s->round_us)) +
                                                      (compute > memory ? " compute" : " memory"));
    const bool ceiling = s->role == Role::ceiling;
    EXPECT_EQ(cell[10], ceiling ? "" : "561");
    EXPECT_EQ(cell[11], ceiling ? "" : "4.25");
    EXPECT_EQ(cell[12], ceiling ? "" : "25%");
    EXPECT_EQ(cell[13], ceiling ? "" : std::to_string(s->validated));
    ++samples;
  }
  EXPECT_EQ(samples, 4 * 5 - 1);
  EXPECT_EQ(sums, 4);
  EXPECT_EQ(pairs, 4);
  EXPECT_EQ(failures, 1);
}
// An aligned neighbour does more work: 2 GFLOP in 20 us against 3 in 24 us is 0.8 of its rate.
TEST(CompareMarkdown, PairsOfDifferentWorkCompareRates) {
  Results r;
  r.runs = {sample_run()};
  r.cases = {{0, sample_case()}};
  Case& c = r.cases[0].value;
  c.samples[0].name = "neighbour", c.samples[0].flops = 3e9;
  c.samples[0].round_us = {24, 24, 24, 30};
  c.pairs = {{"neighbour", "mma"}};
  EXPECT_TRUE(
      has_line(markdown(r), "| 511x512x513 nn bf16 | neighbour | mma | 0.800x [0.800, 1.000] | even (rates) | 4 |"));
  EXPECT_NE(terminal_table(r).find("    mma over neighbour: 0.800x [0.800, 1.000] even (rates)\n"), std::string::npos);
  EXPECT_NE(svg(r).find(">0.800 [0.800, 1.000] rates<"), std::string::npos);
  EXPECT_NE(to_json(r).find("\"ratio_of\":\"rates\","), std::string::npos);
  EXPECT_EQ(from_json(to_json(r)), r);
}
TEST(CompareMarkdown, GraphsAndSingleLaunches) {
  Results r = sample_results();
  r.cases[0].value.samples[1].graph = 20;
  r.cases[0].value.samples[1].resident = 0;  // not known: no waves
  EXPECT_TRUE(has_line(
      markdown(r),
      "| 511x512x513 nn bf16 | mma | 2.000 | 4.000 | 20.00 | 21.00 | 100.0 | 200.0 | 0.500 compute | 20 runs | "
      "561 |  |  | 5 | kernel=mma tile=128x256x64 |"));
}

TEST(CompareTerminal, TheTable) {
  Results r = sample_results();
  r.cases.erase(r.cases.begin() + 1, r.cases.begin() + 3);
  EXPECT_EQ(terminal_table(r),
            "gemm, warm L2, headline: 4 rounds of 9 batches of 40 ms, 200 ms of warm-up, 100 ms of settling\n"
            "511x512x513 nn bf16: 2.000 GFLOP, 4.000 MB\n"
            "                           device us  wall us  TFLOP/s    GB/s     of ceiling  waves  last\n"
            "  cublas (peer)                40.00    41.00     50.0   100.0  0.250 compute   4.25   25%\n"
            "  mma                          20.00    21.00    100.0   200.0  0.500 compute   4.25   25%\n"
            "  pad (prepares mma)            4.00     5.00    500.0  1000.0  2.500 compute   4.25   25%\n"
            "  mma with preparation         24.00    26.00\n"
            "  multiply-adds (ceiling)      10.00    11.00    200.0\n"
            "  copy (ceiling)               16.00    17.00            500.0\n"
            "    mma over cublas: 2.000x [1.900, 2.100] faster\n"
            "65x97x73 nn bf16: 2.000 GFLOP, 4.000 MB\n"
            "                           device us  wall us  TFLOP/s    GB/s     of ceiling  waves  last\n"
            "  cublas (peer)                40.00    41.00     50.0   100.0  0.250 compute   4.25   25%\n"
            "  mma                      no figure\n"
            "  pad (prepares mma)            4.00     5.00    500.0  1000.0  2.500 compute   4.25   25%\n"
            "  mma with preparation     no figure\n"
            "  multiply-adds (ceiling)      10.00    11.00    200.0\n"
            "  copy (ceiling)               16.00    17.00            500.0\n"
            "    mma over cublas: no figure\n"
            "    mma: no figure: wrong at (3, 4): 1.5 where 2.5 | 2.6 was expected\n");
}
TEST(CompareTerminal, IsNarrow) {
  Results r = sample_results();
  for (auto& [run, c] : r.cases)
    for (Sample& s : c.samples) {
      for (std::vector<double>* rounds : {&s.round_us, &s.round_wall_us})
        for (double& t : *rounds) t *= 123456;
      s.tiles = 123456789;
    }
  for (const std::string& line : lines_of(terminal_table(r)))
    if (line.find("expected") == std::string::npos) {
      EXPECT_LE(line.size(), 110u) << line;
    }
}
TEST(CompareTerminal, Progress) {
  const Results r = sample_results();
  EXPECT_EQ(starting_line(r.cases[1].value, 2, 40), "[2/40] gemm 511x512x513 nn bf16, L2 cold ...");
  EXPECT_EQ(finished_line(r.cases[0].value, 1, 40),
            "[1/40] gemm 511x512x513 nn bf16, L2 warm: mma over cublas: 2.000x [1.900, 2.100] faster");
  EXPECT_EQ(finished_line(r.cases[2].value, 3, 40),
            "[3/40] gemm 64x64x64 tt bf16, L2 warm, sweep: mma over cublas: 0.976x [0.950, 1.077] even");
  EXPECT_EQ(finished_line(r.cases[3].value, 4, 40),
            "[4/40] gemm 65x97x73 nn bf16, L2 warm: mma over cublas: no figure; mma failed: wrong at (3, 4): 1.5 where "
            "2.5 | 2.6 was expected");
}

TEST(ComparePublish, WritesThreeFilesThatAgree) {
  const auto folder = std::filesystem::temp_directory_path() / ("grout_compare_report." + std::to_string(getpid()));
  const auto content = [&](const char* name) {
    std::ifstream in(folder / "a" / name);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const Results r = sample_results();
  publish(folder / "a", r);
  EXPECT_EQ(read_results(folder / "a" / "results.json"), r);
  EXPECT_EQ(content("results.md"), markdown(r));
  EXPECT_EQ(content("results.svg"), svg(r));
  Results bad = r;
  bad.cases[0].value.samples[1].validated = 0;
  EXPECT_THROW(publish(folder / "a", bad), Refusal);
  EXPECT_EQ(read_results(folder / "a" / "results.json"), r);  // as it was
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace grout::compare
