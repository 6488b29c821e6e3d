// What fragment expressions cost over registers written out by hand: nothing. A step of a streaming softmax on 64 slots, in
// expressions, which find rows through the ownership's table, and with every register named; the order of operations is the
// same. So are the instructions, each as often.
// kernel: fragment_
// registers: 80
// expect: SHFL.BFLY, MUFU.EX2, FMNMX, FFMA, F2FP
// same: fragment_expressions_64 fragment_by_hand_64
#include "common/fragment.cuh"

namespace grout {

using S = WarpTiled<MmaM16N8K16C, 1, 1, 2, 8>;

__global__ void fragment_expressions_64(const float* in, float* state, float* out, uint32_t* packed, float scale) {
  const int lane = threadIdx.x;
  using Rows = Reduced<S, 1>;
  Fragment<float, S> s;
  Fragment<float, Rows> old;
  Fragment<float, SlotsReduced<S, 1>> l;
  Fragment<float, WarpTiled<MmaM16N8K16C, 1, 1, 2, 1>> o;
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
  const auto a = pack<bf16>(redistribute<WarpTiled<MmaM16N8K16A, 1, 1, 2, 4>>(p));
#pragma unroll
  for (int r = 0; r < a.slots; ++r) packed[32 * r + lane] = a[r];
}

__global__ void fragment_by_hand_64(const float* in, float* state, float* out, uint32_t* packed, float scale) {
  const int lane = threadIdx.x;
  const float s0 = in[lane]; const float s1 = in[32 + lane]; const float s2 = in[64 + lane];
  const float s3 = in[96 + lane]; const float s4 = in[128 + lane]; const float s5 = in[160 + lane];
  const float s6 = in[192 + lane]; const float s7 = in[224 + lane]; const float s8 = in[256 + lane];
  const float s9 = in[288 + lane]; const float s10 = in[320 + lane]; const float s11 = in[352 + lane];
  const float s12 = in[384 + lane]; const float s13 = in[416 + lane]; const float s14 = in[448 + lane];
  const float s15 = in[480 + lane]; const float s16 = in[512 + lane]; const float s17 = in[544 + lane];
  const float s18 = in[576 + lane]; const float s19 = in[608 + lane]; const float s20 = in[640 + lane];
  const float s21 = in[672 + lane]; const float s22 = in[704 + lane]; const float s23 = in[736 + lane];
  const float s24 = in[768 + lane]; const float s25 = in[800 + lane]; const float s26 = in[832 + lane];
  const float s27 = in[864 + lane]; const float s28 = in[896 + lane]; const float s29 = in[928 + lane];
  const float s30 = in[960 + lane]; const float s31 = in[992 + lane]; const float s32 = in[1024 + lane];
  const float s33 = in[1056 + lane]; const float s34 = in[1088 + lane]; const float s35 = in[1120 + lane];
  const float s36 = in[1152 + lane]; const float s37 = in[1184 + lane]; const float s38 = in[1216 + lane];
  const float s39 = in[1248 + lane]; const float s40 = in[1280 + lane]; const float s41 = in[1312 + lane];
  const float s42 = in[1344 + lane]; const float s43 = in[1376 + lane]; const float s44 = in[1408 + lane];
  const float s45 = in[1440 + lane]; const float s46 = in[1472 + lane]; const float s47 = in[1504 + lane];
  const float s48 = in[1536 + lane]; const float s49 = in[1568 + lane]; const float s50 = in[1600 + lane];
  const float s51 = in[1632 + lane]; const float s52 = in[1664 + lane]; const float s53 = in[1696 + lane];
  const float s54 = in[1728 + lane]; const float s55 = in[1760 + lane]; const float s56 = in[1792 + lane];
  const float s57 = in[1824 + lane]; const float s58 = in[1856 + lane]; const float s59 = in[1888 + lane];
  const float s60 = in[1920 + lane]; const float s61 = in[1952 + lane]; const float s62 = in[1984 + lane];
  const float s63 = in[2016 + lane];
  const float old0 = state[lane], l0 = state[128 + lane];
  const float old1 = state[32 + lane], l1 = state[160 + lane];
  const float old2 = state[64 + lane], l2 = state[192 + lane];
  const float old3 = state[96 + lane], l3 = state[224 + lane];
  float m0 = fmaxf(fmaxf(fmaxf(fmaxf(s0, s1), fmaxf(s4, s5)), fmaxf(fmaxf(s8, s9), fmaxf(s12, s13))),
      fmaxf(fmaxf(fmaxf(s16, s17), fmaxf(s20, s21)), fmaxf(fmaxf(s24, s25), fmaxf(s28, s29))));
  float m1 = fmaxf(fmaxf(fmaxf(fmaxf(s2, s3), fmaxf(s6, s7)), fmaxf(fmaxf(s10, s11), fmaxf(s14, s15))),
      fmaxf(fmaxf(fmaxf(s18, s19), fmaxf(s22, s23)), fmaxf(fmaxf(s26, s27), fmaxf(s30, s31))));
  float m2 = fmaxf(fmaxf(fmaxf(fmaxf(s32, s33), fmaxf(s36, s37)), fmaxf(fmaxf(s40, s41), fmaxf(s44, s45))),
      fmaxf(fmaxf(fmaxf(s48, s49), fmaxf(s52, s53)), fmaxf(fmaxf(s56, s57), fmaxf(s60, s61))));
  float m3 = fmaxf(fmaxf(fmaxf(fmaxf(s34, s35), fmaxf(s38, s39)), fmaxf(fmaxf(s42, s43), fmaxf(s46, s47))),
      fmaxf(fmaxf(fmaxf(s50, s51), fmaxf(s54, s55)), fmaxf(fmaxf(s58, s59), fmaxf(s62, s63))));
  m0 = fmaxf(m0, ptx::shfl_bfly(m0, 1)); m1 = fmaxf(m1, ptx::shfl_bfly(m1, 1));
  m2 = fmaxf(m2, ptx::shfl_bfly(m2, 1)); m3 = fmaxf(m3, ptx::shfl_bfly(m3, 1));
  m0 = fmaxf(m0, ptx::shfl_bfly(m0, 2)); m1 = fmaxf(m1, ptx::shfl_bfly(m1, 2));
  m2 = fmaxf(m2, ptx::shfl_bfly(m2, 2)); m3 = fmaxf(m3, ptx::shfl_bfly(m3, 2));
  const float n0 = fmaxf(old0, m0 * scale); const float n1 = fmaxf(old1, m1 * scale);
  const float n2 = fmaxf(old2, m2 * scale); const float n3 = fmaxf(old3, m3 * scale);
  const float alpha0 = ptx::ex2(old0 - n0); const float alpha1 = ptx::ex2(old1 - n1);
  const float alpha2 = ptx::ex2(old2 - n2); const float alpha3 = ptx::ex2(old3 - n3);
  const float p0 = ptx::ex2(s0 * scale - n0); const float p1 = ptx::ex2(s1 * scale - n0);
  const float p2 = ptx::ex2(s2 * scale - n1); const float p3 = ptx::ex2(s3 * scale - n1);
  const float p4 = ptx::ex2(s4 * scale - n0); const float p5 = ptx::ex2(s5 * scale - n0);
  const float p6 = ptx::ex2(s6 * scale - n1); const float p7 = ptx::ex2(s7 * scale - n1);
  const float p8 = ptx::ex2(s8 * scale - n0); const float p9 = ptx::ex2(s9 * scale - n0);
  const float p10 = ptx::ex2(s10 * scale - n1); const float p11 = ptx::ex2(s11 * scale - n1);
  const float p12 = ptx::ex2(s12 * scale - n0); const float p13 = ptx::ex2(s13 * scale - n0);
  const float p14 = ptx::ex2(s14 * scale - n1); const float p15 = ptx::ex2(s15 * scale - n1);
  const float p16 = ptx::ex2(s16 * scale - n0); const float p17 = ptx::ex2(s17 * scale - n0);
  const float p18 = ptx::ex2(s18 * scale - n1); const float p19 = ptx::ex2(s19 * scale - n1);
  const float p20 = ptx::ex2(s20 * scale - n0); const float p21 = ptx::ex2(s21 * scale - n0);
  const float p22 = ptx::ex2(s22 * scale - n1); const float p23 = ptx::ex2(s23 * scale - n1);
  const float p24 = ptx::ex2(s24 * scale - n0); const float p25 = ptx::ex2(s25 * scale - n0);
  const float p26 = ptx::ex2(s26 * scale - n1); const float p27 = ptx::ex2(s27 * scale - n1);
  const float p28 = ptx::ex2(s28 * scale - n0); const float p29 = ptx::ex2(s29 * scale - n0);
  const float p30 = ptx::ex2(s30 * scale - n1); const float p31 = ptx::ex2(s31 * scale - n1);
  const float p32 = ptx::ex2(s32 * scale - n2); const float p33 = ptx::ex2(s33 * scale - n2);
  const float p34 = ptx::ex2(s34 * scale - n3); const float p35 = ptx::ex2(s35 * scale - n3);
  const float p36 = ptx::ex2(s36 * scale - n2); const float p37 = ptx::ex2(s37 * scale - n2);
  const float p38 = ptx::ex2(s38 * scale - n3); const float p39 = ptx::ex2(s39 * scale - n3);
  const float p40 = ptx::ex2(s40 * scale - n2); const float p41 = ptx::ex2(s41 * scale - n2);
  const float p42 = ptx::ex2(s42 * scale - n3); const float p43 = ptx::ex2(s43 * scale - n3);
  const float p44 = ptx::ex2(s44 * scale - n2); const float p45 = ptx::ex2(s45 * scale - n2);
  const float p46 = ptx::ex2(s46 * scale - n3); const float p47 = ptx::ex2(s47 * scale - n3);
  const float p48 = ptx::ex2(s48 * scale - n2); const float p49 = ptx::ex2(s49 * scale - n2);
  const float p50 = ptx::ex2(s50 * scale - n3); const float p51 = ptx::ex2(s51 * scale - n3);
  const float p52 = ptx::ex2(s52 * scale - n2); const float p53 = ptx::ex2(s53 * scale - n2);
  const float p54 = ptx::ex2(s54 * scale - n3); const float p55 = ptx::ex2(s55 * scale - n3);
  const float p56 = ptx::ex2(s56 * scale - n2); const float p57 = ptx::ex2(s57 * scale - n2);
  const float p58 = ptx::ex2(s58 * scale - n3); const float p59 = ptx::ex2(s59 * scale - n3);
  const float p60 = ptx::ex2(s60 * scale - n2); const float p61 = ptx::ex2(s61 * scale - n2);
  const float p62 = ptx::ex2(s62 * scale - n3); const float p63 = ptx::ex2(s63 * scale - n3);
  const float sum0 = l0 * alpha0 + ((((p0 + p1) + (p4 + p5)) + ((p8 + p9) + (p12 + p13))) + (((p16 + p17) + (p20 + p21)) +
      ((p24 + p25) + (p28 + p29))));
  const float sum1 = l1 * alpha1 + ((((p2 + p3) + (p6 + p7)) + ((p10 + p11) + (p14 + p15))) + (((p18 + p19) + (p22 + p23))
      + ((p26 + p27) + (p30 + p31))));
  const float sum2 = l2 * alpha2 + ((((p32 + p33) + (p36 + p37)) + ((p40 + p41) + (p44 + p45))) + (((p48 + p49) + (p52 +
      p53)) + ((p56 + p57) + (p60 + p61))));
  const float sum3 = l3 * alpha3 + ((((p34 + p35) + (p38 + p39)) + ((p42 + p43) + (p46 + p47))) + (((p50 + p51) + (p54 +
      p55)) + ((p58 + p59) + (p62 + p63))));
  state[lane] = n0, state[128 + lane] = sum0;
  state[32 + lane] = n1, state[160 + lane] = sum1;
  state[64 + lane] = n2, state[192 + lane] = sum2;
  state[96 + lane] = n3, state[224 + lane] = sum3;
  const float o0 = out[lane] * alpha0; const float o1 = out[32 + lane] * alpha0;
  const float o2 = out[64 + lane] * alpha1; const float o3 = out[96 + lane] * alpha1;
  const float o4 = out[128 + lane] * alpha2; const float o5 = out[160 + lane] * alpha2;
  const float o6 = out[192 + lane] * alpha3; const float o7 = out[224 + lane] * alpha3;
  out[lane] = o0; out[32 + lane] = o1; out[64 + lane] = o2; out[96 + lane] = o3;
  out[128 + lane] = o4; out[160 + lane] = o5; out[192 + lane] = o6; out[224 + lane] = o7;
  packed[lane] = pack<bf16>(p0, p1); packed[32 + lane] = pack<bf16>(p2, p3);
  packed[64 + lane] = pack<bf16>(p4, p5); packed[96 + lane] = pack<bf16>(p6, p7);
  packed[128 + lane] = pack<bf16>(p8, p9); packed[160 + lane] = pack<bf16>(p10, p11);
  packed[192 + lane] = pack<bf16>(p12, p13); packed[224 + lane] = pack<bf16>(p14, p15);
  packed[256 + lane] = pack<bf16>(p16, p17); packed[288 + lane] = pack<bf16>(p18, p19);
  packed[320 + lane] = pack<bf16>(p20, p21); packed[352 + lane] = pack<bf16>(p22, p23);
  packed[384 + lane] = pack<bf16>(p24, p25); packed[416 + lane] = pack<bf16>(p26, p27);
  packed[448 + lane] = pack<bf16>(p28, p29); packed[480 + lane] = pack<bf16>(p30, p31);
  packed[512 + lane] = pack<bf16>(p32, p33); packed[544 + lane] = pack<bf16>(p34, p35);
  packed[576 + lane] = pack<bf16>(p36, p37); packed[608 + lane] = pack<bf16>(p38, p39);
  packed[640 + lane] = pack<bf16>(p40, p41); packed[672 + lane] = pack<bf16>(p42, p43);
  packed[704 + lane] = pack<bf16>(p44, p45); packed[736 + lane] = pack<bf16>(p46, p47);
  packed[768 + lane] = pack<bf16>(p48, p49); packed[800 + lane] = pack<bf16>(p50, p51);
  packed[832 + lane] = pack<bf16>(p52, p53); packed[864 + lane] = pack<bf16>(p54, p55);
  packed[896 + lane] = pack<bf16>(p56, p57); packed[928 + lane] = pack<bf16>(p58, p59);
  packed[960 + lane] = pack<bf16>(p60, p61); packed[992 + lane] = pack<bf16>(p62, p63);
}

}  // namespace grout
