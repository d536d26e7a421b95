// SPDX-License-Identifier: Apache-2.0
#include "support/encoder_factory.h"

#include <stdexcept>
#include <utility>

#include "convert/families/families.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "support/random_weights.h"

namespace arenite::test {
namespace {

using convert::LayerSpec;
using convert::TransformerSpec;

LayerSpec layer(const EncoderShape& shape, uint32_t index) {
  const std::string prefix = "layers." + std::to_string(index) + ".";
  const uint32_t dim = shape.model_dim;
  LayerSpec spec;
  spec.query = random_linear(prefix + "query", dim, dim, true);
  spec.key = random_linear(prefix + "key", dim, dim, true);
  spec.value = random_linear(prefix + "value", dim, dim, true);
  spec.output = random_linear(prefix + "output", dim, dim, true);
  spec.attention_norm = random_norm(prefix + "attention_norm", NormKind::kLayer, dim);
  spec.up = random_linear(prefix + "up", shape.ffn_dim, dim, true);
  spec.down = random_linear(prefix + "down", dim, shape.ffn_dim, true);
  spec.mlp_norm = random_norm(prefix + "mlp_norm", NormKind::kLayer, dim);
  spec.window = shape.window;
  return spec;
}

void add_language_head(TransformerSpec& spec) {
  const uint32_t width = spec.token_embedding->columns;
  convert::HeadStepSpec transform;
  transform.linear = random_linear("transform", width, spec.model_dim, true);
  transform.activation = Activation::kGeluErf;
  transform.norm = random_norm("transform_norm", NormKind::kLayer, width);
  convert::HeadStepSpec logits;
  logits.linear = random_linear("logits", spec.vocab_size, width, true);
  logits.linear->weight = *spec.token_embedding;
  logits.is_token_embedding = true;
  spec.head = {transform, logits};
}

}  // namespace

TransformerSpec make_encoder(const EncoderShape& shape) {
  TransformerSpec spec;
  const uint32_t dim = shape.model_dim;
  const bool reads_tokens = shape.vocab_size != 0;
  const uint32_t embedded = reads_tokens ? shape.embedding_dim : dim;
  spec.architecture = "test encoder";
  spec.vocab_size = shape.vocab_size;
  spec.input_features = shape.input_features;
  spec.token_types = shape.token_types;
  spec.model_dim = dim;
  spec.heads = shape.heads;
  spec.head_dim = dim / shape.heads;
  spec.ffn_dim = shape.ffn_dim;
  spec.positions_max = shape.positions ? shape.positions_max : 0;
  spec.position_offset = shape.position_offset;
  spec.padding_id = shape.padding_id;
  spec.norm_first = shape.norm_first;
  spec.activation = shape.activation;
  spec.causal = shape.causal;
  if (reads_tokens) spec.token_embedding = random_weight("tokens", shape.vocab_size, embedded, 1);
  if (shape.positions) {
    spec.position_embedding =
        random_weight("positions", shape.positions_max + shape.position_offset, embedded, 1);
  }
  if (shape.token_types != 0) {
    spec.type_embedding = random_weight("types", shape.token_types, embedded, 1);
  }
  const bool is_bare = !reads_tokens && shape.input_features == dim;
  if (!shape.norm_first) {
    spec.embedding_norm = random_norm("embedding_norm", NormKind::kLayer, embedded);
  }
  if (!reads_tokens && !is_bare)
    spec.input = random_linear("input", dim, shape.input_features, true);
  if (reads_tokens && embedded != dim) spec.input = random_linear("input", dim, embedded, true);
  for (uint32_t i = 0; i < shape.layers; ++i) spec.layers.push_back(layer(shape, i));
  if (shape.norm_first && !is_bare)
    spec.final_norm = random_norm("final_norm", NormKind::kLayer, dim);
  spec.pooling = shape.pooling;
  spec.more_pooling = shape.more_pooling;
  if (shape.language_head) add_language_head(spec);
  if (shape.pooler) {
    spec.head.push_back({random_linear("pooler", dim, dim, true), Activation::kTanh});
  }
  if (shape.classes != 0) {
    spec.head.push_back({random_linear("classifier", shape.classes, pooled_width(spec), true),
                         shape.class_activation});
    for (uint32_t i = 0; i < shape.classes; ++i)
      spec.labels.push_back("class " + std::to_string(i));
  }
  if (shape.normalize) spec.head.push_back({.normalize = true});
  return spec;
}

convert::Program encoder_program(const EncoderShape& shape) {
  convert::Program program =
      convert::compile(convert::build_graph(make_encoder(shape)), shape.name);
  program.array_flags = shape.array_flags;
  return program;
}

convert::AlignedBytes make_encoder_model(const EncoderShape& shape,
                                         const std::vector<Target>& targets) {
  return convert::write_model(encoder_program(shape), targets);
}

std::vector<EncoderShape> all_encoders() {
  using enum SelectKind;
  return {
      {},
      {.name = "sentences",
       .token_types = 0,
       .position_offset = 2,
       .pooling = kMean,
       .normalize = true},
      {.name = "classifier", .norm_first = true, .pooling = kFirst, .pooler = true, .classes = 4},
      // Labels each token.
      {.name = "tagger", .embedding_dim = 7, .activation = Activation::kRelu, .classes = 5},
      {.name = "sensor",
       .vocab_size = 0,
       .input_features = 5,
       .token_types = 0,
       .norm_first = true,
       .pooling = kMean,
       .classes = 3},
      // Positions without the padding token's, all kinds of pooling, and a sigmoid.
      {.name = "mixture",
       .token_types = 0,
       .position_offset = 2,
       .padding_id = 1,
       .pooling = kMax,
       .more_pooling = {kFirst, kMeanSqrtLength, kWeightedMean, kMean, kLast},
       .classes = 6,
       .class_activation = Activation::kSigmoid},
      // Guesses tokens with a matrix that is their embedding.
      {.name = "guesser", .embedding_dim = 7, .language_head = true},
      // torch.nn.TransformerEncoder alone: its output takes the place of its input.
      {.name = "bare",
       .vocab_size = 0,
       .input_features = 12,
       .token_types = 0,
       .positions = false,
       .norm_first = true},
      // Knows no positions, and is wider than a tile of any kernel set.
      {.name = "wide",
       .vocab_size = 0,
       .input_features = 19,
       .token_types = 0,
       .model_dim = 76,
       .heads = 2,
       .ffn_dim = 131,
       .positions = false,
       .activation = Activation::kGeluTanh}};
}

EncoderShape encoder_named(const std::string& name) {
  for (EncoderShape& shape : all_encoders()) {
    if (shape.name == name) return std::move(shape);
  }
  throw std::logic_error("no encoder is called " + name);
}

EncoderShape smallest_encoder() {
  return {.name = "smallest",
          .vocab_size = 3,
          .embedding_dim = 2,
          .model_dim = 2,
          .heads = 1,
          .ffn_dim = 2,
          .layers = 1,
          .positions_max = 4,
          .pooling = SelectKind::kMean,
          .classes = 2,
          .normalize = true};
}

}  // namespace arenite::test
