// Fragments, reductions and register tuples that must not compile, and what the compiler is made to say. CASE 0 compiles.
#include "common/fragment.cuh"

using namespace grout;

using C = MmaM16N8K16C;
using A = MmaM16N8K16A;
using Wide = WarpTiled<C, 1, 1, 1, 2>;          // 16 x 16: what A holds, lane by lane
using Vectors = VectorTiled<16, 8, 1, 4, 32>;   // C's shape, dealt otherwise
using Grid = WarpTiled<C, 2, 2, 1, 2>;
using Thirds = VectorTiled<8, 24, 1, 8, 8>;     // rows of three vectors
using Surplus = VectorTiled<16, 104, 1, 8, 384>;

struct Descends : C {  // the second thread holds its columns in other slots
  static constexpr Coordinate<2> at(int lane, int slot) { return C::at(lane, lane == 1 ? slot ^ 2 : slot); }
};
struct OneSlot {
  static constexpr int threads = 32, slots = 1, axes = 2;
  static constexpr Coordinate<2> shape{8, 4};
  static constexpr Coordinate<2> at(int lane, int) { return {lane / 4, lane % 4}; }
};
inline void accepted(Fragment<float, C> c, Fragment<float, Wide> w, const float (&x)[4], int n) {
  auto m = max<1>(w);
  w = exp2(w * 2.f - m);
  Fragment<float, Reduced<Wide, 1>> sums = sum<1>(w);
  auto a = pack<bf16>(redistribute<A>(w));
  (void)a.part<4>(0), (void)c.part<4>(0), (void)sums, (void)x;
  (void)select(coordinate<C, 1>(n) < n, c, -INFINITY);
  (void)make_static<0, 4>([](auto i) { return i * i; });
}

