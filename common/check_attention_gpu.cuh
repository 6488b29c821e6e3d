// Attention's fp64 reference and its comparison on the GPU, for sizes at which the CPU is too slow; and attention in three
// steps with cuBLAS, whose error a fused kernel's is measured against.
//
// Included by GPU code only. Its programs link cuBLAS. The reference here is itself sampled against the CPU's. Failures to
// run anything throw std::runtime_error; a cuBLAS call that cannot be made is a Status.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "common/check_attention.cuh"
#include "common/check_gpu.cuh"

namespace grout {

namespace detail {

// What the kernels here read: the problem, its rows, where Q, K and V lie.
struct DeviceAttention {
  int64_t heads, share, dim, count;  // share: query heads to a key head; count: rows
  double scale;
  StoredHeads q, k, v;
  const void *q_data, *k_data, *v_data;
  const AttentionRow* rows;
};
struct DeviceReference {
  double *value, *slack;    // [row][head][dim]
  double *lse, *lse_slack;  // [row][head]
};

inline constexpr int kReferenceThreads = 128;
struct ReferenceShared {
  double query[256], partial[kReferenceThreads];
};
// Of all threads' values, for every thread: their maximum or sum. The whole block calls it.
template <bool Largest>
__device__ double block_reduce(ReferenceShared& shared, double mine) {
  __syncthreads();
  shared.partial[threadIdx.x] = mine;
  __syncthreads();
  double all = shared.partial[0];
  for (int i = 1; i < kReferenceThreads; ++i) all = Largest ? fmax(all, shared.partial[i]) : all + shared.partial[i];
  return all;
}

// A block a row and head, in turns. scratch: 2 * most_keys doubles a block.
static __global__ void attention_reference_kernel(DeviceAttention a, DeviceReference out, double* scratch,
                                                  int64_t most_keys) {
  ReferenceShared& shared = dynamic_shared<ReferenceShared>();
  double *weight = scratch + blockIdx.x * 2 * most_keys, *error = weight + most_keys;
  for (int64_t item = blockIdx.x; item < a.count * a.heads; item += gridDim.x) {
    const AttentionRow row = a.rows[item / a.heads];
    const int64_t h = item % a.heads, g = h / a.share;
    __syncthreads();
    for (int64_t d = threadIdx.x; d < a.dim && row.visible > 0; d += blockDim.x)
      shared.query[d] = load_element(a.q.type, a.q_data, a.q.index(row.batch, row.row, h, d));
    __syncthreads();
    double most = -INFINITY;
    for (int64_t j = threadIdx.x; j < row.visible; j += blockDim.x) {
      double sum = 0, magnitude = 0;
      bool whole = true;
      for (int64_t d = 0; d < a.dim; ++d) {
        const double key = load_element(a.k.type, a.k_data, a.k.index(row.batch, row.kv_first + j, g, d)),
                     query = shared.query[d];
        sum += query * key, magnitude += fabs(query * key);
        whole = whole && key == rint(key) && query == rint(query);
      }
      weight[j] = a.scale * sum;
      error[j] = whole && magnitude <= kExactMagnitude ? 0 : accumulation_error(a.dim, magnitude);
      most = fmax(most, weight[j]);
    }
    most = block_reduce<true>(shared, most);
    double total = 0, weight_error = 0;
    for (int64_t j = threadIdx.x; j < row.visible; j += blockDim.x) {
      error[j] = attention_weight_error(a.scale, error[j], most - weight[j], most, row.visible);
      weight[j] = exp(weight[j] - most);
      total += weight[j], weight_error += weight[j] * error[j];
    }
    total = block_reduce<false>(shared, total);
    weight_error = block_reduce<false>(shared, weight_error) / total;
    for (int64_t d = threadIdx.x; d < a.dim; d += blockDim.x) {
      double value = 0, slack = 0;
      if (row.visible > 0) {
        for (int64_t j = 0; j < row.visible; ++j)
          value += weight[j] * load_element(a.v.type, a.v_data, a.v.index(row.batch, row.kv_first + j, g, d));
        value /= total;
        AttentionErrors e;
        for (int64_t j = 0; j < row.visible; ++j) {
          const double x = load_element(a.v.type, a.v_data, a.v.index(row.batch, row.kv_first + j, g, d));
          e.moved += weight[j] * error[j] * fabs(x - value);
          e.rounded += attention_weight_rounding(a.v.type, weight[j]) * (1 + error[j]) * fabs(x);
          e.magnitude += weight[j] * fabs(x);
        }
        slack = attention_output_slack(row.visible, value,
                                       {weight_error, e.moved / total, e.rounded / total, e.magnitude / total});
      }
      out.value[item * a.dim + d] = value;
      out.slack[item * a.dim + d] = slack;
    }
    if (threadIdx.x == 0) {
      const double lse = row.visible > 0 ? most + log(total) : -INFINITY;
      out.lse[item] = lse;
      out.lse_slack[item] = row.visible > 0 ? attention_lse_slack(row.visible, weight_error, most, lse) : 0;
    }
  }
}

// The verdict on element i of O in the reference's order, and on LSE i.
struct JudgeOutput {
  DeviceReference ref;
  const AttentionRow* rows;
  int64_t heads;
  StoredHeads o;
  const void* got;
  bool exact;
  __host__ __device__ DeviceTotals operator()(int64_t i) const {
    const AttentionRow row = rows[i / o.dim / heads];
    const float x = load_element(o.type, got, o.index(row.batch, row.row, i / o.dim % heads, i % o.dim));
    const ElementError e = element_error(o.type, ref.value[i], exact ? 0 : ref.slack[i], x);
    return {!e.right, 0, 0, e.right ? INT64_MAX : i, e.error, e.ratio, e.bound};
  }
};
struct JudgeLse {
  DeviceReference ref;
  const AttentionRow* rows;
  int64_t heads, lse_rows;
  const float* got;
  __host__ __device__ DeviceTotals operator()(int64_t i) const {
    const AttentionRow row = rows[i / heads];
    const float x = got[grout::lse_index(heads, lse_rows, row.batch, row.row, i % heads)];
    const ElementError e = lse_element_error(ref.lse[i], ref.lse_slack[i], x);
    return {!e.right, 0, 0, e.right ? INT64_MAX : i, e.error, e.ratio, e.bound};
  }
};

// Writes to every logical element of O and LSE what `before` has there. Any grid.
static __global__ void restore_kernel(const AttentionRow* rows, int64_t count, int64_t heads, StoredHeads o, uint16_t* now,
                                      const uint16_t* before, float* lse) {
  for (int64_t i = first_item(); i < count * heads; i += item_step()) {
    const AttentionRow row = rows[i / heads];
    for (int64_t d = 0; d < o.dim; ++d) {
      const int64_t place = o.index(row.batch, row.row, i % heads, d);
      now[place] = before[place];
    }
    if (lse != nullptr) lse[grout::lse_index(heads, o.rows, row.batch, row.row, i % heads)] = __int_as_float(-1);
  }
}

// One block a row of logits [heads][queries][keys]: their softmax over the first keys that the row sees, rounded; 0 behind
// them.
static __global__ void softmax_kernel(const float* logits, void* weights, ElementType type, int64_t queries, int64_t keys,
                                      bool causal) {
  ReferenceShared& shared = dynamic_shared<ReferenceShared>();
  const int64_t row = blockIdx.x, i = row % queries;
  const int64_t visible = !causal ? keys : std::clamp<int64_t>(i + 1 + keys - queries, 0, keys);
  const float* from = logits + row * keys;
  double most = -INFINITY, total = 0;
  for (int64_t j = threadIdx.x; j < visible; j += blockDim.x) most = fmax(most, from[j]);
  const float largest = static_cast<float>(block_reduce<true>(shared, most));
  for (int64_t j = threadIdx.x; j < visible; j += blockDim.x) total += expf(from[j] - largest);
  const float sum = static_cast<float>(block_reduce<false>(shared, total));
  for (int64_t j = threadIdx.x; j < keys; j += blockDim.x)
    store_element(type, weights, row * keys + j, j < visible ? expf(from[j] - largest) / sum : 0.f);
}

}  // namespace detail

// The fp64 reference of one problem on the device, and the verdict on any number of outputs of it.
class AttentionJudge {
 public:
  // 32 rows and heads are sampled against the CPU.
  AttentionJudge(const AttentionFixture& f, std::string context)
      : context_(std::move(context) + ": " + f.describe()),
        heads_(f.problem.heads),
        dim_(f.problem.dim),
        rows_(attention_rows(f.problem)),
        device_rows_(rows_.size() * sizeof(AttentionRow)),
        value_(items() * static_cast<size_t>(dim_) * sizeof(double)),
        slack_(value_.size()),
        lse_(items() * sizeof(double)),
        lse_slack_(lse_.size()) {
    if (rows_.empty()) return;
    device_rows_.upload(rows_.data());
    int64_t most_keys = 1;
    for (const AttentionRow& row : rows_) most_keys = std::max(most_keys, row.visible);
    const int64_t per_block = 2 * most_keys * static_cast<int64_t>(sizeof(double));
    const int64_t blocks =
        std::clamp<int64_t>((int64_t{1} << 31) / per_block, 1, std::min<int64_t>(4096, static_cast<int64_t>(items())));
    const DeviceBuffer scratch(static_cast<size_t>(blocks * per_block));
    const detail::DeviceAttention a = {heads_,
                                       heads_ / f.problem.kv_heads,
                                       dim_,
                                       static_cast<int64_t>(rows_.size()),
                                       f.problem.scale,
                                       f.q.layout,
                                       f.k.layout,
                                       f.v.layout,
                                       f.base(f.device_q, f.q),
                                       f.base(f.device_k, f.k),
                                       f.base(f.device_v, f.v),
                                       device_rows_.as<AttentionRow>()};
    const Status launched =
        launch(detail::attention_reference_kernel, dim3(static_cast<unsigned>(blocks)), dim3(detail::kReferenceThreads),
               sizeof(detail::ReferenceShared), nullptr, a, reference(), scratch.as<double>(), most_keys);
    if (!launched) throw std::runtime_error(context_ + ": the fp64 reference: " + launched.message);
    require_success(cudaDeviceSynchronize(), "the fp64 reference");
    sample(f);
  }

