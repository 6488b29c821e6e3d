// TEST_TARGET: sm_80
// The GEMM of the pinned revision (compare/pinned.h) beside today's in one program: both right, each its own.
#include <gtest/gtest.h>

#include "common/check.cuh"
#include "compare/pinned.h"
#include "tests/gpu/support.cuh"
#include "tests/kernels/gemm_call.cuh"

namespace grout::test {
namespace {

class PinnedGpu : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string reason = pinned::missing(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

struct Problem {
  int64_t m, n, k;
  bool trans_a, trans_b;
  int64_t extra;  // of each pitch
};

GemmFixture fixture_of(const Problem& x, const Fill& fill) {
  const auto matrix = [&](int64_t rows, int64_t cols, bool transposed) {
    return stored(ElementType::bf16, rows, cols, transposed, (transposed ? rows : cols) + x.extra);
  };
  return {matrix(x.m, x.k, x.trans_a), matrix(x.k, x.n, x.trans_b), matrix(x.m, x.n, false), 1, 0, fill};
}

std::string run_pinned(const Problem& x, const GemmFixture& f, pinned::Chosen* chosen = nullptr, cudaStream_t stream = nullptr) {
  return pinned::gemm({.m = x.m,
                       .n = x.n,
                       .k = x.k,
                       .trans_a = x.trans_a,
                       .trans_b = x.trans_b,
                       .a = f.device_a.data(),
                       .b = f.device_b.data(),
                       .d = f.device_c.data(),
                       .lda = f.a.layout.pitch,
                       .ldb = f.b.layout.pitch,
                       .ldc = f.c.layout.pitch,
                       .stream = stream},
                      chosen);
}

std::string run_current(const Problem& x, const GemmFixture& f) {
  GemmCall g;
  g.m = x.m, g.n = x.n, g.k = x.k, g.trans_a = x.trans_a, g.trans_b = x.trans_b;
  g.a = f.device_a.data(), g.b = f.device_b.data(), g.d = f.device_c.data();
  g.lda = f.a.layout.pitch, g.ldb = f.b.layout.pitch, g.ldc = f.c.layout.pitch;
  g.bounds = CallBounds::none;
  return run_gemm(g, nullptr).message;
}

TEST_F(PinnedGpu, BothAreRight) {
  int count = 0;
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{64, 64, 32}, {64, 64, 96}, {128, 256, 64}, {384, 512, 192},
                                {192, 320, 1056}, {1024, 1024, 512}})
    for (const bool trans_a : {false, true})
      for (const bool trans_b : {false, true})
        for (const int64_t extra : {0, 8})
          for (const bool integers : {true, false}) {
            if (short_run() && m > 128) continue;
            const Problem x{m, n, k, trans_a, trans_b, extra};
            GemmFixture f = fixture_of(x, {integers, 7, 4});
            pinned::Chosen chosen;
            ASSERT_EQ(run_pinned(x, f, &chosen), "") << f.describe();
            EXPECT_STREQ(chosen.path, "aligned");
            EXPECT_EQ(m % chosen.tile_m + n % chosen.tile_n + k % chosen.tile_k, 0) << f.describe();
            const Comparison old = f.verify("pinned");
            ASSERT_TRUE(old.pass()) << old.message;
            f.reset();
            ASSERT_EQ(run_current(x, f), "") << f.describe();
            const Comparison current = f.verify("current");
            ASSERT_TRUE(current.pass()) << current.message;
            ++count;
          }
  std::printf("%d problems\n", count);
}

// Launched in turn on one stream, without a wait between them.
TEST_F(PinnedGpu, InTurn) {
  const Problem x{256, 256, 128, false, true, 0};
  const GemmFixture f = fixture_of(x, {true, 5, 4});
  GemmFixture g = fixture_of(x, {true, 6, 4});
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(run_pinned(x, i % 2 ? g : f), "");
    ASSERT_EQ(run_current(x, i % 2 ? f : g), "");
  }
  for (const GemmFixture* of : {&f, static_cast<const GemmFixture*>(&g)}) {
    const Comparison result = of->verify("in turn");
    EXPECT_TRUE(result.pass()) << result.message;
  }
}

TEST_F(PinnedGpu, RefusesWhatIsNotAligned) {
  for (const Problem& x : {Problem{65, 64, 32, false, false, 0}, Problem{64, 64, 33, false, false, 0},
                           Problem{64, 64, 32, false, false, 1}}) {
    const GemmFixture f = fixture_of(x, {true, 5, 4});
    pinned::Chosen chosen;
    const std::string message = run_pinned(x, f, &chosen);
    EXPECT_NE(message.find("bounds=false"), std::string::npos) << message;
    EXPECT_STREQ(chosen.path, "none");
    std::vector<unsigned char> now(f.device_c.size());
    f.device_c.download(now.data());
    EXPECT_EQ(now, f.c.bytes) << "something was written";
  }
}

}  // namespace
}  // namespace grout::test
