// SPDX-License-Identifier: Apache-2.0
// The metadata of a GGUF file as fields, and its tokenizer: "llama" is SentencePiece, "gpt2"
// byte-level BPE.
#include "convert/gguf/gguf_file.h"

#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/tokenizers/subwords.h"
#include "format/tokenizer_reader.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

constexpr uint64_t kMetadataElementsMax = 4096;  // one for each layer, mostly

// Converts non-negative integers to unsigned ones, as a JSON parser does.
template <typename Number>
json element(const GgufValue& value, uint64_t index) {
  Number number;
  std::memcpy(&number, value.data.data() + index * sizeof number, sizeof number);
  if constexpr (std::is_floating_point_v<Number>) {
    return double{number};
  } else if constexpr (std::is_signed_v<Number>) {
    if (number < 0) return int64_t{number};
  }
  return static_cast<uint64_t>(number);
}

json flag(const GgufValue& value, uint64_t index) { return value.data[index] != std::byte{0}; }

// Readers of elements, indexed by GgufType; strings and arrays are read elsewhere.
constexpr json (*kElements[])(const GgufValue& value, uint64_t index) = {
    element<uint8_t>,  element<int8_t>,  element<uint16_t>, element<int16_t>,
    element<uint32_t>, element<int32_t>, element<float>,    flag,
    nullptr,           nullptr,          element<uint64_t>, element<int64_t>,
    element<double>};
static_assert(std::size(kElements) == static_cast<size_t>(GgufType::kF64) + 1);

json json_value(const GgufValue& value) {
  const auto read = kElements[static_cast<size_t>(value.type)];
  if (!value.is_array && read != nullptr) return read(value, 0);
  json array = json::array();
  if (value.type == GgufType::kString) {
    for_each_string(value, [&](std::string_view text) { array.push_back(text); });
  } else {
    for (uint64_t i = 0; i < value.count; ++i) array.push_back(read(value, i));
  }
  return value.is_array ? array : array[0];
}

}  // namespace

ConfigFields gguf_fields(const GgufFile& file) {
  json object = json::object();
  uint64_t elements = 0;
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with("tokenizer.")) continue;
    if (key.starts_with("general.") && key != "general.architecture") continue;
    if (value.count > kMetadataElementsMax) {
      throw InputError("{}: metadata {} has {} elements: at most {} are expected",
                       quote(file.file_name()), quote(key), value.count, kMetadataElementsMax);
    }
    elements += value.count;
    if (elements > kGgufElementsMax) {
      throw InputError("{}: its metadata have more than {} elements in total",
                       quote(file.file_name()), kGgufElementsMax);
    }
    object[key] = json_value(value);
  }
  return ConfigFields(std::move(object), fmt::format("{}, metadata", quote(file.file_name())));
}

// ---- the tokenizer ----

namespace {

// Returns nullptr if absent.
const GgufValue* find(const GgufFile& file, const char* key, GgufType type, bool is_array) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) return nullptr;
  if (found->second.type != type || found->second.is_array != is_array) {
    throw InputError("{}: metadata '{}' is {} of type {}: expected {} of type {}",
                     quote(file.file_name()), key, found->second.is_array ? "an array" : "a value",
                     static_cast<uint32_t>(found->second.type), is_array ? "an array" : "a value",
                     static_cast<uint32_t>(type));
  }
  return &found->second;
}

// Returns an array, or a single value as one element; empty if absent.
std::vector<std::string> texts(const GgufFile& file, const char* key, bool is_array,
                               uint64_t count_max) {
  const GgufValue* value = find(file, key, GgufType::kString, is_array);
  std::vector<std::string> found;
  if (value == nullptr) return found;
  if (value->count > count_max) {
    throw InputError("{}: metadata '{}' has {} elements: at most {} are accepted",
                     quote(file.file_name()), key, value->count, count_max);
  }
  found.reserve(static_cast<size_t>(value->count));  // each has 8 bytes of the file at least
  for_each_string(*value, [&](std::string_view text) { found.emplace_back(text); });
  return found;
}

std::string text(const GgufFile& file, const char* key) {
  const std::vector<std::string> found = texts(file, key, false, 1);
  return found.empty() ? "" : found[0];
}

// Returns one number for each token, or none.
template <typename Number>
std::vector<Number> numbers(const GgufFile& file, const char* key, GgufType type, size_t tokens) {
  const GgufValue* value = find(file, key, type, true);
  if (value == nullptr || value->count == 0) return {};
  if (value->count != tokens) {
    throw InputError("{}: metadata '{}' has {} elements: expected {}, one for each token",
                     quote(file.file_name()), key, value->count, tokens);
  }
  std::vector<Number> found(tokens);
  std::memcpy(found.data(), value->data.data(), value->data.size());
  return found;
}

