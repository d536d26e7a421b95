// SPDX-License-Identifier: Apache-2.0
// Adds the nodes of inputs and of ops: embeddings, norms, activations, pooling and position tables.
//
//   F.embedding(ids, table)  ->  embedding(ids) with a token table
//   F.layer_norm(x, ..)      ->  norm(x)
//   x.mean(1)                ->  select mean(x), one row per sequence

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "convert/exported/recover/graph_builder.h"
#include "convert/exported/recover/images.h"
#include "convert/exported/recover/row_matrices.h"
#include "convert/exported/recover/row_view.h"

namespace arenite::convert {

LinearExprRef ids_input(GraphBuilder& builder, Producer::Kind kind, Shape shape) {
  const uint32_t rows = builder.sizes.rows();
  return whole_producer(builder.add_producer({kind, 0, rows, 1, {}, 0}), std::move(shape));
}

LinearExprRef features_input(GraphBuilder& builder, Shape shape) {
  const auto width = static_cast<uint32_t>(shape.back());
  const ValueId node = builder.graph.add_features(width, builder.row_axis());
  return whole_producer(builder.producer_of_node(node, builder.sizes.rows()), std::move(shape));
}

LinearExprRef row_of_sequence(GraphBuilder& builder, const LinearExprRef& value, Shape shape) {
  const ValueId node = builder.producer(value->front()).node;
  const std::string& name = builder.graph.node(node).name;
  const ValueId one = builder.graph.add_select(name + ".row", SelectKind::kFirst, node);
  return whole_producer(builder.producer_of_node(one, builder.sizes.sequences), std::move(shape));
}

namespace {

// Replaces an epsilon of 0, and is too small to change a result: the square of the default of
// torch.nn.functional.normalize.
constexpr double kNormEpsilonMin = 1e-24;

// Applies an elementwise op, whose node `add` adds. REQUIRES: all elements are of one producer.
template <typename Add>
LinearExprRef each_element(GraphBuilder& builder, const LinearExprRef& value, const Add& add) {
  const Producer producer = builder.producer(value->at(0));
  refuse_op_if(producer.kind != Producer::Kind::kNode,
               "an op has only token ids, pixels or constants as input; expected features, or "
               "results of a layer");
  return replace_producer(value, producer_of(value->at(0)),
                          builder.producer_of_node(add(producer.node), producer.rows));
}

// Adds an embedding node. Element i of `ids` reads row rows[i] of the node.
LinearExprRef add_embedding_node(GraphBuilder& builder, EmbeddingNode node,
                                 const LinearExprRef& ids, std::vector<uint32_t> rows,
                                 uint32_t width) {
  const ValueId made = builder.graph.add_embedding(builder.name, std::move(node), width,
                                                   builder.graph.inputs[builder.row_axis()].axis);
  Shape shape = ids->shape;
  shape.push_back(0);
  if (builder.sizes.tokens == 1 && builder.row_axes() > 1) {
    shape.back() = width;
    return row_of_sequence(
        builder, whole_producer(builder.producer_of_node(made, builder.sizes.rows()), shape),
        shape);
  }
  return on_rows(builder, {made, width, std::move(rows), builder.sizes.rows()}, shape, made, width);
}

// Appends zero rows, which no id of the program looks up.
WeightRef pad_with_zero_rows(const WeightRef& weight, uint32_t rows) {
  if (weight.rows == rows) return weight;
  WeightRef longer;
  longer.name = weight.name;
  longer.rows = rows;
  longer.columns = weight.columns;
  set_exact(longer, [weight, count = size_t{rows} * weight.columns] {
    std::vector<double> values = weight.exact();
    values.resize(count, 0.0);
    return values;
  });
  return longer;
}

// Pads `table`, and all token tables of its input, to the rows of the longest, for programs with a
// table for each position of a sequence.
WeightRef pad_all_tables(GraphBuilder& builder, WeightRef table) {
  GraphInput& input = builder.graph.inputs[builder.row_axis()];
  const uint32_t rows = std::max(input.vocab_size, table.rows);
  input.vocab_size = rows;
  for (const ValueId value : builder.graph.order()) {
    auto* other = builder.graph.as<EmbeddingNode>(value);
    const bool is_of_input = other != nullptr && builder.graph.axis(value) == input.axis;
    if (is_of_input && other->tokens) other->tokens = pad_with_zero_rows(*other->tokens, rows);
  }
  return pad_with_zero_rows(table, rows);
}

}  // namespace

LinearExprRef embedding(GraphBuilder& builder, const ConstantRef& table, const LinearExprRef& ids) {
  const TraceSizes& sizes = builder.sizes;
  const size_t count = ids->elements();
  const Producer::Kind kind =
      count == 0 ? Producer::Kind::kTable : builder.producer(ids->at(0)).kind;
  const bool are_types = kind == Producer::Kind::kTypes;
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < count; ++i) {
    const bool is_id = kind == Producer::Kind::kTokens || are_types;
    refuse_op_if(!ids->is_plain() || builder.producer(ids->at(i)).kind != kind || !is_id,
                 "the lookup indices are not token ids; expected the model's input unchanged");
    rows.push_back(static_cast<uint32_t>(index_of(ids->at(i))));
  }
  WeightRef weight = weight_of(builder.program, table, false);
  GraphInput& input = builder.graph.inputs[builder.row_axis()];
  uint32_t& rows_max = are_types ? input.token_types : input.vocab_size;
  if (count < sizes.rows() && !are_types) {
    weight = pad_all_tables(builder, std::move(weight));
    input.ids_of_places.resize(sizes.tokens, UINT32_MAX);
    for (const uint32_t row : rows) {
      uint32_t& ids_end = input.ids_of_places[row % sizes.tokens];
      ids_end = std::min(ids_end, static_cast<uint32_t>(table->shape()[0]));
    }
  }
  refuse_op_if(rows_max != 0 && rows_max != weight.rows,
               "token ids are looked up in tables of different lengths; expected as many rows in "
               "each table");
  rows_max = weight.rows;
  EmbeddingNode node;
  (are_types ? node.types : node.tokens) = weight;
  return add_embedding_node(builder, std::move(node), ids, std::move(rows), weight.columns);
}

