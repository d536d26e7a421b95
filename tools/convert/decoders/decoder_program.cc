// SPDX-License-Identifier: Apache-2.0
// One residual stream through all layers; every other slot lives for a few ops.
#include "convert/decoders/decoder_program.h"

#include <algorithm>
#include <cmath>

#include "convert/error.h"
#include "convert/mask_compiler.h"
#include "convert/planner.h"

namespace arenite::convert {
namespace {

using format::ActivationKind;
using format::ColumnView;
using format::OpKind;
using format::OpView;

// A matrix of a fused one: its rows follow those of the part before it.
struct Part {
  const LinearSpec* linear;
  double scale = 1.0;
};

std::vector<float> scaled(std::vector<float> values, double scale) {
  if (scale == 1.0) return values;
  for (float& value : values) value = static_cast<float>(value * scale);
  return values;
}

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
      break;
  }
  throw InputError("activation tanh: no decoder's MLP is known to use it");
}

class DecoderBuilder {
 public:
  DecoderBuilder(const DecoderSpec& spec, const std::string& name) : spec_(spec) {
    program_.name = name;
    program_.architecture = spec.architecture;
    program_.positions_max = spec.positions_max;
    program_.vocab_size = spec.vocab_size;
  }

  Program build() {
    residual_ = add_slot(spec_.model_dim);
    embed();
    if (spec_.rope) angles_ = add_angles(*spec_.rope);
    for (size_t i = 0; i < spec_.layers.size(); ++i) add_layer(spec_.layers[i], i);
    give_out();
    place_slots(program_);
    return std::move(program_);
  }

 private:
  uint32_t add_slot(uint32_t width, bool per_output = false) {
    format::SlotView slot;
    slot.width = width;
    slot.per_output = per_output;
    program_.slots.push_back(slot);
    return static_cast<uint32_t>(program_.slots.size() - 1);
  }

  ColumnView whole(uint32_t slot) const { return {slot, 0, program_.slots[slot].width}; }

  uint32_t add_tensor(ProgramTensor tensor) {
    program_.tensors.push_back(std::move(tensor));
    return static_cast<uint32_t>(program_.tensors.size() - 1);
  }

  uint32_t add_vector(const std::string& name, std::vector<float> values) {
    ProgramTensor tensor;
    tensor.name = name;
    tensor.outputs = 1;
    tensor.inputs = static_cast<uint32_t>(values.size());
    tensor.layout = format::Layout::kRows;
    tensor.weights = std::move(values);
    return add_tensor(std::move(tensor));
  }

  void add_op(const std::string& name, const OpView& body) { program_.ops.push_back({name, body}); }

