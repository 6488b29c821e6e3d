// The rules of tensor maps: each broken alone, both sides of each boundary, what the refusals say, and what the simulated
// device makes of what is accepted.
#include "common/tensor_map.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/kernels/tensor_load.cuh"

namespace grout {
namespace {

constexpr int64_t k2To32 = int64_t{1} << 32, k2To40 = int64_t{1} << 40;

const void* address(uint64_t value) {
  return reinterpret_cast<const void*>(static_cast<uintptr_t>(value));
}
void expect_accepted(const TensorMapArguments& a) {
  const Status status = check_tensor_map(a);
  EXPECT_TRUE(status) << status.message;
  EXPECT_EQ(status.message, "");
}
// Refused as malformed, in one sentence with these parts; encode says the same and leaves the map alone.
void expect_refused(const TensorMapArguments& a, std::initializer_list<std::string> parts) {
  const Status status = check_tensor_map(a);
  ASSERT_EQ(status.code, Code::invalid) << describe(a);
  EXPECT_EQ(status.message.find('\n'), std::string::npos);
  EXPECT_EQ(status.message.find(". "), std::string::npos) << status.message;
  EXPECT_NE(status.message.find(", accepted is "), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("(" + describe(a) + ")"), std::string::npos) << status.message;
  for (const std::string& part : parts)
    EXPECT_NE(status.message.find(part), std::string::npos) << "no '" << part << "' in: " << status.message;
  TensorMap map;
  map.rank = 77;
  const Status encoded = encode_tensor_map(map, a);
  EXPECT_EQ(encoded.code, Code::invalid);
  EXPECT_EQ(encoded.message, status.message);
  EXPECT_EQ(map.rank, 77);
}
using Change = std::function<void(TensorMapArguments&)>;
void expect_one_change_refused(int rank, const Change& change, std::initializer_list<std::string> parts) {
  TensorMapArguments a = test::legal_tensor_map(rank);
  expect_accepted(a);
  change(a);
  expect_refused(a, parts);
}
void expect_one_change_accepted(int rank, const Change& change) {
  TensorMapArguments a = test::legal_tensor_map(rank);
  change(a);
  expect_accepted(a);
}

TEST(TensorMap, TheLegalOnes) {
  for (int rank = 1; rank <= 3; ++rank) expect_accepted(test::legal_tensor_map(rank));
}

TEST(TensorMap, TheSentence) {
  TensorMapArguments a = test::legal_tensor_map(3);
  a.pitches[1] = 146;
  EXPECT_EQ(check_tensor_map(a).message,
            "tensor map: the pitch of dimension 1 is 146 bytes, accepted is a multiple of 16 bytes below 1099511627776 "
            "(2^40) "
            "(bf16, base 0x7f12345670 (0 mod 16), rank 3, extents 65 x 97 x 5, pitches 146 x 13968 bytes, box 64 x 8 x "
            "3, swizzle "
            "128B)");
  a = test::legal_tensor_map(1);
  a.type = ElementType::f32, a.swizzle = TensorSwizzle::none, a.base = address(0x1003);
  EXPECT_EQ(
      check_tensor_map(a).message,
      "tensor map: the base lies 3 bytes behind a multiple of 16, accepted is a multiple of 16 bytes (f32, base 0x1003 "
      "(3 mod 16), rank 1, extents 65, pitches none, box 64, swizzle none)");
}

TEST(TensorMap, Rank) {
  for (const int rank : {INT32_MIN, -1, 0, 4, 5, INT32_MAX})
    expect_one_change_refused(
        2, [&](auto& a) { a.rank = rank; },
        {"the rank is " + std::to_string(rank), "1 to 3", "65 x 97 x 1", "144 x 0", "64 x 8 x 1"});
}

TEST(TensorMap, Base) {
  for (int rank = 1; rank <= 3; ++rank) {
    expect_one_change_refused(rank, [](auto& a) { a.base = nullptr; },
                              {"the base is null", "multiple of 16 bytes", "base 0x0"});
    for (uint64_t off = 0; off < 32; ++off) {
      const Change change = [&](auto& a) { a.base = address(0x7f12345600 + off); };
      if (off % 16 == 0)
        expect_one_change_accepted(rank, change);
      else
        expect_one_change_refused(
            rank, change, {std::to_string(off % 16) + " bytes behind", "(" + std::to_string(off % 16) + " mod 16)"});
    }
  }
}

TEST(TensorMap, Extents) {
  for (int i = 0; i < 3; ++i) {
    for (const int64_t extent : {INT64_MIN, -k2To32, int64_t{-1}, int64_t{0}, k2To32 + 1, INT64_MAX})
      expect_one_change_refused(
          3, [&](auto& a) { a.extents[i] = extent; },
          {"the extent of dimension " + std::to_string(i) + " is " + std::to_string(extent), "4294967296 (2^32)"});
    expect_one_change_accepted(3, [&](auto& a) { a.extents[i] = 1; });
    for (const int64_t extent : {k2To32 - 1, k2To32}) {  // a matrix of that many: the pitches follow
      TensorMapArguments a = test::legal_tensor_map(3);
      a.extents[0] = a.extents[1] = a.extents[2] = 1;
      a.extents[i] = extent;
      a.pitches[1] = a.pitches[2] = i == 0 ? 2 * k2To32 : 144;
      expect_accepted(a);
      a.extents[i] = k2To32 + 1;
      expect_refused(a, {std::to_string(k2To32 + 1)});
    }
  }
  TensorMapArguments a = test::legal_tensor_map(1);  // what lies beyond the rank is not looked at
  a.extents[1] = a.extents[2] = a.pitches[1] = a.pitches[2] = -1;
  a.box[1] = a.box[2] = -1;
  expect_accepted(a);
}

TEST(TensorMap, Pitches) {
  for (int i = 1; i <= 2; ++i) {
    const std::string name = "the pitch of dimension " + std::to_string(i) + " is ";
    // The other outer dimension has one element, so that this pitch is bound by the row alone.
    const auto change = [&](int64_t pitch) -> Change {
      return [=](auto& a) { a.extents[3 - i] = 1, a.pitches[3 - i] = 144, a.pitches[i] = pitch; };
    };
    for (const int64_t pitch : {int64_t{144}, int64_t{160}, k2To40 - 16}) expect_one_change_accepted(3, change(pitch));
    for (const int64_t pitch :
         {int64_t{145}, int64_t{152}, int64_t{159}, int64_t{161}, k2To40 - 15, k2To40 - 1, k2To40, k2To40 + 16})
      expect_one_change_refused(3, change(pitch),
                                {name + std::to_string(pitch), "multiple of 16 bytes below 1099511627776"});
    for (const int64_t pitch : {int64_t{-16}, int64_t{0}, int64_t{16}, int64_t{128}, -k2To40})
      expect_one_change_refused(3, change(pitch),
                                {name + std::to_string(pitch), "less than a row", "at least 130 bytes"});
  }
  TensorMapArguments a = test::legal_tensor_map(2);  // exactly a row
  a.extents[0] = 72;
  expect_accepted(a);
  a.extents[0] = 73;
  expect_refused(a, {"is 144 bytes, less than a row", "at least 146 bytes"});
  a.type = ElementType::f32, a.extents[0] = 36, a.box[0] = 32;
  expect_accepted(a);
  a.extents[0] = 37;
  expect_refused(a, {"at least 148 bytes"});
  a = test::legal_tensor_map(2);  // also where there is one row
  a.extents[1] = 1, a.pitches[1] = 0;
  expect_refused(a, {"less than a row"});
}

TEST(TensorMap, SlicesDoNotOverlap) {
  // 97 rows of 65 (130 bytes), 144 apart: a slice ends 96 * 144 + 130 = 13954 bytes from its begin; 5 slices.
  expect_one_change_accepted(3, [](auto& a) { a.pitches[2] = 13968; });
  expect_one_change_accepted(3, [](auto& a) { a.extents[0] = 72, a.pitches[2] = 13968; });
  expect_one_change_refused(3, [](auto& a) { a.pitches[2] = 13952; },
                            {"the pitch of dimension 2 is 13952 bytes, less than a slice",
                             "at least 96 times the pitch of dimension 1", "a row of 130 bytes"});
  expect_one_change_refused(3, [](auto& a) { a.pitches[2] = 144; }, {"less than a slice"});
  // The other way round: 5 slices beside one another in a row.
  expect_one_change_accepted(3, [](auto& a) { a.pitches[1] = 720, a.pitches[2] = 144; });
  expect_one_change_refused(
      3, [](auto& a) { a.pitches[1] = 704, a.pitches[2] = 144; },
      {"the pitch of dimension 1 is 704 bytes, less than a slice", "at least 4 times the pitch of dimension 2"});
  // Either extent 1: no slice, whichever pitch is the longer.
  for (const int64_t other : {144, 160}) {
    expect_one_change_accepted(3, [=](auto& a) { a.extents[1] = 1, a.pitches[1] = 144, a.pitches[2] = other; });
    expect_one_change_accepted(3, [=](auto& a) { a.extents[1] = 1, a.pitches[1] = other, a.pitches[2] = 144; });
    expect_one_change_accepted(3, [=](auto& a) { a.extents[2] = 1, a.pitches[1] = 144, a.pitches[2] = other; });
    expect_one_change_accepted(3, [=](auto& a) { a.extents[2] = 1, a.pitches[1] = other, a.pitches[2] = 144; });
  }
  // The products do not overflow: 2^32 rows of 2^40 - 16 bytes are more than any pitch.
  expect_one_change_refused(3, [](auto& a) { a.extents[1] = k2To32, a.pitches[1] = a.pitches[2] = k2To40 - 16; },
                            {"less than a slice"});
  expect_one_change_accepted(3, [](auto& a) { a.extents[1] = k2To32, a.pitches[1] = 144, a.pitches[2] = k2To40 - 16; });
  expect_one_change_refused(3, [](auto& a) { a.extents[1] = k2To32, a.pitches[1] = 272, a.pitches[2] = k2To40 - 16; },
                            {"less than a slice"});
}

TEST(TensorMap, Box) {
  for (int i = 0; i < 3; ++i) {
    const auto change = [&](int box) -> Change {
      return [=](auto& a) { a.swizzle = TensorSwizzle::none, a.box[0] = a.box[1] = a.box[2] = 8, a.box[i] = box; };
    };
    const std::string name = "the box of dimension " + std::to_string(i) + " is ";
    for (const int box : {INT32_MIN, -8, -1, 0, 257, 264, INT32_MAX})
      expect_one_change_refused(3, change(box), {name + std::to_string(box), "1 to 256 elements"});
    expect_one_change_accepted(3, change(256));
    expect_one_change_accepted(3, change(248));
    if (i > 0) {
      for (const int box : {1, 2, 7, 255}) expect_one_change_accepted(3, change(box));
    }
  }
}

TEST(TensorMap, RowsOfTheBox) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16, ElementType::f32}) {
    for (const TensorSwizzle swizzle :
         {TensorSwizzle::none, TensorSwizzle::b32, TensorSwizzle::b64, TensorSwizzle::b128}) {
      for (int columns = 1; columns <= 256; ++columns) {
        TensorMapArguments a = test::legal_tensor_map(2);
        a.type = type, a.swizzle = swizzle, a.box[0] = columns, a.pitches[1] = 4096;
        const int bytes = columns * (type == ElementType::f32 ? 4 : 2);
        const int span = swizzle == TensorSwizzle::none  ? 1024
                         : swizzle == TensorSwizzle::b32 ? 32
                         : swizzle == TensorSwizzle::b64 ? 64
                                                         : 128;
        const std::string is = "a row of the box is " + std::to_string(bytes) + " bytes";
        if (bytes % 16 != 0)
          expect_refused(
              a, {is, "a multiple of 16 bytes (" + std::string(type == ElementType::f32 ? "4" : "8") + " elements)"});
        else if (swizzle != TensorSwizzle::none && bytes != span)
          expect_refused(a, {is, "the " + std::to_string(span) + " bytes of the swizzle's span"});
        else
          expect_accepted(a);
      }
    }
  }
}

