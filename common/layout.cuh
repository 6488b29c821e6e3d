// Layouts: maps from coordinates to offsets. Pure C++20, the same on host and device; nothing here touches memory.
//
// A layout has a shape and strides, both trees of integers. Each integer is static (Int<64>, written 64_c), a fact in the
// type, or dynamic (int, int64_t), a value known when the kernel runs. Literals marked _c become static; anything else
// keeps the type it has, so a kernel argument never pretends to be static.
//
//   auto a = layout(shape(m, k), stride(ld, 1_c));      a(row, column) = row * ld + column
//   auto tile = compose(Swizzle128B<bf16>{}, row_major(shape(64_c, 64_c)));
//   auto quarter = window(tile, coord(32, 32), shape(32_c, 32_c));     same base, same swizzle phase
//
// One integer coordinate addresses a whole mode in colexicographic order (first mode fastest), as in CuTe.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace grout {

// ---- static integers --------------------------------------------------------------------------------------------

// A static integer. Converts to int where it fits, so that static strides do not widen 32-bit coordinates.
template <int64_t V> struct Int {
  static constexpr int64_t value = V;
  using Value = std::conditional_t<V >= INT32_MIN && V <= INT32_MAX, int, int64_t>;
  constexpr operator Value() const { return static_cast<Value>(V); }
};

template <char... Digits> constexpr auto operator""_c() {
  constexpr int64_t value = [] {
    int64_t v = 0;
    ((v = v * 10 + (Digits - '0')), ...);
    return v;
  }();
  static_assert(((Digits >= '0' && Digits <= '9') && ...), "_c marks a decimal integer literal");
  return Int<value>{};
}

template <class T> inline constexpr bool is_static = false;
template <int64_t V> inline constexpr bool is_static<Int<V>> = true;

template <int64_t A, int64_t B> constexpr Int<A + B> operator+(Int<A>, Int<B>) { return {}; }
template <int64_t A, int64_t B> constexpr Int<A - B> operator-(Int<A>, Int<B>) { return {}; }
template <int64_t A, int64_t B> constexpr Int<A * B> operator*(Int<A>, Int<B>) { return {}; }

// ---- tuples -----------------------------------------------------------------------------------------------------

namespace detail {
template <size_t I, class T> struct Leaf {
  T value;
};
template <size_t I, int64_t V> struct Leaf<I, Int<V>> {  // nothing to store, however often V occurs
  constexpr Leaf() = default;
  constexpr Leaf(Int<V>) {}
};
template <class Indices, class... Ts> struct TupleBase;
template <size_t... Is, class... Ts> struct TupleBase<std::index_sequence<Is...>, Ts...> : Leaf<Is, Ts>... {
  constexpr TupleBase() = default;
  constexpr TupleBase(Ts... values) : Leaf<Is, Ts>{values}... {}
};
template <size_t I, class T> constexpr T leaf(const Leaf<I, T>& l) {
  if constexpr (is_static<T>) return {};
  else return l.value;
}
}  // namespace detail

// A tuple whose static members take no space; usable in device code.
template <class... Ts> struct Tuple : detail::TupleBase<std::index_sequence_for<Ts...>, Ts...> {
  using detail::TupleBase<std::index_sequence_for<Ts...>, Ts...>::TupleBase;
  static constexpr size_t rank = sizeof...(Ts);
};
template <size_t I, class... Ts> constexpr auto get(const Tuple<Ts...>& t) { return detail::leaf<I>(t); }

template <class T> inline constexpr bool is_tuple = false;
template <class... Ts> inline constexpr bool is_tuple<Tuple<Ts...>> = true;

template <class... Ts> constexpr Tuple<Ts...> shape(Ts... extents) { return {extents...}; }
template <class... Ts> constexpr Tuple<Ts...> stride(Ts... strides) { return {strides...}; }
template <class... Ts> constexpr Tuple<Ts...> coord(Ts... coordinates) { return {coordinates...}; }

