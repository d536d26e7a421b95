// SPDX-License-Identifier: Apache-2.0
// Values that are another one times constants: functions are of that one, and linear layers take
// the constants into their weights.
#include <algorithm>
#include <utility>

#include "convert/exported/graph_builder.h"

namespace arenite::convert {
namespace {

// What each element of `value` is times that of `base`; empty where it is no multiple.
std::vector<double> ratios_of(const Affine& value, const Affine& base) {
  if (value.shape != base.shape || value.terms.size() != base.terms.size()) return {};
  std::vector<double> ratios;
  for (size_t t = 0; t < value.terms.size(); ++t) {
    const Term& term = value.terms[t];
    const Term& other = base.terms[t];
    const bool same_places =
        term.places.numbers == other.places.numbers && term.places.source == other.places.source;
    if (!same_places) return {};
    const bool is_even = !term.factors.each && !other.factors.each;
    for (size_t i = 0, count = is_even ? 1 : value.elements(); i < count; ++i) {
      if (other.factors.at(i) == 0.0) return {};
      const double ratio = term.factors.at(i) / other.factors.at(i);
      if (t == 0) ratios.push_back(ratio);
      if (ratios[ratios.size() == 1 ? 0 : i] != ratio) return {};
    }
    if (is_even && ratios.size() > 1) return {};
  }
  return ratios;
}

Array factor_of(const Affine& value, std::vector<double> ratios) {
  Shape shape = ratios.size() == 1 ? Shape() : value.shape;
  return Array::real(std::move(shape), std::move(ratios));
}

}  // namespace

std::optional<GraphBuilder::Multiple> GraphBuilder::multiple_of_node(const AffineRef& value) const {
  if (value->is_plain() || value->elements() == 0) return std::nullopt;
  for (const auto& [known, made] : materialised_) {
    std::vector<double> ratios = ratios_of(*value, *known);
    if (ratios.size() == 1 && ratios[0] == 1.0) return std::nullopt;
    if (!ratios.empty()) return Multiple{made, factor_of(*value, std::move(ratios))};
  }
  if (value->terms.size() != 1) return std::nullopt;
  const Affine bare = {value->shape, {Term{value->terms[0].places, {}}}};
  std::vector<double> ratios = ratios_of(*value, bare);
  return Multiple{make_affine(bare), factor_of(*value, std::move(ratios))};
}

std::optional<GraphBuilder::FoldedInput> GraphBuilder::folded_input(const AffineRef& value) const {
  auto folded = columns_of_node(value);
  if (!folded) return std::nullopt;
  // One factor goes with the node, and a layer that was made before takes in what follows it.
  const Places& places = folded->value->terms[0].places;
  const bool is_one_factor = value->terms.size() == 1 && !value->terms[0].factors.each;
  const ValueId node = source(places.at(0)).node;
  if (is_one_factor || graph_.as<LinearNode>(node) || graph_.as<EmbeddingNode>(node)) {
    return std::nullopt;
  }
  return folded;
}

std::optional<GraphBuilder::FoldedInput> GraphBuilder::columns_of_node(
    const AffineRef& value) const {
  if (value->is_plain() || value->shape.empty() || value->elements() == 0) return std::nullopt;
  const auto width = static_cast<size_t>(value->shape.back());
  const size_t count = value->elements();
  FoldedInput folded;
  const Term* of_model = nullptr;
  folded.offsets.assign(width, 0.0);
  for (const Term& term : value->terms) {
    const int64_t number = term.places.at(0);
    if (number == kNoElement) return std::nullopt;
    const Source::Kind kind = source(number).kind;
    if (kind == Source::Kind::kNode && of_model == nullptr) {
      of_model = &term;
      continue;
    }
    if (kind != Source::Kind::kTable) return std::nullopt;
    // A row of constants, the same for all tokens.
    const Array::Reals constants = source(number).table->array().to_reals();
    const auto offset = [&](size_t i) {
      return term.factors.at(i) * constants[static_cast<size_t>(index_of(term.places.at(i)))];
    };
    for (size_t i = 0; i < count; ++i) {
      const int64_t at = term.places.at(i);
      if (at == kNoElement || source_of(at) != source_of(number)) return std::nullopt;
      if (offset(i) != offset(i % width)) return std::nullopt;
    }
    for (size_t c = 0; c < width; ++c) folded.offsets[c] += offset(c);
  }
  if (of_model == nullptr) return std::nullopt;
  for (size_t c = 0; c < width; ++c) folded.factors.push_back(of_model->factors.at(c));
  for (size_t i = 0; i < count; ++i) {
    const int64_t at = of_model->places.at(i);
    if (at == kNoElement || source(at).kind != Source::Kind::kNode) return std::nullopt;
    if (of_model->factors.at(i) != folded.factors[i % width]) return std::nullopt;
  }
  folded.value = make_affine({value->shape, {Term{of_model->places, {}}}});
  return folded;
}

bool GraphBuilder::has_factors_of_heads(const AffineRef& value) const {
  if (value->terms.size() != 1 || !value->terms[0].factors.each) return false;
  if (value->elements() == 0 || columns_of_node(value)) return false;
  std::map<Column, double> factors;
  for (size_t i = 0, count = value->elements(); i < count; ++i) {
    const int64_t number = value->terms[0].places.at(i);
    if (number == kNoElement || source(number).kind != Source::Kind::kNode) return false;
    const double factor = value->terms[0].factors.at(i);
    if (factors.emplace(column_of(number), factor).first->second != factor) return false;
  }
  return true;
}

// W (factors x + offsets) + b
AffineRef GraphBuilder::linear(const AffineRef& given, const WeightRef& given_weight,
                               std::vector<double> bias) {
  const auto folded = folded_input(given);
  std::vector<uint32_t> order;
  const Rows rows = folded ? rows_of(folded->value) : rows_of(given, &order);
  if (rows.width != given_weight.columns) throw NotRecognised("its weight has another width");
  WeightRef weight = order.empty() ? given_weight : with_columns(given_weight, order);
  if (folded) {
    const std::vector<double> values = given_weight.exact();
    bias.resize(weight.rows, 0.0);
    for (size_t i = 0; i < values.size(); ++i) {
      bias[i / weight.columns] += values[i] * folded->offsets[i % weight.columns];
    }
    weight.load_f64 = [given_weight, factors = folded->factors] {
      std::vector<double> scaled = given_weight.exact();
      for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= factors[i % factors.size()];
      return scaled;
    };
    weight.load = [exact = weight.load_f64] {
      const std::vector<double> scaled = exact();
      return std::vector<float>(scaled.begin(), scaled.end());
    };
    weight.name = name_;
  }
  const ValueId node = graph_.add_linear(name_, {weight, std::move(bias)}, rows.node);
  return on_rows(rows, given->shape, node, weight.rows);
}

}  // namespace arenite::convert
