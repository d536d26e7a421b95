// SPDX-License-Identifier: Apache-2.0
// softmax(scale q k^T + mask) v, written as in a textbook.
#include "convert/check/module_reference.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace arenite::convert {
namespace {

// Columns [column, column + projection.inputs()) of `input` [tokens, width].
std::vector<double> project(const LinearSpec& projection, const std::vector<double>& input,
                            uint32_t tokens, uint32_t width, uint32_t column) {
  const std::vector<float> weights = projection.weight.load();
  std::vector<double> output(size_t{tokens} * projection.outputs());
  for (uint32_t t = 0; t < tokens; ++t) {
    for (uint32_t o = 0; o < projection.outputs(); ++o) {
      double sum = projection.bias.empty() ? 0.0 : projection.bias[o];
      for (uint32_t i = 0; i < projection.inputs(); ++i) {
        sum += input[size_t{t} * width + column + i] * weights[size_t{o} * projection.inputs() + i];
      }
      output[size_t{t} * projection.outputs() + o] = sum;
    }
  }
  return output;
}

struct Qkv {
  std::vector<double> query, key, value;
};

// Returns the largest score, as ReferenceOutput has it.
double attend_row(const AttentionModule& module, const Qkv& qkv, const DenseMask& mask,
                  uint32_t head, uint32_t row, uint32_t tokens, double* output) {
  const uint32_t key_width = module.heads * module.head_dim;
  const uint32_t value_width = module.heads * module.value_dim;
  std::vector<double> weights(tokens, 0.0);
  const double scale = module.head_dim == 0 ? 0.0 : module.score_scale;
  double max = -INFINITY;
  double largest_score = 0.0;
  for (uint32_t k = 0; k < tokens; ++k) {
    if (!mask.at(row, k)) continue;
    double score = 0.0;
    double magnitude = 0.0;
    for (uint32_t d = 0; d < module.head_dim; ++d) {
      const size_t column = size_t{head} * module.head_dim + d;
      const double product =
          qkv.query[size_t{row} * key_width + column] * qkv.key[size_t{k} * key_width + column];
      score += product;
      magnitude += std::fabs(product);
    }
    weights[k] = score * scale;
    max = std::max(max, weights[k]);
    largest_score = std::max(largest_score, magnitude * scale);
  }
  double sum = 0.0;
  for (uint32_t k = 0; k < tokens; ++k) {
    weights[k] = mask.at(row, k) ? std::exp(weights[k] - max) : 0.0;
    sum += weights[k];
  }
  for (uint32_t k = 0; k < tokens; ++k) {
    for (uint32_t d = 0; d < module.value_dim; ++d) {
      const size_t column = size_t{head} * module.value_dim + d;
      output[column] += weights[k] / sum * qkv.value[size_t{k} * value_width + column];
    }
  }
  return largest_score;
}

}  // namespace

ReferenceOutput reference_output(const AttentionModule& module, std::span<const float> input,
                                 uint32_t tokens) {
  const std::vector<double> x(input.begin(), input.end());
  Qkv qkv;
  if (module.head_dim == 0) {
    qkv.value = x;
  } else {
    const uint32_t key_column = module.separate_inputs ? module.query.inputs() : 0;
    const uint32_t value_column = module.separate_inputs ? key_column + module.key.inputs() : 0;
    qkv.query = project(module.query, x, tokens, module.features, 0);
    qkv.key = project(module.key, x, tokens, module.features, key_column);
    qkv.value = project(module.value, x, tokens, module.features, value_column);
  }
  std::vector<DenseMask> masks;
  for (const CompiledMask& mask : module.masks) masks.push_back(expand_mask(mask.view(), tokens));

  ReferenceOutput result;
  const uint32_t width = module.heads * module.value_dim;
  std::vector<double> context(size_t{tokens} * width, 0.0);
  for (uint32_t head = 0; head < module.heads; ++head) {
    for (uint32_t row = 0; row < tokens; ++row) {
      const double score = attend_row(module, qkv, masks[module.head_masks[head]], head, row,
                                      tokens, context.data() + size_t{row} * width);
      result.largest_score = std::max(result.largest_score, score);
    }
  }
  result.values =
      module.output ? project(*module.output, context, tokens, width, 0) : std::move(context);
  for (const double value : result.values) {
    result.largest_value = std::max(result.largest_value, std::fabs(value));
  }
  return result;
}

}  // namespace arenite::convert
