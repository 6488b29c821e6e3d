// TEST_TARGET: sm_80
// The rules of tensor maps against the driver: what check_tensor_map accepts it encodes, and what a rule of the driver's
// forbids it refuses too; and against the copy engine: what is accepted is loaded as the simulated device loads it.
#include <functional>
#include <random>

#include "tests/gpu/support.cuh"
#include "tests/kernels/tensor_load.cuh"

namespace grout::test {
namespace {

constexpr int64_t k2To32 = int64_t{1} << 32, k2To40 = int64_t{1} << 40;

class TensorMapTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    DeviceInfo info;
    ASSERT_TRUE(device_info(info));
    if (info.major < 9) GTEST_SKIP() << "needs sm_90 or later; this GPU is sm_" << info.major * 10 + info.minor;
  }
  // What the driver says of arguments that nothing has checked.
  static Status driver(const TensorMapArguments& a) {
    TensorMap map;
    return detail::encode_tiled(map, a.type, a.base, a.rank, a.extents, a.pitches, a.box, static_cast<int>(a.swizzle));
  }
};

void expect_encoded(const TensorMapArguments& a) {
  TensorMap map;
  const Status status = encode_tensor_map(map, a);
  EXPECT_TRUE(status) << status.message;
}

TEST_F(TensorMapTest, TheDriverEncodesWhatIsAccepted) {
  for (int rank = 1; rank <= 3; ++rank) expect_encoded(legal_tensor_map(rank));
  for (int i = 0; i < 3; ++i) {
    TensorMapArguments a = legal_tensor_map(3);
    a.extents[0] = a.extents[1] = a.extents[2] = 1;
    a.extents[i] = k2To32;
    a.pitches[1] = a.pitches[2] = i == 0 ? 2 * k2To32 : 144;
    expect_encoded(a);
    a.extents[i] = 1;
    a.pitches[1] = a.pitches[2] = k2To40 - 16;
    expect_encoded(a);
    a.swizzle = TensorSwizzle::none;
    a.box[0] = a.box[1] = a.box[2] = 8;
    a.box[i] = 256;
    expect_encoded(a);
  }
  TensorMapArguments a = legal_tensor_map(3);  // slices beside one another in a row
  a.pitches[1] = 720, a.pitches[2] = 144;
  expect_encoded(a);
  a = legal_tensor_map(3);  // 227 KB
  a.type = ElementType::f32, a.swizzle = TensorSwizzle::none, a.pitches[1] = 272, a.pitches[2] = 272 * 97;
  a.box[0] = 64, a.box[1] = 227, a.box[2] = 4;
  expect_encoded(a);
  a = legal_tensor_map(2);  // a box larger than the matrix
  a.extents[0] = a.extents[1] = 1;
  expect_encoded(a);
}
TEST_F(TensorMapTest, RowsOfTheBoxAsTheDriver) {
  int accepted = 0;
  for (const ElementType type : {ElementType::bf16, ElementType::f16, ElementType::f32}) {
    for (const TensorSwizzle swizzle :
         {TensorSwizzle::none, TensorSwizzle::b32, TensorSwizzle::b64, TensorSwizzle::b128}) {
      for (int columns = 0; columns <= 257; ++columns) {
        TensorMapArguments a = legal_tensor_map(2);
        a.type = type, a.swizzle = swizzle, a.box[0] = columns, a.pitches[1] = 4096;
        const bool ours = static_cast<bool>(check_tensor_map(a));
        const auto bytes = columns * static_cast<int>(element_bytes(type));
        const bool shorter = bytes > 0 && bytes % 16 == 0 && bytes < swizzle_span(swizzle);  // a rule of ours
        EXPECT_EQ(static_cast<bool>(driver(a)), ours || shorter) << describe(a);
        accepted += ours;
      }
    }
  }
  EXPECT_EQ(accepted, 2 * (32 + 3) + (64 + 3));
}
TEST_F(TensorMapTest, TheDriverRefusesItsOwnRules) {
  const auto expect = [](const char* what, int rank, const std::function<void(TensorMapArguments&)>& change) {
    TensorMapArguments a = legal_tensor_map(rank);
    ASSERT_TRUE(driver(a)) << what;
    change(a);
    EXPECT_EQ(check_tensor_map(a).code, Code::invalid) << what << ": " << describe(a);
    EXPECT_EQ(driver(a).code, Code::device_error) << what << ": " << describe(a);
  };
  expect("rank 0", 1, [](auto& a) { a.rank = 0; });
  for (const int off : {1, 2, 4, 8, 15})
    expect("base", 2, [&](auto& a) { a.base = static_cast<const char*>(a.base) + off; });
  for (int i = 0; i < 3; ++i) {
    for (const int64_t extent : {int64_t{0}, int64_t{-1}, k2To32 + 1})
      expect("extent", 3, [&](auto& a) { a.extents[i] = extent; });
    for (const int box : {0, -8, 264})
      expect("box", 3, [&](auto& a) { a.swizzle = TensorSwizzle::none, a.box[i] = box; });
  }
  for (int i = 1; i < 3; ++i) {
    for (const int64_t pitch : {int64_t{144 * 97 + 8}, int64_t{144 * 97 + 1}, k2To40, k2To40 + 16, int64_t{-16}})
      expect("pitch", 3, [&](auto& a) { a.extents[1] = a.extents[2] = 1, a.pitches[i] = pitch; });
  }
}
TEST_F(TensorMapTest, TheDriverEncodesRandomOnes) {
  std::mt19937_64 random(7);
  const auto up_to = [&](int64_t last) { return static_cast<int64_t>(random() % static_cast<uint64_t>(last)) + 1; };
  int accepted = 0;
  for (int trial = 0; trial < cases(100000, 1000); ++trial) {
    TensorMapArguments a;
    a.type = static_cast<ElementType>(random() % 3);
    a.rank = static_cast<int>(up_to(3));
    a.base = reinterpret_cast<const void*>(static_cast<uintptr_t>(0x7000000000 + 16 * up_to(1 << 20)));
    a.swizzle = static_cast<TensorSwizzle>(random() % 4);
    for (int i = 0; i < a.rank; ++i) {
      a.extents[i] = up_to(random() % 2 ? 20 : k2To32);
      a.box[i] = static_cast<int>(i == 0 ? 4 * up_to(32) : up_to(random() % 2 ? 16 : 256));
      if (i == 0 && a.swizzle != TensorSwizzle::none) a.box[i] = swizzle_span(a.swizzle) / static_cast<int>(element_bytes(a.type));
      if (i > 0) a.pitches[i] = 16 * up_to(random() % 2 ? 100 : k2To40 / 16 - 1);
    }
    if (!check_tensor_map(a)) continue;
    ++accepted;
    expect_encoded(a);
  }
  EXPECT_GT(accepted, cases(3000, 10));
}

