// SPDX-License-Identifier: Apache-2.0
// Tells what a conversion made: what was recognised, the arena, the check, the file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "convert/check/author_check.h"
#include "convert/convert.h"

namespace arenite::tool {

struct WrittenFile {
  std::filesystem::path path;
  std::optional<convert::AuthorCheck> expect;  // where a comparison was asked for
};

// Lines for a person.
void print_conversion(const convert::Conversion& conversion, const WrittenFile& written);

// The same as one JSON object; `arenite convert --help` names its keys.
std::string conversion_as_json(const convert::Conversion& conversion, const WrittenFile& written);

// Numbers in the weights and tables of a program that were trained.
uint64_t parameters_of(const convert::Program& program);

}  // namespace arenite::tool
