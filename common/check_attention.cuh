// One attention problem for programs and tests on both devices: operands in host and device memory, and the verdict on a
// result.
//
// NaN lies around every logical element of Q, K and V and in guard bands, O and LSE start as NaN; every byte of them outside
// the logical result must be untouched. The reference and the bounds: common/attention_reference.cuh.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "common/attention_reference.cuh"
#include "common/check.cuh"

namespace grout {

// max_error, max_ratio and bound are of O; wrong and touched count elements of both. elements: of O.
struct AttentionComparison : Comparison {
  double lse_error = 0, lse_ratio = 0;
};

// The verdict on one LSE.
GROUT_HD ElementError lse_element_error(double value, double slack, float got) {
  if (value > -INFINITY) return element_error(ElementType::f32, value, slack, got);
  return {got == -INFINITY ? 0.0 : INFINITY, 0, got == -INFINITY ? 0.0 : INFINITY, got == -INFINITY};
}

// LSE is [batch][heads][rows], of packed sequences [heads][rows of Q in all].
GROUT_HD int64_t lse_index(int64_t heads, int64_t rows, int64_t batch, int64_t row, int64_t head) {
  return (batch * heads + head) * rows + row;
}

// `got` and `got_lse` are what was downloaded, `before` the same memory before the launch; LSE empty: not wanted. exact: O
// must be the reference rounded once. `context` prints every argument.
inline AttentionComparison compare_attention(const AttentionReference& ref, const HostHeads& got, const HostHeads& before,
                                             const std::vector<float>& got_lse, const std::vector<float>& before_lse,
                                             bool exact, const std::string& context) {
  constexpr int kShown = 8;
  AttentionComparison result;
  char text[256];
  const ElementType type = got.layout.type;
  std::vector<bool> logical(got.memory.size()), logical_lse(got_lse.size());
  const int64_t lse_rows = got.layout.rows;
  for (size_t r = 0; r < ref.rows.size(); ++r)
    for (int64_t h = 0; h < ref.heads; ++h) {
      const AttentionRow& row = ref.rows[r];
      const size_t i = r * static_cast<size_t>(ref.heads) + static_cast<size_t>(h);
      for (int64_t d = 0; d < ref.dim; ++d, ++result.elements) {
        const size_t element = i * static_cast<size_t>(ref.dim) + static_cast<size_t>(d);
        const double value = ref.value[element], slack = exact ? 0 : ref.slack[element];
        logical[got.place(row.batch, row.row, h, d)] = true;
        const ElementError e = element_error(type, value, slack, got.get(row.batch, row.row, h, d));
        if (std::isnan(e.error) || e.error > result.max_error) result.max_error = e.error;
        if (e.ratio > result.max_ratio || result.elements == 0) result.max_ratio = e.ratio, result.bound = e.bound;
        if (e.right || ++result.wrong > kShown) continue;
        std::snprintf(text, sizeof text,
                      "\n  O[batch %lld, row %lld, head %lld, %lld] got %.9g, expected %.9g, accepted %.9g to %.9g",
                      static_cast<long long>(row.batch), static_cast<long long>(row.row), static_cast<long long>(h),
                      static_cast<long long>(d), got.get(row.batch, row.row, h, d), value, round_to(type, value - slack),
                      round_to(type, value + slack));
        result.message += text;
      }
      if (got_lse.empty()) continue;
      const size_t place = static_cast<size_t>(lse_index(ref.heads, lse_rows, row.batch, row.row, h));
      logical_lse[place] = true;
      const ElementError e = lse_element_error(ref.lse[i], ref.lse_slack[i], got_lse[place]);
      if (std::isnan(e.error) || e.error > result.lse_error) result.lse_error = e.error;
      result.lse_ratio = std::max(result.lse_ratio, e.ratio);
      if (e.right || ++result.wrong > kShown) continue;
      std::snprintf(text, sizeof text,
                    "\n  LSE[batch %lld, head %lld, row %lld] got %.9g, expected %.9g, accepted off by %.3g",
                    static_cast<long long>(row.batch), static_cast<long long>(h), static_cast<long long>(row.row),
                    got_lse[place], ref.lse[i], ref.lse_slack[i]);
      result.message += text;
    }
  for (size_t i = 0; i < got.memory.size(); ++i) {
    if (logical[i] || got.memory[i] == before.memory[i] || ++result.touched > kShown) continue;
    std::snprintf(text, sizeof text, "\n  O: %04x, element %lld from the base and of no row, became %04x", before.memory[i],
                  static_cast<long long>(i) + got.layout.low(), got.memory[i]);
    result.message += text;
  }
  for (size_t i = 0; i < got_lse.size(); ++i) {
    if (logical_lse[i] || std::memcmp(&got_lse[i], &before_lse[i], sizeof(float)) == 0 || ++result.touched > kShown)
      continue;
    std::snprintf(text, sizeof text, "\n  LSE: element %zu, of no row, became %.9g", i, got_lse[i]);
    result.message += text;
  }
  if (!result.message.empty())
    result.message = context + ": " + std::to_string(result.wrong) + " of " + std::to_string(result.elements) +
                     " elements wrong, " + std::to_string(result.touched) + " others changed" + result.message;
  return result;
}

// What fills Q, K and V. Uniform in [-1, 1), Q times `spread`; or integers, |Q|, |K| <= 2 and |V| <= 8.
struct AttentionFill {
  bool integers = false;
  uint64_t seed = 1;
  float spread = 1;
};

struct AttentionFixture {
  AttentionProblem problem;
  AttentionFill fill;
  bool wants_lse;
  HostHeads q, k, v, o;    // o: what the memory holds before the call
  std::vector<float> lse;  // likewise; empty: not wanted
  DeviceBuffer device_q, device_k, device_v, device_o, device_lse, device_q_offsets, device_kv_offsets;

