// Crops with tensor loads and stores, checks it, times it.   copy_store 650 720 --origin -3,64
#include "copy/copy_store.cuh"
#include "copy/program.cuh"

int main(int argc, char** argv) {
  return grout::crop_main({.kernel = "store",
                           .summary = "Tensor store: crops a rectangle from one matrix into another; zeros outside.",
                           .crop = &grout::crop_store},
                          argc, argv);
}
