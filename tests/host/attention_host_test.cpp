// What attention refuses and with which words, and what it accepts. Host side only; the entry itself:
// tests/sim/attention_refusals.cpp.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "attention/attention_arguments.cuh"

namespace grout {
namespace {

// 2 sequences of 5 queries and 7 keys, 4 heads on 2, of dim 8, each operand in memory of its own.
struct Problem {
  static constexpr int64_t kElements = 2 * 7 * 4 * 8;
  std::vector<uint16_t> memory = std::vector<uint16_t>(4 * kElements, 0xffff);
  std::vector<float> lse = std::vector<float>(2 * 4 * 5);
  std::vector<int32_t> q_offsets = {0, 2, 5}, kv_offsets = {0, 3, 7};
  AttentionArguments a;

  uint16_t* operand(int number) { return memory.data() + number * kElements; }
  Problem() {
    a.batch = 2, a.heads = 4, a.kv_heads = 2, a.q_length = 5, a.kv_length = 7, a.dim = 8;
    a.q = operand(0), a.k = operand(1), a.v = operand(2), a.o = operand(3), a.lse = lse.data();
    a.q_stride = a.o_stride = {160, 32, 8}, a.k_stride = a.v_stride = {112, 16, 8};
  }
  void pack() {
    a.q_offsets = q_offsets.data(), a.kv_offsets = kv_offsets.data(), a.q_rows = 5;
    a.q_stride.batch = a.o_stride.batch = a.k_stride.batch = a.v_stride.batch = 0;
  }
};

void expect_accepted(const std::function<void(Problem&)>& change) {
  Problem p;
  change(p);
  const Status status = attention_check(p.a);
  EXPECT_EQ(status.code, Code::ok) << status.message;
}
// Refused with code 2 and one sentence that contains every part; `extents`: whatever the addresses.
void expect_refused(const std::function<void(Problem&)>& change, std::initializer_list<const char*> parts,
                    bool extents = false) {
  Problem p;
  change(p);
  const std::vector<uint16_t> before = p.memory;
  const Status status = attention_check(p.a);
  EXPECT_EQ(status.code, Code::invalid);
  EXPECT_EQ(exit_code(status), 2);
  for (const char* part : parts)
    EXPECT_NE(status.message.find(part), std::string::npos) << "no '" << part << "' in: " << status.message;
  EXPECT_EQ(status.message.find('\n'), std::string::npos);
  EXPECT_EQ(before, p.memory);
  const Status without_addresses = attention_check_extents(p.a);
  EXPECT_EQ(without_addresses.message, extents ? status.message : "");
}
void expect_extents_refused(const std::function<void(Problem&)>& change, std::initializer_list<const char*> parts) {
  expect_refused(change, parts, true);
}

TEST(AttentionCheck, AcceptsTheBase) {
  expect_accepted([](Problem&) {});
  expect_accepted([](Problem& p) { p.pack(); });
  expect_accepted([](Problem& p) { p.a.lse = nullptr, p.a.causal = true, p.a.type = ElementType::f16; });
}

TEST(AttentionCheck, Types) {
  expect_extents_refused([](Problem& p) { p.a.type = ElementType::f32; }, {"bf16", "f16", "f32", "no kernel"});
}

TEST(AttentionCheck, Lengths) {
  expect_extents_refused([](Problem& p) { p.a.batch = -2; }, {"batch=-2", "at least 0"});
  expect_extents_refused([](Problem& p) { p.a.q_length = -1; }, {"at least 0", "-1 queries", "7 keys"});
  expect_extents_refused([](Problem& p) { p.a.kv_length = INT64_MIN; }, {"5 queries", "-9223372036854775808 keys"});
  expect_extents_refused([](Problem& p) { p.a.q_length = int64_t{1} << 31; },
                         {"below 2^31", "2147483648 queries", "7 keys"});
  expect_extents_refused([](Problem& p) { p.a.kv_length = int64_t{1} << 40; }, {"below 2^31", "1099511627776 keys"});
}

TEST(AttentionCheck, Heads) {
  expect_extents_refused([](Problem& p) { p.a.heads = 0; }, {"heads=0", "kv_heads=2", "at least 1"});
  expect_extents_refused([](Problem& p) { p.a.kv_heads = 0; }, {"heads=4", "kv_heads=0", "at least 1"});
  expect_extents_refused([](Problem& p) { p.a.kv_heads = -4; }, {"kv_heads=-4", "at least 1"});
  expect_extents_refused([](Problem& p) { p.a.kv_heads = 3; }, {"heads=4", "multiple of kv_heads=3"});
  expect_extents_refused([](Problem& p) { p.a.kv_heads = 8; }, {"heads=4", "multiple of kv_heads=8"});
  for (const int64_t kv_heads : {1, 2, 4}) expect_accepted([=](Problem& p) { p.a.kv_heads = kv_heads; });
}

TEST(AttentionCheck, Dimensions) {
  expect_extents_refused([](Problem& p) { p.a.dim = 0; }, {"dim=0", "1 to 256"});
  expect_extents_refused([](Problem& p) { p.a.dim = -8; }, {"dim=-8", "1 to 256"});
  expect_extents_refused([](Problem& p) { p.a.dim = 257; }, {"dim=257", "1 to 256"});
  expect_accepted([](Problem& p) { p.a.dim = 1; });
  expect_accepted([](Problem& p) {
    p.a.dim = 256, p.a.batch = p.a.heads = p.a.kv_heads = 1;
    p.a.q_length = p.a.kv_length = 1;
  });
}

TEST(AttentionCheck, Scales) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float scale : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 3.3e38f, -2.1e38f})
    expect_extents_refused([=](Problem& p) { p.a.scale = scale; }, {"scale=", "finite", "2e38"});
  for (const float scale : {0.f, -0.f, -1.f, 1e-40f, 2e38f, -2e38f}) expect_accepted([=](Problem& p) { p.a.scale = scale; });
}

