// TEST_TARGET: sm_80
// The device's references and comparisons: they agree with the CPU's, pass what is right and fail one wrong element.
#include <thread>

#include "common/check_gpu.cuh"
#include "tests/gpu/support.cuh"

namespace grout {
namespace {

using CheckGpu = test::GpuTest;

void expect_same(const Comparison& x, const Comparison& y) {
  EXPECT_EQ(x.elements, y.elements);
  EXPECT_EQ(x.wrong, y.wrong);
  EXPECT_EQ(x.touched, y.touched);
  const auto near = [](double p, double q) {  // fp64 sums in another order; NaN and infinity stay themselves
    return p == q || (std::isnan(p) && std::isnan(q)) || std::fabs(p - q) <= 1e-6 * std::fabs(q);
  };
  EXPECT_TRUE(near(x.max_error, y.max_error)) << x.max_error << " " << y.max_error;
  EXPECT_TRUE(near(x.max_ratio, y.max_ratio)) << x.max_ratio << " " << y.max_ratio;
  EXPECT_EQ(x.pass(), y.pass()) << x.message << "\n" << y.message;
}

void put(GemmFixture& f, int64_t batch, int64_t row, int64_t col, float value) {
  HostMatrix one(stored(f.c.layout.type, 1, 1));
  one.set(0, 0, 0, value);
  const size_t size = element_bytes(f.c.layout.type);
  auto* at = f.device_c.as<unsigned char>() + static_cast<size_t>(f.c.layout.index(batch, row, col)) * size;
  ASSERT_EQ(cudaMemcpy(at, one.bytes.data(), size, cudaMemcpyHostToDevice), cudaSuccess);
}

Status run_cublas(GemmFixture& f) {
  return cublas_gemm(f.a.layout, f.device_a.data(), f.b.layout, f.device_b.data(), f.c.layout, f.device_c.data(),
                     f.alpha, f.beta, nullptr);
}

TEST_F(CheckGpu, CublasIsRightInEveryLayoutAndBothComparisonsAgree) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16, ElementType::f32})
    for (const ElementType out : {type, ElementType::f32})
      for (const bool ta : {false, true})
        for (const bool tb : {false, true})
          for (const bool integers : {false, true})
            for (const float beta : {0.0f, -2.0f}) {
              GemmFixture f(stored(type, 33, 73, ta, ta ? 40 : 75, 3, 2), stored(type, 73, 50, tb, -1, 1, 2, 0),
                            stored(out, 33, 50, false, 53, 5, 2), 3, beta, {integers, 11, 4});
              const Status ran = run_cublas(f);
              ASSERT_TRUE(ran) << ran.message;
              const Comparison host = f.verify("cuBLAS");
              EXPECT_TRUE(host.pass()) << host.message;
              expect_same(verify_on_gpu(f, "cuBLAS"), host);
            }
}

TEST_F(CheckGpu, OneWrongElementOrPaddingByteFails) {
  for (const bool integers : {false, true}) {
    GemmFixture f(stored(ElementType::bf16, 33, 73), stored(ElementType::bf16, 73, 50),
                  stored(ElementType::bf16, 33, 50, false, 53), 1, 0, {integers, 11, 4});
    expect_same(verify_on_gpu(f, "unwritten"), f.verify("unwritten"));
    ASSERT_TRUE(run_cublas(f));
    for (const float wrong : {NAN, INFINITY, -INFINITY, 77.5f}) {
      put(f, 0, 32, 49, wrong);
      const Comparison result = verify_on_gpu(f, "wrong");
      EXPECT_EQ(result.wrong, 1);
      EXPECT_EQ(std::isnan(result.max_error), std::isnan(wrong));
      EXPECT_NE(result.message.find("[batch 0, row 32, col 49]"), std::string::npos) << result.message;
    }
    ASSERT_TRUE(run_cublas(f));
    put(f, 0, 31, 52, NAN);
    EXPECT_GT(verify_on_gpu(f, "padding").touched, 0);
    EXPECT_EQ(verify_on_gpu(f, "padding").wrong, 0);
  }
}

// The path through fp64 tensor cores, with extents that divide nothing.
TEST_F(CheckGpu, LargeSizes) {
  for (const int64_t size : {511, 2047, 8191}) {
    if (test::short_run() && size > 511) break;
    GemmFixture f(stored(ElementType::bf16, size, size), stored(ElementType::bf16, size, size, true),
                  stored(ElementType::bf16, size, size), 1, 0, {});
    ASSERT_TRUE(run_cublas(f));
    const Comparison result = verify_on_gpu(f, "cuBLAS");
    EXPECT_TRUE(result.pass()) << result.message;
    EXPECT_GT(result.max_ratio, 0.1);  // rounding alone makes half an ulp somewhere
    put(f, 0, size - 1, size - 1, 1e4f);
    EXPECT_EQ(verify_on_gpu(f, "wrong").wrong, 1);
  }
}

