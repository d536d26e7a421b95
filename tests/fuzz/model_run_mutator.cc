// SPDX-License-Identifier: Apache-2.0
// Inputs are model files: their metadata is changed, and seldom anything.
#include <algorithm>
#include <cstring>

#include "format/file_layout.h"
#include "fuzz/word_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

// All bytes if the footer does not say which.
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
  if (size == 0 || random.below(32) == 0) return LLVMFuzzerMutate(data, size, max_size);
  arenite::test::change_words(metadata_of({data, size}), random);
  return size;
}
