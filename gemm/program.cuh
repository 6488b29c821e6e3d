// What the example programs of this directory share: all but the kernel. For programs only.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "common/program.cuh"
#include "common/verify.cuh"
#include "gemm/gemm.cuh"

namespace grout {

struct GemmProgram {
  std::string kernel;  // the name of the kernel that the program is about
  std::string summary;
  std::vector<Choice<GemmKernel>> kernels;  // values of --kernel; the first one is its default
  ElementType type = ElementType::bf16;     // default of --type
  // Computes D and says how.
  std::function<Status(const GemmArguments&, cudaStream_t, GemmChoice*)> gemm =
      [](const GemmArguments& g, cudaStream_t stream, GemmChoice* choice) { return grout::gemm(g, stream, choice); };
  std::function<void(Args&)> options = [](Args&) {};                        // takes options of its own
  std::function<void(const GemmChoice&)> print = [](const GemmChoice&) {};  // prints lines behind that of the path
  int simulated_capability = 80;  // what the simulated device reports: 10 * major + minor
};

namespace detail {
struct LayoutChoice {
  bool trans_a, trans_b;
  bool operator==(const LayoutChoice&) const = default;
};

inline int run_gemm(const GemmProgram& program, int argc, char** argv) {
  Args args(argc, argv, program.summary);
  const int64_t m = args.positional("M", "rows of A and D");
  const int64_t n = args.positional("N", "columns of B and D");
  const int64_t k = args.positional("K", "columns of A, rows of B");
  const auto layout = args.choice<LayoutChoice>(
      "layout", "A, then B: n row-major, t stored transposed",
      {{"nn", {false, false}}, {"nt", {false, true}}, {"tn", {true, false}}, {"tt", {true, true}}}, {false, false});
  const auto type = args.choice<ElementType>(
      "type", "of A and B", {{"bf16", ElementType::bf16}, {"f16", ElementType::f16}, {"f32", ElementType::f32}},
      program.type);
  const auto out = args.choice<ElementType>(
      "out", "of C and D; default: the type of A and B",
      {{"bf16", ElementType::bf16}, {"f16", ElementType::f16}, {"f32", ElementType::f32}}, type);
  const int64_t lda = args.integer("lda", "elements between stored rows of A; default: compact", layout.trans_a ? m : k);
  const int64_t ldb = args.integer("ldb", "the same for B", layout.trans_b ? k : n);
  const int64_t ldc = args.integer("ldc", "the same for C and D", n);
  const int64_t offset = args.integer("offset", "of every operand's base from a 256-byte boundary, in elements", 0, 0, 1 << 20);
  const int64_t offset_a = args.integer("offset-a", "of A alone", offset, 0, 1 << 20);
  const int64_t offset_b = args.integer("offset-b", "of B alone", offset, 0, 1 << 20);
  const int64_t offset_c = args.integer("offset-c", "of C alone", offset, 0, 1 << 20);
  const auto alpha = static_cast<float>(args.number("alpha", "factor of A * B", 1));
  const auto beta = static_cast<float>(args.number("beta", "factor of C; 0 does not read it", 0));
  const int64_t batch = args.integer("batch", "matrices, one behind the other", 1, 0);
  const auto bounds = args.choice<GemmBounds>(
      "bounds", "false: the aligned path or a refusal; true: never the aligned path",
      {{"auto", GemmBounds::automatic}, {"true", GemmBounds::checked}, {"false", GemmBounds::none}}, GemmBounds::automatic);
  std::vector<Choice<std::string>> kernels;
  for (const Choice<GemmKernel>& choice : program.kernels) kernels.push_back({choice.name, choice.name, choice.built});
  const CommonOptions options = common_options(args, kernels);
  program.options(args);
  const auto kernel = std::find_if(program.kernels.begin(), program.kernels.end(),
                                   [&](const Choice<GemmKernel>& choice) { return choice.name == options.kernel; });
  // The problem is checked before anything is allocated: addresses that any non-null operand has.
  GemmArguments g{.m = m, .n = n, .k = k, .type = type, .out = out, .trans_a = layout.trans_a, .trans_b = layout.trans_b,
                  .lda = lda, .ldb = ldb, .ldc = ldc, .alpha = alpha, .beta = beta, .batch = batch, .bounds = bounds,
                  .kernel = kernel->value};
  if (const std::optional<int> done = args.finish()) return *done;
  StoredMatrix a, b, c;
  const auto check = [&]() -> Status {
    g.batch = std::min<int64_t>(batch, 1);  // first without a batch: then the strides between matrices are numbers
    if (Status status = gemm_check_extents(g); !status) return status;
    a = stored(type, m, k, layout.trans_a, lda, offset_a, batch), b = stored(type, k, n, layout.trans_b, ldb, offset_b, batch);
    c = stored(out, m, n, false, ldc, offset_c, batch);
    g.batch = batch, g.batch_a = a.batch_stride, g.batch_b = b.batch_stride, g.batch_c = g.batch_d = c.batch_stride;
    return gemm_check_extents(g);
  };
  if (const Status status = check(); !status) return refused(status);
  if (const std::optional<int> done = start_device(options, program.simulated_capability, argv)) return *done;

  const auto bytes = [](const StoredMatrix& x) { return static_cast<double>(x.span()) * static_cast<double>(element_bytes(x.type)); };
  const auto product = [](auto... x) { return (1.0 * ... * static_cast<double>(x)); };
  // Operands and the downloaded result; on the simulated device once more as its memory. The CPU's reference is in fp64.
  const bool on_cpu = product(m, n, k, batch) <= kMostOnCpu;
  const double need = (kSimulatedBuild ? 2 : 1) * (bytes(a) + bytes(b) + bytes(c)) + bytes(c) +
                      (on_cpu ? 16 * product(m, n, batch) + 8 * (product(m, k) + product(k, n)) : 0);
  const auto text = [](int64_t value) { return std::to_string(value); };
  if (const std::optional<int> done =
          refuse_memory("M=" + text(m) + " N=" + text(n) + " K=" + text(k) + " lda=" + text(lda) + " ldb=" + text(ldb) +
                            " ldc=" + text(ldc) + " batch=" + text(batch), need))
    return *done;
  Fill fill{options.data == Data::integers, options.seed, 4};
  if (fill.integers) {
    fill.range = exact_range(k, alpha, beta);
    if (fill.range == 0 || alpha != static_cast<float>(static_cast<int>(alpha)) || beta != static_cast<float>(static_cast<int>(beta))) {
      std::fprintf(stderr, "--data integers needs integer --alpha and --beta and sums below 2^24: K=%lld alpha=%g beta=%g\n",
                   static_cast<long long>(k), alpha, beta);
      return 2;
    }
  }
  GemmFixture fixture(a, b, c, alpha, beta, fill);
  g.a = fixture.device_a.data(), g.b = fixture.device_b.data(), g.c = beta == 0 ? nullptr : fixture.device_c.data();
  g.d = fixture.device_c.data();

  GemmChoice choice;
  if (const Status status = program.gemm(g, nullptr, &choice); !status) return refused(status);
  if (choice.tiles == 0)
    std::printf("path: none, there is nothing to compute\n");
  else
    std::printf("path: %s (%s), tile %dx%dx%d, %lld tile%s\n", gemm_path_name(choice.path), choice.reason, choice.tile_m, choice.tile_n,
                choice.tile_k, static_cast<long long>(choice.tiles), choice.tiles == 1 ? "" : "s");
  program.print(choice);
  const std::string name = choice.tiles == 0 ? program.kernel : choice.kernel;
  const double flops = 2 * product(m, n, k, batch);
  const Comparison comparison = verify_gemm(fixture, product(m, n, k, batch), "gemm_" + name);
  RunResult result{.pass = comparison.pass(), .kernel = name, .device = kSimulatedBuild ? "sim" : "gpu",
                   .path = gemm_path_name(choice.path), .extents = {{"M", m}, {"N", n}, {"K", k}},
                   .error = comparison.pass() && std::isfinite(comparison.bound) ? comparison.max_ratio * comparison.bound : comparison.max_error,  // nearest to its bound
                   .bound = comparison.bound};
  if (!result.pass) {
    std::fprintf(stderr, "%s\n", comparison.message.c_str());
  } else {
    const std::string shape = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    fixture.reset();
    result.time_us = time_gemm(fixture, name, shape, flops, [&](cudaStream_t s) { return program.gemm(g, s, nullptr); });
  }
  return report(result, options);
}
}  // namespace detail

inline int gemm_main(const GemmProgram& program, int argc, char** argv) {
  return run_program([&](int count, char** arguments) { return detail::run_gemm(program, count, arguments); }, argc, argv);
}

}  // namespace grout
