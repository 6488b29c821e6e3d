// Streaming attention on warp-level tensor cores: the portable kernel, sm_80 and later.
//
// The lesson: an online softmax written in fragment expressions. A block keeps a tile of queries and lets keys and values stream by;
// the scores never leave the registers, and the accumulator of the first product becomes the operand of the second one where it is.
// Lengths, head dimensions, pitches and masks are handled where data enters (bounded copies fill with zeros), in the scores of the
// tiles that an edge touches, and where results leave. Run it:  ./run attention 1000 --causal
//
// CONTRACT
// shapes        attention_arguments.cuh. One block: Tile::q rows of Q of one sequence and head against a range of its keys. Rows may be
//               packed: the `pack` query heads of one key head, query by query, so that row r is query r / pack.
// participants  RowWarps x KeyWarps warps: all copy; a warp computes 16 * RowAtoms rows against keys / KeyWarps of every tile of
//               keys. Warps without a valid row compute nothing; every warp takes part in every copy and barrier.
// memory        Q tile, and a ring of Stages stages with a K and a V tile each, rows of dim 16-bit elements, chunks of 8 elements XORed
//               with the row: no bank conflicts (tests/host counts them). Behind the last tile the ring holds the warps' parts
//               (KeyWarps > 1), and the Q tile each warp's rows of O.
// completion    copies of tile t + Stages - 1 go to the stage that tile t - 1 left:
//
//     tile t:   copies of t + Stages - 1 ->    S = Q K^T | softmax | O += P V    wait, barrier
//               (stage of t - 1)                                                 ^ tile t + 1 is complete and visible;
//                                                                                  all warps have left tile t
//
// rejects       nothing: what it cannot do is refused by the host entry, attention.cuh.
// verified      simulated device, assembled for sm_80 to sm_121a, run on sm_90.
#pragma once
#include "attention/attention_store.cuh"
#include "common/fragment.cuh"
#include "common/operand_reader.cuh"

