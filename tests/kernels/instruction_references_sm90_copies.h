// The cases of the instruction tests for bulk and tensor copies, of compute capability 9.0: for each kernel of
// instructions_sm90_copies.cuh. As in instruction_references.h.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/tensor_map.cuh"
#include "tests/kernels/instruction_references.h"
#include "tests/kernels/instructions_sm90_copies.cuh"

namespace grout::instructions {

// ---- bulk copies --------------------------------------------------------------------------------------------------

inline Case bulk_loads_case(unsigned blocks) {
  Source source(520);
  Case c{.name = "bulk_loads",
         .kernel = bulk_loads,
         .grid = blocks,
         .block = 64,
         .shared_bytes = sizeof(BulkShared),
         .in = {4 + blocks * 40, 0, 0, 0},
         .capability = 90};
  const Words data = source.words(2048);
  const uint32_t sizes[12] = {16, 16, 32, 48, 80, 112, 256, 496, 1024, 2048, 3072, 4096};
  for (unsigned block = 0; block < blocks; ++block) {
    const Words order = source.permutation(12);
    std::array<uint32_t, 12> places{};  // the copies lie in another order in the image than they are made
    const Words places_order = source.permutation(12);
    uint32_t end = 0;
    for (const uint32_t i : places_order) {
      places[i] = end + 4 * source.below(4);
      end = places[i] + sizes[i] / 4;
    }
    Words image(kBulkWords, kUntouched);
    for (unsigned phase = 0; phase < 4; ++phase) {
      c.in.push_back((phase + block) % 4);
      for (unsigned i = 0; i < 3; ++i) {
        const uint32_t copy = order[phase * 3 + i], words = sizes[copy] / 4,
                       from = 4 * source.below((2048 - words) / 4 + 1);
        c.in.insert(c.in.end(), {places[copy], from, sizes[copy]});
        std::copy_n(data.begin() + from, words, image.begin() + places[copy]);
      }
      c.expected.insert(c.expected.end(), image.begin(), image.end());
    }
  }
  c.in.insert(c.in.end(), data.begin(), data.end());
  return c;
}

// Two clusters. The masks of the first are random, but not none; those of the second name one's own rank, all, the
// next rank and all but one's own.
inline Words masks(Source& source, unsigned cluster) {
  Words result;
  const unsigned all = (1u << cluster) - 1;
  for (unsigned rank = 0; rank < cluster; ++rank) result.push_back(1 + source.below(all));
  for (unsigned rank = 0; rank < cluster; ++rank) {
    const unsigned choices[4] = {1u << rank, all, 1u << (rank + 1) % cluster, cluster > 1 ? all & ~(1u << rank) : all};
    result.push_back(choices[rank % 4]);
  }
  return result;
}

inline Case bulk_loads_multicast_case(unsigned cluster, unsigned bytes) {
  Source source(530 + cluster + bytes);
  const unsigned blocks = cluster * 2, words = bytes / 4;
  Case c{.name = "bulk_loads_multicast_" + std::to_string(cluster) + "_" + std::to_string(bytes),
         .kernel = bulk_loads_multicast,
         .grid = blocks,
         .shared_bytes = sizeof(BulkShared),
         .cluster = cluster,
         .capability = 90};
  const uint32_t begin = (4 + blocks + 3) / 4 * 4;
  const Words to = masks(source, cluster), data = source.words(blocks * words);
  c.in = {bytes, begin, 0, 0};
  c.in.insert(c.in.end(), to.begin(), to.end());
  c.in.resize(begin);
  c.in.insert(c.in.end(), data.begin(), data.end());
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned from = 0; from < cluster; ++from) {
      const unsigned sender = block / cluster * cluster + from;
      for (unsigned i = 0; i < words; ++i)
        c.expected.push_back(to[sender] >> block % cluster & 1 ? data[sender * words + i] : kUntouched);
    }
  return c;
}

