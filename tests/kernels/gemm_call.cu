// The one place in the tests where the GEMM kernels are instantiated.
#include "tests/kernels/gemm_call.cuh"

#include "gemm/gemm.cuh"
#include "tests/kernels/gemm_call_arguments.cuh"

namespace grout::test {

size_t workspace_bytes(const GemmCall& x) { return gemm_workspace_bytes(arguments(x)); }

Status run_gemm(const GemmCall& x, cudaStream_t stream, GemmChosen* chosen, const GemmChosen* forced) {
  const GemmArguments g = arguments(x);
  GemmChoice earlier;
  if (forced != nullptr) {
    earlier.kernel = forced->kernel.c_str();
    earlier.tile_m = forced->tile_m, earlier.tile_n = forced->tile_n, earlier.tile_k = forced->tile_k;
    for (const GemmPath path : {GemmPath::aligned, GemmPath::bounded, GemmPath::realign, GemmPath::repack})
      if (forced->path == gemm_path_name(path)) earlier.path = path;
  }
  if (chosen == nullptr) return gemm(g, stream, nullptr, forced == nullptr ? nullptr : &earlier);
  GemmChoice choice;
  Status status = gemm(g, stream, &choice, forced == nullptr ? nullptr : &earlier);
  *chosen = {choice.kernel, gemm_path_name(choice.path), choice.tile_m, choice.tile_n, choice.tile_k, choice.tiles,
             choice.resident};
  return status;
}

namespace {
template <class T> void append(std::vector<ReachableKernel>& all) {
  for (const bool trans_a : {false, true})
    for (const bool trans_b : {false, true})
      for (const auto& v : detail::gemm_mma_variants<T>(trans_a, trans_b))
        all.push_back({reinterpret_cast<const void*>(v.kernel), element_type<T>, trans_a, trans_b,
                       gemm_path_name(v.path), v.tile_m, v.tile_n, v.tile_k});
}
}  // namespace

std::vector<ReachableKernel> reachable_gemm_kernels() {
  std::vector<ReachableKernel> all;
  append<bf16>(all);
  append<f16>(all);
  for (const bool trans_a : {false, true})
    for (const bool trans_b : {false, true})
      for (const auto& v : detail::gemm_simt_variants(trans_a, trans_b)) {
        const auto add = [&](void (*kernel)(GemmSimtParameters), const char* loads) {
          all.push_back({reinterpret_cast<const void*>(kernel), ElementType::f32, trans_a, trans_b, loads, v.tile_m, v.tile_n, v.tile_k});
        };
        add(v.kernel, "elements");
        if (v.vectors_kernel != v.kernel) add(v.vectors_kernel, "vectors");
      }
  all.push_back({reinterpret_cast<const void*>(&repack_kernel<2>), ElementType::bf16, false, false, "repack", 325, 325, 0});
  all.push_back({reinterpret_cast<const void*>(&repack_kernel<4>), ElementType::f32, false, false, "repack", 128, 128, 0});
  return all;
}

}  // namespace grout::test
