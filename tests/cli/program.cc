// SPDX-License-Identifier: Apache-2.0
// Executes the program's file in a new process.
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

}  // namespace arenite::testing
