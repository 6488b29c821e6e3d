// Crops by batches of single elements, checks it, times it.   copy_batched 65 73 --tile 64,32 --max-copy-batch 4
#include "copy/copy_batched.cuh"
#include "copy/program.cuh"

int main(int argc, char** argv) {
  using namespace grout;
  int batch = 1, workers = 256;
  BatchReport report;
  return crop_main(
      {.kernel = "batched",
       .summary = "Batched copy: crops a rectangle, at any origin, by single elements, several of them in flight; "
                  "zeros outside.",
       .crop = [&](const CropArguments& g, cudaStream_t stream,
                   CropPath*) { return crop_batched(g, batch, workers, stream, &report); },
       .simulated_capability = 80,
       .options =
           [&](Args& args) {
             batch = static_cast<int>(args.integer(
                 "max-copy-batch", "elements that a thread loads before it stores the first", 1, 1, kMaxCopyBatch));
             workers = args.choice<int>("workers", "threads of a block", {{"32", 32}, {"48", 48}, {"256", 256}}, 256);
           },
       .print = [&] { std::printf("%s\n", batch_text({report}).c_str()); }},
      argc, argv);
}
