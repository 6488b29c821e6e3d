// A kernel that does one bounded copy, and seeded cases for it with a reference of its own; for both devices. All of the
// shared memory is dumped, so that the verdict covers the tile and all around it.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/check.cuh"
#include "common/copy.cuh"
#include "tests/kernels/placed_cases.cuh"

namespace grout::test {

// Where coordinate (r, c) of a tile lies, for the reference: offset = start + r * row + c * col in elements, then the
// chunk of 2^base elements is XORed with the number of the 2^(base + shift) element line, modulo 2^bits.
struct TileFacts {
  const char* name;
  int rows, cols, axis;
  int start, row, col, bits, base, shift;
  int odd_bytes;  // of other things in front of the tile: an odd multiple of 16
  int allocation;  // elements
  int threads;

  int64_t offset(int r, int c) const {
    const int64_t plain = start + r * row + c * col, line = plain >> (base + shift);
    return plain ^ ((line & ((1 << bits) - 1)) << base);
  }
};

struct TileKMajor64 {
  using Value = bf16;
  using Layout = decltype(compose(Swizzle64B<bf16>{}, row_major(shape(64_c, 32_c))));
  static constexpr TileFacts facts{"64x32 bf16 k-major", 64, 32, 1, 0, 32, 1, 2, 3, 3, 16, 2048, 64};
};
struct TileKMajor128 {
  using Value = bf16;
  using Layout = decltype(compose(Swizzle64B<bf16>{}, row_major(shape(128_c, 32_c))));
  static constexpr TileFacts facts{"128x32 bf16 k-major", 128, 32, 1, 0, 32, 1, 2, 3, 3, 48, 4096, 96};
};
struct TileMMajor64 {
  using Value = bf16;
  using Layout = decltype(compose(Swizzle<3, 3, 3>{}, col_major(shape(64_c, 32_c))));
  static constexpr TileFacts facts{"64x32 bf16 m-major", 64, 32, 0, 0, 1, 64, 3, 3, 3, 80, 2048, 64};
};
struct TileMMajor128 {
  using Value = f16;
  using Layout = decltype(compose(Swizzle<3, 3, 4>{}, col_major(shape(128_c, 32_c))));
  static constexpr TileFacts facts{"128x32 f16 m-major", 128, 32, 0, 0, 1, 128, 3, 3, 4, 144, 4096, 64};
};
struct TileFloat {
  using Value = float;
  using Layout = decltype(compose(Swizzle128B<float>{}, row_major(shape(32_c, 32_c))));
  static constexpr TileFacts facts{"32x32 f32", 32, 32, 1, 0, 32, 1, 3, 2, 3, 16, 1024, 64};
};
struct TileFloatPlain {
  using Value = float;
  using Layout = decltype(row_major(shape(16_c, 20_c)));
  static constexpr TileFacts facts{"16x20 f32, no swizzle", 16, 20, 1, 0, 20, 1, 0, 2, 0, 112, 320, 32};
};
struct TileWindow {
  using Value = bf16;
  using Layout = decltype(window(compose(Swizzle128B<bf16>{}, row_major(shape(128_c, 64_c))), coord(33_c, 16_c),
                                 shape(40_c, 24_c)));
  static constexpr TileFacts facts{"40x24 window at 33,16 of 128x64 bf16", 40, 24, 1, 33 * 64 + 16, 64, 1, 3, 3, 3, 208,
                                   128 * 64, 64};
};
struct TileWindowMMajor {
  using Value = bf16;
  using Layout = decltype(window(compose(Swizzle<3, 3, 4>{}, col_major(shape(128_c, 32_c))), coord(64_c, 5_c),
                                 shape(32_c, 9_c)));
  static constexpr TileFacts facts{"32x9 window at 64,5 of 128x32 bf16 m-major", 32, 9, 0, 5 * 128 + 64, 1, 128, 3, 3, 4, 48,
                                   128 * 32, 32};
};

inline constexpr uint32_t kMarker = 0xa5c35a96u;  // what shared memory holds before a copy
inline constexpr int kTailBytes = 64;             // behind the allocation

enum class CopyWay { whole, halves, parts };  // copy_async; begin_copy, other work, finish_copy; copy_in_parts
inline constexpr const char* kCopyWays[] = {"whole", "halves", "parts"};

struct CopyRequest {
  const void* source;
  int64_t rows, cols, row_stride, col_stride;
  Origin origin;
  uint32_t* dump;  // of all shared memory
  CopyWay way;
};

template <class Tile> constexpr int copy_shared_bytes() {
  return Tile::facts.odd_bytes + Tile::facts.allocation * static_cast<int>(sizeof(typename Tile::Value)) + kTailBytes;
}

// Options: a type that holds the plan's options, since nvcc takes no class value as a kernel's template argument.
template <class Tile, class Options, bool UnitStride>
__global__ void __launch_bounds__(Tile::facts.threads) copy_once(const CopyRequest p) {
  using T = typename Tile::Value;
  constexpr int kThreads = Tile::facts.threads, kWords = copy_shared_bytes<Tile>() / 4;
  using Plan = CopyPlan<T, typename Tile::Layout, kThreads, Options::value>;
  const int thread = static_cast<int>(threadIdx.x);
  auto* words = &dynamic_shared<uint32_t>();
  T* tile = reinterpret_cast<T*>(words + Tile::facts.odd_bytes / 4);
  for (int i = thread; i < kWords; i += kThreads) words[i] = kMarker;
  __syncthreads();

  const auto* data = static_cast<const T*>(p.source);
  const auto source = [&] {
    if constexpr (!UnitStride) return view(data, layout(shape(p.rows, p.cols), stride(p.row_stride, p.col_stride)));
    else if constexpr (Plan::axis == 1) return view(data, layout(shape(p.rows, p.cols), stride(p.row_stride, 1_c)));
    else return view(data, layout(shape(p.rows, p.cols), stride(1_c, p.col_stride)));
  }();
  int failed = 0;
  if (p.way == CopyWay::parts && Options::value.bounds == Bounds::checked) {
    copy_in_parts<Plan::Ownership::turns % 2 == 0 ? 2 : 1>(Plan{}, tile, source, p.origin, thread);
  } else if (p.way == CopyWay::halves && Options::value.bounds == Bounds::checked) {
    VectorsInFlight<Plan> flight;
    begin_copy(Plan{}, flight, tile, source, p.origin, thread);
    int lanes = thread % 32;  // other work: all warps together, and a barrier
#pragma unroll
    for (int bit = 16; bit > 0; bit /= 2) lanes += __shfl_xor_sync(0xffffffffu, lanes, bit);
    failed = __syncthreads_or(lanes != 31 * 16);
    finish_copy(Plan{}, flight, tile, thread);
  } else {
    copy_async(Plan{}, tile, source, p.origin, thread);
  }
  commit_copies();
  wait_copies<0>();
  __syncthreads();
  for (int i = thread; i < kWords; i += kThreads) p.dump[i] = failed ? 0 : words[i];
}

struct CopyVariant {
  TileFacts tile;
  CopyOptions options;
  bool unit_stride;
  ElementType type;
  int shared_bytes;
  const void* address;
  Status (*launch)(const CopyRequest&, cudaStream_t);
};

namespace detail {
template <class Tile, class Options, bool UnitStride> CopyVariant copy_variant() {
  constexpr auto kKernel = &copy_once<Tile, Options, UnitStride>;
  return {Tile::facts,
          Options::value,
          UnitStride,
          element_type<typename Tile::Value>,
          copy_shared_bytes<Tile>(),
          reinterpret_cast<const void*>(kKernel),
          [](const CopyRequest& request, cudaStream_t stream) {
            return grout::launch(kKernel, dim3(1), dim3(Tile::facts.threads), copy_shared_bytes<Tile>(), stream, request);
          }};
}
template <Bounds BoundsT, Misaligned MisalignedT, Partial PartialT> struct Options {
  static constexpr CopyOptions value{.bounds = BoundsT, .misaligned = MisalignedT, .partial = PartialT};
};
using Elements = Options<Bounds::checked, Misaligned::elements, Partial::elements>;
using Realign = Options<Bounds::checked, Misaligned::realign, Partial::elements>;
using Fill = Options<Bounds::checked, Misaligned::elements, Partial::zero_fill>;
using RealignFill = Options<Bounds::checked, Misaligned::realign, Partial::zero_fill>;
using None = Options<Bounds::none, Misaligned::elements, Partial::elements>;
template <class... Tiles> std::vector<CopyVariant> copy_variants_of() {
  std::vector<CopyVariant> all;
  const auto add = [&]<class Tile>() {
    all.push_back(copy_variant<Tile, Elements, true>()), all.push_back(copy_variant<Tile, Realign, true>());
    all.push_back(copy_variant<Tile, Fill, true>()), all.push_back(copy_variant<Tile, RealignFill, true>());
    all.push_back(copy_variant<Tile, None, true>()), all.push_back(copy_variant<Tile, Elements, false>());
    all.push_back(copy_variant<Tile, RealignFill, false>());
  };
  (add.template operator()<Tiles>(), ...);
  return all;
}
}  // namespace detail

inline const std::vector<CopyVariant>& copy_variants() {
  static const auto all = detail::copy_variants_of<TileKMajor64, TileKMajor128, TileMMajor64, TileMMajor128, TileFloat,
                                                   TileFloatPlain, TileWindow, TileWindowMMajor>();
  return all;
}
inline constexpr const char* kAcrossKinds[] = {"pitch", "-pitch", "0", "1", "2", "3", "-1"};

struct CopyCase : PlacedCase {
  int across_kind = 0;
  CopyWay way = CopyWay::whole;
};

inline std::string describe(const CopyCase& x) {
  const CopyVariant& v = copy_variants()[x.variant];
  char text[400];
  std::snprintf(text, sizeof text,
                "%s, %s%s%s, %s stride; source %lldx%lld strides %lld,%lld offset %lld; origin %lld,%lld (%s; %s), %s, schedule "
                "%d, seed %llu",
                v.tile.name, v.options.bounds == Bounds::none ? "no bounds" : "checked",
                v.options.misaligned == Misaligned::realign ? ", realign" : "",
                v.options.partial == Partial::zero_fill ? ", zero fill" : "", v.unit_stride ? "unit" : "dynamic",
                static_cast<long long>(x.rows), static_cast<long long>(x.cols), static_cast<long long>(x.row_stride),
                static_cast<long long>(x.col_stride), static_cast<long long>(x.offset), static_cast<long long>(x.origin.row),
                static_cast<long long>(x.origin.col), kOriginKinds[x.row_kind], kOriginKinds[x.col_kind],
                kCopyWays[static_cast<int>(x.way)], x.schedule, static_cast<unsigned long long>(x.seed));
  return text;
}

// A case's source in host and device memory, and what shared memory must hold afterwards.
struct CopyData {
  const CopyCase& x;
  const CopyVariant& variant;
  size_t size;
  int64_t low = 0;
  std::vector<unsigned char> source;
  std::vector<uint32_t> expected;
  int64_t async = 0, async_filled = 0;  // 16-byte cp.async that the contract demands
  DeviceBuffer device_source, dump;

