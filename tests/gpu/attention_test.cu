// TEST_TARGET: sm_80
// Attention on the GPU: seeded cases against CPU fp64, large ones against a device-side fp64 reference and cuBLAS in three
// steps, published bug reports as cases, graphs, streams and threads. attention_sweep_test.cu has thousands of small cases.
//
// --seed=S chooses the 30 random configurations (default: 1; GROUT_TEST_SEED does the same).
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "common/check_attention_gpu.cuh"
#include "tests/gpu/support.cuh"
#include "tests/kernels/attention_cases.cuh"
#include "tests/kernels/attention_edges.cuh"
#include "tests/kernels/attention_published.cuh"

namespace grout::test {
namespace {

uint64_t chosen_seed = 1;
constexpr size_t kGuard = 256;
const auto as_is = [](const AttentionCase&) {};

class AttentionGpu : public GpuTest {};

TEST_F(AttentionGpu, SeededCases) {
  std::vector<int64_t> lengths = kAttentionLengths;
  for (const int64_t more : {255, 257, 384, 513}) lengths.push_back(more);
  const int count = cases(800, 40);
  FactorCounts factors;
  int ran = 0, failed = 0;
  for (const AttentionCase& x : attention_cases(count, 5, short_run() ? 16e6 : INFINITY, lengths)) {
    AttentionChoice choice;
    if (!AttentionData(x).right(&choice) && ++failed > 10) FAIL() << "more than 10 cases failed";
    count_attention_factors(factors, x, choice);
    ++ran;
  }
  std::printf("%d cases\n", ran);
  EXPECT_EQ(ran, count);
  if (short_run()) return;
  factors.print();
  expect_attention_factors(factors, lengths);
  EXPECT_EQ(factors.missing(), "") << "values that never occurred";
}

TEST_F(AttentionGpu, PaddingChangesNoBit) {
  for (const AttentionCase& x : attention_cases(cases(120, 12), 2, INFINITY, {1, 7, 17, 33, 64, 65, 97, 200})) {
    std::vector<unsigned char> first;
    for (const uint16_t padding :
         {uint16_t{0xffff}, uint16_t{0}, static_cast<uint16_t>(x.type == ElementType::bf16 ? 0x7f80 : 0x7c00)}) {
      AttentionData data(x, kGuard, padding);
      ASSERT_TRUE(run_attention(data.call(), nullptr));
      if (first.empty()) first = data.bits();
      EXPECT_EQ(first, data.bits()) << data.describe() << " with padding " << padding;
    }
  }
}

// ---- published reports, masks, exact results ----------------------------------------------------------------------

TEST_F(AttentionGpu, LiteralMasks) { expect_literal_masks(as_is, kGuard); }
TEST_F(AttentionGpu, CausalWithDifferentLengths) { expect_causal_with_different_lengths(as_is, kGuard); }
TEST_F(AttentionGpu, QueriesThatSeeNoKey) { expect_zeros_where_no_key_is_seen(as_is, kGuard); }
TEST_F(AttentionGpu, NoKeys) { expect_zeros_without_keys(as_is, kGuard); }
TEST_F(AttentionGpu, OneKeyGivesItsValue) { expect_one_key_gives_its_value(as_is, kGuard); }
TEST_F(AttentionGpu, EqualLogitsGiveTheMeanExactly) { expect_equal_logits_give_the_mean(as_is, kGuard); }
TEST_F(AttentionGpu, MisalignedBases) { expect_misaligned_bases_are_right(as_is, kGuard); }
TEST_F(AttentionGpu, RowsPastTheEndDoNotMatter) { expect_rows_past_the_end_do_not_matter(as_is, kGuard); }
TEST_F(AttentionGpu, VeryLowLogits) { expect_very_low_logits_are_right(as_is, kGuard); }
TEST_F(AttentionGpu, RisingAndFallingLogits) { expect_rising_and_falling_logits_are_right(as_is, kGuard); }
TEST_F(AttentionGpu, PackedSequencesOfOneQuery) { expect_packed_sequences_of_one_query_are_right(as_is, kGuard); }
TEST_F(AttentionGpu, PackedSequencesAroundTiles) { expect_packed_sequences_around_tiles_are_right(as_is, kGuard); }
TEST_F(AttentionGpu, AnyStride) { expect_any_stride_is_right(as_is, kGuard); }
TEST_F(AttentionGpu, MorePartsThanKeys) { expect_more_parts_than_keys_are_right(as_is, kGuard); }
TEST_F(AttentionGpu, SmallerDevices) { expect_smaller_devices_are_right(as_is, kGuard); }
TEST_F(AttentionGpu, ManyHeadsOnOne) { expect_many_heads_on_one_are_right(as_is, kGuard); }

// Shared memory still holds NaN from the launch before, where a short sequence's tile is not full.
TEST_F(AttentionGpu, StaleSharedMemoryDoesNotMatter) {
  for (const int64_t dim : {33, 64, 128, 256}) {
    AttentionCase dirty;
    dirty.batch = 64, dirty.heads = dirty.kv_heads = 8, dirty.q_length = dirty.kv_length = 256, dirty.dim = dim;
    AttentionData before(dirty);
    for (HostHeads* operand : {&before.f.q, &before.f.k, &before.f.v})
      std::fill(operand->memory.begin(), operand->memory.end(), uint16_t{0xffff});
    before.f.upload();
    for (const int64_t keys : {1, 15, 33, 63, 65}) {
      AttentionCase x = dirty;
      x.q_length = 5, x.kv_length = keys;
      AttentionData data(x);
      ASSERT_TRUE(run_attention(before.call(), nullptr));
      data.right();
    }
  }
}

// More sequences and heads than a grid's y or z extent holds, one query each.
TEST_F(AttentionGpu, ManySequencesAndHeads) {
  const int64_t many = short_run() ? 300 : 65536;
  for (const auto& [batch, heads, kv_heads] : {std::tuple<int64_t, int64_t, int64_t>{1, many + 1, 1},
                                               {1, many, many},
                                               {many, 1, 1},
                                               {many + 1, 1, 1},
                                               {many / 4 + 1, 4, 2}}) {
    AttentionCase x;
    x.batch = batch, x.heads = heads, x.kv_heads = kv_heads, x.q_length = 1, x.kv_length = 3, x.dim = 16;
    AttentionData(x).right();
    x.splits = 2, x.kv_length = 130, x.dim = 8;
    AttentionData(x).right();
  }
}

// 32-bit offsets: rows, heads or sequences 2^30 + 7 elements apart, one operand at a time.
TEST_F(AttentionGpu, RowsBeyondTwoToThe31Elements) {
  constexpr int64_t kFar = (int64_t{1} << 30) + 7;
  constexpr size_t kBytes = static_cast<size_t>(2 * kFar + 64) * 2;
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  if (short_run() || free_bytes < kBytes + (1u << 30)) GTEST_SKIP() << "needs " << kBytes << " bytes of GPU memory";
  const DeviceBuffer far_memory(kBytes);
  for (int which = 0; which < 4; ++which)
    for (int axis = 0; axis < 3; ++axis) {
      AttentionCase x;
      x.batch = axis == 0 ? 3 : 1, x.q_length = x.kv_length = axis == 1 ? 3 : 2, x.heads = x.kv_heads = axis == 2 ? 3 : 2,
      x.dim = 8;
      AttentionData data(x);
      AttentionArguments a = data.call();
      const AttentionStrides far = axis == 0   ? AttentionStrides{kFar, 24, 8}
                                   : axis == 1 ? AttentionStrides{0, kFar, 8}
                                               : AttentionStrides{0, 8, kFar};
      const HostHeads& operand = *std::array{&data.f.q, &data.f.k, &data.f.v, &data.f.o}[static_cast<size_t>(which)];
      HostHeads got = data.f.o;
      const auto each_row = [&](const auto& f) {
        for (int64_t b = 0; b < x.batch; ++b)
          for (int64_t r = 0; r < x.q_length; ++r)
            for (int64_t h = 0; h < x.heads; ++h)
              f(far_memory.as<uint16_t>() + b * far.batch + r * far.row + h * far.head, operand.place(b, r, h, 0));
      };
      each_row([&](uint16_t* row, size_t place) {
        require_success(cudaMemcpy(row, &operand.memory[place], 16, cudaMemcpyHostToDevice), "upload");
      });
      *std::array{&a.q_stride, &a.k_stride, &a.v_stride, &a.o_stride}[static_cast<size_t>(which)] = far;
      if (which == 3)
        a.o = far_memory.data();
      else
        *std::array{&a.q, &a.k, &a.v}[static_cast<size_t>(which)] = far_memory.data();
      const Status status = run_attention(a, nullptr);
      ASSERT_TRUE(status) << status.message;
      if (which < 3)
        got = data.f.output();
      else
        each_row([&](uint16_t* row, size_t place) {
          require_success(cudaMemcpy(&got.memory[place], row, 16, cudaMemcpyDeviceToHost), "download");
        });
      const AttentionComparison result =
          compare_attention(data.f.reference(), got, data.f.o, data.f.lse_output(), data.f.lse, false,
                            "operand " + std::to_string(which) + ", axis " + std::to_string(axis));
      EXPECT_TRUE(result.pass()) << result.message;
    }
}

// A long cache with wide rows: row 225304 of rows 9728 elements apart. K and V are the first two of 76 heads of 128
// elements.
TEST_F(AttentionGpu, LongCacheOfWideRows) {
  constexpr int64_t kRows = 225305, kStride = 9728;
  constexpr size_t kBytes = static_cast<size_t>(kRows * kStride) * 2;
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  if (short_run() || free_bytes < kBytes + (1u << 30)) GTEST_SKIP() << "needs " << kBytes << " bytes of GPU memory";
  AttentionCase x;
  x.heads = 2, x.kv_heads = 1, x.q_length = 3, x.kv_length = kRows, x.dim = 128, x.causal = true, x.spread = 8;
  AttentionData data(x);
  const AttentionJudge judge(data.f, describe(x));
  const DeviceBuffer wide(kBytes);
  for (const auto& [head, from] : {std::pair{0, &data.f.device_k}, std::pair{1, &data.f.device_v}})
    require_success(
        cudaMemcpy2D(wide.as<uint16_t>() + head * 128, kStride * 2, from->data(), 256, 256, kRows, cudaMemcpyDeviceToDevice),
        "cudaMemcpy2D");
  for (const int splits : {0, 1, 128}) {
    data.f.reset();
    AttentionArguments a = data.call();
    a.k = wide.data(), a.v = wide.as<uint16_t>() + 128, a.k_stride = a.v_stride = {0, kStride, 128}, a.splits = splits;
    const Status status = run_attention(a, nullptr);
    ASSERT_TRUE(status) << status.message;
    const AttentionComparison result = verify_attention_on_gpu(data.f, judge);
    EXPECT_TRUE(result.pass()) << result.message;
  }
}

// ---- streams, graphs, threads, repeats ------------------------------------------------------------------------------

TEST_F(AttentionGpu, RepeatsAreBitIdentical) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16})
    for (const int splits : {0, 1, 3, 7})
      for (const int64_t pad : {0, 1}) {
        AttentionCase x;
        x.q_length = 129, x.kv_length = 1000, x.dim = 128, x.heads = 8, x.kv_heads = 2, x.causal = true, x.splits = splits,
        x.type = type;
        x.spread = 4, x.k.pads.inner = x.v.pads.inner = pad;
        AttentionData data(x);
        std::vector<unsigned char> first;
        for (int i = 0; i < cases(200, 10); ++i) {
          data.f.reset();
          ASSERT_TRUE(run_attention(data.call(), nullptr));
          if (i == 0) first = data.bits();
          ASSERT_EQ(first, data.bits()) << "repeat " << i;
        }
      }
}

