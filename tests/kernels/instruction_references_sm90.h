// The cases of the instruction tests that need compute capability 9.0, but for copies: mbarriers, clusters and dependent
// launches. As in instruction_references.h.
#pragma once
#include <cstdint>
#include <string>

#include "tests/kernels/instruction_references.h"
#include "tests/kernels/instructions_sm90.cuh"

namespace grout::instructions {

// ---- mbarriers ----------------------------------------------------------------------------------------------------

inline Case mbarrier_parities_case() {
  Case c{.name = "mbarrier_parities", .kernel = mbarrier_parities, .block = 8, .shared_bytes = 64, .capability = 90};
  for (unsigned thread = 0; thread < 8; ++thread) {
    c.in.push_back(1 + thread % 4);
    for (unsigned use = 0; use < 2; ++use) {
      c.expected.insert(c.expected.end(), 7, 0x300u);
      c.expected.push_back(c.in.back());
    }
  }
  return c;
}

inline Case mbarrier_pipeline_case(unsigned rounds) {
  Source source(500);
  Case c{.name = "mbarrier_pipeline_" + std::to_string(rounds),
         .kernel = mbarrier_pipeline,
         .block = 96,
         .shared_bytes = 32,
         .in = {rounds, 0, 0, 0},
         .capability = 90};
  const Words data = source.words(rounds * 32);
  c.in.insert(c.in.end(), data.begin(), data.end());
  for (unsigned round = 0; round < rounds; ++round)
    for (unsigned warp = 0; warp < 2; ++warp)
      for (unsigned lane = 0; lane < 32; ++lane) c.expected.push_back(data[round * 32 + 31 - lane] + warp);
  for (unsigned stage = 0; stage < 2; ++stage)  // what the last round of each stage left
    for (unsigned lane = 0; lane < 32; ++lane)
      c.expected.push_back(stage < rounds ? data[((rounds - 1 - stage) / 2 * 2 + stage) * 32 + lane] : c.fill);
  return c;
}

inline Case remote_arrivals_case(unsigned cluster) {
  Source source(510 + cluster);
  const unsigned blocks = cluster * 2;
  Case c{.name = "remote_arrivals_" + std::to_string(cluster),
         .kernel = remote_arrivals,
         .grid = blocks,
         .shared_bytes = 6 * 4 * 32 * 4 + 8,
         .in = source.words(blocks * 32),
         .cluster = cluster,
         .capability = 90};
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned round = 0; round < 6; ++round)
      for (unsigned from = 0; from < cluster; ++from)
        for (unsigned lane = 0; lane < 32; ++lane)
          c.expected.push_back(c.in[(block / cluster * cluster + from) * 32 + 31 - lane] + round);
  return c;
}

// ---- clusters, dependent launches ---------------------------------------------------------------------------------

inline Case cluster_ids_case(unsigned cluster) {
  Source source(900 + cluster);
  Case c{.name = "cluster_ids_" + std::to_string(cluster),
         .kernel = cluster_ids,
         .grid = 16,
         .shared_bytes = 128,
         .in = source.words(16 * 32),
         .cluster = cluster,
         .capability = 90};
  for (unsigned block = 0; block < 16; ++block)
    for (unsigned thread = 0; thread < 32; ++thread) {
      c.expected.insert(c.expected.end(), {block % cluster, cluster, thread * 4});
      for (unsigned from = 0; from < cluster; ++from)
        c.expected.push_back(c.in[(block / cluster * cluster + from) * 32 + thread]);
    }
  return c;
}

// In each cluster the threads store to all chunks, each to one, and load all, each one.
template <int N>
Case cluster_moves_case(unsigned cluster) {
  Source source(910 + cluster + N);
  const unsigned blocks = cluster * 2, threads = cluster * 32;
  Case c{.name = "cluster_moves_" + std::to_string(N) + "_words_" + std::to_string(cluster),
         .kernel = cluster_moves<N>,
         .grid = blocks,
         .shared_bytes = 32 * 4 * N,
         .cluster = cluster,
         .capability = 90};
  const Words data = source.words(blocks * 32 * N);
  for (unsigned first = 0; first < blocks * 32; first += threads) {
    const Words to = source.permutation(threads), from = source.permutation(threads);
    Words holds(threads);  // the thread whose chunk lies there
    for (unsigned i = 0; i < threads; ++i) {
      holds[to[i]] = first + i;
      c.in.insert(c.in.end(), {to[i] / 32, to[i] % 32, from[i] / 32, from[i] % 32});
    }
    for (unsigned i = 0; i < threads; ++i)
      for (const bool own : {false, true})
        for (unsigned word = 0; word < N; ++word)
          c.expected.push_back(own && from[i] / 32 != i / 32 ? 0 : data[holds[from[i]] * N + word]);
  }
  c.in.insert(c.in.end(), data.begin(), data.end());
  return c;
}

inline Case cluster_barriers_case(unsigned cluster) {
  Source source(920 + cluster);
  const unsigned blocks = cluster * 2;
  Case c{.name = "cluster_barriers_" + std::to_string(cluster),
         .kernel = cluster_barriers,
         .grid = blocks,
         .block = 64,
         .shared_bytes = 256,
         .in = source.words(blocks * 64),
         .cluster = cluster,
         .capability = 90};
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned round = 0; round < 8; ++round)
      for (unsigned i = 0; i < 64; ++i) {
        const unsigned next = block / cluster * cluster + (block + 1) % cluster;
        c.expected.push_back(c.in[next * 64 + 63 - i] + round);
      }
  return c;
}

// A launch, and two that may begin before the one ahead has ended; or three that wait although nothing says they may.
inline Case dependent_launches_case(bool programmatic, unsigned blocks) {
  Source source(930);
  const unsigned threads = blocks * 32;
  Case c{.name = programmatic ? "dependent_launches" : "dependent_launches_in_order",
         .grid = blocks,
         .in = source.words(threads),
         .capability = 90};
  c.start = [programmatic](const Case& self, const uint32_t* in, uint32_t* out) {
    for (unsigned launched = 0; launched < 3; ++launched) {
      LaunchShape dependent = shape(self);
      dependent.programmatic = programmatic && launched > 0;
      if (Status s = launch(dependent_launch, dependent, nullptr, in, out, launched); !s) return s;
    }
    return Status{};
  };
  for (unsigned launched = 0; launched < 3; ++launched)
    for (unsigned thread = 0; thread < threads; ++thread) {
      uint32_t own = launched;
      for (unsigned i = 0; i < threads; ++i) own = own * 5 + c.in[(thread + i) % threads];
      const uint32_t before = launched == 0 ? 0 : c.expected[(launched - 1) * threads + threads - 1 - thread];
      c.expected.push_back(own + 3 * before);
    }
  return c;
}

}  // namespace grout::instructions
