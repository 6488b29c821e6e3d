// A kernel that does one batched copy, and seeded cases for it with a reference of its own; operations of which a batch is
// refused. For both devices. All of the shared memory is dumped, so that the verdict covers the tile and all around it.
#pragma once
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/batch.cuh"
#include "common/check.cuh"
#include "copy/copy_batched.cuh"
#include "tests/kernels/copy_kernels.cuh"
#include "tests/kernels/crop_cases.cuh"

namespace grout::test {

struct TileOdd {  // rows of 11 elements, 13 apart
  using Value = float;
  using Layout = decltype(layout(shape(23_c, 11_c), stride(13_c, 1_c)));
  static constexpr TileFacts facts{"23x11 f32, padded rows", 23, 11, 1, 0, 13, 1, 0, 2, 0, 0, 23 * 13 - 2, 0};
};
struct TileOddColumns {  // fewer elements than the larger blocks have threads
  using Value = bf16;
  using Layout = decltype(col_major(shape(5_c, 9_c)));
  static constexpr TileFacts facts{"5x9 bf16, column-major", 5, 9, 0, 0, 1, 5, 0, 3, 0, 0, 45, 0};
};

// 128 bytes of other things on both sides of the tile.
template <class Tile> struct BatchStorage {
  uint32_t before[32];
  SharedTile<typename Tile::Value, typename Tile::Layout> tile;
  uint32_t behind[32];
};
template <class Tile> constexpr int batch_words() {
  return static_cast<int>(sizeof(BatchStorage<Tile>) / 4);
}

// The request is CopyRequest; its `way` has no meaning here.
template <class Tile, int Workers, int Batch, int FastAxis> __global__ void __launch_bounds__(Workers)
    batch_once(const CopyRequest p) {
  using T = typename Tile::Value;
  using Plan = BatchedCopyPlan<SharedTile<T, typename Tile::Layout>, Workers, Batch, FastAxis>;
  auto& storage = dynamic_shared<BatchStorage<Tile>>();
  auto* words = reinterpret_cast<uint32_t*>(&storage);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < batch_words<Tile>(); i += Workers) words[i] = kMarker;
  __syncthreads();
  copy_batched(Plan{}, storage.tile,
               view(static_cast<const T*>(p.source), layout(shape(p.rows, p.cols), stride(p.row_stride, p.col_stride))),
               p.origin, thread);
  __syncthreads();
  for (int i = thread; i < batch_words<Tile>(); i += Workers) p.dump[i] = words[i];
}

struct BatchVariant {
  TileFacts tile;
  ElementType type;
  int workers, batch, fast_axis;
  BatchReport report;
  int words;
  const void* address;
  Status (*launch)(const CopyRequest&, cudaStream_t);
};

namespace detail {
template <class Tile, int Workers, int Batch, int FastAxis> BatchVariant batch_variant() {
  constexpr auto kKernel = &batch_once<Tile, Workers, Batch, FastAxis>;
  return {Tile::facts,
          element_type<typename Tile::Value>,
          Workers,
          Batch,
          FastAxis,
          BatchedCopyPlan<SharedTile<typename Tile::Value, typename Tile::Layout>, Workers, Batch, FastAxis>::report,
          batch_words<Tile>(),
          reinterpret_cast<const void*>(kKernel),
          [](const CopyRequest& request, cudaStream_t stream) {
            return grout::launch(kKernel, dim3(1), dim3(Workers), sizeof(BatchStorage<Tile>), stream, request);
          }};
}
template <class Tile, int Workers> void add_batch_variants(std::vector<BatchVariant>& all) {
  all.push_back(batch_variant<Tile, Workers, 1, 1>()), all.push_back(batch_variant<Tile, Workers, 4, 1>());
  all.push_back(batch_variant<Tile, Workers, 4, 0>()), all.push_back(batch_variant<Tile, Workers, 16, 0>());
  all.push_back(batch_variant<Tile, Workers, 16, 1>());
}
template <class... Tiles> std::vector<BatchVariant> batch_variants_of() {
  std::vector<BatchVariant> all;
  (add_batch_variants<Tiles, 32>(all), ...), (add_batch_variants<Tiles, 48>(all), ...),
      (add_batch_variants<Tiles, 256>(all), ...);
  // Other batches, some of which leave chunks over.
  (all.push_back(batch_variant<Tiles, 48, 2, 1>()), ...), (all.push_back(batch_variant<Tiles, 32, 3, 0>()), ...);
  (all.push_back(batch_variant<Tiles, 48, 7, 0>()), ...), (all.push_back(batch_variant<Tiles, 32, 13, 1>()), ...);
  return all;
}
}  // namespace detail