  // Packed: the operands are one batch, rows of all sequences. K and V may have more rows than sequences use: those, and all
  // else that belongs to no sequence, hold `padding`. Guard 0 leaves out-of-bounds accesses to AddressSanitizer. lse_offset
  // in elements.
  AttentionFixture(const AttentionProblem& p, const StoredHeads& q_, const StoredHeads& k_, const StoredHeads& v_,
                   const StoredHeads& o_, const AttentionFill& f, bool lse_wanted = true, int64_t lse_offset = 0,
                   size_t guard = 256, uint16_t padding = 0xffff)
      : problem(p),
        fill(f),
        wants_lse(lse_wanted),
        q(q_, padding),
        k(k_, padding),
        v(v_, padding),
        o(o_, kOutputPadding << 8 | kOutputPadding),
        device_q(device_memory(q, guard)),
        device_k(device_memory(k, guard)),
        device_v(device_memory(v, guard)),
        device_o(device_memory(o, guard, kOutputPadding)),
        device_lse(lse_bytes(), static_cast<size_t>(lse_offset) * sizeof(float), kPoison, guard),
        device_q_offsets(p.q_offsets.size() * sizeof(int32_t), 4, kPoison, guard),
        device_kv_offsets(p.kv_offsets.size() * sizeof(int32_t), 8, kPoison, guard) {
    lse.resize(lse_bytes() / sizeof(float));
    std::memset(lse.data(), kPoison, lse_bytes());
    for (int64_t b = 0; b < p.batch; ++b) {
      const SequenceRows s = sequence_rows(p, b);
      fill_rows(q, s.batch, s.q_first, s.q_length, 0), fill_rows(o, s.batch, s.q_first, s.q_length, 3);
      fill_rows(k, s.batch, s.kv_first, s.kv_length, 1), fill_rows(v, s.batch, s.kv_first, s.kv_length, 2);
    }
    device_q_offsets.upload(p.q_offsets.data()), device_kv_offsets.upload(p.kv_offsets.data());
    upload();
  }

  // Everything as the host has it: after changes there, or for a second run.
  void upload() {
    device_q.upload(q.memory.data()), device_k.upload(k.memory.data()), device_v.upload(v.memory.data());
    reset();
  }
  void reset() { device_o.upload(o.memory.data()), device_lse.upload(lse.data()); }

  void* base(const DeviceBuffer& buffer, const HostHeads& host) const { return buffer.as<uint16_t>() - host.layout.low(); }
  // The call, as grout::AttentionArguments (which common/ does not know).
  template <class Arguments>
  Arguments arguments() const {
    Arguments a;
    a.batch = problem.batch, a.heads = problem.heads, a.kv_heads = problem.kv_heads;
    a.q_length = problem.q_length, a.kv_length = problem.kv_length, a.dim = problem.dim, a.type = problem.type;
    a.q = base(device_q, q), a.k = base(device_k, k), a.v = base(device_v, v), a.o = base(device_o, o);
    a.lse = wants_lse ? device_lse.as<float>() : nullptr;
    const auto strides = [](const HostHeads& h) {
      return decltype(a.q_stride){h.layout.batch_stride, h.layout.row_stride, h.layout.head_stride};
    };
    a.q_stride = strides(q), a.k_stride = strides(k), a.v_stride = strides(v), a.o_stride = strides(o);
    a.scale = problem.scale, a.causal = problem.causal;
    if (problem.packed()) {
      a.q_offsets = device_q_offsets.as<int32_t>(), a.kv_offsets = device_kv_offsets.as<int32_t>();
      a.q_rows = q.layout.rows;
    }
    return a;
  }

  HostHeads output() const {
    HostHeads got = o;
    device_o.download(got.memory.data());
    return got;
  }
  std::vector<float> lse_output() const {
    std::vector<float> got(lse.size());
    device_lse.download(got.data());
    return got;
  }
  AttentionReference reference() const { return reference_attention(problem, q, k, v); }

