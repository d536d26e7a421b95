// SPDX-License-Identifier: Apache-2.0
// Sizes, norms, labels, and buffers beside the weights.
#include "convert/families/reader_parts.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/families/hf_models.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Masks are to be checked; the others can be computed from the config.
struct Buffer {
  std::string_view suffix;
  enum Kind { kOnesShow, kOnesHide, kOther } kind;
};
constexpr Buffer kBuffers[] = {
    {".attn.bias", Buffer::kOnesShow},           // GPT-2 and nanoGPT
    {".attn.mask", Buffer::kOnesShow},           // minGPT
    {".att.mask", Buffer::kOnesHide},            // GPTModel
    {".attention.bias", Buffer::kOnesShow},      // GPT-NeoX
    {".attn.masked_bias", Buffer::kOther},       // GPT-2: what masked scores are set to
    {".attention.masked_bias", Buffer::kOther},  // GPT-NeoX
    {".rotary_emb.inv_freq", Buffer::kOther},    // Llama and GPT-NeoX
};

// Throws InputError unless `tensor` is [1, 1, n, n] with `shown` exactly where key <= query, and
// the other one of 0 and 1 elsewhere.
void check_causal(const StoredTensor& tensor, float shown) {
  const size_t rank = tensor.shape.size();
  const uint64_t side = rank == 0 ? 0 : tensor.shape[rank - 1];
  const bool is_square = rank >= 2 && tensor.shape[rank - 2] == side &&
                         std::all_of(tensor.shape.begin(), tensor.shape.end() - 2,
                                     [](uint64_t extent) { return extent == 1; });
  if (!is_square) {
    throw InputError("{}: mask {} has shape {}: expected [1, 1, n, n]", quote(tensor.file),
                     quote(tensor.name), shape_text(tensor.shape));
  }
  const std::vector<float> values = tensor.load();
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected = i % side <= i / side ? shown : 1.0f - shown;
    if (values[i] == expected) continue;
    throw InputError(
        "{}: mask {} is {} for query {} and key {}: expected a causal mask, {} for keys up to the "
        "query and {} for later ones; decoders with other masks are not read",
        quote(tensor.file), quote(tensor.name), values[i], i / side, i % side, shown, 1.0f - shown);
  }
}

const Buffer* buffer_of(const StoredTensor& tensor) {
  for (const Buffer& buffer : kBuffers) {
    if (tensor.name.ends_with(buffer.suffix)) return &buffer;
  }
  return nullptr;
}

}  // namespace

void set_heads(TransformerSpec& spec, uint32_t heads, size_t layers, const std::string& where) {
  if (layers == 0 || layers > kLayersMax) {
    throw InputError("{}: {} layers: expected 1 to {}", where, layers, kLayersMax);
  }
  spec.heads = spec.kv_heads = heads;
  spec.head_dim = even_head_dim(spec.model_dim, heads, where);
}

void fold_single_type(TransformerSpec& spec) {
  if (spec.token_types != 1) return;
  const auto add = [](auto values, const auto& row) {
    for (size_t i = 0; i < values.size(); ++i) values[i] += row[i % row.size()];
    return values;
  };
  const WeightRef positions = *spec.position_embedding;
  const WeightRef type = *spec.type_embedding;
  spec.position_embedding->quantized = {};
  spec.position_embedding->load_quantized = {};
  spec.position_embedding->load = [=] { return add(positions.load(), type.load()); };
  if (positions.load_f64 || type.load_f64) {
    spec.position_embedding->load_f64 = [=] { return add(positions.exact(), type.exact()); };
  }
  spec.type_embedding.reset();
  spec.token_types = 0;
}

void pass_over_position_ids(ModelTensors& tensors, const std::string& name) {
  for (const StoredTensor& tensor : tensors.stored()) {
    if (tensor.name != name) continue;
    const std::vector<float> ids = tensor.load();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == static_cast<float>(i)) continue;
      throw InputError("{}: {} is {} at index {}: expected positions counted from 0",
                       quote(tensor.file), quote(name), ids[i], i);
    }
    tensors.pass_over(name);
  }
}

void check_pooling(std::optional<PoolingChoice> asked, PoolingChoice found,
                   const std::string& where) {
  if (!asked || *asked == found) return;
  throw InputError("{}: pooling {} was asked for, but the model has {}: drop the option", where,
                   quote(name(*asked)), quote(name(found)));
}

std::vector<std::string> read_labels(ConfigFields& config, uint32_t classes) {
  std::vector<std::string> labels;
  std::optional<ConfigFields> fields = config.object("id2label");
  if (!fields) return labels;
  if (fields->size() != classes) {
    config.refuse("id2label", fmt::format("it names {} labels, but the classifier has {} classes",
                                          fields->size(), classes));
  }
  for (uint32_t i = 0; i < classes; ++i) {
    const std::string key = fmt::format("{}", i);
    if (!fields->has(key)) {
      config.refuse("id2label", fmt::format("class {} of 0 to {} is missing", i, classes - 1));
    }
    labels.push_back(fields->text(key));
  }
  return labels;
}

std::string causal_buffer(const ModelTensors& tensors) {
  for (const StoredTensor& tensor : tensors.stored()) {
    const Buffer* buffer = buffer_of(tensor);
    if (buffer == nullptr || buffer->kind == Buffer::kOther) continue;
    check_causal(tensor, buffer->kind == Buffer::kOnesShow ? 1.0f : 0.0f);
    return tensor.name;
  }
  return {};
}

void pass_over_buffers(ModelTensors& tensors) {
  for (const StoredTensor& tensor : tensors.stored()) {
    const Buffer* buffer = buffer_of(tensor);
    if (buffer == nullptr) continue;
    if (buffer->kind != Buffer::kOther) {
      check_causal(tensor, buffer->kind == Buffer::kOnesShow ? 1.0f : 0.0f);
    }
    tensors.pass_over(tensor.name);
  }
}

}  // namespace arenite::convert
