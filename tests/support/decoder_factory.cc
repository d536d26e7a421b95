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

DecoderShape gpt2() {
  DecoderShape shape;
  shape.name = "gpt2";
  shape.kv_heads = shape.heads;
  shape.rotary_dim = 0;
  shape.norm = NormKind::kLayer;
  shape.activation = Activation::kGeluTanh;
  shape.gated = false;
  shape.bias = true;
  shape.tied = true;
  return shape;
}

DecoderShape phi() {
  DecoderShape shape;
  shape.name = "phi";
  shape.rotary_dim = 4;
  shape.norm = NormKind::kLayer;
  shape.activation = Activation::kGeluErf;
  shape.gated = false;
  shape.bias = true;
  shape.parallel = true;
  return shape;
}

DecoderShape gemma() {
  DecoderShape shape;
  shape.name = "gemma";
  shape.kv_heads = 1;
  shape.windows = {20, 0, 7};
  shape.activation = Activation::kGeluTanh;
  shape.tied = true;
  shape.head_norms = true;
  shape.embedding_scale = 3.4;
  shape.soft_cap = 5.0;
  return shape;
}

// Wider than a tile of any kernel set.
DecoderShape wide_decoder() {
  DecoderShape shape;
  shape.name = "wide";
  shape.vocab_size = 301;
  shape.model_dim = 67;
  shape.heads = 6;
  shape.kv_heads = 3;
  shape.head_dim = 38;
  shape.rotary_dim = 38;
  shape.ffn_dim = 131;
  shape.activation = Activation::kRelu;
  return shape;
}

// Weights in few bits: a table of plain rows beside the output matrix; one that is both; and rows
// that are whole blocks, of which there are more than one.
DecoderShape w8() {
  DecoderShape shape = gpt2();
  shape.name = "w8";
  shape.weights = shape.output = TensorType::kW8;
  return shape;
}

DecoderShape q8() {
  DecoderShape shape = gemma();
  shape.name = "q8";
  shape.weights = shape.output = TensorType::kQ8;
  return shape;
}

DecoderShape q4() {
  DecoderShape shape;
  shape.name = "q4";
  shape.model_dim = 64;
  shape.head_dim = shape.rotary_dim = 16;
  shape.ffn_dim = 96;
  shape.weights = shape.output = TensorType::kQ4;
  return shape;
}

// Keys and values in int8, with heads that share them; and in a ring.
DecoderShape int8_cache() {
  DecoderShape shape;
  shape.name = "int8_cache";
  shape.kv_cache = TensorType::kInt8;
  return shape;
}

}  // namespace

DecoderShape int8_ring_decoder() {
  DecoderShape shape = ring_decoder();
  shape.name = "int8_ring";
  shape.kv_cache = TensorType::kInt8;
  return shape;
}

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
  return {DecoderShape{}, gpt2(), phi(), gemma(),      wide_decoder(),     ring_decoder(),
          w8(),           q8(),   q4(),  int8_cache(), int8_ring_decoder()};
}

DecoderShape decoder_named(const std::string& name) {
  for (DecoderShape& shape : all_decoders()) {
    if (shape.name == name) return std::move(shape);
  }
  throw std::logic_error("no decoder is called " + name);
}

DecoderShape smallest_decoder() {
  DecoderShape shape;
  shape.name = "smallest";
  shape.vocab_size = 3;
  shape.model_dim = shape.ffn_dim = 2;
  shape.heads = shape.kv_heads = 1;
  shape.head_dim = shape.rotary_dim = 2;
  shape.positions_max = 4;
  shape.windows = {3};
  return shape;
}

DecoderShape ring_decoder() {
  DecoderShape shape;
  shape.name = "ring";
  shape.vocab_size = 11;
  shape.model_dim = 6;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.head_dim = shape.rotary_dim = 4;
  shape.ffn_dim = 8;
  shape.positions_max = 2 * 1024 + 300;
  shape.windows = {100, 0};
  return shape;
}

std::vector<TokenId> random_ids(size_t count, uint32_t vocab_size, uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> ids(count);
  for (TokenId& id : ids) id = random.below(vocab_size);
  return ids;
}

}  // namespace arenite::test
