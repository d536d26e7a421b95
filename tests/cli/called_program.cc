// SPDX-License-Identifier: Apache-2.0
// Calls the program's commands in a forked child instead of executing a file, so that the commands
// meet the system calls that the test has linked in.
#include <utility>

#include "cli/commands.h"
#include "cli/program.h"

namespace arenite::testing {

ProgramResult run_arenite(std::vector<std::string> arguments) {
  return run_arenite(std::move(arguments), {});
}

ProgramResult run_arenite(std::vector<std::string> arguments, Command command) {
  std::vector<const char*> words = {"arenite"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  command.body = [&] { return tool::run_program(static_cast<int>(words.size()), words.data()); };
  return run(command);
}

}  // namespace arenite::testing
