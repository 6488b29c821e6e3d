// 16-byte vectors in four registers: shifted into place, masked, and, where only some of their elements exist, loaded and stored
// one by one. Elements of Size = 2 or 4 bytes; bits are moved as they are.
#pragma once
#include "common/ptx.cuh"

namespace grout::detail {

// 16 bytes, `shift` bytes (0..15) into the 32 bytes low, high.
GROUT_DEVICE void shift_words(uint32_t (&out)[4], const uint32_t (&low)[4], const uint32_t (&high)[4], uint32_t shift) {
  const bool by_two = shift & 8, by_one = shift & 4;
  const uint32_t bits = shift % 4 * 8;
  const uint32_t w[8] = {low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
  uint32_t t[6], u[5];
#pragma unroll
  for (int i = 0; i < 6; ++i) t[i] = by_two ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) u[i] = by_one ? t[i + 1] : t[i];
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = ptx::funnel_shift_right(u[i], u[i + 1], bits);
}

// Zeros all but the first `valid` of a vector's V elements.
template <int V> GROUT_DEVICE void keep_front(uint32_t (&words)[4], int valid) {
  constexpr int kPerWord = V / 4;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if (valid <= w * kPerWord) words[w] = 0;
    else if (kPerWord == 2 && valid == w * kPerWord + 1) words[w] &= 0xffffu;
  }
}
// Zeros all but elements first <= i < last of a vector.
template <int V> GROUT_DEVICE void keep_range(uint32_t (&words)[4], int first, int last) {
  constexpr int kPerWord = V / 4;
  keep_front<V>(words, last);
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if (first >= (w + 1) * kPerWord) words[w] = 0;
    else if (kPerWord == 2 && first == w * kPerWord + 1) words[w] &= 0xffff0000u;
  }
}

template <int Size> GROUT_DEVICE uint32_t load_element(uintptr_t address) {
  static_assert(Size == 2 || Size == 4, "elements of 2 or 4 bytes");
  if constexpr (Size == 2) return *reinterpret_cast<const uint16_t*>(address);
  else return *reinterpret_cast<const uint32_t*>(address);
}

// Elements first <= i < last of the vector at `address`, zeros around them.
template <int Size> GROUT_DEVICE void load_elements(uint32_t (&words)[4], uintptr_t address, int64_t first, int64_t last) {
  constexpr int kPerWord = 4 / Size;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    words[w] = 0;
#pragma unroll
    for (int i = w * kPerWord; i < (w + 1) * kPerWord; ++i)
      if (i >= first && i < last)
        words[w] |= load_element<Size>(address + static_cast<uintptr_t>(i * Size)) << (i % kPerWord * 8 * Size);
  }
}
template <int Size>
GROUT_DEVICE void store_elements(uintptr_t address, const uint32_t (&words)[4], int64_t first, int64_t last) {
  constexpr int kPerWord = 4 / Size;
#pragma unroll
  for (int i = 0; i < 16 / Size; ++i) {
    if (i < first || i >= last) continue;
    const uint32_t bits = words[i / kPerWord] >> (i % kPerWord * 8 * Size);
    if constexpr (Size == 2)
      *reinterpret_cast<uint16_t*>(address + static_cast<uintptr_t>(i * 2)) = static_cast<uint16_t>(bits);
    else *reinterpret_cast<uint32_t*>(address + static_cast<uintptr_t>(i * 4)) = bits;
  }
}

}  // namespace grout::detail
