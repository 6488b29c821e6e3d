// show NAME [--text | --json | --svg FILE]: prints or draws what an instruction's registers, a swizzle, a shared tile or
// a copy plan hold. Everything comes from the tables and functions that the kernels use; no GPU, no CUDA.
//
// --json: {"name", "index": [axis names], "coord": [names], "table": [[[..], ..], ..]}: table[i][j] is the coordinate at
// index (i, j), always a list. Copy plans add "tile", "type", "threads", "extents", "origin", "ld", "offset", "realign",
// "zero_fill" and "totals", of vectors: "async", "realign", "elements", "zeros"; of elements: "scalar_loads",
// "zero_elements". Their table[i][j] is the vector of thread i in turn j: its place in the tile, its case, and the valid
// elements first <= e < last.
#include <array>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include "common/args.h"
#include "common/copy.cuh"
#include "gemm/gemm_mma.cuh"

namespace grout {
namespace {

// ---- what is shown ----

using Row = std::vector<std::string>;
struct Cell {
  std::string label;
  int color = 0, colors = 1;  // hue `color` of `colors`; colors = 0: one of the four cases of a copy
};
struct Panel {  // a drawn grid
  std::string title, corner;
  Row columns, rows;
  std::vector<std::vector<Cell>> cells;
};
struct Shown {
  std::string name, title;
  std::vector<std::string> notes;  // lines below the title
  std::vector<Panel> panels;
  std::vector<std::string> index, coord;
  std::vector<std::vector<Row>> table;  // entries as JSON
  std::string json;                     // further members of the JSON object, each with a comma before it
};

std::string text(int64_t value) {
  return std::to_string(value);
}
std::string quoted(const std::string& s) {
  return "\"" + s + "\"";
}
Row numbers(int count, int step = 1, const std::string& before = "") {
  Row row;
  for (int i = 0; i < count; ++i) row.push_back(before + text(int64_t{i} * step));
  return row;
}
std::string joined(const std::vector<std::string>& items, const std::string& with = ", ") {
  std::string all;
  for (const auto& item : items) all += (all.empty() ? "" : with) + item;
  return all;
}

// ---- ownerships ----

template <class Ownership>
std::vector<std::vector<Row>> table_of() {
  std::vector<std::vector<Row>> table(Ownership::threads);
  for (int lane = 0; lane < Ownership::threads; ++lane) {
    for (int slot = 0; slot < Ownership::slots; ++slot) {
      const auto c = Ownership::at(lane, slot);
      Row entry;
      for (int axis = 0; axis < Ownership::axes; ++axis) entry.push_back(text(c[axis]));
      table[lane].push_back(entry);
    }
  }
  return table;
}

// The tile as a grid in which each element names its lane and slot, then the table by lane. Three axes: one grid a matrix.
template <class Ownership>
Shown show_ownership(const std::string& name, const std::string& title, Row coord, const std::string& slot, Row notes) {
  constexpr int kFirst = Ownership::axes - 2, kRows = Ownership::shape[kFirst], kColumns = Ownership::shape[kFirst + 1];
  Shown shown{name, title, notes, {}, {"lane", slot}, coord, table_of<Ownership>(), ""};
  const int matrices = kFirst == 0 ? 1 : Ownership::shape[0];
  for (int matrix = 0; matrix < matrices; ++matrix) {
    Panel panel{(kFirst == 0 ? "" : "matrix " + text(matrix) + ": ") + "lane:" + slot + " that holds it",
                coord[kFirst] + " \\ " + coord[kFirst + 1],
                numbers(kColumns),
                numbers(kRows),
                {}};
    panel.cells.assign(kRows, std::vector<Cell>(kColumns));
    for (int lane = 0; lane < Ownership::threads; ++lane) {
      for (int s = 0; s < Ownership::slots; ++s) {
        const auto c = Ownership::at(lane, s);
        if (kFirst == 0 || c[0] == matrix)
          panel.cells[c[kFirst]][c[kFirst + 1]] = {text(lane) + ":" + text(s), lane, Ownership::threads};
      }
    }
    shown.panels.push_back(panel);
  }
  Panel lanes{"(" + joined(coord) + ") of each lane's " + slot + "s",
              "lane",
              numbers(Ownership::slots),
              numbers(Ownership::threads),
              {}};
  for (int lane = 0; lane < Ownership::threads; ++lane) {
    lanes.cells.emplace_back();
    for (const Row& entry : shown.table[lane])
      lanes.cells.back().push_back({"(" + joined(entry, ",") + ")", lane, Ownership::threads});
  }
  shown.panels.push_back(lanes);
  return shown;
}

template <int Count, bool Transposed>
Shown show_ldmatrix(const std::string& name) {
  return show_ownership<Ldmatrix<Count, Transposed>>(
      name,
      "ldmatrix: " + text(Count) + (Count == 1 ? " matrix" : " matrices") + " of 8 x 8 16-bit elements" +
          (Transposed ? ", transposed" : ""),
      {"matrix", "row", "col"}, "half",
      {"half 2r + h is half h of register r; lane 8i + r gives the shared address of row r of matrix i"});
}

// ---- swizzles and shared tiles ----

template <class Swizzle>
Shown show_swizzle(const std::string& name, int span) {
  const int chunks = span / 16, bits = detail::log2_exact(static_cast<size_t>(chunks));
  std::string picture_y, picture_x;
  for (int i = 0; i < 3; ++i) picture_y += i < 3 - bits ? ". " : "y ", picture_x += i < 3 - bits ? ". " : "x ";
  Shown shown{name,
              "swizzle of " + text(span) + " bytes: where the 16-byte chunks of 8 rows of " + text(span) + " bytes lie",
              {"bit of the byte address   9 8 7   6 5 4   3 2 1 0",
               "                          " + picture_y + "  " + picture_x + "  m m m m",
               "the bits x (chunk) become x XOR y (number of the 128-byte line); the pattern starts at a multiple of " +
                   text(8 * span) + " bytes"},
              {},
              {"row", "chunk"},
              {"chunk"},
              {},
              ""};
  Panel panel{"the chunk of the row at which it lies", "row \\ chunk", numbers(chunks), numbers(8), {}};
  for (int row = 0; row < 8; ++row) {
    shown.table.emplace_back();
    panel.cells.emplace_back();
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int at = Swizzle{}(row * span + chunk * 16) - row * span;
      shown.table.back().push_back({text(at / 16)});
      panel.cells.back().push_back({text(at / 16), at / 16, chunks});
    }
  }
  shown.panels.push_back(panel);
  return shown;
}

// One operand tile of the GEMM: the byte and the 16-byte bank column at which each chunk of 8 neighbours lies.
template <int Extent, int kK, bool KMajor>
Shown show_gemm_tile(const std::string& name, const std::string& mn) {
  constexpr int kRows = KMajor ? Extent : kK, kChunks = (KMajor ? kK : Extent) / 8;
  using Layout = typename GemmOperandTile<bf16, Extent, kK, KMajor>::Layout;
  constexpr int kLines = Extent * kK * 2 / 128, kShownLines = kLines < 32 ? kLines : 32;
  const std::string rows = KMajor ? mn : "k", along = KMajor ? "k" : mn;
  Shown shown{
      name,
      "GEMM operand tile " + mn + " x k = " + text(Extent) + " x " + text(kK) + ", 16-bit elements, contiguous along " + along,
      {"ldmatrix reads chunks of eight successive " + rows + " at a time: they lie in eight different bank columns"},
      {},
      {rows, along + " chunk"},
      {"byte", "bank column"},
      {},
      ""};
  Panel panel{"chunk (" + rows + ", " + along + " / 8) in each 16-byte bank column of the 128-byte lines" +
                  (kLines > kShownLines ? ", first " + text(kShownLines) + " lines" : ""),
              "line \\ column",
              numbers(8),
              numbers(kShownLines),
              {}};
  panel.cells.assign(kShownLines, std::vector<Cell>(8));
  for (int row = 0; row < kRows; ++row) {
    shown.table.emplace_back();
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int byte = 2 * (KMajor ? Layout{}(row, 8 * chunk) : Layout{}(8 * chunk, row)), column = byte / 16 % 8;
      shown.table.back().push_back({text(byte), text(column)});
      if (byte / 128 < kShownLines)
        panel.cells[byte / 128][column] = {"(" + text(row) + "," + text(chunk) + ")", chunk % 8, 8};
    }
  }
  shown.panels.push_back(panel);
  return shown;
}

