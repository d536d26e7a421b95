// SPDX-License-Identifier: Apache-2.0
// Copies a GGUF file's tokenizer out of its metadata.
#include "convert/gguf/gguf_tokenizer.h"

#include <cstring>
#include <string_view>

#include "convert/files/error.h"
#include "convert/gguf/gguf_decoder.h"
#include "format/tokenizer_reader.h"

namespace arenite::convert {
namespace {

class TokenizerReader {
 public:
  explicit TokenizerReader(const GgufFile& file) : file_(file) {}

  std::string text(const char* key) const {
    const GgufValue* value = find(key, GgufType::kString, false);
    std::string found;
    if (value != nullptr) for_each_string(*value, [&](std::string_view text) { found = text; });
    return found;
  }

  std::vector<std::string> texts(const char* key, uint64_t count_max) const {
    const GgufValue* value = find(key, GgufType::kString, true);
    std::vector<std::string> found;
    if (value == nullptr) return found;
    if (value->count > count_max) {
      throw InputError("{}: metadata '{}' has {} elements: at most {} are accepted",
                       quote(file_.file_name()), key, value->count, count_max);
    }
    found.reserve(static_cast<size_t>(value->count));  // each has 8 bytes of the file at least
    for_each_string(*value, [&](std::string_view text) { found.emplace_back(text); });
    return found;
  }

  template <typename Number>
  std::vector<Number> numbers(const char* key, GgufType type) const {
    const GgufValue* value = find(key, type, true);
    std::vector<Number> found;
    if (value == nullptr) return found;
    found.resize(static_cast<size_t>(value->count));
    if (!found.empty()) std::memcpy(found.data(), value->data.data(), value->data.size());
    return found;
  }

  std::optional<uint32_t> id(const char* key) const {
    const GgufValue* value = find(key, GgufType::kU32, false);
    if (value == nullptr) return std::nullopt;
    uint32_t found = 0;
    std::memcpy(&found, value->data.data(), sizeof found);
    return found;
  }

  std::optional<bool> flag(const char* key) const {
    const GgufValue* value = find(key, GgufType::kBool, false);
    if (value == nullptr) return std::nullopt;
    return value->data[0] != std::byte{0};
  }

 private:
  const GgufValue* find(const char* key, GgufType type, bool is_array) const {
    const auto found = file_.metadata().find(key);
    if (found == file_.metadata().end()) return nullptr;
    if (found->second.type != type || found->second.is_array != is_array) {
      throw InputError("{}: metadata '{}' is {} of type {}: expected {} of type {}",
                       quote(file_.file_name()), key,
                       found->second.is_array ? "an array" : "a value",
                       static_cast<uint32_t>(found->second.type), is_array ? "an array" : "a value",
                       static_cast<uint32_t>(type));
    }
    return &found->second;
  }

  const GgufFile& file_;
};

void check_length(const GgufFile& file, const char* key, size_t found, size_t tokens) {
  if (found == 0 || found == tokens) return;
  throw InputError("{}: metadata '{}' has {} elements: expected {}, one for each token",
                   quote(file.file_name()), key, found, tokens);
}

}  // namespace

GgufTokenizer read_gguf_tokenizer(const GgufFile& file) {
  const TokenizerReader reader(file);
  GgufTokenizer tokenizer;
  tokenizer.model = reader.text("tokenizer.ggml.model");
  tokenizer.pre_tokenizer = reader.text("tokenizer.ggml.pre");
  tokenizer.tokens = reader.texts("tokenizer.ggml.tokens", format::kVocabularyMax);
  tokenizer.scores = reader.numbers<float>("tokenizer.ggml.scores", GgufType::kF32);
  tokenizer.types = reader.numbers<int32_t>("tokenizer.ggml.token_type", GgufType::kI32);
  tokenizer.merges = reader.texts("tokenizer.ggml.merges", format::kMergesMax);
  tokenizer.bos_id = reader.id("tokenizer.ggml.bos_token_id");
  tokenizer.eos_id = reader.id("tokenizer.ggml.eos_token_id");
  tokenizer.unknown_id = reader.id("tokenizer.ggml.unknown_token_id");
  tokenizer.padding_id = reader.id("tokenizer.ggml.padding_token_id");
  tokenizer.add_bos = reader.flag("tokenizer.ggml.add_bos_token");
  tokenizer.add_eos = reader.flag("tokenizer.ggml.add_eos_token");
  tokenizer.add_space_prefix = reader.flag("tokenizer.ggml.add_space_prefix");
  check_length(file, "tokenizer.ggml.scores", tokenizer.scores.size(), tokenizer.tokens.size());
  check_length(file, "tokenizer.ggml.token_type", tokenizer.types.size(), tokenizer.tokens.size());
  return tokenizer;
}

}  // namespace arenite::convert
