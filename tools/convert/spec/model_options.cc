// SPDX-License-Identifier: Apache-2.0
// The names of options, and which of them whose files answer.
#include "convert/spec/model_options.h"

#include <fmt/format.h>

#include <cmath>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

void refuse_options(const std::vector<std::string>& given, const char* source,
                    const std::string& where) {
  if (given.empty()) return;
  throw InputError(
      "{}: {}: {} says what this model computes, so that nothing is left to be said: drop the "
      "option{}",
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

void check_said(const ModelOptions& options, uint32_t heads, Activation activation,
                const std::string& where) {
  if (options.heads != 0 && options.heads != heads) {
    throw InputError("{}: {} heads were asked for, but the model has {}: drop the option", where,
                     options.heads, heads);
  }
  if (options.activation && *options.activation != activation) {
    throw InputError(
        "{}: the model says which activation it has, and it is another one than the one asked "
        "for: drop the option",
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

void refuse_options_of_unsaid(const ModelOptions& options, const std::string& where) {
  std::vector<std::string> given = options_of_state_dicts(options);
  if (options.heads != 0) given.emplace_back("--heads");
  if (options.activation) given.emplace_back("--activation");
  if (options.norm_first) given.emplace_back(*options.norm_first ? "--norm-first" : "--norm-last");
  if (options.pooling) given.emplace_back("--pooling");
  if (options.module) given.emplace_back("--module");
  if (options.features != 0) given.emplace_back("--features");
  if (options.mask_ones) given.emplace_back("--mask-ones");
  refuse_options(given, "the exported program", where);
}

}  // namespace arenite::convert
