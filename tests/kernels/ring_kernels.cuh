// Two uses of common/ring.cuh that the ladder of copy/ does not have: producers that fill a stage with ordinary stores, and
// a ring whose stages are filled by multicasts of every block of a cluster. Each gives what it read, in order.
#pragma once
#include <string>
#include <vector>

#include "common/check.cuh"
#include "common/ring.cuh"

namespace grout::test {

template <int Stages> struct RingOfStores {
  static constexpr int words = 64, threads = words + 32;
  struct Storage {
    uint32_t stage[Stages][words];
    typename Ring<Stages>::Storage ring;
  };
};

// Warps 0 and 1 produce, warp 2 consumes. Out, of each block and iteration: the stage's words, last first.
template <int Stages> __global__ void ring_of_stores(int iterations, uint32_t* out) {
  using Config = RingOfStores<Stages>;
  auto& shared = dynamic_shared<typename Config::Storage>();
  const Ring<Stages> ring(shared.ring);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  if (thread == 0) ring.init(Config::words, 32);
  __syncthreads();
  out += static_cast<size_t>(blockIdx.x) * static_cast<size_t>(iterations) * Config::words;
  typename Ring<Stages>::Position p;
  for (int k = 0; k < iterations; ++k, p.next()) {
    if (thread < Config::words) {
      ring.acquire(p);
      shared.stage[p.stage][thread] = blockIdx.x * 1000000 + static_cast<uint32_t>(k * 1000 + thread);
      ring.arrive_full(p);
    } else {
      ring.wait(p);
      for (int i = lane; i < Config::words; i += 32)
        out[k * Config::words + i] = shared.stage[p.stage][Config::words - 1 - i];
      ring.release(p);
    }
  }
}

template <int Stages, int Blocks> struct RingOfMulticasts {
  static constexpr int part = 32, words = Blocks * part, threads = 64;
  struct Storage {
    alignas(16) uint32_t stage[Stages][words];
    typename Ring<Stages>::Storage ring;
  };
};

// In: of each iteration, a part of 32 words for each block of the cluster, which loads it for all. Out, of each block of the
// grid and iteration: the stage's words, last first. A producer writes every block's stage, so every block's consumer must
// have released it.
template <int Stages, int Blocks> __global__ void ring_of_multicasts(int iterations, const uint32_t* in, uint32_t* out) {
  using Config = RingOfMulticasts<Stages, Blocks>;
  auto& shared = dynamic_shared<typename Config::Storage>();
  const Ring<Stages> ring(shared.ring);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, rank = static_cast<int>(ptx::cluster_rank());
  if (thread == 0) ring.init(1, 32 * Blocks);
  ptx::cluster_sync();
  out += static_cast<size_t>(blockIdx.x) * static_cast<size_t>(iterations) * Config::words;
  typename Ring<Stages>::Position p;
  for (int k = 0; k < iterations; ++k, p.next()) {
    if (thread == 0) {
      ring.acquire_cluster(p);
      ring.expect(p, sizeof shared.stage[0]);
      ptx::cp_async_bulk_load_multicast(ptx::shared_address(shared.stage[p.stage] + rank * Config::part),
                                        in + k * Config::words + rank * Config::part, Config::part * 4, ring.full_barrier(p),
                                        (1 << Blocks) - 1);
    } else if (thread >= 32) {
      ring.wait(p);
      for (int i = lane; i < Config::words; i += 32)
        out[k * Config::words + i] = shared.stage[p.stage][Config::words - 1 - i];
      for (uint32_t to = 0; to < Blocks; ++to) ring.release_in(to, p);
    }
  }
  __syncwarp();
  ptx::cluster_sync();  // others still reach this block's barriers and stages
}

// Says what is wrong, nothing if all is right.
inline std::string compare_words(const std::string& what, const DeviceBuffer& out, const std::vector<uint32_t>& expected) {
  std::vector<uint32_t> got(expected.size());
  out.download(got.data());
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != expected[i])
      return what + ": word " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " + std::to_string(expected[i]);
  const Status guards = out.check_guards(what);
  return guards ? "" : guards.message;
}

// `wait` is called between the launch and the comparison.
template <int Stages, class Wait> std::string run_ring_of_stores(int iterations, unsigned blocks, const Wait& wait) {
  using Config = RingOfStores<Stages>;
  const std::string what =
      "ring of " + std::to_string(Stages) + " stages, filled by stores, " + std::to_string(iterations) + " iterations";
  std::vector<uint32_t> expected;
  for (uint32_t block = 0; block < blocks; ++block)
    for (int k = 0; k < iterations; ++k)
      for (int i = 0; i < Config::words; ++i)
        expected.push_back(block * 1000000 + static_cast<uint32_t>(k * 1000 + Config::words - 1 - i));
  DeviceBuffer out(expected.size() * 4);
  const Status status = launch(&ring_of_stores<Stages>, dim3(blocks), dim3(Config::threads),
                               sizeof(typename Config::Storage), nullptr, iterations, out.as<uint32_t>());
  if (!status) return what + ": " + status.message;
  wait(what);
  return compare_words(what, out, expected);
}

template <int Stages, int Blocks, class Wait>
std::string run_ring_of_multicasts(int iterations, unsigned clusters, const Wait& wait) {
  using Config = RingOfMulticasts<Stages, Blocks>;
  const std::string what = "ring of " + std::to_string(Stages) + " stages, filled by " + std::to_string(Blocks) +
                           " blocks, " + std::to_string(iterations) + " iterations";
  std::vector<uint32_t> source(static_cast<size_t>(iterations * Config::words)), expected;
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint32_t>(i * 7 + 1);
  for (unsigned block = 0; block < clusters * Blocks; ++block)
    for (int k = 0; k < iterations; ++k)
      for (int i = 0; i < Config::words; ++i)
        expected.push_back(source[static_cast<size_t>((k + 1) * Config::words - 1 - i)]);
  DeviceBuffer in(source.size() * 4), out(expected.size() * 4);
  in.upload(source.data());
  const Status status =
      launch(&ring_of_multicasts<Stages, Blocks>,
             LaunchShape{dim3(clusters * Blocks), dim3(Config::threads), sizeof(typename Config::Storage), Blocks}, nullptr,
             iterations, in.as<uint32_t>(), out.as<uint32_t>());
  if (!status) return what + ": " + status.message;
  wait(what);
  return compare_words(what, out, expected);
}

// Every ring, 1 to 2 stages + 1 iterations: what is wrong first, nothing if all is right. `each` is called before every run.
template <class Each, class Wait> std::string run_rings(const Each& each, const Wait& wait) {
  std::string wrong;
  const auto of_stages = [&]<int Stages>(std::integral_constant<int, Stages>) {
    for (int iterations = 1; iterations <= 2 * Stages + 1 && wrong.empty(); ++iterations) {
      each(), wrong = run_ring_of_stores<Stages>(iterations, 2, wait);
      if (wrong.empty()) each(), wrong = run_ring_of_multicasts<Stages, 2>(iterations, 2, wait);
      if (wrong.empty()) each(), wrong = run_ring_of_multicasts<Stages, 4>(iterations, 1, wait);
    }
  };
  of_stages(std::integral_constant<int, 1>{}), of_stages(std::integral_constant<int, 2>{});
  of_stages(std::integral_constant<int, 3>{}), of_stages(std::integral_constant<int, 6>{});
  return wrong;
}

}  // namespace grout::test
