// SPDX-License-Identifier: Apache-2.0
#include "convert/program/program_assembler.h"

#include <algorithm>
#include <utility>

#include "convert/program/planner.h"

namespace arenite::convert {
namespace {

using format::ColumnView;
using format::OpView;

std::vector<float> scaled(std::vector<float> values, double scale) {
  if (scale == 1.0) return values;
  for (float& value : values) value = static_cast<float>(value * scale);
  return values;
}

}  // namespace

ProgramAssembler::ProgramAssembler(const std::string& name, const std::string& architecture) {
  program_.name = name;
  program_.architecture = architecture;
}

uint32_t ProgramAssembler::add_slot(uint32_t width, bool per_output) {
  format::SlotView slot;
  slot.width = width;
  slot.per_output = per_output;
  program_.slots.push_back(slot);
  return static_cast<uint32_t>(program_.slots.size() - 1);
}

uint32_t ProgramAssembler::add_tensor(ProgramTensor tensor) {
  program_.tensors.push_back(std::move(tensor));
  return static_cast<uint32_t>(program_.tensors.size() - 1);
}

uint32_t ProgramAssembler::add_vector(const std::string& name, std::vector<float> values) {
  ProgramTensor tensor;
  tensor.name = name;
  tensor.outputs = 1;
  tensor.inputs = static_cast<uint32_t>(values.size());
  tensor.layout = format::Layout::kRows;
  tensor.weights = std::move(values);
  return add_tensor(std::move(tensor));
}

uint32_t ProgramAssembler::add_table(const WeightRef& weight, uint32_t rows) {
  ProgramTensor tensor;
  tensor.name = weight.name;
  tensor.outputs = rows;
  tensor.inputs = weight.columns;
  tensor.layout = format::Layout::kRows;
  tensor.load = [weight, rows] {
    std::vector<float> values = weight.load();
    values.resize(size_t{rows} * weight.columns);
    return values;
  };
  return add_tensor(std::move(tensor));
}

uint32_t ProgramAssembler::add_matrix(const std::string& name, std::vector<MatrixPart> parts) {
  ProgramTensor tensor;
  tensor.name = name;
  tensor.inputs = parts[0].linear->weight.columns;
  const bool has_bias =
      std::ranges::any_of(parts, [](const MatrixPart& part) { return !part.linear->bias.empty(); });
  std::vector<std::pair<WeightRef, double>> weights;
  for (const MatrixPart& part : parts) {
    const LinearSpec& linear = *part.linear;
    tensor.outputs += linear.weight.rows;
    weights.emplace_back(linear.weight, part.scale);
    if (!has_bias) continue;
    const std::vector<float> bias = scaled(linear.bias, part.scale);
    tensor.bias.insert(tensor.bias.end(), bias.begin(), bias.end());
    tensor.bias.resize(tensor.outputs, 0.0f);
  }
  tensor.load = [weights] {
    if (weights.size() == 1) return scaled(weights[0].first.load(), weights[0].second);
    std::vector<float> all;
    for (const auto& [weight, scale] : weights) {
      const std::vector<float> rows = scaled(weight.load(), scale);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  };
  return add_tensor(std::move(tensor));
}

uint32_t ProgramAssembler::add_cache(const CacheShape& shape, uint32_t lookback) {
  program_.caches.push_back({shape, lookback});
  return static_cast<uint32_t>(program_.caches.size() - 1);
}

void ProgramAssembler::add_op(const std::string& name, const OpView& body) {
  program_.ops.push_back({name, body});
}

void ProgramAssembler::add_norm(const std::string& name, const NormSpec& norm,
                                const ColumnView& input, const ColumnView& output, uint32_t groups,
                                double scale) {
  std::vector<float> gain = norm.gain;
  for (float& value : gain) {
    value = static_cast<float>((value + (norm.gain_plus_one ? 1.0 : 0.0)) * scale);
  }
  NormParts parts{norm.kind, groups, add_vector(name + ".gain", std::move(gain))};
  if (!norm.bias.empty()) parts.bias = add_vector(name + ".bias", scaled(norm.bias, scale));
  parts.epsilon = static_cast<float>(norm.epsilon);
  add_op(name, norm_op(input, output, parts));
}

void ProgramAssembler::add_linear(const std::string& name, const ColumnView& input,
                                  const ColumnView& output, std::vector<MatrixPart> parts) {
  add_product(name, input, output, add_matrix(name, std::move(parts)));
}

void ProgramAssembler::add_product(const std::string& name, const ColumnView& input,
                                   const ColumnView& output, uint32_t matrix) {
  add_op(name, linear_op(input, output, matrix));
}

void ProgramAssembler::add_embedding(const std::string& name, const ColumnView& output,
                                     const EmbeddingParts& parts) {
  add_op(name, embedding_op(output, parts));
}

void ProgramAssembler::add_attention(const std::string& name, const AttentionParts& parts) {
  add_op(name, attention_op(parts));
}

void ProgramAssembler::add_rope(const std::string& name, const ColumnView& input,
                                const ColumnView& output, uint32_t heads, uint32_t angles) {
  if (!program_.ops.empty() && program_.ops.back().body.kind == format::OpKind::kRope) {
    OpView& before = program_.ops.back().body;
    ColumnView& from = before.views[format::kInput];
    ColumnView& to = before.views[format::kOutput];
    uint32_t& heads_before = before.numbers[format::RopeOp::kHeads];
    const auto adjoins = [](const ColumnView& first, const ColumnView& second) {
      return first.slot == second.slot && first.column + first.width == second.column;
    };
    if (adjoins(from, input) && adjoins(to, output) &&
        before.numbers[format::RopeOp::kAngles] == angles &&
        from.width / heads_before == input.width / heads) {
      from.width += input.width;
      to.width += output.width;
      heads_before += heads;
      return;
    }
  }
  add_op(name, rope_op(input, output, heads, angles));
}

void ProgramAssembler::add_activation(const std::string& name, Activation activation,
                                      float parameter, const ColumnView& input,
                                      const ColumnView& factor, const ColumnView& output) {
  add_op(name, activation_op(activation, parameter, input, factor, output));
}

void ProgramAssembler::add_sum(const std::string& name, const ColumnView& input,
                               const ColumnView& other, const ColumnView& output) {
  add_op(name, sum_op(input, other, output));
}

void ProgramAssembler::add_select(const std::string& name, const ColumnView& input,
                                  const ColumnView& output, SelectKind kind) {
  add_op(name, select_op(input, output, kind));
}

Program ProgramAssembler::finish() {
  place_slots(program_);
  return std::move(program_);
}

}  // namespace arenite::convert
