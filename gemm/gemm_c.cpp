// The GEMM's C interface: checks what C cannot, then calls gemm.cuh.
#include "common/c_abi.cuh"
#include "gemm/gemm.cuh"
#include "gemm/gemm_c.h"

namespace grout {
namespace {
Status gemm_arguments(const grout_gemm_arguments* from, GemmArguments& g) {
  if (Status status = check_struct("grout_gemm_arguments", from); !status) return status;
  if (Status status = check_type("type", from->type); !status) return status;
  if (Status status = check_type("out", from->out); !status) return status;
  if (Status status = check_named("bounds", from->bounds, {"automatic", "checked", "none"}); !status) return status;
  if (Status status = check_named("trans_a", from->trans_a, {"no", "yes"}); !status) return status;
  if (Status status = check_named("trans_b", from->trans_b, {"no", "yes"}); !status) return status;
  static_assert(GROUT_BOUNDS_AUTO == static_cast<int>(GemmBounds::automatic) &&
                GROUT_BOUNDS_CHECKED == static_cast<int>(GemmBounds::checked) &&
                GROUT_BOUNDS_NONE == static_cast<int>(GemmBounds::none));
  g.m = from->m, g.n = from->n, g.k = from->k;
  g.type = static_cast<ElementType>(from->type), g.out = static_cast<ElementType>(from->out);
  g.trans_a = from->trans_a != 0, g.trans_b = from->trans_b != 0;
  g.a = from->a, g.b = from->b, g.c = from->c, g.d = from->d;
  g.lda = from->lda, g.ldb = from->ldb, g.ldc = from->ldc;
  g.alpha = from->alpha, g.beta = from->beta;
  g.batch = from->batch;
  g.batch_a = from->batch_a, g.batch_b = from->batch_b, g.batch_c = from->batch_c, g.batch_d = from->batch_d;
  g.bounds = static_cast<GemmBounds>(from->bounds);
  g.workspace = from->workspace, g.workspace_bytes = static_cast<size_t>(from->workspace_bytes);
  return {};
}

void report_choice(const GemmChoice& choice, grout_gemm_choice& to) {
  to.tile_m = choice.tile_m, to.tile_n = choice.tile_n, to.tile_k = choice.tile_k, to.threads = choice.threads;
  to.shared_bytes = static_cast<uint32_t>(choice.shared_bytes);
  to.tiles = choice.tiles;
  copy_text(choice.kernel, to.kernel, sizeof to.kernel);
  copy_text(choice.tiles > 0 ? gemm_path_name(choice.path) : "none", to.path, sizeof to.path);
  copy_text(choice.reason, to.reason, sizeof to.reason);
}
}  // namespace
}  // namespace grout

int32_t grout_gemm(const grout_gemm_arguments* arguments, void* stream, grout_gemm_choice* choice, char* message,
                   size_t message_bytes) {
  using namespace grout;
  return c_call(message, message_bytes, [&]() -> Status {
    GemmArguments g;
    if (Status status = gemm_arguments(arguments, g); !status) return status;
    if (Status status = choice == nullptr ? Status{} : check_struct("grout_gemm_choice", choice); !status) return status;
    GemmChoice chosen;
    if (Status status = gemm(g, static_cast<cudaStream_t>(stream), &chosen); !status) return status;
    if (choice != nullptr) report_choice(chosen, *choice);
    return {};
  });
}

int32_t grout_gemm_workspace_bytes(const grout_gemm_arguments* arguments, uint64_t* bytes, char* message,
                                   size_t message_bytes) {
  using namespace grout;
  return c_call(message, message_bytes, [&]() -> Status {
    GemmArguments g;
    if (bytes == nullptr) return invalid("bytes is null, and the answer goes there");
    *bytes = 0;
    if (Status status = gemm_arguments(arguments, g); !status) return status;
    if (Status status = gemm_check_extents(g); !status) return status;
    *bytes = gemm_workspace_bytes(g);
    return {};
  });
}