// ---- copy plans ----

struct CopyRequest {
  int rows = 0, columns = 0, threads = 256;
  ElementType type = ElementType::bf16;
  int64_t extent_rows = 0, extent_columns = 0, row = 0, col = 0, ld = 0, offset = 0;
  bool realign = false, zero_fill = false;
};
constexpr const char* case_name(VectorCase c) {
  return c == VectorCase::async      ? "async"
         : c == VectorCase::realign  ? "realign"
         : c == VectorCase::elements ? "elements"
                                     : "zeros";
}

// What decide_vector needs of a CopyPlan; the tile's extents and the number of threads are run-time values here.
template <class T, bool Realign, bool ZeroFill>
struct ShownPlan {
  static constexpr int vector = 16 / sizeof(T), axis = 1;
  static constexpr CopyOptions options = {.misaligned = Realign ? Misaligned::realign : Misaligned::elements,
                                          .partial = ZeroFill ? Partial::zero_fill : Partial::elements};
};

template <class Plan, class T>
Shown show_copy(const std::string& name, const CopyRequest& q) {
  constexpr int V = Plan::vector;
  const int along = q.columns / V, vectors = along * q.rows, turns = (vectors + q.threads - 1) / q.threads;
  // An address, never read: what a base aligned to 4096 bytes, moved by the offset, would be.
  const auto* base = reinterpret_cast<const T*>(uintptr_t{1} << 40) + q.offset;
  const auto source = view(base, layout(shape(q.extent_rows, q.extent_columns), stride(q.ld, 1_c)));

  Shown shown{name,
              text(q.rows) + " x " + text(q.columns) + " tile of " + element_name(q.type) + ": " + text(vectors) +
                  " vectors of " + text(V) + ", " + text(q.threads) + " threads, " + text(turns) +
                  (turns == 1 ? " turn" : " turns"),
              {},
              {},
              {"thread", "turn"},
              {"row", "col", "case", "first", "last"},
              {},
              ""};
  shown.table.resize(static_cast<size_t>(std::min(q.threads, vectors)));
  std::map<VectorCase, int64_t> count;
  int64_t scalar_loads = 0, zero_elements = 0;
  std::vector<std::vector<VectorDecision>> decisions(static_cast<size_t>(q.rows));
  for (int v = 0; v < vectors; ++v) {  // as VectorTiled deals them
    const int row = v / along, col = v % along * V;
    const VectorDecision d = decide_vector(Plan{}, source, q.row + row, q.col + col);
    decisions[static_cast<size_t>(row)].push_back(d);
    shown.table[static_cast<size_t>(v % q.threads)].push_back(
        {text(row), text(col), quoted(case_name(d.kind)), text(d.first), text(d.last)});
    ++count[d.kind];
    if (d.kind == VectorCase::elements) scalar_loads += d.last - d.first;
    zero_elements += V - (d.last - d.first);
  }

  const auto describe = [&](const VectorDecision& d) {
    std::string s = case_name(d.kind);
    const int valid = d.last - d.first;
    if (d.kind != VectorCase::zeros && valid < V) s += " " + text(valid) + "+" + text(V - valid) + "z";
    return s;
  };
  Panel panel{"thread and case of each vector", "row \\ columns", {}, {}, {}};
  for (int j = 0; j < along; ++j) panel.columns.push_back(text(j * V) + ".." + text(j * V + V - 1));
  for (int row = 0, next; row < q.rows; row = next) {  // rows that share all their cases are drawn as one
    const auto& here = decisions[static_cast<size_t>(row)];
    for (next = row + 1; next < q.rows; ++next) {
      bool same = true;
      for (int j = 0; j < along; ++j)
        same &= describe(decisions[static_cast<size_t>(next)][static_cast<size_t>(j)]) ==
                describe(here[static_cast<size_t>(j)]);
      if (!same) break;
    }
    if (next - row < 3) next = row + 1;
    panel.rows.push_back(text(row) + (next > row + 1 ? ".." + text(next - 1) : ""));
    panel.cells.emplace_back();
    for (int j = 0; j < along; ++j) {
      const int first = row * along + j, last = (next - 1) * along + j;
      std::string who = "t" + text(first % q.threads);
      if (next > row + 1) who += first / q.threads == last / q.threads ? "..t" + text(last % q.threads) : "..";
      panel.cells.back().push_back(
          {who + " " + describe(here[static_cast<size_t>(j)]), static_cast<int>(here[static_cast<size_t>(j)].kind), 0});
    }
  }
  shown.panels.push_back(panel);
  shown.notes = {"source " + text(q.extent_rows) + " x " + text(q.extent_columns) + ", pitch " + text(q.ld) +
                     ", base 16-byte aligned + " + text(q.offset) + " elements; tile at (" + text(q.row) + ", " +
                     text(q.col) + ")",
                 "misaligned: " + std::string(q.realign ? "realign" : "elements") +
                     "; partial: " + (q.zero_fill ? "zero_fill" : "elements") +
                     "; \"n+mz\": n valid elements, m zeros; vector v = " + text(along) + " row + column / " + text(V) +
                     " belongs to thread v % " + text(q.threads),
                 "vectors: " + text(count[VectorCase::async]) + " async, " + text(count[VectorCase::realign]) +
                     " realign, " + text(count[VectorCase::elements]) + " elements, " + text(count[VectorCase::zeros]) +
                     " zeros; " + text(scalar_loads) + " scalar loads, " + text(zero_elements) + " zero elements"};
  const auto pair = [](int64_t a, int64_t b) { return "[" + text(a) + ", " + text(b) + "]"; };
  shown.json =
      ", \"tile\": " + pair(q.rows, q.columns) + ", \"type\": " + quoted(element_name(q.type)) +
      ", \"threads\": " + text(q.threads) + ", \"extents\": " + pair(q.extent_rows, q.extent_columns) +
      ", \"origin\": " + pair(q.row, q.col) + ", \"ld\": " + text(q.ld) + ", \"offset\": " + text(q.offset) +
      ", \"realign\": " + (q.realign ? "true" : "false") + ", \"zero_fill\": " + (q.zero_fill ? "true" : "false") +
      ", \"totals\": {\"async\": " + text(count[VectorCase::async]) +
      ", \"realign\": " + text(count[VectorCase::realign]) + ", \"elements\": " + text(count[VectorCase::elements]) +
      ", \"zeros\": " + text(count[VectorCase::zeros]) + ", \"scalar_loads\": " + text(scalar_loads) +
      ", \"zero_elements\": " + text(zero_elements) + "}";
  return shown;
}
template <class T>
Shown show_copy_as(const std::string& name, const CopyRequest& q) {
  if (q.realign)
    return q.zero_fill ? show_copy<ShownPlan<T, true, true>, T>(name, q)
                       : show_copy<ShownPlan<T, true, false>, T>(name, q);
  return q.zero_fill ? show_copy<ShownPlan<T, false, true>, T>(name, q)
                     : show_copy<ShownPlan<T, false, false>, T>(name, q);
}

