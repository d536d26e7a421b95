// SPDX-License-Identifier: Apache-2.0
// Reads the model and the added tokens of a tokenizer.json; hf_pipeline.h has the steps around it.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/tokenizers/hf_pipeline.h"
#include "convert/tokenizers/subwords.h"
#include "convert/tokenizers/tokenizer_readers.h"
#include "core/utf8.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

// ---- the model and its vocabulary ----

using Merges = std::vector<std::pair<std::string, std::string>>;
using BytesOf = std::string (*)(std::string_view token);  // of a token

std::string as_written(std::string_view token) { return std::string(token); }

Merges read_merges(const HfObject& model) {
  if (!model.at("merges").is_array()) model.refuse("merges", "a list of merges");
  Merges merges;
  for (const json& merge : model.at("merges")) {
    if (merge.is_string()) {
      merges.push_back(split_merge(merge.get<std::string>(), model.file_name()));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      merges.push_back(merge.get<Merges::value_type>());
    } else {
      throw InputError("{}, model.merges[{}]: found {}: expected two tokens", model.file_name(),
                       merges.size(), show(merge));
    }
    check_merge_count(model.file_name(), merges.size());
  }
  return merges;
}

void check_model(const HfObject& model) {
  // In files from before the field existed, merges mean BPE.
  if ((model.has("type") || !model.has("merges")) && model.type() != "BPE") {
    model.refuse("type", "BPE, Unigram, WordPiece or WordLevel");
  }
  model.expect_only({"type", "dropout", "unk_token", "continuing_subword_prefix",
                     "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                     "merges"});
  model.expect("continuing_subword_prefix", "", true);
  model.expect("dropout", 0.0, true);
}

// Tokens such as "<0x0A>" stand for bytes, by which unknown characters are encoded, or tokens are
// decoded, or both; these are neither merged nor matched in texts.
void fill_sentencepiece_bpe(TokenizerSpec& spec, const Vocabulary& vocabulary, const Merges& merges,
                            bool byte_fallback, const HfPipeline& pipeline) {
  spec.kind = format::TokenizerKind::kSentencePieces;
  add_vocabulary(spec, vocabulary, pipeline.replaces_spaces ? piece_bytes : as_written);
  for (const auto& [token, id] : vocabulary) {
    const int byte = piece_byte(token);
    if (byte >= 0 && byte_fallback) {
      if (spec.byte_tokens.empty()) spec.byte_tokens.assign(256, kNoToken);
      spec.byte_tokens[static_cast<size_t>(byte)] = id;
    } else {
      add_character(spec, token, id, pipeline.replaces_spaces);
    }
    if (byte >= 0 && pipeline.has_byte_decoder) {
      spec.tokens[id] = std::string(1, static_cast<char>(byte));
    }
  }
  add_merges(spec, vocabulary, merges);
}

// Tokens that end a word end with a space in the file, which decoding writes between words.
void add_word_ends(TokenizerSpec& spec, const Vocabulary& vocabulary, const std::string& suffix) {
  for (const auto& [token, id] : vocabulary) {
    if (!token.ends_with(suffix)) continue;
    const std::string start = token.substr(0, token.size() - suffix.size());
    const CodePoint first = decode_utf8(token);
    spec.tokens[id] = start + ' ';
    if (!start.empty() && first.bytes == start.size() && first.value != kInvalidCodePoint) {
      spec.characters[format::kLastCharacter + first.value] = id;
    }
  }
}

// CTC's decoder writes a space for one character. The file has a space for it, and so have texts
// once the normalizer ran; steps that tell the two characters are refused.
void take_word_delimiter(TokenizerSpec& spec, const HfPipeline& pipeline, const HfObject& root,
                         const Vocabulary& vocabulary) {
  const auto token = vocabulary.find(pipeline.word_delimiter);
  if (pipeline.word_delimiter.empty() || token == vocabulary.end()) return;
  const std::vector<uint32_t> written = code_points(pipeline.word_delimiter);
  const auto is_replaced = [&](const TextChange& change) {
    return change.kind == format::TextStep::kReplace && change.to == written &&
           change.from == std::vector<uint32_t>{' '};
  };
  const auto takes_all = [](const SplitStep& split) {
    return split.expression == "." || split.expression == R"([\s\S])";
  };
  if (written.size() != 1 || std::ranges::none_of(spec.changes, is_replaced) ||
      !std::ranges::all_of(spec.splits, takes_all)) {
    root.refuse("decoder",
                "a word delimiter of one character that the normalizer writes for a space, and "
                "pieces of one character");
  }
  spec.changes.push_back({.kind = format::TextStep::kReplace, .from = written, .to = {' '}});
  spec.tokens[token->second] = " ";
  if (spec.characters.erase(written[0]) != 0) spec.characters[' '] = token->second;
}

void add_added_token(TokenizerSpec& spec, const Vocabulary& vocabulary, const HfObject& token,
                     BytesOf decode_added) {
  token.expect_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  const std::string content = token.text("content");
  const char* const expected = "the id that the vocabulary gives to this token, or one of its own";
  const std::optional<TokenId> found = token_id(token.at("id"));
  if (!found) token.refuse("id", fmt::format("0 to {}", format::kVocabularyMax - 1));
  const TokenId id = *found;
  const auto in_vocabulary = vocabulary.find(content);
  if (in_vocabulary != vocabulary.end() ? in_vocabulary->second != id
                                        : id < spec.tokens.size() && !spec.tokens[id].empty()) {
    token.refuse("id", expected);
  }
  add_special(spec, id, token);
  // A token that is found after the normalizer's steps. Without steps there is no difference.
  if (token.flag("normalized", false) && !spec.changes.empty()) {
    spec.specials[id] |= format::kNormalized;
  }
  // Tokens are stored as decoding writes them, with spaces for U+2581; texts have U+2581.
  const std::string decoded = decode_added(content);
  if (decoded != content) {
    spec.tokens[id] = decoded;
    spec.special_names[id] = content;
  }
}

// The decoder writes added tokens as it does others.
void add_added_tokens(TokenizerSpec& spec, const Vocabulary& vocabulary, const HfObject& root,
                      BytesOf decode_added = as_written) {
  if (!root.has("added_tokens")) return;
  for (const HfObject& token : root.list("added_tokens", "a list of tokens")) {
    add_added_token(spec, vocabulary, token, decode_added);
  }
}

// Byte fallback tokens are in the vocabulary under names that no piece has.
void add_whole_tokens(TokenizerSpec& spec) {
  std::set<TokenId> excluded;
  if (spec.kind == format::TokenizerKind::kSentencePieces) {
    excluded.insert(spec.byte_tokens.begin(), spec.byte_tokens.end());
  }
  for (TokenId id = 0; id < spec.tokens.size(); ++id) {
    if (!spec.specials.contains(id) && !excluded.contains(id)) spec.whole_tokens.push_back(id);
  }
}

// ---- WordLevel ----

// A piece is a token, or unknown as a whole: none of its bytes has a token.
void fill_word_level(TokenizerSpec& spec, const HfObject& root, const HfPipeline& pipeline) {
  const HfObject model = root.object("model");
  model.expect_only({"type", "vocab", "unk_token"});
  if (pipeline.is_byte_level || pipeline.replaces_spaces) {
    model.refuse("type", "BPE or Unigram with such steps");
  }
  const Vocabulary vocabulary = read_vocabulary(model.object("vocab"));
  const auto unknown = vocabulary.find(model.text("unk_token"));
  if (unknown == vocabulary.end()) model.refuse("unk_token", "a token of the vocabulary");
  add_vocabulary(spec, vocabulary, as_written);
  spec.byte_tokens.assign(256, kNoToken);
  spec.unknown = format::Unknown::kToken;
  spec.unknown_token = unknown->second;
  spec.flags |= format::kFuseUnknown;
  apply_pipeline(spec, pipeline);
  take_word_delimiter(spec, pipeline, root, vocabulary);
  add_added_tokens(spec, vocabulary, root);
  add_whole_tokens(spec);
}

// ---- Unigram ----

// Reads tokens with their scores, in the order of their ids.
Vocabulary read_scored_vocabulary(TokenizerSpec& spec, const HfObject& model) {
  const json& tokens = model.at("vocab");
  const char* const expected = "a list of tokens with a score each";
  if (!tokens.is_array() || tokens.empty()) model.refuse("vocab", expected);
  Vocabulary vocabulary;
  for (const json& token : tokens) {
    if (!token.is_array() || token.size() != 2 || !token[0].is_string() || !token[1].is_number() ||
        !std::isfinite(token[1].get<double>())) {
      throw InputError("{}, model.vocab[{}]: found {}: expected a token and its score",
                       model.file_name(), spec.scores.size(), show(token));
    }
    const auto text = token[0].get<std::string>();
    check_token(model.file_name(), spec.scores.size(), text);
    vocabulary[text] = static_cast<TokenId>(spec.scores.size());  // of equal ones the last
    spec.tokens.push_back(piece_bytes(text));
    spec.scores.push_back(token[1].get<double>());
  }
  return vocabulary;
}

// Takes all byte tokens such as "<0x0A>". All must exist, so that runs of unknown characters need
// not be fused.
void take_bytes(TokenizerSpec& spec, const HfObject& model, const Vocabulary& vocabulary,
                bool decodes) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = vocabulary.find(fmt::format("<0x{:02X}>", byte));
    if (found == vocabulary.end() || !vocabulary.contains(std::string(kSpaceMark)) ||
        !spec.specials.contains(spec.unknown_token)) {
      model.refuse(
          "byte_fallback",
          "false, where the vocabulary lacks U+2581, one of 256 bytes, or an unknown token "
          "that is special");
    }
    spec.byte_tokens.push_back(found->second);
    if (decodes) spec.tokens[found->second] = std::string(1, static_cast<char>(byte));
  }
}

