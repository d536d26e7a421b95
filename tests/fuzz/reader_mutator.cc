// SPDX-License-Identifier: Apache-2.0
// How libFuzzer changes the inputs of a reader: by ARENITE_FUZZ_MUTATION, one of mutators.h.
#include <cstddef>
#include <cstdint>

#include "fuzz/mutators.h"

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  using namespace arenite::fuzz;
  return mutate_in_place(ARENITE_FUZZ_MUTATION, data, size, max_size, seed);
}
