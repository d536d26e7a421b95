// SPDX-License-Identifier: Apache-2.0
// Ops that work on each number or on each row: sums, factors, norms, functions, and pooling.
#include <algorithm>
#include <cmath>
#include <utility>

#include "convert/exported/call_arguments.h"
#include "convert/exported/reducer.h"

namespace arenite::convert {
namespace {

// What torch.nn.RMSNorm adds where it is not said: the epsilon of float32.
constexpr double kFloatEpsilon = 0x1p-23;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, text) != names.end();
}

// The argument as an array, where it is a constant or a number.
std::optional<Array> constant_argument(const Operation& operation, std::string_view name) {
  const Argument* argument = operation.call.find(name);
  if (argument == nullptr) return std::nullopt;
  if (const double* real = argument->as<double>()) return Array::real({}, {*real});
  if (const int64_t* whole = argument->as<int64_t>()) {
    return Array::real({}, {static_cast<double>(*whole)});
  }
  const Reduced* value = operation.value(name);
  const auto* constant = value != nullptr ? std::get_if<ConstantRef>(value) : nullptr;
  if (constant == nullptr) return std::nullopt;
  return (*constant)->array();
}

int64_t positions_max_of(const Operation& operation) {
  int64_t positions = 0;
  for (const Reduced& input : operation.inputs) {
    const auto* constant = std::get_if<ConstantRef>(&input);
    if (constant != nullptr) positions = tighter(positions, (*constant)->positions_max);
  }
  return positions;
}

double single(const Array& array, const char* what) {
  const Array::Reals values = array.to_reals();
  if (values.empty() ||
      !std::ranges::all_of(values, [&](double value) { return value == values[0]; })) {
    throw NotRecognised(what);
  }
  return values[0];
}

Array inverse(const Array& array) {
  Array::Reals values = array.to_reals();
  for (double& value : values) value = 1.0 / value;
  return Array::real(array.shape(), std::move(values));
}

Array negative(const Array& array, double factor) {
  Array::Reals values = array.to_reals();
  for (double& value : values) value *= factor;
  return Array::real(array.shape(), std::move(values));
}

}  // namespace

std::optional<Reduced> Reducer::complex_op(const Operation& operation) {
  const OpCall& call = operation.call;
  const auto part = [&](const AffineRef& value, int64_t index) {
    Movement movement;
    movement.shape = value->shape;
    movement.shape.pop_back();
    movement.walk = movement.shape;
    movement.offset = index;
    int64_t stride = 2;
    movement.strides.resize(movement.walk.size());
    for (size_t d = movement.walk.size(); d-- > 0;) {
      movement.strides[d] = stride;
      stride *= movement.walk[d];
    }
    return moved(movement, std::span(&value, 1));
  };
  if (call.op == "view_as_complex") {
    const AffineRef value = as_affine(operation.inputs.at(0));
    return ComplexPair{part(value, 0), part(value, 1)};
  }
  const auto* pair =
      operation.inputs.empty() ? nullptr : std::get_if<ComplexPair>(&operation.inputs[0]);
  if (call.op == "view_as_real" && pair != nullptr) {
    Shape shape = pair->real->shape;
    const size_t count = pair->real->elements();
    shape.push_back(2);
    Movement movement;
    movement.shape = shape;
    movement.sources.emplace();
    for (size_t i = 0; i < count; ++i) {
      movement.sources->push_back(static_cast<int64_t>(i));
      movement.sources->push_back(static_cast<int64_t>(count + i));
    }
    const AffineRef parts[] = {pair->real, pair->imaginary};
    return moved(movement, parts);
  }
  const bool has_pair = std::ranges::any_of(operation.inputs, [](const Reduced& input) {
    return std::holds_alternative<ComplexPair>(input);
  });
  if (!has_pair) return std::nullopt;
  if (call.op == "mul" && operation.inputs.size() == 2) {
    const auto* second = std::get_if<ComplexPair>(&operation.inputs[1]);
    const ComplexPair& z = pair != nullptr ? *pair : *second;
    const Array factor = array_of(operation.inputs[pair != nullptr ? 1 : 0]);
    Array::Reals real, imaginary;
    for (const std::complex<double>& each : factor.to_complexes()) {
      real.push_back(each.real());
      imaginary.push_back(each.imag());
    }
    const Array cosine = Array::real(factor.shape(), std::move(real));
    const Array sine = Array::real(factor.shape(), std::move(imaginary));
    builder_.limit_positions(positions_max_of(operation));
    return ComplexPair{sum(scaled(z.real, cosine), scaled(z.imaginary, sine), -1.0),
                       sum(scaled(z.imaginary, cosine), scaled(z.real, sine), 1.0)};
  }
  if (const auto movements = movements_of(with_arrays(operation)); movements && pair != nullptr) {
    return ComplexPair{moved((*movements)[0], std::span(&pair->real, 1)),
                       moved((*movements)[0], std::span(&pair->imaginary, 1))};
  }
  throw NotRecognised("it uses complex numbers otherwise than for a rotation");
}

