// Who holds which element of an instruction's operands; how the rows of what they hold are combined, and read back.
#include "common/ownership_algebra.cuh"

#include <algorithm>
#include <utility>

#include "common/show/show.h"

namespace grout::show {
namespace {

// A reduction plan of any ownership.
struct Plan {
  ReductionProblem problem;
  int warps[2];
  std::vector<std::vector<int>> slots;  // of each result
  std::vector<int> lane_bits, read;     // read: the result that each slot reads when it is broadcast
};
// An ownership as values.
struct Owned {
  std::string name, about, title, slot;
  Row coord, notes;
  int atom;  // slots that are drawn as one row
  int threads, slots;
  std::vector<int> shape;
  std::vector<int> (*at)(int thread, int slot);
  std::vector<Plan (*)()> plan;  // of each axis
  std::vector<int> (*as_operand_a)() = nullptr;
};

template <class O> std::vector<int> coordinate_at(int thread, int slot) {
  const auto c = O::at(thread, slot);
  return std::vector<int>(c.value, c.value + O::axes);
}
template <class O, int Axis> Plan plan_of() {
  static constexpr auto plan = reduction_plan<O, Axis>();
  Plan p{plan.problem, {plan.warps[0], plan.warps[1]}, {}, {}, {}};
  if constexpr (plan.problem == ReductionProblem::none) {
    for (int r = 0; r < plan.results; ++r) p.slots.emplace_back(plan.slot + plan.first[r], plan.slot + plan.first[r + 1]);
    p.lane_bits.assign(plan.lane_bit, plan.lane_bit + plan.lane_bits);
    constexpr auto map = slot_map<O, Reduced<O, Axis>>();
    p.read.assign(map.slot, map.slot + O::slots);
  }
  return p;
}
template <class A, class C> std::vector<int> map_of() {
  constexpr auto map = slot_map<A, C>();
  static_assert(map.exists);
  return std::vector<int>(map.slot, map.slot + A::slots);
}
template <class O>
Owned owned(const std::string& name, const std::string& about, const std::string& title, const std::string& slot, Row coord,
            Row notes, int atom) {
  Owned o{name, about, title, slot, coord, notes, atom, O::threads, O::slots, {}, coordinate_at<O>, {}};
  for (int axis = 0; axis < O::axes; ++axis) o.shape.push_back(O::shape[axis]);
  [&]<int... Axis>(std::integer_sequence<int, Axis...>) { (o.plan.push_back(plan_of<O, Axis>), ...); }
  (std::make_integer_sequence<int, O::axes>{});
  return o;
}

template <int Count, bool Transposed> Owned ldmatrix() {
  return owned<Ldmatrix<Count, Transposed>>(
      "ldmatrix.x" + text(Count) + (Transposed ? ".trans" : ""),
      std::string("registers of ldmatrix") + (Transposed ? " with .trans" : ""),
      "ldmatrix: " + text(Count) + (Count == 1 ? " matrix" : " matrices") + " of 8 x 8 16-bit elements" +
          (Transposed ? ", transposed" : ""),
      "half", {"matrix", "row", "col"},
      {"half 2r + h is half h of register r; lane 8i + r gives the shared address of row r of matrix i"}, 2);
}
template <int N> Owned wgmma() {
  Owned o = owned<WgmmaM64C<N>>("wgmma.m64n" + text(N) + ".c", "", "accumulator of wgmma.m64n" + text(N) + "k16, fp32", "element",
                                {"m", "n"}, {"element r is register r; thread = 32 warp + lane of the warpgroup"}, 4);
  if constexpr (N % 16 == 0) o.as_operand_a = map_of<WarpTiled<MmaM16N8K16A, 4, 1, 1, N / 16>, WgmmaM64C<N>>;
  return o;
}
template <int... I> void add_wgmma(std::vector<Owned>& all, std::integer_sequence<int, I...>) {
  (all.push_back(wgmma<8 * (I + 1)>()), ...);
}

const std::vector<Owned>& ownerships() {
  static const std::vector<Owned> all = [] {
    const std::string pairs = "elements 2r and 2r + 1 share register r";
    using Tile = WarpTiled<MmaM16N8K16C, 1, 1, 2, 8>;
    using TileA = WarpTiled<MmaM16N8K16A, 1, 1, 2, 4>;
    std::vector<Owned> list = {
        owned<MmaM16N8K16A>("mma.m16n8k16.a", "registers of operand A of mma.m16n8k16, 16-bit",
                            "operand A of mma.m16n8k16, 16-bit elements", "element", {"m", "k"}, {pairs}, 8),
        owned<MmaM16N8K16B>("mma.m16n8k16.b", "registers of operand B, 16-bit", "operand B of mma.m16n8k16, 16-bit elements",
                            "element", {"k", "n"}, {pairs}, 4),
        owned<MmaM16N8K16C>("mma.m16n8k16.c", "registers of the accumulators C and D, fp32",
                            "accumulators C and D of mma.m16n8k16, fp32", "element", {"m", "n"}, {"element r is register r"}, 4),
        ldmatrix<1, false>(), ldmatrix<1, true>(), ldmatrix<2, false>(), ldmatrix<2, true>(), ldmatrix<4, false>(),
        ldmatrix<4, true>(),
        owned<TileA>("tile.a.32x64", "operands A of a warp's tile, 2 x 4 atoms",
                     "operands A of a tile of one warp, 2 x 4 atoms of mma.m16n8k16, 16-bit elements", "element", {"m", "k"},
                     {pairs + "; atom i holds elements 8i to 8i + 7"}, 8),
        owned<Tile>("tile.c.32x64", "accumulators of a warp's tile, 2 x 8 atoms",
                    "accumulators of a tile of one warp, 2 x 8 atoms of mma.m16n8k16, fp32", "element", {"m", "n"},
                    {"element r is register r; atom i holds elements 4i to 4i + 3"}, 4),
        owned<WarpTiled<MmaM16N8K16C, 2, 2, 4, 8>>(
            "tile.c.128x128", "accumulators of a block's tile, 2 x 2 warps",
            "accumulators of a tile of 2 x 2 warps, 4 x 8 atoms of mma.m16n8k16 each, fp32", "element", {"m", "n"},
            {"element r is register r; atom i holds elements 4i to 4i + 3; warp w has patch (w / 2, w % 2)"}, 4),
        owned<WgmmaM64K16A>("wgmma.m64k16.a", "operand A of wgmma from registers, 16-bit",
                            "operand A of wgmma.m64nNk16 from registers, 16-bit elements", "element", {"m", "k"},
                            {pairs + "; thread = 32 warp + lane of the warpgroup"}, 8)};
    for (Owned& o : list)
      if (o.name == "tile.c.32x64") o.as_operand_a = map_of<TileA, Tile>;
    add_wgmma(list, std::make_integer_sequence<int, 32>{});
    return list;
  }();
  return all;
}
const Owned* find(const std::string& name) {
  const auto& all = ownerships();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Owned& o) { return o.name == name; });
  return found == all.end() ? nullptr : &*found;
}