namespace grout {

// How far a row's scores may rise above its reference before the accumulators are rescaled: powers of two. P is then at most 2^8,
// which f16 and bf16 hold as well as 1, and sums of it are as exact.
inline constexpr float kAttentionSlack = 8;

// The reference of a row that has seen nothing: finite, so that -inf minus it is -inf, and its exponential 0.
inline constexpr float kAttentionLowest = -0x1.fffffep127f;

// attention_block() says which block does what.
template <class T, class Tile, AttentionPath Path>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks_per_sm) attention_mma_kernel(const AttentionParameters<T> p) {
  constexpr bool kRealign = Path == AttentionPath::realign;
  constexpr CopyOptions kOptions = {
      .misaligned = kRealign ? Misaligned::realign : Misaligned::elements,
      .partial = Partial::zero_fill,
  };
  using Storage = AttentionStorage<T, Tile>;
  using KeyPlan = CopyPlan<T, typename Tile::template KeyLayout<T>, Tile::threads, kOptions>;
  using QueryPlan = CopyPlan<T, typename Tile::template QueryLayout<T>, Tile::threads, CopyOptions{.partial = Partial::zero_fill}>;
  // What a warp computes: scores (query, key), and O (query, dim). Both as mma accumulates them.
  constexpr int kAtoms = Tile::row_atoms, kKeys = Tile::keys / Tile::key_warps, kSteps = Tile::dim / 16, kKeySteps = kKeys / 16;
  using Scores = WarpTiled<MmaM16N8K16C, 1, 1, kAtoms, kKeys / 8>;
  using Output = WarpTiled<MmaM16N8K16C, 1, 1, kAtoms, Tile::dim / 8>;
  using Probabilities = WarpTiled<MmaM16N8K16A, 1, 1, kAtoms, kKeySteps>;  // the scores as the second product's operand A
  using Rows = Reduced<Scores, 1>;
  using Lanes = SlotsReduced<Scores, 1>;  // rows, and the lanes that share one

  auto& shared = dynamic_shared<Storage>();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int first_row = warp / Tile::key_warps * 16 * kAtoms, first_key = warp % Tile::key_warps * kKeys;
  const AttentionBlock block = attention_block<Tile>(p, blockIdx.x);
  if (block.rows <= 0) return;  // packed sequences: shorter than the longest one

  const auto keys_of = [&](const AttentionBlock& b) { return view(p.k + b.k_offset, layout(shape(b.keys, p.dim), stride(p.k_row, 1_c))); };
  const auto values_of = [&](const AttentionBlock& b) { return view(p.v + b.v_offset, layout(shape(b.keys, p.dim), stride(p.v_row, 1_c))); };
  // Starts copying a tile of K and V.
  const auto copy_tile = [&](auto edge, const AttentionBlock& b, int tile, int stage) {
    if (tile < b.last_tile) {
      attention_copy<Path, KeyPlan, decltype(edge)::value>(keys_of(b), tile, shared.stage[stage].k, thread);
      attention_copy<Path, KeyPlan, decltype(edge)::value>(values_of(b), tile, shared.stage[stage].v, thread);
    }
    commit_copies();
  };
  using Inside = std::integral_constant<Edge, Edge::along_zeros>;
  using Anywhere = std::integral_constant<Edge, Edge::zeros>;
  if (block.first_tile < block.last_tile) {  // else Q may be null
    const AttentionRows<Tile::packs> rows{block.rows_in_all, p.dim, p.q_row, p.q_head, p.pack};
    copy_async(QueryPlan{}, shared.q, view(p.q + block.q_offset, rows), {block.first_row, 0}, thread);
  }
#pragma unroll 1
  for (int stage = 0; stage < Tile::stages - 1; ++stage) {
    const int tile = block.first_tile + stage;
    if (tile < block.keys / Tile::keys) copy_tile(Inside{}, block, tile, stage);
    else copy_tile(Anywhere{}, block, tile, stage);
  }

  const bool active = block.first_row + first_row < block.rows_in_all;

  Fragment<float, Output> o;
  Fragment<float, Rows> m;   // reference of each row: its exponentials are relative to 2^m
  Fragment<float, Lanes> l;  // sum of the exponentials, of each lane's columns
  o.fill(0.f), m.fill(kAttentionLowest), l.fill(0.f);

  using QueryReader = OperandReader<T, typename Tile::template QueryLayout<T>, true, true, 16 * kAtoms>;
  using KeyReader = OperandReader<T, typename Tile::template KeyLayout<T>, true, false, kKeys>;
  using ValueReader = OperandReader<T, typename Tile::template ValueLayout<T>, false, false, Tile::dim>;
  const QueryReader read_q(first_row, lane);
  const KeyReader read_k(first_key, lane);
  const ValueReader read_v(0, lane);
  uint32_t held_q[Tile::holds_q ? kSteps : 1][kAtoms][4];

  // One tile of keys. Masked: some row does not see all of it; `groups` of 16 keys are seen by some row.
  const auto step = [&](auto masked, const AttentionBlock& b, int tile, int stage) {
    constexpr bool kMasked = decltype(masked)::value;
    const int first = tile * Tile::keys + first_key;
    // Of the warp's keys in this tile, how many a row sees.
    const auto visible_to = [&](int row) {
      const int n = attention_sees<Tile::packs>(p, b, row) - first;
      return n < 0 ? 0 : n > kKeys ? kKeys : n;
    };
    const int row = b.first_row + first_row, last_row = row + 16 * kAtoms;
    const int seen = kMasked ? visible_to(last_row < b.rows_in_all ? last_row - 1 : b.rows_in_all - 1) : kKeys;  // the last row sees most
    const uint32_t shared_q = ptx::shared_address(shared.q), shared_k = ptx::shared_address(shared.stage[stage].k);
    const uint32_t shared_v = ptx::shared_address(shared.stage[stage].v);

    Fragment<float, Scores> s;
    s.fill(0.f);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      uint32_t operand_q[kAtoms][4];
#pragma unroll
      for (int a = 0; a < kAtoms; ++a) {
        if constexpr (!Tile::holds_q) read_q.load(operand_q[a], shared_q, a, i);
      }
#pragma unroll
      for (int j = 0; j < kKeySteps; ++j) {
        if (kMasked && 16 * j >= seen) continue;
        uint32_t operand_k[4];  // 16 keys: two atoms
        read_k.load(operand_k, shared_k, j, i);
#pragma unroll
        for (int a = 0; a < kAtoms; ++a) {
          const uint32_t(&left)[4] = Tile::holds_q ? held_q[Tile::holds_q ? i : 0][a] : operand_q[a];
          const uint32_t right[2][2] = {{operand_k[0], operand_k[1]}, {operand_k[2], operand_k[3]}};
          auto &d0 = s.template part<4>(a * kKeys / 8 + 2 * j), &d1 = s.template part<4>(a * kKeys / 8 + 2 * j + 1);
          ptx::mma_m16n8k16<T>(d0, left, right[0], d0);
          ptx::mma_m16n8k16<T>(d1, left, right[1], d1);
        }
      }
    }

    if constexpr (kMasked) {
      Fragment<int, Rows> visible;  // keys of this tile that each row sees
      make_static<0, Rows::slots>([&](auto slot) { visible[slot] = visible_to(row + Rows::at(lane, slot)[0]); });
      s = select(coordinate<Scores, 1>(lane) < visible, s, -INFINITY);
    }
    const auto peak = max_slots<1>(s);
    bool rises = false;  // above what the exponentials can stand
    make_static<0, Rows::slots>([&](auto slot) { rises |= peak[slot] * p.scale > m[slot] + kAttentionSlack; });
    if (ptx::vote_any(rises)) {
      const Fragment<float, Rows> next = maximum(m, max<1>(peak) * p.scale);
      const Fragment<float, Rows> factor = exp2(m - next);
      o = o * factor;
      l = l * factor;
      m = next;
    }
    s = exp2(s * p.scale - m);
    l = l + sum_slots<1>(s);
    auto operand_p = pack<T>(redistribute<Probabilities>(s));
#pragma unroll
    for (int j = 0; j < kKeySteps; ++j) {
      if (kMasked && 16 * j >= seen) continue;
#pragma unroll
      for (int n = 0; n < Tile::dim / 16; ++n) {
        uint32_t operand_v[4];  // 16 columns: two atoms
        read_v.load(operand_v, shared_v, n, first_key / 16 + j);
        const uint32_t right[2][2] = {{operand_v[0], operand_v[1]}, {operand_v[2], operand_v[3]}};
#pragma unroll
        for (int a = 0; a < kAtoms; ++a) {
          auto &d0 = o.template part<4>(a * Tile::dim / 8 + 2 * n), &d1 = o.template part<4>(a * Tile::dim / 8 + 2 * n + 1);
          ptx::mma_m16n8k16<T>(d0, operand_p.template part<4>(a * kKeySteps + j), right[0], d0);
          ptx::mma_m16n8k16<T>(d1, operand_p.template part<4>(a * kKeySteps + j), right[1], d1);
        }
      }
    }
  };

  wait_copies<Tile::stages - 2>();
  __syncthreads();
  if (active && p.sign != 1) attention_scale_rows<T, Tile>(shared.q, first_row, p.sign, lane);
  if constexpr (Tile::holds_q) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