namespace detail {
template <class T> struct FullyStatic : std::bool_constant<is_static<T>> {};
template <class... Ts> struct FullyStatic<Tuple<Ts...>> : std::bool_constant<(FullyStatic<Ts>::value && ...)> {};

template <class A, class B> struct Congruent : std::bool_constant<!is_tuple<A> && !is_tuple<B>> {};
template <class... As, class... Bs> struct Congruent<Tuple<As...>, Tuple<Bs...>> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(As) == sizeof...(Bs)) return (Congruent<As, Bs>::value && ...);
    else return false;
  }();
};

// Product of all extents of a (nested) shape.
template <class S> constexpr auto product(const S& s) {
  if constexpr (is_tuple<S>) {
    return [&]<size_t... I>(std::index_sequence<I...>) { return (Int<1>{} * ... * product(get<I>(s))); }
    (std::make_index_sequence<S::rank>{});
  } else {
    return s;
  }
}

// Offset of coordinate c in a mode of shape s and strides d. An integer c on a nested mode counts colexicographically.
template <class C, class S, class D> constexpr auto offset_of(const C& c, const S& s, const D& d);

template <size_t I, class C, class S, class D> constexpr auto offset_of_index(const C& c, const S& s, const D& d) {
  if constexpr (I + 1 == S::rank) {
    return offset_of(c, get<I>(s), get<I>(d));
  } else {
    const auto extent = product(get<I>(s));
    return offset_of(c % extent, get<I>(s), get<I>(d)) + offset_of_index<I + 1>(c / extent, s, d);
  }
}
template <class C, class S, class D> constexpr auto offset_of(const C& c, const S& s, const D& d) {
  if constexpr (is_tuple<C>) {
    static_assert(is_tuple<S>, "a coordinate may not be more deeply nested than the shape");
    static_assert(C::rank == S::rank, "a coordinate needs one entry for each mode of the shape");
    return [&]<size_t... I>(std::index_sequence<I...>) { return (offset_of(get<I>(c), get<I>(s), get<I>(d)) + ...); }
    (std::make_index_sequence<S::rank>{});
  } else if constexpr (is_tuple<S>) {
    if constexpr (is_static<C>) return offset_of_index<0>(static_cast<typename C::Value>(c), s, d);
    else return offset_of_index<0>(c, s, d);
  } else {
    return c * d;
  }
}
}  // namespace detail

// ---- layouts ----------------------------------------------------------------------------------------------------

// offset = sum of coordinate * stride. Shape and Stride are congruent tuples; a mode may itself be a tuple.
template <class Shape, class Stride> struct Layout {
  static_assert(is_tuple<Shape> && is_tuple<Stride>, "a layout needs a shape(...) and a stride(...)");
  static_assert(detail::Congruent<Shape, Stride>::value, "a layout's shape and stride must have the same structure");
  [[no_unique_address]] Shape extents;
  [[no_unique_address]] Stride strides;

  static constexpr size_t rank = Shape::rank;
  static constexpr bool fully_static = detail::FullyStatic<Shape>::value && detail::FullyStatic<Stride>::value;

  template <class... Cs> constexpr auto operator()(Cs... cs) const {
    if constexpr (sizeof...(Cs) == 1 && rank != 1) return detail::offset_of((cs, ...), extents, strides);
    else return detail::offset_of(Tuple<Cs...>(cs...), extents, strides);
  }
  template <size_t I> constexpr auto extent() const { return detail::product(get<I>(extents)); }
  template <size_t I> constexpr auto stride() const { return get<I>(strides); }
  constexpr auto size() const { return detail::product(extents); }
};

template <class Shape, class Stride> constexpr Layout<Shape, Stride> layout(Shape shape, Stride stride) {
  return {shape, stride};
}
// Compact two-dimensional layouts.
template <class R, class C> constexpr auto row_major(Tuple<R, C> s) { return layout(s, Tuple<C, Int<1>>(get<1>(s), {})); }
template <class R, class C> constexpr auto col_major(Tuple<R, C> s) { return layout(s, Tuple<Int<1>, R>({}, get<0>(s))); }

