// Instructions with operands that do not exist. CASE 0 compiles.
#include "common/ptx.cuh"

using namespace grout;

inline void accepted(uint32_t shared, const void* global) {
  ptx::cp_async<16>(shared, global);
  ptx::cp_async<8>(shared, global, 3);
  ptx::cp_async_wait_group<0>();
  uint32_t r[4];
  ptx::load_global(r, global);
}

#if CASE == 1  // expect: cp.async copies 4, 8 or 16 bytes
void bad(uint32_t shared, const void* global) { ptx::cp_async<3>(shared, global); }
#endif
#if CASE == 2  // expect: cp.async copies 4, 8 or 16 bytes
void bad(uint32_t shared, const void* global) { ptx::cp_async<32>(shared, global, 5); }
#endif
#if CASE == 3  // expect: cp.async.wait_group takes 0 or more
void bad() { ptx::cp_async_wait_group<-1>(); }
#endif
#if CASE == 4  // expect: a vector access moves 1, 2 or 4 registers
void bad(const void* global) {
  uint32_t r[3];
  ptx::load_global(r, global);
}
#endif
#if CASE == 5  // expect: a vector access moves 1, 2 or 4 registers
void bad(void* global, const uint32_t (&r)[8]) { ptx::store_global(global, r); }
#endif
#if CASE == 6  // expect: mma.m16n8k16: A and B are bf16 or f16
void bad(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { ptx::mma_m16n8k16<float>(d, a, b, d); }
#endif
#if CASE == 7  // expect: invalid initialization of reference of type
void bad(uint32_t row) {
  uint32_t r[2];
  ptx::ldmatrix_x4(r, row);
}
#endif
