// The noise of the comparison itself: a kernel against itself, at about 1 ms and at about 10 us.
#include "compare/gemm_bench.cuh"

namespace grout::compare {
namespace {

Work build(const Case& description, const std::vector<Sample>* recorded) {
  const auto bench = std::make_shared<GemmBench>(description.shape);
  Work work = work_of(description, *bench, {"grout", "grout"}, {{"once", "again"}}, recorded);
  if (recorded == nullptr) work.policies[0].sample.name = "once", work.policies[1].sample.name = "again";
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
