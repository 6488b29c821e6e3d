// What measures and what else runs: git, hashes, a made-up /proc, the lock, a made-up NVML.
#include "compare/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <tuple>

namespace grout::compare {
namespace {

namespace fs = std::filesystem;
using Kind = Finding::Kind;

class CompareMachine : public testing::Test {
 protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("grout_compare_machine." + std::to_string(getpid()));
    fs::create_directories(folder);
    unsetenv("GROUT_COMMIT");
  }
  void TearDown() override {
    fs::remove_all(folder);
    unsetenv("GROUT_COMMIT");
  }
  void write(const fs::path& name, const std::string& text) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
  }
  fs::path folder;
};
int shell(const std::string& command) {
  return std::system(("(" + command + ") >/dev/null 2>&1").c_str());
}

// ---- the source ----

class CompareSource : public CompareMachine {
 protected:
  void SetUp() override {
    CompareMachine::SetUp();
    if (shell("git --version") != 0) GTEST_SKIP() << "no git here";
  }
  void commit(const fs::path& name) {
    const std::string git = "git -c user.name=n -c user.email=e -C '" + (folder / name).string() + "' ";
    ASSERT_EQ(shell(git + "init && " + git + "add -A && " + git + "commit -m one"), 0);
  }
};
TEST_F(CompareSource, CommitAndDirtiness) {
  write("first/inside/a.cpp", "int a;");
  write("first/.gitignore", "build/\n");
  commit("first");
  const std::string name = "it's a tree";
  const fs::path tree = folder / name;
  fs::rename(folder / "first", tree);
  EXPECT_EQ(source_state(tree / "inside").commit, "unknown");  // a repository above is not the tree's own
  const SourceState clean = source_state(tree);
  EXPECT_TRUE(std::regex_match(clean.commit, std::regex("[0-9a-f]{40}"))) << clean.commit;
  EXPECT_FALSE(clean.dirty);
  setenv("GROUT_COMMIT", "other", 1);  // git knows
  EXPECT_EQ(source_state(tree).commit, clean.commit);
  unsetenv("GROUT_COMMIT");
  write(name + "/build/x.o", "ignored");
  write(name + "/out/results.json", "{}");
  EXPECT_FALSE(source_state(tree, {tree / "out"}).dirty);
  EXPECT_FALSE(source_state(tree, {tree / "out", "/elsewhere"}).dirty);
  EXPECT_TRUE(source_state(tree).dirty);
  EXPECT_TRUE(source_state(tree, {tree / "ou"}).dirty);
  fs::remove_all(tree / "out");
  write(name + "/new.cpp", "int b;");  // not tracked, and yet it would be built
  EXPECT_TRUE(source_state(tree).dirty);
  fs::remove(tree / "new.cpp");
  write(name + "/inside/a.cpp", "int c;");
  EXPECT_TRUE(source_state(tree).dirty);
  EXPECT_EQ(source_state(tree).commit, clean.commit);
}
TEST_F(CompareSource, WithoutARepository) {
  EXPECT_EQ(source_state(folder).commit, "unknown");
  EXPECT_FALSE(source_state(folder).dirty);
  EXPECT_EQ(source_state(folder / "nowhere").commit, "unknown");
  for (const auto& [said, id, dirty] :
       {std::tuple{"abc123", "abc123", false}, {"abc123 dirty", "abc123", true}, {"", "unknown", false}}) {
    setenv("GROUT_COMMIT", said, 1);
    EXPECT_EQ(source_state(folder).commit, id);
    EXPECT_EQ(source_state(folder).dirty, dirty);
  }
  for (const char* said : {" dirty", "abc clean", "abc  dirty", "a b"}) {
    setenv("GROUT_COMMIT", said, 1);
    EXPECT_THROW((void)source_state(folder), Refusal) << said;
  }
}
TEST_F(CompareMachine, Hashes) {
  write("it's empty", "");
  write("abc", "abc");
  EXPECT_EQ(sha256_of(folder / "it's empty"), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hashes_of({folder / "abc"}),
            (Settings{{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}}));
  EXPECT_THROW((void)sha256_of(folder / "none"), std::runtime_error);
  EXPECT_TRUE(fs::equivalent(this_program(), testing::internal::GetArgvs()[0]));
}
TEST(CompareDate, IsIso8601) {
  EXPECT_TRUE(std::regex_match(utc_now(), std::regex("20\\d\\d-[01]\\d-[0-3]\\dT[0-2]\\d:[0-5]\\d:[0-6]\\dZ")));
}

