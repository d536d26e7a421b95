// SPDX-License-Identifier: Apache-2.0
// The records of ops, and what is added to a program together with them.
#include "convert/program/program.h"

#include <algorithm>
#include <span>
#include <utility>

#include "convert/quantize/activations.h"

namespace arenite::convert {
namespace {

using format::ColumnView;
using format::OpView;

template <typename T>
void append(std::vector<T>& list, const std::vector<T>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

OpView linear_op(const ColumnView& input, const ColumnView& output, uint32_t tensor) {
  return {format::OpKind::kLinear, {input, {}, {}, output}, {tensor}, {}};
}

OpView attention_op(const AttentionParts& parts) {
  return {
      format::OpKind::kAttention,
      {parts.query, parts.key, parts.value, parts.output},
      {parts.heads, parts.cache, parts.mask, parts.terms, static_cast<uint32_t>(parts.terms_by)},
      {parts.score_cap}};
}

OpView embedding_op(const ColumnView& output, const EmbeddingParts& parts) {
  return {format::OpKind::kEmbedding,
          {{}, {}, {}, output},
          {parts.tokens, parts.positions, parts.types, parts.position_offset, parts.padding_id},
          {parts.scale}};
}

OpView norm_op(const ColumnView& input, const ColumnView& output, const NormParts& parts) {
  return {format::OpKind::kNorm,
          {input, {}, {}, output},
          {static_cast<uint32_t>(parts.kind), parts.groups, parts.gain, parts.bias},
          {parts.epsilon}};
}

OpView rope_op(const ColumnView& input, const ColumnView& output, uint32_t heads, uint32_t angles) {
  return {format::OpKind::kRope, {input, {}, {}, output}, {heads, angles}, {}};
}

OpView activation_op(Activation kind, float parameter, const ColumnView& input,
                     const ColumnView& factor, const ColumnView& output) {
  return {format::OpKind::kActivation,
          {input, factor, {}, output},
          {static_cast<uint32_t>(kind)},
          {parameter}};
}

OpView sum_op(const ColumnView& input, const ColumnView& other, const ColumnView& output) {
  return {format::OpKind::kAdd, {input, other, {}, output}, {}, {}};
}

OpView select_op(const ColumnView& input, const ColumnView& output, SelectKind kind,
                 uint32_t first_row) {
  return {format::OpKind::kSelect,
          {input, {}, {}, output},
          {static_cast<uint32_t>(kind), first_row},
          {}};
}

OpView prefix_op(const ColumnView& input, const ColumnView& output, uint32_t tensor,
                 uint32_t first_row) {
  return {format::OpKind::kPrefix, {input, {}, {}, output}, {tensor, first_row}, {}};
}

OpView patches_op(const ColumnView& output, const ImagePatches& image) {
  return {format::OpKind::kPatches,
          {{}, {}, {}, output},
          {image.channels, image.height, image.width, image.patch_height, image.patch_width},
          {}};
}

std::optional<ImagePatches> Program::patches() const {
  if (ops.empty() || ops[0].body.kind != format::OpKind::kPatches) return std::nullopt;
  const uint32_t* const n = ops[0].body.numbers;
  return ImagePatches{n[0], n[1], n[2], n[3], n[4]};
}

uint32_t Program::prefix_rows() const {
  uint32_t rows = 0;
  for (const ProgramOp& op : ops) {
    if (op.body.kind != format::OpKind::kPrefix) continue;
    const uint32_t* const numbers = op.body.numbers;
    rows = std::max(rows, numbers[format::PrefixOp::kFirstRow] +
                              tensors[numbers[format::PrefixOp::kRows]].outputs);
  }
  return rows;
}

uint32_t Program::add_slot(uint32_t width, bool per_output) {
  format::SlotView slot;
  slot.width = width;
  slot.per_output = per_output;
  slots.push_back(slot);
  return static_cast<uint32_t>(slots.size() - 1);
}

uint32_t Program::add_tensor(ProgramTensor tensor) {
  tensors.push_back(std::move(tensor));
  return static_cast<uint32_t>(tensors.size() - 1);
}

uint32_t Program::add_vector(const std::string& tensor_name, std::vector<float> values) {
  ProgramTensor tensor;
  tensor.name = tensor_name;
  tensor.outputs = 1;
  tensor.inputs = static_cast<uint32_t>(values.size());
  tensor.layout = format::Layout::kPlain;
  tensor.weights = std::move(values);
  return add_tensor(std::move(tensor));
}

uint32_t Program::add_table(const WeightRef& weight, uint32_t rows, TensorType type) {
  ProgramTensor tensor;
  tensor.name = weight.name;
  tensor.outputs = rows;
  tensor.inputs = weight.columns;
  tensor.layout = format::Layout::kPlain;
  tensor.type = type;
  if (type == TensorType::kF32) {
    tensor.load = [weight, rows] {
      std::vector<float> values = weight.load();
      values.resize(size_t{rows} * weight.columns);
      return values;
    };
  } else {
    tensor.load_quantized = [weight, rows] {
      QuantizedMatrix matrix = weight.load_quantized();
      matrix.scales.resize(matrix.scales.size() / matrix.rows * rows);
      matrix.values.resize(size_t{rows} * matrix.columns);
      matrix.rows = rows;
      return matrix;
    };
  }
  return add_tensor(std::move(tensor));
}

uint32_t Program::add_matrix(const std::string& tensor_name, const std::vector<LinearPart>& parts) {
  ProgramTensor tensor;
  tensor.name = tensor_name;
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
  if (tensor.type == TensorType::kF32) {
    tensor.load = [weights] {
      std::vector<float> all = weights[0].load();
      for (const WeightRef& weight : std::span(weights).subspan(1)) append(all, weight.load());
      return all;
    };
  } else {
    tensor.load_quantized = [weights] {
      QuantizedMatrix all = weights[0].load_quantized();
      for (const WeightRef& weight : std::span(weights).subspan(1)) {
        const QuantizedMatrix rows = weight.load_quantized();
        all.rows += rows.rows;
        append(all.values, rows.values);
        append(all.scales, rows.scales);
      }
      return all;
    };
  }
  return add_tensor(std::move(tensor));
}

uint32_t Program::add_cache(const CacheShape& shape, uint32_t lookback) {
  caches.push_back({shape, lookback});
  return static_cast<uint32_t>(caches.size() - 1);
}

void Program::add_op(const std::string& op_name, const OpView& body) {
  ops.push_back({op_name, body});
}

void Program::add_norm(const std::string& op_name, const NormNode& norm, const ColumnView& input,
                       const ColumnView& output) {
  const NormSpec& spec = norm.norm;
  NormParts parts{.kind = spec.kind,
                  .groups = input.width / static_cast<uint32_t>(spec.gain.size()),
                  .epsilon = static_cast<float>(spec.epsilon)};
  parts.gain = add_vector(op_name + ".gain", floats(spec.gain));
  if (!spec.bias.empty()) parts.bias = add_vector(op_name + ".bias", floats(spec.bias));
  add_op(op_name, norm_op(input, output, parts));
}

void Program::add_rope(const std::string& op_name, const ColumnView& input,
                       const ColumnView& output, uint32_t heads, uint32_t angles) {
  if (!ops.empty() && ops.back().body.kind == format::OpKind::kRope) {
    OpView& before = ops.back().body;
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
  add_op(op_name, rope_op(input, output, heads, angles));
}

bool has_few_bits(const Program& program) {
  return program.kv_cache != TensorType::kF32 ||
         std::ranges::any_of(program.tensors, [](const ProgramTensor& tensor) {
           return tensor.type != TensorType::kF32;
         });
}

bool rounds_activations(const Program& program) {
  return program.kv_cache != TensorType::kF32 ||
         std::ranges::any_of(program.tensors, [](const ProgramTensor& tensor) {
           return rounds_activations(tensor.type);
         });
}

}  // namespace arenite::convert
