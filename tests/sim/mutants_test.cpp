// For each mutant of mutants.cuh, mutants_async.cuh, mutants_bulk.cuh and mutants_cluster.cuh: the bug is found by the means
// named here, and the correct twin is silent and right, under every schedule, late and early. Each runs in a process of its
// own, since a sanitizer may end it.
//
// The means: wrong output under some schedule; a Report of the simulated device; ThreadSanitizer and AddressSanitizer, in
// the builds that have them. Reports and sanitizers must name the kernel and a line of it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <vector>

#include "common/tensor_map.cuh"
#include "tests/sim/child.h"
#include "tests/sim/modes.h"
#include "tests/sim/mutants_bulk.cuh"
#include "tests/sim/mutants_cluster.cuh"

namespace grout::mutants {
namespace {

struct Mutant;
using Kernel = void (*)(const uint32_t*, uint32_t*);
using TensorKernel = void (*)(const uint32_t*, uint32_t*, TensorMap);
using Start = Status (*)(const Mutant&, const uint32_t* in, uint32_t* out);
using Expected = uint32_t (*)(unsigned index, unsigned block, unsigned threads);

enum Means : unsigned {
  kOutput = 1,      // wrong output in some mode
  kReport = 2,      // a Report in every mode
  kSomeReport = 4,  // a Report in some mode
  kThread = 8,      // a race for ThreadSanitizer
  kAddress = 16,    // AddressSanitizer, or a Report that it made possible
  kNoPlace = 32,    // the Report cannot name a line
};

struct Mutant {
  const char* name;
  Start wrong, right;
  unsigned means;
  const char* says;  // in its Reports
  unsigned block = 128, grid = 1;
  size_t shared_words = 4 * 128;
  Expected expected = [](unsigned i, unsigned, unsigned) { return 1000 + i; };
  unsigned cluster = 1;
  unsigned more = 0;  // words of out beyond one a thread that are expected too
};

LaunchShape shape(const Mutant& m) {
  return {.grid = dim3(m.grid), .block = dim3(m.block), .shared_bytes = m.shared_words * 4, .cluster = m.cluster};
}

template <Kernel K>
Status one_kernel(const Mutant& m, const uint32_t* in, uint32_t* out) {
  return launch(K, shape(m), nullptr, in, out);
}

// `Of` 0: the map is of in, 1: of out.
template <TensorKernel K, int Of, TensorSwizzle Swizzle = TensorSwizzle::none>
Status with_map(const Mutant& m, const uint32_t* in, uint32_t* out) {
  const TensorMapArguments arguments{.type = ElementType::f32,
                                     .base = Of ? out : in,
                                     .rank = 2,
                                     .extents = {32, m.grid * m.block / 32},
                                     .pitches = {0, 128},
                                     .box = {32, kBoxRows},
                                     .swizzle = Swizzle};
  TensorMap map;
  if (Status s = encode_tensor_map(map, arguments); !s) return s;
  return launch(K, shape(m), nullptr, in, out, map);
}

// The second may begin before the first has ended.
template <Kernel First, Kernel Second>
Status two_kernels(const Mutant& m, const uint32_t* in, uint32_t* out) {
  if (Status s = launch(First, shape(m), nullptr, in, out); !s) return s;
  LaunchShape second = shape(m);
  second.programmatic = true;
  return launch(Second, second, nullptr, in, out);
}

std::ostream& operator<<(std::ostream& out, const Mutant& mutant) {
  return out << mutant.name;
}

uint32_t mirrored(unsigned i, unsigned block, unsigned) {
  return 1000 + i / block * block + block - 1 - i % block;
}
uint32_t same(unsigned i, unsigned, unsigned) {
  return 1000 + i;
}
uint32_t swapped(unsigned i, unsigned block, unsigned) {
  return 1000 + (i ^ block);
}
uint32_t mirrored_swapped(unsigned i, unsigned block, unsigned threads) {
  return mirrored(i ^ block, block, threads);
}
uint32_t first_block(unsigned i, unsigned block, unsigned) {
  return 1000 + i % block;
}
// Each filling begins four words further on. Only warp 0 sums.
uint32_t three_fillings(unsigned i, unsigned, unsigned) {
  return i < 32 ? 3 * (1000 + i) + 12 : 0;
}
uint32_t halves(unsigned, unsigned, unsigned threads) {
  return threads / 2;
}

// clang-format off
#define MUTANT(name) #name, one_kernel<name<true>>, one_kernel<name<false>>
#define TENSOR_MUTANT(name, ...) #name, with_map<name<true>, __VA_ARGS__>, with_map<name<false>, __VA_ARGS__>
#define SECOND_MUTANT(name, first) #name, two_kernels<first, name<true>>, two_kernels<first, name<false>>
// clang-format on
const Mutant kMutants[] = {
    // Barriers in place of which nothing stands.
    {MUTANT(missing_barrier_before_read), kOutput | kThread, "", 128, 2, 128, mirrored},
    {MUTANT(missing_barrier_before_reuse), kOutput | kThread, "", 128, 1, 128,
     [](unsigned i, unsigned block, unsigned threads) { return 3 * mirrored(i, block, threads) + 3; }},
    {MUTANT(missing_barrier_after_batched_copy), kOutput | kThread, "", 128, 1, 128, mirrored},
    {MUTANT(missing_syncwarp), kThread, "", 64, 1, 64, [](unsigned i, unsigned, unsigned) { return 1000 + (i ^ 1); }},
    {MUTANT(shared_barrier_id), kOutput | kThread, "", 128, 1, 128,
     [](unsigned i, unsigned, unsigned) { return 1000 + (i ^ 32); }},
    {MUTANT(missing_barrier_after_atomics), kOutput | kThread, "", 128, 1, 128, halves},
    {MUTANT(missing_atomic), kThread, "", 128, 1, 128, halves},
    // Between blocks.
    {MUTANT(blocks_write_one_address), kThread, "", 64, 3},
    {MUTANT(missing_threadfence), kThread, "", 64, 3, 128,
     [](unsigned i, unsigned block, unsigned threads) {
       if (i < threads) return 1000 + i;
       return i == threads ? threads / block : 3 * 1000 + block * 3;
     },
     1, 2},
    // cp.async.
    {MUTANT(missing_copy_wait), kOutput, ""},
    {MUTANT(missing_copy_commit), kOutput, ""},
    {MUTANT(copy_wait_too_weak), kOutput, "", 128, 1, 8 * 128},
    {MUTANT(missing_barrier_after_copy), kOutput | kThread, "", 128, 1, 4 * 128, mirrored},
    {MUTANT(copy_into_buffer_in_use), kOutput | kThread, "", 128, 1, 4 * 128,
     [](unsigned i, unsigned block, unsigned threads) {
       const unsigned other = block - 1 - i;
       uint32_t sum = 0;
       for (unsigned stage = 0; stage < 3; ++stage) sum += 1000 + (other + 4 * stage) % threads;
       return sum;
     }},
    {MUTANT(copy_source_changed), kOutput, ""},
    {MUTANT(copy_source_changed_by_another), kOutput | kThread, ""},
    {MUTANT(exit_with_pending_copy), kReport, "never waited for"},
    {MUTANT(copy_to_misaligned_address), kReport, "multiple of 16 bytes", 128, 1, 4 * 128 + 4},
    {MUTANT(copy_from_misaligned_address), kReport, "aligned to its size"},
    // Warp collectives.
    {MUTANT(missing_lane_in_shuffle), kReport, "which has exited", 64, 1, 0,
     [](unsigned i, unsigned, unsigned) { return 1000 + (i ^ 1); }},
    {MUTANT(missing_lane_in_mma), kReport, "mma.sync", 64},
    {MUTANT(divergent_collective), kReport, "__ballot_sync", 64},
    {MUTANT(divergent_ldmatrix), kReport, "same .aligned instruction", 64},
    {MUTANT(mismatched_masks), kReport, "the same mask", 64},
    {MUTANT(lane_outside_its_mask), kReport, "does not name the calling lane", 64},
    {MUTANT(shuffle_from_outside_the_mask), kReport, "which is not in the mask", 64},
    {MUTANT(shuffle_width_not_a_power_of_two), kReport, "width 12", 64},
    {MUTANT(misaligned_ldmatrix_row), kReport, "multiple of 16 bytes", 64},
    // Block barriers.
    {MUTANT(mismatched_barrier_counts), kReport, "barrier", 128, 1, 128, mirrored},
    {MUTANT(too_few_arrivals), kReport, "96 of 128 threads have arrived", 128, 1, 128, mirrored},
    {MUTANT(missing_arrive), kReport, "threads 0-31 have exited", 128, 1, 128,
     [](unsigned i, unsigned, unsigned) { return 1000 + i % 32; }},
    {MUTANT(second_arrival_in_one_phase), kSomeReport | kThread, "a second time", 128, 1, 128,
     [](unsigned i, unsigned, unsigned) { return 1001 + i % 32; }},
    {MUTANT(barrier_id_too_large), kReport, "barrier 16", 128, 1, 128, mirrored},
    {MUTANT(barrier_count_not_of_warps), kReport, "for 100 threads", 128, 1, 128, mirrored},
    {MUTANT(barrier_count_beyond_block), kReport, "for 160 threads", 128, 1, 128, mirrored},
    {MUTANT(barrier_in_divergent_branch), kReport, "bar.sync", 128, 1, 128, mirrored},
    {MUTANT(barrier_in_both_branches), kReport, "same .aligned instruction", 128, 1, 128, mirrored},
    {MUTANT(barrier_after_return), kReport, "threads 64-127 have exited", 128, 1, 128,
     [](unsigned i, unsigned, unsigned) { return i < 64 ? 1063 - i : 1000 + i; }},
    {MUTANT(barrier_and_reduction_mixed), kReport, "not mixed", 128, 1, 128, halves},
    // Addresses.
    {MUTANT(global_read_out_of_bounds), kOutput | kAddress, "", 128, 1, 0,
     [](unsigned i, unsigned, unsigned threads) { return i + 1 < threads ? 1001 + i : 0; }},
    {MUTANT(global_read_before_begin), kOutput | kAddress, "", 128, 1, 0,
     [](unsigned i, unsigned, unsigned) { return i ? 999 + i : 0; }},
    {MUTANT(global_write_out_of_bounds), kAddress, "", 128, 1, 0},
    {MUTANT(copy_reads_out_of_bounds), kOutput | kAddress, "", 128, 1, 4 * 128,
     [](unsigned i, unsigned, unsigned threads) { return i + 4 < threads ? 1004 + i : 0; }},
    {MUTANT(shared_write_out_of_bounds), kReport | kAddress | kNoPlace, "shared offset 512", 128, 1, 128},
    {MUTANT(shared_address_out_of_bounds), kReport, "of the block's 512", 128, 1, 128},
    {MUTANT(misaligned_vector_store), kReport, "multiple of its size", 128, 1, 0},
    {MUTANT(unwritten_shared_memory), kOutput, "", 128, 1, 128,
     [](unsigned, unsigned, unsigned) { return 120u * 1000 + 119 * 120 / 2; }},
    // Full and empty stages.
    {MUTANT(missing_full_wait), kOutput | kThread, "", 64, 1, kAsyncWords},
    {MUTANT(missing_empty_wait), kThread, "", 64, 1, kAsyncWords, three_fillings},
    {MUTANT(stage_freed_before_read), kThread, "", 64, 1, kAsyncWords, three_fillings},
    // Bytes, parities, loops.
    {MUTANT(missing_expect_tx), kReport, "waited for this copy", 64, 1, kAsyncWords},
    {MUTANT(missing_expect_tx_after_the_copy), kReport, "in phase 1", 64, 1, kAsyncWords},
    {MUTANT(expects_too_many_bytes), kReport, "16 bytes outstanding", 64, 1, kAsyncWords},
    {MUTANT(expects_too_few_bytes), kReport, "expects all bytes", 64, 1, kAsyncWords},
    {MUTANT(copy_larger_than_expected), kReport, "-128 bytes outstanding", 64, 1, kAsyncWords},
    {MUTANT(wrong_parity), kOutput | kThread, "", 64, 1, kAsyncWords},
    {MUTANT(parity_not_turned), kOutput | kThread, "", 64, 1, kAsyncWords},
    {MUTANT(wait_without_loop), kOutput | kThread, "", 64, 1, kAsyncWords},
    // Arrivals.
    {MUTANT(over_arrival), kSomeReport | kThread, "have all come", 64, 1, kAsyncWords},
    {MUTANT(over_arrival_of_threads), kSomeReport | kThread, "parity 0", 64, 1, kAsyncWords, mirrored},
    {MUTANT(under_arrival), kReport, "64 of 65 arrivals", 64, 1, kAsyncWords, mirrored},
    // Making barriers.
    {MUTANT(missing_fence_after_init), kReport, "initialised without a fence", 64, 1, kAsyncWords},
    {MUTANT(missing_barrier_after_init), kSomeReport | kThread, "no mbarrier is initialised", 64, 1, kAsyncWords,
     mirrored},
    {MUTANT(missing_cluster_barrier_after_init), kSomeReport | kThread, "no mbarrier is initialised", 32, 2,
     kAsyncWords, same, 2},
    {MUTANT(barrier_memory_used_again), kReport, "mbarrier.inval comes before", 64, 1, kAsyncWords, mirrored},
    // Proxy fences.
    {MUTANT(missing_proxy_fence_before_bulk_store), kOutput, "", 64, 1, kAsyncWords},
    {TENSOR_MUTANT(missing_proxy_fence_before_tensor_store, 1), kOutput, "", 128, 1, kAsyncWords},
    {MUTANT(proxy_fence_of_one_thread_too_early), kOutput, "", 64, 1, kAsyncWords},
    {MUTANT(proxy_fence_before_the_writes), kOutput, "", 64, 1, kAsyncWords},
    {MUTANT(missing_proxy_fence_before_copy_to_cluster), kOutput, "", 32, 2, kAsyncWords, swapped, 2},
    {MUTANT(missing_proxy_fence_of_global_memory), kThread, "", 64, 1, kAsyncWords, mirrored},
    {MUTANT(missing_barrier_before_bulk_store), kOutput | kThread, "", 64, 1, kAsyncWords},
    // Groups of stores.
    {MUTANT(missing_group_wait_before_reuse), kOutput | kThread, "", 128, 1, kAsyncWords},
    {MUTANT(missing_group_commit), kOutput | kThread, "", 128, 1, kAsyncWords},
    {MUTANT(group_wait_too_weak), kOutput | kThread, "", 128, 1, kAsyncWords},
    {MUTANT(read_wait_where_the_write_is_needed), kOutput | kThread, "", 64, 1, kAsyncWords, mirrored},
    {MUTANT(group_wait_of_another_thread), kOutput | kThread, "", 64, 1, kAsyncWords},
    {MUTANT(exit_with_unread_store), kReport, "never waited for", 64, 1, kAsyncWords},
    {MUTANT(exit_with_pending_load), kReport, "waited for this copy", 64, 1, kAsyncWords},
    // Places and sizes.
    {MUTANT(bulk_size_not_of_16_bytes), kReport, "multiple of 16 bytes", 64, 1, kAsyncWords},
    {MUTANT(bulk_load_from_misaligned_address), kReport, "multiples of 16 bytes", 64, 1, kAsyncWords},
    {MUTANT(bulk_load_into_misaligned_address), kReport, "multiple of 16 bytes", 64, 1, kAsyncWords},
    {MUTANT(bulk_load_reads_out_of_bounds), kAddress, "", 64, 1, kAsyncWords},
    {MUTANT(bulk_load_beyond_shared_memory), kReport, "of the block's", 64, 1, kAsyncWords},
    {TENSOR_MUTANT(start_column_not_of_16_bytes, 0), kReport, "16 bytes", 128, 1, kAsyncWords},
    {TENSOR_MUTANT(swizzled_box_at_a_wrong_base, 0, TensorSwizzle::b128), kReport, "1024", 128, 1, kAsyncWords},
    {TENSOR_MUTANT(box_read_without_its_swizzle, 0, TensorSwizzle::b128), kOutput, "", 128, 1, kAsyncWords},
    {TENSOR_MUTANT(expects_only_what_lies_inside, 0), kReport, "-384 bytes outstanding", 128, 1, kAsyncWords},
    // Clusters.
    {MUTANT(missing_cluster_barrier_before_read), kOutput | kThread, "", 32, 2, kAsyncWords, swapped, 2},
    {MUTANT(relaxed_cluster_arrive), kThread, "", 32, 2, kAsyncWords, swapped, 2},
    {MUTANT(exit_before_a_neighbour_reads), kSomeReport | kThread, "which has ended", 32, 2, kAsyncWords, swapped, 2},
    {MUTANT(missing_cluster_wait), kOutput | kThread, "", 32, 2, kAsyncWords, swapped, 2},
    {MUTANT(cluster_rank_outside), kReport, "mapa to block 2", 32, 2, kAsyncWords, swapped, 2},
    {MUTANT(multicast_outside_the_cluster), kReport, "only blocks of the cluster", 32, 2, kAsyncWords, first_block, 2},
    {MUTANT(multicast_misses_a_block), kReport, "128 bytes outstanding", 32, 2, kAsyncWords, first_block, 2},
    {MUTANT(multicast_into_a_stage_in_use), kThread, "", 32, 2, kAsyncWords, first_block, 2},
    {MUTANT(remote_arrival_at_ones_own_barrier), kOutput | kThread, "", 32, 2, kAsyncWords, mirrored_swapped, 2},
    {MUTANT(remote_arrival_waited_for_in_the_block), kThread, "", 32, 2, kAsyncWords, mirrored_swapped, 2},
    // Dependent launches.
    {SECOND_MUTANT(missing_dependency_wait, first_of_two<Lets::before_it_writes>), kOutput | kThread, "", 32, 2, 0},
    {SECOND_MUTANT(launch_of_dependents_taken_for_an_order, first_of_two<Lets::when_it_has_written>), kOutput | kThread,
     "", 32, 2, 0},
    {SECOND_MUTANT(end_of_blocks_taken_for_an_order, first_of_two<Lets::at_its_end>), kOutput | kThread, "", 32, 2, 0},
    {SECOND_MUTANT(dependency_wait_of_another_thread, first_of_two<Lets::before_it_writes>), kOutput | kThread, "", 32,
     2, 0},
    {SECOND_MUTANT(dependent_copy_before_its_wait, first_of_two<Lets::before_it_writes>), kOutput | kThread, "", 32, 2,
     kAsyncWords},
    {SECOND_MUTANT(dependent_write_before_its_wait, first_of_two<Lets::before_it_writes>), kSomeReport | kThread,
     "writes what the previous grid writes", 32, 2, 0},
};
#undef MUTANT
#undef TENSOR_MUTANT
#undef SECOND_MUTANT
constexpr size_t kLeast = 103;  // of them

// ---- In the child process: every mode, a line each ----

int run_all_modes(const Mutant& mutant, bool bug) {
  const unsigned threads = mutant.grid * mutant.block, size = threads + 2;
  uint32_t *in = nullptr, *out = nullptr;
  if (cudaMalloc(&in, threads * 4) != cudaSuccess || cudaMalloc(&out, size * 4) != cudaSuccess) return 3;
  for (unsigned i = 0; i < threads; ++i) in[i] = 1000 + i;
  sim::options().compute_capability = 90;
  test::in_every_mode([&] {
    std::fill_n(out, threads, 0xffffffffu);
    out[threads] = out[threads + 1] = 0;
    const Status status = (bug ? mutant.wrong : mutant.right)(mutant, in, out);
    std::string outcome = status ? "right" : "report " + status.message;
    for (unsigned i = 0; status && i < threads + mutant.more; ++i) {
      const uint32_t expected = mutant.expected(i, mutant.block, threads);
      if (out[i] == expected) continue;
      outcome = "wrong out[" + std::to_string(i) + "] = " + std::to_string(out[i]) + " instead of " +
                std::to_string(expected);
      break;
    }
    std::cout << "mode " << test::mode() << ": " << outcome << std::endl;
  });
  (void)cudaFree(in);
  (void)cudaFree(out);
  return 0;
}

// ---- In the parent ----

struct Result : test::Child {
  /// Modes with this outcome.
  unsigned count(const std::string& outcome) const {
    unsigned found = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      found += line.rfind("mode ", 0) == 0 && line.find(": " + outcome) == line.find(": ");
    }
    return found;
  }
};
constexpr unsigned kModes = std::size(sim::kSchedules) * std::size(sim::kAsynchronies);

std::string program;

Result run_mutant(const Mutant& mutant, bool bug) {
  setenv("TSAN_OPTIONS", "exitcode=66 atexit_sleep_ms=0", 1);
  setenv("ASAN_OPTIONS", "exitcode=67 detect_stack_use_after_return=1", 1);
  return {test::run_child("'" + program + "' --mutant " + mutant.name + (bug ? " wrong" : " right"))};
}

// Where a kernel stands: a file, and its lines from the head of the kernel to its closing brace.
struct Lines {
  std::string file;
  unsigned first = 0, last = 0;
};
Lines lines_of(const std::string& kernel) {
  std::string folder = std::source_location::current().file_name();
  folder = folder.substr(0, folder.rfind('/') + 1);
  for (const char* file : {"mutants.cuh", "mutants_async.cuh", "mutants_bulk.cuh", "mutants_cluster.cuh"}) {
    std::ifstream source(folder + file);
    std::string line;
    unsigned first = 0;
    for (unsigned number = 1; std::getline(source, line); ++number) {
      if (line.find("__global__ void " + kernel + "(") != std::string::npos) first = number;
      if (first && line == "}") return {file, first, number};
    }
  }
  return {};
}

// Does the text, in one line, name the kernel and a line of it?
bool names_place(const Result& result, const std::string& kernel) {
  const Lines place = lines_of(kernel);
  const std::string file = "/" + place.file + ":";
  std::istringstream lines(result.text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(kernel) == std::string::npos) continue;
    for (size_t at = line.find(file); at != std::string::npos; at = line.find(file, at + 1)) {
      const auto number = unsigned(std::strtoul(line.c_str() + at + file.size(), nullptr, 10));
      if (number >= place.first && number <= place.last) return true;
    }
  }
  return false;
}

class MutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, BugIsFound) {
  const Mutant& mutant = GetParam();
  const Result result = run_mutant(mutant, true);
  const auto sanitizer = sim::sanitizer();
  if (sanitizer == sim::Sanitizer::thread && (mutant.means & kThread)) {
    EXPECT_EQ(result.exit_code, 66) << result.text;
    EXPECT_TRUE(result.has("WARNING: ThreadSanitizer: data race")) << result.text;
    EXPECT_TRUE(names_place(result, mutant.name)) << result.text;
  } else if (sanitizer == sim::Sanitizer::address && (mutant.means & kAddress)) {
    EXPECT_TRUE(result.has("ERROR: AddressSanitizer: use-after-poison") || result.count("report") == kModes)
        << result.text;
    EXPECT_TRUE(names_place(result, mutant.name)) << result.text;
  } else {
    // A kernel that is reported for its barriers may well race too.
    EXPECT_TRUE(result.exit_code == 0 || (sanitizer == sim::Sanitizer::thread && result.exit_code == 66))
        << result.text;
    if (mutant.means & kOutput) {
      EXPECT_GT(result.count("wrong"), 0u) << result.text;
    }
    if (mutant.means & (kReport | kSomeReport)) {
      EXPECT_GE(result.count("report"), mutant.means & kReport ? kModes : 1) << result.text;
      EXPECT_TRUE(result.has(mutant.says)) << result.text;
      EXPECT_TRUE(result.has(" Rule: ")) << result.text;
      EXPECT_TRUE((mutant.means & kNoPlace) || names_place(result, mutant.name)) << result.text;
    }
  }
}

TEST_P(MutantTest, TwinIsSilent) {
  const Result result = run_mutant(GetParam(), false);
  EXPECT_EQ(result.exit_code, 0) << result.text;
  EXPECT_EQ(result.count("right"), kModes) << result.text;
  EXPECT_FALSE(result.has("Sanitizer")) << result.text;
}

INSTANTIATE_TEST_SUITE_P(Each, MutantTest, testing::ValuesIn(kMutants),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Mutants, NoneIsMissing) {
  EXPECT_GE(std::size(kMutants), kLeast);
  for (unsigned means : {kOutput, kReport, kThread, kAddress}) {
    unsigned found = 0;
    for (const Mutant& mutant : kMutants) found += (mutant.means & means) != 0;
    EXPECT_GE(found, 5u) << "mutants that means " << means << " finds";
  }
}

}  // namespace
}  // namespace grout::mutants

int main(int argc, char** argv) {
  using namespace grout::mutants;
  if (argc == 4 && std::string(argv[1]) == "--mutant") {
    for (const Mutant& mutant : kMutants) {
      if (std::string(argv[2]) == mutant.name) return run_all_modes(mutant, std::string(argv[3]) == "wrong");
    }
    return 2;
  }
  program = argv[0];
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
