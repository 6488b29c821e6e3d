// Compiled with the pinned revision's folder and a copy of pinned.h as its only include paths, and with -Dgrout=grout_pinned: every
// `grout` below, and in those headers, is the namespace grout_pinned.
#include "gemm/gemm_mma.cuh"

#include <span>

#include "compare/pinned.h"

// The aligned bf16 kernels only. Told before gemm.cuh defines the template, which would compile every path of both types.
namespace grout {
template <class T>
struct GemmMmaVariant;
namespace detail {
template <class T>
std::span<const GemmMmaVariant<T>> gemm_mma_variants(bool trans_a, bool trans_b);
template <>
std::span<const GemmMmaVariant<bf16>> gemm_mma_variants<bf16>(bool trans_a, bool trans_b);
template <>
std::span<const GemmMmaVariant<f16>> gemm_mma_variants<f16>(bool trans_a, bool trans_b);
}  // namespace detail
}  // namespace grout

#include "gemm/gemm.cuh"

namespace grout::detail {
namespace {
// With the rates and blocks a multiprocessor of the revision's own list, so that it chooses the tile that it chose.
template <bool TransA, bool TransB>
std::span<const GemmMmaVariant<bf16>> aligned_variants() {
  constexpr GemmPath kPath = GemmPath::aligned;
  static const std::array<GemmMmaVariant<bf16>, 3> list = {{
      gemm_variant<bf16, TransA, TransB, kPath, GemmTileLarge>(1.0, 1),
      gemm_variant<bf16, TransA, TransB, kPath, GemmTileMedium>(0.93, 2),
      gemm_variant<bf16, TransA, TransB, kPath, GemmTileSmall>(0.55, 4),
  }};
  return list;
}
}  // namespace

template <>
std::span<const GemmMmaVariant<bf16>> gemm_mma_variants<bf16>(bool trans_a, bool trans_b) {
  return trans_a ? (trans_b ? aligned_variants<true, true>() : aligned_variants<true, false>())
                 : (trans_b ? aligned_variants<false, true>() : aligned_variants<false, false>());
}
template <>
std::span<const GemmMmaVariant<f16>> gemm_mma_variants<f16>(bool, bool) {
  return {};
}
}  // namespace grout::detail

namespace pinned {

std::string commit() {
  return GROUT_PINNED_COMMIT;
}

std::string missing() {
  return {};
}

std::string gemm(const Gemm& g, Chosen* chosen) {
  const grout::GemmArguments arguments = {.m = g.m,
                                          .n = g.n,
                                          .k = g.k,
                                          .trans_a = g.trans_a,
                                          .trans_b = g.trans_b,
                                          .a = g.a,
                                          .b = g.b,
                                          .d = g.d,
                                          .lda = g.lda,
                                          .ldb = g.ldb,
                                          .ldc = g.ldc,
                                          .bounds = grout::GemmBounds::none};
  grout::GemmChoice choice;
  grout::Status status = grout::gemm(arguments, static_cast<cudaStream_t>(g.stream), &choice);
  if (status && chosen != nullptr && choice.tiles > 0)
    *chosen = {grout::gemm_path_name(choice.path), choice.tile_m, choice.tile_n, choice.tile_k};
  return std::move(status.message);
}

}  // namespace pinned
