// SPDX-License-Identifier: Apache-2.0
// One op after the other, and what becomes of the values that it gives.
#include "convert/exported/trace/tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/read/call.h"
#include "convert/exported/recover/refusals.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

// The value with the name of what made it, for the op that it may become later.
TracedValue named(const TracedValue& value, const std::string& name) {
  if (const auto* function = value.as<FunctionRef>(); function && (*function)->name.empty()) {
    return std::make_shared<const Function>(Function{(*function)->base, (*function)->call,
                                                     (*function)->shape, (*function)->depth, name});
  }
  const auto* elements = value.as<ElementSumRef>();
  if (elements == nullptr || (*elements)->is_plain() || !(*elements)->name.empty()) return value;
  return make_sum({(*elements)->shape, (*elements)->terms, name});
}

// What nodes without weights are called: by their module and op, numbered within the module.
// PyTorch numbers all ops of a program, among them those on symbolic sizes.
std::vector<std::string> own_names(const ExportedProgram& program) {
  std::map<std::string, size_t> times;
  std::vector<std::string> names;
  for (const Call& node : program.nodes) {
    names.emplace_back();
    if (node.outputs.empty()) continue;
    const ExportedValue& value = program.values[node.outputs[0]];
    const size_t end = value.name.find_last_not_of("0123456789");
    const bool is_numbered = end != std::string::npos && end > 0 && value.name[end] == '_';
    std::string name = is_numbered ? value.name.substr(0, end) : value.name;
    if (!node.module_path.empty()) name = node.module_path + "." + name;
    const size_t before = value.kind == ValueKind::kTensor ? times[name]++ : 0;
    names.back() = before == 0 ? name : fmt::format("{}_{}", name, before);
  }
  return names;
}

constexpr uint64_t kFollowedLive = 2;  // arrays of the largest size, at a time

uint64_t numbers_in(const ElementSumRef& elements) {
  uint64_t count = 0;
  for (const Term& term : elements->terms) {
    count += term.places.numbers ? term.places.numbers->size() : 0;
    count += term.factors.each ? term.factors.each->size() : 0;
  }
  return count;
}

uint64_t numbers_in(const TracedValue& value) {
  if (const auto* elements = value.as<ElementSumRef>()) return numbers_in(*elements);
  if (const auto* function = value.as<FunctionRef>()) return numbers_in((*function)->base);
  if (const auto* pair = value.as<ComplexPair>()) {
    return numbers_in(pair->real) + numbers_in(pair->imaginary);
  }
  const auto* constant = value.as<ConstantRef>();
  return constant != nullptr && !(*constant)->is_large() ? (*constant)->elements() : 0;
}

// Why a value that an op made beside its result is not known.
std::string unread_result(const ExportedProgram& program, uint32_t value) {
  for (const Call& node : program.nodes) {
    const auto found = std::ranges::find(node.outputs, value);
    if (found == node.outputs.end()) continue;
    return fmt::format(
        "it uses result {} of {}, such as indices or statistics: the runtime gives result 0 alone",
        found - node.outputs.begin(), node.describe());
  }
  return "it uses an input of the model that has no meaning";
}

// Of one array: in proportion to the largest of the weights, and to what a row of the example can
// become.
uint64_t followed_elements_max(const ExportedProgram& program, const TraceSizes& sizes) {
  uint64_t widest = 0;
  for (const StoredTensor& tensor : program.tensors->tensors()) {
    for (const uint64_t extent : tensor.shape) widest = std::max(widest, extent);
  }
  const uint64_t outputs = uint64_t{sizes.rows()} * std::min(widest, kExportedElementsMax);
  const uint64_t largest = program.largest_weight();
  return std::min(std::max({kFollowedElementsBase, kFollowedPerWeight * largest, outputs}),
                  std::max(kExportedElementsMax, largest));
}

}  // namespace

Tracer::Tracer(std::shared_ptr<const ExportedProgram> program, const TraceShape& trace_shape)
    : program_(std::move(program)),
      trace_shape_(trace_shape),
      builder_(program_, trace_shape.sizes()),
      budget_(interpreting_budget(*program_, elements_of(trace_shape.input_shape()))),
      elements_max_(followed_elements_max(*program_, trace_shape.sizes())),
      values_(program_->values.size()),
      own_names_(own_names(*program_)),
      costs_(program_->values.size(), 0) {}

