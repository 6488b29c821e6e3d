// The pipelines of tests/kernels/copy_pipelines.cuh: each bug is found under some schedule, late or early, or by
// ThreadSanitizer in its build; each correct twin is right and silent under all of them.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "common/check.cuh"
#include "tests/kernels/copy_pipelines.cuh"
#include "tests/sim/modes.h"
#include "tests/sim/races.h"

namespace grout::pipelines {
namespace {

using Kernel = void (*)(const bf16*, const bf16*, float*);

enum Means : unsigned { kOutput = 1, kReport = 2, kRace = 4 };

struct Mutant {
  const char* name;
  Kernel wrong, right;
  unsigned means;  // each of them must find it
  int pipeline;    // 0 copy, 1 gemm, 2 realign, 3 turned
};
std::ostream& operator<<(std::ostream& out, const Mutant& mutant) { return out << mutant.name; }

const Mutant kMutants[] = {
    {"copy_missing_wait", copy_ring<Bug::missing_wait>, copy_ring<Bug::none>, kOutput, 0},
    {"copy_weak_wait", copy_ring<Bug::weak_wait>, copy_ring<Bug::none>, kOutput, 0},
    {"copy_missing_commit", copy_ring<Bug::missing_commit>, copy_ring<Bug::none>, kOutput, 0},
    {"copy_barrier_before_wait", copy_ring<Bug::barrier_before_wait>, copy_ring<Bug::none>, kOutput | kRace, 0},
    {"copy_early_reuse", copy_ring<Bug::early_reuse>, copy_ring<Bug::none>, kOutput | kRace, 0},
    {"copy_drain_after_reuse", copy_ring<Bug::drain_after_reuse>, copy_ring<Bug::none>, kOutput | kRace, 0},
    {"copy_missing_drain", copy_ring<Bug::missing_drain>, copy_ring<Bug::none>, kReport, 0},
    {"gemm_missing_wait", gemm_ring<Bug::missing_wait>, gemm_ring<Bug::none>, kOutput, 1},
    {"gemm_weak_wait", gemm_ring<Bug::weak_wait>, gemm_ring<Bug::none>, kOutput, 1},
    {"gemm_missing_commit", gemm_ring<Bug::missing_commit>, gemm_ring<Bug::none>, kOutput, 1},
    {"gemm_barrier_before_wait", gemm_ring<Bug::barrier_before_wait>, gemm_ring<Bug::none>, kOutput | kRace, 1},
    {"gemm_early_reuse", gemm_ring<Bug::early_reuse>, gemm_ring<Bug::none>, kOutput | kRace, 1},
    {"gemm_drain_after_reuse", gemm_ring<Bug::drain_after_reuse>, gemm_ring<Bug::none>, kOutput | kRace, 1},
    {"gemm_missing_drain", gemm_ring<Bug::missing_drain>, gemm_ring<Bug::none>, kReport, 1},
    {"realign_finish_after_barrier", realign_ring<Bug::finish_after_barrier>, realign_ring<Bug::none>, kOutput | kRace, 2},
    {"turned_missing_wait", turned_ring<Bug::missing_wait>, turned_ring<Bug::none>, kOutput, 3},
    {"turned_weak_wait", turned_ring<Bug::weak_wait>, turned_ring<Bug::none>, kOutput, 3},
    {"turned_missing_commit", turned_ring<Bug::missing_commit>, turned_ring<Bug::none>, kOutput, 3},
    {"turned_missing_barrier", turned_ring<Bug::missing_barrier>, turned_ring<Bug::none>, kOutput | kRace, 3},
    {"turned_barrier_before_wait", turned_ring<Bug::barrier_before_wait>, turned_ring<Bug::none>, kOutput | kRace, 3},
    {"turned_drain_after_reuse", turned_ring<Bug::drain_after_reuse>, turned_ring<Bug::none>, kOutput | kRace, 3},
    {"turned_missing_drain", turned_ring<Bug::missing_drain>, turned_ring<Bug::none>, kReport, 3},
};

float value(int row, int col) { return static_cast<float>((row * 5 + col * 3) % 9 - 4); }

// The matrices that a pipeline reads: (row, col) of A and of B.
float a_value(int pipeline, int tile, int row, int col) {
  return pipeline == 1 ? value(row, tile * kDepth + col) : value(tile * kRows + row, col);
}

std::vector<float> expected(int pipeline) {
  std::vector<float> sums(kThreads), out(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    float sum = 0;
    for (int tile = 0; tile < kTiles; ++tile) {
      if (pipeline == 3) {
        for (int k = 0; k < kTurnedDepth; ++k)
          sum += static_cast<float>(tile + 1) * value((kThreads - 1 - thread) % kRows, tile * kTurnedDepth + k);
      } else if (pipeline == 1) {
        for (int slot = 0; slot < 4; ++slot) {
          const auto c = MmaM16N8K16C::at(thread % 32, slot);
          for (int k = 0; k < kDepth; ++k)
            sum += a_value(1, tile, thread / 32 * 16 + c[0], k) * value(c[1] + 1, tile * kDepth + k);
        }
      } else {
        // 128 vectors of 8 in rows of 4, dealt to 64 threads.
        for (int turn = 0; turn < 2; ++turn) {
          const int vector = turn * kThreads + kThreads - 1 - thread;
          for (int i = 0; i < 8; ++i)
            sum += static_cast<float>(tile + 1) * a_value(pipeline, tile, vector / 4, vector % 4 * 8 + i);
          if (pipeline == 2 && turn == 0 && tile + 1 < kTiles)
            sum += a_value(pipeline, tile + 1, vector / 4, vector % 4 * 8);
        }
      }
    }
    sums[static_cast<size_t>(thread)] = sum;
  }
  for (int thread = 0; thread < kThreads; ++thread)
    out[static_cast<size_t>(thread)] = sums[static_cast<size_t>(kThreads - 1 - thread)];
  return out;
}

struct Outcome {
  int modes = 0, right = 0, wrong = 0, reports = 0, races = 0;
  std::string text;
};

Outcome run(Kernel kernel, int pipeline) {
  const size_t elements = static_cast<size_t>(kSourceTiles * kRows * kDepth);
  std::vector<bf16> a(elements), b(static_cast<size_t>(kColumns * kSourceTiles * kDepth));
  for (int tile = 0; tile < kSourceTiles; ++tile)
    for (int row = 0; row < kRows; ++row)
      for (int col = 0; col < kDepth; ++col) {
        const int at = pipeline == 1 ? (row * kSourceTiles + tile) * kDepth + col : (tile * kRows + row) * kDepth + col;
        a[static_cast<size_t>(at)] = bf16(a_value(pipeline, tile, row, col));
      }
  for (int n = 0; n < kColumns; ++n)
    for (int k = 0; k < kSourceTiles * kDepth; ++k)
      b[static_cast<size_t>(n * kSourceTiles * kDepth + k)] = bf16(value(n + 1, k));
  if (pipeline == 3) {  // fp32, in the same memory
    std::vector<float> rows(static_cast<size_t>(kRows * kSourceTiles * kTurnedDepth));
    for (int row = 0; row < kRows; ++row)
      for (int k = 0; k < kSourceTiles * kTurnedDepth; ++k)
        rows[static_cast<size_t>(row * kSourceTiles * kTurnedDepth + k)] = value(row, k);
    a.resize(rows.size() * 2);
    std::memcpy(a.data(), rows.data(), rows.size() * 4);
  }
  DeviceBuffer device_a(a.size() * 2, pipeline == 2 ? 2 : 0), device_b(b.size() * 2), out(kThreads * 4);
  device_a.upload(a.data()), device_b.upload(b.data());
  const std::vector<float> want = expected(pipeline);

  Outcome outcome;
  test::in_every_mode([&] {
    const std::vector<unsigned char> poison(out.size(), kPoison);
    out.upload(poison.data());
    const int before = race_reports;
    const Status status = launch(kernel, dim3(1), dim3(kThreads), sizeof(Storage), nullptr, device_a.as<bf16>(),
                                 device_b.as<bf16>(), out.as<float>());
    std::vector<float> got(kThreads);
    out.download(got.data());
    const bool right = std::memcmp(got.data(), want.data(), out.size()) == 0;
    ++outcome.modes;
    outcome.races += race_reports - before;
    if (!status) ++outcome.reports;
    else ++(right ? outcome.right : outcome.wrong);
    outcome.text += test::mode() + ": " + (!status ? status.message : right ? "right" : "wrong") + "\n";
  });
  return outcome;
}

class Pipelines : public test::SimulatedTest, public ::testing::WithParamInterface<Mutant> {};

TEST_P(Pipelines, TwinIsSilent) {
  const Outcome outcome = run(GetParam().right, GetParam().pipeline);
  EXPECT_EQ(outcome.right, outcome.modes) << outcome.text;
  EXPECT_EQ(outcome.reports, 0) << outcome.text;
  EXPECT_EQ(outcome.races, 0);
}

TEST_P(Pipelines, BugIsFound) {
  const Mutant& mutant = GetParam();
  ::testing::internal::CaptureStderr();  // hundreds of reports
  const Outcome outcome = run(mutant.wrong, mutant.pipeline);
  const std::string reports = ::testing::internal::GetCapturedStderr();
  std::printf("%s: wrong in %d of %d modes, reported in %d, %d races\n", mutant.name, outcome.wrong, outcome.modes,
              outcome.reports, outcome.races);
  if (mutant.means & kOutput) {
    EXPECT_GT(outcome.wrong, 0) << outcome.text;
  }
  if (mutant.means & kReport) {
    EXPECT_EQ(outcome.reports, outcome.modes) << outcome.text;
  }
  if ((mutant.means & kRace) && sim::sanitizer() == sim::Sanitizer::thread) {
    EXPECT_GT(outcome.races, 0) << outcome.text;
    EXPECT_NE(reports.find("copy_pipelines.cuh:"), std::string::npos) << "no race names a line of the pipeline";
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Pipelines, ::testing::ValuesIn(kMutants),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace grout::pipelines