template <class T> inline constexpr bool is_layout = false;
template <class S, class D> inline constexpr bool is_layout<Layout<S, D>> = true;

// ---- swizzles ---------------------------------------------------------------------------------------------------

// XORs `Bits` bits of an offset, those from position Base, with the bits that lie Shift higher:
//
//   offset   ....  y y y  ....  x x x  m m m m          Base = number of m, Bits = number of x
//                  |_____________^ (XOR)                 Shift = distance from x to y
//
// A bijection of every aligned block of 2^(Base + Shift + Bits) offsets onto itself.
template <int Bits, int Base, int Shift> struct Swizzle {
  static_assert(Bits >= 0 && Base >= 0, "a swizzle has no negative number of bits");
  static_assert(Shift >= Bits, "a swizzle's source bits must lie above its target bits: Shift >= Bits");
  static constexpr int64_t period = int64_t{1} << (Base + Shift + Bits);  // offsets after which the pattern repeats
  static constexpr int contiguous = 1 << Base;                            // neighbours that stay neighbours
  template <class I> constexpr I operator()(I offset) const {
    constexpr I kMask = static_cast<I>(((int64_t{1} << Bits) - 1) << Base);
    return offset ^ ((offset >> Shift) & kMask);
  }
};
using NoSwizzle = Swizzle<0, 0, 0>;

namespace detail {
constexpr int log2_exact(size_t v) { return v <= 1 ? 0 : 1 + log2_exact(v / 2); }
}
// The swizzles of shared-memory tiles (the same bits as TMA and wgmma use), on element offsets: 16-byte chunks within
// a 128-, 64- or 32-byte span, XORed with the number of the 128-byte line.
template <class T> using Swizzle128B = Swizzle<3, 4 - detail::log2_exact(sizeof(T)), 3>;
template <class T> using Swizzle64B = Swizzle<2, 4 - detail::log2_exact(sizeof(T)), 3>;
template <class T> using Swizzle32B = Swizzle<1, 4 - detail::log2_exact(sizeof(T)), 3>;

// A layout, moved to an origin, then swizzled: offset = swizzle(origin + layout(coordinate)). The origin is applied
// before the swizzle, so a window keeps the allocation's base and the swizzle's phase.
template <class SwizzleT, class Origin, class LayoutT> struct ComposedLayout {
  [[no_unique_address]] SwizzleT swizzle;
  [[no_unique_address]] Origin origin;
  [[no_unique_address]] LayoutT inner;

  static constexpr size_t rank = LayoutT::rank;
  static constexpr bool fully_static = LayoutT::fully_static && is_static<Origin>;
  template <class... Cs> constexpr auto operator()(Cs... cs) const {
    const auto offset = origin + inner(cs...);
    if constexpr (is_static<std::remove_const_t<decltype(offset)>>) {
      return swizzle(static_cast<typename std::remove_const_t<decltype(offset)>::Value>(offset));
    } else {
      return swizzle(offset);
    }
  }
  template <size_t I> constexpr auto extent() const { return inner.template extent<I>(); }
  template <size_t I> constexpr auto stride() const { return inner.template stride<I>(); }
  constexpr auto size() const { return inner.size(); }
};
template <class T> inline constexpr bool is_composed = false;
template <class S, class O, class L> inline constexpr bool is_composed<ComposedLayout<S, O, L>> = true;

// The swizzle of a layout (NoSwizzle for a plain one) as a type.
template <class T> struct SwizzleOf { using type = NoSwizzle; };
template <class S, class O, class L> struct SwizzleOf<ComposedLayout<S, O, L>> { using type = S; };

// ---- composition ------------------------------------------------------------------------------------------------

