// Crops a rectangle out of a matrix with the bounded copy, checks it, times it.   copy_bounded 65 73 --tile 64,32 --origin 64,64
#include "copy/copy_bounded.cuh"
#include "copy/program.cuh"

int main(int argc, char** argv) {
  return grout::crop_main({.kernel = "bounded",
                           .summary = "Bounded copy: crops a rectangle, at any origin, from one matrix into another; zeros outside.",
                           .crop = [](const grout::CropArguments& g, cudaStream_t stream, grout::CropPath*) { return grout::crop(g, stream); },
                           .simulated_capability = 80},
                          argc, argv);
}
