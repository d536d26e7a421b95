// SPDX-License-Identifier: Apache-2.0
// Implements Tracer: traces the ops of a program one by one, computes constants, and lowers
// movements.
#include "convert/exported/trace/tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/recover/concat_rows.h"
#include "convert/exported/recover/images.h"
#include "convert/exported/recover/query_terms.h"
#include "convert/exported/recover/row_matrices.h"
#include "convert/exported/recover/row_view.h"
#include "convert/exported/recover/sums.h"
#include "convert/exported/trace/op_handlers.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

// Adds the name of the op to a value whose node is added later.
TracedValue with_op_name(const TracedValue& value, const std::string& name) {
  if (const FunctionRef& function = value.as<FunctionRef>(); function && function->name.empty()) {
    Function with_name = *function;
    with_name.name = name;
    return std::make_shared<const Function>(std::move(with_name));
  }
  const LinearExprRef& elements = value.as<LinearExprRef>();
  if (!elements || elements->is_plain() || !elements->name.empty()) return value;
  return make_sum({elements->shape, elements->terms, name});
}

// Returns the names of nodes without weights: the module and the op, numbered within the module,
// since PyTorch counts all ops of a program, including those on symbolic sizes.
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

constexpr uint64_t kFollowedLive = 2;  // live arrays of the largest size

uint64_t elements_held(const TracedValue& value) {
  const auto of_sum = [](const LinearExprRef& elements) {
    uint64_t count = 0;
    for (const Term& term : elements->terms) {
      count += term.places.element_ids ? term.places.element_ids->size() : 0;
      count += term.factors.each ? term.factors.each->size() : 0;
    }
    return count;
  };
  if (const LinearExprRef& elements = value.as<LinearExprRef>()) return of_sum(elements);
  if (const FunctionRef& function = value.as<FunctionRef>()) return of_sum(function->base);
  if (value.is<ComplexPair>()) {
    return of_sum(value.as<ComplexPair>().real) + of_sum(value.as<ComplexPair>().imaginary);
  }
  const ConstantRef& constant = value.as<ConstantRef>();
  return constant && !constant->is_large() ? constant->elements() : 0;
}

// Returns the most elements that one array may have, in proportion to the largest weight and to the
// widest rows of the example.
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

// Returns the values with their last use in each op, [ops].
std::vector<std::vector<uint32_t>> dying_values(const ExportedProgram& program) {
  std::vector<size_t> last_use(program.values.size(), 0);
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    for_each<ValueRef>(program.nodes[n], [&](ValueRef ref) { last_use[ref.value] = n; });
  }
  for (const Argument& output : program.outputs) {
    if (const ValueRef* ref = output.as<ValueRef>()) last_use[ref->value] = SIZE_MAX;
  }
  for (const ExportedInput& input : program.inputs) last_use[input.value] = SIZE_MAX;
  std::vector<std::vector<uint32_t>> dying(program.nodes.size());
  for (uint32_t value = 0; value < last_use.size(); ++value) {
    if (last_use[value] < dying.size()) dying[last_use[value]].push_back(value);
  }
  return dying;
}

// Returns the op with this result, or null.
const Call* op_of_result(const ExportedProgram& program, uint32_t value) {
  const auto found = std::ranges::find_if(program.nodes, [&](const Call& node) {
    return std::ranges::count(node.outputs, value) != 0;
  });
  return found == program.nodes.end() ? nullptr : &*found;
}

// Returns the message of a refusal, with the op at fault.
std::string located(const ExportedProgram& program, const NotRecognised& error,
                    const std::vector<uint32_t>& inputs, const std::string& op) {
  const Call* maker = error.cause == Cause::kOp ? nullptr : maker_of(program, inputs, error.cause);
  return fmt::format("{}: {}", maker == nullptr ? op : maker->describe(), error.what());
}

