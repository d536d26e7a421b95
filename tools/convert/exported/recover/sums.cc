// SPDX-License-Identifier: Apache-2.0
// Sums that become additions, scales, parts of an embedding, or part of a layer that reads them;
// and rotations, which are sums of two columns whose factors turn with the position.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {
namespace {

constexpr size_t kNoPlace = SIZE_MAX;
constexpr uint32_t kScaledColumnsMax = 8192;  // for which a matrix of factors is made

// Whether each element of the term stands for another one.
bool is_injective(const Term& term, size_t count) {
  if (term.places.is_whole()) return true;
  std::vector<int64_t> numbers = *term.places.numbers;
  std::ranges::sort(numbers);
  return numbers.size() == count && !numbers.empty() && numbers.front() != kNoElement &&
         std::ranges::adjacent_find(numbers) == numbers.end();
}

// What one term adds to column c of each row.
struct Summand {
  ValueId node = 0;
  std::vector<double> factors;  // [columns]

  bool is_even() const {
    return std::ranges::all_of(factors, [&](double factor) { return factor == factors[0]; });
  }
  bool is_node() const { return is_even() && factors[0] == 1.0; }
};

class SumBuilder {
 public:
  SumBuilder(GraphBuilder& builder, const ElementSum& value)
      : builder_(builder), graph_(builder.graph), shape_(value.shape) {
    for (const Term& term : value.terms) {
      const auto kind = kind_of(term);
      refuse_op_if<Cause::kSum>(kind == Source::Kind::kTokens || kind == Source::Kind::kTypes,
                                kReadsIds);
      if (kind) (*kind == Source::Kind::kTable ? tables_ : nodes_).push_back(term);
    }
    refuse_op_if(
        nodes_.empty(),
        "it does not depend on the model's input, where the model's numbers were expected");
  }

  bool has_tables() const { return !tables_.empty(); }

  ElementSumRef build() {
    choose_reference();
    std::vector<Summand> summands;
    for (const Term& term : nodes_) summands.push_back(summand_of(term));
    join_embeddings(summands);
    ValueId sum = node_of(summands[0]);
    for (size_t i = 1; i < summands.size(); ++i) {
      sum = graph_.add(builder_.name, AddNode{}, {sum, node_of(summands[i])});
    }
    PositionTable table;
    for (const Term& term : tables_) {
      TablePart part = part_of(term);
      const Array::Reals values = part.constant->array().to_reals();
      if (std::ranges::any_of(values, [](double value) { return value != 0.0; })) {
        table.parts.push_back(std::move(part));
      }
    }
    if (!table.parts.empty()) sum = with_table(summands.size() == 1, sum, std::move(table));
    return in_place(reference_, source_, builder_.source_of_node(sum, rows_));
  }

 private:
  // Nothing for a term that is all zeros.
  std::optional<Source::Kind> kind_of(const Term& term) const {
    std::optional<Source::Kind> kind;
    for (size_t i = 0, count = elements_of(shape_); i < count; ++i) {
      if (term.places.at(i) == kNoElement || term.factors.at(i) == 0.0) continue;
      const Source& source = builder_.source(term.places.at(i));
      refuse_op_if<Cause::kSum>(
          kind && *kind != source.kind,
          "it puts constants beside numbers of the model: rows of constants are supported before "
          "the first token alone");
      kind = source.kind;
      if (term.places.is_whole()) break;
    }
    return kind;
  }

  void choose_reference() {
    const size_t count = elements_of(shape_);
    const auto whole =
        std::ranges::find_if(nodes_, [&](const Term& term) { return is_injective(term, count); });
    refuse_op_if<Cause::kSum>(
        whole == nodes_.end(),
        "it adds each token to each other, or values that are all repeated: not supported, sums "
        "are those of one token's numbers");
    reference_ = on_one_source(builder_, make_sum({shape_, {Term{whole->places}}}));
    source_ = source_of(reference_->at(0));
    rows_ = builder_.source_at(source_).rows;
    width_ = builder_.source_at(source_).width;
    element_.assign(size_t{rows_} * width_, kNoPlace);
    for (size_t i = 0; i < count; ++i) {
      element_.at(static_cast<size_t>(index_of(reference_->at(i)))) = i;
    }
    // Before rows of constants are put in front of the tokens, nothing stands there.
    for (size_t place = 0; place < element_.size(); ++place) {
      refuse_op_if<Cause::kSum>(
          (element_[place] != kNoPlace) != has_row(static_cast<uint32_t>(place / width_)),
          "it adds some columns of a row without the others: not supported");
    }
    while (first_row_ < rows_ && !has_row(first_row_)) ++first_row_;
  }

