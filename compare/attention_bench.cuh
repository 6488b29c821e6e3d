// One attention problem in device memory, and every policy that computes it.
// Included by GPU code only.
#pragma once
#include <thrust/equal.h>
#include <thrust/execution_policy.h>
#include <memory>
#include <numeric>
#include <optional>

#include "attention/attention.cuh"
#include "common/check_attention_gpu.cuh"
#include "compare/policies.cuh"

namespace grout::compare {

// The problem as it lies in memory; the output's verdict.
class AttentionOperands {
 public:
  // [sequence, row, head, element]. misaligned: bases and pitches of odd numbers of elements.
  AttentionOperands(const AttentionProblem& p, int64_t q_rows, int64_t kv_rows, const AttentionFill& fill,
                   bool misaligned)
      : fixture(p, stored(p, q_rows, p.heads, misaligned), stored(p, kv_rows, p.kv_heads, misaligned),
                stored(p, kv_rows, p.kv_heads, misaligned), stored(p, q_rows, p.heads, misaligned), fill),
        gaps_(misaligned),
        q_(copy_of(fixture.device_q)),
        k_(copy_of(fixture.device_k)),
        v_(copy_of(fixture.device_v)) {}

  AttentionFixture fixture;

  // NaN in O and LSE; what lies between the rows of O is as it was.
  void poison() {
    if (gaps_) return fixture.reset();
    require_success(cudaMemset(fixture.device_o.data(), kPoison, fixture.device_o.size()), "cudaMemset");
    require_success(cudaMemset(fixture.device_lse.data(), kPoison, fixture.device_lse.size()), "cudaMemset");
  }
  // O, LSE where the policy writes it, what lies around them, and the operands, which must be what they were.
  Judgement judge(const AttentionJudge& reference, bool with_lse) const {
    const AttentionFixture& f = fixture;
    AttentionComparison verdict =
        reference.judge(f.o.layout, f.base(f.device_o, f.o), with_lse ? f.device_lse.as<float>() : nullptr);
    if (gaps_) verdict.touched = reference.touched(f);
    if (verdict.touched)
      verdict.message += f.describe() + ": " + std::to_string(verdict.touched) + " elements of no row changed";
    for (const auto& [name, buffer] :
         {std::pair{"Q", &f.device_q}, std::pair{"K", &f.device_k}, std::pair{"V", &f.device_v},
          std::pair{"O", &f.device_o}, std::pair{"LSE", &f.device_lse}})
      if (const Status guards = buffer->check_guards(f.describe() + ": " + name); !guards)
        verdict.message += "\n" + guards.message;
    for (const auto& [name, now, first] :
         {std::tuple{"Q", &f.device_q, &q_}, std::tuple{"K", &f.device_k, &k_}, std::tuple{"V", &f.device_v, &v_}})
      if (!same(*now, *first)) verdict.message += "\n" + f.describe() + ": operand " + name + " was written";
    return judgement(verdict);
  }

 private:
  static StoredHeads stored(const AttentionProblem& p, int64_t rows, int64_t heads, bool misaligned) {
    return stored_heads(p.type, p.packed() ? 1 : p.batch, rows, heads, p.dim, HeadOrder::bshd,
                        {misaligned ? 1 - p.dim % 2 : 0, 0, 0}, misaligned ? 1 : 0);
  }
  static DeviceBuffer copy_of(const DeviceBuffer& buffer) {
    DeviceBuffer copy(buffer.size());
    require_success(cudaMemcpy(copy.data(), buffer.data(), buffer.size(), cudaMemcpyDeviceToDevice), "cudaMemcpy");
    return copy;
  }
  static bool same(const DeviceBuffer& x, const DeviceBuffer& y) {
    return thrust::equal(thrust::device, x.as<unsigned char>(), x.as<unsigned char>() + x.size(),
                         y.as<unsigned char>());
  }
  bool gaps_;
  DeviceBuffer q_, k_, v_;
};

class AttentionBench : public std::enable_shared_from_this<AttentionBench> {
 public:
  explicit AttentionBench(const Settings& shape) : seed_(static_cast<uint64_t>(number(shape, "seed"))) {
    problem_.batch = number(shape, "batch"), problem_.heads = number(shape, "heads"),
    problem_.kv_heads = number(shape, "kv_heads");
    problem_.q_length = number(shape, "q"), problem_.kv_length = number(shape, "k"),
    problem_.dim = number(shape, "dim");
    problem_.scale = scale_of(problem_.dim);
    const std::string &mask = setting(shape, "mask"), &type = setting(shape, "type");
    if (mask != "full" && mask != "causal")
      throw std::runtime_error("the mask is '" + mask + "'; full and causal exist");
    if (type != "bf16" && type != "f16") throw std::runtime_error("the type is '" + type + "'; bf16 and f16 exist");
    problem_.causal = mask == "causal";
    problem_.type = type == "bf16" ? ElementType::bf16 : ElementType::f16;
    if (const std::string* lengths = find(shape, "lengths")) pack(problem_, *lengths);
  }

