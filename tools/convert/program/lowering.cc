// SPDX-License-Identifier: Apache-2.0
// Values live in columns of slots. A slice is a view of its input's columns, parts of a
// concatenation are written in place, and an elementwise op overwrites its input if no op reads
// that again.
#include "convert/program/program.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "convert/files/error.h"
#include "convert/passes/passes.h"
#include "convert/program/weights.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

RowOrder inverse(const RowOrder& order) {
  RowOrder inverse(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) inverse[order[i]] = i;
  return inverse;
}

// Rewrites nodes without a runtime op: scales of scores become scales of queries, rotations of
// neighbours become rotations of halves, and parts of a concatenation that are stored elsewhere are
// copied.
void make_representable(Graph& graph) {
  const std::vector<ValueId> order = graph.order();
  for (const ValueId value : order) {
    const std::string name = graph.node(value).name;
    const uint32_t width = graph.width(value);
    if (auto* attention = graph.as<AttentionNode>(value);
        attention != nullptr && attention->head_dim != 0 && attention->scale != 1.0 &&
        !attention->query_terms) {
      const ValueId query = graph.node(value).inputs[0];
      const ScaleNode scale = {std::exchange(attention->scale, 1.0)};
      const ValueId scaled =
          graph.insert_before(value, {name + ".scale", scale, {query}, graph.width(query)});
      graph.node(value).inputs[0] = scaled;
    }
    if (auto* rotate = graph.as<RotateNode>(value);
        rotate != nullptr && rotate->rope.turns_neighbours) {
      rotate->rope.turns_neighbours = false;
      const RowOrder halves =
          halves_of_pairs(width / rotate->head_dim, rotate->head_dim, rotate->rope.rotary_dim);
      const ValueId input = graph.node(value).inputs[0];
      const ValueId permuted =
          graph.insert_before(value, {name + ".permute", PermuteNode{halves}, {input}, width});
      graph.node(value).inputs[0] = permuted;
      const ValueId back = graph.insert_after(
          value, {name + ".restore", PermuteNode{inverse(halves)}, {value}, width});
      graph.replace(value, back, back);
    }
    if (graph.as<ConcatNode>(value) != nullptr) {
      // Parts are written in order: from the first copied one on, all are copied.
      bool is_fresh = true;
      ptrdiff_t last = 0;
      for (size_t i = 0; i < graph.node(value).inputs.size(); ++i) {
        const ValueId part = graph.node(value).inputs[i];
        const auto at = std::ranges::find(graph.order(), part) - graph.order().begin();
        is_fresh = is_fresh && at >= std::exchange(last, at) && graph.has_one_reader(part) &&
                   !graph.as<SliceNode>(part) && !graph.as<FeaturesNode>(part) &&
                   !graph.as<ConcatNode>(part);
        if (is_fresh) continue;
        const ValueId copy =
            graph.insert_before(value, {name + ".copy", ScaleNode{1.0}, {part}, graph.width(part)});
        graph.node(value).inputs[i] = copy;
      }
    }
  }
  if (const ValueId output = graph.output; graph.as<SliceNode>(output) != nullptr) {
    const Node copy = {"output.copy", ScaleNode{1.0}, {output}, graph.width(output)};
    graph.output = graph.insert_after(output, copy);
  }
}

using format::ColumnView;

constexpr float kShortestRow = 1e-12f;  // rows that are shorter are divided by this

LinearSpec matrix_of(const RowOrder& order) {
  const uint32_t width = static_cast<uint32_t>(order.size());
  const auto load = [order, width] {
    std::vector<float> values(size_t{width} * width, 0.0f);
    for (size_t row = 0; row < width; ++row) values[row * width + order[row]] = 1.0f;
    return values;
  };
  return {{.name = "permutation", .rows = width, .columns = width, .load = load}, {}};
}

