// SPDX-License-Identifier: Apache-2.0
// Facts have many names in configs; a row of the call lists them.
#include "convert/families/state_dict_answers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "convert/families/hf_models.h"
#include "convert/files/error.h"
#include "convert/spec/rope_scaling.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

// Keys of the dicts in which checkpoints keep the arguments of their model; "" is the outermost
// dict.
constexpr std::string_view kArguments[] = {
    "", "args", "config", "hparams", "model_args", "model_config", "hyper_parameters"};

// Parses a number or a boolean, and returns anything else as text.
json parsed(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  return value.is_number() || value.is_boolean() ? value : json(text);
}

// Returns the plain values of a checkpoint by the dict that holds them; "" is the outermost.
std::map<std::string, json> arguments_of(const std::map<std::string, std::string>& plain_values) {
  std::map<std::string, json> arguments;
  for (const auto& [path, text] : plain_values) {
    const size_t dot = path.rfind('.');
    const std::string dict = dot == std::string::npos ? "" : path.substr(0, dot);
    if (std::ranges::find(kArguments, dict) == std::end(kArguments)) continue;
    arguments[dict][dot == std::string::npos ? path : path.substr(dot + 1)] = parsed(text);
  }
  return arguments;
}

// ---- values in configs, by the type of the fact ----

void read_fact(ConfigFields& config, const std::string& field, uint32_t& value) {
  value = config.count(field);
}
void read_fact(ConfigFields& config, const std::string& field, double& value) {
  value = config.positive(field);
}
void read_fact(ConfigFields& config, const std::string& field, bool& value) {
  value = config.flag(field);
}
void read_fact(ConfigFields& config, const std::string& field, Activation& value) {
  value = read_activation(config, field, "");
}

void read_fact(ConfigFields& config, const std::string& field, PoolingChoice& value) {
  const std::string text = config.text(field);
  for (const PoolingChoice choice : {PoolingChoice::kNone, PoolingChoice::kFirst,
                                     PoolingChoice::kPooler, PoolingChoice::kMean}) {
    if (text != name(choice) && (text != "cls" || choice != PoolingChoice::kFirst)) continue;
    value = choice;
    return;
  }
  config.refuse(field, "expected 'none', 'first', 'cls', 'pooler' or 'mean'");
}

void read_fact(ConfigFields& config, const std::string& field, EmbeddingScale& value) {
  value.is_sqrt = config.is_text(field);
  if (!value.is_sqrt) {
    value.value = config.positive(field);
  } else if (config.text(field) != "sqrt") {
    config.refuse(field, "expected a number or 'sqrt', for the square root of the model's width");
  }
}

void read_fact(ConfigFields& config, const std::string& field, MaskChoice& value) {
  const bool is_causal = field == "mask" ? config.text(field) == "causal" : config.flag(field);
  value = is_causal ? MaskChoice::kCausal : MaskChoice::kBidirectional;
}

// "mask" is also a name for masked-token training, and then says nothing about attention.
bool says_something(const ConfigFields& config, const std::string& field) {
  return config.has(field) && (field != "mask" || config.equals(field, "causal") ||
                               config.equals(field, "bidirectional"));
}

// ---- formatting values for messages ----

std::string show(uint32_t value) { return fmt::format("{}", value); }
std::string show(double value) { return fmt::format("{}", value); }
std::string show(bool norm_first) { return norm_first ? "first" : "last"; }
std::string show(Activation value) { return option_name(value); }
std::string show(PoolingChoice value) { return name(value); }
std::string show(MaskChoice value) {
  return value == MaskChoice::kCausal ? "causal" : "bidirectional";
}
std::string show(const EmbeddingScale& value) { return value.is_sqrt ? "sqrt" : show(value.value); }

}  // namespace

template <typename Value>
std::optional<Value> StateDictAnswers::written(std::initializer_list<const char*> fields,
                                               std::string& where) {
  std::optional<Value> found;
  for (ConfigFields& source : sources_) {
    for (const char* field : fields) {
      if (!says_something(source, field)) continue;
      Value value{};
      read_fact(source, field, value);
      if (found && !(*found == value)) {
        source.refuse(field, "another source contradicts it");
      }
      found = value;
      where = source.where();
    }
  }
  return found;
}

