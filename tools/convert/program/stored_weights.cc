// SPDX-License-Identifier: Apache-2.0
// Float32 needs no quantizer: its numbers are rounded to nearest, and are what the kernels read.
// Other types are quantized when somebody first asks for their numbers, and then kept.
#include "convert/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>

#include "convert/graph/node_traits.h"
#include "convert/quantize/quantizers.h"
#include "convert/spec/quantized_weights.h"

namespace arenite::convert {
namespace {

// The author's numbers times what is folded into them.
std::vector<float> folded_values(const WeightRef& weight, const Fold& fold) {
  return weight.visit([&](const auto& author) {
    std::vector<float> folded(author.size());
    std::ranges::transform(author, folded.begin(),
                           [&](double value) { return static_cast<float>(fold(value)); });
    return folded;
  });
}

void store(WeightRef& weight, const Fold& fold, const Storage& storage) {
  if (storage.is_taken_over && fold.scale != 1.0) {
    throw std::logic_error(
        fmt::format("{} is taken over as it is, and scaled: this is a bug", weight.name));
  }
  if (storage.type == TensorType::kF32) {
    weight.load = [exact = weight, fold] { return folded_values(exact, fold); };
    weight.load_quantized = {};
  } else if (storage.is_taken_over) {
    weight.load_quantized = [exact = weight, type = storage.type] { return load_as(exact, type); };
    weight.load = [quantized = weight.load_quantized] { return dequantize(quantized()); };
  } else {
    weight.load_quantized = [exact = weight, fold, type = storage.type,
                             kept = std::make_shared<std::optional<QuantizedMatrix>>()] {
      if (!*kept) {
        ScaleReport scales;
        *kept = quantize(folded_values(exact, fold), exact.rows, exact.columns, type, {}, &scales);
        check_scales(scales, exact.name, exact.name + "=f32");
      }
      return **kept;
    };
    weight.load = [quantized = weight.load_quantized] { return dequantize(quantized()); };
  }
  weight.load_f64 = {};
}

}  // namespace

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
  // What is stored once is quantized once.
  for (const ValueId value : graph.order()) {
    auto* const embedding = graph.as<EmbeddingNode>(value);
    if (embedding == nullptr || !embedding->stored_by) continue;
    const WeightRef& stored = graph.as<LinearNode>(*embedding->stored_by)->parts[0].linear.weight;
    embedding->tokens->load = stored.load;
    embedding->tokens->load_f64 = stored.load_f64;
    embedding->tokens->load_quantized = stored.load_quantized;
  }
  return graph;
}

bool is_rounded(Graph graph) {
  bool is_rounded = graph.kv_cache != TensorType::kF32;
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
