// SPDX-License-Identifier: Apache-2.0
// State dicts of published programs: a row for each program, with the names of its tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/open/opened.h"
#include "convert/spec/model_spec.h"
#include "convert/spec/model_tensors.h"

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
  // Gains are of (x - mean) / (deviation + epsilon), and the deviation is that of a sample.
  bool has_sample_norm = false;
  RopePairs rope = RopePairs::kNone;
  bool ties_head = false;  // the token embedding is the output matrix where no head is stored

  LayerNames layer;
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
    return layer.query != nullptr && std::string_view(layer.query).find("{}") != std::string::npos;
  }
};

std::string known_programs();  // a line for each, for messages

// A program found in a file.
struct FoundProgram {
  const PublishedProgram* program;
  std::string list;  // what stands in front of a layer's number: "transformer.h."

  // The part around the layers that has one of the names `paths`, as ModelTensors takes it; empty:
  // none.
  std::string outside(const TensorStore& store, const char* paths) const;
  // Whether the tensor is what a training program keeps of its losses, metrics and averages, by the
  // first part of its name: "criterion.weight", "train_acc.tp", "n_averaged".
  bool is_beside(const StoredTensor& tensor) const;
  // The number of layers, as far as they are numbered without a gap.
  uint32_t count_layers(const TensorStore& store) const;
};

// All stacks of layers in `store` that are of a published program.
std::vector<FoundProgram> find_programs(const TensorStore& store);

// Is `tensor` a mask, or a square of zeros and ones by such a name?
bool is_mask_buffer(const StoredTensor& tensor);

// Is `name` <prefix>key, where the prefix is empty or ends in a dot?
bool ends_in(std::string_view name, std::string_view key);

// The number of heads that the training program wrote beside the weights, if it did: `account` then
// says where.
std::optional<uint32_t> written_heads(const Opened& model, Account& account);

}  // namespace arenite::convert