template <int Bits, int Base, int Shift, class S, class D>
constexpr auto compose(Swizzle<Bits, Base, Shift> swizzle, Layout<S, D> inner) {
  return ComposedLayout<Swizzle<Bits, Base, Shift>, Int<0>, Layout<S, D>>{swizzle, {}, inner};
}
template <int Bits, int Base, int Shift, class S, class O, class L>
constexpr auto compose(Swizzle<Bits, Base, Shift>, ComposedLayout<S, O, L>) {
  static_assert(sizeof(L) == 0, "compose: this layout is swizzled already; a tile has one swizzle, applied last");
}

namespace detail {
inline constexpr int kMaxModes = 8;
struct Modes {  // a flat list of (extent, stride)
  int count = 0;
  int64_t extent[kMaxModes] = {}, stride[kMaxModes] = {};
  int64_t reach[kMaxModes] = {};  // of a composition: the highest coordinate it reaches in each mode of the outer layout
  bool ok = true;                 // false: the composition does not exist as a layout
  constexpr void push(int64_t e, int64_t s) { extent[count] = e, stride[count] = s, ++count; }
};
template <class S, class D> constexpr void flatten(Modes& modes) {
  if constexpr (is_tuple<S>) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      (flatten<decltype(get<I>(S{})), decltype(get<I>(D{}))>(modes), ...);
    }
    (std::make_index_sequence<S::rank>{});
  } else {
    modes.push(S::value, D::value);
  }
}
// `outer` after one mode (extent : stride) of the inner layout. Exists if the stride skips whole extents of the outer
// modes and the extent fills whole ones, up to the last; the outer layout's last mode counts as unbounded.
constexpr Modes compose_mode(const Modes& outer, int64_t extent, int64_t stride) {
  Modes result;
  if (extent == 1 || stride == 0) {
    result.push(extent, 0);
    return result;
  }
  if (stride < 0 && outer.count > 1) return result.ok = false, result;  // coordinates below zero have no modes
  for (int i = 0; i < outer.count && extent > 1; ++i) {
    const bool last = i + 1 == outer.count;
    int64_t available = outer.extent[i], step = outer.stride[i];
    if (!last && stride >= available) {  // this mode is skipped whole
      if (stride % available != 0) return result.ok = false, result;
      stride /= available;
      continue;
    }
    if (!last && available % stride != 0) return result.ok = false, result;
    const int64_t here = last ? extent : available / stride;
    const int64_t taken = extent < here ? extent : here;
    if (extent % taken != 0) return result.ok = false, result;
    result.push(taken, step * stride);
    result.reach[i] = (taken - 1) * stride;
    extent /= taken;
    stride = 1;
  }
  return result;
}
// The same function in as few modes as possible: neighbours that continue each other become one.
constexpr Modes coalesce(const Modes& modes) {
  Modes result;
  for (int i = 0; i < modes.count; ++i) {
    if (modes.extent[i] == 1 && i + 1 < modes.count) continue;
    const int back = result.count - 1;
    if (back >= 0 && modes.stride[i] == result.extent[back] * result.stride[back]) result.extent[back] *= modes.extent[i];
    else result.push(modes.extent[i], modes.stride[i]);
  }
  return result;
}
// Do the inner layout's modes add up inside each mode of the outer layout, without a carry into the next?
constexpr bool adds_up(const Modes& outer, const Modes& shape, const Modes& stride) {
  int64_t reach[kMaxModes] = {};
  for (int inner = 0; inner < shape.count; ++inner) {
    const Modes mode = compose_mode(outer, shape.extent[inner], stride.stride[inner]);
    for (int i = 0; i + 1 < outer.count; ++i) reach[i] += mode.reach[i];
  }
  for (int i = 0; i + 1 < outer.count; ++i)
    if (reach[i] >= outer.extent[i]) return false;
  return true;
}
template <Modes M> constexpr auto as_mode_shape() {
  if constexpr (M.count == 1) return Int<M.extent[0]>{};
  else return []<size_t... I>(std::index_sequence<I...>) { return Tuple<Int<M.extent[I]>...>{}; }
  (std::make_index_sequence<M.count>{});
}
template <Modes M> constexpr auto as_mode_stride() {
  if constexpr (M.count == 1) return Int<M.stride[0]>{};
  else return []<size_t... I>(std::index_sequence<I...>) { return Tuple<Int<M.stride[I]>...>{}; }
  (std::make_index_sequence<M.count>{});
}
template <class S> constexpr Modes mode_list() {  // top-level modes of the inner layout must be leaves
  Modes m;
  flatten<S, S>(m);
  return m;
}
}  // namespace detail

