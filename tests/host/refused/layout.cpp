// Layouts that must not compile, and what the compiler is made to say. CASE 0 compiles.
#include "common/layout.cuh"
#include "common/numeric.cuh"

using namespace grout;

constexpr auto tile64 = row_major(shape(64_c, 64_c));
constexpr auto swizzled = compose(Swizzle128B<bf16>{}, tile64);
static_assert(swizzled(1_c, 8_c) == 64);

#if CASE == 1  // expect: a layout's shape and stride must have the same structure
auto bad = layout(shape(4_c, 8_c), stride(1_c));
#endif
#if CASE == 2  // expect: a layout's shape and stride must have the same structure
auto bad = layout(shape(shape(2_c, 2_c), 8_c), stride(1_c, 4_c));
#endif
#if CASE == 3  // expect: a layout needs a shape(...) and a stride(...)
Layout<Int<4>, Int<1>> bad;
#endif
#if CASE == 4  // expect: _c marks a decimal integer literal
auto bad = 0x40_c;
#endif
#if CASE == 5  // expect: _c marks a decimal integer literal
auto bad = 1.5_c;
#endif
#if CASE == 6  // expect: a coordinate needs one entry for each mode of the shape
auto bad = tile64(1, 2, 3);
#endif
#if CASE == 7  // expect: a coordinate may not be more deeply nested than the shape
auto bad = tile64(coord(1, 2), 3);
#endif
#if CASE == 8  // expect: a swizzle's source bits must lie above its target bits: Shift >= Bits
auto bad = Swizzle<3, 3, 2>{}(8);
#endif
#if CASE == 9  // expect: a swizzle has no negative number of bits
auto bad = Swizzle<-1, 3, 3>{}(8);
#endif
#if CASE == 10  // expect: this layout is swizzled already; a tile has one swizzle, applied last
auto bad = compose(Swizzle64B<bf16>{}, swizzled);
#endif
#if CASE == 11  // expect: a layout cannot follow a swizzle; compose the layouts first, then the swizzle
auto bad = compose(tile64, swizzled);
#endif
#if CASE == 12  // expect: the inner layout's strides and extents must divide the outer layout's extents
auto bad = compose(layout(shape(4_c, 6_c, 8_c), stride(2_c, 3_c, 5_c)), layout(shape(6_c), stride(3_c)));
#endif
#if CASE == 13  // expect: the inner layout's strides and extents must divide the outer layout's extents
auto bad = compose(layout(shape(4_c, 6_c), stride(2_c, 3_c)), layout(shape(6_c, 2_c), stride(1_c, 4_c)));
#endif
#if CASE == 14  // expect: layouts compose at compile time; mark their extents and strides static (64_c)
auto bad(int rows) { return compose(row_major(shape(rows, 64_c)), layout(shape(4_c), stride(1_c))); }
#endif
#if CASE == 15  // expect: layouts compose at compile time; mark their extents and strides static (64_c)
auto bad(int step) { return compose(tile64, layout(shape(4_c), stride(step))); }
#endif
#if CASE == 16  // expect: the inner layout's modes must not be nested
auto bad = compose(tile64, layout(shape(shape(2_c, 4_c), 8_c), stride(stride(1_c, 2_c), 8_c)));
#endif
#if CASE == 17  // expect: window: origin and shape need one entry for each mode
auto bad = window(tile64, coord(0, 0), shape(16_c));
#endif
#if CASE == 18  // expect: window: origin and shape need one entry for each mode
auto bad = window(swizzled, coord(0), shape(16_c, 16_c));
#endif
#if CASE == 19  // expect: tile: index and shape need one entry for each mode
auto bad = tile(swizzled, coord(0), shape(16_c, 16_c));
#endif
// B's two modes both step by 2 through A's first extent of 4: at (1, 1) their sum is carried into the next mode.
#if CASE == 20  // expect: the inner layout's modes must add up within the outer layout's extents, without a carry
auto bad = compose(layout(shape(4_c, 8_c), stride(1_c, 100_c)), layout(shape(2_c, 2_c), stride(2_c, 2_c)));
#endif
#if CASE == 21  // expect: the inner layout's strides and extents must divide the outer layout's extents
auto bad = compose(layout(shape(4_c, 8_c), stride(1_c, 100_c)), layout(shape(Int<6>{}), stride(Int<-2>{})));
#endif
