// Crops at memory speed, whatever the alignment, checks it, times it.   copy_stream 1003 1003 --tile 1000,1000 --origin 1,1
#include "copy/copy_stream.cuh"
#include "copy/program.cuh"

int main(int argc, char** argv) {
  return grout::crop_main({.kernel = "stream",
                           .summary = "Bounded crop at memory speed: a rectangle, at any origin, from one matrix into another; zeros outside.",
                           .crop = &grout::crop_stream},
                          argc, argv);
}
