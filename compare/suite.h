// What can be compared: the cases of a suite, and how each is built from its description, afresh or as it was recorded.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "compare/record.h"

namespace grout::compare {

struct Work;

struct Suite {
  std::string name;
  std::vector<Case> cases;  // without samples
  // Allocates, fills and prepares. Afresh: the suite's own policies. With `recorded`: one policy for each of those samples, with
  // its settings, `requested`, and nothing chosen; one that cannot be built so has its failure set.
  std::function<Work(const Case&, const std::vector<Sample>* recorded)> build;
};

Suite gemm_suite();
Suite attention_suite();
Suite copy_suite();
Suite self_suite();

inline const std::string* find(const Settings& settings, std::string_view name) {
  for (const auto& [key, value] : settings)
    if (key == name) return &value;
  return nullptr;
}
inline const std::string& setting(const Settings& settings, std::string_view name) {
  if (const std::string* value = find(settings, name)) return *value;
  throw std::runtime_error("the setting '" + std::string(name) + "' is missing");
}
inline int64_t number(const Settings& settings, std::string_view name) {
  const std::string& text = setting(settings, name);
  size_t used = 0;
  int64_t value = 0;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size()) throw std::runtime_error("the setting '" + std::string(name) + "' is '" + text + "', not an integer");
  return value;
}

}  // namespace grout::compare
