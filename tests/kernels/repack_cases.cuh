// Seeded cases of repack for both devices, with a reference of their own: any extents, pitches, bases, strides, majorness and
// batches, one or two operands. Poison lies wherever the source has no element.
#pragma once
#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/check.cuh"
#include "common/repack.cuh"
#include "tests/kernels/gemm_cases.cuh"

namespace grout::test {

// How a source lies in memory. `along` is the step between neighbours of a stored line, `across` that between lines: times the
// line's length plus the pad where it is 1 or -1, else itself (0, and 3 and -3: lines overlap).
struct RepackStrides {
  const char* name;
  bool by_columns;
  int along, across;
};
inline constexpr RepackStrides kRepackStrides[] = {
    {"rows", false, 1, 1},
    {"rows upwards", false, 1, -1},
    {"one row", false, 1, 0},
    {"rows that overlap", false, 1, 3},
    {"rows that overlap, upwards", false, 1, -3},
    {"columns", true, 1, 1},
    {"columns leftwards", true, 1, -1},
    {"one column", true, 1, 0},
    {"columns that overlap", true, 1, 3},
    {"columns that overlap, leftwards", true, 1, -3},
    {"every second of a row", false, 2, 1},
    {"every third of a row, upwards", false, 3, -1},
    {"mirrored rows", false, -1, 1},
    {"one element a row", false, 0, 1},
    {"every second of a column", true, 2, 1},
    {"every third of a column, leftwards", true, 3, -1},
    {"mirrored columns", true, -1, 1},
    {"one element", false, 0, 0},
};
inline constexpr const char* kRepackBatches[] = {"one", "compact", "padded", "backwards",
                                                 "repeated"};  // repeated: of the source

struct RepackOperandCase {
  int64_t rows = 1, cols = 1, pad = 0, offset = 0;  // elements; offset: of the first valid one after a multiple of 256 bytes
  int strides = 0;                                  // of kRepackStrides
  int64_t batch = 1;
  int batches = 0, copy_batches = 0;  // of kRepackBatches
  int64_t vectors = 0;                // that the copy's rows are longer than needed

  int64_t row_stride() const { return kRepackStrides[strides].by_columns ? along() : across(rows_or_cols()); }
  int64_t col_stride() const { return kRepackStrides[strides].by_columns ? across(rows_or_cols()) : along(); }

 private:
  int64_t rows_or_cols() const { return kRepackStrides[strides].by_columns ? rows : cols; }
  int64_t along() const { return kRepackStrides[strides].along; }
  int64_t across(int64_t line) const {
    const RepackStrides& s = kRepackStrides[strides];
    const int64_t pitch = std::max<int64_t>(line, 1) * std::max(std::abs(s.along), 1) + pad;
    return s.across == 1 ? pitch : s.across == -1 ? -pitch : s.across;
  }
};

struct RepackCase {
  ElementType type = ElementType::bf16;
  std::vector<RepackOperandCase> operands;
  int schedule = 0;  // simulated device: 0..9, five schedules late, then early
  uint64_t seed = 1;
};

inline std::string describe(const RepackCase& x) {
  std::string all =
      std::string(element_name(x.type)) + ", seed " + std::to_string(x.seed) + ", schedule " + std::to_string(x.schedule);
  const auto text = [](int64_t value) { return std::to_string(value); };
  for (const RepackOperandCase& o : x.operands)
    all += "; " + text(o.rows) + "x" + text(o.cols) + " " + kRepackStrides[o.strides].name + " pad " + text(o.pad) +
           " offset " + text(o.offset) + " (strides " + text(o.row_stride()) + "," + text(o.col_stride()) + "), batch " +
           text(o.batch) + " " + kRepackBatches[o.batches] + " to " + kRepackBatches[o.copy_batches] + ", rows longer by " +
           text(o.vectors) + " vectors";
  return all;
}

// One operand in host and device memory. Guard 0 leaves accesses behind the last byte to AddressSanitizer.
class RepackOperandData {
 public:
  RepackOperandData(const RepackOperandCase& c, size_t bytes, uint64_t seed, size_t guard)
      : x_(c),
        size_(bytes),
        device_source_((prepare(seed), source_.size()), static_cast<size_t>(c.offset) * bytes, kPoison, guard),
        device_copy_(before_.size(), 0, kOutputPadding, guard) {
    device_source_.upload(source_.data()), device_copy_.upload(before_.data());
  }
  RepackOperand operand() const {
    RepackOperand o = shape_;
    o.source = device_source_.as<unsigned char>() - source_low_ * static_cast<int64_t>(size_);
    o.copy = device_copy_.as<unsigned char>() - copy_low_ * static_cast<int64_t>(size_);
    return o;
  }
  // The memory before the first valid byte that holds nothing.
  const unsigned char* front() const { return device_source_.as<unsigned char>() - x_.offset * static_cast<int64_t>(size_); }
  size_t front_bytes() const { return static_cast<size_t>(x_.offset) * size_; }

