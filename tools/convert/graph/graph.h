// SPDX-License-Identifier: Apache-2.0
// A model as its author trained it: plain mathematical ops on values. Families and modules build
// it, the interpreter computes it, passes rewrite it, and program/lowering.cc makes the runtime's
// program of it. Weights are references, read when somebody needs their numbers.
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

struct TermTable {
  ScoreTerms by = ScoreTerms::kDistances;
  uint32_t heads = 0;  // 1, of pairs: all heads have the same
  uint32_t positions = 0;
  // [heads, 2 * positions - 1], distance 0 in the middle, or [heads, positions, positions], or
  // slopes [heads]; -infinity hides a key.
  std::vector<double> values;

  // REQUIRES: no slopes.
  double at(size_t head, size_t query, size_t key) const {
    const size_t own = heads == 1 ? 0 : head;
    if (by == ScoreTerms::kPairs) return values[(own * positions + query) * positions + key];
    return values[own * columns() + positions - 1 + key - query];
  }
  // The shape of the tensor that holds it.
  uint32_t rows() const {
    if (by == ScoreTerms::kSlopes) return 1;
    return by == ScoreTerms::kPairs ? heads * positions : heads;
  }
  uint32_t columns() const {
    if (by == ScoreTerms::kSlopes) return heads;
    return by == ScoreTerms::kPairs ? positions : 2 * positions - 1;
  }

  friend bool operator==(const TermTable&, const TermTable&) = default;
};

// Terms that a query brings with it, of each distance to a key: the product of numbers of the
// query's row, `dim` for each head, and the table's, and one number more of the table.
struct QueryTable {
  uint32_t heads = 0;  // 1: all heads have the same
  uint32_t positions = 0;
  uint32_t dim = 0;
  std::vector<double> values;  // [heads, 2 * positions - 1, dim + 1], distance 0 in the middle

  // Of the distance `place` - (positions - 1), [dim + 1].
  std::span<const double> at(size_t head, size_t place) const {
    const size_t row = (heads == 1 ? 0 : head) * (2 * size_t{positions} - 1) + place;
    return std::span(values).subspan(row * (dim + 1), dim + 1);
  }

  friend bool operator==(const QueryTable&, const QueryTable&) = default;
};

// The part of a table that fewer positions need. REQUIRES: no slopes, and 1 <= positions <=
// table.positions.
TermTable first_positions(const TermTable& table, uint32_t positions);
QueryTable first_positions(const QueryTable& table, uint32_t positions);

// Rows of a block: enough for products, which read all weights for each block, and few beside those
// of a sequence that is worth cutting.
inline constexpr uint32_t kBlockRows = 128;

// A value is the result of a node and has its number: rows of `width` numbers, as many as its axis
// has.
using ValueId = uint32_t;

// How a matrix of weights is to lie in the file. Only those of one storage become one tensor.
struct Storage {
  TensorType type = TensorType::kF32;
  bool is_taken_over = false;  // as the author's file has it: nothing is folded into its numbers

  friend auto operator<=>(const Storage&, const Storage&) = default;
};

// How images lie in the author's array: [channels, height, width], or channels last, or columns
// before lines.
struct ImageLayout {
  uint32_t channels = 1, height = 1, width = 1;
  bool channels_first = true;
  bool columns_first = false;

  uint32_t pixels() const { return height * width; }
  size_t elements() const { return size_t{pixels()} * channels; }
  // Where an element of the array stands among the channels of pixels, line by line.
  size_t place(size_t element) const;

  friend bool operator==(const ImageLayout&, const ImageLayout&) = default;
};

// The features that a call gives; of an image a row for each pixel.
struct FeaturesNode {};

// scale * tokens[id] + positions[position + position_offset] + types[type], of those that are
// there. With a padding_id positions count the tokens that have another id, and tokens of that id
// have the row before that of position 0.
struct EmbeddingNode {
  std::optional<WeightRef> tokens{};  // [vocab_size, width]
  double scale = 1.0;
  std::optional<WeightRef> positions{};  // [positions_max + position_offset, width]
  uint32_t position_offset = 0;
  std::optional<uint32_t> padding_id{};
  std::optional<WeightRef> types{};    // [token_types, width]
  Storage storage{};                   // of `tokens`
  std::optional<ValueId> stored_by{};  // the linear layer whose weights are `tokens`, stored once
};

// scale * (x weight^T + bias)
struct LinearPart {
  LinearSpec linear;
  double scale = 1.0;
  Storage storage{};    // of the weight
  std::string layer{};  // name of the author's layer, whatever it is joined with
};

// The results of all parts, side by side. An author's layer has one.
struct LinearNode {
  std::vector<LinearPart> parts;
};

// scale * norm(part of the row), for each part as wide as the gain: a row, or each head of one.
struct NormNode {
  NormSpec norm;
  double scale = 1.0;
};

