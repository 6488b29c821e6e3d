// Ownerships, packing and numbers that must not compile. CASE 0 compiles.
#include "common/numeric.cuh"
#include "common/ownership.cuh"

using namespace grout;

static_assert(WarpTiled<MmaM16N8K16C, 2, 2, 2, 4>::threads == 128);
static_assert(VectorTiled<16, 104, 1, 8, 384>::vectors == 208);

#if CASE == 1  // expect: ldmatrix loads 1, 2 or 4 matrices
auto bad = Ldmatrix<3, false>::at(0, 0);
#endif
#if CASE == 2  // expect: VectorTiled: the tile's extent along the vectors must be a multiple of the vector
auto bad = VectorTiled<16, 100, 1, 8, 32>::turns;
#endif
#if CASE == 3  // expect: VectorTiled: the tile's extent along the vectors must be a multiple of the vector
auto bad = VectorTiled<12, 32, 0, 8, 32>::turns;
#endif
#if CASE == 4  // expect: VectorTiled: the vectors run along axis 0 (rows) or 1 (columns)
auto bad = VectorTiled<16, 32, 2, 8, 32>::turns;
#endif
#if CASE == 5  // expect: WarpTiled repeats a two-dimensional atom of one warp
auto bad = WarpTiled<Ldmatrix<4, false>, 1, 1, 1, 1>::slots;
#endif
#if CASE == 6  // expect: WarpTiled repeats a two-dimensional atom of one warp
auto bad = WarpTiled<VectorTiled<16, 16, 1, 8, 64>, 1, 1, 1, 1>::slots;
#endif
#if CASE == 7  // expect: WarpTiled needs at least one atom a warp
auto bad = WarpTiled<MmaM16N8K16C, 2, 2, 0, 4>::slots;
#endif
#if CASE == 8  // expect: pack: two 16-bit values make one 32-bit register
auto bad = pack<int>(1, 2);
#endif
#if CASE == 9  // expect: operand types are
auto bad(bf16 a, bf16 b) { return a + b; }
#endif
#if CASE == 10  // expect: to non-scalar type
bf16 bad = 1.0f;
#endif
