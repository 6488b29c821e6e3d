// Batched copies: the plan's counts against a walk of every worker, the order of loads and stores as they happen, and why a
// batch is refused.
#include "common/batch.cuh"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "copy/copy_batched.cuh"

namespace grout {
namespace {

// ---- counts ---------------------------------------------------------------------------------------------------------

// What a batch comes to, found by walking all workers step by step.
struct Walk {
  int64_t complete = 0, groups = 0, guarded = 0, in_groups = 0, elements = 0;
};
Walk walk(int64_t elements, int64_t workers, int batch) {
  Walk w;
  std::vector<int64_t> active;  // workers in each step
  for (int64_t worker = 0; worker < workers; ++worker)
    for (int64_t e = worker, step = 0; e < elements; e += workers, ++step) {
      if (step == static_cast<int64_t>(active.size())) active.push_back(0);
      ++active[static_cast<size_t>(step)];
    }
  for (const int64_t n : active) w.complete += n == workers, w.elements += n;
  const int64_t size = std::min<int64_t>(batch, w.complete);
  size_t step = 0;
  if (size > 1)
    for (; step + static_cast<size_t>(size) <= static_cast<size_t>(w.complete); step += static_cast<size_t>(size)) {
      ++w.groups;
      for (int64_t i = 0; i < size; ++i) w.in_groups += active[step + static_cast<size_t>(i)];
    }
  w.guarded = static_cast<int64_t>(active.size() - step);
  return w;
}

TEST(Plan, CountsAreThoseOfAWalk) {
  int plans = 0;
  for (int batch = 1; batch <= kMaxCopyBatch; ++batch)
    for (const int64_t workers : {1, 31, 32, 48, 256})
      for (const int64_t elements :
           {0, 1, 31, 32, 35, 47, 48, 95, 96, 97, 143, 255, 256, 257, 320, 511, 960, 1023, 2048, 4095, 4096}) {
        const BatchReport r = plan_batch({elements, workers}, batch);
        const Walk w = walk(elements, workers, batch);
        ASSERT_EQ(w.elements, elements);
        ASSERT_EQ(r.requested, batch);
        ASSERT_EQ(r.complete_chunks, w.complete) << elements << " by " << workers;
        ASSERT_EQ(r.groups, w.groups) << elements << " by " << workers << " in " << batch;
        ASSERT_EQ(r.guarded_chunks, w.guarded) << elements << " by " << workers << " in " << batch;
        ASSERT_EQ(r.groups * r.realised * workers, w.in_groups);
        ASSERT_EQ(r.realised, std::max<int64_t>(1, std::min<int64_t>(batch, w.complete)));
        ASSERT_EQ(r.transformed, r.realised > 1);
        ASSERT_EQ(r.transformed, w.groups > 0);
        ASSERT_EQ(r.reason, r.realised < batch ? BatchReason::few_chunks : BatchReason::none);
        ++plans;
      }
  EXPECT_EQ(plans, 16 * 5 * 21);
}

// ---- what happens, in which order -----------------------------------------------------------------------------------

// A value whose copies out of the source and into the tile are written down.
struct Event {
  char kind;  // load, store; a store of what is outside: zero
  int64_t place;
  friend bool operator==(const Event&, const Event&) = default;
};
struct Recorded {
  static inline const Recorded *source = nullptr, *source_end = nullptr, *tile = nullptr, *tile_end = nullptr;
  static inline std::vector<Event> events;
  int64_t value = 0;

