// Attention on the CPU in fp64, from its definition alone, and how far a kernel's result may be from it. For binaries and
// tests.
//
//   logit[j] = scale * sum over d of Q[i, d] * K[j, d] of the visible keys j
//   O[i, d] = sum over j of exp(logit[j]) * V[j, d] / sum over j of exp(logit[j])
//   LSE[i] = log(sum over j of exp(logit[j]))
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "common/check.cuh"

namespace grout {

// ---- stored operands ----

// Where the rows of Q, K, V or O lie: element (batch, row, head, d) is index() elements after the base, and the base lies
// `offset` elements after a 256-byte boundary. Strides in elements, of any sign; 0 repeats what is there.
struct StoredHeads {
  ElementType type = ElementType::bf16;
  int64_t batch = 1, rows = 0, heads = 1, dim = 1;
  int64_t batch_stride = 0, row_stride = 0, head_stride = 0;
  int64_t offset = 0;

  GROUT_HD int64_t index(int64_t b, int64_t row, int64_t head, int64_t d) const {
    return b * batch_stride + row * row_stride + head * head_stride + d;
  }
  bool empty() const { return batch <= 0 || rows <= 0 || heads <= 0 || dim <= 0; }
  // Of the lowest element, relative to the base.
  int64_t low() const {
    const auto below = [](int64_t extent, int64_t stride) { return std::min<int64_t>(0, (extent - 1) * stride); };
    return empty() ? 0 : below(batch, batch_stride) + below(rows, row_stride) + below(heads, head_stride);
  }
  // Elements from the lowest to behind the highest.
  int64_t span() const {
    const auto above = [](int64_t extent, int64_t stride) { return std::max<int64_t>(0, (extent - 1) * stride); };
    return empty() ? 0 : above(batch, batch_stride) + above(rows, row_stride) + above(heads, head_stride) + dim - low();
  }
};

// Which of sequence and heads is the outer one: [batch, rows, heads, dim] or [batch, heads, rows, dim].
enum class HeadOrder { bshd, bhsd };
inline const char* name(HeadOrder order) { return order == HeadOrder::bshd ? "bshd" : "bhsd"; }

// Elements behind every row of one head, behind every group of those (the heads of a row, the rows of a head), and behind
// every sequence.
struct HeadPads {
  int64_t inner = 0, outer = 0, batch = 0;
};

inline StoredHeads stored_heads(ElementType type, int64_t batch, int64_t rows, int64_t heads, int64_t dim,
                                HeadOrder order = HeadOrder::bshd, const HeadPads& pads = {}, int64_t offset = 0) {
  StoredHeads s{type, batch, rows, heads, dim, 0, 0, 0, offset};
  const bool rows_outside = order == HeadOrder::bshd;
  int64_t &inner = rows_outside ? s.head_stride : s.row_stride, &outer = rows_outside ? s.row_stride : s.head_stride;
  inner = dim + pads.inner;
  outer = (rows_outside ? heads : rows) * inner + pads.outer;
  s.batch_stride = (rows_outside ? rows : heads) * outer + pads.batch;
  return s;
}
// The same elements in the same memory, the last sequence, row and head first.
inline StoredHeads reversed(StoredHeads s) {
  s.batch_stride = -s.batch_stride, s.row_stride = -s.row_stride, s.head_stride = -s.head_stride;
  return s;
}

inline std::string describe(const StoredHeads& s) {
  return std::to_string(s.batch) + "x" + std::to_string(s.rows) + "x" + std::to_string(s.heads) + "x" +
         std::to_string(s.dim) + " strides " + std::to_string(s.batch_stride) + "," + std::to_string(s.row_stride) + "," +
         std::to_string(s.head_stride) + " offset " + std::to_string(s.offset);
}

// In host memory, bf16 or f16: everything holds `padding` until it is set.
struct HostHeads {
  StoredHeads layout;
  std::vector<uint16_t> memory;

