// SPDX-License-Identifier: Apache-2.0
// The nodes of inputs and of ops: images that are cut, rows of constants before tokens, embeddings,
// norms, activations, products and pooling.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "convert/exported/recover/graph_builder.h"
#include "convert/exported/recover/refusals.h"

namespace arenite::convert {

// Images that are cut into patches, by whatever ops: seen by which elements stand in a row.

namespace {

constexpr const char* kNoPatches =
    "it cuts the input into something else than blocks of one size that lie side by side, read "
    "line by line: not supported are blocks that overlap or leave some out. Where the model "
    "transposes its input first, export it for a transposed example, and without that";

// The element of an image that is number `column` of patch `patch`.
int64_t element_of(const ImagePatches& cut, size_t patch, size_t column) {
  const size_t x = column % cut.patch_width;
  const size_t y = column / cut.patch_width % cut.patch_height;
  const size_t c = column / cut.patch_width / cut.patch_height;
  const size_t top = patch / cut.columns() * cut.patch_height;
  const size_t left = patch % cut.columns() * cut.patch_width;
  return static_cast<int64_t>((c * cut.height + top + y) * cut.width + left + x);
}

// The patches of an image seen as [channels, height, width], the first of which reads `offsets`, in
// order; `firsts` are the least elements of all of them. Nothing where it has none such.
std::optional<ImagePatches> patches_in(const ImagePatches& image,
                                       const std::vector<int64_t>& offsets,
                                       const std::vector<int64_t>& firsts) {
  ImagePatches cut = image;
  size_t run = 1;
  while (run < offsets.size() && run < image.width &&
         offsets[run] == offsets[0] + static_cast<int64_t>(run)) {
    ++run;
  }
  const size_t lines = offsets.size() / run / image.channels;
  if (lines == 0 || lines > image.height || run > image.width) return std::nullopt;
  cut.patch_width = static_cast<uint32_t>(run);
  cut.patch_height = static_cast<uint32_t>(lines);
  if (cut.row_width().value() != offsets.size() || cut.patches().value() != firsts.size()) {
    return std::nullopt;
  }
  for (size_t c = 0; c < offsets.size(); ++c) {
    if (offsets[c] != element_of(cut, 0, c)) return std::nullopt;
  }
  for (size_t p = 0; p < firsts.size(); ++p) {
    if (firsts[p] != element_of(cut, p, 0)) return std::nullopt;
  }
  return cut;
}

// An image may have its channels first or last, and may be a series of numbers.
ImagePatches patches_of(const Shape& image, const std::vector<int64_t>& offsets,
                        const std::vector<int64_t>& firsts) {
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
  for (const ImagePatches& view : views) {
    if (const auto found = patches_in(view, offsets, firsts)) return *found;
  }
  throw InputNotRecognised(kNoPatches);
}

}  // namespace

std::vector<uint32_t> GraphBuilder::order_of(const std::vector<Column>& columns) const {
  constexpr size_t kRunsMax = 8;  // fewer are slices
  const Source& from = sources_[columns[0].first];
  if (from.kind != Source::Kind::kNode || columns.size() != from.width) return {};
  std::vector<uint32_t> order;
  std::vector<bool> is_there(columns.size(), false);
  size_t runs = 1;
  for (const Column& column : columns) {
    if (column.first != columns[0].first || is_there[column.second]) return {};
    is_there[column.second] = true;
    runs += order.empty() || column.second == order.back() + 1 ? 0 : 1;
    order.push_back(column.second);
  }
  return runs > kRunsMax ? order : std::vector<uint32_t>{};
}

ElementSumRef GraphBuilder::images_input(Shape shape, const std::optional<ImagePatches>& patches) {
  const size_t elements = elements_of(shape) / sizes_.sequences;
  images_ =
      add_source({Source::Kind::kImages, 0, sizes_.sequences, static_cast<uint32_t>(elements), {}});
  images_shape_ = Shape(shape.begin() + 1, shape.end());
  if (patches) {
    image_ = *patches;
    const ValueId node = graph_.add_features(static_cast<uint32_t>(image_.row_width().value()));
    graph_.as<FeaturesNode>(node)->patches = image_;
    patches_ = source_of_node(node, sizes_.rows());
  }
  return whole_source(images_, std::move(shape));
}

ElementSumRef GraphBuilder::as_patches(const ElementSumRef& value) {
  if (images_ == 0 || value->shape.empty() || value->elements() == 0) return value;
  const auto is_of_images = [&](const Term& term) {
    const int64_t number = term.places.at(0);
    return number != kNoElement && source_of(number) == images_;
  };
  if (std::ranges::none_of(value->terms, is_of_images)) return value;
  const auto width = static_cast<size_t>(value->shape.back());
  const size_t rows = value->elements() / width;
  ElementSum result = *value;
  for (Term& term : result.terms) {
    if (!is_of_images(term)) continue;
    std::vector<int64_t> numbers(value->elements());
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = term.places.at(i);
      if (source_of(numbers[i]) != images_) throw InputNotRecognised(kNoPatches);
      numbers[i] = index_of(numbers[i]);
    }
    if (patches_ == 0) {
      std::vector<int64_t> firsts;
      for (size_t row = 0; row < rows / sizes_.sequences; ++row) {
        const auto begin = numbers.begin() + static_cast<ptrdiff_t>(row * width);
        firsts.push_back(*std::min_element(begin, begin + static_cast<ptrdiff_t>(width)));
      }
      std::vector<int64_t> offsets(numbers.begin(),
                                   numbers.begin() + static_cast<ptrdiff_t>(width));
      std::ranges::sort(offsets);
      throw PatchesFound{patches_of(images_shape_, offsets, firsts)};
    }
    const size_t patches = sizes_.tokens - sizes_.prefix;
    if (width != sources_[patches_].width || rows != patches * sizes_.sequences) {
      throw InputNotRecognised(kNoPatches);
    }
    // The order of the columns may be any, the same in each row.
    const size_t pixels = sources_[images_].width;
    std::vector<uint32_t> column_at(pixels, 0);
    for (size_t c = 0; c < width; ++c) {
      column_at[static_cast<size_t>(element_of(image_, 0, c))] = static_cast<uint32_t>(c);
    }
    std::vector<uint32_t> columns(width);
    for (size_t c = 0; c < width; ++c)
      columns[c] = column_at[static_cast<size_t>(numbers[c]) % pixels];
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t sequence = i / width / patches;
      const size_t patch = i / width % patches;
      const uint32_t column = columns[i % width];
      if (numbers[i] !=
          static_cast<int64_t>(sequence * pixels) + element_of(image_, patch, column)) {
        throw InputNotRecognised(kNoPatches);
      }
      const size_t row = sequence * sizes_.tokens + sizes_.prefix + patch;
      numbers[i] = int64_t{patches_} * kSourceElements + static_cast<int64_t>(row * width + column);
    }
    term.places = {0, std::make_shared<const std::vector<int64_t>>(std::move(numbers))};
  }
  return make_sum(std::move(result));
}

