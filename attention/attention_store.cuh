// What leaves the attention kernel: O and log-sum-exp of a block, or its part of them, and the kernel that combines parts.
#pragma once
#include "attention/attention_tiles.cuh"
#include "common/fragment.cuh"

namespace grout {

// Multiplies a warp's rows of the Q tile by -1 or 0: a negative scale, or none. Warp; a barrier follows.
template <class T, class Tile> GROUT_DEVICE void attention_scale_rows(T* q, int first_row, float sign, int lane) {
  constexpr int kWords = 16 * Tile::row_atoms * Tile::dim / 2;
  const uint32_t rows = ptx::shared_address(q + first_row * Tile::dim);
#pragma unroll 1
  for (int i = lane; i < kWords; i += 32) {
    uint32_t word[1];
    ptx::load_shared(word, rows + 4 * static_cast<uint32_t>(i));
    const T low = std::bit_cast<T>(static_cast<uint16_t>(word[0])), high = std::bit_cast<T>(static_cast<uint16_t>(word[0] >> 16));
    word[0] = pack<T>(to_float(low) * sign, to_float(high) * sign);
    ptx::store_shared(rows + 4 * static_cast<uint32_t>(i), word);
  }
}

// log(l * 2^m), -inf where l is 0.
GROUT_DEVICE float attention_lse(float m, float l) {
  constexpr float kLog2 = 0.693147180559945309f;
  return (m + ptx::lg2(l)) * kLog2;
}
// 1 / l, 0 where l is 0.
GROUT_DEVICE float attention_inverse(float l) { return l == 0 ? 0.f : ptx::rcp(l); }

namespace detail {
// Where a row is in LSE; its LSE itself, or that of the split's part; its part of O.
template <bool Packs, class T>
GROUT_DEVICE int64_t lse_index(const AttentionParameters<T>& p, const AttentionBlock& block, int64_t row) {
  return block.lse_offset + AttentionRows<Packs>{block.rows_in_all, 1, 1, p.lse_head, p.pack}(row, 0);
}
template <class T> GROUT_DEVICE void store_lse(const AttentionParameters<T>& p, const AttentionBlock& block, int64_t index, float lse) {
  if (p.splits > 1) p.parts[p.splits * p.lse_rows * p.part_pitch + block.split * p.lse_rows + index] = lse;
  else if (p.lse != nullptr) p.lse[index] = lse;
}
template <class T> GROUT_DEVICE float* part_row(const AttentionParameters<T>& p, const AttentionBlock& block, int64_t index) {
  return p.parts + (block.split * p.lse_rows + index) * p.part_pitch;
}
}  // namespace detail

template <class Tile, class T> GROUT_DEVICE auto attention_output(const AttentionParameters<T>& p, const AttentionBlock& block) {
  return view(p.o + block.o_offset, AttentionRows<Tile::packs>{block.rows_in_all, p.dim, p.o_row, p.o_head, p.pack});
}

// Where a warp's rows lie in the Q tile: as pairs of the accumulator's slots, and as vectors of 16 bytes, `rows` rows a turn. A lane keeps
// one address of each; the swizzle turns steps along a row into XORs with constants.
template <class T, class Tile, class Output> struct AttentionPlaces {
  static constexpr int rows = 32 * 8 / Tile::dim;  // a row is dim / 8 vectors
  using Vectors = VectorTiled<rows, Tile::dim, 1, 8, 32>;
  static constexpr uint32_t row_bytes = Tile::dim * sizeof(T);
  static constexpr uint32_t place(Coordinate<2> c) { return static_cast<uint32_t>(typename Tile::template QueryLayout<T>{}(c[0], c[1]) * sizeof(T)); }
  static constexpr Coordinate<2> of_pair(int lane, int slot) { return Pairs<Output>::at(lane, slot); }
  static constexpr Coordinate<2> of_vector(int lane, int turn) {
    const auto c = Vectors::at(lane, 0);
    return {turn * rows + c[0], c[1]};
  }
  static constexpr uint32_t pair_xor(int slot) { return of_pair(0, slot)[1] * static_cast<uint32_t>(sizeof(T)); }
  static constexpr uint32_t pair_plus(int slot) { return of_pair(0, slot)[0] * row_bytes; }
  static constexpr uint32_t vector_xor(int turn) { return turn * rows % 8 * 16u; }
  static constexpr uint32_t vector_plus(int turn) { return static_cast<uint32_t>(turn * rows) * row_bytes; }
  static_assert(
      [] {
        for (int lane = 0; lane < 32; ++lane) {
          for (int slot = 0; slot < Pairs<Output>::slots; ++slot)
            if (place(of_pair(lane, slot)) != (place(of_pair(lane, 0)) ^ pair_xor(slot)) + pair_plus(slot)) return false;
          for (int turn = 0; turn < 16 * Tile::row_atoms / rows; ++turn)
            if (place(of_vector(lane, turn)) != (place(of_vector(lane, 0)) ^ vector_xor(turn)) + vector_plus(turn)) return false;
        }
        return true;
      }(),
      "attention tile: the swizzle must turn steps along a row into an XOR");

  uint32_t pairs, vectors;
  GROUT_DEVICE AttentionPlaces(uint32_t tile, int first_row, int lane)
      : pairs(tile + first_row * row_bytes + place(of_pair(lane, 0))), vectors(tile + first_row * row_bytes + place(of_vector(lane, 0))) {}
  GROUT_DEVICE uint32_t pair(int slot) const { return (pairs ^ pair_xor(slot)) + pair_plus(slot); }
  GROUT_DEVICE uint32_t vector(int turn) const { return (vectors ^ vector_xor(turn)) + vector_plus(turn); }
};

// A warp that holds its rows alone: through its rows of the Q tile, 16 bytes a lane, or as a part, from the registers. Columns behind
// dim are zeros, also in a part.
template <class T, class Tile, class Rows, class Output, class Storage, class L>
GROUT_DEVICE void attention_finish_rows(const AttentionParameters<T>& p, const AttentionBlock& block, Storage& shared,
                                        const Fragment<float, Output>& o, const Fragment<float, Rows>& m, const L& l,
                                        int warp, int lane) {
  const int first_row = warp * 16 * Tile::row_atoms;
  const int row = block.first_row + first_row;
  if (row >= block.rows_in_all) return;
  const Fragment<float, Rows> lse = apply([](float m_, float l_) { return attention_lse(m_, l_); }, m, l);
  const Fragment<float, Rows> inverse = apply([](float sum) { return attention_inverse(sum); }, l);  // once for each row
  const Fragment<float, Output> result = o * inverse;
  if (lane % 4 == 0) {
    make_static<0, Rows::slots>([&](auto slot) {
      const int r = row + Rows::at(lane, slot)[0];
      if (r < block.rows_in_all) detail::store_lse(p, block, detail::lse_index<Tile::packs>(p, block, r), lse[slot]);
    });
  }
  if (p.splits > 1) {
    make_static<0, Rows::slots>([&](auto slot) {
      constexpr int kSlot = decltype(slot)::value;
      const int r = row + Rows::at(lane, kSlot)[0];
      if (r >= block.rows_in_all) return;
      float* part = detail::part_row(p, block, detail::lse_index<Tile::packs>(p, block, r));
      make_static<0, Output::slots, 2>([&](auto pair) {
        constexpr int kPair = decltype(pair)::value;
        if constexpr (slot_map_of<Output, Rows>.slot[kPair] == kSlot) {  // in that row
          const int col = Output::at(lane, kPair)[1];
          const uint32_t words[2] = {std::bit_cast<uint32_t>(result[kPair]), std::bit_cast<uint32_t>(result[kPair + 1])};
          if (col < p.part_pitch) ptx::store_global(part + col, words);
        }
      });
    });
    return;
  }
  using Places = AttentionPlaces<T, Tile, Output>;
  const Places places(ptx::shared_address(shared.q), first_row, lane);
  const auto packed = pack<T>(result);
  make_static<0, Pairs<Output>::slots>([&](auto slot) {
    const uint32_t word[1] = {packed[slot]};
    ptx::store_shared(places.pair(slot), word);
  });
  __syncwarp();
  constexpr int kRows = Places::rows, kTurns = 16 * Tile::row_atoms / kRows;
  using Vectors = typename Places::Vectors;
  const auto c = Vectors::at(lane, 0);
  const auto out = attention_output<Tile>(p, block);
  if (p.dim == Tile::dim && block.rows_in_all - row >= 16 * Tile::row_atoms &&
      detail::stores_vectors(StorePlan<T, Vectors, 1>{}, out, {row, 0})) {  // whole
    static_assert(!Tile::packs, "attention: rows that a warp holds alone are one stride apart");
    T* to = detail::element(out, row + c[0], c[1]);
    const int64_t step = kRows * p.o_row;
#pragma unroll 4
    for (int turn = 0; turn < kTurns; ++turn, to = ptx::opaque(to + step)) {
      uint32_t words[4];
      ptx::load_shared(words, places.vector(turn));
      ptx::store_global(to, words);
    }
    return;
  }
#pragma unroll 1
  for (int turn = 0; turn < kTurns; ++turn) {
    Fragment<T, Vectors> values;
    uint32_t words[4];
    ptx::load_shared(words, places.vector(turn));
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i].bits = static_cast<uint16_t>(words[i / 2] >> 16 * (i % 2));
    store(StorePlan<T, Vectors, 1>{}, out, values, {row + turn * kRows, 0}, lane);
  }
}

