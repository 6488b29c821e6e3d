// Register fragments: one thread's share of a tile that a group of threads holds together, and arithmetic on it.
//
// Fragment<T, Ownership> is the values of one thread; Ownership (ownership.cuh) says which coordinate each slot holds.
//
//   auto m = max<1>(s);                       rows of s: slots, then lanes, as the ownership's table says
//   Fragment p = exp2(s * scale - m);         one pass over the slots; m's rows are found through a slot map
//   l = l * alpha + sum_slots<1>(p);          of each lane alone; sum<1>(l) once, at the end
//   auto a = pack<bf16>(redistribute<OperandA>(p));   the same thread must hold what OperandA asks of it
//
// Expressions are evaluated where a Fragment is made of them; they refer to the fragments with names that they are made from, and
// keep temporary ones. Operands must have compatible ownerships: the same coordinates in the same threads, or extent 1 along an
// axis; equal shapes are not enough.
// Participants: reductions that shuffle need the whole warp, converged; all else is each thread's own.
#pragma once
#include <cmath>
#include <type_traits>
#include <utility>

#include "common/ownership_algebra.cuh"
#include "common/ptx.cuh"

namespace grout {

using ::exp2, ::max;  // of scalars: the names below would hide them

// ---- Register tuples -----------------------------------------------------------------------------------------------

// N values, in registers where every index is known once loops are unrolled.
template <class T, int N> struct Registers {
  T values[N];
  constexpr T& operator[](int i) { return values[i]; }
  constexpr const T& operator[](int i) const { return values[i]; }
};
template <class T> struct Registers<T, 0> {};

// make_static<first, last, step>(f): f(first), f(first + step), ... up to but without `last`, called once each, in order. The indices
// are std::integral_constant of First's type, so that they are constants inside f. Registers<T, n> of what f returns, one type for
// all; nothing where that is void. A step may be negative, a range empty.
template <auto First, auto Last, auto Step = static_cast<decltype(First)>(1), class F>
GROUT_DEVICE constexpr auto make_static(F&& f) {
  using Index = decltype(First);
  static_assert(std::is_integral_v<Index> && std::is_integral_v<decltype(Last)> && std::is_integral_v<decltype(Step)>,
                "make_static: the range's bounds and step must be integers");
  static_assert(Step != 0, "make_static: a step of 0 never arrives");
  constexpr auto kFirst = static_cast<long long>(First), kLast = static_cast<long long>(Last), kStep = static_cast<long long>(Step);
  constexpr long long kCount = kStep > 0 ? (kLast > kFirst ? (kLast - kFirst + kStep - 1) / kStep : 0)
                                         : (kLast < kFirst ? (kFirst - kLast - kStep - 1) / -kStep : 0);
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    using Value = decltype(f(std::integral_constant<Index, First>{}));
    if constexpr (std::is_void_v<Value>) {
      (f(std::integral_constant<Index, static_cast<Index>(kFirst + I * kStep)>{}), ...);
    } else {
      static_assert((std::is_same_v<Value, decltype(f(std::integral_constant<Index, static_cast<Index>(kFirst + I * kStep)>{}))> && ...),
                    "make_static: the callable must return the same type for every index");
      return Registers<Value, sizeof...(I)>{f(std::integral_constant<Index, static_cast<Index>(kFirst + I * kStep)>{})...};
    }
  }(std::make_integer_sequence<int, static_cast<int>(kCount)>{});
}
// Bounds that are only known at run time have no register tuple.
template <class First, class Last, class... More> constexpr void make_static(First, Last, More&&...) {
  static_assert(sizeof(First) == 0, "make_static: bounds must be known at compile time: make_static<first, last>(f)");
}

// ---- Fragments and expressions -------------------------------------------------------------------------------------

template <class X> concept FragmentOrExpression =
    requires { typename std::remove_cvref_t<X>::Ownership; typename std::remove_cvref_t<X>::Value; };

