// References, derived error bounds and comparisons, for binaries and tests on both devices.
//
// Stored matrices with any pitch and offset; device buffers with guard bands; a CPU fp64 GEMM; a comparison in which
// NaN is always wrong and every byte outside the logical result must be untouched. Failure messages print every
// argument. Errors of the device runtime throw std::runtime_error. Large sizes: common/check_gpu.cuh.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "common/launch.cuh"
#include "common/numeric.cuh"

namespace grout {

// Poison: 0xff bytes are NaN in bf16, f16 and f32 at any byte offset. The padding of an output holds 0x7f instead (NaN
// in f16, 3.4e38 in bf16 and f32), so that poison copied from an operand's padding into it shows.
inline constexpr unsigned char kPoison = 0xff, kOutputPadding = 0x7f;

inline void require(const Status& status) {
  if (!status) throw std::runtime_error(status.message);
}
inline void require_success(cudaError_t error, const char* what) {
  if (const Status status = runtime_status(error, what); !status) throw std::runtime_error(status.message);
}

// ---- stored matrices ----

// Where a logical rows x cols matrix lies: element (batch, r, c) is index() elements after the base, and the base lies
// `offset` elements after a 256-byte boundary. Strides in elements; a batch stride of 0 is a broadcast.
struct StoredMatrix {
  ElementType type = ElementType::bf16;
  int64_t rows = 0, cols = 0;
  bool transposed = false;  // stored cols x rows
  int64_t pitch = 0;        // between stored rows
  int64_t offset = 0;
  int64_t batch = 1, batch_stride = 0;

  GROUT_HD int64_t index(int64_t b, int64_t r, int64_t c) const {
    return b * batch_stride + (transposed ? c * pitch + r : r * pitch + c);
  }
  GROUT_HD int64_t stored_rows() const { return transposed ? cols : rows; }
  GROUT_HD int64_t stored_cols() const { return transposed ? rows : cols; }
  // Elements from the base to the end of the last one; 0 for an empty matrix.
  int64_t span() const { return rows && cols && batch ? index(batch - 1, rows - 1, cols - 1) + 1 : 0; }
  int64_t distinct_batches() const { return batch_stride == 0 ? std::min<int64_t>(batch, 1) : batch; }
};

// A StoredMatrix, compact where nothing is said: pitch = stored row, batch stride = one stored matrix.
inline StoredMatrix stored(ElementType type, int64_t rows, int64_t cols, bool transposed = false, int64_t pitch = -1,
                           int64_t offset = 0, int64_t batch = 1, int64_t batch_stride = -1) {
  StoredMatrix m{type, rows, cols, transposed, pitch, offset, batch, batch_stride};
  if (pitch < 0) m.pitch = m.stored_cols();
  if (batch_stride < 0) m.batch_stride = m.stored_rows() * m.pitch;
  return m;
}

inline std::string describe(const StoredMatrix& m) {
  return std::string(element_name(m.type)) + " " + std::to_string(m.rows) + "x" + std::to_string(m.cols) +
         (m.transposed ? " transposed" : "") + " pitch " + std::to_string(m.pitch) + " offset " +
         std::to_string(m.offset) + " batch " + std::to_string(m.batch) + " stride " + std::to_string(m.batch_stride);
}

GROUT_HD float load_element(ElementType type, const void* base, int64_t index) {
  if (type == ElementType::bf16) return to_float(static_cast<const bf16*>(base)[index]);
  if (type == ElementType::f16) return to_float(static_cast<const f16*>(base)[index]);
  return static_cast<const float*>(base)[index];
}
GROUT_HD void store_element(ElementType type, void* base, int64_t index, float value) {
  if (type == ElementType::bf16) static_cast<bf16*>(base)[index] = bf16(value);
  if (type == ElementType::f16) static_cast<f16*>(base)[index] = f16(value);
  if (type == ElementType::f32) static_cast<float*>(base)[index] = value;
}

// What fills a matrix: uniform in [-1, 1), or integers of absolute value <= range. The value of a logical element
// depends on seed and coordinate only, not on storage, and is the same on host and GPU.
struct Fill {
  bool integers = false;
  uint64_t seed = 1;
  int range = 4;
};
GROUT_HD float fill_value(const Fill& fill, int64_t element) {
  uint64_t x = fill.seed * 0xd1342543de82ef95u + static_cast<uint64_t>(element) * 0x9e3779b97f4a7c15u;  // splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  if (fill.integers)
    return static_cast<float>(static_cast<int64_t>((x >> 11) % static_cast<uint64_t>(2 * fill.range + 1)) - fill.range);
  return static_cast<float>(static_cast<int64_t>(x >> 40) - (1 << 23)) * 0x1p-23f;
}

// A matrix in host memory: every byte outside the logical elements holds the padding byte, logical ones start as NaN.
struct HostMatrix {
  static constexpr int64_t kFillRows = 16;  // a thread takes at once
  StoredMatrix layout;
  std::vector<unsigned char> bytes;

