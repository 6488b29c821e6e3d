// All cases of the instruction tests: those for every device here and those of compute capability 9.0.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/instruction_references.h"
#include "tests/kernels/instruction_references_arithmetic.h"
#include "tests/kernels/instruction_references_sm90.h"
#include "tests/kernels/instruction_references_sm90_copies.h"
#include "tests/kernels/instruction_references_threads.h"

namespace grout::instructions {

// Of instructions.cuh. `brief`: fewer blocks, for runs where every simulated thread costs a millisecond.
inline std::vector<Case> basic_cases(bool brief) {
  const unsigned few = brief ? 2 : 16;
  std::vector<Case> all = {ldmatrix_case<1, false>(few),
                           ldmatrix_case<2, false>(few),
                           ldmatrix_case<4, false>(few),
                           ldmatrix_case<1, true>(few),
                           ldmatrix_case<2, true>(few),
                           ldmatrix_case<4, true>(few),
                           cp_async_case<4, false>(),
                           cp_async_case<8, false>(),
                           cp_async_case<16, false>(),
                           cp_async_case<4, true>(),
                           cp_async_case<8, true>(),
                           cp_async_case<16, true>(),
                           cp_async_groups_case(),
                           move_case("move_global_1", move_global<1>, 1, 0),
                           move_case("move_global_2", move_global<2>, 2, 0),
                           move_case("move_global_4", move_global<4>, 4, 0),
                           move_case("move_shared", move_shared, 4, 1024),
                           shared_addresses_case(),
                           named_barriers_case(),
                           block_votes_case(128),
                           block_votes_case(100),
                           last_block_case(brief ? 3 : 16),
                           shuffles_case(0, "index", brief ? 3 : 8),
                           shuffles_case(1, "up", brief ? 3 : 8),
                           shuffles_case(2, "down", brief ? 3 : 8),
                           shuffles_case(3, "xor", brief ? 3 : 8),
                           exchanges_case(),
                           votes_case(brief ? 5 : 32),
                           atomics_case<int>("int", brief ? 2 : 6),
                           atomics_case<unsigned>("unsigned", brief ? 2 : 6),
                           atomics_case<unsigned long long>("unsigned_long_long", brief ? 2 : 6),
                           atomics_case<float>("float", brief ? 1 : 6, 0),
                           integers_case(),
                           powers_of_two_case(4096),
                           logarithms_and_reciprocals_case(4096),
                           conversions_case(4096),
                           decodings_case()};
  const char* const names[] = {"integers", "near_one", "wide", "special", "subnormal"};
  for (const Values v : {Values::integers, Values::near_one, Values::wide, Values::special, Values::subnormal}) {
    const char* const name = names[static_cast<int>(v)];
    all.insert(all.end(), {mma_case<bf16, false>(v, name, few), mma_case<bf16, true>(v, name, few),
                           mma_case<f16, false>(v, name, few), mma_case<f16, true>(v, name, few)});
  }
  return all;
}

inline std::vector<Case> tensor_cases(bool brief) {
  std::vector<Case> all;
  const auto both = [&](const Tensor& t) {
    all.push_back(tensor_load_case(t, brief));
    all.push_back(tensor_store_case(t, brief));
  };
  const std::pair<TensorSwizzle, int> modes[] = {
      {TensorSwizzle::none, 80}, {TensorSwizzle::b32, 32}, {TensorSwizzle::b64, 64}, {TensorSwizzle::b128, 128}};
  for (int rank = 1; rank <= 3; ++rank)
    for (const ElementType type : {ElementType::bf16, ElementType::f32})
      for (const auto& [swizzle, row_bytes] : modes)
        for (const bool large : {true, false}) both(make_tensor(rank, type, swizzle, row_bytes, large));
  both(make_tensor(1, ElementType::f32, TensorSwizzle::none, 1024, true));  // the longest row of a box
  both(make_tensor(2, ElementType::bf16, TensorSwizzle::none, 16, true));   // the shortest
  both(make_tensor(3, ElementType::f16, TensorSwizzle::b128, 128, true));   // the types differ in name only
  both(make_interleaved_tensor(ElementType::bf16, TensorSwizzle::b128, 128));
  for (const unsigned cluster : {2u, 4u}) {
    all.push_back(
        tensor_load_multicast_case(make_tensor(1, ElementType::bf16, TensorSwizzle::none, 80, true), cluster));
    all.push_back(
        tensor_load_multicast_case(make_tensor(2, ElementType::bf16, TensorSwizzle::b128, 128, true), cluster));
    all.push_back(tensor_load_multicast_case(make_tensor(3, ElementType::f32, TensorSwizzle::b64, 64, true), cluster));
  }
  all.push_back(tensor_load_far_case());
  return all;
}

// Of instructions_sm90.cuh and instructions_sm90_copies.cuh; `brief` as in basic_cases.
inline std::vector<Case> sm90_cases(bool brief) {
  std::vector<Case> all = {mbarrier_parities_case(),
                           mbarrier_pipeline_case(brief ? 5 : 100),
                           mbarrier_pipeline_case(1),
                           bulk_loads_case(brief ? 1 : 4),
                           bulk_loads_multicast_case(2, 16),
                           bulk_loads_multicast_case(2, 2048),
                           bulk_loads_multicast_case(4, 1008),
                           bulk_copies_to_cluster_case(2),
                           bulk_copies_to_cluster_case(4),
                           bulk_stores_case(),
                           bulk_store_groups_case(),
                           bulk_load_of_written_case(),
                           cluster_ids_case(1),
                           cluster_ids_case(2),
                           cluster_ids_case(8),
                           cluster_moves_case<1>(2),
                           cluster_moves_case<2>(4),
                           cluster_moves_case<4>(4),
                           cluster_barriers_case(2),
                           cluster_barriers_case(4),
                           remote_arrivals_case(1),
                           remote_arrivals_case(2),
                           remote_arrivals_case(4),
                           dependent_launches_case(true, brief ? 2 : 8),
                           dependent_launches_case(false, brief ? 2 : 8)};
  for (Case& c : tensor_cases(brief)) all.push_back(std::move(c));
  return all;
}

inline std::vector<Case> cases(bool brief) {
  std::vector<Case> all = basic_cases(brief);
  for (Case& c : sm90_cases(brief)) all.push_back(std::move(c));
  return all;
}

}  // namespace grout::instructions
