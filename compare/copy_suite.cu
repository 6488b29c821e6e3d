// Copies: the crops, the ladder and repack against cudaMemcpy of as many bytes; the batched copy against itself.
//
// Expected outputs are element by element, from the definition, in a kernel that does nothing else.
#include "common/check_gpu.cuh"
#include "common/repack.cuh"
#include "compare/policies.cuh"
#include "copy/copy_batched.cuh"
#include "copy/copy_cluster.cuh"
#include "copy/copy_load.cuh"
#include "copy/copy_ring.cuh"
#include "copy/copy_store.cuh"
#include "copy/copy_stream.cuh"
#include "copy/copy_swizzle.cuh"
#include "tests/kernels/ring_walk.cuh"

namespace grout::compare {
namespace {

// What a copy should be: destination[r, c] = source[r + origin.row, c + origin.col], zeros outside. T: an integer of the element's size.
struct Expected {
  const void* source;
  int64_t source_rows, source_cols, row_stride, col_stride;
  Origin origin;
  const void* got;
  int64_t rows, cols, ld;
};
template <class T>
__global__ void compare_kernel(const Expected e, unsigned long long* wrong) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < e.rows * e.cols;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t r = i / e.cols, c = i % e.cols, row = r + e.origin.row, col = c + e.origin.col;
    const bool inside = row >= 0 && col >= 0 && row < e.source_rows && col < e.source_cols;
    const T value = inside ? static_cast<const T*>(e.source)[row * e.row_stride + col * e.col_stride] : T{0};
    if (static_cast<const T*>(e.got)[r * e.ld + c] != value) atomicAdd(wrong, 1ull);
  }
}

// The memory of all cases: sources are random, everything that is written is poisoned first.
struct Arena {
  static constexpr size_t kMost = size_t{3} << 30, kOut = size_t{1} << 30;
  DeviceBuffer source{kMost}, destination{kOut}, peer{kMost}, count{8};
  Arena() { fill_random(source, 1), fill_random(peer, 2); }
};
Arena& arena() {
  static Arena memory;
  return memory;
}

Judgement judge(const Expected& e, int size) {
  Arena& memory = arena();
  require_success(cudaMemset(memory.count.data(), 0, 8), "cudaMemset");
  if (size == 2)
    compare_kernel<uint16_t><<<4096, 256>>>(e, memory.count.as<unsigned long long>());
  else
    compare_kernel<uint32_t><<<4096, 256>>>(e, memory.count.as<unsigned long long>());
  require_success(cudaGetLastError(), "the comparison");
  unsigned long long wrong = 0;
  memory.count.download(&wrong);
  return {e.rows * e.cols, static_cast<double>(wrong), 0,
          wrong ? std::to_string(wrong) + " of " + std::to_string(e.rows * e.cols) + " elements wrong" : ""};
}

constexpr std::ptrdiff_t kBand = 4096;  // bytes
// A policy that writes the start of the destination, and nothing of the band behind it.
Policy copy_policy(const std::string& name, const Expected& e, int size, std::function<Status(cudaStream_t)> run) {
  Policy p;
  p.sample.name = name;
  p.run = [run = std::move(run)](cudaStream_t s) { require(run(s)); };
  const auto extent = static_cast<size_t>(e.rows * e.ld) * static_cast<size_t>(size);
  p.poison = [extent] {
    require_success(cudaMemset(arena().destination.data(), kPoison, extent + kBand), "cudaMemset");
  };
  p.judge = [e, size, extent] {
    Judgement verdict = judge(e, size);
    std::vector<unsigned char> band(kBand);
    require_success(
        cudaMemcpy(band.data(), arena().destination.as<unsigned char>() + extent, kBand, cudaMemcpyDeviceToHost),
        "cudaMemcpy");
    if (std::count(band.begin(), band.end(), kPoison) != kBand)
      verdict.wrong +=
          (verdict.wrong.empty() ? "" : ", ") + std::string("the bytes behind the destination were written");
    return verdict;
  };
  return p;
}
// cudaMemcpy of half the case's bytes: it reads and writes them.
Policy memcpy_peer(double bytes) {
  const size_t half = static_cast<size_t>(bytes / 2) / 4 * 4;
  Policy p;
  p.sample.name = "cudaMemcpy", p.sample.role = Role::peer;
  p.sample.requested = p.sample.realised = {{"kind", "device to device"}};
  p.run = [half](cudaStream_t s) {
    require_success(cudaMemcpyAsync(arena().peer.data(), arena().source.data(), half, cudaMemcpyDeviceToDevice, s),
                    "cudaMemcpyAsync");
  };
  p.poison = [half] { require_success(cudaMemset(arena().peer.data(), kPoison, half), "cudaMemset"); };
  const auto words = static_cast<int64_t>(half / 4);
  p.judge = [words] {
    return judge({arena().source.data(), 1, words, words, 1, {0, 0}, arena().peer.data(), 1, words, words}, 4);
  };
  return p;
}