#if CASE == 1  // expect: the operands' ownerships are not compatible
inline auto bad(Fragment<float, C>& x, Fragment<float, Vectors>& y) { return x + y; }  // of equal shape
#endif
#if CASE == 2  // expect: equal shapes are not enough
inline auto bad(Fragment<float, C>& x, Fragment<float, Wide>& y) { return x * y; }  // of other shapes
#endif
#if CASE == 3  // expect: no operand has all axes; equal shapes are not enough
inline auto bad(Fragment<float, Reduced<C, 0>>& x, Fragment<float, Reduced<C, 1>>& y) { return x - y; }
#endif
#if CASE == 4  // expect: fragment expression: the operands' ownerships are not compatible
inline auto bad(float x) { return apply([](float a, float b) { return a + b; }, x, 1.f); }  // scalars only
#endif
#if CASE == 5  // expect: fragment: the expression has another ownership; equal shapes are not enough: redistribute<Ownership>(x)
inline void bad(Fragment<float, C>& x) { Fragment<float, Vectors> y = x * 2.f; }
#endif
#if CASE == 6  // expect: fragment: the expression has another ownership
inline void bad(Fragment<float, C>& x) { Fragment<float, Reduced<C, 1>> y = x; }  // reduced by nobody
#endif
#if CASE == 7  // expect: redistribute: a thread does not hold what the other ownership asks of it; exchange through shared memory
inline auto bad(Fragment<float, Grid>& x) { return redistribute<WarpTiled<A, 4, 1, 1, 1>>(x); }  // other warps
#endif
#if CASE == 8  // expect: redistribute: a thread does not hold what the other ownership asks of it
inline auto bad(Fragment<float, C>& x) { return redistribute<MmaM16N8K16B>(x); }
#endif
#if CASE == 9  // expect: redistribute: a thread does not hold what the other ownership asks of it
inline auto bad(Fragment<float, Descends>& x) { return redistribute<C>(x); }  // one thread in other slots
#endif
#if CASE == 10  // expect: reduction: the values to combine along this axis lie in several warps
inline auto bad(Fragment<float, Grid>& x) { return sum<1>(x); }
#endif
#if CASE == 11  // expect: reduction_spans_warps<1, 0, 1>
inline auto bad(Fragment<float, Grid>& x) { return sum<1>(x); }
#endif
#if CASE == 12  // expect: reduction_spans_warps<0, 0, 2>
inline auto bad(Fragment<float, Grid>& x) { return max_slots<0>(x); }
#endif
#if CASE == 13  // expect: reduction: slots and xor-shuffles do not bring the values along this axis together, each once
inline auto bad(Fragment<float, Thirds>& x) { return max<1>(x); }
#endif
#if CASE == 14  // expect: reduction_has_no_plan<1, grout::ReductionProblem::no_shuffle>
inline auto bad(Fragment<float, Thirds>& x) { return max<1>(x); }
#endif
#if CASE == 15  // expect: reduction_has_no_plan<0, grout::ReductionProblem::outside>
inline auto bad(Fragment<float, Surplus>& x) { return sum_slots<0>(x); }
#endif
#if CASE == 16  // expect: reduction_has_no_plan<1, grout::ReductionProblem::not_held>
inline auto bad(Fragment<uint32_t, Pairs<A>>& x) { return sum<1>(x); }
#endif
#if CASE == 17  // expect: reduction: the ownership has no such axis
inline auto bad(Fragment<float, C>& x) { return sum<2>(x); }
#endif
#if CASE == 18  // expect: reduction: the ownership has no such axis
inline auto bad(Fragment<float, C>& x) { return max_slots<-1>(x); }
#endif
#if CASE == 19  // expect: coordinate: the ownership has no such axis
inline auto bad(int lane) { return coordinate<C, 2>(lane); }
#endif
#if CASE == 20  // expect: make_static: bounds must be known at compile time: make_static<first, last>(f)
inline void bad(int n) { make_static(0, n, [](auto i) { return i; }); }
#endif
#if CASE == 21  // expect: make_static: a step of 0 never arrives
inline auto bad() { return make_static<0, 4, 0>([](auto i) { return static_cast<int>(i); }); }
#endif
#if CASE == 22  // expect: make_static: the callable must return the same type for every index
struct Mixed {
  int operator()(std::integral_constant<int, 0>) const { return 0; }
  float operator()(std::integral_constant<int, 1>) const { return 1; }
};
inline auto bad() { return make_static<0, 2>(Mixed{}); }
#endif
#if CASE == 23  // expect: make_static: the range's bounds and step must be integers
inline auto bad() { return make_static<0.f, 4.f>([](auto) { return 0; }); }
#endif
#if CASE == 24  // expect: pairs of slots: an ownership with an odd number of slots has none
inline auto bad(Fragment<float, OneSlot>& x) { return pack<bf16>(x); }
#endif
#if CASE == 25  // expect: fragment: the slots must divide into parts of this size
inline auto& bad(Fragment<float, C>& x) { return x.part<3>(0); }
#endif
#if CASE == 26  // expect: fragment: the slots must divide into parts of this size
inline auto& bad(const Fragment<float, C>& x) { return x.part<8>(0); }
#endif
#if CASE == 27  // expect: shfl.sync moves registers of 32 bits
inline auto bad(Fragment<double, C>& x) { return sum<1>(x); }
#endif
#if CASE == 28  // expect: exp2: ex2.approx computes in fp32; convert a double first
inline void bad(Fragment<double, C>& x) { Fragment y = exp2(x); }
#endif
#if CASE == 29  // expect: wgmma.m64nN: N is a multiple of 8 from 8 to 256
using Bad = WgmmaM64C<12>;
constexpr int bad = Bad::slots;
#endif
#if CASE == 30  // expect: wgmma.m64nN: N is a multiple of 8 from 8 to 256
constexpr int bad = WgmmaM64C<264>::slots;
#endif
#if CASE == 31  // expect: reduction_spans_warps<0, 0, 1>
using Bad = Reduced<WgmmaM64C<16>, 0>;
constexpr int bad = Bad::slots;
#endif
#if CASE == 32  // expect: make_static: bounds must be known at compile time: make_static<first, last>(f)
inline void bad(int n) { make_static(0, n, 2, [](auto i) { return i; }); }
#endif
