// SPDX-License-Identifier: Apache-2.0
// BERT and those with its names: RoBERTa counts positions from behind its padding token, ELECTRA
// may have embeddings of another width than its layers.
#include <string>

#include "convert/encoders/encoder_parts.h"
#include "convert/encoders/hf_encoder.h"
#include "convert/error.h"
#include "convert/models/hf_common.h"

namespace arenite::convert {
namespace {

// Checkpoints converted from BERT's first program call gain and bias gamma and beta.
NormSpec layer_norm(ModelTensors& tensors, const std::string& name, uint32_t features,
                    double epsilon) {
  if (!tensors.has(name + ".gamma")) return tensors.layer_norm(name, features, epsilon);
  return {.name = name + ".gamma",
          .kind = NormKind::kLayer,
          .gain = tensors.vector(name + ".gamma", features),
          .bias = tensors.vector(name + ".beta", features),
          .epsilon = epsilon};
}

EncoderLayerSpec read_layer(ModelTensors& tensors, const EncoderSpec& spec, double epsilon,
                            const std::string& name) {
  const uint32_t width = spec.model_dim;
  const auto linear = [&](const char* part, uint32_t outputs, uint32_t inputs) {
    return tensors.linear(name + part, outputs, inputs, Presence::kRequired);
  };
  EncoderLayerSpec layer;
  layer.query = linear("attention.self.query", width, width);
  layer.key = linear("attention.self.key", width, width);
  layer.value = linear("attention.self.value", width, width);
  layer.output = linear("attention.output.dense", width, width);
  layer.attention_norm = layer_norm(tensors, name + "attention.output.LayerNorm", width, epsilon);
  layer.up = linear("intermediate.dense", spec.ffn_dim, width);
  layer.down = linear("output.dense", width, spec.ffn_dim);
  layer.mlp_norm = layer_norm(tensors, name + "output.LayerNorm", width, epsilon);
  return layer;
}

// Rows of the position table that no token uses.
uint32_t read_position_offset(ConfigFields& config, const std::string& model_type, uint32_t rows) {
  if (model_type != "roberta" && model_type != "xlm-roberta") return 0;
  const uint32_t offset = config.count("pad_token_id", 1, 0) + 1;
  if (offset >= rows) {
    config.refuse(
        "max_position_embeddings",
        fmt::format("expected more than {}, as positions count from behind pad_token_id", offset));
  }
  return offset;
}

}  // namespace

EncoderSpec read_hf_bert(ConfigFields& config, ModelTensors& tensors, const std::string& model_type,
                         const std::string& prefix) {
  EncoderSpec spec;
  spec.architecture = model_type;
  spec.vocab_size = config.count("vocab_size");
  spec.model_dim = config.count("hidden_size");
  spec.ffn_dim = config.count("intermediate_size");
  spec.token_types = config.count("type_vocab_size", 2);
  spec.activation = read_activation(config, "hidden_act", "gelu");
  const uint32_t layers = config.count("num_hidden_layers");
  set_heads(spec, config.count("num_attention_heads"), layers, config.where());
  const uint32_t position_rows = config.count("max_position_embeddings", 512);
  spec.position_offset = read_position_offset(config, model_type, position_rows);
  spec.positions_max = position_rows - spec.position_offset;
  const double epsilon = config.positive("layer_norm_eps", 1e-12);
  const bool is_electra = model_type == "electra";
  const uint32_t width = is_electra ? config.count("embedding_size", 128) : spec.model_dim;

  const std::string embeddings = prefix + "embeddings.";
  spec.token_embedding =
      tensors.matrix(embeddings + "word_embeddings.weight", spec.vocab_size, width);
  spec.position_embedding =
      tensors.matrix(embeddings + "position_embeddings.weight", position_rows, width);
  spec.type_embedding =
      tensors.matrix(embeddings + "token_type_embeddings.weight", spec.token_types, width);
  fold_single_type(spec);
  spec.embedding_norm = layer_norm(tensors, embeddings + "LayerNorm", width, epsilon);
  if (width != spec.model_dim) {
    spec.input =
        tensors.linear(prefix + "embeddings_project", spec.model_dim, width, Presence::kRequired);
  }
  for (uint32_t i = 0; i < layers; ++i) {
    spec.layers.push_back(
        read_layer(tensors, spec, epsilon, fmt::format("{}encoder.layer.{}.", prefix, i)));
  }
  return spec;
}

}  // namespace arenite::convert
