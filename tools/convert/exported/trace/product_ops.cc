// SPDX-License-Identifier: Apache-2.0
// Lowers matrix products: with constants to linear layers, of two values to scores and attention,
// and with one-hot ids to lookups.
//
//   x @ W           ->  linear(x)
//   q @ k.mT        ->  Scores
//   weights @ v     ->  attention

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/recover/concat_rows.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/trace/op_handlers.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

// Drops leading dimensions of extent 1, down to rank 2.
Shape matrix_shape(Shape shape) {
  while (shape.size() > 2 && shape[0] == 1) shape.erase(shape.begin());
  return shape;
}

ConstantRef as_matrix(const ConstantRef& constant) {
  const Shape shape = matrix_shape(constant->shape());
  refuse_op_if(shape.size() != 2,
               "a value is multiplied by a constant of {}; expected a matrix of weights",
               shape_text(constant->shape()));
  return shape == constant->shape() ? constant : with_shape(constant, shape);
}

// Returns the mask whose softmax is this constant. A row must have equal weights for all visible
// keys. Returns nullopt for any other constant.
std::optional<Array> added_of_weights(const ConstantRef& constant, int64_t tokens) {
  const Shape& shape = constant->shape();
  if (shape.size() < 2 || shape.back() != tokens || shape[shape.size() - 2] != tokens ||
      constant->is_large()) {
    return std::nullopt;
  }
  const Array::Reals weights = constant->array().to_reals();
  Array::Reals added;
  for (auto row = weights.begin(); row != weights.end(); row += static_cast<ptrdiff_t>(tokens)) {
    const auto end = row + static_cast<ptrdiff_t>(tokens);
    const double largest = *std::max_element(row, end);
    double sum = 0.0;
    for (auto weight = row; weight != end; ++weight) {
      if (*weight != 0.0 && std::fabs(*weight - largest) > 1e-6) return std::nullopt;
      sum += *weight;
      added.push_back(*weight == 0.0 ? -std::numeric_limits<double>::infinity() : 0.0);
    }
    if (std::fabs(sum - 1.0) > 1e-5) return std::nullopt;
  }
  return Array::real(shape, std::move(added));
}

// ---- products with several matrices of weights, such as one for each head ----

constexpr int64_t kMatricesMax = 256;  // in one product

// Traces an op with these arguments.
TracedValue run(Tracer& tracer, const char* op, std::vector<NamedArgument> arguments) {
  return tracer.trace({.op = op, .arguments = std::move(arguments)}).at(0);
}

int64_t product_of(const Shape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t d = begin; d < end; ++d) product *= shape[d];
  return product;
}

// Multiplies [shared.., rows.., inputs] by weights [shared.., inputs, outputs], one linear layer
// per matrix.
LinearExprRef product_by_weights(Tracer& tracer, const LinearExprRef& value,
                                 const ConstantRef& weights, size_t shared) {
  const Shape& shape = weights->shape();
  const int64_t matrices = product_of(shape, 0, shared);
  const int64_t inputs = shape[shared], outputs = shape[shared + 1];
  refuse_op_if(
      matrices < 1 || matrices > kMatricesMax || value->shape.size() < shared + 2 ||
          product_of(value->shape, 0, shared) != matrices,
      "a value is multiplied by a constant of {}; expected a matrix of weights, or one per head",
      shape_text(shape));
  const Shape rest(value->shape.begin() + static_cast<ptrdiff_t>(shared), value->shape.end());
  const auto block = static_cast<int64_t>(elements_of(rest));
  std::vector<LinearExprRef> parts;
  for (int64_t m = 0; m < matrices; ++m) {
    const Movement cut = {.shape = rest, .walk = {block}, .strides = {1}, .offset = m * block};
    const Movement of_matrix = {.shape = {inputs, outputs},
                                .walk = {inputs, outputs},
                                .strides = {outputs, 1},
                                .offset = m * inputs * outputs};
    const ConstantRef matrix = moved(of_matrix, weights);
    parts.push_back(tracer.linear(moved(cut, value), matrix, true, nullptr));
  }
  Movement stack;
  stack.shape.assign(value->shape.begin(), value->shape.end() - 1);
  stack.shape.push_back(outputs);
  stack.walk = {product_of(stack.shape, 0, stack.shape.size())};
  stack.strides = {1};
  return moved(stack, parts);
}

