// SPDX-License-Identifier: Apache-2.0
// A model file around metadata, which is where the meaning is: its weights are zeros, and footer,
// checksum and arena formulas are right. Always in the same memory, for speed.
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
