// SPDX-License-Identifier: Apache-2.0
// A row for each family of decoders of transformers, and what the rows' own readers share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/families/hf_models.h"
#include "convert/spec/model_tensors.h"
#include "convert/spec/rope_scaling.h"

namespace arenite::convert {

// Which layers have windows: none, all, those that layer_types names beside use_sliding_window, or
// those that layer_types names or, without it, all but every n-th.
enum class Windows { kNone, kAllLayers, kSomeLayers, kPattern };

// Whether a part is there: as a config field says, or the same in all models.
struct Switch {
  const char* field = nullptr;
  bool value = false;  // the field's default, or without a field the value
};
bool is_on(ConfigFields& config, const Switch& part);

struct Family;

// A decoder that is being read. `read_own` of its row changes what its config says besides.
struct Reading {
  ConfigFields& config;
  const Family& family;
  TransformerSpec& spec;
  uint32_t layers;
  LayerSettings settings;
  LayerNames names;
  const char* final_norm;
  uint32_t embedding_dim = 0;    // 0: as wide as the layers
  std::vector<bool> windowed{};  // for each layer
};

struct Family {
  const char* model_type;
  // Reads the family's own config fields; refuses unsupported values.
  void (*read_own)(Reading& reading) = nullptr;
  // Sets the names of another file format, after read_own.
  void (*use_own_names)(Reading& reading, const ModelTensors& tensors) = nullptr;

  // Tensor names; null if the family lacks the part. `prefix` is missing in models saved without
  // their head.
  const LayerNames* layer = nullptr;
  const char* prefix = nullptr;
  const char* embedding = nullptr;
  const char* positions = nullptr;
  const char* input = nullptr;       // from the embeddings' width to that of the layers
  const char* projection = nullptr;  // and back, of the last hidden states
  const char* embedding_norm = nullptr;
  const char* list = nullptr;
  const char* final_norm = nullptr;
  const char* head = nullptr;
  Presence head_bias = Presence::kNone;

  SizeField width = {"hidden_size"};
  SizeField heads = {"num_attention_heads"};
  SizeField layers = {"num_hidden_layers"};
  SizeField ffn = {"intermediate_size"};  // without a fallback: four times the width
  SizeField context = {"max_position_embeddings", 2048};
  bool has_head_fields = true;  // num_key_value_heads and head_dim

  // Defaults of the transformers package for missing config fields.
  uint32_t kv_heads = 0;  // 0: equal to heads
  uint32_t head_dim = 0;  // 0: model_dim / heads
  std::optional<uint32_t> bos{}, eos{};
  bool is_tied = false;
  const char* epsilon_field = "layer_norm_eps";  // null: always `epsilon`
  double epsilon = 1e-5;
  const char* activation_field = "hidden_act";  // null: read_own sets it
  const char* activation = "silu";
  std::optional<RopeFields> rope{};
  std::optional<RopeFields> local_rope{};  // of layers with windows, if they have their own

  Switch qkv_bias = {nullptr, true};
  Switch output_bias = {nullptr, true};
  Switch mlp_bias = {nullptr, true};
  Presence norm_bias = Presence::kRequired;
  Switch parallel{};
  bool has_head_norms = false;
  bool gain_plus_one = false;
  bool may_be_bidirectional = false;
  Windows windows = Windows::kNone;
  uint32_t window = 0;          // of kAllLayers: default of sliding_window; 0: none
  uint32_t window_pattern = 0;  // of kPattern: every n-th layer has none
};

std::span<const Family> gpt_families();
std::span<const Family> llama_families();
const Family* find_family(std::string_view model_type);  // nullptr if there is no such row

// Reads a decoder by its row. The caller finishes `config` and `tensors`.
TransformerSpec read_decoder(ConfigFields& config, ModelTensors& tensors, const Family& family,
                             HeadUse use);

// Returns the positive number in `field`; nullopt if it is null, or by default.
std::optional<double> read_cap(ConfigFields& config, const char* field,
                               std::optional<double> fallback);

}  // namespace arenite::convert
