// The show tool: its JSON against the formulas of the instruction set written out here and against what the simulated device
// does, its text by example, its SVG for
// being well formed and self-contained. The tool's parts are linked, so that no path must be known.
#include "common/show/show.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <variant>

#include "common/copy.cuh"
#include "tests/kernels/tensor_load.cuh"

namespace grout::show {
namespace {

// ---- running it ----

struct Result {
  int code;
  std::string out, err;
};
Result show(std::vector<const char*> words) {
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
Json json_of(std::vector<const char*> words) {
  words.push_back("--json");
  const Result r = show(words);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  return JsonReader(r.out).all();
}
std::vector<std::string> strings(const Json& json) {
  std::vector<std::string> list;
  for (const Json& item : json.list()) list.push_back(item.string());
  return list;
}
std::vector<int64_t> integers(const Json& json) {
  std::vector<int64_t> list;
  for (const Json& item : json.list()) list.push_back(item.integer());
  return list;
}
using Names = std::vector<std::string>;
using Integers = std::vector<int64_t>;

// A table of `rows` x `columns` coordinates, each as `at(i, j)` says.
template <class At>
void expect_table(const char* name, const Names& index, const Names& coord, size_t rows, size_t columns, At at) {
  const Json json = json_of({name});
  EXPECT_EQ(json["name"].string(), name);
  EXPECT_EQ(strings(json["index"]), index);
  EXPECT_EQ(strings(json["coord"]), coord);
  ASSERT_EQ(json["table"].list().size(), rows);
  for (size_t i = 0; i < rows; ++i) {
    ASSERT_EQ(json["table"][i].list().size(), columns);
    for (size_t j = 0; j < columns; ++j)
      ASSERT_EQ(integers(json["table"][i][j]), at(static_cast<int64_t>(i), static_cast<int64_t>(j)))
          << name << " [" << i << "][" << j << "]";
  }
}

// ---- JSON ----

TEST(ShowJson, Mma) {  // PTX ISA: groupID = lane >> 2, threadID_in_group = lane % 4
  expect_table("mma.m16n8k16.a", {"lane", "element"}, {"m", "k"}, 32, 8, [](int64_t lane, int64_t i) {
    const bool upper = i < 2 || (i >= 4 && i < 6);
    return Integers{(lane >> 2) + (upper ? 0 : 8), (lane % 4) * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
  });
  expect_table("mma.m16n8k16.b", {"lane", "element"}, {"k", "n"}, 32, 4, [](int64_t lane, int64_t i) {
    return Integers{(lane % 4) * 2 + (i & 1) + (i >= 2 ? 8 : 0), lane >> 2};
  });
  expect_table("mma.m16n8k16.c", {"lane", "element"}, {"m", "n"}, 32, 4, [](int64_t lane, int64_t i) {
    return Integers{(lane >> 2) + (i >= 2 ? 8 : 0), (lane % 4) * 2 + (i & 1)};
  });
}
TEST(ShowJson, Ldmatrix) {  // row lane / 4, elements 2 (lane % 4) and the next; half 2r + h of matrix r
  for (const int count : {1, 2, 4}) {
    const std::string name = "ldmatrix.x" + std::to_string(count);
    const auto halves = static_cast<size_t>(2 * count);
    expect_table(name.c_str(), {"lane", "half"}, {"matrix", "row", "col"}, 32, halves, [](int64_t lane, int64_t s) {
      return Integers{s / 2, lane / 4, lane % 4 * 2 + s % 2};
    });
    expect_table((name + ".trans").c_str(), {"lane", "half"}, {"matrix", "row", "col"}, 32, halves,
                 [](int64_t lane, int64_t s) {
                   return Integers{s / 2, lane % 4 * 2 + s % 2, lane / 4};
                 });
  }
}
TEST(ShowJson, Swizzles) {  // bits 4 and up of the byte address XOR bits 7 and up
  for (const int64_t span : {32, 64, 128}) {
    const std::string name = "swizzle." + std::to_string(span) + "B";
    expect_table(name.c_str(), {"row", "chunk"}, {"chunk"}, 8, static_cast<size_t>(span / 16),
                 [&](int64_t row, int64_t chunk) {
                   const int64_t byte = row * span + chunk * 16, line = byte >> 7, mask = span / 16 - 1;
                   return Integers{chunk ^ (line & mask)};
                 });
  }
}
TEST(ShowJson, GemmTiles) {
  for (const auto& [extent, depth] : {std::pair<int64_t, int64_t>{64, 32}, {128, 32}, {128, 64}, {256, 64}}) {
    const std::string end = "." + std::to_string(extent) + "x" + std::to_string(depth);
    for (const auto& [operand, mn] : {std::pair{"a", "m"}, std::pair{"b", "n"}}) {
      if (extent == 256 && *operand == 'a') continue;  // no kernel has it
      const std::string head = std::string("gemm.") + operand + ".";
      expect_table((head + "k-major" + end).c_str(), {mn, "k chunk"}, {"byte", "bank column"},
                   static_cast<size_t>(extent), static_cast<size_t>(depth / 8),
                   [&, depth = depth](int64_t row, int64_t chunk) {  // the chunk XOR the number of the 128-byte line
                     const int64_t line = 2 * depth * row / 128,
                                   byte = 2 * depth * row + 16 * (chunk ^ (line % (depth / 8)));
                     return Integers{byte, byte / 16 % 8};
                   });
      expect_table((head + mn + "-major" + end).c_str(), {"k", std::string(mn) + " chunk"}, {"byte", "bank column"},
                   static_cast<size_t>(depth), static_cast<size_t>(extent / 8),
                   [&, extent = extent](int64_t k, int64_t chunk) {  // columns of whole lines; the chunk XOR k
                     const int64_t byte = 2 * extent * k + 16 * (chunk ^ (k % 8));
                     return Integers{byte, byte / 16 % 8};
                   });
    }
  }
  EXPECT_EQ(json_of({"gemm.a.k-major"})["table"].list().size(), 128u);  // without extents: 128x64
}

// The JSON of a copy against the plan that a kernel would use.
template <class Plan, class T, class L>
void expect_copy(const std::vector<const char*>& words, const View<T, L>& source, Origin origin) {
  using Ownership = typename Plan::Ownership;
  const Json json = json_of(words);
  EXPECT_EQ(strings(json["index"]), (Names{"thread", "turn"}));
  EXPECT_EQ(strings(json["coord"]), (Names{"row", "col", "case", "first", "last"}));
  std::map<std::string, int64_t> totals = {{"async", 0}, {"realign", 0}, {"elements", 0}, {"zeros", 0}};
  for (int thread = 0; thread < Ownership::threads; ++thread) {
    size_t held = 0;
    for (int turn = 0; turn < Ownership::turns; ++turn) {
      if (!Ownership::is_inside(thread, turn)) continue;
      ++held;
      const auto c = Ownership::vector_at(thread, turn);
      const VectorDecision d = decide_vector(Plan{}, source, origin.row + c[0], origin.col + c[1]);
      const char* kind = d.kind == VectorCase::async     ? "async"
                         : d.kind == VectorCase::realign ? "realign"
                         : d.kind == VectorCase::zeros   ? "zeros"
                                                         : "elements";
      ++totals[kind];
      const Json& entry = json["table"][static_cast<size_t>(thread)][static_cast<size_t>(turn)];
      EXPECT_EQ(entry.list()[0].integer(), c[0]);
      EXPECT_EQ(entry.list()[1].integer(), c[1]);
      EXPECT_EQ(entry.list()[2].string(), kind);
      EXPECT_EQ(entry.list()[3].integer(), d.first);
      EXPECT_EQ(entry.list()[4].integer(), d.last);
    }
    if (held != 0) {
      EXPECT_EQ(json["table"][static_cast<size_t>(thread)].list().size(), held);
    }
  }
  for (const auto& [kind, times] : totals) EXPECT_EQ(json["totals"][kind.c_str()].integer(), times) << kind;
}
template <class T>
const T* aligned_address() {
  return reinterpret_cast<const T*>(uintptr_t{1} << 40);
}

TEST(ShowJson, CopiesAsThePlansDecide) {
  using Plain = CopyPlan<bf16, decltype(row_major(shape(64_c, 32_c))), 256>;
  const auto a = view(aligned_address<bf16>(), layout(shape(65, 73), stride(int64_t{73}, 1_c)));
  expect_copy<Plain>({"copy.64x32.bf16.t256", "--extents", "65,73", "--origin", "64,64"}, a, {64, 64});
  expect_copy<Plain>({"copy.64x32.bf16", "--extents", "65,73", "--origin", "-3,-5"}, a, {-3, -5});
  constexpr CopyOptions kBoth{.misaligned = Misaligned::realign, .partial = Partial::zero_fill};
  using Both = CopyPlan<f16, decltype(row_major(shape(16_c, 104_c))), 48, kBoth>;
  const auto b = view(aligned_address<f16>() + 3, layout(shape(20, 99), stride(int64_t{101}, 1_c)));
  expect_copy<Both>({"copy.16x104.f16.t48", "--extents", "20,99", "--ld=101", "--offset", "3", "--realign",
                     "--zero-fill", "--origin", "2,0"},
                    b, {2, 0});
  using Wide = CopyPlan<float, decltype(row_major(shape(2_c, 8_c))), 384>;
  const auto c = view(aligned_address<float>(), layout(shape(2, 8), stride(int64_t{8}, 1_c)));
  expect_copy<Wide>({"copy.2x8.f32.t384"}, c, {0, 0});
}
TEST(ShowJson, TheWorkedEdge) {
  const Json json = json_of({"copy.64x32.bf16.t256", "--extents", "65,73", "--origin", "64,64"});
  EXPECT_EQ(json["totals"]["async"].integer(), 1);
  EXPECT_EQ(json["totals"]["elements"].integer(), 1);
  EXPECT_EQ(json["totals"]["zeros"].integer(), 254);
  EXPECT_EQ(json["totals"]["realign"].integer(), 0);
  EXPECT_EQ(json["totals"]["scalar_loads"].integer(), 1);
  EXPECT_EQ(json["totals"]["zero_elements"].integer(), 7 + 254 * 8);
  EXPECT_EQ(integers(json["tile"]), (Integers{64, 32}));
  EXPECT_EQ(integers(json["extents"]), (Integers{65, 73}));
  EXPECT_EQ(integers(json["origin"]), (Integers{64, 64}));
  EXPECT_EQ(json["ld"].integer(), 73);
  EXPECT_EQ(json["offset"].integer(), 0);
  EXPECT_EQ(json["type"].string(), "bf16");
  EXPECT_EQ(json["threads"].integer(), 256);
  EXPECT_FALSE(std::get<bool>(json["realign"].value));
  EXPECT_FALSE(std::get<bool>(json["zero_fill"].value));
  const Json moved = json_of({"copy.64x32.bf16.t256", "--extents", "65,73", "--origin", "64,64", "--offset", "1"});
  EXPECT_EQ(moved["totals"]["async"].integer(), 0);
  EXPECT_EQ(moved["totals"]["scalar_loads"].integer(), 9);
}

TEST(ShowJson, Rings) {
  for (int64_t stages = 1; stages <= 16; ++stages) {
    const int64_t iterations = 4 * stages + 3;
    const std::string name = "ring." + std::to_string(stages), count = std::to_string(iterations);
    const Json json = json_of({name.c_str(), "--iterations", count.c_str()});
    EXPECT_EQ(json["name"].string(), name);
    EXPECT_EQ(json["stages"].integer(), stages);
    EXPECT_EQ(json["iterations"].integer(), iterations);
    EXPECT_EQ(strings(json["index"]), (Names{"iteration", "barrier"}));
    EXPECT_EQ(strings(json["coord"]), (Names{"stage", "parity", "before", "after", "at once", "event"}));
    ASSERT_EQ(json["table"].list().size(), static_cast<size_t>(iterations));
    const auto expect = [&](int64_t k, size_t barrier, int64_t parity, int64_t before, int64_t after, int64_t event) {
      const Json& entry = json["table"][static_cast<size_t>(k)][barrier];
      const auto where = name + ", iteration " + std::to_string(k) + (barrier ? ", full" : ", empty");
      ASSERT_EQ(entry.list().size(), 6u);
      EXPECT_EQ(entry.list()[0].integer(), k % stages) << where;
      EXPECT_EQ(entry[1].integer(), parity) << where;
      EXPECT_EQ(entry[2].integer(), before) << where;
      EXPECT_EQ(entry[3].integer(), after) << where;
      EXPECT_EQ(std::get<bool>(entry[4].value), event < 0) << where;
      EXPECT_EQ(entry[5].integer(), event) << where;
    };
    for (int64_t k = 0; k < iterations; ++k) {
      ASSERT_EQ(json["table"][static_cast<size_t>(k)].list().size(), 2u);
      const int64_t round =
          k / stages;  // the producer waits for phase round - 1 of empty, the consumer for phase round of full
      expect(k, 0, (round + 1) % 2, std::max<int64_t>(round - 1, 0), round, round == 0 ? -1 : k - stages);
      expect(k, 1, round % 2, round, round + 1, k);
    }
    // Each barrier's phases follow one another, and the parities waited for alternate.
    for (int64_t k = stages; k < iterations; ++k) {
      for (const size_t barrier : {0u, 1u}) {
        const Json &now = json["table"][static_cast<size_t>(k)][barrier],
                   &before = json["table"][static_cast<size_t>(k - stages)][barrier];
        EXPECT_EQ(now[2].integer(), before[3].integer());
        EXPECT_EQ(now[1].integer(), 1 - before[1].integer());
      }
    }
  }
  EXPECT_EQ(json_of({"ring.5"})["table"].list().size(), 11u);  // two rounds and one
  EXPECT_EQ(json_of({"ring.2", "--iterations", "1"})["table"].list().size(), 1u);
}

// A box by its formula: the chunk's bits XOR those of its 128-byte line.
TEST(ShowJson, Boxes) {
  for (const char* type : {"bf16", "f16", "f32"}) {
    for (const int64_t span : {0, 32, 64, 128}) {
      for (const int64_t row_bytes : {16, 32, 64, 128, 256, 512}) {
        if (span != 0 && row_bytes != span) continue;
        for (const int64_t rows : {1, 2, 7, 8, 9, 64}) {
          const int64_t columns = row_bytes / (std::string(type) == "f32" ? 4 : 2), chunks = row_bytes / 16;
          const std::string swizzle = span ? std::to_string(span) + "B" : "none";
          const std::string name =
              "box." + std::to_string(rows) + "x" + std::to_string(columns) + "." + type + "." + swizzle;
          const Json json = json_of({name.c_str()});
          SCOPED_TRACE(name);
          EXPECT_EQ(strings(json["index"]), (Names{"row", "chunk"}));
          EXPECT_EQ(strings(json["coord"]), (Names{"line", "bank column", "byte"}));
          EXPECT_EQ(integers(json["box"]), (Integers{rows, columns}));
          EXPECT_EQ(json["type"].string(), type);
          EXPECT_EQ(json["swizzle"].string(), swizzle);
          EXPECT_EQ(json["bytes"].integer(), rows * row_bytes);
          EXPECT_EQ(json["alignment"].integer(), std::max<int64_t>(128, 8 * span));
          ASSERT_EQ(json["table"].list().size(), static_cast<size_t>(rows));
          std::set<int64_t> places;
          for (int64_t row = 0; row < rows; ++row) {
            ASSERT_EQ(json["table"][static_cast<size_t>(row)].list().size(), static_cast<size_t>(chunks));
            std::set<int64_t> in_row;
            for (int64_t chunk = 0; chunk < chunks; ++chunk) {
              const int64_t dense = row * row_bytes + chunk * 16, bits = span == 0 ? 0 : span / 16 - 1;
              const int64_t byte = dense ^ ((dense / 128 & bits) * 16);
              EXPECT_EQ(integers(json["table"][static_cast<size_t>(row)][static_cast<size_t>(chunk)]),
                        (Integers{byte / 128, byte / 16 % 8, byte}));
              places.insert(byte);
              in_row.insert(byte / row_bytes);
            }
            EXPECT_EQ(in_row, std::set<int64_t>{row});  // rows keep their chunks
          }
          EXPECT_EQ(places.size(), static_cast<size_t>(rows * chunks));
        }
      }
    }
  }
}
TEST(ShowJson, BankConflictsOfBoxes) {  // rows of b bytes, unswizzled: b / 16 columns apart
  const auto ways = [](const char* name) {
    const Json json = json_of({name});
    return Integers{json["ways"].integer(), json["ways_unswizzled"].integer()};
  };
  EXPECT_EQ(ways("box.8x64.bf16.128B"), (Integers{1, 8}));
  EXPECT_EQ(ways("box.64x64.f16.128B"), (Integers{1, 8}));
  EXPECT_EQ(ways("box.8x16.f32.64B"), (Integers{1, 4}));
  EXPECT_EQ(ways("box.8x16.bf16.32B"), (Integers{1, 2}));
  EXPECT_EQ(ways("box.8x64.bf16.none"), (Integers{8, 8}));
  EXPECT_EQ(ways("box.8x128.bf16.none"), (Integers{8, 8}));
  EXPECT_EQ(ways("box.8x24.bf16.none"), (Integers{1, 1}));  // rows of 48 bytes: columns 0 3 6 1 4 7 2 5
  EXPECT_EQ(ways("box.8x48.bf16.none"), (Integers{2, 2}));  // rows of 96 bytes: columns 0 6 4 2 0 6 4 2
  EXPECT_EQ(ways("box.5x64.bf16.128B"), (Integers{1, 5}));
  EXPECT_EQ(ways("box.1x64.bf16.none"), (Integers{1, 1}));
  EXPECT_EQ(ways("box.8x8.bf16.none"), (Integers{1, 1}));
}
// Where the simulated copy engine puts each chunk of a box.
TEST(ShowJson, BoxesAsTheEngineCopies) {
  sim::options().compute_capability = 90;
  for (const auto& [name, swizzle] : {std::pair{"box.16x64.bf16.128B", TensorSwizzle::b128},
                                      {"box.32x32.f16.64B", TensorSwizzle::b64},
                                      {"box.16x32.bf16.64B", TensorSwizzle::b64},
                                      {"box.8x16.bf16.32B", TensorSwizzle::b32},
                                      {"box.5x96.bf16.none", TensorSwizzle::none}}) {
    SCOPED_TRACE(name);
    const Json json = json_of({name});
    const Integers box = integers(json["box"]);
    std::vector<uint16_t> matrix(static_cast<size_t>(box[0] * box[1])), found(matrix.size(), 0xffff);
    for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<uint16_t>(i);
    TensorMapArguments a;
    a.base = matrix.data();
    a.extents[0] = a.box[0] = static_cast<int>(box[1]);
    a.extents[1] = a.box[1] = static_cast<int>(box[0]);
    a.pitches[1] = 2 * box[1];
    a.swizzle = swizzle;
    TensorMap map;
    const Status encoded = encode_tensor_map(map, a);
    ASSERT_TRUE(encoded) << encoded.message;
    const Status loaded = test::tensor_load<2>(map, {reinterpret_cast<uint8_t*>(found.data()),
                                                     static_cast<uint32_t>(2 * found.size()),
                                                     static_cast<uint32_t>(2 * found.size()),
                                                     {0, 0}});
    ASSERT_TRUE(loaded) << loaded.message;
    for (size_t row = 0; row < static_cast<size_t>(box[0]); ++row) {
      for (size_t column = 0; column < static_cast<size_t>(box[1]); ++column) {
        const auto byte = static_cast<size_t>(json["table"][row][column / 8][2].integer());
        EXPECT_EQ(found[byte / 2 + column % 8], row * static_cast<size_t>(box[1]) + column);
      }
    }
  }
}

// ---- text ----

TEST(ShowText, Swizzle) {
  EXPECT_EQ(show({"swizzle.32B", "--text"}).out,
            R"(swizzle.32B: swizzle of 32 bytes: where the 16-byte chunks of 8 rows of 32 bytes lie
  bit of the byte address   9 8 7   6 5 4   3 2 1 0
                            . . y   . . x   m m m m
  the bits x (chunk) become x XOR y (number of the 128-byte line); the pattern starts at a multiple of 256 bytes

the chunk of the row at which it lies
row \ chunk | 0 1
------------+----
          0 | 0 1
          1 | 0 1
          2 | 0 1
          3 | 0 1
          4 | 1 0
          5 | 1 0
          6 | 1 0
          7 | 1 0
)");
}
TEST(ShowText, TheWorkedEdge) {
  EXPECT_EQ(show({"copy.64x32.bf16.t256", "--extents", "65,73", "--origin", "64,64"}).out,
            R"(copy.64x32.bf16.t256: 64 x 32 tile of bf16: 256 vectors of 8, 256 threads, 1 turn
  source 65 x 73, pitch 73, base 16-byte aligned + 0 elements; tile at (64, 64)
  misaligned: elements; partial: elements; "n+mz": n valid elements, m zeros; vector v = 4 row + column / 8 belongs to thread v % 256
  vectors: 1 async, 0 realign, 1 elements, 254 zeros; 1 scalar loads, 2039 zero elements

thread and case of each vector
row \ columns |           0..7            8..15         16..23         24..31
--------------+--------------------------------------------------------------
            0 |       t0 async t1 elements 1+7z       t2 zeros       t3 zeros
        1..63 | t4..t252 zeros   t5..t253 zeros t6..t254 zeros t7..t255 zeros
)");
}
TEST(ShowText, Ring) {  // two stages: stage k % 2, round k / 2
  EXPECT_EQ(show({"ring.2"}).out,
            R"(ring.2: full and empty barriers of a ring of 2 stages, 5 iterations
  P, the producer, runs as far ahead as its waits let it; C, the consumer, asks before the stage is filled
  a barrier is in phase n when n phases are complete; a wait for parity p passes when (n & 1) != p: phase n - 1 has it
  "n > m": in phase n when first asked, in phase m when the wait passes

the waits of each iteration
iteration | stage P: parity empty[stage]          passes C: parity full[stage]       passes
----------+--------------------------------------------------------------------------------
        0 |     0         1            0         at once         0       0 > 1 after fill 0
        1 |     1         1            0         at once         0       0 > 1 after fill 1
        2 |     0         0        0 > 1 after release 0         1       1 > 2 after fill 2
        3 |     1         0        0 > 1 after release 1         1       1 > 2 after fill 3
        4 |     0         1        1 > 2 after release 2         0       2 > 3 after fill 4

phase of each barrier after the fill (full) or the release (empty) of each iteration; before: 0
 barrier | 0 1 2 3 4
---------+----------
 full[0] | 1 1 2 2 3
empty[0] | 1 1 2 2 3
 full[1] | 0 1 1 2 2
empty[1] | 0 1 1 2 2
)");
}
TEST(ShowText, Box) {  // rows of 64 bytes, two a line: rows 2 and 3 lie in line 1, where chunk c moves to c XOR 1
  EXPECT_EQ(
      show({"box.4x16.f32.64B"}).out,
      R"(box.4x16.f32.64B: box of 4 rows x 16 columns of f32, 256 bytes, swizzle 64B: where a tensor copy puts its 16-byte chunks
  bit of the byte address   9 8 7   6 5 4   3 2 1 0
                            . y y   . x x   m m m m
  the bits x (chunk) become x XOR y (number of the 128-byte line); the pattern starts at a multiple of 512 bytes
  worst bank conflict of reading one chunk of each of 4 successive rows: 1 way; without the swizzle 2

bank column @ byte of each chunk
row \ chunk |       0       1       2       3
------------+--------------------------------
          0 |   0 @ 0  1 @ 16  2 @ 32  3 @ 48
          1 |  4 @ 64  5 @ 80  6 @ 96 7 @ 112
          2 | 1 @ 144 0 @ 128 3 @ 176 2 @ 160
          3 | 5 @ 208 4 @ 192 7 @ 240 6 @ 224

chunk (row, chunk) in each 16-byte bank column of the 128-byte lines
line \ column |     0     1     2     3     4     5     6     7
--------------+------------------------------------------------
            0 | (0,0) (0,1) (0,2) (0,3) (1,0) (1,1) (1,2) (1,3)
            1 | (2,1) (2,0) (2,3) (2,2) (3,1) (3,0) (3,3) (3,2)
)");
}
TEST(ShowText, ElementsNameTheirLane) {
  const std::string out = show({"mma.m16n8k16.c"}).out;
  EXPECT_NE(out.find("    9 |  4:2  4:3  5:2  5:3  6:2  6:3  7:2  7:3\n"), std::string::npos) << out;
  EXPECT_NE(out.find("  31 | (7,6) (7,7) (15,6) (15,7)\n"), std::string::npos) << out;
}

// ---- SVG ----

// Well-formed XML: tags nest, attributes are quoted, no bare & or <.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  size_t at = svg.find("?>");
  ASSERT_EQ(svg.compare(0, 5, "<?xml"), 0);
  ASSERT_NE(at, std::string::npos);
  at += 2;
  while (at < svg.size()) {
    if (svg[at] != '<') {
      ASSERT_NE(svg[at], '>');
      if (svg[at] == '&') {
        const std::string entity = svg.substr(at, svg.find(';', at) - at);
        ASSERT_TRUE(entity == "&amp" || entity == "&lt" || entity == "&gt" || entity == "&quot") << entity;
      }
      ++at;
      continue;
    }
    const size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    std::string tag = svg.substr(at + 1, end - at - 1);
    ASSERT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag;
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    at = end + 1;
  }
  EXPECT_TRUE(open.empty());
}
size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
std::string svg_of(std::vector<const char*> words) {
  const std::string path = testing::TempDir() + "show_test.svg";
  words.push_back("--svg");
  words.push_back(path.c_str());
  const Result r = show(words);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out + r.err, "");
  std::ifstream file(path);
  std::ostringstream all;
  all << file.rdbuf();
  std::remove(path.c_str());
  return all.str();
}
TEST(ShowSvg, DrawsEachCellOnce) {
  const std::string svg = svg_of({"mma.m16n8k16.a"});
  expect_well_formed(svg);
  EXPECT_EQ(count_of(svg, "<rect"), 1u + 16 * 16 + 32 * 8);
  for (int lane = 0; lane < 32; ++lane) {
    for (int element = 0; element < 8; ++element)
      EXPECT_EQ(count_of(svg, ">" + std::to_string(lane) + ":" + std::to_string(element) + "<"), 1u);
  }
}

// ---- names, options, refusals ----

TEST(Show, EveryListedNameHasAllThreeForms) {
  const Result list = show({});
  EXPECT_EQ(list.code, 0);
  std::istringstream lines(list.out);
  int names = 0;
  for (std::string line; std::getline(lines, line) && !line.starts_with("copy.");) {
    const std::string name = line.substr(0, line.find(' '));
    ++names;
    const Json json = json_of({name.c_str()});
    EXPECT_EQ(json["name"].string(), name);
    EXPECT_TRUE(json.has("index") && json.has("coord") && json.has("table"));
    for (const Json& row : json["table"].list()) {
      for (const Json& entry : row.list()) ASSERT_EQ(entry.list().size(), json["coord"].list().size());
    }
    EXPECT_EQ(show({name.c_str()}).out, show({name.c_str(), "--text"}).out);
    const std::string svg = svg_of({name.c_str()});
    expect_well_formed(svg);
    EXPECT_EQ(svg.find("href"), std::string::npos);
    EXPECT_EQ(svg.find("url("), std::string::npos);
  }
  EXPECT_EQ(names, 26);
  for (const char* form : {"\ncopy.RxC.TYPE[.tTHREADS]\n", "\nring.STAGES  ", "show ring.3 --iterations 7\n",
                           "\nbox.RxC.TYPE.SWIZZLE  ", "show box.8x64.bf16.128B\n"})
    EXPECT_NE(list.out.find(form), std::string::npos) << form;
  const std::string ring = svg_of({"ring.3", "--iterations", "7"}), box = svg_of({"box.8x64.bf16.128B"});
  expect_well_formed(ring);
  EXPECT_EQ(count_of(ring, "<rect"), 1u + 7 * 7 + 6 * 7);
  expect_well_formed(box);
  EXPECT_EQ(count_of(box, "<rect"), 1u + 8 * 8 + 8 * 8);
  expect_well_formed(svg_of({"copy.8x16.bf16.t4", "--extents", "7,11", "--ld", "13", "--realign"}));
}
TEST(Show, TheNameMayStandAnywhere) {
  EXPECT_EQ(show({"--json", "swizzle.64B"}).out, show({"swizzle.64B", "--json"}).out);
  EXPECT_EQ(show({"--extents", "3,9", "copy.8x8.f16", "--ld", "12"}).out,
            show({"copy.8x8.f16", "--extents", "3,9", "--ld", "12"}).out);
  EXPECT_EQ(show({"--iterations", "4", "ring.3"}).out, show({"ring.3", "--iterations=4"}).out);
}
void expect_refused(const std::vector<const char*>& words, std::initializer_list<const char*> parts) {
  const Result r = show(words);
  EXPECT_EQ(r.code, 2) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(count_of(r.err, "\n"), 1u) << r.err;
  for (const char* part : parts) EXPECT_NE(r.err.find(part), std::string::npos) << "no '" << part << "' in: " << r.err;
}
TEST(Show, RefusesWithOneSentence) {
  expect_refused({"mma.m16n8k8.a"},
                 {"unknown name 'mma.m16n8k8.a'", "mma.m16n8k16.a", "ldmatrix.x4.trans", "swizzle.128B",
                  "gemm.a.k-major.64x32", "copy.RxC.TYPE", "ring.STAGES", "box.RxC.TYPE.SWIZZLE", "exist"});
  for (const char* name : {"copy", "ring", "box", "Swizzle.128B", "rings.3"})
    expect_refused({name}, {"unknown name", name, "copy.RxC.TYPE", "ring.STAGES", "box.RxC.TYPE.SWIZZLE"});
  // Of a known family: what that family takes.
  for (const char* name : {"copy.64x32", "copy.64.bf16", "copy.0x8.bf16", "copy.8x8.f64", "copy.8x8.bf16.256",
                           "copy.8x8.bf16.t0", "copy.8x-8.bf16", "copy.8x8.bf16.t1.x", "copy.8x8.bf16.", "copy."})
    expect_refused({name}, {name, "is no copy plan", "copy.RxC.TYPE[.tTHREADS]", "1 or more", "bf16, f16 or f32"});
  for (const char* name : {"ring.0", "ring.-1", "ring.x", "ring.3.4", "ring.", "ring.99999999999999999999"})
    expect_refused({name}, {name, "is no ring", "ring.STAGES", "1 to 16"});
  for (const char* name :
       {"box.8x64.bf16", "box.8x64.128B.bf16", "box.8x64.bf16.16B", "box.8x64.bf16.128", "box.0x64.bf16.128B",
        "box.8.bf16.none", "box.8x64.f64.none", "box.8x64.bf16.128B.x", "box.4294967297x8.bf16.none"})
    expect_refused({name}, {name, "is no box", "box.RxC.TYPE.SWIZZLE", "1 to 256", "none, 32B, 64B or 128B"});
  expect_refused({"copy.8x12.bf16"}, {"multiple of the 8", "12"});
  expect_refused({"copy.8x6.f32"}, {"multiple of the 4", "6"});
  expect_refused({"copy.8x8.bf16.t2048"}, {"1024 threads"});
  expect_refused({"swizzle.128B", "--png"}, {"--png", "--svg"});
  expect_refused({"swizzle.128B", "--text", "--json"}, {"exclude one another"});
  expect_refused({"swizzle.128B", "--ld", "5"}, {"copy plans", "swizzle.128B"});
  expect_refused({"swizzle.128B", "swizzle.64B"}, {"unexpected argument 'swizzle.64B'"});
  expect_refused({"copy.8x8.bf16", "--extents", "9"}, {"--extents", "R,C"});
  expect_refused({"copy.8x8.bf16", "--extents", "-1,9"}, {"--extents", "-1"});
  expect_refused({"ring.17"}, {"ring.17", "1 to 16 stages"});
  expect_refused({"ring.3", "--iterations", "0"}, {"--iterations", "1 to 4096"});
  expect_refused({"ring.3", "--iterations", "4097"}, {"--iterations", "1 to 4096"});
  expect_refused({"swizzle.128B", "--iterations", "5"}, {"--iterations belongs to rings", "swizzle.128B"});
  expect_refused({"ring.3", "--ld", "5"}, {"copy plans", "ring.3"});
  // What no tensor map can have, in the words of check_tensor_map.
  expect_refused({"box.8x64.bf16.64B"},
                 {"tensor map: a row of the box is 128 bytes", "the 64 bytes of the swizzle's span", "box 64 x 8, swizzle 64B"});
  expect_refused({"box.8x12.bf16.none"}, {"tensor map: a row of the box is 24 bytes", "a multiple of 16 bytes"});
  expect_refused({"box.257x8.bf16.none"}, {"tensor map: the box of dimension 1 is 257", "1 to 256"});
  expect_refused({"box.8x264.bf16.none"}, {"tensor map: the box of dimension 0 is 264", "1 to 256"});
  expect_refused({"box.256x256.f32.none"}, {"tensor map: the box is 262144 bytes", "at most 232448"});
  expect_refused({"box.2147483647x2147483647.f32.none"}, {"tensor map: the box of dimension 0 is 2147483647"});
  expect_refused({"copy.8x8.bf16", "--svg", "/nonexistent/folder/x.svg"}, {"cannot be written"});
}

}  // namespace
}  // namespace grout::show
