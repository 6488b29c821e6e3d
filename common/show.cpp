// show NAME [--text | --json | --svg FILE]: prints or draws what an instruction's registers, a swizzle, a shared tile, a
// copy plan, a ring's barriers or a tensor map's box hold. Everything comes from the tables and functions that the kernels
// use; no GPU, no CUDA. The parts are in common/show.
//
// --json: {"name", "index": [axis names], "coord": [names], "table": [[[..], ..], ..]}: table[i][j] is the coordinate at
// index (i, j), always a list.
//   copy plans  add "tile", "type", "threads", "extents", "origin", "ld", "offset", "realign", "zero_fill" and "totals", of
//               vectors: "async", "realign", "elements", "zeros"; of elements: "scalar_loads", "zero_elements". Their
//               table[i][j] is the vector of thread i in turn j: its place in the tile, its case, and the valid elements
//               first <= e < last.
//   rings       add "stages" and "iterations". table[i][0] is the producer's wait for the empty barrier in iteration i,
//               table[i][1] the consumer's for the full one: stage, parity, the barrier's phase when first asked and when
//               the wait passes, whether it passes at once, and if not, the iteration whose release or fill it waits for
//               (-1: none).
//   boxes       add "box": [rows, columns], "type", "swizzle", "bytes", "alignment" of its start, "ways": how often shared
//               memory is read for one chunk of each of 8 successive rows, at worst, and "ways_unswizzled". table[i][j] is
//               where chunk j (16 bytes) of row i lies: line of 128 bytes, bank column, byte.
#include "common/show/show.h"

int main(int argc, char** argv) {
  return grout::show::run(argc, argv);
}
