// SPDX-License-Identifier: Apache-2.0
// All positions at once, without a cache.
#include "convert/check/decoder_reference.h"

#include <cmath>
#include <utility>

#include "convert/check/reference_ops.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

using reference::activate;
using reference::add;
using reference::linear;
using reference::norm;
using reference::Rows;

// Turns the first rotary_dim elements of each head of x [tokens, heads * head_dim].
void rotate(const RopeSpec& rope, Rows& x, size_t tokens, size_t heads, size_t head_dim) {
  const size_t half = rope.rotary_dim / 2;
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t h = 0; h < heads; ++h) {
      double* head = x.data() + (t * heads + h) * head_dim;
      for (size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(t) * rope.inverse_frequencies[i];
        const double first = rope.magnitude * head[i];
        const double second = rope.magnitude * head[i + half];
        head[i] = first * std::cos(angle) - second * std::sin(angle);
        head[i + half] = second * std::cos(angle) + first * std::sin(angle);
      }
    }
  }
}

Rows attention(const DecoderSpec& spec, const LayerSpec& layer, const Rows& x, size_t tokens) {
  reference::Qkv qkv{linear(layer.query, x), linear(layer.key, x), linear(layer.value, x)};
  if (layer.query_norm) qkv.query = norm(*layer.query_norm, std::move(qkv.query));
  if (layer.key_norm) qkv.key = norm(*layer.key_norm, std::move(qkv.key));
  if (spec.rope) {
    rotate(*spec.rope, qkv.query, tokens, spec.heads, spec.head_dim);
    rotate(*spec.rope, qkv.key, tokens, spec.kv_heads, spec.head_dim);
  }
  const auto seen_by = [&](size_t row) {
    const bool is_cut = layer.window != 0 && row >= layer.window;
    return reference::KeyRange{is_cut ? row + 1 - layer.window : 0, spec.causal ? row + 1 : tokens};
  };
  return linear(layer.output,
                reference::attention(
                    qkv, {spec.heads, spec.kv_heads, spec.head_dim, spec.score_scale}, seen_by));
}

Rows mlp(const DecoderSpec& spec, const LayerSpec& layer, const Rows& x) {
  Rows hidden = linear(layer.up, x);
  if (layer.gate) {
    const Rows gate = linear(*layer.gate, x);
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] *= activate(spec.activation, gate[i]);
  } else {
    for (double& value : hidden) value = activate(spec.activation, value);
  }
  return linear(layer.down, hidden);
}

Rows run_layer(const DecoderSpec& spec, const LayerSpec& layer, Rows x, size_t tokens) {
  if (!spec.norm_first) {
    add(x, attention(spec, layer, x, tokens));
    x = norm(layer.attention_norm, std::move(x));
    add(x, mlp(spec, layer, x));
    return norm(*layer.mlp_norm, std::move(x));
  }
  const Rows normed = norm(layer.attention_norm, x);
  const Rows attended = attention(spec, layer, normed, tokens);
  if (layer.parallel_residual) {
    const Rows& mlp_input = layer.mlp_norm ? norm(*layer.mlp_norm, x) : normed;
    add(x, mlp(spec, layer, mlp_input));
    add(x, attended);
    return x;
  }
  add(x, attended);
  add(x, mlp(spec, layer, norm(*layer.mlp_norm, x)));
  return x;
}

Rows embed(const DecoderSpec& spec, std::span<const uint32_t> tokens) {
  const size_t width = spec.model_dim;
  const std::vector<float> table = spec.token_embedding.load();
  Rows x;
  x.reserve(tokens.size() * width);
  for (const uint32_t token : tokens) {
    for (size_t i = 0; i < width; ++i) {
      x.push_back(table[token * width + i] * spec.embedding_scale.value_or(1.0));
    }
  }
  if (spec.position_embedding) {
    const std::vector<float> positions = spec.position_embedding->load();
    for (size_t i = 0; i < x.size(); ++i) x[i] += positions[i];
  }
  return x;
}

void check_tokens(const DecoderSpec& spec, std::span<const uint32_t> tokens) {
  if (tokens.size() > spec.positions_max) {
    throw InputError("{} tokens: expected at most {}, the positions of the model", tokens.size(),
                     spec.positions_max);
  }
  for (const uint32_t token : tokens) {
    if (token >= spec.vocab_size) {
      throw InputError("token {}: expected less than {}, the size of the vocabulary", token,
                       spec.vocab_size);
    }
  }
}

}  // namespace

DecoderOutputs reference_decoder(const DecoderSpec& spec, std::span<const uint32_t> tokens) {
  check_tokens(spec, tokens);
  DecoderOutputs outputs;
  outputs.hidden_states.push_back(embed(spec, tokens));
  for (const LayerSpec& layer : spec.layers) {
    outputs.hidden_states.push_back(
        run_layer(spec, layer, outputs.hidden_states.back(), tokens.size()));
  }
  Rows& last = outputs.hidden_states.back();
  if (spec.final_norm) last = norm(*spec.final_norm, std::move(last));
  if (spec.is_headless) {
    outputs.logits = last;
    return outputs;
  }
  const LinearSpec tied{spec.token_embedding, {}};
  outputs.logits = linear(spec.output ? *spec.output : tied, last);
  if (spec.logits_soft_cap) {
    const double cap = *spec.logits_soft_cap;
    for (double& logit : outputs.logits) logit = cap * std::tanh(logit / cap);
  }
  return outputs;
}

}  // namespace arenite::convert
