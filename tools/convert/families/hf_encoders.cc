// SPDX-License-Identifier: Apache-2.0
// Encoders of transformers: a row for each family. RoBERTa counts positions from its padding token
// on, ELECTRA may have embeddings of another width than its layers, and DistilBERT has names of its
// own, and neither token types nor a pooler. Their heads are in hf_head.cc.
#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "convert/families/hf_models.h"
#include "convert/files/error.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

constexpr LayerNames kBert = {.attention_norm = "attention.output.LayerNorm",
                              .mlp_norm = "output.LayerNorm",
                              .query = "attention.self.query",
                              .key = "attention.self.key",
                              .value = "attention.self.value",
                              .output = "attention.output.dense",
                              .up = "intermediate.dense",
                              .down = "output.dense"};
constexpr LayerNames kDistilBert = {.attention_norm = "sa_layer_norm",
                                    .mlp_norm = "output_layer_norm",
                                    .query = "attention.q_lin",
                                    .key = "attention.k_lin",
                                    .value = "attention.v_lin",
                                    .output = "attention.out_lin",
                                    .up = "ffn.lin1",
                                    .down = "ffn.lin2"};

// Training, and how tables were filled.
constexpr const char* kHarmlessOfDistilBert[] = {"dropout", "qa_dropout", "seq_classif_dropout",
                                                 "sinusoidal_pos_embds", "tie_weights_"};

// A size of the config, and what the transformers package takes where it is absent.
struct SizeField {
  const char* name;
  uint32_t fallback;
};

struct EncoderFamily {
  const char* model_type;
  const char* prefix;  // what a model with a head puts in front of its encoder's names
  const LayerNames* layer = &kBert;
  const char* list = "encoder.layer.";

  uint32_t vocab_size = 30522;
  SizeField width = {"hidden_size", 768};
  SizeField ffn = {"intermediate_size", 3072};
  SizeField heads = {"num_attention_heads", 12};
  SizeField layers = {"num_hidden_layers", 12};
  const char* activation = "hidden_act";
  uint32_t embedding_size = 0;  // 0: as wide as the layers, and no field says otherwise
  bool has_types = true;
  bool has_epsilon_field = true;
  bool counts_from_padding = false;
  std::span<const char* const> harmless{};  // fields of its config that change nothing
};

constexpr EncoderFamily kEncoders[] = {
    {.model_type = "bert", .prefix = "bert."},
    {.model_type = "distilbert",
     .prefix = "distilbert.",
     .layer = &kDistilBert,
     .list = "transformer.layer.",
     .width = {"dim", 768},
     .ffn = {"hidden_dim", 3072},
     .heads = {"n_heads", 12},
     .layers = {"n_layers", 6},
     .activation = "activation",
     .has_types = false,
     .has_epsilon_field = false,
     .harmless = kHarmlessOfDistilBert},
    {.model_type = "roberta",
     .prefix = "roberta.",
     .vocab_size = 50265,
     .counts_from_padding = true},
    {.model_type = "xlm-roberta", .prefix = "roberta.", .counts_from_padding = true},
    {.model_type = "electra",
     .prefix = "electra.",
     .width = {"hidden_size", 256},
     .ffn = {"intermediate_size", 1024},
     .heads = {"num_attention_heads", 4},
     .embedding_size = 128},
};

const EncoderFamily* encoder_family(std::string_view model_type) {
  const auto* const found = std::ranges::find_if(
      kEncoders, [&](const EncoderFamily& family) { return family.model_type == model_type; });
  return found == std::end(kEncoders) ? nullptr : found;
}

// Fields that do not change what an encoder computes, by the reason why not.
constexpr const char* kHarmlessOfModels[] = {
    // Act in training only.
    "attention_probs_dropout_prob", "classifier_dropout", "hidden_dropout_prob", "label2id",
    "problem_type",
    // Of decoders and language heads.
    "bos_token_id", "cross_attention_hidden_size", "eos_token_id", "tie_word_embeddings",
    // Of the pooler of BERT's first program; transformers has one kind only.
    "directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type",
    // Of ELECTRA's head for multiple choice, which checks them.
    "summary_activation", "summary_first_dropout", "summary_last_dropout", "summary_type",
    "summary_use_proj",
    // Same result in exact arithmetic.
    "chunk_size_feed_forward"};

