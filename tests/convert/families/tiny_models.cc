// SPDX-License-Identifier: Apache-2.0
// Makes tiny models and writes them in Hugging Face's format.
#include "convert/families/tiny_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "support/byte_string.h"
#include "support/random.h"
#include "support/reference_models.h"
#include "support/safetensors_builder.h"

namespace arenite::testing {
namespace {

constexpr uint32_t kKvDim = kKvHeads * kHeadDim;

// FNV-1a, so that a tensor's values follow from its name on every platform.
uint64_t seed_of(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

class Maker {
 public:
  void add(const std::string& name, std::vector<uint64_t> shape, float center = 0.0f) {
    tensors[name] = random_tensor(name, std::move(shape), center);
  }
  void linear(const std::string& name, uint64_t outputs, uint64_t inputs, bool bias) {
    add(name + ".weight", {outputs, inputs});
    if (bias) add(name + ".bias", {outputs});
  }
  void norm(const std::string& name, uint64_t features, bool bias) {
    add(name + ".weight", {features}, 1.0f);
    if (bias) add(name + ".bias", {features});
  }
  TensorMap tensors;
};

std::string layer_name(const char* prefix, uint32_t index) {
  return prefix + std::to_string(index) + ".";
}

}  // namespace

Tensor random_tensor(const std::string& name, std::vector<uint64_t> shape, float center) {
  const uint64_t elements =
      std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
  Tensor tensor{std::move(shape), std::vector<float>(elements)};
  test::Random random(seed_of(name));
  for (float& value : tensor.values) value = center + random.symmetric(0.5f);
  return tensor;
}

TensorMap llama_tensors(const LlamaParts& parts) {
  Maker make;
  make.add("model.embed_tokens.weight", {kVocab, kDim});
  for (uint32_t i = 0; i < kLayers; ++i) {
    const std::string layer = layer_name("model.layers.", i);
    make.norm(layer + "input_layernorm", kDim, false);
    make.linear(layer + "self_attn.q_proj", kDim, kDim, parts.qkv_bias);
    make.linear(layer + "self_attn.k_proj", kKvDim, kDim, parts.qkv_bias);
    make.linear(layer + "self_attn.v_proj", kKvDim, kDim, parts.qkv_bias);
    make.linear(layer + "self_attn.o_proj", kDim, kDim, false);
    if (parts.head_norms) {
      make.norm(layer + "self_attn.q_norm", kHeadDim, false);
      make.norm(layer + "self_attn.k_norm", kHeadDim, false);
    }
    make.norm(layer + "post_attention_layernorm", kDim, false);
    make.linear(layer + "mlp.gate_proj", kFfn, kDim, false);
    make.linear(layer + "mlp.up_proj", kFfn, kDim, false);
    make.linear(layer + "mlp.down_proj", kDim, kFfn, false);
  }
  make.norm("model.norm", kDim, false);
  if (!parts.is_tied) make.linear("lm_head", kVocab, kDim, false);
  return make.tensors;
}

nlohmann::json llama_config(const std::string& model_type) {
  return {{"model_type", model_type},
          {"vocab_size", kVocab},
          {"hidden_size", kDim},
          {"intermediate_size", kFfn},
          {"num_hidden_layers", kLayers},
          {"num_attention_heads", kHeads},
          {"num_key_value_heads", kKvHeads},
          {"head_dim", kHeadDim},
          {"hidden_act", "silu"},
          {"max_position_embeddings", kPositions},
          {"rms_norm_eps", 0x1p-17},  // exact in float32, as GGUF stores it
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", false},
          {"bos_token_id", 1},
          {"eos_token_id", {2, 3}}};
}

TensorMap gpt2_tensors() {
  Maker make;
  make.add("transformer.wte.weight", {kVocab, kDim});
  make.add("transformer.wpe.weight", {kPositions, kDim});
  for (uint32_t i = 0; i < kLayers; ++i) {
    const std::string layer = layer_name("transformer.h.", i);
    make.norm(layer + "ln_1", kDim, true);
    make.linear(layer + "attn.c_attn", 3 * kDim, kDim, true);
    make.linear(layer + "attn.c_proj", kDim, kDim, true);
    make.norm(layer + "ln_2", kDim, true);
    make.linear(layer + "mlp.c_fc", kFfn, kDim, true);
    make.linear(layer + "mlp.c_proj", kDim, kFfn, true);
  }
  make.norm("transformer.ln_f", kDim, true);
  for (auto& [name, tensor] : make.tensors) {
    const bool is_conv1d = name.find(".c_") != std::string::npos && tensor.shape.size() == 2;
    if (is_conv1d) tensor = transposed(tensor);
  }
  return make.tensors;
}

nlohmann::json gpt2_config() {
  return {{"model_type", "gpt2"},
          {"vocab_size", kVocab},
          {"n_embd", kDim},
          {"n_inner", kFfn},
          {"n_layer", kLayers},
          {"n_head", kHeads},
          {"n_positions", kPositions},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5}};
}

TensorMap phi_tensors() {
  Maker make;
  make.add("model.embed_tokens.weight", {kVocab, kDim});
  for (uint32_t i = 0; i < kLayers; ++i) {
    const std::string layer = layer_name("model.layers.", i);
    make.norm(layer + "input_layernorm", kDim, true);
    for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
      make.linear(layer + part, kDim, kDim, true);
    }
    make.linear(layer + "self_attn.dense", kDim, kDim, true);
    make.linear(layer + "mlp.fc1", kFfn, kDim, true);
    make.linear(layer + "mlp.fc2", kDim, kFfn, true);
  }
  make.norm("model.final_layernorm", kDim, true);
  make.linear("lm_head", kVocab, kDim, true);
  return make.tensors;
}