void Tracer::run(size_t index) {
  const ElementLimit limit(elements_max_);
  for (const ExportedInput& input : program_->inputs) read_input(input);
  std::vector<size_t> last_use(values_.size(), 0);
  for (size_t n = 0; n < program_->nodes.size(); ++n) {
    for_each<ValueRef>(program_->nodes[n], [&](ValueRef ref) { last_use[ref.value] = n; });
  }
  for (const Argument& output : program_->outputs) {
    if (const ValueRef* ref = output.as<ValueRef>()) last_use[ref->value] = SIZE_MAX;
  }
  for (const ExportedInput& input : program_->inputs) last_use[input.value] = SIZE_MAX;
  std::vector<std::vector<uint32_t>> dying(program_->nodes.size());
  for (uint32_t value = 0; value < last_use.size(); ++value) {
    if (last_use[value] < dying.size()) dying[last_use[value]].push_back(value);
  }
  for (size_t n = 0; n < program_->nodes.size(); ++n) {
    try {
      step(program_->nodes[n]);
    } catch (const InputError& error) {
      throw OpRefused(n, error.what());
    }
    for (const uint32_t value : dying[n]) keep(value, {});
  }
  Graph& graph = builder_.graph();
  graph.prefix_rows = builder_.sizes().prefix;
  const uint32_t output = program_->outputs[index].as<ValueRef>()->value;
  try {
    builder_.set_name("output");
    const auto* value = values_[output].as<TracedRef>();
    if (value == nullptr) throw NotRecognised("it is a number, and no tensor of the model");
    graph.output = builder_.output(as_sum(**value));
  } catch (const OpError& error) {
    throw InputError("{}: {}", quote(program_->source), error.what());
  } catch (const InputError& error) {
    const bool is_sum = dynamic_cast<const SumNotRecognised*>(&error) != nullptr;
    const Call* maker = maker_of(*program_, {output}, is_sum);
    for (const Call& node : program_->nodes) {
      const bool gives = std::ranges::find(node.outputs, output) != node.outputs.end();
      if (maker == nullptr && gives) maker = &node;
    }
    const std::string place = maker == nullptr ? program_->values[output].name : maker->describe();
    throw InputError("{}: output {}, {}: {}", quote(program_->source), index, place, error.what());
  }
}

void Tracer::keep(uint32_t value, Argument kept) {
  const TracedRef* known = kept.as<TracedRef>();
  live_numbers_ -= costs_[value];
  costs_[value] = known != nullptr ? numbers_in(**known) : 0;
  live_numbers_ += costs_[value];
  values_[value] = std::move(kept);
  if (live_numbers_ > kFollowedLive * elements_max_) {
    throw NotRecognised(
        "with it, the program repeats more elements than a model of this size has: export it for a "
        "shorter input");
  }
}

void Tracer::read_input(const ExportedInput& input) {
  const ExportedValue& value = program_->values[input.value];
  const auto known = [&]() -> TracedValue {
    if (input.kind != InputKind::kUser) {
      auto constant = std::make_shared<Constant>(
          input.value, value.shape(), value.type,
          [program = program_, stored = &input] { return program->load(*stored); });
      constant->stored = &input;
      return ConstantRef(std::move(constant));
    }
    if (const SideInput* side = trace_shape_.side(input.value)) {
      if (side->role == SideRole::kTypes) {
        return builder_.types_input(trace_shape_.shape_of(value));
      }
      return std::make_shared<const Constant>(input.value, trace_shape_.side_constant(input.value));
    }
    const Shape shape = trace_shape_.input_shape();
    if (trace_shape_.reads_images()) return builder_.images_input(shape, trace_shape_.patches());
    if (trace_shape_.reads_tokens()) return builder_.tokens_input(shape);
    return builder_.features_input(shape, static_cast<uint32_t>(shape.back()));
  };
  TracedValue read = known();
  read.type = value.type;
  values_[input.value] = traced(std::move(read));
}

// People know a layer by its weights, and an op by its place in the model.
std::string Tracer::name_of(const Call& node) const {
  for (const NamedArgument& argument : node.arguments) {
    const ValueRef* ref = argument.value.as<ValueRef>();
    const bool is_weight = is_one_of(argument.name, {"weight", "mat2", "other"});
    if (ref == nullptr || !is_weight) continue;
    const TracedRef* known = values_[ref->value].as<TracedRef>();
    const auto* constant = known != nullptr ? (*known)->as<ConstantRef>() : nullptr;
    if (constant == nullptr || (*constant)->stored == nullptr) continue;
    const std::string& name = (*constant)->stored->name;
    return name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
  }
  return own_names_[static_cast<size_t>(&node - program_->nodes.data())];
}

