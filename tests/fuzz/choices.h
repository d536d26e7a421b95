// SPDX-License-Identifier: Apache-2.0
// Makes choices from the input byte by byte, so that libFuzzer can change each. After the end of
// the input, random numbers decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "support/random.h"

namespace arenite::test {

class Choices {
 public:
  explicit Choices(std::span<const uint8_t> input, uint64_t seed = 0)
      : input_(input), random_(seed) {}

  // REQUIRES: limit > 0.
  uint32_t below(uint32_t limit) {
    if (input_.empty()) return random_.below(limit);
    uint32_t value = 0;
    for (uint32_t most = limit - 1; most != 0 && !input_.empty(); most >>= 8) {
      value = value << 8 | input_.front();
      input_ = input_.subspan(1);
    }
    return value % limit;
  }

  bool one_in(uint32_t limit) { return below(limit) == limit - 1; }

  // Returns the next bytes of the input, at most `count`.
  std::span<const uint8_t> bytes(size_t count) {
    const std::span<const uint8_t> front =
        input_.first(count < input_.size() ? count : input_.size());
    input_ = input_.subspan(front.size());
    return front;
  }

  bool ended() const { return input_.empty(); }
  Random& random() { return random_; }

 private:
  std::span<const uint8_t> input_;
  Random random_;
};

}  // namespace arenite::test
