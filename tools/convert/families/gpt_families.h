// SPDX-License-Identifier: Apache-2.0
// The programs that GPT state dicts come from, told apart by the names of their tensors.
#pragma once

#include <string>
#include <vector>

#include "convert/files/tensor_store.h"

namespace arenite::convert {

// How a program names its tensors. `layer` is followed by the number of the layer and a dot; parts
// of a layer are named without ".weight".
struct GptFamily {
  const char* name;          // for people
  const char* architecture;  // in model files
  const char* published;     // what the program computes as its author published it, as options
  const char* key;           // a tensor of the first layer that no other family has

  const char* token_embedding;
  const char* position_embedding;
  const char* layer;
  const char* attention_norm;
  const char* mlp_norm;
  const char* gain;   // of a norm
  const char* shift;  // of a norm
  const char* fused;  // query, key and value in one; nullptr: three by these names
  const char *query, *key_projection, *value, *attention_output;
  const char *up, *down;
  const char* final_norm;
  const char* output;
  bool has_one_bias_switch;  // all linear layers and norms have a bias, or none has
};

struct FoundGpt {
  const GptFamily* family;
  std::string prefix;  // in front of all its names
};

// The family whose key is among `tensors`, under any prefix. Throws InputError, which begins with
// `where`: for weights of transformers' GPT-2, which need a config, and, with the families that are
// known, where none fits.
FoundGpt find_gpt_family(const std::vector<StoredTensor>& tensors, const std::string& where);

// A line for each family: its name and what its tensors are called. For messages.
std::string known_gpt_families();

}  // namespace arenite::convert
