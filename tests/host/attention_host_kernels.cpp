// Which of its kernels attention takes, on devices of every size of shared memory: each has one for every problem.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>

#include "attention/attention.cuh"

namespace grout {
namespace {

constexpr struct {
  const char* name;
  int sms;
  size_t shared_kib;
} kDevices[] = {{"sm_80", 108, 163}, {"sm_86", 84, 99}, {"sm_90", 132, 227}, {"sm_100", 148, 227}, {"sm_120", 170, 99}};

AttentionArguments problem(int64_t queries, int64_t dim, int64_t pitch) {
  AttentionArguments a;
  a.heads = 8, a.kv_heads = 2, a.q_length = queries, a.kv_length = 4096, a.dim = dim;
  a.q_stride = a.o_stride = {0, 8 * pitch, pitch}, a.k_stride = a.v_stride = {0, 2 * pitch, pitch};
  return a;
}

template <class T>
void expect_a_kernel_everywhere() {
  std::set<std::tuple<bool, int, int, int, bool>> taken;
  for (const auto& [name, sms, kib] : kDevices) {
    DeviceInfo device;
    device.major = 8, device.sms = sms, device.shared_per_block = kib * 1024, device.l2_bytes = 40 << 20;
    for (const int64_t queries : {1, 16, 17, 4096})
      for (int64_t dim = 1; dim <= 256; ++dim)
        for (const int64_t pitch : {(dim + 7) / 8 * 8, (dim + 7) / 8 * 8 + 1}) {
          const AttentionArguments a = problem(queries, dim, pitch);
          detail::AttentionPlan plan;
          const AttentionVariant<T>* v = detail::attention_choose<T>(a, device, plan);
          ASSERT_NE(v, nullptr) << name << " dim " << dim << ", " << queries << " queries, pitch " << pitch;
          EXPECT_LE(v->shared_bytes, device.shared_per_block);
          EXPECT_GE(v->tile_dim, dim);
          EXPECT_LT(v->tile_dim, dim <= 64 ? 128 : dim <= 128 ? 256 : 512);
          EXPECT_EQ(plan.aligned, pitch % 8 == 0);
          EXPECT_EQ(v->path == AttentionPath::aligned, plan.aligned);
          EXPECT_EQ(plan.pack, v->short_queries ? 4 : 1);
          EXPECT_EQ(plan.units * plan.pack, 8);
          EXPECT_GE(int64_t{plan.tiles} * v->tile_q, queries * plan.pack);
          EXPECT_EQ(plan.blocks, plan.units * plan.tiles * plan.splits);
          if (kib == 227) {
            EXPECT_EQ(v->short_queries, queries * 4 <= detail::kShortAttentionRows);
          }
          taken.emplace(v->path == AttentionPath::aligned, v->tile_dim, v->tile_q, v->tile_k, v->short_queries);
        }
  }
  EXPECT_EQ(taken.size(), detail::attention_variants<T>().size()) << "kernels that no device takes";
}

TEST(AttentionKernels, EveryDeviceHasOneForEveryProblem) {
  expect_a_kernel_everywhere<bf16>();
  expect_a_kernel_everywhere<f16>();
}

TEST(AttentionKernels, DivisionByProducts) {
  for (const int64_t divisor :
       {1, 2, 3, 5, 7, 71, 127, 128, 129, 641, 65535, 65536, 65537, 1000003, 1 << 30, INT32_MAX - 1, INT32_MAX}) {
    const Divisor d(divisor);
    for (int64_t multiple = 0; multiple <= INT32_MAX; multiple += divisor * (INT32_MAX / divisor / 1000 + 1))
      for (int64_t number = multiple - 1; number <= multiple + 1; ++number)
        if (number >= 0 && number <= INT32_MAX) {
          ASSERT_EQ(static_cast<uint32_t>(number) / d, number / divisor) << number << " / " << divisor;
        }
  }
}

}  // namespace
}  // namespace grout