constexpr size_t kColumnsOfToken = 4;  // distinct matrix columns per token

constexpr size_t kTermsOfColumn = 4;

// Multiplies rows [tokens, .., inputs] by a sparse matrix per token, such as a rotation, as a sum
// of a few terms. Returns nullopt for other matrices.
std::optional<LinearExprRef> sparse_product_by_tokens(GraphBuilder& builder,
                                                      const LinearExprRef& given,
                                                      const Array::Reals& matrices,
                                                      const Shape& shape) {
  const auto tokens = static_cast<size_t>(shape[0]), inputs = static_cast<size_t>(shape[1]),
             outputs = static_cast<size_t>(shape[2]);
  std::vector<std::vector<std::pair<size_t, double>>> columns(tokens * outputs);
  size_t count = 1;
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (matrices[i] == 0.0) continue;
    auto& column = columns[i / (inputs * outputs) * outputs + i % outputs];
    column.emplace_back(i / outputs % inputs, matrices[i]);
    count = std::max(count, column.size());
  }
  if (count > kTermsOfColumn) return std::nullopt;
  const LinearExprRef value = builder.materialised(given);
  const size_t rows = value->elements() / inputs;
  LinearExprRef result;
  for (size_t term = 0; term < count; ++term) {
    std::vector<int64_t> element_ids;
    Array::Reals factors;
    for (size_t i = 0; i < rows * outputs; ++i) {
      const auto& column = columns[i / outputs / (rows / tokens) * outputs + i % outputs];
      const bool has_term = term < column.size();
      element_ids.push_back(has_term ? value->at(i / outputs * inputs + column[term].first)
                                     : kNoElement);
      factors.push_back(has_term ? column[term].second : 0.0);
    }
    Shape made = value->shape;
    made.back() = shape[2];
    const LinearExprRef part =
        scaled(plain(made, std::move(element_ids)), Array::real(made, std::move(factors)));
    result = result == nullptr ? part : sum(result, part, 1.0);
  }
  return result;
}

// Multiplies by a matrix per token whose columns recur, such as embeddings of distances: a linear
// layer with all distinct columns, then a gather. Returns nullopt for any other weights.
std::optional<LinearExprRef> product_by_tokens(Tracer& tracer, const LinearExprRef& value,
                                               const ConstantRef& weights) {
  const Shape& shape = weights->shape();
  if (shape.size() != 3 || value->shape[0] != shape[0] || value->elements() == 0 ||
      !is_along_tokens(tracer.builder, *value, 0)) {
    return std::nullopt;
  }
  const auto tokens = static_cast<size_t>(shape[0]), inputs = static_cast<size_t>(shape[1]),
             outputs = static_cast<size_t>(shape[2]);
  const Array::Reals all = weights->array().to_reals();
  std::map<std::vector<double>, size_t> known;
  std::vector<size_t> which;
  Array::Reals different;
  for (size_t i = 0; i < tokens * outputs; ++i) {
    std::vector<double> column;
    for (size_t d = 0; d < inputs; ++d) {
      column.push_back(all[(i / outputs * inputs + d) * outputs + i % outputs]);
    }
    const auto [found, is_new] = known.try_emplace(column, known.size());
    which.push_back(found->second);
    if (is_new) different.insert(different.end(), column.begin(), column.end());
    if (known.size() > kColumnsOfToken * tokens) {
      return sparse_product_by_tokens(tracer.builder, value, all, shape);
    }
  }
  const auto count = static_cast<int64_t>(known.size());
  const LinearExprRef made =
      tracer.linear(value,
                    std::make_shared<const Constant>(
                        kNoValue, Array::real({count, shape[1]}, std::move(different))),
                    false, nullptr);
  Movement movement{.shape = value->shape};
  movement.shape.back() = shape[2];
  std::vector<int64_t>& sources = movement.sources.emplace();
  const size_t rows = value->elements() / inputs;
  for (size_t i = 0; i < rows * outputs; ++i) {
    const size_t token = i / outputs / (rows / tokens);
    sources.push_back(static_cast<int64_t>(i / outputs) * count +
                      static_cast<int64_t>(which[token * outputs + i % outputs]));
  }
  return moved(movement, made);
}

