/* Crop and repack for C, and for what calls C: see copy/crop.cuh and common/repack.cuh. Library: build/copy/libgrout_copy.so. */
#pragma once
#include "common/c_abi.h"

/* The kernels of copy/. bounded and stream take every crop; what the others cannot do they refuse, and name what can. */
enum {
  GROUT_CROP_BOUNDED = 0,
  GROUT_CROP_STREAM = 1,
  GROUT_CROP_LOAD = 2,
  GROUT_CROP_RING = 3,
  GROUT_CROP_STORE = 4,
  GROUT_CROP_CLUSTER = 5,
  GROUT_CROP_SWIZZLE = 6 /* writes the transposed rectangle: the destination is cols x rows, and ld at least rows */
};

/* How the source was read: in vectors by all threads, in boxes by the copy engine, or in plain bytes by it. */
enum { GROUT_CROP_PATH_BOUNDED = 0, GROUT_CROP_PATH_TENSOR = 1, GROUT_CROP_PATH_STREAM = 2 };

/* destination[r, c] = source[r + origin_row, c + origin_col] where that exists, else 0. */
typedef struct grout_crop_arguments {
  uint32_t size;    /* sizeof(grout_crop_arguments) */
  int32_t kernel;   /* GROUT_CROP_BOUNDED ... */
  int32_t type;     /* GROUT_BF16 ...: bits are copied as they are */
  int32_t reserved; /* 0 */
  const void* source;
  int64_t source_rows, source_cols;
  int64_t row_stride, col_stride; /* of the source, in elements; any sign */
  int64_t origin_row, origin_col; /* of the rectangle in the source; may be negative or past the end */
  void* destination;              /* row-major; no overlap with the source */
  int64_t rows, cols, ld;         /* of the rectangle; elements between rows of the destination */
} grout_crop_arguments;

/* Crops on the stream. `path` may be null; it receives GROUT_CROP_PATH_..., on GROUT_OK only. */
GROUT_C int32_t grout_crop(const grout_crop_arguments* arguments, void* stream, int32_t* path, char* message,
                           size_t message_bytes);

/* copy[b, r, c] = source[b, r, c] for r < rows, c < cols; zeros for cols <= c < ld. Strides in elements. */
typedef struct grout_repack_operand {
  uint32_t size;     /* sizeof(grout_repack_operand) */
  uint32_t reserved; /* 0 */
  const void* source;
  int64_t rows, cols;
  int64_t row_stride, col_stride; /* any sign, also 0 */
  void* copy;                     /* 16-byte aligned */
  int64_t ld;                     /* elements between rows of the copy: a multiple of 16 bytes, at least cols */
  int64_t batch;
  int64_t source_batch_stride, copy_batch_stride; /* the latter a multiple of 16 bytes */
} grout_repack_operand;

/* Copies the `count` operands (1 or 2), of elements of one type, in one launch. `programmatic` 1: may start before the kernel
 * ahead of it in the stream has ended, and waits for it before it reads; 0: not. */
GROUT_C int32_t grout_repack(const grout_repack_operand* operands, uint32_t count, int32_t type, int32_t programmatic,
                             void* stream, char* message, size_t message_bytes);
