// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli polynomial, reflected, as in iSCSI and ext4): detects damaged model files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/model.h"

namespace arenite {

// Returns the CRC of `bytes`, by the CPU's instruction if there is one.
inline uint32_t crc32c(std::span<const std::byte> bytes) {
  return crc32c_of(bytes.data(), bytes.size());
}

// Returns the CRC computed by table, for CPUs without the instruction; about eight times slower.
uint32_t crc32c_portable(std::span<const std::byte> bytes);

}  // namespace arenite
