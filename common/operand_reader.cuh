// Reading operand tiles in shared memory as fragments of mma.m16n8k16, by ldmatrix at few addresses.
#pragma once
#include "common/layout.cuh"
#include "common/ptx.cuh"

namespace grout {

// Reads 16 x 16 pieces (m or n, k) of an operand tile with coordinates (m or n, k). LayoutT: its static, swizzled layout, contiguous along
// k (KMajor) or along m (n). Patch: rows of m (n) that one warp reads, from `first` on.
// A lane keeps one address: its own row in the first piece. Along the contiguous axis the next piece is 32 bytes on, which the
// swizzle turns into an XOR of the address; along the other one the step is a constant. The tile's shared address must be a multiple
// of what the XOR reaches: of a row's bytes, or of 128.
template <class T, class LayoutT, bool KMajor, bool IsA, int Patch> struct OperandReader {
  static constexpr int extent = static_cast<int>(LayoutT{}.template extent<0>()), k = static_cast<int>(LayoutT{}.template extent<1>());

  // Bytes from the tile's base to the row that `lane` addresses, in piece `piece` of the patch from `first`, k step `step`.
  // Lane 8 i + r addresses row r of matrix i. A: matrices run over m, then k; B: over k, then n (two n8 atoms).
  static constexpr uint32_t offset(int lane, int first, int piece, int step) {
    const int matrix = lane / 8, r = lane % 8;
    const int mn = first + 16 * piece + 8 * (IsA ? matrix % 2 : matrix / 2), kk = 16 * step + 8 * (IsA ? matrix / 2 : matrix % 2);
    return static_cast<uint32_t>(LayoutT{}(mn + (KMajor ? r : 0), kk + (KMajor ? 0 : r)) * sizeof(T));
  }
  static constexpr uint32_t xor_of(int piece, int step) { return 32u * static_cast<uint32_t>(KMajor ? step : piece); }
  static constexpr uint32_t plus_of(int piece, int step) {
    return static_cast<uint32_t>((KMajor ? piece * 16 * k : step * 16 * extent) * sizeof(T));
  }
  static_assert(
      [] {
        for (int lane = 0; lane < 32; ++lane)
          for (int first = 0; first < extent; first += Patch)
            for (int piece = 0; piece < Patch / 16; ++piece)
              for (int step = 0; step < k / 16; ++step)
                if (offset(lane, first, piece, step) != (offset(lane, first, 0, 0) ^ xor_of(piece, step)) + plus_of(piece, step))
                  return false;
        return true;
      }(),
      "operand tile: the swizzle must turn steps along the contiguous axis into an XOR");

  uint32_t lane_offset;
  GROUT_DEVICE OperandReader(int first, int lane) : lane_offset(offset(lane, first, 0, 0)) {}

  // Address of the row that this lane gives to ldmatrix; `tile` is the shared address of the operand's tile. Two forms of the same
  // sum: each keeps few addresses alive, and steps that fold into the instruction.
  GROUT_DEVICE uint32_t row(uint32_t tile, int piece, int step) const {
    const uint32_t first = tile + lane_offset;
    return KMajor ? (first ^ xor_of(piece, step)) + plus_of(piece, step) : (first + plus_of(piece, step)) ^ xor_of(piece, step);
  }
  // Piece `piece` at k step `step`. Warp.
  GROUT_DEVICE void load(uint32_t (&r)[4], uint32_t tile, int piece, int step) const {
    if constexpr (KMajor) ptx::ldmatrix_x4(r, row(tile, piece, step));
    else ptx::ldmatrix_x4_trans(r, row(tile, piece, step));
  }
};

}  // namespace grout
