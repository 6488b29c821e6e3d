// A kernel that does one bounded store of a fragment, and seeded cases for it with a reference of its own; for both devices.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/check.cuh"
#include "common/store.cuh"
#include "tests/kernels/placed_cases.cuh"

namespace grout::test {

// The value that a fragment holds at tile coordinate (r, c): ordinary ones, and what conversion must get right.
GROUT_HD float stored_value(int r, int c, uint32_t seed) {
  const uint32_t h = (static_cast<uint32_t>(r) * 131 + static_cast<uint32_t>(c) * 17 + seed * 7) % 1009;
  switch (h % 41) {
    case 0: return std::bit_cast<float>(0x7f800001u + h);  // NaN
    case 1: return std::bit_cast<float>(0xff800000u);      // -infinity
    case 2: return 70000.f;                                // infinity in f16
    case 3: return -3e-7f;                                 // subnormal in f16
    case 4: return -0.f;
    case 5: return 1.00390625f;                            // a tie in bf16
    case 6: return 1.00048828125f;                         // a tie in f16
    case 7: return 3.3961775e38f;                          // infinity in bf16
    default: return (static_cast<float>(h) - 500.f) * 0.0371f;
  }
}

struct StoreRequest {
  void* destination;
  int64_t rows, cols, row_stride, col_stride;
  Origin origin;
  uint32_t seed;
};

template <class To, class Ownership, int Axis, Bounds BoundsT, bool UnitStride>
__global__ void __launch_bounds__(Ownership::threads) store_once(const StoreRequest p) {
  const int thread = static_cast<int>(threadIdx.x);
  Fragment<float, Ownership> fragment;
#pragma unroll
  for (int slot = 0; slot < Ownership::slots; ++slot) {
    const auto c = Ownership::at(thread, slot);
    fragment[slot] = stored_value(c[0], c[1], p.seed);
  }
  auto* data = static_cast<To*>(p.destination);
  const auto destination = [&] {
    if constexpr (!UnitStride) return view(data, layout(shape(p.rows, p.cols), stride(p.row_stride, p.col_stride)));
    else if constexpr (Axis == 1) return view(data, layout(shape(p.rows, p.cols), stride(p.row_stride, 1_c)));
    else return view(data, layout(shape(p.rows, p.cols), stride(1_c, p.col_stride)));
  }();
  const StorePlan<To, Ownership, Axis, BoundsT> plan;
  store(plan, destination, fragment, p.origin, thread);
}

struct StoreVariant {
  std::string ownership;
  int rows, cols, axis, threads;
  ElementType type;
  bool bounds, unit_stride;
  const void* address;
  Status (*launch)(const StoreRequest&, cudaStream_t);
};

namespace detail {
template <class To, class Ownership, int Axis, Bounds BoundsT, bool UnitStride> StoreVariant store_variant(const char* name) {
  constexpr auto kKernel = &store_once<To, Ownership, Axis, BoundsT, UnitStride>;
  return {name,
          Ownership::shape[0],
          Ownership::shape[1],
          Axis,
          Ownership::threads,
          element_type<To>,
          BoundsT == Bounds::checked,
          UnitStride,
          reinterpret_cast<const void*>(kKernel),
          [](const StoreRequest& request, cudaStream_t stream) {
            return grout::launch(kKernel, dim3(1), dim3(Ownership::threads), 0, stream, request);
          }};
}
template <class Ownership> void add_store_variants(std::vector<StoreVariant>& all, const char* name) {
  const auto both_axes = [&]<class To>() {
    all.push_back(store_variant<To, Ownership, 0, Bounds::checked, true>(name));
    all.push_back(store_variant<To, Ownership, 1, Bounds::checked, true>(name));
    all.push_back(store_variant<To, Ownership, 1, Bounds::none, true>(name));
  };
  both_axes.template operator()<bf16>(), both_axes.template operator()<f16>(), both_axes.template operator()<float>();
  all.push_back(store_variant<bf16, Ownership, 0, Bounds::checked, false>(name));
  all.push_back(store_variant<float, Ownership, 1, Bounds::checked, false>(name));
}
}  // namespace detail

inline const std::vector<StoreVariant>& store_variants() {
  static const auto all = [] {
    std::vector<StoreVariant> v;
    detail::add_store_variants<WarpTiled<MmaM16N8K16C, 1, 1, 1, 1>>(v, "accumulators 16x8");
    detail::add_store_variants<WarpTiled<MmaM16N8K16C, 2, 1, 2, 4>>(v, "accumulators 64x32, two warps");
    detail::add_store_variants<VectorTiled<16, 32, 1, 8, 32>>(v, "vectors of 8 along columns");
    detail::add_store_variants<VectorTiled<32, 16, 0, 4, 64>>(v, "vectors of 4 along rows");
    return v;
  }();
  return all;
}

struct StoreCase : PlacedCase {
  bool negative = false;
};

inline std::string describe(const StoreCase& x) {
  const StoreVariant& v = store_variants()[x.variant];
  char text[400];
  std::snprintf(text, sizeof text,
                "%s to %s along axis %d, %s, %s stride; destination %lldx%lld strides %lld,%lld offset %lld; origin %lld,%lld "
                "(%s; %s), schedule %d, seed %llu",
                v.ownership.c_str(), element_name(v.type), v.axis, v.bounds ? "checked" : "no bounds",
                v.unit_stride ? "unit" : "dynamic", static_cast<long long>(x.rows), static_cast<long long>(x.cols),
                static_cast<long long>(x.row_stride), static_cast<long long>(x.col_stride), static_cast<long long>(x.offset),
                static_cast<long long>(x.origin.row), static_cast<long long>(x.origin.col), kOriginKinds[x.row_kind],
                kOriginKinds[x.col_kind], x.schedule, static_cast<unsigned long long>(x.seed));
  return text;
}

struct StoreData {
  const StoreCase& x;
  const StoreVariant& variant;
  size_t size;
  int64_t low = 0;
  std::vector<unsigned char> before;
  DeviceBuffer device;

