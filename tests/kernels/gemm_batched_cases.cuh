// The cases of the GEMM for the kernel that copies in batches: every tile, batches of all kinds, and what the report must
// say. For both devices.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "gemm/gemm_batched.cuh"
#include "tests/kernels/gemm_call_arguments.cuh"
#include "tests/kernels/gemm_cases.cuh"

namespace grout::test {

struct BatchedGemmCase {
  GemmCase x;
  GemmBatchedPolicy policy;
};
inline constexpr GemmBatchedTiles kBatchedTiles[] = {GemmBatchedTiles::m64n64k32, GemmBatchedTiles::m64n64k16,
                                                     GemmBatchedTiles::m32n64k32};
inline constexpr const char* kBatchedTileNames[] = {"64x64x32", "64x64x16", "32x64x32"};

inline std::string describe(const BatchedGemmCase& c) {
  return std::string("tile ") + kBatchedTileNames[static_cast<int>(c.policy.tile)] + ", batch " +
         std::to_string(c.policy.max_copy_batch) + ": " + describe(c.x);
}

// Three in five cases with the tile that is no pilot; batches 1, 4 and 16 twice as often as the others.
inline std::vector<BatchedGemmCase> batched_gemm_cases(int count, uint64_t seed,
                                                       const std::vector<int64_t>& sizes = kGemmSizes) {
  constexpr int kBatches[] = {1, 4, 16, 2, 8, 3, 1, 4, 16, 7, 15, 5, 12};
  std::mt19937_64 random(seed);
  Deck tile(5, random), batch(13, random);
  std::vector<BatchedGemmCase> cases;
  for (const GemmCase& x : gemm_cases(count, seed, sizes, {ElementType::f32})) {
    BatchedGemmCase c{x, {kBatchedTiles[std::max(0, tile.deal() - 2)], kBatches[batch.deal()]}};
    if (c.x.bounds == CallBounds::none) c.policy.tile = GemmBatchedTiles::m64n64k32;
    cases.push_back(c);
  }
  return cases;
}

// What the report must say, from the sizes of the tiles: 256 threads, kernels for 1, 2, 4 and 8.
inline std::string check_batched_report(const BatchedGemmCase& c, const GemmBatchedReport& r) {
  const int m = c.policy.tile == GemmBatchedTiles::m32n64k32 ? 32 : 64, n = 64,
            k = c.policy.tile == GemmBatchedTiles::m64n64k16 ? 16 : 32;
  const int asked = c.policy.max_copy_batch, compiled = asked >= 8 ? 8 : asked >= 4 ? 4 : asked >= 2 ? 2 : 1;
  const auto right = [&](const BatchReport& b, int elements) {
    const int chunks = elements / 256, realised = std::min(compiled, chunks);
    const BatchReason reason = realised == asked                    ? BatchReason::none
                               : realised < std::min(asked, chunks) ? BatchReason::compiled
                                                                    : BatchReason::few_chunks;
    return b.requested == asked && b.realised == realised && b.transformed == (realised > 1) &&
           b.complete_chunks == chunks && b.groups == (realised > 1 ? chunks / realised : 0) &&
           b.guarded_chunks == (realised > 1 ? 0 : chunks) && b.reason == reason;
  };
  if (!right(r.a, m * k)) return "what is reported of A's copy: " + batch_text({r.a});
  if (!right(r.b, n * k)) return "what is reported of B's copy: " + batch_text({r.b});
  if (r.transformed() != r.a.transformed + r.b.transformed) return "the number of transformed operations";
  if (r.pilot != (c.policy.tile != GemmBatchedTiles::m64n64k32)) return "whether the tile is a pilot";
  if (r.choice.tiles == 0) return "";
  if (r.choice.tile_m != m || r.choice.tile_n != n || r.choice.tile_k != k) return "the tile";
  if (r.choice.tiles != (c.x.m + m - 1) / m * ((c.x.n + n - 1) / n) * c.x.batch) return "the number of tiles";
  if (r.choice.shared_bytes != static_cast<size_t>(m * n + m * k + n * k) * 4) return "the shared memory";
  const int64_t depth = c.x.alpha == 0 ? 0 : c.x.k;
  const bool full = c.x.m % m == 0 && c.x.n % n == 0 && depth % k == 0 && !r.pilot && c.x.bounds != CallBounds::checked;
  return r.choice.path == (full ? GemmPath::aligned : GemmPath::bounded) ? "" : "the path";
}

// Runs a case; says what is wrong, nothing if all is right.
inline std::string run_batched_gemm(const BatchedGemmCase& c, size_t guard = 256, GemmBatchedReport* report = nullptr) {
  const GemmData data(c.x, guard);
  GemmBatchedReport done;
  if (const Status status = gemm_batched(arguments(data.call()), c.policy, nullptr, &done); !status)
    return describe(c) + ": " + status.message;
  const Comparison result = data.verify();
  if (report != nullptr) *report = done;
  if (!result.pass()) return describe(c) + ": " + result.message;
  const std::string wrong = check_batched_report(c, done);
  return wrong.empty() ? "" : describe(c) + ": wrong is " + wrong;
}

// Every kernel that the host entry can launch.
template <class Tile, bool TransA, bool TransB, int Batch> void add_batched_gemm_kernels(std::vector<const void*>& all) {
  all.push_back(reinterpret_cast<const void*>(&gemm_batched_kernel<Tile, TransA, TransB, Batch, Bounds::checked>));
  if constexpr (!Tile::pilot)
    all.push_back(reinterpret_cast<const void*>(&gemm_batched_kernel<Tile, TransA, TransB, Batch, Bounds::none>));
}
template <class Tile, bool TransA, bool TransB> void add_batched_gemm_kernels(std::vector<const void*>& all) {
  add_batched_gemm_kernels<Tile, TransA, TransB, 1>(all), add_batched_gemm_kernels<Tile, TransA, TransB, 2>(all);
  add_batched_gemm_kernels<Tile, TransA, TransB, 4>(all), add_batched_gemm_kernels<Tile, TransA, TransB, 8>(all);
}
template <class Tile> void add_batched_gemm_kernels(std::vector<const void*>& all) {
  add_batched_gemm_kernels<Tile, false, false>(all), add_batched_gemm_kernels<Tile, false, true>(all);
  add_batched_gemm_kernels<Tile, true, false>(all), add_batched_gemm_kernels<Tile, true, true>(all);
}
inline std::vector<const void*> batched_gemm_kernels() {
  std::vector<const void*> all;
  add_batched_gemm_kernels<GemmBatched64x64x32>(all), add_batched_gemm_kernels<GemmBatched64x64x16>(all);
  add_batched_gemm_kernels<GemmBatched32x64x32>(all);
  return all;
}

}  // namespace grout::test
