// Command lines of the example binaries: options, refusals, the choice of device, the last line and its JSON.
//
// Plain C++20 on Linux. Getters never fail: they keep the refusal and return the fallback, so that main reads all its
// options, then asks finish(), and returns before anything is allocated or written.
//   Exit codes: 0 pass, 1 wrong result or device error, 2 malformed request, 77 not possible on this machine.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace grout {

// One value that an option accepts. built = false: a name of the design that no code stands behind yet.
template <class E>
struct Choice {
  std::string name;
  E value;
  bool built = true;
};

class Args {
 public:
  // argv as main has it. `flags` names the options without a value ("causal" for --causal).
  Args(int argc, const char* const* argv, std::string summary, std::vector<std::string> flags = {})
      : summary_(std::move(summary)), program_(argc > 0 ? argv[0] : "") {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word == "--help" || word == "-h") {
        help_ = true;
      } else if (!word.starts_with("--")) {
        positionals_.push_back(word);
      } else {
        const size_t equals = word.find('=');
        Option option{word.substr(2, equals == std::string::npos ? equals : equals - 2), {}};
        const bool is_flag = std::find(flags.begin(), flags.end(), option.name) != flags.end();
        if (equals != std::string::npos) {
          option.value = word.substr(equals + 1);
          if (is_flag) refuse("--" + option.name + " takes no value, '" + option.value + "' was given");
        } else if (!is_flag && i + 1 < argc && !std::string_view(argv[i + 1]).starts_with("--")) {
          option.value = argv[++i];
        }
        if (given(option.name)) refuse("--" + option.name + " is given twice");
        options_.push_back(std::move(option));
      }
    }
  }

  bool given(std::string_view name) const {
    return std::any_of(options_.begin(), options_.end(), [&](const Option& o) { return o.name == name; });
  }

  // The next positional argument, in the order of the calls; without a fallback it is required.
  int64_t positional(const std::string& name, const std::string& meaning, std::optional<int64_t> fallback = {},
                     int64_t low = 0, int64_t high = kMax) {
    usage_ += fallback ? " [" + name + "]" : " " + name;
    lines_.push_back("  " + name + ": " + meaning);
    if (next_positional_ < positionals_.size())
      return parse_integer(name, positionals_[next_positional_++], low, high).value_or(fallback.value_or(0));
    if (!fallback) refuse(name + " is missing: an integer is expected");
    return fallback.value_or(0);
  }

  // The next positional argument as it is; required.
  std::string word(const std::string& name, const std::string& meaning) {
    usage_ += " " + name;
    lines_.push_back("  " + name + ": " + meaning);
    if (next_positional_ < positionals_.size()) return positionals_[next_positional_++];
    refuse(name + " is missing: " + meaning);
    return "";
  }
  // How many positional arguments are left.
  size_t words_left() const { return positionals_.size() - next_positional_; }
  // A list: the option's value, and all positional arguments that are left, "--only A B C".
  std::vector<std::string> list(const std::string& name, const std::string& meaning) {
    std::vector<std::string> values;
    if (const auto first = take(name, "TEXT...", meaning, "")) {
      values.push_back(*first);
      while (next_positional_ < positionals_.size()) values.push_back(positionals_[next_positional_++]);
    }
    return values;
  }

  int64_t integer(const std::string& name, const std::string& meaning, int64_t fallback, int64_t low = kMin,
                  int64_t high = kMax) {
    const auto text = take(name, "E", meaning, std::to_string(fallback));
    return text ? parse_integer("--" + name, *text, low, high).value_or(fallback) : fallback;
  }

  // Finite numbers only, in fp32 too, which is what kernels take.
  double number(const std::string& name, const std::string& meaning, double fallback) {
    char shown[32];
    std::snprintf(shown, sizeof shown, "%g", fallback);
    const auto text = take(name, "X", meaning, shown);
    if (!text) return fallback;
    constexpr double kFp32Max = std::numeric_limits<float>::max();
    double value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error == std::errc() && end == text->data() + text->size() && std::fabs(value) <= kFp32Max) return value;
    const bool too_large = error == std::errc() && std::isfinite(value) && std::fabs(value) > kFp32Max;
    refuse("--" + name + " is '" + *text + "': a finite number is expected" +
           (too_large ? ", at most 3.4e38, the largest of fp32" : ""));
    return fallback;
  }

  // A signed pair "R,C".
  std::pair<int64_t, int64_t> pair(const std::string& name, const std::string& meaning,
                                   std::pair<int64_t, int64_t> fallback, int64_t low = kMin) {
    const auto text =
        take(name, "R,C", meaning, std::to_string(fallback.first) + "," + std::to_string(fallback.second));
    if (!text) return fallback;
    const size_t comma = text->find(',');
    if (comma == std::string::npos || text->find(',', comma + 1) != std::string::npos) {
      refuse("--" + name + " is '" + *text + "': two integers R,C are expected");
      return fallback;
    }
    const auto row = parse_integer("--" + name + ", rows,", text->substr(0, comma), low, kMax);
    const auto col = parse_integer("--" + name + ", columns,", text->substr(comma + 1), low, kMax);
    return row && col ? std::pair{*row, *col} : fallback;
  }

  // Two lists of as many integers, "1,2,3:4,5,6"; nothing where the option is not given, or was refused.
  std::optional<std::pair<std::vector<int64_t>, std::vector<int64_t>>> lists(const std::string& name,
                                                                             const std::string& form,
                                                                             const std::string& meaning, int64_t low,
                                                                             int64_t high) {
    const auto text = take(name, form, meaning, "");
    if (!text) return std::nullopt;
    const size_t colon = text->find(':');
    if (colon == std::string::npos || text->find(':', colon + 1) != std::string::npos) {
      refuse("--" + name + " is '" + *text + "': two lists of integers, " + form + ", are expected");
      return std::nullopt;
    }
    const auto read = [&](const std::string& list) {
      std::vector<int64_t> values;
      for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
        end = list.find(',', begin);
        const size_t place = values.size() + 1;
        const auto value = parse_integer("--" + name + ", number " + std::to_string(place) + " of '" + list + "',",
                                         list.substr(begin, end == std::string::npos ? end : end - begin), low, high);
        if (!value) return std::vector<int64_t>();
        values.push_back(*value);
      }
      return values;
    };
    const auto first = read(text->substr(0, colon));
    if (first.empty()) return std::nullopt;
    const auto second = read(text->substr(colon + 1));
    if (second.empty()) return std::nullopt;
    if (first.size() == second.size()) return std::pair{first, second};
    refuse("--" + name + " is '" + *text + "': lists of " + std::to_string(first.size()) + " and of " +
           std::to_string(second.size()) + " numbers, equal counts are expected");
    return std::nullopt;
  }

  // The value of one of the named choices.
  template <class E>
  E choice(const std::string& name, const std::string& meaning, const std::vector<Choice<E>>& choices, E fallback) {
    std::string exist, fallback_name;
    for (const auto& c : choices) {
      if (c.built) exist += (exist.empty() ? "" : ", ") + c.name;
      if (c.value == fallback) fallback_name = c.name;
    }
    const auto text = take(name, "(" + exist + ")", meaning, fallback_name);
    if (!text) return fallback;
    const auto found =
        std::find_if(choices.begin(), choices.end(), [&](const Choice<E>& c) { return c.name == *text; });
    if (found != choices.end() && found->built) return found->value;
    refuse(found == choices.end() ? "unknown --" + name + " '" + *text + "': " + exist + " exist"
                                  : "--" + name + " " + *text + " is not built yet: " + exist + " exist");
    return fallback;
  }

  std::string text(const std::string& name, const std::string& meaning, const std::string& fallback) {
    return take(name, "TEXT", meaning, fallback).value_or(fallback);
  }

  bool flag(const std::string& name, const std::string& meaning) {
    known_.push_back(name);
    lines_.push_back("  --" + name + ": " + meaning);
    return given(name);
  }

  void refuse(std::string sentence) { refusals_.push_back(std::move(sentence)); }
  const std::vector<std::string>& refusals() const { return refusals_; }

  // After the last getter: the exit code to return now (0 after --help; 2 after a refusal, which is printed to standard
  // error as one sentence), or nothing to carry on.
  std::optional<int> finish() {
    if (help_) {
      std::printf("%s\nusage: %s%s [options]\n", summary_.c_str(), program_.c_str(), usage_.c_str());
      for (const auto& line : lines_) std::printf("%s\n", line.c_str());
      return 0;
    }
    std::string exist;
    for (const auto& name : known_) exist += (exist.empty() ? "--" : ", --") + name;
    for (const auto& option : options_)  // first: an unknown option swallows a word that others then miss
      if (std::find(known_.begin(), known_.end(), option.name) == known_.end())
        refusals_.insert(refusals_.begin(), "unknown option '--" + option.name + "': " + exist + " exist");
    for (size_t i = next_positional_; i < positionals_.size(); ++i)
      refuse("unexpected argument '" + positionals_[i] + "': usage: " + program_ + usage_ + " [options]");
    if (refusals_.empty()) return std::nullopt;
    std::fprintf(stderr, "%s\n", refusals_.front().c_str());
    return 2;
  }

 private:
  static constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();

  struct Option {
    std::string name, value;
  };

  std::optional<std::string> take(const std::string& name, const std::string& form, const std::string& meaning,
                                  const std::string& fallback) {
    known_.push_back(name);
    lines_.push_back("  --" + name + " " + form + ": " + meaning + (fallback.empty() ? "" : " (" + fallback + ")"));
    const auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.name == name; });
    if (found == options_.end()) return std::nullopt;
    if (found->value.empty()) refuse("--" + name + " needs a value: " + form);
    return found->value.empty() ? std::nullopt : std::optional(found->value);
  }

  std::optional<int64_t> parse_integer(const std::string& what, const std::string& text, int64_t low, int64_t high) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string range =
        (high == kMax ? "at least " : "") + std::to_string(low) + (high == kMax ? "" : " to " + std::to_string(high));
    if (end != text.data() + text.size() || error == std::errc::invalid_argument)
      refuse(what + " is '" + text + "': an integer is expected");
    else if (error == std::errc::result_out_of_range)
      refuse(what + " is " + text + ": integers of 64 bits are accepted");
    else if (value < low || value > high)
      refuse(what + " is " + text + ": " + range + " is accepted");
    else
      return value;
    return std::nullopt;
  }

  std::string summary_, program_, usage_;
  std::vector<Option> options_;
  std::vector<std::string> positionals_, known_, lines_, refusals_;
  size_t next_positional_ = 0;
  bool help_ = false;
};