// ---- processes ----

class CompareProc : public CompareMachine {
 protected:
  // init 1 - sshd 10 - make 20 - sh 30 - this one 40
  void SetUp() override {
    CompareMachine::SetUp();
    process(1, "init", 0);
    process(10, "sshd", 1);
    process(20, "make", 10);
    process(30, "sh", 20);
    process(40, "compare", 30);
    fs::create_directories(folder / "self" / "ns");
    fs::create_symlink("pid:[4026531836]", folder / "self" / "ns" / "pid");
    write("meminfo", "MemTotal: 1 kB\n");
    fs::create_directories(folder / "12x");
  }
  void process(int pid, const std::string& name, int parent, char state = 'S') {
    write(fs::path(std::to_string(pid)) / "stat",
          std::to_string(pid) + " (" + name + ") " + state + " " + std::to_string(parent) + " 1 1 0 -1 4194304 100");
  }
};
TEST_F(CompareProc, AncestorsWaitForUs) {
  const Finding f = other_builds(folder, 40);
  EXPECT_EQ(f.kind, Kind::nothing);
  EXPECT_EQ(f.text, "no compiler or build tool among the 5 processes seen");
}
TEST_F(CompareProc, WhatAnAncestorAlsoStartedDoesNot) {
  process(21, "sh", 20);
  process(22, "cc1plus", 21, 'R');
  const Finding f = other_builds(folder, 40);
  EXPECT_EQ(f.kind, Kind::occupied);
  EXPECT_EQ(f.text, "compilers or build tools run: cc1plus (22)");
}
TEST_F(CompareProc, EveryBuildTool) {
  for (const char* name :
       {"cc1",   "cc1plus", "g++",      "g++-12",    "gcc",      "x86_64-linux-gn", "clang-14", "clang++", "nvcc",
        "cicc",  "ptxas",   "cudafe++", "fatbinary", "nvlink",   "ninja",           "make",     "gmake",   "cmake",
        "ctest", "ld",      "ld.bfd",   "as",        "collect2", "rustc",           "cargo"}) {
    process(99, name, 1);
    EXPECT_EQ(other_builds(folder, 40).kind, Kind::occupied) << name;
    EXPECT_EQ(other_builds(folder, 40).text, std::string("compilers or build tools run: ") + name + " (99)");
  }
  for (const char* name : {"bash", "python3", "assh", "makefile-viewer", "ld-linux", "cmake-gui-x", "-", ""}) {
    process(99, name, 1);
    EXPECT_EQ(other_builds(folder, 40).kind, Kind::nothing) << name;
  }
}
TEST_F(CompareProc, OddNamesAndEndedProcesses) {
  process(50, "ninja) R 1 (a", 1);  // a name may hold all that
  process(51, "cc1plus", 1, 'Z');   // ended, not yet collected
  process(52, "x", 1);
  write("53/stat", "");
  fs::create_directories(folder / "54");
  EXPECT_EQ(other_builds(folder, 40).kind, Kind::nothing);
  process(51, "cc1plus", 1, 'D');
  EXPECT_EQ(other_builds(folder, 40).kind, Kind::occupied);
  process(51, "x", 1);
  process(10, "sshd", 40);  // a circle, which a list that changes while it is read may show
  EXPECT_EQ(other_builds(folder, 40).kind, Kind::nothing);
}
TEST_F(CompareProc, WhatIsNotSeenIsSaid) {
  fs::remove(folder / "self" / "ns" / "pid");
  fs::create_symlink("pid:[4026532999]", folder / "self" / "ns" / "pid");
  EXPECT_EQ(other_builds(folder, 40).text,
            "no compiler or build tool among the 5 processes seen; processes outside of this container are not seen");
  fs::remove_all(folder / "1");
  EXPECT_EQ(other_builds(folder, 40).text,
            "no compiler or build tool among the 4 processes seen; those of other users are hidden; processes "
            "outside of this container are not seen");
  EXPECT_EQ(other_builds(folder, 41).kind, Kind::not_checked);
  EXPECT_EQ(other_builds(folder / "none", 40).kind, Kind::not_checked);
  EXPECT_NE(other_builds().kind, Kind::not_checked);  // the real one
}
TEST(CompareFinding, TheWorstCounts) {
  const Finding nothing{Kind::nothing, "a"}, not_checked{Kind::not_checked, "b"}, occupied{Kind::occupied, "c"};
  EXPECT_EQ(together({nothing, nothing}).kind, Kind::nothing);
  EXPECT_EQ(together({nothing, not_checked}).kind, Kind::not_checked);
  EXPECT_EQ(together({occupied, not_checked, nothing}).kind, Kind::occupied);
  EXPECT_EQ(together({occupied, not_checked, nothing}).text, "c; b; a");
}

