// Which thread runs next: the set of ready threads, one bit each, and the five orders to take them in.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "common/sim/sim.h"

namespace grout::sim {

/// splitmix64
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  unsigned below(unsigned limit) { return unsigned((next() >> 32) * limit >> 32); }

 private:
  std::uint64_t state_;
};

class ReadySet {
 public:
  struct Place {
    unsigned warp, lane;
  };

  void reset(unsigned warps, Schedule schedule, std::uint64_t seed) {
    schedule_ = schedule;
    random_ = Random(seed);
    rank_of_.resize(warps);
    std::iota(rank_of_.begin(), rank_of_.end(), 0u);
    rotation_ = 0;
    if (schedule == Schedule::warp_greedy) {
      for (unsigned i = warps; i > 1; --i) std::swap(rank_of_[i - 1], rank_of_[random_.below(i)]);
      rotation_ = random_.below(32);
    }
    ranks_.assign(warps, {});
    for (unsigned warp = 0; warp < warps; ++warp) ranks_[rank_of_[warp]].warp = warp;
    occupied_.assign((warps + 63) / 64, 0);
    current_ = 0;
  }

  void add(unsigned warp, std::uint32_t lanes) {
    if (!lanes) return;
    const unsigned rank = rank_of_[warp];
    ranks_[rank].lanes |= lanes;
    occupied_[rank / 64] |= std::uint64_t(1) << rank % 64;
  }

  /// Removes the next thread; false if there is none.
  bool take(Place& place) {
    const int first = pick_rank();
    if (first < 0) return false;
    const unsigned rank = unsigned(first);
    Rank& r = ranks_[rank];
    const unsigned lane = pick_lane(r);
    current_ = rank;
    r.last = lane;
    r.lanes &= ~(1u << lane);
    if (!r.lanes) occupied_[rank / 64] &= ~(std::uint64_t(1) << rank % 64);
    place = {r.warp, lane};
    return true;
  }

 private:
  struct Rank {
    std::uint32_t lanes = 0;
    unsigned warp = 0, last = 31;
  };

  int pick_rank() {
    switch (schedule_) {
      case Schedule::ascending:
        return first_from(0);
      case Schedule::descending:
        return last();
      case Schedule::random:
        return cyclic_from(random_.below(unsigned(ranks_.size())));
      case Schedule::warp_greedy:
        return ranks_[current_].lanes ? int(current_) : first_from(0);
      case Schedule::round_robin:
        return cyclic_from(current_ + 1);
    }
    return -1;
  }

  unsigned pick_lane(const Rank& rank) {
    const auto from = [&](unsigned start) {
      return (start + unsigned(std::countr_zero(std::rotr(rank.lanes, int(start & 31))))) & 31;
    };
    switch (schedule_) {
      case Schedule::ascending:
        return from(0);
      case Schedule::descending:
        return 31 - unsigned(std::countl_zero(rank.lanes));
      case Schedule::random:
        return from(random_.below(32));
      case Schedule::warp_greedy:
        return from(rotation_);
      case Schedule::round_robin:
        return from(rank.last + 1);
    }
    return 0;
  }

  int first_from(unsigned rank) const {
    if (rank >= ranks_.size()) return -1;
    std::uint64_t word = occupied_[rank / 64] >> rank % 64 << rank % 64;
    for (std::size_t i = rank / 64;;) {
      if (word) return int(i * 64) + std::countr_zero(word);
      if (++i == occupied_.size()) return -1;
      word = occupied_[i];
    }
  }
  int cyclic_from(unsigned rank) const {
    const int found = first_from(rank);
    return found >= 0 ? found : first_from(0);
  }
  int last() const {
    for (std::size_t i = occupied_.size(); i-- > 0;) {
      if (occupied_[i]) return int(i * 64) + 63 - std::countl_zero(occupied_[i]);
    }
    return -1;
  }

  Schedule schedule_ = Schedule::ascending;
  Random random_{1};
  std::vector<Rank> ranks_;              // warps in the order of preference
  std::vector<unsigned> rank_of_;        // warp -> its place in ranks_
  std::vector<std::uint64_t> occupied_;  // a bit for each rank with a ready lane
  unsigned current_ = 0, rotation_ = 0;
};

/// The order of `count` blocks under a schedule: a bijection of 0..count-1.
class BlockOrder {
 public:
  BlockOrder(std::uint64_t count, Schedule schedule, std::uint64_t seed) : count_(count) {
    if (schedule == Schedule::descending) {
      start_ = count - 1;
      step_ = count - 1;
    } else if (schedule == Schedule::random && count > 1) {
      Random random(seed);
      start_ = random.next() % count;
      for (step_ = 1 + random.next() % (count - 1); std::gcd(step_, count) != 1; step_ = step_ % (count - 1) + 1) {
      }
    }
  }
  std::uint64_t operator[](std::uint64_t i) const {
    return std::uint64_t((static_cast<unsigned __int128>(i) * step_ + start_) % count_);
  }

 private:
  std::uint64_t count_, start_ = 0, step_ = 1;
};

}  // namespace grout::sim