  explicit HostMatrix(const StoredMatrix& m, unsigned char padding = kPoison)
      : layout(m), bytes(static_cast<size_t>(m.span()) * element_bytes(m.type), padding) {
    const size_t size = element_bytes(m.type), row = static_cast<size_t>(m.stored_cols()) * size;
    for (int64_t b = 0; row > 0 && b < m.distinct_batches(); ++b)
      for (int64_t r = 0; r < m.stored_rows(); ++r)
        std::memset(bytes.data() + static_cast<size_t>(b * m.batch_stride + r * m.pitch) * size, kPoison, row);
  }
  float get(int64_t b, int64_t r, int64_t c) const {
    return load_element(layout.type, bytes.data(), layout.index(b, r, c));
  }
  void set(int64_t b, int64_t r, int64_t c, float value) {
    store_element(layout.type, bytes.data(), layout.index(b, r, c), value);
  }
  // By several threads where it is large.
  void fill(const Fill& f) {
    const int64_t rows = layout.cols == 0 ? 0 : layout.distinct_batches() * layout.rows;
    std::atomic<int64_t> next{0};
    const auto work = [&] {
      for (int64_t first; (first = next++ * kFillRows) < rows;)
        for (int64_t row = first; row < std::min(rows, first + kFillRows); ++row)
          for (int64_t c = 0; c < layout.cols; ++c)
            store_element(layout.type, bytes.data(), layout.index(row / layout.rows, row % layout.rows, c),
                          fill_value(f, row * layout.cols + c));
    };
    const bool small = rows * layout.cols < 1'000'000;
    std::vector<std::thread> others(small ? 0 : std::max(1u, std::thread::hardware_concurrency()) - 1);
    for (auto& thread : others) thread = std::thread(work);
    work();
    for (auto& thread : others) thread.join();
  }
  // Calls f(number of the logical element in row-major order, storage index).
  template <class F>
  void each(const F& f) const {
    if (layout.cols == 0) return;  // or many rows of nothing would take their time
    for (int64_t b = 0; b < layout.distinct_batches(); ++b)
      for (int64_t r = 0; r < layout.rows; ++r)
        for (int64_t c = 0; c < layout.cols; ++c) f((b * layout.rows + r) * layout.cols + c, layout.index(b, r, c));
  }
};

// ---- device memory ----

// `bytes` of device memory starting `misalignment` bytes after a 256-byte boundary, filled with poison, between two
// guard bands that hold `guard_byte`. With guard = 0 the allocation ends with the data, for AddressSanitizer to watch.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes, size_t misalignment = 0, unsigned char guard_byte = kPoison, size_t guard = 256)
      : bytes_(bytes), front_((guard + 255) / 256 * 256 + misalignment), back_(guard), guard_byte_(guard_byte) {
    void* memory = nullptr;
    require_success(cudaMalloc(&memory, std::max<size_t>(front_ + bytes + back_, 1)), "cudaMalloc");
    allocation_.reset(static_cast<unsigned char*>(memory));
    require_success(cudaMemset(memory, guard_byte, front_ + bytes + back_), "cudaMemset");
    require_success(cudaMemset(data(), kPoison, bytes), "cudaMemset");
  }
  // The memory of one host matrix, uploaded, at the matrix's offset.
  explicit DeviceBuffer(const HostMatrix& m, unsigned char guard_byte = kPoison, size_t guard = 256)
      : DeviceBuffer(m.bytes.size(), static_cast<size_t>(m.layout.offset) * element_bytes(m.layout.type), guard_byte,
                     guard) {
    upload(m.bytes.data());
  }

