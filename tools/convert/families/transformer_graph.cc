// SPDX-License-Identifier: Apache-2.0
// One residual stream through all layers, for decoders and encoders alike.
#include "convert/families/families.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "convert/graph/graph.h"

namespace arenite::convert {
namespace {

// What attention and MLP of a layer need to know, of either kind of model.
struct AttentionSpec {
  const LinearSpec& query;
  const LinearSpec& key;
  const LinearSpec& value;
  const LinearSpec& output;
  const NormSpec* query_norm = nullptr;
  const NormSpec* key_norm = nullptr;
  const RopeSpec* rope = nullptr;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  std::optional<double> scale;  // absent: 1/sqrt(head_dim)
  uint32_t mask = 0;
  std::vector<double> slopes{};
};

ValueId add_attention(Graph& graph, const std::string& prefix, const AttentionSpec& spec,
                      ValueId input) {
  ValueId query = graph.add_linear(prefix + "query", spec.query, input);
  ValueId key = graph.add_linear(prefix + "key", spec.key, input);
  const ValueId value = graph.add_linear(prefix + "value", spec.value, input);
  if (spec.query_norm) query = graph.add_norm(prefix + "query_norm", *spec.query_norm, query);
  if (spec.key_norm) key = graph.add_norm(prefix + "key_norm", *spec.key_norm, key);
  if (spec.rope) {
    query = graph.add(prefix + "rope", RotateNode{*spec.rope, spec.head_dim}, {query});
    key = graph.add(prefix + "rope", RotateNode{*spec.rope, spec.head_dim}, {key});
  }
  const AttentionNode attention = {
      .heads = spec.heads,
      .kv_heads = spec.kv_heads,
      .head_dim = spec.head_dim,
      .value_dim = spec.head_dim,
      .scale = spec.scale.value_or(1.0 / std::sqrt(static_cast<double>(spec.head_dim))),
      .mask = spec.mask,
      .slopes = spec.slopes,
      .cache = graph.caches()};
  const ValueId context = graph.add_attention(prefix + "attention", attention, {query, key, value});
  return graph.add_linear(prefix + "output", spec.output, context);
}

ValueId add_mlp(Graph& graph, const std::string& prefix, const LinearSpec* gate,
                const LinearSpec& up, const LinearSpec& down, Activation activation,
                ValueId input) {
  const ActivationNode function = {activation};
  if (gate == nullptr) {
    const ValueId hidden = graph.add_linear(prefix + "up", up, input);
    return graph.add_linear(prefix + "down", down,
                            graph.add(prefix + "activation", function, {hidden}));
  }
  const ValueId gates = graph.add_linear(prefix + "gate", *gate, input);
  const ValueId hidden = graph.add_linear(prefix + "up", up, input);
  const ValueId opened = graph.add(prefix + "activation", function, {gates});
  return graph.add_linear(prefix + "down", down,
                          graph.add(prefix + "activation", MultiplyNode{}, {opened, hidden}));
}

// Keys that a query sees: the last `window`, its own included, or all (0).
uint32_t lookback(uint32_t window) { return window == 0 ? kUnlimited : window - 1; }

// One of the two halves of a layer, `part`: x + compute(norm(x)), or norm(x + compute(x)).
template <typename Compute>
ValueId add_residual(Graph& graph, const std::string& part, const NormSpec& norm, bool norm_first,
                     const Compute& compute, ValueId x) {
  const ValueId input = norm_first ? graph.add_norm(part + "_norm", norm, x) : x;
  x = graph.add(part + "_add", AddNode{}, {x, compute(input)});
  return norm_first ? x : graph.add_norm(part + "_norm", norm, x);
}

// All layers of a model, of either kind of spec, from its residual stream on.
template <typename Spec>
class LayerGraph {
 public:
  LayerGraph(Graph& graph, const Spec& spec, std::vector<double> slopes = {})
      : graph_(graph), spec_(spec), slopes_(std::move(slopes)) {}