  // `o` is the base of O, which lies as `layout` says; LSE may be null: not looked at.
  AttentionComparison judge(const StoredHeads& layout, const void* o, const float* lse, bool exact = false) const {
    AttentionComparison result;
    result.elements = static_cast<int64_t>(items()) * dim_;
    if (rows_.empty()) return result;
    const DeviceTotals of_o =
        reduce(result.elements, detail::JudgeOutput{reference(), device_rows_.as<AttentionRow>(), heads_, layout, o, exact});
    result.wrong = of_o.wrong, result.max_error = of_o.max_error, result.max_ratio = of_o.max_ratio,
    result.bound = of_o.bound;
    if (of_o.wrong) result.message = verdict("O", of_o, of_o.first_wrong / dim_, result.elements);
    if (lse == nullptr) return result;
    const DeviceTotals of_lse =
        reduce(static_cast<int64_t>(items()),
               detail::JudgeLse{reference(), device_rows_.as<AttentionRow>(), heads_, layout.rows, lse});
    result.wrong += of_lse.wrong, result.lse_error = of_lse.max_error, result.lse_ratio = of_lse.max_ratio;
    if (of_lse.wrong) result.message += verdict("LSE", of_lse, of_lse.first_wrong, static_cast<int64_t>(items()));
    return result;
  }
  // What lies around O and LSE: counts the 16-bit elements, and floats, that changed.
  int64_t touched(const AttentionFixture& f) const {
    DeviceBuffer before(f.o.memory.size() * 2);
    const DeviceBuffer now(before.size()), lse(f.lse.size() * sizeof(float));
    before.upload(f.o.memory.data());
    require_success(cudaMemcpy(now.data(), f.device_o.data(), now.size(), cudaMemcpyDeviceToDevice), "cudaMemcpy");
    require_success(cudaMemcpy(lse.data(), f.device_lse.data(), lse.size(), cudaMemcpyDeviceToDevice), "cudaMemcpy");
    const int64_t items_here = static_cast<int64_t>(items()), low = f.o.layout.low();
    if (items_here > 0)
      detail::restore_kernel<<<detail::blocks_for(items_here), 256>>>(
          device_rows_.as<AttentionRow>(), static_cast<int64_t>(rows_.size()), heads_, f.o.layout, now.as<uint16_t>() - low,
          before.as<uint16_t>() - low, f.wants_lse ? lse.as<float>() : nullptr);
    require_success(cudaGetLastError(), "restore_kernel");
    std::vector<uint16_t> got(f.o.memory.size());
    std::vector<float> got_lse(f.lse.size());
    now.download(got.data()), lse.download(got_lse.data());
    int64_t count = 0;
    for (size_t i = 0; i < got.size(); ++i) count += got[i] != f.o.memory[i];
    for (const float x : got_lse) {
      uint32_t bits;
      std::memcpy(&bits, &x, sizeof bits);
      count += bits != 0xffffffffu;
    }
    return count;
  }
  // The largest |O| of the reference.
  double largest() const {
    std::vector<double> all(value_.size() / sizeof(double));
    value_.download(all.data());
    double most = 0;
    for (const double x : all) most = std::max(most, std::fabs(x));
    return most;
  }
  const std::string& context() const { return context_; }

