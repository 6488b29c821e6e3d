// Seeded attention problems for both devices: every value of every factor occurs equally often, in random company. The
// verdict covers O and LSE, what lies around them, the guards and the operands.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common/check_attention.cuh"
#include "tests/kernels/attention_call.cuh"
#include "tests/kernels/seeded.cuh"

namespace grout::test {

// How one operand lies in memory.
struct OperandPlace {
  HeadOrder order = HeadOrder::bshd;
  HeadPads pads;
  int64_t offset = 0;
  bool reversed = false;    // negative strides
  bool repeated = false;    // one sequence for the whole batch: a stride of 0
  int64_t rows_behind = 0;  // K and V: rows that no sequence uses
};

struct AttentionCase {
  int64_t batch = 1, heads = 1, kv_heads = 1, q_length = 1, kv_length = 1, dim = 64;
  ElementType type = ElementType::bf16;
  bool causal = false;
  OperandPlace q, k, v, o;
  int64_t lse_offset = 0;
  bool lse = true;
  float scale = NAN;                           // NaN: 1 / sqrt(dim)
  std::vector<int32_t> q_lengths, kv_lengths;  // packed sequences; replace batch and lengths
  int32_t first_row = 0;                       // packed: rows in front of the first sequence
  int splits = 0;
  bool own_workspace = false;
  bool integers = false;
  float spread = 1;
  uint64_t seed = 1;
  int schedule = 0;    // simulated device: 0..9, five schedules late, then early
  int processors = 4;  // simulated device

  bool packed() const { return !q_lengths.empty(); }
};

inline AttentionProblem problem_of(const AttentionCase& x) {
  AttentionProblem p{x.type, x.batch, x.heads, x.kv_heads, x.q_length, x.kv_length, x.dim, x.scale, x.causal, {}, {}};
  if (std::isnan(x.scale)) p.scale = 1 / std::sqrt(static_cast<float>(x.dim));
  if (!x.packed()) return p;
  const auto pack = [&](const std::vector<int32_t>& lengths, std::vector<int32_t>& offsets, int64_t& most) {
    offsets.push_back(x.first_row);
    for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
    most = *std::max_element(lengths.begin(), lengths.end());
  };
  p.batch = static_cast<int64_t>(x.q_lengths.size());
  pack(x.q_lengths, p.q_offsets, p.q_length), pack(x.kv_lengths, p.kv_offsets, p.kv_length);
  return p;
}
inline StoredHeads stored_operand(const AttentionCase& x, const AttentionProblem& p, const OperandPlace& place, bool keys) {
  const auto& offsets = keys ? p.kv_offsets : p.q_offsets;
  const int64_t rows = (p.packed() ? offsets.back() : keys ? p.kv_length : p.q_length) + place.rows_behind;
  StoredHeads s = stored_heads(x.type, p.packed() ? 1 : p.batch, rows, keys ? p.kv_heads : p.heads, p.dim, place.order,
                               place.pads, place.offset);
  if (place.reversed) s = reversed(s);
  if (place.repeated) s.batch_stride = 0;
  return s;
}

inline std::string describe(const AttentionCase& x) {
  return "splits " + std::to_string(x.splits) + (x.own_workspace ? ", the caller's workspace" : "") + ", case seed " +
         std::to_string(x.seed) + ", schedule " + std::to_string(x.schedule) + ", " + std::to_string(x.processors) +
         " processors";
}

// A case's operands in host and device memory, its call and its verdict.
struct AttentionData {
  AttentionCase x;
  AttentionFixture f;
  std::unique_ptr<DeviceBuffer> workspace;