// Drops distances at both ends whose terms equal the next ones, as farther keys use the outermost
// terms.
RelativeBias without_equal_ends(const RelativeBias& table) {
  const auto has_end = [&](size_t place, size_t next) {
    for (size_t head = 0; head < table.heads; ++head) {
      if (!std::ranges::equal(table.at(head, place), table.at(head, next))) return true;
    }
    return false;
  };
  uint32_t positions = table.positions;
  for (size_t first = 0; positions > 1; ++first, --positions) {
    const size_t last = 2 * size_t{table.positions} - 2 - first;
    if (has_end(first, first + 1) || has_end(last, last - 1)) break;
  }
  return first_positions(table, positions);
}

// Builds the layer that computes a head's terms for the first `count` distances.
LinearSpec query_terms_layer(const RelativeBias& table, uint32_t head, uint32_t count) {
  std::vector<double> weights;
  LinearSpec layer;
  for (size_t place = 0; place < count; ++place) {
    const std::span<const double> numbers = table.at(head, place);
    weights.insert(weights.end(), numbers.begin(), numbers.end() - 1);
    layer.bias.push_back(numbers.back());
  }
  layer.weight.name = "terms";
  layer.weight.rows = count;
  layer.weight.columns = table.dim;
  layer.weight.load = [weights] { return std::vector<float>(weights.begin(), weights.end()); };
  layer.weight.load_f64 = [weights] { return weights; };
  return layer;
}

// Keys and values that are stored after the value at index `after` of the graph's order.
struct Store {
  ValueId attention = 0;  // the first that reads them
  size_t after = 0;
  uint32_t cache = 0;
};

class Lowering {
 public:
  Lowering(Graph graph, const std::string& name) : graph_(with_stored_weights(std::move(graph))) {
    make_representable(graph_);
    program_.name = name;
    program_.architecture = graph_.architecture;
  }

  Program run() {
    program_.kv_cache = graph_.kv_cache;
    program_.labels = graph_.labels;
    program_.array_flags = graph_.array_flags;
    program_.output_shape = graph_.output_shape;
    program_.arrays = graph_.arrays;
    take_functions();
    take_axes();
    take_inputs();
    for (const Mask& mask : graph_.masks) {
      const auto* buffer = std::get_if<BufferMask>(&mask);
      program_.masks.push_back(buffer != nullptr ? tile_mask(*buffer->dense, buffer->origin)
                                                 : std::get<CompiledMask>(mask));
    }
    prepare();
    for (uint32_t i = 0; i < functions_.size(); ++i) {
      program_.functions[i].first_op = static_cast<uint32_t>(program_.ops.size());
      for (const ValueId value : functions_[i].values) {
        emit_value(value);
        ++now_;
      }
      program_.functions[i].output_slot = output_of(functions_[i]).slot;
    }
    number_caches();
    place_slots(program_);
    for (const uint32_t axis : stored_axes_) run_in_blocks(program_, axis);
    return std::move(program_);
  }

 private:
  // ---- memory ----

  // Copies the functions of the graph.
  void take_functions() {
    separate_functions(graph_);
    functions_ = functions_of(graph_);
    program_.functions.clear();
    std::vector<ValueId> order;
    for (const GraphFunction& function : functions_) {
      for (const ValueId value : function.values) {
        function_of_[value] = static_cast<uint32_t>(program_.functions.size());
      }
      order.insert(order.end(), function.values.begin(), function.values.end());
      program_.functions.push_back({function.name, 0, function.inputs});
    }
    graph_.reorder(std::move(order));
  }

  void take_inputs() {
    program_.inputs.clear();
    for (const GraphInput& input : graph_.inputs) {
      const uint32_t axis = axis_numbers_.at({input.axis, 0});
      ProgramInput taken{{axis, input.vocab_size, 0, input.positions_max, input.tokens_min},
                         input.name,
                         input.tokens_step};
      const auto is_taken = [&](ValueId value) {
        return graph_.axis(value) == input.axis && graph_.node(value).inputs.empty();
      };
      refuse_if(graph_.inputs.size() > 1 && std::ranges::none_of(graph_.order(), is_taken),
                "no output depends on input {}", quote(input.name));
      program_.inputs.push_back(std::move(taken));
    }
  }

