// show NAME [--text | --json | --svg FILE]: prints or draws what an instruction's registers, a swizzle, a shared tile, a copy
// plan, a tensor map's box or a ring's barriers hold. Everything comes from the tables and functions that the kernels use; no
// GPU, no CUDA. The parts are in common/show.
//
// --json: {"name", "index": [axis names], "coord": [names], "table": [[[..], ..], ..]}: table[i][j] is the coordinate at
// index (i, j), always a list.
//   copy plans  add "tile", "type", "threads", "extents", "origin", "ld", "offset", "realign", "zero_fill" and "totals", of
//               vectors: "async", "realign", "elements", "zeros"; of elements: "scalar_loads", "zero_elements". Their
//               table[i][j] is the vector of thread i in turn j: its place in the tile, its case, and the valid elements
//               first <= e < last.
//   rings       add "stages" and "iterations". table[i][0] is the producer's wait for the empty barrier in iteration i,
//               table[i][1] the consumer's for the full one: stage, parity, the barrier's phase when it is first asked and when
//               it lets the thread through, whether it passes at once, else the iteration whose release (fill) it waits for (-1).
//   boxes       add "box": [rows, columns], "type", "swizzle", "bytes", "alignment" of its start, and "ways": how often shared
//               memory is read for one chunk of each of 8 successive rows, at worst; "ways_unswizzled": without the swizzle.
//               table[i][j] is where chunk j (16 bytes) of row i lies: 128-byte line, bank column, byte.
#include "common/show/show.h"

int main(int argc, char** argv) {
  return grout::show::run(argc, argv);
}
