// SPDX-License-Identifier: Apache-2.0
// What the tensors of a transformer are, told by the words of their names, by their shapes, and by
// what is left when the others are known.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// Is `name` <prefix>key, where the prefix is empty or ends in a dot?
bool ends_in(std::string_view name, std::string_view key);

// A matrix or the gain of a norm, and its bias: the names of tensors. Those of a layer are without
// what stands in front of the layer's parts.
struct PartNames {
  std::string weight;
  std::string bias;  // empty: none

  bool empty() const { return weight.empty(); }
};

// The stack of layers: all are named alike.
struct LayerNames {
  std::string list;     // what stands in front of a layer's number: "transformer.h."
  uint32_t layers = 0;  // as far as they are numbered without a gap
  uint32_t model_dim = 0;

  // One each, or one for each head where heads are modules of their own; none where they are fused.
  std::vector<PartNames> query, key, value;
  PartNames fused;
  std::string fused_order;  // as the name says it: "qkv"; empty: it does not
  PartNames output;
  PartNames gate, up, down;    // no gate: an MLP of two matrices
  bool gate_is_named = false;  // otherwise it is the first of two by their names' numbers
  PartNames attention_norm, mlp_norm;
  PartNames query_norm, key_norm;  // or none

  std::string layer(uint32_t index) const { return fmt::format("{}{}.", list, index); }
  PartNames in_layer(uint32_t index, const PartNames& part) const;  // the full names
};

// The lists of layers in `store`: each with attention, whose parts are known by their words, and
// an MLP.
std::vector<std::string> find_layer_lists(const TensorStore& store);

// The parts of the layers in `list`, by those of the first. Throws InputError that names what it
// cannot find or tell apart.
LayerNames find_layer_names(const TensorStore& store, const std::string& list);

// What stands around the layers: names of tensors; empty where there is none.
struct OuterNames {
  PartNames tokens;  // embedding [vocab_size, model_dim], without bias
  PartNames types;   // embedding of token types
  PartNames input;   // linear layer of features, with bias
  PartNames embedding_norm;
  PartNames final_norm;
  std::string positions;  // table or buffer, as it is stored
  PartNames pooler;
  PartNames head;
};

// Throws InputError where a model has both tokens and features.
OuterNames find_outer_names(const TensorStore& store, const LayerNames& layers);

// The layer that a person would call so: "lm_head" of "lm_head.weight".
std::string layer_name(const PartNames& part);

// Is `tensor` a mask, or a square of zeros and ones by such a name?
bool is_mask_buffer(const StoredTensor& tensor);

}  // namespace arenite::convert