// Reads copy.RxC.TYPE[.tTHREADS]; false if `name` is none.
bool parse_copy(const std::string& name, CopyRequest& q) {
  std::istringstream in(name);
  std::vector<std::string> parts;
  for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
  if (parts.size() < 3 || parts.size() > 4 || parts[0] != "copy") return false;
  const auto number = [](const std::string& s, int& value) {
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
    return error == std::errc() && end == s.data() + s.size() && value > 0;
  };
  const size_t x = parts[1].find('x');
  if (x == std::string::npos || !number(parts[1].substr(0, x), q.rows) || !number(parts[1].substr(x + 1), q.columns))
    return false;
  if (parts[2] != "bf16" && parts[2] != "f16" && parts[2] != "f32") return false;
  q.type = parts[2] == "bf16" ? ElementType::bf16 : parts[2] == "f16" ? ElementType::f16 : ElementType::f32;
  return parts.size() == 3 || (parts[3][0] == 't' && number(parts[3].substr(1), q.threads));
}

// ---- output ----

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

// ---- names ----

struct Entry {
  std::string name, about;
  std::function<Shown(const std::string&)> make;
};
// The tiles of the kernels that gemm/gemm.cuh chooses from.
template <int Extent, int K>
void add_gemm_tiles(std::vector<Entry>& list, bool of_a) {
  const std::string size = text(Extent) + "x" + text(K), end = "." + size;
  const std::string about = ", " + size + ", 16-bit: byte and bank column of each chunk";
  if (of_a) {
    list.push_back({"gemm.a.k-major" + end, "GEMM tile of A (layouts nn, nt)" + about,
                    [](auto& n) { return show_gemm_tile<Extent, K, true>(n, "m"); }});
    list.push_back({"gemm.a.m-major" + end, "GEMM tile of A (tn, tt)" + about,
                    [](auto& n) { return show_gemm_tile<Extent, K, false>(n, "m"); }});
  }
  list.push_back({"gemm.b.k-major" + end, "GEMM tile of B (nt, tt)" + about,
                  [](auto& n) { return show_gemm_tile<Extent, K, true>(n, "n"); }});
  list.push_back({"gemm.b.n-major" + end, "GEMM tile of B (nn, tn)" + about,
                  [](auto& n) { return show_gemm_tile<Extent, K, false>(n, "n"); }});
}
template <int Count>
void add_ldmatrix(std::vector<Entry>& list) {
  const std::string name = "ldmatrix.x" + text(Count);
  list.push_back({name, "registers of ldmatrix", [](auto& n) { return show_ldmatrix<Count, false>(n); }});
  list.push_back(
      {name + ".trans", "registers of ldmatrix with .trans", [](auto& n) { return show_ldmatrix<Count, true>(n); }});
}
std::vector<Entry> entries() {
  const std::string pairs = "elements 2r and 2r + 1 share register r";
  std::vector<Entry> list = {
      {"mma.m16n8k16.a", "registers of operand A of mma.m16n8k16, 16-bit",
       [=](auto& n) {
         return show_ownership<MmaM16N8K16A>(n, "operand A of mma.m16n8k16, 16-bit elements", {"m", "k"}, "element",
                                             {pairs});
       }},
      {"mma.m16n8k16.b", "registers of operand B, 16-bit",
       [=](auto& n) {
         return show_ownership<MmaM16N8K16B>(n, "operand B of mma.m16n8k16, 16-bit elements", {"k", "n"}, "element",
                                             {pairs});
       }},
      {"mma.m16n8k16.c", "registers of the accumulators C and D, fp32",
       [](auto& n) {
         return show_ownership<MmaM16N8K16C>(n, "accumulators C and D of mma.m16n8k16, fp32", {"m", "n"}, "element",
                                             {"element r is register r"});
       }},
  };
  add_ldmatrix<1>(list), add_ldmatrix<2>(list), add_ldmatrix<4>(list);
  list.push_back({"swizzle.32B", "16-byte chunks of a swizzled row",
                  [](auto& n) { return show_swizzle<Swizzle32B<uint8_t>>(n, 32); }});
  list.push_back({"swizzle.64B", "16-byte chunks of a swizzled row",
                  [](auto& n) { return show_swizzle<Swizzle64B<uint8_t>>(n, 64); }});
  list.push_back({"swizzle.128B", "16-byte chunks of a swizzled row",
                  [](auto& n) { return show_swizzle<Swizzle128B<uint8_t>>(n, 128); }});
  add_gemm_tiles<64, 32>(list, true), add_gemm_tiles<128, 32>(list, true), add_gemm_tiles<128, 64>(list, true);
  add_gemm_tiles<256, 64>(list, false);
  return list;
}
constexpr const char* kCopyForm = "copy.RxC.TYPE[.tTHREADS]";

