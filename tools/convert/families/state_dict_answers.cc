// SPDX-License-Identifier: Apache-2.0
// An option first, then what the training program wrote, then a question or an assumption.
#include "convert/families/state_dicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
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
std::string show(RopeChoice value) { return name(value); }
std::string show(NormKind value) { return value == NormKind::kRms ? "rms" : "layer"; }
std::string show(const FusedOrder& value) { return value.text(); }
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

// The answers `values` to the question that sets the option's `field`.
template <typename Field, typename Value>
std::vector<Question::Answer> answers_of(const char* option, Field ModelOptions::*field,
                                         std::initializer_list<Value> values) {
  std::vector<Question::Answer> answers;
  for (const Value& value : values) {
    answers.push_back({fmt::format("{} {}", option, show(value)),
                       [=](ModelOptions& options) { options.*field = value; }});
  }
  return answers;
}

std::vector<Question::Answer> mask_answers() {
  std::vector<Question::Answer> answers;
  for (const MaskChoice mask : {MaskChoice::kCausal, MaskChoice::kBidirectional}) {
    answers.push_back({option_text(mask, 0), [=](ModelOptions& options) { options.mask = mask; }});
  }
  return answers;
}

std::vector<Question::Answer> scale_answers() {
  return answers_of("--embedding-scale", &ModelOptions::embedding_scale,
                    {EmbeddingScale{}, EmbeddingScale{.is_sqrt = true}});
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

void StateDictAnswers::assume(std::string text, Question question) {
  account_.assumed.push_back(std::move(text));
  account_.open.push_back(std::move(question));
}

void StateDictAnswers::refuse(bool is_given, const char* option, const char* why) const {
  if (is_given) throw InputError("{}: {}: {}: drop the option", where_, option, why);
}

uint32_t StateDictAnswers::heads(uint32_t model_dim) {
  const auto option = options_.heads == 0 ? std::nullopt : std::optional(options_.heads);
  const auto found = known(option, facts_.heads(), "number of heads", as_text("--heads", option));
  if (found) return *found;
  Question question = {"--heads N",
                       fmt::format("how many heads the {} features are divided into", model_dim),
                       "num_heads",
                       {}};
  for (uint32_t heads = 1; heads <= model_dim / 2; ++heads) {
    if (model_dim % heads != 0) continue;
    question.answers.push_back({fmt::format("--heads {}", heads),
                                [heads](ModelOptions& options) { options.heads = heads; }});
  }
  ask(std::move(question));
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
    ask({"--activation NAME", "of the MLP: gelu, gelu_tanh, silu or relu", "activation",
         answers_of(
             "--activation", &ModelOptions::activation,
             {Activation::kGeluErf, Activation::kGeluTanh, Activation::kSilu, Activation::kRelu})});
  }
  return found.value_or(Activation::kGeluErf);
}

bool StateDictAnswers::norm_first() {
  const std::string text = options_.norm_first.value_or(true) ? "--norm-first" : "--norm-last";
  const auto found = known(options_.norm_first, facts_.norm_first(), "place of norms", text);
  if (!found) {
    std::vector<Question::Answer> answers;
    for (const bool is_first : {true, false}) {
      answers.push_back({is_first ? "--norm-first" : "--norm-last",
                         [is_first](ModelOptions& options) { options.norm_first = is_first; }});
    }
    ask({"--norm-first or --norm-last",
         "norms come before attention and MLP, or after their results were added", "norm_first",
         std::move(answers)});
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
         "a token sees itself and those before it, all tokens, or the last N", "causal",
         mask_answers()});
  }
  return found.value_or(BandChoice());
}

BandChoice StateDictAnswers::mask_of_decoder() {
  const auto found = known_mask();
  if (!found) {
    assume("causal mask, since the file has no mask buffer",
           {"--bidirectional", "", "", {mask_answers()[1]}});
  }
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
         "embedding_scale", scale_answers()});
  }
  return found.value_or(EmbeddingScale()).of(model_dim);
}

double StateDictAnswers::embedding_scale_of_decoder(uint32_t model_dim) {
  const auto found = known_embedding_scale();
  if (!found) assume("embeddings times 1", {"--embedding-scale X", "", "", {scale_answers()[1]}});
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
       "pooling",
       answers_of("--pooling", &ModelOptions::pooling,
                  {PoolingChoice::kNone, PoolingChoice::kFirst, PoolingChoice::kMean})});
  return PoolingChoice::kNone;
}

NormKind StateDictAnswers::norm_kind() {
  const auto found =
      known(options_.norm, facts_.norm(), "kind of norms", as_text("--norm", options_.norm));
  if (!found) {
    ask({"--norm NAME", "of norms, which have no bias: layer or rms", "norm",
         answers_of("--norm", &ModelOptions::norm, {NormKind::kRms, NormKind::kLayer})});
  }
  return found.value_or(NormKind::kRms);
}

RopeChoice StateDictAnswers::rope() {
  const auto found = known(options_.rope, std::optional<Fact<RopeChoice>>(), "rotation",
                           as_text("--rope", options_.rope));
  if (!found) {
    ask({"--rope NAME",
         "which elements of a head are turned by their position: those of its two halves together "
         "(halves), neighbours (pairs), or none, as the file has no table of positions",
         "",
         answers_of("--rope", &ModelOptions::rope,
                    {RopeChoice::kHalves, RopeChoice::kPairs, RopeChoice::kNone})});
  }
  return found.value_or(RopeChoice::kNone);
}

