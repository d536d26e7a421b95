// SPDX-License-Identifier: Apache-2.0
#include "convert/program/program_assembler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "convert/program/planner.h"

namespace arenite::convert {
namespace {

using format::ActivationKind;
using format::ColumnView;
using format::OpKind;
using format::OpView;

void require_in_place(const ColumnView& input, const ColumnView& output) {
  if (!(input == output)) throw std::logic_error("an op in place has another output");
}

std::vector<float> scaled(std::vector<float> values, double scale) {
  if (scale == 1.0) return values;
  for (float& value : values) value = static_cast<float>(value * scale);
  return values;
}

}  // namespace

ActivationKind kind_of(Activation activation) {
  switch (activation) {
    case Activation::kGeluErf:
      return ActivationKind::kGeluErf;
    case Activation::kGeluTanh:
      return ActivationKind::kGeluTanh;
    case Activation::kSilu:
      return ActivationKind::kSilu;
    case Activation::kRelu:
      return ActivationKind::kRelu;
    case Activation::kTanh:
      return ActivationKind::kTanh;
    case Activation::kSigmoid:
      return ActivationKind::kSigmoid;
  }
  return ActivationKind::kRelu;
}

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

uint32_t ProgramAssembler::add_cache(const CacheShape& shape, uint32_t behind) {
  program_.caches.push_back({shape, behind});
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
  OpView op;
  op.kind = OpKind::kNorm;
  op.norm.input = input;
  op.norm.output = output;
  op.norm.kind = norm.kind == NormKind::kRms ? format::NormKind::kRms : format::NormKind::kLayer;
  op.norm.groups = groups;
  op.norm.epsilon = static_cast<float>(norm.epsilon);
  op.norm.gain = add_vector(name + ".gain", std::move(gain));
  if (!norm.bias.empty()) op.norm.bias = add_vector(name + ".bias", scaled(norm.bias, scale));
  add_op(name, op);
}

void ProgramAssembler::add_linear(const std::string& name, const ColumnView& input,
                                  const ColumnView& output, std::vector<MatrixPart> parts) {
  add_product(name, input, output, add_matrix(name, std::move(parts)));
}

void ProgramAssembler::add_product(const std::string& name, const ColumnView& input,
                                   const ColumnView& output, uint32_t matrix) {
  OpView op;
  op.kind = OpKind::kLinear;
  op.linear = {input, output, matrix};
  add_op(name, op);
}

void ProgramAssembler::add_embedding(const std::string& name, const EmbeddingTables& tables,
                                     const ColumnView& output) {
  OpView op;
  op.kind = OpKind::kEmbedding;
  op.embedding.output = output;
  op.embedding.tokens = tables.tokens.value_or(format::kNoTensor);
  op.embedding.scale = tables.scale;
  op.embedding.positions = tables.positions.value_or(format::kNoTensor);
  op.embedding.position_offset = tables.position_offset;
  op.embedding.padding_id = tables.padding_id.value_or(format::kNoPadding);
  op.embedding.types = tables.types.value_or(format::kNoTensor);
  add_op(name, op);
}

void ProgramAssembler::add_rope(const std::string& name, const ColumnView& input,
                                const ColumnView& output, uint32_t heads, uint32_t angles) {
  require_in_place(input, output);
  if (!program_.ops.empty() && program_.ops.back().body.kind == OpKind::kRope) {
    format::RopeOp& before = program_.ops.back().body.rope;
    const bool adjoins = before.target.slot == input.slot && before.angles == angles &&
                         before.target.column + before.target.width == input.column &&
                         before.target.width / before.heads == input.width / heads;
    if (adjoins) {
      before.target.width += input.width;
      before.heads += heads;
      return;
    }
  }
  OpView op;
  op.kind = OpKind::kRope;
  op.rope = {input, heads, angles};
  add_op(name, op);
}

void ProgramAssembler::add_attention(const std::string& name, const AttentionViews& views,
                                     uint32_t heads, uint32_t cache, uint32_t mask,
                                     const std::vector<double>& slopes) {
  if (!slopes.empty()) throw std::logic_error("slopes have no place in the format yet");
  OpView op;
  op.kind = OpKind::kAttention;
  op.attention = {views.query, views.key, views.value, views.output, heads, cache, mask};
  add_op(name, op);
}

void ProgramAssembler::add_activation(const std::string& name, ActivationKind kind,
                                      double parameter, const ColumnView& input,
                                      const ColumnView& factor, const ColumnView& output) {
  require_in_place(input, output);
  OpView op;
  op.kind = OpKind::kActivation;
  op.activation.target = input;
  op.activation.factor = factor;
  op.activation.kind = kind;
  op.activation.cap = static_cast<float>(parameter);
  add_op(name, op);
}

void ProgramAssembler::add_sum(const std::string& name, const ColumnView& input,
                               const ColumnView& other, const ColumnView& output) {
  const bool is_first = output == input;
  require_in_place(is_first ? input : other, output);
  OpView op;
  op.kind = OpKind::kAdd;
  op.add = {output, is_first ? other : input};
  add_op(name, op);
}

void ProgramAssembler::add_select(const std::string& name, const ColumnView& input,
                                  const ColumnView& output, format::SelectKind kind) {
  OpView op;
  op.kind = OpKind::kSelect;
  op.select = {input, output, kind};
  add_op(name, op);
}

Program ProgramAssembler::finish() {
  place_slots(program_);
  return std::move(program_);
}

}  // namespace arenite::convert
