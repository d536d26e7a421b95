// SPDX-License-Identifier: Apache-2.0
// Writes tiny models in the formats of llama2.c, nanoGPT and minGPT.
#include "convert/families/other_formats.h"

#include <algorithm>
#include <cmath>

#include "support/byte_string.h"
#include "support/pickle_builder.h"
#include "support/zip_builder.h"

namespace arenite::testing {
namespace {

namespace op = testing::op;
constexpr size_t kGroup = 32;
constexpr float kScale = 0x1p-8f;

std::string layer_part(uint32_t layer, const char* part) {
  return "model.layers." + std::to_string(layer) + "." + part + ".weight";
}

// int8 for each element, then a scale for each group.
std::string quantized(Tensor& tensor) {
  std::string bytes;
  for (float& value : tensor.values) {
    const long quant = std::clamp(std::lround(value / kScale), -127l, 127l);
    value = static_cast<float>(quant) * kScale;
    bytes += static_cast<char>(quant);
  }
  return bytes + bytes_of(std::vector<float>(tensor.values.size() / kGroup, kScale));
}

class Llama2cWriter {
 public:
  Llama2cWriter(TensorMap& tensors, int version) : tensors_(tensors), version_(version) {}

  std::string run() {
    const bool is_tied = !tensors_.contains("lm_head.weight");
    const bool is_legacy = version_ == 0;
    if (!is_legacy) bytes_ = bytes_of(uint32_t{0x616b3432}) + bytes_of(version_);
    const auto vocab = static_cast<int32_t>(kVocab);
    for (const int32_t size :
         {int32_t{kDim}, int32_t{kFfn}, int32_t{kLayers}, int32_t{kHeads}, int32_t{kKvHeads},
          is_legacy && !is_tied ? -vocab : vocab, int32_t{kPositions}}) {
      bytes_ += bytes_of(size);
    }
    if (!is_legacy) {
      bytes_ += is_tied ? '\1' : '\0';
      if (version_ == 2) bytes_ += bytes_of(static_cast<int32_t>(kGroup));
      bytes_.resize(256, '\0');
    }
    is_legacy ? legacy_tensors() : later_tensors();
    if (!is_tied) matrix(tensors_.at("lm_head.weight"));
    return bytes_;
  }

 private:
  void vector(const Tensor& tensor) { bytes_ += bytes_of(tensor.values); }
  void matrix(Tensor& tensor) {
    bytes_ += version_ == 2 ? quantized(tensor) : bytes_of(tensor.values);
  }
  void norms(const char* part) {
    for (uint32_t i = 0; i < kLayers; ++i) vector(tensors_.at(layer_part(i, part)));
  }
  void matrices(std::initializer_list<const char*> parts) {
    for (const char* part : parts) {
      for (uint32_t i = 0; i < kLayers; ++i) {
        Tensor& tensor = tensors_.at(layer_part(i, part));
        const std::string name = part;
        const uint32_t heads = name.ends_with("q_proj") ? kHeads : kKvHeads;
        if (!name.ends_with("q_proj") && !name.ends_with("k_proj")) {
          matrix(tensor);
          continue;
        }
        if (version_ == 2) quantized(tensor);  // as it comes out of the file
        Tensor reordered = pairs_of_halves(tensor, heads);
        matrix(reordered);
      }
    }
  }

