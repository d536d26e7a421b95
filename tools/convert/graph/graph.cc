// SPDX-License-Identifier: Apache-2.0
// Value ids are stable when nodes are added and removed: only the order changes.
#include "convert/graph/graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {

size_t ImageLayout::place(size_t element) const {
  size_t channel = 0, pixel = element;
  if (channels_first) {
    channel = element / pixels();
    pixel = element % pixels();
  } else {
    channel = element % channels;
    pixel = element / channels;
  }
  const size_t line = columns_first ? pixel % height : pixel / width;
  const size_t column = columns_first ? pixel / height : pixel % width;
  return (line * width + column) * channels + channel;
}

// Row-by-row nodes have the axis of their inputs; a second input may have one row per sequence.
uint32_t Graph::axis_of(const Node& node) const {
  const bool has_own = node.inputs.empty() || std::holds_alternative<SelectNode>(node.body) ||
                       std::holds_alternative<JoinNode>(node.body);
  const bool has_windows = std::holds_alternative<WindowsNode>(node.body) ||
                           std::holds_alternative<DepthwiseNode>(node.body) ||
                           std::holds_alternative<MaxPoolNode>(node.body);
  const AxisKind kind = axes[node.axis].kind;
  const bool is_of_windows = kind == AxisKind::kWindows || kind == AxisKind::kPixels;
  if (has_own || (has_windows && is_of_windows)) return node.axis;
  uint32_t found = axis(node.inputs[0]);
  if (std::holds_alternative<AttentionNode>(node.body)) return found;  // that of queries
  for (const ValueId input : node.inputs) {
    if (axes[found].kind == AxisKind::kOne) found = axis(input);
  }
  for (const ValueId input : node.inputs) {
    refuse_if(
        axis(input) != found && axes[axis(input)].kind != AxisKind::kOne,
        "{}: it combines rows of different axes: expected one axis, or one row for each sequence",
        quote(node.name));
  }
  return found;
}

void Graph::spread_axes() {
  for (const ValueId value : order_) nodes_[value].axis = axis_of(nodes_[value]);
}

uint32_t Graph::add_axis(const Axis& axis) {
  const auto known = std::ranges::find(axes, axis);
  const auto index = static_cast<uint32_t>(known - axes.begin());
  if (known == axes.end()) axes.push_back(axis);
  refuse_if(axes.size() > kAxesMax,
            "the model has more than {} row axes, including those of constant, concatenated or "
            "pooled rows",
            kAxesMax);
  return index;
}

uint32_t Graph::add_input(const std::string& name) {
  const auto number = static_cast<uint32_t>(inputs.size());
  refuse_if(number >= kInputsMax, "the model has more than {} inputs of tokens or features",
            kInputsMax);
  inputs.push_back({.name = name, .axis = add_axis({AxisKind::kInput, number, 0, 0})});
  return number;
}

AxisRows Graph::all_rows(std::span<const uint32_t> tokens) const {
  InputTokens counts;
  std::ranges::copy(tokens, counts.of);
  return rows_of_axes(axes, counts, 1, true);
}

uint32_t Graph::rows(uint32_t of_axis, uint32_t tokens) const {
  return all_rows(std::vector<uint32_t>(inputs.size(), tokens))[of_axis];
}

uint32_t Graph::inputs_of(uint32_t of_axis) const {
  const Axis& axis = axes[of_axis];
  if (axis.kind == AxisKind::kInput) return 1u << axis.source;
  if (axis.kind == AxisKind::kConstants || axis.kind == AxisKind::kOne) return 0;
  const uint32_t other = axis.kind == AxisKind::kJoined ? inputs_of(axis.other) : 0;
  return inputs_of(axis.source) | other;
}

bool Graph::joins_tokens(uint32_t of_axis) const {
  const Axis& axis = axes[of_axis];
  if (axis.kind == AxisKind::kTurns) return joins_tokens(axis.source);
  if (axis.kind != AxisKind::kJoined) return false;
  const bool are_both = inputs_of(axis.source) != 0 && inputs_of(axis.other) != 0;
  return are_both || joins_tokens(axis.source) || joins_tokens(axis.other);
}

uint32_t Graph::positions(uint32_t of_axis) const {
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    tokens.push_back(inputs[i].positions_max);
    if (tokens.back() != 0) continue;
    if ((inputs_of(of_axis) & 1u << i) != 0) return 0;
    tokens.back() = 1;  // rows of a sequence that come with any tokens
  }
  return all_rows(tokens)[of_axis];
}