  Recorded() = default;
  explicit Recorded(int64_t v) : value(v) {}
  Recorded(const Recorded& other) : value(other.value) {
    if (&other >= source && &other < source_end) events.push_back({'l', &other - source});
  }
  Recorded& operator=(const Recorded& other) {
    value = other.value;
    if (this >= tile && this < tile_end) events.push_back({other.value == 0 ? 'z' : 's', this - tile});
    return *this;
  }
};

// Runs all workers of a plan, one after the other, and expects of each: its elements in order, in groups of `batch` as long
// as chunks are complete, each element loaded once if it exists and stored once; and after all, the crop.
template <class Layout, int Workers, int Batch, int FastAxis>
void expect_order(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, Origin origin) {
  using Tile = SharedTile<Recorded, Layout>;
  using Plan = BatchedCopyPlan<Tile, Workers, Batch, FastAxis>;
  constexpr int kRows = Plan::rows, kCols = Plan::columns, kElements = kRows * kCols;
  const int64_t low = std::min<int64_t>(0, (rows - 1) * row_stride) + std::min<int64_t>(0, (cols - 1) * col_stride);
  const int64_t high = std::max<int64_t>(0, (rows - 1) * row_stride) + std::max<int64_t>(0, (cols - 1) * col_stride);
  std::vector<Recorded> memory;
  memory.reserve(static_cast<size_t>(high - low + 1));
  for (int64_t i = 0; i <= high - low; ++i) memory.emplace_back(1 + i);
  auto tile = std::make_unique<Tile>();
  for (Recorded& r : tile->data) r.value = -1;
  Recorded::source = memory.data(), Recorded::source_end = memory.data() + memory.size();
  Recorded::tile = tile->data, Recorded::tile_end = tile->data + Tile::elements;
  const auto source =
      view(static_cast<const Recorded*>(memory.data() - low), layout(shape(rows, cols), stride(row_stride, col_stride)));

  const Walk w = walk(kElements, Workers, Batch);
  const int64_t size = w.groups == 0 ? 1 : std::min<int64_t>(Batch, w.complete);
  std::set<int64_t> places;
  for (int worker = 0; worker < Workers; ++worker) {
    std::vector<Event> expected;
    std::vector<std::pair<Event, Event>> mine;  // load, store
    for (int e = worker; e < kElements; e += Workers) {
      const int fast = FastAxis == 1 ? kCols : kRows;
      const int r = FastAxis == 1 ? e / fast : e % fast, c = FastAxis == 1 ? e % fast : e / fast;
      const int64_t sr = origin.row + r, sc = origin.col + c;
      const bool inside = sr >= 0 && sr < rows && sc >= 0 && sc < cols;
      const int64_t place = Layout{}(r, c);
      EXPECT_TRUE(places.insert(place).second) << "twice";
      mine.push_back(
          {{inside ? 'l' : '-', inside ? sr * row_stride + sc * col_stride - low : 0}, {inside ? 's' : 'z', place}});
    }
    size_t next = 0;
    const auto step = [&](size_t count) {
      for (size_t i = 0; i < count; ++i)
        if (mine[next + i].first.kind == 'l') expected.push_back(mine[next + i].first);
      for (size_t i = 0; i < count; ++i) expected.push_back(mine[next + i].second);
      next += count;
    };
    for (int64_t g = 0; g < w.groups; ++g) step(static_cast<size_t>(size));
    while (next < mine.size()) step(1);

    Recorded::events.clear();
    copy_batched(Plan{}, *tile, source, origin, worker);
    ASSERT_TRUE(Recorded::events == expected) << "worker " << worker << " of " << Workers << ", batch " << Batch << ", "
                                              << kRows << "x" << kCols << ", fast axis " << FastAxis;
  }
  ASSERT_EQ(places.size(), static_cast<size_t>(kElements));
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kCols; ++c) {
      const int64_t sr = origin.row + r, sc = origin.col + c;
      const bool inside = sr >= 0 && sr < rows && sc >= 0 && sc < cols;
      ASSERT_EQ(tile->data[Layout{}(r, c)].value, inside ? 1 + sr * row_stride + sc * col_stride - low : 0) << r << "," << c;
    }
}

using Odd = decltype(layout(shape(13_c, 35_c), stride(37_c, 1_c)));  // padded rows, 455 elements
using OddColumns = decltype(col_major(shape(7_c, 5_c)));             // fewer elements than 48 workers
using Swizzled = decltype(compose(Swizzle<5, 0, 5>{}, row_major(shape(24_c, 32_c))));

template <class Layout, int Workers, int Batch, int FastAxis> void expect_orders() {
  constexpr int kRows = Layout{}.template extent<0>(), kCols = Layout{}.template extent<1>();
  expect_order<Layout, Workers, Batch, FastAxis>(kRows + 4, kCols + 3, kCols + 3, 1, {2, 1});  // inside
  expect_order<Layout, Workers, Batch, FastAxis>(kRows - 3, kCols - 2, 1, -(kRows + 1),
                                                 {-2, -1});                      // both axes cut at both ends
  expect_order<Layout, Workers, Batch, FastAxis>(3, 4, -9, 2, {-kRows + 1, 3});  // hardly, reversed
}
template <class Layout, int Workers, int... Batch> void expect_batches(std::integer_sequence<int, Batch...>) {
  (expect_orders<Layout, Workers, Batch + 1, (Batch % 2)>(), ...);
  expect_orders<Layout, Workers, 4, 0>();
}
template <class Layout> void expect_workers() {
  constexpr auto kAll = std::make_integer_sequence<int, kMaxCopyBatch>{};
  expect_batches<Layout, 32>(kAll), expect_batches<Layout, 48>(kAll), expect_batches<Layout, 256>(kAll);
}
TEST(Order, OddDomains) {
  expect_workers<Odd>();
}
TEST(Order, FewerElementsThanWorkers) {
  expect_workers<OddColumns>();
}
TEST(Order, SwizzledTiles) {
  expect_workers<Swizzled>();
}

// ---- refusals -------------------------------------------------------------------------------------------------------

using Tile = SharedTile<float, decltype(row_major(shape(16_c, 20_c)))>;
using Outside = View<float, decltype(row_major(shape(16_c, 20_c)))>;
using Aliased = SharedTile<float, decltype(layout(shape(16_c, 20_c), stride(0_c, 1_c)))>;
using Overlapping = SharedTile<float, decltype(layout(shape(16_c, 20_c), stride(19_c, 1_c)))>;
struct Twice {
  float operator()(float x) const { return 2 * x; }
};
struct ConvertedToo : Converted {};  // somebody else's: what it does is not known

TEST(Refusal, OutOfRange) {
  for (const int batch : {INT32_MIN, -1, 0, 17, 256, INT32_MAX}) {
    const BatchReport r = plan_batch({320, 32}, batch);
    EXPECT_EQ(r.reason, BatchReason::out_of_range);
    EXPECT_EQ(r.realised, 0);
    EXPECT_EQ(r.transformed, 0);
    const Status status = check_copy_batch(batch);
    EXPECT_EQ(status.code, Code::invalid);
    EXPECT_EQ(status.message, "max_copy_batch is " + std::to_string(batch) + ": 1 to 16 is accepted");
  }
  for (int batch = 1; batch <= 16; ++batch) EXPECT_TRUE(check_copy_batch(batch));
}

template <class Plan> void expect_refused(BatchReason reason) {
  EXPECT_EQ(Plan::report.reason, reason);
  EXPECT_EQ(Plan::requested, 4);
  EXPECT_EQ(Plan::realised, 1);
  EXPECT_EQ(Plan::transformed, 0);
  EXPECT_EQ(Plan::groups, 0);
  EXPECT_EQ(Plan::guarded_chunks, 10);
  EXPECT_EQ(Plan::complete_chunks, 10);
}
TEST(Refusal, ForOneReasonEach) {
  expect_refused<BatchedCopyPlan<Outside, 32, 4>>(BatchReason::not_owned);
  expect_refused<BatchedCopyPlan<Tile, 32, 4, 1, Plain, CopyWrite::add>>(BatchReason::read_modify_write);
  expect_refused<BatchedCopyPlan<Aliased, 32, 4>>(BatchReason::not_independent);
  expect_refused<BatchedCopyPlan<Overlapping, 32, 4>>(BatchReason::not_independent);
  expect_refused<BatchedCopyPlan<Tile, 32, 4, 1, Twice>>(BatchReason::opaque_function);
  expect_refused<BatchedCopyPlan<Tile, 32, 4, 1, ConvertedToo>>(BatchReason::opaque_function);
  expect_refused<BatchedCopyPlan<Tile, 32, 4, 1, float (*)(float)>>(BatchReason::opaque_function);
  // The twins that are batched: ten chunks of which two groups of four, two left.
  for (const BatchReport& r : {BatchedCopyPlan<Tile, 32, 4>::report, BatchedCopyPlan<Tile, 32, 4, 0, Converted>::report,
                               BatchedCopyPlan<Tile, 32, 4, 1, Scaled>::report}) {
    EXPECT_EQ(r.reason, BatchReason::none);
    EXPECT_EQ(r.realised, 4);
    EXPECT_EQ(r.transformed, 1);
    EXPECT_EQ(r.groups, 2);
    EXPECT_EQ(r.guarded_chunks, 2);
  }
}
TEST(Refusal, AlsoWithABatchOfOneSaysWhy) {
  using Plan = BatchedCopyPlan<Aliased, 32, 1>;
  EXPECT_EQ(Plan::report.reason, BatchReason::not_independent);
  EXPECT_EQ(Plan::realised, 1);
}

// By the addresses of source and destination, also through strides of either sign.
TEST(Refusal, SourcesThatShareTheDestination) {
  using Plan = BatchedCopyPlan<Tile, 32, 4>;
  struct Memory {
    float before[400];
    Tile tile;
    float behind[400];
  };
  auto m = std::make_unique<Memory>();
  const auto reason = [&](const float* data, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
    const BatchReport r =
        batch_report(Plan{}, m->tile, view(data, layout(shape(rows, cols), stride(row_stride, col_stride))));
    EXPECT_EQ(r.transformed, r.reason == BatchReason::none);
    EXPECT_EQ(r.realised, r.reason == BatchReason::none ? 4 : 1);
    return r.reason;
  };
  const float *first = m->tile.data, *end = m->tile.data + Tile::elements;
  EXPECT_EQ(reason(first, 16, 20, 20, 1), BatchReason::not_independent);
  EXPECT_EQ(reason(end - 1, 1, 1, 1, 1), BatchReason::not_independent);
  EXPECT_EQ(reason(end, 16, 20, 20, 1), BatchReason::none);
  EXPECT_EQ(reason(first - 320, 16, 20, 20, 1), BatchReason::none);
  EXPECT_EQ(reason(first - 319, 16, 20, 20, 1), BatchReason::not_independent);
  EXPECT_EQ(reason(end + 319, 16, 20, -20, -1), BatchReason::none);
  EXPECT_EQ(reason(end + 318, 16, 20, -20, -1), BatchReason::not_independent);
  EXPECT_EQ(reason(first, 0, 20, 20, 1), BatchReason::none);  // no element
  EXPECT_EQ(reason(first, 16, 0, 20, 1), BatchReason::none);
}

TEST(Refusal, EachReasonIsASentenceOfItsOwn) {
  std::set<std::string> texts;
  for (const BatchReason reason :
       {BatchReason::out_of_range, BatchReason::not_owned, BatchReason::read_modify_write, BatchReason::not_independent,
        BatchReason::opaque_function, BatchReason::few_chunks, BatchReason::compiled})
    texts.insert(batch_reason_text(reason));
  EXPECT_EQ(texts.size(), 7u);
  EXPECT_EQ(texts.count(""), 0u);
  EXPECT_STREQ(batch_reason_text(BatchReason::none), "");
  EXPECT_EQ(batch_text({BatchedCopyPlan<Tile, 32, 4>::report}),
            "max_copy_batch: requested 4, realised 4; operations transformed: 1 of 1");
  EXPECT_EQ(batch_text({BatchedCopyPlan<Tile, 32, 16>::report, BatchedCopyPlan<Outside, 32, 16>::report}),
            "max_copy_batch: requested 16, realised 10 (no more chunks are complete) and 1 (not batched: the "
            "destination is memory "
            "that the operation does not own); operations transformed: 1 of 2");
}

// ---- the crop's entry -----------------------------------------------------------------------------------------------

TEST(Crop, TileHasNoBankConflictAlongRowsOrColumns) {
  const auto worst = [](auto tile, bool along_rows) {
    using T = typename decltype(tile)::Shared::Value;
    constexpr auto kLayout = typename decltype(tile)::Layout{};
    size_t most = 0;
    for (int first = 0; first < 64; first += 32)
      for (int line = 0; line < (along_rows ? decltype(tile)::rows : decltype(tile)::cols); ++line) {
        std::map<int64_t, std::set<int64_t>> words;  // of each bank
        for (int lane = 0; lane < 32; ++lane) {
          const int along = (first + lane) % (along_rows ? decltype(tile)::cols : decltype(tile)::rows);
          const int64_t byte = static_cast<int64_t>(sizeof(T)) * (along_rows ? kLayout(line, along) : kLayout(along, line));
          words[byte / 4 % 32].insert(byte / 4);
        }
        for (const auto& [bank, in_bank] : words) most = std::max(most, in_bank.size());
      }
    return most;
  };
  EXPECT_EQ(worst(CropBatchedTile<float>{}, true), 1u);
  EXPECT_EQ(worst(CropBatchedTile<float>{}, false), 1u);
  EXPECT_EQ(worst(CropBatchedTile<bf16>{}, true), 1u);
  EXPECT_EQ(worst(CropBatchedTile<bf16>{}, false), 1u);
  static_assert(sizeof(CropBatchedTile<float>::Shared) == 8192 && sizeof(CropBatchedTile<bf16>::Shared) == 8192);
}

}  // namespace
}  // namespace grout
