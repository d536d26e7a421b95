// SPDX-License-Identifier: Apache-2.0
// Specs of a decoder, an encoder or a single attention module as its author trained it, independent
// of the file format, before anything is folded, fused or packed. Readers fill them in; build_graph
// builds the graph.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/masks/masks.h"
#include "convert/quantize/quantizers.h"
#include "core/op_kinds.h"

namespace arenite::convert {

// Readers refuse larger sizes, so that products cannot overflow and a wrong config costs nothing.
inline constexpr uint32_t kSideMax = 1u << 24;  // rows or columns of a matrix
inline constexpr uint32_t kLayersMax = 1024;

// A weight matrix, loaded only on demand, since a model may be larger than memory. `load` undoes
// the file's own storage: transposed, fused, quantized or reordered. A WeightRef keeps its files
// open.
//   const Floats values = weight.load();  // values[row * columns + column]
struct WeightRef {
  std::string name;  // of the file's tensor, for messages
  uint32_t rows = 0;
  uint32_t columns = 0;
  // Returns [rows, columns], row-major, all finite. Throws InputError. Each call reads the file
  // again.
  std::function<Floats()> load;
  // Loads the elements before rounding to float32; empty if rounding changes nothing.
  std::function<std::vector<double>()> load_f64{};
  // Loads the file's integers and scales, if `quantized` has a type. Their products equal the
  // elements of `load`, except that block scales are bfloat16 here and mostly binary16 in files.
  // Code that moves whole rows keeps both members; code that changes elements otherwise must clear
  // them. quantized_weights.h decides when they can be used. After types are chosen
  // (program/weights.h), loads the elements of the model file.
  QuantizedForm quantized{};
  std::function<QuantizedMatrix()> load_quantized{};

  // Calls `take` with the exact elements, Floats or a vector of double.
  template <typename Take>
  auto visit(const Take& take) const {
    return load_f64 ? take(load_f64()) : take(load());
  }
  std::vector<double> exact() const;  // as double
};

// y = x weight^T + bias, with weight [outputs, inputs].
struct LinearSpec {
  WeightRef weight;
  std::vector<double> bias{};  // [outputs], or empty

  uint32_t outputs() const { return weight.rows; }
  uint32_t inputs() const { return weight.columns; }
};

// layer: (x - mean) / sqrt(variance + epsilon) * gain + bias
// rms:   x / sqrt(mean(x^2) + epsilon) * gain, or * (1 + gain)
// deviation and root: like these, with the epsilon outside of the root
struct NormSpec {
  std::string name;  // of the gain's tensor in the file
  NormKind kind = NormKind::kLayer;
  std::vector<double> gain;  // [features]
  std::vector<double> bias;  // [features], or empty
  double epsilon = 0.0;
  bool gain_plus_one = false;
};

// Facts other than tensors that a conversion relies on, for reports.
struct Account {
  std::vector<std::string> given;    // "--heads 4", "activation gelu, from 'config.json'"
  std::vector<std::string> assumed;  // "scores times 1/sqrt(head_dim)"
};

// Rotary position embedding of each query and key head. For i < rotary_dim / 2, rotates the pair of
// elements (i, i + rotary_dim / 2), or with turns_neighbours (2i, 2i + 1), by position *
// inverse_frequencies[i]. Elements from rotary_dim on are unchanged.
struct RopeSpec {
  uint32_t rotary_dim = 0;                  // even, at most head_dim
  std::vector<double> inverse_frequencies;  // [rotary_dim / 2], radians per position, after scaling
  double magnitude = 1.0;                   // multiplies the rotated elements
  bool turns_neighbours = false;
  // Replaces the frequencies: [positions, rotary_dim], for each position the cosines of all pairs,
  // then the sines, with their magnitudes.
  std::vector<double> table{};

