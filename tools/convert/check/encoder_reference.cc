// SPDX-License-Identifier: Apache-2.0
// All tokens of a sequence at once.
#include "convert/check/encoder_reference.h"

#include <algorithm>
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

constexpr double kLengthMin = 1e-12;  // rows shorter than this are divided by it, as PyTorch does

void check_tokens(const EncoderSpec& spec, size_t tokens) {
  if (tokens == 0) throw InputError("no tokens: expected at least one");
  if (spec.positions_max != 0 && tokens > spec.positions_max) {
    throw InputError("{} tokens: expected at most {}, the positions of the model", tokens,
                     spec.positions_max);
  }
}

// Adds rows ids[t] of `table`, times `scale`, to x [tokens, width].
void add_rows(Rows& x, const WeightRef& table, std::span<const uint32_t> ids, const char* what,
              double scale = 1.0) {
  const std::vector<float> values = table.load();
  const size_t width = table.columns;
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] >= table.rows) {
      throw InputError("{} {}: expected less than {}", what, ids[t], table.rows);
    }
    for (size_t i = 0; i < width; ++i) x[t * width + i] += scale * values[ids[t] * width + i];
  }
}

// Rows of the table of positions.
void add_positions(const EncoderSpec& spec, Rows& x, size_t tokens,
                   std::span<const uint32_t> ids = {}) {
  if (!spec.position_embedding) return;
  std::vector<uint32_t> rows;
  uint32_t next = spec.position_offset;
  for (size_t t = 0; t < tokens; ++t) {
    const bool is_padding = spec.padding_id && ids[t] == *spec.padding_id;
    rows.push_back(is_padding ? spec.position_offset - 1 : next++);
  }
  add_rows(x, *spec.position_embedding, rows, "position");
}

Rows embed(const EncoderSpec& spec, std::span<const uint32_t> tokens,
           std::span<const uint8_t> types) {
  Rows x(tokens.size() * spec.token_embedding->columns, 0.0);
  add_rows(x, *spec.token_embedding, tokens, "token", spec.embedding_scale);
  add_positions(spec, x, tokens.size(), tokens);
  if (spec.type_embedding) {
    std::vector<uint32_t> rows(types.begin(), types.end());
    rows.resize(tokens.size(), 0);
    add_rows(x, *spec.type_embedding, rows, "token type");
  }
  if (spec.embedding_norm) x = norm(*spec.embedding_norm, std::move(x));
  return spec.input ? linear(*spec.input, x) : x;
}

Rows embed(const EncoderSpec& spec, std::span<const float> features, size_t tokens) {
  Rows x(features.begin(), features.end());
  if (spec.input) {
    x = linear(*spec.input, x);
    for (double& value : x) value *= spec.embedding_scale;
  }
  add_positions(spec, x, tokens);
  return spec.embedding_norm ? norm(*spec.embedding_norm, std::move(x)) : x;
}

Rows attention(const EncoderSpec& spec, const EncoderLayerSpec& layer, const Rows& x) {
  const reference::Qkv qkv{linear(layer.query, x), linear(layer.key, x), linear(layer.value, x)};
  const size_t tokens = x.size() / spec.model_dim;
  const auto seen_by = [&](size_t row) {
    const bool is_cut = spec.window != 0 && row >= spec.window;
    return reference::KeyRange{is_cut ? row + 1 - spec.window : 0, spec.causal ? row + 1 : tokens};
  };
  return linear(layer.output,
                reference::attention(qkv, {spec.heads, spec.heads, spec.head_dim, spec.score_scale},
                                     seen_by));
}

Rows mlp(const EncoderSpec& spec, const EncoderLayerSpec& layer, const Rows& x) {
  Rows hidden = linear(layer.up, x);
  for (double& value : hidden) value = activate(spec.activation, value);
  return linear(layer.down, hidden);
}

Rows run_layer(const EncoderSpec& spec, const EncoderLayerSpec& layer, Rows x) {
  if (spec.norm_first) {
    add(x, attention(spec, layer, norm(layer.attention_norm, x)));
    add(x, mlp(spec, layer, norm(layer.mlp_norm, x)));
    return x;
  }
  add(x, attention(spec, layer, x));
  x = norm(layer.attention_norm, std::move(x));
  add(x, mlp(spec, layer, x));
  return norm(layer.mlp_norm, std::move(x));
}

