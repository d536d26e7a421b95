// SPDX-License-Identifier: Apache-2.0
// DistilBERT: BERT with names of its own, without token types and pooler. Sinusoidal positions are
// stored like learned ones.
#include <string>

#include "convert/families/encoder_parts.h"
#include "convert/families/hf_encoder.h"
#include "convert/families/hf_fields.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr double kEpsilon = 1e-12;

EncoderLayerSpec read_layer(ModelTensors& tensors, const EncoderSpec& spec,
                            const std::string& name) {
  const uint32_t width = spec.model_dim;
  const auto linear = [&](const char* part, uint32_t outputs, uint32_t inputs) {
    return tensors.linear(name + part, outputs, inputs, Presence::kRequired);
  };
  EncoderLayerSpec layer;
  layer.query = linear("attention.q_lin", width, width);
  layer.key = linear("attention.k_lin", width, width);
  layer.value = linear("attention.v_lin", width, width);
  layer.output = linear("attention.out_lin", width, width);
  layer.attention_norm = tensors.layer_norm(name + "sa_layer_norm", width, kEpsilon);
  layer.up = linear("ffn.lin1", spec.ffn_dim, width);
  layer.down = linear("ffn.lin2", width, spec.ffn_dim);
  layer.mlp_norm = tensors.layer_norm(name + "output_layer_norm", width, kEpsilon);
  return layer;
}

}  // namespace

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
    spec.layers.push_back(
        read_layer(tensors, spec, fmt::format("{}transformer.layer.{}.", prefix, i)));
  }
  return spec;
}

}  // namespace arenite::convert
