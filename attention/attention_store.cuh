// What leaves the attention kernel: O and log-sum-exp of a block, or its part of them, and the kernel that combines parts.
#pragma once
#include "attention/attention_tiles.cuh"
#include "common/fragment.cuh"

namespace grout {

// log(l * 2^m), -inf where l is 0.
GROUT_DEVICE float attention_lse(float m, float l) {
  constexpr float kLog2 = 0.693147180559945309f;
  return l == 0 ? -INFINITY : m * kLog2 + logf(l);
}
GROUT_DEVICE float attention_inverse(float l) { return l == 0 ? 0.f : 1.f / l; }

namespace detail {
// Where a row's log-sum-exp belongs: LSE itself, or the split's part.
template <class T> GROUT_DEVICE float* lse_row(const AttentionParameters<T>& p, const AttentionBlock& block, int64_t row) {
  float* base = p.splits == 1 ? p.lse : p.parts + p.splits * p.lse_rows * p.dim + block.split * p.lse_rows;
  if (base == nullptr) return nullptr;
  const AttentionRows rows{block.rows_in_all, 1, 1, p.lse_head, p.pack};
  return base + block.lse_offset + rows(row, 0);
}
template <class T> GROUT_DEVICE auto part_rows(const AttentionParameters<T>& p, const AttentionBlock& block) {
  const AttentionRows rows{block.rows_in_all, p.dim, p.dim, p.lse_head * p.dim, p.pack};
  return view(p.parts + (block.split * p.lse_rows + block.lse_offset) * p.dim, rows);
}
}  // namespace detail

// A warp that holds its rows alone: through its rows of the Q tile, 16 bytes a lane, or as a part, from the registers.
template <class T, class Tile, class Rows, class Output, class Storage, class O, class L>
GROUT_DEVICE void attention_finish_rows(const AttentionParameters<T>& p, const AttentionBlock& block, Storage& shared,
                                        const Fragment<float, Output>& o, const Fragment<float, Rows>& m, const L& l, const O& out,
                                        int warp, int lane) {
  const int first_row = warp * 16 * Tile::row_atoms;
  const int64_t row = block.first_row + first_row;
  if (row >= block.rows_in_all) return;
  make_static<0, Rows::slots>([&](auto slot) {
    const int64_t r = row + Rows::at(lane, slot)[0];
    if (lane % 4 != 0 || r >= block.rows_in_all) return;
    if (float* to = detail::lse_row(p, block, r)) *to = attention_lse(m[slot], l[slot]);
  });
  const Fragment<float, Output> result = o * apply([](float sum) { return attention_inverse(sum); }, l);
  if (p.splits > 1) {
    store(StorePlan<float, Output, 1>{}, detail::part_rows(p, block), result, {row, 0}, lane);
    return;
  }
  constexpr typename Tile::template QueryLayout<T> kLayout{};
  const auto packed = pack<T>(result);
  make_static<0, Pairs<Output>::slots>([&](auto slot) {
    const auto c = Pairs<Output>::at(lane, slot);
    const uint32_t word[1] = {packed[slot]};
    ptx::store_shared(ptx::shared_address(shared.q + kLayout(first_row + c[0], c[1])), word);
  });
  __syncwarp();
  constexpr int kRows = 32 * 8 / Tile::dim;  // of one turn: a row is dim / 8 vectors
  using Vectors = VectorTiled<kRows, Tile::dim, 1, 8, 32>;
  const auto c = Vectors::at(lane, 0);
#pragma unroll 4
  for (int turn = 0; turn < 16 * Tile::row_atoms; turn += kRows) {
    Fragment<T, Vectors> values;
    uint32_t words[4];
    ptx::load_shared(words, ptx::shared_address(shared.q + kLayout(first_row + turn + c[0], c[1])));
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i].bits = static_cast<uint16_t>(words[i / 2] >> 16 * (i % 2));
    store(StorePlan<T, Vectors, 1>{}, out, values, {row + turn, 0}, lane);
  }
}

