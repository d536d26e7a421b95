// SPDX-License-Identifier: Apache-2.0
// Lowers sums to additions, scales, parts of an embedding, or weights and biases of a layer.
//
//   tokens(ids) + table[:n]   ->  embedding with tokens and positions
//   linear(x) * gain + shift  ->  linear with weight diag(gain) W, bias gain b + shift
//   x + y.mean(1, True)       ->  add(x, select mean(y))

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "convert/exported/recover/graph_builder.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/recover/sums.h"

namespace arenite::convert {
namespace {

constexpr size_t kNoPlace = SIZE_MAX;
constexpr uint32_t kScaledColumnsMax = 8192;  // rows of a diagonal matrix

constexpr const char* kUnevenConstants =
    "constants that are added to rows, or multiply them, differ between sequences; expected the "
    "same for all";

// Whether the term reads distinct elements, without zeros.
bool is_injective(const Term& term, size_t count) {
  if (term.places.is_whole()) return true;
  std::vector<int64_t> element_ids = *term.places.element_ids;
  std::ranges::sort(element_ids);
  return element_ids.size() == count && !element_ids.empty() && element_ids.front() != kNoElement &&
         std::ranges::adjacent_find(element_ids) == element_ids.end();
}

// An addend of a sum: factors[c] * node in column c.
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
  SumBuilder(GraphBuilder& builder, const LinearExpr& value)
      : builder_(builder), graph_(builder.graph), shape_(value.shape) {
    for (const Term& term : value.terms) {
      const auto kind = kind_of(term);
      refuse_op_if<Cause::kSum>(kind == Producer::Kind::kTokens || kind == Producer::Kind::kTypes,
                                kReadsIds);
      if (kind) (*kind == Producer::Kind::kTable ? tables_ : nodes_).push_back(term);
    }
    refuse_op_if(nodes_.empty(),
                 "all addends are constants; expected an addend that depends on the model's input");
  }

  bool has_tables() const { return !tables_.empty(); }

  LinearExprRef build() {
    choose_reference();
    std::vector<Summand> summands;
    for (const Term& term : nodes_) summands.push_back(summand_of(term));
    join_embeddings(summands);
    std::vector<ValueId> nodes;
    for (const Summand& summand : summands) nodes.push_back(node_of(summand));
    // Token rows come first, as per-sequence rows are added to them.
    std::stable_partition(nodes.begin(), nodes.end(),
                          [&](ValueId node) { return !graph_.is_on(AxisKind::kOne, node); });
    ValueId sum = nodes[0];
    for (size_t i = 1; i < nodes.size(); ++i) {
      sum = graph_.add(builder_.name, AddNode{}, {sum, nodes[i]});
    }
    PositionTable table;
    table.row_axis = builder_.row_axis();
    for (const Term& term : tables_) {
      TablePart part = part_of(term);
      const Array::Reals values = part.constant->array().to_reals();
      if (std::ranges::any_of(values, [](double value) { return value != 0.0; })) {
        table.parts.push_back(std::move(part));
      }
    }
    if (!table.parts.empty()) sum = with_table(summands.size() == 1, sum, std::move(table));
    return replace_producer(reference_, producer_, builder_.producer_of_node(sum, rows_));
  }

 private:
  // Returns the kind of the term's producers; nullopt if all elements are zero.
  std::optional<Producer::Kind> kind_of(const Term& term) const {
    std::optional<Producer::Kind> kind;
    for (size_t i = 0, count = elements_of(shape_); i < count; ++i) {
      if (term.places.at(i) == kNoElement || term.factors.at(i) == 0.0) continue;
      const Producer& producer = builder_.producer(term.places.at(i));
      refuse_op_if<Cause::kSum>(
          kind && *kind != producer.kind,
          "cannot put constants beside elements of the model in one addend; concatenate constant "
          "rows before the first token or after the last one");
      kind = producer.kind;
      if (term.places.is_whole()) break;
    }
    return kind;
  }

  void choose_reference() {
    const size_t count = elements_of(shape_);
    auto whole =
        std::ranges::find_if(nodes_, [&](const Term& term) { return is_injective(term, count); });
    // A single term may repeat elements, such as a broadcast column.
    if (whole == nodes_.end() && nodes_.size() == 1) whole = nodes_.begin();
    refuse_op_if<Cause::kSum>(whole == nodes_.end(),
                              "each token is added to each other, or all addends repeat elements; "
                              "expected sums within one token");
    reference_ = on_one_producer(builder_, make_sum({shape_, {Term{whole->places}}}));
    producer_ = producer_of(reference_->at(0));
    rows_ = builder_.producer_at(producer_).rows;
    width_ = builder_.producer_at(producer_).width;
    element_.assign(size_t{rows_} * width_, kNoPlace);
    for (size_t i = 0; i < count; ++i) {
      element_.at(static_cast<size_t>(index_of(reference_->at(i)))) = i;
    }
    // The value may leave out whole rows.
    for (size_t place = 0; place < element_.size(); ++place) {
      refuse_op_if<Cause::kSum>(
          (element_[place] != kNoPlace) != has_row(static_cast<uint32_t>(place / width_)),
          "a sum reads some columns of a row only; expected whole rows");
    }
    while (first_row_ < rows_ && !has_row(first_row_)) ++first_row_;
  }

