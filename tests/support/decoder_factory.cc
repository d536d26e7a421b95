// SPDX-License-Identifier: Apache-2.0
#include "support/decoder_factory.h"

#include <cmath>
#include <stdexcept>

#include "convert/families/families.h"
#include "convert/passes/passes.h"
#include "convert/program/program.h"
#include "convert/program/weights.h"
#include "convert/program/writer.h"
#include "support/random_weights.h"

namespace arenite::test {
namespace {

using convert::LayerSpec;
using convert::LinearSpec;
using convert::NormSpec;
using convert::TransformerSpec;

LinearSpec linear(const DecoderShape& shape, const std::string& name, uint32_t outputs,
                  uint32_t inputs) {
  return random_linear(name, outputs, inputs, shape.bias);
}

NormSpec norm(const DecoderShape& shape, const std::string& name, uint32_t width) {
  return random_norm(name, shape.norm, width);
}

LayerSpec layer(const DecoderShape& shape, size_t index) {
  const std::string prefix = "layers." + std::to_string(index) + ".";
  const uint32_t dim = shape.model_dim;
  LayerSpec spec;
  spec.attention_norm = norm(shape, prefix + "attention_norm", dim);
  if (!shape.parallel) spec.mlp_norm = norm(shape, prefix + "mlp_norm", dim);
  spec.parallel_residual = shape.parallel;
  spec.query = linear(shape, prefix + "query", shape.heads * shape.head_dim, dim);
  spec.key = linear(shape, prefix + "key", shape.kv_heads * shape.head_dim, dim);
  spec.value = linear(shape, prefix + "value", shape.kv_heads * shape.head_dim, dim);
  spec.output = linear(shape, prefix + "output", dim, shape.heads * shape.head_dim);
  if (shape.head_norms) {
    spec.query_norm = norm(shape, prefix + "query_norm", shape.head_dim);
    spec.key_norm = norm(shape, prefix + "key_norm", shape.head_dim);
  }
  spec.window = shape.windows[index];
  if (shape.gated) spec.gate = linear(shape, prefix + "gate", shape.ffn_dim, dim);
  spec.up = linear(shape, prefix + "up", shape.ffn_dim, dim);
  spec.down = linear(shape, prefix + "down", dim, shape.ffn_dim);
  return spec;
}

// Returns the shape with other types of weights and cache, under another name.
DecoderShape with_types(DecoderShape shape, const std::string& name, TensorType weights,
                        TensorType kv_cache = TensorType::kF32) {
  shape.name = name;
  shape.weights = shape.output = weights;
  shape.kv_cache = kv_cache;
  return shape;
}

}  // namespace

TransformerSpec make_decoder(const DecoderShape& shape) {
  TransformerSpec spec = convert::decoder_spec();
  spec.architecture = "test decoder";
  spec.vocab_size = shape.vocab_size;
  spec.model_dim = shape.model_dim;
  spec.heads = shape.heads;
  spec.kv_heads = shape.kv_heads;
  spec.head_dim = shape.head_dim;
  spec.ffn_dim = shape.ffn_dim;
  spec.positions_max = shape.positions_max;
  spec.token_embedding = random_weight("tokens", shape.vocab_size, shape.model_dim, 1.0f);
  if (shape.embedding_scale != 0.0) spec.embedding_scale = shape.embedding_scale;
  if (shape.rotary_dim == 0) {
    spec.position_embedding =
        random_weight("positions", shape.positions_max, shape.model_dim, 1.0f);
  } else {
    convert::RopeSpec rope;
    rope.rotary_dim = shape.rotary_dim;
    for (uint32_t i = 0; i < shape.rotary_dim / 2; ++i) {
      rope.inverse_frequencies.push_back(std::pow(10000.0, -2.0 * i / shape.rotary_dim));
    }
    spec.rope = rope;
  }
  spec.activation = shape.activation;
  for (size_t i = 0; i < shape.windows.size(); ++i) spec.layers.push_back(layer(shape, i));
  spec.final_norm = norm(shape, "final_norm", shape.model_dim);
  if (!shape.tied) spec.output = linear(shape, "logits", shape.vocab_size, shape.model_dim);
  if (shape.soft_cap != 0.0) spec.logits_soft_cap = shape.soft_cap;
  return spec;
}

convert::Graph decoder_graph(const DecoderShape& shape) {
  convert::Graph graph = convert::build_graph(make_decoder(shape));
  choose_types(
      graph, {shape.weights, {{"logits", shape.output, true}, {"embedding", shape.output, true}}});
  graph.kv_cache = shape.kv_cache;
  return convert::rewrite(std::move(graph));
}

convert::Program decoder_program(const DecoderShape& shape) {
  return convert::lower(decoder_graph(shape), shape.name);
}

convert::AlignedBytes make_decoder_model(const DecoderShape& shape,
                                         const std::vector<Target>& targets) {
  return convert::write_model(decoder_program(shape), targets);
}

std::vector<DecoderShape> all_decoders() {
  const DecoderShape gpt2 = {.name = "gpt2",
                             .kv_heads = 4,
                             .rotary_dim = 0,
                             .norm = NormKind::kLayer,
                             .activation = Activation::kGeluTanh,
                             .gated = false,
                             .bias = true,
                             .tied = true};
  const DecoderShape phi = {.name = "phi",
                            .rotary_dim = 4,
                            .norm = NormKind::kLayer,
                            .activation = Activation::kGeluErf,
                            .gated = false,
                            .bias = true,
                            .parallel = true};
  const DecoderShape gemma = {.name = "gemma",
                              .kv_heads = 1,
                              .windows = {20, 0, 7},
                              .activation = Activation::kGeluTanh,
                              .tied = true,
                              .head_norms = true,
                              .embedding_scale = 3.4,
                              .soft_cap = 5.0};
  // Wider than a tile of any kernel set.
  const DecoderShape wide = {.name = "wide",
                             .vocab_size = 301,
                             .model_dim = 67,
                             .heads = 6,
                             .kv_heads = 3,
                             .head_dim = 38,
                             .rotary_dim = 38,
                             .ffn_dim = 131,
                             .activation = Activation::kRelu};
  const DecoderShape of_blocks = {.model_dim = 64, .head_dim = 16, .rotary_dim = 16, .ffn_dim = 96};
  return {{},
          gpt2,
          phi,
          gemma,
          wide,
          ring_decoder(),
          // Quantized weights: a table of plain rows beside the output matrix, a table shared
          // with it, and rows of several whole blocks.
          with_types(gpt2, "w8", TensorType::kW8),
          with_types(gemma, "q8", TensorType::kQ8),
          with_types(of_blocks, "q4", TensorType::kQ4),
          // Keys and values in int8, with heads that share them; and in a ring.
          with_types({}, "int8_cache", TensorType::kF32, TensorType::kInt8),
          int8_ring_decoder()};
}

DecoderShape int8_ring_decoder() {
  return with_types(ring_decoder(), "int8_ring", TensorType::kF32, TensorType::kInt8);
}

DecoderShape decoder_named(const std::string& name) {
  for (DecoderShape& shape : all_decoders()) {
    if (shape.name == name) return std::move(shape);
  }
  throw std::logic_error("no decoder is called " + name);
}

DecoderShape smallest_decoder() {
  return {.name = "smallest",
          .vocab_size = 3,
          .model_dim = 2,
          .heads = 1,
          .kv_heads = 1,
          .head_dim = 2,
          .rotary_dim = 2,
          .ffn_dim = 2,
          .positions_max = 4,
          .windows = {3}};
}

DecoderShape ring_decoder() {
  return {.name = "ring",
          .vocab_size = 11,
          .model_dim = 6,
          .heads = 2,
          .kv_heads = 1,
          .head_dim = 4,
          .rotary_dim = 4,
          .ffn_dim = 8,
          .positions_max = 2 * 1024 + 300,
          .windows = {100, 0}};
}

std::vector<TokenId> random_ids(size_t count, uint32_t vocab_size, uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> ids(count);
  for (TokenId& id : ids) id = random.below(vocab_size);
  return ids;
}

}  // namespace arenite::test