TEST(AttentionCheck, Splits) {
  expect_extents_refused([](Problem& p) { p.a.splits = -1; }, {"splits=-1", "1 to 128", "0: choose"});
  expect_extents_refused([](Problem& p) { p.a.splits = 129; }, {"splits=129", "1 to 128"});
  for (const int splits : {0, 1, 128}) expect_accepted([=](Problem& p) { p.a.splits = splits; });
}

TEST(AttentionCheck, PackedSequences) {
  expect_extents_refused([](Problem& p) { p.pack(), p.a.kv_offsets = nullptr; }, {"offsets of Q and of K and V", "null"});
  expect_extents_refused([](Problem& p) { p.pack(), p.a.q_offsets = nullptr; }, {"offsets of Q and of K and V", "null"});
  expect_extents_refused([](Problem& p) { p.pack(), p.a.q_rows = -1; }, {"rows of packed queries", "0 to 2^31 - 1", "-1"});
  expect_extents_refused([](Problem& p) { p.pack(), p.a.q_rows = int64_t{1} << 31; },
                         {"rows of packed queries", "2147483648"});
  // Rows and heads of O overlap all the same; strides between batches are not used.
  expect_extents_refused([](Problem& p) { p.pack(), p.a.o_stride.row = 31; },
                         {"rows of O may overlap", "0, 31, 8", "dim=8"});
}

TEST(AttentionCheck, Grids) {
  expect_extents_refused([](Problem& p) { p.a.batch = int64_t{1} << 30, p.a.o_stride.batch = 160; },
                         {"batch=1073741824", "heads=4", "5 queries", "at most 2^31"});
  expect_extents_refused([](Problem& p) { p.a.heads = p.a.kv_heads = INT64_MAX; },
                         {"heads=9223372036854775807", "at most 2^31"});
  for (const int64_t batch : {65535, 65536, 65537})
    for (const bool heads : {false, true})
      expect_accepted([=](Problem& p) {
        (heads ? p.a.heads : p.a.batch) = batch, (heads ? p.a.batch : p.a.heads) = 1;
        p.a.kv_heads = 1, p.a.q_length = 1;
        p.a.q_stride = p.a.k_stride = p.a.v_stride = {0, 0, 0}, p.a.o_stride = {8, 8, 8};
        p.a.o = reinterpret_cast<void*>(uintptr_t{1} << 61), p.a.lse = nullptr;
      });
}

// 64-bit offsets: row 225304 of rows 9728 elements apart lies beyond 2^31; the span is that of the last element.
TEST(AttentionCheck, SpansAreOf64Bits) {
  AddressSpan span;
  const AttentionStrides strides = {int64_t{1} << 40, 9728, 128};
  ASSERT_TRUE(detail::attention_span(nullptr, 1, 225305, 76, 128, strides, 2, span));
  EXPECT_EQ(static_cast<int64_t>(span.low), 0);
  EXPECT_EQ(static_cast<int64_t>(span.high), (int64_t{225304} * 9728 + 75 * 128 + 128) * 2);
  ASSERT_TRUE(detail::attention_span(reinterpret_cast<void*>(uintptr_t{1} << 50), 3, 225305, 2, 100,
                                     {-(int64_t{1} << 40), 9728, -128}, 2, span));
  EXPECT_EQ(static_cast<int64_t>(span.low), (int64_t{1} << 50) - ((int64_t{1} << 41) + 128) * 2);
  EXPECT_EQ(static_cast<int64_t>(span.high), (int64_t{1} << 50) + (int64_t{225304} * 9728 + 100) * 2);
  ASSERT_TRUE(detail::attention_span(nullptr, 0, 5, 1, 8, strides, 2, span));
  EXPECT_EQ(static_cast<int64_t>(span.high - span.low), 0);
}

