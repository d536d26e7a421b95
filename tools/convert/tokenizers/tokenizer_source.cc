// SPDX-License-Identifier: Apache-2.0
// The first two bytes tell the formats apart.
#include "convert/tokenizers/tokenizer_source.h"

#include <fstream>

#include "convert/decoders/json_file.h"
#include "convert/error.h"
#include "convert/tokenizers/character_vocabulary.h"
#include "convert/tokenizers/gguf_tokens.h"
#include "convert/tokenizers/hf_config.h"
#include "convert/tokenizers/hf_tokenizer_json.h"
#include "convert/tokenizers/llama2c_tokenizer.h"
#include "convert/tokenizers/sentencepiece_model.h"
#include "convert/tokenizers/tokenizer_compiler.h"

namespace arenite::convert {
namespace {

// What a model's folder may hold, the most telling first.
const char* const kFileNames[] = {"tokenizer.json", "tokenizer.model", "vocab.json",
                                  "tokenizer.bin", "meta.pkl"};

TokenizerSpec read_json_tokenizer(const std::filesystem::path& file) {
  const bool has_model = read_json_object(file).contains("model");
  TokenizerSpec spec = has_model ? read_hf_tokenizer_json(file) : read_vocab_json(file);
  if (spec.kind != format::TokenizerKind::kCharacters) apply_hf_config(spec, file.parent_path());
  return spec;
}

std::optional<TokenizerSpec> tokenizer_beside(const std::filesystem::path& path, DecoderKind kind) {
  const std::filesystem::path folder =
      std::filesystem::is_directory(path) ? path : path.parent_path();
  if (kind == DecoderKind::kHuggingFace) return find_tokenizer(folder);
  const char* const name = kind == DecoderKind::kLlama2c ? "tokenizer.bin" : "meta.pkl";
  if (kind == DecoderKind::kGguf || !std::filesystem::exists(folder / name)) return std::nullopt;
  return read_tokenizer(folder / name);
}

// Where the tokenizer's own files do not say which tokens begin and end a text.
void add_model_tokens(const DecoderSpec& model, TokenizerSpec& spec) {
  if (!spec.ends.empty()) return;
  for (const uint32_t id : model.eos_ids) {
    if (id < spec.tokens.size()) spec.ends.push_back(id);
  }
}

}  // namespace

TokenizerSpec read_tokenizer(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw InputError("{} cannot be opened", quote(file.string()));
  const int first = in.get();
  const int second = in.get();
  if (second == std::char_traits<char>::eof()) {
    throw InputError("{} is too short for a tokenizer", quote(file.string()));
  }
  if (first == '{') return read_json_tokenizer(file);
  if (first == 0x80 && second >= 2 && second <= 5) return read_character_pickle(file);
  if (first == 0x0A && second != 0) {  // the first field of a message: a piece, not empty
    TokenizerSpec spec = read_sentencepiece_model(file);
    apply_hf_config(spec, file.parent_path());
    return spec;
  }
  return read_llama2c_tokenizer(file);  // it begins with a small number in four bytes
}

std::optional<TokenizerSpec> find_tokenizer(const std::filesystem::path& folder) {
  for (const char* name : kFileNames) {
    const std::filesystem::path file = folder / name;
    if (std::filesystem::exists(file)) return read_tokenizer(file);
  }
  return std::nullopt;
}

std::optional<TokenizerSpec> tokenizer_for(const std::filesystem::path& path,
                                           const std::filesystem::path& chosen,
                                           const DecoderSource& source) {
  std::optional<TokenizerSpec> spec;
  if (!chosen.empty()) {
    spec = read_tokenizer(chosen);
  } else if (source.tokenizer) {
    spec = understand_gguf_tokenizer(*source.tokenizer, path.string());
  } else {
    spec = tokenizer_beside(path, source.kind);
  }
  if (!spec) return std::nullopt;
  const uint32_t vocab_size = source.spec.vocab_size;
  if (spec->tokens.size() > vocab_size) {
    throw InputError(
        "{}: the tokenizer has {} tokens, and the model {} knows {}: expected the tokenizer that "
        "the model was trained with",
        quote(spec->origin), spec->tokens.size(), quote(path.string()), vocab_size);
  }
  add_model_tokens(source.spec, *spec);
  complete_tokenizer(*spec);
  return spec;
}

}  // namespace arenite::convert
