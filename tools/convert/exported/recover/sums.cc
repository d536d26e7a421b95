// SPDX-License-Identifier: Apache-2.0
// Sums that become additions, scales, parts of an embedding, or part of a layer that reads them.
#include "convert/exported/recover/sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "convert/exported/read/array.h"
#include "convert/exported/recover/graph_builder.h"
#include "convert/exported/recover/refusals.h"

namespace arenite::convert {
namespace {

constexpr size_t kNoPlace = SIZE_MAX;

// Whether each element of the term stands for another one.
bool is_injective(const Term& term, size_t count) {
  if (term.places.is_whole()) return true;
  std::vector<int64_t> numbers = *term.places.numbers;
  std::ranges::sort(numbers);
  return numbers.size() == count && !numbers.empty() && numbers.front() != kNoElement &&
         std::ranges::adjacent_find(numbers) == numbers.end();
}

}  // namespace

bool SumBuilder::split(const ElementSum& value) {
  for (const Term& term : value.terms) {
    std::optional<Source::Kind> kind;
    for (size_t i = 0, count = value.elements(); i < count; ++i) {
      if (term.places.at(i) == kNoElement || term.factors.at(i) == 0.0) continue;
      const Source& source = builder_.source(term.places.at(i));
      if (kind && *kind != source.kind) {
        throw SumNotRecognised(
            "it puts constants beside numbers of the model: rows of constants are supported before "
            "the first token alone");
      }
      kind = source.kind;
      if (term.places.is_whole()) break;
    }
    if (kind == Source::Kind::kTokens || kind == Source::Kind::kTypes)
      throw SumNotRecognised(kReadsIds);
    if (kind) (*kind == Source::Kind::kTable ? tables_ : nodes_).push_back(term);
  }
  return !nodes_.empty();
}

void SumBuilder::choose_reference() {
  const size_t count = elements_of(shape_);
  const auto whole =
      std::ranges::find_if(nodes_, [&](const Term& term) { return is_injective(term, count); });
  if (whole == nodes_.end()) {
    throw SumNotRecognised(
        "it adds each token to each other, or values that are all repeated: not supported, sums "
        "are those of one token's numbers");
  }
  const auto plain_term = make_sum({shape_, {Term{whole->places, {}}}});
  reference_ = builder_.on_one_source(plain_term);
  source_ = source_of(reference_->terms[0].places.at(0));
  rows_ = builder_.sources_[source_].rows;
  width_ = builder_.sources_[source_].width;
  element_.assign(size_t{rows_} * width_, kNoPlace);
  for (size_t i = 0; i < count; ++i) {
    element_.at(static_cast<size_t>(index_of(reference_->terms[0].places.at(i)))) = i;
  }
  // Before rows of constants are put in front of the tokens, nothing stands there.
  for (size_t place = 0; place < element_.size(); ++place) {
    const bool is_there = element_[place] != kNoPlace;
    if (is_there != has_row(static_cast<uint32_t>(place / width_))) {
      throw SumNotRecognised("it adds some columns of a row without the others: not supported");
    }
  }
  first_row_ = 0;
  while (first_row_ < rows_ && !has_row(first_row_)) ++first_row_;
}

SumBuilder::Summand SumBuilder::summand_of(const Term& term) {
  Summand summand;
  for (size_t place = 0; place < element_.size(); ++place) {
    if (!has_row(static_cast<uint32_t>(place / width_))) continue;
    const size_t i = element_[place];
    const int64_t number = term.places.at(i);
    if (number == kNoElement || builder_.source(number).rows != rows_ ||
        builder_.row_of(number) != place / width_) {
      const bool is_pooled = number != kNoElement && builder_.source(number).rows != rows_;
      throw SumNotRecognised(
          is_pooled ? kPooledGoesBack
                    : "it adds elements of different tokens, which only attention and pooling may "
                      "do: not supported are differences of neighbours, shifts, and one token that "
                      "is added to others");
    }
    if (place / width_ == first_row_) {
      summand.columns.push_back(builder_.column_of(number));
      summand.factors.push_back(term.factors.at(i));
    }
    const size_t c = place % width_;
    if (summand.columns[c] != builder_.column_of(number)) {
      throw SumNotRecognised(
          "it adds other columns from token to token, or from row to row of a token: not "
          "supported");
    }
    if (summand.factors[c] != term.factors.at(i)) {
      throw SumNotRecognised(
          "it multiplies each position by constants of its own, and is no rotation of pairs by "
          "angles that grow from 0 on: not supported, factors are the same for all positions");
    }
  }
  summand.node = builder_.gather(summand.columns);
  summand.is_embedding = builder_.graph_.as<EmbeddingNode>(summand.node) != nullptr;
  return summand;
}

ValueId SumBuilder::scaled_columns(ValueId node, const std::vector<double>& factors) {
  const auto width = static_cast<uint32_t>(factors.size());
  if (width > 8192) throw NotRecognised("it multiplies columns by constants of their own");
  WeightRef weight;
  weight.name = builder_.name_;
  weight.rows = weight.columns = width;
  set_exact(weight, [factors] {
    std::vector<double> matrix(factors.size() * factors.size(), 0.0);
    for (size_t i = 0; i < factors.size(); ++i) matrix[i * factors.size() + i] = factors[i];
    return matrix;
  });
  return builder_.graph_.add_linear(builder_.name_, {weight, {}}, node);
}

ValueId SumBuilder::node_of(const Summand& summand) {
  const double first = summand.factors[0];
  const bool is_uniform =
      std::ranges::all_of(summand.factors, [&](double factor) { return factor == first; });
  if (!is_uniform) {
    // A layer that was made before takes the factors into its weights.
    const auto* linear = builder_.graph_.as<LinearNode>(summand.node);
    if (linear == nullptr) return scaled_columns(summand.node, summand.factors);
    LinearSpec spec = linear->parts[0].linear;
    for (size_t i = 0; i < spec.bias.size(); ++i) spec.bias[i] *= summand.factors[i];
    set_exact(spec.weight, [weight = linear->parts[0].linear.weight, factors = summand.factors] {
      std::vector<double> values = weight.exact();
      const size_t columns = weight.columns;
      for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i / columns];
      return values;
    });
    spec.weight.name = builder_.name_;
    const ValueId input = builder_.graph_.node(summand.node).inputs[0];
    return builder_.graph_.add_linear(builder_.name_, spec, input);
  }
  if (first == 1.0) return summand.node;
  if (summand.is_embedding) {
    EmbeddingNode embedding = *builder_.graph_.as<EmbeddingNode>(summand.node);
    if (!embedding.positions) {
      embedding.scale *= first;
      return builder_.graph_.add_embedding(builder_.graph_.node(summand.node).name,
                                           std::move(embedding), width_);
    }
  }
  return builder_.graph_.add(builder_.name_ + ".scale", ScaleNode{first}, {summand.node});
}

