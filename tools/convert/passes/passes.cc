// SPDX-License-Identifier: Apache-2.0
// The passes, in execution order. Permutations come before scales, and both before joining, since
// they change the weights of one layer.
#include "convert/passes/passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "convert/files/error.h"
#include "convert/graph/node_traits.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

// drop-rows: avoids computing rows that no caller can ask for. The row selection moves up to the
// last op that needs all rows, since row-by-row layers give the same results on fewer rows.
void drop_rows(Graph& graph) {
  const ValueId rows = graph.output;
  const SelectNode* chosen = graph.as<SelectNode>(rows);
  if (chosen == nullptr || chosen->kind != SelectKind::kAsAsked) return;
  ValueId first = rows;  // the first node of those that work on chosen rows
  while (true) {
    const ValueId before = graph.node(first == rows ? rows : first).inputs[0];
    if (!graph.has_one_reader(before) || !computes_rows(graph.node(before).body)) break;
    if (graph.as<WindowsNode>(graph.node(before).inputs[0]) != nullptr) break;
    first = before;
  }
  if (first == rows) return;
  const ValueId source = graph.node(first).inputs[0];
  const ValueId moved = graph.insert_before(
      first, {graph.node(rows).name, *chosen, {source}, graph.width(source), graph.axis(rows)});
  graph.node(first).inputs[0] = moved;
  graph.spread_axes();
  graph.output = graph.node(rows).inputs[0];
  graph.remove_unread();
}

// `rows_max` is the maximum number of rows that the mask is used for; 0: any number.
CompiledMask compiled(const Mask& mask, uint32_t rows_max) {
  if (const auto* buffer = std::get_if<BufferMask>(&mask)) {
    return compile_mask(*buffer->dense, buffer->origin);
  }
  CompiledMask band = std::get<CompiledMask>(mask);
  const uint32_t positions = band.positions != 0 ? band.positions : rows_max;
  const bool is_long = positions != 0 && band.lookback >= positions - 1;
  if (band.kind == MaskKind::kBand && is_long) band.lookback = kUnlimited;
  return band;
}

// Returns the maximum number of rows of attention with this mask; 0: any number.
uint32_t rows_of_mask(const Graph& graph, uint32_t mask) {
  uint32_t rows = 1;
  for (const ValueId value : graph.order()) {
    const auto* attention = graph.as<AttentionNode>(value);
    if (attention == nullptr || attention->mask != mask) continue;
    const uint32_t own = graph.positions(graph.axis(value));
    if (own == 0) return 0;
    rows = std::max(rows, own);
  }
  return rows;
}

// compile-masks: compiles each buffer mask to the smallest band, strip or tiles with the same
// contents. Merges equal masks (nearly all layers share one), and drops a window as long as the
// context. Throws InputError for a query that sees no key.
void compile_masks(Graph& graph) {
  std::vector<Mask> masks;
  std::vector<uint32_t> numbers;
  for (uint32_t i = 0; i < graph.masks.size(); ++i) {
    Mask found = compiled(graph.masks[i], rows_of_mask(graph, i));
    const auto known = std::ranges::find(masks, found);
    numbers.push_back(static_cast<uint32_t>(known - masks.begin()));
    if (known == masks.end()) masks.push_back(std::move(found));
  }
  graph.masks = std::move(masks);
  for (const ValueId value : graph.order()) {
    if (auto* attention = graph.as<AttentionNode>(value)) {
      attention->mask = numbers[attention->mask];
    }
  }
}

// Whether the value is a rotation of neighbours with a single reader.
bool can_change(const Graph& graph, ValueId value) {
  const RotateNode* rotate = graph.as<RotateNode>(value);
  return rotate != nullptr && rotate->rope.turns_neighbours && graph.has_one_reader(value);
}

