// Copy plans and copies that must not compile. CASE 0 compiles.
#include "common/copy.cuh"

using namespace grout;

using Tile = decltype(compose(Swizzle64B<bf16>{}, row_major(shape(64_c, 32_c))));
using Plan = CopyPlan<bf16, Tile, 128>;
static_assert(Plan::vector == 8);
inline void accepted(bf16* shared, const bf16* global) {
  copy_async(Plan{}, shared, view(global, layout(shape(65, 73), stride(int64_t{73}, 1_c))), {64, 64}, 0);
}

#if CASE == 1  // expect: copy plan: elements of 2 or 4 bytes
auto bad = CopyPlan<double, decltype(row_major(shape(8_c, 8_c))), 32>::vector;
#endif
#if CASE == 2  // expect: copy plan: elements of 2 or 4 bytes
auto bad = CopyPlan<char, decltype(row_major(shape(8_c, 16_c))), 32>::vector;
#endif
#if CASE == 3  // expect: copy plan: the destination must be a two-dimensional tile
auto bad = CopyPlan<bf16, decltype(layout(shape(64_c), stride(1_c))), 32>::vector;
#endif
#if CASE == 4  // expect: copy plan: the destination's extents, strides and window origin must be static (64_c)
auto bad = CopyPlan<bf16, decltype(row_major(shape(64, 32))), 32>::vector;
#endif
#if CASE == 5  // expect: copy plan: the destination's extents, strides and window origin must be static (64_c)
auto bad = CopyPlan<bf16, decltype(window(Tile{}, coord(16, 0), shape(16_c, 32_c))), 32>::vector;
#endif
#if CASE == 6  // expect: copy plan: each 16-byte vector must be contiguous and 16-byte aligned in the destination, swizzle included
using Strided = decltype(layout(shape(64_c, 32_c), stride(64_c, 2_c)));
auto bad = CopyPlan<bf16, Strided, 32>::vector;
#endif
// Rows of 36 elements: the second row's vectors lie 8 bytes off.
#if CASE == 7  // expect: copy plan: each 16-byte vector must be contiguous and 16-byte aligned in the destination, swizzle included
using Padded = decltype(layout(shape(64_c, 32_c), stride(36_c, 1_c)));
auto bad = CopyPlan<bf16, Padded, 32>::vector;
#endif
// A swizzle of 4-byte chunks tears 16-byte vectors apart.
#if CASE == 8  // expect: copy plan: each 16-byte vector must be contiguous and 16-byte aligned in the destination, swizzle included
using Torn = decltype(compose(Swizzle<3, 1, 5>{}, row_major(shape(64_c, 64_c))));
auto bad = CopyPlan<bf16, Torn, 32>::vector;
#endif
// A window that starts in the middle of a 16-byte chunk.
#if CASE == 9  // expect: copy plan: each 16-byte vector must be contiguous and 16-byte aligned in the destination, swizzle included
auto bad = CopyPlan<bf16, decltype(window(Tile{}, coord(0_c, 4_c), shape(16_c, 16_c))), 32>::vector;
#endif
#if CASE == 10  // expect: VectorTiled: the tile's extent along the vectors must be a multiple of the vector
auto bad = CopyPlan<bf16, decltype(row_major(shape(8_c, 12_c))), 32>::vector;
#endif
#if CASE == 11  // expect: copy_async: source and destination must have the plan's element type
void bad(bf16* shared, const f16* global) {
  copy_async(Plan{}, shared, view(global, layout(shape(65, 73), stride(int64_t{73}, 1_c))), {64, 64}, 0);
}
#endif
// The shared destination has the plan's element type.
#if CASE == 12  // expect: cannot convert
void bad(float* shared, const bf16* global) {
  copy_async(Plan{}, shared, view(global, layout(shape(65, 73), stride(int64_t{73}, 1_c))), {64, 64}, 0);
}
#endif
