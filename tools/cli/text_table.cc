// SPDX-License-Identifier: Apache-2.0
// Every column is as wide as its widest cell.
#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "cli/process.h"
#include "convert/files/error.h"

namespace arenite::tool {
namespace {

constexpr size_t kNameMin = 17;  // characters of a shortened name

// Returns the fact at "a.b", or null if there is none.
const Json& fact_at(const Json& facts, std::string_view path) {
  static const Json kNone;
  if (path.empty()) return facts;
  const size_t end = std::min(path.find('.'), path.size());
  const auto found = facts.find(std::string(path.substr(0, end)));
  if (found == facts.end()) return kNone;
  return end == path.size() ? *found : fact_at(*found, path.substr(end + 1));
}

bool says_something(const Json& fact) {
  if (fact.is_string()) return fact != "";
  return !fact.empty() && fact != false && !(fact.is_number_integer() && fact == 0);
}

// `form` is the part after the key: "#noun", ":.1e", "@80", or nothing.
std::string shown(const Json& fact, std::string_view form) {
  if (fact.is_array()) {
    std::string list;
    const char* const comma = !fact.empty() && fact[0].is_number() ? "," : ", ";
    for (const Json& element : fact) list += (list.empty() ? "" : comma) + shown(element, form);
    return list;
  }
  const std::string format = fmt::format("{{{}}}", form);
  if (fact.is_string()) {
    const std::string text = fact.get<std::string>();
    if (!form.starts_with('@')) return fmt::format(fmt::runtime(format), text);
    return convert::printable(text, std::stoul(std::string(form.substr(1))));
  }
  if (fact.is_number_float()) return fmt::format(fmt::runtime(format), fact.get<double>());
  const uint64_t number = fact.get<uint64_t>();
  if (form.empty()) return grouped(number);
  return form.starts_with('#') ? counted(number, std::string(form.substr(1)))
                               : fmt::format(fmt::runtime(format), number);
}

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

std::string filled(std::string_view words, const Json& facts) {
  std::string text;
  while (!words.empty()) {
    const size_t begin = std::min(words.find_first_of("{<"), words.size());
    text += words.substr(0, begin);
    words.remove_prefix(begin);
    if (words.empty()) break;
    const size_t end = words.find(words[0] == '{' ? '}' : '>');
    std::string_view key = words.substr(1, end - 1);
    const bool is_part = words[0] == '<';
    words.remove_prefix(end + 1);
    if (is_part) {
      text += filled(key, facts);
    } else if (key.starts_with('?') || key.starts_with('!')) {
      if (says_something(fact_at(facts, key.substr(1))) != (key[0] == '?')) return "";
    } else {
      const std::string_view path = key.substr(0, key.find_first_of("#:@"));
      const Json& fact = fact_at(facts, path);
      if (fact.is_null()) return "";
      text += shown(fact, key.substr(path.size()));
    }
  }
  return text;
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

std::string table(const std::vector<Column>& columns, const Json& list) {
  std::vector<std::string> titles;
  for (const Column& column : columns) titles.push_back(column.title);
  TextTable table(titles);
  for (const Json& item : list) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(filled(column.cell, item));
    table.add_row(std::move(cells));
  }
  return table.text();
}

}  // namespace arenite::tool
