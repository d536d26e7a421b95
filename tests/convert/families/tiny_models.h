// SPDX-License-Identifier: Apache-2.0
// Small random models as named tensors, for tests to write in any format.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"
#include "support/temp_folder.h"

namespace arenite::testing {

struct Tensor {
  std::vector<uint64_t> shape;
  std::vector<float> values;
};
using TensorMap = std::map<std::string, Tensor>;

// The sizes of all tiny models. Rows are whole blocks of 32, so that they can be quantized, and no
// two sizes that could be mixed up are equal.
inline constexpr uint32_t kVocab = 11;
inline constexpr uint32_t kDim = 32;
inline constexpr uint32_t kFfn = 64;
inline constexpr uint32_t kLayers = 2;
inline constexpr uint32_t kHeads = 4;
inline constexpr uint32_t kKvHeads = 2;
inline constexpr uint32_t kHeadDim = 8;
inline constexpr uint32_t kPositions = 24;

// Options for the facts that state dicts of nanoGPT, minGPT and related programs do not hold.
inline const convert::ModelOptions kGptOptions{
    .heads = kHeads, .activation = Activation::kGeluErf, .norm_first = true};

// Values around `center`, the same for the same name, whatever else is in the model.
Tensor random_tensor(const std::string& name, std::vector<uint64_t> shape, float center = 0.0f);

// Tensors by the names of Hugging Face.
struct LlamaParts {
  bool qkv_bias = false;    // as Qwen2
  bool head_norms = false;  // as Qwen3
  bool is_tied = false;
};
TensorMap llama_tensors(const LlamaParts& parts = {});
nlohmann::json llama_config(const std::string& model_type = "llama");
TensorMap gpt2_tensors();  // tied, as GPT2LMHeadModel
nlohmann::json gpt2_config();
TensorMap phi_tensors();
nlohmann::json phi_config();
nlohmann::json neox_config();

// Returns the weights of `phi` in the layout of GPT-NeoX; the head has no bias and both norms of a
// layer are equal.
TensorMap neox_of_phi(const TensorMap& phi);

// [rows, columns] -> [columns, rows].
Tensor transposed(const Tensor& tensor);
// Rows of heads for rotation of halves, in the order for rotation of neighbours.
Tensor pairs_of_halves(const Tensor& tensor, uint32_t heads);
// Stacks tensors of equal width.
Tensor stacked(const std::vector<Tensor>& tensors);

std::string safetensors_of(const TensorMap& tensors);

// Writes config.json and model.safetensors into a folder of this name and returns it.
std::filesystem::path write_hf(const TempFolder& folder, const std::string& name,
                               const nlohmann::json& config, const TensorMap& tensors);

// Returns the reference's logits for a fixed sequence that is longer than any window in the tests.
std::vector<double> logits_of(const convert::TransformerSpec& spec);

// |found - expected| <= tolerance * the largest |expected|, everywhere.
::testing::AssertionResult near(std::span<const double> found, std::span<const double> expected,
                                double tolerance);

}  // namespace arenite::testing
