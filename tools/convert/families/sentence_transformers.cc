// SPDX-License-Identifier: Apache-2.0
// Reads modules.json, then the config of each module from its own folder, as versions 1 to 6 of the
// library write them, with old and new field names.
#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/families/families.h"
#include "convert/families/hf_models.h"
#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"
#include "convert/open/exported_folder.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_tensors.h"

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

// Modules lie inside the folder. Other paths are refused, since they could point anywhere.
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
    fields.expect("idx", modules.size(), "modules are listed in the order of their indices");
    fields.pass_over("name");
    fields.pass_over("kwargs");  // names of arguments that a call may pass to the module
    const std::string type = fields.text("type");
    if (!type.starts_with("sentence_transformers.")) {
      fields.refuse("type", "expected a module of sentence_transformers itself");
    }
    modules.push_back({type.substr(type.rfind('.') + 1), module_folder(folder, fields)});
    fields.finish();
  }
  return modules;
}

// ---- configs of modules ----

// Reads the first of the files that exists; returns no fields if none does.
ConfigFields read_first(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const fs::path file = folder / name;
    if (is_there(file)) return {read_json_object(file), quote(file.string())};
  }
  return {json::object(), quote((folder / *names.begin()).string())};
}

// Reads the config of a module; it is required.
ConfigFields read_config(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  return {read_json_object(file), quote(file.string())};
}

// Modules pass on values by name; other names are for unsupported modules.
void expect_names(ConfigFields& fields) {
  for (const char* field : {"module_input_name", "module_output_name"}) {
    fields.expect(field, "sentence_embedding", "modules pass on the embedding of the text only");
  }
}

// Checks arguments of Python's from_pretrained. Those that choose how a model is run or stored are
// accepted.
void check_python_arguments(ConfigFields& fields) {
  for (const char* name : {"model_args", "model_kwargs", "tokenizer_args", "processor_kwargs",
                           "config_args", "config_kwargs"}) {
    std::optional<ConfigFields> arguments = fields.object(name);
    if (!arguments) continue;
    for (const char* field : {"attn_implementation", "device_map", "dtype", "low_cpu_mem_usage",
                              "torch_dtype", "trust_remote_code", "use_safetensors"}) {
      arguments->pass_over(field);
    }
    arguments->finish();
  }
}

// The maximum text length may be in the tokenizer's own config.
uint32_t tokenizer_length(const fs::path& folder, uint32_t positions_max) {
  const fs::path file = folder / "tokenizer_config.json";
  if (!is_there(file)) return positions_max;
  const json config = read_json_object(file);
  const auto length = config.find("model_max_length");
  // A number beyond the integer range stands for no limit.
  if (length == config.end() || !length->is_number_unsigned() || *length == 0u) {
    return positions_max;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(length->get<uint64_t>(), positions_max));
}

struct Mode {
  const char* name;
  SelectKind pooling;
};
constexpr Mode kModes[] = {
    // Several of the old fields may be true; the rows are then concatenated in this order.
    {"cls", SelectKind::kFirst},
    {"max", SelectKind::kMax},
    {"mean", SelectKind::kMean},
    {"mean_sqrt_len_tokens", SelectKind::kMeanSqrtLength},
    {"weightedmean", SelectKind::kWeightedMean},
    {"lasttoken", SelectKind::kLast},
};

// Returns "pooling_mode_cls_token", but "pooling_mode_lasttoken".
std::string old_field(const std::string& mode) {
  const bool is_whole = mode == "mean_sqrt_len_tokens" || mode == "lasttoken";
  return "pooling_mode_" + mode + (is_whole ? "" : mode == "cls" ? "_token" : "_tokens");
}

// Files before version 6 have one field per mode. If the field of the mean is missing, its default
// depends on the version.
std::vector<SelectKind> read_old_modes(ConfigFields& fields) {
  std::vector<SelectKind> poolings;
  for (const Mode& mode : kModes) {
    if (fields.flag(old_field(mode.name), false)) poolings.push_back(mode.pooling);
  }
  const std::string mean = old_field("mean");
  if (poolings.empty() && !fields.has(mean)) return {SelectKind::kMean};
  if (!fields.has(mean)) {
    fields.refuse(mean,
                  "versions of the library treat a missing field beside another mode differently: "
                  "expected true or false");
  }
  if (poolings.empty()) {
    throw InputError("{}: all pooling modes are false: expected one of them to be true",
                     fields.where());
  }
  return poolings;
}

