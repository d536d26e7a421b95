// SPDX-License-Identifier: Apache-2.0
// Checks of sizes, position ids and labels.
#include "convert/families/encoder_parts.h"

#include <utility>

#include "convert/families/hf_fields.h"
#include "convert/files/error.h"

namespace arenite::convert {

void set_heads(EncoderSpec& spec, uint32_t heads, size_t layers, const std::string& where) {
  if (layers == 0 || layers > kLayersMax) {
    throw InputError("{}: {} layers: expected 1 to {}", where, layers, kLayersMax);
  }
  spec.heads = heads;
  spec.head_dim = even_head_dim(spec.model_dim, heads, where);
}

void fold_single_type(EncoderSpec& spec) {
  if (spec.token_types != 1) return;
  spec.position_embedding->load = [positions = std::move(spec.position_embedding->load),
                                   type = std::move(spec.type_embedding->load)] {
    std::vector<float> values = positions();
    const std::vector<float> row = type();
    for (size_t i = 0; i < values.size(); ++i) values[i] += row[i % row.size()];
    return values;
  };
  spec.type_embedding.reset();
  spec.token_types = 0;
}

NormSpec read_hf_layer_norm(ModelTensors& tensors, const std::string& name, uint32_t features,
                            double epsilon) {
  if (!tensors.has(name + ".gamma")) return tensors.layer_norm(name, features, epsilon);
  return {.name = name + ".gamma",
          .kind = NormKind::kLayer,
          .gain = tensors.vector(name + ".gamma", features),
          .bias = tensors.vector(name + ".beta", features),
          .epsilon = epsilon};
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

}  // namespace arenite::convert
