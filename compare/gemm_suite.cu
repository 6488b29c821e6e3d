// GEMM: the current kernels, an earlier revision's, and cuBLAS, on the same buffers.
//
// aligned    full tiles: the aligned path, the bounded path, the earlier revision, cuBLAS
// ragged     compact storage, whose pitches are odd, against storage padded to multiples of 16 bytes; what padding costs, timed
//            apart; the aligned neighbour, the next multiples of 64
// batched    fp32, the lesson's kernel with and without batched copies, and nothing else changed
#include <random>

#include "compare/gemm_bench.cuh"

namespace grout::compare {
namespace {

Case gemm_case(const std::string& kind, int64_t m, int64_t n, int64_t k, const std::string& layout, ElementType type,
               const Protocol& protocol, bool launched = false, int64_t seed = 1) {
  const auto text = [](int64_t value) { return std::to_string(value); };
  Case c;
  c.suite = "gemm";
  c.name = text(m) + "x" + text(n) + "x" + text(k) + " " + layout + " " + element_name(type) + " " + kind +
           (launched ? " launched" : "");
  c.shape = {{"kind", kind},       {"m", text(m)},
             {"n", text(n)},       {"k", text(k)},
             {"layout", layout},   {"type", element_name(type)},
             {"seed", text(seed)}, {"runs", launched ? "launched" : "graph if short"}};
  c.protocol = protocol;
  return c;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const std::vector<std::string> layouts = {"nn", "nt", "tn", "tt"};
  const auto each_layout = [&](const std::string& kind, int64_t m, int64_t n, int64_t k, ElementType type, bool main) {
    for (const std::string& layout : layouts)
      cases.push_back(gemm_case(kind, m, n, k, layout, type, main && layout == "nn" ? headline(false) : sweep(false)));
  };
  for (const int64_t n : {8192, 4096, 2048, 1024}) each_layout("aligned", n, n, n, ElementType::bf16, true);
  for (const int64_t n : {8192, 4096}) {
    each_layout("ragged", n - 1, n, n, ElementType::bf16, false);
    each_layout("ragged", n, n - 1, n, ElementType::bf16, false);
    each_layout("ragged", n, n, n - 1, ElementType::bf16, false);
  }
  for (const int64_t n : {8191, 4095, 2047, 1023}) each_layout("ragged", n, n, n, ElementType::bf16, true);
  each_layout("ragged", 65, 97, 73, ElementType::bf16, true);

  for (const int64_t n : {1024, 2048, 4096}) each_layout("aligned", n, n, n, ElementType::f32, true);
  each_layout("ragged", 4095, 4095, 4095, ElementType::f32, true);
  using Shape = std::array<int64_t, 3>;
  for (const auto& [m, n, k] : {Shape{32, 32, 32}, {128, 128, 128}, {127, 193, 61}, {513, 257, 129}}) {
    each_layout("ragged", m, n, k, ElementType::f32, true);
    cases.push_back(gemm_case("ragged", m, n, k, "nn", ElementType::f32, headline(false), true));
  }
  for (const auto& [m, n, k] : {Shape{32, 32, 32},
                                {128, 128, 128},
                                {512, 512, 512},
                                {1024, 1024, 1024},
                                {256, 1024, 128},
                                {1024, 128, 256},
                                {127, 193, 61},
                                {513, 257, 129}})
    cases.push_back(gemm_case("batched", m, n, k, "nn", ElementType::f32, headline(false)));

  // On a cold L2: what a call meets when something else has run in between.
  for (const int64_t n : {8192, 1024})
    cases.push_back(gemm_case("aligned", n, n, n, "nn", ElementType::bf16, headline(true)));
  for (const int64_t n : {8191, 1023})
    cases.push_back(gemm_case("ragged", n, n, n, "nn", ElementType::bf16, headline(true)));
  cases.push_back(gemm_case("aligned", 4096, 4096, 4096, "nn", ElementType::f32, headline(true)));

  // Drawn at random, every octave of every extent alike; the seed is the name of an earlier commit, bf2fa34, read as a number.
  std::mt19937_64 random(0xbf2fa34);
  const auto extent = [&] {
    return static_cast<int64_t>(std::exp2(std::uniform_real_distribution<double>(5, 12.5)(random)));
  };
  for (const ElementType type : {ElementType::bf16, ElementType::f32}) {
    for (int i = 0; i < (type == ElementType::bf16 ? 50 : 20); ++i) {
      const int64_t m = extent(), n = extent(), k = extent();
      for (const std::string& layout : layouts)
        cases.push_back(gemm_case("random", m, n, k, layout, type, sweep(false)));
    }
  }
  return cases;
}

std::vector<std::string> policies_of(const GemmBench& bench, const std::string& kind, bool cold) {
  if (cold) return {"grout", "cublasGemmEx", "cublasLt"};
  if (kind == "batched") return {"batch 1", "batch 4", "cublasGemmEx", "cublasLt"};
  std::vector<std::string> names = {"grout", "cublasGemmEx", "cublasLt"};
  const bool tensor = bench.type() != ElementType::f32;
  if (kind == "aligned" && tensor) names.insert(names.begin() + 1, {"grout bounded", "pinned"});
  if (kind == "ragged" && tensor) {
    if (!bench.is_padded())
      names.insert(names.end(), {"grout padded", "cublasGemmEx padded", "cublasLt padded", "padding of A and B",
                                 "unpadding of D", "transfer of A and B"});
    names.push_back("grout neighbour");
  }
  return names;
}

std::vector<Pair> pairs_of(const std::vector<std::string>& names, const std::string& kind) {
  const auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  std::vector<Pair> pairs;
  const auto pair = [&](const char* base, const char* candidate) {
    if (has(base) && has(candidate)) pairs.push_back({base, candidate});
  };
  if (kind == "batched") {
    pair("batch 1", "batch 4");
    pair("cublasGemmEx", "batch 4");
  }
  pair("cublasGemmEx", "grout"), pair("cublasLt", "grout");
  pair("pinned", "grout"), pair("grout bounded", "grout");
  pair("grout padded", "grout"), pair("cublasGemmEx padded", "grout"), pair("cublasLt padded", "grout");
  pair("grout neighbour", "grout");
  return pairs;
}

Work build(const Case& description, const std::vector<Sample>* recorded) {
  const auto bench = std::make_shared<GemmBench>(description.shape);
  const std::string& kind = setting(description.shape, "kind");
  const std::vector<std::string> names = policies_of(*bench, kind, description.protocol.cold);
  Work work = work_of(description, *bench, names, pairs_of(names, kind), recorded);
  work.graphs = setting(description.shape, "runs") != "launched";
  return work;
}

}  // namespace

Suite gemm_suite() {
  return {"gemm", all_cases(), build};
}

}  // namespace grout::compare
