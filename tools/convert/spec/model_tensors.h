// SPDX-License-Identifier: Apache-2.0
// Takes the tensors of a model by name and shape, accounts for every one, and converts weights from
// the file's own layouts.
//
//   ModelTensors tensors(store, "model.");
//   spec.up = tensors.linear("mlp.up", ffn_dim, model_dim, Presence::kIfStored);
//   tensors.finish();  // throws if tensors are missing or left over
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// Indices of source rows, in the order of the result.
using RowOrder = std::vector<uint32_t>;

// Returns rows [first, first + count).
RowOrder row_range(uint32_t first, uint32_t count);

// Returns the row order that converts query or key heads from rotation of neighbours (2i, 2i + 1)
// to rotation of halves (i, i + rotary_dim / 2). REQUIRES: rotary_dim is even and at most head_dim.
//   head_dim 6, rotary_dim 4: 0 1 2 3 4 5  ->  0 2 1 3 4 5
RowOrder halves_of_pairs(uint32_t heads, uint32_t head_dim, uint32_t rotary_dim);

// Transposes a weight that a layer stores as [inputs, outputs], such as GPT-2's Conv1D.
WeightRef transpose(WeightRef weight);

// Selects rows of `weight` by `order`, including quantized ones, or elements of a vector. An empty
// vector (absent) stays empty. REQUIRES: every row exists.
WeightRef select_rows(WeightRef weight, RowOrder order);
std::vector<double> select_rows(const std::vector<double>& vector, const RowOrder& order);
LinearSpec select_rows(const LinearSpec& linear, const RowOrder& order);

// Splits a projection whose rows are the concatenated rows of query, key and value into these
// three.
template <typename Layer>
void split_fused(Layer& layer, const LinearSpec& fused, uint32_t query_rows, uint32_t key_rows) {
  layer.query = select_rows(fused, row_range(0, query_rows));
  layer.key = select_rows(fused, row_range(query_rows, key_rows));
  layer.value = select_rows(fused, row_range(query_rows + key_rows, key_rows));
}

// Concatenates the rows of all `parts`. REQUIRES: equal widths, and a bias in all parts or in none.
LinearSpec stack_rows(std::vector<LinearSpec> parts);

// Returns "'file': 'tensor'", for messages.
std::string place_of(const StoredTensor& tensor);

// Throws InputError unless `tensor` is a matrix whose sides are within limits.
struct Sides {
  uint32_t rows, columns;
};
Sides sides_of(const StoredTensor& tensor);

enum class Presence { kNone, kRequired, kIfStored };

// Names of a weight matrix or norm gain, and of its bias; empty: none.
struct PartNames {
  std::string weight, bias;
};

// Suffixes of a part's tensors: {".weight", ".bias"}, and common alternatives.
std::span<const PartNames> part_leaves();

// A missing tensor yields an empty result and is recorded, so that `finish` can name all of them at
// once. A wrong shape throws InputError immediately; extra dimensions of 1 are ignored. All names
// follow `prefix`, which is empty or ends in a dot. REQUIRES: the store outlives this object.
class ModelTensors {
 public:
  explicit ModelTensors(const TensorStore& store, std::string prefix = "")
      : store_(store), prefix_(std::move(prefix)) {}

  const std::string& source() const { return store_.source(); }
  const std::vector<StoredTensor>& stored() const { return store_.tensors(); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::string full_name(std::string_view name) const { return prefix_ + std::string(name); }

  // Returns the sizes of the matrix `name`, for formats whose shapes replace a config. Throws
  // InputError, also if it is missing.
  Sides shape_of(const std::string& name) const;

  // Takes a matrix stored as [rows, columns].
  WeightRef matrix(const std::string& name, uint32_t rows, uint32_t columns);
  // Takes a vector [elements], loaded immediately.
  std::vector<double> vector(const std::string& name, uint32_t elements,
                             Presence presence = Presence::kRequired);

  // Returns the tensor names of a part that the file has; <name>.weight and <name>.bias if it has
  // none. The bias may be missing.
  PartNames part(const std::string& name) const;
  bool has_part(const std::string& name) const { return has(part(name).weight); }

  // Takes the part `name`: a weight [outputs, inputs] and a bias [outputs].
  LinearSpec linear(const std::string& name, uint32_t outputs, uint32_t inputs, Presence bias);
  // Takes the part with the sizes in the file. Throws InputError if the weight is missing or not a
  // matrix.
  LinearSpec linear(const std::string& name);
  // Takes a weight stored as [inputs, outputs], unless the tensor is marked is_by_outputs.
  LinearSpec conv1d(const std::string& name, uint32_t outputs, uint32_t inputs, Presence bias);
  // Takes `count` matrices in one tensor, [count, outputs, inputs] or, if inputs come first,
  // [count, inputs, outputs], and biases [count, outputs] unless their name is empty. Returns the
  // rows of all, one after the other.
  LinearSpec stacked(const PartNames& names, uint32_t count, uint32_t outputs, uint32_t inputs,
                     bool are_inputs_first);
  // Takes the part `name`: gain [features] and bias [features].
  NormSpec norm(const std::string& name, uint32_t features, double epsilon,
                NormKind kind = NormKind::kLayer, Presence bias = Presence::kRequired);

  // Takes a tensor of any shape and type, such as a mask; nullptr if absent.
  const StoredTensor* buffer(const std::string& name);

  // Ignores tensors without effect on the model: `name`, or every name with this prefix.
  void pass_over(const std::string& name) { taken_.insert(full_name(name)); }
  void pass_over_all(std::string_view prefix);

  // Takes a matrix that the model uses in several places, under the first of `names` that is
  // stored. Throws InputError if another one is stored and differs.
  WeightRef tied(const std::vector<std::string>& names, uint32_t rows, uint32_t columns);

  // Takes a convolution of rows or of pixels: a weight [outputs, inputs, kernel...] and a bias.
  // Returns the weight as [outputs, places of the kernel * inputs].
  LinearSpec convolution(const std::string& name, uint32_t outputs, uint32_t inputs,
                         const std::vector<uint64_t>& kernel, Presence bias);

  // Returns the full names after the prefix that were neither taken nor ignored.
  std::vector<std::string> rest() const;

  // Throws InputError that lists missing tensors and those neither taken nor ignored.
  void finish();

 private:
  const StoredTensor* find(std::string_view name) const { return store_.find(full_name(name)); }
  const StoredTensor& require(const std::string& name) const;
  const StoredTensor* take(const std::string& name, const std::vector<uint64_t>& shape,
                           Presence presence);

  const TensorStore& store_;
  const std::string prefix_;
  std::set<std::string> taken_;       // full names
  std::vector<std::string> missing_;  // "'name' [2, 3]"
};

// Row order of a fused projection of queries, keys and values.
enum class FusedRows {
  kBlocks,  // all queries, then all keys, then all values
  kHeads,   // [kv_heads][the queries that share a key, key, value][head_dim]
};

// Names relative to the layer's, without ".weight" and ".bias". A null pointer means absent. "{}"
// stands for the index of a head, if each head has its own projections.
struct LayerNames {
  const char* attention_norm = nullptr;
  const char* mlp_norm = nullptr;
  const char* attention_out_norm = nullptr;
  const char* mlp_out_norm = nullptr;
  const char* fused = nullptr;  // or query, key and value
  const char* query = nullptr;
  const char* key = nullptr;
  const char* value = nullptr;
  const char* query_norm = nullptr;
  const char* key_norm = nullptr;
  const char* output;
  const char* gate = nullptr;
  const char* up;  // with has_gate_in_up: the rows of the gate, then its own
  const char* down;

