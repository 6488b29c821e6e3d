// The attention's problem, what the host entry chose for it, and what no kernel takes.
//
// For every sequence b, query head h and query i, with its key head g = h / (heads / kv_heads):
//
//   logit[j] = scale * sum over d of Q[b, i, h, d] * K[b, j, g, d]      of the keys j that query i sees
//   O[b, i, h, d] = sum over j of exp(logit[j]) * V[b, j, g, d] / sum over j of exp(logit[j])
//   LSE[b, h, i] = log(sum over j of exp(logit[j]))                     natural logarithm, fp32
//
// Query i sees every key; causal: the keys j <= i + kv_length - q_length, so that the last query sees all ("bottom-right").
// A query that sees no key has O = 0 and LSE = -inf. Logits, and their multiples by log2(e), must be finite in fp32, and so must V:
// a key that a query does not see weighs 0 there, and 0 times infinity is NaN. Rows that no sequence has may hold anything.
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
  // empty; where it is longer than q_length or kv_length, the rows behind are left out. Only the device reads offsets, and it accesses
  // the rows that they name: none of a sequence may lie below row 0, nor, of Q, at q_rows or behind, nor be of two sequences.
  // attention_check_offsets checks a host's copy.
  const int32_t *q_offsets = nullptr, *kv_offsets = nullptr;
  int64_t q_rows = 0;     // packed: rows of Q and O in all, row 0 to the end of the last sequence or more; the extent of LSE
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
inline constexpr float kMostAttentionScale = 2e38f;  // times log2(e): finite

namespace detail {
inline std::string attention_text(int64_t value) { return std::to_string(value); }

// Bytes from the first to behind the last element of an operand. False: beyond 62 bits.
inline bool attention_span(const void* base, int64_t batch, int64_t rows, int64_t heads, int64_t dim, const AttentionStrides& s,
                           size_t bytes, AddressSpan& span) {
  return address_span(reinterpret_cast<uintptr_t>(base), {{batch, s.batch}, {rows, s.row}, {heads, s.head}, {dim, 1}}, bytes, span);
}

// Elements from one row of a part to the next; its LSE is one more.
inline int64_t attention_part_pitch(const AttentionArguments& a) { return (a.dim + 7) / 8 * 8; }

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
  if (!(std::fabs(a.scale) <= kMostAttentionScale))
    return invalid("scale=" + std::to_string(a.scale) + " must be finite, and at most 2e38 in size");
  if ((a.q_offsets == nullptr) != (a.kv_offsets == nullptr))
    return invalid("packed sequences need the offsets of Q and of K and V: one of the two is null");
  const bool packed = a.q_offsets != nullptr;
  if (packed && (a.q_rows < 0 || a.q_rows >= kMostRows))
    return invalid("rows of packed queries must be 0 to 2^31 - 1: " + text(a.q_rows));
  if (a.splits < 0 || a.splits > kMostAttentionSplits)
    return invalid("splits=" + std::to_string(a.splits) + " must be 1 to " + std::to_string(kMostAttentionSplits) + ", or 0: choose");
  if (a.batch > 0 && (a.heads > kMostRows / a.batch || a.q_length > INT64_MAX / 1024 / (a.batch * a.heads)))
    return invalid("batch=" + text(a.batch) + " of heads=" + text(a.heads) + " with " + text(a.q_length) +
                   " queries are more than a grid holds: batch times heads must be at most 2^31, and these times the queries at most "
                   "2^53");
  const size_t bytes = element_bytes(a.type);
  AddressSpan span;
  const int64_t batch = packed ? 1 : a.batch, rows_q = packed ? a.q_rows : a.q_length;
  if (!detail::attention_span(nullptr, batch, rows_q, a.heads, a.dim, a.q_stride, bytes, span) ||
      !detail::attention_span(nullptr, batch, rows_q, a.heads, a.dim, a.o_stride, bytes, span) ||
      !detail::attention_span(nullptr, batch, a.kv_length, a.kv_heads, a.dim, a.k_stride, bytes, span) ||
      !detail::attention_span(nullptr, batch, a.kv_length, a.kv_heads, a.dim, a.v_stride, bytes, span))
    return invalid("Q, K, V or O with these strides exceeds 62-bit addresses: batch=" + text(a.batch) + ", " + text(a.q_length) +
                   " queries, " + text(a.kv_length) + " keys, heads=" + text(a.heads));
  // LSE, and with several parts what each of them has of every row: fp32.
  if (static_cast<__int128>(batch) * a.heads * rows_q * (a.splits > 1 ? a.splits * (detail::attention_part_pitch(a) + 1) : 1) >
      (static_cast<__int128>(1) << 60))
    return invalid("LSE, or the workspace of splits=" + std::to_string(a.splits) + ", exceeds 62-bit addresses: batch=" +
                   text(a.batch) + ", " + text(rows_q) + " rows, heads=" + text(a.heads));
  if (!detail::attention_rows_are_distinct(batch, rows_q, a.heads, a.dim, a.o_stride))
    return invalid("rows of O may overlap: strides " + text(a.o_stride.batch) + ", " + text(a.o_stride.row) + ", " +
                   text(a.o_stride.head) + " between sequences, rows and heads of dim=" + text(a.dim));
  return {};
}

