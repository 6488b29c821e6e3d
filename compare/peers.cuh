// cuBLAS, both of its doors: cublasGemmEx (check_gpu.cuh) and cublasLt.
// Included by GPU code only.
#pragma once
#include <cublasLt.h>

#include "common/check_gpu.cuh"

namespace grout::compare {

// One cublasLt product, D = A * B with fp32 accumulation (fp32 operands: no TF32): the first heuristic for a workspace of 32 MiB,
// or a recorded algorithm. Not for batches.
class LtGemm {
 public:
  static constexpr size_t kWorkspace = size_t{32} << 20;

  // `algorithm`: as algorithm() gave it, in hexadecimal digits; empty: ask for the first one. Throws where there is none.
  LtGemm(const StoredMatrix& a, const void* a_data, const StoredMatrix& b, const void* b_data, const StoredMatrix& c,
         void* c_data, const std::string& algorithm)
      : a_(a_data), b_(b_data), c_(c_data), workspace_(kWorkspace) {
    require_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
    require_cublas(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    // Column-major, as cuBLAS counts: C^T = B^T * A^T.
    const auto set = [&](cublasLtMatmulDescAttributes_t which, const StoredMatrix& m) {
      const cublasOperation_t op = m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
      require_cublas(cublasLtMatmulDescSetAttribute(operation_, which, &op, sizeof op),
                     "cublasLtMatmulDescSetAttribute");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, b), set(CUBLASLT_MATMUL_DESC_TRANSB, a);
    const auto layout = [](cublasLtMatrixLayout_t& made, const StoredMatrix& m) {
      const cudaDataType type = m.type == ElementType::bf16  ? CUDA_R_16BF
                                : m.type == ElementType::f16 ? CUDA_R_16F
                                                             : CUDA_R_32F;
      require_cublas(cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(m.stored_cols()),
                                                static_cast<uint64_t>(m.stored_rows()), m.pitch),
                     "cublasLtMatrixLayoutCreate");
    };
    layout(layout_a_, a), layout(layout_b_, b), layout(layout_c_, c);
    if (algorithm.empty()) {
      cublasLtMatmulPreference_t preference;
      require_cublas(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
      const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
        require_cublas(cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value),
                       "cublasLtMatmulPreferenceSetAttribute");
      };
      prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
      // Parts of a split K are added in fp32, as by cublas_handle().
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             static_cast<uint32_t>(c.type == ElementType::f32 ? CUBLASLT_REDUCTION_SCHEME_MASK
                                                              : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
      const auto alignment = [](const void* p) {
        return static_cast<uint32_t>(
            std::min<uintptr_t>(reinterpret_cast<uintptr_t>(p) & -reinterpret_cast<uintptr_t>(p), 256));
      };
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(b_data));
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(a_data));
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(c_data));
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(c_data));
      cublasLtMatmulHeuristicResult_t result;
      int found = 0;
      const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, operation_, layout_b_, layout_a_, layout_c_,
                                                                   layout_c_, preference, 1, &result, &found);
      (void)cublasLtMatmulPreferenceDestroy(preference);
      require_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
      if (found == 0) throw std::runtime_error("cublasLt has no algorithm for this product");
      algorithm_ = result.algo;
    } else {
      if (algorithm.size() != 2 * sizeof algorithm_)
        throw std::runtime_error("the recorded cublasLt algorithm has " + std::to_string(algorithm.size()) +
                                 " digits, " + std::to_string(2 * sizeof algorithm_) + " are needed");
      auto* bytes = reinterpret_cast<unsigned char*>(&algorithm_);
      for (size_t i = 0; i < sizeof algorithm_; ++i)
        bytes[i] = static_cast<unsigned char>(std::stoi(algorithm.substr(2 * i, 2), nullptr, 16));
      cublasLtMatmulHeuristicResult_t result;
      require_cublas(cublasLtMatmulAlgoCheck(handle_, operation_, layout_b_, layout_a_, layout_c_, layout_c_,
                                             &algorithm_, &result),
                     "the recorded cublasLt algorithm");
    }
  }
  LtGemm(const LtGemm&) = delete;
  LtGemm& operator=(const LtGemm&) = delete;
  ~LtGemm() {
    (void)cublasLtMatrixLayoutDestroy(layout_a_), (void)cublasLtMatrixLayoutDestroy(layout_b_),
        (void)cublasLtMatrixLayoutDestroy(layout_c_);
    (void)cublasLtMatmulDescDestroy(operation_), (void)cublasLtDestroy(handle_);
  }

  std::string algorithm() const {
    std::string digits;
    const auto* bytes = reinterpret_cast<const unsigned char*>(&algorithm_);
    char two[3];
    for (size_t i = 0; i < sizeof algorithm_; ++i) std::snprintf(two, sizeof two, "%02x", bytes[i]), digits += two;
    return digits;
  }
  void run(cudaStream_t stream) const {
    const float one = 1, zero = 0;
    require_cublas(cublasLtMatmul(handle_, operation_, &one, b_, layout_b_, a_, layout_a_, &zero, c_, layout_c_, c_,
                                  layout_c_, &algorithm_, workspace_.data(), kWorkspace, stream),
                   "cublasLtMatmul");
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layout_a_ = nullptr, layout_b_ = nullptr, layout_c_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  const void *a_, *b_;
  void* c_;
  DeviceBuffer workspace_;
};

}  // namespace grout::compare
