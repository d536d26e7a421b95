// SPDX-License-Identifier: Apache-2.0
#include "convert/spec/transformer_layers.h"

#include <fmt/format.h>

#include <utility>

namespace arenite::convert {
namespace {

class LayerReader {
 public:
  LayerReader(ModelTensors& tensors, const TransformerSpec& spec, const LayerNames& names,
              const LayerSettings& settings, std::string prefix)
      : tensors_(tensors),
        spec_(spec),
        names_(names),
        settings_(settings),
        prefix_(std::move(prefix)) {}

  LayerSpec run() {
    const uint32_t query_rows = spec_.heads * spec_.head_dim;
    LayerSpec layer;
    layer.parallel_residual = settings_.is_parallel;
    layer.attention_norm = norm(names_.attention_norm, spec_.model_dim);
    read_projections(layer, query_rows);
    layer.output = linear(names_.output, spec_.model_dim, query_rows, settings_.output_bias);
    if (settings_.has_head_norms) {
      layer.query_norm = norm(names_.query_norm, spec_.head_dim);
      layer.key_norm = norm(names_.key_norm, spec_.head_dim);
    }
    if (names_.mlp_norm != nullptr) layer.mlp_norm = norm(names_.mlp_norm, spec_.model_dim);
    const Presence bias = settings_.mlp_bias;
    if (names_.gate != nullptr) {
      layer.gate = linear(names_.gate, spec_.ffn_dim, spec_.model_dim, bias);
    }
    layer.up = linear(names_.up, spec_.ffn_dim, spec_.model_dim, bias);
    layer.down = linear(names_.down, spec_.model_dim, spec_.ffn_dim, bias);
    return layer;
  }

 private:
  NormSpec norm(const char* part, uint32_t features) {
    return read_norm(tensors_, names_, settings_, prefix_ + part, features);
  }

  LinearSpec linear(const char* part, uint32_t outputs, uint32_t inputs, Presence bias) {
    return names_.keeps_inputs_first ? tensors_.conv1d(prefix_ + part, outputs, inputs, bias)
                                     : tensors_.linear(prefix_ + part, outputs, inputs, bias);
  }

  void read_projections(LayerSpec& layer, uint32_t query_rows) {
    const uint32_t width = spec_.model_dim;
    const uint32_t key_rows = spec_.kv_heads * spec_.head_dim;
    const Presence bias = settings_.qkv_bias;
    if (names_.fused == nullptr) {
      layer.query = linear(names_.query, query_rows, width, bias);
      layer.key = linear(names_.key, key_rows, width, bias);
      layer.value = linear(names_.value, key_rows, width, bias);
      return;
    }
    const LinearSpec fused = linear(names_.fused, query_rows + 2 * key_rows, width, bias);
    if (names_.fused_rows == FusedRows::kBlocks) {
      return split_fused(layer, fused, query_rows, key_rows);
    }
    layer.query = select_rows(fused, rows_of_heads(0));
    layer.key = select_rows(fused, rows_of_heads(1));
    layer.value = select_rows(fused, rows_of_heads(2));
  }

  // Queries are part 0 of each head, keys 1 and values 2.
  RowOrder rows_of_heads(uint32_t part) const {
    RowOrder order;
    order.reserve(size_t{spec_.heads} * spec_.head_dim);
    for (uint32_t head = 0; head < spec_.heads; ++head) {
      for (uint32_t i = 0; i < spec_.head_dim; ++i) {
        order.push_back((head * 3 + part) * spec_.head_dim + i);
      }
    }
    return order;
  }

  ModelTensors& tensors_;
  const TransformerSpec& spec_;
  const LayerNames& names_;
  const LayerSettings& settings_;
  const std::string prefix_;
};

}  // namespace

NormSpec read_norm(ModelTensors& tensors, const LayerNames& names, const LayerSettings& settings,
                   const std::string& name, uint32_t features) {
  if (names.norm == NormKind::kLayer) {
    return tensors.layer_norm(name, features, settings.epsilon, settings.norm_bias);
  }
  NormSpec norm = tensors.rms_norm(name, features, settings.epsilon);
  norm.gain_plus_one = settings.gain_plus_one;
  return norm;
}

void read_layers(ModelTensors& tensors, TransformerSpec& spec, const LayerNames& names,
                 const LayerSettings& settings, const std::string& list, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const std::string prefix = fmt::format("{}{}.", list, i);
    spec.layers.push_back(LayerReader(tensors, spec, names, settings, prefix).run());
    const uint32_t window = settings.windows.empty() ? 0 : settings.windows[i];
    if (window < spec.positions_max) spec.layers[i].window = window;
  }
}

}  // namespace arenite::convert
