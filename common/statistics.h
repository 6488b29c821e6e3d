// The arithmetic of paired timing. Plain C++, tested with synthetic times. For programs and tests only.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace grout {

// The mean of the two middle values where the count is even. NaN for none.
inline double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

struct Ratio {
  double median, low, high;
};
// How much faster `candidate` is than `base`: median and range of base / candidate, round by round. A range is what was seen,
// not a confidence interval.
inline Ratio paired_ratio(const std::vector<double>& base, const std::vector<double>& candidate) {
  if (base.size() != candidate.size() || base.empty())
    throw std::invalid_argument("paired_ratio: " + std::to_string(base.size()) + " and " +
                                std::to_string(candidate.size()) + " rounds: equal, non-zero counts are needed");
  std::vector<double> ratios;
  for (size_t i = 0; i < base.size(); ++i) ratios.push_back(base[i] / candidate[i]);
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  return {median(ratios), *low, *high};
}

// The order in which `entries` entries are visited in a turn: A B, B A, A B, ...; of more than two, the rows of a Williams square.
// Over `entries` turns each stands in each place once, so that a drift that is linear in time favours none; over twice as many each
// comes directly behind each other one equally often, so that what a hot one leaves behind favours none either.
inline std::vector<size_t> visiting_order(size_t entries, int turn) {
  const auto row = static_cast<size_t>(turn);
  std::vector<size_t> order(entries);
  for (size_t i = 0; i < entries; ++i) order[i] = ((i % 2 ? (i + 1) / 2 : entries - i / 2) + row) % entries;
  if (entries % 2 == 1 && row / entries % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

// How `tiles` tiles fill a device that holds `resident` of them at once.
struct Waves {
  double waves = 0, last_fill = 0;  // last_fill: 0 for no tiles, else above 0 up to 1
};
inline Waves waves(int64_t tiles, int64_t resident) {
  if (tiles <= 0 || resident <= 0) return {};
  return {static_cast<double>(tiles) / static_cast<double>(resident),
          static_cast<double>((tiles - 1) % resident + 1) / static_cast<double>(resident)};
}

}  // namespace grout
