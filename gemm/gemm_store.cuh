// What the GEMM kernels do with sums that lie in shared memory: alpha, beta * C, conversion, and stores to D that are
// coalesced whatever D's pitch and base.
#pragma once
#include "common/store.cuh"

namespace grout {

namespace detail {
// One strip, V neighbours a lane. Warp.
template <class To, int V, Bounds BoundsT, int Rows, int Columns, int Pitch, int Parts, int PartStep, class Parameters>
GROUT_DEVICE void gemm_store_strip_as(const float* strip, const Parameters& p, To* d, const To* c, Origin origin, int lane) {
  constexpr int kColumns = Columns < 32 * V ? Columns : 32 * V, kRows = 32 * V / kColumns;  // of one turn
  using Ownership = VectorTiled<kRows, kColumns, 1, V, 32>;
  const auto out = view(d, layout(shape(p.m, p.n), stride(p.ldc, 1_c)));
  const auto at = Ownership::at(lane, 0);
  // Sums in parts come from small tiles, whose time is latency.
[[maybe_unused]] constexpr int kTurns = Parts > 1 && Rows / kRows <= 8 ? Rows / kRows : 1;
#pragma unroll kTurns
  for (int row = 0; row < Rows; row += kRows) {
#pragma unroll
    for (int col = 0; col < Columns; col += kColumns) {
      Fragment<float, Ownership> values;
#pragma unroll
      for (int part = 0; part < Parts; ++part) {
        const float* from = strip + part * PartStep + (row + at[0]) * Pitch + col + at[1];
        constexpr int kWide = V < 4 ? V : 4;
#pragma unroll
        for (int i = 0; i < V; i += kWide) {
          uint32_t words[kWide];
          ptx::load_shared(words, ptx::shared_address(from + i));
#pragma unroll
          for (int j = 0; j < kWide; ++j) {
            const auto value = std::bit_cast<float>(words[j]);
            values[i + j] = part == 0 ? value : values[i + j] + value;
          }
        }
      }
#pragma unroll
      for (int i = 0; i < V; ++i) values[i] *= p.alpha;
      if (p.beta != 0) {  // else C is not read: it may be null, or hold NaN
        const int64_t c_row = origin.row + row + at[0], c_col = origin.col + col + at[1];
#pragma unroll
        for (int i = 0; i < V; ++i)
          if (BoundsT == Bounds::none || (c_row < p.m && c_col + i < p.n))
            values[i] += p.beta * to_float(c[c_row * p.ldc + c_col + i]);
      }
      store(StorePlan<To, Ownership, 1, BoundsT>{}, out, values, {origin.row + row, origin.col + col}, lane);
    }
  }
}
}  // namespace detail

// Stores one strip of Rows x Columns sums, which lies in shared memory with a pitch, to D from `origin` on: 16 bytes a lane
// where D's rows are aligned, else single elements, so that the warp still writes neighbours to neighbours. Sums may come
// in Parts, each PartStep elements behind the one before, that are added in this order. `inside`: the strip lies inside D.
// Warp.
template <Bounds BoundsT, int Rows, int Columns, int Pitch, int Parts = 1, int PartStep = 0, class Parameters>
GROUT_DEVICE void gemm_store_strip(const float* strip, const Parameters& p, int64_t batch, Origin origin, bool inside,
                                   int lane) {
  const auto store_as = [&]<class To>(To* d) {
    d += batch * p.batch_d;
    const To* c = p.beta == 0 ? nullptr : static_cast<const To*>(p.c) + batch * p.batch_c;
    constexpr int kShare = Rows * Columns / 32, kWhole = kShare & -kShare;  // a lane's, and the power of two in it
    constexpr int kMost = 16 / sizeof(To), kWide = kWhole < kMost ? kWhole : kMost;
    const auto store_by = [&](auto wide, auto bounds) {
      detail::gemm_store_strip_as<To, wide, bounds, Rows, Columns, Pitch, Parts, PartStep>(strip, p, d, c, origin, lane);
    };
    using None = std::integral_constant<Bounds, Bounds::none>;
    using Checked = std::integral_constant<Bounds, Bounds::checked>;
    if (!detail::is_aligned(d, 16) || p.ldc % kWide != 0) store_by(Int<1>{}, std::integral_constant<Bounds, BoundsT>{});
    else if (BoundsT == Bounds::none || inside) store_by(Int<kWide>{}, None{});
    else store_by(Int<kWide>{}, Checked{});
  };
  if (p.out == ElementType::bf16) store_as(static_cast<bf16*>(p.d));
  else if (p.out == ElementType::f16) store_as(static_cast<f16*>(p.d));
  else store_as(static_cast<float*>(p.d));
}

}  // namespace grout