// Multiplies by a stack of matrices, with leading dimensions aligned as in matmul.
LinearExprRef product_of_stacks(Tracer& tracer, const LinearExprRef& given,
                                const ConstantRef& stack) {
  const Shape& shape = stack->shape();
  const size_t shared = shape.size() - 2;
  Shape padded = given->shape;
  while (padded.size() < shared + 2) padded.insert(padded.begin(), 1);
  const LinearExprRef value = with_shape(given, padded);
  const size_t rank = padded.size();
  const size_t own = rank - 2 - shared;  // leading dimensions that only the value has
  const int64_t inputs = shape[shared], outputs = shape[shared + 1];
  std::vector<size_t> order;
  const auto add_dimensions = [&](size_t begin, size_t end) {
    for (size_t d = begin; d < end; ++d) order.push_back(d);
  };
  if (product_of(padded, own, own + shared) == 1) {
    // The stack becomes one matrix [inputs, matrices * outputs].
    const int64_t matrices = product_of(shape, 0, shared);
    const Movement side_by_side = {.shape = {inputs, matrices * outputs},
                                   .walk = {inputs, matrices, outputs},
                                   .strides = {outputs, inputs * outputs, 1}};
    const LinearExprRef made = tracer.linear(value, moved(side_by_side, stack), true, nullptr);
    Shape separate(padded.begin(), padded.begin() + static_cast<ptrdiff_t>(own));
    separate.push_back(padded[rank - 2]);
    separate.insert(separate.end(), shape.begin(), shape.end() - 2);
    separate.push_back(outputs);
    add_dimensions(0, own);
    add_dimensions(own + 1, own + 1 + shared);
    add_dimensions(own, own + 1);
    add_dimensions(rank - 1, rank);
    return permuted(with_shape(made, separate), order);
  }
  add_dimensions(own, own + shared);
  add_dimensions(0, own);
  add_dimensions(rank - 2, rank);
  const LinearExprRef ordered = permuted(value, order);
  const auto by_tokens = product_by_tokens(tracer, ordered, stack);
  const LinearExprRef made =
      by_tokens ? *by_tokens : product_by_weights(tracer, ordered, stack, shared);
  return permuted(made, inverse_order(order));
}

// Lowers x W, where W is a matrix, a stack of matrices, or a vector.
LinearExprRef product_from_right(Tracer& tracer, const TracedValue& value,
                                 const ConstantRef& weight) {
  if (weight->shape().size() == 1) {
    const ConstantRef column = with_shape(weight, {1, weight->shape()[0]});
    const LinearExprRef made = tracer.linear(value, column, false, nullptr);
    Shape shape = made->shape;
    shape.pop_back();
    return with_shape(made, shape);
  }
  const Shape shape = matrix_shape(weight->shape());
  if (shape.size() < 3) return tracer.linear(value, as_matrix(weight), true, nullptr);
  return product_of_stacks(tracer, tracer.as_sum(value), with_shape(weight, shape));
}

