// SPDX-License-Identifier: Apache-2.0
// Tells the forms of decoder models apart.
#include "convert/families/decoder_source.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "convert/families/gpt_state_dict.h"
#include "convert/families/hf_folder.h"
#include "convert/families/llama2c.h"
#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/files/file_map.h"
#include "convert/files/json_file.h"
#include "convert/gguf/gguf_decoder.h"
#include "convert/gguf/gguf_file.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;

DecoderSource open_hugging_face(const fs::path& folder, const fs::path& weights) {
  return {
      .kind = DecoderKind::kHuggingFace, .spec = read_hf_folder(folder, weights), .tokenizer = {}};
}

DecoderSource open_gguf(const fs::path& path) {
  const std::shared_ptr<const GgufFile> file = GgufFile::read(path);
  DecoderSource source{
      .kind = DecoderKind::kGguf, .spec = read_gguf_decoder(file), .tokenizer = {}};
  GgufTokenizer tokenizer = read_gguf_tokenizer(*file);
  if (!tokenizer.tokens.empty()) source.tokenizer = std::move(tokenizer);
  return source;
}

// Options stand in for what a file does not say, and must not contradict what it does say.
void check_options(const DecoderSource& source, const ModelOptions& options, const fs::path& path) {
  if (options.heads != 0 && options.heads != source.spec.heads) {
    throw InputError("{}: {} heads were asked for, but the model has {}: drop the option",
                     quote(path.string()), options.heads, source.spec.heads);
  }
  if (options.activation && *options.activation != source.spec.activation) {
    throw InputError(
        "{}: the model says which activation it has, and it is another one than the "
        "one asked for: drop the option",
        quote(path.string()));
  }
  if (options.norm_first) {
    throw InputError(
        "{}: --norm-{}: the model's own config says what this model computes: drop the option",
        quote(path.string()), *options.norm_first ? "first" : "last");
  }
  refuse_options_of_state_dicts(options, quote(path.string()));
}

// Training programs, too, leave files of this name beside their weights.
bool has_model_config(const fs::path& folder) {
  const fs::path config = folder / "config.json";
  return fs::exists(config) && read_json_object(config).contains("model_type");
}

DecoderSource recognise(const fs::path& path, const ModelOptions& options) {
  if (fs::is_directory(path)) {
    if (!fs::exists(path / "config.json")) {
      throw InputError(
          "{} has no config.json: expected a folder that transformers' save_pretrained wrote",
          quote(path.string()));
    }
    return open_hugging_face(path, {});
  }
  {
    const FileMap map(path);
    if (is_gguf(map.bytes())) return open_gguf(path);
    if (is_llama2c(map.bytes())) {
      return {.kind = DecoderKind::kLlama2c, .spec = read_llama2c(path), .tokenizer = {}};
    }
  }
  if (path.filename() == "config.json") return open_hugging_face(path.parent_path(), {});
  if (path.extension() == ".json" || has_model_config(path.parent_path())) {
    return open_hugging_face(path.parent_path(), path);
  }
  const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::read(path));
  const fs::path config = path.parent_path() / "config.json";
  GptStateDict model =
      read_gpt_state_dict(checkpoint, fs::exists(config) ? config : fs::path(), options);
  return {.kind = DecoderKind::kStateDict,
          .spec = std::move(model.spec),
          .tokenizer = {},
          .account = std::move(model.account)};
}

}  // namespace

const char* name(DecoderKind kind) {
  switch (kind) {
    case DecoderKind::kHuggingFace:
      return "Hugging Face";
    case DecoderKind::kGguf:
      return "GGUF";
    case DecoderKind::kLlama2c:
      return "llama2.c";
    case DecoderKind::kStateDict:
      return "a state dict";
  }
  return "";
}

bool holds_decoder(const fs::path& path) {
  if (fs::is_directory(path)) return true;
  {
    const FileMap map(path);
    if (is_gguf(map.bytes()) || is_llama2c(map.bytes())) return true;
  }
  if (path.extension() == ".json" || has_model_config(path.parent_path())) return true;
  const Checkpoint checkpoint = Checkpoint::read(path);
  return std::ranges::any_of(checkpoint.tensors(), [](const CheckpointTensor& tensor) {
    return tensor.name.ends_with("wte.weight") || tensor.name.ends_with("tok_emb.weight");
  });
}

DecoderSource open_decoder(const fs::path& path, const ModelOptions& options) {
  if (options.pooling) {
    throw InputError("{}: --pooling is for encoders, and this is a decoder: drop the option",
                     quote(path.string()));
  }
  DecoderSource source = recognise(path, options);
  if (source.kind != DecoderKind::kStateDict) check_options(source, options, path);
  return source;
}

}  // namespace arenite::convert