 private:
  size_t items() const { return rows_.size() * static_cast<size_t>(heads_); }
  detail::DeviceReference reference() const {
    return {value_.as<double>(), slack_.as<double>(), lse_.as<double>(), lse_slack_.as<double>()};
  }
  template <class F>
  DeviceTotals reduce(int64_t count, const F& f) const {
    const DeviceBuffer output(sizeof(DeviceTotals));
    size_t bytes = 0;
    const auto run = [&](void* scratch) {
      require_success(
          cub::DeviceReduce::TransformReduce(scratch, bytes, thrust::counting_iterator<int64_t>(0),
                                             output.as<DeviceTotals>(), count, detail::CombineTotals{}, f, DeviceTotals{}),
          "cub::DeviceReduce");
    };
    run(nullptr);
    const DeviceBuffer scratch(bytes);
    run(scratch.data());
    DeviceTotals totals;
    output.download(&totals);
    return totals;
  }
  std::string verdict(const char* what, const DeviceTotals& totals, int64_t item, int64_t of) const {
    const AttentionRow& row = rows_[static_cast<size_t>(item / heads_)];
    return context_ + ": " + std::to_string(totals.wrong) + " of " + std::to_string(of) + " elements of " + what +
           " wrong, the first in batch " + std::to_string(row.batch) + ", row " + std::to_string(row.row) + ", head " +
           std::to_string(item % heads_) + "; largest error " + std::to_string(totals.max_error) + "\n";
  }
  void sample(const AttentionFixture& f) const {
    constexpr size_t kSamples = 32;
    const size_t dim = static_cast<size_t>(dim_), count = std::min(kSamples, items());
    std::vector<double> value(dim), slack(dim), got(dim), got_slack(dim);
    for (size_t s = 0; s < count; ++s) {
      const size_t item = count == 1 ? 0 : (items() - 1) * s / (count - 1);
      const AttentionRow& row = rows_[item / static_cast<size_t>(heads_)];
      const int64_t h = static_cast<int64_t>(item) % heads_, g = h / (heads_ / f.problem.kv_heads);
      double lse, lse_slack, got_lse[2];
      const std::vector<double> q = detail::widen(f.q, row.batch, row.row, row.visible > 0 ? 1 : 0, h),
                                k = detail::widen(f.k, row.batch, row.kv_first, row.visible, g),
                                v = detail::widen(f.v, row.batch, row.kv_first, row.visible, g);
      detail::reference_row(f.problem, q.data(), k.data(), v.data(), row.visible, value.data(), slack.data(), lse,
                            lse_slack);
      const auto fetch = [](double* to, const DeviceBuffer& from, size_t first, size_t n) {
        require_success(cudaMemcpy(to, from.as<double>() + first, n * sizeof(double), cudaMemcpyDeviceToHost), "download");
      };
      fetch(got.data(), value_, item * dim, dim), fetch(got_slack.data(), slack_, item * dim, dim);
      fetch(&got_lse[0], lse_, item, 1), fetch(&got_lse[1], lse_slack_, item, 1);
      const auto same = [](double x, double y, double tolerance) { return x == y || std::fabs(x - y) <= tolerance; };
      bool right = same(got_lse[0], lse, 1e-6 * lse_slack) && same(got_lse[1], lse_slack, 1e-6 * lse_slack);
      for (size_t d = 0; d < dim; ++d)
        right = right && same(got[d], value[d], 1e-6 * slack[d]) && same(got_slack[d], slack[d], 1e-6 * slack[d]);
      if (!right)
        throw std::runtime_error(context_ + ": the device's fp64 reference and the CPU's differ in batch " +
                                 std::to_string(row.batch) + ", row " + std::to_string(row.row) + ", head " +
                                 std::to_string(h));
    }
  }

