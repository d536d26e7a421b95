// SPDX-License-Identifier: Apache-2.0
// Finds the rule of an op, charges the budget for its results, and runs whole programs.
#include "convert/exported/aten/interpret.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "convert/exported/aten/op_rules.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr uint64_t kElementsPerResult = 64;  // cost of a result without its elements
constexpr uint64_t kStepsPerElement = 12;
constexpr const char* kTooLarge =
    "results exceed the limit for a model of this size: export the model for a shorter input";
constexpr uint64_t kStepsPerOp = 4096;  // for finding arguments by name

[[noreturn]] void refuse_unknown(const Call& call) {
  if (const char* why = why_random(call.op)) call.refuse("{}", why);
  call.refuse(
      "this op is not supported: write it with ops such as linear, matmul, softmax and elementwise "
      "functions, or leave it out of the model");
}

// Returns the elements of the arguments' common shape; 0 if there is none.
uint64_t elements_expected(const Call& call) {
  std::optional<Shape> shape = Shape();
  for (const NamedArgument& argument : call.arguments) {
    const auto* array = argument.value.as<Array>();
    if (array != nullptr) shape = common_shape(*shape, array->shape());
    if (!shape) return 0;
  }
  return elements_of(*shape);
}

Array moved_to(const std::vector<Array>& moved, const Movement& movement, ElementType type) {
  if (moved.size() == 1 && movement.keeps_order(moved[0].elements())) {
    return moved[0].with_shape(movement.shape).to(type);
  }
  if (moved.size() == 1 && moved[0].floats() != nullptr) {
    const std::span<const float> from(*moved[0].floats());
    return Array::of_floats(movement.shape, movement.apply<float>(from), type);
  }
  return moved[0].remade(movement.shape, [&](const auto& first) {
    using Element = typename std::remove_cvref_t<decltype(first)>::value_type;
    if (moved.size() == 1) return movement.apply<Element>(std::span<const Element>(first));
    std::vector<Element> joined;
    for (const Array& array : moved) {
      const std::vector<Element>& part = array.values<Element>();
      joined.insert(joined.end(), part.begin(), part.end());
    }
    return movement.apply<Element>(std::span<const Element>(joined));
  });
}

Results move(const Call& call, const std::vector<Movement>& movements, OpBudget& budget) {
  std::vector<Array> moved = moved_arrays(call);
  if (moved.empty()) call.refuse("found an empty list: expected tensors");
  ElementType type = moved[0].type();
  // Scatters keep the type of self; concatenation promotes to the common type.
  const bool keeps_first = call.op.find("scatter") != std::string::npos ||
                           call.op.find("index_put") != std::string::npos;
  for (const Array& array : moved) type = keeps_first ? type : promote(type, array.type());
  for (Array& array : moved) array = array.to(type);
  for (const Movement& movement : movements) {
    budget.take_elements(elements_of(movement.shape) + kElementsPerResult);
  }
  Results results;
  for (const Movement& movement : movements) results.push_back(moved_to(moved, movement, type));
  return results;
}

// Evaluates the ops of a decomposition as they come.
class ArrayOps : public OpRunner {
 public:
  explicit ArrayOps(OpBudget& budget) : budget_(budget) {}

  Argument run(const Call& part) override { return apply_for_array(part, budget_); }
  Array like(const Argument& tensor) const override {
    if (const auto* array = tensor.as<Array>()) return *array;
    throw ShapeError("found an argument that is not a tensor");
  }

 private:
  OpBudget& budget_;
};

Results compute(const Call& call, OpBudget& budget) {
  const auto rule = op_rules().find(call.op);
  Results results;
  if (rule != op_rules().end()) {
    budget.take_elements(elements_expected(call));
    results = rule->second(call, budget);
  } else if (const auto movements = movements_of(call)) {
    return move(call, *movements, budget);
  } else {
    ArrayOps ops(budget);
    results = {decomposed(call, ops)};
    if (results[0].is_none()) refuse_unknown(call);
  }
  for (const Argument& result : results) {
    if (const auto* array = result.as<Array>()) {
      budget.take_elements(array->elements() + kElementsPerResult);
    }
  }
  return results;
}

}  // namespace

Array stretched(const Array& array, const Shape& shape) {
  if (array.shape() == shape) return array;
  return moved_to({array}, stretching(array.shape(), shape), array.type());
}

