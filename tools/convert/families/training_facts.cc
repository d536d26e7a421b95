// SPDX-License-Identifier: Apache-2.0
// Looks for each fact under its usual names.
#include "convert/families/state_dicts.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "convert/families/hf_models.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

// Dicts in which checkpoints keep the arguments of their model.
constexpr std::string_view kArguments[] = {"args",       "config",       "hparams",
                                           "model_args", "model_config", "hyper_parameters"};

json parsed(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec == std::errc() && result.ptr == end) return number;
  double real = 0.0;
  const auto real_result = std::from_chars(text.data(), end, real);
  if (real_result.ec == std::errc() && real_result.ptr == end) return real;
  return text;
}

// The plain values of a checkpoint by the dict that they are in; "": the outermost.
std::map<std::string, json> arguments_of(const std::map<std::string, std::string>& plain_values) {
  std::map<std::string, json> arguments;
  for (const auto& [path, text] : plain_values) {
    const size_t dot = path.rfind('.');
    const std::string dict = dot == std::string::npos ? "" : path.substr(0, dot);
    if (!dict.empty() &&
        std::find(std::begin(kArguments), std::end(kArguments), dict) == std::end(kArguments)) {
      continue;
    }
    arguments[dict][dot == std::string::npos ? path : path.substr(dot + 1)] = parsed(text);
  }
  return arguments;
}

PoolingChoice read_pooling(ConfigFields& config, const std::string& field) {
  const std::string text = config.text(field);
  if (text == "cls") return PoolingChoice::kFirst;
  for (const PoolingChoice choice : {PoolingChoice::kNone, PoolingChoice::kFirst,
                                     PoolingChoice::kPooler, PoolingChoice::kMean}) {
    if (text == name(choice)) return choice;
  }
  config.refuse(field, "expected 'none', 'first', 'cls', 'pooler' or 'mean'");
}

// "mask" may be about something else, such as what is to be predicted: then it says nothing.
std::optional<MaskChoice> mask_by_name(ConfigFields& config) {
  if (!config.is_text("mask")) return std::nullopt;
  const std::string text = config.text("mask");
  if (text == "causal") return MaskChoice::kCausal;
  if (text == "bidirectional") return MaskChoice::kBidirectional;
  return std::nullopt;
}

// A number, or "sqrt".
EmbeddingScale read_embedding_scale(ConfigFields& config, const std::string& field) {
  if (config.is_text(field)) {
    if (config.text(field) == "sqrt") return {.is_sqrt = true};
    config.refuse(field, "expected a number or 'sqrt', for the square root of the model's width");
  }
  return {.value = config.positive(field)};
}

}  // namespace

TrainingFacts::TrainingFacts(const Opened& model) {
  if (model.config) sources_.push_back(model.config_fields());
  for (auto& [dict, values] : arguments_of(model.values)) {
    std::string where = quote(model.tensors.source());
    if (!dict.empty()) where += fmt::format(", {}", quote(dict));
    sources_.emplace_back(std::move(values), std::move(where));
  }
}

template <typename Value>
std::optional<Fact<Value>> TrainingFacts::agreed(
    std::initializer_list<const char*> names,
    const std::function<Value(ConfigFields&, const std::string& name)>& read) {
  std::optional<Fact<Value>> found;
  for (ConfigFields& source : sources_) {
    for (const char* name : names) {
      if (!source.has(name)) continue;
      const Value value = read(source, name);
      if (found && !(found->value == value)) {
        source.refuse(name, "another place says something else about the same model");
      }
      found = {value, source.where()};
    }
  }
  return found;
}

std::optional<Fact<uint32_t>> TrainingFacts::heads() {
  return agreed<uint32_t>(
      {"num_heads", "n_heads", "nhead", "n_head", "heads", "num_attention_heads"},
      [](ConfigFields& source, const std::string& field) { return source.count(field); });
}

std::optional<Fact<Activation>> TrainingFacts::activation() {
  return agreed<Activation>({"activation", "hidden_act", "activation_function"},
                            [](ConfigFields& source, const std::string& field) {
                              return read_activation(source, field, "");
                            });
}

std::optional<Fact<bool>> TrainingFacts::norm_first() {
  return agreed<bool>({"norm_first"}, [](ConfigFields& source, const std::string& field) {
    return source.flag(field);
  });
}

std::optional<Fact<PoolingChoice>> TrainingFacts::pooling() {
  return agreed<PoolingChoice>({"pooling"}, read_pooling);
}

std::optional<Fact<MaskChoice>> TrainingFacts::mask() {
  const auto found = agreed<MaskChoice>(
      {"causal", "is_causal"}, [](ConfigFields& source, const std::string& field) {
        return source.flag(field) ? MaskChoice::kCausal : MaskChoice::kBidirectional;
      });
  for (ConfigFields& source : sources_) {
    const auto named = mask_by_name(source);
    if (!named) continue;
    if (found && found->value != *named) {
      source.refuse("mask", "another field says something else about the same model");
    }
    return Fact<MaskChoice>{*named, source.where()};
  }
  return found;
}

std::optional<Fact<EmbeddingScale>> TrainingFacts::embedding_scale() {
  return agreed<EmbeddingScale>({"embedding_scale"}, read_embedding_scale);
}

std::optional<Fact<double>> TrainingFacts::score_scale() {
  return agreed<double>({"attention_scale"}, [](ConfigFields& source, const std::string& field) {
    return source.positive(field);
  });
}

std::optional<Fact<double>> TrainingFacts::epsilon() {
  return agreed<double>(
      {"layer_norm_eps", "layer_norm_epsilon", "norm_eps", "epsilon"},
      [](ConfigFields& source, const std::string& field) { return source.positive(field); });
}

std::optional<Fact<double>> TrainingFacts::rope_theta() {
  return agreed<double>(
      {"rope_theta", "rope_base", "rotary_base", "theta"},
      [](ConfigFields& source, const std::string& field) { return source.positive(field); });
}

std::optional<Fact<uint32_t>> TrainingFacts::positions() {
  return agreed<uint32_t>(
      {"block_size", "context_length", "max_seq_len", "max_position_embeddings", "max_len"},
      [](ConfigFields& source, const std::string& field) { return source.count(field); });
}

std::vector<std::string> TrainingFacts::labels(
    const std::function<std::vector<std::string>(ConfigFields&)>& read) {
  for (ConfigFields& source : sources_) {
    if (source.has("id2label")) return read(source);
  }
  return {};
}

void TrainingFacts::check(Size size, uint32_t found) {
  const auto expect = [&](std::initializer_list<const char*> names) {
    for (ConfigFields& source : sources_) {
      for (const char* name : names) source.expect(name, found, "the tensors have this size");
    }
  };
  switch (size) {
    case Size::kModelDim:
      return expect({"d_model", "model_dim", "hidden_size", "n_embd", "emb_dim", "dim"});
    case Size::kFfnDim:
      return expect({"d_ff", "dim_feedforward", "ffn_dim"});
    case Size::kLayers:
      return expect({"n_layers", "n_layer", "num_layers", "num_hidden_layers"});
    case Size::kKvHeads:
      return expect({"n_kv_heads", "n_kv_head", "num_kv_heads", "num_key_value_heads"});
    case Size::kVocabulary:
      return expect({"vocab_size"});
    case Size::kPositions:
      return expect({"block_size", "context_length"});
    case Size::kClasses:
      return expect({"num_labels", "num_classes", "n_classes"});
  }
}

}  // namespace arenite::convert
