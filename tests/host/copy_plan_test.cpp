// What a bounded copy decides for each vector, on the host: worked cases by hand, random sources against brute force
// over addresses, and the promise that nothing outside the source's first and last valid byte is ever read.
#include "common/store.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace grout {
namespace {

constexpr CopyOptions kPlain{};
constexpr CopyOptions kRealign{.misaligned = Misaligned::realign};
constexpr CopyOptions kFill{.partial = Partial::zero_fill};
constexpr CopyOptions kBoth{.misaligned = Misaligned::realign, .partial = Partial::zero_fill};

template <class T, int Rows, int Columns>
using RowTile = decltype(row_major(shape(Int<Rows>{}, Int<Columns>{})));
template <class T, int Rows, int Columns>
using ColTile = decltype(col_major(shape(Int<Rows>{}, Int<Columns>{})));

struct Counts {
  int async = 0, realign = 0, elements = 0, zeros = 0;  // vectors
  int scalar_loads = 0, zero_elements = 0;              // elements
  friend bool operator==(const Counts&, const Counts&) = default;
  friend void PrintTo(const Counts& c, std::ostream* out) {
    *out << "async " << c.async << " realign " << c.realign << " elements " << c.elements << " zeros " << c.zeros
         << " scalar_loads " << c.scalar_loads << " zero_elements " << c.zero_elements;
  }
};
template <class Plan, class T, class L>
Counts count(Plan plan, const View<T, L>& source, Origin origin) {
  using Ownership = typename Plan::Ownership;
  Counts n;
  for (int thread = 0; thread < Ownership::threads; ++thread) {
    for (int turn = 0; turn < Ownership::turns; ++turn) {
      if (!Ownership::is_inside(thread, turn)) continue;
      const auto c = Ownership::vector_at(thread, turn);
      const VectorDecision d = decide_vector(plan, source, origin.row + c[0], origin.col + c[1]);
      (d.kind == VectorCase::async     ? n.async
       : d.kind == VectorCase::realign ? n.realign
       : d.kind == VectorCase::zeros   ? n.zeros
                                       : n.elements) += 1;
      if (d.kind == VectorCase::elements) n.scalar_loads += d.last - d.first;
      n.zero_elements += Plan::vector - (d.last - d.first);
    }
  }
  return n;
}

// Memory for a source whose base lies `offset` elements behind a 256-byte boundary.
template <class T>
struct Buffer {
  std::vector<unsigned char> bytes;
  T* base;
  explicit Buffer(int64_t offset, size_t size = 1 << 16) : bytes(size + 512) {
    const auto start = (reinterpret_cast<uintptr_t>(bytes.data()) + size / 2 + 255) & ~uintptr_t{255};
    base = reinterpret_cast<T*>(start) + offset;
  }
};
template <class T>
auto source_of(const T* base, int64_t rows, int64_t columns, int64_t ld) {
  return view(base, layout(shape(rows, columns), stride(ld, 1_c)));
}

// ---- the worked example ----
// A is 65 x 73 bf16, compact; the 64 x 32 tile at (64, 64) holds one valid row with nine valid columns. The address of
// (64, 64) is 2 (64 * 73 + 64) = 9472 = 16 * 592 bytes behind the base.

template <CopyOptions Options>
using Edge = CopyPlan<bf16, decltype(compose(Swizzle64B<bf16>{}, RowTile<bf16, 64, 32>{})), 256, Options>;

TEST(WorkedEdge, Aligned) {
  const Buffer<bf16> memory(0);
  const auto a = source_of(memory.base, 65, 73, 73);
  // Vector 0: one cp.async. Vector 1: one scalar load, seven zeros. All else, 254 vectors: zeros.
  EXPECT_EQ(count(Edge<kPlain>{}, a, {64, 64}),
            (Counts{.async = 1, .elements = 1, .zeros = 254, .scalar_loads = 1, .zero_elements = 7 + 254 * 8}));
  const VectorDecision v0 = decide_vector(Edge<kPlain>{}, a, 64, 64), v1 = decide_vector(Edge<kPlain>{}, a, 64, 72);
  EXPECT_TRUE(v0.kind == VectorCase::async && v0.first == 0 && v0.last == 8);
  EXPECT_TRUE(v1.kind == VectorCase::elements && v1.first == 0 && v1.last == 1);
  EXPECT_EQ(decide_vector(Edge<kPlain>{}, a, 64, 80).kind, VectorCase::zeros);
  EXPECT_EQ(decide_vector(Edge<kPlain>{}, a, 65, 64).kind, VectorCase::zeros);
}
TEST(WorkedEdge, Misaligned) {
  for (int offset = 1; offset < 8; ++offset) {
    const Buffer<bf16> memory(offset);
    EXPECT_EQ(count(Edge<kPlain>{}, source_of(memory.base, 65, 73, 73), {64, 64}),
              (Counts{.elements = 2, .zeros = 254, .scalar_loads = 9, .zero_elements = 7 + 254 * 8}));
  }
}
TEST(WorkedEdge, ZeroFillReadsTheLastVectorInOneAccess) {
  const Buffer<bf16> memory(0);
  const auto a = source_of(memory.base, 65, 73, 73);
  EXPECT_EQ(count(Edge<kFill>{}, a, {64, 64}), (Counts{.async = 2, .zeros = 254, .zero_elements = 7 + 254 * 8}));
  const VectorDecision v1 = decide_vector(Edge<kFill>{}, a, 64, 72);
  EXPECT_TRUE(v1.kind == VectorCase::async && v1.first == 0 && v1.last == 1);
}
TEST(WorkedEdge, RealignStopsAtTheLastValidByte) {
  // Base + 1 element: the tile's first element lies at byte 9474, words 9472 and 9488; the last valid byte is
  // 2 + 2 * 65 * 73 = 9492, inside the second word. So both vectors stay element by element, one row further up not.
  const Buffer<bf16> memory(1);
  const auto a = source_of(memory.base, 65, 73, 73);
  EXPECT_EQ(count(Edge<kBoth>{}, a, {64, 64}),
            (Counts{.elements = 2, .zeros = 254, .scalar_loads = 9, .zero_elements = 7 + 254 * 8}));
  // At (63, 64): byte 2 (63 * 73 + 64) + 2 = 9328 = 16 * 583: aligned; its second vector of one element is zero-filled.
  EXPECT_EQ(count(Edge<kBoth>{}, a, {63, 64}),
            (Counts{.async = 2, .elements = 2, .zeros = 252, .scalar_loads = 9, .zero_elements = 14 + 252 * 8}));
  // At (62, 64): byte 9182, words 9168 and 9184: realigned, and so is the partial vector behind it.
  EXPECT_EQ(
      count(Edge<kBoth>{}, a, {62, 64}),
      (Counts{
          .async = 2, .realign = 2, .elements = 2, .zeros = 250, .scalar_loads = 9, .zero_elements = 21 + 250 * 8}));
}

// ---- alignment ----

TEST(Alignment, FloatPitches) {
  // 8 rows of 128 floats: a row is aligned where its number times the pitch is a multiple of 4.
  using Plan = CopyPlan<float, RowTile<float, 8, 128>, 64>;
  const Buffer<float> memory(0);
  const auto counts = [&](int64_t ld) { return count(Plan{}, source_of(memory.base, 8, ld, ld), {0, 0}); };
  EXPECT_EQ(counts(129), (Counts{.async = 2 * 32, .elements = 6 * 32, .scalar_loads = 6 * 128}));
  EXPECT_EQ(counts(130), (Counts{.async = 4 * 32, .elements = 4 * 32, .scalar_loads = 4 * 128}));
  EXPECT_EQ(counts(131), (Counts{.async = 2 * 32, .elements = 6 * 32, .scalar_loads = 6 * 128}));
  EXPECT_EQ(counts(132), (Counts{.async = 8 * 32}));
  for (int offset = 1; offset < 4; ++offset) {
    const Buffer<float> moved(offset);
    EXPECT_EQ(count(Plan{}, source_of(moved.base, 8, 132, 132), {0, 0}),
              (Counts{.elements = 256, .scalar_loads = 1024}));
  }
}
TEST(Alignment, EveryBaseOfBf16) {
  using Plan = CopyPlan<bf16, RowTile<bf16, 8, 64>, 64>;
  using Realigning = CopyPlan<bf16, RowTile<bf16, 8, 64>, 64, kRealign>;
  for (int offset = 1; offset < 8; ++offset) {
    const Buffer<bf16> memory(offset);
    const auto a = source_of(memory.base, 8, 64, 64);
    EXPECT_EQ(count(Plan{}, a, {0, 0}), (Counts{.elements = 64, .scalar_loads = 512}));
    // The first vector would need the word before the base, the last one the word behind the end.
    EXPECT_EQ(count(Realigning{}, a, {0, 0}), (Counts{.realign = 62, .elements = 2, .scalar_loads = 16}));
  }
}
TEST(Alignment, TheActualAddressDecides) {
  // Misaligned base and misaligned origin cancel.
  using Plan = CopyPlan<bf16, RowTile<bf16, 8, 32>, 32>;
  const Buffer<bf16> memory(3);
  EXPECT_EQ(count(Plan{}, source_of(memory.base, 8, 64, 64), {0, 5}), (Counts{.async = 32}));
  EXPECT_EQ(count(Plan{}, source_of(memory.base, 8, 64, 64), {0, 8}), (Counts{.elements = 32, .scalar_loads = 256}));
}

TEST(Strides, OnlyContiguousVectorsAreVectors) {
  using Plan = CopyPlan<bf16, RowTile<bf16, 8, 32>, 32, kBoth>;
  using ColPlan = CopyPlan<bf16, ColTile<bf16, 32, 8>, 32, kBoth>;
  const Buffer<bf16> memory(0);
  const auto with = [&](int64_t rows, int64_t columns, int64_t row_stride, int64_t col_stride) {
    return view(static_cast<const bf16*>(memory.base), layout(shape(rows, columns), stride(row_stride, col_stride)));
  };
  const Counts all{.elements = 32, .scalar_loads = 256};
  EXPECT_EQ(count(Plan{}, with(8, 32, 64, 2), {0, 0}), all);
  EXPECT_EQ(count(Plan{}, with(8, 32, 64, -1), {0, 0}), all);
  EXPECT_EQ(count(Plan{}, with(8, 32, 64, 0), {0, 0}), all);  // one column, repeated
  EXPECT_EQ(count(Plan{}, with(8, 32, 1, 64), {0, 0}), all);  // stored the other way
  EXPECT_EQ(count(ColPlan{}, with(32, 8, 64, 1), {0, 0}), all);
  EXPECT_EQ(count(ColPlan{}, with(32, 8, 1, 64), {0, 0}), Counts{.async = 32});
  EXPECT_EQ(count(Plan{}, with(8, 32, -64, 1), {0, 0}), Counts{.async = 32});  // rows upwards
  EXPECT_EQ(count(Plan{}, with(8, 32, 0, 1), {0, 0}), Counts{.async = 32});    // one row, repeated
}

// ---- origins ----

// Valid elements of a tile, counted one by one.
int valid_elements(int64_t rows, int64_t columns, Origin origin, int tile_rows, int tile_columns) {
  int valid = 0;
  for (int r = 0; r < tile_rows; ++r) {
    for (int c = 0; c < tile_columns; ++c)
      valid += origin.row + r >= 0 && origin.row + r < rows && origin.col + c >= 0 && origin.col + c < columns;
  }
  return valid;
}
template <class Plan>
void expect_origins() {
  constexpr int kR = Plan::rows, kC = Plan::columns;
  const Buffer<bf16> memory(0);
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{65, 73}, {5, 3}, {1, 1}, {kR, kC}, {kR - 1, kC + 1}, {0, 9}, {9, 0}}) {
    const auto a = source_of(static_cast<const bf16*>(memory.base), rows, columns, columns + 3);
    for (const int64_t row : {int64_t{0}, int64_t{-1}, int64_t{-kR + 1}, int64_t{-kR}, int64_t{-kR - 1}, rows - 1, rows,
                              rows + 1, INT64_MIN / 4, INT64_MAX / 4}) {
      for (const int64_t col : {int64_t{0}, int64_t{-1}, int64_t{-kC + 1}, int64_t{-kC}, int64_t{-kC - 1}, columns - 1,
                                columns, columns + 1, INT64_MIN / 4, INT64_MAX / 4}) {
        const Counts n = count(Plan{}, a, {row, col});
        const int valid = valid_elements(rows, columns, {row, col}, kR, kC);
        ASSERT_EQ(n.zero_elements, kR * kC - valid) << rows << "x" << columns << " at " << row << "," << col;
        ASSERT_EQ(n.async + n.realign + n.elements + n.zeros, kR * kC / Plan::vector);
        if (valid == 0) {
          ASSERT_EQ(n.zeros, kR * kC / Plan::vector);
        }
      }
    }
  }
}
TEST(Origins, OutsideOnAnySideReadsZeros) {
  expect_origins<CopyPlan<bf16, RowTile<bf16, 16, 32>, 32, kPlain>>();
  expect_origins<CopyPlan<bf16, RowTile<bf16, 16, 32>, 32, kBoth>>();
  expect_origins<CopyPlan<bf16, ColTile<bf16, 32, 16>, 32, kRealign>>();
  expect_origins<CopyPlan<bf16, ColTile<bf16, 32, 16>, 48, kFill>>();
}

