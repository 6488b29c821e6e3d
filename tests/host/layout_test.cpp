// Layouts: static facts in types, offsets, nested modes, swizzles and windows, each against brute force or values worked out
// by hand. layout_composition.cpp: composition.
#include "common/layout.cuh"

#include <gtest/gtest.h>

#include <set>
#include <type_traits>

#include "common/numeric.cuh"

namespace grout {
namespace {

template <class Expected, class T>
constexpr bool has_type(const T&) {
  return std::is_same_v<Expected, T>;
}

// ---- static integers ----

TEST(StaticIntegers, LiteralsAreStaticAndArgumentsAreNot) {
  static_assert(has_type<Int<64>>(64_c));
  static_assert(has_type<Int<0>>(0_c));
  static_assert(is_static<Int<-3>> && !is_static<int> && !is_static<int64_t>);
  static_assert(has_type<Int<12>>(3_c * 4_c) && has_type<Int<7>>(3_c + 4_c) && has_type<Int<-1>>(3_c - 4_c));
  static_assert(std::is_same_v<decltype(3_c * 4), int>);  // static with dynamic is dynamic
  static_assert(std::is_same_v<decltype(3_c * int64_t{4}), int64_t>);
  static_assert(std::is_same_v<decltype(5000000000_c + 1), int64_t>);  // does not fit int, so it is not one
  static_assert(5000000000_c == 5000000000);
  SUCCEED();
}

TEST(StaticIntegers, StayStaticThroughLayouts) {
  constexpr auto l = layout(shape(4_c, 8_c), stride(8_c, 1_c));
  static_assert(std::is_same_v<decltype(l.extent<0>()), Int<4>> && std::is_same_v<decltype(l.stride<1>()), Int<1>>);
  static_assert(has_type<Int<32>>(l.size()));
  static_assert(decltype(l)::fully_static && l.rank == 2);
  static_assert(has_type<Int<19>>(l(2_c, 3_c)));  // static coordinates give a static offset
  const int rows = 4;
  const auto d = layout(shape(rows, 8_c), stride(8_c, 1_c));
  static_assert(!decltype(d)::fully_static);
  static_assert(std::is_same_v<decltype(d.extent<0>()), int> && std::is_same_v<decltype(d.extent<1>()), Int<8>>);
  EXPECT_EQ(d.size(), 32);
}

TEST(StaticIntegers, TakeNoSpace) {
  using Mixed = decltype(layout(shape(int64_t{}, int64_t{}), stride(int64_t{}, 1_c)));
  static_assert(sizeof(Mixed) == 3 * sizeof(int64_t));
  using OneDynamic = decltype(layout(shape(128_c, 32_c), stride(int64_t{}, 1_c)));
  static_assert(sizeof(OneDynamic) == sizeof(int64_t));
  using Static = decltype(layout(shape(128_c, 32_c), stride(32_c, 1_c)));
  static_assert(std::is_empty_v<Static>);
  using Composed = decltype(compose(Swizzle128B<bf16>{}, row_major(shape(64_c, 64_c))));
  static_assert(std::is_empty_v<Composed>);
  // Also where the same number appears twice.
  using Square = decltype(shape(8_c, 8_c));
  EXPECT_TRUE(std::is_empty_v<Square>);
  struct Holder {
    [[no_unique_address]] Square s;
    int64_t value;
  };
  EXPECT_EQ(sizeof(Holder), sizeof(int64_t));
  using TwoEqual = decltype(layout(shape(int64_t{}, 8_c, 8_c), stride(int64_t{}, 8_c, 1_c)));
  EXPECT_EQ(sizeof(TwoEqual), 2 * sizeof(int64_t));
}

// ---- offsets ----

TEST(Offsets, ByHand) {
  const int64_t m = 5, ld = 73;
  const auto a = layout(shape(m, 7), stride(ld, 1_c));
  EXPECT_EQ(a(0, 0), 0);
  EXPECT_EQ(a(3, 6), 3 * 73 + 6);
  EXPECT_EQ(a(coord(3, 6)), 3 * 73 + 6);
  EXPECT_EQ(row_major(shape(4_c, 8_c))(3, 5), 29);
  EXPECT_EQ(col_major(shape(4_c, 8_c))(3, 5), 23);
  EXPECT_EQ(row_major(shape(4, 8))(3, 5), 29);
}

TEST(Offsets, IntegersCountColexicographically) {
  const auto a = layout(shape(3_c, 4_c, 5_c), stride(100_c, 10_c, 1_c));
  int i = 0;
  for (int z = 0; z < 5; ++z) {
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 3; ++x, ++i) EXPECT_EQ(a(i), 100 * x + 10 * y + z) << i;  // first mode fastest
    }
  }
  const auto line = layout(shape(9_c), stride(4_c));
  EXPECT_EQ(line(7), 28);
  EXPECT_EQ(a(60), 5);  // the last mode goes on
}

