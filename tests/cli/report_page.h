// SPDX-License-Identifier: Apache-2.0
// Rules that every page of a report keeps, whatever it is about, and the facts in it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace arenite::testing {

// Succeeds for a page of which all of this is true:
//   * it is the static page with facts in it, which are JSON;
//   * nothing in the facts can end their element, or be anything but text;
//   * it loads nothing, and makes no HTML of text.
::testing::AssertionResult is_page(const std::string& html);

// What the page shows. REQUIRES: is_page(html).
nlohmann::json facts_in(const std::string& html);

size_t count_of(std::string_view text, std::string_view part);

inline bool holds(std::string_view text, std::string_view part) { return count_of(text, part) > 0; }

}  // namespace arenite::testing
