// The cases of the instruction tests: for each kernel of instructions.cuh its input and what the PTX ISA (9.0) says
// must come out. Host code that both the GPU test and the simulated test include; index formulas are the ISA's,
// written out here again and shared with nothing else in the project.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/launch.cuh"
#include "tests/kernels/instructions.cuh"

namespace grout::instructions {

using Words = std::vector<uint32_t>;

struct Case {
  std::string name = {};
  void (*kernel)(const uint32_t*, uint32_t*) = nullptr;
  unsigned grid = 1, block = 32;
  size_t shared_bytes = 0;
  Words in = {};
  Words expected = {};             // bit for bit; or, where `exact` is not empty, only how many words come out
  std::vector<double> exact = {};  // fp32 results: |out - exact| <= bound; NaN and infinity as they are
  std::vector<double> bound = {};
  uint32_t fill = 0xdeadbeefu;  // of every word of `out` before the launch
  unsigned cluster = 1;
  int capability = 80;  // 10 * major + minor that the device must have
  // Starts the case where one launch of `kernel` does not; in and out are on the device.
  std::function<Status(const Case&, const uint32_t* in, uint32_t* out)> start = {};
};
inline LaunchShape shape(const Case& c) {
  return {.grid = dim3(c.grid), .block = dim3(c.block), .shared_bytes = c.shared_bytes, .cluster = c.cluster};
}
inline void PrintTo(const Case& c, std::ostream* stream) {
  *stream << c.name;
}  // for GoogleTest

// ---- number formats, from their definition ----------------------------------------------------------------------

// A 16-bit pattern with `fraction` fraction bits (7: bf16, 10: f16) as a number.
inline double decode(uint16_t bits, int fraction) {
  const int exponent_bits = 15 - fraction, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> fraction & ((1 << exponent_bits) - 1), mantissa = bits & ((1 << fraction) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - fraction);
  return sign * std::ldexp(mantissa + (1 << fraction), exponent - bias - fraction);
}

// Round to nearest, ties to even; NaN becomes 0x7fff (cvt: the canonical NaN of 16-bit types).
inline uint16_t encode(double value, int fraction) {
  const int bias = (1 << (14 - fraction)) - 1;
  if (std::isnan(value)) return 0x7fff;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  const auto infinity = static_cast<uint16_t>(sign | ((2 * bias + 1) << fraction));
  if (std::isinf(magnitude)) return infinity;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(magnitude, fraction - exponent)));
  const int64_t bits = (static_cast<int64_t>(exponent + bias - 1) << fraction) + units;  // a carry moves the exponent
  return bits >= infinity - sign ? infinity : static_cast<uint16_t>(sign | bits);
}

inline uint32_t float_bits(double value) {
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

// ---- helpers of the generators ----------------------------------------------------------------------------------

// Plain use of the engine's words: the distributions of the library differ between implementations.
struct Source {
  std::mt19937 engine;
  explicit Source(uint32_t seed) : engine(seed) {}
  uint32_t word() { return static_cast<uint32_t>(engine()); }
  uint32_t below(uint32_t n) { return word() % n; }
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<uint32_t>(high - low + 1))); }
  Words words(size_t n) {
    Words result(n);
    for (uint32_t& w : result) w = word();
    return result;
  }
  Words permutation(uint32_t n) {
    Words result(n);
    std::iota(result.begin(), result.end(), 0u);
    for (uint32_t i = n; i > 1; --i) std::swap(result[i - 1], result[below(i)]);
    return result;
  }
};

// ---- ldmatrix (Warp-level matrix load instruction: ldmatrix) ------------------------------------------------------