TEST(TensorMap, BoxesFitSharedMemory) {
  TensorMapArguments a = test::legal_tensor_map(3);
  a.type = ElementType::f32, a.swizzle = TensorSwizzle::none, a.pitches[1] = 272, a.pitches[2] = 272 * 97;
  a.box[0] = 64, a.box[1] = 227, a.box[2] = 4;  // 227 KB
  expect_accepted(a);
  a.box[1] = 228;
  expect_refused(a, {"the box is 233472 bytes", "at most 232448 bytes", "shared memory"});
  a.box[0] = a.box[1] = a.box[2] = 256;
  expect_refused(a, {"the box is 67108864 bytes"});
  a.box[0] = 4, a.box[1] = 167, a.box[2] = 87;  // the next larger one: 16 bytes more
  expect_refused(a, {"the box is 232464 bytes", "at most 232448 bytes"});
  a = test::legal_tensor_map(2);
  a.swizzle = TensorSwizzle::none, a.box[0] = a.box[1] = 256;
  expect_accepted(a);
  a.type = ElementType::f32, a.pitches[1] = 272;
  expect_refused(a, {"the box is 262144 bytes"});
}

TEST(TensorMap, StartColumns) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16, ElementType::f32}) {
    TensorMapArguments a = test::legal_tensor_map(2);
    a.type = type;
    const int64_t vector = type == ElementType::f32 ? 4 : 8;
    const std::string accepted = "accepted is a multiple of " + std::to_string(vector) + " elements (16 bytes)";
    const auto expect = [&](int64_t column, bool legal) {
      const Status status = check_tensor_start(a, column);
      EXPECT_EQ(status.code, legal ? Code::ok : Code::invalid) << column;
      if (legal) return;
      for (const std::string& part :
           {"starts at column " + std::to_string(column) + ",", accepted, "(" + describe(a) + ")"})
        EXPECT_NE(status.message.find(part), std::string::npos) << "no '" << part << "' in: " << status.message;
    };
    for (int64_t column = -40; column <= 40; ++column) expect(column, column % vector == 0);
    const int64_t first = INT32_MIN, last = INT32_MAX - (vector - 1);
    for (const int64_t column : {first, first + vector, last, last - vector}) expect(column, true);
    for (const int64_t column : {first - vector, last + vector, first + 1, last - 1, int64_t{INT32_MAX}, k2To32,
                                 -k2To32, INT64_MIN, INT64_MAX - 7})
      expect(column, false);
  }
}