const GraphInput& Graph::input_of(ValueId value) const {
  const auto first = static_cast<uint32_t>(std::countr_zero(inputs_of(axis(value))));
  return inputs[first < inputs.size() ? first : 0];
}

bool Graph::takes_pairs(uint32_t input) const {
  return std::ranges::any_of(order_, [&](ValueId value) {
    const auto* attention = as<AttentionNode>(value);
    return attention != nullptr && is_of_pairs(masks[attention->mask]) &&
           axis(value) == inputs[input].axis;
  });
}

bool Graph::is_cross_attention(ValueId value) const {
  return as<AttentionNode>(value) != nullptr &&
         axis(value_input(nodes_[value].inputs)) != axis(nodes_[value].inputs[0]);
}

ValueId Graph::insert(std::vector<ValueId>::iterator place, Node node) {
  const ValueId value = values();
  node.axis = axis_of(node);
  nodes_.push_back(std::move(node));
  order_.insert(place, value);
  return value;
}

ValueId Graph::add_features(uint32_t row_width, uint32_t input) {
  const std::string name = inputs.size() == 1 ? "features" : inputs[input].name;
  return append({name, FeaturesNode{}, {}, row_width, inputs[input].axis});
}

ValueId Graph::add_embedding(const std::string& name, EmbeddingNode embedding, uint32_t row_width,
                             uint32_t on_axis) {
  return append({name, std::move(embedding), {}, row_width, on_axis});
}

ValueId Graph::add_constants(const std::string& name, const WeightRef& rows) {
  const uint32_t on_axis = add_axis({AxisKind::kConstants, 0, 0, rows.rows});
  return add_embedding(name, {.positions = rows}, rows.columns, on_axis);
}

ValueId Graph::add_join(const std::string& name, ValueId first, ValueId second) {
  const uint32_t on_axis = add_axis({AxisKind::kJoined, axis(first), axis(second), 0});
  return append({name, JoinNode{}, {first, second}, width(first), on_axis});
}

ValueId Graph::add_select(const std::string& name, SelectKind kind, ValueId input) {
  const bool is_open = kind == SelectKind::kAsAsked;
  const uint32_t on_axis =
      add_axis(is_open ? Axis{AxisKind::kAsked, axis(input), 0, 0} : Axis{AxisKind::kOne, 0, 0, 0});
  return append({name, SelectNode{kind}, {input}, width(input), on_axis});
}

ValueId Graph::add_in_turn(const std::string& name, ValueId input, uint32_t parts) {
  const uint32_t on_axis =
      add_axis({.kind = AxisKind::kTurns, .source = axis(input), .rows = parts});
  return append({name, SelectNode{SelectKind::kTurns}, {input}, width(input) / parts, on_axis});
}

ValueId Graph::add_side_by_side(const std::string& name, ValueId input) {
  const Axis& turns = axes[axis(input)];
  return append(
      {name, SelectNode{SelectKind::kTurns}, {input}, width(input) * turns.rows, turns.source});
}

ValueId Graph::add_transposed(const std::string& name, ValueId input, uint32_t rows,
                              uint32_t on_axis) {
  return append({name, SelectNode{SelectKind::kTransposed}, {input}, rows, on_axis});
}

ValueId Graph::add_taken(const std::string& name, ValueId input, std::vector<uint32_t> list,
                         uint32_t on_axis) {
  return append(
      {name, SelectNode{SelectKind::kTaken, std::move(list)}, {input}, width(input), on_axis});
}

ValueId Graph::add_part(const std::string& name, bool is_first, ValueId input) {
  const Axis& joined = axes[axis(input)];
  return append({name,
                 SelectNode{is_first ? SelectKind::kFirst : SelectKind::kLast},
                 {input},
                 width(input),
                 is_first ? joined.source : joined.other});
}

// Windows with one result per row share the axis of those rows.
uint32_t Graph::axis_of_windows(const Windows& windows, ValueId input) {
  const WindowAxis& window = windows.lines;
  if (const Axis from = axes[axis(input)]; from.is_image()) {
    refuse_if(windows.width != from.other,
              "{}: windows over it have lines of {} pixels: expected those of the image, {}",
              quote(node(input).name), windows.width, from.other);
    const uint32_t count = windows.count(from.rows), columns = windows.per_line();
    const uint32_t stride = window.stride | windows.columns.stride << 16;
    if (count == from.rows && columns == from.other && stride == 0x10001) return axis(input);
    return add_axis({AxisKind::kPixels, axis(input), columns, count, stride, 0});
  }
  const int64_t needed = int64_t{window.span()} - window.before - window.after;
  if (window.stride == 1 && needed == 1) return axis(input);
  return add_axis({.kind = AxisKind::kWindows,
                   .source = axis(input),
                   .stride = window.stride,
                   .window = static_cast<int32_t>(needed)});
}