// Adds the pieces that texts are segmented into. Special tokens are excluded, as they would match
// in any text.
void add_pieces(TokenizerSpec& spec, const Vocabulary& vocabulary) {
  std::map<std::string_view, TokenId> pieces;  // U+2581 and a space are one
  for (const auto& [text, id] : vocabulary) {
    const bool is_byte =
        !spec.byte_tokens.empty() && spec.tokens[id] != text && piece_byte(text) >= 0;
    const bool is_unknown = id == spec.unknown_token && spec.byte_tokens.empty();
    if (is_byte || spec.tokens[id].empty()) continue;
    if (spec.specials.contains(id) && !is_unknown) continue;
    const auto [place, is_new] = pieces.insert({spec.tokens[id], id});
    refuse_if(!is_new, "{}: tokens {} and {} differ only in U+2581 and a space: expected one",
              quote(spec.origin), place->second, id);
    spec.whole_tokens.push_back(id);
  }
}

void fill_unigram(TokenizerSpec& spec, const HfObject& root, const HfPipeline& pipeline) {
  const HfObject model = root.object("model");
  model.expect_only({"type", "unk_id", "vocab", "byte_fallback"});
  refuse_if(!pipeline.replaces_spaces,
            "{}: pre_tokenizer: expected Metaspace, alone or after WhitespaceSplit",
            root.file_name());
  spec.kind = format::TokenizerKind::kUnigram;
  const Vocabulary vocabulary = read_scored_vocabulary(spec, model);
  constexpr double kUnknownPenalty = 10.0;  // of SentencePiece, and of the library
  spec.unknown_score = *std::ranges::min_element(spec.scores) - kUnknownPenalty;
  refuse_if(spec.unknown_score > 0.0,
            "{}: model.vocab: all scores are above {}: expected logarithms", root.file_name(),
            kUnknownPenalty);
  if (model.has("unk_id")) {
    const std::optional<TokenId> id = token_id(model.at("unk_id"));
    if (!id || *id >= spec.tokens.size()) model.refuse("unk_id", "a token of the vocabulary");
    spec.unknown = format::Unknown::kToken;
    spec.unknown_token = *id;
  }
  apply_pipeline(spec, pipeline);
  add_added_tokens(spec, vocabulary, root, piece_bytes);
  if (model.flag("byte_fallback", false)) {
    take_bytes(spec, model, vocabulary, pipeline.has_byte_decoder);
  }
  add_pieces(spec, vocabulary);
}

