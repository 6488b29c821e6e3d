// What the example programs of this directory share: the timing, and of the crops all but the kernel. For programs only.
#pragma once
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "common/bench.cuh"
#include "common/check.cuh"
#include "common/program.cuh"
#include "copy/crop.cuh"

namespace grout {

struct CropProgram {
  std::string kernel;  // its name for --kernel and in the last line
  std::string summary;
  std::function<Status(const CropArguments&, cudaStream_t, CropPath*)> crop;
  int simulated_capability = 90;  // what the simulated device reports: 10 * major + minor
  bool transposes = false;        // the destination is the transpose of the rectangle
  std::function<void(Args&)> options = [](Args&) {};  // takes options of its own
  std::function<void()> print = [] {};                // prints lines after the first crop
};

// Times a copy into `to` beside cudaMemcpy of as many bytes, prints both, gives its microseconds. GPU.
inline double time_beside_memcpy(const BenchEntry& copy, const DeviceBuffer& to) {
  const size_t bytes = to.size();
  DeviceBuffer plain(bytes);
  const std::vector<Timing> timings = Bench(BenchOptions::quick(false)).compare(
      {{"cudaMemcpy",
        [&](cudaStream_t s) {
          require_success(cudaMemcpyAsync(plain.data(), to.data(), bytes, cudaMemcpyDeviceToDevice, s), "cudaMemcpyAsync");
        }},
       copy});
  require_figures(timings);
  for (const Timing& t : timings)
    std::printf("%-10s %.2f us, %.1f GB/s, twice the bytes of the destination; %.3fx [%.3f, %.3f] of cudaMemcpy, L2 warm\n",
                t.name.c_str(), t.us, 2.0 * static_cast<double>(bytes) / t.us * 1e-3, t.speed_up.median, t.speed_up.low,
                t.speed_up.high);
  return timings.back().us;
}

namespace detail {
// The independent reference: element by element, bits as they are. Counts wrong elements and changed padding.
inline Comparison check_crop(const HostMatrix& source, const HostMatrix& got, const HostMatrix& before, Origin origin) {
  Comparison result;
  std::vector<unsigned char> expected = before.bytes;
  const size_t size = element_bytes(got.layout.type);
  const int64_t rows = got.layout.cols > 0 ? got.layout.rows : 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < got.layout.cols; ++c, ++result.elements) {
      const int64_t row = r + origin.row, col = c + origin.col;
      const bool inside = row >= 0 && col >= 0 && row < source.layout.rows && col < source.layout.cols;
      unsigned char* to = &expected[static_cast<size_t>(got.layout.index(0, r, c)) * size];
      std::memset(to, 0, size);
      if (inside) std::memcpy(to, &source.bytes[static_cast<size_t>(source.layout.index(0, row, col)) * size], size);
      result.wrong += std::memcmp(to, &got.bytes[static_cast<size_t>(got.layout.index(0, r, c)) * size], size) != 0;
    }
  }
  int64_t differing = 0;
  for (size_t i = 0; i < expected.size(); ++i) differing += expected[i] != got.bytes[i];
  result.touched = result.wrong == 0 ? differing : 0;
  if (differing > 0)
    result.message = std::to_string(result.wrong) + " of " + std::to_string(result.elements) + " elements wrong, " +
                     std::to_string(result.touched) + " padding bytes changed";
  return result;
}