LinearExprRef padded_positions(GraphBuilder& builder, const ConstantRef& table,
                               const LinearExprRef& ids, int64_t padding) {
  EmbeddingNode node;
  node.positions = weight_of(builder.program, table, false);
  node.position_offset = static_cast<uint32_t>(padding + 1);
  node.padding_id = static_cast<uint32_t>(padding);
  builder.limit_positions(table->shape()[0] - padding - 1);
  std::vector<uint32_t> rows;
  for (size_t i = 0, count = ids->elements(); i < count; ++i) {
    rows.push_back(static_cast<uint32_t>(index_of(ids->at(i))));
  }
  const uint32_t width = node.positions->columns;
  return add_embedding_node(builder, std::move(node), ids, std::move(rows), width);
}

LinearExprRef norm(GraphBuilder& builder, const LinearExprRef& given, NormSpec spec) {
  refuse_op_if(!(spec.epsilon >= 0.0) || !std::isfinite(static_cast<float>(spec.epsilon)),
               "epsilon is negative, infinite or NaN; expected a small number of at least 0");
  spec.epsilon = std::max(spec.epsilon, kNormEpsilonMin);
  const LinearExprRef value =
      on_one_producer(builder, as_windows(builder, builder.materialised(given)));
  const size_t width = spec.gain.size();
  // The columns may be permuted, if all rows have the same order.
  std::vector<uint32_t> order(width);
  std::vector<bool> is_there(width, false);
  for (size_t i = 0; i < width && i < value->elements(); ++i) {
    order[i] = static_cast<uint32_t>(builder.column_of(value->at(i)).second % width);
    is_there[order[i]] = true;
  }
  const bool is_complete = std::ranges::count(is_there, false) == 0;
  for (size_t i = 0, count = value->elements(); i < count; ++i) {
    const int64_t first = value->at(i) - order[i % width];
    const bool in_line = is_complete && builder.column_of(first).second % width == 0 &&
                         first == value->at(i - i % width) - order[0] &&
                         producer_of(first) == producer_of(value->at(0));
    refuse_op_if(!in_line,
                 "the normalized columns are not contiguous in the layer before; expected all "
                 "columns of a row, or of a head");
  }
  const NormSpec given_spec = spec;
  for (size_t i = 0; i < width; ++i) {
    spec.gain[order[i]] = given_spec.gain[i];
    if (!spec.bias.empty()) spec.bias[order[i]] = given_spec.bias[i];
  }
  return each_element(builder, value, [&](ValueId input) {
    return builder.graph.add_norm(builder.name, spec, input);
  });
}

