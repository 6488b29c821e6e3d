// The GEMM of fp32 operands on the simulated device: seeded cases over every factor of the contract, every small shape, and what
// published bug reports of others' kernels were about.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/gemm_fixture.h"

namespace grout::test {
namespace {

const std::vector<ElementType> kF32 = {ElementType::f32};

TEST_F(Gemm, F32SeededCases) {
  constexpr int kCases = 480, kLeast = 400, kThreadSanitizerCases = 40, kThreadSanitizerLeast = 20;
  FactorCounts factors;
  std::set<std::string> tiles;
  int ran = 0, launched = 0, failed = 0;
  for (GemmCase x : gemm_cases(kCases, 11, kGemmSizes, kF32)) {
    if (thread_sanitizer()) {
      if (launched == kThreadSanitizerCases) break;
      if (x.m * x.n > 64 * 64 || x.k < 8 || x.alpha == 0) continue;  // few blocks
      x.schedule = launched % 3 == 2 ? 7 : launched % 3 == 1 ? 2 : 3;
      x.processors = launched % 2 ? 1 : 4;
    }
    GemmChosen chosen;
    if (!right(x, &chosen) && ++failed > 10) FAIL() << "more than 10 cases failed";
    ++ran;
    launched += chosen.kernel != "none";
    if (chosen.kernel != "none") {
      EXPECT_EQ(chosen.kernel, "simt");
      tiles.insert(std::to_string(chosen.tile_m) + "x" + std::to_string(chosen.tile_n));
      if (x.bounds != CallBounds::automatic) {
        EXPECT_EQ(chosen.path == "aligned", x.bounds == CallBounds::none) << describe(x);
      }
    }
    count_gemm_factors(factors, x, chosen);
  }
  std::printf("%d cases, %d of them launched a kernel, %zu tiles\n", ran, launched, tiles.size());
  if (thread_sanitizer()) {
    EXPECT_GE(launched, kThreadSanitizerLeast);
    return;
  }
  factors.print();
  expect_gemm_factors(factors, kGemmSizes, kF32);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  EXPECT_GE(ran, kLeast);
  EXPECT_GE(tiles.size(), 3u);
}

// Every M, N and K of 1..17 in every layout, pitches + 0..3 and bases + 0..3 in turn.
TEST_F(GemmSlow, F32EverySmallShape) {
  int cases = 0;
  for (int64_t m = 1; m <= 17; ++m)
    for (int64_t n = 1; n <= 17; ++n)
      for (int64_t k = 1; k <= 17; ++k) {
        const int first = address_sanitizer() ? static_cast<int>((m + n + k) % 4) : 0, last = address_sanitizer() ? first : 3;
        for (int layout = first; layout <= last; ++layout, ++cases) {
          GemmCase x;
          x.m = m, x.n = n, x.k = k, x.type = x.out = ElementType::f32, x.trans_a = layout & 1, x.trans_b = layout & 2;
          x.pad_a = cases % 4, x.pad_b = cases / 4 % 4, x.pad_c = cases / 16 % 4, x.offset_a = cases / 5 % 4;
          x.offset_b = cases / 7 % 4, x.offset_c = cases / 11 % 4, x.schedule = cases % 10, x.seed = static_cast<uint64_t>(cases);
          ASSERT_TRUE(right(x));
        }
      }
  std::printf("%d cases\n", cases);
  EXPECT_GE(cases, 4913);
}

using Tile = std::array<int, 3>;

std::set<Tile> f32_tiles() {
  std::set<Tile> tiles;
  for (const ReachableKernel& v : reachable_gemm_kernels())
    if (v.type == ElementType::f32 && v.path != "repack") tiles.insert({v.tile_m, v.tile_n, v.tile_k});
  return tiles;
}

// Runs the case with this tile and path, whatever the entry would choose.
bool right_with(const GemmCase& x, const Tile& tile, const char* path) {
  use(x);
  GemmData data(x, guard());
  const GemmChosen forced{"simt", path, tile[0], tile[1], tile[2], 0, 0};
  GemmChosen chosen;
  const Status status = run_gemm(data.call(), nullptr, &chosen, &forced);
  EXPECT_TRUE(status) << describe(x) << ": " << status.message;
  EXPECT_EQ(chosen.path, path);
  const Comparison result = data.verify();
  EXPECT_TRUE(result.pass()) << path << " " << tile[0] << "x" << tile[1] << "x" << tile[2] << ": " << result.message;
  return status && result.pass();
}

// One short of, exactly, and one past multiples of the tiles, for every kernel: where copies of whole tiles begin and end;
// k-tiles fewer and more than the ring has stages, and a last one of 1 to all steps.
TEST_F(GemmSlow, F32AroundTheTiles) {
  int cases = 0, ran = 0;
  for (const Tile& tile : f32_tiles())
    for (const int dm : {-1, 0, 1})
      for (const int dn : {-1, 0, 1})
        for (const int64_t k : {1, 3, 15, 31, 32, 33, 42, 127, 128, 129, 161, 225})
          for (int layout = 0; layout < 4; ++layout) {
            if (++cases % 5 != 0) continue;
            GemmCase x;
            x.m = tile[0] + dm, x.n = tile[1] + dn, x.k = k, x.type = x.out = ElementType::f32;
            x.trans_a = layout & 1, x.trans_b = layout & 2, x.processors = 1, x.schedule = cases % 10;
            x.pad_a = cases % 4, x.pad_b = cases / 4 % 4, x.seed = static_cast<uint64_t>(cases);
            ASSERT_TRUE(right_with(x, tile, "bounded"));
            ++ran;
          }
  std::printf("%d cases\n", ran);
  EXPECT_GE(ran, 300);
}

// Operands that are contiguous along k or misaligned are copied first: one of them or both, in every layout, batched and
// repeated, whole tiles and cut ones; the caller's bounds change nothing about it.
TEST_F(Gemm, F32RepackedOperands) {
  int cases = 0, ran = 0;
  for (const Tile& tile : f32_tiles())
    for (int layout = 0; layout < 4; ++layout)
      for (const int64_t pad : {0, 1, 3, 4})
        for (const int cut : {0, 1, 9}) {
          if (++cases % (thread_sanitizer() ? 31 : 3) != 0 || (thread_sanitizer() && tile[0] * tile[1] > 64 * 64)) continue;
          GemmCase x;
          x.m = tile[0] - cut, x.n = 2 * tile[1] - cut, x.k = 33 + cut, x.type = ElementType::f32;
          x.out = cases % 2 ? ElementType::f32 : ElementType::bf16, x.trans_a = layout & 1, x.trans_b = layout & 2;
          x.pad_a = pad, x.pad_b = cases / 3 % 4, x.offset_a = cases / 5 % 5, x.offset_b = cases / 7 % 5, x.gap_a = cases % 3;
          x.batch = thread_sanitizer() ? 1 : 1 + cases / 2 % 3, x.repeat_a = cases % 5 == 0, x.repeat_b = cases % 7 == 0;
          x.bounds = cases % 4 ? CallBounds::automatic : CallBounds::checked;
          x.schedule = thread_sanitizer() ? 3 : cases % 10, x.seed = static_cast<uint64_t>(cases);
          if (thread_sanitizer()) x.processors = 1;
          x.trans_a = x.trans_a && (x.m + pad) % 4 != 0;  // else it may be that nothing has to be copied
          ASSERT_TRUE(right_with(x, tile, "repack"));
          ++ran;
        }
  std::printf("%d cases\n", ran);
  EXPECT_GE(ran, thread_sanitizer() ? 2 : 60);
}

// The second product reads what the first one writes, and may start before the first one has ended: it must wait for it.
TEST_F(Gemm, F32ProductOfAProduct) {
  constexpr int64_t kSide = 32;
  for (int mode = 0; mode < 10; ++mode) {
    GemmCase x;
    x.schedule = mode, x.seed = static_cast<uint64_t>(mode), x.processors = 4;  // twice as many as tiles: a programmatic start
    use(x);
    const std::vector<float> ones(kSide * kSide, 1.f);
    const size_t bytes = ones.size() * sizeof(float);
    DeviceBuffer one(bytes);
    const DeviceBuffer product(bytes), result(bytes);
    one.upload(ones.data());
    GemmCall g;
    g.m = g.n = g.k = g.lda = g.ldb = g.ldc = kSide, g.type = g.out = ElementType::f32;
    g.a = g.b = one.data(), g.d = product.data();
    ASSERT_TRUE(run_gemm(g, nullptr));
    g.a = product.data(), g.d = result.data();
    ASSERT_TRUE(run_gemm(g, nullptr));
    require_success(cudaDeviceSynchronize(), "two products");
    std::vector<float> got(ones.size());
    result.download(got.data());
    EXPECT_EQ(got, std::vector<float>(ones.size(), static_cast<float>(kSide * kSide))) << "mode " << mode;
  }
}

// Workspaces of the fp32 kernel: what is asked for is enough, is not exceeded, and less is refused. Only what pays is copied.
TEST_F(GemmSlow, F32Workspace) {
  GemmCase x;
  x.m = 130, x.n = 97, x.k = 41, x.type = x.out = ElementType::f32;
  GemmData data(x, guard());
  GemmCall g = data.call();
  EXPECT_EQ(workspace_bytes(g), 0u);  // too small to pay
  // A as K x M and B as K x N, rows padded to 4 elements: a whole tile is far.
  const size_t bytes = 41u * (132 + 100) * 4;
  const GemmChosen forced{"simt", "repack", 32, 32, 32, 0, 0};
  const DeviceBuffer workspace(bytes, 0, kPoison, guard());
  g.workspace = workspace.data(), g.workspace_bytes = bytes - 1;
  Status status = run_gemm(g, nullptr, nullptr, &forced);
  EXPECT_EQ(status.code, Code::invalid) << status.message;
  EXPECT_NE(status.message.find(std::to_string(bytes)), std::string::npos) << status.message;
  g.workspace = workspace.as<char>() + 4, g.workspace_bytes = bytes;
  EXPECT_EQ(run_gemm(g, nullptr, nullptr, &forced).code, Code::invalid);
  EXPECT_EQ(data.output(), data.d.bytes);
  g.workspace = workspace.data();
  status = run_gemm(g, nullptr, nullptr, &forced);
  ASSERT_TRUE(status) << status.message;
  EXPECT_TRUE(data.verify().pass()) << data.verify().message;
  EXPECT_TRUE(workspace.check_guards("workspace"));

  g.m = g.n = g.k = g.lda = g.ldb = g.ldc = 4095;
  EXPECT_EQ(workspace_bytes(g), 2u * 4095 * 4096 * 4);
  g.trans_a = g.trans_b = true;
  EXPECT_EQ(workspace_bytes(g), 2u * 4095 * 4096 * 4);
  g.m = g.n = g.k = g.lda = g.ldb = g.ldc = 4096;
  EXPECT_EQ(workspace_bytes(g), 1u * 4096 * 4096 * 4);  // A is as the kernel reads it best
  g.trans_b = false;
  EXPECT_EQ(workspace_bytes(g), 0u);
  g.trans_a = false, g.batch = 3, g.batch_a = 0, g.batch_b = 4096 * 4096, g.batch_d = 4096 * 4096;
  EXPECT_EQ(workspace_bytes(g), 1u * 4096 * 4096 * 4);  // repeated, and copied once
  g.batch_a = 4096 * 4096;
  EXPECT_EQ(workspace_bytes(g), 3u * 4096 * 4096 * 4);
  g.bounds = CallBounds::none;
  EXPECT_EQ(workspace_bytes(g), 0u);
  g.bounds = CallBounds::checked, g.alpha = 0;
  EXPECT_EQ(workspace_bytes(g), 0u);
}

// The same problem in aligned full tiles, treated as if they stuck out: the same bits.
TEST_F(GemmSlow, F32BoundsChangeNoBit) {
  for (int layout = 0; layout < 4; ++layout) {
    std::vector<unsigned char> bits[2];
    for (const bool checked : {false, true}) {
      GemmCase x;
      x.m = 256, x.n = 128, x.k = 128, x.type = x.out = ElementType::f32, x.trans_a = layout & 1, x.trans_b = layout & 2;
      x.integers = false, x.alpha = 0.5f, x.beta = -1, x.bounds = checked ? CallBounds::checked : CallBounds::none;
      use(x);
      GemmData data(x, guard());
      GemmChosen chosen;
      ASSERT_TRUE(run_gemm(data.call(), nullptr, &chosen));
      EXPECT_EQ(chosen.path, checked ? "bounded" : "aligned");
      EXPECT_TRUE(data.verify().pass()) << data.verify().message;
      bits[checked] = data.output();
    }
    EXPECT_EQ(bits[0], bits[1]);
  }
}

// A has numbers in row 0 and NaN in all others; the end of K reads zeros, not the next row.
TEST_F(GemmSlow, F32NaNInOtherRows) {
  for (const GemmCase& x : other_rows_cases(ElementType::f32)) use(x), expect_other_rows_stay_out(x, guard());
}

TEST_F(GemmSlow, F32UnreadOperands) {
  for (const int64_t extent : {64, 65})
    for (const int64_t k : {0, 64})
      for (const float alpha : {0.f, 1.f})
        for (const float beta : {0.f, 1.f})
          for (const bool null_unread : {false, true})
            for (const bool in_place : {false, true}) {
              GemmCase x;
              x.m = x.n = extent, x.k = k, x.alpha = alpha, x.beta = beta, x.null_unread = null_unread, x.in_place = in_place;
              x.type = x.out = ElementType::f32;
              right(x);
            }
}

// The bytes of the output do not depend on what lies outside the logical operands.
TEST_F(GemmSlow, F32PaddingChangesNoBit) {
  for (const GemmCase& x : gemm_cases(60, 12, {1, 7, 17, 33, 64, 65, 97}, kF32)) {
    use(x);
    std::vector<unsigned char> first;
    for (const unsigned char padding : {kPoison, static_cast<unsigned char>(0), static_cast<unsigned char>(0x7f)}) {
      GemmData data(x, guard(), padding);
      ASSERT_TRUE(run_gemm(data.call(), nullptr));
      if (first.empty()) first = data.output();
      else EXPECT_EQ(first, data.output()) << describe(x) << " with padding " << int{padding};
    }
  }
}

TEST_F(GemmSlow, F32RepeatsAreBitIdentical) {
  GemmCase x;
  x.m = 65, x.n = 97, x.k = 173, x.alpha = 0.5f, x.beta = -1, x.integers = false, x.in_place = false;
  x.type = x.out = ElementType::f32;
  expect_repeats_are_identical(x);
}

}  // namespace
}  // namespace grout::test
