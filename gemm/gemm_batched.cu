// Runs the single-stage fp32 GEMM on one problem, checks it, times it.   gemm_batched 65 97 73 --layout nt --max-copy-batch
// 4
#include "gemm/gemm_batched.cuh"
#include "gemm/program.cuh"

int main(int argc, char** argv) {
  using namespace grout;
  GemmBatchedPolicy policy;
  GemmBatchedReport done;
  return gemm_main(
      {.kernel = "batched",
       .summary = "Single-stage fp32 GEMM: D = alpha * A * B + beta * C by batched copies; any shape, pitch and alignment.",
       .kernels = {{"auto", GemmKernel::automatic}, {"batched", GemmKernel::automatic}},
       .type = ElementType::f32,
       .gemm =
           [&](const GemmArguments& g, cudaStream_t stream, GemmChoice* choice) {
             const Status status = gemm_batched(g, policy, stream, &done);
             if (choice != nullptr) *choice = done.choice;
             return status;
           },
       .options =
           [&](Args& args) {
             policy.max_copy_batch = static_cast<int>(args.integer(
                 "max-copy-batch", "elements that a thread loads before it stores the first", 1, 1, kMaxCopyBatch));
             policy.tile = args.choice<GemmBatchedTiles>("tile", "of a block; all but 64x64x32 are pilots",
                                                         {{"64x64x32", GemmBatchedTiles::m64n64k32},
                                                          {"64x64x16", GemmBatchedTiles::m64n64k16},
                                                          {"32x64x32", GemmBatchedTiles::m32n64k32}},
                                                         GemmBatchedTiles::m64n64k32);
           },
       .print =
           [&](const GemmChoice&) {
             std::printf("%s%s\n", done.pilot ? "pilot; " : "", batch_text({done.a, done.b}).c_str());
           }},
      argc, argv);
}
