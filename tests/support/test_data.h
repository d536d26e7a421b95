// SPDX-License-Identifier: Apache-2.0
// Finds the test files of the project and the optional collection beside it, and tells whether a
// sanitizer is on.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace arenite::testing {

// Returns the project's folder. Only this function is compiled with the path, so that ccache can
// reuse other objects across checkouts.
std::filesystem::path project_folder();

// The collection of reference checkpoints: $ARENITE_TEST_DATA, or the folder `shared` next to the
// project. It need not exist; tests skip without it.
inline std::filesystem::path collection_folder() {
  const char* folder = std::getenv("ARENITE_TEST_DATA");
  return folder != nullptr ? std::filesystem::path(folder) : project_folder() / ".." / "shared";
}

// Whether $ARENITE_REQUIRE_DATA says that the collection is there: what is missing is an error.
inline bool is_data_required() {
  const char* required = std::getenv("ARENITE_REQUIRE_DATA");
  return required != nullptr && std::string_view(required) != "0";
}

// Whether the program was built with a sanitizer, whose shadow takes memory of its own, and under
// which tests run several times as long.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

inline std::filesystem::path convert_fixture(const char* name) {
  return project_folder() / "tests" / "convert" / "data" / name;
}

}  // namespace arenite::testing

// Leaves the test where the collection's file or folder `place` is missing: skipped with a message,
// or failed where data is required. Within a test or SetUp alone, as it returns.
#define ARENITE_NEEDS_DATA(place)                                                                 \
  if (const std::filesystem::path needed = (place); !std::filesystem::exists(needed)) {           \
    if (::arenite::testing::is_data_required()) FAIL() << needed << " is required and not there"; \
    GTEST_SKIP() << needed << " is not there; set ARENITE_TEST_DATA to the folder of the data";   \
  }                                                                                               \
  static_assert(true, "so that a semicolon follows")
