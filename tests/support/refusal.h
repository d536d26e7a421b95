// SPDX-License-Identifier: Apache-2.0
// Checks for an InputError and for parts of its message.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "convert/files/error.h"

namespace arenite::testing {

// The message of the InputError that `action` throws; empty: it throws none.
template <typename Action>
std::string refusal_of(const Action& action) {
  try {
    action();
    return {};
  } catch (const convert::InputError& error) {
    return error.what();
  }
}

// EXPECT_TRUE(refuses([&] { ... }, {"w.safetensors", "'scale'"})): throws InputError with all
// parts.
template <typename Action>
::testing::AssertionResult refuses(const Action& action,
                                   std::initializer_list<std::string_view> parts) {
  const std::string message = refusal_of(action);
  if (message.empty()) return ::testing::AssertionFailure() << "accepted";
  for (const std::string_view part : parts) {
    if (message.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "\"" << message << "\" lacks \"" << part << "\"";
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace arenite::testing
