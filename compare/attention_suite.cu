// Attention: our kernels and attention in three steps with cuBLAS, on the same buffers. Peers in one kernel come through
// PyTorch: tests/tools/torch_peers.py has most of these cases, under the same names.
//
// table      as many tokens and as much work in a row of each length; heads of 128, 64 and 256 elements
// ragged     lengths, and rows, off the tiles: the aligned neighbour; the same operands at odd addresses and pitches
// decode     one query against a cache of keys: a plain read of the same K and V; keys in one part
// packed     sequences of different lengths, one behind the other
#include <algorithm>

#include "compare/attention_bench.cuh"

namespace grout::compare {
namespace {

struct Shape {
  int64_t batch, heads, kv_heads, q, k, dim;
  bool causal = false;
  std::vector<int64_t> lengths = {};
};

std::string text(int64_t value) {
  return std::to_string(value);
}

Case attention_case(const std::string& kind, const Shape& s, const Protocol& protocol) {
  std::string lengths;
  for (const int64_t length : s.lengths) lengths += (lengths.empty() ? "" : ",") + text(length);
  const std::string mask = s.causal ? "causal" : "full";
  Case c;
  c.suite = "attention";
  c.name = text(s.batch) + "x" + text(s.heads) + (s.heads == s.kv_heads ? "" : "/" + text(s.kv_heads)) + "x" +
           text(s.q) + (s.q == s.k ? "" : ":" + text(s.k)) + "x" + text(s.dim) + " bf16 " +
           (kind == "decode" ? kind : mask) + (kind == "packed" ? " packed" : "");
  c.shape = {{"kind", kind},           {"batch", text(s.batch)},
             {"heads", text(s.heads)}, {"kv_heads", text(s.kv_heads)},
             {"q", text(s.q)},         {"k", text(s.k)},
             {"dim", text(s.dim)},     {"mask", mask},
             {"type", "bf16"},         {"seed", "1"}};
  if (!lengths.empty()) c.shape.push_back({"lengths", lengths});
  c.protocol = protocol;
  return c;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  struct Row {
    int64_t heads, dim;
  };
  for (const Row& row : {Row{16, 128}, {32, 64}, {8, 256}})
    for (const int64_t batch : {16, 8, 4, 2, 1})
      for (const bool causal : {false, true})
        cases.push_back(attention_case("table",
                                       {batch, row.heads, row.heads, 16384 / batch, 16384 / batch, row.dim, causal},
                                       row.dim == 128 || batch == 4 ? headline(false) : sweep(false)));
  for (const bool causal : {false, true}) {
    for (const int64_t length : {4095, 4097, 1000})
      cases.push_back(attention_case("ragged", {4, 16, 16, length, length, 128, causal}, headline(false)));
    for (const Row& row : {Row{32, 64}, {8, 256}})
      cases.push_back(attention_case("ragged", {4, row.heads, row.heads, 1000, 1000, row.dim, causal}, sweep(false)));
    for (const int64_t dim : {72, 96, 127})
      cases.push_back(attention_case("ragged", {4, 16, 16, 4096, 4096, dim, causal}, sweep(false)));
    cases.push_back(attention_case("ragged", {4, 32, 8, 4000, 4000, 128, causal}, sweep(false)));  // grouped queries
    cases.push_back(
        attention_case("ragged", {2, 16, 16, 1000, 5000, 128, causal}, sweep(false)));  // more keys than queries
    cases.push_back(attention_case("ragged", {1, 4, 4, 65, 97, 72, causal}, sweep(false)));
  }
  for (const bool cold : {false, true})
    for (const int64_t batch : {1, 16})
      for (const int64_t cache : {4096, 16384, 65536}) {
        if (batch * cache > 262144) continue;  // more memory on the host than the case is worth
        cases.push_back(attention_case("decode", {batch, 32, 8, 1, cache, 128}, headline(cold)));
        if (batch * cache <= 65536)
          cases.push_back(attention_case("decode", {batch, 32, 8, 1, cache - 1, 128}, sweep(cold)));
      }
  Shape packed{16, 16, 16, 0, 0, 128};
  for (int64_t b = 0; b < packed.batch; ++b)
    packed.lengths.push_back(64 + (b * 2531 + 977) % 4033);  // strewn over 64 to 4096
  packed.q = packed.k = *std::max_element(packed.lengths.begin(), packed.lengths.end());
  for (const bool causal : {false, true}) {
    packed.causal = causal;
    cases.push_back(attention_case("packed", packed, sweep(false)));
    // On a cold L2: what a call meets when something else has run in between.
    cases.push_back(attention_case("table", {4, 16, 16, 4096, 4096, 128, causal}, headline(true)));
    cases.push_back(attention_case("ragged", {4, 16, 16, 4095, 4095, 128, causal}, headline(true)));
  }
  return cases;
}

std::vector<std::string> policies_of(const std::string& kind, bool cold) {
  if (kind == "decode") return {"grout", "grout unsplit", "grout misaligned", "read of K and V"};
  if (kind == "packed") return {"grout", "grout neighbour"};
  std::vector<std::string> names = {"grout"};
  if (kind == "ragged") names.push_back("grout neighbour");
  if (!cold) names.push_back("grout misaligned");
  names.push_back("unfused cublas");
  return names;
}

// Every other policy against the first.
std::vector<Pair> pairs_of(const std::vector<std::string>& names) {
  std::vector<Pair> pairs;
  for (const std::string& name : names)
    if (name == "grout misaligned")
      pairs.push_back({"grout", name});
    else if (name != "grout")
      pairs.push_back({name, "grout"});
  return pairs;
}

Work build(const Case& description, const std::vector<Sample>* recorded) {
  const auto bench = std::make_shared<AttentionBench>(description.shape);
  const std::vector<std::string> names = policies_of(setting(description.shape, "kind"), description.protocol.cold);
  return work_of(description, *bench, names, pairs_of(names), recorded);
}

}  // namespace

Suite attention_suite() {
  return {"attention", all_cases(), build};
}

}  // namespace grout::compare