// x / max(|x|, 1e-12) of each row, as torch.nn.functional.normalize; or its softmax, or the
// logarithm of that.
struct RowFunctionNode {
  NormKind kind = NormKind::kLength;  // without has_gain
};

// Rotary position embedding of each head.
struct RotateNode {
  RopeSpec rope;
  uint32_t head_dim = 0;
};

// Column c is the input's column order[c].
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
struct MultiplyNode {};

// For each head: softmax(scale q k^T + slope * (key's position - query's) + terms + mask) v, where
// with a cap cap * tanh(scale q k^T / cap) stands in place of scale q k^T. With sinks the softmax
// is over one more score, whose weight no value has. Inputs are query, key and value, and with
// query_terms what these are made of; without heads' dimension the value alone, which the mask's
// scores weigh. Queries on another axis than
// keys and values see all of them: the mask is a band without limits, and there are no slopes or
// terms.
struct AttentionNode {
  uint32_t heads = 0;
  uint32_t kv_heads = 0;  // divides heads; query head h reads kv head h / (heads / kv_heads)
  uint32_t head_dim = 0;
  uint32_t value_dim = 0;
  double scale = 1.0;
  uint32_t mask = 0;                                // of the graph
  std::vector<double> slopes{};                     // one for each head, or none: ALiBi
  std::shared_ptr<const TermTable> terms{};         // instead of slopes, or null
  std::shared_ptr<const QueryTable> query_terms{};  // instead of both, or null
  double score_cap = 0.0;                           // 0: there is none
  std::vector<double> sinks{};                      // one for each head, or none
  uint32_t cache = 0;      // ops with the same number share keys and values
  bool is_stored = false;  // all keys and values are, before a query is made

  bool has_tables() const { return terms || query_terms; }  // of so many positions
};

// The value among the inputs of attention.
inline ValueId value_input(const std::vector<ValueId>& inputs) {
  return inputs[inputs.size() == 1 ? 0 : 2];
}

// The score that a product of query and key becomes, before the mask and the query's own terms.
double whole_score(const AttentionNode& attention, double product, size_t head, size_t query,
                   size_t key);

// Rows of the input that its axis says: those that a call asks for; one for each sequence; of
// joined rows, the first ones again or the last ones; or its numbers as rows of another width.
struct SelectNode {
  SelectKind kind = SelectKind::kAsAsked;
};

// The rows of the first input, then those of the second: class tokens, registers and learned
// prompts, which are embeddings of positions on an axis of constants, before tokens.
struct JoinNode {};

// The rows that each window over the input sees, side by side, those outside of the sequence zeros.
// Linear layers alone read them: together they are a convolution, and nothing is copied.
struct WindowsNode {
  Windows windows;
};

// Of each column the sum over the rows of a window, each times its weight in `kernel`
// [rows of a window, width], and the bias [width], or none.
struct DepthwiseNode {
  Windows windows;
  WeightRef kernel;
  std::vector<double> bias{};
};

// Of each column the largest number of the rows of a window, those outside left out.
struct MaxPoolNode {
  Windows windows;
};

// The input's columns from `begin` on.
struct SliceNode {
  uint32_t begin = 0;
};

// The inputs side by side.
struct ConcatNode {};

using NodeBody = std::variant<FeaturesNode, EmbeddingNode, LinearNode, NormNode, RowFunctionNode,
                              RotateNode, PermuteNode, ScaleNode, ActivationNode, AddNode,
                              MultiplyNode, AttentionNode, SelectNode, JoinNode, WindowsNode,
                              DepthwiseNode, MaxPoolNode, SliceNode, ConcatNode>;

struct Node {
  std::string name;  // for people, and of the op that it becomes
  NodeBody body;
  std::vector<ValueId> inputs{};
  uint32_t width = 0;
  uint32_t axis = 0;  // of all that are not made row by row; else that of the inputs
};

// Visits a NodeBody with one lambda for each kind.
template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;  // Clang before 17 does not deduce it

// What the arrays of a model's author are like; SPEC.md has the numbers.
enum ArrayFlag : uint32_t {
  kLastRows = 1,
  kTokensFirst = 2,
  kKeepsTokenAxis = 4,
  kColumnsFirst = 8,        // of what it gives out
  kTakesColumnsFirst = 16,  // [sequences, columns, tokens]
  kTakesImagesTurned = 32,  // the columns of an image before its lines
};

inline constexpr uint32_t kOtherExtent = 0;
inline constexpr uint32_t kSequencesExtent = UINT32_MAX;

