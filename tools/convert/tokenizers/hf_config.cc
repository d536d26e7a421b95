// SPDX-License-Identifier: Apache-2.0
// Reads JSON configs next to a tokenizer. Several may name the same tokens; the tokenizer's own
// config takes precedence.
#include "convert/tokenizers/tokenizer_readers.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

// Compares the files next to a tokenizer.json with its post-processor, which takes precedence:
// transformers 5 encodes with it, whatever the configs say.
class FrameCheck {
 public:
  struct Side {
    const char* place;  // "begin" or "end"
    TokenId token;      // that the post-processor puts there
  };

  // `spec` has the post-processor's tokens, gets notes, and must outlive this object. If the
  // post-processor does not decide, nothing is compared.
  FrameCheck(TokenizerSpec& spec, bool decides)
      : begin{"begin", decides && (spec.flags & format::kAddBos) != 0 ? spec.bos : kNoToken},
        end{"end", decides && (spec.flags & format::kAddEnd) != 0 ? spec.ends.front() : kNoToken},
        spec_(spec) {}

  // Checks a field of `config` that names tokens that begin or end a text. If the post-processor
  // adds none there, the field only names tokens. A list of end tokens may include others.
  void is(const Side& side, const HfObject& config, std::string_view field,
          const std::vector<TokenId>& tokens) {
    if (side.token == kNoToken || tokens.empty()) return;
    if (std::ranges::count(tokens, side.token) == 0) note(side, config, field);
  }

  // Checks "add_bos_token" and "add_eos_token", which say whether a token is added.
  void is_added(const Side& side, const HfObject& config, std::string_view field) {
    const bool has_token = side.token != kNoToken;
    if (config.flag(field, has_token) != has_token) note(side, config, field);
  }

  const Side begin, end;

 private:
  void note(const Side& side, const HfObject& config, std::string_view field) {
    const bool is_known = side.token < spec_.tokens.size();
    const std::string with =
        side.token == kNoToken
            ? "no token"
            : fmt::format("token {}, {}", side.token,
                          is_known ? quote(spec_.tokens[side.token]) : "unknown");
    spec_.notes.push_back(fmt::format("{}: {} is {}; but texts {} with {}, as {} says",
                                      config.file_name(), field, show(config.at(field)), side.place,
                                      with, quote(spec_.origin)));
  }

  TokenizerSpec& spec_;
};

TokenId find_token(const TokenizerSpec& spec, std::string_view content) {
  for (const auto& [id, flags] : spec.specials) {
    if (spec.tokens[id] == content) return id;
  }
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), content);
  return found == spec.tokens.end() ? kNoToken : static_cast<TokenId>(found - spec.tokens.begin());
}

// Returns the token that a field names, or nothing.
std::vector<TokenId> named_token(const TokenizerSpec& spec, const HfObject& config,
                                 std::string_view field) {
  if (!config.has(field)) return {};
  const TokenId id = find_token(spec, named_token_text(config, field));
  if (id == kNoToken) config.refuse(field, "a token of the vocabulary");
  return {id};
}

// Returns the ids in a field, a number or a list. An id without a token is ignored: saving a model
// fills the field with the family's defaults, whatever the vocabulary.
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
    if (!addition.has_token) config.refuse(addition.field, "false, as no such token is defined");
    spec.flags |= addition.flag;
  }
}

}  // namespace

HfObject::HfObject(const std::filesystem::path& file, bool may_lack)
    : owner_(std::make_shared<const json>(may_lack && !is_there(file) ? json::object()
                                                                      : read_json_object(file))),
      value_(owner_.get()),
      file_name_(quote(file.string())) {}

HfObject::HfObject(const HfObject& parent, const json& value, std::string place)
    : owner_(parent.owner_),
      value_(&value),
      file_name_(parent.file_name_),
      place_(std::move(place)) {
  if (!value.is_object()) {
    throw InputError("{}, {}: found {}: expected an object", file_name_, place_, show(value));
  }
}

void HfObject::expect_only(std::initializer_list<std::string_view> fields) const {
  for (const auto& [field, found] : value_->items()) {
    if (std::find(fields.begin(), fields.end(), field) != fields.end()) continue;
    throw InputError("{}, {}: field {} is unknown, and may change the tokens", file_name_, place_,
                     quote(field));
  }
}

