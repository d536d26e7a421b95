// SPDX-License-Identifier: Apache-2.0
// Aligned columns of text, and numbers that a person can read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace arenite::tool {

// 1234567 as "1,234,567".
std::string grouped(uint64_t number);

// "1 token", "1,024 tokens".
std::string counted(uint64_t number, const std::string& noun);

class TextTable {
 public:
  // A column whose title begins with '>' is aligned to the right, without that.
  explicit TextTable(std::vector<std::string> titles) : titles_(std::move(titles)) {}

  // REQUIRES: as many cells as titles.
  void add_row(std::vector<std::string> cells);

  // Title and rows, indented by two, each ending with a newline.
  std::string text() const;

 private:
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace arenite::tool
