// SPDX-License-Identifier: Apache-2.0
// An encoder as its author trained it, whatever file it came from and before anything is folded,
// fused or packed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/spec/layer_parts.h"

namespace arenite::convert {

// norm_first: x += attention(attention_norm(x)); x += mlp(mlp_norm(x)).
// Otherwise: x = attention_norm(x + attention(x)); x = mlp_norm(x + mlp(x)).
struct EncoderLayerSpec {
  LinearSpec query, key, value;  // [model_dim, model_dim]
  LinearSpec output;             // [model_dim, model_dim]
  NormSpec attention_norm;
  LinearSpec up;    // [ffn_dim, model_dim]
  LinearSpec down;  // [model_dim, ffn_dim]
  NormSpec mlp_norm;
};

// What becomes of a sequence's rows: all of them, that of its first token or the last one, or one
// row made of all. kMeanSqrtLength is their sum by the square root of their number; in
// kWeightedMean a row weighs as much as its position, counted from 1.
enum class Pooling { kNone, kFirst, kMean, kMax, kMeanSqrtLength, kWeightedMean, kLast };

// One step of a head, of the parts that it has, in this order.
struct HeadStepSpec {
  std::optional<LinearSpec> linear{};  // x weight^T + bias
  std::optional<Activation> activation{};
  std::optional<NormSpec> norm{};
  bool normalize = false;           // to length 1 (L2)
  bool is_token_embedding = false;  // linear's weight: it is stored once
};

// Attention sees all tokens of a sequence or, where the model is causal, itself and those before
// it. Tokens: x = embedding_norm(embedding_scale token_embedding[id] + position_embedding[position
// + position_offset] + type_embedding[type]), then input(x) where there is an input projection.
// With a padding_id positions count the tokens that have another id, and tokens of that id have the
// row before that of position 0.
// Features: x = embedding_norm(embedding_scale input(features) + position_embedding[position +
// position_offset]).
struct EncoderSpec {
  std::string architecture;     // as its config calls it: "bert"
  uint32_t vocab_size = 0;      // 0: the input is features
  uint32_t input_features = 0;  // 0: the input is tokens
  uint32_t token_types = 0;     // rows of type_embedding; 0: none
  uint32_t model_dim = 0;
  uint32_t heads = 0;
  uint32_t head_dim = 0;
  uint32_t ffn_dim = 0;
  uint32_t positions_max = 0;    // longest sequence
  uint32_t position_offset = 0;  // rows of position_embedding that no position uses: RoBERTa's 2
  std::optional<uint32_t> padding_id;  // RoBERTa's 1
  bool norm_first = false;
  bool causal = false;
  uint32_t window = 0;                // of a causal model: keys that a query sees; 0: all
  std::optional<double> score_scale;  // of attention scores; absent: 1/sqrt(head_dim)
  double embedding_scale = 1.0;       // of what is embedded, without positions and types
  Activation activation = Activation::kGeluErf;

  std::optional<WeightRef> token_embedding;     // [vocab_size, embedding_dim]
  std::optional<WeightRef> position_embedding;  // [positions_max + position_offset, embedding_dim]
  std::optional<WeightRef> type_embedding;      // [token_types, embedding_dim]
  std::optional<NormSpec> embedding_norm;
  std::optional<LinearSpec> input;  // features' layer; ELECTRA's from embedding_dim to model_dim
  std::vector<EncoderLayerSpec> layers;
  std::optional<NormSpec> final_norm;

  Pooling pooling = Pooling::kNone;
  std::vector<Pooling> more_pooling;  // whose rows stand behind, side by side; none are kNone
  std::vector<HeadStepSpec> head;     // of each row that pooling gives out
  std::vector<std::string> labels;    // of the classes given out; empty: none, or not named
};

// How wide the rows are that pooling gives out, and those of the whole model.
uint32_t pooled_width(const EncoderSpec& spec);
uint32_t output_width(const EncoderSpec& spec);

// Whether the rows that the model gives out have length 1.
bool is_normalized(const EncoderSpec& spec);

}  // namespace arenite::convert