bool HfObject::has(std::string_view field) const {
  const auto found = value_->find(field);
  return found != value_->end() && !found->is_null();
}

const json& HfObject::at(std::string_view field) const {
  if (!has(field)) throw InputError("{}, {}: field '{}' is missing", file_name_, place_, field);
  return *value_->find(field);
}

std::string HfObject::text(std::string_view field) const {
  if (!at(field).is_string()) refuse(field, "a string");
  return at(field).get<std::string>();
}

bool HfObject::flag(std::string_view field, bool otherwise) const {
  if (!has(field)) return otherwise;
  if (!at(field).is_boolean()) refuse(field, "true or false");
  return at(field).get<bool>();
}

std::string HfObject::place_of(std::string_view field) const {
  return fmt::format("{}{}{}", place_, place_.empty() ? "" : ".", printable(field));
}

HfObject HfObject::object(std::string_view field) const {
  return {*this, at(field), place_of(field)};
}

std::vector<HfObject> HfObject::list(std::string_view field, std::string_view expected) const {
  if (!at(field).is_array()) refuse(field, expected);
  std::vector<HfObject> elements;
  for (const json& element : at(field)) {
    elements.push_back({*this, element, fmt::format("{}[{}]", place_of(field), elements.size())});
  }
  return elements;
}

void HfObject::expect(std::string_view field, const json& value, bool may_lack) const {
  if (may_lack && !has(field)) return;
  if (at(field) != value) refuse(field, show(value));
}

void HfObject::refuse(std::string_view field, std::string_view expected) const {
  throw InputError("{}, {}: found {}: expected {}", file_name_, place_of(field),
                   has(field) ? show(at(field)) : "nothing", expected);
}

std::optional<TokenId> token_id(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= format::kVocabularyMax) return {};
  return value.get<TokenId>();
}

Vocabulary read_vocabulary(const HfObject& tokens) {
  Vocabulary vocabulary;
  for (const auto& [token, value] : tokens.value().items()) {
    const std::optional<TokenId> id = token_id(value);
    if (!id) tokens.refuse(token, fmt::format("an id from 0 to {}", format::kVocabularyMax - 1));
    vocabulary[token] = *id;
  }
  return vocabulary;
}

std::string named_token_text(const HfObject& config, std::string_view field) {
  return config.at(field).is_object() ? config.object(field).text("content") : config.text(field);
}

void add_decoder_tokens(TokenizerSpec& spec, const HfObject& config) {
  if (!config.has("added_tokens_decoder")) return;
  const HfObject tokens = config.object("added_tokens_decoder");
  for (const auto& [key, value] : tokens.value().items()) {
    TokenId id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ptr != key.data() + key.size() || parsed.ec != std::errc() ||
        id >= format::kVocabularyMax) {
      tokens.refuse(key, "a key that is the token's id");
    }
    const HfObject token = tokens.object(key);
    token.expect("single_word", false, true);
    if (id < spec.tokens.size() && !spec.tokens[id].empty() &&
        spec.tokens[id] != token.text("content")) {
      token.refuse("content", fmt::format("{}, as in the vocabulary", quote(spec.tokens[id])));
    }
    // WordPiece matches it in the text before or after lowercasing, depending on "normalized".
    if (spec.kind == format::TokenizerKind::kWordPiece && !token.flag("special", false)) {
      token.expect("normalized", false);
    }
    add_special(spec, id, token);
  }
}

void add_special(TokenizerSpec& spec, TokenId id, const HfObject& token) {
  if (id >= spec.tokens.size()) spec.tokens.resize(size_t{id} + 1);
  spec.tokens[id] = token.text("content");
  uint32_t flags = token.flag("special", false) ? 0 : format::kReadAlways | format::kIsText;
  if (token.flag("lstrip", false)) flags |= format::kEatsSpaceBefore;
  if (token.flag("rstrip", false)) flags |= format::kEatsSpaceBehind;
  if (token.flag("single_word", false)) flags |= format::kSingleWord;
  spec.specials[id] = static_cast<uint8_t>(flags);
}