TEST_F(CompareMachine, OneAtATime) {
  const fs::path file = folder / "lock";
  {
    const auto first = MachineLock::take(file);
    ASSERT_TRUE(first);
    EXPECT_FALSE(MachineLock::take(file));
    EXPECT_TRUE(MachineLock::take(folder / "another"));
    EXPECT_FALSE(MachineLock::take(file));
    MachineLock moved = std::move(*MachineLock::take(folder / "another"));
    EXPECT_FALSE(MachineLock::take(folder / "another"));
  }
  EXPECT_TRUE(MachineLock::take(file));  // free again, and the file stays
  EXPECT_THROW((void)MachineLock::take(folder / "no" / "folder"), std::runtime_error);
}

// ---- the GPU ----

constexpr uint64_t kGiB = uint64_t{1} << 30;
TEST(CompareGpu, AloneOrNot) {
  const auto judge = [](const std::vector<GpuProcess>& listed) { return judge_gpu_processes(listed, 40, 20 * kGiB); };
  EXPECT_EQ(judge({{40, 1}}).kind, Kind::nothing);
  EXPECT_EQ(judge({{40, 1}}).text, "one process on the GPU: this one");
  EXPECT_EQ(judge({{40, 1}, {41, kGiB}}).kind, Kind::occupied);
  EXPECT_EQ(judge({{40, 1}, {41, kGiB}}).text, "other processes on the GPU: 41 with 1024 MiB");
  EXPECT_EQ(judge({{41, GpuProcess::unknown_bytes}, {40, 1}, {42, 0}}).text,
            "other processes on the GPU: 41 with unknown memory, 42 with 0 MiB");
  // In a container: one, under another id.
  EXPECT_EQ(judge({{4711, 20 * kGiB + 500000000}}).kind, Kind::nothing);
  EXPECT_EQ(judge({{4711, 20 * kGiB}}).text,
            "one process on the GPU, listed as 4711 with 20480 MiB; this one is 40 here and uses 20480 MiB, so it is "
            "taken for it");
  EXPECT_EQ(judge({{4711, 25 * kGiB}}).kind, Kind::nothing);
  EXPECT_EQ(judge({{4711, 26 * kGiB}}).kind, Kind::occupied);
  EXPECT_EQ(judge({{4711, 14 * kGiB}}).kind, Kind::occupied);
  EXPECT_EQ(judge({{4711, 26 * kGiB}}).text,
            "another process on the GPU: 4711 with 26624 MiB; this one is 40 and uses 20480 MiB");
  EXPECT_EQ(judge({{4711, GpuProcess::unknown_bytes}}).kind, Kind::not_checked);
  EXPECT_EQ(judge({{4711, 20 * kGiB}, {4712, 1}}).kind, Kind::occupied);
  EXPECT_EQ(judge({{4711, 20 * kGiB}, {4712, 1}}).text,
            "2 processes on the GPU, at most one of them this one: 4711 with 20480 MiB, 4712 with 0 MiB");
  EXPECT_EQ(judge({}).kind, Kind::not_checked);
}

