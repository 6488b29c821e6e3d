// One GEMM problem in device memory, and every policy that computes it.
// Included by GPU code only.
#pragma once
#include <thrust/equal.h>
#include <thrust/execution_policy.h>
#include <memory>
#include <optional>

#include "compare/peers.cuh"
#include "compare/pinned.h"
#include "compare/policies.cuh"
#include "gemm/gemm.cuh"
#include "gemm/gemm_batched.cuh"

namespace grout::compare {

// The problem as it lies in memory with certain pitches; the output's verdict.
class GemmStorage {
 public:
  GemmStorage(const StoredMatrix& a, const StoredMatrix& b, const StoredMatrix& c, const Fill& fill)
      : fixture(a, b, c, 1, 0, fill), a_(copy_of(fixture.device_a)), b_(copy_of(fixture.device_b)) {}

  GemmFixture fixture;

  // NaN in the elements, the padding byte in the padding.
  void poison() const {
    const StoredMatrix& c = fixture.c.layout;
    const size_t size = element_bytes(c.type), row = static_cast<size_t>(c.cols) * size;
    require_success(cudaMemset(fixture.device_c.data(), kOutputPadding, fixture.device_c.size()), "cudaMemset");
    require_success(cudaMemset2D(fixture.device_c.data(), static_cast<size_t>(c.pitch) * size, kPoison, row,
                                 static_cast<size_t>(c.rows)),
                    "cudaMemset2D");
  }
  // The output, all guards, and the operands, which must be what they were.
  Judgement judge(const GemmJudge& reference) const {
    Comparison verdict = reference.judge(fixture.c.layout, fixture.device_c.data(), nullptr, kOutputPadding);
    fixture.check_guards(verdict, fixture.describe());
    for (const auto& [name, now, first] :
         {std::tuple{"A", &fixture.device_a, &a_}, std::tuple{"B", &fixture.device_b, &b_}})
      if (!same(*now, *first)) verdict.message += "\n" + fixture.describe() + ": operand " + name + " was written";
    return judgement(verdict);
  }
  GemmArguments arguments() const {
    const StoredMatrix &a = fixture.a.layout, &b = fixture.b.layout, &c = fixture.c.layout;
    return {.m = c.rows,
            .n = c.cols,
            .k = a.cols,
            .type = a.type,
            .out = c.type,
            .trans_a = a.transposed,
            .trans_b = b.transposed,
            .a = fixture.device_a.data(),
            .b = fixture.device_b.data(),
            .d = fixture.device_c.data(),
            .lda = a.pitch,
            .ldb = b.pitch,
            .ldc = c.pitch};
  }

 private:
  static DeviceBuffer copy_of(const DeviceBuffer& buffer) {
    DeviceBuffer copy(buffer.size());
    require_success(cudaMemcpy(copy.data(), buffer.data(), buffer.size(), cudaMemcpyDeviceToDevice), "cudaMemcpy");
    return copy;
  }
  static bool same(const DeviceBuffer& x, const DeviceBuffer& y) {
    return thrust::equal(thrust::device, x.as<unsigned char>(), x.as<unsigned char>() + x.size(),
                         y.as<unsigned char>());
  }
  DeviceBuffer a_, b_;
};

class GemmBench : public std::enable_shared_from_this<GemmBench> {
 public:
  explicit GemmBench(const Settings& shape)
      : m_(number(shape, "m")),
        n_(number(shape, "n")),
        k_(number(shape, "k")),
        fill_{false, static_cast<uint64_t>(number(shape, "seed")), 4} {
    const std::string &layout = setting(shape, "layout"), &type = setting(shape, "type");
    if (layout.size() != 2 || layout.find_first_not_of("nt") != std::string::npos)
      throw std::runtime_error("the layout is '" + layout + "'; nn, nt, tn and tt exist");
    trans_a_ = layout[0] == 't', trans_b_ = layout[1] == 't';
    const auto named = [&](ElementType t) { return type == element_name(t); };
    if (!named(ElementType::bf16) && !named(ElementType::f16) && !named(ElementType::f32))
      throw std::runtime_error("the type is '" + type + "'; bf16, f16 and f32 exist");
    type_ = named(ElementType::bf16)  ? ElementType::bf16
            : named(ElementType::f16) ? ElementType::f16
                                      : ElementType::f32;
  }

