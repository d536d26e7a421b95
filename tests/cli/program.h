// SPDX-License-Identifier: Apache-2.0
// Runs the program arenite as a user does.
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/program.h"
#include "support/temp_folder.h"

namespace arenite::testing {

// Whether the program was built with a sanitizer, whose shadow takes memory of its own.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

// The program arenite with these arguments.
ProgramResult run_arenite(std::vector<std::string> arguments);
// The same with everything else that `command` says.
ProgramResult run_arenite(std::vector<std::string> arguments, Command command);

// Writes a file of the folder and returns its path.
std::string write_file(const TempFolder& folder, const std::string& name,
                       std::span<const std::byte> bytes);

// The names in a folder, hidden ones too.
std::set<std::string> names_in(const std::filesystem::path& folder);

}  // namespace arenite::testing
