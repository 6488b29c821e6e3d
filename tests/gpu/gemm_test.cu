// TEST_TARGET: sm_80
// The GEMM on the GPU: seeded cases against CPU fp64, large ones against a device-side fp64 reference, equality with cuBLAS
// on integers, published bug reports as cases, graphs, streams and threads. gemm_sweep_test.cu has millions of small cases.
//
// --seed=S chooses the 50 random shapes (default: 1; GROUT_TEST_SEED does the same).
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "common/check_gpu.cuh"
#include "tests/gpu/support.cuh"
#include "tests/kernels/gemm_cases.cuh"

namespace grout::test {
namespace {

uint64_t chosen_seed = 1;

class GemmGpu : public GpuTest {};

bool right(const GemmCase& x, GemmChosen* chosen = nullptr) {
  GemmData data(x);
  if (const Status status = run_gemm(data.call(), nullptr, chosen); !status) {
    ADD_FAILURE() << describe(x) << ": " << status.message;
    return false;
  }
  const Comparison result = data.verify();
  EXPECT_TRUE(result.pass()) << result.message;
  return result.pass();
}

GemmCall call_of(const GemmFixture& f) {
  GemmCall g;
  g.m = f.c.layout.rows, g.n = f.c.layout.cols, g.k = f.a.layout.cols, g.type = f.a.layout.type, g.out = f.c.layout.type;
  g.trans_a = f.a.layout.transposed, g.trans_b = f.b.layout.transposed;
  g.a = f.device_a.data(), g.b = f.device_b.data(), g.c = g.d = f.device_c.data();
  g.lda = f.a.layout.pitch, g.ldb = f.b.layout.pitch, g.ldc = f.c.layout.pitch;
  g.alpha = f.alpha, g.beta = f.beta, g.batch = f.c.layout.batch;
  g.batch_a = f.a.layout.batch_stride, g.batch_b = f.b.layout.batch_stride;
  g.batch_c = g.batch_d = f.c.layout.batch_stride;
  return g;
}

// Runs and verifies on the device.
void expect_right_on_gpu(GemmFixture& f, const std::string& context) {
  GemmChosen chosen;
  const Status status = run_gemm(call_of(f), nullptr, &chosen);
  ASSERT_TRUE(status) << context << ": " << f.describe() << ": " << status.message;
  const Comparison result = verify_on_gpu(f, context);
  std::printf("  %s: %s %dx%d, error %.3g of bound %.3g\n", context.c_str(), chosen.path.c_str(), chosen.tile_m, chosen.tile_n,
              result.max_error, result.bound);
  EXPECT_TRUE(result.pass()) << result.message;
}

void expect_seeded_cases(uint64_t seed, const std::vector<ElementType>& types) {
  const std::vector<int64_t> sizes = {0, 1, 7, 8, 17, 33, 64, 97, 128, 200, 255, 257, 384, 513};
  const int count = cases(1200, 60);
  FactorCounts factors;
  int ran = 0, failed = 0;
  for (const GemmCase& x : gemm_cases(count, seed, sizes, types)) {
    GemmChosen chosen;
    if (!right(x, &chosen) && ++failed > 10) FAIL() << "more than 10 cases failed";
    count_gemm_factors(factors, x, chosen);
    ++ran;
  }
  std::printf("%d cases\n", ran);
  EXPECT_EQ(ran, count);
  if (short_run()) return;
  factors.print();
  expect_gemm_factors(factors, sizes, types);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
}
TEST_F(GemmGpu, SeededCases) { expect_seeded_cases(5, kMmaTypes); }
TEST_F(GemmGpu, F32SeededCases) { expect_seeded_cases(13, {ElementType::f32}); }

// Every tile of the fp32 kernel, on operands as they are and on copies of them, whatever the entry would choose: whole and cut
// tiles, k-tiles fewer and more than the ring has stages.
TEST_F(GemmGpu, F32EveryTileByEveryPath) {
  std::set<std::array<int, 3>> tiles;
  for (const ReachableKernel& v : reachable_gemm_kernels())
    if (v.type == ElementType::f32 && v.path != "repack") tiles.insert({v.tile_m, v.tile_n, v.tile_k});
  ASSERT_GE(tiles.size(), 4u);
  int ran = 0;
  for (const auto& [tile_m, tile_n, tile_k] : tiles)
    for (const int64_t k : {1, 31, 33, 64, 129, 321})
      for (const int cut : {0, 1, 13})
        for (const int64_t pad : {0, 1})
          for (int layout = 0; layout < 4; ++layout)
            for (const char* path : {"bounded", "repack"}) {
              if (ran++ % cases(1, 20) != 0) continue;
              GemmCase x;
              x.m = 2 * tile_m - cut, x.n = 2 * tile_n - cut, x.k = k, x.type = x.out = ElementType::f32;
              x.trans_a = layout & 1, x.trans_b = layout & 2, x.pad_a = x.pad_b = x.pad_c = pad, x.batch = 1 + ran % 2;
              x.seed = static_cast<uint64_t>(ran);
              const bool aligned_a = x.trans_a && (x.m + pad) % 4 == 0, aligned_b = !x.trans_b && (x.n + pad) % 4 == 0;
              if (aligned_a && aligned_b && *path == 'r') continue;  // nothing to copy
              const GemmChosen forced{"simt", path, tile_m, tile_n, tile_k, 0, 0};
              GemmData data(x);
              const Status status = run_gemm(data.call(), nullptr, nullptr, &forced);
              ASSERT_TRUE(status) << describe(x) << ": " << status.message;
              const Comparison result = data.verify();
              ASSERT_TRUE(result.pass()) << path << " " << tile_m << "x" << tile_n << "x" << tile_k << ": " << result.message;
            }
}

TEST_F(GemmGpu, PaddingChangesNoBit) {
  for (const GemmCase& x : gemm_cases(cases(120, 12), 2, {1, 7, 17, 33, 64, 65, 97, 200})) {
    std::vector<unsigned char> first;
    for (const unsigned char padding : {kPoison, static_cast<unsigned char>(0), static_cast<unsigned char>(0x7f)}) {
      GemmData data(x, 256, padding);
      ASSERT_TRUE(run_gemm(data.call(), nullptr));
      if (first.empty()) first = data.output();
      EXPECT_EQ(first, data.output()) << describe(x) << " with padding " << int{padding};
    }
  }
}

// Of a comparison that must not pass: one flipped element, NaN and infinity, in a small and in a large result.
TEST_F(GemmGpu, WrongElementsAreFound) {
  for (const int64_t extent : {65, 1500})
    for (const uint16_t bits : {0x7fc0, 0x7f80, 0x4110}) {
      if (short_run() && extent > 65) continue;
      GemmFixture f(stored(ElementType::bf16, extent, 97), stored(ElementType::bf16, 97, extent),
                    stored(ElementType::bf16, extent, extent), 1, 0, {true, 3, 4});
      ASSERT_TRUE(run_gemm(call_of(f), nullptr));
      ASSERT_TRUE(f.verify("before").pass());
      ASSERT_TRUE(verify_on_gpu(f, "before").pass());
      uint16_t old;
      auto* at = f.device_c.as<uint16_t>() + (extent - 1) * extent + extent / 2;
      ASSERT_EQ(cudaMemcpy(&old, at, 2, cudaMemcpyDeviceToHost), cudaSuccess);
      const uint16_t spoiled = old == bits ? static_cast<uint16_t>(bits ^ 0x8000) : bits;
      ASSERT_EQ(cudaMemcpy(at, &spoiled, 2, cudaMemcpyHostToDevice), cudaSuccess);
      for (const Comparison& result : {f.verify("spoiled"), verify_on_gpu(f, "spoiled")}) {
        EXPECT_FALSE(result.pass());
        EXPECT_EQ(result.wrong, 1);
      }
    }
}

// Integers in fp32: the same values. In 16 bits ours is the exact result rounded once, which the CPU confirms; cuBLAS may
// split K and round the parts, so that it may be off by a unit in the last place of those, which can be larger than their
// sum: the bound is that unit of the sum of absolute products.
TEST_F(GemmGpu, EqualsCublasOnIntegers) {
  int compared = 0, different = 0;
  std::vector<GemmCase> all = gemm_cases(cases(160, 16), 7, {1, 8, 17, 64, 97, 128, 200, 257, 512});
  for (GemmCase& x : gemm_cases(cases(80, 8), 8, {1, 8, 17, 64, 97, 128, 200, 257, 512}, {ElementType::f32})) all.push_back(x);
  for (const GemmCase& base : all) {
    GemmCase x = base;
    x.integers = true, x.in_place = true, x.repeat_c = false, x.alpha = x.alpha == 0 ? 1 : x.alpha;
    if (x.out != ElementType::f32) x.out = x.type;
    GemmData ours(x), theirs(x);
    ASSERT_TRUE(run_gemm(ours.call(), nullptr));
    const Status status = cublas_gemm(theirs.a.layout, theirs.device_a.data(), theirs.b.layout, theirs.device_b.data(),
                                      theirs.d.layout, theirs.device_d.data(), x.alpha, x.beta, nullptr);
    ASSERT_TRUE(status) << describe(x) << ": " << status.message;
    const Comparison confirmed = ours.verify();
    EXPECT_TRUE(confirmed.pass()) << confirmed.message;
    const double unit = x.out == ElementType::f32 ? 0 : x.out == ElementType::bf16 ? 0x1p-7 : 0x1p-10;
    HostMatrix mine = ours.d, yours = theirs.d;
    mine.bytes = ours.output(), yours.bytes = theirs.output();
    const Reference reference = reference_gemm(ours.a, ours.b, &ours.d, x.alpha, x.beta);
    size_t element = 0;
    for (int64_t b = 0; b < x.batch; ++b)
      for (int64_t r = 0; r < x.m; ++r)
        for (int64_t c = 0; c < x.n; ++c, ++element) {
          const double a = mine.get(b, r, c), e = yours.get(b, r, c), bound = unit * reference.magnitude[element];
          ASSERT_TRUE(std::fabs(a - e) <= bound) << describe(x) << " at " << b << "," << r << "," << c << ": " << a
                                                 << ", cuBLAS has " << e << ", accepted are " << bound;
          different += a != e;
        }
    ++compared;
  }
  std::printf("%d results compared with cuBLAS's, %d elements rounded differently\n", compared, different);
}

// ---- large ------------------------------------------------------------------------------------------------------

TEST_F(GemmGpu, LargeShapes) {
  struct Large {
    int64_t m, n, k, pad_a, pad_b, pad_c;
    bool trans_a, trans_b;
    float alpha, beta;
    ElementType type = ElementType::bf16;
  };
  const Large all[] = {{4096, 4096, 4096, 0, 0, 0, false, false, 1, 0},  {4095, 4095, 4095, 0, 0, 0, false, true, 1, 0},
                       {4095, 4096, 4096, 0, 0, 0, true, false, 0.5f, 1}, {4096, 4095, 4096, 1, 1, 1, true, true, 1, -1},
                       {4097, 4000, 4095, 1, 0, 3, false, false, -2, 0},  {8191, 8191, 8191, 0, 0, 0, false, false, 1, 0},
                       {100, 3, 100000, 0, 0, 0, false, true, 1, 0},      {3, 5000, 33333, 0, 1, 0, true, false, 1, 0},
                       {4096, 4096, 4096, 0, 0, 0, true, false, 1, 0, ElementType::f32},
                       {4095, 4095, 4095, 0, 0, 0, false, true, 1, 0, ElementType::f32},
                       {2049, 1800, 4001, 1, 0, 3, false, false, -2, 1, ElementType::f32},
                       {2000, 2100, 1999, 0, 1, 0, true, true, 1, 0, ElementType::f32},
                       {100, 3, 100000, 0, 0, 0, false, true, 1, 0, ElementType::f32}};
  int ran = 0;
  for (const Large& x : all) {
    if (short_run() && ran > 0) break;
    const int64_t limit = short_run() ? 300 : std::numeric_limits<int64_t>::max();
    const int64_t m = std::min(x.m, limit), n = std::min(x.n, limit), k = std::min(x.k, limit);
    GemmFixture f(stored(x.type, m, k, x.trans_a, (x.trans_a ? m : k) + x.pad_a),
                  stored(x.type, k, n, x.trans_b, (x.trans_b ? k : n) + x.pad_b),
                  stored(x.type, m, n, false, n + x.pad_c), x.alpha, x.beta, {false, 17, 4});
    expect_right_on_gpu(f, std::string(element_name(x.type)) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
    ++ran;
  }
}

// Fifty shapes from a seed chosen after the code was written.
TEST_F(GemmGpu, FiftyShapesFromASeed) {
  std::mt19937_64 random(chosen_seed);
  const auto up_to = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit + 1)); };
  const float alphas[] = {1, -2, 0.5f, 1.25f}, betas[] = {0, 0, 1, -0.75f};
  std::printf("seed %llu\n", static_cast<unsigned long long>(chosen_seed));
  const int count = cases(50, 3);
  int ran = 0;
  for (int i = 0; i < count; ++i) {
    const int64_t limit = short_run() ? 150 : 2000, m = 1 + up_to(limit - 1), n = 1 + up_to(limit - 1), k = 1 + up_to(limit - 1);
    const bool ta = random() & 1, tb = random() & 1;
    const auto type = static_cast<ElementType>(random() % 3);
    const auto out = static_cast<ElementType>(random() % 3);
    GemmFixture f(stored(type, m, k, ta, (ta ? m : k) + up_to(9), up_to(8)), stored(type, k, n, tb, (tb ? k : n) + up_to(9), up_to(8)),
                  stored(out, m, n, false, n + up_to(9), up_to(8)), alphas[random() % 4], betas[random() % 4],
                  {false, random() % 1000, 4});
    expect_right_on_gpu(f, "shape " + std::to_string(i) + ", " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                               " " + (ta ? "t" : "n") + (tb ? "t" : "n"));
    ++ran;
  }
  EXPECT_EQ(ran, count);
}