  double cosine(size_t position, size_t pair) const {
    if (!table.empty()) return table[position * rotary_dim + pair];
    return magnitude * std::cos(static_cast<double>(position) * inverse_frequencies[pair]);
  }
  double sine(size_t position, size_t pair) const {
    if (!table.empty()) return table[position * rotary_dim + rotary_dim / 2 + pair];
    return magnitude * std::sin(static_cast<double>(position) * inverse_frequencies[pair]);
  }

  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

// Which of the model's RoPEs a layer applies to its queries and keys.
enum class Rotation { kModel, kLocal, kNone };

// A mixture of experts: the `chosen` experts with the highest scores of `count`, weighted.
//   sum over them of weight * down(activation(gate(x)) * up(x))
// With a limit L, gates are at most L, `up` is within [-L, L], and g sigmoid(1.702 g) (up + 1)
// replaces the product of a gate g and `up`.
struct ExpertsSpec {
  uint32_t count = 0, chosen = 0;
  // A softmax of the chosen scores gives the weights; else they are those of all scores.
  bool renormalizes = true;
  std::optional<double> limit{};
  LinearSpec router{};              // [count, model_dim]
  LinearSpec gate{}, up{}, down{};  // the rows of all experts, one after the other
};

// Sequential (the usual form): x += attention(attention_norm(x)); x += mlp(mlp_norm(x)).
// Sequential with norms last: x = attention_norm(x + attention(x)); x = mlp_norm(x + mlp(x)).
// Parallel: x += attention(attention_norm(x)) + mlp(mlp_norm(x)), both from the same x.
struct LayerSpec {
  std::optional<NormSpec> attention_norm;  // absent: attention reads x
  std::optional<NormSpec> mlp_norm;  // absent: the MLP reads x, or attention's input if parallel
  // Norms of what attention and MLP give, before it is added to x.
  std::optional<NormSpec> attention_out_norm, mlp_out_norm;
  bool parallel_residual = false;
  Rotation rotation = Rotation::kModel;

  LinearSpec query;       // [heads * head_dim, model_dim]
  LinearSpec key, value;  // [kv_heads * head_dim, model_dim]
  LinearSpec output;      // [model_dim, heads * head_dim]
  // Before RoPE: of each head [head_dim], or of the whole row.
  std::optional<NormSpec> query_norm, key_norm;
  // Keys that a query sees, including its own; 0: all. Unless causal, as many on its other side.
  uint32_t window = 0;

  // down(activation(gate(x)) * up(x)), or down(activation(up(x))) without a gate.
  std::optional<LinearSpec> gate;  // [ffn_dim, model_dim]
  LinearSpec up;                   // [ffn_dim, model_dim]
  LinearSpec down;                 // [model_dim, ffn_dim]

  // Experts in place of these three, or with a shared gate [1, model_dim] beside them:
  // experts(x) + sigmoid(shared_gate(x)) * down(...).
  std::optional<ExpertsSpec> experts{};
  std::optional<LinearSpec> shared_gate{};
  std::vector<double> sinks{};  // of attention: [heads], or none
};

// One step of a head: applies the parts that are present, in this order.
struct HeadStepSpec {
  std::optional<LinearSpec> linear{};  // x weight^T + bias
  std::optional<Activation> activation{};
  std::optional<NormSpec> norm{};
  bool normalize = false;           // L2: divides the row by its norm
  bool is_token_embedding = false;  // the linear weight is the token embedding, stored once
};

// A stack of transformer layers. Each token sees itself and earlier tokens and, unless causal,
// later ones. Tokens: x = embedding_norm(embedding_scale * token_embedding[id] +
// position_embedding[position + position_offset] + type_embedding[type]), then input(x) if there is
// an input projection. With a padding_id, a position counts the tokens before it whose id differs,
// and a padding token reads the row before that of position 0. Features: x =
// embedding_norm(embedding_scale * input(features) + position_embedding[position +
// position_offset]).
struct TransformerSpec {
  std::string architecture;     // as in its config: "llama"
  bool is_decoder = false;      // outputs logits of its vocabulary for each token, or is headless
  uint32_t vocab_size = 0;      // 0: the input is features
  uint32_t input_features = 0;  // 0: the input is tokens
  uint32_t token_types = 0;     // rows of type_embedding; 0: none
  uint32_t model_dim = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;  // divides heads: query head h reads head h / (heads / kv_heads); 0: heads
  uint32_t head_dim = 0;
  uint32_t ffn_dim = 0;
  uint32_t positions_max = 0;          // longest sequence
  uint32_t position_offset = 0;        // unused first rows of position_embedding: RoBERTa's 2
  std::optional<uint32_t> padding_id;  // RoBERTa's 1
  bool norm_first = false;
  bool causal = false;
  std::optional<double> score_scale;     // absent: 1/sqrt(head_dim)
  std::optional<double> score_soft_cap;  // scores = cap * tanh(scores / cap)
  std::optional<double> qkv_clip;        // queries, keys and values are clamped to [-clip, clip]
  double embedding_scale = 1.0;          // of tokens or features, not of positions and types
  double residual_scale = 1.0;           // of what attention and MLP add to x
  Activation activation = Activation::kGeluErf;
  bool squares_activation = false;  // its result is squared

