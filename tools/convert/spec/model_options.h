// SPDX-License-Identifier: Apache-2.0
// Options for facts about a model that its file leaves open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convert/spec/model_spec.h"

namespace arenite::convert {

// Meaning of a 1 (or True) in a mask's buffer.
enum class MaskOnes { kHidden, kVisible };

enum class MaskChoice { kUnsaid, kCausal, kBidirectional, kWindow };

// kPooler: the first token, then a linear layer and tanh, whose weights the model must have.
enum class PoolingChoice { kNone, kFirst, kPooler, kMean };

// Factor of token embeddings, or of the projected features.
struct EmbeddingScale {
  bool is_sqrt = false;  // sqrt(model_dim)
  double value = 1.0;    // used if not is_sqrt

  double of(uint32_t model_dim) const;
  friend bool operator==(const EmbeddingScale&, const EmbeddingScale&) = default;
};

// Options must agree with the file where both state a fact. Facts that neither states are required
// or assumed, depending on the kind of model, and assumptions are reported.
struct ModelOptions {
  uint32_t heads = 0;  // 0: unset
  std::optional<Activation> activation{};
  std::optional<bool> norm_first{};
  std::optional<PoolingChoice> pooling{};
  MaskChoice mask = MaskChoice::kUnsaid;
  uint32_t window = 0;  // for kWindow: keys that a query sees, including its own
  std::optional<EmbeddingScale> embedding_scale{};
  std::optional<double> score_scale{};  // multiplies scores, instead of 1/sqrt(head_dim)
  std::optional<double> epsilon{};
  std::optional<double> rope_theta{};

  // For exported programs: indices of the outputs to concatenate along the columns.
  std::vector<uint32_t> output_indices{};
  bool any_length = false;  // the person's word that fixed sizes do not depend on the length
  uint32_t sound_rate = 0;  // samples per second, for programs of samples; 0: unset
  std::vector<std::string> functions{};  // names of its functions; empty: "encode" and "step"
  // For two programs: the second one's input that receives the first one's output, if ambiguous.
  std::string encoded{};

  // The key of the weights in a file that also holds an average of them: "model_ema".
  std::string state_dict{};

  // Options for a single attention module.
  std::optional<std::string> module{};  // its prefix in the checkpoint, if there are several
  uint32_t features = 0;                // width of the input, if there are no weights; 0: unset
  std::optional<MaskOnes> mask_ones{};
  uint32_t context = 0;  // rows and columns of its mask to keep; 0: all

  // Whether an option is set that only applies to attention modules.
  bool has_module_options() const { return module || features != 0 || mask_ones; }
};

// Inputs of a model, and what its author's own code gives for them.
struct AuthorFiles {
  std::filesystem::path input;         // .npy
  std::filesystem::path outputs;       // .npy
  std::vector<std::string> lengths{};  // of sequences (lengths_of_inputs); empty: all tokens
  // for the other inputs, also as NAME=FILE (files_of_inputs)
  std::vector<std::string> more_inputs{};
  std::string listed_in{};  // the place of a facts.json that names them, for messages
};

const char* name(PoolingChoice choice);          // as in options and configs: "pooler"
const char* option_name(Activation activation);  // as in options: "gelu_tanh"

// Returns the option that selects this mask: "--window 8".
std::string option_text(MaskChoice mask, uint32_t window);

// Throws InputError that begins with `where` if the options' heads or activation differ from the
// config's.
void check_config_agrees(const ModelOptions& options, uint32_t heads, Activation activation,
                         const std::string& where);

// Returns the set options for facts that Hugging Face and GGUF configs always state, such as mask,
// scales and epsilon, as on the command line: "--causal, --scale".
std::vector<std::string> options_of_state_dicts(const ModelOptions& options);

// Throws InputError that begins with `where` if any of these options is set for a model with a
// complete config.
void refuse_options_of_state_dicts(const ModelOptions& options, const std::string& where);

// Throws InputError for any option about the computation, which exported programs define
// themselves.
void refuse_computation_options(const ModelOptions& options, const std::string& where);

}  // namespace arenite::convert