Call Tracer::with_values(const Call& node) {
  return bind<ValueRef>(node, [&](ValueRef ref) -> Argument {
    if (values_[ref.value].is_none()) throw NotRecognised(unread_result(*program_, ref.value));
    return values_[ref.value];
  });
}

// The op that made what `node` cannot read, or the node itself.
std::string Tracer::describe_cause(const Call& node, bool is_sum) const {
  std::vector<uint32_t> inputs;
  for_each<ValueRef>(node, [&](ValueRef ref) { inputs.push_back(ref.value); });
  const Call* maker = maker_of(*program_, inputs, is_sum);
  return maker == nullptr ? node.describe() : maker->describe();
}

void Tracer::step(const Call& node) {
  if (node.op.starts_with("_assert") || node.outputs.empty()) return;
  try {
    step_named(node);
  } catch (const InputNotRecognised& error) {
    const bool is_sum = dynamic_cast<const SumNotRecognised*>(&error) != nullptr;
    throw InputError("{}: {}: {}", quote(program_->source), describe_cause(node, is_sum),
                     error.what());
  } catch (const OpError& error) {
    throw InputError("{}: {}", quote(program_->source), error.what());
  } catch (const InputError& error) {
    throw InputError("{}: {}: {}", quote(program_->source), node.describe(), error.what());
  } catch (const std::logic_error&) {
    throw InputError("{}: {}: its arguments are none that PyTorch gives it: the file is damaged",
                     quote(program_->source), node.describe());
  }
}

void Tracer::step_named(const Call& node) {
  const Call call = with_values(node);
  builder_.set_name(name_of(node));
  std::vector<Argument> results;
  if (auto shapes = results_of_shapes(call)) {
    results = std::move(*shapes);
  } else if (std::ranges::all_of(values_of(call), &TracedValue::is_constant)) {
    results = constants_of(call, node);
  } else {
    for (const TracedValue& made : trace(call)) {
      if (results.size() == node.outputs.size()) break;
      TracedValue value = named(made, builder_.name());
      value.type = program_->values[node.outputs[results.size()]].type;
      results.push_back(traced(std::move(value)));
    }
  }
  for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) {
    if (const Array* array = results[i].as<Array>()) {
      results[i] = traced(std::make_shared<const Constant>(node.outputs[i], *array));
    }
    keep(node.outputs[i], std::move(results[i]));
  }
}

namespace {

// Of two values, the one that a constant chooses everywhere: what is hidden as padding is nothing,
// as long as sequences have none. Null: it chooses some of each.
const TracedValue* chosen_everywhere(const Call& call) {
  const bool fills = call.op == "masked_fill";
  if (!fills && call.op != "where") return nullptr;
  const TracedValue* mask = value_of(call, fills ? "mask" : "condition");
  const auto* constant = mask != nullptr ? mask->as<ConstantRef>() : nullptr;
  if (constant == nullptr) return nullptr;
  const Array::Bools flags = (*constant)->array().to_bools();
  if (flags.empty() || std::ranges::adjacent_find(flags, std::not_equal_to{}) != flags.end()) {
    return nullptr;
  }
  if (fills) return flags[0] == 0 ? value_of(call, "self") : nullptr;
  return value_of(call, flags[0] != 0 ? "self" : "other");
}

std::optional<TracedValue> refuse_empty(Tracer&, const Call& call) {
  for (const TracedValue& input : values_of(call)) {
    if (elements_of(shape_of(input)) != 0) continue;
    throw NotRecognised(
        "it computes with a tensor that has no elements, as of a slice that begins where it ends: "
        "leave it out of the model");
  }
  return std::nullopt;
}

// After complex numbers and movements, the first that knows an op follows it.
constexpr std::optional<TracedValue> (*kHandlers[])(Tracer&, const Call&) = {
    refuse_empty,          layer_op,       decomposed_op,   matrix_op,
    pointwise_convolution, convolution_op, written_softmax, score_op,
    softmax_of_rows,       norm_op,        sum_op,          pooling_op};

}  // namespace

std::vector<TracedValue> Tracer::trace(const Call& call) {
  if (const TracedValue* chosen = chosen_everywhere(call)) {
    Shape shape;
    for (const TracedValue& input : values_of(call)) shape = broadcast(shape, shape_of(input));
    if (shape_of(*chosen) == shape) return {*chosen};
  }
  const Level level;
  if (auto result = complex_op(*this, call)) return {*result};
  if (auto results = move(call)) return *results;
  for (const auto handler : kHandlers) {
    if (auto result = handler(*this, call)) return {*result};
  }
  return {*function_op(*this, call)};
}