std::vector<TraceSizes> sizes_of_inputs(const TraceShape& trace_shape) {
  std::vector<TraceSizes> sizes;
  for (size_t i = 0; i < trace_shape.inputs(); ++i) sizes.push_back(trace_shape.of(i).sizes());
  return sizes;
}

std::vector<std::string> names_of_inputs(const TraceShape& trace_shape) {
  std::vector<std::string> names;
  for (size_t i = 0; i < trace_shape.inputs(); ++i) names.push_back(trace_shape.of(i).input().name);
  return names;
}

TraceSizes longest_sizes(const TraceShape& trace_shape) {
  return std::ranges::max(sizes_of_inputs(trace_shape), {}, &TraceSizes::tokens);
}

}  // namespace

Tracer::Tracer(std::shared_ptr<const ExportedProgram> program, const TraceShape& trace_shape)
    : builder(program, sizes_of_inputs(trace_shape), names_of_inputs(trace_shape)),
      program_(std::move(program)),
      trace_shape_(trace_shape),
      budget_(interpreting_budget(*program_, trace_shape.elements())),
      elements_max_(followed_elements_max(*program_, longest_sizes(trace_shape))),
      values_(program_->values.size()),
      own_names_(own_names(*program_)),
      costs_(program_->values.size(), 0) {
  builder.fixes_rows = trace_shape.fixes_rows();
}

bool Tracer::has_open_length() const {
  for (size_t i = 0; i < trace_shape_.inputs(); ++i) {
    if (trace_shape_.of(i).is_open()) return true;
  }
  return false;
}

OpBudget& Tracer::op_budget() {
  budget_.live_elements = OpBudget{}.live_elements;
  return budget_;
}

void Tracer::run(size_t index) {
  const ElementLimit limit(elements_max_);
  // The first row axis is that of the first input with several tokens.
  for (uint32_t i = 0; i < trace_shape_.inputs(); ++i) {
    if (trace_shape_.of(i).is_one_row()) continue;
    builder.switch_to(i);
    break;
  }
  for (const ExportedInput& input : program_->inputs) read_input(input);
  const std::vector<std::vector<uint32_t>> dying = dying_values(*program_);
  for (size_t n = 0; n < program_->nodes.size(); ++n) {
    try {
      step(program_->nodes[n]);
    } catch (const InputError& error) {
      throw OpRefused(n, fmt::format("{}: {}", quote(program_->source), error.what()));
    }
    for (const uint32_t value : dying[n]) keep(value, {});
  }
  const uint32_t output = program_->outputs[index].as<ValueRef>()->value;
  const Call* giver = op_of_result(*program_, output);
  const std::string place = giver == nullptr ? program_->values[output].name : giver->describe();
  const auto refused = [&](const std::string& text) {
    return InputError("{}: output {}, {}", quote(program_->source), index, text);
  };
  try {
    builder.name = "output";
    const auto* value = values_[output].as<TracedRef>();
    refuse_op_if(value == nullptr,
                 "the output is a Python number; expected a tensor that depends on the input");
    builder.graph.output = convert::output(builder, as_sum(**value));
  } catch (const OpError& error) {
    throw InputError("{}: {}", quote(program_->source), error.what());
  } catch (const NotRecognised& error) {
    const Call* maker = maker_of(*program_, {output}, error.cause);
    throw refused(
        fmt::format("{}: {}", maker != nullptr ? maker->describe() : place, error.what()));
  } catch (const InputError& error) {
    throw refused(fmt::format("{}: {}", place, error.what()));
  }
}

