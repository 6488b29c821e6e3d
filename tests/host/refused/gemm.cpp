// GEMM tiles that must not compile: each would compute something wrong. CASE 0 compiles.
#include "gemm/gemm_mma.cuh"

using namespace grout;

static_assert(GemmMmaTile<64, 64, 32, 2, 2, 4>::threads == 128);
using Operand = GemmOperandTile<bf16, 128, 32, false>::Layout;

#if CASE == 1  // expect: GEMM tile: M must be a multiple of 16 rows for each warp row
auto bad = GemmMmaTile<72, 64, 32, 2, 2, 4>::threads;
#endif
#if CASE == 2  // expect: GEMM tile: N must be a multiple of 16 columns for each warp column
auto bad = GemmMmaTile<64, 104, 32, 2, 4, 4>::threads;
#endif
#if CASE == 3  // expect: GEMM tile: realigned vectors are stored one k-tile late, which needs 3 stages
auto bad = GemmMmaTile<64, 64, 32, 2, 2, 2>::threads;
#endif
#if CASE == 4  // expect: k-major operand tile: rows must be 64 or 128 bytes long
GemmOperandTile<bf16, 128, 16, true>::Layout bad;
#endif
#if CASE == 5  // expect: k-major operand tile: rows must be 64 or 128 bytes long
GemmOperandTile<float, 128, 64, true>::Layout bad;
#endif
#if CASE == 6  // expect: m-major operand tile: a column must fill whole 128-byte bank lines
GemmOperandTile<bf16, 48, 32, false>::Layout bad;
#endif
// A K of 24 is one and a half steps of the instruction: the last 8 products would be dropped.
#if CASE == 7  // expect: GEMM tile: K must be a multiple of the instruction's 16, or products would be dropped
auto bad = GemmMmaTile<64, 64, 24, 2, 2, 4>::threads;
#endif
#if CASE == 8  // expect: GEMM tile: the strips of all warps must fit into one stage
float* bad(GemmMmaStorage<bf16, GemmMmaTile<128, 32, 16, 8, 2, 4>>& storage) { return storage.strip(0); }
#endif