namespace detail {
// What a call touches beside the workspace; nothing where it is not accessed.
struct AttentionSpans {
  AddressSpan q, k, v, q_offsets, kv_offsets, o, lse;
  // The first operand that `written` overlaps, or null; `or_written`: O and LSE too.
  const char* overlapped_by(const AddressSpan& written, bool or_written) const {
    const struct {
      const char* name;
      const AddressSpan& span;
    } operands[] = {{"Q", q}, {"K", k}, {"V", v}, {"the offsets of Q", q_offsets}, {"the offsets of K and V", kv_offsets},
                    {"O", o}, {"LSE", lse}};
    for (int i = 0; i < (or_written ? 7 : 5); ++i)
      if (written.overlaps(operands[i].span)) return operands[i].name;
    return nullptr;
  }
};
// Of extents that attention_check_extents has accepted.
inline AttentionSpans attention_spans(const AttentionArguments& a) {
  AttentionSpans spans;
  const bool packed = a.q_offsets != nullptr;
  const int64_t batch = packed ? 1 : a.batch, rows_q = packed ? a.q_rows : a.q_length;
  const size_t bytes = element_bytes(a.type);
  (void)attention_span(a.o, batch, rows_q, a.heads, a.dim, a.o_stride, bytes, spans.o);
  const auto list = [](const void* base, int64_t count, AddressSpan& span) {
    if (base != nullptr) (void)address_span(reinterpret_cast<uintptr_t>(base), {{count, 1}}, 4, span);
  };
  list(a.lse, batch * a.heads * rows_q, spans.lse);
  list(a.q_offsets, a.batch + 1, spans.q_offsets), list(a.kv_offsets, a.batch + 1, spans.kv_offsets);
  if (a.kv_length == 0) return spans;
  (void)attention_span(a.q, batch, rows_q, a.heads, a.dim, a.q_stride, bytes, spans.q);
  (void)attention_span(a.k, batch, a.kv_length, a.kv_heads, a.dim, a.k_stride, bytes, spans.k);
  (void)attention_span(a.v, batch, a.kv_length, a.kv_heads, a.dim, a.v_stride, bytes, spans.v);
  return spans;
}
}  // namespace detail

// Refuses what `attention` cannot do; device-independent. Offsets of packed sequences lie in device memory and are not read.
inline Status attention_check(const AttentionArguments& a) {
  if (Status s = attention_check_extents(a); !s) return s;
  if (a.batch == 0 || a.q_length == 0 || (a.q_offsets != nullptr && a.q_rows == 0)) return {};
  const size_t bytes = element_bytes(a.type);
  const struct {
    const char* name;
    const void* base;
    size_t size;
    bool wanted;
  } operands[] = {{"O", a.o, bytes, true},
                  {"LSE", a.lse, sizeof(float), a.lse != nullptr},
                  {"Q", a.q, bytes, a.kv_length > 0},
                  {"K", a.k, bytes, a.kv_length > 0},
                  {"V", a.v, bytes, a.kv_length > 0},
                  {"q_offsets", a.q_offsets, sizeof(int32_t), a.q_offsets != nullptr},
                  {"kv_offsets", a.kv_offsets, sizeof(int32_t), a.q_offsets != nullptr}};
  for (const auto& operand : operands) {
    if (!operand.wanted) continue;
    if (operand.base == nullptr) return invalid(std::string(operand.name) + " is null but would be accessed");
    if (reinterpret_cast<uintptr_t>(operand.base) % operand.size != 0)
      return invalid(std::string(operand.name) + " is not aligned to its elements of " + std::to_string(operand.size) + " bytes");
  }
  const detail::AttentionSpans spans = detail::attention_spans(a);
  if (spans.lse.overlaps(spans.o)) return invalid("LSE overlaps O: each needs memory of its own");
  if (const char* name = spans.overlapped_by(spans.o, false))
    return invalid(std::string("O overlaps ") + name + ": it needs memory of its own");
  if (const char* name = spans.overlapped_by(spans.lse, false))
    return invalid(std::string("LSE overlaps ") + name + ": it needs memory of its own");
  return {};
}

// Refuses a workspace that does not hold `bytes`, is not aligned, or overlaps an operand. The caller's, not null.
inline Status attention_check_workspace(const AttentionArguments& a, size_t bytes) {
  const auto base = reinterpret_cast<uintptr_t>(a.workspace);
  if (a.workspace_bytes < bytes || base % 16 != 0)
    return invalid("the workspace has " + std::to_string(a.workspace_bytes) + " bytes: " + std::to_string(bytes) +
                   ", 16-byte aligned, are needed");
  AddressSpan span;
  (void)address_span(base, {{static_cast<int64_t>(bytes), 1}}, 1, span);
  if (const char* name = detail::attention_spans(a).overlapped_by(span, true))
    return invalid(std::string("the workspace overlaps ") + name + ": it needs memory of its own");
  return {};
}

// Refuses offsets of packed sequences, as the host has them, that decrease, start below 0, hold a sequence longer than `most`, or end
// behind the operand's `rows`. `what`: "q" or "kv". `offsets`: batch + 1 numbers.
inline Status attention_check_offsets(const char* what, const int32_t* offsets, int64_t batch, int64_t most, int64_t rows) {
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
  if (offsets[batch] > rows)
    return invalid(std::string(what) + " offsets end at row " + std::to_string(offsets[batch]) + ", behind the operand's " +
                   std::to_string(rows) + " rows");
  return {};
}

}  // namespace grout
