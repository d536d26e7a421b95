// SPDX-License-Identifier: Apache-2.0
// Reads a tokenizer.json part by part. Each kind of step is translated, known to have no effect, or
// refused by name.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/tokenizers/subwords.h"
#include "convert/tokenizers/text_changes.h"
#include "convert/tokenizers/tokenizer_readers.h"
#include "core/utf8.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

// Tokens that the post-processor puts around texts.
struct HfFrame {
  bool is_said = false;  // a step defined it
  TokenId begin = kNoToken;
  TokenId end = kNoToken;
  std::vector<TokenId> before{}, after{};  // all tokens, if there are several
  uint32_t pair_separators = 0;  // end tokens between two texts; 0: pairs have another form
  bool second_has_type1 = false;
};

// Combined effect of the pipeline's steps.
struct HfPipeline {
  bool is_byte_level = false;      // the vocabulary uses the byte alphabet
  bool replaces_spaces = false;    // ... or with U+2581 for a space
  bool has_byte_decoder = false;   // "<0x0A>" is decoded as a byte
  bool drops_first_space = false;  // by the decoder
  bool expects_nfc = false;
  std::vector<SplitStep> splits;
  bool tokens_are_apart = false;  // there is no decoder
  bool words_are_parts = false;   // WhitespaceSplit before Metaspace
  format::Prefix prefix = format::Prefix::kNever;
  bool prefix_every_part = false;
  TextChanges changes;
  HfFrame frame;

  bool changes_names() const {  // of added tokens, those that are "normalized"
    return prefix == format::Prefix::kAlways || !changes.steps.empty();
  }
};

// ---- tokens around a text ----

// Element of a post-processor's template: a special token, or one of the texts "A" and "B".
struct Element {
  TokenId token = kNoToken;  // kNoToken: a text
  std::string text = {};     // its name
  uint64_t type = 0;

  friend bool operator==(const Element&, const Element&) = default;
};

TokenId read_id(const HfObject& object, std::string_view field, const json& value,
                std::string_view expected) {
  const std::optional<TokenId> id = token_id(value);
  if (!id) object.refuse(field, expected);
  return *id;
}

Element read_element(const HfObject& step, const HfObject& element) {
  const bool is_text = element.has("Sequence");
  const HfObject content = element.object(is_text ? "Sequence" : "SpecialToken");
  Element read;
  if (content.has("type_id")) {
    read.type = read_id(content, "type_id", content.at("type_id"), "a small number");
  }
  if (is_text) {
    read.text = content.has("id") ? content.text("id") : "A";
    return read;
  }
  const json& ids = step.object("special_tokens").object(content.text("id")).at("ids");
  const char* const expected = "one id for each special token";
  if (!ids.is_array() || ids.size() != 1) step.refuse("special_tokens", expected);
  read.token = read_id(step, "special_tokens", ids[0], expected);
  return read;
}

std::vector<Element> read_template(const HfObject& step, const char* field) {
  std::vector<Element> elements;
  for (const HfObject& element : step.list(field, "a list of texts and special tokens")) {
    elements.push_back(read_element(step, element));
  }
  return elements;
}

void take_single(HfFrame& frame, const HfObject& step, const std::vector<Element>& elements) {
  const auto text = std::ranges::find(elements, kNoToken, &Element::token);
  const auto is_token = [](const Element& element) { return element.token != kNoToken; };
  if (text == elements.end() || !std::all_of(text + 1, elements.end(), is_token) ||
      elements.size() - 1 > format::kAroundMax ||
      std::ranges::any_of(elements, [](const Element& element) { return element.type != 0; })) {
    step.refuse("single", fmt::format("one text and at most {} tokens around it, all of type 0",
                                      format::kAroundMax));
  }
  const auto take = [](auto begin, auto end, TokenId& one, std::vector<TokenId>& several) {
    if (begin != end) one = begin->token;
    if (end - begin < 2) return;
    for (auto element = begin; element != end; ++element) several.push_back(element->token);
  };
  take(elements.begin(), text, frame.begin, frame.before);
  take(text + 1, elements.end(), frame.end, frame.after);
}