  std::string describe() const {
    char text[120];
    std::snprintf(text, sizeof text, "%s seed %llu spread %g%s", fill.integers ? "integers" : "random",
                  static_cast<unsigned long long>(fill.seed), fill.spread, wants_lse ? "" : ", no LSE");
    return grout::describe(problem) + ", " + text + ", Q " + grout::describe(q.layout) + ", K " + grout::describe(k.layout) +
           ", V " + grout::describe(v.layout) + ", O " + grout::describe(o.layout);
  }
  // Waits for the device, then compares all of O and LSE, what lies around them, and the unchanged operands.
  AttentionComparison verify(const std::string& context, bool exact = false) const {
    return verify(reference(), context, exact);
  }
  AttentionComparison verify(const AttentionReference& ref, const std::string& context, bool exact = false) const {
    const std::string all = context + ": " + describe();
    AttentionComparison result = compare_attention(ref, output(), o, lse_output(), lse, exact, all);
    check_memory(result, all);
    return result;
  }
  // The guards and the operands only.
  void check_memory(Comparison& result, const std::string& context) const {
    for (const auto& [name, buffer] :
         {std::pair{"Q", &device_q}, std::pair{"K", &device_k}, std::pair{"V", &device_v}, std::pair{"O", &device_o},
          std::pair{"LSE", &device_lse}, std::pair{"q offsets", &device_q_offsets},
          std::pair{"kv offsets", &device_kv_offsets}})
      if (const Status guards = buffer->check_guards(context + ": " + name); !guards)
        result.message += "\n" + guards.message;
    for (const auto& [name, buffer, host] :
         {std::tuple{"Q", &device_q, &q}, std::tuple{"K", &device_k, &k}, std::tuple{"V", &device_v, &v}}) {
      std::vector<uint16_t> now(host->memory.size());
      buffer->download(now.data());
      if (now != host->memory) result.message += "\n" + context + ": operand " + name + " was written";
    }
    for (const auto& [name, buffer, host] : {std::tuple{"q", &device_q_offsets, &problem.q_offsets},
                                             std::tuple{"kv", &device_kv_offsets, &problem.kv_offsets}}) {
      std::vector<int32_t> now(host->size());
      buffer->download(now.data());
      if (now != *host) result.message += "\n" + context + ": the " + name + " offsets were written";
    }
  }

 private:
  size_t lse_bytes() const {
    return wants_lse ? static_cast<size_t>(q.layout.batch * q.layout.rows * problem.heads) * sizeof(float) : 0;
  }
  // So that the base, not the lowest element, lies `offset` elements behind a 256-byte boundary.
  static DeviceBuffer device_memory(const HostHeads& h, size_t guard, unsigned char guard_byte = kPoison) {
    const int64_t misalignment = (h.layout.offset + h.layout.low()) * 2;
    return DeviceBuffer(h.memory.size() * 2, static_cast<size_t>((misalignment % 256 + 256) % 256), guard_byte, guard);
  }
  // which: 0 to 2 are Q, K and V; 3: NaN. By several threads where it is much.
  void fill_rows(HostHeads& into, int64_t batch, int64_t first, int64_t rows, int which) const {
    constexpr int64_t kRows = 16;  // a thread takes at once
    const StoredHeads& s = into.layout;
    const Fill f{fill.integers, fill.seed * 3 + static_cast<uint64_t>(which), which == 2 ? 8 : 2};
    std::atomic<int64_t> next{first};
    const auto work = [&] {
      for (int64_t begin; (begin = next.fetch_add(kRows)) < first + rows;)
        for (int64_t row = begin; row < std::min(begin + kRows, first + rows); ++row)
          for (int64_t h = 0; h < s.heads; ++h) {
            const int64_t element = ((batch * s.rows + row) * s.heads + h) * s.dim;
            for (int64_t d = 0; d < s.dim; ++d)
              into.set(batch, row, h, d,
                       which == 3 ? NAN : fill_value(f, element + d) * (which == 0 && !fill.integers ? fill.spread : 1));
          }
    };
    const bool small = rows * s.heads * s.dim < 1'000'000;
    std::vector<std::thread> others(small ? 0 : std::max(1u, std::thread::hardware_concurrency()) - 1);
    for (auto& thread : others) thread = std::thread(work);
    work();
    for (auto& thread : others) thread.join();
  }
};

// The result's largest error is at most twice that of attention in three steps, and a unit in the last place of the largest
// output.
inline Status compare_with_unfused(double error, double unfused, ElementType type, double largest,
                                   const std::string& context) {
  const double unit =
      std::exp2(std::floor(std::log2(std::max(largest, 0x1p-14)))) * (type == ElementType::f16 ? 0x1p-10 : 0x1p-7);
  if (error <= 2 * unfused + unit) return {};
  char text[160];
  std::snprintf(text, sizeof text,
                ": the largest error is %.3g; unfused attention in this precision has %.3g, outputs up to %.3g", error,
                unfused, largest);
  return {Code::wrong_result, context + text};
}

}  // namespace grout
