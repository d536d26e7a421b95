// SPDX-License-Identifier: Apache-2.0
// Random numbers for tests, the same on every platform and with every standard library.
#pragma once

#include <cstdint>
#include <span>

namespace arenite::test {

// SplitMix64 (Steele, Lea, Flood 2014): a counter, scrambled.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // In [0, limit), slightly uneven. REQUIRES: limit > 0.
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>((next() >> 32) * limit >> 32); }

  // Returns a number in [-limit, limit). Multiplies exact numbers once, so that the rounding is the
  // same on every platform.
  float symmetric(float limit) {
    const int32_t steps = static_cast<int32_t>(next() >> 40) - (1 << 23);
    return static_cast<float>(steps) * 0x1p-23f * limit;
  }

  void fill(std::span<float> values, float limit) {
    for (float& value : values) value = symmetric(limit);
  }

 private:
  uint64_t state_;
};

}  // namespace arenite::test
