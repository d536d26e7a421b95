// SPDX-License-Identifier: Apache-2.0
// Rows of tables that ids or whole numbers look up: by what is computed of the token ids their
// positions, with or without padding, or the same row for all. Which it is shows for a few
// sequences of ids.

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

constexpr int64_t kProbedIdsMax = 64;  // ids that are used in probes
constexpr size_t kProbes = 8;

struct Probed {
  Array::Integers ids, rows;

  // Whether rows are positions that count ids other than `padding`: the one after it for the first
  // of them, and `padding` for padding itself.
  bool counts_all_but(int64_t padding, size_t tokens) const {
    int64_t count = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i % tokens == 0) count = 0;
      const bool is_padding = ids[i] == padding;
      if (rows[i] != padding + (is_padding ? 0 : 1 + count)) return false;
      if (!is_padding) ++count;
    }
    return true;
  }
};

std::vector<Probed> probed(Tracer& tracer, const Function& function, int64_t ids_end,
                           const std::set<int64_t>& numbers) {
  std::mt19937_64 random(11);
  std::vector<Probed> probes(kProbes);
  const std::vector<int64_t> special(numbers.begin(), numbers.lower_bound(ids_end));
  size_t next = 0;
  for (Probed& probe : probes) {
    for (size_t i = 0; i < function.base->elements(); ++i) {
      probe.ids.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(ids_end)));
    }
    // Numbers of the formula are ids that it may treat in a way of their own: each of them is
    // there.
    for (size_t i = 1; i < probe.ids.size() && !special.empty() && &probe != &probes[0]; i += 3) {
      probe.ids[i] = special[next++ % special.size()];
    }
    const Array ids = Array::integer(function.base->shape, probe.ids);
    const Array rows = evaluate(function, ids, tracer.op_budget());
    refuse_op_if(rows.elements() != probe.ids.size(), "it looks up other rows than one an id");
    probe.rows = rows.to_integers();
  }
  return probes;
}

// What is added to the id of each place, where ids are given with constants added to them; nothing
// for any other value.
std::optional<Array::Integers> added_to_ids(const GraphBuilder& builder, const ElementSum& value,
                                            ElementSumRef& ids) {
  if (value.terms.size() != 2 || value.has_own_factors() || value.shape.empty()) return {};
  const Term& first = value.terms[0];
  ids = make_sum({value.shape, {Term{first.places}}});
  const Source& from = builder.source(value.terms[1].places.at(0));
  if (!is_of_ids(builder, *ids) || first.factors.uniform != 1.0 ||
      from.kind != Source::Kind::kTable) {
    return std::nullopt;
  }
  const Array::Reals constants = from.table->array().to_reals();
  Array::Integers offsets;
  const auto places = static_cast<size_t>(value.shape.back());
  for (size_t i = 0; i < value.elements(); ++i) {
    const int64_t number = value.terms[1].places.at(i);
    if (number == kNoElement || builder.source(number).table != from.table) return std::nullopt;
    offsets.push_back(static_cast<int64_t>(value.terms[1].factors.at(i) *
                                           constants[static_cast<size_t>(index_of(number))]));
    if (offsets[i % places] != offsets[i]) return std::nullopt;
  }
  offsets.resize(places);
  return offsets;
}

// Ids to which numbers are added, those of their places: of one table for all columns each place
// has the rows from its own number on. Nothing where there are no such rows.
std::optional<ElementSumRef> with_offsets(Tracer& tracer, const ConstantRef& table,
                                          const ElementSumRef& ids,
                                          const Array::Integers& offsets) {
  const auto places = offsets.size();
  const int64_t rows = table->shape()[0], width = table->shape()[1];
  for (const int64_t offset : offsets) {
    if (offset < 0 || offset >= rows) return std::nullopt;
  }
  const auto looked_up_from = [&](int64_t offset, const ElementSumRef& own) {
    const Shape shape = {rows - offset, width};
    const Movement part = {
        .shape = shape, .walk = shape, .strides = {width, 1}, .offset = offset * width};
    return embedding(tracer.builder, moved(part, table), own);
  };
  const bool are_even = std::ranges::count(offsets, offsets[0]) == std::ssize(offsets);
  if (are_even) return looked_up_from(offsets[0], ids);
  Argument::List parts;
  for (size_t i = 0; i < places; ++i) {
    const auto place = static_cast<int64_t>(i);
    const ElementSumRef own = tracer.as_sum(tracer
                                                .trace({.op = "slice",
                                                        .arguments = {{"self", traced(ids)},
                                                                      {"dim", int64_t{-1}},
                                                                      {"start", place},
                                                                      {"end", place + 1}}})
                                                .at(0));
    parts.emplace_back(traced(looked_up_from(offsets[i], own)));
  }
  return tracer.as_sum(
      tracer
          .trace({.op = "cat",
                  .arguments = {{"tensors", std::move(parts)},
                                {"dim", static_cast<int64_t>(ids->shape.size()) - 1}}})
          .at(0));
}