  void add_norm(const std::string& name, const NormSpec& norm, const ColumnView& input,
                const ColumnView& output, uint32_t groups = 1, double scale = 1.0) {
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

  uint32_t add_matrix(const std::string& name, std::vector<Part> parts) {
    ProgramTensor tensor;
    tensor.name = name;
    tensor.inputs = parts[0].linear->weight.columns;
    const bool has_bias =
        std::ranges::any_of(parts, [](const Part& part) { return !part.linear->bias.empty(); });
    std::vector<std::pair<WeightRef, double>> weights;
    for (const Part& part : parts) {
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

  void add_linear(const std::string& name, const ColumnView& input, const ColumnView& output,
                  std::vector<Part> parts) {
    OpView op;
    op.kind = OpKind::kLinear;
    op.linear = {input, output, add_matrix(name, std::move(parts))};
    add_op(name, op);
  }

  void add_to_residual(const std::string& name, uint32_t other) {
    OpView op;
    op.kind = OpKind::kAdd;
    op.add = {whole(residual_), whole(other)};
    add_op(name, op);
  }

  uint32_t add_table(const WeightRef& weight, uint32_t rows) {
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

  void embed() {
    OpView op;
    op.kind = OpKind::kEmbedding;
    op.embedding.output = whole(residual_);
    if (spec_.output) {
      op.embedding.tokens = add_table(spec_.token_embedding, spec_.vocab_size);
    } else {
      embedding_ = {spec_.token_embedding, {}};
      op.embedding.tokens = tied_ = add_matrix(spec_.token_embedding.name, {{&embedding_}});
    }
    if (spec_.embedding_scale) op.embedding.scale = static_cast<float>(*spec_.embedding_scale);
    if (spec_.position_embedding) {
      op.embedding.positions = add_table(*spec_.position_embedding, spec_.positions_max);
    }
    add_op("embedding", op);
    show_state(residual_);
  }

  // Of each position the cosines, then the sines.
  uint32_t add_angles(const RopeSpec& rope) {
    ProgramTensor tensor;
    tensor.name = "angles";
    tensor.outputs = spec_.positions_max;
    tensor.inputs = rope.rotary_dim;
    tensor.layout = format::Layout::kRows;
    tensor.load = [frequencies = rope.inverse_frequencies, positions = spec_.positions_max] {
      std::vector<float> values;
      values.reserve(size_t{positions} * frequencies.size() * 2);
      for (uint32_t p = 0; p < positions; ++p) {
        for (const double f : frequencies) values.push_back(static_cast<float>(std::cos(p * f)));
        for (const double f : frequencies) values.push_back(static_cast<float>(std::sin(p * f)));
      }
      return values;
    };
    return add_tensor(std::move(tensor));
  }

  // A window as long as the context hides nothing.
  uint32_t behind_of(const LayerSpec& layer) const {
    const bool limited = layer.window != 0 && layer.window < spec_.positions_max;
    return limited ? layer.window - 1 : kUnlimited;
  }

  uint32_t mask_of(uint32_t behind) {
    const CompiledMask mask = band_mask(behind, 0, 0);
    const auto known = std::find(program_.masks.begin(), program_.masks.end(), mask);
    const auto index = known - program_.masks.begin();
    if (known == program_.masks.end()) program_.masks.push_back(mask);
    return static_cast<uint32_t>(index);
  }

  // Reads `normed`; returns the slot of what is to be added to the residual stream.
  uint32_t add_attention(const LayerSpec& layer, const std::string& prefix, uint32_t normed) {
    const uint32_t query_width = spec_.heads * spec_.head_dim;
    const uint32_t key_width = spec_.kv_heads * spec_.head_dim;
    const double scale = 1.0 / std::sqrt(static_cast<double>(spec_.head_dim));
    const bool norm_queries = layer.query_norm.has_value();
    const uint32_t qkv = add_slot(query_width + 2 * key_width);
    add_linear(prefix + "qkv", whole(normed), whole(qkv),
               {{&layer.query, norm_queries ? 1.0 : scale}, {&layer.key}, {&layer.value}});
    const ColumnView query = {qkv, 0, query_width};
    const ColumnView key = {qkv, query_width, key_width};
    if (layer.query_norm) {
      add_norm(prefix + "query_norm", *layer.query_norm, query, query, spec_.heads, scale);
    }
    if (layer.key_norm) add_norm(prefix + "key_norm", *layer.key_norm, key, key, spec_.kv_heads);
    if (spec_.rope) {
      OpView rope;
      rope.kind = OpKind::kRope;
      rope.rope = {{qkv, 0, query_width + key_width}, spec_.heads + spec_.kv_heads, angles_};
      add_op(prefix + "rope", rope);
    }
    const uint32_t context = add_slot(query_width);
    const uint32_t behind = behind_of(layer);
    OpView attention;
    attention.kind = OpKind::kAttention;
    attention.attention = {
        query,          key,         {qkv, query_width + key_width, key_width},
        whole(context), spec_.heads, static_cast<uint32_t>(program_.caches.size()),
        mask_of(behind)};
    program_.caches.push_back({{spec_.kv_heads, spec_.head_dim, spec_.head_dim}, behind});
    add_op(prefix + "attention", attention);
    const uint32_t output = add_slot(spec_.model_dim);
    add_linear(prefix + "output", whole(context), whole(output), {{&layer.output}});
    return output;
  }

  uint32_t add_mlp(const LayerSpec& layer, const std::string& prefix, uint32_t normed) {
    const bool gated = layer.gate.has_value();
    const uint32_t hidden = add_slot(spec_.ffn_dim * (gated ? 2 : 1));
    const ColumnView first = {hidden, 0, spec_.ffn_dim};
    if (gated) {
      add_linear(prefix + "gate_up", whole(normed), whole(hidden), {{&*layer.gate}, {&layer.up}});
    } else {
      add_linear(prefix + "up", whole(normed), whole(hidden), {{&layer.up}});
    }
    OpView op;
    op.kind = OpKind::kActivation;
    op.activation.target = first;
    op.activation.kind = kind_of(spec_.activation);
    if (gated) op.activation.factor = {hidden, spec_.ffn_dim, spec_.ffn_dim};
    add_op(prefix + "activation", op);
    const uint32_t output = add_slot(spec_.model_dim);
    add_linear(prefix + "down", first, whole(output), {{&layer.down}});
    return output;
  }

  void add_layer(const LayerSpec& layer, size_t index) {
    const std::string prefix = fmt::format("{}.", index);
    const uint32_t normed = add_slot(spec_.model_dim);
    add_norm(prefix + "attention_norm", layer.attention_norm, whole(residual_), whole(normed));
    const uint32_t attended = add_attention(layer, prefix, normed);
    if (!layer.parallel_residual) add_to_residual(prefix + "attention_add", attended);
    uint32_t mlp_input = normed;
    if (layer.mlp_norm) {
      mlp_input = add_slot(spec_.model_dim);
      add_norm(prefix + "mlp_norm", *layer.mlp_norm, whole(residual_), whole(mlp_input));
    }
    const uint32_t transformed = add_mlp(layer, prefix, mlp_input);
    if (layer.parallel_residual) add_to_residual(prefix + "attention_add", attended);
    add_to_residual(prefix + "mlp_add", transformed);
    if (index + 1 < spec_.layers.size() || !spec_.final_norm) show_state(residual_);
  }

  // The hidden state that the last op completes.
  void show_state(uint32_t slot) {
    program_.hidden_states.push_back({static_cast<uint32_t>(program_.ops.size() - 1), whole(slot)});
  }

  void give_out() {
    uint32_t last = residual_;
    if (spec_.final_norm) {
      last = add_slot(spec_.model_dim);
      add_norm("final_norm", *spec_.final_norm, whole(residual_), whole(last));
      show_state(last);
    }
    const uint32_t selected = add_slot(spec_.model_dim, true);
    OpView select;
    select.kind = OpKind::kSelect;
    select.select = {whole(last), whole(selected)};
    add_op("select", select);

    const uint32_t logits = program_.output_slot = add_slot(spec_.vocab_size, true);
    if (spec_.output) {
      add_linear("logits", whole(selected), whole(logits), {{&*spec_.output}});
    } else {
      OpView op;
      op.kind = OpKind::kLinear;
      op.linear = {whole(selected), whole(logits), tied_};
      add_op("logits", op);
    }
    if (!spec_.logits_soft_cap) return;
    OpView cap;
    cap.kind = OpKind::kActivation;
    cap.activation.target = whole(logits);
    cap.activation.kind = ActivationKind::kSoftCap;
    cap.activation.cap = static_cast<float>(*spec_.logits_soft_cap);
    add_op("soft_cap", cap);
  }

  const DecoderSpec& spec_;
  Program program_;
  LinearSpec embedding_;   // the token embedding as a matrix, where it is the output too
  uint32_t tied_ = 0;      // its tensor
  uint32_t residual_ = 0;  // slot
  uint32_t angles_ = 0;    // tensor
};

}  // namespace

Program build_decoder_program(const DecoderSpec& spec, const std::string& name) {
  return DecoderBuilder(spec, name).build();
}

}  // namespace arenite::convert