  bool has_row(uint32_t row) const { return element_[size_t{row} * width_] != kNoPlace; }
  bool is_of_tokens() const { return rows_ == builder_.sizes.rows(); }

  Summand summand_of(const Term& term) {
    Summand summand;
    std::vector<Column> columns;
    for (size_t place = 0; place < element_.size(); ++place) {
      if (element_[place] == kNoPlace) continue;
      const int64_t number = term.places.at(element_[place]);
      const double factor = term.factors.at(element_[place]);
      refuse_op_if<Cause::kSum>(number != kNoElement && builder_.source(number).rows != rows_,
                                kPooledGoesBack);
      refuse_op_if<Cause::kSum>(
          number == kNoElement || builder_.row_of(number) != place / width_,
          "it adds elements of different tokens, which only attention and pooling may do: not "
          "supported are differences of neighbours, shifts, and one token that is added to others");
      const Column column = builder_.column_of(number);
      if (place / width_ == first_row_) {
        columns.push_back(column);
        summand.factors.push_back(factor);
      }
      refuse_op_if<Cause::kSum>(
          columns[place % width_] != column,
          "it adds other columns from token to token, or from row to row of a token: not "
          "supported");
      refuse_op_if<Cause::kSum>(
          summand.factors[place % width_] != factor,
          "it multiplies each position by constants of its own, and is no rotation of pairs by "
          "angles that grow from 0 on: not supported, factors are the same for all positions");
    }
    summand.node = builder_.gather(columns);
    return summand;
  }

  // The node with all factors, as a layer: one that was made before takes them into its weights.
  ValueId scaled_columns(const Summand& summand) {
    LinearSpec spec;
    ValueId input = summand.node;
    if (const auto* linear = graph_.as<LinearNode>(summand.node)) {
      spec = linear->parts[0].linear;
      input = graph_.node(summand.node).inputs[0];
      for (size_t i = 0; i < spec.bias.size(); ++i) spec.bias[i] *= summand.factors[i];
      set_exact(spec.weight, [weight = linear->parts[0].linear.weight, factors = summand.factors] {
        std::vector<double> values = weight.exact();
        for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i / weight.columns];
        return values;
      });
    } else {
      refuse_op_if(summand.factors.size() > kScaledColumnsMax,
                   "it multiplies columns by constants of their own");
      spec.weight.rows = spec.weight.columns = static_cast<uint32_t>(summand.factors.size());
      set_exact(spec.weight, [factors = summand.factors] {
        std::vector<double> matrix(factors.size() * factors.size(), 0.0);
        for (size_t i = 0; i < factors.size(); ++i) matrix[i * factors.size() + i] = factors[i];
        return matrix;
      });
    }
    spec.weight.name = builder_.name;
    return graph_.add_linear(builder_.name, spec, input);
  }

  ValueId node_of(const Summand& summand) {
    if (summand.is_node()) return summand.node;
    if (!summand.is_even()) return scaled_columns(summand);
    const double factor = summand.factors[0];
    const auto* embedding = graph_.as<EmbeddingNode>(summand.node);
    if (embedding == nullptr || embedding->positions) {
      return graph_.add(builder_.name + ".scale", ScaleNode{factor}, {summand.node});
    }
    EmbeddingNode scaled = *embedding;
    scaled.scale *= factor;
    return graph_.add_embedding(graph_.node(summand.node).name, std::move(scaled), width_);
  }

  // Whether a constant that has rows for each sequence has those of the first one in each. `values`
  // are the constant's, or empty and then filled.
  bool is_of_first_sequence(const ConstantRef& constant, const Term& term, uint32_t row,
                            uint32_t column, Array::Reals& values) const {
    const uint32_t tokens = builder_.sizes.tokens;
    if (row < tokens || !is_of_tokens() || constant->is_large()) return false;
    const auto value_at = [&](uint32_t of_row) -> const double* {
      const int64_t number = term.places.at(element_[size_t{of_row} * width_ + column]);
      if (number == kNoElement || builder_.source(number).table != constant) return nullptr;
      if (values.empty()) values = constant->array().to_reals();
      return &values[static_cast<size_t>(index_of(number))];
    };
    const double* const own = value_at(row);
    const double* const first = value_at(row % tokens);
    return own != nullptr && first != nullptr && *own == *first;
  }

