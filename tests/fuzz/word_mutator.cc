// SPDX-License-Identifier: Apache-2.0
// Parses just enough of a FlatBuffer to find its vectors, and picks any word if that fails.
#include "fuzz/word_mutator.h"

#include <algorithm>
#include <cstring>
#include <iterator>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace arenite::test {
namespace {

constexpr uint32_t kWordBytes = sizeof(uint32_t);
constexpr uint32_t kModelFields = 18;
constexpr uint32_t kOpWords = 18;  // the longest record of a list but Packed

uint32_t word_at(std::span<const uint8_t> bytes, uint64_t place) {
  uint32_t word = 0;
  const bool is_inside = bytes.size() >= kWordBytes && place <= bytes.size() - kWordBytes;
  if (is_inside) std::memcpy(&word, bytes.data() + place, kWordBytes);
  return word;
}

uint32_t words_of(std::span<const uint8_t> bytes) {
  return static_cast<uint32_t>(bytes.size() / kWordBytes);
}

// A word of a field of the root table: its length, or one of the records that may be there.
uint32_t word_of_a_list(std::span<const uint8_t> bytes, Random& random) {
  const uint64_t root = word_at(bytes, 0);
  const uint64_t table = root - static_cast<uint64_t>(static_cast<int32_t>(word_at(bytes, root)));
  const uint64_t field = table + 4 + 2 * random.below(kModelFields);
  const uint64_t place = root + (word_at(bytes, field) & 0xFFFFu);
  const uint64_t list = place + word_at(bytes, place);
  if (list >= bytes.size()) return random.below(words_of(bytes));
  const uint32_t count = std::min(word_at(bytes, list), words_of(bytes));
  const uint64_t word = list / kWordBytes + random.below(count * kOpWords + 1);
  return word < words_of(bytes) ? static_cast<uint32_t>(word) : random.below(words_of(bytes));
}

uint32_t any_word(std::span<const uint8_t> bytes, Random& random) {
  return random.below(4) == 0 ? random.below(words_of(bytes)) : word_of_a_list(bytes, random);
}

uint32_t changed(uint32_t old, Random& random) {
  constexpr uint32_t kWords[] = {0,   1,           2,           3,           4,         5,
                                 8,   31,          32,          33,          64,        70,
                                 512, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFCu, UINT32_MAX};
  switch (random.below(4)) {
    case 0:
      return old + random.below(17) - 8;
    case 1:
      return old ^ (1u << random.below(32));
    case 2:
      return random.below(8);
    default:
      return kWords[random.below(std::size(kWords))];
  }
}

void change_word(std::span<uint8_t> metadata, Random& random) {
  uint8_t* const place = metadata.data() + size_t{any_word(metadata, random)} * kWordBytes;
  uint32_t word;
  if (random.below(4) == 0) {
    word = word_at(metadata, uint64_t{any_word(metadata, random)} * kWordBytes);
  } else {
    std::memcpy(&word, place, kWordBytes);
    word = changed(word, random);
  }
  std::memcpy(place, &word, kWordBytes);
}

void copy_words(std::span<uint8_t> to, uint32_t to_word, std::span<const uint8_t> from,
                uint32_t from_word, Random& random) {
  const uint32_t room = std::min(words_of(to) - to_word, words_of(from) - from_word);
  const uint32_t words = std::min(1 + random.below(2 * kOpWords), room);
  std::memmove(to.data() + size_t{to_word} * kWordBytes,
               from.data() + size_t{from_word} * kWordBytes, size_t{words} * kWordBytes);
}

}  // namespace

void change_words(std::span<uint8_t> metadata, Random& random) {
  if (words_of(metadata) == 0) return;
  if (random.below(8) == 0) {
    const size_t size = LLVMFuzzerMutate(metadata.data(), metadata.size(), metadata.size());
    std::ranges::fill(metadata.subspan(size), uint8_t{0});
    return;
  }
  if (random.below(8) == 0) {
    const uint32_t to = any_word(metadata, random);
    copy_words(metadata, to, metadata, any_word(metadata, random), random);
    return;
  }
  for (uint32_t edits = 1 + random.below(4); edits > 0; --edits) change_word(metadata, random);
}

void cross_words(std::span<uint8_t> metadata, std::span<const uint8_t> other, Random& random) {
  if (words_of(metadata) == 0 || words_of(other) == 0) return;
  const uint32_t from = any_word(other, random);
  const bool same_place = random.below(2) == 0 && from < words_of(metadata);
  copy_words(metadata, same_place ? from : any_word(metadata, random), other, from, random);
}

}  // namespace arenite::test