  explicit CopyData(const CopyCase& c, size_t guard = 256)
      : x(c),
        variant(copy_variants()[c.variant]),
        size(element_bytes(variant.type)),
        device_source((prepare(), source.size()), static_cast<size_t>(c.offset) * size, kPoison, guard),
        dump(expected.size() * 4, 0, kPoison, guard) {
    device_source.upload(source.data());
    expect();
  }
  CopyRequest request() const {
    return {device_source.as<unsigned char>() - low * static_cast<int64_t>(size), x.rows, x.cols, x.row_stride, x.col_stride,
            x.origin, dump.as<uint32_t>(), x.way};
  }
  // Empty if all is right.
  std::string verify() const {
    std::vector<uint32_t> got(expected.size());
    dump.download(got.data());
    std::string problem;
    for (size_t i = 0; i < got.size() && problem.empty(); ++i) {
      if (got[i] == expected[i]) continue;
      char text[160];
      std::snprintf(text, sizeof text, "shared word %zu (tile starts at word %d): got %08x, expected %08x", i,
                    variant.tile.odd_bytes / 4, got[i], expected[i]);
      problem = text;
    }
    std::vector<unsigned char> now(source.size());
    device_source.download(now.data());
    if (now != source) problem += " the source was written";
    for (const DeviceBuffer* buffer : {&device_source, &dump})
      if (const Status guards = buffer->check_guards(""); !guards) problem += guards.message;
    return problem.empty() ? "" : describe(x) + ": " + problem;
  }

