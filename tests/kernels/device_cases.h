// What a case of a test on a device is: words in, words out; how it runs and compares, and the helpers of the cases' generators.
// Host code that both the GPU tests and the simulated tests include.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/launch.cuh"

namespace grout::instructions {

using Words = std::vector<uint32_t>;

struct Case {
  std::string name = {};
  void (*kernel)(const uint32_t*, uint32_t*) = nullptr;
  unsigned grid = 1, block = 32;
  size_t shared_bytes = 0;
  Words in = {};
  Words expected = {};             // bit for bit; or, where `exact` is not empty, only how many words come out
  std::vector<double> exact = {};  // fp32 results: |out - exact| <= bound; NaN and infinity as they are
  std::vector<double> bound = {};
  uint32_t fill = 0xdeadbeefu;  // of every word of `out` before the launch
  unsigned cluster = 1;
  int capability = 80;  // 10 * major + minor that the device must have
  // Starts the case where one launch of `kernel` does not; in and out are on the device.
  std::function<Status(const Case&, const uint32_t* in, uint32_t* out)> start = {};
};
inline LaunchShape shape(const Case& c) {
  return {.grid = dim3(c.grid), .block = dim3(c.block), .shared_bytes = c.shared_bytes, .cluster = c.cluster};
}
inline void PrintTo(const Case& c, std::ostream* stream) {
  *stream << c.name;
}  // for GoogleTest

// ---- number formats, from their definition ----------------------------------------------------------------------

// A 16-bit pattern with `fraction` fraction bits (7: bf16, 10: f16) as a number.
inline double decode(uint16_t bits, int fraction) {
  const int exponent_bits = 15 - fraction, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> fraction & ((1 << exponent_bits) - 1), mantissa = bits & ((1 << fraction) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - fraction);
  return sign * std::ldexp(mantissa + (1 << fraction), exponent - bias - fraction);
}

// Round to nearest, ties to even; NaN becomes 0x7fff (cvt: the canonical NaN of 16-bit types).
inline uint16_t encode(double value, int fraction) {
  const int bias = (1 << (14 - fraction)) - 1;
  if (std::isnan(value)) return 0x7fff;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  const auto infinity = static_cast<uint16_t>(sign | ((2 * bias + 1) << fraction));
  if (std::isinf(magnitude)) return infinity;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(magnitude, fraction - exponent)));
  const int64_t bits = (static_cast<int64_t>(exponent + bias - 1) << fraction) + units;  // a carry moves the exponent
  return bits >= infinity - sign ? infinity : static_cast<uint16_t>(sign | bits);
}

inline uint32_t float_bits(double value) {
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

// ---- helpers of the generators ----------------------------------------------------------------------------------

// Plain use of the engine's words: the distributions of the library differ between implementations.
struct Source {
  std::mt19937 engine;
  explicit Source(uint32_t seed) : engine(seed) {}
  uint32_t word() { return static_cast<uint32_t>(engine()); }
  uint32_t below(uint32_t n) { return word() % n; }
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<uint32_t>(high - low + 1))); }
  Words words(size_t n) {
    Words result(n);
    for (uint32_t& w : result) w = word();
    return result;
  }
  Words permutation(uint32_t n) {
    Words result(n);
    std::iota(result.begin(), result.end(), 0u);
    for (uint32_t i = n; i > 1; --i) std::swap(result[i - 1], result[below(i)]);
    return result;
  }
};

// ---- running a case -----------------------------------------------------------------------------------------------

// Is the device of this build of the compute capability that the case needs? The message says why not.
inline Status device_suits(const Case& c) {
  DeviceInfo info;
  if (Status s = device_info(info); !s) return s;
  const auto version = [](int capability) {
    return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  };
  const int here = 10 * info.major + info.minor;
  if (here >= c.capability) return {};
  return unsupported(c.name + ": needs compute capability " + version(c.capability) + " or later; this device has " +
                     version(here));
}

