// Fragment expressions as plain host code, one thread at a time, against scalar loops; fragment_host_static.cpp: register tuples.
#include "common/fragment.cuh"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/fragment_tables.h"
#include "tests/sim/device_test.h"

namespace grout {
namespace {

using C = MmaM16N8K16C;
using S = WarpTiled<C, 1, 1, 2, 8>;
using Rows = Reduced<S, 1>;
using Columns = Reduced<S, 0>;

// Small whole numbers, another in every slot.
template <class T, class O> Fragment<T, O> numbered(int factor, int start) {
  Fragment<T, O> f;
  for (int i = 0; i < O::slots; ++i) f[i] = static_cast<T>(factor * i + start);
  return f;
}
// The slot of the reduced ownership that holds slot `to`'s result, looked for in the table; for thread 0, and so for all.
template <class To, class From> int slot_of(int to) {
  for (int from = 0; from < From::slots; ++from) {
    bool same = true;
    for (int a = 0; a < To::axes; ++a) same &= From::at(0, from)[a] == (From::shape[a] == 1 ? 0 : To::at(0, to)[a]);
    if (same) return from;
  }
  ADD_FAILURE() << "slot " << to;
  return 0;
}

TEST(FragmentExpressions, FusedArithmeticEqualsScalarLoops) {
  const auto a = numbered<float, S>(3, -40), b = numbered<float, S>(-2, 7);
  const Fragment got = (a * b + 2.f - b) / 4.f - -a;
  static_assert(std::is_same_v<decltype(got), const Fragment<float, S>>);
  for (int i = 0; i < S::slots; ++i) EXPECT_EQ(got[i], (a[i] * b[i] + 2.f - b[i]) / 4.f - -a[i]) << i;
  const Fragment left = 2.f - a;  // scalars on the left
  const Fragment quotient = 64.f / (a * a + 1.f);
  for (int i = 0; i < S::slots; ++i) {
    EXPECT_EQ(left[i], 2.f - a[i]);
    EXPECT_EQ(quotient[i], 64.f / (a[i] * a[i] + 1.f));
  }
}
TEST(FragmentExpressions, EveryOperator) {
  const auto a = numbered<int, C>(1, 0), b = numbered<int, C>(-1, 3);
  const auto expect = [&](const auto& x, auto f) {
    const Fragment got = x;
    for (int i = 0; i < C::slots; ++i) EXPECT_EQ(got[i], f(a[i], b[i])) << i;
  };
  expect(a + b, [](int x, int y) { return x + y; });
  expect(a - b, [](int x, int y) { return x - y; });
  expect(a * b, [](int x, int y) { return x * y; });
  expect(a / (b + 5), [](int x, int y) { return x / (y + 5); });
  expect(a < b, [](int x, int y) { return x < y; });
  expect(a > b, [](int x, int y) { return x > y; });
  expect(a <= b + 1, [](int x, int y) { return x <= y + 1; });
  expect(a >= b - 1, [](int x, int y) { return x >= y - 1; });
  expect(a == 2, [](int x, int) { return x == 2; });
  expect(a != b - 1, [](int x, int y) { return x != y - 1; });
  expect(a < 2 && b < 3, [](int x, int y) { return x < 2 && y < 3; });
  expect(a < 1 || b < 1, [](int x, int y) { return x < 1 || y < 1; });
  expect(!(a < b), [](int x, int y) { return !(x < y); });
  expect(-a, [](int x, int) { return -x; });
}
TEST(FragmentExpressions, AnyCallable) {
  const auto a = numbered<float, C>(1, 1);
  int calls = 0;
  const auto once = [&calls](float x) { return ++calls, x * x; };
  const Fragment squares = apply(once, a);
  EXPECT_EQ(calls, C::slots);  // once a slot, when evaluated
  const Fragment roots = apply([](float x) { return std::sqrt(x); }, squares);
  for (int i = 0; i < C::slots; ++i) EXPECT_EQ(roots[i], a[i]);
  struct Clamp {
    float low, high;
    float operator()(float x, int steps) const { return std::fmin(std::fmax(x, low), high) + static_cast<float>(steps); }
  };
  const Fragment clamped = apply(Clamp{1.5f, 3.f}, a, 10);
  for (int i = 0; i < C::slots; ++i) EXPECT_EQ(clamped[i], std::fmin(std::fmax(a[i], 1.5f), 3.f) + 10.f);
  float (*pointer)(float) = [](float x) { return x + 1; };
  const Fragment more = apply(pointer, a);
  EXPECT_EQ(more[3], a[3] + 1);
  const Fragment exact = apply([](float x) { return static_cast<double>(x) / 3; }, a);  // of the type that it returns
  static_assert(std::is_same_v<decltype(exact), const Fragment<double, C>>);
  EXPECT_EQ(exact[1], static_cast<double>(a[1]) / 3);
}
TEST(FragmentExpressions, IntegersAndTruthKeepTheirTypes) {
  const auto n = numbered<int, C>((1 << 24) + 1, 1);  // more than fp32 holds
  const Fragment sum = n + 1;
  static_assert(std::is_same_v<decltype(sum), const Fragment<int, C>>);
  const Fragment larger = maximum(n, (1 << 24) + 2);
  static_assert(std::is_same_v<decltype(larger), const Fragment<int, C>>);
  for (int i = 0; i < C::slots; ++i) {
    EXPECT_EQ(sum[i], n[i] + 1);
    EXPECT_EQ(larger[i], std::max(n[i], (1 << 24) + 2));
  }
  const Fragment odd = apply([](int x) { return x % 2 != 0; }, n);
  static_assert(std::is_same_v<decltype(odd), const Fragment<bool, C>>);
  const Fragment<float, C> converted = n * 2;  // into the type asked for
  for (int i = 0; i < C::slots; ++i) {
    EXPECT_EQ(odd[i], n[i] % 2 != 0);
    EXPECT_EQ(converted[i], static_cast<float>(n[i] * 2));
  }
  const Fragment wide = maximum(numbered<int, C>(1, 0), 1.5f);
  static_assert(std::is_same_v<decltype(wide), const Fragment<float, C>>);
  EXPECT_EQ(wide[0], 1.5f);
  EXPECT_EQ(wide[3], 3.f);
}
TEST(FragmentExpressions, MaximumPassesOverNaN) {
  auto a = numbered<float, C>(1, 0);
  a[1] = std::numeric_limits<float>::quiet_NaN();
  const Fragment got = maximum(a, -5.f);
  EXPECT_EQ(got[1], -5.f);
  EXPECT_TRUE(std::isnan(Fragment(maximum(a, NAN))[1]));
}
TEST(FragmentExpressions, Select) {
  const auto a = numbered<float, C>(1, 0);
  const Fragment got = select(a < 2.f, a, -INFINITY), chosen = select(true, a, 7.f), other = select(a < 2.f, 1, 0.5f);
  for (int i = 0; i < C::slots; ++i) {
    EXPECT_EQ(got[i], i < 2 ? a[i] : -INFINITY);
    EXPECT_EQ(chosen[i], a[i]);
    EXPECT_EQ(other[i], i < 2 ? 1.f : 0.5f);
  }
}
TEST(FragmentExpressions, Coordinate) {
  for (int lane = 0; lane < 32; ++lane) {
    const Fragment row = coordinate<S, 0>(lane), column = coordinate<S, 1>(lane);
    static_assert(std::is_same_v<decltype(row), const Fragment<int, S>>);
    const auto s = numbered<float, S>(1, 0);
    const Fragment masked = select(coordinate<S, 1>(lane) < 13 && coordinate<S, 1>(lane) <= coordinate<S, 0>(lane), s, -INFINITY);
    for (int i = 0; i < S::slots; ++i) {
      EXPECT_EQ(row[i], S::at(lane, i)[0]);
      EXPECT_EQ(column[i], S::at(lane, i)[1]);
      EXPECT_EQ(masked[i], column[i] < 13 && column[i] <= row[i] ? s[i] : -INFINITY);
    }
  }
}
TEST(FragmentExpressions, ReducedOperandsBroadcast) {
  const auto s = numbered<float, S>(1, 0);
  const auto m = numbered<float, Rows>(100, 1);
  const auto n = numbered<float, Columns>(1000, 5);
  const Fragment got = s - m * 2.f + n, from_left = m - s;
  static_assert(std::is_same_v<decltype(got), const Fragment<float, S>> && std::is_same_v<decltype(from_left), decltype(got)>);
  for (int i = 0; i < S::slots; ++i) {
    const float of_row = m[(slot_of<S, Rows>(i))], of_column = n[slot_of<S, Columns>(i)];
    EXPECT_EQ(got[i], s[i] - of_row * 2.f + of_column) << i;
    EXPECT_EQ(from_left[i], of_row - s[i]) << i;
  }
  const Fragment small = m + 1.f;  // of reduced operands only: reduced
  static_assert(std::is_same_v<decltype(small), const Fragment<float, Rows>>);
  const Fragment<float, S> filled = m;  // a reduced fragment fills the whole
  for (int i = 0; i < S::slots; ++i) EXPECT_EQ(filled[i], m[(slot_of<S, Rows>(i))]);
  const auto narrow = numbered<float, WarpTiled<C, 1, 1, 2, 3>>(1, 0);  // rows of another tile of as many rows
  const Fragment scaled = narrow * m;
  for (int i = 0; i < 24; ++i) EXPECT_EQ(scaled[i], narrow[i] * m[(slot_of<WarpTiled<C, 1, 1, 2, 3>, Rows>(i))]);
}
TEST(FragmentExpressions, MayReadWhatTheyAreAssignedTo) {
  auto s = numbered<float, S>(1, 0);
  const auto before = s;
  const auto m = numbered<float, Rows>(100, 1);
  s = s * 2.f - m;
  for (int i = 0; i < S::slots; ++i) EXPECT_EQ(s[i], before[i] * 2.f - m[(slot_of<S, Rows>(i))]);
  // Slots backwards: every slot is read after another was computed.
  auto p = numbered<float, test::Forward>(1, 0);
  const auto q = numbered<float, test::Backward>(10, 3);
  p = redistribute<test::Forward>(q) - p;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(p[i], q[7 - i] - static_cast<float>(i));
}
TEST(FragmentExpressions, OwnershipsWithPermutedSlots) {
  const auto forward = numbered<float, test::Forward>(1, 0);
  const auto backward = numbered<float, test::Backward>(10, 0);
  const Fragment sum = forward + backward;  // as the first operand holds it
  static_assert(std::is_same_v<decltype(sum), const Fragment<float, test::Forward>>);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(sum[i], forward[i] + backward[7 - i]);
  auto s = backward;
  s = redistribute<test::Backward>(redistribute<test::Forward>(s) * 2.f);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(s[i], 2 * backward[i]);
  const Fragment<float, test::Backward> turned = forward;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(turned[i], forward[7 - i]);
}
TEST(FragmentExpressions, KeepTemporaryFragments) {
  const auto s = numbered<float, S>(1, 0);
  const auto make = [](float v) {
    Fragment<float, S> f;
    f.fill(v);
    return f;
  };
  auto e = s - make(3.f) * make(2.f);  // evaluated only below
  const Fragment got = e + make(1.f);
  for (int i = 0; i < S::slots; ++i) EXPECT_EQ(got[i], s[i] - 6.f + 1.f);
  auto later = s + 0.f;
  auto twice = later + later;
  EXPECT_EQ(Fragment(twice)[5], 2 * s[5]);
}
TEST(FragmentExpressions, Exp2) {
  Fragment<float, C> x;
  x[0] = 3.f, x[1] = -INFINITY, x[2] = 0.f, x[3] = -130.f;
  const Fragment got = exp2(x);
  EXPECT_EQ(got[0], 8.f);
  EXPECT_EQ(got[1], 0.f);
  EXPECT_EQ(got[2], 1.f);
  EXPECT_EQ(got[3], 0.f);  // subnormals are zero
  EXPECT_EQ(Fragment(exp2(numbered<int, C>(1, 0)))[3], 8.f);
}

// ---- reductions in a thread's slots ----

TEST(FragmentReductions, SlotsOfOneThread) {
  const auto s = numbered<int, S>(5, -100);
  const auto sums = sum_slots<1>(s);
  const auto columns = sum_slots<0>(s);
  const auto largest = max_slots<1>(-s);
  static_assert(std::is_same_v<decltype(sums), const Fragment<int, SlotsReduced<S, 1>>>);
  for (int r = 0; r < sums.slots; ++r) {
    int sum = 0, most = std::numeric_limits<int>::min();
    for (int i = 0; i < S::slots; ++i) {
      if (S::at(0, i)[0] != (SlotsReduced<S, 1>::at(0, r)[0])) continue;
      sum += s[i], most = std::max(most, -s[i]);
    }
    EXPECT_EQ(sums[r], sum);
    EXPECT_EQ(largest[r], most);
  }
  for (int r = 0; r < columns.slots; ++r) {
    int sum = 0;
    for (int i = 0; i < S::slots; ++i) sum += S::at(0, i)[1] == (SlotsReduced<S, 0>::at(0, r)[1]) ? s[i] : 0;
    EXPECT_EQ(columns[r], sum);
  }
}
TEST(FragmentReductions, AreOfTheTypeThatTheOperationReturns) {
  const auto s = numbered<float, C>(1, 0);
  const auto count = sum_slots<1>(s < 3.f);  // truths are counted
  static_assert(std::is_same_v<decltype(count)::Value, int>);
  EXPECT_EQ(count[0], 2);
  EXPECT_EQ(count[1], 1);
  const auto any = max_slots<1>(s == 3.f);
  static_assert(std::is_same_v<decltype(any)::Value, bool>);
  EXPECT_FALSE(any[0]);
  EXPECT_TRUE(any[1]);
  const auto products = reduce_slots<1>(s, [](float a, float b) { return a * b; });
  EXPECT_EQ(products[0], 0.f);
  EXPECT_EQ(products[1], 6.f);
}
TEST(FragmentReductions, CopiesCountOnce) {
  Fragment<int, test::CopiedSlots> f;
  for (int i = 0; i < 4; ++i) f[i] = 1 << i;
  const auto sums = sum_slots<1>(f);
  EXPECT_EQ(sums[0], 1 + 2);
}
TEST(FragmentReductions, OfOneThreadNeedNoOthers) {
  Fragment<int, test::OneThread> f = numbered<int, test::OneThread>(1, 1);
  EXPECT_EQ(sum<1>(f)[0], 1 + 2 + 3);
  EXPECT_EQ(sum<1>(f)[1], 4 + 5 + 6);
  EXPECT_EQ(max<0>(f)[2], 6);
}
TEST(FragmentReductions, BetweenLanesRaiseOutsideOfAKernel) {
  const auto s = numbered<float, C>(1, 0);
  test::expect_outside_of_a_kernel("shfl.sync.bfly", [&] { (void)sum<1>(s); });
  test::expect_outside_of_a_kernel("shfl.sync.bfly", [&] { (void)max<0>(s); });
  test::expect_outside_of_a_kernel("shfl.sync.bfly", [&] { (void)ptx::shfl_bfly(1, 1); });
}

// ---- parts, packing ----

TEST(Fragment, PartsAreItsSlots) {
  auto s = numbered<float, S>(1, 0);
  for (int i = 0; i < 16; ++i) {
    float(&part)[4] = s.part<4>(i);
    for (int j = 0; j < 4; ++j) EXPECT_EQ(&part[j], &s[4 * i + j]);
  }
  const auto& fixed = s;
  const float(&last)[32] = fixed.part<32>(1);
  EXPECT_EQ(&last[31], &fixed[63]);
}
template <class T> void expect_packed() {
  using O = WarpTiled<MmaM16N8K16A, 1, 1, 1, 2>;
  Fragment<float, O> f;
  const float values[] = {0.f, -0.f, 1.f, 1.00390625f, 1.01171875f, 65504.f, 65520.f, 0x1p-24f, -INFINITY, 3.14159f, -2.5f, 0x1p-25f};
  for (int i = 0; i < O::slots; ++i) f[i] = values[i % 12] * static_cast<float>(1 + i / 12);
  const auto packed = pack<T>(f);
  static_assert(std::is_same_v<decltype(packed), const Fragment<uint32_t, Pairs<O>>>);
  for (int r = 0; r < O::slots / 2; ++r) {
    const uint32_t low = from_float<T>(f[2 * r]).bits, high = from_float<T>(f[2 * r + 1]).bits;
    EXPECT_EQ(packed[r], low | high << 16) << r;
  }
  const auto doubled = pack<T>(f * 2.f);  // of an expression
  EXPECT_EQ(doubled[1], uint32_t{from_float<T>(2 * f[2]).bits} | uint32_t{from_float<T>(2 * f[3]).bits} << 16);
}
TEST(Fragment, PacksPairs) {
  expect_packed<bf16>();
  expect_packed<f16>();
}
TEST(Fragment, AccumulatorBecomesOperandA) {
  using To = WarpTiled<MmaM16N8K16A, 1, 1, 2, 4>;
  const auto s = numbered<float, S>(1, 0);
  auto a = pack<f16>(redistribute<To>(s));
  static_assert(std::is_same_v<decltype(a), Fragment<uint32_t, Pairs<To>>>);
  for (int i = 0; i < To::slots; ++i) {
    const uint32_t half = a[i / 2] >> 16 * (i % 2) & 0xffff;
    int from = -1;
    for (int j = 0; j < S::slots; ++j)
      if (S::at(17, j) == To::at(17, i)) from = j;
    EXPECT_EQ(half, from_float<f16>(s[from]).bits) << i;
  }
  EXPECT_EQ(&a.part<4>(7)[3], &a[31]);
}

}  // namespace
}  // namespace grout
