// SPDX-License-Identifier: Apache-2.0
// A fuzzer's input where a model file may lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "arenite/model.h"

namespace arenite::test {

class AlignedCopy {
 public:
  explicit AlignedCopy(std::span<const uint8_t> input)
      : memory_(static_cast<std::byte*>(
            ::operator new (input.size(), std::align_val_t{kModelAlignment}))),
        file_(memory_.get(), input.size()) {
    std::ranges::copy(std::as_bytes(input), file_.begin());
  }

  std::span<std::byte> file() const { return file_; }

 private:
  struct Free {
    void operator()(std::byte* data) const {
      ::operator delete (data, std::align_val_t{kModelAlignment});
    }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::span<std::byte> file_;
};

}  // namespace arenite::test