TEST(Origins, BothSidesOfAVector) {
  // Three columns, the tile begins two before them: of a vector's 8 elements, 2, 3 and 4 are valid.
  using Plan = CopyPlan<bf16, RowTile<bf16, 8, 32>, 32, kBoth>;
  const Buffer<bf16> memory(0);
  const VectorDecision d = decide_vector(Plan{}, source_of(memory.base, 8, 3, 3), 0, -2);
  EXPECT_TRUE(d.kind == VectorCase::elements && d.first == 2 && d.last == 5);
}

// ---- everything, against addresses ----

struct Address {
  int64_t value;
  bool valid;
};

// A random source, a random vector: the contract read off element by element.
template <class T, int Axis, CopyOptions Options>
void expect_contract(unsigned seed, int cases, Counts& seen) {
  using Tile = std::conditional_t<Axis == 1, RowTile<T, 16, 32>, ColTile<T, 32, 16>>;
  using Plan = CopyPlan<T, Tile, 32, Options>;
  constexpr int V = Plan::vector, kBytes = sizeof(T);
  static_assert(Plan::axis == Axis);
  std::mt19937 random(seed);
  const auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < cases; ++i) {
    const int64_t rows = between(1, 40), columns = between(1, 40);
    const int64_t along = Axis == 1 ? columns : rows;
    int64_t one = between(0, 9) == 0 ? between(-2, 2) : 1,
            pitch = between(0, 7) == 0 ? between(-50, 50) : along + between(0, 8);
    if (between(0, 9) == 0) pitch = -pitch;
    const int64_t row_stride = Axis == 1 ? pitch : one, col_stride = Axis == 1 ? one : pitch;
    const Buffer<T> memory(between(0, 7));
    const auto source =
        view(static_cast<const T*>(memory.base), layout(shape(rows, columns), stride(row_stride, col_stride)));
    const int64_t base = reinterpret_cast<intptr_t>(memory.base);
    const auto address = [&](int64_t r, int64_t c) {
      return Address{base + (r * row_stride + c * col_stride) * kBytes, r >= 0 && r < rows && c >= 0 && c < columns};
    };
    int64_t first_byte = INT64_MAX, end_byte = INT64_MIN;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        first_byte = std::min(first_byte, address(r, c).value);
        end_byte = std::max(end_byte, address(r, c).value + kBytes);
      }
    }

    for (int vector = 0; vector < 8; ++vector) {
      const int64_t row = between(-10, 42), col = between(-10, 42);
      std::vector<Address> elements;
      for (int e = 0; e < V; ++e) elements.push_back(address(row + (Axis == 0 ? e : 0), col + (Axis == 1 ? e : 0)));
      const int valid =
          static_cast<int>(std::count_if(elements.begin(), elements.end(), [](const Address& a) { return a.valid; }));
      const auto find = std::find_if(elements.begin(), elements.end(), [](const Address& a) { return a.valid; });
      const int first = valid == 0 ? 0 : static_cast<int>(find - elements.begin());
      bool contiguous = true;
      for (int e = 1; e < V; ++e)
        contiguous &= elements[static_cast<size_t>(e)].value == elements[static_cast<size_t>(e - 1)].value + kBytes;

      VectorCase expected = VectorCase::elements;
      const bool one_access = valid == V || (Options.partial == Partial::zero_fill && valid > 0 && first == 0);
      const int64_t at = elements[0].value, word = at - ((at % 16) + 16) % 16;
      if (valid == 0)
        expected = VectorCase::zeros;
      else if (one_access && contiguous && at % 16 == 0)
        expected = VectorCase::async;
      else if (one_access && contiguous && Options.misaligned == Misaligned::realign && word >= first_byte &&
               word + 32 <= end_byte)
        expected = VectorCase::realign;

      const VectorDecision d = decide_vector(Plan{}, source, row, col);
      ASSERT_EQ(d.kind, expected) << "case " << i << ": " << rows << "x" << columns << " strides " << row_stride << ","
                                  << col_stride << " vector at " << row << "," << col;
      ASSERT_EQ(d.last - d.first, valid);
      if (valid != 0) {
        ASSERT_EQ(d.first, first);
      }
      if (valid == V) {  // the caller may say so
        const VectorDecision known = decide_vector(Plan{}, source, row, col, true);
        ASSERT_TRUE(known.kind == d.kind && known.first == d.first && known.last == d.last);
      }
      // Every byte that the case reads lies between the first and the last valid byte.
      if (d.kind == VectorCase::async) {
        ASSERT_TRUE(at >= first_byte && at + (d.last - d.first) * kBytes <= end_byte);
        ++seen.async;
      } else if (d.kind == VectorCase::realign) {
        ASSERT_TRUE(word >= first_byte && word + 32 <= end_byte && at + d.last * kBytes <= word + 32);
        ++seen.realign;
      } else if (d.kind == VectorCase::elements) {
        for (int e = d.first; e < d.last; ++e) ASSERT_TRUE(elements[static_cast<size_t>(e)].valid);
        ++seen.elements;
      } else {
        ++seen.zeros;
      }
    }

    // A tile that passes both uniform tests consists of asynchronous vectors only.
    const Origin origin = {between(-2, 30) / 8 * (i % 3 ? 8 : 1), between(-2, 30) / 8 * 8};
    using Small = CopyPlan<T, std::conditional_t<Axis == 1, RowTile<T, 8, 8>, ColTile<T, 8, 8>>, 32, Options>;
    if (is_interior(Small{}, source, origin)) {
      const Counts n = count(Small{}, source, origin);
      ASSERT_EQ(n.zero_elements, 0);
      if (is_aligned_source(Small{}, source, origin)) {
        ASSERT_EQ(n.async, 64 / V);
        ++seen.scalar_loads;
      }
    }
  }
}
template <class T, int Axis>
void expect_contract_all(unsigned seed) {
  Counts plain, realign, fill, both;
  expect_contract<T, Axis, kPlain>(seed, 8000, plain);
  expect_contract<T, Axis, kRealign>(seed + 1, 8000, realign);
  expect_contract<T, Axis, kFill>(seed + 2, 8000, fill);
  expect_contract<T, Axis, kBoth>(seed + 3, 8000, both);
  // Every case occurred often.
  for (const Counts& n : {plain, realign, fill, both}) {
    EXPECT_GT(n.async, 500);
    EXPECT_GT(n.elements, 500);
    EXPECT_GT(n.zeros, 500);
    EXPECT_GT(n.scalar_loads, 20);  // tiles that passed the uniform tests
  }
  EXPECT_EQ(plain.realign + fill.realign, 0);
  EXPECT_GT(realign.realign, 500);
  EXPECT_GT(both.realign, 500);
}
TEST(Contract, RandomBf16Rows) {
  expect_contract_all<bf16, 1>(100);
}
TEST(Contract, RandomBf16Columns) {
  expect_contract_all<bf16, 0>(200);
}
TEST(Contract, RandomFloatRows) {
  expect_contract_all<float, 1>(300);
}
TEST(Contract, RandomFloatColumns) {
  expect_contract_all<float, 0>(400);
}

