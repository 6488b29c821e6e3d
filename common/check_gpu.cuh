// References and comparisons that stay on the GPU: for sizes at which the CPU is too slow, and for millions of small
// cases.
//
// Included by GPU code only. Its programs link cuBLAS. The fp64 reference here is itself sampled against the CPU.
// Failures to run anything throw std::runtime_error; a cuBLAS call that cannot be made is a Status.
#pragma once
#include <cublas_v2.h>

#include <thrust/iterator/counting_iterator.h>
#include <cub/device/device_reduce.cuh>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/bench.cuh"
#include "common/check.cuh"

namespace grout {

// ---- cuBLAS ----

inline void require_cublas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + cublasGetStatusString(status));
}

// One handle a host thread, for the device current at its first use; never destroyed, since the driver may be gone by
// then.
inline cublasHandle_t cublas_handle() {
  thread_local cublasHandle_t handle = [] {
    cublasHandle_t h = nullptr;
    require_cublas(cublasCreate(&h), "cublasCreate");
    // Or it may split K and add the parts in C's type, which loses more than fp32 accumulation may.
    require_cublas(cublasSetMathMode(h, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
                   "cublasSetMathMode");
    return h;
  }();
  return handle;
}

// C = alpha * A * B + beta * C with fp32 accumulation (fp32 operands: no TF32); pointers to the matrices' bases. cuBLAS
// takes column-major matrices, and a row-major matrix is its transpose in column-major: so C^T = B^T * A^T.
inline Status cublas_gemm(const StoredMatrix& a, const void* a_data, const StoredMatrix& b, const void* b_data,
                          const StoredMatrix& c, void* c_data, float alpha, float beta, cudaStream_t stream) {
  const auto cuda_type = [](ElementType t) {
    return t == ElementType::bf16 ? CUDA_R_16BF : t == ElementType::f16 ? CUDA_R_16F : CUDA_R_32F;
  };
  const auto operation = [](const StoredMatrix& m) { return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  if (c.rows == 0 || c.cols == 0 || c.batch == 0) return {};
  if (c.transposed || a.type != b.type || (c.type != a.type && c.type != ElementType::f32))
    return unsupported("cuBLAS: A " + describe(a) + ", B " + describe(b) + ", C " + describe(c) +
                       ": equal input types and a row-major C of that type or f32 are needed");
  const auto ld = [](const StoredMatrix& m) { return std::max<int64_t>(m.pitch, 1); };
  cublasStatus_t status = cublasSetStream(cublas_handle(), stream);
  if (status == CUBLAS_STATUS_SUCCESS && c.batch == 1)
    status = cublasGemmEx_64(cublas_handle(), operation(b), operation(a), c.cols, c.rows, a.cols, &alpha, b_data,
                             cuda_type(b.type), ld(b), a_data, cuda_type(a.type), ld(a), &beta, c_data,
                             cuda_type(c.type), ld(c), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  else if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasGemmStridedBatchedEx_64(cublas_handle(), operation(b), operation(a), c.cols, c.rows, a.cols, &alpha,
                                           b_data, cuda_type(b.type), ld(b), b.batch_stride, a_data, cuda_type(a.type),
                                           ld(a), a.batch_stride, &beta, c_data, cuda_type(c.type), ld(c),
                                           c.batch_stride, c.batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return {Code::device_error, std::string("cuBLAS: ") + cublasGetStatusString(status) + ": A " + describe(a) + ", B " +
                                  describe(b) + ", C " + describe(c)};
}

// The entry as one CUDA graph of `repeats` runs: for runs so short that launching them one by one would be measured.
inline BenchEntry as_graph(const BenchEntry& entry, int repeats) {
  cudaStream_t stream;
  cudaGraph_t graph;
  require_success(cudaStreamCreate(&stream), "cudaStreamCreate");
  entry.run(stream);  // what it sets up when first used, a cuBLAS handle say, cannot be set up in a capture
  require_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (int i = 0; i < repeats; ++i) entry.run(stream);
  require_success(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable;
  require_success(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  require_success(cudaGraphDestroy(graph), "cudaGraphDestroy");
  require_success(cudaStreamDestroy(stream), "cudaStreamDestroy");
  const std::shared_ptr<CUgraphExec_st> owner(executable, [](cudaGraphExec_t g) { (void)cudaGraphExecDestroy(g); });
  BenchEntry result = entry;
  result.run = [owner](cudaStream_t s) { require_success(cudaGraphLaunch(owner.get(), s), "cudaGraphLaunch"); };
  result.repeats = repeats * entry.repeats;
  return result;
}

// ---- the fp64 reference on the device ----

namespace detail {

inline int blocks_for(int64_t items) {
  return static_cast<int>(std::clamp<int64_t>((items + 255) / 256, 1, 1 << 16));
}
__device__ inline int64_t first_item() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t item_step() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

// One batch as compact row-major fp64. Any grid.
static __global__ void widen_kernel(StoredMatrix m, const void* data, int64_t batch, bool absolute, double* out) {
  for (int64_t i = first_item(); i < m.rows * m.cols; i += item_step()) {
    const double value = load_element(m.type, data, m.index(batch, i / m.cols, i % m.cols));
    out[i] = absolute ? fabs(value) : value;
  }
}

// sum[batch][m][n] of a*b and of |a*b|, one thread an element. Any grid.
static __global__ void sum_kernel(StoredMatrix a, const void* a_data, StoredMatrix b, const void* b_data, double* sum,
                                  double* absolute) {
  const int64_t per_batch = a.rows * b.cols;
  for (int64_t i = first_item(); i < a.batch * per_batch; i += item_step()) {
    const int64_t batch = i / per_batch, row = i % per_batch / b.cols, col = i % b.cols;
    double total = 0, total_absolute = 0;
    for (int64_t k = 0; k < a.cols; ++k) {
      const double product = static_cast<double>(load_element(a.type, a_data, a.index(batch, row, k))) *
                             static_cast<double>(load_element(b.type, b_data, b.index(batch, k, col)));
      total += product;
      total_absolute += fabs(product);
    }
    sum[i] = total;
    absolute[i] = total_absolute;
  }
}

}  // namespace detail

// sum a*b and sum |a*b| for every element, [batch][m][n], in device memory.
struct DeviceSums {
  int64_t batch, m, n, k;
  DeviceBuffer sum, absolute;
  double at(const DeviceBuffer& which, int64_t element) const {
    double value;
    require_success(cudaMemcpy(&value, which.as<double>() + element, sizeof value, cudaMemcpyDeviceToHost), "download");
    return value;
  }
};

// Large matrices are widened and go through cublasDgemm (fp64 tensor cores), small ones through sum_kernel.
inline DeviceSums device_sums(const StoredMatrix& a, const void* a_data, const StoredMatrix& b, const void* b_data) {
  const int64_t m = a.rows, n = b.cols, k = a.cols, elements = a.batch * m * n;
  const size_t bytes = static_cast<size_t>(elements) * sizeof(double);
  DeviceSums sums{a.batch, m, n, k, DeviceBuffer(bytes), DeviceBuffer(bytes)};
  if (elements == 0) return sums;
  if (m * n * k < int64_t{1} << 27) {
    detail::sum_kernel<<<detail::blocks_for(elements), 256>>>(a, a_data, b, b_data, sums.sum.as<double>(),
                                                              sums.absolute.as<double>());
  } else {
    const DeviceBuffer wide_a(static_cast<size_t>(m * k) * sizeof(double)),
        wide_b(static_cast<size_t>(k * n) * sizeof(double));
    const double one = 1, zero = 0;
    require_cublas(cublasSetStream(cublas_handle(), nullptr), "cublasSetStream");
    for (int64_t i = 0; i < a.batch; ++i)
      for (const bool absolute : {false, true}) {
        detail::widen_kernel<<<detail::blocks_for(m * k), 256>>>(a, a_data, i, absolute, wide_a.as<double>());
        detail::widen_kernel<<<detail::blocks_for(k * n), 256>>>(b, b_data, i, absolute, wide_b.as<double>());
        require_cublas(cublasDgemm_64(cublas_handle(), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, wide_b.as<double>(), n,
                                      wide_a.as<double>(), k, &zero,
                                      (absolute ? sums.absolute : sums.sum).as<double>() + i * m * n, n),
                       "cublasDgemm");
      }
    require_success(cudaDeviceSynchronize(), "cublasDgemm");  // before the widened operands are freed
  }
  require_success(cudaGetLastError(), "the fp64 reference");
  return sums;
}

// Recomputes elements spread over the result on the CPU, the corners among them; the sums must agree to fp64 rounding.
inline Status sample_sums(const DeviceSums& sums, const HostMatrix& a, const HostMatrix& b, int samples = 64) {
  const int64_t elements = sums.batch * sums.m * sums.n;
  for (int s = 0; s < samples && elements > 0; ++s) {
    const int64_t i = samples == 1 ? 0 : static_cast<int64_t>(static_cast<double>(elements - 1) * s / (samples - 1));
    const int64_t batch = i / (sums.m * sums.n), row = i / sums.n % sums.m, col = i % sums.n;
    double sum = 0, absolute = 0;
    for (int64_t k = 0; k < sums.k; ++k) {
      const double product = static_cast<double>(a.get(batch, row, k)) * static_cast<double>(b.get(batch, k, col));
      sum += product;
      absolute += std::fabs(product);
    }
    const double tolerance = static_cast<double>(sums.k + 1) * 0x1p-52 * absolute;
    if (std::fabs(sums.at(sums.sum, i) - sum) <= tolerance &&
        std::fabs(sums.at(sums.absolute, i) - absolute) <= tolerance)
      continue;
    return {Code::wrong_result, "the device's fp64 reference is wrong at [batch " + std::to_string(batch) + ", row " +
                                    std::to_string(row) + ", col " + std::to_string(col) + "]: " +
                                    std::to_string(sums.at(sums.sum, i)) + ", the CPU has " + std::to_string(sum)};
  }
  return {};
}

// ---- the comparison on the device ----

struct DeviceTotals {
  int64_t wrong = 0, touched = 0, inexact = 0, first_wrong = INT64_MAX;  // first_wrong: storage index
  double max_error = 0, max_ratio = 0, bound = 0;
};

namespace detail {

struct CombineTotals {
  __host__ __device__ DeviceTotals operator()(const DeviceTotals& x, const DeviceTotals& y) const {
    const bool x_error = x.max_error != x.max_error || x.max_error >= y.max_error;  // NaN wins
    const bool x_ratio = x.max_ratio >= y.max_ratio;
    return {x.wrong + y.wrong,
            x.touched + y.touched,
            x.inexact + y.inexact,
            x.first_wrong < y.first_wrong ? x.first_wrong : y.first_wrong,
            x_error ? x.max_error : y.max_error,
            x_ratio ? x.max_ratio : y.max_ratio,
            x_ratio ? x.bound : y.bound};
  }
};

// The verdict on stored element i: a logical one against the reference, any other against the padding byte.
struct JudgeElement {
  StoredMatrix c;
  const void *got, *before;  // before is read only where beta != 0
  const double *sum, *absolute;
  int64_t k;
  double alpha, beta;
  bool exact;
  unsigned char padding;

  __host__ __device__ void expected(int64_t b, int64_t row, int64_t col, double& value, double& magnitude) const {
    const int64_t i = (b * c.rows + row) * c.cols + col;
    const double old = beta == 0 ? 0.0 : beta * load_element(c.type, before, c.index(b, row, col));
    value = (alpha == 0 || k == 0 ? 0.0 : alpha * sum[i]) + old;
    magnitude = (alpha == 0 || k == 0 ? 0.0 : fabs(alpha) * absolute[i]) + fabs(old);
  }
  __host__ __device__ DeviceTotals operator()(int64_t i) const {
    DeviceTotals totals;
    const int64_t b = c.batch > 1 ? i / c.batch_stride : 0, rest = i - b * c.batch_stride * (c.batch > 1);
    const int64_t row = rest / c.pitch, col = rest % c.pitch;
    if (row < c.rows && col < c.cols) {
      double value, magnitude;
      expected(b, row, col, value, magnitude);
      const ElementError e =
          element_error(c.type, value, exact ? 0.0 : accumulation_error(k, magnitude), load_element(c.type, got, i));
      totals = {!e.right, 0, exact && magnitude > kExactMagnitude, e.right ? INT64_MAX : i, e.error, e.ratio, e.bound};
    } else {
      const auto* bytes = static_cast<const unsigned char*>(got) + i * element_bytes(c.type);
      for (size_t byte = 0; byte < element_bytes(c.type); ++byte) totals.touched += bytes[byte] != padding;
    }
    return totals;
  }
};

}  // namespace detail

// The fp64 reference of one GEMM on the device, and the verdict on any number of outputs of it, however they are stored.
class GemmJudge {
 public:
  // The sums, sampled against the CPU.
  GemmJudge(const GemmFixture& f, std::string context)
      : context_(std::move(context) + ": " + f.describe()), alpha_(f.alpha), beta_(f.beta), exact_(f.fill.integers),
        sums_(sums_of(f)) {
    if (const Status sampled = sample_sums(sums_, f.a, f.b); !sampled)
      throw std::runtime_error(context_ + ": " + sampled.message);
  }

  // `got` and `before`, what it held where beta != 0, lie as c says. Padding must hold `padding` still.
  Comparison judge(const StoredMatrix& c, const void* got, const void* before, unsigned char padding) const {
    Comparison result;
    result.elements = c.batch * c.rows * c.cols;
    if (c.span() == 0) return result;
    const DeviceBuffer output(sizeof(DeviceTotals));
    const detail::JudgeElement judge{
        c, got, before, sums_.sum.as<double>(), sums_.absolute.as<double>(), sums_.k, alpha_, beta_, exact_, padding};
    const auto reduce = [&](void* scratch, size_t& bytes) {
      require_success(cub::DeviceReduce::TransformReduce(scratch, bytes, thrust::counting_iterator<int64_t>(0),
                                                         output.as<DeviceTotals>(), c.span(), detail::CombineTotals{},
                                                         judge, DeviceTotals{}),
                      "cub::DeviceReduce");
    };
    size_t bytes = 0;
    reduce(nullptr, bytes);
    const DeviceBuffer scratch(bytes);
    reduce(scratch.data(), bytes);
    DeviceTotals totals;
    output.download(&totals);
    if (totals.inexact)
      throw std::invalid_argument(context_ + ": an exact comparison needs sums of at most 2^24, " +
                                  std::to_string(totals.inexact) + " elements have more");
    result.wrong = totals.wrong, result.touched = totals.touched;
    result.max_error = totals.max_error, result.max_ratio = totals.max_ratio, result.bound = totals.bound;
    if (totals.wrong || totals.touched)
      result.message = context_ + ": " + std::to_string(totals.wrong) + " of " + std::to_string(result.elements) +
                       " elements wrong, " + std::to_string(totals.touched) + " padding bytes changed";
    if (totals.wrong) {
      const int64_t i = totals.first_wrong, b = c.batch > 1 ? i / c.batch_stride : 0,
                    rest = i - b * c.batch_stride * (c.batch > 1);
      result.message += "\n  the first one: [batch " + std::to_string(b) + ", row " + std::to_string(rest / c.pitch) +
                        ", col " + std::to_string(rest % c.pitch) + "]";
    }
    return result;
  }

 private:
  static DeviceSums sums_of(const GemmFixture& f) {
    StoredMatrix a = f.a.layout;
    if (f.alpha == 0) a.cols = 0;  // never read: sums of nothing
    return device_sums(a, f.device_a.data(), f.b.layout, f.device_b.data());
  }
  std::string context_;
  double alpha_, beta_;
  bool exact_;
  DeviceSums sums_;
};

// GemmFixture::verify for large sizes: the same verdict, with reference and comparison on the device.
inline Comparison verify_on_gpu(const GemmFixture& f, const std::string& context) {
  Comparison result;
  if (f.c.layout.span() > 0) {
    const DeviceBuffer before(f.c);
    result = GemmJudge(f, context).judge(f.c.layout, f.device_c.data(), before.data(), kOutputPadding);
  }
  f.check_memory(result, context + ": " + f.describe());
  return result;
}

// ---- many small cases at once ----

// One case in arenas that all cases share. Offsets and pitches in elements. The case owns [d_begin, d_end) of the
// output arena: whatever of it is not a logical element is padding or guard.
struct SmallCase {
  int64_t a, b, d, d_begin, d_end;
  int32_t m, n, k, lda, ldb, ldc;
  bool a_transposed, b_transposed;
  float alpha = 1, beta = 0;

  __host__ __device__ StoredMatrix matrix_a(ElementType t) const { return {t, m, k, a_transposed, lda, 0, 1, 0}; }
  __host__ __device__ StoredMatrix matrix_b(ElementType t) const { return {t, k, n, b_transposed, ldb, 0, 1, 0}; }
};

// In device memory; starts as ManyResult{}.
struct ManyResult {
  unsigned long long failed_cases = 0, wrong_elements = 0, touched_elements = 0, first_failed = ~0ull;
};

namespace detail {

// One block a case: writes the logical elements of A and B, nothing else.
static __global__ void fill_many_kernel(const SmallCase* cases, ElementType type, void* a, void* b, Fill fill) {
  const SmallCase x = cases[blockIdx.x];
  const size_t size = element_bytes(type);
  const auto write = [&](const StoredMatrix& m, void* arena, int64_t base, uint64_t which) {
    const Fill f{fill.integers, (fill.seed + blockIdx.x) * 3 + which, fill.range};
    void* data = static_cast<unsigned char*>(arena) + base * size;
    for (int64_t i = threadIdx.x; i < m.rows * m.cols; i += blockDim.x)
      store_element(type, data, m.index(0, i / m.cols, i % m.cols), fill_value(f, i));
  };
  write(x.matrix_a(type), a, x.a, 0);
  write(x.matrix_b(type), b, x.b, 1);
}

// One block a case: the exact result of integer operands, compared by value; poison everywhere else of the case's
// region.
static __global__ void compare_many_kernel(const SmallCase* cases, ElementType in, const void* a, const void* b,
                                           ElementType out, const void* d, const void* before, unsigned char poison,
                                           ManyResult* result) {
  const SmallCase x = cases[blockIdx.x];
  const StoredMatrix a_layout = x.matrix_a(in), b_layout = x.matrix_b(in);
  unsigned long long wrong = 0, touched = 0;
  for (int64_t i = x.d_begin + threadIdx.x; i < x.d_end; i += blockDim.x) {
    const int64_t from_base = i - x.d, row = from_base / x.ldc, col = from_base % x.ldc;
    if (from_base >= 0 && row < x.m && col < x.n) {
      double sum = 0;
      for (int64_t k = 0; x.alpha != 0 && k < x.k; ++k)
        sum += static_cast<double>(load_element(in, a, x.a + a_layout.index(0, row, k))) *
               static_cast<double>(load_element(in, b, x.b + b_layout.index(0, k, col)));
      const double value =
          x.alpha * sum + (x.beta == 0 ? 0.0 : x.beta * static_cast<double>(load_element(out, before, i)));
      wrong += !(load_element(out, d, i) == round_to(out, value));
    } else {
      const auto* bytes = static_cast<const unsigned char*>(d) + i * element_bytes(out);
      bool changed = false;
      for (size_t byte = 0; byte < element_bytes(out); ++byte) changed |= bytes[byte] != poison;
      touched += changed;
    }
  }
  if (wrong) atomicAdd(&result->wrong_elements, wrong);
  if (touched) atomicAdd(&result->touched_elements, touched);
  if (__syncthreads_or(wrong || touched) && threadIdx.x == 0) {
    atomicAdd(&result->failed_cases, 1ull);
    atomicMin(&result->first_failed, static_cast<unsigned long long>(blockIdx.x));
  }
}

}  // namespace detail

// Fills the operands of every case; case i has seed (seed + i) * 3 for A and one more for B. Poison the arenas first.
inline Status fill_many(const SmallCase* cases, int count, ElementType type, void* a, void* b, const Fill& fill,
                        cudaStream_t stream) {
  if (count == 0) return {};
  return launch(detail::fill_many_kernel, dim3(count), dim3(128), 0, stream, cases, type, a, b, fill);
}

// Adds the verdicts of `count` cases to *result (device memory); first_failed is the least index that failed. Operands,
// alpha and beta must be integers whose sums stay within 2^24; `before` is the output arena before, for beta != 0.
inline Status compare_many(const SmallCase* cases, int count, ElementType in, const void* a, const void* b,
                           ElementType out, const void* d, const void* before, unsigned char poison, ManyResult* result,
                           cudaStream_t stream) {
  if (count == 0) return {};
  return launch(detail::compare_many_kernel, dim3(count), dim3(128), 0, stream, cases, in, a, b, out, d, before, poison,
                result);
}

}  // namespace grout
