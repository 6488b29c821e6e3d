// The GEMM's host side: what gemm refuses and with which words, and what it accepts. gemm_host_kernels.cpp: tiles, kernels
// and the choice between them. Nothing here launches a kernel.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "gemm/gemm.cuh"

namespace grout {
namespace {

// A valid 5 x 7 x 3 problem of bf16, one batch, in separate memory of 4096 elements each.
struct Problem {
  std::vector<uint16_t> memory = std::vector<uint16_t>(5 * 4096 + 64);
  GemmArguments g;
  uint16_t* at(int part) {
    const auto start = (reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t{63};
    return reinterpret_cast<uint16_t*>(start) + part * 4096;
  }
  Problem() {
    g = {.m = 5,
         .n = 7,
         .k = 3,
         .a = at(0),
         .b = at(1),
         .c = at(2),
         .d = at(3),
         .lda = 3,
         .ldb = 7,
         .ldc = 7,
         .beta = 1};
  }
};

void expect_accepted(const std::function<void(Problem&)>& change) {
  Problem p;
  change(p);
  const Status status = gemm_check(p.g);
  EXPECT_EQ(status.code, Code::ok) << status.message;
}
// Refused with code 2 and one sentence that contains every part.
void expect_refused(const std::function<void(Problem&)>& change, std::initializer_list<const char*> parts) {
  Problem p;
  change(p);
  const Status status = gemm_check(p.g);
  EXPECT_EQ(status.code, Code::invalid);
  EXPECT_EQ(exit_code(status), 2);
  for (const char* part : parts)
    EXPECT_NE(status.message.find(part), std::string::npos) << "no '" << part << "' in: " << status.message;
  EXPECT_EQ(status.message.find('\n'), std::string::npos);
  // gemm itself says the same, and writes nothing.
  const std::vector<uint16_t> before = p.memory;
  GemmChoice choice;
  const Status again = gemm(p.g, nullptr, &choice);
  EXPECT_EQ(again.code, status.code);
  EXPECT_EQ(again.message, status.message);
  EXPECT_EQ(before, p.memory);
  EXPECT_STREQ(choice.kernel, "none");
}

TEST(GemmCheck, AcceptsTheBase) {
  expect_accepted([](Problem&) {});
}

TEST(GemmCheck, Extents) {
  expect_refused([](Problem& p) { p.g.m = -1; }, {"M=-1", "N=7", "K=3", "at least 0"});
  expect_refused([](Problem& p) { p.g.n = -5; }, {"M=5", "N=-5", "K=3"});
  expect_refused([](Problem& p) { p.g.k = INT64_MIN; }, {"K=-9223372036854775808"});
  expect_refused([](Problem& p) { p.g.batch = -2; }, {"batch=-2", "at least 0"});
}

TEST(GemmCheck, Types) {
  expect_refused([](Problem& p) { p.g.type = ElementType::f32, p.g.kernel = GemmKernel::mma; }, {"mma", "f32", "simt"});
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    expect_refused([=](Problem& p) { p.g.type = type, p.g.kernel = GemmKernel::simt; }, {"simt", element_name(type), "mma"});
  for (const ElementType out : {ElementType::bf16, ElementType::f16, ElementType::f32}) {
    expect_accepted([=](Problem& p) { p.g.out = out; });
    expect_accepted([=](Problem& p) { p.g.out = out, p.g.type = ElementType::f16; });
    expect_accepted([=](Problem& p) { p.g.out = out, p.g.type = ElementType::f32; });
  }
}

TEST(GemmCheck, Pitches) {
  expect_refused([](Problem& p) { p.g.lda = 2; }, {"lda=2", "A", "3 elements"});
  expect_refused([](Problem& p) { p.g.ldb = 6; }, {"ldb=6", "B", "7 elements"});
  expect_refused([](Problem& p) { p.g.ldc = 6; }, {"ldc=6", "7 elements"});
  expect_refused([](Problem& p) { p.g.lda = -3; }, {"lda=-3"});
  // Transposed operands have other rows: A is K x M, B is N x K.
  expect_refused([](Problem& p) { p.g.trans_a = true, p.g.lda = 4; }, {"lda=4", "5 elements"});
  expect_refused([](Problem& p) { p.g.trans_b = true, p.g.ldb = 2; }, {"ldb=2", "3 elements"});
  expect_accepted([](Problem& p) { p.g.trans_a = true, p.g.lda = 5; });
  expect_accepted([](Problem& p) { p.g.trans_b = true, p.g.ldb = 3; });
  for (int more = 0; more < 8; ++more)
    expect_accepted([=](Problem& p) { p.g.lda += more, p.g.ldb += 2 * more, p.g.ldc += 3 * more; });
}

TEST(GemmCheck, Nulls) {
  expect_refused([](Problem& p) { p.g.a = nullptr; }, {"A is null"});
  expect_refused([](Problem& p) { p.g.b = nullptr; }, {"B is null"});
  expect_refused([](Problem& p) { p.g.c = nullptr; }, {"C is null"});
  expect_refused([](Problem& p) { p.g.d = nullptr; }, {"D is null"});
}

TEST(GemmCheck, NullsThatNothingTouches) {
  expect_accepted([](Problem& p) { p.g.beta = 0, p.g.c = nullptr; });
  expect_accepted([](Problem& p) { p.g.beta = -0.f, p.g.c = nullptr; });
  expect_accepted([](Problem& p) { p.g.alpha = 0, p.g.a = p.g.b = nullptr; });
  expect_accepted([](Problem& p) { p.g.k = 0, p.g.lda = 0, p.g.a = p.g.b = nullptr; });
  expect_accepted([](Problem& p) { p.g.k = 0, p.g.lda = 0, p.g.a = p.g.b = p.g.c = nullptr, p.g.beta = 0; });
  for (int64_t GemmArguments::*extent : {&GemmArguments::m, &GemmArguments::n, &GemmArguments::batch})
    expect_accepted([=](Problem& p) { p.g.*extent = 0, p.g.a = p.g.b = p.g.c = nullptr, p.g.d = nullptr; });
  // NaN is a beta that reads C.
  expect_refused([](Problem& p) { p.g.beta = __builtin_nanf(""), p.g.c = nullptr; }, {"C is null"});
  expect_refused([](Problem& p) { p.g.alpha = __builtin_nanf(""), p.g.a = nullptr; }, {"A is null"});
}

TEST(GemmCheck, Alignment) {
  const auto moved = [](const void* pointer, int bytes) { return static_cast<const unsigned char*>(pointer) + bytes; };
  expect_refused([=](Problem& p) { p.g.a = moved(p.g.a, 1); }, {"A is not aligned", "bf16", "2 bytes"});
  expect_refused([=](Problem& p) { p.g.b = moved(p.g.b, 3), p.g.type = ElementType::f16; },
                 {"B is not aligned", "f16", "2 bytes"});
  expect_refused([=](Problem& p) { p.g.c = moved(p.g.c, 1); }, {"C is not aligned"});
  expect_refused([=](Problem& p) { p.g.d = const_cast<unsigned char*>(moved(p.g.d, 2)), p.g.out = ElementType::f32; },
                 {"D is not aligned", "f32", "4 bytes"});
  for (int elements = 1; elements < 8; ++elements)  // any element address is fine
    expect_accepted([=](Problem& p) {
      p.g.a = moved(p.g.a, 2 * elements), p.g.b = moved(p.g.b, 2 * elements), p.g.c = moved(p.g.c, 2 * elements);
    });
}

TEST(GemmCheck, Overflow) {
  expect_refused([](Problem& p) { p.g.lda = int64_t{1} << 61; }, {"A", "lda=2305843009213693952", "63-bit"});
  expect_refused([](Problem& p) { p.g.m = p.g.k = int64_t{1} << 35, p.g.lda = int64_t{1} << 35; }, {"63-bit"});
  expect_refused([](Problem& p) { p.g.m = int64_t{1} << 36; }, {"2^35", "M=68719476736", "N=7", "K=3"});
  expect_refused([](Problem& p) { p.g.batch = int64_t{1} << 40, p.g.batch_a = int64_t{1} << 40; },
                 {"A", "1099511627776 matrices", "63-bit"});
  expect_refused([](Problem& p) { p.g.batch = 2, p.g.batch_a = INT64_MAX; }, {"A", "63-bit"});
  expect_refused([](Problem& p) { p.g.batch = 2, p.g.batch_a = INT64_MIN; }, {"A", "63-bit"});
  // The smallest number has no magnitude: beside a long matrix it must not cancel it.
  expect_refused([](Problem& p) { p.g.m = 2, p.g.lda = int64_t{1} << 62, p.g.batch = 2, p.g.batch_a = INT64_MIN; },
                 {"A", "63-bit"});
  // Large, but addressable (3 rows of 2^55 elements); no memory is touched.
  expect_accepted([](Problem& p) {
    p.g.k = 3, p.g.ldb = int64_t{1} << 33;
    p.g.d = reinterpret_cast<void*>(uintptr_t{1} << 60);
  });
}

TEST(GemmCheck, OutputOverOperands) {
  expect_refused([](Problem& p) { p.g.d = const_cast<void*>(p.g.a); }, {"D overlaps A"});
  expect_refused([](Problem& p) { p.g.d = const_cast<void*>(p.g.b); }, {"D overlaps B"});
  // By a single element at either end: A is 5 x 3 (15 elements), D 5 x 7 (35).
  expect_refused([](Problem& p) { p.g.d = p.at(0) + 14; }, {"D overlaps A"});
  expect_accepted([](Problem& p) { p.g.d = p.at(0) + 15; });
  expect_refused([](Problem& p) { p.g.d = p.at(1) - 34; }, {"D overlaps B"});
  expect_accepted([](Problem& p) { p.g.d = p.at(1) - 35; });
  // The padding behind the last row belongs to nobody.
  expect_accepted([](Problem& p) { p.g.lda = 100, p.g.d = p.at(0) + 4 * 100 + 3; });
  // A and B may overlap each other, and C; what is not read may lie anywhere.
  expect_accepted([](Problem& p) { p.g.a = p.g.b = p.g.c; });
  expect_accepted([](Problem& p) { p.g.alpha = 0, p.g.d = const_cast<void*>(p.g.a); });
  expect_accepted([](Problem& p) { p.g.k = 0, p.g.d = const_cast<void*>(p.g.b); });
}

TEST(GemmCheck, OutputOverC) {
  expect_accepted([](Problem& p) { p.g.d = const_cast<void*>(p.g.c); });
  expect_refused([](Problem& p) { p.g.d = p.at(2) + 1; }, {"D overlaps C"});
  expect_refused([](Problem& p) { p.g.d = p.at(2) - 34; }, {"D overlaps C"});
  expect_accepted([](Problem& p) { p.g.d = p.at(2) + 35; });
  expect_accepted([](Problem& p) { p.g.beta = 0, p.g.d = p.at(2) + 1; });  // C is not read
  // In place in a batch: the same stride, else a later matrix would read what an earlier one wrote.
  const auto in_place = [](int64_t batch_c, int64_t batch_d) {
    return [=](Problem& p) {
      p.g.d = const_cast<void*>(p.g.c), p.g.batch = 3, p.g.batch_c = batch_c, p.g.batch_d = batch_d;
    };
  };
  expect_accepted(in_place(40, 40));
  expect_refused(in_place(0, 40), {"D overlaps C"});
  expect_refused(in_place(80, 40), {"D overlaps C"});
}

TEST(GemmCheck, Batches) {
  const auto batched = [](int64_t batch, int64_t stride, int64_t ldc) {
    return [=](Problem& p) { p.g.batch = batch, p.g.batch_d = stride, p.g.ldc = ldc, p.g.beta = 0; };
  };
  expect_accepted(batched(3, 35, 7));
  expect_refused(batched(3, 34, 7), {"matrices of D may overlap", "batch stride 34", "M=5", "N=7", "ldc=7"});
  expect_refused(batched(3, 0, 7), {"matrices of D may overlap", "batch stride 0"});
  expect_accepted(batched(1, 0, 7));
  expect_accepted([&](Problem& p) { batched(3, -35, 7)(p), p.g.d = p.at(3) + 100; });  // backwards
  expect_refused(batched(3, -34, 7), {"batch stride -34"});
  // Side by side in rows of a wide matrix: matrix i in columns 7 i to 7 i + 6.
  expect_accepted(batched(3, 7, 21));
  expect_accepted(batched(3, 8, 23));
  expect_refused(batched(3, 6, 21), {"matrices of D may overlap"});
  expect_refused(batched(3, 8, 22), {"matrices of D may overlap"});
  // A and B of a batch may repeat or overlap as they like.
  expect_accepted([&](Problem& p) { batched(3, 35, 7)(p), p.g.batch_a = 0, p.g.batch_b = 1; });
  // A batch of D runs into A, forwards and backwards.
  expect_refused(
      [&](Problem& p) {
        batched(3, 4096, 7)(p), p.g.d = p.at(-2);
        p.g.a = p.at(0) + 34;
      },
      {"D overlaps A"});
  expect_refused(
      [&](Problem& p) {
        batched(3, -4096, 7)(p), p.g.d = p.at(2);
        p.g.a = p.at(0), p.g.lda = 7;
      },
      {"D overlaps"});
}

// Columns of one wide matrix lie between one another's rows.
TEST(GemmCheck, NeighbouringColumnsDoNotOverlap) {
  const auto beside = [](int64_t elements) {  // A is 5 x 3 in rows of 40; D, 5 x 7, starts so many elements from A
    return [=](Problem& p) {
      p.g.lda = 40, p.g.ldc = 40, p.g.beta = 0, p.g.c = nullptr;
      p.g.b = p.at(3);
      p.g.a = p.at(1), p.g.d = p.at(1) + elements;
    };
  };
  for (const int64_t apart : {3, 10, 33, 43, 73, -7, -37, -47, -77}) expect_accepted(beside(apart));
  for (const int64_t apart : {0, 1, 2, 34, 39, 40, 42, 74, -6, -1, -40, -38, -46, -78})
    expect_refused(beside(apart), {"D overlaps A"});
}

TEST(GemmCheck, ManyMatrices) {  // more than a grid's y or z could count
  for (const int64_t batch : {int64_t{65535}, int64_t{65536}, int64_t{1} << 33})
    expect_accepted([=](Problem& p) {
      p.g.batch = batch, p.g.batch_d = 35, p.g.beta = 0;
      p.g.d = reinterpret_cast<void*>(uintptr_t{1} << 61);
    });
}

// ---- bounds=false, refused before anything is launched ----

void expect_unbounded_refused(const std::function<void(GemmArguments&)>& change,
                              std::initializer_list<const char*> parts) {
  GemmArguments g{.m = 64,
                  .n = 64,
                  .k = 32,
                  .a = reinterpret_cast<void*>(uintptr_t{1} << 40),
                  .b = reinterpret_cast<void*>(uintptr_t{2} << 40),
                  .d = reinterpret_cast<void*>(uintptr_t{3} << 40),
                  .lda = 32,
                  .ldb = 64,
                  .ldc = 64,
                  .bounds = GemmBounds::none};
  change(g);
  const Status status = gemm(g, nullptr);  // the pointers lead nowhere: a launch would crash
  EXPECT_EQ(status.code, Code::invalid) << status.message;
  for (const char* part : parts)
    EXPECT_NE(status.message.find(part), std::string::npos) << "no '" << part << "' in: " << status.message;
}
TEST(GemmUnbounded, RefusesWithTheValues) {
  expect_unbounded_refused([](GemmArguments& g) { g.m = 65; }, {"bounds=false", "M=65", "N=64", "K=32", "full tiles"});
  expect_unbounded_refused([](GemmArguments& g) { g.n = 63; }, {"N=63"});
  expect_unbounded_refused([](GemmArguments& g) { g.k = 31; }, {"K=31"});
  expect_unbounded_refused([](GemmArguments& g) { g.lda = 33; }, {"bounds=false", "lda=33", "16"});
  expect_unbounded_refused([](GemmArguments& g) { g.ldb = 68; }, {"ldb=68"});
  expect_unbounded_refused([](GemmArguments& g) { g.ldc = 65; }, {"ldc=65"});
  expect_unbounded_refused([](GemmArguments& g) { g.a = static_cast<const uint16_t*>(g.a) + 4; }, {"base address"});
  expect_unbounded_refused([](GemmArguments& g) { g.d = static_cast<uint16_t*>(g.d) + 1; }, {"base address"});
}
TEST(GemmUnbounded, EmptiesSucceedWithoutALaunch) {
  for (int64_t GemmArguments::*extent : {&GemmArguments::m, &GemmArguments::n, &GemmArguments::batch}) {
    GemmArguments g{.m = 64, .n = 64, .k = 32, .lda = 32, .ldb = 64, .ldc = 64};
    g.*extent = 0;
    GemmChoice choice;
    const Status status = gemm(g, nullptr, &choice);
    EXPECT_EQ(status.code, Code::ok) << status.message;
    EXPECT_STREQ(choice.kernel, "none");
    EXPECT_EQ(choice.tiles, 0);
  }
}

}  // namespace
}  // namespace grout
