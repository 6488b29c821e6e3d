// What the GPU tests share.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "common/launch.cuh"

namespace grout::test {

// Why the GPU here cannot run kernels for sm_80 and later; empty where it can.
inline std::string no_gpu() {
  DeviceInfo info;
  if (const Status status = gpu_usable(); !status) return "needs sm_80 or later: " + status.message;
  if (const Status status = device_info(info); !status) return "needs sm_80 or later: " + status.message;
  if (info.major < 8) return "needs sm_80 or later; this GPU is sm_" + std::to_string(info.major * 10 + info.minor);
  return "";
}

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

// The short form, for instrumented runs (compute-sanitizer).
inline bool short_run() { return std::getenv("GROUT_TEST_SHORT") != nullptr; }
inline int cases(int all, int in_short_run) { return short_run() ? in_short_run : all; }

}  // namespace grout::test