SelectKind pooling_named(const ConfigFields& fields, const std::string& name) {
  std::string known;
  for (const Mode& mode : kModes) {
    if (name == mode.name) return mode.pooling;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", mode.name);
  }
  fields.refuse("pooling_mode", "expected one of " + known + ", or a list of them");
}

std::optional<Activation> read_dense_activation(ConfigFields& fields) {
  constexpr std::pair<const char*, std::optional<Activation>> kKnown[] = {
      {"torch.nn.modules.linear.Identity", std::nullopt},
      {"torch.nn.modules.activation.Tanh", Activation::kTanh},
      {"torch.nn.modules.activation.ReLU", Activation::kRelu},
      {"torch.nn.modules.activation.GELU", Activation::kGeluErf},
      {"torch.nn.modules.activation.SiLU", Activation::kSilu},
      {"torch.nn.modules.activation.Sigmoid", Activation::kSigmoid},
  };
  const std::string name = fields.text("activation_function", "torch.nn.modules.activation.Tanh");
  std::string known;
  for (const auto& [path, activation] : kKnown) {
    if (name == path) return activation;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", path);
  }
  fields.refuse("activation_function", "expected one of " + known);
}

// Reads how texts are prepared for the transformer. The library truncates texts that are too long.
void read_text_settings(const fs::path& folder, SentenceTransformers& model) {
  ConfigFields fields =
      read_first(folder, {"sentence_bert_config.json", "sentence_roberta_config.json",
                          "sentence_distilbert_config.json", "sentence_xlm-roberta_config.json"});
  uint32_t& positions = model.spec.positions_max;
  const uint32_t length = tokenizer_length(folder, positions);
  positions = std::min(positions, fields.count("max_seq_length", length));
  model.lowers_case = fields.flag("do_lower_case", false);
  fields.expect("transformer_task", "feature-extraction",
                "pooling reads the encoder's hidden states only");
  fields.expect("modality_config",
                {{"text", {{"method", "forward"}, {"method_output_name", "last_hidden_state"}}}},
                "only texts are supported, and pooling reads only hidden states");
  fields.expect("module_output_name", "token_embeddings", "pooling reads the rows of tokens");
  fields.expect("processing_kwargs", json::object(), "the tokenizer takes no arguments");
  fields.pass_over("unpad_inputs");  // a matter of speed
  check_python_arguments(fields);
  fields.finish();
}

// Returns the poolings, at least one, whose rows are concatenated; each is as wide as `width`.
std::vector<SelectKind> read_pooling_modes(const fs::path& folder, uint32_t width) {
  const fs::path file = folder / "config.json";
  json object = read_json_object(file);
  json& mode = object["pooling_mode"];
  if (mode.is_string()) mode = json::array({mode});
  ConfigFields fields(object, quote(file.string()));
  for (const char* field : {"embedding_dimension", "word_embedding_dimension"}) {
    fields.expect(field, width, "the transformer's rows have that width");
  }
  fields.pass_over("include_prompt");  // of texts with an instruction in front
  std::vector<SelectKind> poolings;
  if (fields.has("pooling_mode")) {
    for (const std::string& name : fields.texts("pooling_mode")) {
      poolings.push_back(pooling_named(fields, name));
    }
    for (const Mode& known : kModes) fields.pass_over(old_field(known.name));
    if (poolings.empty()) fields.refuse("pooling_mode", "expected at least one");
  } else {
    poolings = read_old_modes(fields);
  }
  fields.finish();
  return poolings;
}

