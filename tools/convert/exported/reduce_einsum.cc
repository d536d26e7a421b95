// SPDX-License-Identifier: Apache-2.0
// Products of tensors whose dimensions have letters, as products of matrices.
#include <algorithm>
#include <cctype>
#include <utility>

#include "convert/exported/call_arguments.h"
#include "convert/exported/reducer.h"

namespace arenite::convert {
namespace {

bool has(const std::string& text, char c) { return text.find(c) != std::string::npos; }

// The letters of each operand, and those of the result last. Dots stand for leading dimensions.
std::vector<std::string> letters_of(std::string equation, const std::vector<Shape>& shapes) {
  std::erase(equation, ' ');
  std::vector<std::string> parts(1);
  const size_t arrow = equation.find("->");
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() != shapes.size()) throw NotRecognised("einsum " + equation + " of other inputs");
  std::string dots;
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t place = parts[i].find("...");
    if (place == std::string::npos) continue;
    const size_t named = parts[i].size() - 3;
    if (shapes[i].size() < named || shapes[i].size() > named + 8) {
      throw NotRecognised("einsum " + equation + " of other dimensions");
    }
    // The last of the dimensions that dots stand for are the same for all.
    const std::string all = "01234567";
    const std::string own = all.substr(8 - (shapes[i].size() - named));
    parts[i].replace(place, 3, own);
    if (own.size() > dots.size()) dots = own;
  }
  std::string result;
  if (arrow != std::string::npos) {
    result = equation.substr(arrow + 2);
    if (const size_t place = result.find("..."); place != std::string::npos) {
      result.replace(place, 3, dots);
    }
  } else {
    std::string once;
    for (const std::string& part : parts) once += part;
    std::ranges::sort(once);
    for (const char c : once) {
      if (std::ranges::count(once, c) == 1 && !has(dots, c)) result += c;
    }
    result = dots + result;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    std::string sorted = parts[i];
    std::ranges::sort(sorted);
    const bool is_once = std::ranges::adjacent_find(sorted) == sorted.end();
    if (!is_once || parts[i].size() != shapes[i].size() || has(parts[i], '.')) {
      throw NotRecognised("einsum " + equation + ": expected a letter for each dimension");
    }
  }
  parts.push_back(result);
  return parts;
}

std::string only_those(const std::string& letters, auto&& is_wanted) {
  std::string wanted;
  for (const char c : letters) {
    if (is_wanted(c)) wanted += c;
  }
  return wanted;
}

}  // namespace

// The value with its dimensions in the order of `groups`, each joined to one.
Reduced Reducer::arranged(const Reduced& value, const std::string& letters,
                          const std::vector<std::string>& groups) {
  const Shape from = shape_of(value);
  std::vector<size_t> order;
  Shape shape;
  for (const std::string& group : groups) {
    int64_t extent = 1;
    for (const char c : group) {
      if (!has(letters, c)) continue;
      order.push_back(letters.find(c));
      extent *= from.at(letters.find(c));
    }
    shape.push_back(extent);
  }
  if (const auto* constant = std::get_if<ConstantRef>(&value)) {
    return std::make_shared<const Constant>(
        (*constant)->value(), shape, (*constant)->type(), [constant = *constant, order, shape] {
          OpBudget budget;
          Argument::List dims;
          for (const size_t d : order) dims.emplace_back(static_cast<int64_t>(d));
          const OpCall turn = {"permute",
                               "default",
                               {},
                               {{"self", constant->array()}, {"dims", std::move(dims)}},
                               {}};
          return apply_for_array(turn, budget).with_shape(shape);
        });
  }
  return with_shape(permuted(as_affine(value), order), shape);
}

// A product by weights: the letters that both have and the result has not are summed over.
Reduced Reducer::einsum_of_weights(const Reduced& value, const std::string& own,
                                   const ConstantRef& weight, const std::string& others,
                                   const std::string& result) {
  const auto in = [](const std::string& text) { return [&](char c) { return has(text, c); }; };
  const std::string rows = only_those(own, in(result));
  const std::string both = only_those(own, [&](char c) { return !has(result, c); });
  const std::string columns = only_those(others, [&](char c) { return !has(own, c); });
  const std::string shared = only_those(rows, in(others));
  if (!std::ranges::all_of(both, in(others))) {
    throw NotRecognised("einsum sums over a dimension of one input alone");
  }
  const Shape from = shape_of(value);
  Shape made_shape;
  Reduced made;
  if (shared.empty()) {
    std::vector<std::string> groups;
    for (const char c : rows) groups.emplace_back(1, c);
    groups.push_back(both);
    made = product(arranged(value, own, groups), arranged(weight, others, {both, columns}));
  } else {
    const std::string rest = only_those(rows, [&](char c) { return !has(shared, c); });
    std::vector<std::string> groups, weight_groups;
    for (const char c : shared) groups.emplace_back(1, c);
    weight_groups = groups;
    for (const char c : rest) groups.emplace_back(1, c);
    groups.push_back(both);
    weight_groups.push_back(both);
    weight_groups.push_back(columns);
    made = product_by_weights(as_affine(arranged(value, own, groups)),
                              std::get<ConstantRef>(arranged(weight, others, weight_groups)),
                              shared.size());
    const std::string order_made = shared + rest;
    for (const char c : order_made) made_shape.push_back(from.at(own.find(c)));
    for (const char c : columns) made_shape.push_back(weight->shape().at(others.find(c)));
    return arranged(with_shape(as_affine(made), made_shape), order_made + columns, single(result));
  }
  for (const char c : rows) made_shape.push_back(from.at(own.find(c)));
  for (const char c : columns) made_shape.push_back(weight->shape().at(others.find(c)));
  return arranged(with_shape(as_affine(made), made_shape), rows + columns, single(result));
}