inline const std::vector<BatchVariant>& batch_variants() {
  static const auto all = detail::batch_variants_of<TileOdd, TileOddColumns, TileKMajor64, TileMMajor64, TileFloat,
                                                    TileFloatPlain, TileWindow>();
  return all;
}

struct BatchCase : PlacedCase {
  int across_kind = 0;
};
inline std::string describe(const BatchCase& x) {
  const BatchVariant& v = batch_variants()[x.variant];
  char text[300];
  std::snprintf(text, sizeof text,
                "%s, %d workers, batch %d, fast axis %d; source %lldx%lld strides %lld,%lld offset %lld; origin "
                "%lld,%lld (%s; %s), "
                "schedule %d, seed %llu",
                v.tile.name, v.workers, v.batch, v.fast_axis, static_cast<long long>(x.rows), static_cast<long long>(x.cols),
                static_cast<long long>(x.row_stride), static_cast<long long>(x.col_stride), static_cast<long long>(x.offset),
                static_cast<long long>(x.origin.row), static_cast<long long>(x.origin.col), kOriginKinds[x.row_kind],
                kOriginKinds[x.col_kind], x.schedule, static_cast<unsigned long long>(x.seed));
  return text;
}

// Runs a case; says what is wrong, nothing if all is right.
inline std::string run_batch(const BatchCase& x, size_t guard = 256) {
  const BatchVariant& v = batch_variants()[x.variant];
  const TileFacts& t = v.tile;
  const size_t size = element_bytes(v.type);
  const auto [low, elements] = x.hull();
  const auto index = [&, low = low](int64_t r, int64_t c) {
    return static_cast<size_t>(r * x.row_stride + c * x.col_stride - low) * size;
  };
  std::vector<unsigned char> source(static_cast<size_t>(elements) * size, kPoison);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.cols; ++c) {
      const uint32_t value = crop_bits(v.type, index(r, c));
      std::memcpy(&source[index(r, c)], &value, size);
    }
  std::vector<uint32_t> expected(static_cast<size_t>(v.words), kMarker), got(expected.size());
  for (int r = 0; r < t.rows; ++r)
    for (int c = 0; c < t.cols; ++c) {
      const int64_t sr = x.origin.row + r, sc = x.origin.col + c;
      auto* to = reinterpret_cast<unsigned char*>(expected.data()) + 128 + t.offset(r, c) * static_cast<int64_t>(size);
      std::memset(to, 0, size);
      if (sr >= 0 && sc >= 0 && sr < x.rows && sc < x.cols) std::memcpy(to, &source[index(sr, sc)], size);
    }
  DeviceBuffer from(source.size(), static_cast<size_t>(x.offset) * size, kPoison, guard),
      dump(expected.size() * 4, 0, kPoison, guard);
  from.upload(source.data());
  const CopyRequest request{from.as<unsigned char>() - low * static_cast<int64_t>(size),
                            x.rows,
                            x.cols,
                            x.row_stride,
                            x.col_stride,
                            x.origin,
                            dump.as<uint32_t>(),
                            CopyWay::whole};
  if (const Status status = v.launch(request, nullptr); !status) return describe(x) + ": " + status.message;
  dump.download(got.data());
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != expected[i]) {
      char text[120];
      std::snprintf(text, sizeof text, ": shared word %zu (the tile starts at word 32): got %08x, expected %08x", i, got[i],
                    expected[i]);
      return describe(x) + text;
    }
  std::vector<unsigned char> now(source.size());
  from.download(now.data());
  if (now != source) return describe(x) + ": the source was written";
  for (const DeviceBuffer* buffer : {&from, &dump})
    if (const Status guards = buffer->check_guards(describe(x)); !guards) return guards.message;
  return "";
}

