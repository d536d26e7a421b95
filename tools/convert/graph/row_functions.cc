// SPDX-License-Identifier: Apache-2.0
#include "convert/graph/row_functions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace arenite::convert {

double activate(const ActivationNode& node, double x) {
  switch (node.activation) {
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
      return node.parameter * std::tanh(x / node.parameter);
    case Activation::kScale:
      return node.parameter * x;
  }
  return x;
}

double pooled(SelectKind kind, const std::vector<double>& x, size_t width, size_t column) {
  const size_t rows = x.size() / width;
  double sum = 0.0, weighted = 0.0, weights = 0.0, largest = x[column];
  for (size_t t = 0; t < rows; ++t) {
    const double value = x[t * width + column];
    const double weight = static_cast<double>(t + 1);
    sum += value;
    weighted += weight * value;
    weights += weight;
    largest = std::max(largest, value);
  }
  switch (kind) {
    case SelectKind::kFirst:
      return x[column];
    case SelectKind::kMean:
      return sum / static_cast<double>(rows);
    case SelectKind::kMax:
      return largest;
    case SelectKind::kMeanSqrtLength:
      return sum / std::sqrt(static_cast<double>(rows));
    case SelectKind::kWeightedMean:
      return weighted / weights;
    case SelectKind::kLast:
    case SelectKind::kAsAsked:
      return x[(rows - 1) * width + column];
  }
  return 0.0;
}

}  // namespace arenite::convert
