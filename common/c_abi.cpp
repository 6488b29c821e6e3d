// The functions that every shared library has.
#include "common/c_abi.cuh"

uint32_t grout_version(void) { return GROUT_C_VERSION; }

const char* grout_device(void) { return grout::kSimulatedBuild ? "sim" : "gpu"; }

int32_t grout_device_usable(char* message, size_t message_bytes) {
  return grout::c_call(message, message_bytes,
                       [] { return grout::kSimulatedBuild ? grout::Status{} : grout::gpu_usable(); });
}