  TablePart part_of(const Term& term) {
    const uint32_t tokens = builder_.sizes.tokens;
    TablePart part;
    Array::Reals values;  // of the constant, once they are asked for
    bool found = false;
    // Rows of the table are those that there are: some of the prefix may come later.
    std::vector<int64_t> position_of(is_of_tokens() ? tokens : 0, -1);
    int64_t count = 0;
    for (uint32_t place = 0; place < position_of.size(); ++place) {
      if (has_row(place)) position_of[place] = count++;
    }
    for (uint32_t c = 0; c < width_; ++c) {
      const size_t first_element = element_[size_t{first_row_} * width_ + c];
      const int64_t first = term.places.at(first_element);
      const double factor = term.factors.at(first_element);
      refuse_op_if<Cause::kSum>(first == kNoElement,
                                "some columns have constants and others have not");
      part.factors.push_back(factor);
      part.constant = builder_.source(first).table;
      part.first_row.push_back(index_of(first));
      for (uint32_t r = first_row_ + 1; r < rows_; ++r) {
        if (!has_row(r)) continue;
        const size_t i = element_[size_t{r} * width_ + c];
        const int64_t position = is_of_tokens() ? position_of[r % tokens] : 0;
        const int64_t step = term.places.at(i) - first;
        if (!found && position == 1) part.stride = step, found = true;
        const bool is_in_table = step == part.stride * position ||
                                 is_of_first_sequence(part.constant, term, r, c, values);
        refuse_op_if<Cause::kSum>(
            !is_in_table || term.factors.at(i) != factor,
            "it adds constants that are no table of positions: expected the same for all tokens, "
            "or one row for each position");
      }
    }
    int64_t limit = part.constant->positions_max;
    if (is_of_tokens()) {
      part.prefix_rows.assign(position_of.begin(), position_of.begin() + builder_.sizes.prefix);
    }
    const int64_t missing = std::ranges::count(part.prefix_rows, -1);
    // What is no value of the program can be computed at no other length.
    const bool is_followed_alone = part.stride != 0 && part.constant->value() == kNoValue;
    if (limit == 0 && is_followed_alone) limit = tokens - missing;
    builder_.limit_positions(limit == 0 ? 0 : limit + missing);
    return part;
  }

  // The first row of the table, which is each of them where it is constant.
  void add_first_row(const PositionTable& table, std::vector<double>& row) const {
    for (const TablePart& part : table.parts) {
      const Array::Reals values = part.constant->array().to_reals();
      for (uint32_t c = 0; c < width_; ++c) {
        row[c] += part.factors[c] * values[static_cast<size_t>(part.first_row[c])];
      }
    }
  }

  ValueId with_table(bool has_one_summand, ValueId sum, PositionTable table) {
    const auto* linear = has_one_summand ? graph_.as<LinearNode>(sum) : nullptr;
    const auto* embedding = has_one_summand ? graph_.as<EmbeddingNode>(sum) : nullptr;
    const bool is_constant =
        std::ranges::all_of(table.parts, [](const auto& part) { return part.stride == 0; });
    if (is_constant && linear != nullptr) {
      LinearSpec spec = linear->parts[0].linear;
      spec.bias.resize(width_, 0.0);
      add_first_row(table, spec.bias);
      return graph_.add_linear(builder_.name, spec, graph_.node(sum).inputs[0]);
    }
    const std::string name = embedding != nullptr ? graph_.node(sum).name : builder_.name;
    if (is_constant && embedding != nullptr && embedding->padding_id) {
      // A row that is added to all rows of its table of positions.
      std::vector<double> row(width_, 0.0);
      add_first_row(table, row);
      EmbeddingNode shifted = *embedding;
      set_exact(*shifted.positions, [before = *embedding->positions, row] {
        std::vector<double> values = before.exact();
        for (size_t i = 0; i < values.size(); ++i) values[i] += row[i % row.size()];
        return values;
      });
      shifted.positions->name = builder_.name;
      return graph_.add_embedding(name, std::move(shifted), width_);
    }
    refuse_op_if(!is_of_tokens(),
                 "it adds constants to what was pooled, and not to a linear layer's result");
    WeightRef positions;
    positions.columns = width_;
    positions.rows = builder_.sizes.tokens;
    positions.name = name_of(*builder_.program, *table.parts[0].constant);
    const bool joins = embedding != nullptr && !embedding->positions;
    EmbeddingNode made = joins ? *embedding : EmbeddingNode();
    made.positions = positions;
    table.node =
        graph_.add_embedding(joins ? name : builder_.name + ".positions", std::move(made), width_);
    builder_.tables.push_back(table);
    return joins ? table.node : graph_.add(builder_.name, AddNode{}, {sum, table.node});
  }

