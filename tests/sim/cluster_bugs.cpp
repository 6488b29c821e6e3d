// Bugs of clusters and of dependent launches, and what must find each. Each runs in every mode, a line each, in a process of
// its own, since a sanitizer may end it.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <sstream>

#include "tests/sim/child.h"
#include "tests/sim/cluster_grids.cuh"

namespace grout::cluster_test {
namespace {

using namespace grout::test;
using sim::Report, sim::Sanitizer, sim::Schedule, sim::name, sim::options, sim::sanitizer;

enum Means : unsigned {
  kWrongLate = 1,   // wrong output in every late mode, right in every early one
  kReportLate = 2,  // a Report in every late mode, none in any early one
  kSomeReport = 4,  // a Report in some mode
  kThread = 8,      // a race for ThreadSanitizer
};

struct Case {
  const char* name;
  unsigned means;
  const char* kernel;             // that a race is in
  std::vector<std::string> says;  // in each of its Reports
  std::function<bool()> right;    // runs it; is the output right?
};

/// A block of a cluster of two reads what the other wrote.
template <bool Barrier, bool Relaxed, bool End>
__global__ void read_neighbour(uint32_t* out) {
  auto* mine = static_cast<uint32_t*>(sim::dynamic_shared());
  mine[threadIdx.x] = 1000 + place();
  if (Barrier) {
    Relaxed ? cluster_arrive_relaxed() : cluster_arrive();
    cluster_wait();
  }
  uint32_t r[1];
  load_shared_cluster(r, mapa(shared_address(mine + threadIdx.x), cluster_rank() ^ 1));
  out[place() ^ kThreads] = r[0];
  if (End) cluster_sync();
}

/// Only block 0 reads, and only block 1 may end too early.
template <bool End>
__global__ void read_second(uint32_t* out) {
  auto* mine = static_cast<uint32_t*>(sim::dynamic_shared());
  mine[threadIdx.x] = 1000 + threadIdx.x;
  cluster_sync();
  if (cluster_rank() == 0) {
    uint32_t r[1];
    load_shared_cluster(r, mapa(shared_address(mine + threadIdx.x), 1));
    out[threadIdx.x] = out[threadIdx.x + kThreads] = r[0];
  }
  if (End) cluster_sync();
}

/// The blocks arrive at the end, but do not wait.
__global__ void ends_behind_arrival(uint32_t* out) {
  auto* mine = static_cast<uint32_t*>(sim::dynamic_shared());
  mine[threadIdx.x] = 1000 + place();
  cluster_sync();
  uint32_t r[1];
  load_shared_cluster(r, mapa(shared_address(mine + threadIdx.x), cluster_rank() ^ 1));
  out[place() ^ kThreads] = r[0];
  cluster_arrive();
}

/// Block 1 ends while block 0 goes on to read of it.
__global__ void early_end(uint32_t* out) {
  auto* mine = static_cast<uint32_t*>(sim::dynamic_shared());
  mine[threadIdx.x] = 1000 + threadIdx.x;
  cluster_sync();
  if (cluster_rank() == 1) return;
  __syncthreads();  // the others end meanwhile
  uint32_t r[1];
  load_shared_cluster(r, mapa(shared_address(mine + threadIdx.x), 1));
  out[threadIdx.x] = r[0];
}

bool neighbours(void (*kernel)(uint32_t*)) {
  Arrays arrays;
  run(kernel, {dim3(kBlocks), dim3(kThreads), kThreads * 4, 2}, arrays[0]);
  return arrays.is(0, kProduced);
}

template <class... Kernels>
bool chain(Kernels... kernels) {
  Arrays arrays;
  unsigned done = 0;
  const auto launch_next = [&](auto kernel) {
    const Launch& shape = done++ ? kProgrammatic : kPlain;
    if constexpr (std::is_invocable_v<decltype(kernel), uint32_t*>) {
      run(kernel, shape, arrays[0]);
    } else if constexpr (std::is_invocable_v<decltype(kernel), const uint32_t*, uint32_t*>) {
      run(kernel, shape, arrays[0], arrays[1]);
    } else {
      run(kernel, shape, arrays[0], arrays[1], arrays[2]);
    }
  };
  (launch_next(kernels), ...);
  return (done < 3 || arrays.is(2, [](unsigned p) { return 2001 + 2 * p; })) && arrays.is(1, kConsumed);
}

bool overwritten(void (*kernel)(uint32_t*)) {
  Arrays arrays;
  run(produce<Launches::before>, kPlain, arrays[0]);
  run(kernel, kProgrammatic, arrays[0]);
  return arrays.is(0, [](unsigned p) { return 5000 + p; });
}

const std::string kEnded =
    "has ended: block exit before a neighbour uses its shared memory. Rule: a block whose shared "
    "memory others may still use ends only after a cluster barrier.";

const Case kCases[] = {
    {"neighbour_right", 0, "", {}, [] { return neighbours(read_neighbour<true, false, true>); }},
    {"neighbour_without_barrier",
     kThread,
     "read_neighbour",
     {},
     [] { return neighbours(read_neighbour<false, false, true>), true; }},
    {"neighbour_relaxed", kThread, "read_neighbour", {}, [] { return neighbours(read_neighbour<true, true, true>); }},
    {"neighbour_ends",
     kThread | kSomeReport,
     "read_neighbour",
     {"ld.shared::cluster at shared offset ", "rank ", " of the cluster, which " + kEnded, "(read_neighbour)"},
     [] { return neighbours(read_neighbour<true, false, false>); }},
    {"neighbour_ends_behind_arrival",
     kThread | kSomeReport,
     "ends_behind_arrival",
     {"which " + kEnded, "(ends_behind_arrival)"},
     [] { return neighbours(ends_behind_arrival); }},
    {"second_right", 0, "", {}, [] { return neighbours(read_second<true>), true; }},
    {"second_ends",  // under some schedules behind the access
     kThread | kSomeReport,
     "read_second",
     {"which " + kEnded, "(read_second)"},
     [] { return neighbours(read_second<false>), true; }},
    {"neighbour_ends_early",
     kThread | kSomeReport,
     "early_end",
     {"ld.shared::cluster at shared offset ", " of block (1,0,0), rank 1 of the cluster, which " + kEnded},
     [] {
       Arrays arrays;
       run(early_end, {dim3(2), dim3(32), 128, 2}, arrays[0]);
       return std::equal(arrays[0] + 1, arrays[0] + 32, arrays[0], [](uint32_t a, uint32_t b) { return a == b + 1; });
     }},
    {"wait_missing",
     kWrongLate | kThread,
     "consume",
     {},
     [] { return chain(produce<Launches::before>, consume<Waits::never>); }},
    {"wait_missing_launch_behind_all",
     kWrongLate | kThread,
     "consume",
     {},
     [] { return chain(produce_then_launch, consume<Waits::never>); }},
    {"wait_missing_launch_never",  // when its blocks have ended, what they wrote may not be seen yet
     kWrongLate | kThread,
     "consume",
     {},
     [] { return chain(produce<Launches::never>, consume<Waits::never>); }},
    {"wait_too_late",
     kWrongLate | kThread,
     "consume",
     {},
     [] { return chain(produce<Launches::before>, consume<Waits::late>); }},
    // Found by values only in the schedules in which the others come first.
    {"wait_of_one_thread",
     kThread,
     "consume",
     {},
     [] { return chain(produce<Launches::before>, consume<Waits::one_thread>), true; }},
    {"chain_last_reads_first_early",
     kWrongLate | kThread,
     "add",
     {},
     [] { return chain(produce<Launches::before>, consume<Waits::first, Launches::before>, add<true>); }},
    {"chain_last_without_wait",
     kWrongLate | kThread,
     "consume",
     {},
     [] {
       const auto copy = consume<Waits::never>;
       Arrays arrays;
       run(produce<Launches::never>, kPlain, arrays[0]);
       run(consume<Waits::first, Launches::before>, kProgrammatic, arrays[0], arrays[1]);
       run(copy, kProgrammatic, arrays[1], arrays[2]);
       return arrays.is(2, [](unsigned p) { return 1002 + p; });
     }},
    {"write_before_wait",
     kReportLate | kThread,
     "overwrite",
     {"misuse in kernel test_kernel, block (",
      "at " + late_wait() +
          ": the grid writes what the previous grid writes, before griddepcontrol.wait: byte ",
      " of an allocation of 516. Rule: a programmatic launch writes what the previous grid writes only behind "
      "griddepcontrol.wait."},
     [] { return overwritten(overwrite<Waits::late>); }},
    {"write_without_wait",
     kReportLate | kThread,
     "overwrite",
     {"misuse in kernel test_kernel: the grid writes what the previous grid writes, before griddepcontrol.wait: byte 0 "
      "of an "
      "allocation of 516, and no thread waited. Rule: "},
     [] { return overwritten(overwrite<Waits::never>); }},
};

int run_under(const std::string& schedule, const Case& test) {
  options().workers = 1;
  options().compute_capability = 90;
  in_every_mode([&] {
    if (schedule != name(options().schedule)) return;
    std::string outcome;
    try {
      outcome = test.right() ? "right" : "wrong";
    } catch (const Report& report) {
      outcome = std::string("report ") + report.what();
    }
    std::cout << "mode " << mode() << ": " << outcome << std::endl;
  });
  return 0;
}

std::string program;

class BugTest : public testing::TestWithParam<Case> {};

// Does a line of the text name the kernel and a line of a file that has kernels?
bool names_place(const std::string& text, const std::string& kernel) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto has = [&](const std::string& part) { return line.find(part) != std::string::npos; };
    if (has(kernel) && (has("cluster_bugs.cpp:") || has("cluster_grids.cuh:"))) return true;
  }
  return false;
}

