// SPDX-License-Identifier: Apache-2.0
// Little-endian numbers and arrays as strings of bytes, to build files by hand.
#pragma once

#include <cstring>
#include <string>
#include <vector>

namespace arenite::testing {

template <typename Number>
std::string bytes_of(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <typename Number>
std::string bytes_of(const std::vector<Number>& values) {
  std::string bytes;
  for (const Number value : values) bytes += bytes_of(value);
  return bytes;
}

}  // namespace arenite::testing