TEST(AttentionCheck, StridesBeyondAddresses) {
  const auto refused = [](AttentionStrides AttentionArguments::*stride, int64_t AttentionStrides::*axis, int64_t value) {
    expect_extents_refused([=](Problem& p) { p.a.*stride.*axis = value; },
                           {"62-bit addresses", "batch=2", "5 queries", "7 keys", "heads=4"});
  };
  for (AttentionStrides AttentionArguments::*stride : {&AttentionArguments::q_stride, &AttentionArguments::k_stride,
                                                       &AttentionArguments::v_stride, &AttentionArguments::o_stride})
    for (int64_t AttentionStrides::*axis : {&AttentionStrides::batch, &AttentionStrides::row, &AttentionStrides::head})
      for (const int64_t value : {INT64_MAX, INT64_MIN, int64_t{1} << 61}) refused(stride, axis, value);
}

TEST(AttentionCheck, RowsOfTheOutput) {
  expect_extents_refused([](Problem& p) { p.a.o_stride = {160, 32, 7}; }, {"rows of O may overlap", "160, 32, 7", "dim=8"});
  expect_extents_refused([](Problem& p) { p.a.o_stride = {160, 31, 8}; }, {"160, 31, 8"});
  expect_extents_refused([](Problem& p) { p.a.o_stride = {159, 32, 8}; }, {"159, 32, 8"});
  expect_extents_refused([](Problem& p) { p.a.o_stride = {0, 32, 8}; }, {"0, 32, 8"});
  expect_extents_refused([](Problem& p) { p.a.o_stride = {160, -8, 8}; }, {"160, -8, 8"});
  for (const AttentionStrides& s :
       {AttentionStrides{-160, -32, -8}, {160, 8, 40}, {8, 64, 16}, {160, -32, 8}, {1000, 100, 9}})
    expect_accepted([=](Problem& p) {
      p.a.o = reinterpret_cast<void*>(uintptr_t{1} << 61);
      p.a.o_stride = s;
    });
  // Strides do not count along axes of one or no element.
  expect_accepted([](Problem& p) { p.a.batch = 1, p.a.o_stride = {0, 32, 8}; });
  expect_accepted([](Problem& p) { p.a.heads = p.a.kv_heads = 1, p.a.o_stride = {160, 32, 0}; });
  expect_accepted([](Problem& p) { p.a.q_length = 0, p.a.o_stride = {0, 32, 8}; });
  expect_accepted([](Problem& p) { p.a.batch = 0, p.a.o_stride = {}; });
}

// Operands may repeat sequences, rows and heads, and may share memory with one another.
TEST(AttentionCheck, OperandsMayBeRepeated) {
  expect_accepted([](Problem& p) { p.a.q_stride = p.a.k_stride = p.a.v_stride = {}; });
  expect_accepted([](Problem& p) { p.a.k = p.a.v = p.a.q; });
  expect_accepted([](Problem& p) { p.a.k_stride = {-112, -16, -8}, p.a.k = p.operand(2) - 8; });
}

TEST(AttentionCheck, Pointers) {
  expect_refused([](Problem& p) { p.a.q = nullptr; }, {"Q is null"});
  expect_refused([](Problem& p) { p.a.k = nullptr; }, {"K is null"});
  expect_refused([](Problem& p) { p.a.v = nullptr; }, {"V is null"});
  expect_refused([](Problem& p) { p.a.o = nullptr; }, {"O is null"});
  expect_refused([](Problem& p) { p.a.q = reinterpret_cast<char*>(p.operand(0)) + 1; }, {"Q is not aligned", "2 bytes"});
  expect_refused([](Problem& p) { p.a.k = reinterpret_cast<char*>(p.operand(1)) + 1; }, {"K is not aligned", "2 bytes"});
  expect_refused([](Problem& p) { p.a.v = reinterpret_cast<char*>(p.operand(2)) + 1; }, {"V is not aligned", "2 bytes"});
  expect_refused([](Problem& p) { p.a.o = reinterpret_cast<char*>(p.operand(3)) + 1; }, {"O is not aligned", "2 bytes"});
  expect_refused([](Problem& p) { p.a.lse = reinterpret_cast<float*>(reinterpret_cast<char*>(p.lse.data()) + 2); },
                 {"LSE is not aligned", "4 bytes"});
  // What is not accessed may be null.
  expect_accepted([](Problem& p) { p.a.kv_length = 0, p.a.q = p.a.k = p.a.v = nullptr; });
  for (int64_t AttentionArguments::*extent : {&AttentionArguments::batch, &AttentionArguments::q_length})
    expect_accepted([=](Problem& p) {
      p.a.*extent = 0;
      p.a.q = p.a.k = p.a.v = p.a.o = nullptr, p.a.lse = nullptr;
    });
  expect_accepted([](Problem& p) { p.pack(), p.a.q_rows = 0, p.a.q = p.a.k = p.a.v = p.a.o = nullptr; });
}