 private:
  bool inside(int64_t r, int64_t c) const { return r >= 0 && c >= 0 && r < x.rows && c < x.cols; }
  int64_t index(int64_t r, int64_t c) const { return r * x.row_stride + c * x.col_stride - low; }
  // The bytes of a source element: never NaN, never zero, told apart by their place.
  uint32_t bits(int64_t i) const {
    return size == 4 ? 0x3f000000u + static_cast<uint32_t>(i) : 1 + static_cast<uint32_t>((i * 7919 + 13) % 30011);
  }
  void prepare() {
    low = x.hull().low;
    source.assign(static_cast<size_t>(x.hull().elements) * size, kPoison);
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t c = 0; c < x.cols; ++c) {
        const uint32_t value = bits(index(r, c));
        std::memcpy(&source[static_cast<size_t>(index(r, c)) * size], &value, size);
      }
    expected.assign(static_cast<size_t>(variant.shared_bytes) / 4, kMarker);
  }
  void expect() {
    const TileFacts& t = variant.tile;
    auto* tile = reinterpret_cast<unsigned char*>(expected.data()) + t.odd_bytes;
    for (int r = 0; r < t.rows; ++r)
      for (int c = 0; c < t.cols; ++c) {
        const int64_t sr = x.origin.row + r, sc = x.origin.col + c;
        const uint32_t value = inside(sr, sc) ? bits(index(sr, sc)) : 0;
        std::memcpy(tile + t.offset(r, c) * static_cast<int64_t>(size), &value, size);
      }
    // Vectors that must be one cp.async: contiguous, aligned, and inside in full or (zero fill) at their front.
    const int vector = static_cast<int>(16 / size), along = t.axis == 0 ? t.rows : t.cols, across = t.axis == 0 ? t.cols : t.rows;
    if ((t.axis == 0 ? x.row_stride : x.col_stride) != 1) return;
    const auto base = reinterpret_cast<uintptr_t>(device_source.data());
    for (int i = 0; i < across; ++i)
      for (int v = 0; v < along; v += vector) {
        int valid = 0;
        bool from_front = true;
        for (int e = 0; e < vector; ++e) {
          const int r = t.axis == 0 ? v + e : i, c = t.axis == 0 ? i : v + e;
          const bool in = inside(x.origin.row + r, x.origin.col + c);
          if (in && valid != e) from_front = false;
          valid += in;
        }
        if (valid == 0 || !from_front || (valid < vector && variant.options.partial != Partial::zero_fill)) continue;
        const int64_t first = index(x.origin.row + (t.axis == 0 ? v : i), x.origin.col + (t.axis == 0 ? i : v));
        if ((base + static_cast<uintptr_t>(first) * size) % 16 != 0) continue;
        ++async;
        async_filled += valid < vector;
      }
  }
};