ElementSumRef Tracer::linear(const TracedValue& value, const ConstantRef& weight, bool transposed,
                             const TracedValue* bias) {
  std::vector<double> added;
  if (bias != nullptr) {
    const Array array = array_of(*bias);
    if (array.elements() != static_cast<size_t>(weight->shape()[transposed ? 1 : 0])) {
      throw NotRecognised("its bias has another width than its results");
    }
    added = array.to_reals();
  }
  WeightRef matrix = weight_of(program_, weight, transposed);
  if (weight->value() == kNoValue) {
    matrix.name = fmt::format("{}.{}", builder_.name(), ++made_weights_);
  }
  return builder_.linear(as_sum(value), matrix, std::move(added));
}

// Ops on constants, and ops whose result depends on nothing but shapes.

namespace {

Array zeros(const Shape& shape, ElementType type) {
  return Array::boolean(shape, Array::Bools(elements_of(shape), 0)).to(type);
}

// How many positions a constant has that is cut by them: a part that begins at 0, is as long as the
// input, and is not all of it.
int64_t positions_of_slice(const Call& call, const Shape& result, const TraceShape& trace_shape) {
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  const bool is_cut = result[dim] == trace_shape.tokens() || result[dim] == trace_shape.rows();
  return call.integer("start", 0) == 0 && is_cut && result[dim] < shape[dim] ? shape[dim] : 0;
}

// The rows that positions look up: consecutive ones.
int64_t positions_of_rows(const Shape& table, const Array& ids) {
  const Array::Integers rows = ids.to_integers();
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[i - 1] + 1) return 0;
  }
  return rows.size() < 2 ? 0 : table[0] - rows[0];
}

}  // namespace

Array Tracer::array_of(const TracedValue& value) const {
  if (const auto* constant = value.as<ConstantRef>()) return (*constant)->array();
  if (const auto* function = value.as<FunctionRef>()) require_no_ids(**function);
  throw NotRecognised(
      "its mask, or another constant that it takes, is computed of the model's numbers: give a "
      "mask of padding as a second input, as in def forward(self, x, padding_mask)");
}

// Of ops whose result depends on nothing but shapes and types.
std::optional<std::vector<Argument>> Tracer::results_of_shapes(const Call& call) {
  if (is_one_of(call.op, {"sym_size", "size"}) && call.find("dim") != nullptr) {
    const Shape shape = shape_of(values_of(call).at(0));
    return {{shape[call.dimension("dim", 0, shape.size())]}};
  }
  if (call.op == "sym_numel" || call.op == "numel") {
    return {{static_cast<int64_t>(elements_of(shape_of(values_of(call).at(0))))}};
  }
  if (!call.op.starts_with("new_") &&
      !is_one_of(call.op, {"zeros_like", "ones_like", "full_like", "empty_like"})) {
    return std::nullopt;
  }
  const Call dummy = bind<TracedRef>(
      call, [](const TracedRef& ref) -> Argument { return zeros(shape_of(*ref), type_of(*ref)); });
  budget_.live_elements = OpBudget{}.live_elements;
  return apply_op(dummy, budget_);
}

