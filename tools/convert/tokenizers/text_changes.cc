// SPDX-License-Identifier: Apache-2.0
// Converts steps to tables of characters, by utf8proc; SentencePiece's map is kept as it is.
#include "convert/tokenizers/text_changes.h"

#include <cstring>
#include <memory>
#include <utility>

#include "convert/files/error.h"
#include "convert/tokenizers/unicode_library.h"
#include "core/utf8.h"

namespace arenite::convert {
namespace {

using format::TextStep;
using nlohmann::json;

std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> list;
  for (size_t i = 0; i < text.size();) {
    const CodePoint next = decode_utf8(text.substr(i));
    list.push_back(next.value);
    i += next.bytes;
  }
  return list;
}

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
  if (open_ && type != "StripAccents")
    open_->refuse("type", "NFC, or this step followed by StripAccents");
  if (type == "Replace") {
    take_replace(step);
  } else if (type == "Lowercase") {
    step.expect_only({"type"});
    steps.push_back(fold_all([](uint32_t character) { return lower_cases(character); }));
  } else if (type == "NFD" || type == "NFKD") {
    step.expect_only({"type"});
    open_ = std::make_shared<HfObject>(step);
  } else if (type == "StripAccents") {
    step.expect_only({"type"});
    steps.push_back(drop_accents(open_ != nullptr, open_ && open_->type() == "NFKD"));
    open_ = nullptr;
  } else if (type == "Strip") {
    step.expect_only({"type", "strip_left", "strip_right"});
    const uint32_t sides =
        (step.flag("strip_left", true) ? 1u : 0u) | (step.flag("strip_right", true) ? 2u : 0u);
    if (sides != 0) steps.push_back({.kind = TextStep::kStrip, .sides = sides});
  } else if (type == "Precompiled") {
    step.expect_only({"type", "precompiled_charsmap"});
    if (!charsmap_.empty()) step.refuse("type", "one step of this type; this is the second");
    const char* const field = "precompiled_charsmap";
    take_charsmap(decode_base64(step, field), fmt::format("{}, {}", step.file_name(), field));
  } else {
    step.refuse("type",
                "a supported step: NFC at first, Replace, Lowercase, Strip, Precompiled, "
                "StripAccents, alone or after NFD or NFKD");
  }
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
                       .all_spaces = known.all_spaces,
                       .least = known.least,
                       .becomes = content[0]});
    }
    if (!known.controls.empty()) steps.push_back(fold_controls(known.controls, content[0]));
    return;
  }
  step.refuse("pattern", "a String, or a Regex for white space such as \" {2,}\" or \"\\s+\"");
}

void TextChanges::take_charsmap(std::string_view charsmap, const std::string& place) {
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
  steps.push_back({.kind = TextStep::kCharsmap});
}

// Normal form C keeps white space, except for two kinds of spaces.
bool TextChanges::keep_normal_form() const {
  for (const TextChange& change : steps) {
    const bool is_space = change.kind == TextStep::kShrink || change.kind == TextStep::kStrip ||
                          (change.kind == TextStep::kFold && change.folds.rbegin()->first < ' ');
    if (!is_space) return false;
  }
  return !open_;
}

void TextChanges::apply(TokenizerSpec& spec) const {
  if (open_) open_->refuse("type", "NFC, or this step followed by StripAccents");
  spec.changes = steps;
  spec.charsmap = charsmap_;
  if (!charsmap_.empty()) spec.graphemes = grapheme_ranges();
}

}  // namespace arenite::convert
