// SPDX-License-Identifier: Apache-2.0
// Takes the tensors of a model by name and shape, accounts for every one, and undoes ways in which
// files store a weight differently from [outputs, inputs], or a mask in a convention of its own.
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
#include "convert/masks/masks.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// Source rows, in the order in which they are wanted.
using RowOrder = std::vector<uint32_t>;

// Rows [first, first + count).
RowOrder row_range(uint32_t first, uint32_t count);

// Rows of query or key heads whose first rotary_dim elements are made for rotation of neighbours
// (2i, 2i + 1), in the order for rotation of halves (i, i + rotary_dim / 2). REQUIRES: rotary_dim
// is even and at most head_dim.
RowOrder halves_of_pairs(uint32_t heads, uint32_t head_dim, uint32_t rotary_dim);

// [columns, rows] of `weight`: for layers that keep [inputs, outputs], as GPT-2's Conv1D does.
WeightRef transpose(WeightRef weight);

// The rows of `weight`, quantized ones too, or the elements of a vector, that `order` names. An
// empty vector, which stands for none, stays empty. REQUIRES: every row exists.
WeightRef select_rows(WeightRef weight, RowOrder order);
std::vector<double> select_rows(const std::vector<double>& vector, const RowOrder& order);
LinearSpec select_rows(const LinearSpec& linear, const RowOrder& order);

// Sets the query, key and value of a layer or module from a projection whose rows are those of
// query, key and value below one another.
template <typename Layer>
void split_fused(Layer& layer, const LinearSpec& fused, uint32_t query_rows, uint32_t key_rows) {
  layer.query = select_rows(fused, row_range(0, query_rows));
  layer.key = select_rows(fused, row_range(query_rows, key_rows));
  layer.value = select_rows(fused, row_range(query_rows + key_rows, key_rows));
}

// The rows of all `parts` below one another. REQUIRES: they are of the same width, and all of them
// have a bias or none has.
LinearSpec stack_rows(std::vector<LinearSpec> parts);

// "'file': 'tensor'", for messages.
std::string place_of(const StoredTensor& tensor);

// Throws InputError unless `tensor` is a matrix whose sides are within limits.
struct Sides {
  uint32_t rows, columns;
};
Sides sides_of(const StoredTensor& tensor);

enum class Presence { kNone, kRequired, kIfStored };

// A matrix or the gain of a norm, and its bias; empty: none.
struct PartNames {
  std::string weight, bias;
};

// What follows the name of a part in the names of its tensors: {".weight", ".bias"}, and others
// that are in use.
std::span<const PartNames> part_leaves();

// A tensor that is not in the file yields an empty result and is remembered, so that `finish` can
// name all of them at once; one of another shape throws InputError at once. Extents of 1 that a
// shape has too many do not count. All names are those after `prefix`, which is empty or ends in a
// dot. REQUIRES: the store outlives it.
class ModelTensors {
 public:
  explicit ModelTensors(const TensorStore& store, std::string prefix = "")
      : store_(store), prefix_(std::move(prefix)) {}

