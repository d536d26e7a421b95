// SPDX-License-Identifier: Apache-2.0
// Converts steps to tables of characters, by utf8proc; SentencePiece's map is kept as it is.
#include "convert/tokenizers/text_changes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "convert/files/error.h"
#include "convert/tokenizers/split_expression.h"
#include "convert/tokenizers/unicode_library.h"
#include "core/utf8.h"

namespace arenite::convert {
namespace {

using format::TextStep;
using nlohmann::json;

}  // namespace

std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> list;
  for (size_t i = 0; i < text.size();) {
    const CodePoint next = decode_utf8(text.substr(i));
    list.push_back(next.value);
    i += next.bytes;
  }
  return list;
}

namespace {

// Makes a step that maps each character by `become`.
template <typename Become>
TextChange fold_all(const Become& become) {
  TextChange change = {.kind = TextStep::kFold};
  for (uint32_t character = 0; character <= kCodePointMax; ++character) {
    if (character >= 0xD800 && character <= 0xDFFF) continue;
    std::vector<uint32_t> becomes = become(character);
    if (becomes.size() != 1 || becomes[0] != character) {
      change.folds[character] = std::move(becomes);
    }
  }
  return change;
}

TextChange drop_accents(bool decomposes, bool is_compatible) {
  TextChange change = fold_all([&](uint32_t character) {
    std::vector<uint32_t> left;
    if (is_hangul_syllable(character)) return std::vector<uint32_t>{character};
    for (const uint32_t part : decomposes ? full_decomposition(character, is_compatible)
                                          : std::vector<uint32_t>{character}) {
      if (!is_mark(part)) left.push_back(part);
    }
    return left;
  });
  change.decomposes_hangul = decomposes;
  return change;
}

TextChange decomposition(bool is_compatible) {
  TextChange change = fold_all([&](uint32_t character) {
    if (is_hangul_syllable(character)) return std::vector<uint32_t>{character};
    return full_decomposition(character, is_compatible);
  });
  change.decomposes_hangul = true;
  return change;
}

// Returns what SentencePiece's rules "nmt" make of a character.
std::vector<uint32_t> nmt_forms(uint32_t character) {
  const bool is_control = (character >= 1 && character <= 0x1F) || character == 0x7F ||
                          character == 0x8F || character == 0x9F;
  constexpr uint32_t kSpaces[] = {'\t',   '\n',   '\f',   '\r',   0x1680, 0x200B, 0x200C, 0x200D,
                                  0x200E, 0x200F, 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD};
  if (std::ranges::find(kSpaces, character) != std::end(kSpaces)) return {' '};
  return is_control ? std::vector<uint32_t>{} : std::vector<uint32_t>{character};
}

TextChange fold_controls(std::string_view controls, uint32_t becomes) {
  TextChange change = {.kind = TextStep::kFold};
  for (const char c : controls) change.folds[static_cast<uint8_t>(c)] = {becomes};
  return change;
}

// A normalizer's regular expression on white space; runs of it come first, then single characters.
struct SpaceExpression {
  std::string_view expression;
  bool all_spaces;
  uint32_t least;  // 0: no runs
  std::string_view controls;
};
constexpr SpaceExpression kSpaceExpressions[] = {
    {" {2,}", false, 2, ""},
    {" +", false, 1, ""},
    {R"(\s+)", true, 1, ""},
    {R"(\s{2,})", true, 2, ""},
    {R"([\n\r\t])", true, 0, "\n\r\t"},
    {R"(\n)", true, 0, "\n"},
    {R"(\s{2,}|[\n\r\t])", true, 2, "\n\r\t"},
};

std::string decode_base64(const HfObject& step, const char* field) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = step.text(field), bytes;
  while (text.ends_with('=')) text.pop_back();
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) step.refuse(field, "bytes in base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

}  // namespace

