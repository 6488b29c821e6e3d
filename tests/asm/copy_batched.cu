// Every kernel that the host entry has: element, threads, batch, fast axis. A batch is so many loads, then so many stores;
// what is left is done one by one. A tile of f32 has 8 elements for each of 256 threads, so that a batch of 16 is one of 8.
// A power of two of threads leaves nothing over; 48 threads do.
// kernel: copy_batched_kernel
// registers: 200
// expect: LDG, STS, LDS, STG, BAR
// forbid: LDGSTS, LDG.64, LDG.128, STS.64, STS.128
// order Li1ELi[01]E: LDG x1, STS x1
// order (Li256|Li32)ELi2ELi[01]E: LDG x2, STS x2
// order (Li256|Li32)ELi4ELi[01]E: LDG x4, STS x4
// order (Li256|Li32)ELi8ELi[01]E: LDG x8, STS x8
// order (bf16ELi256|Li32)ELi16ELi[01]E: LDG x16, STS x16
// order IfLi256ELi16ELi[01]E: LDG x8, STS x8
// order Li48ELi2ELi[01]E: LDG x2, STS x2, LDG x1, STS x1
// order Li48ELi4ELi[01]E: LDG x4, STS x4, LDG x1, STS x1
// order Li48ELi8ELi[01]E: LDG x8, STS x8, LDG x1, STS x1
// order Li48ELi16ELi[01]E: LDG x16, STS x16, LDG x1, STS x1
#include "copy/copy_batched.cuh"