inline std::vector<BatchCase> batch_cases(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto& variants = batch_variants();
  const int64_t extents[] = {0, 1, 2, 5, 9, 17, 31, 40, 65, 73, 130};
  Deck variant(static_cast<int>(variants.size()), random), row_kind(11, random), col_kind(11, random),
      row_extent(11, random), col_extent(11, random), pad(10, random), offset(8, random), across(12, random),
      along(4, random), schedule(10, random), some(8, random);
  std::vector<BatchCase> cases;
  for (int i = 0; i < count; ++i) {
    BatchCase x;
    x.variant = static_cast<size_t>(variant.deal());
    const BatchVariant& v = variants[x.variant];
    x.row_kind = row_kind.deal(), x.col_kind = col_kind.deal();
    place_tile(x.row_kind, v.tile.rows, extents[row_extent.deal()], some, x.rows, x.origin.row);
    place_tile(x.col_kind, v.tile.cols, extents[col_extent.deal()], some, x.cols, x.origin.col);
    const int a = across.deal();
    x.across_kind = a < 7 ? a : a % 2;
    x.along_kind = along.deal(), x.pad = pad.deal(), x.offset = offset.deal();
    const int64_t step = kAlongStrides[x.along_kind], length = v.fast_axis == 0 ? x.rows : x.cols;
    const int64_t pitch = std::max<int64_t>(length, 1) * std::max<int64_t>(step, 1) + x.pad;
    const int64_t across_strides[] = {pitch, -pitch, 0, 1, 2, 3, -1};
    (v.fast_axis == 0 ? x.row_stride : x.col_stride) = step;
    (v.fast_axis == 0 ? x.col_stride : x.row_stride) = across_strides[x.across_kind];
    x.schedule = schedule.deal(), x.seed = seed * 100000 + static_cast<uint64_t>(i);
    cases.push_back(x);
  }
  return cases;
}
inline void expect_batch_factors(FactorCounts& f) {
  for (size_t v = 0; v < batch_variants().size(); ++v) f.expect<int>("variant", {static_cast<int>(v)});
  expect_place_factors(f);
  for (const char* kind : kAcrossKinds) f.expect<const char*>("stride across", {kind});
}
inline void count_batch_factors(FactorCounts& f, const BatchCase& x) {
  f.count("variant", static_cast<int>(x.variant));
  count_place_factors(f, x);
  f.count("stride across", kAcrossKinds[x.across_kind]);
}

// ---- functions, and what is refused ---------------------------------------------------------------------------------

struct SquarePlusOne {
  GROUT_HD float operator()(float x) const { return x * x + 1; }
};

// Each operation takes a source of 9 x 20 floats at origin (-2, 3): a tile of 16 x 20 that all edges but the left one cut.
// One line of the tile each, of 16 x 20 results as floats, and what the copy would do.
enum class BatchOperation { converted, scaled, outside, added, opaque, aliased, shared_source };
inline constexpr int kBatchOperationRows = 16, kBatchOperationCols = 20;
inline constexpr Origin kBatchOperationOrigin{-2, 3};