  void legacy_tensors() {
    matrix(tensors_.at("model.embed_tokens.weight"));
    norms("input_layernorm");
    matrices({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"});
    norms("post_attention_layernorm");
    matrices({"mlp.gate_proj", "mlp.down_proj", "mlp.up_proj"});
    vector(tensors_.at("model.norm.weight"));
    bytes_.append(2 * kPositions * (kHeadDim / 2) * sizeof(float), '\0');  // unread tables
  }

  void later_tensors() {
    norms("input_layernorm");
    norms("post_attention_layernorm");
    vector(tensors_.at("model.norm.weight"));
    matrix(tensors_.at("model.embed_tokens.weight"));
    matrices({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
              "mlp.gate_proj", "mlp.down_proj", "mlp.up_proj"});
  }

  TensorMap& tensors_;
  int version_;
  std::string bytes_;
};

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

}  // namespace

std::string llama2c_of_llama(TensorMap& tensors, int version) {
  return Llama2cWriter(tensors, version).run();
}

std::string torch_archive(const TensorMap& tensors,
                          const std::vector<std::pair<std::string, int32_t>>& arguments) {
  PickleBuilder pickle;
  ZipBuilder zip;
  if (!arguments.empty()) pickle.code(op::kEmptyDict).text("model");
  pickle.code(op::kEmptyDict);
  size_t index = 0;
  for (const auto& [name, tensor] : tensors) {
    PickledView view{.key = std::to_string(index++),
                     .storage_elements = static_cast<int32_t>(tensor.values.size())};
    int32_t stride = view.storage_elements;
    for (const uint64_t extent : tensor.shape) {
      view.shape.push_back(static_cast<int32_t>(extent));
      stride /= static_cast<int32_t>(extent);
      view.strides.push_back(stride);
    }
    pickle.text(name).tensor(view).code(op::kSetItem);
    zip.add("m/data/" + view.key, bytes_of(tensor.values));
  }
  if (!arguments.empty()) {
    pickle.code(op::kSetItem).text("model_args").code(op::kEmptyDict);
    for (const auto& [name, value] : arguments) {
      pickle.text(name).number(value).code(op::kSetItem);
    }
    pickle.code(op::kSetItem);
  }
  return zip.add("m/data.pkl", pickle.stop()).add("m/version", "3\n").bytes();
}

TensorMap nano_gpt_of_gpt2(const TensorMap& tensors) {
  TensorMap result;
  for (const auto& [name, tensor] : tensors) {
    const bool is_conv1d = name.find(".c_") != std::string::npos && tensor.shape.size() == 2;
    result[name] = is_conv1d ? transposed(tensor) : tensor;
  }
  return result;
}

TensorMap min_gpt_of_gpt2(const TensorMap& tensors) {
  TensorMap result;
  for (const auto& [stored_name, tensor] : nano_gpt_of_gpt2(tensors)) {
    std::string name = replaced(replaced(stored_name, "transformer.", ""), "h.", "blocks.");
    name = replaced(replaced(replaced(name, "ln_1", "ln1"), "ln_2", "ln2"), "c_fc", "0");
    name = replaced(replaced(name, "mlp.c_proj", "mlp.2"), "attn.c_proj", "attn.proj");
    name = replaced(replaced(name, "wte.", "tok_emb."), "wpe.weight", "pos_emb");
    if (name.find("c_attn") == std::string::npos) {
      result[name] = tensor;
      continue;
    }
    Tensor part = tensor;
    part.shape[0] /= 3;
    const auto values = static_cast<ptrdiff_t>(tensor.values.size() / 3);
    ptrdiff_t start = 0;
    for (const char* projection : {"query", "key", "value"}) {
      part.values.assign(tensor.values.begin() + start, tensor.values.begin() + start + values);
      result[replaced(name, "c_attn", projection)] = part;
      start += values;
    }
  }
  result["pos_emb"].shape.insert(result["pos_emb"].shape.begin(), 1);
  result["head.weight"] = random_tensor("lm_head.weight", {kVocab, kDim});
  return result;
}

TensorMap gpt_model_of_gpt2(const TensorMap& tensors) {
  const std::pair<std::string_view, std::string_view> kNames[] = {
      {"blocks.", "trf_blocks."},          {"attn.query", "att.W_query"},
      {"attn.key", "att.W_key"},           {"attn.value", "att.W_value"},
      {"attn.proj", "att.out_proj"},       {"mlp.", "ff.layers."},
      {"ln1.weight", "norm1.scale"},       {"ln1.bias", "norm1.shift"},
      {"ln2.weight", "norm2.scale"},       {"ln2.bias", "norm2.shift"},
      {"ln_f.weight", "final_norm.scale"}, {"ln_f.bias", "final_norm.shift"}};
  TensorMap result;
  for (const auto& [stored_name, tensor] : min_gpt_of_gpt2(tensors)) {
    std::string name = stored_name;
    for (const auto& [from, to] : kNames) name = replaced(name, from, to);
    if (name == "pos_emb") name = "pos_emb.weight";
    if (name == "head.weight") name = "out_head.weight";
    result[name] = tensor;
  }
  return result;
}

}  // namespace arenite::testing