// Threads 8i..8i+7 give the addresses of rows 0..7 of matrix i. Thread T receives of each matrix elements 2(T%4) and
// 2(T%4)+1 of row T/4; with .trans the matrix is read as column-major.
template <int Count, bool Trans>
Case ldmatrix_case(unsigned blocks) {
  Source source(100 + Count * 2 + Trans);
  Case c{.name = "ldmatrix_x" + std::to_string(Count) + (Trans ? "_trans" : ""),
         .kernel = ldmatrix<Count, Trans>,
         .grid = blocks,
         .shared_bytes = 1024};
  for (unsigned block = 0; block < blocks; ++block) {
    const Words image = source.words(256);
    Words rows = source.permutation(64);
    rows.resize(32);
    if (block % 4 == 3) rows[source.below(32)] = rows[source.below(32)];  // rows may coincide
    const auto element = [&](unsigned matrix, unsigned row, unsigned column) {
      const uint32_t word = image[rows[matrix * 8 + row] * 4 + column / 2];
      return column % 2 ? word >> 16 : word & 0xffff;
    };
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned i = 0; i < Count; ++i) {
        const unsigned major = lane >> 2, minor = (lane & 3) << 1;
        const uint32_t low = Trans ? element(i, minor, major) : element(i, major, minor);
        const uint32_t high = Trans ? element(i, minor + 1, major) : element(i, major, minor + 1);
        c.expected.push_back(low | high << 16);
      }
    if (block % 2)
      for (unsigned lane = 8 * Count; lane < 32; ++lane) rows[lane] = ~0u;  // these addresses are not used
    c.in.insert(c.in.end(), image.begin(), image.end());
    c.in.insert(c.in.end(), rows.begin(), rows.end());
  }
  return c;
}

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

// ---- cp.async, vector accesses, addresses -------------------------------------------------------------------------

// cp.async: the first src-size bytes come from the source, the rest of cp-size is zero. `edge`: the last source chunk
// ends after 4 bytes, with the allocation, and a source of no bytes lies far outside: neither may be read. (True on a
// GPU as well, but compute-sanitizer counts whole chunks as read, so the GPU test leaves the edge out.)
template <int Bytes, bool Sized>
Case cp_async_case(bool edge = false) {
  constexpr unsigned N = Bytes / 4;
  Source source(300 + Bytes + Sized);
  Case c{.name = "cp_async_" + std::to_string(Bytes) + (Sized ? "_sized" : "") + (edge ? "_edge" : ""),
         .kernel = cp_async<Bytes, Sized>,
         .block = 64,
         .shared_bytes = 128 * Bytes,
         .in = {4 + 64 * 3, 0, 0, 0}};
  const Words to = source.permutation(128), from = source.permutation(64), data = source.words(64 * N);
  c.expected.assign(128 * N, 0xa5a5a5a5u);
  for (unsigned thread = 0; thread < 64; ++thread) {
    uint32_t bytes = Sized ? thread % (Bytes + 1) : Bytes;
    if (edge && from[thread] == 63) bytes = 1 + bytes % 4;
    c.in.insert(c.in.end(), {to[thread], edge && bytes == 0 ? 1u << 20 : from[thread], bytes});
    for (unsigned i = 0; i < Bytes; ++i) {
      const uint32_t byte = i < bytes ? data[from[thread] * N + i / 4] >> (i % 4 * 8) & 0xff : 0;
      uint32_t& word = c.expected[to[thread] * N + i / 4];
      word = (word & ~(0xffu << (i % 4 * 8))) | byte << (i % 4 * 8);
    }
  }
  c.in.insert(c.in.end(), data.begin(), data.end() - (edge ? N - 1 : 0));
  return c;
}

inline Case cp_async_groups_case() {
  Source source(320);
  const Words in = source.words(32 * 5);
  return {.name = "cp_async_groups", .kernel = cp_async_groups, .shared_bytes = 5 * 32 * 4, .in = in, .expected = in};
}

inline Case move_case(const char* name, void (*kernel)(const uint32_t*, uint32_t*), unsigned n, size_t shared_bytes) {
  Source source(330 + n);
  Case c{.name = name, .kernel = kernel, .block = 64, .shared_bytes = shared_bytes};
  const Words from = source.permutation(64), to = source.permutation(64), data = source.words(64 * n);
  c.expected.resize(64 * n);
  for (unsigned thread = 0; thread < 64; ++thread) {
    c.in.insert(c.in.end(), {from[thread], to[thread]});
    for (unsigned i = 0; i < n; ++i) c.expected[to[thread] * n + i] = data[from[thread] * n + i];
  }
  c.in.insert(c.in.end(), data.begin(), data.end());
  return c;
}

