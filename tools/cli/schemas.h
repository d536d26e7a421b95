// SPDX-License-Identifier: Apache-2.0
// The JSON Schemas of what --json prints, as the folder `schemas` has them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace arenite::tool {

struct Schema {
  std::string_view name;  // of the command; "report" is what several share, and none itself
  std::string_view text;
};

// Made by the build from the files.
std::span<const Schema> schemas();

// Those of commands.
std::vector<Schema> schemas_of_commands();

// Null where there is none.
const Schema* find_schema(std::string_view name);

// "bench, classify, convert"
std::string names_of_schemas();

// The whole of it in one file: what it shares with others is put in.
std::string text_of(const Schema& schema);

// Its keys, one a line, indented by depth, each with its type and what it is: as wrapped() leaves
// them. `columns` is the width to keep to.
std::string outline_of(const Schema& schema, size_t columns);

}  // namespace arenite::tool
