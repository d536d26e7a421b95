// SPDX-License-Identifier: Apache-2.0
// Values as rows of nodes: sums are added up, columns gathered, and constants folded into layers.
#include "convert/exported/recover/graph_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "convert/exported/recover/refusals.h"
#include "convert/exported/recover/sums.h"

namespace arenite::convert {
namespace {

// More pieces than this side by side are no model's heads, but elements in disorder.
constexpr size_t kRunsMax = 1024;
constexpr size_t kCopiesMax = 8;           // of pieces, before a matrix is quicker
constexpr uint32_t kChosenWidthMax = 256;  // of a node that pieces are chosen of

constexpr size_t kKeptSumsMax = 64;                // materialised values that are remembered
constexpr size_t kKeptElements = size_t{1} << 25;  // of all of them

// Whether one value is the other in another shape.
bool have_same_terms(const ElementSum& a, const ElementSum& b) {
  if (a.terms.size() != b.terms.size() || a.elements() != b.elements()) return false;
  for (size_t i = 0; i < a.terms.size(); ++i) {
    const Term& first = a.terms[i];
    const Term& second = b.terms[i];
    if (first.places.numbers != second.places.numbers ||
        first.places.source != second.places.source || first.factors.each != second.factors.each ||
        first.factors.uniform != second.factors.uniform) {
      return false;
    }
  }
  return true;
}

// Why rows of a value are no rows of a node: they are of several tokens, or of parts of one.
std::string why_no_rows(const GraphBuilder& builder, const ElementSumRef& value) {
  const Places& places = value->terms[0].places;
  const auto width = static_cast<size_t>(value->shape.back());
  const size_t count = value->elements();
  std::map<uint32_t, size_t> rows_of_tokens;  // that begin with an element of this token
  for (size_t first = 0; first < count; first += width) {
    std::set<uint32_t> tokens, columns;
    for (size_t i = first; i < first + width; ++i) {
      const int64_t number = places.at(i);
      if (number == kNoElement || builder.source(number).kind == Source::Kind::kTable)
        return kMixesTokens;
      if (builder.source(number).rows != builder.source(places.at(0)).rows) return kPooledGoesBack;
      tokens.insert(builder.row_of(number));
      columns.insert(builder.column_of(number).second);
    }
    ++rows_of_tokens[builder.row_of(places.at(first))];
    if (columns.size() == 1 && tokens.size() > 1 && tokens.size() < builder.sizes().tokens) {
      return "its rows are pieces of one column over several tokens, as patches of a series of "
             "each variable: not supported. Export the model for an example [variables, steps], "
             "which is one series a sequence, and for patches side by side";
    }
    if (columns.size() == 1 && tokens.size() > 1) {
      return "its rows are one column of all tokens each, as after x.transpose(1, 2): not "
             "supported, layers work on the columns of each token. Where it is the variables that "
             "attend to each other, export the model for an example [sequences, variables, steps] "
             "and without the transposition";
    }
    if (tokens.size() > 1) {
      return fmt::format(
          "it puts {} tokens of a sequence side by side in a row: not supported, a row has the "
          "numbers of one token, or of all pooled by their mean, maximum, first or last",
          tokens.size());
    }
  }
  const size_t parts = rows_of_tokens.begin()->second;
  if (parts < 2) return "its rows are made of other columns from token to token: not supported";
  return fmt::format(
      "it makes {} rows of each token's numbers, such as its heads, or states and actions in turn: "
      "norms, sums, factors and gates take rows of heads, but other ops take one row for each "
      "token. Rows of several kinds in turn are to be made before the model",
      parts);
}

}  // namespace

uint32_t GraphBuilder::add_source(Source source) {
  sources_.push_back(std::move(source));
  return static_cast<uint32_t>(sources_.size() - 1);
}

uint32_t GraphBuilder::source_of_node(ValueId node, uint32_t rows) {
  const auto known = of_nodes_.find(node);
  if (known != of_nodes_.end()) return known->second;
  const uint32_t made = add_source({Source::Kind::kNode, node, rows, graph_.width(node), {}});
  of_nodes_[node] = made;
  return made;
}

const Source& GraphBuilder::source(int64_t number) const {
  if (number == kNoElement) throw NotRecognised("it has zeros between numbers of the model");
  const Source& found = sources_.at(source_of(number));
  const auto index = static_cast<uint64_t>(index_of(number));
  if (index >= uint64_t{found.rows} * found.width) {
    throw NotRecognised("it reads elements that its input has not");
  }
  return found;
}

uint32_t GraphBuilder::row_of(int64_t number) const {
  return static_cast<uint32_t>(index_of(number) / source(number).width);
}

Column GraphBuilder::column_of(int64_t number) const {
  return {source_of(number), static_cast<uint32_t>(index_of(number) % source(number).width)};
}

ElementSumRef GraphBuilder::tokens_input(Shape shape) {
  const uint32_t rows = sizes_.sequences * (sizes_.tokens - sizes_.prefix);
  return whole_source(add_source({Source::Kind::kTokens, 0, rows, 1, {}}), std::move(shape));
}

ElementSumRef GraphBuilder::types_input(Shape shape) {
  return whole_source(add_source({Source::Kind::kTypes, 0, sizes_.rows(), 1, {}}),
                      std::move(shape));
}

ElementSumRef GraphBuilder::features_input(Shape shape, uint32_t width) {
  const uint32_t source = source_of_node(graph_.add_features(width), sizes_.rows());
  if (sizes_.prefix == 0) return whole_source(source, std::move(shape));
  std::vector<int64_t> numbers;
  for (uint32_t row = 0; row < sizes_.rows(); ++row) {
    for (uint32_t c = 0; c < width && !is_of_prefix(row); ++c) {
      numbers.push_back(number_of(source, uint64_t{row} * width + c));
    }
  }
  return plain(std::move(shape), std::move(numbers));
}

ElementSumRef GraphBuilder::of_constant(const ConstantRef& constant) {
  auto [known, is_new] = of_constants_.try_emplace(constant.get(), 0);
  if (is_new) {
    const auto width = static_cast<uint32_t>(constant->elements());
    known->second = add_source({Source::Kind::kTable, 0, 1, width, constant});
  }
  return whole_source(known->second, constant->shape());
}

void GraphBuilder::limit_positions(int64_t positions_max) {
  positions_max_ = tighter(positions_max_, positions_max);
}

ElementSumRef GraphBuilder::in_place(const ElementSumRef& value, uint32_t from, uint32_t to) const {
  if (value->terms[0].places.is_whole()) return whole_source(to, value->shape);
  std::vector<int64_t> numbers = numbers_of(*value);
  for (int64_t& number : numbers) number += (int64_t{to} - int64_t{from}) * kSourceElements;
  return plain(value->shape, std::move(numbers));
}

// Many pieces of one narrow node, as of gates that each head has one of: a matrix of ones.
std::optional<ValueId> GraphBuilder::chosen_columns(const std::vector<Column>& columns,
                                                    size_t runs) {
  const Source& from = sources_[columns[0].first];
  const bool is_one = std::ranges::all_of(
      columns, [&](const Column& column) { return column.first == columns[0].first; });
  if (!is_one || runs <= kCopiesMax || from.kind != Source::Kind::kNode ||
      from.width > kChosenWidthMax) {
    return std::nullopt;
  }
  WeightRef weight;
  weight.name = fmt::format("{}.columns", name_);
  weight.rows = static_cast<uint32_t>(columns.size());
  weight.columns = from.width;
  weight.load = [columns, width = from.width] {
    std::vector<float> values(columns.size() * width, 0.0f);
    for (size_t i = 0; i < columns.size(); ++i) values[i * width + columns[i].second] = 1.0f;
    return values;
  };
  return graph_.add_linear(weight.name, {weight, {}}, from.node);
}

ValueId GraphBuilder::gather(const std::vector<Column>& columns) {
  const auto known = gathered_.find(columns);
  if (known != gathered_.end()) return known->second;
  struct Run {
    Column first;
    uint32_t width;
  };
  std::vector<Run> runs;
  for (const Column& column : columns) {
    const bool goes_on = !runs.empty() && column.first == runs.back().first.first &&
                         column.second == runs.back().first.second + runs.back().width;
    if (goes_on) {
      ++runs.back().width;
    } else {
      runs.push_back({column, 1});
    }
  }
  if (runs.size() > kRunsMax) throw NotRecognised("its columns are in an order without structure");
  if (const auto chosen = chosen_columns(columns, runs.size())) return gathered_[columns] = *chosen;
  std::vector<ValueId> parts;
  for (const Run& run : runs) {
    const Source& source = sources_[run.first.first];
    if (source.kind != Source::Kind::kNode) {
      throw NotRecognised("it puts constants or token ids between numbers of the model");
    }
    if (run.width == source.width) {
      parts.push_back(source.node);
    } else {
      parts.push_back(graph_.add_slice(fmt::format("{}.slice", name_), source.node,
                                       run.first.second, run.width));
    }
  }
  const ValueId node = parts.size() == 1 ? parts[0] : graph_.add_concat(name_ + ".concat", parts);
  gathered_[columns] = node;
  return node;
}

// The mean, the first and the last of a single row are that row, which may be put together with
// others of its token.
uint32_t GraphBuilder::selected(uint32_t from, SelectKind kind, uint32_t first_row) {
  if (sizes_.tokens == 1) return from;
  auto [known, is_new] = selected_.try_emplace({from, kind, first_row}, 0);
  if (is_new) {
    if (sources_[from].kind != Source::Kind::kNode) {
      throw NotRecognised("it pools token ids, pixels or constants");
    }
    const ValueId node = graph_.add(name_, SelectNode{kind, first_row}, {sources_[from].node});
    known->second = source_of_node(node, sizes_.sequences);
  }
  return known->second;
}

GraphBuilder::Rows GraphBuilder::rows_of(const ElementSumRef& given, std::vector<uint32_t>* order) {
  const ElementSumRef value = materialised(as_patches(given));
  if (value->shape.empty()) throw NotRecognised("it is a single number");
  const auto width = static_cast<uint32_t>(value->shape.back());
  const Places& places = value->terms[0].places;
  const size_t count = value->elements();
  if (width == 0 || count == 0) throw NotRecognised("it is empty");
  Rows result{0, width, {}, 0};
  if (places.is_whole() && sources_[places.source].width == width &&
      sources_[places.source].kind == Source::Kind::kNode) {
    result.node = sources_[places.source].node;
    result.count = sources_[places.source].rows;
    result.rows.resize(count / width);
    std::iota(result.rows.begin(), result.rows.end(), 0u);
    return result;
  }
  std::vector<Column> columns;
  for (size_t i = 0; i < count; ++i) {
    const int64_t number = places.at(i);
    if (number == kNoElement) {
      throw InputNotRecognised(
          "it puts zeros beside numbers of the model, as F.pad does: not supported, tokens cannot "
          "be shifted nor rows be widened");
    }
    if (source(number).kind == Source::Kind::kTable) {
      throw InputNotRecognised(
          "it puts constants between numbers of the model: rows of constants are supported before "
          "the first token alone, as in torch.cat([constants, x], 1)");
    }
    if (i < width) columns.push_back(column_of(number));
    if (i % width == 0) result.rows.push_back(row_of(number));
    if (row_of(number) != result.rows.back() || column_of(number) != columns[i % width]) {
      throw InputNotRecognised(why_no_rows(*this, value));
    }
  }
  result.count = source(places.at(0)).rows;
  for (const Column& column : columns) {
    if (sources_[column.first].rows != result.count) throw InputNotRecognised(kPooledGoesBack);
  }
  // One row of each sequence: the first or the last.
  const bool chooses =
      result.count == sizes_.rows() && sizes_.tokens > 1 && result.rows.size() == sizes_.sequences;
  if (chooses) {
    const uint32_t place = result.rows[0];
    const bool is_last = place == sizes_.tokens - 1;
    if (place > sizes_.prefix && !is_last) {
      throw InputNotRecognised(
          fmt::format("it takes token {} of each sequence: expected the first or the last, or give "
                      "out all tokens and take this one in your program",
                      place - sizes_.prefix));
    }
    for (uint32_t b = 0; b < sizes_.sequences; ++b) {
      if (result.rows[b] != b * sizes_.tokens + place) throw InputNotRecognised(kMixesTokens);
      result.rows[b] = b;
    }
    for (Column& column : columns) {
      column.first = is_last ? selected(column.first, SelectKind::kLast, 0)
                             : selected(column.first, SelectKind::kFirst, place);
    }
    result.count = sizes_.sequences;
  }
  if (result.rows.size() < result.count && !has_all_tokens(result.rows)) {
    throw InputNotRecognised(
        "it leaves tokens out, which depends on how many there are: give out all tokens, and take "
        "these in your program");
  }
  if (order != nullptr) *order = order_of(columns);
  const bool keeps_order = order != nullptr && !order->empty();
  result.node = keeps_order ? sources_[columns[0].first].node : gather(columns);
  return result;
}

ElementSumRef GraphBuilder::on_rows(const Rows& rows, const Shape& shape, ValueId node,
                                    uint32_t width) {
  Shape made = shape;
  made.back() = width;
  const uint32_t to = source_of_node(node, rows.count);
  bool in_order = rows.rows.size() == rows.count;
  for (size_t i = 0; i < rows.rows.size() && in_order; ++i) in_order = rows.rows[i] == i;
  if (in_order) return whole_source(to, std::move(made));
  std::vector<int64_t> numbers;
  for (const uint32_t row : rows.rows) {
    for (uint32_t c = 0; c < width; ++c)
      numbers.push_back(number_of(to, uint64_t{row} * width + c));
  }
  return plain(std::move(made), std::move(numbers));
}

ElementSumRef GraphBuilder::rows_as_node(const ElementSumRef& value) {
  const Rows rows = rows_of(value);
  return on_rows(rows, value->shape, rows.node, rows.width);
}

ElementSumRef GraphBuilder::on_one_source(const ElementSumRef& value) {
  const Places& places = value->terms[0].places;
  if (places.is_whole()) return value;
  const uint32_t first = source_of(places.at(0));
  const Source& from = source(places.at(0));
  std::vector<bool> seen(size_t{from.rows} * from.width, false);
  bool is_one = true;
  for (size_t i = 0, count = value->elements(); i < count && is_one; ++i) {
    const int64_t number = places.at(i);
    const auto index = static_cast<size_t>(index_of(number));
    is_one = source_of(number) == first && index < seen.size() && !seen[index];
    if (is_one) seen[index] = true;
  }
  // Before rows of constants are put before those of tokens, none are read there.
  const bool is_of_tokens = is_one && sizes_.prefix != 0 && sources_[first].rows == sizes_.rows();
  for (size_t i = 0; i < seen.size() && is_of_tokens; ++i) {
    if (is_of_prefix(static_cast<uint32_t>(i / sources_[first].width))) seen[i] = true;
  }
  if (is_one && std::ranges::count(seen, false) == 0) return value;
  // The rows of a slice or of a concatenation.
  const std::vector<size_t> order = columns_last({value});
  const ElementSumRef turned = permuted(value, order);
  const Shape flat = with_whole_rows(turned);
  const Rows rows = rows_of(with_shape(turned, flat));
  const ElementSumRef made = on_rows(rows, flat, rows.node, rows.width);
  return permuted(with_shape(made, turned->shape), inverse_order(order));
}

// The dimensions of values of one shape, those last that step to other columns of the same token in
// one of them, and to another token in none: as heads that stand before the tokens.
std::vector<size_t> GraphBuilder::columns_last(const std::vector<ElementSumRef>& values) const {
  const Shape& shape = values[0]->shape;
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (elements_of(shape) == 0) return order;
  std::vector<bool> has_columns(shape.size(), false);
  size_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= static_cast<size_t>(shape[d])) {
    if (shape[d] < 2) continue;
    bool steps_to_row = false;
    for (const ElementSumRef& value : values) {
      const int64_t from = value->terms[0].places.at(0), to = value->terms[0].places.at(stride);
      const bool are_numbers = from != kNoElement && to != kNoElement;
      steps_to_row = steps_to_row || !are_numbers || row_of(from) != row_of(to);
      has_columns[d] = has_columns[d] || from != to;
    }
    has_columns[d] = has_columns[d] && !steps_to_row;
  }
  std::stable_partition(order.begin(), order.end(), [&](size_t d) { return !has_columns[d]; });
  return order;
}