  ElementType type() const { return type_; }
  double flops() const { return flops_of(m_, n_, k_); }
  double bytes() const { return bytes_of(m_, n_, k_); }
  // Are the compact rows all multiples of 16 bytes already?
  bool is_padded() const { return up(row_a()) == row_a() && up(row_b()) == row_b() && up(n_) == n_; }

  // `what`: "grout", "cublasLt padded", ...
  Policy policy(const std::string& what, const Settings* forced = nullptr) {
    return named_policy(what, flops(), bytes(), forced, [&](Policy& p) {
      const bool padded = what.ends_with(" padded");
      const std::string base = padded ? what.substr(0, what.size() - 7) : what;
      const auto where = [&]() -> GemmStorage& { return padded ? *padded_storage() : *compact(); };
      if (base == "grout" || base == "grout bounded")
        grout(p, where(), base == "grout bounded", forced);
      else if (what == "grout neighbour")
        neighbour(p, forced);
      else if (what == "pinned")
        pinned(p);
      else if (what.starts_with("batch "))
        batched(p, what.substr(6), forced);
      else if (base == "cublasGemmEx")
        cublas(p, where());
      else if (base == "cublasLt")
        cublas_lt(p, where(), forced);
      else if (what == "padding of A and B")
        padding(p);
      else if (what == "unpadding of D")
        unpadding(p);
      else if (what == "transfer of A and B")
        transfer(p);
      else
        throw std::runtime_error("the policy '" + what + "' is unknown");
    });
  }

