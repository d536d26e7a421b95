// SPDX-License-Identifier: Apache-2.0
// Float32 needs no quantizer: its numbers are rounded to nearest, and are what the kernels read.
#include "convert/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace arenite::convert {
namespace {

// The only type that the runtime computes with.
TensorType type_of(const WeightRef&) { return TensorType::kF32; }

// What is multiplied into a number before it is stored.
struct Fold {
  double scale = 1.0;
  double offset = 0.0;

  double operator()(double value) const { return (value + offset) * scale; }
  // Whether all floats stay floats: a power of two changes nothing but their exponents.
  bool keeps_floats() const {
    int exponent = 0;
    return offset == 0.0 && std::fabs(std::frexp(scale, &exponent)) == 0.5;
  }
};

// Calls `take` with each matrix, and with each vector, of weights, and what is folded into it.
template <typename Take>
void for_each_weight(Graph& graph, const Take& take) {
  for (const ValueId value : graph.order()) {
    if (auto* linear = graph.as<LinearNode>(value)) {
      for (LinearPart& part : linear->parts) {
        take(part.linear.weight, Fold{part.scale}, part.storage);
        take(part.linear.bias, Fold{part.scale});
      }
    } else if (auto* norm = graph.as<NormNode>(value)) {
      take(norm->norm.gain, Fold{norm->scale, norm->norm.gain_plus_one ? 1.0 : 0.0});
      take(norm->norm.bias, Fold{norm->scale});
    } else if (auto* embedding = graph.as<EmbeddingNode>(value)) {
      if (embedding->tokens) take(*embedding->tokens, Fold{}, embedding->storage);
      if (embedding->positions) take(*embedding->positions, Fold{}, Storage{});
      if (embedding->types) take(*embedding->types, Fold{}, Storage{});
    }
  }
}

// What a weight's numbers are after they were stored in its type: quantized, and read back.
std::vector<float> stored_values(std::vector<float> values, TensorType type) {
  if (type == TensorType::kF32) return values;
  throw std::logic_error(fmt::format("no quantizer makes {}: this is a bug", name(type)));
}

void store(WeightRef& weight, const Fold& fold, const Storage& storage) {
  if (storage.is_taken_over && fold.scale != 1.0) {
    throw std::logic_error(
        fmt::format("{} is taken over as it is, and scaled: this is a bug", weight.name));
  }
  weight.load = [exact = weight, fold, type = storage.type] {
    std::vector<float> values = exact.visit([&](const auto& author) {
      std::vector<float> folded(author.size());
      std::ranges::transform(author, folded.begin(),
                             [&](double value) { return static_cast<float>(fold(value)); });
      return folded;
    });
    return stored_values(std::move(values), type);
  };
  weight.load_f64 = {};
}

}  // namespace

void choose_types(Graph& graph) {
  for (const ValueId value : graph.order()) {
    if (auto* linear = graph.as<LinearNode>(value)) {
      for (LinearPart& part : linear->parts) part.storage.type = type_of(part.linear.weight);
    } else if (auto* embedding = graph.as<EmbeddingNode>(value); embedding && embedding->tokens) {
      embedding->storage.type = type_of(*embedding->tokens);
    }
  }
}

Graph with_stored_weights(Graph graph) {
  for_each_weight(graph,
                  Overloaded{[](WeightRef& weight, const Fold& fold, const Storage& storage) {
                               const bool is_stored = !weight.load_f64 && fold.scale == 1.0 &&
                                                      storage.type == TensorType::kF32;
                               if (!is_stored) store(weight, fold, storage);
                             },
                             [](std::vector<double>& vector, const Fold& fold) {
                               for (double& value : vector) value = static_cast<float>(fold(value));
                             }});
  for (const ValueId value : graph.order()) {
    if (auto* linear = graph.as<LinearNode>(value)) {
      for (LinearPart& part : linear->parts) part.scale = 1.0;
    } else if (auto* norm = graph.as<NormNode>(value)) {
      norm->scale = 1.0;
      norm->norm.gain_plus_one = false;
    }
  }
  return graph;
}

bool is_rounded(Graph graph) {
  bool is_rounded = false;
  const auto any_rounded = [](const auto& values, const Fold& fold) {
    return std::ranges::any_of(values, [&](double value) {
      return static_cast<double>(static_cast<float>(fold(value))) != fold(value);
    });
  };
  for_each_weight(
      graph, Overloaded{[&](const WeightRef& weight, const Fold& fold, const Storage& storage) {
                          if (is_rounded || storage.type != TensorType::kF32) {
                            is_rounded = true;
                          } else if (weight.load_f64 || !fold.keeps_floats()) {
                            is_rounded = weight.visit(
                                [&](const auto& values) { return any_rounded(values, fold); });
                          }
                        },
                        [&](const std::vector<double>& vector, const Fold& fold) {
                          is_rounded = is_rounded || any_rounded(vector, fold);
                        }});
  return is_rounded;
}

}  // namespace arenite::convert
