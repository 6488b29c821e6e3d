// What fragment expressions cost over registers written out by hand: nothing. A step of a streaming softmax on 4 slots, in
// expressions, which find rows through the ownership's table, and with every register named; the order of operations is the
// same. So are the instructions, each as often.
// kernel: fragment_
// registers: 40
// expect: SHFL.BFLY, MUFU.EX2, FMNMX, FFMA, F2FP
// same: fragment_expressions_4 fragment_by_hand_4
#include "common/fragment.cuh"

namespace grout {

using S = MmaM16N8K16C;

__global__ void fragment_expressions_4(const float* in, float* state, float* out, uint32_t* packed, float scale) {
  const int lane = threadIdx.x;
  using Rows = Reduced<S, 1>;
  Fragment<float, S> s;
  Fragment<float, Rows> old;
  Fragment<float, SlotsReduced<S, 1>> l;
  Fragment<float, MmaM16N8K16C> o;
#pragma unroll
  for (int i = 0; i < S::slots; ++i) s[i] = in[32 * i + lane];
#pragma unroll
  for (int r = 0; r < Rows::slots; ++r) old[r] = state[32 * r + lane], l[r] = state[32 * (Rows::slots + r) + lane];
  const Fragment m = maximum(old, max<1>(s) * scale);
  const Fragment alpha = exp2(old - m);
  const Fragment p = exp2(s * scale - m);
  l = l * alpha + sum_slots<1>(p);
#pragma unroll
  for (int r = 0; r < Rows::slots; ++r) state[32 * r + lane] = m[r], state[32 * (Rows::slots + r) + lane] = l[r];
#pragma unroll
  for (int i = 0; i < o.slots; ++i) o[i] = out[32 * i + lane];
  o = o * alpha;
#pragma unroll
  for (int i = 0; i < o.slots; ++i) out[32 * i + lane] = o[i];
  const auto a = pack<bf16>(p);
#pragma unroll
  for (int r = 0; r < a.slots; ++r) packed[32 * r + lane] = a[r];
}

__global__ void fragment_by_hand_4(const float* in, float* state, float* out, uint32_t* packed, float scale) {
  const int lane = threadIdx.x;
  const float s0 = in[lane]; const float s1 = in[32 + lane]; const float s2 = in[64 + lane];
  const float s3 = in[96 + lane];
  const float old0 = state[lane], l0 = state[64 + lane];
  const float old1 = state[32 + lane], l1 = state[96 + lane];
  float m0 = fmaxf(s0, s1);
  float m1 = fmaxf(s2, s3);
  m0 = fmaxf(m0, ptx::shfl_bfly(m0, 1)); m1 = fmaxf(m1, ptx::shfl_bfly(m1, 1));
  m0 = fmaxf(m0, ptx::shfl_bfly(m0, 2)); m1 = fmaxf(m1, ptx::shfl_bfly(m1, 2));
  const float n0 = fmaxf(old0, m0 * scale); const float n1 = fmaxf(old1, m1 * scale);
  const float alpha0 = ptx::ex2(old0 - n0); const float alpha1 = ptx::ex2(old1 - n1);
  const float p0 = ptx::ex2(s0 * scale - n0); const float p1 = ptx::ex2(s1 * scale - n0);
  const float p2 = ptx::ex2(s2 * scale - n1); const float p3 = ptx::ex2(s3 * scale - n1);
  const float sum0 = l0 * alpha0 + (p0 + p1);
  const float sum1 = l1 * alpha1 + (p2 + p3);
  state[lane] = n0, state[64 + lane] = sum0;
  state[32 + lane] = n1, state[96 + lane] = sum1;
  const float o0 = out[lane] * alpha0; const float o1 = out[32 + lane] * alpha0;
  const float o2 = out[64 + lane] * alpha1; const float o3 = out[96 + lane] * alpha1;
  out[lane] = o0; out[32 + lane] = o1; out[64 + lane] = o2; out[96 + lane] = o3;
  packed[lane] = pack<bf16>(p0, p1); packed[32 + lane] = pack<bf16>(p2, p3);
}

}  // namespace grout
