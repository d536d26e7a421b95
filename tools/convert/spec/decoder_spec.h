// SPDX-License-Identifier: Apache-2.0
// A decoder model as its author trained it, whatever file it came from and before anything is
// folded, fused or packed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/spec/layer_parts.h"

namespace arenite::convert {

// Sequential (the usual form): x += attention(attention_norm(x)); x += mlp(mlp_norm(x)).
// Sequential with norms last: x = attention_norm(x + attention(x)); x = mlp_norm(x + mlp(x)).
// Parallel: x += attention(attention_norm(x)) + mlp(mlp_norm(x)), both from the same x.
struct LayerSpec {
  NormSpec attention_norm;
  std::optional<NormSpec> mlp_norm;  // absent only where parallel: the MLP reads attention_norm(x)
  bool parallel_residual = false;

  LinearSpec query;                              // [heads * head_dim, model_dim]
  LinearSpec key, value;                         // [kv_heads * head_dim, model_dim]
  LinearSpec output;                             // [model_dim, heads * head_dim]
  std::optional<NormSpec> query_norm, key_norm;  // of each head on its own, [head_dim], before RoPE
  uint32_t window = 0;  // keys that a query sees, its own included; 0: all before it

  // down(activation(gate(x)) * up(x)), or down(activation(up(x))) without a gate.
  std::optional<LinearSpec> gate;  // [ffn_dim, model_dim]
  LinearSpec up;                   // [ffn_dim, model_dim]
  LinearSpec down;                 // [model_dim, ffn_dim]
};

// Each token sees itself and those before it, and where the model is not causal, those after it.
struct DecoderSpec {
  std::string architecture;  // as its config calls it: "llama"
  uint32_t vocab_size = 0;
  uint32_t model_dim = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;  // divides heads; query head h reads kv head h / (heads / kv_heads)
  uint32_t head_dim = 0;
  uint32_t ffn_dim = 0;
  uint32_t positions_max = 0;  // that the model was trained for
  bool norm_first = true;
  bool causal = true;
  std::optional<double> score_scale;  // of attention scores; absent: 1/sqrt(head_dim)

  WeightRef token_embedding;                    // [vocab_size, model_dim]
  std::optional<double> embedding_scale;        // multiplies the token embedding
  std::optional<WeightRef> position_embedding;  // learned, [positions_max, model_dim], added
  std::optional<RopeSpec> rope;
  Activation activation = Activation::kGeluErf;
  std::vector<LayerSpec> layers;
  std::optional<NormSpec> final_norm;
  std::optional<LinearSpec> output;  // [vocab_size, model_dim]; absent: token_embedding
  bool is_headless = false;  // saved without its head: the results are the last hidden states
  std::optional<double> logits_soft_cap;  // logits = cap * tanh(logits / cap)

  std::optional<uint32_t> bos_id;  // where the file says so; always below vocab_size
  std::vector<uint32_t> eos_ids;   // any of them ends a text

  std::vector<std::string> notes;  // for people: where the config could be read in another way
};

}  // namespace arenite::convert
