// SPDX-License-Identifier: Apache-2.0
// Runs the program and reads its output file.
#include "golden/converted.h"

#include <algorithm>
#include <stdexcept>

#include "convert/files/memory.h"
#include "support/program.h"
#include "support/slow_builds.h"
#include "support/temp_folder.h"

namespace arenite::test {

std::string targets_for(const std::vector<Target>& used) {
  if (!kEmulated) return "all";
  std::string names;
  for (const Target target : used) names += (names.empty() ? "" : ",") + std::string(name(target));
  return names;
}

convert::AlignedBytes converted(const std::string& kind, const std::filesystem::path& model,
                                const std::vector<std::string>& options) {
  const arenite::testing::TempFolder folder;
  const std::filesystem::path output = folder.path() / "model.arn";
  std::vector<std::string> words = {ARENITE_GOLDEN_CONVERTER, kind, model.string(),
                                    output.string()};
  words.insert(words.end(), options.begin(), options.end());
  const arenite::testing::ProgramResult result = arenite::testing::run(words);
  if (result.exit_code != 0) throw std::runtime_error(words[0] + " failed: " + result.output);
  const convert::FileMap file(output);
  convert::AlignedBytes bytes(file.bytes().size());
  std::ranges::copy(file.bytes(), bytes.data());
  return bytes;
}

}  // namespace arenite::test
