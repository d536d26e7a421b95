// SPDX-License-Identifier: Apache-2.0
// State dicts of published programs: a row for each program, with the names of its tensors. A file
// that has the row's `key` tensor is read as that program.
//
//   "transformer.h.0.attn.c_attn.weight", key "h.0.attn.c_attn.weight"
//       ->  the list of layers is "transformer.h."
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

enum class RopePairs { kNone, kHalves, kNeighbours };  // elements of a head that rotate together

// Names are module names, without ".weight" and ".bias" and without a prefix that all names of a
// file share. A null pointer means that the program lacks the part.
struct PublishedProgram {
  const char* name;          // for messages
  const char* architecture;  // as model files have it
  const char* published;     // command-line options that give the published computation
  // A tensor of the first layer that no other program has: "h.0.attn.c_attn.weight". The text
  // before the 0 names the list of layers.
  const char* key;

  bool is_decoder = true;  // outputs logits of its vocabulary for each token
  // The program consists of layers alone: the surrounding code decides about mask, positions and
  // embedding scale.
  bool is_layers_alone = false;
  // norm: (x - mean) / (deviation + epsilon), with the sample standard deviation (n - 1).
  bool has_sample_norm = false;
  RopePairs rope = RopePairs::kNone;
  bool ties_head = false;  // without a stored head, the token embedding is the output matrix

  LayerNames layer;
  // Parts around the layers. Names separated by spaces are alternatives.
  const char* tokens;
  const char* types = nullptr;
  const char* input = nullptr;  // projection of features
  const char* positions = nullptr;
  const char* embedding_norm = nullptr;
  const char* final_norm;
  const char* pooler = nullptr;
  const char* head = nullptr;

  bool has_heads_of_their_own() const {
    return layer.query != nullptr && std::string_view(layer.query).find("{}") != std::string::npos;
  }
};

std::string known_programs();  // one line per program, for messages

// A program found in a file.
struct FoundProgram {
  const PublishedProgram* program;
  std::string list;  // the text before a layer's index: "transformer.h."

  // Returns the name of the part around the layers, one of the alternatives `paths`, for
  // ModelTensors; empty if the file lacks it.
  std::string outside(const TensorStore& store, const char* paths) const;
  // Whether the tensor belongs to losses, metrics or averages of a training program, by the first
  // part of its name: "criterion.weight", "train_acc.tp", "n_averaged".
  bool is_beside(const StoredTensor& tensor) const;
  // Counts the layers numbered from 0 without a gap.
  uint32_t count_layers(const TensorStore& store) const;
};

// Returns all stacks of layers in `store` that belong to a published program.
std::vector<FoundProgram> find_programs(const TensorStore& store);

// Whether `tensor` is a mask, or a square matrix of zeros and ones with the name of one.
bool is_mask_buffer(const StoredTensor& tensor);

// Whether `name` is <prefix>key, where the prefix is empty or ends in a dot.
bool ends_in(std::string_view name, std::string_view key);

// Returns the number of heads if the training program saved it next to the weights; `account` then
// names the source.
std::optional<uint32_t> written_heads(const Opened& model, Account& account);

}  // namespace arenite::convert
