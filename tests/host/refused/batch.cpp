// Batched copies that must not compile. CASE 0 compiles.
#include "common/batch.cuh"

using namespace grout;

using Layout2 = decltype(row_major(shape(16_c, 20_c)));
using Tile = SharedTile<float, Layout2>;
using Plan = BatchedCopyPlan<Tile, 32, 16>;
static_assert(Plan::realised == 10);
inline void accepted(Tile& tile, const float* global) {
  copy_batched(Plan{}, tile, view(global, layout(shape(65, 73), stride(int64_t{73}, 1_c))), {64, 64}, 0);
}

#if CASE == 1  // expect: batched copy: MaxBatch (max_copy_batch) must be 1 to 16
auto bad = BatchedCopyPlan<Tile, 32, 0>::realised;
#endif
#if CASE == 2  // expect: batched copy: MaxBatch (max_copy_batch) must be 1 to 16
auto bad = BatchedCopyPlan<Tile, 32, 17>::realised;
#endif
#if CASE == 3  // expect: batched copy: MaxBatch (max_copy_batch) must be 1 to 16
auto bad = BatchedCopyPlan<Tile, 32, -4>::realised;
#endif
#if CASE == 4  // expect: batched copy: at least one worker is needed
auto bad = BatchedCopyPlan<Tile, 0, 4>::realised;
#endif
#if CASE == 5  // expect: batched copy: the source is contiguous along axis 0 (rows) or 1 (columns)
auto bad = BatchedCopyPlan<Tile, 32, 4, 2>::realised;
#endif
#if CASE == 6  // expect: shared tile: the layout's extents, strides and window origin must be static (64_c)
SharedTile<float, decltype(row_major(shape(16, 20)))> bad;
#endif
#if CASE == 7  // expect: shared tile: the layout must be two-dimensional
SharedTile<float, decltype(layout(shape(64_c), stride(1_c)))> bad;
#endif
#if CASE == 8  // expect: shared tile: every offset of the layout must be at least 0
SharedTile<float, decltype(layout(shape(16_c, 20_c), stride(Int<-20>{}, 1_c)))> bad;
#endif
#if CASE == 9  // expect: shared tile: a block has at most 227 KiB of shared memory
SharedTile<float, decltype(row_major(shape(256_c, 256_c)))> bad;
#endif
#if CASE == 10  // expect: batched copy: the destination's extents, strides and window origin must be static (64_c)
auto bad = BatchedCopyPlan<View<float, decltype(row_major(shape(16, 20)))>, 32, 4>::realised;
#endif
// A pointer says neither what it points to nor whose it is.
#if CASE == 11  // expect: incomplete type
auto bad = BatchedCopyPlan<float*, 32, 4>::realised;
#endif
#if CASE == 12  // expect: copy_batched: source and destination must have the same element type; use Converted
void bad(Tile& tile, const bf16* global) {
  copy_batched(Plan{}, tile, view(global, layout(shape(65, 73), stride(int64_t{73}, 1_c))), {64, 64}, 0);
}
#endif
