// What the example programs of this directory share: all but the kernel. For programs only.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "attention/attention.cuh"
#include "common/program.cuh"
#include "common/verify.cuh"

namespace grout {

struct AttentionProgram {
  std::string kernel;  // the name of the kernel that the program is about
  std::string summary;
  std::vector<Choice<AttentionKernel>> kernels;  // values of --kernel; the first one is its default
  int simulated_capability = 80;                 // what the simulated device reports: 10 * major + minor
};

namespace detail {
// Places of sequences one behind the other: 0, the first length, the sum of the first two, ...
inline std::vector<int32_t> offsets_of(const std::vector<int64_t>& lengths) {
  std::vector<int32_t> offsets = {0};
  for (const int64_t length : lengths) offsets.push_back(static_cast<int32_t>(offsets.back() + length));
  return offsets;
}

inline int run_attention(const AttentionProgram& program, int argc, char** argv) {
  constexpr int64_t kMostRows = (int64_t{1} << 31) - 1, kMostOffset = 1 << 20;
  Args args(argc, argv, program.summary, {"causal"});
  const bool packed = args.given("lengths");
  const bool also_rows = args.words_left() > 0;
  int64_t q_length =
      args.positional("SQ", "queries of a sequence", packed ? std::optional<int64_t>(0) : std::nullopt, 0, kMostRows);
  int64_t kv_length = args.positional("SK", "keys of a sequence; default: SQ", q_length, 0, kMostRows);
  const auto lengths = args.lists(
      "lengths", "Q1,Q2,..:K1,K2,..",
      "queries and keys of packed sequences, one behind the other; instead of SQ, SK and --batch", 0, kMostRows);
  int64_t batch = args.integer("batch", "sequences", 1, 0);
  if (packed && (also_rows || args.given("batch")))
    args.refuse("--lengths gives the lengths of all sequences: " +
                (also_rows ? "SQ=" + std::to_string(q_length) + " SK=" + std::to_string(kv_length)
                           : "--batch " + std::to_string(batch)) +
                " beside it is refused");
  const int64_t heads = args.integer("heads", "of Q and O", 1);
  const int64_t kv_heads =
      args.integer("kv-heads", "of K and V, each shared by heads / kv-heads of Q; default: heads", heads);
  const int64_t dim = args.integer("dim", "elements of a row of one head", 128);
  const auto scale = static_cast<float>(args.number("scale", "of Q * K^T; default: 1 / sqrt(dim)",
                                                    dim > 0 ? 1 / std::sqrt(static_cast<double>(dim)) : 1));
  const bool causal = args.flag("causal", "query i sees the keys j <= i + SK - SQ; else all");
  const auto type = args.choice<ElementType>(
      "type", "of Q, K, V and O", {{"bf16", ElementType::bf16}, {"f16", ElementType::f16}}, ElementType::bf16);
  const auto order = args.choice<HeadOrder>("storage", "b sequences, s rows, h heads, d elements",
                                            {{"bshd", HeadOrder::bshd}, {"bhsd", HeadOrder::bhsd}}, HeadOrder::bshd);
  const int64_t offset =
      args.integer("offset", "of every operand's base from a 256-byte boundary, in elements", 0, 0, kMostOffset);
  int64_t offsets[4];
  for (int i = 0; i < 4; ++i)
    offsets[i] = args.integer(std::string("offset-") + "qkvo"[i], std::string("of ") + "QKVO"[i] + " alone", offset, 0,
                              kMostOffset);
  const int64_t splits =
      args.integer("splits", "parts that the keys are cut into; 0 chooses", 0, 0, kMostAttentionSplits);
  std::vector<Choice<std::string>> kernels;
  for (const Choice<AttentionKernel>& choice : program.kernels)
    kernels.push_back({choice.name, choice.name, choice.built});
  const CommonOptions options = common_options(args, kernels, "integers are small: their dot products are exact");
  const auto kernel =
      std::find_if(program.kernels.begin(), program.kernels.end(),
                   [&](const Choice<AttentionKernel>& choice) { return choice.name == options.kernel; });
  int64_t rows_q = q_length, rows_kv = kv_length, batches = batch;  // as they are stored
  if (lengths) {
    batch = static_cast<int64_t>(lengths->first.size()), batches = 1;
    q_length = *std::max_element(lengths->first.begin(), lengths->first.end());
    kv_length = *std::max_element(lengths->second.begin(), lengths->second.end());
    rows_q = std::accumulate(lengths->first.begin(), lengths->first.end(), int64_t{0});
    rows_kv = std::accumulate(lengths->second.begin(), lengths->second.end(), int64_t{0});
    if (rows_q > kMostRows || rows_kv > kMostRows)
      args.refuse("--lengths has " + std::to_string(rows_q) + " queries and " + std::to_string(rows_kv) +
                  " keys in all: offsets of 32 bits hold at most 2147483647");
  }
  if (const std::optional<int> done = args.finish()) return *done;

  // The problem is checked before anything is allocated: addresses that any non-null operand has.
  const int32_t some_offset = 0;
  AttentionArguments a;
  a.batch = batch, a.heads = heads, a.kv_heads = kv_heads, a.dim = dim;
  a.type = type, a.scale = scale, a.causal = causal, a.kernel = kernel->value, a.splits = static_cast<int>(splits);
  if (packed) a.q_offsets = a.kv_offsets = &some_offset, a.q_rows = rows_q;
  const auto product = [](auto... x) { return (1.0 * ... * static_cast<double>(x)); };
  StoredHeads q, k, v, o;
  const auto check = [&]() -> Status {
    // First without rows: then the strides are numbers.
    a.q_stride = a.k_stride = a.v_stride = a.o_stride = {0, 0, dim};
    const int64_t all_batch = a.batch, all_rows = a.q_rows;
    a.batch = std::min<int64_t>(batch, 1), a.q_rows = 0;
    if (Status status = attention_check_extents(a); !status) return status;
    a.batch = all_batch, a.q_rows = all_rows, a.q_length = q_length, a.kv_length = kv_length;
    if (product(batches, std::max(rows_q, rows_kv), std::max(heads, kv_heads), dim) > 0x1p60)
      return invalid("batch=" + std::to_string(batches) + " sequences of " + std::to_string(rows_q) + " queries and " +
                     std::to_string(rows_kv) + " keys with heads=" + std::to_string(heads) +
                     " of dim=" + std::to_string(dim) + " exceed 62-bit addresses");
    q = stored_heads(type, batches, rows_q, heads, dim, order, {}, offsets[0]);
    k = stored_heads(type, batches, rows_kv, kv_heads, dim, order, {}, offsets[1]);
    v = stored_heads(type, batches, rows_kv, kv_heads, dim, order, {}, offsets[2]);
    o = stored_heads(type, batches, rows_q, heads, dim, order, {}, offsets[3]);
    const auto strides = [](const StoredHeads& s) {
      return AttentionStrides{s.batch_stride, s.row_stride, s.head_stride};
    };
    a.q_stride = strides(q), a.k_stride = strides(k), a.v_stride = strides(v), a.o_stride = strides(o);
    return attention_check_extents(a);
  };
  if (const Status status = check(); !status) return refused(status);
  if (const std::optional<int> done = start_device(options, program.simulated_capability, argv)) return *done;

  double pairs = 0;  // of queries and keys
  for (int64_t b = 0; b < (packed ? batch : 1); ++b)
    pairs += packed ? product(lengths->first[static_cast<size_t>(b)], lengths->second[static_cast<size_t>(b)])
                    : product(batch, q_length, kv_length);
  const double multiply_adds = 2 * pairs * product(heads, dim), flops = 2 * multiply_adds * (causal ? 0.5 : 1);
  const auto bytes = [&](const StoredHeads& s) {
    return static_cast<double>(s.span()) * static_cast<double>(element_bytes(type));
  };
  // Operands and the downloaded result; on the simulated device once more as its memory. The CPU's reference is in fp64.
  const double need =
      (kSimulatedBuild ? 2 : 1) * (bytes(q) + bytes(k) + bytes(v) + bytes(o)) + 2 * bytes(o) +
      (multiply_adds <= kMostOnCpu ? product(batches, rows_q, heads) * (16 * static_cast<double>(dim) + 32) : 0);
  const auto text = [](int64_t value) { return std::to_string(value); };
  if (const std::optional<int> done =
          refuse_memory((packed ? "sequences of " + text(rows_q) + " queries and " + text(rows_kv) + " keys in all"
                                : "SQ=" + text(q_length) + " SK=" + text(kv_length) + " batch=" + text(batch)) +
                            " heads=" + text(heads) + " kv-heads=" + text(kv_heads) + " dim=" + text(dim),
                        need))
    return *done;

  AttentionProblem problem{type, batch, heads, kv_heads, q_length, kv_length, dim, scale, causal, {}, {}};
  if (packed) problem.q_offsets = offsets_of(lengths->first), problem.kv_offsets = offsets_of(lengths->second);
  AttentionFixture fixture(problem, q, k, v, o, {options.data == Data::integers, options.seed, 1});
  a = fixture.arguments<AttentionArguments>();
  a.kernel = kernel->value, a.splits = static_cast<int>(splits);

  AttentionChoice choice;
  if (const Status status = attention(a, nullptr, &choice); !status) return refused(status);
  if (choice.blocks == 0)
    std::printf("path: none, there is nothing to compute\n");
  else
    std::printf("path: %s (%s), tile %dx%dx%d, %lld block%s, keys in %d part%s\n", choice.path, choice.reason,
                choice.tile_q, choice.tile_k, choice.tile_dim, static_cast<long long>(choice.blocks),
                choice.blocks == 1 ? "" : "s", choice.splits, choice.splits == 1 ? "" : "s");
  const std::string name = choice.blocks == 0 ? program.kernel : choice.kernel;
  const AttentionComparison comparison = verify_attention(fixture, multiply_adds, "attention_" + name);
  RunResult result{
      .pass = comparison.pass(),
      .kernel = name,
      .device = kSimulatedBuild ? "sim" : "gpu",
      .path = choice.path,
      .extents = {{"SQ", q_length}, {"SK", kv_length}, {"D", dim}, {"H", heads}, {"HK", kv_heads}, {"B", batch}},
      .error = comparison.pass() && std::isfinite(comparison.bound) ? comparison.max_ratio * comparison.bound
                                                                    : comparison.max_error,  // nearest to its bound
      .bound = comparison.bound};
  if (!result.pass) {
    std::fprintf(stderr, "%s\n", comparison.message.c_str());
  } else {
    const std::string shape =
        text(batch) + "x" + text(heads) + "x" + text(q_length) + ":" + text(kv_length) + "x" + text(dim);
    fixture.reset();
    result.time_us =
        time_attention(fixture, name, shape, flops, [&](cudaStream_t s) { return attention(a, s, nullptr); });
  }
  return report(result, options);
}
}  // namespace detail

inline int attention_main(const AttentionProgram& program, int argc, char** argv) {
  return run_program([&](int count, char** arguments) { return detail::run_attention(program, count, arguments); },
                     argc, argv);
}

}  // namespace grout