  bool has_row(uint32_t row) const { return element_[size_t{row} * width_] != kNoPlace; }
  bool is_of_tokens() const { return rows_ == builder_.sizes.rows(); }

  // Returns a table from an element per row and column, [rows_, width_]. Throws NotRecognised if
  // sequences differ.
  TablePart part_of_places(std::vector<double> each) {
    const uint32_t tokens = builder_.sizes.tokens;
    refuse_op_if<Cause::kSum>(!is_of_tokens(), kUnevenConstants);
    const size_t square = size_t{tokens} * width_;
    for (size_t i = square; i < each.size(); ++i) {
      refuse_op_if<Cause::kSum>(each[i] != each[i % square], kUnevenConstants);
    }
    each.resize(square);
    TablePart part;
    part.constant = std::make_shared<const Constant>(
        kNoValue, Array::real({int64_t{tokens}, int64_t{width_}}, std::move(each)));
    part.factors.assign(width_, 1.0);
    part.first_row.resize(width_);
    std::iota(part.first_row.begin(), part.first_row.end(), int64_t{0});
    part.stride = width_;
    builder_.limit_positions(tokens);
    return part;
  }

  // Multiplies the node by a factor per row and column, [rows_, width_].
  ValueId times_table(ValueId node, std::vector<double> each) {
    TablePart part = part_of_places(std::move(each));
    EmbeddingNode table;
    table.positions.emplace();
    table.positions->name = builder_.name + ".factors";
    table.positions->rows = builder_.sizes.tokens;
    table.positions->columns = width_;
    const ValueId factors =
        graph_.add_embedding(table.positions->name, std::move(table), width_, graph_.axis(node));
    builder_.tables.push_back({factors, {std::move(part)}, builder_.row_axis()});
    return graph_.add(builder_.name, MultiplyNode{}, {node, factors});
  }

  Summand summand_of(const Term& term) {
    Summand summand;
    std::vector<Column> columns;
    std::vector<double> each(element_.size(), 0.0);  // factor per row and column
    bool is_even = true;                             // factors are equal in all rows
    for (size_t place = 0; place < element_.size(); ++place) {
      if (element_[place] == kNoPlace) continue;
      const int64_t number = term.places.at(element_[place]);
      const double factor = term.factors.at(element_[place]);
      const size_t row = place / width_;
      const bool is_of_sequence = is_of_tokens() && builder_.is_per_sequence(number);
      refuse_op_if<Cause::kSum>(
          number == kNoElement ||
              builder_.row_of(number) != (is_of_sequence ? row / builder_.sizes.tokens : row),
          "elements of different tokens are added, as in differences of neighbours; only "
          "attention, pooling and convolutions may combine tokens");
      const Column column = builder_.column_of(number);
      if (row == first_row_) {
        columns.push_back(column);
        summand.factors.push_back(factor);
      }
      refuse_op_if<Cause::kSum>(columns[place % width_] != column,
                                "the addends read different columns in different rows; expected "
                                "the same columns in each");
      each[place] = factor;
      is_even = is_even && summand.factors[place % width_] == factor;
    }
    summand.node = builder_.gather(columns);
    if (is_even) return summand;
    summand.node = times_table(summand.node, std::move(each));
    summand.factors.assign(width_, 1.0);
    return summand;
  }

  // Returns a linear layer that multiplies column c by factors[c].
  LinearSpec diagonal(const std::vector<double>& factors) const {
    refuse_op_if(factors.size() > kScaledColumnsMax,
                 "too many columns have different factors; apply the factors in a linear layer");
    LinearSpec spec;
    spec.weight.name = builder_.name;
    spec.weight.rows = spec.weight.columns = static_cast<uint32_t>(factors.size());
    set_exact(spec.weight, [factors] {
      std::vector<double> matrix(factors.size() * factors.size(), 0.0);
      for (size_t i = 0; i < factors.size(); ++i) matrix[i * factors.size() + i] = factors[i];
      return matrix;
    });
    return spec;
  }