ElementType type_named(const std::string& name) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16, ElementType::f32})
    if (name == element_name(type)) return type;
  throw std::runtime_error("the type is '" + name + "'; bf16, f16 and f32 exist");
}

// ---- crops ----

constexpr int kWorkers = 256;  // of the batched copy

struct Kernel {
  const char* name;
  Status (*crop)(const CropArguments&, cudaStream_t);
  bool transposed = false;  // the destination is the transpose of the rectangle
};
constexpr Kernel kKernels[] = {
    {"stream", [](const CropArguments& g, cudaStream_t s) { return crop_stream(g, s); }},
    {"bounded", [](const CropArguments& g, cudaStream_t s) { return crop(g, s); }},
    {"load", [](const CropArguments& g, cudaStream_t s) { return crop_load(g, s); }},
    {"ring", [](const CropArguments& g, cudaStream_t s) { return crop_ring(g, s); }},
    {"store", [](const CropArguments& g, cudaStream_t s) { return crop_store(g, s); }},
    {"swizzle", [](const CropArguments& g, cudaStream_t s) { return crop_swizzle(g, s); }, true},
    {"cluster", [](const CropArguments& g, cudaStream_t s) { return crop_cluster(g, s); }},
};

Case copy_case(const std::string& name, Settings shape, const Protocol& protocol) {
  Case c;
  c.suite = "copy", c.name = name, c.shape = std::move(shape), c.protocol = protocol;
  return c;
}
std::string text(int64_t value) {
  return std::to_string(value);
}

Case crop_case(const std::string& kernels, ElementType type, int64_t rows, int64_t cols, int64_t pitch, Origin origin,
               const Protocol& protocol) {
  return copy_case("crop " + text(rows) + "x" + text(cols) + " " + element_name(type) + " at " + text(origin.row) +
                       "," + text(origin.col) + " of pitch " + text(pitch) +
                       (kernels == "ladder" || kernels == "batched" ? ", " + kernels : ""),
                   {{"kind", "crop"},
                    {"kernels", kernels},
                    {"type", element_name(type)},
                    {"rows", text(rows)},
                    {"cols", text(cols)},
                    {"pitch", text(pitch)},
                    {"row", text(origin.row)},
                    {"col", text(origin.col)}},
                   protocol);
}

