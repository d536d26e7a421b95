// SPDX-License-Identifier: Apache-2.0
// Ops that are evaluated on constants only: interpolation of position tables, functions of square
// matrices (parametrized weights), and quantization of weights.
#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <unsupported/Eigen/MatrixFunctions>

#include "convert/exported/aten/op_rules.h"

namespace arenite::convert {
namespace {

// ---- interpolation: W x along each axis, with the weights W of PyTorch's kernels ----

enum class Kernel { kNearest, kNearestExact, kLinear, kCubic, kWideLinear, kWideCubic };

struct Resampling {
  std::string_view op;
  Kernel kernel;
  size_t axes;  // trailing ones
};
// Antialiasing kernels ("aa") widen to cover all input elements that map to a result.
constexpr Resampling kResamplings[] = {{"upsample_nearest1d", Kernel::kNearest, 1},
                                       {"upsample_nearest2d", Kernel::kNearest, 2},
                                       {"_upsample_nearest_exact1d", Kernel::kNearestExact, 1},
                                       {"_upsample_nearest_exact2d", Kernel::kNearestExact, 2},
                                       {"upsample_linear1d", Kernel::kLinear, 1},
                                       {"upsample_bilinear2d", Kernel::kLinear, 2},
                                       {"upsample_bicubic2d", Kernel::kCubic, 2},
                                       {"_upsample_bilinear2d_aa", Kernel::kWideLinear, 2},
                                       {"_upsample_bicubic2d_aa", Kernel::kWideCubic, 2}};

// Resampling along one axis: `from` elements become `to`, `step` elements apart.
struct Axis {
  int64_t from = 1, to = 1;
  double step = 1.0;
  bool aligns_corners = false;
};

double cubic(double x, double a) {
  x = std::fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  return x < 2.0 ? a * (((x - 5.0) * x + 8.0) * x - 4.0) : 0.0;
}

double tent(double x) { return std::max(0.0, 1.0 - std::fabs(x)); }

constexpr double kCubic = -0.75, kWideCubic = -0.5;  // as in PyTorch

// Returns the `from` weights of result `to`.
std::vector<double> weights_of(const Axis& axis, Kernel kernel, int64_t to) {
  std::vector<double> weights(static_cast<size_t>(axis.from), 0.0);
  const auto add = [&](int64_t element, double weight) {
    weights[static_cast<size_t>(std::clamp<int64_t>(element, 0, axis.from - 1))] += weight;
  };
  const auto place = static_cast<double>(to);
  if (kernel == Kernel::kNearest || kernel == Kernel::kNearestExact) {
    const double shift = kernel == Kernel::kNearestExact ? 0.5 : 0.0;
    add(static_cast<int64_t>(std::floor((place + shift) * axis.step)), 1.0);
    return weights;
  }
  if (kernel == Kernel::kLinear || kernel == Kernel::kCubic) {
    double source = axis.aligns_corners ? place * axis.step : axis.step * (place + 0.5) - 0.5;
    if (kernel == Kernel::kLinear) source = std::max(source, 0.0);
    const double first = std::floor(source);
    const bool is_linear = kernel == Kernel::kLinear;
    for (int64_t i = is_linear ? 0 : -1; i <= (is_linear ? 1 : 2); ++i) {
      const double distance = source - first - static_cast<double>(i);
      add(static_cast<int64_t>(first) + i, is_linear ? tent(distance) : cubic(distance, kCubic));
    }
    return weights;
  }
  const bool is_linear = kernel == Kernel::kWideLinear;
  const double wide = std::max(axis.step, 1.0);
  const double reach = (is_linear ? 1.0 : 2.0) * wide, centre = axis.step * (place + 0.5);
  const auto first = std::max<int64_t>(0, static_cast<int64_t>(centre - reach + 0.5));
  const auto end = std::min<int64_t>(axis.from, static_cast<int64_t>(centre + reach + 0.5));
  for (int64_t i = first; i < end; ++i) {
    const double x = (static_cast<double>(i) - centre + 0.5) / wide;
    add(i, is_linear ? tent(x) : cubic(x, kWideCubic));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= total == 0.0 ? 1.0 : total;
  return weights;
}

// Returns the scale factor of each axis, given as one list or one argument per axis; empty if
// absent.
std::vector<double> factors_of(const Call& call, size_t axes) {
  std::vector<double> factors;
  const Argument* list = call.find("scale_factors");
  for (const char* name : {"scales_h", "scales_w", "scales"}) {
    if (call.has(name)) factors.push_back(call.real(name));
  }
  if (list != nullptr && list->as<Argument::List>() != nullptr) {
    for (const Argument& item : *list->as<Argument::List>()) {
      const double* factor = item.as<double>();
      const int64_t* whole = item.as<int64_t>();
      if (factor == nullptr && whole == nullptr)
        call.refuse("found a scale factor that is not a number: expected a float or an integer");
      factors.push_back(factor != nullptr ? *factor : static_cast<double>(*whole));
    }
  }
  const auto is_positive = [](double factor) { return factor > 0.0 && std::isfinite(factor); };
  if ((!factors.empty() && factors.size() != axes) || !std::ranges::all_of(factors, is_positive)) {
    call.refuse(
        "found {} resampled axes and {} scale factors: expected one positive factor for each axis",
        axes, factors.size());
  }
  return factors;
}

std::vector<Axis> axes_of(const Call& call, const Shape& shape, const Resampling& row) {
  const std::vector<double> factors = factors_of(call, row.axes);
  const Shape sizes = call.has("output_size") ? Shape(call.integers("output_size")) : Shape();
  if (shape.size() != row.axes + 2 || (sizes.size() != row.axes && factors.empty())) {
    call.refuse(
        "found a tensor {}: expected [batch, channels, ..], with a size or factor for each further "
        "axis",
        shape_text(shape));
  }
  std::vector<Axis> axes;
  for (size_t d = 0; d < row.axes; ++d) {
    Axis axis = {.from = shape[d + 2], .aligns_corners = call.flag("align_corners", false)};
    axis.to = sizes.size() == row.axes
                  ? sizes[d]
                  : static_cast<int64_t>(std::floor(static_cast<double>(axis.from) * factors[d]));
    if (axis.from < 1 || axis.to < 1)
      call.refuse("found {} output elements for {} input elements: expected at least 1 of both",
                  axis.to, axis.from);
    const auto from = static_cast<double>(axis.from), to = static_cast<double>(axis.to);
    axis.step = factors.empty() ? from / to : 1.0 / factors[d];
    if (axis.aligns_corners) axis.step = axis.to > 1 ? (from - 1.0) / (to - 1.0) : 0.0;
    axes.push_back(axis);
  }
  return axes;
}

Array resampled(const Call& call, const Resampling& row, OpBudget& budget) {
  const bool is_input = call.find("input") != nullptr;
  Array array = real_array(call, is_input ? "input" : "self");
  const ElementType type = array.type();
  const std::vector<Axis> axes = axes_of(call, array.shape(), row);
  for (size_t d = 0; d < axes.size(); ++d) {
    Shape shape = array.shape();
    shape[d + 2] = axes[d].to;
    const size_t count = elements_of(shape);
    budget.take_elements(count);
    budget.take_multiplications(count * static_cast<uint64_t>(axes[d].from));
    const auto inner = static_cast<size_t>(strides_of(shape)[d + 2]);
    const auto from = static_cast<size_t>(axes[d].from), to = static_cast<size_t>(axes[d].to);
    const Array::Reals before = array.to_reals();
    Array::Reals after(count, 0.0);
    for (size_t t = 0; t < to; ++t) {
      const std::vector<double> weights = weights_of(axes[d], row.kernel, static_cast<int64_t>(t));
      for (size_t outer = 0; outer < count / (to * inner); ++outer) {
        for (size_t f = 0; f < from; ++f) {
          if (weights[f] == 0.0) continue;
          const double* x = before.data() + (outer * from + f) * inner;
          double* y = after.data() + (outer * to + t) * inner;
          for (size_t i = 0; i < inner; ++i) y[i] += weights[f] * x[i];
        }
      }
    }
    array = Array::real(std::move(shape), std::move(after), ElementType::kF64);
  }
  return array.to(type);
}

// ---- functions of square matrices ----

constexpr double kExponentMax = 700.0;  // exp of more overflows
constexpr size_t kProductsMax = 60;     // matrix products that a function takes

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix inverse_of(const Matrix& matrix) {
  const Eigen::PartialPivLU<Matrix> factors(matrix);
  if ((factors.matrixLU().diagonal().array() == 0.0).any())
    throw ShapeError("the matrix is singular: expected an invertible one");
  return factors.inverse();
}

Matrix exponential_of(const Matrix& matrix) {
  // Beyond this norm the exponential overflows, after hundreds of squarings.
  if (!(matrix.cwiseAbs().rowwise().sum().maxCoeff() < kExponentMax)) {
    throw ShapeError("the exponential of the matrix overflows float64: expected a smaller norm");
  }
  return matrix.exp();
}

struct MatrixFunction {
  std::string_view op;
  const char* argument;
  Matrix (*of)(const Matrix& matrix);
};
constexpr MatrixFunction kMatrixFunctions[] = {{"linalg_inv", "A", inverse_of},
                                               {"inverse", "self", inverse_of},
                                               {"matrix_exp", "self", exponential_of},
                                               {"linalg_matrix_exp", "self", exponential_of}};

Results matrix_function(const Call& call, const MatrixFunction& row, OpBudget& budget) {
  const Array& given = real_array(call, row.argument);
  const Shape& shape = given.shape();
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2]) {
    call.refuse("found a tensor {}: expected square matrices", shape_text(shape));
  }
  const int64_t side = shape.back();
  budget.take_multiplications(given.elements() * static_cast<size_t>(side) * kProductsMax);
  Array::Reals values = given.to_reals();
  for (size_t first = 0; first < values.size(); first += static_cast<size_t>(side * side)) {
    Eigen::Map<Matrix> matrix(values.data() + first, side, side);
    matrix = row.of(matrix);
  }
  return {Array::real(shape, std::move(values), ElementType::kF64).to(given.type())};
}

// ---- quantize, dequantize and fake_quantize ----

enum class Rounds { kTo, kFrom, kBoth };  // to integers, from integers, or both

struct Rounding {
  std::string_view op;
  Rounds rounds;
  const char* self;
  const char* scales;
  const char* zero_points;
};
constexpr Rounding kRoundings[] = {
    {"quantized_decomposed.quantize_per_tensor", Rounds::kTo, "input", "scale", "zero_point"},
    {"quantized_decomposed.quantize_per_channel", Rounds::kTo, "input", "scales", "zero_points"},
    {"quantized_decomposed.dequantize_per_tensor", Rounds::kFrom, "input", "scale", "zero_point"},
    {"quantized_decomposed.dequantize_per_channel", Rounds::kFrom, "input", "scales",
     "zero_points"},
    {"fake_quantize_per_tensor_affine", Rounds::kBoth, "self", "scale", "zero_point"},
    {"fake_quantize_per_channel_affine", Rounds::kBoth, "self", "scale", "zero_point"},
    {"fake_quantize_per_tensor_affine_cachemask", Rounds::kBoth, "self", "scale", "zero_point"},
    {"fake_quantize_per_channel_affine_cachemask", Rounds::kBoth, "self", "scale", "zero_point"}};

// Returns a scale or zero point for each element of `shape`: one for all, or one per index of
// "axis".
Array::Reals per_channel(const Call& call, const char* name, const Shape& shape) {
  const Array given =
      call.has(name) ? operand(call, name).array : Array::real({}, Array::Reals{0.0});
  Shape spread(shape.size(), 1);
  if (given.elements() != 1) {
    const size_t axis = call.dimension("axis", 0, shape.size());
    spread[axis] = static_cast<int64_t>(given.elements());
  }
  return stretched(given.with_shape(spread), shape).to_reals();
}

// Computes clamp(round(x / scale) + zero, min, max) and its inverse in float32, as PyTorch's
// kernels do.
Results rounded(const Call& call, const Rounding& row) {
  const Array& self = call.array(row.self);
  const Array::Reals scales = per_channel(call, row.scales, self.shape());
  const Array::Reals zeros = per_channel(call, row.zero_points, self.shape());
  const auto least = static_cast<float>(call.integer("quant_min"));
  const auto most = static_cast<float>(call.integer("quant_max"));
  Array::Reals values = self.to_reals();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto scale = static_cast<float>(scales[i]), zero = static_cast<float>(zeros[i]);
    auto value = static_cast<float>(values[i]);
    if (row.rounds != Rounds::kFrom) {
      value = std::clamp(std::nearbyint(value * (1.0f / scale)) + zero, least, most);
    }
    values[i] = row.rounds == Rounds::kTo ? value : (value - zero) * scale;
  }
  const ElementType to = row.rounds == Rounds::kBoth ? self.type()
                         : row.rounds == Rounds::kTo
                             ? call.type("dtype").value_or(ElementType::kI8)
                             : call.type("out_dtype").value_or(ElementType::kF32);
  Results results = {Array::real(self.shape(), std::move(values), ElementType::kF64).to(to)};
  if (row.op.ends_with("cachemask")) {  // for gradients only
    results.push_back(Array::boolean(self.shape(), Array::Bools(self.elements(), 1)));
  }
  return results;
}

}  // namespace

OpRules constant_rules() {
  OpRules rules;
  add_rows(rules, kRoundings, rounded);
  for (const MatrixFunction& row : kMatrixFunctions) {
    rules[row.op] = [&row](const Call& call, OpBudget& budget) {
      return matrix_function(call, row, budget);
    };
  }
  for (const Resampling& row : kResamplings) {
    rules[row.op] = [&row](const Call& call, OpBudget& budget) -> Results {
      return {resampled(call, row, budget)};
    };
  }
  return rules;
}

}  // namespace arenite::convert