ValueId Graph::add_windows(const std::string& name, const Windows& windows, ValueId input) {
  uint32_t row_width = 0;
  refuse_if(__builtin_mul_overflow(windows.kernel(), width(input), &row_width),
            "{}: its rows are wider than any model's", quote(name));
  return append({name, WindowsNode{windows}, {input}, row_width, axis_of_windows(windows, input)});
}

ValueId Graph::add_depthwise(const std::string& name, const DepthwiseNode& depthwise,
                             ValueId input) {
  const uint32_t on_axis = axis_of_windows(depthwise.windows, input);
  return append({name, depthwise, {input}, width(input), on_axis});
}

ValueId Graph::add_max_pool(const std::string& name, const Windows& windows, ValueId input) {
  const uint32_t on_axis = axis_of_windows(windows, input);
  return append({name, MaxPoolNode{windows}, {input}, width(input), on_axis});
}

ValueId Graph::add_linear(const std::string& name, const LinearSpec& linear, ValueId input) {
  refuse_if(!linear.bias.empty() && linear.bias.size() != linear.weight.rows,
            "{}: its bias has {} elements: expected {}", quote(name), linear.bias.size(),
            linear.weight.rows);
  return append(
      {name, LinearNode{{{.linear = linear, .layer = name}}}, {input}, linear.weight.rows});
}

ValueId Graph::add_top_k(const std::string& name, ValueId input, uint32_t chosen) {
  refuse_if(chosen == 0 || chosen > width(input), "{}: it chooses {} of {} experts", quote(name),
            chosen, width(input));
  return append({name, TopKNode{}, {input}, 2 * chosen});
}

ValueId Graph::add_experts(const std::string& name, const LinearSpec& linear, uint32_t count,
                           ValueId input, ValueId ids) {
  ExpertsNode experts;
  experts.parts = {{.linear = linear, .layer = name}};
  experts.count = count;
  uint32_t row_width = 0;
  refuse_if(__builtin_mul_overflow(linear.outputs() / count, width(ids), &row_width),
            "{}: its rows are wider than any model's", quote(name));
  return append({name, std::move(experts), {input, ids}, row_width});
}

ValueId Graph::add_norm(const std::string& name, const NormSpec& norm, ValueId input) {
  return add(name, NormNode{norm}, {input});
}

ValueId Graph::add_attention(const std::string& name, const AttentionNode& attention,
                             std::vector<ValueId> inputs) {
  uint32_t width = 0;
  refuse_if(__builtin_mul_overflow(attention.heads, attention.value_dim, &width),
            "{}: its rows are wider than any model's", quote(name));
  return append({name, attention, std::move(inputs), width});
}

ValueId Graph::add_slice(const std::string& name, ValueId input, uint32_t begin,
                         uint32_t row_width) {
  return append({name, SliceNode{begin}, {input}, row_width});
}

ValueId Graph::add_concat(const std::string& name, std::vector<ValueId> inputs) {
  uint32_t width = 0;
  for (const ValueId input : inputs) {
    refuse_if(__builtin_add_overflow(width, this->width(input), &width),
              "{}: its rows are wider than any model's", quote(name));
  }
  return append({name, ConcatNode{}, std::move(inputs), width});
}

ValueId Graph::add(const std::string& name, NodeBody body, std::vector<ValueId> inputs) {
  const uint32_t width = this->width(inputs[0]);
  return append({name, std::move(body), std::move(inputs), width});
}

ValueId Graph::insert_before(ValueId place, Node node) {
  return insert(std::ranges::find(order_, place), std::move(node));
}

ValueId Graph::insert_after(ValueId place, Node node) {
  return insert(std::ranges::find(order_, place) + 1, std::move(node));
}

uint32_t Graph::add_band(uint32_t lookback, uint32_t lookahead) {
  masks.push_back(band_mask(lookback, lookahead, 0));
  return static_cast<uint32_t>(masks.size() - 1);
}

uint32_t Graph::caches() const {
  std::set<uint32_t> caches;
  for (const ValueId value : order_) {
    if (const auto* attention = as<AttentionNode>(value)) caches.insert(attention->cache);
  }
  return static_cast<uint32_t>(caches.size());
}