LinearExprRef normalize(GraphBuilder& builder, const LinearExprRef& given, NormKind kind) {
  return each_kind_of_row(builder, given, [&](const LinearExprRef& value) {
    const RowView rows = rows_of(builder, value);
    const ValueId node = builder.graph.add(builder.name, RowFunctionNode{kind}, {rows.node});
    return on_rows(builder, rows, value->shape, node, rows.width);
  });
}

LinearExprRef activation(GraphBuilder& builder, const LinearExprRef& given, ActivationNode body) {
  LinearExprRef value = builder.materialised(given);
  // After a layer over tokens, the value may read only some elements of the node.
  bool is_of_one = builder.fixes_rows && value->is_plain();
  for (size_t i = 0; i < value->elements() && is_of_one; ++i) {
    is_of_one =
        builder.is_node(value->at(i)) && producer_of(value->at(i)) == producer_of(value->at(0));
  }
  if (!is_of_one) value = on_one_producer(builder, value);
  return each_element(builder, value, [&](ValueId input) {
    return builder.graph.add(builder.name, body, {input});
  });
}

namespace {

constexpr size_t kSummedTokensMax = 16;

// Lowers a mean over a few tokens along the last dimension to a sum of select nodes; nullopt for
// other values.
std::optional<LinearExprRef> mean_of_some(GraphBuilder& builder, const LinearExprRef& value) {
  const auto tokens = static_cast<size_t>(value->shape.back());
  const TraceSizes& sizes = builder.sizes;
  if (tokens > kSummedTokensMax) return std::nullopt;
  Shape shape = value->shape;
  shape.pop_back();
  LinearExprRef mean;
  for (size_t t = 0; t < tokens; ++t) {
    std::vector<int64_t> element_ids;
    for (size_t i = t; i < value->elements(); i += tokens) {
      const int64_t number = value->at(i);
      if (!builder.is_node(number) || builder.producer(number).rows != sizes.rows())
        return std::nullopt;
      const uint32_t row = builder.row_of(number);
      const auto [from, column] = builder.column_of(number);
      const uint32_t to = builder.selected_at(from, row % sizes.tokens);
      element_ids.push_back(
          element_id(to, uint64_t{row / sizes.tokens} * builder.producer_at(to).width + column));
    }
    const LinearExprRef one = plain(shape, std::move(element_ids));
    mean = mean == nullptr ? one : sum(mean, one, 1.0);
  }
  return scaled(mean, 1.0 / static_cast<double>(tokens));
}

}  // namespace

