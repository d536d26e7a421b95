// SPDX-License-Identifier: Apache-2.0
// Where tests find their files: those of the project, and the optional collection beside it.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace arenite::testing {

// The collection of reference checkpoints: $ARENITE_TEST_DATA, or the folder `shared` next to the
// project. It need not exist; tests skip without it.
inline std::filesystem::path collection_folder() {
  const char* folder = std::getenv("ARENITE_TEST_DATA");
  return folder != nullptr ? std::filesystem::path(folder)
                           : std::filesystem::path(ARENITE_SOURCE_DIR) / ".." / "shared";
}

inline std::filesystem::path convert_fixture(const char* name) {
  return std::filesystem::path(ARENITE_SOURCE_DIR) / "tests" / "convert" / "data" / name;
}

}  // namespace arenite::testing
