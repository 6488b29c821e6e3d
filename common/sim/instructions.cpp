// Shared-memory addresses, ldmatrix and mma.sync. Semantics from the PTX ISA, "Warp Level Matrix Instructions".
#include "common/sim/state.h"

namespace grout::sim {

void* dynamic_shared() {
  if (!current) throw std::logic_error("dynamic_shared was called outside of a kernel");
  return current->block->shared;
}

std::uint32_t shared_address(const void* pointer, Loc loc) {
  if (!current) throw std::logic_error("shared_address was called outside of a kernel");
  const Block& block = *current->block;
  const auto offset = reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(block.shared);
  if (offset > block.shared_bytes) {
    Entry entry("shared_address", __builtin_return_address(0));
    fail(entry.self, Report::Kind::out_of_bounds, loc,
         text("a pointer that is ", std::intptr_t(offset), " bytes from the begin of the ", block.shared_bytes,
              " bytes of dynamic shared memory is used as one into it"),
         "only pointers into the block's own dynamic shared memory have a shared address");
  }
  return kSharedBase + std::uint32_t(offset);
}

void* shared_memory(Thread& self, Block& block, std::uint32_t address, unsigned bytes, unsigned alignment,
                    const char* what, const Loc& where) {
  const std::int64_t offset = std::int64_t(address) - kSharedBase, size = std::int64_t(block.shared_bytes);
  if (offset < 0 || offset + bytes > size) {
    fail(self, Report::Kind::out_of_bounds, where,
         text(what, " at shared offset ", offset, ", ", bytes, " bytes, of the block's ", size),
         "a shared address lies inside the block's dynamic shared memory");
  }
  if (address % alignment) {
    fail(self, Report::Kind::misuse, where, text(what, " at shared offset ", offset),
         alignment == 16 ? "the shared address is a multiple of 16 bytes"
                         : "the shared address is a multiple of the size");
  }
  return block.shared + offset;
}

void* shared_pointer(std::uint32_t address, unsigned bytes, const char* what, Loc loc) {
  Entry entry(what, __builtin_return_address(0));
  return shared_memory(entry.self, address, bytes, bytes, what, loc);
}

// ---- Vector loads and stores ----
namespace {

void check_access(Thread& self, const char* what, const void* memory, unsigned bytes, const Loc& where) {
  if (reinterpret_cast<std::uintptr_t>(memory) % bytes) {
    fail(self, Report::Kind::misuse, where,
         text(what, " of ", bytes, " bytes at address ", Hex{reinterpret_cast<std::uintptr_t>(memory)}),
         "the address of a vector access is a multiple of its size");
  }
  if (const void* bad = asan::first_poisoned(memory, bytes)) {
    const auto offset = static_cast<const char*>(bad) - static_cast<const char*>(memory);
    fail(self, Report::Kind::out_of_bounds, where,
         text(what, " of ", bytes, " bytes, of which byte ", offset, " is not in any allocation"),
         "an access lies inside one allocation");
  }
}

}  // namespace

void load(void* registers, const void* memory, unsigned bytes, Loc loc) {
  Entry entry("a vector load", __builtin_return_address(0));
  check_access(entry.self, "a vector load", memory, bytes, loc);
  tsan::reads(memory, bytes);
  std::memcpy(registers, memory, bytes);
}

void store(void* memory, const void* registers, unsigned bytes, Loc loc) {
  Entry entry("a vector store", __builtin_return_address(0));
  check_access(entry.self, "a vector store", memory, bytes, loc);
  tsan::writes(memory, bytes);
  std::memcpy(memory, registers, bytes);
  ++entry.self.block->scheduler->statistics.vector_stores;
}

// ---- ldmatrix ----
namespace {

struct LoadMatrix {
  std::uint32_t* r;
  const std::uint16_t* row;  // of 8 elements; null in lanes whose address is not used
  int count;
  bool trans;
};

std::uint32_t load_matrices(Warp& warp, const Group& group) {
  const LoadMatrix first = operands<LoadMatrix>(warp, 0);
  const std::uint16_t* rows[kWarp];
  std::uint32_t* registers[kWarp];
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const auto& mine = operands<LoadMatrix>(warp, lane);
    if (mine.count != first.count || mine.trans != first.trans) {
      fail(warp.threads[lane], Report::Kind::divergence, group.where, "ldmatrix of another shape than lane 0",
           "all 32 lanes execute the same ldmatrix");
    }
    rows[lane] = mine.row;
    registers[lane] = mine.r;
  }
  for (int m = 0; m < first.count; ++m) {
    const std::uint16_t* const* row = rows + 8 * m;
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      const unsigned i = lane / 4, j = lane % 4 * 2;  // this register: row i, columns j and j + 1
      if (first.trans) {
        registers[lane][m] = row[j][i] | std::uint32_t(row[j + 1][i]) << 16;
      } else {
        std::memcpy(&registers[lane][m], row[i] + j, 4);
      }
    }
  }
  ++warp.block->scheduler->statistics.ldmatrix;
  return group.arrived;
}

}  // namespace

