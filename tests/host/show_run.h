// Running the show tool in the test's own process, and reading its JSON.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "common/show/show.h"

namespace grout::show {

struct Result {
  int code;
  std::string out, err;
};
inline Result show(std::vector<const char*> words) {
  words.insert(words.begin(), "show");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run(static_cast<int>(words.size()), words.data());
  std::cout.flush();
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

// ---- a JSON reader ----

struct Json {
  std::variant<std::nullptr_t, bool, int64_t, std::string, std::vector<Json>, std::map<std::string, Json>> value;
  int64_t integer() const { return std::get<int64_t>(value); }
  const std::string& string() const { return std::get<std::string>(value); }
  const std::vector<Json>& list() const { return std::get<std::vector<Json>>(value); }
  const Json& operator[](const char* key) const { return std::get<std::map<std::string, Json>>(value).at(key); }
  const Json& operator[](size_t i) const { return list().at(i); }
  bool has(const char* key) const { return std::get<std::map<std::string, Json>>(value).count(key) == 1; }
};
class JsonReader {
 public:
  explicit JsonReader(const std::string& text) : text_(text) {}
  Json all() {
    Json json = read();
    blank();
    if (at_ != text_.size()) throw std::runtime_error("text behind the JSON value");
    return json;
  }

 private:
  void blank() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  char peek() {
    blank();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void take(char c) {
    if (peek() != c) throw std::runtime_error(std::string("expected ") + c + " at " + std::to_string(at_));
    ++at_;
  }
  bool take_word(const std::string& word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  std::string read_string() {
    take('"');
    const size_t end = text_.find('"', at_);
    if (end == std::string::npos) throw std::runtime_error("open string");
    const std::string s = text_.substr(at_, end - at_);
    at_ = end + 1;
    return s;
  }
  Json read() {
    switch (peek()) {
      case '{': {
        std::map<std::string, Json> members;
        take('{');
        while (peek() != '}') {
          if (!members.empty()) take(',');
          blank();
          const std::string key = read_string();
          take(':');
          if (!members.emplace(key, read()).second) throw std::runtime_error("member twice: " + key);
        }
        take('}');
        return {members};
      }
      case '[': {
        std::vector<Json> items;
        take('[');
        while (peek() != ']') {
          if (!items.empty()) take(',');
          items.push_back(read());
        }
        take(']');
        return {items};
      }
      case '"':
        return {read_string()};
      case 't':
      case 'f': {
        const bool yes = take_word("true");
        if (!yes && !take_word("false")) throw std::runtime_error("neither true nor false");
        return {yes};
      }
      default: {
        size_t used = 0;
        const int64_t number = std::stoll(text_.substr(at_, 24), &used);
        at_ += used;
        return {number};
      }
    }
  }
  const std::string& text_;
  size_t at_ = 0;
};
inline Json json_of(std::vector<const char*> words) {
  words.push_back("--json");
  const Result r = show(words);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  return JsonReader(r.out).all();
}
inline std::vector<std::string> strings(const Json& json) {
  std::vector<std::string> list;
  for (const Json& item : json.list()) list.push_back(item.string());
  return list;
}
inline std::vector<int64_t> integers(const Json& json) {
  std::vector<int64_t> list;
  for (const Json& item : json.list()) list.push_back(item.integer());
  return list;
}
using Names = std::vector<std::string>;
using Integers = std::vector<int64_t>;

}  // namespace grout::show