// The shape whose last dimension joins as many as have elements of one token.
Shape GraphBuilder::with_whole_rows(const ElementSumRef& value) const {
  const Places& places = value->terms[0].places;
  Shape flat = value->shape;
  while (flat.size() > 1) {
    const int64_t last = flat.back() * flat[flat.size() - 2];
    const auto width = static_cast<size_t>(last);
    bool same_rows = true;
    for (size_t i = 0, count = value->elements(); i < count && same_rows; ++i) {
      same_rows =
          places.at(i) != kNoElement && row_of(places.at(i)) == row_of(places.at(i - i % width));
    }
    if (!same_rows) break;
    flat.pop_back();
    flat.back() = last;
  }
  return flat;
}

ValueId GraphBuilder::output(const ElementSumRef& given) {
  if (given->elements() == 0) throw NotRecognised("it has no elements");
  ElementSumRef value = materialised(given);
  // One number for each token.
  const bool is_column =
      value->shape.size() >= 2 && is_along_tokens(value, value->shape.size() - 1);
  if (is_column) {
    Shape shape = value->shape;
    shape.push_back(1);
    value = with_shape(value, shape);
  }
  if (value->shape.size() == 1) value = with_shape(value, {1, value->shape[0]});
  if (is_column && value->elements() > source(value->terms[0].places.at(0)).rows) {
    throw InputNotRecognised(
        "it gives out its columns before the tokens: give out [sequences, tokens, columns], and "
        "leave the last transposition to your program");
  }
  if (with_whole_rows(value).back() != value->shape.back()) {
    throw InputNotRecognised(
        fmt::format("it gives out the numbers of each row as {}: give them out side by side, and "
                    "leave this last view or unflatten to your program",
                    shape_text(value->shape)));
  }
  const Rows rows = rows_of(value);
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    if (rows.rows[i] != i || rows.rows.size() != rows.count) {
      const bool lacks_prefix = rows.rows.size() < rows.count && has_all_tokens(rows.rows);
      throw InputNotRecognised(lacks_prefix
                                   ? "it leaves out rows of constants that were put before the "
                                     "tokens: give out all rows, or one for each sequence"
                                   : "it gives out rows in another order than that of the "
                                     "tokens: leave the last transposition to your program");
    }
  }
  return rows.node;
}

