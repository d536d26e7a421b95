// SPDX-License-Identifier: Apache-2.0
// Recognises rotary position embeddings (RoPE) by their factors: an element is multiplied by the
// cosine of an angle, and its partner column by the sine, times a magnitude.
//
//   x * cos + rotate_half(x) * sin     ->  rotate(x), pairs (i, i + dim / 2)
//   view_as_complex(x) * polar(1, a)   ->  rotate(x), pairs (2 i, 2 i + 1)
//   angles proportional to position    ->  inverse frequencies; other angles: a table

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <span>

#include "convert/exported/recover/graph_builder.h"
#include "convert/exported/recover/sums.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

// The tolerance covers cosines that were rounded to float32.
constexpr double kFactorError = 4e-7;
constexpr double kAngleError = 2.4e-7;

// Replaces frequencies by base^(-2i/d) if all are close to it for one integer base.
void round_to_base(std::vector<double>& frequencies, double error) {
  const size_t count = frequencies.size();
  if (count < 2 || std::fabs(frequencies[0] - 1.0) > error) return;
  const double exponent = -static_cast<double>(count) / static_cast<double>(count - 1);
  const double last = frequencies[count - 1];
  if (!(last > 0.0)) return;
  const double base = std::round(std::pow(last, exponent));
  std::vector<double> exact(count);
  for (size_t i = 0; i < count; ++i) {
    exact[i] = std::pow(base, -static_cast<double>(i) / static_cast<double>(count));
    if (std::fabs(exact[i] - frequencies[i]) > error) return;
  }
  frequencies = std::move(exact);
}

// A rotated element of the value: the factors of its own column, and of its partner column.
struct RotatedElement {
  size_t first = 0;  // index of the element at token 0
  uint32_t column = 0;
  std::optional<uint32_t> partner{};
  double magnitude = 1.0;
  std::vector<double> own, other;  // factors of `column` and `partner`, [positions]

  // Returns the angle per position; nullopt if angles are not proportional to the position. Each
  // later position refines the estimate.
  std::optional<double> frequency() const {
    const auto angle_of = [&](size_t t) { return std::atan2(other[t], own[t]); };
    double frequency = angle_of(1);
    for (size_t t = 2; t < own.size(); ++t) {
      const double expected = frequency * static_cast<double>(t);
      const double turns = std::round((expected - angle_of(t)) / (2.0 * std::numbers::pi));
      frequency = (angle_of(t) + 2.0 * std::numbers::pi * turns) / static_cast<double>(t);
    }
    for (size_t t = 0; t < own.size(); ++t) {
      const double angle = frequency * static_cast<double>(t);
      const double difference = std::max(std::fabs(own[t] - magnitude * std::cos(angle)),
                                         std::fabs(other[t] - magnitude * std::sin(angle)));
      // Angles in float32 have an error in proportion to the angle.
      const double error_max = (kFactorError + kAngleError * std::fabs(angle)) * magnitude;
      if (difference > error_max) return std::nullopt;
    }
    return frequency;
  }
};

// The rotation of a head. `order` permutes the columns of the head first, unless it is empty.
struct HeadRotation {
  RopeSpec rope;
  std::vector<uint32_t> order;
};

class RotationFinder {
 public:
  RotationFinder(GraphBuilder& builder, const LinearExpr& value)
      : builder_(builder), value_(value) {}

  std::optional<LinearExprRef> find() {
    if (!value_.has_own_factors() || value_.terms.size() < 2 || value_.shape.size() < 2 ||
        !read_elements()) {
      return std::nullopt;
    }
    const std::vector<Group> groups = groups_of_heads();
    if (groups.empty()) return std::nullopt;
    return rotated(groups);
  }

