// SPDX-License-Identifier: Apache-2.0
// Mutates the inputs of a reader with the function of mutators.h that ARENITE_FUZZ_MUTATION names.
#include <cstddef>
#include <cstdint>

#include "fuzz/mutators.h"

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using namespace arenite::fuzz;
  return mutate_in_place(ARENITE_FUZZ_MUTATION, data, size, max_size, seed);
}
