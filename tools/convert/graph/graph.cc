// SPDX-License-Identifier: Apache-2.0
// Numbers of values stay when nodes come and go: only the order changes.
#include "convert/graph/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {

ValueId Graph::insert(std::vector<ValueId>::iterator place, Node node) {
  const ValueId value = values();
  nodes_.push_back(std::move(node));
  order_.insert(place, value);
  return value;
}

ValueId Graph::add_features(uint32_t row_width) {
  return append({"features", FeaturesNode{}, {}, row_width});
}

ValueId Graph::add_embedding(const std::string& name, EmbeddingNode embedding, uint32_t row_width) {
  return append({name, std::move(embedding), {}, row_width});
}

ValueId Graph::add_linear(const std::string& name, const LinearSpec& linear, ValueId input) {
  refuse_if(!linear.bias.empty() && linear.bias.size() != linear.weight.rows,
            "{}: its bias has {} numbers: expected {}", quote(name), linear.bias.size(),
            linear.weight.rows);
  return append(
      {name, LinearNode{{{.linear = linear, .layer = name}}}, {input}, linear.weight.rows});
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

void Graph::name_layers_apart() {
  std::set<std::string> taken;
  for (const ValueId value : order_) taken.insert(node(value).name);
  std::set<std::string> given;
  for (const ValueId value : order_) {
    auto* const linear = as<LinearNode>(value);
    if (linear == nullptr && as<EmbeddingNode>(value) == nullptr) continue;
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

// ---- terms of attention ----

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

TermTable first_positions(const TermTable& table, uint32_t positions) {
  TermTable part = {table.by, table.heads, positions, {}};
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

// ---- the graph as text ----

namespace {

// What an op is and what it is told, in words.
struct Line {
  std::string op;
  std::string details;
};

std::string text_of(const WeightRef& weight) {
  return fmt::format("{} [{}, {}]", weight.name, weight.rows, weight.columns);
}

std::string factor(double scale) { return scale == 1.0 ? "" : fmt::format(" * {:.6g}", scale); }

Line line_of(const FeaturesNode& features, const Graph&) {
  if (const auto& cut = features.patches) {
    return {"patches", fmt::format("[{}, {}, {}] of [{}, {}, {}]", cut->channels, cut->patch_height,
                                   cut->patch_width, cut->channels, cut->height, cut->width)};
  }
  return {"features", ""};
}

Line line_of(const EmbeddingNode& embedding, const Graph&) {
  std::vector<std::string> parts;
  if (embedding.tokens) {
    parts.push_back("tokens " + text_of(*embedding.tokens) + factor(embedding.scale));
  }
  if (embedding.positions) parts.push_back("positions " + text_of(*embedding.positions));
  if (embedding.types) parts.push_back("types " + text_of(*embedding.types));
  std::string text = fmt::format("{}", fmt::join(parts, " + "));
  if (embedding.stored_by) text += fmt::format(", stored by %{}", *embedding.stored_by);
  return {"embedding", text};
}

Line line_of(const LinearNode& linear, const Graph&) {
  std::vector<std::string> parts;
  for (const LinearPart& part : linear.parts) {
    parts.push_back(text_of(part.linear.weight) + (part.linear.bias.empty() ? "" : " + bias") +
                    factor(part.scale));
  }
  return {"linear", fmt::format("{}", fmt::join(parts, " | "))};
}

Line line_of(const NormNode& norm, const Graph&) {
  return {
      fmt::format("{}_norm", name(norm.norm.kind)),
      fmt::format("{} [{}]{}, epsilon {:.3g}{}", norm.norm.name, norm.norm.gain.size(),
                  norm.norm.gain_plus_one ? " + 1" : "", norm.norm.epsilon, factor(norm.scale))};
}

Line line_of(const RowFunctionNode& normalize, const Graph&) {
  return {normalize.kind == NormKind::kLength ? "normalize" : name(normalize.kind), ""};
}

Line line_of(const RotateNode& rotate, const Graph&) {
  return {"rotate", fmt::format("{} of {}, {}", rotate.rope.rotary_dim, rotate.head_dim,
                                rotate.rope.turns_neighbours ? "neighbours" : "halves")};
}

Line line_of(const PermuteNode&, const Graph&) { return {"permute", ""}; }
Line line_of(const ScaleNode& scale, const Graph&) {
  return {"scale", fmt::format("{:.6g}", scale.factor)};
}

Line line_of(const ActivationNode& activation, const Graph&) {
  const bool has_parameter = activation.parameter != 0.0;
  return {name(activation.activation),
          has_parameter ? fmt::format("{:.6g}", activation.parameter) : ""};
}

Line line_of(const AddNode&, const Graph&) { return {"add", ""}; }
Line line_of(const MultiplyNode&, const Graph&) { return {"multiply", ""}; }

Line line_of(const AttentionNode& attention, const Graph& graph) {
  std::string heads = fmt::format("{}", attention.heads);
  if (attention.kv_heads != attention.heads) heads += fmt::format(" on {}", attention.kv_heads);
  std::string scores = attention.slopes.empty() ? "" : ", slopes";
  if (attention.score_cap != 0.0) scores += fmt::format(", soft cap {:.6g}", attention.score_cap);
  if (attention.terms) {
    scores += fmt::format(", terms by {} of {} positions", name(attention.terms->by),
                          attention.terms->positions);
  }
  return {"attention", fmt::format("{} heads of {}{}, {}{}, cache {}", heads, attention.value_dim,
                                   factor(attention.scale), describe(graph.masks[attention.mask]),
                                   scores, attention.cache)};
}

Line line_of(const SelectNode& rows, const Graph&) {
  return {"rows", rows.first_row == 0
                      ? std::string(name(rows.kind))
                      : fmt::format("{} from row {}", name(rows.kind), rows.first_row)};
}

Line line_of(const PrefixNode& prefix, const Graph&) {
  return {"prefix", fmt::format("{}, row {} on", text_of(prefix.rows), prefix.first_row)};
}

Line line_of(const SliceNode& slice, const Graph&) {
  return {"slice", fmt::format("from column {}", slice.begin)};
}

Line line_of(const ConcatNode&, const Graph&) { return {"concat", ""}; }

}  // namespace

std::string print_graph(const Graph& graph) {
  std::string text;
  for (const ValueId value : graph.order()) {
    const Node& node = graph.node(value);
    const Line line = std::visit([&](const auto& body) { return line_of(body, graph); }, node.body);
    std::vector<std::string> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(fmt::format("%{}", input));
    std::string mark;
    if (std::ranges::count(graph.hidden_states, value) != 0) mark = "  (hidden state)";
    if (value == graph.output) mark += "  (output)";
    text += fmt::format("%{:<4} {:<20} {:>6}  {:<11} {:<16} {}{}\n", value, node.name, node.width,
                        line.op, fmt::format("{}", fmt::join(inputs, " ")), line.details, mark);
  }
  return text;
}

}  // namespace arenite::convert
