// What the attention kernel's blocks work on: tiles in shared memory, rows of packed heads, and which block does what.
#pragma once
#include "common/store.cuh"
#include "common/walk.cuh"

namespace grout {

// Division of numbers below 2^31 by a number that the host knows: a product and a shift (Granlund and Montgomery, 1994).
struct Divisor {
  uint32_t value = 1, multiplier = 1u << 31, shift = 31;
  Divisor() = default;
  explicit Divisor(int64_t divisor) : value(static_cast<uint32_t>(divisor)) {
    while (uint64_t{1} << (shift - 31) < value) ++shift;
    multiplier = static_cast<uint32_t>(((uint64_t{1} << shift) + value - 1) / value);
  }
};
GROUT_HD uint32_t operator/(uint32_t number, const Divisor& divisor) {
  return static_cast<uint32_t>(uint64_t{number} * divisor.multiplier >> divisor.shift);
}

// What the kernels read; 64-bit strides in elements. Units: the heads of all sequences, `pack` query heads to a unit.
template <class T> struct AttentionParameters {
  const T *q, *k, *v;
  T* o;
  float* lse;            // may be null
  float* parts;          // splits > 1: [splits][rows in all][part_pitch] of O, then [splits][rows in all] of LSE
  int64_t q_batch, q_row, q_head, k_batch, k_row, k_head, v_batch, v_row, v_head, o_batch, o_row, o_head;
  int64_t lse_batch, lse_head;       // rows of LSE between sequences and heads
  int64_t lse_rows;                  // rows of LSE in all
  int64_t q_length, kv_length;       // packed: the longest
  const int32_t *q_offsets, *kv_offsets;  // null: all sequences have q_length and kv_length rows
  int dim, heads, batch;
  int part_pitch;                    // dim, rounded up to 8
  Divisor pack, group;               // query heads in a unit; query heads of one key head
  int splits;
  int tiles;                         // of rows of a unit, as many as the longest sequence has
  int units, units_together;         // of which that many are walked before the next: their keys fit into L2
  Divisor units_of_batch;            // heads / pack
  // Blocks of units_together units, and of those that are left; blocks of one tile of each of these.
  Divisor blocks_together, turn, last_turn, in_splits;
  float scale, sign;                 // exponentials are 2^(scale * sign * s): scale > 0, sign 1, -1, or 0 for a scale of 0
  bool causal;
};

// aligned: rows of Q, K and V start at multiples of 16 bytes; realign: anywhere.
enum class AttentionPath { aligned, realign };

// Compile-time shape of a block's work.
template <int Dim, int RowAtoms, int RowWarps, int Keys, int KeyWarps, int StagesT, int BlocksPerSm, bool HoldsQ> struct AttentionTile {
  static constexpr int dim = Dim, row_atoms = RowAtoms, row_warps = RowWarps, keys = Keys, key_warps = KeyWarps, stages = StagesT;
  static constexpr int q = 16 * RowAtoms * RowWarps, threads = 32 * RowWarps * KeyWarps, blocks_per_sm = BlocksPerSm;
  static constexpr bool holds_q = HoldsQ;  // Q's fragments stay in registers
  static constexpr bool packs = KeyWarps > 1;  // rows of several heads: tiles for few queries
  static_assert(Dim == 64 || Dim == 128 || Dim == 256, "attention tile: rows must be 64, 128 or 256 elements");
  static_assert(Keys % (16 * KeyWarps) == 0, "attention tile: every warp must have a multiple of the instruction's 16 keys");
  static_assert(StagesT >= 2, "attention tile: copies run a tile ahead, which needs 2 stages");

  // Rows of Dim elements, their chunks of 8 XORed with the row: 8 rows of a column lie in 8 different 16-byte columns of the bank line.
  template <class T> using RowSwizzle = Swizzle<3, 4 - detail::log2_exact(sizeof(T)), detail::log2_exact(Dim) - 3>;
  template <class T> using QueryLayout = decltype(compose(RowSwizzle<T>{}, row_major(shape(Int<q>{}, Int<Dim>{}))));
  template <class T> using KeyLayout = decltype(compose(RowSwizzle<T>{}, row_major(shape(Int<Keys>{}, Int<Dim>{}))));
  template <class T> using ValueLayout = decltype(compose(RowSwizzle<T>{}, col_major(shape(Int<Dim>{}, Int<Keys>{}))));  // the same, as (dim, key)
};

// Layout of the rows of one unit: row r is query r / pack, head r % pack of the unit. Packs: pack may be more than 1.
template <bool Packs> struct AttentionRows {
  int64_t rows, dim, row_stride, head_stride;
  Divisor pack;
  template <int Axis> GROUT_HD int64_t extent() const { return Axis == 0 ? rows : dim; }
  // Along rows: a number that is a multiple of a vector where all rows' starts are.
  template <int Axis> GROUT_HD auto stride() const {
    if constexpr (Axis == 1) return 1_c;
    else return Packs ? row_stride | head_stride : row_stride;
  }
  GROUT_HD int64_t operator()(int64_t row, int64_t col) const {
    if constexpr (!Packs) return row * row_stride + col;
    const auto r = static_cast<uint32_t>(row), query = r / pack;
    return int64_t{query} * row_stride + int64_t{r - query * pack.value} * head_stride + col;
  }
};

// What one block does.
struct AttentionBlock {
  int batch, head;                          // the unit's first query head
  int split;
  int rows_in_all, first_row, rows;         // of the unit; of the block, none where the sequence is shorter
  int queries, keys;                        // lengths of the sequence
  int first_tile, last_tile;                // the block's part of the keys: first_tile .. last_tile - 1
  int all_see;                              // keys that all rows of the block see
  int64_t q_offset, k_offset, v_offset, o_offset, lse_offset;
};

template <class T, class Tile> struct AttentionStorage {
  struct Stage {
    T k[Tile::keys * Tile::dim], v[Tile::keys * Tile::dim];
  };
  alignas(1024) T q[Tile::q * Tile::dim];
  alignas(1024) Stage stage[Tile::stages];
  AttentionBlock block;  // for behind the main loop: kept in registers it would cost them there, computed again its time

  // Behind the last tile: what each key warp has of every row. Padded, so that the pairs of four successive rows fill the 32 banks.
  static constexpr int part_pitch = Tile::dim + 8, part_rows = Tile::key_warps * Tile::q;
  GROUT_DEVICE float* part(int key_warp) {
    static_assert(Tile::key_warps == 1 || part_rows * (part_pitch + 2) * sizeof(float) <= sizeof(stage),
                  "attention tile: the parts of all warps must fit into the ring");
    return reinterpret_cast<float*>(stage) + key_warp * Tile::q * part_pitch;
  }
  GROUT_DEVICE float* part_sums(int key_warp) { return part(Tile::key_warps) + key_warp * 2 * Tile::q; }  // m, then l, of every row
};

// Rows offsets[b] .. offsets[b + 1] - 1 of a packed operand, at most `most`; decreasing offsets: none.
struct AttentionSequence {
  int64_t first, length;
};
GROUT_HD AttentionSequence attention_sequence(const int32_t* offsets, int batch, int64_t most) {
  if (offsets == nullptr) return {0, most};
  const int64_t first = offsets[batch], length = offsets[batch + 1] - first;
  return {first, length < 0 ? 0 : length < most ? length : most};
}

// How many keys, from the first one on, row `row` of the block's unit sees.
template <bool Packs, class T>
GROUT_HD int attention_sees(const AttentionParameters<T>& p, const AttentionBlock& block, int row) {
  if (!p.causal) return block.keys;
  const int query = Packs ? static_cast<int>(static_cast<uint32_t>(row) / p.pack) : row;
  const int64_t n = int64_t{query} + 1 + block.keys - block.queries;
  return n < 0 ? 0 : n < block.keys ? static_cast<int>(n) : block.keys;
}

// Blocks of as many units as share L2 lie together; of these, causal, the tiles with most keys come first, so that short ones fill the
// end. A tile's splits are neighbours.
template <class Tile, class T> GROUT_HD AttentionBlock attention_block(const AttentionParameters<T>& p, uint32_t index) {
  const auto splits = static_cast<uint32_t>(p.splits), together = static_cast<uint32_t>(p.units_together);
  const uint32_t group = index / p.blocks_together, inner = index - group * p.blocks_together.value;
  const bool last = (group + 1) * together > static_cast<uint32_t>(p.units);
  const uint32_t turn = last ? inner / p.last_turn : inner / p.turn, rest = inner - turn * (last ? p.last_turn.value : p.turn.value);
  const uint32_t tile = p.causal ? static_cast<uint32_t>(p.tiles) - 1 - turn : turn;
  const uint32_t unit_of_group = rest / p.in_splits, part = rest - unit_of_group * splits, unit = group * together + unit_of_group;
  AttentionBlock b;
  b.split = static_cast<int>(part);
  const uint32_t batch_of_unit = unit / p.units_of_batch, pack = p.pack.value;
  b.batch = static_cast<int>(batch_of_unit), b.head = static_cast<int>((unit - batch_of_unit * p.units_of_batch.value) * pack);
  const AttentionSequence q = attention_sequence(p.q_offsets, b.batch, p.q_length);
  const AttentionSequence kv = attention_sequence(p.kv_offsets, b.batch, p.kv_length);
  b.queries = static_cast<int>(q.length), b.keys = static_cast<int>(kv.length);
  b.rows_in_all = b.queries * static_cast<int>(pack), b.first_row = static_cast<int>(tile) * Tile::q;
  b.rows = b.rows_in_all - b.first_row < Tile::q ? b.rows_in_all - b.first_row : Tile::q;
  const auto key_head = static_cast<int64_t>(static_cast<uint32_t>(b.head) / p.group);
  const int64_t batch = p.q_offsets == nullptr ? b.batch : 0;
  b.q_offset = batch * p.q_batch + q.first * p.q_row + b.head * p.q_head;
  b.o_offset = batch * p.o_batch + q.first * p.o_row + b.head * p.o_head;
  b.k_offset = batch * p.k_batch + kv.first * p.k_row + key_head * p.k_head;
  b.v_offset = batch * p.v_batch + kv.first * p.v_row + key_head * p.v_head;
  b.lse_offset = batch * p.lse_batch + b.head * p.lse_head + q.first;
  if (b.rows <= 0) return b;
  b.all_see = attention_sees<Tile::packs>(p, b, b.first_row);
  const auto most = static_cast<uint32_t>(attention_sees<Tile::packs>(p, b, b.first_row + b.rows - 1));  // the last row sees most
  const uint32_t key_tiles = (most + Tile::keys - 1) / Tile::keys;
  b.first_tile = 0, b.last_tile = static_cast<int>(key_tiles);
  if (splits > 1) {  // below 2^26 tiles, at most 128 parts
    b.first_tile = static_cast<int>(uint64_t{key_tiles} * part / splits);
    b.last_tile = static_cast<int>(uint64_t{key_tiles} * (part + 1) / splits);
  }
  return b;
}

// Starts copying tile `tile` of K or V to `shared`, whatever edge it meets. All threads.
template <AttentionPath Path, class Plan, class Source>
GROUT_DEVICE void attention_copy(const Source& source, int tile, typename Plan::Value* shared, int thread GROUT_AT) {
  if constexpr (Path == AttentionPath::aligned)
    TileWalk<Plan, 0>(source, 0, thread, tile).template copy<Edge::zeros>(source, shared GROUT_HERE);
  else copy_in_parts<Plan::columns == 256 ? 2 : 4>(Plan{}, shared, source, {int64_t{tile} * Plan::rows, 0}, thread GROUT_HERE);
}
// The same tile after tile, all of whose rows lie inside.
template <AttentionPath Path, class Plan> class AttentionWalk;
template <class Plan> class AttentionWalk<AttentionPath::aligned, Plan> {
 public:
  template <class Source> GROUT_DEVICE AttentionWalk(const Source& source, int first, int thread) : walk_(source, 0, thread, first) {}
  template <class Source> GROUT_DEVICE void copy(const Source& source, typename Plan::Value* shared GROUT_AT) {
    walk_.template copy<Edge::along_zeros>(source, shared GROUT_HERE);
    walk_.advance(source);
  }

 private:
  TileWalk<Plan, 0> walk_;
};
template <class Plan> class AttentionWalk<AttentionPath::realign, Plan> {
 public:
  template <class Source> GROUT_DEVICE AttentionWalk(const Source&, int first, int thread) : tile_(first), thread_(thread) {}
  template <class Source> GROUT_DEVICE void copy(const Source& source, typename Plan::Value* shared GROUT_AT) {
    attention_copy<AttentionPath::realign, Plan>(source, tile_++, shared, thread_ GROUT_HERE);
  }

 private:
  int tile_, thread_;
};

// Starts copying the block's rows of Q. All threads.
template <class T, class Tile, AttentionPath Path>
GROUT_DEVICE void attention_copy_queries(const AttentionParameters<T>& p, const AttentionBlock& block, T* shared, int thread GROUT_AT) {
  using Plan = CopyPlan<T, typename Tile::template QueryLayout<T>, Tile::threads, CopyOptions{.partial = Partial::zero_fill}>;
  if constexpr (Path == AttentionPath::aligned && !Tile::packs) {
    const auto rows = view(p.q + block.q_offset, layout(shape(block.rows_in_all, p.dim), stride(p.q_row, 1_c)));
    const TileWalk<Plan, 0> walk(rows, 0, thread, block.first_row / Tile::q);
    if (block.rows == Tile::q) walk.template copy<Edge::along_zeros>(rows, shared GROUT_HERE);
    else walk.template copy<Edge::zeros>(rows, shared GROUT_HERE);
  } else {
    const AttentionRows<Tile::packs> rows{block.rows_in_all, p.dim, p.q_row, p.q_head, p.pack};
    copy_async(Plan{}, shared, view(p.q + block.q_offset, rows), {block.first_row, 0}, thread GROUT_HERE);
  }
}

}  // namespace grout
