// The addresses that a strided matrix touches. Host only; in 128 bits, since strides are the caller's and may be anything.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace grout {

struct AddressSpan {
  __int128 low = 0, high = 0;  // of the first byte, and behind the last; equal where there is none
  bool overlaps(const AddressSpan& other) const {
    return (low > other.low ? low : other.low) < (high < other.high ? high : other.high);
  }
};

struct SpanAxis {
  int64_t extent, stride;  // elements
};

// The span of elements of `bytes` bytes at base + sum of index * stride. False where it is longer than 2^62 bytes.
inline bool address_span(uintptr_t base, std::initializer_list<SpanAxis> axes, size_t bytes, AddressSpan& span) {
  span.low = span.high = static_cast<__int128>(base);
  for (const SpanAxis& axis : axes)
    if (axis.extent == 0) return true;
  for (const SpanAxis& axis : axes) {
    const __int128 reach = static_cast<__int128>(axis.extent - 1) * axis.stride;
    if (reach > INT64_MAX / 16 || reach < -(INT64_MAX / 16)) return false;
    (reach < 0 ? span.low : span.high) += reach * static_cast<__int128>(bytes);
  }
  span.high += static_cast<__int128>(bytes);
  return span.high - span.low <= static_cast<__int128>(1) << 62;
}

}  // namespace grout
