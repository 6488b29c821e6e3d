// Seeded GEMM problems for both devices: every value of every factor occurs equally often, in random company. Poison lies
// around every logical operand, and the verdict covers the result, its padding, the guards and the operands.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "common/check.cuh"
#include "tests/kernels/gemm_call.cuh"
#include "tests/kernels/seeded.cuh"

namespace grout::test {

struct GemmCase {
  int64_t m = 1, n = 1, k = 1;
  bool trans_a = false, trans_b = false;
  ElementType type = ElementType::bf16, out = ElementType::bf16;
  float alpha = 1, beta = 0;
  int64_t batch = 1;
  bool repeat_a = false, repeat_b = false, repeat_c = false;  // one matrix for the whole batch: stride 0
  int64_t pad_a = 0, pad_b = 0, pad_c = 0;                    // elements between stored rows
  int64_t gap_a = 0, gap_b = 0, gap_c = 0;                    // elements between matrices
  int64_t offset_a = 0, offset_b = 0, offset_c = 0, offset_d = 0;
  bool in_place = true;  // D is C
  bool null_unread = false;  // operands that are not read are null rather than NaN
  CallBounds bounds = CallBounds::automatic;
  bool integers = true;
  uint64_t seed = 1;
  int schedule = 0;     // simulated device: 0..9, five schedules late, then early
  int processors = 4;   // simulated device
};

inline const char* name(CallBounds bounds) {
  return bounds == CallBounds::automatic ? "auto" : bounds == CallBounds::checked ? "true" : "false";
}

inline StoredMatrix stored_a(const GemmCase& x) {
  StoredMatrix s = stored(x.type, x.m, x.k, x.trans_a, -1, x.offset_a, x.batch);
  s.pitch += x.pad_a;
  s.batch_stride = x.repeat_a ? 0 : s.stored_rows() * s.pitch + x.gap_a;
  return s;
}
inline StoredMatrix stored_b(const GemmCase& x) {
  StoredMatrix s = stored(x.type, x.k, x.n, x.trans_b, -1, x.offset_b, x.batch);
  s.pitch += x.pad_b;
  s.batch_stride = x.repeat_b ? 0 : s.stored_rows() * s.pitch + x.gap_b;
  return s;
}
inline StoredMatrix stored_d(const GemmCase& x) {
  StoredMatrix s = stored(x.out, x.m, x.n, false, x.n + x.pad_c, x.in_place ? x.offset_c : x.offset_d, x.batch);
  s.batch_stride = s.rows * s.pitch + x.gap_c;
  return s;
}
inline StoredMatrix stored_c(const GemmCase& x) {
  StoredMatrix s = stored_d(x);
  s.offset = x.offset_c;
  if (!x.in_place) s.batch_stride = x.repeat_c ? 0 : s.batch_stride + 8;
  return s;
}

inline std::string describe(const GemmCase& x) {
  char text[200];
  std::snprintf(text, sizeof text,
                "M=%lld N=%lld K=%lld alpha %g beta %g, D %s C, unread operands %s, bounds %s, %s seed %llu, schedule %d, "
                "%d processors",
                static_cast<long long>(x.m), static_cast<long long>(x.n), static_cast<long long>(x.k), x.alpha, x.beta,
                x.in_place ? "is" : "is not", x.null_unread ? "null" : "NaN", name(x.bounds),
                x.integers ? "integers" : "random", static_cast<unsigned long long>(x.seed), x.schedule, x.processors);
  return std::string(text) + "; A " + grout::describe(stored_a(x)) + "; B " + grout::describe(stored_b(x)) + "; C " +
         grout::describe(stored_c(x)) + "; D " + grout::describe(stored_d(x));
}

// A case's operands in host and device memory. `padding` fills all that is no logical element of A, B and C.
struct GemmData {
  GemmCase x;
  int range;
  HostMatrix a, b, c, d;  // d: what the output memory holds before the call
  DeviceBuffer device_a, device_b, device_c, device_d;

