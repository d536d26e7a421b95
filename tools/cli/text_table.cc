// SPDX-License-Identifier: Apache-2.0
// Every column is as wide as its widest cell.
#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "cli/process.h"

namespace arenite::tool {
namespace {

constexpr size_t kNameMin = 17;  // characters of a shortened name

// Cuts the middle, as the begin and the end of a name say most. REQUIRES: width > 3.
std::string shortened(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  const size_t end = (width - 3) / 2;
  return text.substr(0, width - 3 - end) + "..." + text.substr(text.size() - end);
}

// Breaks wide cells of a column: the rest goes into a new row below, whose other cells are empty.
void break_cells(std::vector<std::vector<std::string>>& rows, size_t column, size_t width) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string cell = rows[i][column];
    const size_t end = cell.size() > width ? cell.rfind(' ', width) : std::string::npos;
    if (end == std::string::npos || end == 0) continue;
    std::vector<std::string> below(rows[i].size());
    below[column] = cell.substr(end + 1);
    rows[i][column].resize(end);
    rows.insert(rows.begin() + static_cast<ptrdiff_t>(i) + 1, below);
  }
}

}  // namespace

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

void TitledLines::add(std::string_view title, std::string_view text) {
  if (text.empty()) return;
  const std::string next_line = "\n" + std::string(indent_ + width_ + 1, ' ');
  text_ += fmt::format("{:{}}{:<{}} ", "", indent_, title == last_ ? "" : title, width_);
  for (const char c : text) text_ += c == '\n' ? next_line : std::string(1, c);
  text_ += '\n';
  last_ = title;
}

void TitledLines::append(const std::string& lines) {
  text_ += lines;
  last_.clear();
}

void TextTable::add_row(std::vector<std::string> cells) {
  assert(cells.size() == titles_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  const auto is_right = [](const std::string& title) { return title.starts_with('>'); };
  std::vector<std::vector<std::string>> rows = rows_;
  rows.insert(rows.begin(), titles_);
  std::vector<size_t> widths(titles_.size());
  size_t all = 0;
  for (size_t i = 0; i < titles_.size(); ++i) {
    if (is_right(titles_[i])) rows[0][i].erase(0, 1);
    for (const auto& row : rows) widths[i] = std::max(widths[i], row[i].size());
    all += widths[i] + 2;
  }
  const auto names = static_cast<size_t>(std::ranges::find(titles_, "name") - titles_.begin());
  const size_t columns = text_columns();
  if (all > columns && names < titles_.size()) {
    const size_t others = all - widths[names];
    const size_t room = std::max(kNameMin, columns - std::min(others, columns));
    all -= widths[names] - std::min(widths[names], room);
    widths[names] = std::min(widths[names], room);
    for (auto& row : rows) row[names] = shortened(row[names], widths[names]);
  }
  if (all > columns && columns < kTextColumns) {  // on a narrow terminal
    size_t widest = 0;
    for (size_t i = 0; i < widths.size(); ++i) {
      if (i != names && !is_right(titles_[i]) && widths[i] > widths[widest]) widest = i;
    }
    const size_t room = widths[widest] - std::min(widths[widest], all - columns);
    widths[widest] = std::max(std::min(widths[widest], kNameMin), room);
    break_cells(rows, widest, widths[widest]);
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += is_right(titles_[i]) ? fmt::format("  {:>{}}", row[i], widths[i])
                                   : fmt::format("  {:<{}}", row[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace arenite::tool