// The cases of tests/host/tensor_map_test.cpp: slices beside one another, boxes whose last line is not full, starts outside.
TEST_F(TensorMapTest, TheEngineLoadsWhatIsAccepted) {
  std::mt19937 random(9);
  std::vector<uint8_t> memory(kTensorLoadMemory);
  for (uint8_t& byte : memory) byte = static_cast<uint8_t>(1 + random() % 255);
  uint8_t *source = nullptr, *out = nullptr;
  constexpr size_t kOut = 128 * 1024;
  ASSERT_EQ(cudaMalloc(&source, memory.size()), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&out, kOut), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(source, memory.data(), memory.size(), cudaMemcpyHostToDevice), cudaSuccess);
  int loaded = 0, wrong = 0;
  for (const auto& [a, start] : tensor_load_cases(cases(4000, 100), source)) {
    const std::vector<uint8_t> expected = expected_box(a, start, memory);
    std::vector<uint8_t> found(expected.size());
    ASSERT_LE(found.size(), kOut);
    TensorMap map;
    const Status encoded = encode_tensor_map(map, a);
    ASSERT_TRUE(encoded) << encoded.message;
    ASSERT_EQ(cudaMemset(out, 0, kOut), cudaSuccess);
    const Status status =
        tensor_load(map, a.rank, start, out, static_cast<uint32_t>(box_bytes(a)), static_cast<uint32_t>(found.size()));
    ASSERT_TRUE(status) << status.message;
    ASSERT_EQ(cudaMemcpy(found.data(), out, found.size(), cudaMemcpyDeviceToHost), cudaSuccess) << describe(a);
    ++loaded;
    if (found == expected) continue;
    size_t at = 0;
    while (found[at] == expected[at]) ++at;
    ADD_FAILURE() << describe(a) << ", loaded at " << start[0] << ", " << start[1] << ", " << start[2] << ": byte "
                  << at << " is " << int{found[at]} << ", expected " << int{expected[at]};
    if (++wrong == 20) break;  // enough to see which
  }
  EXPECT_GT(loaded, cases(500, 10));
  EXPECT_EQ(cudaFree(source), cudaSuccess);
  EXPECT_EQ(cudaFree(out), cudaSuccess);
}

}  // namespace
}  // namespace grout::test
