// The cases of the instruction tests in which threads meet: barriers, shuffles and votes, atomics. As in
// instruction_references.h.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/kernels/instruction_references.h"
#include "tests/kernels/instructions.cuh"

namespace grout::instructions {

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

// PTX ISA, shfl.sync with .bfly, c = 0x1f: maxLane is 31, and j = %laneid XOR b, of which the low five bits of b count.
inline Case exchanges_case() {
  Source source(510);
  Case c{.name = "shfl_bfly", .kernel = exchanges, .grid = 35};
  for (unsigned block = 0; block < c.grid; ++block) {
    const uint32_t b = block < 32 ? block : block == 32 ? 37 : block == 33 ? 64 + 16 : ~0u;
    const Words values = source.words(32);
    c.in.push_back(b);
    c.in.insert(c.in.end(), values.begin(), values.end());
    for (uint32_t lane = 0; lane < 32; ++lane) c.expected.insert(c.expected.end(), 3, values[lane ^ (b & 31)]);
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

}  // namespace grout::instructions