  // Adds the layers, and shows the hidden states that PyTorch's models do.
  ValueId build(ValueId x) {
    graph_.hidden_states.push_back(x);
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      x = add_layer(fmt::format("{}.", i), spec_.layers[i], x);
      if (i + 1 < spec_.layers.size() || !spec_.final_norm) graph_.hidden_states.push_back(x);
    }
    if (spec_.final_norm) {
      x = graph_.add_norm("final_norm", *spec_.final_norm, x);
      graph_.hidden_states.push_back(x);
    }
    return x;
  }

 private:
  ValueId attend(const std::string& prefix, const LayerSpec& layer, ValueId input) {
    const auto pointer = [](const auto& part) { return part ? &*part : nullptr; };
    return add_attention(
        graph_, prefix,
        {.query = layer.query,
         .key = layer.key,
         .value = layer.value,
         .output = layer.output,
         .query_norm = pointer(layer.query_norm),
         .key_norm = pointer(layer.key_norm),
         .rope = pointer(spec_.rope),
         .heads = spec_.heads,
         .kv_heads = spec_.kv_heads != 0 ? spec_.kv_heads : spec_.heads,
         .head_dim = spec_.head_dim,
         .scale = spec_.score_scale,
         .mask = graph_.add_band(lookback(layer.window), spec_.causal ? 0 : kUnlimited),
         .slopes = slopes_},
        input);
  }

  ValueId transform(const std::string& prefix, const LayerSpec& layer, ValueId input) {
    return add_mlp(graph_, prefix, layer.gate ? &*layer.gate : nullptr, layer.up, layer.down,
                   spec_.activation, input);
  }

  ValueId add_layer(const std::string& prefix, const LayerSpec& layer, ValueId x) {
    if (layer.parallel_residual) return add_parallel_layer(prefix, layer, x);
    x = add_residual(
        graph_, prefix + "attention", layer.attention_norm, spec_.norm_first,
        [&](ValueId input) { return attend(prefix, layer, input); }, x);
    return add_residual(
        graph_, prefix + "mlp", *layer.mlp_norm, spec_.norm_first,
        [&](ValueId input) { return transform(prefix, layer, input); }, x);
  }

  ValueId add_parallel_layer(const std::string& prefix, const LayerSpec& layer, ValueId x) {
    const ValueId normed = graph_.add_norm(prefix + "attention_norm", layer.attention_norm, x);
    const ValueId attended = attend(prefix, layer, normed);
    const ValueId mlp_input =
        layer.mlp_norm ? graph_.add_norm(prefix + "mlp_norm", *layer.mlp_norm, x) : normed;
    const ValueId transformed = transform(prefix, layer, mlp_input);
    x = graph_.add(prefix + "attention_add", AddNode{}, {x, attended});
    return graph_.add(prefix + "mlp_add", AddNode{}, {x, transformed});
  }

  Graph& graph_;
  const Spec& spec_;
  const std::vector<double> slopes_;
};

// ---- decoders ----

class DecoderGraph {
 public:
  explicit DecoderGraph(const DecoderSpec& spec) : spec_(spec) {}

  Graph build() {
    graph_.architecture = spec_.architecture;
    graph_.positions_max = spec_.positions_max;
    graph_.vocab_size = spec_.vocab_size;
    EmbeddingNode embedding = {.tokens = spec_.token_embedding,
                               .scale = spec_.embedding_scale.value_or(1.0),
                               .positions = spec_.position_embedding};
    ValueId x = graph_.add_embedding("embedding", std::move(embedding), spec_.model_dim);
    if (spec_.embedding_norm) x = graph_.add_norm("embedding_norm", *spec_.embedding_norm, x);
    x = LayerGraph(graph_, spec_, spec_.alibi_slopes).build(x);
    if (!spec_.is_headless) {
      const LinearSpec tied = {spec_.token_embedding, {}};
      x = graph_.add_linear("logits", spec_.output ? *spec_.output : tied, x);
      if (spec_.logits_soft_cap) {
        x = graph_.add("soft_cap", ActivationNode{Activation::kSoftCap, *spec_.logits_soft_cap},
                       {x});
      }
    }
    graph_.output = graph_.add("select", RowsNode{SelectKind::kAsAsked}, {x});
    return std::move(graph_);
  }

 private:
  const DecoderSpec& spec_;
  Graph graph_;
};

// ---- encoders ----

class EncoderGraph {
 public:
  explicit EncoderGraph(const EncoderSpec& spec) : spec_(spec) {}