// The tile as a grid in which each element names its thread and slot, then the table by thread. Three axes: one grid a matrix.
Shown show_ownership(const Owned& o) {
  const std::string who = o.threads == 32 ? "lane" : "thread";
  const size_t axes = o.shape.size(), first = axes - 2;
  const int rows = o.shape[first], columns = o.shape[first + 1], matrices = first == 0 ? 1 : o.shape[0];
  Shown shown{o.name, o.title, o.notes, {}, {who, o.slot}, o.coord, {}, ""};
  for (int matrix = 0; matrix < matrices; ++matrix) {
    Panel panel{(first == 0 ? "" : "matrix " + text(matrix) + ": ") + who + ":" + o.slot + " that holds it",
                o.coord[first] + " \\ " + o.coord[first + 1],
                numbers(columns),
                numbers(rows),
                {}};
    panel.cells.assign(static_cast<size_t>(rows), std::vector<Cell>(static_cast<size_t>(columns)));
    for (int thread = 0; thread < o.threads; ++thread) {
      for (int s = 0; s < o.slots; ++s) {
        const auto c = o.at(thread, s);
        if (first == 0 || c[0] == matrix)
          panel.cells[static_cast<size_t>(c[first])][static_cast<size_t>(c[first + 1])] = {text(thread) + ":" + text(s), thread,
                                                                                          o.threads};
      }
    }
    shown.panels.push_back(panel);
  }
  Panel lanes{"(" + joined(o.coord) + ") of each " + who + "'s " + o.slot + "s", who, numbers(o.slots), numbers(o.threads), {}};
  for (int thread = 0; thread < o.threads; ++thread) {
    shown.table.emplace_back();
    lanes.cells.emplace_back();
    for (int s = 0; s < o.slots; ++s) {
      Row entry;
      for (const int value : o.at(thread, s)) entry.push_back(text(value));
      lanes.cells.back().push_back({"(" + joined(entry, ",") + ")", thread, o.threads});
      shown.table.back().push_back(entry);
    }
  }
  shown.panels.push_back(lanes);
  return shown;
}