TEST(AttentionCheck, Overlaps) {
  expect_refused([](Problem& p) { p.a.o = p.operand(0); }, {"O overlaps Q", "memory of its own"});
  expect_refused([](Problem& p) { p.a.o = p.operand(1) + 200; }, {"O overlaps K"});
  expect_refused([](Problem& p) { p.a.v = p.operand(3) + 319; }, {"O overlaps V"});
  expect_refused([](Problem& p) { p.a.lse = reinterpret_cast<float*>(p.operand(3) + 318); }, {"LSE overlaps O"});
  expect_refused([](Problem& p) { p.a.lse = reinterpret_cast<float*>(p.operand(0)); }, {"LSE overlaps Q"});
  expect_refused([](Problem& p) { p.a.lse = reinterpret_cast<float*>(p.operand(1) + 10); }, {"LSE overlaps K"});
  expect_refused([](Problem& p) { p.a.lse = reinterpret_cast<float*>(p.operand(2) - 2 * 40 + 2); }, {"LSE overlaps V"});
  expect_accepted([](Problem& p) { p.a.v = p.operand(3) + 320, p.a.lse = nullptr; });
  expect_accepted([](Problem& p) { p.a.lse = reinterpret_cast<float*>(p.operand(2) - 2 * 40); });
  expect_accepted([](Problem& p) { p.a.kv_length = 0, p.a.o = p.operand(0); });  // nothing is read
  // Offsets are read, whatever else is.
  const auto offsets_in = [](void* place, bool keys) {
    return [=](Problem& p) {
      p.pack();
      (keys ? p.a.kv_offsets : p.a.q_offsets) = static_cast<int32_t*>(place == nullptr ? p.lse.data() : place);
    };
  };
  expect_refused(offsets_in(nullptr, false), {"LSE overlaps the offsets of Q"});
  expect_refused(offsets_in(nullptr, true), {"LSE overlaps the offsets of K and V"});
  expect_refused([](Problem& p) { p.pack(), p.a.kv_offsets = reinterpret_cast<int32_t*>(p.operand(3) + 158); },
                 {"O overlaps the offsets of K and V"});
  expect_accepted([](Problem& p) { p.pack(), p.a.kv_offsets = reinterpret_cast<int32_t*>(p.operand(3) + 160); });
  expect_refused([](Problem& p) { p.pack(), p.a.q_offsets = reinterpret_cast<int32_t*>(p.operand(0) + 1); },
                 {"q_offsets is not aligned", "4 bytes"});
}

TEST(AttentionCheck, Workspaces) {
  const auto check = [](void* (*place)(Problem&), size_t given, size_t needed) {
    Problem p;
    p.a.workspace = place(p), p.a.workspace_bytes = given;
    return attention_check_workspace(p.a, needed).message;
  };
  static_assert(Problem::kElements * 2 % 16 == 0);
  alignas(16) static unsigned char free_memory[1024];
  const auto elsewhere = [](Problem&) -> void* { return free_memory; };
  EXPECT_EQ(check(elsewhere, 1024, 1024), "");
  EXPECT_EQ(check(elsewhere, 0, 0), "");
  EXPECT_NE(check(elsewhere, 1023, 1024).find("1023 bytes: 1024, 16-byte aligned"), std::string::npos);
  EXPECT_NE(check([](Problem&) -> void* { return free_memory + 8; }, 1024, 64).find("16-byte aligned"), std::string::npos);
  // Operand 0 is 320 elements long, the others lie behind one another.
  EXPECT_NE(check([](Problem& p) -> void* { return p.operand(0); }, 1024, 16).find("overlaps Q"), std::string::npos);
  EXPECT_NE(check([](Problem& p) -> void* { return p.operand(1); }, 1024, 16).find("overlaps K"), std::string::npos);
  EXPECT_NE(check([](Problem& p) -> void* { return p.operand(2); }, 1024, 16).find("overlaps V"), std::string::npos);
  EXPECT_NE(check([](Problem& p) -> void* { return p.operand(3); }, 1024, 16).find("overlaps O"), std::string::npos);
  EXPECT_NE(check([](Problem& p) -> void* { return p.operand(3) - 8; }, 1024, 32).find("overlaps O"), std::string::npos);
}

