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
  if (const auto* function = std::get_if<FunctionRef>(&value);
      function && (*function)->name.empty()) {
    return std::make_shared<const Function>(
        Function{(*function)->base, (*function)->expression, name});
  }
  const auto* elements = std::get_if<ElementSumRef>(&value);
  if (elements == nullptr || (*elements)->is_plain() || !(*elements)->name.empty()) return value;
  return make_sum({(*elements)->shape, (*elements)->terms, name});
}

// What nodes without weights are called: by their module and op, numbered within the module.
// PyTorch numbers all ops of a program, among them those on symbolic sizes.
std::vector<std::string> own_names(const ExportedProgram& program) {
  std::map<std::string, size_t> times;
  std::vector<std::string> names;
  for (const ExportedNode& node : program.nodes) {
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
  if (const auto* elements = std::get_if<ElementSumRef>(&value)) return numbers_in(*elements);
  if (const auto* function = std::get_if<FunctionRef>(&value)) return numbers_in((*function)->base);
  if (const auto* pair = std::get_if<ComplexPair>(&value)) {
    return numbers_in(pair->real) + numbers_in(pair->imaginary);
  }
  const auto* constant = std::get_if<ConstantRef>(&value);
  return constant != nullptr && !(*constant)->is_large() ? (*constant)->elements() : 0;
}

// Why a value that an op made beside its result is not known.
std::string unread_result(const ExportedProgram& program, uint32_t value) {
  for (const ExportedNode& node : program.nodes) {
    const auto found = std::ranges::find(node.outputs, value);
    if (found == node.outputs.end()) continue;
    return fmt::format(
        "it uses result {} of {}, such as indices or statistics: the runtime gives result 0 alone",
        found - node.outputs.begin(), node.call.describe());
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

bool is_dependent(const TracedValue& value) {
  return std::holds_alternative<ElementSumRef>(value) ||
         std::holds_alternative<FunctionRef>(value) || std::holds_alternative<ScoresRef>(value) ||
         std::holds_alternative<ScoreRowRef>(value) || std::holds_alternative<ComplexPair>(value);
}

const TracedValue* Operation::value(std::string_view name) const {
  const Argument* argument = call.find(name);
  const ValueRef* ref = argument != nullptr ? argument->as<ValueRef>() : nullptr;
  return ref != nullptr ? &inputs[ref->value] : nullptr;
}

Tracer::Tracer(std::shared_ptr<const ExportedProgram> program, const TraceShape& lengths)
    : program_(std::move(program)),
      lengths_(lengths),
      builder_(program_, lengths.sizes()),
      budget_(interpreting_budget(*program_, elements_of(lengths.input_shape()))),
      elements_max_(followed_elements_max(*program_, lengths.sizes())),
      values_(program_->values.size()),
      own_names_(own_names(*program_)),
      costs_(program_->values.size(), 0) {}

void Tracer::run(size_t index) {
  const ElementLimit limit(elements_max_);
  for (const ExportedInput& input : program_->inputs) read_input(input);
  std::vector<size_t> last_use(values_.size(), 0);
  for (size_t n = 0; n < program_->nodes.size(); ++n) {
    bind(program_->nodes[n].call, [&](uint32_t value) -> Argument {
      last_use[value] = n;
      return {};
    });
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
    for (const uint32_t value : dying[n]) keep(value, std::monostate{});
  }
  Graph& graph = builder_.graph();
  graph.prefix_rows = builder_.sizes().prefix;
  const ValueRef* ref = program_->outputs[index].as<ValueRef>();
  try {
    builder_.set_name("output");
    graph.output = builder_.output(as_sum(values_[ref->value]));
  } catch (const InputError& error) {
    if (std::string_view(error.what()).starts_with(quote(program_->source))) throw;
    const bool is_sum = dynamic_cast<const SumNotRecognised*>(&error) != nullptr;
    const ExportedNode* maker = maker_of(*program_, {ref->value}, is_sum);
    for (const ExportedNode& node : program_->nodes) {
      const bool gives = std::ranges::find(node.outputs, ref->value) != node.outputs.end();
      if (maker == nullptr && gives) maker = &node;
    }
    const std::string place =
        maker == nullptr ? program_->values[ref->value].name : maker->call.describe();
    throw InputError("{}: output {}, {}: {}", quote(program_->source), index, place, error.what());
  }
}

void Tracer::keep(uint32_t value, TracedValue reduced) {
  live_numbers_ -= costs_[value];
  costs_[value] = numbers_in(reduced);
  live_numbers_ += costs_[value];
  values_[value] = std::move(reduced);
  if (live_numbers_ > kFollowedLive * elements_max_) {
    throw NotRecognised(
        "with it, the program repeats more elements than a model of this size has: export it for a "
        "shorter input");
  }
}

void Tracer::read_input(const ExportedInput& input) {
  if (input.kind != InputKind::kUser) {
    const ExportedValue& value = program_->values[input.value];
    auto constant = std::make_shared<Constant>(
        input.value, value.shape(), value.type,
        [program = program_, stored = &input] { return program->load(*stored); });
    constant->stored = &input;
    values_[input.value] = ConstantRef(std::move(constant));
    return;
  }
  if (const SideInput* side = lengths_.side(input.value)) {
    const ExportedValue& value = program_->values[input.value];
    if (side->role == SideRole::kTypes) {
      Shape sizes;
      for (const Extent& extent : value.sizes) sizes.push_back(lengths_.extent(extent));
      values_[input.value] = builder_.types_input(std::move(sizes));
    } else {
      values_[input.value] =
          std::make_shared<const Constant>(input.value, lengths_.side_constant(input.value));
    }
    return;
  }
  const Shape shape = lengths_.input_shape();
  if (lengths_.reads_images()) {
    values_[input.value] = builder_.images_input(shape, lengths_.patches());
    return;
  }
  values_[input.value] = lengths_.reads_tokens()
                             ? builder_.tokens_input(shape)
                             : builder_.features_input(shape, static_cast<uint32_t>(shape.back()));
}

// People know a layer by its weights, and an op by its place in the model.
std::string Tracer::name_of(const ExportedNode& node) const {
  for (const NamedArgument& argument : node.call.arguments) {
    const ValueRef* ref = argument.value.as<ValueRef>();
    const bool is_weight = is_one_of(argument.name, {"weight", "mat2", "other"});
    if (ref == nullptr || !is_weight) continue;
    const auto* constant = std::get_if<ConstantRef>(&values_[ref->value]);
    if (constant == nullptr || (*constant)->stored == nullptr) continue;
    const std::string& name = (*constant)->stored->name;
    return name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
  }
  return own_names_[static_cast<size_t>(&node - program_->nodes.data())];
}

Operation Tracer::operation_of(const ExportedNode& node) {
  Operation operation;
  operation.call = bind(node.call, [&](uint32_t value) -> Argument {
    if (const Argument* number = std::get_if<Argument>(&values_[value])) return *number;
    if (std::holds_alternative<std::monostate>(values_[value])) {
      throw NotRecognised(unread_result(*program_, value));
    }
    operation.inputs.push_back(values_[value]);
    operation.types.push_back(program_->values[value].type);
    return ValueRef{static_cast<uint32_t>(operation.inputs.size() - 1)};
  });
  return operation;
}

Shape Tracer::shape_of(const TracedValue& value) const {
  if (const auto* constant = std::get_if<ConstantRef>(&value)) return (*constant)->shape();
  if (const auto* elements = std::get_if<ElementSumRef>(&value)) return (*elements)->shape;
  if (const auto* function = std::get_if<FunctionRef>(&value))
    return (*function)->expression->shape;
  if (const auto* scores = std::get_if<ScoresRef>(&value)) return (*scores)->shape;
  if (const auto* pair = std::get_if<ComplexPair>(&value)) return pair->real->shape;
  if (const auto* row = std::get_if<ScoreRowRef>(&value)) {
    Shape shape = (*row)->of->shape;
    shape.back() = 1;
    return shape;
  }
  return {};
}

OpCall Tracer::with_arrays(const Operation& operation) const {
  return bind(operation.call, [&](uint32_t index) -> Argument {
    const TracedValue& value = operation.inputs[index];
    const auto* constant = std::get_if<ConstantRef>(&value);
    if (constant != nullptr && !(*constant)->is_large()) return (*constant)->array();
    return Array::of_shape(shape_of(value), operation.types[index]);
  });
}

// The op that made what `node` cannot read, or the node itself.
std::string Tracer::describe_cause(const ExportedNode& node, bool is_sum) const {
  std::vector<uint32_t> inputs;
  bind(node.call, [&](uint32_t value) -> Argument {
    inputs.push_back(value);
    return {};
  });
  const ExportedNode* maker = maker_of(*program_, inputs, is_sum);
  return maker == nullptr ? node.call.describe() : maker->call.describe();
}

void Tracer::step(const ExportedNode& node) {
  if (node.call.op.starts_with("_assert") || node.outputs.empty()) return;
  try {
    const Operation operation = operation_of(node);
    builder_.set_name(name_of(node));
    std::vector<TracedValue> results;
    if (!is_about_shapes(operation, results)) {
      const bool depends = std::ranges::any_of(operation.inputs, is_dependent);
      results = depends ? dependent(operation) : constants_of(operation, node);
    }
    for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) {
      if (const Argument* number = std::get_if<Argument>(&results[i]);
          number && number->as<Array>()) {
        results[i] = std::make_shared<const Constant>(node.outputs[i], *number->as<Array>());
      }
      keep(node.outputs[i], named(results[i], builder_.name()));
    }
  } catch (const InputNotRecognised& error) {
    const bool is_sum = dynamic_cast<const SumNotRecognised*>(&error) != nullptr;
    throw InputError("{}: {}: {}", quote(program_->source), describe_cause(node, is_sum),
                     error.what());
  } catch (const NotRecognised& error) {
    throw InputError("{}: {}: {}", quote(program_->source), node.call.describe(), error.what());
  } catch (const std::logic_error&) {
    throw InputError("{}: {}: its arguments are none that PyTorch gives it: the file is damaged",
                     quote(program_->source), node.call.describe());
  } catch (const InputError& error) {
    const std::string what = error.what();
    if (what.starts_with(quote(program_->source))) throw;
    const bool says_op = what.find(node.call.target()) != std::string::npos;
    throw InputError("{}: {}{}", quote(program_->source),
                     says_op ? "" : node.call.describe() + ": ", what);
  }
}

// Of two values, the one that a constant chooses everywhere: what is hidden as padding is nothing,
// as long as sequences have none. Null: it chooses some of each.
const TracedValue* chosen_everywhere(const Operation& operation) {
  const bool fills = operation.call.op == "masked_fill";
  if (!fills && operation.call.op != "where") return nullptr;
  const TracedValue* mask = operation.value(fills ? "mask" : "condition");
  const auto* constant = mask != nullptr ? std::get_if<ConstantRef>(mask) : nullptr;
  if (constant == nullptr) return nullptr;
  const Array::Bools flags = (*constant)->array().to_bools();
  if (flags.empty() || std::ranges::adjacent_find(flags, std::not_equal_to{}) != flags.end()) {
    return nullptr;
  }
  if (fills) return flags[0] == 0 ? operation.value("self") : nullptr;
  return operation.value(flags[0] != 0 ? "self" : "other");
}

std::vector<TracedValue> Tracer::dependent(const Operation& operation) {
  if (const TracedValue* chosen = chosen_everywhere(operation)) {
    Shape shape;
    for (const TracedValue& input : operation.inputs) shape = broadcast(shape, shape_of(input));
    if (shape_of(*chosen) == shape) return {*chosen};
  }
  const Level level;
  if (auto result = complex_op(operation)) return {*result};
  if (auto results = move(operation)) return *results;
  const bool has_nothing = std::ranges::any_of(operation.inputs, [&](const TracedValue& input) {
    return elements_of(shape_of(input)) == 0;
  });
  if (has_nothing) {
    throw NotRecognised(
        "it computes with a tensor that has no elements, as of a slice that begins where it ends: "
        "leave it out of the model");
  }
  if (auto result = matrix_op(operation)) return {*result};
  if (auto result = convolution_op(operation)) return {*result};
  if (auto result = written_softmax(operation)) return {*result};
  if (auto result = score_op(operation)) return {*result};
  if (auto result = norm_op(operation)) return {*result};
  if (auto result = sum_op(operation)) return {*result};
  if (auto result = pooling_op(operation)) return {*result};
  return {function_op(operation)};
}

// Ops on constants, and ops whose result depends on nothing but shapes.

namespace {

Array zeros(const Shape& shape, ElementType type) {
  return Array::boolean(shape, Array::Bools(elements_of(shape), 0)).to(type);
}

// How many positions a constant has that is cut or looked up by them.
int64_t positions_of(const OpCall& call, const Array& result, const TraceShape& lengths) {
  if (call.op == "slice") {
    const CallArguments arguments(call);
    const Array& self = arguments.array("self");
    const size_t dim = arguments.dimension("dim", 0, self.rank());
    const int64_t start = arguments.integer("start", 0);
    // A part that begins at 0, is as long as the input, and is not all of it.
    const int64_t extent = result.shape()[dim];
    const bool is_cut = extent == lengths.tokens() || extent == lengths.rows();
    return start == 0 && is_cut && extent < self.shape()[dim] ? self.shape()[dim] : 0;
  }
  return 0;
}

// The rows that positions look up: consecutive ones.
int64_t positions_of_rows(const Array& table, const Array& ids) {
  const Array::Integers rows = ids.to_integers();
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[i - 1] + 1) return 0;
  }
  return rows.size() < 2 ? 0 : table.shape()[0] - rows[0];
}

}  // namespace