void Tracer::keep(uint32_t value, Argument kept) {
  const TracedRef* known = kept.as<TracedRef>();
  live_numbers_ -= costs_[value];
  costs_[value] = known != nullptr ? elements_held(**known) : 0;
  live_numbers_ += costs_[value];
  values_[value] = std::move(kept);
  refuse_op_if(live_numbers_ > kFollowedLive * elements_max_,
               "the values of the program have too many elements for a model of this size, as by "
               "repetition; export it for a shorter input");
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
    const SideInput* const side = trace_shape_.side(input.value);
    const size_t number = side != nullptr ? side->of : trace_shape_.number_of(input.value).value();
    const TraceShape& own = trace_shape_.of(number);
    const ScopedAxis on(builder, static_cast<uint32_t>(number));
    if (side != nullptr) {
      if (side->role == SideRole::kTypes) {
        return ids_input(builder, Producer::Kind::kTypes, trace_shape_.shape_of(value));
      }
      if (side->role == SideRole::kMarks) return marks_input(value);
      return std::make_shared<const Constant>(input.value, trace_shape_.side_constant(input.value));
    }
    const Shape shape = own.input_shape();
    if (own.is_one_row() && !own.reads_tokens()) {
      return row_of_sequence(
          builder, features_input(builder, {shape[0], 1, shape.size() == 1 ? 1 : shape[1]}), shape);
    }
    if (own.reads_images()) return images_input(builder, shape, own.image());
    if (own.is_series()) {
      return with_shape(features_input(builder, {shape[0], shape[1], 1}), shape);
    }
    if (own.columns_first()) {
      const size_t last = shape.size() - 1;
      return with_shape(
          transposed(features_input(builder, {shape[0], shape[last], shape[last - 1]})), shape);
    }
    return own.reads_tokens() ? ids_input(builder, Producer::Kind::kTokens, shape)
                              : marked_features(input, shape);
  };
  TracedValue read = known();
  read.type = value.type;
  values_[input.value] = traced(std::move(read));
}

// Returns a name for the nodes of an op: that of its stored weight, or else of its module and op.
std::string Tracer::name_of(const Call& node) const {
  for (const NamedArgument& argument : node.arguments) {
    const ValueRef* ref = argument.value.as<ValueRef>();
    const bool is_weight = is_one_of(argument.name, {"weight", "mat2", "other"});
    if (ref == nullptr || !is_weight) continue;
    const TracedRef* known = values_[ref->value].as<TracedRef>();
    const ConstantRef constant = known != nullptr ? (*known)->as<ConstantRef>() : nullptr;
    if (!constant || constant->stored == nullptr) continue;
    const std::string& name = constant->stored->name;
    return name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
  }
  return own_names_[static_cast<size_t>(&node - program_->nodes.data())];
}

void Tracer::step(const Call& node) {
  if (node.op.starts_with("_assert") || node.outputs.empty()) return;
  std::vector<uint32_t> inputs;
  for_each<ValueRef>(node, [&](ValueRef ref) { inputs.push_back(ref.value); });
  try {
    for (const uint32_t value : inputs) {
      if (!values_[value].is_none()) continue;
      const Call* giver = op_of_result(*program_, value);
      refuse_op_if(giver == nullptr, "unsupported model input");
      throw NotRecognised(fmt::format(
          "result {} of {} is used, such as indices or statistics; expected only uses of result 0",
          std::ranges::find(giver->outputs, value) - giver->outputs.begin(), giver->describe()));
    }
    builder.name = name_of(node);
    const Call call = with_last_tokens(node);
    std::vector<Argument> results =
        results_of(call, bind<ValueRef>(call, [&](ValueRef ref) { return values_[ref.value]; }));
    for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) {
      if (const Array* array = results[i].as<Array>()) {
        results[i] = traced(std::make_shared<const Constant>(node.outputs[i], *array));
      }
      keep(node.outputs[i], std::move(results[i]));
    }
  } catch (const NotRecognised& error) {
    throw InputError("{}", located(*program_, error, inputs, node.describe()));
  } catch (const OpError&) {
    throw;
  } catch (const InputError& error) {
    throw InputError("{}: {}", node.describe(), error.what());
  } catch (const std::logic_error&) {
    throw InputError(
        "{}: the arguments do not fit the op's schema; export the model again, as the file is "
        "damaged",
        node.describe());
  }
}