  std::optional<WeightRef> token_embedding;     // [vocab_size, embedding_dim]
  std::optional<WeightRef> position_embedding;  // [positions_max + position_offset, embedding_dim]
  std::optional<WeightRef> type_embedding;      // [token_types, embedding_dim]
  std::optional<NormSpec> embedding_norm;
  std::optional<RopeSpec> rope, local_rope;  // as the layers' Rotation says
  // ALiBi: head h adds alibi_slopes[h] * (key - query) to each score; empty: none.
  std::vector<double> alibi_slopes;
  // Added to scores by distance, [heads, 2 * n - 1] with distance 0 in the middle and n at least
  // positions_max; empty: nothing.
  std::vector<double> score_bias;
  // Projection of features, or from embedding_dim to model_dim. Positions that are model_dim wide
  // are added after it.
  std::optional<LinearSpec> input;
  std::vector<LayerSpec> layers;
  std::optional<NormSpec> final_norm;

  // For decoders.
  std::optional<LinearSpec> projection;  // [embedding_dim, model_dim], of the last hidden states
  std::optional<LinearSpec> output;      // [vocab_size, embedding_dim]; absent: token_embedding
  double logits_scale = 1.0;
  bool is_headless = false;               // saved without its head: outputs the last hidden states
  std::optional<double> logits_soft_cap;  // logits = cap * tanh(logits / cap)
  std::optional<uint32_t> bos_id;         // if the file has one; always below vocab_size
  std::vector<uint32_t> eos_ids;          // any of them ends a text

  // For encoders.
  SelectKind pooling = SelectKind::kAsAsked;
  // Further poolings, concatenated along the columns; none is kNone.
  std::vector<SelectKind> more_pooling;
  std::vector<HeadStepSpec> head;   // applied to each pooled row
  std::vector<std::string> labels;  // of the output's classes; empty: none, or not named

  std::vector<std::string> notes;  // for the report: ambiguities of the config
  Account account;
};

// Returns the defaults of decoders: causal, with norms first. A new struct has those of encoders.
TransformerSpec decoder_spec();

// Adds the note that names `fields` of the config, which ConfigFields::finish passed over.
void note_passed_over(const std::vector<std::string>& fields, TransformerSpec& spec);

// Throws InputError for inconsistent sizes, and for unreasonable ones such as the number of layers.
// Called before anything of these sizes is read.
void check_sizes(const TransformerSpec& spec, size_t layers, const std::string& where);

// Returns model_dim / heads, for configs without head_dim. Throws InputError unless `heads` divides
// model_dim.
uint32_t even_head_dim(uint32_t model_dim, uint32_t heads, const std::string& where);

// Returns the width of the pooled rows, and of the model's output rows.
uint32_t pooled_width(const TransformerSpec& spec);
uint32_t output_width(const TransformerSpec& spec);

// Whether the output rows have norm 1.
bool is_normalized(const TransformerSpec& spec);

// A single attention module:
// output = concat over heads of softmax(score_scale q k^T + mask) v, then the projection.
struct AttentionModule {
  std::string architecture;  // the name that people know it by
  uint32_t heads = 1;
  uint32_t head_dim = 0;   // 0: no query and key; the softmax of the mask alone is used
  uint32_t value_dim = 0;  // per head
  double score_scale = 1.0;
  uint32_t features = 0;  // width of the input
  // Query, key and value read the input's columns [query | key | value] instead of sharing them.
  bool separate_inputs = false;
  LinearSpec query, key, value;      // [heads * dim, inputs]; none where head_dim is 0
  std::optional<LinearSpec> output;  // [outputs, heads * value_dim]

  uint32_t positions_max = 0;             // 0: unlimited
  std::vector<Mask> masks;                // distinct ones
  std::vector<std::string> mask_origins;  // source of each mask, for the report
  std::vector<uint32_t> head_masks;       // index into masks for each head

  Account account;

  uint32_t output_features() const { return output ? output->outputs() : heads * value_dim; }
};

}  // namespace arenite::convert
