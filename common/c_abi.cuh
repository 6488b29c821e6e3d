// The C++ half of the C interfaces: what their functions do around a host entry. For the shared libraries only.
#pragma once
#include <algorithm>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>

#include "common/c_abi.h"
#include "common/launch.cuh"

namespace grout {

static_assert(GROUT_OK == static_cast<int>(Code::ok) && GROUT_INVALID == static_cast<int>(Code::invalid) &&
              GROUT_UNSUPPORTED == static_cast<int>(Code::unsupported) &&
              GROUT_DEVICE_ERROR == static_cast<int>(Code::device_error));
static_assert(GROUT_BF16 == static_cast<int>(ElementType::bf16) && GROUT_F16 == static_cast<int>(ElementType::f16) &&
              GROUT_F32 == static_cast<int>(ElementType::f32));

// As much of `text` as fits into `bytes` bytes, and NUL.
inline void copy_text(std::string_view text, char* to, size_t bytes) noexcept {
  if (to == nullptr || bytes == 0) return;
  const size_t count = std::min(text.size(), bytes - 1);
  std::memcpy(to, text.data(), count);
  to[count] = 0;
}

// The simulated device of a library reports 9.0, so that every kernel runs on it.
inline void prepare_simulated_device() {
  [[maybe_unused]] static const bool once = (set_simulated_compute_capability(90), true);
}

// Runs `call`, which gives a Status; the code is returned, the sentence copied. Whatever is thrown ends here.
template <class Call> int32_t c_call(char* message, size_t message_bytes, const Call& call) noexcept {
  try {
    prepare_simulated_device();
    const Status status = call();
    copy_text(status.message, message, message_bytes);
    return static_cast<int32_t>(status.code);
  } catch (const std::exception& error) {
    copy_text(error.what(), message, message_bytes);
  } catch (...) {
    copy_text("unknown exception", message, message_bytes);
  }
  return GROUT_DEVICE_ERROR;
}

// Refuses null, and a struct of another version.
template <class Struct> Status check_struct(const char* name, const Struct* value) {
  if (value == nullptr) return invalid(std::string(name) + " is null");
  if (value->size != sizeof(Struct))
    return invalid(std::string(name) + ": size is " + std::to_string(value->size) + ", and version " +
                   std::to_string(GROUT_C_VERSION) + " of the interface has " + std::to_string(sizeof(Struct)) +
                   " bytes: set size to sizeof, and use the header of this library");
  return {};
}

// Refuses a number that names none of `names`, which are numbered from 0.
inline Status check_named(const char* what, int32_t value, std::initializer_list<const char*> names) {
  if (value >= 0 && static_cast<size_t>(value) < names.size()) return {};
  std::string message = std::string(what) + "=" + std::to_string(value) + " is unknown; there are";
  int number = 0;
  for (const char* name : names)
    message += (number == 0 ? " " : ", ") + std::to_string(number) + " (" + name + ")", ++number;
  return invalid(message);
}
inline Status check_type(const char* what, int32_t value) { return check_named(what, value, {"bf16", "f16", "f32"}); }

}  // namespace grout