 private:
  int64_t row_a() const { return trans_a_ ? m_ : k_; }
  int64_t row_b() const { return trans_b_ ? k_ : n_; }
  int64_t up(int64_t row) const {
    const auto vector = static_cast<int64_t>(16 / element_bytes(type_));
    return (row + vector - 1) / vector * vector;
  }
  static double flops_of(int64_t m, int64_t n, int64_t k) {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  double bytes_of(int64_t m, int64_t n, int64_t k) const {
    return static_cast<double>(element_bytes(type_)) *
           (static_cast<double>(m) * static_cast<double>(k) + static_cast<double>(k) * static_cast<double>(n) +
            static_cast<double>(m) * static_cast<double>(n));
  }
  std::shared_ptr<GemmStorage> storage(int64_t m, int64_t n, int64_t k, bool padded) const {
    const auto pitch = [&](int64_t row) { return padded ? up(row) : row; };
    return std::make_shared<GemmStorage>(stored(type_, m, k, trans_a_, pitch(trans_a_ ? m : k)),
                                         stored(type_, k, n, trans_b_, pitch(trans_b_ ? k : n)),
                                         stored(type_, m, n, false, pitch(n)), fill_);
  }
  const std::shared_ptr<GemmStorage>& compact() {
    if (!compact_) compact_ = storage(m_, n_, k_, false);
    return compact_;
  }
  const std::shared_ptr<GemmStorage>& padded_storage() {
    if (!padded_) padded_ = storage(m_, n_, k_, true);
    return padded_;
  }
  const GemmJudge& reference() {
    if (!reference_) reference_ = std::make_shared<GemmJudge>(compact()->fixture, "compare");
    return *reference_;
  }
  // The output's storage: poisoned and judged.
  void output(Policy& p, GemmStorage& s) {
    p.poison = [self = shared_from_this(), &s] { s.poison(); };
    p.judge = [self = shared_from_this(), &s] { return s.judge(self->reference()); };
  }
  static std::string tile_text(const GemmChoice& c) {
    return std::to_string(c.tile_m) + "x" + std::to_string(c.tile_n) + "x" + std::to_string(c.tile_k);
  }
  static void write_down(Sample& s, const GemmChoice& c) {
    s.realised = {{"kernel", c.kernel}, {"path", gemm_path_name(c.path)}, {"tile", tile_text(c)}};
    s.tiles = c.tiles, s.resident = c.resident;
  }
  static std::optional<GemmChoice> recorded_choice(const Settings* forced) {
    if (forced == nullptr) return {};
    GemmChoice c;
    c.kernel = setting(*forced, "kernel") == "simt" ? "simt" : "mma";
    const std::string& path = setting(*forced, "path");
    bool known = false;
    for (const GemmPath each : {GemmPath::aligned, GemmPath::bounded, GemmPath::realign, GemmPath::repack})
      if (path == gemm_path_name(each)) c.path = each, known = true;
    if (!known || std::sscanf(setting(*forced, "tile").c_str(), "%dx%dx%d", &c.tile_m, &c.tile_n, &c.tile_k) != 3)
      throw std::runtime_error("the recorded path '" + path + "' or tile '" + setting(*forced, "tile") + "' is none");
    return c;
  }
  // With a workspace that is there already, as cuBLAS has one.
  void grout_on(Policy& p, GemmArguments g, const Settings* forced) {
    const std::optional<GemmChoice> earlier = recorded_choice(forced);
    const auto workspace = std::make_shared<DeviceBuffer>(gemm_workspace_bytes(g));
    if (workspace->size() > 0) g.workspace = workspace->data(), g.workspace_bytes = workspace->size();
    GemmChoice choice;
    require(gemm(g, nullptr, &choice, earlier ? &*earlier : nullptr));
    write_down(p.sample, choice);
    p.sample.realised.push_back({"workspace", std::to_string(g.workspace_bytes)});
    p.run = [g, earlier, workspace, self = shared_from_this()](cudaStream_t stream) {
      require(gemm(g, stream, nullptr, earlier ? &*earlier : nullptr));
    };
  }
  void grout(Policy& p, GemmStorage& s, bool bounded, const Settings* forced) {
    GemmArguments g = s.arguments();
    g.bounds = bounded ? GemmBounds::checked : GemmBounds::automatic;
    p.sample.requested = {{"kernel", "auto"}, {"bounds", bounded ? "true" : "auto"}};
    grout_on(p, g, forced);
    output(p, s);
  }
  // The next multiples of 64, compact: its own operands, its own FLOPs.
  void neighbour(Policy& p, const Settings* forced) {
    const auto next = [](int64_t x) { return (x + 63) / 64 * 64; };
    const int64_t m = next(m_), n = next(n_), k = next(k_);
    p.sample.flops = flops_of(m, n, k), p.sample.bytes = bytes_of(m, n, k);
    p.sample.requested = {
        {"kernel", "auto"}, {"m", std::to_string(m)}, {"n", std::to_string(n)}, {"k", std::to_string(k)}};
    const auto s = storage(m, n, k, false);
    const auto judge = std::make_shared<GemmJudge>(s->fixture, "neighbour");
    grout_on(p, s->arguments(), forced);
    p.run = [run = p.run, s](cudaStream_t stream) { run(stream); };
    p.poison = [s] { s->poison(); };
    p.judge = [s, judge] { return s->judge(*judge); };
  }
  void pinned(Policy& p) {
    const GemmArguments g = compact()->arguments();
    pinned::Gemm call;
    call.m = g.m, call.n = g.n, call.k = g.k, call.trans_a = g.trans_a, call.trans_b = g.trans_b;
    call.a = g.a, call.b = g.b, call.d = g.d, call.lda = g.lda, call.ldb = g.ldb, call.ldc = g.ldc;
    pinned::Chosen chosen;
    const auto run = [call, self = shared_from_this()](cudaStream_t stream, pinned::Chosen* to) {
      pinned::Gemm on = call;
      on.stream = stream;
      if (const std::string problem = pinned::gemm(on, to); !problem.empty()) throw std::runtime_error(problem);
    };
    run(nullptr, &chosen);
    p.sample.requested = {{"commit", pinned::commit()}, {"bounds", "false"}};
    p.sample.realised = {{"commit", pinned::commit()},
                         {"path", chosen.path},
                         {"tile", std::to_string(chosen.tile_m) + "x" + std::to_string(chosen.tile_n) + "x" +
                                      std::to_string(chosen.tile_k)}};
    p.run = [run](cudaStream_t stream) { run(stream, nullptr); };
    output(p, *compact());
  }
  void cublas(Policy& p, GemmStorage& s) {
    p.sample.role = Role::peer;
    p.sample.requested = p.sample.realised = {{"algorithm", "default"}};
    const auto run = [&s, self = shared_from_this()](cudaStream_t stream) {
      const GemmFixture& f = s.fixture;
      require(cublas_gemm(f.a.layout, f.device_a.data(), f.b.layout, f.device_b.data(), f.c.layout, f.device_c.data(),
                          1, 0, stream));
    };
    run(nullptr);
    p.run = run;
    output(p, s);
  }
  void cublas_lt(Policy& p, GemmStorage& s, const Settings* forced) {
    p.sample.role = Role::peer;
    const GemmFixture& f = s.fixture;
    const auto made =
        std::make_shared<LtGemm>(f.a.layout, f.device_a.data(), f.b.layout, f.device_b.data(), f.c.layout,
                                 f.device_c.data(), forced != nullptr ? setting(*forced, "algorithm") : "");
    p.sample.requested = {{"algorithm", "first heuristic"}, {"workspace", std::to_string(LtGemm::kWorkspace)}};
    p.sample.realised = {{"algorithm", made->algorithm()}, {"workspace", std::to_string(LtGemm::kWorkspace)}};
    p.run = [made, self = shared_from_this()](cudaStream_t stream) { made->run(stream); };
    output(p, s);
  }
  // The lesson's kernel; only the batch of its copies differs from one to the other.
  void batched(Policy& p, const std::string& batch, const Settings* forced) {
    GemmBatchedPolicy policy;
    policy.max_copy_batch = std::stoi(forced != nullptr ? setting(*forced, "max_copy_batch") : batch);
    GemmBatchedReport report;
    const GemmArguments g = compact()->arguments();
    require(gemm_batched(g, policy, nullptr, &report));
    p.sample.requested = {{"tile", "64x64x32"}, {"max_copy_batch", batch}};
    p.sample.realised = {{"tile", tile_text(report.choice)},
                         {"max_copy_batch", batch},
                         {"batch of A", std::to_string(report.a.realised)},
                         {"batch of B", std::to_string(report.b.realised)},
                         {"transformed", std::to_string(report.transformed())}};
    p.sample.tiles = report.choice.tiles, p.sample.resident = report.choice.resident;
    p.run = [g, policy, self = shared_from_this()](cudaStream_t stream) { require(gemm_batched(g, policy, stream)); };
    output(p, *compact());
  }

  // ---- what padded storage costs ----

  static size_t bytes_of_row(const StoredMatrix& m) {
    return static_cast<size_t>(m.stored_cols()) * element_bytes(m.type);
  }
  static size_t bytes_of_pitch(const StoredMatrix& m) { return static_cast<size_t>(m.pitch) * element_bytes(m.type); }
  static void copy_rows(const StoredMatrix& from, const void* source, const StoredMatrix& to, void* destination,
                        cudaStream_t stream) {
    require_success(cudaMemcpy2DAsync(destination, bytes_of_pitch(to), source, bytes_of_pitch(from), bytes_of_row(from),
                                      static_cast<size_t>(from.stored_rows()), cudaMemcpyDeviceToDevice, stream),
                    "cudaMemcpy2DAsync");
  }
  static void poison_rows(const StoredMatrix& m, void* data) {
    require_success(
        cudaMemset2D(data, bytes_of_pitch(m), kPoison, bytes_of_row(m), static_cast<size_t>(m.stored_rows())),
        "cudaMemset2D");
  }
  // Are A and B what the host filled them with?
  static Judgement operands_are_right(const GemmFixture& f) {
    Comparison verdict;
    f.check_memory(verdict, "after the copies");
    verdict.elements = f.a.layout.rows * f.a.layout.cols + f.b.layout.rows * f.b.layout.cols;
    return judgement(verdict);
  }
  void preparation(Policy& p, const char* prepares, double bytes) {
    p.sample.role = Role::preparation, p.sample.prepares = prepares;
    p.sample.flops = 0, p.sample.bytes = bytes;
  }
  void padding(Policy& p) {
    const auto from = compact(), to = padded_storage();
    const auto elements = static_cast<double>(m_ * k_ + k_ * n_);
    preparation(p, "grout padded", 2 * elements * static_cast<double>(element_bytes(type_)));
    p.sample.requested = p.sample.realised = {{"with", "cudaMemcpy2DAsync, device to device"}};
    p.run = [from, to](cudaStream_t s) {
      copy_rows(from->fixture.a.layout, from->fixture.device_a.data(), to->fixture.a.layout,
                to->fixture.device_a.data(), s);
      copy_rows(from->fixture.b.layout, from->fixture.device_b.data(), to->fixture.b.layout,
                to->fixture.device_b.data(), s);
    };
    p.poison = [to] {
      poison_rows(to->fixture.a.layout, to->fixture.device_a.data()),
          poison_rows(to->fixture.b.layout, to->fixture.device_b.data());
    };
    p.judge = [to] { return operands_are_right(to->fixture); };
  }
  void unpadding(Policy& p) {
    const auto from = padded_storage(), to = compact();
    preparation(p, "grout padded", 2.0 * static_cast<double>(m_ * n_) * static_cast<double>(element_bytes(type_)));
    p.sample.requested = p.sample.realised = {{"with", "cudaMemcpy2DAsync, device to device"}};
    p.run = [from, to](cudaStream_t s) {
      copy_rows(from->fixture.c.layout, from->fixture.device_c.data(), to->fixture.c.layout,
                to->fixture.device_c.data(), s);
    };
    const GemmArguments g = from->arguments();
    p.poison = [from, to, g] {
      from->poison(), to->poison();
      require(gemm(g, nullptr));  // something to bring back
    };
    p.judge = [to, self = shared_from_this()] { return to->judge(self->reference()); };
  }
  void transfer(Policy& p) {
    const auto to = compact();
    preparation(p, "grout", static_cast<double>(to->fixture.a.bytes.size() + to->fixture.b.bytes.size()));
    p.sample.requested = p.sample.realised = {{"with", "cudaMemcpyAsync from pinned host memory"}};
    const auto pinned_copy = [](const HostMatrix& m) {
      void* memory = nullptr;
      require_success(cudaMallocHost(&memory, m.bytes.size()), "cudaMallocHost");
      std::memcpy(memory, m.bytes.data(), m.bytes.size());
      return std::shared_ptr<void>(memory, [](void* pointer) { (void)cudaFreeHost(pointer); });
    };
    const auto a = pinned_copy(to->fixture.a), b = pinned_copy(to->fixture.b);
    p.run = [to, a, b](cudaStream_t s) {
      const GemmFixture& f = to->fixture;
      require_success(cudaMemcpyAsync(f.device_a.data(), a.get(), f.a.bytes.size(), cudaMemcpyHostToDevice, s),
                      "cudaMemcpyAsync");
      require_success(cudaMemcpyAsync(f.device_b.data(), b.get(), f.b.bytes.size(), cudaMemcpyHostToDevice, s),
                      "cudaMemcpyAsync");
    };
    p.poison = [to] {
      poison_rows(to->fixture.a.layout, to->fixture.device_a.data()),
          poison_rows(to->fixture.b.layout, to->fixture.device_b.data());
    };
    p.judge = [to] { return operands_are_right(to->fixture); };
  }

  int64_t m_, n_, k_;
  bool trans_a_ = false, trans_b_ = false;
  ElementType type_ = ElementType::bf16;
  Fill fill_;
  std::shared_ptr<GemmStorage> compact_, padded_;
  std::shared_ptr<GemmJudge> reference_;
};

}  // namespace grout::compare