  explicit GemmData(const GemmCase& c_, size_t guard = 256, unsigned char padding = kPoison)
      : x(c_),
        range(exact_range(c_.k, c_.alpha, c_.beta)),
        a(filled(stored_a(x), padding, x.alpha != 0, 0)),
        b(filled(stored_b(x), padding, x.alpha != 0, 1)),
        c(filled(stored_c(x), padding, x.beta != 0, 2)),
        d(stored_d(x), kOutputPadding),
        device_a(a, padding, guard),
        device_b(b, padding, guard),
        device_c(c, padding, guard),
        device_d((prepare(), d), kOutputPadding, guard) {}

  GemmCall call() const {
    GemmCall g;
    g.m = x.m, g.n = x.n, g.k = x.k, g.type = x.type, g.out = x.out, g.trans_a = x.trans_a, g.trans_b = x.trans_b;
    const bool no_product = x.alpha == 0 || x.k == 0;
    g.a = no_product && x.null_unread ? nullptr : device_a.data();
    g.b = no_product && x.null_unread ? nullptr : device_b.data();
    g.d = device_d.data();
    g.c = x.in_place ? g.d : x.beta == 0 && x.null_unread ? nullptr : device_c.data();
    g.lda = a.layout.pitch, g.ldb = b.layout.pitch, g.ldc = d.layout.pitch;
    g.alpha = x.alpha, g.beta = x.beta, g.batch = x.batch;
    g.batch_a = a.layout.batch_stride, g.batch_b = b.layout.batch_stride;
    g.batch_d = d.layout.batch_stride, g.batch_c = x.in_place ? g.batch_d : c.layout.batch_stride;
    g.bounds = x.bounds;
    return g;
  }
  std::vector<unsigned char> output() const {
    std::vector<unsigned char> bytes(d.bytes.size());
    device_d.download(bytes.data());
    return bytes;
  }
  Comparison verify() const {
    HostMatrix got = d;
    got.bytes = output();
    const std::string all = describe(x);
    Comparison result = compare_result(reference_gemm(a, b, x.in_place ? &d : &c, x.alpha, x.beta), got, d, x.integers, all);
    for (const auto& [what, buffer, host] : {std::tuple{"A", &device_a, &a}, std::tuple{"B", &device_b, &b},
                                             std::tuple{"C", &device_c, &c}, std::tuple{"D", &device_d, &d}}) {
      if (const Status guards = buffer->check_guards(all + ": " + what); !guards) result.message += "\n" + guards.message;
      if (*what == 'D') continue;
      std::vector<unsigned char> now(buffer->size());
      buffer->download(now.data());
      if (now != host->bytes) result.message += "\n" + all + ": operand " + what + " was written";
    }
    return result;
  }

 private:
  HostMatrix filled(const StoredMatrix& m, unsigned char padding, bool read, uint64_t which) const {
    HostMatrix matrix(m, padding);
    if (read) matrix.fill({x.integers, x.seed * 3 + which, std::max(range, 1)});
    return matrix;
  }
  void prepare() {
    if (x.in_place && x.beta != 0) d.fill({x.integers, x.seed * 3 + 2, std::max(range, 1)});
  }
};

// For expect_other_rows_stay_out: K ends within a vector and a k-tile, rows lie next to one another and apart.
inline std::vector<GemmCase> other_rows_cases(ElementType type) {
  std::vector<GemmCase> cases;
  for (const int64_t pad : {0, 1, 3, 7})
    for (const bool trans_b : {false, true}) {
      GemmCase x;
      x.m = 32, x.k = 33, x.n = 64, x.batch = 16, x.pad_a = x.pad_b = x.pad_c = pad, x.trans_b = trans_b;
      x.type = type, x.out = ElementType::f32;
      cases.push_back(x);
    }
  return cases;
}
// A has ones in row 0 and NaN in all others, its padding included: what reads on past the end of K shows in row 0, as NaN * 0
// is NaN.
inline void expect_other_rows_stay_out(const GemmCase& x, size_t guard = 256) {
  GemmData data(x, guard);
  std::fill(data.a.bytes.begin(), data.a.bytes.end(), kPoison);
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t i = 0; i < x.k; ++i) data.a.set(b, 0, i, 1.f);
  data.device_a.upload(data.a.bytes.data());
  const Status status = run_gemm(data.call(), nullptr);
  ASSERT_TRUE(status) << describe(x) << ": " << status.message;
  HostMatrix got = data.d;
  got.bytes = data.output();
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t j = 0; j < x.n; ++j) {
      float sum = 0;
      for (int64_t i = 0; i < x.k; ++i) sum += data.b.get(b, i, j);
      EXPECT_EQ(got.get(b, 0, j), sum) << "batch " << b << " column " << j << ": " << describe(x);
    }
}