// The largest numbers: no step of the checks overflows (-fsanitize=undefined says so too).
TEST(AttentionCheck, LargestNumbers) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  // Memory that nothing has; what is refused says why, what is accepted needs it.
  const auto message = [](const std::function<void(Problem&)>& change) {
    Problem p;
    p.a.batch = p.a.heads = p.a.kv_heads = p.a.dim = 1, p.a.q_length = p.a.kv_length = kMost;
    p.a.q_stride = p.a.k_stride = p.a.v_stride = {}, p.a.o_stride = {0, 1, 1};
    p.a.o = reinterpret_cast<void*>(uintptr_t{1} << 61), p.a.lse = reinterpret_cast<float*>(uintptr_t{1} << 60);
    change(p);
    return attention_check(p.a).message;
  };
  EXPECT_EQ(message([](Problem&) {}), "");
  EXPECT_EQ(message([](Problem& p) { p.a.splits = 128, p.a.dim = 256, p.a.o_stride.row = 256; }), "");
  EXPECT_EQ(message([](Problem& p) { p.pack(), p.a.q_rows = kMost; }), "");
  EXPECT_EQ(message([](Problem& p) { p.a.o_stride = {0, -1, 1}; }), "");
  EXPECT_NE(message([](Problem& p) { p.a.heads = int64_t{1} << 31, p.a.o_stride.row = p.a.heads; })
                .find("at most 2^31, and these times the queries at most 2^53"),
            std::string::npos);
  EXPECT_NE(message([](Problem& p) {
              p.pack(), p.a.heads = int64_t{1} << 31, p.a.q_rows = int64_t{1} << 20, p.a.q_length = 1, p.a.splits = 128;
              p.a.o_stride = {0, p.a.heads, 1};
            }).find("the workspace of splits=128, exceeds 62-bit addresses: batch=1, 1048576 rows, heads=2147483648"),
            std::string::npos);
  for (int64_t AttentionArguments::*member : {&AttentionArguments::batch, &AttentionArguments::heads,
                                              &AttentionArguments::kv_heads, &AttentionArguments::q_length,
                                              &AttentionArguments::kv_length, &AttentionArguments::dim,
                                              &AttentionArguments::q_rows})
    for (const int64_t value : {INT64_MAX, INT64_MIN, int64_t{1} << 62, int64_t{-1}})
      for (const bool packed : {false, true}) {
        const std::string text = message([=](Problem& p) {
          if (packed) p.pack();
          p.a.q_rows = kMost, p.a.*member = value;
        });
        EXPECT_EQ(text.empty(), member == &AttentionArguments::q_rows && !packed) << value << " " << text;
      }
}

TEST(AttentionOffsets, RefusesWithTheValues) {
  const auto refused = [](std::vector<int32_t> offsets, int64_t most, std::initializer_list<const char*> parts,
                          int64_t rows = INT64_MAX) {
    const Status status =
        attention_check_offsets("kv", offsets.data(), static_cast<int64_t>(offsets.size()) - 1, most, rows);
    EXPECT_EQ(status.code, Code::invalid);
    for (const char* part : parts)
      EXPECT_NE(status.message.find(part), std::string::npos) << "no '" << part << "' in: " << status.message;
  };
  refused({-1, 3}, 10, {"kv offsets", "-1", "at least 0"});
  refused({0, 5, 3, 9}, 10, {"kv offsets decrease", "from 5 to 3", "sequence 1"});
  refused({0, 5, 16}, 10, {"kv offsets", "sequence 1", "11 rows", "longest", "10"});
  refused({0, INT32_MAX, INT32_MIN}, INT64_MAX, {"decrease", "2147483647 to -2147483648"});
  refused({3, 5, 14}, 10, {"kv offsets end at row 14", "13 rows"}, 13);
  for (const std::vector<int32_t>& offsets : {std::vector<int32_t>{0}, {7}, {0, 0, 0}, {3, 13, 13, 20}}) {
    const Status status = attention_check_offsets("q", offsets.data(), static_cast<int64_t>(offsets.size()) - 1, 10, 20);
    EXPECT_EQ(status.code, Code::ok) << status.message;
  }
}

}  // namespace
}  // namespace grout