TEST(Offsets, NestedModes) {
  // Rows in pairs: row = (r0, r1) with strides 8 and 64; columns in quads: strides 1 and 16.
  constexpr auto n = layout(shape(shape(2_c, 3_c), shape(4_c, 2_c)), stride(stride(8_c, 64_c), stride(1_c, 16_c)));
  static_assert(n.extent<0>() == 6 && n.extent<1>() == 8 && n.size() == 48);
  for (int row = 0; row < 6; ++row) {
    for (int col = 0; col < 8; ++col) {
      const int expected = row % 2 * 8 + row / 2 * 64 + col % 4 * 1 + col / 4 * 16;
      EXPECT_EQ(n(row, col), expected);
      EXPECT_EQ(n(coord(row % 2, row / 2), col), expected);
      EXPECT_EQ(n(coord(row % 2, row / 2), coord(col % 4, col / 4)), expected);
      EXPECT_EQ(n(row + 6 * col), expected);
    }
  }
  static_assert(n(5_c, 7_c) == 8 + 128 + 3 + 16);
  // Three levels deep.
  constexpr auto deep =
      layout(shape(shape(shape(2_c, 2_c), 2_c), 3_c), stride(stride(stride(1_c, 10_c), 100_c), 1000_c));
  for (int i = 0; i < 24; ++i) EXPECT_EQ(deep(i), i % 2 + i / 2 % 2 * 10 + i / 4 % 2 * 100 + i / 8 * 1000) << i;
}

TEST(Offsets, SixtyFourBits) {
  // 225304 rows of 9728: past 2^31.
  const int64_t rows = 225305, pitch = 9728;
  const auto a = layout(shape(rows, pitch), stride(pitch, 1_c));
  EXPECT_EQ(a(int64_t{225304}, int64_t{0}), 2191757312);
  EXPECT_EQ(a(225304, 5), 2191757317);  // an int coordinate with a 64-bit stride
  static_assert(std::is_same_v<decltype(a(225304, 5)), int64_t>);
  const auto fixed = layout(shape(rows, 9728_c), stride(9728_c, 1_c));
  EXPECT_EQ(fixed(int64_t{225304}, 5), 2191757317);  // a 64-bit coordinate with a static stride
  const auto w = window(a, coord(int64_t{225303}, int64_t{7}), shape(64_c, 32_c));
  EXPECT_EQ(w(1, 1), 2191757312 + 8);
  const auto far = layout(shape(1000000_c, 2_c), stride(5000000000_c, 1_c));
  EXPECT_EQ(far(999999, 1), 999999 * 5000000000 + 1);
}

TEST(Offsets, NegativeStrides) {
  const auto reversed = layout(shape(4, 6), stride(-6, -1));
  EXPECT_EQ(reversed(3, 5), -23);
  const auto w = window(reversed, coord(1, 2), shape(2_c, 2_c));
  EXPECT_EQ(w(0, 0), -8);
  EXPECT_EQ(w(1, 1), -15);
}

