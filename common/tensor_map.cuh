// Tensor maps: what the copy engine knows of a matrix. One host function makes them, and checks every rule first.
//
// RULES (PTX ISA 5.5, cuTensorMapEncodeTiled), for elements of 2 or 4 bytes; dimension 0 is the fastest.
//   rank     1 to 3
//   base     a multiple of 16 bytes, not null
//   extents  1 to 2^32 elements each
//   pitches  of dimensions 1 and 2: multiples of 16 bytes below 2^40
//   overlap  none: a pitch is at least a row long, and the longer one of two at least a slice of the shorter; either may be
//            the longer (heads beside one another in a row). A dimension of one element makes no slice
//   box      1 to 256 elements each; dimension 0: a multiple of 16 bytes, and with a swizzle exactly its span (32, 64, 128
//            bytes); all of it at most 227 KB, the shared memory that a block can have
//   start    of a copy in dimension 0: a multiple of 16 bytes, within int32 (`check_tensor_start`); in the others any int32;
//            of a store 0 or more in each
// Overlap, the null base, the bytes of a box and its row of exactly a span are rules of ours, the others the driver's: it takes
// rows shorter than the span, but the engine then leaves a gap behind each, so that the box is not dense (seen on sm_90). A box
// may exceed the extents.
#pragma once
#include <cstdio>

#include "common/launch.cuh"
#include "common/numeric.cuh"

namespace grout {

enum class TensorSwizzle { none, b32, b64, b128 };

// Bytes within which a swizzle moves 16-byte chunks; 0: none.
constexpr int swizzle_span(TensorSwizzle swizzle) {
  return swizzle == TensorSwizzle::none ? 0 : 16 << static_cast<int>(swizzle);
}
constexpr const char* swizzle_name(TensorSwizzle swizzle) {
  return swizzle == TensorSwizzle::b128  ? "128B"
         : swizzle == TensorSwizzle::b64 ? "64B"
         : swizzle == TensorSwizzle::b32 ? "32B"
                                         : "none";
}

// Where a box may start in shared memory: the swizzle's period, at least 128 bytes.
constexpr int tensor_box_alignment(TensorSwizzle swizzle) {
  return swizzle == TensorSwizzle::b128  ? 1024
         : swizzle == TensorSwizzle::b64 ? 512
         : swizzle == TensorSwizzle::b32 ? 256
                                         : 128;
}

inline constexpr int kTensorBoxBytes = 227 * 1024;  // shared memory of a block of compute capability 9.0 and 10.0

struct TensorMapArguments {
  ElementType type = ElementType::bf16;
  const void* base = nullptr;
  int rank = 2;
  int64_t extents[3] = {1, 1, 1};  // elements
  int64_t pitches[3] = {0, 0, 0};  // bytes between neighbours; [0] is not used: elements of dimension 0 are contiguous
  int box[3] = {1, 1, 1};          // elements
  TensorSwizzle swizzle = TensorSwizzle::none;
};

// All arguments in one line, for messages.
inline std::string describe(const TensorMapArguments& a) {
  const int rank = a.rank >= 1 && a.rank <= 3 ? a.rank : 3;  // a wrong rank: all that there is
  const auto list = [&](const auto& values, int first) {
    std::string s;
    for (int i = first; i < rank; ++i) s += (i > first ? " x " : "") + std::to_string(values[i]);
    return s;
  };
  char base[32];
  std::snprintf(base, sizeof base, "0x%llx", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(a.base)));
  return std::string(element_name(a.type)) + ", base " + base + " (" +
         std::to_string(reinterpret_cast<uintptr_t>(a.base) % 16) + " mod 16), rank " + std::to_string(a.rank) +
         ", extents " + list(a.extents, 0) + ", pitches " + (rank == 1 ? "none" : list(a.pitches, 1)) +
         (rank == 1 ? "" : " bytes") + ", box " + list(a.box, 0) + ", swizzle " + swizzle_name(a.swizzle);
}