 private:
  // Finds the dimension that steps through the tokens, among all but the last.
  bool find_axis() {
    const int64_t tokens = builder_.sizes.tokens;
    const Shape strides = strides_of(value_.shape);
    for (size_t d = value_.shape.size() - 1; d-- > 0;) {
      stride_ = static_cast<size_t>(strides[d]);
      block_ = stride_ * static_cast<size_t>(value_.shape[d]);
      const bool is_tokens =
          value_.shape[d] == tokens && tokens > 1 &&
          builder_.row_of(value_.at(stride_)) == builder_.row_of(value_.at(0)) + 1;
      if (is_tokens) return true;
    }
    return false;
  }

  bool read_elements() {
    if (!builder_.is_node(value_.at(0))) return false;
    producer_ = producer_of(value_.at(0));
    const Producer& from = builder_.producer_at(producer_);
    const bool is_of_tokens =
        from.kind == Producer::Kind::kNode && from.rows == builder_.sizes.rows();
    if (!is_of_tokens || !find_axis()) return false;
    head_dim_ = static_cast<uint32_t>(value_.shape.back());
    for (size_t i = 0, count = value_.elements(); i < count; ++i) {
      if (i % block_ >= stride_) continue;  // another token
      if (producer_of(value_.at(i)) != producer_) return false;
      if (builder_.row_of(value_.at(i)) != 0) continue;  // another sequence
      auto element = read_element(i);
      if (!element) return false;
      elements_.push_back(std::move(*element));
    }
    return std::ranges::any_of(
        elements_, [](const RotatedElement& element) { return element.partner.has_value(); });
  }

  std::optional<RotatedElement> read_element(size_t first) const {
    const uint32_t tokens = builder_.sizes.tokens;
    RotatedElement element{.first = first, .own{}, .other{}};
    element.own.assign(tokens, 0.0);
    element.other.assign(tokens, 0.0);
    bool has_own = false;
    for (uint32_t t = 0; t < tokens; ++t) {
      for (const Term& term : value_.terms) {
        const double factor = term.factors.at(first + t * stride_);
        const int64_t number = term.places.at(first + t * stride_);
        if (number == kNoElement || factor == 0.0) continue;
        if (producer_of(number) != producer_ || builder_.row_of(number) % tokens != t)
          return std::nullopt;
        const uint32_t column = builder_.column_of(number).second;
        if (!std::exchange(has_own, true)) element.column = column;
        if (column == element.column) {
          element.own[t] += factor;
        } else if (element.partner.value_or(column) == column) {
          element.partner = column;
          element.other[t] += factor;
        } else {
          return std::nullopt;
        }
      }
    }
    element.magnitude = element.own[0];
    if (!has_own) return std::nullopt;
    return element;
  }

  // A single element does not show which column is its own and which its partner's. The pair does,
  // as its two elements rotate in opposite directions.
  static bool rotate_as_pair(const RotatedElement& a, const RotatedElement& b) {
    for (size_t t = 0; t < a.own.size(); ++t) {
      const double error_max = kFactorError * std::hypot(a.own[t], a.other[t]);
      if (std::fabs(a.own[t] - b.own[t]) > error_max ||
          std::fabs(a.other[t] + b.other[t]) > error_max) {
        return false;
      }
    }
    return true;
  }

  static void swap_columns(RotatedElement& element) {
    element.partner = std::exchange(element.column, *element.partner);
    std::swap(element.own, element.other);
    element.magnitude = element.own[0];
  }

  void settle_columns(std::span<RotatedElement> head) const {
    std::map<uint32_t, RotatedElement*> by_column;
    for (RotatedElement& element : head) {
      const auto [known, is_new] = by_column.try_emplace(element.column, &element);
      if (is_new || !element.partner || element.partner != known->second->partner) continue;
      RotatedElement& first = *known->second;
      swap_columns(element);
      if (!rotate_as_pair(first, element)) {
        swap_columns(element);
        swap_columns(first);
      }
    }
  }