// The memory of a matrix with any strides: the lowest element's index relative to the first, and the elements from there on.
struct Hull {
  int64_t low = 0, elements = 0;
};
// `reaches`: how far the last element along each axis lies from the first.
inline Hull hull_of(std::initializer_list<int64_t> reaches) {
  int64_t low = 0, high = 0;
  for (const int64_t reach : reaches) (reach < 0 ? low : high) += reach;
  return {low, high - low + 1};
}

inline const std::vector<int64_t> kGemmSizes = {0,  1,  2,  7,  8,  9,   15,  16,  17,  31,  32,  33,
                                                63, 64, 65, 73, 97, 105, 107, 127, 128, 129, 130, 257};
inline constexpr float kAlphas[] = {1, 0, -2, 0.5f}, kBetas[] = {0, 1, -1, 0.5f};

inline const std::vector<ElementType> kMmaTypes = {ElementType::bf16, ElementType::f16};

inline std::vector<GemmCase> gemm_cases(int count, uint64_t seed, const std::vector<int64_t>& sizes = kGemmSizes,
                                        const std::vector<ElementType>& types = kMmaTypes) {
  std::mt19937_64 random(seed);
  const int extents = static_cast<int>(sizes.size());
  Deck m(extents, random), n(extents, random), k(extents, random), layout(4, random), type(static_cast<int>(types.size()), random), out(3, random),
      alpha(4, random), beta(4, random), batch(8, random), pad_a(10, random), pad_b(10, random), pad_c(10, random),
      offset_a(9, random), offset_b(9, random), offset_c(9, random), offset_d(9, random), in_place(2, random),
      null_unread(2, random), bounds(6, random), integers(2, random), schedule(10, random), style(6, random),
      processors(2, random), gap(9, random);
  std::vector<GemmCase> cases;
  for (int i = 0; i < count; ++i) {
    GemmCase x;
    x.m = sizes[static_cast<size_t>(m.deal())], x.n = sizes[static_cast<size_t>(n.deal())];
    x.k = sizes[static_cast<size_t>(k.deal())];
    const int l = layout.deal(), group = batch.deal();
    x.trans_a = l & 1, x.trans_b = l & 2;
    x.type = types[static_cast<size_t>(type.deal())];
    x.out = static_cast<ElementType>(out.deal());
    x.alpha = kAlphas[alpha.deal()], x.beta = kBetas[beta.deal()];
    x.batch = group < 3 ? 1 : group % 2 ? 2 : 3;
    x.repeat_a = group == 5 || group == 7, x.repeat_b = group == 6 || group == 7, x.repeat_c = group == 4;
    x.pad_a = pad_a.deal(), x.pad_b = pad_b.deal(), x.pad_c = pad_c.deal();
    x.offset_a = offset_a.deal(), x.offset_b = offset_b.deal();
    x.offset_c = offset_c.deal(), x.offset_d = offset_d.deal();
    x.gap_a = gap.deal(), x.gap_b = gap.deal(), x.gap_c = gap.deal();
    x.in_place = in_place.deal() && !x.repeat_c;
    x.null_unread = null_unread.deal();
    x.integers = integers.deal();
    x.seed = seed * 1000 + static_cast<uint64_t>(i);
    x.schedule = schedule.deal();
    x.processors = processors.deal() ? 4 : 1;
    const int b = bounds.deal();
    x.bounds = b == 0 ? CallBounds::none : b <= 2 ? CallBounds::checked : CallBounds::automatic;
    // Two in six: A and B aligned, for the bounded path. One in six, and all with bounds=false: everything aligned, full.
    const int s = x.bounds == CallBounds::none ? 0 : style.deal();
    const auto up = [](int64_t& value, int64_t multiple) { value = (value + multiple - 1) / multiple * multiple; };
    if (s == 0) up(x.m, 64), up(x.n, 64), up(x.k, 32);
    if (s <= 2) {
      up(x.offset_a, 8), up(x.offset_b, 8), up(x.gap_a, 8), up(x.gap_b, 8);
      int64_t pitch_a = (x.trans_a ? x.m : x.k) + x.pad_a, pitch_b = (x.trans_b ? x.k : x.n) + x.pad_b;
      up(pitch_a, 8), up(pitch_b, 8);
      x.pad_a = pitch_a - (x.trans_a ? x.m : x.k), x.pad_b = pitch_b - (x.trans_b ? x.k : x.n);
    }
    if (s == 0) up(x.offset_c, 8), up(x.offset_d, 8), up(x.pad_c, 8), up(x.gap_c, 8);
    cases.push_back(x);
  }
  return cases;
}

