// How accurate the results are: at most twice the error of attention in three steps of the same precision.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/sim/attention_fixture.h"

namespace grout::test {
namespace {

TEST_F(AttentionSlow, AtMostTwiceTheErrorOfThreeSteps) {
  int compared = 0;
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const float spread : {1.f, 4.f, 16.f, 64.f})
      for (const auto& [queries, keys, dim] :
           {std::tuple<int64_t, int64_t, int64_t>{64, 200, 64}, {40, 129, 128}, {16, 512, 33}, {100, 100, 256}})
        for (const bool causal : {false, true})
          for (const int splits : {0, 3}) {
            AttentionCase x;
            x.q_length = queries, x.kv_length = keys, x.dim = dim, x.type = type, x.spread = spread, x.causal = causal,
            x.splits = splits;
            x.seed = static_cast<uint64_t>(++compared), x.schedule = compared % 10;
            use(x);
            AttentionData data(x, guard());
            const Status status = run_attention(data.call(), nullptr);
            ASSERT_TRUE(status) << status.message;
            const AttentionReference ref = data.f.reference();
            const AttentionComparison result = data.f.verify(ref, describe(x));
            EXPECT_TRUE(result.pass()) << result.message;
            double largest = 0;
            for (const double value : ref.value) largest = std::max(largest, std::fabs(value));
            const double unfused = unfused_error(data.f.problem, data.f.q, data.f.k, data.f.v, ref);
            const Status accurate = compare_with_unfused(result.max_error, unfused, type, largest, data.describe());
            EXPECT_TRUE(accurate) << accurate.message;
            if (dim == 128 && splits == 0 && !causal)
              std::printf("%s spread %g: error %.3g (%.2f of its bound), in three steps %.3g; LSE %.2f of its bound\n",
                          element_name(type), spread, result.max_error, result.max_ratio, unfused, result.lse_ratio);
          }
  EXPECT_EQ(compared, 128);
}

}  // namespace
}  // namespace grout::test
