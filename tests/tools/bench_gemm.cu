// Measures the bounded warp-MMA GEMM against cuBLAS and against the mma.sync ceiling of this card. Run by hand on a GPU:
//   cmake --build build --target bench_gemm && build/tests/tools/bench_gemm [--quick] [--random-shapes 50 --seed S]
// Everything in one process, ABBA order, random data, every result verified before it is timed. Exit 1 on a wrong result.
#include <cinttypes>
#include <random>

#include "common/args.h"
#include "common/check_gpu.cuh"
#include "gemm/gemm.cuh"

namespace {
using namespace grout;

// Register-only mma.sync: every warp multiplies random fragments, 128 accumulators a thread, as the kernel does.
__global__ void __launch_bounds__(256) ceiling_kernel(uint32_t seed, int iterations, float* out) {
  uint32_t a[4][4], b[4][4], x = seed + blockIdx.x * 7919 + threadIdx.x * 104729;
  const auto random = [&] {  // two bf16 in [0.5, 1) with random signs and mantissas
    x = x * 1664525 + 1013904223;
    return (x & 0x807f807fu) | 0x3f003f00u;
  };
  for (int i = 0; i < 16; ++i) a[i / 4][i % 4] = random(), b[i / 4][i % 4] = random();
  float sum[4][8][4] = {};
#pragma unroll 1
  for (int t = 0; t < iterations; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const uint32_t operand[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
        ptx::mma_m16n8k16<bf16>(sum[i][j], a[i], operand, sum[i][j]);
      }
    }
  }
  float total = 0;
  for (auto& row : sum)
    for (auto& atom : row)
      for (float v : atom) total += v;
  if (total == 1e30f) *out = total;  // keeps the work
}

double ceiling_flops(int sms, int iterations) { return 2.0 * 16 * 8 * 16 * 32 * 8 * sms * iterations; }

struct Case {
  int64_t m, n, k;
  int64_t lda_pad, ldb_pad, ldc_pad;  // elements behind each stored row
  const char* note;
};

void require(const Status& status) {
  if (!status) throw std::runtime_error(status.message);
}

