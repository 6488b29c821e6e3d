// What the GEMM kernels share: the names of their paths, and the order in which tiles of D are walked.
#pragma once
#include <cstdint>

#include "common/ptx.cuh"

namespace grout {

// How operands come in. aligned, bounded: 16-byte vectors, without and with edges. realign: misaligned vectors are shifted
// into place by the kernel. repack: misaligned operands are copied first (common/repack.cuh), then as aligned or bounded.
enum class GemmPath { aligned, bounded, realign, repack };

// Coordinates of tile `index`: bands of 16 tile rows, walked column by column, so that the blocks that run together share
// A and B tiles in L2.
struct GemmTileIndex {
  int64_t batch;
  int m, n;
};
GROUT_HD GemmTileIndex gemm_tile_index(int64_t index, int64_t tiles_m, int64_t tiles_n) {
  constexpr int64_t kBand = 16;
  const int64_t batch = index / (tiles_m * tiles_n);
  index -= batch * (tiles_m * tiles_n);
  const int64_t band = index / (kBand * tiles_n), first = band * kBand;
  const int64_t height = tiles_m - first < kBand ? tiles_m - first : kBand;
  index -= band * kBand * tiles_n;
  return {batch, static_cast<int>(first + index % height), static_cast<int>(index / height)};
}

}  // namespace grout
