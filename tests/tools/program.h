// SPDX-License-Identifier: Apache-2.0
// Runs programs and collects what they print.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "support/temp_folder.h"

namespace arenite::testing {

struct ProgramResult {
  int exit_code = -1;
  std::string output;  // and errors
};

// The first word is the program.
ProgramResult run(const std::vector<std::string>& words);

// The program arenite with these arguments.
ProgramResult run_arenite(std::vector<std::string> arguments);

// Writes a file of the folder and returns its path.
std::string write_file(const TempFolder& folder, const std::string& name,
                       std::span<const std::byte> bytes);

}  // namespace arenite::testing
