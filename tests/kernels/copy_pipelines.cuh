// Small pipelines in the patterns that the kernels use, and the ways to get them wrong. `Bug` puts one in; nothing else
// differs from the correct twin. tests/sim/pipelines_test.cpp says what must find it.
#pragma once
#include "common/copy.cuh"
#include "common/element_walk.cuh"

namespace grout::pipelines {

enum class Bug {
  none,
  missing_wait,          // reads a stage whose copies were not waited for
  weak_wait,             // leaves one group too many unfinished
  missing_commit,        // the copies belong to no group, so that no wait_copies covers them
  missing_barrier,       // reads others' copies, and copies into the stage that others still read
  barrier_before_wait,   // the wait is for a thread's own copies: others see them only after a barrier
  early_reuse,           // copies into the stage of the tile before, while other threads still read it
  drain_after_reuse,     // the epilogue writes the stages' memory while copies into it are on their way
  missing_drain,         // copies are on their way when the kernel ends
  finish_after_barrier,  // realigned vectors are stored after the barrier that publishes them
};

constexpr int kThreads = 64, kStages = 3, kTiles = 7, kRows = 32, kDepth = 32, kColumns = 8;
constexpr int kSourceTiles = kTiles + kStages - 1;  // prefetching goes past the last tile that is read

struct Storage {
  alignas(128) bf16 a[kStages][kRows * kDepth];
  alignas(128) bf16 b[kStages][kColumns * kDepth];
};
using LayoutA = decltype(compose(Swizzle64B<bf16>{}, row_major(shape(Int<kRows>{}, Int<kDepth>{}))));
using LayoutB = decltype(compose(Swizzle64B<bf16>{}, row_major(shape(Int<kColumns>{}, Int<kDepth>{}))));

// The ring of stages: `fill(tile)` issues the copies of a tile, `read(tile)` uses it. All threads of the block.
template <Bug B, class Fill, class Read> GROUT_DEVICE void run_ring(Fill fill, Read read) {
  const auto copy = [&](int tile) {
    fill(tile);
    if constexpr (B != Bug::missing_commit) commit_copies();
  };
  for (int tile = 0; tile < kStages - 1; ++tile) copy(tile);
  for (int tile = 0; tile < kTiles; ++tile) {
    if constexpr (B == Bug::early_reuse) {
      copy(tile + kStages - 1);
      wait_copies<kStages - 1>();
      __syncthreads();
    } else {
      if constexpr (B == Bug::barrier_before_wait) __syncthreads();
      if constexpr (B == Bug::weak_wait) wait_copies<kStages - 1>();
      else if constexpr (B != Bug::missing_wait) wait_copies<kStages - 2>();
      if constexpr (B != Bug::barrier_before_wait) __syncthreads();
      copy(tile + kStages - 1);  // into the stage of tile - 1, which all have left
    }
    read(tile);
  }
}

// The epilogue: exchanges one value a thread through the stages' memory, and returns thread 63 - t's.
template <Bug B> GROUT_DEVICE float exchange_through(void* stages, float value, int thread) {
  if constexpr (B != Bug::drain_after_reuse && B != Bug::missing_drain) ptx::cp_async_wait_all();
  __syncthreads();  // all have read the last tile, and all copies have landed
  auto* scratch = static_cast<float*>(stages);
  scratch[thread] = value;
  if constexpr (B == Bug::drain_after_reuse) ptx::cp_async_wait_all();
  __syncthreads();
  return scratch[kThreads - 1 - thread];
}

// Copy pipeline: thread t sums the half rows that thread 63 - t copied. a: kSourceTiles tiles of 32 rows of 32.
template <Bug B> __global__ void __launch_bounds__(kThreads) copy_ring(const bf16* a, const bf16*, float* out) {
  using Plan = CopyPlan<bf16, LayoutA, kThreads>;
  auto& shared = dynamic_shared<Storage>();
  const int thread = static_cast<int>(threadIdx.x), other = kThreads - 1 - thread;
  const auto source = view(a, layout(shape(int64_t{kSourceTiles * kRows}, int64_t{kDepth}), stride(int64_t{kDepth}, 1_c)));
  float sum = 0;
  run_ring<B>(
      [&](int tile) { copy_async(Plan{}, shared.a[tile % kStages], source, {int64_t{tile} * kRows, 0}, thread); },
      [&](int tile) {
        for (int turn = 0; turn < Plan::Ownership::turns; ++turn) {
          const auto c = Plan::Ownership::vector_at(other, turn);
          for (int i = 0; i < Plan::vector; ++i)
            sum += static_cast<float>(tile + 1) * to_float(shared.a[tile % kStages][LayoutA{}(c[0], c[1] + i)]);
        }
      });
  out[thread] = exchange_through<B>(shared.a[kTiles % kStages], sum, thread);
}

// GEMM pipeline: out = the four accumulators of each thread, added. a: 32 x depth, b: 8 x depth (stored n x k), where
// depth = kSourceTiles * 32; the product is over the first kTiles tiles.
template <Bug B> __global__ void __launch_bounds__(kThreads) gemm_ring(const bf16* a, const bf16* b, float* out) {
  using PlanA = CopyPlan<bf16, LayoutA, kThreads>;
  using PlanB = CopyPlan<bf16, LayoutB, kThreads>;
  auto& shared = dynamic_shared<Storage>();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  constexpr int64_t kPitch = kSourceTiles * kDepth;
  const auto source_a = view(a, layout(shape(int64_t{kRows}, kPitch), stride(kPitch, 1_c)));
  const auto source_b = view(b, layout(shape(int64_t{kColumns}, kPitch), stride(kPitch, 1_c)));
  float sum[4] = {};
  run_ring<B>(
      [&](int tile) {
        copy_async(PlanA{}, shared.a[tile % kStages], source_a, {0, int64_t{tile} * kDepth}, thread);
        copy_async(PlanB{}, shared.b[tile % kStages], source_b, {0, int64_t{tile} * kDepth}, thread);
      },
      [&](int tile) {
        for (int step = 0; step < kDepth / 16; ++step) {
          uint32_t fa[4], fb[2];
          const int row = warp * 16 + lane % 16, col = step * 16 + lane / 16 * 8;
          ptx::ldmatrix_x4(fa, ptx::shared_address(&shared.a[tile % kStages][LayoutA{}(row, col)]));
          ptx::ldmatrix_x2(fb, ptx::shared_address(&shared.b[tile % kStages][LayoutB{}(lane % 8, step * 16 + lane / 8 % 2 * 8)]));
          ptx::mma_m16n8k16<bf16>(sum, fa, fb, sum);
        }
      });
  out[thread] = exchange_through<B>(shared.a[kTiles % kStages], sum[0] + sum[1] + sum[2] + sum[3], thread);
}

// Elements that are turned on the way, and operands that are read one step ahead: the next tile's first one behind the wait
// and the barrier of this tile's last step. a: 32 rows of kSourceTiles * 8 floats; thread t sums row (63 - t) % 32.
constexpr int kTurnedDepth = 8;
using TurnedWalk = ElementWalk<kRows, kTurnedDepth, kThreads, true>;
struct TurnedStorage {
  alignas(16) float stage[kStages][TurnedWalk::elements];
};
template <Bug B> __global__ void __launch_bounds__(kThreads) turned_ring(const bf16* a, const bf16*, float* out) {
  auto& shared = dynamic_shared<TurnedStorage>();
  const int thread = static_cast<int>(threadIdx.x), row = (kThreads - 1 - thread) % kRows;
  TurnedWalk walk(reinterpret_cast<const float*>(a), kSourceTiles * kTurnedDepth, 0, kRows, thread);
  const auto copy = [&](int tile) {
    walk.template copy<ElementEdge::inside>(shared.stage[tile % kStages], kTurnedDepth);
    walk.advance();
    if constexpr (B != Bug::missing_commit) commit_copies();
  };
  const auto wait = [&] {
    if constexpr (B == Bug::barrier_before_wait) __syncthreads();
    if constexpr (B == Bug::weak_wait) wait_copies<kStages - 1>();
    else if constexpr (B != Bug::missing_wait) wait_copies<kStages - 2>();
    if constexpr (B != Bug::barrier_before_wait && B != Bug::missing_barrier) __syncthreads();
  };
  for (int tile = 0; tile < kStages - 1; ++tile) copy(tile);
  wait();
  float operand = shared.stage[0][row], sum = 0;
  for (int tile = 0; tile < kTiles; ++tile) {
    copy(tile + kStages - 1);  // into the stage of tile - 1, which all have left
    for (int step = 0; step < kTurnedDepth; ++step) {
      const bool last = step == kTurnedDepth - 1;
      if (last) wait();
      const float next = shared.stage[(tile + last) % kStages][(step + 1) % kTurnedDepth * TurnedWalk::pitch + row];
      sum += static_cast<float>(tile + 1) * operand;
      operand = next;
    }
  }
  out[thread] = exchange_through<B>(shared.stage[(kTiles + 1) % kStages], sum, thread);  // tile 7 was waited for, 8 was not
}

// Realigned copies, begun while the tile before is read and finished behind it. a lies 2 bytes past alignment; otherwise
// as copy_ring.
template <Bug B> __global__ void __launch_bounds__(kThreads) realign_ring(const bf16* a, const bf16*, float* out) {
  using Plan = CopyPlan<bf16, LayoutA, kThreads, CopyOptions{.misaligned = Misaligned::realign}>;
  auto& shared = dynamic_shared<Storage>();
  const int thread = static_cast<int>(threadIdx.x), other = kThreads - 1 - thread;
  const auto source = view(a, layout(shape(int64_t{kSourceTiles * kRows}, int64_t{kDepth}), stride(int64_t{kDepth}, 1_c)));
  copy_async(Plan{}, shared.a[0], source, {0, 0}, thread);
  float sum = 0;
  for (int tile = 0; tile < kTiles; ++tile) {
    ptx::cp_async_wait_all();
    __syncthreads();
    const int next = (tile + 1) % kStages;
    VectorsInFlight<Plan> flight;
    begin_copy(Plan{}, flight, shared.a[next], source, {int64_t{tile + 1} * kRows, 0}, thread);
    if (B == Bug::finish_after_barrier) __syncthreads();
    if (B != Bug::finish_after_barrier) finish_copy(Plan{}, flight, shared.a[next], thread);
    if (B != Bug::finish_after_barrier) __syncthreads();
    for (int turn = 0; turn < Plan::Ownership::turns; ++turn) {
      const auto c = Plan::Ownership::vector_at(other, turn);
      for (int i = 0; i < Plan::vector; ++i)
        sum += static_cast<float>(tile + 1) * to_float(shared.a[tile % kStages][LayoutA{}(c[0], c[1] + i)]);
      // Half of the next tile is read ahead: it must be published already.
      if (turn == 0 && tile + 1 < kTiles) sum += to_float(shared.a[next][LayoutA{}(c[0], c[1])]);
    }
    if (B == Bug::finish_after_barrier) finish_copy(Plan{}, flight, shared.a[next], thread);
  }
  out[thread] = exchange_through<B>(shared.a[(kTiles + 1) % kStages], sum, thread);
}

}  // namespace grout::pipelines
