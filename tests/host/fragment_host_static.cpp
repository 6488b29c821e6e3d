// make_static: what its indices are, what it calls and when.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/fragment.cuh"

namespace grout {
namespace {

template <class T, int N> std::vector<T> listed(const Registers<T, N>& r) { return std::vector<T>(r.values, r.values + N); }

TEST(MakeStatic, Squares) {
  const auto squares = make_static<0, 4>([](auto i) { return i * i; });
  static_assert(std::is_same_v<decltype(squares), const Registers<int, 4>>);
  EXPECT_EQ(listed(squares), (std::vector<int>{0, 1, 4, 9}));
  constexpr auto constant = make_static<0, 4>([](auto i) { return i * i; });
  static_assert(constant[3] == 9);
}
TEST(MakeStatic, SteppedRanges) {
  const auto index = [](auto i) { return decltype(i)::value; };
  EXPECT_EQ(listed(make_static<1, 10, 3>(index)), (std::vector<int>{1, 4, 7}));
  EXPECT_EQ(listed(make_static<1, 11, 3>(index)), (std::vector<int>{1, 4, 7, 10}));
  EXPECT_EQ(listed(make_static<-2, 2>(index)), (std::vector<int>{-2, -1, 0, 1}));
  EXPECT_EQ(listed(make_static<3, -1, -1>(index)), (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(listed(make_static<7, 0, -3>(index)), (std::vector<int>{7, 4, 1}));
  EXPECT_EQ(listed(make_static<6, 0, -3>(index)), (std::vector<int>{6, 3}));
  EXPECT_EQ(listed(make_static<5, 6, 100>(index)), (std::vector<int>{5}));
}
TEST(MakeStatic, EmptyRanges) {
  int calls = 0;
  const auto count = [&](auto i) { return ++calls, static_cast<float>(i); };
  static_assert(std::is_same_v<decltype(make_static<0, 0>(count)), Registers<float, 0>>);
  (void)make_static<0, 0>(count), (void)make_static<4, 2>(count), (void)make_static<0, 3, -1>(count);
  make_static<2, 2>([&](auto) { ++calls; });
  static_assert(std::is_void_v<decltype(make_static<2, 2>([](auto) {}))>);
  EXPECT_EQ(calls, 0);
}
TEST(MakeStatic, IndicesKeepTheirType) {
  make_static<int64_t{1}, int64_t{3}>([](auto i) { static_assert(std::is_same_v<decltype(i), std::integral_constant<int64_t, decltype(i)::value>>); });
  make_static<0u, 3u>([](auto i) { static_assert(std::is_same_v<typename decltype(i)::value_type, unsigned>); });
  make_static<uint8_t{250}, uint8_t{255}>([](auto i) { static_assert(std::is_same_v<typename decltype(i)::value_type, uint8_t>); });
  const auto wide = make_static<int64_t{1} << 40, (int64_t{1} << 40) + 2>([](auto i) { return decltype(i)::value; });
  static_assert(std::is_same_v<decltype(wide), const Registers<int64_t, 2>>);
  EXPECT_EQ(wide[1], (int64_t{1} << 40) + 1);
}
TEST(MakeStatic, CallsOnceEachInOrder) {
  std::vector<int> order;
  const auto got = make_static<4, -1, -2>([&](auto i) {
    order.push_back(i);
    return static_cast<int>(order.size());
  });
  EXPECT_EQ(order, (std::vector<int>{4, 2, 0}));
  EXPECT_EQ(listed(got), (std::vector<int>{1, 2, 3}));
  make_static<0, 3>([&](auto i) { order.push_back(10 + i); });
  EXPECT_EQ(order, (std::vector<int>{4, 2, 0, 10, 11, 12}));
}
TEST(MakeStatic, EvaluatesTheCallableOnce) {
  int made = 0, copied = 0;
  struct Callable {
    int* copies;
    explicit Callable(int* c) : copies(c) {}
    Callable(const Callable& other) : copies(other.copies) { ++*copies; }
    int operator()(int i) const { return 2 * i; }
  };
  const auto make = [&] { return ++made, Callable(&copied); };
  EXPECT_EQ(listed(make_static<0, 3>(make())), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(made, 1);
  EXPECT_EQ(copied, 0);
  int state = 0;  // one that changes itself
  EXPECT_EQ(listed(make_static<0, 3>([state](int) mutable { return ++state; })), (std::vector<int>{1, 2, 3}));
}
TEST(MakeStatic, ReturnsAnyType) {
  const auto text = make_static<0, 2>([](auto i) { return std::string(2, static_cast<char>('a' + i)); });
  EXPECT_EQ(text[0], "aa");
  EXPECT_EQ(text[1], "bb");
}

}  // namespace
}  // namespace grout
