// SPDX-License-Identifier: Apache-2.0
// What a post-processor puts around texts, and whether that is what a model file can say.
#include "convert/tokenizers/tokenizer_readers.h"

#include <algorithm>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/json_file.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

struct Element {
  TokenId token = kNoToken;  // kNoToken: a text
  std::string text = {};     // its name
  uint64_t type = 0;
};

TokenId read_id(const HfObject& object, std::string_view field, const json& id,
                std::string_view expected) {
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= format::kVocabularyMax) {
    object.refuse(field, expected);
  }
  return id.get<TokenId>();
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

std::vector<Element> read_template(const HfObject& step, const std::string& field,
                                   const std::string& file_name) {
  const json& list = step.at(field);
  if (!list.is_array()) step.refuse(field, "a list of texts and special tokens");
  std::vector<Element> elements;
  for (const json& element : list) {
    elements.push_back(read_element(
        step, HfObject(element, file_name, fmt::format("{}.{}", step.place(), field))));
  }
  return elements;
}

void take_single(HfFrame& frame, const HfObject& step, const std::vector<Element>& elements) {
  const char* const expected = "one text, and at most one token before and one after it";
  bool text_seen = false;
  for (const Element& element : elements) {
    TokenId& place = text_seen ? frame.end : frame.begin;
    const bool is_text = element.token == kNoToken;
    if (is_text ? text_seen : place != kNoToken) step.refuse("single", expected);
    if (is_text) {
      text_seen = true;
    } else {
      place = element.token;
    }
  }
  if (!text_seen) step.refuse("single", expected);
}

// What the template must be for so many separators: as for one text, with ends between.
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
  if (frame.end == kNoToken) return;
  const auto is_same = [](const Element& a, const Element& b) {
    return a.token == b.token && a.text == b.text && a.type == b.type;
  };
  for (uint32_t separators = 1; separators <= format::kPairSeparatorsMax; ++separators) {
    for (const uint64_t type : {uint64_t{0}, uint64_t{1}}) {
      const std::vector<Element> expected = pair_template(frame, separators, type);
      if (std::equal(elements.begin(), elements.end(), expected.begin(), expected.end(), is_same)) {
        frame.pair_separators = separators;
        frame.second_has_type1 = type == 1;
      }
    }
  }
}

// A token as its text and its id.
TokenId read_token(const HfObject& step, std::string_view field) {
  const char* const expected = "a token and its id";
  const json& token = step.at(field);
  if (!token.is_array() || token.size() != 2) step.refuse(field, expected);
  return read_id(step, field, token[1], expected);
}

}  // namespace

FrameCheck::FrameCheck(TokenizerSpec& spec)
    : spec_(spec),
      begin_((spec.flags & format::kAddBos) != 0 ? spec.bos : kNoToken),
      end_((spec.flags & format::kAddEnd) != 0 ? spec.ends.front() : kNoToken) {}

void FrameCheck::begin_is(const HfObject& config, std::string_view field,
                          std::span<const TokenId> tokens) {
  check_place(config, field, tokens, "begin", begin_);
}

void FrameCheck::end_is(const HfObject& config, std::string_view field,
                        std::span<const TokenId> tokens) {
  check_place(config, field, tokens, "end", end_);
}

void FrameCheck::check_additions(const HfObject& config) {
  const struct {
    const char* field;
    const char* place;
    TokenId actual;
  } additions[] = {{"add_bos_token", "begin", begin_}, {"add_eos_token", "end", end_}};
  for (const auto& addition : additions) {
    const bool is_added = addition.actual != kNoToken;
    if (config.flag(addition.field, is_added) == is_added) continue;
    note(config, addition.field, addition.place, addition.actual);
  }
}

void FrameCheck::check_place(const HfObject& config, std::string_view field,
                             std::span<const TokenId> tokens, const char* place, TokenId actual) {
  if (actual == kNoToken || tokens.empty()) return;
  if (std::find(tokens.begin(), tokens.end(), actual) != tokens.end()) return;
  note(config, field, place, actual);
}

void FrameCheck::note(const HfObject& config, std::string_view field, const char* place,
                      TokenId actual) {
  const std::string with =
      actual == kNoToken
          ? "no token"
          : fmt::format("token {}, {}", actual,
                        actual < spec_.tokens.size() ? quote(spec_.tokens[actual]) : "unknown");
  spec_.notes.push_back(fmt::format("{}: {} is {}; yet texts {} with {}, as {} says",
                                    config.file_name(), field, show(config.at(field)), place, with,
                                    quote(spec_.origin)));
}

void take_post_processor(HfFrame& frame, const HfObject& step, const std::string& file_name) {
  const std::string type = step.type();
  if (type == "ByteLevel") return;  // changes offsets only
  if (frame.is_said) {
    step.refuse("type", "one step that puts tokens around a text; this is the second");
  }
  frame.is_said = true;
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    // RobertaProcessing's other two fields change offsets only, too.
    step.expect_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    const bool is_bert = type == "BertProcessing";
    frame = {.is_said = true,
             .begin = read_token(step, "cls"),
             .end = read_token(step, "sep"),
             .pair_separators = is_bert ? 1u : 2u,
             .second_has_type1 = is_bert};
  } else if (type == "TemplateProcessing") {
    step.expect_only({"type", "single", "pair", "special_tokens"});
    take_single(frame, step, read_template(step, "single", file_name));
    if (step.has("pair")) take_pair(frame, read_template(step, "pair", file_name));
  } else {
    step.refuse("type",
                "a step that is supported: TemplateProcessing, BertProcessing, RobertaProcessing, "
                "ByteLevel");
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
  spec.pair_separators = frame.pair_separators;
  if (frame.second_has_type1) spec.flags |= format::kSecondHasType1;
}

}  // namespace arenite::convert
