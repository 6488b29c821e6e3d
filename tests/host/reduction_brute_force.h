// Reduction plans and slot maps against what their words say, executed on the ownership's table with sets of coordinates: at()
// is called afresh for every look-up, and nothing of the plans' own search is used.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "common/ownership_algebra.cuh"

namespace grout::test {

using Key = std::vector<int>;  // a coordinate

template <class O> Key key(int thread, int slot) {
  const auto c = O::at(thread, slot);
  return Key(c.value, c.value + O::axes);
}
template <class O, int Axis> Key row(int thread, int slot) {
  Key k = key<O>(thread, slot);
  k[Axis] = 0;
  return k;
}
template <class O, int Axis> std::vector<Key> all_of_row(Key k) {
  std::vector<Key> all;
  for (int i = 0; i < O::shape[Axis]; ++i) {
    k[Axis] = i;
    all.push_back(k);
  }
  return all;
}

// The table, looked up once for the tests that walk it often.
template <class O, int Axis> struct Table {
  std::vector<std::vector<Key>> keys, rows;
  Table() {
    for (int t = 0; t < O::threads; ++t) {
      keys.emplace_back(), rows.emplace_back();
      for (int s = 0; s < O::slots; ++s) keys.back().push_back(key<O>(t, s)), rows.back().push_back(row<O, Axis>(t, s));
    }
  }
  bool outside() const {
    for (const auto& slots : keys)
      for (const Key& k : slots)
        for (int a = 0; a < O::axes; ++a)
          if (k[static_cast<size_t>(a)] < 0 || k[static_cast<size_t>(a)] >= O::shape[a]) return true;
    return false;
  }
  // Are two threads' slots grouped differently into rows, or into copies?
  bool slots_differ() const {
    for (size_t t = 1; t < keys.size(); ++t)
      for (size_t a = 0; a < keys[0].size(); ++a)
        for (size_t b = 0; b < a; ++b)
          if ((rows[t][a] == rows[t][b]) != (rows[0][a] == rows[0][b]) || (keys[t][a] == keys[t][b]) != (keys[0][a] == keys[0][b]))
            return true;
    return false;
  }
  std::set<Key> held(size_t begin, size_t end) const {
    std::set<Key> all;
    for (size_t t = begin; t < std::min(end, keys.size()); ++t) all.insert(keys[t].begin(), keys[t].end());
    return all;
  }
  std::set<Key> rows_of(size_t begin, size_t end) const {
    std::set<Key> all;
    for (size_t t = begin; t < std::min(end, rows.size()); ++t) all.insert(rows[t].begin(), rows[t].end());
    return all;
  }
  // Does some set of lane bits bring every thread every value of its rows, each once? Of copies in a thread one is taken.
  bool plan_exists() const {
    std::vector<size_t> firsts, taken;  // of each group one slot; of each value one
    for (size_t s = 0; s < keys[0].size(); ++s) {
      if (std::find(rows[0].begin(), rows[0].begin() + static_cast<long>(s), rows[0][s]) == rows[0].begin() + static_cast<long>(s))
        firsts.push_back(s);
      if (std::find(keys[0].begin(), keys[0].begin() + static_cast<long>(s), keys[0][s]) == keys[0].begin() + static_cast<long>(s))
        taken.push_back(s);
    }
    for (unsigned bits = 0; bits < 32; ++bits) {
      bool good = true;
      for (size_t t = 0; t < keys.size() && good; ++t) {
        for (const size_t first : firsts) {
          std::vector<Key> combined;
          for (unsigned lanes = 0; lanes < 32 && good; ++lanes) {
            if (lanes & ~bits) continue;
            const size_t other = t ^ lanes;
            good &= other < keys.size() && rows[other][first] == rows[t][first];
            for (const size_t s : taken)
              if (good && rows[0][s] == rows[0][first]) combined.push_back(keys[other][s]);
            good &= combined.size() <= static_cast<size_t>(O::shape[Axis]);
          }
          std::sort(combined.begin(), combined.end());
          good = good && combined == all_of_row<O, Axis>(rows[t][first]);
          if (!good) break;
        }
      }
      if (good) return true;
    }
    return false;
  }
};

// The plan brings each thread, for each of its rows, exactly the row; what is left is as Reduced and SlotsReduced say.
template <class O, int Axis> void expect_plan_combines() {
  static constexpr auto plan = reduction_plan<O, Axis>();
  using Whole = Reduced<O, Axis>;
  using Part = SlotsReduced<O, Axis>;
  const Table<O, Axis> table;
  ASSERT_EQ(plan.problem, ReductionProblem::none);
  static_assert(Whole::slots == plan.results && Part::slots == plan.results && Whole::threads == O::threads &&
                Part::threads == O::threads && Whole::axes == O::axes && Part::axes == O::axes);
  for (int a = 0; a < O::axes; ++a) {
    EXPECT_EQ(Whole::shape[a], a == Axis ? 1 : O::shape[a]);
    EXPECT_EQ(Part::shape[a], a == Axis ? 1 << plan.lane_bits : O::shape[a]);
  }
  std::vector<std::vector<std::vector<Key>>> sums(O::threads, std::vector<std::vector<Key>>(plan.results));
  for (size_t t = 0; t < sums.size(); ++t)
    for (int r = 0; r < plan.results; ++r)
      for (int i = plan.first[r]; i < plan.first[r + 1]; ++i)
        sums[t][static_cast<size_t>(r)].push_back(table.keys[t][static_cast<size_t>(plan.slot[i])]);
  const auto parts = sums;
  for (int b = 0; b < plan.lane_bits; ++b) {
    const auto before = sums;
    for (size_t t = 0; t < sums.size(); ++t) {
      const size_t other = t ^ static_cast<size_t>(plan.lane_bit[b]);
      ASSERT_LT(other, sums.size());
      ASSERT_EQ(other / 32, t / 32);
      for (size_t r = 0; r < sums[t].size(); ++r)
        sums[t][r].insert(sums[t][r].end(), before[other][r].begin(), before[other][r].end());
    }
  }
  std::map<Key, std::vector<Key>> part_of;  // what SlotsReduced's coordinate stands for
  for (size_t t = 0; t < sums.size(); ++t) {
    std::set<Key> results;
    for (size_t r = 0; r < sums[t].size(); ++r) {
      std::vector<Key> got = sums[t][r], part = parts[t][r];
      std::sort(got.begin(), got.end());
      std::sort(part.begin(), part.end());
      const Key whole = key<Whole>(static_cast<int>(t), static_cast<int>(r)), at = key<Part>(static_cast<int>(t), static_cast<int>(r));
      ASSERT_EQ(got, (all_of_row<O, Axis>(whole))) << "thread " << t << ", result " << r;
      EXPECT_EQ(whole[Axis], 0);
      EXPECT_TRUE(at[Axis] >= 0 && at[Axis] < Part::shape[Axis]);
      const auto [known, fresh] = part_of.emplace(at, part);
      ASSERT_EQ(known->second, part) << "thread " << t << ": another part of the row under one coordinate";
      Key without = at;
      without[Axis] = 0;
      EXPECT_EQ(without, whole);
      EXPECT_TRUE(results.insert(whole).second) << "thread " << t << " has a result twice";
    }
    for (const Key& row : table.rows[t]) ASSERT_EQ(results.count(row), 1u) << "thread " << t << " holds values of a row without its result";
  }
  std::map<Key, std::vector<Key>> rows;  // the parts are the row, each value once
  for (const auto& [at, part] : part_of) {
    Key without = at;
    without[Axis] = 0;
    rows[without].insert(rows[without].end(), part.begin(), part.end());
  }
  for (auto& [row, values] : rows) {
    std::sort(values.begin(), values.end());
    ASSERT_EQ(values, (all_of_row<O, Axis>(row)));
  }
}

// The plan, or the reason why there is none.
template <class O, int Axis> void expect_reduction(ReductionProblem expected) {
  static constexpr auto plan = reduction_plan<O, Axis>();
  ASSERT_EQ(plan.problem, expected);
  if constexpr (plan.problem == ReductionProblem::none) {
    expect_plan_combines<O, Axis>();
  } else {
    const Table<O, Axis> table;
    const auto threads = static_cast<size_t>(O::threads);
    bool misses_a_held = false, misses = false, named = false;  // some warp lacks a value of its rows: held elsewhere, at all
    if (!table.outside()) {
      const std::set<Key> all = table.held(0, threads);
      for (size_t begin = 0; begin < threads; begin += 32) {
        const std::set<Key> here = table.held(begin, begin + 32);
        for (const Key& row : table.rows_of(begin, begin + 32)) {
          for (const Key& value : all_of_row<O, Axis>(row)) {
            if (here.count(value)) continue;
            misses = true;
            misses_a_held |= all.count(value);
            const size_t other = static_cast<size_t>(plan.warps[1]) * 32;
            named |= begin == static_cast<size_t>(plan.warps[0]) * 32 && table.held(other, other + 32).count(value);
          }
        }
      }
      EXPECT_FALSE(!table.slots_differ() && table.plan_exists());
    }
    switch (plan.problem) {
      case ReductionProblem::outside:
        EXPECT_TRUE(table.outside());
        break;
      case ReductionProblem::slots_differ:
        EXPECT_TRUE(!table.outside() && table.slots_differ());
        break;
      case ReductionProblem::not_held:
        EXPECT_TRUE(misses);
        break;
      case ReductionProblem::spans_warps:
        EXPECT_TRUE(misses_a_held && named) << "warps " << plan.warps[0] << " and " << plan.warps[1];
        break;
      default:
        EXPECT_FALSE(table.outside() || table.slots_differ() || misses);
    }
  }
}

// A slot map, and where there is none, that some slot of To has no slot in From that holds its coordinate in every thread.
template <class To, class From> void expect_slot_map(bool expected) {
  constexpr auto map = slot_map<To, From>();
  ASSERT_EQ(map.exists, expected);
  bool shapes_fit = To::axes == From::axes && To::threads == From::threads, all_found = true;
  if constexpr (To::axes == From::axes) {
    for (int a = 0; a < To::axes; ++a) shapes_fit &= From::shape[a] == To::shape[a] || From::shape[a] == 1;
    const auto same = [](int thread, int to, int from) {
      for (int a = 0; a < To::axes; ++a) {
        const int wanted = From::shape[a] == To::shape[a] ? To::at(thread, to)[a] : 0;
        if (From::at(thread, from)[a] != wanted) return false;
      }
      return true;
    };
    for (int to = 0; to < To::slots && shapes_fit; ++to) {
      std::set<int> fitting;
      for (int from = 0; from < From::slots; ++from) {
        bool fits = true;
        for (int thread = 0; thread < To::threads && fits; ++thread) fits = same(thread, to, from);
        if (fits) fitting.insert(from);
      }
      all_found &= !fitting.empty();
      if (expected) {
        EXPECT_EQ(fitting.count(map.slot[to]), 1u) << "slot " << to;
      }
    }
  }
  EXPECT_EQ(shapes_fit && all_found, expected);
}

}  // namespace grout::test