// Lowers W x to a linear layer, to attention with constant weights, or to scores of constant
// queries.
TracedValue product_from_left(Tracer& tracer, const ConstantRef& weight,
                              const LinearExprRef& value) {
  GraphBuilder& builder = tracer.builder;
  const size_t rank = value->shape.size();
  if (rank > 1 && is_along_tokens(builder, *value, rank - 1)) {
    const auto query = rows_of_constants(builder, weight, transposed(value));
    if (query) return product_scores(builder, *query, value);
  }
  const int64_t tokens = builder.sizes.tokens;
  if (const auto added = added_of_weights(weight, tokens)) {
    refuse_op_if(value->shape.size() < 2,
                 "constant attention weights are multiplied by a value without rows; expected [.., "
                 "tokens, columns]");
    Scores scores{.shape = leading(value->shape)};
    scores.shape.insert(scores.shape.end(), {tokens, tokens});
    scores.added = *added;
    scores.positions_max = weight->positions_max;
    scores.has_softmax = true;
    return attend(tracer.builder, scores, value);
  }
  // W x is the transpose of x^T W^T.
  const Shape shape = matrix_shape(weight->shape());
  if (shape.size() < 3) {
    return transposed(tracer.linear(transposed(value), as_matrix(weight), false, nullptr));
  }
  Shape order = shape;
  std::swap(order.back(), order[order.size() - 2]);
  const Shape strides = strides_of(shape);
  Movement turning = {.shape = order, .walk = order, .strides = {strides.begin(), strides.end()}};
  std::swap(turning.strides.back(), turning.strides[turning.strides.size() - 2]);
  return transposed(product_of_stacks(tracer, transposed(value), moved(turning, weight)));
}

constexpr int64_t kWeightedSumsMax = 64;  // queries in one product

// Lowers attention pooling, weights [.., queries, tokens] @ values [.., tokens, columns]. Returns
// nullopt for any other product.
std::optional<LinearExprRef> weighted_sums(Tracer& tracer, const LinearExprRef& weights,
                                           const LinearExprRef& values) {
  const size_t rank = weights->shape.size();
  if (rank < 2 || values->shape.size() != rank || weights->terms.size() != 1) return std::nullopt;
  const int64_t queries = weights->shape[rank - 2];
  if (queries > kWeightedSumsMax || !is_along_tokens(tracer.builder, *weights, rank - 1) ||
      !is_along_tokens(tracer.builder, *tracer.builder.materialised(values), rank - 2)) {
    return std::nullopt;
  }
  std::vector<TracedValue> parts;
  for (int64_t query = 0; query < queries; ++query) {
    const TracedValue row =
        run(tracer, "select",
            {{"self", traced(weights)}, {"dim", static_cast<int64_t>(rank - 2)}, {"index", query}});
    const TracedValue column =
        run(tracer, "unsqueeze", {{"self", traced(row)}, {"dim", int64_t{-1}}});
    const TracedValue each =
        run(tracer, "mul", {{"self", traced(column)}, {"other", traced(values)}});
    const TracedValue made = run(tracer, "sum",
                                 {{"self", traced(each)},
                                  {"dim", Argument::List{static_cast<int64_t>(rank - 2)}},
                                  {"keepdim", true}});
    parts.push_back(tracer.builder.materialised(tracer.as_sum(made)));
  }
  if (queries == 1) return tracer.as_sum(parts[0]);
  if (tracer.builder.fixes_rows) {  // stacks per-sequence rows
    std::vector<LinearExprRef> rows;
    for (const TracedValue& part : parts) rows.push_back(tracer.as_sum(part));
    Shape shape = rows[0]->shape;
    shape[rank - 2] = queries;
    const int64_t width = shape.back(), each = static_cast<int64_t>(rows[0]->elements());
    const Movement stack = {
        .shape = shape, .walk = {each / width, queries, width}, .strides = {width, each, 1}};
    return moved(stack, rows);
  }
  Argument::List tensors;
  for (const TracedValue& part : parts) tensors.emplace_back(traced(part));
  return tracer.as_sum(tracer
                           .trace({.op = "cat",
                                   .arguments = {{"tensors", std::move(tensors)},
                                                 {"dim", static_cast<int64_t>(rank - 2)}}})
                           .at(0));
}

constexpr int64_t kSummedProductsMax = 16;  // terms in one product

// Whether a matrix in a value [.., rows, columns] has elements of several tokens.
bool mixes_rows(const GraphBuilder& builder, const LinearExpr& value) {
  const size_t width = static_cast<size_t>(value.shape.back());
  const size_t block = width * static_cast<size_t>(value.shape[value.shape.size() - 2]);
  std::optional<uint32_t> row;
  for (size_t i = 0, count = value.elements(); i < count; ++i) {
    if (i % block == 0) row.reset();
    const int64_t number = value.at(i);
    if (number == kNoElement) continue;
    if (builder.producer(number).rows != builder.sizes.rows() ||
        row.value_or(builder.row_of(number)) != builder.row_of(number)) {
      return true;
    }
    row = builder.row_of(number);
  }
  return false;
}