uint32_t StateDictAnswers::positions() {
  const auto found = facts_.positions();
  if (found) {
    account_.given.push_back(fmt::format("context {}, from {}", found->value, found->where));
    return found->value;
  }
  if (options_.context == 0) {
    ask({"--context N",
         "the longest sequence, as no table of positions says it",
         "block_size",
         {}});
    return 1;
  }
  account_.given.push_back(fmt::format("--context {}", options_.context));
  return options_.context;
}

void StateDictAnswers::refuse_embedding_scale(const char* why) const {
  refuse(options_.embedding_scale.has_value(), "--embedding-scale", why);
}

void StateDictAnswers::refuse_rope(const char* why) const {
  refuse(options_.rope && *options_.rope != RopeChoice::kNone, "--rope", why);
  refuse(options_.rope_theta.has_value(), "--rope-theta", why);
}

void StateDictAnswers::refuse_norm(const char* why) const {
  refuse(options_.norm.has_value(), "--norm", why);
}

void StateDictAnswers::refuse_layout(bool has_fused, bool has_gate) const {
  refuse(options_.fused_order && !has_fused, "--fused-order",
         "the projections of queries, keys and values leave no choice");
  refuse(options_.gate && !has_gate, "--gate", "the MLP has no gate");
}

double StateDictAnswers::epsilon(double otherwise) {
  const auto found = known(options_.epsilon, facts_.epsilon(), "norms' epsilon",
                           as_text("--epsilon", options_.epsilon));
  if (!found) {
    std::vector<Question::Answer> others;
    for (const double epsilon : {1e-5, 1e-6, 1e-8, 1e-12}) {
      if (epsilon == otherwise) continue;
      others.push_back(answers_of("--epsilon", &ModelOptions::epsilon, {epsilon})[0]);
    }
    assume(fmt::format("norms' epsilon {}", otherwise), {"--epsilon X", "", "", std::move(others)});
  }
  return found.value_or(otherwise);
}

std::optional<double> StateDictAnswers::score_scale(uint32_t model_dim) {
  const auto found = known(options_.score_scale, facts_.score_scale(), "scale of scores",
                           as_text("--scale", options_.score_scale));
  if (!found) {
    const double of_width = 1.0 / std::sqrt(static_cast<double>(model_dim));
    assume(
        "scores times 1/sqrt(head_dim)",
        {"--scale X", "", "", answers_of("--scale", &ModelOptions::score_scale, {of_width, 1.0})});
  }
  return found;
}

double StateDictAnswers::rope_theta() {
  const auto found = known(options_.rope_theta, facts_.rope_theta(), "base of rotations",
                           as_text("--rope-theta", options_.rope_theta));
  if (!found) {
    assume(fmt::format("--rope-theta {}", kTheta),
           {"--rope-theta X", "", "",
            answers_of("--rope-theta", &ModelOptions::rope_theta, {5e5, 1e6})});
  }
  return found.value_or(kTheta);
}

FusedOrder StateDictAnswers::fused_order(const std::string& projection, const std::string& named) {
  const auto found = known(options_.fused_order, std::optional<Fact<FusedOrder>>(), "order of rows",
                           as_text("--fused-order", options_.fused_order));
  if (found) return *found;
  const FusedOrder order = {.letters = named.empty() ? "qkv" : named};
  Question question = {"--fused-order NAME", "", "", {}};
  for (const char* text : kFusedOrders) {
    if (text == order.text()) continue;
    question.answers.push_back(
        {fmt::format("--fused-order {}", text),
         [text](ModelOptions& options) { options.fused_order = convert::fused_order(text); }});
  }
  assume(fmt::format("rows of {} in the order {}", quote(projection), order.text()),
         std::move(question));
  return order;
}

bool StateDictAnswers::second_is_gate(const std::string& first, const std::string& second) {
  if (options_.gate) {
    const std::string text = fmt::format("--gate {}", *options_.gate);
    if (*options_.gate != first && *options_.gate != second) {
      throw InputError("{}: {}: expected {} or {}", where_, text, quote(first), quote(second));
    }
    account_.given.push_back(text);
    return *options_.gate == second;
  }
  assume(
      fmt::format("{} as the gate", quote(first)),
      {"--gate NAME", "", "", {{fmt::format("--gate {}", second), [second](ModelOptions& options) {
                                  options.gate = second;
                                }}}});
  return false;
}

void StateDictAnswers::require_all(const std::string& published) const {
  if (missing_.empty()) return;
  size_t width = 0;
  for (const Question& question : missing_) width = std::max(width, question.option.size());
  std::string listed;
  std::vector<std::string> fields;
  for (const Question& question : missing_) {
    listed += fmt::format("  {:<{}}  {}\n", question.option, width, question.meaning);
    if (!question.field.empty()) fields.push_back(quote(question.field));
  }
  throw MissingAnswers(
      fmt::format("{}: a state dict does not say all that its model computes. Missing:\n{}"
                  "A config.json beside the file may say it instead, as {}. Or --expect "
                  "x.npy,y.npy finds it out, from what the author's model gives.{}{}",
                  where_, listed, fmt::join(fields, ", "), published.empty() ? "" : "\n",
                  published),
      missing_);
}

}  // namespace arenite::convert
