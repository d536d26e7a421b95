// SPDX-License-Identifier: Apache-2.0
// Adds the nodes of inputs and of ops: prefix rows, embeddings, norms, activations, pooling and
// position tables.
//
//   torch.cat([cls.expand(b, 1, -1), x], 1)  ->  join(constants [1, columns], x)
//   F.layer_norm(x, ..)                      ->  norm(x)
//   x.mean(1)                                ->  select mean(x), one row per sequence

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
  const uint32_t rows = builder.sizes.sequences * (builder.sizes.tokens - builder.sizes.prefix);
  return whole_producer(builder.add_producer({kind, 0, rows, 1, {}, 0}), std::move(shape));
}

LinearExprRef features_input(GraphBuilder& builder, Shape shape) {
  const auto width = static_cast<uint32_t>(shape.back());
  RowView rows{
      builder.graph.add_features(width, builder.row_axis()), width, {}, builder.sizes.rows()};
  for (uint32_t row = 0; row < rows.count; ++row) {
    if (!builder.sizes.is_of_prefix(row)) rows.rows.push_back(row);
  }
  return on_rows(builder, rows, shape, rows.node, width);
}

LinearExprRef row_of_sequence(GraphBuilder& builder, const LinearExprRef& value, Shape shape) {
  const ValueId node = builder.producer(value->front()).node;
  const std::string& name = builder.graph.node(node).name;
  const ValueId one = builder.graph.add_select(name + ".row", SelectKind::kFirst, node);
  return whole_producer(builder.producer_of_node(one, builder.sizes.sequences), std::move(shape));
}

// ---- constant rows that a program prepends to each sequence, by whatever op ----

namespace {

// A row before the tokens: constants, a per-sequence row, or a row that the node has already.
struct PrefixRow {
  std::vector<double> constants{};  // [width]; or empty
  bool is_padding = false;          // zeros of F.pad, not of a weight
  std::vector<Column> pooled{};     // columns of a per-sequence row; or empty
  uint32_t node_row = 0;            // within the sequence

  bool is_new() const { return !constants.empty() || !pooled.empty(); }

  friend bool operator==(const PrefixRow&, const PrefixRow&) = default;
};

// The rows of a value before each sequence's tokens, equal in all sequences.
struct Prefix {
  std::vector<PrefixRow> rows;
  std::vector<Column> columns;  // of rows read from the node
  std::string name;             // of the constants
};

class PrefixReader {
 public:
  PrefixReader(const GraphBuilder& builder, const LinearExpr& value)
      : builder_(builder), value_(value), width_(static_cast<size_t>(value.shape.back())) {}

  // Returns nullopt for any other value.
  std::optional<Prefix> read() {
    const TraceSizes& sizes = builder_.sizes;
    const size_t rows = value_.elements() / width_;
    const size_t tokens = sizes.tokens - sizes.prefix;
    const size_t each = rows / sizes.sequences;
    if (rows % sizes.sequences != 0 || each <= tokens) return std::nullopt;
    const size_t before = each - tokens;
    for (size_t row = 0; row < rows; ++row) {
      const size_t place = row % each;
      auto found = read_row(row * width_, row / each);
      if (!found) return std::nullopt;
      if (place >= before) {
        const bool is_token = !found->is_new() && found->node_row == sizes.prefix + place - before;
        if (!is_token) return std::nullopt;
      } else if (row < each) {
        prefix_.rows.push_back(std::move(*found));
      } else if (prefix_.rows[place] != *found) {
        return std::nullopt;
      }
    }
    if (read_) prefix_.name = name_of(*builder_.program, *read_);
    return prefix_;
  }

 private:
  std::optional<PrefixRow> read_row(size_t begin, size_t sequence) {
    const size_t first = sequence * builder_.sizes.tokens;
    PrefixRow row;
    if (const auto found = producer_row(builder_, value_, begin, width_)) {
      const auto is_per_sequence = [&](const Column& column) {
        return builder_.is_per_sequence(builder_.producer_at(column.first));
      };
      if (std::ranges::all_of(found->columns, is_per_sequence)) {
        if (found->row != sequence) return {};
        row.pooled = found->columns;
        return row;
      }
      const Producer& from = builder_.producer(value_.at(begin));
      if (from.kind != Producer::Kind::kNode || from.rows != builder_.sizes.rows()) return {};
      if (prefix_.columns.empty()) prefix_.columns = found->columns;
      row.node_row = found->row - static_cast<uint32_t>(first);
      const bool fits = found->row >= first && row.node_row < builder_.sizes.tokens;
      if (!fits || found->columns != prefix_.columns) return {};
      return row;
    }
    row.is_padding = true;
    for (size_t i = begin; i < begin + width_; ++i) {
      const int64_t number = value_.at(i);
      const bool is_zero = number == kNoElement;
      if (!is_zero && builder_.producer(number).kind != Producer::Kind::kTable) return {};
      row.constants.push_back(is_zero ? 0.0 : constant(number));
      const bool is_stored = !is_zero && builder_.producer(number).table->stored != nullptr;
      row.is_padding = row.is_padding && !is_stored && row.constants.back() == 0.0;
    }
    return row;
  }

