// Seeded cases: every value of every factor equally often, in random company, and proof that it was.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace grout::test {

// Deals 0..n-1 in shuffled rounds, so that all values occur equally often.
class Deck {
 public:
  Deck(int values, std::mt19937_64& random) : values_(values), random_(random) {}
  int deal() {
    if (hand_.empty()) {
      for (int i = 0; i < values_; ++i) hand_.push_back(i);
      std::shuffle(hand_.begin(), hand_.end(), random_);
    }
    const int value = hand_.back();
    hand_.pop_back();
    return value;
  }

 private:
  int values_;
  std::mt19937_64& random_;
  std::vector<int> hand_;
};

// Counts how often each value of each factor was used, and tells which expected ones were not.
class FactorCounts {
 public:
  template <class T> void expect(const std::string& factor, const std::vector<T>& values) {
    for (const T& v : values) counts_[factor][text(v)] += 0;
  }
  template <class T> void count(const std::string& factor, const T& value) { ++counts_[factor][text(value)]; }
  // The values that never occurred, empty if none.
  std::string missing() const {
    std::string all;
    for (const auto& [factor, values] : counts_)
      for (const auto& [value, times] : values)
        if (times == 0) all += factor + "=" + value + " ";
    return all;
  }
  void print() const {
    for (const auto& [factor, values] : counts_) {
      std::printf("  %s:", factor.c_str());
      for (const auto& [value, times] : values) std::printf(" %s x%d", value.c_str(), times);
      std::printf("\n");
    }
  }

 private:
  static std::string text(const std::string& value) { return value; }
  static std::string text(const char* value) { return value; }
  static std::string text(int64_t value) { return std::to_string(value); }
  static std::string text(int value) { return std::to_string(value); }
  static std::string text(float value) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%g", value);
    return buffer;
  }
  std::map<std::string, std::map<std::string, int>> counts_;
};

}  // namespace grout::test