bool has_row_of_each_token(const GraphBuilder& builder, const LinearExpr& value) {
  std::set<uint32_t> rows;
  for (size_t i = 0; i < value.elements(); ++i) {
    if (!builder.is_node(value.at(i)) || builder.is_per_sequence(value.at(i))) return false;
    rows.insert(builder.row_of(value.at(i)));
  }
  return rows.size() == builder.sizes.rows();
}

// Multiplies a matrix per token, or per sequence, by another one, [.., m, k] and [.., k, n], as a
// sum of elementwise products. Returns nullopt for any other product.
std::optional<LinearExprRef> products_of_rows(Tracer& tracer, const TracedValue& a,
                                              const TracedValue& b) {
  const LinearExprRef first = tracer.as_sum(a), second = tracer.as_sum(b);
  const size_t rank = first->shape.size();
  if (rank < 2 || second->shape.size() != rank) return std::nullopt;
  const int64_t summed = first->shape.back();
  const auto is_of_sequences = [&](const LinearExprRef& value) {
    return tracer.builder.is_per_sequence(value->front()) && tracer.builder.sizes.sequences == 1;
  };
  if (rank == 2 && is_of_sequences(first) && is_of_sequences(second) && first->shape[0] == 1 &&
      second->shape[1] == 1) {
    const TracedValue products =
        run(tracer, "mul", {{"self", traced(first)}, {"other", traced(transposed(second))}});
    return tracer.as_sum(
        run(tracer, "sum",
            {{"self", traced(products)}, {"dim", Argument::List{int64_t{-1}}}, {"keepdim", true}}));
  }
  // A product with a single result is a score, as if tokens are traced as sequences.
  const bool are_numbers = rank > 1 && first->shape[rank - 2] * second->shape.back() == 1;
  if (rank < 3 || are_numbers || summed > kSummedProductsMax) return std::nullopt;
  // In products of windows over tokens, each part has a shifted row per token.
  const bool has_windows =
      mixes_rows(tracer.builder, *first) || mixes_rows(tracer.builder, *second);
  std::vector<std::pair<LinearExprRef, LinearExprRef>> factors;
  for (int64_t k = 0; k < summed; ++k) {
    const auto part = [&](const LinearExprRef& of, int64_t dim) {
      const LinearExprRef column = tracer.as_sum(
          run(tracer, "slice",
              {{"self", traced(of)}, {"dim", dim}, {"start", k}, {"end", k + int64_t{1}}}));
      const int64_t rows = tracer.builder.sizes.rows();
      const auto count = static_cast<int64_t>(column->elements());
      if (count % rows != 0) return column;
      const LinearExprRef whole = with_shape(column, {rows, count / rows});
      const LinearExprRef shifted = shifted_rows(tracer.builder, whole);
      return shifted == whole ? column : with_shape(shifted, column->shape);
    };
    factors.emplace_back(part(first, -1), part(second, -2));
    const auto& [a_part, b_part] = factors.back();
    for (const LinearExprRef& each : {a_part, b_part}) {
      if (mixes_rows(tracer.builder, *each)) return std::nullopt;
      if (has_windows && !has_row_of_each_token(tracer.builder, *each)) return std::nullopt;
    }
  }
  LinearExprRef sums;
  for (const auto& [a_part, b_part] : factors) {
    const LinearExprRef one =
        tracer.as_sum(run(tracer, "mul", {{"self", traced(a_part)}, {"other", traced(b_part)}}));
    sums = sums == nullptr ? one : sum(sums, one, 1.0);
  }
  return sums;
}

