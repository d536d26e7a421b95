// SPDX-License-Identifier: Apache-2.0
// Rules that every page of a report keeps, whatever it is about.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace arenite::testing {

// Succeeds for a page of which all of this is true:
//   * elements nest, and all of them end;
//   * every drawing has a title and a description, for those who do not see it;
//   * every table has a caption and headers;
//   * nothing is loaded from elsewhere, and nothing runs.
::testing::AssertionResult is_page(const std::string& html);

size_t count_of(std::string_view text, std::string_view part);

inline bool holds(std::string_view text, std::string_view part) { return count_of(text, part) > 0; }

}  // namespace arenite::testing
