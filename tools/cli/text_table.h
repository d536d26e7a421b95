// SPDX-License-Identifier: Apache-2.0
// Formats facts as text: titled lines and tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace arenite::tool {

// 1234567 becomes "1,234,567".
std::string grouped(uint64_t number);

// "1 token", "1,024 tokens".
std::string counted(uint64_t number, const std::string& noun);

// Lines with titles of at most `width` characters after `indent`. A title that repeats is printed
// once; a text of several lines stays in its column, and a line without text is left out.
class TitledLines {
 public:
  TitledLines(size_t indent, size_t width) : indent_(indent), width_(width) {}

  void add(std::string_view title, std::string_view text);
  void append(const std::string& lines);  // as they are
  const std::string& text() const { return text_; }

 private:
  size_t indent_;
  size_t width_;
  std::string text_;
  std::string last_;
};

// A leading '>' in a title aligns the column to the right and is not shown. If a table is too wide,
// the cells of the column titled "name" are shortened.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles) : titles_(std::move(titles)) {}

  // REQUIRES: as many cells as titles.
  void add_row(std::vector<std::string> cells);

  // Returns titles and rows, indented by two, each with a newline.
  std::string text() const;

 private:
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace arenite::tool