  // Types of tokens, and positions that leave padding out and are read with the ids that say where
  // it is, become a part of the embedding of tokens that they are added to.
  void join_embeddings(std::vector<Summand>& summands) {
    const auto find = [&](const auto& is_wanted) {
      return std::ranges::find_if(summands, [&](const Summand& summand) {
        const auto* embedding = graph_.as<EmbeddingNode>(summand.node);
        return embedding != nullptr && summand.is_node() && is_wanted(*embedding);
      });
    };
    const auto join = [&](auto tokens, auto part, const auto& add) {
      EmbeddingNode joined = *graph_.as<EmbeddingNode>(tokens->node);
      add(joined, *graph_.as<EmbeddingNode>(part->node));
      const ValueId before = tokens->node;
      tokens->node = graph_.add_embedding(graph_.node(before).name, std::move(joined), width_);
      for (size_t i = 0, count = builder_.tables.size(); i < count; ++i) {
        if (builder_.tables[i].node != before) continue;
        PositionTable table = builder_.tables[i];
        table.node = tokens->node;
        builder_.tables.push_back(std::move(table));
      }
      summands.erase(part);
    };
    const auto types = find(
        [](const EmbeddingNode& node) { return node.types && !node.tokens && !node.positions; });
    const auto without_types =
        find([](const EmbeddingNode& node) { return node.tokens && !node.types; });
    if (types != summands.end() && without_types != summands.end()) {
      join(without_types, types,
           [](EmbeddingNode& node, const EmbeddingNode& part) { node.types = part.types; });
    }
    const auto positions = std::ranges::find_if(summands, [&](const Summand& summand) {
      const auto* embedding = graph_.as<EmbeddingNode>(summand.node);
      return embedding != nullptr && embedding->padding_id && !embedding->tokens;
    });
    if (positions == summands.end()) return;
    const auto without_positions =
        find([](const EmbeddingNode& node) { return node.tokens && !node.positions; });
    refuse_op_if(
        without_positions == summands.end() || !positions->is_node(),
        "positions that leave padding out are expected to be added to the embedding of tokens");
    join(without_positions, positions, [](EmbeddingNode& node, const EmbeddingNode& part) {
      node.positions = part.positions;
      node.position_offset = part.position_offset;
      node.padding_id = part.padding_id;
    });
  }

  GraphBuilder& builder_;
  Graph& graph_;
  const Shape shape_;
  std::vector<Term> nodes_;   // terms of the model's numbers
  std::vector<Term> tables_;  // terms of constants
  ElementSumRef reference_;   // whose elements stand for the rows and columns of the sum
  uint32_t source_ = 0;       // of the reference
  uint32_t rows_ = 0;
  uint32_t width_ = 0;
  uint32_t first_row_ = 0;       // that the value has
  std::vector<size_t> element_;  // [rows * width]: the value's element that stands there
};

}  // namespace

ElementSumRef add_up(GraphBuilder& builder, const ElementSumRef& value) {
  SumBuilder sum(builder, *value);
  if (!sum.has_tables()) {
    if (const auto rotated = find_rotation(builder, *value)) return *rotated;
  }
  return sum.build();
}

// A rotation is known by its factors: at position 0 each element is itself, and at others it and
// its partner have the cosine and the sine of an angle that grows with the position.

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

