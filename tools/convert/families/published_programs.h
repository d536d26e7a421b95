// SPDX-License-Identifier: Apache-2.0
// Programs whose state dicts are read: a row for each, with the names of its tensors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

enum class RopePairs { kNone, kHalves, kNeighbours };  // which elements of a head turn together

// Names are those of modules, without ".weight" and ".bias". What all names of a file begin with
// does not count. A null pointer: the program has no such part.
struct PublishedProgram {
  const char* name;          // for people
  const char* architecture;  // in model files
  const char* published;     // what it computes as its author published it, as options
  // A tensor of the first layer that no other program has: "h.0.attn.c_attn.weight". What stands
  // before the 0 is the list of layers.
  const char* key;

  bool is_decoder = true;  // gives logits of its vocabulary for each token
  // The program is the layers alone: mask, positions and the scale of embeddings are up to what
  // stands around them.
  bool is_layers_alone = false;
  NormKind norm = NormKind::kLayer;
  // Gains are of (x - mean) / (deviation + epsilon), and the deviation is that of a sample.
  bool has_sample_norm = false;
  RopePairs rope = RopePairs::kNone;
  bool ties_head = false;  // the token embedding is the output matrix where no head is stored

  // In a layer. With {}, the number of a head, in its name each head has projections of its own.
  const char* fused = nullptr;  // query, key and value, one below the other
  const char* query = nullptr;
  const char* key_projection = nullptr;
  const char* value = nullptr;
  const char* output;
  const char* gate = nullptr;
  const char* up;
  const char* down;
  const char* attention_norm;
  const char* mlp_norm;

  // Around the layers. Names with a space between them are different ones that are in use.
  const char* tokens;
  const char* types = nullptr;
  const char* input = nullptr;  // linear layer of features
  const char* positions = nullptr;
  const char* embedding_norm = nullptr;
  const char* final_norm;
  const char* pooler = nullptr;
  const char* head = nullptr;

  bool has_heads_of_their_own() const {
    return query != nullptr && std::string_view(query).find("{}") != std::string_view::npos;
  }
};

std::span<const PublishedProgram> published_programs();
std::string known_programs();  // a line for each, for messages

// A matrix or the gain of a norm, and its bias: full names of tensors.
struct PartNames {
  std::string weight;
  std::string bias{};  // empty: none

  bool empty() const { return weight.empty(); }
};

// A program found in a file.
struct FoundProgram {
  const PublishedProgram* program;
  std::string list;  // what stands in front of a layer's number: "transformer.h."

  // The part of the layer that `path` names. It has a bias if that of the first layer has.
  PartNames in_layer(const TensorStore& store, size_t layer, std::string_view path) const;
  // The part around the layers that has one of the names `paths`; empty: none.
  PartNames outside(const TensorStore& store, const char* paths) const;
  // The number of layers, as far as they are numbered without a gap.
  uint32_t count_layers(const TensorStore& store) const;
};

// All stacks of layers in `store` that are of a published program.
std::vector<FoundProgram> find_programs(const TensorStore& store);

// Is `name` <prefix>key, where the prefix is empty or ends in a dot?
bool ends_in(std::string_view name, std::string_view key);

}  // namespace arenite::convert
