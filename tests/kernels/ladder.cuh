// The kernels of the ladder in copy/ as the tests of both devices call them, and everything that they refuse.
#pragma once
#include "copy/copy_cluster.cuh"
#include "copy/copy_load.cuh"
#include "copy/copy_store.cuh"
#include "copy/copy_swizzle.cuh"
#include "tests/kernels/crop_cases.cuh"

namespace grout::test {

inline std::vector<CropKernel> ladder() {
  return {
      {"copy_load", [](const CropArguments& g, CropPath& path) { return crop_load(g, nullptr, &path); }},
      {"copy_ring", [](const CropArguments& g, CropPath& path) { return crop_ring(g, nullptr, &path); }},
      {"copy_store", [](const CropArguments& g, CropPath& path) { return crop_store(g, nullptr, &path); }, true},
      {"copy_swizzle", [](const CropArguments& g, CropPath& path) { return crop_swizzle(g, nullptr, &path); }, false, true},
      {"copy_cluster", [](const CropArguments& g, CropPath& path) { return crop_cluster(g, nullptr, &path); }},
      {"copy_cluster of 4", [](const CropArguments& g, CropPath& path) { return crop_cluster<4>(g, nullptr, &path); }},
  };
}

// Rings of 1 to 6 stages, each through `blocks` blocks.
inline Status crop_ring_of(int stages, const CropArguments& g, CropPath* path, int blocks) {
  switch (stages) {
    case 1: return crop_ring<1>(g, nullptr, path, blocks);
    case 2: return crop_ring<2>(g, nullptr, path, blocks);
    case 3: return crop_ring<3>(g, nullptr, path, blocks);
    case 4: return crop_ring<4>(g, nullptr, path, blocks);
    case 5: return crop_ring<5>(g, nullptr, path, blocks);
    default: return crop_ring<6>(g, nullptr, path, blocks);
  }
}

// `tiles` tiles for each of `blocks` blocks, of which the last is cut; destinations with rows of 16 bytes, or not, by `odd`.
inline CropCase ring_case(int tiles, int blocks, bool odd) {
  CropCase x;
  x.g.source_rows = 64 * tiles * blocks - 7, x.g.source_cols = 40, x.g.row_stride = 40, x.g.origin = {-3, 8};
  x.g.rows = 64 * tiles * blocks - 5, x.g.cols = x.g.ld = 32 - odd;
  return x;
}

// Origins so far away that 32 bits just hold them; and a single row, which has no pitch, with any stride.
inline std::vector<CropCase> limit_cases() {
  constexpr int64_t kMost = INT32_MAX - 4096;
  CropCase x;
  x.g.source_rows = 9, x.g.source_cols = 21, x.g.row_stride = 24;
  x.g.rows = 5, x.g.cols = 9, x.g.ld = 16;
  std::vector<CropCase> cases;
  for (const Origin origin : {Origin{kMost - 5, 0}, {-kMost, 0}, {0, kMost / 8 * 8 - 16}, {0, -kMost / 8 * 8}}) {
    x.g.origin = origin;
    cases.push_back(x);
  }
  for (const int64_t stride : {0, 3, -7, 24}) {
    x.g.source_rows = 1, x.g.row_stride = stride, x.g.origin = {-2, 8};
    cases.push_back(x);
  }
  return cases;
}

// Refused by every kernel of the ladder, or, where `tensor_store`, by those that write through the copy engine.
struct TensorRefusal {
  const char* what;
  void (*change)(CropArguments&);            // a crop of 16 x 16 bf16 that all take
  std::vector<std::string> in_message;       // values and accepted values
  bool tensor_store = false;
  bool general = false;                      // refused by crop_check, of any crop
};
inline const std::vector<TensorRefusal>& tensor_refusals() {
  // What is long lies far from everything that is allocated here; nothing reads it.
  static const void* const far = reinterpret_cast<const void*>(uintptr_t{1} << 52);
  static const std::vector<TensorRefusal> all = {
      {"base",
       [](CropArguments& g) { g.source = static_cast<const char*>(g.source) + 6, g.source_rows = 15; },
       {"6 bytes past", "15x16"}},
      {"odd pitch",
       [](CropArguments& g) { g.row_stride = 15, g.source_cols = 15; },
       {"strides 15,1", "16x15", "multiple of 8"}},
      {"pitch of half a vector", [](CropArguments& g) { g.row_stride = 20, g.source_rows = 12; }, {"strides 20,1"}},
      {"overlapping rows", [](CropArguments& g) { g.row_stride = 8; }, {"strides 8,1", "at least 16"}},
      {"negative pitch",
       [](CropArguments& g) { g.source = static_cast<const bf16*>(g.source) + 240, g.row_stride = -16; },
       {"strides -16,1"}},
      {"repeated row", [](CropArguments& g) { g.row_stride = 0; }, {"strides 0,1"}},
      {"long pitch",
       [](CropArguments& g) { g.source = far, g.source_rows = 2, g.row_stride = int64_t{1} << 39; },
       {"strides 549755813888,1", "2^40"}},
      {"column stride", [](CropArguments& g) { g.col_stride = 2, g.source_cols = 8; }, {"strides 16,2"}},
      {"transposed", [](CropArguments& g) { g.row_stride = 1, g.col_stride = 16; }, {"strides 1,16"}},
      {"first column", [](CropArguments& g) { g.origin.col = 3; }, {"from column 3", "multiple of 8"}},
      {"negative first column", [](CropArguments& g) { g.origin.col = -4; }, {"from column -4"}},
      {"rows beyond 32 bits",
       [](CropArguments& g) { g.source = far, g.source_rows = int64_t{1} << 31, g.source_cols = 8; },
       {"2147483648x8", "32 bits"}},
      {"columns beyond 32 bits",
       [](CropArguments& g) { g.source = far, g.source_cols = g.row_stride = int64_t{1} << 32, g.source_rows = 1; },
       {"1x4294967296", "32 bits"}},
      {"origin row", [](CropArguments& g) { g.origin.row = int64_t{1} << 31; }, {"at 2147483648,0", "32 bits"}},
      {"origin row below", [](CropArguments& g) { g.origin.row = -(int64_t{1} << 31); }, {"at -2147483648,0", "32 bits"}},
      {"origin column", [](CropArguments& g) { g.origin.col = int64_t{1} << 32; }, {"at 0,4294967296", "32 bits"}},
      {"origin column below", [](CropArguments& g) { g.origin.col = -(int64_t{1} << 32); }, {"at 0,-4294967296", "32 bits"}},
      {"rectangle to 2^31", [](CropArguments& g) { g.origin.row = INT32_MAX - 4096 - 15; }, {"at 2147479536,0", "32 bits"}},
      {"2^29 tiles",
       [](CropArguments& g) { g.destination = const_cast<void*>(far), g.rows = g.cols = g.ld = 1 << 20; },
       {"1048576x1048576", "at most 2^29 tiles"}},
      {"no source", [](CropArguments& g) { g.source = nullptr; }, {"source is null"}, false, true},
      {"overlap", [](CropArguments& g) { g.source = g.destination; }, {"overlap"}, false, true},
      {"negative extent", [](CropArguments& g) { g.source_rows = -1; }, {"-1"}, false, true},
      {"destination base",
       [](CropArguments& g) { g.destination = static_cast<char*>(g.destination) + 2, g.rows = 15; },
       {"2 bytes past", "15x16"},
       true},
      {"destination pitch", [](CropArguments& g) { g.ld = 17, g.rows = 15; }, {"pitch 17", "15x16", "multiple of 8"}, true},
      {"long destination pitch",
       [](CropArguments& g) { g.source = far, g.ld = int64_t{1} << 39, g.rows = 2; },
       {"pitch 549755813888", "2^40"},
       true},
  };
  return all;
}

// Says what is wrong with how `kernel` refuses; nothing if it does, with its name, the values and the remedy, and writes
// nothing.
inline std::string run_refusal(const CropKernel& kernel, const TensorRefusal& refusal) {
  SquareCrop square;
  refusal.change(square.arguments);
  CropPath path;
  const Status status = kernel.crop(square.arguments, path);
  const std::string what = kernel.name + ", " + refusal.what + ": ";
  if (status.code != Code::invalid) return what + "not refused: " + status.message;
  std::vector<std::string> in_message = refusal.in_message;
  if (!refusal.general) in_message.insert(in_message.end(), {kernel.name.substr(0, kernel.name.find(' ')), "takes any"});
  for (const std::string& text : in_message)
    if (status.message.find(text) == std::string::npos) return what + "no '" + text + "' in: " + status.message;
  return square.untouched() ? "" : what + "the destination was written";
}

}  // namespace grout::test
