// Tensor copies: boxes of a tensor map. A box is cut into pieces that are contiguous in shared and in global memory.
#include "common/sim/state.h"

namespace grout::sim {
namespace {

constexpr std::uint32_t kChunk = 16;  // bytes that a swizzle moves together

unsigned swizzle_bits(TensorMap::Swizzle swizzle) {
  return swizzle == TensorMap::Swizzle::none ? 0 : unsigned(swizzle);
}

// Bits 4.. of the address ^= its bits 7..: one, two or three of them. The block's shared memory begins at a multiple of 1024.
std::uint32_t swizzled(std::uint32_t offset, unsigned bits) {
  return offset ^ (offset >> 7 & ((1u << bits) - 1)) << 4;
}

/// What of the rules for cuTensorMapEncodeTiled the map breaks; null if nothing.
const char* broken_rule(const TensorMap& map) {
  const auto power_of_two = [](unsigned n) { return n && !(n & (n - 1)); };
  if (map.rank > 3) return "a tensor map has 1 to 3 dimensions";
  if (!power_of_two(map.element_bytes) || map.element_bytes > 8) return "elements have 1, 2, 4 or 8 bytes";
  if (unsigned(map.swizzle) > unsigned(TensorMap::Swizzle::b128)) return "the swizzle is none, 32, 64 or 128 bytes";
  if (!map.base || reinterpret_cast<std::uintptr_t>(map.base) % 16)
    return "the base is a multiple of 16 bytes, and not null";
  if (map.pitch_bytes[0] != map.element_bytes) return "elements of the first dimension are contiguous";
  for (unsigned d = 0; d < map.rank; ++d) {
    if (map.extent[d] < 1 || map.extent[d] > std::uint64_t(1) << 32) return "an extent is 1 to 2^32 elements";
    if (map.box[d] < 1 || map.box[d] > 256) return "a box has 1 to 256 elements in each dimension";
    if (d && (map.pitch_bytes[d] % 16 || map.pitch_bytes[d] >= std::uint64_t(1) << 40))
      return "a pitch is a multiple of 16 bytes, less than 2^40";
    if (d && map.pitch_bytes[d] < map.extent[0] * map.element_bytes) return "a pitch is at least a row long";
  }
  if (map.rank == 3 && map.extent[1] > 1 && map.extent[2] > 1) {  // either may be the longer
    const int shorter = map.pitch_bytes[1] <= map.pitch_bytes[2] ? 1 : 2, longer = 3 - shorter;
    if ((map.pitch_bytes[longer] - map.extent[0] * map.element_bytes) / map.pitch_bytes[shorter] < map.extent[shorter] - 1)
      return "the longer of two pitches is at least a slice of the shorter one long";
  }
  const std::uint32_t row = map.box[0] * map.element_bytes;
  if (row % 16) return "a row of a box is a multiple of 16 bytes";
  if (const unsigned bits = swizzle_bits(map.swizzle); bits && row != 16u << bits)
    return "a row of a box is as long as the swizzle's span (32, 64 or 128 bytes): longer ones the driver refuses, behind shorter "
           "ones the hardware leaves a gap";
  return nullptr;
}

void check_map(Thread& self, const TensorMap& map, int rank, const char* what, const Loc& where) {
  if (asan::first_poisoned(&map, sizeof map)) {
    fail(self, Report::Kind::out_of_bounds, where, text(what, " with a tensor map that is not in any allocation"),
         "a tensor map is a __grid_constant__ parameter of the kernel");
  }
  if (!map.rank) {
    fail(self, Report::Kind::misuse, where, text(what, " with a tensor map that was never encoded"),
         "the host encodes a tensor map before it launches the kernel");
  }
  if (const char* rule = broken_rule(map)) {
    fail(self, Report::Kind::misuse, where, text(what, " with a tensor map that cannot be encoded"), rule);
  }
  if (rank && map.rank != rank) {
    fail(self, Report::Kind::misuse, where, text(what, " of ", rank, " dimensions with a tensor map of ", map.rank),
         "the instruction has as many dimensions as the tensor map");
  }
}

void add(std::vector<Piece>& pieces, const Piece& piece) {
  if (!piece.bytes) return;
  if (!pieces.empty()) {
    Piece& last = pieces.back();
    const bool follows = piece.global ? last.global && last.global + last.bytes == piece.global : !last.global;
    if (follows && last.offset + last.bytes == piece.offset) {
      last.bytes += piece.bytes;
      return;
    }
  }
  pieces.push_back(piece);
}

/// Checks the operands, and gives the copy its pieces. `zeros`: a load, to which what lies outside of the matrix is zero.
void add_box(Thread& self, Copy& copy, const TensorMap& map, const std::int32_t* coordinates, int rank, std::uint32_t shared,
             bool zeros) {
  check_map(self, map, rank, copy.name, copy.where);
  const std::int64_t element = map.element_bytes, first = coordinates[0] * element;
  if (first % kChunk) {
    fail(self, Report::Kind::misuse, copy.where,
         text(copy.name, " of a box that starts at element ", coordinates[0], " of the fastest dimension, at byte ", first),
         "the start in the fastest dimension is a multiple of 16 bytes; elsewhere the hardware traps");
  }
  for (int d = 0; d < rank && !zeros; ++d) {
    if (coordinates[d] >= 0) continue;
    fail(self, Report::Kind::misuse, copy.where,
         text(copy.name, " of a box that starts at ", coordinates[d], " in dimension ", d),
         "a tensor store starts at coordinates of 0 or more; elsewhere the hardware traps. A load may start before the tensor");
  }
  std::int64_t box[3] = {1, 1, 1}, start[3] = {}, extent[3] = {1, 1, 1};
  for (int d = 0; d < rank; ++d) {
    box[d] = map.box[d];
    start[d] = coordinates[d];
    extent[d] = std::int64_t(map.extent[d]);
  }
  const std::int64_t row = box[0] * element;
  const auto bytes = std::uint64_t(row * box[1] * box[2]);
  const unsigned bits = swizzle_bits(map.swizzle);
  const std::uint32_t alignment = 128u << bits;
  const unsigned size = unsigned(std::min<std::uint64_t>(bytes, std::uint32_t(-1)));
  const auto begin = static_cast<unsigned char*>(shared_memory(self, shared, size, kChunk, copy.name, copy.where));
  const auto offset = std::uint32_t(begin - self.block->shared);
  if (offset % alignment) {
    fail(self, Report::Kind::misuse, copy.where,
         text(copy.name, " of a box at shared offset ", offset, ", which is not a multiple of ", alignment),
         bits ? "a swizzled box starts at a multiple of the pattern's period (256, 512 or 1024 bytes for spans of 32, 64, "
                "128): the hardware follows the absolute address, so that elsewhere the pattern begins in its middle"
              : "a box starts at a multiple of 128 bytes of shared memory");
  }
  copy.bytes = std::uint32_t(bytes);

  std::uint32_t place = offset;
  for (std::int64_t z = 0; z < box[2]; ++z) {
    for (std::int64_t y = 0; y < box[1]; ++y) {
      const std::int64_t at[3] = {start[0], start[1] + y, start[2] + z};
      const bool outside = at[1] < 0 || at[1] >= extent[1] || at[2] < 0 || at[2] >= extent[2];
      unsigned char* begin_of_row = map.base;
      for (int d = 1; d < rank && !outside; ++d) begin_of_row += at[d] * std::int64_t(map.pitch_bytes[d]);
      for (std::int64_t x = first; x < first + row; x += kChunk, place += kChunk) {
        const std::int64_t left = outside || x < 0 ? 0 : extent[0] * element - x;
        const auto valid = std::uint32_t(std::clamp<std::int64_t>(left, 0, kChunk));
        const std::uint32_t to = swizzled(place, bits);
        // A store writes the whole unit in which the row ends, as the hardware was seen to do.
        if (valid) add(copy.pieces, {to, zeros ? valid : kChunk, begin_of_row + x});
        if (zeros) add(copy.pieces, {to + valid, kChunk - valid, nullptr});
      }
    }
  }
  check_global(self, copy);
}

}  // namespace

void tensor_load(std::uint32_t shared, const TensorMap& map, const std::int32_t* coordinates, int rank,
                 std::uint32_t barrier, std::uint16_t blocks, Loc loc) {
  constexpr const char* kName = "cp.async.bulk.tensor.shared::cluster.global";
  void* caller = __builtin_return_address(0);
  Entry90 entry(kName, caller, loc);
  Thread& self = entry.self;
  Engine& engine = self.block->scheduler->engine;
  Copy& copy = engine.prepare(Copy::Kind::load, kName, self, loc, caller);
  add_box(self, copy, map, coordinates, rank, shared, true);
  add_targets(self, copy, barrier, blocks);
  ++self.block->scheduler->statistics.tensor_loads;
  engine.issue();
}

void tensor_store(const TensorMap& map, const std::int32_t* coordinates, int rank, std::uint32_t shared, Loc loc) {
  constexpr const char* kName = "cp.async.bulk.tensor.global.shared::cta";
  void* caller = __builtin_return_address(0);
  Entry90 entry(kName, caller, loc);
  Thread& self = entry.self;
  Engine& engine = self.block->scheduler->engine;
  Copy& copy = engine.prepare(Copy::Kind::store, kName, self, loc, caller);
  add_box(self, copy, map, coordinates, rank, shared, false);
  ++self.block->scheduler->statistics.tensor_stores;
  engine.issue();
}

void prefetch_tensormap(const TensorMap& map, Loc loc) {
  Entry90 entry("prefetch.tensormap", __builtin_return_address(0), loc);
  check_map(entry.self, map, 0, "prefetch.tensormap", loc);
}

}  // namespace grout::sim
