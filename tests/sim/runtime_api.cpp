// The runtime functions of the simulated device, which carry the CUDA runtime's names.
#include <algorithm>

#include "tests/sim/device_test.h"

namespace grout::sim {
namespace {

TEST(Runtime, Memory) {
  for (size_t bytes : {size_t(1), size_t(255), size_t(256), size_t(100001)}) {
    unsigned char* device = nullptr;
    ASSERT_EQ(cudaMalloc(&device, bytes), cudaSuccess);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device) % 256, 0u);
    EXPECT_EQ(std::count(device, device + bytes, 0xff), std::ptrdiff_t(bytes)) << "poison";
    std::vector<unsigned char> in(bytes, 5), out(bytes);
    EXPECT_EQ(cudaMemcpy(device, in.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(out.data(), device, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(in, out);
    EXPECT_EQ(cudaMemset(device, 7, bytes), cudaSuccess);
    EXPECT_EQ(std::count(device, device + bytes, 7), std::ptrdiff_t(bytes));
    EXPECT_EQ(cudaFree(device), cudaSuccess);
    EXPECT_EQ(cudaFree(device), cudaErrorInvalidValue) << "freed twice";
  }
  void* none = &none;
  EXPECT_EQ(cudaMalloc(&none, 0), cudaSuccess);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&none, size_t(1) << 50), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(nullptr, &none, 1, cudaMemcpyDefault), cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST(Runtime, CopiesOfRows) {
  const char in[] = "abc.def.ghi";
  char out[16] = "--------------";
  EXPECT_EQ(cudaMemcpy2D(out, 5, in, 4, 3, 3, cudaMemcpyDefault), cudaSuccess);
  EXPECT_STREQ(out, "abc--def--ghi-");
  EXPECT_EQ(cudaMemcpy2D(out, 2, in, 4, 3, 3, cudaMemcpyDefault), cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST(Runtime, ErrorsAreKeptUntilAsked) {
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidDevice), "invalid device ordinal");
}

TEST(Runtime, StreamsAndEvents) {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr, end = nullptr;
  float milliseconds = -1;
  EXPECT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&start), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&end), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(start, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle) << "not recorded";
  EXPECT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventDestroy(start), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  (void)cudaGetLastError();
}

TEST(Runtime, DeviceProperties) {
  const Options saved = options();
  options().sms = 7;
  options().compute_capability = 90;
  int count = 0, device = -1, value = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(device, 0);
  cudaDeviceProp properties;
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "simulated device");
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.multiProcessorCount, 7);
  for (const auto& [attribute, expected] : {std::pair{cudaDevAttrMultiProcessorCount, 7},
                                            {cudaDevAttrComputeCapabilityMajor, 9},
                                            {cudaDevAttrComputeCapabilityMinor, 0},
                                            {cudaDevAttrMaxSharedMemoryPerBlockOptin, 227 << 10},
                                            {cudaDevAttrWarpSize, 32},
                                            {cudaDevAttrMaxThreadsPerBlock, 1024}}) {
    EXPECT_EQ(cudaDeviceGetAttribute(&value, attribute, 0), cudaSuccess);
    EXPECT_EQ(value, expected);
  }
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1), cudaErrorInvalidDevice);
  (void)cudaGetLastError();
  options() = saved;
}

}  // namespace
}  // namespace grout::sim
