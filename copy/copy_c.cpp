// The C interface of crop and repack: checks what C cannot, then calls the entries of this directory and repack.cuh.
#include "common/c_abi.cuh"
#include "common/repack.cuh"
#include "copy/copy_c.h"
#include "copy/copy_cluster.cuh"
#include "copy/copy_load.cuh"
#include "copy/copy_ring.cuh"
#include "copy/copy_store.cuh"
#include "copy/copy_stream.cuh"
#include "copy/copy_swizzle.cuh"

namespace grout {
namespace {
Status crop_by(int32_t kernel, const CropArguments& g, cudaStream_t stream, CropPath& path) {
  switch (kernel) {
    case GROUT_CROP_BOUNDED: return crop(g, stream);
    case GROUT_CROP_STREAM: return crop_stream(g, stream, &path);
    case GROUT_CROP_LOAD: return crop_load(g, stream, &path);
    case GROUT_CROP_RING: return crop_ring(g, stream, &path);
    case GROUT_CROP_STORE: return crop_store(g, stream, &path);
    case GROUT_CROP_CLUSTER: return crop_cluster(g, stream, &path);
    case GROUT_CROP_SWIZZLE: return crop_swizzle(g, stream, &path);
    default: return check_named("kernel", kernel, {"bounded", "stream", "load", "ring", "store", "cluster", "swizzle"});
  }
}

Status check_reserved(int64_t value) {
  return value == 0 ? Status{} : invalid("reserved is " + std::to_string(value) + "; it must be 0");
}
}  // namespace
}  // namespace grout

int32_t grout_crop(const grout_crop_arguments* arguments, void* stream, int32_t* path, char* message, size_t message_bytes) {
  using namespace grout;
  static_assert(GROUT_CROP_PATH_BOUNDED == static_cast<int>(CropPath::bounded) &&
                GROUT_CROP_PATH_TENSOR == static_cast<int>(CropPath::tensor) &&
                GROUT_CROP_PATH_STREAM == static_cast<int>(CropPath::stream));
  return c_call(message, message_bytes, [&]() -> Status {
    if (Status status = check_struct("grout_crop_arguments", arguments); !status) return status;
    const grout_crop_arguments& from = *arguments;
    if (Status status = check_type("type", from.type); !status) return status;
    if (Status status = check_reserved(from.reserved); !status) return status;
    const CropArguments g = {.type = static_cast<ElementType>(from.type),
                             .source = from.source,
                             .source_rows = from.source_rows,
                             .source_cols = from.source_cols,
                             .row_stride = from.row_stride,
                             .col_stride = from.col_stride,
                             .origin = {from.origin_row, from.origin_col},
                             .destination = from.destination,
                             .rows = from.rows,
                             .cols = from.cols,
                             .ld = from.ld};
    CropPath taken = CropPath::bounded;
    if (Status status = crop_by(from.kernel, g, static_cast<cudaStream_t>(stream), taken); !status) return status;
    if (path != nullptr) *path = static_cast<int32_t>(taken);
    return {};
  });
}

int32_t grout_repack(const grout_repack_operand* operands, uint32_t count, int32_t type, int32_t programmatic, void* stream,
                     char* message, size_t message_bytes) {
  using namespace grout;
  return c_call(message, message_bytes, [&]() -> Status {
    if (Status status = check_type("type", type); !status) return status;
    if (Status status = check_named("programmatic", programmatic, {"no", "yes"}); !status) return status;
    RepackOperand taken[2];
    if (count < 1 || count > 2) return invalid("repack takes 1 or 2 operands, not " + std::to_string(count));
    for (uint32_t i = 0; i < count; ++i) {
      // The first one's size says how far apart they lie.
      if (Status status = check_struct("grout_repack_operand", operands == nullptr ? nullptr : operands + i); !status)
        return status;
      const grout_repack_operand& from = operands[i];
      if (Status status = check_reserved(from.reserved); !status) return status;
      taken[i] = RepackOperand{.source = from.source,
                               .rows = from.rows,
                               .cols = from.cols,
                               .row_stride = from.row_stride,
                               .col_stride = from.col_stride,
                               .copy = from.copy,
                               .ld = from.ld,
                               .batch = from.batch,
                               .source_batch_stride = from.source_batch_stride,
                               .copy_batch_stride = from.copy_batch_stride};
    }
    return repack({taken, count}, static_cast<ElementType>(type), static_cast<cudaStream_t>(stream), programmatic != 0);
  });
}