  explicit AttentionData(const AttentionCase& c, size_t guard = 256, uint16_t padding = 0xffff)
      : x(c), f(fixture(c, guard, padding)) {
    if (!x.own_workspace) return;
    AttentionArguments a = f.arguments<AttentionArguments>();
    a.splits = x.splits;
    size_t bytes = 0;
    const Status status = attention_workspace(a, bytes);
    EXPECT_TRUE(status) << describe() << ": " << status.message;
    workspace = std::make_unique<DeviceBuffer>(bytes, 0, kPoison, guard);
  }
  AttentionArguments call() const {
    AttentionArguments a = f.arguments<AttentionArguments>();
    a.splits = x.splits;
    if (workspace) a.workspace = workspace->data(), a.workspace_bytes = workspace->size();
    return a;
  }
  std::string describe() const { return grout::test::describe(x) + ": " + f.describe(); }
  AttentionComparison verify(bool exact = false) const {
    AttentionComparison result = f.verify(grout::test::describe(x), exact);
    if (!workspace) return result;
    if (const Status guards = workspace->check_guards(describe() + ": workspace"); !guards)
      result.message += "\n" + guards.message;
    return result;
  }
  // O and LSE with all that lies around them, bit for bit.
  std::vector<unsigned char> bits() const {
    const HostHeads o = f.output();
    const std::vector<float> lse = f.lse_output();
    std::vector<unsigned char> all(o.memory.size() * 2 + lse.size() * 4);
    if (!o.memory.empty()) std::memcpy(all.data(), o.memory.data(), o.memory.size() * 2);
    if (!lse.empty()) std::memcpy(all.data() + o.memory.size() * 2, lse.data(), lse.size() * 4);
    return all;
  }
  // Runs the call and fails the test where it is refused or wrong.
  bool right(AttentionChoice* choice = nullptr, bool exact = false) {
    if (const Status status = run_attention(call(), nullptr, choice); !status) {
      ADD_FAILURE() << describe() << ": " << status.message;
      return false;
    }
    const AttentionComparison result = verify(exact);
    EXPECT_TRUE(result.pass()) << result.message;
    return result.pass();
  }

