// Reports: one paragraph each. And the options, whose bad values are refused in the same way.
#include <charconv>
#include <cstdlib>
#include <map>

#include "common/sim/state.h"

namespace grout::sim {
namespace {

constexpr unsigned kMaxSanitizedCluster = 4096;  // threads: its room is for about 8,000, of this launch and those kept

const char* name(Report::Kind kind) {
  static constexpr const char* kNames[] = {"deadlock", "divergence", "out of bounds", "misuse"};
  return kNames[int(kind)];
}

std::string in_block(const LaunchContext& launch, const Block& block) {
  return launch.name ? text("kernel ", launch.name, ", block ", block) : text("block ", block);
}

std::string ranges(const std::vector<unsigned>& sorted) {
  std::string result;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i;
    while (end + 1 < sorted.size() && sorted[end + 1] == sorted[end] + 1) ++end;
    append(result, i ? "," : "");
    append(result, sorted[i]);
    if (end > i) append(result, text("-", sorted[end]));
    i = end + 1;
  }
  return result;
}

}  // namespace

void append(std::string& text, std::string_view part) {
  text += part;
}
void append(std::string& text, std::int64_t number) {
  text += std::to_string(number);
}
void append(std::string& text, Hex number) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, number.value, 16).ptr;
  text.append("0x").append(digits, end);
}
void append(std::string& text, Lanes lanes) {
  std::vector<unsigned> numbers;
  for_each_lane(lanes.mask, [&](unsigned lane) { numbers.push_back(lane); });
  text += ranges(numbers);
}
void append(std::string& text, const Block& block) {
  text += sim::text("(", block.index.x, ",", block.index.y, ",", block.index.z, ")");
}
void append(std::string& text, const Loc& where) {
  if (!where.line()) return void(text += "an unknown place");
  // "void ns::kernel(T*) [with T = int]" and "ns::kernel<f>(int)::<lambda()>" are both in kernel.
  std::string_view function = where.function_name();
  function = function.substr(0, function.find_first_of("(<["));
  function = function.substr(function.find_last_of(" :*&") + 1);
  text += sim::text(where.file_name(), ":", where.line(), " (", function, ")");
}

Report paragraph(Thread& self, Report::Kind kind, const Loc& where, const std::string& what, const char* rule) {
  return Report(kind, text(name(kind), " in ", in_block(self.block->scheduler->launch(), *self.block), ", thread ",
                           self.number, " (warp ", self.number / kWarp, ", lane ", self.lane, "), at ", where, ": ", what,
                           ". Rule: ", rule, "."));
}

void fail(Thread& self, Report::Kind kind, const Loc& where, std::string what, const char* rule) {
  Scheduler& scheduler = *self.block->scheduler;
  Report report = paragraph(self, kind, where, what, rule);
  std::string().swap(what);  // this frame is never left
  scheduler.fail(std::move(report));
}

Report deadlock(const LaunchContext& launch, const std::vector<Block>& blocks) {
  std::string result;
  bool bytes = false;
  for (const Block& block : blocks) {
    std::map<std::string, std::vector<unsigned>> waiting;  // what for -> threads
    std::vector<unsigned> exited;
    for (unsigned t = 0; t < block.size; ++t) {
      const Thread& thread = block.threads[t];
      if (!(thread.warp->live >> thread.lane & 1)) {
        exited.push_back(t);
        continue;
      }
      std::string what = "?";
      if (thread.barrier >= 0) {
        const Barrier& barrier = block.barriers[thread.barrier];
        what = text(name(barrier.op), " ", thread.barrier, " at ", thread.where, " where ", barrier.arrived, " of ",
                    barrier.expected, " threads have arrived");
      }
      if (const MBarrier* barrier = thread.mbarrier) {
        bytes = true;
        what = text("mbarrier.try_wait parity ", barrier->phase & 1, " at ", thread.where, ", barrier at shared offset ",
                    barrier->offset, ": phase ", barrier->phase, ", ", barrier->count - barrier->pending, " of ",
                    barrier->count, " arrivals, ", barrier->tx, " bytes outstanding");
      }
      if (thread.warp->cluster_waits) {
        what = text("barrier.cluster.wait at ", thread.where, " where ", block.scheduler->cluster_barrier.arrived,
                    " of the ", block.scheduler->alive(), " threads of the cluster that have not exited have arrived");
      }
      for (const Group& group : thread.warp->groups) {
        if (!(group.arrived >> thread.lane & 1)) continue;
        what = text(name(group.op), " at ", thread.where, " for lanes ", Lanes{group.mask & ~group.arrived},
                    " of warp ", t / kWarp);
      }
      waiting[what].push_back(t);
    }
    if (waiting.empty()) continue;
    append(result, text(result.empty() ? "deadlock in " : " Also in ", in_block(launch, block), ": ",
                        block.size - exited.size(), " of ", block.size, " threads wait and none can run:"));
    const char* separator = " threads ";
    for (const auto& [what, threads] : waiting) {
      append(result, text(separator, ranges(threads), " wait in ", what));
      separator = "; threads ";
    }
    if (!exited.empty()) append(result, text(separator, ranges(exited), " have exited"));
    append(result, ".");
  }
  append(result, " Rule: every thread that a barrier or a collective counts on comes to it, and in the same order.");
  if (bytes) {
    append(result, " A phase of an mbarrier also needs exactly the bytes that it expects, and a thread waits for the "
                   "current phase or the one before.");
  }
  return Report(Report::Kind::deadlock, result);
}