// Lowers products in attention over a single row per sequence: its score, [.., 1, width] @ [..,
// width, 1], or the row times its weight of 1. Returns nullopt for any other product.
std::optional<LinearExprRef> product_of_single_rows(Tracer& tracer, const TracedValue& a,
                                                    const TracedValue& b) {
  const Shape first = shape_of(a), second = shape_of(b);
  const size_t rank = first.size();
  const LinearExprRef& right = b.as<LinearExprRef>();
  if (!tracer.builder.fixes_rows || rank < 3 || second.size() != rank || first[rank - 2] != 1 ||
      !right || !tracer.builder.is_per_sequence(right->front())) {
    return std::nullopt;
  }
  if (const auto weight = a.as<ConstantRef>()) {
    const Array::Reals numbers = weight->array().to_reals();
    const bool is_one = std::ranges::all_of(numbers, [](double number) { return number == 1.0; });
    const bool is_weight = first[rank - 1] == 1 && broadcast(first, second) == second;
    return is_one && is_weight ? std::optional(right) : std::nullopt;
  }
  if (second[rank - 1] != 1 || !tracer.builder.is_per_sequence(tracer.as_sum(a)->front()))
    return {};
  const TracedValue products =
      run(tracer, "mul", {{"self", traced(a)}, {"other", traced(transposed(right))}});
  return tracer.as_sum(
      run(tracer, "sum",
          {{"self", traced(products)}, {"dim", Argument::List{int64_t{-1}}}, {"keepdim", true}}));
}

constexpr int64_t kPooledMatrixMax = 4096;  // elements of one matrix

// Multiplies token rows by a matrix per sequence, as in linear attention and channel attention:
// multiplies all pairs of elements and sums. Returns nullopt for any other product.
std::optional<LinearExprRef> product_with_pooled(Tracer& tracer, const TracedValue& a,
                                                 const TracedValue& b) {
  GraphBuilder& builder = tracer.builder;
  const size_t rank = shape_of(a).size();
  if (!builder.fixes_rows || a.is_constant() || b.is_constant() || rank < 3 ||
      shape_of(b).size() != rank) {
    return std::nullopt;
  }
  const LinearExprRef first = tracer.as_sum(a), second = tracer.as_sum(b);
  const bool is_left = builder.is_per_sequence(first->front());
  const LinearExprRef rows = is_left ? transposed(second) : first;    // [.., rows, summed]
  const LinearExprRef matrix = is_left ? first : transposed(second);  // [.., results, summed]
  const int64_t results = matrix->shape[rank - 2], summed = matrix->shape[rank - 1];
  if (builder.is_per_sequence(rows->front()) || !builder.is_per_sequence(matrix->front()) ||
      !is_along_tokens(builder, *rows, rank - 2) || results * summed > kPooledMatrixMax) {
    return std::nullopt;
  }
  const auto with_dimension = [&](const LinearExprRef& value, size_t place) {
    Shape shape = value->shape;
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(place), 1);
    return with_shape(builder.materialised(value), shape);
  };
  const TracedValue products = run(tracer, "mul",
                                   {{"self", traced(with_dimension(rows, rank - 1))},
                                    {"other", traced(with_dimension(matrix, rank - 2))}});
  const LinearExprRef made = tracer.as_sum(
      run(tracer, "sum", {{"self", traced(products)}, {"dim", Argument::List{int64_t{-1}}}}));
  return is_left ? transposed(made) : made;
}

TracedValue product(Tracer& tracer, const TracedValue& a, const TracedValue& b) {
  if (const ScoresRef& scores = a.as<ScoresRef>()) {
    return attend(tracer.builder, *scores, tracer.as_sum(b));
  }
  if (!a.is_constant() && !b.is_constant() && !b.is<ScoresRef>()) {
    if (const auto made = products_of_rows(tracer, a, b)) return *made;
  }
  const LinearExprRef& right = b.as<LinearExprRef>();
  const bool is_of_sequences = right && tracer.builder.is_per_sequence(right->front());
  if (const auto made = product_of_single_rows(tracer, a, b)) return *made;
  if (const auto made = product_with_pooled(tracer, a, b)) return *made;
  refuse_op_if(b.is<ScoresRef>() || (is_of_sequences && !a.is_constant()),
               "a product of two values is multiplied from the left, as in linear attention, q @ "
               "(k^T @ v); expected a softmax over keys");
  if (const ConstantRef& weight = b.as<ConstantRef>()) return product_from_right(tracer, a, weight);
  if (const ConstantRef& weight = a.as<ConstantRef>()) {
    return product_from_left(tracer, weight, tracer.as_sum(b));
  }
  const LinearExprRef first = tracer.as_sum(a), second = tracer.as_sum(b);
  if (const auto sums = weighted_sums(tracer, first, second)) return *sums;
  if (first->shape.size() > 1 && second->shape.size() > 1) {
    // The attention weights may be the right operand.
    if (const auto sums = weighted_sums(tracer, transposed(second), transposed(first))) {
      return transposed(*sums);
    }
  }
  return product_scores(tracer.builder, first, second);
}

}  // namespace