inline int run_crop(const CropProgram& program, int argc, char** argv) {
  Args args(argc, argv, program.summary);
  const int64_t rows = args.positional("ROWS", "rows of the source"),
                cols = args.positional("COLS", "columns of the source");
  const auto tile = args.pair("tile", "extents of the rectangle; default: those of the source", {rows, cols}, 0);
  const auto origin =
      args.pair("origin", "where the rectangle starts in the source; may be negative or past the end", {0, 0});
  const int64_t ld = args.integer("ld", "elements between rows of the source; default: compact", cols);
  const int64_t compact = program.transposes ? tile.first : tile.second;
  const int64_t out_ld = args.integer("out-ld", "elements between rows of the destination; default: compact", compact);
  const int64_t offset = args.integer("offset", "of both bases from a 256-byte boundary, in elements", 0, 0, 1 << 20);
  const auto type = args.choice<ElementType>(
      "type", "of the elements", {{"bf16", ElementType::bf16}, {"f16", ElementType::f16}, {"f32", ElementType::f32}},
      ElementType::bf16);
  program.options(args);
  const CommonOptions options = common_options(args, {{"auto", program.kernel}, {program.kernel, program.kernel}});
  if (ld < cols)
    args.refuse("--ld is " + std::to_string(ld) + ": at least the " + std::to_string(cols) +
                " elements of a row are needed");
  if (const std::optional<int> done = args.finish()) return *done;
  CropArguments g{.type = type,
                  .source_rows = rows,
                  .source_cols = cols,
                  .row_stride = ld,
                  .origin = {origin.first, origin.second},
                  .rows = tile.first,
                  .cols = tile.second,
                  .ld = out_ld};
  if (const Status status =
          program.transposes ? crop_of_transposed(crop_check_extents(crop_transposed(g))) : crop_check_extents(g);
      !status) return refused(status);
  if (const std::optional<int> done = start_device(options, program.simulated_capability, argv)) return *done;

  const auto product = [](auto... x) { return (1.0 * ... * static_cast<double>(x)); };
  const auto text = [](int64_t value) { return std::to_string(value); };
  const int64_t out_rows = program.transposes ? tile.second : tile.first;
  const double need = product(element_bytes(type), 2 * product(rows, ld) + 4 * product(out_rows, out_ld));
  if (const std::optional<int> done =
          refuse_memory("ROWS=" + text(rows) + " COLS=" + text(cols) + " --ld " + text(ld) + " --tile " + text(tile.first) +
                            "," + text(tile.second) + " --out-ld " + text(out_ld),
                        need))
    return *done;

  HostMatrix source(stored(type, rows, cols, false, ld, offset));
  source.fill({options.data == Data::integers, options.seed, 4});
  const HostMatrix before(stored(type, tile.first, tile.second, program.transposes, out_ld, offset), kOutputPadding);
  DeviceBuffer from(source), to(before, kOutputPadding);
  g.source = from.data(), g.destination = to.data();
  CropPath path = CropPath::bounded;
  const auto crop_once = [&](cudaStream_t stream) { require(program.crop(g, stream, &path)); };
  const auto start = std::chrono::steady_clock::now();
  if (const Status status = program.crop(g, nullptr, &path); !status) return refused(status);
  program.print();
  HostMatrix got = before;
  to.download(got.bytes.data());
  const double once_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  Comparison comparison = check_crop(source, got, before, g.origin);
  for (const auto& [name, buffer] : {std::pair{"source", &from}, std::pair{"destination", &to}})
    if (const Status guards = buffer->check_guards(name); !guards) comparison.message += guards.message;

  RunResult result{.pass = comparison.pass(), .kernel = program.kernel, .device = kSimulatedBuild ? "sim" : "gpu",
                   .path = crop_path_name(path),
                   .extents = {{"ROWS", tile.first}, {"COLS", tile.second}},
                   .error = static_cast<double>(comparison.wrong + comparison.touched), .time_us = once_us};
  if (!result.pass) {
    std::fprintf(stderr, "%s\n", comparison.message.c_str());
  } else if (!kSimulatedBuild && tile.first > 0 && tile.second > 0) {
    result.time_us = time_beside_memcpy({program.kernel, crop_once}, to);
  }
  return report(result, options);
}
}  // namespace detail

inline int crop_main(const CropProgram& program, int argc, char** argv) {
  return run_program([&](int count, char** arguments) { return detail::run_crop(program, count, arguments); }, argc, argv);
}

}  // namespace grout
