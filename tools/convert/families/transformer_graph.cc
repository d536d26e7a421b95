// SPDX-License-Identifier: Apache-2.0
// Builds the graph of a spec: one residual stream through all layers, for decoders and encoders, or
// one for each of an encoder-decoder.
#include "convert/families/families.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/graph/graph.h"

namespace arenite::convert {
namespace {

// Returns how many earlier keys a query sees with `window`, which includes its own; 0 means all.
uint32_t lookback(uint32_t window) { return window == 0 ? kUnlimited : window - 1; }

class TransformerGraph {
 public:
  // Reads input `input`; layers attend to `encoded`, if there is an encoder. `prefix` precedes all
  // names.
  TransformerGraph(const StackSpec& spec, Graph& graph, uint32_t input, std::string prefix,
                   std::optional<ValueId> encoded)
      : spec_(spec),
        graph_(graph),
        input_(input),
        axis_(graph.inputs[input].axis),
        prefix_(std::move(prefix)),
        encoded_(encoded) {
    GraphInput& own = graph_.inputs[input];
    own.name = spec_.input_name;
    own.positions_max = spec_.positions_max;
    own.tokens_min = spec_.positions_min;
    own.vocab_size = spec_.vocab_size;
    own.token_types = spec_.token_types;
  }

  // Returns the last hidden states.
  ValueId add_rows() {
    return add_layers(spec_.vocab_size != 0 ? embed_tokens() : embed_features());
  }
  ValueId add_output() { return spec_.is_decoder ? add_logits(add_rows()) : add_head(add_rows()); }

 private:
  // Exposes a hidden state that PyTorch's model exposes, of a model without an encoder.
  void show(ValueId x) {
    if (prefix_.empty()) graph_.hidden_states.push_back(x);
  }

  ValueId add_layers(ValueId x) {
    show(x);
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      x = add_layer(i, x);
      if (i + 1 < spec_.layers.size() || !spec_.final_norm) show(x);
    }
    if (spec_.final_norm) {
      x = graph_.add_norm(prefix_ + "final_norm", *spec_.final_norm, x);
      show(x);
    }
    return x;
  }

  // Returns the biases of a layer.
  std::shared_ptr<const AttentionBias> score_terms(size_t layer) {
    const bool has_own = !spec_.layer_biases.empty();
    const std::vector<double>& values = has_own ? spec_.layer_biases[layer] : spec_.score_bias;
    if (values.empty() || (terms_ && !has_own)) return terms_;
    const auto distances = static_cast<uint32_t>(values.size() / spec_.heads);
    const AttentionBias whole = {.by = ScoreTerms::kDistances,
                                 .heads = spec_.heads,
                                 .positions = (distances + 1) / 2,
                                 .values = values};
    terms_ = std::make_shared<AttentionBias>(first_positions(whole, spec_.positions_max));
    return terms_;
  }

  ValueId clip(ValueId x) {
    if (!spec_.qkv_clip) return x;
    return graph_.add(graph_.node(x).name + "_clip",
                      ActivationNode{Activation::kClamp, *spec_.qkv_clip}, {x});
  }

  // Attends from `input` to `rows`: the same ones, or those of the encoder.
  ValueId attend(const std::string& prefix, const LayerSpec& layer, ValueId input, ValueId rows,
                 const std::shared_ptr<const AttentionBias>& terms) {
    const bool is_own = input == rows;
    ValueId query = graph_.add_linear(prefix + "query", layer.query, input);
    ValueId key = graph_.add_linear(prefix + "key", layer.key, rows);
    const ValueId value = clip(graph_.add_linear(prefix + "value", layer.value, rows));
    if (layer.query_norm) query = graph_.add_norm(prefix + "query_norm", *layer.query_norm, query);
    if (layer.key_norm) key = graph_.add_norm(prefix + "key_norm", *layer.key_norm, key);
    query = clip(query);
    key = clip(key);
    const std::optional<RopeSpec>& rope =
        layer.rotation == Rotation::kLocal ? spec_.local_rope : spec_.rope;
    if (rope && is_own && layer.rotation != Rotation::kNone) {
      query = graph_.add(prefix + "rope", RotateNode{*rope, spec_.head_dim}, {query});
      key = graph_.add(prefix + "rope", RotateNode{*rope, spec_.head_dim}, {key});
    }
    const double usual_scale = 1.0 / std::sqrt(static_cast<double>(spec_.head_dim));
    const AttentionNode attention = {
        .heads = spec_.heads,
        .kv_heads = spec_.kv_heads != 0 ? spec_.kv_heads : spec_.heads,
        .head_dim = spec_.head_dim,
        .value_dim = spec_.head_dim,
        .scale = spec_.score_scale.value_or(usual_scale),
        .mask = graph_.add_band(lookback(layer.window),
                                spec_.causal && is_own ? 0 : lookback(layer.window)),
        .slopes = spec_.alibi_slopes,
        .terms = terms,
        .score_cap = spec_.score_soft_cap.value_or(0.0),
        .sinks = layer.sinks,
        .cache = graph_.caches()};
    const ValueId context =
        graph_.add_attention(prefix + "attention", attention, {query, key, value});
    return graph_.add_linear(prefix + "output", layer.output, context);
  }