TEST_P(BugTest, IsFound) {
  const Case& test = GetParam();
  setenv("TSAN_OPTIONS", "exitcode=66 atexit_sleep_ms=0", 1);
  std::string text;  // of all schedules: a race has to show under each
  for (Schedule schedule : sim::kSchedules) {
    SCOPED_TRACE(name(schedule));
    const auto [exit_code, part] = run_child("'" + program + "' --case " + test.name + " " + name(schedule));

    const bool race = sanitizer() == Sanitizer::thread && (test.means & kThread) &&
                      !((test.means & kSomeReport) && part.find(": report ") != std::string::npos);
    if (race || part.find("Sanitizer") != std::string::npos) {
      EXPECT_TRUE(sanitizer() == Sanitizer::thread && (test.means & kThread)) << part;
      EXPECT_EQ(exit_code, 66) << part;
      EXPECT_NE(part.find("WARNING: ThreadSanitizer: data race"), std::string::npos) << part;
      EXPECT_TRUE(names_place(part, test.kernel)) << part;
    } else {
      EXPECT_EQ(exit_code, 0) << part;
    }
    text += part;
  }

  unsigned modes = 0, reports = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("mode ", 0)) continue;
    ++modes;
    const bool late = line.find(" late: ") != std::string::npos, report = line.find(": report ") != std::string::npos;
    const bool right = line.find(": right") != std::string::npos;
    if (report) {
      ++reports;
      expect_parts(line, test.says);
      EXPECT_TRUE(test.means & (kSomeReport | kReportLate)) << text;
    } else if (!(test.means & kSomeReport)) {
      EXPECT_EQ(right, !late || !(test.means & kWrongLate)) << text;
    }
    if (test.means & kReportLate) {
      EXPECT_EQ(report, late) << text;
    }
  }
  EXPECT_EQ(modes, 10u) << text;
  if (test.means & kSomeReport) {
    EXPECT_GT(reports, 0u) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, BugTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace grout::cluster_test

int main(int argc, char** argv) {
  using namespace grout::cluster_test;
  if (argc == 4 && std::string(argv[1]) == "--case") {
    for (const Case& test : kCases) {
      if (std::string(argv[2]) == test.name) return run_under(argv[3], test);
    }
    return 2;
  }
  program = argv[0];
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