  void* data() const { return allocation_.get() + front_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  size_t size() const { return bytes_; }
  void upload(const void* from) { require_success(cudaMemcpy(data(), from, bytes_, cudaMemcpyHostToDevice), "upload"); }
  // Waits for all work on the device: its errors surface here.
  void download(void* to) const {
    require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    require_success(cudaMemcpy(to, data(), bytes_, cudaMemcpyDeviceToHost), "download");
  }

  Status check_guards(const std::string& name) const {
    require_success(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::vector<unsigned char> band(front_ + back_);
    const unsigned char* base = allocation_.get();
    require_success(cudaMemcpy(band.data(), base, front_, cudaMemcpyDeviceToHost), "download");
    require_success(cudaMemcpy(band.data() + front_, base + front_ + bytes_, back_, cudaMemcpyDeviceToHost),
                    "download");
    const auto changed = [&](unsigned char byte) { return byte != guard_byte_; };
    const auto first = std::find_if(band.begin(), band.end(), changed);
    if (first == band.end()) return {};
    const size_t at = static_cast<size_t>(first - band.begin());
    char text[160];
    std::snprintf(text, sizeof text, ": %td guard bytes changed, the first one %zu bytes %s of %zu: %02x became %02x",
                  std::count_if(band.begin(), band.end(), changed), at < front_ ? front_ - at : at - front_ + 1,
                  at < front_ ? "before the start" : "past the end", bytes_, guard_byte_, *first);
    return {Code::wrong_result, name + text};
  }

 private:
  struct Free {
    void operator()(unsigned char* memory) const { (void)cudaFree(memory); }
  };
  std::unique_ptr<unsigned char, Free> allocation_;
  size_t bytes_, front_, back_;
  unsigned char guard_byte_;
};

// ---- what a result may be ----

// How far the fp32 value of one element may be from the exact one, before it is rounded to the output type.
//
// magnitude = |alpha| * sum |a*b| + |beta*c|. Products of two bf16 or f16 are exact in fp32; the sum is not. Model of
// one step that adds 8 products to the accumulator (tensor cores add 8 or 16 at once): each of the 9 addends is cut off
// at one extra bit below the ulp of the largest (9 * 2^-24), then the sum is cut off at fp32 (2^-23), all relative to a
// running magnitude that never exceeds the final one. Rounding each fp32 product and adding in any sequence, 8 * 2^-24
// a step and 2^-24 once, stays below that. After it: three roundings for alpha, beta and their sum, the fp64
// reference's own K * 2^-52, and underflow of each addend. To first order in 2^-23.
GROUT_HD double accumulation_error(int64_t k, double magnitude) {
  const double steps = static_cast<double>((k + 7) / 8), terms = static_cast<double>(k);
  return magnitude * (steps * (9 * 0x1p-24 + 0x1p-23) + 3 * 0x1p-24 + terms * 0x1p-52) + (terms + 3) * 0x1p-126;
}

GROUT_HD double round_to(ElementType type, double value) {
  const float f = static_cast<float>(value);
  return type == ElementType::bf16 ? to_float(bf16(f)) : type == ElementType::f16 ? to_float(f16(f)) : f;
}

// The largest |got - value| that is right: got must lie between the roundings of value - slack and value + slack, since
// rounding is monotonic. So overflow to infinity, subnormals and ties need no rules of their own; a got that rounding
// cannot give has a negative bound. Exact comparison is slack = 0. Use: wrong = !(|got - value| <= bound).
GROUT_HD double error_bound(ElementType type, double value, double slack, double got) {
  return got >= value ? round_to(type, value + slack) - value : value - round_to(type, value - slack);
}

// Integer operands and integer alpha and beta are compared exactly: while magnitude <= 2^24, every partial sum in any
// order is an integer that fp32 holds, so the result is the exact one rounded once to the output type.
inline constexpr double kExactMagnitude = 0x1p24;

// The largest |v| <= 8 for which operands of that range keep a K-long sum exact; 0 if there is none.
inline int exact_range(int64_t k, double alpha = 1, double beta = 0) {
  int v = 8;
  while (v > 0 && std::fabs(alpha) * static_cast<double>(k) * v * v + std::fabs(beta) * v > kExactMagnitude) --v;
  return v;
}

// ---- the CPU reference ----

struct Reference {
  int64_t batch = 0, m = 0, n = 0, k = 0;  // k = 0 also where alpha = 0
  std::vector<double> value, magnitude;    // [batch][m][n]
};

// alpha * A * B + beta * C in fp64; A is logical M x K, B is K x N. alpha = 0 or K = 0 reads neither A nor B, beta = 0
// reads no C (it may be null). Rows are spread over the machine's threads.
inline Reference reference_gemm(const HostMatrix& a, const HostMatrix& b, const HostMatrix* c, float alpha,
                                float beta) {
  constexpr int64_t kCols = 32, kRows = 16;  // one panel of B against a strip of A
  Reference ref{a.layout.batch, a.layout.rows, b.layout.cols, alpha == 0 ? 0 : a.layout.cols, {}, {}};
  const int64_t m = ref.m, n = ref.n, k = ref.k, panels = (n + kCols - 1) / kCols;
  ref.value.resize(static_cast<size_t>(ref.batch * m * n));
  ref.magnitude.resize(ref.value.size());
  std::vector<double> wide_a(static_cast<size_t>(m * k)), wide_b(static_cast<size_t>(panels * k * kCols));
  for (int64_t batch = 0; batch < ref.batch; ++batch) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t p = 0; p < k; ++p) wide_a[static_cast<size_t>(i * k + p)] = a.get(batch, i, p);
    for (int64_t j = 0; j < panels * kCols; ++j)
      for (int64_t p = 0; p < k; ++p)
        wide_b[static_cast<size_t>((j / kCols * k + p) * kCols + j % kCols)] = j < n ? b.get(batch, p, j) : 0.0;
    std::atomic<int64_t> next{0};
    const auto work = [&] {
      for (int64_t strip; (strip = next++ * kRows) < m;)
        for (int64_t panel = 0; panel < panels; ++panel)
          for (int64_t i = strip; i < std::min(m, strip + kRows); ++i) {
            double sum[kCols] = {}, absolute[kCols] = {};
            for (int64_t p = 0; p < k; ++p) {
              const double x = wide_a[static_cast<size_t>(i * k + p)];
              const double* y = &wide_b[static_cast<size_t>((panel * k + p) * kCols)];
              for (int64_t j = 0; j < kCols; ++j) {
                const double product = x * y[j];
                sum[j] += product;
                absolute[j] += std::fabs(product);
              }
            }
            for (int64_t j = panel * kCols; j < std::min(n, (panel + 1) * kCols); ++j) {
              const double old = beta == 0 ? 0.0 : static_cast<double>(beta) * c->get(batch, i, j);
              const size_t at = static_cast<size_t>((batch * m + i) * n + j);
              ref.value[at] = (k ? alpha * sum[j % kCols] : 0.0) + old;
              ref.magnitude[at] = (k ? std::fabs(alpha) * absolute[j % kCols] : 0.0) + std::fabs(old);
            }
          }
    };
    const bool small = m * n * k < 100'000;
    std::vector<std::thread> others(small ? 0 : std::max(1u, std::thread::hardware_concurrency()) - 1);
    for (auto& thread : others) thread = std::thread(work);
    work();
    for (auto& thread : others) thread.join();
  }
  return ref;
}

