// SPDX-License-Identifier: Apache-2.0
// Rows that are looked up by what is computed of the token ids: their positions, with or without
// padding, or the same row for all. Which it is shows for a few sequences of ids.
#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <utility>

#include "convert/exported/reducer.h"

namespace arenite::convert {
namespace {

constexpr int64_t kProbedIdsMax = 64;  // ids that are used in probes

void collect_ids(const Expression& expression, std::set<const Expression*>& seen,
                 std::set<int64_t>& ids) {
  if (!seen.insert(&expression).second) return;
  for (const NamedArgument& argument : expression.call.arguments) {
    if (const int64_t* number = argument.value.as<int64_t>()) ids.insert(*number);
  }
  for (const ExpressionRef& input : expression.inputs) collect_ids(*input, seen, ids);
}

struct Probed {
  Array::Integers ids, rows;
};

// The rows of positions that count ids other than `padding`: `offset` for the first of them, and
// the one before that for padding itself.
bool counts_all_but(int64_t padding, int64_t offset, const Probed& probed, size_t tokens) {
  int64_t count = 0;
  for (size_t i = 0; i < probed.ids.size(); ++i) {
    if (i % tokens == 0) count = 0;
    const bool is_padding = probed.ids[i] == padding;
    if (probed.rows[i] != offset + (is_padding ? -1 : count)) return false;
    if (!is_padding) ++count;
  }
  return true;
}

}  // namespace

Reduced Reducer::looked_up(const ConstantRef& table, const Reduced& given) {
  const auto* function = std::get_if<FunctionRef>(&given);
  if (function == nullptr) return builder_.embedding(table, as_affine(given));
  const AffineRef base = (*function)->base;
  const Expression& expression = *(*function)->expression;
  if (!builder_.is_of_ids(*base) || expression.shape != base->shape)
    return builder_.embedding(table, as_affine(given));
  std::set<const Expression*> seen;
  std::set<int64_t> numbers;
  collect_ids(expression, seen, numbers);
  const int64_t rows = table->shape()[0];
  const int64_t ids_end = std::clamp<int64_t>(
      builder_.graph().vocab_size != 0 ? builder_.graph().vocab_size : rows, 1, kProbedIdsMax);
  std::mt19937_64 random(11);
  std::vector<Probed> probes(4);
  for (Probed& probed : probes) {
    for (size_t i = 0; i < base->elements(); ++i) {
      probed.ids.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(ids_end)));
    }
    // Numbers of the formula are ids that it may treat in a way of their own.
    for (size_t i = 1; i < probed.ids.size(); i += 3) {
      for (const int64_t number : numbers) {
        if (number >= 0 && number < ids_end && random() % 2 == 0) probed.ids[i] = number;
      }
    }
    budget_.live_elements = OpBudget{}.live_elements;
    const Array rows = evaluate(expression, Array::integer(base->shape, probed.ids), budget_);
    if (rows.shape() != base->shape) throw NotRecognised("it looks up other rows than one an id");
    probed.rows = rows.to_integers();
  }
  const auto holds = [&](const std::function<bool(const Probed&)>& rule) {
    return std::ranges::all_of(probes, rule);
  };
  if (holds([](const Probed& probed) { return probed.rows == probed.ids; })) {
    return builder_.embedding(table, base);
  }
  const int64_t first = probes[0].rows.at(0);
  if (first >= 0 && first < rows && holds([&](const Probed& probed) {
        return std::ranges::all_of(probed.rows, [&](int64_t row) { return row == first; });
      })) {
    return builder_.table_rows(table, base->shape, std::vector<int64_t>(base->elements(), first));
  }
  if (holds([&](const Probed& probed) { return probed.rows == probes[0].rows; })) {
    return builder_.table_rows(table, base->shape, probes[0].rows);
  }
  const size_t tokens = builder_.sizes().tokens;
  for (const int64_t padding : numbers) {
    const auto rule = [&](const Probed& probed) {
      return counts_all_but(padding, padding + 1, probed, tokens);
    };
    if (padding >= 0 && base->shape.back() == builder_.sizes().tokens && holds(rule)) {
      return builder_.padded_positions(table, base, padding);
    }
  }
  throw NotRecognised(
      "the rows that it looks up are computed of the token ids: expected the ids themselves, or "
      "their positions, with or without padding");
}

bool GraphBuilder::is_embedding_with_tables(const Affine& value) const {
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
AffineRef GraphBuilder::table_rows(const ConstantRef& table, Shape shape,
                                   const std::vector<int64_t>& rows) {
  const int64_t width = table->shape()[1];
  const AffineRef whole = of_constant(table);
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

AffineRef GraphBuilder::padded_positions(const ConstantRef& table, const AffineRef& ids,
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

}  // namespace arenite::convert