void apply_hf_config(TokenizerSpec& spec, const std::filesystem::path& folder,
                     AroundText around_text) {
  const bool is_said = around_text == AroundText::kTokenizerSays;
  FrameCheck check(spec, is_said);
  TokenId bos = kNoToken;
  std::vector<TokenId> ends;
  const struct {
    const char* file;
    const char* begin;
    const char* end;
    std::vector<TokenId> (*tokens)(const TokenizerSpec&, const HfObject&, std::string_view);
    bool adds;  // to the ends that others name
  } sources[] = {{"tokenizer_config.json", "bos_token", "eos_token", named_token, false},
                 {"special_tokens_map.json", "bos_token", "eos_token", named_token, false},
                 {"generation_config.json", "bos_token_id", "eos_token_id", given_ids, true},
                 {"config.json", "bos_token_id", "eos_token_id", given_ids, false}};
  for (const auto& source : sources) {
    const HfObject config(folder / source.file, true);
    const std::vector<TokenId> begins = source.tokens(spec, config, source.begin);
    const std::vector<TokenId> found = source.tokens(spec, config, source.end);
    check.is(check.begin, config, source.begin, begins);
    check.is(check.end, config, source.end, found);
    const std::vector<TokenId> starts = source.tokens(spec, config, "decoder_start_token_id");
    if (source.tokens == given_ids && spec.start == kNoToken && !starts.empty()) {
      spec.start = starts.front();
    }
    // A model's config.json counts only if no other file names the tokens.
    const bool is_known = !ends.empty() || !spec.ends.empty();
    if (is_known && std::string_view(source.file) == "config.json") continue;
    if (ends.empty() || source.adds) ends.insert(ends.end(), found.begin(), found.end());
    if (bos == kNoToken && !begins.empty()) bos = begins.front();
  }
  const bool keeps_begin = is_said && (spec.flags & format::kAddBos) != 0;
  if (bos != kNoToken && !keeps_begin) spec.bos = bos;
  add_ends(spec, ends);

  const HfObject generation(folder / "generation_config.json", true);
  spec.suppressed = given_ids(spec, generation, "suppress_tokens");
  spec.suppressed_first = given_ids(spec, generation, "begin_suppress_tokens");

  const HfObject config(folder / "tokenizer_config.json", true);
  if (is_said) {
    check.is_added(check.begin, config, "add_bos_token");
    check.is_added(check.end, config, "add_eos_token");
  } else {
    apply_additions(spec, config);
  }
  // This class builds its own model from the vocabulary, without an unknown token. It drops
  // characters without a token or byte tokens.
  const std::string name = config.has("tokenizer_class") ? config.text("tokenizer_class") : "";
  if (spec.kind == format::TokenizerKind::kSentencePieces &&
      (name == "LlamaTokenizer" || name == "LlamaTokenizerFast")) {
    spec.unknown = format::Unknown::kDrop;
  }
}

void check_bert_config(TokenizerSpec& spec, const std::filesystem::path& folder) {
  const HfObject config(folder / "tokenizer_config.json", true);
  const struct {
    const char* field;
    bool found;
  } rules[] = {
      {"do_lower_case", spec.word_rules.lowers_case},
      {"strip_accents", spec.word_rules.strips_accents},
      {"tokenize_chinese_chars", (spec.flags & format::kIdeographsAreWords) != 0},
  };
  for (const auto& rule : rules) {
    if (!spec.splits.empty()) break;  // other steps normalize texts
    if (config.flag(rule.field, rule.found) != rule.found) {
      config.refuse(rule.field, fmt::format("{}, as in {}", rule.found, quote(spec.origin)));
    }
  }
  FrameCheck check(spec, true);
  const auto check_side = [&](const FrameCheck::Side& side, const char* field) {
    if (!config.has(field)) return;
    const auto named = std::ranges::find(spec.tokens, named_token_text(config, field));
    if (named == spec.tokens.end()) return;
    check.is(side, config, field, {static_cast<TokenId>(named - spec.tokens.begin())});
  };
  check_side(check.begin, "cls_token");
  check_side(check.end, "sep_token");
}

}  // namespace arenite::convert