// Where an author's program ends a sequence by its token ids, the last one that counts included. It
// ignores what follows.
struct SequenceEnd {
  enum class Rule {
    kNone,
    kLargest,  // at the largest id, the first of them
    kFirst,    // at the first `id`, or after one token where there is none
    kBefore,   // before that, or nowhere
    kLast,     // at the last token that is not `id`
    kCount,    // after as many tokens as are not `id`
  };
  Rule rule = Rule::kNone;
  uint32_t id = 0;

  size_t tokens(std::span<const int64_t> ids) const;  // that count
  // Changes ids so that `count` of them count.
  void put(std::span<int64_t> ids, size_t count, uint32_t vocab_size) const;
  std::string role() const;  // in Model.arrays: "largest", "first7"
  std::string text() const;  // for people: "its largest id"

  friend bool operator==(const SequenceEnd&, const SequenceEnd&) = default;
};
// What a role in Model.arrays says; kNone for any other.
SequenceEnd sequence_end(std::string_view role);

// Token ids or features that a call brings. Its axis is of the kind kInput, and the `source` of
// that is the input's number.
struct GraphInput {
  std::string name{};
  uint32_t axis = 0;
  uint32_t positions_max = 0;  // of a sequence; 0: any number
  uint32_t vocab_size = 0;     // 0: the input is features
  uint32_t token_types = 0;
  uint32_t tokens_min = 0;                        // of a sequence; above 1: whole sequences alone
  std::map<uint32_t, uint32_t> ids_of_columns{};  // features that look up rows: how many there are
  std::vector<uint32_t> ids_of_places{};  // where these have tables of their own: how many each has
  std::set<uint32_t> padding_ids{};       // whose keys a mask hides, or whose rows do not count
  SequenceEnd end{};

  friend bool operator==(const GraphInput&, const GraphInput&) = default;
};

class Graph {
 public:
  std::string architecture;                 // what was recognised
  std::vector<GraphInput> inputs = {{}};    // kInputsMax at most
  std::vector<Axis> axes = {{}};            // what rows values have; the first is input 0's
  std::vector<std::string> function_names;  // that the author gives; none: those of functions_of
  TensorType kv_cache = TensorType::kF32;   // what keys and values are kept as
  std::vector<Mask> masks;
  std::vector<ValueId> hidden_states;  // what PyTorch calls so, in the order of the layers
  ValueId output = 0;
  std::vector<std::string> labels;  // of the output's columns, or none
  uint32_t array_flags = 0;         // of ArrayFlag
  // The dimensions of the author's array that is given out: kSequencesExtent, kOtherExtent for what
  // is left, at most once each, or an extent. None: [sequences, rows, columns], with array_flags.
  std::vector<uint32_t> output_shape;
  std::vector<std::string> arrays;  // of the author's program, as Model.arrays has them

  const std::vector<ValueId>& order() const { return order_; }  // each after its inputs
  Node& node(ValueId value) { return nodes_[value]; }
  const Node& node(ValueId value) const { return nodes_[value]; }
  uint32_t width(ValueId value) const { return nodes_[value].width; }
  uint32_t axis(ValueId value) const { return nodes_[value].axis; }
  bool is_on(AxisKind kind, ValueId value) const { return axes[axis(value)].kind == kind; }
  // Rows of all axes of a sequence with so many tokens of each input, all that can be asked for.
  AxisRows all_rows(std::span<const uint32_t> tokens) const;
  // Those of one axis, where all inputs have so many tokens.
  uint32_t rows(uint32_t of_axis, uint32_t tokens) const;
  // The most rows that a sequence has there; 0: any number.
  uint32_t positions(uint32_t of_axis) const;
  // The inputs whose tokens an axis has rows of, bit i for input i. Rows of constants and of whole
  // sequences are of none.
  uint32_t inputs_of(uint32_t of_axis) const;
  // Whether it has the rows of several axes of tokens, one after the other.
  bool joins_tokens(uint32_t of_axis) const;
  // Whether a call says which rows of an input see which.
  bool takes_pairs(uint32_t input) const;
  // The input on whose axis the value is, or one that is made of it.
  const GraphInput& input_of(ValueId value) const;
  // Whether queries are on another axis than keys and values.
  bool is_cross_attention(ValueId value) const;
  uint32_t values() const { return static_cast<uint32_t>(nodes_.size()); }  // removed ones, too

  // The body of `value` if it is of this kind, else null.
  template <typename Body>
  Body* as(ValueId value) {
    return std::get_if<Body>(&nodes_[value].body);
  }
  template <typename Body>
  const Body* as(ValueId value) const {
    return std::get_if<Body>(&nodes_[value].body);
  }

