// What a copy makes of each vector of a tile.
#include <map>

#include "common/copy.cuh"
#include "common/show/show.h"

namespace grout::show {
namespace {

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

}  // namespace

bool parse_copy(const std::string& name, CopyRequest& q) {
  const std::vector<std::string> parts = parts_of(name);
  if (parts.size() < 3 || parts.size() > 4 || parts[0] != "copy") return false;
  return parse_extents(parts[1], q.rows, q.columns) && parse_type(parts[2], q.type) &&
         (parts.size() == 3 || (parts[3][0] == 't' && parse_number(parts[3].substr(1), q.threads)));
}
Shown show_copy_plan(const std::string& name, const CopyRequest& q) {
  return q.type == ElementType::f32    ? show_copy_as<float>(name, q)
         : q.type == ElementType::bf16 ? show_copy_as<bf16>(name, q)
                                       : show_copy_as<f16>(name, q);
}

}  // namespace grout::show