inline std::vector<CopyCase> copy_cases(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<CopyVariant>& variants = copy_variants();
  const int64_t extents[] = {0, 1, 2, 5, 9, 17, 31, 40, 65, 73, 130};
  Deck variant(static_cast<int>(variants.size()), random), row_kind(11, random), col_kind(11, random), row_extent(11, random),
      col_extent(11, random), pad(10, random), offset(8, random), across(12, random), along(4, random), aligned(3, random),
      way(3, random), schedule(10, random), some(8, random);
  std::vector<CopyCase> cases;
  for (int i = 0; i < count; ++i) {
    CopyCase x;
    x.variant = static_cast<size_t>(variant.deal());
    const CopyVariant& v = variants[x.variant];
    const TileFacts& t = v.tile;
    const bool none = v.options.bounds == Bounds::none, align = aligned.deal() == 0 || none;
    const int vector = static_cast<int>(16 / element_bytes(v.type));
    x.row_kind = none ? 10 : row_kind.deal(), x.col_kind = none ? 10 : col_kind.deal();
    place_tile(x.row_kind, t.rows, extents[row_extent.deal()], some, x.rows, x.origin.row);
    place_tile(x.col_kind, t.cols, extents[col_extent.deal()], some, x.cols, x.origin.col);
    // Sources may overlap themselves: any stride across.
    const int a = none ? 0 : across.deal();
    x.across_kind = a < 7 ? a : a % 2;
    x.along_kind = v.unit_stride ? 0 : along.deal();
    x.pad = pad.deal(), x.offset = align ? 0 : offset.deal();
    const int64_t step = kAlongStrides[x.along_kind], length = t.axis == 0 ? x.rows : x.cols;
    int64_t pitch = std::max<int64_t>(length, 1) * std::max<int64_t>(step, 1) + x.pad;
    if (align) pitch = (pitch + vector - 1) / vector * vector;
    const int64_t across_strides[] = {pitch, -pitch, 0, 1, 2, 3, -1};
    (t.axis == 0 ? x.row_stride : x.col_stride) = step;
    (t.axis == 0 ? x.col_stride : x.row_stride) = across_strides[x.across_kind];
    x.way = static_cast<CopyWay>(way.deal());
    x.schedule = schedule.deal();
    x.seed = seed * 100000 + static_cast<uint64_t>(i);
    cases.push_back(x);
  }
  return cases;
}

inline void expect_copy_factors(FactorCounts& f) {
  for (size_t v = 0; v < copy_variants().size(); ++v) f.expect<int>("variant", {static_cast<int>(v)});
  expect_place_factors(f);
  for (const char* kind : kAcrossKinds) f.expect<const char*>("stride across", {kind});
  f.expect<const char*>("way", {"whole", "halves", "parts"});
}
inline void count_copy_factors(FactorCounts& f, const CopyCase& x) {
  f.count("variant", static_cast<int>(x.variant));
  count_place_factors(f, x);
  f.count("stride across", kAcrossKinds[x.across_kind]), f.count("way", kCopyWays[static_cast<int>(x.way)]);
}

}  // namespace grout::test
