// SPDX-License-Identifier: Apache-2.0
// The options of `arenite convert`, and what they mean to the converter.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/conversion_limits.h"
#include "convert/check/author_check.h"
#include "convert/convert.h"

namespace arenite::tool {

struct ConvertArguments {
  std::filesystem::path checkpoint;
  std::filesystem::path output;
  std::filesystem::path tokenizer;
  uint32_t heads = 0;
  uint32_t context = 0;
  std::string activation;
  std::string pooling;
  std::optional<bool> norm_first;
  bool causal = false;
  bool bidirectional = false;
  uint32_t window = 0;
  std::string embedding_scale;
  std::optional<double> score_scale;
  std::optional<double> epsilon;
  std::vector<uint32_t> output_indices;
  std::optional<double> rope_theta;
  std::optional<std::string> module;
  uint32_t features = 0;
  std::string mask_ones;
  // Inputs and the outputs that the author's model gave for each.
  std::vector<std::pair<std::filesystem::path, std::filesystem::path>> expect;
  std::vector<uint32_t> expect_lengths;  // of each sequence of the inputs
  std::string weights = "f32";
  std::string keep;
  TensorType kv_cache = TensorType::kF32;
  std::filesystem::path calibrate;
  std::filesystem::path report;
  ConversionLimits limits;
  std::string targets = "native";
  std::string name;
  bool no_self_test = false;
  bool json = false;
  bool explain = false;
  std::vector<std::string> without_passes;
};

// Declares them all. `arguments` must outlive the command.
void add_convert_options(CLI::App& command, ConvertArguments& arguments);

// Throws InputError for options that a single attention module does not have.
void refuse_model_options(const ConvertArguments& arguments);

convert::ConvertOptions convert_options(const ConvertArguments& arguments);

// Those of --expect, and the lengths of their sequences.
std::vector<convert::AuthorFiles> author_files(const ConvertArguments& arguments);

// "q4, keeping output=q8, embedding=q8": the types that were asked for.
std::string describe_weights(const ConvertArguments& arguments);

}  // namespace arenite::tool
