// Seeded crops through the host entries of copy/, for both devices: any extents, origins, pitches, strides and bases; and those
// that the copy engine can do.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "common/check.cuh"
#include "copy/copy_bounded.cuh"
#include "tests/kernels/gemm_cases.cuh"

namespace grout::test {

struct CropCase {
  CropArguments g;  // without addresses
  size_t misalignment = 0, misalignment_out = 0;  // bytes
};

inline std::string describe(const CropCase& x) {
  const CropArguments& g = x.g;
  const auto text = [](int64_t v) { return std::to_string(v); };
  return std::string(element_name(g.type)) + " " + text(g.source_rows) + "x" + text(g.source_cols) + " strides " +
         text(g.row_stride) + "," + text(g.col_stride) + " origin " + text(g.origin.row) + "," + text(g.origin.col) +
         " rectangle " + text(g.rows) + "x" + text(g.cols) + " ld " + text(g.ld) + " misaligned by " +
         text(static_cast<int64_t>(x.misalignment)) + " and " + text(static_cast<int64_t>(x.misalignment_out)) + " bytes";
}

// `largest` limits the rectangle.
inline std::vector<CropCase> crop_cases(int count, uint64_t seed, int64_t largest = INT64_MAX) {
  std::mt19937_64 random(seed);
  const int64_t extents[] = {0, 1, 2, 7, 31, 33, 63, 64, 65, 73, 97, 129};
  const int64_t origins[] = {0, -1, 1, 8, -63, -64, -65, 40, -7, 64, 200};
  Deck rows(12, random), cols(12, random), tile_rows(12, random), tile_cols(12, random), row_origin(11, random),
      col_origin(11, random), pad(10, random), offset(8, random), pad_out(10, random), offset_out(8, random), type(3, random),
      step(6, random), across(3, random), aligned(3, random);
  std::vector<CropCase> cases;
  for (int i = 0; i < count; ++i) {
    CropCase x;
    CropArguments& g = x.g;
    g.type = static_cast<ElementType>(type.deal());
    g.source_rows = extents[rows.deal()], g.source_cols = extents[cols.deal()];
    g.rows = std::min(extents[tile_rows.deal()], largest), g.cols = std::min(extents[tile_cols.deal()], largest);
    g.origin = {origins[row_origin.deal()], origins[col_origin.deal()]};
    const int s = step.deal();
    g.col_stride = s == 0 ? 2 : s == 1 ? -1 : 1;
    const bool align = aligned.deal() == 0;
    int64_t pitch = std::max<int64_t>(g.source_cols, 1) * std::abs(g.col_stride) + pad.deal();
    g.ld = g.cols + pad_out.deal();
    if (align) pitch = (pitch + 7) / 8 * 8, g.ld = (g.ld + 7) / 8 * 8;
    const int64_t row_strides[] = {pitch, -pitch, 1};
    g.row_stride = row_strides[across.deal()];
    const size_t size = element_bytes(g.type);
    x.misalignment = static_cast<size_t>(align ? 0 : offset.deal()) * size;
    x.misalignment_out = static_cast<size_t>(align ? 0 : offset_out.deal()) * size;
    cases.push_back(x);
  }
  return cases;
}

// A host entry of copy/.
struct CropKernel {
  std::string name;
  Status (*crop)(const CropArguments&, CropPath&);
  bool tensor_store = false, transposes = false;
};
inline CropKernel bounded_kernel() {
  return {"copy_bounded", [](const CropArguments& g, CropPath& path) {
            path = CropPath::bounded;
            return crop(g, nullptr);
          }};
}

// A 16 x 16 matrix and the crop of all of it, for a test to spoil.
struct SquareCrop {
  HostMatrix before{stored(ElementType::bf16, 16, 16), kOutputPadding};
  DeviceBuffer source{before}, destination{before};
  CropArguments arguments{.source = source.data(),
                          .source_rows = 16,
                          .source_cols = 16,
                          .row_stride = 16,
                          .destination = destination.data(),
                          .rows = 16,
                          .cols = 16,
                          .ld = 16};
  // Has nothing been written?
  bool untouched() const {
    std::vector<unsigned char> got(before.bytes.size());
    destination.download(got.data());
    return got == before.bytes;
  }
};

// Crops that a kernel of the ladder takes. `largest` limits the rectangle.
inline std::vector<CropCase> tensor_crop_cases(const CropKernel& kernel, int count, uint64_t seed, int64_t largest = INT64_MAX) {
  std::mt19937_64 random(seed);
  const int64_t extents[] = {0, 1, 2, 7, 8, 31, 33, 63, 64, 65, 72, 97, 128, 130};
  const int64_t row_origins[] = {0, -1, 1, -5, 40, -63, -64, -65, 64, -130, 129, 200};
  const int64_t col_origins[] = {0, -1, 1, -2, 2, -8, 8, -9, 5, 17, 40};  // in units of 16 bytes
  Deck rows(14, random), cols(14, random), tile_rows(14, random), tile_cols(14, random), row_origin(12, random),
      col_origin(11, random), pad(4, random), offset(4, random), pad_out(10, random), offset_out(8, random), type(3, random),
      aligned(3, random);
  std::vector<CropCase> cases;
  for (int i = 0; i < count; ++i) {
    CropCase x;
    CropArguments& g = x.g;
    g.type = static_cast<ElementType>(type.deal());
    const size_t size = element_bytes(g.type);
    const auto vector = static_cast<int64_t>(16 / size);
    g.source_rows = extents[rows.deal()], g.source_cols = extents[cols.deal()];
    g.rows = std::min(extents[tile_rows.deal()], largest), g.cols = std::min(extents[tile_cols.deal()], largest);
    g.origin = {row_origins[row_origin.deal()], col_origins[col_origin.deal()] * vector};
    g.row_stride = (g.source_cols + vector - 1) / vector * vector + pad.deal() * vector;
    x.misalignment = static_cast<size_t>(offset.deal()) * 16;
    g.ld = (kernel.transposes ? g.rows : g.cols) + pad_out.deal();
    x.misalignment_out = static_cast<size_t>(offset_out.deal()) * size;
    if (kernel.tensor_store || aligned.deal() == 0) {
      g.ld = (g.ld + vector - 1) / vector * vector;
      x.misalignment_out = x.misalignment_out / 16 * 16;
    }
    cases.push_back(x);
  }
  return cases;
}

// The bits of the element at byte `at`, never 0. Every third is a signalling NaN with a payload, which no arithmetic would keep.
inline uint32_t crop_bits(ElementType type, size_t at) {
  const uint32_t mixed = static_cast<uint32_t>((at + 1) * 0x9e3779b97f4a7c15u >> 32) | 1;
  if (at / element_bytes(type) % 3 != 0) return mixed;
  if (type == ElementType::f32) return (mixed | 0x7f800000) & ~0x00400000u;
  return type == ElementType::bf16 ? (mixed | 0x7f80) & ~0x0040u : (mixed | 0x7c00) & ~0x0200u;
}

// Runs the case; says what is wrong, nothing if all is right. `path` receives which kernel ran.
inline std::string run_crop(const CropCase& x, size_t guard = 256, const CropKernel& kernel = bounded_kernel(),
                            CropPath* path = nullptr) {
  CropArguments g = x.g;
  const size_t size = element_bytes(g.type);
  const bool empty = g.source_rows == 0 || g.source_cols == 0;
  const auto [low, elements] =
      empty ? Hull{} : hull_of({(g.source_rows - 1) * g.row_stride, (g.source_cols - 1) * g.col_stride});
  std::vector<unsigned char> source(static_cast<size_t>(elements) * size, kPoison);
  const auto at = [&, low = low](int64_t r, int64_t c) { return static_cast<size_t>(r * g.row_stride + c * g.col_stride - low) * size; };
  for (int64_t r = 0; r < g.source_rows; ++r)
    for (int64_t c = 0; c < g.source_cols; ++c) {
      const uint32_t value = crop_bits(g.type, at(r, c));
      std::memcpy(&source[at(r, c)], &value, size);
    }
  const HostMatrix before(stored(g.type, g.rows, g.cols, kernel.transposes, g.ld), kOutputPadding);
  DeviceBuffer device_source(source.size(), x.misalignment, kPoison, guard);
  DeviceBuffer device(before.bytes.size(), x.misalignment_out, kOutputPadding, guard);
  device_source.upload(source.data()), device.upload(before.bytes.data());
  g.source = device_source.as<unsigned char>() - low * static_cast<int64_t>(size), g.destination = device.data();
  CropPath ran = CropPath::bounded;
  const std::string what = kernel.name + " " + describe(x);
  if (const Status status = kernel.crop(g, ran); !status) return what + ": " + status.message;
  if (path) *path = ran;

  std::vector<unsigned char> expected = before.bytes, got(before.bytes.size());
  for (int64_t r = 0; r < g.rows; ++r)
    for (int64_t c = 0; c < g.cols; ++c) {
      const int64_t sr = r + g.origin.row, sc = c + g.origin.col;
      const bool inside = sr >= 0 && sc >= 0 && sr < g.source_rows && sc < g.source_cols;
      unsigned char* to = &expected[static_cast<size_t>(before.layout.index(0, r, c)) * size];
      if (inside) std::memcpy(to, &source[at(sr, sc)], size);
      else std::memset(to, 0, size);
    }
  device.download(got.data());
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != expected[i])
      return what + ": byte " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " + std::to_string(expected[i]);
  for (const DeviceBuffer* buffer : {&device_source, &device})
    if (const Status guards = buffer->check_guards(what); !guards) return guards.message;
  return "";
}

}  // namespace grout::test