void ldmatrix(std::uint32_t* r, int count, bool trans, std::uint32_t row_address, Loc loc) {
  Entry entry("ldmatrix", __builtin_return_address(0));
  if (count != 1 && count != 2 && count != 4) {
    fail(entry.self, Report::Kind::misuse, loc, text("ldmatrix of ", count, " matrices"),
         "ldmatrix loads 1, 2 or 4 matrices");
  }
  LoadMatrix mine{r, nullptr, count, trans};
  if (entry.self.lane < 8 * unsigned(count)) {
    mine.row =
        static_cast<const std::uint16_t*>(shared_memory(entry.self, row_address, 16, 16, "an ldmatrix row", loc));
    tsan::reads(mine.row, 16);
  }
  collective(entry.self, Op::ldmatrix, kAllLanes, &mine, loc, load_matrices);
}

// ---- mma.sync ----
namespace {

using Vector = float __attribute__((vector_size(16)));

struct Mma {
  float* d;
  const std::uint32_t *a, *b;
  const float* c;
  bool is_bf16;
};

float from_bf16(std::uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}

// Exact, subnormals too: half's exponent field moved to float's place, then scaled by 2^(127 - 15).
float from_f16(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | magnitude << 13);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f));
}

template <float (*convert)(std::uint32_t)>
void multiply(Warp& warp) {
  alignas(16) float a[16][16], b[16][8], d[16][8];  // m x k, k x n, m x n
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const auto& mine = operands<Mma>(warp, lane);
    const unsigned group = lane / 4, pair = lane % 4 * 2;
    for (unsigned i = 0; i < 4; ++i) {
      float* to = &a[group + i % 2 * 8][pair + i / 2 * 8];
      to[0] = convert(mine.a[i] & 0xffff);
      to[1] = convert(mine.a[i] >> 16);
    }
    for (unsigned i = 0; i < 2; ++i) {
      b[pair + i * 8][group] = convert(mine.b[i] & 0xffff);
      b[pair + i * 8 + 1][group] = convert(mine.b[i] >> 16);
    }
  }
  for (unsigned m = 0; m < 16; ++m) {
    Vector left{}, right{};
    for (unsigned k = 0; k < 16; ++k) {
      const auto* row = reinterpret_cast<const Vector*>(b[k]);
      left += a[m][k] * row[0];
      right += a[m][k] * row[1];
    }
    reinterpret_cast<Vector*>(d[m])[0] = left;
    reinterpret_cast<Vector*>(d[m])[1] = right;
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const auto& mine = operands<Mma>(warp, lane);
    for (unsigned i = 0; i < 4; ++i) mine.d[i] = mine.c[i] + d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
}

}  // namespace

void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], const float (&c)[4],
                  bool is_bf16, Loc loc) {
  Entry entry("mma.sync", __builtin_return_address(0));
  Mma mine{d, a, b, c, is_bf16};
  collective(entry.self, Op::mma, kAllLanes, &mine, loc, [](Warp& warp, const Group& group) {
    const bool bf16 = operands<Mma>(warp, 0).is_bf16;
    for (unsigned lane = 1; lane < kWarp; ++lane) {
      if (operands<Mma>(warp, lane).is_bf16 != bf16) {
        fail(warp.threads[lane], Report::Kind::divergence, group.where, "mma.sync of another type than lane 0",
             "all 32 lanes execute the same mma");
      }
    }
    bf16 ? multiply<from_bf16>(warp) : multiply<from_f16>(warp);
    ++warp.block->scheduler->statistics.mma;
    return group.arrived;
  });
}

}  // namespace grout::sim
