// SPDX-License-Identifier: Apache-2.0
// Heads that guess hidden tokens: a layer, an activation and a norm, then one logit for each token
// of the vocabulary by a matrix that is the embedding itself where the config ties the two.
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "convert/families/encoder_parts.h"
#include "convert/families/hf_encoder.h"

namespace arenite::convert {
namespace {

struct LanguageHead {
  std::string_view model_type;
  const char* dense;
  const char* norm;
  const char* decoder;
  const char* bias;  // of the decoder; also stored as <decoder>.bias
  bool has_models_activation;
};

constexpr LanguageHead kHeads[] = {
    {"bert", "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
     "cls.predictions.decoder", "cls.predictions.bias", true},
    {"distilbert", "vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector.bias",
     true},
    {"roberta", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias", false},
    {"xlm-roberta", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias",
     false},
    {"electra", "generator_predictions.dense", "generator_predictions.LayerNorm",
     "generator_lm_head", "generator_lm_head.bias", false},
};

const LanguageHead* head_of(std::string_view model_type) {
  for (const LanguageHead& head : kHeads) {
    if (head.model_type == model_type) return &head;
  }
  return nullptr;
}

// DistilBERT has no field for it, and the same number.
double norm_epsilon(ConfigFields& config) { return config.positive("layer_norm_eps", 1e-12); }

// Tied biases are stored once or twice. Apart, the decoder's own is the one that counts.
std::vector<float> read_bias(ModelTensors& tensors, const LanguageHead& head, bool is_tied,
                             uint32_t tokens) {
  std::string first = head.bias;
  std::string second = std::string(head.decoder) + ".bias";
  if (!is_tied) std::swap(first, second);
  tensors.pass_over(second);
  return tensors.vector(tensors.has(first) || !tensors.has(second) ? first : second, tokens);
}

}  // namespace

bool read_hf_language_head(ConfigFields& config, ModelTensors& tensors,
                           const std::string& model_type, const std::string& prefix,
                           EncoderSpec& spec) {
  const LanguageHead* const head = head_of(model_type);
  if (head == nullptr || !tensors.has(std::string(head->dense) + ".weight")) return false;
  const uint32_t width = spec.token_embedding->columns;
  const std::string decoder = std::string(head->decoder) + ".weight";
  HeadStepSpec transform;
  transform.linear = tensors.linear(head->dense, width, spec.model_dim, Presence::kRequired);
  transform.activation = head->has_models_activation ? spec.activation : Activation::kGeluErf;
  transform.norm = read_hf_layer_norm(tensors, head->norm, width, norm_epsilon(config));
  HeadStepSpec logits;
  logits.is_token_embedding = config.flag("tie_word_embeddings", true);
  logits.linear.emplace();
  logits.linear->weight = logits.is_token_embedding
                              ? tensors.tied_embedding(prefix + "embeddings.word_embeddings.weight",
                                                       decoder, spec.vocab_size, width)
                              : tensors.matrix(decoder, spec.vocab_size, width);
  logits.linear->bias = read_bias(tensors, *head, logits.is_token_embedding, spec.vocab_size);
  spec.head = {std::move(transform), std::move(logits)};
  return true;
}

}  // namespace arenite::convert
