// SPDX-License-Identifier: Apache-2.0
// Text that a person gives in a file or on the standard input, up to a size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace arenite::tool {

struct TextInput {
  std::string name;  // of the file, or "the standard input"
  std::string text;
};

// The bytes of `file`; "-" is the standard input, which may be a pipe or anything else. Throws
// InputError for other files that are not regular, and beyond `bytes_max`: for a file before it is
// read, for the standard input as soon as it has given more.
TextInput read_text(const std::filesystem::path& file, uint64_t bytes_max);

}  // namespace arenite::tool