Policy crop_policy(const std::string& name, const Case& c, const Settings* forced) {
  const Settings& s = c.shape;
  const ElementType type = type_named(setting(s, "type"));
  const int64_t rows = number(s, "rows"), cols = number(s, "cols"), pitch = number(s, "pitch");
  const Origin origin{number(s, "row"), number(s, "col")};
  const CropArguments g = {.type = type,
                           .source = arena().source.data(),
                           .source_rows = origin.row + rows,
                           .source_cols = pitch,
                           .row_stride = pitch,
                           .origin = origin,
                           .destination = arena().destination.data(),
                           .rows = rows,
                           .cols = cols,
                           .ld = cols};
  Expected e = {g.source, g.source_rows, g.source_cols, pitch, 1, origin, g.destination, rows, cols, cols};
  const int size = static_cast<int>(element_bytes(type));
  if (name.starts_with("batch ")) {
    const int batch = std::stoi(forced != nullptr ? setting(*forced, "max_copy_batch") : name.substr(6));
    BatchReport report;
    require(crop_batched(g, batch, kWorkers, nullptr, &report));
    Policy p = copy_policy(
        name, e, size, [g, batch](cudaStream_t stream) { return crop_batched(g, batch, kWorkers, stream, nullptr); });
    p.sample.requested = {{"max_copy_batch", text(batch)}, {"workers", text(kWorkers)}};
    p.sample.realised = {{"max_copy_batch", text(batch)},
                         {"batch", text(report.realised)},
                         {"transformed", text(report.transformed)},
                         {"workers", text(kWorkers)}};
    return p;
  }
  for (const Kernel& kernel : kKernels) {
    if (name != kernel.name) continue;
    if (kernel.transposed) {
      std::swap(e.row_stride, e.col_stride), std::swap(e.source_rows, e.source_cols),
          std::swap(e.origin.row, e.origin.col);
      if (rows != cols) throw std::runtime_error("the transposing kernel is compared on squares only");
    }
    Policy p = copy_policy(name, e, size, [g, crop = kernel.crop](cudaStream_t stream) { return crop(g, stream); });
    return p;
  }
  throw std::runtime_error("the kernel '" + name + "' is unknown");
}

// ---- repack ----

// Bytes of the 32-byte sectors that a row of `cols` elements with this stride touches.
double sectors(int64_t rows, int64_t cols, int64_t stride, int64_t bytes) {
  const int64_t reach = (cols - 1) * stride * bytes + bytes;
  return static_cast<double>(rows) *
         (stride * bytes >= 32 ? static_cast<double>(cols) * 32 : static_cast<double>((reach + 31) / 32 * 32));
}
Case repack_case(ElementType type, int64_t rows, int64_t cols, int64_t stride, bool transposed,
                 const Protocol& protocol) {
  const int64_t pitch = (transposed ? rows : cols * stride) | 1;
  return copy_case("repack " + text(rows) + "x" + text(cols) + " " + element_name(type) +
                       (transposed    ? " transposed"
                        : stride != 1 ? " stride " + text(stride)
                                      : "") +
                       " of pitch " + text(pitch),
                   {{"kind", "repack"},
                    {"type", element_name(type)},
                    {"rows", text(rows)},
                    {"cols", text(cols)},
                    {"pitch", text(pitch)},
                    {"stride", text(stride)},
                    {"transposed", transposed ? "true" : "false"}},
                   protocol);
}
struct Repack {
  RepackOperand operand;
  ElementType type;
  double bytes;  // read, whole sectors, and written
};
Repack repack_of(const Settings& s) {
  const ElementType type = type_named(setting(s, "type"));
  const int64_t rows = number(s, "rows"), cols = number(s, "cols"), pitch = number(s, "pitch"),
                stride = number(s, "stride");
  const bool transposed = setting(s, "transposed") == "true";
  const auto size = static_cast<int64_t>(element_bytes(type));
  const int64_t ld = (cols * size + 15) / 16 * 16 / size;
  Repack r{{},
           type,
           (transposed ? static_cast<double>(rows * cols * size) : sectors(rows, cols, stride, size)) +
               static_cast<double>(rows * ld * size)};
  r.operand.source = arena().source.data(), r.operand.rows = rows, r.operand.cols = cols;
  r.operand.row_stride = transposed ? 1 : pitch, r.operand.col_stride = transposed ? pitch : stride;
  r.operand.copy = arena().destination.data(), r.operand.ld = ld;
  return r;
}
Policy repack_policy(const Case& c) {
  const Repack r = repack_of(c.shape);
  const RepackOperand& o = r.operand;
  Policy p =
      copy_policy("repack", {o.source, o.rows, o.cols, o.row_stride, o.col_stride, {0, 0}, o.copy, o.rows, o.ld, o.ld},
                  static_cast<int>(element_bytes(r.type)), [r](cudaStream_t s) {
                    return repack({&r.operand, 1}, r.type, s);
                  });
  return p;
}