// 64-bit offsets: row 225304 of pitch 9728 lies past 2^31 elements. No memory is touched.
TEST(Contract, WideOffsets) {
  using Plan = CopyPlan<bf16, RowTile<bf16, 16, 32>, 32>;
  const auto* base = reinterpret_cast<const bf16*>(uintptr_t{1} << 40);
  const auto a = source_of(base, 225305, 9728, 9728);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(detail::element(a, 225304, 0)) - (uintptr_t{1} << 40),
            uint64_t{2} * 2191757312);
  EXPECT_EQ(count(Plan{}, a, {225304, 9720}), (Counts{.async = 1, .zeros = 63, .zero_elements = 63 * 8}));
  const auto odd = source_of(base, 225305, 9721, 9721);
  EXPECT_EQ(count(Plan{}, odd, {225300, 0}).scalar_loads, 4 * 32);  // of the five valid rows only 225304 is aligned
}

// ---- shifting ----

TEST(Realign, ShiftsBytesIntoPlace) {
  unsigned char bytes[32];
  for (int i = 0; i < 32; ++i) bytes[i] = static_cast<unsigned char>(37 * i + 11);
  uint32_t low[4], high[4], out[4];
  std::memcpy(low, bytes, 16);
  std::memcpy(high, bytes + 16, 16);
  for (uint32_t shift = 0; shift < 16; ++shift) {
    detail::shift_words(out, low, high, shift);
    EXPECT_EQ(std::memcmp(out, bytes + shift, 16), 0) << shift;
  }
}

