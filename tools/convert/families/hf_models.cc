// SPDX-License-Identifier: Apache-2.0
// Chooses the family of a decoder or an encoder by model_type, and takes the config fields that all
// encoders have.
#include "convert/families/hf_models.h"

#include <utility>

#include "convert/families/hf_quantized.h"
#include "convert/families/reader_parts.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

struct HfDecoder {
  const char* model_type;
  HfDecoderReader* read;
};

constexpr HfDecoder kDecoders[] = {
    {"gpt2", read_hf_gpt2},     {"gpt_neox", read_hf_gpt_neox}, {"phi", read_hf_phi},
    {"bloom", read_hf_bloom},   {"mpt", read_hf_mpt},           {"llama", read_hf_llama},
    {"mistral", read_hf_llama}, {"qwen2", read_hf_llama},       {"qwen3", read_hf_llama},
    {"gemma", read_hf_llama},
};

// What a model with a head puts in front of its encoder's names.
constexpr std::pair<std::string_view, const char*> kTypes[] = {
    {"bert", "bert."},           {"distilbert", "distilbert."}, {"roberta", "roberta."},
    {"xlm-roberta", "roberta."}, {"electra", "electra."},
};

// Fields that do not change what an encoder computes, by the reason why not.
constexpr const char* kHarmlessOfModels[] = {
    // Act in training only.
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "hidden_dropout_prob",
    "label2id",
    "problem_type",
    // Of decoders and language heads.
    "bos_token_id",
    "cross_attention_hidden_size",
    "eos_token_id",
    "tie_word_embeddings",
    // Of the pooler of BERT's first program; transformers has one kind only.
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    // Of ELECTRA's head for multiple choice, which checks them.
    "summary_activation",
    "summary_first_dropout",
    "summary_last_dropout",
    "summary_type",
    "summary_use_proj",
    // Same result in exact arithmetic.
    "chunk_size_feed_forward",
};

void take_common_fields(ConfigFields& config) {
  pass_over_harmless(config);
  for (const char* field : kHarmlessOfModels) config.pass_over(field);
  config.expect("is_decoder", false, "a causal one is not an encoder");
  config.expect("is_causal", false, "a causal one is not an encoder");
  config.expect("add_cross_attention", false, "attention over another sequence is not supported");
  config.expect("is_encoder_decoder", false, "only encoders are read");
  config.expect("tie_encoder_decoder", false, "only encoders are read");
  config.expect("position_embedding_type", "absolute", "relative positions are not supported");
  config.expect("pruned_heads", json::object(), "pruned heads are not supported");
}

const char* prefix_of(ConfigFields& config, const std::string& type) {
  for (const auto& [known_type, prefix] : kTypes) {
    if (type == known_type) return prefix;
  }
  config.refuse("model_type", "expected one of " + encoder_types());
}

void check_options(const ModelOptions& options, const EncoderSpec& spec, const std::string& where) {
  check_said(options, spec.heads, spec.activation, where);
  if (options.norm_first && *options.norm_first != spec.norm_first) {
    throw InputError(
        "{}: norms before attention and MLP were asked for, but models of type {} have them "
        "after it: drop the option",
        where, quote(spec.architecture));
  }
}

}  // namespace

std::string encoder_types() {
  std::string types;
  for (const auto& [type, prefix] : kTypes) {
    types += fmt::format("{}{}", types.empty() ? "" : ", ", type);
  }
  return types;
}

bool is_encoder_type(std::string_view model_type) {
  for (const auto& [known_type, prefix] : kTypes) {
    if (model_type == known_type) return true;
  }
  return false;
}

EncoderSpec read_hf_encoder(const Opened& model, const ModelOptions& options, HeadUse head_use) {
  ConfigFields config = model.config_fields();
  const TensorStore store = with_whole_weights(model);
  ModelTensors tensors(store);
  const std::string type = config.text("model_type");
  const std::string head_prefix = prefix_of(config, type);
  const bool is_alone = tensors.has("embeddings.word_embeddings.weight");
  const std::string prefix = is_alone ? "" : head_prefix;
  take_common_fields(config);
  EncoderSpec spec = type == "distilbert" ? read_hf_distilbert(config, tensors, prefix)
                                          : read_hf_bert(config, tensors, type, prefix);
  pass_over_position_ids(tensors, prefix + "embeddings.position_ids");
  tensors.pass_over(prefix + "embeddings.token_type_ids");  // zeros, for callers who give none
  read_hf_head(config, tensors, type, prefix, options, head_use, spec);
  check_options(options, spec, config.where());
  config.finish();
  pass_over_zero_biases(tensors);
  tensors.finish();
  return spec;
}

std::string decoder_types() {
  std::string types;
  for (const HfDecoder& decoder : kDecoders) {
    types += fmt::format("{}{}", types.empty() ? "" : ", ", decoder.model_type);
  }
  return types;
}

DecoderSpec read_hf_decoder(const Opened& model) {
  ConfigFields config = model.config_fields();
  const std::string type = config.text("model_type");
  for (const HfDecoder& decoder : kDecoders) {
    if (type != decoder.model_type) continue;
    const TensorStore store = with_whole_weights(model);
    ModelTensors tensors(store);
    DecoderSpec spec = decoder.read(config, tensors, type);
    note_passed_over(config.finish(), spec);
    pass_over_buffers(tensors);
    pass_over_zero_biases(tensors);
    tensors.finish();
    return spec;
  }
  config.refuse("model_type", fmt::format("expected a decoder ({}) or an encoder ({})",
                                          decoder_types(), encoder_types()));
}

}  // namespace arenite::convert