std::vector<ValueId> Graph::readers(ValueId value) const {
  std::vector<ValueId> found;
  for (const ValueId reader : order_) {
    if (std::ranges::count(nodes_[reader].inputs, value) != 0) found.push_back(reader);
  }
  return found;
}

bool Graph::is_shown(ValueId value) const {
  return value == output || std::ranges::count(hidden_states, value) != 0;
}

bool Graph::has_one_reader(ValueId value) const {
  ptrdiff_t uses = 0;
  for (const ValueId reader : order_) uses += std::ranges::count(nodes_[reader].inputs, value);
  return uses == 1 && !is_shown(value);
}

void Graph::replace(ValueId old_value, ValueId new_value, std::optional<ValueId> except) {
  for (const ValueId reader : order_) {
    if (reader != except) std::ranges::replace(nodes_[reader].inputs, old_value, new_value);
  }
  std::ranges::replace(hidden_states, old_value, new_value);
  if (output == old_value) output = new_value;
}

void Graph::remove_unread() {
  std::vector<bool> is_read(nodes_.size(), false);
  is_read[output] = true;
  for (const ValueId value : hidden_states) is_read[value] = true;
  for (auto value = order_.rbegin(); value != order_.rend(); ++value) {
    if (!is_read[*value]) continue;
    for (const ValueId input : nodes_[*value].inputs) is_read[input] = true;
  }
  std::erase_if(order_, [&](ValueId value) {
    return !is_read[value] && !std::holds_alternative<FeaturesNode>(nodes_[value].body);
  });
}

void Graph::make_names_unique() {
  std::set<std::string> taken;
  for (const ValueId value : order_) taken.insert(node(value).name);
  std::set<std::string> given;
  for (const ValueId value : order_) {
    auto* const linear = as<LinearNode>(value);
    // Windows, permutations and rotations become layers, too, unless they are folded into another
    // one.
    const bool is_layer = linear != nullptr || as<EmbeddingNode>(value) != nullptr ||
                          as<WindowsNode>(value) != nullptr || as<PermuteNode>(value) != nullptr ||
                          as<RotateNode>(value) != nullptr;
    if (!is_layer) continue;
    std::string& name = node(value).name;
    if (given.insert(name).second) continue;
    const std::string before = name;
    for (uint32_t number = 2; !taken.insert(name).second; ++number) {
      name = before + "_" + std::to_string(number);
    }
    given.insert(name);
    if (linear != nullptr) linear->parts[0].layer = name;
  }
}

// ---- functions ----

std::vector<uint32_t> inputs_of_values(const Graph& graph) {
  std::vector<uint32_t> found(graph.values(), 0);
  for (const ValueId value : graph.order()) {
    found[value] = graph.inputs_of(graph.axis(value));
    for (const ValueId input : graph.node(value).inputs) found[value] |= found[input];
  }
  return found;
}

namespace {

// Returns the input index of attention's first key or value.
size_t first_key(const Node& node) { return node.inputs.size() == 1 ? 0 : 1; }

// Whether values of the inputs `first` reach others only as keys and values, and some do.
bool can_encode(const Graph& graph, const std::vector<uint32_t>& made_of, uint32_t first) {
  const auto is_first = [&](ValueId value) {
    return made_of[value] != 0 && (made_of[value] & ~first) == 0;
  };
  bool has_keys = false;
  for (const ValueId value : graph.order()) {
    if (is_first(value) || made_of[value] == 0) continue;
    const Node& node = graph.node(value);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_first(node.inputs[i])) continue;
      if (!graph.is_cross_attention(value) || i < first_key(node)) return false;
      // Key and value are both stored, and neither is recomputed.
      if (!is_first(node.inputs[1]) || !is_first(node.inputs[2])) return false;
      has_keys = true;
    }
  }
  return has_keys && !is_first(graph.output);
}

// Returns the largest set of inputs that can be encoded before the others are known; 0 if there is
// none.
uint32_t inputs_to_encode(const Graph& graph, const std::vector<uint32_t>& made_of) {
  const uint32_t all = (1u << graph.inputs.size()) - 1;
  uint32_t found = 0;
  for (uint32_t first = 1; first < all; ++first) {
    const bool is_more = std::popcount(first) > std::popcount(found);
    if (is_more && can_encode(graph, made_of, first)) found = first;
  }
  return found;
}