  // What is wrong; nothing if the copy, all around it and the source are right.
  std::string verify(const std::string& context) const {
    std::vector<unsigned char> expected = before_, got(before_.size()), source(source_.size());
    for (int64_t b = 0; b < shape_.batch; ++b)
      for (int64_t r = 0; r < shape_.rows; ++r)
        for (int64_t c = 0; c < shape_.ld; ++c) {
          unsigned char* to =
              &expected[static_cast<size_t>(b * shape_.copy_batch_stride + r * shape_.ld + c - copy_low_) * size_];
          if (c < shape_.cols) std::memcpy(to, &source_[place(b, r, c)], size_);
          else std::memset(to, 0, size_);
        }
    device_copy_.download(got.data());
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i] != expected[i]) {
        char text[160];
        std::snprintf(text, sizeof text, ": byte %zu of the copy (element %zu, pitch %lld) is %02x, not %02x", i, i / size_,
                      static_cast<long long>(shape_.ld), got[i], expected[i]);
        return context + text;
      }
    device_source_.download(source.data());
    if (source != source_) return context + ": the source was written";
    for (const DeviceBuffer* buffer : {&device_source_, &device_copy_})
      if (const Status guards = buffer->check_guards(context); !guards) return guards.message;
    return "";
  }

 private:
  size_t place(int64_t b, int64_t r, int64_t c) const {
    return static_cast<size_t>(b * shape_.source_batch_stride + r * shape_.row_stride + c * shape_.col_stride -
                               source_low_) *
           size_;
  }
  void prepare(uint64_t seed) {
    const int64_t vector = 16 / static_cast<int64_t>(size_);
    shape_.rows = x_.rows, shape_.cols = x_.cols, shape_.batch = x_.batch;
    shape_.row_stride = x_.row_stride(), shape_.col_stride = x_.col_stride();
    shape_.ld = ((x_.cols + vector - 1) / vector + x_.vectors) * vector;
    const int64_t steps[] = {std::max<int64_t>(x_.rows - 1, 0) * shape_.row_stride,
                             std::max<int64_t>(x_.cols - 1, 0) * shape_.col_stride};
    const int64_t matrix = std::abs(steps[0]) + std::abs(steps[1]) + 1, copy = x_.rows * shape_.ld;
    const int64_t strides[] = {0, matrix, matrix + 3, -matrix - 1, 0},
                  copy_strides[] = {0, copy, copy + 2 * vector, -copy - vector};
    shape_.source_batch_stride = strides[x_.batches], shape_.copy_batch_stride = copy_strides[x_.copy_batches];
    const auto assign = [&](std::vector<unsigned char>& bytes, unsigned char value, int64_t& low, const Hull& hull) {
      low = hull.low;
      bytes.assign(static_cast<size_t>(hull.elements) * size_, value);
    };
    const int64_t more = x_.batch - 1;
    const bool none = x_.rows == 0 || x_.batch == 0;
    if (!none && x_.cols > 0)
      assign(source_, kPoison, source_low_, hull_of({steps[0], steps[1], more * shape_.source_batch_stride}));
    if (!none && shape_.ld > 0) assign(before_, kOutputPadding, copy_low_, hull_of({copy - 1, more * shape_.copy_batch_stride}));
    for (int64_t b = 0; b < x_.batch; ++b)
      for (int64_t r = 0; r < x_.rows; ++r)
        for (int64_t c = 0; c < x_.cols; ++c) {
          const size_t at = place(b, r, c);
          uint64_t bits = (at + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;
          bits = (bits ^ (bits >> 31)) * 0xbf58476d1ce4e5b9u >> 20;
          const uint32_t value =
              1 + static_cast<uint32_t>(bits % (size_ == 2 ? 0xfffeu - 1 : 0xfffffffeu - 1));  // not 0, not poison
          std::memcpy(&source_[at], &value, size_);
        }
  }

  RepackOperandCase x_;
  size_t size_;
  RepackOperand shape_;
  int64_t source_low_ = 0, copy_low_ = 0;
  std::vector<unsigned char> source_, before_;
  DeviceBuffer device_source_, device_copy_;
};