// Whether a constant that has rows for each sequence has those of the first one in each. `values`
// are the constant's, or empty and then filled.
bool SumBuilder::is_of_first_sequence(const GraphBuilder::TablePart& part, const Term& term,
                                      uint32_t row, uint32_t column, Array::Reals& values) const {
  const uint32_t tokens = builder_.sizes_.tokens;
  if (row < tokens || rows_ != builder_.sizes_.rows()) return false;
  const int64_t number = term.places.at(element_[size_t{row} * width_ + column]);
  const int64_t first = term.places.at(element_[size_t{row % tokens} * width_ + column]);
  if (number == kNoElement || first == kNoElement || part.constant->is_large() ||
      builder_.source(number).table != part.constant ||
      builder_.source(first).table != part.constant) {
    return false;
  }
  if (values.empty()) values = part.constant->array().to_reals();
  return values[static_cast<size_t>(index_of(number))] ==
         values[static_cast<size_t>(index_of(first))];
}

GraphBuilder::TablePart SumBuilder::part_of(const Term& term) {
  const uint32_t tokens = builder_.sizes_.tokens;
  GraphBuilder::TablePart part;
  Array::Reals values;  // of the constant, once they are asked for
  bool found = false;
  // Rows of the table are those that there are: some of the prefix may come later.
  const bool is_of_tokens = rows_ == builder_.sizes_.rows();
  std::vector<int64_t> position_of(is_of_tokens ? tokens : 0, -1);
  int64_t count = 0;
  for (uint32_t place = 0; place < position_of.size(); ++place) {
    if (has_row(place)) position_of[place] = count++;
  }
  for (uint32_t c = 0; c < width_; ++c) {
    const size_t row = size_t{first_row_} * width_;
    const int64_t first = term.places.at(element_[row + c]);
    const double factor = term.factors.at(element_[row + c]);
    part.factors.push_back(factor);
    if (first == kNoElement)
      throw SumNotRecognised("some columns have constants and others have not");
    part.constant = builder_.source(first).table;
    part.first_row.push_back(index_of(first));
    for (uint32_t r = first_row_ + 1; r < rows_; ++r) {
      if (!has_row(r)) continue;
      const size_t i = element_[size_t{r} * width_ + c];
      const int64_t position = is_of_tokens ? position_of[r % tokens] : 0;
      const int64_t step = term.places.at(i) - first;
      if (!found && position == 1) part.stride = step, found = true;
      const bool is_in_table =
          step == part.stride * position || is_of_first_sequence(part, term, r, c, values);
      if (!is_in_table || term.factors.at(i) != factor) {
        throw SumNotRecognised(
            "it adds constants that are no table of positions: expected the same for all tokens, "
            "or one row for each position");
      }
    }
  }
  int64_t limit = part.constant->positions_max;
  if (is_of_tokens) {
    const auto end = position_of.begin() + builder_.sizes_.prefix;
    part.prefix_rows.assign(position_of.begin(), end);
  }
  const int64_t missing = std::ranges::count(part.prefix_rows, -1);
  // What is no value of the program can be computed at no other length.
  const bool is_followed_alone = part.stride != 0 && part.constant->value() == kNoValue;
  if (limit == 0 && is_followed_alone) limit = tokens - missing;
  builder_.limit_positions(limit == 0 ? 0 : limit + missing);
  return part;
}

