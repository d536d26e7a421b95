// SPDX-License-Identifier: Apache-2.0
#include "convert/graph/activation_functions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace arenite::convert {
namespace {

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

}  // namespace

double activate(Activation function, double parameter, double x) {
  switch (function) {
    case Activation::kGeluErf:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Activation::kSoftCap:
      return parameter * std::tanh(x / parameter);
    case Activation::kScale:
      return parameter * x;
    case Activation::kLeakyRelu:
      return x < 0.0 ? parameter * x : x;
    case Activation::kElu:
      return x < 0.0 ? parameter * std::expm1(x) : x;
    case Activation::kSoftplus:
      return softplus(x);
    case Activation::kMish:
      return x * std::tanh(softplus(x));
    case Activation::kHardSwish:
      return x * std::clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case Activation::kClamp:
      return std::clamp(x, -parameter, parameter);
  }
  return x;
}

}  // namespace arenite::convert