std::optional<Call> Tracer::with_constants(const Call& node, const Call& call) const {
  Call settled = call;
  bool has_some = false;
  for (size_t a = 0; a < settled.arguments.size(); ++a) {
    const TracedRef* known = settled.arguments[a].value.as<TracedRef>();
    const LinearExprRef value = known != nullptr ? (*known)->as<LinearExprRef>() : nullptr;
    const ValueRef* of = value ? node.arguments[a].value.as<ValueRef>() : nullptr;
    if (of == nullptr) continue;
    const ConstantRef constant = constant_of_sum(builder, *value, (*known)->type, of->value);
    if (!constant) continue;
    settled.arguments[a].value = traced(constant);
    has_some = true;
  }
  return has_some ? std::optional(settled) : std::nullopt;
}

std::vector<Argument> Tracer::results_of(const Call& node, const Call& call) {
  if (auto shapes = results_of_shapes(call)) return std::move(*shapes);
  const TracedValue* like = value_of(call, "other");
  if (call.op == "type_as" && like != nullptr && !like->is_constant()) {
    return results_of(node,
                      {.op = "to",
                       .overload = "dtype",
                       .arguments = {{"self", call.argument("self")}, {"dtype", like->type}}});
  }
  if (std::ranges::all_of(values_of(call), &TracedValue::is_constant)) {
    return constants_of(call, node);
  }
  std::vector<TracedValue> traced_values;
  try {
    traced_values = trace(call);
  } catch (const NotRecognised&) {
    // A lookup of the same rows for all ids is a constant.
    const std::optional<Call> settled = with_constants(node, call);
    if (!settled) throw;
    if (std::ranges::all_of(values_of(*settled), &TracedValue::is_constant)) {
      return constants_of(*settled, node);
    }
    traced_values = trace(*settled);
  }
  std::vector<Argument> results;
  for (const TracedValue& made : traced_values) {
    if (results.size() == node.outputs.size()) break;
    TracedValue value = with_op_name(made, builder.name);
    value.type = program_->values[node.outputs[results.size()]].type;
    results.push_back(traced(std::move(value)));
  }
  return results;
}

