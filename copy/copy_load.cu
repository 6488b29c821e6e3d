// Crops with one tensor load a block, checks it, times it.   copy_load 65 72 --tile 64,32 --origin -3,64
#include "copy/copy_load.cuh"
#include "copy/program.cuh"

int main(int argc, char** argv) {
  return grout::crop_main({.kernel = "load",
                           .summary = "Tensor load: crops a rectangle from one matrix into another; zeros outside.",
                           .crop = &grout::crop_load},
                          argc, argv);
}