TEST(TensorMap, Alignments) {
  EXPECT_EQ(tensor_box_alignment(TensorSwizzle::none), 128);
  EXPECT_EQ(tensor_box_alignment(TensorSwizzle::b32), 256);
  EXPECT_EQ(tensor_box_alignment(TensorSwizzle::b64), 512);
  EXPECT_EQ(tensor_box_alignment(TensorSwizzle::b128), 1024);
  EXPECT_EQ(swizzle_span(TensorSwizzle::none), 0);
  EXPECT_EQ(swizzle_span(TensorSwizzle::b32), 32);
  EXPECT_EQ(swizzle_span(TensorSwizzle::b64), 64);
  EXPECT_EQ(swizzle_span(TensorSwizzle::b128), 128);
}

// The simulated map holds what was asked for.
void expect_faithful(const TensorMapArguments& a) {
  TensorMap map;
  const Status status = encode_tensor_map(map, a);
  ASSERT_TRUE(status) << status.message;
  EXPECT_EQ(map.rank, a.rank);
  EXPECT_EQ(map.element_bytes, a.type == ElementType::f32 ? 4 : 2);
  EXPECT_EQ(map.base, a.base);
  EXPECT_EQ(map.swizzle, a.swizzle == TensorSwizzle::none  ? sim::TensorMap::Swizzle::none
                         : a.swizzle == TensorSwizzle::b32 ? sim::TensorMap::Swizzle::b32
                         : a.swizzle == TensorSwizzle::b64 ? sim::TensorMap::Swizzle::b64
                                                           : sim::TensorMap::Swizzle::b128);
  EXPECT_EQ(map.pitch_bytes[0], map.element_bytes);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(map.extent[i], i < a.rank ? static_cast<uint64_t>(a.extents[i]) : 1);
    EXPECT_EQ(map.box[i], i < a.rank ? static_cast<uint32_t>(a.box[i]) : 1);
    if (i > 0) {
      EXPECT_EQ(map.pitch_bytes[i], i < a.rank ? static_cast<uint64_t>(a.pitches[i]) : 0);
    }
  }
}