// Returns the pair template with `separators` separators: the template of one text, with end tokens
// between the texts.
std::vector<Element> pair_template(const HfFrame& frame, uint32_t separators, uint64_t type) {
  std::vector<Element> elements;
  if (frame.begin != kNoToken) elements.push_back({.token = frame.begin});
  elements.push_back({.text = "A"});
  for (uint32_t i = 0; i < separators; ++i) elements.push_back({.token = frame.end});
  elements.push_back({.text = "B", .type = type});
  elements.push_back({.token = frame.end, .type = type});
  return elements;
}

void take_pair(HfFrame& frame, const std::vector<Element>& elements) {
  if (frame.end == kNoToken || !frame.before.empty() || !frame.after.empty()) return;
  for (uint32_t separators = 1; separators <= format::kPairSeparatorsMax; ++separators) {
    for (const uint64_t type : {uint64_t{0}, uint64_t{1}}) {
      if (elements != pair_template(frame, separators, type)) continue;
      frame.pair_separators = separators;
      frame.second_has_type1 = type == 1;
    }
  }
}

// Reads a token given as [text, id].
TokenId read_token(const HfObject& step, std::string_view field) {
  const char* const expected = "a token and its id";
  const json& token = step.at(field);
  if (!token.is_array() || token.size() != 2) step.refuse(field, expected);
  return read_id(step, field, token[1], expected);
}

// Reads TemplateProcessing, BertProcessing or RobertaProcessing; at most one may be present.
// ByteLevel has no effect. Throws InputError for an unsupported template of a single text. An
// unsupported template of pairs only disables pairs, as encoding a single text does not need it.
void take_post_processor(HfFrame& frame, const HfObject& step) {
  const std::string type = step.type();
  if (type == "ByteLevel") return;  // changes offsets only
  if (frame.is_said) {
    step.refuse("type", "one step that puts tokens around a text; this is the second");
  }
  frame.is_said = true;
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    // The other two fields of RobertaProcessing only change offsets, too.
    step.expect_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    const bool is_bert = type == "BertProcessing";
    frame = {.is_said = true,
             .begin = read_token(step, "cls"),
             .end = read_token(step, "sep"),
             .pair_separators = is_bert ? 1u : 2u,
             .second_has_type1 = is_bert};
  } else if (type == "TemplateProcessing") {
    step.expect_only({"type", "single", "pair", "special_tokens"});
    take_single(frame, step, read_template(step, "single"));
    if (step.has("pair")) take_pair(frame, read_template(step, "pair"));
  } else {
    step.refuse(
        "type",
        "a supported step: TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel");
  }
}

void apply_frame(TokenizerSpec& spec, const HfFrame& frame) {
  if (frame.begin != kNoToken) {
    spec.bos = frame.begin;
    spec.flags |= format::kAddBos;
  }
  if (frame.end != kNoToken) {
    spec.ends = {frame.end};
    spec.flags |= format::kAddEnd;
  }
  spec.before = frame.before;
  spec.after = frame.after;
  spec.pair_separators = frame.pair_separators;
  if (frame.second_has_type1) spec.flags |= format::kSecondHasType1;
}

// ---- normalizer, pre_tokenizer and decoder ----

SplitStep whitespace_split() { return {R"(\s)", format::kDropMatches}; }

[[noreturn]] void refuse_type(const HfObject& step, const char* supported) {
  step.refuse("type", fmt::format("a supported step: {}", supported));
}

void take_normalizer(HfPipeline& pipeline, const HfObject& step) {
  const std::string type = step.type();
  const bool is_before = pipeline.changes.steps.empty();
  if (type == "Prepend" && is_before) {
    step.expect_only({"type", "prepend"});
    step.expect("prepend", kSpaceMark);
    pipeline.prefix = format::Prefix::kAlways;
    pipeline.prefix_every_part = true;
  } else if (type == "Replace" && is_before && step.at("pattern") == json{{"String", " "}} &&
             step.at("content") == kSpaceMark) {
    step.expect_only({"type", "pattern", "content"});
    pipeline.replaces_spaces = true;
  } else if (type == "NFC" && pipeline.changes.keep_normal_form()) {
    step.expect_only({"type"});
    pipeline.expects_nfc = true;
  } else if (pipeline.prefix != format::Prefix::kNever || pipeline.replaces_spaces) {
    refuse_type(step, "Prepend, Replace, NFC, and no others after U+2581 was inserted");
  } else {
    pipeline.changes.take(step);
  }
}