void TextChanges::take(const HfObject& step) {
  const std::string type = step.type();
  if (type == "Replace") return take_replace(step);
  if (type == "BertNormalizer") return take_bert(step);
  const bool is_compatible = type == "NFKD" || type == "NFKC";
  if (type == "Lowercase") {
    step.expect_only({"type"});
    steps.push_back(fold_all([](uint32_t character) { return lower_cases(character); }));
  } else if (type == "Nmt") {
    step.expect_only({"type"});
    steps.push_back(fold_all(nmt_forms));
  } else if (is_compatible || type == "NFD" || type == "NFC") {
    step.expect_only({"type"});
    steps.push_back(decomposition(is_compatible));
    steps.push_back({.kind = TextStep::kOrder});
    if (type == "NFC" || type == "NFKC") steps.push_back({.kind = TextStep::kCompose});
    is_compatible_ = is_compatible;
  } else if (type == "StripAccents") {
    step.expect_only({"type"});
    // Marks need no order before they go.
    const bool is_decomposed = !steps.empty() && steps.back().kind == TextStep::kOrder;
    if (is_decomposed) steps.resize(steps.size() - 2);
    steps.push_back(drop_accents(is_decomposed, is_compatible_));
  } else if (type == "Prepend") {
    step.expect_only({"type", "prepend"});
    std::vector<uint32_t> prefix = code_points(step.text("prepend"));
    std::ranges::reverse(prefix);  // each goes before the ones after it
    for (const uint32_t character : prefix) {
      steps.push_back({.kind = TextStep::kPrepend, .becomes = character});
    }
  } else if (type == "Strip") {
    step.expect_only({"type", "strip_left", "strip_right"});
    const uint32_t sides =
        (step.flag("strip_left", true) ? 1u : 0u) | (step.flag("strip_right", true) ? 2u : 0u);
    if (sides != 0) steps.push_back({.kind = TextStep::kStrip, .sides = sides});
  } else if (type == "Precompiled") {
    step.expect_only({"type", "precompiled_charsmap"});
    if (!charsmap_.empty()) step.refuse("type", "one step of this type; this is the second");
    const char* const field = "precompiled_charsmap";
    take_charsmap(decode_base64(step, field), fmt::format("{}, {}", step.file_name(), field),
                  false);
  } else {
    step.refuse("type",
                "a supported step: NFC, NFD, NFKC, NFKD, StripAccents, Lowercase, Replace, "
                "Prepend, Strip, Precompiled, Nmt, BertNormalizer");
  }
}

WordRules bert_rules(const HfObject& step) {
  step.expect_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  WordRules rules;
  rules.drops_controls = step.flag("clean_text", true);
  rules.lowers_case = step.flag("lowercase", true);
  rules.strips_accents = step.flag("strip_accents", rules.lowers_case);
  return rules;
}

void TextChanges::take_bert(const HfObject& step) {
  const WordRules rules = bert_rules(step);
  TextChange drop = {.kind = TextStep::kDrop};
  TextChange change = fold_all([&](uint32_t character) {
    if (rules.strips_accents && is_hangul_syllable(character)) return std::vector{character};
    std::vector<uint32_t> becomes = word_forms(rules, character);
    if (!becomes.empty()) return becomes;
    append_to_ranges(drop.from, character);
    return std::vector{character};
  });
  change.decomposes_hangul = rules.strips_accents;
  if (!drop.from.empty()) steps.push_back(std::move(drop));
  steps.push_back(std::move(change));
}