template <class T, class OwnershipT> struct Fragment {
  using Value = T;
  using Ownership = OwnershipT;
  static constexpr int slots = Ownership::slots;

  T values[slots];

  Fragment() = default;
  // Evaluates an expression, slot by slot.
  template <FragmentOrExpression X>
    requires(!std::is_same_v<X, Fragment>)
  GROUT_DEVICE Fragment(const X& x);

  constexpr T& operator[](int slot) { return values[slot]; }
  constexpr const T& operator[](int slot) const { return values[slot]; }
  template <int Slot> constexpr const T& value() const { return values[Slot]; }
  // Same value in every slot.
  constexpr void fill(T value) {
#pragma unroll
    for (int slot = 0; slot < slots; ++slot) values[slot] = value;
  }
  // Slots N * index .. N * index + N - 1 as an operand of an instruction.
  template <int N> constexpr T (&part(int index))[N] {
    static_assert(N > 0 && slots % N == 0, "fragment: the slots must divide into parts of this size");
    return *reinterpret_cast<T(*)[N]>(&values[N * index]);
  }
  template <int N> constexpr const T (&part(int index) const)[N] {
    static_assert(N > 0 && slots % N == 0, "fragment: the slots must divide into parts of this size");
    return *reinterpret_cast<const T(*)[N]>(&values[N * index]);
  }
};

// A value for every slot of an ownership, computed when asked for. F: integral_constant<int, slot> -> value.
template <class OwnershipT, class F> struct Expression {
  using Ownership = OwnershipT;
  using Value = std::remove_cvref_t<decltype(std::declval<const F&>()(std::integral_constant<int, 0>{}))>;
  static constexpr int slots = Ownership::slots;
  F value_of;
  template <int Slot> GROUT_DEVICE Value value() const { return value_of(std::integral_constant<int, Slot>{}); }
};
template <class OwnershipT, class F> GROUT_DEVICE Expression<OwnershipT, F> expression(F f) { return {f}; }

template <class T, class OwnershipT>
template <FragmentOrExpression X>
  requires(!std::is_same_v<X, Fragment<T, OwnershipT>>)
GROUT_DEVICE Fragment<T, OwnershipT>::Fragment(const X& x) {
  static_assert(slot_map_of<OwnershipT, typename X::Ownership>.exists,
                "fragment: the expression has another ownership; equal shapes are not enough: redistribute<Ownership>(x)");
  make_static<0, slots>([&](auto slot) {
    constexpr int kFrom = slot_map_of<OwnershipT, typename X::Ownership>.slot[decltype(slot)::value];
    values[slot] = static_cast<T>(x.template value<kFrom>());
  });
}
template <class X> Fragment(const X&) -> Fragment<typename X::Value, typename X::Ownership>;

namespace detail {
// Fragments with a name are referred to; temporary ones are kept, and so are expressions: a few references themselves.
template <class X> struct Operand {
  std::remove_cvref_t<X> value;
};
template <class T, class O> struct Operand<Fragment<T, O>&> {
  const Fragment<T, O>& value;
};
template <class T, class O> struct Operand<const Fragment<T, O>&> {
  const Fragment<T, O>& value;
};

template <class Anchor, class X> constexpr bool maps_to() {
  if constexpr (FragmentOrExpression<X>) {
    if constexpr (std::is_same_v<Anchor, typename X::Ownership>) return true;
    else return slot_map_of<Anchor, typename X::Ownership>.exists;
  } else {
    return true;
  }
}
struct NoAnchor {};
// The first operand's ownership that all others map to.
template <class All, class... Candidates> struct AnchorOf;
template <class... All> struct AnchorOf<void(All...)> {
  using Type = NoAnchor;
};
template <class... All, class X, class... More> struct AnchorOf<void(All...), X, More...> {
  static constexpr auto choose() {
    if constexpr (FragmentOrExpression<X>) {
      if constexpr ((maps_to<typename X::Ownership, All>() && ...)) return std::type_identity<typename X::Ownership>{};
      else return std::type_identity<typename AnchorOf<void(All...), More...>::Type>{};
    } else {
      return std::type_identity<typename AnchorOf<void(All...), More...>::Type>{};
    }
  }
  using Type = typename decltype(choose())::type;
};

// An operand's value for slot Slot of the anchor.
template <class Anchor, int Slot, class X> GROUT_DEVICE auto operand_value(const X& x) {
  if constexpr (FragmentOrExpression<X>) {
    if constexpr (std::is_same_v<Anchor, typename X::Ownership>) {
      return x.template value<Slot>();
    } else {
      constexpr int kFrom = slot_map_of<Anchor, typename X::Ownership>.slot[Slot];
      return x.template value<kFrom>();
    }
  } else {
    return x;
  }
}
}  // namespace detail

