// SPDX-License-Identifier: Apache-2.0
// Runs programs and collects what they print and use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace arenite::testing {

// The first word is the program.
struct Command {
  std::vector<std::string> words;
  std::vector<std::string> environment = {};  // "NAME=value", beside this process's own
  std::filesystem::path folder = {};          // where it runs; empty: here
  uint64_t file_bytes_max = 0;                // no file may grow beyond, as on a full disk; 0: any
  bool terminal = false;                      // errors go to a terminal instead of a pipe
  std::filesystem::path output_file = {};     // where output goes instead of being collected
};

struct ProgramResult {
  int exit_code = -1;  // -1: it did not exit but crash
  std::string output;  // and errors, in the order of their arrival
  std::string errors;
  uint64_t peak_bytes = 0;  // of resident memory, or this process's own if that is more
};

ProgramResult run(const Command& command);
ProgramResult run(const std::vector<std::string>& words);

}  // namespace arenite::testing