inline Case shared_addresses_case() {
  Case c{.name = "shared_addresses", .kernel = shared_addresses, .shared_bytes = 4096};
  Source source(340);
  for (unsigned i = 0; i < 32; ++i) {
    c.in.push_back(i == 0 ? 0 : i == 1 ? 4095 : source.below(4096));
    c.expected.insert(c.expected.end(), {c.in.back(), 0});
  }
  return c;
}

// ---- barriers -----------------------------------------------------------------------------------------------------

inline Case named_barriers_case() {
  Source source(400);
  Case c{.name = "named_barriers", .kernel = named_barriers, .block = 192, .shared_bytes = 256};
  c.in = source.words(256);
  for (unsigned i = 0; i < 256; ++i) c.expected.push_back(c.in[i / 64 * 64 + 63 - i % 64]);
  for (unsigned i = 0; i < 64; ++i) c.expected.push_back(c.in[63 - i]);
  for (unsigned i = 0; i < 64; ++i) c.expected.push_back(c.in[192 + i]);
  return c;
}

// bar.red: and, or and population count of the predicates of all threads. A block of 100: the last warp has 4 threads.
inline Case block_votes_case(unsigned block) {
  Source source(410 + block);
  Case c{.name = "block_votes_" + std::to_string(block), .kernel = block_votes, .block = block};
  const unsigned odd_one = source.below(block);
  for (unsigned thread = 0; thread < block; ++thread)
    for (unsigned i = 0; i < 8; ++i) {
      const uint32_t random = source.word() << source.below(32);
      const uint32_t choices[8] = {0,           1,      thread == odd_one, thread != odd_one, thread == block - 1,
                                   0x80000000u, random, thread & 2};
      c.in.push_back(choices[i]);
    }
  unsigned count[8] = {};
  for (size_t i = 0; i < c.in.size(); ++i) count[i % 8] += c.in[i] != 0;
  for (unsigned thread = 0; thread < block; ++thread)
    for (const unsigned n : count) c.expected.insert(c.expected.end(), {n == block, n != 0, n});
  return c;
}

inline Case last_block_case(unsigned blocks) {
  Source source(420);
  Case c{.name = "last_block", .kernel = last_block, .grid = blocks, .in = source.words(blocks)};
  c.expected = {c.fill + blocks, 0};
  for (unsigned i = 0; i < blocks; ++i) c.expected.push_back(c.in[i] * 3), c.expected[1] += c.in[i] * 3;
  c.in.push_back(c.fill);
  return c;
}

// ---- shfl.sync, vote.sync -----------------------------------------------------------------------------------------

// Source lane of shfl.sync, in the ISA's terms: c is the clamp, the segment mask holds the bits above the width.
inline unsigned shuffle_source(unsigned mode, unsigned lane, unsigned b, unsigned width) {
  const unsigned bval = b & 31, segmask = (32 - width) & 31, clamp = mode == 1 ? 0 : 31;
  const int max_lane = static_cast<int>((lane & segmask) | (clamp & ~segmask)),
            min_lane = static_cast<int>(lane & segmask);
  int j = 0;
  bool valid = false;
  switch (mode) {
    case 0:
      j = min_lane | static_cast<int>(bval & ~segmask);
      valid = j <= max_lane;
      break;
    case 1:
      j = static_cast<int>(lane) - static_cast<int>(bval);
      valid = j >= max_lane;
      break;
    case 2:
      j = static_cast<int>(lane + bval);
      valid = j <= max_lane;
      break;
    default:
      j = static_cast<int>(lane ^ bval);
      valid = j <= max_lane;
      break;
  }
  return valid ? static_cast<unsigned>(j) : lane;
}