  // Each appends a node, and works out how wide its rows are.
  ValueId add_features(uint32_t row_width, uint32_t input = 0);
  ValueId add_embedding(const std::string& name, EmbeddingNode embedding, uint32_t row_width,
                        uint32_t on_axis = 0);
  // `count` rows that each sequence has, [count, columns].
  ValueId add_constants(const std::string& name, const WeightRef& rows);
  ValueId add_join(const std::string& name, ValueId first, ValueId second);
  // The rows that a call asks for, or one for each sequence.
  ValueId add_select(const std::string& name, SelectKind kind, ValueId input);
  // So many parts of each row as rows in turn, or, of rows in turn, those of one row side by side.
  ValueId add_in_turn(const std::string& name, ValueId input, uint32_t parts);
  ValueId add_side_by_side(const std::string& name, ValueId input);
  // The first or the last rows of joined ones.
  ValueId add_part(const std::string& name, bool is_first, ValueId input);
  ValueId add_windows(const std::string& name, const Windows& windows, ValueId input);
  ValueId add_depthwise(const std::string& name, const DepthwiseNode& depthwise, ValueId input);
  ValueId add_max_pool(const std::string& name, const Windows& windows, ValueId input);
  ValueId add_linear(const std::string& name, const LinearSpec& linear, ValueId input);
  ValueId add_norm(const std::string& name, const NormSpec& norm, ValueId input);
  // `inputs` are query, key and value, or value alone.
  ValueId add_attention(const std::string& name, const AttentionNode& attention,
                        std::vector<ValueId> inputs);
  ValueId add_slice(const std::string& name, ValueId input, uint32_t begin, uint32_t row_width);
  ValueId add_concat(const std::string& name, std::vector<ValueId> inputs);
  // Of any other kind: the rows are as wide as those of the first input. Of two inputs, one may
  // have a row for each sequence.
  ValueId add(const std::string& name, NodeBody body, std::vector<ValueId> inputs);

  ValueId insert_before(ValueId place, Node node);
  ValueId insert_after(ValueId place, Node node);

  // The number of a new mask that depends on the distance: the keys from `lookback` positions
  // before a query to `lookahead` after it.
  uint32_t add_band(uint32_t lookback, uint32_t lookahead);
  uint32_t caches() const;  // how many there are
  // The number of such an axis, which is new where there is none. Throws InputError beyond
  // kAxesMax.
  uint32_t add_axis(const Axis& axis);
  // The number of a new input, with an axis of its own. Throws InputError beyond kInputsMax.
  uint32_t add_input(const std::string& name);
  // Works out again what axes values have, after those of selections have changed.
  void spread_axes();

  // The nodes that read `value`, in order; the output and the hidden states are not nodes.
  std::vector<ValueId> readers(ValueId value) const;
  // Whether one input of one node reads `value`, which is neither given out nor a hidden state: the
  // queries of attention may be its keys or values, too.
  bool has_one_reader(ValueId value) const;
  bool is_shown(ValueId value) const;  // is the output or a hidden state

  // Whoever reads `old_value`, hidden states and output included, reads `new_value` instead; but
  // not `except`.
  void replace(ValueId old_value, ValueId new_value, std::optional<ValueId> except = {});
  // Takes out what nobody reads.
  void remove_unread();
  // Puts nodes into this order, each after its inputs. REQUIRES: a permutation of order().
  void reorder(std::vector<ValueId> order) { order_ = std::move(order); }
  // Adds "_2", "_3" to the names of layers and tables that have another's: what becomes of weights
  // is said, and kept, by name.
  void name_layers_apart();

 private:
  ValueId insert(std::vector<ValueId>::iterator place, Node node);
  ValueId append(Node node) { return insert(order_.end(), std::move(node)); }
  uint32_t axis_of(const Node& node) const;
  uint32_t axis_of_windows(const Windows& windows, ValueId input);

  std::vector<Node> nodes_;
  std::vector<ValueId> order_;
};

// ---- functions: what a program calls one after the other ----

struct GraphFunction {
  std::string name;
  uint32_t inputs = 0;          // that it takes, bit i for input i
  std::vector<ValueId> values;  // that it computes, in order
  std::optional<ValueId> output{};
};

// What values are made of, bit i for input i, by number.
std::vector<uint32_t> inputs_of_values(const Graph& graph);

// Where values of some inputs reach those of others as keys and values of attention alone, there
// are two functions: "encode", keys and values included, whose output is what these are made of
// where that is one value, and "step", the rest, which may run any number of times. Else all is one
// function, "run". Rows of constants are computed where they are read, with a later function's if
// two read them. Throws InputError where names are given and are not as many.
std::vector<GraphFunction> functions_of(const Graph& graph);

// The output of `first` in place of input `input` of `second`, whose other inputs follow those of
// `first`. Throws InputError where its rows are no features of that input.
Graph chained(Graph first, const Graph& second, uint32_t input);

// Orders nodes by functions, and gives each its own rows of constants.
void separate_functions(Graph& graph);

// The graph as text, a line for each value, for people who want to see what was recognised.
std::string print_graph(const Graph& graph);

}  // namespace arenite::convert
