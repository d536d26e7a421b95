// SPDX-License-Identifier: Apache-2.0
// The nodes of inputs and of ops: images that are cut, rows of constants before tokens, embeddings,
// norms, activations and pooling.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "convert/exported/recover/graph_builder.h"
#include "convert/graph/interpreter.h"

namespace arenite::convert {

ElementSumRef ids_input(GraphBuilder& builder, Source::Kind kind, Shape shape) {
  const uint32_t rows = builder.sizes.sequences * (builder.sizes.tokens - builder.sizes.prefix);
  return whole_source(builder.add_source({kind, 0, rows, 1, {}}), std::move(shape));
}

ElementSumRef features_input(GraphBuilder& builder, Shape shape) {
  const auto width = static_cast<uint32_t>(shape.back());
  NodeRows rows{builder.graph.add_features(width), width, {}, builder.sizes.rows()};
  for (uint32_t row = 0; row < rows.count; ++row) {
    if (!builder.sizes.is_of_prefix(row)) rows.rows.push_back(row);
  }
  return on_rows(builder, rows, shape, rows.node, width);
}

// Images that are cut into patches, by whatever ops: seen by which elements stand in a row.

namespace {

constexpr const char* kNoPatches =
    "it cuts the input into something else than blocks of one size that lie side by side, read "
    "line by line: not supported are blocks that overlap or leave some out. Where the model "
    "transposes its input first, export it for a transposed example, and without that";

// Elements of images, `width` in a row, as elements of rows of their patches; nothing where a row
// is anything else. The order of the columns may be any, the same in each row.
std::optional<std::vector<int64_t>> in_patches(const ImagePatches& cut,
                                               std::vector<int64_t> numbers, size_t width) {
  const size_t patches = cut.patches().value(), pixels = cut.pixels().value();
  std::vector<float> image(pixels);
  std::iota(image.begin(), image.end(), 0.0f);
  const Rows elements = patches_of(cut, image);  // by their numbers, [patches, width]
  std::map<int64_t, size_t> column_at;
  for (size_t c = 0; c < width; ++c) column_at[static_cast<int64_t>(elements[c])] = c;
  std::vector<size_t> columns(width);
  for (size_t c = 0; c < width; ++c) {
    columns[c] = column_at[numbers[c] % static_cast<int64_t>(pixels)];
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t row = i / width, column = columns[i % width];
    const auto first = static_cast<int64_t>(row / patches * pixels);
    const double element = elements[row % patches * width + column];
    if (numbers[i] != first + static_cast<int64_t>(element)) return {};
    numbers[i] = static_cast<int64_t>(row * width + column);
  }
  return numbers;
}

// The patches that rows of `width` elements are. An image may have its channels first or last, and
// may be a series of numbers.
ImagePatches find_patches(const GraphBuilder& builder, const std::vector<int64_t>& numbers,
                          size_t width) {
  std::vector<int64_t> offsets(numbers.begin(), numbers.begin() + static_cast<ptrdiff_t>(width));
  std::ranges::sort(offsets);
  const Shape& image = builder.images_shape;
  const auto product = [&](size_t begin, size_t end) {
    int64_t extent = 1;
    for (size_t d = begin; d < end; ++d) extent *= image[d];
    return static_cast<uint32_t>(extent);
  };
  const size_t rank = image.size();
  const ImagePatches views[] = {
      {product(0, rank < 3 ? rank - 1 : rank - 2), rank < 3 ? 1 : product(rank - 2, rank - 1),
       product(rank - 1, rank)},
      {1, product(0, 1), product(1, rank)},
      {1, 1, product(0, rank)}};
  for (ImagePatches cut : views) {
    uint32_t run = 1;
    while (run < width && run < cut.width && offsets[run] == offsets[0] + run) ++run;
    const size_t lines = width / run / cut.channels;
    if (lines == 0 || lines > cut.height || run > cut.width) continue;
    cut.patch_width = run;
    cut.patch_height = static_cast<uint32_t>(lines);
    const bool fits = cut.row_width().value() == width &&
                      cut.patches().value() * builder.sizes.sequences * width == numbers.size();
    if (fits && in_patches(cut, numbers, width)) return cut;
  }
  throw NotRecognised(kNoPatches, Cause::kInput);
}

}  // namespace

ElementSumRef images_input(GraphBuilder& builder, Shape shape,
                           const std::optional<ImagePatches>& patches) {
  const uint32_t sequences = builder.sizes.sequences;
  const auto elements = static_cast<uint32_t>(elements_of(shape) / sequences);
  builder.images = builder.add_source({Source::Kind::kImages, 0, sequences, elements, {}});
  builder.images_shape = Shape(shape.begin() + 1, shape.end());
  if (patches) {
    builder.image = *patches;
    const ValueId node =
        builder.graph.add_features(static_cast<uint32_t>(patches->row_width().value()));
    builder.graph.as<FeaturesNode>(node)->patches = *patches;
    builder.patches = builder.source_of_node(node, builder.sizes.rows());
  }
  return whole_source(builder.images, std::move(shape));
}

ElementSumRef as_patches(GraphBuilder& builder, const ElementSumRef& value) {
  if (builder.images == 0 || value->shape.empty() || value->elements() == 0) return value;
  const auto is_of_images = [&](const Term& term) {
    return source_of(term.places.at(0)) == builder.images;
  };
  if (std::ranges::none_of(value->terms, is_of_images)) return value;
  const TraceSizes& sizes = builder.sizes;
  const auto width = static_cast<size_t>(value->shape.back());
  ElementSum result = *value;
  for (Term& term : result.terms) {
    if (!is_of_images(term)) continue;
    std::vector<int64_t> numbers(value->elements());
    for (size_t i = 0; i < numbers.size(); ++i) {
      refuse_op_if<Cause::kInput>(source_of(term.places.at(i)) != builder.images, kNoPatches);
      numbers[i] = index_of(term.places.at(i));
    }
    if (builder.patches == 0) {
      builder.found = {.patches = find_patches(builder, numbers, width)};
      throw NotRecognised("its images are cut into patches");
    }
    const size_t patches = builder.image.patches().value();
    const bool fits = width == builder.source_at(builder.patches).width &&
                      numbers.size() == patches * sizes.sequences * width;
    const auto found = fits ? in_patches(builder.image, numbers, width) : std::nullopt;
    refuse_op_if<Cause::kInput>(!found, kNoPatches);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t before = (i / width / patches + 1) * sizes.prefix * width;
      numbers[i] = number_of(builder.patches, static_cast<size_t>((*found)[i]) + before);
    }
    term.places = {0, std::make_shared<const std::vector<int64_t>>(std::move(numbers))};
  }
  return make_sum(std::move(result));
}

