// SPDX-License-Identifier: Apache-2.0
// Several files may name the same tokens; the tokenizer's own go first.
#include "convert/tokenizers/tokenizer_readers.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"
#include "convert/files/paths.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

TokenId find_token(const TokenizerSpec& spec, std::string_view content) {
  for (const auto& [id, flags] : spec.specials) {
    if (spec.tokens[id] == content) return id;
  }
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), content);
  return found == spec.tokens.end() ? kNoToken : static_cast<TokenId>(found - spec.tokens.begin());
}

// The token that a field names; kNoToken where it does not.
TokenId named_token(const TokenizerSpec& spec, const HfObject& config, std::string_view field) {
  if (!config.has(field)) return kNoToken;
  const TokenId id = find_token(spec, named_token_text(config, field));
  if (id == kNoToken) config.refuse(field, "a token of the vocabulary");
  return id;
}

// The ids that a field gives, a number or a list of them. One that is no token is left over: saving
// a model fills the field in from the family's defaults, whatever the vocabulary.
std::vector<TokenId> given_ids(const TokenizerSpec& spec, const HfObject& config,
                               std::string_view field) {
  if (!config.has(field)) return {};
  const json list =
      config.at(field).is_array() ? config.at(field) : json::array({config.at(field)});
  std::vector<TokenId> ids;
  for (const json& id : list) {
    if (!id.is_number_integer()) config.refuse(field, "an id, or a list of ids");
    if (id.is_number_unsigned() && id.get<uint64_t>() < spec.tokens.size()) {
      ids.push_back(id.get<TokenId>());
    }
  }
  return ids;
}

void add_ends(TokenizerSpec& spec, const std::vector<TokenId>& ids) {
  for (const TokenId id : ids) {
    if (spec.ends.size() > format::kEndsMax) return;  // it will be refused, however many they are
    if (std::find(spec.ends.begin(), spec.ends.end(), id) == spec.ends.end()) {
      spec.ends.push_back(id);
    }
  }
}

void apply_additions(TokenizerSpec& spec, const HfObject& config) {
  const struct {
    const char* field;
    bool has_token;
    uint32_t flag;
  } additions[] = {{"add_bos_token", spec.bos != kNoToken, format::kAddBos},
                   {"add_eos_token", !spec.ends.empty(), format::kAddEnd}};
  for (const auto& addition : additions) {
    if (!config.has(addition.field)) continue;
    spec.flags &= ~addition.flag;
    if (!config.flag(addition.field, false)) continue;
    if (!addition.has_token) config.refuse(addition.field, "false, as no such token is named");
    spec.flags |= addition.flag;
  }
}

// The files beside a tokenizer, each of which may name the tokens that begin and end a text.
class HfConfigs {
 public:
  HfConfigs(TokenizerSpec& spec, const std::filesystem::path& folder, FrameCheck* check)
      : spec_(spec), folder_(folder), check_(check) {}

  void read() {
    for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) read_names(name);
    for (const char* name : {"generation_config.json", "config.json"}) read_ids(name);
  }

  TokenId bos() const { return bos_; }
  const std::vector<TokenId>& ends() const { return ends_; }

 private:
  void read_names(const char* name) {
    const json value = read_optional_json(folder_ / name);
    const HfObject config(value, quote((folder_ / name).string()), "");
    const TokenId begin = named_token(spec_, config, "bos_token");
    const TokenId end = named_token(spec_, config, "eos_token");
    if (bos_ == kNoToken) bos_ = begin;
    if (ends_.empty() && end != kNoToken) ends_.push_back(end);
    if (check_ == nullptr) return;
    if (begin != kNoToken) check_->begin_is(config, "bos_token", {&begin, 1});
    if (end != kNoToken) check_->end_is(config, "eos_token", {&end, 1});
  }

  void read_ids(const char* name) {
    const json value = read_optional_json(folder_ / name);
    const HfObject config(value, quote((folder_ / name).string()), "");
    const std::vector<TokenId> begins = given_ids(spec_, config, "bos_token_id");
    const std::vector<TokenId> ends = given_ids(spec_, config, "eos_token_id");
    if (check_ != nullptr) {
      check_->begin_is(config, "bos_token_id", begins);
      check_->end_is(config, "eos_token_id", ends);
    }
    // A model's config repeats what the others say, or says it alone.
    const bool is_known = !ends_.empty() || !spec_.ends.empty();
    if (std::string_view(name) == "config.json" && is_known) return;
    ends_.insert(ends_.end(), ends.begin(), ends.end());
    if (bos_ == kNoToken && !begins.empty()) bos_ = begins.front();
  }

  TokenizerSpec& spec_;
  const std::filesystem::path& folder_;
  FrameCheck* check_;
  TokenId bos_ = kNoToken;
  std::vector<TokenId> ends_;
};

}  // namespace

