// SPDX-License-Identifier: Apache-2.0
// The commands that write files, and a folder to try them in.
#pragma once

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "cli/program.h"
#include "support/temp_folder.h"

namespace arenite::testing {

struct WritingCommand {
  std::string name;
  std::vector<std::string> words;  // outputs are in the folder "out"
  std::vector<std::string> files;  // that were there before, where there were any
  bool all_or_none = true;         // otherwise each file by itself
  std::string folder = {};         // the only output, which appears as a whole
  std::function<int()> body = {};  // what is called instead of the program
};

void PrintTo(const WritingCommand& command, std::ostream* out);

// All writing commands but bench, which takes seconds.
std::vector<WritingCommand> writing_commands();
WritingCommand bench_command();

// The bytes of what is below a folder, by path in it; kFolder for a folder.
using Contents = std::map<std::string, std::string>;
inline constexpr const char* kFolder = "(folder)";
Contents contents_of(const std::filesystem::path& folder);

class Workplace {
 public:
  Workplace();

  std::filesystem::path folder() const { return folder_.path(); }
  std::filesystem::path outputs() const { return folder_.path() / "out"; }
  // The folder "out" with these contents and no others.
  void set_outputs(const Contents& contents) const;
  ProgramResult run(const WritingCommand& command, Command how = {}) const;

 private:
  TempFolder folder_;
};

}  // namespace arenite::testing