// Adds a step; after ByteLevel it splits the characters that stand for bytes.
void add_split(HfPipeline& pipeline, const HfObject& step, SplitStep split) {
  if (pipeline.replaces_spaces) step.refuse("type", "no step after spaces became U+2581");
  if (pipeline.is_byte_level) split.flags |= format::kOfBytes;
  pipeline.splits.push_back(std::move(split));
}

// Returns an expression that matches just `text`.
std::string escaped(std::string_view text) {
  std::string expression;
  for (const char c : text) {
    if (text::is_ascii_punctuation(static_cast<uint8_t>(c))) expression += '\\';
    expression += c;
  }
  return expression;
}

// Sets how the step treats matches. `expression` matches a single set of characters, unless the
// behaviour is Isolated or Removed.
SplitStep split_by(const HfObject& step, std::string expression, bool is_inverse) {
  constexpr struct {
    const char* name;
    SplitManner manner;
    uint32_t flags, inverse_flags;
  } kBehaviours[] = {
      {"Isolated", SplitManner::kAlone, 0, 0},
      {"Removed", SplitManner::kAlone, format::kDropMatches, format::kDropGaps},
      {"Contiguous", SplitManner::kRuns, 0, 0},
      {"MergedWithNext", SplitManner::kWithNext, 0, 0},
      {"MergedWithPrevious", SplitManner::kWithPrevious, 0, 0},
  };
  const std::string found = step.has("behavior") ? step.text("behavior") : "Isolated";
  for (const auto& behaviour : kBehaviours) {
    if (found != behaviour.name) continue;
    if (is_inverse && behaviour.manner != SplitManner::kAlone) step.refuse("invert", "false");
    return {std::move(expression), is_inverse ? behaviour.inverse_flags : behaviour.flags,
            behaviour.manner};
  }
  step.refuse("behavior", "Isolated, Removed, Contiguous, MergedWithNext or MergedWithPrevious");
}

void take_split(HfPipeline& pipeline, const HfObject& step) {
  step.expect_only({"type", "pattern", "behavior", "invert"});
  // Splitting at spaces has no effect after the normalizer has replaced all spaces.
  if (pipeline.replaces_spaces && step.at("pattern") == json{{"String", " "}}) return;
  const HfObject pattern = step.object("pattern");
  pattern.expect_only({"Regex", "String"});
  std::string expression =
      pattern.has("Regex") ? pattern.text("Regex") : escaped(pattern.text("String"));
  // CLIP's begins with the names of special tokens, which are matched earlier.
  for (const char* name : {R"(<\|startoftext\|>|)", R"(<\|endoftext\|>|)"}) {
    if (expression.starts_with(name)) expression.erase(0, std::string_view(name).size());
  }
  add_split(pipeline, step, split_by(step, std::move(expression), step.flag("invert", false)));
}

