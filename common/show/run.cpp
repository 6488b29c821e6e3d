// The command line of the show tool.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <tuple>

#include "common/args.h"
#include "common/show/show.h"

namespace grout::show {
namespace {

int refuse(const std::string& sentence) {
  std::cerr << sentence << "\n";
  return 2;
}

}  // namespace

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
    value = word == "--svg" || word == "--extents" || word == "--origin" || word == "--ld" || word == "--offset" ||
            word == "--iterations";
  }
  Args args(static_cast<int>(rest.size()), rest.data(),
            "show NAME: prints or draws a layout; without a name: lists them",
            {"text", "json", "realign", "zero-fill"});
  const bool as_text = args.flag("text", "a table (the default)"), as_json = args.flag("json", "one JSON object");
  const std::string svg = args.text("svg", "draw to this file", "");
  const bool copy_options = args.given("extents") || args.given("origin") || args.given("ld") || args.given("offset") ||
                            args.given("realign") || args.given("zero-fill");
  CopyRequest q;
  BoxRequest box;
  int stages = 0;
  const bool is_copy = parse_copy(name, q), is_ring = parse_ring(name, stages), is_box = parse_box(name, box);
  std::tie(q.extent_rows, q.extent_columns) =
      args.pair("extents", "of a copy's source (the tile's)", {q.rows, q.columns}, 0);
  std::tie(q.row, q.col) = args.pair("origin", "of the tile in the source, signed", {0, 0});
  q.ld = args.integer("ld", "pitch of the source, elements (its columns)", q.extent_columns);
  q.offset = args.integer("offset", "of the source's base from an aligned address, elements", 0);
  q.realign = args.flag("realign", "a copy that realigns misaligned vectors");
  q.zero_fill = args.flag("zero-fill", "a copy that reads partial vectors in one access");
  const auto iterations = static_cast<int>(
      args.integer("iterations", "of a ring (two rounds and one)", 2 * std::min(stages, kRingStages) + 1, 1, 4096));
  if (as_text + as_json + args.given("svg") > 1)
    args.refuse("--text, --json and --svg exclude one another: give one of them");
  if (copy_options && !is_copy)
    args.refuse("--extents, --origin, --ld, --offset, --realign and --zero-fill belong to copy plans (" +
                std::string(kCopyForm) + "), not to '" + name + "'");
  if (args.given("iterations") && !is_ring)
    args.refuse("--iterations belongs to rings (" + std::string(kRingForm) + "), not to '" + name + "'");
  if (const auto code = args.finish()) return *code;

  std::vector<Entry> list = ownership_entries();
  for (Entry& e : layout_entries()) list.push_back(std::move(e));
  Shown shown;
  if (name.empty()) {
    for (const Entry& e : list) std::cout << e.name << std::string(24 - e.name.size(), ' ') << e.about << "\n";
    std::cout << kWgmmaForm << "           registers of the accumulators of wgmma, fp32; N 8, 16, .. 256\n"
              << kReductionForm << "  slots and lanes that are combined along an axis, e.g.\n"
              << "                        show reduction.mma.m16n8k16.c.n\n"
              << kBroadcastForm << "  the result that each slot reads back, e.g.\n"
              << "                        show broadcast.wgmma.m64n64.c.n\n"
              << kRedistributeForm << "  the slots of an accumulator that are operand A of the next product, e.g.\n"
              << "                        show redistribute.tile.c.32x64\n";
    std::cout << kCopyForm
              << "\n                        what a copy makes of each vector; TYPE bf16, f16 or f32; options: show "
                 "--help, e.g.\n"
              << "                        show copy.64x32.bf16.t256 --extents 65,73 --origin 64,64\n"
              << kRingForm << "             phases of the full and empty barriers of a ring; STAGES 1 to "
              << kRingStages << ", e.g.\n"
              << "                        show ring.3 --iterations 7\n"
              << kBoxForm << "    where a tensor copy puts each chunk of a box; SWIZZLE none, 32B, 64B or 128B, e.g.\n"
              << "                        show box.8x64.bf16.128B\n";
    return 0;
  }
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Entry& e) { return e.name == name || e.name == name + ".128x64"; });
  if (found != list.end()) {
    shown = found->make(name);
  } else if (is_fragment_name(name)) {
    if (const Status status = show_fragment(name, shown); !status) return refuse(status.message);
  } else if (is_copy) {
    const int vector = q.type == ElementType::f32 ? 4 : 8;
    if (q.columns % vector != 0)
      return refuse(name + ": the tile's columns must be a multiple of the " + text(vector) +
                    " elements of a vector, not " + text(q.columns));
    if (int64_t{q.rows} * q.columns > (1 << 20) || q.threads > 1024)
      return refuse(name + ": tiles of at most 1048576 elements and 1024 threads can be shown");
    shown = show_copy_plan(name, q);
  } else if (is_ring) {
    if (stages > kRingStages) return refuse(name + ": rings of 1 to " + text(kRingStages) + " stages can be shown");
    shown = show_ring(name, stages, iterations);
  } else if (is_box) {
    if (const Status status = show_box(name, box, shown); !status) return refuse(name + ": " + status.message);
  } else if (name.starts_with("copy.")) {
    return refuse(name + " is no copy plan: " + kCopyForm +
                  " is accepted, R, C and THREADS 1 or more, TYPE bf16, f16 or f32");
  } else if (name.starts_with("ring.")) {
    return refuse(name + " is no ring: " + kRingForm + " is accepted, STAGES 1 to " + text(kRingStages));
  } else if (name.starts_with("box.")) {
    return refuse(name + " is no box: " + kBoxForm +
                  " is accepted, R and C 1 to 256, TYPE bf16, f16 or f32, SWIZZLE none, 32B, 64B or 128B");
  } else {
    std::vector<std::string> names;
    for (const Entry& e : list) names.push_back(e.name);
    return refuse("unknown name '" + name + "': " + joined(names) + ", " + kWgmmaForm + ", " + kReductionForm + ", " +
                  kBroadcastForm + ", " + kRedistributeForm + ", " + kCopyForm + ", " + kRingForm + " and " + kBoxForm + " exist");
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

}  // namespace grout::show