struct RepackData {
  RepackCase x;
  std::vector<std::unique_ptr<RepackOperandData>> operands;

  explicit RepackData(const RepackCase& c, size_t guard = 256) : x(c) {
    for (const RepackOperandCase& o : x.operands)
      operands.push_back(std::make_unique<RepackOperandData>(o, element_bytes(x.type), x.seed * 2 + operands.size(), guard));
  }
  std::vector<RepackOperand> arguments() const {
    std::vector<RepackOperand> all;
    for (const auto& o : operands) all.push_back(o->operand());
    return all;
  }
  std::string verify() const {
    for (size_t i = 0; i < operands.size(); ++i)
      if (const std::string wrong = operands[i]->verify(describe(x) + ": operand " + std::to_string(i)); !wrong.empty())
        return wrong;
    return "";
  }
};

// Runs the case; says what is wrong, nothing if all is right.
inline std::string run_repack(const RepackCase& x, size_t guard = 256, bool programmatic = false) {
  const RepackData data(x, guard);
  const std::vector<RepackOperand> arguments = data.arguments();
  if (const Status status = repack(arguments, x.type, nullptr, programmatic); !status)
    return describe(x) + ": " + status.message;
  return data.verify();
}

inline constexpr int64_t kRepackEdges[] = {63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 1026};

