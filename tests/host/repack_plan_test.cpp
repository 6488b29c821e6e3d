// How repack cuts an operand into tiles, and where the chunks of a transposed tile lie in shared memory: that every vector of the
// copy belongs to one tile, that no chunk covers another, and that no access of a warp has a bank conflict.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "common/repack.cuh"

namespace grout {
namespace {

RepackOperand shape_of(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, int size,
                       int64_t more_vectors = 0, int64_t batch = 1) {
  const int64_t vector = 16 / size;
  return {.rows = rows,
          .cols = cols,
          .row_stride = row_stride,
          .col_stride = col_stride,
          .ld = ((cols + vector - 1) / vector + more_vectors) * vector,
          .batch = batch};
}

// ---- tiles --------------------------------------------------------------------------------------------------------

TEST(Plan, ModesFollowTheStrides) {
  struct Row {
    int64_t rows, cols, row_stride, col_stride;
    RepackMode mode;
  };
  for (const Row& row :
       {Row{5, 7, 7, 1, RepackMode::rows}, Row{5, 7, -9, 1, RepackMode::rows}, Row{5, 7, 1, 1, RepackMode::rows},
        Row{5, 7, 0, 1, RepackMode::rows}, Row{5, 1, 3, 77, RepackMode::rows}, Row{5, 7, 1, 5, RepackMode::transposed},
        Row{5, 7, 1, -5, RepackMode::transposed}, Row{5, 7, 1, 0, RepackMode::transposed},
        Row{5, 7, 14, 2, RepackMode::elements}, Row{5, 7, 7, -1, RepackMode::elements},
        Row{5, 7, 0, 0, RepackMode::elements}, Row{5, 7, 3, 0, RepackMode::elements},
        Row{5, 7, 2, 10, RepackMode::elements_transposed}, Row{5, 7, -1, 5, RepackMode::elements_transposed},
        Row{5, 7, 0, 2, RepackMode::elements_transposed}, Row{1, 7, 0, 2, RepackMode::elements}})
    for (const int size : {2, 4})
      EXPECT_EQ(repack_plan(shape_of(row.rows, row.cols, row.row_stride, row.col_stride, size), size).mode, row.mode)
          << row.rows << "x" << row.cols << " strides " << row.row_stride << "," << row.col_stride;
}

TEST(Plan, TilesCoverEveryVectorOnce) {
  const int64_t extents[] = {0,  1,  2,  3,   7,   8,   9,   15,  16,   17,   31,   32,   33,
                             63, 64, 65, 127, 128, 129, 255, 257, 1023, 1024, 1025, 1026, 4099};
  int plans[4] = {};
  for (const int size : {2, 4})
    for (const int64_t rows : extents)
      for (const int64_t cols : extents)
        for (int kind = 0; kind < 4; ++kind) {
          if (rows * cols > 3'000'000) continue;
          const int64_t batch = rows * cols > 5000 ? 1 : 3, more = (rows + cols + kind) % 3;
          const RepackOperand o = kind == 0   ? shape_of(rows, cols, cols + 1, 1, size, more, batch)
                                  : kind == 1 ? shape_of(rows, cols, 1, rows + 1, size, more, batch)
                                  : kind == 2 ? shape_of(rows, cols, 2 * cols + 5, 2, size, more, batch)
                                              : shape_of(rows, cols, 2, 2 * rows + 5, size, more, batch);
          const RepackPlan plan = repack_plan(o, size);
          const int64_t vectors = o.ld * size / 16;
          ASSERT_EQ(int64_t{plan.tile_rows} * plan.tile_vectors, kRepackVectors);
          ASSERT_EQ(plan.tiles, int64_t{plan.per_batch} * batch);
          std::vector<int> times(static_cast<size_t>(batch * rows * vectors));
          for (int64_t tile = 0; tile < plan.tiles; ++tile) {
            const int64_t b = tile / plan.per_batch, in_batch = tile % plan.per_batch;
            const int64_t row = in_batch / plan.across * plan.tile_rows, vector = in_batch % plan.across * plan.tile_vectors;
            int64_t inside = 0;
            for (int64_t r = row; r < std::min(rows, row + plan.tile_rows); ++r)
              for (int64_t v = vector; v < std::min(vectors, vector + plan.tile_vectors); ++v, ++inside)
                ++times[static_cast<size_t>((b * rows + r) * vectors + v)];
            ASSERT_GT(inside, 0) << "tile " << tile << " of " << rows << "x" << cols << " has nothing to do";
          }
          ASSERT_TRUE(std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }))
              << rows << "x" << cols << ", kind " << kind << ", size " << size;
          if (plan.tiles > 0) ++plans[static_cast<int>(plan.mode)];
        }
  for (const int n : plans) EXPECT_GT(n, 600);
}

