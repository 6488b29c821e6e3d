// A Shown as text, as JSON, as SVG.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <sstream>

#include "common/show/show.h"

namespace grout::show {

void print_text(std::ostream& out, const Shown& shown) {
  out << shown.name << ": " << shown.title << "\n";
  for (const auto& note : shown.notes) out << "  " << note << "\n";
  for (const Panel& panel : shown.panels) {
    std::vector<size_t> width = {panel.corner.size()};
    for (const auto& row : panel.rows) width[0] = std::max(width[0], row.size());
    for (size_t j = 0; j < panel.columns.size(); ++j) {
      width.push_back(panel.columns[j].size());
      for (const auto& row : panel.cells) width.back() = std::max(width.back(), row[j].label.size());
    }
    const auto pad = [&](const std::string& s, size_t column) {
      return std::string(width[column] - s.size(), ' ') + s;
    };
    out << "\n" << panel.title << "\n" << pad(panel.corner, 0) << " |";
    for (size_t j = 0; j < panel.columns.size(); ++j) out << " " << pad(panel.columns[j], j + 1);
    out << "\n" << std::string(width[0], '-') << "-+";
    for (size_t j = 0; j < panel.columns.size(); ++j) out << std::string(width[j + 1] + 1, '-');
    out << "\n";
    for (size_t i = 0; i < panel.rows.size(); ++i) {
      out << pad(panel.rows[i], 0) << " |";
      for (size_t j = 0; j < panel.columns.size(); ++j) out << " " << pad(panel.cells[i][j].label, j + 1);
      out << "\n";
    }
  }
}

void print_json(std::ostream& out, const Shown& shown) {
  const auto names = [](const std::vector<std::string>& list) {
    std::vector<std::string> q;
    for (const auto& item : list) q.push_back(quoted(item));
    return "[" + joined(q) + "]";
  };
  out << "{\"name\": " << quoted(shown.name) << ", \"index\": " << names(shown.index)
      << ", \"coord\": " << names(shown.coord) << shown.json << ", \"table\": [";
  for (size_t i = 0; i < shown.table.size(); ++i) {
    out << (i ? ",\n  [" : "\n  [");
    for (size_t j = 0; j < shown.table[i].size(); ++j) out << (j ? ", [" : "[") << joined(shown.table[i][j]) << "]";
    out << "]";
  }
  out << "\n]}\n";
}

namespace {

std::string escaped(const std::string& s) {
  std::string out;
  for (const char c : s)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}
// A light colour: the hue goes round the circle, every other one a little darker so that neighbours differ.
std::string color_of(const Cell& cell) {
  constexpr const char* kCases[] = {"#a6e3a1", "#9cc9f5", "#f9c784", "#dddddd"};  // async, realign, elements, zeros
  if (cell.colors == 0) return kCases[cell.color];
  const double hue = 6.0 * cell.color / cell.colors, light = cell.color % 2 ? 0.72 : 0.84, chroma = (1 - light) * 1.5;
  const auto channel = [&](double shift) {
    const double h = std::fmod(hue + shift, 6.0), ramp = std::clamp(std::fabs(h - 3) - 1, 0.0, 1.0);
    return static_cast<int>(std::lround(255 * std::clamp(light + chroma * (ramp - 0.5), 0.0, 1.0)));
  };
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", channel(0), channel(4), channel(2));
  return text;
}

}  // namespace

void print_svg(std::ostream& out, const Shown& shown) {
  constexpr int kHeight = 20, kChar = 7, kMargin = 16;
  std::ostringstream body;
  int y = kMargin, right = 0;
  const auto label = [&](int x, int at, const std::string& s, const char* anchor, const char* extra = "") {
    body << "<text x=\"" << x << "\" y=\"" << at << "\" text-anchor=\"" << anchor << "\"" << extra << ">" << escaped(s)
         << "</text>\n";
    if (anchor[0] == 's') right = std::max(right, x + static_cast<int>(s.size()) * kChar);
  };
  label(kMargin, y += 8, shown.name + ": " + shown.title, "start", " font-weight=\"bold\"");
  for (const auto& note : shown.notes) label(kMargin, y += kHeight, note, "start", " xml:space=\"preserve\"");
  for (const Panel& panel : shown.panels) {
    size_t longest = 2, left = panel.corner.size();
    for (const auto& name : panel.columns) longest = std::max(longest, name.size());
    for (const auto& row : panel.cells)
      for (const auto& cell : row) longest = std::max(longest, cell.label.size());
    for (const auto& name : panel.rows) left = std::max(left, name.size());
    const int width = static_cast<int>(longest) * kChar + 8, x0 = kMargin + static_cast<int>(left) * kChar + 8;
    label(kMargin, y += 2 * kHeight, panel.title, "start");
    y += kHeight;
    label(x0 - 6, y, panel.corner, "end", " fill=\"#666\"");
    for (size_t j = 0; j < panel.columns.size(); ++j)
      label(x0 + static_cast<int>(j) * width + width / 2, y, panel.columns[j], "middle", " fill=\"#666\"");
    y += 6;
    for (size_t i = 0; i < panel.rows.size(); ++i, y += kHeight) {
      label(x0 - 6, y + 14, panel.rows[i], "end", " fill=\"#666\"");
      for (size_t j = 0; j < panel.columns.size(); ++j) {
        const int x = x0 + static_cast<int>(j) * width;
        body << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << kHeight
             << "\" fill=\"" << color_of(panel.cells[i][j]) << "\" stroke=\"#888\"/>\n";
        label(x + width / 2, y + 14, panel.cells[i][j].label, "middle");
      }
    }
    right = std::max(right, x0 + static_cast<int>(panel.columns.size()) * width);
  }
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\""
      << right + kMargin << "\" height=\"" << y + kMargin
      << "\" font-family=\"monospace\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      << body.str() << "</svg>\n";
}

}  // namespace grout::show