std::vector<Argument> Tracer::constants_of(const Call& call, const Call& node) {
  const std::vector<TracedValue> inputs = values_of(call);
  const Call shapes = with_shapes(call);
  size_t depth = 0;
  bool is_large = false;
  for (const TracedValue& input : inputs) {
    const ConstantRef& constant = *input.as<ConstantRef>();
    is_large = is_large || constant->is_large();
    depth = std::max(depth, constant->depth + 1);
  }
  if (is_large && depth > kExportedLevelsMax) {
    throw NotRecognised("so many ops on large constants, one within the other, are not supported");
  }
  int64_t positions_max = positions_max_of(call);
  const TracedValue* table = value_of(call, "weight");
  const TracedValue* indices = value_of(call, "indices");
  if (call.op == "embedding" && table != nullptr && indices != nullptr) {
    positions_max = tighter(positions_max, positions_of_rows(shape_of(*table), array_of(*indices)));
  }
  std::vector<Argument> results;
  const auto add = [&](std::shared_ptr<Constant> constant) {
    const int64_t cut = call.op != "slice" || constant->shape().empty()
                            ? 0
                            : positions_of_slice(shapes, constant->shape(), trace_shape_);
    constant->positions_max = tighter(positions_max, cut);
    results.push_back(traced(ConstantRef(std::move(constant))));
  };
  if (!is_large) {
    budget_.live_elements = OpBudget{}.live_elements;
    for (const Argument& result : apply_op(shapes, budget_)) {
      const Array* array = result.as<Array>();
      if (array == nullptr) {
        results.push_back(result);
      } else {
        add(std::make_shared<Constant>(node.outputs.at(results.size()), *array));
      }
    }
    return results;
  }
  const auto movements = movements_of(shapes);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ExportedValue& value = program_->values[node.outputs[i]];
    const Shape shape = movements ? movements->at(i).shape : trace_shape_.shape_of(value);
    auto constant =
        std::make_shared<Constant>(node.outputs[i], shape, value.type, [call, i]() -> Array {
          OpBudget budget;
          return apply_for_array(with_elements(call), budget, i);
        });
    constant->depth = depth;
    add(std::move(constant));
  }
  return results;
}

TracedValue Tracer::constant_of(const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const auto movements = inputs.size() == 1 ? movements_of(with_shapes(call)) : std::nullopt;
  std::shared_ptr<Constant> made;
  if (movements) {
    const ConstantRef& of = *inputs[0].as<ConstantRef>();
    made = std::make_shared<Constant>(of->value(), movements->at(0).shape, of->type(),
                                      [call]() -> Array {
                                        OpBudget budget;
                                        return apply_for_array(with_elements(call), budget);
                                      });
    made->depth = of->depth + 1;
  } else {
    budget_.live_elements = OpBudget{}.live_elements;
    made = std::make_shared<Constant>(kNoValue, apply_for_array(with_elements(call), budget_));
  }
  made->positions_max = positions_max_of(call);
  return ConstantRef(std::move(made));
}

// Ops that only move elements, on values that depend on the model's input.

// Whether any number of the model is in the sum.
bool Tracer::is_of_model(const ElementSum& value) const {
  if (value.elements() == 0) return false;
  return std::ranges::any_of(value.terms, [&](const Term& term) {
    const int64_t number = term.places.at(0);
    return number != kNoElement && builder_.source(number).kind == Source::Kind::kNode;
  });
}

// Nothing for an op that does more than moving.
std::optional<std::vector<TracedValue>> Tracer::move(const Call& call) {
  const std::string& op = call.op;
  std::vector<TracedValue> parts = values_of(call);
  if (op == "embedding") return std::nullopt;
  const bool looks_up = is_one_of(op, {"index", "gather", "index_select"});
  if (looks_up && parts.size() > 1 && parts[0].is_constant()) {
    return std::nullopt;  // by what depends on the model's input
  }
  const Call shapes = with_shapes(call);
  const auto movements = movements_of(shapes);
  if (!movements) return std::nullopt;
  // What is moved are all values in a list, or the first.
  if (op == "copy" && value_of(call, "src") != nullptr) parts = {*value_of(call, "src")};
  const size_t count = moved_arrays(shapes).size();
  if (count > parts.size()) throw NotRecognised("it moves numbers and tensors");
  parts.erase(parts.begin() + static_cast<ptrdiff_t>(count), parts.end());
  const bool has_scores = std::ranges::any_of(
      parts, [](const TracedValue& part) { return part.as<ScoresRef>() != nullptr; });
  if (has_scores && count > 1) return std::nullopt;  // a choice between them and constants
  if (const auto* scores = parts[0].as<ScoresRef>()) {
    std::vector<TracedValue> results;
    for (const Movement& movement : *movements) {
      results.emplace_back(moved_scores(**scores, movement));
    }
    return results;
  }
  if (const auto* function = parts[0].as<FunctionRef>(); function && count == 1) {
    const Movement& movement = (*movements)[0];
    const Shape& shape = (*function)->shape;
    const bool is_same = movements->size() == 1 && movement.shape == shape &&
                         movement.keeps_order(elements_of(shape));
    if (is_same) return {{parts[0]}};
    if (shape != (*function)->base->shape) {
      return {{moved_function(call, *function, movement.shape)}};
    }
  }
  return moved_values(parts, *movements, is_one_of(op, {"cat", "concat", "concatenate"}));
}

