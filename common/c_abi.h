/* What the C interfaces (gemm/gemm_c.h, attention/attention_c.h, copy/copy_c.h) share. C99 and C++, 64-bit Linux.
 *
 * The libraries (build/gemm/libgrout_gemm.so and so on) take device pointers; their twins, ..._sim.so, run on the simulated device
 * and take pointers to ordinary memory. Where nothing was built for a GPU the simulated library has the plain name too:
 * grout_device() says which it is.
 *
 * Every function that may fail returns a code, and writes one sentence (on GROUT_OK the empty one) to `message`, cut to fit its
 * `message_bytes` bytes and ended by NUL; message may be null. None throws, none synchronises, all are thread-safe. A stream is
 * a cudaStream_t; null is the default stream. Structs begin with their size: one of another version is refused, not misread. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define GROUT_C extern "C" __attribute__((visibility("default")))
#else
#define GROUT_C extern __attribute__((visibility("default")))
#endif

#define GROUT_C_VERSION 1

enum {
  GROUT_OK = 0,
  GROUT_INVALID = 2,      /* bad arguments; nothing was written */
  GROUT_UNSUPPORTED = 3,  /* not possible on this device */
  GROUT_DEVICE_ERROR = 4  /* of the runtime, or of a launch */
};
enum { GROUT_BF16 = 0, GROUT_F16 = 1, GROUT_F32 = 2 };

/* In each library. GROUT_C_VERSION of its headers. */
GROUT_C uint32_t grout_version(void);
/* "gpu" or "sim": what the library was built for. */
GROUT_C const char* grout_device(void);
/* GROUT_OK if that device is here; else the message says why not. */
GROUT_C int32_t grout_device_usable(char* message, size_t message_bytes);