  // Multiplies a node by the factors of its columns: folds them into the weights of a preceding
  // linear layer, or adds one.
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
      spec = diagonal(summand.factors);
    }
    spec.weight.name = builder_.name;
    return graph_.add_linear(builder_.name, spec, input);
  }

  ValueId node_of(const Summand& summand) {
    if (summand.is_node()) return summand.node;
    if (!summand.is_even()) return scaled_columns(summand);
    const double factor = summand.factors[0];
    if (builder_.is_sum_of_rows(summand.node, factor)) {
      return graph_.add_select(builder_.name, SelectKind::kSum,
                               graph_.node(summand.node).inputs[0]);
    }
    const auto* embedding = graph_.as<EmbeddingNode>(summand.node);
    if (embedding == nullptr || embedding->positions) {
      return graph_.add(builder_.name + ".scale", ScaleNode{factor}, {summand.node});
    }
    EmbeddingNode scaled = *embedding;
    scaled.scale *= factor;
    return graph_.add_embedding(graph_.node(summand.node).name, std::move(scaled), width_,
                                graph_.axis(summand.node));
  }

  // Whether a constant with rows for all sequences has the same element in sequence 0. `values`
  // caches its elements.
  bool is_of_first_sequence(const ConstantRef& constant, const Term& term, uint32_t row,
                            uint32_t column, Array::Reals& values) const {
    const uint32_t tokens = is_of_tokens() ? builder_.sizes.tokens : 1;
    if (row < tokens || constant->is_large()) return false;
    const auto value_at = [&](uint32_t of_row) -> const double* {
      const int64_t number = term.places.at(element_[size_t{of_row} * width_ + column]);
      if (number == kNoElement || builder_.producer(number).table != constant) return nullptr;
      if (values.empty()) values = constant->array().to_reals();
      return &values[static_cast<size_t>(index_of(number))];
    };
    const double* const own = value_at(row);
    const double* const first = value_at(row % tokens);
    return own != nullptr && first != nullptr && *own == *first;
  }

  // Whether the number of rows is fixed, as for images, constants, and concatenations of inputs.
  bool has_fixed_rows() const {
    const uint32_t axis = graph_.axis(builder_.producer_at(producer_).node);
    return is_of_tokens() &&
           (builder_.reads_images() || graph_.inputs_of(axis) == 0 || graph_.joins_tokens(axis));
  }

  // Returns the constants that a term adds per row and column, [rows_, width_].
  std::vector<double> numbers_of_places(const Term& term) const {
    std::map<const Constant*, Array::Reals> tables;
    std::vector<double> each(element_.size(), 0.0);
    for (size_t place = 0; place < element_.size(); ++place) {
      if (element_[place] == kNoPlace) continue;
      const int64_t number = term.places.at(element_[place]);
      if (number == kNoElement) continue;
      const ConstantRef& constant = builder_.producer(number).table;
      const auto [known, is_new] = tables.try_emplace(constant.get());
      if (is_new) known->second = constant->array().to_reals();
      each[place] = term.factors.at(element_[place]) *
                    known->second.at(static_cast<size_t>(index_of(number)));
    }
    return each;
  }

  TablePart part_of(const Term& term) {
    const uint32_t tokens = builder_.sizes.tokens;
    TablePart part;
    Array::Reals values;  // of the constant, loaded on demand
    bool found = false;
    for (uint32_t c = 0; c < width_; ++c) {
      const size_t first_element = element_[size_t{first_row_} * width_ + c];
      const int64_t first = term.places.at(first_element);
      const double factor = term.factors.at(first_element);
      refuse_op_if<Cause::kSum>(
          first == kNoElement,
          "constants are added to some columns only; expected constants for all columns of a row");
      part.factors.push_back(factor);
      part.constant = builder_.producer(first).table;
      part.first_row.push_back(index_of(first));
      for (uint32_t r = first_row_ + 1; r < rows_; ++r) {
        if (!has_row(r)) continue;
        const size_t i = element_[size_t{r} * width_ + c];
        const int64_t position = is_of_tokens() ? r % tokens : 0;
        const int64_t step = term.places.at(i) - first;
        if (!found && position == 1) part.stride = step, found = true;
        // A row of a table is found by its position, so that the first row must be there.
        const bool is_in_table = (first_row_ == 0 || step == 0) &&
                                 (step == part.stride * position ||
                                  is_of_first_sequence(part.constant, term, r, c, values)) &&
                                 term.factors.at(i) == factor;
        if (!is_in_table && has_fixed_rows()) return part_of_places(numbers_of_places(term));
        refuse_op_if<Cause::kSum>(!is_in_table,
                                  "the added constants are no position table; expected the same "
                                  "row for all tokens, or one row per position");
      }
    }
    int64_t limit = part.constant->positions_max;
    // A constant that the tracer made cannot be recomputed at another length.
    const bool is_followed_alone = part.stride != 0 && part.constant->value() == kNoValue;
    if (limit == 0 && is_followed_alone) limit = tokens;
    builder_.limit_positions(limit);
    return part;
  }

  // Adds row 0 of the table to `row`. In a constant table all rows are equal.
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
    if (is_constant && (linear != nullptr || !is_of_tokens())) {
      LinearSpec spec =
          linear != nullptr ? linear->parts[0].linear : diagonal(std::vector<double>(width_, 1.0));
      spec.bias.resize(width_, 0.0);
      add_first_row(table, spec.bias);
      const ValueId input = linear != nullptr ? graph_.node(sum).inputs[0] : sum;
      return graph_.add_linear(builder_.name, spec, input);
    }
    const std::string name = embedding != nullptr ? graph_.node(sum).name : builder_.name;
    if (is_constant && embedding != nullptr && embedding->padding_id) {
      // The row is added to all rows of the position table.
      std::vector<double> row(width_, 0.0);
      add_first_row(table, row);
      EmbeddingNode shifted = *embedding;
      set_exact(*shifted.positions, [before = *embedding->positions, row] {
        std::vector<double> values = before.exact();
        for (size_t i = 0; i < values.size(); ++i) values[i] += row[i % row.size()];
        return values;
      });
      shifted.positions->name = builder_.name;
      return graph_.add_embedding(name, std::move(shifted), width_, graph_.axis(sum));
    }
    refuse_op_if(!is_of_tokens(),
                 "constants that are added to a pooled value differ between sequences; expected "
                 "the same for all");
    WeightRef positions;
    positions.columns = width_;
    positions.rows = builder_.sizes.tokens;
    positions.name = name_of(*builder_.program, *table.parts[0].constant);
    const bool joins = embedding != nullptr && !embedding->positions;
    EmbeddingNode made = joins ? *embedding : EmbeddingNode();
    made.positions = positions;
    table.node = graph_.add_embedding(joins ? name : builder_.name + ".positions", std::move(made),
                                      width_, graph_.axis(sum));
    builder_.tables.push_back(table);
    return joins ? table.node : graph_.add(builder_.name, AddNode{}, {sum, table.node});
  }

  // Merges token types, and positions that skip padding ids, into the token embedding in the sum.
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
      tokens->node = graph_.add_embedding(graph_.node(before).name, std::move(joined), width_,
                                          graph_.axis(before));
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
    const auto without_positions = std::ranges::find_if(summands, [&](const Summand& summand) {
      const auto* embedding = graph_.as<EmbeddingNode>(summand.node);
      return embedding != nullptr && embedding->tokens && !embedding->positions &&
             (summand.is_node() || (summand.is_even() && !embedding->types));
    });
    refuse_op_if(!positions->is_node(),
                 "an embedding of positions that skip padding has different factors in different "
                 "columns; expected one factor");
    if (without_positions == summands.end()) return;
    const double scale = without_positions->factors[0];
    without_positions->factors.assign(width_, 1.0);
    join(without_positions, positions, [&](EmbeddingNode& node, const EmbeddingNode& part) {
      node.scale *= scale;
      node.positions = part.positions;
      node.position_offset = part.position_offset;
      node.padding_id = part.padding_id;
    });
  }

  GraphBuilder& builder_;
  Graph& graph_;
  const Shape shape_;
  std::vector<Term> nodes_;   // terms with elements of nodes
  std::vector<Term> tables_;  // terms of constants
  LinearExprRef reference_;   // its rows and columns are those of the sum
  uint32_t producer_ = 0;     // of reference_
  uint32_t first_row_ = 0;    // the first row that the value has
  uint32_t rows_ = 0;
  uint32_t width_ = 0;
  std::vector<size_t> element_;  // [rows_ * width_]: index in the value, or kNoPlace
};

}  // namespace

namespace {

// Replaces terms that read one token of each sequence by per-sequence rows.
LinearExprRef with_per_sequence_rows(GraphBuilder& builder, const LinearExprRef& value) {
  std::vector<LinearExprRef> parts;
  for (const Term& term : value->terms) {
    if (builder.is_node(term.places.at(0))) {
      parts.push_back(make_sum({value->shape, {Term{term.places}}}));
    }
  }
  parts = rows_of_sequences(builder, std::move(parts), Combination::kSum);
  LinearExpr result = *value;
  size_t next = 0;
  for (Term& term : result.terms) {
    if (!builder.is_node(term.places.at(0))) continue;
    term.places = parts[next++]->terms[0].places;
  }
  return make_sum(std::move(result));
}

}  // namespace

LinearExprRef lower_sum(GraphBuilder& builder, const LinearExprRef& given) {
  const LinearExprRef value = with_per_sequence_rows(builder, without_repeats(given));
  SumBuilder sum(builder, *value);
  if (!sum.has_tables()) {
    if (const auto rotated = find_rotation(builder, *value)) {
      return stretched(*rotated, given->shape);
    }
  }
  return stretched(sum.build(), given->shape);
}

}  // namespace arenite::convert