// Operands differ from lane to lane and exceed 31 at times; every source lies in the mask (else the result is
// undefined).
inline Case shuffles_case(unsigned mode, const char* name, unsigned rounds) {
  Source source(500 + mode);
  Case c{.name = std::string("shfl_") + name, .kernel = shuffles, .grid = rounds * 6};
  for (unsigned block = 0; block < c.grid; ++block) {
    const unsigned width = 1u << block % 6, mask = block < 12 ? ~0u : source.word() | 1u << source.below(32);
    c.in.insert(c.in.end(), {mask, mode, width, 0});
    Words from(32);
    const bool uniform = block % 2;
    const unsigned shared_operand = source.below(width + 1);
    for (unsigned lane = 0; lane < 32; ++lane) {
      uint32_t operand = uniform ? shared_operand : source.below(2) ? source.below(width) : source.below(80);
      const bool member = mask >> lane & 1;
      for (int attempt = 0; member && !(mask >> shuffle_source(mode, lane, operand, width) & 1); ++attempt)
        operand = attempt < 200 ? source.below(width) : mode == 0 ? lane : 0;  // at last: its own value
      from[lane] = shuffle_source(mode, lane, operand, width);
      c.in.push_back(operand);
    }
    const Words values = source.words(32);
    c.in.insert(c.in.end(), values.begin(), values.end());
    for (unsigned lane = 0; lane < 32; ++lane) {
      const uint32_t v = values[from[lane]], n = c.fill;
      if (mask >> lane & 1)
        c.expected.insert(c.expected.end(), {v, v, ~v, v});
      else
        c.expected.insert(c.expected.end(), {n, n, n, n});
    }
  }
  return c;
}

// Lanes outside the mask count for nothing: 0 in a ballot, nothing in any and all. So do lanes that have exited.
inline Case votes_case(unsigned blocks) {
  Source source(520);
  Case c{.name = "votes", .kernel = votes, .grid = blocks, .shared_bytes = 128};
  for (unsigned block = 0; block < blocks; ++block) {
    const uint32_t mask = block == 0 ? ~0u : source.word() | 1u << source.below(32);
    const uint32_t stay = block % 3 == 0 ? ~0u : source.word() | 1u << source.below(32);
    c.in.insert(c.in.end(), {mask, stay});
    uint32_t ballot = 0;
    for (unsigned lane = 0; lane < 32; ++lane) {
      const bool truth = block % 4 == 1 ? true : block % 4 == 2 ? false : source.below(2);
      c.in.push_back(truth ? source.word() | 0x80000000u : 0);
      ballot |= static_cast<uint32_t>(truth) << lane;
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
      const bool member = mask >> lane & 1, stays = stay >> lane & 1;
      c.expected.push_back(member ? ballot & mask : c.fill);
      c.expected.push_back(member ? (ballot & mask) != 0 : c.fill);
      c.expected.push_back(member ? (ballot & mask) == mask : c.fill);
      c.expected.push_back(ballot & (lane < 16 ? 0xffffu : 0xffff0000u));
      c.expected.push_back(stays ? ballot & stay : c.fill);
      c.expected.push_back(stays ? c.in[block * 34 + 2 + (lane ^ 1)] : c.fill);
    }
  }
  return c;
}

// ---- atom ---------------------------------------------------------------------------------------------------------