void TextChanges::take_replace(const HfObject& step) {
  step.expect_only({"type", "pattern", "content"});
  const HfObject pattern = step.object("pattern");
  const std::vector<uint32_t> content = code_points(step.text("content"));
  if (pattern.has("String")) {
    pattern.expect_only({"String"});
    TextChange change = {.kind = TextStep::kReplace, .to = content};
    change.from = code_points(pattern.text("String"));
    if (change.from.empty()) step.refuse("pattern", "a text that is not empty");
    steps.push_back(std::move(change));
    return;
  }
  pattern.expect_only({"Regex"});
  for (const SpaceExpression& known : kSpaceExpressions) {
    if (pattern.text("Regex") != known.expression) continue;
    if (content.size() != 1) step.refuse("content", "one character");
    if (known.least > 0) {
      steps.push_back({.kind = TextStep::kShrink,
                       .of = known.all_spaces ? 1u : 0u,
                       .least = known.least,
                       .becomes = content[0]});
    }
    if (!known.controls.empty()) steps.push_back(fold_controls(known.controls, content[0]));
    return;
  }
  const std::string place = fmt::format("{}, normalizer", step.file_name());
  const std::optional<SetExpression> set = parse_set(pattern.text("Regex"), place);
  size_t characters = 0;
  if (set) {
    for (const auto& [first, last] : set->set.ranges()) characters += last - first + 1;
  }
  // kShrink has other meanings for U+0000 and U+0001.
  const bool is_run_of_two = set && set->is_run && characters <= 2;
  if (characters == 0 || (is_run_of_two && set->set.ranges().back().second < 2) ||
      (characters > format::kFoldsMax / 2 && !content.empty())) {
    step.refuse("pattern",
                "a String, or a Regex for white space such as \" {2,}\", for a small set of "
                "characters, or for a run of them");
  }
  replace_set(set->set, set->is_run, content);
}

// A run becomes one character of its set, and that character the content:
//   "[0-9]+" to "N":  "1234"  ->  "9999"  ->  "9"  ->  "N"
void TextChanges::replace_set(const CharacterSet& set, bool is_run,
                              const std::vector<uint32_t>& content) {
  const uint32_t one = set.ranges().back().second;
  TextChange drop = {.kind = TextStep::kDrop};
  TextChange fold = {.kind = TextStep::kFold};
  for (const auto& [first, last] : set.ranges()) {
    drop.from.insert(drop.from.end(), {first, last});
    if (content.empty()) continue;
    for (uint32_t c = first; c <= last; ++c) fold.folds[c] = is_run ? std::vector{one} : content;
  }
  if (content.empty()) return steps.push_back(std::move(drop));
  steps.push_back(std::move(fold));
  if (!is_run) return;
  steps.push_back({.kind = TextStep::kShrink, .of = one, .least = 1, .becomes = one});
  steps.push_back({.kind = TextStep::kReplace, .from = {one}, .to = content});
}

void TextChanges::take_charsmap(std::string_view charsmap, const std::string& place,
                                bool maps_longest) {
  uint32_t array_bytes = 0;
  refuse_if(charsmap.size() < sizeof array_bytes, "{} is truncated", place);
  std::memcpy(&array_bytes, charsmap.data(), sizeof array_bytes);
  charsmap.remove_prefix(sizeof array_bytes);
  refuse_if(array_bytes == 0 || array_bytes % 4 != 0 || array_bytes > charsmap.size() ||
                charsmap.size() > 4 * (format::kCharsmapMax - 3),
            "{} has {} bytes, {} of them for its double array: it is damaged, or larger than a "
            "model file holds",
            place, charsmap.size(), array_bytes);
  const size_t text_bytes = charsmap.size() - array_bytes;
  charsmap_.assign(2 + array_bytes / 4 + (text_bytes + 3) / 4, 0);
  charsmap_[0] = array_bytes / 4;
  charsmap_[1] = static_cast<uint32_t>(text_bytes);
  std::memcpy(&charsmap_[2], charsmap.data(), charsmap.size());
  steps.push_back({.kind = TextStep::kCharsmap, .maps_longest = maps_longest});
}

// Normal form C keeps white space, except for two kinds of spaces.
bool TextChanges::keep_normal_form() const {
  return std::ranges::all_of(steps, [](const TextChange& change) {
    return change.kind == TextStep::kShrink || change.kind == TextStep::kStrip ||
           (change.kind == TextStep::kFold && !change.folds.empty() &&
            change.folds.rbegin()->first < ' ');
  });
}

void TextChanges::apply(TokenizerSpec& spec) const {
  spec.changes = steps;
  spec.charsmap = charsmap_;
  const auto maps_graphemes = [](const TextChange& change) {
    return change.kind == TextStep::kCharsmap && !change.maps_longest;
  };
  if (std::ranges::any_of(steps, maps_graphemes)) spec.graphemes = grapheme_ranges();
}

}  // namespace arenite::convert
