// SPDX-License-Identifier: Apache-2.0
// A model as its author trained it: a directed acyclic graph of mathematical ops on values.
// Families and modules build graphs, the interpreter evaluates them, passes rewrite them, and
// program/lowering.cc lowers them to runtime programs. Every node comes after its inputs in
// order(). Weights are references (WeightRef), loaded on demand.
//
//   Graph graph;
//   const ValueId x = graph.add_features(64);                  // [tokens, 64]
//   graph.output = graph.add_linear("head", head_spec, x);     // [tokens, outputs of head_spec]
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "arenite/tensor_type.h"
#include "convert/masks/masks.h"
#include "convert/spec/model_spec.h"
#include "core/op_kinds.h"
#include "core/views.h"
#include "core/windows.h"
#include "format/reader.h"

namespace arenite::convert {

struct AttentionBias {
  ScoreTerms by = ScoreTerms::kDistances;
  uint32_t heads = 0;  // with kPairs, 1: all heads share the table
  uint32_t positions = 0;
  // kDistances: [heads, 2 * positions - 1], distance 0 in the middle. kPairs: [heads, queries,
  // positions]. kSlopes: [heads]. -infinity hides a key.
  std::vector<double> values;
  uint32_t of_queries = 0;  // cross-attention: positions of queries; 0: the same as of keys

  // REQUIRES: by != kSlopes.
  double at(size_t head, size_t query, size_t key) const {
    const size_t own = heads == 1 ? 0 : head;
    if (by == ScoreTerms::kPairs) return values[(own * queries() + query) * positions + key];
    return values[own * columns() + positions - 1 + key - query];
  }
  uint32_t queries() const { return of_queries != 0 ? of_queries : positions; }
  // Rows and columns of the tensor that holds the values.
  uint32_t rows() const {
    if (by == ScoreTerms::kSlopes) return 1;
    return by == ScoreTerms::kPairs ? heads * queries() : heads;
  }
  uint32_t columns() const {
    if (by == ScoreTerms::kSlopes) return heads;
    return by == ScoreTerms::kPairs ? positions : 2 * positions - 1;
  }

  friend bool operator==(const AttentionBias&, const AttentionBias&) = default;
};

// Attention bias that depends on the query and the distance to the key: the dot product of `dim`
// elements of each head in the query's row with the table's weights, plus the table's constant.
//   bias[h, q, k] = sum over d of query[q, h, d] * table[h, k - q][d] + table[h, k - q][dim]
struct RelativeBias {
  uint32_t heads = 0;  // 1: all heads share the table
  uint32_t positions = 0;
  uint32_t dim = 0;
  std::vector<double> values;  // [heads, 2 * positions - 1, dim + 1], distance 0 in the middle

  // Weights [dim], then the constant, for distance `place` - (positions - 1).
  std::span<const double> at(size_t head, size_t place) const {
    const size_t row = (heads == 1 ? 0 : head) * (2 * size_t{positions} - 1) + place;
    return std::span(values).subspan(row * (dim + 1), dim + 1);
  }

  friend bool operator==(const RelativeBias&, const RelativeBias&) = default;
};

// Returns the table for the first `positions` positions. REQUIRES: no slopes, no cross-attention,
// and 1 <= positions <= table.positions.
AttentionBias first_positions(const AttentionBias& table, uint32_t positions);
RelativeBias first_positions(const RelativeBias& table, uint32_t positions);

// Rows of a block: enough to amortize reading all weights for each block, and few compared with
// sequences worth splitting.
inline constexpr uint32_t kBlockRows = 128;

// A value is the result of the node with this index: [rows of its axis, width].
using ValueId = uint32_t;

// How the file stores a weight matrix. Only matrices with equal Storage are joined into one tensor.
struct Storage {
  TensorType type = TensorType::kF32;
  bool is_taken_over = false;  // as in the author's file: nothing is folded into its elements