// By rows, a tile is as wide as the rows let it be: its lanes have work, up to the last stretch of a row.
// What a tile knows of the source, against all elements of it: where it begins and ends, and whether all words that the tile's
// vectors lie in may be read without asking.
TEST(Plan, TilesKnowTheSource) {
  int inside = 0, near_an_end = 0, modes[4] = {};
  const auto check = [&]<int64_t Size>(Int<Size>, const RepackOperand& o) {
    const RepackPlan plan = repack_plan(o, static_cast<int>(Size));
    uintptr_t begin = UINTPTR_MAX, end = 0;
    const auto address = [&](int64_t r, int64_t c) {
      return reinterpret_cast<uintptr_t>(o.source) + static_cast<uintptr_t>((r * o.row_stride + c * o.col_stride) * Size);
    };
    for (const int64_t r : {int64_t{0}, o.rows - 1})
      for (const int64_t c : {int64_t{0}, o.cols - 1})
        begin = std::min(begin, address(r, c)), end = std::max(end, address(r, c) + Size);
    for (uint32_t tile = 0; tile < plan.tiles; ++tile) {
      const detail::RepackTile t = detail::repack_tile_at<static_cast<int>(Size)>(o, plan, tile);
      ASSERT_EQ(t.begin, begin);
      ASSERT_EQ(t.end, end);
      const int cols = plan.tile_vectors * 16 / static_cast<int>(Size);
      const int64_t row = tile / plan.across * plan.tile_rows, col = tile % plan.across * cols;
      const bool full = row + plan.tile_rows <= o.rows && col + cols <= o.cols;
      bool words = true;
      if (full && plan.mode == RepackMode::rows)
        for (int r = 0; r < plan.tile_rows; ++r)
          for (int c = 0; c < cols; c += 16 / Size) {
            const uintptr_t word = address(row + r, col + c) & ~uintptr_t{15};
            words = words && word >= begin && word + 32 <= end;
          }
      if (full && plan.mode == RepackMode::transposed)
        for (int c = 0; c < cols; ++c)
          for (int r = 0; r < plan.tile_rows; r += 16 / Size) {
            const uintptr_t word = address(row + r, col + c) & ~uintptr_t{15};
            words = words && word >= begin && word + 32 <= end;
          }
      ASSERT_EQ(t.inside, full && words) << static_cast<int>(plan.mode) << ", tile " << tile << " of " << o.rows << "x"
                                         << o.cols << " strides " << o.row_stride << "," << o.col_stride;
      inside += t.inside, near_an_end += full && !words;
    }
    ++modes[static_cast<int>(plan.mode)];
  };
  for (const int offset : {0, 1, 3, 7})
    for (const int sign : {1, -1})
      for (const int64_t pad : {0, 1, 8})
        for (const bool columns : {false, true})
          for (const int64_t step : {1, 2}) {
            const int64_t rows = columns ? 384 : 200, cols = columns ? 384 : 2048, pitch = ((columns ? rows : cols) + pad) * step * sign;
            const auto at = [&](int size) { return reinterpret_cast<const void*>(uintptr_t{1 << 30} + static_cast<uintptr_t>(offset * size)); };
            RepackOperand o = columns ? shape_of(rows, cols, step, pitch, 2) : shape_of(rows, cols, pitch, step, 2);
            o.source = at(2);
            check(Int<2>{}, o);
            o.source = at(4);
            check(Int<4>{}, o);
          }
  EXPECT_GT(inside, 1000);
  EXPECT_GT(near_an_end, 20);
  for (const int mode : modes) EXPECT_GT(mode, 10);
}

// Without rows, columns of the copy, or batches there are no tiles, whatever the other extents and the strides.
TEST(Plan, NoTilesOfNothing) {
  for (const int64_t anything : {int64_t{1}, int64_t{1} << 40, INT64_MAX / 8 * 8, INT64_MAX})
    for (const int size : {2, 4})
      for (const int zero : {0, 1, 2}) {
        RepackOperand o = {.rows = anything, .cols = 0, .row_stride = INT64_MIN, .col_stride = INT64_MIN,
                           .ld = anything / 8 * 8, .batch = anything};
        (zero == 0 ? o.rows : zero == 1 ? o.ld : o.batch) = 0;
        EXPECT_EQ(repack_plan(o, size).tiles, 0) << anything << ", " << zero;
      }
}

TEST(Plan, StretchesFitTheRows) {
  for (int64_t vectors = 1; vectors < 3000; ++vectors) {
    const RepackPlan plan = repack_plan(shape_of(100, vectors * 8, vectors * 8, 1, 2), 2);
    ASSERT_EQ(plan.tile_vectors, 1 << plan.width_log2);
    ASSERT_LE(plan.tile_vectors, 128);
    const int64_t lanes = (vectors + plan.tile_vectors - 1) / plan.tile_vectors * plan.tile_vectors;
    if (plan.tile_vectors > 32) {
      ASSERT_LE(lanes * 16, vectors * 17) << vectors;
    } else if (plan.tile_vectors > 1) {
      ASSERT_LE(plan.tile_vectors / 2, vectors) << vectors;
    }
    if (plan.tile_vectors < 32) {
      ASSERT_LE(vectors, plan.tile_vectors) << "a row shorter than 512 bytes is one stretch";
    }
  }
}

