// SPDX-License-Identifier: Apache-2.0
// BertNormalizer, BertPreTokenizer, WordPiece: one step of each.
#include "convert/tokenizers/hf_word_piece.h"

#include <algorithm>

#include "convert/files/error.h"
#include "convert/tokenizers/bert_vocabulary.h"
#include "convert/tokenizers/frame_check.h"
#include "convert/tokenizers/hf_config.h"
#include "convert/tokenizers/hf_pipeline.h"
#include "convert/tokenizers/hf_post_processor.h"

namespace arenite::convert {
namespace {

std::string same_text(std::string_view token) { return std::string(token); }

void take_normalizer(TokenizerSpec& spec, const HfObject& step) {
  if (step.type() != "BertNormalizer") step.refuse("type", "BertNormalizer");
  step.expect_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  spec.word_rules.drops_controls = step.flag("clean_text", true);
  spec.word_rules.lowers_case = step.flag("lowercase", true);
  spec.word_rules.strips_accents = step.flag("strip_accents", spec.word_rules.lowers_case);
  if (step.flag("handle_chinese_chars", true)) spec.flags |= format::kIdeographsAreWords;
}

void take_decoder(const HfObject& step) {
  if (step.type() != "WordPiece") step.refuse("type", "WordPiece");
  step.expect_only({"type", "prefix", "cleanup"});  // spaces before punctuation are left in
  step.expect("prefix", format::kContinuation);
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
  for_each_step(root, file_name, "decoder", "decoders", take_decoder);
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
