// SPDX-License-Identifier: Apache-2.0
// Lowers table lookups by token ids, by functions of ids, and by integers in feature columns. A few
// probes of a function tell whether it gives the ids, their positions (with or without padding), or
// the same rows for all ids. Masks computed from ids become elements that the ids look up.
//
//   table[ids + 100]                    ->  embedding of the table from row 100 on
//   table[m.cumsum(1) * m + 1]          ->  positions that skip padding id 1, where m = ids != 1
//   scores.masked_fill(ids == 0, -inf)  ->  an addend for each key's id

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/trace/op_handlers.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

constexpr int64_t kProbedIdsMax = 64;  // different ids in probes
constexpr size_t kProbes = 8;

// Returns the number of ids in the vocabulary, or of token types; 0: not known.
int64_t ids_end_of(const GraphBuilder& builder, const LinearExpr& ids) {
  const GraphInput& input = builder.graph.inputs.at(builder.row_axis());
  return is_of_types(builder, ids) ? input.token_types : input.vocab_size;
}

struct Probed {
  Array::Integers ids, rows;

  // Whether rows are positions that skip padding: they count ids other than `padding` from padding
  // + 1 on, and are `padding` for padding.
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
    // Constants of the function may be special ids, so probes contain each of them.
    for (size_t i = 1; i < probe.ids.size() && !special.empty() && &probe != &probes[0]; i += 3) {
      probe.ids[i] = special[next++ % special.size()];
    }
    const Array ids = Array::integer(function.base->shape, probe.ids);
    const Array rows = evaluate(function, ids, tracer.op_budget());
    refuse_op_if(rows.elements() != probe.ids.size(),
                 "the lookup reads several rows for one id; expected one row per id");
    probe.rows = rows.to_integers();
  }
  return probes;
}

// For a sum of ids and constants, returns the constant at each position, and the ids in `ids`;
// nullopt for any other value.
std::optional<Array::Integers> added_to_ids(const GraphBuilder& builder, const LinearExpr& value,
                                            LinearExprRef& ids) {
  if (value.terms.size() != 2 || value.has_own_factors() || value.shape.empty()) return {};
  const Term& first = value.terms[0];
  ids = make_sum({value.shape, {Term{first.places}}});
  const Producer& from = builder.producer(value.terms[1].places.at(0));
  if (!is_of_ids(builder, *ids) || first.factors.uniform != 1.0 ||
      from.kind != Producer::Kind::kTable) {
    return std::nullopt;
  }
  const Array::Reals constants = from.table->array().to_reals();
  Array::Integers offsets;
  const auto places = static_cast<size_t>(value.shape.back());
  for (size_t i = 0; i < value.elements(); ++i) {
    const int64_t number = value.terms[1].places.at(i);
    if (number == kNoElement || builder.producer(number).table != from.table) return std::nullopt;
    offsets.push_back(static_cast<int64_t>(value.terms[1].factors.at(i) *
                                           constants[static_cast<size_t>(index_of(number))]));
    if (offsets[i % places] != offsets[i]) return std::nullopt;
  }
  offsets.resize(places);
  return offsets;
}