  friend auto operator<=>(const Storage&, const Storage&) = default;
};

// Layout of images in the author's array: [channels, height, width], or channels last, or width
// before height.
struct ImageLayout {
  uint32_t channels = 1, height = 1, width = 1;
  bool channels_first = true;
  bool columns_first = false;

  uint32_t pixels() const { return height * width; }
  size_t elements() const { return size_t{pixels()} * channels; }
  // Maps an index into the author's array to its index in [pixels, channels], with pixels in
  // row-major order.
  size_t place(size_t element) const;

  friend bool operator==(const ImageLayout&, const ImageLayout&) = default;
};

// The features that a call passes; for an image, one row per pixel.
struct FeaturesNode {};

// scale * tokens[id] + positions[position + position_offset] + types[type], without absent terms.
// With a padding_id, the position of a token is the number of earlier tokens with another id, and a
// padding token reads the row before that of position 0.
struct EmbeddingNode {
  std::optional<WeightRef> tokens{};  // [vocab_size, width]
  double scale = 1.0;
  std::optional<WeightRef> positions{};  // [positions_max + position_offset, width]
  uint32_t position_offset = 0;
  std::optional<uint32_t> padding_id{};
  std::optional<WeightRef> types{};    // [token_types, width]
  Storage storage{};                   // of `tokens`
  std::optional<ValueId> stored_by{};  // the linear layer whose weights are `tokens`: stored once
};

// scale * (x weight^T + bias)
struct LinearPart {
  LinearSpec linear;
  double scale = 1.0;
  Storage storage{};    // of the weight
  std::string layer{};  // name of the author's layer, kept when parts are joined
};

// Concatenates the results of all parts along the columns. A layer of the author's model has one
// part.
struct LinearNode {
  std::vector<LinearPart> parts;
};

// The columns of the `width / 2` largest elements of each row, largest first, then these elements.
// Of equal ones the first column is taken.
struct TopKNode {};

// A linear layer whose rows are those of `count` experts, one after the other. The second input
// names some experts for each row; the result has their outputs, side by side. The first input has
// one row for all of them, or a part of the row for each.
struct ExpertsNode : LinearNode {
  uint32_t count = 1;
};

// scale * norm(group), for each group of columns as wide as the gain: the whole row, or one head.
struct NormNode {
  NormSpec norm;
  double scale = 1.0;
};

// Normalizes each row: x / max(|x|, 1e-12) as torch.nn.functional.normalize does, softmax, or
// log-softmax.
struct RowFunctionNode {
  NormKind kind = NormKind::kLength;  // without has_gain
};

// Rotary position embedding, applied to each head.
struct RotateNode {
  RopeSpec rope;
  uint32_t head_dim = 0;
};

// y[column c] = x[column order[c]]
struct PermuteNode {
  std::vector<uint32_t> order;
};

struct ScaleNode {
  double factor = 1.0;
};

struct ActivationNode {
  Activation activation = Activation::kRelu;
  double parameter = 0.0;  // soft_cap: parameter * tanh(x / parameter)
};

struct AddNode {};

// Elementwise product of two rows. If the second has fewer columns, n, its element g multiplies
// columns [g width / n, (g + 1) width / n) of the first.
struct MultiplyNode {};

// For each head:
//   softmax(scale q k^T + slope * (key position - query position) + terms + mask) v
// With score_cap, cap * tanh(scale q k^T / cap) replaces scale q k^T. With sinks, the softmax
// includes one more score per head, which has no value.
//
// Inputs are query, key and value, and with query_terms the rows that these terms are computed
// from, then those of key_terms. With head_dim = 0 the only input is the value, weighted by the
// softmax of the mask alone. In cross-attention (queries on another axis than keys and values)
// every query sees all keys except those that terms by pair hide: the mask is an unlimited band,
// and there are no slopes or other terms.
struct AttentionNode {
  uint32_t heads = 0;
  uint32_t kv_heads = 0;  // divides heads; query head h reads kv head h / (heads / kv_heads)
  uint32_t head_dim = 0;
  uint32_t value_dim = 0;
  double scale = 1.0;
  uint32_t mask = 0;                                  // index into Graph::masks
  std::vector<double> slopes{};                       // [heads], or none: ALiBi
  std::shared_ptr<const AttentionBias> terms{};       // instead of slopes, or null
  std::shared_ptr<const RelativeBias> query_terms{};  // instead of both, or null
  // Beside query_terms, which are then there, or null: the same with the key's row,
  //   bias[h, q, k] = sum over d of key[k, h, d] * table[h, k - q][d] + table[h, k - q][dim]
  std::shared_ptr<const RelativeBias> key_terms{};
  double score_cap = 0.0;       // 0: none
  std::vector<double> sinks{};  // [heads], or none
  uint32_t cache = 0;           // ops with the same index share keys and values
  bool is_stored = false;       // all keys and values are stored before the first query is computed

