// SPDX-License-Identifier: Apache-2.0
// An input is a word and the metadata of a model file; see model_load.cc.
#include <algorithm>

#include "fuzz/word_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {
constexpr size_t kHeadBytes = 4;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  arenite::test::Random random(seed);
  if (size <= kHeadBytes || random.below(32) == 0) return LLVMFuzzerMutate(data, size, max_size);
  arenite::test::change_words({data + kHeadBytes, size - kHeadBytes}, random);
  return size;
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* first, size_t first_size,
                                            const uint8_t* second, size_t second_size, uint8_t* out,
                                            size_t out_size_max, unsigned int seed) {
  arenite::test::Random random(seed);
  const size_t size = std::min(first_size, out_size_max);
  std::copy_n(first, size, out);
  if (size <= kHeadBytes || second_size <= kHeadBytes) return size;
  arenite::test::cross_words({out + kHeadBytes, size - kHeadBytes},
                             {second + kHeadBytes, second_size - kHeadBytes}, random);
  return size;
}