void take_metaspace(HfPipeline& pipeline, const HfObject& step) {
  step.expect_only(
      {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  step.expect("replacement", kSpaceMark);
  step.expect("str_rep", kSpaceMark, true);
  const std::string scheme = step.has("prepend_scheme")            ? step.text("prepend_scheme")
                             : step.flag("add_prefix_space", true) ? "always"
                                                                   : "never";
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    step.refuse("prepend_scheme", "always, first or never");
  }
  pipeline.words_are_parts = pipeline.splits == std::vector<SplitStep>{whitespace_split()};
  if (pipeline.words_are_parts) {
    step.expect("split", true, true);
    if (scheme == "first" && !pipeline.changes.steps.empty()) {
      step.refuse("prepend_scheme", "always or never, after WhitespaceSplit and a normalizer");
    }
    pipeline.splits.clear();
  }
  if (!pipeline.splits.empty()) step.refuse("type", "WhitespaceSplit alone before this step");
  if (step.flag("split", true)) {
    add_split(pipeline, step, {kSpaceSplit, 0, SplitManner::kWithNext});
  }
  pipeline.replaces_spaces = true;
  if (scheme != "never") pipeline.prefix = format::Prefix::kUnlessSpace;
  pipeline.prefix_every_part = scheme == "always";
}

void take_byte_level(HfPipeline& pipeline, const HfObject& step) {
  step.expect_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (pipeline.is_byte_level) step.refuse("type", "one step of this type; this is the second");
  if (step.flag("add_prefix_space", true)) {
    if (!pipeline.splits.empty()) step.refuse("add_prefix_space", "false after another step");
    pipeline.prefix = format::Prefix::kUnlessSpace;
    pipeline.prefix_every_part = true;
  }
  if (step.flag("use_regex", true)) add_split(pipeline, step, {kGpt2Split});
  pipeline.is_byte_level = true;
}

void take_pre_tokenizer(HfPipeline& pipeline, const HfObject& step) {
  const std::string type = step.type();
  const auto property = [](const char* name) { return fmt::format("\\p{{{}}}", name); };
  if (type == "Split") {
    take_split(pipeline, step);
  } else if (type == "Metaspace") {
    if (pipeline.is_byte_level) step.refuse("type", "no step of this type after ByteLevel");
    take_metaspace(pipeline, step);
  } else if (type == "ByteLevel") {
    take_byte_level(pipeline, step);
  } else if (type == "WhitespaceSplit") {
    step.expect_only({"type"});
    add_split(pipeline, step, whitespace_split());
  } else if (type == "Whitespace") {
    step.expect_only({"type"});
    const std::string word = property(kWhitespaceWord);
    add_split(pipeline, step, {fmt::format("{0}+|[^{0}\\s]+", word), format::kDropGaps});
  } else if (type == "BertPreTokenizer") {
    step.expect_only({"type"});
    add_split(pipeline, step, whitespace_split());
    add_split(pipeline, step, {property(kWordPunctuation)});
  } else if (type == "Punctuation") {
    step.expect_only({"type", "behavior"});
    add_split(pipeline, step, split_by(step, property(kWordPunctuation), false));
  } else if (type == "CharDelimiterSplit") {
    step.expect_only({"type", "delimiter"});
    add_split(pipeline, step, {escaped(step.text("delimiter")), format::kDropMatches});
  } else if (type == "Digits") {
    step.expect_only({"type", "individual_digits"});
    const bool is_each = step.flag("individual_digits", false);
    add_split(pipeline, step, {kDigitSplit, 0, is_each ? SplitManner::kAlone : SplitManner::kRuns});
  } else {
    refuse_type(step,
                "Split, Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, "
                "CharDelimiterSplit, Metaspace, ByteLevel");
  }
}

void take_decoder(HfPipeline& pipeline, const HfObject& step, bool& is_byte_level,
                  bool& replaces_spaces) {
  const std::string type = step.type();
  if (type == "ByteLevel") {
    is_byte_level = true;
  } else if (type == "Replace") {
    step.expect("pattern", json{{"String", kSpaceMark}});
    step.expect("content", " ");
    replaces_spaces = true;
  } else if (type == "ByteFallback") {
    pipeline.has_byte_decoder = true;
  } else if (type == "Strip") {
    step.expect("content", " ");
    step.expect("start", 1);
    step.expect("stop", 0);
    pipeline.drops_first_space = true;
  } else if (type == "Metaspace") {
    step.expect("replacement", kSpaceMark);
    replaces_spaces = true;
    const bool is_never = step.has("prepend_scheme") ? step.text("prepend_scheme") == "never"
                                                     : !step.flag("add_prefix_space", true);
    pipeline.drops_first_space = !is_never;
  } else if (type != "Fuse") {  // which joins the pieces, as is done anyway
    refuse_type(step, "ByteLevel, Replace, ByteFallback, Strip, Metaspace, Fuse");
  }
}

// ---- steps ----

// Calls `take` for the step in a field of `root`, or for each step of a sequence, which lists them
// under `list_field`.
template <typename Take>
void for_each_step(const HfObject& root, const char* field, const char* list_field,
                   const Take& take) {
  if (!root.has(field)) return;
  const HfObject first = root.object(field);
  if (first.type() != "Sequence") return take(first);
  first.expect_only({"type", list_field});
  for (const HfObject& step : first.list(list_field, "a list of steps")) {
    if (step.type() == "Sequence") step.refuse("type", "a step, not a sequence in a sequence");
    take(step);
  }
}

// Reads normalizer, pre_tokenizer, decoder and post_processor of `root`. Throws InputError that
// names an unsupported step, field of a step or combination.
HfPipeline read_hf_pipeline(const HfObject& root) {
  HfPipeline pipeline;
  for_each_step(root, "normalizer", "normalizers",
                [&](const HfObject& step) { take_normalizer(pipeline, step); });
  for_each_step(root, "pre_tokenizer", "pretokenizers",
                [&](const HfObject& step) { take_pre_tokenizer(pipeline, step); });
  bool decodes_bytes = false;
  bool decodes_spaces = false;
  for_each_step(root, "decoder", "decoders", [&](const HfObject& step) {
    take_decoder(pipeline, step, decodes_bytes, decodes_spaces);
  });
  for_each_step(root, "post_processor", "processors",
                [&](const HfObject& step) { take_post_processor(pipeline.frame, step); });
  pipeline.tokens_are_apart =
      !root.has("decoder") && !pipeline.is_byte_level && !pipeline.replaces_spaces;
  refuse_if(
      (pipeline.is_byte_level == pipeline.replaces_spaces && !pipeline.tokens_are_apart) ||
          pipeline.is_byte_level != decodes_bytes || pipeline.replaces_spaces != decodes_spaces,
      "{}: normalizer, pre_tokenizer and decoder do not belong together: expected ByteLevel in "
      "pre_tokenizer and decoder, or spaces replaced by U+2581 and replaced back by the decoder, "
      "or neither, and no decoder",
      root.file_name());
  return pipeline;
}

// ---- the model and its vocabulary ----

using Merges = std::vector<std::pair<std::string, std::string>>;

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

// Tokens such as "<0x0A>" become bytes; they are neither merged nor matched in texts.
void fill_sentencepiece_bpe(TokenizerSpec& spec, const Vocabulary& vocabulary, const Merges& merges,
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

// Whether the token is a run of U+2581, which stands for spaces.
bool is_run_of_spaces(std::string_view token) {
  const std::string bytes = piece_bytes(token);
  return !bytes.empty() && bytes.find_first_not_of(' ') == std::string::npos;
}

// A "normalized" added token is matched in normalized text. With a Prepend it then begins with
// U+2581, so it would match only after spaces, and would absorb them. Special tokens are not meant
// to do that, so they match anywhere if the caller asks for matching. Other added tokens occur in
// ordinary text. WordPiece matches them in lower case.
void add_added_token(TokenizerSpec& spec, const Vocabulary& vocabulary, bool is_changed,
                     const HfObject& token) {
  const bool is_special = token.flag("special", false);
  if (is_changed && !is_special) {
    token.expect("normalized", false);
  }
  token.expect_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  token.expect("single_word", false, true);
  const std::string content = token.text("content");
  const TokenId id =
      read_id(token, "id", token.at("id"), fmt::format("0 to {}", format::kVocabularyMax - 1));
  const auto in_vocabulary = vocabulary.find(content);
  if (in_vocabulary != vocabulary.end() ? in_vocabulary->second != id
                                        : id < spec.tokens.size() && !spec.tokens[id].empty()) {
    token.refuse("id", "the id that the vocabulary gives to this token, or one of its own");
  }
  if (is_run_of_spaces(content) && spec.kind == format::TokenizerKind::kSentencePieces) {
    // Tokens of spaces are stored as spaces, like the results of merges; a name that is matched in
    // texts keeps its U+2581.
    if (id >= spec.tokens.size()) spec.tokens.resize(size_t{id} + 1);
    spec.tokens[id] = piece_bytes(content);
    return;
  }
  add_special(spec, id, token);
}

// `is_changed`: the normalizer changes names.
void add_added_tokens(TokenizerSpec& spec, const Vocabulary& vocabulary, bool is_changed,
                      const HfObject& root) {
  if (!root.has("added_tokens")) return;
  for (const HfObject& token : root.list("added_tokens", "a list of tokens")) {
    add_added_token(spec, vocabulary, is_changed, token);
  }
}

void apply_pipeline(TokenizerSpec& spec, const HfPipeline& pipeline) {
  spec.splits = pipeline.splits;
  if (pipeline.words_are_parts) spec.flags |= format::kWordsAreParts;
  if (pipeline.tokens_are_apart) spec.flags |= format::kTokensAreApart;
  spec.prefix = pipeline.prefix;
  if (pipeline.prefix_every_part) spec.flags |= format::kPrefixEveryPart;
  if (pipeline.drops_first_space) spec.flags |= format::kDropFirstSpace;
  if (pipeline.expects_nfc) spec.flags |= format::kExpectsNfc;
  pipeline.changes.apply(spec);
  apply_frame(spec, pipeline.frame);
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
  if (!pipeline.tokens_are_apart) model.refuse("type", "BPE or Unigram with such steps");
  const Vocabulary vocabulary = read_vocabulary(model.object("vocab"));
  const auto unknown = vocabulary.find(model.text("unk_token"));
  if (unknown == vocabulary.end()) model.refuse("unk_token", "a token of the vocabulary");
  add_vocabulary(spec, vocabulary, [](std::string_view token) { return std::string(token); });
  spec.byte_tokens.assign(256, kNoToken);
  spec.unknown = format::Unknown::kToken;
  spec.unknown_token = unknown->second;
  spec.flags |= format::kFuseUnknown;
  add_added_tokens(spec, vocabulary, pipeline.changes_names(), root);
  apply_pipeline(spec, pipeline);
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
void take_bytes(TokenizerSpec& spec, const HfObject& model, const Vocabulary& vocabulary) {
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
    spec.tokens[found->second] = std::string(1, static_cast<char>(byte));
  }
}

// Adds the pieces that texts are segmented into. Special tokens are excluded, as they would match
// in any text.
void add_pieces(TokenizerSpec& spec, const Vocabulary& vocabulary) {
  std::map<std::string_view, TokenId> pieces;  // U+2581 and a space are one
  for (const auto& [text, id] : vocabulary) {
    const bool is_byte = !spec.byte_tokens.empty() && piece_byte(text) >= 0;
    if (is_byte || spec.tokens[id].empty() || spec.specials.contains(id)) continue;
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
  add_added_tokens(spec, vocabulary, pipeline.changes_names(), root);
  if (model.flag("byte_fallback", false)) take_bytes(spec, model, vocabulary);
  add_pieces(spec, vocabulary);
  apply_pipeline(spec, pipeline);
}

// ---- WordPiece ----

void take_bert_normalizer(TokenizerSpec& spec, const HfObject& step) {
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

// Reads the model and the steps around it, without unknown and added tokens. Throws InputError,
// naming the field, for anything that differs from BERT's.
void fill_hf_word_piece(TokenizerSpec& spec, const HfObject& root, const Vocabulary& vocabulary) {
  const HfObject model = root.object("model");
  model.expect_only(
      {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  model.expect("continuing_subword_prefix", format::kContinuation);
  spec.word_characters_max = word_characters_max(model);

  spec.word_rules = {false, false, false};
  for_each_step(root, "normalizer", "normalizers",
                [&](const HfObject& step) { take_bert_normalizer(spec, step); });
  root.object("pre_tokenizer").expect("type", "BertPreTokenizer");
  for_each_step(root, "decoder", "decoders",
                [&](const HfObject& step) { take_word_piece_decoder(spec, step); });
  HfFrame frame;
  for_each_step(root, "post_processor", "processors",
                [&](const HfObject& step) { take_post_processor(frame, step); });

  add_vocabulary(spec, vocabulary, [](std::string_view token) { return std::string(token); });
  const auto unknown = vocabulary.find(model.text("unk_token"));
  if (unknown == vocabulary.end()) model.refuse("unk_token", "a token of the vocabulary");
  fill_word_pieces(spec, unknown->second);
  apply_frame(spec, frame);
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
    const Vocabulary vocabulary = read_vocabulary(model.object("vocab"));
    fill_hf_word_piece(spec, root, vocabulary);
    add_added_tokens(spec, vocabulary, true, root);
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
  if (byte_fallback != pipeline.has_byte_decoder) {
    model.refuse("byte_fallback", "true with a ByteFallback decoder, and false without");
  }

  const std::string suffix =
      model.has("end_of_word_suffix") ? model.text("end_of_word_suffix") : "";
  if (pipeline.is_byte_level) {
    fill_byte_pairs(spec, vocabulary, merges, suffix);
  } else {
    if (!suffix.empty()) model.refuse("end_of_word_suffix", "none without ByteLevel");
    fill_sentencepiece_bpe(spec, vocabulary, merges, byte_fallback);
  }
  add_added_tokens(spec, vocabulary, pipeline.changes_names(), root);
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