// What an element of token 0 is made of at each position: itself, and its partner.
struct TurnedElement {
  size_t first = 0;  // of the value: the element at token 0
  uint32_t column = 0;
  std::optional<uint32_t> partner{};
  double magnitude = 1.0;
  std::vector<double> own, other;  // factors, [positions]

  // The angle per position, which each later position makes more exact.
  double frequency() const {
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
      // Angles may have been float32, too, which is off in proportion to them.
      const double error_max = (kFactorError + kAngleError * std::fabs(angle)) * magnitude;
      if (difference <= error_max) continue;
      refuse_op_if<Cause::kSum>(
          std::fabs(std::hypot(own[t], other[t]) - magnitude) <= error_max,
          "it turns pairs of columns by angles that do not grow evenly with the position: not "
          "supported are rotations in two dimensions, by logarithms, or from another position than "
          "0 on");
      throw NotRecognised(
          "it multiplies each position by factors of its own beside the rotation, as xPos does: "
          "not supported",
          Cause::kSum);
    }
    return frequency;
  }
};

class RotationFinder {
 public:
  RotationFinder(GraphBuilder& builder, const ElementSum& value)
      : builder_(builder), value_(value) {}

  std::optional<ElementSumRef> find() {
    if (!value_.has_own_factors() || value_.terms.size() < 2 || value_.shape.size() < 2 ||
        !read_elements()) {
      return std::nullopt;
    }
    return rotate();
  }