inline Case bulk_copies_to_cluster_case(unsigned cluster) {
  Source source(540 + cluster);
  const unsigned blocks = cluster * 2;
  const uint32_t bytes[3] = {1024, 16, 240};
  Case c{.name = "bulk_copies_to_cluster_" + std::to_string(cluster),
         .kernel = bulk_copies_to_cluster,
         .grid = blocks,
         .block = 64,
         .shared_bytes = 2048 + 8,
         .in = {bytes[0], bytes[1], bytes[2], 0},
         .cluster = cluster,
         .capability = 90};
  const Words data = source.words(blocks * 3 * 256);
  c.in.insert(c.in.end(), data.begin(), data.end());
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned round = 0; round < 3; ++round) {
      const unsigned before = block / cluster * cluster + (block + cluster - 1) % cluster;
      for (unsigned i = 0; i < 256; ++i)
        c.expected.push_back(i < bytes[round] / 4 ? data[(before * 3 + round) * 256 + i]
                                                  : kUntouched);
    }
  return c;
}

inline Case bulk_stores_case() {
  Source source(550);
  Case c{
      .name = "bulk_stores", .kernel = bulk_stores, .block = 64, .shared_bytes = sizeof(BulkShared), .capability = 90};
  const Words image = source.words(kBulkWords);
  const uint32_t sizes[6] = {2048, 16, 4096, 48, 1008, 32};
  uint32_t end = 0;
  c.expected.assign(2048, c.fill);
  for (const uint32_t bytes : sizes) {
    const uint32_t words = bytes / 4, to = end + 4 * source.below(4),
                   from = 4 * source.below((kBulkWords - words) / 4 + 1);
    c.in.insert(c.in.end(), {from, to, bytes});
    std::copy_n(image.begin() + from, words, c.expected.begin() + to);
    end = to + words;
  }
  c.in.resize(20);
  c.in.insert(c.in.end(), image.begin(), image.end());
  return c;
}

inline Case bulk_store_groups_case() {
  Source source(560);
  Case c{.name = "bulk_store_groups",
         .kernel = bulk_store_groups,
         .shared_bytes = 3 * 32 * 16,
         .in = source.words(640),
         .capability = 90};
  c.expected = c.in;
  for (const uint32_t word : c.in) c.expected.push_back(~word);
  return c;
}

inline Case bulk_load_of_written_case() {
  Source source(570);
  Case c{.name = "bulk_load_of_written",
         .kernel = bulk_load_of_written,
         .block = 64,
         .shared_bytes = sizeof(BulkShared),
         .in = source.words(64),
         .capability = 90};
  for (unsigned i = 0; i < 64; ++i) c.expected.push_back(c.in[63 - i]);
  for (unsigned i = 0; i < 64; ++i) c.expected.push_back(c.in[63 - (i ^ 1)]);
  return c;
}

// ---- tensor copies ------------------------------------------------------------------------------------------------

// What a case says of its tensor map, without its address.
struct Tensor {
  std::string name = {};
  int rank = 1;
  ElementType type = ElementType::bf16;
  TensorSwizzle swizzle = TensorSwizzle::none;
  int64_t extents[3] = {1, 1, 1}, pitches[3] = {0, 0, 0};  // elements, bytes
  int box[3] = {1, 1, 1};
  size_t bytes = 0;  // from the first element to the end of the last row's pitch
};
using Start = std::array<int64_t, 3>;

