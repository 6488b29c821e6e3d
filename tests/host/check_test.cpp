// The checks themselves: that a wrong result fails them, that a right one passes, and that the reference is right.
#include "common/check.cuh"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

namespace grout {
namespace {

constexpr ElementType kTypes[] = {ElementType::bf16, ElementType::f16, ElementType::f32};

// A fixture whose output memory holds what a perfect kernel would have written: the reference, rounded.
struct Right : GemmFixture {
  using GemmFixture::GemmFixture;
  HostMatrix right() const {
    const Reference ref = reference_gemm(a, b, &c, alpha, beta);
    HostMatrix d = c;
    size_t i = 0;
    for (int64_t batch = 0; batch < ref.batch; ++batch)
      for (int64_t r = 0; r < ref.m; ++r)
        for (int64_t col = 0; col < ref.n; ++col) d.set(batch, r, col, static_cast<float>(ref.value[i++]));
    return d;
  }
};

Right problem(ElementType type, const Fill& fill, float alpha = 1, float beta = 0) {
  return Right(stored(type, 5, 7, false, 9, 3, 2), stored(type, 7, 6, true, 8, 1, 2),
               stored(type, 5, 6, false, 7, 5, 2, 40), alpha, beta, fill);
}

// The next representable value of the type away from zero.
float beyond(ElementType type, float value) {
  StoredMatrix one = stored(type, 1, 1);
  HostMatrix m(one);
  m.set(0, 0, 0, value);
  for (auto& byte : m.bytes)
    if (++byte != 0) break;  // little-endian increment of the representation
  return m.get(0, 0, 0);
}

TEST(Check, TheRoundedReferencePasses) {
  for (const ElementType type : kTypes)
    for (const bool integers : {false, true})
      for (const float alpha : {1.0f, -2.0f, 0.0f})
        for (const float beta : {0.0f, 3.0f}) {
          Right f = problem(type, {integers, 7, 4}, alpha, beta);
          f.device_c.upload(f.right().bytes.data());
          const Comparison result = f.verify("right");
          EXPECT_TRUE(result.pass()) << result.message;
          EXPECT_EQ(result.elements, 60);
          EXPECT_LE(result.max_ratio, 1);
        }
}

// Case 6.3: a NaN, an infinity, one flipped element, an element never written.
TEST(Check, OneWrongElementFails) {
  for (const ElementType type : kTypes)
    for (const bool integers : {false, true})
      for (const float wrong : {NAN, INFINITY, -INFINITY, 0.375f}) {
        Right f = problem(type, {integers, 7, 4});
        HostMatrix d = f.right();
        d.set(1, 4, 5, wrong);
        f.device_c.upload(d.bytes.data());
        const Comparison result = f.verify("wrong");
        EXPECT_FALSE(result.pass());
        EXPECT_EQ(result.wrong, 1);
        EXPECT_EQ(std::isnan(result.max_error), std::isnan(wrong));
        for (const char* part :
             {"wrong: A ", " 5x7 pitch 9 offset 3 batch 2 stride 45", "7x6 transposed pitch 8", "5x6 pitch 7",
              "alpha 1, beta 0", "1 of 60 elements wrong", "[batch 1, row 4, col 5] got "})
          EXPECT_NE(result.message.find(part), std::string::npos) << part << "\nis not in\n" << result.message;
        f.reset();
        EXPECT_EQ(f.verify("unwritten").wrong, 60);
      }
}

TEST(Check, PaddingGuardsAndOperandsMustStay) {
  Right f = problem(ElementType::bf16, {true, 7, 4});
  const HostMatrix right = f.right();
  const size_t padding[] = {6 * 2, 34 * 2 + 1, 39 * 2};  // behind row 0, between the batches twice
  for (const size_t byte : padding) {
    HostMatrix d = right;
    d.bytes[byte] = kPoison;  // NaN copied from an operand's padding
    f.device_c.upload(d.bytes.data());
    const Comparison result = f.verify("padding");
    EXPECT_EQ(result.wrong, 0);
    EXPECT_EQ(result.touched, 1);
    EXPECT_NE(result.message.find("padding byte " + std::to_string(byte)), std::string::npos) << result.message;
  }
  f.device_c.upload(right.bytes.data());
  EXPECT_TRUE(f.verify("clean").pass());
  auto* base = f.device_c.as<unsigned char>();
  const size_t end = f.device_c.size();
  for (const std::ptrdiff_t at : {std::ptrdiff_t{-1}, std::ptrdiff_t{-266}, static_cast<std::ptrdiff_t>(end),
                                  static_cast<std::ptrdiff_t>(end) + 255}) {
    unsigned char one = 0;
    ASSERT_EQ(cudaMemcpy(base + at, &one, 1, cudaMemcpyHostToDevice), cudaSuccess);
    const Comparison result = f.verify("guard");
    EXPECT_FALSE(result.pass());
    const std::string place = at < 0
                                  ? std::to_string(-at) + " bytes before the start"
                                  : std::to_string(at - static_cast<std::ptrdiff_t>(end) + 1) + " bytes past the end";
    EXPECT_NE(result.message.find("C: 1 guard bytes changed, the first one " + place), std::string::npos)
        << result.message;
    one = kOutputPadding;
    ASSERT_EQ(cudaMemcpy(base + at, &one, 1, cudaMemcpyHostToDevice), cudaSuccess);
  }
  EXPECT_TRUE(f.verify("restored").pass());
  const unsigned char one = 0x12;
  ASSERT_EQ(cudaMemcpy(f.device_b.data(), &one, 1, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_NE(f.verify("operand").message.find("operand B was written"), std::string::npos);
}

TEST(Check, BufferBaseIsMisalignedAsAsked) {
  for (const size_t misalignment : {0u, 2u, 14u, 255u})
    for (const size_t guard : {0u, 1u, 256u}) {
      const DeviceBuffer buffer(10, misalignment, kPoison, guard);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, misalignment);
      EXPECT_TRUE(buffer.check_guards("buffer"));
    }
}

TEST(Bound, TheRoundedReferencePassesAndOneUlpBeyondDoesNot) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const int64_t k : {1, 73, 1000})
      for (int i = 0; i < 2000; ++i) {
        const double value = fill_value({false, 3, 0}, i) * (i % 3 == 0 ? 1.0 : i % 3 == 1 ? 300.0 : 1e-6);
        const double slack = accumulation_error(k, std::fabs(value));
        const double low = round_to(type, value - slack), high = round_to(type, value + slack);
        EXPECT_TRUE(element_error(type, value, slack, round_to(type, value)).right);
        EXPECT_TRUE(element_error(type, value, slack, low).right);
        EXPECT_TRUE(element_error(type, value, slack, high).right);
        const double outer = value < 0 ? low : high;
        EXPECT_FALSE(element_error(type, value, slack, beyond(type, static_cast<float>(outer))).right) << value;
        // Exact: the rounding and nothing else.
        const float only = static_cast<float>(round_to(type, value));
        EXPECT_TRUE(element_error(type, value, 0, only).right);
        EXPECT_FALSE(element_error(type, value, 0, beyond(type, only)).right);
      }
}

TEST(Bound, OverflowTiesAndNaN) {
  const auto right = [](ElementType type, double value, double slack, double got) {
    return element_error(type, value, slack, got).right;
  };
  EXPECT_TRUE(right(ElementType::f16, 65519.9, 0, 65504));
  EXPECT_FALSE(right(ElementType::f16, 65519.9, 0, INFINITY));
  EXPECT_TRUE(right(ElementType::f16, 65520, 0, INFINITY));
  EXPECT_FALSE(right(ElementType::f16, 65520, 0, 65504));
  EXPECT_FALSE(right(ElementType::f16, 65520, 0, -INFINITY));
  EXPECT_TRUE(right(ElementType::f16, 65519.9, 1, INFINITY));
  EXPECT_TRUE(right(ElementType::f16, 65520.1, 1, 65504));
  EXPECT_TRUE(right(ElementType::f16, -1e6, 1, -INFINITY));
  EXPECT_FALSE(right(ElementType::f16, -1e6, 1, -65504));
  EXPECT_TRUE(right(ElementType::bf16, 257, 0, 256));  // ties go to even
  EXPECT_FALSE(right(ElementType::bf16, 257, 0, 258));
  EXPECT_TRUE(right(ElementType::bf16, 257, 0.01, 258));
  EXPECT_TRUE(right(ElementType::bf16, 0, 0, -0.0));
  for (const double slack : {0.0, 1.0, 1e300, static_cast<double>(INFINITY)})
    EXPECT_FALSE(right(ElementType::f32, 1, slack, NAN));
  EXPECT_FALSE(right(ElementType::f32, NAN, 1, 1));
  EXPECT_FALSE(right(ElementType::f32, NAN, 1, NAN));  // a reference of NaN is a wrong test, never a pass
}

// fp32 sums in sequence, in reverse, and cut off towards zero after every product, stay within the bound.
TEST(Bound, CoversWorseThanHardware) {
  const auto cut = [](double x) {
    const float f = static_cast<float>(x);
    return std::fabs(static_cast<double>(f)) > std::fabs(x) ? std::nextafterf(f, 0.0f) : f;
  };
  for (const int64_t k : {1, 8, 9, 100, 4096}) {
    double sum = 0, magnitude = 0;
    float forward = 0, backward = 0, cut_off = 0;
    for (int64_t i = 0; i < k; ++i) {
      const float x = to_float(bf16(std::fabs(fill_value({}, i)) + 0.1f)),
                  y = to_float(bf16(fill_value({}, i + k) + 1.1f));
      sum += static_cast<double>(x) * y;
      magnitude += std::fabs(static_cast<double>(x) * y);
      forward += x * y;
      cut_off = cut(static_cast<double>(cut_off) + static_cast<double>(x) * y);
    }
    for (int64_t i = k; i-- > 0;)
      backward += to_float(bf16(std::fabs(fill_value({}, i)) + 0.1f)) * to_float(bf16(fill_value({}, i + k) + 1.1f));
    for (const float got : {forward, backward, cut_off})
      EXPECT_TRUE(element_error(ElementType::f32, sum, accumulation_error(k, magnitude), got).right)
          << k << " " << got - sum;
    // and a dropped product of average size does not, as long as K is small
    if (k <= 100) {
      EXPECT_FALSE(element_error(ElementType::f32, sum, accumulation_error(k, magnitude),
                                 sum - magnitude / static_cast<double>(k))
                       .right);
    }
  }
}

TEST(Exact, RangeAndLimit) {
  EXPECT_EQ(exact_range(1), 8);
  EXPECT_EQ(exact_range(262144), 8);  // 2^18 * 64 = 2^24
  EXPECT_EQ(exact_range(262145), 7);
  EXPECT_EQ(exact_range(1 << 24), 1);
  EXPECT_EQ(exact_range((1 << 24) + 1), 0);
  EXPECT_EQ(exact_range(262144, 1, 1), 7);
  EXPECT_EQ(exact_range(1, 0, 0), 8);
  EXPECT_EQ(float((1 << 24) - 1) + 1.0f, 0x1p24f);
  HostMatrix a(stored(ElementType::f32, 1, 1)), b(stored(ElementType::f32, 1, 1)), c(stored(ElementType::f32, 1, 1));
  a.set(0, 0, 0, 4097), b.set(0, 0, 0, 4096), c.set(0, 0, 0, 4097 * 4096);
  const Reference ref = reference_gemm(a, b, nullptr, 1, 0);
  EXPECT_THROW((void)compare_result(ref, c, c, true, "too large"), std::invalid_argument);
  EXPECT_TRUE(compare_result(ref, c, c, false, "bounded").pass());
}

TEST(Fill, DependsOnTheLogicalElementOnly) {
  HostMatrix x(stored(ElementType::f16, 3, 4)), y(stored(ElementType::f16, 3, 4, true, 9, 2)),
      z(stored(ElementType::f16, 3, 4));
  for (const bool integers : {false, true}) {
    x.fill({integers, 5, 3}), y.fill({integers, 5, 3}), z.fill({integers, 6, 3});
    int different = 0;
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t c = 0; c < 4; ++c) {
        EXPECT_EQ(x.get(0, r, c), y.get(0, r, c));
        EXPECT_LE(std::fabs(x.get(0, r, c)), integers ? 3 : 1);
        EXPECT_TRUE(!integers || x.get(0, r, c) == std::round(x.get(0, r, c)));
        different += x.get(0, r, c) != z.get(0, r, c);
      }
    EXPECT_GT(different, 3);
  }
  EXPECT_EQ(y.bytes.size(), (3 * 9 + 3) * 2u);  // the last stored row has no padding
  EXPECT_TRUE(std::isnan(load_element(ElementType::f16, y.bytes.data(), 3)));
  double mean = 0;
  std::vector<int> seen(9);
  for (int i = 0; i < 100000; ++i) {
    mean += fill_value({false, 1, 4}, i) / 100000;
    ++seen[static_cast<size_t>(fill_value({true, 1, 4}, i) + 4)];
  }
  EXPECT_LT(std::fabs(mean), 0.01);
  for (const int count : seen) EXPECT_NEAR(count, 100000 / 9, 500);
}