  std::string context_;
  int64_t heads_, dim_;
  std::vector<AttentionRow> rows_;
  DeviceBuffer device_rows_, value_, slack_, lse_, lse_slack_;
};

// AttentionFixture::verify for large sizes: the same verdict, with reference and comparison on the device.
inline AttentionComparison verify_attention_on_gpu(const AttentionFixture& f, const AttentionJudge& judge,
                                                   bool exact = false) {
  AttentionComparison result =
      judge.judge(f.o.layout, f.base(f.device_o, f.o), f.wants_lse ? f.device_lse.as<float>() : nullptr, exact);
  result.touched = judge.touched(f);
  if (result.touched)
    result.message += judge.context() + ": " + std::to_string(result.touched) + " elements of no row changed";
  f.check_memory(result, judge.context());
  return result;
}

// Device memory that attention in three steps takes: logits and weights of the heads that share a key head.
inline double unfused_attention_bytes(const AttentionProblem& p) {
  return 6.0 * static_cast<double>(p.heads / p.kv_heads) * static_cast<double>(p.q_length) *
         static_cast<double>(p.kv_length);
}

// Attention in three steps: logits in fp32 by cuBLAS, their softmax rounded to the type, its product with V by cuBLAS.
// Strides that are no matrix's (of the wrong sign, or 0) are for cuBLAS to refuse.
class UnfusedAttention {
 public:
  explicit UnfusedAttention(const AttentionProblem& p)
      : logits_(static_cast<size_t>(p.heads / p.kv_heads * p.q_length * p.kv_length) * sizeof(float)),
        weights_(logits_.size() / 2) {}