// Where the ISA's swizzle modes put byte `offset` of a dense box: the 16-byte chunks of each 128-byte line are
// permuted, by a pattern that repeats after 2, 4 and 8 lines.
inline size_t swizzled(TensorSwizzle swizzle, size_t offset) {
  constexpr uint8_t Order[8][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5},
                                   {3, 2, 1, 0, 7, 6, 5, 4}, {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
                                   {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};
  const size_t lines[4] = {1, 2, 4, 8}, line = offset / 128;  // none, 32B, 64B, 128B
  return line * 128 + Order[line % lines[static_cast<int>(swizzle)]][offset % 128 / 16] * 16 + offset % 16;
}

inline int bytes_of(const Tensor& t) {
  return t.type == ElementType::f32 ? 4 : 2;
}
inline size_t box_bytes(const Tensor& t) {
  return static_cast<size_t>(t.box[0]) * t.box[1] * t.box[2] * bytes_of(t);
}
// Of an image: the box, whole periods of every swizzle, and as much again that stays untouched.
inline unsigned image_words(const Tensor& t) {
  return static_cast<unsigned>((box_bytes(t) + 1023) / 1024 * 256 + 256);
}

// Calls f(byte in the raw image, byte in the tensor or -1 where the element lies outside) for each byte of the box.
template <class F>
void for_each_byte(const Tensor& t, const Start& start, F f) {
  const int size = bytes_of(t);
  size_t dense = 0;
  for (int z = 0; z < t.box[2]; ++z)
    for (int y = 0; y < t.box[1]; ++y)
      for (int x = 0; x < t.box[0]; ++x) {
        const int64_t at[3] = {start[0] + x, start[1] + y, start[2] + z};
        bool inside = true;
        for (int i = 0; i < 3; ++i) inside = inside && at[i] >= 0 && at[i] < t.extents[i];
        for (int byte = 0; byte < size; ++byte, ++dense)
          f(swizzled(t.swizzle, dense),
            inside ? at[0] * size + at[1] * t.pitches[1] + at[2] * t.pitches[2] + byte : int64_t{-1});
      }
}

// Boxes side by side that cover the tensor and reach over each of its ends; those of `stores` not over its begin.
inline std::vector<Start> tiles(const Tensor& t, bool brief, bool stores = false) {
  std::vector<Start> all;
  const int64_t first[3] = {stores ? 0 : -16 / bytes_of(t), t.rank > 1 && !stores ? -2 : 0, t.rank > 2 && !stores ? -1 : 0};
  for (int64_t z = first[2]; z < t.extents[2]; z += t.box[2])
    for (int64_t y = first[1]; y < t.extents[1]; y += t.box[1])
      for (int64_t x = first[0]; x < t.extents[0]; x += t.box[0]) all.push_back({x, y, z});
  if (brief && all.size() > 3) all = {all.front(), all[all.size() / 2], all.back()};
  return all;
}

// Extents: `large` (several boxes, odd) or smaller than the box. Rows of `row_bytes` in the box; their pitch has room
// that no copy may touch.
inline Tensor make_tensor(int rank, ElementType type, TensorSwizzle swizzle, int row_bytes, bool large) {
  constexpr const char* Names[4] = {"none", "32B", "64B", "128B"};
  Tensor t{.rank = rank, .type = type, .swizzle = swizzle};
  const int size = bytes_of(t);
  t.name = std::to_string(rank) + "d_" + element_name(type) + "_" + Names[static_cast<int>(swizzle)] + "_rows_of_" +
           std::to_string(row_bytes) + (large ? "" : "_small");
  const int box[3] = {row_bytes / size, 7, 3};
  const int64_t extents[3] = {large ? 2 * box[0] + 5 : 5, large ? 17 : 3, large ? 5 : 2};
  std::copy_n(box, rank, t.box);
  std::copy_n(extents, rank, t.extents);
  t.pitches[1] = (extents[0] * size + 15) / 16 * 16 + 16;
  t.pitches[2] = t.pitches[1] * t.extents[1] + 48;
  t.bytes = static_cast<size_t>(rank == 1   ? t.pitches[1]
                                : rank == 2 ? t.pitches[1] * t.extents[1]
                                            : t.pitches[2] * t.extents[2]);
  return t;
}

// The same with the third dimension between the rows of the second, as heads lie in a row.
inline Tensor make_interleaved_tensor(ElementType type, TensorSwizzle swizzle, int row_bytes) {
  Tensor t = make_tensor(3, type, swizzle, row_bytes, true);
  t.name += "_interleaved";
  t.pitches[2] = t.pitches[1];
  t.pitches[1] = t.pitches[2] * t.extents[2] + 48;
  t.bytes = static_cast<size_t>(t.pitches[1] * t.extents[1]);
  return t;
}

inline TensorMapArguments arguments(const Tensor& t, const void* base) {
  TensorMapArguments a{.type = t.type, .base = base, .rank = t.rank, .swizzle = t.swizzle};
  std::copy_n(t.extents, 3, a.extents);
  std::copy_n(t.pitches, 3, a.pitches);
  std::copy_n(t.box, 3, a.box);
  return a;
}

using TensorKernel = void (*)(const uint32_t*, uint32_t*, TensorMap);

// The case's kernel gets a map of the tensor that begins at word `begin` of in, or of out.
inline void start_with_map(Case& c, TensorKernel kernel, const Tensor& t, size_t begin, bool of_out) {
  c.start = [kernel, t, begin, of_out](const Case& self, const uint32_t* in, uint32_t* out) {
    TensorMap map;
    if (Status s = encode_tensor_map(map, arguments(t, (of_out ? out : in) + begin)); !s) return s;
    return launch(kernel, shape(self), nullptr, in, out, map);
  };
}

inline TensorKernel tensor_load_kernel(int rank) {
  return rank == 1 ? tensor_load<1> : rank == 2 ? tensor_load<2> : tensor_load<3>;
}
inline TensorKernel tensor_load_multicast_kernel(int rank) {
  return rank == 1 ? tensor_load_multicast<1> : rank == 2 ? tensor_load_multicast<2> : tensor_load_multicast<3>;
}
inline TensorKernel tensor_store_kernel(int rank) {
  return rank == 1 ? tensor_store<1> : rank == 2 ? tensor_store<2> : tensor_store<3>;
}

inline void put_starts(Case& c, const Tensor& t, const std::vector<Start>& starts, const Words& to = {}) {
  c.in = {image_words(t), static_cast<uint32_t>(box_bytes(t)), 0, 0};
  for (size_t i = 0; i < starts.size(); ++i) {
    for (const int64_t coordinate : starts[i]) c.in.push_back(static_cast<uint32_t>(coordinate));
    c.in.push_back(to.empty() ? 0 : to[i]);
  }
}

// What a load leaves in an image; `memory` begins with the tensor.
inline Words loaded(const Tensor& t, const Start& start, const Words& memory) {
  Words image(image_words(t), kUntouched);
  auto* const bytes = reinterpret_cast<unsigned char*>(image.data());
  const auto* const source = reinterpret_cast<const unsigned char*>(memory.data());
  for_each_byte(t, start, [&](size_t to, int64_t from) { bytes[to] = from < 0 ? 0 : source[from]; });
  return image;
}

// Loads of the boxes at `starts`, from a tensor among random words.
inline Case tensor_load_case(const Tensor& t, const std::vector<Start>& starts, const std::string& suffix = "") {
  Source source(600 + static_cast<uint32_t>(t.bytes));
  Case c{.name = "tensor_load_" + t.name + suffix,
         .grid = static_cast<unsigned>(starts.size()),
         .shared_bytes = image_words(t) * 4 + 8,
         .capability = 90};
  put_starts(c, t, starts);
  const Words before = source.words(16), memory = source.words(t.bytes / 4 + 16);
  c.in.insert(c.in.end(), before.begin(), before.end());
  start_with_map(c, tensor_load_kernel(t.rank), t, c.in.size(), false);
  c.in.insert(c.in.end(), memory.begin(), memory.end());
  for (const Start& start : starts) {
    const Words image = loaded(t, start, memory);
    c.expected.insert(c.expected.end(), image.begin(), image.end());
  }
  return c;
}

// The tiles, and boxes that touch the tensor's last element only, or nothing.
inline Case tensor_load_case(const Tensor& t, bool brief) {
  std::vector<Start> starts = tiles(t, brief);
  const int64_t step = 16 / bytes_of(t), *const e = t.extents;
  starts.push_back({(e[0] - 1) / step * step, e[1] - 1, e[2] - 1});
  starts.push_back({-t.box[0], 0, 0});
  starts.push_back({(e[0] + step - 1) / step * step, 0, 0});
  if (t.rank > 1) starts.push_back({0, e[1], 0});
  if (t.rank > 2) starts.push_back({0, 0, -t.box[2]});
  return tensor_load_case(t, starts);
}

// Starts at the ends of what a coordinate can be.
inline Case tensor_load_far_case() {
  const Tensor t = make_tensor(3, ElementType::bf16, TensorSwizzle::b64, 64, true);
  const int64_t low = INT32_MIN, high = INT32_MAX;
  return tensor_load_case(
      t, {{low, 0, 0}, {high - 7, 0, 0}, {0, low, 0}, {0, high, 0}, {0, 0, low}, {0, 0, high}, {low, low, low}},
      "_far");
}

inline Case tensor_load_multicast_case(const Tensor& t, unsigned cluster) {
  Source source(700 + cluster + static_cast<uint32_t>(t.bytes));
  const unsigned blocks = cluster * 2;
  Case c{.name = "tensor_load_multicast_" + std::to_string(cluster) + "_" + t.name,
         .grid = blocks,
         .shared_bytes = image_words(t) * 4 * cluster + 8,
         .cluster = cluster,
         .capability = 90};
  std::vector<Start> starts = tiles(t, false);
  while (starts.size() < blocks) starts.push_back(starts[starts.size() - 1]);
  starts.resize(blocks);
  const Words to = masks(source, cluster), memory = source.words(t.bytes / 4 + 16);
  put_starts(c, t, starts, to);
  start_with_map(c, tensor_load_multicast_kernel(t.rank), t, c.in.size(), false);
  c.in.insert(c.in.end(), memory.begin(), memory.end());
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned from = 0; from < cluster; ++from) {
      const unsigned sender = block / cluster * cluster + from;
      const Words image =
          to[sender] >> block % cluster & 1 ? loaded(t, starts[sender], memory) : Words(image_words(t), kUntouched);
      c.expected.insert(c.expected.end(), image.begin(), image.end());
    }
  return c;
}