json read_optional_json(const std::filesystem::path& file) {
  return is_there(file) ? read_json_object(file) : json::object();
}

std::string named_token_text(const HfObject& config, std::string_view field) {
  return config.at(field).is_object() ? config.object(field).text("content") : config.text(field);
}

void add_decoder_tokens(TokenizerSpec& spec, const HfObject& config) {
  if (!config.has("added_tokens_decoder")) return;
  const HfObject tokens = config.object("added_tokens_decoder");
  for (const auto& [key, value] : config.at("added_tokens_decoder").items()) {
    TokenId id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ptr != key.data() + key.size() || parsed.ec != std::errc() ||
        id >= format::kVocabularyMax) {
      tokens.refuse(key, "a key that is the token's id");
    }
    const HfObject token = tokens.object(key);
    token.expect("single_word", false, true);
    if (id >= spec.tokens.size()) spec.tokens.resize(size_t{id} + 1);
    const std::string content = token.text("content");
    if (!spec.tokens[id].empty() && spec.tokens[id] != content) {
      token.refuse("content", fmt::format("{}, as in the vocabulary", quote(spec.tokens[id])));
    }
    spec.tokens[id] = content;
    // WordPiece looks for it in the text before or after lower case, by "normalized".
    const bool is_special = token.flag("special", false);
    if (spec.kind == format::TokenizerKind::kWordPiece && !is_special) {
      token.expect("normalized", false);
    }
    uint32_t flags = is_special ? 0 : format::kReadAlways | format::kIsText;
    if (token.flag("lstrip", false)) flags |= format::kEatsSpaceBefore;
    if (token.flag("rstrip", false)) flags |= format::kEatsSpaceBehind;
    spec.specials[id] = static_cast<uint8_t>(flags);
  }
}

void apply_hf_config(TokenizerSpec& spec, const std::filesystem::path& folder,
                     AroundText around_text) {
  const bool is_said = around_text == AroundText::kTokenizerSays;
  FrameCheck check(spec);
  HfConfigs configs(spec, folder, is_said ? &check : nullptr);
  configs.read();
  const bool keeps_begin = is_said && (spec.flags & format::kAddBos) != 0;
  if (configs.bos() != kNoToken && !keeps_begin) spec.bos = configs.bos();
  add_ends(spec, configs.ends());

  const json value = read_optional_json(folder / "tokenizer_config.json");
  const HfObject config(value, quote((folder / "tokenizer_config.json").string()), "");
  if (is_said) {
    check.check_additions(config);
  } else {
    apply_additions(spec, config);
  }
  // This class makes its own model from the vocabulary, and tells it of no unknown token:
  // characters that it cannot write, not even as bytes, vanish.
  const std::string name = config.has("tokenizer_class") ? config.text("tokenizer_class") : "";
  if (spec.kind == format::TokenizerKind::kSentencePieces &&
      (name == "LlamaTokenizer" || name == "LlamaTokenizerFast")) {
    spec.unknown = format::Unknown::kDrop;
  }
}

}  // namespace arenite::convert