// ---- swizzles ----

// A swizzle on byte addresses as TMA documents it: chunk number (16 bytes) XOR the number of the 128-byte line, as many
// bits of it as there are chunks in the span.
int64_t byte_swizzle(int64_t byte, int span) {
  const int64_t chunks = span / 16;
  return byte ^ ((byte / 128 % chunks) * 16);
}
template <class T>
void expect_byte_swizzles() {
  constexpr int64_t bytes = sizeof(T);
  for (int64_t i = 0; i < 4096; ++i) {
    ASSERT_EQ(Swizzle128B<T>{}(i)*bytes, byte_swizzle(i * bytes, 128)) << i;
    ASSERT_EQ(Swizzle64B<T>{}(i)*bytes, byte_swizzle(i * bytes, 64)) << i;
    ASSERT_EQ(Swizzle32B<T>{}(i)*bytes, byte_swizzle(i * bytes, 32)) << i;
  }
}
TEST(Swizzles, AreThoseOfTheHardware) {
  expect_byte_swizzles<bf16>();
  expect_byte_swizzles<float>();
  expect_byte_swizzles<uint8_t>();
  static_assert(std::is_same_v<Swizzle128B<bf16>, Swizzle<3, 3, 3>> &&
                std::is_same_v<Swizzle128B<float>, Swizzle<3, 2, 3>>);
}

template <int Bits, int Base, int Shift>
void expect_bijection() {
  using S = Swizzle<Bits, Base, Shift>;
  constexpr int period = 1 << (Base + Shift + Bits);
  static_assert(S::period == period && S::contiguous == 1 << Base);
  std::set<int> seen;
  for (int i = 0; i < period; ++i) {
    const int to = S{}(i);
    ASSERT_TRUE(0 <= to && to < period);
    seen.insert(to);
    ASSERT_EQ(S{}(to), i);                            // its own inverse: source bits stay
    ASSERT_EQ(S{}(i + 5 * period), to + 5 * period);  // repeats
    if (i % S::contiguous != 0) {
      ASSERT_EQ(to, S{}(i - 1) + 1);
    }
    // The picture: bit Base + b of the result is its own bit XOR the bit Shift above.
    for (int bit = 0; bit < Base + Shift + Bits; ++bit) {
      const bool target = bit >= Base && bit < Base + Bits;
      ASSERT_EQ((to >> bit) & 1, ((i >> bit) & 1) ^ (target ? (i >> (bit + Shift)) & 1 : 0));
    }
  }
  ASSERT_EQ(seen.size(), static_cast<size_t>(period));
}
template <int... I>
void expect_bijections(std::integer_sequence<int, I...>) {
  (expect_bijection<I % 4, I / 4 % 4, I % 4 + I / 16 % 3>(), ...);
}
TEST(Swizzles, PermuteEachPeriod) {
  expect_bijections(std::make_integer_sequence<int, 48>{});
}
TEST(Swizzles, NoneIsIdentity) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(NoSwizzle{}(i), i);
}
TEST(Swizzles, KeepWideOffsets) {
  const int64_t far = (int64_t{1} << 40) + (5 << 6) + 3;
  EXPECT_EQ((Swizzle128B<bf16>{}(far)), (int64_t{1} << 40) + (5 << 6) + (5 << 3) + 3);
}