std::optional<GraphBuilder::PositionTable> SumBuilder::table() {
  GraphBuilder::PositionTable table;
  for (const Term& term : tables_) {
    GraphBuilder::TablePart part = part_of(term);
    const Array::Reals values = part.constant->array().to_reals();
    if (std::ranges::all_of(values, [](double value) { return value == 0.0; })) continue;
    table.parts.push_back(std::move(part));
  }
  if (table.parts.empty()) return std::nullopt;
  return table;
}

// All rows of the table, where it is constant.
void SumBuilder::add_first_row(const GraphBuilder::PositionTable& table, std::vector<double>& row) {
  for (const auto& part : table.parts) {
    const Array::Reals values = part.constant->array().to_reals();
    for (uint32_t c = 0; c < width_; ++c) {
      row[c] += part.factors[c] * values[static_cast<size_t>(part.first_row[c])];
    }
  }
}

// `only` is what the table is added to, where that is one node as it is.
ValueId SumBuilder::with_table(const Summand* only, ValueId sum,
                               GraphBuilder::PositionTable table) {
  Graph& graph = builder_.graph_;
  const bool is_constant =
      std::ranges::all_of(table.parts, [](const auto& part) { return part.stride == 0; });
  if (const auto* linear = graph.as<LinearNode>(sum); is_constant && only && linear) {
    LinearSpec spec = linear->parts[0].linear;
    spec.bias.resize(width_, 0.0);
    add_first_row(table, spec.bias);
    return graph.add_linear(builder_.name_, spec, graph.node(sum).inputs[0]);
  }
  const auto* padded = only != nullptr ? graph.as<EmbeddingNode>(sum) : nullptr;
  if (is_constant && padded != nullptr && padded->padding_id) {
    std::vector<double> row(width_, 0.0);
    add_first_row(table, row);
    return with_constant_row(sum, std::move(row));
  }
  if (rows_ != builder_.sizes_.rows()) {
    throw NotRecognised("it adds constants to what was pooled, and not to a linear layer's result");
  }
  EmbeddingNode embedding;
  std::string name = builder_.name_;
  const auto* tokens = only != nullptr ? graph.as<EmbeddingNode>(sum) : nullptr;
  const bool joins = tokens != nullptr && !tokens->positions;
  if (joins) {
    embedding = *tokens;
    name = graph.node(sum).name;
  }
  embedding.positions = WeightRef{};
  embedding.positions->columns = width_;
  embedding.positions->rows = builder_.sizes_.tokens;
  embedding.positions->name = name_of(*builder_.program_, *table.parts[0].constant);
  table.node = graph.add_embedding(joins ? name : name + ".positions", embedding, width_);
  builder_.tables_.push_back(table);
  return joins ? table.node : graph.add(name, AddNode{}, {sum, table.node});
}