  // Names in layers with experts. "{}" stands for the index of an expert, if each has its own
  // tensors; else names are those of whole tensors. Without a gate, `expert_up` has its rows, too.
  const char* router = nullptr;
  const char* expert_gate = nullptr;
  const char* expert_up = nullptr;
  const char* expert_down = nullptr;
  bool has_expert_bias = false;    // whose tensors end in "_bias"
  const char* shared = nullptr;    // MLP beside the experts, whose gate is "<shared>_gate"
  bool has_gates_between = false;  // rows of gate and `up` in turn, and inputs come first
  const char* sinks = nullptr;

  NormKind norm = NormKind::kLayer;
  FusedRows fused_rows = FusedRows::kBlocks;
  bool has_gate_in_up = false;
  bool keeps_inputs_first = false;  // matrices are [inputs, outputs], as in Conv1D
  bool lacks_key_bias = false;      // whatever queries and values have
};

// Names in Meta's own checkpoints of Llama, and in those that llama2.c writes.
inline constexpr LayerNames kMetaLlama = {.attention_norm = "attention_norm",
                                          .mlp_norm = "ffn_norm",
                                          .query = "attention.wq",
                                          .key = "attention.wk",
                                          .value = "attention.wv",
                                          .output = "attention.wo",
                                          .gate = "feed_forward.w1",
                                          .up = "feed_forward.w3",
                                          .down = "feed_forward.w2",
                                          .norm = NormKind::kRms};

// Settings of all layers from the config. An optional tensor is either in all layers or in none.
struct LayerSettings {
  double epsilon = 0.0;
  Presence qkv_bias = Presence::kRequired;
  Presence output_bias = Presence::kRequired;
  Presence mlp_bias = Presence::kRequired;
  Presence norm_bias = Presence::kRequired;  // of layer norms
  // norm: divides by the sample standard deviation, plus epsilon.
  bool has_sample_norm = false;
  bool has_plain_norms = false;   // without gains and biases
  bool lacks_first_norm = false;  // attention of the first layer reads x
  bool has_head_norms = false;
  bool has_row_norms = false;  // head norms, but of the whole rows of queries and keys
  bool gain_plus_one = false;
  bool is_parallel = false;
  ExpertsSpec experts{};              // its numbers; count 0: no experts
  uint32_t expert_width = 0;          // hidden columns of an expert
  uint32_t shared_width = 0;          // of the MLP beside them
  std::vector<bool> lacks_experts{};  // for each layer; empty: none does
  // For each layer, the number of keys that a query sees, including its own; 0: all; empty: all.
  std::vector<uint32_t> windows{};
  std::vector<Rotation> rotations{};  // for each layer; empty: kModel
};

// Reads a norm of the kind in `names`; `name` is its full name. Without `bias`, the settings say
// whether it has one.
NormSpec read_norm(ModelTensors& tensors, const LayerNames& names, const LayerSettings& settings,
                   const std::string& name, uint32_t features, std::optional<Presence> bias = {});

// Reads layers 0 to `count` - 1 into `spec`. `list` is the text before a layer's index. REQUIRES:
// the sizes of `spec` are set, including kv_heads.
void read_layers(ModelTensors& tensors, TransformerSpec& spec, const LayerNames& names,
                 const LayerSettings& settings, const std::string& list, uint32_t count);

// Reads the norm and the projections of attention alone, of layers 0 to `count` - 1.
std::vector<LayerSpec> read_attentions(ModelTensors& tensors, const TransformerSpec& spec,
                                       const LayerNames& names, const LayerSettings& settings,
                                       const std::string& list, uint32_t count);

}  // namespace arenite::convert