constexpr int64_t kNumbersMax = 4096;  // whole numbers of a column that look up rows
constexpr double kStepsOfOne = 32.0;   // how steep a step between two whole numbers is

constexpr size_t kIdColumnsMax = 64;  // of one lookup

// The columns of the features that a value's elements are of, and which elements each has.
using ColumnElements = std::map<Column, std::vector<size_t>>;
ColumnElements columns_of_features(const GraphBuilder& builder, const ElementSum& base) {
  ColumnElements columns;
  for (size_t i = 0, count = base.elements(); i < count; ++i) {
    if (!builder.is_node(base.at(i))) return {};
    const Column column = builder.column_of(base.at(i));
    columns[column].push_back(i);
    if (!builder.graph.as<FeaturesNode>(builder.source_at(column.first).node)) return {};
    if (columns.size() > kIdColumnsMax) return {};
  }
  return columns;
}

// The row of the number 0 in each column, where that of any other number is as many rows further,
// below `numbers` of them. Empty: rows are anything else.
std::map<Column, int64_t> rows_of_columns(Tracer& tracer, const Function& function,
                                          const ColumnElements& columns, int64_t table_rows,
                                          int64_t& numbers) {
  const auto rows_for = [&](const Array::Reals& given) {
    return evaluate(function, Array::real(function.base->shape, given), tracer.op_budget())
        .to_reals();
  };
  const Array::Reals zeros(function.base->elements(), 0.0), first = rows_for(zeros);
  if (first.size() != zeros.size()) return {};
  std::map<Column, int64_t> rows;
  numbers = table_rows;
  size_t fewest = SIZE_MAX;
  for (const auto& [column, elements] : columns) {
    const double row = first[elements[0]];
    if (!(row >= 0.0) || !(row < static_cast<double>(table_rows))) return {};
    rows[column] = static_cast<int64_t>(row);
    numbers = std::min(numbers, table_rows - rows[column]);
    fewest = std::min(fewest, elements.size());
  }
  if (numbers > kNumbersMax) return {};
  for (int64_t begin = 0; begin < numbers; begin += static_cast<int64_t>(fewest)) {
    Array::Reals given = zeros, wanted = zeros;
    for (const auto& [column, elements] : columns) {
      for (size_t i = 0; i < elements.size(); ++i) {
        const int64_t number = std::min(numbers - 1, begin + static_cast<int64_t>(i));
        given[elements[i]] = static_cast<double>(number);
        wanted[elements[i]] = static_cast<double>(number + rows[column]);
      }
    }
    if (rows_for(given) != wanted) return {};
  }
  return rows;
}

// Rows that whole numbers in columns of the features look up, in each from a row of its own on:
// steps at each number show which it is, and a layer has its row. Nothing for any other numbers.
std::optional<ElementSumRef> looked_up_by_column(Tracer& tracer, const ConstantRef& table,
                                                 const FunctionRef& function) {
  GraphBuilder& builder = tracer.builder;
  const ElementSumRef& base = function->base;
  const int64_t width = table->shape()[1];
  if (function->shape != base->shape || !builder.is_node(base->front())) return std::nullopt;
  const OnStream on(builder, *base);
  const ColumnElements columns = columns_of_features(builder, *base);
  int64_t rows = 0;
  const auto first_rows = rows_of_columns(tracer, *function, columns, table->shape()[0], rows);
  if (columns.empty() || first_rows.empty()) return std::nullopt;
  std::vector<double> bias;  // a number is above the step of its own, and below the next one
  for (int64_t row = 0; row <= rows; ++row) {
    bias.push_back(2.0 - kStepsOfOne * static_cast<double>(row));
  }
  Movement together{.shape = base->shape};
  together.shape.push_back(width);
  std::vector<int64_t>& sources = together.sources.emplace(elements_of(together.shape));
  std::vector<ElementSumRef> parts;
  int64_t begin = 0;  // of a column's rows in all parts
  for (const auto& [column, elements] : columns) {
    const auto count = static_cast<int64_t>(elements.size());
    Movement own{.shape = {1, count, 1}};
    own.sources.emplace(elements.begin(), elements.end());
    WeightRef ones;
    ones.name = builder.name + ".steps";
    ones.rows = static_cast<uint32_t>(rows) + 1;
    ones.columns = 1;
    set_exact(ones, [size = ones.rows] { return std::vector<double>(size, kStepsOfOne); });
    const ElementSumRef steps = activation(builder, linear(builder, moved(own, base), ones, bias),
                                           {Activation::kClamp, 1.0});
    const auto from = [&](int64_t first) {
      return moved(Movement{.shape = {1, count, rows},
                            .walk = {count, rows},
                            .strides = {rows + 1, 1},
                            .offset = first},
                   steps);
    };
    const uint32_t input = static_cast<uint32_t>(std::countr_zero(
        builder.graph.inputs_of(builder.graph.axis(builder.source_at(column.first).node))));
    builder.graph.inputs[input].ids_of_columns[column.second] = static_cast<uint32_t>(rows);
    const Movement part = {.shape = {rows, width},
                           .walk = {rows, width},
                           .strides = {width, 1},
                           .offset = first_rows.at(column) * width};
    const bool is_whole = rows == table->shape()[0];
    parts.push_back(tracer.linear(scaled(sum(from(0), from(1), -1.0), 0.5),
                                  is_whole ? table : moved(part, table), true, nullptr));
    for (size_t i = 0; i < elements.size() * static_cast<size_t>(width); ++i) {
      const auto w = static_cast<size_t>(width);
      sources[elements[i / w] * w + i % w] = begin + static_cast<int64_t>(i);
    }
    begin += count * width;
  }
  return moved(together, parts);
}

}  // namespace