// Reads a module after the pooling; `width` is its input width.
HeadStepSpec read_head_module(const Module& module, uint32_t width, const std::string& where) {
  HeadStepSpec step;
  const fs::path& folder = module.folder;
  if (module.kind == "Normalize") {
    ConfigFields fields = read_first(folder, {"config.json"});
    expect_names(fields);
    fields.finish();
    step.normalize = true;
  } else if (module.kind == "Dense") {
    ConfigFields fields = read_config(folder);
    fields.expect("in_features", width, "the module before it has that width");
    const uint32_t outputs = fields.count("out_features");
    const bool has_bias = fields.flag("bias", true);
    step.activation = read_dense_activation(fields);
    expect_names(fields);
    fields.expect("use_residual", false, "residual sums in this layer are not supported");
    fields.finish();
    const Opened opened = open_model(folder);
    ModelTensors tensors(opened.tensors);
    step.linear =
        tensors.linear("linear", outputs, width, has_bias ? Presence::kRequired : Presence::kNone);
    tensors.finish();
  } else if (module.kind == "LayerNorm") {
    ConfigFields fields = read_config(folder);
    fields.expect("dimension", width, "the module before it has that width");
    fields.finish();
    const Opened opened = open_model(folder);
    ModelTensors tensors(opened.tensors);
    step.norm = tensors.norm("norm", width, 1e-5);  // torch.nn.LayerNorm's epsilon
    tensors.finish();
  } else {
    throw InputError(
        "{} is {}: expected Dense, LayerNorm, Normalize or Dropout; others are not supported",
        where, quote(module.kind));
  }
  return step;
}

// Checks the folder's own config, if present: the model must give a single vector per text, without
// a default prompt.
void check_model_config(const fs::path& folder) {
  ConfigFields fields = read_first(folder, {"config_sentence_transformers.json"});
  fields.expect("model_type", "SentenceTransformer",
                "only models with one embedding per text are supported");
  std::optional<ConfigFields> prompts = fields.object("prompts");
  const std::string chosen = fields.text("default_prompt_name", "");
  if (chosen.empty() || (prompts && prompts->text(chosen, "").empty())) return;
  fields.refuse("default_prompt_name",
                "this prompt is put before each text: set the field to null, and put the prompt "
                "before your texts");
}

// ---- the whole model ----

// The transformer is in this folder, which is already open, or in its own folder.
TransformerSpec read_transformer(const Opened& model, const fs::path& folder,
                                 const ModelOptions& options) {
  const Opened own = folder == model.folder ? model : open_model(folder);
  if (is_decoder_type(own.model_type())) {
    TransformerSpec spec = read_hf_decoder(own, HeadUse::kDrop);
    if (spec.projection) {
      throw InputError("{}: a projection of the last hidden states is not supported here",
                       own.where());
    }
    spec.is_decoder = spec.is_headless = false;
    return spec;
  }
  ModelOptions transformer_options = options;
  transformer_options.pooling.reset();
  return read_hf_encoder(own, transformer_options, HeadUse::kDrop);
}

// `options` may repeat the module's pooling if it is one of the option's choices.
void read_sentence_pooling(const fs::path& folder, const ModelOptions& options,
                           TransformerSpec& spec) {
  const std::vector<SelectKind> poolings = read_pooling_modes(folder, spec.model_dim);
  spec.pooling = poolings[0];
  spec.more_pooling.assign(poolings.begin() + 1, poolings.end());
  const bool is_mean = spec.pooling == SelectKind::kMean;
  if (!options.pooling) return;
  const std::string where = quote((folder / "config.json").string());
  if (poolings.size() == 1 && (is_mean || spec.pooling == SelectKind::kFirst)) {
    return check_pooling(options.pooling, is_mean ? PoolingChoice::kMean : PoolingChoice::kFirst,
                         where);
  }
  throw InputError("{}: pooling {} was requested, but the model pools differently: drop the option",
                   where, quote(name(*options.pooling)));
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
    throw UnsupportedError("{}\n{}", error.what(), export_advice(folder));
  }
  read_text_settings(modules[0].folder, model);
  read_sentence_pooling(modules[1].folder, options, model.spec);
  for (size_t i = 2; i < modules.size(); ++i) {
    if (modules[i].kind == "Dropout") continue;  // acts in training only
    model.spec.head.push_back(read_head_module(modules[i], output_width(model.spec),
                                               fmt::format("{}: module {}", where, i)));
  }
  return model;
}

}  // namespace arenite::convert