// Permutes the columns of `value` for its only reader, in the weights if possible.
void permute(Graph& graph, ValueId value, ValueId reader, const RowOrder& order) {
  LinearNode* linear = graph.as<LinearNode>(value);
  // In a matrix quantized by the file, rows can move with their scales.
  const auto can_move = [](const LinearPart& part) {
    return !part.storage.is_taken_over || part.linear.weight.load_quantized;
  };
  if (linear != nullptr && linear->parts.size() == 1 && graph.has_one_reader(value) &&
      can_move(linear->parts[0])) {
    linear->parts[0].linear = select_rows(linear->parts[0].linear, order);
    return;
  }
  NormNode* norm = graph.as<NormNode>(value);
  if (norm != nullptr && graph.has_one_reader(value)) {
    // The order is the same within each head.
    const RowOrder of_head(order.begin(),
                           order.begin() + static_cast<ptrdiff_t>(norm->norm.gain.size()));
    norm->norm.gain = select_rows(norm->norm.gain, of_head);
    norm->norm.bias = select_rows(norm->norm.bias, of_head);
    permute(graph, graph.node(value).inputs[0], value, order);
    return;
  }
  const ValueId permuted = graph.insert_before(
      reader,
      {graph.node(reader).name + ".permute", PermuteNode{order}, {value}, graph.width(value)});
  for (ValueId& input : graph.node(reader).inputs) {
    if (input == value) input = permuted;
  }
}

// permute-rotations: replaces rotations of neighbours by rotations of halves. Queries and keys are
// permuted alike, so their products do not change. The permutation moves up through a head norm
// into the weights of the linear layer.
void permute_rotations(Graph& graph) {
  const std::vector<ValueId> order = graph.order();
  for (const ValueId value : order) {
    const AttentionNode* attention = graph.as<AttentionNode>(value);
    if (attention == nullptr || attention->head_dim == 0) continue;
    const ValueId query = graph.node(value).inputs[0];
    const ValueId key = graph.node(value).inputs[1];
    if (!can_change(graph, query) || !can_change(graph, key)) continue;
    const RopeSpec& of_query = graph.as<RotateNode>(query)->rope;
    const RopeSpec& of_key = graph.as<RotateNode>(key)->rope;
    const bool have_tables = !of_query.table.empty() && of_query.rotary_dim == of_key.rotary_dim;
    if (of_query != of_key && !have_tables) continue;
    for (const ValueId rotated : {query, key}) {
      RotateNode& rotate = *graph.as<RotateNode>(rotated);
      rotate.rope.turns_neighbours = false;
      permute(graph, graph.node(rotated).inputs[0], rotated,
              halves_of_pairs(graph.width(rotated) / rotate.head_dim, rotate.head_dim,
                              rotate.rope.rotary_dim));
    }
  }
}

// Multiplies `value` by `factor` in the weights of its node, if that has weights and no other
// reader; looks through rotations and permutations.
bool fold(Graph& graph, ValueId value, double factor) {
  if (graph.is_shown(value)) return false;
  if (LinearNode* linear = graph.as<LinearNode>(value)) {
    const auto is_taken_over = [](const LinearPart& part) { return part.storage.is_taken_over; };
    if (std::ranges::any_of(linear->parts, is_taken_over)) return false;
    for (LinearPart& part : linear->parts) part.scale *= factor;
    return true;
  }
  if (NormNode* norm = graph.as<NormNode>(value)) {
    norm->scale *= factor;
    return true;
  }
  const bool passes_on =
      graph.as<RotateNode>(value) != nullptr || graph.as<PermuteNode>(value) != nullptr;
  const ValueId input = passes_on ? graph.node(value).inputs[0] : value;
  return passes_on && graph.has_one_reader(input) && fold(graph, input, factor);
}

// Returns the attention ops whose queries are slices of `whole`; empty if it has other readers, or
// if scales differ.
std::vector<ValueId> attention_on_slices(const Graph& graph, ValueId whole, double scale) {
  std::vector<ValueId> ops;
  for (const ValueId slice : graph.readers(whole)) {
    if (graph.as<SliceNode>(slice) == nullptr || !graph.has_one_reader(slice)) return {};
    const ValueId reader = graph.readers(slice)[0];
    const AttentionNode* attention = graph.as<AttentionNode>(reader);
    if (attention == nullptr || graph.node(reader).inputs[0] != slice ||
        attention->scale != scale) {
      return {};
    }
    ops.push_back(reader);
  }
  return ops;
}

