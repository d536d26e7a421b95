// SPDX-License-Identifier: Apache-2.0
// What there is to say of commands and their options: help, man pages and completions of shells are
// made from it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace arenite::tool {

// What an option takes, where that is one of these: shells then complete it.
inline constexpr const char* kFileType = "FILE";
inline constexpr const char* kTargetType = "TARGETS";
inline constexpr const char* kKernelsType = "KERNELS";

struct OptionFacts {
  std::vector<std::string> names;    // "-o", "--output"; of a positional the one that messages use
  std::string value;                 // "FILE", "N", "f32|int8"; empty: it takes none
  std::vector<std::string> choices;  // empty: any
  std::string text;                  // what it is for
  std::string excludes;              // "--a, --b": options that it cannot be given with
  std::string group;
  bool is_positional = false;
  bool is_required = false;

  // "-o, --output FILE", or "MODEL".
  std::string title() const;
};

// Positionals first, then the options in their groups. Hidden ones are left out.
std::vector<OptionFacts> options_of(const CLI::App& command);

// "arenite convert CHECKPOINT --output FILE [OPTIONS]"
std::string usage_of(const CLI::App& command);

// The commands of the program, in the order of its help.
std::vector<const CLI::App*> commands_of(const CLI::App& program);

}  // namespace arenite::tool