  double constant(int64_t number) {
    const ConstantRef& table = builder_.producer(number).table;
    if (table != read_) values_ = (read_ = table)->array().to_reals();
    return values_.at(static_cast<size_t>(index_of(number)));
  }

  const GraphBuilder& builder_;
  const LinearExpr& value_;
  const size_t width_;
  Prefix prefix_;
  ConstantRef read_;  // the most recent one
  Array::Reals values_;
};

}  // namespace

namespace {

// Prepends the rows of a prefix to `node`. Rows that it has already, from place `first` on, are
// whole parts of a concatenation.
ValueId with_constants(GraphBuilder& builder, const Prefix& prefix, uint32_t first, ValueId node) {
  const auto is_new = [&](size_t i) { return prefix.rows[i].is_new(); };
  const auto is_constant = [&](size_t i) { return !prefix.rows[i].constants.empty(); };
  const uint32_t begin = builder.first_place(node);
  const uint32_t end = begin + builder.constants_of(node);
  // The last rows that the node has already stay as they are.
  size_t count = prefix.rows.size();
  while (count > 0 && !is_new(count - 1)) --count;
  const auto kept = static_cast<uint32_t>(prefix.rows.size() - count);
  const bool is_at_end = kept == 0 || first + prefix.rows.size() == end;
  refuse_op_if(kept > end - begin || !is_at_end,
               "cannot insert constant rows within the prefix; concatenate them before it");
  ValueId result = builder.without_first(node, end - begin - kept);
  while (count > 0) {
    const size_t last = count;
    const bool are_constants = is_constant(count - 1);
    const std::vector<Column>& pooled = prefix.rows[count - 1].pooled;
    --count;
    while (pooled.empty() && count > 0 && prefix.rows[count - 1].pooled.empty() &&
           is_constant(count - 1) == are_constants) {
      --count;
    }
    ValueId rows = 0;
    if (!pooled.empty()) {
      rows = builder.gather(pooled);
    } else if (are_constants) {
      std::vector<double> values;
      for (size_t i = count; i < last; ++i) {
        const std::vector<double>& row = prefix.rows[i].constants;
        values.insert(values.end(), row.begin(), row.end());
      }
      WeightRef weight;
      weight.name = prefix.name.empty() ? builder.name : prefix.name;
      weight.rows = static_cast<uint32_t>(last - count);
      weight.columns = builder.graph.width(node);
      set_exact(weight, [values] { return values; });
      rows = builder.graph.add_constants(builder.name + ".rows", weight);
    } else {
      rows = builder.first_rows(
          builder.without_first(node, first + static_cast<uint32_t>(count) - begin),
          static_cast<uint32_t>(last - count));
    }
    result = builder.graph.add_join(builder.name, rows, result);
  }
  return result;
}

}  // namespace

LinearExprRef prefixed(GraphBuilder& builder, const LinearExprRef& value) {
  if (!value->is_plain() || value->terms[0].places.is_whole() || value->shape.empty() ||
      value->elements() == 0) {
    return value;
  }
  const auto prefix = PrefixReader(builder, *value).read();
  if (!prefix || std::ranges::none_of(prefix->rows, &PrefixRow::is_new)) return value;
  const TraceSizes& sizes = builder.sizes;
  // Padding may be cut off again, as in a shift by one token.
  if (sizes.prefix == 0 && std::ranges::all_of(prefix->rows, &PrefixRow::is_padding)) return value;
  const auto count = static_cast<uint32_t>(prefix->rows.size());
  if (count > sizes.prefix) {
    builder.found = {.row_axis = builder.row_axis(), .prefix = count};
    throw NotRecognised("constant rows precede the tokens");
  }
  // If more rows are prepended later, these are the first or the last.
  const uint32_t first = sizes.puts_last_first ? sizes.prefix - count : 0;
  for (uint32_t i = 0; i < count; ++i) {
    refuse_op_if(!prefix->rows[i].is_new() && prefix->rows[i].node_row != first + i,
                 "cannot insert constant rows within the prefix; concatenate them before it");
  }
  const auto width = static_cast<uint32_t>(value->shape.back());
  const ValueId node = with_constants(builder, *prefix, first, builder.gather(prefix->columns));
  RowView made{node, width, {}, sizes.rows()};
  for (uint32_t row = 0; row < sizes.rows(); ++row) {
    const uint32_t place = row % sizes.tokens;
    const bool is_missing = place < sizes.prefix && (place < first || place >= first + count);
    if (!is_missing) made.rows.push_back(row);
  }
  return on_rows(builder, made, value->shape, node, width);
}

