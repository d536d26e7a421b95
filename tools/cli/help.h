// SPDX-License-Identifier: Apache-2.0
// Help as people read it: wrapped to the width of the terminal, options in their groups.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "cli/command_line.h"

namespace arenite::tool {

// Groups of options that few need, of which --help shows the names alone; --help-all and the topic
// of that name show all of them.
inline constexpr const char* kStateDictGroup = "State dicts";
inline constexpr const char* kWeightGroup = "Weights in few bits";
inline constexpr const char* kLimitGroup = "Limits";

// "state-dicts", what `arenite help` calls a group of options.
std::string topic_of(const std::string& group);

// `text` in lines of at most `columns`, all but the first indented by `indent`. An empty line ends
// a paragraph; lines that begin with a space stay as they are: examples and tables. REQUIRES:
// indent < columns.
std::string wrapped(std::string_view text, size_t columns, size_t indent = 0);

// What `--help` of the program and of its commands prints.
class HelpFormatter : public CLI::FormatterBase {
 public:
  HelpFormatter(size_t columns, bool is_coloured) : columns_(columns), is_coloured_(is_coloured) {}

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

  // All options of a group.
  std::string group(const CLI::App& command, const std::string& name) const;

  // A name, and what it is for beside it or, where the name is long, below.
  std::string row(const std::string& name, const std::string& text) const;

  std::string heading(const std::string& text) const;

 private:
  std::string commands(const CLI::App& app) const;
  std::string options(const CLI::App& app, bool are_all_shown) const;

  size_t columns_;
  bool is_coloured_;
};

}  // namespace arenite::tool
