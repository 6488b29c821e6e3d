// Accumulators of wgmma, m64n8 to m64n256, and its operand A from registers.
#include <utility>

#include "tests/host/reduction_brute_force.h"

namespace grout::test {
namespace {

using Problem = ReductionProblem;

template <int N> void expect_accumulator() {
  using D = WgmmaM64C<N>;
  static_assert(D::threads == 128 && D::slots == N / 2 && D::shape == Coordinate<2>{64, N});
  // PTX ISA 9.7.15.5.1: row = 16 warp + groupID (+ 8), column = 8 (i / 4) + 2 threadID_in_group + i % 2
  for (int thread = 0; thread < 128; ++thread)
    for (int i = 0; i < D::slots; ++i)
      ASSERT_EQ(D::at(thread, i), (Coordinate<2>{16 * (thread >> 5) + (thread % 32 >> 2) + 8 * (i >> 1 & 1),
                                                 8 * (i >> 2) + 2 * (thread % 4) + (i & 1)}));
  expect_reduction<D, 1>(Problem::none);
  expect_slot_map<D, Reduced<D, 1>>(true);
}
TEST(ReductionWgmma, Accumulators) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (expect_accumulator<8 * (I + 1)>(), ...); }
  (std::make_integer_sequence<int, 32>{});
}
TEST(ReductionWgmma, ColumnsSpanTheWarps) {
  expect_reduction<WgmmaM64C<8>, 0>(Problem::spans_warps);
  expect_reduction<WgmmaM64C<128>, 0>(Problem::spans_warps);
}
TEST(ReductionWgmma, OperandA) {
  for (int thread = 0; thread < 128; ++thread)
    for (int i = 0; i < 8; ++i)
      ASSERT_EQ(WgmmaM64K16A::at(thread, i), (Coordinate<2>{16 * (thread >> 5) + (thread % 32 >> 2) + 8 * (i >> 1 & 1),
                                                            8 * (i >> 2) + 2 * (thread % 4) + (i & 1)}));
  static_assert(WgmmaM64K16A::shape == Coordinate<2>{64, 16});
  expect_reduction<WgmmaM64K16A, 1>(Problem::none);
  expect_reduction<WgmmaM64K16A, 0>(Problem::spans_warps);
  expect_slot_map<WgmmaM64K16A, WgmmaM64C<16>>(true);
  expect_slot_map<WarpTiled<MmaM16N8K16A, 4, 1, 1, 4>, WgmmaM64C<64>>(true);
  expect_slot_map<WgmmaM64K16A, WgmmaM64C<24>>(false);
}

}  // namespace
}  // namespace grout::test
