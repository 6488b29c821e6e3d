// The cases of the tests of fragments on a device: what fragment_kernels.cuh must give, from loops over the tile.
#pragma once
#include <string>
#include <vector>

#include "tests/kernels/device_cases.h"
#include "tests/kernels/fragment_kernels.cuh"

namespace grout::test {

using instructions::Case;
using instructions::Source;
using instructions::Words;

// Integers, as int or as floats whose sums are exact.
template <class T, class O, int Axis, class Held = O> Case reductions_case(const char* name) {
  constexpr bool kFloats = std::is_same_v<T, float>;
  Case c{.name = std::string(name) + "_axis" + std::to_string(Axis) + (kFloats ? "_float" : "_int"),
         .kernel = reductions<T, O, Axis, Held>,
         .block = Held::threads};
  int size = 1;
  for (int a = 0; a < Held::axes; ++a) size *= Held::shape[a];
  Source source(900 + static_cast<uint32_t>(size) + Axis);
  std::vector<int> tile;
  for (int i = 0; i < size; ++i) tile.push_back(source.between(-1000, 1000));
  const auto word = [](int value) { return kFloats ? instructions::float_bits(value) : static_cast<uint32_t>(value); };
  for (const int value : tile) c.in.push_back(word(value));
  for (int thread = 0; thread < Held::threads; ++thread) {
    for (int s = 0; s < Held::slots; ++s) {
      auto at = Held::at(thread, s);
      const int mine = tile[static_cast<size_t>(place<Held>(at))];
      int sum = 0, most = -10000, crossed = 0;
      for (int i = 0; i < Held::shape[Axis]; ++i) {
        at.value[Axis] = i;
        const int value = tile[static_cast<size_t>(place<Held>(at))];
        sum += value, most = std::max(most, value), crossed ^= value;
      }
      c.expected.insert(c.expected.end(), {word(sum), word(most), word(sum), word(mine - most), word(kFloats ? sum : crossed)});
    }
  }
  return c;
}

template <class T> Case times_unit_case(const char* name) {
  Case c{.name = std::string("times_unit_") + name, .kernel = times_unit<T>};
  Source source(950);
  for (int i = 0; i < 256; ++i) c.in.push_back(instructions::float_bits(source.between(-128, 128)));
  c.expected = c.in;
  return c;
}

// Each power of two within 2 ulp, 16 of them added.
inline Case masked_softmax_case(int limit) {
  Case c{.name = "masked_softmax_" + std::to_string(limit), .kernel = masked_softmax_sums};
  Source source(960);
  std::vector<float> x;
  for (int i = 0; i < 256; ++i) {
    x.push_back(static_cast<float>(source.between(-4000, 4000)) / 256);
    c.in.push_back(instructions::float_bits(x.back()));
  }
  c.in.push_back(static_cast<uint32_t>(limit));
  for (int row = 0; row < 16; ++row) {
    double most = -INFINITY, sum = 0;
    for (int n = 0; n < limit; ++n) most = std::max<double>(most, x[static_cast<size_t>(16 * row + n)]);
    for (int n = 0; n < limit; ++n) sum += std::exp2(x[static_cast<size_t>(16 * row + n)] - most);
    c.exact.push_back(sum);
    c.bound.push_back(sum * (2.5 + 15) * 0x1p-23);
  }
  c.expected.resize(16);
  return c;
}

template <class O, int Axis> void add(std::vector<Case>& all, const char* name) {
  all.push_back(reductions_case<int, O, Axis>(name));
  all.push_back(reductions_case<float, O, Axis>(name));
}
template <int Count, bool T> void add_ldmatrix(std::vector<Case>& all, const char* name) {
  add<Ldmatrix<Count, T>, 0>(all, name), add<Ldmatrix<Count, T>, 1>(all, name), add<Ldmatrix<Count, T>, 2>(all, name);
}
inline std::vector<Case> fragment_cases() {
  std::vector<Case> all;
  add<MmaM16N8K16A, 0>(all, "a"), add<MmaM16N8K16A, 1>(all, "a");
  add<MmaM16N8K16B, 0>(all, "b"), add<MmaM16N8K16B, 1>(all, "b");
  add<MmaM16N8K16C, 0>(all, "c"), add<MmaM16N8K16C, 1>(all, "c");
  add_ldmatrix<1, false>(all, "ldmatrix_x1"), add_ldmatrix<1, true>(all, "ldmatrix_x1_trans");
  add_ldmatrix<2, false>(all, "ldmatrix_x2"), add_ldmatrix<2, true>(all, "ldmatrix_x2_trans");
  add_ldmatrix<4, false>(all, "ldmatrix_x4"), add_ldmatrix<4, true>(all, "ldmatrix_x4_trans");
  using Warp = WarpTiled<MmaM16N8K16C, 1, 1, 2, 8>;
  add<Warp, 0>(all, "tiled_1x1_2x8"), add<Warp, 1>(all, "tiled_1x1_2x8");
  add<WarpTiled<MmaM16N8K16C, 4, 1, 2, 3>, 1>(all, "tiled_4x1_2x3");
  add<WarpTiled<MmaM16N8K16C, 1, 3, 2, 3>, 0>(all, "tiled_1x3_2x3");
  add<WarpTiled<MmaM16N8K16A, 2, 1, 1, 4>, 1>(all, "tiled_a_2x1_1x4");
  add<WgmmaM64C<8>, 1>(all, "wgmma_n8"), add<WgmmaM64C<64>, 1>(all, "wgmma_n64"), add<WgmmaM64C<200>, 1>(all, "wgmma_n200");
  add<WgmmaM64K16A, 1>(all, "wgmma_a");
  add<VectorTiled<16, 32, 1, 8, 32>, 0>(all, "vectors"), add<VectorTiled<16, 32, 1, 8, 32>, 1>(all, "vectors");
  add<VectorTiled<32, 8, 0, 8, 32>, 1>(all, "vectors_down");
  add<Reduced<Warp, 1>, 0>(all, "reduced"), add<Reduced<Warp, 1>, 1>(all, "reduced");
  add<SlotsReduced<Warp, 1>, 0>(all, "slots_reduced"), add<SlotsReduced<Warp, 1>, 1>(all, "slots_reduced");
  add<Pairs<MmaM16N8K16A>, 0>(all, "pairs");
  add<Backward, 0>(all, "backward"), add<Backward, 1>(all, "backward");
  add<CopiedSlots, 0>(all, "copied_slots"), add<CopiedSlots, 1>(all, "copied_slots");
  add<CopiedLanes, 0>(all, "copied_lanes"), add<CopiedLanes, 1>(all, "copied_lanes");
  add<TmemRows, 0>(all, "tmem_rows"), add<TmemRows, 1>(all, "tmem_rows");
  add<OneThread, 0>(all, "one_thread"), add<OneThread, 1>(all, "one_thread");
  all.push_back(times_unit_case<bf16>("bf16")), all.push_back(times_unit_case<f16>("f16"));
  for (const int limit : {1, 7, 8, 16}) all.push_back(masked_softmax_case(limit));
  return all;
}

// Floats whose sums depend on their order: what a device gives once it must give again, bit for bit.
inline Case rounded_case() {
  Case c = reductions_case<float, WarpTiled<MmaM16N8K16C, 1, 1, 2, 8>, 1>("rounded");
  Source source(970);
  for (uint32_t& word : c.in) word = (source.word() & 0x807fffffu) | static_cast<uint32_t>(source.between(110, 140)) << 23;
  return c;
}

// A table that takes lane bits 2 and 4 for columns, where the values are held by bits 1 and 2: every sum is wrong.
struct WrongLaneBit {
  static constexpr int threads = 32, slots = 4, axes = 2;
  static constexpr Coordinate<2> shape{16, 8};
  static constexpr Coordinate<2> at(int lane, int slot) {
    return {(lane & 1) + (lane >> 3) * 2 + 8 * (slot / 2), 2 * (lane >> 1 & 3) + slot % 2};
  }
};
inline Case wrong_lane_bit_case() { return reductions_case<int, WrongLaneBit, 1, MmaM16N8K16C>("wrong_lane_bit"); }

}  // namespace grout::test
