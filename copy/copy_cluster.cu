// Crops with clusters of two blocks, checks it, times it.   copy_cluster 650 720 --origin -3,64
#include "copy/copy_cluster.cuh"
#include "copy/program.cuh"

int main(int argc, char** argv) {
  return grout::crop_main(
      {.kernel = "cluster",
       .summary =
           "Cluster: crops a rectangle from one matrix into another by blocks that share what they load; zeros outside.",
       .crop = [](const grout::CropArguments& g, cudaStream_t stream,
                  grout::CropPath* path) { return grout::crop_cluster(g, stream, path); }},
      argc, argv);
}
