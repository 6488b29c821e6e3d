// Paired timing on the simulated device, by the host's clock: what is run, in which order, and what becomes of the times.
#include "common/bench.cuh"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "common/sim/state.h"  // what is allocated

namespace grout {
namespace {

// Case 6.4: a rate says of which shape, how many FLOPs and which cache state it is.
TEST(Line, NamesShapeFlopsAndMode) {
  Timing t{.name = "ours", .round_us = std::vector<double>(4, 736.3), .us = 736.3, .speed_up = {1.25, 1.2, 1.3}, .runs_per_batch = 54};
  EXPECT_EQ(
      timing_line(t, "5120x5120x4096 nn bf16", 2.0 * 5120 * 5120 * 4096),
      "ours                 5120x5120x4096 nn bf16  214.7 GFLOP  736.30 us  291.7 TFLOP/s  1.250x [1.200, 1.300]  "
      "L2 cold, 4 rounds of 54 runs a batch");
  t.cold = false;
  EXPECT_NE(timing_line(t, "", 1).find("L2 warm"), std::string::npos);
}

BenchOptions short_rounds(bool cold, int rounds = 3, int batches = 2) {
  BenchOptions options = BenchOptions::quick(cold);
  options.rounds = rounds, options.batches = batches;
  return options;
}
auto sleeper(int us) {
  return [us](cudaStream_t) { std::this_thread::sleep_for(std::chrono::microseconds(us)); };
}

TEST(Bench, ComparesEntriesThatSleep) {
  for (const bool cold : {true, false}) {
    const auto timings = Bench(short_rounds(cold)).compare({{"slow", sleeper(2000)}, {"fast", sleeper(500)}});
    ASSERT_EQ(timings.size(), 2u);
    for (const Timing& t : timings) {
      EXPECT_EQ(t.round_us.size(), 3u);
      EXPECT_EQ(t.round_wall_us.size(), 3u);
      EXPECT_EQ(t.failure, "");
      if (!cold) {  // the same calls: cold, it is another one
        EXPECT_GE(t.wall_us, t.us * 0.999);
      }
    }
    EXPECT_EQ(timings[0].speed_up.median, 1);
    EXPECT_GE(timings[0].us, 1990);
    EXPECT_GE(timings[1].us, 490);
    EXPECT_GE(timings[0].wall_us, 1990);
    EXPECT_GE(timings[1].wall_us, 490);
    EXPECT_GT(timings[1].speed_up.median, 1);
    EXPECT_GE(timings[1].runs_per_batch, 1);
  }
}

// A call of several runs takes the time of all: a run's is its share. A round's figure is the median of its batches.
TEST(Bench, TimesAreOfARunAndMediansOfBatches) {
  int visits = 0;
  BenchOptions options = short_rounds(false, 1, 3);
  options.warm_up_ms = 1, options.batch_ms = 0.001;  // one call a batch
  bool timed = false;
  options.progress = [&](const std::string&, int round) { timed = round >= 0; };
  // In a visit one call settles the clocks, one is timed: the first of three visits is slow.
  const auto run = [&](cudaStream_t s) { sleeper(timed && visits++ < 2 ? 200000 : 20000)(s); };
  const Timing t = Bench(options).compare({{.name = "ten", .run = run, .repeats = 10}})[0];
  EXPECT_EQ(t.runs_per_batch, 1);
  for (const double us : {t.us, t.wall_us}) {
    EXPECT_GE(us, 1990);
    EXPECT_LT(us, 15000);
  }
}

// A cold run has two figures: of the device, between events, and of the host, one call to its end.
TEST(Bench, WallTimeIsTheHosts) {
  for (const bool cold : {true, false}) {
    BenchOptions options = short_rounds(cold, 4, 1);
    options.warm_up_ms = options.batch_ms = 0.001;  // one call a batch, and in a cold one another on the host's clock
    int calls = 0;
    const auto run = [&](cudaStream_t s) { sleeper(cold && calls++ % 2 ? 30000 : 1000)(s); };
    const Timing t = Bench(options).compare({{"two times", run}})[0];
    EXPECT_EQ(t.runs_per_batch, 1);
    ASSERT_EQ(t.round_us.size(), 4u);
    ASSERT_EQ(t.round_wall_us.size(), 4u);
    EXPECT_NE(t.round_us, t.round_wall_us);
    EXPECT_EQ(t.us, median(t.round_us));
    EXPECT_EQ(t.wall_us, median(t.round_wall_us));
    EXPECT_LT(t.us, 15000);
    EXPECT_GE(t.wall_us, cold ? 29990 : 990);
  }
}

// Between its poison and its verdict a batch has an eighth of its calls for the clocks and the cache, one at least, and then
// those that are timed: no fewer than one, however long they take, and no more than 4096, however short they are.
TEST(Bench, SettlesAheadOfABatchOfOneTo4096Calls) {
  for (const bool cold : {true, false})
    for (const bool slow : {true, false}) {
      BenchOptions options = short_rounds(cold, 2, 1);
      options.warm_up_ms = 1, options.batch_ms = slow ? 0.001 : cold ? 20 : 200;
      int calls = 0;
      std::vector<int> visits;
      const auto run = [&](cudaStream_t s) {
        const bool settling = calls++ < (cold ? 2 : 1);  // of a batch of one
        if (slow) sleeper(settling ? 50000 : 2000)(s);
      };
      const Timing t = Bench(options).compare({{.name = "counted", .run = run, .before = [&] { calls = 0; },
                                                .after = [&] { visits.push_back(calls); }}})[0];
      const std::string context = std::string(cold ? "cold" : "warm") + (slow ? ", slow" : ", fast");
      EXPECT_EQ(t.failure, "") << context;
      EXPECT_GE(t.runs_per_batch, slow || cold ? 1 : 4096) << context;  // fast and cold: flushes are not
      EXPECT_LE(t.runs_per_batch, slow ? 1 : 4096) << context;
      // A cold batch ends with one call more, on the host's clock.
      const int expected = t.runs_per_batch + std::max(1, t.runs_per_batch / 8) + (cold ? 2 : 0);
      EXPECT_EQ(visits, std::vector<int>(2, expected)) << context;
      EXPECT_LT(t.us, 25000) << context << ": what settles was timed";
    }
}

// Where the times of one drift as it warms up, every batch of all waits until the clocks are its own: those are slow for the first
// milliseconds of a visit.
TEST(Bench, SettlesLongerWhereTimesDrift) {
  using Clock = std::chrono::steady_clock;
  for (const double settle_ms : {0.0, 60.0}) {
    BenchOptions options = short_rounds(false, 2, 1);  // none is visited twice in a row
    options.warm_up_ms = 100, options.batch_ms = 10, options.settle_ms = settle_ms;
    std::string running;
    Clock::time_point since;
    const auto entry = [&](const std::string& name, bool brief) {
      const auto run = [&, name](cudaStream_t s) {
        if (running != name) running = name, since = Clock::now();
        sleeper(Clock::now() - since < std::chrono::milliseconds(40) ? 3000 : 1000)(s);
      };
      return BenchEntry{.name = name, .run = run, .brief = brief};
    };
    for (const Timing& t : Bench(options).compare({entry("a", false), entry("b", false), entry("c", true)})) {
      EXPECT_EQ(t.settle_ms, settle_ms) << t.name;
      if (settle_ms > 0) {
        EXPECT_LT(t.us, 2500) << t.name;
      } else {
        EXPECT_GT(t.us, 2500) << t.name;
      }
    }
  }
  // One run may be longer than the batch and the warm-up.
  int calls = 0;
  BenchOptions long_runs = short_rounds(false, 1, 1);
  long_runs.warm_up_ms = 40, long_runs.batch_ms = 5, long_runs.settle_ms = 60;
  const auto grows = [&](cudaStream_t s) { sleeper(++calls <= 2 ? 30000 : 45000)(s); };
  EXPECT_EQ(Bench(long_runs).compare({{"grows", grows}})[0].settle_ms, 60);
  // What is over before the host has enqueued the next is not watched: the host's pauses are no drift.
  BenchOptions options = short_rounds(false, 1, 1);
  options.warm_up_ms = 20, options.settle_ms = 60;
  EXPECT_EQ(Bench(options).compare({{"nothing", [](cudaStream_t) {}}})[0].settle_ms, 0);
}

// What the L2 held is gone ahead of each cold run: a buffer of twice its size is overwritten, all of it, and no figure holds
// that time.
TEST(Bench, FlushesL2AheadOfEachColdRun) {
  const auto allocations = [] {
    std::vector<sim::Allocation> all;
    sim::for_each_allocation([&](const sim::Allocation& allocation) { all.push_back(allocation); });
    return all;
  };
  ASSERT_EQ(allocations().size(), 0u);
  DeviceInfo info;
  ASSERT_TRUE(device_info(info));
  ASSERT_GT(info.l2_bytes, 0u);
  BenchOptions options = short_rounds(true, 3, 3);
  options.warm_up_ms = options.batch_ms = 2;
  Bench bench(options);
  ASSERT_EQ(allocations().size(), 1u);
  const sim::Allocation buffer = allocations()[0];
  ASSERT_EQ(buffer.bytes, 2 * info.l2_bytes);
  // A flush leaves equal bytes, a run marks every line.
  const auto mark = [&] {
    for (size_t i = 0; i < buffer.bytes; i += 32) buffer.data[i] = static_cast<unsigned char>(~buffer.data[i]);
    buffer.data[buffer.bytes - 1] = static_cast<unsigned char>(~buffer.data[0]);
  };
  mark();
  int runs = 0, flushed = 0;
  const auto run = [&](cudaStream_t) {
    ++runs, flushed += std::memcmp(buffer.data, buffer.data + 1, buffer.bytes - 1) == 0;
    mark();
  };
  const auto timings = bench.compare({{"marks", run}, {"nothing", [](cudaStream_t) {}}});
  require_figures(timings);
  EXPECT_GE(runs, 9 * 4);
  EXPECT_EQ(flushed, runs);
  double flush_us = INFINITY;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(cudaMemset(buffer.data, i, buffer.bytes), cudaSuccess);
    const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
    flush_us = std::min(flush_us, spent.count());
  }
  EXPECT_LT(timings[1].us, flush_us / 2);
  EXPECT_LT(timings[1].wall_us, flush_us / 2);
  // On a warm cache nothing is flushed.
  const Bench warm(short_rounds(false));
  EXPECT_EQ(allocations().size(), 1u);
}

// Forth and back in turn; the last batch of a round between its before and its after; as many runs as were asked for.
TEST(Bench, VisitsInOrder) {
  std::vector<std::string> seen;
  BenchOptions options = short_rounds(false, 4, 3);
  options.warm_up_ms = 1;
  options.progress = [&](const std::string& name, int round) { seen.push_back(name + std::to_string(round)); };
  int calls = 0;
  const auto entry = [&](const std::string& name) {
    return BenchEntry{.name = name,
                      .run = [&, name](cudaStream_t s) {
                        ++calls, sleeper(300)(s);
                        if (seen.back() != "run " + name) seen.push_back("run " + name);
                      },
                      .before = [&, name] { seen.push_back("poison " + name); },
                      .after = [&, name] { seen.push_back("judge " + name); }};
  };
  const auto timings = Bench(options).compare({entry("a"), entry("b")});
  std::vector<std::string> expected;
  for (const std::string name : {"a", "b"})
    for (const std::string& word : {name + "-1", "poison " + name, "run " + name}) expected.push_back(word);
  for (int round = 0; round < 4; ++round)
    for (int turn = 0; turn < 3; ++turn)
      for (const std::string& name : (3 * round + turn) % 2 ? std::vector<std::string>{"b", "a"} : std::vector<std::string>{"a", "b"}) {
        if (turn == 0) expected.push_back(name + std::to_string(round));
        if (turn == 2) expected.push_back("poison " + name);
        if (expected.back() != "run " + name) expected.push_back("run " + name);
        if (turn == 2) expected.push_back("judge " + name);
      }
  EXPECT_EQ(seen, expected);
  EXPECT_GE(calls, 4 * 3 * (timings[0].runs_per_batch + timings[1].runs_per_batch));
}

// What is brief has one batch a round.
TEST(Bench, BriefEntriesHaveOneBatch) {
  int judged = 0;
  const auto timings = Bench(short_rounds(false, 2, 3)).compare(
      {{"long", sleeper(200)}, {.name = "brief", .run = sleeper(200), .brief = true, .after = [&] { ++judged; }}});
  EXPECT_EQ(timings[1].round_us.size(), 2u);
  EXPECT_EQ(judged, 2);
}

// A failure, of a run or of a verdict, early or late, takes all the figures of its entry and none of the others'.
TEST(Bench, AFailureHasNoFigure) {
  for (const int fails_at : {0, 1, 2}) {
    int verdicts = 0;
    const auto timings = Bench(short_rounds(false)).compare(
        {{"right", sleeper(200)},
         {.name = "wrong", .run = sleeper(200), .after = [&] { if (verdicts++ == fails_at) throw std::runtime_error("one wrong"); }}});
    EXPECT_EQ(timings[1].failure, "one wrong");
    EXPECT_TRUE(timings[1].round_us.empty() && timings[1].round_wall_us.empty());
    EXPECT_TRUE(std::isnan(timings[1].us) && std::isnan(timings[1].speed_up.median));
    EXPECT_EQ(verdicts, fails_at + 1) << "it was visited again";
    EXPECT_EQ(timings[0].round_us.size(), 3u);
    EXPECT_THROW(require_figures(timings), std::runtime_error);
  }
  const auto base = Bench(short_rounds(true)).compare({{"throws", [](cudaStream_t) { throw std::runtime_error("no"); }}, {"right", sleeper(200)}});
  EXPECT_EQ(base[0].failure, "no");
  EXPECT_TRUE(std::isnan(base[1].speed_up.median));
  EXPECT_GT(base[1].us, 190);
}

TEST(Bench, SeveralRunsACallNeedAWarmCache) {
  int calls = 0;
  const BenchEntry graph{"graph", [&](cudaStream_t) { ++calls; }, 20};
  EXPECT_THROW((void)Bench(BenchOptions::quick(true)).compare({graph}), std::invalid_argument);
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace grout
