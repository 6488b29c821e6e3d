// Where a tile lies in a matrix, for the seeded copies and stores: around each edge, and under strides, pitches and bases.
#pragma once
#include <algorithm>
#include <cstdint>

#include "common/copy.cuh"
#include "tests/kernels/gemm_cases.cuh"

namespace grout::test {

inline constexpr const char* kOriginKinds[] = {"inside",     "0",        "-1",        "-tile+1",  "-tile",   "-tile-1",
                                               "extent-1",   "extent",   "extent+1",  "both",     "inside, multiple of 8"};
inline constexpr int64_t kAlongStrides[] = {1, 2, 3, -1};

// A matrix in memory, and where in it a tile begins.
struct PlacedCase {
  size_t variant = 0;
  int64_t rows = 1, cols = 1, row_stride = 1, col_stride = 1;
  Origin origin{0, 0};
  int64_t offset = 0;  // of the matrix's lowest element from a 256-byte boundary
  int64_t pad = 0;
  int row_kind = 0, col_kind = 0, along_kind = 0;
  int schedule = 0;
  uint64_t seed = 1;

  Hull hull() const {
    return rows == 0 || cols == 0 ? Hull{} : hull_of({(rows - 1) * row_stride, (cols - 1) * col_stride});
  }
};
// Along one axis: where a tile begins in an extent, which may have to change for it. `some`: 0 to 7.
inline void place_tile(int kind, int64_t tile, int64_t extent, Deck& some, int64_t& extent_out, int64_t& origin) {
  if (kind == 0 || kind == 10) extent = tile + 8 + some.deal();
  if (kind == 9) extent = std::min(extent, tile - 3);
  const int64_t origins[] = {some.deal(), 0, -1, -tile + 1, -tile, -tile - 1, extent - 1, extent, extent + 1, -2, 8};
  extent_out = extent, origin = origins[kind];
}
inline void expect_place_factors(FactorCounts& f) {
  for (const char* axis : {"row origin", "column origin"})
    for (const char* kind : kOriginKinds) f.expect<const char*>(axis, {kind});
  f.expect<int64_t>("stride along", {1, 2, 3, -1});
  f.expect<int64_t>("pitch +", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  f.expect<int64_t>("offset", {0, 1, 2, 3, 4, 5, 6, 7});
}
inline void count_place_factors(FactorCounts& f, const PlacedCase& x) {
  f.count("row origin", kOriginKinds[x.row_kind]), f.count("column origin", kOriginKinds[x.col_kind]);
  f.count("stride along", kAlongStrides[x.along_kind]), f.count("pitch +", x.pad), f.count("offset", x.offset);
}

}  // namespace grout::test
