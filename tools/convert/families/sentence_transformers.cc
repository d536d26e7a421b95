// SPDX-License-Identifier: Apache-2.0
// Reads modules.json, then each module from its own folder (sentence_config.cc).
#include "convert/families/families.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/families/hf_models.h"
#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/files/paths.h"
#include "convert/spec/config_fields.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModules = "modules.json";
constexpr size_t kModulesMax = 16;

struct Module {
  std::string kind;  // last word of its Python class, wherever that is: "Pooling"
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
    fields.pass_over("kwargs");  // names of what a call may hand to the module
    const std::string type = fields.text("type");
    if (!type.starts_with("sentence_transformers.")) {
      fields.refuse("type", "expected a module of sentence_transformers itself");
    }
    modules.push_back({type.substr(type.rfind('.') + 1), module_folder(folder, fields)});
    fields.finish();
  }
  return modules;
}

// The encoder may lie in the folder itself, which is open already, or in one of its own.
TransformerSpec read_transformer(const Opened& model, const fs::path& folder,
                                 const ModelOptions& options) {
  ModelOptions transformer_options = options;
  transformer_options.pooling.reset();
  return read_hf_encoder(folder == model.folder ? model : open_model(folder), transformer_options,
                         HeadUse::kDrop);
}

// What the modules after the transformer do, in Python, to its last hidden states "{}"; these alone
// where they do something else than the usual.
std::string pooled_in_python(const std::vector<Module>& modules, uint32_t width) {
  const std::vector<SelectKind> poolings = read_pooling_modes(modules[1].folder, width);
  std::string pooled = poolings.size() > 1                 ? ""
                       : poolings[0] == SelectKind::kMean  ? "{}.mean(1)"
                       : poolings[0] == SelectKind::kMax   ? "{}.amax(1)"
                       : poolings[0] == SelectKind::kFirst ? "{}[:, 0]"
                       : poolings[0] == SelectKind::kLast  ? "{}[:, -1]"
                                                           : "";
  for (size_t i = 2; i < modules.size() && !pooled.empty(); ++i) {
    if (modules[i].kind == "Dropout") continue;
    pooled = modules[i].kind == "Normalize"
                 ? fmt::format("torch.nn.functional.normalize({}, dim=-1)", pooled)
                 : "";
  }
  return pooled.empty() ? "{}  # without pooling" : pooled;
}

// `options` may say the same as the module, where that is one of the choices that there are.
void read_sentence_pooling(const fs::path& folder, const ModelOptions& options,
                           TransformerSpec& spec) {
  const std::vector<SelectKind> poolings = read_pooling_modes(folder, spec.model_dim);
  spec.pooling = poolings[0];
  spec.more_pooling.assign(poolings.begin() + 1, poolings.end());
  if (!options.pooling) return;
  const std::string where = quote((folder / "config.json").string());
  if (poolings.size() == 1 && poolings[0] == SelectKind::kFirst) {
    check_pooling(options.pooling, PoolingChoice::kFirst, where);
  } else if (poolings.size() == 1 && poolings[0] == SelectKind::kMean) {
    check_pooling(options.pooling, PoolingChoice::kMean, where);
  } else {
    throw InputError("{}: pooling {} was asked for, but the model has another: drop the option",
                     where, quote(name(*options.pooling)));
  }
}

// A module after the pooling.
void read_head_module(const Module& module, size_t index, const std::string& where,
                      TransformerSpec& spec) {
  if (module.kind == "Dropout") return;  // acts in training only
  if (module.kind == "Dense") {
    spec.head.push_back(read_dense(module.folder, output_width(spec)));
  } else if (module.kind == "LayerNorm") {
    spec.head.push_back(read_layer_norm_module(module.folder, output_width(spec)));
  } else if (module.kind == "Normalize") {
    spec.head.push_back(read_normalize(module.folder));
  } else {
    throw InputError(
        "{}: module {} is {}: expected Dense, LayerNorm, Normalize or Dropout; others are not "
        "supported",
        where, index, quote(module.kind));
  }
}

}  // namespace

bool is_sentence_transformers(const Opened& model) {
  return model.is_folder() && is_there(model.folder / kModules);
}

SentenceTransformers read_sentence_transformers(const Opened& opened, const ModelOptions& options) {
  const fs::path& folder = opened.folder;
  check_model_config(folder);
  const std::vector<Module> modules = read_modules(folder);
  const std::string where = quote((folder / kModules).string());
  if (modules.size() < 2 || modules[0].kind != "Transformer" || modules[1].kind != "Pooling") {
    throw InputError("{}: expected the modules Transformer and Pooling first", where);
  }
  SentenceTransformers model;
  model.tokenizer_folder = modules[0].folder;
  try {
    model.spec = read_transformer(opened, modules[0].folder, options);
  } catch (const UnsupportedError& error) {
    const Opened transformer = open_model(modules[0].folder);
    ConfigFields config = transformer.config_fields();
    const uint32_t width = read_size(config, "hidden_size", "d_model");
    throw UnsupportedError("{}\n{}", error.what(),
                           export_lines(transformer, pooled_in_python(modules, width)));
  }
  const TextSettings texts = read_text_settings(modules[0].folder, model.spec.positions_max);
  model.spec.positions_max = texts.tokens_max;
  model.lowers_case = texts.lowers_case;
  read_sentence_pooling(modules[1].folder, options, model.spec);
  for (size_t i = 2; i < modules.size(); ++i) read_head_module(modules[i], i, where, model.spec);
  return model;
}

}  // namespace arenite::convert