// Returns the function of each value: 1 if it depends on an input that is not encoded first, else
// 0. Values that depend on no input belong to the last function that reads them.
std::vector<uint32_t> function_numbers(const Graph& graph) {
  const std::vector<uint32_t> made_of = inputs_of_values(graph);
  const uint32_t first = inputs_to_encode(graph, made_of);
  std::vector<uint32_t> numbers(graph.values(), 0);
  if (first == 0) return numbers;
  for (auto value = graph.order().rbegin(); value != graph.order().rend(); ++value) {
    if (made_of[*value] != 0) numbers[*value] = (made_of[*value] & ~first) != 0 ? 1 : 0;
    for (const ValueId input : graph.node(*value).inputs) {
      if (made_of[input] == 0) numbers[input] = std::max(numbers[input], numbers[*value]);
    }
  }
  return numbers;
}

// Returns the value from which all keys and values that a later function reads are computed, if
// there is exactly one.
std::optional<ValueId> encoded_value(const Graph& graph, const std::vector<uint32_t>& numbers) {
  std::set<ValueId> found;
  for (const ValueId value : graph.order()) {
    if (numbers[value] == 0 || !graph.is_cross_attention(value)) continue;
    const Node& node = graph.node(value);
    for (size_t i = first_key(node); i < node.inputs.size(); ++i) {
      ValueId made = node.inputs[i];
      if (numbers[made] != 0) continue;
      while (graph.as<SliceNode>(made) || graph.as<RotateNode>(made) ||
             graph.as<PermuteNode>(made)) {
        made = graph.node(made).inputs[0];
      }
      const bool is_projected = graph.as<LinearNode>(made) != nullptr;
      found.insert(is_projected ? graph.node(made).inputs[0] : made);
    }
  }
  return found.size() == 1 ? std::optional(*found.begin()) : std::nullopt;
}

}  // namespace

std::vector<GraphFunction> functions_of(const Graph& graph) {
  const std::vector<uint32_t> numbers = function_numbers(graph);
  const bool are_two = std::ranges::count(numbers, 1u) != 0;
  std::vector<std::string> names = graph.function_names;
  if (names.empty() && are_two) names = {"encode", "step"};
  if (names.empty()) names = {"run"};
  refuse_if(names.size() != (are_two ? 2u : 1u),
            "{} names of functions are given: the model has {}, since values of one input reach "
            "those of others {}",
            names.size(), are_two ? 2 : 1,
            are_two ? "by attention alone" : "not only as keys and values of attention");
  std::vector<GraphFunction> functions;
  for (const std::string& name : names) functions.push_back({.name = name, .values = {}});
  for (const ValueId value : graph.order()) {
    GraphFunction& function = functions[numbers[value]];
    function.values.push_back(value);
    function.inputs |= graph.inputs_of(graph.axis(value));
  }
  functions.back().output = graph.output;
  if (are_two) functions[0].output = encoded_value(graph, numbers);
  return functions;
}

namespace {

// Maps each axis of `second` to an axis of `first`, and adds missing ones.
std::vector<uint32_t> add_axes(Graph& first, const Graph& second, uint32_t input, uint32_t joined) {
  std::vector<uint32_t> numbers;
  for (Axis axis : second.axes) {
    if (axis.kind == AxisKind::kInput) {
      if (axis.source == input) {
        numbers.push_back(joined);
        continue;
      }
      const uint32_t number = first.add_input(second.inputs[axis.source].name);
      const uint32_t own = first.inputs[number].axis;
      first.inputs[number] = second.inputs[axis.source];
      first.inputs[number].axis = own;
      numbers.push_back(own);
      continue;
    }
    const bool has_source = axis.kind != AxisKind::kConstants && axis.kind != AxisKind::kOne;
    if (has_source) axis.source = numbers[axis.source];
    if (axis.kind == AxisKind::kJoined) axis.other = numbers[axis.other];
    numbers.push_back(first.add_axis(axis));
  }
  return numbers;
}

}  // namespace

