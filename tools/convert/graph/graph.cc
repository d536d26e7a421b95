// SPDX-License-Identifier: Apache-2.0
// Numbers of values stay when nodes come and go: only the order changes.
#include "convert/graph/graph.h"

#include <algorithm>
#include <set>
#include <utility>

namespace arenite::convert {

ValueId Graph::insert(std::vector<ValueId>::iterator place, Node node) {
  const ValueId value = values();
  nodes_.push_back(std::move(node));
  order_.insert(place, value);
  return value;
}

ValueId Graph::add(Node node) { return insert(order_.end(), std::move(node)); }

ValueId Graph::insert_before(ValueId place, Node node) {
  return insert(std::ranges::find(order_, place), std::move(node));
}

ValueId Graph::insert_after(ValueId place, Node node) {
  return insert(std::ranges::find(order_, place) + 1, std::move(node));
}

uint32_t Graph::add_mask(CompiledMask mask) {
  masks.push_back(std::move(mask));
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
  return readers(value).size() == 1 && !is_shown(value);
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

}  // namespace arenite::convert
