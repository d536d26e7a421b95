// SPDX-License-Identifier: Apache-2.0
// Writes safetensors files with a header given as text, valid or not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "support/byte_string.h"

namespace arenite::testing {

inline std::string safetensors_file(std::string_view header, std::string_view data) {
  return bytes_of(uint64_t{header.size()}) + std::string(header) + std::string(data);
}

}  // namespace arenite::testing