  // Copies the axes of values and their sources. In the graph, axes of constants and of one row per
  // sequence belong to no input; in the program they belong to the first input of their function.
  void take_axes() {
    program_.axes.clear();
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i) {
      axis_numbers_[{graph_.inputs[i].axis, 0}] = i;
      Axis axis = graph_.axes[graph_.inputs[i].axis];
      axis.source = i;
      program_.axes.push_back(axis);
    }
    std::vector<std::vector<bool>> used;
    for (const GraphFunction& function : functions_) used.push_back(axes_of(function));
    for (uint32_t i = 0; i < graph_.axes.size(); ++i) {
      for (uint32_t of = 0; of < functions_.size(); ++of) {
        if (used[of][i] && !axis_numbers_.contains(key_of(i, of))) add_axis(i, of);
      }
    }
    refuse_if(program_.axes.size() > kAxesMax,
              "the functions have more than {} row axes, including those of constant, concatenated "
              "or pooled rows",
              kAxesMax);
  }

  // Marks the axes of the function's values, and the axes that they derive from.
  std::vector<bool> axes_of(const GraphFunction& function) const {
    std::vector<bool> is_used(graph_.axes.size(), false);
    for (const ValueId value : function.values) is_used[graph_.axis(value)] = true;
    for (size_t i = is_used.size(); i-- > 0;) {
      const Axis& axis = graph_.axes[i];
      if (!is_used[i] || !has_sources(axis)) continue;
      is_used[axis.source] = true;
      if (axis.kind == AxisKind::kJoined) is_used[axis.other] = true;
    }
    return is_used;
  }

  static bool has_sources(const Axis& axis) {
    return axis.kind != AxisKind::kInput && axis.kind != AxisKind::kConstants &&
           axis.kind != AxisKind::kOne;
  }

  void add_axis(uint32_t index, uint32_t function) {
    Axis axis = graph_.axes[index];
    if (has_sources(axis)) {
      axis.source = axis_numbers_.at(key_of(axis.source, function));
      if (axis.kind == AxisKind::kJoined) {
        axis.other = axis_numbers_.at(key_of(axis.other, function));
      }
    } else {
      axis.source = static_cast<uint32_t>(std::countr_zero(functions_[function].inputs));
    }
    axis_numbers_[key_of(index, function)] = static_cast<uint32_t>(program_.axes.size());
    program_.axes.push_back(axis);
  }

  // Axes of an input are shared by all functions; each function has its own copy of other axes.
  std::pair<uint32_t, uint32_t> key_of(uint32_t axis, uint32_t function) const {
    return {axis, graph_.inputs_of(axis) != 0 ? 0 : function};
  }

  void prepare() {
    last_use_.resize(graph_.values(), 0);
    for (size_t i = 0; i < graph_.order().size(); ++i) {
      const ValueId value = graph_.order()[i];
      const Node& node = graph_.node(value);
      last_use_[value] = i;
      uint32_t column = 0;
      if (is_stored(value)) plan_store(value);
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId input = node.inputs[k];
        if ((k == 1 || k == 2) && is_stored(value)) continue;  // is stored before
        last_use_[input] = i;
        // A convolution reads the rows under its windows.
        if (graph_.as<WindowsNode>(input)) last_use_[graph_.node(input).inputs[0]] = i;
        if (graph_.as<ConcatNode>(value)) {
          wholes_[input] = {value, column};
          column += graph_.width(input);
        }
      }
      // A product of an activation and another value is one op.
      if (graph_.as<MultiplyNode>(value)) {
        const ValueId first = node.inputs[0];
        if (graph_.as<ActivationNode>(first) && graph_.has_one_reader(first) &&
            graph_.axis(first) == graph_.axis(value)) {
          fused_[first] = value;
          last_use_[graph_.node(first).inputs[0]] = i;
        }
      }
    }
    for (const GraphFunction& function : functions_) {
      if (function.output) last_use_[*function.output] = SIZE_MAX;
    }
  }

  bool is_stored(ValueId value) const {
    const auto* attention = graph_.as<AttentionNode>(value);
    return attention != nullptr && (attention->is_stored || graph_.is_cross_attention(value));
  }

  // Plans when the keys and values of an is_stored op are stored: as soon as both exist, and once
  // for all attention ops that read them.
  void plan_store(ValueId attention) {
    const std::vector<ValueId>& inputs = graph_.node(attention).inputs;
    const auto [store, is_new] = stores_.try_emplace({inputs[1], inputs[2]});
    if (!is_new) return;
    store->second.attention = attention;
    const auto place = [&](ValueId value) {
      return static_cast<size_t>(std::ranges::find(graph_.order(), value) - graph_.order().begin());
    };
    store->second.after = std::max(place(inputs[1]), place(inputs[2]));
    for (const ValueId value : {inputs[1], inputs[2]}) {
      last_use_[value] = std::max(last_use_[value], store->second.after);
    }
  }

  void emit_value(ValueId value) {
    const size_t ops_before = program_.ops.size();
    std::visit([&](const auto& body) { emit(value, body); }, graph_.node(value).body);
    const bool is_state = std::ranges::count(graph_.hidden_states, value) != 0;
    if (is_state && program_.ops.size() != ops_before) {
      program_.hidden_states.push_back(
          {static_cast<uint32_t>(program_.ops.size() - 1), view(value)});
    }
    for (auto& [keys, store] : stores_) {
      if (store.after == now_) emit_store(keys.first, keys.second, store);
    }
  }

  // Returns the function's output; if it has none, the slot that its last op stores.
  ColumnView output_of(const GraphFunction& function) {
    if (!function.output) {
      return program_.whole(format::rows_of(program_.ops.back().body).slot);
    }
    const ColumnView output = view(*function.output);
    if (output == program_.whole(output.slot)) return output;
    if (function.output == graph_.output) {
      throw std::logic_error("the output is part of a slot: this is a bug");
    }
    const ColumnView copy = new_slot(*function.output);
    program_.add_op("output.copy", activation_op(Activation::kScale, 1.0f, output, {}, copy));
    return copy;
  }

  // Orders caches as in the file: those of store ops come first.
  void number_caches() {
    const auto stored = static_cast<uint32_t>(stored_caches_.size());
    program_.caches.insert(program_.caches.begin(), stored_caches_.begin(), stored_caches_.end());
    for (ProgramOp& op : program_.ops) {
      const bool fills =
          op.body.kind == format::OpKind::kAttention && op.body.views[format::kValue].width != 0;
      if (fills) op.body.numbers[format::AttentionOp::kCache] += stored;
    }
  }

  const ColumnView& view(ValueId value) const { return views_.at(value); }

  void place(ValueId value, const ColumnView& view) {
    views_[value] = view;
    occupants_[view.slot].push_back(value);
  }

  ColumnView new_slot(ValueId value) {
    return program_.whole(program_.add_slot(graph_.width(value), axis_of(value)));
  }

  // Whether no later op reads the columns of `value`.
  bool is_free(ValueId value) const {
    const ColumnView& wanted = view(value);
    return std::ranges::all_of(occupants_.at(wanted.slot), [&](ValueId other) {
      const ColumnView& used = view(other);
      const bool overlaps =
          used.column < wanted.column + wanted.width && wanted.column < used.column + used.width;
      return !overlaps || last_use_[other] <= now_;
    });
  }

  // Chooses where the result of a node goes: into its part of a concatenation, over the first value
  // of `reusable` that no op reads again, or into a new slot.
  ColumnView result(ValueId value, const std::vector<ValueId>& reusable = {}) {
    ColumnView place_of_result;
    if (const auto whole = wholes_.find(value); whole != wholes_.end()) {
      const auto [concat, column] = whole->second;
      if (!views_.contains(concat)) place(concat, new_slot(concat));
      place_of_result = {view(concat).slot, column, graph_.width(value)};
    } else {
      const auto reused = std::ranges::find_if(reusable, [&](ValueId input) {
        return graph_.width(input) == graph_.width(value) &&
               graph_.axis(input) == graph_.axis(value) && is_free(input) &&
               (value != graph_.output || view(input) == program_.whole(view(input).slot));
      });
      place_of_result = reused == reusable.end() ? new_slot(value) : view(*reused);
    }
    place(value, place_of_result);
    return place_of_result;
  }

  ColumnView input(ValueId value, size_t index = 0) const {
    return view(graph_.node(value).inputs[index]);
  }
  const std::string& name(ValueId value) const { return graph_.node(value).name; }

  uint32_t axis_of(ValueId value) const {
    return axis_numbers_.at(key_of(graph_.axis(value), function_of_.at(value)));
  }
  // Returns the number of rows of the longest sequence.
  uint32_t positions_of(ValueId value) const { return graph_.positions(graph_.axis(value)); }

  // ---- ops ----

  void emit(ValueId value, const FeaturesNode&) {
    place(value, new_slot(value));
    program_.inputs[graph_.axes[graph_.axis(value)].source].slot = view(value).slot;
  }

  void emit(ValueId value, const EmbeddingNode& embedding) {
    EmbeddingParts parts;
    if (embedding.stored_by) {
      const auto [tied, is_new] = tied_.try_emplace(*embedding.stored_by);
      if (is_new) {
        tied->second = program_.add_matrix(embedding.tokens->name,
                                           graph_.as<LinearNode>(*embedding.stored_by)->parts);
      }
      parts.tokens = tied->second;
    } else if (embedding.tokens) {
      parts.tokens = program_.add_table(*embedding.tokens, graph_.input_of(value).vocab_size,
                                        embedding.storage.type);
    }
    parts.scale = static_cast<float>(embedding.scale);
    if (embedding.positions) {
      parts.positions =
          program_.add_table(*embedding.positions, positions_of(value) + embedding.position_offset);
      parts.position_offset = embedding.position_offset;
      parts.padding_id = embedding.padding_id.value_or(format::kAbsent);
    }
    if (embedding.types) {
      parts.types = program_.add_table(*embedding.types, graph_.input_of(value).token_types);
    }
    program_.add_op(name(value), embedding_op(result(value), parts));
  }

  void emit(ValueId value, const LinearNode& linear) {
    const ColumnView from = input(value);
    const auto tied = tied_.find(value);
    const uint32_t matrix =
        tied != tied_.end() ? tied->second : once_.matrix(name(value), linear.parts);
    const auto* windows = graph_.as<WindowsNode>(graph_.node(value).inputs[0]);
    if (windows != nullptr && !is_copied(graph_.node(value).inputs[0])) {
      add_convolution(value, from, matrix, graph_.node(value).inputs[0]);
    } else {
      program_.add_op(name(value), linear_op(from, result(value), matrix));
    }
  }

  void emit(ValueId value, const TopKNode&) {
    const ColumnView from = input(value);
    program_.add_op(name(value), top_k_op(from, result(value)));
  }

  void emit(ValueId value, const ExpertsNode& experts) {
    const ColumnView from = input(value), ids = input(value, 1);
    const uint32_t matrix = program_.add_matrix(name(value), experts.parts);
    program_.add_op(name(value), experts_op(from, ids, result(value), matrix, experts.count));
  }

  // Returns the columns of windows over an image; 0 for other windows.
  uint32_t columns_of(ValueId windows_node, const Windows& windows) const {
    const ValueId from = graph_.node(windows_node).inputs[0];
    return graph_.axes[graph_.axis(from)].is_image() ? windows.columns.kernel : 0;
  }

  void add_convolution(ValueId value, const ColumnView& from, uint32_t matrix, ValueId of_windows) {
    const Windows& windows = graph_.as<WindowsNode>(of_windows)->windows;
    program_.add_op(name(value), convolution_op(from, result(value), matrix, windows,
                                                columns_of(of_windows, windows)));
  }

  // Whether a reader needs the windows themselves, which are then copied by multiplying with ones.
  bool is_copied(ValueId windows) const {
    const auto is_linear = [&](ValueId reader) { return graph_.as<LinearNode>(reader) != nullptr; };
    return graph_.is_shown(windows) || !std::ranges::all_of(graph_.readers(windows), is_linear);
  }

  void emit(ValueId value, const WindowsNode&) {
    if (!is_copied(value)) {
      views_[value] = input(value);
      return;
    }
    RowOrder all(graph_.width(value));
    std::iota(all.begin(), all.end(), 0u);
    const ColumnView from = input(value);
    const uint32_t matrix = program_.add_matrix(name(value), {{matrix_of(all)}});
    add_convolution(value, from, matrix, value);
  }

  void emit(ValueId value, const DepthwiseNode& depthwise) {
    const ColumnView from = input(value);
    const uint32_t kernel = program_.add_table(depthwise.kernel, depthwise.windows.kernel());
    std::vector<float> bias(depthwise.bias.begin(), depthwise.bias.end());
    bias.resize(graph_.width(value), 0.0f);
    const uint32_t added = program_.add_vector(name(value) + ".bias", std::move(bias));
    program_.add_op(name(value), depthwise_op(from, result(value), kernel, added, depthwise.windows,
                                              columns_of(value, depthwise.windows)));
  }

  void emit(ValueId value, const MaxPoolNode& pool) {
    const ColumnView from = input(value);
    program_.add_op(name(value), max_pool_op(from, result(value), pool.windows,
                                             columns_of(value, pool.windows)));
  }

  void emit(ValueId value, const NormNode& norm) {
    const ColumnView from = input(value);
    program_.add_norm(name(value), norm, from, result(value, graph_.node(value).inputs));
  }

  void emit(ValueId value, const RowFunctionNode& normalize) {
    const ColumnView from = input(value);
    const NormParts parts = {.kind = normalize.kind, .epsilon = kShortestRow};
    program_.add_op(name(value), norm_op(from, result(value, graph_.node(value).inputs), parts));
  }

  void emit(ValueId value, const RotateNode& rotate) {
    const ColumnView from = input(value);
    program_.add_rope(name(value), from, result(value, graph_.node(value).inputs),
                      graph_.width(value) / rotate.head_dim,
                      once_.angles(rotate.rope, positions_of(value)));
  }

  void emit(ValueId value, const PermuteNode& permute) {
    const ColumnView from = input(value);
    const uint32_t matrix = program_.add_matrix(name(value), {{matrix_of(permute.order)}});
    program_.add_op(name(value), linear_op(from, result(value), matrix));
  }

  void add_function(ValueId value, Activation function, double parameter) {
    const ColumnView from = input(value);
    program_.add_op(name(value), activation_op(function, static_cast<float>(parameter), from, {},
                                               result(value, graph_.node(value).inputs)));
  }

  void emit(ValueId value, const ScaleNode& scale) {
    add_function(value, Activation::kScale, scale.factor);
  }

  void emit(ValueId value, const ActivationNode& activation) {
    if (fused_.contains(value)) return;
    add_function(value, activation.activation, activation.parameter);
  }

  void emit(ValueId value, const MultiplyNode&) {
    const std::vector<ValueId>& inputs = graph_.node(value).inputs;
    const auto* activation = graph_.as<ActivationNode>(inputs[0]);
    const bool is_fused = fused_.contains(inputs[0]) && fused_.at(inputs[0]) == value;
    // An input with one row per sequence comes second.
    const bool is_swapped = graph_.axis(inputs[0]) != graph_.axis(value);
    const ValueId first = is_fused ? graph_.node(inputs[0]).inputs[0] : inputs[is_swapped ? 1 : 0];
    const ValueId second = inputs[is_swapped ? 0 : 1];
    const ColumnView from = view(first);
    const Activation function = is_fused ? activation->activation : Activation::kScale;
    const double parameter = is_fused ? activation->parameter : 1.0;
    // The result may overwrite `first`, unless both operands are the same view.
    const bool is_read_twice = view(first) == view(second);
    const ColumnView to =
        result(value, is_read_twice ? std::vector<ValueId>{} : std::vector<ValueId>{first});
    program_.add_op(name(value),
                    activation_op(function, static_cast<float>(parameter), from, view(second), to));
  }

  void emit(ValueId value, const AddNode&) {
    ColumnView first = input(value, 0);
    ColumnView second = input(value, 1);
    std::vector<ValueId> reusable = graph_.node(value).inputs;
    if (first == second) reusable.clear();
    // The residual stream stays in its slot from layer to layer.
    if (stored_axes_.contains(axis_of(value)) && first.slot > second.slot) {
      std::ranges::reverse(reusable);
    }
    const ColumnView sum = result(value, reusable);
    // sum_op takes the overwritten operand first, and an operand of one row per sequence second.
    const bool is_swapped = graph_.axis(graph_.node(value).inputs[0]) != graph_.axis(value);
    if (sum == second || is_swapped) std::swap(first, second);
    program_.add_op(name(value), sum_op(first, second, sum));
  }

  // Queries or keys that get terms: their index among the inputs of attention, and the index of the
  // rows that terms are computed from.
  struct TermSource {
    const char* name;
    size_t rows, from;
    double scale;
  };

  // Adds a slot with queries or keys and their terms, which linear layers compute, one for each
  // head.
  ColumnView with_terms(ValueId value, const RelativeBias& all, const TermSource& source,
                        bool is_before) {
    const auto& attention = *graph_.as<AttentionNode>(value);
    const RelativeBias table = without_equal_ends(all);
    const uint32_t count = is_before ? table.positions : 2 * table.positions - 1;
    const uint32_t width = graph_.width(graph_.node(value).inputs[source.rows]);
    const uint32_t slot = program_.add_slot(width + attention.heads * count, axis_of(value));
    program_.add_op(
        name(value) + source.name,
        activation_op(Activation::kScale, static_cast<float>(source.scale),
                      view(graph_.node(value).inputs[source.rows]), {}, {slot, 0, width}));
    ColumnView from = input(value, source.from);
    from.width = table.dim;
    ColumnView to = {slot, width, count};
    uint32_t matrix = 0;
    for (uint32_t head = 0; head < attention.heads; ++head) {
      const std::string layer = name(value) + source.name + ".terms." + std::to_string(head);
      if (head < table.heads)
        matrix = program_.add_matrix(layer, {{query_terms_layer(table, head, count)}});
      program_.add_op(layer, linear_op(from, to, matrix));
      from.column += from.width;
      to.column += to.width;
    }
    return program_.whole(slot);
  }

  void add_query_terms(ValueId value, const AttentionNode& attention, AttentionParts& parts) {
    const CompiledMask& mask = program_.masks[attention.mask];
    const bool is_before = mask.kind == MaskKind::kBand && mask.lookahead == 0;
    parts.query =
        with_terms(value, *attention.query_terms, {".queries", 0, 3, attention.scale}, is_before);
    parts.terms_by = is_before ? ScoreTerms::kQueriesBefore : ScoreTerms::kQueries;
    if (!attention.key_terms) return;
    parts.key = with_terms(value, *attention.key_terms, {".keys", 1, 4, 1.0}, false);
    parts.terms_by = ScoreTerms::kQueriesAndKeys;
  }

  void emit(ValueId value, const AttentionNode& attention) {
    const std::vector<ValueId>& inputs = graph_.node(value).inputs;
    const CompiledMask& mask = program_.masks[attention.mask];
    const bool is_window =
        mask.kind == MaskKind::kBand && mask.lookahead == 0 && mask.positions == 0;
    const std::pair kept(attention.cache, axis_of(value));
    if (!is_stored(value) && !caches_.contains(kept)) {
      caches_[kept] =
          program_.add_cache({attention.kv_heads, attention.head_dim, attention.value_dim},
                             is_window ? mask.lookback : kUnlimited, axis_of(value));
    }
    AttentionParts parts;
    if (inputs.size() != 1) parts.query = view(inputs[0]);
    if (is_stored(value)) {
      parts.cache = stores_.at({inputs[1], inputs[2]}).cache;
    } else {
      if (inputs.size() != 1) parts.key = view(inputs[1]);
      parts.value = view(value_input(inputs));
      parts.cache = caches_.at(kept);
    }
    if (attention.query_terms) add_query_terms(value, attention, parts);
    parts.output = result(value);
    parts.mask = attention.mask;
    if (!attention.slopes.empty()) {
      parts.terms = once_.terms({ScoreTerms::kSlopes, attention.heads, 0, attention.slopes});
    } else if (attention.terms) {
      parts.terms = once_.terms(*attention.terms);
      parts.terms_by = attention.terms->by;
    }
    if (!attention.sinks.empty()) parts.sinks = once_.sinks(attention.sinks);
    parts.score_cap = static_cast<float>(attention.score_cap);
    program_.add_op(name(value), attention_op(parts));
  }

  void emit_store(ValueId key, ValueId value, Store& store) {
    const auto& attention = *graph_.as<AttentionNode>(store.attention);
    store.cache = static_cast<uint32_t>(stored_caches_.size());
    // Attention ops on one axis finish with their keys before the next layer stores its own, so
    // they can share one cache of the graph.
    bool is_new = true;
    if (attention.is_stored) {
      const auto known = shared_.try_emplace({attention.cache, axis_of(value)}, store.cache);
      store.cache = known.first->second;
      is_new = known.second;
      stored_axes_.insert(axis_of(value));
    }
    if (is_new) {
      stored_caches_.push_back({{attention.kv_heads, attention.head_dim, attention.value_dim},
                                kUnlimited,
                                axis_of(value)});
    }
    program_.add_op(name(store.attention) + ".store",
                    store_op(view(key), view(value), store.cache));
  }

  void emit(ValueId value, const SelectNode& rows) {
    const ColumnView from = input(value);
    std::vector<uint32_t>& lists = program_.taken_rows;
    // Not std::ranges::search: clang 14 does not compile its result with libstdc++ 12.
    const auto known =
        std::search(lists.begin(), lists.end(), rows.taken.begin(), rows.taken.end());
    const auto first = static_cast<uint32_t>(known - lists.begin());
    if (known == lists.end()) lists.insert(lists.end(), rows.taken.begin(), rows.taken.end());
    program_.add_op(name(value),
                    select_op(from, result(value), rows.kind, rows.taken.empty() ? 0 : first));
  }

  void emit(ValueId value, const JoinNode&) {
    const ColumnView first = input(value, 0), second = input(value, 1);
    program_.add_op(name(value), join_op(first, second, result(value)));
  }

  void emit(ValueId value, const SliceNode& slice) {
    const ColumnView whole = input(value);
    place(value, {whole.slot, whole.column + slice.begin, graph_.width(value)});
  }

  void emit(ValueId, const ConcatNode&) {}  // its parts are there

  Graph graph_;
  Program program_;
  SharedTensors once_{program_};
  std::vector<GraphFunction> functions_;
  std::map<ValueId, uint32_t> function_of_;
  size_t now_ = 0;  // place in the graph's order
  std::vector<size_t> last_use_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> axis_numbers_;  // by key_of
  std::map<ValueId, ColumnView> views_;
  std::map<uint32_t, std::vector<ValueId>> occupants_;        // of each slot
  std::map<ValueId, std::pair<ValueId, uint32_t>> wholes_;    // concatenation and column
  std::map<ValueId, ValueId> fused_;                          // activation and product
  std::map<ValueId, uint32_t> tied_;                          // linear layer and tensor
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> caches_;  // of the graph and axis
  std::map<std::pair<ValueId, ValueId>, Store> stores_;       // of key and value
  std::vector<format::CacheView> stored_caches_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> shared_;  // of the graph and axis, if stored
  std::set<uint32_t> stored_axes_;                            // of these
};

}  // namespace

Program lower(Graph graph, const std::string& name) {
  return Lowering(std::move(graph), name).run();
}

Program compile(Graph graph, const std::string& name,
                const std::vector<std::string>& without_passes) {
  return lower(rewrite(std::move(graph), without_passes), name);
}

}  // namespace arenite::convert
