// SPDX-License-Identifier: Apache-2.0
// One residual stream through all layers; every other slot lives for a few ops.
#include "convert/program/decoder_program.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "convert/program/program_assembler.h"

namespace arenite::convert {
namespace {

using format::ColumnView;

class DecoderBuilder {
 public:
  DecoderBuilder(const DecoderSpec& spec, const std::string& name)
      : spec_(spec), assembler_(name, spec.architecture), program_(assembler_.program()) {
    program_.positions_max = spec.positions_max;
    program_.vocab_size = spec.vocab_size;
  }

  Program build() {
    residual_ = assembler_.add_slot(spec_.model_dim);
    embed();
    if (spec_.rope) angles_ = add_angles(*spec_.rope);
    for (size_t i = 0; i < spec_.layers.size(); ++i) add_layer(spec_.layers[i], i);
    give_out();
    return assembler_.finish();
  }

 private:
  ColumnView whole(uint32_t slot) const { return assembler_.whole(slot); }

  void embed() {
    EmbeddingParts parts;
    if (spec_.output || spec_.is_headless) {
      parts.tokens = assembler_.add_table(spec_.token_embedding, spec_.vocab_size);
    } else {
      embedding_ = {spec_.token_embedding, {}};
      parts.tokens = tied_ = assembler_.add_matrix(spec_.token_embedding.name, {{&embedding_}});
    }
    if (spec_.embedding_scale) parts.scale = static_cast<float>(*spec_.embedding_scale);
    if (spec_.position_embedding) {
      parts.positions = assembler_.add_table(*spec_.position_embedding, spec_.positions_max);
    }
    assembler_.add_embedding("embedding", whole(residual_), parts);
    assembler_.show_state(residual_);
  }

  // Of each position the cosines, then the sines, times the magnitude of what is turned by them.
  uint32_t add_angles(const RopeSpec& rope) {
    ProgramTensor tensor;
    tensor.name = "angles";
    tensor.outputs = spec_.positions_max;
    tensor.inputs = rope.rotary_dim;
    tensor.layout = format::Layout::kRows;
    tensor.load = [frequencies = rope.inverse_frequencies, magnitude = rope.magnitude,
                   positions = spec_.positions_max] {
      std::vector<float> values;
      values.reserve(size_t{positions} * frequencies.size() * 2);
      for (uint32_t p = 0; p < positions; ++p) {
        for (const double f : frequencies) {
          values.push_back(static_cast<float>(magnitude * std::cos(p * f)));
        }
        for (const double f : frequencies) {
          values.push_back(static_cast<float>(magnitude * std::sin(p * f)));
        }
      }
      return values;
    };
    return assembler_.add_tensor(std::move(tensor));
  }

  // A window as long as the context hides nothing.
  uint32_t behind_of(const LayerSpec& layer) const {
    const bool limited = layer.window != 0 && layer.window < spec_.positions_max;
    return limited ? layer.window - 1 : kUnlimited;
  }

  // Reads `normed`; returns the slot of what is to be added to the residual stream.
  uint32_t add_attention(const LayerSpec& layer, const std::string& prefix, uint32_t normed) {
    const uint32_t query_width = spec_.heads * spec_.head_dim;
    const uint32_t key_width = spec_.kv_heads * spec_.head_dim;
    const double scale =
        spec_.score_scale.value_or(1.0 / std::sqrt(static_cast<double>(spec_.head_dim)));
    const bool norm_queries = layer.query_norm.has_value();
    const uint32_t qkv = assembler_.add_slot(query_width + 2 * key_width);
    assembler_.add_linear(
        prefix + "qkv", whole(normed), whole(qkv),
        {{&layer.query, norm_queries ? 1.0 : scale}, {&layer.key}, {&layer.value}});
    const ColumnView query = {qkv, 0, query_width};
    const ColumnView key = {qkv, query_width, key_width};
    if (layer.query_norm) {
      assembler_.add_norm(prefix + "query_norm", *layer.query_norm, query, query, spec_.heads,
                          scale);
    }
    if (layer.key_norm)
      assembler_.add_norm(prefix + "key_norm", *layer.key_norm, key, key, spec_.kv_heads);
    if (spec_.rope) {
      const ColumnView turned = {qkv, 0, query_width + key_width};
      assembler_.add_rope(prefix + "rope", turned, turned, spec_.heads + spec_.kv_heads, angles_);
    }
    const uint32_t context = assembler_.add_slot(query_width);
    const uint32_t behind = behind_of(layer);
    const AttentionParts attention = {
        query,
        key,
        {qkv, query_width + key_width, key_width},
        whole(context),
        spec_.heads,
        assembler_.add_cache({spec_.kv_heads, spec_.head_dim, spec_.head_dim}, behind),
        assembler_.add_band(behind, spec_.causal ? 0 : kUnlimited)};
    assembler_.add_attention(prefix + "attention", attention);
    const uint32_t output = assembler_.add_slot(spec_.model_dim);
    assembler_.add_linear(prefix + "output", whole(context), whole(output), {{&layer.output}});
    return output;
  }

