// The cases of data movement of the instruction tests: for each kernel its input and what the PTX ISA (9.0) says must come out;
// index formulas are the ISA's, written out here and in the headers beside this one (instruction_references_*.h) again and shared
// with nothing else in the project.
#pragma once
#include <bit>
#include <cstdint>
#include <string>

#include "tests/kernels/device_cases.h"
#include "tests/kernels/instructions.cuh"

namespace grout::instructions {

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

}  // namespace grout::instructions
