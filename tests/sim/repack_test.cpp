// Repack on the simulated device: seeded cases over every factor of the contract, tiles done by groups of any size inside other
// kernels, kernels that follow the copy without waiting for it to end, and everything that it refuses.
#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/repack_cases.cuh"
#include "tests/sim/fence.h"
#include "tests/sim/modes.h"
#include "tests/sim/races.h"

namespace grout::test {
namespace {

using Repack = RaceFree<SimulatedTest>;

// The memory before the first valid byte of each source.
std::vector<std::unique_ptr<Fence>> fences(const RepackData& data) {
  std::vector<std::unique_ptr<Fence>> all;
  for (const auto& o : data.operands) all.push_back(std::make_unique<Fence>(o->front(), o->front_bytes()));
  return all;
}

TEST_F(Repack, SeededCases) {
  const int cases = thread_sanitizer() ? 24 : 2460, least = thread_sanitizer() ? 20 : 2400;
  FactorCounts factors;
  std::set<std::string> modes;
  int ran = 0;
  for (const RepackCase& x : repack_cases(cases, 1, thread_sanitizer() ? 129 : INT64_MAX)) {
    use(x.schedule, x.seed);
    const RepackData data(x, guard());
    const std::vector<RepackOperand> arguments = data.arguments();
    {
      const auto closed = fences(data);
      const Status status = repack(arguments, x.type, nullptr);
      ASSERT_TRUE(status) << describe(x) << ": " << status.message;
    }
    ASSERT_EQ(data.verify(), "");
    count_repack_factors(factors, x, arguments);
    modes.insert(mode());
    ++ran;
  }
  std::printf("%d cases, %zu schedules\n", ran, modes.size());
  EXPECT_GE(ran, least);
  if (thread_sanitizer()) {
    EXPECT_EQ(modes, (std::set<std::string>{"warp_greedy late", "random late", "round_robin early"}));
    return;
  }
  factors.print();
  expect_repack_factors(factors);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
  EXPECT_EQ(modes.size(), 10u);
  EXPECT_TRUE(sim::launched_kernels().count(reinterpret_cast<const void*>(&repack_kernel<2>)));
  EXPECT_TRUE(sim::launched_kernels().count(reinterpret_cast<const void*>(&repack_kernel<4>)));
}

// AddressSanitizer does find a read one vector before the first valid byte, or one byte behind the last.
TEST_F(Repack, FencesAreClosed) {
  if (sim::sanitizer() != sim::Sanitizer::address) GTEST_SKIP() << "needs AddressSanitizer";
  use(5, 1);
  RepackCase x;
  x.operands.push_back({.rows = 3, .cols = 21, .offset = 4});
  const auto read = [&](int64_t from_base) {
    const RepackData data(x, 0);
    const auto closed = fences(data);
    const volatile unsigned char* base = static_cast<const unsigned char*>(data.arguments()[0].source);
    return static_cast<int>(base[from_base]);
  };
  EXPECT_GE(read(0) + read(3 * 21 * 2 - 1), 0);
  EXPECT_DEATH(read(-1), "use-after-poison");
  EXPECT_DEATH(read(3 * 21 * 2), "use-after-poison");
}

// A published report has 16-byte accesses at float rows of 129 elements: any pitch is copied, with the widths that it allows.
TEST_F(Repack, FloatRowsOf129) {
  if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only";
  for (const int64_t pitch : {129, 130, 132})
    for (const bool by_columns : {false, true})
      for (const int64_t offset : {0, 1, 2, 3}) {
        RepackCase x;
        x.type = ElementType::f32;
        x.operands.push_back({.rows = by_columns ? 129 : 33,
                              .cols = by_columns ? 33 : 129,
                              .pad = pitch - 129,
                              .offset = offset,
                              .strides = by_columns ? 5 : 0});
        ASSERT_EQ(run_repack(x, guard()), "");
      }
}

// A published report has the last rows and columns of 1000 x 1000 never written.
TEST_F(Repack, ThousandByThousand) {
  if (thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer runs the seeded cases only";
  for (const int strides : {0, 5, 10, 14})
    for (const ElementType type : {ElementType::bf16, ElementType::f32}) {
      RepackCase x;
      x.type = type;
      x.operands.push_back({.rows = 1000, .cols = 1000, .offset = 1, .strides = strides});
      ASSERT_EQ(run_repack(x, guard()), "");
    }
}

// Where a stride is never used, it may be anything.
TEST_F(Repack, UnusedStridesAreAnything) {
  for (const int64_t anything : {INT64_MAX, INT64_MIN, int64_t{0}}) {
    std::vector<uint16_t> values(40);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i + 1);
    const DeviceBuffer source(80, 2), copy(640);
    const_cast<DeviceBuffer&>(source).upload(values.data());
    const auto expect = [&](const RepackOperand& o) {
      const Status status = repack({&o, 1}, ElementType::bf16, nullptr);
      ASSERT_TRUE(status) << status.message;
      std::vector<uint16_t> got(320);
      copy.download(got.data());
      for (int64_t r = 0; r < o.rows; ++r)
        for (int64_t c = 0; c < o.ld; ++c)
          ASSERT_EQ(got[static_cast<size_t>(r * o.ld + c)], c < o.cols ? values[static_cast<size_t>(r + c)] : 0)
              << r << "," << c;
    };
    expect({.source = source.data(),
            .rows = 1,
            .cols = 40,
            .row_stride = anything,
            .copy = copy.data(),
            .ld = 40,
            .source_batch_stride = anything,
            .copy_batch_stride = anything});
    expect({.source = source.data(),
            .rows = 40,
            .cols = 1,
            .row_stride = 1,
            .col_stride = anything,
            .copy = copy.data(),
            .ld = 8});
    expect({.source = source.data(),
            .rows = 1,
            .cols = 1,
            .row_stride = anything,
            .col_stride = anything,
            .copy = copy.data(),
            .ld = 8});
  }
}

TEST_F(Repack, TilesByGroupsOfOtherKernels) {
  const int64_t extents[][2] = {{1, 1}, {33, 40}, {65, 129}, {129, 65}, {40, 1026}, {300, 7}};
  int ran = 0;
  FactorCounts factors;
  for (const int threads : {32, 64, 128, 256})
    for (const int strides : {0, 1, 5, 6, 10, 12, 14, 16})
      for (const auto& [rows, cols] : extents) {
        if (thread_sanitizer() && (rows * cols > 2000 || (strides % 5 != 0 && strides != 14))) continue;
        RepackCase x;
        x.type = static_cast<ElementType>(ran % 3), x.seed = static_cast<uint64_t>(ran + 1);
        x.operands.push_back({.rows = rows, .cols = cols, .pad = ran % 10, .offset = ran % 9, .strides = strides});
        if (ran % 2) x.operands[0].batch = 2, x.operands[0].batches = 1 + ran % 4, x.operands[0].copy_batches = 1 + ran % 3;
        use(ran % 10, x.seed);
        ASSERT_EQ(run_repack_in_groups(x, threads, guard()), "") << threads << " threads, " << mode();
        factors.count("threads", threads);
        ++ran;
      }
  std::printf("%d cases\n", ran);
  factors.print();
  EXPECT_GE(ran, thread_sanitizer() ? 20 : 190);
}

// ---- programmatic dependent launch --------------------------------------------------------------------------------

struct Chain {
  int right = 0, wrong = 0;
  std::string text;
};
template <bool ConsumerWaits> Chain run_chain() {
  Chain chain;
  uint64_t seed = 0;
  in_every_mode([&] {
    RepackChain kernels(66, 71, seed++);
    const Status status = kernels.enqueue<ConsumerWaits>(true, 2, nullptr);
    const bool right = status && kernels.right();
    ++(right ? chain.right : chain.wrong);
    chain.text += mode() + ": " + (status ? right ? "right" : "wrong" : status.message) + "\n";
  });
  return chain;
}

// Without the flag all results are the same, only later.
TEST_F(Repack, IsAProgrammaticLaunchIfAskedTo) {
  RepackCase x;
  x.operands.push_back({.rows = 9, .cols = 11});
  for (const ElementType type : {ElementType::bf16, ElementType::f32})
    for (const bool programmatic : {false, true}) {
      x.type = type;
      const RepackData data(x, guard());
      const Status status = repack(data.arguments(), type, nullptr, programmatic);
      ASSERT_TRUE(status) << status.message;
      EXPECT_EQ(data.verify(), "");
      EXPECT_EQ(sim::statistics().programmatic_launches, programmatic ? 1u : 0u);
      EXPECT_EQ(sim::statistics().cluster_launches, 0u);
    }
}
TEST_F(Repack, BetweenDependentKernels) {
  const Chain chain = run_chain<true>();
  EXPECT_EQ(chain.right, 10) << chain.text;
}
TEST_F(Repack, AKernelBehindItMustWait) {
  Chain chain;
  const int races = races_of([&] { chain = run_chain<false>(); });
  EXPECT_GE(chain.wrong, 5) << chain.text;  // all the late ones
  if (thread_sanitizer()) {
    EXPECT_GT(races, 0) << chain.text;
  }
}

// ---- what it refuses, and what it need not do ---------------------------------------------------------------------

struct Refusal {
  const char* what;
  void (*change)(std::vector<RepackOperand>&);
  std::vector<std::string> in_message;
  ElementType type = ElementType::bf16;
};
unsigned char* bytes_of(const void* p) { return static_cast<unsigned char*>(const_cast<void*>(p)); }

TEST_F(Repack, RefusalsTouchNothing) {
  using Operands = std::vector<RepackOperand>;
  const std::vector<Refusal> refusals = {
      {"none", [](Operands& o) { o.clear(); }, {"1 or 2", "not 0"}},
      {"three", [](Operands& o) { o.push_back(o[0]); }, {"1 or 2", "not 3"}},
      {"rows", [](Operands& o) { o[0].rows = -1; }, {"-1x20", "extents"}},
      {"columns", [](Operands& o) { o[0].cols = -2; }, {"16x-2", "extents"}},
      {"batch", [](Operands& o) { o[0].batch = -3; }, {"-3 in the batch", "extents"}},
      {"of the second", [](Operands& o) { o[1].rows = -7; }, {"-7x20", "extents"}},
      {"short pitch", [](Operands& o) { o[0].ld = 16; }, {"pitch 16", "20 columns", "multiple of 8"}},
      {"negative pitch", [](Operands& o) { o[0].ld = -24; }, {"pitch -24", "20 columns"}},
      {"ragged pitch", [](Operands& o) { o[0].ld = 28; }, {"pitch 28", "20 columns", "multiple of 8 elements"}},
      {"ragged pitch of 4-byte elements",
       [](Operands& o) { o[0].ld = 22; },
       {"pitch 22", "multiple of 4 elements"},
       ElementType::f32},
      {"far rows", [](Operands& o) { o[0].row_stride = INT64_MAX / 2; }, {"4611686018427387903", "62-bit"}},
      {"far columns", [](Operands& o) { o[0].col_stride = INT64_MIN; }, {"-9223372036854775808", "62-bit"}},
      {"far batch",
       [](Operands& o) { o[0].batch = 2, o[0].copy_batch_stride = INT64_MIN; },
       {"-9223372036854775808", "62-bit"}},
      {"ragged batch",
       [](Operands& o) { o[0].batch = 2, o[0].copy_batch_stride = 396; },
       {"batch stride 396", "multiple of 8", "384"}},
      {"short batch",
       [](Operands& o) { o[0].batch = 2, o[0].copy_batch_stride = 376; },
       {"batch stride 376", "at least", "384"}},
      {"short batch backwards",
       [](Operands& o) { o[0].batch = 2, o[0].copy_batch_stride = -376; },
       {"batch stride -376", "384"}},
      {"one copy for all", [](Operands& o) { o[0].batch = 2, o[0].copy_batch_stride = 0; }, {"batch stride 0", "384"}},
      {"no copy", [](Operands& o) { o[0].copy = nullptr; }, {"copy is null"}},
      {"no source", [](Operands& o) { o[0].source = nullptr; }, {"source is null"}},
      {"misaligned copy", [](Operands& o) { o[0].copy = bytes_of(o[0].copy) + 8; }, {"multiple of 16 bytes"}},
      {"misaligned source", [](Operands& o) { o[0].source = bytes_of(o[0].source) + 1; }, {"2-byte elements"}},
      {"misaligned words",
       [](Operands& o) { o[0].source = bytes_of(o[0].source) + 2; },
       {"4-byte elements"},
       ElementType::f32},
      {"2^44 bytes",
       [](Operands& o) {
         o.resize(1), o[0].source = bytes_of(nullptr) + 64, o[0].copy = bytes_of(nullptr) + (int64_t{1} << 46),
                      o[0].rows = 1 << 22, o[0].ld = 1 << 21, o[0].row_stride = 0;
       },
       {"4194304x20", "2097152", "2^44"}},
      {"too many tiles",
       [](Operands& o) {
         o[0].rows = o[0].cols = 1, o[0].ld = o[0].copy_batch_stride = 8, o[0].batch = int64_t{1} << 31,
         o[0].copy = bytes_of(nullptr) + (int64_t{1} << 40);
       },
       {"1x1", "2147483648", "2147483647"}},
      {"too many tiles of two",
       [](Operands& o) {
         o[0].copy = bytes_of(nullptr) + (int64_t{1} << 40), o[1].copy = bytes_of(nullptr) + (int64_t{1} << 41);
         for (RepackOperand& p : o) p.rows = p.cols = 1, p.ld = p.copy_batch_stride = 8, p.batch = int64_t{1} << 30;
       },
       {"1x1", "2147483648", "2147483647"}},
      {"copy in the source", [](Operands& o) { o[0].copy = const_cast<void*>(o[0].source); }, {"overlaps", "16x20"}},
      {"copy in the other source", [](Operands& o) { o[1].copy = const_cast<void*>(o[0].source); }, {"overlaps", "17x20"}},
      {"copy's end in a source that runs upwards",
       [](Operands& o) { o[0].source = bytes_of(o[1].copy) + 15 * 40 + 1000, o[0].row_stride = -20 - 24; },
       {"overlaps", "-44"}},
      {"two copies", [](Operands& o) { o[1].copy = bytes_of(o[0].copy) + 15 * 48; }, {"overlaps"}},
  };
  int ran = 0;
  for (const Refusal& refusal : refusals) {
    RepackCase x;
    x.type = refusal.type;
    x.operands = {{.rows = 16, .cols = 20}, {.rows = 17, .cols = 20}};
    const RepackData data(x);
    std::vector<RepackOperand> operands = data.arguments();
    refusal.change(operands);
    const Status status = repack(operands, x.type, nullptr);
    EXPECT_EQ(status.code, Code::invalid) << refusal.what << ": " << status.message;
    for (const std::string& text : refusal.in_message)
      EXPECT_NE(status.message.find(text), std::string::npos)
          << refusal.what << ": no '" << text << "' in: " << status.message;
    EXPECT_EQ(status.message.find('\n'), std::string::npos) << status.message;
    EXPECT_EQ(repack_check(operands, x.type).message, status.message);
    for (const RepackOperand& o : data.arguments()) {  // nothing was written
      std::vector<unsigned char> now(static_cast<size_t>(o.rows * o.ld) * element_bytes(x.type)),
          before(now.size(), kOutputPadding);
      ASSERT_EQ(cudaMemcpy(now.data(), o.copy, now.size(), cudaMemcpyDeviceToHost), cudaSuccess);
      EXPECT_EQ(now, before) << refusal.what;
    }
    ++ran;
  }
  EXPECT_GE(ran, 28);
}

// Without an extent nothing is done, whatever the addresses; without columns the copy is zeros.
TEST_F(Repack, ZeroExtentsDoNothing) {
  for (const RepackOperand& o : {RepackOperand{.rows = 0, .cols = 5, .row_stride = 5, .ld = 8},
                                 RepackOperand{.rows = 5, .cols = 5, .row_stride = 5, .ld = 8, .batch = 0},
                                 RepackOperand{.rows = 5, .cols = 0, .row_stride = 5, .ld = 0}}) {
    for (const int count : {1, 2}) {
      const RepackOperand both[] = {o, o};
      const Status status = repack({both, static_cast<size_t>(count)}, ElementType::bf16, nullptr);
      EXPECT_TRUE(status) << status.message;
    }
  }
  // One operand that has none does not stop the other.
  for (const int empty : {0, 1}) {
    RepackCase x;
    x.operands = {{.rows = 9, .cols = 11}, {.rows = 9, .cols = 11}};
    x.operands[static_cast<size_t>(empty)].rows = 0;
    EXPECT_EQ(run_repack(x, guard()), "");
  }
  DeviceBuffer zeros(7 * 24 * 2);
  const RepackOperand no_columns = {.rows = 7, .cols = 0, .row_stride = 0, .copy = zeros.data(), .ld = 24};
  const Status status = repack({&no_columns, 1}, ElementType::bf16, nullptr);
  ASSERT_TRUE(status) << status.message;
  std::vector<unsigned char> got(zeros.size());
  zeros.download(got.data());
  EXPECT_EQ(got, std::vector<unsigned char>(got.size(), 0));
}

// What is read of no operand may lie anywhere: the source of a copy without columns, in the middle of that copy.
TEST_F(Repack, ASourceThatIsNotReadOverlapsNothing) {
  DeviceBuffer copy(7 * 24 * 2);
  const RepackOperand o = {
      .source = copy.as<uint16_t>() + 50, .rows = 7, .cols = 0, .row_stride = 0, .copy = copy.data(), .ld = 24};
  const Status status = repack({&o, 1}, ElementType::bf16, nullptr);
  EXPECT_TRUE(status) << status.message;
}

// Source and copy, and the copies of two operands, may lie side by side.
TEST_F(Repack, Neighbours) {
  constexpr int64_t kMatrix = 16 * 24;
  DeviceBuffer all(4 * kMatrix * 2);
  std::vector<uint16_t> before(4 * kMatrix, 7), expected = before;  // copy, source, copy, other memory
  for (size_t i = 0; i < kMatrix; ++i)
    before[kMatrix + i] = expected[i] = expected[kMatrix + i] = expected[2 * kMatrix + i] = static_cast<uint16_t>(100 + i);
  all.upload(before.data());
  auto* base = all.as<uint16_t>();
  const RepackOperand first = {.source = base + kMatrix, .rows = 16, .cols = 24, .row_stride = 24, .copy = base, .ld = 24};
  RepackOperand operands[] = {first, first};
  operands[1].copy = base + 2 * kMatrix;
  const Status status = repack(operands, ElementType::bf16, nullptr);
  ASSERT_TRUE(status) << status.message;
  std::vector<uint16_t> got(before.size());
  all.download(got.data());
  EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace grout::test
