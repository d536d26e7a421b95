// SPDX-License-Identifier: Apache-2.0
// Every column is as wide as its widest cell.
#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace arenite::tool {

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t place = text.size(); place > 3;) {
    place -= 3;
    text.insert(place, 1, ',');
  }
  return text;
}

std::string counted(uint64_t number, const std::string& noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

void TextTable::add_row(std::vector<std::string> cells) {
  assert(cells.size() == titles_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  const auto is_right = [](const std::string& title) { return title.starts_with('>'); };
  std::vector<std::string> titles;
  std::vector<size_t> widths;
  for (const std::string& title : titles_) {
    titles.push_back(title.substr(is_right(title) ? 1 : 0));
    widths.push_back(titles.back().size());
  }
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      text += is_right(titles_[i]) ? fmt::format("  {:>{}}", cells[i], widths[i])
                                   : fmt::format("  {:<{}}", cells[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  add_line(titles);
  for (const std::vector<std::string>& row : rows_) add_line(row);
  return text;
}

}  // namespace arenite::tool