// ---- the options that every example binary has ----

enum class Device { gpu, sim, automatic };
enum class Data { random, integers };

struct CommonOptions {
  Device device = Device::automatic;
  std::string kernel, json;
  uint64_t seed = 1;
  Data data = Data::random;
  int sim_sms = 4;
};

// `integers`: what they are good for.
inline CommonOptions common_options(Args& args, const std::vector<Choice<std::string>>& kernels,
                                    const std::string& integers = "integers are small and compared exactly") {
  CommonOptions o;
  o.device = args.choice<Device>("device", "where to run; auto: a usable GPU, else the simulated device",
                                 {{"gpu", Device::gpu}, {"sim", Device::sim}, {"auto", Device::automatic}}, o.device);
  o.kernel = args.choice<std::string>("kernel", "which kernel", kernels, kernels.front().value);
  o.seed = static_cast<uint64_t>(args.integer("seed", "of the data", 1, 0));
  o.data = args.choice<Data>("data", integers, {{"random", Data::random}, {"integers", Data::integers}}, o.data);
  o.json = args.text("json", "also write the result to this file", "");
  o.sim_sms = static_cast<int>(args.integer("sim-sms", "SMs that the simulated device reports", o.sim_sms, 1, 4096));
  const auto folder = std::filesystem::path(o.json).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder))
    args.refuse("--json " + o.json + " needs an existing folder: '" + folder.string() + "' is none");
  else if (std::filesystem::is_directory(o.json))
    args.refuse("--json " + o.json + " is a folder: the name of a file is expected");
  return o;
}

