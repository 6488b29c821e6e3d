// Bounded GEMM on warp-level tensor cores: the portable kernel, sm_80 and later.
//
// The lesson: a multistage cp.async pipeline that is right for every shape, pitch and alignment. Edges are handled where
// data enters (copies fill the end of K with zeros; past M and N any value will do) and where it leaves (stores skip what is
// outside); ldmatrix, mma and barriers in between never see an edge. Run it:  ./run gemm 65 97 73
//
// CONTRACT
// shapes        D[M, N] = alpha * A[M, K] * B[K, N] + beta * C[M, N], any extents, batched; checked by gemm.cuh.
// participants  WarpsM x WarpsN warps; all copy, all multiply. Every warp takes part in every ldmatrix, mma and barrier.
// memory        a ring of Stages stages, each one A tile (TileM x TileK) and one B tile (TileN x TileK, coordinates (n, k))
//               in 16-bit elements. A tile keeps the order of its operand in global memory: contiguous along k, or along
//               m (n), then read with ldmatrix.trans. Swizzled so that 8 rows of a matrix touch 8 different 16-byte
//               columns of the 128-byte bank line: no conflicts (tests/host counts them).
// completion    copies of k-tile t + Stages - 1 go to the stage that k-tile t - 1 left:
//
//     k-tile t:   mma ........................ mma | wait, barrier | first fragments of t + 1
//                 copies of t + Stages - 1 ->        ^ k-tile t + 1 is complete and visible;
//                 (stage of t - 1)                     all warps have left the stage of k-tile t
//
// rejects       nothing: what it cannot do is refused by the host entry, gemm.cuh.
// verified      simulated device, assembled for sm_80 to sm_121a, run on sm_90.
#pragma once
#include "common/operand_reader.cuh"
#include "common/walk.cuh"
#include "gemm/gemm_store.cuh"
#include "gemm/gemm_tiles.cuh"