ElementSumRef GraphBuilder::materialised(const ElementSumRef& given) {
  const ElementSumRef value = as_patches(given);
  if (value->is_plain()) return value;
  for (const auto& [known, made] : materialised_) {
    if (known == value || have_same_terms(*known, *value)) return with_shape(made, value->shape);
  }
  const std::string before = name_;
  if (!value->name.empty()) name_ = value->name;
  const ElementSumRef made = SumBuilder(*this).build(value);
  name_ = before;
  remember(value, made);
  return made;
}

void GraphBuilder::remember(const ElementSumRef& value, const ElementSumRef& made) {
  materialised_.emplace_back(value, made);
  remembered_ += value->elements();
  while (materialised_.size() > kKeptSumsMax ||
         (remembered_ > kKeptElements && !materialised_.empty())) {
    remembered_ -= materialised_.front().first->elements();
    materialised_.erase(materialised_.begin());
  }
}

ElementSumRef GraphBuilder::rotated_or_same(const ElementSumRef& value) {
  if (value->terms.size() < 2 || value->elements() == 0) return value;
  try {
    return RotationFinder(*this, *value).find().value_or(value);
  } catch (const NotRecognised&) {
    return value;  // a part of one
  }
}

// ---- values that are another one times constants: functions are of that one, and linear layers
// take the constants into their weights ----