  const std::string& source() const { return store_.source(); }
  const std::vector<StoredTensor>& stored() const { return store_.tensors(); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::string full_name(std::string_view name) const { return prefix_ + std::string(name); }

  // The sizes of `name`, which must be a matrix. Throws InputError, also when it is missing: for
  // formats in which shapes say what no config does.
  Sides shape_of(const std::string& name) const;

  // Stored as [rows, columns].
  WeightRef matrix(const std::string& name, uint32_t rows, uint32_t columns);
  // [elements], read at once.
  std::vector<double> vector(const std::string& name, uint32_t elements,
                             Presence presence = Presence::kRequired);

  // The names of a part's tensors, by those that the file has: <name>.weight and <name>.bias where
  // it has none. The bias may be missing.
  PartNames part(const std::string& name) const;
  bool has_part(const std::string& name) const { return has(part(name).weight); }

  // The part `name`, a weight [outputs, inputs] and a bias [outputs].
  LinearSpec linear(const std::string& name, uint32_t outputs, uint32_t inputs, Presence bias);
  // The same, of the size that the file gives it. Throws InputError where the weight is missing or
  // no matrix.
  LinearSpec linear(const std::string& name);
  // The same, with the weight stored as [inputs, outputs], unless it says otherwise.
  LinearSpec conv1d(const std::string& name, uint32_t outputs, uint32_t inputs, Presence bias);
  // The part `name`, gain [features] and bias [features].
  NormSpec norm(const std::string& name, uint32_t features, double epsilon,
                NormKind kind = NormKind::kLayer, Presence bias = Presence::kRequired);

  // A tensor of any shape and type, such as a mask; nullptr when it is absent.
  const StoredTensor* buffer(const std::string& name);

  // These say nothing that the model needs: one tensor, or all whose names begin so.
  void pass_over(const std::string& name) { taken_.insert(full_name(name)); }
  void pass_over_all(std::string_view prefix);

  // The head of a model whose output matrix is its token embedding: `embedding` and `head`, either
  // of which may be stored alone. Throws InputError when both are there and differ.
  WeightRef tied_embedding(const std::string& embedding, const std::string& head, uint32_t rows,
                           uint32_t columns);

  // The full names after the prefix that were neither taken nor passed over.
  std::vector<std::string> rest() const;

  // Throws InputError that lists the tensors missing and those neither taken nor passed over.
  void finish();

 private:
  const StoredTensor* find(std::string_view name) const { return store_.find(full_name(name)); }
  const StoredTensor& require(const std::string& name) const;
  const StoredTensor* take(const std::string& name, const std::vector<uint64_t>& shape,
                           Presence presence);

  const TensorStore& store_;
  const std::string prefix_;
  std::set<std::string> taken_;       // by their full names
  std::vector<std::string> missing_;  // "'name' [2, 3]"
};

// How a projection of queries, keys and values in one is stored.
enum class FusedRows {
  kBlocks,  // all queries, below them all keys, below them all values
  kHeads,   // [heads][query, key, value][head_dim]
};

// Names after the layer's own, without ".weight" and ".bias". A null pointer: there is none.
// With {}, the number of a head, in the names of projections each head has its own.
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

// Meta's own checkpoints of Llama, and those that llama2.c writes.
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

// What the config says of the layers. What may be stored is in all layers or in none.
struct LayerSettings {
  double epsilon = 0.0;
  Presence qkv_bias = Presence::kRequired;
  Presence output_bias = Presence::kRequired;
  Presence mlp_bias = Presence::kRequired;
  Presence norm_bias = Presence::kRequired;  // of layer norms
  // Norms divide by the deviation of a sample, and epsilon is beside it.
  bool has_sample_norm = false;
  bool has_head_norms = false;
  bool gain_plus_one = false;
  bool is_parallel = false;
  std::vector<uint32_t> windows{};  // keys that a query sees in each layer, 0: all; empty: all
};

// A norm of the row's kind; `name` is the whole one. Without `bias` the settings say whether it has
// one.
NormSpec read_norm(ModelTensors& tensors, const LayerNames& names, const LayerSettings& settings,
                   const std::string& name, uint32_t features, std::optional<Presence> bias = {});

// Layers 0 to `count` - 1 into `spec`. `list` is what stands before a layer's number. REQUIRES: the
// sizes of `spec` are set, kv_heads among them.
void read_layers(ModelTensors& tensors, TransformerSpec& spec, const LayerNames& names,
                 const LayerSettings& settings, const std::string& list, uint32_t count);

struct MaskBuffer {
  DenseMask dense;
  std::string meaning;  // e.g. "1 hides: the diagonal is 0"
};

// Reads a [T, T] buffer (leading dimensions of 1 are fine) of 0/1, bool, or 0 and a large negative
// number or -infinity. Which of 0 and 1 hides is decided by, in this order: `ones` if given;
// whether one reading hides a row whole; which reading shows each query its own position; the
// name, where `mask` means 1 hides (masked_fill) and `bias` or `tril` means 0 hides.
// `positions` above 0 keeps that many rows and columns. Throws InputError;
// `file` is quoted, for messages.
MaskBuffer read_mask_buffer(const StoredTensor& tensor, const std::string& file, uint32_t positions,
                            std::optional<MaskOnes> ones);

// A mask of a band: each token sees itself, those before it as far as `window`, and later ones
// unless the model is causal.
struct BandChoice {
  bool causal = false;
  uint32_t window = 0;  // keys that a query sees, its own included; 0: all

  friend bool operator==(const BandChoice&, const BandChoice&) = default;
};

std::string describe(const BandChoice& mask);  // "a causal window of 8"

// The band that a buffer holds. Throws InputError for another mask.
BandChoice read_band_buffer(const StoredTensor& tensor, const std::string& file,
                            std::optional<MaskOnes> ones = {});

}  // namespace arenite::convert
