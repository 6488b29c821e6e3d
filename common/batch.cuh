// Batched cooperative copies global -> shared, by scalar accesses: no vectors, no asynchronous engine.
//
// The domain is every element of a static shared tile. Worker w of W does the elements w, w + W, w + 2W, ..., counted along
// the axis that is contiguous in the *source*, so that neighbouring workers read neighbouring addresses; the tile may lie in
// any layout. One element of every worker is a chunk. All chunks are complete but perhaps the last.
//
//   one by one     load 0, store 0, load 1, store 1, ...             each store waits for its load: a latency each
//   batch of 4     load 0, 1, 2, 3, store 0, 1, 2, 3, load 4, ...    four loads are in flight
//
//   SharedTile<float, Layout>& tile = ...;                           memory that the copy owns
//   using Plan = BatchedCopyPlan<SharedTile<float, Layout>, 256, 4>; at most 4 values in registers: max_copy_batch
//   copy_batched(Plan{}, tile, source, {row, col}, thread);
//   __syncthreads();                                                 before others read, and again before reuse
//
// Only complete chunks are batched, in whole groups; the chunks left over and a partial last one take the guarded path: one
// by one. Who does which element, stages and barriers do not change with the batch. To load several values before the first
// is stored is right only if no store can change what a later load reads, or what it does with it. So the batch is 1, and
// the report says why, for a destination that is not the operation's own tile, for a store that reads what it replaces, for
// elements that share a place with others or with the source, and for a function of the element that is not one of those
// known here.
#pragma once
#include <initializer_list>
#include <string>

#include "common/copy.cuh"

