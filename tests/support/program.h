// SPDX-License-Identifier: Apache-2.0
// Runs programs and collects their output and resource use.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace arenite::testing {

enum class Stream {
  kRead,
  kClosed,      // the program starts without it
  kReaderGone,  // a pipe that nobody reads
};

// The first word is the program, if there is no body.
struct Command {
  std::vector<std::string> words;
  std::vector<std::string> environment = {};  // "NAME=value", beside this process's own
  std::filesystem::path folder = {};          // where it runs; empty: here
  uint64_t file_bytes_max = 0;                // no file may grow beyond, as on a full disk; 0: any
  bool terminal = false;                      // errors go to a terminal instead of a pipe
  std::filesystem::path output_file = {};     // where output goes instead of being collected
  std::filesystem::path errors_file = {};     // the same for errors
  Stream output = Stream::kRead;
  Stream errors = Stream::kRead;
  uint64_t address_bytes_max = 0;             // of its address space; 0: any
  uint32_t processes_max = 0;                 // of its user, threads included; 0: any
  bool unprivileged = false;                  // as a user without rights, if this one may become so
  std::function<int()> body = {};             // called in the child; returns its exit code
  std::function<void(pid_t)> meanwhile = {};  // called with its number while it runs
};

struct ProgramResult {
  int exit_code = -1;  // -1: it did not exit but was ended by `signal`
  int signal = 0;
  std::string output;  // and errors, in the order of their arrival
  std::string errors;
  uint64_t peak_bytes = 0;  // of resident memory, or this process's own if that is more
};

ProgramResult run(const Command& command);
ProgramResult run(const std::vector<std::string>& words);

}  // namespace arenite::testing
