// ./run compare SUITE OUTDIR [--only TEXT...]: measures a suite's cases, resumes and merges what OUTDIR holds already.
// ./run compare --replay REF.json[:SAMPLE] [CAND.json[:SAMPLE]] OUTDIR [--rounds N]: the recorded policies again, nothing chosen.
// Exit code 0: all right; 1: a wrong result, a failure, or a verdict that was not reproduced; 2: malformed request; 77: not
// possible here.
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "common/args.h"
#include "common/check_gpu.cuh"
#include "compare/engine.cuh"
#include "compare/json.h"
#include "compare/machine.h"
#include "compare/pinned.h"
#include "compare/replay.h"
#include "compare/report.h"
#include "compare/suite.h"

namespace grout::compare {
namespace {

namespace fs = std::filesystem;

// The device, as seen; what else runs beside this process.
class Surroundings {
 public:
  Surroundings() {
    int device = 0, driver = 0, runtime = 0, cublas = 0;
    require(runtime_status(cudaGetDevice(&device), "cudaGetDevice"));
    require(runtime_status(cudaGetDeviceProperties(&properties_, device), "cudaGetDeviceProperties"));
    require(runtime_status(cudaDriverGetVersion(&driver), "cudaDriverGetVersion"));
    require(runtime_status(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"));
    require_cublas(cublasGetVersion(cublas_handle(), &cublas), "cublasGetVersion");
    char bus[32] = "";
    require(runtime_status(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "cudaDeviceGetPCIBusId"));
    nvml_.emplace(bus);
    const auto version = [](int v, int major, int minor) {
      return std::to_string(v / major) + "." + std::to_string(v % major / minor);
    };
    toolkit_ = "CUDA " + version(runtime, 1000, 10);
    driver_ = (nvml_->driver().empty() ? "" : nvml_->driver() + ", ") + "CUDA " + version(driver, 1000, 10);
    cublas_ = version(cublas, 10000, 100);
  }
  void describe(Run& run) const {
    run.device = properties_.name, run.sms = properties_.multiProcessorCount, run.l2_bytes = properties_.l2CacheSize;
    run.capability = std::to_string(properties_.major) + "." + std::to_string(properties_.minor);
    run.driver = driver_, run.toolkit = toolkit_;
    run.versions = {{"cublas", cublas_}};
    run.beside = look().text;
  }
  Finding look() const {
    size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    return together({other_builds(), nvml_->processes(static_cast<unsigned>(getpid()), total - free)});
  }
  Clocks clocks() const { return nvml_->clocks(); }

 private:
  cudaDeviceProp properties_{};
  std::optional<Nvml> nvml_;
  std::string driver_, toolkit_, cublas_;
};

// One case, from its description to its record. Whatever goes wrong is its failure.
Case measure_case(const Suite& suite, const Case& wanted, const std::vector<Sample>* recorded,
                  const Surroundings& surroundings) {
  const bool terminal = isatty(STDOUT_FILENO);
  Case result;
  const Clocks before = surroundings.clocks();
  try {
    result = measure(suite.build(wanted, recorded), as_graph, [&](const std::string& name, int round) {
      if (terminal)
        std::printf("\r\033[K  %s, %s", name.c_str(),
                    round < 0 ? "warming up" : ("round " + std::to_string(round + 1)).c_str()),
            std::fflush(stdout);
    });
  } catch (const std::exception& error) {
    result = wanted;
    Sample failed;
    failed.name = "the case", failed.failure = error.what();
    result.samples = {failed};
    result.pairs.clear();
  }
  if (terminal) std::printf("\r\033[K");
  result.before = before, result.after = surroundings.clocks();
  if (const Finding found = surroundings.look(); found.kind == Finding::Kind::occupied)
    for (Sample& s : result.samples) {
      if (s.failure.empty()) s.failure = "something else ran beside it: " + found.text;
      s.round_us.clear(), s.round_wall_us.clear(), s.validated = 0;
    }
  return result;
}

const Suite& suite_named(const std::vector<Suite>& suites, const std::string& name) {
  for (const Suite& suite : suites)
    if (suite.name == name) return suite;
  std::string exist;
  for (const Suite& suite : suites) exist += (exist.empty() ? "" : ", ") + suite.name;
  throw Refusal("there is no suite '" + name + "': " + exist + " exist");
}

Run this_run(int argc, char** argv, const fs::path& out, const Surroundings& surroundings) {
  Run run;
  for (int i = 0; i < argc; ++i) {  // absolute paths are this machine's: their names are enough
    const fs::path word = argv[i];
    run.command += (i ? " " : "") + (i == 0 || word.is_absolute() ? word.filename().string() : std::string(argv[i]));
  }
  run.date = utc_now();
  const SourceState source = source_state(GROUT_SOURCE_DIR, {out});
  run.commit = source.commit, run.dirty = source.dirty;
  run.executables = hashes_of({this_program()});
  surroundings.describe(run);
  return run;
}

int finish(const fs::path& out, const Results& results, const std::string& last) {
  publish(out, results);
  std::fputs(terminal_table(results).c_str(), stdout);
  Counts total;
  for (const Results::Entry& entry : results.cases) total += counts(entry.value);
  std::printf("%s: %lld validated pairs, %lld validations, %lld failures; %s\n", (out / "results.md").c_str(),
              static_cast<long long>(total.validated_pairs), static_cast<long long>(total.validations),
              static_cast<long long>(total.failures), last.c_str());
  return total.failures == 0 ? 0 : 1;
}

int run(int argc, char** argv) {
  Args args(
      argc, argv,
      "Paired comparison of kernels, configurations and peers: validated in full, timed in counterbalanced rounds.",
      {"list", "fresh"});
  const std::string replay =
      args.text("replay", "REF.json[:SAMPLE]: repeat what it records, or pair it with [CAND.json[:SAMPLE]]", "");
  const auto rounds = args.integer("rounds", "of a replay, instead of those recorded", 0, 1, 1000);
  const bool list = args.flag("list", "name the suite's cases and do nothing"),
             fresh = args.flag("fresh", "measure again what OUTDIR holds already");
  const std::string first = replay.empty()          ? args.word("SUITE", "gemm, attention, copy or self")
                            : args.words_left() > 1 ? args.word("CAND.json", "recorded results")
                                                    : "";
  const std::string out_text =
      list ? "" : args.word("OUTDIR", "the folder of results.json, results.md and results.svg; made where missing");
  const std::vector<std::string> only = args.list("only", "parts of cases' names: those alone");
  if (!replay.empty() && (list || fresh || !only.empty()))
    args.refuse("--replay repeats what was recorded: --list, --fresh and --only do not go with it");
  if (replay.empty() && args.given("rounds"))
    args.refuse("--rounds goes with --replay: the protocol of a suite is fixed");
  if (const std::optional<int> done = args.finish()) return *done;

  if (!list) require_output(out_text, !replay.empty());
  const std::vector<Suite> suites = {gemm_suite(), attention_suite(), copy_suite(), self_suite()};
  std::vector<Case> wanted;
  ReplayPlan plan;
  if (replay.empty()) {
    for (const Case& c : suite_named(suites, first).cases) {
      bool chosen = only.empty();
      for (const std::string& part : only) chosen |= title(c).find(part) != std::string::npos;
      if (chosen) wanted.push_back(c);
    }
    if (wanted.empty())
      throw Refusal("--only " + only.front() + " and what follows match no case of " + first + "; --list names them");
    if (list) {
      for (const Case& c : wanted) std::printf("%s\n", title(c).c_str());
      return 0;
    }
  } else {
    const std::optional<int> asked = args.given("rounds") ? std::optional(static_cast<int>(rounds)) : std::nullopt;
    const ReplaySource reference = replay_source(replay);
    if (first.empty()) {
      if (!reference.sample.empty())
        throw Refusal("--replay " + replay +
                      ": a sample is chosen to be paired with that of CAND.json, which is missing");
      plan = plan_replay(read_results(reference.file), reference.file.string(), asked);
    } else {
      const ReplaySource candidate = replay_source(first);
      plan = plan_replay(read_results(reference.file), reference, read_results(candidate.file), candidate, asked);
    }
    for (const std::string& note : plan.notes) std::printf("%s\n", note.c_str());
    for (const Planned& planned : plan.cases) (void)suite_named(suites, planned.now.suite);
  }

  if (const Status usable = gpu_usable(); !usable) {
    std::fprintf(stderr, "compare needs a GPU (the simulated device's times are no measure): %s\n",
                 usable.message.c_str());
    return 77;
  }
  const std::optional<MachineLock> lock = MachineLock::take();
  if (!lock) {
    std::fprintf(stderr, "another comparison runs on this machine: nothing is timed beside it\n");
    return 77;
  }
  const Surroundings surroundings;
  if (const Finding found = surroundings.look(); found.kind == Finding::Kind::occupied) {
    std::fprintf(stderr, "something else runs here, and nothing is timed beside it: %s\n", found.text.c_str());
    return 77;
  }
  const fs::path out = out_text;
  fs::create_directories(out);
  const Run now = this_run(argc, argv, out, surroundings);
  if (const std::string missing = pinned::missing(); !missing.empty()) std::printf("%s\n", missing.c_str());

  if (!replay.empty()) {
    Results measured{{now}, {}};
    for (size_t i = 0; i < plan.cases.size(); ++i) {
      const Case& c = plan.cases[i].now;
      std::printf("%s\n", starting_line(c, i + 1, plan.cases.size()).c_str());
      Case done = measure_case(suite_named(suites, c.suite), c, &c.samples, surroundings);
      hold_to_plan(done, c);
      std::printf("%s\n", finished_line(done, i + 1, plan.cases.size()).c_str());
      std::fflush(stdout);
      measured.cases.push_back({0, std::move(done)});
      publish(out, measured);
    }
    const Replayed replayed = compare_replay(plan, measured);
    const int failed = finish(out, measured, replayed.summary());
    for (const std::string& difference : replayed.differences) std::printf("differs: %s\n", difference.c_str());
    return failed != 0 ? failed : replayed.exit_code();
  }

  Results results;
  if (fs::exists(out / "results.json")) results = read_results(out / "results.json");
  size_t kept = 0;
  auto written = std::chrono::steady_clock::now();
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!fresh && is_complete(results, now, wanted[i])) {
      ++kept;
      continue;
    }
    std::printf("%s\n", starting_line(wanted[i], i + 1, wanted.size()).c_str());
    Case done = measure_case(suite_named(suites, wanted[i].suite), wanted[i], nullptr, surroundings);
    std::printf("%s\n", finished_line(done, i + 1, wanted.size()).c_str());
    std::fflush(stdout);
    merge(results, {{now}, {{0, std::move(done)}}});
    if (std::chrono::steady_clock::now() - written < std::chrono::seconds(5))
      continue;  // what an interruption may lose
    write_file(out / "results.json", to_json(results));
    written = std::chrono::steady_clock::now();
  }
  return finish(
      out, results,
      std::to_string(wanted.size() - kept) + " cases measured, " + std::to_string(kept) + " were there already");
}

}  // namespace
}  // namespace grout::compare

int main(int argc, char** argv) try {
  return grout::compare::run(argc, argv);
} catch (const grout::compare::Refusal& refusal) {
  std::fprintf(stderr, "%s\n", refusal.what());
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