namespace {

// Returns the value that a constant condition selects for all elements, as a padding mask does for
// sequences without padding. Null if the condition selects elements of both values.
const TracedValue* chosen_everywhere(const Call& call) {
  const bool fills = call.op == "masked_fill";
  if (!fills && call.op != "where") return nullptr;
  const auto mask = value_as<ConstantRef>(call, fills ? "mask" : "condition");
  if (!mask) return nullptr;
  const Array::Bools flags = mask->array().to_bools();
  if (flags.empty() || std::ranges::adjacent_find(flags, std::not_equal_to{}) != flags.end()) {
    return nullptr;
  }
  if (fills) return flags[0] == 0 ? value_of(call, "self") : nullptr;
  return value_of(call, flags[0] != 0 ? "self" : "other");
}

std::optional<TracedValue> refuse_empty(Tracer&, const Call& call) {
  for (const TracedValue& input : values_of(call)) {
    refuse_op_if(elements_of(shape_of(input)) == 0,
                 "the op gets an empty tensor, such as a slice that begins where it ends; leave it "
                 "out of the model");
  }
  return std::nullopt;
}

// Handlers in the order in which they are tried, after complex ops and movements.
constexpr OpHandler* kHandlers[] = {refuse_empty,
                                    ordered_score_op,
                                    op_on_extent_one,
                                    layer_op,
                                    decomposed_op,
                                    matrix_op,
                                    convolution_op,
                                    max_pool_op,
                                    nearest_op,
                                    mean_of_lines,
                                    match_decomposed_softmax,
                                    score_op,
                                    softmax_of_rows,
                                    norm_op,
                                    sum_op,
                                    filled_by_ids,
                                    pooling_op,
                                    function_op};

std::optional<uint32_t> row_axis_of(const GraphBuilder& builder, const Call& call) {
  for (const TracedValue& value : values_of(call)) {
    LinearExprRef elements = value.as<LinearExprRef>();
    if (const FunctionRef& function = value.as<FunctionRef>()) elements = function->base;
    if (const ScoresRef& scores = value.as<ScoresRef>()) elements = scores->query;
    if (value.is<ComplexPair>()) elements = value.as<ComplexPair>().real;
    const auto found = elements ? builder.row_axis_of(*elements) : std::nullopt;
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace

std::vector<TracedValue> Tracer::trace(const Call& given) {
  const Call call = with_aligned_axes(*this, with_rows_of_zeros(*this, with_numbers(given)));
  const auto row_axis = builder.row_axes() > 1 ? row_axis_of(builder, call) : std::nullopt;
  const ScopedAxis on(builder, row_axis.value_or(builder.row_axis()));
  if (const TracedValue* chosen = chosen_everywhere(call)) {
    Shape shape;
    for (const TracedValue& input : values_of(call)) shape = broadcast(shape, shape_of(input));
    if (shape_of(*chosen) == shape) return {*chosen};
  }
  const Level level;
  if (is_one_of(call.op, {"var_mean", "std_mean"})) {
    Call deviation = call, mean = call;
    deviation.op.resize(3);
    mean.op = "mean";
    std::erase_if(mean.arguments, [](const NamedArgument& argument) {
      return is_one_of(argument.name, {"correction", "unbiased"});
    });
    return {trace(deviation).at(0), trace(mean).at(0)};
  }
  if (auto result = complex_op(*this, call)) return {*result};
  if (auto results = move(call)) return *results;
  for (const auto handler : kHandlers) {
    if (auto result = handler(*this, call)) return {*result};
  }
  return {};
}

LinearExprRef Tracer::linear(const TracedValue& value, const ConstantRef& weight, bool transposed,
                             const TracedValue* bias) {
  std::vector<double> added;
  if (bias != nullptr) {
    const Array array = array_of(*bias);
    refuse_op_if(array.elements() != static_cast<size_t>(weight->shape()[transposed ? 1 : 0]),
                 "the bias and the results of the layer have different widths; expected one bias "
                 "per result");
    added = array.to_reals();
  }
  WeightRef matrix = weight_of(program_, weight, transposed);
  if (weight->value() == kNoValue) {
    matrix.name = fmt::format("{}.{}", builder.name, ++made_weights_);
  }
  return convert::linear(builder, as_sum(value), matrix, std::move(added));
}

// ---- ops on constants, and ops on shapes alone ----

namespace {

// Returns the number of positions in a table that is sliced to the length of the input, from
// position 0 on. Returns 0 for any other slice.
int64_t positions_of_slice(const Call& call, const Shape& result, const GraphBuilder& builder) {
  if (call.op != "slice" || result.empty()) return 0;
  const Shape& shape = call.array("self").shape();
  const size_t dim = call.dimension("dim", 0, shape.size());
  bool is_cut = false;
  for (uint32_t row_axis = 0; row_axis < builder.row_axes(); ++row_axis) {
    const uint32_t tokens = builder.sizes_of(row_axis).tokens;
    is_cut = is_cut || (tokens > 1 && result[dim] == tokens);
  }
  return call.integer("start", 0) == 0 && is_cut && result[dim] < shape[dim] ? shape[dim] : 0;
}

// Returns the number of positions in a table whose consecutive rows are looked up; 0 for any other
// lookup.
int64_t positions_of_rows(const Shape& table, const Array& ids) {
  const Array::Integers rows = ids.to_integers();
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[i - 1] + 1) return 0;
  }
  return rows.size() < 2 ? 0 : table[0] - rows[0];
}

// Returns result `result` of a call as a constant that is computed at each read.
std::shared_ptr<Constant> later(uint32_t value, const Shape& shape, ElementType type,
                                const Call& call, size_t result, size_t depth) {
  auto constant = std::make_shared<Constant>(value, shape, type, [call, result]() -> Array {
    OpBudget budget;
    return apply_for_array(with_elements(call), budget, result);
  });
  constant->depth = depth;
  return constant;
}

}  // namespace

Array Tracer::array_of(const TracedValue& value) const {
  if (const ConstantRef& constant = value.as<ConstantRef>()) return constant->array();
  if (const FunctionRef& function = value.as<FunctionRef>()) require_no_ids(*function);
  throw NotRecognised(
      "a mask, or another argument that must be constant, depends on the model's input; give a "
      "padding mask as a second input, as in def forward(self, x, padding_mask)");
}

// Computes ops whose results depend on shapes and types only; nullopt for other ops.
std::optional<std::vector<Argument>> Tracer::results_of_shapes(const Call& call) {
  if (!call.op.starts_with("new_") &&
      !is_one_of(call.op, {"sym_size", "size", "sym_numel", "numel", "zeros_like", "ones_like",
                           "full_like", "empty_like"})) {
    return std::nullopt;
  }
  Call shapes = with_shapes(call);
  if (call.op == "size") shapes.op = "sym_size";
  return apply_op(shapes, op_budget());
}

std::vector<Argument> Tracer::constants_of(const Call& call, const Call& node) {
  const Call shapes = with_shapes(call);
  size_t depth = 0;
  bool is_large = false;
  for (const TracedValue& input : values_of(call)) {
    is_large = is_large || input.as<ConstantRef>()->is_large();
    depth = std::max(depth, input.as<ConstantRef>()->depth + 1);
  }
  refuse_op_if(
      is_large && depth > kExportedLevelsMax,
      "ops on large constants are nested too deeply; compute the constants before the export");
  int64_t positions_max = positions_max_of(call);
  const TracedValue* table = value_of(call, "weight");
  const TracedValue* indices = value_of(call, "indices");
  if (call.op == "embedding" && table != nullptr && indices != nullptr) {
    positions_max = tighter(positions_max, positions_of_rows(shape_of(*table), array_of(*indices)));
  }
  std::vector<Argument> results;
  const auto add = [&](std::shared_ptr<Constant> constant) {
    constant->positions_max =
        tighter(positions_max, positions_of_slice(shapes, constant->shape(), builder));
    results.push_back(traced(ConstantRef(std::move(constant))));
  };
  if (is_large) {
    const auto movements = movements_of(shapes);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ExportedValue& value = program_->values[node.outputs[i]];
      const Shape shape = movements ? movements->at(i).shape : trace_shape_.shape_of(value);
      add(later(node.outputs[i], shape, value.type, call, i, depth));
    }
    return results;
  }
  for (const Argument& result : apply_op(shapes, op_budget())) {
    const Array* array = result.as<Array>();
    if (array == nullptr) {
      results.push_back(result);
    } else {
      add(std::make_shared<Constant>(node.outputs.at(results.size()), *array));
    }
  }
  return results;
}