namespace grout {

inline constexpr int kMaxCopyBatch = 16;

// ---- description: pure, host and device ---------------------------------------------------------------------------

// Why a batch is smaller than requested.
enum class BatchReason {
  none,
  out_of_range,
  not_owned,
  read_modify_write,
  not_independent,
  opaque_function,
  few_chunks,
  compiled,  // said by host entries that have kernels for some batches only
};

constexpr const char* batch_reason_text(BatchReason reason) {
  switch (reason) {
    case BatchReason::out_of_range: return "max_copy_batch must be 1 to 16";
    case BatchReason::not_owned: return "not batched: the destination is memory that the operation does not own";
    case BatchReason::read_modify_write: return "not batched: the store reads what it replaces (read-modify-write)";
    case BatchReason::not_independent:
      return "not batched: the elements are not independent: two of them, or one and the source, may share a place";
    case BatchReason::opaque_function:
      return "not batched: the element function is opaque; known are Plain, Converted and Scaled";
    case BatchReason::few_chunks: return "no more chunks are complete";
    case BatchReason::compiled: return "the next smaller batch for which there is a kernel";
    default: return "";
  }
}

// What a batch asks of a cooperative copy.
struct CopyOperation {
  int64_t elements = 0, workers = 1;
  bool owned = true;        // the destination is the operation's own tile
  bool overwrites = true;   // stores do not read what they replace
  bool independent = true;  // no two elements share a place, nor one and the source
  bool transparent = true;  // the element function is a known one
};

struct BatchReport {
  int requested = 1, realised = 1;                              // 0: refused, nothing can be run
  int transformed = 0;                                          // operations that are batched: 0 or 1
  int64_t complete_chunks = 0, groups = 0, guarded_chunks = 0;  // all chunks: groups * realised + guarded_chunks
  BatchReason reason = BatchReason::none;                       // why fewer than requested
  friend constexpr bool operator==(const BatchReport&, const BatchReport&) = default;
};

constexpr BatchReport plan_batch(const CopyOperation& operation, int requested) {
  BatchReport report;
  report.requested = requested;
  report.complete_chunks = operation.elements / operation.workers;
  const int64_t chunks = report.complete_chunks + (operation.elements % operation.workers != 0);
  report.guarded_chunks = chunks;
  if (requested < 1 || requested > kMaxCopyBatch) report.reason = BatchReason::out_of_range, report.realised = 0;
  else if (!operation.owned) report.reason = BatchReason::not_owned;
  else if (!operation.overwrites) report.reason = BatchReason::read_modify_write;
  else if (!operation.independent) report.reason = BatchReason::not_independent;
  else if (!operation.transparent) report.reason = BatchReason::opaque_function;
  if (report.reason != BatchReason::none) return report;
  const int64_t most = report.complete_chunks < 1 ? 1 : report.complete_chunks;
  report.realised = requested < most ? requested : static_cast<int>(most);
  if (report.realised < requested) report.reason = BatchReason::few_chunks;
  if (report.realised == 1) return report;
  report.transformed = 1;
  report.groups = report.complete_chunks / report.realised;
  report.guarded_chunks = chunks - report.groups * report.realised;
  return report;
}

// The report of a kernel that was compiled with a plan's report, and is asked for at least that batch.
constexpr BatchReport report_compiled(const BatchReport& compiled, const CopyOperation& operation, int requested) {
  BatchReport report = compiled;
  const BatchReport possible = plan_batch(operation, requested);
  report.requested = requested;
  report.reason = report.realised < possible.realised ? BatchReason::compiled : possible.reason;
  return report;
}

// One line for programs, of one report or of those of several operations of one policy.
inline std::string batch_text(std::initializer_list<BatchReport> reports) {
  std::string text;
  int transformed = 0;
  for (const BatchReport& r : reports) {
    transformed += r.transformed;
    text += text.empty() ? "max_copy_batch: requested " + std::to_string(r.requested) + ", realised " : " and ";
    text += std::to_string(r.realised);
    if (r.reason != BatchReason::none) text += std::string(" (") + batch_reason_text(r.reason) + ")";
  }
  return text + "; operations transformed: " + std::to_string(transformed) + " of " + std::to_string(reports.size());
}

// For host entries: refuses a batch that no kernel has.
inline Status check_copy_batch(int64_t requested) {
  if (requested >= 1 && requested <= kMaxCopyBatch) return {};
  return invalid("max_copy_batch is " + std::to_string(requested) + ": 1 to " + std::to_string(kMaxCopyBatch) +
                 " is accepted");
}

// ---- tiles, functions, plans ----------------------------------------------------------------------------------------

namespace detail {
struct TileSpan {
  int64_t low = 0, high = 0;  // offsets of the first and of the last place
};
template <class Layout, class Visit> constexpr void for_each_offset(Visit visit) {
  for (int r = 0; r < static_cast<int>(Layout{}.template extent<0>()); ++r)
    for (int c = 0; c < static_cast<int>(Layout{}.template extent<1>()); ++c) visit(static_cast<int64_t>(Layout{}(r, c)));
}
template <class Layout> constexpr TileSpan tile_span() {
  TileSpan span{Layout{}(0, 0), Layout{}(0, 0)};
  for_each_offset<Layout>([&](int64_t offset) {
    span.low = offset < span.low ? offset : span.low;
    span.high = offset > span.high ? offset : span.high;
  });
  return span;
}
// Has every element of the tile a place of its own?
template <class Layout> constexpr bool is_injective() {
  constexpr TileSpan kSpan = tile_span<Layout>();
  bool taken[static_cast<size_t>(kSpan.high - kSpan.low + 1)] = {}, injective = true;
  for_each_offset<Layout>([&](int64_t offset) {
    injective &= !taken[offset - kSpan.low];
    taken[offset - kSpan.low] = true;
  });
  return injective;
}
}  // namespace detail

// A tile in shared memory, and its memory: a member of a block's dynamic_shared storage. What is stored through it is its
// own.
template <class T, class LayoutT> struct SharedTile {
  using Value = T;
  using Layout = LayoutT;
  static_assert(Layout::rank == 2, "shared tile: the layout must be two-dimensional");
  static_assert(Layout::fully_static, "shared tile: the layout's extents, strides and window origin must be static (64_c)");
  static_assert(detail::tile_span<Layout>().low >= 0, "shared tile: every offset of the layout must be at least 0");
  static constexpr int64_t elements = detail::tile_span<Layout>().high + 1;
  static_assert(elements * static_cast<int64_t>(sizeof(T)) <= 232448,
                "shared tile: a block has at most 227 KiB of shared memory");
  alignas(128) T data[static_cast<size_t>(elements)];
};
template <class T> inline constexpr bool is_shared_tile = false;
template <class T, class L> inline constexpr bool is_shared_tile<SharedTile<T, L>> = true;

namespace detail {
template <class D> struct TargetOf;
template <class T, class L> struct TargetOf<SharedTile<T, L>> {
  using Value = T;
  using Layout = L;
};
template <class T, class L> struct TargetOf<View<T, L>> {  // memory of somebody else's
  using Value = T;
  using Layout = L;
};
}  // namespace detail

// What becomes of an element between load and store. Zeros for what is outside are stored as they are.
struct Plain {};      // bits as they are
struct Converted {};  // to the destination's type, round to nearest even
struct Scaled {       // times a factor, in fp32, then converted
  float factor;
};
template <class F> inline constexpr bool is_transparent = false;
template <> inline constexpr bool is_transparent<Plain> = true;
template <> inline constexpr bool is_transparent<Converted> = true;
template <> inline constexpr bool is_transparent<Scaled> = true;

enum class CopyWrite { assign, add };

// Who does which element, and how many at a time. Destination: a SharedTile, or a View with a static layout. FastAxis: the
// axis along which the source is contiguous. Function: Plain, Converted, Scaled, or anything that can be called with an
// element.
template <class DestinationT, int Workers, int MaxBatch = 1, int FastAxis = 1, class FunctionT = Plain,
          CopyWrite Write = CopyWrite::assign, Bounds BoundsT = Bounds::checked>
struct BatchedCopyPlan {
  using Destination = DestinationT;
  using Value = typename detail::TargetOf<Destination>::Value;
  using Layout = typename detail::TargetOf<Destination>::Layout;
  using Function = FunctionT;
  static_assert(Layout::rank == 2, "batched copy: the destination must be a two-dimensional tile");
  static_assert(Layout::fully_static,
                "batched copy: the destination's extents, strides and window origin must be static (64_c)");
  static_assert(Workers >= 1, "batched copy: at least one worker is needed");
  static_assert(FastAxis == 0 || FastAxis == 1, "batched copy: the source is contiguous along axis 0 (rows) or 1 (columns)");
  static_assert(MaxBatch >= 1 && MaxBatch <= kMaxCopyBatch, "batched copy: MaxBatch (max_copy_batch) must be 1 to 16");