#pragma unroll
      for (int a = 0; a < kAtoms; ++a) read_q.load(held_q[i][a], ptx::shared_address(shared.q), a, i);
  }
  int stage = 0;
  const auto walk = [&](auto masked, auto edge, const AttentionBlock& b, int tile, int last) {
#pragma unroll 1
    for (; tile < last; ++tile) {
      copy_tile(edge, b, tile + Tile::stages - 1, stage == 0 ? Tile::stages - 1 : stage - 1);
      if (active) step(masked, b, tile, stage);
      stage = stage + 1 == Tile::stages ? 0 : stage + 1;
      wait_copies<Tile::stages - 2>();
      __syncthreads();
    }
    return tile;
  };
  // First the tiles that every row sees whole, as long as the copies ahead of them find all rows of their tile; then those that an edge or
  // the diagonal touches.
  const int inside = block.keys / Tile::keys, seen = block.all_see / Tile::keys;
  const int copied = block.last_tile <= inside ? block.last_tile : inside - (Tile::stages - 1);
  const int reached = walk(std::false_type{}, Inside{}, block, block.first_tile, seen < copied ? seen : copied);
  // The block's numbers once more: in the loop above registers are scarce.
  const AttentionBlock again = attention_block<Tile>(p, static_cast<uint32_t>(ptx::opaque(static_cast<int>(blockIdx.x))));
  walk(std::true_type{}, Anywhere{}, again, reached, again.last_tile);
  wait_copies<0>();  // all warps have left the ring, and the Q tile is free
  const auto total = sum<1>(l);
  if constexpr (Tile::key_warps == 1) attention_finish_rows<T, Tile>(p, again, shared, o, m, total, warp, lane);
  else attention_finish_parts<T, Tile>(p, again, shared, o, m, total, warp, lane);
}

}  // namespace grout
