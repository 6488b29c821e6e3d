// Where the stretches of the streaming crop lie, and what is fetched of the source: from the definition, element by element. Other
// answers could give the right bytes too, only slower.
#include <gtest/gtest.h>

#include <string>

#include "copy/copy_stream.cuh"

namespace grout::test {
namespace {

// Addresses only: nothing is read. A source of 3 rows and a rectangle of 5, of which the middle ones meet.
template <int Size> void check_stretches(int64_t cols, int64_t pitch, int64_t out_cols, int64_t col, uintptr_t offset, uintptr_t offset_out) {
  constexpr int64_t kRows = 3, kOutRows = 5, kVector = 16 / Size, kElements = CropStream::vectors * kVector;
  const uintptr_t source = 0x10000000 + offset * Size, destination = 0x20000000 + offset_out * Size;
  const int64_t ld = out_cols + 1, low = pitch < 0 ? (kRows - 1) * pitch : 0, high = (pitch < 0 ? 0 : (kRows - 1) * pitch) + cols;
  const auto address = [](uintptr_t base, int64_t elements) { return base + static_cast<uintptr_t>(elements * Size); };
  const auto across = static_cast<uint32_t>((out_cols + kVector + kElements - 1) / kElements);
  const CropStreamParameters p = {.source = source,
                                  .first = (address(source, low) + 15) / 16 * 16,
                                  .last = address(source, high) / 16 * 16,
                                  .source_rows = kRows,
                                  .source_cols = cols,
                                  .row_stride = pitch,
                                  .origin = {-1, col},
                                  .destination = destination,
                                  .rows = kOutRows,
                                  .cols = out_cols,
                                  .ld = ld,
                                  .across = across,
                                  .stretches = across * static_cast<uint32_t>(kOutRows)};
  for (uint32_t index = 0; index < p.stretches; ++index) {
    SCOPED_TRACE("size " + std::to_string(Size) + " cols " + std::to_string(cols) + " pitch " + std::to_string(pitch) + " of " +
                 std::to_string(out_cols) + " at " + std::to_string(col) + " offsets " + std::to_string(offset) + "," +
                 std::to_string(offset_out) + " stretch " + std::to_string(index));
    const CropStretch s = crop_stretch<Size>(p, index);
    const int64_t row = index / across, from = row - 1;
    const uintptr_t row_begin = address(destination, row * ld);
    ASSERT_EQ(s.destination, row_begin / 16 * 16 + uintptr_t{index % across} * CropStream::bytes);
    // The column in the rectangle of element e; does it exist in the destination, in the source, and where?
    const int64_t first = (static_cast<int64_t>(s.destination) - static_cast<int64_t>(row_begin)) / Size;
    const auto stored = [&](int64_t e) { return first + e >= 0 && first + e < out_cols; };
    const auto exists = [&](int64_t e) {
      return stored(e) && from >= 0 && from < kRows && first + e + col >= 0 && first + e + col < cols;
    };
    const auto place = [&](int64_t e) { return address(source, from * pitch + col + first + e); };
    int64_t begin = 0, end = kElements;
    while (begin < kElements && !exists(begin)) ++begin;
    while (end > begin && !exists(end - 1)) --end;
    if (begin == end) {
      ASSERT_EQ(s.fetched_bytes, 0u);
      ASSERT_LE(s.whole_end, s.whole_begin);
      continue;
    }
    ASSERT_EQ(s.source, place(0));
    // Whole lines around them, but no word that is not the source's.
    uintptr_t fetched = place(begin) / 128 * 128, fetched_end = (place(end) + 127) / 128 * 128;
    if (fetched < p.first) fetched = p.first;
    if (fetched_end > p.last) fetched_end = p.last;
    if (fetched >= fetched_end) {
      ASSERT_EQ(s.fetched_bytes, 0u);
    } else {
      ASSERT_EQ(s.fetched, fetched);
      ASSERT_EQ(s.fetched_bytes, fetched_end - fetched);
      ASSERT_EQ(s.offset, fetched - place(0) / 128 * 128);
      ASSERT_LE(s.offset + s.fetched_bytes, unsigned{CropStream::bytes + CropStream::line});
      ASSERT_EQ((s.fetched | s.fetched_bytes | s.offset) % 16, 0u);
    }
    // The vectors that need no test: all their elements exist and were fetched. They are neighbours.
    for (int v = 0; v < CropStream::vectors; ++v) {
      bool whole = true;
      for (int64_t e = v * kVector; e < (v + 1) * kVector; ++e)
        whole &= exists(e) && place(e) >= s.fetched && place(e) + Size <= s.fetched + s.fetched_bytes;
      ASSERT_EQ(v >= s.whole_begin && v < s.whole_end, whole) << "vector " << v;
    }
  }
}

TEST(CropStretch, IsWhatTheDefinitionSays) {
  int cases = 0;
  for (const int64_t cols : {1, 7, 130, 1025, 2200})
    for (const int64_t pitch : {cols, cols + 3, -cols - 8})
      for (const int64_t out_cols : {int64_t{1}, cols, cols + 70})
        for (const int64_t col : {0, 1, 8, -3, -70, 64})
          for (const uintptr_t offset : {0, 1, 5, 61})
            for (const uintptr_t offset_out : {0, 3}) {
              check_stretches<2>(cols, pitch, out_cols, col, offset, offset_out);
              check_stretches<4>(cols, pitch, out_cols, col, offset, offset_out);
              if (HasFatalFailure()) return;
              cases += 2;
            }
  std::printf("%d cases\n", cases);
}

}  // namespace
}  // namespace grout::test