std::vector<std::string> Reducer::single(const std::string& letters) {
  std::vector<std::string> groups;
  for (const char c : letters) groups.emplace_back(1, c);
  return groups;
}

// Queries times keys: the last two letters of the result are theirs.
Reduced Reducer::einsum_of_queries(const Reduced& a, const std::string& letters_a, const Reduced& b,
                                   const std::string& letters_b, const std::string& result) {
  if (result.size() < 2) throw NotRecognised("einsum makes no scores of queries and keys");
  const std::string lead = result.substr(0, result.size() - 2);
  const char query = result[result.size() - 2], key = result.back();
  const bool is_turned = !has(letters_a, query);
  const std::string& of_query = is_turned ? letters_b : letters_a;
  const std::string& of_key = is_turned ? letters_a : letters_b;
  const std::string both =
      only_those(of_query, [&](char c) { return has(of_key, c) && !has(result, c); });
  const bool fits = has(of_query, query) && !has(of_query, key) && has(of_key, key) &&
                    !has(of_key, query) && !both.empty();
  if (!fits) throw NotRecognised("einsum makes no scores of queries and keys");
  std::vector<std::string> groups = single(lead);
  groups.emplace_back(1, query);
  groups.push_back(both);
  std::vector<std::string> key_groups = single(lead);
  key_groups.push_back(both);
  key_groups.emplace_back(1, key);
  return product(arranged(is_turned ? b : a, of_query, groups),
                 arranged(is_turned ? a : b, of_key, key_groups));
}

// Weights of attention, whose last two dimensions are queries and keys, times values.
Reduced Reducer::einsum_of_scores(const ScoresRef& scores, const std::string& letters,
                                  const Reduced& values, const std::string& of_values,
                                  const std::string& result) {
  const std::string lead = letters.substr(0, letters.size() - 2);
  const char query = letters[letters.size() - 2], key = letters.back();
  const std::string columns = only_those(of_values, [&](char c) { return !has(letters, c); });
  const bool fits =
      has(of_values, key) && !has(of_values, query) && has(result, query) && !has(result, key);
  if (!fits) {
    throw NotRecognised(
        "einsum mixes scores of several heads, or sums them over queries: not supported, scores "
        "are the weights of one head's values");
  }
  std::vector<std::string> groups = single(lead);
  groups.emplace_back(1, key);
  groups.push_back(columns);
  const Shape from = shape_of(values);
  const AffineRef made = as_affine(product(scores, arranged(values, of_values, groups)));
  Shape shape(made->shape.begin(), made->shape.end() - 1);
  for (const char c : columns) shape.push_back(from.at(of_values.find(c)));
  const std::string order_made = lead + query + columns;
  std::string summed = only_those(order_made, [&](char c) { return !has(result, c); });
  if (!summed.empty()) throw NotRecognised("einsum sums over heads");
  return arranged(with_shape(made, shape), order_made, single(result));
}

Reduced Reducer::einsum(const Operation& operation) {
  const CallArguments arguments(operation.call);
  std::vector<Shape> shapes;
  for (const Reduced& input : operation.inputs) shapes.push_back(shape_of(input));
  const std::vector<std::string> letters = letters_of(arguments.text("equation", ""), shapes);
  const std::string& result = letters.back();
  Reduced made = operation.inputs.at(0);
  std::string of_made = letters[0];
  if (operation.inputs.size() == 1) return arranged(made, of_made, single(result));
  for (size_t i = 1; i < operation.inputs.size(); ++i) {
    // What neither a later input nor the result has is summed over.
    std::string wanted = result;
    if (i + 1 < operation.inputs.size()) {
      std::string later = result;
      for (size_t k = i + 1; k < operation.inputs.size(); ++k) later += letters[k];
      wanted = only_those(of_made, [&](char c) { return has(later, c); });
      wanted += only_those(letters[i], [&](char c) { return has(later, c) && !has(of_made, c); });
    }
    made = einsum_of_two(made, of_made, operation.inputs[i], letters[i], wanted);
    of_made = wanted;
  }
  return made;
}

Reduced Reducer::einsum_of_two(const Reduced& a, const std::string& letters_a, const Reduced& b,
                               const std::string& letters_b, const std::string& result) {
  if (const auto* scores = std::get_if<ScoresRef>(&a)) {
    return einsum_of_scores(*scores, letters_a, b, letters_b, result);
  }
  if (const auto* scores = std::get_if<ScoresRef>(&b)) {
    return einsum_of_scores(*scores, letters_b, a, letters_a, result);
  }
  if (const auto* weight = std::get_if<ConstantRef>(&b)) {
    return einsum_of_weights(a, letters_a, *weight, letters_b, result);
  }
  if (const auto* weight = std::get_if<ConstantRef>(&a)) {
    return einsum_of_weights(b, letters_b, *weight, letters_a, result);
  }
  return einsum_of_queries(a, letters_a, b, letters_b, result);
}

}  // namespace arenite::convert