// f(x, ...) for every slot: f is any callable of scalars, the operands are fragments, expressions and scalars. A reduced operand
// gives each slot the result of its row or column.
template <class F, class... X> GROUT_DEVICE auto apply(F f, X&&... x) {
  using Anchor = typename detail::AnchorOf<void(std::remove_cvref_t<X>...), std::remove_cvref_t<X>...>::Type;
  static_assert(!std::is_same_v<Anchor, detail::NoAnchor>,
                "fragment expression: the operands' ownerships are not compatible: threads hold different coordinates of them, or no "
                "operand has all axes; equal shapes are not enough");
  return expression<Anchor>([f, ... operands = detail::Operand<X>{std::forward<X>(x)}](auto slot) {
    return f(detail::operand_value<Anchor, decltype(slot)::value>(operands.value)...);
  });
}

namespace detail {
struct Add {
  template <class T> GROUT_DEVICE decltype(std::declval<T>() + std::declval<T>()) operator()(T a, T b) const { return a + b; }
};
struct Larger {
  template <class X, class Y, class T = std::common_type_t<X, Y>> GROUT_DEVICE T operator()(X x, Y y) const {
    const T a = static_cast<T>(x), b = static_cast<T>(y);
    if constexpr (std::is_same_v<T, float>) return fmaxf(a, b);
    else if constexpr (std::is_same_v<T, double>) return fmax(a, b);
    else return a < b ? b : a;
  }
};
struct Exp2 {
  template <class T> GROUT_DEVICE float operator()(T a) const {
    static_assert(!std::is_same_v<T, double>, "exp2: ex2.approx computes in fp32; convert a double first");
    return ptx::ex2(static_cast<float>(a));
  }
};
}  // namespace detail

template <class X, class Y> concept FragmentOperands = FragmentOrExpression<X> || FragmentOrExpression<Y>;