// Key warps share rows: each puts its part into the ring, and all threads combine them, key warp by key warp.
template <class T, class Tile, class Rows, class Output, class Storage, class L>
GROUT_DEVICE void attention_finish_parts(const AttentionParameters<T>& p, const AttentionBlock& block, Storage& shared,
                                         const Fragment<float, Output>& o, const Fragment<float, Rows>& m, const L& l,
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
    float peak = shared.part_sums(0)[r], sum = 0;
#pragma unroll
    for (int w = 1; w < Tile::key_warps; ++w) peak = fmaxf(peak, shared.part_sums(w)[r]);
    Fragment<float, VectorTiled<1, 8, 1, 8, 1>> values;
    values.fill(0.f);
#pragma unroll
    for (int w = 0; w < Tile::key_warps; ++w) {
      const float factor = ptx::ex2(shared.part_sums(w)[r] - peak);
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
    const int row = block.first_row + r;
    const int64_t index = detail::lse_index<Tile::packs>(p, block, row);
    if (col == 0) detail::store_lse(p, block, index, attention_lse(peak, sum));
    if (p.splits == 1) {
      store(StorePlan<T, VectorTiled<1, 8, 1, 8, 1>, 1>{}, attention_output<Tile>(p, block), values, {row, col}, 0);
    } else if (col < p.part_pitch) {
#pragma unroll
      for (int i = 0; i < 8; i += 4) {
        uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) words[j] = std::bit_cast<uint32_t>(values[i + j]);
        ptx::store_global(detail::part_row(p, block, index) + col + i, words);
      }
    }
  }
}

// Blocks of a multiprocessor that run at once.
inline constexpr int kCombiningBlocks = 32;

// Combines the splits' parts of every row of O, in their order, a row after the other. Threads: 64, each its own columns.
template <class T> __global__ void __launch_bounds__(64) attention_combine_kernel(const AttentionParameters<T> p) {
  const int64_t rows = p.q_length * p.heads * p.batch;
#pragma unroll 1
  for (int64_t index = blockIdx.x; index < rows; index += gridDim.x) {
    const int64_t query = index % p.q_length, head = index / p.q_length % p.heads;
    const int batch = static_cast<int>(index / p.q_length / p.heads);
    const AttentionSequence q = attention_sequence(p.q_offsets, batch, p.q_length);
    if (query >= q.length) continue;
    const int64_t row = (p.q_offsets == nullptr ? batch : 0) * p.lse_batch + head * p.lse_head + q.first + query;
    const float* lse = p.parts + p.splits * p.lse_rows * p.part_pitch + row;
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
      const float* from = p.parts + (s * p.lse_rows + row) * p.part_pitch;
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
}

}  // namespace grout