void take_encoder_fields(ConfigFields& config) {
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

// RoBERTa's padding token has the row of its id in the table of positions; the others count from
// after it.
void read_padding(ConfigFields& config, uint32_t position_rows, TransformerSpec& spec) {
  const uint32_t id = config.count("pad_token_id", 1, 0);
  if (id >= spec.vocab_size) {
    config.refuse("pad_token_id", fmt::format("expected one of {} tokens", spec.vocab_size));
  }
  if (id + 1 >= position_rows) {
    config.refuse(
        "max_position_embeddings",
        fmt::format("expected more than {}, as positions count from pad_token_id on", id + 1));
  }
  spec.padding_id = id;
  spec.position_offset = id + 1;
}

TransformerSpec read_encoder(ConfigFields& config, ModelTensors& tensors,
                             const EncoderFamily& family, const std::string& prefix) {
  const auto count = [&](const SizeField& field) {
    return config.count(field.name, field.fallback);
  };
  constexpr double kEpsilon = 1e-12;
  for (const char* field : family.harmless) config.pass_over(field);
  TransformerSpec spec;
  spec.architecture = family.model_type;
  spec.vocab_size = config.count("vocab_size", family.vocab_size);
  spec.model_dim = count(family.width);
  spec.ffn_dim = count(family.ffn);
  spec.activation = read_activation(config, family.activation, "gelu");
  const uint32_t layers = count(family.layers);
  set_heads(spec, count(family.heads), layers, config.where());
  const uint32_t position_rows = config.count("max_position_embeddings", 512);
  if (family.counts_from_padding) read_padding(config, position_rows, spec);
  spec.positions_max = position_rows - spec.position_offset;
  const double epsilon =
      family.has_epsilon_field ? config.positive("layer_norm_eps", kEpsilon) : kEpsilon;
  const uint32_t width = family.embedding_size == 0
                             ? spec.model_dim
                             : config.count("embedding_size", family.embedding_size);

  const std::string embeddings = prefix + "embeddings.";
  spec.token_embedding =
      tensors.matrix(embeddings + "word_embeddings.weight", spec.vocab_size, width);
  spec.position_embedding =
      tensors.matrix(embeddings + "position_embeddings.weight", position_rows, width);
  if (family.has_types) {
    spec.token_types = config.count("type_vocab_size", 2);
    spec.type_embedding =
        tensors.matrix(embeddings + "token_type_embeddings.weight", spec.token_types, width);
    fold_single_type(spec);
  }
  spec.embedding_norm = tensors.norm(embeddings + "LayerNorm", width, epsilon);
  if (width != spec.model_dim) {
    spec.input =
        tensors.linear(prefix + "embeddings_project", spec.model_dim, width, Presence::kRequired);
  }
  read_layers(tensors, spec, *family.layer, {.epsilon = epsilon, .windows = {}},
              prefix + family.list, layers);
  return spec;
}

void check_options(const ModelOptions& options, const TransformerSpec& spec,
                   const std::string& where) {
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
  for (const EncoderFamily& family : kEncoders) {
    types += fmt::format("{}{}", types.empty() ? "" : ", ", family.model_type);
  }
  return types;
}

bool is_encoder_type(std::string_view model_type) { return encoder_family(model_type) != nullptr; }

TransformerSpec read_hf_encoder(const Opened& model, const ModelOptions& options,
                                HeadUse head_use) {
  ConfigFields config = model.config_fields();
  const TensorStore store = with_whole_weights(model);
  ModelTensors tensors(store);
  const std::string type = config.text("model_type");
  const EncoderFamily* const family = encoder_family(type);
  if (family == nullptr) config.refuse("model_type", "expected one of " + encoder_types());
  const bool is_alone = tensors.has("embeddings.word_embeddings.weight");
  const std::string prefix = is_alone ? "" : family->prefix;
  take_encoder_fields(config);
  TransformerSpec spec = read_encoder(config, tensors, *family, prefix);
  pass_over_position_ids(tensors, prefix + "embeddings.position_ids");
  tensors.pass_over(prefix + "embeddings.token_type_ids");  // zeros, for callers who give none
  read_hf_head(config, tensors, type, prefix, options, head_use, spec);
  check_options(options, spec, config.where());
  config.finish();
  pass_over_zero_biases(tensors);
  tensors.finish();
  return spec;
}

}  // namespace arenite::convert