int run(int argc, char** argv) {
  Args args(argc, argv, "Benchmark of gemm_mma: paired with cuBLAS, share of the mma.sync ceiling.", {"quick", "cold"});
  const bool quick = args.flag("quick", "3 rounds of 5 ms instead of 10 of 40"), cold = args.flag("cold", "flush L2 before each run");
  const int64_t random_shapes = args.integer("random-shapes", "instead of the table: so many shapes", 0, 0, 10000);
  const int64_t seed = args.integer("seed", "of the random shapes and of the data", 1, 0);
  const std::string only = args.text("only", "a part of a table's note: only those rows", "");
  const std::string layouts = args.text("layouts", "which layouts", "nn,nt,tn,tt");
  if (const auto done = args.finish()) return *done;
  require(gpu_usable());
  DeviceInfo device;
  require(device_info(device));
  BenchOptions options = quick ? BenchOptions::quick() : BenchOptions{};
  options.cold = cold;

  DeviceBuffer sink(4);
  constexpr int kIterations = 4096;
  const BenchEntry ceiling = {"mma.sync ceiling", [&](cudaStream_t s) {
                                ceiling_kernel<<<device.sms, 256, 0, s>>>(1, kIterations, sink.as<float>());
                              }};

  // Padding brings a pitch to a multiple of 8 elements; without it the pitch is the row.
  std::vector<Case> cases = {
      {8192, 8192, 8192, 0, 0, 0, "aligned"},        {4096, 4096, 4096, 0, 0, 0, "aligned"},
      {2048, 2048, 2048, 0, 0, 0, "aligned"},        {1024, 1024, 1024, 0, 0, 0, "aligned"},
      {8191, 8192, 8192, 8, 8, 8, "M ragged padded"}, {8192, 8191, 8192, 8, 8, 8, "N ragged padded"},
      {8192, 8192, 8191, 8, 8, 8, "K ragged padded"}, {4095, 4096, 4096, 8, 8, 8, "M ragged padded"},
      {4096, 4095, 4096, 8, 8, 8, "N ragged padded"}, {4096, 4096, 4095, 8, 8, 8, "K ragged padded"},
      {8191, 8191, 8191, 0, 0, 0, "odd pitch"},      {4095, 4095, 4095, 0, 0, 0, "odd pitch"},
      {2047, 2047, 2047, 0, 0, 0, "odd pitch"},      {1023, 1023, 1023, 0, 0, 0, "odd pitch"},
      {65, 97, 73, 0, 0, 0, "small"},
  };
  if (random_shapes > 0) {
    cases.clear();
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto extent = [&] { return static_cast<int64_t>(std::exp2(std::uniform_real_distribution<double>(5, 12.5)(random))); };
    for (int64_t i = 0; i < random_shapes; ++i) cases.push_back({extent(), extent(), extent(), 0, 0, 0, "random"});
  }
  int wrong = 0;
  double worst = 1e9;
  std::string worst_shape;
  for (const Case& shape : cases) {
    if (!only.empty() && std::string(shape.note).find(only) == std::string::npos) continue;
    for (const char* name : {"nn", "nt", "tn", "tt"}) {
      if (layouts.find(name) == std::string::npos) continue;
      const bool ta = name[0] == 't', tb = name[1] == 't';
      const auto padded = [](int64_t row, int64_t pad) { return pad ? (row + pad - 1) / pad * pad : row; };
      const int64_t lda = padded(ta ? shape.m : shape.k, shape.lda_pad), ldb = padded(tb ? shape.k : shape.n, shape.ldb_pad);
      const int64_t ldc = padded(shape.n, shape.ldc_pad);
      const StoredMatrix a = stored(ElementType::bf16, shape.m, shape.k, ta, lda), b = stored(ElementType::bf16, shape.k, shape.n, tb, ldb);
      const StoredMatrix c = stored(ElementType::bf16, shape.m, shape.n, false, ldc);
      GemmFixture f(a, b, c, 1, 0, Fill{false, static_cast<uint64_t>(seed), 4});
      const GemmArguments g{.m = shape.m, .n = shape.n, .k = shape.k, .trans_a = ta, .trans_b = tb, .a = f.device_a.data(),
                            .b = f.device_b.data(), .d = f.device_c.data(), .lda = lda, .ldb = ldb, .ldc = ldc};
      GemmChoice choice;
      require(gemm(g, nullptr, &choice));
      const Comparison verdict = verify_on_gpu(f, "bench_gemm");
      if (!verdict.pass()) {
        std::printf("WRONG %s\n", verdict.message.c_str());
        ++wrong;
        continue;
      }
      // Ragged shapes are also paired with the aligned neighbour: the next multiples of 64, full tiles.
      const bool ragged = std::string(shape.note).find("ragged") != std::string::npos;
      const auto up = [&](int64_t x) { return ragged ? (x + 63) / 64 * 64 : 1; };
      const int64_t m2 = up(shape.m), n2 = up(shape.n), k2 = up(shape.k);
      const GemmFixture neighbour(stored(ElementType::bf16, m2, k2, ta), stored(ElementType::bf16, k2, n2, tb),
                                  stored(ElementType::bf16, m2, n2), 1, 0, Fill{false, static_cast<uint64_t>(seed), 4});
      GemmArguments g2 = g;
      g2.m = m2, g2.n = n2, g2.k = k2, g2.a = neighbour.device_a.data(), g2.b = neighbour.device_b.data(), g2.d = neighbour.device_c.data();
      g2.lda = ta ? m2 : k2, g2.ldb = tb ? k2 : n2, g2.ldc = n2;
      std::vector<BenchEntry> entries = {
          {"cublas", [&](cudaStream_t s) { require(cublas_gemm(a, f.device_a.data(), b, f.device_b.data(), c, f.device_c.data(), 1, 0, s)); }},
          {"gemm_mma", [&](cudaStream_t s) { require(gemm(g, s)); }}};
      const auto flops_of = [](int64_t m, int64_t n, int64_t k) { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); };
      const double flops = flops_of(shape.m, shape.n, shape.k);
      if (flops < 2e9 && !cold)
        for (BenchEntry& entry : entries) entry = as_graph(entry, 20);
      if (!cold) entries.push_back(ceiling);
      if (ragged) entries.push_back({"aligned neighbour", [&](cudaStream_t s) { require(gemm(g2, s)); }});
      const std::vector<Timing> t = Bench(options).compare(entries);
      const std::string label = std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k) + " " + name;
      std::printf("%-18s %-15s %-7s %dx%dx%d cublas %.2f us %.1f TF | ours %.2f us %.1f TF | %.3fx [%.3f, %.3f]", label.c_str(), shape.note,
                  gemm_path_name(choice.path), choice.tile_m, choice.tile_n, choice.tile_k, t[0].us, flops / t[0].us * 1e-6, t[1].us,
                  flops / t[1].us * 1e-6, t[1].speed_up.median, t[1].speed_up.low, t[1].speed_up.high);
      // Rates relative to another entry, round by round.
      const auto share = [&](const char* what, const Timing& other, double other_flops) {
        const Ratio r = paired_ratio(other.round_us, t[1].round_us);
        std::printf(" | %.3f [%.3f, %.3f] of %s %.1f TF", r.median * flops / other_flops, r.low * flops / other_flops, r.high * flops / other_flops, what,
                    other_flops / other.us * 1e-6);
      };
      if (!cold) share("ceiling", t[2], ceiling_flops(device.sms, kIterations));
      if (ragged) share("aligned", t.back(), flops_of(m2, n2, k2));
      std::printf("\n");
      std::fflush(stdout);
      if (t[1].speed_up.median < worst) worst = t[1].speed_up.median, worst_shape = label;
    }
  }
  std::printf("%s L2, %d rounds; worst ratio to cuBLAS %.3f at %s; %d wrong\n", cold ? "cold" : "warm", options.rounds, worst,
              worst_shape.c_str(), wrong);
  return wrong ? 1 : 0;
}
}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