void fold_scores(Graph& graph, ValueId value) {
  AttentionNode& attention = *graph.as<AttentionNode>(value);
  if (attention.head_dim == 0 || attention.scale == 1.0) return;
  const ValueId query = graph.node(value).inputs[0];
  if (graph.as<SliceNode>(query) == nullptr) {
    if (graph.has_one_reader(query) && fold(graph, query, attention.scale)) attention.scale = 1.0;
    return;
  }
  const ValueId whole = graph.node(query).inputs[0];
  const std::vector<ValueId> ops = attention_on_slices(graph, whole, attention.scale);
  if (ops.empty() || !fold(graph, whole, attention.scale)) return;
  for (const ValueId op : ops) graph.as<AttentionNode>(op)->scale = 1.0;
}

// fold-scales: moves the scale of scores and of embedded inputs into the preceding weights or
// gains. (scale q) k^T = scale (q k^T), and a factor commutes with rotations and permutations.
void fold_scales(Graph& graph) {
  const std::vector<ValueId> order = graph.order();
  for (const ValueId value : order) {
    if (graph.as<AttentionNode>(value) != nullptr) fold_scores(graph, value);
    const ScaleNode* scale = graph.as<ScaleNode>(value);
    if (scale == nullptr || graph.is_shown(value)) continue;
    const ValueId input = graph.node(value).inputs[0];
    if (graph.has_one_reader(input) && fold(graph, input, scale->factor)) {
      graph.replace(value, input);
    }
  }
  graph.remove_unread();
}

// Returns the attention ops and products that the rows of `from` reach without passing another
// linear layer.
std::vector<ValueId> find_meetings(const Graph& graph, ValueId from) {
  std::vector<ValueId> meetings;
  std::vector<ValueId> ahead = {from};
  while (!ahead.empty()) {
    const ValueId value = ahead.back();
    ahead.pop_back();
    if (graph.as<AttentionNode>(value) != nullptr || graph.as<MultiplyNode>(value) != nullptr) {
      if (std::ranges::count(meetings, value) == 0) meetings.push_back(value);
    } else if (value == from ||
               (graph.node(value).inputs.size() == 1 && graph.as<LinearNode>(value) == nullptr)) {
      const std::vector<ValueId> readers = graph.readers(value);
      ahead.insert(ahead.end(), readers.rbegin(), readers.rend());
    }
  }
  return meetings;
}

// Joins names that differ in their last part: "0.query", "0.key", "0.value" to "0.qkv"; "0.gate",
// "0.up" to "0.gate_up". The first name determines the prefix, as the others may belong to another
// module.
std::string joined_name(const Graph& graph, const std::vector<ValueId>& values) {
  const auto own_name = [](const std::string& name) { return name.rfind('.') + 1; };
  const std::string& first = graph.node(values[0]).name;
  std::string joined;
  for (const ValueId value : values) {
    const std::string& name = graph.node(value).name;
    joined += (joined.empty() ? "" : "_") + name.substr(own_name(name));
  }
  return first.substr(0, own_name(first)) + (joined == "query_key_value" ? "qkv" : joined);
}

void join(Graph& graph, const std::vector<ValueId>& values) {
  Node joined = {joined_name(graph, values), LinearNode{}, graph.node(values[0]).inputs, 0};
  LinearNode parts;
  for (const ValueId value : values) {
    const LinearNode& linear = *graph.as<LinearNode>(value);
    parts.parts.insert(parts.parts.end(), linear.parts.begin(), linear.parts.end());
    joined.width += graph.width(value);
  }
  joined.body = std::move(parts);
  const ValueId whole = graph.insert_before(values[0], std::move(joined));
  uint32_t column = 0;
  for (const ValueId value : values) {
    Node slice = {graph.node(value).name, SliceNode{column}, {whole}, graph.width(value)};
    column += slice.width;
    graph.replace(value, graph.insert_before(value, std::move(slice)));
  }
}