Array Tracer::array_of(const TracedValue& value) const {
  if (const auto* constant = std::get_if<ConstantRef>(&value)) return (*constant)->array();
  if (const auto* function = std::get_if<FunctionRef>(&value)) require_no_ids(**function);
  throw NotRecognised(
      "its mask, or another constant that it takes, is computed of the model's numbers: give a "
      "mask "
      "of padding as a second input, as in def forward(self, x, padding_mask)");
}

// Ops whose result depends on nothing but shapes and types.
bool Tracer::is_about_shapes(const Operation& operation, std::vector<TracedValue>& results) {
  const OpCall& call = operation.call;
  const CallArguments arguments(call);
  if (is_one_of(call.op, {"sym_size", "size"}) && call.find("dim") != nullptr) {
    const Shape shape = shape_of(operation.inputs.at(0));
    const size_t dim = arguments.dimension("dim", 0, shape.size());
    results = {Argument(shape[dim])};
    return true;
  }
  if (call.op == "sym_numel" || call.op == "numel") {
    results = {Argument(static_cast<int64_t>(elements_of(shape_of(operation.inputs.at(0)))))};
    return true;
  }
  if (!call.op.starts_with("new_") &&
      !is_one_of(call.op, {"zeros_like", "ones_like", "full_like", "empty_like"})) {
    return false;
  }
  const OpCall dummy = bind(call, [&](uint32_t index) -> Argument {
    return zeros(shape_of(operation.inputs[index]), operation.types[index]);
  });
  budget_.live_elements = OpBudget{}.live_elements;
  for (const Argument& result : apply_op(dummy, budget_)) results.emplace_back(result);
  return true;
}

