// The noise of the comparison itself: a kernel against itself, at about 1 ms and at about 10 us.
#include "compare/gemm_bench.cuh"

namespace grout::compare {
namespace {

Work build(const Case& description, const std::vector<Sample>* recorded) {
  const auto bench = std::make_shared<GemmBench>(description.shape);
  Work work;
  work.header = description;
  work.header.flops = bench->flops(), work.header.bytes = bench->bytes();
  work.header.pairs = {{"once", "again"}};
  for (const char* name : {"once", "again"}) {
    const Sample* earlier = nullptr;
    for (size_t i = 0; recorded != nullptr && i < recorded->size(); ++i)
      if ((*recorded)[i].name == name) earlier = &(*recorded)[i];
    work.policies.push_back(bench->policy("grout", earlier != nullptr ? &earlier->requested : nullptr));
    work.policies.back().sample.name = name;
  }
  work.policies.push_back(compute_ceiling(bench->type()));
  work.policies.push_back(copy_ceiling());
  return work;
}

}  // namespace

Suite self_suite() {
  Suite suite{"self", {}, build};
  for (const bool cold : {false, true})
    for (const auto& [about, m, n, k, type] : {std::tuple{"1 ms", "3072", "3072", "3072", "f32"},
                                               {"1 ms at the power limit", "8192", "8192", "4096", "bf16"},
                                               {"10 us", "1024", "1024", "1024", "bf16"}}) {
      Case c;
      c.suite = "self", c.name = std::string("about ") + about;
      c.shape = {{"m", m}, {"n", n}, {"k", k}, {"layout", "nn"}, {"type", type}, {"seed", "1"}};
      c.protocol = headline(cold);
      suite.cases.push_back(c);
    }
  return suite;
}

}  // namespace grout::compare