template <typename Value>
std::optional<Value> StateDictAnswers::known(const std::optional<Value>& option, const Fact& fact,
                                             std::string option_text) {
  std::string where;
  const std::optional<Value> config = written<Value>(fact.fields, where);
  if (option && option_text.empty()) option_text = fmt::format("{} {}", fact.option, show(*option));
  if (option && config && !(*option == *config)) {
    throw InputError("{}: {}: this contradicts the {} of {}, which is {}: drop the option", where_,
                     option_text, fact.what, where, show(*config));
  }
  if (option) {
    account_.given.push_back(std::move(option_text));
  } else if (config) {
    account_.given.push_back(fmt::format("{} {}, from {}", fact.what, show(*config), where));
  }
  return option ? option : config;
}

StateDictAnswers::StateDictAnswers(const Opened& model, const ModelOptions& options,
                                   std::string where)
    : options_(options), where_(std::move(where)) {
  if (model.config) sources_.push_back(model.config_fields());
  for (auto& [dict, values] : arguments_of(model.values)) {
    std::string place = quote(model.tensors.source());
    if (!dict.empty()) place += fmt::format(", {}", quote(dict));
    sources_.emplace_back(std::move(values), std::move(place));
  }
}

uint32_t StateDictAnswers::heads(uint32_t model_dim) {
  if (const auto found = heads_if_said()) return *found;
  missing_.push_back({"--heads N",
                      fmt::format("how many heads the {} features are divided into", model_dim),
                      "num_heads"});
  return 1;
}

std::optional<uint32_t> StateDictAnswers::heads_if_said() {
  return known(options_.heads == 0 ? std::nullopt : std::optional(options_.heads),
               {"number of heads",
                "--heads",
                {"num_heads", "n_heads", "nhead", "n_head", "heads", "num_attention_heads"}});
}

uint32_t StateDictAnswers::heads_of_modules(uint32_t heads) {
  std::vector<std::string> given = account_.given;
  const uint32_t said = heads_if_said().value_or(heads);
  if (said == heads) {
    account_.given = std::move(given);  // the file says it, too
    return heads;
  }
  throw InputError("{}: {} heads are separate modules, but found {}: expected both to agree",
                   where_, heads, account_.given.back());
}

Activation StateDictAnswers::activation() {
  const auto found =
      known(options_.activation,
            {"activation", "--activation", {"activation", "hidden_act", "activation_function"}});
  if (!found) {
    missing_.push_back(
        {"--activation NAME", "of the MLP: gelu, gelu_tanh, silu or relu", "activation"});
  }
  return found.value_or(Activation::kGeluErf);
}

bool StateDictAnswers::norm_first() {
  const auto found = known(options_.norm_first, {"place of norms", "--norm", {"norm_first"}},
                           options_.norm_first.value_or(true) ? "--norm-first" : "--norm-last");
  if (!found) {
    missing_.push_back({"--norm-first or --norm-last",
                        "norms come before attention and MLP, or after their results were added",
                        "norm_first"});
  }
  return found.value_or(true);
}