  explicit HostHeads(const StoredHeads& s, uint16_t padding = 0xffff)
      : layout(s), memory(static_cast<size_t>(s.span()), padding) {}
  size_t place(int64_t b, int64_t row, int64_t head, int64_t d) const {
    return static_cast<size_t>(layout.index(b, row, head, d) - layout.low());
  }
  float get(int64_t b, int64_t row, int64_t head, int64_t d) const {
    return load_element(layout.type, memory.data(), static_cast<int64_t>(place(b, row, head, d)));
  }
  void set(int64_t b, int64_t row, int64_t head, int64_t d, float value) {
    store_element(layout.type, memory.data(), static_cast<int64_t>(place(b, row, head, d)), value);
  }
  void set_row(int64_t b, int64_t row, int64_t head, float value) {
    for (int64_t d = 0; d < layout.dim; ++d) set(b, row, head, d, value);
  }
};

// ---- the problem ----

struct AttentionProblem {
  ElementType type = ElementType::bf16;
  int64_t batch = 1, heads = 1, kv_heads = 1, q_length = 0, kv_length = 0, dim = 128;
  float scale = 1;
  bool causal = false;
  std::vector<int32_t> q_offsets, kv_offsets;  // packed sequences: batch + 1 each; else empty

  bool packed() const { return !q_offsets.empty(); }
};

inline std::string describe(const AttentionProblem& p) {
  char text[240];
  std::snprintf(text, sizeof text, "%s batch=%lld heads=%lld kv_heads=%lld Sq=%lld Sk=%lld D=%lld scale=%.9g%s",
                element_name(p.type), static_cast<long long>(p.batch), static_cast<long long>(p.heads),
                static_cast<long long>(p.kv_heads), static_cast<long long>(p.q_length), static_cast<long long>(p.kv_length),
                static_cast<long long>(p.dim), p.scale, p.causal ? " causal" : "");
  std::string all = text;
  if (!p.packed() || p.batch > 64) return all + (p.packed() ? " packed" : "");
  for (const auto* offsets : {&p.q_offsets, &p.kv_offsets}) {
    all += offsets == &p.q_offsets ? " packed q" : " kv";
    for (const int32_t offset : *offsets) all += " " + std::to_string(offset);
  }
  return all;
}

// Does query i of q_length see key j of kv_length? Causal: the last query sees the last key, the one before it one key less.
inline bool sees(bool causal, int64_t q_length, int64_t kv_length, int64_t i, int64_t j) {
  const int64_t queries_behind = q_length - 1 - i, keys_behind = kv_length - 1 - j;
  return !causal || keys_behind >= queries_behind;
}

// The rows of one sequence, of Q and O, and of K and V.
struct SequenceRows {
  int64_t batch = 0;  // as the strides count it: 0 where sequences are packed
  int64_t q_first = 0, q_length = 0, kv_first = 0, kv_length = 0;
};
inline SequenceRows sequence_rows(const AttentionProblem& p, int64_t b) {
  if (!p.packed()) return {b, 0, p.q_length, 0, p.kv_length};
  const auto length = [b](const std::vector<int32_t>& offsets, int64_t most) {
    const size_t i = static_cast<size_t>(b);
    return std::clamp<int64_t>(int64_t{offsets[i + 1]} - offsets[i], 0, most);
  };
  return {0, p.q_offsets[static_cast<size_t>(b)], length(p.q_offsets, p.q_length), p.kv_offsets[static_cast<size_t>(b)],
          length(p.kv_offsets, p.kv_length)};
}

// One row of O, whatever its head: where it and its keys lie. A query sees the first `visible` keys of its sequence.
struct AttentionRow {
  int64_t batch, row, kv_first, visible;
};
inline std::vector<AttentionRow> attention_rows(const AttentionProblem& p) {
  std::vector<AttentionRow> rows;
  for (int64_t b = 0; b < p.batch; ++b) {
    const SequenceRows s = sequence_rows(p, b);
    for (int64_t i = 0; i < s.q_length; ++i) {
      int64_t visible = s.kv_length;
      while (visible > 0 && !sees(p.causal, s.q_length, s.kv_length, i, visible - 1)) --visible;
      rows.push_back({s.batch, s.q_first + i, s.kv_first, visible});
    }
  }
  return rows;
}

// ---- what a result may be ----
//
// u = 2^-24, fp32's unit roundoff. M = the largest visible logit, w[j] = exp(logit[j] - M), S = the sum of w. A kernel has,
// for some factor f of 2^-8 to 2^8 that depends on the row and the moment (the running maximum may lag behind):
//   p[j] = f w[j] (1 + delta[j]) in fp32,   P[j] = p[j] rounded to the operands' type,
//   l = sum of p in fp32,   O = (sum of P[j] V[j] in fp32) / l,   LSE = log(l / f) + M.
// delta[j], attention_weight_error: exp of an error of the exponent. That is |scale| times the accumulation error of the dot
// product; the roundings of scale * log2(e), of the product and of the difference to the maximum, 4 u |logit[j] - M|; the
// maximum's own rounding where it is scaled, before and after it changes and between parts of the keys, 4 u |M|; ex2.approx,
// 2^-22, once for p and once for each time that a block of at least 16 keys raises the maximum, and 4 times where parts are
// combined.
// P[j], attention_weight_rounding: 2^-8 of w[j] in bf16 and 2^-11 in f16, but in f16 half the smallest subnormal, 2^-25, over
// the least f, 2^-17, where that is more; in bf16 and fp32 what is flushed below 2^-126 over the least f.
// delta moves weight between keys: O by sum of w[j] |delta[j]| |V[j] - O| / S, over 1 - sum of w[j] |delta[j]| / S. Rounding
// P is no such move, since l sums p: it adds the sum of rounding[j] |V[j]| / S. The sum over P V errs as a GEMM's does, and by
// 2 u for each rescaling; the sum of p, all positive, by u for each addition in any order and for each rescaling; the division
// by 2^-21.

GROUT_HD double attention_weight_error(double scale, double accumulation, double below_most, double most, int64_t keys) {
  const double roundings = static_cast<double>((keys + 15) / 16 + 5) * 0x1p-22;
  return expm1(fabs(scale) * accumulation + below_most * 0x1p-22 + fabs(most) * 0x1p-22 + roundings);
}
GROUT_HD double attention_weight_rounding(ElementType type, double weight) {
  const bool half = type == ElementType::f16;
  return fmax(weight * (half ? 0x1p-11 : 0x1p-8), fmin(weight, half ? 0x1p-17 : 0x1p-118));
}

// Sums over the visible keys, over S: of w[j] |delta[j]|; of it times |V[j] - O|; of the rounding, (1 + delta[j]) |V[j]|
// times; of w[j] |V[j]|.
struct AttentionErrors {
  double weight = 0, moved = 0, rounded = 0, magnitude = 0;
};
GROUT_HD double attention_output_slack(int64_t keys, double value, const AttentionErrors& e) {
  if (!(e.weight < 1)) return INFINITY;
  const double blocks = static_cast<double>((keys + 15) / 16), n = static_cast<double>(keys), rest = 1 - e.weight;
  const double weights = (e.moved + e.rounded) / rest;
  const double summands = (e.magnitude * (1 + e.weight) + e.moved + e.rounded) / rest;
  const double sum = accumulation_error(keys, summands) + blocks * 0x1p-23 * summands + n * 0x1p-116;
  return weights + sum + (fabs(value) + weights + sum) * ((n + blocks) * 0x1p-24 + 0x1p-21);
}
// LSE: the weights' error; the sum's; lg2.approx, 2^-22 of log2; the roundings of log2(e) * l and of its sum with M, of
// parts twice.
GROUT_HD double attention_lse_slack(int64_t keys, double weight_error, double most, double lse) {
  if (!(weight_error < 1)) return INFINITY;
  return -log1p(-weight_error) + static_cast<double>(keys + (keys + 15) / 16) * 0x1p-24 + 0x1p-21 +
         (fabs(most) + fabs(lse)) * 0x1p-22;
}

// ---- the CPU reference ----

struct AttentionReference {
  int64_t heads = 0, dim = 0;
  std::vector<AttentionRow> rows;
  std::vector<double> value, slack;    // of O: [row][head][dim]
  std::vector<double> lse, lse_slack;  // [row][head]
};

namespace detail {
// Several rows of one head, as fp64.
inline std::vector<double> widen(const HostHeads& from, int64_t batch, int64_t first, int64_t rows, int64_t head) {
  std::vector<double> wide(static_cast<size_t>(rows * from.layout.dim));
  size_t i = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t d = 0; d < from.layout.dim; ++d) wide[i++] = from.get(batch, first + r, head, d);
  return wide;
}
inline bool all_integers(const double* row, int64_t dim) {
  return std::all_of(row, row + dim, [](double x) { return x == std::rint(x); });
}

// One row of one head against its keys: O and its slack, LSE and its slack. Dot products of integers are exact up to 2^24.
inline void reference_row(const AttentionProblem& p, const double* q, const double* k, const double* v, int64_t visible,
                          double* value, double* slack, double& lse, double& lse_slack) {
  const int64_t dim = p.dim;
  std::fill_n(value, dim, 0.0), std::fill_n(slack, dim, 0.0);
  lse = -INFINITY, lse_slack = 0;
  if (visible == 0) return;
  const bool whole_query = all_integers(q, dim);
  std::vector<double> weight(static_cast<size_t>(visible)), error(weight.size());
  double most = -INFINITY;
  for (int64_t j = 0; j < visible; ++j) {
    const double* key = k + j * dim;
    double sum = 0, magnitude = 0;
    for (int64_t d = 0; d < dim; ++d) sum += q[d] * key[d], magnitude += std::fabs(q[d] * key[d]);
    const bool exact = magnitude <= kExactMagnitude && whole_query && all_integers(key, dim);
    weight[static_cast<size_t>(j)] = p.scale * sum;
    error[static_cast<size_t>(j)] = exact ? 0 : accumulation_error(dim, magnitude);
    most = std::max(most, p.scale * sum);
  }
  double total = 0, weight_error = 0;
  for (size_t j = 0; j < weight.size(); ++j) {
    error[j] = attention_weight_error(p.scale, error[j], most - weight[j], most, visible);
    weight[j] = std::exp(weight[j] - most);
    total += weight[j];
    weight_error += weight[j] * error[j];
  }
  lse = most + std::log(total);
  lse_slack = attention_lse_slack(visible, weight_error / total, most, lse);
  std::vector<AttentionErrors> errors(static_cast<size_t>(dim));
  for (size_t j = 0; j < weight.size(); ++j)
    for (int64_t d = 0; d < dim; ++d) value[d] += weight[j] * v[static_cast<int64_t>(j) * dim + d];
  for (int64_t d = 0; d < dim; ++d) value[d] /= total;
  for (size_t j = 0; j < weight.size(); ++j) {
    const double moved = weight[j] * error[j], rounded = attention_weight_rounding(p.type, weight[j]) * (1 + error[j]);
    for (int64_t d = 0; d < dim; ++d) {
      const double x = v[static_cast<int64_t>(j) * dim + d];
      AttentionErrors& e = errors[static_cast<size_t>(d)];
      e.moved += moved * std::fabs(x - value[d]);
      e.rounded += rounded * std::fabs(x);
      e.magnitude += weight[j] * std::fabs(x);
    }
  }
  for (int64_t d = 0; d < dim; ++d) {
    const AttentionErrors& e = errors[static_cast<size_t>(d)];
    slack[d] = attention_output_slack(visible, value[d],
                                      {weight_error / total, e.moved / total, e.rounded / total, e.magnitude / total});
  }
}

// Calls f(q of one row, K and V of its head, row's number, head) for every row and head, spread over the machine's threads.
template <class F>
void each_attention_row(const AttentionProblem& p, const HostHeads& q, const HostHeads& k, const HostHeads& v,
                        const std::vector<AttentionRow>& rows, const F& f) {
  constexpr size_t kStrip = 16;  // rows that share one conversion of their keys
  double work = 0;
  for (const AttentionRow& row : rows) work += static_cast<double>(row.visible + 1) * static_cast<double>(p.dim * p.heads);
  const size_t strips = (rows.size() + kStrip - 1) / kStrip, tasks = strips * static_cast<size_t>(p.kv_heads);
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t task; (task = next++) < tasks;) {
      const int64_t group = static_cast<int64_t>(task / strips), share = p.heads / p.kv_heads;
      std::vector<double> wide_k, wide_v;
      int64_t batch = -1, first = -1, keys = -1;
      const size_t begin = task % strips * kStrip, end = std::min(rows.size(), begin + kStrip);
      for (size_t r = begin; r < end; ++r) {
        const AttentionRow& row = rows[r];
        if (row.visible > 0 && (row.batch != batch || row.kv_first != first || row.visible > keys)) {
          batch = row.batch, first = row.kv_first, keys = row.visible;
          for (size_t later = r + 1; later < end && rows[later].batch == batch && rows[later].kv_first == first; ++later)
            keys = std::max(keys, rows[later].visible);
          wide_k = widen(k, batch, first, keys, group), wide_v = widen(v, batch, first, keys, group);
        }
        for (int64_t h = group * share; h < (group + 1) * share; ++h) {
          const std::vector<double> wide_q = row.visible > 0 ? widen(q, row.batch, row.row, 1, h) : std::vector<double>();
          f(wide_q.data(), wide_k.data(), wide_v.data(), r, h);
        }
      }
    }
  };
  std::vector<std::thread> others(work < 1e6 ? 0 : std::max(1u, std::thread::hardware_concurrency()) - 1);
  for (auto& thread : others) thread = std::thread(run);
  run();
  for (auto& thread : others) thread.join();
}
}  // namespace detail