// Ops that take another value for its shape alone say that shape.
FunctionRef Tracer::moved_function(const Call& call, const FunctionRef& function,
                                   const Shape& shape) const {
  Call moving = call;
  if (moving.op.ends_with("_as") && moving.arguments.size() == 2) {
    moving.op.resize(moving.op.size() - 3);
    moving.arguments[1] = {"size", Argument::List(shape.begin(), shape.end())};
  }
  moving = bind<TracedRef>(moving, [&](const TracedRef& ref) -> Argument {
    const auto* part = ref->as<FunctionRef>();
    if (part != nullptr && *part == function) return ref;
    if (!ref->is_constant()) throw NotRecognised("it moves one value by another");
    return array_of(*ref);
  });
  return function_of(function->base, std::move(moving), shape, function->depth + 1);
}

std::vector<TracedValue> Tracer::moved_values(const std::vector<TracedValue>& parts,
                                              const std::vector<Movement>& movements, bool joins) {
  const bool has_constant = std::ranges::any_of(parts, &TracedValue::is_constant);
  std::vector<ElementSumRef> moving;
  for (const TracedValue& part : parts) {
    const ElementSumRef value = as_sum(part);
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
  const auto source_of_value = [](const ElementSumRef& value) {
    return value->elements() == 0 ? 0 : source_of(value->terms.at(0).places.at(0));
  };
  const bool are_of_several = std::ranges::any_of(moving, [&](const ElementSumRef& value) {
    return source_of_value(value) != source_of_value(moving[0]);
  });
  for (ElementSumRef& value : moving) {
    if (are_of_several) value = builder_.rotated_or_same(value);
  }
  std::vector<TracedValue> results;
  for (const Movement& movement : movements) {
    const ElementSumRef value = moved(movement, moving);
    const ElementSumRef prefixed = builder_.prefixed(value);
    results.emplace_back(prefixed ? prefixed : value);
  }
  return results;
}

namespace {

constexpr uint32_t kPrefixStepsMax = 5;

Followed follow_once(const std::shared_ptr<const ExportedProgram>& program,
                     const TraceShape& trace_shape, size_t output) {
  Followed followed;
  followed.tracer = std::make_unique<Tracer>(program, trace_shape);
  followed.tracer->run(output);
  followed.graph = followed.tracer->builder().graph();
  followed.graph.remove_unread();
  followed.positions_max = followed.tracer->builder().positions_max();
  return followed;
}

}  // namespace

ExportedProgram needed_part(const ExportedProgram& program, size_t output) {
  ExportedProgram part = program;
  std::vector<bool> is_needed(program.values.size(), false);
  const auto need = [&](ValueRef ref) { is_needed[ref.value] = true; };
  need(*program.outputs[output].as<ValueRef>());
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    if (i != output) part.outputs[i] = Argument();
  }
  part.nodes.clear();
  for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node) {
    const bool is_read = std::ranges::any_of(
        node->outputs, [&](uint32_t value) { return static_cast<bool>(is_needed[value]); });
    if (!is_read) continue;
    for_each<ValueRef>(*node, need);
    part.nodes.push_back(*node);
  }
  std::ranges::reverse(part.nodes);
  return part;
}

// How many rows of constants the program puts before each sequence is seen when it does. Where it
// does so in several steps, those that are put first may be the first of all, or the last.
Followed follow(const std::shared_ptr<const ExportedProgram>& program, TraceShape& trace_shape,
                size_t output) {
  for (uint32_t steps = 0; steps < kPrefixStepsMax; ++steps) {
    try {
      return follow_once(program, trace_shape, output);
    } catch (const PrefixFound& found) {
      trace_shape = trace_shape.with_prefix(found.rows, false);
    } catch (const PatchesFound& found) {
      trace_shape = trace_shape.with_patches(found.patches);
    } catch (const InputError&) {
      if (trace_shape.sizes().prefix < 2) throw;
      const std::exception_ptr first = std::current_exception();
      TraceShape other = trace_shape.with_prefix(trace_shape.sizes().prefix, true);
      try {
        Followed followed = follow_once(program, other, output);
        trace_shape = other;
        return followed;
      } catch (const PrefixFound&) {
        std::rethrow_exception(first);
      } catch (const PatchesFound&) {
        std::rethrow_exception(first);
      } catch (const InputError&) {
        std::rethrow_exception(first);
      }
    }
  }
  throw InputError(
      "{}: it puts rows of constants before the tokens in too many steps: expected at "
      "most {}",
      quote(program->source), kPrefixStepsMax);
}

}  // namespace arenite::convert
