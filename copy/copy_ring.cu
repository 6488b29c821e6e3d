// Crops with a producer warp and a ring of stages, checks it, times it.   copy_ring 650 720 --origin -3,64
#include "copy/copy_ring.cuh"
#include "copy/program.cuh"

int main(int argc, char** argv) {
  return grout::crop_main({.kernel = "ring",
                           .summary = "Ring of stages: crops a rectangle from one matrix into another; zeros outside.",
                           .crop = [](const grout::CropArguments& g, cudaStream_t stream,
                                     grout::CropPath* path) { return grout::crop_ring(g, stream, path); }},
                          argc, argv);
}