BandChoice StateDictAnswers::mask(bool is_decoder) {
  const auto found = known_mask();
  if (!found && is_decoder) {
    assume("causal mask, since the file has no mask buffer");
  } else if (!found) {
    missing_.push_back({"--causal, --bidirectional or --window N",
                        "a token sees itself and those before it, all tokens, or the last N",
                        "causal"});
  }
  return found.value_or(BandChoice{.causal = is_decoder});
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

double StateDictAnswers::embedding_scale(uint32_t model_dim, bool must_be_said) {
  const auto found = known(options_.embedding_scale,
                           {"embedding scale", "--embedding-scale", {"embedding_scale"}});
  if (!found && !must_be_said) {
    assume("embeddings times 1");
  } else if (!found) {
    missing_.push_back(
        {"--embedding-scale X",
         fmt::format("what multiplies embeddings before positions are added: sqrt (of {}) or a "
                     "number, 1 if nothing does",
                     model_dim),
         "embedding_scale"});
  }
  return found.value_or(EmbeddingScale()).of(model_dim);
}

std::optional<PoolingChoice> StateDictAnswers::pooling_if_said() {
  return known(options_.pooling, {"pooling", "--pooling", {"pooling"}});
}

PoolingChoice StateDictAnswers::ask_pooling(const std::string& reader) {
  missing_.push_back(
      {"--pooling NAME",
       fmt::format("what {} reads of a sequence: the mean of its rows, the first, or each (none)",
                   quote(reader)),
       "pooling"});
  return PoolingChoice::kNone;
}

uint32_t StateDictAnswers::positions() {
  std::string where;
  const auto found = written<uint32_t>(
      {"block_size", "context_length", "max_seq_len", "max_position_embeddings", "max_len"}, where);
  if (found) {
    account_.given.push_back(fmt::format("context {}, from {}", *found, where));
    return *found;
  }
  if (options_.context == 0) {
    missing_.push_back(
        {"--context N", "the longest sequence, as there is no position table", "block_size"});
    return 1;
  }
  account_.given.push_back(fmt::format("--context {}", options_.context));
  return options_.context;
}

double StateDictAnswers::epsilon(double otherwise) {
  const auto found =
      known(options_.epsilon, {"norms' epsilon",
                               "--epsilon",
                               {"layer_norm_eps", "layer_norm_epsilon", "norm_eps", "epsilon"}});
  if (!found) assume(fmt::format("norms' epsilon {}", otherwise));
  return found.value_or(otherwise);
}

std::optional<double> StateDictAnswers::score_scale() {
  const auto found =
      known(options_.score_scale, {"scale of attention scores", "--scale", {"attention_scale"}});
  if (!found) assume("scores times 1/sqrt(head_dim)");
  return found;
}

double StateDictAnswers::rope_theta() {
  constexpr double kTheta = 10000.0;
  const auto found =
      known(options_.rope_theta,
            {"RoPE base", "--rope-theta", {"rope_theta", "rope_base", "rotary_base", "theta"}});
  if (!found) assume(fmt::format("--rope-theta {}", kTheta));
  return found.value_or(kTheta);
}

void StateDictAnswers::scale_rope(RopeSpec& rope, double theta, uint32_t positions_max) {
  for (ConfigFields& source : sources_) {
    std::optional<ConfigFields> scaling = source.object("rope_scaling");
    if (!scaling) continue;
    apply_scaling(rope, *scaling, theta, positions_max);
    account_.given.push_back(fmt::format("RoPE scaling, from {}", source.where()));
  }
}

std::vector<std::string> StateDictAnswers::labels(
    const std::function<std::vector<std::string>(ConfigFields&)>& read) {
  for (ConfigFields& source : sources_) {
    if (source.has("id2label")) return read(source);
  }
  return {};
}

void StateDictAnswers::check_size(std::initializer_list<const char*> fields, uint32_t found) {
  for (ConfigFields& source : sources_) {
    for (const char* field : fields) source.expect(field, found, "the tensors have this size");
  }
}

void StateDictAnswers::refuse(bool is_given, const char* option, const char* why) const {
  if (is_given) throw InputError("{}: {}: {}: drop the option", where_, option, why);
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
      "{}: a state dict does not define the whole computation of its model. Missing:\n{}A "
      "config.json beside the file may say it instead, as {}.\n{}",
      where_, listed, fmt::join(fields, ", "), published);
}

std::optional<BandChoice> StateDictAnswers::known_mask() {
  // A config with a window implies a causal mask.
  std::optional<MaskChoice> option;
  if (options_.mask != MaskChoice::kUnsaid) option = options_.mask;
  if (options_.mask == MaskChoice::kWindow) option = MaskChoice::kCausal;
  const auto found = known(option, {"mask", "", {"causal", "is_causal", "mask"}},
                           option_text(options_.mask, options_.window));
  if (!found) return std::nullopt;
  const uint32_t window = options_.mask == MaskChoice::kWindow ? options_.window : 0;
  return BandChoice{.causal = *found == MaskChoice::kCausal, .window = window};
}

}  // namespace arenite::convert
