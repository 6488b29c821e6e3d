// Number types that agree bit for bit on both devices: bf16, f16, and their conversions.
//
// Both types are plain 16-bit storage, layout-compatible with __nv_bfloat16 and __half: pass those by reinterpret_cast.
// Conversion from float rounds to nearest, ties to even, and turns every NaN into 0x7fff, as cvt.rn does
// (PTX ISA, "Data Movement and Conversion Instructions: cvt"). Device code uses the conversion instructions, host code
// the same rounding in integers; tests/gpu compares them.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define GROUT_HD __host__ __device__ __forceinline__
#else
#define GROUT_HD inline
#endif

namespace grout {

enum class ElementType { bf16, f16, f32 };

constexpr size_t element_bytes(ElementType type) { return type == ElementType::f32 ? 4 : 2; }
constexpr const char* element_name(ElementType type) {
  return type == ElementType::bf16 ? "bf16" : type == ElementType::f16 ? "f16" : "f32";
}

namespace detail {
// float -> bf16 bits: drop 16 mantissa bits, round to nearest even.
constexpr uint16_t bf16_bits(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}
// float -> f16 bits: round to nearest even, gradual underflow, overflow to infinity.
constexpr uint16_t f16_bits(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // at least 65520 rounds to infinity
  if (magnitude < 0x33000001u) return static_cast<uint16_t>(sign);             // at most 2^-25 rounds to zero
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const int shift = exponent < -14 ? 13 + (-14 - exponent) : 13;
  const uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
  const uint32_t rounded = kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0);
  const uint32_t base = exponent < -14 ? 0 : static_cast<uint32_t>(exponent + 14) << 10;  // the hidden bit adds one more
  return static_cast<uint16_t>(sign | (base + rounded));
}
constexpr float f16_value(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ffu;
  if (exponent == 0x1f && mantissa != 0) return std::bit_cast<float>(0x7fffffffu);  // every NaN, as cvt.f32.f16 does
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u);
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}
}  // namespace detail

struct bf16 {
  uint16_t bits;
  bf16() = default;
  GROUT_HD explicit bf16(float value) {
#ifdef __CUDA_ARCH__
    bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
    bits = detail::bf16_bits(value);
#endif
  }
  constexpr explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  friend constexpr bool operator==(bf16 a, bf16 b) { return a.bits == b.bits; }  // of representations
};

struct f16 {
  uint16_t bits;
  f16() = default;
  GROUT_HD explicit f16(float value) {
#ifdef __CUDA_ARCH__
    bits = __half_as_ushort(__float2half_rn(value));
#else
    bits = detail::f16_bits(value);
#endif
  }
  GROUT_HD explicit operator float() const {
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(bits));
#else
    return detail::f16_value(bits);
#endif
  }
  friend constexpr bool operator==(f16 a, f16 b) { return a.bits == b.bits; }  // of representations
};

template <class T> inline constexpr ElementType element_type = ElementType::f32;
template <> inline constexpr ElementType element_type<bf16> = ElementType::bf16;
template <> inline constexpr ElementType element_type<f16> = ElementType::f16;

template <class T> GROUT_HD float to_float(T value) { return static_cast<float>(value); }
template <class T> GROUT_HD T from_float(float value) { return T(value); }

// Two 16-bit values in one register, `low` in bits 0..15: the operand format of mma and ldmatrix.
template <class T> GROUT_HD uint32_t pack(T low, T high) {
  static_assert(sizeof(T) == 2, "pack: two 16-bit values make one 32-bit register");
  return static_cast<uint32_t>(low.bits) | static_cast<uint32_t>(high.bits) << 16;
}
// The same from float, rounding once (one cvt.rn.{bf16x2,f16x2}.f32 on the device; taken as a whole, as ptxas for sm_100 and later
// would split halves and join them again).
template <class T> GROUT_HD uint32_t pack(float low, float high) {
#ifdef __CUDA_ARCH__
  if constexpr (element_type<T> == ElementType::bf16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
#else
  return pack(T(low), T(high));
#endif
}

}  // namespace grout
