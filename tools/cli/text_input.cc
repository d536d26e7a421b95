// SPDX-License-Identifier: Apache-2.0
// Reads bytes as they are, and leaves what is text and what is not to the tokenizer.
#include "cli/text_input.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "convert/files/error.h"
#include "convert/files/memory.h"

namespace arenite::tool {
namespace {

std::string read_standard_input(const std::string& name, uint64_t bytes_max) {
  std::string text;
  char buffer[1 << 14];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), stdin)) {
    text.append(buffer, count);
    if (text.size() > bytes_max) {
      throw convert::InputError("cannot read {}: it has more than {} bytes, which is the most",
                                name, bytes_max);
    }
  }
  if (std::ferror(stdin) != 0) {
    throw convert::InputError("cannot read {}: {}", name, std::strerror(errno));
  }
  return text;
}

}  // namespace

TextInput read_text(const std::filesystem::path& file, uint64_t bytes_max) {
  if (file == "-") {
    const std::string name = "the standard input";
    return {name, read_standard_input(name, bytes_max)};
  }
  const convert::FileMap map(file, bytes_max);
  return {file.string(), std::string(map.text())};
}

}  // namespace arenite::tool
