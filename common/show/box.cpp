// Where a tensor copy puts the 16-byte chunks of a box in shared memory, and what reading them costs.
#include <algorithm>
#include <map>
#include <set>

#include "common/layout.cuh"
#include "common/show/show.h"

namespace grout::show {
namespace {

int swizzled(TensorSwizzle swizzle, int byte) {
  switch (swizzle) {
    case TensorSwizzle::none:
      return byte;
    case TensorSwizzle::b32:
      return Swizzle32B<uint8_t>{}(byte);
    case TensorSwizzle::b64:
      return Swizzle64B<uint8_t>{}(byte);
    default:
      return Swizzle128B<uint8_t>{}(byte);
  }
}

// How often shared memory is read for one chunk of each of 8 successive rows, at worst: the most different lines of 128
// bytes in one bank column.
int worst_conflict(int rows, int chunks, TensorSwizzle swizzle) {
  size_t worst = 0;
  for (int first = 0; first == 0 || first + 8 <= rows; ++first) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      std::map<int, std::set<int>> lines;
      for (int row = first; row < std::min(first + 8, rows); ++row) {
        const int byte = swizzled(swizzle, (row * chunks + chunk) * 16);
        lines[byte / 16 % 8].insert(byte / 128);
      }
      for (const auto& [column, in_column] : lines) worst = std::max(worst, in_column.size());
    }
  }
  return static_cast<int>(worst);
}

}  // namespace

bool parse_box(const std::string& name, BoxRequest& q) {
  const std::vector<std::string> parts = parts_of(name);
  if (parts.size() != 4 || parts[0] != "box" || !parse_extents(parts[1], q.rows, q.columns) ||
      !parse_type(parts[2], q.type))
    return false;
  for (const TensorSwizzle known : {TensorSwizzle::none, TensorSwizzle::b32, TensorSwizzle::b64, TensorSwizzle::b128}) {
    if (parts[3] == swizzle_name(known)) {
      q.swizzle = known;
      return true;
    }
  }
  return false;
}

Status show_box(const std::string& name, const BoxRequest& q, Shown& shown) {
  const auto row_bytes = q.columns * static_cast<int64_t>(element_bytes(q.type));
  TensorMapArguments map;  // of a matrix of the box's own extents, at an address that is never read
  map.type = q.type;
  map.base = reinterpret_cast<const void*>(uintptr_t{1} << 40);
  map.extents[0] = map.box[0] = q.columns;
  map.extents[1] = map.box[1] = q.rows;
  map.pitches[1] = (row_bytes + 15) / 16 * 16;
  map.swizzle = q.swizzle;
  if (Status status = check_tensor_map(map); !status) return status;

  const int chunks = static_cast<int>(row_bytes / 16), bytes = static_cast<int>(row_bytes) * q.rows;
  const int ways = worst_conflict(q.rows, chunks, q.swizzle),
            unswizzled = worst_conflict(q.rows, chunks, TensorSwizzle::none);
  const int lines = (bytes + 127) / 128, shown_lines = std::min(lines, 32);
  Panel where{"bank column @ byte of each chunk", "row \\ chunk", numbers(chunks), numbers(q.rows), {}};
  Panel memory{"chunk (row, chunk) in each 16-byte bank column of the 128-byte lines" +
                   (lines > shown_lines ? ", first " + text(shown_lines) + " lines" : ""),
               "line \\ column",
               numbers(8),
               numbers(shown_lines),
               {}};
  memory.cells.assign(static_cast<size_t>(shown_lines), std::vector<Cell>(8));
  std::vector<std::vector<Row>> table;
  for (int row = 0; row < q.rows; ++row) {
    table.emplace_back();
    where.cells.emplace_back();
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int byte = swizzled(q.swizzle, (row * chunks + chunk) * 16), line = byte / 128, column = byte / 16 % 8;
      table.back().push_back({text(line), text(column), text(byte)});
      where.cells.back().push_back({text(column) + " @ " + text(byte), chunk, chunks});
      if (line < shown_lines) memory.cells[line][column] = {"(" + text(row) + "," + text(chunk) + ")", chunk, chunks};
    }
  }

  std::vector<std::string> notes;
  if (q.swizzle == TensorSwizzle::none)
    notes = {"no bits move: rows of " + text(row_bytes) +
             " bytes, one behind the other; the box starts at a multiple of " + text(tensor_box_alignment(q.swizzle)) +
             " bytes"};
  else
    notes = swizzle_picture(swizzle_span(q.swizzle));
  notes.push_back("worst bank conflict of reading one chunk of each of " + text(std::min(q.rows, 8)) +
                  " successive rows: " + text(ways) + (ways == 1 ? " way" : " ways") +
                  (q.swizzle == TensorSwizzle::none ? "" : "; without the swizzle " + text(unswizzled)));
  shown = {name,
           "box of " + text(q.rows) + " rows x " + text(q.columns) + " columns of " + element_name(q.type) + ", " +
               text(bytes) + " bytes, swizzle " + swizzle_name(q.swizzle) +
               ": where a tensor copy puts its 16-byte chunks",
           notes,
           {where, memory},
           {"row", "chunk"},
           {"line", "bank column", "byte"},
           table,
           ", \"box\": [" + text(q.rows) + ", " + text(q.columns) + "], \"type\": " + quoted(element_name(q.type)) +
               ", \"swizzle\": " + quoted(swizzle_name(q.swizzle)) + ", \"bytes\": " + text(bytes) +
               ", \"alignment\": " + text(tensor_box_alignment(q.swizzle)) +
               ", \"ways\": " + text(ways) + ", \"ways_unswizzled\": " + text(unswizzled)};
  return {};
}

}  // namespace grout::show
