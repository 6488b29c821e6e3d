// What the crops by tensor copy share on the host: which crops the copy engine can do, their tensor maps, and the portable
// kernel where there is no such engine.
//
// The engine has rules of its own (common/tensor_map.cuh). What a rung cannot take it refuses, on every device alike, in one
// sentence with the values and the remedy, before anything is written.
#pragma once
#include "common/tensor_map.cuh"
#include "copy/copy_bounded.cuh"

namespace grout {

// What a rung of the ladder asks of a crop beyond the rules for its source.
struct CropRung {
  const char* name;           // "copy_load"
  bool tensor_store = false;  // the destination is written by the copy engine too
  bool transposes = false;    // destination[c, r] = source[r + origin.row, c + origin.col]; the destination is cols x rows
};

namespace detail {
// Rows of a pitch (elements) that the engine can step through. A single row has no pitch.
inline bool tensor_pitch(int64_t rows, int64_t cols, int64_t pitch, int64_t bytes) {
  return rows <= 1 || (pitch >= cols && pitch < (int64_t{1} << 40) / bytes && pitch * bytes % 16 == 0);
}

// A matrix as the engine sees it, in boxes of `box_rows` rows of 128 bytes.
inline Status crop_map(TensorMap& map, ElementType type, const void* base, int64_t rows, int64_t cols, int64_t pitch,
                       int box_rows, TensorSwizzle swizzle) {
  const auto bytes = static_cast<int64_t>(element_bytes(type));
  return encode_tensor_map(map, {.type = type,
                                 .base = base,
                                 .rank = 2,
                                 .extents = {cols, rows},
                                 .pitches = {0, rows > 1 ? pitch * bytes : (cols * bytes + 15) / 16 * 16},
                                 .box = {static_cast<int>(128 / bytes), box_rows},
                                 .swizzle = swizzle});
}
inline Status crop_source_map(TensorMap& map, const CropArguments& g, int box_rows,
                              TensorSwizzle swizzle = TensorSwizzle::none) {
  return crop_map(map, g.type, g.source, g.source_rows, g.source_cols, g.row_stride, box_rows, swizzle);
}
// Of the whole 16-byte units of the destination's rows; of one, never used, where there is none.
inline Status crop_destination_map(TensorMap& map, const CropArguments& g, int box_rows) {
  const auto vector = static_cast<int64_t>(16 / element_bytes(g.type));
  const int64_t whole = g.cols < vector ? vector : g.cols / vector * vector;
  return crop_map(map, g.type, g.destination, g.rows, whole, g.ld, box_rows, TensorSwizzle::none);
}
}  // namespace detail

// Refuses what the tensor copies of a rung cannot do. Asks no device.
inline Status crop_check_tensor(const CropRung& rung, const CropArguments& g) {
  const auto text = [](int64_t value) { return std::to_string(value); };
  const auto bytes = static_cast<int64_t>(element_bytes(g.type));
  const auto beyond = [](const void* base) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(base) % 16); };
  const std::string name = rung.name;
  const std::string remedy = rung.transposes ? "crop of the transposed source (crop_transposed) takes any, and "
                                               "repack (--kernel repack --transpose) transposes a whole matrix"
                                             : "copy_bounded (--kernel bounded) takes any";
  constexpr int64_t kMost = INT32_MAX - 4096;  // a tile may start before it and end behind
  if (g.source_rows > kMost || g.source_cols > kMost || g.rows > kMost || g.cols > kMost || g.origin.row < -kMost ||
      g.origin.row > kMost - g.rows || g.origin.col < -kMost || g.origin.col > kMost - g.cols ||
      CropTiles<64, 32>(g.rows, g.cols).count() >= 1 << 29)
    return invalid(name + " counts coordinates in 32 bits, and at most 2^29 tiles of 64x32: source " + text(g.source_rows) +
                   "x" + text(g.source_cols) + ", rectangle " + text(g.rows) + "x" + text(g.cols) + " at " +
                   text(g.origin.row) + "," + text(g.origin.col) + "; " + remedy);
  const std::string vector = text(16 / bytes);
  if (g.source_rows > 0 && g.source_cols > 0 &&
      (beyond(g.source) != 0 || g.col_stride != 1 ||
       !detail::tensor_pitch(g.source_rows, g.source_cols, g.row_stride, bytes) || g.origin.col * bytes % 16 != 0))
    return invalid(name + " cannot read a source of " + text(g.source_rows) + "x" + text(g.source_cols) + " " +
                   element_name(g.type) + ", " + text(beyond(g.source)) + " bytes past a multiple of 16, strides " +
                   text(g.row_stride) + "," + text(g.col_stride) + ", from column " + text(g.origin.col) +
                   ": it needs a base at a multiple of 16 bytes, a row stride that is a multiple of " + vector +
                   ", at least " + text(g.source_cols) +
                   " and below 2^40 bytes, column stride 1, and a first column that is a multiple of " + vector + "; " +
                   remedy);
  if (rung.tensor_store && (beyond(g.destination) != 0 || !detail::tensor_pitch(g.rows, g.cols, g.ld, bytes)))
    return invalid(name + " cannot write a destination of " + text(g.rows) + "x" + text(g.cols) + " " +
                   element_name(g.type) + ", " + text(beyond(g.destination)) + " bytes past a multiple of 16, pitch " +
                   text(g.ld) + ": it needs a base at a multiple of 16 bytes and a pitch that is a multiple of " + vector +
                   " and below 2^40 bytes; copy_ring (--kernel ring) takes any destination, " + remedy);
  return {};
}

// The host entry of every rung: checks, then runs launch(T{}, number of multiprocessors) with T the element type. On a
// device before 9.0, which has no copy engine, and for a source without elements, of which there is no tensor map, the
// portable kernel does the same crop; `path`, if given, receives which ran.
template <class Launch>
Status crop_by_tensor(const CropRung& rung, const CropArguments& g, cudaStream_t stream, CropPath* path,
                      const Launch& launch) {
  const CropArguments portable = rung.transposes ? crop_transposed(g) : g;
  if (Status status = crop_check(portable); !status) return rung.transposes ? crop_of_transposed(status) : status;
  if (g.rows == 0 || g.cols == 0) return {};
  if (Status status = crop_check_tensor(rung, g); !status) return status;
  DeviceInfo device;
  if (Status status = device_info(device); !status) return status;
  const bool tensor = device.major >= 9 && g.source_rows > 0 && g.source_cols > 0;
  if (path) *path = tensor ? CropPath::tensor : CropPath::bounded;
  if (!tensor) return crop(portable, stream);
  switch (g.type) {
    case ElementType::bf16: return launch(bf16{}, device.sms);
    case ElementType::f16: return launch(f16{}, device.sms);
    default: return launch(float{}, device.sms);
  }
}

}  // namespace grout