template <typename Number>
std::optional<Number> number(const GgufFile& file, const char* key, GgufType type) {
  const GgufValue* value = find(file, key, type, false);
  if (value == nullptr) return std::nullopt;
  Number found{};
  std::memcpy(&found, value->data.data(), sizeof found);
  return found;
}

struct KnownPattern {
  const char* names;      // of tokenizer.ggml.pre, with a space before and after each
  const char* splits[5];  // steps of the pre-tokenizer, as in the tokenizer.json of these models
  bool whole_tokens = false;  // a piece that is a token is not merged
  bool add_bos = false;       // unless the file says otherwise
  bool expects_nfc = false;   // the model's own tokenizer normalizes its texts
};

constexpr KnownPattern kPatterns[] = {
    {"  ", {kGpt2Split}},  // of files older than the field
    {" gpt-2 phi-2 mpt olmo jais mellum ", {kGpt2Split}},
    {" llama-bpe llama3 llama-v3 falcon3 lfm2 pixtral ", {kLlama3Split}, true, true},
    {" dbrx smaug-bpe glm4 chatglm-bpe ", {kLlama3Split}},
    {" qwen2 deepseek-r1-qwen ", {kQwen2Split}, false, false, true},
    {" qwen35 ",
     {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
      R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     false,
     false,
     true},
    {" smollm starcoder refact codeshell exaone ", {kDigitSplit, kGpt2Split}},
    {" gpt-4o llama4 ",
     {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
      R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
      R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {" tekken ",
     {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
      R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
      R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     true,
     true},
    {" deepseek-v3 hunyuan-dense ",
     {R"(\p{N}{1,3})", R"([\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+)",
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
      R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
    {" deepseek-coder ",
     {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+)",
      kDigitSplit}},
    {" falcon ", {R"([\p{P}$+<=>^~|`]+)", kGpt2Split, "[0-9][0-9][0-9]"}},
    {" bloom poro-chat gpt3-finnish ",
     {R"( ?[^(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+)"}},
};

PieceType type_of(const GgufTokenizer& tokens, size_t index, const std::string& origin) {
  if (tokens.types.empty()) return PieceType::kNormal;
  const int32_t type = tokens.types[index];
  if (type < 1 || type > 6) {
    throw InputError("{}, tokenizer.ggml.token_type[{}]: found {}: expected 1 to 6", quote(origin),
                     index, type);
  }
  return static_cast<PieceType>(type);
}

void fill_llama(TokenizerSpec& spec, const GgufTokenizer& tokens) {
  if (tokens.scores.empty()) {
    throw InputError("{}: tokenizer.ggml.scores is missing: a tokenizer of model 'llama' needs it",
                     quote(spec.origin));
  }
  std::vector<SentencePiece> pieces;
  for (size_t i = 0; i < tokens.tokens.size(); ++i) {
    pieces.push_back({tokens.tokens[i], tokens.scores[i], type_of(tokens, i, spec.origin)});
  }
  fill_sentence_pieces(spec, pieces, true);
  spec.unknown =
      spec.unknown_token == kNoToken ? format::Unknown::kRefuse : format::Unknown::kToken;
  spec.flags = format::kFuseUnknown;
  if (tokens.add_space_prefix.value_or(true)) {
    spec.prefix = format::Prefix::kAlways;
    spec.flags |= format::kPrefixEveryPart | format::kDropFirstSpace;
  }
}

void fill_gpt2(TokenizerSpec& spec, const GgufTokenizer& tokens, const KnownPattern& known) {
  Vocabulary vocabulary;
  for (TokenId id = 0; id < tokens.tokens.size(); ++id) {
    const PieceType type = type_of(tokens, id, spec.origin);
    if (!vocabulary.emplace(tokens.tokens[id], id).second) {
      throw InputError("{}: token {} repeats {}: expected each text once", quote(spec.origin), id,
                       quote(tokens.tokens[id]));
    }
    if (type == PieceType::kControl || type == PieceType::kUnknown) spec.specials[id] = 0;
    if (type == PieceType::kUserDefined) {
      spec.specials[id] = format::kReadAlways | format::kIsText;
    }
  }
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string& line : tokens.merges) merges.push_back(split_merge(line, spec.origin));
  fill_byte_pairs(spec, vocabulary, merges);
  // Special tokens are stored as plain text, not in the byte-level alphabet.
  for (const auto& [id, flags] : spec.specials) spec.tokens[id] = tokens.tokens[id];
  for (const char* split : known.splits) {
    if (split != nullptr) spec.splits.push_back({split});
  }
  if (known.expects_nfc) spec.flags |= format::kExpectsNfc;
  if (!known.whole_tokens) return;
  for (TokenId id = 0; id < spec.tokens.size(); ++id) {
    if (!spec.specials.contains(id)) spec.whole_tokens.push_back(id);
  }
}

const KnownPattern& known_pattern(const GgufTokenizer& tokens, const std::string& origin) {
  std::string names;
  for (const KnownPattern& known : kPatterns) {
    const std::string_view of_row = known.names;
    const std::string name = fmt::format(" {} ", tokens.pre_tokenizer);
    if (of_row.find(name) != std::string_view::npos) return known;
    names += of_row.substr(1);
  }
  throw InputError("{}: tokenizer.ggml.pre is {}: supported are {}", quote(origin),
                   quote(tokens.pre_tokenizer), names);
}

// A file of model "llama" without ids has SentencePiece's default ids, as in llama.cpp.
std::optional<TokenId> id_or(std::optional<uint32_t> given, const GgufTokenizer& tokens,
                             TokenId usual) {
  if (!given && tokens.model == "llama" && usual < tokens.tokens.size()) return usual;
  return given && *given != kNoToken ? given : std::nullopt;  // -1 says that there is none
}

void put_tokens_around(TokenizerSpec& spec, const GgufTokenizer& tokens, bool add_bos) {
  const std::optional<TokenId> bos = id_or(tokens.bos_id, tokens, 1);
  const std::optional<TokenId> eos = id_or(tokens.eos_id, tokens, 2);
  if (bos) spec.bos = *bos;
  if (eos) spec.ends = {*eos};
  const struct {
    bool is_wanted, is_there;
    uint32_t flag;
    const char* field;
    const char* place;
  } additions[] = {
      {tokens.add_bos.value_or(add_bos && bos), bos.has_value(), format::kAddBos, "bos", "begin"},
      {tokens.add_eos.value_or(false), eos.has_value(), format::kAddEnd, "eos", "end"}};
  for (const auto& addition : additions) {
    if (!addition.is_wanted) continue;
    if (addition.is_there) {
      spec.flags |= addition.flag;
      continue;
    }
    spec.notes.push_back(
        fmt::format("tokenizer.ggml.add_{0}_token is true, but {0}_token_id is missing: texts {1} "
                    "with no token",
                    addition.field, addition.place));
  }
}

}  // namespace

GgufTokenizer read_gguf_tokenizer(const GgufFile& file) {
  GgufTokenizer tokenizer;
  tokenizer.model = text(file, "tokenizer.ggml.model");
  tokenizer.pre_tokenizer = text(file, "tokenizer.ggml.pre");
  tokenizer.tokens = texts(file, "tokenizer.ggml.tokens", true, format::kVocabularyMax);
  tokenizer.merges = texts(file, "tokenizer.ggml.merges", true, format::kMergesMax);
  const auto id = [&](const char* key) { return number<uint32_t>(file, key, GgufType::kU32); };
  tokenizer.bos_id = id("tokenizer.ggml.bos_token_id");
  tokenizer.eos_id = id("tokenizer.ggml.eos_token_id");
  tokenizer.unknown_id = id("tokenizer.ggml.unknown_token_id");
  tokenizer.padding_id = id("tokenizer.ggml.padding_token_id");
  const auto flag = [&](const char* key) -> std::optional<bool> {
    const auto byte = number<uint8_t>(file, key, GgufType::kBool);
    return byte ? std::optional(*byte != 0) : std::nullopt;
  };
  tokenizer.add_bos = flag("tokenizer.ggml.add_bos_token");
  tokenizer.add_eos = flag("tokenizer.ggml.add_eos_token");
  tokenizer.add_space_prefix = flag("tokenizer.ggml.add_space_prefix");
  const size_t tokens = tokenizer.tokens.size();
  tokenizer.scores = numbers<float>(file, "tokenizer.ggml.scores", GgufType::kF32, tokens);
  tokenizer.types = numbers<int32_t>(file, "tokenizer.ggml.token_type", GgufType::kI32, tokens);
  return tokenizer;
}

TokenizerSpec understand_gguf_tokenizer(const GgufTokenizer& tokens, const std::string& origin) {
  TokenizerSpec spec;
  spec.origin = origin;
  bool add_bos = true;
  if (tokens.model == "llama") {
    fill_llama(spec, tokens);
  } else if (tokens.model == "gpt2") {
    const KnownPattern& known = known_pattern(tokens, origin);
    add_bos = known.add_bos;
    fill_gpt2(spec, tokens, known);
  } else {
    throw InputError("{}: tokenizer.ggml.model is {}: supported are 'llama' and 'gpt2'",
                     quote(origin), quote(tokens.model));
  }
  const auto given = [](std::optional<uint32_t> id) { return id && *id != kNoToken; };  // or -1
  if (given(tokens.unknown_id) && tokens.model == "llama") {
    spec.unknown_token = *tokens.unknown_id;
    spec.unknown = format::Unknown::kToken;
  }
  put_tokens_around(spec, tokens, add_bos);
  return spec;
}

}  // namespace arenite::convert