// Key warps share rows: each puts its part into the ring, and all threads combine them, key warp by key warp.
template <class T, class Tile, class Rows, class Output, class Storage, class O, class L>
GROUT_DEVICE void attention_finish_parts(const AttentionParameters<T>& p, const AttentionBlock& block, Storage& shared,
                                         const Fragment<float, Output>& o, const Fragment<float, Rows>& m, const L& l, const O& out,
                                         int warp, int lane) {
  const int first_row = warp / Tile::key_warps * 16 * Tile::row_atoms, key_warp = warp % Tile::key_warps;
  float *part = shared.part(key_warp), *sums = shared.part_sums(key_warp);
  make_static<0, Output::slots / 2>([&](auto pair) {
    constexpr int kSlot = 2 * decltype(pair)::value;
    const auto c = Output::at(lane, kSlot);
    const uint32_t words[2] = {std::bit_cast<uint32_t>(o[kSlot]), std::bit_cast<uint32_t>(o[kSlot + 1])};
    ptx::store_shared(ptx::shared_address(part + (first_row + c[0]) * Storage::part_pitch + c[1]), words);
  });
  make_static<0, Rows::slots>([&](auto slot) {
    const int r = first_row + Rows::at(lane, slot)[0];
    if (lane % 4 == 0) sums[r] = m[slot], sums[Tile::q + r] = l[slot];
  });
  __syncthreads();
  const int thread = 32 * warp + lane;
  // One vector after the other: a fragment of one of them each.
  constexpr int kAcross = Tile::dim / 8;
#pragma unroll 1
  for (int v = thread; v < Tile::q * kAcross; v += Tile::threads) {
    const int r = v / kAcross, col = v % kAcross * 8;
    if (r >= block.rows) break;
    float peak = -INFINITY, sum = 0;
#pragma unroll
    for (int w = 0; w < Tile::key_warps; ++w) peak = fmaxf(peak, shared.part_sums(w)[r]);
    const float reference = peak == -INFINITY ? 0.f : peak;
    Fragment<float, VectorTiled<1, 8, 1, 8, 1>> values;
    values.fill(0.f);
#pragma unroll
    for (int w = 0; w < Tile::key_warps; ++w) {
      const float factor = ptx::ex2(shared.part_sums(w)[r] - reference);
      sum += factor * shared.part_sums(w)[Tile::q + r];
      const float* from = shared.part(w) + r * Storage::part_pitch + col;
#pragma unroll
      for (int i = 0; i < 8; i += 4) {
        uint32_t words[4];
        ptx::load_shared(words, ptx::shared_address(from + i));
#pragma unroll
        for (int j = 0; j < 4; ++j) values[i + j] += factor * std::bit_cast<float>(words[j]);
      }
    }
    values = values * attention_inverse(sum);
    const int64_t row = block.first_row + r;
    if (col == 0)
      if (float* to = detail::lse_row(p, block, row)) *to = attention_lse(peak, sum);
    using Vector = VectorTiled<1, 8, 1, 8, 1>;
    if (p.splits > 1) store(StorePlan<float, Vector, 1>{}, detail::part_rows(p, block), values, {row, col}, 0);
    else store(StorePlan<T, Vector, 1>{}, out, values, {row, col}, 0);
  }
}

// One block for each row of O: combines the splits' parts in their order. Threads: a multiple of a warp; each its own columns.
template <class T> __global__ void __launch_bounds__(64) attention_combine_kernel(const AttentionParameters<T> p) {
  const int64_t index = blockIdx.x;
  const int64_t query = index % p.q_length, head = index / p.q_length % p.heads;
  const int batch = static_cast<int>(index / p.q_length / p.heads);
  const AttentionSequence q = attention_sequence(p.q_offsets, batch, p.q_length);
  if (query >= q.length) return;
  const int64_t row = (p.q_offsets == nullptr ? batch : 0) * p.lse_batch + head * p.lse_head + q.first + query;
  const float* lse = p.parts + p.splits * p.lse_rows * p.dim + row;
  float peak = -INFINITY;
#pragma unroll 4
  for (int s = 0; s < p.splits; ++s) peak = fmaxf(peak, lse[s * p.lse_rows]);
  const float reference = peak == -INFINITY ? 0.f : peak;
  constexpr int kColumns = 4;  // of 64 threads: 256
  float sum = 0, value[kColumns] = {};
#pragma unroll 4
  for (int s = 0; s < p.splits; ++s) {
    const float factor = expf(lse[s * p.lse_rows] - reference);
    sum += factor;
    const float* from = p.parts + (s * p.lse_rows + row) * p.dim;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int col = static_cast<int>(threadIdx.x) + i * static_cast<int>(blockDim.x);
      if (col < p.dim) value[i] += factor * from[col];
    }
  }
  T* o = p.o + (p.q_offsets == nullptr ? batch : 0) * p.o_batch + (q.first + query) * p.o_row + head * p.o_head;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int col = static_cast<int>(threadIdx.x) + i * static_cast<int>(blockDim.x);
    if (col < p.dim) o[col] = from_float<T>(value[i] * attention_inverse(sum));
  }
  if (threadIdx.x == 0 && p.lse != nullptr) p.lse[row] = sum == 0 ? -INFINITY : reference + logf(sum);
}

}  // namespace grout