// A driver's library with one device and the processes that a test sets.
struct Driver {
  static inline int init_code = 0, handle_code = 0, list_code = 0, value_code = 0, shutdowns = 0;
  static inline std::string bus_id, missing;
  static inline std::vector<GpuProcess> processes;
  struct Listed {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
  };
  static int init() { return init_code; }
  static int shutdown() { return ++shutdowns, 0; }
  static int handle(const char* id, void** device) {
    bus_id = id;
    *device = &processes;
    return handle_code;
  }
  static int list(void* device, unsigned* count, Listed* out) {
    if (list_code != 0) return list_code;
    EXPECT_EQ(device, &processes);
    const auto needed = static_cast<unsigned>(processes.size());
    const bool fits = needed <= *count;
    for (unsigned i = 0; fits && i < needed; ++i) out[i] = {processes[i].pid, processes[i].bytes, ~0u, ~0u};
    *count = needed;
    return fits ? 0 : 7;
  }
  static int clock(void*, int kind, unsigned* value) {
    return *value = kind == 1 ? 1755 : kind == 2 ? 3201 : 0, value_code;
  }
  static int temperature(void*, int kind, unsigned* value) { return *value = kind == 0 ? 41 : 0, value_code; }
  static int power(void*, unsigned* value) { return *value = 123456, value_code; }
  static int driver(char* text, unsigned size) { return std::strncpy(text, "580.159.04", size), value_code; }
  static const char* error(int code) { return code == 4 ? "Insufficient Permissions" : "other"; }

