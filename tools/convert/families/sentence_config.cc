// SPDX-License-Identifier: Apache-2.0
// Fields of the modules' configs, old names and new ones.
#include "convert/families/hf_models.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/files/paths.h"
#include "convert/open/opened.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The first of the files that is there; empty fields where none is.
ConfigFields read_first(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const fs::path file = folder / name;
    if (is_there(file)) return {read_json_object(file), quote(file.string())};
  }
  return {json::object(), quote((folder / *names.begin()).string())};
}

ConfigFields read_config(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  return {read_json_object(file), quote(file.string())};
}

// Modules hand on values by name; others than these go to modules that are not supported.
void expect_names(ConfigFields& fields) {
  for (const char* field : {"module_input_name", "module_output_name"}) {
    fields.expect(field, "sentence_embedding", "only the vector of a text is handed on");
  }
}

// Arguments of Python's from_pretrained. Those that choose how a model is run or stored are fine.
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

// Where the tokenizer's own config says how long texts may be.
uint32_t tokenizer_length(const fs::path& folder, uint32_t positions_max) {
  const fs::path file = folder / "tokenizer_config.json";
  if (!is_there(file)) return positions_max;
  const json config = read_json_object(file);
  const auto length = config.find("model_max_length");
  // A number beyond all integers stands for no limit.
  if (length == config.end() || !length->is_number_unsigned() || *length == 0u) {
    return positions_max;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(length->get<uint64_t>(), positions_max));
}

constexpr std::pair<const char*, SelectKind> kModes[] = {
    // In the order of the rows where several of the old fields are true.
    {"cls", SelectKind::kFirst},
    {"max", SelectKind::kMax},
    {"mean", SelectKind::kMean},
    {"mean_sqrt_len_tokens", SelectKind::kMeanSqrtLength},
    {"weightedmean", SelectKind::kWeightedMean},
    {"lasttoken", SelectKind::kLast},
};

// "pooling_mode_cls_token", but "pooling_mode_lasttoken".
std::string old_field(const std::string& mode) {
  const bool is_whole = mode == "mean_sqrt_len_tokens" || mode == "lasttoken";
  return "pooling_mode_" + mode + (is_whole ? "" : mode == "cls" ? "_token" : "_tokens");
}

// Files before version 6 have a field for each mode. Where that of the mean is missing, versions
// differ in what it is.
std::vector<SelectKind> read_old_modes(ConfigFields& fields) {
  std::vector<SelectKind> poolings;
  for (const auto& [mode, pooling] : kModes) {
    if (fields.flag(old_field(mode), false)) poolings.push_back(pooling);
  }
  const std::string mean = old_field("mean");
  if (poolings.empty() && !fields.has(mean)) return {SelectKind::kMean};
  if (!fields.has(mean)) {
    fields.refuse(mean,
                  "versions of the library differ in what that means beside another mode: expected "
                  "true or false");
  }
  if (poolings.empty()) {
    throw InputError("{}: all pooling modes are false: expected one of them to be true",
                     fields.where());
  }
  return poolings;
}

SelectKind pooling_named(const ConfigFields& fields, const std::string& name) {
  std::string known;
  for (const auto& [mode, pooling] : kModes) {
    if (name == mode) return pooling;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", mode);
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

}  // namespace

TextSettings read_text_settings(const fs::path& folder, uint32_t positions_max) {
  ConfigFields fields =
      read_first(folder, {"sentence_bert_config.json", "sentence_roberta_config.json",
                          "sentence_distilbert_config.json", "sentence_xlm-roberta_config.json"});
  TextSettings settings;
  const uint32_t length = tokenizer_length(folder, positions_max);
  settings.tokens_max = std::min(positions_max, fields.count("max_seq_length", length));
  settings.lowers_case = fields.flag("do_lower_case", false);
  fields.expect("transformer_task", "feature-extraction",
                "only the encoder's hidden states are pooled");
  fields.expect("modality_config",
                {{"text", {{"method", "forward"}, {"method_output_name", "last_hidden_state"}}}},
                "only texts are read, and only hidden states are pooled");
  fields.expect("module_output_name", "token_embeddings", "rows of tokens are what is pooled");
  fields.expect("processing_kwargs", json::object(), "the tokenizer takes no arguments");
  fields.pass_over("unpad_inputs");  // a matter of speed
  check_python_arguments(fields);
  fields.finish();
  return settings;
}

std::vector<SelectKind> read_pooling_modes(const fs::path& folder, uint32_t width) {
  const fs::path file = folder / "config.json";
  json object = read_json_object(file);
  json& mode = object["pooling_mode"];
  if (mode.is_string()) mode = json::array({mode});
  ConfigFields fields(object, quote(file.string()));
  for (const char* field : {"embedding_dimension", "word_embedding_dimension"}) {
    fields.expect(field, width, "the transformer's rows are as wide");
  }
  fields.pass_over("include_prompt");  // of texts with an instruction in front
  std::vector<SelectKind> poolings;
  if (fields.has("pooling_mode")) {
    for (const std::string& name : fields.texts("pooling_mode")) {
      poolings.push_back(pooling_named(fields, name));
    }
    for (const auto& [name, pooling] : kModes) fields.pass_over(old_field(name));
    if (poolings.empty()) fields.refuse("pooling_mode", "expected at least one");
  } else {
    poolings = read_old_modes(fields);
  }
  fields.finish();
  return poolings;
}

HeadStepSpec read_dense(const fs::path& folder, uint32_t width) {
  ConfigFields fields = read_config(folder);
  fields.expect("in_features", width, "the module before it gives as many");
  const uint32_t outputs = fields.count("out_features");
  const bool has_bias = fields.flag("bias", true);
  const std::optional<Activation> activation = read_dense_activation(fields);
  expect_names(fields);
  fields.expect("use_residual", false, "a sum with what the layer takes is not supported");
  fields.finish();
  const Opened module = open_model(folder);
  ModelTensors tensors(module.tensors);
  HeadStepSpec step;
  step.linear =
      tensors.linear("linear", outputs, width, has_bias ? Presence::kRequired : Presence::kNone);
  step.activation = activation;
  tensors.finish();
  return step;
}

HeadStepSpec read_layer_norm_module(const fs::path& folder, uint32_t width) {
  constexpr double kEpsilon = 1e-5;  // torch.nn.LayerNorm's
  ConfigFields fields = read_config(folder);
  fields.expect("dimension", width, "the module before it gives as many");
  fields.finish();
  const Opened module = open_model(folder);
  ModelTensors tensors(module.tensors);
  HeadStepSpec step;
  step.norm = tensors.norm("norm", width, kEpsilon);
  tensors.finish();
  return step;
}

HeadStepSpec read_normalize(const fs::path& folder) {
  ConfigFields fields = read_first(folder, {"config.json"});
  expect_names(fields);
  fields.finish();
  HeadStepSpec step;
  step.normalize = true;
  return step;
}

void check_model_config(const fs::path& folder) {
  ConfigFields fields = read_first(folder, {"config_sentence_transformers.json"});
  fields.expect("model_type", "SentenceTransformer",
                "only models of one vector for each text are read");
  std::optional<ConfigFields> prompts = fields.object("prompts");
  const std::string chosen = fields.text("default_prompt_name", "");
  if (chosen.empty() || (prompts && prompts->text(chosen, "").empty())) return;
  fields.refuse("default_prompt_name",
                "that prompt goes before every text: set the field to null, and put the prompt "
                "before the texts that you give");
}

}  // namespace arenite::convert