  static constexpr int rows = static_cast<int>(Layout{}.template extent<0>());
  static constexpr int columns = static_cast<int>(Layout{}.template extent<1>());
  static constexpr int elements = rows * columns, workers = Workers, fast_axis = FastAxis;
  static constexpr CopyWrite write = Write;
  static constexpr Bounds bounds = BoundsT;
  static constexpr CopyOperation operation = {elements,
                                              workers,
                                              is_shared_tile<Destination>,
                                              Write == CopyWrite::assign,
                                              detail::is_injective<Layout>(),
                                              is_transparent<Function>};
  static constexpr BatchReport report = plan_batch(operation, MaxBatch);
  static constexpr int requested = report.requested, realised = report.realised, transformed = report.transformed;
  static constexpr int groups = static_cast<int>(report.groups), guarded_chunks = static_cast<int>(report.guarded_chunks);
  static constexpr int complete_chunks = static_cast<int>(report.complete_chunks),
                       chunks = groups * realised + guarded_chunks;

  // The coordinate that a worker does in a chunk. In the last chunk it may not exist: is_inside says so.
  static constexpr bool is_inside(int worker, int chunk) {
    return chunk < complete_chunks || chunk * workers + worker < elements;
  }
  static constexpr Coordinate<2> at(int worker, int chunk) {
    constexpr int kFast = FastAxis == 1 ? columns : rows;
    // Where the workers cover whole lines, one of a worker's coordinates is the same in every chunk.
    const int fast = workers % kFast == 0 ? worker % kFast : (chunk * workers + worker) % kFast;
    const int slow = workers % kFast == 0 ? worker / kFast + chunk * (workers / kFast) : (chunk * workers + worker) / kFast;
    return FastAxis == 1 ? Coordinate<2>{slow, fast} : Coordinate<2>{fast, slow};
  }
};

namespace detail {
// May the source and the destination share memory? By their first and last bytes. Uniform.
template <class Plan, class T, class L>
GROUT_HD bool may_overlap(Plan, const typename Plan::Destination& destination, const View<T, L>& source) {
  if (source.layout.template extent<0>() <= 0 || source.layout.template extent<1>() <= 0) return false;
  constexpr TileSpan kTile = tile_span<typename Plan::Layout>();
  const Span span = span_of(source);
  const auto low = reinterpret_cast<uintptr_t>(destination.data + kTile.low);
  const auto high = reinterpret_cast<uintptr_t>(destination.data + kTile.high + 1);
  return reinterpret_cast<uintptr_t>(span.begin) < high && low < reinterpret_cast<uintptr_t>(span.end);
}

template <class To, class From, class Function> GROUT_HD To apply_element(const Function& function, From value) {
  if constexpr (std::is_same_v<Function, Plain>) {
    static_assert(std::is_same_v<From, To>,
                  "copy_batched: source and destination must have the same element type; use Converted");
    return value;
  } else if constexpr (std::is_same_v<Function, Converted>) {
    return from_float<To>(to_float(value));
  } else if constexpr (std::is_same_v<Function, Scaled>) {
    return from_float<To>(to_float(value) * function.factor);
  } else {
    return function(value);
  }
}

// One element's value: the coordinate is tested before its pointer is formed.
template <class Plan, class T, class L>
GROUT_DEVICE typename Plan::Value load_bounded(Plan, const View<T, L>& source, Origin origin, Coordinate<2> c,
                                               const typename Plan::Function& function) {
  const int64_t row = origin.row + c[0], col = origin.col + c[1];
  // Unsigned: a negative coordinate is larger than any extent.
  if (Plan::bounds == Bounds::none ||
      (static_cast<uint64_t>(row) < static_cast<uint64_t>(int64_t{source.layout.template extent<0>()}) &&
       static_cast<uint64_t>(col) < static_cast<uint64_t>(int64_t{source.layout.template extent<1>()})))
    return apply_element<typename Plan::Value, std::remove_const_t<T>>(function, *element(source, row, col));
  return typename Plan::Value{};
}
template <class Plan>
GROUT_DEVICE void store_element(Plan, typename Plan::Value* data, Coordinate<2> c, typename Plan::Value value) {
  typename Plan::Value& to = data[typename Plan::Layout{}(c[0], c[1])];
  if constexpr (Plan::write == CopyWrite::assign) to = value;
  else to = from_float<typename Plan::Value>(to_float(to) + to_float(value));
}
}  // namespace detail

// What the copy will do with these addresses: the plan's report, or that of a copy whose source may share the destination.
template <class Plan, class T, class L>
GROUT_HD BatchReport batch_report(Plan plan, const typename Plan::Destination& destination, const View<T, L>& source) {
  CopyOperation operation = Plan::operation;
  operation.independent = operation.independent && !detail::may_overlap(plan, destination, source);
  return plan_batch(operation, Plan::requested);
}

// Copies the tile at `origin` of `source` to `destination`, zeros where the source ends. The source has any extents and
// strides. Participants: workers 0..Workers-1, each for its own elements; no convergence needed.
// Completion: of this thread's elements, when it returns. Publishes nothing: a barrier before others read, and before reuse.
// Errors: none. Where a batch is refused, one by one; batch_report says why.
template <class Plan, class T, class L> GROUT_DEVICE void copy_batched(Plan plan, typename Plan::Destination& destination,
                                                                       const View<T, L>& source, Origin origin, int worker,
                                                                       const typename Plan::Function& function = {}) {
  using Value = typename Plan::Value;
  int batched = 0;
  if constexpr (Plan::transformed != 0) {
    const bool overlaps = ptx::may_be_shared(source.data) && detail::may_overlap(plan, destination, source);
    batched = overlaps ? 0 : Plan::groups * Plan::realised;
#pragma unroll 1
    for (int chunk = 0; chunk < batched; chunk += Plan::realised) {
      Value values[Plan::realised];
#pragma unroll
      for (int i = 0; i < Plan::realised; ++i)
        values[i] = detail::load_bounded(plan, source, origin, Plan::at(worker, chunk + i), function);
      ptx::keep_order();  // all loads, then all stores,
#pragma unroll
      for (int i = 0; i < Plan::realised; ++i)
        detail::store_element(plan, destination.data, Plan::at(worker, chunk + i), values[i]);
      ptx::keep_order();  // and nobody's loads before them
    }
  }
#pragma unroll 1
  for (int chunk = batched; chunk < Plan::chunks; ++chunk) {
    if (!Plan::is_inside(worker, chunk)) break;
    const Coordinate<2> c = Plan::at(worker, chunk);
    detail::store_element(plan, destination.data, c, detail::load_bounded(plan, source, origin, c, function));
  }
}

}  // namespace grout