  ValueId transform(const std::string& prefix, const LayerSpec& layer, ValueId input) {
    const ActivationNode function = {spec_.activation};
    const ValueId gates =
        layer.gate ? graph_.add_linear(prefix + "gate", *layer.gate, input) : ValueId{0};
    const ValueId up = graph_.add_linear(prefix + "up", layer.up, input);
    ValueId hidden = graph_.add(prefix + "activation", function, {layer.gate ? gates : up});
    if (spec_.squares_activation) {
      hidden = graph_.add(prefix + "square", MultiplyNode{}, {hidden, hidden});
    }
    if (layer.gate) hidden = graph_.add(prefix + "activation", MultiplyNode{}, {hidden, up});
    return graph_.add_linear(prefix + "down", layer.down, hidden);
  }

  // Adds what the hidden columns of gpt-oss are.
  ValueId add_clamped(const std::string& prefix, double limit, ValueId gate, ValueId up) {
    constexpr double kSteepness = 1.702;
    gate = graph_.add(prefix + "limit", ActivationNode{Activation::kAtMost, limit}, {gate});
    up = graph_.add(prefix + "clamp", ActivationNode{Activation::kClamp, limit}, {up});
    ValueId open = graph_.add(prefix + "scale", ScaleNode{kSteepness}, {gate});
    open = graph_.add(prefix + "activation", ActivationNode{Activation::kSigmoid}, {open});
    open = graph_.add(prefix + "activation", MultiplyNode{}, {open, gate});
    const ValueId product = graph_.add(prefix + "multiply", MultiplyNode{}, {up, open});
    return graph_.add(prefix + "add", AddNode{}, {product, open});
  }

  // Adds the weighted sum of the experts that the router chooses.
  ValueId mix(const std::string& prefix, const ExpertsSpec& experts, ValueId input) {
    ValueId scores = graph_.add_linear(prefix + "router", experts.router, input);
    const RowFunctionNode softmax = {NormKind::kSoftmax};
    if (!experts.renormalizes) scores = graph_.add(prefix + "softmax", softmax, {scores});
    const ValueId best = graph_.add_top_k(prefix + "top_k", scores, experts.chosen);
    const ValueId ids = graph_.add_slice(prefix + "ids", best, 0, experts.chosen);
    ValueId weights = graph_.add_slice(prefix + "weights", best, experts.chosen, experts.chosen);
    if (experts.renormalizes) weights = graph_.add(prefix + "softmax", softmax, {weights});
    const auto of_chosen = [&](const char* part, const LinearSpec& linear, ValueId from) {
      return graph_.add_experts(prefix + part, linear, experts.count, from, ids);
    };
    const ValueId gate = of_chosen("gate", experts.gate, input);
    const ValueId up = of_chosen("up", experts.up, input);
    const ValueId hidden =
        experts.limit ? add_clamped(prefix, *experts.limit, gate, up) : add_gated(prefix, gate, up);
    const ValueId down = graph_.add(prefix + "weigh", MultiplyNode{},
                                    {of_chosen("down", experts.down, hidden), weights});
    const uint32_t width = graph_.width(input);
    ValueId sum = graph_.add_slice(prefix + "part", down, 0, width);
    for (uint32_t i = 1; i < experts.chosen; ++i) {
      const ValueId part = graph_.add_slice(prefix + "part", down, i * width, width);
      sum = graph_.add(prefix + "sum", AddNode{}, {sum, part});
    }
    return sum;
  }

  ValueId add_gated(const std::string& prefix, ValueId gate, ValueId up) {
    gate = graph_.add(prefix + "activation", ActivationNode{spec_.activation}, {gate});
    return graph_.add(prefix + "activation", MultiplyNode{}, {gate, up});
  }