// ---- published reports ------------------------------------------------------------------------------------------

// 16-byte accesses chosen by shape alone: bases 1 to 7 elements past alignment, each operand by itself.
TEST_F(GemmGpu, MisalignedBases) {
  for (int operand = 0; operand < 3; ++operand)
    for (int64_t offset = 1; offset <= 7; ++offset)
      for (int layout = 0; layout < 4; ++layout) {
        GemmCase x;
        x.m = x.n = 128, x.k = 64, x.trans_a = layout & 1, x.trans_b = layout & 2;
        (operand == 0 ? x.offset_a : operand == 1 ? x.offset_b : x.offset_c) = offset;
        right(x);
      }
}

// Rows of a large matrix never written, and a tile larger than the problem with packed rows.
TEST_F(GemmGpu, EveryElementIsWrittenAndNoOther) {
  for (const int64_t m : {1, 3, 16, 63, 1000})
    for (const int64_t n : {1, 5, 16, 63, 1000}) {
      GemmCase x;
      x.m = m, x.n = n, x.k = 8;
      right(x);
    }
}

// The end of K reads into the next row, and NaN * 0 leaks: A has ones in row 0 and NaN in all others.
TEST_F(GemmGpu, NaNInOtherRows) {
  for (const GemmCase& x : other_rows_cases(ElementType::bf16)) expect_other_rows_stay_out(x);
}
TEST_F(GemmGpu, F32NaNInOtherRows) {
  for (const GemmCase& x : other_rows_cases(ElementType::f32)) expect_other_rows_stay_out(x);
}