inline AttentionReference reference_attention(const AttentionProblem& p, const HostHeads& q, const HostHeads& k,
                                              const HostHeads& v) {
  AttentionReference ref{p.heads, p.dim, attention_rows(p), {}, {}, {}, {}};
  ref.lse.resize(ref.rows.size() * static_cast<size_t>(p.heads)), ref.lse_slack.resize(ref.lse.size());
  ref.value.resize(ref.lse.size() * static_cast<size_t>(p.dim)), ref.slack.resize(ref.value.size());
  detail::each_attention_row(
      p, q, k, v, ref.rows, [&](const double* query, const double* keys, const double* values, size_t r, int64_t h) {
        const size_t i = r * static_cast<size_t>(p.heads) + static_cast<size_t>(h), element = i * static_cast<size_t>(p.dim);
        detail::reference_row(p, query, keys, values, ref.rows[r].visible, &ref.value[element], &ref.slack[element],
                              ref.lse[i], ref.lse_slack[i]);
      });
  return ref;
}

// The largest error against `ref` of attention in three steps of the operands' precision: logits in fp32, their softmax
// rounded to the type, its product with V accumulated in fp32 and rounded.
inline double unfused_error(const AttentionProblem& p, const HostHeads& q, const HostHeads& k, const HostHeads& v,
                            const AttentionReference& ref) {
  std::vector<double> largest(ref.rows.size() * static_cast<size_t>(p.heads));
  detail::each_attention_row(
      p, q, k, v, ref.rows, [&](const double* query, const double* keys, const double* values, size_t r, int64_t h) {
        const int64_t visible = ref.rows[r].visible, dim = p.dim;
        const size_t i = r * static_cast<size_t>(p.heads) + static_cast<size_t>(h);
        std::vector<float> weight(static_cast<size_t>(visible));
        float most = -INFINITY, total = 0;
        for (int64_t j = 0; j < visible; ++j) {
          float sum = 0;
          for (int64_t d = 0; d < dim; ++d) sum += static_cast<float>(query[d] * keys[j * dim + d]);
          weight[static_cast<size_t>(j)] = sum * p.scale;
          most = std::max(most, sum * p.scale);
        }
        for (float& w : weight) w = std::exp(w - most), total += w;
        for (int64_t d = 0; d < dim && visible > 0; ++d) {
          float sum = 0;
          for (int64_t j = 0; j < visible; ++j)
            sum += static_cast<float>(round_to(p.type, weight[static_cast<size_t>(j)] / total) * values[j * dim + d]);
          const double error =
              std::fabs(round_to(p.type, sum) - ref.value[i * static_cast<size_t>(dim) + static_cast<size_t>(d)]);
          largest[i] = std::max(largest[i], error);
        }
      });
  return largest.empty() ? 0 : *std::max_element(largest.begin(), largest.end());
}

}  // namespace grout
