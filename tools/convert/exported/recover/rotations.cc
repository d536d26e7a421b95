// SPDX-License-Identifier: Apache-2.0
// A rotation is known by its factors: at position 0 each element is itself, and at others it and
// its partner have the cosine and the sine of an angle that grows with the position.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "convert/exported/recover/refusals.h"
#include "convert/exported/recover/sums.h"

namespace arenite::convert {
namespace {

// Tables of cosines may have been rounded to float32.
constexpr double kFactorError = 4e-7;
constexpr double kAngleError = 2.4e-7;

// Where f of all tables is base^(-2i/d) of a whole base, it was meant to be exactly that.
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

}  // namespace

bool RotationFinder::find_axis() {
  const uint32_t tokens = builder_.sizes_.tokens;
  size_t stride = 1;
  for (size_t d = value_.shape.size(); d-- > 0;) {
    const bool is_tokens = d + 1 < value_.shape.size() && value_.shape[d] == tokens && tokens > 1 &&
                           builder_.row_of(value_.terms[0].places.at(stride)) ==
                               builder_.row_of(value_.terms[0].places.at(0)) + 1;
    if (is_tokens) {
      axis_ = d;
      stride_ = stride;
      return true;
    }
    stride *= static_cast<size_t>(value_.shape[d]);
  }
  return false;
}

bool RotationFinder::read_element(size_t first, Element& element) {
  const uint32_t tokens = builder_.sizes_.tokens;
  element.own.assign(tokens, 0.0);
  element.other.assign(tokens, 0.0);
  bool has_own = false;
  for (uint32_t t = 0; t < tokens; ++t) {
    const size_t i = first + t * stride_;
    for (const Term& term : value_.terms) {
      const double factor = term.factors.at(i);
      const int64_t number = term.places.at(i);
      if (number == kNoElement || factor == 0.0) continue;
      const uint32_t column = builder_.column_of(number).second;
      if (source_of(number) != source_ || builder_.row_of(number) % tokens != t) return false;
      if (!has_own) {
        element.column = column;
        has_own = true;
      }
      if (column == element.column) {
        element.own[t] += factor;
        continue;
      }
      if (element.has_partner && element.partner != column) return false;
      element.partner = column;
      element.has_partner = true;
      element.other[t] += factor;
    }
  }
  element.magnitude = element.own[0];
  return has_own && element.other[0] == 0.0 && element.magnitude > 0.0;
}

bool RotationFinder::read_elements() {
  const int64_t number = value_.terms[0].places.at(0);
  if (number == kNoElement || builder_.source(number).kind != Source::Kind::kNode) return false;
  source_ = source_of(number);
  if (builder_.sources_[source_].rows != builder_.sizes_.rows() || !find_axis()) return false;
  head_dim_ = static_cast<uint32_t>(value_.shape.back());
  const auto block = stride_ * static_cast<size_t>(value_.shape[axis_]);
  for (size_t i = 0, count = value_.elements(); i < count; ++i) {
    const int64_t at = value_.terms[0].places.at(i);
    if (i % block >= stride_) continue;  // another token
    if (at == kNoElement || source_of(at) != source_) return false;
    if (builder_.row_of(at) != 0) continue;  // another sequence
    Element element;
    if (!read_element(i, element)) return false;
    firsts_.push_back(i);
    elements_.push_back(std::move(element));
  }
  return std::ranges::any_of(elements_, [](const Element& element) { return element.has_partner; });
}

// The angle per position, which each later position makes more exact.
void RotationFinder::read_frequency(const Element& element, double& frequency) const {
  const uint32_t tokens = builder_.sizes_.tokens;
  const auto angle_of = [&](size_t t) { return std::atan2(element.other[t], element.own[t]); };
  frequency = angle_of(1);
  for (size_t t = 2; t < tokens; ++t) {
    const double expected = frequency * static_cast<double>(t);
    const double turns = std::round((expected - angle_of(t)) / (2.0 * std::numbers::pi));
    frequency = (angle_of(t) + 2.0 * std::numbers::pi * turns) / static_cast<double>(t);
  }
  for (size_t t = 0; t < tokens; ++t) {
    const double angle = frequency * static_cast<double>(t);
    const double difference =
        std::max(std::fabs(element.own[t] - element.magnitude * std::cos(angle)),
                 std::fabs(element.other[t] - element.magnitude * std::sin(angle)));
    // Angles may have been float32, too, which is off in proportion to them.
    const double error_max = kFactorError + kAngleError * std::fabs(angle);
    if (difference > error_max * element.magnitude) {
      const bool is_turned = std::fabs(std::hypot(element.own[t], element.other[t]) -
                                       element.magnitude) <= error_max * element.magnitude;
      throw SumNotRecognised(
          is_turned ? "it turns pairs of columns by angles that do not grow evenly with the "
                      "position: not supported are rotations in two dimensions, by logarithms, or "
                      "from another position than 0 on"
                    : "it multiplies each position by factors of its own beside the rotation, as "
                      "xPos does: not supported");
    }
  }
}

RopeSpec RotationFinder::rope_of_head(size_t head) {
  const Element* const elements = &elements_[head * head_dim_];
  uint32_t start = elements[0].column;
  for (uint32_t j = 0; j < head_dim_; ++j) start = std::min(start, elements[j].column);
  std::vector<const Element*> by_column(head_dim_, nullptr);
  for (uint32_t j = 0; j < head_dim_; ++j) {
    const uint32_t column = elements[j].column - start;
    if (column >= head_dim_ || by_column[column] != nullptr) {
      throw NotRecognised("the columns of a head that it turns are not side by side");
    }
    by_column[column] = &elements[j];
  }
  uint32_t last = 0;
  uint32_t distance = 0;
  for (uint32_t j = 0; j < head_dim_; ++j) {
    if (!by_column[j]->has_partner) continue;
    last = j;
    const uint32_t partner = by_column[j]->partner - start;
    if (distance == 0) distance = partner - j;
    if (distance == 1 ? (partner ^ 1u) != j : partner != j + distance && partner + distance != j) {
      throw NotRecognised("it turns pairs of columns that are neither neighbours nor halves apart");
    }
  }
  RopeSpec rope;
  rope.turns_neighbours = distance == 1 && last != 1;
  rope.rotary_dim = rope.turns_neighbours ? (last | 1u) + 1 : 2 * distance;
  if (rope.rotary_dim > head_dim_ || last >= rope.rotary_dim) {
    throw NotRecognised("it turns other columns of a head than the first ones");
  }
  rope.magnitude = by_column[0]->magnitude;
  for (uint32_t i = 0; i < rope.rotary_dim / 2; ++i) {
    const uint32_t first = rope.turns_neighbours ? 2 * i : i;
    const uint32_t second = rope.turns_neighbours ? 2 * i + 1 : i + distance;
    double frequency = 0.0;
    double opposite = 0.0;
    read_frequency(*by_column[second], frequency);
    read_frequency(*by_column[first], opposite);
    if (std::fabs(frequency + opposite) > kFactorError) {
      throw NotRecognised("it turns the two columns of a pair by different angles");
    }
    rope.inverse_frequencies.push_back(frequency);
  }
  for (uint32_t j = 0; j < head_dim_; ++j) {
    const double expected = j < rope.rotary_dim ? rope.magnitude : 1.0;
    if (std::fabs(by_column[j]->magnitude - expected) > kFactorError) {
      throw NotRecognised("it multiplies the columns that it turns by different constants");
    }
  }
  round_to_base(rope.inverse_frequencies,
                2.0 * kFactorError / static_cast<double>(builder_.sizes_.tokens - 1));
  return rope;
}

ElementSumRef RotationFinder::rotate() {
  const size_t heads = elements_.size() / head_dim_;
  std::vector<Column> columns;
  const RopeSpec rope = rope_of_head(0);
  for (size_t head = 0; head < heads; ++head) {
    const RopeSpec other = rope_of_head(head);
    bool is_same =
        other.rotary_dim == rope.rotary_dim && other.turns_neighbours == rope.turns_neighbours;
    for (size_t i = 0; is_same && i < rope.inverse_frequencies.size(); ++i) {
      is_same =
          std::fabs(rope.inverse_frequencies[i] - other.inverse_frequencies[i]) <= kFactorError;
    }
    if (!is_same) throw NotRecognised("it turns heads by different angles");
    uint32_t start = elements_[head * head_dim_].column;
    for (size_t j = 0; j < head_dim_; ++j) {
      start = std::min(start, elements_[head * head_dim_ + j].column);
    }
    // A head of keys may stand there for several of queries.
    const auto known = std::ranges::find(columns, Column{source_, start});
    if (known != columns.end()) continue;
    for (uint32_t j = 0; j < head_dim_; ++j) columns.push_back({source_, start + j});
  }
  const ValueId input = builder_.gather(columns);
  const ValueId node = builder_.graph_.add(builder_.name_, RotateNode{rope, head_dim_}, {input});
  const uint32_t to = builder_.source_of_node(node, builder_.sizes_.rows());
  // Column of the source to that of the result.
  std::map<uint32_t, uint32_t> place;
  for (size_t c = 0; c < columns.size(); ++c) {
    place.emplace(columns[c].second, static_cast<uint32_t>(c));
  }
  const auto block = stride_ * static_cast<size_t>(value_.shape[axis_]);
  std::map<size_t, uint32_t> column_of_first;
  for (size_t k = 0; k < firsts_.size(); ++k) {
    column_of_first[firsts_[k]] = place.at(elements_[k].column);
  }
  std::vector<int64_t> numbers;
  const size_t per_sequence = value_.elements() / builder_.sizes_.sequences;
  for (size_t i = 0, count = value_.elements(); i < count; ++i) {
    const uint32_t row = builder_.row_of(value_.terms[0].places.at(i));
    const size_t token = i % block / stride_;
    size_t first = i - token * stride_;
    if (!column_of_first.contains(first)) first %= per_sequence;
    const auto known = column_of_first.find(first);
    if (known == column_of_first.end()) throw NotRecognised("it turns sequences differently");
    numbers.push_back(int64_t{to} * kSourceElements +
                      int64_t{row} * static_cast<int64_t>(columns.size()) + known->second);
  }
  return plain(value_.shape, std::move(numbers));
}

std::optional<ElementSumRef> RotationFinder::find() {
  const bool varies = std::ranges::any_of(
      value_.terms, [](const Term& term) { return term.factors.each != nullptr; });
  if (!varies || value_.terms.size() < 2 || value_.shape.size() < 2) return std::nullopt;
  if (!read_elements()) return std::nullopt;
  return rotate();
}

}  // namespace arenite::convert
