// SPDX-License-Identifier: Apache-2.0
// A decoder, an encoder or a single attention module as its author trained it, whatever file it
// came from and before anything is folded, fused or packed.
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

// Readers refuse sizes beyond these, so that products stay far from overflow and a config that lies
// costs nothing.
inline constexpr uint32_t kSideMax = 1u << 24;  // of a matrix
inline constexpr uint32_t kLayersMax = 1024;

// A weight matrix, read from its file only when asked for: a model may be larger than memory.
// Whatever the file does differently is undone inside `load`: transposed, fused, quantized or
// reordered storage. A WeightRef keeps the files that it reads open.
struct WeightRef {
  std::string name;  // of the tensor in the file, for messages
  uint32_t rows = 0;
  uint32_t columns = 0;
  // [rows, columns], row-major, all finite. Throws InputError. Each call reads again.
  std::function<std::vector<float>()> load;
  // The same numbers before they were rounded to float32; empty where rounding changes nothing.
  std::function<std::vector<double>()> load_f64{};
  // The integers and scales that the file has, where `quantized` says that there are some: times
  // each other they are the numbers of `load`, but for scales of blocks, which are bfloat16 here
  // and mostly binary16 in files. Who moves whole rows keeps both; who does anything else to the
  // numbers drops them. quantized_weights.h knows when they can be used. After types were chosen
  // (program/weights.h), what the file of the model holds.
  QuantizedForm quantized{};
  std::function<QuantizedMatrix()> load_quantized{};

  // Calls `take` with the numbers as the author has them, a vector of float or of double.
  template <typename Take>
  auto visit(const Take& take) const {
    return load_f64 ? take(load_f64()) : take(load());
  }
  std::vector<double> exact() const;  // the same, as double
};

// y = x weight^T + bias: weight is [outputs, inputs].
struct LinearSpec {
  WeightRef weight;
  std::vector<double> bias{};  // [outputs], or empty

  uint32_t outputs() const { return weight.rows; }
  uint32_t inputs() const { return weight.columns; }
};

// layer: (x - mean) / sqrt(variance + epsilon) * gain + bias
// rms:   x / sqrt(mean of squares + epsilon) * gain, or * (1 + gain)
// deviation and root: the same with the epsilon outside of the root
struct NormSpec {
  std::string name;  // of the gain's tensor in the file
  NormKind kind = NormKind::kLayer;
  std::vector<double> gain;  // [features]
  std::vector<double> bias;  // [features], or empty
  double epsilon = 0.0;
  bool gain_plus_one = false;
};

// What a conversion rests on besides the tensors. For people.
struct Account {
  std::vector<std::string> given;    // "--heads 4", "activation gelu, from 'config.json'"
  std::vector<std::string> assumed;  // "scores times 1/sqrt(head_dim)"
};

// Rotary position embedding of each query and key head: for i < rotary_dim / 2, the pair of
// elements (i, i + rotary_dim / 2), or of neighbours (2i, 2i + 1), turns by
// position * inverse_frequencies[i]. Elements from rotary_dim on stay.
struct RopeSpec {
  uint32_t rotary_dim = 0;                  // even, at most head_dim
  std::vector<double> inverse_frequencies;  // [rotary_dim / 2], radians per position, after scaling
  double magnitude = 1.0;                   // multiplies what has been turned
  bool turns_neighbours = false;
  // Where no frequencies say them: of each position the cosines of all pairs, then the sines, times
  // what multiplies them there, [positions, rotary_dim].
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

// One step of a head, of the parts that it has, in this order.
struct HeadStepSpec {
  std::optional<LinearSpec> linear{};  // x weight^T + bias
  std::optional<Activation> activation{};
  std::optional<NormSpec> norm{};
  bool normalize = false;           // to length 1 (L2)
  bool is_token_embedding = false;  // linear's weight: it is stored once
};

// Each token sees itself and those before it, and where the model is not causal, those after it.
// Tokens: x = embedding_norm(embedding_scale token_embedding[id] + position_embedding[position
// + position_offset] + type_embedding[type]), then input(x) where there is an input projection.
// With a padding_id positions count the tokens that have another id, and tokens of that id have the
// row before that of position 0.
// Features: x = embedding_norm(embedding_scale input(features) + position_embedding[position +
// position_offset]).
struct TransformerSpec {
  std::string architecture;  // as its config calls it: "llama"
  bool is_decoder = false;   // gives logits of its vocabulary for each token, or lacks them alone
  uint32_t vocab_size = 0;   // 0: the input is features
  uint32_t input_features = 0;  // 0: the input is tokens
  uint32_t token_types = 0;     // rows of type_embedding; 0: none
  uint32_t model_dim = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;  // divides heads: query head h reads head h / (heads / kv_heads); 0: heads
  uint32_t head_dim = 0;
  uint32_t ffn_dim = 0;
  uint32_t positions_max = 0;    // longest sequence
  uint32_t position_offset = 0;  // rows of position_embedding that no position uses: RoBERTa's 2
  std::optional<uint32_t> padding_id;  // RoBERTa's 1
  bool norm_first = false;
  bool causal = false;
  std::optional<double> score_scale;  // of attention scores; absent: 1/sqrt(head_dim)
  double embedding_scale = 1.0;       // of what is embedded, without positions and types
  Activation activation = Activation::kGeluErf;