// exp(x - max(x)) / sum(exp(x - max(x))), with the largest score or without it.
std::optional<Reduced> Reducer::written_softmax(const Operation& operation) {
  const std::string& op = operation.call.op;
  if (operation.inputs.empty()) return std::nullopt;
  const auto* scores = std::get_if<ScoresRef>(&operation.inputs[0]);
  const auto* row =
      operation.inputs.size() < 2 ? nullptr : std::get_if<ScoreRowRef>(&operation.inputs[1]);
  if (scores == nullptr || (*scores)->has_softmax) return std::nullopt;
  const CallArguments arguments(operation.call);
  if (row != nullptr) {
    // Softmax is blind to what all scores of a query have in common.
    if (op == "sub" && !(*row)->is_sum && (*row)->of == *scores) return *scores;
    if (op != "div" || !(*row)->is_sum || (*row)->of != *scores) return std::nullopt;
    Scores divided = **scores;
    divided.is_exponential = false;
    return with_softmax(divided);
  }
  if (is_one_of(op, {"max", "amax", "sum"}) && arguments.has("dim")) {
    const std::vector<int64_t> dims = arguments.integers("dim");
    const size_t rank = (*scores)->shape.size();
    const bool is_of_keys = dims.size() == 1 && arguments.dimension(dims[0], rank) + 1 == rank &&
                            arguments.flag("keepdim", false);
    if (!is_of_keys || (op == "sum") != (*scores)->is_exponential) return std::nullopt;
    return std::make_shared<const ScoreRow>(ScoreRow{*scores, op == "sum"});
  }
  if (op != "exp" || (*scores)->is_exponential) return std::nullopt;
  auto exponentials = std::make_shared<Scores>(**scores);
  exponentials->is_exponential = true;
  return ScoresRef(std::move(exponentials));
}

std::optional<Reduced> Reducer::score_op(const Operation& operation) {
  const ScoresRef* scores = nullptr;
  for (const Reduced& input : operation.inputs) {
    if (scores == nullptr) scores = std::get_if<ScoresRef>(&input);
  }
  const std::string& op = operation.call.op;
  if (scores == nullptr) {
    if (!is_one_of(op, {"softmax", "_softmax", "log_softmax", "_log_softmax"})) return std::nullopt;
    throw NotRecognised(
        "a softmax of something else than scores of attention is not supported: give out what it "
        "is of (export a model whose forward returns the logits)");
  }
  if ((*scores)->is_exponential) {
    throw NotRecognised("it changes the exponentials of scores otherwise than a softmax does");
  }
  if ((*scores)->has_softmax) {
    throw NotRecognised("it changes the weights of attention after their softmax");
  }
  const CallArguments arguments(operation.call);
  const bool is_first = operation.value("self") != nullptr &&
                        std::holds_alternative<ScoresRef>(*operation.value("self"));
  const auto constant = constant_argument(operation, is_first ? "other" : "self");
  const int64_t positions = positions_max_of(operation);
  if ((op == "mul" || (op == "div" && is_first)) && constant) {
    return with_scale(**scores, op == "mul" ? *constant : inverse(*constant));
  }
  if (op == "neg") return with_scale(**scores, -1.0);
  if (is_one_of(op, {"add", "sub", "rsub"}) && constant) {
    // The one of both that alpha multiplies is the second, but for rsub.
    const double alpha = arguments.real("alpha", 1.0);
    const bool has_alpha = is_first == (op == "rsub");
    const double own =
        (has_alpha ? alpha : 1.0) * (op == "add" || is_first == (op == "sub") ? 1 : -1);
    const double factor =
        (has_alpha ? 1.0 : alpha) * (op == "add" || is_first == (op == "rsub") ? 1 : -1);
    return with_added(own == 1.0 ? **scores : *with_scale(**scores, own),
                      factor == 1.0 ? *constant : negative(*constant, factor), positions);
  }
  if (op == "tanh" || op == "sigmoid") return with_tanh(**scores, op == "sigmoid");
  if (op == "masked_fill" && operation.value("mask") != nullptr) {
    const auto value = constant_argument(operation, "value");
    return with_filled(**scores, array_of(*operation.value("mask")),
                       single(value.value_or(Array::real({}, {0.0})), "it fills in a tensor"),
                       positions);
  }
  if (op == "where" && operation.value("condition") != nullptr) {
    const bool keeps_self = is_first;
    const auto value = constant_argument(operation, keeps_self ? "other" : "self");
    const Array condition = array_of(*operation.value("condition"));
    Array::Bools hidden = condition.to_bools();
    for (uint8_t& each : hidden) each = (each != 0) != keeps_self;
    if (!value) throw NotRecognised("it chooses between scores and the model's numbers");
    return with_filled(**scores, Array::boolean(condition.shape(), std::move(hidden)),
                       single(*value, "it fills in a tensor"), positions);
  }
  if (op == "softmax" || op == "_softmax") {
    const size_t dim = arguments.dimension("dim", -1, (*scores)->shape.size());
    if (dim + 1 != (*scores)->shape.size()) throw NotRecognised("its softmax is not over keys");
    return with_softmax(**scores);
  }
  throw NotRecognised(
      "the runtime has no such op on scores of attention: it scales them, caps them by tanh, adds "
      "constants, hides some, and takes the softmax");
}