// The product of ones is exactly K.
TEST_F(GemmGpu, OnesGiveK) {
  for (int64_t k = 1; k <= 65; ++k)
    for (int layout = 0; layout < 4; ++layout) {
      GemmCase x;
      x.m = x.n = 128, x.k = k, x.out = ElementType::f32, x.trans_a = layout & 1, x.trans_b = layout & 2;
      GemmData data(x);
      for (HostMatrix* matrix : {&data.a, &data.b})
        for (int64_t r = 0; r < matrix->layout.rows; ++r)
          for (int64_t c = 0; c < matrix->layout.cols; ++c) matrix->set(0, r, c, 1.f);
      data.device_a.upload(data.a.bytes.data()), data.device_b.upload(data.b.bytes.data());
      ASSERT_TRUE(run_gemm(data.call(), nullptr));
      HostMatrix got = data.d;
      got.bytes = data.output();
      for (int64_t r = 0; r < x.m; ++r)
        for (int64_t c = 0; c < x.n; ++c) ASSERT_EQ(got.get(0, r, c), static_cast<float>(k)) << r << "," << c;
    }
}

// No products, and operands that are not read: null or NaN, whole and ragged tiles.
TEST_F(GemmGpu, UnreadOperands) {
  for (const int64_t extent : {16, 64, 65, 128, 300})
    for (const int64_t k : {0, 8, 64})
      for (const float alpha : {0.f, 1.f})
        for (const float beta : {0.f, -1.f})
          for (const bool null_unread : {false, true}) {
            GemmCase x;
            x.m = x.n = extent, x.k = k, x.alpha = alpha, x.beta = beta, x.null_unread = null_unread, x.in_place = !null_unread;
            right(x);
          }
}