  // Adds the MLP, its experts, or both.
  ValueId transform_or_mix(const std::string& prefix, const LayerSpec& layer, ValueId input) {
    if (!layer.experts) return transform(prefix, layer, input);
    const ValueId mixed = mix(prefix + "experts.", *layer.experts, input);
    if (!layer.shared_gate) return mixed;
    const ValueId shared = transform(prefix + "shared.", layer, input);
    ValueId gate = graph_.add_linear(prefix + "shared_gate", *layer.shared_gate, input);
    gate = graph_.add(prefix + "shared_gate.sigmoid", ActivationNode{Activation::kSigmoid}, {gate});
    const ValueId gated = graph_.add(prefix + "shared.weigh", MultiplyNode{}, {shared, gate});
    return graph_.add(prefix + "experts.add", AddNode{}, {mixed, gated});
  }

  ValueId add_layer(size_t index, ValueId x) {
    const std::string prefix = fmt::format("{}{}.", prefix_, index);
    const LayerSpec& layer = spec_.layers[index];
    const std::shared_ptr<const AttentionBias> terms = score_terms(index);
    if (layer.parallel_residual) return add_parallel_layer(prefix, layer, x, terms);
    x = add_residual(
        prefix + "attention", layer.attention_norm, layer.attention_out_norm,
        [&](ValueId input) { return attend(prefix, layer, input, input, terms); }, x);
    if (encoded_) {
      const LayerSpec& cross = spec_.cross[index];
      x = add_residual(
          prefix + "cross", cross.attention_norm, {},
          [&](ValueId input) {
            return attend(prefix + "cross.", cross, input, *encoded_, nullptr);
          },
          x);
    }
    return add_residual(
        prefix + "mlp", layer.mlp_norm, layer.mlp_out_norm,
        [&](ValueId input) { return transform_or_mix(prefix, layer, input); }, x);
  }

  ValueId normed(const std::string& name, const std::optional<NormSpec>& norm, ValueId x) {
    return norm ? graph_.add_norm(name, *norm, x) : x;
  }

  // Adds one half of a layer, `part`: x + out_norm(compute(norm(x))), or norm(x + compute(x)).
  template <typename Compute>
  ValueId add_residual(const std::string& part, const std::optional<NormSpec>& norm,
                       const std::optional<NormSpec>& out_norm, const Compute& compute, ValueId x) {
    const ValueId computed = compute(spec_.norm_first ? normed(part + "_norm", norm, x) : x);
    x = add_to(part + "_add", x, normed(part + "_out_norm", out_norm, computed));
    return spec_.norm_first ? x : normed(part + "_norm", norm, x);
  }

  ValueId add_to(const std::string& name, ValueId x, ValueId computed) {
    if (spec_.residual_scale != 1.0) {
      computed = graph_.add(name + ".scale", ScaleNode{spec_.residual_scale}, {computed});
    }
    return graph_.add(name, AddNode{}, {x, computed});
  }

  ValueId add_parallel_layer(const std::string& prefix, const LayerSpec& layer, ValueId x,
                             const std::shared_ptr<const AttentionBias>& terms) {
    const ValueId input = normed(prefix + "attention_norm", layer.attention_norm, x);
    const ValueId attended = attend(prefix, layer, input, input, terms);
    const ValueId mlp_input =
        layer.mlp_norm ? graph_.add_norm(prefix + "mlp_norm", *layer.mlp_norm, x) : input;
    const ValueId transformed = transform(prefix, layer, mlp_input);
    x = add_to(prefix + "attention_add", x, attended);
    return add_to(prefix + "mlp_add", x, transformed);
  }

  // Adds norm(tokens + positions + types), then the projection to the width of the layers.
  ValueId embed_tokens() {
    const uint32_t width = spec_.token_embedding->columns;
    const bool come_later = spec_.position_embedding &&
                            (spec_.norms_tokens || spec_.position_embedding->columns != width);
    EmbeddingNode embedding = {.tokens = *spec_.token_embedding,
                               .scale = spec_.embedding_scale,
                               .position_offset = spec_.position_offset,
                               .padding_id = spec_.padding_id,
                               .types = spec_.type_embedding};
    if (!come_later) embedding.positions = spec_.position_embedding;
    ValueId x = graph_.add_embedding(prefix_ + "embedding", std::move(embedding), width, axis_);
    x = normed(prefix_ + "embedding_norm", spec_.embedding_norm, x);
    if (spec_.input) x = graph_.add_linear(prefix_ + "input", *spec_.input, x);
    return come_later ? add_positions(x) : x;
  }

