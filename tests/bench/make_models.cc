// SPDX-License-Identifier: Apache-2.0
// Writes the models that the benchmarks time: shapes of known modules, with random weights.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "convert/convert.h"
#include "convert/files/output_files.h"
#include "convert/passes/passes.h"
#include "convert/program/writer.h"
#include "convert/spec/model_tensors.h"

namespace {

using namespace arenite::convert;
using arenite::Activation;
using arenite::SelectKind;

class Noise {
 public:
  explicit Noise(uint32_t seed = 1) : state_(seed) {}

  float next(float scale) {
    state_ = state_ * 1664525u + 1013904223u;
    return (static_cast<float>(state_ >> 8) * 0x1p-23f - 1.0f) * scale;
  }

 private:
  uint32_t state_;
};

LinearSpec projection(Noise& noise, const char* name, uint32_t outputs, uint32_t inputs) {
  std::vector<float> weights(size_t{outputs} * inputs);
  std::vector<double> bias(outputs);
  const float scale = 1.0f / std::sqrt(static_cast<float>(inputs));
  for (float& value : weights) value = noise.next(scale);
  for (double& value : bias) value = noise.next(scale);
  return {{name, outputs, inputs, [weights = std::move(weights)] { return weights; }},
          std::move(bias)};
}

// GPT-style causal self-attention: `width` wide, queries, keys and values fused.
AttentionModule causal_self_attention(uint32_t width, uint32_t heads, uint32_t context) {
  Noise noise;
  AttentionModule module;
  module.architecture = "GPT CausalSelfAttention";
  module.heads = heads;
  module.head_dim = module.value_dim = width / heads;
  module.features = width;
  module.query = projection(noise, "query", width, width);
  module.key = projection(noise, "key", width, width);
  module.value = projection(noise, "value", width, width);
  module.output = projection(noise, "output", width, width);
  module.positions_max = context;
  module.masks = {band_mask(arenite::kUnlimited, 0, context)};
  module.head_masks.assign(heads, 0);
  return module;
}

// Returns a weight whose values are generated during packing: a large model is never in memory
// twice.
WeightRef random_weight(uint32_t rows, uint32_t columns) {
  static uint32_t seed = 0;
  WeightRef weight;
  weight.name = fmt::format("noise.{}", ++seed);
  weight.rows = rows;
  weight.columns = columns;
  weight.load = [rows, columns, noise_seed = seed] {
    Noise noise(noise_seed);
    const float scale = 1.0f / std::sqrt(static_cast<float>(columns));
    std::vector<float> values(size_t{rows} * columns);
    for (float& value : values) value = noise.next(scale);
    return values;
  };
  return weight;
}

NormSpec layer_norm(uint32_t width) {
  NormSpec norm;
  norm.gain.assign(width, 1.0);
  norm.bias.assign(width, 0.0);
  norm.epsilon = 1e-5;
  return norm;
}

// The shape of GPT-2 small, with room for longer sequences.
TransformerSpec gpt2_small(uint32_t context) {
  const uint32_t width = 768;
  const auto linear = [](uint32_t outputs, uint32_t inputs) {
    return LinearSpec{random_weight(outputs, inputs), std::vector<double>(outputs)};
  };
  TransformerSpec spec = decoder_spec();
  spec.architecture = "gpt2";
  spec.vocab_size = 50257;
  spec.model_dim = width;
  spec.heads = spec.kv_heads = 12;
  spec.head_dim = width / 12;
  spec.ffn_dim = 4 * width;
  spec.positions_max = context;
  spec.activation = Activation::kGeluTanh;
  spec.token_embedding = random_weight(spec.vocab_size, width);
  spec.position_embedding = random_weight(context, width);
  for (int i = 0; i < 12; ++i) {
    LayerSpec layer;
    layer.attention_norm = layer_norm(width);
    layer.mlp_norm = layer_norm(width);
    layer.query = linear(width, width);
    layer.key = linear(width, width);
    layer.value = linear(width, width);
    layer.output = linear(width, width);
    layer.up = linear(spec.ffn_dim, width);
    layer.down = linear(width, spec.ffn_dim);
    spec.layers.push_back(std::move(layer));
  }
  spec.final_norm = layer_norm(width);
  return spec;
}

// The shape of MiniLM-L6, the usual small sentence encoder.
TransformerSpec minilm_l6() {
  const uint32_t width = 384;
  const auto linear = [](uint32_t outputs, uint32_t inputs) {
    return LinearSpec{random_weight(outputs, inputs), std::vector<double>(outputs)};
  };
  TransformerSpec spec;
  spec.architecture = "bert";
  spec.vocab_size = 30522;
  spec.token_types = 2;
  spec.model_dim = width;
  spec.heads = 12;
  spec.head_dim = width / 12;
  spec.ffn_dim = 4 * width;
  spec.positions_max = 512;
  spec.activation = Activation::kGeluErf;
  spec.token_embedding = random_weight(spec.vocab_size, width);
  spec.position_embedding = random_weight(spec.positions_max, width);
  spec.type_embedding = random_weight(spec.token_types, width);
  spec.embedding_norm = layer_norm(width);
  for (int i = 0; i < 6; ++i) {
    LayerSpec layer;
    layer.query = linear(width, width);
    layer.key = linear(width, width);
    layer.value = linear(width, width);
    layer.output = linear(width, width);
    layer.attention_norm = layer_norm(width);
    layer.up = linear(spec.ffn_dim, width);
    layer.down = linear(width, spec.ffn_dim);
    layer.mlp_norm = layer_norm(width);
    spec.layers.push_back(std::move(layer));
  }
  spec.pooling = SelectKind::kMean;
  spec.head.push_back({.normalize = true});
  return spec;
}

void write(const std::filesystem::path& folder, const std::string& name, const Program& program,
           const char* targets) {
  const AlignedBytes bytes = write_model(program, parse_targets(targets));
  AtomicFile file(folder / (name + ".arn"));
  file.write(bytes.span());
  file.commit();
}

// Converts like `arenite convert --weights TYPE --keep KEEP`, but without calibration text, which
// changes no offset in the file.
Program in_few_bits(Graph graph, const std::string& name, arenite::TensorType type,
                    const char* keep = "") {
  choose_types(graph, {type, parse_weight_rules(keep, type)});
  return lower(rewrite(std::move(graph)), name);
}

void write_few_bits(const std::filesystem::path& folder) {
  using enum arenite::TensorType;
  constexpr uint32_t kContext = 1024;  // GPT-2's own, which the size of a file depends on
  const auto write_native = [&](const Program& program) {
    write(folder, program.name, program, "native");
  };
  write_native(in_few_bits(build_graph(gpt2_small(kContext)), "gpt2-small-q8", kQ8));
  write_native(in_few_bits(build_graph(gpt2_small(kContext)), "gpt2-small-q4", kQ4));
  write_native(in_few_bits(build_graph(gpt2_small(kContext)), "gpt2-small-q4-none", kQ4, "none"));
  write_native(in_few_bits(build_graph(minilm_l6()), "minilm-l6-q8", kQ8));
}

void write_module(const std::filesystem::path& folder, const std::string& name,
                  const AttentionModule& module) {
  write(folder, name, compile(build_graph(module), name), "all");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: make_bench_models FOLDER\n");
    return 2;
  }
  try {
    std::filesystem::create_directories(argv[1]);
    write_module(argv[1], "gpt2-attention", causal_self_attention(768, 12, 1024));
    write_module(argv[1], "tiny-attention", causal_self_attention(4, 2, 8));
    write(argv[1], "minilm-l6", compile(build_graph(minilm_l6()), "minilm-l6"), "native");
    write(argv[1], "gpt2-small", compile(build_graph(gpt2_small(4096)), "gpt2-small"), "native");
    write_few_bits(argv[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "make_bench_models: {}\n", error.what());
    return 1;
  }
  return 0;
}
