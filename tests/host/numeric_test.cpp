// bf16 and f16: every conversion against a reference in double precision, and f16 against the compiler's own type.
#include "common/numeric.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace grout {
namespace {

// A binary format of 16 bits, described by what IEEE 754 calls it, not by how the project converts it.
struct Format {
  int mantissa_bits, exponent_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int min_exponent() const { return 1 - bias(); }
  double max_finite() const { return std::ldexp(2.0 - std::ldexp(1.0, -mantissa_bits), bias()); }
};
constexpr Format kBf16{7, 8}, kF16{10, 5};

// Value of a bit pattern.
double decode(Format f, uint16_t bits) {
  const int exponent = (bits >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1),
            mantissa = bits & ((1 << f.mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << f.exponent_bits) - 1)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  const double fraction = std::ldexp(mantissa, -f.mantissa_bits);
  return sign *
         (exponent == 0 ? std::ldexp(fraction, f.min_exponent()) : std::ldexp(1 + fraction, exponent - f.bias()));
}

// Bit pattern of a value rounded to nearest, ties to even: nearbyint does the rounding, in units of the last place.
uint16_t encode(Format f, double value) {
  if (std::isnan(value)) return 0x7fff;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const uint16_t infinity = static_cast<uint16_t>(((1 << f.exponent_bits) - 1) << f.mantissa_bits);
  double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), f.min_exponent());
  magnitude = std::ldexp(std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent)), exponent - f.mantissa_bits);
  if (magnitude > f.max_finite()) return sign | infinity;
  const double smallest_normal = std::ldexp(1.0, f.min_exponent());
  if (magnitude < smallest_normal)
    return sign | static_cast<uint16_t>(std::ldexp(magnitude, f.mantissa_bits - f.min_exponent()));
  const int e = std::ilogb(magnitude);
  return sign | static_cast<uint16_t>((e + f.bias()) << f.mantissa_bits) |
         static_cast<uint16_t>(std::ldexp(magnitude, f.mantissa_bits - e) - std::ldexp(1.0, f.mantissa_bits));
}

template <class T>
constexpr Format kFormat = element_type<T> == ElementType::bf16 ? kBf16 : kF16;

template <class T>
class Numeric : public testing::Test {};
using Types = testing::Types<bf16, f16>;
TYPED_TEST_SUITE(Numeric, Types);

TYPED_TEST(Numeric, EveryPatternHasItsValueAndComesBack) {
  constexpr Format kF = kFormat<TypeParam>;
  for (int pattern = 0; pattern < 65536; ++pattern) {
    TypeParam x;
    x.bits = static_cast<uint16_t>(pattern);
    const double expected = decode(kF, x.bits);
    const float value = static_cast<float>(x);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << std::hex << pattern;
      ASSERT_EQ(TypeParam(value).bits, 0x7fff) << std::hex << pattern;  // also for negative NaNs and for payloads
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << std::hex << pattern;
      ASSERT_EQ(std::signbit(value), pattern >= 0x8000) << std::hex << pattern;
      ASSERT_EQ(TypeParam(value).bits, pattern) << std::hex << pattern;
    }
  }
}

// The middle between any two neighbours, and the floats right beside it.
TYPED_TEST(Numeric, TiesGoToEven) {
  constexpr Format kF = kFormat<TypeParam>;
  const uint16_t infinity = static_cast<uint16_t>(((1 << kF.exponent_bits) - 1) << kF.mantissa_bits);
  int ties = 0;
  for (int pattern = 0; pattern + 1 <= infinity; ++pattern) {
    const double low = decode(kF, static_cast<uint16_t>(pattern));
    const double high =
        pattern + 1 == infinity ? std::ldexp(1.0, kF.bias() + 1) : decode(kF, static_cast<uint16_t>(pattern + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    if (static_cast<double>(middle) != (low + high) / 2) continue;  // not a float: cannot be asked
    ++ties;
    const float up = std::nextafter(middle, INFINITY), down = std::nextafter(middle, 0.f);
    for (const float sign : {1.f, -1.f}) {
      const int s = sign < 0 ? 0x8000 : 0;
      ASSERT_EQ(TypeParam(sign * middle).bits, s | (pattern % 2 == 0 ? pattern : pattern + 1)) << std::hex << pattern;
      ASSERT_EQ(TypeParam(sign * down).bits, s | pattern) << std::hex << pattern;
      ASSERT_EQ(TypeParam(sign * up).bits, s | (pattern + 1)) << std::hex << pattern;
    }
  }
  EXPECT_EQ(ties, infinity);
}

TYPED_TEST(Numeric, MillionsOfFloatsRoundAsInDouble) {
  constexpr Format kF = kFormat<TypeParam>;
  // A stride that is prime walks through every exponent and through all low bits.
  for (uint64_t u = 0; u <= UINT32_MAX; u += 1009) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(u));
    ASSERT_EQ(TypeParam(value).bits, encode(kF, value)) << std::hex << u;
  }
}

TYPED_TEST(Numeric, SpecialValues) {
  constexpr Format kF = kFormat<TypeParam>;
  const uint16_t infinity = static_cast<uint16_t>(((1 << kF.exponent_bits) - 1) << kF.mantissa_bits);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(TypeParam(0.f).bits, 0);
  EXPECT_EQ(TypeParam(-0.f).bits, 0x8000);
  EXPECT_EQ(TypeParam(inf).bits, infinity);
  EXPECT_EQ(TypeParam(-inf).bits, infinity | 0x8000);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::max()).bits, infinity);  // both overflow
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::max()).bits, infinity | 0x8000);
  for (const uint32_t nan : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu})
    EXPECT_EQ(TypeParam(std::bit_cast<float>(nan)).bits, 0x7fff) << std::hex << nan;
}