TracedValue Tracer::constant_of(const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  const auto movements = inputs.size() == 1 ? movements_of(with_shapes(call)) : std::nullopt;
  std::shared_ptr<Constant> made;
  if (movements) {
    const ConstantRef& of = inputs[0].as<ConstantRef>();
    made = later(of->value(), movements->at(0).shape, of->type(), call, 0, of->depth + 1);
  } else {
    made = std::make_shared<Constant>(kNoValue, apply_for_array(with_elements(call), op_budget()));
  }
  made->positions_max = positions_max_of(call);
  return ConstantRef(std::move(made));
}

// ---- ops that only move elements, on values that depend on the model's input ----

namespace {

// Returns a function followed by a movement. If the op takes its shape from another value, the
// shape replaces that value.
FunctionRef moved_function(const Tracer& tracer, const Call& call, const FunctionRef& function,
                           const Shape& shape) {
  Call moving = call;
  if (moving.op.ends_with("_as") && moving.arguments.size() == 2) {
    moving.op.resize(moving.op.size() - 3);
    moving.arguments[1] = {"size", Argument::List(shape.begin(), shape.end())};
  }
  moving = bind<TracedRef>(moving, [&](const TracedRef& ref) -> Argument {
    if (ref->as<FunctionRef>() == function) return ref;
    refuse_op_if(!ref->is_constant(),
                 "the indices depend on the model's input; expected constant indices");
    return tracer.array_of(*ref);
  });
  return function_of(function->base, std::move(moving), shape, function->depth + 1);
}

}  // namespace

