// SPDX-License-Identifier: Apache-2.0
// The header of a .npy file: a Python dict literal of three fixed keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/checkpoint.h"

namespace arenite::convert {

struct NpyHeader {
  DType dtype;
  std::vector<uint64_t> shape;
};

// Parses what stands between the header's length and the data. Throws InputError that names the
// file and the field.
NpyHeader parse_npy_header(std::string_view text, const std::string& file_name);

}  // namespace arenite::convert