// The first half of the columns times the sigmoid of the second.
Reduced Reducer::gated(const Operation& operation) {
  const AffineRef whole = as_affine(operation.inputs.at(0));
  if (whole->shape.empty() || whole->shape.back() % 2 != 0) {
    throw NotRecognised("its rows have no two halves");
  }
  const auto halves = [&](int64_t begin) {
    const int64_t width = whole->shape.back();
    const OpCall cut = {"slice",
                        "Tensor",
                        {},
                        {{"self", Array::of_shape(whole->shape, ElementType::kF32)},
                         {"dim", int64_t{-1}},
                         {"start", begin * width / 2},
                         {"end", (begin + 1) * width / 2}},
                        {}};
    return moved(movements_of(cut)->at(0), std::span(&whole, 1));
  };
  if (CallArguments(operation.call).integer("dim", -1) != -1 &&
      CallArguments(operation.call).integer("dim", -1) + 1 !=
          static_cast<int64_t>(whole->shape.size())) {
    throw NotRecognised("its gates are not columns");
  }
  const AffineRef gates = builder_.rows_made(halves(1));
  return builder_.product(builder_.activation(gates, {Activation::kSigmoid}), halves(0));
}

// Of a model that is not being trained: factors and offsets of channels, dimension 1.
Reduced Reducer::batch_norm(const Operation& operation) {
  const AffineRef value = as_affine(operation.inputs.at(0));
  if (CallArguments(operation.call).flag("training", false)) {
    throw NotRecognised("its batch norm is of a model that is being trained: export model.eval()");
  }
  const Reduced* mean = operation.value("running_mean");
  const Reduced* variance = operation.value("running_var");
  if (mean == nullptr || variance == nullptr) throw NotRecognised("it has no running statistics");
  Array::Reals offset = array_of(*mean).to_reals();
  Array::Reals factor = array_of(*variance).to_reals();
  const Reduced* weight = operation.value("weight");
  const Reduced* bias = operation.value("bias");
  const Array::Reals gains = weight ? array_of(*weight).to_reals() : Array::Reals();
  const Array::Reals biases = bias ? array_of(*bias).to_reals() : Array::Reals();
  const double epsilon = CallArguments(operation.call).real("eps", 1e-5);
  const auto fits = [&](const Array::Reals& values, const Reduced* given) {
    return given == nullptr || values.size() == factor.size();
  };
  if (offset.size() != factor.size() || !fits(gains, weight) || !fits(biases, bias)) {
    throw NotRecognised("its weights and statistics are of different lengths");
  }
  for (size_t i = 0; i < factor.size(); ++i) {
    factor[i] = (gains.empty() ? 1.0 : gains[i]) / std::sqrt(factor[i] + epsilon);
    offset[i] = (biases.empty() ? 0.0 : biases[i]) - offset[i] * factor[i];
  }
  Shape shape(value->shape.size(), 1);
  shape.at(1) = static_cast<int64_t>(factor.size());
  const auto table = std::make_shared<const Constant>(0, Array::real(shape, std::move(offset)));
  return sum(scaled(value, Array::real(shape, std::move(factor))), builder_.of_constant(table),
             1.0);
}

