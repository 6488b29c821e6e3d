// Where a swizzle moves chunks, where a GEMM's tile lies.
#include "common/layout.cuh"
#include "common/show/show.h"
#include "gemm/gemm_mma.cuh"

namespace grout::show {
namespace {

// ---- swizzles and shared tiles ----

template <class Swizzle>
Shown show_swizzle(const std::string& name, int span) {
  const int chunks = span / 16;
  Shown shown{name,
              "swizzle of " + text(span) + " bytes: where the 16-byte chunks of 8 rows of " + text(span) + " bytes lie",
              swizzle_picture(span),
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
      "GEMM operand tile " + mn + " x k = " + text(Extent) + " x " + text(kK) + ", 16-bit elements, contiguous along " +
          along,
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

// ---- names ----

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
}  // namespace

std::vector<std::string> swizzle_picture(int span) {
  const int bits = detail::log2_exact(static_cast<size_t>(span / 16));
  std::string y, x;
  for (int i = 0; i < 3; ++i) y += i < 3 - bits ? ". " : "y ", x += i < 3 - bits ? ". " : "x ";
  return {"bit of the byte address   9 8 7   6 5 4   3 2 1 0",
          "                          " + y + "  " + x + "  m m m m",
          "the bits x (chunk) become x XOR y (number of the 128-byte line); the pattern starts at a multiple of " +
              text(8 * span) + " bytes"};
}

std::vector<Entry> layout_entries() {
  std::vector<Entry> list;
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

}  // namespace grout::show
