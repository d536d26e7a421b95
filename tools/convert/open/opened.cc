// SPDX-License-Identifier: Apache-2.0
// Finds the weight files, detects their formats, and checks shards against their index.
#include "convert/open/opened.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <iterator>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/exported/read/exported_program.h"
#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"
#include "convert/files/npy.h"
#include "format/file_layout.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kCheckpointsNamed = 8;  // in a message
constexpr size_t kKeysNamed = 8;         // in a message
constexpr size_t kHubNameBytesMax = 96;
constexpr std::string_view kAdapterTensors = "base_model.model.";  // peft's names begin so

constexpr const char* kConfig = "config.json";
constexpr const char* kMetaConfig = "params.json";
constexpr std::string_view kMetaTokens = "tok_embeddings.weight";
constexpr const char* kModules = "modules.json";               // of sentence-transformers
constexpr const char* kAdapterConfig = "adapter_config.json";  // of peft
constexpr const char* kWeightFiles[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json",
                                        "model.pt"};

// Prefixes of files that are found next to a checkpoint but are not checkpoints.
constexpr const char* kNoCheckpoints[] = {"tokenizer.", "training_args.", "optimizer.",
                                          "scheduler.", "rng_state"};
constexpr const char* kCheckpointEndings[] = {".safetensors", ".pt",   ".pth", ".pt2",
                                              ".bin",         ".gguf", ".ckpt"};

// Returns the tensors of each shard, from the index. Shards lie next to the index. Names with a
// folder in them are refused, since an index could point anywhere.
std::map<std::string, std::set<std::string>> read_index(const fs::path& index) {
  const json object = read_json_object(index);
  const auto weight_map = object.find("weight_map");
  if (weight_map == object.end() || !weight_map->is_object()) {
    throw InputError("{}: field 'weight_map' is missing: expected an object of tensor names",
                     quote(index.string()));
  }
  std::map<std::string, std::set<std::string>> shards;
  for (const auto& [tensor, file] : weight_map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name == "." || name == ".." || fs::path(name).filename() != name) {
      throw InputError("{}: tensor {} is in {}: expected the name of a file beside the index",
                       quote(index.string()), quote(tensor), show(file));
    }
    shards[name].insert(tensor);
  }
  return shards;
}

void add_shard(const fs::path& index, const std::string& shard,
               const std::set<std::string>& expected, TensorStore& tensors) {
  const fs::path file = index.parent_path() / shard;
  if (!is_there(file)) {
    throw InputError("{} is missing: {} expects {} tensors in it, {} among them",
                     quote(file.string()), quote(index.string()), expected.size(),
                     quote(*expected.begin()));
  }
  const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::read(file));
  for (const CheckpointTensor& tensor : checkpoint->tensors()) {
    if (!expected.contains(tensor.name)) {
      throw InputError("{}: {} does not list tensor {} for this file", quote(file.string()),
                       quote(index.string()), quote(tensor.name));
    }
  }
  for (const std::string& name : expected) {
    if (checkpoint->find(name) == nullptr) {
      throw InputError("{}: tensor {} is missing, which {} lists for this file",
                       quote(file.string()), quote(name), quote(index.string()));
    }
  }
  tensors.add(checkpoint);
}

void add_array(const fs::path& file, TensorStore& tensors) {
  const auto array = std::make_shared<const NpyArray>(NpyArray::read(file));
  StoredTensor stored{.name = file.stem().string(),
                      .type = name(array->dtype()),
                      .is_real = is_real(array->dtype()),
                      .shape = array->shape(),
                      .load = [array] { return array->to_f32(); },
                      .file = file.string()};
  if (array->dtype() == DType::kF64) stored.load_f64 = [array] { return array->to_f64(); };
  tensors.add(std::move(stored));
}

bool is_model_file(std::span<const std::byte> bytes) {
  constexpr size_t kAt = 4;  // where FlatBuffers puts it
  constexpr size_t kBytes = sizeof(format::kFileIdentifier) - 1;
  return bytes.size() >= kAt + kBytes &&
         std::memcmp(bytes.data() + kAt, format::kFileIdentifier, kBytes) == 0;
}

