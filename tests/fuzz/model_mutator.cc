// SPDX-License-Identifier: Apache-2.0
// Changes model files where it matters: in the metadata, most of all in its words.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "format/file_layout.h"
#include "support/random.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace arenite::test {
namespace {

// The bytes of the metadata, or all if the footer does not say.
size_t metadata_bytes(std::span<const uint8_t> file) {
  format::Footer footer;
  if (file.size() < sizeof(footer)) return file.size();
  std::memcpy(&footer, file.last(sizeof(footer)).data(), sizeof(footer));
  return static_cast<size_t>(std::min<uint64_t>(footer.metadata_bytes, file.size()));
}

uint32_t interesting_word(Random& random, uint32_t old) {
  constexpr uint32_t kWords[] = {0,  1,  2,   4,           8,           31,          32,
                                 33, 64, 512, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFCu, UINT32_MAX};
  switch (random.below(4)) {
    case 0:
      return old + random.below(17) - 8;
    case 1:
      return old ^ (1u << random.below(32));
    default:
      return kWords[random.below(std::size(kWords))];
  }
}

// Changes one word of the metadata where it stands: most fields and all offsets are words.
void change_word(std::span<uint8_t> metadata, Random& random) {
  const uint32_t words = static_cast<uint32_t>(metadata.size() / sizeof(uint32_t));
  uint8_t* const place = metadata.data() + random.below(words) * sizeof(uint32_t);
  const uint8_t* const other = metadata.data() + random.below(words) * sizeof(uint32_t);
  uint32_t word;
  if (random.below(4) == 0) {
    std::memcpy(&word, other, sizeof(word));
  } else {
    std::memcpy(&word, place, sizeof(word));
    word = interesting_word(random, word);
  }
  std::memcpy(place, &word, sizeof(word));
}

size_t mutate(std::span<uint8_t> data, size_t max_size, Random& random) {
  const std::span<uint8_t> metadata = data.first(metadata_bytes(data));
  if (metadata.size() < sizeof(uint32_t) || random.below(16) == 0) {
    return LLVMFuzzerMutate(data.data(), data.size(), max_size);
  }
  if (random.below(4) == 0) {
    // Without moving what follows the metadata.
    const size_t size = LLVMFuzzerMutate(metadata.data(), metadata.size(), metadata.size());
    std::ranges::fill(metadata.subspan(size), uint8_t{0});
    return data.size();
  }
  for (uint32_t edits = 1 + random.below(4); edits > 0; --edits) change_word(metadata, random);
  return data.size();
}

}  // namespace
}  // namespace arenite::test

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  arenite::test::Random random(seed);
  return arenite::test::mutate({data, size}, max_size, random);
}