// ---- the comparison ----

struct Comparison {
  int64_t elements = 0, wrong = 0;
  int64_t touched = 0;   // bytes changed outside the logical elements
  double max_error = 0;  // NaN if a result is
  double max_ratio = 0;  // of error to bound
  double bound = 0;      // where that ratio is
  std::string message;   // empty when all is right
  bool pass() const { return wrong == 0 && touched == 0 && message.empty(); }
};

// The verdict on one element; the ratio of error to bound is infinite where it is wrong.
struct ElementError {
  double error, bound, ratio;
  bool right;
};
GROUT_HD ElementError element_error(ElementType type, double value, double slack, double got) {
  const double error = got == value ? 0.0 : fabs(got - value), bound = error_bound(type, value, slack, got);
  const bool right = error <= bound;  // false for NaN
  return {error, bound, !right ? INFINITY : bound > 0 && bound < INFINITY ? error / bound : 0.0, right};
}

// `got` is the downloaded output, `before` the same memory before the launch. `context` prints every argument.
inline Comparison compare_result(const Reference& ref, const HostMatrix& got, const HostMatrix& before, bool exact,
                                 const std::string& context) {
  constexpr int kShown = 8;
  Comparison result;
  char text[256];
  const ElementType type = got.layout.type;
  std::vector<bool> logical(got.bytes.size());
  const int64_t rows = ref.n > 0 ? ref.m : 0;
  for (int64_t b = 0; b < ref.batch; ++b)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < ref.n; ++c, ++result.elements) {
        const size_t at = static_cast<size_t>(result.elements), size = element_bytes(type);
        const size_t byte = static_cast<size_t>(got.layout.index(b, r, c)) * size;
        std::fill_n(logical.begin() + static_cast<std::ptrdiff_t>(byte), size, true);
        if (exact && ref.magnitude[at] > kExactMagnitude)
          throw std::invalid_argument("an exact comparison needs sums of at most 2^24, got " +
                                      std::to_string(ref.magnitude[at]));
        const double value = ref.value[at], slack = exact ? 0.0 : accumulation_error(ref.k, ref.magnitude[at]);
        const ElementError e = element_error(type, value, slack, got.get(b, r, c));
        if (std::isnan(e.error) || e.error > result.max_error) result.max_error = e.error;
        if (e.ratio > result.max_ratio || result.elements == 0) result.max_ratio = e.ratio, result.bound = e.bound;
        if (e.right || ++result.wrong > kShown) continue;
        std::snprintf(text, sizeof text,
                      "\n  [batch %lld, row %lld, col %lld] got %.9g, expected %.9g, accepted %.9g to %.9g",
                      static_cast<long long>(b), static_cast<long long>(r), static_cast<long long>(c), got.get(b, r, c),
                      value, round_to(type, value - slack), round_to(type, value + slack));
        result.message += text;
      }
  for (size_t i = 0; i < got.bytes.size(); ++i) {
    if (logical[i] || got.bytes[i] == before.bytes[i] || ++result.touched > kShown) continue;
    std::snprintf(text, sizeof text, "\n  padding byte %zu (element %zu from the base): %02x became %02x", i,
                  i / element_bytes(type), before.bytes[i], got.bytes[i]);
    result.message += text;
  }
  if (!result.message.empty())
    result.message = context + ": " + std::to_string(result.wrong) + " of " + std::to_string(result.elements) +
                     " elements wrong, " + std::to_string(result.touched) + " padding bytes changed" + result.message;
  return result;
}

