// SPDX-License-Identifier: Apache-2.0
// Converts checkpoints that tests build, and runs the result on every kernel set.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/modules/attention_oracle.h"
#include "support/checkpoint_builder.h"
#include "support/refusal.h"
#include "support/temp_folder.h"

namespace arenite::test {

// Writes the bytes to a file of their own and converts it, for all targets.
convert::Conversion convert_bytes(const std::string& checkpoint,
                                  const convert::ModelOptions& options = {});
convert::Conversion convert_file(const std::filesystem::path& checkpoint,
                                 const convert::ModelOptions& options = {});

inline constexpr double kOutputTolerance = 1e-5;  // outputs here are of the order of 1

// Runs `input`, [sequences, tokens, features], on every kernel set of this machine, and compares
// with `expected`, [sequences, tokens, outputs].
::testing::AssertionResult runs_as(const convert::Conversion& conversion,
                                   std::span<const float> input, uint32_t sequences,
                                   uint32_t tokens, std::span<const double> expected);

// Runs random input of all positions, at most 40, and compares with the oracle.
::testing::AssertionResult runs_as(const convert::Conversion& conversion,
                                   const AttentionOracle& oracle);

// Whether conversion ends in an InputError with all of these parts, the file's name among them.
::testing::AssertionResult is_refused(const std::string& checkpoint,
                                      const convert::ModelOptions& options,
                                      std::initializer_list<std::string_view> parts);

}  // namespace arenite::test