namespace {

// Lowers one_hot(ids) times a matrix to an embedding. Returns nullopt for any other op.
std::optional<TracedValue> rows_of_one_hot(Tracer& tracer, const Call& call) {
  const bool is_linear = call.op == "linear";
  if (!is_linear && !is_one_of(call.op, {"matmul", "mm"})) return std::nullopt;
  const TracedValue* const given = value_of(call, is_linear ? "input" : "self");
  const char* const name = is_linear ? "weight" : call.op == "mm" ? "mat2" : "other";
  const auto matrix = value_as<ConstantRef>(call, name);
  FunctionRef function = given != nullptr ? given->as<FunctionRef>() : nullptr;
  while (function && !function->is_base() && function->call->op == "to") {
    function = value_as<FunctionRef>(*function->call, "self");
  }
  const bool is_one_hot = function && !function->is_base() && function->call->op == "one_hot";
  if (!is_one_hot || !matrix || matrix->shape().size() != 2) return std::nullopt;
  const int64_t rows = matrix->shape()[is_linear ? 1 : 0];
  const int64_t width = matrix->shape()[is_linear ? 0 : 1];
  if (function->call->integer("num_classes", -1) != rows) return std::nullopt;
  const Movement turn = {.shape = {rows, width}, .walk = {rows, width}, .strides = {1, rows}};
  const LinearExprRef made = looked_up(tracer, is_linear ? moved(turn, matrix) : matrix,
                                       *value_of(*function->call, "self"));
  const auto bias = is_linear ? value_as<ConstantRef>(call, "bias") : nullptr;
  return bias ? sum(made, tracer.builder.constant_expr(bias), 1.0) : made;
}

}  // namespace

std::optional<TracedValue> matrix_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  if (auto made = rows_of_one_hot(tracer, call)) return made;
  if (call.op == "linear") {
    const auto weight = value_as<ConstantRef>(call, "weight");
    const TracedValue* input = value_of(call, "input");
    refuse_op_if(!weight,
                 "the weights of the layer depend on the model's input; expected constants");
    refuse_op_if(input == nullptr, "the input of the layer is missing; expected a tensor");
    return tracer.linear(*input, weight, false, value_of(call, "bias"));
  }
  if (is_one_of(call.op, {"matmul", "bmm", "mm", "mv"}) && inputs.size() == 2) {
    return product(tracer, inputs[0], inputs[1]);
  }
  const bool is_index = call.op == "index" && inputs[0].is_constant();
  const bool selects = call.op == "index_select" && inputs[0].is_constant() &&
                       call.dimension("dim", 0, shape_of(inputs[0]).size()) == 0;
  if (call.op != "embedding" && !is_index && !selects) return std::nullopt;
  const ConstantRef& table = inputs[0].as<ConstantRef>();
  const Argument* indices = is_index ? call.find("indices") : nullptr;
  const auto* list = indices != nullptr ? indices->as<Argument::List>() : nullptr;
  refuse_op_if(!table || inputs.size() != 2 || table->shape().size() != 2 ||
                   (list != nullptr && list->size() != 1),
               "rows are looked up in something else than a table; expected constant weights "
               "[rows, columns]");
  return looked_up(tracer, table, inputs[1]);
}

}  // namespace arenite::convert
