// What an example program does between reading its options and its work. For programs only.
#pragma once
#include <cstdio>
#include <optional>

#include "common/args.h"
#include "common/launch.cuh"

namespace grout {

// Prints why; the exit code.
inline int refused(const Status& status) {
  std::fprintf(stderr, "%s\n", status.message.c_str());
  return exit_code(status);
}

// Chooses the device, or hands over to the simulated twin: nothing where this process carries on, else its exit code. A simulated
// device has the SMs asked for, and the compute capability 10 * major + minor.
inline std::optional<int> start_device(const CommonOptions& options, int simulated_capability, char** argv) {
  const Status usable = gpu_usable();
  if (const std::optional<int> done = choose_device(options.device, kSimulatedBuild, bool(usable), usable.message, argv))
    return done;
  set_simulated_sms(options.sim_sms);
  set_simulated_compute_capability(simulated_capability);
  return std::nullopt;
}

}  // namespace grout
