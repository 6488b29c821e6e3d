// Who measures, and what else runs: the source's state, hashes of programs, other work on this machine and its GPU,
// clocks. Plain C++, no CUDA: the driver is asked through libnvidia-ml, opened at run time.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compare/record.h"

namespace grout::compare {

// ---- what measures ----

struct SourceState {
  std::string commit = "unknown";
  bool dirty = false;
};
// Of the tree at `root`, which must be a repository of its own; changes below `ignored` (an output folder) do not
// count, files that git does not track do. Where git knows nothing, GROUT_COMMIT="ID" or "ID dirty" in the
// environment says it.
SourceState source_state(const std::filesystem::path& root, const std::vector<std::filesystem::path>& ignored = {});

// By sha256sum (coreutils). Throws std::runtime_error.
std::string sha256_of(const std::filesystem::path& file);
// File name and SHA-256 of each.
Settings hashes_of(const std::vector<std::filesystem::path>& files);
std::filesystem::path this_program();

std::string utc_now();  // 2026-01-02T03:04:05Z

// ---- what else runs ----

struct Finding {
  enum class Kind { nothing, not_checked, occupied } kind = Kind::nothing;
  std::string text;  // what was checked and found, for Run::beside
};
// The worst of the kinds, the texts joined.
Finding together(const std::vector<Finding>& findings);

// Compilers and build tools among the processes in `proc`. Ancestors of `self` (the make or ninja that started it,
// its shell) wait for it and are left out; what else they started is not.
Finding other_builds(const std::filesystem::path& proc = "/proc", pid_t self = 0);  // 0: this process

// Held, no other comparison of this machine can start.
class MachineLock {
 public:
  // None where another process holds it. Throws std::runtime_error where the file can be neither opened nor made.
  static std::optional<MachineLock> take(const std::filesystem::path& file = std::filesystem::temp_directory_path() /
                                                                             "grout-compare.lock");
  MachineLock(MachineLock&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  MachineLock& operator=(MachineLock&&) = delete;
  ~MachineLock();

 private:
  explicit MachineLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// ---- the GPU, as its driver sees it ----

struct GpuProcess {
  unsigned pid = 0;
  uint64_t bytes = 0;
  static constexpr uint64_t unknown_bytes = ~uint64_t{0};
};
// Whether the processes with a context on the GPU are this one alone. In a container the driver may list this process
// under another id: then one process with about `own_bytes` (to a quarter or a GiB) is taken for it, and the text
// says so.
Finding judge_gpu_processes(const std::vector<GpuProcess>& listed, unsigned self, uint64_t own_bytes);

class Nvml {
 public:
  using Symbols = std::function<void*(const char*)>;  // null for what the library does not have
  explicit Nvml(const std::string& pci_bus_id, const char* library = "libnvidia-ml.so.1");
  Nvml(const std::string& pci_bus_id, Symbols symbols);
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  const std::string& problem() const { return problem_; }  // why nothing can be asked; empty where it can
  std::string driver() const;                              // empty: not known
  Clocks clocks() const;
  Finding processes(unsigned self, uint64_t own_bytes) const;

 private:
  void start(const std::string& pci_bus_id);
  template <class Function>
  Function* find(const char* name) const {
    return symbols_ ? reinterpret_cast<Function*>(symbols_(name)) : nullptr;
  }
  std::string error_text(int code) const;

  void* library_ = nullptr;
  Symbols symbols_;
  void* device_ = nullptr;
  bool started_ = false;
  std::string problem_;
};

}  // namespace grout::compare
