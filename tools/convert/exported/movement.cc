// SPDX-License-Identifier: Apache-2.0
// Finds the rule of an op, and keeps what it moves apart from what it computes.
#include "convert/exported/movement.h"

#include <algorithm>
#include <optional>

#include "convert/exported/movement_rules.h"

namespace arenite::convert {
namespace {

MovementRules all_movement_rules() {
  MovementRules rules = reshaping_rules();
  rules.merge(cutting_rules());
  rules.merge(repeating_rules());
  rules.merge(gathering_rules());
  return rules;
}

const MovementRule* find_rule(std::string_view op) {
  static const MovementRules kRules = all_movement_rules();
  const auto found = kRules.find(op);
  return found == kRules.end() ? nullptr : &found->second;
}

// Whether a conversion changes no number: to another real type, which double stands for, to a wider
// one of whole numbers, or to the same one.
bool keeps_numbers(const CallArguments& call) {
  const Array& self = call.array("self");
  ElementType type = self.type();
  if (const auto given = call.type("dtype")) type = *given;
  if (const Argument* other = call.call().find("other"); other != nullptr && other->as<Array>()) {
    type = other->as<Array>()->type();
  }
  if (type == self.type()) return true;
  if (kind_of(type) != kind_of(self.type())) return false;
  const bool is_signed_byte = self.type() == ElementType::kU8 && type == ElementType::kI8;
  return !is_integer(type) || (type > self.type() && !is_signed_byte);
}

}  // namespace

bool Movement::keeps_order(size_t input_elements) const {
  if (sources) {
    if (sources->size() != input_elements) return false;
    for (size_t i = 0; i < sources->size(); ++i) {
      if ((*sources)[i] != static_cast<int64_t>(i)) return false;
    }
    return true;
  }
  if (offset != 0 || elements_of(walk) != input_elements) return false;
  if (input_elements == 0) return true;
  int64_t expected = 1;
  for (size_t d = walk.size(); d > 0; --d) {
    if (walk[d - 1] != 1 && strides[d - 1] != expected) return false;
    expected *= walk[d - 1];
  }
  return true;
}

void Movement::check(size_t inputs) const {
  const auto end = static_cast<int64_t>(inputs);
  const size_t count = sources ? sources->size() : elements_of(walk);
  bool is_sound = count == elements_of(shape) && (sources || strides.size() == walk.size());
  if (sources) {
    is_sound = is_sound && std::ranges::all_of(*sources, [&](int64_t source) {
                 return source == kZero || (source >= 0 && source < end);
               });
  } else if (count != 0 && is_sound) {
    int64_t least = offset, most = offset;
    for (size_t d = 0; d < walk.size(); ++d) {
      int64_t reach = 0;
      is_sound =
          is_sound && !__builtin_mul_overflow(walk[d] - 1, strides[d], &reach) &&
          !__builtin_add_overflow(reach < 0 ? least : most, reach, reach < 0 ? &least : &most);
    }
    is_sound = is_sound && least >= 0 && most < end;
  }
  if (!is_sound) throw ShapeError("it takes other elements than the {} that there are", inputs);
  WorkBudget::take(count);
}

std::optional<std::vector<Movement>> movements_of(const OpCall& call) {
  const MovementRule* rule = find_rule(call.op);
  if (rule == nullptr) return std::nullopt;
  const CallArguments arguments(call);
  try {
    const bool is_conversion = call.op == "to" || call.op == "_to_copy" || call.op == "type_as";
    if (is_conversion && !keeps_numbers(arguments)) return std::nullopt;
    Movements movements = rule->make(arguments);
    if (movements.empty()) return std::nullopt;
    for (const Movement& movement : movements) static_cast<void>(elements_of(movement.shape));
    return movements;
  } catch (const ShapeError& error) {
    arguments.refuse("{}", error.what());
  }
}

bool moves_elements(std::string_view op) { return find_rule(op) != nullptr; }

std::vector<Array> moved_arrays(const OpCall& call) {
  const MovementRule* rule = find_rule(call.op);
  const CallArguments arguments(call);
  std::vector<Array> moved;
  for (const std::string_view name : {rule->moved, rule->moved_also}) {
    if (name.empty()) continue;
    if (const Argument* argument = call.find(name); argument && argument->as<Argument::List>()) {
      for (const Array& array : arguments.arrays(name)) moved.push_back(array);
    } else {
      moved.push_back(arguments.array(name));
    }
  }
  return moved;
}

}  // namespace arenite::convert