Report stray_write(const LaunchContext& launch, const Block& block, std::ptrdiff_t offset) {
  return Report(Report::Kind::out_of_bounds,
                text("out of bounds in ", in_block(launch, block), ": a store changed the byte at shared offset ",
                     offset, ", outside of the block's ", block.shared_bytes,
                     " bytes. Rule: a block writes only its own dynamic shared memory. An AddressSanitizer build names "
                     "the thread and the line."));
}

void check_launch(const Launch& launch, const char* kernel) {
  const auto& [grid, block, shared_bytes, cluster, programmatic] = launch;
  const auto refuse = [&](const std::string& what, const char* rule) {
    throw Report(Report::Kind::misuse,
                 text("misuse: launch of ", kernel ? kernel : "a kernel", " with ", what, ". Rule: ", rule, "."));
  };
  const std::uint64_t threads = std::uint64_t(block.x) * block.y * block.z;
  if (!threads || threads > 1024 || block.x > 1024 || block.y > 1024 || block.z > 64) {
    refuse(text("a block of ", block.x, " x ", block.y, " x ", block.z, " threads"),
           "a block has 1 to 1024 threads, at most 64 of them in z");
  }
  if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    refuse(text("a grid of ", grid.x, " x ", grid.y, " x ", grid.z, " blocks"),
           "a grid has 1 to 2147483647 x 65535 x 65535 blocks");
  }
  if (shared_bytes > kMaxSharedBytes) {
    refuse(text(shared_bytes, " bytes of dynamic shared memory"), "a block has at most 232448 bytes");
  }
  if (!cluster || cluster > kMaxCluster) {
    refuse(text("clusters of ", cluster, " blocks"),
           "a cluster has 1 to 8 blocks; 16 are not portable, and not on this device");
  }
  if (const int capability = options().compute_capability; cluster > 1 && capability < 90) {
    refuse(text("clusters of ", cluster, " blocks on a device of compute capability ", capability / 10, ".", capability % 10),
           "clusters came with 9.0");
  }
  if (grid.x % cluster) {
    refuse(text("clusters of ", cluster, " blocks in a grid of ", grid.x, " x ", grid.y, " x ", grid.z),
           "the blocks of a cluster are neighbours along x, so its size divides the grid's x");
  }
  if (tsan::on() && cluster > 1 && cluster * threads > kMaxSanitizedCluster) {
    refuse(text("clusters of ", cluster * threads, " threads"),
           "under ThreadSanitizer a cluster has at most 4096 threads");
  }
}

// ---- Options ----

const char* name(Schedule schedule) {
  static constexpr const char* kNames[] = {"ascending", "descending", "random", "warp_greedy", "round_robin"};
  return kNames[int(schedule)];
}
const char* name(Asynchrony asynchrony) {
  return asynchrony == Asynchrony::late ? "late" : "early";
}

namespace {

template <class T, std::size_t N>
void read(const char* variable, T& value, const T (&accepted)[N]) {
  const char* text = std::getenv(variable);
  if (!text) return;
  std::string names;
  for (T candidate : accepted) {
    if (std::string_view(text) == name(candidate)) return void(value = candidate);
    names += (names.empty() ? "" : ", ") + std::string(name(candidate));
  }
  throw std::invalid_argument(std::string(variable) + "=" + text + " is not one of " + names);
}

template <class T>
void read(const char* variable, T& value, T least) {
  const char* text = std::getenv(variable);
  if (!text) return;
  const std::string_view view(text);
  T number{};
  const auto [end, error] = std::from_chars(view.begin(), view.end(), number);
  if (error != std::errc() || end != view.end() || number < least) {
    throw std::invalid_argument(std::string(variable) + "=" + text + " is not a number from " + std::to_string(least) +
                                " up");
  }
  value = number;
}

Options options_from_environment() {
  Options options;
  read("GROUT_SIM_SCHEDULE", options.schedule, kSchedules);
  read("GROUT_SIM_SEED", options.seed, std::uint64_t(0));
  read("GROUT_SIM_ASYNC", options.asynchrony, kAsynchronies);
  read("GROUT_SIM_WORKERS", options.workers, 0);
  return options;
}

}  // namespace

Options& options() {
  static Options options = options_from_environment();
  return options;
}

Sanitizer sanitizer() {
  return tsan::on() ? Sanitizer::thread : asan::on() ? Sanitizer::address : Sanitizer::none;
}

}  // namespace grout::sim
