// SPDX-License-Identifier: Apache-2.0
// The nodes that a value becomes when an op reads it.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "convert/exported/graph_builder.h"
#include "convert/exported/refusals.h"

namespace arenite::convert {
namespace {

// Of a norm without one, which no row notices: what torch.nn.functional.normalize adds, squared.
constexpr double kNormEpsilonMin = 1e-24;

// What `value`, all of one source, is made of.
ValueId node_of(const GraphBuilder& builder, const AffineRef& value) {
  const Source& source = builder.source(value->terms[0].places.at(0));
  if (source.kind == Source::Kind::kNode) return source.node;
  throw NotRecognised("it calculates with token ids, pixels or constants alone");
}

}  // namespace

AffineRef GraphBuilder::embedding(const ConstantRef& table, const AffineRef& ids) {
  const Places& places = ids->terms[0].places;
  Rows rows{0, 1, {}, sizes_.rows()};
  const size_t count = ids->elements();
  const Source::Kind kind = count == 0 ? Source::Kind::kTable : source(places.at(0)).kind;
  const bool are_types = kind == Source::Kind::kTypes;
  for (size_t i = 0; i < count; ++i) {
    const int64_t number = places.at(i);
    const bool is_id = kind == Source::Kind::kTokens || are_types;
    if (!ids->is_plain() || source(number).kind != kind || !is_id) {
      throw NotRecognised("it looks up rows by something else than the token ids as they are");
    }
    const auto token = static_cast<uint32_t>(index_of(number));
    const uint32_t sequence = token / (sizes_.tokens - sizes_.prefix);
    rows.rows.push_back(token + (sequence + 1) * sizes_.prefix);
  }
  const WeightRef weight = weight_of(program_, table, false);
  uint32_t& rows_max = are_types ? graph_.token_types : graph_.vocab_size;
  if (rows_max != 0 && rows_max != weight.rows) {
    throw NotRecognised("tokens are looked up in tables of different lengths");
  }
  rows_max = weight.rows;
  EmbeddingNode looked_up;
  (are_types ? looked_up.types : looked_up.tokens) = weight;
  const ValueId node = graph_.add_embedding(name_, std::move(looked_up), weight.columns);
  Shape shape = ids->shape;
  shape.push_back(0);
  return on_rows(rows, shape, node, weight.columns);
}

AffineRef GraphBuilder::norm(const AffineRef& given, NormSpec spec) {
  if (!(spec.epsilon >= 0.0) || !std::isfinite(static_cast<float>(spec.epsilon))) {
    throw NotRecognised("its epsilon is no small number");
  }
  spec.epsilon = std::max(spec.epsilon, kNormEpsilonMin);
  const AffineRef value = on_one_source(materialised(given));
  const Places& places = value->terms[0].places;
  const uint32_t from = source_of(places.at(0));
  const size_t width = spec.gain.size();
  // Columns side by side may be in any order, the same in each row.
  std::vector<uint32_t> order(width);
  std::vector<bool> is_there(width, false);
  for (size_t i = 0; i < width && i < value->elements(); ++i) {
    order[i] = static_cast<uint32_t>(column_of(places.at(i)).second % width);
    is_there[order[i]] = true;
  }
  if (std::ranges::count(is_there, false) > 0) order.clear();
  for (size_t i = 0, count = value->elements(); i < count; ++i) {
    const int64_t first = order.empty() ? 0 : places.at(i) - order[i % width];
    const bool in_line = !order.empty() && column_of(first).second % width == 0 &&
                         first == places.at(i - i % width) - order[0] && source_of(first) == from;
    if (!in_line)
      throw NotRecognised(
          "it normalises columns that do not stand side by side in the layer before: not "
          "supported");
  }
  const NormSpec given_spec = spec;
  for (size_t i = 0; i < width; ++i) {
    spec.gain[order[i]] = given_spec.gain[i];
    if (!spec.bias.empty()) spec.bias[order[i]] = given_spec.bias[i];
  }
  const ValueId node = graph_.add_norm(name_, spec, node_of(*this, value));
  return in_place(value, from, source_of_node(node, sources_[from].rows));
}

AffineRef GraphBuilder::normalize(const AffineRef& value, NormKind kind) {
  const Rows rows = rows_of(value);
  const ValueId node = graph_.add(name_, NormalizeNode{kind}, {rows.node});
  return on_rows(rows, value->shape, node, rows.width);
}

AffineRef GraphBuilder::activation(const AffineRef& given, ActivationNode body) {
  const AffineRef value = on_one_source(materialised(given));
  const uint32_t from = source_of(value->terms[0].places.at(0));
  const ValueId node = graph_.add(name_, body, {node_of(*this, value)});
  return in_place(value, from, source_of_node(node, sources_[from].rows));
}

AffineRef GraphBuilder::product(const AffineRef& a, const AffineRef& b) {
  const Shape shape = broadcast(a->shape, b->shape);
  AffineRef first = stretched(materialised(a), shape);
  AffineRef second = stretched(materialised(b), shape);
  const std::vector<size_t> order = columns_last({first, second});
  first = permuted(first, order);
  second = permuted(second, order);
  // Elements of one token, which may be several rows of the value.
  const Shape flat = with_whole_rows(first);
  const Rows rows = rows_of(with_shape(first, flat));
  const Rows others = rows_of(with_shape(second, flat));
  if (rows.count != others.count) throw NotRecognised(kPooledGoesBack);
  if (rows.rows != others.rows) throw NotRecognised(kMixesTokens);
  const ValueId node = graph_.add(name_, MultiplyNode{}, {rows.node, others.node});
  const AffineRef made = on_rows(rows, flat, node, rows.width);
  return permuted(with_shape(made, first->shape), inverse_order(order));
}

AffineRef GraphBuilder::pooled(const AffineRef& given, size_t axis, SelectKind kind) {
  AffineRef whole = materialised(given);
  // Those of all rows, or of all but the first ones of a prefix.
  const uint32_t tokens = static_cast<uint32_t>(whole->shape[axis]);
  const uint32_t first_row = tokens < sizes_.tokens ? sizes_.tokens - tokens : 0;
  if (first_row == 0) whole = on_one_source(whole);
  std::vector<size_t> order(whole->shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  order.erase(order.begin() + static_cast<ptrdiff_t>(axis));
  order.push_back(axis);
  const AffineRef value = permuted(whole, order);
  const std::vector<int64_t> numbers = numbers_of(*value);
  const uint32_t from = source_of(numbers.at(0));
  const uint32_t width = sources_[from].width;
  if (first_row > sizes_.prefix || tokens > sizes_.tokens || sources_[from].rows != sizes_.rows()) {
    throw NotRecognised(
        "it pools some of the tokens, or parts of their numbers: not supported, all tokens of a "
        "sequence are pooled by their mean or maximum");
  }
  const uint32_t to = selected(from, kind, first_row);
  std::vector<int64_t> made;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint32_t row = row_of(numbers[i]);
    const uint32_t column = column_of(numbers[i]).second;
    const int64_t place = number_of(to, uint64_t{row / sizes_.tokens} * width + column);
    if (i % tokens == 0) made.push_back(place);
    const bool in_order = row % sizes_.tokens == first_row + i % tokens && made.back() == place &&
                          source_of(numbers[i]) == from;
    if (!in_order) throw NotRecognised(kMixesTokens);
  }
  Shape shape = value->shape;
  shape.pop_back();
  return plain(std::move(shape), std::move(made));
}

bool GraphBuilder::is_along_tokens(const AffineRef& value, size_t axis) const {
  size_t stride = 1;
  for (size_t d = axis + 1; d < value->shape.size(); ++d) {
    stride *= static_cast<size_t>(value->shape[d]);
  }
  if (value->shape[axis] < 2) return false;
  const Places& places = value->terms[0].places;
  const bool are_numbers = places.at(0) != kNoElement && places.at(stride) != kNoElement;
  return are_numbers && row_of(places.at(0)) != row_of(places.at(stride));
}

}  // namespace arenite::convert
