// SPDX-License-Identifier: Apache-2.0
// Uses a model file of unknown origin like an application, in guarded memory.
#ifndef ARENITE_TESTS_SUPPORT_HOSTILE_FILE_H_
#define ARENITE_TESTS_SUPPORT_HOSTILE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace arenite::test {

enum class Fate {
  kRefused,   // by load, with a reason
  kTooLarge,  // loaded, but its arena is larger than a test wants to pay for
  kRan,       // loaded, and fed with tokens
};

// How much a test wants to pay for one file.
struct Effort {
  size_t arena_bytes_max = size_t{64} << 20;
  uint32_t positions = 70;         // more than two tiles of a mask
  uint32_t ring_positions = 1200;  // more than two pages of a cache
  uint32_t ring_chunk = 35;
  // A sound file that all was done with. What has its tokenizer is not asked to encode, and what
  // has its program runs with one set of options: the others would do what they did before.
  std::span<const std::byte> sound = {};
};

// Loads, uses the tokenizer if there is one, plans, creates, runs, steps and rewinds. Any access
// beyond the file's arena and input faults, and a refusal without a reason ends the process.
// REQUIRES: file.data() is a multiple of kModelAlignment.
Fate load_and_run(std::span<const std::byte> file, const Effort& effort);
Fate load_and_run(std::span<const std::byte> file, size_t arena_bytes_max = size_t{64} << 20);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_HOSTILE_FILE_H_
