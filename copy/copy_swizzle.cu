// Crops and transposes through a swizzled box, checks it, times it.   copy_swizzle 65 72 --tile 64,32 --origin -3,64
#include "copy/copy_swizzle.cuh"
#include "copy/program.cuh"

int main(int argc, char** argv) {
  return grout::crop_main(
      {.kernel = "swizzle",
       .summary = "Swizzled box: crops a rectangle from one matrix and stores its transpose; zeros outside.",
       .crop = &grout::crop_swizzle,
       .transposes = true},
      argc, argv);
}
