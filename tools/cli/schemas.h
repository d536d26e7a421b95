// SPDX-License-Identifier: Apache-2.0
// What each command prints with --json: its JSON Schema, and an outline for people.
#pragma once

#include "cli/facts.h"

namespace arenite::tool {

// What a command prints with --json.
struct Schema {
  const char* name;   // of the command
  const char* title;  // which output it describes
  const char* words;  // what that is
  FactType (*type)();
};

std::span<const Schema> schemas();

// Null where there is none.
const Schema* find_schema(std::string_view name);

// "bench, classify, convert"
std::string names_of_schemas();

std::string text_of(const Schema& schema);

// Its keys, one a line, indented by depth, each with its type and what it is: as wrapped() leaves
// them. `columns` is the width to keep to.
std::string outline_of(const Schema& schema, size_t columns);

}  // namespace arenite::tool