// Rows of constants that a program puts before those of each sequence's tokens, by whatever op.

// What a value has before the rows of each sequence's tokens, the same in all sequences.
struct GraphBuilder::Prefix {
  uint32_t rows = 0;                           // of each sequence, before its tokens
  std::vector<std::vector<double>> constants;  // [rows, width], or none
  std::vector<uint32_t> node_rows;             // [rows]: of the node, where it is no constant
  std::vector<Column> columns;                 // of the rows that are no constants
  std::string name;                            // of the constants
};

namespace {

enum class RowKind { kConstants, kNode, kMixed };

template <typename IsTable>
RowKind kind_of(const Places& places, size_t begin, size_t width, const IsTable& is_table) {
  size_t constants = 0;
  for (size_t i = begin; i < begin + width; ++i) {
    const int64_t number = places.at(i);
    constants += number == kNoElement || is_table(number) ? 1 : 0;
  }
  if (constants == 0) return RowKind::kNode;
  return constants == width ? RowKind::kConstants : RowKind::kMixed;
}

}  // namespace

bool GraphBuilder::has_all_tokens(const std::vector<uint32_t>& rows) const {
  if (sizes_.prefix == 0) return false;
  size_t next = 0;
  for (uint32_t row = 0; row < sizes_.rows(); ++row) {
    if (next < rows.size() && rows[next] == row) {
      ++next;
    } else if (!is_of_prefix(row)) {
      return false;
    }
  }
  return next == rows.size();
}