 private:
  static AttentionFixture fixture(const AttentionCase& x, size_t guard, uint16_t padding) {
    const AttentionProblem p = problem_of(x);
    OperandPlace o = x.o, q = x.q;
    q.rows_behind = o.rows_behind = 0;  // LSE has as many rows as Q
    return AttentionFixture(p, stored_operand(x, p, q, false), stored_operand(x, p, x.k, true),
                            stored_operand(x, p, x.v, true), stored_operand(x, p, o, false), {x.integers, x.seed, x.spread},
                            x.lse, x.lse_offset, guard, padding);
  }
};

// ---- seeded cases ----

inline const std::vector<int64_t> kAttentionLengths = [] {
  std::vector<int64_t> lengths(34);
  std::iota(lengths.begin(), lengths.end(), 0);
  for (const int64_t more : {63, 64, 65, 127, 128, 129, 200}) lengths.push_back(more);
  return lengths;
}();
inline const std::vector<int64_t> kAttentionDims = {1, 8, 33, 64, 72, 96, 128, 129, 200, 256};
inline const std::vector<int64_t> kPackedLengths = {0, 1, 63, 64, 65, 127, 128, 129};  // empty, one, and around tiles
inline constexpr int64_t kHeads[][2] = {{1, 1}, {2, 2}, {2, 1}, {4, 2}, {3, 1}, {9, 3}, {4, 1}, {8, 1}};
inline const std::vector<float> kScales = {NAN, 1, 0, -0.5f, 0.125f, -1};
inline const std::vector<int> kSplits = {0, 1, 2, 3, 7};

// Multiply-adds of both products in tiles of 64, what a simulated run costs.
inline double tiled_work(const AttentionCase& x) {
  const auto up = [](int64_t extent) { return static_cast<double>((extent + 63) / 64 * 64); };
  const double per_head = up(x.dim) * static_cast<double>(x.heads) * 2;
  double work = 0;
  for (size_t b = 0; b < x.q_lengths.size(); ++b) work += up(x.q_lengths[b]) * up(x.kv_lengths[b]) * per_head;
  return x.packed() ? work : up(x.q_length) * up(x.kv_length) * static_cast<double>(x.batch) * per_head;
}

// Cases of more than `most` multiply-adds get fewer sequences and heads.
inline std::vector<AttentionCase> attention_cases(int count, uint64_t seed, double most = INFINITY,
                                                  const std::vector<int64_t>& lengths = kAttentionLengths) {
  std::mt19937_64 random(seed);
  const int extents = static_cast<int>(lengths.size()), packed_extents = static_cast<int>(kPackedLengths.size());
  Deck q(extents, random), k(extents, random), packed_q(packed_extents, random), packed_k(packed_extents, random),
      dim(static_cast<int>(kAttentionDims.size()), random), heads(static_cast<int>(std::size(kHeads)), random),
      batch(3, random), causal(2, random), type(2, random), scale(static_cast<int>(kScales.size()), random),
      splits(static_cast<int>(kSplits.size()), random), packed(8, random), lse(5, random), lse_offset(8, random),
      workspace(3, random), integers(3, random), spread(4, random), style(3, random), whole(8, random), schedule(10, random),
      processors(2, random), sequences(4, random), first_row(3, random);
  struct PlaceDecks {
    Deck order, inner, outer, gap, offset, reversed, repeated, behind;
    explicit PlaceDecks(std::mt19937_64& r)
        : order(2, r), inner(8, r), outer(8, r), gap(9, r), offset(8, r), reversed(6, r), repeated(6, r), behind(3, r) {}
  } place_q(random), place_k(random), place_v(random), place_o(random);
  std::vector<AttentionCase> cases;
  for (int i = 0; i < count; ++i) {
    AttentionCase x;
    x.q_length = lengths[static_cast<size_t>(q.deal())], x.kv_length = lengths[static_cast<size_t>(k.deal())];
    x.dim = kAttentionDims[static_cast<size_t>(dim.deal())];
    const int64_t* share = kHeads[heads.deal()];
    x.heads = share[0], x.kv_heads = share[1], x.batch = 1 + batch.deal();
    x.causal = causal.deal(), x.type = type.deal() ? ElementType::bf16 : ElementType::f16;
    x.scale = kScales[static_cast<size_t>(scale.deal())], x.splits = kSplits[static_cast<size_t>(splits.deal())];
    x.lse = lse.deal() != 0, x.lse_offset = lse_offset.deal(), x.own_workspace = workspace.deal() == 0;
    x.integers = integers.deal() == 0, x.spread = std::exp2(static_cast<float>(2 * spread.deal() - 2));
    x.seed = seed * 1000 + static_cast<uint64_t>(i), x.schedule = schedule.deal(), x.processors = processors.deal() ? 4 : 1;
    const bool whole_tiles = whole.deal() == 0, is_packed = packed.deal() < 3 && !whole_tiles,
               aligned = style.deal() == 0 || whole_tiles;
    if (whole_tiles) {
      const auto up = [](int64_t value, int64_t multiple) {
        return std::max<int64_t>(1, (value + multiple - 1) / multiple) * multiple;
      };
      x.q_length = up(x.q_length, 128), x.kv_length = up(x.kv_length, 64), x.dim = x.dim > 128 ? 256 : up(x.dim, 64);
    }
    const auto deal = [&](PlaceDecks& d, OperandPlace& place, bool written) {
      place = {d.order.deal() ? HeadOrder::bshd : HeadOrder::bhsd,
               {d.inner.deal(), d.outer.deal(), d.gap.deal()},
               d.offset.deal(),
               false,
               false,
               0};
      place.reversed = d.reversed.deal() == 0, place.repeated = d.repeated.deal() == 0 && !written && !is_packed;
      place.rows_behind = d.behind.deal();
      const auto up = [](int64_t value) { return (value + 7) / 8 * 8; };
      if (!aligned) return;
      place.pads = {up(x.dim + place.pads.inner) - x.dim, up(place.pads.outer), up(place.pads.batch)};
      place.offset = up(place.offset);
    };
    deal(place_q, x.q, false), deal(place_k, x.k, false), deal(place_v, x.v, false), deal(place_o, x.o, true);
    if (is_packed) {
      const int n = 1 + sequences.deal();
      for (int b = 0; b < n; ++b) {
        x.q_lengths.push_back(static_cast<int32_t>(kPackedLengths[static_cast<size_t>(packed_q.deal())]));
        x.kv_lengths.push_back(static_cast<int32_t>(kPackedLengths[static_cast<size_t>(packed_k.deal())]));
      }
      x.first_row = first_row.deal();
    }
    if (tiled_work(x) > most) {
      x.batch = 1;
      if (x.packed()) x.q_lengths.resize(std::min<size_t>(2, x.q_lengths.size())), x.kv_lengths.resize(x.q_lengths.size());
    }
    if (tiled_work(x) > most) x.heads /= x.kv_heads, x.kv_heads = 1;
    cases.push_back(x);
  }
  return cases;
}

inline void expect_attention_factors(FactorCounts& f, const std::vector<int64_t>& lengths = kAttentionLengths) {
  f.expect("Sq", lengths), f.expect("Sk", lengths), f.expect("D", kAttentionDims);
  f.expect("packed Sq", kPackedLengths), f.expect("packed Sk", kPackedLengths);
  f.expect<const char*>("type", {"bf16", "f16"});
  f.expect<const char*>("mask", {"causal", "full"});
  f.expect<int64_t>("heads to a key head", {1, 2, 3, 4, 8});
  f.expect<int64_t>("batch", {1, 2, 3});
  f.expect<int64_t>("splits", {0, 1, 2, 3, 7});
  f.expect<const char*>("scale", {"default", "1", "0", "-0.5", "0.125", "-1"});
  f.expect<const char*>("LSE", {"null", "wanted"});
  f.expect<const char*>("data", {"integers", "random"});
  f.expect<const char*>("workspace", {"own", "none"});
  f.expect<int64_t>("offset LSE", {0, 1, 2, 3, 4, 5, 6, 7});
  for (const std::string operand : {"Q", "K", "V", "O"}) {
    f.expect<int64_t>("offset " + operand, {0, 1, 2, 3, 4, 5, 6, 7});
    f.expect<int64_t>("inner pad " + operand, {0, 1, 2, 3, 4, 5, 6, 7});
    f.expect<const char*>("storage " + operand, {"bshd", "bhsd", "bshd reversed", "bhsd reversed"});
  }
  for (const std::string operand : {"Q", "K", "V"}) f.expect<const char*>("batch of " + operand, {"distinct", "repeated"});
  f.expect<const char*>("path", {"aligned", "bounded", "realign"});
}
inline void count_attention_factors(FactorCounts& f, const AttentionCase& x, const AttentionChoice& choice) {
  if (!x.packed()) f.count("Sq", x.q_length), f.count("Sk", x.kv_length), f.count("batch", x.batch);
  for (const int32_t length : x.q_lengths) f.count("packed Sq", int64_t{length});
  for (const int32_t length : x.kv_lengths) f.count("packed Sk", int64_t{length});
  f.count("D", x.dim), f.count("type", element_name(x.type)), f.count("mask", x.causal ? "causal" : "full");
  f.count("heads to a key head", x.heads / x.kv_heads), f.count("splits", int64_t{x.splits});
  char scale[32];
  std::snprintf(scale, sizeof scale, "%g", x.scale);
  f.count("scale", std::isnan(x.scale) ? std::string("default") : std::string(scale));
  f.count("LSE", x.lse ? "wanted" : "null"), f.count("data", x.integers ? "integers" : "random");
  f.count("workspace", x.own_workspace ? "own" : "none"), f.count("offset LSE", x.lse_offset);
  for (const auto& [name, place] :
       {std::pair<std::string, const OperandPlace&>{"Q", x.q}, {"K", x.k}, {"V", x.v}, {"O", x.o}}) {
    f.count("offset " + name, place.offset), f.count("inner pad " + name, place.pads.inner);
    f.count("storage " + name, std::string(grout::name(place.order)) + (place.reversed ? " reversed" : ""));
    if (name != "O") f.count("batch of " + name, place.repeated ? "repeated" : "distinct");
  }
  if (std::string(choice.kernel) != "none") f.count("path", choice.path);
}

}  // namespace grout::test
