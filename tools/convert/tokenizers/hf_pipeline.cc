// SPDX-License-Identifier: Apache-2.0
// Each kind of step is either translated, known to change nothing, or refused.
#include "convert/tokenizers/tokenizer_readers.h"

#include <string_view>
#include <vector>

#include "convert/files/error.h"
#include "convert/tokenizers/subwords.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

struct KnownPattern {
  std::string_view expression;
  format::Pattern pattern;
};

constexpr KnownPattern kPatterns[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     format::Pattern::kGpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     format::Pattern::kLlama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     format::Pattern::kQwen2},
};

[[noreturn]] void refuse_type(const HfObject& step, const char* supported) {
  step.refuse("type", fmt::format("a step that is supported: {}", supported));
}

void take_normalizer(HfPipeline& pipeline, const HfObject& step) {
  const std::string type = step.type();
  if (type == "Prepend") {
    step.expect_only({"type", "prepend"});
    step.expect("prepend", kLowLine);
    pipeline.prefix = format::Prefix::kAlways;
    pipeline.prefix_every_part = true;
  } else if (type == "Replace") {
    step.expect_only({"type", "pattern", "content"});
    step.expect("pattern", json{{"String", " "}});
    step.expect("content", kLowLine);
    pipeline.replaces_spaces = true;
  } else if (type == "NFC") {
    step.expect_only({"type"});
    pipeline.expects_nfc = true;
  } else {
    refuse_type(step, "Prepend, Replace, NFC");
  }
}

// Two patterns, one after the other, cut otherwise than either.
void set_pattern(HfPipeline& pipeline, const HfObject& step, format::Pattern pattern) {
  if (pipeline.pattern != format::Pattern::kNone) {
    step.refuse("type", "one step that cuts texts; this is the second");
  }
  pipeline.pattern = pattern;
}

void take_split(HfPipeline& pipeline, const HfObject& step) {
  step.expect_only({"type", "pattern", "behavior", "invert"});
  step.expect("invert", false, true);
  // Where the normalizer has replaced all spaces, cutting at spaces does nothing.
  if (pipeline.replaces_spaces && step.at("pattern") == json{{"String", " "}}) return;
  step.expect("behavior", "Isolated");
  for (const KnownPattern& known : kPatterns) {
    if (step.at("pattern") == json{{"Regex", known.expression}}) {
      set_pattern(pipeline, step, known.pattern);
      return;
    }
  }
  step.refuse("pattern", "the expression of GPT-2, Llama 3 or Qwen 2");
}

void take_metaspace(HfPipeline& pipeline, const HfObject& step) {
  step.expect_only(
      {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  step.expect("replacement", kLowLine);
  step.expect("str_rep", kLowLine, true);
  const std::string scheme = step.has("prepend_scheme")            ? step.text("prepend_scheme")
                             : step.flag("add_prefix_space", true) ? "always"
                                                                   : "never";
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    step.refuse("prepend_scheme", "always, first or never");
  }
  pipeline.replaces_spaces = true;
  if (scheme != "never") pipeline.prefix = format::Prefix::kUnlessSpace;
  pipeline.prefix_every_part = scheme == "always";
  if (step.flag("split", true)) set_pattern(pipeline, step, format::Pattern::kSpaces);
}

void take_pre_tokenizer(HfPipeline& pipeline, const HfObject& step) {
  const std::string type = step.type();
  if (pipeline.is_byte_level && type != "ByteLevel") {
    step.refuse("type", "no step after ByteLevel");
  }
  if (type == "Split") {
    take_split(pipeline, step);
  } else if (type == "Metaspace") {
    take_metaspace(pipeline, step);
  } else if (type == "Digits") {
    step.expect_only({"type", "individual_digits"});
    step.expect("individual_digits", true);
    set_pattern(pipeline, step, format::Pattern::kDigits);
  } else if (type == "ByteLevel") {
    step.expect_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (pipeline.is_byte_level) step.refuse("type", "one step of this type; this is the second");
    pipeline.is_byte_level = true;
    if (step.flag("add_prefix_space", true)) {
      if (pipeline.pattern != format::Pattern::kNone) {
        step.refuse("add_prefix_space", "false after another step");
      }
      pipeline.prefix = format::Prefix::kUnlessSpace;
      pipeline.prefix_every_part = true;
    }
    const bool cuts = step.flag("use_regex", true);
    if (pipeline.pattern == format::Pattern::kNone) {
      if (cuts) pipeline.pattern = format::Pattern::kGpt2;
    } else if (cuts != (pipeline.pattern == format::Pattern::kDigits)) {
      step.refuse("use_regex", cuts ? "false after a Split" : "true after Digits");
    }
  } else {
    refuse_type(step, "Split, Metaspace, Digits, ByteLevel");
  }
}

void take_decoder(HfPipeline& pipeline, const HfObject& step, bool& is_byte_level,
                  bool& replaces_spaces) {
  const std::string type = step.type();
  if (type == "ByteLevel") {
    is_byte_level = true;
  } else if (type == "Replace") {
    step.expect("pattern", json{{"String", kLowLine}});
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
    step.expect("replacement", kLowLine);
    replaces_spaces = true;
    const bool is_never = step.has("prepend_scheme") ? step.text("prepend_scheme") == "never"
                                                     : !step.flag("add_prefix_space", true);
    pipeline.drops_first_space = !is_never;
  } else if (type != "Fuse") {  // which joins the pieces, as is done anyway
    refuse_type(step, "ByteLevel, Replace, ByteFallback, Strip, Metaspace, Fuse");
  }
}

}  // namespace

void for_each_step(const HfObject& root, const std::string& file_name, const char* field,
                   const char* list_field, const std::function<void(const HfObject& step)>& take) {
  if (!root.has(field)) return;
  const HfObject first = root.object(field);
  if (first.type() != "Sequence") return take(first);
  first.expect_only({"type", list_field});
  const json& list = first.at(list_field);
  if (!list.is_array()) first.refuse(list_field, "a list of steps");
  for (size_t i = 0; i < list.size(); ++i) {
    const HfObject step(list[i], file_name, fmt::format("{}.{}[{}]", field, list_field, i));
    if (step.type() == "Sequence") step.refuse("type", "a step, not a sequence in a sequence");
    take(step);
  }
}

HfPipeline read_hf_pipeline(const json& root_value, const std::string& file_name) {
  const HfObject root(root_value, file_name, "");
  HfPipeline pipeline;
  for_each_step(root, file_name, "normalizer", "normalizers",
                [&](const HfObject& step) { take_normalizer(pipeline, step); });
  for_each_step(root, file_name, "pre_tokenizer", "pretokenizers",
                [&](const HfObject& step) { take_pre_tokenizer(pipeline, step); });
  bool decodes_bytes = false;
  bool decodes_spaces = false;
  for_each_step(root, file_name, "decoder", "decoders", [&](const HfObject& step) {
    take_decoder(pipeline, step, decodes_bytes, decodes_spaces);
  });
  for_each_step(root, file_name, "post_processor", "processors", [&](const HfObject& step) {
    take_post_processor(pipeline.frame, step, file_name);
  });
  if (pipeline.is_byte_level == pipeline.replaces_spaces ||
      pipeline.is_byte_level != decodes_bytes || pipeline.replaces_spaces != decodes_spaces) {
    throw InputError(
        "{}: normalizer, pre_tokenizer and decoder do not belong together: expected ByteLevel in "
        "pre_tokenizer and decoder, or spaces replaced by U+2581 and replaced back by the decoder",
        file_name);
  }
  return pipeline;
}

}  // namespace arenite::convert
