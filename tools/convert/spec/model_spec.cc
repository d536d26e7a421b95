// SPDX-License-Identifier: Apache-2.0
// Checks and derives sizes of a spec, and names the options, and the files, that may supply facts.
#include "convert/spec/model_spec.h"

#include <fmt/format.h>

#include <cmath>

#include "convert/files/error.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

std::vector<double> WeightRef::exact() const {
  return visit(
      [](const auto& values) { return std::vector<double>(values.begin(), values.end()); });
}

TransformerSpec decoder_spec() {
  TransformerSpec spec;
  spec.is_decoder = spec.norm_first = spec.causal = true;
  return spec;
}

void note_passed_over(const std::vector<std::string>& fields, TransformerSpec& spec) {
  if (fields.empty()) return;
  spec.notes.push_back(
      fmt::format("ignored, as they are false or empty: {}", fmt::join(fields, ", ")));
}

void check_sizes(const TransformerSpec& spec, size_t layers, const std::string& where) {
  if (layers > kLayersMax) {
    throw InputError("{}: {} layers: at most {} are accepted", where, layers, kLayersMax);
  }
  if (uint64_t{spec.heads} * spec.head_dim > kSideMax) {
    throw InputError("{}: {} heads of {} elements: at most {} elements together are accepted",
                     where, spec.heads, spec.head_dim, kSideMax);
  }
  if (spec.heads % spec.kv_heads != 0) {
    throw InputError("{}: {} query heads cannot share {} key/value heads: expected a divisor",
                     where, spec.heads, spec.kv_heads);
  }
}

uint32_t even_head_dim(uint32_t model_dim, uint32_t heads, const std::string& where) {
  if (model_dim % heads != 0) {
    throw InputError("{}: {} heads do not divide a width of {}", where, heads, model_dim);
  }
  return model_dim / heads;
}

uint32_t pooled_width(const TransformerSpec& spec) {
  return spec.model_dim * static_cast<uint32_t>(1 + spec.more_pooling.size());
}

uint32_t output_width(const TransformerSpec& spec) {
  uint32_t width = pooled_width(spec);
  for (const HeadStepSpec& step : spec.head) {
    if (step.linear) width = step.linear->weight.rows;
  }
  return width;
}

bool is_normalized(const TransformerSpec& spec) {
  return !spec.head.empty() && spec.head.back().normalize;
}

// ---- options ----

namespace {

void refuse_options(const std::vector<std::string>& given, const char* source,
                    const std::string& where) {
  if (given.empty()) return;
  throw InputError("{}: {}: {} defines the whole computation of this model: drop the option{}",
                   where, fmt::join(given, ", "), source, given.size() == 1 ? "" : "s");
}

}  // namespace

double EmbeddingScale::of(uint32_t model_dim) const {
  return is_sqrt ? std::sqrt(static_cast<double>(model_dim)) : value;
}

const char* name(PoolingChoice choice) {
  switch (choice) {
    case PoolingChoice::kNone:
      return "none";
    case PoolingChoice::kFirst:
      return "first";
    case PoolingChoice::kPooler:
      return "pooler";
    case PoolingChoice::kMean:
      return "mean";
  }
  return "";
}

const char* option_name(Activation activation) {
  return activation == Activation::kGeluErf ? "gelu" : arenite::name(activation);
}

std::string option_text(MaskChoice mask, uint32_t window) {
  switch (mask) {
    case MaskChoice::kUnsaid:
      break;
    case MaskChoice::kCausal:
      return "--causal";
    case MaskChoice::kBidirectional:
      return "--bidirectional";
    case MaskChoice::kWindow:
      return fmt::format("--window {}", window);
  }
  return "";
}

void check_config_agrees(const ModelOptions& options, uint32_t heads, Activation activation,
                         const std::string& where) {
  if (options.heads != 0 && options.heads != heads) {
    throw InputError("{}: {} heads were requested, but the model has {}: drop the option", where,
                     options.heads, heads);
  }
  if (options.activation && *options.activation != activation) {
    throw InputError("{}: the option contradicts the model's own activation: drop the option",
                     where);
  }
}

std::vector<std::string> options_of_state_dicts(const ModelOptions& options) {
  std::vector<std::string> given;
  if (options.mask != MaskChoice::kUnsaid) {
    given.push_back(option_text(options.mask, options.window));
  }
  if (options.embedding_scale) given.emplace_back("--embedding-scale");
  if (options.score_scale) given.emplace_back("--scale");
  if (options.epsilon) given.emplace_back("--epsilon");
  if (options.rope_theta) given.emplace_back("--rope-theta");
  return given;
}

void refuse_options_of_state_dicts(const ModelOptions& options, const std::string& where) {
  refuse_options(options_of_state_dicts(options), "the model's own config", where);
}

void refuse_computation_options(const ModelOptions& options, const std::string& where) {
  std::vector<std::string> given = options_of_state_dicts(options);
  if (options.heads != 0) given.emplace_back("--heads");
  if (options.activation) given.emplace_back("--activation");
  if (options.norm_first) given.emplace_back(*options.norm_first ? "--norm-first" : "--norm-last");
  if (options.pooling) given.emplace_back("--pooling");
  if (!options.state_dict.empty()) given.emplace_back("--state-dict");
  if (options.module) given.emplace_back("--module");
  if (options.features != 0) given.emplace_back("--features");
  if (options.mask_ones) given.emplace_back("--mask-ones");
  refuse_options(given, "the exported program", where);
}

}  // namespace arenite::convert
