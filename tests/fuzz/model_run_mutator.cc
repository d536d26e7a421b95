// SPDX-License-Identifier: Apache-2.0
// An input is a word of options and a model file. Changes the word, the metadata, and rarely any
// other byte.
#include <algorithm>
#include <cstring>
#include <span>

#include "format/file_layout.h"
#include "fuzz/word_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kHeadBytes = 4;

// Returns the metadata; all bytes if the footer does not say where it is.
std::span<uint8_t> metadata_of(std::span<uint8_t> file) {
  arenite::format::Footer footer;
  if (file.size() < sizeof(footer)) return file;
  std::memcpy(&footer, file.last(sizeof(footer)).data(), sizeof(footer));
  return file.first(static_cast<size_t>(std::min<uint64_t>(footer.metadata_bytes, file.size())));
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  arenite::test::Random random(seed);
  if (size <= kHeadBytes || random.below(32) == 0) return LLVMFuzzerMutate(data, size, max_size);
  if (random.below(4) == 0) {
    const uint32_t word = static_cast<uint32_t>(random.next());
    std::memcpy(data, &word, sizeof(word));
  } else {
    arenite::test::change_words(metadata_of({data + kHeadBytes, size - kHeadBytes}), random);
  }
  return size;
}
