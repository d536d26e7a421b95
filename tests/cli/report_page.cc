// SPDX-License-Identifier: Apache-2.0
// A page is read here as strictly as XML, so that nothing depends on what browsers forgive.
#include "cli/report_page.h"

#include <vector>

namespace arenite::testing {
namespace {

bool has_no_end(std::string_view name) { return name == "meta" || name == "br"; }

// The place after the tag that begins at `begin`; npos if it does not end. Quoted values may hold
// anything but quotes.
size_t end_of_tag(std::string_view html, size_t begin) {
  bool is_quoted = false;
  for (size_t i = begin; i < html.size(); ++i) {
    if (html[i] == '"') is_quoted = !is_quoted;
    if (is_quoted) continue;
    if (html[i] == '>') return i + 1;
    if (i > begin && html[i] == '<') return std::string_view::npos;
  }
  return std::string_view::npos;
}

::testing::AssertionResult nests(std::string_view html) {
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string_view::npos; at = html.find('<', at)) {
    const size_t end = end_of_tag(html, at);
    if (end == std::string_view::npos) {
      return ::testing::AssertionFailure() << "a tag without end: " << html.substr(at, 80);
    }
    const std::string_view tag = html.substr(at + 1, end - at - 2);
    at = end;
    if (tag.starts_with('!') || tag.ends_with('/')) continue;
    const std::string name(tag.substr(0, tag.find(' ')));
    if (has_no_end(name)) continue;
    if (!name.starts_with('/')) {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return ::testing::AssertionFailure()
             << "<" << name << "> ends " << (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  if (!open.empty()) return ::testing::AssertionFailure() << open.back() << " does not end";
  return ::testing::AssertionSuccess();
}

}  // namespace

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

::testing::AssertionResult is_page(const std::string& html) {
  if (!html.starts_with("<!DOCTYPE html>\n")) return ::testing::AssertionFailure() << "no doctype";
  for (const char* const part : {"<script", "<link", "<img", "<iframe", "@import", "url(",
                                 "href=", "src=", "http", "onload", "javascript"}) {
    if (holds(html, part)) return ::testing::AssertionFailure() << "it has " << part;
  }
  const size_t drawings = count_of(html, "<svg ");
  if (count_of(html, "<svg role=\"img\"") != drawings || count_of(html, "<desc>") != drawings ||
      count_of(html, "<desc></desc>") != 0 || count_of(html, "\"><title></title>") != 0) {
    return ::testing::AssertionFailure() << "a drawing without title or description";
  }
  const size_t tables = count_of(html, "<table>");
  if (count_of(html, "<table><caption>") != tables || count_of(html, "<thead>") != tables) {
    return ::testing::AssertionFailure() << "a table without caption or headers";
  }
  return nests(html);
}

}  // namespace arenite::testing