// Looks up ids plus an offset for each position: each position reads a slice of the table that
// begins at its offset. Returns nullopt if an offset is outside the table.
std::optional<LinearExprRef> with_offsets(Tracer& tracer, const ConstantRef& table,
                                          const LinearExprRef& ids,
                                          const Array::Integers& offsets) {
  const auto places = offsets.size();
  const int64_t rows = table->shape()[0], width = table->shape()[1];
  for (const int64_t offset : offsets) {
    if (offset < 0 || offset >= rows) return std::nullopt;
  }
  const auto looked_up_from = [&](int64_t offset, const LinearExprRef& own) {
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
    const LinearExprRef own = tracer.as_sum(tracer
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

constexpr int64_t kNumbersMax = 4096;  // integers in a feature column
constexpr double kStepsOfOne = 32.0;   // slope of the step between two integers

constexpr size_t kIdColumnsMax = 64;  // in one lookup

// The element indices of a value, by feature column.
using ColumnElements = std::map<Column, std::vector<size_t>>;
ColumnElements columns_of_features(const GraphBuilder& builder, const LinearExpr& base) {
  ColumnElements columns;
  for (size_t i = 0, count = base.elements(); i < count; ++i) {
    if (!builder.is_node(base.at(i))) return {};
    const Column column = builder.column_of(base.at(i));
    columns[column].push_back(i);
    if (!builder.graph.as<FeaturesNode>(builder.producer_at(column.first).node)) return {};
    if (columns.size() > kIdColumnsMax) return {};
  }
  return columns;
}

// If each column reads consecutive rows by its integers, returns the row of integer 0 for each, and
// the number of integers in `numbers`. Empty for any other function. REQUIRES: a column.
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

// Looks up rows by integers in feature columns, each from its own first row on. Differences of
// clamped steps are one-hot rows, which a linear layer multiplies by the table. Returns nullopt for
// any other function.
std::optional<LinearExprRef> lookup_by_feature_column(Tracer& tracer, const ConstantRef& table,
                                                      const FunctionRef& function) {
  GraphBuilder& builder = tracer.builder;
  const LinearExprRef& base = function->base;
  const int64_t width = table->shape()[1];
  if (function->shape != base->shape || !builder.is_node(base->front())) return std::nullopt;
  const ScopedAxis on(builder, *base);
  const ColumnElements columns = columns_of_features(builder, *base);
  if (columns.empty()) return std::nullopt;
  int64_t rows = 0;
  const auto first_rows = rows_of_columns(tracer, *function, columns, table->shape()[0], rows);
  if (first_rows.empty()) return std::nullopt;
  std::vector<double> bias;  // integer n lies between steps n and n + 1
  for (int64_t row = 0; row <= rows; ++row) {
    bias.push_back(2.0 - kStepsOfOne * static_cast<double>(row));
  }
  Movement together{.shape = base->shape};
  together.shape.push_back(width);
  std::vector<int64_t>& sources = together.sources.emplace(elements_of(together.shape));
  std::vector<LinearExprRef> parts;
  int64_t begin = 0;  // of the column in the concatenation of all parts
  for (const auto& [column, elements] : columns) {
    const auto count = static_cast<int64_t>(elements.size());
    Movement own{.shape = {1, count, 1}};
    own.sources.emplace(elements.begin(), elements.end());
    WeightRef ones;
    ones.name = builder.name + ".steps";
    ones.rows = static_cast<uint32_t>(rows) + 1;
    ones.columns = 1;
    set_exact(ones, [size = ones.rows] { return std::vector<double>(size, kStepsOfOne); });
    const LinearExprRef steps = activation(builder, linear(builder, moved(own, base), ones, bias),
                                           {Activation::kClamp, 1.0});
    const auto from = [&](int64_t first) {
      return moved(Movement{.shape = {1, count, rows},
                            .walk = {count, rows},
                            .strides = {rows + 1, 1},
                            .offset = first},
                   steps);
    };
    const uint32_t input = static_cast<uint32_t>(std::countr_zero(
        builder.graph.inputs_of(builder.graph.axis(builder.producer_at(column.first).node))));
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

LinearExprRef looked_up(Tracer& tracer, const ConstantRef& table, const TracedValue& given) {
  GraphBuilder& builder = tracer.builder;
  const FunctionRef& function = given.as<FunctionRef>();
  if (function && !is_of_ids(builder, given)) {
    if (const auto made = lookup_by_feature_column(tracer, table, function)) return *made;
  }
  const bool is_of_each_id = function && is_of_ids(builder, *function->base) &&
                             elements_of(function->shape) == function->base->elements();
  if (const LinearExprRef& sum = given.as<LinearExprRef>()) {
    LinearExprRef ids;
    const ScopedAxis on(builder, *sum);
    const auto offsets = added_to_ids(builder, *sum, ids);
    const auto made = offsets ? with_offsets(tracer, table, ids, *offsets) : std::nullopt;
    if (made) return *made;
  }
  if (!is_of_each_id) return embedding(builder, table, tracer.as_sum(given));
  const LinearExprRef base = function->base;
  const auto in_shape = [&](const LinearExprRef& made) {
    Shape shape = function->shape;
    shape.push_back(made->shape.back());
    return with_shape(made, shape);
  };
  std::set<int64_t> numbers;  // constants that may be ids
  for (const double number : scalar_constants(*function)) {
    if (number >= 0.0 && number < 0x1p32 && number == std::floor(number)) {
      numbers.insert(static_cast<int64_t>(number));
    }
  }
  const int64_t rows = table->shape()[0];
  const ScopedAxis on(builder, *base);
  const int64_t known = ids_end_of(builder, *base);
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
    if (is_of_types(builder, *base)) break;
    if (base->shape.back() == builder.sizes.tokens &&
        holds([&](const Probed& probe) { return probe.counts_all_but(padding, tokens); })) {
      return in_shape(padded_positions(builder, table, base, padding));
    }
  }
  throw NotRecognised(
      "the lookup indices are another function of the token ids; expected the ids themselves, or "
      "their positions, with or without padding");
}

// ---- functions of token ids: elements that the ids look up, such as padding flags ----

namespace {

constexpr size_t kIdProbes = 4;
constexpr double kLargestNumber = 1e30;  // replaces infinity
constexpr int64_t kTriedIdsMax = 64;     // vocabulary in which all ids are tried
constexpr double kHiddenKey = -1e9;      // added to the score of a hidden key

// Returns the index of the base element that each element of a function depends on, judged by its
// ops. Probes verify it.
Array places_in_base(const Function& function) {
  const Level level;
  const auto iota = [](const Shape& shape) {
    Array::Reals places(elements_of(shape));
    std::iota(places.begin(), places.end(), 0.0);
    return Array::real(shape, std::move(places));
  };
  if (function.is_base()) return iota(function.shape);
  std::optional<Array> found;
  for (const TracedValue& input : values_of(*function.call)) {
    const FunctionRef& part = input.as<FunctionRef>();
    if (part && !found) found = places_in_base(*part);
  }
  refuse_op_if(!found, kReadsIds);
  const Call shapes = bind<TracedRef>(*function.call, [&](const TracedRef& ref) -> Argument {
    const FunctionRef& part = ref->as<FunctionRef>();
    if (part) return Array::of_shape(part->shape, ElementType::kF64);
    return ref->as<ConstantRef>()->array();
  });
  if (const auto movements = movements_of(shapes)) {
    return Array::real(movements->at(0).shape, movements->at(0).apply<double>(found->to_reals()));
  }
  // The classes of a one-hot id depend on that id, and so does a reduction over classes.
  const bool is_more = function.call->op == "one_hot";
  if (is_more || (is_reduction(function.call->op) && !found->shape().empty())) {
    const Array::Reals each = found->to_reals();
    const size_t count = elements_of(function.shape);
    Array::Reals places(count);
    for (size_t i = 0; i < count; ++i) {
      places[i] = each.at(is_more ? i / (count / each.size()) : i * (each.size() / count));
    }
    return Array::real(function.shape, std::move(places));
  }
  refuse_op_if(broadcast(found->shape(), function.shape) != function.shape, kReadsIds);
  return Array::real(function.shape, stretched_reals(*found, function.shape));
}

Array random_ids(const Shape& shape, int64_t ids_end, std::mt19937_64& random) {
  Array::Integers ids(elements_of(shape));
  for (int64_t& id : ids) id = static_cast<int64_t>(random() % static_cast<uint64_t>(ids_end));
  return Array::integer(shape, std::move(ids));
}

// Returns the ids that a function may treat specially: its constants, and the integers next to
// these.
std::set<int64_t> special_ids(const Function& function, int64_t ids_end) {
  std::set<int64_t> special;
  for (int64_t id = 0; id < ids_end && ids_end <= kTriedIdsMax; ++id) special.insert(id);
  for (const double number : scalar_constants(function)) {
    if (!(number >= -1.0 && number < 0x1p32) || number != std::floor(number)) continue;
    for (int64_t id = static_cast<int64_t>(number) - 1; id <= static_cast<int64_t>(number) + 1;
         ++id) {
      if (id >= 0 && id < ids_end) special.insert(id);
    }
  }
  return special;
}

}  // namespace

bool is_of_ids(const GraphBuilder& builder, const TracedValue& value) {
  const FunctionRef& function = value.as<FunctionRef>();
  return function && is_of_ids(builder, *function->base);
}

LinearExprRef lookup_of_function(Tracer& tracer, const Function& function) {
  GraphBuilder& builder = tracer.builder;
  const LinearExprRef base = function.base;
  const ScopedAxis on(builder, *base);
  const int64_t ids_end = ids_end_of(builder, *base);
  if (ids_end == 0 || function.shape.empty()) tracer.require_no_ids(function);
  const Array::Reals places = places_in_base(function).to_reals();
  const auto numbers_for = [&](const Array& ids) {
    Array::Reals numbers = evaluate(function, ids, tracer.op_budget()).to_reals();
    if (numbers.size() != places.size()) tracer.require_no_ids(function);
    for (double& number : numbers) number = std::clamp(number, -kLargestNumber, kLargestNumber);
    return numbers;
  };
  const std::set<double> used(places.begin(), places.end());
  std::vector<double> table(static_cast<size_t>(ids_end), 0.0);
  for (int64_t first = 0; first < ids_end; first += static_cast<int64_t>(used.size())) {
    Array::Integers ids(base->elements(), 0);
    int64_t next = first;
    for (const double place : used) {
      ids.at(static_cast<size_t>(place)) = std::min(next++, ids_end - 1);
    }
    const Array::Reals numbers = numbers_for(Array::integer(base->shape, ids));
    for (size_t i = 0; i < numbers.size(); ++i) {
      table[static_cast<size_t>(ids[static_cast<size_t>(places[i])])] = numbers[i];
    }
  }
  std::mt19937_64 random(13);
  for (size_t probe = 0; probe < kIdProbes; ++probe) {
    const Array ids = random_ids(base->shape, ids_end, random);
    const Array::Integers given = ids.to_integers();
    const Array::Reals numbers = numbers_for(ids);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t id = given[static_cast<size_t>(places[i])];
      if (numbers[i] != table[static_cast<size_t>(id)]) tracer.require_no_ids(function);
    }
  }
  // In a mask of two values, the value of fewer ids marks padding.
  std::map<double, std::set<uint32_t>> marked;
  for (size_t id = 0; id < table.size(); ++id) {
    if (marked.size() < 3) marked[table[id]].insert(static_cast<uint32_t>(id));
  }
  if (marked.size() == 2 && marked.begin()->second.size() != marked.rbegin()->second.size() &&
      !is_of_types(builder, *base)) {
    const auto fewer =
        std::ranges::min_element(marked, {}, [](const auto& ids) { return ids.second.size(); });
    builder.graph.inputs[builder.row_axis()].padding_ids.merge(fewer->second);
  }
  const LinearExprRef each = tracer.looked_up_number(base, table);
  std::vector<int64_t> element_ids;
  for (const double place : places) element_ids.push_back(each->at(static_cast<size_t>(place)));
  return plain(function.shape, std::move(element_ids));
}

namespace {

// The addends of scores: a common one for each score, and one for each id of a key.
struct AddedByIds {
  std::vector<double> common, of_keys;
  bool hides_by_numbers = false;  // hides keys by finite addends, not by -infinity
};

AddedByIds added_by_ids(Tracer& tracer, const Scores& scores, const Function& function,
                        const std::function<double(double)>& added) {
  const GraphBuilder& builder = tracer.builder;
  const LinearExprRef& ids = function.base;
  const int64_t ids_end = ids_end_of(builder, *ids);
  const auto keys = static_cast<size_t>(scores.shape.back());
  const bool fits =
      ids_end > 1 && keys == builder.sizes.tokens && ids->elements() == builder.sizes.rows();
  refuse_op_if(!fits, kReadsIds);
  bool hides_by_numbers = false;
  const auto added_for = [&](const Array& given) {
    std::vector<double> numbers =
        stretched_reals(evaluate(function, given, tracer.op_budget()), scores.shape);
    for (double& number : numbers) {
      number = added(number);
      if (number > kHiddenScoreMax) continue;
      hides_by_numbers = hides_by_numbers || std::isfinite(number);
      number = -std::numeric_limits<double>::infinity();
    }
    return numbers;
  };
  const std::set<int64_t> special = special_ids(function, ids_end);
  const auto added_by = [&](int64_t id) {
    return added_for(Array::integer(ids->shape, Array::Integers(ids->elements(), id)));
  };
  // The common addends are those of an id without special treatment, or of the special id that
  // hides the fewest keys.
  int64_t common_id = 0;
  while (special.contains(common_id) && common_id + 1 < ids_end) ++common_id;
  std::vector<double> common = added_by(common_id);
  const auto hidden_in = [](const std::vector<double>& numbers) {
    return std::ranges::count_if(numbers, [](double number) { return std::isinf(number); });
  };
  for (const int64_t id : special) {
    std::vector<double> numbers = added_by(id);
    if (hidden_in(numbers) < hidden_in(common)) common = std::move(numbers);
  }
  // The addend of an id is its difference from the common addends.
  std::vector<double> of_keys(static_cast<size_t>(ids_end), 0.0);
  for (const int64_t id : special) {
    const std::vector<double> numbers = added_by(id);
    std::optional<double> more;
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (std::isinf(common[i])) continue;
      const double difference = numbers[i] - common[i];
      refuse_op_if(difference != more.value_or(difference), kReadsIds);
      more = difference;
    }
    refuse_op_if(!more, kReadsIds);
    of_keys[static_cast<size_t>(id)] = *more;
  }
  std::mt19937_64 random(17);
  const size_t each =
      scores.shape.size() < 2 ? 0 : elements_of(scores.shape) / builder.sizes.sequences;
  for (size_t probe = 0; probe < 2 * kIdProbes; ++probe) {
    Array::Integers given = random_ids(ids->shape, ids_end, random).to_integers();
    for (size_t i = probe % 2; i < given.size() && !special.empty(); i += 3) {
      given[i] = *std::next(special.begin(), static_cast<ptrdiff_t>(random() % special.size()));
    }
    const std::vector<double> numbers = added_for(Array::integer(ids->shape, given));
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t id = given[i / each * keys + i % keys];
      refuse_op_if(numbers[i] != common[i] + of_keys[static_cast<size_t>(id)], kReadsIds);
    }
  }
  return {std::move(common), std::move(of_keys), hides_by_numbers};
}

}  // namespace

ScoresRef mask_by_ids(Tracer& tracer, const Scores& scores, const Function& function,
                      const std::function<double(double)>& added) {
  GraphBuilder& builder = tracer.builder;
  const LinearExprRef& ids = function.base;
  const ScopedAxis on(builder, *ids);
  const auto keys = static_cast<size_t>(scores.shape.back());
  auto [common, of_keys, hides_by_numbers] = added_by_ids(tracer, scores, function, added);
  ScoresRef masked = std::make_shared<const Scores>(scores);
  if (std::ranges::any_of(common, [](double number) { return number != 0.0; })) {
    masked = with_added(*masked, Array::real(scores.shape, Array::Reals(common)), 0);
  }
  for (size_t id = 0; id < of_keys.size(); ++id) {
    of_keys[id] = std::max(of_keys[id], kHiddenKey);
    if (of_keys[id] > kHiddenScoreMax || is_of_types(builder, *ids)) continue;
    builder.graph.inputs[builder.row_axis()].padding_ids.insert(static_cast<uint32_t>(id));
  }
  if (std::ranges::all_of(of_keys, [](double more) { return more == 0.0; })) return masked;
  const LinearExprRef value = tracer.looked_up_number(ids, of_keys);
  Shape shape = scores.shape;
  shape[shape.size() - 2] = 1;
  std::vector<int64_t> element_ids;
  for (size_t i = 0, count = elements_of(shape); i < count; ++i) {
    const size_t sequence = i * builder.sizes.sequences / count;
    element_ids.push_back(value->at(sequence * keys + i % keys));
  }
  masked = plus_value(tracer.builder, *masked, plain(shape, std::move(element_ids)));
  refuse_op_if(masked == nullptr,
               "cannot mask keys by token id if scores are capped or scaled per head");
  // Under a causal mask, the first query sees a single key, which its id may hide.
  const auto hidden = std::count_if(common.begin(), common.begin() + static_cast<ptrdiff_t>(keys),
                                    [](double number) { return std::isinf(number); });
  auto marked = std::make_shared<Scores>(*masked);
  marked->may_see_nothing = keys > 1 && static_cast<size_t>(hidden) + 1 == keys;
  // Then a softmax with finite masks would give the mean of all values.
  if (marked->may_see_nothing && hides_by_numbers) builder.may_see_nothing = true;
  return marked;
}

namespace {

// Returns the fill value of a call as an array; one element if all are equal.
Array read_fill_value(const Tracer& tracer, const Call& call, const char* name) {
  if (const TracedValue* constant = value_of(call, name)) {
    const Array array = tracer.array_of(*constant);
    const Array::Reals numbers = array.to_reals();
    const bool are_equal = !numbers.empty() && std::ranges::count(numbers, numbers[0]) ==
                                                   static_cast<ptrdiff_t>(numbers.size());
    return are_equal ? Array::real({}, {numbers[0]}) : array;
  }
  const Array* array = call.argument(name).as<Array>();
  return array != nullptr ? *array : Array::real({}, {call.real(name)});
}

// Lowers masked_fill of a value [.., tokens, tokens] by a constant mask and a large negative
// number. Returns nullopt for any other call.
std::optional<TracedValue> fill_hidden_pairs(Tracer& tracer, const Call& call) {
  const auto mask = value_as<ConstantRef>(call, "mask");
  const TracedValue* self = value_of(call, "self");
  if (call.op != "masked_fill" || !mask || self == nullptr || self->is_constant()) return {};
  const Shape shape = shape_of(*self);
  const bool are_pairs = shape.size() > 1 && shape.back() == shape[shape.size() - 2] &&
                         broadcast(shape, mask->shape()) == shape;
  const Array number = read_fill_value(tracer, call, "value");
  if (!are_pairs || number.elements() != 1 || number.to_reals()[0] > kHiddenScoreMax) return {};
  const auto hidden = std::make_shared<const Constant>(kNoValue, number);
  const Call choice = {
      .op = "where",
      .overload = "self",
      .arguments = {
          {"condition", traced(mask)}, {"self", traced(hidden)}, {"other", call.argument("self")}}};
  const LinearExprRef parts[] = {tracer.builder.constant_expr(hidden), tracer.as_sum(*self)};
  const auto movements = movements_of(with_shapes(choice));
  if (!movements) return std::nullopt;
  tracer.builder.limit_positions(positions_max_of(call));
  return moved(movements->at(0), parts);
}

}  // namespace

// Lowers masked_fill and where with a mask that depends on token ids, or on any() or all() over
// tokens.
std::optional<TracedValue> filled_by_ids(Tracer& tracer, const Call& call) {
  const bool fills = call.op == "masked_fill";
  if (!fills && call.op != "where") return std::nullopt;
  const TracedValue* mask = value_of(call, fills ? "mask" : "condition");
  const TracedValue* self = value_of(call, "self");
  const TracedValue* other = fills ? nullptr : value_of(call, "other");
  if (mask == nullptr) return std::nullopt;
  const auto is_of_tokens = [&](const TracedValue* value) {
    return value != nullptr && !value->is_constant() && !is_of_ids(tracer.builder, *value);
  };
  const bool is_by_ids = is_of_ids(tracer.builder, *mask), keeps_self = is_of_tokens(self);
  const bool is_over_tokens = mask->type == ElementType::kBool && mask->is<LinearExprRef>();
  const bool is_choice = self != nullptr && other != nullptr && (is_by_ids || is_over_tokens);
  if (is_choice &&
      (is_by_ids ? keeps_self && is_of_tokens(other) : keeps_self || is_of_tokens(other))) {
    const LinearExprRef unset = tracer.as_sum(*other);
    const LinearExprRef more = sum(tracer.as_sum(*self), unset, -1.0);
    return sum(unset, product(tracer.builder, more, tracer.as_sum(*mask)), 1.0);
  }
  if (!is_by_ids) return fill_hidden_pairs(tracer, call);
  if (keeps_self == is_of_tokens(other)) return std::nullopt;
  const Array number = read_fill_value(tracer, call,
                                       fills        ? "value"
                                       : keeps_self ? "other"
                                                    : "self");
  if (number.elements() != 1) return std::nullopt;
  const FunctionRef flags = mask->as<FunctionRef>();
  const auto function = [&](const char* op, std::vector<NamedArgument> arguments) {
    return function_of(flags->base, {.op = op, .arguments = std::move(arguments)}, flags->shape,
                       flags->depth + 2);
  };
  const FunctionRef set =
      function("mul", {{"self", traced(flags)}, {"other", Array::real({}, {1.0})}});
  const FunctionRef unset =
      function("sub", {{"self", Array::real({}, {1.0})}, {"other", traced(set)}});
  const bool hides_set = fills || !keeps_self;
  const LinearExprRef value = tracer.as_sum(keeps_self ? *self : *other);
  const LinearExprRef kept = product(tracer.builder, value, tracer.as_sum(hides_set ? unset : set));
  const double filled = std::clamp(number.to_reals()[0], -kLargestNumber, kLargestNumber);
  if (filled == 0.0) return kept;
  return sum(kept, tracer.as_sum(hides_set ? set : unset), filled);
}

}  // namespace arenite::convert