// ---- host memory ----

// Bytes of host memory that a program can still have; infinite where the system does not say.
inline double available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    double kibibytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lf kB", &kibibytes) == 1) return kibibytes * 1024;
  }
  return std::numeric_limits<double>::infinity();
}
// Refuses a problem that needs more host memory than there is, before any is taken: the exit code, or nothing.
inline std::optional<int> refuse_memory(const std::string& problem, double bytes, double available = available_memory()) {
  if (bytes <= available) return std::nullopt;
  std::fprintf(stderr, "%s needs about %.3g GB of host memory, of which %.3g GB are available\n", problem.c_str(),
               bytes * 1e-9, available * 1e-9);
  return 77;
}

// The end of a program that ran out of host memory all the same.
inline int out_of_memory(int argc, const char* const* argv) {
  std::string words;
  for (int i = 0; i < argc; ++i) words += std::string(i ? " " : "") + argv[i];
  std::fprintf(stderr, "there is not enough host memory for this problem: %s\n", words.c_str());
  return 77;
}
// The main of a program: the exit code of run(argc, argv), or of what it throws, after a sentence.
template <class Run> int run_program(Run run, int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::bad_alloc&) {
  return out_of_memory(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// ---- the choice of device ----

enum class Hand { here, sibling, refuse };
struct DeviceDecision {
  Hand hand;
  std::string sentence;
};

// simulated_build and gpu_usable come from common/launch.cuh; why_not is that Status's message.
inline DeviceDecision decide_device(Device asked, bool simulated_build, bool gpu_usable, const std::string& why_not) {
  if (simulated_build && asked == Device::gpu)
    return {Hand::refuse,
            "--device gpu is not possible: this program was built for the simulated device, its GPU build "
            "needs nvcc; sim and auto are accepted"};
  if (simulated_build) return {Hand::here, "device: sim (this program was built for the simulated device)"};
  if (asked == Device::sim) return {Hand::sibling, "device: sim (asked for)"};
  if (gpu_usable) return {Hand::here, asked == Device::gpu ? "device: gpu (asked for)" : "device: gpu (usable)"};
  if (asked == Device::automatic) return {Hand::sibling, "device: sim (" + why_not + ")"};
  return {Hand::refuse, "--device gpu is not possible: " + why_not};
}

// Prints the device and why; hands over to the simulated twin `<this program>_sim` where that is the device. Returns
// nothing when this process is to carry on, else its exit code (77 with the reason on standard error).
inline std::optional<int> choose_device(Device asked, bool simulated_build, bool gpu_usable, const std::string& why_not,
                                        char** argv) {
  const DeviceDecision decision = decide_device(asked, simulated_build, gpu_usable, why_not);
  std::fprintf(decision.hand == Hand::refuse ? stderr : stdout, "%s\n", decision.sentence.c_str());
  std::fflush(stdout);
  if (decision.hand == Hand::here) return std::nullopt;
  if (decision.hand == Hand::refuse) return 77;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string sibling = self.string() + "_sim";
  if (access(sibling.c_str(), X_OK) != 0) {
    std::filesystem::path build = self.parent_path();
    while (build != build.root_path() && !std::filesystem::exists(build / "CMakeCache.txt"))
      build = build.parent_path();
    std::fprintf(stderr, "%s is not built: cmake --build %s --target %s_sim builds it\n", sibling.c_str(),
                 build == build.root_path() ? "build" : build.c_str(), self.filename().c_str());
    return 77;
  }
  argv[0] = const_cast<char*>(sibling.c_str());
  execv(sibling.c_str(), argv);
  std::fprintf(stderr, "%s could not be started: %s\n", sibling.c_str(), std::strerror(errno));
  return 77;
}

// ---- the last line and its JSON ----

struct RunResult {
  bool pass = false;
  std::string kernel, device, path;
  std::vector<std::pair<std::string, int64_t>> extents;  // {{"M", 65}, {"N", 97}, {"K", 73}}
  double error = 0, bound = 0, time_us = 0;
};

// The last line, or one JSON object with the same fields (not-a-number and infinity are null there).
inline std::string result_text(const RunResult& r, bool json) {
  std::string out = std::string(json ? "{\"result\": \"" : "") + (r.pass ? "PASS" : "FAIL") + (json ? "\"" : "");
  const auto add = [&](const std::string& key, const std::string& value, const char* quote = "") {
    out += json ? ", \"" + key + "\": " + quote + value + quote : " " + key + "=" + value;
  };
  const auto add_number = [&](const char* key, const char* format, double value) {
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    add(key, json && !std::isfinite(value) ? "null" : text);
  };
  add("kernel", r.kernel, "\""), add("device", r.device, "\""), add("path", r.path, "\"");
  for (const auto& [name, extent] : r.extents) add(name, std::to_string(extent));
  add_number("error", "%.4g", r.error), add_number("bound", "%.4g", r.bound), add_number("time_us", "%.3f", r.time_us);
  return out + (json ? "}\n" : "\n");
}

// Writes the JSON file when one is asked for, then prints the last line. Returns the exit code.
inline int report(const RunResult& result, const CommonOptions& options) {
  bool written = true;
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << result_text(result, true) << std::flush;
    written = file.good();
    if (!written) std::fprintf(stderr, "--json %s could not be written\n", options.json.c_str());
  }
  std::fputs(result_text(result, false).c_str(), stdout);
  return result.pass && written ? 0 : 1;
}

}  // namespace grout