// Lowers an op that only moves elements; nullopt for any other op.
std::optional<std::vector<TracedValue>> Tracer::move(const Call& call) {
  const std::string& op = call.op;
  std::vector<TracedValue> parts = values_of(call);
  if (op == "embedding") return std::nullopt;
  const bool looks_up = is_one_of(op, {"index", "gather", "index_select"});
  if (looks_up && parts.size() > 1 && parts[0].is_constant()) {
    return std::nullopt;  // a lookup by indices from the input
  }
  const Call shapes = with_shapes(call);
  const auto movements = movements_of(shapes);
  if (!movements) return std::nullopt;
  // All tensors in a list are moved, or else the first argument.
  if (op == "copy" && value_of(call, "src") != nullptr) parts = {*value_of(call, "src")};
  if (op == "where" && parts.size() == 3) parts.erase(parts.begin());  // the condition
  const TracedValue *self = value_of(call, "self"), *put = value_of(call, "values");
  if (op == "index_put" && self != nullptr && put != nullptr) parts = {*self, *put};
  const size_t count = moved_arrays(shapes).size();
  refuse_op_if(count == 0 || count > parts.size(),
               "Python numbers are concatenated or stacked with tensors; expected only tensors");
  parts.erase(parts.begin() + static_cast<ptrdiff_t>(count), parts.end());
  const bool has_scores = std::ranges::any_of(parts, &TracedValue::is<ScoresRef>);
  if (has_scores && count > 1) return std::nullopt;  // a choice between scores and constants
  if (has_scores) {
    std::vector<TracedValue> results;
    for (const Movement& movement : *movements) {
      results.emplace_back(moved_scores(*parts[0].as<ScoresRef>(), movement));
    }
    return results;
  }
  const bool is_same = count == 1 && movements->size() == 1 &&
                       (*movements)[0].shape == shape_of(parts[0]) &&
                       (*movements)[0].keeps_order(elements_of(shape_of(parts[0])));
  if (is_same && (parts[0].is<ScoreRowRef>() || parts[0].is<FunctionRef>())) return {{parts[0]}};
  if (op == "unsqueeze" && parts[0].is<ScoreRowRef>() && parts[0].as<ScoreRowRef>()->is_flat) {
    auto row = std::make_shared<ScoreRow>(*parts[0].as<ScoreRowRef>());
    row->is_flat = false;
    ScoreRowRef made = std::move(row);
    if (shape_of(made) == movements->at(0).shape) return {{made}};
  }
  if (const FunctionRef& function = parts[0].as<FunctionRef>(); function && count == 1) {
    if (auto parts_of_it = moved_conversion(builder, function, *movements)) return *parts_of_it;
    const bool is_one = movements->size() == 1 && function->shape != function->base->shape;
    if (is_one || is_of_ids(builder, *function->base)) {
      return {{moved_function(*this, call, function, (*movements)[0].shape)}};
    }
  }
  if (op == "stack") {
    const size_t dim = call.dimension("dim", 0, shape_of(parts.at(0)).size() + 1);
    if (auto rows = stacked_rows(*this, parts, dim)) return {{*rows}};
  }
  if (concatenates(op)) {
    std::erase_if(parts, [](const TracedValue& part) { return shape_of(part) == Shape{0}; });
  }
  const auto joined = concat_dimension(call, shape_of(parts.at(0)).size());
  return moved_values(parts, *movements, joined);
}

