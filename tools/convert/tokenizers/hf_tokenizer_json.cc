// SPDX-License-Identifier: Apache-2.0
// Reads a tokenizer.json part by part.
#include "convert/tokenizers/tokenizer_readers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/tokenizers/subwords.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

using Merges = std::vector<std::pair<std::string, std::string>>;

Vocabulary read_vocabulary(const HfObject& model, const std::string& file_name) {
  if (!model.at("vocab").is_object()) model.refuse("vocab", "an object of tokens and their ids");
  Vocabulary vocabulary;
  for (const auto& [token, id] : model.at("vocab").items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= format::kVocabularyMax) {
      throw InputError("{}, model.vocab: the id of {} is {}: expected 0 to {}", file_name,
                       quote(token), show(id), format::kVocabularyMax - 1);
    }
    vocabulary[token] = id.get<TokenId>();
  }
  return vocabulary;
}

Merges read_merges(const HfObject& model, const std::string& file_name) {
  if (!model.at("merges").is_array()) model.refuse("merges", "a list of merges");
  Merges merges;
  for (const json& merge : model.at("merges")) {
    if (merge.is_string()) {
      merges.push_back(split_merge(merge.get<std::string>(), file_name));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else {
      throw InputError("{}, model.merges[{}]: found {}: expected two tokens", file_name,
                       merges.size(), show(merge));
    }
    check_merge_count(file_name, merges.size());
  }
  return merges;
}

void check_model(const HfObject& model) {
  // Files from before the field was written hold BPE where there are merges.
  if ((model.has("type") || !model.has("merges")) && model.type() != "BPE") {
    model.refuse("type", "BPE or WordPiece");
  }
  model.expect_only({"type", "dropout", "unk_token", "continuing_subword_prefix",
                     "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                     "merges"});
  model.expect("continuing_subword_prefix", "", true);
  model.expect("end_of_word_suffix", "", true);
  model.expect("dropout", 0.0, true);
}

// "<0x0A>" and its like become bytes; they are not merged and not read from texts.
void fill_low_line_pairs(TokenizerSpec& spec, const Vocabulary& vocabulary, const Merges& merges,
                         bool byte_fallback) {
  spec.kind = format::TokenizerKind::kSentencePieces;
  add_vocabulary(spec, vocabulary, piece_bytes);
  for (const auto& [token, id] : vocabulary) {
    const int byte = byte_fallback ? piece_byte(token) : -1;
    if (byte < 0) {
      add_character(spec, token, id);
      continue;
    }
    if (spec.byte_tokens.empty()) spec.byte_tokens.assign(256, kNoToken);
    spec.byte_tokens[static_cast<size_t>(byte)] = id;
    spec.tokens[id] = std::string(1, static_cast<char>(byte));
  }
  add_merges(spec, vocabulary, merges);
}

// As a vocabulary with U+2581 for spaces writes it.
bool is_run_of_spaces(std::string_view token) {
  const std::string bytes = piece_bytes(token);
  return !bytes.empty() && bytes.find_first_not_of(' ') == std::string::npos;
}

// A "normalized" token is looked for in normalized text, and with a Prepend it gets a U+2581 of its
// own: found only after spaces, which it takes in. Of special tokens nobody wants that, and it is
// the caller who has them read: they are read wherever they stand. Others are in every text.
// WordPiece looks for it in lower case.
void add_added_token(TokenizerSpec& spec, const Vocabulary& vocabulary, format::Prefix prefix,
                     const HfObject& token) {
  const bool is_special = token.flag("special", false);
  const bool is_changed =
      prefix == format::Prefix::kAlways || spec.kind == format::TokenizerKind::kWordPiece;
  if (is_changed && !is_special) {
    token.expect("normalized", false);
  }
  token.expect_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  token.expect("single_word", false, true);
  const std::string content = token.text("content");
  if (!token.at("id").is_number_unsigned() ||
      token.at("id").get<uint64_t>() >= format::kVocabularyMax) {
    token.refuse("id", fmt::format("0 to {}", format::kVocabularyMax - 1));
  }
  const auto id = token.at("id").get<TokenId>();
  const auto in_vocabulary = vocabulary.find(content);
  if (in_vocabulary != vocabulary.end() ? in_vocabulary->second != id
                                        : id < spec.tokens.size() && !spec.tokens[id].empty()) {
    token.refuse("id", "the id that the vocabulary gives to this token, or one of its own");
  }
  if (id >= spec.tokens.size()) spec.tokens.resize(size_t{id} + 1);
  if (is_run_of_spaces(content) && spec.kind == format::TokenizerKind::kSentencePieces) {
    // What merges make of as many spaces; a name that texts are searched for has U+2581 itself.
    spec.tokens[id] = piece_bytes(content);
    return;
  }
  spec.tokens[id] = content;
  uint32_t flags = 0;
  if (!is_special) flags |= format::kReadAlways | format::kIsText;
  if (token.flag("lstrip", false)) flags |= format::kEatsSpaceBefore;
  if (token.flag("rstrip", false)) flags |= format::kEatsSpaceBehind;
  spec.specials[id] = static_cast<uint8_t>(flags);
}

void add_added_tokens(TokenizerSpec& spec, const Vocabulary& vocabulary, format::Prefix prefix,
                      const HfObject& root, const std::string& file_name) {
  if (!root.has("added_tokens")) return;
  const json& tokens = root.at("added_tokens");
  if (!tokens.is_array()) root.refuse("added_tokens", "a list of tokens");
  for (size_t i = 0; i < tokens.size(); ++i) {
    add_added_token(spec, vocabulary, prefix,
                    HfObject(tokens[i], file_name, fmt::format("added_tokens[{}]", i)));
  }
}

void apply_pipeline(TokenizerSpec& spec, const HfPipeline& pipeline) {
  spec.pattern = pipeline.pattern;
  spec.prefix = pipeline.prefix;
  if (pipeline.prefix_every_part) spec.flags |= format::kPrefixEveryPart;
  if (pipeline.drops_first_space) spec.flags |= format::kDropFirstSpace;
  if (pipeline.expects_nfc) spec.flags |= format::kExpectsNfc;
  apply_frame(spec, pipeline.frame);
}

// The vocabulary knows a byte of byte fallback by a name that no piece has.
void add_whole_tokens(TokenizerSpec& spec) {
  std::set<TokenId> excluded;
  if (spec.kind == format::TokenizerKind::kSentencePieces) {
    excluded.insert(spec.byte_tokens.begin(), spec.byte_tokens.end());
  }
  for (TokenId id = 0; id < spec.tokens.size(); ++id) {
    if (!spec.specials.contains(id) && !excluded.contains(id)) spec.whole_tokens.push_back(id);
  }
}

}  // namespace

using nlohmann::json;

HfObject::HfObject(const json& value, std::string file_name, std::string place)
    : value_(value), file_name_(std::move(file_name)), place_(std::move(place)) {
  if (!value.is_object()) {
    throw InputError("{}, {}: found {}: expected an object", file_name_, place_, show(value));
  }
}

void HfObject::expect_only(std::initializer_list<std::string_view> fields) const {
  for (const auto& [field, found] : value_.items()) {
    if (std::find(fields.begin(), fields.end(), field) != fields.end()) continue;
    throw InputError("{}, {}: field {} is not known here, and may change the tokens", file_name_,
                     place_, quote(field));
  }
}

bool HfObject::has(std::string_view field) const {
  const auto found = value_.find(field);
  return found != value_.end() && !found->is_null();
}

const json& HfObject::at(std::string_view field) const {
  if (!has(field)) throw InputError("{}, {}: field '{}' is missing", file_name_, place_, field);
  return *value_.find(field);
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

HfObject HfObject::object(std::string_view field) const {
  return HfObject(at(field), file_name_,
                  place_.empty() ? std::string(field) : fmt::format("{}.{}", place_, field));
}

void HfObject::expect(std::string_view field, const json& value, bool may_lack) const {
  if (may_lack && !has(field)) return;
  if (at(field) != value) refuse(field, show(value));
}

void HfObject::refuse(std::string_view field, std::string_view expected) const {
  throw InputError("{}, {}{}{}: found {}: expected {}", file_name_, place_,
                   place_.empty() ? "" : ".", field, has(field) ? show(at(field)) : "nothing",
                   expected);
}

TokenizerSpec read_hf_tokenizer_json(const std::filesystem::path& file) {
  const json root_value = read_json_object(file);
  const std::string file_name = quote(file.string());
  const HfObject root(root_value, file_name, "");
  // Truncation and padding are for batches of training, and off unless a caller asks for them.
  root.expect_only({"version", "truncation", "padding", "added_tokens", "normalizer",
                    "pre_tokenizer", "post_processor", "decoder", "model"});
  const HfObject model = root.object("model");
  TokenizerSpec spec;
  spec.origin = file.string();
  if (model.has("type") && model.type() == "WordPiece") {
    const Vocabulary vocabulary = read_vocabulary(model, file_name);
    fill_hf_word_piece(spec, root, vocabulary, file_name);
    add_added_tokens(spec, vocabulary, format::Prefix::kNever, root, file_name);
    return spec;
  }
  check_model(model);
  const HfPipeline pipeline = read_hf_pipeline(root_value, file_name);
  const Vocabulary vocabulary = read_vocabulary(model, file_name);
  const Merges merges = read_merges(model, file_name);
  const bool byte_fallback = model.flag("byte_fallback", false);
  if (byte_fallback != pipeline.has_byte_decoder) {
    model.refuse("byte_fallback", "true with a ByteFallback decoder, and false without");
  }

  if (pipeline.is_byte_level) {
    fill_byte_pairs(spec, vocabulary, merges);
  } else {
    fill_low_line_pairs(spec, vocabulary, merges, byte_fallback);
  }
  add_added_tokens(spec, vocabulary, pipeline.prefix, root, file_name);
  apply_pipeline(spec, pipeline);
  spec.unknown = format::Unknown::kDrop;
  if (model.has("unk_token")) {
    const auto unknown = vocabulary.find(model.text("unk_token"));
    if (unknown == vocabulary.end()) model.refuse("unk_token", "a token of the vocabulary");
    spec.unknown = format::Unknown::kToken;
    spec.unknown_token = unknown->second;
  }
  if (model.flag("fuse_unk", false)) spec.flags |= format::kFuseUnknown;
  if (model.flag("ignore_merges", false)) add_whole_tokens(spec);
  return spec;
}

}  // namespace arenite::convert
