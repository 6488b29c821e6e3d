// The spans of addresses that host entries compare: their ends to the byte, and the longest that is taken.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/span.cuh"

namespace grout {
namespace {

TEST(Span, EndsAreThoseOfTheElements) {
  int spans = 0;
  const int64_t extents[] = {1, 2, 5}, strides[] = {-7, -1, 0, 1, 6};
  for (const int64_t bytes : {2, 4})
    for (const int64_t rows : extents)
      for (const int64_t cols : extents)
        for (const int64_t row_stride : strides)
          for (const int64_t col_stride : strides) {
            int64_t low = INT64_MAX, high = INT64_MIN;
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < cols; ++c) {
                const int64_t at = 4096 + (r * row_stride + c * col_stride) * bytes;
                low = std::min(low, at), high = std::max(high, at + bytes);
              }
            AddressSpan span;
            ASSERT_TRUE(address_span(4096, {{rows, row_stride}, {cols, col_stride}}, static_cast<size_t>(bytes), span));
            EXPECT_TRUE(span.low == low && span.high == high)
                << rows << "x" << cols << " strides " << row_stride << "," << col_stride << ", " << bytes << " bytes";
            ++spans;
          }
  EXPECT_EQ(spans, 2 * 9 * 25);
}

TEST(Span, NoneWhereAnExtentIsZero) {
  for (const int64_t stride : {int64_t{3}, INT64_MIN, INT64_MAX}) {
    AddressSpan span;
    ASSERT_TRUE(address_span(64, {{0, stride}, {INT64_MAX, INT64_MAX}}, 2, span));
    EXPECT_TRUE(span.low == 64 && span.high == 64);
    ASSERT_TRUE(address_span(64, {{1, INT64_MIN}, {0, stride}}, 2, span));
    EXPECT_TRUE(span.low == span.high);
    EXPECT_FALSE(span.overlaps({0, 1000}) || AddressSpan({0, 1000}).overlaps(span));
  }
}

TEST(Span, OverlapIsOfOneByte) {
  const AddressSpan middle{100, 200};
  for (const AddressSpan& other : {AddressSpan{0, 100}, AddressSpan{200, 300}, AddressSpan{150, 150}, AddressSpan{0, 0}})
    EXPECT_FALSE(middle.overlaps(other) || other.overlaps(middle));
  for (const AddressSpan& other : {AddressSpan{0, 101}, AddressSpan{199, 300}, AddressSpan{150, 151},
                                   AddressSpan{0, 300}, middle})
    EXPECT_TRUE(middle.overlaps(other) && other.overlaps(middle));
}

TEST(Span, TheLongest) {
  constexpr int64_t kReach = INT64_MAX / 16;
  AddressSpan span;
  for (const int64_t sign : {1, -1}) {
    EXPECT_TRUE(address_span(0, {{2, sign * kReach}}, 4, span));
    EXPECT_FALSE(address_span(0, {{2, sign * (kReach + 1)}}, 2, span));
    EXPECT_TRUE(address_span(0, {{kReach + 1, sign}}, 4, span));
    EXPECT_FALSE(address_span(0, {{kReach + 2, sign}}, 2, span));
    EXPECT_FALSE(address_span(0, {{INT64_MAX, sign * INT64_MAX}}, 2, span));
    // Each within reach, and together longer than 2^62 bytes; one upwards, one downwards, or both the same way.
    EXPECT_FALSE(address_span(0, {{2, kReach}, {2, sign * kReach}, {2, 1000}}, 4, span));
    EXPECT_TRUE(address_span(0, {{2, kReach / 2}, {2, sign * kReach / 2}, {2, 1000}}, 4, span));
  }
  EXPECT_TRUE(address_span(UINTPTR_MAX, {{1, INT64_MIN}, {1, INT64_MAX}}, 4, span));  // strides that are never used
}

}  // namespace
}  // namespace grout
