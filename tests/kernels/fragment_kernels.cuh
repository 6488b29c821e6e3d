// Kernels that compute with fragments, for either device: 32-bit words in, 32-bit words out. What they must give:
// fragment_cases.h.
#pragma once
#include "common/fragment.cuh"
#include "tests/kernels/fragment_tables.h"

namespace grout::test {

template <class T> __device__ T from_bits(uint32_t word) {
  if constexpr (std::is_same_v<T, float>) return __uint_as_float(word);
  else return static_cast<T>(word);
}
__device__ inline uint32_t bits_of(float value) { return __float_as_uint(value); }
__device__ inline uint32_t bits_of(int value) { return static_cast<uint32_t>(value); }

// The number of a coordinate in the tile, row by row.
template <class O> __host__ __device__ constexpr int place(Coordinate<O::axes> c) {
  constexpr Coordinate<O::axes> kShape = O::shape;  // a local one: device code may index it
  int number = 0;
  for (int axis = 0; axis < O::axes; ++axis) number = number * kShape.value[axis] + c.value[axis];
  return number;
}

struct Xor {
  __device__ int operator()(int a, int b) const { return a ^ b; }
};

// One block of O::threads. In: a T for each coordinate of the tile, held as Held says and computed on as O says. Out, of each
// thread: for each slot the sum and the maximum of its row along Axis, the sum of the lanes' sums, the value minus its row's
// maximum; and the same row reduced by a function of the caller (XOR; for floats the sum again).
template <class T, class O, int Axis, class Held = O> __global__ void reductions(const uint32_t* in, uint32_t* out) {
  const int thread = static_cast<int>(threadIdx.x);
  Fragment<T, O> f;
#pragma unroll
  for (int s = 0; s < O::slots; ++s) f[s] = from_bits<T>(in[place<Held>(Held::at(thread, s))]);
  const auto own = sum_slots<Axis>(f);
  const Fragment<T, O> sums = sum<Axis>(f), largest = max<Axis>(f), in_two_steps = sum<Axis>(own), below = f - max<Axis>(f);
  Fragment<T, O> custom = sums;
  if constexpr (std::is_same_v<T, int>) custom = reduce<Axis>(f, Xor{});
  out += thread * O::slots * 5;
#pragma unroll
  for (int s = 0; s < O::slots; ++s) {
    out[5 * s] = bits_of(sums[s]);
    out[5 * s + 1] = bits_of(largest[s]);
    out[5 * s + 2] = bits_of(in_two_steps[s]);
    out[5 * s + 3] = bits_of(below[s]);
    out[5 * s + 4] = bits_of(custom[s]);
  }
}

// One warp. In: 16 x 16 fp32 numbers that T holds exactly, row by row. Out: the same, after they were an accumulator, packed as
// operand A and multiplied by the unit matrix.
template <class T> __global__ void times_unit(const uint32_t* in, uint32_t* out) {
  using Wide = WarpTiled<MmaM16N8K16C, 1, 1, 1, 2>;
  const int lane = static_cast<int>(threadIdx.x);
  Fragment<float, Wide> s, d;
#pragma unroll
  for (int i = 0; i < Wide::slots; ++i) s[i] = __uint_as_float(in[place<Wide>(Wide::at(lane, i))]);
  d.fill(0.f);
  auto a = pack<T>(redistribute<MmaM16N8K16A>(s));
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    auto unit = pack<T>(select(coordinate<MmaM16N8K16B, 0>(lane) == coordinate<MmaM16N8K16B, 1>(lane) + 8 * j, 1.f, 0.f));
    ptx::mma_m16n8k16<T>(d.template part<4>(j), a.template part<4>(0), unit.template part<2>(0), d.template part<4>(j));
  }
#pragma unroll
  for (int i = 0; i < Wide::slots; ++i) out[place<Wide>(Wide::at(lane, i))] = __float_as_uint(d[i]);
}

// One warp. In: 16 x 16 fp32 numbers, a limit. Out: of each row the sum of 2^(x - maximum) over the columns below the limit.
static __global__ void masked_softmax_sums(const uint32_t* in, uint32_t* out) {
  using S = WarpTiled<MmaM16N8K16C, 1, 1, 1, 2>;
  const int lane = static_cast<int>(threadIdx.x), limit = static_cast<int>(in[256]);
  Fragment<float, S> s;
#pragma unroll
  for (int i = 0; i < S::slots; ++i) s[i] = __uint_as_float(in[place<S>(S::at(lane, i))]);
  s = select(coordinate<S, 1>(lane) < limit, s, -INFINITY);
  const auto m = max<1>(s);
  const auto l = sum<1>(sum_slots<1>(exp2(s - m)));
  if (lane % 4 != 0) return;  // four lanes hold each row's sum
  for (int r = 0; r < l.slots; ++r) out[decltype(l)::Ownership::at(lane, r)[0]] = __float_as_uint(l[r]);
}

}  // namespace grout::test
