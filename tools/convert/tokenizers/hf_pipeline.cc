// SPDX-License-Identifier: Apache-2.0
// Translates the steps in the order in which the library runs them.
#include "convert/tokenizers/hf_pipeline.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/tokenizers/subwords.h"
#include "core/utf8.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

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

// Adds the text, or the tokens that a special token of the template stands for.
void read_element(const HfObject& step, const HfObject& element, std::vector<Element>& elements) {
  const bool is_text = element.has("Sequence");
  const HfObject content = element.object(is_text ? "Sequence" : "SpecialToken");
  Element read;
  if (content.has("type_id")) {
    read.type = read_id(content, "type_id", content.at("type_id"), "a small number");
  }
  if (is_text) {
    read.text = content.has("id") ? content.text("id") : "A";
    return elements.push_back(read);
  }
  const json& ids = step.object("special_tokens").object(content.text("id")).at("ids");
  const char* const expected = "a list of ids for each special token";
  if (!ids.is_array()) step.refuse("special_tokens", expected);
  for (const json& id : ids) {
    read.token = read_id(step, "special_tokens", id, expected);
    elements.push_back(read);
  }
}

std::vector<Element> read_template(const HfObject& step, const char* field) {
  std::vector<Element> elements;
  for (const HfObject& element : step.list(field, "a list of texts and special tokens")) {
    read_element(step, element, elements);
  }
  return elements;
}