TEST(NumericEdges, Bf16) {
  EXPECT_EQ(bf16(1.f).bits, 0x3f80);
  EXPECT_EQ(bf16(std::bit_cast<float>(0x7f7f7fffu)).bits, 0x7f7f);  // the largest that stays finite
  EXPECT_EQ(bf16(std::bit_cast<float>(0x7f7f8000u)).bits, 0x7f80);
  EXPECT_EQ(bf16(std::bit_cast<float>(0x00000001u)).bits, 0);  // subnormal floats round, they are not flushed
  EXPECT_EQ(bf16(std::bit_cast<float>(0x00008001u)).bits, 1);
  EXPECT_EQ(bf16(std::bit_cast<float>(0x007f8000u)).bits, 0x0080);  // up into the normal range
}

TEST(NumericEdges, F16) {
  EXPECT_EQ(f16(1.f).bits, 0x3c00);
  EXPECT_EQ(f16(65504.f).bits, 0x7bff);
  EXPECT_EQ(f16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(f16(65520.f).bits, 0x7c00);
  EXPECT_EQ(f16(0x1p-24f).bits, 1);
  EXPECT_EQ(f16(0x1p-25f).bits, 0);  // a tie, to even
  EXPECT_EQ(f16(std::nextafter(0x1p-25f, 1.f)).bits, 1);
  EXPECT_EQ(f16(0x1.8p-24f).bits, 2);
  EXPECT_EQ(f16(0x1p-14f).bits, 0x0400);
  EXPECT_EQ(f16(std::nextafter(0x1p-14f, 0.f)).bits, 0x0400);
}

TEST(NumericEdges, F16AgreesWithTheCompiler) {
#if defined(__x86_64__) || __GNUC__ >= 13
  for (uint64_t u = 0; u <= UINT32_MAX; u += 997) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(u));
    if (std::isnan(value)) continue;
    const auto theirs = static_cast<_Float16>(value);
    ASSERT_EQ(f16(value).bits, std::bit_cast<uint16_t>(theirs)) << std::hex << u;
  }
  for (int pattern = 0; pattern < 65536; ++pattern) {
    f16 ours;
    ours.bits = static_cast<uint16_t>(pattern);
    const auto theirs = static_cast<float>(std::bit_cast<_Float16>(ours.bits));
    if (!std::isnan(theirs)) {
      ASSERT_EQ(std::bit_cast<uint32_t>(static_cast<float>(ours)), std::bit_cast<uint32_t>(theirs))
          << std::hex << pattern;
    }
  }
#else
  GTEST_SKIP() << "this compiler has no _Float16 in C++";
#endif
}

TEST(NumericTypes, DescribeThemselves) {
  static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2 && alignof(bf16) == 2 && alignof(f16) == 2);
  static_assert(std::is_trivially_copyable_v<bf16> && std::is_trivially_default_constructible_v<f16>);
  static_assert(!std::is_convertible_v<float, bf16> && !std::is_convertible_v<bf16, float>);  // explicit both ways
  static_assert(!std::is_convertible_v<float, f16> && !std::is_convertible_v<f16, float>);
  static_assert(element_type<bf16> == ElementType::bf16 && element_type<f16> == ElementType::f16 &&
                element_type<float> == ElementType::f32);
  EXPECT_EQ(element_bytes(ElementType::bf16), 2u);
  EXPECT_EQ(element_bytes(ElementType::f16), 2u);
  EXPECT_EQ(element_bytes(ElementType::f32), 4u);
  EXPECT_STREQ(element_name(ElementType::bf16), "bf16");
  EXPECT_STREQ(element_name(ElementType::f16), "f16");
  EXPECT_STREQ(element_name(ElementType::f32), "f32");
}

TEST(NumericTypes, EqualityIsOfBits) {
  bf16 nan;
  nan.bits = 0x7fff;
  EXPECT_TRUE(nan == nan);
  EXPECT_FALSE(bf16(0.f) == bf16(-0.f));
}

TEST(Pack, LowHalfFirst) {
  bf16 low, high;
  low.bits = 0x1234, high.bits = 0xabcd;
  EXPECT_EQ(pack(low, high), 0xabcd1234u);
  f16 l, h;
  l.bits = 0xffff, h.bits = 0;
  EXPECT_EQ(pack(l, h), 0x0000ffffu);
}

TEST(Pack, FromFloatRoundsEachHalfOnce) {
  std::mt19937 random(7);
  for (int i = 0; i < 100000; ++i) {
    const auto low = std::bit_cast<float>(static_cast<uint32_t>(random())),
               high = std::bit_cast<float>(static_cast<uint32_t>(random()));
    ASSERT_EQ(pack<bf16>(low, high), encode(kBf16, low) | static_cast<uint32_t>(encode(kBf16, high)) << 16);
    ASSERT_EQ(pack<f16>(low, high), encode(kF16, low) | static_cast<uint32_t>(encode(kF16, high)) << 16);
  }
}

TEST(Conversion, Generic) {
  EXPECT_EQ(to_float(from_float<bf16>(2.5f)), 2.5f);
  EXPECT_EQ(to_float(from_float<f16>(-2.5f)), -2.5f);
  EXPECT_EQ(to_float(from_float<float>(1.1f)), 1.1f);
}

}  // namespace
}  // namespace grout