std::optional<Reduced> Reducer::norm_op(const Operation& operation) {
  const OpCall& call = operation.call;
  if (call.op == "glu") return gated(operation);
  if (call.op == "batch_norm" || call.op == "_native_batch_norm_legit_no_training") {
    return batch_norm(operation);
  }
  const bool is_layer = call.op == "layer_norm" || call.op == "native_layer_norm";
  const bool is_rms = call.op == "rms_norm" || call.op == "_fused_rms_norm";
  if (!is_layer && !is_rms) return std::nullopt;
  const CallArguments arguments(call);
  const std::vector<int64_t> shape = arguments.integers("normalized_shape");
  if (shape.size() != 1) throw NotRecognised("it normalises more than the last dimension");
  const Shape rows = shape_of(operation.inputs.at(0));
  const auto width = static_cast<size_t>(std::max<int64_t>(shape[0], 0));
  if (rows.empty() || rows.back() != shape[0] || width == 0) {
    throw NotRecognised("it normalises rows of another width than its input has");
  }
  NormSpec spec;
  spec.kind = is_layer ? NormKind::kLayer : NormKind::kRms;
  spec.epsilon = arguments.real("eps", is_layer ? 1e-5 : kFloatEpsilon);
  spec.gain.assign(width, 1.0);
  if (const Reduced* weight = operation.value("weight")) {
    spec.gain = array_of(*weight).to_reals();
    if (const auto* constant = std::get_if<ConstantRef>(weight); (*constant)->stored != nullptr) {
      spec.name = (*constant)->stored->name;
    }
  }
  if (const Reduced* bias = operation.value("bias")) spec.bias = array_of(*bias).to_reals();
  if (spec.gain.size() != width || (!spec.bias.empty() && spec.bias.size() != width)) {
    throw NotRecognised("its weights are of another width than its rows");
  }
  return builder_.norm(as_affine(operation.inputs.at(0)), std::move(spec));
}

// Sums of values, and values times constants.
std::optional<Reduced> Reducer::sum_op(const Operation& operation) {
  const std::string& op = operation.call.op;
  if (op == "neg") {
    const auto* affine = std::get_if<AffineRef>(&operation.inputs.at(0));
    if (affine == nullptr) return std::nullopt;
    return scaled(*affine, -1.0);
  }
  if (!is_one_of(op, {"add", "sub", "mul", "div", "rsub"})) return std::nullopt;
  const CallArguments arguments(operation.call);
  if (arguments.has("rounding_mode")) return std::nullopt;
  const double alpha = arguments.real("alpha", 1.0);
  const Reduced* self = operation.value("self");
  const Reduced* other = operation.value("other");
  const bool are_both = self && other && is_dependent(*self) && is_dependent(*other);
  if (are_both) {
    const auto* a = std::get_if<AffineRef>(self);
    const auto* b = std::get_if<AffineRef>(other);
    const bool is_sum = op == "add" || op == "sub";
    if (!is_sum && op != "mul") return std::nullopt;
    if (a == nullptr || b == nullptr || !is_sum) {
      const FunctionRef f = as_function(*self);
      const FunctionRef g = as_function(*other);
      if (f->base == g->base || are_same(*f->base, *g->base)) return std::nullopt;
      if (!is_sum) return builder_.product(as_affine(*self), as_affine(*other));
    }
    const double factor = op == "add" ? alpha : -alpha;
    // Parts of a rotation stay as they are.
    const auto settled = [&](const Reduced& value) {
      const AffineRef affine = as_affine(value);
      const bool is_part = std::ranges::any_of(
          affine->terms, [](const Term& term) { return term.factors.each != nullptr; });
      return affine->terms.size() > 1 && !is_part ? builder_.materialised(affine) : affine;
    };
    return sum(settled(*self), settled(*other), factor);
  }
  const bool is_first = self != nullptr && is_dependent(*self);
  const auto* affine = std::get_if<AffineRef>(is_first ? self : other);
  const auto constant = constant_argument(operation, is_first ? "other" : "self");
  if (affine == nullptr || !constant) return std::nullopt;
  if (op == "mul" || (op == "div" && is_first)) {
    builder_.limit_positions(positions_max_of(operation));
    return scaled(*affine, op == "mul" ? *constant : inverse(*constant));
  }
  if (op == "div") return std::nullopt;
  const bool subtracts_value = (op == "sub" && !is_first) || (op == "rsub" && is_first);
  const double constant_factor = op == "add" || op == "rsub"
                                     ? (is_first || op == "rsub" ? alpha : 1.0)
                                     : (is_first ? -alpha : 1.0);
  const AffineRef value = subtracts_value ? scaled(*affine, op == "sub" ? -alpha : -1.0)
                          : !is_first     ? scaled(*affine, alpha)
                                          : *affine;
  ConstantRef table;
  const Reduced* given = is_first ? other : self;
  if (given != nullptr && std::holds_alternative<ConstantRef>(*given)) {
    table = std::get<ConstantRef>(*given);
  } else {
    table = std::make_shared<const Constant>(0, *constant);
  }
  return sum(value, builder_.of_constant(table), constant_factor);
}

}  // namespace arenite::convert