  // Returns the elements of a head by column, and the first column in `start`; empty unless the
  // columns are contiguous.
  std::vector<const RotatedElement*> columns_of_head(size_t head, uint32_t& start) const {
    start = UINT32_MAX;
    for (uint32_t j = 0; j < head_dim_; ++j) {
      start = std::min(start, elements_[head * head_dim_ + j].column);
    }
    std::vector<const RotatedElement*> by_column(head_dim_, nullptr);
    for (uint32_t j = 0; j < head_dim_; ++j) {
      const RotatedElement& element = elements_[head * head_dim_ + j];
      const uint32_t column = element.column - start;
      if (column >= head_dim_ || by_column[column] != nullptr) return {};
      by_column[column] = &element;
    }
    return by_column;
  }

  // Matches pairs of adjacent columns, or of the two halves, with angles proportional to the
  // position and one magnitude; nullopt for other pairs.
  std::optional<HeadRotation> even_rotation(std::span<const RotatedElement* const> by_column,
                                            uint32_t start) const {
    uint32_t last = 0;
    uint32_t distance = 0;
    for (uint32_t j = 0; j < head_dim_; ++j) {
      const RotatedElement& element = *by_column[j];
      if (element.other[0] != 0.0 || !(element.magnitude > 0.0)) return std::nullopt;
      if (!element.partner) continue;
      last = j;
      const uint32_t partner = *element.partner - start;
      if (distance == 0) distance = partner - j;
      const bool is_pair =
          distance == 1 ? (partner ^ 1u) == j : partner == j + distance || partner + distance == j;
      if (!is_pair) return std::nullopt;
    }
    RopeSpec rope;
    rope.turns_neighbours = distance == 1 && last != 1;
    rope.rotary_dim = rope.turns_neighbours ? (last | 1u) + 1 : 2 * distance;
    if (rope.rotary_dim > head_dim_ || last >= rope.rotary_dim) return std::nullopt;
    rope.magnitude = by_column[0]->magnitude;
    for (uint32_t i = 0; i < rope.rotary_dim / 2; ++i) {
      const uint32_t first = rope.turns_neighbours ? 2 * i : i;
      const uint32_t second = rope.turns_neighbours ? 2 * i + 1 : i + distance;
      const auto frequency = by_column[second]->frequency();
      const auto opposite = by_column[first]->frequency();
      if (!frequency || !opposite) return std::nullopt;
      if (std::fabs(*frequency + *opposite) > kFactorError) return std::nullopt;
      rope.inverse_frequencies.push_back(*frequency);
    }
    for (uint32_t j = 0; j < head_dim_; ++j) {
      const RotatedElement& element = *by_column[j];
      const double expected = j < rope.rotary_dim ? rope.magnitude : 1.0;
      if (std::fabs(element.magnitude - expected) > kFactorError) return std::nullopt;
      // Columns without a partner must keep their factor; pairs were checked above.
      if (!element.partner && !element.frequency()) return std::nullopt;
    }
    round_to_base(rope.inverse_frequencies,
                  2.0 * kFactorError / static_cast<double>(builder_.sizes.tokens - 1));
    return HeadRotation{rope, {}};
  }