// ---- the tile in shared memory ------------------------------------------------------------------------------------

template <int Size> void expect_chunks_apart() {
  std::set<uint32_t> places;
  for (int line = 0; line < kRepackLines; ++line)
    for (int chunk = 0; chunk < 8; ++chunk) {
      const uint32_t at = detail::repack_chunk<Size>(line, chunk);
      EXPECT_EQ(at % 16, 0u);
      EXPECT_LE(at + 16, static_cast<uint32_t>(kRepackSharedBytes));
      places.insert(at);
    }
  EXPECT_EQ(places.size(), static_cast<size_t>(kRepackVectors));
}
TEST(Chunks, AreApart) {
  expect_chunks_apart<2>();
  expect_chunks_apart<4>();
}

// How often an access is served: the most different 4-byte words in one of 32 banks. Accesses of 16 bytes: 8 lanes at a time.
int ways(const std::vector<uint32_t>& bytes, int width) {
  std::set<uint32_t> in_bank[32];
  for (const uint32_t byte : bytes)
    for (int w = 0; w < width; w += 4)
      in_bank[(byte + static_cast<uint32_t>(w)) / 4 % 32].insert(byte + static_cast<uint32_t>(w));
  size_t most = 0;
  for (const auto& words : in_bank) most = std::max(most, words.size());
  return static_cast<int>(most);
}
uint32_t plain(int line, int chunk) { return static_cast<uint32_t>(line * 128 + chunk * 16); }

// The worst access of each kind, of a tile whose chunks lie at place(line, chunk).
template <class Place> int worst_vector_write(Place place) {  // 8 lanes: a line's 8 chunks
  int worst = 0;
  for (int line = 0; line < kRepackLines; ++line) {
    std::vector<uint32_t> phase;
    for (int lane = 0; lane < 8; ++lane) phase.push_back(place(line, lane));
    worst = std::max(worst, ways(phase, 16));
  }
  return worst;
}
template <class Place> int worst_word_write(Place place) {  // 32 lanes: a line's 32 words
  int worst = 0;
  for (int line = 0; line < kRepackLines; ++line) {
    std::vector<uint32_t> access;
    for (int lane = 0; lane < 32; ++lane) access.push_back(place(line, lane / 4) + static_cast<uint32_t>(lane % 4 * 4));
    worst = std::max(worst, ways(access, 4));
  }
  return worst;
}
template <class Place> int worst_matrix_read(Place place) {  // row 2q + h of matrix i is line first + 8q + 2i + h
  int worst = 0;
  for (int first = 0; first < kRepackLines; first += 32)
    for (int chunk = 0; chunk < 8; ++chunk)
      for (int i = 0; i < 4; ++i) {
        std::vector<uint32_t> phase;
        for (int q = 0; q < 4; ++q)
          for (int h = 0; h < 2; ++h) phase.push_back(place(first + 8 * q + 2 * i + h, chunk));
        worst = std::max(worst, ways(phase, 16));
      }
  return worst;
}
template <class Place> int worst_word_read(Place place) {  // lane 8 w + j reads word w of a chunk of line first + 4 j + i
  int worst = 0;
  for (int first = 0; first < kRepackLines; first += 32)
    for (int chunk = 0; chunk < 8; ++chunk)
      for (int i = 0; i < 4; ++i) {
        std::vector<uint32_t> access;
        for (int lane = 0; lane < 32; ++lane)
          access.push_back(place(first + 4 * (lane % 8) + i, chunk) + static_cast<uint32_t>(lane / 8 * 4));
        worst = std::max(worst, ways(access, 4));
      }
  return worst;
}

TEST(Chunks, HaveNoBankConflicts) {
  for (const auto place : {&detail::repack_chunk<2>, &detail::repack_chunk<4>}) {
    EXPECT_EQ(worst_vector_write(place), 1);
    EXPECT_EQ(worst_word_write(place), 1);
  }
  EXPECT_EQ(worst_matrix_read(&detail::repack_chunk<2>), 1);
  EXPECT_EQ(worst_word_read(&detail::repack_chunk<4>), 1);
  // Not for nothing: line by line the reads are served eight times, and each size needs its own order.
  EXPECT_EQ(worst_matrix_read(&plain), 8);
  EXPECT_EQ(worst_word_read(&plain), 8);
  EXPECT_GT(worst_matrix_read(&detail::repack_chunk<4>), 1);
  EXPECT_GT(worst_word_read(&detail::repack_chunk<2>), 1);
}

}  // namespace
}  // namespace grout
