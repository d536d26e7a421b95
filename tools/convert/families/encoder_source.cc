// SPDX-License-Identifier: Apache-2.0
// Tells the forms of encoder models apart.
#include "convert/families/encoder_source.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "convert/families/hf_encoder.h"
#include "convert/families/llama2c.h"
#include "convert/families/sentence_transformers.h"
#include "convert/families/torch_encoder.h"
#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/files/file_map.h"
#include "convert/files/json_file.h"
#include "convert/gguf/gguf_file.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kStateDicts[] = {"model.safetensors", "model.pt", "pytorch_model.bin"};

// The folder in which the config of `path` would be.
fs::path folder_of(const fs::path& path) {
  return fs::is_directory(path) ? path : path.parent_path();
}

// Of the config in `folder`; nullopt: there is none, or it has no such field.
std::optional<std::string> model_type(const fs::path& folder) {
  if (!fs::exists(folder / kConfig)) return std::nullopt;
  const nlohmann::json config = read_json_object(folder / kConfig);
  const auto type = config.find("model_type");
  if (type == config.end()) return std::nullopt;
  return type->is_string() ? type->get<std::string>() : "";
}

// The file of `path` that may hold a state dict; empty: none.
fs::path state_dict_of(const fs::path& path) {
  if (fs::is_directory(path)) {
    for (const char* name : kStateDicts) {
      if (fs::exists(path / name)) return path / name;
    }
    return {};
  }
  if (path.extension() == ".json") return {};
  const FileMap map(path);
  return is_gguf(map.bytes()) || is_llama2c(map.bytes()) ? fs::path() : path;
}

bool is_sentence_transformers_path(const fs::path& path) {
  return fs::is_directory(path) && is_sentence_transformers(path);
}

}  // namespace

const char* name(EncoderKind kind) {
  switch (kind) {
    case EncoderKind::kHuggingFace:
      return "Hugging Face";
    case EncoderKind::kSentenceTransformers:
      return "sentence-transformers";
    case EncoderKind::kStateDict:
      return "a state dict";
  }
  return "";
}

bool holds_encoder(const fs::path& path) {
  if (is_sentence_transformers_path(path)) return true;
  const fs::path state_dict = state_dict_of(path);
  const bool is_json = path.extension() == ".json";
  if (state_dict.empty() && !is_json && !fs::is_directory(path)) return false;
  if (const auto type = model_type(folder_of(path))) return is_encoder_type(*type);
  return !state_dict.empty() && holds_torch_encoder(Checkpoint::read(state_dict));
}

EncoderSource open_encoder(const fs::path& path, const ModelOptions& options) {
  const bool is_configured = is_sentence_transformers_path(path) || model_type(folder_of(path));
  if (is_configured) refuse_options_of_state_dicts(options, quote(path.string()));
  if (is_sentence_transformers_path(path)) {
    SentenceTransformers model = read_sentence_transformers(path, options);
    return {.kind = EncoderKind::kSentenceTransformers,
            .spec = std::move(model.spec),
            .tokenizer_folder = std::move(model.tokenizer_folder),
            .lowers_case = model.lowers_case};
  }
  const fs::path folder = folder_of(path);
  if (model_type(folder)) {
    const bool is_whole_folder = fs::is_directory(path) || path.filename() == kConfig;
    return {.kind = EncoderKind::kHuggingFace,
            .spec = read_hf_encoder_folder(folder, is_whole_folder ? fs::path() : path, options)};
  }
  const fs::path config = folder / kConfig;
  TorchEncoder model =
      read_torch_encoder(std::make_shared<const Checkpoint>(Checkpoint::read(state_dict_of(path))),
                         fs::exists(config) ? config : fs::path(), options);
  return {.kind = EncoderKind::kStateDict,
          .spec = std::move(model.spec),
          .account = std::move(model.account)};
}

}  // namespace arenite::convert
