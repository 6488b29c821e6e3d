#include "compare/machine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

namespace grout::compare {
namespace {

namespace fs = std::filesystem;

std::string shell_quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}
// What a shell command prints, where it ends with 0.
std::optional<std::string> output_of(const std::string& command) {
  FILE* pipe = popen(("(" + command + ") 2>/dev/null").c_str(), "re");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> part;
  while (const size_t count = fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), count);
  const int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

// ---- processes ----

struct Process {
  std::string name;
  char state = '?';
  pid_t parent = 0;
};
// From /proc/PID/stat: "12 (name, which may hold anything) S 1 ...".
std::optional<Process> read_process(const fs::path& folder) {
  std::ifstream in(folder / "stat");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  Process p;
  p.name = text.substr(open + 1, close - open - 1);
  if (std::sscanf(text.c_str() + close + 1, " %c %d", &p.state, &p.parent) != 2) return std::nullopt;
  return p;
}

bool is_build_tool(std::string name) {
  static const std::set<std::string, std::less<>> kTools = {
      "cc1",       "cc1plus", "lto1",     "lto-wrapper", "collect2", "as",    "ld",    "ld.bfd",
      "ld.gold",   "ld.lld",  "lld",      "mold",        "cc",       "c++",   "gcc",   "g++",
      "cpp",       "clang",   "clang++",  "rustc",       "cargo",    "nvcc",  "cicc",  "ptxas",
      "fatbinary", "nvlink",  "cudafe++", "ninja",       "make",     "gmake", "cmake", "ctest"};
  if (name.starts_with("x86_64-linux-gn") || name.starts_with("aarch64-linux-g"))
    return true;                        // the kernel keeps 15 characters
  const size_t dash = name.rfind('-');  // g++-12, clang-14
  if (dash != std::string::npos && name.find_first_not_of("0123456789.", dash + 1) == std::string::npos)
    name.resize(dash);
  return kTools.contains(name);
}

}  // namespace

SourceState source_state(const fs::path& root, const std::vector<fs::path>& ignored) {
  const fs::path top = fs::weakly_canonical(root);
  const std::string git =
      fmt::format("git --no-optional-locks -c safe.directory={0} -C {0}", shell_quoted(top.string()));
  const auto head = output_of(git + " rev-parse --show-toplevel HEAD");
  if (head) {
    const size_t line = head->find('\n');
    if (line != std::string::npos && fs::weakly_canonical(head->substr(0, line)) == top) {
      std::string commit = head->substr(line + 1);
      commit.erase(commit.find_last_not_of(" \n") + 1);
      std::string status = git + " status --porcelain --untracked-files=normal -- .";
      for (const fs::path& path : ignored) {
        const fs::path below = fs::weakly_canonical(path).lexically_relative(top);
        if (!below.empty() && *below.begin() != ".." && below != ".")
          status += " " + shell_quoted(":(exclude,literal)" + below.string());
      }
      const auto changes = output_of(status);
      return {commit, !changes || !changes->empty()};  // who cannot tell does not say clean
    }
  }
  const char* said = std::getenv("GROUT_COMMIT");
  if (said == nullptr || *said == '\0') return {};
  std::string commit = said;
  constexpr std::string_view kDirty = " dirty";
  const bool dirty = commit.ends_with(kDirty);
  if (dirty) commit.resize(commit.size() - kDirty.size());
  if (commit.empty() || commit.find_first_of(" \t\n") != std::string::npos)
    throw Refusal(fmt::format("GROUT_COMMIT is \"{}\"; \"ID\" or \"ID dirty\" is taken", said));
  return {commit, dirty};
}