  std::optional<WeightRef> token_embedding;     // [vocab_size, embedding_dim]
  std::optional<WeightRef> position_embedding;  // [positions_max + position_offset, embedding_dim]
  std::optional<WeightRef> type_embedding;      // [token_types, embedding_dim]
  std::optional<NormSpec> embedding_norm;
  std::optional<RopeSpec> rope;
  // ALiBi: head h adds alibi_slopes[h] * (key - query) to each score; empty: none.
  std::vector<double> alibi_slopes;
  std::optional<LinearSpec> input;  // features' layer; ELECTRA's from embedding_dim to model_dim
  std::vector<LayerSpec> layers;
  std::optional<NormSpec> final_norm;

  // Of a decoder.
  std::optional<LinearSpec> output;  // [vocab_size, model_dim]; absent: token_embedding
  bool is_headless = false;  // saved without its head: the results are the last hidden states
  std::optional<double> logits_soft_cap;  // logits = cap * tanh(logits / cap)
  std::optional<uint32_t> bos_id;         // where the file says so; always below vocab_size
  std::vector<uint32_t> eos_ids;          // any of them ends a text

  // Of an encoder.
  SelectKind pooling = SelectKind::kAsAsked;
  std::vector<SelectKind> more_pooling;  // whose rows follow, side by side; none are kNone
  std::vector<HeadStepSpec> head;        // of each row that pooling gives out
  std::vector<std::string> labels;       // of the classes given out; empty: none, or not named

  std::vector<std::string> notes;  // for people: where the config could be read in another way
  Account account;
};

// What decoders usually are: causal, with norms first. Encoders are as the struct begins.
TransformerSpec decoder_spec();

// Adds the note that names `fields` of the config, which ConfigFields::finish passed over.
void note_passed_over(const std::vector<std::string>& fields, TransformerSpec& spec);

// Throws InputError for sizes that do not go together. Sizes that nothing is read for yet, such as
// a number of layers beyond reason, never get further than this.
void check_sizes(const TransformerSpec& spec, size_t layers, const std::string& where);

// head_dim where no field gives it. Throws InputError unless heads divide the model's width.
uint32_t even_head_dim(uint32_t model_dim, uint32_t heads, const std::string& where);

// How wide the rows are that pooling gives out, and those of the whole model.
uint32_t pooled_width(const TransformerSpec& spec);
uint32_t output_width(const TransformerSpec& spec);

// Whether the rows that the model gives out have length 1.
bool is_normalized(const TransformerSpec& spec);

// A single attention module:
// output = concat over heads of softmax(score_scale q k^T + mask) v, then the projection.
struct AttentionModule {
  std::string architecture;  // the name that people know it by
  uint32_t heads = 1;
  uint32_t head_dim = 0;   // 0: no query and key, the mask alone gives the weights
  uint32_t value_dim = 0;  // per head
  double score_scale = 1.0;
  uint32_t features = 0;  // width of the input
  // Query, key and value read the input's columns [query | key | value] instead of sharing them.
  bool separate_inputs = false;
  LinearSpec query, key, value;      // [heads * dim, inputs]; none where head_dim is 0
  std::optional<LinearSpec> output;  // [outputs, heads * value_dim]

  uint32_t positions_max = 0;             // 0: any
  std::vector<Mask> masks;                // different ones
  std::vector<std::string> mask_origins;  // where each of them comes from, for people
  std::vector<uint32_t> head_masks;       // which mask each head has

  Account account;

  uint32_t output_features() const { return output ? output->outputs() : heads * value_dim; }
};

}  // namespace arenite::convert
