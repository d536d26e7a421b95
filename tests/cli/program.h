// SPDX-License-Identifier: Apache-2.0
// Runs the program arenite as a user does. A test that links called_program.cc instead of
// program.cc calls its commands in a forked child.
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/program.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::testing {

// The program arenite with these arguments.
ProgramResult run_arenite(std::vector<std::string> arguments);
// Runs arenite with these arguments and the other settings of `command`.
ProgramResult run_arenite(std::vector<std::string> arguments, Command command);

// Writes a file of the folder and returns its path.
inline std::string write_file(const TempFolder& folder, const std::string& name,
                              std::span<const std::byte> bytes) {
  return folder.write(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}).string();
}

// The names in a folder, hidden ones too.
inline std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

}  // namespace arenite::testing
