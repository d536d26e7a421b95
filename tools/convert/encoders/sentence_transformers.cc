// SPDX-License-Identifier: Apache-2.0
// Reads modules.json, then each module from its own folder.
#include "convert/encoders/sentence_transformers.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/encoders/encoder_parts.h"
#include "convert/encoders/hf_encoder.h"
#include "convert/error.h"
#include "convert/models/config_fields.h"
#include "convert/models/hf_weights.h"
#include "convert/models/json_file.h"
#include "convert/models/model_tensors.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModules = "modules.json";
constexpr size_t kModulesMax = 16;

struct Module {
  std::string kind;  // last word of its Python class: "Pooling"
  fs::path folder;
};

// Modules lie below the folder itself, so other paths are refused: they could point anywhere.
fs::path module_folder(const fs::path& folder, ConfigFields& module) {
  const std::string path = module.text("path");
  if (path == "." || path == ".." || fs::path(path).filename() != path) {
    module.refuse("path", "expected the name of a folder beside modules.json, or nothing");
  }
  return path.empty() ? folder : folder / path;
}

std::vector<Module> read_modules(const fs::path& folder) {
  const fs::path file = folder / kModules;
  const json list = read_json_value(file);
  if (!list.is_array() || list.size() > kModulesMax) {
    throw InputError("{} holds {}: expected a list of at most {} modules", quote(file.string()),
                     show(list), kModulesMax);
  }
  std::vector<Module> modules;
  for (const json& entry : list) {
    const std::string where = fmt::format("{}, module {}", quote(file.string()), modules.size());
    if (!entry.is_object()) throw InputError("{} is {}: expected an object", where, show(entry));
    ConfigFields fields(entry, where);
    fields.expect("idx", modules.size(), "modules are in the order of their numbers");
    fields.pass_over("name");
    const std::string type = fields.text("type");
    if (!type.starts_with("sentence_transformers.")) {
      fields.refuse("type", "expected a module of sentence_transformers itself");
    }
    modules.push_back({type.substr(type.rfind('.') + 1), module_folder(folder, fields)});
    fields.finish();
  }
  return modules;
}

ConfigFields read_config(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  return {read_json_object(file), quote(file.string())};
}

// How the library tokenizes, by the names that it has used for this file.
void read_tokenization(const fs::path& folder, EncoderSpec& spec) {
  for (const char* name : {"sentence_bert_config.json", "sentence_roberta_config.json",
                           "sentence_distilbert_config.json", "sentence_xlm-roberta_config.json"}) {
    const fs::path file = folder / name;
    if (!fs::exists(file)) continue;
    ConfigFields fields(read_json_object(file), quote(file.string()));
    const uint32_t length = fields.count("max_seq_length", spec.positions_max);
    spec.positions_max = std::min(spec.positions_max, length);
    fields.expect("do_lower_case", false,
                  "texts would have to be lower case before they are tokenized: let the tokenizer "
                  "do it, with do_lower_case in its own config, and set this field to false");
    fields.finish();
    return;
  }
}

EncoderSpec read_transformer(const fs::path& folder, const ModelOptions& options) {
  ModelOptions transformer_options = options;
  transformer_options.pooling.reset();
  EncoderSpec spec = read_hf_encoder_folder(folder, {}, transformer_options);
  if (!spec.head.empty()) {
    throw InputError(
        "{}: the transformer has a classifier, which sentence-transformers does not use: expected "
        "an encoder without a head",
        quote((folder / "config.json").string()));
  }
  read_tokenization(folder, spec);
  return spec;
}

void read_pooling(const fs::path& folder, const ModelOptions& options, EncoderSpec& spec) {
  ConfigFields fields = read_config(folder);
  fields.expect("word_embedding_dimension", spec.model_dim, "the transformer's rows are as wide");
  fields.pass_over("include_prompt");  // of texts with an instruction in front
  const bool is_first = fields.flag("pooling_mode_cls_token", false);
  const bool is_mean = fields.flag("pooling_mode_mean_tokens", true);  // the library's default
  for (const char* mode : {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                           "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"}) {
    fields.expect(mode, false, "only the first token and the mean of all are supported");
  }
  fields.finish();
  if (is_first == is_mean) {
    throw InputError(
        "{}: pooling_mode_cls_token and pooling_mode_mean_tokens are both {}: "
        "expected one of them to be true",
        fields.where(), is_first);
  }
  check_pooling(options.pooling, is_first ? PoolingChoice::kFirst : PoolingChoice::kMean,
                fields.where());
  spec.pooling = is_first ? Pooling::kFirst : Pooling::kMean;
}

std::optional<Activation> read_dense_activation(ConfigFields& fields) {
  const std::string name = fields.text("activation_function", "torch.nn.modules.activation.Tanh");
  if (name == "torch.nn.modules.linear.Identity") return std::nullopt;
  if (name == "torch.nn.modules.activation.Tanh") return Activation::kTanh;
  fields.refuse(
      "activation_function",
      "expected 'torch.nn.modules.activation.Tanh' or 'torch.nn.modules.linear.Identity'");
}

void read_dense(const fs::path& folder, EncoderSpec& spec) {
  ConfigFields fields = read_config(folder);
  const uint32_t width = spec.head.empty() ? spec.model_dim : spec.head.back().linear.weight.rows;
  fields.expect("in_features", width, "the module before it gives as many");
  const uint32_t outputs = fields.count("out_features");
  const bool has_bias = fields.flag("bias", true);
  const std::optional<Activation> activation = read_dense_activation(fields);
  fields.finish();
  const TensorStore store = read_hf_weights(folder);
  ModelTensors tensors(store);
  spec.head.push_back(
      {tensors.linear("linear", outputs, width, has_bias ? Presence::kRequired : Presence::kNone),
       activation});
  tensors.finish();
}

}  // namespace

bool is_sentence_transformers(const fs::path& folder) { return fs::exists(folder / kModules); }

EncoderSpec read_sentence_transformers(const fs::path& folder, const ModelOptions& options) {
  const std::vector<Module> modules = read_modules(folder);
  const std::string where = quote((folder / kModules).string());
  if (modules.size() < 2 || modules[0].kind != "Transformer" || modules[1].kind != "Pooling") {
    throw InputError("{}: expected the modules Transformer and Pooling first", where);
  }
  EncoderSpec spec = read_transformer(modules[0].folder, options);
  read_pooling(modules[1].folder, options, spec);
  for (size_t i = 2; i < modules.size(); ++i) {
    if (modules[i].kind == "Dense" && !spec.normalize) {
      read_dense(modules[i].folder, spec);
    } else if (modules[i].kind == "Normalize" && !spec.normalize) {
      spec.normalize = true;
    } else {
      throw InputError(
          "{}: module {} is {}: expected Dense or, as the last one, Normalize; others are not "
          "supported",
          where, i, quote(modules[i].kind));
    }
  }
  return spec;
}

}  // namespace arenite::convert
