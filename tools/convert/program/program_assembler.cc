// SPDX-License-Identifier: Apache-2.0
#include "convert/program/program_assembler.h"

#include <algorithm>
#include <span>
#include <utility>

#include "convert/program/planner.h"

namespace arenite::convert {
namespace {

using format::ColumnView;
using format::OpView;

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
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

uint32_t ProgramAssembler::add_matrix(const std::string& name,
                                      const std::vector<LinearPart>& parts) {
  ProgramTensor tensor;
  tensor.name = name;
  tensor.type = parts[0].storage.type;
  tensor.inputs = parts[0].linear.inputs();
  const bool has_bias =
      std::ranges::any_of(parts, [](const LinearPart& part) { return !part.linear.bias.empty(); });
  std::vector<WeightRef> weights;
  for (const LinearPart& part : parts) {
    const LinearSpec& linear = part.linear;
    tensor.outputs += linear.outputs();
    weights.push_back(linear.weight);
    if (!has_bias) continue;
    tensor.bias.insert(tensor.bias.end(), linear.bias.begin(), linear.bias.end());
    tensor.bias.resize(tensor.outputs, 0.0f);
  }
  tensor.load = [weights] {
    std::vector<float> all = weights[0].load();
    for (const WeightRef& weight : std::span(weights).subspan(1)) {
      const std::vector<float> rows = weight.load();
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
                                const ColumnView& input, const ColumnView& output,
                                uint32_t groups) {
  NormParts parts{norm.kind, groups, add_vector(name + ".gain", floats(norm.gain))};
  if (!norm.bias.empty()) parts.bias = add_vector(name + ".bias", floats(norm.bias));
  parts.epsilon = static_cast<float>(norm.epsilon);
  add_op(name, norm_op(input, output, parts));
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