// Every rule above but `start`. Asks no device.
inline Status check_tensor_map(const TensorMapArguments& a) {
  const auto refuse = [&](const std::string& what, const std::string& accepted) {
    return invalid("tensor map: " + what + ", accepted is " + accepted + " (" + describe(a) + ")");
  };
  const auto of = [](const char* what, int i) { return std::string(what) + " of dimension " + std::to_string(i); };
  const auto number = [](int64_t value) { return std::to_string(value); };
  const auto bytes = static_cast<int64_t>(element_bytes(a.type));
  if (a.rank < 1 || a.rank > 3) return refuse("the rank is " + number(a.rank), "1 to 3");
  if (a.base == nullptr) return refuse("the base is null", "an address that is a multiple of 16 bytes");
  if (const auto off = reinterpret_cast<uintptr_t>(a.base) % 16; off != 0)
    return refuse("the base lies " + std::to_string(off) + " bytes behind a multiple of 16", "a multiple of 16 bytes");
  for (int i = 0; i < a.rank; ++i)
    if (a.extents[i] < 1 || a.extents[i] > int64_t{1} << 32)
      return refuse(of("the extent", i) + " is " + number(a.extents[i]), "1 to 4294967296 (2^32) elements");
  const int64_t row = a.extents[0] * bytes;
  for (int i = 1; i < a.rank; ++i) {
    if (a.pitches[i] % 16 != 0 || a.pitches[i] >= int64_t{1} << 40)
      return refuse(of("the pitch", i) + " is " + number(a.pitches[i]) + " bytes",
                    "a multiple of 16 bytes below 1099511627776 (2^40)");
    if (a.pitches[i] < row)
      return refuse(of("the pitch", i) + " is " + number(a.pitches[i]) + " bytes, less than a row",
                    "at least " + number(row) + " bytes: elements may not overlap");
  }
  if (a.rank == 3 && a.extents[1] > 1 && a.extents[2] > 1) {
    const int shorter = a.pitches[1] <= a.pitches[2] ? 1 : 2, longer = 3 - shorter;
    // longer >= shorter * (extent - 1) + row, without its overflow
    if ((a.pitches[longer] - row) / a.pitches[shorter] < a.extents[shorter] - 1)
      return refuse(of("the pitch", longer) + " is " + number(a.pitches[longer]) + " bytes, less than a slice",
                    "at least " + number(a.extents[shorter] - 1) + " times the pitch of dimension " + number(shorter) +
                        " and a row of " + number(row) + " bytes: elements may not overlap");
  }
  for (int i = 0; i < a.rank; ++i)
    if (a.box[i] < 1 || a.box[i] > 256)
      return refuse(of("the box", i) + " is " + number(a.box[i]), "1 to 256 elements");
  const int64_t inner = a.box[0] * bytes, span = swizzle_span(a.swizzle);
  if (inner % 16 != 0)
    return refuse("a row of the box is " + number(inner) + " bytes",
                  "a multiple of 16 bytes (" + number(16 / bytes) + " elements)");
  if (span != 0 && inner != span)
    return refuse("a row of the box is " + number(inner) + " bytes",
                  "the " + number(span) + " bytes of the swizzle's span");
  int64_t box = bytes;
  for (int i = 0; i < a.rank; ++i) box *= a.box[i];
  if (box > kTensorBoxBytes)
    return refuse("the box is " + number(box) + " bytes",
                  "at most " + number(kTensorBoxBytes) + " bytes: the shared memory that a block can have");
  return {};
}

// May a copy of a box begin at this coordinate of dimension 0? (Those of the other dimensions need only fit int32.)
inline Status check_tensor_start(const TensorMapArguments& a, int64_t column) {
  const auto bytes = static_cast<int64_t>(element_bytes(a.type));
  if (column >= INT32_MIN && column <= INT32_MAX && column * bytes % 16 == 0) return {};
  return invalid("tensor copy: it starts at column " + std::to_string(column) + ", accepted is a multiple of " +
                 std::to_string(16 / bytes) + " elements (16 bytes) from -2147483648 to 2147483647 (" + describe(a) +
                 ")");
}

// The map, for a __grid_constant__ parameter. Elements outside the extents read as zeros.
inline Status encode_tensor_map(TensorMap& map, const TensorMapArguments& a) {
  if (Status status = check_tensor_map(a); !status) return status;
  Status status =
      detail::encode_tiled(map, a.type, a.base, a.rank, a.extents, a.pitches, a.box, static_cast<int>(a.swizzle));
  if (!status) status.message = "tensor map: " + status.message + " (" + describe(a) + ")";
  return status;
}

}  // namespace grout
