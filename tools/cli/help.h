// SPDX-License-Identifier: Apache-2.0
// Help as people read it: wrapped to the width of the terminal, options in their groups.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <string_view>

namespace arenite::tool {

// Columns of the terminal that the standard output is: 80 where it is none or does not say, and
// from 40 to 100, since longer lines are hard to read.
size_t terminal_columns();

// `text` in lines of at most `columns`, all but the first indented by `indent`. An empty line ends
// a paragraph; lines that begin with a space stay as they are: examples and tables. REQUIRES:
// indent < columns.
std::string wrapped(std::string_view text, size_t columns, size_t indent = 0);

// What `--help` of the program and of its commands prints.
class HelpFormatter : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(size_t columns) : columns_(columns) {}

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

 private:
  std::string usage(const CLI::App& app, const std::string& name) const;
  std::string commands(const CLI::App& app) const;
  std::string options(const CLI::App& app) const;
  // A name, and what it is for beside it or, where the name is long, below.
  std::string row(const std::string& name, const std::string& text) const;

  size_t columns_;
};

}  // namespace arenite::tool