void OpBudget::take_elements(uint64_t count) {
  if (count > elements || count > live_elements) throw ShapeError("{}", kTooLarge);
  WorkBudget::take(kStepsPerElement * count);
  elements -= count;
}

void OpBudget::take_multiplications(uint64_t count) {
  if (count > multiplications) {
    throw ShapeError(
        "matrix products exceed the limit for a model of this size: export the model for a shorter "
        "input");
  }
  WorkBudget::take(count);
  multiplications -= count;
}

std::vector<Argument> apply_op(const Call& call, OpBudget& budget) {
  try {
    WorkBudget::take(kStepsPerOp);
    return compute(call, budget);
  } catch (const ShapeError& error) {
    call.refuse("{}", error.what());
  }
}

Array apply_for_array(const Call& call, OpBudget& budget, size_t result) {
  const std::vector<Argument> results = apply_op(call, budget);
  const Array* array = result < results.size() ? results[result].as<Array>() : nullptr;
  if (array == nullptr) call.refuse("result {} is not a tensor", result);
  return *array;
}

const std::vector<OpAliases>& op_aliases() {
  static const std::vector<OpAliases> kNames = {
      {"contiguous",
       {"clone", "alias", "detach", "lift", "lift_fresh_copy", "positive", "resolve_conj",
        "resolve_neg", "float"}},
      {"to", {"_to_copy", "type_as"}},
      {"dropout", {"feature_dropout", "alpha_dropout"}},
      {"view", {"_unsafe_view", "reshape", "view_copy", "_reshape_copy"}},
      {"view_as", {"reshape_as"}},
      {"flatten", {"ravel"}},
      {"unsqueeze", {"unsqueeze_copy"}},
      {"squeeze", {"squeeze_copy"}},
      {"permute", {"permute_copy"}},
      {"transpose", {"transpose_copy", "swapaxes", "swapdims"}},
      {"t", {"t_copy"}},
      {"mT", {"matrix_H", "adjoint", "mH"}},
      {"movedim", {"moveaxis"}},
      {"slice", {"slice_copy"}},
      {"select", {"select_copy"}},
      {"narrow", {"narrow_copy"}},
      {"diagonal", {"diagonal_copy", "linalg_diagonal"}},
      {"split", {"split_with_sizes", "split_copy", "split_with_sizes_copy", "unsafe_split"}},
      {"chunk", {"unsafe_chunk"}},
      {"unbind", {"unbind_copy"}},
      {"cat", {"concat", "concatenate", "hstack"}},
      {"index", {"_unsafe_index"}},
      {"constant_pad_nd", {"pad"}},
      {"index_put", {"_unsafe_index_put"}},
      {"view_scatter", {"select_scatter", "slice_scatter", "diagonal_scatter"}},
      {"expand", {"expand_copy", "broadcast_to"}},
      {"repeat", {"tile"}},
      {"pixel_shuffle", {"pixel_unshuffle"}},
      {"erf", {"special_erf"}},
      {"neg", {"negative"}},
      {"sign", {"sgn"}},
      {"trunc", {"fix"}},
      {"prelu", {"_prelu_kernel"}},
      {"pow", {"float_power"}},
      {"atan2", {"arctan2"}},
      {"ne", {"not_equal"}},
      {"gt", {"greater"}},
      {"ge", {"greater_equal"}},
      {"lt", {"less"}},
      {"le", {"less_equal"}},
      {"bitwise_and", {"__and__"}},
      {"bitwise_left_shift", {"__lshift__"}},
      {"bitwise_right_shift", {"__rshift__"}},
      {"bitwise_or", {"__or__"}},
      {"bitwise_xor", {"__xor__"}},
      {"clamp", {"clamp_min", "clamp_max", "clip"}},
      {"conj", {"_conj", "conj_physical"}},
      {"softmax", {"_softmax", "special_softmax"}},
      {"log_softmax", {"_log_softmax", "special_log_softmax"}},
      {"convolution", {"conv1d", "conv2d", "conv3d"}},
      {"numel", {"sym_numel"}},
      {"item", {"_local_scalar_dense"}}};
  return kNames;
}

const OpRules& op_rules() {
  static const OpRules kRules = [] {
    OpRules rules;
    for (OpRules part : {elementwise_rules(), row_rules(), constant_rules(), creation_rules()}) {
      rules.merge(part);
    }
    add_other_names(rules);
    return rules;
  }();
  return kRules;
}

