// SPDX-License-Identifier: Apache-2.0
// Checks that something is refused with an InputError that says what it should.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "convert/error.h"

namespace arenite::testing {

// EXPECT_TRUE(refuses([&] { ... }, {"w.safetensors", "'scale'"})): throws InputError with all
// parts.
template <typename Action>
::testing::AssertionResult refuses(const Action& action,
                                   std::initializer_list<std::string_view> parts) {
  std::string message;
  try {
    action();
    return ::testing::AssertionFailure() << "accepted";
  } catch (const convert::InputError& error) {
    message = error.what();
  }
  for (const std::string_view part : parts) {
    if (message.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "\"" << message << "\" lacks \"" << part << "\"";
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace arenite::testing