namespace {

// What each element of `value` is times that of `base`; empty where it is no multiple.
std::vector<double> ratios_of(const ElementSum& value, const ElementSum& base) {
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

Array factor_of(const ElementSum& value, std::vector<double> ratios) {
  Shape shape = ratios.size() == 1 ? Shape() : value.shape;
  return Array::real(std::move(shape), std::move(ratios));
}

}  // namespace

std::optional<GraphBuilder::Multiple> GraphBuilder::multiple_of_node(
    const ElementSumRef& value) const {
  if (value->is_plain() || value->elements() == 0) return std::nullopt;
  for (const auto& [known, made] : materialised_) {
    std::vector<double> ratios = ratios_of(*value, *known);
    if (ratios.size() == 1 && ratios[0] == 1.0) return std::nullopt;
    if (!ratios.empty()) return Multiple{made, factor_of(*value, std::move(ratios))};
  }
  if (value->terms.size() != 1) return std::nullopt;
  const ElementSum bare = {value->shape, {Term{value->terms[0].places, {}}}};
  std::vector<double> ratios = ratios_of(*value, bare);
  return Multiple{make_sum(bare), factor_of(*value, std::move(ratios))};
}

std::optional<GraphBuilder::FoldedInput> GraphBuilder::folded_input(
    const ElementSumRef& value) const {
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
    const ElementSumRef& value) const {
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
  folded.value = make_sum({value->shape, {Term{of_model->places, {}}}});
  return folded;
}

bool GraphBuilder::has_factors_of_heads(const ElementSumRef& value) const {
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
ElementSumRef GraphBuilder::linear(const ElementSumRef& given, const WeightRef& given_weight,
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
    set_exact(weight, [given_weight, factors = folded->factors] {
      std::vector<double> scaled = given_weight.exact();
      for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= factors[i % factors.size()];
      return scaled;
    });
    weight.name = name_;
  }
  const ValueId node = graph_.add_linear(name_, {weight, std::move(bias)}, rows.node);
  return on_rows(rows, given->shape, node, weight.rows);
}

}  // namespace arenite::convert