// Rows of constants that a program puts before those of each sequence's tokens, by whatever op.

namespace {

// A row of a value: constants, or a node's.
struct PrefixRow {
  std::vector<double> constants{};  // [width]; empty: a row of the node
  uint32_t node_row = 0;            // of a sequence

  friend bool operator==(const PrefixRow&, const PrefixRow&) = default;
};

// What a value has before the rows of each sequence's tokens, the same in all sequences.
struct Prefix {
  std::vector<PrefixRow> rows;
  std::vector<Column> columns;  // of the rows that are no constants
  std::string name;             // of the constants
};

class PrefixReader {
 public:
  PrefixReader(const GraphBuilder& builder, const ElementSum& value)
      : builder_(builder), value_(value), width_(static_cast<size_t>(value.shape.back())) {}

  // Nothing for a value that is anything else.
  std::optional<Prefix> read() {
    const TraceSizes& sizes = builder_.sizes;
    const size_t rows = value_.elements() / width_;
    const size_t tokens = sizes.tokens - sizes.prefix;
    const size_t each = rows / sizes.sequences;
    if (rows % sizes.sequences != 0 || each <= tokens) return std::nullopt;
    const size_t before = each - tokens;
    for (size_t row = 0; row < rows; ++row) {
      const size_t place = row % each;
      auto found = read_row(row * width_, row / each * sizes.tokens);
      if (!found) return std::nullopt;
      if (place >= before) {
        const bool is_token =
            found->constants.empty() && found->node_row == sizes.prefix + place - before;
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
  // `first` is the node's first row of the sequence.
  std::optional<PrefixRow> read_row(size_t begin, size_t first) {
    PrefixRow row;
    if (const auto found = source_row(builder_, value_, begin, width_)) {
      const Source& from = builder_.source(value_.at(begin));
      if (from.kind != Source::Kind::kNode || from.rows != builder_.sizes.rows()) return {};
      if (prefix_.columns.empty()) prefix_.columns = found->columns;
      row.node_row = found->row - static_cast<uint32_t>(first);
      const bool fits = found->row >= first && row.node_row < builder_.sizes.tokens;
      if (!fits || found->columns != prefix_.columns) return {};
      return row;
    }
    for (size_t i = begin; i < begin + width_; ++i) {
      const int64_t number = value_.at(i);
      const bool is_zero = number == kNoElement;
      if (!is_zero && builder_.source(number).kind != Source::Kind::kTable) return {};
      row.constants.push_back(is_zero ? 0.0 : constant(number));
    }
    return row;
  }

  double constant(int64_t number) {
    const ConstantRef& table = builder_.source(number).table;
    if (table != read_) values_ = (read_ = table)->array().to_reals();
    return values_.at(static_cast<size_t>(index_of(number)));
  }

  const GraphBuilder& builder_;
  const ElementSum& value_;
  const size_t width_;
  Prefix prefix_;
  ConstantRef read_;  // the last one
  Array::Reals values_;
};

}  // namespace

ElementSumRef prefixed(GraphBuilder& builder, const ElementSumRef& value) {
  if (!value->is_plain() || value->terms[0].places.is_whole() || value->shape.empty() ||
      value->elements() == 0) {
    return value;
  }
  const auto prefix = PrefixReader(builder, *value).read();
  const auto is_constant = [](const PrefixRow& row) { return !row.constants.empty(); };
  if (!prefix || std::ranges::none_of(prefix->rows, is_constant)) return value;
  const TraceSizes& sizes = builder.sizes;
  const auto count = static_cast<uint32_t>(prefix->rows.size());
  if (count > sizes.prefix) {
    builder.found = {.prefix = count};
    throw NotRecognised("it puts rows of constants before the tokens");
  }
  // Where more rows will be put later, these are the first or the last.
  const uint32_t first = sizes.puts_last_first ? sizes.prefix - count : 0;
  for (uint32_t i = 0; i < count; ++i) {
    refuse_op_if(!is_constant(prefix->rows[i]) && prefix->rows[i].node_row != first + i,
                 "it puts rows of constants between those that were put before");
  }
  const auto width = static_cast<uint32_t>(value->shape.back());
  ValueId node = builder.gather(prefix->columns);
  for (uint32_t i = 0; i < count; ++i) {
    if (!is_constant(prefix->rows[i])) continue;
    std::vector<double> rows;
    const uint32_t begin = i;
    for (; i < count && is_constant(prefix->rows[i]); ++i) {
      rows.insert(rows.end(), prefix->rows[i].constants.begin(), prefix->rows[i].constants.end());
    }
    PrefixNode body;
    body.first_row = first + begin;
    body.rows.name = prefix->name.empty() ? builder.name : prefix->name;
    body.rows.rows = i - begin;
    body.rows.columns = width;
    set_exact(body.rows, [rows] { return rows; });
    node = builder.graph.add(builder.name, body, {node});
  }
  NodeRows made{node, width, {}, sizes.rows()};
  for (uint32_t row = 0; row < sizes.rows(); ++row) {
    const uint32_t place = row % sizes.tokens;
    const bool is_missing = place < sizes.prefix && (place < first || place >= first + count);
    if (!is_missing) made.rows.push_back(row);
  }
  return on_rows(builder, made, value->shape, node, width);
}

// The nodes that a value becomes when an op reads it.

namespace {

// Of a norm without one, which no row notices: what torch.nn.functional.normalize adds, squared.
constexpr double kNormEpsilonMin = 1e-24;

// What an op makes of each element of `value`, all of one source: `add` makes its node.
template <typename Add>
ElementSumRef each_element(GraphBuilder& builder, const ElementSumRef& value, const Add& add) {
  const Source source = builder.source(value->at(0));
  refuse_op_if(source.kind != Source::Kind::kNode,
               "it calculates with token ids, pixels or constants alone");
  return in_place(value, source_of(value->at(0)),
                  builder.source_of_node(add(source.node), source.rows));
}

// An embedding's rows, one for each element of `ids`, which are `rows` of the node's.
ElementSumRef embedded(GraphBuilder& builder, EmbeddingNode node, const ElementSumRef& ids,
                       std::vector<uint32_t> rows, uint32_t width) {
  const ValueId made = builder.graph.add_embedding(builder.name, std::move(node), width);
  Shape shape = ids->shape;
  shape.push_back(0);
  return on_rows(builder, {made, width, std::move(rows), builder.sizes.rows()}, shape, made, width);
}

}  // namespace

ElementSumRef embedding(GraphBuilder& builder, const ConstantRef& table, const ElementSumRef& ids) {
  const TraceSizes& sizes = builder.sizes;
  const size_t count = ids->elements();
  const Source::Kind kind = count == 0 ? Source::Kind::kTable : builder.source(ids->at(0)).kind;
  const bool are_types = kind == Source::Kind::kTypes;
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < count; ++i) {
    const bool is_id = kind == Source::Kind::kTokens || are_types;
    refuse_op_if(!ids->is_plain() || builder.source(ids->at(i)).kind != kind || !is_id,
                 "it looks up rows by something else than the token ids as they are");
    const auto token = static_cast<uint32_t>(index_of(ids->at(i)));
    const uint32_t sequence = token / (sizes.tokens - sizes.prefix);
    rows.push_back(token + (sequence + 1) * sizes.prefix);
  }
  const WeightRef weight = weight_of(builder.program, table, false);
  uint32_t& rows_max = are_types ? builder.graph.token_types : builder.graph.vocab_size;
  refuse_op_if(rows_max != 0 && rows_max != weight.rows,
               "tokens are looked up in tables of different lengths");
  rows_max = weight.rows;
  EmbeddingNode node;
  (are_types ? node.types : node.tokens) = weight;
  return embedded(builder, std::move(node), ids, std::move(rows), weight.columns);
}

ElementSumRef padded_positions(GraphBuilder& builder, const ConstantRef& table,
                               const ElementSumRef& ids, int64_t padding) {
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

ElementSumRef norm(GraphBuilder& builder, const ElementSumRef& given, NormSpec spec) {
  refuse_op_if(!(spec.epsilon >= 0.0) || !std::isfinite(static_cast<float>(spec.epsilon)),
               "its epsilon is no small number");
  spec.epsilon = std::max(spec.epsilon, kNormEpsilonMin);
  const ElementSumRef value = on_one_source(builder, builder.materialised(given));
  const size_t width = spec.gain.size();
  // Columns side by side may be in any order, the same in each row.
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
                         source_of(first) == source_of(value->at(0));
    refuse_op_if(!in_line,
                 "it normalises columns that do not stand side by side in the layer before: not "
                 "supported");
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

ElementSumRef normalize(GraphBuilder& builder, const ElementSumRef& value, NormKind kind) {
  const NodeRows rows = rows_of(builder, value);
  const ValueId node = builder.graph.add(builder.name, RowFunctionNode{kind}, {rows.node});
  return on_rows(builder, rows, value->shape, node, rows.width);
}

ElementSumRef activation(GraphBuilder& builder, const ElementSumRef& given, ActivationNode body) {
  return each_element(
      builder, on_one_source(builder, builder.materialised(given)),
      [&](ValueId input) { return builder.graph.add(builder.name, body, {input}); });
}

ElementSumRef pooled(GraphBuilder& builder, const ElementSumRef& given, size_t axis,
                     SelectKind kind) {
  const TraceSizes& sizes = builder.sizes;
  ElementSumRef whole = builder.materialised(given);
  // Those of all rows, or of all but the first ones of a prefix.
  const uint32_t tokens = static_cast<uint32_t>(whole->shape[axis]);
  const uint32_t first_row = tokens < sizes.tokens ? sizes.tokens - tokens : 0;
  if (first_row == 0) whole = on_one_source(builder, whole);
  std::vector<size_t> order(whole->shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  order.erase(order.begin() + static_cast<ptrdiff_t>(axis));
  order.push_back(axis);
  const ElementSumRef value = permuted(whole, order);
  const uint32_t from = source_of(value->at(0));
  const uint32_t width = builder.source_at(from).width;
  refuse_op_if(
      first_row > sizes.prefix || tokens > sizes.tokens ||
          builder.source_at(from).rows != sizes.rows(),
      "it pools some of the tokens, or parts of their numbers: not supported, all tokens of "
      "a sequence are pooled by their mean or maximum");
  const uint32_t to = builder.selected(from, kind, first_row);
  std::vector<int64_t> made;
  for (size_t i = 0, count = value->elements(); i < count; ++i) {
    const int64_t number = value->at(i);
    const uint32_t row = builder.row_of(number);
    const int64_t place =
        number_of(to, uint64_t{row / sizes.tokens} * width + builder.column_of(number).second);
    if (i % tokens == 0) made.push_back(place);
    refuse_op_if(row % sizes.tokens != first_row + i % tokens || made.back() != place ||
                     source_of(number) != from,
                 kMixesTokens);
  }
  Shape shape = value->shape;
  shape.pop_back();
  return plain(std::move(shape), std::move(made));
}

ElementSumRef table_rows(GraphBuilder& builder, const ConstantRef& table, Shape shape,
                         const std::vector<int64_t>& rows) {
  const int64_t width = table->shape()[1];
  const ElementSumRef whole = builder.of_constant(table);
  std::vector<int64_t> numbers;
  for (const int64_t row : rows) {
    refuse_op_if(row < 0 || row >= table->shape()[0], "it looks up rows that are not there");
    for (int64_t c = 0; c < width; ++c) {
      numbers.push_back(whole->at(static_cast<size_t>(row * width + c)));
    }
  }
  const bool are_positions = builder.sizes.tokens > 1 && rows.size() > 1 && rows[0] != rows[1];
  if (are_positions) builder.limit_positions(table->shape()[0] - rows[0]);
  shape.push_back(width);
  return plain(std::move(shape), std::move(numbers));
}

void fill_position_tables(GraphBuilder& builder, uint32_t positions,
                          const ConstantAt& constant_at) {
  for (const PositionTable& table : builder.tables) {
    WeightRef& weight = *builder.graph.as<EmbeddingNode>(table.node)->positions;
    const uint32_t columns = weight.columns;
    const uint32_t tokens = builder.sizes.tokens;
    const uint32_t rows_max = positions + builder.sizes.prefix;
    refuse_op_if(uint64_t{rows_max} * columns > ElementLimit::current(),
                 "its table of {} positions, {} numbers each, is too large: pass --context N, the "
                 "positions that you need",
                 rows_max, columns);
    weight.rows = rows_max;
    set_exact(weight, [table, columns, rows_max, positions, tokens, constant_at] {
      std::vector<double> rows(size_t{rows_max} * columns, 0.0);
      for (const TablePart& part : table.parts) {
        const bool is_as_traced = part.stride == 0 || rows_max == tokens;
        // Extents after the one of positions stay, and those before it are 1.
        const Array::Reals values =
            (is_as_traced ? part.constant->array() : constant_at(part.constant->value(), positions))
                .to_reals();
        const size_t prefix = part.prefix_rows.size();
        const auto missing = std::ranges::count(part.prefix_rows, -1);
        for (size_t p = 0; p < rows_max; ++p) {
          const int64_t row = p < prefix ? part.prefix_rows[p] : static_cast<int64_t>(p) - missing;
          if (row < 0) continue;
          for (size_t c = 0; c < columns; ++c) {
            const auto index = static_cast<size_t>(part.first_row[c] + row * part.stride);
            refuse_op_if(index >= values.size(), "a table of positions is too short");
            rows[p * columns + c] += part.factors[c] * values[index];
          }
        }
      }
      return rows;
    });
  }
}

}  // namespace arenite::convert