  // Matches other pairs by a table of factors at each position; nullopt if some columns form no
  // pairs.
  std::optional<HeadRotation> rotation_by_table(std::span<const RotatedElement* const> by_column,
                                                uint32_t start) const {
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    std::vector<uint32_t> single;  // multiplied without a partner
    for (uint32_t j = 0; j < head_dim_; ++j) {
      if (!by_column[j]->partner) {
        single.push_back(j);
        continue;
      }
      const uint32_t partner = *by_column[j]->partner - start;
      if (partner >= head_dim_ || by_column[partner]->partner != start + j ||
          !rotate_as_pair(*by_column[j], *by_column[partner])) {
        return std::nullopt;
      }
      if (partner > j) pairs.emplace_back(j, partner);
    }
    std::vector<uint32_t> rest;
    for (const uint32_t j : single) {
      const auto is_one = [](double factor) { return std::fabs(factor - 1.0) <= kFactorError; };
      if (std::ranges::all_of(by_column[j]->own, is_one)) rest.push_back(j);
    }
    std::erase_if(single, [&](uint32_t j) { return std::ranges::count(rest, j) != 0; });
    if (single.size() % 2 != 0) return std::nullopt;
    for (size_t i = 0; i < single.size(); i += 2) {
      if (!rotate_as_pair(*by_column[single[i]], *by_column[single[i + 1]])) return std::nullopt;
      pairs.emplace_back(single[i], single[i + 1]);
    }
    HeadRotation made;
    RopeSpec& rope = made.rope;
    rope.rotary_dim = static_cast<uint32_t>(2 * pairs.size());
    bool are_neighbours = rope.rotary_dim > 2;
    for (size_t i = 0; i < pairs.size(); ++i) {
      are_neighbours = are_neighbours && pairs[i].first == 2 * i && pairs[i].second == 2 * i + 1;
    }
    rope.turns_neighbours = are_neighbours;
    for (uint32_t t = 0; t < builder_.sizes.tokens; ++t) {
      for (const auto& pair : pairs) rope.table.push_back(by_column[pair.second]->own[t]);
      for (const auto& pair : pairs) rope.table.push_back(by_column[pair.second]->other[t]);
    }
    const auto first_row = rope.table.begin();
    const auto rotary_dim = static_cast<ptrdiff_t>(rope.rotary_dim);
    bool is_one = true;  // factors do not depend on the position, so this is no rotation
    for (auto row = first_row; row != rope.table.end() && is_one; row += rotary_dim) {
      is_one = std::equal(row, row + rotary_dim, first_row);
    }
    if (is_one) return std::nullopt;
    if (are_neighbours) return made;
    for (const auto& pair : pairs) made.order.push_back(pair.first);
    for (const auto& pair : pairs) made.order.push_back(pair.second);
    made.order.insert(made.order.end(), rest.begin(), rest.end());
    if (std::ranges::is_sorted(made.order)) made.order.clear();
    return made;
  }

  std::optional<HeadRotation> rotation_of_head(size_t head, uint32_t& start) {
    settle_columns(std::span(elements_).subspan(head * head_dim_, head_dim_));
    const std::vector<const RotatedElement*> by_column = columns_of_head(head, start);
    if (by_column.empty()) return std::nullopt;
    auto rotation = even_rotation(by_column, start);
    return rotation ? rotation : rotation_by_table(by_column, start);
  }

  static bool is_same(const HeadRotation& a, const HeadRotation& b) {
    const auto are_near = [](double x, double y) { return std::fabs(x - y) <= kFactorError; };
    return a.rope.rotary_dim == b.rope.rotary_dim && a.order == b.order &&
           a.rope.turns_neighbours == b.rope.turns_neighbours &&
           std::ranges::equal(a.rope.inverse_frequencies, b.rope.inverse_frequencies, are_near) &&
           std::ranges::equal(a.rope.table, b.rope.table, are_near);
  }

  // Permutes the columns of each head of a node by `order`.
  ValueId ordered(ValueId node, const std::vector<uint32_t>& order) {
    if (order.empty()) return node;
    Graph& graph = builder_.graph;
    std::vector<uint32_t> columns;
    for (uint32_t head = 0; head < graph.width(node); head += head_dim_) {
      for (const uint32_t column : order) columns.push_back(head + column);
    }
    const auto* slice = graph.as<SliceNode>(node);
    const ValueId whole = slice != nullptr ? graph.node(node).inputs[0] : node;
    const auto* linear = graph.as<LinearNode>(whole);
    if (linear == nullptr)
      return graph.add(builder_.name + ".permute", PermuteNode{columns}, {node});
    RowOrder rows(columns.begin(), columns.end());
    for (auto& row : rows) row += slice != nullptr ? slice->begin : 0;
    const LinearSpec layer = select_rows(linear->parts[0].linear, rows);
    return graph.add_linear(graph.node(whole).name, layer, graph.node(whole).inputs[0]);
  }

