// SPDX-License-Identifier: Apache-2.0
// The layers of any family, read by a row that has the names of their parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/spec/model_spec.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// How a projection of queries, keys and values in one is stored.
enum class FusedRows {
  kBlocks,  // all queries, below them all keys, below them all values
  kHeads,   // [heads][query, key, value][head_dim]
};

// Names after the layer's own, without ".weight" and ".bias". A null pointer: there is none.
struct LayerNames {
  const char* attention_norm;
  const char* mlp_norm = nullptr;
  const char* fused = nullptr;  // or these three:
  const char* query = nullptr;
  const char* key = nullptr;
  const char* value = nullptr;
  const char* query_norm = nullptr;
  const char* key_norm = nullptr;
  const char* output;
  const char* gate = nullptr;
  const char* up;
  const char* down;

  NormKind norm = NormKind::kLayer;
  FusedRows fused_rows = FusedRows::kBlocks;
  bool keeps_inputs_first = false;  // matrices are [inputs, outputs], as Conv1D has them
};

// What the config says of the layers.
struct LayerSettings {
  double epsilon = 0.0;
  Presence qkv_bias = Presence::kRequired;
  Presence output_bias = Presence::kRequired;
  Presence mlp_bias = Presence::kRequired;
  Presence norm_bias = Presence::kRequired;  // of layer norms
  bool has_head_norms = false;
  bool gain_plus_one = false;
  bool is_parallel = false;
  std::vector<uint32_t> windows{};  // keys that a query sees in each layer, 0: all; empty: all
};

// A norm of the row's kind; `name` is the whole one.
NormSpec read_norm(ModelTensors& tensors, const LayerNames& names, const LayerSettings& settings,
                   const std::string& name, uint32_t features);

// Layers 0 to `count` - 1 into `spec`. `list` is what stands before a layer's number. REQUIRES: the
// sizes of `spec` are set, kv_heads among them.
void read_layers(ModelTensors& tensors, TransformerSpec& spec, const LayerNames& names,
                 const LayerSettings& settings, const std::string& list, uint32_t count);

}  // namespace arenite::convert
