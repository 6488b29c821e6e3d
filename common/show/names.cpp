// The parts that names are made of.
#include <charconv>
#include <sstream>

#include "common/show/show.h"

namespace grout::show {

std::vector<std::string> parts_of(const std::string& name) {
  std::istringstream in(name);
  std::vector<std::string> parts;
  for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
  if (name.ends_with('.')) parts.emplace_back();
  return parts;
}

bool parse_number(const std::string& part, int& value) {
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  return error == std::errc() && end == part.data() + part.size() && value > 0;
}

bool parse_extents(const std::string& part, int& rows, int& columns) {
  const size_t x = part.find('x');
  return x != std::string::npos && parse_number(part.substr(0, x), rows) && parse_number(part.substr(x + 1), columns);
}

bool parse_type(const std::string& part, ElementType& type) {
  for (const ElementType known : {ElementType::bf16, ElementType::f16, ElementType::f32}) {
    if (part == element_name(known)) {
      type = known;
      return true;
    }
  }
  return false;
}

}  // namespace grout::show
