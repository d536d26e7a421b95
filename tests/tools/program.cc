// SPDX-License-Identifier: Apache-2.0
// Goes through the shell, with every word quoted.
#include "tools/program.h"

#include <sys/wait.h>

#include <cstdio>

namespace arenite::testing {
namespace {

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

ProgramResult run(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) command += quoted(word) + " ";
  ProgramResult result;
  FILE* const pipe = popen((command + "2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    result.output.append(buffer, n);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

ProgramResult run_arenite(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ARENITE_PROGRAM);
  return run(arguments);
}

std::string write_file(const TempFolder& folder, const std::string& name,
                       std::span<const std::byte> bytes) {
  return folder.write(name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}).string();
}

}  // namespace arenite::testing