ElementSumRef SumBuilder::build(const ElementSumRef& value) {
  shape_ = value->shape;
  if (!split(*value)) {
    throw NotRecognised(
        "it does not depend on the model's input, where the model's numbers were "
        "expected");
  }
  if (tables_.empty()) {
    if (const auto rotated = RotationFinder(builder_, *value).find()) return *rotated;
  }
  choose_reference();
  std::vector<Summand> summands;
  for (const Term& term : nodes_) summands.push_back(summand_of(term));
  join_types(summands);
  join_padded_positions(summands);
  ValueId sum = node_of(summands[0]);
  for (size_t i = 1; i < summands.size(); ++i) {
    sum = builder_.graph_.add(builder_.name_, AddNode{}, {sum, node_of(summands[i])});
  }
  if (auto constants = table()) {
    sum = with_table(summands.size() == 1 ? &summands[0] : nullptr, sum, std::move(*constants));
  }
  return builder_.in_place(reference_, source_, builder_.source_of_node(sum, rows_));
}

// Sums that become a part of an embedding: types, positions and rows of constants.

// The types of tokens become a part of the embedding that they are added to.
void SumBuilder::join_types(std::vector<Summand>& summands) {
  Graph& graph = builder_.graph_;
  const auto is_whole = [](const Summand& summand) {
    return summand.is_embedding &&
           std::ranges::all_of(summand.factors, [](double factor) { return factor == 1.0; });
  };
  const auto types = std::ranges::find_if(summands, [&](const Summand& summand) {
    const auto* embedding = graph.as<EmbeddingNode>(summand.node);
    return is_whole(summand) && embedding->types && !embedding->tokens && !embedding->positions;
  });
  const auto tokens = std::ranges::find_if(summands, [&](const Summand& summand) {
    const auto* embedding = graph.as<EmbeddingNode>(summand.node);
    return is_whole(summand) && embedding->tokens && !embedding->types;
  });
  if (types == summands.end() || tokens == summands.end()) return;
  EmbeddingNode joined = *graph.as<EmbeddingNode>(tokens->node);
  joined.types = graph.as<EmbeddingNode>(types->node)->types;
  const ValueId before = tokens->node;
  tokens->node = graph.add_embedding(graph.node(before).name, std::move(joined), width_);
  for (size_t i = 0, count = builder_.tables_.size(); i < count; ++i) {
    if (builder_.tables_[i].node != before) continue;
    GraphBuilder::PositionTable table = builder_.tables_[i];
    table.node = tokens->node;
    builder_.tables_.push_back(std::move(table));
  }
  summands.erase(types);
}

// Positions that leave padding out are read with the ids that say where it is.
void SumBuilder::join_padded_positions(std::vector<Summand>& summands) {
  Graph& graph = builder_.graph_;
  const auto has_one_factor = [](const Summand& summand) {
    return std::ranges::all_of(summand.factors, [](double factor) { return factor == 1.0; });
  };
  for (size_t p = 0; p < summands.size(); ++p) {
    const auto* positions = graph.as<EmbeddingNode>(summands[p].node);
    if (positions == nullptr || !positions->padding_id || positions->tokens) continue;
    const auto other = std::ranges::find_if(summands, [&](const Summand& summand) {
      const auto* tokens = graph.as<EmbeddingNode>(summand.node);
      return tokens != nullptr && tokens->tokens && !tokens->positions && has_one_factor(summand);
    });
    if (other == summands.end() || !has_one_factor(summands[p])) {
      throw NotRecognised(
          "positions that leave padding out are expected to be added to the embedding of tokens");
    }
    EmbeddingNode joined = *graph.as<EmbeddingNode>(other->node);
    joined.positions = positions->positions;
    joined.position_offset = positions->position_offset;
    joined.padding_id = positions->padding_id;
    other->node = graph.add_embedding(graph.node(other->node).name, std::move(joined), width_);
    summands.erase(summands.begin() + static_cast<ptrdiff_t>(p));
    return;
  }
}

// A row that is added to all rows of an embedding's table of positions.
ValueId SumBuilder::with_constant_row(ValueId node, std::vector<double> row) {
  Graph& graph = builder_.graph_;
  EmbeddingNode embedding = *graph.as<EmbeddingNode>(node);
  WeightRef& table = *embedding.positions;
  set_exact(table, [before = table, row = std::move(row)] {
    std::vector<double> values = before.exact();
    for (size_t i = 0; i < values.size(); ++i) values[i] += row[i % row.size()];
    return values;
  });
  table.name = builder_.name_;
  return graph.add_embedding(graph.node(node).name, std::move(embedding), width_);
}

}  // namespace arenite::convert
