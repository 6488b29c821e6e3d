// The show tool's JSON, against the formulas of the instruction set written out here, the plans that the kernels use and
// what the simulated device does.
#include "common/copy.cuh"
#include "tests/host/show_run.h"
#include "tests/kernels/tensor_load.cuh"

namespace grout::show {
namespace {

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

}  // namespace
}  // namespace grout::show
