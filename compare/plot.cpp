// results.svg: every paired ratio with its range, one row each, on a logarithmic axis.
#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "compare/report.h"

namespace grout::compare {
namespace {

constexpr double kMargin = 16, kRow = 18, kChar = 6.7, kPlot = 420,
                 kTickDistance = 44;  // pixels; monospace of 11 has characters of 6.6

std::string escaped(const std::string& s) {
  std::string out;
  for (const char c : s)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}
double text_width(const std::string& s) {
  return kChar * static_cast<double>(s.size());
}

struct Mark {
  std::string label;
  bool sweep;
  Verdict verdict;
};
struct Panel {
  std::string title;
  std::vector<Mark> marks;
};

// The pairs by suite and cache mode, in the order of the cases.
std::vector<Panel> panels_of(const Results& results) {
  std::vector<Panel> panels;
  for (const auto& [run, c] : results.cases) {
    const std::string name = c.suite + (c.protocol.cold ? ", cold L2" : ", warm L2");
    auto found = std::find_if(panels.begin(), panels.end(), [&](const Panel& panel) { return panel.title == name; });
    if (found == panels.end()) found = panels.insert(panels.end(), {name, {}});
    for (const Pair& pair : c.pairs)
      found->marks.push_back({fmt::format("{}: {} over {}", c.name, pair.candidate, pair.base),
                              c.protocol.name == "sweep", verdict(c, pair)});
  }
  return panels;
}

// A logarithmic axis of ratios over kPlot pixels from `left`.
class Axis {
 public:
  Axis(const std::vector<Panel>& panels, double left) : left_(left) {
    for (const Panel& panel : panels)
      for (const Mark& mark : panel.marks) {
        if (mark.verdict.kind == Verdict::Kind::none) continue;
        low_ = std::min(low_, mark.verdict.ratio.low), high_ = std::max(high_, mark.verdict.ratio.high);
      }
    const double room = std::max(std::pow(high_ / low_, 0.06), 1.02);
    low_ /= room, high_ *= room;
  }
  double x(double ratio) const { return left_ + kPlot * std::log(ratio / low_) / std::log(high_ / low_); }
  // Round values, 1 among them, that are far enough apart to be read.
  std::vector<double> ticks() const {
    std::vector<double> all;
    const auto add = [&](double tick) {
      if (tick >= low_ && tick <= high_ && std::none_of(all.begin(), all.end(), [&](double other) {
            return std::fabs(x(tick) - x(other)) < kTickDistance;
          }))
        all.push_back(tick);
    };
    constexpr double kDecades[] = {1, 0.1, 10, 0.01, 100, 0.001, 1000};
    for (const auto& digits : {std::vector<double>{1}, {2, 5}, {1.5, 3, 7}})
      for (const double digit : digits)
        for (const double decade : kDecades) add(digit * decade);
    if (all.size() < 5)  // all ratios are close to 1
      for (const double step : {0.2, 0.1, 0.05, 0.02, 0.01, 0.005})
        for (int i = 1; i <= 20; ++i) add(1 + i * step), add(1 - i * step);
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  double left_, low_ = 1, high_ = 1;
};

}  // namespace

std::string svg(const Results& results) {
  const std::vector<Panel> panels = panels_of(results);
  double label_width = text_width("the least and the greatest");
  for (const Panel& panel : panels)
    for (const Mark& mark : panel.marks) label_width = std::max(label_width, text_width(mark.label));
  const double left = kMargin + label_width + 12, right = left + kPlot;
  const Axis axis(panels, left);
  std::string body;
  const auto text = [&](double x, double y, const char* anchor, const std::string& s, const char* kind = "text") {
    body += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", kind, x, y,
                        anchor, escaped(s));
  };
  const auto line = [&](double x1, double y1, double x2, double y2, const char* kind) {
    body += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1, y1,
                        x2, y2);
  };
  const auto dot = [&](double x, double y, const char* verdict, bool sweep) {
    body += fmt::format("<circle class=\"{}{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n", verdict,
                        sweep ? " sweep" : "", x, y);
  };