namespace grout {

// What the kernel reads; 64-bit strides in elements.
template <class T> struct GemmMmaParameters {
  const T *a, *b;
  const void* c;
  void* d;
  int64_t m, n, k, lda, ldb, ldc;
  int64_t batch, batch_a, batch_b, batch_c, batch_d;  // strides between matrices; 0 repeats one
  float alpha, beta;
  ElementType out;
};

// Compile-time shape of a block's work.
template <int M, int N, int K, int WarpsMT, int WarpsNT, int StagesT> struct GemmMmaTile {
  static constexpr int m = M, n = N, k = K, warps_m = WarpsMT, warps_n = WarpsNT, stages = StagesT;
  static constexpr int threads = 32 * warps_m * warps_n;
  static constexpr int atoms_m = m / warps_m / 16, atoms_n = n / warps_n / 8;  // mma.m16n8k16 of one warp
  static_assert(k % 16 == 0, "GEMM tile: K must be a multiple of the instruction's 16, or products would be dropped");
  static_assert(m % (16 * warps_m) == 0, "GEMM tile: M must be a multiple of 16 rows for each warp row");
  static_assert(n % (16 * warps_n) == 0, "GEMM tile: N must be a multiple of 16 columns for each warp column");
  static_assert(stages >= 3, "GEMM tile: realigned vectors are stored one k-tile late, which needs 3 stages");
};

// Shared tile of an operand with Extent rows of m (or n), coordinates (m, k). KMajor: contiguous along k, in rows of 64 or
// 128 bytes. Otherwise contiguous along m, and the chunk number is XORed with k.
template <class T, int Extent, int K, bool KMajor> struct GemmOperandTile;
template <class T, int Extent, int K> struct GemmOperandTile<T, Extent, K, true> {
  static_assert(K * sizeof(T) == 64 || K * sizeof(T) == 128, "k-major operand tile: rows must be 64 or 128 bytes long");
  using SwizzleT = std::conditional_t<K * sizeof(T) == 64, Swizzle64B<T>, Swizzle128B<T>>;
  using Layout = decltype(compose(SwizzleT{}, row_major(shape(Int<Extent>{}, Int<K>{}))));
};
template <class T, int Extent, int K> struct GemmOperandTile<T, Extent, K, false> {
  static_assert(Extent * sizeof(T) % 128 == 0 && (Extent & (Extent - 1)) == 0,
                "m-major operand tile: a column must fill whole 128-byte bank lines, a power of two of them");
  static constexpr int kChunkBits = 4 - detail::log2_exact(sizeof(T));
  static constexpr int kColumnBits = detail::log2_exact(Extent);
  using Layout = decltype(compose(Swizzle<3, kChunkBits, kColumnBits - kChunkBits>{}, col_major(shape(Int<Extent>{}, Int<K>{}))));
};

// A ring of stages. The epilogue's strips, 8 rows a warp, share the last stage, which the next tile's first copies leave
// alone. Rows are padded by 8 floats, so that the pairs of four successive rows fill the 32 banks.
template <class T, class Tile> struct GemmMmaStorage {
  static constexpr int strip_rows = 8, strip_columns = Tile::n / Tile::warps_n, strip_pitch = strip_columns + 8;
  struct Stage {
    alignas(128) T a[Tile::m * Tile::k];
    alignas(128) T b[Tile::n * Tile::k];
  };
  Stage stage[Tile::stages];

  GROUT_DEVICE float* strip(int warp) {
    static_assert(Tile::warps_m * Tile::warps_n * strip_rows * strip_pitch * sizeof(float) <= sizeof(Stage),
                  "GEMM tile: the strips of all warps must fit into one stage");
    return reinterpret_cast<float*>(&stage[Tile::stages - 1]) + warp * strip_rows * strip_pitch;
  }
};

// TransA: A is stored K x M. TransB: B is stored N x K. (Row-major both; "nn" has A contiguous along k, B along n.)
template <class T, bool TransA, bool TransB, GemmPath Path, class Tile>
__global__ void __launch_bounds__(Tile::threads) gemm_mma_kernel(const GemmMmaParameters<T> p) {
  constexpr bool kKMajorA = !TransA, kKMajorB = TransB;
  constexpr int kStages = Tile::stages, kSteps = Tile::k / 16;
  constexpr Bounds kBounds = Path == GemmPath::aligned ? Bounds::none : Bounds::checked;
  constexpr CopyOptions kOptions = {
      .bounds = kBounds,
      .misaligned = Path == GemmPath::realign ? Misaligned::realign : Misaligned::elements,
      .partial = Partial::zero_fill,
  };
  constexpr bool kRealign = Path == GemmPath::realign;
  [[maybe_unused]] constexpr Edge kEdge = Path == GemmPath::aligned ? Edge::inside : Edge::zeros;
  using LayoutA = typename GemmOperandTile<T, Tile::m, Tile::k, kKMajorA>::Layout;
  using LayoutB = typename GemmOperandTile<T, Tile::n, Tile::k, kKMajorB>::Layout;
  using PlanA = CopyPlan<T, LayoutA, Tile::threads, kOptions>;
  using PlanB = CopyPlan<T, LayoutB, Tile::threads, kOptions>;
  using Sum = WarpTiled<MmaM16N8K16C, Tile::warps_m, Tile::warps_n, Tile::atoms_m, Tile::atoms_n>;

  using Storage = GemmMmaStorage<T, Tile>;
  auto& shared = dynamic_shared<Storage>();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const OperandReader<T, LayoutA, kKMajorA, true, Sum::patch_m> read_a(warp / Tile::warps_n * Sum::patch_m, lane);
  const OperandReader<T, LayoutB, kKMajorB, false, Sum::patch_n> read_b(warp % Tile::warps_n * Sum::patch_n, lane);

  // Both operands as (m or n, k); the stride along the contiguous axis is one, and known to be.
  const auto source_a = [&](int64_t batch) {
    const T* base = p.a + batch * p.batch_a;
    if constexpr (kKMajorA) return view(base, layout(shape(p.m, p.k), stride(p.lda, 1_c)));
    else return view(base, layout(shape(p.m, p.k), stride(1_c, p.lda)));
  };
  const auto source_b = [&](int64_t batch) {
    const T* base = p.b + batch * p.batch_b;
    if constexpr (kKMajorB) return view(base, layout(shape(p.n, p.k), stride(p.ldb, 1_c)));
    else return view(base, layout(shape(p.n, p.k), stride(1_c, p.ldb)));
  };
  using WalkA = TileWalk<PlanA, 1>;
  using WalkB = TileWalk<PlanB, 1>;

  const int64_t tiles_m = (p.m + Tile::m - 1) / Tile::m, tiles_n = (p.n + Tile::n - 1) / Tile::n;
  const int64_t tiles = tiles_m * tiles_n * p.batch;
  const int tiles_k = static_cast<int>((p.k + Tile::k - 1) / Tile::k);  // fits: gemm.cuh
  // First copies of a tile: its first Stages - 1 k-tiles, one group each. Returns the walks, at the next k-tile.
  const auto start = [&](const GemmTileIndex& at) {
    const auto from_a = source_a(at.batch);
    const auto from_b = source_b(at.batch);
    WalkA walk_a(from_a, at.m, thread);
    WalkB walk_b(from_b, at.n, thread);
#pragma unroll 1
    for (int stage = 0; stage < kStages - 1; ++stage) {
      if (stage < tiles_k) {
        auto& to = shared.stage[stage];
        if constexpr (kRealign) {
          VectorsInFlight<PlanA> flight_a;
          VectorsInFlight<PlanB> flight_b;
          walk_a.begin(from_a, flight_a, to.a), walk_b.begin(from_b, flight_b, to.b);
          walk_a.finish(from_a, flight_a, to.a), walk_b.finish(from_b, flight_b, to.b);
        } else {
          walk_a.template copy<kEdge>(from_a, to.a), walk_b.template copy<kEdge>(from_b, to.b);
        }
        walk_a.advance(from_a), walk_b.advance(from_b);
      }
      commit_copies();
    }
    return std::pair(walk_a, walk_b);
  };

  int64_t index = blockIdx.x;  // at least one tile a block
  auto [walk_a, walk_b] = start(gemm_tile_index(index, tiles_m, tiles_n));
  while (true) {
    const int64_t batch = gemm_tile_index(index, tiles_m, tiles_n).batch;
    const auto from_a = source_a(batch);
    const auto from_b = source_b(batch);
    Fragment<float, Sum> sum;
    sum.fill(0.f);
    uint32_t a[2][Tile::atoms_m][4], b[2][Tile::atoms_n / 2][4];  // fragments of this k step and of the next
    const auto load_fragments = [&](int buffer, int stage, int step) {
      const uint32_t stage_a = ptx::shared_address(shared.stage[stage].a), stage_b = ptx::shared_address(shared.stage[stage].b);
#pragma unroll
      for (int i = 0; i < Tile::atoms_m; ++i) read_a.load(a[buffer][i], stage_a, i, step);
#pragma unroll
      for (int j = 0; j < Tile::atoms_n / 2; ++j) read_b.load(b[buffer][j], stage_b, j, step);
    };
    const auto multiply = [&](int buffer) {
#pragma unroll
      for (int i = 0; i < Tile::atoms_m; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::atoms_n; ++j) {
          const uint32_t(&pair)[4] = b[buffer][j / 2];
          const uint32_t operand_b[2] = {pair[j % 2 * 2], pair[j % 2 * 2 + 1]};
          auto& d = *reinterpret_cast<float(*)[4]>(&sum[(i * Tile::atoms_n + j) * 4]);
          ptx::mma_m16n8k16<T>(d, a[buffer][i], operand_b, d);
        }
      }
    };

    wait_copies<kStages - 2>();
    __syncthreads();
    load_fragments(0, 0, 0);
    int read = 0, write = kStages - 1;
    [[maybe_unused]] VectorsInFlight<PlanA> flight_a;
    [[maybe_unused]] VectorsInFlight<PlanB> flight_b;
    // k-tiles first .. last - 1. With Edge::zeros copies are tested, and there may be none. With the others each k-tile
    // starts copies of one that needs no test, and they mix with the products.
    const auto multiply_tiles = [&](auto edge, int first, int last) {
      constexpr Edge kHere = decltype(edge)::value;
#pragma unroll 1
      for (int t = first; t < last; ++t) {
        const bool more = kHere != Edge::zeros || t + kStages - 1 < tiles_k;
        auto& to = shared.stage[write];
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          if (step == kSteps - 1) {
            wait_copies<kStages - 2>();
            __syncthreads();
            read = read + 1 == kStages ? 0 : read + 1;
          }
          load_fragments((step + 1) % 2, read, (step + 1) % kSteps);
          // Copies of A and of B start in different steps where there are enough: fewer addresses at once.
          constexpr int kStepB = kSteps > 2 ? 1 : 0;
          if (step == 0 && more) {
            if constexpr (kRealign) walk_a.begin(from_a, flight_a, to.a);
            else walk_a.template copy<kHere>(from_a, to.a);
          }
          if (step == kStepB && more) {
            if constexpr (kRealign) walk_b.begin(from_b, flight_b, to.b);
            else walk_b.template copy<kHere>(from_b, to.b);
          }
          if (step == kStepB) commit_copies();
          multiply(step % 2);
        }
        if (more) {
          if constexpr (kRealign) walk_a.finish(from_a, flight_a, to.a), walk_b.finish(from_b, flight_b, to.b);
          walk_a.advance(from_a), walk_b.advance(from_b);
        }
        write = write + 1 == kStages ? 0 : write + 1;
      }
    };
    int untested = 0;
    if constexpr (!kRealign) {
      const int64_t inside_a = walk_a.tiles_inside(from_a), inside_b = walk_b.tiles_inside(from_b);
      const int64_t both = inside_a < inside_b ? inside_a : inside_b;
      untested = both < kStages ? 0 : static_cast<int>(both) - (kStages - 1);  // copies run that much ahead
      if (Path == GemmPath::aligned || (walk_a.side_is_inside(from_a) && walk_b.side_is_inside(from_b))) {
        multiply_tiles(std::integral_constant<Edge, Edge::inside>{}, 0, untested);
      } else if constexpr (Path != GemmPath::aligned) {
        // Rows of A past M, columns of B past N become rows and columns of D that nobody stores: their values are free.
        multiply_tiles(std::integral_constant<Edge, Edge::sides_unused>{}, 0, untested);
      }
    }
    multiply_tiles(std::integral_constant<Edge, Edge::zeros>{}, untested, tiles_k);
    wait_copies<0>();
    __syncthreads();  // all warps have left the ring: the next tile's first copies run beside this tile's epilogue
    constexpr int kColumns = Storage::strip_columns, kPitch = Storage::strip_pitch;
    const int tile_m = walk_a.side(), tile_n = walk_b.side();
    index += gridDim.x;
    const bool more_tiles = index < tiles;
    if (more_tiles) {
      auto next = start(gemm_tile_index(index, tiles_m, tiles_n));
      walk_a = next.first, walk_b = next.second;
    }

