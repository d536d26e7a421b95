// SPDX-License-Identifier: Apache-2.0
#include "cli/report_page.h"

namespace arenite::testing {
namespace {

constexpr std::string_view kFacts = "<script type=\"application/json\" id=\"facts\">";

// Returns the text between `begin` and the next `end`; empty if either is missing.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const size_t first = text.find(begin);
  if (first == text.npos) return {};
  text.remove_prefix(first + begin.size());
  return text.substr(0, text.find(end));
}

}  // namespace

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

nlohmann::json facts_in(const std::string& html) {
  return nlohmann::json::parse(between(html, kFacts, "</script>"), nullptr, false);
}

::testing::AssertionResult is_page(const std::string& html) {
  if (!html.starts_with("<!DOCTYPE html>\n")) return ::testing::AssertionFailure() << "no doctype";
  const std::string_view facts = between(html, kFacts, "</script>");
  const std::string_view brief = between(html, "<pre>", "</pre>");
  if (!facts_in(html).is_object()) return ::testing::AssertionFailure() << "no facts: " << facts;
  if (brief.empty() || holds(brief, "<") || holds(facts, "<")) {
    return ::testing::AssertionFailure() << "text that could be HTML: " << brief;
  }
  if (count_of(html, "<script") != 2 || count_of(html, "</script>") != 2 ||
      count_of(html, "{{") != 0) {
    return ::testing::AssertionFailure() << "not the static page";
  }
  if (!holds(html, "default-src 'none'")) return ::testing::AssertionFailure() << "no policy";
  const std::string own = html.substr(0, html.find(kFacts)) + html.substr(html.rfind("<script>"));
  for (const char* const part : {"<link", "<img", "<iframe", "@import", "url(", "href=", "src=",
                                 "https:", "fetch(", "innerHTML", "insertAdjacent", "eval("}) {
    if (holds(own, part)) return ::testing::AssertionFailure() << "it has " << part;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace arenite::testing