// ---- one GEMM problem: operands on host and device, and its verdict ----

struct GemmFixture {
  float alpha, beta;
  Fill fill;
  HostMatrix a, b, c;  // c: what the output memory holds before the call; NaN where beta = 0
  DeviceBuffer device_a, device_b, device_c;

  // Guard 0 leaves out-of-bounds accesses to AddressSanitizer. Operands that the contract says are never read stay NaN.
  GemmFixture(const StoredMatrix& a_, const StoredMatrix& b_, const StoredMatrix& c_, float alpha_, float beta_,
              const Fill& fill_, size_t guard = 256)
      : alpha(alpha_),
        beta(beta_),
        fill(fill_),
        a(filled(a_, kPoison, alpha_ != 0, 0)),
        b(filled(b_, kPoison, alpha_ != 0, 1)),
        c(filled(c_, kOutputPadding, beta_ != 0, 2)),
        device_a(a, kPoison, guard),
        device_b(b, kPoison, guard),
        device_c(c, kOutputPadding, guard) {}

  std::string describe() const {
    char text[120];
    std::snprintf(text, sizeof text, ", alpha %g, beta %g, %s seed %llu range %d", alpha, beta,
                  fill.integers ? "integers" : "random", static_cast<unsigned long long>(fill.seed), fill.range);
    return "A " + grout::describe(a.layout) + ", B " + grout::describe(b.layout) + ", C " + grout::describe(c.layout) +
           text;
  }
  // Restores the output memory, for a second run.
  void reset() { device_c.upload(c.bytes.data()); }
  // Waits for the device, then compares all of the output, its padding, all guards, and the unchanged operands.
  Comparison verify(const std::string& context) const {
    HostMatrix got = c;
    device_c.download(got.bytes.data());
    const std::string all = context + ": " + describe();
    Comparison result = compare_result(reference_gemm(a, b, &c, alpha, beta), got, c, fill.integers, all);
    check_memory(result, all);
    return result;
  }
  // The guards and the operands only.
  void check_memory(Comparison& result, const std::string& context) const {
    check_guards(result, context);
    for (const auto& [name, buffer, host] : {std::tuple{"A", &device_a, &a}, std::tuple{"B", &device_b, &b}}) {
      std::vector<unsigned char> now(buffer->size());
      buffer->download(now.data());
      if (now != host->bytes) result.message += "\n" + context + ": operand " + name + " was written";
    }
  }
  void check_guards(Comparison& result, const std::string& context) const {
    for (const auto& [name, buffer] : {std::pair{"A", &device_a}, std::pair{"B", &device_b}, std::pair{"C", &device_c}})
      if (const Status guards = buffer->check_guards(context + ": " + name); !guards) result.message += "\n" + guards.message;
  }

 private:
  HostMatrix filled(const StoredMatrix& m, unsigned char padding, bool read, uint64_t which) const {
    HostMatrix matrix(m, padding);
    if (read) matrix.fill({fill.integers, fill.seed * 3 + which, fill.range});
    return matrix;
  }
};

}  // namespace grout
