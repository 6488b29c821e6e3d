// The plot: well-formed, on its own, and each mark where its ratio is.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>

#include "compare/report.h"
#include "tests/host/compare_cases.h"

namespace grout::compare {
namespace {

// Tags are closed in order, attributes quoted and unique, no bare < or &. Says what is wrong, or nothing.
std::string xml_problem(const std::string& text) {
  std::vector<std::string> open;
  size_t i = text.find("?>");
  if (text.rfind("<?xml version=\"1.0\" encoding=\"UTF-8\"?>", 0) != 0) return "no declaration";
  i += 2;
  bool any = false;
  while (i < text.size()) {
    if (text[i] == '&' && !std::regex_search(text.begin() + static_cast<long>(i), text.end(),
                                             std::regex("^&(amp|lt|gt|quot);"), std::regex_constants::match_continuous))
      return "bare & at " + std::to_string(i);
    if (text[i] != '<') {
      if (open.empty() && !std::isspace(static_cast<unsigned char>(text[i]))) return "text outside the root";
      ++i;
      continue;
    }
    std::smatch m;
    const std::string rest = text.substr(i, text.find('>', i) - i + 1);
    if (std::regex_match(rest, m, std::regex("</([a-z]+)>"))) {
      if (open.empty() || open.back() != m[1]) return "closes " + m[1].str();
      open.pop_back();
    } else if (std::regex_match(rest, m, std::regex("<([a-z]+)((?: [a-zA-Z0-9-]+=\"[^\"<&]*\")*)(/?)>"))) {
      if (open.empty() && any) return "a second root";
      any = true;
      std::map<std::string, int> names;
      const std::string attributes = m[2];
      const std::regex one(" ([a-zA-Z0-9-]+)=");
      for (auto a = std::sregex_iterator(attributes.begin(), attributes.end(), one); a != std::sregex_iterator(); ++a)
        if (++names[(*a)[1]] > 1) return "attribute twice: " + rest;
      if (m[3].length() == 0) open.push_back(m[1]);
    } else {
      return "no tag: " + rest;
    }
    i += rest.size();
  }
  return open.empty() && any ? "" : "open at the end";
}
// All matches of a pattern, as their groups.
std::vector<std::smatch> all(std::string&&, const std::string&) = delete;  // matches point into the text
std::vector<std::smatch> all(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return {std::sregex_iterator(text.begin(), text.end(), regex), {}};
}
double real(const std::ssub_match& m) {
  return std::stod(m.str());
}

TEST(ComparePlot, IsWellFormed) {
  EXPECT_EQ(xml_problem(svg(sample_results())), "");
  EXPECT_EQ(xml_problem(svg(Results{})), "");
  Results r = sample_results();
  r.cases[0].value.name = "a < b && \"c\" > d";
  const std::string text = svg(r);
  EXPECT_EQ(xml_problem(text), "");
  EXPECT_NE(text.find(">a &lt; b &amp;&amp; &quot;c&quot; &gt; d: mma over cublas<"), std::string::npos);
  // The check itself notices.
  EXPECT_NE(xml_problem(text.substr(0, text.size() - 8)), "");
  EXPECT_NE(xml_problem(std::regex_replace(text, std::regex("&lt;"), "&")), "");
  EXPECT_NE(xml_problem(std::regex_replace(text, std::regex("</text>"), "")), "");
}
TEST(ComparePlot, StandsOnItsOwn) {
  const std::string text = svg(sample_results());
  for (const char* word : {"href", "url(", "@import", "<image", "<script", "font-face"})
    EXPECT_EQ(text.find(word), std::string::npos) << word;
  EXPECT_NE(text.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_EQ(all(text, "http[^\"]*").size(), 1u);  // the namespace
}
// Each mark's place against the logarithm of its ratio; the scale is read off the ticks.
TEST(ComparePlot, CoordinatesAreTheRatios) {
  Results r = sample_results();
  for (int i = 1; i <= 12; ++i) {
    Case c = sample_case("case " + std::to_string(i));
    for (double& t : c.samples[1].round_us) t *= 0.1 * i * i;
    r.cases.push_back({0, c});
  }
  r.cases.push_back({0, sample_case("a wide range")});
  r.cases.back().value.samples[0].round_us = {0.04, 40, 40, 4000};
  const std::string text = svg(r);
  const auto ticks = all(text, "x=\"([0-9.]+)\" y=\"[0-9.]+\" text-anchor=\"middle\">([0-9.]+)</text>");
  ASSERT_GE(ticks.size(), 8u);
  double x1 = 0, x10 = 0;
  for (const auto& tick : ticks) {
    if (real(tick[2]) == 1) x1 = real(tick[1]);
    if (real(tick[2]) == 10) x10 = real(tick[1]);
  }
  ASSERT_GT(x10, x1);
  const auto x = [&](double ratio) { return x1 + (x10 - x1) * std::log10(ratio); };
  for (const auto& tick : ticks) EXPECT_NEAR(real(tick[1]), x(real(tick[2])), 0.2) << tick.str();
  const auto one = all(text, "class=\"one\" x1=\"([0-9.]+)\" y1=\"([0-9.]+)\" x2=\"([0-9.]+)\" y2=\"([0-9.]+)\"");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(real(one[0][1]), x1);
  EXPECT_EQ(real(one[0][3]), x1);
  const auto dots =
      all(text, "<circle class=\"(faster|slower|even)( sweep)?\" cx=\"([0-9.]+)\" cy=\"([0-9.]+)\" r=\"4\"/>");
  const auto whiskers = all(text, "<path class=\"whisker (faster|slower|even)\" d=\"M([0-9.]+) ([0-9.]+)H([0-9.]+)M");
  const size_t legend = 4;
  ASSERT_EQ(dots.size(), legend + 16);
  ASSERT_EQ(whiskers.size(), 16u);
  std::vector<const Case*> order;  // warm panel first, as the first case is warm
  for (const bool cold : {false, true})
    for (const auto& [run, c] : r.cases)
      if (c.protocol.cold == cold && verdict(c, c.pairs[0]).kind != Verdict::Kind::none) order.push_back(&c);
  const double width = std::stod(all(text, "<svg [^>]* width=\"([0-9]+)\"")[0][1]),
               height = std::stod(all(text, " height=\"([0-9]+)\"")[0][1]);
  double previous = 0, figures_left = 0;
  for (const auto& figure : all(text, "x=\"([0-9.]+)\" y=\"[0-9.]+\" text-anchor=\"start\">[0-9.]+ \\["))
    figures_left = real(figure[1]);
  for (size_t i = 0; i < order.size(); ++i) {
    const Verdict v = verdict(*order[i], order[i]->pairs[0]);
    const auto &dot = dots[legend + i], &whisker = whiskers[i];
    EXPECT_EQ(dot[1], verdict_names[static_cast<int>(v.kind)]);
    EXPECT_EQ(whisker[1], dot[1]);
    EXPECT_EQ(dot[2].matched, order[i]->protocol.name == "sweep");
    EXPECT_NEAR(real(dot[3]), x(v.ratio.median), 0.2);
    EXPECT_NEAR(real(whisker[2]), x(v.ratio.low), 0.2);
    EXPECT_NEAR(real(whisker[4]), x(v.ratio.high), 0.2);
    EXPECT_EQ(real(whisker[3]), real(dot[4]));
    EXPECT_GE(real(dot[4]), previous + 18);  // rows do not overlap
    previous = real(dot[4]);
    // The label of the row stands on its height, left of everything drawn.
    bool labelled = false;
    for (const auto& label :
         all(text, "x=\"([0-9.]+)\" y=\"([0-9.]+)\" text-anchor=\"end\">([^<]*): mma over cublas</text>"))
      if (real(label[2]) == real(dot[4]) + 4)
        labelled = label[3] == order[i]->name && real(label[1]) < x(v.ratio.low) &&
                   real(label[1]) > 6.6 * static_cast<double>(label[3].length() + 17);
    EXPECT_TRUE(labelled) << order[i]->name;
    EXPECT_LT(x(v.ratio.high), figures_left);
  }
  EXPECT_LT(previous, height);
  for (const auto& placed : all(text, "x=\"([0-9.]+)\" y=\"([0-9.]+)\" text-anchor=\"start\">([^<]*)</text>"))
    EXPECT_LE(real(placed[1]) + 6.7 * static_cast<double>(placed[3].length()), width) << placed[3];
  EXPECT_EQ(all(text, ">no figure<").size(), 1u);
  EXPECT_EQ(all(text, "\\] sweep<").size(), 1u);
}
TEST(ComparePlot, TicksDoNotOverlap) {
  for (const double spread : {1.0001, 1.01, 1.1, 1.5, 3., 20., 900.}) {
    Results r;
    r.runs = {sample_run()};
    for (const double factor : {1., spread}) {
      r.cases.push_back({0, sample_case("case " + std::to_string(factor))});
      for (double& t : r.cases.back().value.samples[0].round_us) t = 20 * factor;
    }
    const std::string text = svg(r);
    std::vector<double> x;
    for (const auto& tick : all(text, "x=\"([0-9.]+)\" y=\"[0-9.]+\" text-anchor=\"middle\">([0-9.]+)</text>"))
      x.push_back(real(tick[1]));
    std::sort(x.begin(), x.end());
    x.erase(std::unique(x.begin(), x.end()), x.end());  // above and below
    EXPECT_GE(x.size(), 3u) << spread;
    for (size_t i = 1; i < x.size(); ++i) EXPECT_GE(x[i] - x[i - 1], 40) << spread;
  }
}

}  // namespace
}  // namespace grout::compare
