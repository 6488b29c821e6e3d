// Attention host entry: streaming softmax forward on the current device, any lengths, head dimensions, strides and alignment.
//
//   AttentionArguments a{.heads = 16, .kv_heads = 4, .q_length = 1000, .kv_length = 1000, .dim = 128, .q = q, .k = k, .v = v, .o = o,
//                        .q_stride = {...}, ..., .scale = 0.0884f, .causal = true};
//   if (Status status = attention(a, stream); !status) puts(status.message.c_str());
//
// Chooses tile, path and splits by problem and device. Asynchronous: never synchronises, capturable in a graph, thread-safe, the
// same bits every time. Whatever it cannot do is refused before anything is launched or written.
#pragma once
#include <array>
#include <span>

#include "attention/attention_arguments.cuh"
#include "attention/attention_mma.cuh"

namespace grout {

// One compiled kernel.
template <class T> struct AttentionVariant {
  AttentionPath path;
  bool short_queries;  // for units of few rows, which wait for K and V rather than for products
  int tile_q, tile_k, tile_dim, threads, blocks_per_sm;
  size_t shared_bytes;
  void (*kernel)(AttentionParameters<T>);
};

namespace detail {
// Large: 32 rows a warp, so that each fragment of K and V feeds four products; of 256 elements only 16 rows fit into the registers.
// Short: all warps share 16 rows and divide the keys; their time is that of reading K and V. Realigned: 16 rows a warp, since the copies
// need registers.
template <int Dim> struct AttentionTiles;
template <> struct AttentionTiles<64> {
  using Large = AttentionTile<64, 2, 4, 64, 1, 2, 2, true>;
  using Short = AttentionTile<64, 1, 1, 64, 4, 3, 2, false>;
  using Realigned = AttentionTile<64, 1, 4, 64, 1, 2, 2, false>;
};
template <> struct AttentionTiles<128> {
  using Large = AttentionTile<128, 2, 4, 64, 1, 2, 2, false>;
  using Short = AttentionTile<128, 1, 1, 64, 4, 3, 2, false>;
  using Realigned = AttentionTile<128, 1, 4, 64, 1, 2, 2, false>;
};
template <> struct AttentionTiles<256> {
  using Large = AttentionTile<256, 1, 8, 64, 1, 2, 1, false>;
  using Short = AttentionTile<256, 1, 2, 64, 4, 3, 1, false>;
  using Realigned = AttentionTile<256, 1, 8, 32, 1, 2, 1, false>;
  using Small = AttentionTile<256, 1, 8, 16, 1, 2, 1, false>;  // for blocks of no more than 99 KiB
};

template <class T, class Tile, AttentionPath Path> AttentionVariant<T> attention_variant(bool short_queries) {
  return {Path, short_queries, Tile::q, Tile::keys, Tile::dim, Tile::threads, Tile::blocks_per_sm, sizeof(AttentionStorage<T, Tile>),
          &attention_mma_kernel<T, Tile, Path>};
}
template <class T> struct AttentionVariants {
  template <int Dim, AttentionPath Path> static std::array<AttentionVariant<T>, 2> of() {
    using Tiles = AttentionTiles<Dim>;
    using Large = std::conditional_t<Path == AttentionPath::aligned, typename Tiles::Large, typename Tiles::Realigned>;
    return {attention_variant<T, Large, Path>(false),
            attention_variant<T, typename AttentionTiles<Dim>::Short, Path>(true)};
  }
  template <AttentionPath Path> static AttentionVariant<T> small() {
    return attention_variant<T, typename AttentionTiles<256>::Small, Path>(false);
  }
  // Of tiles for the same rows and dimensions, the first one that a device has the shared memory for is taken.
  static inline const std::array<AttentionVariant<T>, 14> list = [] {
    std::array<AttentionVariant<T>, 14> all{};
    int next = 0;
    const auto add = [&](const auto& some) {
      for (const AttentionVariant<T>& variant : some) all[static_cast<size_t>(next++)] = variant;
    };
    add(of<64, AttentionPath::aligned>()), add(of<128, AttentionPath::aligned>()), add(of<256, AttentionPath::aligned>());
    add(of<64, AttentionPath::realign>()), add(of<128, AttentionPath::realign>()), add(of<256, AttentionPath::realign>());
    add(std::array{small<AttentionPath::aligned>(), small<AttentionPath::realign>()});
    return all;
  }();
};
template <class T> std::span<const AttentionVariant<T>> attention_variants() { return AttentionVariants<T>::list; }

// What the choice of tile and splits rests on.
struct AttentionPlan {
  bool aligned = false;        // rows of Q, K and V start at multiples of 16 bytes
  bool short_queries = false;
  int pack = 1;                // query heads in a unit
  int tiles = 0, splits = 1;
  int64_t units = 0, blocks = 0;
};

inline bool attention_is_aligned(const AttentionArguments& a) {
  const auto rows_aligned = [&](const void* base, const AttentionStrides& s, int64_t heads) {
    const bool packed = a.q_offsets != nullptr;
    return reinterpret_cast<uintptr_t>(base) % 16 == 0 && s.row % 8 == 0 && (heads == 1 || s.head % 8 == 0) &&
           (packed || a.batch == 1 || s.batch % 8 == 0);
  };
  return rows_aligned(a.q, a.q_stride, a.heads) && rows_aligned(a.k, a.k_stride, a.kv_heads) && rows_aligned(a.v, a.v_stride, a.kv_heads);
}

// Rows of one key head, query by query and head by head, up to which the short tiles are taken: they read K and V once for each 16.
inline constexpr int64_t kShortAttentionRows = 64;

// The smallest tile that holds a row and fits the device.
template <class T>
const AttentionVariant<T>* attention_fitting(const AttentionArguments& a, const DeviceInfo& device, const AttentionPlan& plan) {
  const AttentionVariant<T>* best = nullptr;
  for (const AttentionVariant<T>& v : attention_variants<T>()) {
    if ((v.path == AttentionPath::aligned) != plan.aligned || v.short_queries != plan.short_queries || v.tile_dim < a.dim) continue;
    if (v.shared_bytes > device.shared_per_block || (best != nullptr && best->tile_dim <= v.tile_dim)) continue;
    best = &v;
  }
  return best;
}

template <class T> const AttentionVariant<T>* attention_choose(const AttentionArguments& a, const DeviceInfo& device, AttentionPlan& plan) {
  const int64_t group = a.heads / a.kv_heads;
  plan.aligned = attention_is_aligned(a);
  plan.short_queries = a.q_length * group <= kShortAttentionRows;
  const AttentionVariant<T>* best = attention_fitting<T>(a, device, plan);
  if (best == nullptr && plan.short_queries) {  // their three stages of keys are too much for some devices
    plan.short_queries = false;
    best = attention_fitting<T>(a, device, plan);
  }
  if (best == nullptr) return nullptr;
  plan.pack = plan.short_queries ? static_cast<int>(group) : 1;
  plan.units = a.batch * (a.heads / plan.pack);
  plan.tiles = static_cast<int>((a.q_length * plan.pack + best->tile_q - 1) / best->tile_q);
  const int64_t blocks = plan.units * plan.tiles, key_tiles = (a.kv_length + best->tile_k - 1) / best->tile_k;
  // Parts that fill the device, each of some tiles at least, or combining them costs more than it gives (attention/NOTES.md). Few
  // queries: reading K and V is as fast with one block on each multiprocessor.
  const int64_t at_once = int64_t{device.sms} * (plan.short_queries ? 1 : best->blocks_per_sm);
  const int64_t most = at_once / blocks, worth = key_tiles / (plan.short_queries ? 8 : 4);
  const int64_t splits = most < worth ? most : worth;
  plan.splits = a.splits > 0 ? a.splits : static_cast<int>(splits < 1 ? 1 : splits < kMostAttentionSplits ? splits : kMostAttentionSplits);
  plan.blocks = blocks * plan.splits;
  return best;
}

inline int64_t attention_rows_of_lse(const AttentionArguments& a) {
  return a.heads * (a.q_offsets != nullptr ? a.q_rows : a.batch * a.q_length);
}
inline size_t attention_part_bytes(const AttentionArguments& a, int splits) {
  return splits <= 1 ? 0 : static_cast<size_t>(splits) * static_cast<size_t>(attention_rows_of_lse(a)) *
                               static_cast<size_t>(attention_part_pitch(a) + 1) * sizeof(float);
}

// The order of blocks; all counts fit, since there are fewer units than blocks.
template <class T> void attention_order(AttentionParameters<T>& p, int64_t units, int64_t together, int64_t units_of_batch) {
  const int64_t at_once = together < units ? together : units, left = units % at_once;
  p.units = static_cast<int>(units), p.units_together = static_cast<int>(at_once), p.units_of_batch = Divisor(units_of_batch);
  p.blocks_together = Divisor(at_once * p.tiles * p.splits), p.turn = Divisor(at_once * p.splits);
  p.last_turn = Divisor((left == 0 ? at_once : left) * p.splits), p.in_splits = Divisor(p.splits);
}

template <class T>
Status attention_launch(const AttentionArguments& a, const DeviceInfo& device, cudaStream_t stream, AttentionChoice& choice) {
  AttentionPlan plan;
  const AttentionVariant<T>* v = attention_choose<T>(a, device, plan);
  if (v == nullptr)
    return unsupported("no attention tile for dim=" + attention_text(a.dim) + " fits the " +
                       std::to_string(device.shared_per_block) + " bytes of shared memory that a block of this device may use");
  if (plan.blocks > INT32_MAX)
    return invalid("batch=" + attention_text(a.batch) + " of heads=" + attention_text(a.heads) + " with " + attention_text(a.q_length) +
                   " queries need " + attention_text(plan.blocks) + " blocks, more than the 2^31 - 1 of a grid");
  const size_t bytes = attention_part_bytes(a, plan.splits);
  if (Status s = a.workspace == nullptr ? Status{} : attention_check_workspace(a, bytes); !s) return s;
  const bool packed = a.q_offsets != nullptr;
  // Units whose keys and values fill half of L2 are walked together.
  const int64_t group = a.heads / a.kv_heads, unit_heads = group / plan.pack;
  const int64_t key_head_bytes = 2 * a.kv_length * a.dim * static_cast<int64_t>(sizeof(T));
  const int64_t fit = key_head_bytes == 0 ? plan.units : static_cast<int64_t>(device.l2_bytes / 2) / key_head_bytes;
  AttentionParameters<T> p = {};
  p.q = static_cast<const T*>(a.q), p.k = static_cast<const T*>(a.k), p.v = static_cast<const T*>(a.v);
  p.o = static_cast<T*>(a.o), p.lse = a.lse;
  p.q_batch = a.q_stride.batch, p.q_row = a.q_stride.row, p.q_head = a.q_stride.head;
  p.k_batch = a.k_stride.batch, p.k_row = a.k_stride.row, p.k_head = a.k_stride.head;
  p.v_batch = a.v_stride.batch, p.v_row = a.v_stride.row, p.v_head = a.v_stride.head;
  p.o_batch = a.o_stride.batch, p.o_row = a.o_stride.row, p.o_head = a.o_stride.head;
  p.lse_head = packed ? a.q_rows : a.q_length, p.lse_batch = a.heads * a.q_length;
  p.lse_rows = attention_rows_of_lse(a);
  p.q_length = a.q_length, p.kv_length = a.kv_length, p.q_offsets = a.q_offsets, p.kv_offsets = a.kv_offsets;
  p.dim = static_cast<int>(a.dim), p.part_pitch = static_cast<int>(attention_part_pitch(a));
  p.heads = static_cast<int>(a.heads), p.batch = static_cast<int>(a.batch);
  p.pack = Divisor(plan.pack), p.group = Divisor(group), p.splits = plan.splits, p.tiles = plan.tiles;
  attention_order(p, plan.units, fit < 1 ? unit_heads : fit * unit_heads, a.heads / plan.pack);
  constexpr float kLog2E = 1.44269504088896341f;
  p.sign = a.scale > 0 ? 1.f : a.scale < 0 ? -1.f : 0.f;
  p.scale = a.scale == 0 ? 1.f : std::fabs(a.scale) * kLog2E;
  p.causal = a.causal;
  choice = {"mma", plan.aligned ? (a.dim == v->tile_dim && !packed && a.kv_length % v->tile_k == 0 && a.q_length % v->tile_q == 0 ? "aligned" : "bounded")
                                : "realign",
            v->tile_q, v->tile_k, v->tile_dim, v->threads, v->shared_bytes, plan.splits, plan.blocks,
            plan.short_queries ? "few queries: warps divide the keys" : "32 rows or 16 a warp"};
  const auto run = [&](void* parts) -> Status {
    p.parts = static_cast<float*>(parts);
    if (Status s = launch(v->kernel, dim3(static_cast<unsigned>(plan.blocks)), dim3(static_cast<unsigned>(v->threads)), v->shared_bytes, stream, p); !s)
      return s;
    if (plan.splits == 1) return {};
    const int64_t rows = a.batch * a.heads * a.q_length, resident = int64_t{device.sms} * kCombiningBlocks;
    const dim3 combining(static_cast<unsigned>(rows < resident ? rows : resident));
    return launch(&attention_combine_kernel<T>, combining, dim3(64), 0, stream, p);
  };
  if (bytes == 0) return run(nullptr);
  if (a.workspace != nullptr) return run(a.workspace);
  void* parts = nullptr;
  if (Status s = runtime_status(cudaMallocAsync(&parts, bytes, stream), "cudaMallocAsync of " + std::to_string(bytes) + " bytes"); !s) {
    (void)cudaGetLastError();
    return s;
  }
  const Status done = run(parts);
  const Status freed = runtime_status(cudaFreeAsync(parts, stream), "cudaFreeAsync");
  return done ? freed : done;
}

template <class Run> Status attention_on_device(const AttentionArguments& a, Run run) {
  DeviceInfo device;
  if (Status status = device_info(device); !status) return status;
  if (device.major < 8)
    return unsupported("attention needs compute capability 8.0 or later; this device has " + std::to_string(device.major) + "." +
                       std::to_string(device.minor));
  return a.type == ElementType::bf16 ? run(std::type_identity<bf16>{}, device) : run(std::type_identity<f16>{}, device);
}
inline bool attention_is_empty(const AttentionArguments& a) {
  return a.batch == 0 || a.q_length == 0 || (a.q_offsets != nullptr && a.q_rows == 0);
}
}  // namespace detail

// Bytes of workspace with which `attention` need not allocate: 0 unless keys are split, which depends on the device and on the
// addresses' alignment.
inline Status attention_workspace_bytes(const AttentionArguments& a, size_t& bytes) {
  bytes = 0;
  if (Status status = attention_check_extents(a); !status) return status;
  if (detail::attention_is_empty(a)) return {};
  return detail::attention_on_device(a, [&]<class T>(std::type_identity<T>, const DeviceInfo& device) -> Status {
    detail::AttentionPlan plan;
    if (detail::attention_choose<T>(a, device, plan) != nullptr) bytes = detail::attention_part_bytes(a, plan.splits);
    return {};
  });
}

// Computes O, and LSE where it is wanted, on `stream`. Shapes, strides and their rules: AttentionArguments. Complete when the stream is.
// Errors: invalid (bad arguments, one sentence with the values), unsupported (this device), device_error (launch, memory).
// `choice`, if given, receives tile, path and splits.
inline Status attention(const AttentionArguments& a, cudaStream_t stream, AttentionChoice* choice = nullptr) {
  AttentionChoice local;
  AttentionChoice& chosen = choice != nullptr ? *choice : local;
  chosen = {};
  if (Status status = attention_check(a); !status) return status;
  if (detail::attention_is_empty(a)) return {};  // nothing to launch
  return detail::attention_on_device(a, [&]<class T>(std::type_identity<T>, const DeviceInfo& device) {
    return detail::attention_launch<T>(a, device, stream, chosen);
  });
}

}  // namespace grout
