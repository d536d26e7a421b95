// SPDX-License-Identifier: Apache-2.0
// Lowers ops on complex values: rotations, and Fourier transforms as products with constant
// matrices.
//
//   z * exp(i a)  ->  (re cos a - im sin a, im cos a + re sin a)
//   fft(x)        ->  (C x, -S x), with C and S of cosines and sines
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "convert/exported/aten/op_rules.h"
#include "convert/exported/trace/op_handlers.h"
#include "convert/exported/trace/tracer.h"

namespace arenite::convert {
namespace {

Array array_like(const LinearExprRef& value) {
  return Array::of_shape(value->shape, ElementType::kF32);
}

// Selects element `index` of the last dimension.
LinearExprRef last_selected(const LinearExprRef& value, int64_t index) {
  const Call select = {
      .op = "select",
      .arguments = {{"self", array_like(value)}, {"dim", int64_t{-1}}, {"index", index}}};
  return moved(movements_of(select)->at(0), value);
}

// Lowers the Fourier transform along one dimension. The imaginary part may be null.
ComplexPair fourier_along(Tracer& tracer, const ComplexPair& given, size_t dim, double sign) {
  const Shape& shape = given.real->shape;
  const int64_t points = shape[dim];
  const auto matrix_of = [&](double (*part)(double)) {
    Array::Reals numbers;
    for (int64_t i = 0; i < points * points; ++i) {
      const auto turn = static_cast<double>(i / points * (i % points) % points);
      numbers.push_back(part(2.0 * std::numbers::pi * turn / static_cast<double>(points)));
    }
    return std::make_shared<const Constant>(kNoValue,
                                            Array::real({points, points}, std::move(numbers)));
  };
  const auto cosines = matrix_of([](double angle) { return std::cos(angle); });
  const auto sines = matrix_of([](double angle) { return std::sin(angle); });
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::swap(order[dim], order.back());
  const auto times = [&](const LinearExprRef& value, const ConstantRef& matrix) {
    const LinearExprRef made = tracer.linear(permuted(value, order), matrix, false, nullptr);
    return permuted(made, order);
  };
  // (C + i sign S) (re + i im)
  ComplexPair made{times(given.real, cosines), scaled(times(given.real, sines), sign)};
  if (!given.imaginary) return made;
  return {sum(made.real, times(given.imaginary, sines), -sign),
          sum(made.imaginary, times(given.imaginary, cosines), 1.0)};
}

}  // namespace

std::optional<TracedValue> complex_op(Tracer& tracer, const Call& call) {
  const std::vector<TracedValue> inputs = values_of(call);
  if (call.op == "view_as_complex") {
    const LinearExprRef value = tracer.as_sum(inputs.at(0));
    return ComplexPair{last_selected(value, 0), last_selected(value, 1)};
  }
  const bool has_complex = std::ranges::any_of(inputs, &TracedValue::is<ComplexPair>);
  if (is_fourier(call.op)) {
    ComplexPair pair = inputs.at(0).as<ComplexPair>();
    if (!pair.real) pair.real = tracer.as_sum(inputs[0]);
    const FourierTransform transform = fourier_transform(call, pair.real->shape);
    for (const size_t dim : transform.dims) {
      pair = fourier_along(tracer, pair, dim, transform.sign);
    }
    return ComplexPair{scaled(pair.real, transform.factor),
                       scaled(pair.imaginary, transform.factor)};
  }
  if (!has_complex) return std::nullopt;
  const bool is_first = inputs[0].is<ComplexPair>();
  const ComplexPair& z = inputs[is_first || inputs.size() < 2 ? 0 : 1].as<ComplexPair>();
  if (call.op == "real") return z.real;
  if (call.op == "imag") return z.imaginary;
  if (call.op == "view_as_real" && is_first) {
    const Call stack = {
        .op = "stack",
        .arguments = {{"tensors", Argument::List{array_like(z.real), array_like(z.imaginary)}},
                      {"dim", int64_t{-1}}}};
    const LinearExprRef parts[] = {z.real, z.imaginary};
    return moved(movements_of(stack)->at(0), parts);
  }
  if (call.op == "mul" && inputs.size() == 2) {
    const Array factor = tracer.array_of(inputs[is_first ? 1 : 0]);
    Array::Reals real, imaginary;
    for (const std::complex<double>& each : factor.to_complexes()) {
      real.push_back(each.real());
      imaginary.push_back(each.imag());
    }
    const Array cosine = Array::real(factor.shape(), std::move(real));
    const Array sine = Array::real(factor.shape(), std::move(imaginary));
    tracer.builder.limit_positions(positions_max_of(call));
    return ComplexPair{sum(scaled(z.real, cosine), scaled(z.imaginary, sine), -1.0),
                       sum(scaled(z.imaginary, cosine), scaled(z.real, sine), 1.0)};
  }
  const auto movements = movements_of(with_shapes(call));
  refuse_op_if(!movements || !is_first,
               "complex values are supported only in rotations and Fourier transforms");
  return ComplexPair{moved((*movements)[0], z.real), moved((*movements)[0], z.imaginary)};
}

}  // namespace arenite::convert
