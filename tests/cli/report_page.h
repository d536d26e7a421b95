// SPDX-License-Identifier: Apache-2.0
// Checks the rules of every page of a report, and reads the facts in it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace arenite::testing {

// Succeeds if all of this is true:
//   * the page is the static page with the facts, as JSON, in place;
//   * nothing in the facts can end their element or be parsed as anything but text;
//   * the page loads nothing and makes no HTML from text.
::testing::AssertionResult is_page(const std::string& html);

// Returns the facts of the page. REQUIRES: is_page(html).
nlohmann::json facts_in(const std::string& html);

size_t count_of(std::string_view text, std::string_view part);

inline bool holds(std::string_view text, std::string_view part) { return count_of(text, part) > 0; }

}  // namespace arenite::testing