  ValueId add_positions(ValueId x) {
    EmbeddingNode embedding = {.positions = *spec_.position_embedding,
                               .position_offset = spec_.position_offset};
    const ValueId positions = graph_.add_embedding(prefix_ + "positions", std::move(embedding),
                                                   spec_.model_dim, graph_.axis(x));
    return graph_.add(prefix_ + "positions_add", AddNode{}, {x, positions});
  }

  // Adds norm(projection + positions), after convolutions. A bare stack of layers works on the
  // features themselves.
  ValueId embed_features() {
    ValueId x = graph_.add_features(spec_.input_features, input_);
    for (size_t i = 0; i < spec_.convolutions.size(); ++i) {
      const ConvolutionSpec& convolution = spec_.convolutions[i];
      const std::string name = fmt::format("{}convolution.{}", prefix_, i);
      x = graph_.add_windows(name + ".windows", convolution.windows, x);
      x = graph_.add_linear(name, convolution.linear, x);
      x = graph_.add(name + ".activation", ActivationNode{convolution.activation}, {x});
    }
    if (spec_.input) {
      x = graph_.add_linear("input", *spec_.input, x);
      if (spec_.embedding_scale != 1.0) {
        x = graph_.add("input_scale", ScaleNode{spec_.embedding_scale}, {x});
      }
    }
    if (spec_.position_embedding) x = add_positions(x);
    return normed(prefix_ + "embedding_norm", spec_.embedding_norm, x);
  }

  ValueId add_logits(ValueId x) {
    if (spec_.projection) x = graph_.add_linear("projection", *spec_.projection, x);
    if (!spec_.is_headless) {
      const LinearSpec tied = {*spec_.token_embedding, {}};
      x = graph_.add_linear("logits", spec_.output ? *spec_.output : tied, x);
      if (spec_.logits_scale != 1.0) {
        x = graph_.add("logits_scale", ScaleNode{spec_.logits_scale}, {x});
      }
      if (spec_.logits_soft_cap) {
        x = graph_.add("soft_cap", ActivationNode{Activation::kSoftCap, *spec_.logits_soft_cap},
                       {x});
      }
    }
    return graph_.add_select("select", SelectKind::kAsAsked, x);
  }

  ValueId add_head(ValueId x) {
    x = pool(x);
    for (size_t i = 0; i < spec_.head.size(); ++i) {
      x = add_head_step(spec_.head[i], fmt::format("head.{}", i), x);
    }
    if (spec_.pooling != SelectKind::kAsAsked || !spec_.causal) return x;
    return graph_.add_select("select", SelectKind::kAsAsked, x);
  }

  // Returns the rows that the head reads.
  ValueId pool(ValueId x) {
    if (spec_.pooling == SelectKind::kAsAsked) return x;
    if (spec_.more_pooling.empty()) {
      return graph_.add_select("pooling", spec_.pooling, x);
    }
    std::vector<SelectKind> poolings = {spec_.pooling};
    poolings.insert(poolings.end(), spec_.more_pooling.begin(), spec_.more_pooling.end());
    std::vector<ValueId> parts;
    for (const SelectKind pooling : poolings) {
      const std::string name = fmt::format("pooling.{}", parts.size() * spec_.model_dim);
      parts.push_back(graph_.add_select(name, pooling, x));
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
    return graph_.add(is_last ? "normalize" : name + ".normalize", RowFunctionNode{}, {x});
  }

  const StackSpec& spec_;
  Graph& graph_;
  const uint32_t input_, axis_;
  const std::string prefix_;
  const std::optional<ValueId> encoded_;
  std::shared_ptr<const AttentionBias> terms_;  // of all layers, or of the last one
};

}  // namespace

Graph build_graph(const TransformerSpec& spec) {
  Graph graph;
  graph.architecture = spec.architecture;
  graph.labels = spec.labels;
  graph.output = TransformerGraph({spec}, graph, 0, "", {}).add_output();
  return graph;
}

Graph build_graph(const EncoderDecoderSpec& spec) {
  Graph graph;
  graph.architecture = spec.decoder.architecture;
  if (!spec.encoder.convolutions.empty()) graph.array_flags |= kTakesColumnsFirst;
  const ValueId encoded = TransformerGraph(spec.encoder, graph, 0, "encoder.", {}).add_rows();
  const uint32_t input = graph.add_input("");
  graph.output = TransformerGraph(spec.decoder, graph, input, "decoder.", encoded).add_output();
  return graph;
}

}  // namespace arenite::convert
