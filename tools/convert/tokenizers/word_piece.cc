// SPDX-License-Identifier: Apache-2.0
// WordPiece: the model of a tokenizer.json, and vocab.txt with the configs beside it.
#include "convert/tokenizers/tokenizer_readers.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"
#include "core/utf8.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;

void check_utf8(std::string_view token, size_t line, const std::string& file_name) {
  for (size_t i = 0; i < token.size();) {
    const CodePoint next = decode_utf8(token.substr(i));
    if (next.value == kInvalidCodePoint) {
      throw InputError("{}, line {}: {} is no UTF-8: expected a vocabulary, a token a line",
                       file_name, line, quote(token));
    }
    i += next.bytes;
  }
}

std::vector<std::string> read_lines(const fs::path& file) {
  const TokenizerFile source(file);
  std::vector<std::string> lines;
  std::string_view text = source.text();
  for (std::string_view line; take_line(text, line);) {
    check_token(source.name(), lines.size(), line);
    check_utf8(line, lines.size() + 1, source.name());
    lines.emplace_back(line);
  }
  return lines;
}

// The two files that may stand beside a vocabulary.
class TokenizerConfig {
 public:
  explicit TokenizerConfig(const fs::path& folder)
      : config_value_(read_optional_json(folder / "tokenizer_config.json")),
        names_value_(read_optional_json(folder / "special_tokens_map.json")),
        config_(config_value_, quote((folder / "tokenizer_config.json").string()), ""),
        names_(names_value_, quote((folder / "special_tokens_map.json").string()), "") {}

  const HfObject& object() const { return config_; }

  std::string token_name(std::string_view field, std::string_view otherwise) const {
    for (const HfObject* config : {&config_, &names_}) {
      if (config->has(field)) return named_token_text(*config, field);
    }
    return std::string(otherwise);
  }

 private:
  nlohmann::json config_value_, names_value_;
  HfObject config_, names_;
};

// Classes that tokenize as BERT does.
void check_config(const HfObject& config) {
  const std::string name =
      config.has("tokenizer_class") ? config.text("tokenizer_class") : "BertTokenizer";
  const std::string_view known[] = {"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"};
  if (std::none_of(std::begin(known), std::end(known), [&](std::string_view slow) {
        return name == slow || name == std::string(slow) + "Fast";
      })) {
    config.refuse("tokenizer_class",
                  "BertTokenizer, DistilBertTokenizer or ElectraTokenizer; for others save a "
                  "tokenizer.json");
  }
  config.expect("do_basic_tokenize", true, true);
  config.expect("never_split", nlohmann::json::array(), true);
  config.expect("wordpieces_prefix", format::kContinuation, true);
}

WordRules word_rules(const HfObject& config) {
  WordRules rules;
  rules.drops_controls = config.flag("clean_text", true);
  rules.lowers_case = config.flag("do_lower_case", true);
  rules.strips_accents = config.flag("strip_accents", rules.lowers_case);
  return rules;
}

TokenId find_last(const TokenizerSpec& spec, std::string_view name) {
  const auto found = std::find(spec.tokens.rbegin(), spec.tokens.rend(), name);
  if (found == spec.tokens.rend()) return kNoToken;
  return static_cast<TokenId>(spec.tokens.rend() - found - 1);
}

TokenId needed_token(const TokenizerSpec& spec, const TokenizerConfig& config, const char* field,
                     const char* otherwise, const char* purpose) {
  const std::string name = config.token_name(field, otherwise);
  const TokenId id = find_last(spec, name);
  if (id == kNoToken) {
    throw InputError(
        "{}: none of the {} lines is {}, which {}: expected that token, or another name for it in "
        "tokenizer_config.json, '{}'",
        quote(spec.origin), spec.tokens.size(), quote(name), purpose, field);
  }
  return id;
}

// The older place of what added_tokens_decoder holds; it does not say how its tokens are read.
void check_added_tokens(const TokenizerSpec& spec, const fs::path& file) {
  const nlohmann::json added = read_optional_json(file);
  for (const auto& [token, id] : added.items()) {
    const bool is_known = id.is_number_unsigned() && id.get<uint64_t>() < spec.tokens.size() &&
                          spec.tokens[id.get<size_t>()] == token;
    if (!is_known) {
      throw InputError(
          "{}: token {} with id {}: expected it in the vocabulary, or in added_tokens_decoder of "
          "tokenizer_config.json; or save a tokenizer.json",
          quote(file.string()), quote(token), show(id));
    }
  }
}

std::string same_text(std::string_view token) { return std::string(token); }

void take_normalizer(TokenizerSpec& spec, const HfObject& step) {
  if (step.type() != "BertNormalizer") step.refuse("type", "BertNormalizer");
  step.expect_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  spec.word_rules.drops_controls = step.flag("clean_text", true);
  spec.word_rules.lowers_case = step.flag("lowercase", true);
  spec.word_rules.strips_accents = step.flag("strip_accents", spec.word_rules.lowers_case);
  if (step.flag("handle_chinese_chars", true)) spec.flags |= format::kIdeographsAreWords;
}

void take_word_piece_decoder(TokenizerSpec& spec, const HfObject& step) {
  if (step.type() != "WordPiece") step.refuse("type", "WordPiece");
  step.expect_only({"type", "prefix", "cleanup"});
  step.expect("prefix", format::kContinuation);
  if (step.flag("cleanup", true)) spec.flags |= format::kCleansUp;
}

