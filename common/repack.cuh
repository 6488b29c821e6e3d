// Repack: bring a row-major matrix of any pitch and base to a copy whose rows start at multiples of 16 bytes.
//
// Kernels that move 16-byte vectors need aligned rows. A matrix whose pitch is odd has hardly any; copying it once, with
// aligned loads that are shifted into place, costs one read and one write of it, and gives every later access its vectors.
//
// CONTRACT
// shapes        copy[b, r, c] = source[b, r, c] for r < rows, c < cols; zeros for cols <= c < ld. Batched.
// participants  whole warps: each takes a row's stretch of 4 x 32 vectors at a time.
// memory        reads only aligned words that lie wholly between the matrix's first and last valid byte, else elements.
// completion    when the kernel is.
#pragma once
#include "common/copy.cuh"

namespace grout {

template <class T> struct RepackParameters {
  const T* source;
  T* copy;
  int64_t rows, cols, source_ld, ld;  // elements; ld a multiple of 16 bytes, at least cols
  int64_t batch, source_stride, stride;
};

// Pitch of a copy with `cols` columns: the next multiple of 16 bytes.
template <class T> constexpr int64_t repack_ld(int64_t cols) {
  constexpr int64_t kVector = 16 / sizeof(T);
  return (cols + kVector - 1) / kVector * kVector;
}

template <class T> struct RepackShape {
  static constexpr int threads = 256, vectors = 4;  // vectors a thread holds in flight
  static constexpr int columns = vectors * 32 * 16 / static_cast<int>(sizeof(T));  // of a warp's stretch
  // Stretches of a row as a tile of one row; only the rules of its vectors are used.
  using Plan = CopyPlan<T, decltype(row_major(shape(1_c, Int<columns>{}))), 32,
                        CopyOptions{.misaligned = Misaligned::realign, .partial = Partial::zero_fill}>;
};

template <class T> __global__ void __launch_bounds__(RepackShape<T>::threads) repack_kernel(const RepackParameters<T> p) {
  using Shape = RepackShape<T>;
  using Plan = typename Shape::Plan;
  constexpr int kWarps = Shape::threads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t stretches = (p.ld + Shape::columns - 1) / Shape::columns, per_batch = p.rows * stretches;
  for (int64_t index = int64_t{blockIdx.x} * kWarps + warp; index < per_batch * p.batch; index += int64_t{gridDim.x} * kWarps) {
    const int64_t batch = index / per_batch, row = index % per_batch / stretches;
    const int64_t first = index % stretches * Shape::columns;
    const auto source =
        view(p.source + batch * p.source_stride, layout(shape(p.rows, p.cols), stride(p.source_ld, 1_c)));
    T* to = p.copy + batch * p.stride + row * p.ld;
    uint32_t low[Shape::vectors][4], high[Shape::vectors][4];
    uint32_t shift[Shape::vectors];
    int valid[Shape::vectors];
#pragma unroll
    for (int i = 0; i < Shape::vectors; ++i) {
      const int64_t col = first + (i * 32 + lane) * Plan::vector;
      const VectorDecision decision = decide_vector(Plan{}, source, row, col);
      shift[i] = 0;
      valid[i] = decision.last;
      if (decision.kind == VectorCase::realign) {
        const auto address = reinterpret_cast<uintptr_t>(detail::element(source, row, col));
        const auto* word = reinterpret_cast<const unsigned char*>(address & ~uintptr_t{15});
        ptx::load_global(low[i], word);
        ptx::load_global(high[i], word + 16);
        shift[i] = static_cast<uint32_t>(address & 15);
      } else if (decision.kind == VectorCase::async && decision.last == Plan::vector) {
        ptx::load_global(low[i], detail::element(source, row, col));
      } else {
        detail::load_elements(Plan{}, low[i], source, row, col, decision);
      }
    }
#pragma unroll
    for (int i = 0; i < Shape::vectors; ++i) {
      const int64_t col = first + (i * 32 + lane) * Plan::vector;
      if (col >= p.ld) continue;
      uint32_t words[4];
      detail::shift_words(words, low[i], high[i], shift[i]);
      if (valid[i] != Plan::vector) detail::keep_front<Plan::vector>(words, valid[i]);
      ptx::store_global(to + col, words);
    }
  }
}

// Repacks on `stream`. Errors: those of the launch.
template <class T> Status repack(const RepackParameters<T>& p, int sms, cudaStream_t stream) {
  using Shape = RepackShape<T>;
  if (p.rows == 0 || p.cols == 0 || p.batch == 0) return {};
  constexpr int64_t kWarps = Shape::threads / 32;
  const int64_t tasks = p.rows * ((p.ld + Shape::columns - 1) / Shape::columns) * p.batch;
  const int64_t blocks = (tasks + kWarps - 1) / kWarps, most = int64_t{sms} * 32;
  return launch(&repack_kernel<T>, dim3(static_cast<unsigned>(blocks < most ? blocks : most)), dim3(Shape::threads), 0, stream, p);
}

}  // namespace grout
