// SPDX-License-Identifier: Apache-2.0
// Converts a stored exported program and compares it with what PyTorch computed in float64: files
// FOLDER/NAME.pt2, NAME_input.npy and NAME_expected.npy.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "convert/check/converted_model.h"
#include "convert/convert.h"
#include "support/test_data.h"

namespace arenite::convert {

// Shares of the largest value.
inline constexpr double kProgramError = 2e-6;
inline constexpr double kGraphError = 1e-6;  // of tables in float32, in double precision

inline Conversion convert_program(const std::filesystem::path& folder, const std::string& archive,
                                  const ConvertOptions& options = {}) {
  return convert_model(folder / (archive + ".pt2"), archive, options, parse_targets("native"));
}

inline AuthorFiles author_files(const std::filesystem::path& folder, const std::string& name) {
  return {folder / (name + "_input.npy"), folder / (name + "_expected.npy")};
}

// `more_inputs` are names of files.
inline AuthorCheck check_program(const Conversion& conversion, const std::filesystem::path& folder,
                                 const std::string& name,
                                 const std::vector<std::string>& more_inputs = {}) {
  AuthorFiles files = author_files(folder, name);
  for (const std::string& input : more_inputs) {
    files.more_inputs.push_back((folder / input).string());
  }
  return check_against_author(conversion, files, name);
}

inline ::testing::AssertionResult is_as_pytorch(const AuthorCheck& check,
                                                double error = kProgramError) {
  if (check.largest_difference <= error * check.largest_value) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "differs by " << check.largest_difference
                                       << ", and the largest value is " << check.largest_value;
}

}  // namespace arenite::convert