  // Whether there are tables, which have a fixed number of positions.
  bool has_tables() const { return terms || query_terms; }
};

// Returns the value input of attention.
inline ValueId value_input(const std::vector<ValueId>& inputs) {
  return inputs[inputs.size() == 1 ? 0 : 2];
}

// Returns the score for a product of query and key, without the mask and those of rows.
double whole_score(const AttentionNode& attention, double product, size_t head, size_t query,
                   size_t key);

// Selects rows by the node's axis: all rows that a call asks for, one per sequence, the first or
// the last part of joined rows, or the input's elements reshaped to rows of another width.
struct SelectNode {
  SelectKind kind = SelectKind::kAsAsked;
  std::vector<uint32_t> taken{};  // kTaken: for each row of the result a row of the input
};

// Concatenates the rows of the first and the second input. Class tokens, registers and learned
// prompts are position embeddings on an axis of constants, joined before the tokens.
struct JoinNode {};

// Concatenates the rows of each window along the columns (im2col); rows outside the sequence are
// zeros. Only linear layers read the result: together they are a convolution, and nothing is
// copied.
struct WindowsNode {
  Windows windows;
};

// Depthwise convolution: for each column the sum over the window's rows, weighted by `kernel` [rows
// of a window, width], plus `bias` [width] or none.
struct DepthwiseNode {
  Windows windows;
  WeightRef kernel;
  std::vector<double> bias{};
};

// The maximum of each column over the window's rows; rows outside the sequence are skipped.
struct MaxPoolNode {
  Windows windows;
};

// Columns [begin, begin + width) of the input.
struct SliceNode {
  uint32_t begin = 0;
};

// Concatenates the inputs along the columns.
struct ConcatNode {};

using NodeBody =
    std::variant<FeaturesNode, EmbeddingNode, LinearNode, NormNode, RowFunctionNode, RotateNode,
                 PermuteNode, ScaleNode, ActivationNode, AddNode, MultiplyNode, AttentionNode,
                 SelectNode, JoinNode, WindowsNode, DepthwiseNode, MaxPoolNode, SliceNode,
                 ConcatNode, TopKNode, ExpertsNode>;

struct Node {
  std::string name;  // for messages, and of the op that it is lowered to
  NodeBody body;
  std::vector<ValueId> inputs{};
  uint32_t width = 0;
  // Set for nodes that are not computed row by row; others have their inputs' axis.
  uint32_t axis = 0;
};

// Visits a NodeBody with one lambda per kind.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // Clang before 17 does not deduce it

// Layout of the author's arrays (Model.array_flags); SPEC.md defines the values.
enum ArrayFlag : uint32_t {
  kLastRows = 1,
  kTokensFirst = 2,
  kKeepsTokenAxis = 4,
  kColumnsFirst = 8,        // of the output
  kTakesColumnsFirst = 16,  // [sequences, columns, tokens]
  kTakesImagesTurned = 32,  // width before height
};

inline constexpr uint32_t kOtherExtent = 0;
inline constexpr uint32_t kSequencesExtent = UINT32_MAX;

// The rule by which the author's program ends a sequence at a token id. The last counted token is
// included; later ones are ignored.
//   kFirst, id 2:  5 9 2 7 2  ->  5 9 2
//   kBefore, id 2: 5 9 2 7 2  ->  5 9
struct SequenceEnd {
  enum class Rule {
    kNone,
    kLargest,  // at the first occurrence of the largest id
    kFirst,    // at the first `id`; after one token if there is none
    kBefore,   // before the first `id`; at the end if there is none
    kLast,     // at the last token that is not `id`
    kCount,    // after as many tokens as differ from `id`
  };
  Rule rule = Rule::kNone;
  uint32_t id = 0;

