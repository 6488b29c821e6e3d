// Measures the copies against cudaMemcpy of as many bytes. Run by hand on a GPU:
//   cmake --build build --target bench_copy && build/tests/tools/bench_copy [--quick] [--cold] [--only TEXT]
// Everything in one process, ABBA order, random data, every result compared in full before it is timed. A ratio is the time of
// cudaMemcpy, device to device, for half the case's bytes (it reads and writes them), over the case's; "graph": both of twenty
// launches in a CUDA graph, where a launch of its own would take longer than the copy. Exit 1 on a wrong result.
#include <cinttypes>

#include "common/args.h"
#include "common/check_gpu.cuh"
#include "common/repack.cuh"
#include "copy/copy_batched.cuh"
#include "copy/copy_cluster.cuh"
#include "copy/copy_load.cuh"
#include "copy/copy_ring.cuh"
#include "copy/copy_store.cuh"
#include "copy/copy_stream.cuh"
#include "copy/copy_swizzle.cuh"
#include "tests/kernels/ring_walk.cuh"

namespace {
using namespace grout;

void require(const Status& status) {
  if (!status) throw std::runtime_error(status.message);
}

__global__ void empty_kernel() {}

// 16-bit words that no two neighbours share.
__global__ void fill_kernel(uint32_t* words, int64_t count, uint32_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    uint64_t x = (static_cast<uint64_t>(i) + seed) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    words[i] = static_cast<uint32_t>(x ^ x >> 31);
  }
}

// What a copy should be: element by element, from the definition. T: an integer of the element's size.
struct Expected {
  const void* source;
  int64_t source_rows, source_cols, row_stride, col_stride;
  Origin origin;
  const void* got;
  int64_t rows, cols, ld;
};
template <class T> __global__ void compare_kernel(const Expected e, unsigned long long* wrong) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < e.rows * e.cols; i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t r = i / e.cols, c = i % e.cols, row = r + e.origin.row, col = c + e.origin.col;
    const bool inside = row >= 0 && col >= 0 && row < e.source_rows && col < e.source_cols;
    const T value = inside ? static_cast<const T*>(e.source)[row * e.row_stride + col * e.col_stride] : T{0};
    if (static_cast<const T*>(e.got)[r * e.ld + c] != value) atomicAdd(wrong, 1ull);
  }
}

// Bytes of the 32-byte sectors that a row of `cols` elements with this stride touches.
double sectors(int64_t rows, int64_t cols, int64_t stride, int64_t bytes) {
  const int64_t reach = (cols - 1) * stride * bytes + bytes;
  return static_cast<double>(rows) * (stride * bytes >= 32 ? static_cast<double>(cols) * 32 : static_cast<double>((reach + 31) / 32 * 32));
}

struct Case {
  std::string name, what;
  double bytes;  // read and written
  Expected expected;
  int size;  // of an element
  std::function<Status(cudaStream_t)> run;
};

