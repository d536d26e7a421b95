// SPDX-License-Identifier: Apache-2.0
// The encoders of tests/convert/data/encoders, unchanged or edited by a test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "convert/families/tiny_models.h"
#include "convert/spec/model_options.h"
#include "support/reference_models.h"
#include "support/temp_folder.h"

namespace arenite::testing {

std::filesystem::path encoder_fixture(const std::string& name);

// Returns the reference's results for sequence `row` of the batch in the fixture's
// expected.safetensors.
convert::Evaluation run_row(const convert::TransformerSpec& spec, const std::string& fixture,
                            size_t row);

// A copy of a fixture in a folder of its own, to be changed.
class EditedEncoder {
 public:
  explicit EditedEncoder(const std::string& fixture);

  nlohmann::json config;
  TensorMap tensors;

  // Puts `prefix` in front of the names that begin with `old_prefix`, instead of it.
  void rename(const std::string& old_prefix, const std::string& prefix);

  // Writes the folder, without a config where that is null. The result lives as long as this.
  std::filesystem::path write() const;

  convert::TransformerSpec open(const convert::ModelOptions& options = {}) const;

  // Whether reading it throws InputError with all `parts` in its message.
  ::testing::AssertionResult refuses(std::initializer_list<std::string_view> parts,
                                     const convert::ModelOptions& options = {}) const;

 private:
  TempFolder folder_;
};

}  // namespace arenite::testing