// The rules once more, from the other side: no two elements share a byte, counted.
bool elements_apart(const TensorMapArguments& a) {
  const int64_t row = a.extents[0] * (a.type == ElementType::f32 ? 4 : 2);
  std::set<int64_t> begins;
  for (int64_t j = 0; j < (a.rank > 1 ? a.extents[1] : 1); ++j)
    for (int64_t k = 0; k < (a.rank > 2 ? a.extents[2] : 1); ++k)
      if (!begins.insert(j * a.pitches[1] + k * a.pitches[2]).second) return false;
  for (auto next = std::next(begins.begin()); next != begins.end(); ++next)
    if (*next - *std::prev(next) < row) return false;
  return true;
}

TEST(TensorMap, WhatIsAcceptedIsRepresented) {
  std::mt19937_64 random(20240607);
  const auto pick = [&](auto... values) {
    const int64_t list[] = {static_cast<int64_t>(values)...};
    return list[random() % std::size(list)];
  };
  const auto up_to = [&](int64_t last) { return static_cast<int64_t>(random() % static_cast<uint64_t>(last)) + 1; };
  int accepted = 0, refused = 0;
  for (int trial = 0; trial < 200000; ++trial) {
    TensorMapArguments a;
    a.type = static_cast<ElementType>(random() % 3);
    a.rank = static_cast<int>(up_to(3));
    a.base = address(0x7000000000 + 16 * up_to(1 << 20) + (trial % 16 == 0 ? pick(1, 2, 4, 8) : 0));
    a.swizzle = static_cast<TensorSwizzle>(random() % 4);
    for (int i = 0; i < a.rank; ++i) {
      a.extents[i] = pick(1, 2, up_to(20), up_to(20));
      a.box[i] = static_cast<int>(i == 0 ? pick(4, 8, 16, 32, 64, up_to(260)) : pick(1, 2, up_to(32), up_to(260)));
      if (i > 0) a.pitches[i] = pick(16 * up_to(6), 16 * up_to(6), 16 * up_to(100), up_to(2000));
    }
    const Status status = check_tensor_map(a);
    if (status) {
      ++accepted;
      expect_faithful(a);
      ASSERT_TRUE(elements_apart(a)) << describe(a);
    } else {
      ++refused;
      ASSERT_EQ(status.code, Code::invalid);
      // Rows alone are refused for overlap only where they do overlap.
      if (status.message.find("overlap") != std::string::npos && a.rank == 2 && a.extents[1] > 1) {
        ASSERT_FALSE(elements_apart(a)) << describe(a);
      }
    }
  }
  EXPECT_GT(accepted, 10000);
  EXPECT_GT(refused, 10000);
}

