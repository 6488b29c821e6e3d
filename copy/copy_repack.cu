// Repacks a matrix of any pitch, element stride and majorness, checks it, times it.   copy_repack 65 73 --stride -2 --offset 1
#include <chrono>
#include <cstdio>
#include <cstring>

#include "common/repack.cuh"
#include "copy/program.cuh"

namespace {
using namespace grout;

// The independent reference: element by element, bits as they are. Counts wrong elements of the copy, padding included.
Comparison check_repack(const HostMatrix& source, int64_t stride, const HostMatrix& copy, int64_t cols) {
  Comparison result;
  const size_t size = element_bytes(copy.layout.type);
  // The stored element that copy element (r, c) comes from: along its stored row, every |stride|-th, from the end if negative.
  const int64_t along = source.layout.transposed ? copy.layout.rows : cols;
  const auto place = [&](int64_t i) { return stride < 0 ? (along - 1 - i) * -stride : i * stride; };
  const int64_t rows = copy.layout.cols > 0 ? copy.layout.rows : 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < copy.layout.cols; ++c, ++result.elements) {
      uint32_t expected = 0, got = 0;
      if (c < cols) {
        const int64_t from =
            source.layout.transposed ? source.layout.index(0, place(r), c) : source.layout.index(0, r, place(c));
        std::memcpy(&expected, &source.bytes[static_cast<size_t>(from) * size], size);
      }
      std::memcpy(&got, &copy.bytes[static_cast<size_t>(copy.layout.index(0, r, c)) * size], size);
      result.wrong += expected != got;
    }
  if (result.wrong > 0)
    result.message = std::to_string(result.wrong) + " of " + std::to_string(result.elements) + " elements wrong";
  return result;
}

int run(int argc, char** argv) {
  Args args(argc, argv,
            "Repack: copies a matrix of any pitch, element stride and majorness to one with aligned, padded rows.",
            {"transpose"});
  constexpr int64_t kMost = int64_t{1} << 44;  // bytes of a copy that repack makes; times any stride it fits 64 bits
  const int64_t rows = args.positional("ROWS", "rows of the copy", {}, 0, kMost),
                cols = args.positional("COLS", "columns of the copy that are not padding", {}, 0, kMost);
  const bool transpose = args.flag("transpose", "the source is stored by columns");
  const int64_t stride = args.integer(
      "stride", "elements between neighbours of a stored row; negative: stored backwards, 0: all the same", 1, -1024, 1024);
  const int64_t along = transpose ? rows : cols;
  const int64_t row = along == 0 ? 0 : (along - 1) * (stride < 0 ? -stride : stride) + 1;
  const int64_t ld = args.integer("ld", "elements between stored rows; default: compact", row);
  const auto type = args.choice<ElementType>(
      "type", "of the elements", {{"bf16", ElementType::bf16}, {"f16", ElementType::f16}, {"f32", ElementType::f32}},
      ElementType::bf16);
  const auto vector = static_cast<int64_t>(16 / element_bytes(type));
  const int64_t out_ld = args.integer("out-ld", "elements between rows of the copy; default: the next multiple of 16 bytes",
                                      (cols + vector - 1) / vector * vector);
  const int64_t offset = args.integer("offset", "of the source's base from a 256-byte boundary, in elements", 0, 0, 1 << 20);
  const CommonOptions options = common_options(args, {{"auto", "repack"}, {"repack", "repack"}});
  if (ld < row)
    args.refuse("--ld is " + std::to_string(ld) + ": at least the " + std::to_string(row) +
                " elements of a stored row are needed");
  if (out_ld < cols || out_ld % vector != 0)
    args.refuse("--out-ld is " + std::to_string(out_ld) + ": at least " + std::to_string(cols) + " and a multiple of " +
                std::to_string(vector) + " elements (16 bytes) is needed");
  if (const std::optional<int> done = args.finish()) return *done;
  if (const std::optional<int> done = start_device(options, 80, argv)) return *done;

  const auto text = [](int64_t value) { return std::to_string(value); };
  const double stored_rows = static_cast<double>(transpose ? cols : rows);
  const double need =
      static_cast<double>(element_bytes(type)) *
      (2 * stored_rows * static_cast<double>(ld) + 3 * static_cast<double>(rows) * static_cast<double>(out_ld));
  if (const std::optional<int> done = refuse_memory(
          "ROWS=" + text(rows) + " COLS=" + text(cols) + " --ld " + text(ld) + " --out-ld " + text(out_ld), need))
    return *done;

  // Stored rows hold `row` elements; the matrix takes every |stride|-th of them.
  HostMatrix source(transpose ? stored(type, row, cols, true, ld, offset) : stored(type, rows, row, false, ld, offset));
  source.fill({options.data == Data::integers, options.seed, 4});
  HostMatrix copy(stored(type, rows, out_ld), kPoison);
  DeviceBuffer from(source), to(copy, kPoison);
  const auto first = (stride < 0 ? (along - 1) * -stride : 0) * static_cast<int64_t>(element_bytes(type));
  const RepackOperand operand[] = {{.source = along > 0 ? from.as<unsigned char>() + first : from.as<unsigned char>(),
                                    .rows = rows,
                                    .cols = cols,
                                    .row_stride = transpose ? stride : ld,
                                    .col_stride = transpose ? ld : stride,
                                    .copy = to.data(),
                                    .ld = out_ld}};
  const auto start = std::chrono::steady_clock::now();
  if (const Status status = repack(operand, type, nullptr); !status) return refused(status);
  to.download(copy.bytes.data());
  const double once_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  Comparison comparison = check_repack(source, stride, copy, cols);
  for (const auto& [name, buffer] : {std::pair{"source", &from}, std::pair{"copy", &to}})
    if (const Status guards = buffer->check_guards(name); !guards) comparison.message += guards.message;

  constexpr const char* kModes[] = {"rows", "transposed", "elements", "elements_transposed"};
  const RepackPlan plan = repack_plan(operand[0], static_cast<int>(element_bytes(type)));
  RunResult result{.pass = comparison.pass(),
                   .kernel = "repack",
                   .device = kSimulatedBuild ? "sim" : "gpu",
                   .path = kModes[static_cast<int>(plan.mode)],
                   .extents = {{"ROWS", rows}, {"COLS", cols}},
                   .error = static_cast<double>(comparison.wrong),
                   .time_us = once_us};
  if (!result.pass) {
    std::fprintf(stderr, "%s\n", comparison.message.c_str());
  } else if (!kSimulatedBuild && rows > 0 && out_ld > 0) {
    const BenchEntry entry = {"repack", [&](cudaStream_t s) { require(repack(operand, type, s)); }};
    result.time_us = time_beside_memcpy(entry, to);
  }
  return report(result, options);
}
}  // namespace

int main(int argc, char** argv) { return run_program(run, argc, argv); }
