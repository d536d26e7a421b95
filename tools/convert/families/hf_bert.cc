// SPDX-License-Identifier: Apache-2.0
// BERT and those with its names: RoBERTa counts positions from its padding token on, ELECTRA
// may have embeddings of another width than its layers. DistilBERT has names of its own, and
// neither token types nor a pooler.
#include "convert/families/hf_models.h"

#include <string>

#include "convert/families/reader_parts.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// The parts of a layer.
struct BertLayerNames {
  const char *query, *key, *value, *output, *attention_norm, *up, *down, *mlp_norm;
};
constexpr BertLayerNames kBert = {.query = "attention.self.query",
                                  .key = "attention.self.key",
                                  .value = "attention.self.value",
                                  .output = "attention.output.dense",
                                  .attention_norm = "attention.output.LayerNorm",
                                  .up = "intermediate.dense",
                                  .down = "output.dense",
                                  .mlp_norm = "output.LayerNorm"};
constexpr BertLayerNames kDistilBert = {.query = "attention.q_lin",
                                        .key = "attention.k_lin",
                                        .value = "attention.v_lin",
                                        .output = "attention.out_lin",
                                        .attention_norm = "sa_layer_norm",
                                        .up = "ffn.lin1",
                                        .down = "ffn.lin2",
                                        .mlp_norm = "output_layer_norm"};

constexpr double kEpsilon = 1e-12;

LayerSpec read_layer(ModelTensors& tensors, const EncoderSpec& spec, double epsilon,
                     const std::string& prefix, const BertLayerNames& names) {
  const uint32_t width = spec.model_dim;
  const auto linear = [&](const char* part, uint32_t outputs, uint32_t inputs) {
    return tensors.linear(prefix + part, outputs, inputs, Presence::kRequired);
  };
  LayerSpec layer;
  layer.query = linear(names.query, width, width);
  layer.key = linear(names.key, width, width);
  layer.value = linear(names.value, width, width);
  layer.output = linear(names.output, width, width);
  layer.attention_norm = read_hf_layer_norm(tensors, prefix + names.attention_norm, width, epsilon);
  layer.up = linear(names.up, spec.ffn_dim, width);
  layer.down = linear(names.down, width, spec.ffn_dim);
  layer.mlp_norm = read_hf_layer_norm(tensors, prefix + names.mlp_norm, width, epsilon);
  return layer;
}

// RoBERTa's padding token has the row of its id in the table of positions; the others count from
// after it.
void read_padding(ConfigFields& config, uint32_t position_rows, EncoderSpec& spec) {
  if (spec.architecture != "roberta" && spec.architecture != "xlm-roberta") return;
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

}  // namespace

EncoderSpec read_hf_bert(ConfigFields& config, ModelTensors& tensors, const std::string& model_type,
                         const std::string& prefix) {
  // What is absent has the default of the family's class in transformers.
  const bool is_electra = model_type == "electra";
  const bool is_roberta = model_type == "roberta";
  EncoderSpec spec;
  spec.architecture = model_type;
  spec.vocab_size = config.count("vocab_size", is_roberta ? 50265 : 30522);
  spec.model_dim = config.count("hidden_size", is_electra ? 256 : 768);
  spec.ffn_dim = config.count("intermediate_size", is_electra ? 1024 : 3072);
  spec.token_types = config.count("type_vocab_size", 2);
  spec.activation = read_activation(config, "hidden_act", "gelu");
  const uint32_t layers = config.count("num_hidden_layers", 12);
  set_heads(spec, config.count("num_attention_heads", is_electra ? 4 : 12), layers, config.where());
  const uint32_t position_rows = config.count("max_position_embeddings", 512);
  read_padding(config, position_rows, spec);
  spec.positions_max = position_rows - spec.position_offset;
  const double epsilon = config.positive("layer_norm_eps", kEpsilon);
  const uint32_t width = is_electra ? config.count("embedding_size", 128) : spec.model_dim;

  const std::string embeddings = prefix + "embeddings.";
  spec.token_embedding =
      tensors.matrix(embeddings + "word_embeddings.weight", spec.vocab_size, width);
  spec.position_embedding =
      tensors.matrix(embeddings + "position_embeddings.weight", position_rows, width);
  spec.type_embedding =
      tensors.matrix(embeddings + "token_type_embeddings.weight", spec.token_types, width);
  fold_single_type(spec);
  spec.embedding_norm = read_hf_layer_norm(tensors, embeddings + "LayerNorm", width, epsilon);
  if (width != spec.model_dim) {
    spec.input =
        tensors.linear(prefix + "embeddings_project", spec.model_dim, width, Presence::kRequired);
  }
  for (uint32_t i = 0; i < layers; ++i) {
    spec.layers.push_back(
        read_layer(tensors, spec, epsilon, fmt::format("{}encoder.layer.{}.", prefix, i), kBert));
  }
  return spec;
}

EncoderSpec read_hf_distilbert(ConfigFields& config, ModelTensors& tensors,
                               const std::string& prefix) {
  EncoderSpec spec;  // what is absent has the default of DistilBertConfig
  spec.architecture = "distilbert";
  spec.vocab_size = config.count("vocab_size", 30522);
  spec.model_dim = config.count("dim", 768);
  spec.ffn_dim = config.count("hidden_dim", 3072);
  spec.positions_max = config.count("max_position_embeddings", 512);
  spec.activation = read_activation(config, "activation", "gelu");
  const uint32_t layers = config.count("n_layers", 6);
  set_heads(spec, config.count("n_heads", 12), layers, config.where());
  for (const char* field :
       {"dropout", "qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_"}) {
    config.pass_over(field);  // training, and how tables were filled
  }

  const std::string embeddings = prefix + "embeddings.";
  spec.token_embedding =
      tensors.matrix(embeddings + "word_embeddings.weight", spec.vocab_size, spec.model_dim);
  spec.position_embedding =
      tensors.matrix(embeddings + "position_embeddings.weight", spec.positions_max, spec.model_dim);
  spec.embedding_norm = tensors.layer_norm(embeddings + "LayerNorm", spec.model_dim, kEpsilon);
  for (uint32_t i = 0; i < layers; ++i) {
    spec.layers.push_back(read_layer(
        tensors, spec, kEpsilon, fmt::format("{}transformer.layer.{}.", prefix, i), kDistilBert));
  }
  return spec;
}

}  // namespace arenite::convert
