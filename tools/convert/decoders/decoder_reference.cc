// SPDX-License-Identifier: Apache-2.0
// The forward pass as in a textbook: loops over rows, no blocking, no cache, nothing folded.
#include "convert/decoders/decoder_reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "convert/error.h"

namespace arenite::convert {
namespace {

using Rows = std::vector<double>;  // [tokens, width], row-major

// y = x weight^T + bias
Rows linear(const LinearSpec& spec, const Rows& x, size_t tokens) {
  const std::vector<float> weight = spec.weight.load();
  const size_t outputs = spec.weight.rows;
  const size_t inputs = spec.weight.columns;
  Rows y(tokens * outputs);
  for (size_t o = 0; o < outputs; ++o) {
    const float* row = weight.data() + o * inputs;
    for (size_t t = 0; t < tokens; ++t) {
      double sum = spec.bias.empty() ? 0.0 : spec.bias[o];
      for (size_t i = 0; i < inputs; ++i) sum += x[t * inputs + i] * row[i];
      y[t * outputs + o] = sum;
    }
  }
  return y;
}

// Normalises each run of gain.size() elements: a token's row, or one head of it.
Rows norm(const NormSpec& spec, Rows x) {
  const size_t width = spec.gain.size();
  for (size_t start = 0; start < x.size(); start += width) {
    double* row = x.data() + start;
    double mean = 0.0;
    if (spec.kind == NormKind::kLayer) {
      for (size_t i = 0; i < width; ++i) mean += row[i] / static_cast<double>(width);
    }
    double variance = 0.0;
    for (size_t i = 0; i < width; ++i) {
      variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(width);
    }
    const double scale = 1.0 / std::sqrt(variance + spec.epsilon);
    for (size_t i = 0; i < width; ++i) {
      const double gain = spec.gain_plus_one ? 1.0 + spec.gain[i] : spec.gain[i];
      row[i] = (row[i] - mean) * scale * gain + (spec.bias.empty() ? 0.0 : spec.bias[i]);
    }
  }
  return x;
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kGeluErf:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kTanh:
      return std::tanh(x);
  }
  return x;
}

// Turns the first rotary_dim elements of each head of x [tokens, heads * head_dim].
void rotate(const RopeSpec& rope, Rows& x, size_t tokens, size_t heads, size_t head_dim) {
  const size_t half = rope.rotary_dim / 2;
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t h = 0; h < heads; ++h) {
      double* head = x.data() + (t * heads + h) * head_dim;
      for (size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(t) * rope.inverse_frequencies[i];
        const double first = head[i];
        const double second = head[i + half];
        head[i] = first * std::cos(angle) - second * std::sin(angle);
        head[i + half] = second * std::cos(angle) + first * std::sin(angle);
      }
    }
  }
}

struct Qkv {
  Rows query, key, value;
};

// softmax(q k^T / sqrt(head_dim)) v of one query row and head, added to `output` [head_dim].
void attend(const DecoderSpec& spec, const LayerSpec& layer, const Qkv& qkv, size_t row,
            size_t head, double* output) {
  const size_t head_dim = spec.head_dim;
  const size_t kv_width = size_t{spec.kv_heads} * head_dim;
  const size_t kv_column = head / (spec.heads / spec.kv_heads) * head_dim;
  const double* query = qkv.query.data() + (row * spec.heads + head) * head_dim;
  const size_t first = layer.window != 0 && row >= layer.window ? row + 1 - layer.window : 0;
  std::vector<double> weights;
  for (size_t k = first; k <= row; ++k) {
    double score = 0.0;
    for (size_t d = 0; d < head_dim; ++d) {
      score += query[d] * qkv.key[k * kv_width + kv_column + d];
    }
    weights.push_back(score / std::sqrt(static_cast<double>(head_dim)));
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = 0.0;
  for (double& weight : weights) sum += weight = std::exp(weight - max);
  for (size_t k = first; k <= row; ++k) {
    for (size_t d = 0; d < head_dim; ++d) {
      output[d] += weights[k - first] / sum * qkv.value[k * kv_width + kv_column + d];
    }
  }
}

Rows attention(const DecoderSpec& spec, const LayerSpec& layer, const Rows& x, size_t tokens) {
  Qkv qkv{linear(layer.query, x, tokens), linear(layer.key, x, tokens),
          linear(layer.value, x, tokens)};
  if (layer.query_norm) qkv.query = norm(*layer.query_norm, std::move(qkv.query));
  if (layer.key_norm) qkv.key = norm(*layer.key_norm, std::move(qkv.key));
  if (spec.rope) {
    rotate(*spec.rope, qkv.query, tokens, spec.heads, spec.head_dim);
    rotate(*spec.rope, qkv.key, tokens, spec.kv_heads, spec.head_dim);
  }
  Rows context(qkv.query.size(), 0.0);
  for (size_t row = 0; row < tokens; ++row) {
    for (size_t head = 0; head < spec.heads; ++head) {
      attend(spec, layer, qkv, row, head,
             context.data() + (row * spec.heads + head) * spec.head_dim);
    }
  }
  return linear(layer.output, context, tokens);
}

Rows mlp(const DecoderSpec& spec, const LayerSpec& layer, const Rows& x, size_t tokens) {
  Rows hidden = linear(layer.up, x, tokens);
  if (layer.gate) {
    const Rows gate = linear(*layer.gate, x, tokens);
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] *= activate(spec.activation, gate[i]);
  } else {
    for (double& value : hidden) value = activate(spec.activation, value);
  }
  return linear(layer.down, hidden, tokens);
}

void add(Rows& x, const Rows& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

Rows run_layer(const DecoderSpec& spec, const LayerSpec& layer, Rows x, size_t tokens) {
  const Rows normed = norm(layer.attention_norm, x);
  const Rows attended = attention(spec, layer, normed, tokens);
  if (layer.parallel_residual) {
    const Rows& mlp_input = layer.mlp_norm ? norm(*layer.mlp_norm, x) : normed;
    add(x, mlp(spec, layer, mlp_input, tokens));
    add(x, attended);
    return x;
  }
  add(x, attended);
  add(x, mlp(spec, layer, norm(*layer.mlp_norm, x), tokens));
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
  const LinearSpec tied{spec.token_embedding, {}};
  outputs.logits = linear(spec.output ? *spec.output : tied, last, tokens.size());
  if (spec.logits_soft_cap) {
    const double cap = *spec.logits_soft_cap;
    for (double& logit : outputs.logits) logit = cap * std::tanh(logit / cap);
  }
  return outputs;
}

}  // namespace arenite::convert
