// The cases of the instruction tests that compute: mma, shifts, bit counts, minima and maxima, conversions. As in
// instruction_references.h.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/kernels/instruction_references.h"
#include "tests/kernels/instructions.cuh"

namespace grout::instructions {

// ---- mma (Matrix Fragments for mma.m16n8k16 with floating point type) ---------------------------------------------

enum class Values { integers, near_one, wide, special, subnormal };

// Rounding. The ISA leaves order and rounding open, each step with at least the precision of fp32. 17 terms (16
// products, exact in fp32, and c) are added: in any order at most 17 roundings act on a term, each off by at most u =
// 2^-23 relative (truncation allowed), and units that align terms to the largest and cut them lose at most u of the
// largest for each term. Either way |error| <= 18 u (sum |a b| + |c|), to first order; 20 covers the second. Integers
// whose partial sums stay below 2^24 have no rounding at all. Subnormal inputs, which the ISA leaves open too, are
// exact on both devices.
template <class T, bool Aliased>
Case mma_case(Values values, const char* values_name, unsigned blocks) {
  constexpr int Fraction = std::is_same_v<T, bf16> ? 7 : 10;
  Source source(200 + Fraction * 8 + Aliased * 4 + static_cast<int>(values));
  Case c{.name = std::string("mma_") + (Fraction == 7 ? "bf16_" : "f16_") + values_name + (Aliased ? "_aliased" : ""),
         .kernel = mma<T, Aliased>,
         .grid = blocks};
  const int spread = values == Values::wide ? 9 : 2;
  const auto number = [&] {
    if (values == Values::integers) return static_cast<double>(source.between(-32, 32));
    return std::ldexp(1 + source.below(1u << Fraction) / std::ldexp(1, Fraction), source.between(-spread, spread)) *
           (source.below(2) ? 1 : -1);
  };
  for (unsigned block = 0; block < blocks; ++block) {
    double a[16][16], b[16][8], acc[16][8];
    for (auto& row : a)
      for (double& x : row) x = number();
    for (auto& row : b)
      for (double& x : row) x = number();
    for (auto& row : acc)
      for (double& x : row) x = static_cast<float>(values == Values::integers ? number() : number() * (1 + 0x1p-20));
    if (values == Values::subnormal) {  // of the 16-bit type in A, so large in B that no fp32 result is subnormal
      for (auto& row : a)
        for (double& x : row) x = std::ldexp(source.below(1u << Fraction), Fraction == 7 ? -133 : -24);
      for (auto& row : b)
        for (double& x : row) x = std::ldexp(x, Fraction == 7 ? 100 : 10);
      for (auto& row : acc)
        for (double& x : row) x = 0;
    }
    if (values == Values::special) {
      a[1][3] = INFINITY, a[2][0] = NAN, a[3][15] = -INFINITY, b[3][5] = 0, acc[4][1] = INFINITY, acc[5][7] = NAN;
      acc[3][2] = INFINITY;
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned group = lane >> 2, within = lane % 4;
      const auto put = [&](auto value_at, int registers) {
        for (int r = 0; r < registers; ++r)
          c.in.push_back(encode(value_at(2 * r), Fraction) |
                         static_cast<uint32_t>(encode(value_at(2 * r + 1), Fraction)) << 16);
      };
      put(
          [&](int i) {
            return a[(i < 2 || (4 <= i && i < 6)) ? group : group + 8][within * 2 + (i & 1) + (i < 4 ? 0 : 8)];
          },
          4);
      put([&](int i) { return b[within * 2 + (i & 1) + (i < 2 ? 0 : 8)][group]; }, 2);
      for (int i = 0; i < 4; ++i) {
        const unsigned m = i < 2 ? group : group + 8, n = within * 2 + (i & 1);
        c.in.push_back(float_bits(acc[m][n]));
        double exact = acc[m][n], magnitude = std::fabs(exact);
        for (int k = 0; k < 16; ++k) exact += a[m][k] * b[k][n], magnitude += std::fabs(a[m][k] * b[k][n]);
        c.exact.push_back(exact);
        c.bound.push_back(values == Values::integers ? 0 : 20 * 0x1p-23 * magnitude);
      }
    }
  }
  c.expected.resize(c.exact.size());
  return c;
}

// ---- shf, bit counts, min and max; cvt ------------------------------------------------------------------------------

inline Case integers_case() {
  Source source(700);
  Case c{.name = "integers", .kernel = integers, .block = 64, .in = {0}};
  const uint32_t edges[] = {0, 1, 0x80000000u, ~0u};
  for (unsigned i = 0; i < 41 * 8; ++i) {
    const uint32_t low = i < 41 ? edges[i % 4] : source.word() >> source.below(32),
                   high = i < 41 ? edges[i / 4 % 4] : source.word();
    const uint32_t shift = i < 41 * 7 ? i % 41 : source.word() >> source.below(32);
    c.in.insert(c.in.end(), {low, high, shift});
    const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
    uint32_t bits = 0, leading = 0, first = 0;
    for (uint32_t b = 0; b < 32; ++b) bits += low >> b & 1;
    while (leading < 32 && !(low << leading & 0x80000000u)) ++leading;
    while (first < 32 && !(low >> first & 1)) ++first;
    const auto x = static_cast<int32_t>(low), y = static_cast<int32_t>(high);
    c.expected.insert(
        c.expected.end(),
        {static_cast<uint32_t>(both >> (shift < 32 ? shift : 32)), static_cast<uint32_t>(both >> (shift & 31)),
         static_cast<uint32_t>(both << (shift & 31) >> 32), bits, leading, first == 32 ? 0 : first + 1,
         static_cast<uint32_t>(x < y ? x : y), static_cast<uint32_t>(x < y ? y : x)});
    ++c.in[0];
  }
  return c;
}

// PTX ISA, ex2.approx.ftz.f32: -Inf gives +0, -0, +0 and subnormal inputs +1, +Inf +Inf, NaN NaN; subnormal results are flushed to
// zero. 2 ulp at most from the correctly rounded result, which is half a unit from the exact one.
inline Case powers_of_two_case(unsigned count) {
  Source source(705);
  Case c{.name = "ex2", .kernel = powers_of_two, .block = 64, .in = {0}};
  std::vector<float> numbers = {0.f, -0.f, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f, 0x1.fffffcp-127f, -0x1.fffffcp-127f,
                                0x1p-126f, 128.f, 129.f, 1e30f, -1e30f, -126.f, -149.f, -150.f, -1000.f};
  for (const float edge : {128.f, -126.f, -127.f, -149.f}) {
    numbers.push_back(std::nextafter(edge, 0.f));
    numbers.push_back(std::nextafter(edge, edge * 2));
  }
  for (int i = -150; i <= 130; ++i) numbers.push_back(static_cast<float>(i));
  while (numbers.size() < count) {
    const int exponent = source.between(-30, 7);
    numbers.push_back(std::ldexp(1.f + static_cast<float>(source.below(1u << 23)) * 0x1p-23f, exponent - 1) *
                      (source.below(2) ? 1.f : -1.f));
  }
  for (const float x : numbers) {
    c.in.push_back(std::bit_cast<uint32_t>(x));
    const double input = std::fabs(x) < 0x1p-126f ? 0 : x, power = std::exp2(input);
    const bool overflows = power >= 0x1p128, flushed = power < 0x1p-126;
    c.exact.push_back(overflows ? INFINITY : flushed ? 0 : power);
    c.bound.push_back(overflows || flushed ? 0 : power * 2.5 * 0x1p-23);
  }
  c.in[0] = static_cast<uint32_t>(numbers.size());
  c.expected.resize(c.exact.size());
  return c;
}

// PTX ISA, lg2.approx.ftz.f32: zeros and subnormals give -Inf, negative numbers NaN, +Inf +Inf; off by 2^-22 at most, absolute from 0.5
// to 2, relative elsewhere. rcp.approx.ftz.f32: zeros and subnormals give infinities of their sign, infinities zeros; 1 ulp at most from
// the correctly rounded result; subnormal results are flushed.
inline Case logarithms_and_reciprocals_case(unsigned count) {
  Source source(707);
  Case c{.name = "lg2_and_rcp", .kernel = logarithms_and_reciprocals, .block = 64, .in = {0}};
  std::vector<float> numbers = {0.f, -0.f, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f, 0x1.fffffcp-127f, -0x1.fffffcp-127f, 0x1p-126f,
                                -0x1p-126f, 1.f, -1.f, 0.5f, 2.f, 0x1p126f, 0x1.000002p126f, 0x1p127f, 0x1.fffffep127f, -0x1.fffffep127f};
  for (const float edge : {0.5f, 1.f, 2.f}) {
    numbers.push_back(std::nextafter(edge, 0.f));
    numbers.push_back(std::nextafter(edge, 4.f));
  }
  while (numbers.size() < count) {
    const int exponent = source.below(2) ? source.between(-2, 2) : source.between(-126, 127);
    numbers.push_back(std::ldexp(1.f + static_cast<float>(source.below(1u << 23)) * 0x1p-23f, exponent) * (source.below(8) ? 1.f : -1.f));
  }
  for (const float x : numbers) {
    c.in.push_back(std::bit_cast<uint32_t>(x));
    const double input = std::fabs(x) < 0x1p-126f ? std::copysign(0.0, double{x}) : double{x};
    const double logarithm = std::log2(input), reciprocal = 1 / input;
    c.exact.push_back(input < 0 ? NAN : logarithm);
    c.bound.push_back(!std::isfinite(logarithm)           ? 0
                      : input >= 0.5 && input <= 2 ? 0x1p-22 + std::fabs(logarithm) * 0x1p-24
                                                   : std::fabs(logarithm) * (0x1p-22 + 0x1p-24));
    const bool flushed = std::fabs(reciprocal) < 0x1p-126;
    c.exact.push_back(flushed ? std::copysign(0.0, input) : reciprocal);
    c.bound.push_back(!std::isfinite(reciprocal) || flushed ? 0 : std::fabs(reciprocal) * 1.5 * 0x1p-23);
  }
  c.in[0] = static_cast<uint32_t>(numbers.size());
  c.expected.resize(c.exact.size());
  return c;
}

inline Case conversions_case(unsigned pairs) {
  Source source(710);
  Case c{.name = "conversions", .kernel = conversions, .block = 64, .in = {pairs}};
  // Zeros, infinities, NaNs (quiet, signalling, with only low bits set), then the places where rounding turns: of f16
  // overflow (65520), its smallest normal and subnormal and half of that; of bf16 overflow and its subnormals.
  Words edges = {0,
                 0x7f800000u,
                 0x7fc00000u,
                 0x7f800001u,
                 0x7fffffffu,
                 0x7f80ffffu,
                 float_bits(65504),
                 float_bits(65520),
                 float_bits(0x1p-14),
                 float_bits(0x1p-24),
                 float_bits(0x1p-25),
                 float_bits(0x1.8p-24),
                 0x7f7f8000u,
                 0x7f7f7fffu,
                 0x00008000u,
                 0x00010000u,
                 0x00018000u,
                 0x00800000u,
                 float_bits(1.00390625),
                 float_bits(1.01171875),
                 float_bits(1 + 0x1p-11),
                 float_bits(1 + 0x3p-11),
                 float_bits(2047.5 * 0x1p-25)};
  for (size_t i = 0, n = edges.size(); i < n; ++i)
    edges.insert(edges.end(), {edges[i] + 1, edges[i] - 1, edges[i] ^ 0x80000000u, (edges[i] + 1) ^ 0x80000000u});
  const auto value = [&](unsigned i) {
    if (i < edges.size()) return edges[i];
    const uint32_t w = source.word();  // half of them in the range of f16, half of those on or beside a tie
    if (i % 2) return w;
    const uint32_t near = (w & 0x807fffffu) | static_cast<uint32_t>(source.between(127 - 26, 127 + 17)) << 23;
    return i % 4 ? near : (near & ~0x1fffu) | 0x1000u | (source.below(3) == 0 ? 1 : 0);
  };
  for (unsigned i = 0; i < pairs; ++i) {
    const uint32_t x = value(i), y = value(edges.size() + 2 * i);
    c.in.insert(c.in.end(), {x, y});
    uint32_t packed[2], low[2];
    for (int type = 0; type < 2; ++type) {
      low[type] = encode(std::bit_cast<float>(x), type == 0 ? 7 : 10);
      packed[type] = low[type] | static_cast<uint32_t>(encode(std::bit_cast<float>(y), type == 0 ? 7 : 10)) << 16;
    }
    c.expected.insert(c.expected.end(),
                      {low[0] | low[1] << 16, packed[0], packed[1], packed[0], packed[1], low[0] << 16});
  }
  return c;
}

// bf16 to fp32 keeps the bits; f16 to fp32 is exact, and a NaN becomes the canonical one of fp32, 0x7fffffff.
inline Case decodings_case() {
  Case c{.name = "decodings", .kernel = decodings, .in = {0}};
  for (uint32_t i = 0; i < 65536; ++i) c.expected.push_back(i << 16);
  for (uint32_t i = 0; i < 65536; ++i) {
    const double value = decode(static_cast<uint16_t>(i), 10);
    c.expected.push_back(std::isnan(value) ? 0x7fffffffu : float_bits(value));
  }
  return c;
}

}  // namespace grout::instructions