template <class T>
Case atomics_case(const char* name, unsigned blocks, uint32_t fill = 0xdeadbeefu) {
  Source source(600 + sizeof(T));
  Case c{.name = std::string("atomics_") + name,
         .kernel = atomics<T>,
         .grid = blocks,
         .block = 64,
         .shared_bytes = 9 * sizeof(T),
         .fill = fill};
  std::vector<T> values(blocks * 64);
  const int range = std::is_integral_v<T> ? 1000000 : 1000;  // fp32 sums stay exact
  for (T& v : values) v = static_cast<T>(source.between(-range, range) * (sizeof(T) == 8 ? 0x100000001ll : 1));
  c.in.resize(values.size() * sizeof(T) / 4);
  std::memcpy(c.in.data(), values.data(), values.size() * sizeof(T));
  std::vector<T> out(8 + blocks * (8 + 64 * 6));
  c.expected.assign(out.size() * sizeof(T) / 4, fill);
  std::memcpy(out.data(), c.expected.data(), out.size() * sizeof(T));
  const auto update = [](T* slots, T v) {
    slots[0] = static_cast<T>(slots[0] + v);
    if constexpr (std::is_integral_v<T>) {
      slots[1] = v < slots[1] ? v : slots[1], slots[2] = v > slots[2] ? v : slots[2];
      slots[3] &= v, slots[4] |= v, slots[5] ^= v, slots[6] = static_cast<T>(slots[6] + v);
    }
  };
  for (unsigned block = 0; block < blocks; ++block) {
    T* const results = out.data() + 8 + block * (8 + 64 * 6);
    for (int slot = 0; slot < 7; ++slot) results[slot] = static_cast<T>(slot + 1);
    results[7] = static_cast<T>(8 + 9);
    for (unsigned thread = 0; thread < 64; ++thread) {
      const T v = values[block * 64 + thread];
      T* const mine = results + 8 + thread * 6;
      update(out.data(), v);
      update(results, v);
      results[7] = static_cast<T>(results[7] + v);  // in total, each value goes in once
      mine[1] = std::exchange(mine[0], v);
      if constexpr (std::is_integral_v<T>) mine[3] = std::exchange(mine[2], v), mine[5] = mine[4];
    }
  }
  std::memcpy(c.expected.data(), out.data(), out.size() * sizeof(T));
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

// ---- all of them --------------------------------------------------------------------------------------------------

// Of instructions.cuh. `brief`: fewer blocks, for runs where every simulated thread costs a millisecond.
inline std::vector<Case> basic_cases(bool brief) {
  const unsigned few = brief ? 2 : 16;
  std::vector<Case> all = {ldmatrix_case<1, false>(few),
                           ldmatrix_case<2, false>(few),
                           ldmatrix_case<4, false>(few),
                           ldmatrix_case<1, true>(few),
                           ldmatrix_case<2, true>(few),
                           ldmatrix_case<4, true>(few),
                           cp_async_case<4, false>(),
                           cp_async_case<8, false>(),
                           cp_async_case<16, false>(),
                           cp_async_case<4, true>(),
                           cp_async_case<8, true>(),
                           cp_async_case<16, true>(),
                           cp_async_groups_case(),
                           move_case("move_global_1", move_global<1>, 1, 0),
                           move_case("move_global_2", move_global<2>, 2, 0),
                           move_case("move_global_4", move_global<4>, 4, 0),
                           move_case("move_shared", move_shared, 4, 1024),
                           shared_addresses_case(),
                           named_barriers_case(),
                           block_votes_case(128),
                           block_votes_case(100),
                           last_block_case(brief ? 3 : 16),
                           shuffles_case(0, "index", brief ? 3 : 8),
                           shuffles_case(1, "up", brief ? 3 : 8),
                           shuffles_case(2, "down", brief ? 3 : 8),
                           shuffles_case(3, "xor", brief ? 3 : 8),
                           votes_case(brief ? 5 : 32),
                           atomics_case<int>("int", brief ? 2 : 6),
                           atomics_case<unsigned>("unsigned", brief ? 2 : 6),
                           atomics_case<unsigned long long>("unsigned_long_long", brief ? 2 : 6),
                           atomics_case<float>("float", brief ? 1 : 6, 0),
                           integers_case(),
                           conversions_case(4096),
                           decodings_case()};
  const char* const names[] = {"integers", "near_one", "wide", "special", "subnormal"};
  for (const Values v : {Values::integers, Values::near_one, Values::wide, Values::special, Values::subnormal}) {
    const char* const name = names[static_cast<int>(v)];
    all.insert(all.end(), {mma_case<bf16, false>(v, name, few), mma_case<bf16, true>(v, name, few),
                           mma_case<f16, false>(v, name, few), mma_case<f16, true>(v, name, few)});
  }
  return all;
}

// Is the device of this build of the compute capability that the case needs? The message says why not.
inline Status device_suits(const Case& c) {
  DeviceInfo info;
  if (Status s = device_info(info); !s) return s;
  const auto version = [](int capability) {
    return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  };
  const int here = 10 * info.major + info.minor;
  if (here >= c.capability) return {};
  return unsupported(c.name + ": needs compute capability " + version(c.capability) + " or later; this device has " +
                     version(here));
}

// Runs a case on the device of this build; `out` gets exactly as many words as are expected.
inline Status run(const Case& c, Words& out) {
  struct Memory {
    uint32_t *in = nullptr, *out = nullptr;
    ~Memory() { (void)cudaFree(in), (void)cudaFree(out); }
  } device;
  out.assign(c.expected.size(), c.fill);
  const size_t in_bytes = c.in.size() * 4, out_bytes = out.size() * 4;
  cudaError_t error = cudaMalloc(reinterpret_cast<void**>(&device.in), in_bytes);
  if (error == cudaSuccess) error = cudaMalloc(reinterpret_cast<void**>(&device.out), out_bytes);
  if (error == cudaSuccess) error = cudaMemcpy(device.in, c.in.data(), in_bytes, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) error = cudaMemcpy(device.out, out.data(), out_bytes, cudaMemcpyHostToDevice);
  if (error != cudaSuccess) return runtime_status(error, c.name + ": memory");
  const uint32_t* const in = device.in;
  if (Status s = c.start ? c.start(c, in, device.out) : launch(c.kernel, shape(c), nullptr, in, device.out); !s)
    return s;
  error = cudaDeviceSynchronize();
  if (error == cudaSuccess) error = cudaMemcpy(out.data(), device.out, out_bytes, cudaMemcpyDeviceToHost);
  return runtime_status(error, c.name);
}

// ---- comparisons: empty, or how many words are wrong and the first of them ------------------------------------------

template <class Wrong>
std::string first_wrong(const Case& c, const Words& got, const Words& wanted, const char* from, Wrong wrong) {
  if (got.size() != wanted.size())
    return c.name + ": " + std::to_string(got.size()) + " words, " + from + " " + std::to_string(wanted.size());
  size_t count = 0, first = 0;
  for (size_t i = got.size(); i-- > 0;)
    if (wrong(i)) ++count, first = i;
  if (count == 0) return "";
  char text[200];
  std::snprintf(text, sizeof text, "%s: %zu of %zu words are wrong, first word %zu: 0x%08x (%g), %s 0x%08x (%g)",
                c.name.c_str(), count, got.size(), first, got[first], std::bit_cast<float>(got[first]), from,
                wanted[first], std::bit_cast<float>(wanted[first]));
  return text;
}

// `x` is a fp32 result for an exact value: the same NaN-ness, the same infinity, or within the bound.
inline bool within(float x, double exact, double bound) {
  if (std::isnan(exact)) return std::isnan(x);
  return std::isinf(exact) ? x == exact : std::fabs(x - exact) <= bound;
}

inline std::string compare_with_reference(const Case& c, const Words& got) {
  if (c.exact.empty())
    return first_wrong(c, got, c.expected, "expected", [&](size_t i) { return got[i] != c.expected[i]; });
  Words wanted(c.exact.size());
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = float_bits(c.exact[i]);
  return first_wrong(c, got, wanted, "expected about",
                     [&](size_t i) { return !within(std::bit_cast<float>(got[i]), c.exact[i], c.bound[i]); });
}

// Two devices: bit for bit, or each within the bound of the exact value, so within twice the bound of one another.
inline std::string compare_devices(const Case& c, const Words& gpu, const Words& simulated, double& worst) {
  return first_wrong(c, gpu, simulated, "simulated", [&](size_t i) {
    if (c.exact.empty()) return gpu[i] != simulated[i];
    const float x = std::bit_cast<float>(gpu[i]), y = std::bit_cast<float>(simulated[i]);
    if (c.bound[i] > 0 && std::isfinite(c.exact[i])) worst = std::max(worst, std::fabs(double(x) - y) / c.bound[i]);
    return std::isnan(x) != std::isnan(y) || !(std::isnan(x) || within(x, y, 2 * c.bound[i]));
  });
}

}  // namespace grout::instructions