namespace {

// Whether the value is a part of a rotation: negated or rotated elements of a node, of which
// another part has other elements unchanged.
bool turns_beside(const GraphBuilder& builder, const LinearExpr& value,
                  const std::vector<TracedValue>& parts) {
  if ((value.terms.size() == 1) == value.has_own_factors() || !builder.is_node(value.front())) {
    return false;
  }
  return std::ranges::any_of(parts, [&](const TracedValue& part) {
    const LinearExprRef& other = part.as<LinearExprRef>();
    return other && other->is_plain() && producer_of(other->front()) == producer_of(value.front());
  });
}

}  // namespace

std::vector<TracedValue> Tracer::moved_values(const std::vector<TracedValue>& parts,
                                              const std::vector<Movement>& movements,
                                              std::optional<size_t> joins) {
  const bool has_constant = std::ranges::any_of(parts, &TracedValue::is_constant);
  if (auto rows = gather_rows_op(*this, parts, movements)) return {{*rows}};
  if (joins) {
    std::vector<LinearExprRef> sums;
    for (const TracedValue& part : parts) sums.push_back(as_sum(part));
    if (auto joined = concat_rows(builder, sums, *joins)) return {{*joined}};
  }
  std::vector<LinearExprRef> moving;
  for (const TracedValue& part : parts) {
    const LinearExprRef value = as_sum(part);
    // Materialises a sum before its rows are sliced, but not the parts of a rotation.
    const bool cuts_rows = builder.fixes_rows && movements.size() == 1 && !value->shape.empty() &&
                           movements[0].shape.back() == value->shape.back();
    const bool is_sum = value->terms.size() > 1 && (!value->has_own_factors() || cuts_rows) &&
                        !movements[0].keeps_order(value->elements());
    // Also materialises values that are concatenated with constant rows, or with pixels.
    const bool is_joined = joins && (has_constant || builder.reads_images()) &&
                           !value->is_plain() && !turns_beside(builder, *value, parts);
    // A sum over rows is a multiple of a mean, recognised by its uniform factor.
    const bool is_total = parts.size() > 1 && value->terms.size() == 1 &&
                          !value->has_own_factors() && builder.is_node(value->front()) &&
                          builder.is_sum_of_rows(builder.producer(value->front()).node,
                                                 value->terms[0].factors.uniform);
    const bool is_settled = is_total || ((is_sum || is_joined) &&
                                         (builder.images != 0 || is_of_model(builder, *value)));
    moving.push_back(is_settled ? builder.materialised(value) : value);
  }
  for (size_t i = 0; i < parts.size() && joins && has_constant; ++i) {
    const auto like =
        std::ranges::find_if(parts, [](const TracedValue& part) { return !part.is_constant(); });
    if (!parts[i].is_constant() || *joins + 1 != moving[i]->shape.size()) continue;
    const LinearExprRef& beside = moving[static_cast<size_t>(like - parts.begin())];
    if (auto columns = columns_of_constants(builder, moving[i], beside)) moving[i] = *columns;
  }
  moving = align_concat_rows(builder, std::move(moving), joins);
  moving = rows_of_sequences(builder, std::move(moving), Combination::kMoved);
  if (joins) {  // rows_of_sequences may have made per-sequence rows
    if (auto joined = concat_rows(builder, moving, *joins)) return {{*joined}};
  }
  // Rotations that are concatenated with other columns get nodes first. Parts of one rotation share
  // a producer and stay.
  const uint32_t first = producer_of(moving[0]->front());
  if (std::ranges::any_of(moving,
                          [&](const auto& each) { return producer_of(each->front()) != first; })) {
    for (LinearExprRef& value : moving) value = rotated_or_same(builder, value);
  }
  std::vector<TracedValue> results;
  for (const Movement& movement : movements) {
    const LinearExprRef made = shifted_rows(builder, moved(movement, moving));
    const LinearExprRef all = rows_beside_tokens(builder, builder.trim_windows(made));
    const LinearExprRef part = slice_of_concat(builder, all);
    results.emplace_back(interleaved_rows(builder, deinterleaved_rows(builder, part)));
  }
  return results;
}

}  // namespace arenite::convert