// Opens a file that is not JSON.
void open_file(const fs::path& file, Opened& opened, bool is_whole) {
  FileMap map(file);
  if (is_model_file(map.bytes())) {
    throw InputError("{} is a converted model already: 'arenite repack' packs it for other targets",
                     quote(file.string()));
  }
  if (is_gguf(map.bytes())) {
    opened.gguf = GgufFile::read(file, std::move(map));
    opened.tensors = tensors_of(opened.gguf);
  } else if (is_llama2c(map.bytes())) {
    const auto shared = std::make_shared<const FileMap>(std::move(map));
    opened.llama2c = read_llama2c_header(shared->bytes(), quote(file.string()));
    opened.tensors = llama2c_tensors(*opened.llama2c, shared, file.string());
  } else if (file.extension() == ".npy") {
    add_array(file, opened.tensors);
  } else if (is_exported_program(map.text())) {
    opened.exported = std::make_shared<const FileMap>(std::move(map));
  } else {
    const auto checkpoint =
        std::make_shared<const Checkpoint>(Checkpoint::read(file, std::move(map), is_whole));
    opened.tensors.add(checkpoint);
    opened.values = checkpoint->metadata();
  }
}

void open_weights(const fs::path& file, Opened& opened, bool is_whole) {
  opened.tensors = TensorStore(file.string());
  if (file.extension() != ".json") return open_file(file, opened, is_whole);
  for (const auto& [shard, names] : read_index(file)) {
    add_shard(file, shard, names, opened.tensors);
  }
}

void open_folder(Opened& opened, bool is_whole) {
  for (const char* name : kWeightFiles) {
    if (is_there(opened.folder / name)) return open_weights(opened.folder / name, opened, is_whole);
  }
  opened.tensors = TensorStore(opened.folder.string());
  if (is_there(opened.folder / kModules)) return;
  std::vector<fs::path> arrays;
  for (const fs::directory_entry& entry : fs::directory_iterator(opened.folder)) {
    if (entry.path().extension() == ".npy") arrays.push_back(entry.path());
  }
  std::ranges::sort(arrays);
  for (const fs::path& array : arrays) add_array(array, opened.tensors);
  if (!arrays.empty()) return;
  if (!opened.config) {
    throw InputError(
        "{} has no config.json, and no checkpoint ({}): expected one file of weights, or a folder "
        "that transformers' save_pretrained wrote",
        quote(opened.folder.string()), fmt::join(kCheckpointEndings, ", "));
  }
  throw InputError("{} has no weights: expected one of {}, or .npy files",
                   quote(opened.folder.string()), fmt::join(kWeightFiles, ", "));
}

bool is_checkpoint(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const std::string ending = entry.path().extension().string();
  return entry.is_regular_file() &&
         std::ranges::any_of(kCheckpointEndings,
                             [&](const char* known) { return ending == known; }) &&
         std::ranges::none_of(kNoCheckpoints,
                              [&](const char* start) { return name.starts_with(start); });
}

// Returns the only checkpoint without one of the known names; empty if there is none. Throws
// InputError if there are several.
fs::path only_checkpoint(const fs::path& folder) {
  const auto exists = [&](const char* name) { return is_there(folder / name); };
  if (exists(kModules) || std::ranges::any_of(kWeightFiles, exists)) return {};
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_checkpoint(entry)) names.push_back(quote(entry.path().filename().string()));
  }
  std::ranges::sort(names);
  if (names.size() > 1) {
    throw InputError(
        "{} has {} checkpoints: pass the one to convert: {}", quote(folder.string()), names.size(),
        fmt::join(std::span(names).first(std::min<size_t>(names.size(), kCheckpointsNamed)), ", "));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_checkpoint(entry)) return entry.path();
  }
  return {};
}

// Whether `path` may be the id of a model on the hub: "user/name", or a short name such as "gpt2".
bool is_hub_id(const fs::path& path) {
  const std::string id = path.string();
  const auto parts = std::distance(path.begin(), path.end());
  const bool has_ending = std::ranges::find(kCheckpointEndings, path.extension().string()) !=
                          std::end(kCheckpointEndings);
  return parts <= 2 && !has_ending && !id.empty() && id.size() <= kHubNameBytesMax &&
         std::isalnum(static_cast<unsigned char>(id[0])) != 0 &&
         id.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/") ==
             std::string::npos &&
         (parts == 1 || !is_there(path.parent_path()));
}