  uint32_t add_mlp(const LayerSpec& layer, const std::string& prefix, uint32_t normed) {
    const bool gated = layer.gate.has_value();
    const uint32_t hidden = assembler_.add_slot(spec_.ffn_dim * (gated ? 2 : 1));
    const ColumnView first = {hidden, 0, spec_.ffn_dim};
    if (gated) {
      assembler_.add_linear(prefix + "gate_up", whole(normed), whole(hidden),
                            {{&*layer.gate}, {&layer.up}});
    } else {
      assembler_.add_linear(prefix + "up", whole(normed), whole(hidden), {{&layer.up}});
    }
    const ColumnView factor =
        gated ? ColumnView{hidden, spec_.ffn_dim, spec_.ffn_dim} : ColumnView{};
    assembler_.add_activation(prefix + "activation", spec_.activation, first, factor);
    const uint32_t output = assembler_.add_slot(spec_.model_dim);
    assembler_.add_linear(prefix + "down", first, whole(output), {{&layer.down}});
    return output;
  }

  void add_layer(const LayerSpec& layer, size_t index) {
    const std::string prefix = fmt::format("{}.", index);
    if (spec_.norm_first) {
      add_norm_first_layer(layer, prefix);
    } else {
      add_norm_last_layer(layer, prefix);
    }
    if (index + 1 < spec_.layers.size() || !spec_.final_norm) assembler_.show_state(residual_);
  }

  void add_norm_last_layer(const LayerSpec& layer, const std::string& prefix) {
    assembler_.add_sum(prefix + "attention_add", residual_,
                       add_attention(layer, prefix, residual_));
    assembler_.add_norm(prefix + "attention_norm", layer.attention_norm, whole(residual_),
                        whole(residual_));
    assembler_.add_sum(prefix + "mlp_add", residual_, add_mlp(layer, prefix, residual_));
    assembler_.add_norm(prefix + "mlp_norm", *layer.mlp_norm, whole(residual_), whole(residual_));
  }

  void add_norm_first_layer(const LayerSpec& layer, const std::string& prefix) {
    const uint32_t normed = assembler_.add_slot(spec_.model_dim);
    assembler_.add_norm(prefix + "attention_norm", layer.attention_norm, whole(residual_),
                        whole(normed));
    const uint32_t attended = add_attention(layer, prefix, normed);
    if (!layer.parallel_residual) assembler_.add_sum(prefix + "attention_add", residual_, attended);
    uint32_t mlp_input = normed;
    if (layer.mlp_norm) {
      mlp_input = assembler_.add_slot(spec_.model_dim);
      assembler_.add_norm(prefix + "mlp_norm", *layer.mlp_norm, whole(residual_), whole(mlp_input));
    }
    const uint32_t transformed = add_mlp(layer, prefix, mlp_input);
    if (layer.parallel_residual) assembler_.add_sum(prefix + "attention_add", residual_, attended);
    assembler_.add_sum(prefix + "mlp_add", residual_, transformed);
  }

  void give_out() {
    uint32_t last = residual_;
    if (spec_.final_norm) {
      last = assembler_.add_slot(spec_.model_dim);
      assembler_.add_norm("final_norm", *spec_.final_norm, whole(residual_), whole(last));
      assembler_.show_state(last);
    }
    const uint32_t selected = assembler_.add_slot(spec_.model_dim, true);
    assembler_.add_select("select", last, selected, SelectKind::kAsAsked);

    if (spec_.is_headless) {
      program_.output_slot = selected;
      return;
    }
    const uint32_t logits = program_.output_slot = assembler_.add_slot(spec_.vocab_size, true);
    if (spec_.output) {
      assembler_.add_linear("logits", whole(selected), whole(logits), {{&*spec_.output}});
    } else {
      assembler_.add_product("logits", whole(selected), whole(logits), tied_);
    }
    if (!spec_.logits_soft_cap) return;
    assembler_.add_activation("soft_cap", Activation::kSoftCap,
                              static_cast<float>(*spec_.logits_soft_cap), whole(logits), {},
                              whole(logits));
  }

  const DecoderSpec& spec_;
  ProgramAssembler assembler_;
  Program& program_;
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