inline void expect_gemm_factors(FactorCounts& f, const std::vector<int64_t>& sizes,
                                const std::vector<ElementType>& types = kMmaTypes) {
  for (const char* extent : {"M", "N", "K"}) f.expect(extent, sizes);
  const std::vector<int64_t> to9 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, to8 = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  for (const char* pitch : {"pitch A +", "pitch B +", "pitch C +"}) f.expect(pitch, to9);
  for (const char* offset : {"offset A", "offset B", "offset C", "offset D"}) f.expect(offset, to8);
  f.expect<const char*>("layout", {"nn", "nt", "tn", "tt"});
  for (const ElementType type : types) f.expect<const char*>("type", {element_name(type)});
  f.expect<const char*>("out", {"bf16", "f16", "f32"});
  f.expect<float>("alpha", {1, 0, -2, 0.5f});
  f.expect<float>("beta", {0, 1, -1, 0.5f});
  f.expect<int64_t>("batch", {1, 2, 3});
  f.expect<const char*>("repeated", {"A", "B", "A and B", "C", "none"});
  f.expect<const char*>("D", {"is C", "is not C"});
  f.expect<const char*>("unread", {"null", "NaN"});
  f.expect<const char*>("bounds", {"auto", "true", "false"});
  f.expect<const char*>("data", {"integers", "random"});
  f.expect<const char*>("path", {"aligned", "bounded"});
  if (types == kMmaTypes) f.expect<const char*>("path", {"realign"});  // f32 needs no alignment
}
inline void count_gemm_factors(FactorCounts& f, const GemmCase& x, const GemmChosen& chosen) {
  f.count("M", x.m), f.count("N", x.n), f.count("K", x.k);
  f.count("pitch A +", x.pad_a), f.count("pitch B +", x.pad_b), f.count("pitch C +", x.pad_c);
  f.count("offset A", x.offset_a), f.count("offset B", x.offset_b);
  f.count("offset C", x.offset_c), f.count("offset D", x.in_place ? x.offset_c : x.offset_d);
  f.count("layout", std::string(x.trans_a ? "t" : "n") + (x.trans_b ? "t" : "n"));
  f.count("type", element_name(x.type)), f.count("out", element_name(x.out));
  f.count("alpha", x.alpha), f.count("beta", x.beta), f.count("batch", x.batch);
  f.count("repeated", x.repeat_a && x.repeat_b ? "A and B" : x.repeat_a ? "A" : x.repeat_b ? "B" : x.repeat_c ? "C" : "none");
  f.count("D", x.in_place ? "is C" : "is not C");
  if (x.alpha == 0 || x.k == 0 || (x.beta == 0 && !x.in_place)) f.count("unread", x.null_unread ? "null" : "NaN");
  f.count("bounds", name(x.bounds)), f.count("data", x.integers ? "integers" : "random");
  if (chosen.kernel != "none") f.count("path", chosen.path);
}

}  // namespace grout::test