// More matrices than a grid's y or z extent holds.
TEST_F(GemmGpu, Batch65537) {
  GemmCase x;
  x.m = 3, x.n = 2, x.k = 5, x.batch = short_run() ? 100 : 65537, x.gap_c = 3;
  right(x);
  x.trans_a = x.trans_b = true, x.repeat_a = true, x.beta = 1, x.pad_c = 1;
  right(x);
}

// 32-bit offsets: three rows of each operand, 2^30 + 7 elements apart.
TEST_F(GemmGpu, RowsBeyondTwoToThe31Elements) {
  constexpr int64_t kPitch = (int64_t{1} << 30) + 7;
  const size_t bytes = static_cast<size_t>(2 * kPitch + 64) * 2;
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  if (short_run() || free_bytes < 3 * bytes + (1u << 30)) GTEST_SKIP() << "needs " << 3 * bytes << " bytes of GPU memory";
  const DeviceBuffer a(bytes), b(bytes), d(bytes);  // all NaN
  const auto value = [](int64_t r, int64_t c) { return static_cast<float>((r * 5 + c * 3) % 7 - 3); };
  for (int64_t r = 0; r < 3; ++r) {
    bf16 row_a[3], row_b[3];
    for (int64_t c = 0; c < 3; ++c) row_a[c] = bf16(value(r, c)), row_b[c] = bf16(value(c, r));
    ASSERT_EQ(cudaMemcpy(a.as<bf16>() + r * kPitch, row_a, 6, cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(b.as<bf16>() + r * kPitch, row_b, 6, cudaMemcpyHostToDevice), cudaSuccess);
  }
  for (int layout = 0; layout < 4; ++layout) {
    GemmCall g;
    g.m = g.n = g.k = 3, g.a = a.data(), g.b = b.data(), g.d = d.data(), g.lda = g.ldb = g.ldc = kPitch;
    g.trans_a = layout & 1, g.trans_b = layout & 2;
    const Status status = run_gemm(g, nullptr);
    ASSERT_TRUE(status) << status.message;
    for (int64_t r = 0; r < 3; ++r) {
      bf16 row[4];
      ASSERT_EQ(cudaMemcpy(row, d.as<bf16>() + r * kPitch, 8, cudaMemcpyDeviceToHost), cudaSuccess);
      for (int64_t c = 0; c < 3; ++c) {
        float sum = 0;
        for (int64_t k = 0; k < 3; ++k)
          sum += (g.trans_a ? value(k, r) : value(r, k)) * (g.trans_b ? value(k, c) : value(c, k));
        EXPECT_EQ(to_float(row[c]), sum) << "layout " << layout << " at " << r << "," << c;
      }
      EXPECT_EQ(row[3].bits, 0xffff) << "behind row " << r;
    }
  }
}

// ---- streams, graphs, threads, repeats --------------------------------------------------------------------------

TEST_F(GemmGpu, RepeatsAreBitIdentical) {
  for (const ElementType type : {ElementType::bf16, ElementType::f32})
    for (const int64_t pad : {0, 7, 8}) {
    GemmCase x;
    x.m = 300, x.n = 400, x.k = 513, x.pad_a = pad, x.pad_b = pad, x.alpha = 0.5f, x.integers = false, x.out = ElementType::f32;
    x.type = type;
    GemmData data(x);
    std::vector<unsigned char> first;
    for (int i = 0; i < cases(200, 10); ++i) {
      data.device_d.upload(data.d.bytes.data());
      ASSERT_TRUE(run_gemm(data.call(), nullptr));
      if (i == 0) first = data.output();
      ASSERT_EQ(first, data.output()) << "repeat " << i;
    }
  }
}

TEST_F(GemmGpu, CapturesInAGraph) {
  for (const bool copies : {false, true}) {
  GemmCase x;
  x.m = 300, x.n = 257, x.k = 129, x.alpha = -2, x.pad_a = 1;
  if (copies) x.m = x.n = x.k = short_run() ? 325 : 1500, x.type = x.out = ElementType::f32;  // in fp32: repack, allocated and freed
  GemmData data(x);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  const Status status = run_gemm(data.call(), stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_TRUE(status) << status.message;
  EXPECT_EQ(data.output(), data.d.bytes) << "captured, not run";
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int i = 0; i < 3; ++i) {
    data.device_d.upload(data.d.bytes.data());
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    const Comparison result = data.verify();
    EXPECT_TRUE(result.pass()) << result.message;
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
}

// Two streams and four host threads at once, each with problems of its own.
TEST_F(GemmGpu, StreamsAndThreadsDoNotMeet) {
  constexpr int kThreads = 4;
  std::vector<std::string> problems(kThreads);
  const auto work = [&](int number) {
    cudaStream_t streams[2];
    for (cudaStream_t& s : streams) require_success(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreate");
    const std::vector<GemmCase> all = gemm_cases(cases(24, 4), static_cast<uint64_t>(100 + number), {1, 17, 64, 97, 128, 257},
                                                 {ElementType::bf16, ElementType::f16, ElementType::f32});
    std::vector<std::unique_ptr<GemmData>> data;
    for (const GemmCase& x : all) data.push_back(std::make_unique<GemmData>(x));
    require_success(cudaDeviceSynchronize(), "upload");
    for (size_t i = 0; i < data.size(); ++i)
      if (const Status status = run_gemm(data[i]->call(), streams[i % 2]); !status) problems[static_cast<size_t>(number)] += status.message;
    for (cudaStream_t s : streams) require_success(cudaStreamSynchronize(s), "a stream");
    for (const auto& d : data)
      if (const Comparison result = d->verify(); !result.pass()) problems[static_cast<size_t>(number)] += result.message;
    for (cudaStream_t s : streams) (void)cudaStreamDestroy(s);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace grout::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* text = std::getenv("GROUT_TEST_SEED");
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--seed=", 7) == 0) text = argv[i] + 7;
  if (text) grout::test::chosen_seed = std::strtoull(text, nullptr, 10);
  return RUN_ALL_TESTS();
}