// Returns the nodes from a linear layer to the query of an attention op; empty if others read a
// value in between.
std::vector<ValueId> path_of_query(const Graph& graph, ValueId attention) {
  std::vector<ValueId> path;
  const std::vector<ValueId>& inputs = graph.node(attention).inputs;
  for (ValueId value = inputs[0];; value = graph.node(value).inputs[0]) {
    // The query terms may be computed from the query.
    const bool brings_terms = value == inputs[0] && inputs.size() > 3 && value == inputs[3] &&
                              value != inputs[1] && value != inputs[2] &&
                              graph.readers(value).size() == 1;
    const bool is_own = graph.node(value).inputs.size() == 1 &&
                        (brings_terms || graph.has_one_reader(value)) &&
                        graph.axis(value) == graph.axis(attention) && !graph.is_shown(value);
    if (!is_own) return {};
    path.insert(path.begin(), value);
    if (graph.as<LinearNode>(value) != nullptr) return path;
  }
}

// Whether it is worth splitting long sequences into blocks: all keys and values are then stored
// before the first query is computed.
bool may_be_stored(const Graph& graph, ValueId value) {
  const auto* attention = graph.as<AttentionNode>(value);
  if (attention == nullptr || attention->head_dim == 0 || attention->key_terms ||
      graph.is_cross_attention(value) || convert::is_causal(graph.masks[attention->mask])) {
    return false;
  }
  const std::vector<ValueId>& inputs = graph.node(value).inputs;
  return graph.positions(graph.axis(value)) > kBlockRows && inputs[1] != inputs[2] &&
         graph.has_one_reader(inputs[1]) && graph.has_one_reader(inputs[2]);
}

// store-keys: for long sequences with attention in both directions, computes queries after all keys
// and values are stored, from a copy of their norm if only linear layers read it. Values between
// two residual sums then need only one block of rows at a time.
void store_keys(Graph& graph) {
  const std::vector<ValueId> all = graph.order();
  for (const ValueId value : all) {
    if (!may_be_stored(graph, value)) continue;
    std::vector<ValueId> path = path_of_query(graph, value);
    if (path.empty()) continue;
    graph.as<AttentionNode>(value)->is_stored = true;
    const ValueId norm = graph.node(path[0]).inputs[0];
    const auto is_linear = [&](ValueId reader) { return graph.as<LinearNode>(reader) != nullptr; };
    if (graph.as<NormNode>(norm) != nullptr && !graph.is_shown(norm) &&
        std::ranges::all_of(graph.readers(norm), is_linear)) {
      graph.node(path[0]).inputs[0] = graph.insert_before(path[0], Node(graph.node(norm)));
      path.insert(path.begin(), graph.node(path[0]).inputs[0]);
    }
    std::vector<ValueId> order = graph.order();
    std::erase_if(order, [&](ValueId other) { return std::ranges::count(path, other) != 0; });
    order.insert(std::ranges::find(order, value), path.begin(), path.end());
    graph.reorder(std::move(order));
  }
}

// join-projections: joins linear layers of one type that read the same rows and whose results meet
// in attention or a gate. Their weights are read together, and their results are adjacent.
void join_projections(Graph& graph) {
  // Groups by input, by reader and by storage.
  std::map<std::tuple<ValueId, std::vector<ValueId>, Storage>, std::vector<ValueId>> groups;
  for (const ValueId value : graph.order()) {
    const LinearNode* linear = graph.as<LinearNode>(value);
    if (linear == nullptr || graph.is_shown(value)) continue;
    const std::vector<ValueId> meetings = find_meetings(graph, value);
    if (meetings.empty()) continue;
    // If keys are stored, the query is computed later.
    const auto* attention = graph.as<AttentionNode>(meetings[0]);
    if (attention != nullptr && attention->is_stored &&
        std::ranges::count(path_of_query(graph, meetings[0]), value) != 0) {
      continue;
    }
    groups[{graph.node(value).inputs[0], meetings, linear->parts[0].storage}].push_back(value);
  }
  for (const auto& [_, values] : groups) {
    if (values.size() > 1) join(graph, values);
  }
  graph.remove_unread();
}