ElementSumRef looked_up(Tracer& tracer, const ConstantRef& table, const TracedValue& given) {
  GraphBuilder& builder = tracer.builder;
  const FunctionRef& function = given.as<FunctionRef>();
  if (function && !is_of_ids(builder, given)) {
    if (const auto made = looked_up_by_column(tracer, table, function)) return *made;
  }
  const bool is_of_each_id = function && is_of_ids(builder, *function->base) &&
                             elements_of(function->shape) == function->base->elements();
  if (const ElementSumRef& sum = given.as<ElementSumRef>()) {
    ElementSumRef ids;
    const OnStream on(builder, *sum);
    const auto offsets = added_to_ids(builder, *sum, ids);
    const auto made = offsets ? with_offsets(tracer, table, ids, *offsets) : std::nullopt;
    if (made) return *made;
  }
  if (!is_of_each_id) return embedding(builder, table, tracer.as_sum(given));
  const ElementSumRef base = function->base;
  const auto in_shape = [&](const ElementSumRef& made) {
    Shape shape = function->shape;
    shape.push_back(made->shape.back());
    return with_shape(made, shape);
  };
  std::set<int64_t> numbers;  // that may be ids
  for (const double number : numbers_of(*function)) {
    if (number >= 0.0 && number < 0x1p32 && number == std::floor(number)) {
      numbers.insert(static_cast<int64_t>(number));
    }
  }
  const int64_t rows = table->shape()[0];
  const OnStream on(builder, *base);
  const uint32_t known = builder.graph.inputs[builder.stream()].vocab_size;
  const int64_t ids_end = std::clamp<int64_t>(known != 0 ? known : rows, 1, kProbedIdsMax);
  const std::vector<Probed> probes = probed(tracer, *function, ids_end, numbers);
  const auto holds = [&](const auto& rule) { return std::ranges::all_of(probes, rule); };
  if (holds([](const Probed& probe) { return probe.rows == probe.ids; })) {
    return in_shape(embedding(builder, table, base));
  }
  const size_t places = static_cast<size_t>(base->shape.back());
  Array::Integers offsets;
  for (size_t i = 0; i < places; ++i) offsets.push_back(probes[0].rows[i] - probes[0].ids[i]);
  const auto has_offsets = [&](const Probed& probe) {
    for (size_t i = 0; i < probe.ids.size(); ++i) {
      if (probe.rows[i] != probe.ids[i] + offsets[i % places]) return false;
    }
    return true;
  };
  if (holds(has_offsets)) {
    if (const auto made = with_offsets(tracer, table, base, offsets)) return in_shape(*made);
  }
  const Array::Integers& first = probes[0].rows;
  if (holds([&](const Probed& probe) { return probe.rows == first; })) {
    return in_shape(table_rows(builder, table, base->shape, first));
  }
  const size_t tokens = builder.sizes.tokens;
  for (const int64_t padding : numbers) {
    if (base->shape.back() == builder.sizes.tokens &&
        holds([&](const Probed& probe) { return probe.counts_all_but(padding, tokens); })) {
      return in_shape(padded_positions(builder, table, base, padding));
    }
  }
  throw NotRecognised(
      "the rows that it looks up are computed of the token ids: expected the ids themselves, or "
      "their positions, with or without padding");
}

}  // namespace arenite::convert