std::string sha256_of(const fs::path& file) {
  const auto text = output_of("sha256sum < " + shell_quoted(file.string()));
  if (!text || text->size() < 64 || text->find_first_not_of("0123456789abcdef") != 64)
    throw std::runtime_error(fmt::format("{}: sha256sum (coreutils) cannot read it, or is missing", file.string()));
  return text->substr(0, 64);
}
Settings hashes_of(const std::vector<fs::path>& files) {
  Settings hashes;
  for (const fs::path& file : files) hashes.emplace_back(file.filename().string(), sha256_of(file));
  return hashes;
}
fs::path this_program() {
  return fs::read_symlink("/proc/self/exe");
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text;
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Finding together(const std::vector<Finding>& findings) {
  Finding all;
  for (const Finding& finding : findings) {
    all.kind = std::max(all.kind, finding.kind);
    all.text += (all.text.empty() ? "" : "; ") + finding.text;
  }
  return all;
}

Finding other_builds(const fs::path& proc, pid_t self) {
  using Kind = Finding::Kind;
  if (self == 0) self = getpid();
  std::map<pid_t, Process> processes;
  std::error_code error;
  for (fs::directory_iterator entry(proc, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t pid = 0;
    const auto [rest, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad != std::errc() || rest != name.data() + name.size()) continue;
    if (const auto process = read_process(entry->path()))
      processes.emplace(pid, *process);  // else it has ended meanwhile
  }
  if (error || !processes.contains(self))
    return {Kind::not_checked, fmt::format("other builds not checked: {} does not list this process", proc.string())};
  std::set<pid_t> own;
  for (pid_t pid = self; own.insert(pid).second && processes.contains(pid);) pid = processes.at(pid).parent;
  std::string found;
  for (const auto& [pid, process] : processes)
    if (!own.contains(pid) && process.state != 'Z' && process.state != 'X' && is_build_tool(process.name))
      found += fmt::format("{}{} ({})", found.empty() ? "" : ", ", process.name, pid);
  if (!found.empty()) return {Kind::occupied, "compilers or build tools run: " + found};
  std::string text = fmt::format("no compiler or build tool among the {} processes seen", processes.size());
  if (!processes.contains(1)) text += "; those of other users are hidden";
  constexpr const char* kMachine = "pid:[4026531836]";  // the kernel's fixed number of the first PID namespace
  if (fs::read_symlink(proc / "self" / "ns" / "pid", error) != kMachine)
    text += "; processes outside of this container are not seen";
  return {Kind::nothing, text};
}

std::optional<MachineLock> MachineLock::take(const fs::path& file) {
  // Opened before it is made: in a folder such as /tmp, Linux refuses O_CREAT on a file of another user.
  int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) descriptor = open(file.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0 && errno == EEXIST)
    descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);  // made by another meanwhile
  if (descriptor < 0)
    throw std::runtime_error(fmt::format("{}: cannot be opened: {}", file.string(), std::strerror(errno)));
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return MachineLock(descriptor);
  const int reason = errno;
  close(descriptor);
  if (reason == EWOULDBLOCK) return std::nullopt;
  throw std::runtime_error(fmt::format("{}: cannot be locked: {}", file.string(), std::strerror(reason)));
}
MachineLock::~MachineLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

Finding judge_gpu_processes(const std::vector<GpuProcess>& listed, unsigned self, uint64_t own_bytes) {
  using Kind = Finding::Kind;
  constexpr double kMiB = 1 << 20;
  const auto memory = [](uint64_t bytes) {
    return bytes == GpuProcess::unknown_bytes ? "unknown memory"
                                              : fmt::format("{:.0f} MiB", static_cast<double>(bytes) / kMiB);
  };
  if (listed.empty())
    return {Kind::not_checked, "other GPU processes not checked: the driver lists none, not even this one"};
  std::string others;
  size_t count = 0;
  for (const GpuProcess& p : listed)
    if (p.pid != self) others += fmt::format("{}{} with {}", count++ ? ", " : "", p.pid, memory(p.bytes));
  if (count == 0) return {Kind::nothing, "one process on the GPU: this one"};
  if (count < listed.size()) return {Kind::occupied, fmt::format("other processes on the GPU: {}", others)};
  if (count > 1)
    return {Kind::occupied, fmt::format("{} processes on the GPU, at most one of them this one: {}", count, others)};
  const GpuProcess& one = listed[0];
  if (one.bytes == GpuProcess::unknown_bytes)
    return {Kind::not_checked,
            fmt::format("one process on the GPU, listed as {} with unknown memory: whether it is this one ({}) was not "
                        "checked",
                        one.pid, self)};
  const double own = static_cast<double>(own_bytes), theirs = static_cast<double>(one.bytes);
  if (std::abs(own - theirs) <= std::max(1024 * kMiB, own / 4))
    return {Kind::nothing,
            fmt::format(
                "one process on the GPU, listed as {} with {}; this one is {} here and uses {}, so it is taken for it",
                one.pid, memory(one.bytes), self, memory(own_bytes))};
  return {Kind::occupied,
          fmt::format("another process on the GPU: {}; this one is {} and uses {}", others, self, memory(own_bytes))};
}

// ---- NVML: what of it is used, declared here as in its documentation ----

