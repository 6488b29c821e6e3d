// The attention's problem, what the host entry chose for it, and what no kernel takes.
//
// For every sequence b, query head h and query i, with its key head g = h / (heads / kv_heads):
//
//   logit[j] = scale * sum over d of Q[b, i, h, d] * K[b, j, g, d]      of the keys j that query i sees
//   O[b, i, h, d] = sum over j of exp(logit[j]) * V[b, j, g, d] / sum over j of exp(logit[j])
//   LSE[b, h, i] = log(sum over j of exp(logit[j]))                     natural logarithm, fp32
//
// Query i sees every key; causal: the keys j <= i + kv_length - q_length, so that the last query sees all ("bottom-right").
// A query that sees no key has O = 0 and LSE = -inf.
#pragma once
#include <cmath>
#include <initializer_list>
#include <string>

#include "common/launch.cuh"
#include "common/numeric.cuh"
#include "common/span.cuh"

namespace grout {

enum class AttentionKernel {
  automatic,  // by problem and device
  mma,        // warp-level tensor cores: attention_mma.cuh
};

// Elements from one sequence, row (query or key) and head to the next; any of them may be negative or 0 but where something
// is written. The elements of one row of one head are neighbours.
struct AttentionStrides {
  int64_t batch = 0, row = 0, head = 0;
};

struct AttentionArguments {
  int64_t batch = 1, heads = 1, kv_heads = 1;  // kv_heads divides heads: neighbouring query heads share a key head
  int64_t q_length = 0, kv_length = 0;         // rows of Q and O, of K and V; packed: the longest of any sequence, or more
  int64_t dim = 128;                           // elements of a row of one head: 1 to 256
  ElementType type = ElementType::bf16;        // of Q, K, V and O: bf16 or f16; products accumulate in fp32
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;      // overlaps nothing else
  float* lse = nullptr;   // [batch, heads, q_length], packed: [heads, rows of Q in all]; null: not wanted
  AttentionStrides q_stride, k_stride, v_stride, o_stride;
  float scale = 1;        // usually 1 / sqrt(dim)
  bool causal = false;
  // Packed sequences of different lengths: sequence b has rows offsets[b] to offsets[b + 1] - 1 of Q and O, and of K and V. Both in
  // device memory, batch + 1 numbers each, or both null. Strides between batches are not used. Where offsets decrease, a sequence is
  // empty; where it is longer than q_length or kv_length, the rows behind are left out.
  const int32_t *q_offsets = nullptr, *kv_offsets = nullptr;
  int64_t q_rows = 0;     // packed: rows of Q in all, the extent of LSE
  AttentionKernel kernel = AttentionKernel::automatic;
  int splits = 0;         // parts that the keys are cut into, one block each: 0 chooses, 1 to 128
  // Memory for the parts' results where there are several: at least attention_workspace_bytes, 16-byte aligned, apart from all
  // operands, free until the stream is done. Null: allocated and freed in stream order.
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

// What the entry chose.
struct AttentionChoice {
  const char* kernel = "none";
  const char* path = "aligned";  // "aligned", "bounded" or "realign"
  int tile_q = 0, tile_k = 0, tile_dim = 0, threads = 0;
  size_t shared_bytes = 0;
  int splits = 0;
  int64_t blocks = 0;
  const char* reason = "";
};

inline constexpr int kMostAttentionSplits = 128;

namespace detail {
inline std::string attention_text(int64_t value) { return std::to_string(value); }

// Bytes from the first to behind the last element of an operand. False: beyond 62 bits.
inline bool attention_span(const void* base, int64_t batch, int64_t rows, int64_t heads, int64_t dim, const AttentionStrides& s,
                           size_t bytes, AddressSpan& span) {
  return address_span(reinterpret_cast<uintptr_t>(base), {{batch, s.batch}, {rows, s.row}, {heads, s.head}, {dim, 1}}, bytes, span);
}

// Do distinct (sequence, row, head, element) have distinct addresses? Sufficient: sorted by size, each stride is at least the
// span of those below it.
inline bool attention_rows_are_distinct(int64_t batch, int64_t rows, int64_t heads, int64_t dim, const AttentionStrides& s) {
  if (batch == 0 || rows == 0) return true;
  struct Axis {
    int64_t extent;
    __int128 stride;
  } axes[3] = {{batch, s.batch}, {rows, s.row}, {heads, s.head}};
  for (Axis& axis : axes) axis.stride = axis.extent <= 1 ? 0 : axis.stride < 0 ? -axis.stride : axis.stride;
  for (int i = 0; i < 3; ++i)
    for (int j = i + 1; j < 3; ++j)
      if (axes[j].stride < axes[i].stride) std::swap(axes[i], axes[j]);
  __int128 reach = dim;
  for (const Axis& axis : axes) {
    if (axis.extent <= 1) continue;
    if (axis.stride < reach) return false;
    reach += axis.stride * (axis.extent - 1);
  }
  return true;
}
}  // namespace detail

// Refuses lengths, heads, dimensions and strides that `attention` cannot do, whatever the addresses.
inline Status attention_check_extents(const AttentionArguments& a) {
  using detail::attention_text;
  const auto text = attention_text;
  constexpr int64_t kMostRows = int64_t{1} << 31;
  if (a.type == ElementType::f32) return invalid("attention multiplies bf16 and f16: Q, K and V of type f32 have no kernel");
  if (a.batch < 0) return invalid("batch=" + text(a.batch) + " must be at least 0");
  if (a.q_length < 0 || a.kv_length < 0)
    return invalid("lengths must be at least 0: " + text(a.q_length) + " queries, " + text(a.kv_length) + " keys");
  if (a.q_length >= kMostRows || a.kv_length >= kMostRows)
    return invalid("lengths must be below 2^31: " + text(a.q_length) + " queries, " + text(a.kv_length) + " keys");
  if (a.heads < 1 || a.kv_heads < 1)
    return invalid("heads=" + text(a.heads) + " and kv_heads=" + text(a.kv_heads) + " must be at least 1");
  if (a.heads % a.kv_heads != 0)
    return invalid("heads=" + text(a.heads) + " is not a multiple of kv_heads=" + text(a.kv_heads) +
                   ": each key head must serve the same number of query heads");
  if (a.dim < 1 || a.dim > 256) return invalid("dim=" + text(a.dim) + " must be 1 to 256, what the kernel's tiles hold");
  if (!(a.scale >= -3e38f && a.scale <= 3e38f)) return invalid("scale=" + std::to_string(a.scale) + " must be finite");
  if ((a.q_offsets == nullptr) != (a.kv_offsets == nullptr))
    return invalid("packed sequences need the offsets of Q and of K and V: one of the two is null");
  const bool packed = a.q_offsets != nullptr;
  if (packed && (a.q_rows < 0 || a.q_rows >= kMostRows))
    return invalid("rows of packed queries must be 0 to 2^31 - 1: " + text(a.q_rows));
  if (a.splits < 0 || a.splits > kMostAttentionSplits)
    return invalid("splits=" + std::to_string(a.splits) + " must be 1 to " + std::to_string(kMostAttentionSplits) + ", or 0: choose");
  if (a.batch > 0 && (a.heads > kMostRows / a.batch || a.q_length > INT64_MAX / 1024 / (a.batch * a.heads)))
    return invalid("batch=" + text(a.batch) + " of heads=" + text(a.heads) + " with " + text(a.q_length) +
                   " queries are more than a grid holds: batch times heads must be at most 2^31");
  const size_t bytes = element_bytes(a.type);
  AddressSpan span;
  const int64_t batch = packed ? 1 : a.batch, rows_q = packed ? a.q_rows : a.q_length;
  if (!detail::attention_span(nullptr, batch, rows_q, a.heads, a.dim, a.q_stride, bytes, span) ||
      !detail::attention_span(nullptr, batch, rows_q, a.heads, a.dim, a.o_stride, bytes, span) ||
      !detail::attention_span(nullptr, batch, a.kv_length, a.kv_heads, a.dim, a.k_stride, bytes, span) ||
      !detail::attention_span(nullptr, batch, a.kv_length, a.kv_heads, a.dim, a.v_stride, bytes, span))
    return invalid("Q, K, V or O with these strides exceeds 62-bit addresses: batch=" + text(a.batch) + ", " + text(a.q_length) +
                   " queries, " + text(a.kv_length) + " keys, heads=" + text(a.heads));
  if (!detail::attention_rows_are_distinct(batch, rows_q, a.heads, a.dim, a.o_stride))
    return invalid("rows of O may overlap: strides " + text(a.o_stride.batch) + ", " + text(a.o_stride.row) + ", " +
                   text(a.o_stride.head) + " between sequences, rows and heads of dim=" + text(a.dim));
  return {};
}

// Refuses what `attention` cannot do; device-independent. Offsets of packed sequences lie in device memory and are not read.
inline Status attention_check(const AttentionArguments& a) {
  if (Status s = attention_check_extents(a); !s) return s;
  const bool packed = a.q_offsets != nullptr;
  const int64_t batch = packed ? 1 : a.batch, rows_q = packed ? a.q_rows : a.q_length;
  if (a.batch == 0 || rows_q == 0 || a.q_length == 0) return {};
  const size_t bytes = element_bytes(a.type);
  const auto pointer = [&](const char* name, const void* p, size_t size) -> Status {
    if (p == nullptr) return invalid(std::string(name) + " is null but would be accessed");
    if (reinterpret_cast<uintptr_t>(p) % size != 0)
      return invalid(std::string(name) + " is not aligned to its elements of " + std::to_string(size) + " bytes");
    return {};
  };
  if (Status s = pointer("O", a.o, bytes); !s) return s;
  const bool reads = a.kv_length > 0;
  AddressSpan q, k, v, o, lse;
  (void)detail::attention_span(a.o, batch, rows_q, a.heads, a.dim, a.o_stride, bytes, o);
  if (a.lse != nullptr) {
    if (Status s = pointer("LSE", a.lse, sizeof(float)); !s) return s;
    (void)address_span(reinterpret_cast<uintptr_t>(a.lse), {{batch * a.heads * rows_q, 1}}, sizeof(float), lse);
    if (lse.overlaps(o)) return invalid("LSE overlaps O: each needs memory of its own");
  }
  if (!reads) return {};
  if (Status s = pointer("Q", a.q, bytes); !s) return s;
  if (Status s = pointer("K", a.k, bytes); !s) return s;
  if (Status s = pointer("V", a.v, bytes); !s) return s;
  (void)detail::attention_span(a.q, batch, rows_q, a.heads, a.dim, a.q_stride, bytes, q);
  (void)detail::attention_span(a.k, batch, a.kv_length, a.kv_heads, a.dim, a.k_stride, bytes, k);
  (void)detail::attention_span(a.v, batch, a.kv_length, a.kv_heads, a.dim, a.v_stride, bytes, v);
  const struct {
    const char* name;
    const AddressSpan& span;
  } operands[] = {{"Q", q}, {"K", k}, {"V", v}};
  for (const auto& operand : operands) {
    if (o.overlaps(operand.span)) return invalid(std::string("O overlaps ") + operand.name + ": it needs memory of its own");
    if (a.lse != nullptr && lse.overlaps(operand.span))
      return invalid(std::string("LSE overlaps ") + operand.name + ": it needs memory of its own");
  }
  return {};
}

// Refuses offsets of packed sequences, as the host has them, that decrease, start below 0, or hold a sequence longer than `most`.
// `what`: "q" or "kv". `offsets`: batch + 1 numbers.
inline Status attention_check_offsets(const char* what, const int32_t* offsets, int64_t batch, int64_t most) {
  if (offsets[0] < 0) return invalid(std::string(what) + " offsets start at " + std::to_string(offsets[0]) + ": they must be at least 0");
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = int64_t{offsets[b + 1]} - offsets[b];
    if (length < 0)
      return invalid(std::string(what) + " offsets decrease from " + std::to_string(offsets[b]) + " to " +
                     std::to_string(offsets[b + 1]) + " at sequence " + std::to_string(b));
    if (length > most)
      return invalid(std::string(what) + " offsets give sequence " + std::to_string(b) + " " + std::to_string(length) +
                     " rows, more than the longest length given, " + std::to_string(most));
  }
  return {};
}

}  // namespace grout
