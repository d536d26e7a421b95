// SPDX-License-Identifier: Apache-2.0
// An input is a head and changes of eight bytes each. The mutator adds, removes and repeats changes
// and sets their fields; all other changes keep their meaning.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/random.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using arenite::test::Random;

constexpr size_t kHeadBytes = 4;
constexpr size_t kChangeBytes = 8;

uint8_t any_byte(Random& random) { return static_cast<uint8_t>(random.below(256)); }

// The place of a change, of `changes` and one after all of them.
size_t place_of(size_t change) { return kHeadBytes + change * kChangeBytes; }

void add_change(std::vector<uint8_t>& input, size_t at, Random& random) {
  uint8_t change[kChangeBytes];
  for (uint8_t& byte : change) byte = any_byte(random);
  input.insert(input.begin() + static_cast<ptrdiff_t>(place_of(at)), change, change + kChangeBytes);
}

void edit(std::vector<uint8_t>& input, size_t changes, Random& random) {
  const auto any = [&](size_t count) { return random.below(static_cast<uint32_t>(count)); };
  const size_t at = changes == 0 ? 0 : any(changes);
  const auto begin = input.begin() + static_cast<ptrdiff_t>(place_of(at));
  switch (changes == 0 ? 0 : random.below(8)) {
    case 0:
    case 1:
      return add_change(input, any(changes + 1), random);
    case 2:
      input.erase(begin, begin + kChangeBytes);
      return;
    case 3: {
      const std::vector<uint8_t> copy(begin, begin + kChangeBytes);
      input.insert(input.begin() + static_cast<ptrdiff_t>(place_of(any(changes + 1))), copy.begin(),
                   copy.end());
      return;
    }
    case 4:
      input[any(kHeadBytes)] = any_byte(random);
      return;
    default:
      input[place_of(at) + any(kChangeBytes)] = any_byte(random);
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  Random random(seed);
  if (random.below(32) == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<uint8_t> input(data, data + size);
  while (input.size() < kHeadBytes) input.push_back(any_byte(random));
  for (uint32_t edits = 1 + random.below(3); edits > 0; --edits) {
    edit(input, (input.size() - kHeadBytes) / kChangeBytes, random);
  }
  const size_t kept = std::min(input.size(), max_size);
  std::copy_n(input.begin(), kept, data);
  return kept;
}

// Calls of libFuzzer's hooks come here (--wrap): operands of comparisons say nothing about changes
// to a program, and noting them takes a quarter of the time.
#define ARENITE_IGNORE_COMPARISON(name, Number) \
  extern "C" void __wrap___sanitizer_cov_trace_##name(Number, Number) {}
ARENITE_IGNORE_COMPARISON(cmp1, uint8_t)
ARENITE_IGNORE_COMPARISON(cmp2, uint16_t)
ARENITE_IGNORE_COMPARISON(cmp4, uint32_t)
ARENITE_IGNORE_COMPARISON(cmp8, uint64_t)
ARENITE_IGNORE_COMPARISON(const_cmp1, uint8_t)
ARENITE_IGNORE_COMPARISON(const_cmp2, uint16_t)
ARENITE_IGNORE_COMPARISON(const_cmp4, uint32_t)
ARENITE_IGNORE_COMPARISON(const_cmp8, uint64_t)

// The head of one input, and changes of both.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* first, size_t first_size,
                                            const uint8_t* second, size_t second_size, uint8_t* out,
                                            size_t max_size, unsigned int seed) {
  Random random(seed);
  const auto cut = [&](size_t size) {
    const size_t changes = size < kHeadBytes ? 0 : (size - kHeadBytes) / kChangeBytes;
    return place_of(random.below(static_cast<uint32_t>(changes + 1)));
  };
  const size_t end = std::min(cut(first_size), first_size);
  const size_t begin = std::min(cut(second_size), second_size);
  std::vector<uint8_t> input(first, first + end);
  input.insert(input.end(), second + begin, second + second_size);
  const size_t kept = std::min(input.size(), max_size);
  std::copy_n(input.begin(), kept, out);
  return kept;
}