  double y = kMargin + 10;
  text(kMargin, y, "start", "Paired ratios: base time / candidate time; right of 1 the candidate is faster",
       "text title");
  y += kRow;
  // The legend.
  double x = kMargin + 5;
  for (const auto& [kind, sweep, meaning] : {std::tuple{"faster", false, "faster"},
                                             {"slower", false, "slower"},
                                             {"even", false, "even: the range holds 1"},
                                             {"even", true, "hollow: sweep, fewer and shorter rounds"}}) {
    dot(x, y - 4, kind, sweep);
    text(x + 10, y, "start", meaning);
    x += 10 + text_width(meaning) + 22;
  }
  const double legend_right = x;
  y += kRow;
  text(kMargin, y, "start",
       "Dot: median of the rounds' ratios. Whisker: their range, which is not a confidence interval.");
  y += kRow;
  text(kMargin, y, "start", "rates: the FLOPs differ, so candidate rate / base rate.");
  y += 8;

  const double top = y + kRow;
  const size_t behind = body.size();  // where the grid goes, whose end is known last
  y = top;
  for (const Panel& panel : panels) {
    y += kRow;
    text(kMargin, y, "start", panel.title, "text title");
    for (const Mark& mark : panel.marks) {
      y += kRow;
      text(left - 12, y, "end", mark.label);
      const char* verdict = verdict_names[static_cast<int>(mark.verdict.kind)];
      if (mark.verdict.kind == Verdict::Kind::none) {
        text(axis.x(1) + 6, y, "start", "no figure", "slower-text");
        continue;
      }
      const Ratio& r = mark.verdict.ratio;
      const double middle = y - 4;
      body += fmt::format(
          "<path class=\"whisker {0}\" d=\"M{1:.1f} {3:.1f}H{2:.1f}M{1:.1f} {4:.1f}v8M{2:.1f} {4:.1f}v8\"/>\n", verdict,
          axis.x(r.low), axis.x(r.high), middle, middle - 4);
      dot(axis.x(r.median), middle, verdict, mark.sweep);
      text(right + 12, y, "start",
           fmt::format("{:.3f} [{:.3f}, {:.3f}]{}", r.median, r.low, r.high, mark.sweep ? " sweep" : "") +
               (mark.verdict.rates ? " rates" : ""));
    }
    y += 6;
  }
  const double bottom = y + 4;
  const std::string marks = body.substr(behind);
  body.resize(behind);
  for (const double tick : axis.ticks()) {
    line(axis.x(tick), top + 4, axis.x(tick), bottom, tick == 1 ? "one" : "grid");
    text(axis.x(tick), top, "middle", fmt::format("{:g}", tick));
    text(axis.x(tick), bottom + 14, "middle", fmt::format("{:g}", tick));
  }
  body += marks;
  text((left + right) / 2, bottom + 14 + kRow, "middle", "base time / candidate time (logarithmic)");
  const double width = std::max(right + 12 + text_width("00.000 [00.000, 00.000] sweep rates"), legend_right) + kMargin;
  const double height = bottom + 14 + kRow + kMargin;
  return fmt::format(R"(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" role="img">
<title>Paired ratios of {2} cases</title>
<style>
text {{ font-family: monospace; font-size: 11px }}
.paper {{ fill: #ffffff }} .text {{ fill: #1f2328 }} .title {{ font-weight: bold }} .slower-text {{ fill: #b34700 }}
.grid {{ stroke: #d8dee4 }} .one {{ stroke: #57606a; stroke-width: 1.5 }}
.faster {{ fill: #0b62c4; stroke: #0b62c4 }}
.slower {{ fill: #b34700; stroke: #b34700 }} .even {{ fill: #6e7781; stroke: #6e7781 }}
.whisker {{ fill: none; stroke-width: 1.5 }} .sweep {{ fill: #ffffff; stroke-width: 1.5 }}
@media (prefers-color-scheme: dark) {{
.paper {{ fill: #0d1117 }} .text {{ fill: #e6edf3 }} .slower-text {{ fill: #ff9b50 }}
.grid {{ stroke: #30363d }} .one {{ stroke: #9198a1 }}
.faster {{ fill: #6cb6ff; stroke: #6cb6ff }}
.slower {{ fill: #ff9b50; stroke: #ff9b50 }} .even {{ fill: #9198a1; stroke: #9198a1 }}
.whisker {{ fill: none }} .sweep {{ fill: #0d1117 }}
}}
</style>
<rect class="paper" width="100%" height="100%"/>
{3}</svg>
)",
                     width, height, results.cases.size(), body);
}

}  // namespace grout::compare