  explicit StoreData(const StoreCase& c, size_t guard = 256)
      : x(c),
        variant(store_variants()[c.variant]),
        size(element_bytes(variant.type)),
        device((prepare(), before.size()), static_cast<size_t>(c.offset) * size, kOutputPadding, guard) {
    device.upload(before.data());
  }
  StoreRequest request() const {
    return {device.as<unsigned char>() - low * static_cast<int64_t>(size), x.rows, x.cols, x.row_stride, x.col_stride, x.origin,
            static_cast<uint32_t>(x.seed % 1000)};
  }
  std::string verify() const {
    std::vector<unsigned char> expected = before, got(before.size());
    for (int r = 0; r < variant.rows; ++r)
      for (int c = 0; c < variant.cols; ++c) {
        const int64_t row = x.origin.row + r, col = x.origin.col + c;
        if (row < 0 || col < 0 || row >= x.rows || col >= x.cols) continue;
        float value = stored_value(r, c, static_cast<uint32_t>(x.seed % 1000));
        unsigned char* at = &expected[static_cast<size_t>(row * x.row_stride + col * x.col_stride - low) * size];
        const uint16_t half = variant.type == ElementType::bf16 ? grout::detail::bf16_bits(value) : grout::detail::f16_bits(value);
        if (size == 2) std::memcpy(at, &half, 2);
        else std::memcpy(at, &value, 4);
      }
    device.download(got.data());
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i] == expected[i]) continue;
      char text[160];
      std::snprintf(text, sizeof text, ": byte %zu (element %zu of the memory): got %02x, expected %02x", i, i / size, got[i],
                    expected[i]);
      return describe(x) + text;
    }
    if (const Status guards = device.check_guards(describe(x)); !guards) return guards.message;
    return "";
  }

 private:
  void prepare() {
    low = x.hull().low;
    before.assign(static_cast<size_t>(x.hull().elements) * size, kOutputPadding);
  }
};

inline std::vector<StoreCase> store_cases(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<StoreVariant>& variants = store_variants();
  const int64_t extents[] = {0, 1, 2, 5, 8, 9, 17, 31, 33, 40, 65};
  Deck variant(static_cast<int>(variants.size()), random), row_kind(11, random), col_kind(11, random), row_extent(11, random),
      col_extent(11, random), pad(10, random), offset(8, random), negative(2, random), along(4, random), aligned(3, random),
      schedule(10, random), some(8, random);
  std::vector<StoreCase> cases;
  for (int i = 0; i < count; ++i) {
    StoreCase x;
    x.variant = static_cast<size_t>(variant.deal());
    const StoreVariant& v = variants[x.variant];
    const int style = v.bounds ? aligned.deal() : 0;  // 0: aligned, 1: aligned but for the base
    const bool align = style == 0;
    x.row_kind = v.bounds ? row_kind.deal() : 10, x.col_kind = v.bounds ? col_kind.deal() : 10;
    place_tile(x.row_kind, v.rows, extents[row_extent.deal()], some, x.rows, x.origin.row);
    place_tile(x.col_kind, v.cols, extents[col_extent.deal()], some, x.cols, x.origin.col);
    x.along_kind = v.unit_stride ? 0 : along.deal();
    x.negative = v.bounds && negative.deal();
    x.pad = pad.deal(), x.offset = align ? 0 : offset.deal();
    const int64_t step = kAlongStrides[x.along_kind], length = v.axis == 0 ? x.rows : x.cols;
    int64_t pitch = std::max<int64_t>(length, 1) * std::abs(step) + x.pad;
    if (style <= 1) pitch = (pitch + 7) / 8 * 8;
    (v.axis == 0 ? x.row_stride : x.col_stride) = step;
    (v.axis == 0 ? x.col_stride : x.row_stride) = x.negative ? -pitch : pitch;
    x.schedule = schedule.deal();
    x.seed = seed * 100000 + static_cast<uint64_t>(i);
    cases.push_back(x);
  }
  return cases;
}

inline void expect_store_factors(FactorCounts& f) {
  for (size_t v = 0; v < store_variants().size(); ++v) f.expect<int>("store variant", {static_cast<int>(v)});
  expect_place_factors(f);
  f.expect<const char*>("across", {"forwards", "backwards"});
}
inline void count_store_factors(FactorCounts& f, const StoreCase& x) {
  f.count("store variant", static_cast<int>(x.variant));
  count_place_factors(f, x);
  f.count("across", x.negative ? "backwards" : "forwards");
}

}  // namespace grout::test