inline Case tensor_store_case(const Tensor& t, bool brief) {
  constexpr size_t Begin = 16;  // words of out before the tensor
  Source source(800 + static_cast<uint32_t>(t.bytes));
  const std::vector<Start> starts = tiles(t, brief, true);
  Case c{.name = "tensor_store_" + t.name,
         .grid = static_cast<unsigned>(starts.size()),
         .shared_bytes = image_words(t) * 4,
         .capability = 90};
  put_starts(c, t, starts);
  c.in[2] = static_cast<uint32_t>(c.in.size());
  start_with_map(c, tensor_store_kernel(t.rank), t, Begin, true);
  c.expected.assign(Begin + t.bytes / 4 + 16, c.fill);
  auto* const tensor = reinterpret_cast<unsigned char*>(c.expected.data() + Begin);
  for (const Start& start : starts) {
    const Words image = source.words(image_words(t));
    const auto* const bytes = reinterpret_cast<const unsigned char*>(image.data());
    c.in.insert(c.in.end(), image.begin(), image.end());
    size_t byte = 0;
    int64_t unit = -1;  // of 16 bytes, which is written as a whole where its first element lies inside
    for_each_byte(t, start, [&](size_t from, int64_t to) {
      if (byte % 16 == 0) unit = to;
      if (unit >= 0) tensor[unit + static_cast<int64_t>(byte % 16)] = bytes[from];
      ++byte;
    });
  }
  return c;
}

}  // namespace grout::instructions