// Functional composition: compose(outer, inner)(i) = outer(inner(i)), as a layout with inner's modes.
template <class S, class D, class S2, class D2> constexpr auto compose(Layout<S, D>, Layout<S2, D2>) {
  static_assert(Layout<S, D>::fully_static && Layout<S2, D2>::fully_static,
                "compose: layouts compose at compile time; mark their extents and strides static (64_c)");
  constexpr detail::Modes kOuter = [] {
    detail::Modes m;
    detail::flatten<S, D>(m);
    return detail::coalesce(m);
  }();
  constexpr detail::Modes kShape = detail::mode_list<S2>(), kStride = detail::mode_list<D2>();
  static_assert(kShape.count == static_cast<int>(S2::rank), "compose: the inner layout's modes must not be nested");
  return [&]<size_t... I>(std::index_sequence<I...>) {
    static_assert((detail::compose_mode(kOuter, kShape.extent[I], kStride.extent[I]).ok && ...),
                  "compose: the inner layout's strides and extents must divide the outer layout's extents");
    static_assert(detail::adds_up(kOuter, kShape, kStride),
                  "compose: the inner layout's modes must add up within the outer layout's extents, without a carry");
    return layout(
        shape(detail::as_mode_shape<detail::compose_mode(kOuter, kShape.extent[I], kStride.extent[I])>()...),
        stride(detail::as_mode_stride<detail::compose_mode(kOuter, kShape.extent[I], kStride.extent[I])>()...));
  }
  (std::make_index_sequence<S2::rank>{});
}
template <class S, class D, class W, class O, class L> constexpr auto compose(Layout<S, D>, ComposedLayout<W, O, L>) {
  static_assert(sizeof(L) == 0, "compose: a layout cannot follow a swizzle; compose the layouts first, then the swizzle");
}

// ---- windows and tiles ------------------------------------------------------------------------------------------

// The part of `l` that starts at `origin` and has `extents`. Coordinates of the window start at zero; the allocation's
// base stays, and the origin is applied before the swizzle. Nothing is clipped.
template <class S, class D, class C, class E> constexpr auto window(Layout<S, D> l, C origin, E extents) {
  static_assert(E::rank == S::rank && C::rank == S::rank, "window: origin and shape need one entry for each mode");
  const auto at = detail::offset_of(origin, l.extents, l.strides);
  return ComposedLayout<NoSwizzle, std::remove_const_t<decltype(at)>, Layout<E, D>>{{}, at, {extents, l.strides}};
}
template <class W, class O, class S, class D, class C, class E>
constexpr auto window(ComposedLayout<W, O, Layout<S, D>> l, C origin, E extents) {
  static_assert(E::rank == S::rank && C::rank == S::rank, "window: origin and shape need one entry for each mode");
  const auto at = l.origin + detail::offset_of(origin, l.inner.extents, l.inner.strides);
  return ComposedLayout<W, std::remove_const_t<decltype(at)>, Layout<E, D>>{
      l.swizzle, at, {extents, l.inner.strides}};
}

// Tile `index` of the tiling of `l` by `extents`: the window at origin index * extents.
template <class L, class C, class E> constexpr auto tile(L l, C index, E extents) {
  static_assert(C::rank == E::rank, "tile: index and shape need one entry for each mode");
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return window(l, coord(get<I>(index) * get<I>(extents)...), extents);
  }
  (std::make_index_sequence<E::rank>{});
}

}  // namespace grout