nlohmann::json phi_config() {
  return {{"model_type", "phi"},          {"vocab_size", kVocab},
          {"hidden_size", kDim},          {"intermediate_size", kFfn},
          {"num_hidden_layers", kLayers}, {"num_attention_heads", kHeads},
          {"hidden_act", "gelu_new"},     {"max_position_embeddings", kPositions},
          {"layer_norm_eps", 1e-5},       {"partial_rotary_factor", 0.5},
          {"rope_theta", 10000.0},        {"qk_layernorm", false},
          {"tie_word_embeddings", false}};
}

nlohmann::json neox_config() {
  nlohmann::json config = phi_config();
  config["model_type"] = "gpt_neox";
  config["rotary_pct"] = 0.5;
  config["rotary_emb_base"] = 10000;
  config["use_parallel_residual"] = true;
  for (const char* name : {"partial_rotary_factor", "qk_layernorm"}) config.erase(name);
  return config;
}

TensorMap neox_of_phi(const TensorMap& phi) {
  TensorMap neox;
  const auto move = [&](const std::string& from, const std::string& to) {
    for (const char* part : {".weight", ".bias"}) neox[to + part] = phi.at(from + part);
  };
  neox["gpt_neox.embed_in.weight"] = phi.at("model.embed_tokens.weight");
  neox["embed_out.weight"] = phi.at("lm_head.weight");
  move("model.final_layernorm", "gpt_neox.final_layer_norm");
  for (uint32_t i = 0; i < kLayers; ++i) {
    const std::string from = layer_name("model.layers.", i);
    const std::string to = layer_name("gpt_neox.layers.", i);
    move(from + "input_layernorm", to + "input_layernorm");
    move(from + "input_layernorm", to + "post_attention_layernorm");
    move(from + "self_attn.dense", to + "attention.dense");
    move(from + "mlp.fc1", to + "mlp.dense_h_to_4h");
    move(from + "mlp.fc2", to + "mlp.dense_4h_to_h");
    for (const char* part : {".weight", ".bias"}) {  // [heads, 3, head_dim, ...]
      Tensor fused{phi.at(from + "self_attn.q_proj" + part).shape, {}};
      const size_t head_values = phi.at(from + "self_attn.q_proj" + part).values.size() / kHeads;
      for (uint32_t head = 0; head < kHeads; ++head) {
        for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
          const float* values = phi.at(from + name + part).values.data() + head * head_values;
          fused.values.insert(fused.values.end(), values, values + head_values);
        }
      }
      fused.shape[0] *= 3;
      neox[to + "attention.query_key_value" + part] = fused;
    }
  }
  return neox;
}

Tensor transposed(const Tensor& tensor) {
  const uint64_t rows = tensor.shape[0];
  const uint64_t columns = tensor.shape[1];
  Tensor result{{columns, rows}, std::vector<float>(tensor.values.size())};
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t column = 0; column < columns; ++column) {
      result.values[column * rows + row] = tensor.values[row * columns + column];
    }
  }
  return result;
}

Tensor pairs_of_halves(const Tensor& tensor, uint32_t heads) {
  const uint64_t columns = tensor.values.size() / tensor.shape[0];
  const uint64_t head_dim = tensor.shape[0] / heads;
  Tensor result = tensor;
  for (uint64_t row = 0; row < tensor.shape[0]; ++row) {
    const uint64_t within = row % head_dim;
    const uint64_t from = row - within + within / 2 + (within % 2) * (head_dim / 2);
    std::copy_n(tensor.values.begin() + static_cast<ptrdiff_t>(from * columns), columns,
                result.values.begin() + static_cast<ptrdiff_t>(row * columns));
  }
  return result;
}

Tensor stacked(const std::vector<Tensor>& tensors) {
  Tensor result{tensors[0].shape, {}};
  result.shape[0] = 0;
  for (const Tensor& tensor : tensors) {
    result.shape[0] += tensor.shape[0];
    result.values.insert(result.values.end(), tensor.values.begin(), tensor.values.end());
  }
  return result;
}

std::string safetensors_of(const TensorMap& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data += bytes_of(tensor.values);
    header[name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return safetensors_file(header.dump(), data);
}

std::filesystem::path write_hf(const TempFolder& folder, const std::string& name,
                               const nlohmann::json& config, const TensorMap& tensors) {
  std::filesystem::create_directories(folder.path() / name);
  folder.write(name + "/config.json", config.dump());
  folder.write(name + "/model.safetensors", safetensors_of(tensors));
  return folder.path() / name;
}

std::vector<double> logits_of(const convert::TransformerSpec& spec) {
  const std::vector<uint32_t> tokens = {1, 5, 0, 10, 7, 7, 3, 9, 2};
  return reference_decoder(spec, tokens).values;
}

::testing::AssertionResult near(std::span<const double> found, std::span<const double> expected,
                                double tolerance) {
  if (found.size() != expected.size()) {
    return ::testing::AssertionFailure() << found.size() << " values, not " << expected.size();
  }
  double largest = 0.0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::abs(found[i] - expected[i]) <= tolerance * largest) continue;
    return ::testing::AssertionFailure() << "value " << i << " is " << found[i] << ", not "
                                         << expected[i] << "; the largest is " << largest;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace arenite::testing