  size_t tokens(std::span<const int64_t> ids) const;  // how many tokens count
  // Changes `ids` so that exactly `count` of them count.
  void put(std::span<int64_t> ids, size_t count, uint32_t vocab_size) const;
  std::string role() const;  // role in Model.arrays: "largest", "first7"
  std::string text() const;  // for messages: "its largest id"

  friend bool operator==(const SequenceEnd&, const SequenceEnd&) = default;
};
// Parses a role of Model.arrays; kNone for any other role.
SequenceEnd sequence_end(std::string_view role);

// An input of token ids or features. Its axis has the kind kInput and names this input as `source`.
struct GraphInput {
  std::string name{};
  uint32_t axis = 0;
  uint32_t positions_max = 0;  // of a sequence; 0: unlimited
  uint32_t vocab_size = 0;     // 0: the input is features
  uint32_t token_types = 0;
  uint32_t tokens_min = 0;   // of a sequence; above 1: only whole sequences
  uint32_t tokens_step = 0;  // lengths are tokens_min plus multiples of it; 0 and 1: any
  // Maps a feature column that holds ids to the number of rows of its table.
  std::map<uint32_t, uint32_t> ids_of_columns{};
  std::vector<uint32_t> ids_of_places{};  // vocabulary of each position, if it has its own
  std::set<uint32_t> padding_ids{};       // ids whose keys a mask hides, or whose rows do not count
  SequenceEnd end{};

  friend bool operator==(const GraphInput&, const GraphInput&) = default;
};

class Graph {
 public:
  std::string architecture;                 // the recognised architecture
  std::vector<GraphInput> inputs = {{}};    // at most kInputsMax
  std::vector<Axis> axes = {{}};            // row axes of values; the first is input 0's
  std::vector<std::string> function_names;  // the author's; empty: those of functions_of
  TensorType kv_cache = TensorType::kF32;   // type of stored keys and values
  std::vector<Mask> masks;
  std::vector<ValueId> hidden_states;  // PyTorch's hidden_states, in the order of the layers
  ValueId output = 0;
  std::vector<std::string> labels;  // of the output's columns, or empty
  uint32_t array_flags = 0;         // bit set of ArrayFlag
  // Dimensions of the author's output array: kSequencesExtent and kOtherExtent (all remaining
  // elements) at most once each, or fixed extents. Empty: [sequences, rows, columns], modified by
  // array_flags.
  std::vector<uint32_t> output_shape;
  std::vector<std::string> arrays;  // of the author's program, encoded as Model.arrays