namespace {
using NvmlDevice = void*;
struct NvmlProcess {  // nvmlProcessInfo_t of versions 2 and 3
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr int kNvmlSuccess = 0, kNvmlInsufficientSize = 7;
constexpr int kNvmlClockSm = 1, kNvmlClockMemory = 2, kNvmlTemperatureGpu = 0;

using NvmlCall = int();
using NvmlHandle = int(const char*, NvmlDevice*);
using NvmlProcesses = int(NvmlDevice, unsigned*, NvmlProcess*);
using NvmlKindOf = int(NvmlDevice, int, unsigned*);
using NvmlValue = int(NvmlDevice, unsigned*);
using NvmlText = int(char*, unsigned);
using NvmlErrorString = const char*(int);
}  // namespace

Nvml::Nvml(const std::string& pci_bus_id, const char* library) {
  library_ = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    const char* reason = dlerror();
    problem_ = reason != nullptr ? reason : std::string(library) + " cannot be opened";
    return;
  }
  symbols_ = [this](const char* name) { return dlsym(library_, name); };
  start(pci_bus_id);
}
Nvml::Nvml(const std::string& pci_bus_id, Symbols symbols) : symbols_(std::move(symbols)) {
  start(pci_bus_id);
}

void Nvml::start(const std::string& pci_bus_id) {
  const auto init = find<NvmlCall>("nvmlInit_v2");
  const auto handle = find<NvmlHandle>("nvmlDeviceGetHandleByPciBusId_v2");
  if (init == nullptr || handle == nullptr) {
    problem_ = fmt::format("the driver's library has no {}",
                           init == nullptr ? "nvmlInit_v2" : "nvmlDeviceGetHandleByPciBusId_v2");
    return;
  }
  if (const int code = init(); code != kNvmlSuccess) {
    problem_ = "nvmlInit_v2: " + error_text(code);
    return;
  }
  started_ = true;
  if (const int code = handle(pci_bus_id.c_str(), &device_); code != kNvmlSuccess)
    problem_ = fmt::format("nvmlDeviceGetHandleByPciBusId_v2 of {}: {}", pci_bus_id, error_text(code));
}
Nvml::~Nvml() {
  const auto shutdown = find<NvmlCall>("nvmlShutdown");
  if (started_ && shutdown != nullptr) shutdown();
  if (library_ != nullptr) dlclose(library_);
}
std::string Nvml::error_text(int code) const {
  const auto text = find<NvmlErrorString>("nvmlErrorString");
  return text != nullptr ? text(code) : fmt::format("error {}", code);
}

std::string Nvml::driver() const {
  const auto get = find<NvmlText>("nvmlSystemGetDriverVersion");
  std::array<char, 96> text{};
  return started_ && get != nullptr && get(text.data(), text.size() - 1) == kNvmlSuccess ? text.data() : "";
}
Clocks Nvml::clocks() const {
  Clocks clocks;
  if (!problem_.empty()) return clocks;
  unsigned value = 0;
  const auto number = [&](const char* name, int kind) {
    const auto get = find<NvmlKindOf>(name);
    return get != nullptr && get(device_, kind, &value) == kNvmlSuccess ? static_cast<int>(value) : -1;
  };
  clocks.sm_mhz = number("nvmlDeviceGetClockInfo", kNvmlClockSm);
  clocks.memory_mhz = number("nvmlDeviceGetClockInfo", kNvmlClockMemory);
  clocks.celsius = number("nvmlDeviceGetTemperature", kNvmlTemperatureGpu);
  const auto milliwatts = find<NvmlValue>("nvmlDeviceGetPowerUsage");
  if (milliwatts != nullptr && milliwatts(device_, &value) == kNvmlSuccess) clocks.watts = value / 1000.;
  return clocks;
}
Finding Nvml::processes(unsigned self, uint64_t own_bytes) const {
  const auto not_checked = [](const std::string& reason) {
    return Finding{Finding::Kind::not_checked, "other GPU processes not checked: " + reason};
  };
  if (!problem_.empty()) return not_checked(problem_);
  auto get = find<NvmlProcesses>("nvmlDeviceGetComputeRunningProcesses_v3");
  if (get == nullptr) get = find<NvmlProcesses>("nvmlDeviceGetComputeRunningProcesses_v2");
  if (get == nullptr) return not_checked("the driver's library has no nvmlDeviceGetComputeRunningProcesses_v3 or _v2");
  std::vector<NvmlProcess> found;
  unsigned count = 32;
  int code = kNvmlInsufficientSize;
  for (int attempt = 0; attempt < 4 && code == kNvmlInsufficientSize; ++attempt) {  // more may have started meanwhile
    count = std::max<unsigned>(2 * count, 64);
    found.resize(count);
    code = get(device_, &count, found.data());
  }
  if (code != kNvmlSuccess) return not_checked("nvmlDeviceGetComputeRunningProcesses: " + error_text(code));
  std::vector<GpuProcess> listed;
  for (unsigned i = 0; i < count; ++i) listed.push_back({found[i].pid, found[i].bytes});
  return judge_gpu_processes(listed, self, own_bytes);
}

}  // namespace grout::compare