std::string problem_name(ReductionProblem problem) {
  constexpr const char* kNames[] = {"none", "outside", "slots_differ", "not_held", "spans_warps", "no_shuffle"};
  return kNames[static_cast<int>(problem)];
}
// Without a plan: why.
void explain(const Plan& plan, Shown& shown) {
  shown.json = ", \"problem\": " + quoted(problem_name(plan.problem)) + shown.json;
  if (plan.problem == ReductionProblem::spans_warps) {
    shown.notes.push_back("no plan: the values lie in several warps; warp " + text(plan.warps[0]) +
                          " needs one that warp " + text(plan.warps[1]) + " holds. Combine those of each warp, exchange the results "
                          "through shared memory");
    shown.json += ", \"warps\": [" + text(plan.warps[0]) + ", " + text(plan.warps[1]) + "]";
  } else if (plan.problem != ReductionProblem::none) {
    shown.notes.push_back("no plan: " + problem_name(plan.problem));
  }
}
Shown show_reduction(const std::string& name, const Owned& o, const Plan& plan, const std::string& axis) {
  Row bits, exchanges;
  for (const int bit : plan.lane_bits) bits.push_back(text(bit)), exchanges.push_back("lane ^ " + text(bit));
  size_t longest = 0;
  for (const auto& slots : plan.slots) longest = std::max(longest, slots.size());
  Shown shown{name,    "combining " + o.name + " along " + axis, {}, {}, {"result", "part"}, {o.slot},
              {},      ", \"lane_bits\": [" + joined(bits) + "]"};
  explain(plan, shown);
  if (plan.problem != ReductionProblem::none) return shown;
  shown.notes = {"first each thread combines the " + o.slot + "s of a result",
                 exchanges.empty() ? "lanes exchange nothing" : "then each lane combines its result with that of " +
                                                                    joined(exchanges, ", then of ") + " (shfl.bfly)",
                 "so every lane that held a value of a row or column has its result"};
  Panel panel{o.slot + "s that each slot of the result combines", "result \\ part", numbers(static_cast<int>(longest)),
              numbers(static_cast<int>(plan.slots.size())), {}};
  const auto results = static_cast<int>(plan.slots.size());
  for (int r = 0; r < results; ++r) {
    shown.table.emplace_back();
    panel.cells.emplace_back();
    for (const int slot : plan.slots[static_cast<size_t>(r)]) {
      shown.table.back().push_back({text(slot)});
      panel.cells.back().push_back({text(slot), r, results});
    }
  }
  shown.panels.push_back(panel);
  return shown;
}
// A number for each slot, atom by atom.
Shown show_slots(const std::string& name, const std::string& title, Row notes, const std::string& element, int atom,
                 const std::string& what, const std::vector<int>& number, int colors) {
  const int atoms = static_cast<int>(number.size()) / atom;
  Shown shown{name, title, std::move(notes), {}, {"atom", element}, {what}, {}, ""};
  Panel panel{what + " of each " + element, "atom \\ " + element, numbers(atom), numbers(atoms), {}};
  for (int i = 0; i < atoms; ++i) {
    shown.table.emplace_back();
    panel.cells.emplace_back();
    for (int j = 0; j < atom; ++j) {
      const int value = number[static_cast<size_t>(i * atom + j)];
      shown.table.back().push_back({text(value)});
      panel.cells.back().push_back({text(value), value, colors});
    }
  }
  shown.panels.push_back(panel);
  return shown;
}
Shown show_broadcast(const std::string& name, const Owned& o, const Plan& plan, const std::string& axis) {
  const std::string title = "what was combined along " + axis + ", read back by the " + o.slot + "s of " + o.name;
  if (plan.problem != ReductionProblem::none) {
    Shown shown{name, title, {}, {}, {"atom", o.slot}, {"result"}, {}, ""};
    explain(plan, shown);
    return shown;
  }
  Shown shown = show_slots(name, title, {"the slot of the result is the same in every thread; no lanes exchange anything"}, o.slot,
                           o.atom, "result", plan.read, static_cast<int>(plan.slots.size()));
  explain(plan, shown);
  return shown;
}

}  // namespace

