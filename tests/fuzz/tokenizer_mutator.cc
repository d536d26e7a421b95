// SPDX-License-Identifier: Apache-2.0
// An input is a word, the metadata of a model file and a text; see tokenizer.cc.
#include <algorithm>
#include <cstring>

#include "fuzz/word_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kHeadBytes = 4;
constexpr uint32_t kTextBytesMost = 1024;

// Mutates the text, which is the end of the input, and stores its new length in the head word.
size_t change_text(uint8_t* data, size_t size, size_t max_size) {
  uint32_t word;
  std::memcpy(&word, data, sizeof(word));
  const size_t text_bytes = std::min<size_t>(word % kTextBytesMost, size - kHeadBytes);
  const size_t begin = size - text_bytes;
  const size_t text_max = std::min<size_t>(kTextBytesMost - 1, max_size - begin);
  const size_t bytes = LLVMFuzzerMutate(data + begin, text_bytes, std::max<size_t>(text_max, 1));
  word = word / kTextBytesMost * kTextBytesMost + static_cast<uint32_t>(bytes);
  std::memcpy(data, &word, sizeof(word));
  return begin + bytes;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  arenite::test::Random random(seed);
  if (size <= kHeadBytes || random.below(32) == 0) return LLVMFuzzerMutate(data, size, max_size);
  if (random.below(8) == 0) {
    data[3] = static_cast<uint8_t>(random.next());  // what is done with it
  } else if (random.below(2) == 0 && max_size > size) {
    return change_text(data, size, max_size);
  } else {
    arenite::test::change_words({data + kHeadBytes, size - kHeadBytes}, random);
  }
  return size;
}