uint32_t word_characters_max(const HfObject& model) {
  const char* const field = "max_input_chars_per_word";
  if (!model.has(field)) return kBertWordCharactersMax;
  const nlohmann::json& found = model.at(field);
  if (!found.is_number_unsigned() || found.get<uint64_t>() == 0 ||
      found.get<uint64_t>() > format::kWordCharactersMax) {
    model.refuse(field, fmt::format("1 to {}", format::kWordCharactersMax));
  }
  return found.get<uint32_t>();
}

}  // namespace

TokenizerSpec read_vocab_txt(const fs::path& file) {
  TokenizerSpec spec;
  spec.origin = file.string();
  spec.kind = format::TokenizerKind::kWordPiece;
  spec.tokens = read_lines(file);
  const TokenizerConfig config(file.parent_path());
  check_config(config.object());
  spec.word_rules = word_rules(config.object());
  if (config.object().flag("tokenize_chinese_chars", true)) {
    spec.flags |= format::kIdeographsAreWords;
  }
  spec.word_characters_max = kBertWordCharactersMax;
  spec.flags |= format::kCleansUp;  // as the library does where it makes a tokenizer of such files

  const TokenId unknown =
      needed_token(spec, config, "unk_token", "[UNK]", "stands for unknown words");
  const TokenId begin = needed_token(spec, config, "cls_token", "[CLS]", "begins a text");
  const TokenId separator = needed_token(spec, config, "sep_token", "[SEP]", "ends a text");
  const TokenId others[] = {find_last(spec, config.token_name("pad_token", "[PAD]")),
                            find_last(spec, config.token_name("mask_token", "[MASK]"))};
  for (const TokenId id : {unknown, begin, separator, others[0], others[1]}) {
    if (id != kNoToken) spec.specials[id] = 0;
  }
  fill_word_pieces(spec, unknown);
  add_decoder_tokens(spec, config.object());
  check_added_tokens(spec, file.parent_path() / "added_tokens.json");
  put_bert_tokens_around(spec, begin, separator);
  return spec;
}

void fill_word_pieces(TokenizerSpec& spec, TokenId unknown_token) {
  spec.kind = format::TokenizerKind::kWordPiece;
  spec.unknown = format::Unknown::kToken;
  spec.unknown_token = unknown_token;
  std::map<std::string_view, TokenId> last;
  for (TokenId id = 0; id < spec.tokens.size(); ++id) last[spec.tokens[id]] = id;
  for (const auto& [token, id] : last) spec.whole_tokens.push_back(id);
}

void put_bert_tokens_around(TokenizerSpec& spec, TokenId begin, TokenId separator) {
  spec.bos = begin;
  spec.ends = {separator};
  spec.pair_separators = 1;
  spec.flags |= format::kAddBos | format::kAddEnd | format::kSecondHasType1;
}

void fill_hf_word_piece(TokenizerSpec& spec, const HfObject& root, const Vocabulary& vocabulary,
                        const std::string& file_name) {
  const HfObject model = root.object("model");
  model.expect_only(
      {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  model.expect("continuing_subword_prefix", format::kContinuation);
  spec.word_characters_max = word_characters_max(model);

  spec.word_rules = {false, false, false};
  for_each_step(root, file_name, "normalizer", "normalizers",
                [&](const HfObject& step) { take_normalizer(spec, step); });
  root.object("pre_tokenizer").expect("type", "BertPreTokenizer");
  for_each_step(root, file_name, "decoder", "decoders",
                [&](const HfObject& step) { take_word_piece_decoder(spec, step); });
  HfFrame frame;
  for_each_step(root, file_name, "post_processor", "processors",
                [&](const HfObject& step) { take_post_processor(frame, step, file_name); });

  add_vocabulary(spec, vocabulary, same_text);
  const auto unknown = vocabulary.find(model.text("unk_token"));
  if (unknown == vocabulary.end()) model.refuse("unk_token", "a token of the vocabulary");
  fill_word_pieces(spec, unknown->second);
  apply_frame(spec, frame);
}

void check_bert_config(TokenizerSpec& spec, const std::filesystem::path& folder) {
  const nlohmann::json value = read_optional_json(folder / "tokenizer_config.json");
  const HfObject config(value, quote((folder / "tokenizer_config.json").string()), "");
  const struct {
    const char* field;
    bool found;
  } rules[] = {
      {"do_lower_case", spec.word_rules.lowers_case},
      {"strip_accents", spec.word_rules.strips_accents},
      {"tokenize_chinese_chars", (spec.flags & format::kIdeographsAreWords) != 0},
  };
  for (const auto& rule : rules) {
    if (config.flag(rule.field, rule.found) != rule.found) {
      config.refuse(rule.field, fmt::format("{}, as in {}", rule.found, quote(spec.origin)));
    }
  }
  FrameCheck check(spec);
  const auto ids_of = [&](const char* field) {
    std::vector<TokenId> ids;
    if (!config.has(field)) return ids;
    const auto named =
        std::find(spec.tokens.begin(), spec.tokens.end(), named_token_text(config, field));
    if (named != spec.tokens.end())
      ids.push_back(static_cast<TokenId>(named - spec.tokens.begin()));
    return ids;
  };
  check.begin_is(config, "cls_token", ids_of("cls_token"));
  check.end_is(config, "sep_token", ids_of("sep_token"));
}

}  // namespace arenite::convert
