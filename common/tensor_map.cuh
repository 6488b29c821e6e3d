// Tensor maps: what the copy engine knows of a matrix. One host function makes them, and checks every rule first.
//
// RULES (PTX ISA 5.5, cuTensorMapEncodeTiled), for elements of 2 or 4 bytes; dimension 0 is the fastest.
//   rank     1 to 3
//   base     a multiple of 16 bytes, not null
//   extents  1 to 2^32 elements each
//   pitches  of dimensions 1 and 2: multiples of 16 bytes, at least a row (a slice) long, below 2^40
//   box      1 to 256 elements each; dimension 0: a multiple of 16 bytes, and with a swizzle at most its span (32, 64, 128 bytes)
//   start    of a copy in dimension 0: a multiple of 16 bytes (`check_tensor_start`); in the others anything
#pragma once
#include "common/launch.cuh"
#include "common/numeric.cuh"

namespace grout {

enum class TensorSwizzle { none, b32, b64, b128 };

// Where a box may start in shared memory: the swizzle's period, at least 128 bytes.
constexpr int tensor_box_alignment(TensorSwizzle swizzle) {
  return swizzle == TensorSwizzle::b128 ? 1024 : swizzle == TensorSwizzle::b64 ? 512 : swizzle == TensorSwizzle::b32 ? 256 : 128;
}

struct TensorMapArguments {
  ElementType type = ElementType::bf16;
  const void* base = nullptr;
  int rank = 2;
  int64_t extents[3] = {1, 1, 1};   // elements
  int64_t pitches[3] = {0, 0, 0};   // bytes between neighbours; [0] is not used: elements of dimension 0 are contiguous
  int box[3] = {1, 1, 1};           // elements
  TensorSwizzle swizzle = TensorSwizzle::none;
};

}  // namespace grout
