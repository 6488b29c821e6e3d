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
  // What a warp computes: scores (query, key) against 16 keys at a time, and O (query, dim). Both as mma accumulates them.
  constexpr int kAtoms = Tile::row_atoms, kKeys = Tile::keys / Tile::key_warps, kSteps = Tile::dim / 16, kAllGroups = kKeys / 16;
  using Scores = WarpTiled<MmaM16N8K16C, 1, 1, kAtoms, 2>;
  using Output = WarpTiled<MmaM16N8K16C, 1, 1, kAtoms, Tile::dim / 8>;
  using Probabilities = WarpTiled<MmaM16N8K16A, 1, 1, kAtoms, 1>;  // the scores as the second product's operand A
  using Rows = Reduced<Scores, 1>;
  using Lanes = SlotsReduced<Scores, 1>;  // rows, and the lanes that share one

  auto& shared = dynamic_shared<Storage>();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int first_row = warp / Tile::key_warps * 16 * kAtoms, first_key = warp % Tile::key_warps * kKeys;
  const AttentionBlock block = attention_block<Tile>(p, blockIdx.x);
  if (thread == 0) shared.block = block;
  if (block.rows <= 0) return;  // packed sequences: shorter than the longest one

  const auto keys_of = [&](const AttentionBlock& b) { return view(p.k + b.k_offset, layout(shape(b.keys, p.dim), stride(p.k_row, 1_c))); };
  const auto values_of = [&](const AttentionBlock& b) { return view(p.v + b.v_offset, layout(shape(b.keys, p.dim), stride(p.v_row, 1_c))); };
  constexpr int kAhead = Tile::stages - 1;  // tiles that copies run ahead
  const int inside = block.keys / Tile::keys;  // tiles all of whose keys exist
  AttentionWalk<Path, KeyPlan> walk_k(keys_of(block), block.first_tile, thread), walk_v(values_of(block), block.first_tile, thread);
  const auto copy_inside = [&](const AttentionBlock& b, int stage) {
    walk_k.copy(keys_of(b), shared.stage[stage].k), walk_v.copy(values_of(b), shared.stage[stage].v);
  };
  const auto copy_edge = [&](const AttentionBlock& b, int tile, int stage) {
    const int self = ptx::opaque(thread);  // nothing of this is kept from tile to tile
    attention_copy<Path, KeyPlan>(keys_of(b), tile, shared.stage[stage].k, self);
    attention_copy<Path, KeyPlan>(values_of(b), tile, shared.stage[stage].v, self);
  };
  if (block.first_tile < block.last_tile)  // else Q may be null
    attention_copy_queries<T, Tile, Path>(p, block, shared.q, thread);
#pragma unroll 1
  for (int stage = 0; stage < kAhead; ++stage) {
    const int tile = block.first_tile + stage;
    if (tile < block.last_tile) {
      if (tile < inside) copy_inside(block, stage);
      else copy_edge(block, tile, stage);
    }
    commit_copies();
  }

  const bool active = block.first_row + first_row < block.rows_in_all;

  Fragment<float, Output> o;
  Fragment<float, Rows> m;   // reference of each row: its exponentials are relative to 2^m
  Fragment<float, Lanes> l;  // sum of the exponentials, of each lane's columns
  o.fill(0.f), m.fill(kAttentionLowest), l.fill(0.f);

  using QueryReader = OperandReader<T, typename Tile::template QueryLayout<T>, true, true, 16 * kAtoms>;
  using KeyReader = OperandReader<T, typename Tile::template KeyLayout<T>, true, false, kKeys>;
  using ValueReader = OperandReader<T, typename Tile::template ValueLayout<T>, false, false, Tile::dim>;
  const QueryReader read_q(0, lane);
  const KeyReader read_k(first_key, lane);
  const ValueReader read_v(0, lane);
  T* const rows_of_q = shared.q + first_row * Tile::dim;  // the warp's
  uint32_t held_q[Tile::holds_q ? kSteps : 1][kAtoms][4];

  // One tile of keys, of which the warp takes its first `groups` times 16. Masked: row by row, the first `visible` ones are seen.
  const auto step = [&](auto groups, auto masked, const Fragment<int, Rows>& visible, int stage) {
    constexpr int kGroups = decltype(groups)::value;
    // Opaque: with bases known to be aligned the compiler keeps every lane's swizzled addresses from tile to tile, and has no registers.
    const uint32_t shared_q = ptx::opaque(ptx::shared_address(rows_of_q));
    const uint32_t shared_k = ptx::opaque(ptx::shared_address(shared.stage[stage].k));
    const uint32_t shared_v = ptx::opaque(ptx::shared_address(shared.stage[stage].v));

    Fragment<float, Scores> s[kGroups];
#pragma unroll
    for (int j = 0; j < kGroups; ++j) s[j].fill(0.f);
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      uint32_t operand_q[kAtoms][4];
#pragma unroll
      for (int a = 0; a < kAtoms; ++a) {
        if constexpr (!Tile::holds_q) read_q.load(operand_q[a], shared_q, a, i);
      }
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
        uint32_t operand_k[4];  // 16 keys: two atoms
        read_k.load(operand_k, shared_k, j, i);
        const uint32_t right[2][2] = {{operand_k[0], operand_k[1]}, {operand_k[2], operand_k[3]}};
#pragma unroll
        for (int a = 0; a < kAtoms; ++a) {
          const uint32_t(&left)[4] = Tile::holds_q ? held_q[Tile::holds_q ? i : 0][a] : operand_q[a];
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            auto& d = s[j].template part<4>(2 * a + n);
            ptx::mma_m16n8k16<T>(d, left, right[n], d);
          }
        }
      }
    }

    if constexpr (decltype(masked)::value) {
#pragma unroll
      for (int j = 0; j < kGroups; ++j) s[j] = select(coordinate<Scores, 1>(lane) + 16 * j < visible, s[j], -INFINITY);
    }
    // How far a row's scores may rise above its reference before it is rescaled, in powers of two. Its exponentials are then at most 2^8,
    // which bf16 and f16 hold as well as 1; most tiles rescale nothing.
    constexpr float kSlack = 8;
    auto peak = max_slots<1>(s[0]);
