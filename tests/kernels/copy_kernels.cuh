// Kernels that do one bounded copy or one bounded store, and seeded cases for them with a reference of its own; for both
// devices. A copy's whole shared memory is dumped, so that the verdict covers the tile and all around it.
#pragma once
#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/check.cuh"
#include "common/store.cuh"
#include "tests/kernels/gemm_cases.cuh"

namespace grout::test {

// ---- copies -----------------------------------------------------------------------------------------------------

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

struct CopyRequest {
  const void* source;
  int64_t rows, cols, row_stride, col_stride;
  Origin origin;
  uint32_t* dump;  // of all shared memory
  bool split;      // begin_copy, other work, finish_copy
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
  if (p.split && Options::value.bounds == Bounds::checked) {
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

inline constexpr const char* kOriginKinds[] = {"inside",     "0",        "-1",        "-tile+1",  "-tile",   "-tile-1",
                                               "extent-1",   "extent",   "extent+1",  "both",     "inside, multiple of 8"};
inline constexpr const char* kAcrossKinds[] = {"pitch", "-pitch", "0", "1", "2", "3", "-1"};
inline constexpr int64_t kAlongStrides[] = {1, 2, 3, -1};

// A matrix in memory, and where in it a tile begins.
struct PlacedCase {
  size_t variant = 0;
  int64_t rows = 1, cols = 1, row_stride = 1, col_stride = 1;
  Origin origin{0, 0};
  int64_t offset = 0;  // of the matrix's lowest element from a 256-byte boundary
  int64_t pad = 0;
  int row_kind = 0, col_kind = 0, along_kind = 0;
  int schedule = 0;
  uint64_t seed = 1;

  Hull hull() const {
    return rows == 0 || cols == 0 ? Hull{} : hull_of({(rows - 1) * row_stride, (cols - 1) * col_stride});
  }
};
// Along one axis: where a tile begins in an extent, which may have to change for it. `some`: 0 to 7.
inline void place_tile(int kind, int64_t tile, int64_t extent, Deck& some, int64_t& extent_out, int64_t& origin) {
  if (kind == 0 || kind == 10) extent = tile + 8 + some.deal();
  if (kind == 9) extent = std::min(extent, tile - 3);
  const int64_t origins[] = {some.deal(), 0, -1, -tile + 1, -tile, -tile - 1, extent - 1, extent, extent + 1, -2, 8};
  extent_out = extent, origin = origins[kind];
}
inline void expect_place_factors(FactorCounts& f) {
  for (const char* axis : {"row origin", "column origin"})
    for (const char* kind : kOriginKinds) f.expect<const char*>(axis, {kind});
  f.expect<int64_t>("stride along", {1, 2, 3, -1});
  f.expect<int64_t>("pitch +", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  f.expect<int64_t>("offset", {0, 1, 2, 3, 4, 5, 6, 7});
}
inline void count_place_factors(FactorCounts& f, const PlacedCase& x) {
  f.count("row origin", kOriginKinds[x.row_kind]), f.count("column origin", kOriginKinds[x.col_kind]);
  f.count("stride along", kAlongStrides[x.along_kind]), f.count("pitch +", x.pad), f.count("offset", x.offset);
}

struct CopyCase : PlacedCase {
  int across_kind = 0;
  bool split = false;
};

inline std::string describe(const CopyCase& x) {
  const CopyVariant& v = copy_variants()[x.variant];
  char text[400];
  std::snprintf(text, sizeof text,
                "%s, %s%s%s, %s stride; source %lldx%lld strides %lld,%lld offset %lld; origin %lld,%lld (%s; %s)%s, schedule "
                "%d, seed %llu",
                v.tile.name, v.options.bounds == Bounds::none ? "no bounds" : "checked",
                v.options.misaligned == Misaligned::realign ? ", realign" : "",
                v.options.partial == Partial::zero_fill ? ", zero fill" : "", v.unit_stride ? "unit" : "dynamic",
                static_cast<long long>(x.rows), static_cast<long long>(x.cols), static_cast<long long>(x.row_stride),
                static_cast<long long>(x.col_stride), static_cast<long long>(x.offset), static_cast<long long>(x.origin.row),
                static_cast<long long>(x.origin.col), kOriginKinds[x.row_kind], kOriginKinds[x.col_kind],
                x.split ? ", split" : "", x.schedule, static_cast<unsigned long long>(x.seed));
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
            x.origin, dump.as<uint32_t>(), x.split};
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
      split(3, random), schedule(10, random), some(8, random);
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
    x.split = split.deal() == 0;
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
  f.expect<const char*>("split", {"yes", "no"});
}
inline void count_copy_factors(FactorCounts& f, const CopyCase& x) {
  f.count("variant", static_cast<int>(x.variant));
  count_place_factors(f, x);
  f.count("stride across", kAcrossKinds[x.across_kind]), f.count("split", x.split ? "yes" : "no");
}

// ---- stores -----------------------------------------------------------------------------------------------------

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
