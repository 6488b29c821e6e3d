// TEST_TARGET: sm_80
// Numbers agree on host and device, bit for bit: every bf16 and f16 pattern to float, and 2^21 floats (patterns spread over
// all of them, every tie, and the borders of overflow and underflow) to both, one by one and in pairs.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "common/check.cuh"
#include "tests/gpu/support.cuh"

namespace grout::test {
namespace {

struct Converted {
  uint32_t to_bf16, to_f16, pair_bf16, pair_f16;
  friend bool operator==(const Converted&, const Converted&) = default;
};

// pair: the value in the low half, its negative in the high half.
GROUT_HD Converted convert(float value) {
  return {from_float<bf16>(value).bits, from_float<f16>(value).bits, pack<bf16>(value, -value), pack<f16>(value, -value)};
}

__global__ void convert_all(const float* in, Converted* out, int count) {
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += static_cast<int>(gridDim.x * blockDim.x))
    out[i] = convert(in[i]);
}
__global__ void widen_all(float* from_bf16, float* from_f16) {
  const auto i = static_cast<uint16_t>(blockIdx.x * blockDim.x + threadIdx.x);
  bf16 x;
  f16 y;
  x.bits = i, y.bits = i;
  from_bf16[i] = to_float(x), from_f16[i] = to_float(y);
}

class References : public GpuTest {};

TEST_F(References, EveryPatternWidensAlike) {
  constexpr int kPatterns = 65536;
  DeviceBuffer x(kPatterns * 4), y(kPatterns * 4);
  const Status status = launch(widen_all, dim3(kPatterns / 256), dim3(256), 0, nullptr, x.as<float>(), y.as<float>());
  ASSERT_TRUE(status) << status.message;
  std::vector<float> from_bf16(kPatterns), from_f16(kPatterns);
  x.download(from_bf16.data()), y.download(from_f16.data());
  for (int i = 0; i < kPatterns; ++i) {
    bf16 b;
    f16 h;
    b.bits = h.bits = static_cast<uint16_t>(i);
    const float want_bf16 = to_float(b), want_f16 = to_float(h);
    ASSERT_EQ(std::bit_cast<uint32_t>(want_bf16), std::bit_cast<uint32_t>(from_bf16[static_cast<size_t>(i)])) << "bf16 " << i;
    // A NaN stays one; which one is the conversion's choice.
    if (want_f16 != want_f16) ASSERT_TRUE(std::isnan(from_f16[static_cast<size_t>(i)])) << "f16 " << i;
    else ASSERT_EQ(std::bit_cast<uint32_t>(want_f16), std::bit_cast<uint32_t>(from_f16[static_cast<size_t>(i)])) << "f16 " << i;
  }
}

TEST_F(References, FloatsRoundAlike) {
  std::vector<float> in;
  for (uint32_t i = 0; i < 1u << 20; ++i) in.push_back(std::bit_cast<float>(i * 4099u + (i >> 5)));
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    bf16 b;
    f16 h;
    b.bits = h.bits = static_cast<uint16_t>(pattern);
    for (const float value : {to_float(b), to_float(h)})
      for (const uint32_t step : {0x7fffu, 0x8000u, 0x8001u, 0xfffu, 0x1000u, 0x1001u, 0xffffffffu, 1u})
        in.push_back(std::bit_cast<float>(std::bit_cast<uint32_t>(value) + step));
  }
  ASSERT_GE(in.size(), size_t{1} << 20);
  DeviceBuffer device(in.size() * 4), out(in.size() * sizeof(Converted));
  device.upload(in.data());
  const Status status = launch(convert_all, dim3(1024), dim3(256), 0, nullptr, device.as<const float>(), out.as<Converted>(),
                               static_cast<int>(in.size()));
  ASSERT_TRUE(status) << status.message;
  std::vector<Converted> got(in.size());
  out.download(got.data());
  for (size_t i = 0; i < in.size(); ++i) {
    const Converted want = convert(in[i]);
    ASSERT_TRUE(want == got[i]) << "float " << std::hex << std::bit_cast<uint32_t>(in[i]) << ": host " << want.to_bf16 << " "
                                << want.to_f16 << " " << want.pair_bf16 << " " << want.pair_f16 << ", device " << got[i].to_bf16
                                << " " << got[i].to_f16 << " " << got[i].pair_bf16 << " " << got[i].pair_f16;
  }
  std::printf("%zu floats\n", in.size());
}

}  // namespace
}  // namespace grout::test