TEST_F(CheckGpu, ManySmallCases) {
  std::vector<SmallCase> cases;
  int64_t used = 0;
  for (int i = 0; i < 200; ++i) {
    const int32_t m = i % 17 + 1, n = i % 13 + 1, k = i % 11;
    const bool ta = i & 1, tb = i & 2;
    const int64_t step = 1024;
    cases.push_back({used + 8, used + 8, used + 8 + i % 8, used, used + step, m, n, k, (ta ? m : k) + i % 3 + 1,
                     (tb ? k : n) + i % 5 + 1, n + i % 7, ta, tb, i % 3 == 0 ? -2.0f : 1.0f, 0.0f});
    used += step;
  }
  const size_t bytes = static_cast<size_t>(used) * 2;
  DeviceBuffer a(bytes), b(bytes), d(bytes), list(cases.size() * sizeof(SmallCase)), verdict(sizeof(ManyResult));
  list.upload(cases.data());
  const int count = static_cast<int>(cases.size());
  ASSERT_TRUE(fill_many(list.as<SmallCase>(), count, ElementType::bf16, a.data(), b.data(), {true, 5, 4}, nullptr));
  std::vector<uint16_t> host_a(bytes / 2), host_b(bytes / 2), host_d(bytes / 2, 0xffff);
  a.download(host_a.data());
  b.download(host_b.data());
  for (int i = 0; i < count; ++i) {  // the operands as a host matrix has them, and the right result
    const SmallCase& x = cases[i];
    const StoredMatrix la = x.matrix_a(ElementType::bf16), lb = x.matrix_b(ElementType::bf16);
    for (int64_t r = 0; r < x.m; ++r)
      for (int64_t k = 0; k < x.k; ++k)
        ASSERT_EQ(load_element(ElementType::bf16, &host_a[x.a], la.index(0, r, k)),
                  fill_value({true, static_cast<uint64_t>(5 + i) * 3, 4}, r * x.k + k));
    for (int64_t r = 0; r < x.m; ++r)
      for (int64_t c = 0; c < x.n; ++c) {
        float sum = 0;
        for (int64_t k = 0; k < x.k; ++k)
          sum += load_element(ElementType::bf16, &host_a[x.a], la.index(0, r, k)) *
                 load_element(ElementType::bf16, &host_b[x.b], lb.index(0, k, c));
        host_d[x.d + r * x.ldc + c] = bf16(x.alpha * sum).bits;
      }
  }
  const auto judge = [&] {
    d.upload(host_d.data());
    ManyResult result;
    verdict.upload(&result);
    EXPECT_TRUE(compare_many(list.as<SmallCase>(), count, ElementType::bf16, a.data(), b.data(), ElementType::bf16,
                             d.data(), nullptr, kPoison, verdict.as<ManyResult>(), nullptr));
    verdict.download(&result);
    return result;
  };
  EXPECT_EQ(judge().failed_cases, 0u);
  EXPECT_EQ(judge().first_failed, ~0ull);
  for (const int i : {150, 42}) host_d[cases[i].d] = 0x7fc0;  // NaN
  host_d[cases[99].d - 1] = 0;                                // a guard
  const ManyResult result = judge();
  EXPECT_EQ(result.failed_cases, 3u);
  EXPECT_EQ(result.wrong_elements, 2u);
  EXPECT_EQ(result.touched_elements, 1u);
  EXPECT_EQ(result.first_failed, 42u);
}

TEST_F(CheckGpu, GraphsOfRuns) {
  DeviceBuffer buffer(1 << 20);
  const BenchEntry entry{"memset", [&](cudaStream_t s) { (void)cudaMemsetAsync(buffer.data(), 1, buffer.size(), s); }};
  const auto timings = Bench(BenchOptions::quick(false)).compare({entry, as_graph(entry, 20)});
  EXPECT_GT(timings[0].us, 0.1);
  if (!test::short_run()) EXPECT_LT(timings[1].us, 2 * timings[0].us);  // an instrument's time says nothing
  EXPECT_GT(Bench(BenchOptions::quick(true)).compare({entry})[0].us, 0.1);
}

// Each thread has a cuBLAS handle, made when it first needs one: here by a graph.
TEST_F(CheckGpu, AGraphMayBeTheFirstToUseCublas) {
  GemmFixture f(stored(ElementType::bf16, 33, 73), stored(ElementType::bf16, 73, 50), stored(ElementType::bf16, 33, 50), 1, 0, {});
  std::thread([&] {
    const BenchEntry cublas{"cuBLAS", [&](cudaStream_t s) {
                              (void)cublas_gemm(f.a.layout, f.device_a.data(), f.b.layout, f.device_b.data(), f.c.layout,
                                                f.device_c.data(), f.alpha, f.beta, s);
                            }};
    EXPECT_NO_THROW(as_graph(cublas, 2).run(nullptr));
  }).join();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const Comparison result = f.verify("cuBLAS");
  EXPECT_TRUE(result.pass()) << result.message;
}

}  // namespace
}  // namespace grout