[[noreturn]] void refuse_hub_id(const fs::path& path) {
  const std::string name = path.filename().string();
  const bool is_whole = path.has_parent_path();
  throw InputError(
      "{}: No such file or folder. A model of the Hugging Face hub is downloaded first{}:\n\n"
      "hf download {}{} --local-dir {}\n"
      "arenite convert {} -o {}.arn",
      quote(path.string()),
      is_whole ? "" : ", by its full name there, such as openai-community/gpt2",
      is_whole ? "" : "OWNER/", path.string(), name, name, name);
}

// Returns peft's class for the config's task_type.
std::string adapter_class(const json& config) {
  constexpr std::pair<std::string_view, const char*> kTasks[] = {
      {"CAUSAL_LM", "AutoPeftModelForCausalLM"},
      {"SEQ_CLS", "AutoPeftModelForSequenceClassification"},
      {"TOKEN_CLS", "AutoPeftModelForTokenClassification"},
      {"QUESTION_ANS", "AutoPeftModelForQuestionAnswering"},
      {"SEQ_2_SEQ_LM", "AutoPeftModelForSeq2SeqLM"}};
  const auto task = config.find("task_type");
  for (const auto& [name, known] : kTasks) {
    if (task != config.end() && *task == name) return known;
  }
  return "AutoPeftModelForFeatureExtraction";
}

[[noreturn]] void refuse_adapter(const fs::path& path, const fs::path& folder) {
  const json config = is_there(folder / kAdapterConfig) ? read_json_object(folder / kAdapterConfig)
                                                        : json::object();
  const auto base = config.find("base_model_name_or_path");
  const bool names_base = base != config.end() && base->is_string();
  throw InputError(
      "{} is an adapter{}, not a whole model: merge the two with peft, and convert the "
      "result:\n\nimport peft\n\nmodel = "
      "peft.{}.from_pretrained(\"{}\")\nmodel.merge_and_unload().save_pretrained(\"merged\")"
      "\n\narenite convert merged -o model.arn",
      quote(path.string()), names_base ? " of " + quote(base->get<std::string>()) : "",
      adapter_class(config), folder.string());
}

using Shapes = std::multiset<std::vector<uint64_t>>;

// Returns the shapes of matrices, grouped by the first part of the names that differs: "net.model",
// "net.ema".
std::map<std::string, Shapes> matrices_by_part(const TensorStore& tensors) {
  std::map<std::string, Shapes> parts;
  for (size_t common = 0; !tensors.tensors().empty();) {
    parts.clear();
    for (const StoredTensor& tensor : tensors.tensors()) {
      Shapes& shapes = parts[tensor.name.substr(0, tensor.name.find('.', common))];
      if (tensor.shape.size() > 1) shapes.insert(tensor.shape);
    }
    const std::string& first = parts.begin()->first;
    if (parts.size() > 1 || first == tensors.tensors()[0].name) break;
    common = first.size() + 1;
  }
  return parts;
}

bool are_alike(const Shapes& a, const Shapes& b) {
  return !a.empty() && a.size() <= 2 * b.size() && b.size() <= 2 * a.size() &&
         (std::ranges::includes(a, b) || std::ranges::includes(b, a));
}

// Keeps the tensors below `key`. Without a key, throws InputError if there are also averaged
// weights, as either may be the model.
void choose_weights(TensorStore& tensors, const std::string& key) {
  const std::map<std::string, Shapes> parts = matrices_by_part(tensors);
  if (!key.empty()) {
    TensorStore chosen = tensors.below(key);
    if (chosen.tensors().empty()) {
      std::vector<std::string> keys;
      for (const auto& [name, shapes] : parts) keys.push_back(name);
      keys.resize(std::min(keys.size(), kKeysNamed));
      throw InputError("{}: --state-dict {}: no tensor has this key: expected one of {}",
                       quote(tensors.source()), key, fmt::join(keys, ", "));
    }
    tensors = std::move(chosen);
    return;
  }
  for (const auto& [average, shapes] : parts) {
    if (!is_average(std::string_view(average).substr(average.rfind('.') + 1))) continue;
    for (const auto& [other, others] : parts) {
      if (other == average || !are_alike(shapes, others)) continue;
      throw InputError(
          "{} holds two sets of weights, below {} and {}: choose one with --state-dict {} or "
          "--state-dict {}",
          quote(tensors.source()), quote(other), quote(average), other, average);
    }
  }
}