// Runs a case on the device of this build; `out` gets exactly as many words as are expected.
inline Status run(const Case& c, Words& out) {
  struct Memory {
    uint32_t *in = nullptr, *out = nullptr;
    ~Memory() { (void)cudaFree(in), (void)cudaFree(out); }
  } device;
  out.assign(c.expected.size(), c.fill);
  const size_t in_bytes = c.in.size() * 4, out_bytes = out.size() * 4;
  cudaError_t error = cudaMalloc(reinterpret_cast<void**>(&device.in), in_bytes);
  if (error == cudaSuccess) error = cudaMalloc(reinterpret_cast<void**>(&device.out), out_bytes);
  if (error == cudaSuccess) error = cudaMemcpy(device.in, c.in.data(), in_bytes, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) error = cudaMemcpy(device.out, out.data(), out_bytes, cudaMemcpyHostToDevice);
  if (error != cudaSuccess) return runtime_status(error, c.name + ": memory");
  const uint32_t* const in = device.in;
  if (Status s = c.start ? c.start(c, in, device.out) : launch(c.kernel, shape(c), nullptr, in, device.out); !s)
    return s;
  error = cudaDeviceSynchronize();
  if (error == cudaSuccess) error = cudaMemcpy(out.data(), device.out, out_bytes, cudaMemcpyDeviceToHost);
  return runtime_status(error, c.name);
}

// ---- comparisons: empty, or how many words are wrong and the first of them ------------------------------------------

template <class Wrong>
std::string first_wrong(const Case& c, const Words& got, const Words& wanted, const char* from, Wrong wrong) {
  if (got.size() != wanted.size())
    return c.name + ": " + std::to_string(got.size()) + " words, " + from + " " + std::to_string(wanted.size());
  size_t count = 0, first = 0;
  for (size_t i = got.size(); i-- > 0;)
    if (wrong(i)) ++count, first = i;
  if (count == 0) return "";
  char text[200];
  std::snprintf(text, sizeof text, "%s: %zu of %zu words are wrong, first word %zu: 0x%08x (%g), %s 0x%08x (%g)",
                c.name.c_str(), count, got.size(), first, got[first], std::bit_cast<float>(got[first]), from,
                wanted[first], std::bit_cast<float>(wanted[first]));
  return text;
}

// `x` is a fp32 result for an exact value: the same NaN-ness, the same infinity, or within the bound.
inline bool within(float x, double exact, double bound) {
  if (std::isnan(exact)) return std::isnan(x);
  return std::isinf(exact) ? x == exact : std::fabs(x - exact) <= bound;
}

inline std::string compare_with_reference(const Case& c, const Words& got) {
  if (c.exact.empty())
    return first_wrong(c, got, c.expected, "expected", [&](size_t i) { return got[i] != c.expected[i]; });
  Words wanted(c.exact.size());
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = float_bits(c.exact[i]);
  return first_wrong(c, got, wanted, "expected about",
                     [&](size_t i) { return !within(std::bit_cast<float>(got[i]), c.exact[i], c.bound[i]); });
}

// Two devices: bit for bit, or each within the bound of the exact value, so within twice the bound of one another.
inline std::string compare_devices(const Case& c, const Words& gpu, const Words& simulated, double& worst) {
  return first_wrong(c, gpu, simulated, "simulated", [&](size_t i) {
    if (c.exact.empty()) return gpu[i] != simulated[i];
    const float x = std::bit_cast<float>(gpu[i]), y = std::bit_cast<float>(simulated[i]);
    if (c.bound[i] > 0 && std::isfinite(c.exact[i])) worst = std::max(worst, std::fabs(double(x) - y) / c.bound[i]);
    return std::isnan(x) != std::isnan(y) || !(std::isnan(x) || within(x, y, 2 * c.bound[i]));
  });
}

}  // namespace grout::instructions
