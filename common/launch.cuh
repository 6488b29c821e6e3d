// Launching a kernel on either device, and saying what went wrong.
//
// nvcc builds for the GPU; any other C++20 compiler builds for the simulated device (common/sim), whose runtime functions
// carry the CUDA runtime's names. Host entries return a Status, never print, never synchronise.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "common/numeric.cuh"

#ifdef __CUDACC__
#include <cuda.h>  // types only: nothing links libcuda
#include <cuda_runtime.h>
#else
#include "common/sim/sim.h"
#endif

namespace grout {

enum class Code { ok, wrong_result, invalid, unsupported, device_error };

// A code and one sentence: the offending values and what would be accepted.
struct [[nodiscard]] Status {
  Code code = Code::ok;
  std::string message;
  explicit operator bool() const { return code == Code::ok; }
};

// Exit code of a program that ends with this status: 0 right, 1 wrong result or device error, 2 malformed request,
// 77 not possible on this machine.
constexpr int exit_code(Code code) {
  switch (code) {
    case Code::ok: return 0;
    case Code::invalid: return 2;
    case Code::unsupported: return 77;
    default: return 1;
  }
}
inline int exit_code(const Status& status) { return exit_code(status.code); }

inline Status invalid(std::string message) { return {Code::invalid, std::move(message)}; }
inline Status unsupported(std::string message) { return {Code::unsupported, std::move(message)}; }

// Turns a runtime error into a Status; `what` names the call.
inline Status runtime_status(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  return {Code::device_error, what + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")"};
}

struct DeviceInfo {
  int major = 0, minor = 0;  // compute capability
  int sms = 0;
  size_t shared_per_block = 0;  // bytes a block may ask for (opt-in limit)
  size_t l2_bytes = 0;
};

// Properties of the current device, read each time: a process may change devices.
inline Status device_info(DeviceInfo& info) {
  int device = 0, shared = 0, l2 = 0;
  cudaError_t error = cudaGetDevice(&device);
  const auto read = [&](int& value, cudaDeviceAttr attribute) {
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&value, attribute, device);
  };
  read(info.major, cudaDevAttrComputeCapabilityMajor);
  read(info.minor, cudaDevAttrComputeCapabilityMinor);
  read(info.sms, cudaDevAttrMultiProcessorCount);
  read(shared, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  read(l2, cudaDevAttrL2CacheSize);
  info.shared_per_block = static_cast<size_t>(shared);
  info.l2_bytes = static_cast<size_t>(l2);
  return runtime_status(error, "query of the current device");
}

// How a kernel is launched, beside its arguments.
struct LaunchShape {
  dim3 grid, block;
  size_t shared_bytes = 0;     // dynamic shared memory of a block
  unsigned cluster = 1;        // blocks of a cluster, along x; divides grid.x. More than 1: compute capability 9.0 or later
  bool programmatic = false;   // may start before the kernel ahead of it in the stream has ended, and waits for it with
                               // griddepcontrol_wait. Compute capability 9.0 or later
};

#ifdef __CUDACC__

inline constexpr bool kSimulatedBuild = false;

using TensorMap = CUtensorMap;

// Is there a GPU that this process can use? The message says why not.
inline Status gpu_usable() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return unsupported(std::string("no usable GPU: ") + cudaGetErrorString(error));
  }
  return count > 0 ? Status{} : unsupported("no usable GPU: the driver lists none");
}

// Nothing to set on a GPU.
inline void set_simulated_sms(int) {}
inline void set_simulated_compute_capability(int) {}

// The block's dynamic shared memory as a T. Aligned to 1024 bytes, the span of the widest swizzle.
template <class T> __device__ __forceinline__ T& dynamic_shared() {
  extern __shared__ __align__(1024) unsigned char grout_dynamic_shared_memory[];
  return *reinterpret_cast<T*>(grout_dynamic_shared_memory);
}

// A function of the driver library, by name and the CUDA version whose signature is meant (12000: 12.0), found through the
// runtime: nothing links libcuda.
template <class Function> Status driver_function(const char* name, unsigned version, Function*& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found);
  if (error != cudaSuccess) return runtime_status(error, std::string("search for the driver's ") + name);
  if (found != cudaDriverEntryPointSuccess || address == nullptr)
    return unsupported(std::string("the driver has no ") + name + " of CUDA " + std::to_string(version / 1000) + "." +
                       std::to_string(version % 1000 / 10) + ": it is too old");
  function = reinterpret_cast<Function*>(address);
  return {};
}

