// SPDX-License-Identifier: Apache-2.0
// Checks a program's output and exit code in one assertion.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <regex>
#include <string>
#include <string_view>

#include "cli/program.h"

namespace arenite::testing {

// Succeeds if the exit code is this one and all parts are in the output or the errors.
inline ::testing::AssertionResult ends(const ProgramResult& result, int exit_code,
                                       std::initializer_list<std::string_view> parts = {}) {
  if (result.exit_code != exit_code) {
    return ::testing::AssertionFailure()
           << "exit code " << result.exit_code << ", not " << exit_code << "\n"
           << result.output;
  }
  for (const std::string_view part : parts) {
    if (result.output.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "no \"" << part << "\" in\n" << result.output;
    }
  }
  return ::testing::AssertionSuccess();
}

// Joins wrapped text into one line.
inline std::string in_one_line(const std::string& text) {
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

inline constexpr int kDone = 0;
inline constexpr int kBadInput = 1;
inline constexpr int kBadUsage = 2;

}  // namespace arenite::testing