std::vector<TracedValue> Tracer::constants_of(const Operation& operation,
                                              const ExportedNode& node) {
  const OpCall call = with_arrays(operation);
  int64_t positions_max = 0;
  bool is_large = false;
  size_t depth = 0;
  for (const TracedValue& input : operation.inputs) {
    const auto* constant = std::get_if<ConstantRef>(&input);
    if (constant == nullptr) continue;
    positions_max = tighter(positions_max, (*constant)->positions_max);
    is_large = is_large || (*constant)->is_large();
    depth = std::max(depth, (*constant)->depth + 1);
  }
  const auto movements = is_large ? movements_of(call) : std::nullopt;
  if (is_large && depth > kExportedLevelsMax) {
    throw NotRecognised("so many ops on large constants, one within the other, are not supported");
  }
  std::vector<TracedValue> results;
  for (size_t i = 0; i < node.outputs.size() && is_large; ++i) {
    const ExportedValue& value = program_->values[node.outputs[i]];
    Shape shape;
    for (const Extent& extent : value.sizes) shape.push_back(lengths_.extent(extent));
    if (movements) shape = movements->at(i).shape;
    auto constant =
        std::make_shared<Constant>(node.outputs[i], shape, value.type, [operation, i]() -> Array {
          const OpCall whole = bind(operation.call, [&](uint32_t index) -> Argument {
            return std::get<ConstantRef>(operation.inputs[index])->array();
          });
          OpBudget budget;
          return apply_for_array(whole, budget, i);
        });
    if (call.op == "slice" && !shape.empty()) {
      positions_max =
          tighter(positions_max, positions_of(call, Array::of_shape(shape, value.type), lengths_));
    }
    constant->positions_max = positions_max;
    constant->depth = depth;
    results.emplace_back(ConstantRef(std::move(constant)));
  }
  if (is_large) {
    if (const TracedValue* table = operation.value("weight");
        table && call.op == "embedding" && operation.value("indices") != nullptr) {
      const auto& rows = std::get<ConstantRef>(results[0]);
      const int64_t limit = positions_of_rows(Array::of_shape(shape_of(*table), ElementType::kF32),
                                              array_of(*operation.value("indices")));
      const_cast<Constant&>(*rows).positions_max = tighter(rows->positions_max, limit);
    }
    return results;
  }
  budget_.live_elements = OpBudget{}.live_elements;
  for (const Argument& result : apply_op(call, budget_)) {
    const Array* array = result.as<Array>();
    if (array == nullptr) {
      results.emplace_back(result);
      continue;
    }
    int64_t limit = tighter(positions_max, positions_of(call, *array, lengths_));
    if (call.op == "embedding") {
      const CallArguments arguments(call);
      limit =
          tighter(limit, positions_of_rows(arguments.array("weight"), arguments.array("indices")));
    }
    auto constant = std::make_shared<Constant>(node.outputs.at(results.size()), *array);
    constant->positions_max = limit;
    results.emplace_back(ConstantRef(std::move(constant)));
  }
  return results;
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
std::optional<std::vector<TracedValue>> Tracer::move(const Operation& operation) {
  const std::string& op = operation.call.op;
  const bool looks_up = op == "index" || op == "gather" || op == "index_select";
  if (op == "embedding") return std::nullopt;
  if (looks_up && operation.inputs.size() > 1 && !is_dependent(operation.inputs[0])) {
    return std::nullopt;  // by what depends on the model's input
  }
  const auto movements = movements_of(with_arrays(operation));
  if (!movements) return std::nullopt;
  // What is moved are all values in a list, or the first.
  std::vector<const TracedValue*> parts;
  if (op == "copy" && operation.value("src") != nullptr) {
    parts.push_back(operation.value("src"));
  } else {
    for (const TracedValue& input : operation.inputs) parts.push_back(&input);
  }
  const size_t count = moved_arrays(with_arrays(operation)).size();
  if (count > parts.size()) throw NotRecognised("it moves numbers and tensors");
  parts.resize(count);
  std::vector<TracedValue> results;
  const bool has_scores = std::ranges::any_of(
      parts, [](const TracedValue* part) { return std::holds_alternative<ScoresRef>(*part); });
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
      return std::vector<TracedValue>{*parts[0]};
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
        const TracedValue& input = operation.inputs.at(index);
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
      return std::vector<TracedValue>{
          std::make_shared<const Function>(Function{(*function)->base, moved_expression})};
    }
  }
  return moved_values(parts, *movements, is_one_of(op, {"cat", "concat", "concatenate"}));
}