TEST_F(AttentionGpu, CapturesInAGraph) {
  for (const int splits : {1, 3}) {  // with parts: workspace that is allocated and freed in stream order
    AttentionCase x;
    x.q_length = 70, x.kv_length = 500, x.heads = 4, x.kv_heads = 2, x.causal = true, x.splits = splits;
    AttentionData data(x);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    const Status status = run_attention(data.call(), stream);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_TRUE(status) << status.message;
    EXPECT_EQ(data.f.output().memory, data.f.o.memory) << "captured, not run";
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    for (int i = 0; i < 3; ++i) {
      data.f.reset();
      ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
      const AttentionComparison result = data.verify();
      EXPECT_TRUE(result.pass()) << result.message;
    }
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
}

// Two streams and four host threads at once, each with problems of its own.
TEST_F(AttentionGpu, StreamsAndThreadsDoNotMeet) {
  constexpr int kThreads = 4;
  std::vector<std::string> problems(kThreads);
  const auto work = [&](int number) {
    std::string& problem = problems[static_cast<size_t>(number)];
    cudaStream_t streams[2];
    for (cudaStream_t& s : streams)
      require_success(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreate");
    std::vector<std::unique_ptr<AttentionData>> data;
    for (const AttentionCase& x :
         attention_cases(cases(24, 4), static_cast<uint64_t>(100 + number), 64e6, {1, 17, 64, 97, 128, 257}))
      data.push_back(std::make_unique<AttentionData>(x));
    require_success(cudaDeviceSynchronize(), "upload");
    for (size_t i = 0; i < data.size(); ++i)
      if (const Status status = run_attention(data[i]->call(), streams[i % 2]); !status) problem += status.message;
    for (cudaStream_t s : streams) require_success(cudaStreamSynchronize(s), "a stream");
    for (const auto& d : data)
      if (const AttentionComparison result = d->verify(); !result.pass()) problem += result.message;
    for (cudaStream_t s : streams) (void)cudaStreamDestroy(s);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
}

// ---- large ----------------------------------------------------------------------------------------------------------

// Runs and verifies on the device; of unpacked problems, also against the error of cuBLAS in three steps. The ratio of error
// to bound.
double expect_right_on_gpu(const AttentionCase& x, const std::string& context, bool unfused) {
  AttentionData data(x);
  AttentionChoice choice;
  const Status status = run_attention(data.call(), nullptr, &choice);
  EXPECT_TRUE(status) << context << ": " << data.describe() << ": " << status.message;
  if (!status) return 0;
  const AttentionJudge judge(data.f, context + ", " + describe(x));
  const AttentionComparison result = verify_attention_on_gpu(data.f, judge);
  EXPECT_TRUE(result.pass()) << result.message;
  double of_cublas = NAN;
  if (unfused && !data.f.problem.packed() && x.kv_length > 0) {
    const UnfusedAttention three_steps(data.f.problem);
    const DeviceBuffer o(data.f.device_o.size());
    const Status ran = three_steps.run(data.f, data.f.base(o, data.f.o), nullptr);
    EXPECT_TRUE(ran) << context << ": " << ran.message;
    of_cublas = judge.judge(data.f.o.layout, data.f.base(o, data.f.o), nullptr).max_error;
    const Status accurate = compare_with_unfused(result.max_error, of_cublas, x.type, judge.largest(), judge.context());
    EXPECT_TRUE(accurate) << accurate.message;
  }
  std::printf("  %s: %s %dx%dx%d, %d parts, error %.3g of bound %.3g, in three steps %.3g; LSE %.3g\n", context.c_str(),
              choice.path, choice.tile_q, choice.tile_k, choice.tile_dim, choice.splits, result.max_error, result.bound,
              of_cublas, result.lse_error);
  return result.max_ratio;
}

TEST_F(AttentionGpu, LargeShapes) {
  struct Large {
    int64_t batch, heads, kv_heads, q_length, kv_length, dim, pad;
    bool causal;
    ElementType type = ElementType::bf16;
    float spread = 1;
  };
  const Large all[] = {{4, 16, 16, 1000, 1000, 128, 0, false},
                       {4, 16, 4, 1000, 1000, 128, 0, true},
                       {4, 16, 16, 4097, 4097, 128, 0, true},
                       {1, 16, 16, 4097, 4097, 128, 0, false, ElementType::f16, 8},
                       {2, 8, 8, 2048, 2048, 64, 0, true, ElementType::f16},
                       {2, 8, 2, 1999, 3001, 72, 1, true},
                       {2, 4, 1, 3001, 1999, 33, 0, true},
                       {1, 4, 4, 2000, 2000, 256, 0, false, ElementType::bf16, 4},
                       {16, 32, 4, 1, 8191, 128, 0, true},
                       {2, 32, 32, 3, 40000, 96, 0, true, ElementType::f16}};
  int number = 0;
  for (const Large& l : all) {
    if (short_run() && ++number > 1) break;
    AttentionCase x;
    x.batch = l.batch, x.heads = l.heads, x.kv_heads = l.kv_heads, x.q_length = l.q_length, x.kv_length = l.kv_length,
    x.dim = l.dim;
    x.causal = l.causal, x.type = l.type, x.spread = l.spread;
    x.q.pads.inner = x.k.pads.inner = x.v.pads.inner = x.o.pads.inner = l.pad;
    expect_right_on_gpu(x,
                        std::to_string(l.batch) + "x" + std::to_string(l.heads) + "x" + std::to_string(l.q_length) + "x" +
                            std::to_string(l.kv_length) + "x" + std::to_string(l.dim) + (l.causal ? " causal" : ""),
                        true);
  }
}

TEST_F(AttentionGpu, RandomConfigurations) {
  std::mt19937_64 random(chosen_seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const int count = cases(30, 3);
  double worst = 0;
  int worst_number = 0;
  std::printf("--seed=%llu\n", static_cast<unsigned long long>(chosen_seed));
  for (int i = 0; i < count; ++i) {
    AttentionCase x;
    const int64_t* share = kHeads[below(static_cast<int64_t>(std::size(kHeads)))];
    const int64_t longest = short_run() ? 100 : 3000;
    x.heads = share[0], x.kv_heads = share[1], x.batch = 1 + below(4), x.dim = 1 + below(256);
    x.q_length = below(4) == 0 ? 1 + below(8) : 1 + below(longest), x.kv_length = 1 + below(longest);
    x.causal = below(2), x.type = below(2) ? ElementType::bf16 : ElementType::f16,
    x.spread = std::exp2(static_cast<float>(below(6)));
    x.splits = below(2) ? 0 : static_cast<int>(1 + below(9)), x.seed = static_cast<uint64_t>(below(1 << 30));
    for (OperandPlace* place : {&x.q, &x.k, &x.v, &x.o})
      *place = {below(2) ? HeadOrder::bshd : HeadOrder::bhsd, {below(9), below(9), below(9)}, below(8), false, false, 0};
    if (below(3) == 0)
      for (int64_t b = 0; b < x.batch; ++b)
        x.q_lengths.push_back(static_cast<int32_t>(below(longest))),
            x.kv_lengths.push_back(static_cast<int32_t>(below(longest)));
    const double ratio = expect_right_on_gpu(x, "configuration " + std::to_string(i), true);
    if (ratio > worst) worst = ratio, worst_number = i;
  }
  std::printf("the worst ratio of error to bound is %.3f, in configuration %d\n", worst, worst_number);
}

// Of a comparison that must not pass: one wrong element of O, and of LSE, in a large result.
TEST_F(AttentionGpu, WrongElementsAreFound) {
  AttentionCase x;
  x.q_length = 300, x.kv_length = 400, x.heads = 4, x.kv_heads = 2, x.dim = 72, x.causal = true;
  AttentionData data(x);
  ASSERT_TRUE(run_attention(data.call(), nullptr));
  const AttentionJudge judge(data.f, "spoiled");
  ASSERT_TRUE(verify_attention_on_gpu(data.f, judge).pass());
  ASSERT_TRUE(data.verify().pass());
  const HostHeads right = data.f.output();
  const std::vector<float> right_lse = data.f.lse_output();
  const auto expect_found = [&](int64_t wrong) {
    for (const AttentionComparison& result : {verify_attention_on_gpu(data.f, judge), data.verify()}) {
      EXPECT_FALSE(result.pass());
      EXPECT_EQ(result.wrong, wrong);
    }
    data.f.device_o.upload(right.memory.data()), data.f.device_lse.upload(right_lse.data());
  };
  for (const uint16_t bits : {0x7fc0, 0x7f80, 0x4110}) {
    HostHeads spoiled = right;
    spoiled.memory[spoiled.place(0, 299, 3, 71)] = bits;
    data.f.device_o.upload(spoiled.memory.data());
    expect_found(1);
  }
  for (const float value : {NAN, INFINITY, -INFINITY, 0.f}) {
    std::vector<float> spoiled = right_lse;
    spoiled[4 * 300 - 1] = value;
    data.f.device_lse.upload(spoiled.data());
    expect_found(1);
  }
  data.f.reset();
  expect_found(300 * 4 * 73);
}

}  // namespace
}  // namespace grout::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* text = std::getenv("GROUT_TEST_SEED");
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--seed=", 7) == 0) text = argv[i] + 7;
  if (text) grout::test::chosen_seed = std::strtoull(text, nullptr, 10);
  return RUN_ALL_TESTS();
}