int run(int argc, char** argv) {
  Args args(argc, argv, "Benchmark of the copies: crops, the ladder, repacks, and a GEMM's loads, paired with cudaMemcpy.", {"quick", "cold"});
  const bool quick = args.flag("quick", "3 rounds of 5 ms instead of 10 of 40"), cold = args.flag("cold", "flush L2 before each run");
  const std::string only = args.text("only", "a part of a case's name: only those", "");
  if (const auto done = args.finish()) return *done;
  require(gpu_usable());
  DeviceInfo device;
  require(device_info(device));
  BenchOptions options = quick ? BenchOptions::quick() : BenchOptions{};
  options.cold = cold;

  const size_t most = size_t{3} << 30, out = size_t{1} << 30;
  DeviceBuffer source(most), destination(out, 0, 0xff), peer(most), count(8);
  fill_kernel<<<4096, 256>>>(source.as<uint32_t>(), static_cast<int64_t>(most / 4), 1);
  fill_kernel<<<4096, 256>>>(peer.as<uint32_t>(), static_cast<int64_t>(most / 4), 2);

  std::vector<Case> cases;
  const auto add_crop = [&](const std::string& name, auto&& entry, ElementType type, int64_t extent, int64_t ld, Origin origin,
                            bool transposed = false) {
    const auto bytes = static_cast<int64_t>(element_bytes(type));
    const CropArguments g = {.type = type, .source = source.data(), .source_rows = origin.row + extent, .source_cols = ld,
                             .row_stride = ld, .origin = origin, .destination = destination.data(), .rows = extent, .cols = extent,
                             .ld = extent};
    Expected e = {g.source, g.source_rows, g.source_cols, ld, 1, origin, g.destination, extent, extent, extent};
    if (transposed) e.row_stride = 1, e.col_stride = ld, e.source_rows = g.source_cols, e.source_cols = g.source_rows, e.origin = {origin.col, origin.row};
    cases.push_back({name, std::to_string(extent) + "x" + std::to_string(extent) + " " + element_name(type) + " at " + std::to_string(origin.row) + "," +
                     std::to_string(origin.col) + " of pitch " + std::to_string(ld), 2.0 * static_cast<double>(extent * extent * bytes), e,
                     static_cast<int>(bytes), [g, entry](cudaStream_t s) { return entry(g, s); }});
  };
  const auto stream = [](const CropArguments& g, cudaStream_t s) { return crop_stream(g, s); };
  const auto bounded = [](const CropArguments& g, cudaStream_t s) { return crop(g, s); };
  for (const auto& [name, entry] : {std::pair<std::string, std::function<Status(const CropArguments&, cudaStream_t)>>{"crop stream", stream},
                                    {"crop bounded", bounded}}) {
    add_crop(name, entry, ElementType::bf16, 16384, 16387, {1, 1});
    add_crop(name, entry, ElementType::bf16, 16384, 16512, {64, 64});
    add_crop(name, entry, ElementType::bf16, 16384, 16400, {1, 8});
    add_crop(name, entry, ElementType::f32, 8192, 8195, {1, 1});
    add_crop(name, entry, ElementType::bf16, 1000, 1003, {1, 1});
  }
  const auto rung = [&](const char* name, auto entry, bool transposed = false) {
    add_crop(std::string("ladder ") + name, entry, ElementType::bf16, 8192, 8200, {1, 8}, transposed);
  };
  rung("bounded", bounded);
  rung("load", [](const CropArguments& g, cudaStream_t s) { return crop_load(g, s); });
  rung("ring", [](const CropArguments& g, cudaStream_t s) { return crop_ring(g, s); });
  rung("store", [](const CropArguments& g, cudaStream_t s) { return crop_store(g, s); });
  rung("swizzle", [](const CropArguments& g, cudaStream_t s) { return crop_swizzle(g, s); }, true);
  rung("cluster", [](const CropArguments& g, cudaStream_t s) { return crop_cluster(g, s); });
  rung("stream", stream);
  for (const int batch : {1, 2, 4, 8, 16}) {
    const auto batched = [batch](const CropArguments& g, cudaStream_t s) { return crop_batched(g, batch, 256, s); };
    const std::string name = "crop batched " + std::to_string(batch);
    add_crop(name, batched, ElementType::bf16, 8192, 8200, {1, 8});
    add_crop(name, batched, ElementType::f32, 8192, 8195, {1, 1});
  }

  const auto add_repack = [&](ElementType type, int64_t rows, int64_t cols, int64_t stride, bool transposed) {
    const auto bytes = static_cast<int64_t>(element_bytes(type));
    const int64_t ld = (cols * bytes + 15) / 16 * 16 / bytes, pitch = (transposed ? rows : cols * stride) | 1;
    const RepackOperand o = {.source = source.data(), .rows = rows, .cols = cols, .row_stride = transposed ? 1 : pitch,
                             .col_stride = transposed ? pitch : stride, .copy = destination.data(), .ld = ld};
    const double read = transposed ? static_cast<double>(rows * cols * bytes) : sectors(rows, cols, stride, bytes);
    cases.push_back({"repack", std::to_string(rows) + "x" + std::to_string(cols) + " " + element_name(type) +
                     (transposed ? " transposed" : stride != 1 ? " stride " + std::to_string(stride) : "") + " of pitch " + std::to_string(pitch),
                     read + static_cast<double>(rows * ld * bytes),
                     {o.source, rows, cols, o.row_stride, o.col_stride, {0, 0}, o.copy, rows, ld, ld}, static_cast<int>(bytes),
                     [o, type](cudaStream_t s) { return repack({&o, 1}, type, s); }});
  };
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{8191, 8191}, {16383, 8193}, {4095, 4095}, {2047, 2047}}) {
    add_repack(ElementType::bf16, rows, cols, 1, false);
    add_repack(ElementType::bf16, rows, cols, 1, true);
    add_repack(ElementType::bf16, rows, cols, 2, false);
    add_repack(ElementType::bf16, rows, cols, 3, false);
  }
  for (const int64_t stride : {1, 2, 3}) add_repack(ElementType::f32, 8191, 8191, stride, false);
  add_repack(ElementType::f32, 8191, 8191, 1, true);

  // The floor of any kernel: one that does nothing, alone and in a graph of 20.
  BenchOptions floor = options;
  floor.cold = false;
  const BenchEntry empty = {"empty launch", [&](cudaStream_t s) { empty_kernel<<<1, 32, 0, s>>>(); }};
  std::printf("empty launch %.2f us, in a graph %.2f us\n", Bench(floor).compare({empty})[0].us, Bench(floor).compare({as_graph(empty, 20)})[0].us);

  int wrong = 0;
  for (const Case& c : cases) {
    if (!only.empty() && (c.name + " " + c.what).find(only) == std::string::npos) continue;
    require_success(cudaMemset(destination.data(), 0xff, out), "cudaMemset");
    require_success(cudaMemset(count.data(), 0, 8), "cudaMemset");
    require(c.run(nullptr));
    if (c.size == 2) compare_kernel<uint16_t><<<4096, 256>>>(c.expected, count.as<unsigned long long>());
    else compare_kernel<uint32_t><<<4096, 256>>>(c.expected, count.as<unsigned long long>());
    unsigned long long bad = 0;
    count.download(&bad);
    if (bad != 0) {
      std::printf("WRONG %s %s: %llu elements\n", c.name.c_str(), c.what.c_str(), bad);
      ++wrong;
      continue;
    }
    const auto half = static_cast<size_t>(c.bytes / 2);
    std::vector<BenchEntry> entries = {
        {"cudaMemcpy", [&](cudaStream_t s) { require_success(cudaMemcpyAsync(peer.data(), source.data(), half, cudaMemcpyDeviceToDevice, s), "cudaMemcpyAsync"); }},
        {c.name, [&](cudaStream_t s) { require(c.run(s)); }}};
    const bool short_run = c.bytes < 4e7 && !cold;
    if (short_run)
      for (BenchEntry& entry : entries) entry = as_graph(entry, 20);
    const std::vector<Timing> t = Bench(options).compare(entries);
    std::printf("%-15s %-48s %8.2f us %7.1f GB/s | cudaMemcpy %8.2f us %7.1f GB/s | %.3fx [%.3f, %.3f]%s\n", c.name.c_str(), c.what.c_str(),
                t[1].us, c.bytes / t[1].us * 1e-3, t[0].us, c.bytes / t[0].us * 1e-3, t[1].speed_up.median, t[1].speed_up.low, t[1].speed_up.high, short_run ? " graph" : "");
    std::fflush(stdout);
  }

  if (device.major >= 9 && (only.empty() || std::string("ring walk").find(only) != std::string::npos)) {
    constexpr int kExtent = 8192;
    TensorMap a, b;
    const auto map = [&](TensorMap& m, const void* base, int rows) {
      require(encode_tensor_map(m, {.type = ElementType::bf16, .base = base, .rank = 2, .extents = {kExtent, kExtent},
                                    .pitches = {0, kExtent * 2}, .box = {RingWalk::k, rows}, .swizzle = TensorSwizzle::b128}));
    };
    map(a, source.data(), RingWalk::m), map(b, source.as<bf16>() + int64_t{kExtent} * kExtent, RingWalk::n);
    const int tiles_m = kExtent / RingWalk::m, tiles_n = kExtent / RingWalk::n, steps = kExtent / RingWalk::k;
    const LaunchShape shape = {dim3(static_cast<unsigned>(device.sms)), dim3(RingWalk::threads), sizeof(RingWalk::Storage)};
    BenchOptions warm = options;
    warm.cold = false;
    const std::vector<Timing> t = Bench(warm).compare({{"ring walk", [&](cudaStream_t s) { require(launch(&ring_walk_kernel, shape, s, a, b, tiles_m, tiles_n, steps)); }}});
    const double bytes = static_cast<double>(tiles_m) * tiles_n * steps * (RingWalk::m + RingWalk::n) * RingWalk::k * 2;
    std::printf("%-15s %-48s %8.2f us %7.2f TB/s from L2\n", "ring walk", "8192x8192x8192 in stages of 128x64 + 256x64", t[0].us, bytes / t[0].us * 1e-6);
  }
  std::printf("%s L2, %d rounds; %d wrong\n", cold ? "cold" : "warm", options.rounds, wrong);
  return wrong ? 1 : 0;
}
}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