  static void* symbol(const char* name) {
    const std::string asked = name;
    if (!missing.empty() && asked.find(missing) != std::string::npos) return nullptr;
    for (const auto& [known, function] : {std::pair<const char*, void*>{"nvmlInit_v2", reinterpret_cast<void*>(init)},
                                          {"nvmlShutdown", reinterpret_cast<void*>(shutdown)},
                                          {"nvmlDeviceGetHandleByPciBusId_v2", reinterpret_cast<void*>(handle)},
                                          {"nvmlDeviceGetComputeRunningProcesses_v3", reinterpret_cast<void*>(list)},
                                          {"nvmlDeviceGetComputeRunningProcesses_v2", reinterpret_cast<void*>(list)},
                                          {"nvmlDeviceGetClockInfo", reinterpret_cast<void*>(clock)},
                                          {"nvmlDeviceGetTemperature", reinterpret_cast<void*>(temperature)},
                                          {"nvmlDeviceGetPowerUsage", reinterpret_cast<void*>(power)},
                                          {"nvmlSystemGetDriverVersion", reinterpret_cast<void*>(driver)},
                                          {"nvmlErrorString", reinterpret_cast<void*>(error)}})
      if (asked == known) return function;
    return nullptr;
  }
};
class CompareNvml : public testing::Test {
 protected:
  void SetUp() override {
    Driver::init_code = Driver::handle_code = Driver::list_code = Driver::value_code = Driver::shutdowns = 0;
    Driver::missing.clear();
    Driver::processes = {{40, kGiB}};
  }
  static Finding processes() { return Nvml("0000:1B:00.0", Driver::symbol).processes(40, kGiB); }
};
TEST_F(CompareNvml, SaysWhatTheDriverSays) {
  {
    const Nvml nvml("0000:1B:00.0", Driver::symbol);
    EXPECT_EQ(nvml.problem(), "");
    EXPECT_EQ(Driver::bus_id, "0000:1B:00.0");
    EXPECT_EQ(nvml.driver(), "580.159.04");
    EXPECT_EQ(nvml.clocks(), (Clocks{1755, 3201, 41, 123.456}));
    EXPECT_EQ(nvml.processes(40, kGiB).kind, Kind::nothing);
    EXPECT_EQ(Driver::shutdowns, 0);
  }
  EXPECT_EQ(Driver::shutdowns, 1);
  Driver::processes = {{40, kGiB}, {77, 2 * kGiB}};
  EXPECT_EQ(processes().text, "other processes on the GPU: 77 with 2048 MiB");
}
TEST_F(CompareNvml, ManyProcessesDoNotGetLost) {
  for (const size_t count : {64u, 65u, 200u, 500u}) {
    Driver::processes.assign(count, {77, kGiB});
    Driver::processes.back() = {12345, kGiB};
    const Finding f = processes();
    EXPECT_EQ(f.kind, Kind::occupied);
    EXPECT_NE(f.text.find(std::to_string(count) + " processes on the GPU"), std::string::npos);
    EXPECT_NE(f.text.find("12345 with"), std::string::npos);
  }
}
TEST_F(CompareNvml, WhatCannotBeAskedIsNotFine) {
  const auto expect = [&](const std::string& text) {
    const Finding f = processes();
    EXPECT_EQ(f.kind, Kind::not_checked);
    EXPECT_EQ(f.text, "other GPU processes not checked: " + text);
  };
  Driver::list_code = 4;
  expect("nvmlDeviceGetComputeRunningProcesses: Insufficient Permissions");
  Driver::list_code = 7;  // asked for more room for ever
  expect("nvmlDeviceGetComputeRunningProcesses: other");
  Driver::list_code = 0;
  Driver::missing = "_v3";
  EXPECT_EQ(processes().kind, Kind::nothing);  // the older function
  Driver::missing = "RunningProcesses";
  expect("the driver's library has no nvmlDeviceGetComputeRunningProcesses_v3 or _v2");
  Driver::missing = "nvmlErrorString";
  Driver::list_code = 3;
  expect("nvmlDeviceGetComputeRunningProcesses: error 3");
  Driver::missing.clear();
  Driver::list_code = 0;
  Driver::handle_code = 4;
  expect("nvmlDeviceGetHandleByPciBusId_v2 of 0000:1B:00.0: Insufficient Permissions");
  EXPECT_EQ(Nvml("x", Driver::symbol).clocks(), Clocks{});
  Driver::shutdowns = 0;
  Driver::init_code = 4;
  expect("nvmlInit_v2: Insufficient Permissions");
  EXPECT_EQ(Driver::shutdowns, 0);
  EXPECT_EQ(Nvml("x", Driver::symbol).driver(), "");
  Driver::missing = "nvmlInit";
  expect("the driver's library has no nvmlInit_v2");
  Driver::missing = "nvmlDeviceGetHandle";
  expect("the driver's library has no nvmlDeviceGetHandleByPciBusId_v2");
}
TEST_F(CompareNvml, UnknownValuesStayUnknown) {
  Driver::value_code = 3;
  EXPECT_EQ(Nvml("x", Driver::symbol).clocks(), Clocks{});
  EXPECT_EQ(Nvml("x", Driver::symbol).driver(), "");
}
TEST_F(CompareNvml, NoLibrary) {
  const Nvml nvml("0000:1B:00.0", "libgrout-no-such-library.so.1");
  EXPECT_NE(nvml.problem().find("libgrout-no-such-library.so.1"), std::string::npos);
  EXPECT_EQ(nvml.clocks(), Clocks{});
  EXPECT_EQ(nvml.driver(), "");
  EXPECT_EQ(nvml.processes(40, 1).kind, Kind::not_checked);
  EXPECT_NE(nvml.processes(40, 1).text.find("other GPU processes not checked: libgrout-no-such-library.so.1"),
            std::string::npos);
}

}  // namespace
}  // namespace grout::compare