// ---- plans ----

TEST(Plans, Describe) {
  using A = CopyPlan<bf16, decltype(compose(Swizzle64B<bf16>{}, RowTile<bf16, 128, 32>{})), 256>;
  static_assert(A::axis == 1 && A::vector == 8 && A::rows == 128 && A::columns == 32 && A::Ownership::turns == 2);
  using B = CopyPlan<float, ColTile<float, 32, 8>, 32>;
  static_assert(B::axis == 0 && B::vector == 4 && B::Ownership::vectors == 64);
  // A window of a swizzled allocation: its own vectors, the allocation's phase.
  using Whole = decltype(compose(Swizzle128B<bf16>{}, RowTile<bf16, 64, 64>{}));
  using W = CopyPlan<bf16, decltype(window(Whole{}, coord(16_c, 24_c), shape(16_c, 16_c))), 32>;
  static_assert(W::rows == 16 && W::columns == 16 && W::axis == 1);
  EXPECT_EQ((W::Destination{}(1, 0)), (Whole{}(17, 24)));
}

TEST(Plans, StoresAreAsWideAsTheOwnershipAllows) {
  using C = WarpTiled<MmaM16N8K16C, 1, 1, 1, 2>;
  static_assert(StorePlan<float, C, 1>::vector == 2 && StorePlan<bf16, C, 1>::vector == 2 &&
                StorePlan<float, C, 0>::vector == 1);
  static_assert(StorePlan<float, VectorTiled<16, 32, 1, 8, 32>, 1>::vector == 4);
  static_assert(StorePlan<bf16, VectorTiled<16, 32, 1, 8, 32>, 1>::vector == 8);
  static_assert(StorePlan<bf16, VectorTiled<16, 32, 0, 8, 32>, 0>::vector == 8);
  SUCCEED();
}

}  // namespace
}  // namespace grout
