// SPDX-License-Identifier: Apache-2.0
// What the readers of models share, and the parts that those of Hugging Face are made of.
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

// Passes over the fields that never change what a model computes.
void pass_over_harmless(ConfigFields& config);

// What a class of transformers makes of the last hidden states, by the end of its name.
enum class HeadKind {
  kNone,          // nothing: they are the results
  kCausal,        // logits of the next token
  kMasked,        // logits of each token, which may be masked
  kSequence,      // scores of classes for each sequence
  kTokens,        // ... for each token
  kAnswer,        // for each token, how likely an answer begins and ends there
  kChoice,        // a score for each sequence, which are choices
  kNextSentence,  // whether the second text of a pair follows the first
  kPreTraining,   // what the family was first trained for
  kDouble,        // two results
};

// The one that `architectures` names, if it names any. Throws UnsupportedError for another class.
std::optional<HeadKind> read_head_kind(ConfigFields& config);

// The activation that `field` names. Throws InputError for one that is not known.
Activation read_activation(ConfigFields& config, const std::string& field,
                           const std::string& fallback);

// A size by its name in configs, what the transformers package takes where it is absent (0: it must
// be there), and its name in other families, which may stand there instead.
struct SizeField {
  const char* name;
  uint32_t fallback = 0;
  const char* alias = nullptr;
};
uint32_t read_size(ConfigFields& config, const SizeField& field);

// ---- any reader ----

// With a single token type its embedding is the same for all tokens: adds it to the position
// embedding and drops it. REQUIRES: position_embedding is set.
void fold_single_type(TransformerSpec& spec);

// Passes over the tensor `name`, if it is there. Throws InputError unless it holds 0, 1, 2, ...
void pass_over_position_ids(ModelTensors& tensors, const std::string& name);

// Throws InputError when `asked` is another pooling than `found`, the model's own.
void check_pooling(std::optional<PoolingChoice> asked, PoolingChoice found,
                   const std::string& where);

// What the config field id2label calls `classes` classes; empty when there is no such field. Throws
// InputError unless its keys are exactly 0 to classes - 1.
std::vector<std::string> read_labels(ConfigFields& config, uint32_t classes);

// ---- quantized folders ----

// Checkpoints that another program has quantized: what families then see is a model whose layers
// have plain names and shapes, and weights that know their integers. These are the tensors of
// `model`, with one matrix for what a quantized layer has instead of its weight.
// They are as they were where the config says nothing of quantization. Throws InputError, also for
// schemes that are not taken over, by their names.
TensorStore with_whole_weights(const Opened& model);

// Some programs save a bias of zeros with each layer that they quantize, though the model has none:
// passes over those that nobody took. REQUIRES: all others are taken.
void pass_over_zero_biases(ModelTensors& tensors);

}  // namespace arenite::convert
