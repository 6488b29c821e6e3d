// Bounded copies and stores on the simulated device: seeded cases over every factor of the contract, the worked edge of it
// counted, the crop's host entry, and mutants of the pipelines in which copies are used.
#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/copy_kernels.cuh"
#include "tests/kernels/crop_cases.cuh"
#include "tests/kernels/store_kernels.cuh"
#include "tests/sim/modes.h"

namespace grout::test {
namespace {

class Copy : public SimulatedTest {};

TEST_F(Copy, SeededCopies) {
  const int cases = thread_sanitizer() ? 60 : 2240, least = thread_sanitizer() ? 20 : 400;
  FactorCounts factors;
  std::set<std::string> modes;
  int64_t ran = 0, async = 0, filled = 0;
  for (const CopyCase& x : copy_cases(cases, 1)) {
    use(x.schedule, x.seed);
    CopyData data(x, guard());
    const Status status = data.variant.launch(data.request(), nullptr);
    ASSERT_TRUE(status) << describe(x) << ": " << status.message;
    ASSERT_EQ(data.verify(), "");
    // As many 16-byte copies as the contract demands, and none of another size.
    EXPECT_EQ(sim::statistics().cp_async_16, static_cast<uint64_t>(data.async)) << describe(x);
    EXPECT_EQ(sim::statistics().cp_async_filled, static_cast<uint64_t>(data.async_filled)) << describe(x);
    EXPECT_EQ(sim::statistics().cp_async_4 + sim::statistics().cp_async_8, 0u) << describe(x);
    count_copy_factors(factors, x);
    modes.insert(mode());
    ++ran, async += data.async, filled += data.async_filled;
  }
  std::printf("%lld copies of %zu kernels, %lld cp.async (%lld filled with zeros), %zu schedules\n",
              static_cast<long long>(ran), copy_variants().size(), static_cast<long long>(async),
              static_cast<long long>(filled), modes.size());
  EXPECT_GE(ran, least);
  if (thread_sanitizer()) {
    EXPECT_EQ(modes, (std::set<std::string>{"warp_greedy late", "random late", "round_robin early"}));
    return;
  }
  factors.print();
  expect_copy_factors(factors);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  EXPECT_EQ(modes.size(), 10u);
  for (const CopyVariant& v : copy_variants()) EXPECT_TRUE(sim::launched_kernels().count(v.address)) << v.tile.name;
}

TEST_F(Copy, SeededStores) {
  const int cases = thread_sanitizer() ? 40 : 1320, least = thread_sanitizer() ? 20 : 400;
  FactorCounts factors;
  int ran = 0;
  for (const StoreCase& x : store_cases(cases, 2)) {
    use(x.schedule, x.seed);
    StoreData data(x, guard());
    const Status status = data.variant.launch(data.request(), nullptr);
    ASSERT_TRUE(status) << describe(x) << ": " << status.message;
    ASSERT_EQ(data.verify(), "");
    count_store_factors(factors, x);
    ++ran;
  }
  std::printf("%d stores of %zu kernels\n", ran, store_variants().size());
  EXPECT_GE(ran, least);
  if (thread_sanitizer()) return;
  factors.print();
  expect_store_factors(factors);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  for (const StoreVariant& v : store_variants()) EXPECT_TRUE(sim::launched_kernels().count(v.address)) << v.ownership;
}

// Every origin of a copy, in both axes at once: -1, -tile + 1, -tile, -tile - 1, and the same past the end.
TEST_F(Copy, EveryPairOfOrigins) {
  if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only";
  int ran = 0;
  for (size_t variant = 0; variant < copy_variants().size(); ++variant) {
    const CopyVariant& v = copy_variants()[variant];
    if (v.options.bounds == Bounds::none || v.tile.rows > 64) continue;
    for (const int64_t row : {-v.tile.rows - 1, -v.tile.rows, -v.tile.rows + 1, -1, 0, 1, 40, 41, 42})
      for (const int64_t col : {-v.tile.cols - 1, -v.tile.cols, -v.tile.cols + 1, -1, 0, 1, 40, 41, 42}) {
        CopyCase x;
        x.variant = variant, x.rows = x.cols = 41, x.origin = {row, col};
        (v.tile.axis == 0 ? x.col_stride : x.row_stride) = ran % 2 ? 48 : 41;
        x.schedule = ran % 10, x.seed = static_cast<uint64_t>(ran);
        use(x.schedule, x.seed);
        CopyData data(x, guard());
        ASSERT_TRUE(data.variant.launch(data.request(), nullptr)) << describe(x);
        ASSERT_EQ(data.verify(), "") << row << "," << col;
        ++ran;
      }
  }
  std::printf("%d copies\n", ran);
}

// ---- the worked edge --------------------------------------------------------------------------------------------

// A is 65 x 73 bf16, the tile 64 x 32 at (64, 64): one valid row with nine valid columns.
struct EdgeCounts {
  int async = 0, scalar_loads = 0, zeros = 0, realigned = 0;
  friend bool operator==(const EdgeCounts&, const EdgeCounts&) = default;
};
void PrintTo(const EdgeCounts& c, std::ostream* out) {
  *out << c.async << " cp.async, " << c.scalar_loads << " scalar loads, " << c.zeros << " zeros, " << c.realigned << " realigned";
}

template <CopyOptions Options> EdgeCounts count_edge(const bf16* data, int64_t pitch) {
  using Plan = CopyPlan<bf16, TileKMajor64::Layout, 64, Options>;
  const auto source = view(data, layout(shape(int64_t{65}, int64_t{73}), stride(pitch, 1_c)));
  EdgeCounts counts;
  for (int turn = 0; turn < Plan::Ownership::turns; ++turn)
    for (int thread = 0; thread < 64; ++thread) {
      const auto c = Plan::Ownership::vector_at(thread, turn);
      const VectorDecision d = decide_vector(Plan{}, source, 64 + c[0], 64 + c[1]);
      if (d.kind == VectorCase::async) ++counts.async;
      if (d.kind == VectorCase::realign) ++counts.realigned;
      if (d.kind == VectorCase::elements) counts.scalar_loads += d.last - d.first;
      counts.zeros += 8 - (d.last - d.first);
    }
  return counts;
}

TEST_F(Copy, TheWorkedEdge) {
  constexpr int kAll = 64 * 32, kZeros = kAll - 9;
  alignas(16) static bf16 memory[65 * 80 + 8];
  const bf16 *aligned = memory, *misaligned = memory + 1;
  // Aligned: vector 0 is one cp.async; vector 1 is one scalar load and seven zeros; all else zero.
  EXPECT_EQ(count_edge<CopyOptions{}>(aligned, 80), (EdgeCounts{1, 1, kZeros, 0}));
  // Misaligned source: vector 0 goes element by element too.
  EXPECT_EQ(count_edge<CopyOptions{}>(misaligned, 80), (EdgeCounts{0, 9, kZeros, 0}));
  // Zero fill: vector 1 is a cp.async of 2 bytes and 14 of zeros.
  EXPECT_EQ(count_edge<CopyOptions{.partial = Partial::zero_fill}>(aligned, 80), (EdgeCounts{2, 0, kZeros, 0}));
  // Realign, rows packed: element (64, 64) lies 4736 elements from the base, 9 before the end. From a base one element
  // past alignment, vector 0 spans two whole aligned words, of which the second ends beyond the last valid byte.
  EXPECT_EQ(count_edge<CopyOptions{.misaligned = Misaligned::realign}>(misaligned, 73), (EdgeCounts{0, 9, kZeros, 0}));
  // From one element before alignment, the two words of vector 0 end with the source's last byte.
  EXPECT_EQ(count_edge<CopyOptions{.misaligned = Misaligned::realign}>(memory + 7, 73), (EdgeCounts{0, 1, kZeros, 1}));

  // The same on the device: what the simulator counts, and the values.
  for (size_t variant = 0; variant < copy_variants().size(); ++variant) {
    const CopyVariant& v = copy_variants()[variant];
    if (std::string(v.tile.name) != TileKMajor64::facts.name || v.options.bounds == Bounds::none) continue;
    for (const int64_t offset : {0, 1, 7}) {
      CopyCase x;
      x.variant = variant, x.rows = 65, x.cols = 73, x.row_stride = offset == 7 ? 73 : 80, x.origin = {64, 64}, x.offset = offset;
      use(3, 1);
      CopyData data(x, guard());
      ASSERT_TRUE(data.variant.launch(data.request(), nullptr));
      EXPECT_EQ(data.verify(), "");
      const bool fill = v.options.partial == Partial::zero_fill;
      EXPECT_EQ(sim::statistics().cp_async_16, offset ? 0u : fill ? 2u : 1u) << describe(x);
      EXPECT_EQ(sim::statistics().cp_async_filled, !offset && fill ? 1u : 0u) << describe(x);
    }
  }
}

// The width of a copy follows base, pitch and extent: float rows of 129, 130 and 132 (a published report has 16-byte
// accesses at 129).
TEST_F(Copy, FloatRowsNarrow) {
  for (size_t variant = 0; variant < copy_variants().size(); ++variant) {
    const CopyVariant& v = copy_variants()[variant];
    if (v.type != ElementType::f32 || v.options.bounds == Bounds::none) continue;
    for (const int64_t extent : {129, 130, 132})
      for (const int64_t pitch : {extent, int64_t{132}}) {
        CopyCase x;
        x.variant = variant, x.rows = 33, x.cols = extent, x.row_stride = pitch, x.origin = {0, 112};
        use(0, 1);
        CopyData data(x, guard());
        ASSERT_TRUE(data.variant.launch(data.request(), nullptr));
        EXPECT_EQ(data.verify(), "");
        EXPECT_EQ(sim::statistics().cp_async_16, static_cast<uint64_t>(data.async)) << describe(x);
      }
  }
}

// ---- crop, the example's host entry -----------------------------------------------------------------------------

TEST_F(Copy, SeededCrops) {
  const int cases = thread_sanitizer() ? 24 : 600, least = thread_sanitizer() ? 20 : 400;
  int ran = 0;
  for (const CropCase& x : crop_cases(cases, 3, thread_sanitizer() ? 65 : INT64_MAX)) {
    use(ran % 10, static_cast<uint64_t>(ran));
    ASSERT_EQ(run_crop(x, guard()), "");
    ++ran;
  }
  std::printf("%d crops\n", ran);
  EXPECT_GE(ran, least);
  if (thread_sanitizer()) return;
  // Every kernel that the host entry can launch.
  const void* kernels[] = {
      reinterpret_cast<const void*>(&copy_bounded_kernel<bf16, true, true>),
      reinterpret_cast<const void*>(&copy_bounded_kernel<bf16, true, false>),
      reinterpret_cast<const void*>(&copy_bounded_kernel<bf16, false, true>),
      reinterpret_cast<const void*>(&copy_bounded_kernel<bf16, false, false>),
      reinterpret_cast<const void*>(&copy_bounded_kernel<f16, true, true>),
      reinterpret_cast<const void*>(&copy_bounded_kernel<f16, true, false>),
      reinterpret_cast<const void*>(&copy_bounded_kernel<f16, false, true>),
      reinterpret_cast<const void*>(&copy_bounded_kernel<f16, false, false>),
      reinterpret_cast<const void*>(&copy_bounded_kernel<float, true, true>),
      reinterpret_cast<const void*>(&copy_bounded_kernel<float, true, false>),
      reinterpret_cast<const void*>(&copy_bounded_kernel<float, false, true>),
      reinterpret_cast<const void*>(&copy_bounded_kernel<float, false, false>),
  };
  for (const void* kernel : kernels) EXPECT_TRUE(sim::launched_kernels().count(kernel));
}

// A tile that the destination's end cuts is still stored in vectors: whole ones, and pieces of those that are cut.
TEST_F(Copy, StoresVectorsUpToTheEdge) {
  struct Row {
    int64_t rows, cols, row_stride, offset;
    Origin origin;
    uint64_t narrow, wide;  // vector stores of 16-bit elements (8, 4 and 2 of them), of 32-bit ones (4, 2 and 1)
  };
  const Row table[] = {
      {24, 48, 48, 0, {8, 16}, 16 * 4, 16 * 8},   // inside: 16 rows of 32 columns
      {20, 48, 48, 0, {8, 16}, 12 * 4, 12 * 8},   // 12 rows are left
      {24, 40, 40, 0, {8, 16}, 16 * 3, 16 * 6},   // 24 columns are left
      {24, 37, 40, 0, {8, 16}, 16 * 3, 16 * 6},   // 21: 8 + 8 + 4 and a single one; five times 4 and 1
      {20, 23, 24, 0, {8, 16}, 12 * 2, 12 * 3},   // 7: 4 + 2 and a single one; 4 + 2 + 1
      {24, 48, 48, 0, {-3, -8}, 13 * 3, 13 * 6},  // the start cuts whole vectors off
      {24, 48, 48, 0, {8, 15}, 0, 0},             // vectors start between the aligned ones
      {24, 48, 49, 0, {8, 16}, 0, 0},             // rows are misaligned
      {24, 48, 48, 1, {8, 16}, 0, 0},             // so is the base
      {24, 48, 48, 0, {24, 16}, 0, 0},            // outside, and so far that 32 bits would not notice:
      {24, 40, 40, 0, {8, (int64_t{1} << 32) + 16}, 0, 0},
      {24, 40, 40, 0, {8, -(int64_t{1} << 32) + 16}, 0, 0},
      {24, 40, 40, 0, {-(int64_t{1} << 32) + 8, 16}, 0, 0},
  };
  int kernels = 0;
  for (size_t variant = 0; variant < store_variants().size(); ++variant) {
    const StoreVariant& v = store_variants()[variant];
    if (v.ownership != "vectors of 8 along columns" || v.axis != 1 || !v.bounds || !v.unit_stride) continue;
    ++kernels;
    for (const Row& row : table) {
      StoreCase x;
      x.variant = variant, x.rows = row.rows, x.cols = row.cols, x.row_stride = row.row_stride, x.offset = row.offset;
      x.origin = row.origin;
      use(3, 1);
      StoreData data(x, guard());
      ASSERT_TRUE(data.variant.launch(data.request(), nullptr));
      EXPECT_EQ(data.verify(), "");
      EXPECT_EQ(sim::statistics().vector_stores, v.type == ElementType::f32 ? row.wide : row.narrow) << describe(x);
    }
  }
  EXPECT_EQ(kernels, 3);
}

// Ten tiles and eight resident blocks: two blocks copy into a tile that they have stored from before.
TEST_F(Copy, CropsOfSeveralTilesABlock) {
  for (int schedule = 0; schedule < (thread_sanitizer() ? 3 : 10); ++schedule) {
    use(schedule, static_cast<uint64_t>(schedule));
    sim::options().sms = 1;
    CropCase x;
    x.g.source_rows = 321, x.g.source_cols = 73, x.g.row_stride = schedule % 2 ? 73 : 80, x.g.origin = {-3, 8};
    x.g.rows = 319, x.g.cols = x.g.ld = 72 + schedule % 4;
    ASSERT_EQ(run_crop(x, guard()), "") << mode();
  }
}

TEST_F(Copy, CropRefusalsTouchNothing) {
  struct Refusal {
    void (*change)(CropArguments&);
    std::vector<std::string> in_message;
  };
  const std::vector<Refusal> refusals = {
      {[](CropArguments& g) { g.source_rows = -1; }, {"-1"}},
      {[](CropArguments& g) { g.source_cols = -4; }, {"-4"}},
      {[](CropArguments& g) { g.rows = -2; }, {"-2"}},
      {[](CropArguments& g) { g.cols = -3; }, {"-3"}},
      {[](CropArguments& g) { g.ld = 15; }, {"15", "16"}},
      {[](CropArguments& g) { g.source = nullptr; }, {"source"}},
      {[](CropArguments& g) { g.destination = nullptr; }, {"destination"}},
      {[](CropArguments& g) { g.source = static_cast<const char*>(g.source) + 1; }, {"bf16"}},
      {[](CropArguments& g) { g.source = g.destination; }, {"overlap"}},
      {[](CropArguments& g) { g.row_stride = INT64_MAX / 2; }, {"62"}},
      {[](CropArguments& g) { g.destination = static_cast<char*>(g.destination) + 1; }, {"bf16"}},
      {[](CropArguments& g) { g.source = static_cast<bf16*>(g.destination) + 256, g.row_stride = -16; }, {"overlap"}},
      {[](CropArguments& g) { g.origin.row = INT64_MAX; }, {"origin"}},
      {[](CropArguments& g) { g.origin.row = INT64_MAX - 100; }, {"origin"}},
      {[](CropArguments& g) { g.origin.col = INT64_MAX - 100; }, {"origin"}},
      {[](CropArguments& g) { g.origin.row = INT64_MIN; }, {"origin"}},
      {[](CropArguments& g) { g.origin.col = INT64_MIN + 15; }, {"origin"}},
  };
  for (const Refusal& refusal : refusals) {
    SquareCrop square;
    refusal.change(square.arguments);
    const Status status = crop(square.arguments, nullptr);
    EXPECT_EQ(status.code, Code::invalid) << status.message;
    for (const std::string& text : refusal.in_message)
      EXPECT_NE(status.message.find(text), std::string::npos) << status.message;
    EXPECT_TRUE(square.untouched());
  }
}

// The rectangle of a source may begin where the source ends, and the other way round.
TEST_F(Copy, CropsBetweenNeighbours) {
  for (const int64_t from : {0, 256}) {
    DeviceBuffer both(2 * 256 * sizeof(bf16));
    const std::vector<uint16_t> zeros(512, 0);
    both.upload(zeros.data());
    CropArguments g;
    g.source = both.as<bf16>() + from, g.source_rows = g.source_cols = 16, g.row_stride = 16;
    g.destination = both.as<bf16>() + (256 - from), g.rows = g.cols = g.ld = 16;
    const Status status = crop(g, nullptr);
    EXPECT_TRUE(status) << status.message;
  }
}

}  // namespace
}  // namespace grout::test