// False for a value that is anything else.
bool GraphBuilder::read_prefix(const ElementSumRef& value, Prefix& prefix) const {
  const Places& places = value->terms[0].places;
  const auto width = static_cast<size_t>(value->shape.back());
  const size_t rows = value->elements() / width;
  const size_t tokens = sizes_.tokens - sizes_.prefix;
  if (rows % sizes_.sequences != 0 || rows / sizes_.sequences <= tokens) return false;
  const size_t each = rows / sizes_.sequences;
  prefix.rows = static_cast<uint32_t>(each - tokens);
  const auto is_table = [&](int64_t number) { return source(number).kind == Source::Kind::kTable; };
  ConstantRef read;
  Array::Reals values;  // of what was read last
  for (size_t row = 0; row < rows; ++row) {
    const size_t place = row % each;
    const size_t begin = row * width;
    const RowKind kind = kind_of(places, begin, width, is_table);
    if (kind == RowKind::kMixed || (kind == RowKind::kConstants && place >= prefix.rows)) {
      return false;
    }
    std::vector<double> constants;
    uint32_t node_row = 0;
    if (kind == RowKind::kConstants) {
      for (size_t i = begin; i < begin + width; ++i) {
        const int64_t number = places.at(i);
        if (number == kNoElement) {
          constants.push_back(0.0);
          continue;
        }
        const ConstantRef& constant = source(number).table;
        if (constant != read) values = (read = constant)->array().to_reals();
        constants.push_back(values.at(static_cast<size_t>(index_of(number))));
      }
    } else {
      for (size_t i = begin; i < begin + width; ++i) {
        const int64_t number = places.at(i);
        if (source(number).kind != Source::Kind::kNode || source(number).rows != sizes_.rows()) {
          return false;
        }
        if (prefix.columns.size() < width) prefix.columns.push_back(column_of(number));
        if (i == begin) node_row = row_of(number);
        if (row_of(number) != node_row || column_of(number) != prefix.columns[i - begin]) {
          return false;
        }
      }
      const size_t first = row / each * sizes_.tokens;
      if (node_row < first || node_row >= first + sizes_.tokens) return false;
      node_row -= static_cast<uint32_t>(first);
      if (place >= prefix.rows && node_row != sizes_.prefix + place - prefix.rows) return false;
    }
    if (place >= prefix.rows) continue;
    if (row < each) {
      prefix.constants.push_back(std::move(constants));
      prefix.node_rows.push_back(node_row);
    } else if (prefix.constants[place] != constants || prefix.node_rows[place] != node_row) {
      return false;
    }
  }
  if (read) prefix.name = program_->values[read->value()].name;
  return !prefix.columns.empty();
}

ElementSumRef GraphBuilder::prefixed(const ElementSumRef& value) {
  if (!value->is_plain() || value->terms[0].places.is_whole() || value->shape.empty() ||
      value->elements() == 0) {
    return nullptr;
  }
  Prefix prefix;
  if (!read_prefix(value, prefix)) return nullptr;
  const auto is_constant = [](const std::vector<double>& row) { return !row.empty(); };
  if (std::ranges::none_of(prefix.constants, is_constant)) return nullptr;
  if (prefix.rows > sizes_.prefix) throw PrefixFound{prefix.rows};
  // Where more rows will be put later, these are the first or the last.
  const uint32_t first = sizes_.puts_last_first ? sizes_.prefix - prefix.rows : 0;
  for (uint32_t i = 0; i < prefix.rows; ++i) {
    if (!is_constant(prefix.constants[i]) && prefix.node_rows[i] != first + i) {
      throw NotRecognised("it puts rows of constants between those that were put before");
    }
  }
  const auto width = static_cast<uint32_t>(value->shape.back());
  ValueId node = gather(prefix.columns);
  for (uint32_t i = 0; i < prefix.rows; ++i) {
    if (!is_constant(prefix.constants[i])) continue;
    std::vector<double> rows;
    const uint32_t begin = i;
    for (; i < prefix.rows && is_constant(prefix.constants[i]); ++i) {
      rows.insert(rows.end(), prefix.constants[i].begin(), prefix.constants[i].end());
    }
    PrefixNode body;
    body.first_row = first + begin;
    body.rows.name = prefix.name.empty() ? name_ : prefix.name;
    body.rows.rows = i - begin;
    body.rows.columns = width;
    set_exact(body.rows, [rows] { return rows; });
    node = graph_.add(name_, body, {node});
  }
  const uint32_t to = source_of_node(node, sizes_.rows());
  if (prefix.rows == sizes_.prefix) return whole_source(to, value->shape);
  std::vector<int64_t> numbers;
  for (uint32_t row = 0; row < sizes_.rows(); ++row) {
    const uint32_t place = row % sizes_.tokens;
    if (place < sizes_.prefix && (place < first || place >= first + prefix.rows)) continue;
    for (uint32_t c = 0; c < width; ++c) {
      numbers.push_back(int64_t{to} * kSourceElements + int64_t{row} * width + c);
    }
  }
  return plain(value->shape, std::move(numbers));
}

