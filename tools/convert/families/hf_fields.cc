// SPDX-License-Identifier: Apache-2.0
// The table of config fields that may be passed over, each with its reason, those that may have one
// value only, and the two ends of a model, which all families store alike.
#include "convert/families/hf_fields.h"

#include "convert/families/hf_common.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Fields that do not change what a decoder computes, by the reason why not.
constexpr const char* kHarmless[] = {
    // What the Python call returns.
    "is_decoder",
    // The tensors say it themselves: a bias that nobody asked for is refused.
    "attention_bias",
    "mlp_bias",
    // Says from which layer on the windows are that another field asks for.
    "max_window_layers",
    // Of heads other than the language model's, whose tensors would be refused.
    "classifier_dropout",
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
};

// The ids that `field` names. null says that there are none, which is not the same as its absence.
std::vector<uint32_t> token_ids(ConfigFields& config, const char* field,
                                const std::optional<uint32_t>& absent) {
  if (config.has(field) || config.is_null(field) || !absent) return config.ids(field);
  return {*absent};
}

}  // namespace

void take_common_fields(ConfigFields& config, DecoderSpec& spec, const TokenDefaults& tokens) {
  pass_over_harmless(config);
  for (const char* field : kHarmless) config.pass_over(field);
  config.expect("is_encoder_decoder", false, "only decoders are read");
  config.expect("add_cross_attention", false, "attention over another sequence is not supported");
  config.expect("tie_encoder_decoder", false, "only decoders are read");
  config.expect("pruned_heads", nlohmann::json::object(), "pruned heads are not supported");
  config.expect("chunk_size_feed_forward", 0, "the feed-forward layer is not cut into chunks");
  const std::optional<ConfigFields> quantization = config.object("quantization_config");
  if (quantization && quantization->size() > 0) {
    config.refuse("quantization_config",
                  "quantized checkpoints are not read; convert the original weights");
  }

  config.expect("is_causal", true, "only causal decoders are read");
  config.expect("use_bidirectional_attention", false, "only causal decoders are read");

  // An id beyond the vocabulary never comes up; small models keep those of larger ones.
  for (const uint32_t id : token_ids(config, "bos_token_id", tokens.bos)) {
    if (id < spec.vocab_size) spec.bos_id = id;
  }
  for (const uint32_t id : token_ids(config, "eos_token_id", tokens.eos)) {
    if (id < spec.vocab_size) spec.eos_ids.push_back(id);
  }
}

void finish_fields(const ConfigFields& config, DecoderSpec& spec) {
  const std::vector<std::string> passed_over = config.finish();
  if (passed_over.empty()) return;
  spec.notes.push_back(
      fmt::format("passed over, as they are false or empty: {}", fmt::join(passed_over, ", ")));
}

void expect_layer_types(ConfigFields& config, const char* expected) {
  for (const std::string& type : config.texts("layer_types")) {
    if (type == expected) continue;
    config.refuse("layer_types",
                  fmt::format("expected {} alone, as in all layers of this model", expected));
  }
}

std::string prefix_of(const ModelTensors& tensors, const std::string& prefix,
                      const std::string& embedding) {
  return tensors.has(embedding) && !tensors.has(prefix + embedding) ? "" : prefix;
}

void read_embedding_and_head(ModelTensors& tensors, DecoderSpec& spec, const HeadNames& names,
                             bool is_tied, Presence head_bias) {
  const std::string embedding = names.prefix + names.embedding;
  const std::string head = names.head + ".weight";
  if (is_tied) {
    spec.token_embedding = tensors.tied_embedding(embedding, head, spec.vocab_size, spec.model_dim);
  } else {
    spec.token_embedding = tensors.matrix(embedding, spec.vocab_size, spec.model_dim);
  }
  spec.is_headless = names.prefix.empty() && !tensors.has(head) && !is_tied;
  if (spec.is_headless) return;
  const bool may_lack_bias = names.prefix.empty() && head_bias == Presence::kRequired;
  const std::vector<float> bias = tensors.vector(names.head + ".bias", spec.vocab_size,
                                                 may_lack_bias ? Presence::kIfStored : head_bias);
  if (!is_tied) {
    spec.output = {tensors.matrix(head, spec.vocab_size, spec.model_dim), bias};
  } else if (!bias.empty()) {
    spec.output = {spec.token_embedding, bias};
  }
}

void check_sizes(const DecoderSpec& spec, size_t layers, const std::string& where) {
  if (layers > kLayersMax) {
    throw InputError("{}: {} layers: at most {} are accepted", where, layers, kLayersMax);
  }
  if (uint64_t{spec.heads} * spec.head_dim > kSideMax) {
    throw InputError("{}: {} heads of {} elements: at most {} elements together are accepted",
                     where, spec.heads, spec.head_dim, kSideMax);
  }
  if (spec.heads % spec.kv_heads != 0) {
    throw InputError("{}: {} query heads cannot share {} key/value heads: expected a divisor",
                     where, spec.heads, spec.kv_heads);
  }
}

}  // namespace arenite::convert