void take_single(HfFrame& frame, const HfObject& step, const std::vector<Element>& elements) {
  frame.has_other_types =
      std::ranges::any_of(elements, [](const Element& element) { return element.type != 0; });
  const auto text = std::ranges::find(elements, kNoToken, &Element::token);
  const auto is_token = [](const Element& element) { return element.token != kNoToken; };
  if (text == elements.end() || !std::all_of(text + 1, elements.end(), is_token) ||
      elements.size() - 1 > format::kAroundMax || text->type != 0) {
    step.refuse("single", fmt::format("one text of type 0 and at most {} tokens around it",
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

}  // namespace

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
  if (frame.has_other_types) {
    spec.flags |= format::kOtherTypes;
    spec.notes.emplace_back("types of tokens are not stored: special tokens have others than 0");
  }
}

namespace {

// ---- normalizer, pre_tokenizer and decoder ----

std::string property(const char* name) { return fmt::format("\\p{{{}}}", name); }

SplitStep whitespace_split() { return {R"(\s)", format::kDropMatches}; }

SplitStep whitespace_words() {
  const std::string word = property(kWhitespaceWord);
  return {fmt::format("{0}+|[^{0}\\s]+", word), format::kDropGaps};
}

[[noreturn]] void refuse_type(const HfObject& step, const char* supported) {
  step.refuse("type", fmt::format("a supported step: {}", supported));
}

void take_normalizer(HfPipeline& pipeline, const HfObject& step) {
  const std::string type = step.type();
  if (type == "NFC" && pipeline.changes.keep_normal_form()) {
    step.expect_only({"type"});
    pipeline.expects_nfc = true;
    return;
  }
  if (type == "BertNormalizer" && step.flag("handle_chinese_chars", true)) {
    pipeline.has_ideographs = true;
  }
  pipeline.changes.take(step);
}

// A space that the normalizer writes first and U+2581 for each space need no steps: the prefix and
// the pieces say both. Where added tokens are found in the normalized text, spaces stay spaces.
void take_spaces(HfPipeline& pipeline, bool has_normalized_tokens) {
  std::vector<TextChange>& steps = pipeline.changes.steps;
  const auto is_mark = [](uint32_t c) { return c == ' ' || c == kSpaceMarkCharacter; };
  const auto is_prefix = [&](const TextChange& step) {
    return step.kind == format::TextStep::kPrepend && is_mark(step.becomes);
  };
  const auto is_marking = [](const TextChange& step) {
    return step.kind == format::TextStep::kReplace && step.from == std::vector<uint32_t>{' '} &&
           step.to == std::vector<uint32_t>{kSpaceMarkCharacter};
  };
  pipeline.replaces_spaces = std::ranges::any_of(steps, is_marking);
  if (pipeline.replaces_spaces && is_marking(steps.back())) {
    steps.pop_back();
    if (has_normalized_tokens) {
      for (TextChange& step : steps) {
        if (is_prefix(step)) step.becomes = ' ';
      }
      steps.push_back(
          {.kind = format::TextStep::kReplace, .from = {kSpaceMarkCharacter}, .to = {' '}});
    }
  }
  if (!has_normalized_tokens && steps.size() == 1 && is_prefix(steps.front())) {
    steps.clear();
    pipeline.prefix = format::Prefix::kAlways;
    pipeline.prefix_every_part = true;
  }
}

// Adds a step; after ByteLevel it splits the characters that stand for bytes.
void add_split(HfPipeline& pipeline, const HfObject& step, SplitStep split,
               bool tells_spaces = true) {
  if (pipeline.replaces_spaces && tells_spaces) {
    step.refuse("type", "no step that tells spaces from U+2581, after one became the other");
  }
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
  if (expression.empty()) expression = R"([\s\S])";  // the empty text is between all characters
  const bool is_text =
      pattern.has("String") && pattern.text("String").find_first_of(" \u2581") == std::string::npos;
  add_split(pipeline, step, split_by(step, std::move(expression), step.flag("invert", false)),
            !is_text);
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
  const bool moves_start = std::ranges::any_of(pipeline.changes.steps, [](const TextChange& step) {
    return (step.kind == format::TextStep::kStrip && (step.sides & 1) != 0) ||
           (step.kind == format::TextStep::kReplace && step.to.empty());
  });
  if (scheme == "first" && moves_start) {
    step.refuse("prepend_scheme",
                "always or never, after a step that removes what a text begins with");
  }
  pipeline.words_are_parts = pipeline.splits == std::vector<SplitStep>{whitespace_split()};
  if (scheme == "first" && !pipeline.splits.empty() && !pipeline.changes.steps.empty()) {
    step.refuse("prepend_scheme", "always or never, after a normalizer and another step");
  }
  if (pipeline.words_are_parts) {
    step.expect("split", true, true);
    pipeline.splits.clear();
  } else if (!pipeline.splits.empty()) {
    pipeline.splits.back().flags |= format::kPartsFollow;
  }
  if (step.flag("split", true)) {
    add_split(pipeline, step, {kSpaceSplit, 0, SplitManner::kWithNext}, false);
  }
  pipeline.replaces_spaces = true;
  if (scheme != "never") pipeline.prefix = format::Prefix::kUnlessSpace;
  pipeline.prefix_every_part = scheme == "always";
}

void take_byte_level(HfPipeline& pipeline, const HfObject& step) {
  step.expect_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (pipeline.is_byte_level) step.refuse("type", "one step of this type; this is the second");
  if (step.flag("add_prefix_space", true)) {
    if (!pipeline.splits.empty()) pipeline.splits.back().flags |= format::kPartsFollow;
    pipeline.prefix = format::Prefix::kUnlessSpace;
    pipeline.prefix_every_part = true;
  }
  if (step.flag("use_regex", true)) add_split(pipeline, step, {kGpt2Split});
  pipeline.is_byte_level = true;
}

// After BertNormalizer each ideograph is between spaces, at which the first step must split.
void isolate_ideographs(HfPipeline& pipeline, const HfObject& root) {
  const bool drops_spaces = !pipeline.splits.empty() && (pipeline.splits[0] == whitespace_split() ||
                                                         pipeline.splits[0] == whitespace_words());
  refuse_if(!drops_spaces,
            "{}: normalizer.handle_chinese_chars: found true: expected false, or BertPreTokenizer, "
            "Whitespace or WhitespaceSplit as the first pre-tokenizer",
            root.file_name());
  std::string ideographs = "[";
  for (size_t i = 0; i < std::size(text::kIdeographs); ++i) {
    char form[kUtf8BytesMax];
    ideographs.append(form, encode_utf8(text::kIdeographs[i], form));
    if (i % 2 == 0) ideographs += '-';
  }
  pipeline.splits.insert(pipeline.splits.begin(), SplitStep{ideographs + "]"});
}

void take_pre_tokenizer(HfPipeline& pipeline, const HfObject& step) {
  const std::string type = step.type();
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
    add_split(pipeline, step, whitespace_words());
  } else if (type == "BertPreTokenizer") {
    step.expect_only({"type"});
    add_split(pipeline, step, whitespace_split());
    add_split(pipeline, step, {property(kWordPunctuation)});
  } else if (type == "Punctuation") {
    step.expect_only({"type", "behavior"});
    add_split(pipeline, step, split_by(step, property(kWordPunctuation), false), false);
  } else if (type == "FixedLength") {
    step.expect_only({"type", "length"});
    add_split(pipeline, step, {fmt::format(R"([\s\S]{{1,{}}})", step.at("length").dump())});
  } else if (type == "CharDelimiterSplit") {
    step.expect_only({"type", "delimiter"});
    add_split(pipeline, step, {escaped(step.text("delimiter")), format::kDropMatches});
  } else if (type == "Digits") {
    step.expect_only({"type", "individual_digits"});
    const bool is_each = step.flag("individual_digits", false);
    add_split(pipeline, step, {kDigitSplit, 0, is_each ? SplitManner::kAlone : SplitManner::kRuns},
              false);
  } else {
    refuse_type(step,
                "Split, Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, "
                "CharDelimiterSplit, FixedLength, Metaspace, ByteLevel");
  }
}

// The decoder writes tokens so.
struct Decoding {
  bool is_byte_level = false;
  bool replaces_spaces = false;
};

void take_decoder(HfPipeline& pipeline, const HfObject& step, Decoding& decoding) {
  const std::string type = step.type();
  if (type == "ByteLevel") {
    decoding.is_byte_level = true;
  } else if (type == "Replace") {
    step.expect("pattern", json{{"String", kSpaceMark}});
    step.expect("content", " ");
    decoding.replaces_spaces = true;
  } else if (type == "ByteFallback") {
    pipeline.has_byte_decoder = true;
  } else if (type == "Strip") {
    step.expect("content", " ");
    step.expect("start", 1);
    step.expect("stop", 0);
    pipeline.drops_first_space = true;
  } else if (type == "Metaspace") {
    step.expect("replacement", kSpaceMark);
    decoding.replaces_spaces = true;
    const bool is_never = step.has("prepend_scheme") ? step.text("prepend_scheme") == "never"
                                                     : !step.flag("add_prefix_space", true);
    pipeline.drops_first_space = !is_never;
  } else if (type == "BPEDecoder") {
    step.expect_only({"type", "suffix"});
    pipeline.decoded_suffix = step.text("suffix");
    pipeline.decoding |= format::kEndsAreSpaces;
  } else if (type == "CTC") {
    step.expect_only({"type", "pad_token", "word_delimiter_token", "cleanup"});
    pipeline.blank = step.text("pad_token");
    if (step.flag("cleanup", true)) pipeline.word_delimiter = step.text("word_delimiter_token");
    pipeline.decoding |= format::kDropRepeats;
  } else if (type != "Fuse") {  // which joins the pieces, as is done anyway
    refuse_type(step,
                "ByteLevel, Replace, ByteFallback, Strip, Metaspace, BPEDecoder, CTC, Fuse, and "
                "WordPiece after a model of this type");
  }
}

}  // namespace

// Reads normalizer, pre_tokenizer, decoder and post_processor of `root`. Throws InputError that
// names an unsupported step, field of a step or combination.
HfPipeline read_hf_pipeline(const HfObject& root) {
  HfPipeline pipeline;
  for_each_step(root, "normalizer", "normalizers",
                [&](const HfObject& step) { take_normalizer(pipeline, step); });
  bool has_normalized_tokens = false;
  if (root.has("added_tokens")) {
    for (const HfObject& token : root.list("added_tokens", "a list of tokens")) {
      has_normalized_tokens = has_normalized_tokens || token.flag("normalized", false);
    }
  }
  take_spaces(pipeline, has_normalized_tokens);
  for_each_step(root, "pre_tokenizer", "pretokenizers",
                [&](const HfObject& step) { take_pre_tokenizer(pipeline, step); });
  if (pipeline.has_ideographs) isolate_ideographs(pipeline, root);
  Decoding decoding;
  const HfObject model = root.object("model");
  const bool has_words = model.has("type") && model.type() == "WordPiece";
  if (!has_words) {
    for_each_step(root, "decoder", "decoders",
                  [&](const HfObject& step) { take_decoder(pipeline, step, decoding); });
  }
  for_each_step(root, "post_processor", "processors",
                [&](const HfObject& step) { take_post_processor(pipeline.frame, step); });
  if (!root.has("decoder")) pipeline.decoding |= format::kTokensAreApart;
  refuse_if(pipeline.is_byte_level != decoding.is_byte_level ||
                (pipeline.replaces_spaces != decoding.replaces_spaces && !has_words) ||
                (pipeline.is_byte_level && pipeline.replaces_spaces),
            "{}: normalizer, pre_tokenizer and decoder do not belong together: expected ByteLevel "
            "in pre_tokenizer and decoder, or spaces replaced by U+2581 and replaced back by the "
            "decoder, or neither",
            root.file_name());
  return pipeline;
}

void apply_pipeline(TokenizerSpec& spec, const HfPipeline& pipeline) {
  spec.splits = pipeline.splits;
  if (pipeline.words_are_parts) spec.flags |= format::kWordsAreParts;
  spec.flags |= pipeline.decoding;
  spec.prefix = pipeline.prefix;
  if (pipeline.prefix_every_part) spec.flags |= format::kPrefixEveryPart;
  if (pipeline.drops_first_space) spec.flags |= format::kDropFirstSpace;
  if (pipeline.expects_nfc) spec.flags |= format::kExpectsNfc;
  pipeline.changes.apply(spec);
  apply_frame(spec, pipeline.frame);
}

}  // namespace arenite::convert
