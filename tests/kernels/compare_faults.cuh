// Kernels that are wrong in every way that a comparison must notice, beside one that is right. On either device.
#pragma once
#include <memory>

#include "compare/engine.cuh"
#include "gemm/gemm.cuh"

namespace grout::test {

enum class Fault { none, one_element, nan, nothing, once, late, padding, status, no_judge };
constexpr const char* fault_name(Fault fault) {
  constexpr const char* kNames[] = {"right", "one element wrong", "a NaN", "nothing written", "nothing written from the second run on", "wrong from the fourth run on", "padding written",
                                    "refuses", "without a judge"};
  return kNames[static_cast<int>(fault)];
}

// Sets one element's bits.
static __global__ void spoil_kernel(bf16* d, int64_t index, uint16_t bits, uint16_t flip) {
  if (threadIdx.x == 0) d[index].bits = static_cast<uint16_t>((d[index].bits & ~bits) ^ (bits | flip));
}

// A product of 65 x 97 x 73 into rows of pitch 104, then the fault.
inline compare::Policy faulty_policy(Fault fault) {
  const auto f = std::make_shared<GemmFixture>(stored(ElementType::bf16, 65, 73), stored(ElementType::bf16, 73, 97),
                                               stored(ElementType::bf16, 65, 97, false, 104), 1.f, 0.f, Fill{false, 1, 4});
  GemmArguments g;
  g.m = 65, g.n = 97, g.k = 73, g.a = f->device_a.data(), g.b = f->device_b.data(), g.d = f->device_c.data(), g.lda = 73, g.ldb = 97, g.ldc = 104;
  if (fault == Fault::status) g.lda = 72;
  const auto calls = std::make_shared<int>(0);
  compare::Policy p;
  p.sample.name = fault_name(fault);
  p.run = [=](cudaStream_t stream) {
    const auto spoil = [&](int64_t index, uint16_t bits, uint16_t flip) {
      require(launch(&spoil_kernel, dim3(1), dim3(32), 0, stream, f->device_c.as<bf16>(), index, bits, flip));
    };
    ++*calls;
    if (fault == Fault::nothing || (fault == Fault::once && *calls > 1)) return;
    require(gemm(g, stream));
    if (fault == Fault::one_element || (fault == Fault::late && *calls > 3)) spoil(64 * 104 + 96, 0, 0x10);  // a bit of its mantissa
    if (fault == Fault::nan) spoil(0, 0x7fff, 0);
    if (fault == Fault::padding) spoil(97, 0, 1);
  };
  // What lies there already is right, and must not be taken for what was written.
  if (fault == Fault::nothing && !gemm(g, nullptr)) throw std::runtime_error("the right product was not written");
  p.poison = [f] { f->reset(); };
  if (fault != Fault::no_judge)
    p.judge = [f] { return compare::judgement(f->verify("compare")); };
  return p;
}

// A case of all of them, in a protocol of a few milliseconds.
inline compare::Work faulty_work() {
  compare::Work work;
  work.header.suite = "test", work.header.name = "faults";
  work.header.protocol = {"sweep", 3, 2, 0.2, 0.2, 0, false};
  for (const Fault fault : {Fault::none, Fault::one_element, Fault::nan, Fault::nothing, Fault::once, Fault::late, Fault::padding, Fault::status, Fault::no_judge}) {
    work.policies.push_back(faulty_policy(fault));
    work.header.pairs.push_back({fault_name(Fault::none), fault_name(fault)});
  }
  return work;
}

}  // namespace grout::test