LinearExprRef pooled(GraphBuilder& builder, const LinearExprRef& given, size_t axis,
                     SelectKind kind) {
  const TraceSizes& sizes = builder.sizes;
  LinearExprRef whole = builder.materialised(given);
  if (builder.fixes_rows) {
    if (const auto windows = pooled_windows(builder, whole, axis, kind)) return *windows;
    const bool is_mean = kind == SelectKind::kMean;
    if (const auto means = is_mean ? mean_of_groups(builder, whole, axis) : std::nullopt) {
      return *means;
    }
  }
  const uint32_t tokens = static_cast<uint32_t>(whole->shape[axis]);
  if (tokens >= sizes.tokens) whole = on_one_producer(builder, whole);
  std::vector<size_t> order(whole->shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  order.erase(order.begin() + static_cast<ptrdiff_t>(axis));
  order.push_back(axis);
  const LinearExprRef value = permuted(whole, order);
  if (tokens < sizes.tokens && kind == SelectKind::kMean) {
    if (const auto mean = mean_of_some(builder, value)) return *mean;
  }
  const uint32_t from = producer_of(value->at(0));
  const uint32_t width = builder.producer_at(from).width;
  refuse_op_if(tokens != sizes.tokens || builder.producer_at(from).rows != sizes.rows(),
               "some tokens, or some columns of theirs, are pooled; expected all, so output all "
               "tokens and pool them in your program");
  const uint32_t to = builder.selected(from, kind);
  // The order of tokens matters only to select the first or the last.
  const bool is_of_set = kind == SelectKind::kMean || kind == SelectKind::kMax;
  std::vector<bool> is_seen(tokens);
  std::vector<int64_t> made;
  for (size_t i = 0, count = value->elements(); i < count; ++i) {
    const int64_t number = value->at(i);
    const uint32_t row = builder.row_of(number);
    const int64_t place =
        element_id(to, uint64_t{row / sizes.tokens} * width + builder.column_of(number).second);
    if (i % tokens == 0) {
      made.push_back(place);
      is_seen.assign(tokens, false);
    }
    const uint32_t token = row % sizes.tokens;
    const bool fits = !is_seen[token] && (is_of_set || token == i % tokens);
    refuse_op_if(!fits || made.back() != place || producer_of(number) != from, kMixesTokens);
    is_seen[token] = true;
  }
  Shape shape = value->shape;
  shape.pop_back();
  return plain(std::move(shape), std::move(made));
}

LinearExprRef table_rows(GraphBuilder& builder, const ConstantRef& table, Shape shape,
                         const std::vector<int64_t>& rows) {
  const int64_t width = table->shape()[1];
  const LinearExprRef whole = builder.constant_expr(table);
  std::vector<int64_t> element_ids;
  for (const int64_t row : rows) {
    refuse_op_if(row < 0 || row >= table->shape()[0],
                 "a lookup index is outside the table; expected 0 to its number of rows less 1");
    for (int64_t c = 0; c < width; ++c) {
      element_ids.push_back(whole->at(static_cast<size_t>(row * width + c)));
    }
  }
  const bool are_positions = builder.sizes.tokens > 1 && rows.size() > 1 && rows[0] != rows[1];
  if (are_positions) builder.limit_positions(table->shape()[0] - rows[0]);
  shape.push_back(width);
  return plain(std::move(shape), std::move(element_ids));
}

void fill_position_tables(GraphBuilder& builder, const std::vector<uint32_t>& positions,
                          const ConstantAt& constant_at) {
  std::vector<uint32_t> tokens_of_all = positions;  // at least 1: constant rows exist at any length
  for (uint32_t& tokens : tokens_of_all) tokens = std::max(1u, tokens);
  for (const PositionTable& table : builder.tables) {
    const ScopedAxis on(builder, table.row_axis);
    const bool is_of_input = table.row_axis < positions.size();
    WeightRef& weight = *builder.graph.as<EmbeddingNode>(table.node)->positions;
    const uint32_t columns = weight.columns;
    const uint32_t axis = builder.graph.axis(table.node);
    const uint32_t tokens = builder.traced_rows(axis);
    const uint32_t rows_max = is_of_input ? builder.rows_of_tokens(positions[table.row_axis], axis)
                                          : builder.graph.all_rows(tokens_of_all)[axis];
    refuse_op_if(uint64_t{rows_max} * columns > ElementLimit::current(),
                 "the position table has {} rows of {} columns, which is too large; pass --context "
                 "N with the number of positions that you need",
                 rows_max, columns);
    weight.rows = rows_max;
    set_exact(weight, [table, columns, rows_max, tokens, constant_at] {
      std::vector<double> rows(size_t{rows_max} * columns, 0.0);
      for (const TablePart& part : table.parts) {
        const bool is_as_traced =
            part.stride == 0 || rows_max == tokens || part.constant->value() == kNoValue;
        // Only the extent of the dimension of positions may change: dimensions before it have
        // extent 1.
        const Array::Reals values =
            (is_as_traced ? part.constant->array() : constant_at(part.constant->value()))
                .to_reals();
        for (size_t i = 0; i < rows.size(); ++i) {
          const size_t c = i % columns;
          const auto row = static_cast<int64_t>(i / columns);
          const auto index = static_cast<size_t>(part.first_row[c] + row * part.stride);
          refuse_op_if(index >= values.size(),
                       "a position table has fewer rows than the input has positions; pass a "
                       "smaller --context");
          rows[i] += part.factors[c] * values[index];
        }
      }
      return rows;
    });
  }
}

}  // namespace arenite::convert
