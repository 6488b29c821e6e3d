// What the attention kernel's blocks work on: tiles in shared memory, rows of packed heads, and which block does what.
#pragma once
#include "common/store.cuh"
#include "common/walk.cuh"

namespace grout {

// What the kernels read; 64-bit strides in elements. Units: the heads of all sequences, `pack` query heads to a unit.
template <class T> struct AttentionParameters {
  const T *q, *k, *v;
  T* o;
  float* lse;            // may be null
  float* parts;          // splits > 1: [splits][rows in all][dim] of O, then [splits][rows in all] of LSE
  int64_t q_batch, q_row, q_head, k_batch, k_row, k_head, v_batch, v_row, v_head, o_batch, o_row, o_head;
  int64_t lse_batch, lse_head;       // rows of LSE between sequences and heads
  int64_t lse_rows;                  // rows of LSE in all
  int64_t q_length, kv_length;       // packed: the longest
  const int32_t *q_offsets, *kv_offsets;  // null: all sequences have q_length and kv_length rows
  int dim, heads, batch;
  int pack, group;                   // query heads in a unit; query heads of one key head
  int splits;
  int tiles;                         // of rows of a unit, as many as the longest sequence has
  int64_t units, units_together;     // of which that many are walked before the next: their keys fit into L2
  float scale, sign;                 // exponentials are 2^(scale * sign * s): scale > 0, sign 1, -1, or 0 for a scale of 0
  bool causal;
};

// aligned: rows of K and V start at multiples of 16 bytes; realign: anywhere.
enum class AttentionPath { aligned, realign };

// Compile-time shape of a block's work.
template <int Dim, int RowAtoms, int RowWarps, int Keys, int KeyWarps, int StagesT, int BlocksPerSm, bool HoldsQ> struct AttentionTile {
  static constexpr int dim = Dim, row_atoms = RowAtoms, row_warps = RowWarps, keys = Keys, key_warps = KeyWarps, stages = StagesT;
  static constexpr int q = 16 * RowAtoms * RowWarps, threads = 32 * RowWarps * KeyWarps, blocks_per_sm = BlocksPerSm;
  static constexpr bool holds_q = HoldsQ;  // Q's fragments stay in registers
  static_assert(Dim == 64 || Dim == 128 || Dim == 256, "attention tile: rows must be 64, 128 or 256 elements");
  static_assert(Keys % (16 * KeyWarps) == 0, "attention tile: every warp must have a multiple of the instruction's 16 keys");
  static_assert(StagesT >= 2, "attention tile: copies run a tile ahead, which needs 2 stages");

  // Rows of Dim elements, their chunks of 8 XORed with the row: 8 rows of a column lie in 8 different 16-byte columns of the bank line.
  template <class T> using RowSwizzle = Swizzle<3, 4 - detail::log2_exact(sizeof(T)), detail::log2_exact(Dim) - 3>;
  template <class T> using QueryLayout = decltype(compose(RowSwizzle<T>{}, row_major(shape(Int<q>{}, Int<Dim>{}))));
  template <class T> using KeyLayout = decltype(compose(RowSwizzle<T>{}, row_major(shape(Int<Keys>{}, Int<Dim>{}))));
  template <class T> using ValueLayout = decltype(compose(RowSwizzle<T>{}, col_major(shape(Int<Dim>{}, Int<Keys>{}))));  // the same, as (dim, key)
};

template <class T, class Tile> struct AttentionStorage {
  struct Stage {
    T k[Tile::keys * Tile::dim], v[Tile::keys * Tile::dim];
  };
  alignas(1024) T q[Tile::q * Tile::dim];
  alignas(1024) Stage stage[Tile::stages];

  // Behind the last tile: what each key warp has of every row. Padded, so that the pairs of four successive rows fill the 32 banks.
  static constexpr int part_pitch = Tile::dim + 8, part_rows = Tile::key_warps * Tile::q;
  GROUT_DEVICE float* part(int key_warp) {
    static_assert(Tile::key_warps == 1 || part_rows * (part_pitch + 2) * sizeof(float) <= sizeof(stage),
                  "attention tile: the parts of all warps must fit into the ring");
    return reinterpret_cast<float*>(stage) + key_warp * Tile::q * part_pitch;
  }
  GROUT_DEVICE float* part_sums(int key_warp) { return part(Tile::key_warps) + key_warp * 2 * Tile::q; }  // m, then l, of every row
};

// Layout of the rows of one unit: row r is query r / pack, head r % pack of the unit.
struct AttentionRows {
  int64_t rows, dim, row_stride, head_stride;
  int pack;
  template <int Axis> GROUT_HD int64_t extent() const { return Axis == 0 ? rows : dim; }
  // Along rows: a number that is a multiple of a vector where all rows' starts are.
  template <int Axis> GROUT_HD auto stride() const {
    if constexpr (Axis == 1) return 1_c;
    else return pack == 1 ? row_stride : row_stride | head_stride;
  }
  GROUT_HD int64_t operator()(int64_t row, int64_t col) const {
    if (pack == 1) return row * row_stride + col;
    const auto r = static_cast<uint32_t>(row), n = static_cast<uint32_t>(pack);  // attention.cuh packs short sequences only
    return static_cast<int64_t>(r / n) * row_stride + static_cast<int64_t>(r % n) * head_stride + col;
  }
};

// What one block does.
struct AttentionBlock {
  int batch, head;                          // the unit's first query head
  int split;
  int64_t rows_in_all, first_row, rows;     // of the unit; of the block, none where the sequence is shorter
  int64_t queries, keys;                    // lengths of the sequence
  int64_t first_key, last_key;              // the block's part of the keys, first_key a multiple of the tile's
  int64_t all_see;                          // keys that all rows of the block see
  int64_t q_offset, k_offset, v_offset, o_offset, lse_offset;
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
template <class T> GROUT_HD int64_t attention_sees(const AttentionParameters<T>& p, const AttentionBlock& block, int64_t row) {
  if (!p.causal) return block.keys;
  const int64_t query = p.pack == 1 ? row : static_cast<int64_t>(static_cast<uint32_t>(row) / static_cast<uint32_t>(p.pack));
  const int64_t n = query + 1 + block.keys - block.queries;
  return n < 0 ? 0 : n < block.keys ? n : block.keys;
}

// Blocks of as many units as share L2 lie together; of these, causal, the tiles with most keys come first, so that short ones fill the
// end. A tile's splits are neighbours.
template <class Tile, class T> GROUT_HD AttentionBlock attention_block(const AttentionParameters<T>& p, int64_t index) {
  const int64_t per_group = p.units_together * p.tiles * p.splits, group = index / per_group, inner = index % per_group;
  const int64_t left = p.units - group * p.units_together, units = left < p.units_together ? left : p.units_together;
  const int64_t turn = inner / (units * p.splits), rest = inner % (units * p.splits);
  const int64_t tile = p.causal ? p.tiles - 1 - turn : turn, unit = group * p.units_together + rest / p.splits;
  AttentionBlock b;
  b.split = static_cast<int>(rest % p.splits);
  const int units_of_batch = p.heads / p.pack;
  b.batch = static_cast<int>(unit / units_of_batch), b.head = static_cast<int>(unit % units_of_batch) * p.pack;
  const AttentionSequence q = attention_sequence(p.q_offsets, b.batch, p.q_length);
  const AttentionSequence kv = attention_sequence(p.kv_offsets, b.batch, p.kv_length);
  b.queries = q.length, b.keys = kv.length;
  b.rows_in_all = q.length * p.pack, b.first_row = tile * Tile::q;
  b.rows = b.rows_in_all - b.first_row < Tile::q ? b.rows_in_all - b.first_row : Tile::q;
  const int key_head = b.head / p.group;
  const int64_t batch = p.q_offsets == nullptr ? b.batch : 0;
  b.q_offset = batch * p.q_batch + q.first * p.q_row + b.head * p.q_head;
  b.o_offset = batch * p.o_batch + q.first * p.o_row + b.head * p.o_head;
  b.k_offset = batch * p.k_batch + kv.first * p.k_row + key_head * p.k_head;
  b.v_offset = batch * p.v_batch + kv.first * p.v_row + key_head * p.v_head;
  b.lse_offset = batch * p.lse_batch + b.head * p.lse_head + q.first;
  if (b.rows <= 0) return b;
  b.all_see = attention_sees(p, b, b.first_row);
  const int64_t most = attention_sees(p, b, b.first_row + b.rows - 1), tiles = (most + Tile::keys - 1) / Tile::keys;
  b.first_key = tiles * b.split / p.splits * Tile::keys;
  const int64_t end = tiles * (b.split + 1) / p.splits * Tile::keys;
  b.last_key = end < most ? end : most;
  return b;
}

// Copies K or V, tile after tile.
template <class Plan, bool Realign> class AttentionWalk {
  using T = typename Plan::Value;

 public:
  template <class Source> GROUT_DEVICE AttentionWalk(const Source& source, int first, int thread) : walk_(source, 0, thread, first) {}
  // Starts copying the next tile to `shared`; `inside`: it lies inside the source.
  template <class Source> GROUT_DEVICE void copy(const Source& source, T* shared, bool inside GROUT_AT) {
    if (inside) walk_.template copy<Edge::inside>(source, shared GROUT_HERE);
    else walk_.template copy<Edge::zeros>(source, shared GROUT_HERE);
    walk_.advance(source);
  }

 private:
  TileWalk<Plan, 0> walk_;
};
template <class Plan> class AttentionWalk<Plan, true> {
  using T = typename Plan::Value;

 public:
  template <class Source> GROUT_DEVICE AttentionWalk(const Source&, int first, int thread) : row_(int64_t{first} * Plan::rows), thread_(thread) {}
  template <class Source> GROUT_DEVICE void copy(const Source& source, T* shared, bool GROUT_AT) {
    copy_async(Plan{}, shared, source, {row_, 0}, thread_ GROUT_HERE);
    row_ += Plan::rows;
  }

 private:
  int64_t row_;
  int thread_;
};

}  // namespace grout