  double flops() const { return flops_of(problem_); }
  double bytes() const { return bytes_of(problem_); }
  ElementType type() const { return problem_.type; }

  // `what`: "grout", "unfused cublas", ...
  Policy policy(const std::string& what, const Settings* forced = nullptr) {
    return named_policy(what, flops(), bytes(), forced, [&](Policy& p) {
      if (what == "grout" || what == "grout unsplit")
        grout(p, compact(), what == "grout" ? 0 : 1, forced);
      else if (what == "grout misaligned")
        grout(p, misaligned(), 0, forced);
      else if (what == "grout neighbour")
        neighbour(p, forced);
      else if (what == "unfused cublas")
        unfused(p);
      else if (what == "read of K and V")
        read(p);
      else
        throw std::runtime_error("the policy '" + what + "' is unknown");
    });
  }

 private:
  static float scale_of(int64_t dim) { return static_cast<float>(1 / std::sqrt(static_cast<double>(dim))); }
  // "3,5,4": as many queries as keys in each sequence, one behind the other.
  static void pack(AttentionProblem& p, const std::string& lengths) {
    p.q_offsets = {0};
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = lengths.find(',', begin);
      const int64_t length =
          number({{"lengths", lengths.substr(begin, end == std::string::npos ? end : end - begin)}}, "lengths");
      if (length < 0 || length > p.q_length || length > p.kv_length)
        throw std::runtime_error("a sequence has " + std::to_string(length) + " rows; 0 to q and k exist");
      p.q_offsets.push_back(static_cast<int32_t>(p.q_offsets.back() + length));
    }
    p.kv_offsets = p.q_offsets;
    if (static_cast<int64_t>(p.q_offsets.size()) != p.batch + 1)
      throw std::runtime_error("there are " + std::to_string(p.q_offsets.size() - 1) + " lengths of " +
                               std::to_string(p.batch) + " sequences");
  }
  static int64_t rows(const AttentionProblem& p, bool keys) {
    return p.packed() ? (keys ? p.kv_offsets : p.q_offsets).back() : keys ? p.kv_length : p.q_length;
  }
  // Of both products; causal: half of it.
  static double flops_of(const AttentionProblem& p) {
    double pairs = 0;
    for (int64_t b = 0; b < p.batch; ++b) {
      const SequenceRows s = sequence_rows(p, b);
      pairs += static_cast<double>(s.q_length) * static_cast<double>(s.kv_length);
    }
    return 4 * pairs * static_cast<double>(p.heads) * static_cast<double>(p.dim) * (p.causal ? 0.5 : 1);
  }
  static double bytes_of(const AttentionProblem& p) {
    const double batch = p.packed() ? 1 : static_cast<double>(p.batch),
                 size = static_cast<double>(element_bytes(p.type) * static_cast<size_t>(p.dim));
    return 2 * batch * size *
           (static_cast<double>(rows(p, false) * p.heads) + static_cast<double>(rows(p, true) * p.kv_heads));
  }
  std::shared_ptr<AttentionOperands> storage(const AttentionProblem& p, bool odd) const {
    // Logits of a standard deviation of 1, as of normal operands.
    return std::make_shared<AttentionOperands>(p, rows(p, false), rows(p, true), AttentionFill{false, seed_, 3}, odd);
  }
  AttentionOperands& compact() {
    if (!compact_) compact_ = storage(problem_, false);
    return *compact_;
  }
  AttentionOperands& misaligned() {
    if (!misaligned_) misaligned_ = storage(problem_, true);
    return *misaligned_;
  }
  const AttentionJudge& reference() {
    if (!reference_) reference_ = std::make_shared<AttentionJudge>(compact().fixture, "compare");
    return *reference_;
  }
  // With a workspace that is there already.
  static void run_of(Policy& p, AttentionOperands& s, int splits, const Settings* forced) {
    AttentionArguments a = s.fixture.arguments<AttentionArguments>();
    a.splits = forced != nullptr ? static_cast<int>(number(*forced, "splits")) : splits;
    size_t bytes = 0;
    require(attention_workspace_bytes(a, bytes));
    const auto workspace = std::make_shared<DeviceBuffer>(bytes);
    if (bytes > 0) a.workspace = workspace->data(), a.workspace_bytes = bytes;
    AttentionChoice choice;
    require(attention(a, nullptr, &choice));
    p.sample.realised = {{"kernel", choice.kernel},
                         {"path", choice.path},
                         {"tile", std::to_string(choice.tile_q) + "x" + std::to_string(choice.tile_k) + "x" +
                                      std::to_string(choice.tile_dim)},
                         {"splits", std::to_string(choice.splits)},
                         {"workspace", std::to_string(bytes)}};
    p.sample.tiles = choice.blocks;
    p.run = [a, workspace](cudaStream_t stream) { require(attention(a, stream)); };
  }
  void grout(Policy& p, AttentionOperands& s, int splits, const Settings* forced) {
    p.sample.requested = {{"kernel", "auto"}, {"splits", splits == 0 ? "auto" : std::to_string(splits)}};
    run_of(p, s, splits, forced);
    p.run = [run = p.run, self = shared_from_this()](cudaStream_t stream) { run(stream); };
    p.poison = [self = shared_from_this(), &s] { s.poison(); };
    p.judge = [self = shared_from_this(), &s] { return s.judge(self->reference(), true); };
  }
  // Lengths of the next multiples of 128, of packed sequences all of the mean one; elements that fill a tile: its own
  // operands, its own FLOPs.
  void neighbour(Policy& p, const Settings* forced) {
    AttentionProblem next = problem_;
    const auto up = [](int64_t length) { return (length + 127) / 128 * 128; };
    next.q_offsets.clear(), next.kv_offsets.clear();
    next.q_length = up(problem_.packed() ? rows(problem_, false) / problem_.batch : problem_.q_length);
    next.kv_length = up(problem_.packed() ? rows(problem_, true) / problem_.batch : problem_.kv_length);
    next.dim = problem_.dim <= 64 ? 64 : problem_.dim <= 128 ? 128 : 256;
    next.scale = scale_of(next.dim);
    p.sample.flops = flops_of(next), p.sample.bytes = bytes_of(next);
    p.sample.requested = {{"kernel", "auto"},
                          {"q", std::to_string(next.q_length)},
                          {"k", std::to_string(next.kv_length)},
                          {"dim", std::to_string(next.dim)}};
    const auto s = storage(next, false);
    const auto judge = std::make_shared<AttentionJudge>(s->fixture, "neighbour");
    run_of(p, *s, 0, forced);
    p.run = [run = p.run, s](cudaStream_t stream) { run(stream); };
    p.poison = [s] { s->poison(); };
    p.judge = [s, judge] { return s->judge(*judge, true); };
  }
  void unfused(Policy& p) {
    p.sample.role = Role::peer;
    p.sample.requested = p.sample.realised = {
        {"with", "cublasGemmStridedBatchedEx, softmax, cublasGemmStridedBatchedEx"}, {"logits", "f32"}};
    AttentionOperands& s = compact();
    const auto steps = std::make_shared<UnfusedAttention>(problem_);
    p.run = [steps, &s, self = shared_from_this()](cudaStream_t stream) {
      const AttentionFixture& f = s.fixture;
      require(steps->run(f, f.base(f.device_o, f.o), stream));
    };
    p.poison = [self = shared_from_this(), &s] { s.poison(); };
    p.judge = [self = shared_from_this(), &s] { return s.judge(self->reference(), false); };
  }
  void read(Policy& p) {
    const AttentionFixture& f = compact().fixture;
    const auto words = [](const HostHeads& h) {
      return exclusive_or(h.memory.data(), h.memory.size() * sizeof(h.memory[0]));
    };
    p = read_peer(p.sample.name, f.device_k, f.device_v, words(f.k) ^ words(f.v));
    p.run = [run = p.run, self = shared_from_this()](cudaStream_t stream) { run(stream); };
  }

  AttentionProblem problem_;
  uint64_t seed_;
  std::shared_ptr<AttentionOperands> compact_, misaligned_;
  std::shared_ptr<AttentionJudge> reference_;
};

}  // namespace grout::compare
