// What the GEMM kernels share: the names of their paths, and the order in which tiles of D are walked.
#pragma once
#include <cstdint>

#include "common/ptx.cuh"

namespace grout {

// How operands come in. aligned, bounded: 16-byte vectors, without and with edges. realign: misaligned vectors are shifted
// into place by the kernel. repack: misaligned operands are copied first (common/repack.cuh), then as aligned or bounded.
enum class GemmPath { aligned, bounded, realign, repack };

inline constexpr int64_t kGemmTileBand = 16;

// Coordinates of tile `index`: bands of 16 tile rows, walked column by column, so that the blocks that run together share
// A and B tiles in L2.
struct GemmTileIndex {
  int64_t batch;
  int m, n;
};
GROUT_HD GemmTileIndex gemm_tile_index(int64_t index, int64_t tiles_m, int64_t tiles_n) {
  constexpr int64_t kBand = kGemmTileBand;
  const int64_t batch = index / (tiles_m * tiles_n);
  index -= batch * (tiles_m * tiles_n);
  const int64_t band = index / (kBand * tiles_n), first = band * kBand;
  const int64_t height = tiles_m - first < kBand ? tiles_m - first : kBand;
  index -= band * kBand * tiles_n;
  return {batch, static_cast<int>(first + index % height), static_cast<int>(index / height)};
}

// Division of numbers below 2^31 by a number that the host knows: a multiplication and a shift, where the device would take
// a hundred cycles.
struct KnownDivisor {
  uint32_t divisor = 1, factor = 1, shift = 0;
  KnownDivisor() = default;
  explicit KnownDivisor(uint32_t by) : divisor(by) {  // 1 .. 2^31
    while ((uint64_t{1} << shift) < by) ++shift;
    factor = static_cast<uint32_t>((((uint64_t{1} << shift) - by) << 32) / by + 1);
  }
  GROUT_HD uint32_t quotient(uint32_t value) const {
    return (static_cast<uint32_t>((uint64_t{value} * factor) >> 32) + value) >> shift;
  }
};

// The order of gemm_tile_index, prepared by the host: a kernel that ends after a few microseconds begins with it.
struct GemmTileOrder {
  int64_t tiles_m = 0, tiles_n = 0, tiles = 0;
  bool few = false;  // 32 bits count them
  KnownDivisor matrix, band, height, last_height;

  GemmTileOrder(int64_t m, int64_t n, int64_t batch, int64_t tile_m, int64_t tile_n)
      : tiles_m((m + tile_m - 1) / tile_m), tiles_n((n + tile_n - 1) / tile_n), tiles(tiles_m * tiles_n * batch),
        few(tiles <= INT32_MAX / kGemmTileBand) {
    if (!few) return;
    matrix = KnownDivisor(static_cast<uint32_t>(tiles_m * tiles_n));
    band = KnownDivisor(static_cast<uint32_t>(kGemmTileBand * tiles_n));
    height = KnownDivisor(static_cast<uint32_t>(kGemmTileBand));
    last_height = KnownDivisor(static_cast<uint32_t>(tiles_m % kGemmTileBand == 0 ? kGemmTileBand : tiles_m % kGemmTileBand));
  }
  GROUT_HD GemmTileIndex at(int64_t index) const {
    if (!few) return gemm_tile_index(index, tiles_m, tiles_n);
    auto left = static_cast<uint32_t>(index);
    const uint32_t batch_index = matrix.quotient(left);
    left -= batch_index * matrix.divisor;
    const uint32_t band_index = band.quotient(left), first = band_index * static_cast<uint32_t>(kGemmTileBand);
    left -= band_index * band.divisor;
    const bool last = first + kGemmTileBand > tiles_m;
    const uint32_t n = last ? last_height.quotient(left) : height.quotient(left);
    return {batch_index, static_cast<int>(first + left - n * (last ? last_height.divisor : height.divisor)), static_cast<int>(n)};
  }
};

}  // namespace grout