 private:
  // The dimension of tokens, if it is not the last one.
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
    source_ = source_of(value_.at(0));
    if (builder_.source_at(source_).rows != builder_.sizes.rows() || !find_axis()) return false;
    head_dim_ = static_cast<uint32_t>(value_.shape.back());
    for (size_t i = 0, count = value_.elements(); i < count; ++i) {
      if (i % block_ >= stride_) continue;  // another token
      if (source_of(value_.at(i)) != source_) return false;
      if (builder_.row_of(value_.at(i)) != 0) continue;  // another sequence
      auto element = read_element(i);
      if (!element) return false;
      elements_.push_back(std::move(*element));
    }
    return std::ranges::any_of(
        elements_, [](const TurnedElement& element) { return element.partner.has_value(); });
  }

  std::optional<TurnedElement> read_element(size_t first) const {
    const uint32_t tokens = builder_.sizes.tokens;
    TurnedElement element{.first = first, .own{}, .other{}};
    element.own.assign(tokens, 0.0);
    element.other.assign(tokens, 0.0);
    bool has_own = false;
    for (uint32_t t = 0; t < tokens; ++t) {
      for (const Term& term : value_.terms) {
        const double factor = term.factors.at(first + t * stride_);
        const int64_t number = term.places.at(first + t * stride_);
        if (number == kNoElement || factor == 0.0) continue;
        if (source_of(number) != source_ || builder_.row_of(number) % tokens != t)
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
    if (!has_own || element.other[0] != 0.0 || !(element.magnitude > 0.0)) return std::nullopt;
    return element;
  }

  // Columns of a head begin at `start`.
  RopeSpec rope_of_head(size_t head, uint32_t& start) const {
    start = UINT32_MAX;
    for (uint32_t j = 0; j < head_dim_; ++j) {
      start = std::min(start, elements_[head * head_dim_ + j].column);
    }
    std::vector<const TurnedElement*> by_column(head_dim_, nullptr);
    for (uint32_t j = 0; j < head_dim_; ++j) {
      const TurnedElement& element = elements_[head * head_dim_ + j];
      const uint32_t column = element.column - start;
      refuse_op_if(column >= head_dim_ || by_column[column] != nullptr,
                   "the columns of a head that it turns are not side by side");
      by_column[column] = &element;
    }
    uint32_t last = 0;
    uint32_t distance = 0;
    for (uint32_t j = 0; j < head_dim_; ++j) {
      if (!by_column[j]->partner) continue;
      last = j;
      const uint32_t partner = *by_column[j]->partner - start;
      if (distance == 0) distance = partner - j;
      refuse_op_if(
          distance == 1 ? (partner ^ 1u) != j : partner != j + distance && partner + distance != j,
          "it turns pairs of columns that are neither neighbours nor halves apart");
    }
    RopeSpec rope;
    rope.turns_neighbours = distance == 1 && last != 1;
    rope.rotary_dim = rope.turns_neighbours ? (last | 1u) + 1 : 2 * distance;
    refuse_op_if(rope.rotary_dim > head_dim_ || last >= rope.rotary_dim,
                 "it turns other columns of a head than the first ones");
    rope.magnitude = by_column[0]->magnitude;
    for (uint32_t i = 0; i < rope.rotary_dim / 2; ++i) {
      const uint32_t first = rope.turns_neighbours ? 2 * i : i;
      const uint32_t second = rope.turns_neighbours ? 2 * i + 1 : i + distance;
      const double frequency = by_column[second]->frequency();
      refuse_op_if(std::fabs(frequency + by_column[first]->frequency()) > kFactorError,
                   "it turns the two columns of a pair by different angles");
      rope.inverse_frequencies.push_back(frequency);
    }
    for (uint32_t j = 0; j < head_dim_; ++j) {
      const double expected = j < rope.rotary_dim ? rope.magnitude : 1.0;
      refuse_op_if(std::fabs(by_column[j]->magnitude - expected) > kFactorError,
                   "it multiplies the columns that it turns by different constants");
    }
    round_to_base(rope.inverse_frequencies,
                  2.0 * kFactorError / static_cast<double>(builder_.sizes.tokens - 1));
    return rope;
  }

  ElementSumRef rotate() {
    std::vector<Column> columns;
    uint32_t start = 0;
    const RopeSpec rope = rope_of_head(0, start);
    for (size_t head = 0; head < elements_.size() / head_dim_; ++head) {
      const RopeSpec other = rope_of_head(head, start);
      bool is_same =
          other.rotary_dim == rope.rotary_dim && other.turns_neighbours == rope.turns_neighbours;
      for (size_t i = 0; is_same && i < rope.inverse_frequencies.size(); ++i) {
        is_same =
            std::fabs(rope.inverse_frequencies[i] - other.inverse_frequencies[i]) <= kFactorError;
      }
      refuse_op_if(!is_same, "it turns heads by different angles");
      // A head of keys may stand there for several of queries.
      if (std::ranges::count(columns, Column{source_, start}) != 0) continue;
      for (uint32_t j = 0; j < head_dim_; ++j) columns.push_back({source_, start + j});
    }
    const ValueId input = builder_.gather(columns);
    const ValueId node = builder_.graph.add(builder_.name, RotateNode{rope, head_dim_}, {input});
    const uint32_t to = builder_.source_of_node(node, builder_.sizes.rows());
    std::map<uint32_t, uint32_t> place;  // of a column of the source in the result
    for (size_t c = 0; c < columns.size(); ++c) {
      place.emplace(columns[c].second, static_cast<uint32_t>(c));
    }
    std::map<size_t, uint32_t> column_of_first;
    for (const TurnedElement& element : elements_) {
      column_of_first[element.first] = place.at(element.column);
    }
    std::vector<int64_t> numbers;
    const size_t per_sequence = value_.elements() / builder_.sizes.sequences;
    for (size_t i = 0, count = value_.elements(); i < count; ++i) {
      const uint32_t row = builder_.row_of(value_.at(i));
      size_t first = i - i % block_ / stride_ * stride_;
      if (!column_of_first.contains(first)) first %= per_sequence;
      const auto known = column_of_first.find(first);
      refuse_op_if(known == column_of_first.end(), "it turns sequences differently");
      numbers.push_back(number_of(to, uint64_t{row} * columns.size() + known->second));
    }
    return plain(value_.shape, std::move(numbers));
  }

  GraphBuilder& builder_;
  const ElementSum& value_;
  size_t stride_ = 0;  // from token to token
  size_t block_ = 0;   // of all tokens
  uint32_t source_ = 0;
  uint32_t head_dim_ = 0;
  std::vector<TurnedElement> elements_;  // those of token 0 of the first sequence
};

}  // namespace

std::optional<ElementSumRef> find_rotation(GraphBuilder& builder, const ElementSum& value) {
  return RotationFinder(builder, value).find();
}

ElementSumRef rotated_or_same(GraphBuilder& builder, const ElementSumRef& value) {
  if (value->terms.size() < 2 || value->elements() == 0) return value;
  try {
    return find_rotation(builder, *value).value_or(value);
  } catch (const NotRecognised&) {
    return value;  // a part of one
  }
}

}  // namespace arenite::convert