template <BatchOperation Operation, int Batch>
__global__ void batch_operation(const float* source, float* out, int* realised) {
  constexpr int kRows = kBatchOperationRows, kCols = kBatchOperationCols, kWorkers = 32;
  using Rows = decltype(row_major(shape(Int<kRows>{}, Int<kCols>{})));
  using Floats = SharedTile<float, Rows>;
  const auto from = view(source, layout(shape(int64_t{9}, int64_t{20}), stride(int64_t{20}, int64_t{1})));
  const int thread = static_cast<int>(threadIdx.x);
  const Origin origin = kBatchOperationOrigin;
  const auto report = [&](const BatchReport& r) {
    if (thread == 0) realised[0] = r.realised, realised[1] = static_cast<int>(r.reason);
  };
  const auto give = [&](const auto& tile, auto place) {
    __syncthreads();
    for (int i = thread; i < kRows * kCols; i += kWorkers) out[i] = to_float(tile.data[place(i / kCols, i % kCols)]);
  };
  if constexpr (Operation == BatchOperation::converted) {
    using Tile = SharedTile<bf16, Rows>;
    using Plan = BatchedCopyPlan<Tile, kWorkers, Batch, 1, Converted>;
    auto& tile = dynamic_shared<Tile>();
    report(batch_report(Plan{}, tile, from));
    copy_batched(Plan{}, tile, from, origin, thread);
    give(tile, Rows{});
  } else if constexpr (Operation == BatchOperation::scaled) {
    using Plan = BatchedCopyPlan<Floats, kWorkers, Batch, 1, Scaled>;
    auto& tile = dynamic_shared<Floats>();
    report(batch_report(Plan{}, tile, from));
    copy_batched(Plan{}, tile, from, origin, thread, Scaled{-0.5f});
    give(tile, Rows{});
  } else if constexpr (Operation == BatchOperation::outside) {
    using Target = View<float, Rows>;
    using Plan = BatchedCopyPlan<Target, kWorkers, Batch>;
    Target target = view(out, Rows{});
    report(batch_report(Plan{}, target, from));
    copy_batched(Plan{}, target, from, origin, thread);
  } else if constexpr (Operation == BatchOperation::added) {
    using Plan = BatchedCopyPlan<Floats, kWorkers, Batch, 1, Plain, CopyWrite::add>;
    auto& tile = dynamic_shared<Floats>();
    for (int i = thread; i < kRows * kCols; i += kWorkers) tile.data[i] = static_cast<float>(1000 + i);
    __syncthreads();
    report(batch_report(Plan{}, tile, from));
    copy_batched(Plan{}, tile, from, origin, thread);
    give(tile, Rows{});
  } else if constexpr (Operation == BatchOperation::opaque) {
    using Plan = BatchedCopyPlan<Floats, kWorkers, Batch, 1, SquarePlusOne>;
    auto& tile = dynamic_shared<Floats>();
    report(batch_report(Plan{}, tile, from));
    copy_batched(Plan{}, tile, from, origin, thread);
    give(tile, Rows{});
  } else if constexpr (Operation == BatchOperation::aliased) {
    // All rows at one place: a worker that does a whole column leaves the last row there.
    using OneRow = decltype(layout(shape(Int<kRows>{}, Int<kCols>{}), stride(0_c, 1_c)));
    using Tile = SharedTile<float, OneRow>;
    using Plan = BatchedCopyPlan<Tile, kCols, Batch>;
    auto& tile = dynamic_shared<Tile>();
    report(batch_report(Plan{}, tile, from));
    if (thread < kCols) copy_batched(Plan{}, tile, from, {-7, origin.col}, thread);
    give(tile, OneRow{});
  } else {
    // The tile itself, moved by one row: each load reads what the store before it, by the same worker, has written.
    using Plan = BatchedCopyPlan<Floats, kCols, Batch>;
    auto& tile = dynamic_shared<Floats>();
    for (int i = thread; i < kRows * kCols; i += kWorkers) tile.data[i] = static_cast<float>(1000 + i);
    __syncthreads();
    const auto self = view(static_cast<const float*>(tile.data),
                           layout(shape(int64_t{kRows}, int64_t{kCols}), stride(int64_t{kCols}, int64_t{1})));
    report(batch_report(Plan{}, tile, self));
    if (thread < kCols) copy_batched(Plan{}, tile, self, {-1, 0}, thread);
    give(tile, Rows{});
  }
}

// What the operation gives for element (r, c), by its definition, one worker after another.
inline float batch_operation_result(BatchOperation operation, const std::vector<float>& source, int r, int c) {
  const auto at = [&](int64_t row, int64_t col) {
    return row < 0 || row >= 9 || col >= 20 ? 0 : source[static_cast<size_t>(row * 20 + col)];
  };
  const bool inside = r >= 2 && r < 11 && c < 17;
  const float value = at(r - 2, c + 3);
  switch (operation) {
    case BatchOperation::converted: return to_float(bf16(value));
    case BatchOperation::scaled: return inside ? value * -0.5f : 0;
    case BatchOperation::added: return static_cast<float>(1000 + r * 20 + c) + value;
    case BatchOperation::opaque: return inside ? value * value + 1 : 0;
    case BatchOperation::aliased: return at(15 - 7, c + 3);
    case BatchOperation::shared_source: return 0;  // the first row's zeros, handed on
    default: return value;
  }
}