// Attention ops of one shape in a function share one cache, unless all are causal and the function
// takes one input. Ops that read an earlier function's keys and values keep their own.
void share_caches_in(Graph& graph, const std::vector<ValueId>& values, bool has_other_inputs) {
  std::vector<ValueId> filling;
  for (const ValueId value : values) {
    const auto* attention = graph.as<AttentionNode>(value);
    if (attention == nullptr) continue;
    if (std::ranges::count(values, value_input(graph.node(value).inputs)) != 0)
      filling.push_back(value);
  }
  const auto is_causal = [&](ValueId value) {
    return !graph.is_cross_attention(value) &&
           convert::is_causal(graph.masks[graph.as<AttentionNode>(value)->mask]);
  };
  if (!has_other_inputs && std::ranges::all_of(filling, is_causal)) return;
  // Indexed by the axis of keys and the shape.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, uint32_t> caches;
  for (const ValueId value : filling) {
    AttentionNode& attention = *graph.as<AttentionNode>(value);
    const auto shape = std::tuple(graph.axis(value_input(graph.node(value).inputs)),
                                  attention.kv_heads, attention.head_dim, attention.value_dim);
    attention.cache = caches.emplace(shape, attention.cache).first->second;
  }
}

// share-caches: if no key is kept between calls, attention ops of one shape share one cache. An op
// writes all keys and values before it reads them, so earlier contents do not matter.
void share_caches(Graph& graph) {
  for (const GraphFunction& function : functions_of(graph)) {
    share_caches_in(graph, function.values, std::popcount(function.inputs) > 1);
  }
}

// tie-embedding: stores the token embedding once if a linear layer uses it as its weights. Looking
// up a token in packed weights costs a little; a second copy of the largest tensor costs more.
void tie_embedding(Graph& graph) {
  for (const ValueId value : graph.order()) {
    EmbeddingNode* embedding = graph.as<EmbeddingNode>(value);
    if (embedding == nullptr || !embedding->tokens || embedding->tokens->name.empty()) continue;
    for (const ValueId other : graph.order()) {
      const LinearNode* linear = graph.as<LinearNode>(other);
      if (linear == nullptr || linear->parts.size() != 1 || linear->parts[0].scale != 1.0) continue;
      const WeightRef& weight = linear->parts[0].linear.weight;
      const bool same = weight.name == embedding->tokens->name &&
                        weight.rows == embedding->tokens->rows &&
                        weight.columns == embedding->tokens->columns &&
                        linear->parts[0].storage == embedding->storage;
      if (same) embedding->stored_by = other;
    }
  }
}

}  // namespace

std::span<const Pass> all_passes() {
  static constexpr Pass kPasses[] = {
      {"drop-rows", drop_rows},
      {"compile-masks", compile_masks},
      {"permute-rotations", permute_rotations},
      {"fold-scales", fold_scales},
      {"store-keys", store_keys},
      {"join-projections", join_projections},
      {"share-caches", share_caches},
      {"tie-embedding", tie_embedding},
  };
  return kPasses;
}

Graph rewrite(Graph graph, const std::vector<std::string>& without) {
  const std::span<const Pass> passes = all_passes();
  for (const std::string& name : without) {
    if (std::ranges::count(passes, name, &Pass::name) != 0) continue;
    std::vector<const char*> names;
    for (const Pass& pass : passes) names.push_back(pass.name);
    throw InputError("no pass is called {}: expected one of {}", quote(name),
                     fmt::join(names, ", "));
  }
  for (const Pass& pass : passes) {
    if (std::ranges::count(without, pass.name) == 0) pass.run(graph);
  }
  return graph;
}

}  // namespace arenite::convert