Graph chained(Graph first, const Graph& second, uint32_t input) {
  ValueId given = first.output;
  if (const auto* select = first.as<SelectNode>(given);
      select != nullptr && select->kind == SelectKind::kAsAsked) {
    given = first.node(given).inputs[0];  // all rows go on
  }
  const std::vector<uint32_t> axes = add_axes(first, second, input, first.axis(given));
  const auto masks = static_cast<uint32_t>(first.masks.size());
  uint32_t caches = 0;
  for (const ValueId value : first.order()) {
    if (const auto* attention = first.as<AttentionNode>(value)) {
      caches = std::max(caches, attention->cache + 1);
    }
  }
  first.masks.insert(first.masks.end(), second.masks.begin(), second.masks.end());
  std::map<ValueId, ValueId> values;
  ValueId last = first.order().back();
  for (const ValueId value : second.order()) {
    if (second.as<FeaturesNode>(value) && second.axis(value) == second.inputs[input].axis) {
      refuse_if(second.width(value) != first.width(given),
                "the rows of the first program have {} features, and input '{}' of the second {}",
                first.width(given), second.inputs[input].name, second.width(value));
      values[value] = given;
      continue;
    }
    Node node = second.node(value);
    for (ValueId& read : node.inputs) read = values.at(read);
    node.axis = axes[node.axis];
    if (auto* attention = std::get_if<AttentionNode>(&node.body)) {
      attention->mask += masks;
      attention->cache += caches;
    }
    last = values[value] = first.insert_after(last, std::move(node));
  }
  for (const ValueId state : second.hidden_states) first.hidden_states.push_back(values.at(state));
  first.output = values.at(second.output);
  first.labels = second.labels;
  first.remove_unread();
  first.make_names_unique();
  return first;
}

void separate_functions(Graph& graph) {
  std::vector<uint32_t> numbers = function_numbers(graph);
  // Values without inputs that both functions read are computed twice.
  std::map<ValueId, ValueId> copies;
  const std::vector<ValueId> before = graph.order();
  const std::vector<uint32_t> made_of = inputs_of_values(graph);
  for (auto reader = before.rbegin(); reader != before.rend(); ++reader) {
    if (numbers[*reader] != 0) continue;
    for (size_t i = 0; i < graph.node(*reader).inputs.size(); ++i) {
      const ValueId input = graph.node(*reader).inputs[i];
      if (made_of[input] != 0 || numbers[input] == 0) continue;
      if (!copies.contains(input)) copies[input] = graph.insert_before(input, graph.node(input));
      graph.node(*reader).inputs[i] = copies[input];
    }
  }
  // Copies must read copies of their other inputs, so these are copied, too.
  for (bool is_done = false; !is_done;) {
    is_done = true;
    for (const auto& [_, copy] : std::map(copies)) {
      for (size_t i = 0; i < graph.node(copy).inputs.size(); ++i) {
        const ValueId input = graph.node(copy).inputs[i];
        if (numbers.size() <= input || numbers[input] == 0) continue;
        if (!copies.contains(input)) copies[input] = graph.insert_before(input, graph.node(input));
        graph.node(copy).inputs[i] = copies[input];
        is_done = false;
      }
    }
  }
  std::vector<ValueId> order;
  for (const GraphFunction& function : functions_of(graph)) {
    order.insert(order.end(), function.values.begin(), function.values.end());
  }
  graph.reorder(std::move(order));
}

// ---- attention biases ----

double whole_score(const AttentionNode& attention, double product, size_t head, size_t query,
                   size_t key) {
  double score = attention.scale * product;
  const double cap = attention.score_cap;
  if (cap != 0.0) score = cap * std::tanh(score / cap);
  if (!attention.slopes.empty()) {
    score += attention.slopes[head] * (static_cast<double>(key) - static_cast<double>(query));
  }
  if (attention.terms) score += attention.terms->at(head, query, key);
  return score;
}

AttentionBias first_positions(const AttentionBias& table, uint32_t positions) {
  AttentionBias part = {table.by, table.heads, positions, {}};
  const size_t rows = part.rows() / part.heads;  // of a head
  const size_t own_rows = table.rows() / table.heads;
  const size_t first = table.by == ScoreTerms::kPairs ? 0 : table.positions - positions;
  for (size_t head = 0; head < table.heads; ++head) {
    for (size_t row = 0; row < rows; ++row) {
      const size_t start = (head * own_rows + row) * table.columns() + first;
      const auto begin = table.values.begin() + static_cast<ptrdiff_t>(start);
      part.values.insert(part.values.end(), begin, begin + part.columns());
    }
  }
  return part;
}

RelativeBias first_positions(const RelativeBias& table, uint32_t positions) {
  RelativeBias part = {table.heads, positions, table.dim, {}};
  const size_t first = table.positions - positions;
  for (size_t head = 0; head < table.heads; ++head) {
    const auto begin = table.at(head, first).begin();
    part.values.insert(
        part.values.end(), begin,
        begin + static_cast<ptrdiff_t>((2 * size_t{positions} - 1) * (size_t{table.dim} + 1)));
  }
  return part;
}

}  // namespace arenite::convert
