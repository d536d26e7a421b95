// SPDX-License-Identifier: Apache-2.0
// Numbers of values stay when nodes come and go: only the order changes.
#include "convert/graph/graph.h"

#include <algorithm>
#include <set>
#include <utility>

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
  if (!linear.bias.empty() && linear.bias.size() != linear.weight.rows) {
    throw InputError("{}: its bias has {} numbers: expected {}", quote(name), linear.bias.size(),
                     linear.weight.rows);
  }
  return append(
      {name, LinearNode{{{.linear = linear, .layer = name}}}, {input}, linear.weight.rows});
}

ValueId Graph::add_norm(const std::string& name, const NormSpec& norm, ValueId input) {
  return add(name, NormNode{norm}, {input});
}

ValueId Graph::add_attention(const std::string& name, const AttentionNode& attention,
                             std::vector<ValueId> inputs) {
  uint32_t width = 0;
  if (__builtin_mul_overflow(attention.heads, attention.value_dim, &width)) {
    throw InputError("{}: its rows are wider than any model's", quote(name));
  }
  return append({name, attention, std::move(inputs), width});
}

ValueId Graph::add_slice(const std::string& name, ValueId input, uint32_t begin,
                         uint32_t row_width) {
  return append({name, SliceNode{begin}, {input}, row_width});
}

ValueId Graph::add_concat(const std::string& name, std::vector<ValueId> inputs) {
  uint32_t width = 0;
  for (const ValueId input : inputs) {
    if (__builtin_add_overflow(width, this->width(input), &width)) {
      throw InputError("{}: its rows are wider than any model's", quote(name));
    }
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

}  // namespace arenite::convert
