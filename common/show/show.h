// The parts of the show tool: what is shown, who makes it, who prints it.
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "common/tensor_map.cuh"

namespace grout::show {

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

inline std::string text(int64_t value) {
  return std::to_string(value);
}
inline std::string quoted(const std::string& s) {
  return "\"" + s + "\"";
}
inline Row numbers(int count, int step = 1, const std::string& before = "") {
  Row row;
  for (int i = 0; i < count; ++i) row.push_back(before + text(int64_t{i} * step));
  return row;
}
inline std::string joined(const std::vector<std::string>& items, const std::string& with = ", ") {
  std::string all;
  for (const auto& item : items) all += (all.empty() ? "" : with) + item;
  return all;
}

// ---- names.cpp ----

// "copy.64x32.bf16": {"copy", "64x32", "bf16"}.
std::vector<std::string> parts_of(const std::string& name);
// Read a part of a name; false if it is none. Numbers are positive.
bool parse_number(const std::string& part, int& value);
bool parse_extents(const std::string& part, int& rows, int& columns);  // RxC
bool parse_type(const std::string& part, ElementType& type);

// ---- print.cpp ----

void print_text(std::ostream& out, const Shown& shown);
void print_json(std::ostream& out, const Shown& shown);
void print_svg(std::ostream& out, const Shown& shown);

struct Entry {
  std::string name, about;
  std::function<Shown(const std::string&)> make;
};

// ---- ownerships.cpp ----

// Those that are listed one by one.
std::vector<Entry> ownership_entries();

inline constexpr const char* kWgmmaForm = "wgmma.m64nN.c";
inline constexpr const char* kReductionForm = "reduction.OWNERSHIP.AXIS";
inline constexpr const char* kBroadcastForm = "broadcast.OWNERSHIP.AXIS";
inline constexpr const char* kRedistributeForm = "redistribute.ACCUMULATOR";
// Does the name begin as one of these forms?
bool is_fragment_name(const std::string& name);
Status show_fragment(const std::string& name, Shown& shown);

// ---- layouts.cpp ----

// Swizzles, shared tiles.
std::vector<Entry> layout_entries();
// The bits of a byte address and which of them a swizzle of this span (32, 64 or 128 bytes) XORs.
std::vector<std::string> swizzle_picture(int span);

// ---- copy_plan.cpp ----

inline constexpr const char* kCopyForm = "copy.RxC.TYPE[.tTHREADS]";
struct CopyRequest {
  int rows = 0, columns = 0, threads = 256;
  ElementType type = ElementType::bf16;
  int64_t extent_rows = 0, extent_columns = 0, row = 0, col = 0, ld = 0, offset = 0;
  bool realign = false, zero_fill = false;
};
// Reads a name of that form; false if `name` is none.
bool parse_copy(const std::string& name, CopyRequest& q);
Shown show_copy_plan(const std::string& name, const CopyRequest& q);

// ---- ring.cpp ----

inline constexpr const char* kRingForm = "ring.STAGES";
inline constexpr int kRingStages = 16;  // the most that are shown
bool parse_ring(const std::string& name, int& stages);
Shown show_ring(const std::string& name, int stages, int iterations);

// ---- box.cpp ----

inline constexpr const char* kBoxForm = "box.RxC.TYPE.SWIZZLE";
struct BoxRequest {
  int rows = 0, columns = 0;
  ElementType type = ElementType::bf16;
  TensorSwizzle swizzle = TensorSwizzle::none;
};
bool parse_box(const std::string& name, BoxRequest& q);
// Refuses what no tensor map can have.
Status show_box(const std::string& name, const BoxRequest& q, Shown& shown);

// ---- run.cpp ----

// The program: its exit code.
int run(int argc, const char* const* argv);

}  // namespace grout::show