namespace {

// Replaces an epsilon of 0 without effect on any row: the square of the default of
// torch.nn.functional.normalize.
constexpr double kNormEpsilonMin = 1e-24;

// Applies an elementwise op, whose node `add` adds, to `value`, all of one producer.
template <typename Add>
LinearExprRef each_element(GraphBuilder& builder, const LinearExprRef& value, const Add& add) {
  const Producer producer = builder.producer(value->at(0));
  refuse_op_if(producer.kind != Producer::Kind::kNode,
               "cannot compute with only token ids, pixels or constants; expected features, or "
               "results of a layer");
  return in_place(value, producer_of(value->at(0)),
                  builder.producer_of_node(add(producer.node), producer.rows));
}

// Adds an embedding; its rows for the elements of `ids` are `rows`.
LinearExprRef embedded(GraphBuilder& builder, EmbeddingNode node, const LinearExprRef& ids,
                       std::vector<uint32_t> rows, uint32_t width) {
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

// Appends rows of zeros, which no id of the author's looks up.
WeightRef with_rows(const WeightRef& weight, uint32_t rows) {
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

// Pads all tables of an input to the longest where each serves some places of a sequence, such as
// one table for each column.
WeightRef with_rows_of_all(GraphBuilder& builder, WeightRef table) {
  GraphInput& input = builder.graph.inputs[builder.row_axis()];
  const uint32_t rows = std::max(input.vocab_size, table.rows);
  input.vocab_size = rows;
  for (const ValueId value : builder.graph.order()) {
    auto* other = builder.graph.as<EmbeddingNode>(value);
    const bool is_of_input = other != nullptr && builder.graph.axis(value) == input.axis;
    if (is_of_input && other->tokens) other->tokens = with_rows(*other->tokens, rows);
  }
  return with_rows(table, rows);
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
                 "the lookup indices are not the token ids; expected the ids unchanged");
    const auto token = static_cast<uint32_t>(index_of(ids->at(i)));
    const uint32_t sequence = token / (sizes.tokens - sizes.prefix);
    rows.push_back(token + (sequence + 1) * sizes.prefix);
  }
  WeightRef weight = weight_of(builder.program, table, false);
  GraphInput& input = builder.graph.inputs[builder.row_axis()];
  uint32_t& rows_max = are_types ? input.token_types : input.vocab_size;
  if (count < sizes.rows() && !are_types && sizes.prefix == 0) {
    weight = with_rows_of_all(builder, std::move(weight));
    input.ids_of_places.resize(sizes.tokens, UINT32_MAX);
    for (const uint32_t row : rows) {
      uint32_t& ids_end = input.ids_of_places[row % sizes.tokens];
      ids_end = std::min(ids_end, static_cast<uint32_t>(table->shape()[0]));
    }
  }
  refuse_op_if(rows_max != 0 && rows_max != weight.rows,
               "token ids are looked up in tables of different lengths; expected one vocabulary");
  rows_max = weight.rows;
  EmbeddingNode node;
  (are_types ? node.types : node.tokens) = weight;
  return embedded(builder, std::move(node), ids, std::move(rows), weight.columns);
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
  return embedded(builder, std::move(node), ids, std::move(rows), width);
}

LinearExprRef norm(GraphBuilder& builder, const LinearExprRef& given, NormSpec spec) {
  refuse_op_if(!(spec.epsilon >= 0.0) || !std::isfinite(static_cast<float>(spec.epsilon)),
               "epsilon is negative, infinite or NaN; expected a small number");
  spec.epsilon = std::max(spec.epsilon, kNormEpsilonMin);
  const LinearExprRef value =
      on_one_producer(builder, as_windows(builder, builder.materialised(given)));
  const size_t width = spec.gain.size();
  // The columns of a run may be permuted, equally in each row.
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
                 "cannot normalize columns that are not contiguous in the layer before; expected "
                 "each row side by side");
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
  // Layers over tokens may leave some elements of a node out.
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

// Returns the mean of a few tokens along the last dimension; nullopt if they are too many.
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
  // The rows are all rows, or all but the first ones of a prefix.
  const uint32_t tokens = static_cast<uint32_t>(whole->shape[axis]);
  const uint32_t first_row = tokens < sizes.tokens ? sizes.tokens - tokens : 0;
  if (first_row == 0) whole = on_one_producer(builder, whole);
  std::vector<size_t> order(whole->shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  order.erase(order.begin() + static_cast<ptrdiff_t>(axis));
  order.push_back(axis);
  const LinearExprRef value = permuted(whole, order);
  if (first_row > sizes.prefix && kind == SelectKind::kMean) {
    if (const auto mean = mean_of_some(builder, value)) return *mean;
  }
  const uint32_t from = producer_of(value->at(0));
  const uint32_t width = builder.producer_at(from).width;
  refuse_op_if(first_row > sizes.prefix || tokens > sizes.tokens ||
                   builder.producer_at(from).rows != sizes.rows(),
               "cannot pool some of the tokens, or some of their columns; output all tokens, and "
               "pool in your program");
  const uint32_t to = builder.selected(from, kind, first_row);
  // The order of tokens matters only for the first and the last one.
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
    const uint32_t token = row % sizes.tokens - first_row;  // wraps around before the first row
    const bool fits = token < tokens && !is_seen[token] && (is_of_set || token == i % tokens);
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
  const LinearExprRef whole = builder.of_constant(table);
  std::vector<int64_t> element_ids;
  for (const int64_t row : rows) {
    refuse_op_if(
        row < 0 || row >= table->shape()[0],
        "the lookup reads rows outside its table; expected indices below its number of rows");
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
  std::vector<uint32_t> tokens_of_all = positions;  // constant rows exist at any length
  for (uint32_t& tokens : tokens_of_all) tokens = std::max(1u, tokens);
  for (const PositionTable& table : builder.tables) {
    const ScopedAxis on(builder, table.row_axis);
    const bool is_of_input = table.row_axis < positions.size();
    WeightRef& weight = *builder.graph.as<EmbeddingNode>(table.node)->positions;
    const uint32_t columns = weight.columns;
    const uint32_t axis = builder.graph.axis(table.node);
    const uint32_t tokens = builder.traced_rows(axis) + builder.sizes.prefix;
    const uint32_t rows_max =
        (is_of_input ? builder.rows_of_tokens(positions[table.row_axis], axis)
                     : builder.graph.all_rows(tokens_of_all)[axis] - builder.sizes.prefix) +
        builder.sizes.prefix;
    refuse_op_if(uint64_t{rows_max} * columns > ElementLimit::current(),
                 "the table of {} positions of {} columns is too large; pass --context N, the "
                 "positions that you need",
                 rows_max, columns);
    // Only the places of the prefix that the node has are kept.
    const uint32_t first = builder.first_place(table.node);
    const uint32_t end = first + builder.constants_of(table.node);
    std::vector<size_t> places;
    for (size_t p = first; p < end; ++p) places.push_back(p);
    for (size_t p = builder.sizes.prefix; p < rows_max; ++p) places.push_back(p);
    weight.rows = static_cast<uint32_t>(places.size());
    set_exact(weight, [table, columns, rows_max, tokens, places, constant_at] {
      std::vector<double> rows(places.size() * columns, 0.0);
      for (const TablePart& part : table.parts) {
        const bool is_as_traced =
            part.stride == 0 || rows_max == tokens || part.constant->value() == kNoValue;
        // Dimensions after that of positions keep their extent, and those before it have extent 1.
        const Array::Reals values =
            (is_as_traced ? part.constant->array() : constant_at(part.constant->value()))
                .to_reals();
        const size_t prefix = part.prefix_rows.size();
        const auto missing = std::ranges::count(part.prefix_rows, -1);
        for (size_t to = 0; to < places.size(); ++to) {
          const size_t p = places[to];
          const int64_t row = p < prefix ? part.prefix_rows[p] : static_cast<int64_t>(p) - missing;
          if (row < 0) continue;
          for (size_t c = 0; c < columns; ++c) {
            const auto index = static_cast<size_t>(part.first_row[c] + row * part.stride);
            refuse_op_if(index >= values.size(),
                         "a position table is too short; expected a row for each position");
            rows[to * columns + c] += part.factors[c] * values[index];
          }
        }
      }
      return rows;
    });
  }
}

}  // namespace arenite::convert