std::vector<Entry> ownership_entries() {
  std::vector<Entry> list;
  for (const Owned& o : ownerships())
    if (!o.about.empty()) list.push_back({o.name, o.about, [&o](auto&) { return show_ownership(o); }});
  return list;
}

bool is_fragment_name(const std::string& name) {
  const std::string head = parts_of(name).empty() ? "" : parts_of(name)[0];
  return head == "reduction" || head == "broadcast" || head == "redistribute" || head == "wgmma";
}
Status show_fragment(const std::string& name, Shown& shown) {
  if (const Owned* o = find(name)) {
    shown = show_ownership(*o);
    return {};
  }
  const size_t dot = name.find('.'), last = name.rfind('.');
  const std::string head = name.substr(0, dot);
  if (head == "wgmma")
    return invalid(name + " is no operand of wgmma: " + kWgmmaForm + ", N a multiple of 8 from 8 to 256, and wgmma.m64k16.a are accepted");
  if (head == "redistribute") {
    const Owned* o = dot == std::string::npos ? nullptr : find(name.substr(dot + 1));
    if (!o || !o->as_operand_a)
      return invalid(name + ": no accumulator that becomes operand A; " + kRedistributeForm +
                     " is accepted, ACCUMULATOR tile.c.32x64 or wgmma.m64nN.c, N a multiple of 16");
    shown = show_slots(name, "accumulator " + o->name + " as operand A of the next product, in the same thread",
                       {"slot of the accumulator that each element of operand A is; elements 2r and 2r + 1 are packed in register r"},
                       "element", 8, "slot", o->as_operand_a(), o->slots);
    return {};
  }
  const Owned* o = dot == last ? nullptr : find(name.substr(dot + 1, last - dot - 1));
  const std::string form = head == "reduction" ? kReductionForm : kBroadcastForm, axis = name.substr(last + 1);
  if (!o)
    return invalid(name + ": " + form + " is accepted, OWNERSHIP mma.m16n8k16.a, b or c, ldmatrix.x1, x2 or x4, with .trans or "
                   "without, tile.a.32x64, tile.c.32x64, tile.c.128x128, wgmma.m64nN.c or wgmma.m64k16.a, AXIS the name of a coordinate of it");
  const auto found = std::find(o->coord.begin(), o->coord.end(), axis);
  if (found == o->coord.end()) return invalid(name + ": " + o->name + " has the axes " + joined(o->coord, " and "));
  const Plan plan = o->plan[static_cast<size_t>(found - o->coord.begin())]();
  shown = head == "reduction" ? show_reduction(name, *o, plan, axis) : show_broadcast(name, *o, plan, axis);
  return {};
}

}  // namespace grout::show