namespace detail {
// cuTensorMapEncodeTiled of arguments that tensor_map.cuh has checked, in its units; pitches[0] unused; `swizzle`: 0 none,
// 1 to 3 of 32, 64, 128 bytes. Elements outside read as zeros.
inline Status encode_tiled(TensorMap& map, ElementType type, const void* base, int rank, const int64_t* extents,
                           const int64_t* pitches, const int* box, int swizzle) {
  static_assert(CU_TENSOR_MAP_SWIZZLE_NONE == 0 && CU_TENSOR_MAP_SWIZZLE_32B == 1 && CU_TENSOR_MAP_SWIZZLE_64B == 2 &&
                CU_TENSOR_MAP_SWIZZLE_128B == 3);
  using Encode = decltype(cuTensorMapEncodeTiled);
  static std::atomic<Encode*> known = nullptr;  // only a success is kept
  Encode* encode = known.load();
  if (encode == nullptr) {
    if (const Status status = driver_function("cuTensorMapEncodeTiled", 12000, encode); !status) return status;
    known.store(encode);
  }
  cuuint64_t extents_of[3], pitches_of[2];
  cuuint32_t box_of[3], steps[3];
  for (int i = 0; i < rank; ++i) {
    extents_of[i] = static_cast<cuuint64_t>(extents[i]);
    if (i > 0) pitches_of[i - 1] = static_cast<cuuint64_t>(pitches[i]);
    box_of[i] = static_cast<cuuint32_t>(box[i]);
    steps[i] = 1;
  }
  const auto call = [&] {
    const CUtensorMapDataType element = type == ElementType::bf16  ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                        : type == ElementType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                                   : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    return encode(&map, element, static_cast<cuuint32_t>(rank), const_cast<void*>(base), extents_of, pitches_of, box_of,
                  steps, CU_TENSOR_MAP_INTERLEAVE_NONE, static_cast<CUtensorMapSwizzle>(swizzle),
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CUresult result = call();
  if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NOT_INITIALIZED) {
    // The runtime makes its context current in a thread with the thread's first call that needs one; none did so far.
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaSetDevice(device);
    if (error != cudaSuccess) return runtime_status(error, "cudaSetDevice ahead of cuTensorMapEncodeTiled");
    result = call();
  }
  if (result == CUDA_SUCCESS) return {};
  return {Code::device_error, "the driver's cuTensorMapEncodeTiled returned CUresult " + std::to_string(result)};
}
}  // namespace detail

// Launches kernel(arguments...). Does not synchronise.
// Errors: invalid configuration, or a kernel for another architecture, as a Status naming the kernel's needs.
template <class... Parameters, class... Arguments>
Status launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream, Arguments&&... arguments) {
  const auto address = reinterpret_cast<const void*>(kernel);
  if (shape.shared_bytes > 48 * 1024) {
    const cudaError_t error =
        cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
    if (error != cudaSuccess) {
      (void)cudaGetLastError();
      if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction)
        return unsupported(std::string("this kernel was not built for this GPU: ") + cudaGetErrorString(error));
      return runtime_status(error, "a block asks for " + std::to_string(shape.shared_bytes) + " bytes of shared memory");
    }
  }
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  if (shape.cluster > 1) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {shape.cluster, 1, 1};
  }
  if (shape.programmatic) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  const cudaError_t error = std::apply(
      [&](auto&... value) {
        void* pointers[] = {const_cast<void*>(static_cast<const void*>(&value))...};
        return cudaLaunchKernelExC(&config, address, pointers);
      },
      values);
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction)
    return unsupported(std::string("this kernel was not built for this GPU: ") + cudaGetErrorString(error));
  return runtime_status(error, "launch of grid " + std::to_string(shape.grid.x) + "x" + std::to_string(shape.grid.y) + "x" +
                                   std::to_string(shape.grid.z) + ", block " + std::to_string(shape.block.x) + ", cluster " +
                                   std::to_string(shape.cluster) + ", " + std::to_string(shape.shared_bytes) +
                                   " bytes of shared memory");
}

#else

inline constexpr bool kSimulatedBuild = true;

inline Status gpu_usable() { return unsupported("this program was built for the simulated device"); }

using TensorMap = sim::TensorMap;

// How many multiprocessors the simulated device reports.
inline void set_simulated_sms(int sms) { sim::options().sms = sms; }
// Which compute capability it reports, as 10 * major + minor: a program whose kernel needs 9.0 says 90.
inline void set_simulated_compute_capability(int capability) { sim::options().compute_capability = capability; }

template <class T> T& dynamic_shared() { return *static_cast<T*>(sim::dynamic_shared()); }

namespace detail {
inline Status encode_tiled(TensorMap& map, ElementType type, const void* base, int rank, const int64_t* extents,
                           const int64_t* pitches, const int* box, int swizzle) {
  map = {};
  map.rank = static_cast<uint8_t>(rank);
  map.element_bytes = static_cast<uint8_t>(element_bytes(type));
  map.swizzle = static_cast<sim::TensorMap::Swizzle>(swizzle);
  map.base = static_cast<unsigned char*>(const_cast<void*>(base));
  for (int i = 0; i < 3; ++i) {  // dimensions beyond the rank: one element
    map.extent[i] = i < rank ? static_cast<uint64_t>(extents[i]) : 1;
    map.pitch_bytes[i] = i == 0 ? map.element_bytes : i < rank ? static_cast<uint64_t>(pitches[i]) : 0;
    map.box[i] = i < rank ? static_cast<uint32_t>(box[i]) : 1;
  }
  return {};
}
}  // namespace detail

// Runs every block to completion before it returns. A Report of the simulated device becomes a device error.
template <class... Parameters, class... Arguments>
Status launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t, Arguments&&... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> values;
  } call{kernel, std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)};
  try {
    sim::launch(
        {shape.grid, shape.block, shape.shared_bytes, shape.cluster, shape.programmatic},
        [](void* context) {
          auto& c = *static_cast<Call*>(context);
          std::apply([&](auto&... value) { c.kernel(value...); }, c.values);
        },
        &call, reinterpret_cast<const void*>(kernel));
  } catch (const sim::Report& report) {
    return {Code::device_error, report.what()};
  }
  return {};
}

#endif

template <class... Parameters, class... Arguments>
Status launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
              Arguments&&... arguments) {
  return launch(kernel, LaunchShape{grid, block, shared_bytes}, stream, std::forward<Arguments>(arguments)...);
}

}  // namespace grout
