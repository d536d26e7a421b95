// SPDX-License-Identifier: Apache-2.0
// Builds a model file around metadata: weights of zeros, and a valid footer, checksum and arena
// formulas. Uses the same memory each time, for speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace arenite::test {

inline constexpr size_t kMetadataBytesMax = size_t{64} << 10;

// The file, until the next call; bytes beyond it are poisoned where there is AddressSanitizer.
// REQUIRES: at most kMetadataBytesMax bytes. Of `weight_units` of 64 bytes the low 10 bits count.
std::span<const std::byte> make_file(std::span<const uint8_t> metadata, uint32_t weight_units);

}  // namespace arenite::test
