// The cases of the sweep over small crops and repacks (copy_sweep.cuh). They are numbered; a number says everything about
// its case.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>

#include "common/copy.cuh"

namespace grout::test {

// ---- the numbers of a case ----------------------------------------------------------------------------------------

constexpr uint64_t sweep_mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Takes an index apart, factor by factor: every combination of the factors taken occurs.
class SweepDigits {
 public:
  explicit SweepDigits(int64_t index) : rest_(index) {}
  int take(int values) {
    const auto digit = static_cast<int>(rest_ % values);
    rest_ /= values;
    return digit;
  }
  template <class T, size_t N> T take(const T (&values)[N]) { return values[take(static_cast<int>(N))]; }

 private:
  int64_t rest_;
};

// The factors that are left to chance, by the index.
class SweepDice {
 public:
  explicit SweepDice(int64_t index) : state_(static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u + 1) {}
  int roll(int values) {
    state_ += 0x9e3779b97f4a7c15u;
    return static_cast<int>((sweep_mix(state_) >> 32) * static_cast<uint64_t>(values) >> 32);
  }
  template <class T, size_t N> T roll(const T (&values)[N]) { return values[roll(static_cast<int>(N))]; }

 private:
  uint64_t state_;
};

// ---- crops --------------------------------------------------------------------------------------------------------

// Offsets in elements: of the first valid one, and of the destination, from multiples of 256 bytes. `size`: bytes of an element.
struct SweepCrop {
  int size = 2;
  int64_t source_rows = 0, source_cols = 0, row_stride = 0, col_stride = 1;
  Origin origin{0, 0};
  int64_t rows = 0, cols = 0, ld = 0;
  int source_offset = 0, offset = 0;
};

inline constexpr int kCropEdgeRows[] = {0, 1, 2, 40, 63, 64, 65, 127, 128, 129, 31};
inline constexpr int kCropEdgeCols[] = {1,  31, 32,  33,  40, 63,
                                        64, 65, 127, 128, 129};  // a tile has 64 columns of 2 bytes, or 32
inline constexpr int kCropLongCols[] = {255,  256,  257,  511,  512,  513,  519,  1009,
                                        1016, 1023, 1024, 1025, 1026, 2047, 2048, 2049};
inline constexpr int kCropOrigins = 15;  // of an axis: see sweep_crop_origin
inline constexpr int64_t kCropAlignments = 2 * 41 * 9 * 9 * 10 * 10;                      // size, columns, offsets, pitches
inline constexpr int64_t kCropEdges = 2 * 11 * 11 * kCropOrigins * kCropOrigins * 7;      // size, extents, origins, repeated
inline constexpr int64_t kCropLong = 2 * 16 * 9 * 9 * 10 * 2;  // size, columns, offsets, pitch, repeated
inline constexpr int64_t kCropCases = kCropAlignments + kCropEdges + kCropLong;

// Origins of an axis: around a tile before the source and around its end, on both sides of a short source, and far away.
inline int64_t sweep_crop_origin(int which, int64_t tile, int64_t extent, int64_t rectangle) {
  const int64_t origins[kCropOrigins] = {0,
                                         1,
                                         -1,
                                         -tile + 1,
                                         -tile,
                                         -tile - 1,
                                         extent - 1,
                                         extent,
                                         extent + 1,
                                         -2,
                                         tile,
                                         extent - tile,
                                         -rectangle,
                                         int64_t{1} << 40,
                                         -(int64_t{1} << 32) - 1};
  return origins[which];
}

inline SweepCrop sweep_crop(int64_t index) {
  SweepCrop x;
  SweepDice dice(index);
  int pad = 0, pad_out = 0;
  if (index < kCropAlignments) {
    SweepDigits digits(index);
    x.size = 2 << digits.take(2);
    x.cols = digits.take(41), x.source_offset = digits.take(9), x.offset = digits.take(9);
    pad = digits.take(10), pad_out = digits.take(10);
    x.rows = dice.roll(14);
    x.source_rows = dice.roll(8) == 0 ? dice.roll(3) : std::max<int64_t>(0, x.rows + dice.roll(7) - 3);
    const int64_t source_cols[] = {
        x.cols, x.cols, x.cols + 9, std::max<int64_t>(0, x.cols - dice.roll(9)), dice.roll(41), x.cols + dice.roll(9)};
    x.source_cols = dice.roll(source_cols);
    x.origin.row = dice.roll(3) == 0 ? dice.roll(9) - 4 : 0;
    const int64_t origins[] = {0, 0, dice.roll(9), -dice.roll(9), dice.roll(41) - 20, x.source_cols - dice.roll(9)};
    x.origin.col = dice.roll(origins);
  } else if (index < kCropAlignments + kCropEdges) {
    SweepDigits digits(index - kCropAlignments);
    x.size = 2 << digits.take(2);
    x.rows = digits.take(kCropEdgeRows), x.cols = digits.take(kCropEdgeCols);
    const int row_origin = digits.take(kCropOrigins), col_origin = digits.take(kCropOrigins);
    const int64_t source_rows[] = {x.rows, x.rows + 1, 3, dice.roll(kCropEdgeRows)};
    const int64_t source_cols[] = {x.cols, x.cols + 1, 5, dice.roll(kCropEdgeCols)};
    x.source_rows = dice.roll(source_rows), x.source_cols = dice.roll(source_cols);
    x.origin = {sweep_crop_origin(row_origin, 64, x.source_rows, x.rows),
                sweep_crop_origin(col_origin, 128 / x.size, x.source_cols, x.cols)};
    x.source_offset = dice.roll(9), x.offset = dice.roll(9), pad = dice.roll(10), pad_out = dice.roll(10);
  } else {
    SweepDigits digits(index - kCropAlignments - kCropEdges);
    x.size = 2 << digits.take(2);
    x.cols = digits.take(kCropLongCols), x.source_offset = digits.take(9), x.offset = digits.take(9),
    pad_out = digits.take(10);
    x.rows = 1 + dice.roll(9), pad = dice.roll(10);
    x.source_rows = std::max<int64_t>(1, x.rows + dice.roll(4) - 2);
    const int64_t source_cols[] = {x.cols, x.cols, x.cols + 9, x.cols - dice.roll(9), dice.roll(kCropLongCols), 1};
    x.source_cols = dice.roll(source_cols);
    x.origin.row = dice.roll(4) == 0 ? dice.roll(9) - 4 : 0;
    const int64_t origins[] = {0,
                               dice.roll(9),
                               -dice.roll(9),
                               -x.cols / 2,
                               -x.cols + dice.roll(9),
                               x.source_cols / 2,
                               x.source_cols - dice.roll(9),
                               -1024};
    x.origin.col = dice.roll(origins);
  }
  if (dice.roll(4) == 0) pad = pad_out = 0;  // rows without a gap
  x.ld = x.cols + pad_out;
  const int steps[] = {1, 1, 1, 1, 1, 2, 3, -1, 0};  // 0: by columns
  const int step = dice.roll(steps);
  x.col_stride = step == 0 ? std::max<int64_t>(x.source_rows, 1) + pad : step;
  x.row_stride = step == 0 ? 1 : std::max<int64_t>(x.source_cols, 1) * std::abs(step) + pad;
  const int turned = dice.roll(8);
  if (turned == 0) x.row_stride = 0;
  else if (turned <= 2) x.row_stride = -x.row_stride;
  return x;
}

inline std::string describe(const SweepCrop& x) {
  char text[240];
  std::snprintf(text, sizeof text,
                "%d-byte elements, source %lldx%lld strides %lld,%lld offset %d, origin %lld,%lld, rectangle %lldx%lld "
                "pitch %lld offset %d",
                x.size, static_cast<long long>(x.source_rows), static_cast<long long>(x.source_cols),
                static_cast<long long>(x.row_stride), static_cast<long long>(x.col_stride), x.source_offset,
                static_cast<long long>(x.origin.row), static_cast<long long>(x.origin.col), static_cast<long long>(x.rows),
                static_cast<long long>(x.cols), static_cast<long long>(x.ld), x.offset);
  return text;
}

// ---- repacks ------------------------------------------------------------------------------------------------------

// A copy begins at a multiple of 16 bytes.
struct SweepRepack {
  int size = 2;
  int64_t rows = 0, cols = 0, row_stride = 0, col_stride = 1, ld = 0, batch = 1, source_batch_stride = 0,
          copy_batch_stride = 0;
  int source_offset = 0;
};

// Steps along a line and between lines: a line's length with the pad (1), that backwards (-1), or the number itself.
struct SweepStrides {
  bool by_columns;
  int along, across;
};
inline constexpr SweepStrides kSweepStrides[] = {
    {false, 1, 1},  {false, 1, -1}, {false, 1, 0}, {false, 1, 3}, {false, 1, -3}, {true, 1, 1},
    {true, 1, -1},  {true, 1, 0},   {true, 1, 3},  {true, 1, -3}, {false, 2, 1},  {false, 3, -1},
    {false, -1, 1}, {false, 0, 1},  {true, 2, 1},  {true, 3, -1}, {true, -1, 1},  {false, 0, 0}};
inline constexpr int kRepackEdgeExtents[] = {1, 33, 40, 63, 64, 65, 127, 128, 129};
inline constexpr int kRepackLongExtents[] = {1023, 1024, 1025, 1026};
inline constexpr int kRepackOtherExtents[] = {1, 2, 7, 8, 9, 33, 63, 64, 65, 129};
static_assert(std::size(kSweepStrides) == 18);
inline constexpr int64_t kRepackAlignments = 2 * 41 * 18 * 9 * 10 * 3;  // size, columns, strides, offset, pitch, repeated
inline constexpr int64_t kRepackEdgeCases = 2 * 9 * 9 * 18 * 9 * 8;     // size, extents, strides, offset, repeated
inline constexpr int64_t kRepackLong = 2 * 4 * 10 * 2 * 18 * 9;         // size, extents, which is long, strides, offset
inline constexpr int64_t kRepackLargest = 2 * 4 * 4 * 18 * 2;           // size, both long, strides, aligned or not
inline constexpr int64_t kRepackCases = kRepackAlignments + kRepackEdgeCases + kRepackLong + kRepackLargest;

inline SweepRepack sweep_repack(int64_t index) {
  SweepRepack x;
  SweepDice dice(index);
  SweepStrides strides = {};
  int pad = dice.roll(10);
  if (index < kRepackAlignments) {
    SweepDigits digits(index);
    x.size = 2 << digits.take(2);
    x.cols = digits.take(41), strides = digits.take(kSweepStrides), x.source_offset = digits.take(9), pad = digits.take(10);
    x.rows = dice.roll(41);
    const int batches[] = {1, 1, 2, 3};
    x.batch = dice.roll(batches);
  } else if (index < kRepackAlignments + kRepackEdgeCases) {
    SweepDigits digits(index - kRepackAlignments);
    x.size = 2 << digits.take(2);
    x.rows = digits.take(kRepackEdgeExtents), x.cols = digits.take(kRepackEdgeExtents);
    strides = digits.take(kSweepStrides), x.source_offset = digits.take(9);
    x.batch = dice.roll(8) == 0 ? 2 : 1;
  } else if (index < kRepackAlignments + kRepackEdgeCases + kRepackLong) {
    SweepDigits digits(index - kRepackAlignments - kRepackEdgeCases);
    x.size = 2 << digits.take(2);
    x.rows = digits.take(kRepackLongExtents), x.cols = digits.take(kRepackOtherExtents);
    if (digits.take(2)) std::swap(x.rows, x.cols);
    strides = digits.take(kSweepStrides), x.source_offset = digits.take(9);
  } else {
    SweepDigits digits(index - kRepackAlignments - kRepackEdgeCases - kRepackLong);
    x.size = 2 << digits.take(2);
    x.rows = digits.take(kRepackLongExtents), x.cols = digits.take(kRepackLongExtents);
    strides = digits.take(kSweepStrides), x.source_offset = digits.take(2) ? 1 + dice.roll(7) : 0;
  }
  const int64_t vector = 16 / x.size;
  const int more[] = {0, 0, 0, 1, 2, 6};
  x.ld = ((x.cols + vector - 1) / vector + dice.roll(more)) * vector;
  const int64_t pitch =
      std::max<int64_t>(strides.by_columns ? x.rows : x.cols, 1) * std::max(std::abs(strides.along), 1) + pad;
  x.row_stride = strides.across == 1 ? pitch : strides.across == -1 ? -pitch : strides.across;
  x.col_stride = strides.along;
  if (strides.by_columns) std::swap(x.row_stride, x.col_stride);
  const int64_t matrix = std::max<int64_t>(x.rows - 1, 0) * std::abs(x.row_stride) +
                         std::max<int64_t>(x.cols - 1, 0) * std::abs(x.col_stride) + 1;
  const int64_t copy = x.rows * x.ld;
  const int64_t source_strides[] = {matrix, matrix + pad, -matrix, 0, 1},
                copy_strides[] = {copy, copy + 3 * vector, -copy, -copy - vector};
  x.source_batch_stride = dice.roll(source_strides), x.copy_batch_stride = dice.roll(copy_strides);
  return x;
}

inline std::string describe(const SweepRepack& x) {
  char text[240];
  std::snprintf(text, sizeof text,
                "%d-byte elements, %lldx%lld strides %lld,%lld offset %d, pitch %lld, batch %lld strides %lld to %lld",
                x.size, static_cast<long long>(x.rows), static_cast<long long>(x.cols), static_cast<long long>(x.row_stride),
                static_cast<long long>(x.col_stride), x.source_offset, static_cast<long long>(x.ld),
                static_cast<long long>(x.batch), static_cast<long long>(x.source_batch_stride),
                static_cast<long long>(x.copy_batch_stride));
  return text;
}

}  // namespace grout::test