struct BatchOperationCase {
  BatchOperation operation;
  int batch;
  BatchReason reason;
  void (*kernel)(const float*, float*, int*);
};
namespace detail {
template <int Batch> std::vector<BatchOperationCase> batch_operations_of() {
  return {{BatchOperation::converted, Batch, BatchReason::none, &batch_operation<BatchOperation::converted, Batch>},
          {BatchOperation::scaled, Batch, BatchReason::none, &batch_operation<BatchOperation::scaled, Batch>},
          {BatchOperation::outside, Batch, BatchReason::not_owned, &batch_operation<BatchOperation::outside, Batch>},
          {BatchOperation::added, Batch, BatchReason::read_modify_write, &batch_operation<BatchOperation::added, Batch>},
          {BatchOperation::opaque, Batch, BatchReason::opaque_function, &batch_operation<BatchOperation::opaque, Batch>},
          {BatchOperation::aliased, Batch, BatchReason::not_independent, &batch_operation<BatchOperation::aliased, Batch>},
          {BatchOperation::shared_source, Batch, BatchReason::not_independent,
           &batch_operation<BatchOperation::shared_source, Batch>}};
}
}  // namespace detail
inline std::vector<BatchOperationCase> batch_operations() {
  std::vector<BatchOperationCase> all = detail::batch_operations_of<1>();
  for (const auto& more : {detail::batch_operations_of<4>(), detail::batch_operations_of<10>()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}
inline std::string run_batch_operation(const BatchOperationCase& x, size_t guard = 256) {
  const std::string what =
      "operation " + std::to_string(static_cast<int>(x.operation)) + ", batch " + std::to_string(x.batch);
  std::vector<float> source(9 * 20), got(kBatchOperationRows * kBatchOperationCols);
  for (size_t i = 0; i < source.size(); ++i) 
    source[i] = 0.3125f * static_cast<float>(i) + 1;  // squares are exact in fp32, not in bf16
  DeviceBuffer from(source.size() * 4, 0, kPoison, guard), out(got.size() * 4, 0, kPoison, guard),
      facts(8, 0, kPoison, guard);
  from.upload(source.data());
  if (const Status status = grout::launch(x.kernel, dim3(1), dim3(32), 4 * got.size(), nullptr, from.as<const float>(),
                                          out.as<float>(), facts.as<int>());
      !status)
    return what + ": " + status.message;
  int realised[2];
  facts.download(realised), out.download(got.data());
  if (realised[0] != (x.reason == BatchReason::none ? x.batch : 1) || realised[1] != static_cast<int>(x.reason))
    return what + ": realised " + std::to_string(realised[0]) + ", " +
           batch_reason_text(static_cast<BatchReason>(realised[1]));
  for (int r = 0; r < kBatchOperationRows; ++r)
    for (int c = 0; c < kBatchOperationCols; ++c) {
      const float expected = batch_operation_result(x.operation, source, r, c),
                  is = got[static_cast<size_t>(r * kBatchOperationCols + c)];
      if (std::memcmp(&expected, &is, 4) != 0)
        return what + ": (" + std::to_string(r) + ", " + std::to_string(c) + ") is " + std::to_string(is) + ", not " +
               std::to_string(expected);
    }
  for (const DeviceBuffer* buffer : {&from, &out, &facts})
    if (const Status guards = buffer->check_guards(what); !guards) return guards.message;
  return "";
}

// ---- the crop -------------------------------------------------------------------------------------------------------

// Its host entry with one batch and so many threads a block, as other crops' tests take it.
template <int Batch, int Workers> CropKernel batched_kernel() {
  return {"copy_batched " + std::to_string(Batch) + " by " + std::to_string(Workers),
          [](const CropArguments& g, CropPath& path) {
            path = CropPath::bounded;
            BatchReport report;
            const Status status = crop_batched(g, Batch, Workers, nullptr, &report);
            if (status && report.requested != Batch)
              return Status{Code::wrong_result, "the report is about another request"};
            return status;
          }};
}
inline std::vector<CropKernel> batched_kernels() {
  return {batched_kernel<1, 32>(),  batched_kernel<4, 32>(),  batched_kernel<16, 32>(), batched_kernel<1, 48>(),
          batched_kernel<2, 48>(),  batched_kernel<4, 48>(),  batched_kernel<8, 48>(),  batched_kernel<16, 48>(),
          batched_kernel<1, 256>(), batched_kernel<3, 256>(), batched_kernel<4, 256>(), batched_kernel<16, 256>(),
          batched_kernel<2, 32>(),  batched_kernel<8, 32>(),  batched_kernel<15, 256>()};
}

}  // namespace grout::test