    const Origin patch = {int64_t{tile_m} * Tile::m + warp / Tile::warps_n * Sum::patch_m,
                          int64_t{tile_n} * Tile::n + warp % Tile::warps_n * kColumns};
    const bool patch_is_inside = patch.row + Sum::patch_m <= p.m && patch.col + kColumns <= p.n;
    float* strip = shared.strip(warp);
#pragma unroll 1
    for (int i = 0; i < 2 * Tile::atoms_m; ++i) {  // 8 rows at a time: half an atom
#pragma unroll
      for (int half = 0; half < 2 * Tile::atoms_m; ++half) {
        if (half != i) continue;  // the accumulators of strip `i`, their indices known at compile time
#pragma unroll
        for (int atom = 0; atom < Tile::atoms_n; ++atom) {
          const auto c = MmaM16N8K16C::at(lane, 0);
          const int slot = (half / 2 * Tile::atoms_n + atom) * 4 + half % 2 * 2;  // and its right neighbour
          const uint32_t pair[2] = {std::bit_cast<uint32_t>(sum[slot]), std::bit_cast<uint32_t>(sum[slot + 1])};
          ptx::store_shared(ptx::shared_address(strip + c[0] * kPitch + atom * 8 + c[1]), pair);
        }
      }
      __syncwarp();  // the strip is complete
      const Origin origin = {patch.row + 8 * i, patch.col};
      gemm_store_strip<kBounds, Storage::strip_rows, kColumns, kPitch>(strip, p, batch, origin, patch_is_inside, lane);
      __syncwarp();  // all lanes have read the strip
    }
    if (!more_tiles) break;
  }
}

}  // namespace grout
