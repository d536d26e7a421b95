// SPDX-License-Identifier: Apache-2.0
// An option first, then what the training program wrote, then a question or an assumption.
#include "convert/families/state_dicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr double kTheta = 10000.0;

std::string show(uint32_t value) { return fmt::format("{}", value); }
std::string show(double value) { return fmt::format("{}", value); }
std::string show(bool norm_first) { return norm_first ? "first" : "last"; }
std::string show(Activation value) { return option_name(value); }
std::string show(PoolingChoice value) { return name(value); }
std::string show(MaskChoice value) {
  return value == MaskChoice::kCausal ? "causal" : "bidirectional";
}
std::string describe(const BandChoice& mask) {
  if (!mask.causal) return "bidirectional";
  return mask.window == 0 ? "causal" : fmt::format("a causal window of {}", mask.window);
}
std::string show(const EmbeddingScale& value) { return value.is_sqrt ? "sqrt" : show(value.value); }

// "--heads 4", where it was said.
template <typename Value>
std::string as_text(const char* option, const std::optional<Value>& value) {
  return value ? fmt::format("{} {}", option, show(*value)) : "";
}

}  // namespace

template <typename Value>
std::optional<Value> StateDictAnswers::known(const std::optional<Value>& option,
                                             const std::optional<Fact<Value>>& fact,
                                             const char* what, const std::string& option_as_text) {
  if (option && fact && !(*option == fact->value)) {
    throw InputError("{}: {}: another {} was asked for than {} says, which is {}: drop the option",
                     where_, option_as_text, what, fact->where, show(fact->value));
  }
  if (option) {
    account_.given.push_back(option_as_text);
    return option;
  }
  if (fact) {
    account_.given.push_back(fmt::format("{} {}, from {}", what, show(fact->value), fact->where));
    return fact->value;
  }
  return std::nullopt;
}

void StateDictAnswers::refuse(bool is_given, const char* option, const char* why) const {
  if (is_given) throw InputError("{}: {}: {}: drop the option", where_, option, why);
}

uint32_t StateDictAnswers::heads(uint32_t model_dim) {
  const auto option = options_.heads == 0 ? std::nullopt : std::optional(options_.heads);
  const auto found = known(option, facts_.heads(), "number of heads", as_text("--heads", option));
  if (found) return *found;
  ask({"--heads N", fmt::format("how many heads the {} features are divided into", model_dim),
       "num_heads"});
  return 1;
}

uint32_t StateDictAnswers::heads_of_modules(uint32_t heads) {
  const auto said = facts_.heads();
  const uint32_t other = options_.heads != 0 ? options_.heads : said ? said->value : heads;
  if (other == heads) return heads;
  throw InputError("{}: {} heads are modules of their own, but {} says {}", where_, heads,
                   options_.heads != 0 ? "--heads" : said->where, other);
}

Activation StateDictAnswers::activation() {
  const std::string text =
      options_.activation ? fmt::format("--activation {}", option_name(*options_.activation)) : "";
  const auto found = known(options_.activation, facts_.activation(), "activation", text);
  if (!found) {
    ask({"--activation NAME", "of the MLP: gelu, gelu_tanh, silu or relu", "activation"});
  }
  return found.value_or(Activation::kGeluErf);
}

bool StateDictAnswers::norm_first() {
  const std::string text = options_.norm_first.value_or(true) ? "--norm-first" : "--norm-last";
  const auto found = known(options_.norm_first, facts_.norm_first(), "place of norms", text);
  if (!found) {
    ask({"--norm-first or --norm-last",
         "norms come before attention and MLP, or after their results were added", "norm_first"});
  }
  return found.value_or(true);
}

std::optional<BandChoice> StateDictAnswers::known_mask() {
  // A window is causal, so that is what a config of a model with a window says.
  std::optional<MaskChoice> option;
  if (options_.mask == MaskChoice::kBidirectional) option = MaskChoice::kBidirectional;
  if (options_.mask == MaskChoice::kCausal || options_.mask == MaskChoice::kWindow) {
    option = MaskChoice::kCausal;
  }
  const auto found =
      known(option, facts_.mask(), "mask", option_text(options_.mask, options_.window));
  if (!found) return std::nullopt;
  const uint32_t window = options_.mask == MaskChoice::kWindow ? options_.window : 0;
  return BandChoice{.causal = *found == MaskChoice::kCausal, .window = window};
}

