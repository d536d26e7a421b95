// SPDX-License-Identifier: Apache-2.0
// The program arenite, and files around it.
#include "cli/program.h"

#include <utility>

namespace arenite::testing {

ProgramResult run_arenite(std::vector<std::string> arguments) {
  return run_arenite(std::move(arguments), {});
}

ProgramResult run_arenite(std::vector<std::string> arguments, Command command) {
  arguments.insert(arguments.begin(), ARENITE_PROGRAM);
  command.words = std::move(arguments);
  return run(command);
}

std::string write_file(const TempFolder& folder, const std::string& name,
                       std::span<const std::byte> bytes) {
  return folder.write(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}).string();
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

}  // namespace arenite::testing