// Adds the row that `pooling` makes of x [tokens, width].
void add_pooled(Rows& pooled, const Rows& x, size_t width, Pooling pooling) {
  const size_t tokens = x.size() / width;
  for (size_t i = 0; i < width; ++i) {
    double sum = 0.0, weighted = 0.0, weights = 0.0, largest = x[i];
    for (size_t t = 0; t < tokens; ++t) {
      const double value = x[t * width + i];
      const double weight = static_cast<double>(t + 1);
      sum += value;
      weighted += weight * value;
      weights += weight;
      largest = std::max(largest, value);
    }
    switch (pooling) {
      case Pooling::kNone:
        break;
      case Pooling::kFirst:
        pooled.push_back(x[i]);
        break;
      case Pooling::kMean:
        pooled.push_back(sum / static_cast<double>(tokens));
        break;
      case Pooling::kMax:
        pooled.push_back(largest);
        break;
      case Pooling::kMeanSqrtLength:
        pooled.push_back(sum / std::sqrt(static_cast<double>(tokens)));
        break;
      case Pooling::kWeightedMean:
        pooled.push_back(weighted / weights);
        break;
      case Pooling::kLast:
        pooled.push_back(x[x.size() - width + i]);
        break;
    }
  }
}

Rows pool(const EncoderSpec& spec, const Rows& x) {
  if (spec.pooling == Pooling::kNone) return x;
  Rows pooled;
  add_pooled(pooled, x, spec.model_dim, spec.pooling);
  for (const Pooling pooling : spec.more_pooling) add_pooled(pooled, x, spec.model_dim, pooling);
  return pooled;
}

void normalize(Rows& x, size_t width) {
  for (size_t start = 0; start < x.size(); start += width) {
    double squares = 0.0;
    for (size_t i = start; i < start + width; ++i) squares += x[i] * x[i];
    const double length = std::max(std::sqrt(squares), kLengthMin);
    for (size_t i = start; i < start + width; ++i) x[i] /= length;
  }
}

Rows run_head(const EncoderSpec& spec, Rows x) {
  size_t width = pooled_width(spec);
  for (const HeadStepSpec& step : spec.head) {
    if (step.linear) {
      x = linear(*step.linear, x);
      width = step.linear->weight.rows;
    }
    if (step.activation) {
      for (double& value : x) value = activate(*step.activation, value);
    }
    if (step.norm) x = norm(*step.norm, std::move(x));
    if (step.normalize) normalize(x, width);
  }
  return x;
}

EncoderOutputs run(const EncoderSpec& spec, Rows embedded) {
  EncoderOutputs outputs;
  outputs.hidden_states.push_back(std::move(embedded));
  for (const EncoderLayerSpec& layer : spec.layers) {
    outputs.hidden_states.push_back(run_layer(spec, layer, outputs.hidden_states.back()));
  }
  Rows& last = outputs.hidden_states.back();
  if (spec.final_norm) last = norm(*spec.final_norm, std::move(last));
  outputs.values = run_head(spec, pool(spec, last));
  return outputs;
}

}  // namespace

EncoderOutputs reference_encoder(const EncoderSpec& spec, std::span<const uint32_t> tokens,
                                 std::span<const uint8_t> types) {
  if (spec.vocab_size == 0) throw InputError("token ids were given: the model takes features");
  check_tokens(spec, tokens.size());
  if (!types.empty() && types.size() != tokens.size()) {
    throw InputError("{} token types for {} tokens: expected one each", types.size(),
                     tokens.size());
  }
  return run(spec, embed(spec, tokens, types));
}

EncoderOutputs reference_encoder(const EncoderSpec& spec, std::span<const float> features) {
  if (spec.input_features == 0) throw InputError("features were given: the model takes token ids");
  if (features.size() % spec.input_features != 0) {
    throw InputError("{} values: expected rows of {} features", features.size(),
                     spec.input_features);
  }
  const size_t tokens = features.size() / spec.input_features;
  check_tokens(spec, tokens);
  return run(spec, embed(spec, features, tokens));
}

}  // namespace arenite::convert
