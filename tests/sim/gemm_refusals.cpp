// What the GEMM's host entry refuses, on the simulated device.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/sim/gemm_fixture.h"

namespace grout::test {
namespace {

// What is refused says why, with the values, and leaves the output as it was.
TEST_F(Gemm, RefusalsTouchNothing) {
  struct Refusal {
    const char* what;
    void (*change)(GemmCall&);
    std::vector<std::string> in_message;
  };
  const std::vector<Refusal> refusals = {
      {"negative M", [](GemmCall& g) { g.m = -1; }, {"M=-1"}},
      {"negative N", [](GemmCall& g) { g.n = -7; }, {"N=-7"}},
      {"negative K", [](GemmCall& g) { g.k = -2; }, {"K=-2"}},
      {"negative batch", [](GemmCall& g) { g.batch = -3; }, {"batch=-3"}},
      {"short lda", [](GemmCall& g) { g.lda = 72; }, {"lda=72", "73"}},
      {"short lda, transposed", [](GemmCall& g) { g.trans_a = true, g.lda = 64; }, {"lda=64", "65"}},
      {"short ldb", [](GemmCall& g) { g.ldb = 96; }, {"ldb=96", "97"}},
      {"short ldb, transposed", [](GemmCall& g) { g.trans_b = true, g.ldb = 72; }, {"ldb=72", "73"}},
      {"short ldc", [](GemmCall& g) { g.ldc = 96; }, {"ldc=96", "97"}},
      {"null A", [](GemmCall& g) { g.a = nullptr; }, {"A", "null"}},
      {"null B", [](GemmCall& g) { g.b = nullptr; }, {"B", "null"}},
      {"null C with beta", [](GemmCall& g) { g.beta = 1, g.c = nullptr; }, {"C", "null"}},
      {"null D", [](GemmCall& g) { g.d = nullptr; }, {"D", "null"}},
      {"half an element", [](GemmCall& g) { g.a = static_cast<const char*>(g.a) + 1; }, {"A", "bf16"}},
      {"D is A", [](GemmCall& g) { g.a = g.d; }, {"D", "A"}},
      {"D overlaps B", [](GemmCall& g) { g.b = static_cast<const bf16*>(g.d) + 100; }, {"D", "B"}},
      {"D overlaps C", [](GemmCall& g) { g.beta = 1, g.c = static_cast<const bf16*>(g.d) + 1; }, {"D", "C"}},
      {"matrices of D may overlap", [](GemmCall& g) { g.batch = 2, g.batch_d = 5; }, {"D", "5"}},
      {"D repeated", [](GemmCall& g) { g.batch = 2, g.batch_d = 0; }, {"D", "0"}},
      {"kernel mma of f32", [](GemmCall& g) { g.type = ElementType::f32, g.kernel = CallKernel::mma; },
       {"mma", "f32", "simt"}},
      {"kernel simt of bf16", [](GemmCall& g) { g.kernel = CallKernel::simt; }, {"simt", "bf16", "mma"}},
      {"bounds=false, ragged", [](GemmCall& g) { g.bounds = CallBounds::none, g.lda = g.ldb = g.ldc = 128; },
       {"65", "97", "73"}},
      {"bounds=false, pitch", [](GemmCall& g) { g.m = g.n = g.k = 64, g.bounds = CallBounds::none; }, {"73", "97"}},
      {"bounds=false, base",
       [](GemmCall& g) {
         g.m = g.n = g.k = 64, g.lda = g.ldb = g.ldc = 128, g.bounds = CallBounds::none;
         g.a = static_cast<const bf16*>(g.a) + 1;
       },
       {"aligned"}},
      {"bounds=false, pitch of D",
       [](GemmCall& g) { g.m = g.n = g.k = 64, g.lda = g.ldb = 128, g.bounds = CallBounds::none; },
       {"ldc=97", "aligned"}},
      {"bounds=false, base of D",
       [](GemmCall& g) {
         g.m = g.n = g.k = 64, g.lda = g.ldb = g.ldc = 128, g.bounds = CallBounds::none;
         g.d = static_cast<bf16*>(g.d) + 1;
       },
       {"aligned"}},
      {"bounds=false, stride between matrices of D",
       [](GemmCall& g) {
         g.m = g.k = 64, g.n = 32, g.lda = g.ldb = g.ldc = 128, g.bounds = CallBounds::none;
         g.batch = 2, g.batch_a = g.batch_b = 0, g.batch_d = 33;  // side by side, inside D's own memory
       },
       {"aligned"}},
      {"an extent beyond addresses",
       [](GemmCall& g) { g.lda = std::numeric_limits<int64_t>::max() / 4; },
       {"lda="}},
  };
  GemmCase x;
  x.m = 65, x.n = 97, x.k = 73, x.pad_a = 55, x.pad_b = 31, x.pad_c = 31;
  for (const Refusal& refusal : refusals) {
    GemmData data(x);
    GemmCall g = data.call();
    g.c = nullptr, g.lda = 73, g.ldb = g.ldc = 97;
    refusal.change(g);
    GemmChosen chosen;
    const Status status = run_gemm(g, nullptr, &chosen);
    EXPECT_EQ(status.code, Code::invalid) << refusal.what << ": " << status.message;
    EXPECT_EQ(exit_code(status), 2) << refusal.what;
    EXPECT_EQ(chosen.kernel, "none") << refusal.what;
    EXPECT_EQ(status.message.find('\n'), std::string::npos) << refusal.what;
    for (const std::string& text : refusal.in_message)
      EXPECT_NE(status.message.find(text), std::string::npos) << refusal.what << " says: " << status.message;
    EXPECT_EQ(data.output(), data.d.bytes) << refusal.what;
  }
}

TEST_F(Gemm, RefusesADeviceThatIsTooOld) {
  sim::options().compute_capability = 75;
  GemmCase x;
  GemmData data(x);
  const Status status = run_gemm(data.call(), nullptr);
  EXPECT_EQ(status.code, Code::unsupported);
  EXPECT_EQ(exit_code(status), 77);
  EXPECT_NE(status.message.find("7.5"), std::string::npos) << status.message;
  EXPECT_EQ(data.output(), data.d.bytes);
}

}  // namespace
}  // namespace grout::test