TEST(Swizzles, ComposeAfterALayout) {
  constexpr auto l = row_major(shape(64_c, 64_c));
  constexpr auto s = compose(Swizzle128B<bf16>{}, l);
  static_assert(decltype(s)::fully_static && decltype(s)::rank == 2);
  static_assert(s.extent<0>() == 64 && s.stride<0>() == 64 && s.size() == 4096);
  static_assert(std::is_same_v<SwizzleOf<std::remove_const_t<decltype(s)>>::type, Swizzle128B<bf16>>);
  static_assert(std::is_same_v<SwizzleOf<std::remove_const_t<decltype(l)>>::type, NoSwizzle>);
  static_assert(is_composed<std::remove_const_t<decltype(s)>> && is_layout<std::remove_const_t<decltype(l)>>);
  for (int row = 0; row < 64; ++row) {
    for (int col = 0; col < 64; ++col) ASSERT_EQ(s(row, col), row * 64 + ((col / 8) ^ (row % 8)) * 8 + col % 8);
  }
  static_assert(s(9_c, 8_c) == 9 * 64);  // row 9 is phase 1: chunk 1 goes to chunk 0
}

// ---- windows and tiles ----

template <class L>
void expect_windows(L l, int rows, int cols) {
  for (int r0 = -8; r0 < rows; r0 += 5) {
    for (int c0 = 0; c0 < cols; c0 += 3) {
      const auto w = window(l, coord(r0, c0), shape(8_c, 16_c));
      const auto inner = window(w, coord(3, 5), shape(4, 4));  // a window of a window
      for (int r = 0; r < 8; ++r) {
        for (int c = 0; c < 16; ++c) {
          ASSERT_EQ(w(r, c), l(r0 + r, c0 + c));
          if (r < 4 && c < 4) {
            ASSERT_EQ(inner(r, c), l(r0 + 3 + r, c0 + 5 + c));
          }
        }
      }
      ASSERT_EQ(w.template extent<0>(), 8);
      ASSERT_EQ(w.template extent<1>(), 16);
    }
  }
}
TEST(Windows, KeepBaseAndPhase) {
  expect_windows(compose(Swizzle128B<bf16>{}, row_major(shape(64_c, 64_c))), 64, 64);
  expect_windows(compose(Swizzle64B<bf16>{}, row_major(shape(64_c, 32_c))), 64, 32);
  expect_windows(compose(Swizzle32B<float>{}, row_major(shape(32_c, 32_c))), 32, 32);
  expect_windows(compose(Swizzle<3, 3, 4>{}, col_major(shape(128_c, 32_c))), 128, 32);
  expect_windows(row_major(shape(64, 64)), 64, 64);
  // A window that forgot its phase would give this: the origin inside the swizzle matters.
  const auto s = compose(Swizzle128B<bf16>{}, row_major(shape(64_c, 64_c)));
  const auto w = window(s, coord(1, 8), shape(8_c, 8_c));
  EXPECT_NE(w(1, 0) - w(0, 0), s(1, 0) - s(0, 0));
}
TEST(Windows, StaticOriginsStayStatic) {
  constexpr auto s = compose(Swizzle128B<bf16>{}, row_major(shape(64_c, 64_c)));
  constexpr auto w = window(s, coord(16_c, 32_c), shape(8_c, 8_c));
  static_assert(decltype(w)::fully_static && std::is_empty_v<decltype(w)>);
  const auto d = window(s, coord(16, 32), shape(8_c, 8_c));
  static_assert(!decltype(d)::fully_static);
  EXPECT_EQ(w(3, 4), d(3, 4));
  EXPECT_EQ(w(3, 4), s(19, 36));
}
TEST(Windows, TilesAreWindowsAtMultiples) {
  const auto s = compose(Swizzle128B<bf16>{}, row_major(shape(64_c, 64_c)));
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 2; ++j) {
      const auto t = tile(s, coord(i, j), shape(16_c, 32_c));
      for (int r = 0; r < 16; ++r) {
        for (int c = 0; c < 32; ++c) ASSERT_EQ(t(r, c), s(16 * i + r, 32 * j + c));
      }
    }
  }
  const int64_t ld = 100000000;
  const auto wide = layout(shape(int64_t{1000}, ld), stride(ld, 1_c));
  EXPECT_EQ(tile(wide, coord(int64_t{15}, int64_t{0}), shape(64_c, 32_c))(63, 31), 1023 * ld + 31);
}

}  // namespace
}  // namespace grout