// Translates the params.json of Meta's programs to the fields of config.json. Refuses unknown
// fields, as they could change the computation.
json meta_config(const fs::path& file) {
  constexpr const char* kKept[] = {"dim",        "n_layers", "n_heads",
                                   "n_kv_heads", "norm_eps", "rope_theta"};
  constexpr const char* kOfTraining[] = {"multiple_of", "ffn_dim_multiplier", "max_batch_size",
                                         "max_seq_len"};
  ConfigFields fields(read_json_object(file), quote(file.string()));
  const json params = read_json_object(file);
  json config = {{"activation", "silu"}, {"norm_first", true}};
  for (const char* field : kKept) {
    if (fields.has(field)) config[field] = params[field];
    fields.pass_over(field);
  }
  fields.pass_over(kOfTraining);  // the shapes determine the product of the first two
  fields.pass_over("vocab_size");
  if (fields.has("vocab_size") && !fields.equals("vocab_size", -1)) {
    config["vocab_size"] = params["vocab_size"];
  }
  if (fields.flag("use_scaled_rope", false)) {  // Source: the reference code of Llama 3.1
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", fields.positive("rope_scaling_factor", 8.0)},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", fields.positive("rope_high_freq_factor", 4.0)},
                              {"original_max_position_embeddings", 8192}};
  }
  fields.finish();
  return config;
}

bool is_adapter(const TensorStore& tensors) {
  return !tensors.tensors().empty() &&
         std::ranges::all_of(tensors.tensors(), [](const StoredTensor& tensor) {
           return tensor.name.starts_with(kAdapterTensors);
         });
}

}  // namespace

std::string Opened::where() const { return quote(path.string()); }

std::string Opened::model_type() const {
  if (!config || !config->contains("model_type")) return "";
  const json& type = (*config)["model_type"];
  return type.is_string() ? type.get<std::string>() : show(type);
}

ConfigFields Opened::config_fields() const {
  const fs::path file = folder / config_name;
  if (!config) throw InputError("{} is missing: {} needs it", quote(file.string()), where());
  return {*config, quote(file.string())};
}

Opened open_model(const fs::path& path, const std::string& state_dict) {
  Opened opened;
  opened.path = path;
  if (!is_there(path)) {
    if (is_hub_id(path)) refuse_hub_id(path);
    FileMap{path};  // says why it cannot be read
  }
  if (fs::is_directory(path)) {
    const fs::path file = only_checkpoint(path);
    if (!file.empty()) return open_model(file, state_dict);
  }
  opened.folder = fs::is_directory(path) ? path : path.parent_path();
  const bool is_whole_folder = opened.is_folder() || path.filename() == kConfig;
  if (!is_whole_folder) open_weights(path, opened, !state_dict.empty());
  if (opened.gguf || opened.llama2c || opened.exported)
    return opened;  // these say all of it themselves
  if (is_there(opened.folder / kConfig)) opened.config = read_json_object(opened.folder / kConfig);
  if (is_whole_folder) open_folder(opened, !state_dict.empty());
  if (!state_dict.empty() || opened.model_type().empty()) {
    choose_weights(opened.tensors, state_dict);
  }
  const fs::path params = opened.folder / kMetaConfig;
  if (!opened.config && opened.tensors.find(kMetaTokens) != nullptr && is_there(params)) {
    opened.config = meta_config(params);
    opened.config_name = kMetaConfig;
  }
  if (is_adapter(opened.tensors)) refuse_adapter(path, opened.folder);
  opened.has_adapter = is_whole_folder && is_there(opened.folder / kAdapterConfig);
  return opened;
}

}  // namespace arenite::convert