// `largest` limits the extents.
inline std::vector<RepackCase> repack_cases(int count, uint64_t seed, int64_t largest = INT64_MAX) {
  std::mt19937_64 random(seed);
  Deck small_rows(41, random), small_cols(41, random), edge_rows(10, random), edge_cols(10, random), which_rows(3, random),
      which_cols(3, random), strides(static_cast<int>(std::size(kRepackStrides)), random), pad(10, random),
      offset(9, random), batch(5, random), batches(4, random), copy_batches(3, random), vectors(6, random), type(3, random),
      both(4, random), schedule(10, random);
  std::vector<RepackCase> cases;
  for (int i = 0; i < count; ++i) {
    RepackCase x;
    x.type = static_cast<ElementType>(type.deal());
    for (int operand = both.deal() == 0 ? 2 : 1; operand > 0; --operand) {
      RepackOperandCase o;
      o.rows = std::min(which_rows.deal() ? small_rows.deal() : kRepackEdges[edge_rows.deal()], largest);
      o.cols = std::min(which_cols.deal() ? small_cols.deal() : kRepackEdges[edge_cols.deal()], largest);
      if (o.rows * o.cols > 70'000) o.rows = 33;  // both are edges, one of about 1024
      o.strides = strides.deal(), o.pad = pad.deal(), o.offset = offset.deal();
      const int b = batch.deal(), extra = vectors.deal();
      o.batch = b == 0 ? 0 : b <= 2 ? 1 : b - 1;
      if (o.batch == 0 && i % 4) o.batch = 1;
      if (o.batch > 1) o.batches = 1 + batches.deal(), o.copy_batches = 1 + copy_batches.deal();
      o.vectors = extra < 3 ? 0 : extra == 3 ? 1 : extra == 4 ? 3 : 6;
      x.operands.push_back(o);
    }
    x.schedule = schedule.deal();
    x.seed = seed * 100'000 + static_cast<uint64_t>(i);
    cases.push_back(x);
  }
  return cases;
}

constexpr const char* repack_mode_name(RepackMode mode) {
  return mode == RepackMode::rows         ? "rows"
         : mode == RepackMode::transposed ? "transposed"
         : mode == RepackMode::elements   ? "elements"
                                          : "elements transposed";
}

inline void expect_repack_factors(FactorCounts& f) {
  std::vector<int64_t> extents;
  for (int64_t i = 0; i <= 40; ++i) extents.push_back(i);
  f.expect("cols", extents);
  f.expect("rows", extents);
  f.expect("cols", std::vector<int64_t>(std::begin(kRepackEdges), std::end(kRepackEdges)));
  f.expect("rows", std::vector<int64_t>(std::begin(kRepackEdges), std::end(kRepackEdges)));
  for (const RepackStrides& s : kRepackStrides) f.expect<const char*>("strides", {s.name});
  for (const char* batches : kRepackBatches) f.expect<const char*>("batch", {batches});
  for (const char* batches : {"one", "compact", "padded", "backwards"}) f.expect<const char*>("copies", {batches});
  f.expect<int64_t>("pitch +", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  f.expect<int64_t>("offset", {0, 1, 2, 3, 4, 5, 6, 7, 8});
  f.expect<int64_t>("longer by", {0, 1, 3, 6});
  f.expect<int64_t>("matrices", {0, 1, 2, 3});
  f.expect<const char*>("type", {"bf16", "f16", "f32"});
  f.expect<int>("operands", {1, 2});
  for (const RepackMode mode :
       {RepackMode::rows, RepackMode::transposed, RepackMode::elements, RepackMode::elements_transposed})
    f.expect<const char*>("mode", {repack_mode_name(mode)});
  f.expect<const char*>("two operands", {"of one mode", "of different modes"});
}
inline void count_repack_factors(FactorCounts& f, const RepackCase& x, const std::vector<RepackOperand>& arguments) {
  std::vector<RepackMode> modes;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const RepackOperandCase& o = x.operands[i];
    modes.push_back(repack_plan(arguments[i], static_cast<int>(element_bytes(x.type))).mode);
    f.count("rows", o.rows), f.count("cols", o.cols), f.count("strides", kRepackStrides[o.strides].name);
    f.count("batch", kRepackBatches[o.batches]), f.count("copies", kRepackBatches[o.copy_batches]),
        f.count("matrices", o.batch);
    f.count("pitch +", o.pad), f.count("offset", o.offset), f.count("longer by", o.vectors),
        f.count("mode", repack_mode_name(modes.back()));
  }
  f.count("type", element_name(x.type)), f.count("operands", static_cast<int>(modes.size()));
  if (modes.size() == 2) f.count("two operands", modes[0] == modes[1] ? "of one mode" : "of different modes");
}

// ---- tiles, from another kernel ---------------------------------------------------------------------------------

// Of a block's warps, some repack tiles while the others count in their own shared memory, at their own barrier. Between two
// tiles the group's shared memory is left alone, or used for something else behind a barrier, as the contract has it.
struct RepackGroupRequest {
  RepackOperand operand;
  RepackPlan plan;
  uint32_t start, step;  // the i-th tile is (start + i * step) modulo their number
  uint32_t* verdict;     // two words a block: turns of the others, and words of theirs that changed
};

struct RepackGroupBlock {
  static constexpr int before = 64, after = 32,
                       turns = 5;  // threads in front of the group and behind it, which are the others
  static constexpr int others = before + after;
  static constexpr int head = 384, tail = 128;  // bytes of theirs around the group's, which start at an odd multiple of 128
  static constexpr int shared_bytes = head + kRepackSharedBytes + tail, words = (head + tail) / 4;
};

template <int Size, int Threads>
__global__ void __launch_bounds__(Threads + RepackGroupBlock::others) repack_in_group(const RepackGroupRequest p) {
  using Block = RepackGroupBlock;
  auto* bytes = &dynamic_shared<unsigned char>();
  const int thread = static_cast<int>(threadIdx.x) - Block::before;
  const auto tiles = static_cast<uint32_t>(p.plan.tiles);
  if (thread >= 0 && thread < Threads) {
    const RepackGroup group = {thread, 2, ptx::shared_address(bytes + Block::head)};
    for (uint32_t i = blockIdx.x; i < tiles; i += gridDim.x) {
      repack_tile<Size, Threads>(p.operand, p.plan, static_cast<uint32_t>((p.start + uint64_t{i} * p.step) % tiles), group);
      if (i / gridDim.x % 2 == 0) continue;  // the next tile at once
      auto* words = reinterpret_cast<uint32_t*>(bytes + Block::head);
      for (int w = thread; w < kRepackSharedBytes / 4; w += Threads) words[w] = 0xfffffff0u + i % 8;
      ptx::bar_sync(2, Threads);  // the memory is free again
    }
    return;
  }
  const int other = thread < 0 ? thread + Block::before : thread - Threads + Block::before;
  const auto word_of = [&](int w) {
    return reinterpret_cast<uint32_t*>(bytes + (w < Block::head / 4 ? w * 4 : kRepackSharedBytes + w * 4));
  };
  for (int w = other; w < Block::words; w += Block::others) *word_of(w) = static_cast<uint32_t>(w);
  for (int turn = 0; turn < Block::turns; ++turn) {  // each word moves on by one place
    ptx::bar_sync(1, Block::others);
    uint32_t moved[(Block::words + Block::others - 1) / Block::others];
    for (int w = other, i = 0; w < Block::words; w += Block::others, ++i) moved[i] = *word_of((w + 1) % Block::words);
    ptx::bar_sync(1, Block::others);
    for (int w = other, i = 0; w < Block::words; w += Block::others, ++i) *word_of(w) = moved[i];
  }
  for (int w = other; w < Block::words; w += Block::others)
    if (*word_of(w) != static_cast<uint32_t>((w + Block::turns) % Block::words))
      atomicAdd(p.verdict + 2 * blockIdx.x + 1, 1u);
  if (other == 0) atomicAdd(p.verdict + 2 * blockIdx.x, static_cast<unsigned>(Block::turns));
}

// Repacks the case's first operand tile by tile, by groups of `threads`; says what is wrong.
inline std::string run_repack_in_groups(RepackCase x, int threads, size_t guard = 256) {
  constexpr unsigned kBlocks = 2;
  x.operands.resize(1);
  const RepackData data(x, guard);
  const RepackOperand operand = data.arguments().front();
  const int size = static_cast<int>(element_bytes(x.type));
  if (const Status status = repack_check({&operand, 1}, x.type); !status) return describe(x) + ": " + status.message;
  RepackGroupRequest request{operand, repack_plan(operand, size), 0, 1, nullptr};
  const auto tiles = static_cast<uint32_t>(std::max<int64_t>(request.plan.tiles, 1));
  request.start = static_cast<uint32_t>(x.seed * 7 % tiles);
  for (request.step = tiles / 2 + 1; std::gcd(request.step, tiles) != 1;) ++request.step;
  DeviceBuffer verdict(kBlocks * 8);
  std::array<uint32_t, kBlocks * 2> words{};
  verdict.upload(words.data());
  request.verdict = verdict.as<uint32_t>();
  const auto run = [&](auto threads_of) {
    constexpr int kThreads = decltype(threads_of)::value;
    return launch(size == 2 ? &repack_in_group<2, kThreads> : &repack_in_group<4, kThreads>, dim3(kBlocks),
                  dim3(kThreads + RepackGroupBlock::others), RepackGroupBlock::shared_bytes, nullptr, request);
  };
  const Status status = threads == 32    ? run(std::integral_constant<int, 32>{})
                        : threads == 64  ? run(std::integral_constant<int, 64>{})
                        : threads == 128 ? run(std::integral_constant<int, 128>{})
                                         : run(std::integral_constant<int, 256>{});
  if (!status) return describe(x) + ": " + status.message;
  verdict.download(words.data());
  for (unsigned block = 0; block < kBlocks; ++block)
    if (words[2 * block] != RepackGroupBlock::turns || words[2 * block + 1] != 0)
      return describe(x) + ": the other warps made " + std::to_string(words[2 * block]) + " turns and found " +
             std::to_string(words[2 * block + 1]) + " words changed";
  return data.verify();
}

// ---- kernels around the copy ------------------------------------------------------------------------------------

// Writes the sources, says at once that the next kernel may start; and reads the copies as soon as it may, or without waiting.
static __global__ void repack_produce(const uint32_t* from, uint32_t* sources, int64_t words) {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < words; i += int64_t{gridDim.x} * blockDim.x)
    sources[i] = from[i];
}
template <bool Waits> __global__ void repack_consume(const uint32_t* copies, uint32_t* out, int64_t words) {
  if constexpr (Waits) ptx::griddepcontrol_wait();
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < words; i += int64_t{gridDim.x} * blockDim.x)
    out[i] = copies[i];
}