// ---- the loads of a GEMM, and launches of nothing ----

constexpr int kWalkExtent = 8192;

Policy ring_walk_policy() {
  const auto maps = std::make_shared<std::pair<TensorMap, TensorMap>>();
  const auto map = [&](TensorMap& m, const void* base, int rows) {
    require(encode_tensor_map(m, {.type = ElementType::bf16,
                                  .base = base,
                                  .rank = 2,
                                  .extents = {kWalkExtent, kWalkExtent},
                                  .pitches = {0, kWalkExtent * 2},
                                  .box = {RingWalk::k, rows},
                                  .swizzle = TensorSwizzle::b128}));
  };
  map(maps->first, arena().source.data(), RingWalk::m),
      map(maps->second, arena().source.as<bf16>() + int64_t{kWalkExtent} * kWalkExtent, RingWalk::n);
  DeviceInfo device;
  require(device_info(device));
  const int tiles_m = kWalkExtent / RingWalk::m, tiles_n = kWalkExtent / RingWalk::n, steps = kWalkExtent / RingWalk::k;
  const LaunchShape shape = {dim3(static_cast<unsigned>(device.sms)), dim3(RingWalk::threads),
                             sizeof(RingWalk::Storage)};
  Policy p;
  p.sample.name = "ring walk", p.sample.role = Role::ceiling;  // it only loads: there is no result to judge
  p.sample.bytes = static_cast<double>(tiles_m) * tiles_n * steps * (RingWalk::m + RingWalk::n) * RingWalk::k * 2;
  p.sample.tiles = int64_t{tiles_m} * tiles_n, p.sample.resident = device.sms;
  p.run = [=](cudaStream_t s) {
    require(launch(&ring_walk_kernel, shape, s, maps->first, maps->second, tiles_m, tiles_n, steps));
  };
  return p;
}
// The floor of any kernel: a launch that writes one word.
__global__ void word_kernel(uint32_t* word) {
  if (threadIdx.x == 0) *word = 1;
}
Policy word_policy() {
  Policy p;
  p.sample.name = "one word";
  p.sample.requested = p.sample.realised = {{"policy", "one word"}};
  p.run = [](cudaStream_t s) {
    require(launch(&word_kernel, dim3(1), dim3(32), 0, s, arena().destination.as<uint32_t>()));
  };
  p.poison = [] { require_success(cudaMemset(arena().destination.data(), kPoison, 4), "cudaMemset"); };
  p.judge = [] {
    uint32_t word = 0;
    require_success(cudaMemcpy(&word, arena().destination.data(), 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return Judgement{1, word == 1 ? 0.0 : 1.0, 0, word == 1 ? "" : "the word was not written"};
  };
  return p;
}

// ---- the suite ----

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool cold : {false, true}) {
    const Protocol protocol = cold ? sweep(true) : headline(false);
    cases.push_back(crop_case("crops", ElementType::bf16, 16384, 16384, 16387, {1, 1}, protocol));
    cases.push_back(crop_case("crops", ElementType::bf16, 16384, 16384, 16512, {64, 64}, protocol));
    cases.push_back(crop_case("crops", ElementType::bf16, 16384, 16384, 16400, {1, 8}, protocol));
    cases.push_back(crop_case("crops", ElementType::f32, 8192, 8192, 8195, {1, 1}, protocol));
    cases.push_back(crop_case("crops", ElementType::bf16, 1000, 1000, 1003, {1, 1}, protocol));
    cases.push_back(crop_case("ladder", ElementType::bf16, 8192, 8192, 8200, {1, 8}, protocol));
    const Protocol brief = sweep(cold);
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{8191, 8191}, {16383, 8193}, {4095, 4095}, {2047, 2047}}) {
      cases.push_back(repack_case(ElementType::bf16, rows, cols, 1, false, protocol));
      cases.push_back(repack_case(ElementType::bf16, rows, cols, 1, true, brief));
      cases.push_back(repack_case(ElementType::bf16, rows, cols, 2, false, brief));
      cases.push_back(repack_case(ElementType::bf16, rows, cols, 3, false, brief));
    }
    for (const int64_t stride : {1, 2, 3})
      cases.push_back(repack_case(ElementType::f32, 8191, 8191, stride, false, brief));
    cases.push_back(repack_case(ElementType::f32, 8191, 8191, 1, true, brief));
  }
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{4096, 4096}, {4095, 4097}, {1000, 1000}, {127, 193}})
    for (const ElementType type : {ElementType::bf16, ElementType::f32})
      cases.push_back(crop_case("batched", type, rows, cols, (cols + 3) | 1, {1, 1}, sweep(false)));
  cases.push_back(
      copy_case("loads of a GEMM, 8192x8192x8192 in stages of 128x64 + 256x64", {{"kind", "ring walk"}}, sweep(false)));
  for (const char* runs : {"graph if short", "launched"})
    cases.push_back(copy_case(std::string("a launch that writes one word") + (*runs == 'l' ? ", launched" : ""),
                              {{"kind", "word"}, {"runs", runs}}, sweep(false)));
  return cases;
}