// ---- WordPiece ----

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

// Whether the steps are BERT's own, for which the file needs no more than tables of characters, and
// no added token is found after them.
bool is_plain_bert(const HfObject& root) {
  bool is_plain = root.has("pre_tokenizer") &&
                  root.object("pre_tokenizer").value() == json{{"type", "BertPreTokenizer"}};
  for_each_step(root, "normalizer", "normalizers", [&](const HfObject& step) {
    is_plain = is_plain && step.type() == "BertNormalizer";
  });
  if (!is_plain || !root.has("added_tokens")) return is_plain;
  for (const HfObject& token : root.list("added_tokens", "a list of tokens")) {
    if (token.flag("normalized", false) || token.flag("single_word", false)) return false;
  }
  return true;
}

// Throws InputError that names the field of anything that is not supported.
void fill_hf_word_piece(TokenizerSpec& spec, const HfObject& root) {
  const HfObject model = root.object("model");
  model.expect_only(
      {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  model.expect("continuing_subword_prefix", format::kContinuation);
  spec.word_characters_max = word_characters_max(model);
  const Vocabulary vocabulary = read_vocabulary(model.object("vocab"));
  add_vocabulary(spec, vocabulary, as_written);
  const auto unknown = vocabulary.find(model.text("unk_token"));
  if (unknown == vocabulary.end()) model.refuse("unk_token", "a token of the vocabulary");

  spec.word_rules = {false, false, false};
  for_each_step(root, "normalizer", "normalizers", [&](const HfObject& step) {
    if (step.type() != "BertNormalizer") return;
    spec.word_rules = bert_rules(step);
    if (step.flag("handle_chinese_chars", true)) spec.flags |= format::kIdeographsAreWords;
  });
  if (is_plain_bert(root)) {
    HfFrame frame;
    for_each_step(root, "post_processor", "processors",
                  [&](const HfObject& step) { take_post_processor(frame, step); });
    apply_frame(spec, frame);
    if (!root.has("decoder")) spec.flags |= format::kTokensAreApart;
  } else {
    const HfPipeline pipeline = read_hf_pipeline(root);
    if (pipeline.splits.empty() || pipeline.is_byte_level || pipeline.replaces_spaces) {
      root.refuse("pre_tokenizer", "steps that divide texts into words");
    }
    apply_pipeline(spec, pipeline);
  }
  for_each_step(root, "decoder", "decoders",
                [&](const HfObject& step) { take_word_piece_decoder(spec, step); });
  fill_word_pieces(spec, unknown->second);
  add_added_tokens(spec, vocabulary, root);
}

}  // namespace

TokenizerSpec read_hf_tokenizer_json(const std::filesystem::path& file) {
  const HfObject root(file);
  // Truncation and padding are for training batches, and off unless a caller asks for them.
  root.expect_only({"version", "truncation", "padding", "added_tokens", "normalizer",
                    "pre_tokenizer", "post_processor", "decoder", "model"});
  const HfObject model = root.object("model");
  TokenizerSpec spec;
  spec.origin = file.string();
  if (model.has("type") && model.type() == "WordPiece") {
    fill_hf_word_piece(spec, root);
    return spec;
  }
  const bool is_unigram = model.has("type") ? model.type() == "Unigram"  // old files say none
                                            : model.has("vocab") && model.at("vocab").is_array();
  const bool is_word_level = model.has("type") && model.type() == "WordLevel";
  if (!is_unigram && !is_word_level) check_model(model);
  const HfPipeline pipeline = read_hf_pipeline(root);
  if (is_word_level) {
    fill_word_level(spec, root, pipeline);
    return spec;
  }
  if (is_unigram) {
    fill_unigram(spec, root, pipeline);
    return spec;
  }
  const Vocabulary vocabulary = read_vocabulary(model.object("vocab"));
  const Merges merges = read_merges(model);
  const bool byte_fallback = model.flag("byte_fallback", false);
  const std::string suffix =
      model.has("end_of_word_suffix") ? model.text("end_of_word_suffix") : "";
  if (pipeline.is_byte_level) {
    fill_byte_pairs(spec, vocabulary, merges, suffix);
  } else {
    if (suffix != pipeline.decoded_suffix) {
      model.refuse("end_of_word_suffix", "that of a BPEDecoder, or none");
    }
    fill_sentencepiece_bpe(spec, vocabulary, merges, byte_fallback, pipeline);
    if (!suffix.empty()) add_word_ends(spec, vocabulary, suffix);
  }
  apply_pipeline(spec, pipeline);
  take_word_delimiter(spec, pipeline, root, vocabulary);
  add_added_tokens(spec, vocabulary, root,
                   pipeline.is_byte_level     ? byte_level_bytes
                   : pipeline.replaces_spaces ? piece_bytes
                                              : as_written);
  spec.unknown = format::Unknown::kDrop;
  if (model.has("unk_token")) {
    const auto unknown = vocabulary.find(model.text("unk_token"));
    if (unknown == vocabulary.end()) model.refuse("unk_token", "a token of the vocabulary");
    spec.unknown = format::Unknown::kToken;
    spec.unknown_token = unknown->second;
  }
  if (model.flag("fuse_unk", false)) spec.flags |= format::kFuseUnknown;
  if (model.flag("ignore_merges", false)) add_whole_tokens(spec);
  if (!spec.whole_tokens.empty() && pipeline.replaces_spaces) {  // whose spaces are spaces
    spec.changes.push_back(
        {.kind = format::TextStep::kReplace, .from = {kSpaceMarkCharacter}, .to = {' '}});
  }
  return spec;
}

}  // namespace arenite::convert