  Graph build() {
    graph_.architecture = spec_.architecture;
    graph_.positions_max = spec_.positions_max;
    graph_.vocab_size = spec_.vocab_size;
    graph_.token_types = spec_.token_types;
    graph_.labels = spec_.labels;
    ValueId x = spec_.vocab_size != 0 ? embed_tokens() : embed_features();
    x = LayerGraph(graph_, spec_).build(x);
    x = pool(x);
    for (size_t i = 0; i < spec_.head.size(); ++i) {
      x = add_head_step(spec_.head[i], fmt::format("head.{}", i), x);
    }
    if (spec_.pooling == SelectKind::kAsAsked && spec_.causal) {
      x = graph_.add("select", RowsNode{SelectKind::kAsAsked}, {x});
    }
    graph_.output = x;
    return std::move(graph_);
  }

 private:
  // norm(tokens + positions + types), then the projection to the width of the layers.
  ValueId embed_tokens() {
    EmbeddingNode embedding = {.tokens = *spec_.token_embedding,
                               .scale = spec_.embedding_scale,
                               .positions = spec_.position_embedding,
                               .position_offset = spec_.position_offset,
                               .padding_id = spec_.padding_id,
                               .types = spec_.type_embedding};
    ValueId x =
        graph_.add_embedding("embedding", std::move(embedding), spec_.token_embedding->columns);
    if (spec_.embedding_norm) x = graph_.add_norm("embedding_norm", *spec_.embedding_norm, x);
    return spec_.input ? graph_.add_linear("input", *spec_.input, x) : x;
  }

  // norm(projection + positions). A bare stack of layers works on the features themselves.
  ValueId embed_features() {
    ValueId x = graph_.add_features(spec_.input_features);
    if (spec_.input) {
      x = graph_.add_linear("input", *spec_.input, x);
      if (spec_.embedding_scale != 1.0) {
        x = graph_.add("input_scale", ScaleNode{spec_.embedding_scale}, {x});
      }
    }
    if (spec_.position_embedding) {
      EmbeddingNode embedding = {.positions = *spec_.position_embedding,
                                 .position_offset = spec_.position_offset};
      const ValueId positions =
          graph_.add_embedding("positions", std::move(embedding), spec_.model_dim);
      x = graph_.add("positions_add", AddNode{}, {x, positions});
    }
    return spec_.embedding_norm ? graph_.add_norm("embedding_norm", *spec_.embedding_norm, x) : x;
  }

  // The rows that the head starts from.
  ValueId pool(ValueId x) {
    if (spec_.pooling == SelectKind::kAsAsked) return x;
    if (spec_.more_pooling.empty()) {
      return graph_.add("pooling", RowsNode{spec_.pooling}, {x});
    }
    std::vector<SelectKind> poolings = {spec_.pooling};
    poolings.insert(poolings.end(), spec_.more_pooling.begin(), spec_.more_pooling.end());
    std::vector<ValueId> parts;
    for (const SelectKind pooling : poolings) {
      const std::string name = fmt::format("pooling.{}", parts.size() * spec_.model_dim);
      parts.push_back(graph_.add(name, RowsNode{pooling}, {x}));
    }
    return graph_.add_concat("pooling", std::move(parts));
  }

  ValueId add_head_step(const HeadStepSpec& step, const std::string& name, ValueId x) {
    if (step.linear) x = graph_.add_linear(name, *step.linear, x);
    if (step.activation) {
      x = graph_.add(name + ".activation", ActivationNode{*step.activation}, {x});
    }
    if (step.norm) x = graph_.add_norm(name + ".norm", *step.norm, x);
    if (!step.normalize) return x;
    const bool is_last = &step == &spec_.head.back();
    return graph_.add(is_last ? "normalize" : name + ".normalize", NormalizeNode{}, {x});
  }

  const EncoderSpec& spec_;
  Graph graph_;
};

}  // namespace

Graph build_graph(const DecoderSpec& spec) { return DecoderGraph(spec).build(); }
Graph build_graph(const EncoderSpec& spec) { return EncoderGraph(spec).build(); }

}  // namespace arenite::convert