  // Heads with equal rotations, which share a node.
  struct Group {
    HeadRotation rotation;
    std::vector<Column> columns;
    uint32_t producer = 0;  // the node
  };

  // Groups the heads by their rotation, and adds a node for each group. Empty if some head is not
  // rotated.
  std::vector<Group> groups_of_heads() {
    std::vector<Group> groups;
    uint32_t start = 0;
    for (size_t head = 0; head < elements_.size() / head_dim_; ++head) {
      auto rotation = rotation_of_head(head, start);
      if (!rotation) return {};
      auto group = std::ranges::find_if(
          groups, [&](const Group& known) { return is_same(known.rotation, *rotation); });
      if (group == groups.end()) {
        groups.push_back({std::move(*rotation), {}});
        group = groups.end() - 1;
      }
      // A key head may be repeated for several query heads.
      if (std::ranges::count(group->columns, Column{producer_, start}) != 0) continue;
      for (uint32_t j = 0; j < head_dim_; ++j) group->columns.push_back({producer_, start + j});
    }
    for (Group& group : groups) {
      const ValueId input = ordered(builder_.gather(group.columns), group.rotation.order);
      const ValueId node =
          builder_.graph.add(builder_.name, RotateNode{group.rotation.rope, head_dim_}, {input});
      group.producer = builder_.producer_of_node(node, builder_.sizes.rows());
    }
    return groups;
  }

  // Maps each column of the producer to the id of its rotated element in row 0.
  std::map<uint32_t, int64_t> places_of_columns(const std::vector<Group>& groups) const {
    std::map<uint32_t, int64_t> places;
    for (const Group& group : groups) {
      const std::vector<uint32_t>& order = group.rotation.order;
      for (size_t c = 0; c < group.columns.size(); ++c) {
        const size_t first = c - c % head_dim_;
        const size_t from = order.empty() ? c : first + order[c - first];
        places.emplace(group.columns[from].second, element_id(group.producer, c));
      }
    }
    return places;
  }

  // Returns the rotated value; nullopt if sequences rotate differently.
  std::optional<LinearExprRef> rotated(const std::vector<Group>& groups) const {
    const std::map<uint32_t, int64_t> places = places_of_columns(groups);
    std::map<size_t, int64_t> place_of_first;
    for (const RotatedElement& element : elements_) {
      place_of_first[element.first] = places.at(element.column);
    }
    std::vector<int64_t> element_ids;
    const size_t per_sequence = value_.elements() / builder_.sizes.sequences;
    for (size_t i = 0, count = value_.elements(); i < count; ++i) {
      const uint32_t row = builder_.row_of(value_.at(i));
      size_t first = i - i % block_ / stride_ * stride_;
      if (!place_of_first.contains(first)) first %= per_sequence;
      const auto known = place_of_first.find(first);
      if (known == place_of_first.end()) return std::nullopt;
      element_ids.push_back(known->second + int64_t{row} * builder_.producer(known->second).width);
    }
    return plain(value_.shape, std::move(element_ids));
  }

  GraphBuilder& builder_;
  const LinearExpr& value_;
  size_t stride_ = 0;  // from token to token
  size_t block_ = 0;   // of all tokens
  uint32_t producer_ = 0;
  uint32_t head_dim_ = 0;
  std::vector<RotatedElement> elements_;  // of token 0 of the first sequence
};

}  // namespace

std::optional<LinearExprRef> find_rotation(GraphBuilder& builder, const LinearExpr& value) {
  return RotationFinder(builder, value).find();
}

LinearExprRef rotated_or_same(GraphBuilder& builder, const LinearExprRef& value) {
  if (value->elements() == 0) return value;
  return find_rotation(builder, *value).value_or(value);
}

}  // namespace arenite::convert