// A kernel writes two sources, one repack copies both, a kernel reads the copies. One source lies by rows, the other by columns.
class RepackChain {
 public:
  RepackChain(int64_t rows, int64_t cols, uint64_t seed)
      : rows_(rows),
        cols_(cols),
        ld_(repack_ld<float>(cols)),
        values_(static_cast<size_t>(2 * rows * cols)),
        from_(values_.size() * 4),
        sources_(values_.size() * 4),
        copies_(static_cast<size_t>(2 * rows * ld_) * 4),
        out_(copies_.size()) {
    refill(seed);
  }
  // Other values, for another run.
  void refill(uint64_t seed) {
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<uint32_t>((i + seed * 977) * 2654435761u) | 1;
    from_.upload(values_.data());
  }
  // `dependent`: each kernel may start before the one ahead of it has ended (compute capability 9.0 or later).
  template <bool ConsumerWaits = true> Status enqueue(bool dependent, unsigned blocks, cudaStream_t stream) {
    const int64_t words = rows_ * cols_;
    const RepackOperand by_rows = {
        .source = sources_.data(), .rows = rows_, .cols = cols_, .row_stride = cols_, .copy = copies_.data(), .ld = ld_};
    RepackOperand operands[] = {by_rows, by_rows};
    operands[1].source = sources_.as<uint32_t>() + words, operands[1].row_stride = 1, operands[1].col_stride = rows_;
    operands[1].copy = copies_.as<uint32_t>() + rows_ * ld_;
    const LaunchShape shape = {.grid = dim3(blocks), .block = dim3(128), .programmatic = dependent};
    if (Status status = launch(&repack_produce, shape, stream, from_.as<uint32_t>(), sources_.as<uint32_t>(), 2 * words);
        !status)
      return status;
    if (Status status = repack(operands, ElementType::f32, stream, dependent); !status) return status;
    return launch(&repack_consume<ConsumerWaits>, shape, stream, copies_.as<uint32_t>(), out_.as<uint32_t>(),
                  2 * rows_ * ld_);
  }
  // Is what the last kernel read all right?
  bool right() const {
    std::vector<uint32_t> got(out_.size() / 4);
    out_.download(got.data());
    bool right = true;
    for (int64_t which = 0; which < 2; ++which)
      for (int64_t r = 0; r < rows_; ++r)
        for (int64_t c = 0; c < ld_; ++c) {
          const int64_t place = which * rows_ * cols_ + (which == 0 ? r * cols_ + c : c * rows_ + r);
          right &= got[static_cast<size_t>((which * rows_ + r) * ld_ + c)] ==
                   (c < cols_ ? values_[static_cast<size_t>(place)] : 0);
        }
    return right;
  }

 private:
  int64_t rows_, cols_, ld_;
  std::vector<uint32_t> values_;
  DeviceBuffer from_, sources_, copies_, out_;
};

}  // namespace grout::test
