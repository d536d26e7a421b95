// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file, parsed but not yet checked against the data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/checkpoint.h"

namespace arenite::convert {

struct SafetensorsEntry {
  std::string name;
  std::optional<DType> dtype;
  std::optional<std::vector<uint64_t>> shape;
  std::optional<std::vector<uint64_t>> data_offsets;  // begin and end, in bytes
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // every field is set; names are unique
  std::map<std::string, std::string> metadata;
};

// Throws InputError for anything but a JSON object of complete tensor entries, each field given
// once.
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& file_name);

}  // namespace arenite::convert