BandChoice StateDictAnswers::mask() {
  const auto found = known_mask();
  if (!found) {
    ask({"--causal, --bidirectional or --window N",
         "a token sees itself and those before it, all tokens, or the last N", "causal"});
  }
  return found.value_or(BandChoice());
}

BandChoice StateDictAnswers::mask_of_decoder() {
  const auto found = known_mask();
  if (!found) assume("causal mask, since the file has no mask buffer");
  return found.value_or(BandChoice{.causal = true});
}

BandChoice StateDictAnswers::mask_of_buffer(const std::string& buffer, const BandChoice& mask) {
  const auto found = known_mask();
  if (found && *found != mask) {
    throw InputError(
        "{}: the mask in buffer {} is {}, but {} says that the model has another: "
        "expected both to agree",
        where_, quote(buffer), describe(mask), account_.given.back());
  }
  return mask;
}

std::optional<EmbeddingScale> StateDictAnswers::known_embedding_scale() {
  return known(options_.embedding_scale, facts_.embedding_scale(), "embedding scale",
               as_text("--embedding-scale", options_.embedding_scale));
}

double StateDictAnswers::embedding_scale(uint32_t model_dim) {
  const auto found = known_embedding_scale();
  if (!found) {
    ask({"--embedding-scale X",
         fmt::format("what multiplies embeddings before positions are added: sqrt (of {}) or a "
                     "number, 1 if nothing does",
                     model_dim),
         "embedding_scale"});
  }
  return found.value_or(EmbeddingScale()).of(model_dim);
}

double StateDictAnswers::embedding_scale_if_said(uint32_t model_dim) {
  const auto found = known_embedding_scale();
  if (!found) assume("embeddings times 1");
  return found.value_or(EmbeddingScale()).of(model_dim);
}

std::optional<PoolingChoice> StateDictAnswers::pooling_if_said() {
  return known(options_.pooling, facts_.pooling(), "pooling",
               as_text("--pooling", options_.pooling));
}

PoolingChoice StateDictAnswers::ask_pooling(const std::string& reader) {
  ask({"--pooling NAME",
       fmt::format("what {} reads of a sequence: the mean of its rows, the first, or each (none)",
                   quote(reader)),
       "pooling"});
  return PoolingChoice::kNone;
}

uint32_t StateDictAnswers::positions() {
  const auto found = facts_.positions();
  if (found) {
    account_.given.push_back(fmt::format("context {}, from {}", found->value, found->where));
    return found->value;
  }
  if (options_.context == 0) {
    ask({"--context N", "the longest sequence, as no table of positions says it", "block_size"});
    return 1;
  }
  account_.given.push_back(fmt::format("--context {}", options_.context));
  return options_.context;
}

void StateDictAnswers::refuse_embedding_scale(const char* why) const {
  refuse(options_.embedding_scale.has_value(), "--embedding-scale", why);
}

void StateDictAnswers::refuse_rope_theta(const char* why) const {
  refuse(options_.rope_theta.has_value(), "--rope-theta", why);
}

double StateDictAnswers::epsilon(double otherwise) {
  const auto found = known(options_.epsilon, facts_.epsilon(), "norms' epsilon",
                           as_text("--epsilon", options_.epsilon));
  if (!found) assume(fmt::format("norms' epsilon {}", otherwise));
  return found.value_or(otherwise);
}

std::optional<double> StateDictAnswers::score_scale() {
  const auto found = known(options_.score_scale, facts_.score_scale(), "scale of scores",
                           as_text("--scale", options_.score_scale));
  if (!found) assume("scores times 1/sqrt(head_dim)");
  return found;
}

double StateDictAnswers::rope_theta() {
  const auto found = known(options_.rope_theta, facts_.rope_theta(), "base of rotations",
                           as_text("--rope-theta", options_.rope_theta));
  if (!found) assume(fmt::format("--rope-theta {}", kTheta));
  return found.value_or(kTheta);
}

void StateDictAnswers::require_all(const std::string& published) const {
  if (missing_.empty()) return;
  size_t width = 0;
  for (const Question& question : missing_) width = std::max(width, question.option.size());
  std::string listed;
  std::vector<std::string> fields;
  for (const Question& question : missing_) {
    listed += fmt::format("  {:<{}}  {}\n", question.option, width, question.meaning);
    fields.push_back(quote(question.field));
  }
  throw InputError(
      "{}: a state dict does not say all that its model computes. Missing:\n{}A config.json "
      "beside the file may say it instead, as {}.\n{}",
      where_, listed, fmt::join(fields, ", "), published);
}

}  // namespace arenite::convert
