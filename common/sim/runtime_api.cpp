#include "common/sim/runtime_api.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "common/sim/state.h"

struct grout_sim_stream {};
struct grout_sim_event {
  std::chrono::steady_clock::time_point time{};
  bool recorded = false;
};

namespace {

namespace sim = grout::sim;

constexpr std::size_t kAlignment = 256, kBand = 4096;  // bytes; a band lies on each side of an allocation
constexpr std::size_t kTotalMemory = std::size_t(16) << 30, kSharedPerBlock = 48 << 10;
constexpr int kSharedOptin = 227 << 10, kSharedPerMultiprocessor = 228 << 10, kL2Bytes = 4 << 20;

thread_local cudaError_t last_error = cudaSuccess;
cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

struct Description {
  cudaError_t error;
  const char *name, *text;
};
constexpr Description kDescriptions[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
};
Description description(cudaError_t error) {
  for (const Description& known : kDescriptions) {
    if (known.error == error) return known;
  }
  return {error, "unrecognized error code", "unrecognized error code"};
}

std::mutex allocations_mutex;
std::unordered_map<void*, std::size_t>& allocations() {
  static auto* map = new std::unordered_map<void*, std::size_t>;  // pointer -> bytes
  return *map;
}

std::size_t padded(std::size_t bytes) {
  return kBand + (bytes + kAlignment - 1) / kAlignment * kAlignment + kBand;
}

cudaError_t allocate(void** pointer, std::size_t bytes) {
  sim::note_runtime_call();
  if (!pointer) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (!bytes) return cudaSuccess;
  if (bytes > kTotalMemory) return cudaErrorMemoryAllocation;
  auto* memory = static_cast<unsigned char*>(std::aligned_alloc(kAlignment, padded(bytes)));
  if (!memory) return cudaErrorMemoryAllocation;
  std::memset(memory, 0xff, padded(bytes));
  unsigned char* data = memory + kBand;
  sim::asan::poison(memory, kBand);
  sim::asan::poison(data + bytes, padded(bytes) - kBand - bytes);
  std::lock_guard lock(allocations_mutex);
  allocations()[data] = bytes;
  *pointer = data;
  return cudaSuccess;
}

cudaError_t release(void* pointer) {
  sim::note_runtime_call();
  if (!pointer) return cudaSuccess;
  std::lock_guard lock(allocations_mutex);
  const auto found = allocations().find(pointer);
  if (found == allocations().end()) return cudaErrorInvalidValue;
  unsigned char* memory = static_cast<unsigned char*>(pointer) - kBand;
  sim::asan::unpoison(memory, padded(found->second));
  allocations().erase(found);
  std::free(memory);
  return cudaSuccess;
}

}  // namespace

void sim::for_each_allocation(const std::function<void(const Allocation&)>& f) {
  std::lock_guard lock(allocations_mutex);
  for (const auto& [data, bytes] : allocations()) f({static_cast<unsigned char*>(data), bytes});
}

const char* cudaGetErrorName(cudaError_t error) {
  return description(error).name;
}
const char* cudaGetErrorString(cudaError_t error) {
  return description(error).text;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() {
  return last_error;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return result(allocate(pointer, bytes));
}
cudaError_t cudaFree(void* pointer) {
  return result(release(pointer));
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return result(allocate(pointer, bytes));
}
cudaError_t cudaFreeHost(void* pointer) {
  return result(release(pointer));
}

cudaError_t cudaMemcpy(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind) {
  sim::note_runtime_call();
  if (!bytes) return cudaSuccess;
  if (!dst || !src) return result(cudaErrorInvalidValue);
  std::memmove(dst, src, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(dst, src, bytes, kind);
}
cudaError_t cudaMemcpy2D(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
                         std::size_t height, cudaMemcpyKind kind) {
  if (width > dst_pitch || width > src_pitch) return result(cudaErrorInvalidValue);
  for (std::size_t row = 0; row < height; ++row) {
    const cudaError_t error = cudaMemcpy(static_cast<char*>(dst) + row * dst_pitch,
                                         static_cast<const char*>(src) + row * src_pitch, width, kind);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) {
  sim::note_runtime_call();
  if (!bytes) return cudaSuccess;
  if (!pointer) return result(cudaErrorInvalidValue);
  std::memset(pointer, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(pointer, value, bytes);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  if (!stream) return result(cudaErrorInvalidValue);
  *stream = new grout_sim_stream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!stream) return result(cudaErrorInvalidResourceHandle);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  sim::note_runtime_call();
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  sim::note_runtime_call();
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  if (!event) return result(cudaErrorInvalidValue);
  *event = new grout_sim_event;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!event) return result(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  sim::note_runtime_call();
  if (!event) return result(cudaErrorInvalidResourceHandle);
  event->time = std::chrono::steady_clock::now();
  event->recorded = true;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  sim::note_runtime_call();
  return event ? cudaSuccess : result(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!milliseconds) return result(cudaErrorInvalidValue);
  if (!start || !end || !start->recorded || !end->recorded) return result(cudaErrorInvalidResourceHandle);
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (!count) return result(cudaErrorInvalidValue);
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  if (!device) return result(cudaErrorInvalidValue);
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!properties) return result(cudaErrorInvalidValue);
  if (device != 0) return result(cudaErrorInvalidDevice);
  const sim::Options& options = sim::options();
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "simulated device");
  properties->major = options.compute_capability / 10;
  properties->minor = options.compute_capability % 10;
  properties->multiProcessorCount = options.sms;
  properties->warpSize = warpSize;
  properties->maxThreadsPerBlock = 1024;
  properties->l2CacheSize = kL2Bytes;
  properties->totalGlobalMem = kTotalMemory;
  properties->sharedMemPerBlock = kSharedPerBlock;
  properties->sharedMemPerBlockOptin = kSharedOptin;
  properties->sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!value) return result(cudaErrorInvalidValue);
  if (device != 0) return result(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = int(kSharedPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = sim::options().sms;
      break;
    case cudaDevAttrL2CacheSize:
      *value = kL2Bytes;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = sim::options().compute_capability / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = sim::options().compute_capability % 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = kSharedPerMultiprocessor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kSharedOptin;
      break;
    default:
      return result(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