  // O as f.o lies, at `o`. Not for packed sequences.
  Status run(const AttentionFixture& f, void* o, cudaStream_t stream) const {
    const AttentionProblem& p = f.problem;
    if (p.packed() || p.kv_length == 0) return unsupported("attention in three steps takes keys, and no packed sequences");
    const int64_t share = p.heads / p.kv_heads;
    const auto at_head = [&](const HostHeads& h, const void* base, int64_t b, int64_t head) {
      return static_cast<const uint16_t*>(base) + h.layout.index(b, 0, head, 0);
    };
    const auto rows = [&](const HostHeads& h, int64_t count, bool transposed, bool keys) {
      return StoredMatrix{
          p.type, transposed ? p.dim : count,     transposed ? count : p.dim, transposed, h.layout.row_stride, 0,
          share,  keys ? 0 : h.layout.head_stride};
    };
    const StoredMatrix logits = stored(ElementType::f32, p.q_length, p.kv_length, false, -1, 0, share);
    const StoredMatrix weights = stored(p.type, p.q_length, p.kv_length, false, -1, 0, share);
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t g = 0; g < p.kv_heads; ++g) {
        uint16_t* out = static_cast<uint16_t*>(o) + f.o.layout.index(b, 0, g * share, 0);
        if (Status s = cublas_gemm(rows(f.q, p.q_length, false, false), at_head(f.q, f.base(f.device_q, f.q), b, g * share),
                                   rows(f.k, p.kv_length, true, true), at_head(f.k, f.base(f.device_k, f.k), b, g), logits,
                                   logits_.data(), p.scale, 0, stream);
            !s)
          return s;
        if (Status s = launch(detail::softmax_kernel, dim3(static_cast<unsigned>(share * p.q_length)),
                              dim3(detail::kReferenceThreads), sizeof(detail::ReferenceShared), stream, logits_.as<float>(),
                              weights_.data(), p.type, p.q_length, p.kv_length, p.causal);
            !s)
          return s;
        if (Status s = cublas_gemm(weights, weights_.data(), rows(f.v, p.kv_length, false, true),
                                   at_head(f.v, f.base(f.device_v, f.v), b, g), rows(f.o, p.q_length, false, false), out, 1,
                                   0, stream);
            !s)
          return s;
      }
    return {};
  }

 private:
  DeviceBuffer logits_, weights_;
};

}  // namespace grout
