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

// The ids of a family whose config does not name any, as the transformers package has them.
struct TokenDefaults {
  std::optional<uint32_t> bos{};
  std::optional<uint32_t> eos{};
};

// Takes the fields that do not change what a decoder computes, refuses settings that do and are not
// supported, and sets bos_id and eos_ids. REQUIRES: vocab_size is set.
void take_common_fields(ConfigFields& config, TransformerSpec& spec, const TokenDefaults& tokens);

// A size that configs may also call as those of other families do.
uint32_t read_size(ConfigFields& config, const char* name, const char* alias,
                   std::optional<uint32_t> fallback = {});

// Where the weights of a model begin: `prefix`, or nothing when it was saved without its head, and
// `embedding`, the name of its token embedding, tells.
std::string prefix_of(const ModelTensors& tensors, const std::string& prefix,
                      const std::string& embedding);

// Names of the embedding without its prefix, and of the head.
struct HeadNames {
  std::string prefix, embedding, head;
};

// Sets token_embedding, and either output, or nothing for a tied model, or is_headless for one of a
// class without a head (HeadKind::kNone); where no class is said, for one without its tensors.
void read_embedding_and_head(ConfigFields& config, ModelTensors& tensors, TransformerSpec& spec,
                             const HeadNames& names, bool is_tied,
                             Presence head_bias = Presence::kNone);

// Adds pooling, head and labels to `spec`, read by read_hf_*.
void read_hf_head(ConfigFields& config, ModelTensors& tensors, const std::string& model_type,
                  const std::string& prefix, const ModelOptions& options, HeadUse head_use,
                  TransformerSpec& spec);

// Adds the head that guesses tokens, for each row. Returns false, and adds nothing, where the
// weights have none. `prefix` is the encoder's.
bool read_hf_language_head(ConfigFields& config, ModelTensors& tensors,
                           const std::string& model_type, const std::string& prefix,
                           TransformerSpec& spec);

// ---- any reader ----

// Sets heads and head_dim, and throws InputError for sizes that do not go together. Sizes that
// nothing is read for yet never get further than this. REQUIRES: model_dim is set.
void set_heads(TransformerSpec& spec, uint32_t heads, size_t layers, const std::string& where);

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

// Passes over the buffers that carry no weights, by the end of their names, once what they say is
// checked: throws InputError for a mask that is not causal.
void pass_over_buffers(ModelTensors& tensors);

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

// ---- sentence-transformers ----

// The config of each module of a sentence-transformers folder, in the forms that the library's
// versions 1 to 6 write. All throw InputError for what is not known or not supported.

// What becomes of texts before the transformer.
struct TextSettings {
  uint32_t tokens_max = 0;   // the library cuts longer texts off; at most the transformer's
  bool lowers_case = false;  // whatever the tokenizer does by itself
};

// Of the module Transformer in `folder`; `positions_max` is what its encoder can take.
TextSettings read_text_settings(const std::filesystem::path& folder, uint32_t positions_max);

// The poolings whose rows stand side by side, at least one, each as wide as `width`.
std::vector<SelectKind> read_pooling_modes(const std::filesystem::path& folder, uint32_t width);

// Of modules after the pooling; `width` is that of the row that they take.
HeadStepSpec read_dense(const std::filesystem::path& folder, uint32_t width);
HeadStepSpec read_layer_norm_module(const std::filesystem::path& folder, uint32_t width);
HeadStepSpec read_normalize(const std::filesystem::path& folder);

// What the folder as a whole says, where it says anything: that it is a model of one vector for
// each text, and that nothing is put before texts unasked.
void check_model_config(const std::filesystem::path& folder);

}  // namespace arenite::convert