  const std::vector<ValueId>& order() const { return order_; }  // each value after its inputs
  Node& node(ValueId value) { return nodes_[value]; }
  const Node& node(ValueId value) const { return nodes_[value]; }
  uint32_t width(ValueId value) const { return nodes_[value].width; }
  uint32_t axis(ValueId value) const { return nodes_[value].axis; }
  bool is_on(AxisKind kind, ValueId value) const { return axes[axis(value)].kind == kind; }
  // Returns the rows of all axes for a sequence with `tokens[i]` tokens of input i, if all outputs
  // are requested.
  AxisRows all_rows(std::span<const uint32_t> tokens) const;
  // Returns the rows of one axis if all inputs have `tokens` tokens.
  uint32_t rows(uint32_t of_axis, uint32_t tokens) const;
  // Returns the maximum number of rows that a sequence has on an axis; 0: unlimited.
  uint32_t positions(uint32_t of_axis) const;
  // Returns the inputs whose tokens have rows on an axis, bit i for input i; 0 for axes of
  // constants and of one row per sequence.
  uint32_t inputs_of(uint32_t of_axis) const;
  // Whether the axis concatenates rows of several token axes.
  bool joins_tokens(uint32_t of_axis) const;
  // Whether a call passes a pair mask for this input: the rows that each row sees.
  bool takes_pairs(uint32_t input) const;
  // Returns the input on whose axis the value is, or from which its axis derives.
  const GraphInput& input_of(ValueId value) const;
  bool is_cross_attention(ValueId value) const;
  uint32_t values() const { return static_cast<uint32_t>(nodes_.size()); }  // removed ones, too

  // Returns the body of `value` if it is of this kind, else null.
  template <typename Body>
  Body* as(ValueId value) {
    return std::get_if<Body>(&nodes_[value].body);
  }
  template <typename Body>
  const Body* as(ValueId value) const {
    return std::get_if<Body>(&nodes_[value].body);
  }

  // Returns the weights of a linear layer or of experts; null for other nodes.
  LinearNode* weights_at(ValueId value) {
    LinearNode* const experts = as<ExpertsNode>(value);
    return experts != nullptr ? experts : as<LinearNode>(value);
  }
  const LinearNode* weights_at(ValueId value) const {
    return const_cast<Graph*>(this)->weights_at(value);
  }

  // Each appends a node and computes its row width.
  ValueId add_features(uint32_t row_width, uint32_t input = 0);
  ValueId add_embedding(const std::string& name, EmbeddingNode embedding, uint32_t row_width,
                        uint32_t on_axis = 0);
  // Adds `count` rows that each sequence has, [count, columns].
  ValueId add_constants(const std::string& name, const WeightRef& rows);
  ValueId add_join(const std::string& name, ValueId first, ValueId second);
  // Selects the rows that a call asks for, or one for each sequence.
  ValueId add_select(const std::string& name, SelectKind kind, ValueId input);
  // Splits each row into `parts` consecutive rows; side_by_side joins them into one row again.
  ValueId add_in_turn(const std::string& name, ValueId input, uint32_t parts);
  ValueId add_side_by_side(const std::string& name, ValueId input);
  // Transposes the `rows` rows of each sequence, onto an axis with as many rows as the input has
  // columns.
  ValueId add_transposed(const std::string& name, ValueId input, uint32_t rows, uint32_t on_axis);
  // Gathers rows of each sequence by a list, onto an axis with as many rows as the list.
  ValueId add_taken(const std::string& name, ValueId input, std::vector<uint32_t> list,
                    uint32_t on_axis);
  // Selects the first or the last part of joined rows.
  ValueId add_part(const std::string& name, bool is_first, ValueId input);
  ValueId add_windows(const std::string& name, const Windows& windows, ValueId input);
  ValueId add_depthwise(const std::string& name, const DepthwiseNode& depthwise, ValueId input);
  ValueId add_max_pool(const std::string& name, const Windows& windows, ValueId input);
  ValueId add_linear(const std::string& name, const LinearSpec& linear, ValueId input);
  ValueId add_norm(const std::string& name, const NormSpec& norm, ValueId input);
  // The `chosen` largest elements of each row: their columns, and the elements themselves.
  ValueId add_top_k(const std::string& name, ValueId input, uint32_t chosen);
  // `linear` has the rows of `count` experts; `ids` are those of each row.
  ValueId add_experts(const std::string& name, const LinearSpec& linear, uint32_t count,
                      ValueId input, ValueId ids);
  // `inputs` are query, key and value, or value alone.
  ValueId add_attention(const std::string& name, const AttentionNode& attention,
                        std::vector<ValueId> inputs);
  ValueId add_slice(const std::string& name, ValueId input, uint32_t begin, uint32_t row_width);
  ValueId add_concat(const std::string& name, std::vector<ValueId> inputs);
  // Appends any other node; its rows are as wide as those of its first input. With two inputs,
  // either may have a single row per sequence.
  ValueId add(const std::string& name, NodeBody body, std::vector<ValueId> inputs);