std::vector<TracedValue> Tracer::moved_values(const std::vector<const TracedValue*>& parts,
                                              const std::vector<Movement>& movements, bool joins) {
  const bool has_constant = std::ranges::any_of(
      parts, [](const TracedValue* part) { return std::holds_alternative<ConstantRef>(*part); });
  std::vector<ElementSumRef> moving;
  for (const TracedValue* part : parts) {
    const ElementSumRef value = as_sum(*part);
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
                     const TraceShape& lengths, size_t output) {
  Followed followed;
  followed.tracer = std::make_unique<Tracer>(program, lengths);
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
  const auto need = [&](uint32_t value) -> Argument {
    is_needed[value] = true;
    return {};
  };
  need(program.outputs[output].as<ValueRef>()->value);
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    if (i != output) part.outputs[i] = Argument();
  }
  part.nodes.clear();
  for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node) {
    const bool is_read = std::ranges::any_of(
        node->outputs, [&](uint32_t value) { return static_cast<bool>(is_needed[value]); });
    if (!is_read) continue;
    bind(node->call, need);
    part.nodes.push_back(*node);
  }
  std::ranges::reverse(part.nodes);
  return part;
}

// How many rows of constants the program puts before each sequence is seen when it does. Where it
// does so in several steps, those that are put first may be the first of all, or the last.
Followed follow(const std::shared_ptr<const ExportedProgram>& program, TraceShape& lengths,
                size_t output) {
  for (uint32_t steps = 0; steps < kPrefixStepsMax; ++steps) {
    try {
      return follow_once(program, lengths, output);
    } catch (const PrefixFound& found) {
      lengths = lengths.with_prefix(found.rows, false);
    } catch (const PatchesFound& found) {
      lengths = lengths.with_patches(found.patches);
    } catch (const InputError&) {
      if (lengths.sizes().prefix < 2) throw;
      const std::exception_ptr first = std::current_exception();
      TraceShape other = lengths.with_prefix(lengths.sizes().prefix, true);
      try {
        Followed followed = follow_once(program, other, output);
        lengths = other;
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
