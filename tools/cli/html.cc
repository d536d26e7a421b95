// SPDX-License-Identifier: Apache-2.0
#include "cli/html.h"

#include <fmt/format.h>

#include <cassert>
#include <cmath>

#include "core/utf8.h"

namespace arenite::tool {
namespace {

// Marks that turn the text around them, and so what a reader takes it for.
bool turns_text(uint32_t c) {
  return c == 0x61C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

std::string escaped_character(std::string_view bytes, uint32_t value) {
  const bool is_control = value < 0x20 || (value >= 0x7F && value < 0xA0);
  if (value == kInvalidCodePoint || value == 0xFFFE || value == 0xFFFF) return "\xEF\xBF\xBD";
  if (is_control || turns_text(value)) return "?";
  switch (value) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return std::string(bytes);
  }
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); i += decode_utf8(text.substr(i)).bytes) ++count;
  return count;
}

// The attribute of a column's cells, by the mark of its title.
std::string_view column_class(const std::string& title) {
  if (title.starts_with('>')) return "class=\"n\"";
  if (title.starts_with('=')) return "class=\"one\"";
  return title.starts_with('~') ? "class=\"text\"" : "";
}

}  // namespace

std::string escaped(std::string_view text, size_t characters_max) {
  const size_t count = count_characters(text);
  const size_t half = count > characters_max ? (characters_max - 1) / 2 : count;
  std::string html;
  size_t index = 0;
  for (size_t i = 0; i < text.size(); ++index) {
    const CodePoint c = decode_utf8(text.substr(i));
    if (index < half || index >= count - half) {
      html += escaped_character(text.substr(i, c.bytes), c.value);
    } else if (index == half) {
      html += "\xE2\x80\xA6";  // an ellipsis
    }
    i += c.bytes;
  }
  return html;
}

std::string element(std::string_view name, std::string_view content, std::string_view attributes) {
  return fmt::format("<{0}{1}{2}>{3}</{0}>", name, attributes.empty() ? "" : " ", attributes,
                     content);
}

std::string section(std::string_view id, std::string_view title, std::string_view content) {
  return fmt::format("<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n", id) +
         element("h2", title, fmt::format("id=\"{}-title\"", id)) +
         fmt::format("\n{}\n</section>\n", content);
}

std::string scroll_box(std::string_view label, std::string_view content) {
  return element("div", content,
                 fmt::format("class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"",
                             label)) +
         "\n";
}

std::string details(std::string_view summary, std::string_view content) {
  return element("details", element("summary", summary) + std::string(content)) + "\n";
}

std::string swatch(std::string_view color) {
  return element("i", "", fmt::format("class=\"swatch {}\"", color));
}

void HtmlTable::add_row(const std::vector<std::string>& cells) {
  assert(cells.size() == titles_.size());
  rows_ += "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string_view column = column_class(titles_[i]);
    rows_ += i == 0 ? element("th", cells[i], fmt::format("scope=\"row\" {}", column))
                    : element("td", cells[i], column);
  }
  rows_ += "</tr>\n";
}

void HtmlTable::add_note(std::string_view html) {
  rows_ += element("tr", element("td", html,
                                 fmt::format("class=\"note\" colspan=\"{}\"", titles_.size()))) +
           "\n";
}

std::string HtmlTable::html() const {
  std::string head;
  for (const std::string& title : titles_) {
    const std::string_view column = column_class(title);
    head += element("th", column.empty() ? title : title.substr(1),
                    fmt::format("scope=\"col\" {}", column));
  }
  return scroll_box(caption_, element("table", element("caption", caption_) + "\n" +
                                                   element("thead", element("tr", head)) + "\n" +
                                                   element("tbody", "\n" + rows_)));
}

std::string short_bytes(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes) / 1000.0;
  size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < std::size(kUnits); ++unit) value /= 1000.0;
  return fmt::format("{:.{}f} {}", value, value < 100.0 ? 1 : 0, kUnits[unit]);
}

std::string percent(double part, double whole) {
  if (whole <= 0.0 || part <= 0.0) return "0 %";
  const double share = 100.0 * part / whole;
  return share < 0.1 ? "&lt;0.1 %" : fmt::format("{:.1f} %", share);
}

std::string number(double value) {
  if (std::isnan(value)) return "not a number";
  if (std::isinf(value)) return value < 0.0 ? "minus infinity" : "infinite";
  return fmt::format("{:.4g}", value);
}

}  // namespace arenite::tool
