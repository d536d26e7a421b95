// SPDX-License-Identifier: Apache-2.0
// Facts as text: words with numbers in them, titled lines, and tables, filled in from the JSON that
// --json prints.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/facts.h"

namespace arenite::tool {

// 1234567 as "1,234,567".
std::string grouped(uint64_t number);

// "1 token", "1,024 tokens".
std::string counted(uint64_t number, const std::string& noun);

// `words` with what stands in braces put in from `facts`:
//   {file.bytes}     the fact with that key in that object: numbers in groups, lists with commas
//   {tokens#token}   "1,024 tokens"
//   {error:.1e}      as fmt formats it
//   {name@80}        text of at most so many characters; its middle is left out
//   {?key} {!key}    nothing, where the fact says something, or where it does not: it is absent,
//                    null, false, empty or a count of 0
//   {}               the facts themselves, where they are a text or a number
// Where a fact is absent, or null, or not as asked, there is no text; between < and > there is then
// none of that part alone.
std::string filled(std::string_view words, const Json& facts);

// A line with a title, of a list one for each element. Where there is no text, there is no line.
struct Line {
  const char* title;
  const char* words;
  const char* list = "";       // its key; the words are of its elements
  bool repeats_title = false;  // for each element; else the first alone has it
};

// Texts begin in the same column, after `indent` and titles of at most `width`.
std::string lines(std::span<const Line> rows, const Json& facts, size_t indent, size_t width);

// A column whose title begins with '>' is aligned to the right, without that. Where a table is too
// wide, the names below the title "name" are shortened.
struct Column {
  std::string title;
  std::string cell = {};  // as filled() takes it
};
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles) : titles_(std::move(titles)) {}

  // REQUIRES: as many cells as titles.
  void add_row(std::vector<std::string> cells);

  // Title and rows, indented by two, each ending with a newline.
  std::string text() const;

 private:
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
};

// A row for each element of `list`.
std::string table(const std::vector<Column>& columns, const Json& list);

}  // namespace arenite::tool