int refuse(const std::string& sentence) {
  std::cerr << sentence << "\n";
  return 2;
}

int run(int argc, const char* const* argv) {
  // The name is the first word that is neither an option nor an option's value.
  std::vector<const char*> rest;
  std::string name;
  bool value = false;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const bool option = word.starts_with("--");
    if (i == 0 || option || value || !name.empty())
      rest.push_back(argv[i]);
    else
      name = word;
    value = word == "--svg" || word == "--extents" || word == "--origin" || word == "--ld" || word == "--offset";
  }
  Args args(static_cast<int>(rest.size()), rest.data(),
            "show NAME: prints or draws a layout; without a name: lists them",
            {"text", "json", "realign", "zero-fill"});
  const bool as_text = args.flag("text", "a table (the default)"), as_json = args.flag("json", "one JSON object");
  const std::string svg = args.text("svg", "draw to this file", "");
  const bool copy_options = args.given("extents") || args.given("origin") || args.given("ld") || args.given("offset") ||
                            args.given("realign") || args.given("zero-fill");
  CopyRequest q;
  const bool is_copy = parse_copy(name, q);
  std::tie(q.extent_rows, q.extent_columns) =
      args.pair("extents", "of a copy's source (the tile's)", {q.rows, q.columns}, 0);
  std::tie(q.row, q.col) = args.pair("origin", "of the tile in the source, signed", {0, 0});
  q.ld = args.integer("ld", "pitch of the source, elements (its columns)", q.extent_columns);
  q.offset = args.integer("offset", "of the source's base from an aligned address, elements", 0);
  q.realign = args.flag("realign", "a copy that realigns misaligned vectors");
  q.zero_fill = args.flag("zero-fill", "a copy that reads partial vectors in one access");
  if (as_text + as_json + args.given("svg") > 1)
    args.refuse("--text, --json and --svg exclude one another: give one of them");
  if (copy_options && !is_copy)
    args.refuse("--extents, --origin, --ld, --offset, --realign and --zero-fill belong to copy plans (" +
                std::string(kCopyForm) + "), not to '" + name + "'");
  if (const auto code = args.finish()) return *code;

  const std::vector<Entry> list = entries();
  Shown shown;
  if (name.empty()) {
    for (const Entry& e : list) std::cout << e.name << std::string(24 - e.name.size(), ' ') << e.about << "\n";
    std::cout << kCopyForm
              << "\n                        what a copy makes of each vector; TYPE bf16, f16 or f32; options: show "
                 "--help, e.g.\n"
              << "                        show copy.64x32.bf16.t256 --extents 65,73 --origin 64,64\n";
    return 0;
  }
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Entry& e) { return e.name == name || e.name == name + ".128x64"; });
  if (found != list.end()) {
    shown = found->make(name);
  } else if (is_copy) {
    const int vector = q.type == ElementType::f32 ? 4 : 8;
    if (q.columns % vector != 0)
      return refuse(name + ": the tile's columns must be a multiple of the " + text(vector) +
                    " elements of a vector, not " + text(q.columns));
    if (int64_t{q.rows} * q.columns > (1 << 20) || q.threads > 1024)
      return refuse(name + ": tiles of at most 1048576 elements and 1024 threads can be shown");
    shown = q.type == ElementType::f32    ? show_copy_as<float>(name, q)
            : q.type == ElementType::bf16 ? show_copy_as<bf16>(name, q)
                                          : show_copy_as<f16>(name, q);
  } else {
    std::vector<std::string> names;
    for (const Entry& e : list) names.push_back(e.name);
    return refuse("unknown name '" + name + "': " + joined(names) + " and " + kCopyForm + " exist");
  }
  if (!svg.empty()) {
    std::ofstream file(svg);
    print_svg(file, shown);
    if (!file.flush()) return refuse("--svg " + svg + ": cannot be written");
  } else if (as_json) {
    print_json(std::cout, shown);
  } else {
    print_text(std::cout, shown);
  }
  return 0;
}

}  // namespace
}  // namespace grout

int main(int argc, char** argv) {
  return grout::run(argc, argv);
}
