// SPDX-License-Identifier: Apache-2.0
// Runs the nodes in order, and keeps each value no longer than somebody reads it.
#include "convert/exported/interpret.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Of an example, which a file may claim without having weights for it.
constexpr uint64_t kBudgetRowsMax = 4096;

class Interpreter {
 public:
  Interpreter(const ExportedProgram& program, OpBudget budget)
      : program_(program), budget_(budget), values_(program.values.size()) {}

  std::vector<Array> run(std::span<const Array> inputs) {
    take_inputs(inputs);
    count_readers();
    for (const ExportedNode& node : program_.nodes) run(node);
    std::vector<Array> results;
    for (const Argument& output : program_.outputs) {
      const auto* reference = output.as<ValueRef>();
      if (reference == nullptr) continue;
      const Argument value = value_of(reference->value);
      if (const auto* array = value.as<Array>()) results.push_back(*array);
    }
    return results;
  }

 private:
  void take_inputs(std::span<const Array> inputs) {
    const std::vector<const ExportedInput*> users = program_.user_inputs();
    if (users.size() != inputs.size()) {
      throw InputError("{} takes {} tensors: found {}", quote(program_.source), users.size(),
                       inputs.size());
    }
    std::map<std::string, int64_t> symbols;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ExportedValue& value = program_.values[users[i]->value];
      const Shape& shape = inputs[i].shape();
      bool fits = shape.size() == value.sizes.size();
      for (size_t d = 0; fits && d < shape.size(); ++d) {
        const Extent& extent = value.sizes[d];
        const int64_t expected = extent.is_fixed()
                                     ? extent.size
                                     : symbols.emplace(extent.symbol, shape[d]).first->second;
        fits = shape[d] == expected;
      }
      if (!fits) {
        throw InputError("{}, input {}: a tensor {}: expected {}{}", quote(program_.source),
                         quote(users[i]->name), shape_text(shape), shape_text(value.shape()),
                         symbols.empty() ? "" : ", or other sizes where they are dynamic");
      }
      values_[users[i]->value] = inputs[i].to(value.type);
    }
    for (const ExportedInput& input : program_.inputs) {
      if (input.kind != InputKind::kUser) stored_[input.value] = &input;
    }
  }

  static void for_each_reference(const Argument& argument,
                                 const std::function<void(uint32_t)>& visit) {
    if (const auto* reference = argument.as<ValueRef>()) visit(reference->value);
    if (const auto* list = argument.as<Argument::List>()) {
      for (const Argument& item : *list) for_each_reference(item, visit);
    }
  }

  void count_readers() {
    readers_.assign(program_.values.size(), 0);
    for (const ExportedNode& node : program_.nodes) {
      for (const NamedArgument& argument : node.call.arguments) {
        for_each_reference(argument.value, [&](uint32_t value) { ++readers_[value]; });
      }
    }
    for (const Argument& output : program_.outputs) {
      for_each_reference(output, [&](uint32_t value) { ++readers_[value]; });
    }
  }

  Argument value_of(uint32_t value) {
    if (values_[value]) return *values_[value];
    const auto stored = stored_.find(value);
    if (stored == stored_.end()) {
      throw InputError("{}: {} is read before it is computed", quote(program_.source),
                       quote(program_.values[value].name));
    }
    values_[value] = program_.load(*stored->second);
    return *values_[value];
  }

  void drop(uint32_t value) {
    if (--readers_[value] != 0 || !values_[value]) return;
    if (costs_.contains(value)) budget_.give_back(costs_[value]);
    values_[value].reset();
  }

  void run(const ExportedNode& node) {
    const uint64_t before = budget_.live_elements;
    const std::vector<Argument> results =
        apply_op(bind(node.call, [&](uint32_t value) { return value_of(value); }), budget_);
    const uint64_t cost = before - budget_.live_elements;
    // An op may give more than anybody reads, but not less.
    if (results.size() < node.outputs.size()) {
      throw InputError("{}, {}: it gives {} results: expected {}", quote(program_.source),
                       node.call.describe(), results.size(), node.outputs.size());
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (readers_[node.outputs[i]] != 0) values_[node.outputs[i]] = results[i];
    }
    charge(node, cost);
    for (const NamedArgument& argument : node.call.arguments) {
      for_each_reference(argument.value, [&](uint32_t value) { drop(value); });
    }
  }

  // What the results cost comes back when the last of them goes; the first one stands for all.
  void charge(const ExportedNode& node, uint64_t cost) {
    for (const uint32_t output : node.outputs) {
      if (readers_[output] == 0) continue;
      costs_[output] = cost;
      return;
    }
    budget_.give_back(cost);
  }

  const ExportedProgram& program_;
  OpBudget budget_;
  std::vector<std::optional<Argument>> values_;
  std::map<uint32_t, const ExportedInput*> stored_;
  std::vector<size_t> readers_;
  std::map<uint32_t, uint64_t> costs_;
};

}  // namespace

std::vector<Array> interpret(const ExportedProgram& program, std::span<const Array> inputs,
                             OpBudget budget) {
  return Interpreter(program, budget).run(inputs);
}

OpBudget interpreting_budget(const ExportedProgram& program, uint64_t input_elements) {
  uint64_t weights = 0;
  for (const StoredTensor& tensor : program.tensors->tensors()) {
    uint64_t elements = 1;
    for (const uint64_t extent : tensor.shape) elements *= extent;
    weights += elements;
  }
  const uint64_t rows = std::clamp<uint64_t>(input_elements, 1, kBudgetRowsMax);
  const auto of_weights = [&](int share, int least, int most) {
    return std::clamp(weights >> share, uint64_t{1} << least, uint64_t{1} << most);
  };
  OpBudget budget;
  budget.elements += rows * of_weights(2, 15, 20) + 4 * weights;
  budget.live_elements += rows * of_weights(4, 13, 18) + 4 * weights;
  budget.multiplications += 4 * rows * weights + rows * rows * of_weights(4, 11, 18);
  return budget;
}

}  // namespace arenite::convert