// The nodes that a value becomes when an op reads it.

namespace {

// Of a norm without one, which no row notices: what torch.nn.functional.normalize adds, squared.
constexpr double kNormEpsilonMin = 1e-24;

// What `value`, all of one source, is made of.
ValueId node_of(const GraphBuilder& builder, const ElementSumRef& value) {
  const Source& source = builder.source(value->terms[0].places.at(0));
  if (source.kind == Source::Kind::kNode) return source.node;
  throw NotRecognised("it calculates with token ids, pixels or constants alone");
}

}  // namespace

ElementSumRef GraphBuilder::embedding(const ConstantRef& table, const ElementSumRef& ids) {
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

ElementSumRef GraphBuilder::norm(const ElementSumRef& given, NormSpec spec) {
  if (!(spec.epsilon >= 0.0) || !std::isfinite(static_cast<float>(spec.epsilon))) {
    throw NotRecognised("its epsilon is no small number");
  }
  spec.epsilon = std::max(spec.epsilon, kNormEpsilonMin);
  const ElementSumRef value = on_one_source(materialised(given));
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

ElementSumRef GraphBuilder::normalize(const ElementSumRef& value, NormKind kind) {
  const Rows rows = rows_of(value);
  const ValueId node = graph_.add(name_, RowFunctionNode{kind}, {rows.node});
  return on_rows(rows, value->shape, node, rows.width);
}

ElementSumRef GraphBuilder::activation(const ElementSumRef& given, ActivationNode body) {
  const ElementSumRef value = on_one_source(materialised(given));
  const uint32_t from = source_of(value->terms[0].places.at(0));
  const ValueId node = graph_.add(name_, body, {node_of(*this, value)});
  return in_place(value, from, source_of_node(node, sources_[from].rows));
}

ElementSumRef GraphBuilder::product(const ElementSumRef& a, const ElementSumRef& b) {
  const Shape shape = broadcast(a->shape, b->shape);
  ElementSumRef first = stretched(materialised(a), shape);
  ElementSumRef second = stretched(materialised(b), shape);
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
  const ElementSumRef made = on_rows(rows, flat, node, rows.width);
  return permuted(with_shape(made, first->shape), inverse_order(order));
}

ElementSumRef GraphBuilder::pooled(const ElementSumRef& given, size_t axis, SelectKind kind) {
  ElementSumRef whole = materialised(given);
  // Those of all rows, or of all but the first ones of a prefix.
  const uint32_t tokens = static_cast<uint32_t>(whole->shape[axis]);
  const uint32_t first_row = tokens < sizes_.tokens ? sizes_.tokens - tokens : 0;
  if (first_row == 0) whole = on_one_source(whole);
  std::vector<size_t> order(whole->shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  order.erase(order.begin() + static_cast<ptrdiff_t>(axis));
  order.push_back(axis);
  const ElementSumRef value = permuted(whole, order);
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

bool GraphBuilder::is_along_tokens(const ElementSumRef& value, size_t axis) const {
  size_t stride = 1;
  for (size_t d = axis + 1; d < value->shape.size(); ++d) {
    stride *= static_cast<size_t>(value->shape[d]);
  }
  if (value->shape[axis] < 2) return false;
  const Places& places = value->terms[0].places;
  const bool are_numbers = places.at(0) != kNoElement && places.at(stride) != kNoElement;
  return are_numbers && row_of(places.at(0)) != row_of(places.at(stride));
}

bool GraphBuilder::is_embedding_with_tables(const ElementSum& value) const {
  size_t embeddings = 0;
  for (const Term& term : value.terms) {
    const int64_t number = value.elements() == 0 ? kNoElement : term.places.at(0);
    if (number == kNoElement) return false;
    const Source& from = source(number);
    if (from.kind == Source::Kind::kTable) continue;
    if (from.kind != Source::Kind::kNode || !graph_.as<EmbeddingNode>(from.node)) return false;
    ++embeddings;
  }
  return embeddings == 1 && value.terms.size() > 1;
}

// Rows of a table as constants, one for each of `rows`.
ElementSumRef GraphBuilder::table_rows(const ConstantRef& table, Shape shape,
                                       const std::vector<int64_t>& rows) {
  const int64_t width = table->shape()[1];
  const ElementSumRef whole = of_constant(table);
  std::vector<int64_t> numbers;
  int64_t last = 0;
  for (const int64_t row : rows) {
    if (row < 0 || row >= table->shape()[0])
      throw NotRecognised("it looks up rows that are not there");
    last = std::max(last, row);
    for (int64_t c = 0; c < width; ++c) {
      numbers.push_back(whole->terms[0].places.at(static_cast<size_t>(row * width + c)));
    }
  }
  const bool are_positions = sizes_.tokens > 1 && rows.size() > 1 && rows[0] != rows[1];
  if (are_positions) limit_positions(table->shape()[0] - rows[0]);
  shape.push_back(width);
  return plain(std::move(shape), std::move(numbers));
}

ElementSumRef GraphBuilder::padded_positions(const ConstantRef& table, const ElementSumRef& ids,
                                             int64_t padding) {
  const WeightRef weight = weight_of(program_, table, false);
  EmbeddingNode embedding;
  embedding.positions = weight;
  embedding.position_offset = static_cast<uint32_t>(padding + 1);
  embedding.padding_id = static_cast<uint32_t>(padding);
  limit_positions(table->shape()[0] - padding - 1);
  Rows rows{0, 1, {}, sizes_.rows()};
  for (size_t i = 0, count = ids->elements(); i < count; ++i) {
    rows.rows.push_back(static_cast<uint32_t>(index_of(ids->terms[0].places.at(i))));
  }
  const ValueId node = graph_.add_embedding(name_, std::move(embedding), weight.columns);
  Shape shape = ids->shape;
  shape.push_back(0);
  return on_rows(rows, shape, node, weight.columns);
}

void GraphBuilder::finish(uint32_t positions, const ConstantAt& constant_at) {
  for (const PositionTable& table : tables_) {
    WeightRef& weight = *graph_.as<EmbeddingNode>(table.node)->positions;
    const uint32_t columns = weight.columns;
    const uint32_t tokens = sizes_.tokens;
    const uint32_t rows_max = positions + sizes_.prefix;
    if (uint64_t{rows_max} * columns > ElementLimit::current()) {
      throw NotRecognised(fmt::format(
          "its table of {} positions, {} numbers each, is too large: pass --context N, the "
          "positions that you need",
          rows_max, columns));
    }
    weight.rows = rows_max;
    set_exact(weight, [table, columns, rows_max, positions, tokens, constant_at] {
      std::vector<double> rows(size_t{rows_max} * columns, 0.0);
      for (const TablePart& part : table.parts) {
        Array whole = part.constant->array();
        if (part.stride != 0 && rows_max != tokens) {
          whole = constant_at(part.constant->value(), positions);
        }
        // Extents after the one of positions stay, and those before it are 1.
        const Array::Reals values = whole.to_reals();
        const auto prefix = part.prefix_rows.size();
        const auto missing = std::ranges::count(part.prefix_rows, -1);
        for (size_t p = 0; p < rows_max; ++p) {
          const int64_t row = p < prefix ? part.prefix_rows[p] : static_cast<int64_t>(p) - missing;
          if (row < 0) continue;
          for (size_t c = 0; c < columns; ++c) {
            const auto index = static_cast<size_t>(part.first_row[c] + row * part.stride);
            if (index >= values.size()) throw NotRecognised("a table of positions is too short");
            rows[p * columns + c] += part.factors[c] * values[index];
          }
        }
      }
      return rows;
    });
  }
}

}  // namespace arenite::convert
