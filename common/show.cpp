// show NAME [--text | --json | --svg FILE]: prints or draws what an instruction's registers, a swizzle, a shared tile or
// a copy plan hold. Everything comes from the tables and functions that the kernels use; no GPU, no CUDA.
//
// --json: {"name", "index": [axis names], "coord": [names], "table": [[[..], ..], ..]}: table[i][j] is the coordinate at
// index (i, j), always a list. Copy plans add "tile", "type", "threads", "extents", "origin", "ld", "offset", "realign",
// "zero_fill" and "totals", of vectors: "async", "realign", "elements", "zeros"; of elements: "scalar_loads",
// "zero_elements". Their table[i][j] is the vector of thread i in turn j: its place in the tile, its case, and the valid
// elements first <= e < last.
#include "common/show/show.h"

int main(int argc, char** argv) {
  return grout::show::run(argc, argv);
}