  ValueId insert_before(ValueId place, Node node);
  ValueId insert_after(ValueId place, Node node);

  // Adds a band mask and returns its index: a query sees keys from `lookback` positions before it
  // to `lookahead` after it.
  uint32_t add_band(uint32_t lookback, uint32_t lookahead);
  uint32_t caches() const;  // how many there are
  // Returns the index of an equal axis, or of a new one. Throws InputError beyond kAxesMax.
  uint32_t add_axis(const Axis& axis);
  // Adds an input with its own row axis and returns its index. Throws InputError beyond kInputsMax.
  uint32_t add_input(const std::string& name);
  // Recomputes the axes of values after the axes of selections have changed.
  void spread_axes();

  // Returns the nodes that read `value`, in order. The output and the hidden states are not nodes.
  std::vector<ValueId> readers(ValueId value) const;
  // Whether exactly one node input reads `value`, and `value` is neither an output nor a hidden
  // state. Attention that reads a value both as query and as key counts twice.
  bool has_one_reader(ValueId value) const;
  bool is_shown(ValueId value) const;  // is the output or a hidden state

  // Replaces `old_value` by `new_value` in all readers, hidden states and output, but not in
  // `except`.
  void replace(ValueId old_value, ValueId new_value, std::optional<ValueId> except = {});
  // Removes nodes that no output or hidden state depends on, except inputs of features.
  void remove_unread();
  // Sets the order of nodes, each after its inputs. REQUIRES: a permutation of order().
  void reorder(std::vector<ValueId> order) { order_ = std::move(order); }
  // Makes names of layers and tables unique by appending "_2", "_3", since reports and options
  // refer to weights by name.
  void make_names_unique();

 private:
  ValueId insert(std::vector<ValueId>::iterator place, Node node);
  ValueId append(Node node) { return insert(order_.end(), std::move(node)); }
  uint32_t axis_of(const Node& node) const;
  uint32_t axis_of_windows(const Windows& windows, ValueId input);

  std::vector<Node> nodes_;
  std::vector<ValueId> order_;
};

// ---- functions of a model, in the order of calls ----

struct GraphFunction {
  std::string name;
  uint32_t inputs = 0;          // that it takes, bit i for input i
  std::vector<ValueId> values;  // that it computes, in order
  std::optional<ValueId> output{};
};

// Returns for each value the inputs that it depends on, bit i for input i.
std::vector<uint32_t> inputs_of_values(const Graph& graph);

// Splits the graph into functions. If values of some inputs reach those of others only as keys and
// values of attention, there are two: "encode" computes these keys and values, and outputs the
// value that all of them derive from, if there is exactly one; "step" computes the rest, and may
// run repeatedly. Otherwise there is a single function, "run". Constant rows belong to the last
// function that reads them. Throws InputError if names are given and their count differs.
std::vector<GraphFunction> functions_of(const Graph& graph);

// Connects the output of `first` to input `input` of `second`; the other inputs of `second` follow
// those of `first`. Throws InputError unless the rows are features of that input.
Graph chained(Graph first, const Graph& second, uint32_t input);

// Orders nodes by function, and gives each function its own rows of constants.
void separate_functions(Graph& graph);

// Returns the graph as text, with a line for each value, for people who want to see what was
// recognised.
std::string print_graph(const Graph& graph);

}  // namespace arenite::convert
