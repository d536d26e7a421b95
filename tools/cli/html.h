// SPDX-License-Identifier: Apache-2.0
// Pieces of a page: text made safe, elements, tables, and numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace arenite::tool {

inline constexpr size_t kNameCharacters = 60;  // of names from a file, on a page

// Text for content and for attributes in double quotes. A file may name things anything: what is no
// UTF-8 becomes U+FFFD, control characters and those that change the direction of text become '?',
// and of more than `characters_max` characters the middle is left out.
std::string escaped(std::string_view text, size_t characters_max = SIZE_MAX);
inline std::string escaped_name(std::string_view text) { return escaped(text, kNameCharacters); }

// <name attributes>content</name>; content and attributes are HTML.
std::string element(std::string_view name, std::string_view content,
                    std::string_view attributes = {});

// A section with a heading, that links can lead to.
std::string section(std::string_view id, std::string_view title, std::string_view content);

// A box of its own that scrolls sideways where its content is too wide; `label` is for those who
// hear the page.
std::string scroll_box(std::string_view label, std::string_view content);

// What is hidden until it is asked for.
std::string details(std::string_view summary, std::string_view content);

// A square in a colour of the page's palette.
std::string swatch(std::string_view color);

// A table with headers of columns and rows.
class HtmlTable {
 public:
  // A column whose title begins with '>' is aligned to the right, one with '~' has sentences and
  // gets room for them, one with '=' stays on one line; all without that mark.
  HtmlTable(std::string caption, std::vector<std::string> titles)
      : caption_(std::move(caption)), titles_(std::move(titles)) {}

  // HTML. REQUIRES: as many cells as titles.
  void add_row(const std::vector<std::string>& cells);
  // A last row in one cell: what there is beside the rows.
  void add_note(std::string_view html);

  bool empty() const { return rows_.empty(); }
  std::string html() const;

 private:
  std::string caption_;
  std::vector<std::string> titles_;
  std::string rows_;
};

// "12.3 MB", "640 bytes".
std::string short_bytes(uint64_t bytes);
// "12.3 %", "0 %", "&lt;0.1 %": HTML.
std::string percent(double part, double whole);
// Four digits or so; "infinite", "not a number".
std::string number(double value);

}  // namespace arenite::tool
