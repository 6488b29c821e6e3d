// Composition of layouts: right, against the plainest evaluation and values worked out by hand, or refused.
#include <gtest/gtest.h>

#include <random>
#include <type_traits>
#include <vector>

#include "common/layout.cuh"

namespace grout {
namespace {

// Flat layouts evaluated in the plainest way: divide the index through the extents, the last mode unbounded.
struct Flat {
  std::vector<int64_t> extent, stride;
  int64_t size() const {
    int64_t product = 1;
    for (const int64_t e : extent) product *= e;
    return product;
  }
  int64_t operator()(int64_t i) const {
    int64_t offset = 0;
    for (size_t mode = 0; mode < extent.size(); ++mode) {
      const bool last = mode + 1 == extent.size();
      offset += (last ? i : i % extent[mode]) * stride[mode];
      i /= extent[mode];
    }
    return offset;
  }
};
Flat flat(const detail::Modes& modes) {
  Flat f;
  for (int i = 0; i < modes.count; ++i) f.extent.push_back(modes.extent[i]), f.stride.push_back(modes.stride[i]);
  return f;
}

// A random outer layout and one inner mode: where the composition is said to exist it is C(i) = A(B(i)).
TEST(Composition, RandomModesAreRightOrRefused) {
  std::mt19937 random(20);
  const auto below = [&](int n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); };
  int accepted = 0, refused = 0, longer = 0;
  for (int i = 0; i < 400000; ++i) {
    detail::Modes outer;
    for (int64_t rank = 1 + below(4); rank > 0; --rank) outer.push(1 + below(i % 2 ? 9 : 4), below(31) - 10);
    const int64_t extent = 1 + below(24), stride = i % 7 == 0 ? below(40) - 20 : below(20);
    const detail::Modes result = detail::compose_mode(outer, extent, stride);
    if (!result.ok) {
      ++refused;
      continue;
    }
    ++accepted;
    longer += result.count > 1;
    const Flat a = flat(outer), c = flat(result);
    ASSERT_EQ(c.size(), extent) << "case " << i;
    for (int64_t x = 0; x < extent; ++x) ASSERT_EQ(c(x), a(x * stride)) << "case " << i << " at " << x;
  }
  EXPECT_GT(accepted, 50000);
  EXPECT_GT(refused, 50000);
  EXPECT_GT(longer, 5000);
}

// Every divisible pair is accepted: B takes whole extents of A, in order.
TEST(Composition, DivisiblePairsAreAccepted) {
  int pairs = 0;
  for (int e0 = 1; e0 <= 8; ++e0) {
    for (int e1 = 1; e1 <= 8; ++e1) {
      detail::Modes outer;
      outer.push(e0, 3), outer.push(e1, 50), outer.push(4, 1000);
      const auto accept = [&](int64_t extent, int64_t stride) {
        EXPECT_TRUE(detail::compose_mode(outer, extent, stride).ok) << extent << ':' << stride;
        ++pairs;
      };
      for (int s = 1; s <= e0; ++s) {
        if (e0 % s != 0) continue;
        accept(e0 / s, s);           // the rest of mode 0
        accept(e0 / s * e1, s);      // and all of mode 1
        accept(e0 / s * e1 * 4, s);  // and mode 2
      }
      for (int s = 1; s <= e1; ++s) {
        if (e1 % s != 0) continue;
        accept(e1 / s * 2, e0 * s);  // from mode 1 on
      }
    }
  }
  EXPECT_GT(pairs, 500);
}

// The public API, on static layouts made by a constexpr generator.
constexpr uint32_t mix(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ (x >> 16);
}
constexpr int pick(int seed, int what, int n) {
  return static_cast<int>(mix(static_cast<uint32_t>(seed * 64 + what)) % static_cast<uint32_t>(n));
}

template <int Seed>
struct Pair {
  static constexpr int kExtents[] = {1, 2, 3, 4, 6, 8};
  static constexpr int rank = 1 + pick(Seed, 0, 3);
  template <int I>
  using Extent = Int<kExtents[pick(Seed, 1 + I, 6)]>;
  template <int I>
  using Stride = Int<pick(Seed, 8 + I, 40) - 8>;
  static constexpr auto make_outer() {
    return []<int... I>(std::integer_sequence<int, I...>) {
      return layout(shape(Extent<I>{}...), stride(Stride<I>{}...));
    }
    (std::make_integer_sequence<int, rank>{});
  }
  // Inner: two modes, each a stride that divides into the outer layout or is small.
  template <int I>
  using InnerExtent = Int<kExtents[pick(Seed, 16 + I, 6)]>;
  static constexpr int kStrides[] = {0, 1, 2, 4, 6, 8, 12, 24};
  template <int I>
  using InnerStride = Int<pick(Seed, 24 + I, 2) ? pick(Seed, 32 + I, 5) : kStrides[pick(Seed, 40 + I, 8)]>;
  static constexpr auto make_inner() {
    return layout(shape(InnerExtent<0>{}, InnerExtent<1>{}), stride(InnerStride<0>{}, InnerStride<1>{}));
  }
  // Does each mode of B compose with A, and is A(x + y) = A(x) + A(y) wherever B adds its modes? Elsewhere no layout with
  // B's modes is A after B, and compose must refuse (tests/host/refused/layout.cpp).
  static constexpr bool admissible() {
    using Outer = decltype(make_outer());
    constexpr detail::Modes kOuter = [] {
      detail::Modes m;
      detail::flatten<std::remove_cvref_t<decltype(Outer{}.extents)>, std::remove_cvref_t<decltype(Outer{}.strides)>>(
          m);
      return m;
    }();
    if (!detail::compose_mode(kOuter, InnerExtent<0>::value, InnerStride<0>::value).ok ||
        !detail::compose_mode(kOuter, InnerExtent<1>::value, InnerStride<1>::value).ok)
      return false;
    constexpr auto a = make_outer();
    for (int i = 0; i < InnerExtent<0>::value; ++i) {
      for (int j = 0; j < InnerExtent<1>::value; ++j) {
        const int x = i * InnerStride<0>::value, y = j * InnerStride<1>::value;
        if (a(x + y) != a(x) + a(y)) return false;
      }
    }
    return true;
  }
};
// Sets failures and returns whether the pair composes.
template <int Seed>
int compose_one() {
  using P = Pair<Seed>;
  if constexpr (!P::admissible()) {
    return 0;
  } else {
    constexpr auto a = P::make_outer();
    constexpr auto b = P::make_inner();
    constexpr auto c = compose(a, b);
    static_assert(decltype(c)::fully_static && decltype(c)::rank == 2);
    static_assert(c.template extent<0>() == b.template extent<0>() && c.template extent<1>() == b.template extent<1>());
    for (int i = 0; i < b.template extent<0>(); ++i) {
      for (int j = 0; j < b.template extent<1>(); ++j) {
        EXPECT_EQ(c(i, j), a(b(i, j))) << "seed " << Seed;
        EXPECT_EQ(c(i + j * b.template extent<0>()), a(b(i, j))) << "seed " << Seed;
      }
    }
    return 1;
  }
}
template <int... I>
int compose_all(std::integer_sequence<int, I...>) {
  return (compose_one<I>() + ...);
}
TEST(Composition, StaticLayouts) {
  EXPECT_GT(compose_all(std::make_integer_sequence<int, 600>{}), 100);
}

// The pair of a public report: no layout is A after B, because B = 6:3 steps through A's extent of 4 unevenly.
TEST(Composition, UnevenStrideIsRefused) {
  detail::Modes a;
  a.push(4, 2), a.push(6, 3), a.push(8, 5);
  EXPECT_FALSE(detail::compose_mode(a, 6, 3).ok);
  EXPECT_EQ(flat(a)(2 * 3), 7);  // what A(B(2)) is: 6 = 2 + 4 * 1
}

TEST(Composition, ByHand) {
  // Every second column of a row-major 4 x 8 tile.
  constexpr auto a = layout(shape(8_c, 4_c), stride(1_c, 100_c));
  constexpr auto c = compose(a, layout(shape(4_c, 4_c), stride(2_c, 8_c)));
  static_assert(
      std::is_same_v<std::remove_const_t<decltype(c)>, decltype(layout(shape(4_c, 4_c), stride(2_c, 100_c)))>);
  // An inner mode that runs over two outer ones becomes nested.
  constexpr auto d = compose(a, layout(shape(16_c), stride(2_c)));
  static_assert(std::is_same_v<std::remove_const_t<decltype(d)>,
                               decltype(layout(shape(shape(4_c, 4_c)), stride(stride(2_c, 100_c))))>);
  EXPECT_EQ(d(7), 106);  // A(14): column 6, row 1
  // Stride 0 repeats.
  constexpr auto r = compose(a, layout(shape(5_c), stride(0_c)));
  EXPECT_EQ(r(4), 0);
  // A nested outer layout is flattened.
  constexpr auto nested = layout(shape(shape(2_c, 4_c), 4_c), stride(stride(1_c, 10_c), 100_c));
  constexpr auto e = compose(nested, layout(shape(4_c, 4_c), stride(2_c, 8_c)));
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) EXPECT_EQ(e(i, j), nested(2 * i + 8 * j));
  }
}

}  // namespace
}  // namespace grout