template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator+(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a + b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator-(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a - b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator*(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a * b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator/(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a / b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator<(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a < b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator>(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a > b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator<=(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a <= b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator>=(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a >= b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator==(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a == b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator!=(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a != b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator&&(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a && b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto operator||(X&& x, Y&& y) {
  return apply([](auto a, auto b) { return a || b; }, std::forward<X>(x), std::forward<Y>(y));
}
template <FragmentOrExpression X> GROUT_DEVICE auto operator-(X&& x) {
  return apply([](auto a) { return -a; }, std::forward<X>(x));
}
template <FragmentOrExpression X> GROUT_DEVICE auto operator!(X&& x) {
  return apply([](auto a) { return !a; }, std::forward<X>(x));
}
// The larger of two numbers; of a number and NaN, the number.
template <class X, class Y> requires FragmentOperands<X, Y> GROUT_DEVICE auto maximum(X&& x, Y&& y) {
  return apply(detail::Larger{}, std::forward<X>(x), std::forward<Y>(y));
}
// 2 to the power of x: one ex2.approx.
template <FragmentOrExpression X> GROUT_DEVICE auto exp2(X&& x) { return apply(detail::Exp2{}, std::forward<X>(x)); }
// yes where `condition` holds, else no.
template <class C, class X, class Y>
  requires(FragmentOrExpression<C> || FragmentOperands<X, Y>)
GROUT_DEVICE auto select(C&& condition, X&& yes, Y&& no) {
  return apply([](bool c, auto a, auto b) { return c ? a : b; }, std::forward<C>(condition), std::forward<X>(yes),
               std::forward<Y>(no));
}
// The coordinate along `Axis` that each slot of `thread` holds.
template <class OwnershipT, int Axis> GROUT_DEVICE auto coordinate(int thread) {
  static_assert(Axis >= 0 && Axis < OwnershipT::axes, "coordinate: the ownership has no such axis");
  return expression<OwnershipT>([thread](auto slot) { return OwnershipT::at(thread, decltype(slot)::value)[Axis]; });
}

// Does the condition hold in any slot of this thread?
template <FragmentOrExpression X> GROUT_DEVICE bool any_slot(const X& condition) {
  bool any = false;
  make_static<0, X::slots>([&](auto slot) { any |= condition.template value<decltype(slot)::value>(); });
  return any;
}

// ---- Reductions ----------------------------------------------------------------------------------------------------

namespace detail {
// What f makes of two values.
template <class F, class T> using Combined = std::remove_cvref_t<decltype(std::declval<F&>()(std::declval<T>(), std::declval<T>()))>;

// Combines slots First .. First + Count - 1 of the plan's list, as a balanced tree.
template <class T, class R, int First, int Count, class X, class F> GROUT_DEVICE T combine_slots(const X& x, F& f) {
  if constexpr (Count == 1) {
    constexpr int kSlot = R::plan.slot[First];
    return static_cast<T>(x.template value<kSlot>());
  } else {
    constexpr int kHalf = Count / 2;
    const T low = combine_slots<T, R, First, kHalf>(x, f);
    return static_cast<T>(f(low, combine_slots<T, R, First + kHalf, Count - kHalf>(x, f)));
  }
}
// The value of lane (lane ^ bit); bool and the short integers travel as int.
template <class T> GROUT_DEVICE T exchange(T value, int bit GROUT_AT) {
  if constexpr (std::is_integral_v<T> && sizeof(T) < 4) return static_cast<T>(ptx::shfl_bfly(static_cast<int>(value), bit GROUT_HERE));
  else return ptx::shfl_bfly(value, bit GROUT_HERE);
}
}  // namespace detail

// Combines, along an axis, the slots of each thread. No lanes exchange anything. Values of the type that f returns.
template <int Axis, class F, FragmentOrExpression X> GROUT_DEVICE auto reduce_slots(const X& x, F f) {
  using R = detail::Reduction<typename X::Ownership, Axis>;
  using Value = detail::Combined<F, typename X::Value>;
  Fragment<Value, SlotsReduced<typename X::Ownership, Axis>> result;
  make_static<0, R::plan.results>([&](auto r) {
    constexpr int kFirst = R::plan.first[decltype(r)::value], kCount = R::plan.first[decltype(r)::value + 1] - kFirst;
    result[r] = detail::combine_slots<Value, R, kFirst, kCount>(x, f);
  });
  return result;
}
// Combines all values along an axis; every lane that held one has the result. f: associative and commutative. Warp.
template <int Axis, class F, FragmentOrExpression X> GROUT_DEVICE auto reduce(const X& x, F f GROUT_AT) {
  using R = detail::Reduction<typename X::Ownership, Axis>;
  using Value = detail::Combined<F, typename X::Value>;
  const auto slots = reduce_slots<Axis>(x, f);
  Fragment<Value, Reduced<typename X::Ownership, Axis>> result;
  make_static<0, R::plan.results>([&](auto r) { result[r] = slots[r]; });
  make_static<0, R::plan.lane_bits>([&](auto b) {
    constexpr int kBit = R::plan.lane_bit[decltype(b)::value];
    make_static<0, R::plan.results>(
        [&](auto r) { result[r] = static_cast<Value>(f(result[r], detail::exchange(result[r], kBit GROUT_HERE))); });
  });
  return result;
}
// Sums and maxima along an axis; of numbers and NaN, max gives the largest number.
template <int Axis, FragmentOrExpression X> GROUT_DEVICE auto sum(const X& x GROUT_AT) {
  return reduce<Axis>(x, detail::Add{} GROUT_HERE);
}
template <int Axis, FragmentOrExpression X> GROUT_DEVICE auto max(const X& x GROUT_AT) {
  return reduce<Axis>(x, detail::Larger{} GROUT_HERE);
}
template <int Axis, FragmentOrExpression X> GROUT_DEVICE auto sum_slots(const X& x) { return reduce_slots<Axis>(x, detail::Add{}); }
template <int Axis, FragmentOrExpression X> GROUT_DEVICE auto max_slots(const X& x) { return reduce_slots<Axis>(x, detail::Larger{}); }

// ---- Other ownerships, packing ---------------------------------------------------------------------------------------

// The same tile in another ownership whose values each thread holds already: an accumulator as an operand, for example. Moves
// nothing between threads; refused where that would be needed.
template <class To, FragmentOrExpression X> GROUT_DEVICE auto redistribute(const X& x) {
  static_assert(slot_map_of<To, typename X::Ownership>.exists,
                "redistribute: a thread does not hold what the other ownership asks of it; exchange through shared memory");
  return apply([](auto, auto a) { return a; }, expression<To>([](auto) { return 0; }), x);
}

// Neighbouring slots, rounded to T, two in a register: the format of 16-bit operands of mma.
template <class T, FragmentOrExpression X> GROUT_DEVICE auto pack(const X& x) {
  Fragment<uint32_t, Pairs<typename X::Ownership>> result;
  make_static<0, X::slots / 2>([&](auto r) {
    result[r] = pack<T>(static_cast<float>(x.template value<2 * decltype(r)::value>()),
                        static_cast<float>(x.template value<2 * decltype(r)::value + 1>()));
  });
  return result;
}

}  // namespace grout