TEST(TensorMap, WhatIsAcceptedIsLoaded) {
  sim::options().compute_capability = 90;
  std::mt19937 random(9);
  std::vector<uint8_t> memory(test::kTensorLoadMemory);
  for (uint8_t& byte : memory) byte = static_cast<uint8_t>(1 + random() % 255);
  int loaded[4] = {}, beside = 0;
  for (const auto& [a, start] : test::tensor_load_cases(4000, memory.data())) {
    SCOPED_TRACE(describe(a));
    TensorMap map;
    const Status encoded = encode_tensor_map(map, a);
    ASSERT_TRUE(encoded) << encoded.message;
    const std::vector<uint8_t> expected = test::expected_box(a, start, memory);
    std::vector<uint8_t> found(expected.size(), 0);
    const Status status = test::tensor_load(map, a.rank, start, found.data(), static_cast<uint32_t>(test::box_bytes(a)),
                                            static_cast<uint32_t>(found.size()));
    ASSERT_TRUE(status) << status.message;
    ASSERT_EQ(found, expected);
    ++loaded[a.rank];
    beside += a.rank == 3 && a.extents[1] > 1 && a.extents[2] > 1 && a.pitches[2] < a.pitches[1];
  }
  for (int rank = 1; rank <= 3; ++rank) EXPECT_GT(loaded[rank], 100);
  EXPECT_GT(beside, 20);
}
TEST(TensorMap, TheLargestIsRepresented) {
  TensorMapArguments a = test::legal_tensor_map(3);
  a.extents[0] = a.extents[1] = a.extents[2] = k2To32;
  a.extents[2] = 1;
  a.pitches[1] = k2To40 - 16, a.pitches[2] = 2 * k2To32;
  expect_faithful(a);
}

}  // namespace
}  // namespace grout
