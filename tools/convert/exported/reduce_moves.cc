// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements, on values that depend on the model's input.
#include <algorithm>
#include <utility>

#include "convert/exported/reducer.h"

namespace arenite::convert {

// Whether any number of the model is in the sum.
bool Reducer::is_of_model(const Affine& value) const {
  if (value.elements() == 0) return false;
  return std::ranges::any_of(value.terms, [&](const Term& term) {
    const int64_t number = term.places.at(0);
    return number != kNoElement && builder_.source(number).kind == Source::Kind::kNode;
  });
}

// Nothing for an op that does more than moving.
std::optional<std::vector<Reduced>> Reducer::move(const Operation& operation) {
  const std::string& op = operation.call.op;
  const bool looks_up = op == "index" || op == "gather" || op == "index_select";
  if (op == "embedding") return std::nullopt;
  if (looks_up && operation.inputs.size() > 1 && !is_dependent(operation.inputs[0])) {
    return std::nullopt;  // by what depends on the model's input
  }
  const auto movements = movements_of(with_arrays(operation));
  if (!movements) return std::nullopt;
  // What is moved are all values in a list, or the first.
  std::vector<const Reduced*> parts;
  if (op == "copy" && operation.value("src") != nullptr) {
    parts.push_back(operation.value("src"));
  } else {
    for (const Reduced& input : operation.inputs) parts.push_back(&input);
  }
  const size_t count = moved_arrays(with_arrays(operation)).size();
  if (count > parts.size()) throw NotRecognised("it moves numbers and tensors");
  parts.resize(count);
  std::vector<Reduced> results;
  const bool has_scores = std::ranges::any_of(
      parts, [](const Reduced* part) { return std::holds_alternative<ScoresRef>(*part); });
  if (has_scores && count > 1) return std::nullopt;  // a choice between them and constants
  if (const auto* scores = std::get_if<ScoresRef>(parts[0]); scores && count == 1) {
    for (const Movement& movement : *movements) {
      results.emplace_back(moved_scores(**scores, movement));
    }
    return results;
  }
  if (const auto* function = std::get_if<FunctionRef>(parts[0]); function && count == 1) {
    const bool keeps = (*movements)[0].keeps_order(elements_of((*function)->expression->shape));
    if (keeps && movements->size() == 1 &&
        (*movements)[0].shape == (*function)->expression->shape) {
      return std::vector<Reduced>{*parts[0]};
    }
    if ((*function)->expression->shape != (*function)->base->shape) {
      // Ops that take another value for its shape alone say that shape.
      OpCall call = operation.call;
      if (call.op.ends_with("_as") && call.arguments.size() == 2) {
        Argument::List sizes;
        for (const int64_t size : (*movements)[0].shape) sizes.emplace_back(size);
        call.op.resize(call.op.size() - 3);
        call.arguments[1] = {"size", std::move(sizes)};
      }
      call = bind(call, [&](uint32_t index) -> Argument {
        const Reduced& input = operation.inputs.at(index);
        if (&input == parts[0]) return ValueRef{0};
        if (is_dependent(input)) throw NotRecognised("it moves one value by another");
        return array_of(input);
      });
      auto moved_expression = std::make_shared<Expression>(
          Expression{call, {(*function)->expression}, (*movements)[0].shape});
      moved_expression->depth = (*function)->expression->depth + 1;
      if (moved_expression->depth > kExportedLevelsMax) {
        throw NotRecognised("a function of so many ops, one within the other, is not supported");
      }
      return std::vector<Reduced>{
          std::make_shared<const Function>(Function{(*function)->base, moved_expression})};
    }
  }
  return moved_values(parts, *movements, is_one_of(op, {"cat", "concat", "concatenate"}));
}

std::vector<Reduced> Reducer::moved_values(const std::vector<const Reduced*>& parts,
                                           const std::vector<Movement>& movements, bool joins) {
  const bool has_constant = std::ranges::any_of(
      parts, [](const Reduced* part) { return std::holds_alternative<ConstantRef>(*part); });
  std::vector<AffineRef> moving;
  for (const Reduced* part : parts) {
    const AffineRef value = as_affine(*part);
    // A sum is easier to see before its rows are cut. Parts of a rotation stay as they are.
    const bool is_sum = value->terms.size() > 1 && !movements[0].keeps_order(value->elements()) &&
                        std::ranges::none_of(value->terms, [](const Term& term) {
                          return term.factors.each != nullptr;
                        });
    // So is what rows of constants are put before.
    const bool is_joined = joins && has_constant && !value->is_plain();
    moving.push_back((is_sum || is_joined) && is_of_model(*value) ? builder_.materialised(value)
                                                                  : value);
  }
  // Whole rotations beside other columns are easier to see before; parts of one are of one source.
  const auto source_of_value = [](const AffineRef& value) {
    return value->elements() == 0 ? 0 : source_of(value->terms.at(0).places.at(0));
  };
  const bool are_of_several = std::ranges::any_of(moving, [&](const AffineRef& value) {
    return source_of_value(value) != source_of_value(moving[0]);
  });
  for (AffineRef& value : moving) {
    if (are_of_several) value = builder_.rotated_or_same(value);
  }
  std::vector<Reduced> results;
  for (const Movement& movement : movements) {
    const AffineRef value = moved(movement, moving);
    const AffineRef prefixed = builder_.prefixed(value);
    results.emplace_back(prefixed ? prefixed : value);
  }
  return results;
}

}  // namespace arenite::convert