// Against the definition, with batches, a broadcast and every layout; then what alpha and beta leave unread.
TEST(Reference, IsTheDefinition) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, std::tuple{17, 33, 5}, std::tuple{40, 64, 70},
                                    std::tuple{3, 0, 4}, std::tuple{3, 4, 0}}) {
        HostMatrix a(stored(ElementType::bf16, m, k, ta, -1, 0, 3)),
            c(stored(ElementType::bf16, m, n, false, n + 1, 0, 3));
        HostMatrix b(stored(ElementType::bf16, k, n, tb, -1, 0, 3, ta ? 0 : -1));
        a.fill({false, 1}), b.fill({false, 2}), c.fill({false, 3});
        const Reference ref = reference_gemm(a, b, &c, 0.5f, -2);
        ASSERT_EQ(ref.value.size(), static_cast<size_t>(3 * m * n));
        size_t i = 0;
        for (int64_t batch = 0; batch < 3; ++batch)
          for (int64_t r = 0; r < m; ++r)
            for (int64_t col = 0; col < n; ++col, ++i) {
              double sum = 0, absolute = 0;
              for (int64_t p = 0; p < k; ++p) {
                sum += static_cast<double>(a.get(batch, r, p)) * b.get(batch, p, col);
                absolute += std::fabs(static_cast<double>(a.get(batch, r, p)) * b.get(batch, p, col));
              }
              EXPECT_NEAR(ref.value[i], 0.5 * sum - 2.0 * c.get(batch, r, col), 1e-12);
              EXPECT_NEAR(ref.magnitude[i], 0.5 * absolute + 2 * std::fabs(c.get(batch, r, col)), 1e-12);
            }
      }
  HostMatrix nan(stored(ElementType::f16, 4, 4)), ones(stored(ElementType::f16, 4, 4));
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t c = 0; c < 4; ++c) ones.set(0, r, c, 1);
  for (const double v : reference_gemm(nan, nan, &ones, 0, 3).value) EXPECT_EQ(v, 3);
  for (const double v : reference_gemm(ones, ones, nullptr, 2, 0).value) EXPECT_EQ(v, 8);
}

TEST(Reference, IsFastEnough) {
  HostMatrix a(stored(ElementType::bf16, 512, 512)), b(stored(ElementType::bf16, 512, 512));
  a.fill({}), b.fill({});
  const auto start = std::chrono::steady_clock::now();
  const Reference ref = reference_gemm(a, b, nullptr, 1, 0);
  RecordProperty("milliseconds",
                 static_cast<int>((std::chrono::steady_clock::now() - start) / std::chrono::milliseconds(1)));
  EXPECT_EQ(ref.value.size(), 512u * 512u);
}

}  // namespace
}  // namespace grout
