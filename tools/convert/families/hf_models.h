// SPDX-License-Identifier: Apache-2.0
// Shared parts of the model readers, and of those for Hugging Face folders in particular.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convert/families/families.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// Accepts the config fields that never change what a model computes.
void pass_over_harmless(ConfigFields& config);

// The head on top of the last hidden states, by the suffix of the transformers class.
enum class HeadKind {
  kNone,          // the hidden states are the results
  kCausal,        // logits of the next token
  kMasked,        // logits of each token, which may be masked
  kSequence,      // scores of classes for each sequence
  kTokens,        // ... for each token
  kAnswer,        // logits per token: the answer begins, or ends, there
  kChoice,        // one score per sequence; sequences are choices
  kNextSentence,  // whether the second text of a pair follows the first
  kPreTraining,   // the family's pre-training heads
  kDouble,        // two results
};

// Returns the head that `architectures` names, if any. Throws UnsupportedError for an unknown
// class.
std::optional<HeadKind> read_head_kind(ConfigFields& config);

// Reads the activation that `field` names. Throws InputError for an unknown one.
Activation read_activation(ConfigFields& config, const std::string& field,
                           const std::string& fallback);

// A size field of configs: its name, the default of the transformers package (0: required), and an
// alternative name that other families use.
struct SizeField {
  const char* name;
  uint32_t fallback = 0;
  const char* alias = nullptr;
};
uint32_t read_size(ConfigFields& config, const SizeField& field);

// Whether each layer has a window, as layer_types says, else as `otherwise` has it. Throws
// InputError for other types of layers.
std::vector<bool> windowed_layers(ConfigFields& config, std::vector<bool> otherwise);

// ---- any reader ----

Presence stored_if(bool condition);

// Ranges of distances from a query to a key that share a row of a table of biases: the first half
// of the rows are one distance each, the others grow up to the farthest. Unless causal, one half of
// the rows is for keys before the query, the other for those after it.
struct DistanceRanges {
  uint32_t rows = 0;
  uint32_t farthest = 0;
  bool causal = false;
};
// Returns what the table [rows, heads] called `name` adds to scores, by distance up to
// spec.positions_max. Source: "Exploring the Limits of Transfer Learning with a Unified
// Text-to-Text Transformer" (Raffel et al. 2020).
std::vector<double> read_score_bias(ModelTensors& tensors, const std::string& name,
                                    const TransformerSpec& spec, const DistanceRanges& ranges);

// With a single token type, its embedding is the same for all tokens: adds it to the position
// embedding and drops it. REQUIRES: position_embedding is set.
void fold_single_type(TransformerSpec& spec);

// Accepts and ignores the tensor `name`, if present. Throws InputError unless it holds 0, 1, 2, ...
void pass_over_position_ids(ModelTensors& tensors, const std::string& name);

// Throws InputError if `asked` differs from the model's own pooling `found`.
void check_pooling(std::optional<PoolingChoice> asked, PoolingChoice found,
                   const std::string& where);

// Reads the class names of config field id2label; empty if the field is absent. Throws InputError
// unless its keys are exactly 0 to classes - 1.
std::vector<std::string> read_labels(ConfigFields& config, uint32_t classes);

// ---- quantized folders ----

// Returns the tensors of a folder whose checkpoint another program may have quantized. Each
// quantized layer becomes one weight matrix of plain name and shape that can also load its integers
// and scales, so that families read it like any model:
//   fc.qweight, fc.qzeros, fc.scales, fc.g_idx  ->  fc.weight [outputs, inputs]
// Returns the tensors unchanged if the config does not mention quantization. Throws InputError,
// also for unsupported schemes, which it names.
TensorStore with_whole_weights(const Opened& model);

// Ignores zero biases that some quantizers save with each layer although the model has none.
// REQUIRES: all other tensors are taken.
void pass_over_zero_biases(ModelTensors& tensors);

}  // namespace arenite::convert