bool has_rule(std::string_view op) {
  return op_rules().contains(op) || moves_elements(op) || is_decomposed(op);
}

const char* why_random(std::string_view op) {
  for (const std::string_view random :
       {"rand", "bernoulli", "multinomial", "normal", "uniform", "exponential"}) {
    if (op.starts_with(random)) {
      return "random numbers make each call of the model differ: leave them out when the model is "
             "in eval mode";
    }
  }
  return nullptr;
}

// Runs nodes in order, and releases each value after its last reader.

namespace {

// Limits the rows that a budget counts: a file may claim a large example without large weights.
constexpr uint64_t kBudgetRowsMax = 4096;

class Interpreter {
 public:
  Interpreter(const ExportedProgram& program, OpBudget budget)
      : program_(program), budget_(budget), values_(program.values.size()) {}

  std::vector<Array> run(std::span<const Array> inputs) {
    take_inputs(inputs);
    count_readers();
    for (const Call& node : program_.nodes) run(node);
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
      throw InputError("{}: expected {} input tensors, found {}", quote(program_.source),
                       users.size(), inputs.size());
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
        throw InputError("{}, input {}: found a tensor {}: expected {}{}", quote(program_.source),
                         quote(users[i]->name), shape_text(shape), shape_text(value.shape()),
                         symbols.empty() ? "" : ", or other sizes where they are dynamic");
      }
      keep(users[i]->value, inputs[i].to(value.type));
    }
    for (const ExportedInput& input : program_.inputs) {
      if (input.kind != InputKind::kUser) stored_[input.value] = &input;
    }
  }

  void count_readers() {
    readers_.assign(program_.values.size(), 0);
    for (const Call& node : program_.nodes) {
      for_each<ValueRef>(node, [&](ValueRef ref) { ++readers_[ref.value]; });
    }
    for (const Argument& output : program_.outputs) {
      for_each<ValueRef>(output, [&](ValueRef ref) { ++readers_[ref.value]; });
    }
  }

  static uint64_t elements_in(const Argument& value) {
    const auto* array = value.as<Array>();
    return array == nullptr ? 0 : array->elements();
  }

  void keep(uint32_t value, Argument kept) {
    live_elements_ += elements_in(kept);
    values_[value] = std::move(kept);
  }

  const Argument& value_of(uint32_t value) {
    if (values_[value]) return *values_[value];
    const auto stored = stored_.find(value);
    if (stored == stored_.end()) {
      throw InputError("{}: {} is read before it is computed", quote(program_.source),
                       quote(program_.values[value].name));
    }
    keep(value, program_.load(*stored->second));
    return *values_[value];
  }

  void drop(uint32_t value) {
    if (--readers_[value] != 0 || !values_[value]) return;
    live_elements_ -= elements_in(*values_[value]);
    values_[value].reset();
  }

  void run(const Call& node) {
    const std::vector<Argument> results =
        apply_op(bind<ValueRef>(node, [&](ValueRef ref) { return value_of(ref.value); }), budget_);
    // An op may return more results than are read, but not fewer.
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (readers_[node.outputs[i]] == 0) continue;
      if (i >= results.size()) {
        throw InputError("{}, {}: found {} results: expected {}", quote(program_.source),
                         node.describe(), results.size(), node.outputs.size());
      }
      keep(node.outputs[i], results[i]);
    }
    if (live_elements_ > budget_.live_elements) node.refuse("{}", kTooLarge);
    for_each<ValueRef>(node, [&](ValueRef ref) { drop(ref.value); });
  }

  const ExportedProgram& program_;
  OpBudget budget_;
  std::vector<std::optional<Argument>> values_;
  std::map<uint32_t, const ExportedInput*> stored_;
  std::vector<size_t> readers_;
  uint64_t live_elements_ = 0;  // of `values_`
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

uint64_t reading_steps(const ExportedProgram& program) {
  uint64_t elements = 0;
  for (const ExportedInput* input : program.user_inputs()) {
    elements += elements_of(program.values[input->value].shape());
  }
  const OpBudget once = interpreting_budget(program, elements);
  return kReadingSteps + kReadingRounds * (once.multiplications - kFoldedMultiplicationsMax +
                                           once.elements - kFoldedElementsMax);
}

}  // namespace arenite::convert