Work build(const Case& description, const std::vector<Sample>* recorded) {
  Work work;
  work.header = description;
  const std::string& kind = setting(description.shape, "kind");
  std::vector<std::string> names;
  if (kind == "crop") {
    const std::string& kernels = setting(description.shape, "kernels");
    names = kernels == "crops" ? std::vector<std::string>{"stream", "bounded"}
            : kernels == "ladder"
                ? std::vector<std::string>{"bounded", "load", "ring", "store", "swizzle", "cluster", "stream"}
                : std::vector<std::string>{"batch 1", "batch 4", "batch 16", "bounded"};
    work.header.bytes = 2.0 *
                        static_cast<double>(number(description.shape, "rows") * number(description.shape, "cols")) *
                        static_cast<double>(element_bytes(type_named(setting(description.shape, "type"))));
    if (kernels == "batched") work.header.pairs = {{"batch 1", "batch 4"}, {"batch 1", "batch 16"}};
  } else if (kind == "repack") {
    names = {"repack"};
    work.header.bytes = repack_of(description.shape).bytes;
  } else if (kind == "ring walk") {
    work.policies.push_back(ring_walk_policy());
    work.header.bytes = work.policies.back().sample.bytes;
  } else if (kind == "word") {
    work.policies.push_back(word_policy());
    work.graphs = setting(description.shape, "runs") != "launched";
  } else {
    throw std::runtime_error("the kind '" + kind + "' is unknown");
  }
  const double bytes = work.header.bytes;
  const auto make = [&](const std::string& what, const Settings* forced) {
    return named_policy(what, 0, bytes, forced, [&](Policy& p) {
      p = what == "cudaMemcpy" ? memcpy_peer(bytes)
          : kind == "repack"   ? repack_policy(description)
                               : crop_policy(what, description, forced);
      p.sample.name = what, p.sample.bytes = bytes;
    });
  };
  // Without names there is one policy, which has no settings.
  if (!names.empty()) {
    if (recorded == nullptr)
      for (const std::string& name : names) work.header.pairs.push_back({"cudaMemcpy", name});
    names.push_back("cudaMemcpy");
    add_policies(work, names, recorded, make);
  }
  work.policies.push_back(copy_ceiling());
  return work;
}

}  // namespace

Suite copy_suite() {
  return {"copy", all_cases(), build};
}

}  // namespace grout::compare