#pragma unroll
    for (int j = 1; j < kGroups; ++j) peak = maximum(peak, max_slots<1>(s[j]));
    if (ptx::vote_any(any_slot(m + kSlack < peak * p.scale))) {
      const Fragment<float, Rows> next = maximum(m, max<1>(peak) * p.scale);
      const Fragment<float, Rows> factor = exp2(m - next);
      o = o * factor;
      l = l * factor;
      m = next;
    }
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const Fragment<float, Scores> exponentials = exp2(s[j] * p.scale - m);
      l = l + sum_slots<1>(exponentials);
      auto operand_p = pack<T>(redistribute<Probabilities>(exponentials));
#pragma unroll
      for (int n = 0; n < Tile::dim / 16; ++n) {
        uint32_t operand_v[4];  // 16 columns: two atoms
        read_v.load(operand_v, shared_v, n, first_key / 16 + j);
        const uint32_t right[2][2] = {{operand_v[0], operand_v[1]}, {operand_v[2], operand_v[3]}};
#pragma unroll
        for (int a = 0; a < kAtoms; ++a) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            auto& d = o.template part<4>(a * Tile::dim / 8 + 2 * n + h);
            ptx::mma_m16n8k16<T>(d, operand_p.template part<4>(a), right[h], d);
          }
        }
      }
    }
  };

  wait_copies<Tile::stages - 2>();
  __syncthreads();
  if (p.sign != 1) {
    if (active && first_key == 0) attention_scale_rows<T, Tile>(shared.q, first_row, p.sign, lane);  // once, of the warps that share them
    __syncthreads();
  }
  if constexpr (Tile::holds_q) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
#pragma unroll
      for (int a = 0; a < kAtoms; ++a) read_q.load(held_q[i][a], ptx::shared_address(rows_of_q), a, i);
  }
  int stage = 0;
  const auto next_stage = [&] {
    stage = stage + 1 == Tile::stages ? 0 : stage + 1;
    wait_copies<Tile::stages - 2>();
    __syncthreads();
  };
  const auto copy_next = [&](const AttentionBlock& b, int next) {
    const int to = stage == 0 ? kAhead : stage - 1;
    if (next < b.last_tile) {
      if (next < b.keys / Tile::keys) copy_inside(b, to);
      else copy_edge(shared.block, next, to);
    }
    commit_copies();
  };
  // First the tiles that every row sees whole: few instructions and registers beside the step itself.
  const Fragment<int, Rows> unused = {};
  const int whole = block.all_see / Tile::keys, end = whole < block.last_tile ? whole : block.last_tile;
  int tile = block.first_tile;
  const auto walk = [&](auto computes) {
#pragma unroll 1
    for (; tile < end; ++tile) {
      copy_next(block, tile + kAhead);
      if constexpr (decltype(computes)::value) step(Int<kAllGroups>{}, std::false_type{}, unused, stage);
      next_stage();
    }
  };
  if (active) walk(std::true_type{});
  else walk(std::false_type{});
  // Then those that an edge or the diagonal touches.
  const AttentionBlock& again = shared.block;
  // Keys that row `r` of the warp's sees, from the warp's first key of the tile on.
  const auto sees = [&](int r) { return attention_sees<Tile::packs>(p, again, again.first_row + first_row + r) - tile * Tile::keys - first_key; };
#pragma unroll 1
  for (; tile < again.last_tile; ++tile) {
    copy_next(again, tile + kAhead);
    const int rows = again.rows - first_row < 16 * kAtoms ? again.rows - first_row : 16 * kAtoms;
    const int left = rows > 0 ? sees(rows - 1) : 0;  // the last row sees most
    if (left > 0) {
      Fragment<int, Rows> visible;
      const int self = ptx::opaque(lane);
      make_static<0, Rows::slots>([&](auto slot) { visible[slot] = sees(Rows::at(self, decltype(slot)::value)[0]); });
      if (kAllGroups > 1 && left <= 16 * (kAllGroups / 2)) step(Int<(kAllGroups + 1) / 2>{}, std::true_type{}, visible, stage);
      else step(Int<kAllGroups>{}, std::true_type{}, visible, stage);
    }
    next_stage();
  }
  wait_copies<0>();  // all warps have left the ring, and the Q tile is free
  const auto total = sum<1>(l);
  if constexpr (Tile::key_warps == 1) attention_finish_rows<T, Tile>(p, again, shared, o, m, total, warp, lane);
  else attention_finish_parts<T, Tile>(p, again, shared, o, m, total, warp, lane);
}

}  // namespace grout
